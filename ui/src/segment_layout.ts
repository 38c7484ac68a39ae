// Where segments and what lies in them are drawn: they follow each other by address and wrap like words, in
// rows that stand for so many bytes in each pool.

import type { Recording, Segment } from "./recording";
import * as text from "./text";

export const ROW = 20;
const GAP = 4;
const HEAD = 24;
const BETWEEN_POOLS = 6;
const ROWS_OF_LARGEST = 14;
const TINY = 1e-6; // pixels; what rounding leaves of a piece

export interface Hole {
	addr: number;
	size: number;
}

// A part of a segment in one row: a part of a block, or free.
export interface Piece {
	x: number;
	y: number;
	width: number;
	alloc: number | null;
	hole: Hole | null;
	segment: Segment;
}

export interface Pool {
	name: string;
	segments: Segment[];
	blocks: number[][]; // of each segment, by address
	size: number;
	used: number;
	holes: Hole[];
}

export interface Layout {
	pieces: Piece[];
	first: number[]; // of each segment, into pieces
	headings: { y: number; pool: Pool; per_row: number }[];
	request: { y: number; per_row: number } | null;
	height: number;
}

// Bytes of a row.
function scale_of(pool: Pool, largest_pool: number): number {
	const rows = Math.max(1, Math.round((ROWS_OF_LARGEST * pool.size) / largest_pool));
	const largest = pool.segments.reduce((n, s) => Math.max(n, s.size), 0);
	return text.round_up(Math.max(pool.size / rows, Math.min(largest, pool.size / 4)));
}

// Writes one pool's segments from left to right and down.
class Flow {
	private x = 0;

	constructor(
		private layout: Layout,
		private width: number,
		private pixel: number, // bytes of one
		public y: number,
	) {}

	new_row(): void {
		this.x = 0;
		this.y += ROW + GAP;
	}

	begin(segment: Segment): void {
		const wide = segment.size / this.pixel;
		const left = this.width - this.x;
		// A segment that fits a row is not torn, unless most of a row would stay empty.
		if (this.x > 0 && wide > left + 0.5 && wide <= this.width && left < this.width * 0.4) this.new_row();
		this.layout.first.push(this.layout.pieces.length);
	}

	place(segment: Segment, from: number, to: number, alloc: number | null): void {
		const hole = alloc === null ? { addr: from, size: to - from } : null;
		let start = this.x + (from - segment.addr) / this.pixel;
		const end = this.x + (to - segment.addr) / this.pixel;
		while (end - start > TINY) {
			const row = Math.floor(start / this.width + 1e-9);
			const stop = Math.min(end, (row + 1) * this.width);
			const x = start - row * this.width;
			this.layout.pieces.push({
				x,
				y: this.y + row * (ROW + GAP),
				width: stop - start,
				alloc,
				hole,
				segment,
			});
			start = stop;
		}
	}

	finish(segment: Segment): void {
		const whole = this.x + segment.size / this.pixel;
		const rows = Math.floor(whole / this.width + 1e-9);
		this.y += rows * (ROW + GAP);
		this.x = whole - rows * this.width;
		if (this.x > TINY) this.x += 2;
		else this.x = 0;
		if (this.x >= this.width) this.new_row();
	}

	close(): void {
		if (this.x > 0) this.new_row();
	}
}

// `request`: is there a bar for what was asked for, below the largest pool?
// `zoom`: times as many rows as fit well.
export function lay_out(
	recording: Recording,
	pools: Pool[],
	width: number,
	request: boolean,
	zoom: number,
): Layout {
	const layout: Layout = { pieces: [], first: [], headings: [], request: null, height: 0 };
	let y = 0;
	for (const pool of pools) {
		const per_row = scale_of(pool, pools[0].size) / zoom;
		layout.headings.push({ y, pool, per_row });
		const flow = new Flow(layout, width, per_row / width, y + HEAD);
		pool.segments.forEach((segment, s) => {
			let at = segment.addr;
			const end = segment.addr + segment.size;
			flow.begin(segment);
			for (const a of pool.blocks[s]) {
				const from = Math.max(at, recording.addr[a]);
				const to = Math.min(end, recording.addr[a] + recording.block[a]);
				flow.place(segment, at, from, null);
				flow.place(segment, from, to, a);
				at = Math.max(at, to);
			}
			flow.place(segment, at, end, null);
			flow.finish(segment);
		});
		flow.close();
		if (request && pool === pools[0]) {
			layout.request = { y: flow.y, per_row };
			flow.new_row();
		}
		y = flow.y + BETWEEN_POOLS;
	}
	layout.height = y;
	return layout;
}
