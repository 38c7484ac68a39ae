// Which calls only lead to others, and through which modules a stack went.

import { NOBODY, type Recording, nobody_words } from "./recording";
import * as text from "./text";

// PyTorch's own, decorators, how Python starts a program.
export function is_wrapper(file: string, name: string): boolean {
	return (
		/(^|\/)torch\//.test(file) ||
		/(^|\/)(contextlib|functools|runpy|threading|_ops|generic|output_capturing|deprecation)\.py$/.test(
			file,
		) ||
		file.startsWith("<frozen") ||
		/^(_?(wrapped_)?call_impl|wrapper|wrapped|wrapped_func|inner|_fn|decorate_context|__call__)$/.test(
			name,
		)
	);
}

// A recording knows no names of modules, but every call of one goes through these.
const calls_module = (file: string, name: string) =>
	/(^|\/)torch\/nn\/modules\/module\.py$/.test(file) && /_call_impl$/.test(name);

/** Where modules were called from, outermost first, one path for each stack; a plan has their names. */
export class ModulePaths {
	readonly names: string[] = [];
	readonly of: Uint32Array; // of each stack of the column: which path
	private numbers = new Map<string, number>();

	constructor(private recording: Recording) {
		this.of = new Uint32Array(recording.stack_count + 1);
		for (let s = 0; s <= recording.stack_count; s++) this.of[s] = this.number(this.path(s));
	}

	private number(path: string): number {
		let number = this.numbers.get(path);
		if (number === undefined) this.numbers.set(path, (number = this.names.push(path) - 1));
		return number;
	}

	private path(stack: number): string {
		const { recording } = this;
		if (!stack) return nobody_words(NOBODY);
		const frames = Array.from(recording.frames_of(stack), (f) => ({ ...recording.frame(f), f }));
		if (recording.head.plan) return frames[0] ? text.plain(frames[0].file, 300) : "no module";
		const sites: number[] = [];
		let called = false;
		for (const { file, name, f } of frames)
			if (calls_module(file, name)) called = true;
			else if (called && !is_wrapper(file, name)) {
				sites.unshift(f);
				called = false;
			}
		// The program's own call is the same for all of a model.
		const own = recording.user_frame(stack) - 1;
		const inner = sites.filter((f) => f !== own);
		const shown = inner.length ? inner : sites;
		if (shown.length) return short(shown.map((f) => recording.frame(f)));
		return "no module called";
	}
}

// "modeling_llama.py:402 › 308 › 240": a file is named where it changes.
function short(frames: { file: string; line: number }[]): string {
	let before = "";
	const parts = frames.map(({ file, line }) => {
		const name = file.slice(file.lastIndexOf("/") + 1);
		const part = name === before ? String(line) : `${name}:${line}`;
		before = name;
		return part;
	});
	return text.plain(parts.join(" › "), 300);
}
