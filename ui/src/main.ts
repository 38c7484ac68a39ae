// Opens the page: unpacks each recording in slices, so that the browser stays awake, and shows them.

import "uplot/dist/uPlot.min.css";
import "./viewer.css";
import { Delay, type Keys, button, copy, el, fill, forget_colours, keys_dialog, splitter } from "./dom";
import { save_csv, save_folded, save_png, save_svg } from "./export";
import { completions } from "./filter";
import { Link, alike } from "./link";
import {
	type Answer,
	AnswerPanel,
	type Place as DiffPlace,
	type RankRow,
	read_answer,
	sentence_of,
} from "./answer";
import { CheckpointView } from "./ckpt";
import { Unusable, open_file } from "./dropped";
import { Page, sections_here } from "./page";
import { Pane } from "./pane";
import { load_plot } from "./panels";
import { Recording } from "./recording";
import * as text from "./text";
import { Trail } from "./trail";
import { wanted_top } from "./chart";
import { all_words } from "./words";

// A key, what the dialog says of it, and what it does.  Rows without `does` tell what others do.
interface Key {
	keys: string[];
	shown?: string; // instead of the keys; "": the row above tells of it
	words: string;
	does?: (app: App, event: KeyboardEvent) => void;
}

const OPEN_AT_FIRST = 8; // recordings of many ranks; the others are opened when they are asked for
const STEP = 0.2; // of what is visible, that a key pans by
const CLOSER = 0.5;
const TALLER = 0.6;

const table_of_keys: Key[] = [
	{ keys: ["?"], words: "this help", does: (app) => app.help.showModal() },
	{
		keys: ["/"],
		words: "find: size>=64MiB, file:model.py, step:3, 0x7f...",
		does: (app) => app.box.focus(),
	},
	{ keys: ["w", "+", "="], shown: "w, +", words: "zoom in", does: (app) => app.zoom(CLOSER) },
	{ keys: ["s", "-"], shown: "s, −", words: "zoom out", does: (app) => app.zoom(1 / CLOSER) },
	{ keys: ["a"], words: "pan left", does: (app) => app.pan(-STEP) },
	{ keys: ["d"], words: "pan right", does: (app) => app.pan(STEP) },
	{ keys: ["W"], words: "taller: zoom vertically", does: (app) => app.pane.timeline.stretch(TALLER, null) },
	{ keys: ["S"], words: "flatter", does: (app) => app.pane.timeline.stretch(1 / TALLER, null) },
	{ keys: ["0"], words: "show all", does: (app) => app.pane.show_all() },
	{ keys: ["f"], words: "zoom to the life of what is chosen", does: (app) => app.pane.zoom_to_choice() },
	{ keys: ["u"], words: "undo (also Ctrl+Z, and the browser's back)", does: (app) => app.trail.undo() },
	{ keys: ["U"], words: "redo (also Ctrl+Shift+Z, and forward)", does: (app) => app.trail.redo() },
	{ keys: ["x"], words: "zoom to the death", does: (app) => app.pane.to_death() },
	{ keys: ["p"], words: "zoom to the peak", does: (app) => app.pane.to_peak() },
	{ keys: ["e"], words: "zoom to the end", does: (app) => app.pane.to_end() },
	{ keys: ["n"], words: "next finding", does: (app) => app.pane.next_finding(1) },
	{ keys: ["N"], words: "previous finding", does: (app) => app.pane.next_finding(-1) },
	{
		keys: ["ArrowLeft", "ArrowRight"],
		shown: "← →",
		words: "one event back, on (with Shift: a twentieth of the picture)",
		does: (app, event) => app.move(event.key === "ArrowLeft" ? -1 : 1, event.shiftKey),
	},
	{
		keys: ["ArrowUp", "ArrowDown"],
		shown: "↑ ↓",
		words: "in the picture: walk through the allocations at the cursor, largest first",
		does: (app, event) => app.pane.next_allocation(event.key === "ArrowUp" ? -1 : 1),
	},
	{ keys: ["["], words: "previous step", does: (app) => app.pane.next_step(-1) },
	{ keys: ["]"], words: "next step", does: (app) => app.pane.next_step(1) },
	{ keys: ["b"], words: "go to the birth of what is chosen", does: (app) => app.to_birth() },
	{ keys: ["B"], words: "go to where it is freed", does: (app) => app.to_end_of_life() },
	{ keys: ["m"], words: "set or clear the mark: what grew since", does: (app) => app.pane.set_mark() },
	{
		keys: ["i"],
		words: "pin a note to the cursor's moment, or to what is chosen",
		does: (app) => app.pane.notes.write(),
	},
	{
		keys: ["c"],
		words: "colour by the next of category, line, model code ...",
		does: (app) => app.pane.next_bands(1),
	},
	{ keys: ["C"], words: "colour by category", does: (app) => app.pane.state.set_mode("category") },
	{
		keys: ["l"],
		words: "lowest or highest moment of each column",
		does: (app) => app.pane.set_lowest(!app.pane.state.lowest),
	},
	{
		keys: ["y"],
		words: "fit the height to what is visible",
		does: (app) => app.pane.set_fit(!app.pane.state.fit),
	},
	{
		keys: ["1", "2", "3", "4", "5", "6", "7", "8", "9"],
		shown: "1 to 9",
		words: "the views below the picture, in turn",
		does: (app, event) => app.pane.open_nth(Number(event.key) - 1),
	},
	{ keys: ["o"], words: "the other recording", does: (app) => app.other_pane() },
	{ keys: ["k"], words: "recordings move together, or each alone", does: (app) => app.toggle_link() },
	{ keys: ["t"], words: "light or dark", does: (app) => app.other_theme() },
	{
		keys: ["Escape"],
		shown: "Esc",
		words: "clear the choice, the mark, then what was found",
		does: (app) => app.escape(),
	},
	{
		keys: [],
		shown: "Tab, Enter",
		words: "all buttons and tables; inside the flame graph and the map arrows walk",
	},
];
const action_of = new Map(table_of_keys.flatMap((row) => row.keys.map((key) => [key, row.does!] as const)));
const keys: Keys = table_of_keys.map((row) => [row.shown ?? row.keys.join(", "), row.words]);

const pointers: Keys = [
	["Ctrl + wheel", "zoom at the pointer"],
	["Shift + wheel", "pan"],
	["Alt + wheel", "taller, flatter"],
	["drag", "zoom to a range (Shift: pan)"],
	["click", "choose an allocation and its moment (Shift: set the mark)"],
	["double click", "zoom to the life of what is there"],
	["fingers", "one pans, two zoom"],
	["strip below", "drag to move through the recording"],
	["name in the legend", "only this band, or all again; its colour hides it"],
	["drop a file", "a packed recording (.plim) or another page, next to this one"],
];

class App {
	readonly help = keys_dialog(keys, pointers, all_words());
	readonly box = el("input", {
		type: "search",
		id: "search",
		placeholder: "Find: size>=64MiB, file:model.py, step:3, 0x7f...",
		"aria-label": "Find by size, file, function, category, step, address ...",
		role: "combobox",
		"aria-expanded": "false",
		"aria-controls": "offers",
		"aria-autocomplete": "list",
		autocomplete: "off",
		spellcheck: "false",
	});
	readonly trail: Trail;
	private offers = el("ul", {
		id: "offers",
		role: "listbox",
		"aria-label": "What could come next",
		hidden: true,
	});
	private offered = -1;
	private panes: Pane[] = [];
	private active = 0;
	private answer: Answer | null = null;
	private closed = new Map<string, number>(); // recordings of the page by their files
	private theme = "light";
	private shared_scale = true;
	private link = new Link([]);
	private pictures = el("div", { class: "panes" });
	private legends = el("div", { class: "legends" }); // of more than two pictures, the chosen one's
	private lowers = el("div", { class: "lowers" });
	private dock = el("aside", { class: "dock", "aria-label": "What is chosen" });
	private name = el("span", { class: "file" });
	private undo = button("↶", () => this.trail.undo(), { title: "undo (u)", "aria-label": "undo" });
	private redo = button("↷", () => this.trail.redo(), { title: "redo (U)", "aria-label": "redo" });
	private link_button = button("Linked", () => this.toggle_link(), {
		title: "what is looked at in one is looked at in the other (k)",
		"aria-pressed": "false",
	});
	private scale_button = button("Same scale", () => this.toggle_scale(), {
		title: "draw all recordings at one scale",
	});

	constructor(private root: HTMLElement) {
		this.trail = new Trail(
			() => this.panes,
			(can_undo, can_redo) => {
				this.undo.disabled = !can_undo;
				this.redo.disabled = !can_redo;
			},
		);
	}

	get pane(): Pane {
		return this.panes[this.active];
	}

	async open(): Promise<void> {
		const n = Page.count();
		const waiting = el("p", { class: "waiting", role: "status" }, "Unpacking ...");
		fill(this.root, waiting);
		this.choose_theme(null);
		this.answer = await read_answer(sections_here);
		if (!n) {
			if (this.answer) this.show_checkpoint();
			else this.show_nothing();
			return;
		}
		const [first, worst] = await this.choose_first(n);
		for (const [k, i] of first.entries()) {
			fill(waiting, n > 1 ? `Unpacking recording ${k + 1} of ${first.length} ...` : "Unpacking ...");
			await breath();
			const recording = await Recording.open(i, breath);
			await breath();
			this.add(recording);
		}
		await breath();
		if (location.hash.length > 1) await this.complete(); // a link may ask for anything
		this.build();
		this.share_scale();
		for (const pane of this.panes) pane.open_at();
		if (n > 1 && this.panes.every((p) => alike(p.recording, this.panes[0].recording))) this.toggle_link();
		this.trail.begin();
		for (const pane of this.panes) pane.timeline.redraw();
		if (worst !== null) this.activate(first.indexOf(worst));
		this.listen();
	}

	// What the first picture does not need.
	async complete(): Promise<void> {
		await Delay.during(async () => {
			for (const pane of this.panes) await pane.complete(breath);
		});
	}

	// A page without recordings.
	private show_checkpoint(): void {
		const { answer } = this;
		if (!answer?.checkpoint) throw new Error("this page holds no recording");
		const { path, first, second } = answer.checkpoint;
		const names = [path, first, second].filter(Boolean).map((name) => text.plain(name!, 200));
		document.title = `${names.join(" | ")} - plimsoll`;
		fill(
			this.root,
			el(
				"header",
				{ class: "top" },
				el("span", { class: "name" }, "plimsoll"),
				el("span", { class: "file" }, names.join(", ")),
				el("span", { class: "gap" }),
				button("Light / dark", () => this.other_theme()),
			),
			new CheckpointView(answer.text, answer.checkpoint).root,
		);
	}

	// The recordings that are opened at once, and which of them is the worst rank's.
	private async choose_first(n: number): Promise<[number[], number | null]> {
		const all = Array.from({ length: n }, (_, i) => i);
		const { answer } = this;
		if (!answer?.ranks.length) return [all, answer ? null : await this.worst_device(n)];
		for (const i of all) {
			const head = await Page.head(i);
			const { path } = head.report.source;
			if (path !== null && !this.closed.has(path)) this.closed.set(path, i);
		}
		const worst = this.closed.get(answer.ranks[answer.worst]?.path ?? "") ?? 0;
		const others = all.filter((i) => i !== worst).slice(0, OPEN_AT_FIRST - 1);
		return [[...others, worst].sort((a, b) => a - b), worst];
	}

	// Of several GPUs in one recording: the one that died, else that leaks, else that holds most, as the text shows it.
	private async worst_device(n: number): Promise<number | null> {
		const heads = await Promise.all(Array.from({ length: n }, (_, i) => Page.head(i)));
		if (new Set(heads.map((head) => head.recording)).size > 1) return null;
		const badness = heads.map(({ report: { devices } }): number => {
			const [device] = devices;
			return device.oom.length ? 2 : device.findings.some((f) => f.id === "leak") ? 1 : 0;
		});
		const bytes = heads.map((head) => head.report.devices[0].peak?.allocated_bytes ?? 0);
		return badness.reduce(
			(best, bad, i) =>
				bad > badness[best] || (bad === badness[best] && bytes[i] > bytes[best]) ? i : best,
			0,
		);
	}

	private async open_rank(row: RankRow): Promise<void> {
		const path = row.path ?? "";
		let at = this.panes.findIndex((p) => p.recording.head.report.source.path === path);
		const closed = this.closed.get(path);
		if (at < 0 && closed === undefined) {
			this.say("Of more than 64 recordings, and of those in archives, the page draws the worst alone.");
			return;
		}
		if (at < 0) {
			at = this.panes.length;
			this.add(await Recording.open(closed!, breath));
			void this.complete();
			this.describe();
			this.share_scale();
			this.panes[at].open_at();
			this.panes[at].timeline.redraw();
		}
		this.activate(at);
		this.panes[at].root.scrollIntoView({ block: "nearest" });
	}

	// A row of a difference, in the two recordings that were compared.
	private show_place(place: DiffPlace): void {
		const both = this.panes.filter((p) => p.recording.device.device === place.device);
		const linked = this.link.on;
		this.link.on = false; // each has a moment of its own
		place.event.forEach((event, side) => {
			const pane = both[side];
			if (!pane || event === null) return;
			pane.go_to_event(event);
			pane.run_query(place.query[side] ?? "");
			pane.open(pane.first_tab);
		});
		this.link.on = linked;
	}

	private listen(): void {
		document.addEventListener("keydown", (event) => this.key(event));
		addEventListener("beforeprint", () => this.print(true));
		addEventListener("afterprint", () => this.print(false));
		matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.choose_theme(null));
		addEventListener("dragover", (event) => event.preventDefault());
		addEventListener("drop", (event) => {
			event.preventDefault();
			for (const file of event.dataTransfer?.files ?? []) void this.take(file);
		});
	}

	private add(recording: Recording): void {
		const i = this.panes.length;
		const pane = new Pane(
			recording,
			i,
			(query) => this.find(query),
			() => this.panes.map((p) => p.state),
			this.answer && {
				name: this.answer.name,
				whole: this.answer.verb === "plan",
				helps: this.answer.helps,
				panel: new AnswerPanel(this.answer, {
					rank: (row) => void this.open_rank(row),
					place: (place) => this.show_place(place),
				}),
			},
		);
		this.panes.push(pane);
		this.link.add(pane.state);
		for (const part of [pane.root, pane.lower, pane.side]) {
			part.addEventListener("pointerdown", () => this.activate(i), true);
			part.addEventListener("focusin", () => this.activate(i));
		}
		pane.state.on((change) => {
			if (change !== "theme" && change !== "pointer") this.trail.note();
		});
		pane.opened = () => this.trail.note();
		this.pictures.append(pane.root);
		this.lowers.append(pane.lower);
		this.dock.append(pane.side);
	}

	// Another page or a packed recording, next to what is there.
	private async take(file: File): Promise<void> {
		const first = this.panes.length;
		try {
			const at = Math.max(-1, ...this.panes.map((p) => p.recording.head.recording)) + 1;
			for (const source of await Delay.during(() => open_file(file, at, breath)))
				this.add(await Recording.of(source, breath));
		} catch (why) {
			const words = why instanceof Error ? text.plain(why.message) : "";
			this.say(
				`${text.plain(file.name, 80)} cannot be shown: ${words}`,
				why instanceof Unusable ? why.command : null,
			);
		}
		if (this.panes.length === first) return;
		if (!first) {
			this.build();
			this.trail.begin();
		}
		void this.complete();
		this.describe();
		this.share_scale();
		for (const pane of this.panes.slice(first)) {
			pane.open_at();
			pane.timeline.redraw();
		}
		this.activate(first);
	}

	// A page without anything: what is dropped on it is shown.
	private show_nothing(): void {
		const pick = el("input", { type: "file", id: "pick", multiple: true });
		pick.addEventListener("change", () => {
			for (const file of pick.files ?? []) void this.take(file);
		});
		document.title = "plimsoll";
		fill(
			this.root,
			el(
				"div",
				{ class: "empty" },
				el("h1", {}, "plimsoll"),
				el(
					"p",
					{},
					"Drop packed recordings (.plim, .plim.gz) or pages here. Nothing is sent anywhere.",
				),
				el("p", {}, el("label", { for: "pick" }, "Or choose files: "), pick),
				el(
					"p",
					{ class: "soft" },
					"A snapshot (.pickle) becomes one by ",
					el("code", {}, "plimsoll pack FILE"),
					".",
				),
				this.pictures,
			),
		);
		this.listen();
	}

	// With a command it stays until it is closed.
	private say(words: string, command: string | null = null): void {
		const line = el("p", { class: "said", role: "status" }, words);
		this.pictures.before(line);
		if (!command) setTimeout(() => line.remove(), 8000);
		else
			line.append(
				" ",
				el("code", {}, command),
				" ",
				copy("Copy", () => command),
				button("Close", () => line.remove()),
			);
	}

	private describe(): void {
		const many = this.panes.length > 1;
		const events = this.panes.reduce((sum, p) => sum + p.recording.events, 0);
		const title = text.plain(this.panes[0].recording.head.title, 200);
		this.root.className = many ? "app many" : "app one";
		this.pictures.className = `panes ${many ? "two" : "one"}${this.panes.length === 2 ? " pair" : ""}`;
		this.name.textContent = `${many ? `${this.panes.length} recordings` : title}, ${text.plural(events, "event")}`;
		this.link_button.hidden = this.scale_button.hidden = !many;
		if (this.panes.length > 2) this.legends.append(...this.panes.map((p) => p.legend));
		// At one scale, as a job's ranks always are, unless one of them would be a line at the bottom.
		const tops = this.panes.map((p) => wanted_top(p.state));
		this.shared_scale = this.answer?.verb === "ranks" || Math.max(...tops) <= 5 * Math.min(...tops);
		document.title =
			this.panes.map((p) => text.plain(p.recording.head.title, 80)).join(" | ") + " - plimsoll";
	}

	private build(): void {
		this.describe();
		const form = el(
			"form",
			{ role: "search", submit: (event: Event) => event.preventDefault() },
			this.box,
			this.offers,
		);
		this.listen_to_box();
		const work = el(
			"div",
			{ class: "work" },
			this.answer ? sentence_of(this.answer) : null,
			this.pictures,
			this.legends,
			splitter("Height of the picture", false, (pixels) => {
				this.lowers.style.flex = `0 0 ${Math.max(60, this.lowers.offsetHeight - pixels)}px`;
			}),
			this.lowers,
		);
		const width = splitter("Width of what is chosen", true, (pixels) => {
			this.dock.style.width = `${Math.max(200, this.dock.offsetWidth - pixels)}px`;
		});
		fill(
			this.root,
			el(
				"header",
				{ class: "top" },
				el("span", { class: "name" }, "plimsoll"),
				this.name,
				form,
				el("span", { class: "group" }, this.undo, this.redo),
				this.exports(),
				this.scale_button,
				this.link_button,
				button("Light / dark", () => this.other_theme(), { title: "light or dark (t)" }),
				button("Keys ?", () => this.help.showModal(), {
					title: "all keys (?)",
				}),
			),
			el(
				"p",
				{ class: "hidden", id: "keys-hint" },
				"Arrow keys move the cursor, w and s zoom, a and d pan, question mark lists all keys.",
			),
			el("div", { class: "screen" }, work, width, this.dock),
			this.help,
		);
		this.activate(0);
	}

	private exports(): HTMLElement {
		const save = (label: string, title: string, action: (pane: Pane) => void) =>
			button(label, () => this.pane.recording.when_whole(() => action(this.pane)), { title });
		return el(
			"details",
			{ class: "menu" },
			el("summary", {}, "Share"),
			el(
				"div",
				{},
				copy("Copy link", () => location.href),
				save("Picture as PNG", "what the picture shows", (pane) => save_png(pane)),
				save("Picture as SVG", "what the picture shows, as lines and text", (pane) => save_svg(pane)),
				save("Allocations as CSV", "what was found, or else what lives at the cursor", (pane) =>
					save_csv(pane),
				),
				save("Stacks, folded", "for flame graph tools: what lives at the cursor", (pane) =>
					save_folded(pane),
				),
			),
		);
	}

	// ---- find ----

	private listen_to_box(): void {
		const { box } = this;
		const typing = new Delay(250, () => this.find(box.value, false));
		box.addEventListener("input", () => {
			typing.start();
			this.offer();
		});
		box.addEventListener("focus", () => this.offer());
		box.addEventListener("blur", () => this.show_offers([]));
		box.addEventListener("keydown", (event) => {
			event.stopPropagation();
			const list = [...this.offers.children] as HTMLElement[];
			const way = { ArrowDown: 1, ArrowUp: -1 }[event.key];
			if (way && list.length) {
				this.offered = (this.offered + way + list.length) % list.length;
				this.mark_offer();
			} else if ((event.key === "Enter" || event.key === "Tab") && this.offered >= 0)
				list[this.offered].click();
			else if (event.key === "Enter") {
				this.show_offers([]);
				typing.now();
			} else if (event.key === "Escape") {
				typing.stop();
				if (list.length) this.show_offers([]);
				else {
					this.find("");
					box.blur();
				}
			} else return;
			event.preventDefault();
		});
	}

	private offer(): void {
		this.show_offers(completions(this.pane.recording, this.box.value));
	}

	private show_offers(list: [string, string][]): void {
		this.offered = -1;
		this.offers.hidden = !list.length;
		this.box.setAttribute("aria-expanded", String(list.length > 0));
		fill(
			this.offers,
			...list.map(([query, words], i) =>
				el(
					"li",
					{
						role: "option",
						id: `offer${i}`,
						"aria-selected": "false",
						pointerdown: (event: Event) => event.preventDefault(), // the box keeps the focus
						click: () => {
							this.box.value = query;
							this.offer();
							this.find(query, false);
						},
					},
					el("code", {}, query.trim().split(/\s+/).pop() ?? ""),
					" ",
					el("span", { class: "soft" }, words),
				),
			),
		);
		this.mark_offer();
	}

	private mark_offer(): void {
		[...this.offers.children].forEach((offer, i) =>
			offer.setAttribute("aria-selected", String(i === this.offered)),
		);
		if (this.offered >= 0) this.box.setAttribute("aria-activedescendant", `offer${this.offered}`);
		else this.box.removeAttribute("aria-activedescendant");
	}

	// What a finding or a line is about is of one recording.
	private find(query: string, set = true): void {
		const alone = /^(finding|line):/.test(query);
		if (set) this.box.value = alone ? "" : query;
		for (const pane of alone ? [this.pane] : this.panes) pane.run_query(query);
	}

	// ---- what keys do ----

	private activate(i: number): void {
		this.active = i;
		this.panes.forEach((p, k) => {
			p.root.classList.toggle("active", k === i);
			p.lower.hidden = p.side.hidden = k !== i;
			p.legend.hidden = k !== i && this.panes.length > 2;
		});
	}

	private share_scale(): void {
		const tops = this.panes.map((p) => wanted_top(p.state));
		const top = tops.length > 1 && this.shared_scale ? Math.max(...tops) : null;
		this.scale_button.setAttribute("aria-pressed", String(this.shared_scale));
		for (const pane of this.panes) {
			pane.state.top = top;
			pane.state.tell("view");
		}
	}

	private toggle_scale(): void {
		this.shared_scale = !this.shared_scale;
		this.share_scale();
	}

	toggle_link(): void {
		if (this.panes.length < 2) return;
		this.link.on = !this.link.on;
		this.link_button.setAttribute("aria-pressed", String(this.link.on));
	}

	// null: as the system wants it
	private choose_theme(wish: "light" | "dark" | null): void {
		this.theme = wish ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
		document.documentElement.dataset.theme = this.theme;
		forget_colours();
		for (const pane of this.panes) pane.state.tell("theme");
	}

	other_theme(): void {
		this.choose_theme(this.theme === "dark" ? "light" : "dark");
	}

	private print(on: boolean): void {
		document.documentElement.dataset.theme = on ? "light" : this.theme;
		forget_colours();
		for (const pane of this.panes) {
			if (on) pane.show_all_for_print();
			pane.state.tell("theme");
			pane.timeline.redraw();
		}
	}

	zoom(times: number): void {
		this.pane.state.zoom(times, this.pane.zoom_centre());
	}

	pan(part: number): void {
		const { state } = this.pane;
		state.pan((state.to - state.from) * part);
	}

	move(events: number, far: boolean): void {
		const { state } = this.pane;
		this.pane.move(far ? (events * (state.to - state.from)) / 20 : events);
	}

	to_birth(): void {
		const { state, recording } = this.pane;
		if (state.chosen !== null) this.pane.jump(recording.born[state.chosen]);
	}

	to_end_of_life(): void {
		const { state, recording } = this.pane;
		if (state.chosen !== null) this.pane.jump(recording.freed[state.chosen] || recording.events);
	}

	other_pane(): void {
		this.activate((this.active + 1) % this.panes.length);
		const { root } = this.pane;
		root.scrollIntoView({ block: "nearest" });
		root.querySelector<HTMLElement>("canvas.over")?.focus();
	}

	escape(): void {
		const { pane } = this;
		if (pane.state.chosen !== null) pane.state.choose(null);
		else if (pane.state.mark !== null) pane.set_mark();
		else this.find("");
	}

	private key(event: KeyboardEvent): void {
		if (this.help.open) return;
		const { target } = event;
		if (target instanceof HTMLInputElement || target instanceof HTMLSelectElement) return;
		if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z") {
			if (event.shiftKey) this.trail.redo();
			else this.trail.undo();
			event.preventDefault();
			return;
		}
		if (event.ctrlKey || event.metaKey || event.altKey) return;
		// Up and down scroll where the picture has no focus.
		const on_picture = document.activeElement?.classList.contains("over");
		if ((event.key === "ArrowUp" || event.key === "ArrowDown") && !on_picture) return;
		const action = action_of.get(event.key);
		if (!action) return;
		action(this, event);
		event.preventDefault();
	}
}

// Let the browser paint and answer before the next slice of work.  Timers would wait for 4 ms each.
const turns = new MessageChannel();
const resuming: (() => void)[] = [];
turns.port1.onmessage = () => resuming.shift()?.();
function breath(): Promise<void> {
	return new Promise((resume) => {
		resuming.push(resume);
		turns.port2.postMessage(null);
	});
}

// Until what was drawn can be seen.
function painted(): Promise<void> {
	return new Promise((resume) => requestAnimationFrame(() => setTimeout(resume)));
}

const root = el("main", { id: "plimsoll" });
document.body.append(root);
const app = new App(root);

async function open(): Promise<void> {
	await app.open();
	const rest = Delay.during(async () => {
		await painted();
		await app.complete();
		await load_plot();
	});
	document.documentElement.dataset.ready = String(Math.round(performance.now()));
	await rest;
}

open().catch((why: unknown) => {
	root.className = "";
	fill(
		root,
		el(
			"div",
			{ class: "failed", role: "alert" },
			el("h1", {}, "This page cannot be shown"),
			el("p", {}, why instanceof Error ? text.plain(why.message) : "An unknown error."),
			el(
				"p",
				{},
				"It needs a browser of 2023 or later (Chrome 103, Firefox 113, Safari 16.4). If the file was copied, copy it again.",
			),
		),
	);
});
