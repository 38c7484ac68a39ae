// What the bands of the picture stand for, and the sum of each band at any moment: sums are kept every
// STRIDE moments and walked on from there, so that two million events need little memory and no waiting.

import { Recording } from "./recording";
import * as text from "./text";

const STRIDE = 256;
export const OWNER_BANDS = 10;

export interface Band {
	name: string;
	colour: string; // a custom property of the style sheet
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
		for (let m = 0; m <= events; m++) {
			if (m % STRIDE === 0) this.sums.set(now, (m / STRIDE) * n);
			const a = m < events ? effect[m] : 0;
			if (a > 0) now[of[a - 1]] += block[a - 1];
			else if (a < 0) now[of[-a - 1]] -= block[-a - 1];
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
}

// What stays longest lies lowest, so that the bands above it stand on even ground.
const bottom_up = [
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
	"unknown",
];

export function by_category(recording: Recording): Groups {
	const { categories } = recording.head;
	const rank = (id: string) => (bottom_up.indexOf(id) + 1 || bottom_up.length) - 1;
	const order = categories.map((_, i) => i).sort((a, b) => rank(categories[a].id) - rank(categories[b].id));
	const band_of_category = new Uint8Array(Math.max(1, categories.length));
	order.forEach((category, band) => (band_of_category[category] = band));
	const of = new Uint8Array(recording.rows);
	for (let a = 0; a < recording.rows; a++) of[a] = band_of_category[recording.category(a)];
	const bands = order.map((i) => ({
		name: categories[i].name,
		colour: `--cat-${categories[i].id.replace(/[^a-z_]/g, "")}`,
	}));
	return new Groups(recording, bands.length ? bands : [{ name: "memory", colour: "--cat-unknown" }], of);
}

// The largest owners where memory was highest and where the run died; all others are one band.  What still
// lives where memory is lowest lies lowest.
export function by_owner(recording: Recording): Groups {
	const keys: number[] = [];
	const moments = [recording.peak_moment, recording.death_moment ?? recording.events];
	const lists = moments.map((m) => recording.owners(recording.live(m)));
	for (let i = 0; keys.length < OWNER_BANDS && i < Math.max(...lists.map((l) => l.length)); i++)
		for (const list of lists) {
			const key = list[i]?.key;
			if (key !== undefined && !keys.includes(key) && keys.length < OWNER_BANDS) keys.push(key);
		}
	const quarter = Math.floor(recording.events / 4);
	const quiet = recording.allocated.extreme(quarter, recording.events - quarter + 1, true);
	const steady = new Map(recording.owners(recording.live(quiet)).map((o) => [o.key, o.bytes]));
	keys.sort((a, b) => (steady.get(b) ?? 0) - (steady.get(a) ?? 0) || a - b);
	const band = new Map(keys.map((key, i) => [key, i]));
	const of = new Uint8Array(recording.rows);
	for (let a = 0; a < recording.rows; a++) of[a] = band.get(recording.owner(a)) ?? keys.length;
	const bands = keys.map((key, i) => ({
		name: text.short_place(recording.owner_name(key)),
		colour: `--owner-${i}`,
	}));
	bands.push({ name: "all others", colour: "--cat-unknown" });
	return new Groups(recording, bands, of);
}

// What a search found, and the rest.
export function by_match(recording: Recording, matches: (a: number) => boolean, name: string): Groups {
	const of = new Uint8Array(recording.rows);
	for (let a = 0; a < recording.rows; a++) of[a] = matches(a) ? 0 : 1;
	return new Groups(
		recording,
		[
			{ name, colour: "--accent-band" },
			{ name: "all others", colour: "--band-rest" },
		],
		of,
	);
}
