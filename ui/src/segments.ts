// The address space at the cursor's moment: every segment (or mapped range of an expandable one) with what
// lies in it.  Segments follow each other by address and wrap like words; each pool has its own scale.

import { Picture, FONT_SMALL, button, code, colour, el, fill, table } from "./dom";
import { PRIVATE } from "./recording";
import type { Segment } from "./recording";
import { ROW, lay_out } from "./segment_layout";
import type { Layout, Piece, Pool } from "./segment_layout";
import { SegmentTimes } from "./segment_times";
import type { State } from "./state";
import * as text from "./text";

const ZOOMS = 64; // rows at most for each that fits well

export class Segments {
	readonly root: HTMLElement;
	private picture: Picture;
	private heading = el("p", { class: "note" });
	private told = el("div", { class: "note", "aria-live": "polite" });
	private behind = el("details", { class: "behind" }, el("summary", {}, "Table"));
	private pools: Pool[] = [];
	private layout: Layout = { pieces: [], first: [], headings: [], request: null, height: 0 };
	private hovered: Piece | null = null;
	private stale = true;
	private zoom = 1;
	private times: SegmentTimes;
	private place: HTMLElement;
	private is_over_time = false;
	private over_time = button("Over time", () => this.turn(), {
		title: "each segment from when it was taken from the driver, in what the picture shows",
		"aria-pressed": "false",
	});

	constructor(private state: State) {
		this.picture = new Picture(
			{
				tabindex: 0,
				role: "application",
				"aria-roledescription": "map of segments",
				"aria-label":
					"Segments by address with what lies in them; left and right arrows walk through the blocks, Enter chooses. The table below has the numbers.",
			},
			(c, w) => this.draw(c, w),
		);
		this.times = new SegmentTimes(state, (segment, m) => {
			state.go(m);
			this.tell_segment(segment);
		});
		this.place = el("div", { class: "picture" }, this.picture.canvas);
		this.root = el(
			"div",
			{ class: "segments" },
			el(
				"div",
				{ class: "bar no-print" },
				this.over_time,
				el(
					"span",
					{ class: "group" },
					button("+", () => this.zoom_by(2), { "aria-label": "more rows" }),
					button("−", () => this.zoom_by(0.5), { "aria-label": "fewer rows" }),
				),
			),
			this.heading,
			this.place,
			this.told,
			this.behind,
		);
		this.listen();
		this.behind.addEventListener("toggle", () => this.list());
		state.on((change) => {
			if (change === "cursor") this.stale = true;
			if (change === "pointer") return;
			if (this.root.isConnected && !this.root.closest("[hidden]")) this.show();
		});
	}

	show(): void {
		if (this.stale) this.collect();
		if (this.is_over_time) this.times.show();
		else this.picture.later();
	}

	private turn(): void {
		this.is_over_time = !this.is_over_time;
		this.over_time.setAttribute("aria-pressed", String(this.is_over_time));
		fill(this.place, this.is_over_time ? this.times.picture.canvas : this.picture.canvas);
		this.show();
	}

	private zoom_by(times: number): void {
		this.zoom = Math.max(1, Math.min(ZOOMS, this.zoom * times));
		this.picture.later();
	}

	// Where the driver was asked for it.
	private asked_at(stack: number): (Node | string)[] {
		const { recording } = this.state;
		if (!stack) return [];
		const frame = recording.user_frame(stack) || recording.code_frame(stack);
		const names = Array.from(recording.frames_of(stack), (f) => recording.frame_text(f));
		const place = code(frame ? recording.frame_text(frame - 1) : (names[0] ?? ""));
		place.title = text.plain(names.join("\n"), 3000);
		return ["; the driver was asked for it at ", place];
	}

	private tell_segment(row: number): void {
		const { recording } = this.state;
		const segment = recording.segment(row);
		const born = recording.segment_born[row];
		fill(
			this.told,
			el("strong", {}, text.bytes(segment.size)),
			` at `,
			el("code", {}, text.hex(segment.addr)),
			`, ${pool_name(segment)}, taken ${born ? "at " + recording.moment_text(born) : "before the first event"}`,
			...this.asked_at(segment.stack),
		);
	}

	private collect(): void {
		const { recording, cursor } = this.state;
		this.stale = false;
		this.hovered = null;
		const pools = new Map<string, Pool>();
		const segments = recording.segments(cursor);
		const { addr } = recording;
		const live = Array.from(recording.live(cursor, true)).sort((a, b) => addr[a] - addr[b]);
		let next = 0;
		for (const segment of segments) {
			const name = pool_name(segment);
			let pool = pools.get(name);
			if (!pool)
				pools.set(name, (pool = { name, segments: [], size: 0, used: 0, holes: [], blocks: [] }));
			const end = segment.addr + segment.size;
			while (
				next < live.length &&
				recording.addr[live[next]] + recording.block[live[next]] <= segment.addr
			)
				next++;
			const blocks: number[] = [];
			for (let k = next; k < live.length && recording.addr[live[k]] < end; k++) blocks.push(live[k]);
			pool.segments.push(segment);
			pool.blocks.push(blocks);
			pool.size += segment.size;
			this.find_holes(pool, segment, blocks);
		}
		this.pools = [...pools.values()].sort((a, b) => b.size - a.size);
		this.sum_up();
		this.list();
	}

	private find_holes(pool: Pool, segment: Segment, blocks: number[]): void {
		const { recording } = this.state;
		let at = segment.addr;
		const end = segment.addr + segment.size;
		const hole = (from: number, to: number) => {
			if (to <= from) return;
			pool.holes.push({ addr: from, size: to - from });
		};
		for (const a of blocks) {
			const from = Math.max(segment.addr, recording.addr[a]);
			const to = Math.min(end, recording.addr[a] + recording.block[a]);
			hole(at, from);
			pool.used += to - from;
			at = Math.max(at, to);
		}
		hole(at, end);
	}

	private sum_up(): void {
		const { recording, cursor } = this.state;
		const size = this.pools.reduce((sum, p) => sum + p.size, 0);
		const used = this.pools.reduce((sum, p) => sum + p.used, 0);
		const holes = this.pools.flatMap((p) => p.holes);
		const largest = holes.reduce((most, h) => Math.max(most, h.size), 0);
		const oom = recording.device.oom.find((o) => o.event + 1 === cursor);
		const { block, size: asked } = recording;
		const lost = recording.live(cursor).reduce((sum, a) => sum + block[a] - asked[a], 0);
		fill(
			this.heading,
			`${text.bytes(size)} reserved in ${text.plural(
				this.pools.reduce((sum, p) => sum + p.segments.length, 0),
				"segment",
			)} at ${recording.moment_text(cursor)}: ${text.bytes(used)} in use, ${text.bytes(size - used)} free in ${text.plural(holes.length, "piece")}, the largest ${text.bytes(largest)}.`,
			lost ? ` Rounding up takes ${text.bytes(lost)}.` : null,
			oom
				? el(
						"strong",
						{},
						` ${text.bytes(oom.requested_bytes)} was asked for (the bar below the largest pool).`,
					)
				: null,
		);
	}

	private request(): number | null {
		const { recording, cursor } = this.state;
		return recording.device.oom.find((o) => o.event + 1 === cursor)?.requested_bytes ?? null;
	}

	private paint_headings(c: CanvasRenderingContext2D): void {
		for (const { y, pool, per_row } of this.layout.headings) {
			c.fillStyle = colour("--ink");
			c.font = "600 " + FONT_SMALL;
			c.textAlign = "left";
			c.textBaseline = "alphabetic";
			c.fillText(pool.name, 0, y + 15);
			const wide = c.measureText(pool.name).width;
			if (pool.name.startsWith(PRIVATE)) {
				c.fillStyle = colour("--pool-private");
				c.fillRect(0, y + 17, wide, 2);
			}
			c.font = FONT_SMALL;
			c.fillStyle = colour("--soft");
			const used = `${text.bytes(pool.used)} of ${text.bytes(pool.size)} in use`;
			c.fillText(`${used}; a row is ${text.axis_bytes(per_row)}`, wide + 12, y + 15);
		}
	}

	private paint_pieces(c: CanvasRenderingContext2D): void {
		const { recording, groups, cursor } = this.state;
		for (const { x, y, width, alloc } of this.layout.pieces) {
			if (alloc === null) {
				c.fillStyle = colour("--hole");
				c.fillRect(x, y, width, ROW);
				continue;
			}
			c.fillStyle = colour(groups.bands[groups.of[alloc]].colour);
			const pending = recording.freed[alloc] !== 0 && recording.freed[alloc] <= cursor;
			c.globalAlpha = pending ? 0.45 : 1;
			c.fillRect(x, y, width, ROW);
			c.globalAlpha = 1;
			const { size, block } = recording;
			const lost = width * (1 - size[alloc] / Math.max(1, block[alloc]));
			if (lost > 1.5) {
				c.fillStyle = colour("--ink"); // what rounding up wastes
				c.fillRect(x + width - lost, y + ROW - 4, lost, 4);
			}
			if (width > 3) {
				c.fillStyle = colour("--hairline");
				c.fillRect(x + width - 0.5, y, 0.5, ROW);
			}
		}
	}

	// Around each row of each segment.
	private paint_borders(c: CanvasRenderingContext2D): void {
		const { pieces, first } = this.layout;
		const begins = new Set(first);
		let left = 0;
		c.strokeStyle = colour("--edge");
		c.lineWidth = 1;
		pieces.forEach((piece, i) => {
			const before = pieces[i - 1];
			if (begins.has(i) || before.y !== piece.y) left = piece.x;
			const next = pieces[i + 1];
			if (next && !begins.has(i + 1) && next.y === piece.y) return;
			const wide = piece.x + piece.width - left;
			if (wide > 3) c.strokeRect(left + 0.5, piece.y + 0.5, wide - 1, ROW - 1);
		});
	}

	private paint_choice(c: CanvasRenderingContext2D): void {
		const { chosen } = this.state;
		c.strokeStyle = colour("--ink");
		c.lineWidth = 2;
		for (const piece of this.layout.pieces)
			if (
				(chosen !== null && piece.alloc === chosen) ||
				(this.hovered && same_piece(piece, this.hovered))
			)
				c.strokeRect(piece.x, piece.y - 1, Math.max(3, piece.width), ROW + 2);
	}

	private paint_request(
		c: CanvasRenderingContext2D,
		request: number,
		per_row: number,
		width: number,
		y: number,
	): void {
		const wide = Math.min(width, (request / per_row) * width);
		c.fillStyle = colour("--fail-veil");
		c.fillRect(0, y, wide, ROW - 2);
		c.strokeStyle = c.fillStyle = colour("--fail");
		c.lineWidth = 1.5;
		c.strokeRect(0.75, y + 0.75, Math.max(2, wide - 1.5), ROW - 3.5);
		c.font = FONT_SMALL;
		c.textBaseline = "middle";
		const words = `the request: ${text.bytes(request)}${request > per_row ? " (longer than a row)" : ""}`;
		const inside = c.measureText(words).width + 12 < wide;
		const outside = wide + 8 + c.measureText(words).width < width;
		if (inside || outside) c.fillText(words, inside ? 7 : wide + 8, y + ROW / 2 - 1);
	}

	private draw(c: CanvasRenderingContext2D, width: number): void {
		const request = this.request();
		this.layout = lay_out(this.state.recording, this.pools, width, request !== null, this.zoom);
		const high = Math.max(40, Math.ceil(this.layout.height));
		if (Math.abs(this.picture.height - high) > 1) {
			this.picture.canvas.style.height = `${high}px`;
			this.picture.later();
			return;
		}
		this.paint_headings(c);
		this.paint_pieces(c);
		this.paint_borders(c);
		this.paint_choice(c);
		const bar = this.layout.request;
		if (bar && request !== null) this.paint_request(c, request, bar.per_row, width, bar.y);
	}

	private tell(piece: Piece): void {
		const { recording, cursor } = this.state;
		if (piece.alloc === null) {
			fill(
				this.told,
				el("strong", {}, text.bytes(piece.hole!.size)),
				` free at `,
				el("code", {}, text.hex(piece.hole!.addr)),
				`, in a segment of ${text.bytes(piece.segment.size)}`,
				...this.asked_at(piece.segment.stack),
			);
			return;
		}
		const a = piece.alloc;
		const pending = recording.freed[a] !== 0 && recording.freed[a] <= cursor;
		fill(
			this.told,
			el("strong", {}, text.bytes(recording.block[a])),
			` ${recording.head.categories[recording.category(a)]?.name ?? ""}${pending ? ", freed, but another stream still uses it" : ""} at `,
			el("code", {}, text.hex(recording.addr[a])),
			", ",
			el("code", {}, recording.owner_name(recording.owner(a))),
			` in a segment of ${text.bytes(piece.segment.size)}`,
			...this.asked_at(piece.segment.stack),
		);
	}

	// What lay last where it is free now.
	private last_in(hole: { addr: number; size: number }): number | null {
		const { recording, cursor } = this.state;
		const { addr, block, done } = recording;
		let best: number | null = null;
		for (let a = 0; a < recording.rows; a++)
			if (
				done[a] &&
				done[a] <= cursor &&
				addr[a] < hole.addr + hole.size &&
				addr[a] + block[a] > hole.addr &&
				(best === null || done[a] > done[best])
			)
				best = a;
		return best;
	}

	private listen(): void {
		const { canvas } = this.picture;
		const under = (event: MouseEvent): Piece | null => {
			const at = canvas.getBoundingClientRect();
			const x = event.clientX - at.left;
			const y = event.clientY - at.top;
			return (
				this.layout.pieces.find(
					(p) => y >= p.y && y < p.y + ROW && x >= p.x - 0.5 && x < p.x + Math.max(1, p.width),
				) ?? null
			);
		};
		canvas.addEventListener("pointermove", (event) => {
			const piece = under(event);
			if (!piece || piece === this.hovered) return;
			this.hovered = piece;
			this.tell(piece);
			this.picture.later();
		});
		canvas.addEventListener("click", (event) => {
			const piece = under(event);
			if (piece) this.state.choose(piece.alloc ?? this.last_in(piece.hole!));
		});
		canvas.addEventListener(
			"wheel",
			(event) => {
				if (!event.ctrlKey && !event.metaKey) return;
				this.zoom_by(event.deltaY < 0 ? 2 : 0.5);
				event.preventDefault();
			},
			{ passive: false },
		);
		canvas.addEventListener("keydown", (event) => {
			const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
			if (step) {
				const now = this.hovered;
				const at = now ? this.layout.pieces.findIndex((p) => same_piece(p, now)) : -1;
				const piece =
					this.layout.pieces[Math.max(0, Math.min(this.layout.pieces.length - 1, at + step))];
				if (piece) {
					this.hovered = piece;
					this.tell(piece);
					this.picture.later();
				}
			} else if (event.key === "Enter" && this.hovered?.alloc != null)
				this.state.choose(this.hovered.alloc);
			else return;
			event.preventDefault();
			event.stopPropagation();
		});
	}

	private list(): void {
		if (!this.behind.open) return;
		const rows = this.pools.flatMap((pool) =>
			pool.segments.map((segment, i) => ({ pool, segment, blocks: pool.blocks[i] })),
		);
		const { recording } = this.state;
		const used = (r: (typeof rows)[0]) =>
			r.blocks.reduce(
				(sum, a) =>
					sum +
					Math.min(r.segment.addr + r.segment.size, recording.addr[a] + recording.block[a]) -
					Math.max(r.segment.addr, recording.addr[a]),
				0,
			);
		const asked = (r: (typeof rows)[0]) => {
			const frame = recording.user_frame(r.segment.stack);
			return frame ? recording.frame_text(frame - 1) : "";
		};
		fill(
			this.behind,
			el("summary", {}, "Table"),
			table(
				"All segments",
				[
					{
						name: "address",
						cell: (r) => el("code", {}, text.hex(r.segment.addr)),
						order: (r) => r.segment.addr,
					},
					{ name: "pool", cell: (r) => r.pool.name, order: (r) => r.pool.name },
					{
						name: "size",
						number: true,
						cell: (r) => text.bytes(r.segment.size),
						order: (r) => r.segment.size,
					},
					{ name: "in use", number: true, cell: (r) => text.bytes(used(r)), order: used },
					{
						name: "blocks",
						number: true,
						cell: (r) => text.count(r.blocks.length),
						order: (r) => r.blocks.length,
					},
					{
						name: "taken at event",
						number: true,
						cell: (r) => {
							const born = recording.segment_born[r.segment.row];
							return born ? text.count(born - 1) : "before";
						},
						order: (r) => recording.segment_born[r.segment.row],
					},
					{ name: "asked for at", cell: (r) => code(asked(r)), order: asked },
				],
				rows,
				(r) => this.tell_segment(r.segment.row),
			),
		);
	}
}

// Layouts are made anew; a piece is known by what it shows.
function same_piece(a: Piece, b: Piece): boolean {
	return a.alloc === b.alloc && a.hole?.addr === b.hole?.addr && a.segment.row === b.segment.row;
}

function pool_name(segment: Segment): string {
	const kind = segment.large ? "large" : "small";
	const words =
		segment.pool === "default" ? `${kind} blocks` : `${text.plain(segment.pool, 80)}, ${kind} blocks`;
	return (
		words +
		(segment.expandable ? ", expandable" : "") +
		(segment.stream === "0" ? "" : `, stream ${text.plain(segment.stream, 40)}`)
	);
}
