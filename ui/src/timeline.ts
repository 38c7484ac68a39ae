// Live memory over the events, stacked in bands.  A column of pixels shows the moment at which it was
// highest (or lowest), with the bands of that very moment, so that no peak is lost at any zoom and bands
// always add up to a total that was there.

import { Chart, LEFT, TOP, limit_of } from "./chart";
import { draw_chart } from "./chart_draw";
import { Delay, FONT_SMALL, Picture, colour, el, fill, table } from "./dom";
import { Overview } from "./overview";
import { draw_notes, note_at, show_note } from "./notes";
import { range_tip } from "./ranges";
import type { State } from "./state";
import { band_title } from "./groups";
import * as text from "./text";

const TABLE_ROWS = 24;
const HINT_MS = 1600;

// A pointer that is down.
interface Drag {
	x: number; // where it began
	now: number; // where it is
	pan: boolean; // or else it selects a range
	moved: boolean;
}

export class Timeline {
	readonly root: HTMLElement;
	private base: Picture;
	private over: Picture;
	private strip: Overview;
	private chart: Chart;
	private tip: HTMLElement;
	private tip_text = "";
	private hover: { x: number; y: number } | null = null;
	private hovered: number | null = null;
	private drags = new Map<number, Drag>();
	private pinch = 0;
	private hint = el(
		"div",
		{ class: "hint", hidden: true },
		"Ctrl + wheel zooms, Alt + wheel makes it taller",
	);
	private hint_ends = new Delay(HINT_MS, () => (this.hint.hidden = true));
	readonly behind = el("details", { class: "behind" }, el("summary", {}, "Table"));
	private listing = new Delay(150, () => this.list());

	constructor(
		private state: State,
		private describe: (a: number | null, band: number, m: number, gap: number) => Node[],
		private open_finding: (index: number) => void,
		private open_gap: (band: number) => void,
		private open_range: (i: number) => void,
	) {
		this.chart = new Chart(state);
		this.base = new Picture({ class: "base", "aria-hidden": "true" }, (c, w, h) => this.draw(c, w, h));
		this.over = new Picture(
			{
				class: "over",
				tabindex: 0,
				role: "application",
				"aria-roledescription": "memory over time",
				"aria-label": this.summary(),
				"aria-describedby": "keys-hint",
			},
			(c, _, h) => this.draw_over(c, h),
		);
		this.strip = new Overview(state);
		this.tip = el("div", { class: "tip", hidden: true, "aria-hidden": "true" });
		this.root = el(
			"div",
			{ class: "timeline" },
			el("div", { class: "plot" }, this.base.canvas, this.over.canvas, this.tip, this.hint),
			this.strip.picture.canvas,
		);
		this.behind.addEventListener("toggle", () => this.list());
		this.listen();
		state.on((change) => {
			if (change === "view" || change === "groups" || change === "theme") this.base.later();
			if (change === "view" || change === "groups") this.list_later();
			this.over.later();
			if (change === "groups" || change === "theme") this.hovered = null;
		});
	}

	// Taller or flatter around a height; null: around the middle of what is visible.
	stretch(times: number, around: number | null): void {
		const { chart } = this;
		const at = around ?? (chart.floor + chart.scale) / 2;
		this.state.stand(at - (at - chart.floor) * times, at + (chart.scale - at) * times, chart.whole);
	}

	// The moment under the pointer, or null.
	get pointed(): number | null {
		return this.hover && this.hover.x >= LEFT ? this.chart.m_of(this.hover.x) : null;
	}

	// How many moments the picture has room for.
	get columns(): number {
		return this.base.width ? Math.round(this.chart.plot_width_of(this.base.width)) : 900;
	}

	get canvas(): HTMLCanvasElement {
		return this.base.canvas;
	}

	// All of the picture, on another context.
	paint(c: CanvasRenderingContext2D): { width: number; height: number } {
		draw_chart(this.chart, c);
		return { width: this.base.width, height: this.base.height };
	}

	redraw(): void {
		this.base.now();
		this.over.now();
		this.strip.picture.now();
	}

	private summary(): string {
		const { recording } = this.state;
		const peak = recording.peak_moment;
		return (
			`Allocated memory over ${text.plural(recording.events, "event")}: the peak is ${text.bytes(recording.allocated.total(peak))} at ${recording.moment_text(peak)}` +
			(recording.death ? `; the run died at ${recording.moment_text(recording.death_moment!)}` : "") +
			". The table below has the numbers."
		);
	}

	private draw(c: CanvasRenderingContext2D, width: number, height: number): void {
		const { chart, state } = this;
		chart.width = width;
		chart.height = height;
		chart.ratio = this.base.ratio;
		chart.measure();
		this.root.dataset.from = state.from.toFixed(1);
		this.root.dataset.to = state.to.toFixed(1);
		this.root.dataset.top = chart.scale.toFixed(0);
		this.root.dataset.bottom = chart.floor.toFixed(0);
		draw_chart(chart, c);
	}

	// ---- the same as rows: the highest moment of each part of what is visible ----

	private list_later(): void {
		if (this.behind.open) this.listing.start();
	}

	private list(): void {
		if (!this.behind.open) return;
		const { state } = this;
		const { recording, groups } = state;
		const first = Math.floor(state.from);
		const end = Math.min(recording.events, Math.ceil(state.to)) + 1;
		const n = Math.min(TABLE_ROWS, end - first);
		const border = (i: number) => first + Math.floor((i * (end - first)) / n);
		const rows = Array.from({ length: n }, (_, i) => {
			const m = state.drawn.extreme(border(i), border(i + 1), state.lowest);
			return { m, sums: Array.from(groups.at(m)) };
		});
		const bands = groups.bands
			.map((band, b) => ({ band, b }))
			.filter(({ b }) => groups.used[b] && !state.hidden.has(b));
		const limit = limit_of(state);
		fill(
			this.behind,
			el("summary", {}, "Table"),
			table(
				`The ${state.lowest ? "lowest" : "highest"} moment of each of ${n} equal parts of what is visible${limit ? `; the limit is ${text.bytes(limit.bytes)}` : ""}`,
				[
					{ name: "event", cell: (r) => (r.m ? text.count(r.m - 1) : "before") },
					{
						name: "allocated",
						number: true,
						cell: (r) => text.bytes(recording.allocated.total(r.m)),
					},
					{ name: "reserved", number: true, cell: (r) => text.bytes(recording.reserved(r.m)) },
					...bands.map(({ band, b }) => ({
						name: band.name,
						title: band_title(band),
						number: true,
						cell: (r: (typeof rows)[0]) => text.bytes(r.sums[b]),
					})),
				],
				rows,
				(r) => state.go(r.m),
			),
		);
	}

	// ---- what moves: cursor, mark, hover, drag ----

	private draw_over(c: CanvasRenderingContext2D, height: number): void {
		const { state } = this;
		const bottom = TOP + this.chart.plot_height();
		c.save();
		c.beginPath();
		c.rect(LEFT - 1, 0, this.chart.plot_width() + 2, height);
		c.clip();
		if (state.mark !== null) {
			const [from, to] = [Math.min(state.mark, state.cursor), Math.max(state.mark, state.cursor)].map(
				(m) => this.chart.x_of(m),
			);
			c.fillStyle = colour("--select");
			c.fillRect(from, TOP, to - from, bottom - TOP);
			this.draw_line(c, state.mark, "from", true);
		}
		this.draw_line(c, state.cursor, "", false);
		draw_notes(c, state.notes, (m) => this.chart.x_of(m));
		if (state.hover !== null && !this.hover) this.draw_pointer(c, this.chart.x_of(state.hover), bottom);
		if (state.chosen !== null) this.draw_life(c, state.chosen, "--ink", 2);
		if (this.hovered !== null && this.hovered !== state.chosen)
			this.draw_life(c, this.hovered, "--ink", 1);
		for (const drag of this.drags.values())
			if (drag.moved && !drag.pan) {
				c.fillStyle = colour("--select");
				c.fillRect(Math.min(drag.x, drag.now), TOP, Math.abs(drag.now - drag.x), bottom - TOP);
			}
		if (this.hover && !this.drags.size) this.draw_pointer(c, this.hover.x, bottom);
		c.restore();
	}

	private draw_pointer(c: CanvasRenderingContext2D, x: number, bottom: number): void {
		c.fillStyle = colour("--ink");
		c.globalAlpha = 0.45;
		c.fillRect(Math.round(x), TOP, 1, bottom - TOP);
		c.globalAlpha = 1;
	}

	private draw_line(c: CanvasRenderingContext2D, m: number, words: string, dashed: boolean): void {
		const x = Math.round(this.chart.x_of(m)) + 0.5;
		const bottom = TOP + this.chart.plot_height();
		c.strokeStyle = c.fillStyle = colour("--cursor");
		c.lineWidth = 1.5;
		c.setLineDash(dashed ? [3, 3] : []);
		// Down to the column that it is about, which may be a pixel wide and must stay visible.
		const total = this.state.recording.allocated.total(m);
		c.beginPath();
		c.moveTo(x, TOP);
		c.lineTo(x, Math.max(TOP, this.chart.y_of(total) - 2));
		c.stroke();
		c.setLineDash([]);
		c.beginPath();
		c.moveTo(x - 5, bottom + 6);
		c.lineTo(x + 5, bottom + 6);
		c.lineTo(x, bottom);
		c.fill();
		if (words) {
			c.font = FONT_SMALL;
			c.textAlign = "left";
			c.textBaseline = "top";
			c.fillText(words, x + 4, TOP + 2);
		}
	}

	// The outline of an allocation, and its life below the axis.
	private draw_life(c: CanvasRenderingContext2D, a: number, ink: string, line: number): void {
		const { recording, groups } = this.state;
		const end = recording.freed[a] || recording.events;
		const left = this.chart.x_of(recording.born[a]);
		const right = Math.max(left + 2, this.chart.x_of(end));
		const y = TOP + this.chart.plot_height();
		c.fillStyle = c.strokeStyle = colour(ink);
		c.fillRect(left, y - 1, right - left, 3);
		if (recording.block[a] < this.chart.big_bytes) return;
		const tops: [number, number, number, number][] = [];
		this.chart.each_big((b, i, bottom, top) => {
			if (b === a)
				tops.push([
					this.chart.cells.x[i],
					this.chart.cells.x[i + 1],
					this.chart.y_of(bottom),
					this.chart.y_of(top),
				]);
		}, groups.of[a]);
		if (!tops.length) return;
		c.lineWidth = line;
		c.beginPath();
		c.moveTo(tops[0][0], tops[0][2]);
		for (const [x, x2, , top] of tops) {
			c.lineTo(x, top);
			c.lineTo(x2, top);
		}
		for (const [x, x2, bottom] of tops.reverse()) {
			c.lineTo(x2, bottom);
			c.lineTo(x, bottom);
		}
		c.closePath();
		c.stroke();
	}

	private show_tip(): void {
		const { hover } = this;
		if (!hover || this.drags.size) {
			this.tip.hidden = true;
			return;
		}
		const { m, band, a, gap } = this.chart.pick(hover.x, hover.y);
		const range = this.chart.range_at(hover.x, hover.y);
		if (this.hovered !== a) {
			this.hovered = a;
			this.over.later();
		}
		const key = `${m} ${band} ${a} ${gap} ${range}`;
		if (key !== this.tip_text)
			fill(
				this.tip,
				...(range === null ? this.describe(a, band, m, gap) : range_tip(this.state.recording, range)),
			);
		this.tip_text = key;
		this.tip.hidden = false;
		const { offsetWidth: wide, offsetHeight: high } = this.tip;
		const left = hover.x + 18 + wide > this.base.width ? Math.max(0, hover.x - wide - 14) : hover.x + 18;
		this.tip.style.left = `${left}px`;
		this.tip.style.top = `${Math.max(-40, Math.min(hover.y - 10, this.base.height - high))}px`;
	}

	// ---- input ----

	private listen(): void {
		const canvas = this.over.canvas;
		let asked = false;
		const place = (event: MouseEvent) => {
			const box = canvas.getBoundingClientRect();
			return { x: event.clientX - box.left, y: event.clientY - box.top };
		};
		canvas.addEventListener("pointermove", (event) => {
			const at = place(event);
			this.hover = event.pointerType === "touch" ? null : at;
			this.state.point(this.pointed);
			this.drag_to(event, at.x);
			this.over.later();
			if (!asked) {
				asked = true;
				requestAnimationFrame(() => {
					asked = false;
					this.show_tip();
				});
			}
		});
		canvas.addEventListener("pointerleave", () => {
			this.hover = null;
			this.hovered = null;
			this.state.point(null);
			this.tip.hidden = true;
			this.over.later();
		});
		canvas.addEventListener("pointerdown", (event) => {
			const { x } = place(event);
			canvas.setPointerCapture(event.pointerId);
			const pan = event.pointerType === "touch" || event.shiftKey || event.button === 1;
			this.drags.set(event.pointerId, { x, now: x, pan, moved: false });
			this.tip.hidden = true;
			if (this.drags.size === 2) this.pinch = this.finger_distance();
		});
		canvas.addEventListener("pointerup", (event) => this.drop(event, place(event)));
		canvas.addEventListener("pointercancel", (event) => this.drags.delete(event.pointerId));
		canvas.addEventListener("dblclick", (event) => this.zoom_to(place(event)));
		canvas.addEventListener("wheel", (event) => this.wheel(event, place(event)), { passive: false });
	}

	// To the life of what is there, or else closer.
	private zoom_to(at: { x: number; y: number }): void {
		const { state } = this;
		const { m, a } = this.chart.pick(at.x, at.y);
		const { born, freed, events } = state.recording;
		const width = state.to - state.from;
		const life = a === null ? width : (freed[a] || events) - born[a];
		if (a !== null && 1.5 * life + 16 < width) state.span(born[a], freed[a] || events);
		else state.zoom(0.25, a === null ? this.chart.m_of(at.x) : m);
	}

	private finger_distance(): number {
		const [a, b] = [...this.drags.values()];
		return Math.max(8, Math.abs(a.now - b.now));
	}

	private drag_to(event: PointerEvent, x: number): void {
		const drag = this.drags.get(event.pointerId);
		if (!drag) return;
		const before = drag.now;
		drag.now = x;
		if (Math.abs(x - drag.x) > 4) drag.moved = true;
		const per_pixel = (this.state.to - this.state.from) / this.chart.plot_width();
		if (this.drags.size === 2) {
			const [a, b] = [...this.drags.values()];
			const distance = this.finger_distance();
			const middle = this.chart.m_of((a.now + b.now) / 2);
			a.moved = b.moved = true;
			this.state.zoom(this.pinch / distance, middle);
			this.state.pan(((before - x) / 2) * per_pixel);
			this.pinch = distance;
		} else if (drag.pan && drag.moved) this.state.pan((before - x) * per_pixel);
	}

	private drop(event: PointerEvent, at: { x: number; y: number }): void {
		const drag = this.drags.get(event.pointerId);
		this.drags.delete(event.pointerId);
		if (!drag) return;
		if (drag.moved) {
			if (!drag.pan)
				this.state.look(
					this.chart.m_of(Math.min(drag.x, at.x)),
					this.chart.m_of(Math.max(drag.x, at.x)),
				);
			return;
		}
		const mark = this.chart
			.finding_marks()
			.find((f) => Math.hypot(f.x - at.x, TOP + this.chart.plot_height() - 10 - at.y) < 11);
		if (mark) {
			this.open_finding(mark.index);
			return;
		}
		const note = note_at(this.state.notes, (m) => this.chart.x_of(m), at);
		if (note) {
			show_note(this.state, note);
			return;
		}
		if (at.x < LEFT) return;
		const range = this.chart.range_at(at.x, at.y);
		if (range !== null) {
			this.open_range(range);
			return;
		}
		const { m, a, gap } = this.chart.pick(at.x, at.y);
		if (event.shiftKey) {
			this.state.set_mark(m);
			return;
		}
		this.state.go(m);
		this.state.choose(a);
		if (gap >= 0) this.open_gap(gap);
		else if (this.state.gap_band !== null) this.state.choose_gap(null);
	}

	// With Ctrl it zooms, with Alt it stretches, with Shift or sideways it pans; alone it moves what is stretched.
	private wheel(event: WheelEvent, at: { x: number; y: number }): void {
		const { state, chart } = this;
		const lines = event.deltaMode === 1 ? 16 : 1;
		const sideways = event.shiftKey && !event.deltaX ? event.deltaY : event.deltaX;
		const times = Math.exp(Math.max(-120, Math.min(120, event.deltaY * lines)) * 0.004);
		const is_sideways = Math.abs(sideways) > Math.abs(event.shiftKey ? 0 : event.deltaY);
		if (event.ctrlKey || event.metaKey) state.zoom(times, chart.m_of(at.x));
		else if (event.altKey) this.stretch(times, chart.bytes_of(at.y));
		else if (is_sideways) state.pan(((sideways * lines) / chart.plot_width()) * (state.to - state.from));
		else if (state.high !== null) {
			const by = (-event.deltaY * lines * (chart.scale - chart.floor)) / chart.plot_height();
			const low = Math.max(0, Math.min(chart.whole - (chart.scale - chart.floor), chart.floor + by));
			state.stand(low, low + chart.scale - chart.floor, chart.whole);
		} else {
			this.show_hint();
			return; // the page scrolls, where it can
		}
		event.preventDefault();
	}

	private show_hint(): void {
		this.hint.hidden = false;
		this.hint_ends.start();
	}
}
