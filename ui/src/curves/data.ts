// The runs of a page of curves, as docs/curves.md describes them, and which of their curves share a chart.

import { clean, unpack } from "../page";
import type { CurvesRun, CurvesSeries, Finding } from "../results";

export interface Curve {
	series: number; // index into run.series
	quantity: string; // the same of a quantity in training and in validation
	step: number[];
	mean: (number | null)[]; // null: no value was finite
	min?: (number | null)[]; // of what a point stands for; missing: each is one value
	max?: (number | null)[];
	bad: number[]; // indices of points that hold a value that is not finite
}

interface Head {
	format: string;
	version: string;
	run: CurvesRun;
	train: string | null; // the training loss
	val: string | null; // the evaluation that counts
	curves: Curve[];
	notes: string[];
}

export interface Run extends Head {
	number: number;
	name: string;
	shown: boolean;
}

export interface Line {
	run: Run;
	series: CurvesSeries;
	name: string;
	curve: Curve;
	hidden: boolean;
}

export interface Group {
	key: string;
	title: string;
	role: CurvesSeries["role"];
	lines: Line[];
	logarithmic: boolean;
}

export async function open_runs(): Promise<Run[]> {
	const runs: Run[] = [];
	for (let i = 0; document.getElementById(`plim-${i}-head`); i++) {
		const text = new TextDecoder().decode(await unpack(`plim-${i}-head`));
		const head = clean(JSON.parse(text)) as Head;
		if (head.format !== "curves-page/1")
			throw new Error(`this page has the format ${head.format}, which its viewer does not know`);
		runs.push({ ...head, number: i, name: head.run.name ?? `run ${i}`, shown: true });
	}
	return runs;
}

// In the order in which people look at them.
const order: CurvesSeries["role"][] = [
	"train_loss",
	"val_loss",
	"metric",
	"error",
	"grad_norm",
	"learning_rate",
	"loss_scale",
	"skipped_steps",
	"memory",
	"entropy",
	"other",
];

export const is_loss = (role: CurvesSeries["role"]) => role === "train_loss" || role === "val_loss";
export const is_evaluation = (role: CurvesSeries["role"]) =>
	role === "val_loss" || role === "metric" || role === "error";

function rank(group: Group): number {
	const main = group.lines.some((l) => l.name === l.run.train || l.name === l.run.val);
	return order.indexOf(group.role) * 2 + (main ? 0 : 1) - (main && is_loss(group.role) ? 4 : 0);
}

// Where the largest value is over twenty times the smallest, equal distances are equal factors.
function spans_decades(lines: Line[]): boolean {
	let low = Infinity;
	let high = 0;
	for (const { curve } of lines)
		for (let i = 0; i < curve.step.length; i++) {
			const v = curve.min?.[i] ?? curve.mean[i];
			if (v === null) continue;
			low = Math.min(low, v);
			high = Math.max(high, curve.max?.[i] ?? v);
		}
	return low > 0 && high > 20 * low;
}

export function group_curves(runs: Run[]): Group[] {
	const groups = new Map<string, Group>();
	for (const run of runs)
		for (const curve of run.curves) {
			const series = run.run.series[curve.series];
			const { role } = series;
			const key = `${is_loss(role) ? "loss" : role} ${curve.quantity}`;
			const group = groups.get(key) ?? { key, title: "", role, lines: [], logarithmic: false };
			group.lines.push({ run, series, name: series.name ?? "?", curve, hidden: false });
			groups.set(key, group);
		}
	for (const group of groups.values()) {
		const names = [...new Set(group.lines.map((l) => l.name))];
		group.title = names.slice(0, 3).join(", ") + (names.length > 3 ? ", ..." : "");
		group.logarithmic = spans_decades(group.lines);
		if (group.lines.some((l) => l.series.role === "train_loss")) group.role = "train_loss";
	}
	return [...groups.values()].sort((a, b) => rank(a) - rank(b));
}

// From the first to the last step of the runs.
export function steps_of(runs: Run[]): [number, number] {
	let from = Infinity;
	let to = -Infinity;
	for (const { run } of runs) {
		from = Math.min(from, run.first_step ?? Infinity);
		to = Math.max(to, run.last_step ?? -Infinity);
	}
	if (!(from <= to)) return [0, 1];
	return from < to ? [from, to] : [from - 1, to + 1];
}

// The exponential average that TensorBoard draws, without the bias of its start.
export function smooth(values: (number | null)[], weight: number): (number | null)[] {
	let last = 0;
	let share = 0;
	return values.map((v) => {
		if (v === null) return null;
		last = last * weight + (1 - weight) * v;
		share = share * weight + (1 - weight);
		return last / share;
	});
}

export type { Finding };

// ---- numbers, as the terminal writes them ----

export function value_text(v: number | null | undefined): string {
	if (v === null || v === undefined) return "-";
	const size = Math.abs(v);
	if (size !== 0 && (size < 1e-3 || size >= 1e6))
		return v
			.toExponential(3)
			.replace(/\.?0+e/, "e")
			.replace("e+", "e");
	return String(Number(v.toPrecision(4)));
}

export function step_text(v: number | null | undefined): string {
	if (v === null || v === undefined) return "-";
	return v.toLocaleString("en-US", { maximumFractionDigits: 2 });
}

export function duration_text(seconds: number | null): string {
	if (seconds === null || seconds < 1) return "";
	if (seconds < 120) return `${Number(seconds.toPrecision(3))} s`;
	if (seconds < 7200) return `${Number((seconds / 60).toPrecision(3))} min`;
	return `${Number((seconds / 3600).toPrecision(3))} h`;
}
