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
	const plain = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
	return new Uint8Array(await new Response(plain).arrayBuffer());
}

function gather(bytes: Uint8Array, entry: ColumnEntry): Column {
	const { at, rows, bytes: width } = entry;
	if (at + rows * width > bytes.length)
		throw new Error("this page is cut off: a column lies beyond its end");
	if (width === 1 && !entry.delta && !entry.after && !entry.plus) return bytes.subarray(at, at + rows);
	const out = width <= 4 ? new Uint32Array(rows) : new Float64Array(rows);
	for (let plane = width - 1, top = 1; plane >= 0; plane--, top = 0) {
		const from = at + plane * rows;
		if (top) for (let i = 0; i < rows; i++) out[i] = bytes[from + i];
		else for (let i = 0; i < rows; i++) out[i] = out[i] * 256 + bytes[from + i];
	}
	if (entry.delta) {
		const modulus = 2 ** (8 * width);
		let value = 0;
		for (let i = 0; i < rows; i++) {
			value += out[i];
			if (value >= modulus) value -= modulus;
			out[i] = value;
		}
	}
	return out;
}

// A column relative to another may exceed its own width.
function relative(own: Column, base: Column, after: boolean): Column {
	const out =
		base instanceof Float64Array || own instanceof Float64Array
			? new Float64Array(own.length)
			: new Uint32Array(own.length);
	for (let i = 0; i < own.length; i++)
		out[i] = after ? (own[i] ? base[i] + own[i] - 1 : 0) : base[i] + own[i];
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
		let out: Column = new Uint8Array(rows);
		if (entry) {
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
