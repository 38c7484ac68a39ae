// Opens a page of curves: unpacks the runs, says what is wrong with them, draws them.

import "uplot/dist/uPlot.min.css";
import "../viewer.css";
import "./curves.css";
import { type Keys, button, el, fill, forget_colours, keys_dialog } from "../dom";
import { plain, plural } from "../text";
import { Chart } from "./chart";
import { type Group, type Run, group_curves, open_runs, step_text } from "./data";
import { RunTable, run_section, worst_first } from "./panels";
import { State } from "./state";

const SHOWN_AT_FIRST = 12; // runs; of more the first so many that have something to say
const OPEN_AT_FIRST = 4; // runs whose findings are unfolded

const keys: Keys = [
	["?", "this help"],
	["← →", "one point back, on (with Shift: ten)"],
	["n, N", "next, previous finding"],
	["+ −", "zoom in, out"],
	["a, s", "pan left, right"],
	["0", "all steps"],
	["l", "logarithmic or linear, all charts"],
	["m", "more smoothing, then none"],
	["t", "light or dark"],
];
const pointers: Keys = [
	["drag", "zoom to these steps, in all charts"],
	["double click", "all steps"],
	["click on a colour", "hide or show a run"],
	["double click on a colour", "only this run; again: all"],
	["fingers", "one moves the cursor, two zoom"],
];

class App {
	private state!: State;
	private runs!: RunTable;
	private theme = "light";
	private all_log = false;
	private help = keys_dialog(keys, pointers);
	private all_runs = button("Show all runs", () => {
		for (const run of this.state.runs) run.shown = true;
		this.state.redraw();
	});
	private all = button("All steps", () => this.state.look(null), {
		title: "0, or double click in a chart",
	});
	private range = el("span", { class: "soft range", role: "status" });
	private slider = el("input", {
		type: "range",
		min: 0,
		max: 0.98,
		step: 0.02,
		value: 0,
		"aria-label": "smoothing",
	});

	constructor(private root: HTMLElement) {}

	async open(): Promise<void> {
		this.choose_theme(null);
		const runs = await open_runs();
		if (!runs.length) throw new Error("this page holds no run");
		this.state = new State(runs);
		if (runs.length > SHOWN_AT_FIRST)
			for (const run of [...runs].sort(worst_first).slice(SHOWN_AT_FIRST)) run.shown = false;
		const groups = group_curves(runs);
		this.state.charts = groups.map((g, i) => new Chart(this.state, g, i === 0));
		this.runs = new RunTable(this.state, (run) => this.open_run(run));
		this.build(groups);
		this.state.changed = () => this.update();
		this.update();
		const [first] = runs;
		document.title = `${runs.length > 1 ? `${runs.length} runs` : plain(first.name, 80)} - plimsoll`;
		document.addEventListener("keydown", (event) => this.key(event));
		addEventListener("beforeprint", () => this.print(true));
		addEventListener("afterprint", () => this.print(false));
		matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.choose_theme(null));
	}

	private build(groups: Group[]): void {
		const { runs } = this.state;
		const [first] = runs;
		const known = groups.filter((g) => g.role !== "other").length || Math.min(groups.length, 4);
		const { charts } = this.state;
		const rest = charts.slice(known);
		fill(
			this.root,
			this.top(),
			this.verdict(),
			this.state.many ? this.runs.root : null,
			this.bar(),
			charts[0]?.root,
			el("div", { class: "charts" }, ...charts.slice(1, known).map((c) => c.root)),
			rest.length ? this.others(rest) : null,
			el("h2", {}, "What was found"),
			...[...runs]
				.sort(worst_first)
				.map((r, i) => run_section(this.state, r, i < OPEN_AT_FIRST && r.run.severity !== "info")),
			first.notes.length
				? el("ul", { class: "soft" }, ...first.notes.map((n) => el("li", {}, plain(n))))
				: null,
			el(
				"p",
				{ class: "note" },
				`Written by plimsoll ${plain(first.version, 40)}. This file holds everything it shows and loads nothing.`,
			),
			this.help,
		);
	}

	private top(): HTMLElement {
		const { runs } = this.state;
		const points = runs.reduce((sum, r) => sum + (r.run.points ?? 0), 0);
		const what = this.state.many ? `${runs.length} runs` : plain(runs[0].name, 200);
		return el(
			"header",
			{ class: "top" },
			el("span", { class: "name" }, "plimsoll"),
			el("span", { class: "file" }, `${what}, ${plural(points, "value")}`),
			button("Light / dark", () => this.choose_theme(this.theme === "dark" ? "light" : "dark"), {
				title: "light or dark (t)",
			}),
			button("Keys ?", () => this.help.showModal(), { title: "all keys (?)" }),
		);
	}

	private verdict(): HTMLElement {
		const { runs } = this.state;
		const [first] = runs;
		if (!this.state.many)
			return el("h1", { class: `verdict-line ${first.run.severity}` }, plain(first.run.verdict ?? ""));
		const wrong = runs.filter((r) => r.run.severity !== "info").length;
		const words = wrong
			? `Something is wrong with ${wrong} of ${runs.length} runs`
			: `Nothing wrong was found in ${runs.length} runs`;
		const worst = runs.some((r) => r.run.severity === "error") ? "error" : wrong ? "warning" : "info";
		return el("h1", { class: `verdict-line ${worst}` }, words);
	}

	private bar(): HTMLElement {
		this.slider.addEventListener("input", () => {
			this.state.smoothing = Number(this.slider.value);
			this.state.redraw();
		});
		return el(
			"div",
			{ class: "bar" },
			el("label", {}, "Smoothing ", this.slider),
			button("Log scale", () => this.toggle_log(), { title: "all charts (l)" }),
			this.all,
			this.range,
			el("span", { class: "gap" }),
			this.all_runs,
		);
	}

	private others(charts: Chart[]): HTMLElement {
		const box = el("input", {
			type: "search",
			placeholder: "Filter by name",
			"aria-label": "filter charts by name",
		});
		box.addEventListener("input", () => {
			const words = box.value.toLowerCase();
			for (const c of charts) c.root.hidden = !c.group.title.toLowerCase().includes(words);
		});
		return el(
			"details",
			{ class: "others" },
			el("summary", {}, `${plural(charts.length, "further chart")}: series that no rule looks at`),
			charts.length > 6 ? box : null,
			el("div", { class: "charts" }, ...charts.map((c) => c.root)),
		);
	}

	private open_run(run: Run): void {
		const section = document.getElementById(`run-${run.number}`);
		if (section instanceof HTMLDetailsElement) section.open = true;
		section?.scrollIntoView({ behavior: "smooth", block: "start" });
	}

	private update(): void {
		const { state } = this;
		this.all.hidden = !state.zoomed;
		this.all_runs.hidden = state.runs.every((r) => r.shown);
		fill(this.range, `steps ${state.view.map((v) => step_text(Math.round(v))).join(" to ")}`);
		this.runs.draw();
	}

	private toggle_log(): void {
		this.all_log = !this.all_log;
		for (const chart of this.state.charts) chart.set_log(this.all_log);
	}

	private choose_theme(wish: "light" | "dark" | null): void {
		this.theme = wish ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
		document.documentElement.dataset.theme = this.theme;
		forget_colours();
		this.state?.redraw();
	}

	private print(on: boolean): void {
		document.documentElement.dataset.theme = on ? "light" : this.theme;
		document.body.classList.toggle("printing", on);
		forget_colours();
		for (const section of document.querySelectorAll<HTMLDetailsElement>("details.run"))
			section.open ||= on;
		for (const chart of this.state.charts)
			if (on) chart.show_for_print();
			else chart.redraw();
	}

	// ---- keys ----

	private walk(by: number): void {
		const chart = this.state.walking ?? this.state.charts[0];
		this.state.walking = chart;
		chart?.walk(by);
	}

	private next_finding(by: number): void {
		const steps = this.state.runs
			.filter((r) => r.shown)
			.flatMap((r) => r.run.findings)
			.filter((f) => f.step !== null && f.severity !== "info")
			.map((f) => f.step!)
			.sort((a, b) => a - b);
		const [from, to] = this.state.view;
		const middle = this.state.zoomed ? (from + to) / 2 : by > 0 ? -Infinity : Infinity;
		const next =
			by > 0 ? steps.find((s) => s > middle + 1e-9) : steps.filter((s) => s < middle - 1e-9).pop();
		if (next === undefined) return;
		const [first, last] = this.state.full;
		const wide = this.state.zoomed ? (to - from) / 2 : (last - first) / 16;
		this.state.look(next - wide, next + wide);
	}

	private key(event: KeyboardEvent): void {
		if (event.ctrlKey || event.metaKey || event.altKey || this.help.open) return;
		if (event.target instanceof HTMLInputElement) return;
		const { state } = this;
		const actions: Record<string, () => void> = {
			"?": () => this.help.showModal(),
			ArrowLeft: () => this.walk(event.shiftKey ? -10 : -1),
			ArrowRight: () => this.walk(event.shiftKey ? 10 : 1),
			n: () => this.next_finding(1),
			N: () => this.next_finding(-1),
			"+": () => state.zoom(0.5),
			"=": () => state.zoom(0.5),
			"-": () => state.zoom(2),
			a: () => state.pan(-0.2),
			s: () => state.pan(0.2),
			"0": () => state.look(null),
			l: () => this.toggle_log(),
			m: () => this.more_smoothing(),
			t: () => this.choose_theme(this.theme === "dark" ? "light" : "dark"),
		};
		const action = actions[event.key];
		if (!action) return;
		action();
		event.preventDefault();
	}

	private more_smoothing(): void {
		const next = [0, 0.6, 0.9, 0.98].find((v) => v > this.state.smoothing) ?? 0;
		this.slider.value = String(next);
		this.state.smoothing = next;
		this.state.redraw();
	}
}

const root = el("main", { id: "plimsoll" });
document.body.append(root);
new App(root).open().then(
	() => {
		document.documentElement.dataset.ready = String(Math.round(performance.now()));
	},
	(why: unknown) => {
		fill(
			root,
			el(
				"div",
				{ class: "failed", role: "alert" },
				el("h1", {}, "This page cannot be shown"),
				el("p", {}, why instanceof Error ? plain(why.message) : "An unknown error."),
				el(
					"p",
					{},
					"It needs a browser of 2023 or later (Chrome 103, Firefox 113, Safari 16.4). If the file was copied, copy it again.",
				),
			),
		);
	},
);
