// Who holds memory at a moment, by the calls that led there: outermost at the top.  With a mark it shows
// what grew between the two moments instead.

import { Picture, button, colour, el, fill, fit, ink_on, table } from "./dom";
import { FLAG_INFERRED } from "./recording";
import type { Recording } from "./recording";
import type { State } from "./state";
import * as text from "./text";

const ROW = 20;
const ROOT = -1;
const NO_STACK = -2;
const BACKWARD = -3;
const MOST_ROWS = 60;

interface Node {
	chain: number[]; // frames, outermost first; more than one where calls have no other callee
	bytes: number;
	count: number;
	categories: Float64Array;
	children: Node[];
	parent: Node | null;
}

interface Box {
	node: Node;
	x: number;
	y: number;
	width: number;
}

interface Part {
	stack: number;
	inferred: number;
	bytes: number;
	count: number;
	categories: Float64Array;
}

// What lives at the cursor, or what changed between the cursor and the mark.
function parts_of(state: State): Part[] {
	const { recording } = state;
	const [from, to] = state.growth() ?? [null, state.cursor];
	const parts = new Map<number, Part>();
	const kinds = Math.max(1, recording.head.categories.length);
	const add = (m: number, sign: number) => {
		for (const a of recording.live(m)) {
			const inferred = recording.flags[a] & FLAG_INFERRED;
			const key = recording.stack[a] * 2 + inferred;
			let part = parts.get(key);
			if (!part)
				parts.set(
					key,
					(part = {
						stack: recording.stack[a],
						inferred,
						bytes: 0,
						count: 0,
						categories: new Float64Array(kinds),
					}),
				);
			part.bytes += sign * recording.block[a];
			part.count += sign;
			part.categories[recording.category(a)] += sign * recording.block[a];
		}
	};
	add(to, 1);
	if (from !== null) add(from, -1);
	return [...parts.values()];
}

interface Growing {
	node: Node;
	next: Map<number, Growing>;
}

function grow_tree(recording: Recording, parts: Part[]): Node {
	const kinds = Math.max(1, recording.head.categories.length);
	const fresh = (frame: number, parent: Node | null): Growing => ({
		node: {
			chain: [frame],
			bytes: 0,
			count: 0,
			categories: new Float64Array(kinds),
			children: [],
			parent,
		},
		next: new Map(),
	});
	const root = fresh(ROOT, null);
	for (const part of parts) {
		if (part.bytes <= 0) continue;
		const frames = Array.from(recording.frames_of(part.stack)).reverse();
		if (!frames.length) frames.push(NO_STACK);
		if (part.inferred) frames.push(BACKWARD);
		let at = root;
		const count = (node: Node) => {
			node.bytes += part.bytes;
			node.count += part.count;
			for (let k = 0; k < kinds; k++) node.categories[k] += part.categories[k];
		};
		count(root.node);
		for (const frame of frames) {
			let next = at.next.get(frame);
			if (!next) {
				at.next.set(frame, (next = fresh(frame, at.node)));
				at.node.children.push(next.node);
			}
			count(next.node);
			at = next;
		}
	}
	return root.node;
}

// Calls that have one callee each become one row.
function fold(node: Node): void {
	const waiting = [node];
	for (let next = waiting.pop(); next; next = waiting.pop()) {
		while (
			next.chain[0] !== ROOT &&
			next.children.length === 1 &&
			next.children[0].bytes === next.bytes
		) {
			const [only] = next.children;
			next.chain.push(...only.chain);
			next.children = only.children;
			for (const child of next.children) child.parent = next;
		}
		next.children.sort((a, b) => b.bytes - a.bytes);
		waiting.push(...next.children);
	}
}

export class Flame {
	readonly root: HTMLElement;
	private picture: Picture;
	private heading = el("p", { class: "note" });
	private path = el("div", { class: "bar no-print" });
	private told = el("div", { class: "note", "aria-live": "polite" });
	private behind = el("details", { class: "behind" }, el("summary", {}, "Table"));
	private tree: Node | null = null;
	private top: Node | null = null;
	private focus: Node | null = null;
	private boxes: Box[] = [];
	private users = new Set<number>();
	private stale = true;

	constructor(private state: State) {
		const { recording } = state;
		for (let s = 1; s <= recording.stack_count; s++) {
			const user = recording.user_frame(s);
			if (user) this.users.add(user - 1);
		}
		this.picture = new Picture(
			{
				tabindex: 0,
				role: "application",
				"aria-roledescription": "flame graph",
				"aria-label": "Live memory by calls; arrow keys walk, Enter zooms in, Backspace zooms out",
			},
			(c, w) => this.draw(c, w),
		);
		this.root = el(
			"div",
			{ class: "flame" },
			this.heading,
			this.path,
			el("div", { class: "picture" }, this.picture.canvas),
			this.told,
			this.behind,
		);
		this.listen();
		this.behind.addEventListener("toggle", () => this.list());
		state.on((change) => {
			if (change === "cursor") this.stale = true;
			if (change === "theme") this.picture.later();
			if (change === "cursor" && this.root.isConnected && !this.root.closest("[hidden]")) this.show();
		});
	}

	show(): void {
		if (this.stale) this.rebuild();
		this.picture.later();
	}

	private rebuild(): void {
		const { recording, cursor } = this.state;
		const growth = this.state.growth();
		this.stale = false;
		const parts = parts_of(this.state);
		this.tree = this.top = grow_tree(recording, parts);
		this.focus = null;
		fold(this.tree);
		const shrunk = parts.reduce((sum, p) => sum + Math.min(0, p.bytes), 0);
		fill(
			this.heading,
			growth === null
				? `${text.bytes(this.tree.bytes)} live at ${recording.moment_text(cursor)}. Width is memory, colour the category that holds most of it.`
				: `From ${recording.moment_text(growth[0])} to ${recording.moment_text(growth[1])}: ${text.bytes(this.tree.bytes)} more at the calls shown, ` +
						`${text.bytes(-shrunk)} less at others.`,
			growth === null ? el("span", {}, " Set a mark (f) to see what grew between two moments.") : null,
		);
		this.fit_height();
		this.list();
	}

	private fit_height(): void {
		const depth = (node: Node): number =>
			1 +
			node.children.reduce(
				(most, child) => Math.max(most, child.bytes > this.top!.bytes / 2000 ? depth(child) : 0),
				0,
			);
		const rows = Math.min(MOST_ROWS, this.top ? depth(this.top) : 1);
		this.picture.canvas.style.height = `${rows * ROW + 2}px`;
		const up: Node[] = [];
		for (let node = this.top; node; node = node.parent) up.unshift(node);
		fill(
			this.path,
			...(up.length > 1
				? up.map((node) =>
						button(text.short_place(this.name(node)).slice(0, 60), () => this.zoom(node), {
							class: "link",
						}),
					)
				: []),
		);
	}

	private zoom(node: Node): void {
		this.top = node;
		this.focus = node;
		this.fit_height();
		this.picture.later();
		this.tell(node);
	}

	private frame_name(frame: number): string {
		if (frame === ROOT) return this.state.mark === null ? "all live memory" : "all that grew";
		if (frame === NO_STACK) return "no Python stack";
		if (frame === BACKWARD) return "(its backward)";
		return this.state.recording.frame_text(frame);
	}

	// The user's own line, where a chain has one.
	private name(node: Node): string {
		const own = node.chain.filter((f) => this.users.has(f));
		const shown = own.length ? own[own.length - 1] : node.chain[node.chain.length - 1];
		return this.frame_name(shown) + (node.chain.length > 1 ? ` (+${node.chain.length - 1})` : "");
	}

	private draw(c: CanvasRenderingContext2D, width: number): void {
		if (!this.top) return;
		this.boxes = [];
		c.textBaseline = "middle";
		c.textAlign = "left";
		this.draw_node(c, this.top, 0, 0, width);
		if (this.focus) {
			const box = this.boxes.find((b) => b.node === this.focus);
			c.strokeStyle = colour("--ink");
			c.lineWidth = 2;
			if (box) c.strokeRect(box.x + 1, box.y + 1, Math.max(2, box.width - 2), ROW - 2);
		}
	}

	private draw_node(c: CanvasRenderingContext2D, node: Node, x: number, row: number, width: number): void {
		if (width < 0.6 || row >= MOST_ROWS) return;
		const y = row * ROW;
		this.boxes.push({ node, x, y, width });
		const plain_root = node.chain[0] === ROOT;
		const back = plain_root ? colour("--sheet") : colour(this.band_colour(node));
		c.fillStyle = back;
		c.fillRect(x, y, Math.max(0.6, width - (width > 3 ? 1 : 0)), ROW - 1);
		if (width > 30) {
			c.fillStyle = plain_root ? colour("--ink") : ink_on(back);
			const words = text.short_place(this.name(node));
			const size = text.bytes(node.bytes);
			const size_width = c.measureText(size).width;
			const room = width - 10;
			if (room > size_width + 70) {
				c.fillText(fit(c, words, room - size_width - 12), x + 5, y + ROW / 2);
				c.fillText(size, x + width - size_width - 6, y + ROW / 2);
			} else c.fillText(fit(c, words, room), x + 5, y + ROW / 2);
		}
		let left = x;
		for (const child of node.children) {
			const wide = (width * child.bytes) / node.bytes;
			this.draw_node(c, child, left, row + 1, wide);
			left += wide;
		}
	}

	private band_colour(node: Node): string {
		let best = 0;
		node.categories.forEach((n, k) => {
			if (n > node.categories[best]) best = k;
		});
		const id = this.state.recording.head.categories[best]?.id ?? "unknown";
		return `--cat-${id.replace(/[^a-z_]/g, "")}`;
	}

	private tell(node: Node): void {
		const names = node.chain.map((f) => this.frame_name(f));
		fill(
			this.told,
			el("strong", {}, `${text.bytes(node.bytes)} `),
			`in ${text.plural(node.count, "allocation")}, ${text.percent(node.bytes, this.tree!.bytes)}: `,
			...names.slice(0, 12).flatMap((name, i) => [i ? " › " : "", el("code", {}, name)]),
			names.length > 12 ? ` › ... (${names.length - 12} more)` : null,
		);
	}

	private box_at(event: MouseEvent): Box | null {
		const at = this.picture.canvas.getBoundingClientRect();
		const x = event.clientX - at.left;
		const y = event.clientY - at.top;
		return this.boxes.find((b) => x >= b.x && x < b.x + b.width && y >= b.y && y < b.y + ROW) ?? null;
	}

	private listen(): void {
		const { canvas } = this.picture;
		canvas.addEventListener("pointermove", (event) => {
			const node = this.box_at(event)?.node ?? null;
			if (node === this.focus || !node) return;
			this.focus = node;
			this.tell(node);
			this.picture.later();
		});
		canvas.addEventListener("click", (event) => {
			const box = this.box_at(event);
			if (box) this.zoom(box.node === this.top && box.node.parent ? box.node.parent : box.node);
		});
		canvas.addEventListener("keydown", (event) => {
			const now = this.focus ?? this.top;
			if (!now) return;
			const peers = now.parent?.children ?? [now];
			const at = peers.indexOf(now);
			const next: Record<string, Node | null | undefined> = {
				ArrowDown: now.children[0],
				ArrowUp: now === this.top ? null : now.parent,
				ArrowLeft: peers[at - 1],
				ArrowRight: peers[at + 1],
			};
			if (event.key in next) {
				const node = next[event.key];
				if (node) {
					this.focus = node;
					this.tell(node);
					this.picture.later();
				}
			} else if (event.key === "Enter") this.zoom(now);
			else if (event.key === "Backspace" && this.top?.parent) this.zoom(this.top.parent);
			else return;
			event.preventDefault();
			event.stopPropagation();
		});
	}

	// The same as rows, made when it is opened.
	private list(): void {
		if (!this.behind.open || !this.tree) return;
		const { recording, mark } = this.state;
		const lines = new Map<number, { name: string; bytes: number; count: number }>();
		for (const part of parts_of(this.state)) {
			const user = recording.user_frame(part.stack);
			const key = user ? 2 * user + part.inferred : 0;
			const line = lines.get(key) ?? { name: recording.owner_name(key), bytes: 0, count: 0 };
			line.bytes += part.bytes;
			line.count += part.count;
			lines.set(key, line);
		}
		const rows = [...lines.values()]
			.filter((l) => l.bytes)
			.sort((a, b) => Math.abs(b.bytes) - Math.abs(a.bytes));
		const words = mark === null ? "held" : "change";
		fill(
			this.behind,
			el("summary", {}, "Table"),
			table(
				`${rows.length > 200 ? "The largest 200 of " + text.count(rows.length) : "All"} lines of the program`,
				[
					{ name: "line", cell: (r) => el("code", {}, r.name) },
					{
						name: words,
						number: true,
						cell: (r) => (mark === null ? text.bytes(r.bytes) : text.signed(r.bytes)),
					},
					{ name: "allocations", number: true, cell: (r) => text.count(r.count) },
				],
				rows.slice(0, 200),
			),
		);
	}
}
