// Who owns what is reserved and not allocated, at any moment: each byte has one owner, and all of them add up
// (src/recordings/diagnose/gap.c says the same of the peak and of the end).  Free memory of a private pool serves only that
// pool; of the default pool, what nothing is in can be given back, and the rest serves one stream.

import type { Recording } from "./recording";
import { FLAG_PENDING, PRIVATE, last_at_or_before } from "./recording";
import * as text from "./text";

const LARGE_PAGE = 20 * 2 ** 20; // of expandable segments, as the allocator maps them
const SMALL_PAGE = 2 * 2 ** 20;
const MOST_ALIKE = 6; // pools, and streams, with a band each; the others share one
const SLICE = 2 ** 14; // moments, after which the browser may answer

export type GapKind = "idle" | "pool" | "stream" | "waiting" | "rest";

export interface GapBand {
	kind: GapKind;
	name: string;
	colour: string; // a custom property of the style sheet
	most: number; // bytes, over all moments
	most_at: number; // the first moment with them
}

// A total that changes at few moments.
class Steps {
	readonly moments: number[] = [0];
	readonly totals: number[] = [0];
	private last = 0; // where the last answer was: the next is often near

	set(m: number, total: number): void {
		const end = this.totals.length - 1;
		if (this.moments[end] === m) this.totals[end] = total;
		else if (this.totals[end] !== total) {
			this.moments.push(m);
			this.totals.push(total);
		}
	}

	at(m: number): number {
		const { moments } = this;
		const i = this.last;
		const is_here = moments[i] <= m && (i + 1 === moments.length || m < moments[i + 1]);
		if (!is_here) this.last = last_at_or_before(moments, m);
		return this.totals[this.last];
	}
}

// What belongs together: a private pool, or the segments of one stream in the default pool.
interface Owner {
	key: string;
	kind: GapKind;
	name: string;
	reserved: number;
	active: number;
	idle: number; // of it, in units that nothing is in
	most: number; // reserved
	band: number;
}

// What is given back as one: a segment, or a page of an expandable one.
interface Units {
	first: Uint32Array; // of each segment; one more than there are
	owner: Uint16Array; // of each segment
	bytes: Float64Array;
	used: Uint32Array; // blocks in it
	there: Uint8Array;
}

function page_of(large: boolean): number {
	return large ? LARGE_PAGE : SMALL_PAGE;
}

// Rows by the moment that `moments` has of each; those without one are left out.
function by_moment(moments: ArrayLike<number>, end: number, skip_none: boolean): [Int32Array, Int32Array] {
	const head = new Int32Array(end + 1).fill(-1);
	const next = new Int32Array(moments.length);
	for (let i = moments.length - 1; i >= 0; i--) {
		const m = moments[i];
		if (m > end || (skip_none && !m)) continue;
		next[i] = head[m];
		head[m] = i;
	}
	return [head, next];
}

export class Gap {
	readonly bands: GapBand[] = []; // the lowest first
	private steps: Steps[] = []; // of each band but the last, which has what is left
	private owners: Owner[] = [];
	private units: Units;
	private sums = new Float64Array(0); // of each band, at the moment that is walked through

	private constructor(private recording: Recording) {
		this.units = this.divide();
	}

	// A slice at a time, as soon as all of the page is unpacked.  Where nothing is reserved there is none.
	static async find(recording: Recording, rest: () => Promise<void>): Promise<Gap | null> {
		if (!recording.segment_size.length) return null;
		const gap = new Gap(recording);
		await rest();
		if (recording.rows) recording.segment_of(0); // finds all of them
		await rest();
		gap.name_bands();
		await rest();
		await gap.walk(rest);
		return gap;
	}

	private owner_of(s: number): number {
		const { owners, recording } = this;
		const segment = recording.segment(s);
		const is_private = segment.pool.startsWith(PRIVATE);
		const known = segment.pool === "default";
		const key = is_private || !known ? segment.pool : `stream ${segment.stream}`;
		const at = owners.findIndex((o) => o.key === key);
		if (at >= 0) return at;
		const name = is_private
			? `free in ${segment.pool.replace(PRIVATE, PRIVATE + " pool")}`
			: known
				? `free in ${key}'s segments`
				: segment.pool;
		const kind = is_private || !known ? "pool" : "stream";
		return owners.push({ key, kind, name, reserved: 0, active: 0, idle: 0, most: 0, band: 0 }) - 1;
	}

	private divide(): Units {
		const { segment_size } = this.recording;
		const n = segment_size.length;
		const first = new Uint32Array(n + 1);
		const owner = new Uint16Array(n);
		const bytes: number[] = [];
		for (let s = 0; s < n; s++) {
			const { expandable, large, size } = this.recording.segment(s);
			owner[s] = this.owner_of(s);
			const page = expandable ? page_of(large) : size;
			for (let left = size; left > 0; left -= page) bytes.push(Math.min(left, page));
			first[s + 1] = bytes.length;
		}
		return {
			first,
			owner,
			bytes: Float64Array.from(bytes),
			used: new Uint32Array(bytes.length),
			there: new Uint8Array(bytes.length),
		};
	}

	// The stream with the most in use where it died, or else at the peak, has the remainders of splits: what is left when all else is reported.
	private name_bands(): void {
		const { recording, owners, bands } = this;
		const moment = recording.death_moment ?? recording.peak_moment;
		const { segment_born: born, segment_gone: gone, segment_size: size } = recording;
		const order = Array.from(born.keys()).sort((a, b) => born[a] - born[b]);
		for (const s of order) {
			const owner = owners[this.units.owner[s]];
			if (born[s] <= moment && (!gone[s] || moment < gone[s])) owner.reserved += size[s];
			owner.most = Math.max(owner.most, size[s], owner.reserved);
		}
		for (const a of recording.live(moment)) {
			const s = recording.segment_of(a);
			if (s >= 0) owners[this.units.owner[s]].active += recording.block[a];
		}
		const streams = owners
			.filter((o) => o.kind === "stream")
			.sort((a, b) => b.active - a.active || b.most - a.most);
		const [main] = streams;
		const add = (kind: GapKind, name: string, colour: string): number =>
			bands.push({ kind, name, colour, most: 0, most_at: 0 }) - 1;
		const share = (list: Owner[], kind: GapKind, colour: string, others: string): void => {
			list.slice(0, MOST_ALIKE).forEach((o) => (o.band = add(kind, o.name, colour)));
			const band = list.length > MOST_ALIKE ? add(kind, others, colour) : 0;
			list.slice(MOST_ALIKE).forEach((o) => (o.band = band));
		};
		const pools = owners.filter((o) => o.kind === "pool").sort((a, b) => b.most - a.most);
		share(pools, "pool", "--pool-private", "free in other private pools");
		share(streams.slice(1), "stream", "--gap-stream", "free in other streams' segments");
		add("waiting", "waiting for another stream", "--gap-waiting");
		add("idle", "idle segments", "--gap-idle");
		const of = streams.length > 1 ? ` in ${main.key}'s segments` : "";
		const rest = add("rest", `remainders of splits${of}`, "--gap-rest");
		if (main) main.band = rest;
		for (const owner of owners) owner.reserved = owner.active = 0;
		this.steps = bands.slice(0, -1).map(() => new Steps());
	}

	// Units that an allocation lies in: pages of one range may have been mapped in several calls.
	private each_unit(a: number, visit: (unit: number, owner: Owner) => void): void {
		const { recording, units } = this;
		const { addr, block, segment_addr, segment_size } = recording;
		let s = recording.segment_of(a);
		let from = addr[a];
		const end = from + block[a];
		while (s >= 0 && from < end) {
			const { expandable, large } = recording.segment_kind(s);
			const stop = Math.min(end, segment_addr[s] + segment_size[s]);
			const page = expandable ? page_of(large) : segment_size[s];
			const last = units.first[s] + Math.floor((stop - 1 - segment_addr[s]) / page);
			const owner = this.owners[units.owner[s]];
			for (let u = units.first[s] + Math.floor((from - segment_addr[s]) / page); u <= last; u++)
				visit(u, owner);
			from = stop;
			if (from < end) s = expandable ? recording.segment_behind(s, recording.born[a]) : -1;
		}
	}

	private async walk(rest: () => Promise<void>): Promise<void> {
		const { recording, units, owners } = this;
		const { events, born, freed, block, flags, segment_size } = recording;
		const { first, bytes, used, there } = units;
		const pending = Uint8Array.from(flags, (f) => (f & FLAG_PENDING ? 1 : 0));
		const done = Uint32Array.from(recording.done, (m, a) =>
			pending[a] || recording.waits(a) ? m : freed[a],
		);
		const [done_head, done_next] = by_moment(done, events, true);
		await rest();
		const [born_head, born_next] = by_moment(born, events, false);
		const [taken, taken_next] = by_moment(recording.segment_born, events, false);
		const [given, given_next] = by_moment(recording.segment_gone, events, true);
		const late = by_moment(
			Float64Array.from(freed, (m, a) => (m && m !== done[a] && !pending[a] ? m : 0)),
			events,
			true,
		);
		await rest();
		let waiting = 0;
		const begin = (u: number, owner: Owner): void => {
			if (there[u] && !used[u]) owner.idle -= bytes[u];
			used[u]++;
		};
		const end = (u: number, owner: Owner): void => {
			if (used[u]) used[u]--;
			if (there[u] && !used[u]) owner.idle += bytes[u];
		};
		const in_segment = (a: number): Owner | null => {
			const s = recording.segment_of(a);
			return s < 0 ? null : owners[units.owner[s]];
		};
		for (let m = 0; m <= events; m++) {
			if (m % SLICE === SLICE - 1) await rest();
			let changed = false;
			for (let a = done_head[m]; a >= 0; a = done_next[a]) {
				const owner = in_segment(a);
				if (owner) owner.active -= block[a];
				if (pending[a] || freed[a] !== done[a]) waiting -= block[a];
				this.each_unit(a, end);
				changed = true;
			}
			for (let s = given[m]; s >= 0; s = given_next[s]) {
				const owner = owners[units.owner[s]];
				owner.reserved -= segment_size[s];
				for (let u = first[s]; u < first[s + 1]; u++) {
					if (there[u] && !used[u]) owner.idle -= bytes[u];
					there[u] = 0;
				}
				changed = true;
			}
			for (let s = taken[m]; s >= 0; s = taken_next[s]) {
				const owner = owners[units.owner[s]];
				owner.reserved += segment_size[s];
				for (let u = first[s]; u < first[s + 1]; u++) {
					there[u] = 1;
					if (!used[u]) owner.idle += bytes[u];
				}
				changed = true;
			}
			for (let a = born_head[m]; a >= 0; a = born_next[a]) {
				const owner = in_segment(a);
				if (owner) owner.active += block[a];
				if (pending[a]) waiting += block[a];
				this.each_unit(a, begin);
				changed = true;
			}
			for (let a = late[0][m]; a >= 0; a = late[1][a]) {
				waiting += block[a];
				changed = true;
			}
			if (changed) this.note(m, waiting);
		}
	}

	private note(m: number, waiting: number): void {
		const { owners, bands } = this;
		const n = bands.length;
		if (this.sums.length !== n) this.sums = new Float64Array(n);
		const { sums } = this;
		sums.fill(0);
		for (const owner of owners) {
			const is_pool = owner.kind === "pool";
			sums[owner.band] += owner.reserved - owner.active - (is_pool ? 0 : owner.idle);
			if (!is_pool) sums[n - 2] += owner.idle;
		}
		sums[n - 3] = waiting;
		for (let b = 0; b < n; b++) {
			if (b < n - 1) this.steps[b].set(m, sums[b]);
			if (sums[b] > bands[b].most) {
				bands[b].most = sums[b];
				bands[b].most_at = m;
			}
		}
	}

	// Bytes of each band at m.
	at(m: number, out: Float64Array = new Float64Array(this.bands.length)): Float64Array {
		const { recording, steps } = this;
		let left = recording.reserved(m) - recording.allocated.total(m);
		for (let b = 0; b < steps.length; b++) {
			out[b] = Math.max(0, Math.min(left, steps[b].at(m)));
			left -= out[b];
		}
		out[steps.length] = Math.max(0, left);
		return out;
	}

	// What is in use in the segments of each band whose free memory it keeps, and the line that made most of it.
	kept(m: number): { bytes: number; frame: string | null }[] {
		const { recording, bands, owners, units } = this;
		const { addr, block } = recording;
		const lines = bands.map(() => new Map<number, number>());
		const segments = recording.segments(m);
		const starts = segments.map((s) => s.addr);
		const inside: number[][] = segments.map(() => []);
		for (const a of recording.live(m, true)) {
			const i = last_at_or_before(starts, addr[a]);
			if (i >= 0 && addr[a] < starts[i] + segments[i].size) inside[i].push(a);
		}
		const kept = bands.map(() => 0);
		segments.forEach((segment, i) => {
			const owner = owners[units.owner[segment.row]];
			const list = inside[i].sort((a, b) => addr[a] - addr[b]);
			if (!list.length || !has_rest(segment, list, recording, owner.kind === "pool")) return;
			for (const a of list) {
				kept[owner.band] += block[a];
				const line = recording.owner(a);
				lines[owner.band].set(line, (lines[owner.band].get(line) ?? 0) + block[a]);
			}
		});
		return kept.map((bytes, b) => {
			const named = [...lines[b]].filter(([line]) => line > 1);
			const [most] = named.sort((x, y) => y[1] - x[1]);
			return { bytes, frame: most ? text.plain(recording.owner_name(most[0])) : null };
		});
	}
}

// Is anything free in it that cannot be given back as it is?
function has_rest(
	segment: { addr: number; size: number; expandable: boolean; large: boolean },
	list: number[],
	{ addr, block }: Recording,
	is_pool: boolean,
): boolean {
	const page = segment.expandable ? page_of(segment.large) : segment.size;
	let from = 0;
	const ends = [...list.map((a) => [addr[a] - segment.addr, block[a]]), [segment.size, 0]];
	for (const [at, bytes] of ends) {
		const whole = Math.max(0, Math.floor(at / page) * page - Math.ceil(from / page) * page);
		if (at > from && (is_pool || whole < at - from)) return true;
		from = at + bytes;
	}
	return false;
}
