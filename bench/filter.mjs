// filter.mjs [ROWS]: milliseconds that a filter takes, of so many allocations (2,000,000) that are made up here.
import { createRequire } from "node:module";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

const ui = path.resolve(import.meta.dirname, "../ui");
const { build } = createRequire(path.join(ui, "package.json"))("esbuild");
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "filter-"));
const outfile = path.join(folder, "filter.mjs");
await build({
	stdin: {
		contents: 'export { read_filter } from "./filter"; export { Recording } from "./recording";',
		resolveDir: path.join(ui, "src"),
		loader: "ts",
	},
	bundle: true,
	format: "esm",
	outfile,
});
globalThis.addEventListener = () => undefined; // modules that draw listen to the window
const { read_filter, Recording } = await import(outfile);
fs.rmSync(folder, { recursive: true });

const rows = Number(process.argv[2] ?? 2_000_000);
const STACKS = 4000;
const FRAMES = 12;
const STEPS = 200;
const NAMES = 1500;
let seed = 1;
const random = (n) => {
	seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
	return Math.floor((seed / 2 ** 32) * n);
};
const events = 2 * rows;
const column = (n, of) => Uint32Array.from({ length: n }, (_, i) => of(i));
const born = column(rows, (a) => 2 * a + 1);
const size = column(rows, () => 2 ** (9 + random(18)) - random(100));
const columns = {
	"allocs.born": born,
	"allocs.freed": column(rows, (a) => (a % 50 ? 2 * a + 2 : 0)),
	"allocs.size": size,
	"allocs.block": size.map((n) => 512 * Math.ceil(n / 512)),
	"allocs.stack": column(rows, () => random(STACKS + 1)),
	"allocs.rule": column(rows, () => random(4)),
	"allocs.addr": Float64Array.from({ length: rows }, () => 0x7f0000000000 + 512 * random(2 ** 28)),
	"stacks.first": column(STACKS + 1, (s) => s * FRAMES),
	"stacks.frames": column(STACKS * FRAMES, () => random(NAMES)),
	"stacks.user": column(STACKS, () => 1 + random(NAMES)),
	"stacks.code": column(STACKS, () => 1 + random(NAMES)),
	"frames.name": column(NAMES, (f) => f),
	"frames.file": column(NAMES, (f) => NAMES + (f % 80)),
	"frames.line": column(NAMES, (f) => f),
	"phases.from": column(2 * STEPS, (i) => Math.floor((i * events) / (2 * STEPS))),
	"phases.phase": column(2 * STEPS, (i) => i % 2),
};
const step = (index) => ({
	index,
	start_event: Math.floor((index * events) / STEPS),
	end_event: Math.floor(((index + 1) * events) / STEPS) - 1,
});
const page = {
	head: {
		events,
		report: {
			devices: [{ oom: [], findings: [], steps: Array.from({ length: STEPS }, (_, i) => step(i)) }],
		},
		categories: ["parameters", "activations", "temporaries", "unknown"].map((name) => ({
			id: name,
			name,
		})),
		rules: [0, 1, 2, 3].map((category) => ({ category, confidence_pct: 0 })),
		phases: ["forward", "backward"],
		streams: ["0"],
		pools: [{ name: "default" }],
		show: [],
		strings: [
			...Array.from({ length: NAMES }, (_, i) => `function_${i}`),
			...Array.from({ length: 80 }, (_, i) => `/home/user/model_${i}.py`),
		],
	},
	rows: (table) =>
		Math.max(
			0,
			...Object.entries(columns).map(([name, c]) => (name.startsWith(table + ".") ? c.length : 0)),
		),
	column: (name, n = 0) => columns[name] ?? new Uint8Array(n),
};
const recording = new Recording(page);
for (const query of [
	"bytes >= 64 MiB",
	"requested_bytes = 1 MiB",
	"category = activations and bytes > 1 MiB",
	"frame ~ model_1.py and not phase = backward",
	"(step = 3 or step = 40) and bytes > 4 KiB",
	"step > 20 and stack ~ function_12 and freed = never",
	"category = activations and (bytes > 1 MiB or life < 4) and not stack ~ model_7.py",
]) {
	const taken = [];
	let found = 0;
	let bytes = 0;
	for (let k = 0; k < 7; k++) {
		const start = performance.now();
		const { found: marks } = read_filter(recording, query);
		found = bytes = 0;
		for (let a = 0; a < rows; a++)
			if (marks[a]) {
				found++;
				bytes += recording.block[a];
			}
		taken.push(performance.now() - start);
	}
	const sorted = [...taken].sort((a, b) => a - b);
	console.log(
		`${sorted[3].toFixed(0).padStart(5)} ms (first ${taken[0].toFixed(0)}, best ${sorted[0].toFixed(0)})  ${found} found, ${(bytes / 2 ** 30).toFixed(1)} GiB  ${query}`,
	);
}
