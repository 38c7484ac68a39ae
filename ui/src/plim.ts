// A packed recording (.plim), read as docs/packed.md says: each sum and each bound is checked.

import { decompress } from "fzstd";
import { xxh3 } from "./xxh3";

const COLUMNS = 41;
const TIME = 30;
const CHUNKS_MOST = 65;
const PLAIN_MOST = 2 ** 30; // bytes that a browser is asked for at once
const STACKED_MOST = 2 ** 27; // frames of all stacks
const EVENTS_MOST = 2 ** 28;
const NAMED = 128; // kinds of chunks from here on may be passed over

export const [ALLOC, REQUESTED, COMPLETED, SEGMENT_ALLOC, SEGMENT_FREE, SEGMENT_MAP, SEGMENT_UNMAP, OOM] = [
	0, 1, 2, 3, 4, 5, 6, 7,
];
const ACTIONS = 11;
export const INACTIVE = 2; // state of a block

// What is wrong with a file, in a few words.
export class Damaged extends Error {}

function need(ok: boolean, what: string): asserts ok {
	if (!ok) throw new Damaged(what);
}

// Products of 64 bits, as two halves: what was asked for last.
let high = 0;
let low = 0;

function multiply(ah: number, al: number, bh: number, bl: number): void {
	const [a0, a1, b0, b1] = [al & 0xffff, al >>> 16, bl & 0xffff, bl >>> 16];
	const middle = a1 * b0 + ((a0 * b0) >>> 16);
	const other = a0 * b1 + (middle & 0xffff);
	const carried = a1 * b1 + Math.floor(middle / 65536) + Math.floor(other / 65536);
	low = Math.imul(al, bl) >>> 0;
	high = (carried + Math.imul(ah, bl) + Math.imul(al, bh)) >>> 0;
}

const HALF = 2 ** 32;
const M1 = [0x9e3779b9, 0x7f4a7c15] as const;
const M2 = [0xbf58476d, 0x1ce4e5b9] as const;
const M3 = [0x94d049bb, 0x133111eb] as const;
const upper = (n: number) => Math.floor(n / HALF) >>> 0;
const lower = (n: number) => n % HALF >>> 0;

function times(n: number, by: readonly [number, number]): void {
	multiply(upper(n), lower(n), by[0], by[1]);
}

function add(h: number, l: number): void {
	const sum = low + l;
	low = sum >>> 0;
	high = (high + h + (sum >= HALF ? 1 : 0)) >>> 0;
}

class Numbers {
	at = 0;

	constructor(readonly data: Uint8Array) {}

	big(): bigint {
		let value = 0n;
		for (let shift = 0n; ; shift += 7n) {
			need(this.at < this.data.length && shift < 70n, "a column ends early");
			const byte = this.data[this.at++];
			value |= BigInt(byte & 127) << shift;
			if (byte < 128) {
				need(value < 1n << 64n, "a number has more than 64 bits");
				return value;
			}
		}
	}

	next(): number {
		let value = 0;
		for (let times = 1; ; times *= 128) {
			need(this.at < this.data.length, "a column ends early");
			const byte = this.data[this.at++];
			value += (byte & 127) * times;
			need(value <= Number.MAX_SAFE_INTEGER, "a number has more than 53 bits");
			if (byte < 128) return value;
		}
	}

	below(limit: number): number {
		const value = this.next();
		need(value < limit, "a number is too large");
		return value;
	}

	zigzag(): number {
		const start = this.at;
		let n = 0;
		for (let times = 1; times < 2 ** 49; times *= 128) {
			need(this.at < this.data.length, "a column ends early");
			const byte = this.data[this.at++];
			n += (byte & 127) * times;
			if (byte < 128) return n % 2 ? -(n + 1) / 2 : n / 2;
		}
		this.at = start;
		return this.far_zigzag();
	}

	private far_zigzag(): number {
		const value = this.big();
		const n = Number(value >> 1n);
		return value & 1n ? -n - 1 : n;
	}

	take(n: number): Uint8Array {
		need(n <= this.data.length - this.at, "it ends early");
		this.at += n;
		return this.data.subarray(this.at - n, this.at);
	}

	time(now: number): number {
		const code = this.next();
		return code ? now + code - 1 : now - this.next();
	}
}

export interface PlimEvents {
	count: number;
	action: Uint8Array;
	addr: Float64Array;
	size: Float64Array;
	time: Float64Array;
	stack: Int32Array; // 1 + index; 0: none
	stream: Uint32Array;
	pool: Uint32Array;
	labels: { row: number; is_context: boolean; text: string }[];
	dropped: number;
}

export interface PlimBlock {
	addr: number;
	bytes: number;
	requested: number;
	state: number;
	stack: number; // 1 + index
}

export interface PlimSegment {
	device: number;
	large: boolean;
	expandable: boolean;
	stream: number;
	pool: number;
	stack: number;
	addr: number;
	bytes: number;
	blocks: PlimBlock[];
}

const text_of = (bytes: Uint8Array) => new TextDecoder().decode(bytes);

// One chunk: the tables in their order.
export class Part {
	columns: Numbers[];
	texts: string[] = [];
	frames: { name: string; file: string; line: number }[] = []; // line -1: not known
	stacks: Uint32Array[] = []; // innermost first
	streams: bigint[];
	pools: [bigint, bigint][];
	conf: string | null = null;
	annotations: { time: number; device: number; end: boolean; name: string }[] = [];
	devices: PlimEvents[];
	segments: PlimSegment[];
	has_time: boolean;
	has_pool: boolean;
	private next_text = 0;
	private next_stack = 0;

	constructor(plain: Uint8Array) {
		const head = new Numbers(plain);
		need(head.next() === COLUMNS, "it has columns that are not known here");
		const sizes = Array.from({ length: COLUMNS }, () => head.next());
		this.columns = sizes.map((size) => new Numbers(head.take(size)));
		need(head.at === plain.length, "its columns have another length");
		const numbers = this.columns[0];
		const flags = numbers.below(1024);
		this.has_time = (flags & 1) !== 0;
		this.has_pool = (flags & 512) !== 0;
		const devices = numbers.below(1025);
		const many = <T>(of: () => T): T[] => {
			const out: T[] = [];
			for (let n = numbers.below(PLAIN_MOST); n > 0; n--) out.push(of());
			return out;
		};
		this.texts = many(() => text_of(this.columns[2].take(this.columns[1].next())));
		this.frames = many(() => ({
			name: this.text(3) ?? "",
			file: this.text(4) ?? "",
			line: this.columns[5].next() - 1,
		}));
		this.read_stacks(numbers.below(PLAIN_MOST));
		this.streams = many(() => this.signed());
		this.pools = [[0n, 0n], ...many((): [bigint, bigint] => [this.signed(), this.signed()])];
		if (numbers.below(2)) this.read_settings();
		this.text(0); // the program's files
		many(() => [this.text(0), numbers.below(6), numbers.next()]); // notes
		let now = 0;
		this.annotations = many(() => {
			const edge = numbers.below(1 << 17);
			now = this.columns[15].time(now);
			return { time: now, device: edge >> 1, end: (edge & 1) !== 0, name: this.text(16) ?? "" };
		});
		this.devices = Array.from({ length: devices }, () => this.read_device());
		this.segments = this.read_segments(numbers.below(PLAIN_MOST), devices);
		need(
			this.columns.every((c) => c.at === c.data.length),
			"a column goes on behind its end",
		);
	}

	private signed(): bigint {
		const value = this.columns[0].big();
		return value & 1n ? -(value >> 1n) - 1n : value >> 1n;
	}

	private text(column: number): string | null {
		const code = this.columns[column].next();
		if (!code) return null;
		const number = code === 1 ? this.next_text : code - 2;
		need(number < this.texts.length, "it names a text that is not there");
		this.next_text = Math.max(this.next_text, number + 1);
		return this.texts[number];
	}

	stack(column: number): number {
		const code = this.columns[column].next();
		if (!code) return 0;
		const number = code === 1 ? this.next_stack : code - 2;
		need(number < this.stacks.length, "it names a stack that is not there");
		this.next_stack = Math.max(this.next_stack, number + 1);
		return number + 1;
	}

	private read_stacks(count: number): void {
		const called = new Int32Array(this.frames.length + 1).fill(-1);
		let before: number[] = [];
		let following = 0;
		let held = 0;
		for (let s = 0; s < count; s++) {
			before.length -= this.columns[6].below(before.length + 1);
			for (let n = this.columns[7].next(); n > 0; n--) {
				const caller = before.length ? before[before.length - 1] + 1 : 0;
				const code = this.columns[8].next();
				const frame = code === 0 ? called[caller] : code === 1 ? following : code - 2;
				need(frame >= 0 && frame < this.frames.length, "it names a frame that is not there");
				following = Math.max(following, frame + 1);
				called[caller] = frame;
				before.push(frame);
			}
			held += before.length;
			need(held <= STACKED_MOST, "its stacks are too long");
			this.stacks.push(Uint32Array.from(before).reverse());
			before = before.slice();
		}
	}

	// Only PYTORCH_CUDA_ALLOC_CONF is of use here.
	private read_settings(): void {
		const numbers = this.columns[0];
		for (let k = 0; k < 4; k++) numbers.below(2);
		this.conf = this.text(0);
		numbers.big();
		numbers.big();
		for (let k = 0; k < 16; k++) numbers.next();
		for (let n = numbers.below(PLAIN_MOST); n > 0; n--) {
			if (numbers.below(11) === 5) this.text(0);
			else numbers.big();
		}
	}

	private read_device(): PlimEvents {
		const numbers = this.columns[0];
		const count = numbers.below(EVENTS_MOST);
		const dropped = numbers.next();
		const { data, at } = this.columns[19];
		need(count <= data.length - at, "it has fewer events than it says");
		const events = new Events(this, count).read(dropped);
		let before = 0;
		for (let n = numbers.below(PLAIN_MOST); n > 0; n--) {
			const row = before + this.columns[17].zigzag();
			before = row % 2 ? row : row + 1;
			const text = this.text(18);
			need(row >= 0 && row < 2 * count && text !== null, "it labels an event that is not there");
			events.labels.push({ row: Math.floor(row / 2), is_context: row % 2 === 1, text });
		}
		return events;
	}

	private read_segments(count: number, devices: number): PlimSegment[] {
		const c = this.columns;
		const out: PlimSegment[] = [];
		let at = 0;
		for (let s = 0; s < count; s++) {
			const device = c[9].below(devices);
			const kind = c[9].below(4);
			const stream = c[9].below(this.streams.length);
			const pool = c[9].below(this.pools.length);
			const stack = this.stack(14);
			const addr = (at += c[10].zigzag());
			const bytes = c[9].next();
			for (let k = 0; k < 3; k++) c[9].zigzag();
			const blocks: PlimBlock[] = [];
			for (let n = c[9].next(); n > 0; n--) {
				const code = c[11].below(8);
				if (code & 4) at += c[10].zigzag();
				const size = c[12].next();
				need((code & 3) < 3, "a block has no known state");
				const requested = size + c[13].zigzag();
				blocks.push({ addr: at, bytes: size, requested, state: code & 3, stack: this.stack(14) });
				at += size;
			}
			out.push({
				device,
				large: (kind & 1) !== 0,
				expandable: (kind & 2) !== 0,
				stream,
				pool,
				stack,
				addr,
				bytes,
				blocks,
			});
		}
		return out;
	}
}

const rounded = (size: number) => 512 * Math.ceil(size / 512);

// The events of a device: what a program does again is known by what it did after the same steps before.
class Events {
	private bits = 8;
	private sites_after: Uint32Array;
	private sizes_after: Float64Array;
	private addresses_after: Float64Array;
	private freed: Float64Array;
	private ends_after: [Float64Array, Float64Array];
	private site_of: number[] = []; // action, stack, stream, pool, 1 + the one that followed, last size of each
	private history = [0, 0];
	private last_site = 0;
	private last_size = 0;
	private unknown = 0;
	private sizes = [0, 0];
	private distances = [0, 0];
	private last_address = new Float64Array(ACTIONS);
	private born = 1; // allocations so far, from 1
	private born_addr: Float64Array;
	private born_size: Float64Array;
	private older: Int32Array; // of those that live: the one that was born before, and after
	private younger: Int32Array;
	private youngest = 0;
	private requested = 0;

	constructor(
		private part: Part,
		private count: number,
	) {
		while (this.bits < 18 && 2 ** this.bits < Math.floor(count / 2)) this.bits++;
		const places = 2 ** this.bits;
		this.sites_after = new Uint32Array(places);
		this.sizes_after = new Float64Array(places);
		this.addresses_after = new Float64Array(places);
		this.freed = new Float64Array(places);
		this.ends_after = [new Float64Array(places), new Float64Array(places)];
		this.born_addr = new Float64Array(count + 2);
		this.born_size = new Float64Array(count + 2);
		this.older = new Int32Array(count + 2).fill(-1); // -1: does not live
		this.younger = new Int32Array(count + 2);
	}

	read(dropped: number): PlimEvents {
		const { count } = this;
		const out: PlimEvents = {
			count,
			action: new Uint8Array(count),
			addr: new Float64Array(count),
			size: new Float64Array(count),
			time: new Float64Array(count),
			stack: new Int32Array(count),
			stream: new Uint32Array(count),
			pool: new Uint32Array(count),
			labels: [],
			dropped,
		};
		let now = 0;
		for (let e = 0; e < count; e++) {
			const number = this.site();
			const s = 6 * number;
			const action = (out.action[e] = this.site_of[s]);
			out.stack[e] = this.site_of[s + 1];
			const stream = (out.stream[e] = this.site_of[s + 2]);
			out.pool[e] = this.site_of[s + 3];
			if (this.part.has_time) now = this.part.columns[TIME + action].time(now);
			out.time[e] = now;
			if (action === REQUESTED || action === COMPLETED) {
				this.end(number, action === COMPLETED, stream, out, e);
				continue;
			}
			const size = (out.size[e] = this.size(number));
			const addr = (out.addr[e] = this.address(number, size));
			need(addr >= 0 && addr <= Number.MAX_SAFE_INTEGER, "an address has more than 53 bits");
			if (action === ALLOC) this.bear(addr, size);
		}
		return out;
	}

	private bear(addr: number, size: number): void {
		const { born } = this;
		this.born_addr[born] = addr;
		this.born_size[born] = size;
		this.older[born] = this.youngest;
		if (this.youngest) this.younger[this.youngest] = born;
		this.youngest = born;
		this.last_size = size;
		this.born++;
	}

	private bury(which: number): void {
		const older = this.older[which];
		const younger = this.younger[which];
		if (younger) this.older[younger] = older;
		else this.youngest = older;
		if (older) this.younger[older] = younger;
		this.older[which] = -1;
	}

	// Of the product that was asked for last, and what was added to it.
	private place(): number {
		const mixed_low = (low ^ ((low >>> 29) | (high << 3))) >>> 0;
		const mixed_high = (high ^ (high >>> 29)) >>> 0;
		multiply(mixed_high, mixed_low, M2[0], M2[1]);
		return high >>> (32 - this.bits);
	}

	private site(): number {
		const { site_of, part } = this;
		const c = part.columns;
		[high, low] = this.history;
		const place = this.place();
		const code = c[19].next();
		const known = site_of.length / 6;
		const number =
			code === 0
				? this.sites_after[place] - 1
				: code === 1
					? known
						? site_of[6 * this.last_site + 4] - 1
						: -1
					: code - 2;
		need(number >= 0 && number < known + (code > 1 ? 1 : 0), "a site was never before");
		if (number === known)
			site_of.push(
				c[20].below(ACTIONS),
				part.stack(21),
				c[22].below(part.streams.length),
				c[23].below(part.pools.length),
				0,
				0,
			);
		this.sites_after[place] = number + 1;
		site_of[6 * this.last_site + 4] = number + 1;
		const [h, l] = this.history;
		multiply(((h << 16) | (l >>> 16)) >>> 0, (l << 16) >>> 0, M3[0], M3[1]);
		add(0, number + 1);
		this.history = [high, low];
		this.last_site = number;
		return number;
	}

	private size(number: number): number {
		const [one, two] = this.sizes;
		times(two, M3);
		const [h, l] = [
			(high ^ upper(Math.floor(two / 128))) >>> 0,
			(low ^ lower(Math.floor(two / 128))) >>> 0,
		];
		times(one, M1);
		add(h, l);
		add(0, number + 1);
		const place = this.place();
		const c = this.part.columns;
		const code = c[24].next();
		const size =
			code === 0
				? this.sizes_after[place]
				: code === 1
					? this.site_of[6 * number + 5]
					: code === 2
						? c[29].next()
						: code - 3;
		this.sizes_after[place] = this.site_of[6 * number + 5] = size;
		this.sizes = [size, one];
		return size;
	}

	private place_of_freed(size: number, stream: number): number {
		times(rounded(size), M1);
		add(0, stream);
		return this.place();
	}

	private address(number: number, size: number): number {
		const action = this.site_of[6 * number];
		const last = this.last_address[action];
		times(number, M3);
		const [h, l] = [high, low];
		times(size, M1);
		add(h, l);
		add(upper(last), lower(last));
		const place = this.place();
		const c = this.part.columns;
		const code = c[25].next();
		let addr: number;
		if (code === 0) addr = this.addresses_after[place];
		else if (code === 1) addr = this.freed[this.place_of_freed(size, this.site_of[6 * number + 2])];
		else if (code === 2) addr = last + rounded(this.last_size);
		else if (code === 3) addr = this.last_address[SEGMENT_ALLOC];
		else if (code === 4) addr = last + c[28].zigzag();
		else {
			const difference = code - 5;
			addr = last + 512 * (difference % 2 ? -(difference + 1) / 2 : difference / 2);
		}
		this.addresses_after[place] = this.last_address[action] = addr;
		return addr;
	}

	private end(number: number, done: boolean, stream: number, out: PlimEvents, e: number): void {
		const [one, two] = this.distances;
		const table = this.ends_after[done ? 1 : 0];
		times(two, M3);
		const [h, l] = [high, low];
		times(one, M1);
		add(h, l);
		add(0, number + 1);
		const place = this.place();
		const c = this.part.columns;
		const code = c[done ? 27 : 26].next();
		if (code === 33) {
			out.addr[e] = this.unknown += c[28].zigzag();
			out.size[e] = c[29].next();
			need(
				this.unknown >= 0 && this.unknown <= Number.MAX_SAFE_INTEGER,
				"an address has more than 53 bits",
			);
			return;
		}
		const lives = (which: number) => which > 0 && which < this.born && this.older[which] >= 0;
		let which = 0;
		if (code === 0) {
			if (done && lives(this.requested)) which = this.requested;
			else if (table[place]) which = this.born - table[place];
		} else if (code >= 34) which = this.born - (code - 34);
		else {
			which = this.youngest;
			for (let k = 1; k < code && which; k++) which = this.older[which];
		}
		need(lives(which), "what ends does not live");
		const distance = (table[place] = this.born - which);
		const addr = (out.addr[e] = this.born_addr[which]);
		const size = (out.size[e] = this.born_size[which]);
		if (done) {
			this.bury(which);
			this.freed[this.place_of_freed(size, stream)] = addr;
		} else {
			this.distances = [distance, one];
			this.requested = which;
		}
	}
}

const MAGIC = "PLIM\x89\r\n\x1a";

export function is_plim(bytes: Uint8Array): boolean {
	return bytes.length >= MAGIC.length && [...MAGIC].every((c, i) => bytes[i] === c.charCodeAt(0));
}

export function unpacked(frame: Uint8Array, size: number): Uint8Array {
	try {
		return decompress(frame, new Uint8Array(size));
	} catch {
		throw new Damaged("a chunk cannot be unpacked");
	}
}

// The chunks that hold a recording.
export async function read_plim(data: Uint8Array, rest: () => Promise<void>): Promise<Part[]> {
	const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
	const where = (at: number) => `at byte ${at}`;
	need(data.length > 25, "it ends early");
	const major = view.getUint16(8, true);
	need(major === 1, `it has the version ${major}, which this viewer does not know`);
	const file = new Numbers(data);
	file.at = 16;
	const found: Part[] = [];
	for (;;) {
		const start = file.at;
		const [kind] = file.take(1);
		if (!kind) break;
		try {
			const packed = file.next();
			const plain = file.next();
			need(plain <= PLAIN_MOST, "a chunk is larger than 1 GiB: `plimsoll report` reads it");
			const frame = file.take(packed);
			file.take(8);
			const told = view.getBigUint64(file.at - 8, true);
			if (kind >= NAMED) continue;
			need(kind === (found.length ? 2 : 1) && found.length < CHUNKS_MOST, `a chunk of kind ${kind}`);
			const content = unpacked(frame, plain);
			await rest();
			need(content.length === plain && plain > 16 && xxh3(content) === told, "a checksum differs");
			await rest();
			found.push(new Part(content));
		} catch (why) {
			throw why instanceof Damaged
				? new Damaged(`${why.message}, in the chunk ${where(start)} of ${data.length}`)
				: why;
		}
		await rest();
	}
	const end = file.at - 1;
	file.take(8);
	need(
		view.getBigUint64(end + 1, true) === xxh3(data.subarray(0, end + 1)),
		"the checksum of the whole differs",
	);
	need(file.at === data.length && found.length > 0, `it has another end, ${where(file.at)}`);
	return found;
}
