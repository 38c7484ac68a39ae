// What the verb that made the page says: its sentence above the pictures, its text below, and of ranks a table
// whose rows lead to their recordings.

import { el, fill, table } from "./dom";
import { type Sections, unpack } from "./page";
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

export interface Answer {
	verb: string; // "ranks", "plan", "whatif", "diff"
	name: string; // of its tab
	sentence: string[]; // the first is the headline
	text: string;
	ranks: RankRow[];
	worst: number; // into ranks
}

// Which paragraphs of each verb's text say it all.
const verbs: Record<string, { name: string; said: [number, number] }> = {
	ranks: { name: "Ranks", said: [0, 2] },
	plan: { name: "Plan", said: [1, 2] },
	whatif: { name: "What if", said: [1, 2] },
	diff: { name: "Difference", said: [1, 2] },
};

export async function read_answer(sections: Sections): Promise<Answer | null> {
	if (sections("plim-answer-text") === null) return null;
	const decode = async (id: string) => new TextDecoder().decode(await unpack(id, sections));
	const words = text.lines(await decode("plim-answer-text"));
	const result = JSON.parse(await decode("plim-answer-result")) as {
		schema?: string;
		rows?: RankRow[];
		worst_row?: number | null;
	};
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
	};
}

// A paragraph's first line, and what is told below it.
function said_in(paragraph: string): string[] {
	const [first, ...rest] = paragraph.trim().split("\n");
	const below = rest.map((line) => line.trim()).join(" ");
	return below ? [first, below] : [first];
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
		private open: (row: RankRow) => void,
	) {}

	show(): void {
		if (this.root.childElementCount) return;
		fill(
			this.root,
			this.answer.ranks.length ? this.ranks() : null,
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
			this.open,
			(r) => r === this.answer.ranks[this.answer.worst],
		);
	}
}
