// Search by file, function, size or address.  What is found is also what the picture shows in colour.

import { button, code, el, fill, table } from "./dom";
import { allocation_table } from "./panels";
import type { Panel } from "./panels";
import type { State } from "./state";
import * as text from "./text";

const MOST = 200;
const sizes: Record<string, number> = { "": 1, b: 1, k: 1024, m: 1024 ** 2, g: 1024 ** 3, t: 1024 ** 4 };

type Test = (a: number) => boolean;
interface Query {
	words: string;
	test: Test;
}

// ">=100 MiB", "<2k", "=512", "64 MiB" (what is written with that many digits), "0x7f..." or words of a name.
export function parse_query(state: State, query: string): Query | null {
	const { recording } = state;
	const { addr, block, size } = recording;
	const wish = query.trim();
	if (!wish) return null;
	const owner = /^owner:(\d+)$/.exec(wish);
	if (owner) {
		const key = Number(owner[1]);
		return {
			words: text.short_place(recording.owner_name(key)),
			test: (a) => recording.owner(a) === key,
		};
	}
	if (/^0x[0-9a-f]{1,16}$/i.test(wish)) {
		const at = Number(wish);
		return { words: `address ${wish}`, test: (a) => at >= addr[a] && at < addr[a] + block[a] };
	}
	const number = /^(<=?|>=?|=|)\s*([\d,]+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?$/i.exec(wish);
	if (number) {
		const [, sign, digits, unit] = number;
		const n = Number(digits.replace(/,/g, "")) * sizes[unit.toLowerCase()];
		const shown = text.bytes(n);
		const tests: Record<string, Test> = {
			"<": (a) => size[a] < n,
			"<=": (a) => size[a] <= n,
			">": (a) => size[a] > n,
			">=": (a) => size[a] >= n,
			"=": (a) => size[a] === n || block[a] === n,
			"": (a) =>
				size[a] === n ||
				block[a] === n ||
				(n >= 1024 && (text.bytes(size[a]) === shown || text.bytes(block[a]) === shown)),
		};
		return { words: `size ${sign} ${shown}`, test: tests[sign] };
	}
	return { words: wish, test: by_name(state, wish.toLowerCase()) };
}

function by_name(state: State, wish: string): Test {
	const { recording } = state;
	const names = recording.head.strings.map((s) => s.toLowerCase());
	const has = names.map((n) => n.includes(wish));
	const frames = new Uint8Array(recording.frame_count);
	for (let f = 0; f < frames.length; f++) {
		const { file, name, line } = recording.frame(f);
		frames[f] =
			has[recording.frame_strings(f)[0]] ||
			has[recording.frame_strings(f)[1]] ||
			(/[:]| in /.test(wish) && `${file}:${line} in ${name}`.toLowerCase().includes(wish))
				? 1
				: 0;
	}
	const stacks = new Uint8Array(recording.stack_count + 1);
	for (let s = 1; s < stacks.length; s++) {
		const list = recording.frames_of(s);
		for (let k = 0; k < list.length && !stacks[s]; k++) stacks[s] = frames[list[k]];
	}
	const kinds = recording.head.categories.map((c) => c.name.toLowerCase() === wish || c.id === wish);
	return (a) => stacks[recording.stack[a]] === 1 || kinds[recording.category(a)];
}

export class Search implements Panel {
	readonly root = el("div", { class: "search" });
	private found: number[] = [];
	private words = "";
	private total = 0;

	constructor(
		private state: State,
		private close: () => void,
	) {
		state.on((change) => {
			if (change === "cursor" && this.found.length && !this.root.closest("[hidden]")) this.show();
		});
	}

	// How many allocations were found; null: the search was cleared.
	run(query: string): number | null {
		const { state } = this;
		const { recording } = state;
		const parsed = parse_query(state, query);
		this.found = [];
		this.total = 0;
		if (!parsed) {
			state.match(null, "");
			return null;
		}
		this.words = text.plain(parsed.words, 80);
		for (let a = 0; a < recording.rows; a++)
			if (parsed.test(a)) {
				this.found.push(a);
				this.total += recording.block[a];
			}
		state.match(this.found.length ? parsed.test : null, this.words);
		this.show();
		return this.found.length;
	}

	show(): void {
		const { recording, cursor } = this.state;
		const { found } = this;
		const live = found.filter((a) => recording.lives(a, cursor));
		const least =
			Float64Array.from(found, (a) => recording.block[a]).sort()[Math.max(0, found.length - MOST)] ?? 0;
		const largest = found
			.filter((a) => recording.block[a] >= least)
			.sort((a, b) => recording.block[b] - recording.block[a] || a - b)
			.slice(0, MOST);
		const owners = recording.owners(found).slice(0, 40);
		const live_owner = new Map(recording.owners(live).map((o) => [o.key, o.bytes]));
		fill(
			this.root,
			el(
				"div",
				{ class: "bar" },
				el("strong", {}, `${text.plural(found.length, "allocation")} found for "${this.words}"`),
				el(
					"span",
					{ class: "soft" },
					found.length
						? `${text.bytes(live.reduce((sum, a) => sum + recording.block[a], 0))} of them live at the cursor; ${text.bytes(this.total)} over all time`
						: "Search by file, function, size (64 MiB, >=1g, =512) or address (0x7f...).",
				),
				el("span", { class: "gap" }),
				button("Clear", this.close),
			),
			found.length
				? table(
						"By line",
						[
							{ name: "line", cell: (o) => code(o.name) },
							{
								name: "live at the cursor",
								number: true,
								cell: (o) => text.bytes(live_owner.get(o.key) ?? 0),
							},
							{ name: "over all time", number: true, cell: (o) => text.bytes(o.bytes) },
							{ name: "allocations", number: true, cell: (o) => text.count(o.count) },
						],
						owners,
						(o) => this.jump(o.largest),
					)
				: null,
			found.length
				? allocation_table_that_jumps(
						this.state,
						`${found.length > MOST ? `The largest ${MOST} of ` : ""}${text.plural(found.length, "allocation")}`,
						largest,
						(a) => this.jump(a),
					)
				: null,
		);
	}

	private jump(a: number): void {
		const { state } = this;
		if (!state.recording.lives(a, state.cursor)) state.go(state.recording.born[a]);
		state.choose(a);
	}
}

function allocation_table_that_jumps(
	state: State,
	caption: string,
	rows: number[],
	jump: (a: number) => void,
): HTMLElement {
	const out = allocation_table(state, caption, rows);
	out.querySelectorAll("tbody tr").forEach((line, i) =>
		line.addEventListener("click", () => jump(rows[i])),
	);
	return out;
}
