// A recording as columns, and the questions that the views ask of it.  A moment m is the state after m
// events; allocations are known by their row.

import { Page } from "./page";
import type { Column, Head, Sections, Source } from "./page";
import type { ReportDevice as Device, ReportOom as Oom, ReportStep as Step } from "./results";
import { ModulePaths } from "./paths";
import { Ranges } from "./ranges";
import * as text from "./text";

export const FLAG_INFERRED = 1;
export const FLAG_PENDING = 2;

export const NOBODY = 0; // as an owner: no Python stack
export const BEFORE = 1; // ... for it was there before the recording began

export function nobody_words(key: number): string {
	return key === BEFORE ? "there before the recording began" : "no Python stack";
}
const SEGMENT_EXPANDABLE = 2;
const SEGMENT_LARGE = 1;
export const PRIVATE = "private"; // how the names of CUDA graphs' and MemPools' pools begin
const LIVED = 4; // answers that are kept

export interface Frame {
	name: string;
	file: string;
	line: number;
}

export interface Segment {
	row: number; // in the columns; of ranges that touch, the first
	stack: number; // where the driver was asked for it; 0: not known
	addr: number;
	size: number;
	pool: string;
	expandable: boolean;
	large: boolean;
	stream: string;
}

// A total at every moment, and where it is highest and lowest: born rows add their blocks, freed ones take them
// away.  It is kept every BLOCK moments and walked on from there: an array of all moments would take longer to
// fill than all else together.
export class Series {
	private static readonly BLOCK = 32;
	private first: Float64Array; // of a block: the total at its first moment
	private high: Float64Array; // its highest and lowest total
	private low: Float64Array;
	private high_at: Uint8Array; // and how far from the first moment they are
	private low_at: Uint8Array;

	constructor(
		private effect: Int32Array,
		private block: Column,
		before: number,
	) {
		const blocks = Math.ceil((effect.length + 1) / Series.BLOCK);
		this.first = new Float64Array(blocks);
		this.high = new Float64Array(blocks);
		this.low = new Float64Array(blocks);
		this.high_at = new Uint8Array(blocks);
		this.low_at = new Uint8Array(blocks);
		this.fill(before);
	}

	private fill(before: number): void {
		const { effect, block, first, high, low, high_at, low_at } = this;
		const { BLOCK } = Series;
		const moments = effect.length + 1;
		let total = before;
		for (let b = 0; b < first.length; b++) {
			const from = b * BLOCK;
			const end = Math.min(moments, from + BLOCK);
			let most = total;
			let least = total;
			let most_at = from;
			let least_at = from;
			first[b] = total;
			for (let m = from + 1; m < end; m++) {
				const row = effect[m - 1];
				if (row > 0) {
					total += block[row - 1];
					if (total > most) {
						most = total;
						most_at = m;
					}
				} else if (row < 0) {
					total -= block[-row - 1];
					if (total < least) {
						least = total;
						least_at = m;
					}
				}
			}
			if (end < moments) total += this.change(effect[end - 1]);
			high[b] = most;
			low[b] = least;
			high_at[b] = most_at - from;
			low_at[b] = least_at - from;
		}
	}

	private change(effect: number): number {
		return effect > 0 ? this.block[effect - 1] : effect < 0 ? -this.block[-effect - 1] : 0;
	}

	total(m: number): number {
		const b = Math.floor(m / Series.BLOCK);
		let total = this.first[b];
		for (let e = b * Series.BLOCK; e < m; e++) total += this.change(this.effect[e]);
		return total;
	}

	// The first moment of [from, to) with the highest (lowest) total.
	extreme(from: number, to: number, lowest: boolean): number {
		const sign = lowest ? -1 : 1;
		const [extremes, places] = lowest ? [this.low, this.low_at] : [this.high, this.high_at];
		let now = this.total(from);
		let best = from;
		let most = sign * now;
		let m = from;
		while (m < to) {
			const b = m / Series.BLOCK;
			if (m % Series.BLOCK === 0 && m + Series.BLOCK <= to) {
				if (sign * extremes[b] > most) {
					most = sign * extremes[b];
					best = m + places[b];
				}
				m += Series.BLOCK;
				if (m < to) now = this.first[b + 1];
			} else {
				if (sign * now > most) {
					most = sign * now;
					best = m;
				}
				if (m < to - 1) now += this.change(this.effect[m]);
				m++;
			}
		}
		return best;
	}
}

export class Recording {
	readonly head: Head;
	readonly device: Device;
	readonly events: number;
	readonly rows: number;
	readonly born: Column;
	readonly freed: Column;
	readonly block: Column;
	readonly stack: Column;
	readonly rule: Column;
	readonly flags: Column;
	// Of each event: row + 1 of what is allocated, -(row + 1) of what the program frees, or 0.
	readonly effect: Int32Array;
	readonly allocated: Series;
	readonly peak_moment: number;
	readonly category_of_rule: Uint8Array;
	readonly death: Oom | null;
	readonly steps: Step[];
	private stack_first: Column;
	private stack_frames: Column;
	private stack_user: Column;
	private stack_code: Column;
	private shown_first: Column;
	private shown_rows: Column;
	private in_segment: Int32Array | null = null; // of each allocation: the row of its segment
	private segments_at: Map<number, number[]> | null = null; // by address
	private frame_name: Column;
	private frame_file: Column;
	private frame_line: Column;
	readonly segment_born: Column;
	readonly segment_gone: Column;
	readonly segment_addr: Column;
	readonly segment_size: Column;
	private segment_pool: Column;
	private segment_flags: Column;
	private segment_stream: Column;
	private segment_stack: Column;
	// reserved memory changes at few moments: from `reserved_from[i]` on it is `reserved_bytes[i]`
	readonly reserved_from: Uint32Array;
	readonly reserved_bytes: Float64Array;
	readonly reserved_peak: number;
	readonly phase_from: Column;
	readonly phase: Column;
	readonly ranges: Ranges;
	private times: Column;
	private module_paths: ModulePaths | null = null;
	private lived: { m: number; active: boolean; rows: Uint32Array }[] = [];

	// Columns first, a slice at a time, then the totals.
	static async open(at: number, rest: () => Promise<void>, sections?: Sections): Promise<Recording> {
		return Recording.of(await Page.open(at, rest, sections), rest);
	}

	static async of(page: Source, rest: () => Promise<void>): Promise<Recording> {
		for (const name of ["born", "freed", "block", "rule"]) {
			await rest();
			page.column("allocs." + name, page.rows("allocs"));
		}
		await rest();
		return new Recording(page);
	}

	private constructor(private page: Source) {
		const head = (this.head = page.head);
		this.device = head.report.devices[0];
		this.events = head.events;
		const rows = (this.rows = page.rows("allocs"));
		const column = (name: string) => page.column("allocs." + name, rows);
		this.born = column("born");
		this.freed = column("freed");
		this.block = column("block");
		this.stack = column("stack");
		this.rule = column("rule");
		this.flags = column("flags");
		const stacks = page.rows("stacks");
		this.stack_first = page.column("stacks.first", stacks);
		this.stack_frames = page.column("stacks.frames", stacks);
		this.stack_user = page.column("stacks.user", stacks);
		this.stack_code = page.column("stacks.code", stacks);
		this.shown_first = page.column("shown.first", head.show.length + 1);
		this.shown_rows = page.column("shown.rows");
		const frames = page.rows("frames");
		this.frame_name = page.column("frames.name", frames);
		this.frame_file = page.column("frames.file", frames);
		this.frame_line = page.column("frames.line", frames);
		const segments = page.rows("segments");
		this.segment_size = page.column("segments.size", segments);
		this.segment_born = page.column("segments.born", segments);
		this.segment_gone = page.column("segments.gone", segments);
		this.segment_addr = page.column("segments.addr", segments);
		this.segment_pool = page.column("segments.pool", segments);
		this.segment_flags = page.column("segments.flags", segments);
		this.segment_stream = page.column("segments.stream", segments);
		this.segment_stack = page.column("segments.stack", segments);
		this.phase_from = page.column("phases.from", page.rows("phases"));
		this.phase = page.column("phases.phase", this.phase_from.length);
		this.times = page.column("time.us");
		this.ranges = new Ranges(page, head.strings);
		this.category_of_rule = Uint8Array.from(head.rules, (r) => r.category);
		this.tell_kept_apart();
		const ooms = this.device.oom;
		this.death = ooms.filter((o) => !o.survived).pop() ?? null;
		this.steps = this.device.steps ?? [];
		this.effect = new Int32Array(this.events);
		this.allocated = this.walk();
		this.peak_moment = this.allocated.extreme(0, this.events + 1, false);
		[this.reserved_from, this.reserved_bytes] = this.reserve();
		this.reserved_peak = this.reserved_bytes.reduce((a, b) => Math.max(a, b), 0);
	}

	// What the program keeps, and a rule says so, is a culprit; what no rule explains is not.
	private tell_kept_apart(): void {
		const { categories, rules } = this.head;
		const unknown = categories.findIndex((c) => c.id === "unknown");
		const is_kept = rules.map((r) => r.category === unknown && r.confidence_pct > 0);
		if (!is_kept.some(Boolean)) return;
		const kept = categories.push({ id: "kept", name: "outputs kept" }) - 1;
		categories[unknown].name = "unknown";
		is_kept.forEach((kept_by, rule) => {
			if (kept_by) this.category_of_rule[rule] = kept;
		});
	}

	// What no picture shows at first is put together when it is asked for.
	get size(): Column {
		return this.page.column("allocs.size", this.rows);
	}

	get stream(): Column {
		return this.page.column("allocs.stream", this.rows);
	}

	// These are there as soon as all of the page is unpacked.
	get done(): Column {
		return this.page.column("allocs.done", this.rows);
	}

	get addr(): Column {
		return this.page.column("allocs.addr", this.rows);
	}

	get paths(): ModulePaths {
		return (this.module_paths ??= new ModulePaths(this));
	}

	when_whole(act: () => void): void {
		this.page.when_whole(act);
	}

	// What is needed as soon as someone asks for more than the first picture, a slice at a time.
	async complete(rest: () => Promise<void>): Promise<void> {
		await this.page.complete(rest);
		for (const column of ["size", "stream", "done", "addr"] as const) {
			await rest();
			void this[column];
		}
	}

	private walk(): Series {
		const { effect, born, freed, block, flags } = this;
		let before = 0;
		for (let a = 0; a < this.rows; a++) {
			if (flags[a] & FLAG_PENDING) continue;
			if (born[a]) effect[born[a] - 1] = a + 1;
			else before += block[a];
			if (freed[a]) effect[freed[a] - 1] = -(a + 1);
		}
		return new Series(effect, block, before);
	}

	private reserve(): [Uint32Array, Float64Array] {
		const changes = new Map<number, number>([[0, 0]]);
		const add = (m: number, n: number) => changes.set(m, (changes.get(m) ?? 0) + n);
		for (let s = 0; s < this.segment_size.length; s++) {
			add(this.segment_born[s], this.segment_size[s]);
			if (this.segment_gone[s]) add(this.segment_gone[s], -this.segment_size[s]);
		}
		const from = Uint32Array.from([...changes.keys()].sort((a, b) => a - b));
		const total = new Float64Array(from.length);
		let sum = 0;
		for (let i = 0; i < from.length; i++) total[i] = sum += changes.get(from[i])!;
		return [from, total];
	}

	reserved(m: number): number {
		return this.reserved_bytes[last_at_or_before(this.reserved_from, m)];
	}

	get death_moment(): number | null {
		return this.death ? this.death.event + 1 : null;
	}

	category(a: number): number {
		return this.category_of_rule[this.rule[a]] ?? 0;
	}

	lives(a: number, m: number): boolean {
		return (
			this.born[a] <= m && (this.freed[a] === 0 || m < this.freed[a]) && !(this.flags[a] & FLAG_PENDING)
		);
	}

	// Rows that are allocated (or, if asked, active) at m, in the order of birth; not to be changed.  What was asked
	// for last is kept: several views ask for the cursor's moment.
	live(m: number, active = false): Uint32Array {
		const known = this.lived.find((one) => one.m === m && one.active === active);
		if (known) return known.rows;
		const rows = this.find_live(m, active);
		this.lived = [{ m, active, rows }, ...this.lived.slice(0, LIVED - 1)];
		return rows;
	}

	private find_live(m: number, active: boolean): Uint32Array {
		const { born, flags } = this;
		const ends = active ? this.done : this.freed;
		const end = this.first_born_after(m);
		const out = new Uint32Array(end);
		let n = 0;
		for (let a = 0; a < end; a++)
			if ((ends[a] === 0 || m < ends[a]) && (active || !(flags[a] & FLAG_PENDING)) && born[a] <= m)
				out[n++] = a;
		return out.slice(0, n);
	}

	// The first row with born > m.
	first_born_after(m: number): number {
		let low = 0;
		let high = this.rows;
		while (low < high) {
			const middle = (low + high) >>> 1;
			if (this.born[middle] > m) high = middle;
			else low = middle + 1;
		}
		return low;
	}

	// ---- stacks ----

	// Frame ids, innermost first; `stack` as in the column: 0 is none.
	frames_of(stack: number): ArrayLike<number> {
		return stack ? this.stack_frames.subarray(this.stack_first[stack - 1], this.stack_first[stack]) : [];
	}

	get stack_count(): number {
		return Math.max(0, this.stack_first.length - 1);
	}

	get frame_count(): number {
		return this.frame_name.length;
	}

	frame(id: number): Frame {
		const { strings } = this.head;
		return {
			name: strings[this.frame_name[id]] ?? "",
			file: strings[this.frame_file[id]] ?? "",
			line: this.frame_line[id],
		};
	}

	// Where its function's and file's names are in the strings.
	frame_strings(id: number): [number, number] {
		return [this.frame_name[id], this.frame_file[id]];
	}

	frame_text(id: number): string {
		const { name, file, line } = this.frame(id);
		if (!file || file === "??") return text.plain(name, 300);
		return text.plain(`${file}${line ? ":" + line : ""} in `, 300) + text.plain(name, 300);
	}

	// 1 + the user's frame of a stack; 0: none
	user_frame(stack: number): number {
		return stack ? this.stack_user[stack - 1] : 0;
	}

	// 1 + the innermost frame of a stack that is not PyTorch's; 0: none
	code_frame(stack: number): number {
		return stack ? this.stack_code[stack - 1] : 0;
	}

	// The allocations that a finding is about; none: it is about no single ones.
	shown(finding: number): Column {
		return this.shown_rows.subarray(this.shown_first[finding] ?? 0, this.shown_first[finding + 1] ?? 0);
	}

	// Who owns what has no stack: what was there before the recording began is not autograd's.
	nobody(a: number): number {
		return this.born[a] ? NOBODY : BEFORE;
	}

	// Whose an allocation is: without a stack NOBODY or BEFORE, else 2 * (frame + 1) + inferred.
	owner(a: number): number {
		const user = this.user_frame(this.stack[a]);
		return user ? 2 * user + (this.flags[a] & FLAG_INFERRED) : this.nobody(a);
	}

	owner_name(key: number): string {
		if (key === NOBODY || key === BEFORE) return nobody_words(key);
		return (key & 1 ? "(backward of) " : "") + this.frame_text((key >> 1) - 1);
	}

	// ---- time ----

	get timed(): boolean {
		return this.times.length >= 2 && !!this.head.time_stride;
	}

	// Microseconds since the first event; null: not recorded.  Between samples it is interpolated.
	time_us(m: number): number | null {
		const { times } = this;
		const stride = this.head.time_stride ?? 0;
		if (!this.timed) return null;
		const event = Math.max(0, m - 1);
		const i = Math.min(Math.floor(event / stride), times.length - 2);
		const from = i * stride;
		const to = i === times.length - 2 ? this.events - 1 : from + stride;
		return times[i] - times[0] + ((times[i + 1] - times[i]) * (event - from)) / Math.max(1, to - from);
	}

	// The first moment that is not before this time.
	moment_of_time(us: number): number {
		let low = 0;
		let high = this.events;
		while (low < high) {
			const middle = (low + high) >>> 1;
			if ((this.time_us(middle) ?? 0) < us) low = middle + 1;
			else high = middle;
		}
		return low;
	}

	phase_at(m: number): string | null {
		if (!this.phase_from.length) return null;
		const i = last_at_or_before(this.phase_from, m);
		return i < 0 ? null : this.head.phases[this.phase[i]];
	}

	step_at(m: number): Step | null {
		const event = Math.max(0, m - 1);
		let low = 0;
		let high = this.steps.length - 1;
		while (low <= high) {
			const middle = (low + high) >> 1;
			const step = this.steps[middle];
			if (event < step.start_event) high = middle - 1;
			else if (event > step.end_event) low = middle + 1;
			else return step;
		}
		return null;
	}

	// "event 41,735 of 42,060, step 15 backward, 12.31 s"
	moment_text(m: number): string {
		const parts = [m === 0 ? "before the first event" : `event ${text.count(m - 1)}`];
		const step = this.step_at(m);
		const phase = this.phase_at(m);
		if (step) parts.push(`step ${step.index}${phase ? " " + phase : ""}`);
		else if (phase) parts.push(phase);
		const time = this.time_us(m);
		if (time !== null) parts.push(text.duration(time));
		return parts.join(", ");
	}

	// ---- segments ----

	segments(m: number): Segment[] {
		const out: Segment[] = [];
		for (let s = 0; s < this.segment_size.length; s++) {
			const gone = this.segment_gone[s];
			if (this.segment_born[s] > m || (gone && gone <= m)) continue;
			out.push(this.segment(s));
		}
		return join_ranges(out.sort((a, b) => a.addr - b.addr));
	}

	segment_kind(s: number): { large: boolean; expandable: boolean } {
		const flags = this.segment_flags[s];
		return { large: (flags & SEGMENT_LARGE) !== 0, expandable: (flags & SEGMENT_EXPANDABLE) !== 0 };
	}

	segment(s: number): Segment {
		return {
			row: s,
			stack: this.segment_stack[s],
			addr: this.segment_addr[s],
			size: this.segment_size[s],
			pool: this.pool_label(this.segment_pool[s]),
			...this.segment_kind(s),
			stream: this.head.streams[this.segment_stream[s]] ?? "0",
		};
	}

	// Where no private pool is known, what is not recorded is the default one.
	private pool_label(pool: number): string {
		const { pools } = this.head;
		const name = pools[pool]?.name;
		if (name) return name;
		return pools.some((p) => p.name?.startsWith(PRIVATE)) ? "pool not recorded" : "default";
	}

	// The pool of an allocation: 1 + 2 * pool + is it of large blocks?  0: it lies in no segment.
	pool(a: number): number {
		const s = this.segment_of(a);
		return s < 0 ? 0 : 1 + 2 * this.segment_pool[s] + (this.segment_flags[s] & SEGMENT_LARGE);
	}

	// Was it freed while another stream still used it?  The very next event completes most frees.
	waits(a: number): boolean {
		const { freed, done } = this;
		return freed[a] !== 0 && done[a] !== freed[a] && done[a] !== freed[a] + 1;
	}

	// The row of the segment that it was placed in; -1: none.
	segment_of(a: number): number {
		this.in_segment ??= this.find_segments();
		return this.in_segment[a];
	}

	// The mapped range that follows a range at m; -1: none.
	segment_behind(s: number, m: number): number {
		if (!this.segments_at) {
			this.segments_at = new Map();
			this.segment_addr.forEach((addr, row) => {
				const rows = this.segments_at!.get(addr);
				if (rows) rows.push(row);
				else this.segments_at!.set(addr, [row]);
			});
		}
		const { segment_born: born, segment_gone: gone } = this;
		const rows = this.segments_at.get(this.segment_addr[s] + this.segment_size[s]) ?? [];
		return rows.find((row) => born[row] <= m && (!gone[row] || m < gone[row])) ?? -1;
	}

	is_private(pool: number): boolean {
		return this.pool_name(pool).startsWith(PRIVATE);
	}

	pool_name(key: number): string {
		if (!key) return "no segment";
		return `${this.pool_label((key - 1) >> 1)}, ${(key - 1) & 1 ? "large" : "small"} blocks`;
	}

	// Segments and allocations in the order of their births; `live` holds segments by address.
	private find_segments(): Int32Array {
		const out = new Int32Array(this.rows).fill(-1);
		const live: number[] = [];
		const ends = Array.from(this.segment_gone.keys())
			.filter((s) => this.segment_gone[s])
			.sort((s, t) => this.segment_gone[s] - this.segment_gone[t]);
		const at_or_before = (addr: number) => {
			let low = 0;
			let high = live.length;
			while (low < high) {
				const middle = (low + high) >>> 1;
				if (this.segment_addr[live[middle]] > addr) high = middle;
				else low = middle + 1;
			}
			return low - 1;
		};
		let born = 0;
		let gone = 0;
		for (let a = 0; a < this.rows; a++) {
			const m = this.born[a];
			for (; gone < ends.length && this.segment_gone[ends[gone]] <= m; gone++) {
				const i = live.indexOf(ends[gone]);
				if (i >= 0) live.splice(i, 1);
			}
			for (; born < this.segment_born.length && this.segment_born[born] <= m; born++)
				if (!this.segment_gone[born] || this.segment_gone[born] > m)
					live.splice(at_or_before(this.segment_addr[born]) + 1, 0, born);
			const s = live[at_or_before(this.addr[a])];
			if (s !== undefined && this.addr[a] < this.segment_addr[s] + this.segment_size[s]) out[a] = s;
		}
		return out;
	}
}

// Mapped ranges of expandable segments that touch are one, however often they grew.
function join_ranges(segments: Segment[]): Segment[] {
	const out: Segment[] = [];
	for (const segment of segments) {
		const before = out[out.length - 1];
		const joins =
			before?.expandable &&
			segment.expandable &&
			before.addr + before.size === segment.addr &&
			before.pool === segment.pool &&
			before.large === segment.large &&
			before.stream === segment.stream;
		if (joins) before.size += segment.size;
		else out.push(segment);
	}
	return out;
}

// The last index with from[i] <= m; -1: none.
export function last_at_or_before(from: ArrayLike<number>, m: number): number {
	let low = 0;
	let high = from.length;
	while (low < high) {
		const middle = (low + high) >>> 1;
		if (from[middle] > m) high = middle;
		else low = middle + 1;
	}
	return low - 1;
}
