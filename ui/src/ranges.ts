// The ranges that the program named: record_function, and user_metadata of its allocations.  They lie in lanes in which
// none overlaps another, the outer ones first.

import { code, el, fill, table } from "./dom";
import type { Column, Source } from "./page";
import type { Panel } from "./panels";
import { type Recording, last_at_or_before } from "./recording";
import type { State } from "./state";
import * as text from "./text";

const START_MISSING = 1;
const END_MISSING = 2;
const USER_METADATA = 4;
const MOST_LANES = 3; // that are drawn

export interface RangeTotal {
	name: string;
	kind: string;
	count: number;
	bytes: number; // allocated within; of ranges in ranges of the same name once
	peak: number;
	fullest: number; // the range in which the peak is
}

export class Ranges {
	readonly from: Column;
	readonly to: Column; // what is allocated in it is born in (from, to]
	readonly lanes: Uint32Array[] = []; // the ranges of each, in their order
	private starts: Uint32Array[] = []; // where they begin
	private name: Column;
	private flags: Column;
	private sums: Float64Array | null = null;
	private all: RangeTotal[] | null = null;

	constructor(
		page: Source,
		private strings: string[],
	) {
		const n = page.rows("ranges");
		this.from = page.column("ranges.from", n);
		this.to = page.column("ranges.to", n);
		this.name = page.column("ranges.name", n);
		this.flags = page.column("ranges.flags", n);
		this.lay();
	}

	get count(): number {
		return this.from.length;
	}

	name_of(i: number): string {
		return this.strings[this.name[i]] ?? "";
	}

	kind_of(i: number): string {
		return this.flags[i] & USER_METADATA ? "user_metadata" : "record_function";
	}

	// What the recording does not hold of it.
	missing(i: number): string {
		const start = this.flags[i] & START_MISSING ? "its start was not recorded" : "";
		const end = this.flags[i] & END_MISSING ? "its end was not recorded" : "";
		return [start, end].filter(Boolean).join(", ");
	}

	private lay(): void {
		const { from, to } = this;
		const order = Uint32Array.from(from, (_, i) => i).sort(
			(a, b) => from[a] - from[b] || to[b] - to[a] || a - b,
		);
		const rows: number[][] = [];
		const ends: number[] = [];
		for (const i of order) {
			let lane = 0;
			while (lane < ends.length && ends[lane] > from[i]) lane++;
			if (lane >= MOST_LANES) continue;
			(rows[lane] ??= []).push(i);
			ends[lane] = Math.max(to[i], from[i]);
		}
		this.lanes.push(...rows.map((lane) => Uint32Array.from(lane)));
		this.starts.push(...rows.map((lane) => Uint32Array.from(lane, (i) => from[i])));
	}

	// Those of a lane that touch [from, to].
	seen(lane: number, from: number, to: number): Uint32Array {
		const starts = this.starts[lane];
		const first = Math.max(0, last_at_or_before(starts, from));
		return this.lanes[lane].subarray(first, last_at_or_before(starts, to) + 1);
	}

	at(lane: number, m: number): number | null {
		const rows = this.seen(lane, m, m).filter((i) => this.from[i] <= m && m <= this.to[i]);
		return rows.length ? rows[rows.length - 1] : null;
	}

	// Bytes of what is allocated in (from, to].
	born_in(recording: Recording, from: number, to: number): number {
		if (!this.sums) {
			this.sums = new Float64Array(recording.rows + 1);
			for (let a = 0; a < recording.rows; a++) this.sums[a + 1] = this.sums[a] + recording.block[a];
		}
		return this.sums[recording.first_born_after(to)] - this.sums[recording.first_born_after(from)];
	}

	peak_moment(recording: Recording, i: number): number {
		return recording.allocated.extreme(this.from[i], this.to[i] + 1, false);
	}

	// Of each name that differs from another in the number at its end alone: "ProfilerStep#*".
	private stems(): string[] {
		const stem = (name: string) => name.replace(/\d+$/, "");
		const names = new Map<string, Set<number>>();
		for (const at of this.name) {
			const key = stem(this.strings[at] ?? "");
			if (!names.has(key)) names.set(key, new Set());
			names.get(key)!.add(at);
		}
		const out: string[] = [];
		for (const [key, all] of names)
			for (const at of all) out[at] = all.size > 1 && key ? `${key}*` : (this.strings[at] ?? "");
		return out;
	}

	// By name, what allocates most first.
	totals(recording: Recording): RangeTotal[] {
		if (this.all) return this.all;
		const by = new Map<string, RangeTotal & { until: number }>();
		const stems = this.stems();
		const order = Array.from(this.from, (_, i) => i).sort((a, b) => this.from[a] - this.from[b]);
		for (const i of order) {
			const key = this.kind_of(i) + stems[this.name[i]];
			const peak = recording.allocated.total(this.peak_moment(recording, i));
			let one = by.get(key);
			if (!one) {
				one = {
					name: stems[this.name[i]],
					kind: this.kind_of(i),
					count: 0,
					bytes: 0,
					peak: -1,
					fullest: i,
					until: 0,
				};
				by.set(key, one);
			}
			one.count++;
			if (peak > one.peak) [one.peak, one.fullest] = [peak, i];
			const from = Math.max(this.from[i], one.until);
			if (this.to[i] > from) one.bytes += this.born_in(recording, from, this.to[i]);
			one.until = Math.max(one.until, this.to[i]);
		}
		return (this.all = [...by.values()].sort((a, b) => b.bytes - a.bytes || b.peak - a.peak));
	}
}

// The mark where it begins, the cursor where it ends: the flame graph and owners show what grew in it.
export function choose_range(state: State, i: number): void {
	const { ranges } = state.recording;
	state.span(ranges.from[i], ranges.to[i]);
	state.go(ranges.to[i]);
	state.set_mark(ranges.from[i]);
}

export function range_tip(recording: Recording, i: number): Node[] {
	const { ranges } = recording;
	const { [i]: from } = ranges.from;
	const { [i]: to } = ranges.to;
	const peak = recording.allocated.total(ranges.peak_moment(recording, i));
	return [
		el("div", {}, code(ranges.name_of(i), 160), ` ${ranges.kind_of(i)}`),
		el(
			"div",
			{},
			el("strong", {}, text.bytes(ranges.born_in(recording, from, to))),
			` allocated within; peak ${text.bytes(peak)}`,
		),
		el(
			"div",
			{ class: "soft" },
			`${text.plural(to - from, "event")}${ranges.missing(i) && `; ${ranges.missing(i)}`}`,
		),
	];
}

export class RangeTable implements Panel {
	readonly root = el("div", { class: "ranges" });
	private at = "";

	constructor(private state: State) {}

	show(): void {
		const { state } = this;
		const { recording, cursor, mark } = state;
		const key = `${cursor} ${mark}`;
		if (key === this.at) return;
		this.at = key;
		const { ranges } = recording;
		fill(
			this.root,
			table(
				`${text.plural(ranges.count, "range")} that the program named; a press chooses the one with the highest peak`,
				[
					{ name: "range", cell: (r) => code(r.name, 160), order: (r) => r.name },
					{ name: "kind", cell: (r) => r.kind, order: (r) => r.kind },
					{
						name: "times",
						number: true,
						cell: (r) => text.count(r.count),
						order: (r) => r.count,
					},
					{
						name: "allocated within",
						number: true,
						cell: (r) => text.bytes(r.bytes),
						order: (r) => r.bytes,
					},
					{
						name: "peak within",
						number: true,
						cell: (r) => text.bytes(r.peak),
						order: (r) => r.peak,
					},
				],
				ranges.totals(recording),
				(r) => choose_range(state, r.fullest),
				(r) => mark === ranges.from[r.fullest] && cursor === ranges.to[r.fullest],
			),
		);
	}
}
