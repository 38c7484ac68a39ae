// One recording: verdict, picture, what lies below it and next to it.

import { Details } from "./details";
import { Delay, button, choice, code, colour, el, explained, fill, swatch } from "./dom";
import { phase_colour } from "./chart_draw";
import { Events } from "./events";
import { save_csv } from "./export";
import { Flame } from "./flame";
import { Gap } from "./gap";
import { GapTable, gap_swatch, gap_title } from "./gap_table";
import { Found } from "./found";
import { band_title, groupings } from "./groups";
import * as moments from "./moments";
import type { Place } from "./moments";
import { Notes } from "./notes";
import { Allocations, Findings, Owners, Steps, band_of } from "./panels";
import type { Panel } from "./panels";
import { RangeTable, choose_range } from "./ranges";
import type { Recording } from "./recording";
import { Segments } from "./segments";
import { MATCH, State } from "./state";
import * as text from "./text";
import { Timeline } from "./timeline";
import { reasons_of, verdict_of } from "./verdict";
import { meaning } from "./words";

const ALONE = 1 / 150; // of the scale: what is smaller cannot be seen beside the rest

interface Tab {
	id: string;
	panel: Panel;
	button: HTMLButtonElement;
	place: HTMLElement;
}

export class Pane {
	readonly root: HTMLElement;
	readonly lower: HTMLElement; // tables and graphs of the moment
	readonly side: HTMLElement; // what is chosen, or else why it died and what to do
	readonly state: State;
	readonly timeline: Timeline;
	tab = "";
	readonly notes: Notes;
	query = ""; // what is looked for; "finding:N" after "show me"
	opened: () => void = () => undefined; // told when another tab is looked at
	private tabs: Tab[] = [];
	readonly legend = el("ul", { class: "legend", "aria-label": "Bands at the cursor's moment" });
	private legend_bytes: HTMLElement[] = [];
	private gap_bytes: HTMLElement[] = [];
	private moment = el("div", { class: "moment", role: "status" });
	private tools: Record<string, HTMLButtonElement> = {};
	private bands: { root: HTMLElement; list: HTMLSelectElement };
	private found: Found;
	private showing = new Delay(60, () => this.show_panel(this.tab));
	private finding_at = -1; // where n and N are

	constructor(
		readonly recording: Recording,
		private number: number,
		private find: (query: string) => void,
		private others: () => State[], // of all recordings
		answer: { name: string; whole: boolean; helps: string[]; panel: Panel } | null, // what the verb says that made the page
	) {
		const state = (this.state = new State(recording));
		this.timeline = new Timeline(
			state,
			(a, band, m, gap) => this.tip(a, band, m, gap),
			(i) => this.open_finding(i),
			(band) => {
				state.choose_gap(band);
				this.open("gap");
			},
			(i) => {
				choose_range(state, i);
				this.open("ranges");
			},
		);
		this.found = new Found(
			state,
			() => this.find(""),
			() => save_csv(this),
		);
		this.bands = choice("colour by", [...groupings, { id: MATCH, name: "what was found" }], (id) =>
			recording.when_whole(() => state.set_mode(id)),
		);
		const details = new Details(
			state,
			(query) => this.find(query),
			() => this.zoom_to_choice(),
		);
		this.notes = new Notes(state);
		const reasons = reasons_of(recording, (m) => this.jump(m), answer?.helps ?? []);
		this.side = el("div", { class: "side" }, this.notes.root, details.root, reasons);
		const list = el("div", { class: "tabs", role: "tablist", "aria-label": "Views of the moment" });
		const places = el("div", { class: "places" });
		if (answer) this.add_tab(list, places, "answer", answer.name, answer.panel);
		this.fill_tabs(list, places);
		const device = recording.device.device ? `, device ${recording.device.device}` : "";
		const which = number ? ` of recording ${number + 1}` : "";
		const picture = el(
			"section",
			{ class: "memory", "aria-label": `Memory over time${which}` },
			this.toolbar(),
			this.timeline.root,
			this.moment,
			this.legend,
			this.timeline.behind,
		);
		this.root = el(
			"section",
			{ class: "pane", "aria-label": text.plain(recording.head.title, 200) + which },
			el("div", { class: "file" }, text.plain(recording.head.title, 200) + device),
			answer?.whole ? null : verdict_of(recording, which),
			picture,
		);
		this.lower = el("div", { class: "lower" }, list, places);
		state.on((change) => {
			if (change === "groups" || change === "cursor" || change === "view") this.buttons();
			if (change === "groups") this.make_legend();
			if (change === "cursor" || change === "groups") this.tell_moment();
			if (change === "cursor" || change === "groups" || change === "chosen") this.refresh();
			if (change === "chosen") this.side.classList.toggle("with-choice", state.chosen !== null);
		});
		if (recording.head.read_here) state.set_mode("module"); // nothing tells categories apart
		this.open(this.tabs[0].id);
		this.buttons();
		this.make_legend();
		this.tell_moment();
	}

	private fill_tabs(list: HTMLElement, places: HTMLElement): void {
		const { state, recording } = this;
		const findings = new Findings(
			state,
			(i) => this.show_me(i),
			(i) => this.finding_id(i),
		);
		const tabs: [string, string, Panel][] = [
			["findings", `Findings (${recording.device.findings.length})`, findings],
			["owners", "Owners", new Owners(state)],
			["flame", "Flame graph", new Flame(state, this.others)],
			["segments", "Segments", new Segments(state)],
			["allocations", "Allocations", new Allocations(state)],
			["events", "Events", new Events(state)],
			["steps", `Steps (${recording.steps.length})`, new Steps(state)],
			["gap", "Gap", new GapTable(state)],
			["ranges", "Ranges", new RangeTable(state)],
			["found", "Found", this.found],
		];
		for (const [id, name, panel] of tabs) this.add_tab(list, places, id, name, panel);
		this.tab_of("ranges").button.hidden = !recording.ranges.count;
		this.tab_of("found").button.hidden = true;
	}

	// What needs all of the page: who owns what is reserved and not in use.
	async complete(rest: () => Promise<void>): Promise<void> {
		const { recording, state } = this;
		await recording.complete(rest);
		if (!recording.head.plan) state.set_gap(await Gap.find(recording, rest));
	}

	// The opening view, once the picture has a size.
	open_at(): void {
		this.go_to(moments.opening(this.recording, this.timeline.columns));
	}

	private go_to(place: Place): void {
		const { state } = this;
		state.low = 0;
		state.high = null;
		state.look(place.from, place.to);
		state.go(place.moment);
	}

	to_death(): void {
		if (this.recording.death) this.go_to(moments.place_of_death(this.recording, this.timeline.columns));
	}

	to_peak(): void {
		this.go_to(moments.place_of_peak(this.recording, this.timeline.columns));
	}

	to_end(): void {
		this.go_to(moments.place_of_end(this.recording, this.timeline.columns));
	}

	go_to_event(event: number): void {
		this.go_to(moments.place_around(this.recording, event + 1, this.timeline.columns));
	}

	zoom_to_choice(): void {
		const { state, recording } = this;
		const a = state.chosen;
		if (a === null) state.look(0, recording.events);
		else state.span(recording.born[a], recording.freed[a] || recording.events);
	}

	// ---- tabs ----

	private add_tab(list: HTMLElement, places: HTMLElement, id: string, name: string, panel: Panel): void {
		const label = `pane${this.number}-${id}`;
		const place = el(
			"div",
			{
				class: `panel${["findings", "steps", "owners"].includes(id) ? " prints" : ""}`,
				tabindex: -1,
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
			...explained(name),
		});
		choose.addEventListener("keydown", (event) => {
			const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
			if (!step) return;
			const shown = this.tabs.filter((t) => !t.button.hidden);
			const at = shown.findIndex((t) => t.id === this.tab);
			const next = shown[(at + step + shown.length) % shown.length];
			this.open(next.id);
			next.button.focus();
			event.preventDefault();
			event.stopPropagation();
		});
		this.tabs.push({ id, panel, button: choose, place });
		list.append(choose);
		places.append(place);
	}

	get first_tab(): string {
		return this.tabs[0].id;
	}

	private tab_of(id: string): Tab {
		return this.tabs.find((t) => t.id === id)!;
	}

	open(id: string): void {
		if (!this.tabs.some((t) => t.id === id && !t.button.hidden)) id = this.tabs[0].id;
		this.tab = id;
		for (const tab of this.tabs) {
			const on = tab.id === id;
			tab.button.setAttribute("aria-selected", String(on));
			tab.button.tabIndex = on ? 0 : -1;
			tab.place.hidden = !on;
			if (on) this.show_panel(id);
		}
		this.opened();
	}

	// Of a page that is still being unpacked, only what was there first.
	private show_panel(id: string): void {
		if (id === "answer" || id === "findings") this.tab_of(id).panel.show();
		else this.recording.when_whole(() => this.tab === id && this.tab_of(id).panel.show());
	}

	open_nth(n: number): void {
		const tab = this.tabs.filter((t) => !t.button.hidden)[n];
		if (tab) this.open(tab.id);
	}

	// Tables are made anew only for the tab that is seen, and not while the cursor is being moved fast.
	private refresh(): void {
		this.showing.start();
	}

	show_all_for_print(): void {
		for (const more of this.side.querySelectorAll<HTMLDetailsElement>("details.more")) more.open = true;
		for (const tab of this.tabs) if (tab.place.classList.contains("prints")) tab.panel.show();
	}

	// ---- finding ----

	private show_found(words: string | null): void {
		const tab = this.tab_of("found");
		tab.button.hidden = words === null;
		if (words !== null) {
			tab.button.textContent = words;
			tab.button.title = meaning(words);
		} else if (this.tab === "found") this.open("findings");
		this.buttons();
	}

	run_query(query: string): void {
		this.query = query;
		const finding = /^finding:(\d+)$/.exec(query);
		if (finding) this.paint_finding(Number(finding[1]) - 1);
		else this.recording.when_whole(() => this.query === query && this.run(query));
	}

	private run(query: string): void {
		const n = this.found.run(query);
		this.show_found(n === null ? null : `Found (${text.count(n)})`);
		if (n !== null) this.open("found");
	}

	// The rows that a list of allocations means here: what was found, or else what lives at the cursor.
	selected(): ArrayLike<number> {
		return this.state.found ? this.found.rows : this.recording.live(this.state.cursor);
	}

	// ---- toolbar ----

	private tool(key: string, label: string, title: string, action: () => void): HTMLButtonElement {
		return (this.tools[key] = button(label, action, { title }));
	}

	private toolbar(): HTMLElement {
		const { state, recording } = this;
		return el(
			"div",
			{ class: "bar tools" },
			this.bands.root,
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
			el(
				"span",
				{ class: "group" },
				recording.death
					? this.tool("death", "Death", "zoom to where it died (x)", () => this.to_death())
					: null,
				this.tool("peak", "Peak", "zoom to the peak of allocated memory (p)", () => this.to_peak()),
				this.tool("end", "End", "zoom to the end (e)", () => this.to_end()),
			),
			this.tool(
				"mark",
				"Mark",
				"mark the cursor's moment; the flame graph and owners show what grew since (m)",
				() => this.set_mark(),
			),
			this.tool("note", "Note", "pin a text to the cursor's moment, or to the chosen block (i)", () =>
				this.notes.write(),
			),
			el(
				"span",
				{ class: "group" },
				this.tool("in", "+", "zoom in (w)", () => state.zoom(0.5, this.zoom_centre())),
				this.tool("out", "−", "zoom out (s)", () => state.zoom(2, this.zoom_centre())),
				this.tool("all", "All", "show all (0)", () => this.show_all()),
			),
		);
	}

	show_all(): void {
		this.state.low = 0;
		this.state.high = null;
		this.state.look(0, this.recording.events);
	}

	private buttons(): void {
		const { state } = this;
		const press = (key: string, on: boolean) => this.tools[key]?.setAttribute("aria-pressed", String(on));
		this.bands.list.value = state.mode;
		for (const option of this.bands.list.options)
			if (option.value === MATCH) option.hidden = option.disabled = !state.found;
		press("highest", !state.lowest);
		press("lowest", state.lowest);
		press("fit", state.fit);
		press("mark", state.mark !== null);
		this.tools.in.setAttribute("aria-label", "zoom in");
		this.tools.out.setAttribute("aria-label", "zoom out");
	}

	// Where the pointer is, or else the cursor, if that is visible.
	zoom_centre(): number {
		const { cursor, from, to } = this.state;
		return this.timeline.pointed ?? (cursor >= from && cursor <= to ? cursor : (from + to) / 2);
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

	// Zoom to what a finding is about, and paint exactly its allocations.
	private show_me(i: number): void {
		if (!this.recording.head.show[i]) return;
		this.finding_at = i;
		this.go_to(moments.place_of_finding(this.recording, i, this.timeline.columns));
		this.find(`finding:${i + 1}`);
		const { recording, state } = this;
		let largest: number | null = null;
		for (const a of this.found_rows())
			if (
				recording.lives(a, state.cursor) &&
				(largest === null || recording.block[a] > recording.block[largest])
			)
				largest = a;
		state.choose(largest);
		this.timeline.root.scrollIntoView({ block: "nearest" });
	}

	private found_rows(): number[] {
		return this.state.found ? this.found.rows : [];
	}

	private paint_finding(i: number): void {
		const { recording, state } = this;
		const rows = moments.rows_of_finding(recording, i);
		if (!rows.length) {
			this.found.run("");
			this.show_found(null);
			return;
		}
		// Its first words: the whole of it stands below.
		const [title] = (recording.device.findings[i]?.title ?? "").split(/, | \(/);
		this.found.take(rows, `finding ${i + 1}: ${text.plain(title)}`);
		this.show_found(`Finding ${i + 1} (${text.count(rows.length)})`);
		// What would be less than a hair high is drawn alone.
		const { bytes } = moments.fullest(recording, rows);
		if (bytes < ALONE * Math.max(1, recording.reserved_peak)) state.hide([1]);
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
		const total = recording.allocated.total(state.cursor);
		const reserved = recording.reserved(state.cursor);
		if (this.legend_bytes.length !== sums.length) this.make_legend();
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
				: `; ${text.signed(total - recording.allocated.total(state.mark))} since the mark at event ${text.count(Math.max(0, state.mark - 1))}`,
		);
		this.moment.title = this.moment.textContent ?? "";
		state.groups.bands.forEach((_, b) => {
			const place = this.legend_bytes[b];
			if (!place) return;
			const words = sums[b] ? text.bytes(sums[b]) : "-";
			if (place.textContent !== words) place.textContent = words;
		});
		const gap = state.gap?.at(state.cursor);
		this.gap_bytes.forEach((place, g) => (place.textContent = gap?.[g] ? text.bytes(gap[g]) : "-"));
	}

	// As the bands lie on each other: the topmost first.  A name shows its band alone, a colour hides it.
	private make_legend(): void {
		const { state, recording } = this;
		this.legend_bytes = [];
		const toggle = (b: number) => {
			const hidden = new Set(state.hidden);
			if (!hidden.delete(b)) hidden.add(b);
			state.hide(hidden);
		};
		const items = state.groups.bands.map((band, b) => {
			const name = text.plain(band.name, 60);
			const is_hidden = state.hidden.has(b);
			const bytes = (this.legend_bytes[b] = el("span", { class: "soft" }));
			return el(
				"li",
				is_hidden ? { class: "none" } : {},
				el(
					"button",
					{
						type: "button",
						class: "band",
						"aria-label": `${name}: ${is_hidden ? "show" : "hide"}`,
						title: is_hidden ? "show" : "hide",
						"aria-pressed": String(!is_hidden),
						click: () => toggle(b),
					},
					swatch(band.colour),
				),
				el(
					"button",
					{
						type: "button",
						class: "row",
						title: `${band_title(band)}; a press: only this, or all again`,
						click: () => state.isolate(b),
					},
					name,
				),
				bytes,
			);
		});
		const phases = [...new Set(Array.from(recording.phase))].map((p) => recording.head.phases[p]);
		fill(
			this.legend,
			...this.gap_legend(),
			...items.filter((_, b) => state.groups.used[b]).reverse(),
			phases.length
				? el(
						"li",
						{ class: "phases" },
						el("span", { class: "soft", ...explained("phases") }, "phases:"),
						...phases.map((p) =>
							el("span", explained(p), swatch(phase_colour(p)), " ", text.plain(p, 40)),
						),
					)
				: null,
		);
	}

	// Bands of the gap that are ever there, the topmost first; a press chooses one, or none.
	private gap_legend(): HTMLElement[] {
		const { state } = this;
		this.gap_bytes = [];
		if (!state.drawn_gap) return [];
		const rows = state.drawn_gap.bands.map((band, g) =>
			el(
				"li",
				{ class: "gap-band" },
				el(
					"button",
					{
						type: "button",
						class: "row",
						title: gap_title(band),
						"aria-pressed": String(state.gap_band === g),
						click: () => state.choose_gap(state.gap_band === g ? null : g),
					},
					gap_swatch(band),
					" ",
					text.plain(band.name, 60),
				),
				(this.gap_bytes[g] = el("span", { class: "soft" })),
			),
		);
		return rows.filter((_, g) => state.drawn_gap!.bands[g].most > 0).reverse();
	}

	// The bands that are drawn, the topmost first, as an export has them.
	legend_text(): { name: string; colour: string; bytes: string }[] {
		const { groups, hidden, cursor } = this.state;
		const sums = Array.from(groups.at(cursor));
		return groups.bands
			.map((band, b) => ({
				name: band.name,
				colour: colour(band.colour),
				bytes: text.bytes(sums[b]),
				shown: groups.used[b] && !hidden.has(b),
			}))
			.filter((band) => band.shown)
			.reverse();
	}

	next_bands(step: number): void {
		const at = groupings.findIndex((g) => g.id === this.state.mode);
		const { id } = groupings[(at + step + groupings.length) % groupings.length];
		this.recording.when_whole(() => this.state.set_mode(id));
	}

	private tip(a: number | null, band: number, m: number, gap: number): Node[] {
		const { recording, state } = this;
		const total = recording.allocated.total(m);
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
		} else if (gap >= 0) out.push(...this.gap_tip(m, gap));
		else if (band < 0) out.push(el("div", {}, this.empty_at(m)));
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

	private gap_tip(m: number, gap: number): Node[] {
		const band = this.state.gap!.bands[gap];
		const bytes = el("strong", {}, text.bytes(this.state.gap!.at(m)[gap]));
		return [
			el("div", {}, gap_swatch(band), " ", bytes, ` ${text.plain(band.name, 80)}`),
			el("div", {}, gap_title(band)),
		];
	}

	// Above the bands: what is reserved is either in use or free.
	private empty_at(m: number): string {
		const free = this.recording.reserved(m) - this.recording.allocated.total(m);
		return free > 0 ? `up to the line: ${text.bytes(free)} reserved, but free` : "not reserved";
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
