// What the views of one recording share, and who is reported when it changes.

import { bands_of, by_match } from "./groups";
import type { Gap } from "./gap";
import type { Groups } from "./groups";
import type { Note } from "./notes";
import { Recording, Series } from "./recording";

export type Change = "view" | "cursor" | "chosen" | "groups" | "theme" | "pointer" | "notes";

export const MATCH = "match";
const LEAST_MOMENTS = 16;
const LEAST_PART = 1 / 4096; // of the scale, that a vertical zoom ends at

// All that a link or an undo brings back; what is null or empty is as it is when the page opens.
export interface Look {
	from: number;
	to: number;
	low: number;
	high: number | null;
	cursor: number;
	mark: number | null;
	chosen: number | null;
	mode: string;
	hidden: number[];
	lowest: boolean;
	fit: boolean;
	notes: Note[];
}

export class State {
	from = 0; // the part of the recording that is shown, in moments
	to: number;
	low = 0; // the bytes at the bottom and at the top; null: as the scale says
	high: number | null = null;
	cursor: number;
	mark: number | null = null; // the other end of a growth
	chosen: number | null = null; // row of an allocation
	mode = "category"; // a row of `groupings`, or MATCH
	hidden = new Set<number>(); // bands that are not drawn
	lowest = false; // show the lowest moment of each column instead of the highest
	fit = false; // scale to what is visible
	top: number | null = null; // the scale, where two recordings share one
	pointed: number | null = null; // the moment under the pointer
	hover: number | null = null; // that of a linked recording
	groups: Groups;
	match_name = "";
	gap: Gap | null = null; // as soon as it is known
	gap_band: number | null = null; // the one that is chosen
	notes: Note[] = [];
	found: Uint8Array | null = null; // of each allocation: was it found?
	private kept = new Map<string, Groups>();
	private told: ((change: Change) => void)[] = [];
	private seen: { groups: Groups; key: string; series: Series } | null = null;

	constructor(readonly recording: Recording) {
		this.to = Math.max(1, recording.events);
		this.cursor = recording.death_moment ?? recording.peak_moment;
		this.groups = bands_of(recording, "category");
		this.kept.set("category", this.groups);
	}

	on(listener: (change: Change) => void): void {
		this.told.push(listener);
	}

	tell(change: Change): void {
		for (const listener of this.told) listener(change);
	}

	look(from: number, to: number): void {
		const end = Math.max(1, this.recording.events);
		const width = Math.min(end, Math.max(Math.min(LEAST_MOMENTS, end), to - from));
		this.from = Math.max(0, Math.min(from + (to - from - width) / 2, end - width));
		this.to = this.from + width;
		this.tell("view");
	}

	zoom(times: number, around: number): void {
		const left = (around - this.from) * times;
		const right = (this.to - around) * times;
		this.look(around - left, around + right);
	}

	pan(moments: number): void {
		const width = this.to - this.from;
		const from = Math.max(0, Math.min(this.recording.events - width, this.from + moments));
		this.look(from, from + width);
	}

	// The heights from `low` to `high` bytes of a picture that is `scale` bytes high; all of it: as at first.
	stand(low: number, high: number, scale: number): void {
		const height = Math.min(scale, Math.max(scale * LEAST_PART, high - low));
		this.low = Math.max(0, Math.min(low, scale - height));
		this.high = height >= scale ? null : this.low + height;
		this.tell("view");
	}

	go(moment: number): void {
		this.cursor = Math.max(0, Math.min(this.recording.events, Math.round(moment)));
		const width = this.to - this.from;
		if (this.cursor < this.from || this.cursor > this.to)
			this.look(this.cursor - width / 2, this.cursor + width / 2);
		this.tell("cursor");
	}

	point(m: number | null): void {
		if (m === this.pointed) return;
		this.pointed = m;
		this.tell("pointer");
	}

	choose(a: number | null): void {
		this.chosen = a;
		this.tell("chosen");
	}

	set_notes(notes: Note[]): void {
		this.notes = notes;
		this.tell("notes");
	}

	// Show a span with some room around it.
	span(from: number, to: number): void {
		const room = Math.max(8, (to - from) * 0.25);
		this.look(from - room, to + room);
	}

	set_mode(mode: string): void {
		if (mode === MATCH && !this.kept.has(MATCH)) return;
		let groups = this.kept.get(mode);
		if (!groups) this.kept.set(mode, (groups = bands_of(this.recording, mode)));
		if (groups !== this.groups) this.hidden.clear();
		this.mode = mode;
		this.groups = groups;
		this.tell("groups");
	}

	// Paint what was found; null: nothing is looked for.
	match(found: Uint8Array | null, name: string): void {
		this.match_name = name;
		this.found = found;
		if (found) {
			this.kept.set(MATCH, by_match(this.recording, found, name));
			this.set_mode(MATCH);
			return;
		}
		this.kept.delete(MATCH);
		if (this.mode === MATCH) this.set_mode("category");
		else this.tell("groups");
	}

	hide(bands: Iterable<number>): void {
		this.hidden = new Set(bands);
		this.low = 0;
		this.high = null;
		this.tell("groups");
	}

	// This band and no other; or all again.
	isolate(band: number): void {
		const others = this.groups.bands.map((_, b) => b).filter((b) => b !== band);
		const is_alone = this.hidden.size === others.length && !this.hidden.has(band);
		this.hide(is_alone ? [] : others);
	}

	set_gap(gap: Gap | null): void {
		this.gap = gap;
		this.tell("groups");
	}

	choose_gap(band: number | null): void {
		this.gap_band = band;
		this.tell("groups");
	}

	// What stands on the bands only where none of them is left out.
	get drawn_gap(): Gap | null {
		return this.hidden.size ? null : this.gap;
	}

	// The total that the picture draws, of all bands that are not hidden.
	get drawn(): Series {
		if (!this.hidden.size) return this.recording.allocated;
		const key = [...this.hidden].join();
		if (this.seen?.groups !== this.groups || this.seen.key !== key)
			this.seen = { groups: this.groups, key, series: this.groups.series(this.hidden) };
		return this.seen.series;
	}

	// The moments between which growth is asked for, the earlier first; null: only the cursor's counts.
	growth(): [number, number] | null {
		return this.mark === null
			? null
			: [Math.min(this.mark, this.cursor), Math.max(this.mark, this.cursor)];
	}

	set_mark(m: number | null): void {
		this.mark = m;
		this.tell("cursor");
	}

	// ---- what a link holds ----

	get now(): Look {
		const { from, to, low, high, cursor, mark, chosen, mode, lowest, fit, notes } = this;
		return {
			from,
			to,
			low,
			high,
			cursor,
			mark,
			chosen,
			mode,
			lowest,
			fit,
			notes,
			hidden: [...this.hidden],
		};
	}

	// What a link says may be of another recording: what does not fit this one is left out.
	restore(look: Look): void {
		const { recording } = this;
		const moment = (m: number) => Math.max(0, Math.min(recording.events, Math.round(m)));
		this.lowest = look.lowest;
		this.fit = look.fit;
		this.low = look.low;
		this.high = look.high !== null && look.high > look.low ? look.high : null;
		if (this.high === null) this.low = 0;
		this.mark = look.mark === null ? null : moment(look.mark);
		this.cursor = moment(look.cursor);
		this.chosen = look.chosen !== null && look.chosen < recording.rows ? look.chosen : null;
		this.notes = look.notes.filter(
			({ moment, row }) => moment <= recording.events && (row === null || row < recording.rows),
		);
		this.set_mode(look.mode);
		this.hidden = new Set(look.hidden.filter((b) => b < this.groups.bands.length));
		this.look(look.from, look.to);
		for (const change of ["groups", "cursor", "chosen", "notes"] as const) this.tell(change);
	}
}
