// The picture of memory over time itself: bands, what was reserved, the limit, the death, the axes.

import { FONT, FONT_SMALL, colour, el, fit, ink_on, packed } from "./dom";
import { AXIS, LEFT, RIGHT, STRIP, TOP, limit_of } from "./chart";
import type { Chart } from "./chart";
import type { GapBand } from "./gap";
import * as text from "./text";
import { last_at_or_before } from "./recording";

const MIN_HEIGHT = 3; // pixels, below which no outline is drawn
const SHORTEST = 6; // pixels

const dense = el("canvas"); // where columns of pixels are written
let image: ImageData | null = null;

function draw_grid(chart: Chart, c: CanvasRenderingContext2D): void {
	c.font = FONT_SMALL;
	c.textAlign = "right";
	c.textBaseline = "middle";
	const wanted = Math.max(2, Math.floor(chart.plot_height() / 56));
	for (const at of text.byte_ticks(chart.scale, wanted, chart.floor)) {
		const y = Math.round(chart.y_of(at)) + 0.5;
		c.fillStyle = colour("--line");
		c.fillRect(LEFT, y - 0.5, chart.width - LEFT - RIGHT, 1);
		c.fillStyle = colour("--soft");
		c.fillText(text.axis_bytes(at, chart.scale - chart.floor), LEFT - 8, y);
	}
}

// Where each column of pixels is a cell, bands are written as pixels: a path of so many spikes takes a
// browser without a GPU 50 ms and more.
function draw_dense(chart: Chart, c: CanvasRenderingContext2D): void {
	const { cells } = chart;
	const { bands } = chart.state.groups;
	const high = Math.max(1, Math.round(chart.plot_height() * chart.ratio));
	if (dense.width !== cells.n || dense.height !== high) {
		dense.width = cells.n;
		dense.height = high;
	}
	const context = dense.getContext("2d")!;
	if (image?.width !== cells.n || image.height !== high) image = context.createImageData(cells.n, high);
	const pixels = new Uint32Array(image.data.buffer);
	pixels.fill(0);
	const colours = bands.map((band) => packed(colour(band.colour)));
	const scale = high / (chart.scale - chart.floor);
	for (let i = 0; i < cells.n; i++) {
		let from = high;
		for (let b = 0; b < bands.length; b++) {
			const up = Math.round((cells.top[i * bands.length + b] - chart.floor) * scale);
			const to = Math.max(0, Math.min(high, high - up));
			for (let at = (from - 1) * cells.n + i; from > to; from--, at -= cells.n) pixels[at] = colours[b];
		}
	}
	draw_dense_gap(chart, pixels, high);
	context.putImageData(image, 0, 0);
	c.imageSmoothingEnabled = false;
	c.drawImage(dense, LEFT, TOP, chart.plot_width(), chart.plot_height());
}

const HATCH = 7; // CSS pixels from line to line

// Of the gap: lines in the owner's colour, thinner where another one is chosen.
function hatch_width(chart: Chart, g: number): number {
	const { gap_band } = chart.state;
	return gap_band === g ? 4.5 : gap_band === null ? 2 : 0.75;
}

function draw_dense_gap(chart: Chart, pixels: Uint32Array, high: number): void {
	const { cells, state, ratio } = chart;
	const gap = state.drawn_gap;
	if (!gap) return;
	const n = gap.bands.length;
	const bands = state.groups.bands.length;
	const scale = high / (chart.scale - chart.floor);
	const row = (bytes: number) =>
		Math.max(0, Math.min(high, high - Math.round((bytes - chart.floor) * scale)));
	const colours = gap.bands.map((band) => packed(colour(band.colour)));
	const step = Math.round(HATCH * ratio);
	const leans = gap.bands.map((band) => (band.kind === "idle" ? -1 : 1)); // the other way
	const widths = gap.bands.map((_, g) => Math.max(1, Math.round(hatch_width(chart, g) * ratio)));
	for (let i = 0; i < cells.n; i++) {
		let from = row(cells.top[i * bands + bands - 1]);
		for (let g = 0; g < n; g++) {
			const to = row(cells.gap[i * n + g]);
			// A line is where (column + lean * row) mod step is less than its width.
			for (let k = 0; k < widths[g]; k++) {
				const wanted = leans[g] * (k - i) - (from - 1);
				let y = from - 1 + (((wanted % step) + step) % step) - step;
				if (y + step === from - 1) y = from - 1;
				for (let at = y * cells.n + i; y >= to; y -= step, at -= step * cells.n)
					pixels[at] = colours[g];
			}
			if (to < from) pixels[to * cells.n + i] = colours[g];
			from = Math.min(from, to);
		}
	}
}

function draw_gap(chart: Chart, c: CanvasRenderingContext2D): void {
	const { cells, state } = chart;
	const gap = state.drawn_gap;
	if (!gap) return;
	const n = gap.bands.length;
	const bands = state.groups.bands.length;
	const bottom = (i: number, g: number) =>
		chart.y_of(g ? cells.gap[i * n + g - 1] : cells.top[i * bands + bands - 1]);
	const top = (i: number, g: number) => chart.y_of(cells.gap[i * n + g]);
	for (let g = 0; g < n; g++) {
		const band = gap.bands[g];
		const width = hatch_width(chart, g);
		const rects: [number, number, number, number][] = [];
		for (let i = 0; i < cells.n; i++) {
			const [y, base] = [top(i, g), bottom(i, g)];
			if (base - y < 0.25) continue;
			let end = i;
			while (end + 1 < cells.n && top(end + 1, g) === y && bottom(end + 1, g) === base) end++;
			rects.push([cells.x[i], y, cells.x[end + 1] - cells.x[i], base - y]);
			i = end;
		}
		// One by one: a path of so many spikes takes a browser without a GPU 50 ms and more.
		const pattern = "createPattern" in c ? hatch_pattern(c, band, width, chart.ratio) : null;
		if (pattern) {
			c.fillStyle = pattern;
			for (const rect of rects) c.fillRect(...rect);
		} else if (rects.length) draw_hatch(chart, c, rects, band, width);
		c.fillStyle = colour(band.colour);
		for (const [x, y, wide] of rects) c.fillRect(x, y, wide, 1);
	}
}

const tiles = new Map<string, HTMLCanvasElement>();

// A tile with one line from corner to corner.
function hatch_pattern(
	c: CanvasRenderingContext2D,
	band: GapBand,
	width: number,
	ratio: number,
): CanvasPattern | null {
	const ink = colour(band.colour);
	const lean = band.kind === "idle" ? -1 : 1;
	const key = `${ink} ${width} ${ratio} ${lean}`;
	let tile = tiles.get(key);
	if (!tile) {
		const size = Math.round(HATCH * ratio);
		tile = el("canvas", { width: size, height: size });
		const context = tile.getContext("2d")!;
		context.fillStyle = ink;
		const wide = Math.max(1, Math.round(width * ratio));
		for (let y = 0; y < size; y++)
			for (let k = 0; k < wide; k++) context.fillRect((((k - lean * y) % size) + size) % size, y, 1, 1);
		tiles.set(key, tile);
	}
	const pattern = c.createPattern(tile, "repeat");
	pattern?.setTransform(new DOMMatrix().scale(1 / ratio));
	return pattern;
}

// The same as lines, where there are no patterns.
function draw_hatch(
	chart: Chart,
	c: CanvasRenderingContext2D,
	rects: [number, number, number, number][],
	band: GapBand,
	width: number,
): void {
	c.save();
	c.beginPath();
	for (const rect of rects) c.rect(...rect);
	c.clip();
	const from = Math.max(TOP, Math.min(...rects.map(([, y]) => y)));
	const to = Math.min(TOP + chart.plot_height(), Math.max(...rects.map(([, y, , high]) => y + high)));
	const [first, last] = band.kind === "idle" ? [to, from] : [from, to];
	c.strokeStyle = colour(band.colour);
	c.lineWidth = width / Math.SQRT2;
	c.beginPath();
	for (let x = LEFT - ((LEFT + from) % HATCH) - (to - from); x < LEFT + chart.plot_width(); x += HATCH) {
		c.moveTo(x, last);
		c.lineTo(x + to - from, first);
	}
	c.stroke();
	c.restore();
}

function draw_bands(chart: Chart, c: CanvasRenderingContext2D): void {
	const { cells } = chart;
	const { bands } = chart.state.groups;
	const y = (n: number) => chart.y_of(n);
	for (let b = 0; b < bands.length; b++) {
		c.fillStyle = colour(bands[b].colour);
		c.beginPath();
		let i = 0;
		while (i < cells.n) {
			while (i < cells.n && cells.top[i * bands.length + b] === cells.bottom[i * bands.length + b]) i++;
			const start = i;
			if (i >= cells.n) break;
			c.moveTo(cells.x[i], y(cells.bottom[i * bands.length + b]));
			for (
				;
				i < cells.n && cells.top[i * bands.length + b] !== cells.bottom[i * bands.length + b];
				i++
			) {
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

function draw_outlines(chart: Chart, c: CanvasRenderingContext2D): void {
	const { cells, state } = chart;
	const { recording } = state;
	const pixel = 1 / chart.ratio;
	const per_moment = chart.plot_width() / (state.to - state.from);
	const shortest = SHORTEST / per_moment; // moments
	const runs = new Map<number, [number, number]>(); // of an allocation: since which x its top is at y
	const rects: number[] = [];
	// Shorter pieces would only dot the picture.
	const flush = (run: [number, number], until: number) =>
		until - run[0] >= SHORTEST && rects.push(run[0], run[1], until - run[0]);
	const smallest = (MIN_HEIGHT / chart.plot_height()) * (chart.scale - chart.floor);
	const seen = new Map<number, number>();
	chart.each_big((a, i, bottom, top) => {
		if (top - bottom < smallest) return;
		const end = recording.freed[a] || recording.events + 1;
		if (end - recording.born[a] < shortest) return;
		const x = cells.x[i];
		const y = Math.round(chart.y_of(top) / pixel) * pixel;
		const run = runs.get(a);
		if (!run) {
			runs.set(a, [x, y]);
			if (recording.born[a] > state.from) rects.push(x, y, -(chart.y_of(bottom) - y));
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

const LABEL_LEAST = 18; // pixels that a band is high for its name to stand in it

// A band's name where it is highest: as far as it is high enough on both sides.
function draw_labels(chart: Chart, c: CanvasRenderingContext2D): void {
	const { cells } = chart;
	const { bands } = chart.state.groups;
	const bottom_of_plot = TOP + chart.plot_height();
	c.font = FONT_SMALL;
	c.textAlign = "center";
	c.textBaseline = "middle";
	for (let b = 0; b < bands.length; b++) {
		const top = (i: number) => Math.max(TOP, chart.y_of(cells.top[i * bands.length + b]));
		const bottom = (i: number) =>
			Math.min(bottom_of_plot, chart.y_of(cells.bottom[i * bands.length + b]));
		let best = 0;
		for (let i = 1; i < cells.n; i++) if (bottom(i) - top(i) > bottom(best) - top(best)) best = i;
		if (!cells.n || bottom(best) - top(best) < LABEL_LEAST) continue;
		let [high, low] = [top(best), bottom(best)];
		const fits = (i: number) => Math.min(low, bottom(i)) - Math.max(high, top(i)) >= LABEL_LEAST;
		let [from, to] = [best, best];
		for (let way = 1; way; ) {
			way = 0;
			for (const i of [from - 1, to + 1]) {
				if (i < 0 || i >= cells.n || !fits(i)) continue;
				[high, low] = [Math.max(high, top(i)), Math.min(low, bottom(i))];
				[from, to] = [Math.min(from, i), Math.max(to, i)];
				way = 1;
			}
		}
		const words = text.plain(bands[b].name, 60);
		const [left, right] = [cells.x[from], cells.x[to + 1]];
		if (c.measureText(words).width + 12 > right - left) continue;
		c.fillStyle = ink_on(colour(bands[b].colour));
		c.fillText(words, (left + right) / 2, (high + low) / 2);
	}
}

function draw_reserved(chart: Chart, c: CanvasRenderingContext2D): void {
	const { recording, from, to } = chart.state;
	const { reserved_from, reserved_bytes } = recording;
	const first = Math.max(0, last_at_or_before(reserved_from, Math.floor(from)));
	c.strokeStyle = colour("--ink");
	c.lineWidth = 1.25;
	c.lineJoin = "round";
	c.beginPath();
	let x_before = -1;
	for (let i = first; i < reserved_from.length && reserved_from[i] <= to + 1; i++) {
		const x = Math.max(LEFT - 2, chart.x_of(reserved_from[i]));
		const y = chart.y_of(reserved_bytes[i]);
		if (i === first) c.moveTo(x, y);
		else {
			if (x - x_before > 0.25) c.lineTo(x, chart.y_of(reserved_bytes[i - 1]));
			c.lineTo(x, y);
		}
		x_before = x;
		if (i === reserved_from.length - 1 || reserved_from[i + 1] > to + 1) c.lineTo(chart.x_of(to) + 2, y);
	}
	c.stroke();
	name_reserved(
		chart,
		c,
		recording.reserved(Math.min(recording.events, Math.floor(from + (to - from) * 0.02))),
	);
}

// On its line; below it where the limit's name is.
function name_reserved(chart: Chart, c: CanvasRenderingContext2D, bytes: number): void {
	const limit = limit_of(chart.state);
	const y = chart.y_of(bytes);
	const in_limit = limit ? chart.y_of(limit.bytes) : Infinity;
	if (bytes > chart.scale)
		label(chart, c, `reserved ${text.bytes(bytes)}, above this picture`, TOP + 6, "--ink");
	else
		label(
			chart,
			c,
			"reserved",
			Math.abs(y - 8 - in_limit) < 12 ? Math.max(y + 9, in_limit + 14) : y - 8,
			"--ink",
		);
}

function label(
	chart: Chart,
	c: CanvasRenderingContext2D,
	words: string,
	y: number,
	ink: string,
	right = false,
): { from: number; to: number } {
	c.font = FONT_SMALL;
	const width = c.measureText(words).width;
	const x = right ? LEFT + chart.plot_width() - width - 6 : LEFT + 6;
	const middle = Math.max(TOP + 4, y);
	c.textAlign = "left";
	c.textBaseline = "middle";
	c.strokeStyle = colour("--paper"); // a rim, so that it can be read on whatever it lies on
	c.lineWidth = 4;
	c.lineJoin = "round";
	c.strokeText(words, x, middle);
	c.fillStyle = colour(ink);
	c.fillText(words, x, middle);
	return { from: x, to: x + width };
}

// Its name stands in its line.
function draw_limit(chart: Chart, c: CanvasRenderingContext2D): void {
	const limit = limit_of(chart.state);
	if (!limit) return;
	const exact = limit.high === null || limit.high === limit.bytes;
	const words = exact
		? `limit ${text.bytes(limit.bytes)}`
		: `limit: between ${text.bytes(limit.bytes)} and ${text.bytes(limit.high)}`;
	if (limit.bytes > chart.scale) {
		label(chart, c, words + ", above this picture", TOP + 6, "--fail", true);
		return;
	}
	const y = Math.round(chart.y_of(limit.bytes)) + 0.5;
	if (!exact) {
		const top = Math.max(TOP, chart.y_of(limit.high!));
		c.fillStyle = colour("--fail-veil");
		c.fillRect(LEFT, top, chart.plot_width(), y - top);
	}
	const death = chart.state.recording.death_moment ?? chart.state.to;
	const right = chart.x_of(death) < LEFT + chart.plot_width() * 0.6;
	const { from, to } = label(chart, c, words, y, "--fail", right);
	c.strokeStyle = colour("--fail");
	c.lineWidth = 1;
	c.setLineDash([6, 4]);
	c.beginPath();
	c.moveTo(LEFT, y);
	c.lineTo(from - 4, y);
	c.moveTo(to + 4, y);
	c.lineTo(LEFT + chart.plot_width(), y);
	c.stroke();
	c.setLineDash([]);
}

// The moment of death: what was asked for stands hollow on what was live.
function draw_death(chart: Chart, c: CanvasRenderingContext2D): void {
	const { recording } = chart.state;
	for (const oom of recording.device.oom) {
		const x = chart.x_of(oom.event + 1);
		if (x < LEFT - 1 || x > LEFT + chart.plot_width() + 1) continue;
		const last = oom === recording.death;
		const live = recording.allocated.total(oom.event + 1);
		const low = chart.y_of(live);
		const high = Math.max(TOP - 4, chart.y_of(live + (oom.requested_bytes ?? 0)));
		c.strokeStyle = c.fillStyle = colour("--fail");
		c.lineWidth = last ? 1.5 : 1;
		c.globalAlpha = last ? 1 : 0.6;
		c.beginPath();
		c.moveTo(x, TOP - 4);
		c.lineTo(x, TOP + chart.plot_height());
		c.stroke();
		const wide = Math.min(26, Math.max(10, chart.plot_width() / 40));
		const left = x + wide > LEFT + chart.plot_width() ? x - wide : x;
		c.fillStyle = colour("--fail-veil");
		c.fillRect(left, high, wide, low - high);
		c.strokeRect(left, high, wide, low - high);
		c.globalAlpha = 1;
		if (last) death_label(chart, c, x, oom.requested_bytes);
	}
}

function death_label(chart: Chart, c: CanvasRenderingContext2D, x: number, request: number | null): void {
	const verb = chart.state.recording.head.plan ? "would die" : "died";
	const words = `${verb} asking for ${text.bytes(request)}`;
	c.font = "600 " + FONT;
	const width = c.measureText(words).width + 12;
	const left = Math.max(LEFT, Math.min(x - width / 2, LEFT + chart.plot_width() - width));
	c.fillStyle = colour("--fail");
	c.fillRect(left, 0, width, TOP - 3);
	c.fillStyle = colour("--on-fail");
	c.textAlign = "left";
	c.textBaseline = "middle";
	c.fillText(words, left + 6, (TOP - 3) / 2 + 0.5);
}

function draw_axis(chart: Chart, c: CanvasRenderingContext2D): void {
	const { recording, from, to } = chart.state;
	const bottom = TOP + chart.plot_height();
	let y = bottom + AXIS + 2;
	c.fillStyle = colour("--soft");
	c.fillRect(LEFT, bottom, chart.plot_width(), 1);
	c.font = FONT_SMALL;
	c.textAlign = "center";
	c.textBaseline = "top";
	const write = (words: string, x: number, top: number): void => {
		const half = c.measureText(words).width / 2;
		const at = Math.max(x, LEFT - 4 + half); // clear of the axis's name
		if (at + half < LEFT + chart.plot_width() + RIGHT) c.fillText(words, at, top);
	};
	const wanted = Math.max(3, Math.floor(chart.plot_width() / 110));
	for (const at of text.event_ticks(from, to, wanted)) {
		const x = chart.x_of(at);
		c.fillRect(Math.round(x), bottom, 1, 4);
		write(text.count(at), x, bottom + 6);
	}
	if (recording.timed) {
		draw_times(chart, c, y);
		y += STRIP;
	}
	if (recording.steps.length) {
		draw_steps(chart, c, y);
		y += STRIP;
	}
	if (recording.phase_from.length) {
		draw_phases(chart, c, y);
		y += STRIP;
	}
	recording.ranges.lanes.forEach((_, lane) => draw_ranges(chart, c, y + lane * STRIP, lane));
	c.textAlign = "right";
	c.textBaseline = "top";
	c.fillStyle = colour("--soft");
	c.fillText("event", LEFT - 8, bottom + 6);
}

/** Round times where they are: events come in bursts, so that the same seconds are not everywhere as wide. */
function draw_times(chart: Chart, c: CanvasRenderingContext2D, y: number): void {
	const { recording, from, to } = chart.state;
	begin_strip(chart, c, y, "time");
	c.fillStyle = colour("--soft");
	const first = recording.time_us(Math.max(0, Math.floor(from))) ?? 0;
	const last = recording.time_us(Math.min(recording.events, Math.ceil(to))) ?? 0;
	const ticks = text.time_ticks(first, last, Math.max(3, chart.plot_width() / 100));
	c.textAlign = "left";
	let clear = -1e9;
	for (const { us, words } of ticks) {
		const x = chart.x_of(recording.moment_of_time(us));
		const width = c.measureText(words).width;
		if (x < Math.max(clear + 8, LEFT) || x + width + 3 > LEFT + chart.plot_width()) continue;
		c.fillRect(Math.round(x), y + 1, 1, STRIP - 3);
		c.fillText(words, x + 3, y + STRIP / 2 + 1);
		clear = x + width + 3;
	}
	c.restore();
}

/** A strip below the axis: its name, and what is drawn from now on stays in it until c.restore(). */
function begin_strip(chart: Chart, c: CanvasRenderingContext2D, y: number, name: string): void {
	c.save();
	c.font = FONT_SMALL;
	c.textBaseline = "middle";
	c.textAlign = "right";
	c.fillStyle = colour("--soft");
	c.fillText(name, LEFT - 8, y + STRIP / 2);
	c.textAlign = "center";
	c.beginPath();
	c.rect(LEFT, y, chart.plot_width(), STRIP);
	c.clip();
}

function draw_steps(chart: Chart, c: CanvasRenderingContext2D, y: number): void {
	const { recording, from, to } = chart.state;
	begin_strip(chart, c, y, "step");
	const seen = recording.steps.filter((s) => s.end_event >= from && s.start_event <= to);
	const every = text.event_ticks(0, seen.length, chart.plot_width() / 44)[1] ?? 1;
	let clear = -1e9;
	for (const step of seen) {
		const left = chart.x_of(step.start_event);
		const right = chart.x_of(step.end_event + 1);
		if (right - left >= 8) {
			c.fillStyle = colour("--line");
			c.fillRect(Math.round(left), y, 1, STRIP);
		}
		if (step.index % every) continue;
		const words = String(step.index);
		const width = c.measureText(words).width;
		const middle = (Math.max(left, LEFT) + Math.min(right, LEFT + chart.plot_width())) / 2;
		if (middle - width / 2 < Math.max(clear + 8, LEFT) || middle + width / 2 > LEFT + chart.plot_width())
			continue;
		c.fillStyle = colour("--soft");
		c.fillText(words, middle, y + STRIP / 2);
		clear = middle + width / 2;
	}
	c.restore();
}

export function phase_colour(name: string): string {
	return `--phase-${name.replace(/[^a-z]/g, "")}`;
}

function draw_phases(chart: Chart, c: CanvasRenderingContext2D, y: number): void {
	const { recording, from, to } = chart.state;
	const { phase_from, phase } = recording;
	begin_strip(chart, c, y, "phase");
	const first = Math.max(0, last_at_or_before(phase_from, Math.floor(from)));
	const last = last_at_or_before(phase_from, Math.ceil(to));
	// Runs of a pixel or two show whatever happens to be drawn last.
	const crowded = last - first > chart.plot_width() / 3;
	if (crowded) {
		c.fillStyle = colour("--soft");
		c.fillText("zoom in to see phases", LEFT + chart.plot_width() / 2, y + STRIP / 2);
	}
	for (let i = first; i <= last && !crowded; i++) {
		const left = chart.x_of(phase_from[i]);
		const right =
			i + 1 < phase_from.length ? chart.x_of(phase_from[i + 1]) : chart.x_of(recording.events);
		const back = colour(phase_colour(recording.head.phases[phase[i]]));
		c.fillStyle = back;
		c.fillRect(left, y + 1, right - left, STRIP - 2);
		const seen_from = Math.max(left, LEFT);
		const seen_to = Math.min(right, LEFT + chart.plot_width());
		const words = recording.head.phases[phase[i]];
		if (c.measureText(words).width + 6 < seen_to - seen_from) {
			c.fillStyle = ink_on(back);
			c.fillText(words, (seen_from + seen_to) / 2, y + STRIP / 2);
		}
	}
	c.restore();
}

// Frames with names: a colour has one meaning in the picture, and it is not theirs.
function draw_ranges(chart: Chart, c: CanvasRenderingContext2D, y: number, lane: number): void {
	const { from, to, recording } = chart.state;
	const { ranges } = recording;
	begin_strip(chart, c, y, lane ? "" : "range");
	const seen = ranges.seen(lane, Math.floor(from), Math.ceil(to));
	if (seen.length > chart.plot_width() / 3) {
		c.fillStyle = colour("--soft");
		c.fillText("zoom in to see ranges", LEFT + chart.plot_width() / 2, y + STRIP / 2);
	} else
		for (const i of seen) {
			const left = Math.max(Math.round(chart.x_of(ranges.from[i])), LEFT - 2);
			const right = Math.min(Math.round(chart.x_of(ranges.to[i])), LEFT + chart.plot_width() + 2);
			c.strokeStyle = colour("--soft");
			c.lineWidth = 1;
			c.strokeRect(left + 0.5, y + 1.5, Math.max(1, right - left - 1), STRIP - 3);
			const [seen_from, seen_to] = [Math.max(left, LEFT), Math.min(right, LEFT + chart.plot_width())];
			c.fillStyle = colour("--ink");
			const words = fit(c, text.plain(ranges.name_of(i), 60), seen_to - seen_from - 6);
			c.fillText(words, (seen_from + seen_to) / 2, y + STRIP / 2);
		}
	c.restore();
}

function draw_findings(chart: Chart, c: CanvasRenderingContext2D): void {
	c.font = "600 " + FONT_SMALL;
	c.textAlign = "center";
	c.textBaseline = "middle";
	for (const { index, x } of chart.finding_marks()) {
		const y = TOP + chart.plot_height() - 10;
		c.fillStyle = colour("--ink");
		c.beginPath();
		c.arc(x, y, 8, 0, 2 * Math.PI);
		c.fill();
		c.fillStyle = colour("--paper");
		c.fillText(String(index + 1), x, y + 0.5);
	}
}

export function draw_chart(chart: Chart, c: CanvasRenderingContext2D): void {
	draw_grid(chart, c);
	c.save();
	c.beginPath();
	c.rect(LEFT, TOP, chart.plot_width(), chart.plot_height());
	c.clip();
	if (chart.cells.dense) draw_dense(chart, c);
	else {
		draw_bands(chart, c);
		draw_gap(chart, c);
	}
	draw_outlines(chart, c);
	draw_labels(chart, c);
	c.restore();
	c.save();
	c.beginPath();
	c.rect(LEFT, 0, chart.plot_width(), TOP + chart.plot_height());
	c.clip();
	draw_reserved(chart, c);
	draw_limit(chart, c);
	draw_death(chart, c);
	c.restore();
	draw_axis(chart, c);
	draw_findings(chart, c);
}
