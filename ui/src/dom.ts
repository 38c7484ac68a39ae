// Elements.  Text is only ever set as text; there is no way in here to write markup.

import { plain } from "./text";
import { meaning } from "./words";

type Child = Node | string | null | undefined | false;

export function el<K extends keyof HTMLElementTagNameMap>(
	tag: K,
	attributes: Record<string, string | number | boolean | ((event: never) => void)> = {},
	...children: Child[]
): HTMLElementTagNameMap[K] {
	const element = document.createElement(tag);
	for (const [name, value] of Object.entries(attributes)) {
		if (typeof value === "function") element.addEventListener(name, value as EventListener);
		else if (value === true) element.setAttribute(name, "");
		else if (value !== false) element.setAttribute(name, String(value));
	}
	fill(element, ...children);
	return element;
}

export function fill(element: Element, ...children: Child[]): void {
	element.replaceChildren(
		...children
			.filter((c): c is Node | string => !!c)
			.map((c) => (typeof c === "string" ? document.createTextNode(c) : c)),
	);
}

export function button(
	label: string,
	action: () => void,
	attributes: Record<string, string> = {},
): HTMLButtonElement {
	return el("button", { type: "button", click: action, ...attributes }, label);
}

// A name from the file, as text in a code element.
export function code(name: string, limit?: number): HTMLElement {
	return el("code", {}, plain(name, limit));
}

// A word of ours says what it means to who points at it.
export function explained(name: string, title = meaning(name)): { title?: string } {
	return title ? { title } : {};
}

// Names and what is said of each.
export function definitions(rows: [string, Child][], attributes: Record<string, string> = {}): HTMLElement {
	return el(
		"dl",
		attributes,
		...rows.flatMap(([name, value]) => [el("dt", explained(name), name), el("dd", {}, value)]),
	);
}

// Work that waits until nothing has asked for it for a while.  As long as something waits, the page says so in
// data-waiting: who drives it need not guess.
export class Delay {
	private static waiting = 0;
	private timer = 0;

	constructor(
		private ms: number,
		private act: () => void,
	) {}

	get waits(): boolean {
		return this.timer !== 0;
	}

	start(): void {
		if (this.timer) clearTimeout(this.timer);
		else Delay.count(1);
		this.timer = window.setTimeout(() => this.now(), this.ms);
	}

	stop(): void {
		if (!this.timer) return;
		clearTimeout(this.timer);
		this.timer = 0;
		Delay.count(-1);
	}

	now(): void {
		try {
			this.act();
		} finally {
			this.stop();
		}
	}

	// Other work that is waited for.
	static async during<T>(work: () => Promise<T>): Promise<T> {
		Delay.count(1);
		try {
			return await work();
		} finally {
			Delay.count(-1);
		}
	}

	private static count(more: number): void {
		const before = Delay.waiting;
		Delay.waiting += more;
		// Each change of the root makes a browser look for styles that depend on it.
		if (!before !== !Delay.waiting) document.documentElement.dataset.waiting = Delay.waiting ? "1" : "0";
	}
}

// ---- tables ----

export interface ColumnOfTable<T> {
	name: string;
	number?: boolean;
	title?: string; // what its name means
	cell: (row: T) => Child;
	order?: (row: T) => number | string; // what it is sorted by; without it is not
}

const WINDOW_FROM = 160; // rows, of which only those that are seen are made
const AROUND = 12; // rows made beyond those
const ROW_HEIGHT = 23; // a guess, until one is there

interface TableOptions<T> {
	choose: ((row: T) => void) | undefined;
	chosen: ((row: T) => boolean) | undefined;
}

const windows = new Set<{ body: HTMLElement; update: () => void }>();

function update_windows(): void {
	for (const one of windows)
		if (one.body.isConnected) one.update();
		else windows.delete(one);
}
addEventListener("scroll", update_windows, { capture: true, passive: true });
addEventListener("resize", update_windows);

// The policy of the page allows no style attribute; a property of an element's style it does.
function tall(element: HTMLElement, pixels: number): HTMLElement {
	element.style.height = `${pixels}px`;
	return element;
}

export class Table<T> {
	readonly root: HTMLElement;
	private body = el("tbody");
	private order: T[];
	private heads: HTMLElement[];
	private sorted: { column: number; down: boolean } | null = null;
	private height = ROW_HEIGHT;
	private first = 0;
	private end = 0;

	constructor(
		caption: string,
		private columns: ColumnOfTable<T>[],
		private rows: T[],
		private options: TableOptions<T>,
	) {
		this.order = rows;
		this.heads = columns.map((c, i) => this.head(c, i));
		const table = el(
			"table",
			this.is_window ? { class: "window", "aria-rowcount": rows.length + 1 } : {},
			caption ? el("caption", {}, caption) : null,
			el("thead", {}, el("tr", {}, ...this.heads)),
			this.body,
		);
		this.root = el("div", { class: "scroll" }, table);
		this.make(0, this.is_window ? 60 : rows.length);
		if (!this.is_window) return;
		windows.add({ body: this.body, update: () => this.update() });
		requestAnimationFrame(() => this.update());
	}

	private get is_window(): boolean {
		return this.rows.length >= WINDOW_FROM;
	}

	private head(column: ColumnOfTable<T>, at: number): HTMLElement {
		const words = column.order
			? el("button", { type: "button", class: "sort", click: () => this.sort(at) }, column.name)
			: column.name;
		return el(
			"th",
			{
				scope: "col",
				...(column.number ? { class: "n" } : {}),
				...explained(column.name, column.title),
			},
			words,
		);
	}

	// Numbers begin with the largest, words with A.
	private sort(at: number): void {
		const again = this.sorted?.column === at;
		const down = again ? !this.sorted!.down : !!this.columns[at].number;
		this.sorted = { column: at, down };
		const of = this.columns[at].order!;
		const keys = this.rows.map(of);
		const place = this.rows.map((_, i) => i);
		const sign = down ? -1 : 1;
		place.sort((i, j) => (keys[i] < keys[j] ? -sign : keys[i] > keys[j] ? sign : i - j));
		this.order = place.map((i) => this.rows[i]);
		this.heads.forEach((head, i) => {
			if (i === at) head.setAttribute("aria-sort", down ? "descending" : "ascending");
			else head.removeAttribute("aria-sort");
		});
		this.make(this.first, this.end);
	}

	private update(): void {
		const { top } = this.body.getBoundingClientRect();
		const seen = Math.floor(-top / this.height) - AROUND;
		const first = Math.max(0, Math.min(this.rows.length - 1, seen));
		const end = Math.min(this.rows.length, first + Math.ceil(innerHeight / this.height) + 2 * AROUND);
		if (first < this.first || end > this.end || first > this.first + 4 * AROUND) this.make(first, end);
	}

	private make(first: number, end: number): void {
		this.first = first;
		this.end = Math.min(end, this.rows.length);
		const gap = (rows: number): HTMLElement | null =>
			rows > 0 ? tall(el("tr", { "aria-hidden": "true", class: "gap" }), rows * this.height) : null;
		const lines = this.order.slice(this.first, this.end).map((row, i) => this.line(row, this.first + i));
		fill(this.body, gap(this.first), ...lines, gap(this.rows.length - this.end));
		const [one] = lines;
		if (this.is_window && one?.offsetHeight) this.height = one.offsetHeight;
	}

	// Rows are marked anew, as `chosen` has them now.
	mark(): void {
		this.make(this.first, this.end);
	}

	// To the middle of what scrolls around the table, unless it is seen already; the page itself stays.
	reveal(row: T): void {
		const at = this.order.indexOf(row);
		let box = this.root.parentElement;
		while (box && !["auto", "scroll"].includes(getComputedStyle(box).overflowY)) box = box.parentElement;
		if (at < 0 || !box) return;
		const { top: from, bottom: to } = box.getBoundingClientRect();
		const room = 3 * this.height; // for what stays on top
		const top = () => at * this.height + this.body.getBoundingClientRect().top;
		if (top() >= from + room && top() + this.height <= to) return;
		// Once more with the height of rows that are there.
		for (let k = 0; k < 2; k++) {
			box.scrollTop += top() - (from + to) / 2;
			if (this.is_window) this.update();
		}
	}

	private line(row: T, at: number): HTMLTableRowElement {
		const { choose, chosen } = this.options;
		const cells = this.columns.map((c, i) => {
			const content = c.cell(row);
			const inner =
				choose && i === 0 ? el("button", { type: "button", class: "row" }, content) : content;
			return el("td", c.number ? { class: "n" } : {}, inner);
		});
		const line = el("tr", { ...(choose ? { class: "choice", click: () => choose(row) } : {}) }, ...cells);
		if (this.is_window) line.setAttribute("aria-rowindex", String(at + 2));
		if (chosen?.(row)) line.setAttribute("aria-current", "true");
		return line;
	}
}

// Sorted by a press on a column's name; of a long one only the rows that are seen are made.
export function table<T>(
	caption: string,
	columns: ColumnOfTable<T>[],
	rows: T[],
	choose?: (row: T) => void,
	chosen?: (row: T) => boolean,
): HTMLElement {
	return new Table(caption, columns, rows, { choose, chosen }).root;
}

// ---- parts of a screen ----

export type Keys = [keys: string, words: string][];

// The dialog that lists all keys and what pointers do.
export function keys_dialog(keys: Keys, pointers: Keys, words: Keys = []): HTMLDialogElement {
	const rows = (list: Keys) =>
		el(
			"div",
			{ class: "keys" },
			...list.map(([key, words]) => el("div", {}, el("span", {}, words), el("kbd", {}, key))),
		);
	const dialog = el(
		"dialog",
		{ "aria-label": "Keys" },
		el("h2", { tabindex: -1, autofocus: true }, "Keys"), // else it opens at its button, at the end
		rows(keys),
		el("h2", {}, "Pointer"),
		rows(pointers),
		words.length ? el("h2", {}, "Words") : null,
		words.length ? definitions(words, { class: "facts" }) : null,
		el(
			"div",
			{ class: "bar" },
			el("span", { class: "gap" }),
			button("Close", () => dialog.close()),
		),
	);
	return dialog;
}

// A list of choices with its name in front.
export function choice(
	name: string,
	options: { id: string; name: string }[],
	action: (id: string) => void,
): { root: HTMLElement; list: HTMLSelectElement } {
	const list = el(
		"select",
		{ "aria-label": name },
		...options.map((o) => el("option", { value: o.id }, o.name)),
	);
	list.addEventListener("change", () => action(list.value));
	return { root: el("label", { class: "choose" }, el("span", { class: "soft" }, name), list), list };
}

// What is dragged, or moved by arrows, to divide a screen.  `set` gets the pointer's way in pixels since the
// last call.
export function splitter(name: string, upright: boolean, set: (pixels: number) => void): HTMLElement {
	const bar = el("div", {
		class: `splitter ${upright ? "upright" : "level"} no-print`,
		role: "separator",
		tabindex: 0,
		"aria-orientation": upright ? "vertical" : "horizontal",
		"aria-label": name,
		"aria-valuenow": 50,
	});
	let at: number | null = null;
	const place = (event: PointerEvent) => (upright ? event.clientX : event.clientY);
	bar.addEventListener("pointerdown", (event) => {
		bar.setPointerCapture(event.pointerId);
		at = place(event);
		event.preventDefault();
	});
	bar.addEventListener("pointermove", (event) => {
		if (at === null) return;
		set(place(event) - at);
		at = place(event);
	});
	const end = () => (at = null);
	bar.addEventListener("pointerup", end);
	bar.addEventListener("pointercancel", end);
	bar.addEventListener("keydown", (event) => {
		const way = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
		if (!way) return;
		set(24 * way);
		event.preventDefault();
		event.stopPropagation();
	});
	return bar;
}

// Puts text where the reader can paste it from, and says so.
export function copy(label: string, text: () => string): HTMLButtonElement {
	const press = button(label, () => {
		const say = (words: string) => {
			press.textContent = words;
			setTimeout(() => (press.textContent = label), 1500);
		};
		// A page from a file may have no clipboard; an element that is selected can be copied anywhere.
		const by_hand = () => {
			const area = el("textarea", { class: "hidden", "aria-hidden": "true" });
			area.value = text();
			document.body.append(area);
			area.select();
			const done = document.execCommand("copy");
			area.remove();
			say(done ? "Copied" : "Not copied");
		};
		if (!navigator.clipboard) by_hand();
		else navigator.clipboard.writeText(text()).then(() => say("Copied"), by_hand);
	});
	return press;
}

// Gives the reader a file.
export function download(name: string, content: Blob): void {
	const url = URL.createObjectURL(content);
	const link = el("a", { href: url, download: name });
	document.body.append(link);
	link.click();
	link.remove();
	setTimeout(() => URL.revokeObjectURL(url), 60e3);
}

// ---- colours ----

const colours = new Map<string, string>();

// The value of a custom property as canvas wants it.
export function colour(name: string): string {
	let value = colours.get(name);
	if (value === undefined) {
		value = getComputedStyle(document.documentElement).getPropertyValue(name).trim() || "#888";
		colours.set(name, value);
	}
	return value;
}

// "#rrggbb" as a pixel of ImageData on the little-endian machines that browsers run on.
export function packed(hex: string): number {
	const rgb = parseInt(hex.slice(1), 16) || 0;
	return ((255 << 24) | ((rgb & 255) << 16) | (rgb & 0xff00) | (rgb >> 16)) >>> 0;
}

// Black or white, whichever is easier to read on a colour.
export function ink_on(back: string): string {
	const hexes = /^#(..)(..)(..)$/.exec(back);
	if (!hexes) return "#000";
	const [r, g, b] = hexes.slice(1).map((h) => {
		const part = parseInt(h, 16) / 255;
		return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
	});
	return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000000" : "#ffffff";
}

export function forget_colours(): void {
	colours.clear();
}

export function swatch(name: string, pattern: "" | "hatch" | "hatch back" = ""): HTMLElement {
	const mark = el("span", { class: `swatch ${pattern}`, "aria-hidden": "true" });
	if (pattern) mark.style.color = `var(${name})`;
	else mark.style.background = `var(${name})`;
	return mark;
}

// A canvas that follows its size on the page; `draw` gets a context in CSS pixels.
export class Picture {
	readonly canvas: HTMLCanvasElement;
	width = 0;
	height = 0;
	ratio = 1;
	private waiting = false;

	constructor(
		attributes: Record<string, string | number>,
		private draw: (context: CanvasRenderingContext2D, width: number, height: number) => void,
	) {
		this.canvas = el("canvas", attributes);
		new ResizeObserver(() => {
			const { clientWidth, clientHeight } = this.canvas;
			if (clientWidth !== this.width || clientHeight !== this.height) this.now();
		}).observe(this.canvas);
	}

	later(): void {
		if (this.waiting) return;
		this.waiting = true;
		requestAnimationFrame(() => {
			if (this.waiting) this.now();
		});
	}

	now(): void {
		this.waiting = false;
		this.width = this.canvas.clientWidth;
		this.height = this.canvas.clientHeight;
		if (!this.width || !this.height) return;
		this.ratio = Math.min(3, window.devicePixelRatio || 1);
		const wide = Math.round(this.width * this.ratio);
		const high = Math.round(this.height * this.ratio);
		if (this.canvas.width !== wide || this.canvas.height !== high) {
			this.canvas.width = wide;
			this.canvas.height = high;
		}
		const context = this.canvas.getContext("2d")!;
		context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
		context.clearRect(0, 0, this.width, this.height);
		context.font = FONT;
		this.draw(context, this.width, this.height);
	}
}

export const FONT = "12px system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";
export const FONT_SMALL = FONT.replace("12px", "11px");

// Text that is cut with an ellipsis where it does not fit.
export function fit(context: CanvasRenderingContext2D, text: string, width: number): string {
	if (width < 8) return "";
	if (context.measureText(text).width <= width) return text;
	let low = 0;
	let high = text.length;
	while (low < high) {
		const middle = (low + high + 1) >> 1;
		if (context.measureText(text.slice(0, middle) + "…").width <= width) low = middle;
		else high = middle - 1;
	}
	return low > 1 ? text.slice(0, low) + "…" : "";
}
