// One chart: curves of one quantity, of any number of runs, with what was found in them.

import uPlot from "uplot";
import { FONT_SMALL, button, colour, el, fill } from "../dom";
import { plain } from "../text";
import { type Finding, type Group, type Line, is_evaluation, smooth, step_text, value_text } from "./data";
import type { State } from "./state";

const LEGEND_MOST = 10; // lines that a legend lists; beyond that the table of runs is the legend
const TIP_MOST = 14; // rows of the box at the pointer
const NEAR = 6; // CSS pixels from a mark that are on it
const TOUCH_SLOP = 8;

interface Mark {
	finding: Finding;
	line: Line;
}

type Columns = (number | null | undefined)[];

// Places of axis marks: powers of ten, with 2 and 5 between where few are seen.
function log_ticks(low: number, high: number): number[] {
	const first = Math.floor(Math.log10(low));
	const last = Math.ceil(Math.log10(high));
	const decades = last - first;
	const each = Math.max(1, Math.ceil(decades / 6));
	const times = decades <= 1 ? [1, 2, 3, 4, 5, 6, 8] : decades <= 3 ? [1, 2, 5] : [1];
	const out = [];
	for (let power = first; power <= last; power += each)
		for (const t of times) {
			const at = Number(`${t}e${power}`);
			if (at >= low && at <= high) out.push(at);
		}
	return out;
}

// In all charts: uPlot's third argument, which its types lack, shows the others.
function move_cursor(u: uPlot, left: number): void {
	const set = u.setCursor as (at: { left: number; top: number }, fire: boolean, publish: boolean) => void;
	set({ left, top: u.over.clientHeight / 2 }, true, true);
}

// uPlot's own end at 1e16: a gradient norm on its way to infinity goes further.
const increments = Array.from({ length: 640 }, (_, i) => [1, 2, 5].map((t) => Number(`${t}e${i - 320}`)))
	.flat()
	.filter((v) => v > 0 && v < Infinity);

export class Chart {
	readonly root: HTMLElement;
	private place = el("div", { class: "plot" });
	private legend = el("div", { class: "legend" });
	private log_button: HTMLButtonElement;
	private tip = el("div", { class: "tip", hidden: true });
	private plot: uPlot | null = null;
	private drawn: Line[] = []; // by uPlot's number of the series, 1 less
	private marks: Mark[];
	private visible = false;

	constructor(
		private state: State,
		readonly group: Group,
		readonly main: boolean,
	) {
		this.log_button = button("log", () => this.set_log(!group.logarithmic), {
			class: "small",
			title: "equal distances are equal factors",
		});
		this.marks = this.find_marks();
		this.root = el(
			"section",
			{ class: main ? "chart main" : "chart", "aria-label": plain(group.title, 200) },
			el(
				"div",
				{ class: "head" },
				el("h3", { title: plain(group.title, 400) }, plain(group.title, 120)),
				this.legend,
				this.log_button,
			),
			this.place,
		);
		new ResizeObserver(() => this.resize()).observe(this.place);
		new IntersectionObserver(
			(entries) => {
				if (entries.some((e) => e.isIntersecting) && !this.visible) {
					this.visible = true;
					this.draw();
				}
			},
			{ rootMargin: "400px" },
		).observe(this.root);
	}

	// Everything is drawn anew: the theme, the runs that are shown or the smoothing changed.
	redraw(): void {
		if (this.visible) this.draw();
	}

	show_for_print(): void {
		this.visible = true;
		this.draw();
	}

	look(from: number, to: number): void {
		this.plot?.setScale("x", { min: from, max: to });
	}

	set_log(on: boolean): void {
		this.group.logarithmic = on;
		this.redraw();
	}

	// Move the cursor, here and in all charts, to the step that is `by` points on; false: there is no cursor.
	walk(by: number): void {
		const { plot } = this;
		if (!plot) return;
		const steps = plot.data[0];
		const last = steps.length - 1;
		const at = plot.cursor.idx ?? (by > 0 ? 0 : last);
		const next = Math.max(0, Math.min(last, at + by));
		const left = plot.valToPos(steps[next], "x");
		move_cursor(plot, left);
		this.tell(plot);
	}

	get data_set(): DOMStringMap {
		return this.place.dataset;
	}

	// Findings of the series that are drawn here; on the main chart all that are not a mere information.
	private find_marks(): Mark[] {
		const { lines } = this.group;
		const marks = new Map<Finding, Mark>();
		for (const line of lines)
			for (const finding of line.run.run.findings) {
				if (finding.step === null) continue;
				const own = finding.series === line.name;
				if (own || (this.main && finding.severity !== "info" && !marks.has(finding)))
					marks.set(finding, { finding, line });
			}
		return [...marks.values()];
	}

	private shown(): Line[] {
		return this.group.lines.filter((l) => l.run.shown && !l.hidden);
	}

	private height(): number {
		const wide = this.place.clientWidth;
		return this.main ? (wide < 600 ? 250 : 340) : 210;
	}

	private resize(): void {
		const width = this.place.clientWidth;
		if (this.plot && width && width !== this.plot.width)
			this.plot.setSize({ width, height: this.height() });
	}

	// ---- data: one column of steps for all lines ----

	private tables(lines: Line[]): { tables: Columns[][]; series: uPlot.Series[]; bands: uPlot.Band[] } {
		const tables: Columns[][] = [];
		const series: uPlot.Series[] = [{}];
		const bands: uPlot.Band[] = [];
		const log = this.group.logarithmic;
		const usable = (list: (number | null)[]) => (log ? list.map((v) => (v! > 0 ? v : null)) : list);
		this.drawn = [];
		const add = (line: Line, values: (number | null)[], style: uPlot.Series) => {
			tables[tables.length - 1].push(usable(values));
			series.push(style);
			this.drawn.push(line);
		};
		for (const line of lines) {
			const { curve } = line;
			const stroke = this.state.colour_of(line);
			const evaluated = is_evaluation(line.series.role);
			const weight = evaluated ? 0 : this.state.smoothing;
			tables.push([curve.step]);
			add(line, weight ? smooth(curve.mean, weight) : curve.mean, {
				label: line.name,
				stroke,
				width: this.main ? 1.6 : 1.4,
				spanGaps: true,
				...(evaluated && this.state.many ? { dash: [6, 3] } : {}),
				points: {
					show: curve.step.length <= (evaluated ? 120 : 24),
					size: 5,
					fill: stroke,
					width: 1,
				},
			});
			if (curve.min && curve.max) {
				const at = series.length;
				const bound: uPlot.Series = {
					stroke: "transparent",
					width: 0,
					spanGaps: true,
					points: { show: false },
				};
				add(line, curve.max, bound);
				add(line, curve.min, bound);
				bands.push({ series: [at, at + 1], fill: stroke + (weight ? "2e" : "38") });
			} else if (weight) {
				add(line, curve.mean, {
					stroke: stroke + "55",
					width: 1,
					spanGaps: true,
					points: { show: false },
				});
			}
		}
		return { tables, series, bands };
	}

	private draw(): void {
		this.plot?.destroy();
		this.plot = null;
		const lines = this.shown();
		this.show_legend();
		this.log_button.setAttribute("aria-pressed", String(this.group.logarithmic));
		this.data_set.lines = String(lines.length);
		if (!lines.length) {
			fill(this.place, el("p", { class: "soft" }, "Nothing of this is shown."));
			return;
		}
		fill(this.place);
		const { tables, series, bands } = this.tables(lines);
		const data = uPlot.join(tables as uPlot.AlignedData[]);
		this.plot = new uPlot(this.options(series, bands), data, this.place);
		for (const canvas of this.place.querySelectorAll("canvas"))
			canvas.setAttribute("aria-hidden", "true");
		this.plot.over.append(this.tip);
		this.touch(this.plot);
	}

	private options(series: uPlot.Series[], bands: uPlot.Band[]): uPlot.Options {
		const log = this.group.logarithmic;
		const axis: uPlot.Axis = {
			stroke: colour("--soft"),
			grid: { stroke: colour("--line"), width: 1 },
			ticks: { show: false },
			font: FONT_SMALL,
			gap: 4,
		};
		return {
			width: Math.max(160, this.place.clientWidth || 600),
			height: this.height(),
			legend: { show: false },
			padding: [this.marks.length ? 18 : 8, 22, 0, 0],
			cursor: {
				y: false,
				sync: { key: "curves" },
				focus: { prox: 24 },
				drag: { x: true, y: false, setScale: false },
				bind: { dblclick: () => () => (this.state.look(null), null) },
				points: { size: 6 },
			},
			focus: { alpha: 1 },
			scales: {
				x: { time: false, range: () => this.state.view },
				y: {
					distr: log ? 3 : 1,
					range: (_, low, high) => this.range(low, high),
				},
			},
			axes: [
				{ ...axis, size: 26, values: (_, at) => at.map((v) => (v === null ? "" : step_text(v))) },
				{
					...axis,
					size: 58,
					incrs: increments,
					values: (_, at) => at.map((v) => (v === null ? "" : value_text(v))),
					...(log
						? {
								splits: (u: uPlot) => log_ticks(u.scales.y.min!, u.scales.y.max!),
								filter: (_: uPlot, at: number[]) => at,
							}
						: {}),
				},
			],
			series,
			bands,
			hooks: {
				drawClear: [(u) => this.draw_regions(u)],
				draw: [(u) => this.draw_marks(u)],
				setCursor: [(u) => this.tell(u)],
				setSelect: [(u) => this.select(u)],
			},
		};
	}

	private range(low: number | null, high: number | null): [number, number] {
		if (low === null || high === null) return this.group.logarithmic ? [0.1, 1] : [0, 1];
		if (this.group.logarithmic) {
			const edge = Math.max(1.08, (high / low) ** 0.04);
			return [low / edge, high * edge];
		}
		const edge = (high - low) * 0.05 || Math.abs(high) * 0.05 || 1;
		return [low >= 0 && low < edge ? 0 : low - edge, high + edge];
	}

	private select(u: uPlot): void {
		const { left, width } = u.select;
		if (width < 6) return;
		this.state.look(u.posToVal(left, "x"), u.posToVal(left + width, "x"));
		u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
	}

	// ---- what was found ----

	private visible_marks(): Mark[] {
		const { many } = this.state;
		return this.marks.filter(
			(m) => m.line.run.shown && !m.line.hidden && !(many && m.finding.severity === "info"),
		);
	}

	private tone(finding: Finding): string {
		return colour(
			finding.severity === "error"
				? "--error"
				: finding.severity === "warning"
					? "--warning"
					: "--soft",
		);
	}

	// What ended is shaded; what lasts has a bar at the lower edge.
	private draw_regions(u: uPlot): void {
		const { ctx, bbox } = u;
		const ratio = devicePixelRatio || 1;
		ctx.save();
		ctx.beginPath();
		ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
		ctx.clip();
		for (const { finding, line } of this.visible_marks()) {
			if (finding.severity === "info") continue;
			const from = u.valToPos(finding.step!, "x", true);
			const to = u.valToPos(finding.end_step ?? line.series.last_step ?? this.state.full[1], "x", true);
			const wide = Math.max(2, to - from);
			ctx.fillStyle = this.tone(finding);
			if (finding.end_step !== null) {
				ctx.globalAlpha = 0.12;
				ctx.fillRect(from, bbox.top, wide, bbox.height);
			}
			ctx.globalAlpha = 0.55;
			ctx.fillRect(from, bbox.top + bbox.height - 3 * ratio, wide, 3 * ratio);
		}
		ctx.restore();
	}

	private draw_marks(u: uPlot): void {
		const { ctx, bbox } = u;
		const ratio = devicePixelRatio || 1;
		const ends: number[] = []; // of the labels in each row
		ctx.save();
		ctx.font = FONT_SMALL.replace("11px", `${10.5 * ratio}px`);
		ctx.textBaseline = "top";
		ctx.textAlign = "left";
		const marks = this.visible_marks().sort((a, b) => a.finding.step! - b.finding.step!);
		this.draw_bad(u, ratio); // names of findings stand on it
		let drawn = 0;
		for (const { finding, line } of marks) {
			const x = u.valToPos(finding.step!, "x", true);
			if (x < bbox.left - 1 || x > bbox.left + bbox.width + 1) continue;
			drawn++;
			ctx.strokeStyle = ctx.fillStyle = this.tone(finding);
			ctx.lineWidth = (finding.severity === "info" ? 1 : 1.4) * ratio;
			ctx.setLineDash(finding.severity === "info" ? [3 * ratio, 3 * ratio] : []);
			ctx.beginPath();
			ctx.moveTo(x, bbox.top - 4 * ratio);
			ctx.lineTo(x, bbox.top + bbox.height);
			ctx.stroke();
			const dot = this.state.many ? 9 * ratio : 0; // whose finding it is
			const width = dot + ctx.measureText(finding.id).width;
			const left = Math.min(x + 3 * ratio, bbox.left + bbox.width - width);
			let row = 0;
			while (row < 4 && ends[row] > left - 4 * ratio) row++;
			if (row === 4) continue;
			ends[row] = left + width;
			const top = bbox.top + (row * 13 - 15) * ratio;
			const tone = ctx.fillStyle;
			ctx.fillStyle = colour("--paper-veil");
			ctx.fillRect(left - ratio, top - ratio, width + 2 * ratio, 12 * ratio);
			ctx.fillStyle = tone;
			ctx.fillText(finding.id, left + dot, top);
			if (!dot) continue;
			ctx.fillStyle = this.state.run_colour(line.run);
			ctx.fillRect(left, top + 2 * ratio, 7 * ratio, 7 * ratio);
		}
		this.data_set.marks = String(drawn);
		this.draw_best(u, ratio);
		ctx.restore();
	}

	// A band along the upper edge where values were not finite: there is no place for them on a scale.
	private draw_bad(u: uPlot, ratio: number): void {
		const { ctx, bbox } = u;
		ctx.fillStyle = colour("--error");
		for (const { curve } of this.shown())
			for (const i of curve.bad) {
				const next = curve.step[Math.min(i + 1, curve.step.length - 1)];
				const from = Math.max(bbox.left, Math.floor(u.valToPos(curve.step[i], "x", true)));
				const to = Math.min(bbox.left + bbox.width, Math.ceil(u.valToPos(next, "x", true)));
				const wide = Math.max(2 * ratio, to - from); // a run's last value has its bar before its end
				if (to >= from) ctx.fillRect(to - wide, bbox.top, wide, 4 * ratio);
			}
	}

	// A ring around each run's best evaluation.
	private draw_best(u: uPlot, ratio: number): void {
		const { ctx, bbox } = u;
		for (const line of this.shown()) {
			const { best } = line.run.run;
			if (best.series !== line.name || best.step === null || best.value === null) continue;
			const x = u.valToPos(best.step, "x", true);
			const y = u.valToPos(best.value, "y", true);
			if (!(x >= bbox.left && x <= bbox.left + bbox.width)) continue;
			if (!(y >= bbox.top - 4 && y <= bbox.top + bbox.height + 4)) continue;
			ctx.strokeStyle = this.state.colour_of(line);
			ctx.lineWidth = 2 * ratio;
			ctx.setLineDash([]);
			ctx.beginPath();
			ctx.arc(x, y, 6 * ratio, 0, 2 * Math.PI);
			ctx.stroke();
		}
	}

	// ---- the box at the pointer ----

	private tell(u: uPlot): void {
		const { left, idx } = u.cursor;
		const here = u.over.matches(":hover") || this.state.walking === this;
		if (!here || left === undefined || left < 0 || idx === null || idx === undefined) {
			this.tip.hidden = true;
			return;
		}
		const rows = this.rows_at(u.data[0][idx]);
		const near = this.visible_marks().filter(
			(m) => Math.abs(u.valToPos(m.finding.step!, "x") - left) < NEAR,
		);
		fill(
			this.tip,
			el("div", { class: "step" }, `step ${step_text(u.data[0][idx])}`),
			...rows.slice(0, TIP_MOST).map((r) => {
				const mark = el("span", { class: "swatch", "aria-hidden": "true" });
				mark.style.background = this.state.colour_of(r.line);
				return el(
					"div",
					{ class: "value" },
					mark,
					el("span", {}, plain(r.name, 60)),
					el("b", {}, r.text),
				);
			}),
			rows.length > TIP_MOST
				? el("div", { class: "soft" }, `and ${rows.length - TIP_MOST} more`)
				: null,
			...near
				.slice(0, 3)
				.map((m) => el("div", { class: m.finding.severity }, plain(m.finding.title ?? "", 160))),
		);
		this.tip.hidden = false;
		const wide = u.over.clientWidth;
		const room = this.tip.offsetWidth + 14;
		this.tip.style.left = `${Math.max(0, left + room < wide ? left + 14 : left - room)}px`;
		this.tip.style.top = "8px";
	}

	// What each line is at a step: its last point up to there, largest first.
	private rows_at(step: number): { line: Line; name: string; text: string; value: number }[] {
		const rows = [];
		const several = new Set(this.shown().map((l) => l.name)).size > 1;
		for (const line of this.shown()) {
			const { curve } = line;
			let low = 0;
			let high = curve.step.length;
			while (low < high) {
				const middle = (low + high) >> 1;
				if (curve.step[middle] <= step) low = middle + 1;
				else high = middle;
			}
			const i = low - 1;
			if (i < 0 || step > (line.series.last_step ?? Infinity)) continue;
			const v = curve.mean[i];
			const range =
				curve.min && curve.max && v !== null && curve.min[i] !== curve.max[i]
					? ` (${value_text(curve.min[i])} to ${value_text(curve.max[i])})`
					: "";
			const name = this.state.many ? line.run.name + (several ? ` ${line.name}` : "") : line.name;
			const text = v === null ? "not finite" : value_text(v) + range;
			rows.push({ line, name, text, value: v ?? Infinity });
		}
		return rows.sort((a, b) => b.value - a.value);
	}

	// ---- the legend ----

	private show_legend(): void {
		const { lines } = this.group;
		const listed = this.state.many ? [] : lines.length > 1 && lines.length <= LEGEND_MOST ? lines : [];
		fill(
			this.legend,
			...listed.map((line) => {
				const mark = el("span", { class: "swatch", "aria-hidden": "true" });
				mark.style.background = this.state.colour_of(line);
				const b = button("", () => this.toggle(line), {
					class: "small",
					"aria-pressed": String(!line.hidden),
					title: "hide or show; double click: only this",
				});
				b.addEventListener("dblclick", () => this.isolate(line));
				fill(b, mark, plain(line.name, 40));
				return b;
			}),
		);
	}

	private toggle(line: Line): void {
		line.hidden = !line.hidden;
		this.redraw();
	}

	private isolate(line: Line): void {
		for (const l of this.group.lines) l.hidden = l !== line;
		this.redraw();
	}

	// ---- fingers: one moves the cursor, two zoom ----

	private touch(u: uPlot): void {
		const down = new Map<number, number>();
		let before = 0;
		const x_of = (event: PointerEvent) => event.clientX - u.over.getBoundingClientRect().left;
		u.over.style.touchAction = "pan-y";
		u.over.addEventListener("pointerdown", (event) => {
			if (event.pointerType !== "mouse") down.set(event.pointerId, x_of(event));
		});
		u.over.addEventListener("pointermove", (event) => {
			if (!down.has(event.pointerId)) return;
			down.set(event.pointerId, x_of(event));
			if (down.size === 2) {
				const [a, b] = [...down.values()];
				const apart = Math.max(TOUCH_SLOP, Math.abs(a - b));
				if (before) this.state.zoom(before / apart, u.posToVal((a + b) / 2, "x"));
				before = apart;
			} else {
				this.state.walking = this;
				move_cursor(u, x_of(event));
				this.tell(u);
			}
		});
		for (const name of ["pointerup", "pointercancel"] as const)
			u.over.addEventListener(name, (event) => {
				down.delete(event.pointerId);
				before = 0;
			});
	}
}
