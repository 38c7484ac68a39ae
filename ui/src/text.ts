// Numbers and names as the CLI writes them.

const KIB = 1024;
const units: [number, string][] = [
	[KIB ** 4, "TiB"],
	[KIB ** 3, "GiB"],
	[KIB ** 2, "MiB"],
	[KIB, "KiB"],
];

export function bytes(n: number | null | undefined): string {
	if (n === null || n === undefined) return "-";
	const size = Math.abs(n);
	for (const [unit, name] of units) if (size >= unit) return (n / unit).toFixed(2) + " " + name;
	return n + " B";
}

export function signed(n: number): string {
	return (n > 0 ? "+" : "") + bytes(n);
}

// With a comma between thousands.  The browser's own tables of languages take 30 ms to load, so they are not asked.
export function count(n: number | null | undefined): string {
	if (n === null || n === undefined) return "-";
	const digits = String(Math.abs(n));
	const point = digits.indexOf(".");
	const whole = point < 0 ? digits : digits.slice(0, point);
	if (!/^\d{4,}$/.test(whole)) return String(n);
	return (n < 0 ? "-" : "") + whole.replace(/\B(?=(?:\d{3})+$)/g, ",") + digits.slice(whole.length);
}

export function percent(part: number, whole: number): string {
	return whole > 0 ? ((100 * part) / whole).toFixed(part / whole < 0.1 ? 1 : 0) + " %" : "-";
}

export function hex(n: number): string {
	return "0x" + n.toString(16);
}

export function plural(n: number, one: string, many = one + "s"): string {
	return `${count(n)} ${n === 1 ? one : many}`;
}

export function duration(us: number): string {
	if (us < 1e3) return `${us.toFixed(0)} us`;
	if (us < 1e6) return `${(us / 1e3).toFixed(1)} ms`;
	if (us < 120e6) return `${(us / 1e6).toFixed(2)} s`;
	if (us < 7200e6) return `${Math.floor(us / 60e6)} min ${Math.floor((us % 60e6) / 1e6)} s`;
	return `${Math.floor(us / 3600e6)} h ${Math.floor((us % 3600e6) / 60e6)} min`;
}

// Directions and controls of a hostile name would rearrange what stands next to it.
const unprintable = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

const LONG = 200; // characters: of a shorter limit it is plain that there is more

export function plain(text: string, limit = 600): string {
	const more = limit < LONG ? "…" : `... (${count(text.length)} characters)`;
	const cut = text.length > limit ? text.slice(0, limit) + more : text;
	return cut.replace(unprintable, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
}

// The folders that all of these lie in.
export function folder_of(paths: string[]): string {
	let folder = paths[0] ?? "";
	while (!paths.every((path) => path.startsWith(folder)) || !/^$|\/$/.test(folder))
		folder = folder.slice(0, -1);
	return folder;
}

// Text of several lines: each of them as plain() has it.
export function lines(text: string): string {
	return text
		.split("\n")
		.map((line) => plain(line, 4096))
		.join("\n");
}

// "a/b/c.py:12 in f" without the folders, where there is little room.
export function short_place(text: string): string {
	const [, before, place] = /^(\(backward of\) )?([^]*)$/.exec(text)!;
	const end = place.indexOf(" in ");
	const slash = place.lastIndexOf("/", end < 0 ? undefined : end);
	return (before ?? "") + (slash < 0 ? place : place.slice(slash + 1));
}

// A round number of `base`-fold steps at or above n.
export function round_up(n: number): number {
	const power = 2 ** Math.floor(Math.log2(Math.max(n, 1)));
	for (const times of [1, 1.25, 1.5, 2]) if (times * power >= n) return times * power;
	return 2 * power;
}

// Places of axis marks in [from, top]: whole powers of two times 1, 2 or 5 parts of a unit.
export function byte_ticks(top: number, wanted: number, from = 0): number[] {
	const unit = units.find(([size]) => top - from >= size)?.[0] ?? 1;
	const rough = (top - from) / unit / Math.max(1, wanted);
	const power = 10 ** Math.floor(Math.log10(rough));
	const wide = [1, 2, 5, 10].map((times) => times * power).find((s) => s >= 0.75 * rough) ?? 0;
	const step = Math.max(1, wide * unit); // there is no part of a byte
	const out = [];
	for (let at = Math.ceil(from / step) * step; at <= top; at += step) out.push(at);
	return out;
}

export function event_ticks(from: number, to: number, wanted: number): number[] {
	const rough = (to - from) / Math.max(1, wanted);
	const power = 10 ** Math.floor(Math.log10(rough));
	const step = Math.max(1, [1, 2, 5, 10].map((times) => times * power).find((s) => s >= rough)!);
	const out = [];
	for (let at = Math.ceil(from / step) * step; at <= to; at += step) out.push(at);
	return out;
}

// Round times in [from, to], in microseconds, with as many digits as tell them apart.
export function time_ticks(from: number, to: number, wanted: number): { us: number; words: string }[] {
	const rough = Math.max(1, (to - from) / wanted);
	const minute = 60e6;
	const long = [1, 2, 5, 10, 15, 30, 60, 120, 360, 720, 1440].map((n) => n * minute);
	const power = 10 ** Math.floor(Math.log10(rough));
	const short = [1, 2, 5, 10].map((n) => n * power);
	const step = (rough > 20e6 ? [30e6, ...long] : short).find((s) => s >= rough) ?? 1440 * minute;
	const places = (unit: number) => Math.max(0, Math.ceil(Math.log10(unit / step)));
	const out = [];
	for (let us = Math.ceil(from / step) * step; us <= to; us += step) {
		let words = duration(us);
		if (us < 1) words = "0";
		else if (to < 1e6) words = `${(us / 1e3).toFixed(places(1e3))} ms`;
		else if (to < 120e6) words = `${(us / 1e6).toFixed(places(1e6))} s`;
		out.push({ us, words });
	}
	return out;
}

// Along an axis all numbers have one unit, that of its `span`.
export function axis_bytes(n: number, span = n): string {
	if (n === 0) return "0";
	const unit = units.find(([size]) => Math.abs(span) >= size);
	if (!unit) return bytes(Math.round(n));
	return `${Number((n / unit[0]).toFixed(2))} ${unit[1]}`;
}
