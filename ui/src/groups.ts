// What allocations can be grouped by, what the bands of the picture stand for, and the sum of each band at any
// moment: it is walked to from the last one that was asked for; as soon as that has been far, sums are kept every
// STRIDE moments and walked on from there.  So two million events need little memory and no waiting.

import { BEFORE, FLAG_INFERRED, Recording, Series, nobody_words } from "./recording";
import * as text from "./text";
import { meaning } from "./words";

const STRIDE = 256;
export const OWNER_BANDS = 10;
const NONE = 0; // a key: what is known of nobody
const BEFORE_PATH = -1; // a key of paths: what was there before the recording began

export interface Band {
	name: string;
	colour: string; // a custom property of the style sheet
	title?: string; // its whole name
}

// What a band is, for who points at its name.
export function band_title(band: Band): string {
	return meaning(band.name) || text.plain(band.title ?? band.name, 300);
}

export class Groups {
	readonly used: Uint8Array; // has a band anything at any moment?
	private sums: Float64Array | null = null; // at each STRIDE-th moment
	private now: Float64Array; // at `now_at`
	private now_at = 0;
	private walked = 0; // events, and rows

	constructor(
		readonly recording: Recording,
		readonly bands: Band[], // bottom first
		readonly of: Uint8Array, // the band of each allocation
	) {
		const { block, rows } = recording;
		const used = (this.used = new Uint8Array(bands.length));
		for (let a = 0; a < rows; a++) if (block[a]) used[of[a]] = 1;
		this.now = new Float64Array(bands.length);
		this.sum_up(0);
	}

	// Bytes of each band at m; the array is overwritten by the next call.
	at(m: number): Float64Array {
		if (m !== this.now_at) {
			// Sums are kept as soon as finding them has cost as much as all of them would.
			if (!this.sums && this.walked > this.recording.events) this.keep();
			if (!this.jump(m)) this.walk(m);
		}
		return this.now;
	}

	// What lives at m, row by row.
	private sum_up(m: number): void {
		const { now, of } = this;
		const { block } = this.recording;
		now.fill(0);
		const live = this.recording.live(m);
		for (let i = 0; i < live.length; i++) now[of[live[i]]] += block[live[i]];
		this.now_at = m;
	}

	// To a moment from which it is not far.
	private jump(m: number): boolean {
		const { sums, now, recording } = this;
		const far = Math.abs(m - this.now_at);
		if (!sums) {
			if (far < recording.rows / 4) return false;
			this.walked += recording.rows;
			this.sum_up(m);
			return true;
		}
		if (far > STRIDE) {
			const at = Math.floor(m / STRIDE);
			now.set(sums.subarray(at * now.length, (at + 1) * now.length));
			this.now_at = at * STRIDE;
		}
		return false;
	}

	private walk(m: number): void {
		const { now, of } = this;
		const { effect, block } = this.recording;
		this.walked += Math.abs(m - this.now_at);
		for (let e = this.now_at; e < m; e++) {
			const row = effect[e];
			if (row > 0) now[of[row - 1]] += block[row - 1];
			else if (row < 0) now[of[-row - 1]] -= block[-row - 1];
		}
		for (let e = this.now_at - 1; e >= m; e--) {
			const row = effect[e];
			if (row > 0) now[of[row - 1]] -= block[row - 1];
			else if (row < 0) now[of[-row - 1]] += block[-row - 1];
		}
		this.now_at = m;
	}

	private keep(): void {
		const { events } = this.recording;
		const sums = new Float64Array((Math.floor(events / STRIDE) + 1) * this.now.length);
		this.sum_up(0);
		for (let m = 0; m <= events; m += STRIDE) {
			this.walk(m);
			sums.set(this.now, (m / STRIDE) * this.now.length);
		}
		this.sums = sums;
	}

	// The total of all bands but these.
	series(hidden: ReadonlySet<number>): Series {
		const { effect, block } = this.recording;
		const bands = Uint8Array.from(this.bands, (_, b) => (hidden.has(b) ? 0 : 1));
		const before = this.at(0).reduce((sum, bytes, b) => sum + bytes * bands[b], 0);
		const shown = block.slice();
		for (let a = 0; a < shown.length; a++) if (!bands[this.of[a]]) shown[a] = 0;
		return new Series(effect, shown, before);
	}
}

// ---- what allocations are grouped by ----

export interface Grouping {
	id: string;
	name: string; // what stands in a list of choices: "by ..."
	column: string; // what stands over its names in a table
	key(recording: Recording, a: number): number;
	label(recording: Recording, key: number): string;
	apart?(recording: Recording, key: number): Band | null; // in the picture these keys are one band of this name
	ordered?: boolean; // bands lie in the order of keys, not of what stays longest
}

// Powers of two: 1 + the number of binary digits.
const digits = (n: number) => (n < 1 ? 0 : 1 + Math.floor(Math.log2(n)));

function power_range(key: number, unit: (n: number) => string): string {
	return key === 0 ? unit(0) : `${unit(2 ** (key - 1))} to ${unit(2 ** key)}`;
}

export const groupings: Grouping[] = [
	{
		id: "category",
		name: "category",
		column: "category",
		key: (r, a) => r.category(a),
		label: (r, key) => r.head.categories[key]?.name ?? "unknown",
	},
	{
		id: "line",
		name: "program's line",
		column: "line",
		key: (r, a) => r.owner(a),
		label: (r, key) => r.owner_name(key),
	},
	{
		id: "module",
		name: "model code",
		column: "model code",
		key: (r, a) => {
			const frame = r.code_frame(r.stack[a]);
			return frame ? 2 * frame + (r.flags[a] & FLAG_INFERRED) : r.nobody(a);
		},
		label: (r, key) => r.owner_name(key),
	},
	{
		id: "path",
		name: "module path",
		column: "path of modules",
		key: (r, a) =>
			r.stack[a] || r.born[a] ? 2 * r.paths.of[r.stack[a]] + (r.flags[a] & FLAG_INFERRED) : BEFORE_PATH,
		label: (r, key) =>
			key === BEFORE_PATH
				? nobody_words(BEFORE)
				: (key & 1 ? "(backward of) " : "") + r.paths.names[key >> 1],
	},
	{
		id: "stack",
		name: "stack",
		column: "stack",
		key: (r, a) => r.stack[a] || -r.nobody(a),
		label: (r, key) =>
			key > 0
				? Array.from(r.frames_of(key))
						.slice(0, 3)
						.map((f) => text.short_place(r.frame_text(f)))
						.join(" ‹ ")
				: nobody_words(-key),
	},
	{
		id: "size",
		name: "size",
		column: "size",
		key: (r, a) => digits(r.block[a]),
		label: (_, key) => power_range(key, (n) => text.axis_bytes(n)),
		ordered: true,
	},
	{
		id: "age",
		name: "lifetime",
		column: "lives",
		key: (r, a) => (r.freed[a] ? digits(r.freed[a] - r.born[a]) : 64),
		label: (_, key) => (key === 64 ? "to the end" : power_range(key, (n) => text.count(n)) + " events"),
		ordered: true,
	},
	{
		id: "step",
		name: "step of birth",
		column: "born in step",
		key: (r, a) => (r.born[a] ? 1 + (r.step_at(r.born[a])?.index ?? -1) : NONE),
		label: (_, key) => (key ? `step ${key - 1}` : "no step"),
		ordered: true,
	},
	{
		id: "stream",
		name: "stream",
		column: "stream",
		key: (r, a) => r.stream[a],
		label: (r, key) => `stream ${r.head.streams[key] ?? "0"}`,
	},
	{
		id: "pool",
		name: "pool",
		column: "pool",
		key: (r, a) => r.pool(a),
		label: (r, key) => r.pool_name(key),
		apart: (r, key) => (r.is_private(key) ? { name: "private pools", colour: "--pool-private" } : null),
	},
];

export function grouping_of(id: string): Grouping {
	return groupings.find((g) => g.id === id) ?? groupings[0];
}

export interface Group {
	key: number;
	name: string;
	bytes: number;
	count: number;
	largest: number; // the row of its largest allocation
}

// The groups of these allocations, the largest first.
export function sum_groups(recording: Recording, by: Grouping, rows: ArrayLike<number>): Group[] {
	const all = new Map<number, Group>();
	for (let i = 0; i < rows.length; i++) {
		const a = rows[i];
		const key = by.key(recording, a);
		const group = all.get(key);
		if (!group) all.set(key, { key, name: "", bytes: recording.block[a], count: 1, largest: a });
		else {
			group.bytes += recording.block[a];
			group.count++;
			if (recording.block[a] > recording.block[group.largest]) group.largest = a;
		}
	}
	const out = [...all.values()].sort((a, b) => b.bytes - a.bytes || a.key - b.key);
	for (const group of out) group.name = by.label(recording, group.key);
	return out;
}

// What stays longest lies lowest, so that the bands above it stand on even ground.
const bottom_up = [
	"before_recording",
	"parameter",
	"workspace",
	"optimizer_state",
	"gradient",
	"buffer",
	"kv_cache",
	"input",
	"activation",
	"autograd_detail",
	"temporary",
	"kept",
	"unknown",
];

function by_category(recording: Recording): Groups {
	const { categories } = recording.head;
	const rank = (id: string) => (bottom_up.indexOf(id) + 1 || bottom_up.length) - 1;
	const order = categories.map((_, i) => i).sort((a, b) => rank(categories[a].id) - rank(categories[b].id));
	const band_of_category = new Uint8Array(Math.max(1, categories.length));
	order.forEach((category, band) => (band_of_category[category] = band));
	const { rule, rows } = recording;
	const band_of_rule = new Uint8Array(2 ** 16).fill(band_of_category[0]);
	recording.category_of_rule.forEach((category, i) => (band_of_rule[i] = band_of_category[category]));
	const of = new Uint8Array(rows);
	for (let a = 0; a < rows; a++) of[a] = band_of_rule[rule[a]];
	const bands = order.map((i) => ({
		name: categories[i].name,
		colour: category_colour(categories[i].id),
	}));
	return new Groups(recording, bands.length ? bands : [{ name: "memory", colour: "--cat-unknown" }], of);
}

export function category_colour(id: string | undefined): string {
	return `--cat-${(id ?? "unknown").replace(/[^a-z_]/g, "")}`;
}

// The largest groups where memory was highest and where the run died; all others are one band.  What still
// lives where memory is lowest lies lowest.
function by_grouping(recording: Recording, by: Grouping): Groups {
	const apart = (key: number) => by.apart?.(recording, key) ?? null;
	const keys: number[] = [];
	const moments = [recording.peak_moment, recording.death_moment ?? recording.events];
	const lists = moments.map((m) => sum_groups(recording, by, recording.live(m)));
	for (let i = 0; keys.length < OWNER_BANDS && i < Math.max(...lists.map((l) => l.length)); i++)
		for (const list of lists) {
			const key = list[i]?.key;
			if (key === undefined || keys.includes(key) || apart(key)) continue;
			if (keys.length < OWNER_BANDS) keys.push(key);
		}
	if (by.ordered) keys.sort((a, b) => b - a);
	else {
		const quarter = Math.floor(recording.events / 4);
		const quiet = recording.allocated.extreme(quarter, recording.events - quarter + 1, true);
		const list = sum_groups(recording, by, recording.live(quiet));
		const steady = new Map(list.map((g) => [g.key, g.bytes]));
		keys.sort((a, b) => (steady.get(b) ?? 0) - (steady.get(a) ?? 0) || a - b);
	}
	const band = new Map(keys.map((key, i) => [key, i]));
	const of = new Uint8Array(recording.rows);
	let own: Band | null = null;
	for (let a = 0; a < recording.rows; a++) {
		const key = by.key(recording, a);
		of[a] = band.get(key) ?? keys.length;
		const one = of[a] === keys.length ? apart(key) : null;
		if (!one) continue;
		own = one;
		of[a] = keys.length + 1;
	}
	const bands: Band[] = keys.map((key, i) => {
		const title = by.label(recording, key);
		return { name: text.short_place(title), title, colour: `--owner-${i}` };
	});
	bands.push({ name: "all others", colour: "--cat-unknown" });
	if (own) bands.push(own);
	return new Groups(recording, bands, of);
}

export function bands_of(recording: Recording, id: string): Groups {
	const by = grouping_of(id);
	return by.id === "category" ? by_category(recording) : by_grouping(recording, by);
}

// What a search found, and the rest.
export function by_match(recording: Recording, found: Uint8Array, name: string): Groups {
	const of = new Uint8Array(recording.rows);
	for (let a = 0; a < recording.rows; a++) of[a] = found[a] ? 0 : 1;
	return new Groups(
		recording,
		[
			{ name, colour: "--accent-band" },
			{ name: "all others", colour: "--band-rest" },
		],
		of,
	);
}
