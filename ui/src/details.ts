// One allocation: what it is, its birth and death, its stack, and what lay next to it.

import { button, code, copy, definitions, el, fill } from "./dom";
import { band_of } from "./panels";
import { BEFORE, FLAG_INFERRED } from "./recording";
import type { Recording } from "./recording";
import type { State } from "./state";
import * as text from "./text";

// Blocks that lie next to it at m, and what had its address before and after.
function neighbours(
	recording: Recording,
	a: number,
	m: number,
): { below: number | null; above: number | null; before: number | null; after: number | null } {
	const { addr, block, born } = recording;
	let below: number | null = null;
	let above: number | null = null;
	const from = addr[a];
	const end = from + block[a];
	for (const b of recording.live(m, true)) {
		if (b === a) continue;
		if (addr[b] < from && (below === null || addr[b] > addr[below])) below = b;
		if (addr[b] > from && (above === null || addr[b] < addr[above])) above = b;
	}
	// Rows are in the order of birth.
	const overlaps = (b: number) => addr[b] < end && addr[b] + block[b] > from;
	let before: number | null = a - 1;
	while (before >= 0 && !(overlaps(before) && born[before] < born[a])) before--;
	if (before < 0) before = null;
	let after: number | null = a + 1;
	while (after < recording.rows && !overlaps(after)) after++;
	if (after >= recording.rows) after = null;
	return { below, above, before, after };
}

export class Details {
	readonly root = el("section", { class: "details", "aria-label": "Chosen allocation", hidden: true });

	constructor(
		private state: State,
		private search: (query: string) => void,
		private zoom: () => void,
	) {
		state.on((change) => {
			if (change === "chosen" || change === "cursor") state.recording.when_whole(() => this.show());
		});
	}

	private jump(words: string, m: number): HTMLElement {
		return el("button", { type: "button", class: "link", click: () => this.state.go(m) }, words);
	}

	show(): void {
		const { state } = this;
		const { recording, chosen: a } = state;
		this.root.hidden = a === null;
		if (a === null) return;
		const rule = recording.head.rules[recording.rule[a]];
		const category = recording.head.categories[recording.category(a)]?.name ?? "unknown";
		const born = recording.born[a];
		const freed = recording.freed[a];
		const done = recording.done[a];
		const life = (freed || recording.events) - born;
		const owner = recording.owner(a);
		let same = 0;
		let same_bytes = 0;
		for (const b of recording.live(state.cursor))
			if (recording.owner(b) === owner) {
				same++;
				same_bytes += recording.block[b];
			}
		const seconds = [recording.time_us(born), recording.time_us(freed || recording.events)];
		const facts: [string, Node | string][] = [
			[
				"size",
				`${text.bytes(recording.size[a])} asked for (${text.count(recording.size[a])} B), a block of ${text.bytes(recording.block[a])}`,
			],
			["for", `${category}${rule ? ` (${rule.confidence_pct} %: ${text.plain(rule.text)})` : ""}`],
			[
				"address",
				el(
					"span",
					{},
					el("code", {}, text.hex(recording.addr[a])),
					recording.head.streams.length > 1
						? `, stream ${text.plain(recording.head.streams[recording.stream[a]] ?? "", 40)}`
						: null,
				),
			],
			["born", born ? this.jump(recording.moment_text(born), born) : "before the first event"],
			["freed", freed ? this.jump(recording.moment_text(freed), freed) : "never in this recording"],
		];
		if (done > freed + 1)
			facts.push([
				"given back",
				this.jump(`${recording.moment_text(done)}: another stream still used it`, done),
			]);
		facts.push([
			"lived",
			`${text.plural(life, "event")}${seconds[0] !== null && seconds[1] !== null ? `, about ${text.duration(seconds[1] - seconds[0])}` : ""}`,
		]);
		facts.push([
			"same line",
			`${text.plural(same, "allocation")} live at the cursor, ${text.bytes(same_bytes)}`,
		]);
		const at = recording.lives(a, state.cursor) ? state.cursor : born;
		fill(
			this.root,
			el(
				"header",
				{},
				el("h2", {}, band_of(state, a), ` ${text.bytes(recording.block[a])}, ${category}`),
				button("Close", () => state.choose(null), { "aria-label": "Close details" }),
			),
			el(
				"div",
				{ class: "bar no-print" },
				button("Zoom to its life", this.zoom, { title: "f" }),
				owner ? button("All of this line", () => this.search("line:" + owner)) : null,
				recording.stack[a]
					? copy("Copy stack", () =>
							Array.from(recording.frames_of(recording.stack[a]))
								.map((f) => recording.frame_text(f))
								.join("\n"),
						)
					: null,
			),
			el(
				"h3",
				{},
				recording.flags[a] & FLAG_INFERRED
					? "Stack of what it is the backward of"
					: "Stack, innermost first",
			),
			this.stack(a),
			definitions(facts, { class: "facts" }),
			el(
				"h3",
				{},
				at === state.cursor ? "Neighbours at the cursor's moment" : "Neighbours at its birth",
			),
			this.beside(a, at),
		);
	}

	private stack(a: number): HTMLElement {
		const { recording } = this.state;
		const frames = Array.from(recording.frames_of(recording.stack[a]));
		if (!frames.length)
			return el(
				"p",
				{ class: "soft" },
				recording.nobody(a) === BEFORE
					? "It was there before the recording began: its stack is not known."
					: "No Python stack was recorded (usually autograd's backward thread).",
			);
		const own = recording.user_frame(recording.stack[a]) - 1;
		return el(
			"ol",
			{ class: "stack", tabindex: 0, "aria-label": "Stack" },
			...frames.map((f) =>
				el("li", { class: f === own ? "own" : "library" }, code(recording.frame_text(f))),
			),
		);
	}

	private beside(a: number, m: number): HTMLElement {
		const { state } = this;
		const { recording } = state;
		const { below, above, before, after } = neighbours(recording, a, m);
		const line = (name: string, b: number | null, words: string): [string, Node | string] => {
			if (b === null) return [name, "none"];
			const button = el(
				"button",
				{ type: "button", class: "link", click: () => state.choose(b) },
				`${text.bytes(recording.block[b])} ${recording.head.categories[recording.category(b)]?.name ?? ""}`,
			);
			return [
				name,
				el(
					"span",
					{},
					button,
					words ? `, ${words}` : null,
					" ",
					code(text.short_place(recording.owner_name(recording.owner(b)))),
				),
			];
		};
		const gap_below =
			below === null ? 0 : recording.addr[a] - recording.addr[below] - recording.block[below];
		const gap_above = above === null ? 0 : recording.addr[above] - recording.addr[a] - recording.block[a];
		const gap = (n: number) => (n === 0 ? "touching" : `${text.bytes(n)} away`);
		const rows = [
			line("below", below, gap(gap_below)),
			line("above", above, gap(gap_above)),
			line(
				"here before",
				before,
				before === null
					? ""
					: `freed ${recording.freed[before] ? "at " + text.count(recording.freed[before] - 1) : "never"}`,
			),
			line(
				"here after",
				after,
				after === null ? "" : `born at ${text.count(recording.born[after] - 1)}`,
			),
		];
		return definitions(rows, { class: "facts" });
	}
}
