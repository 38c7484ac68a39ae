// A file that was dropped: what it is, by its first bytes, and the recordings in it.

import { type Source, Page, type Sections, sections_in } from "./page";
import { Damaged, is_plim, read_plim } from "./plim";
import { recorded, shell_word } from "./recorded";
import * as text from "./text";

const MOST = 2 ** 30; // bytes, as stored and unpacked
const KNOWN = 16; // bytes that tell what a file is

// Why a file cannot be shown, and the command that helps.
export class Unusable extends Error {
	constructor(
		words: string,
		readonly command: string | null = null,
	) {
		super(words);
	}
}

const begins = (bytes: Uint8Array, ...with_these: number[]) => with_these.every((n, i) => bytes[i] === n);

const packings: [string, number[]][] = [
	["xz", [0xfd, 0x37, 0x7a, 0x58, 0x5a]],
	["zstd", [0x28, 0xb5, 0x2f, 0xfd]],
	["bzip2", [0x42, 0x5a, 0x68]],
	["zip", [0x50, 0x4b, 3, 4]],
];

// All of a gzip file; of one that unpacks to more than there may be, nothing.
async function gunzipped(file: Blob): Promise<Uint8Array> {
	const reader = file.stream().pipeThrough(new DecompressionStream("gzip")).getReader();
	const parts: Uint8Array<ArrayBuffer>[] = [];
	let n = 0;
	try {
		for (;;) {
			const { value } = await reader.read();
			if (!value) break;
			parts.push(value);
			n += value.length;
			if (n > MOST)
				throw new Unusable("it unpacks to more than 1 GiB, which is more than a browser should hold");
		}
	} catch (why) {
		void reader.cancel().catch(() => undefined);
		throw why instanceof Unusable
			? why
			: new Unusable(`its gzip data is cut off or damaged, after ${text.count(n)} bytes`);
	}
	return new Uint8Array(await new Blob(parts).arrayBuffer());
}

async function sources_of(
	bytes: Uint8Array,
	name: string,
	at: number,
	rest: () => Promise<void>,
): Promise<Source[]> {
	try {
		const found = recorded(await read_plim(bytes, rest), name, at);
		if (!found.length) throw new Unusable("it holds no recording");
		return found;
	} catch (why) {
		if (why instanceof Damaged) throw new Unusable(`it is damaged or cut off: ${why.message}`);
		throw why;
	}
}

async function pages_of(sections: Sections, rest: () => Promise<void>): Promise<Source[]> {
	const n = Page.count(sections);
	if (!n) throw new Unusable("it holds no recording");
	const out: Source[] = [];
	for (let i = 0; i < n; i++) out.push(await Page.open(i, rest, sections));
	return out;
}

// `at`: the number of the next recording.
export async function open_file(file: File, at: number, rest: () => Promise<void>): Promise<Source[]> {
	const pack = (why: string) => new Unusable(why, `plimsoll pack ${shell_word(file.name)}`);
	if (!file.size) throw new Unusable("it is empty");
	let start = new Uint8Array(await file.slice(0, KNOWN).arrayBuffer());
	let whole: Uint8Array | null = null;
	const too_large = () =>
		new Unusable(
			`it has ${text.bytes(file.size)}, and a browser reads 1 GiB at most`,
			`plimsoll report ${shell_word(file.name)} -o page.html`,
		);
	if (begins(start, 0x1f, 0x8b)) {
		if (file.size > MOST) throw too_large();
		whole = await gunzipped(file);
		start = whole.slice(0, KNOWN);
	}
	if (is_plim(start)) {
		if (file.size > MOST) throw too_large();
		return sources_of(whole ?? new Uint8Array(await file.arrayBuffer()), file.name, at, rest);
	}
	if (begins(start, 0x80) && start[1] >= 2 && start[1] <= 5)
		throw pack(
			"it is a pickle, which only a program should unpack. This packs it to a file that can be dropped here:",
		);
	const packed = packings.find(([, bytes]) => begins(start, ...bytes));
	if (packed)
		throw pack(
			`it is packed with ${packed[0]}, which a browser does not unpack. This makes a file that can be dropped here:`,
		);
	const head = new TextDecoder().decode(start).trimStart().toLowerCase();
	if (!head.startsWith("<!doctype html"))
		throw new Unusable("it is neither a packed recording (.plim) nor a page of plimsoll");
	if (file.size > MOST) throw too_large();
	return pages_of(sections_in(whole ? new TextDecoder().decode(whole) : await file.text()), rest);
}
