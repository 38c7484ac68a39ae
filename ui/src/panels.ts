// What stands below the picture: findings, owners, allocations, steps.

import type uPlot from "uplot";
import { button, choice, code, colour, definitions, el, fill, swatch, table } from "./dom";
import { type Group, grouping_of, groupings, sum_groups } from "./groups";
import { headline_finding } from "./verdict";
import type { State } from "./state";
import * as text from "./text";
import type { ReportPhases } from "./results";

export interface Panel {
	root: HTMLElement;
	show(): void;
}

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
		const { read_here } = this.state.recording.head;
		const none = read_here ? "No one looked for findings: plimsoll report does." : "Nothing stands out.";
		if (!findings.length) fill(this.root, el("p", {}, none));
		else fill(this.root, ...findings.map((_, i) => this.one(i)));
	}

	private can_show(i: number): boolean {
		const { recording } = this.state;
		const show = recording.head.show[i];
		return !!show && (show.moment !== null || show.stack !== null || recording.shown(i).length > 0);
	}

	private one(i: number): HTMLElement {
		const { recording } = this.state;
		const finding = recording.device.findings[i];
		const show = recording.head.show[i];
		const severity = ["error", "warning"].includes(finding.severity) ? finding.severity : "info";
		const place = show && show.frame !== null ? recording.frame_text(show.frame) : finding.place.frame;
		// The evidence of the death is the verdict's, which stands on top.
		const own = finding.id !== "oom" && finding !== headline_finding(this.state.recording);
		const lines = (
			title: string,
			list: string[],
			of: (line: string) => Node | string = text.plain,
		): [string, HTMLElement][] =>
			list.length ? [[title, el("ul", {}, ...list.map((l) => el("li", {}, of(l))))]] : [];
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
				el("h2", {}, text.plain(finding.title)),
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
				place && finding.id !== "oom"
					? el("p", {}, code((finding.place.inferred ? "(backward of) " : "") + place))
					: null,
				grows ? el("p", {}, grows) : null,
				definitions(
					[
						...(own ? [...lines("why", finding.evidence), ...lines("fix", finding.fix)] : []),
						...(finding.id === "oom" ? [] : lines("see", finding.see, (line) => this.lead(line))),
					],
					{ class: "facts" },
				),
			),
		);
	}

	// A command that can be pasted, or an address that can be followed.
	private lead(line: string): Node {
		if (/^https:\/\/[\w./#?=&%-]+$/.test(line))
			return el("a", { href: line, target: "_blank", rel: "noopener noreferrer" }, line);
		const { path } = this.state.recording.head.report.source;
		const file = path === null || /^[\w./+-]+$/.test(path) ? path : `'${path.replace(/'/g, "'\\''")}'`;
		const command = file
			? line.replace(/^plimsoll (report|whatif|why)\b/, (verb) => `${verb} ${file}`)
			: line;
		return el("span", {}, text.plain(command));
	}
}

// ---- owners ----

export class Owners implements Panel {
	readonly root = el("div", { class: "owners" });
	private place = el("div");
	private by = "module"; // as the text report has it
	private at = "";

	constructor(private state: State) {
		const by = choice("group by", groupings, (id) => {
			this.by = id;
			this.show();
		});
		by.list.value = this.by;
		fill(this.root, el("div", { class: "bar" }, by.root), this.place);
	}

	show(): void {
		const { state } = this;
		const { recording, cursor, mark } = state;
		const key = `${cursor} ${mark} ${state.mode} ${this.by}`;
		if (key === this.at) return;
		this.at = key;
		const by = grouping_of(this.by);
		const now = sum_groups(recording, by, recording.live(cursor));
		const before = new Map(
			mark === null ? [] : sum_groups(recording, by, recording.live(mark)).map((o) => [o.key, o.bytes]),
		);
		const total = now.reduce((sum, o) => sum + o.bytes, 0);
		const change = (o: Group) => o.bytes - (before.get(o.key) ?? 0);
		fill(
			this.place,
			table(
				`${text.bytes(total)} live at ${recording.moment_text(cursor)}, by ${by.name}`,
				[
					{
						name: by.column,
						cell: (o) => el("span", {}, band_of(state, o.largest), " ", code(o.name)),
						order: (o) => o.name,
					},
					{ name: "held", number: true, cell: (o) => text.bytes(o.bytes), order: (o) => o.bytes },
					...(mark === null
						? []
						: [
								{
									name: "change since the mark",
									number: true,
									cell: (o: Group) => text.signed(change(o)),
									order: change,
								},
							]),
					{
						name: "of live",
						number: true,
						cell: (o) => text.percent(o.bytes, total),
						order: (o) => o.bytes,
					},
					{
						name: "allocations",
						number: true,
						cell: (o) => text.count(o.count),
						order: (o) => o.count,
					},
				],
				now,
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
				`${text.plural(live.length, "allocation")} live at ${recording.moment_text(cursor)}`,
				live,
			),
		);
	}
}

export function allocation_table(
	state: State,
	caption: string,
	rows: number[],
	choose = (a: number) => state.choose(a),
): HTMLElement {
	const { recording } = state;
	const { block, size, born, freed, addr } = recording;
	const category = (a: number) => recording.head.categories[recording.category(a)]?.name ?? "-";
	const owner = (a: number) => recording.owner_name(recording.owner(a));
	return table(
		caption,
		[
			{
				name: "line",
				cell: (a) => el("span", {}, band_of(state, a), " ", code(owner(a))),
				order: owner,
			},
			{ name: "block", number: true, cell: (a) => text.bytes(block[a]), order: (a) => block[a] },
			{
				name: "rounding",
				number: true,
				cell: (a) => text.bytes(block[a] - size[a]),
				order: (a) => block[a] - size[a],
			},
			{ name: "category", cell: category, order: category },
			{
				name: "born",
				number: true,
				cell: (a) => (born[a] ? text.count(born[a] - 1) : "before"),
				order: (a) => born[a],
			},
			{
				name: "freed",
				number: true,
				cell: (a) => (freed[a] ? text.count(freed[a] - 1) : "never"),
				order: (a) => freed[a] || Infinity,
			},
			{
				name: "address",
				number: true,
				cell: (a) => el("code", {}, text.hex(addr[a])),
				order: (a) => addr[a],
			},
		],
		rows,
		choose,
		(a) => a === state.chosen,
	);
}

// ---- steps ----

// What draws the curve asks the browser for languages and zones as soon as it is there, which is slow: not
// before the first picture stands.
let Plot: typeof uPlot | null = null;

export async function load_plot(): Promise<void> {
	Plot ??= (await import("uplot")).default;
}

export class Steps implements Panel {
	readonly root = el("div", { class: "steps" });
	private plot: uPlot | null = null;
	private place = el("div", { class: "curve" });
	private lowest: number[] = [];
	private highest: number[] = [];

	constructor(private state: State) {
		state.on((change) => {
			if (change === "theme" && this.plot) this.draw_when_loaded();
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
				const none = recording.head.read_here
					? "No one looked for steps: plimsoll report does."
					: "No training steps were seen in this recording.";
				fill(this.root, el("p", {}, none));
				return;
			}
			for (const step of steps) {
				const from = step.start_event;
				const to = Math.min(recording.events + 1, step.end_event + 2);
				this.highest.push(recording.allocated.total(recording.allocated.extreme(from, to, false)));
				this.lowest.push(recording.allocated.total(recording.allocated.extreme(from, to, true)));
			}
			fill(this.root, steps.length > 1 ? this.place : null, this.list());
		}
		if (!this.plot && steps.length > 1) this.draw_when_loaded();
	}

	private draw_when_loaded(): void {
		if (Plot) this.draw(Plot);
		else void load_plot().then(() => !this.plot && this.draw_when_loaded());
	}

	private draw(plot: typeof uPlot): void {
		const { steps } = this.state.recording;
		this.plot?.destroy();
		const axis = {
			stroke: colour("--soft"),
			grid: { stroke: colour("--line"), width: 1 },
			ticks: { stroke: colour("--line"), width: 1 },
			font: "11px system-ui, sans-serif",
		};
		this.plot = new plot(
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
						values: (_, at) => at.map((n) => text.axis_bytes(n, Math.max(...at))),
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
				{ name: "step", cell: (s) => String(s.index), order: (s) => s.index },
				{
					name: "from event",
					number: true,
					cell: (s) => text.count(s.start_event),
					order: (s) => s.start_event,
				},
				{
					name: "to",
					number: true,
					cell: (s) => text.count(s.end_event),
					order: (s) => s.end_event,
				},
				{
					name: "highest",
					number: true,
					cell: (s) => text.bytes(this.highest[recording.steps.indexOf(s)]),
					order: (s) => this.highest[recording.steps.indexOf(s)],
				},
				{
					name: "lowest",
					number: true,
					cell: (s) => text.bytes(this.lowest[recording.steps.indexOf(s)]),
					order: (s) => this.lowest[recording.steps.indexOf(s)],
				},
				...phases.map((p) => ({
					name: p,
					number: true,
					cell: (s: (typeof recording.steps)[0]) => text.bytes(s.phase_peaks[p]),
					order: (s: (typeof recording.steps)[0]) => s.phase_peaks[p] ?? -1,
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
