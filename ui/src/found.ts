// What a filter found, as tables; the picture and the flame graph show it in colour.

import { button, code, el, fill, table } from "./dom";
import { Unreadable, field_names, read_filter } from "./filter";
import { type Group, grouping_of, sum_groups } from "./groups";
import { allocation_table } from "./panels";
import type { Panel } from "./panels";
import type { State } from "./state";
import * as text from "./text";

export class Found implements Panel {
	readonly root = el("div", { class: "search" });
	rows: number[] = [];
	private words = "";
	private fault = "";
	private total = 0;
	private by = "line";
	private kept: { rows: number[]; by: string; groups: Group[]; largest_first: number[] } | null = null;

	constructor(
		private state: State,
		private close: () => void,
		private save: () => void,
	) {}

	// How many allocations were found; null: nothing is looked for.
	run(query: string): number | null {
		const { state } = this;
		const { recording } = state;
		this.rows = [];
		this.total = 0;
		this.fault = "";
		let filter;
		try {
			filter = read_filter(recording, query);
		} catch (why) {
			if (!(why instanceof Unreadable)) throw why;
			this.fault = why.message;
			filter = { found: new Uint8Array(recording.rows), words: query };
		}
		if (!filter) {
			state.match(null, "");
			return null;
		}
		this.show_these(filter.found, filter.words);
		return this.rows.length;
	}

	// Rows that something else than a filter found: a finding's.
	take(rows: ArrayLike<number>, words: string): void {
		const found = new Uint8Array(this.state.recording.rows);
		for (let i = 0; i < rows.length; i++) found[rows[i]] = 1;
		this.fault = "";
		this.show_these(found, words);
	}

	private show_these(found: Uint8Array, words: string): void {
		const { state } = this;
		this.words = text.plain(words, 80);
		this.rows = [];
		this.total = 0;
		for (let a = 0; a < found.length; a++)
			if (found[a]) {
				this.rows.push(a);
				this.total += state.recording.block[a];
			}
		state.match(this.rows.length ? found : null, this.rows.length ? this.words : "");
	}

	show(): void {
		const { recording, cursor } = this.state;
		const { rows } = this;
		const live = rows.filter((a) => recording.lives(a, cursor));
		const live_bytes = live.reduce((sum, a) => sum + recording.block[a], 0);
		const by = grouping_of(this.by);
		const { groups, largest_first } = this.arranged();
		const live_of = new Map(sum_groups(recording, by, live).map((g) => [g.key, g.bytes]));
		fill(
			this.root,
			el(
				"div",
				{ class: "bar" },
				el("strong", {}, `${text.plural(rows.length, "allocation")} found for "${this.words}"`),
				el(
					"span",
					{ class: "soft" },
					this.fault
						? `This cannot be read: ${this.fault}.`
						: rows.length
							? `${text.bytes(live_bytes)} of them live at the cursor; ${text.bytes(this.total)} over all time`
							: `No size, address, category, function or file is like that. Fields: ${field_names().join(", ")}.`,
				),
				el("span", { class: "gap" }),
				rows.length
					? button("CSV", this.save, { title: "what was found, a row for each allocation" })
					: null,
				button("Clear", this.close),
			),
			rows.length
				? table(
						`By ${by.column}`,
						[
							{ name: by.column, cell: (g) => code(g.name), order: (g) => g.name },
							{
								name: "live at the cursor",
								number: true,
								cell: (g) => text.bytes(live_of.get(g.key) ?? 0),
								order: (g) => live_of.get(g.key) ?? 0,
							},
							{
								name: "over all time",
								number: true,
								cell: (g) => text.bytes(g.bytes),
								order: (g) => g.bytes,
							},
							{
								name: "allocations",
								number: true,
								cell: (g) => text.count(g.count),
								order: (g) => g.count,
							},
						],
						groups,
						(g) => this.jump(g.largest),
					)
				: null,
			rows.length
				? allocation_table(this.state, text.plural(rows.length, "allocation"), largest_first, (a) =>
						this.jump(a),
					)
				: null,
		);
	}

	// What does not depend on the cursor, kept until something else is found.
	private arranged(): { groups: Group[]; largest_first: number[] } {
		const { recording } = this.state;
		const { rows, by } = this;
		if (this.kept?.rows !== rows || this.kept.by !== by)
			this.kept = {
				rows,
				by,
				groups: sum_groups(recording, grouping_of(by), rows),
				largest_first: [...rows].sort((a, b) => recording.block[b] - recording.block[a] || a - b),
			};
		return this.kept;
	}

	private jump(a: number): void {
		const { state } = this;
		if (!state.recording.lives(a, state.cursor)) state.go(state.recording.born[a]);
		state.choose(a);
	}
}
