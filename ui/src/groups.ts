// What allocations can be grouped by, what the bands of the picture stand for, and the sum of each band at any
// moment: sums are kept every STRIDE moments and walked on from there, so that two million events need little
// memory and no waiting.

import { FLAG_INFERRED, Recording, Series } from "./recording";
import * as text from "./text";

const STRIDE = 256;
export const OWNER_BANDS = 10;
const NONE = 0; // a key: what is known of nobody

export interface Band {
	name: string;
	colour: string; // a custom property of the style sheet
	title?: string; // its whole name
}

export class Groups {
	readonly used: Uint8Array; // has a band anything at any moment?
	private sums: Float64Array;
	private cursor: Float64Array;
	private cursor_at = -1;

	constructor(
		readonly recording: Recording,
		readonly bands: Band[], // bottom first
		readonly of: Uint8Array, // the band of each allocation
	) {
		const { effect, events, block } = recording;
		const n = bands.length;
		this.sums = new Float64Array((Math.floor(events / STRIDE) + 1) * n);
		this.cursor = new Float64Array(n);
		const now = new Float64Array(n);
		this.used = new Uint8Array(n);
		for (let a = 0; a < recording.rows; a++) if (block[a]) this.used[of[a]] = 1;
		for (const a of recording.live(0)) now[of[a]] += block[a];
		for (let from = 0; from <= events; from += STRIDE) {
			this.sums.set(now, (from / STRIDE) * n);
			const end = Math.min(events, from + STRIDE);
			for (let m = from; m < end; m++) {
				const a = effect[m];
				if (a > 0) now[of[a - 1]] += block[a - 1];
				else if (a < 0) now[of[-a - 1]] -= block[-a - 1];
			}
		}
	}

	// Bytes of each band at m; the array is overwritten by the next call.
	at(m: number): Float64Array {
		const n = this.bands.length;
		const { effect, block } = this.recording;
		const { of, cursor } = this;
		let from = Math.floor(m / STRIDE) * STRIDE;
		if (this.cursor_at >= from && this.cursor_at <= m) from = this.cursor_at;
		else cursor.set(this.sums.subarray((from / STRIDE) * n, (from / STRIDE + 1) * n));
		for (let e = from; e < m; e++) {
			const a = effect[e];
			if (a > 0) cursor[of[a - 1]] += block[a - 1];
			else if (a < 0) cursor[of[-a - 1]] -= block[-a - 1];
		}
		this.cursor_at = m;
		return cursor;
	}

	// The total of all bands but these.
	series(hidden: ReadonlySet<number>): Series {
		const bands = Uint8Array.from(this.bands, (_, b) => (hidden.has(b) ? 0 : 1));
		const before = this.at(0).reduce((sum, bytes, b) => sum + bytes * bands[b], 0);
		return new Series(this.recording, before, { of: this.of, bands });
	}
}

// ---- what allocations are grouped by ----

export interface Grouping {
	id: string;
	name: string; // what stands in a list of choices: "by ..."
	column: string; // what stands over its names in a table
	key(recording: Recording, a: number): number;
	label(recording: Recording, key: number): string;
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
		column: "innermost line that is not PyTorch's",
		key: (r, a) => {
			const frame = r.code_frame(r.stack[a]);
			return frame ? 2 * frame + (r.flags[a] & FLAG_INFERRED) : NONE;
		},
		label: (r, key) => r.owner_name(key),
	},
	{
		id: "stack",
		name: "stack",
		column: "stack",
		key: (r, a) => r.stack[a],
		label: (r, key) =>
			key
				? Array.from(r.frames_of(key))
						.slice(0, 3)
						.map((f) => text.short_place(r.frame_text(f)))
						.join(" ‹ ")
				: "no Python stack",
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
	const band_of_rule = recording.category_of_rule.map((category) => band_of_category[category]);
	const of = new Uint8Array(recording.rows);
	for (let a = 0; a < recording.rows; a++) of[a] = band_of_rule[recording.rule[a]] ?? band_of_category[0];
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
	const keys: number[] = [];
	const moments = [recording.peak_moment, recording.death_moment ?? recording.events];
	const lists = moments.map((m) => sum_groups(recording, by, recording.live(m)));
	for (let i = 0; keys.length < OWNER_BANDS && i < Math.max(...lists.map((l) => l.length)); i++)
		for (const list of lists) {
			const key = list[i]?.key;
			if (key !== undefined && !keys.includes(key) && keys.length < OWNER_BANDS) keys.push(key);
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
	for (let a = 0; a < recording.rows; a++) of[a] = band.get(by.key(recording, a)) ?? keys.length;
	const bands: Band[] = keys.map((key, i) => {
		const title = by.label(recording, key);
		return { name: text.short_place(title), title, colour: `--owner-${i}` };
	});
	bands.push({ name: "all others", colour: "--cat-unknown" });
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
