// What the command that made the page says: its sentence above the pictures, its text below, and of ranks a table
// whose rows lead to their recordings.

import type { Checkpoint } from "./ckpt";
import { el, fill, table } from "./dom";
import { type Sections, clean, unpack } from "./page";
import type { Panel } from "./panels";
import { BEFORE, NOBODY, nobody_words } from "./recording";
import * as text from "./text";

// The name of a row of diff/2: a place, a category, or nothing.
const owner_words = (name: string | null) =>
	name === null ? nobody_words(NOBODY) : name === "before_recording" ? nobody_words(BEFORE) : name;

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

// Of plan/2: what each phase takes, what lives at the peak, and what would make it fit.
interface Plan {
	phases: {
		phase: string;
		allocated_bytes: number | null;
		allocated_peak_bytes: number | null;
		reserved_peak_bytes: number | null;
	}[];
	peak: { categories: Record<string, number> } | null;
	ladder: Rung[];
	sweep: Swept[];
	dies_at: string | null;
}

interface Swept {
	batch: number;
	sequence: number;
	allocated_bytes: number | null;
	reserved_bytes: number | null;
	needed_bytes: number | null;
	fits: boolean | null;
	dies_at: string | null;
}

interface Rung {
	rung: string;
	cost: string | null;
	saved_bytes: number | null;
	needed_bytes: number | null;
	fits: boolean | null;
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
	phases?: Plan["phases"];
	peak?: Plan["peak"];
	ladder?: Rung[];
	sweep?: Swept[];
	dies_at?: string | null;
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
	plan: Plan | null;
	helps: string[]; // what to do, where the verb knows
	checkpoint: Checkpoint | null;
}

// Which paragraphs of each command's text say it all.
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
		plan: verb === "plan" ? plan_in(result) : null,
		helps: verb === "plan" ? (result.ladder ?? []).map(rung_words) : [],
		checkpoint: verb.startsWith("ckpt") ? { ...result, tensors: result.tensors ?? [] } : null,
	};
}

function plan_in(result: Result): Plan {
	const { phases = [], peak = null, ladder = [], sweep = [], dies_at = null } = result;
	return { phases, peak, ladder, sweep, dies_at };
}

function rung_words(rung: Rung): string {
	const fits = rung.fits === null ? "" : rung.fits ? ", fits" : ", does not fit yet";
	return `${rung.rung}${rung.cost ? ` (${rung.cost})` : ""}: needs ${text.bytes(rung.needed_bytes)}${fits}`;
}

// "fwd0" as "forward 0".
const phase_words: Record<string, string> = {
	fwd: "forward",
	bwd: "backward",
	opt: "optimizer",
	zero: "zero_grad",
};

function phase_name(id: string): string {
	const [, word, number] = /^([a-z_]+?)(\d*)$/.exec(id) ?? ["", id, ""];
	return `${phase_words[word] ?? word}${number && " " + number}`;
}

const WIDTH = 80; // of the text

// A paragraph's first line, and what is reported below it: a line that had room for the next one's first word ends
// what it shows.
function said_in(paragraph: string): string[] {
	const [first, ...rest] = paragraph.trim().split("\n");
	let below = "";
	rest.forEach((line, i) => {
		const before = rest[i - 1] ?? first;
		const runs_on = before.length + 1 + line.trim().split(" ")[0].length > WIDTH;
		below += (!below ? "" : runs_on || /[.;:]$/.test(before) ? " " : "; ") + line.trim();
	});
	if (!below) return [first];
	// A sentence that runs on into the next line is reported there.
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
			...(this.answer.plan ? this.plan(this.answer.plan) : []),
			el("pre", { tabindex: 0, "aria-label": `${this.answer.name}, as text` }, this.answer.text),
		);
	}

	private ranks(): HTMLElement {
		const end = (r: RankRow) =>
			r.error ?? r.died?.headline ?? (r.leak_bytes === null ? "" : `leaks ${text.bytes(r.leak_bytes)}`);
		const path = (r: RankRow) => r.member ?? r.path ?? "";
		const folder = text.folder_of(this.answer.ranks.map(path));
		const name = (r: RankRow) => path(r).slice(folder.length);
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
		const of_name = (name: string | null) => (name && / in |:\d/.test(name) ? `stack:"${name}"` : null);
		const open = (r: DiffRow) =>
			this.opens.place({
				device: device.device,
				event: [moment.a_event, moment.b_event],
				query: [of_name(r.a_name ?? r.name), of_name(r.name)],
			});
		const who = (r: DiffRow) => (r.inferred ? "(backward of) " : "") + owner_words(r.name);
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
					number: true,
					cell: (r) => text.count(r.retries),
					order: (r) => r.retries ?? -1,
				},
			],
			this.answer.runs,
		);
	}

	private plan(plan: Plan): HTMLElement[] {
		const bytes = <T>(name: string, of: (row: T) => number | null) => ({
			name,
			number: true,
			cell: (row: T) => text.bytes(of(row)),
			order: (row: T) => of(row) ?? -1,
		});
		const name = (phase: string) => phase_name(phase) + (phase === plan.dies_at ? ": dies" : "");
		const held = Object.entries(plan.peak?.categories ?? {})
			.filter(([, n]) => n > 0)
			.sort((a, b) => b[1] - a[1]);
		const out = [
			table(
				"Phases, by step",
				[
					{ name: "phase", cell: (p: Plan["phases"][0]) => text.plain(name(p.phase), 60) },
					bytes("peak allocated", (p: Plan["phases"][0]) => p.allocated_peak_bytes),
					bytes("peak reserved", (p: Plan["phases"][0]) => p.reserved_peak_bytes),
					bytes("left allocated", (p: Plan["phases"][0]) => p.allocated_bytes),
				],
				plan.phases,
			),
			table(
				"Held at the peak",
				[
					{ name: "what", cell: ([what]) => what.replace(/_bytes$/, "").replace(/_/g, " ") },
					bytes("bytes", ([, n]: [string, number]) => n),
				],
				held,
			),
		];
		const ladder: HTMLElement = table(
			"What would make it fit, step by step",
			[
				{ name: "change", cell: (r) => text.plain(r.rung, 120) },
				{ name: "time, estimated", cell: (r) => text.plain(r.cost ?? "-", 80) },
				bytes("saves", (r: Rung) => r.saved_bytes),
				bytes("needed", (r: Rung) => r.needed_bytes),
				{ name: "fits", cell: (r) => (r.fits === null ? "-" : r.fits ? "yes" : "no") },
			],
			plan.ladder,
		);
		const fits = (s: Swept) =>
			s.fits === null
				? "-"
				: s.fits
					? "yes"
					: `no${s.dies_at ? `, dies in ${phase_name(s.dies_at)}` : ""}`;
		const sweep: HTMLElement = table(
			"The same run with other batches or sequences",
			[
				{ name: "batch", number: true, cell: (s) => text.count(s.batch), order: (s) => s.batch },
				{
					name: "sequence",
					number: true,
					cell: (s) => text.count(s.sequence),
					order: (s) => s.sequence,
				},
				bytes("allocated", (s: Swept) => s.allocated_bytes),
				bytes("reserved", (s: Swept) => s.reserved_bytes),
				bytes("needed", (s: Swept) => s.needed_bytes),
				{ name: "fits", cell: fits },
			],
			plan.sweep,
		);
		return [...(plan.sweep.length ? [sweep] : []), ...(plan.ladder.length ? [ladder] : []), ...out];
	}
}
