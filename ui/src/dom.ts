// Elements.  Text is only ever set as text; there is no way in here to write markup.

import { plain } from "./text";

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

export interface ColumnOfTable<T> {
	name: string;
	number?: boolean;
	cell: (row: T) => Child;
}

export function table<T>(
	caption: string,
	columns: ColumnOfTable<T>[],
	rows: T[],
	choose?: (row: T) => void,
	chosen?: (row: T) => boolean,
): HTMLElement {
	const head = el(
		"tr",
		{},
		...columns.map((c) => el("th", { scope: "col", ...(c.number ? { class: "n" } : {}) }, c.name)),
	);
	const body = rows.map((row) => {
		const cells = columns.map((c, i) => {
			const content = c.cell(row);
			const inner =
				choose && i === 0 ? el("button", { type: "button", class: "row" }, content) : content;
			return el("td", c.number ? { class: "n" } : {}, inner);
		});
		const line = el("tr", { ...(choose ? { class: "choice", click: () => choose(row) } : {}) }, ...cells);
		if (chosen?.(row)) line.setAttribute("aria-current", "true");
		return line;
	});
	return el(
		"div",
		{ class: "scroll" },
		el("table", {}, el("caption", {}, caption), el("thead", {}, head), el("tbody", {}, ...body)),
	);
}

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

export function forget_colours(): void {
	colours.clear();
}

export function swatch(name: string): HTMLElement {
	const mark = el("span", { class: "swatch", "aria-hidden": "true" });
	mark.style.background = `var(${name})`;
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
		new ResizeObserver(() => this.now()).observe(this.canvas);
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
