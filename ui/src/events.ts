// What happened, event by event, in the part of the recording that the picture shows.

import { code, el, fill, table } from "./dom";
import type { Panel } from "./panels";
import type { State } from "./state";
import * as text from "./text";

const MOST = 20000; // events in the table

interface Happening {
	event: number;
	action: string;
	bytes: number;
	addr: number;
	alloc: number | null;
	stack: number;
}

export class Events implements Panel {
	readonly root = el("div", { class: "events" });
	private at = "";

	constructor(private state: State) {
		state.on((change) => {
			if (change === "view" && this.root.isConnected && !this.root.closest("[hidden]")) this.show();
		});
	}

	// Of events [from, to), in order.
	private between(from: number, to: number): Happening[] {
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
			if (a < 0) continue;
			if (effect[e] > 0) add(e, "alloc", size[a], addr[a], a, stack[a]);
			else add(e, done[a] === freed[a] ? "free" : "free_requested", block[a], addr[a], a, stack[a]);
		}
		for (let a = 0; a < recording.rows; a++)
			if (done[a] !== freed[a] && done[a] > from)
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

	show(): void {
		const { state } = this;
		const { recording, cursor } = state;
		let from = Math.max(0, Math.floor(state.from));
		let to = Math.min(recording.events, Math.ceil(state.to));
		const all = to - from;
		if (all > MOST) {
			from = Math.max(from, Math.min(to - MOST, cursor - MOST / 2));
			to = Math.min(to, from + MOST);
		}
		const key = `${from} ${to} ${cursor}`;
		if (key === this.at) return;
		this.at = key;
		const rows = this.between(from, to);
		const place = (r: Happening) =>
			r.alloc !== null
				? recording.owner_name(recording.owner(r.alloc))
				: r.stack
					? recording.frame_text(Math.max(0, recording.user_frame(r.stack) - 1))
					: "";
		fill(
			this.root,
			table(
				`Events ${text.count(from)} to ${text.count(Math.max(from, to - 1))}${all > MOST ? `, around the cursor: ${text.count(all)} are visible` : ", those that are visible"}`,
				[
					{ name: "event", cell: (r) => text.count(r.event), order: (r) => r.event },
					...(recording.timed
						? [
								{
									name: "time",
									number: true,
									cell: (r: Happening) =>
										text.duration(recording.time_us(r.event + 1) ?? 0),
									order: (r: Happening) => r.event,
								},
							]
						: []),
					{ name: "what", cell: (r) => r.action, order: (r) => r.action },
					{ name: "bytes", number: true, cell: (r) => text.bytes(r.bytes), order: (r) => r.bytes },
					{
						name: "address",
						number: true,
						cell: (r) => (r.addr ? el("code", {}, text.hex(r.addr)) : ""),
						order: (r) => r.addr,
					},
					{ name: "line", cell: (r) => code(place(r)), order: place },
				],
				rows,
				(r) => {
					state.go(r.event + 1);
					state.choose(r.alloc);
				},
				(r) => r.event === cursor - 1,
			),
		);
	}
}
