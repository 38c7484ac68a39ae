// The filter language: `size >= 64 MiB and frame ~ train.py and not (step = 3 or step = 4)`.  A word without a field is
// a size, an address or part of a name.  Each part gives a byte for every allocation: 1 where it holds.

import { FLAG_INFERRED, type Recording } from "./recording";
import * as text from "./text";

export interface Filter {
	found: Uint8Array;
	words: string; // how it was read
}

// What is wrong with a filter, for the reader, and the column (from 1) where it is.
export class Unreadable extends Error {
	constructor(
		readonly fault: string,
		readonly column?: number,
	) {
		super(column === undefined ? fault : `column ${column}: ${fault}`);
	}

	at(column: number): Unreadable {
		return new Unreadable(this.fault, this.column ?? column);
	}
}

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
	if (sign === "~")
		throw new Unreadable("~ asks for a part of a name; this is a number: < > = .. ask for it");
	const [low, high] = words.split("..").map((part) => read(part.trim()));
	if (low === null || high === null) throw new Unreadable(`"${words}" is not a number`);
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
	const near = 0.01 * K ** Math.floor(Math.log2(low) / 10); // what is further away has other digits
	return (a) => Math.abs(of(a) - low) <= near && text.bytes(of(a)) === shown;
}

// `~` and `:` ask for a part of a name, `=` for all of it.
function text_test(sign: string, wish: string): (words: string) => boolean {
	if (/^[<>]/.test(sign)) throw new Unreadable("< and > compare numbers; this is a name: ~ = : ask for it");
	return /^!?=$/.test(sign) ? (words) => words === wish : (words) => words.includes(wish);
}

// Which stacks have a frame like this?  `part`: of what is looked at.
function by_frame(
	recording: Recording,
	sign: string,
	wish: string,
	part: "file" | "function" | "any",
): Uint8Array {
	const test = text_test(sign, wish);
	const has = recording.head.strings.map((s) => test(s.toLowerCase()));
	const frames = new Uint8Array(recording.frame_count);
	for (let f = 0; f < frames.length; f++) {
		const [name, file] = recording.frame_strings(f);
		frames[f] = (part !== "file" && has[name]) || (part !== "function" && has[file]) ? 1 : 0;
		if (!frames[f] && part !== "function" && /:| in /.test(wish)) {
			const frame = recording.frame(f);
			frames[f] = test(`${frame.file}:${frame.line} in ${frame.name}`.toLowerCase()) ? 1 : 0;
		}
	}
	const stacks = new Uint8Array(recording.stack_count + 1);
	for (let s = 1; s < stacks.length; s++) {
		const list = recording.frames_of(s);
		for (let k = 0; k < list.length && !stacks[s]; k++) stacks[s] = frames[list[k]];
	}
	return stacks;
}

// Of each stack: is one of its frames, or what else is known of it, like this?
function by_stack(
	recording: Recording,
	sign: string,
	wish: string,
	words_of: (stack: number) => string,
): Test {
	const test = text_test(sign, wish);
	const known = new Map<string, boolean>();
	const stacks = new Uint8Array(recording.stack_count + 1);
	for (let s = 0; s < stacks.length; s++) {
		const words = words_of(s).toLowerCase();
		if (!known.has(words)) known.set(words, test(words));
		stacks[s] = known.get(words) ? 1 : 0;
	}
	const { stack } = recording;
	return (a) => stacks[stack[a]] === 1;
}

const frame_words = (r: Recording, frame: number) => (frame ? r.frame_text(frame - 1) : "");

// Which names of a list are meant: whole, or as they begin.
function choose_names(names: string[], sign: string, wish: string): boolean[] {
	const test = text_test(sign, wish);
	const low = names.map((n) => n.toLowerCase());
	const whole = low.map((n) => n === wish);
	const begins = sign === ":" && !whole.some(Boolean);
	return sign === "~" ? low.map(test) : begins ? low.map((n) => n.startsWith(wish)) : whole;
}

// Rows by what holds of their birth, which changes at few moments: `turns`, ascending.
function by_birth(recording: Recording, turns: Iterable<number>, holds: (m: number) => boolean): Uint8Array {
	const out = new Uint8Array(recording.rows);
	let from = 0;
	const fill_to = (m: number, end: number) => {
		const row = recording.first_born_after(end - 1);
		if (row > from && holds(m)) out.fill(1, from, row);
		from = Math.max(from, row);
		return end;
	};
	let m = 0;
	for (const turn of turns) m = fill_to(m, Math.max(m, turn));
	fill_to(m, recording.events + 1);
	return out;
}

function yes_or_no(sign: string, words: string, of: (a: number) => boolean): Test {
	if (sign !== ":" && !/^!?=$/.test(sign)) throw new Unreadable("this is true or false: = asks for it");
	if (words !== "true" && words !== "false") throw new Unreadable(`"${words}" is not true or false`);
	return (a) => of(a) === (words === "true");
}

function by_address(recording: Recording, wish: string): Test {
	const { addr, block } = recording;
	const digits = wish.replace(/^0x/, "").replace(/(\.\.\.|…|\*)$/, "");
	if (!/^[0-9a-f]{1,16}$/.test(digits)) throw new Unreadable(`"${wish}" is not an address`);
	const at = parseInt(digits, 16);
	return (a) => (at >= addr[a] && at < addr[a] + block[a]) || addr[a].toString(16).startsWith(digits);
}

interface Field {
	names: string[];
	about: string;
	values?: (recording: Recording) => string[]; // for completion
	test: (recording: Recording, sign: string, words: string) => Test | Uint8Array;
}

const event = (m: number) => m - 1;

const whether = (): string[] => ["true", "false"];

// Named as the keys of report --json, and in short.
export const fields: Field[] = [
	{
		names: ["size", "requested_bytes", "each_bytes"],
		about: "bytes that were asked for: size>=64MiB, size:1k..2k",
		test: (r, sign, words) => {
			const { size } = r;
			return compare(sign, words, bytes_of, (a) => size[a]);
		},
	},
	{
		names: ["block", "bytes", "allocated_bytes"],
		about: "bytes of its block",
		test: (r, sign, words) => {
			const { block } = r;
			return compare(sign, words, bytes_of, (a) => block[a]);
		},
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
		test: (r, sign, words) => {
			const [names, ids] = (["name", "id"] as const).map((key) =>
				choose_names(
					r.head.categories.map((c) => c[key]),
					sign,
					words,
				),
			);
			const some = Uint8Array.from(r.category_of_rule, (c) => (names[c] || ids[c] ? 1 : 0));
			const { rule } = r;
			return (a) => some[rule[a]] === 1;
		},
	},
	{
		names: ["phase"],
		about: "the phase that it was allocated in",
		values: (r) => r.head.phases,
		test: (r, sign, words) => {
			const some = choose_names(r.head.phases, sign, words);
			return by_birth(
				r,
				r.phase_from,
				(m) => some[r.head.phases.indexOf(r.phase_at(m) ?? "")] ?? false,
			);
		},
	},
	{
		names: ["step"],
		about: "the step that it was allocated in: step:3, step>=10",
		test: (r, sign, words) => {
			const holds = compare(sign, words, number_of, (step) => step);
			const turns = r.steps.flatMap((step) => [step.start_event + 1, step.end_event + 2]);
			return by_birth(r, turns, (m) => holds(r.step_at(m)?.index ?? -1));
		},
	},
	{
		names: ["stream"],
		about: "its stream",
		values: (r) => r.head.streams,
		test: (r, sign, words) => {
			const { stream } = r;
			const some = choose_names(r.head.streams, sign, words);
			return (a) => some[stream[a]] ?? false;
		},
	},
	{
		names: ["pool"],
		about: "its pool: small, large, private",
		values: () => ["small", "large", "private", "default"],
		test: (r, sign, words) => {
			const test = text_test(sign, words);
			const known = new Map<string, boolean>();
			return (a) => {
				const name = r.pool_name(r.pool(a));
				if (!known.has(name)) known.set(name, test(name.toLowerCase()));
				return known.get(name)!;
			};
		},
	},
	{
		names: ["file"],
		about: "a file of its stack: file:model.py:12",
		values: (r) => [...new Set(r.head.strings.filter((s) => /\.py$/.test(s)).map(text.short_place))],
		test: (r, sign, words) => in_stack(r, sign, words, "file"),
	},
	{
		names: ["function", "func"],
		about: "a function of its stack",
		test: (r, sign, words) => in_stack(r, sign, words, "function"),
	},
	{
		names: ["stack"],
		about: "text of any frame of its stack",
		test: (r, sign, words) => in_stack(r, sign, words, "any"),
	},
	{
		names: ["frame"],
		about: "the program's own line: frame~train.py:42",
		test: (r, sign, words) => by_stack(r, sign, words, (s) => frame_words(r, r.user_frame(s))),
	},
	{
		names: ["code_frame"],
		about: "the innermost line that is not PyTorch's",
		test: (r, sign, words) => by_stack(r, sign, words, (s) => frame_words(r, r.code_frame(s))),
	},
	{
		names: ["inferred"],
		about: "its stack was concluded, not recorded: inferred=true",
		values: whether,
		test: (r, sign, words) => yes_or_no(sign, words, (a) => (r.flags[a] & FLAG_INFERRED) !== 0),
	},
	{
		names: ["before_recording"],
		about: "it was there before the recording began",
		values: whether,
		test: (r, sign, words) => yes_or_no(sign, words, (a) => !r.born[a]),
	},
	{
		names: ["address", "addr"],
		about: "its address, or how that begins: address:0x7f",
		test: (r, sign, words) => {
			if (/^[<>~]/.test(sign)) throw new Unreadable("of an address : and = ask");
			return by_address(r, words);
		},
	},
	{
		names: ["born", "born_event"],
		about: "the event of its birth: born>=1000",
		test: (r, sign, words) => compare(sign, words, number_of, (a) => event(r.born[a])),
	},
	{
		names: ["freed", "freed_event"],
		about: "the event of its end; freed:never",
		values: () => ["never"],
		test: (r, sign, words) => {
			const { freed } = r;
			if (words === "never") return (a) => freed[a] === 0;
			return compare(sign, words, number_of, (a) => (freed[a] ? event(freed[a]) : Infinity));
		},
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
			if (m === null) throw new Unreadable(`"${words}" is not an event`);
			return (a) => r.lives(a, m);
		},
	},
	{
		names: ["line"],
		about: "whose line it is, by its number on this page",
		test: (r, _, words) => (a) => r.owner(a) === Number(words),
	},
];

// Whose `!=` is known by what they compare themselves.
const compares_itself = /^(size|block|life|step|born|freed)$/;
const by_name = new Map(fields.flatMap((field) => field.names.map((name) => [name, field] as const)));
// As they are listed and offered.
export const field_names = (): string[] => fields.flatMap((f) => (f.names[0] === "line" ? [] : f.names));

function either(one: Test, other: Test): Test {
	return (a) => one(a) || other(a);
}

function in_stack(recording: Recording, sign: string, wish: string, part: "file" | "function" | "any"): Test {
	const stacks = by_frame(recording, sign, wish, part);
	const { stack } = recording;
	return (a) => stacks[stack[a]] === 1;
}

// ---- reading ----

interface Token {
	words: string;
	quoted: boolean;
	column: number; // from 1
}

function split(query: string): Token[] {
	const out: Token[] = [];
	for (const found of query.matchAll(/"([^"]*)("?)|([()])|([^\s()"]+)/g)) {
		const [, quoted, close, bracket, plain] = found;
		const column = found.index + 1;
		if (quoted !== undefined && !close) throw new Unreadable("a quote is not closed", column);
		out.push({ words: quoted ?? bracket ?? plain, quoted: quoted !== undefined, column });
	}
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
		private query: string,
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

	private get column(): number {
		return this.tokens[this.at]?.column ?? this.query.trimEnd().length + 1;
	}

	whole(): Uint8Array {
		const out = this.any();
		if (this.at < this.tokens.length)
			throw new Unreadable("a bracket is closed that was not opened", this.column);
		return out;
	}

	private any(): Uint8Array {
		const out = this.all();
		while (this.take("OR")) {
			const other = this.all();
			for (let a = 0; a < out.length; a++) out[a] |= other[a];
		}
		return out;
	}

	private all(): Uint8Array {
		const out = this.one();
		while (this.at < this.tokens.length && !this.is("OR") && !this.is(")")) {
			this.take("AND");
			const other = this.one();
			for (let a = 0; a < out.length; a++) out[a] &= other[a];
		}
		return out;
	}

	private one(): Uint8Array {
		const { column } = this;
		if (this.take("NOT")) return inverted(this.one());
		if (this.take("(")) {
			const out = this.any();
			if (!this.take(")")) throw new Unreadable("a bracket is not closed", column);
			return out;
		}
		if (this.is(")") || this.is("OR") || this.is("AND"))
			throw new Unreadable("a condition is missing here", column);
		const token = this.tokens[this.at++];
		if (!token) throw new Unreadable("something is missing at its end", column);
		if (!token.quoted && token.words.length > 1 && token.words.startsWith("-")) {
			this.tokens[--this.at] = {
				words: token.words.slice(1),
				quoted: false,
				column: token.column + 1,
			};
			this.words.push("NOT");
			return inverted(this.one());
		}
		return this.part(token);
	}

	// "64 MiB" is one number, and so is "size >= 64 MiB".
	private number_behind(words: string): string {
		if (/^[\d,.]+$/.test(words) && is_unit(this.tokens[this.at])) words += this.tokens[this.at++].words;
		return words;
	}

	private part(token: Token): Uint8Array {
		const named = token.quoted ? null : /^([a-z_]+)(:|!=|<=|>=|=|<|>|~)(.*)$/i.exec(token.words);
		let field = named && by_name.get(named[1].toLowerCase());
		let [sign, value] = named ? [named[2], named[3]] : ["", ""];
		let column = named ? token.column + token.words.length - value.length : token.column;
		const next = this.tokens[this.at];
		const apart = !token.quoted && /^(!=|<=|>=|=|<|>|~)(.*)$/.exec(next?.words ?? "");
		const is_named = named !== null || (!!apart && !next.quoted && /^[a-z_]+$/i.test(token.words));
		if (!named && is_named) {
			field = by_name.get(token.words.toLowerCase());
			[, sign, value] = apart as RegExpExecArray;
			column = next.column + sign.length;
			this.at++;
		}
		if (!field) {
			// "model:forward" is a piece of a name.
			if (is_named && sign !== ":")
				throw new Unreadable(
					`there is no field "${named?.[1] ?? token.words}"; fields are ${field_names().join(", ")}`,
					token.column,
				);
			return this.bare(token);
		}
		if (!value && this.at < this.tokens.length) {
			({ column } = this.tokens[this.at]);
			value = this.tokens[this.at++].words;
		}
		if (!value) throw new Unreadable(`${field.names[0]} of what? ${field.about}`, column);
		if (sign === ":" && /^(<=|>=|<|>)/.test(value)) {
			sign = /^[<>]=?/.exec(value)![0];
			value = value.slice(sign.length);
			column += sign.length;
		}
		value = this.number_behind(value);
		this.words.push(`${field.names[0]}${sign}${value}`);
		const found = this.marked(field, sign, value.toLowerCase(), column);
		return sign === "!=" && !compares_itself.test(field.names[0]) ? inverted(found) : found;
	}

	private marked(field: Field, sign: string, value: string, column: number): Uint8Array {
		try {
			const test = field.test(this.recording, sign, value);
			return test instanceof Uint8Array ? test : mark(this.recording, test);
		} catch (why) {
			throw why instanceof Unreadable ? why.at(column) : why;
		}
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
		const in_frames = in_stack(recording, ":", low, "any");
		return mark(
			recording,
			either(in_frames, (a) => names.includes(recording.category(a))),
		);
	}
}

function inverted(found: Uint8Array): Uint8Array {
	for (let a = 0; a < found.length; a++) found[a] ^= 1;
	return found;
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
	const at = /^(-?)([a-z_]+)([:=~])(.*)$/i.exec(last);
	if (at) {
		const field = by_name.get(at[2].toLowerCase());
		const values = field?.values?.(recording) ?? [];
		return values
			.filter((v) => v.toLowerCase().startsWith(at[4].toLowerCase()) && v !== at[4])
			.slice(0, MOST_OFFERED)
			.map((v) => {
				const value = text.plain(v, 80);
				return [
					`${before}${at[1]}${at[2]}${at[3]}${/[\s()]/.test(value) ? `"${value}"` : value} `,
					field!.about,
				];
			});
	}
	// By its short name, or by the key that is being typed.
	const low = last.toLowerCase();
	const words: [string, string][] = fields
		.filter((f) => f.names[0] !== "line" && f.names.some((n) => n.startsWith(low)))
		.map((f) => [`${before}${f.names.find((n) => n.startsWith(low))}:`, f.about]);
	if (before.trim() && "NOT".startsWith(last.toUpperCase()))
		words.push([`${before}NOT `, "all but what follows"]);
	if (before.trim() && "OR".startsWith(last.toUpperCase()))
		words.push([`${before}OR `, "one or the other"]);
	return words.slice(0, last || !query ? MOST_OFFERED : 0);
}
