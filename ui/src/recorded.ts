// A packed recording as the page's columns, without what the program finds out: no verdict, phases or categories.

import { type Column, type Head, type Source, clean } from "./page";
import {
	ALLOC,
	COMPLETED,
	INACTIVE,
	OOM,
	type Part,
	type PlimBlock,
	type PlimSegment,
	REQUESTED,
	SEGMENT_ALLOC,
	SEGMENT_FREE,
	SEGMENT_MAP,
	SEGMENT_UNMAP,
} from "./plim";
import { FLAG_PENDING, last_at_or_before } from "./recording";
import type { ReportDevice, ReportOom } from "./results";
import * as text from "./text";

const TIMES_MOST = 65536;
const AFTERLIFE = 16; // allocations that may follow what killed the run, as snapshot_find_death() has it
const LEAST_BLOCK = 512;
const LARGE_FROM = 2 ** 21; // bytes of a segment of small blocks

class Recorded implements Source {
	constructor(
		readonly head: Head,
		private columns: Record<string, Column>,
	) {}

	rows(table: string): number {
		return Object.entries(this.columns).reduce(
			(most, [name, column]) => (name.startsWith(table + ".") ? Math.max(most, column.length) : most),
			0,
		);
	}

	column(name: string, rows = 0): Column {
		return (this.columns[name] ??= new Uint8Array(rows));
	}

	when_whole(act: () => void): void {
		act();
	}

	async complete(): Promise<void> {}
}

// What is the same in several chunks has one number.
class Numbered<T> {
	readonly list: T[] = [];
	private known = new Map<string, number>();

	of(value: T): number {
		const key = String(value);
		let at = this.known.get(key);
		if (at === undefined) {
			this.known.set(key, (at = this.list.length));
			this.list.push(value);
		}
		return at;
	}
}

// Stacks and names of all chunks, one behind the other.
class Names {
	readonly strings = new Numbered<string>();
	readonly columns: Record<string, Column> = {};
	readonly first_stack: number[] = []; // of each chunk
	private lines: string[] = []; // of each frame

	constructor(parts: Part[]) {
		const frames = parts.flatMap((part) => part.frames);
		this.columns["frames.name"] = Uint32Array.from(frames, (f) => this.strings.of(f.name));
		this.columns["frames.file"] = Uint32Array.from(frames, (f) => this.strings.of(f.file));
		this.columns["frames.line"] = Uint32Array.from(frames, (f) => Math.max(0, f.line));
		this.lines = frames.map((f) => f.file);
		const first = [0];
		const held: number[] = [];
		const user: number[] = [];
		const code: number[] = [];
		let from = 0;
		for (const part of parts) {
			this.first_stack.push(user.length);
			for (const stack of part.stacks) {
				for (const frame of stack) held.push(from + frame);
				const mine = held.slice(first[first.length - 1]);
				first.push(held.length);
				user.push(
					this.innermost(mine, /(^|\/)(site|dist)-packages\/|(^|\/)torch\/|\/lib\/python3|^</),
				);
				code.push(this.innermost(mine, /(^|\/)torch\/|^</));
			}
			from += part.frames.length;
		}
		this.columns["stacks.first"] = Uint32Array.from(first);
		this.columns["stacks.frames"] = Uint32Array.from(held);
		this.columns["stacks.user"] = Uint32Array.from(user);
		this.columns["stacks.code"] = Uint32Array.from(code);
	}

	// 1 + the innermost Python frame that is not of others; 0: none.
	private innermost(frames: number[], others: RegExp): number {
		return 1 + (frames.find((f) => /\.py$/.test(this.lines[f]) && !others.test(this.lines[f])) ?? -1);
	}
}

interface Life {
	born: number;
	freed: number;
	done: number;
	addr: number;
	size: number;
	stack: number;
	stream: number;
	flags: number;
}

// The lives of allocations and of segments, from the events and from what stands at the end.
class Walk {
	readonly before: Life[] = [];
	readonly after: Life[] = [];
	readonly ooms: { event: number; free: number; size: number; time: number | null }[] = [];
	readonly segments: {
		born: number;
		gone: number;
		addr: number;
		size: number;
		stream: number;
		pool: number;
		stack: number;
		large: boolean;
		expandable: boolean;
	}[] = [];
	readonly times: number[] = [];
	readonly labels: { event: number; text: string }[] = [];
	readonly allocs: number[] = []; // events that allocate
	events = 0;
	private live = new Map<number, Life>();

	private life(born: number, addr: number, size: number, stream: number, stack: number): Life {
		const life = { born, freed: 0, done: 0, addr, size, stack, stream, flags: 0 };
		(born ? this.after : this.before).push(life);
		this.live.set(addr, life);
		return life;
	}

	add(
		part: Part,
		device: number,
		stream_of: (at: number) => number,
		pool_of: (at: number) => number,
		first_stack: number,
	): void {
		const of = part.devices[device];
		if (!of) return;
		const first = this.events;
		for (let e = 0; e < of.count; e++) {
			const m = ++this.events;
			const action = of.action[e];
			const [addr, size] = [of.addr[e], of.size[e]];
			const stack = of.stack[e] ? first_stack + of.stack[e] : 0;
			const stream = stream_of(of.stream[e]);
			if (part.has_time) this.times.push(Math.max(of.time[e], this.times[this.times.length - 1] ?? 0));
			if (action === ALLOC) {
				this.life(m, addr, size, stream, stack);
				this.allocs.push(m - 1);
			} else if (action === REQUESTED)
				(this.live.get(addr) ?? this.life(0, addr, size, stream, 0)).freed = m;
			else if (action === COMPLETED) this.complete(m, addr, size, stream);
			else if (action === SEGMENT_ALLOC || action === SEGMENT_MAP)
				this.segments.push({
					born: m,
					gone: 0,
					addr,
					size,
					stream,
					pool: pool_of(of.pool[e]),
					stack,
					large: size > LARGE_FROM,
					expandable: action === SEGMENT_MAP,
				});
			else if (action === SEGMENT_FREE || action === SEGMENT_UNMAP)
				this.unmap(m, addr, size, stream, action === SEGMENT_UNMAP);
			else if (action === OOM)
				this.ooms.push({ event: m - 1, free: addr, size, time: this.times[m - 1] ?? null });
		}
		for (const { row, is_context, text } of of.labels)
			if (!is_context) this.labels.push({ event: first + row, text });
	}

	private complete(m: number, addr: number, size: number, stream: number): void {
		let life = this.live.get(addr);
		if (!life) {
			life = this.life(0, addr, size, stream, 0);
			life.flags = FLAG_PENDING;
		} else if (!life.freed && life.born) life.freed = m;
		life.done = m;
		this.live.delete(addr);
	}

	// Those that lie in it end; what is none of theirs was there before.
	private unmap(m: number, addr: number, size: number, stream: number, expandable: boolean): void {
		let rest: [number, number][] = [[addr, addr + size]];
		for (const s of this.segments.filter(
			(s) => !s.gone && s.addr < addr + size && addr < s.addr + s.size,
		)) {
			const [from, to] = [Math.max(addr, s.addr), Math.min(addr + size, s.addr + s.size)];
			if (s.addr < from) this.segments.push({ ...s, size: from - s.addr });
			if (to < s.addr + s.size) this.segments.push({ ...s, addr: to, size: s.addr + s.size - to });
			[s.addr, s.size, s.gone] = [from, to - from, m];
			rest = without(rest, from, to);
		}
		for (const [from, to] of rest)
			this.segments.push({
				born: 0,
				gone: m,
				addr: from,
				size: to - from,
				stream,
				pool: 0,
				stack: 0,
				large: to - from > LARGE_FROM,
				expandable,
			});
	}

	// What stands at the end and was not seen to come was there before.
	stand(
		ends: PlimSegment[],
		stream_of: (at: number) => number,
		pool_of: (at: number) => number,
		first_stack: number,
	): Map<number, number> {
		const blocks = new Map<number, number>();
		const there = this.segments.filter((s) => !s.gone).sort((a, b) => a.addr - b.addr);
		for (const end of ends) {
			let rest: [number, number][] = [[end.addr, end.addr + end.bytes]];
			for (const s of there) {
				if (s.addr >= end.addr + end.bytes || s.addr + s.size <= end.addr) continue;
				[s.large, s.pool] = [end.large, pool_of(end.pool)];
				rest = without(rest, s.addr, s.addr + s.size);
			}
			const stack = end.stack ? first_stack + end.stack : 0;
			for (const [from, to] of rest)
				this.segments.push({
					born: 0,
					gone: 0,
					addr: from,
					size: to - from,
					stream: stream_of(end.stream),
					pool: pool_of(end.pool),
					stack,
					large: end.large,
					expandable: end.expandable,
				});
			for (const block of end.blocks) this.block(block, stream_of(end.stream), blocks, first_stack);
		}
		return blocks;
	}

	private block(block: PlimBlock, stream: number, blocks: Map<number, number>, first_stack: number): void {
		if (block.state === INACTIVE) return;
		blocks.set(block.addr, block.bytes);
		if (this.live.has(block.addr)) return;
		const stack = block.stack ? first_stack + block.stack : 0;
		const life = this.life(0, block.addr, block.requested, stream, stack);
		if (block.state !== 0) life.flags = FLAG_PENDING;
	}

	lives(addr: number): Life | undefined {
		return this.live.get(addr);
	}
}

function without(list: [number, number][], from: number, to: number): [number, number][] {
	return list.flatMap(([a, b]): [number, number][] =>
		b <= from || to <= a
			? [[a, b]]
			: ([
					[a, Math.min(b, from)],
					[Math.max(a, to), b],
				].filter(([x, y]) => x < y) as [number, number][]),
	);
}

function alloc_columns(walk: Walk, blocks: Map<number, number>): Record<string, Column> {
	const rows = [...walk.before, ...walk.after];
	const block = (life: Life) =>
		(walk.lives(life.addr) === life ? blocks.get(life.addr) : undefined) ??
		Math.max(LEAST_BLOCK, LEAST_BLOCK * Math.ceil(life.size / LEAST_BLOCK));
	return {
		"allocs.born": Uint32Array.from(rows, (r) => r.born),
		"allocs.freed": Uint32Array.from(rows, (r) => r.freed),
		"allocs.done": Uint32Array.from(rows, (r) => r.done),
		"allocs.addr": Float64Array.from(rows, (r) => r.addr),
		"allocs.size": Float64Array.from(rows, (r) => r.size),
		"allocs.block": Float64Array.from(rows, block),
		"allocs.stack": Uint32Array.from(rows, (r) => r.stack),
		"allocs.rule": new Uint8Array(rows.length),
		"allocs.flags": Uint8Array.from(rows, (r) => r.flags),
		"allocs.stream": Uint32Array.from(rows, (r) => r.stream),
	};
}

function segment_columns({ segments }: Walk): Record<string, Column> {
	segments.sort((a, b) => a.born - b.born || a.addr - b.addr);
	return {
		"segments.born": Uint32Array.from(segments, (s) => s.born),
		"segments.gone": Uint32Array.from(segments, (s) => s.gone),
		"segments.addr": Float64Array.from(segments, (s) => s.addr),
		"segments.size": Float64Array.from(segments, (s) => s.size),
		"segments.pool": Uint32Array.from(segments, (s) => s.pool),
		"segments.stream": Uint32Array.from(segments, (s) => s.stream),
		"segments.flags": Uint8Array.from(segments, (s) => (s.large ? 1 : 0) + (s.expandable ? 2 : 0)),
		"segments.stack": Uint32Array.from(segments, (s) => s.stack),
	};
}

// As src/recordings/page/ranges.c has them.
function range_columns(walk: Walk, parts: Part[], device: number, names: Names): Record<string, Column> {
	const rows: { from: number; to: number; name: string; flags: number; start: number; end: number }[] = [];
	const open = new Map<string, number[]>();
	const after = (time: number) => last_at_or_before(walk.times, time) + 1;
	for (const { name, time, device: of, end } of walk.times.length
		? parts.flatMap((p) => p.annotations)
		: []) {
		if (of !== device) continue;
		const opened = end ? open.get(name)?.pop() : undefined;
		if (opened !== undefined) {
			const row = rows[opened];
			[row.to, row.end, row.flags] = [Math.max(row.from, after(time)), time, 0];
			continue;
		}
		if (!end) {
			if (!open.has(name)) open.set(name, []);
			open.get(name)!.push(rows.length);
		}
		rows.push(
			end
				? { from: 0, to: after(time), name, flags: 1, start: -Infinity, end: time }
				: { from: after(time - 1), to: walk.events, name, flags: 2, start: time, end: Infinity },
		);
	}
	rows.sort((a, b) => (a.start === b.start ? b.end - a.end || 0 : a.start - b.start));
	const label_of = new Map(walk.labels.map(({ event, text }) => [event, text]));
	const runs: { from: number; to: number; name: string }[] = [];
	let before: string | undefined;
	for (const e of walk.labels.length ? walk.allocs : []) {
		const name = label_of.get(e);
		if (name !== undefined && name !== before) runs.push({ from: e, to: e + 1, name });
		else if (name !== undefined) runs[runs.length - 1].to = e + 1;
		before = name;
	}
	rows.push(...runs.map((run) => ({ ...run, flags: 4, start: 0, end: 0 })));
	return {
		"ranges.from": Uint32Array.from(rows, (r) => r.from),
		"ranges.to": Uint32Array.from(rows, (r) => r.to),
		"ranges.name": Uint32Array.from(rows, (r) => names.strings.of(r.name)),
		"ranges.flags": Uint8Array.from(rows, (r) => r.flags),
	};
}

function failures(walk: Walk): ReportOom[] {
	return walk.ooms.map(({ event, free, size, time }, i) => {
		const behind = walk.allocs.length - 1 - last_at_or_before(walk.allocs, event);
		return {
			event,
			time_us: time,
			survived: i < walk.ooms.length - 1 || behind > AFTERLIFE,
			requested_bytes: size,
			segment_bytes: size,
			stream: 0,
			pool: "",
			phase: null,
			step: null,
			frame: null,
			backward_of: null,
			code_frame: null,
			stack: [],
			live_bytes: null,
			reserved_bytes: null,
			bound_bytes: null,
			device_free_bytes: free,
			free_bytes: null,
			largest_free_bytes: null,
			annotations: [],
			verdict: null,
			tried: [],
		};
	});
}

// A word of a command, as a shell reads it.
export function shell_word(name: string): string {
	return /^[\w./+-]+$/.test(name) && !name.startsWith("-") ? name : `'./${name.replace(/'/g, "'\\''")}'`;
}

function report_of(walk: Walk, device: number, dropped: number): ReportDevice {
	const oom = failures(walk);
	const died = oom.find((one) => !one.survived);
	const unknown = {
		requested_bytes: null,
		active_bytes: null,
		allocated_bytes: null,
		reserved_bytes: null,
		categories: null,
	};
	const refused = died
		? ` ${text.bytes(died.requested_bytes)} was refused at event ${text.count(died.event)}.`
		: "";
	const told: ReportDevice["told"] = {
		kind: "fine",
		headline: null,
		lines: [
			{
				label: null,
				text: `Read in this browser: ${text.plural(walk.events, "event")}, no phases or categories.${refused}`,
				brief: null,
			},
			...(dropped
				? [
						{
							label: "limit",
							text: `${text.count(dropped)} older events were not kept by the recorder`,
							brief: null,
						},
					]
				: []),
		],
		remedies: [],
		held: null,
		kinds: null,
		holders: [],
		peak: null,
		gap: null,
		gap_at_peak: null,
		stop: null,
	};
	// What a page says of a recording, and no one found out here.
	return {
		device,
		events: walk.events,
		allocations: walk.before.length + walk.after.length,
		streams: 1,
		before: unknown,
		peak: null,
		end: unknown,
		oom,
		findings: [],
		leaks: [],
		fills: [],
		steps: [],
		step_basis: null,
		gap: null,
		gap_at_peak: null,
		stop: null,
		told,
	} as unknown as ReportDevice;
}

// One for each device that has anything.
export function recorded(parts: Part[], name: string, number: number): Source[] {
	const last = parts[parts.length - 1];
	const out: Source[] = [];
	const devices = Math.max(...parts.map((p) => p.devices.length));
	for (let device = 0; device < devices; device++) {
		const names = new Names(parts);
		const streams = new Numbered<bigint>();
		const pools = new Numbered<string>();
		pools.of("default");
		const pool_name = ([a, b]: [bigint, bigint]) => (a || b ? `private (${a}, ${b})` : "default");
		const walk = new Walk();
		const of = (part: Part) =>
			[
				(at: number) => streams.of(part.streams[at]),
				(at: number) => pools.of(pool_name(part.pools[at])),
				names.first_stack[parts.indexOf(part)],
			] as const;
		for (const part of parts) walk.add(part, device, ...of(part));
		const ends = last.segments.filter((s) => s.device === device);
		if (!walk.events && !ends.length) continue;
		const blocks = walk.stand(ends, ...of(last));
		const stride = Math.max(1, Math.ceil(walk.events / TIMES_MOST));
		const times = walk.times.filter((_, e) => e % stride === 0 || e === walk.times.length - 1);
		const dropped = parts[0].devices[device]?.dropped ?? 0;
		const columns: Record<string, Column> = {
			...alloc_columns(walk, blocks),
			...segment_columns(walk),
			...names.columns,
			...range_columns(walk, parts, device, names),
			"time.us": Float64Array.from(times.length === 1 ? [] : times),
		};
		const head = {
			format: "page/2",
			version: "",
			title: name,
			recording: number,
			events: walk.events,
			plan: false,
			limit_bytes: null,
			settings: null,
			report: {
				source: {
					path: null,
					kind: "plim",
					compression: null,
					bytes: null,
					decoded_bytes: null,
					events: walk.events,
					complete: !dropped,
					notes: [
						"a block that was freed counts what was asked for, rounded up to 512 B: totals may be lower than the program's",
					],
				},
				devices: [report_of(walk, device, dropped)],
				uneven: null,
			},
			categories: [{ id: "unknown", name: "unknown" }],
			rules: [{ category: 0, confidence_pct: 0, text: "read without the program" }],
			phases: [],
			streams: streams.list.map(String),
			pools: pools.list.map((pool) => ({ name: pool })),
			strings: names.strings.list,
			show: [],
			merged: [],
			time_stride: stride,
			read_here: `plimsoll report ${shell_word(name)} -o page.html`,
			columns: {},
		};
		out.push(new Recorded(clean(head) as Head, columns));
	}
	return out;
}
