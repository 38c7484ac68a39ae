// Who holds memory at a moment, by the calls that led there: outermost at the top, or turned round.  With a mark, or
// held against another recording, it shows what grew and what shrank instead.

import { Picture, button, choice, colour, el, fill, fit, ink_on, table } from "./dom";
import { is_wrapper } from "./paths";
import { BEFORE, FLAG_INFERRED, NOBODY, nobody_words } from "./recording";
import type { Recording } from "./recording";
import type { State } from "./state";
import * as text from "./text";

const ROW = 20;
const ROOT = -1;
const NO_STACK = -2;
const BACKWARD = -3;
const WAS_BEFORE = -4;
const MOST_ROWS = 60;

interface Node {
	chain: number[]; // frames, outermost first; more than one where calls have no other callee
	bytes: number;
	moved: number; // the sum of what grew and what shrank, as wide as it is drawn
	found: number;
	count: number;
	bands: Float64Array;
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
	frames: number[]; // innermost first
	line: number; // its owner, as Recording.owner has it; of another recording by name
	bytes: number;
	found: number;
	count: number;
	bands: Float64Array;
}

// Frames of a second recording are those of the first, where they have one name.
class Frames {
	private names: string[] = [];
	private by_name = new Map<string, number>();
	readonly users = new Set<number>();
	readonly wrappers: Uint8Array;

	constructor(private recording: Recording) {
		this.wrappers = new Uint8Array(recording.frame_count);
		for (let f = 0; f < recording.frame_count; f++) {
			const { file, name } = recording.frame(f);
			this.wrappers[f] = is_wrapper(file, name) ? 1 : 0;
		}
		for (let s = 1; s <= recording.stack_count; s++) {
			const user = recording.user_frame(s);
			if (user) this.users.add(user - 1);
		}
	}

	name(frame: number): string {
		const own = this.recording.frame_count;
		return frame < own ? this.recording.frame_text(frame) : this.names[frame - own];
	}

	is_wrapper(frame: number): boolean {
		return this.wrappers[frame] === 1;
	}

	// The number of another recording's frame here.
	of(other: Recording, frame: number): number {
		if (!this.by_name.size)
			for (let f = 0; f < this.recording.frame_count; f++)
				this.by_name.set(this.recording.frame_text(f), f);
		const name = other.frame_text(frame);
		let number = this.by_name.get(name);
		if (number === undefined) {
			number = this.recording.frame_count + this.names.push(name) - 1;
			this.by_name.set(name, number);
		}
		return number;
	}
}

class Parts {
	private all = new Map<string, Part>();

	constructor(private frames: Frames) {}

	// What lives at m, counted once or taken away.
	add(state: State, own: Recording, m: number, sign: number): void {
		const { recording, groups, found } = state;
		const keys = new Map<number, Part>();
		for (const a of recording.live(m)) {
			const inferred = recording.flags[a] & FLAG_INFERRED;
			const nobody = recording.stack[a] ? 0 : recording.nobody(a);
			const key = nobody ? -nobody : recording.stack[a] * 2 + inferred;
			let part = keys.get(key);
			if (!part) keys.set(key, (part = this.part(state, own, recording.stack[a], inferred, nobody)));
			part.bytes += sign * recording.block[a];
			part.count += sign;
			if (found?.[a] && sign > 0) part.found += recording.block[a];
			if (recording === own) part.bands[groups.of[a]] += sign * recording.block[a];
		}
	}

	private part(state: State, own: Recording, stack: number, inferred: number, nobody: number): Part {
		const { recording } = state;
		const is_own = recording === own;
		const frames = Array.from(recording.frames_of(stack), (f) =>
			is_own ? f : this.frames.of(recording, f),
		);
		if (nobody === BEFORE) frames.push(WAS_BEFORE);
		const key = `${inferred} ${frames.join()}`;
		let part = this.all.get(key);
		if (!part) {
			const user = recording.user_frame(stack);
			const line = user
				? 2 * (is_own ? user : this.frames.of(recording, user - 1) + 1) + inferred
				: nobody;
			const bands = new Float64Array(state.groups.bands.length);
			part = { frames, line, bytes: 0, found: 0, count: 0, bands };
			if (inferred) part.frames.unshift(BACKWARD);
			this.all.set(key, part);
		}
		return part;
	}

	get list(): Part[] {
		return [...this.all.values()];
	}
}

interface Growing {
	node: Node;
	next: Map<number, Growing>;
}

interface Shape {
	inverted: boolean;
	library: boolean; // wrappers too
}

function shown_frames(part: Part, frames: Frames, shape: Shape): number[] {
	let list = part.frames;
	// The innermost call says what was done, whoever wrote it.
	if (!shape.library) list = list.filter((f, i) => i === 0 || f < 0 || !frames.is_wrapper(f));
	if (!list.some((f) => f >= 0 || f === WAS_BEFORE)) list = [NO_STACK, ...list];
	return shape.inverted ? list : [...list].reverse();
}

function grow_tree(parts: Part[], frames: Frames, shape: Shape, bands: number): Node {
	const fresh = (frame: number, parent: Node | null): Growing => ({
		node: {
			chain: [frame],
			bytes: 0,
			moved: 0,
			found: 0,
			count: 0,
			bands: new Float64Array(bands),
			children: [],
			parent,
		},
		next: new Map(),
	});
	const root = fresh(ROOT, null);
	for (const part of parts) {
		if (!part.bytes) continue;
		let at = root;
		const count = (node: Node) => {
			node.bytes += part.bytes;
			node.moved += Math.abs(part.bytes);
			node.found += part.found;
			node.count += part.count;
			for (let k = 0; k < part.bands.length; k++) node.bands[k] += part.bands[k];
		};
		count(root.node);
		for (const frame of shown_frames(part, frames, shape)) {
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
			next.children[0].moved === next.moved
		) {
			const [only] = next.children;
			next.chain.push(...only.chain);
			next.children = only.children;
			for (const child of next.children) child.parent = next;
		}
		next.children.sort((a, b) => b.moved - a.moved);
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
	private kept_frames: Frames | null = null;
	private shape: Shape = { inverted: false, library: false };
	private against: State | null = null; // another recording that it is held against
	private tools = el("div", { class: "bar no-print" });
	private stale = true;

	constructor(
		private state: State,
		private others: () => State[],
	) {
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
			this.tools,
			this.heading,
			this.path,
			el("div", { class: "picture" }, this.picture.canvas),
			this.told,
			this.behind,
		);
		this.listen();
		this.behind.addEventListener("toggle", () => this.list());
		state.on((change) => {
			if (change === "cursor" || change === "groups") this.stale = true;
			if (change === "theme") this.picture.later();
			if (this.stale && this.root.isConnected && !this.root.closest("[hidden]")) this.show();
		});
	}

	private get frames(): Frames {
		return (this.kept_frames ??= new Frames(this.state.recording));
	}

	private get is_difference(): boolean {
		return this.against !== null || this.state.mark !== null;
	}

	private make_tools(): void {
		const toggle = (name: keyof Shape, label: string, title: string) =>
			button(
				label,
				() => {
					this.shape[name] = !this.shape[name];
					this.stale = true;
					this.show();
				},
				{ title, "aria-pressed": String(this.shape[name]) },
			);
		const others = this.others().filter((s) => s !== this.state);
		const titles = others.map((s, i) => ({
			id: String(i),
			name: text.plain(s.recording.head.title, 60),
		}));
		const against = choice("against", [{ id: "", name: "nothing" }, ...titles], (id) => {
			this.against = id ? others[Number(id)] : null;
			this.stale = true;
			this.show();
		});
		against.list.value = this.against ? String(others.indexOf(this.against)) : "";
		fill(
			this.tools,
			toggle("library", "Library calls", "also PyTorch's own calls, decorators and how Python starts"),
			toggle("inverted", "Inverted", "the innermost call at the top"),
			others.length ? against.root : null,
		);
	}

	private collect(): Part[] {
		const { state } = this;
		const parts = new Parts(this.frames);
		if (this.against) {
			parts.add(state, state.recording, state.cursor, 1);
			parts.add(this.against, state.recording, this.against.cursor, -1);
			return parts.list;
		}
		const [from, to] = state.growth() ?? [null, state.cursor];
		parts.add(state, state.recording, to, 1);
		if (from !== null) parts.add(state, state.recording, from, -1);
		return parts.list;
	}

	show(): void {
		if (this.stale) this.rebuild();
		this.picture.later();
	}

	private rebuild(): void {
		this.stale = false;
		const parts = this.collect();
		this.tree = this.top = grow_tree(parts, this.frames, this.shape, this.state.groups.bands.length);
		this.focus = null;
		fold(this.tree);
		this.make_tools();
		this.tell_heading(parts);
		this.fit_height();
		this.list(parts);
	}

	private tell_heading(parts: Part[]): void {
		const { recording, cursor, found, match_name } = this.state;
		const { bytes } = this.tree!;
		const shrunk = parts.reduce((sum, p) => sum + Math.max(0, -p.bytes), 0);
		const growth = this.state.growth();
		const changed = `${text.bytes(bytes + shrunk)} more at some calls, ${text.bytes(shrunk)} less at others`;
		let words = `${text.bytes(bytes)} live at ${recording.moment_text(cursor)}. Width is memory, colour the band that holds most of it.`;
		if (this.against)
			words = `Than ${text.plain(this.against.recording.head.title, 80)} at ${this.against.recording.moment_text(this.against.cursor)}: ${changed}.`;
		else if (growth)
			words = `From ${recording.moment_text(growth[0])} to ${recording.moment_text(growth[1])}: ${changed}.`;
		const hits = this.tree!.found;
		fill(
			this.heading,
			words,
			this.is_difference
				? el("span", {}, " Width is change: red grew, blue shrank.")
				: el("span", {}, " Set a mark (m) to see what grew between two moments."),
			found && !this.is_difference
				? el(
						"strong",
						{},
						` ${text.bytes(hits)} of it, ${text.percent(hits, bytes)}, is ${text.plain(match_name, 80)}.`,
					)
				: null,
		);
	}

	private fit_height(): void {
		const depth = (node: Node): number =>
			1 +
			node.children.reduce(
				(most, child) => Math.max(most, child.moved > this.top!.moved / 2000 ? depth(child) : 0),
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
		if (frame === ROOT) return this.is_difference ? "all that changed" : "all live memory";
		if (frame === NO_STACK) return nobody_words(NOBODY);
		if (frame === WAS_BEFORE) return nobody_words(BEFORE);
		if (frame === BACKWARD) return "(its backward)";
		return this.frames.name(frame);
	}

	// The user's own line, where a chain has one.
	private name(node: Node): string {
		const own = node.chain.filter((f) => this.frames.users.has(f));
		const last = this.shape.inverted ? node.chain[0] : node.chain[node.chain.length - 1];
		const shown = own.length && !this.shape.inverted ? own[own.length - 1] : last;
		const more = node.chain.length - 1;
		return this.frame_name(shown) + (more ? ` and ${text.plural(more, "call")}` : "");
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
		const is_dim = this.state.found !== null && !this.is_difference && !node.found;
		c.fillStyle = back;
		c.globalAlpha = is_dim ? 0.3 : 1;
		c.fillRect(x, y, Math.max(0.6, width - (width > 3 ? 1 : 0)), ROW - 1);
		c.globalAlpha = 1;
		if (width > 30) {
			c.fillStyle = plain_root || is_dim ? colour("--ink") : ink_on(back);
			const words = text.short_place(this.name(node));
			const size = this.is_difference ? text.signed(node.bytes) : text.bytes(node.bytes);
			const size_width = c.measureText(size).width;
			const room = width - 10;
			if (room > size_width + 70) {
				c.fillText(fit(c, words, room - size_width - 12), x + 5, y + ROW / 2);
				c.fillText(size, x + width - size_width - 6, y + ROW / 2);
			} else c.fillText(fit(c, words, room), x + 5, y + ROW / 2);
		}
		let left = x;
		for (const child of node.children) {
			const wide = node.moved ? (width * child.moved) / node.moved : 0;
			this.draw_node(c, child, left, row + 1, wide);
			left += wide;
		}
	}

	private band_colour(node: Node): string {
		if (this.is_difference)
			return node.bytes > 0 ? "--grew" : node.bytes < 0 ? "--shrank" : "--band-rest";
		let best = 0;
		node.bands.forEach((n, k) => {
			if (n > node.bands[best]) best = k;
		});
		return this.state.groups.bands[best].colour;
	}

	private tell(node: Node): void {
		const names = node.chain.map((f) => this.frame_name(f));
		const size = this.is_difference ? text.signed(node.bytes) : text.bytes(node.bytes);
		fill(
			this.told,
			el("strong", {}, `${size} `),
			`in ${text.plural(node.count, "allocation")}, ${text.percent(node.moved, this.tree!.moved)}`,
			this.state.found && !this.is_difference
				? `, ${text.percent(node.found, node.bytes)} of it found`
				: null,
			": ",
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
			else if ((event.key === "Backspace" || event.key === "Escape") && this.top?.parent)
				this.zoom(event.key === "Escape" ? this.tree! : this.top.parent);
			else return;
			event.preventDefault();
			event.stopPropagation();
		});
	}

	// The same as rows, made when it is opened.
	private list(parts = this.collect()): void {
		if (!this.behind.open || !this.tree) return;
		const lines = new Map<number, { name: string; bytes: number; count: number }>();
		for (const part of parts) {
			const name =
				part.line > BEFORE
					? (part.line & 1 ? "(backward of) " : "") + this.frames.name((part.line >> 1) - 1)
					: nobody_words(part.line);
			const line = lines.get(part.line) ?? { name, bytes: 0, count: 0 };
			line.bytes += part.bytes;
			line.count += part.count;
			lines.set(part.line, line);
		}
		const rows = [...lines.values()]
			.filter((l) => l.bytes)
			.sort((a, b) => Math.abs(b.bytes) - Math.abs(a.bytes));
		const is_change = this.is_difference;
		fill(
			this.behind,
			el("summary", {}, "Table"),
			table(
				"Lines of the program",
				[
					{ name: "line", cell: (r) => el("code", {}, r.name), order: (r) => r.name },
					{
						name: is_change ? "change" : "held",
						number: true,
						cell: (r) => (is_change ? text.signed(r.bytes) : text.bytes(r.bytes)),
						order: (r) => r.bytes,
					},
					{
						name: "allocations",
						number: true,
						cell: (r) => text.count(r.count),
						order: (r) => r.count,
					},
				],
				rows,
			),
		);
	}
}
