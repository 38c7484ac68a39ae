// What the views of one recording share, and who is told when it changes.

import { by_category, by_match, by_owner } from "./groups";
import type { Groups } from "./groups";
import { Recording } from "./recording";

export type Mode = "category" | "owner" | "match";
export type Change = "view" | "cursor" | "chosen" | "groups" | "theme";

export class State {
	from = 0; // the part of the recording that is shown, in moments
	to: number;
	cursor: number;
	mark: number | null = null; // the other end of a growth
	chosen: number | null = null; // row of an allocation
	mode: Mode = "category";
	lowest = false; // show the lowest moment of each column instead of the highest
	fit = false; // scale to what is visible
	top: number | null = null; // the scale, where two recordings share one
	groups: Groups;
	match_name = "";
	private kept = new Map<Mode, Groups>();
	private told: ((change: Change) => void)[] = [];

	constructor(readonly recording: Recording) {
		this.to = Math.max(1, recording.events);
		this.cursor = recording.death_moment ?? recording.peak_moment;
		this.groups = by_category(recording);
		this.kept.set("category", this.groups);
	}

	on(listener: (change: Change) => void): void {
		this.told.push(listener);
	}

	tell(change: Change): void {
		for (const listener of this.told) listener(change);
	}

	look(from: number, to: number): void {
		const end = Math.max(1, this.recording.events);
		const width = Math.min(end, Math.max(Math.min(16, end), to - from));
		this.from = Math.max(0, Math.min(from + (to - from - width) / 2, end - width));
		this.to = this.from + width;
		this.tell("view");
	}

	zoom(times: number, around: number): void {
		const left = (around - this.from) * times;
		const right = (this.to - around) * times;
		this.look(around - left, around + right);
	}

	pan(moments: number): void {
		const width = this.to - this.from;
		const from = Math.max(0, Math.min(this.recording.events - width, this.from + moments));
		this.look(from, from + width);
	}

	go(moment: number): void {
		this.cursor = Math.max(0, Math.min(this.recording.events, Math.round(moment)));
		const width = this.to - this.from;
		if (this.cursor < this.from || this.cursor > this.to)
			this.look(this.cursor - width / 2, this.cursor + width / 2);
		this.tell("cursor");
	}

	choose(a: number | null): void {
		this.chosen = a;
		this.tell("chosen");
	}

	// Show a span with some room around it.
	span(from: number, to: number): void {
		const room = Math.max(8, (to - from) * 0.25);
		this.look(from - room, to + room);
	}

	set_mode(mode: Mode): void {
		if (mode === "match" && !this.kept.has("match")) return;
		if (!this.kept.has(mode)) this.kept.set(mode, by_owner(this.recording));
		this.mode = mode;
		this.groups = this.kept.get(mode)!;
		this.tell("groups");
	}

	match(matches: ((a: number) => boolean) | null, name: string): void {
		this.match_name = name;
		if (matches) {
			this.kept.set("match", by_match(this.recording, matches, name));
			this.set_mode("match");
		} else {
			this.kept.delete("match");
			if (this.mode === "match") this.set_mode("category");
		}
	}

	// The moments between which growth is asked for, the earlier first; null: only the cursor's counts.
	growth(): [number, number] | null {
		return this.mark === null
			? null
			: [Math.min(this.mark, this.cursor), Math.max(this.mark, this.cursor)];
	}

	set_mark(m: number | null): void {
		this.mark = m;
		this.tell("cursor");
	}
}
