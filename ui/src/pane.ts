// One recording: verdict, picture, and what lies below it.

import { Details } from "./details";
import { button, code, el, fill, swatch } from "./dom";
import { Flame } from "./flame";
import { Allocations, Findings, Owners, Steps, band_of } from "./panels";
import type { Panel } from "./panels";
import type { Recording } from "./recording";
import { Search } from "./search";
import { Segments } from "./segments";
import { State } from "./state";
import * as text from "./text";
import { Timeline } from "./timeline";
import { checked, verdict_of } from "./verdict";

interface Tab {
	id: string;
	name: string;
	panel: Panel;
	button: HTMLButtonElement;
	place: HTMLElement;
}

export class Pane {
	readonly root: HTMLElement;
	readonly state: State;
	readonly timeline: Timeline;
	private tabs: Tab[] = [];
	private now = "";
	private legend = el("ul", { class: "legend", "aria-label": "Categories at the cursor's moment" });
	private moment = el("div", { class: "moment", role: "status" });
	private tools: Record<string, HTMLButtonElement> = {};
	private search: Search;
	private lower: HTMLElement;
	private speak = 0;
	private picture: HTMLElement;
	private finding_at = -1; // where n and N are
	private coloured = false; // what a finding is about

	constructor(
		readonly recording: Recording,
		private number: number,
		private set_query: (query: string) => void,
	) {
		const state = (this.state = new State(recording));
		this.timeline = new Timeline(
			state,
			(a, band, m) => this.tip(a, band, m),
			(i) => this.open_finding(i),
		);
		this.search = new Search(state, () => this.set_query(""));
		const details = new Details(state, (query) => this.set_query(query));
		const tab_list = el("div", { class: "tabs", role: "tablist", "aria-label": "Views of the moment" });
		const places = el("div");
		this.lower = el("div", { class: "lower" }, places, details.root);
		const findings = recording.device.findings.length;
		this.add_tab(
			tab_list,
			places,
			"findings",
			`Findings (${findings})`,
			new Findings(
				state,
				(i) => this.show_me(i),
				(i) => this.finding_id(i),
			),
		);
		this.add_tab(tab_list, places, "owners", "Owners", new Owners(state));
		this.add_tab(tab_list, places, "flame", "Flame graph", new Flame(state));
		this.add_tab(tab_list, places, "segments", "Segments", new Segments(state));
		this.add_tab(tab_list, places, "allocations", "Allocations", new Allocations(state));
		this.add_tab(tab_list, places, "steps", `Steps (${recording.steps.length})`, new Steps(state));
		this.add_tab(tab_list, places, "search", "Search", this.search);
		this.tab_of("search").button.hidden = true;
		const check = checked(recording);
		const device = recording.device.device ? `, device ${recording.device.device}` : "";
		this.picture = el(
			"section",
			{ "aria-label": "Memory over time" },
			this.toolbar(),
			this.timeline.root,
			this.moment,
			this.legend,
			this.timeline.behind,
		);
		this.root = el(
			"section",
			{ class: "pane", "aria-label": text.plain(recording.head.title, 200) },
			el("div", { class: "file" }, text.plain(recording.head.title, 200) + device),
			verdict_of(recording, (m) => this.jump(m)),
			this.picture,
			tab_list,
			this.lower,
			el(
				"footer",
				{},
				...recording.head.merged.map((m) => el("p", {}, text.plain(m))),
				el("p", check.ok ? {} : { class: "failed" }, check.words),
			),
		);
		state.on((change) => {
			if (change === "groups" || change === "cursor") this.buttons();
			if (change === "cursor" || change === "groups") {
				this.tell_moment();
				this.refresh();
			}
			if (change === "chosen") {
				this.lower.classList.toggle("with-details", state.chosen !== null);
				this.refresh();
			}
		});
		this.open("findings");
		this.buttons();
		this.tell_moment();
	}

	// ---- tabs ----

	private add_tab(list: HTMLElement, places: HTMLElement, id: string, name: string, panel: Panel): void {
		const label = `pane${this.number}-${id}`;
		const place = el(
			"div",
			{
				class: `panel${["findings", "steps", "owners"].includes(id) ? " prints" : ""}`,
				id: label,
				role: "tabpanel",
				hidden: true,
				"aria-labelledby": `${label}-tab`,
			},
			panel.root,
		);
		const choose = button(name, () => this.open(id), {
			role: "tab",
			id: `${label}-tab`,
			"aria-controls": label,
			"aria-selected": "false",
		});
		choose.addEventListener("keydown", (event) => {
			const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
			if (!step) return;
			const shown = this.tabs.filter((t) => !t.button.hidden);
			const at = shown.findIndex((t) => t.id === this.now);
			const next = shown[(at + step + shown.length) % shown.length];
			this.open(next.id);
			next.button.focus();
			event.preventDefault();
			event.stopPropagation();
		});
		this.tabs.push({ id, name, panel, button: choose, place });
		list.append(choose);
		places.append(place);
	}

	private tab_of(id: string): Tab {
		return this.tabs.find((t) => t.id === id)!;
	}

	open(id: string): void {
		this.now = id;
		for (const tab of this.tabs) {
			const on = tab.id === id;
			tab.button.setAttribute("aria-selected", String(on));
			tab.button.tabIndex = on ? 0 : -1;
			tab.place.hidden = !on;
			if (on) tab.panel.show();
		}
	}

	open_nth(n: number): void {
		const tab = this.tabs.filter((t) => !t.button.hidden)[n];
		if (tab) this.open(tab.id);
	}

	// Tables are made anew only for the tab that is seen, and not while the cursor is being moved fast.
	private refresh(): void {
		clearTimeout(this.speak);
		this.speak = window.setTimeout(() => this.tab_of(this.now).panel.show(), 60);
	}

	show_all_for_print(): void {
		for (const more of this.root.querySelectorAll<HTMLDetailsElement>("details.more")) more.open = true;
		for (const tab of this.tabs) if (tab.place.classList.contains("prints")) tab.panel.show();
	}

	// ---- search ----

	run_search(query: string): number | null {
		const found = this.search.run(query);
		const tab = this.tab_of("search");
		this.tools.match.textContent = "By search";
		this.coloured = false;
		tab.button.hidden = found === null;
		if (found !== null) {
			tab.button.textContent = `Search (${text.count(found)})`;
			this.open("search");
		} else if (this.now === "search") this.open("findings");
		this.buttons();
		return found;
	}

	// ---- toolbar ----

	private tool(key: string, label: string, title: string, action: () => void): HTMLButtonElement {
		return (this.tools[key] = button(label, action, { title }));
	}

	private toolbar(): HTMLElement {
		const { state } = this;
		const jump = el(
			"span",
			{ class: "group" },
			state.recording.death
				? this.tool("death", "Death", "go to where it died (d)", () =>
						this.jump(state.recording.death_moment!),
					)
				: null,
			this.tool("peak", "Peak", "go to the peak of allocated memory (p)", () =>
				this.jump(state.recording.peak_moment),
			),
			this.tool("end", "End", "go to the end (e)", () => this.jump(state.recording.events)),
		);
		return el(
			"div",
			{ class: "bar" },
			el(
				"span",
				{ class: "group", role: "group", "aria-label": "bands" },
				this.tool("category", "By category", "stack by category (c)", () =>
					state.set_mode("category"),
				),
				this.tool("owner", "By owner", "stack by the program's own lines (o)", () =>
					state.set_mode("owner"),
				),
				this.tool("match", "By search", "what the search found", () => state.set_mode("match")),
			),
			el(
				"span",
				{ class: "group", role: "group", "aria-label": "columns show" },
				this.tool("highest", "Highest", "each column shows its highest moment", () =>
					this.set_lowest(false),
				),
				this.tool(
					"lowest",
					"Lowest",
					"each column shows its lowest moment: what never goes away (l)",
					() => this.set_lowest(true),
				),
			),
			this.tool("fit", "Fit height", "scale to what is visible (y)", () => this.set_fit(!state.fit)),
			el("span", { class: "gap" }),
			jump,
			this.tool(
				"mark",
				"Mark",
				"mark the cursor's moment; the flame graph and owners show what grew since (f)",
				() => this.set_mark(),
			),
			el(
				"span",
				{ class: "group" },
				this.tool("in", "+", "zoom in (+)", () => state.zoom(0.5, this.zoom_centre())),
				this.tool("out", "−", "zoom out (-)", () => state.zoom(2, this.zoom_centre())),
				this.tool("all", "All", "show all (0)", () => state.look(0, state.recording.events)),
			),
		);
	}

	private buttons(): void {
		const { state } = this;
		const press = (key: string, on: boolean) => this.tools[key]?.setAttribute("aria-pressed", String(on));
		for (const mode of ["category", "owner", "match"]) press(mode, state.mode === mode);
		press("highest", !state.lowest);
		press("lowest", state.lowest);
		press("fit", state.fit);
		press("mark", state.mark !== null);
		this.tools.match.hidden = !state.match_name;
		this.tools.in.setAttribute("aria-label", "zoom in");
		this.tools.out.setAttribute("aria-label", "zoom out");
	}

	zoom_centre(): number {
		const { cursor, from, to } = this.state;
		return cursor >= from && cursor <= to ? cursor : (from + to) / 2;
	}

	set_lowest(on: boolean): void {
		this.state.lowest = on;
		this.state.tell("view");
		this.buttons();
	}

	set_fit(on: boolean): void {
		this.state.fit = on;
		this.state.tell("view");
		this.buttons();
	}

	set_mark(): void {
		this.state.set_mark(this.state.mark === null ? this.state.cursor : null);
		this.buttons();
	}

	jump(m: number): void {
		this.state.go(m);
	}

	// ---- findings ----

	private finding_id(i: number): string {
		return `pane${this.number}-finding${i}`;
	}

	private show_me(i: number): void {
		const show = this.recording.head.show[i];
		if (!show) return;
		// What has no moment of its own is about the peak.
		const moment = show.moment ?? this.recording.peak_moment;
		if (show.from !== null && show.to !== null && show.to > show.from)
			this.state.span(show.from, show.to);
		this.state.go(moment);
		if (show.stack !== null || show.frame !== null) {
			this.colour_finding(i, moment);
			this.choose_of(show.stack, show.frame, moment);
		} else if (this.coloured) this.state.match(null, "");
		this.picture.scrollIntoView({ block: "start" });
	}

	// In colour: what lives at the moment of a leak's line, or of another finding's stack.
	private colour_finding(i: number, m: number): void {
		const { recording, state } = this;
		const { stack, frame } = recording.head.show[i]!;
		const by_line = frame !== null && (stack === null || recording.device.findings[i].id === "leak");
		const is_its = by_line
			? (a: number) => recording.user_frame(recording.stack[a]) === frame + 1
			: (a: number) => recording.stack[a] === stack! + 1;
		const place = by_line
			? recording.frame_text(frame)
			: recording.frame_text(recording.frames_of(stack! + 1)[0] ?? 0);
		state.match(
			(a) => is_its(a) && recording.lives(a, m),
			`finding ${i + 1}: ${text.short_place(place)}`,
		);
		this.tools.match.textContent = `Finding ${i + 1}`;
		this.coloured = true;
	}

	// The largest live allocation of a finding's stack, or else of its line.
	private choose_of(stack: number | null, frame: number | null, m: number): void {
		const { recording, state } = this;
		const live = Array.from(recording.live(m));
		const largest = (rows: number[]) =>
			rows.reduce((best, a) => (best < 0 || recording.block[a] > recording.block[best] ? a : best), -1);
		let best = largest(live.filter((a) => stack !== null && recording.stack[a] === stack + 1));
		if (best < 0)
			best = largest(
				live.filter((a) => frame !== null && recording.user_frame(recording.stack[a]) === frame + 1),
			);
		if (best >= 0) state.choose(best);
	}

	open_finding(i: number): void {
		this.open("findings");
		const place = document.getElementById(this.finding_id(i));
		place?.scrollIntoView({ block: "nearest" });
		place?.focus({ preventScroll: true });
	}

	// ---- what the cursor's moment holds ----

	private tell_moment(): void {
		const { state, recording } = this;
		const sums = Array.from(state.groups.at(state.cursor));
		const total = recording.allocated.at[state.cursor];
		const reserved = recording.reserved(state.cursor);
		const where =
			state.cursor === recording.death_moment
				? "At the death"
				: state.cursor === recording.peak_moment
					? "At the peak"
					: "At the cursor";
		fill(
			this.moment,
			`${where}: ${recording.moment_text(state.cursor)}: ${text.bytes(total)} allocated, ${text.bytes(reserved)} reserved`,
			state.mark === null
				? null
				: `; ${text.signed(total - recording.allocated.at[state.mark])} since the mark at event ${text.count(Math.max(0, state.mark - 1))}`,
		);
		// As the bands lie on each other: the topmost first.
		const items = state.groups.bands
			.map((band, b) => ({ band, n: sums[b], used: state.groups.used[b] }))
			.reverse()
			.filter(({ used }) => used)
			.map(({ band, n }) =>
				el(
					"li",
					n ? {} : { class: "none" },
					swatch(band.colour),
					el("span", {}, text.plain(band.name, 90)),
					el("span", { class: "soft" }, n ? text.bytes(n) : "-"),
				),
			);
		fill(this.legend, ...items);
	}

	private tip(a: number | null, band: number, m: number): Node[] {
		const { recording, state } = this;
		const total = recording.allocated.at[m];
		const out: Node[] = [el("div", { class: "soft" }, recording.moment_text(m))];
		if (a !== null) {
			const frames = Array.from(recording.frames_of(recording.stack[a]));
			const own = recording.user_frame(recording.stack[a]) - 1;
			const shown = [...frames.slice(0, 3)];
			if (own >= 0 && !shown.includes(own)) shown.push(own);
			out.push(
				el(
					"div",
					{},
					band_of(state, a),
					" ",
					el("strong", {}, text.bytes(recording.block[a])),
					` ${recording.head.categories[recording.category(a)]?.name ?? ""}`,
				),
				el("div", {}, code(recording.owner_name(recording.owner(a)), 300)),
				...shown
					.filter((f) => f !== own)
					.map((f) =>
						el("div", { class: "soft" }, code(text.short_place(recording.frame_text(f)), 160)),
					),
			);
		} else if (band < 0) out.push(el("div", {}, "nothing is allocated here"));
		const sums = band >= 0 ? state.groups.at(m)[band] : 0;
		if (band >= 0)
			out.push(
				el(
					"div",
					{ class: "soft" },
					`${text.plain(state.groups.bands[band].name, 80)} ${text.bytes(sums)} of ${text.bytes(total)}; reserved ${text.bytes(recording.reserved(m))}`,
				),
			);
		else
			out.push(
				el(
					"div",
					{ class: "soft" },
					`allocated ${text.bytes(total)}, reserved ${text.bytes(recording.reserved(m))}`,
				),
			);
		return out;
	}

	// ---- keys ----

	// Walk from allocation to allocation in the stack at the cursor, or begin with the largest.
	next_allocation(step: number): void {
		const { recording, state } = this;
		const live = Array.from(recording.live(state.cursor)).sort(
			(a, b) =>
				state.groups.of[a] - state.groups.of[b] || recording.block[b] - recording.block[a] || a - b,
		);
		if (!live.length) return;
		const at = state.chosen === null ? -1 : live.indexOf(state.chosen);
		const largest = live.reduce(
			(best, a) => (recording.block[a] > recording.block[best] ? a : best),
			live[0],
		);
		state.choose(at < 0 ? largest : live[Math.max(0, Math.min(live.length - 1, at + step))]);
	}

	next_step(direction: number): void {
		const { recording, state } = this;
		const event = Math.max(0, state.cursor - 1);
		const { steps } = recording;
		if (!steps.length) return;
		const now = steps.findIndex((s) => s.end_event >= event);
		const at = Math.max(0, Math.min(steps.length - 1, (now < 0 ? steps.length - 1 : now) + direction));
		state.go(
			recording.allocated.extreme(
				steps[at].start_event,
				Math.min(recording.events + 1, steps[at].end_event + 2),
				false,
			),
		);
	}

	// To the next event that allocates or frees.
	move(events: number): void {
		this.state.go(this.state.cursor + events);
	}

	next_finding(direction: number): void {
		const { show } = this.recording.head;
		if (!show.length) return;
		this.finding_at =
			(Math.max(this.finding_at, direction > 0 ? -1 : 0) + direction + show.length) % show.length;
		this.open("findings");
		this.show_me(this.finding_at);
		document.getElementById(this.finding_id(this.finding_at))?.focus({ preventScroll: true });
	}
}
