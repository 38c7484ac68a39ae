// What is looked at: the runs that are shown, the steps, the smoothing; and the colour of each line.

import { colour } from "../dom";
import type { Chart } from "./chart";
import { type Line, type Run, is_evaluation, steps_of } from "./data";

export class State {
	smoothing = 0;
	full: [number, number];
	view: [number, number];
	charts: Chart[] = [];
	walking: Chart | null = null; // whose cursor the keys move
	changed = () => {};

	constructor(readonly runs: Run[]) {
		this.full = steps_of(runs);
		this.view = this.full;
	}

	get many(): boolean {
		return this.runs.length > 1;
	}

	get zoomed(): boolean {
		return this.view[0] > this.full[0] || this.view[1] < this.full[1];
	}

	// null: all steps.
	look(from: number | null, to = 0): void {
		const [first, last] = this.full;
		const least = (last - first) / 1e5;
		if (from === null || to - from >= last - first) this.view = this.full;
		else {
			const wide = Math.max(least, to - from);
			const left = Math.min(Math.max(first, from), last - wide);
			this.view = [left, left + wide];
		}
		for (const chart of this.charts) chart.look(...this.view);
		this.changed();
	}

	zoom(factor: number, at = (this.view[0] + this.view[1]) / 2): void {
		const [from, to] = this.view;
		this.look(at - (at - from) * factor, at + (to - at) * factor);
	}

	pan(part: number): void {
		const [from, to] = this.view;
		const by = (to - from) * part;
		this.look(from + by, to + by);
	}

	redraw(): void {
		for (const chart of this.charts) chart.redraw();
		this.changed();
	}

	toggle(run: Run): void {
		run.shown = !run.shown;
		this.redraw();
	}

	isolate(run: Run): void {
		const alone = this.runs.every((r) => r.shown === (r === run));
		for (const r of this.runs) r.shown = alone || r === run;
		this.redraw();
	}

	// Ten colours that stand apart, then hues a golden angle from each other.
	run_colour(run: Run): string {
		const dark = document.documentElement.dataset.theme === "dark";
		if (run.number < 10) return colour(`--owner-${run.number}`);
		return from_hue((run.number * 137.508) % 360, dark ? 0.68 : 0.4);
	}

	// The same for a style: it follows the theme.
	run_style(run: Run): string {
		return run.number < 10 ? `var(--owner-${run.number})` : this.run_colour(run);
	}

	colour_of(line: Line): string {
		if (this.many) return this.run_colour(line.run);
		return colour(is_evaluation(line.series.role) ? "--validation" : "--training");
	}
}

function from_hue(hue: number, light: number): string {
	const part = (n: number) => {
		const k = (n + hue / 30) % 12;
		const v = light - 0.55 * Math.min(light, 1 - light) * Math.max(-1, Math.min(k - 3, 9 - k, 1));
		return Math.round(255 * v)
			.toString(16)
			.padStart(2, "0");
	};
	return `#${part(0)}${part(8)}${part(4)}`;
}
