// A checkpoint, or two that are compared: what the command says, and its tensors as a tree, by name, dtype, shard,
// device or shape.

import { Delay, choice, copy, el, fill, table } from "./dom";
import * as text from "./text";

// Of ckpt/3 and ckpt_diff/2 (docs/json.md) what the tree has.
interface Tensor {
	name: string;
	dtype: string | null;
	device: string | null;
	file: string | null;
	bytes: number;
	elements: number;
	shape: number[];
	whole: boolean | null;
}

interface Difference {
	name: string;
	change: string;
	first: string | null;
	second: string | null;
	max_difference: number | null;
}

export interface Checkpoint {
	tensors: (Tensor | Difference)[];
	first?: string; // of a comparison
	second?: string;
	path?: string;
}

// A tensor, and what is reported of it; of a comparison `weight` is 1 and names both sides.
interface Leaf {
	name: string;
	weight: number;
	cells: string[];
	groups: Record<string, string>;
}

interface Node {
	name: string;
	weight: number;
	count: number;
	leaf: Leaf | null;
	inner: Map<string, Node>;
}

interface Shape {
	columns: string[]; // beside name, share and number
	groups: { id: string; name: string }[];
	weigh: (n: number) => string;
	unit: string;
}

const one: Shape = {
	columns: ["dtype", "shape", "device", "file"],
	groups: [
		{ id: "name", name: "name" },
		{ id: "dtype", name: "dtype" },
		{ id: "file", name: "shard" },
		{ id: "device", name: "device" },
		{ id: "shape", name: "shape" },
	],
	weigh: text.bytes,
	unit: "bytes",
};

const two: Shape = {
	columns: ["change", "first", "second", "largest difference"],
	groups: [
		{ id: "name", name: "name" },
		{ id: "change", name: "kind of change" },
	],
	weigh: text.count,
	unit: "tensors",
};

const base_name = (path: string | null) => path?.slice(path.lastIndexOf("/") + 1) ?? "-";

function leaf_of(t: Tensor | Difference): Leaf {
	if ("change" in t) {
		const change = (t.change === "none" ? "other values" : t.change).replace(/_/g, " ");
		const most = t.max_difference === null ? "-" : t.max_difference.toPrecision(3);
		return {
			name: t.name,
			weight: 1,
			cells: [change, t.first ?? "-", t.second ?? "-", most],
			groups: { change },
		};
	}
	const shape = t.shape.length ? t.shape.join("x") : "scalar";
	const file = base_name(t.file);
	const dtype = t.dtype ?? "-";
	const device = t.device ?? "-";
	return {
		name: t.name,
		weight: t.bytes,
		cells: [dtype + (t.whole === false ? ", not whole" : ""), shape, device, file],
		groups: { dtype, file, device, shape },
	};
}

function new_node(name: string): Node {
	return { name, weight: 0, count: 0, leaf: null, inner: new Map() };
}

function tree_of(leaves: Leaf[], by: string): Node {
	const root = new_node("all");
	for (const leaf of leaves) {
		const parts = leaf.name.split("/"); // of a folder: the file, as it is called
		parts.push(...parts.pop()!.split("."));
		if (by !== "name") parts.unshift(leaf.groups[by]);
		let at = root;
		at.weight += leaf.weight;
		at.count++;
		for (const part of parts) {
			let next = at.inner.get(part);
			if (!next) at.inner.set(part, (next = new_node(part)));
			at = next;
			at.weight += leaf.weight;
			at.count++;
		}
		at.leaf = leaf;
	}
	return root;
}

// A name that has one name below it alone is one row with it.
function joined(node: Node): Node {
	let at = node;
	let { name } = node;
	while (!at.leaf && at.inner.size === 1) {
		[at] = at.inner.values();
		name += "." + at.name;
	}
	return { ...at, name };
}

const OPEN_ROWS = 40; // as many are shown at first, if there are

interface Row {
	node: Node;
	key: string;
	depth: number;
}

export class CheckpointView {
	readonly root: HTMLElement;
	private place = el("div", { class: "tree" });
	private shape: Shape;
	private leaves: Leaf[];
	private by = "name";
	private wish = "";
	private open = new Set<string>();
	private box = el("input", {
		type: "search",
		placeholder: "Find in names, dtypes, shapes, shards",
		"aria-label": "Find in names, dtypes, shapes, shards",
		spellcheck: "false",
	});
	private typing = new Delay(150, () => {
		this.wish = this.box.value.trim().toLowerCase();
		this.show(true);
	});

	constructor(said: string, checkpoint: Checkpoint) {
		this.shape = checkpoint.first === undefined ? one : two;
		this.leaves = checkpoint.tensors.map(leaf_of);
		this.box.addEventListener("input", () => this.typing.start());
		const by = choice("group by", this.shape.groups, (id) => {
			this.by = id;
			this.show(true);
		});
		const [first, ...more] = said.trimEnd().split(/\n\s*\n/);
		const [head, ...facts] = first.split("\n");
		const pre = (words: string, label: string) =>
			words ? el("pre", { tabindex: 0, "aria-label": label }, words) : null;
		this.root = el(
			"div",
			{ class: "checkpoint" },
			el("h1", {}, head),
			pre(facts.join("\n"), "Verdict"),
			el(
				"div",
				{ class: "bar no-print" },
				by.root,
				this.box,
				copy("Copy as text", () => said),
			),
			this.place,
			pre(more.join("\n\n"), "As text"),
		);
		this.show(true);
	}

	private get found(): Leaf[] {
		if (!this.wish) return this.leaves;
		return this.leaves.filter((l) => [l.name, ...l.cells].join(" ").toLowerCase().includes(this.wish));
	}

	// The rows that are open, the heaviest first; `afresh`: as far as there is room for.
	private show(afresh: boolean): void {
		const tree = tree_of(this.found, this.by);
		if (afresh) {
			this.open.clear();
			while (this.open_one(tree));
		}
		const rows = this.rows(tree);
		const { columns, weigh, unit } = this.shape;
		const found = this.wish ? " found" : "";
		const caption =
			unit === "bytes"
				? `${text.plural(tree.count, "tensor")}${found}, ${weigh(tree.weight)}`
				: `${text.plural(tree.count, "difference")}${found}`;
		fill(
			this.place,
			table(
				caption,
				[
					{ name: "name", cell: (r) => this.name(r) },
					{ name: unit, number: true, cell: (r) => weigh(r.node.weight) },
					{
						name: "share",
						cell: (r) =>
							el("meter", {
								min: 0,
								max: Math.max(1, tree.weight),
								value: r.node.weight,
								"aria-label": text.percent(r.node.weight, tree.weight),
								title: text.percent(r.node.weight, tree.weight),
							}),
					},
					...(unit === "bytes"
						? [{ name: "tensors", number: true, cell: (r: Row) => text.count(r.node.count) }]
						: []),
					...columns.map((name, i) => ({
						name,
						cell: (r: Row) => this.cell(r.node, i),
					})),
				],
				rows,
			),
		);
	}

	private inner(node: Node): Node[] {
		return [...node.inner.values()].map(joined).sort((a, b) => b.weight - a.weight || b.count - a.count);
	}

	private rows(tree: Node): Row[] {
		const out: Row[] = [];
		const walk = (node: Node, depth: number, above: string): void => {
			for (const inner of this.inner(node)) {
				const key = `${above}.${inner.name}`;
				out.push({ node: inner, key, depth });
				if (this.open.has(key)) walk(inner, depth + 1, key);
			}
		};
		walk(tree, 0, "");
		return out;
	}

	// Opens the heaviest row that leaves the list short; false: there is none.
	private open_one(tree: Node): boolean {
		const rows = this.rows(tree);
		const room = OPEN_ROWS - rows.length;
		const closed = rows
			.filter((r) => r.node.inner.size && !this.open.has(r.key) && r.node.inner.size <= room)
			.sort((a, b) => a.depth - b.depth || b.node.weight - a.node.weight);
		if (closed.length) this.open.add(closed[0].key);
		return closed.length > 0;
	}

	private name(row: Row): HTMLElement {
		const { node, key, depth } = row;
		const words = el("code", {}, text.plain(node.name, 200));
		const line = el("span", { class: "branch" });
		line.style.paddingLeft = `${depth * 18}px`;
		if (!node.inner.size) fill(line, words);
		else
			fill(
				line,
				el(
					"button",
					{
						type: "button",
						class: "row",
						"aria-expanded": String(this.open.has(key)),
						click: () => {
							if (!this.open.delete(key)) this.open.add(key);
							this.show(false);
							this.focus(key);
						},
						"data-key": key,
					},
					this.open.has(key) ? "▾ " : "▸ ",
					words,
				),
			);
		return line;
	}

	// The table was made anew: the row that was pressed keeps the focus.
	private focus(key: string): void {
		for (const button of this.place.querySelectorAll<HTMLElement>("button[data-key]"))
			if (button.dataset.key === key) button.focus();
	}

	// Of a branch: what all below it have in common.
	private cell(node: Node, i: number): string {
		if (node.leaf) return text.plain(node.leaf.cells[i], 120);
		let common: string | null = null;
		const same = (at: Node): boolean => {
			if (at.leaf) {
				common ??= at.leaf.cells[i];
				return common === at.leaf.cells[i];
			}
			for (const inner of at.inner.values()) if (!same(inner)) return false;
			return true;
		};
		return same(node) && common !== null ? text.plain(common, 120) : "";
	}
}
