// What docs/page.md describes, as the viewer holds it: sections unpacked, columns as typed arrays.

import type { Report } from "./results";
import { plain } from "./text";

export type Column = Uint8Array | Uint16Array | Uint32Array | Float64Array;

interface ColumnEntry {
	at: number;
	rows: number;
	bytes: number;
	delta?: boolean;
	plus?: string;
	after?: string;
}

export type Measure = "requested" | "allocated" | "active" | "reserved";

export interface Head {
	format: string;
	version: string;
	title: string;
	events: number;
	plan: boolean; // no recording, but what one would be
	limit_bytes: number | null; // that the plan was to stay under
	report: Report;
	categories: { id: string; name: string }[];
	rules: { category: number; confidence_pct: number; text: string }[];
	phases: string[];
	streams: string[];
	pools: { name: string | null }[];
	strings: string[];
	show: ({
		moment: number | null;
		from: number | null;
		to: number | null;
		stack: number | null;
		frame: number | null;
	} | null)[];
	merged: string[];
	time_stride: number | null;
	columns: Record<string, ColumnEntry>;
}

const sextets = new Uint8Array(128);
for (let i = 0; i < 64; i++)
	sextets["ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".charCodeAt(i)] = i;

// Chromium 140, Firefox 133 and Safari 18.2 do it themselves, in a tenth of the time.
const native = (Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> })
	.fromBase64;

function from_base64(text: string): Uint8Array<ArrayBuffer> {
	if (native) return native.call(Uint8Array, text);
	const padding = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0;
	const out = new Uint8Array((text.length / 4) * 3 - padding);
	let at = 0;
	for (let i = 0; i < text.length; i += 4) {
		const word =
			(sextets[text.charCodeAt(i)] << 18) |
			(sextets[text.charCodeAt(i + 1)] << 12) |
			(sextets[text.charCodeAt(i + 2)] << 6) |
			sextets[text.charCodeAt(i + 3)];
		out[at++] = word >> 16;
		out[at++] = word >> 8;
		out[at++] = word;
	}
	return out;
}

// Where sections come from: this page, or the text of another one.
export type Sections = (id: string) => string | null;

export const sections_here: Sections = (id) => document.getElementById(id)?.textContent ?? null;

// Of a page's text, without making anything of it: what is between the tags is base64 alone.
export function sections_in(html: string): Sections {
	return (id) => {
		const tag = `<script type="application/octet-stream" id="${id}">`;
		const from = html.indexOf(tag);
		const to = html.indexOf("<", from + tag.length);
		return from < 0 || to < 0 ? null : html.slice(from + tag.length, to);
	};
}

export async function unpack(id: string, sections = sections_here): Promise<Uint8Array> {
	const text = sections(id);
	if (text === null) throw new Error(`this page lacks its section ${id}`);
	const packed = from_base64(/\s/.test(text) ? text.replace(/\s+/g, "") : text);
	const inflate = new DecompressionStream("deflate-raw");
	const writer = inflate.writable.getWriter();
	// What fails here fails below as well.
	void writer.write(packed).catch(() => undefined);
	void writer.close().catch(() => undefined);
	return new Uint8Array(await new Response(inflate.readable).arrayBuffer());
}

const WORD = 4; // bytes that numbers are put together from at once

// Planes of bytes, the lowest first, as words: in one pass, which is what opening a page mostly waits for.
function words(bytes: Uint8Array, at: number, rows: number, width: number): Uint32Array {
	const out = new Uint32Array(rows);
	const [a, b, c, d] = [0, 1, 2, 3].map((plane) => bytes.subarray(at + plane * rows));
	switch (width) {
		case 1:
			out.set(a.subarray(0, rows));
			break;
		case 2:
			for (let i = 0; i < rows; i++) out[i] = a[i] | (b[i] << 8);
			break;
		case 3:
			for (let i = 0; i < rows; i++) out[i] = a[i] | (b[i] << 8) | (c[i] << 16);
			break;
		default:
			for (let i = 0; i < rows; i++) out[i] = a[i] | (b[i] << 8) | (c[i] << 16) | (d[i] << 24);
	}
	return out;
}

function gather(bytes: Uint8Array, entry: ColumnEntry): Column {
	const { at, rows, bytes: width } = entry;
	if (at + rows * width > bytes.length)
		throw new Error("this page is cut off: a column lies beyond its end");
	if (width === 1 && !entry.delta && !entry.after && !entry.plus) return bytes.subarray(at, at + rows);
	const low = words(bytes, at, rows, Math.min(WORD, width));
	if (width <= WORD) {
		if (entry.delta) add_up(low, 2 ** (8 * width));
		return low;
	}
	const high = words(bytes, at + WORD * rows, rows, width - WORD);
	const out = new Float64Array(rows);
	for (let i = 0; i < rows; i++) out[i] = high[i] * 2 ** (8 * WORD) + low[i];
	if (entry.delta) add_up(out, 2 ** (8 * width));
	return out;
}

// From differences to values.
function add_up(out: Uint32Array | Float64Array, modulus: number): void {
	let value = 0;
	for (let i = 0; i < out.length; i++) {
		value += out[i];
		if (value >= modulus) value -= modulus;
		out[i] = value;
	}
}

function largest(column: Column): number {
	let most = 0;
	for (let i = 0; i < column.length; i++) if (column[i] > most) most = column[i];
	return most;
}

// A column relative to another may exceed its own width.
function relative(own: Column, base: Column, after: boolean): Column {
	const out = largest(own) + largest(base) < 2 ** (8 * WORD) ? own : Float64Array.from(own);
	if (after) for (let i = 0; i < out.length; i++) out[i] = out[i] ? base[i] + out[i] - 1 : 0;
	else for (let i = 0; i < out.length; i++) out[i] += base[i];
	return out;
}

const LONGEST = 4096;

// Every string of a page goes through here, so that no name can rearrange or flood what is shown.
export function clean(value: unknown): unknown {
	if (typeof value === "string") return plain(value, LONGEST);
	if (Array.isArray(value)) return value.map(clean);
	if (value !== null && typeof value === "object")
		return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, clean(inner)]));
	return value;
}

export class Page {
	private constructor(
		readonly head: Head,
		private bytes: Uint8Array,
		private done: Map<string, Column>,
	) {}

	static async head(at: number, sections = sections_here): Promise<Head> {
		const json = new TextDecoder().decode(await unpack(`plim-${at}-head`, sections));
		return clean(JSON.parse(json)) as Head;
	}

	static async open(at: number, sections = sections_here): Promise<Page> {
		const head = await Page.head(at, sections);
		if (head.format !== "page/2")
			throw new Error(`this page has the format ${head.format}, which its viewer does not know`);
		return new Page(head, await unpack(`plim-${at}-columns`, sections), new Map());
	}

	static count(sections = sections_here): number {
		let n = 0;
		while (sections(`plim-${n}-head`) !== null) n++;
		return n;
	}

	// Of a column that is missing all values are 0.
	column(name: string, rows = 0): Column {
		const known = this.done.get(name);
		if (known) return known;
		const entry = this.head.columns[name];
		let out: Column;
		if (!entry) out = new Uint8Array(rows);
		else {
			out = gather(this.bytes, entry);
			const base = entry.after ?? entry.plus;
			if (base) out = relative(out, this.column(base, entry.rows), entry.after !== undefined);
		}
		this.done.set(name, out);
		return out;
	}

	// Of a table ("allocs"): any of its columns may be missing.
	rows(table: string): number {
		let most = 0;
		for (const [name, entry] of Object.entries(this.head.columns))
			if (name.startsWith(table + ".")) most = Math.max(most, entry.rows);
		return most;
	}
}
