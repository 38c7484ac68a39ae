// Live memory over the events, stacked in bands.  A column of pixels shows the moment at which it was
// highest (or lowest), with the bands of that very moment, so that no peak is lost at any zoom and bands
// always add up to a total that was there.

import { Picture, FONT, FONT_SMALL, colour, el, fill, packed } from "./dom";
import type { State } from "./state";
import * as text from "./text";
import { last_at_or_before } from "./recording";

const LEFT = 64;
const RIGHT = 14;
const TOP = 20;
const AXIS = 20;
const STRIP = 13; // phases, steps
const BIG = 600; // an allocation of at least this part of the peak has its own outline
const MIN_HEIGHT = 3; // pixels, below which no outline is drawn
const SHORTEST = 6; // pixels

// What a column of pixels shows.
interface Cells {
	n: number;
	dense: boolean; // a cell is a column of pixels, not a moment
	x: Float64Array; // left edges; one more than cells
	moment: Uint32Array;
	bottom: Float64Array; // of band b in cell i at i * bands + b; bytes
	top: Float64Array;
}

interface Drag {
	id: number;
	x: number;
	y: number;
	now: number;
	pan: boolean;
	moved: boolean;
	from: number;
	to: number;
}

export class Timeline {
	readonly root: HTMLElement;
	private base: Picture;
	private over: Picture;
	private strip: Picture;
	private tip: HTMLElement;
	private tip_text = "";
	private cells: Cells = { n: 0, dense: false, x: new Float64Array(1), moment: new Uint32Array(0), bottom: new Float64Array(0), top: new Float64Array(0) };
	private scale = 1;
	private big: Uint32Array;
	private big_bytes: number;
	private hover: { x: number; y: number } | null = null;
	private hovered: number | null = null;
	private drags = new Map<number, Drag>();
	private pinch = 0;
	private dense = el("canvas");
	private strip_columns = new Float64Array(0);

	constructor(
		private state: State,
		private describe: (a: number | null, band: number, m: number) => Node[],
		private open_finding: (index: number) => void,
	) {
		const { recording } = state;
		const peak = recording.allocated.at[recording.peak_moment];
		this.big_bytes = Math.max(1, peak / BIG);
		const rows: number[] = [];
		for (let a = 0; a < recording.rows; a++) if (recording.block[a] >= this.big_bytes && !(recording.flags[a] & 2)) rows.push(a);
		this.big = Uint32Array.from(rows);
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
			(c, w, h) => this.draw_over(c, w, h),
		);
		this.strip = new Picture({ class: "overview", "aria-hidden": "true" }, (c, w, h) => this.draw_strip(c, w, h));
		this.tip = el("div", { class: "tip", hidden: true, "aria-hidden": "true" });
		this.root = el("div", { class: "timeline" }, el("div", { class: "plot" }, this.base.canvas, this.over.canvas, this.tip), this.strip.canvas);
		this.listen();
		state.on((change) => {
			if (change !== "cursor" && change !== "chosen") this.base.later();
			if (change === "theme" || change === "groups" || change === "view") this.strip.later();
			this.over.later();
			if (change === "groups" || change === "theme") this.hovered = null;
		});
	}

	redraw(): void {
		this.base.now();
		this.over.now();
		this.strip.now();
	}

	private summary(): string {
		const { recording } = this.state;
		const peak = recording.peak_moment;
		return (
			`Allocated memory over ${text.plural(recording.events, "event")}: the peak is ${text.bytes(recording.allocated.at[peak])} at ${recording.moment_text(peak)}` +
			(recording.death ? `; the run died at ${recording.moment_text(recording.death_moment!)}` : "") +
			". The table below has the numbers."
		);
	}

	// ---- scales ----

	// The largest number that should be on the picture.
	static wanted_top(state: State): number {
		const { recording } = state;
		const { death } = recording;
		const peak = Math.max(recording.reserved_peak, recording.allocated.at[recording.peak_moment], 1);
		const wish = death ? recording.allocated.at[recording.death_moment!] + (death.requested_bytes ?? 0) : 0;
		const limit = Timeline.limit(state)?.bytes ?? 0;
		const most = Math.max(peak, wish);
		return Math.max(most, limit <= most * 1.6 ? limit : 0) * 1.04;
	}

	static limit(state: State): { bytes: number; high: number | null } | null {
		const oom = state.recording.death ?? state.recording.device.oom[state.recording.device.oom.length - 1];
		const low = oom?.verdict?.bound_low_bytes;
		return low ? { bytes: low, high: oom!.verdict!.bound_high_bytes } : null;
	}

	private x_of(m: number): number {
		return LEFT + ((m - this.state.from) / (this.state.to - this.state.from)) * this.plot_width();
	}

	private m_of(x: number): number {
		return this.state.from + ((x - LEFT) / this.plot_width()) * (this.state.to - this.state.from);
	}

	private plot_width(): number {
		return Math.max(1, this.base.width - LEFT - RIGHT);
	}

	private plot_height(): number {
		return Math.max(1, this.base.height - TOP - AXIS - this.strips() * STRIP - 4);
	}

	private strips(): number {
		const { recording } = this.state;
		return (recording.phase_from.length ? 1 : 0) + (recording.steps.length ? 1 : 0);
	}

	private y_of(n: number): number {
		return TOP + this.plot_height() * (1 - n / this.scale);
	}

	// The moment that the pointer means: what its column shows.
	private moment_at(x: number): number {
		const { cells } = this;
		if (!cells.n) return Math.round(this.m_of(x));
		const i = last_at_or_before(cells.x.subarray(0, cells.n), x);
		return cells.moment[Math.max(0, Math.min(cells.n - 1, i))];
	}

	// ---- columns of pixels ----

	private measure(): void {
		const { state } = this;
		const { recording, groups } = state;
		const bands = groups.bands.length;
		const first = Math.floor(state.from);
		const last = Math.min(recording.events, Math.ceil(state.to));
		const columns = Math.max(1, Math.min(2400, Math.round(this.plot_width() * this.base.ratio)));
		const span = state.to - state.from;
		const each = last - first + 1 <= columns;
		const n = each ? last - first + 1 : columns;
		const cells: Cells = {
			n,
			dense: !each,
			x: new Float64Array(n + 1),
			moment: new Uint32Array(n),
			bottom: new Float64Array(n * bands),
			top: new Float64Array(n * bands),
		};
		for (let i = 0; i < n; i++) {
			if (each) {
				cells.moment[i] = first + i;
				cells.x[i] = Math.max(LEFT, this.x_of(first + i));
			} else {
				const from = Math.floor(state.from + (span * i) / n);
				const to = Math.min(recording.events + 1, Math.max(from + 1, Math.floor(state.from + (span * (i + 1)) / n) + (i === n - 1 ? 1 : 0)));
				cells.moment[i] = recording.allocated.extreme(Math.min(from, recording.events), to, state.lowest);
				cells.x[i] = LEFT + (i * this.plot_width()) / n;
			}
			const sums = groups.at(cells.moment[i]);
			let sum = 0;
			for (let b = 0; b < bands; b++) {
				cells.bottom[i * bands + b] = sum;
				sum += sums[b];
				cells.top[i * bands + b] = sum;
			}
		}
		cells.x[n] = each ? Math.min(LEFT + this.plot_width(), this.x_of(last + 1)) : LEFT + this.plot_width();
		this.cells = cells;
		this.scale = this.top_of_scale();
	}

	private top_of_scale(): number {
		const { state, cells } = this;
		if (!state.fit) return state.top ?? Timeline.wanted_top(state);
		const bands = state.groups.bands.length;
		let most = 1;
		for (let i = 0; i < cells.n; i++) most = Math.max(most, cells.top[i * bands + bands - 1]);
		return most * 1.06;
	}

	// ---- drawing ----

	private draw(c: CanvasRenderingContext2D, width: number, height: number): void {
		this.measure();
		this.root.dataset.from = this.state.from.toFixed(1);
		this.root.dataset.to = this.state.to.toFixed(1);
		this.root.dataset.top = this.scale.toFixed(0);
		this.draw_grid(c, width);
		c.save();
		c.beginPath();
		c.rect(LEFT, 0, this.plot_width(), TOP + this.plot_height());
		c.clip();
		if (this.cells.dense) this.draw_dense(c);
		else this.draw_bands(c);
		this.draw_outlines(c);
		this.draw_reserved(c);
		this.draw_limit(c);
		this.draw_death(c);
		c.restore();
		this.draw_axis(c, height);
		this.draw_findings(c);
	}

	private draw_grid(c: CanvasRenderingContext2D, width: number): void {
		c.font = FONT_SMALL;
		c.textAlign = "right";
		c.textBaseline = "middle";
		for (const at of text.byte_ticks(this.scale, Math.max(2, Math.floor(this.plot_height() / 56)))) {
			const y = Math.round(this.y_of(at)) + 0.5;
			c.fillStyle = colour("--line");
			c.fillRect(LEFT, y - 0.5, width - LEFT - RIGHT, 1);
			c.fillStyle = colour("--soft");
			c.fillText(text.axis_bytes(at), LEFT - 8, y);
		}
	}

	// Where each column of pixels is a cell, bands are written as pixels: a path of so many spikes takes a
	// browser without a GPU 50 ms and more.
	private draw_dense(c: CanvasRenderingContext2D): void {
		const { cells } = this;
		const { bands } = this.state.groups;
		const high = Math.max(1, Math.round(this.plot_height() * this.base.ratio));
		if (this.dense.width !== cells.n || this.dense.height !== high) {
			this.dense.width = cells.n;
			this.dense.height = high;
		}
		const context = this.dense.getContext("2d")!;
		const image = context.createImageData(cells.n, high);
		const pixels = new Uint32Array(image.data.buffer);
		const colours = bands.map((band) => packed(colour(band.colour)));
		const scale = high / this.scale;
		for (let i = 0; i < cells.n; i++) {
			let from = high;
			for (let b = 0; b < bands.length; b++) {
				const to = Math.max(0, high - Math.round(cells.top[i * bands.length + b] * scale));
				for (let at = (from - 1) * cells.n + i; from > to; from--, at -= cells.n) pixels[at] = colours[b];
			}
		}
		context.putImageData(image, 0, 0);
		c.imageSmoothingEnabled = false;
		c.drawImage(this.dense, LEFT, TOP, this.plot_width(), this.plot_height());
	}

	private draw_bands(c: CanvasRenderingContext2D): void {
		const { cells } = this;
		const { bands } = this.state.groups;
		const high = this.plot_height();
		const y = (n: number) => TOP + high * (1 - n / this.scale);
		for (let b = 0; b < bands.length; b++) {
			c.fillStyle = colour(bands[b].colour);
			c.beginPath();
			let i = 0;
			while (i < cells.n) {
				while (i < cells.n && cells.top[i * bands.length + b] === cells.bottom[i * bands.length + b]) i++;
				const start = i;
				if (i >= cells.n) break;
				c.moveTo(cells.x[i], y(cells.bottom[i * bands.length + b]));
				for (; i < cells.n && cells.top[i * bands.length + b] !== cells.bottom[i * bands.length + b]; i++) {
					const top = y(cells.top[i * bands.length + b]);
					c.lineTo(cells.x[i], top);
					c.lineTo(cells.x[i + 1], top);
				}
				for (let j = i - 1; j >= start; j--) {
					const bottom = y(cells.bottom[j * bands.length + b]);
					c.lineTo(cells.x[j + 1], bottom);
					c.lineTo(cells.x[j], bottom);
				}
				c.closePath();
			}
			c.fill();
		}
	}

	// Large allocations lie lowest in their band, in the order of birth.  Calls back for each one that a
	// cell shows; `only`: of this band alone.
	private each_big(visit: (a: number, cell: number, bottom: number, top: number) => void, only?: number): void {
		const { cells, big } = this;
		const { recording, groups } = this.state;
		const bands = groups.bands.length;
		const lists: number[][] = Array.from({ length: bands }, () => []);
		const { freed, block, born } = recording;
		let next = 0;
		for (let i = 0; i < cells.n; i++) {
			const m = cells.moment[i];
			for (; next < big.length && born[big[next]] <= m; next++) {
				const a = big[next];
				const band = groups.of[a];
				if ((freed[a] === 0 || m < freed[a]) && (only === undefined || only === band)) lists[band].push(a);
			}
			for (let b = 0; b < bands; b++) {
				const list = lists[b];
				if (!list.length) continue;
				let bottom = cells.bottom[i * bands + b];
				let kept = 0;
				for (let k = 0; k < list.length; k++) {
					const a = list[k];
					if (freed[a] !== 0 && m >= freed[a]) continue;
					list[kept++] = a;
					visit(a, i, bottom, bottom + block[a]);
					bottom += block[a];
				}
				list.length = kept;
			}
		}
	}

	private draw_outlines(c: CanvasRenderingContext2D): void {
		const { cells, state } = this;
		const { recording } = state;
		const pixel = 1 / this.base.ratio;
		const per_moment = this.plot_width() / (state.to - state.from);
		const shortest = SHORTEST / per_moment; // moments
		const runs = new Map<number, [number, number]>(); // of an allocation: since which x its top is at y
		const rects: number[] = [];
		// Shorter pieces would only dot the picture.
		const flush = (run: [number, number], until: number) => until - run[0] >= SHORTEST && rects.push(run[0], run[1], until - run[0]);
		const smallest = (MIN_HEIGHT / this.plot_height()) * this.scale;
		const seen = new Map<number, number>();
		this.each_big((a, i, bottom, top) => {
			if (top - bottom < smallest) return;
			const end = recording.freed[a] || recording.events + 1;
			if (end - recording.born[a] < shortest) return;
			const x = cells.x[i];
			const y = Math.round(this.y_of(top) / pixel) * pixel;
			const run = runs.get(a);
			if (!run) {
				runs.set(a, [x, y]);
				if (recording.born[a] > state.from) rects.push(x, y, -(this.y_of(bottom) - y));
			} else if (run[1] !== y || seen.get(a) !== i - 1) {
				flush(run, cells.x[seen.get(a)! + 1]);
				run[0] = x;
				run[1] = y;
			}
			seen.set(a, i);
		});
		for (const [a, run] of runs) flush(run, cells.x[seen.get(a)! + 1]);
		c.fillStyle = colour("--hairline");
		// A negative third number is a height: the left edge of a birth.
		for (let k = 0; k < rects.length; k += 3)
			if (rects[k + 2] < 0) c.fillRect(rects[k], rects[k + 1], pixel, -rects[k + 2]);
			else c.fillRect(rects[k], rects[k + 1], rects[k + 2], pixel);
	}

	private draw_reserved(c: CanvasRenderingContext2D): void {
		const { recording, from, to } = this.state;
		const { reserved_from, reserved_bytes } = recording;
		const first = Math.max(0, last_at_or_before(reserved_from, Math.floor(from)));
		c.strokeStyle = colour("--ink");
		c.lineWidth = 1.25;
		c.lineJoin = "round";
		c.beginPath();
		let x_before = -1;
		for (let i = first; i < reserved_from.length && reserved_from[i] <= to + 1; i++) {
			const x = Math.max(LEFT - 2, this.x_of(reserved_from[i]));
			const y = this.y_of(reserved_bytes[i]);
			if (i === first) c.moveTo(x, y);
			else {
				if (x - x_before > 0.25) c.lineTo(x, this.y_of(reserved_bytes[i - 1]));
				c.lineTo(x, y);
			}
			x_before = x;
			if (i === reserved_from.length - 1 || reserved_from[i + 1] > to + 1) c.lineTo(this.x_of(to) + 2, y);
		}
		c.stroke();
		this.label(c, "reserved", this.y_of(recording.reserved(Math.min(recording.events, Math.floor(from + (to - from) * 0.02)))) - 8, "--ink");
	}

	private label(c: CanvasRenderingContext2D, words: string, y: number, ink: string, right = false): void {
		c.font = FONT_SMALL;
		const width = c.measureText(words).width;
		const x = right ? LEFT + this.plot_width() - width - 6 : LEFT + 6;
		const middle = Math.max(TOP + 4, y);
		c.fillStyle = colour("--paper-veil");
		c.fillRect(x - 3, middle - 8, width + 6, 15);
		c.fillStyle = colour(ink);
		c.textAlign = "left";
		c.textBaseline = "middle";
		c.fillText(words, x, middle);
	}

	private draw_limit(c: CanvasRenderingContext2D): void {
		const limit = Timeline.limit(this.state);
		if (!limit) return;
		const exact = limit.high === null || limit.high === limit.bytes;
		const words = exact ? `limit ${text.bytes(limit.bytes)}` : `limit: between ${text.bytes(limit.bytes)} and ${text.bytes(limit.high)}`;
		if (limit.bytes > this.scale) {
			this.label(c, words + ", above this picture", TOP + 6, "--accent", true);
			return;
		}
		const y = Math.round(this.y_of(limit.bytes)) + 0.5;
		if (!exact) {
			const top = Math.max(TOP, this.y_of(limit.high!));
			c.fillStyle = colour("--accent-veil");
			c.fillRect(LEFT, top, this.plot_width(), y - top);
		}
		c.strokeStyle = colour("--accent");
		c.lineWidth = 1;
		c.setLineDash([6, 4]);
		c.beginPath();
		c.moveTo(LEFT, y);
		c.lineTo(LEFT + this.plot_width(), y);
		c.stroke();
		c.setLineDash([]);
		this.label(c, words, y - 9, "--accent", this.x_of(this.state.recording.death_moment ?? this.state.to) < LEFT + this.plot_width() * 0.6);
	}

	// The moment of death: what was asked for stands hollow on what was live.
	private draw_death(c: CanvasRenderingContext2D): void {
		const { recording } = this.state;
		for (const oom of recording.device.oom) {
			const x = this.x_of(oom.event + 1);
			if (x < LEFT - 1 || x > LEFT + this.plot_width() + 1) continue;
			const last = oom === recording.death;
			const live = recording.allocated.at[oom.event + 1];
			const low = this.y_of(live);
			const high = this.y_of(live + (oom.requested_bytes ?? 0));
			c.strokeStyle = c.fillStyle = colour("--accent");
			c.lineWidth = last ? 1.5 : 1;
			c.globalAlpha = last ? 1 : 0.6;
			c.beginPath();
			c.moveTo(x, TOP - 4);
			c.lineTo(x, TOP + this.plot_height());
			c.stroke();
			const wide = Math.min(26, Math.max(10, this.plot_width() / 40));
			const left = x + wide > LEFT + this.plot_width() ? x - wide : x;
			c.fillStyle = colour("--accent-veil");
			c.fillRect(left, high, wide, low - high);
			c.strokeRect(left, high, wide, low - high);
			c.globalAlpha = 1;
			if (last) this.death_label(c, x, oom.requested_bytes);
		}
	}

	private death_label(c: CanvasRenderingContext2D, x: number, request: number | null): void {
		const words = `died asking for ${text.bytes(request)}`;
		c.font = "600 " + FONT;
		const width = c.measureText(words).width + 12;
		const left = Math.max(LEFT, Math.min(x - width / 2, LEFT + this.plot_width() - width));
		c.fillStyle = colour("--accent");
		c.fillRect(left, 0, width, TOP - 3);
		c.fillStyle = colour("--on-accent");
		c.textAlign = "left";
		c.textBaseline = "middle";
		c.fillText(words, left + 6, (TOP - 3) / 2 + 0.5);
	}

	private draw_axis(c: CanvasRenderingContext2D, height: number): void {
		const { recording, from, to } = this.state;
		let y = TOP + this.plot_height();
		c.fillStyle = colour("--soft");
		c.fillRect(LEFT, y, this.plot_width(), 1);
		c.font = FONT_SMALL;
		c.textAlign = "center";
		c.textBaseline = "top";
		for (const at of text.event_ticks(from, to, Math.max(2, Math.floor(this.plot_width() / 110)))) {
			const x = this.x_of(at);
			c.fillRect(Math.round(x), y, 1, 4);
			const words = text.count(at);
			const half = c.measureText(words).width / 2;
			if (x - half > LEFT - 30 && x + half < LEFT + this.plot_width() + RIGHT) c.fillText(words, x, y + 6);
		}
		y += AXIS + 2;
		if (recording.steps.length) {
			this.draw_steps(c, y);
			y += STRIP;
		}
		if (recording.phase_from.length) this.draw_phases(c, y);
		c.textAlign = "right";
		c.textBaseline = "top";
		c.fillStyle = colour("--soft");
		c.fillText("event", LEFT - 8, TOP + this.plot_height() + 6);
		void height;
	}

	private draw_steps(c: CanvasRenderingContext2D, y: number): void {
		const { recording, from, to } = this.state;
		c.save();
		c.font = FONT_SMALL;
		c.textBaseline = "middle";
		c.textAlign = "right";
		c.fillStyle = colour("--soft");
		c.fillText("step", LEFT - 8, y + STRIP / 2);
		c.textAlign = "center";
		c.beginPath();
		c.rect(LEFT, y, this.plot_width(), STRIP);
		c.clip();
		const seen = recording.steps.filter((s) => s.end_event >= from && s.start_event <= to);
		const every = text.event_ticks(0, seen.length, this.plot_width() / 44)[1] ?? 1;
		let clear = -1e9;
		for (const step of seen) {
			const left = this.x_of(step.start_event);
			const right = this.x_of(step.end_event + 1);
			if (right - left >= 8) {
				c.fillStyle = colour("--line");
				c.fillRect(Math.round(left), y, 1, STRIP);
			}
			if (step.index % every) continue;
			const words = String(step.index);
			const width = c.measureText(words).width;
			const middle = (Math.max(left, LEFT) + Math.min(right, LEFT + this.plot_width())) / 2;
			if (middle - width / 2 < clear + 8) continue;
			c.fillStyle = colour("--soft");
			c.fillText(words, middle, y + STRIP / 2);
			clear = middle + width / 2;
		}
		c.restore();
	}

	private draw_phases(c: CanvasRenderingContext2D, y: number): void {
		const { recording, from, to } = this.state;
		const { phase_from, phase } = recording;
		c.save();
		c.font = FONT_SMALL;
		c.textBaseline = "middle";
		c.textAlign = "right";
		c.fillStyle = colour("--soft");
		c.fillText("phase", LEFT - 8, y + STRIP / 2);
		c.textAlign = "center";
		c.beginPath();
		c.rect(LEFT, y, this.plot_width(), STRIP);
		c.clip();
		const first = Math.max(0, last_at_or_before(phase_from, Math.floor(from)));
		const last = last_at_or_before(phase_from, Math.ceil(to));
		// Runs of a pixel or two show whatever happens to be drawn last.
		const crowded = last - first > this.plot_width() / 3;
		if (crowded) {
			c.fillStyle = colour("--soft");
			c.fillText("zoom in to see phases", LEFT + this.plot_width() / 2, y + STRIP / 2);
		}
		for (let i = first; i <= last && !crowded; i++) {
			const left = this.x_of(phase_from[i]);
			const right = i + 1 < phase_from.length ? this.x_of(phase_from[i + 1]) : this.x_of(recording.events);
			c.fillStyle = colour(`--phase-${recording.head.phases[phase[i]].replace(/[^a-z]/g, "")}`);
			c.fillRect(left, y + 1, right - left, STRIP - 2);
			const seen_from = Math.max(left, LEFT);
			const seen_to = Math.min(right, LEFT + this.plot_width());
			const words = recording.head.phases[phase[i]];
			if (c.measureText(words).width + 6 < seen_to - seen_from) {
				c.fillStyle = colour("--ink");
				c.fillText(words, (seen_from + seen_to) / 2, y + STRIP / 2);
			}
		}
		c.restore();
	}

	// Where findings are, in the order of the list.
	private finding_marks(): { index: number; x: number }[] {
		const { recording } = this.state;
		const out: { index: number; x: number }[] = [];
		recording.head.show.forEach((show, index) => {
			if (!show || show.moment === null || recording.device.findings[index]?.id === "oom") return;
			const x = this.x_of(show.moment);
			if (x < LEFT || x > LEFT + this.plot_width()) return;
			let free = x;
			while (out.some((o) => Math.abs(o.x - free) < 18)) free -= 18;
			if (free > LEFT) out.push({ index, x: free });
		});
		return out;
	}

	private draw_findings(c: CanvasRenderingContext2D): void {
		c.font = "600 " + FONT_SMALL;
		c.textAlign = "center";
		c.textBaseline = "middle";
		for (const { index, x } of this.finding_marks()) {
			const y = TOP + this.plot_height() - 10;
			c.fillStyle = colour("--ink");
			c.beginPath();
			c.arc(x, y, 8, 0, 2 * Math.PI);
			c.fill();
			c.fillStyle = colour("--paper");
			c.fillText(String(index + 1), x, y + 0.5);
		}
	}

	// The highest total of each column over all of the recording, as parts of the peak.
	private whole(columns: number): Float64Array {
		if (this.strip_columns.length !== columns) {
			const { allocated, peak_moment } = this.state.recording;
			const { at } = allocated;
			this.strip_columns = Float64Array.from({ length: columns }, (_, i) => {
				const first = Math.floor((i * (at.length - 1)) / columns);
				const end = Math.max(first + 1, Math.floor(((i + 1) * (at.length - 1)) / columns));
				return at[allocated.extreme(first, end, false)] / Math.max(1, at[peak_moment]);
			});
		}
		return this.strip_columns;
	}

	private draw_strip(c: CanvasRenderingContext2D, width: number, height: number): void {
		const { recording, from, to } = this.state;
		const wide = width - LEFT - RIGHT;
		c.fillStyle = colour("--strip");
		this.whole(Math.max(1, Math.floor(wide))).forEach((part, i) => c.fillRect(LEFT + i, height - part * (height - 4), 1, part * (height - 4)));
		const scale = wide / Math.max(1, recording.events);
		const left = LEFT + from * scale;
		const right = LEFT + to * scale;
		if (from > 0 || to < recording.events) {
			c.fillStyle = colour("--veil");
			c.fillRect(LEFT, 0, left - LEFT, height);
			c.fillRect(right, 0, LEFT + wide - right, height);
			c.strokeStyle = colour("--ink");
			c.lineWidth = 1;
			c.strokeRect(Math.round(left) + 0.5, 0.5, Math.max(2, Math.round(right - left)), height - 1);
		}
		if (recording.death) {
			c.fillStyle = colour("--accent");
			c.fillRect(LEFT + recording.death_moment! * scale - 0.75, 0, 1.5, height);
		}
		c.font = FONT_SMALL;
		c.textAlign = "right";
		c.textBaseline = "middle";
		c.fillStyle = colour("--soft");
		c.fillText("all", LEFT - 8, height / 2);
	}

	// ---- what moves: cursor, mark, hover, drag ----

	private draw_over(c: CanvasRenderingContext2D, width: number, height: number): void {
		const { state } = this;
		const bottom = TOP + this.plot_height();
		c.save();
		c.beginPath();
		c.rect(LEFT - 1, 0, this.plot_width() + 2, height);
		c.clip();
		if (state.mark !== null) {
			const [from, to] = [Math.min(state.mark, state.cursor), Math.max(state.mark, state.cursor)].map((m) => this.x_of(m));
			c.fillStyle = colour("--select");
			c.fillRect(from, TOP, to - from, bottom - TOP);
			this.draw_line(c, state.mark, "from", true);
		}
		this.draw_line(c, state.cursor, "", false);
		if (state.chosen !== null) this.draw_life(c, state.chosen, "--ink", 2);
		if (this.hovered !== null && this.hovered !== state.chosen) this.draw_life(c, this.hovered, "--ink", 1);
		for (const drag of this.drags.values())
			if (drag.moved && !drag.pan) {
				c.fillStyle = colour("--select");
				c.fillRect(Math.min(drag.x, drag.now), TOP, Math.abs(drag.now - drag.x), bottom - TOP);
			}
		if (this.hover && !this.drags.size) {
			c.fillStyle = colour("--ink");
			c.globalAlpha = 0.45;
			c.fillRect(Math.round(this.hover.x), TOP, 1, bottom - TOP);
			c.globalAlpha = 1;
		}
		c.restore();
		void width;
	}

	private draw_line(c: CanvasRenderingContext2D, m: number, words: string, dashed: boolean): void {
		const x = Math.round(this.x_of(m)) + 0.5;
		const bottom = TOP + this.plot_height();
		c.strokeStyle = c.fillStyle = colour("--ink");
		c.lineWidth = 1.5;
		c.setLineDash(dashed ? [3, 3] : []);
		c.beginPath();
		c.moveTo(x, TOP);
		c.lineTo(x, bottom);
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
		const left = this.x_of(recording.born[a]);
		const right = Math.max(left + 2, this.x_of(end));
		const y = TOP + this.plot_height();
		c.fillStyle = c.strokeStyle = colour(ink);
		c.fillRect(left, y - 1, right - left, 3);
		if (recording.block[a] < this.big_bytes) return;
		const tops: [number, number, number, number][] = [];
		this.each_big((b, i, bottom, top) => {
			if (b === a) tops.push([this.cells.x[i], this.cells.x[i + 1], this.y_of(bottom), this.y_of(top)]);
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

	// ---- what lies under the pointer ----

	// The band at a height, and the allocation in it.
	private pick(x: number, y: number): { m: number; band: number; a: number | null } {
		const m = this.moment_at(x);
		const sums = this.state.groups.at(m);
		const wanted = (1 - (y - TOP) / this.plot_height()) * this.scale;
		let bottom = 0;
		for (let b = 0; b < sums.length; b++) {
			if (wanted >= bottom && wanted < bottom + sums[b]) return { m, band: b, a: this.pick_in_band(m, b, wanted - bottom) };
			bottom += sums[b];
		}
		return { m, band: -1, a: null };
	}

	private pick_in_band(m: number, band: number, height: number): number | null {
		const { recording, groups } = this.state;
		const mine = Array.from(recording.live(m)).filter((a) => groups.of[a] === band);
		const ordered = [...mine.filter((a) => recording.block[a] >= this.big_bytes), ...mine.filter((a) => recording.block[a] < this.big_bytes)];
		let bottom = 0;
		for (const a of ordered) {
			bottom += recording.block[a];
			if (height < bottom) return a;
		}
		return ordered[ordered.length - 1] ?? null;
	}

	private show_tip(): void {
		const { hover } = this;
		if (!hover || this.drags.size) {
			this.tip.hidden = true;
			return;
		}
		const { m, band, a } = this.pick(hover.x, hover.y);
		if (this.hovered !== a) {
			this.hovered = a;
			this.over.later();
		}
		const key = `${m} ${band} ${a}`;
		if (key !== this.tip_text) fill(this.tip, ...this.describe(a, band, m));
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
			this.tip.hidden = true;
			this.over.later();
		});
		canvas.addEventListener("pointerdown", (event) => {
			const { x, y } = place(event);
			canvas.setPointerCapture(event.pointerId);
			const pan = event.pointerType === "touch" || event.shiftKey || event.button === 1;
			this.drags.set(event.pointerId, { id: event.pointerId, x, y, now: x, pan, moved: false, from: this.state.from, to: this.state.to });
			this.tip.hidden = true;
			if (this.drags.size === 2) this.pinch = this.finger_distance();
		});
		canvas.addEventListener("pointerup", (event) => this.drop(event, place(event)));
		canvas.addEventListener("pointercancel", (event) => this.drags.delete(event.pointerId));
		canvas.addEventListener("dblclick", () => this.state.look(0, this.state.recording.events));
		canvas.addEventListener("wheel", (event) => this.wheel(event, place(event).x), { passive: false });
		this.listen_strip();
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
		const per_pixel = (this.state.to - this.state.from) / this.plot_width();
		if (this.drags.size === 2) {
			const [a, b] = [...this.drags.values()];
			const distance = this.finger_distance();
			const middle = this.m_of((a.now + b.now) / 2);
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
			if (!drag.pan) this.state.look(this.m_of(Math.min(drag.x, at.x)), this.m_of(Math.max(drag.x, at.x)));
			return;
		}
		const mark = this.finding_marks().find((f) => Math.hypot(f.x - at.x, TOP + this.plot_height() - 10 - at.y) < 11);
		if (mark) {
			this.open_finding(mark.index);
			return;
		}
		if (at.x < LEFT) return;
		const { m, a } = this.pick(at.x, at.y);
		if (event.shiftKey) {
			this.state.set_mark(m);
			return;
		}
		this.state.go(m);
		this.state.choose(a);
	}

	private wheel(event: WheelEvent, x: number): void {
		const { state } = this;
		const lines = event.deltaMode === 1 ? 16 : 1;
		const sideways = event.shiftKey ? event.deltaY : event.deltaX;
		const whole = state.from <= 0 && state.to >= state.recording.events;
		if (Math.abs(sideways) > Math.abs(event.shiftKey ? 0 : event.deltaY)) {
			if (whole) return;
			state.pan(((sideways * lines) / this.plot_width()) * (state.to - state.from));
		} else {
			if (whole && event.deltaY > 0) return; // nothing to zoom out to: let the page scroll
			state.zoom(Math.exp(Math.max(-120, Math.min(120, event.deltaY * lines)) * 0.004), this.m_of(x));
		}
		event.preventDefault();
	}

	// The strip below shows all of the recording; the window in it follows the pointer.
	private listen_strip(): void {
		const canvas = this.strip.canvas;
		const centre = (event: PointerEvent) => {
			const { state } = this;
			const x = event.clientX - canvas.getBoundingClientRect().left;
			const m = ((x - LEFT) / this.plot_width()) * state.recording.events;
			const width = state.to - state.from;
			state.look(m - width / 2, m + width / 2);
		};
		canvas.addEventListener("pointerdown", (event) => {
			canvas.setPointerCapture(event.pointerId);
			centre(event);
		});
		canvas.addEventListener("pointermove", (event) => {
			if (event.buttons) centre(event);
		});
	}
}
