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
	recording: number; // the file: of several GPUs in one it is the same
	events: number;
	plan: boolean; // no recording, but what one would be
	limit_bytes: number | null; // that the plan was to stay under
	settings: {
		conf: string | null;
		expandable: boolean;
		max_split_bytes: number | null; // null: unlimited
		gc_threshold: number; // 0: off
		roundup_divisions: number[]; // from 1 MiB on by powers of two; 0 and 1: off
	} | null;
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
	read_here?: string; // of a packed recording: the command with which the program looks at it
	columns: Record<string, ColumnEntry>;
}

// What a recording is made of.
export interface Source {
	readonly head: Head;
	rows(table: string): number;
	column(name: string, rows?: number): Column;
	when_whole(act: () => void): void;
	complete(rest: () => Promise<void>): Promise<void>;
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

function packed_of(id: string, sections: Sections): Uint8Array<ArrayBuffer> {
	const text = sections(id);
	if (text === null) throw new Error(`this page lacks its section ${id}`);
	// The browser's own reader passes over white space by itself.
	return from_base64(!native && /\s/.test(text) ? text.replace(/\s+/g, "") : text);
}

function inflated(packed: Uint8Array<ArrayBuffer>): ReadableStream<Uint8Array> {
	const inflate = new DecompressionStream("deflate-raw");
	const writer = inflate.writable.getWriter();
	// In pieces: one is inflated when it is read for.  What fails here fails below as well.
	for (let at = 0; at < packed.length; at += PIECE)
		void writer.write(packed.subarray(at, at + PIECE)).catch(() => undefined);
	void writer.close().catch(() => undefined);
	return inflate.readable;
}

export async function unpack(id: string, sections = sections_here): Promise<Uint8Array> {
	return new Uint8Array(await new Response(inflated(packed_of(id, sections))).arrayBuffer());
}

const PIECE = 1 << 16;
const RESTS = 1 << 21; // bytes, after which the browser may answer and paint

// A section of a known length, of which the beginning can be used before the rest is unpacked.
class Unpacking {
	have = 0;
	private reader: ReadableStreamDefaultReader<Uint8Array>;

	constructor(
		id: string,
		sections: Sections,
		readonly bytes: Uint8Array,
	) {
		this.reader = inflated(packed_of(id, sections)).getReader();
	}

	async until(wanted: number, rest: () => Promise<void>): Promise<void> {
		let rested = this.have;
		while (this.have < wanted) {
			const { value } = await this.reader.read();
			if (!value) return; // it ends before: its columns will say so
			const room = Math.min(value.length, this.bytes.length - this.have);
			this.bytes.set(value.subarray(0, room), this.have);
			this.have += room;
			if (this.have - rested < RESTS) continue;
			rested = this.have;
			await rest();
		}
	}
}

const WORD = 4; // bytes that numbers are put together from at once

// Planes of bytes, the lowest first, as words.  Each width has a function of its own, so that the browser
// compiles each for one purpose: it is what opening a page mostly waits for.
type Planes = [Uint8Array, Uint8Array, Uint8Array, Uint8Array];
const put_together: ((out: Uint32Array, planes: Planes) => void)[] = [
	(out, [a]) => out.set(a),
	(out, [a, b]) => {
		for (let i = 0; i < out.length; i++) out[i] = a[i] | (b[i] << 8);
	},
	(out, [a, b, c]) => {
		for (let i = 0; i < out.length; i++) out[i] = a[i] | (b[i] << 8) | (c[i] << 16);
	},
	(out, [a, b, c, d]) => {
		for (let i = 0; i < out.length; i++) out[i] = a[i] | (b[i] << 8) | (c[i] << 16) | (d[i] << 24);
	},
];

function words(bytes: Uint8Array, at: number, rows: number, width: number): Uint32Array {
	const out = new Uint32Array(rows);
	const plane = (p: number) =>
		p < width ? bytes.subarray(at + p * rows, at + (p + 1) * rows) : bytes.subarray(0, 0);
	put_together[width - 1](out, [plane(0), plane(1), plane(2), plane(3)]);
	return out;
}

// From differences to values, of at most 4 bytes and of more.
function add_up_words(out: Uint32Array, width: number): void {
	const mask = width === WORD ? -1 : (1 << (8 * width)) - 1;
	let value = 0;
	for (let i = 0; i < out.length; i++) out[i] = value = (value + out[i]) & mask;
}

function add_up(out: Float64Array, modulus: number): void {
	let value = 0;
	for (let i = 0; i < out.length; i++) {
		value += out[i];
		if (value >= modulus) value -= modulus;
		out[i] = value;
	}
}

function gather(bytes: Uint8Array, entry: ColumnEntry): Column {
	const { at, rows, bytes: width } = entry;
	if (!width || (width === 1 && !entry.delta && !entry.after && !entry.plus))
		return bytes.subarray(at, at + rows * width);
	const low = words(bytes, at, rows, Math.min(WORD, width));
	if (width <= WORD) {
		if (entry.delta) add_up_words(low, width);
		return low;
	}
	const high = words(bytes, at + WORD * rows, rows, width - WORD);
	const out = new Float64Array(rows);
	for (let i = 0; i < rows; i++) out[i] = high[i] * 2 ** (8 * WORD) + low[i];
	if (entry.delta) add_up(out, 2 ** (8 * width));
	return out;
}

function plus(out: Column, own: Column, base: Column): number {
	let most = 0;
	for (let i = 0; i < own.length; i++) {
		const value = own[i] + base[i];
		if (value > most) most = value;
		out[i] = value;
	}
	return most;
}

function after(out: Column, own: Column, base: Column): number {
	let most = 0;
	for (let i = 0; i < own.length; i++) {
		const value = own[i] ? base[i] + own[i] - 1 : 0;
		if (value > most) most = value;
		out[i] = value;
	}
	return most;
}

// A column relative to another may exceed its own width.
function relative(own: Column, base: Column, add: typeof plus): Column {
	const out = new Uint32Array(own.length);
	if (add(out, own, base) < 2 ** (8 * WORD)) return out;
	const wide = new Float64Array(own.length);
	add(wide, own, base);
	return wide;
}

const LONGEST = 4096;

// Every string of a page goes through here, so that no name can rearrange or flood what is shown.
export function clean(value: unknown): unknown {
	if (typeof value === "string") return plain(value, LONGEST);
	if (value === null || typeof value !== "object") return value;
	const of = value as Record<string, unknown>;
	for (const key of Object.keys(of)) {
		const inner = of[key];
		if (typeof inner === "string" || (inner !== null && typeof inner === "object"))
			of[key] = clean(inner);
	}
	return value;
}

const end_of = (entry: ColumnEntry) => entry.at + entry.rows * entry.bytes;

// No picture shows these at first.
const LATE = ["allocs.addr", "allocs.done"];

export class Page implements Source {
	private done = new Map<string, Column>();
	private waiting: (() => void)[] = [];
	whole = false; // or only what is not LATE

	private constructor(
		readonly head: Head,
		private columns: Unpacking,
	) {}

	static async head(at: number, sections = sections_here): Promise<Head> {
		const json = new TextDecoder().decode(await unpack(`plim-${at}-head`, sections));
		return clean(JSON.parse(json)) as Head;
	}

	static async open(at: number, rest: () => Promise<void>, sections = sections_here): Promise<Page> {
		const head = await Page.head(at, sections);
		if (head.format !== "page/2")
			throw new Error(`this page has the format ${head.format}, which its viewer does not know`);
		const entries = Object.entries(head.columns);
		const length = (list: [string, ColumnEntry][]) =>
			list.reduce((n, [, e]) => Math.max(n, end_of(e)), 0);
		const bytes = new Uint8Array(length(entries));
		const page = new Page(head, new Unpacking(`plim-${at}-columns`, sections, bytes));
		await page.columns.until(length(entries.filter(([name]) => !LATE.includes(name))), rest);
		page.whole = page.columns.have === bytes.length;
		return page;
	}

	// All of it; then what waited for it is done.
	async complete(rest: () => Promise<void>): Promise<void> {
		const { columns } = this;
		await columns.until(columns.bytes.length, rest);
		this.whole = true;
		for (const act of this.waiting.splice(0)) act();
	}

	// At once, or as soon as all is there.
	when_whole(act: () => void): void {
		if (this.whole) act();
		else this.waiting.push(act);
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
			if (end_of(entry) > this.columns.have)
				throw new Error("this page is cut off: a column lies beyond its end");
			out = gather(this.columns.bytes, entry);
			const base = entry.after ?? entry.plus;
			if (base) out = relative(out, this.column(base, entry.rows), entry.after ? after : plus);
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
