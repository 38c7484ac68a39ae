// Segments over time: a row for each by address, from when it was taken from the driver until it was given back, as
// dark as it is full.

import { FONT_SMALL, Picture, colour, fit } from "./dom";
import { LEFT, RIGHT } from "./chart";
import { PRIVATE, last_at_or_before } from "./recording";
import type { State } from "./state";
import * as text from "./text";

const SAMPLES = 80; // moments at which it is asked how full they are
const HIGHEST = 16; // pixels
const LOWEST = 3;
const MOST = 400; // rows; of more segments the largest

export class SegmentTimes {
	readonly picture: Picture;
	private rows: number[] = []; // of the columns
	private full = new Float32Array(0); // of row r at sample k at r * SAMPLES + k: from 0 to 1, or -1: not there
	private key = "";

	constructor(
		private state: State,
		private chosen: (segment: number, m: number) => void,
	) {
		this.picture = new Picture(
			{ class: "over-time", role: "img", "aria-label": "Segments over time" },
			(c, w) => this.draw(c, w),
		);
		this.picture.canvas.addEventListener("click", (event) => {
			const box = this.picture.canvas.getBoundingClientRect();
			const row = this.rows[Math.floor((event.clientY - box.top) / this.height)];
			const part = (event.clientX - box.left - LEFT) / (this.picture.width - LEFT - RIGHT);
			if (row === undefined || part < 0 || part > 1) return;
			this.chosen(row, Math.round(state.from + part * (state.to - state.from)));
		});
	}

	private get height(): number {
		return Math.max(LOWEST, Math.min(HIGHEST, Math.floor(320 / Math.max(1, this.rows.length))));
	}

	show(): void {
		this.collect();
		this.picture.canvas.style.height = `${this.rows.length * this.height + 2}px`;
		this.picture.later();
	}

	private collect(): void {
		const { state } = this;
		const { recording, from, to } = state;
		const key = `${from} ${to}`;
		if (key === this.key) return;
		this.key = key;
		const { segment_born: born, segment_gone: gone, segment_addr: addr, segment_size: size } = recording;
		const seen: number[] = [];
		for (let s = 0; s < size.length; s++) if (born[s] <= to && (!gone[s] || gone[s] > from)) seen.push(s);
		this.rows = seen
			.sort((s, t) => size[t] - size[s])
			.slice(0, MOST)
			.sort((s, t) => addr[s] - addr[t]);
		const rows = this.rows;
		this.full = new Float32Array(rows.length * SAMPLES).fill(-1);
		const starts = Float64Array.from(rows, (s) => addr[s]);
		for (let k = 0; k < SAMPLES; k++) {
			const m = Math.round(from + ((k + 0.5) / SAMPLES) * (to - from));
			rows.forEach((s, r) => {
				if (born[s] <= m && (!gone[s] || m < gone[s])) this.full[r * SAMPLES + k] = 0;
			});
			for (const a of recording.live(m, true)) {
				// Rows at one address lived one after another: the one that is there has a place.
				for (let r = last_at_or_before(starts, recording.addr[a]); r >= 0; r--) {
					if (this.full[r * SAMPLES + k] < 0) continue;
					const s = rows[r];
					if (recording.addr[a] < addr[s] + size[s])
						this.full[r * SAMPLES + k] += recording.block[a] / size[s];
					break;
				}
			}
		}
	}

	private draw(c: CanvasRenderingContext2D, width: number): void {
		const { state, rows, height } = this;
		const { recording } = state;
		const wide = width - LEFT - RIGHT;
		const x_of = (m: number) =>
			LEFT + Math.max(0, Math.min(1, (m - state.from) / (state.to - state.from))) * wide;
		rows.forEach((s, r) => {
			const y = r * height;
			const left = x_of(recording.segment_born[s]);
			const right = recording.segment_gone[s] ? x_of(recording.segment_gone[s]) : LEFT + wide;
			const is_private = recording.segment(s).pool.startsWith(PRIVATE);
			c.fillStyle = colour(is_private ? "--pool-private" : "--gap-idle");
			c.globalAlpha = 0.22;
			c.fillRect(left, y + 0.5, Math.max(1, right - left), height - 1);
			c.fillStyle = colour(is_private ? "--pool-private" : "--cat-parameter");
			for (let k = 0; k < SAMPLES; k++) {
				const full = this.full[r * SAMPLES + k];
				if (full <= 0) continue;
				c.globalAlpha = Math.min(1, 0.15 + 0.85 * full);
				c.fillRect(LEFT + (k / SAMPLES) * wide, y + 0.5, wide / SAMPLES + 0.5, height - 1);
			}
			c.globalAlpha = 1;
			c.strokeStyle = colour("--edge");
			c.lineWidth = 1;
			if (height > LOWEST) c.strokeRect(left + 0.5, y + 0.5, Math.max(1, right - left - 1), height - 1);
			if (height < 12) return;
			c.font = FONT_SMALL;
			c.textAlign = "right";
			c.textBaseline = "middle";
			c.fillStyle = colour("--soft");
			c.fillText(
				fit(c, text.axis_bytes(recording.segment_size[s]), LEFT - 10),
				LEFT - 8,
				y + height / 2,
			);
		});
		c.fillStyle = colour("--cursor");
		if (state.cursor >= state.from && state.cursor <= state.to)
			c.fillRect(Math.round(x_of(state.cursor)), 0, 1.5, rows.length * height);
	}
}
