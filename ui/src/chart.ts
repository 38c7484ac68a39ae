// Where things are in the picture of memory over time: scales, what each column of pixels shows, and what
// lies under a point.

import type { State } from "./state";
import { last_at_or_before } from "./recording";

export const LEFT = 64;
export const RIGHT = 14;
export const TOP = 20;
export const AXIS = 20;
export const STRIP = 13; // times, steps, phases, lanes of ranges
const BIG = 600; // an allocation of at least this part of the peak has its own outline

// What a column of pixels shows.
export interface Cells {
	n: number;
	dense: boolean; // a cell is a column of pixels, not a moment
	x: Float64Array; // left edges; one more than cells
	moment: Uint32Array;
	bottom: Float64Array; // of band b in cell i at i * bands + b; bytes
	top: Float64Array;
	gap: Float64Array; // tops of what is reserved and not allocated, as bands of the gap; the first begins at the total
}

// The largest number that should be on the picture.
export function wanted_top(state: State): number {
	const { recording } = state;
	const { death } = recording;
	const peak = Math.max(recording.reserved_peak, recording.allocated.total(recording.peak_moment), 1);
	const wish = death
		? recording.allocated.total(recording.death_moment!) + (death.requested_bytes ?? 0)
		: 0;
	const limit = limit_of(state)?.bytes ?? 0;
	// A request of a terabyte, or a limit far away, would press all else flat: it runs off the picture.
	const most = Math.max(peak, Math.min(wish, peak * 2));
	return Math.max(most, limit <= most * 1.6 ? limit : 0) * 1.04;
}

// What the memory ran into, as the last failure shows; of a plan that fits, what it was to stay under.
export function limit_of(state: State): { bytes: number; high: number | null } | null {
	const oom = state.recording.death ?? state.recording.device.oom[state.recording.device.oom.length - 1];
	const bound = oom?.verdict?.bound_bytes;
	if (bound?.low) return { bytes: bound.low, high: bound.high };
	const given = state.recording.head.limit_bytes;
	return given ? { bytes: given, high: null } : null;
}

export class Chart {
	cells: Cells = {
		n: 0,
		dense: false,
		x: new Float64Array(1),
		moment: new Uint32Array(0),
		bottom: new Float64Array(0),
		top: new Float64Array(0),
		gap: new Float64Array(0),
	};
	width = 1; // of the canvas, in CSS pixels
	height = 1;
	ratio = 1; // device pixels
	scale = 1; // bytes at the top
	floor = 0; // and at the bottom
	whole = 1; // at the top, where nothing is zoomed vertically
	big_bytes = 0;
	private big = new Uint32Array(0);

	constructor(readonly state: State) {
		const { recording } = state;
		this.outline(recording.allocated.total(recording.peak_moment));
	}

	// Allocations of at least 1/600 of what is high on the picture are outlined one by one.
	private outline(high: number): void {
		const { recording } = this.state;
		const least = Math.max(1, 2 ** Math.floor(Math.log2(Math.max(1, high / BIG))));
		if (least === this.big_bytes) return;
		this.big_bytes = least;
		const rows = new Uint32Array(recording.rows);
		let n = 0;
		for (let a = 0; a < recording.rows; a++)
			if (recording.block[a] >= least && !(recording.flags[a] & 2)) rows[n++] = a;
		this.big = rows.slice(0, n);
	}

	x_of(m: number): number {
		return LEFT + ((m - this.state.from) / (this.state.to - this.state.from)) * this.plot_width();
	}

	m_of(x: number): number {
		return this.state.from + ((x - LEFT) / this.plot_width()) * (this.state.to - this.state.from);
	}

	plot_width(): number {
		return this.plot_width_of(this.width);
	}

	plot_width_of(width: number): number {
		return Math.max(1, width - LEFT - RIGHT);
	}

	plot_height(): number {
		return Math.max(1, this.height - TOP - AXIS - this.strips() * STRIP - 4);
	}

	strips(): number {
		const { recording } = this.state;
		const once = [recording.timed, recording.phase_from.length, recording.steps.length];
		return once.filter(Boolean).length + recording.ranges.lanes.length;
	}

	// Below all other strips: the named range at a point, or null.
	range_at(x: number, y: number): number | null {
		const { ranges } = this.state.recording;
		const bottom = TOP + this.plot_height() + AXIS + this.strips() * STRIP;
		const lane = ranges.lanes.length - Math.ceil((bottom - y) / STRIP);
		if (x < LEFT || lane < 0 || lane >= ranges.lanes.length) return null;
		return ranges.at(lane, Math.round(this.m_of(x)));
	}

	y_of(n: number): number {
		return TOP + this.plot_height() * (1 - (n - this.floor) / (this.scale - this.floor));
	}

	bytes_of(y: number): number {
		return this.floor + (1 - (y - TOP) / this.plot_height()) * (this.scale - this.floor);
	}

	// The moment that the pointer means: what its column shows.
	moment_at(x: number): number {
		const { cells } = this;
		if (!cells.n) return Math.round(this.m_of(x));
		const i = last_at_or_before(cells.x.subarray(0, cells.n), x);
		return cells.moment[Math.max(0, Math.min(cells.n - 1, i))];
	}

	measure(): void {
		const { state } = this;
		const { recording, groups } = state;
		const bands = groups.bands.length;
		const first = Math.floor(state.from);
		const last = Math.min(recording.events, Math.ceil(state.to));
		const columns = Math.max(1, Math.min(2400, Math.round(this.plot_width() * this.ratio)));
		const { drawn, hidden, drawn_gap } = state;
		const gaps = drawn_gap?.bands.length ?? 0;
		const gap_bytes = new Float64Array(gaps);
		const span = state.to - state.from;
		const each = last - first + 1 <= columns;
		const n = each ? last - first + 1 : columns;
		const cells = this.room_for(n, bands, gaps);
		cells.dense = !each;
		for (let i = 0; i < n; i++) {
			if (each) {
				cells.moment[i] = first + i;
				cells.x[i] = Math.max(LEFT, this.x_of(first + i));
			} else {
				const from = Math.floor(state.from + (span * i) / n);
				const to = Math.min(
					recording.events + 1,
					Math.max(from + 1, Math.floor(state.from + (span * (i + 1)) / n) + (i === n - 1 ? 1 : 0)),
				);
				cells.moment[i] = drawn.extreme(Math.min(from, recording.events), to, state.lowest);
				cells.x[i] = LEFT + (i * this.plot_width()) / n;
			}
			const sums = groups.at(cells.moment[i]);
			let sum = 0;
			for (let b = 0; b < bands; b++) {
				cells.bottom[i * bands + b] = sum;
				if (!hidden.has(b)) sum += sums[b];
				cells.top[i * bands + b] = sum;
			}
			if (!drawn_gap) continue;
			drawn_gap.at(cells.moment[i], gap_bytes);
			for (let g = 0; g < gaps; g++) cells.gap[i * gaps + g] = sum += gap_bytes[g];
		}
		cells.x[n] = each
			? Math.min(LEFT + this.plot_width(), this.x_of(last + 1))
			: LEFT + this.plot_width();
		this.whole = this.top_of_scale();
		this.scale = Math.min(state.high ?? this.whole, this.whole);
		this.floor = state.high === null ? 0 : Math.min(state.low, this.scale * 0.999);
		const peak = recording.allocated.total(recording.peak_moment);
		this.outline(Math.min(this.scale - this.floor, peak));
	}

	// Frames of one size draw into the same arrays.
	private room_for(n: number, bands: number, gaps: number): Cells {
		const { cells } = this;
		cells.n = n;
		if (cells.moment.length < n) {
			cells.x = new Float64Array(n + 1);
			cells.moment = new Uint32Array(n);
		}
		if (cells.top.length < n * bands) {
			cells.bottom = new Float64Array(n * bands);
			cells.top = new Float64Array(n * bands);
		}
		if (cells.gap.length < n * gaps) cells.gap = new Float64Array(n * gaps);
		return cells;
	}

	top_of_scale(): number {
		const { state, cells } = this;
		if (!state.fit && !state.hidden.size) return state.top ?? wanted_top(state);
		const bands = state.groups.bands.length;
		let most = 1;
		for (let i = 0; i < cells.n; i++) most = Math.max(most, cells.top[i * bands + bands - 1]);
		return most * 1.06;
	}

	// Large allocations lie lowest in their band, in the order of birth.  Calls back for each one that a
	// cell shows; `only`: of this band alone.
	each_big(visit: (a: number, cell: number, bottom: number, top: number) => void, only?: number): void {
		const { cells, big } = this;
		const { recording, groups } = this.state;
		const bands = groups.bands.length;
		const lists: number[][] = Array.from({ length: bands }, () => []);
		const { freed, block, born } = recording;
		let next = 0;
		for (let i = 0; i < cells.n; i++) {
			const m = cells.moment[i];
			for (; next < big.length && born[big[next]] <= m; next++) {
				const a = big[next];
				const band = groups.of[a];
				if (this.state.hidden.has(band)) continue;
				if ((freed[a] === 0 || m < freed[a]) && (only === undefined || only === band))
					lists[band].push(a);
			}
			for (let b = 0; b < bands; b++) {
				const list = lists[b];
				if (!list.length) continue;
				let bottom = cells.bottom[i * bands + b];
				let kept = 0;
				for (let k = 0; k < list.length; k++) {
					const a = list[k];
					if (freed[a] !== 0 && m >= freed[a]) continue;
					list[kept++] = a;
					visit(a, i, bottom, bottom + block[a]);
					bottom += block[a];
				}
				list.length = kept;
			}
		}
	}

	// The band at a height, and the allocation in it.
	pick(x: number, y: number): { m: number; band: number; a: number | null; gap: number } {
		const m = this.moment_at(x);
		const sums = this.state.groups.at(m);
		const wanted = this.bytes_of(y);
		const inside = y >= TOP && y <= TOP + this.plot_height() && x >= LEFT;
		let bottom = 0;
		for (let b = 0; inside && b < sums.length; b++) {
			if (this.state.hidden.has(b)) continue;
			if (wanted >= bottom && wanted < bottom + sums[b])
				return { m, band: b, a: this.pick_in_band(m, b, wanted - bottom), gap: -1 };
			bottom += sums[b];
		}
		const gaps = inside ? this.state.drawn_gap?.at(m) : null;
		for (let g = 0; gaps && g < gaps.length; g++) {
			if (wanted >= bottom && wanted < bottom + gaps[g]) return { m, band: -1, a: null, gap: g };
			bottom += gaps[g];
		}
		return { m, band: -1, a: null, gap: -1 };
	}

	pick_in_band(m: number, band: number, height: number): number | null {
		const { recording, groups } = this.state;
		const mine = Array.from(recording.live(m).filter((a) => groups.of[a] === band));
		const ordered = [
			...mine.filter((a) => recording.block[a] >= this.big_bytes),
			...mine.filter((a) => recording.block[a] < this.big_bytes),
		];
		let bottom = 0;
		for (const a of ordered) {
			bottom += recording.block[a];
			if (height < bottom) return a;
		}
		return ordered[ordered.length - 1] ?? null;
	}

	// Where findings are, in the order of the list.
	finding_marks(): { index: number; x: number }[] {
		const { recording } = this.state;
		const out: { index: number; x: number }[] = [];
		recording.head.show.forEach((show, index) => {
			if (!show || show.moment === null || recording.device.findings[index]?.id === "oom") return;
			const x = this.x_of(show.moment);
			if (x < LEFT || x > LEFT + this.plot_width()) return;
			let free = Math.min(x, LEFT + this.plot_width() - 9);
			while (out.some((o) => Math.abs(o.x - free) < 18)) free -= 18;
			if (free > LEFT) out.push({ index, x: free });
		});
		return out;
	}
}
