// What stands above and below the charts: the verdicts, the runs next to each other, what was found.

import { button, el } from "../dom";
import type { CurvesPolicy, CurvesSeries } from "../results";
import { count, plain, plural } from "../text";
import { table } from "../dom";
import { type Finding, type Run, duration_text, step_text, value_text } from "./data";
import type { State } from "./state";

const severities = ["info", "warning", "error"];

export function worst_first(a: Run, b: Run): number {
	return severities.indexOf(b.run.severity) - severities.indexOf(a.run.severity) || a.number - b.number;
}

function steps_words(f: Finding): string {
	if (f.step === null) return "";
	const from = `step ${step_text(f.step)}`;
	if (f.end_step === null) return from;
	return f.end_step === f.step ? from : `steps ${step_text(f.step)} to ${step_text(f.end_step)}`;
}

// ---- one run ----

function finding_card(state: State, run: Run, f: Finding): HTMLElement {
	const around = () => {
		const end = f.end_step ?? Math.max(f.detected_step ?? f.step!, f.step!);
		const [first, last] = state.full;
		const edge = Math.max((end - f.step!) * 1.5, (last - first) / 40);
		if (!run.shown) state.toggle(run);
		state.look(f.step! - edge, end + edge);
		state.charts[0]?.root.scrollIntoView({ block: "nearest" });
	};
	const sure =
		f.confidence !== null && f.confidence < 0.8 ? `how sure: ${(100 * f.confidence).toFixed(0)} %` : "";
	return el(
		"article",
		{ class: `card ${f.severity}` },
		el(
			"p",
			{ class: "what" },
			el("span", { class: "badge" }, `${f.severity} ${f.id}`),
			" ",
			el("strong", {}, plain(f.title ?? "")),
			" ",
			f.step === null
				? null
				: button(steps_words(f), around, { class: "link", title: "look at these steps" }),
		),
		f.evidence.length ? el("ul", {}, ...f.evidence.map((e) => el("li", {}, plain(e)))) : null,
		f.fix.length && f.severity !== "info"
			? el(
					"div",
					{},
					el("span", { class: "soft" }, "What helps"),
					el("ul", {}, ...f.fix.map((e) => el("li", {}, plain(e)))),
				)
			: null,
		sure ? el("p", { class: "soft" }, sure) : null,
	);
}

function policies(run: Run): HTMLElement | null {
	const list = run.run.policies;
	if (!list.some((p) => p.stop_step !== null)) return null;
	const saves = (p: CurvesPolicy) => {
		const time = duration_text(p.saved_seconds);
		return p.stop_step === null
			? "it goes on"
			: `${step_text(p.saved_steps)} ${p.saved_steps === 1 ? "step" : "steps"}${time ? ", " + time : ""}`;
	};
	return table<CurvesPolicy>(
		`Early stopping as each would have done it, on ${plain(run.run.best.series ?? "?", 80)}`,
		[
			{ name: "rule", cell: (p) => p.policy },
			{ name: "patience", number: true, cell: (p) => count(p.patience) },
			{ name: "stops at", number: true, cell: (p) => step_text(p.stop_step) },
			{ name: "keeps", number: true, cell: (p) => step_text(p.best_step) },
			{ name: "saves", cell: saves },
		],
		list,
	);
}

function series_table(run: Run): HTMLElement {
	const at = (v: number | null, step: number | null) => `${value_text(v)} at ${step_text(step)}`;
	return el(
		"details",
		{},
		el(
			"summary",
			{},
			`${plural(run.run.series.length, "series", "series")}, and what each was taken for`,
		),
		table<CurvesSeries>(
			"Change one with --map NAME=ROLE",
			[
				{ name: "name", cell: (s) => el("code", {}, plain(s.name ?? "", 120)) },
				{
					name: "taken for",
					cell: (s) => s.role.replace("_", " ") + (s.role_given ? " (given)" : ""),
				},
				{ name: "values", number: true, cell: (s) => count(s.points) },
				{ name: "not finite", number: true, cell: (s) => (s.non_finite ? count(s.non_finite) : "-") },
				{ name: "first", number: true, cell: (s) => value_text(s.first) },
				{ name: "last", number: true, cell: (s) => value_text(s.last) },
				{ name: "smallest", number: true, cell: (s) => at(s.min, s.min_step) },
				{ name: "largest", number: true, cell: (s) => at(s.max, s.max_step) },
			],
			run.run.series,
		),
	);
}

function go_back(run: Run): HTMLElement | null {
	const { go_back: back } = run.run;
	if (back.step === null) return null;
	return el(
		"p",
		{ class: "back" },
		el("strong", {}, `Go back to step ${step_text(back.step)}`),
		`: ${plain(back.why ?? "")}. `,
		back.checkpoint
			? el("code", {}, plain(back.checkpoint, 300))
			: el("span", { class: "soft" }, "No checkpoint at or before it was found next to the log."),
	);
}

export function facts(run: Run): HTMLElement {
	const { run: r } = run;
	const best =
		r.best.step === null ? null : `${plain(r.best.series ?? "", 60)} ${value_text(r.best.value)}`;
	const time = duration_text(r.seconds);
	return el(
		"p",
		{ class: "soft facts" },
		[
			`${r.kind}, ${plural(r.points ?? 0, "value")}`,
			`steps ${step_text(r.first_step)} to ${step_text(r.last_step)}`,
			time,
			best ? `best ${best} at step ${step_text(r.best.step)}` : "",
		]
			.filter((s) => s)
			.join(" · "),
	);
}

export function run_section(state: State, run: Run, open: boolean): HTMLElement {
	const { run: r } = run;
	const mark = el("span", { class: "swatch", "aria-hidden": "true" });
	mark.style.background = state.run_style(run);
	const found = r.findings.filter((f) => f.severity !== "info");
	const rest = r.findings.filter((f) => f.severity === "info");
	const body = [
		facts(run),
		...found.map((f) => finding_card(state, run, f)),
		go_back(run),
		...rest.map((f) => finding_card(state, run, f)),
		policies(run),
		series_table(run),
		r.notes.length
			? el(
					"div",
					{ class: "notes" },
					el("span", { class: "soft" }, "Notes"),
					el("ul", {}, ...r.notes.map((n) => el("li", {}, plain(n)))),
				)
			: null,
	];
	if (!state.many) return el("section", { class: "run" }, ...body);
	return el(
		"details",
		{ class: "run", id: `run-${run.number}`, ...(open ? { open: true } : {}) },
		el(
			"summary",
			{},
			mark,
			el("strong", {}, plain(run.name, 120)),
			" ",
			el("span", { class: r.severity }, plain(r.verdict ?? "")),
		),
		...body,
	);
}

// ---- the runs next to each other ----

type Order = (a: Run, b: Run) => number;

const by = (value: (r: Run) => number | null): Order => {
	return (a, b) => (value(a) ?? Infinity) - (value(b) ?? Infinity) || a.number - b.number;
};

export class RunTable {
	readonly root = el("div", { class: "scroll runs" });
	private order: Order = (a, b) => a.number - b.number;
	private sorted = "";

	constructor(
		private state: State,
		private open: (run: Run) => void,
	) {
		this.draw();
	}

	draw(): void {
		const { state } = this;
		const same = new Set(state.runs.map((r) => r.run.best.series)).size === 1;
		const highest = state.runs.some((r) =>
			r.run.series.some((s) => s.name === r.run.best.series && s.role === "metric"),
		);
		const values = state.runs.map((r) => r.run.best.value).filter((v): v is number => v !== null);
		const best = !same || !values.length ? null : highest ? Math.max(...values) : Math.min(...values);
		const heads: [string, boolean, Order | null][] = [
			["run", false, (a, b) => a.name.localeCompare(b.name, "en", { numeric: true })],
			["last step", true, by((r) => -(r.run.last_step ?? NaN))],
			[
				"best",
				true,
				by((r) => (r.run.best.value === null ? null : r.run.best.value * (highest ? -1 : 1))),
			],
			["at step", true, by((r) => r.run.best.step)],
			["verdict", false, worst_first],
		];
		const head = el(
			"tr",
			{},
			el("th", { scope: "col" }, el("span", { class: "hidden" }, "shown")),
			...heads.map(([name, number, order]) =>
				el(
					"th",
					{
						scope: "col",
						...(number ? { class: "n" } : {}),
						"aria-sort": this.sorted === name ? "ascending" : "none",
					},
					button(name, () => this.sort(name, order!), { class: "row" }),
				),
			),
		);
		const rows = [...state.runs].sort(this.order).map((run) => this.row(run, best));
		this.root.replaceChildren(
			el(
				"table",
				{},
				el(
					"caption",
					{},
					"A colour hides or shows its run, a double click on it shows only this one; a name goes to what was found.",
				),
				el("thead", {}, head),
				el("tbody", {}, ...rows),
			),
		);
	}

	private row(run: Run, best: number | null): HTMLElement {
		const { run: r } = run;
		const toggle = button("", () => this.state.toggle(run), {
			class: "colour",
			"aria-pressed": String(run.shown),
			"aria-label": `show ${plain(run.name, 80)}`,
			title: "hide or show; double click: only this",
		});
		const mark = el("span", { class: "swatch" });
		mark.style.background = this.state.run_style(run);
		toggle.append(mark);
		toggle.addEventListener("dblclick", () => this.state.isolate(run));
		const value = value_text(r.best.value);
		return el(
			"tr",
			{ class: run.shown ? "" : "off" },
			el("td", {}, toggle),
			el(
				"td",
				{ class: "name" },
				button(plain(run.name, 90), () => this.open(run), { class: "link" }),
			),
			el("td", { class: "n" }, step_text(r.last_step)),
			el(
				"td",
				{ class: "n" },
				r.best.value !== null && r.best.value === best ? el("b", {}, value) : value,
			),
			el("td", { class: "n" }, step_text(r.best.step)),
			el("td", { class: `words ${r.severity}` }, plain(r.verdict ?? "")),
		);
	}

	private sort(name: string, order: Order): void {
		const again = this.sorted === name;
		this.order = again ? (a, b) => order(b, a) : order;
		this.sorted = again ? "" : name;
		this.draw();
	}
}
