// What the verb that made the page says: its sentence above the pictures, its text below, and of ranks a table
// whose rows lead to their recordings.

import type { Checkpoint } from "./ckpt";
import { el, fill, table } from "./dom";
import { type Sections, clean, unpack } from "./page";
import type { Panel } from "./panels";
import * as text from "./text";

// Of ranks/2 (docs/json.md) what the table has.
export interface RankRow {
	rank: number | null;
	path: string | null;
	member: string | null;
	error: string | null;
	events: number | null;
	allocated_peak_bytes: number | null;
	reserved_peak_bytes: number | null;
	peak_phase: string | null;
	died: {
		phase: string | null;
		step: number | null;
		requested_bytes: number;
		headline: string | null;
	} | null;
	leak_bytes: number | null;
}

// Of diff/2: who holds more or less at a moment.
interface DiffRow {
	name: string | null;
	a_name: string | null;
	match: string;
	inferred: boolean;
	a_bytes: number;
	b_bytes: number;
	change_bytes: number;
	a_count: number;
	b_count: number;
	category: string | null;
}

interface DiffMoment {
	a_event: number | null;
	b_event: number | null;
	rows: DiffRow[];
}

interface DiffDevice {
	device: number;
	at_peak: DiffMoment | null;
	at_end: DiffMoment | null;
}

// Of whatif/2: one run under other settings.
interface Run {
	settings: string;
	plan: boolean;
	limit_bytes: number | null;
	outcome: string;
	outcome_certain: boolean;
	reserved_peak_bytes: number | null;
	allocated_peak_bytes: number | null;
	smallest_limit_bytes: number | null;
	retries: number | null;
}

// What a row of a difference leads to, in each of the two recordings.
export interface Place {
	device: number;
	event: (number | null)[];
	query: (string | null)[];
}

export interface Opens {
	rank: (row: RankRow) => void;
	place: (place: Place) => void;
}

interface Result {
	schema?: string;
	rows?: RankRow[];
	worst_row?: number | null;
	devices?: DiffDevice[];
	runs?: Run[];
	tensors?: Checkpoint["tensors"];
}

export interface Answer {
	verb: string; // "ranks", "plan", "whatif", "diff"
	name: string; // of its tab
	sentence: string[]; // the first is the headline
	text: string;
	ranks: RankRow[];
	worst: number; // into ranks
	devices: DiffDevice[];
	runs: Run[];
	checkpoint: Checkpoint | null;
}

// Which paragraphs of each verb's text say it all.
const verbs: Record<string, { name: string; said: [number, number] }> = {
	ranks: { name: "Ranks", said: [0, 2] },
	plan: { name: "Plan", said: [1, 2] },
	whatif: { name: "What if", said: [1, 2] },
	diff: { name: "Difference", said: [1, 2] },
	ckpt: { name: "Checkpoint", said: [0, 1] },
	ckpt_diff: { name: "Checkpoints", said: [0, 1] },
};

export async function read_answer(sections: Sections): Promise<Answer | null> {
	if (sections("plim-answer-text") === null) return null;
	const decode = async (id: string) => new TextDecoder().decode(await unpack(id, sections));
	const words = text.lines(await decode("plim-answer-text"));
	const result = clean(JSON.parse(await decode("plim-answer-result"))) as Result;
	const verb = (result.schema ?? "").split("/")[0];
	const told = verbs[verb];
	if (!told) return null;
	const paragraphs = words.split(/\n\s*\n/);
	return {
		verb,
		name: told.name,
		sentence: paragraphs.slice(...told.said).flatMap(said_in),
		text: words,
		ranks: verb === "ranks" ? (result.rows ?? []) : [],
		worst: result.worst_row ?? 0,
		devices: verb === "diff" ? (result.devices ?? []) : [],
		runs: verb === "whatif" ? (result.runs ?? []) : [],
		checkpoint: verb.startsWith("ckpt") ? { ...result, tensors: result.tensors ?? [] } : null,
	};
}

// A paragraph's first line, and what is told below it.
function said_in(paragraph: string): string[] {
	const [first, ...rest] = paragraph.trim().split("\n");
	const below = rest.map((line) => line.trim()).join(" ");
	if (!below) return [first];
	// A sentence that runs on into the next line is told there.
	const end = /[.:]$/.test(first) ? -1 : first.lastIndexOf(". ");
	return end < 0 ? [first, below] : [first.slice(0, end + 1), `${first.slice(end + 2)} ${below}`];
}

export function sentence_of(answer: Answer): HTMLElement {
	return el(
		"section",
		{ class: "answer", "aria-label": answer.name },
		...answer.sentence.map((line, i) => el(i ? "p" : "h1", {}, line)),
	);
}

export class AnswerPanel implements Panel {
	readonly root = el("div", { class: "told" });

	constructor(
		private answer: Answer,
		private opens: Opens,
	) {}

	show(): void {
		if (this.root.childElementCount) return;
		fill(
			this.root,
			this.answer.ranks.length ? this.ranks() : null,
			...this.answer.devices.flatMap((d) => [
				this.moment(d, d.at_peak, "at the peak"),
				this.moment(d, d.at_end, "at the end"),
			]),
			this.answer.runs.length ? this.runs() : null,
			el("pre", { tabindex: 0, "aria-label": `${this.answer.name}, as text` }, this.answer.text),
		);
	}

	private ranks(): HTMLElement {
		const end = (r: RankRow) =>
			r.error ?? r.died?.headline ?? (r.leak_bytes === null ? "" : `leaks ${text.bytes(r.leak_bytes)}`);
		const name = (r: RankRow) => r.member ?? r.path ?? "";
		return table(
			"Recordings by rank; a press shows one",
			[
				{
					name: "rank",
					cell: (r) => (r.rank === null ? "-" : String(r.rank)),
					order: (r) => r.rank ?? Infinity,
				},
				{
					name: "allocated",
					number: true,
					cell: (r) => text.bytes(r.allocated_peak_bytes),
					order: (r) => r.allocated_peak_bytes ?? -1,
				},
				{
					name: "reserved",
					number: true,
					cell: (r) => text.bytes(r.reserved_peak_bytes),
					order: (r) => r.reserved_peak_bytes ?? -1,
				},
				{ name: "peak in", cell: (r) => r.peak_phase ?? "-", order: (r) => r.peak_phase ?? "" },
				{
					name: "asked for",
					number: true,
					cell: (r) => text.bytes(r.died?.requested_bytes),
					order: (r) => r.died?.requested_bytes ?? -1,
				},
				{ name: "what happened", cell: (r) => text.plain(end(r), 120) || "-", order: end },
				{ name: "file", cell: (r) => el("code", {}, text.plain(name(r), 160)), order: name },
			],
			this.answer.ranks,
			this.opens.rank,
			(r) => r === this.answer.ranks[this.answer.worst],
		);
	}

	private moment(device: DiffDevice, moment: DiffMoment | null, when: string): HTMLElement | null {
		if (!moment?.rows.length) return null;
		const many = this.answer.devices.length > 1 ? `, device ${device.device}` : "";
		const of_name = (name: string | null) => (name && / in |:\d/.test(name) ? `frame:"${name}"` : null);
		const open = (r: DiffRow) =>
			this.opens.place({
				device: device.device,
				event: [moment.a_event, moment.b_event],
				query: [of_name(r.a_name ?? r.name), of_name(r.name)],
			});
		const who = (r: DiffRow) => (r.inferred ? "(backward of) " : "") + (r.name ?? "no Python stack");
		const bytes = (name: string, of: (r: DiffRow) => number) => ({
			name,
			number: true,
			cell: (r: DiffRow) => text.bytes(of(r)),
			order: of,
		});
		return table(
			`What holds more or less ${when}${many}; a press shows it in both`,
			[
				{
					name: "change",
					number: true,
					cell: (r) => text.signed(r.change_bytes),
					order: (r) => Math.abs(r.change_bytes),
				},
				bytes("A", (r) => r.a_bytes),
				bytes("B", (r) => r.b_bytes),
				{
					name: "allocations",
					number: true,
					cell: (r) => `${text.count(r.a_count)} to ${text.count(r.b_count)}`,
					order: (r) => r.b_count - r.a_count,
				},
				{
					name: "found as",
					title: "how it was found in both: the same lines, moved ones, or only in one",
					cell: (r) => r.match.replace("_", " "),
					order: (r) => r.match,
				},
				{ name: "who", cell: (r) => el("code", {}, text.plain(who(r), 160)), order: who },
			],
			moment.rows,
			open,
		);
	}

	private runs(): HTMLElement {
		const bytes = (name: string, title: string, of: (r: Run) => number | null) => ({
			name,
			title,
			number: true,
			cell: (r: Run) => text.bytes(of(r)),
			order: (r: Run) => of(r) ?? -1,
		});
		const name = (r: Run) => (r.plan ? "Plimsoll's allocator" : r.settings || "defaults");
		return table(
			"The same requests under other settings",
			[
				{ name: "settings", cell: (r) => el("code", {}, text.plain(name(r), 160)), order: name },
				{
					name: "outcome",
					cell: (r) => (r.outcome_certain ? "" : "probably ") + text.plain(r.outcome, 40),
					order: (r) => r.outcome,
				},
				bytes("reserved", "the most that it takes from the driver", (r) => r.reserved_peak_bytes),
				bytes("allocated", "the most that is in use", (r) => r.allocated_peak_bytes),
				bytes("limit", "of reserved memory in this run", (r) => r.limit_bytes),
				bytes("least limit", "the smallest under which it survives", (r) => r.smallest_limit_bytes),
				{
					name: "retries",
					title: "how often it gave back what it cached and asked again",
					number: true,
					cell: (r) => text.count(r.retries),
					order: (r) => r.retries ?? -1,
				},
			],
			this.answer.runs,
		);
	}
}
