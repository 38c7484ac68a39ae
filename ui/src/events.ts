// What happened, event by event, in the part of the recording that the picture shows; of what is rare, in all of it.

import { Table, button, code, el, fill } from "./dom";
import type { ColumnOfTable } from "./dom";
import type { Panel } from "./panels";
import { last_at_or_before } from "./recording";
import type { Recording } from "./recording";
import type { State } from "./state";
import * as text from "./text";
import { meaning } from "./words";

const MOST = 20000; // events in the table

interface Happening {
	event: number;
	action: string;
	bytes: number;
	addr: number;
	alloc: number | null;
	stack: number;
}

// What is rare enough to be listed of the whole recording.
const chips: { name: string; has: (h: Happening, recording: Recording) => boolean }[] = [
	{ name: "failures", has: (h) => h.action === "oom" },
	{ name: "driver calls", has: (h) => h.action.startsWith("segment_") },
	{
		name: "frees that wait",
		has: (h, r) => h.action.startsWith("free_") && h.alloc !== null && r.waits(h.alloc),
	},
];

export class Events implements Panel {
	readonly root = el("div", { class: "events" });
	private place = el("div");
	private pressed = new Set<number>();
	private at = "";
	private rows: Happening[] = [];
	private table: Table<Happening> | null = null;
	private marked: Happening | undefined;

	constructor(private state: State) {
		const list = chips.map((chip, i) => {
			const press = button(
				chip.name,
				() => {
					if (!this.pressed.delete(i)) this.pressed.add(i);
					press.setAttribute("aria-pressed", String(this.pressed.has(i)));
					this.show();
				},
				{ class: "chip", "aria-pressed": "false", title: meaning(chip.name) },
			);
			return press;
		});
		const only = el("span", { class: "soft" }, "only");
		fill(
			this.root,
			el("div", { class: "bar", role: "group", "aria-label": "only" }, only, ...list),
			this.place,
		);
		state.on((change) => {
			if (change === "view" && this.root.isConnected && !this.root.closest("[hidden]")) this.show();
		});
	}

	// Of events [from, to), in order.
	private between(from: number, to: number, wanted = (_a: number) => true): Happening[] {
		const { recording } = this.state;
		const { effect, done, freed, block, addr, stack, size } = recording;
		const out: Happening[] = [];
		const add = (
			event: number,
			action: string,
			bytes: number,
			at: number,
			alloc: number | null,
			of: number,
		) => {
			if (event >= from && event < to) out.push({ event, action, bytes, addr: at, alloc, stack: of });
		};
		for (let e = from; e < to; e++) {
			const a = Math.abs(effect[e]) - 1;
			if (a < 0 || !wanted(a)) continue;
			if (effect[e] > 0) add(e, "alloc", size[a], addr[a], a, stack[a]);
			else add(e, done[a] === freed[a] ? "free" : "free_requested", block[a], addr[a], a, stack[a]);
		}
		for (let a = 0; a < recording.rows; a++)
			if (done[a] !== freed[a] && done[a] > from && wanted(a))
				add(done[a] - 1, "free_completed", block[a], addr[a], a, stack[a]);
		for (let s = 0; s < recording.segment_size.length; s++) {
			const segment = recording.segment(s);
			const [take, give] = segment.expandable
				? ["segment_map", "segment_unmap"]
				: ["segment_alloc", "segment_free"];
			add(recording.segment_born[s] - 1, take, segment.size, segment.addr, null, segment.stack);
			if (recording.segment_gone[s])
				add(recording.segment_gone[s] - 1, give, segment.size, segment.addr, null, 0);
		}
		for (const oom of recording.device.oom) add(oom.event, "oom", oom.requested_bytes, 0, null, 0);
		return out.sort((x, y) => x.event - y.event);
	}

	// The part that is listed, and what is said of it.
	private part(): { from: number; to: number; caption: string } {
		const { recording, cursor, ...state } = this.state;
		const { events } = recording;
		if (this.pressed.size) return { from: 0, to: events, caption: "of the whole recording" };
		let from = Math.max(0, Math.floor(state.from));
		let to = Math.min(events, Math.ceil(state.to));
		const all = to - from;
		if (all <= MOST) return { from, to, caption: "those that are visible" };
		// As long as the cursor stays in the middle half, the same ones are listed.
		const step = MOST / 4;
		from = Math.max(from, Math.min(to - MOST, Math.floor(cursor / step) * step - MOST / 2));
		to = Math.min(to, from + MOST);
		return { from, to, caption: `around the cursor: ${text.count(all)} are visible` };
	}

	show(): void {
		const { cursor } = this.state;
		const { from, to, caption } = this.part();
		const key = `${from} ${to} ${[...this.pressed].join()}`;
		const is_new = key !== this.at;
		if (is_new) {
			this.at = key;
			this.rows = this.pressed.size ? this.rare() : this.between(from, to);
			const what = this.pressed.size
				? text.plural(this.rows.length, "event")
				: `Events ${text.count(from)} to ${text.count(Math.max(from, to - 1))}`;
			this.table = new Table(`${what}, ${caption}`, this.columns(), this.rows, {
				choose: (r) => {
					this.state.go(r.event + 1);
					this.state.choose(r.alloc);
				},
				chosen: (r) => r === this.marked,
			});
			fill(this.place, this.table.root);
		}
		// The event that led to the cursor's moment, or the last one before it that is listed.
		const i = last_at_or_before(
			this.rows.map((r) => r.event),
			cursor - 1,
		);
		const marked = this.rows[i];
		if (marked === this.marked && !is_new) return;
		this.marked = marked;
		this.table!.mark();
		if (marked) this.table!.reveal(marked);
	}

	private rare(): Happening[] {
		const { recording } = this.state;
		const has = [...this.pressed].map((i) => chips[i].has);
		const all = this.between(0, recording.events, (a) => this.pressed.has(2) && recording.waits(a));
		return all.filter((h) => has.some((one) => one(h, recording))).slice(0, MOST);
	}

	private columns(): ColumnOfTable<Happening>[] {
		const { recording } = this.state;
		const place = (r: Happening) =>
			r.alloc !== null
				? recording.owner_name(recording.owner(r.alloc))
				: r.stack
					? recording.frame_text(Math.max(0, recording.user_frame(r.stack) - 1))
					: "";
		const time: ColumnOfTable<Happening> = {
			name: "time",
			number: true,
			cell: (r) => text.duration(recording.time_us(r.event + 1) ?? 0),
			order: (r) => r.event,
		};
		return [
			{ name: "event", cell: (r) => text.count(r.event), order: (r) => r.event },
			...(recording.timed ? [time] : []),
			{ name: "what", cell: (r) => r.action, order: (r) => r.action },
			{ name: "bytes", number: true, cell: (r) => text.bytes(r.bytes), order: (r) => r.bytes },
			{
				name: "address",
				number: true,
				cell: (r) => (r.addr ? el("code", {}, text.hex(r.addr)) : ""),
				order: (r) => r.addr,
			},
			{ name: "line", cell: (r) => code(place(r)), order: place },
		];
	}
}
