// Two recordings that move together: what is looked at in one is looked at in the other.

import type { Recording } from "./recording";
import type { State } from "./state";

// Do they have nearly as many events, as a run has under other settings?
export function alike(a: Recording, b: Recording): boolean {
	return Math.abs(a.events - b.events) <= 0.01 * Math.max(a.events, b.events);
}

// The same moment of the other: the same event, where they are alike; the same place of the same step, where
// both have steps; else the same part of the whole.
export function counterpart(m: number, from: Recording, to: Recording): number {
	if (alike(from, to)) return Math.min(m, to.events);
	const step = from.step_at(m);
	const other = step && to.steps[from.steps.indexOf(step)];
	if (step && other) {
		const part = (m - step.start_event) / Math.max(1, step.end_event + 1 - step.start_event);
		return other.start_event + part * (other.end_event + 1 - other.start_event);
	}
	if (from.steps.length && to.steps.length && m > from.steps[from.steps.length - 1].start_event)
		return to.events;
	return (m / Math.max(1, from.events)) * to.events;
}

export class Link {
	on = false;
	private busy = false;
	private states: State[] = [];

	constructor(states: State[]) {
		for (const state of states) this.add(state);
	}

	add(state: State): void {
		this.states.push(state);
		state.on((change) => {
			if (change === "view" || change === "cursor") this.follow(state, change);
			else if (change === "pointer") this.point(state);
		});
	}

	private point(leader: State): void {
		if (!this.on || this.busy) return;
		this.busy = true;
		for (const state of this.states) {
			if (state === leader) continue;
			const { pointed } = leader;
			state.hover = pointed === null ? null : counterpart(pointed, leader.recording, state.recording);
			state.tell("pointer");
		}
		this.busy = false;
	}

	private follow(leader: State, change: "view" | "cursor"): void {
		if (!this.on || this.busy) return;
		this.busy = true;
		for (const state of this.states) {
			if (state === leader) continue;
			const same = (m: number) => counterpart(m, leader.recording, state.recording);
			if (change === "view") state.look(same(leader.from), same(leader.to));
			else {
				state.go(same(leader.cursor));
				state.set_mark(leader.mark === null ? null : Math.round(same(leader.mark)));
			}
		}
		this.busy = false;
	}
}
