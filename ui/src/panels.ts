// What stands below the picture: findings, owners, allocations, steps.

import uPlot from "uplot";
import { button, code, colour, el, fill, swatch, table } from "./dom";
import type { State } from "./state";
import * as text from "./text";
import type { ReportPhases } from "./results";

export interface Panel {
	root: HTMLElement;
	show(): void;
}

const MOST_ALLOCATIONS = 300;

export function band_of(state: State, a: number): HTMLElement {
	return swatch(state.groups.bands[state.groups.of[a]].colour);
}

// ---- findings ----

export class Findings implements Panel {
	readonly root = el("div", { class: "findings" });

	constructor(
		private state: State,
		private show_me: (index: number) => void,
		private id: (index: number) => string,
	) {}

	show(): void {
		const { findings } = this.state.recording.device;
		if (this.root.childElementCount) return;
		if (!findings.length) fill(this.root, el("p", {}, "Nothing stands out."));
		else fill(this.root, ...findings.map((_, i) => this.one(i)));
	}

	private can_show(i: number): boolean {
		const show = this.state.recording.head.show[i];
		return !!show && (show.moment !== null || show.frame !== null || show.stack !== null);
	}

	private one(i: number): HTMLElement {
		const { recording } = this.state;
		const finding = recording.device.findings[i];
		const show = recording.head.show[i];
		const severity = ["error", "warning"].includes(finding.severity) ? finding.severity : "info";
		const place = show && show.frame !== null ? recording.frame_text(show.frame) : finding.place.frame;
		// The evidence of the death is the verdict's, which stands on top.
		const own = finding.id !== "oom";
		const lines = (title: string, list: string[]) =>
			own && list.length
				? [
						el("dt", {}, title),
						el("dd", {}, el("ul", {}, ...list.map((l) => el("li", {}, text.plain(l))))),
					]
				: [];
		const grows = finding.per_period_bytes
			? `${text.bytes(finding.per_period_bytes)} more each ${text.plain(finding.period ?? "period")}`
			: null;
		return el(
			"article",
			{ class: `finding ${severity}`, id: this.id(i), tabindex: -1 },
			el(
				"header",
				{},
				el("span", { class: "severity" }, `${i + 1} ${severity}`),
				el("h3", {}, text.plain(finding.title)),
				this.can_show(i)
					? button("show me", () => this.show_me(i), {
							"aria-label": `show me finding ${i + 1}`,
							class: "no-print",
						})
					: null,
			),
			el(
				"div",
				{ class: "body" },
				place && own
					? el("p", {}, code((finding.place.inferred ? "(backward of) " : "") + place))
					: null,
				grows ? el("p", {}, grows) : null,
				own
					? el(
							"dl",
							{ class: "facts" },
							...lines("why", finding.evidence),
							...lines("fix", finding.fix),
							...lines("see", finding.see),
						)
					: el("p", { class: "soft" }, "the verdict above"),
			),
		);
	}
}

// ---- owners ----

export class Owners implements Panel {
	readonly root = el("div", { class: "owners" });
	private at = "";

	constructor(private state: State) {}

	show(): void {
		const { state } = this;
		const { recording, cursor, mark } = state;
		const key = `${cursor} ${mark} ${state.mode}`;
		if (key === this.at) return;
		this.at = key;
		const now = recording.owners(recording.live(cursor));
		const before = new Map(
			mark === null ? [] : recording.owners(recording.live(mark)).map((o) => [o.key, o.bytes]),
		);
		const total = now.reduce((sum, o) => sum + o.bytes, 0);
		const rows = now.slice(0, 100);
		fill(
			this.root,
			table(
				`${text.bytes(total)} live at ${recording.moment_text(cursor)}, by the program's own lines${now.length > 100 ? `; the largest 100 of ${text.count(now.length)}` : ""}`,
				[
					{
						name: "line",
						cell: (o) => el("span", {}, band_of(state, o.largest), " ", code(o.name)),
					},
					{ name: "held", number: true, cell: (o) => text.bytes(o.bytes) },
					...(mark === null
						? []
						: [
								{
									name: "change since the mark",
									number: true,
									cell: (o: (typeof rows)[0]) =>
										text.signed(o.bytes - (before.get(o.key) ?? 0)),
								},
							]),
					{ name: "of live", number: true, cell: (o) => text.percent(o.bytes, total) },
					{ name: "allocations", number: true, cell: (o) => text.count(o.count) },
				],
				rows,
				(o) => state.choose(o.largest),
			),
		);
	}
}

// ---- allocations ----

export class Allocations implements Panel {
	readonly root = el("div", { class: "allocations" });
	private at = "";

	constructor(private state: State) {}

	show(): void {
		const { state } = this;
		const { recording, cursor } = state;
		const key = `${cursor} ${state.mode} ${state.chosen}`;
		if (key === this.at) return;
		this.at = key;
		const live = Array.from(recording.live(cursor)).sort(
			(a, b) => recording.block[b] - recording.block[a] || a - b,
		);
		fill(
			this.root,
			allocation_table(
				state,
				`${text.plural(live.length, "allocation")} live at ${recording.moment_text(cursor)}${live.length > MOST_ALLOCATIONS ? `; the largest ${MOST_ALLOCATIONS}` : ""}`,
				live.slice(0, MOST_ALLOCATIONS),
			),
		);
	}
}

export function allocation_table(state: State, caption: string, rows: number[]): HTMLElement {
	const { recording } = state;
	return table(
		caption,
		[
			{
				name: "line",
				cell: (a) =>
					el("span", {}, band_of(state, a), " ", code(recording.owner_name(recording.owner(a)))),
			},
			{ name: "block", number: true, cell: (a) => text.bytes(recording.block[a]) },
			{ name: "category", cell: (a) => recording.head.categories[recording.category(a)]?.name ?? "-" },
			{
				name: "born",
				number: true,
				cell: (a) => (recording.born[a] ? text.count(recording.born[a] - 1) : "before"),
			},
			{
				name: "freed",
				number: true,
				cell: (a) => (recording.freed[a] ? text.count(recording.freed[a] - 1) : "never"),
			},
			{ name: "address", number: true, cell: (a) => el("code", {}, text.hex(recording.addr[a])) },
		],
		rows,
		(a) => state.choose(a),
		(a) => a === state.chosen,
	);
}

// ---- steps ----

export class Steps implements Panel {
	readonly root = el("div", { class: "steps" });
	private plot: uPlot | null = null;
	private place = el("div", { class: "curve" });
	private lowest: number[] = [];
	private highest: number[] = [];

	constructor(private state: State) {
		state.on((change) => {
			if (change === "theme" && this.plot) this.draw();
		});
		new ResizeObserver(() => {
			if (this.plot && this.place.clientWidth)
				this.plot.setSize({ width: this.place.clientWidth, height: 190 });
		}).observe(this.place);
	}

	show(): void {
		const { recording } = this.state;
		const { steps } = recording;
		if (!this.root.childElementCount) {
			if (!steps.length) {
				fill(this.root, el("p", {}, "No training steps were seen in this recording."));
				return;
			}
			for (const step of steps) {
				const from = step.start_event;
				const to = Math.min(recording.events + 1, step.end_event + 2);
				this.highest.push(recording.allocated.at[recording.allocated.extreme(from, to, false)]);
				this.lowest.push(recording.allocated.at[recording.allocated.extreme(from, to, true)]);
			}
			fill(this.root, steps.length > 1 ? this.place : null, this.list());
		}
		if (!this.plot && steps.length > 1) this.draw();
	}

	private draw(): void {
		const { steps } = this.state.recording;
		this.plot?.destroy();
		const axis = {
			stroke: colour("--soft"),
			grid: { stroke: colour("--line"), width: 1 },
			ticks: { stroke: colour("--line"), width: 1 },
			font: "11px system-ui, sans-serif",
		};
		this.plot = new uPlot(
			{
				width: Math.max(200, this.place.clientWidth || 600),
				height: 190,
				cursor: { y: false, drag: { x: false, y: false } },
				legend: { live: true },
				scales: { x: { time: false }, y: { range: (_, __, most) => [0, most * 1.05] } },
				axes: [
					{
						...axis,
						label: "step",
						labelSize: 18,
						size: 30,
						labelFont: "11px system-ui, sans-serif",
						incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000],
					},
					{
						...axis,
						size: 76,
						values: (_, at) => at.map(text.axis_bytes),
						splits: (_, __, ___, most) => text.byte_ticks(most, 4),
					},
				],
				series: [
					{ label: "step" },
					{
						label: "highest allocated",
						stroke: colour("--accent"),
						width: 1.5,
						value: (_, v) => text.bytes(v),
						points: { show: steps.length < 60 },
					},
					{
						label: "lowest allocated",
						stroke: colour("--ink"),
						width: 1.5,
						dash: [5, 3],
						value: (_, v) => text.bytes(v),
						points: { show: steps.length < 60 },
					},
				],
			},
			[steps.map((s) => s.index), this.highest, this.lowest],
			this.place,
		);
		this.place.querySelector("canvas")?.setAttribute("aria-hidden", "true");
		this.place.addEventListener("click", () => {
			const i = this.plot?.cursor.idx;
			if (i !== null && i !== undefined) this.state.span(steps[i].start_event, steps[i].end_event);
		});
	}

	private list(): HTMLElement {
		const { recording } = this.state;
		const phases = (recording.head.phases as (keyof ReportPhases)[]).filter((p) =>
			recording.steps.some((s) => s.phase_peaks?.[p] != null),
		);
		return table(
			"Peaks of each step: allocated over all of it, requested in each phase",
			[
				{ name: "step", cell: (s) => String(s.index) },
				{ name: "from event", number: true, cell: (s) => text.count(s.start_event) },
				{ name: "to", number: true, cell: (s) => text.count(s.end_event) },
				{
					name: "highest",
					number: true,
					cell: (s) => text.bytes(this.highest[recording.steps.indexOf(s)]),
				},
				{
					name: "lowest",
					number: true,
					cell: (s) => text.bytes(this.lowest[recording.steps.indexOf(s)]),
				},
				...phases.map((p) => ({
					name: p,
					number: true,
					cell: (s: (typeof recording.steps)[0]) => text.bytes(s.phase_peaks[p]),
				})),
			],
			recording.steps,
			(s) => {
				this.state.span(s.start_event, s.end_event);
				this.state.go(
					recording.allocated.extreme(
						s.start_event,
						Math.min(recording.events + 1, s.end_event + 2),
						false,
					),
				);
			},
		);
	}
}
