// The filter language: `size>=64MiB category:activations NOT file:optim (step:3 OR step:4)`.  A word without a field
// is a size, an address or part of a name.  Each part gives a byte for every allocation: 1 where it holds.

import type { Recording } from "./recording";
import * as text from "./text";

export interface Filter {
	found: Uint8Array;
	words: string; // how it was read
}

// What is wrong with a filter, for the reader.
export class Unreadable extends Error {}

const K = 1024;
const units: Record<string, number> = {
	"": 1,
	b: 1,
	k: K,
	kib: K,
	kb: 1e3,
	m: K ** 2,
	mib: K ** 2,
	mb: 1e6,
	g: K ** 3,
	gib: K ** 3,
	gb: 1e9,
	t: K ** 4,
	tib: K ** 4,
	tb: 1e12,
};

function bytes_of(words: string): number | null {
	const parts = /^([\d,]+(?:\.\d+)?)([a-z]*)$/i.exec(words.replace(/\s+/g, ""));
	const unit = parts && units[parts[2].toLowerCase()];
	return parts && unit ? Number(parts[1].replace(/,/g, "")) * unit : null;
}

function number_of(words: string): number | null {
	return /^[\d,]+$/.test(words) ? Number(words.replace(/,/g, "")) : null;
}

type Test = (a: number) => boolean;

function mark(recording: Recording, test: Test): Uint8Array {
	const out = new Uint8Array(recording.rows);
	for (let a = 0; a < out.length; a++) out[a] = test(a) ? 1 : 0;
	return out;
}

// "<", ">=2", "3..5", "3": of a number of each allocation.  A size that is written with few digits means what is
// shown with these.
function compare(
	sign: string,
	words: string,
	read: (words: string) => number | null,
	of: (a: number) => number,
): Test {
	const [low, high] = words.split("..").map((part) => read(part.trim()));
	if (low === null || high === null) throw new Unreadable(`"${words}" is no number`);
	if (high !== undefined) return (a) => of(a) >= low && of(a) <= high;
	const tests: Record<string, Test> = {
		"<": (a) => of(a) < low,
		"<=": (a) => of(a) <= low,
		">": (a) => of(a) > low,
		">=": (a) => of(a) >= low,
		"!=": (a) => of(a) !== low,
	};
	if (tests[sign]) return tests[sign];
	if (read !== bytes_of || low < K || sign === "=") return (a) => of(a) === low;
	const shown = text.bytes(low);
	return (a) => of(a) === low || text.bytes(of(a)) === shown;
}

// Which stacks have a frame like this?  `part`: of what is looked at.
function by_frame(recording: Recording, wish: string, part: "file" | "function" | "any"): Uint8Array {
	const has = recording.head.strings.map((s) => s.toLowerCase().includes(wish));
	const frames = new Uint8Array(recording.frame_count);
	for (let f = 0; f < frames.length; f++) {
		const [name, file] = recording.frame_strings(f);
		frames[f] = (part !== "file" && has[name]) || (part !== "function" && has[file]) ? 1 : 0;
		if (!frames[f] && part !== "function" && /:| in /.test(wish)) {
			const frame = recording.frame(f);
			frames[f] = `${frame.file}:${frame.line} in ${frame.name}`.toLowerCase().includes(wish) ? 1 : 0;
		}
	}
	const stacks = new Uint8Array(recording.stack_count + 1);
	for (let s = 1; s < stacks.length; s++) {
		const list = recording.frames_of(s);
		for (let k = 0; k < list.length && !stacks[s]; k++) stacks[s] = frames[list[k]];
	}
	return stacks;
}

// One of a list of names: whole, or as it begins.
function by_choice(names: string[], wish: string, of: (a: number) => number): Test {
	const low = names.map((n) => n.toLowerCase());
	const whole = low.map((n) => n === wish);
	const some = whole.some(Boolean) ? whole : low.map((n) => n.startsWith(wish));
	return (a) => some[of(a)] ?? false;
}

function by_address(recording: Recording, wish: string): Test {
	const { addr, block } = recording;
	const digits = wish.replace(/^0x/, "").replace(/(\.\.\.|…|\*)$/, "");
	if (!/^[0-9a-f]{1,16}$/.test(digits)) throw new Unreadable(`"${wish}" is no address`);
	const at = parseInt(digits, 16);
	return (a) => (at >= addr[a] && at < addr[a] + block[a]) || addr[a].toString(16).startsWith(digits);
}

interface Field {
	names: string[];
	about: string;
	values?: (recording: Recording) => string[]; // for completion
	test: (recording: Recording, sign: string, words: string) => Test;
}

const event = (m: number) => m - 1;

export const fields: Field[] = [
	{
		names: ["size"],
		about: "bytes that were asked for: size>=64MiB, size:1k..2k",
		test: (r, sign, words) => compare(sign, words, bytes_of, (a) => r.size[a]),
	},
	{
		names: ["block"],
		about: "bytes of its block",
		test: (r, sign, words) => compare(sign, words, bytes_of, (a) => r.block[a]),
	},
	{
		names: ["life", "lifetime"],
		about: "events that it lives: life<10",
		test: (r, sign, words) =>
			compare(sign, words, number_of, (a) => (r.freed[a] || r.events) - r.born[a]),
	},
	{
		names: ["category"],
		about: "what it is for",
		values: (r) => r.head.categories.map((c) => c.name),
		test: (r, _, words) =>
			either(
				by_choice(
					r.head.categories.map((c) => c.name),
					words,
					(a) => r.category(a),
				),
				by_choice(
					r.head.categories.map((c) => c.id),
					words,
					(a) => r.category(a),
				),
			),
	},
	{
		names: ["phase"],
		about: "the phase that it was born in",
		values: (r) => r.head.phases,
		test: (r, _, words) => (a) => (r.phase_at(r.born[a]) ?? "").startsWith(words),
	},
	{
		names: ["step"],
		about: "the step that it was born in: step:3, step>=10",
		test: (r, sign, words) => compare(sign, words, number_of, (a) => r.step_at(r.born[a])?.index ?? -1),
	},
	{
		names: ["stream"],
		about: "its stream",
		values: (r) => r.head.streams,
		test: (r, _, words) => by_choice(r.head.streams, words, (a) => r.stream[a]),
	},
	{
		names: ["pool"],
		about: "its pool: small, large, private",
		values: () => ["small", "large", "private", "default"],
		test: (r, _, words) => (a) => r.pool_name(r.pool(a)).toLowerCase().includes(words),
	},
	{
		names: ["file"],
		about: "a file of its stack: file:model.py:12",
		values: (r) => [...new Set(r.head.strings.filter((s) => /\.py$/.test(s)).map(text.short_place))],
		test: (r, _, words) => in_stack(r, words, "file"),
	},
	{
		names: ["function", "func"],
		about: "a function of its stack",
		test: (r, _, words) => in_stack(r, words, "function"),
	},
	{
		names: ["frame", "stack"],
		about: "text of any frame of its stack",
		test: (r, _, words) => in_stack(r, words, "any"),
	},
	{
		names: ["address", "addr"],
		about: "its address, or how that begins: address:0x7f",
		test: (r, _, words) => by_address(r, words),
	},
	{
		names: ["born"],
		about: "the event of its birth: born>=1000",
		test: (r, sign, words) => compare(sign, words, number_of, (a) => event(r.born[a])),
	},
	{
		names: ["freed"],
		about: "the event of its end; freed:never",
		values: () => ["never"],
		test: (r, sign, words) =>
			words === "never"
				? (a) => r.freed[a] === 0
				: compare(sign, words, number_of, (a) => (r.freed[a] ? event(r.freed[a]) : Infinity)),
	},
	{
		names: ["live"],
		about: "allocated after this event: live:1000, live:peak, live:end",
		values: (r) => ["peak", "end", ...(r.death ? ["death"] : [])],
		test: (r, _, words) => {
			const named: Record<string, number | null> = {
				peak: r.peak_moment,
				end: r.events,
				death: r.death_moment,
			};
			const m =
				words in named ? named[words] : number_of(words) === null ? null : number_of(words)! + 1;
			if (m === null) throw new Unreadable(`"${words}" is no event`);
			return (a) => r.lives(a, m);
		},
	},
	{
		names: ["line"],
		about: "whose line it is, by its number on this page",
		test: (r, _, words) => (a) => r.owner(a) === Number(words),
	},
];

function either(one: Test, other: Test): Test {
	return (a) => one(a) || other(a);
}

function in_stack(recording: Recording, wish: string, part: "file" | "function" | "any"): Test {
	const stacks = by_frame(recording, wish, part);
	return (a) => stacks[recording.stack[a]] === 1;
}

// ---- reading ----

interface Token {
	words: string;
	quoted: boolean;
}

function split(query: string): Token[] {
	const out: Token[] = [];
	for (const [, quoted, bracket, plain] of query.matchAll(/"([^"]*)"?|([()])|([^\s()"]+)/g))
		out.push({ words: quoted ?? bracket ?? plain, quoted: quoted !== undefined });
	return out;
}

const is_unit = (token: Token | undefined) =>
	!!token && !token.quoted && /^[kmgt]?i?b$|^[kmgt]$/i.test(token.words);

class Reader {
	private tokens: Token[];
	private at = 0;
	readonly words: string[] = [];

	constructor(
		private recording: Recording,
		query: string,
	) {
		this.tokens = split(query);
	}

	private is(word: string): boolean {
		const token = this.tokens[this.at];
		return !!token && !token.quoted && token.words.toUpperCase() === word;
	}

	private take(word: string): boolean {
		if (!this.is(word)) return false;
		this.words.push(word);
		this.at++;
		return true;
	}

	whole(): Uint8Array {
		const out = this.any();
		if (this.at < this.tokens.length) throw new Unreadable("a bracket is closed that was not opened");
		return out;
	}

	private any(): Uint8Array {
		const out = this.all();
		while (this.take("OR")) this.all().forEach((n, a) => (out[a] |= n));
		return out;
	}

	private all(): Uint8Array {
		const out = this.one();
		while (this.at < this.tokens.length && !this.is("OR") && !this.is(")")) {
			this.take("AND");
			this.one().forEach((n, a) => (out[a] &= n));
		}
		return out;
	}

	private one(): Uint8Array {
		if (this.take("NOT")) return this.one().map((n) => 1 - n);
		if (this.take("(")) {
			const out = this.any();
			if (!this.take(")")) throw new Unreadable("a bracket is not closed");
			return out;
		}
		const token = this.tokens[this.at++];
		if (!token) throw new Unreadable("something is missing at its end");
		if (!token.quoted && token.words.length > 1 && token.words.startsWith("-")) {
			this.tokens[--this.at] = { words: token.words.slice(1), quoted: false };
			this.words.push("NOT");
			return this.one().map((n) => 1 - n);
		}
		return this.part(token);
	}

	// "64 MiB" is one number, and so is "size >= 64 MiB".
	private number_behind(words: string): string {
		if (/^[\d,.]+$/.test(words) && is_unit(this.tokens[this.at])) words += this.tokens[this.at++].words;
		return words;
	}

	private part(token: Token): Uint8Array {
		const { recording } = this;
		const named = token.quoted ? null : /^([a-z]+)(:|!=|<=|>=|=|<|>)(.*)$/i.exec(token.words);
		let field = named && fields.find((f) => f.names.includes(named[1].toLowerCase()));
		let [sign, value] = named ? [named[2], named[3]] : ["", ""];
		const next = this.tokens[this.at];
		const apart = !token.quoted && /^(!=|<=|>=|=|<|>)(.*)$/.exec(next?.words ?? "");
		if (!field && !named && apart && !next.quoted) {
			field = fields.find((f) => f.names.includes(token.words.toLowerCase()));
			if (field) {
				[, sign, value] = apart;
				this.at++;
			}
		}
		if (!field) return this.bare(token);
		if (!value && this.at < this.tokens.length) value = this.tokens[this.at++].words;
		if (!value) throw new Unreadable(`${field.names[0]} of what? ${field.about}`);
		if (sign === ":" && /^(<=|>=|<|>)/.test(value)) {
			sign = /^[<>]=?/.exec(value)![0];
			value = value.slice(sign.length);
		}
		value = this.number_behind(value);
		this.words.push(`${field.names[0]}${sign}${value}`);
		const found = mark(recording, field.test(recording, sign, value.toLowerCase()));
		return sign === "!=" && !/^(size|block|life|step|born|freed)$/.test(field.names[0])
			? found.map((n) => 1 - n)
			: found;
	}

	// A size, an address, or part of a name.
	private bare(token: Token): Uint8Array {
		const { recording } = this;
		const { size, block } = recording;
		const wish = token.quoted ? token.words : this.number_behind(token.words);
		const low = wish.toLowerCase();
		if (!token.quoted && /^0x[0-9a-f]+(\.\.\.|…|\*)?$/.test(low)) {
			this.words.push(`address ${wish}`);
			return mark(recording, by_address(recording, low));
		}
		const number = token.quoted ? null : /^(<=?|>=?|=|)([\d,]+(?:\.\d+)?[a-z]*)$/i.exec(wish);
		if (number && bytes_of(number[2]) !== null) {
			const [, sign, digits] = number;
			this.words.push(`size${sign || ":"}${text.bytes(bytes_of(digits))}`);
			const of_size = compare(sign, digits, bytes_of, (a) => size[a]);
			if (sign.startsWith("<") || sign.startsWith(">")) return mark(recording, of_size);
			return mark(
				recording,
				either(
					of_size,
					compare(sign, digits, bytes_of, (a) => block[a]),
				),
			);
		}
		this.words.push(wish);
		const names = recording.head.categories.flatMap((c, k) =>
			c.name.toLowerCase() === low || c.id === low ? [k] : [],
		);
		const in_frames = in_stack(recording, low, "any");
		return mark(
			recording,
			either(in_frames, (a) => names.includes(recording.category(a))),
		);
	}
}

// null: nothing is looked for.  Throws Unreadable.
export function read_filter(recording: Recording, query: string): Filter | null {
	if (!query.trim()) return null;
	const reader = new Reader(recording, query);
	const found = reader.whole();
	return { found, words: reader.words.join(" ") };
}

const MOST_OFFERED = 10;

// What could stand in place of the last word: [the whole query then, what it means].
export function completions(recording: Recording, query: string): [string, string][] {
	const [, before, last] = /^([^]*?)([^\s()]*)$/.exec(query)!;
	const at = /^(-?)([a-z]+):(.*)$/i.exec(last);
	if (at) {
		const field = fields.find((f) => f.names.includes(at[2].toLowerCase()));
		const values = field?.values?.(recording) ?? [];
		return values
			.filter((v) => v.toLowerCase().startsWith(at[3].toLowerCase()) && v !== at[3])
			.slice(0, MOST_OFFERED)
			.map((v) => {
				const value = text.plain(v, 80);
				return [
					`${before}${at[1]}${at[2]}:${/[\s()]/.test(value) ? `"${value}"` : value} `,
					field!.about,
				];
			});
	}
	const words: [string, string][] = fields
		.filter((f) => f.names[0] !== "line" && f.names.some((n) => n.startsWith(last.toLowerCase())))
		.map((f) => [`${before}${f.names[0]}:`, f.about]);
	if (before.trim() && "NOT".startsWith(last.toUpperCase()))
		words.push([`${before}NOT `, "all but what follows"]);
	if (before.trim() && "OR".startsWith(last.toUpperCase()))
		words.push([`${before}OR `, "one or the other"]);
	return words.slice(0, last || !query ? MOST_OFFERED : 0);
}
