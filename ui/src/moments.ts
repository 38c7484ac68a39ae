// Which part of a recording shows best what happened: where the page opens, and where jumps and findings lead.

import type { Recording } from "./recording";

export interface Place {
	from: number; // moments
	to: number;
	moment: number;
}

const LEAK_PERIODS = 3;
const SMALL = 8; // a part of the view in which something cannot be told from what is beside it

// The step around a moment; of a long one, or without steps, so many events that each has a column of its own.
function around(recording: Recording, m: number, columns: number, before: number): Place {
	const step = recording.step_at(m);
	const first = step ? step.start_event : 0;
	const last = step ? step.end_event + 1 : recording.events;
	if (last - first <= columns) return { from: first, to: last, moment: m };
	const from = Math.max(first, m - columns * before);
	return { from, to: Math.min(last, from + columns), moment: m };
}

// What led to it stands in front of it, and little comes behind.
export function place_of_death(recording: Recording, columns: number): Place {
	const m = recording.death_moment ?? recording.events;
	const { from } = around(recording, m, columns, 1);
	return { from, to: m + Math.max(2, (m - from) * 0.06), moment: m };
}

export function place_around(recording: Recording, moment: number, columns: number): Place {
	return around(recording, moment, 4 * columns, 0.5);
}

export function place_of_peak(recording: Recording, columns: number): Place {
	return place_around(recording, recording.peak_moment, columns);
}

export function place_of_end(recording: Recording, columns: number): Place {
	const { events } = recording;
	return { ...around(recording, events, columns, 1), moment: events };
}

// The rows that a finding is about; where the report has none, those of the stack that it names.
export function rows_of_finding(recording: Recording, finding: number): ArrayLike<number> {
	const shown = recording.shown(finding);
	const stack = recording.head.show[finding]?.stack ?? null;
	if (shown.length || stack === null || recording.device.findings[finding]?.id === "oom") return shown;
	const rows: number[] = [];
	for (let a = 0; a < recording.rows; a++) if (recording.stack[a] === stack + 1) rows.push(a);
	return rows;
}

// When these rows hold most, and how much.
export function fullest(recording: Recording, rows: ArrayLike<number>): { moment: number; bytes: number } {
	const { born, freed, block } = recording;
	const turns: [number, number][] = [];
	for (let i = 0; i < rows.length; i++) {
		turns.push([born[rows[i]], block[rows[i]]]);
		if (freed[rows[i]]) turns.push([freed[rows[i]], -block[rows[i]]]);
	}
	turns.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
	const best = { moment: recording.peak_moment, bytes: 0 };
	let now = 0;
	for (const [m, bytes] of turns) {
		now += bytes;
		if (now > best.bytes) {
			best.bytes = now;
			best.moment = m;
		}
	}
	return best;
}

// A leak: its first periods.  Else the step in which its rows hold most, or their lives, where they are short.
export function place_of_finding(recording: Recording, finding: number, columns: number): Place {
	const show = recording.head.show[finding];
	const leak = recording.device.leaks?.find((l) => l.finding === finding);
	if (leak) {
		const period = (leak.last_event - leak.first_event) / Math.max(1, leak.repetitions - 1);
		const to = Math.min(recording.events, leak.first_event + 1 + LEAK_PERIODS * period);
		return { from: leak.first_event, to, moment: Math.round(to) };
	}
	if (recording.device.findings[finding]?.id === "oom") return place_of_death(recording, columns);
	const rows = rows_of_finding(recording, finding);
	const moment = show?.moment ?? fullest(recording, rows).moment;
	if (show && show.from !== null && show.to !== null && show.to > show.from)
		return { from: show.from, to: show.to, moment };
	const place = around(recording, moment, 4 * columns, 0.5);
	let from = Infinity;
	let to = -Infinity;
	for (let i = 0; i < rows.length; i++) {
		const a = rows[i];
		if (!recording.lives(a, moment)) continue;
		from = Math.min(from, recording.born[a]);
		to = Math.max(to, recording.freed[a] || recording.events);
	}
	return to >= from && to - from < (place.to - place.from) / SMALL
		? { from: from - (to - from), to: to + (to - from), moment }
		: place;
}

export function opening(recording: Recording, columns: number): Place {
	const { findings, leaks } = recording.device;
	if (recording.death) return place_of_death(recording, columns);
	const leak = leaks?.find((l) => findings[l.finding]?.severity !== "info");
	if (leak) return place_of_finding(recording, leak.finding, columns);
	return place_of_peak(recording, columns);
}
