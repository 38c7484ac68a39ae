// Opens the page: unpacks each recording in slices, so that the browser stays awake, and shows them.

import "uplot/dist/uPlot.min.css";
import "./viewer.css";
import { button, el, fill, forget_colours } from "./dom";
import { Link, alike } from "./link";
import { Page } from "./page";
import { Pane } from "./pane";
import { Recording } from "./recording";
import * as text from "./text";
import { wanted_top } from "./chart";

const keys: [string, string][] = [
	["?", "this help"],
	["/", "search by file, function, size or address"],
	["d, p, e", "go to the death, the peak, the end"],
	["← →", "one event back, on (with Shift: a twentieth of the picture)"],
	["[ ]", "previous, next training step"],
	["n, N", "next, previous finding"],
	["+ −", "zoom in, out around the cursor"],
	["0", "show all"],
	["a, s", "pan left, right"],
	["↑ ↓", "walk through the allocations at the cursor, largest first"],
	["b, x", "go to the birth, the death of the chosen allocation"],
	["z", "zoom to the chosen allocation's life"],
	["c, o", "bands by category, by owner"],
	["l", "lowest or highest moment of each column"],
	["y", "fit the height to what is visible"],
	["f", "set or clear the mark: what grew since"],
	["1 to 7", "findings, owners, flame graph, segments, allocations, steps, search"],
	["Tab, Enter", "all buttons and tables; inside the flame graph and the map arrows walk"],
	["w, k", "the other of two recordings; both move together"],
	["t", "light or dark"],
	["Esc", "clear the choice, the mark, then the search"],
];

const pointers: [string, string][] = [
	["wheel", "zoom at the pointer (Shift: pan)"],
	["drag", "zoom to a range (Shift: pan)"],
	["click", "choose an allocation and its moment (Shift: set the mark)"],
	["double click", "show all"],
	["fingers", "one pans, two zoom"],
	["strip below", "drag to move through the recording"],
];

class App {
	private panes: Pane[] = [];
	private active = 0;
	private box = el("input", {
		type: "search",
		id: "search",
		placeholder: "Search: file, function, >=64MiB, 0x7f...",
		"aria-label": "Search by file, function, size or address",
		autocomplete: "off",
		spellcheck: "false",
	});
	private help = this.make_help();
	private theme = "light";
	private shared_scale = true;
	private link = new Link([]);
	private link_button = button("Linked", () => this.toggle_link(), {
		title: "what is looked at in one is looked at in the other (k)",
		"aria-pressed": "false",
	});

	constructor(private root: HTMLElement) {}

	async open(): Promise<void> {
		const n = Page.count();
		if (!n) throw new Error("this page holds no recording");
		const waiting = el("p", { class: "waiting", role: "status" }, "Unpacking ...");
		fill(this.root, waiting);
		this.choose_theme(null);
		const recordings: Recording[] = [];
		for (let i = 0; i < n; i++) {
			fill(waiting, n > 1 ? `Unpacking recording ${i + 1} of ${n} ...` : "Unpacking ...");
			await breath();
			const page = await Page.open(i);
			await breath();
			recordings.push(new Recording(page));
		}
		await breath();
		this.panes = recordings.map((r, i) => new Pane(r, i, (query) => this.search(query)));
		this.link = new Link(this.panes.map((p) => p.state));
		this.build();
		this.share_scale();
		if (n > 1 && recordings.every((r) => alike(r, recordings[0]))) this.toggle_link();
		for (const pane of this.panes) pane.timeline.redraw();
		document.title = recordings.map((r) => text.plain(r.head.title, 80)).join(" | ") + " - plimsoll";
		document.addEventListener("keydown", (event) => this.key(event));
		addEventListener("beforeprint", () => this.print(true));
		addEventListener("afterprint", () => this.print(false));
		matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.choose_theme(null));
	}

	private build(): void {
		const { head } = this.panes[0].recording;
		const events = this.panes.reduce((sum, p) => sum + p.recording.events, 0);
		const form = el(
			"form",
			{ role: "search", submit: (event: Event) => event.preventDefault() },
			this.box,
		);
		let waiting = 0;
		this.box.addEventListener("input", () => {
			clearTimeout(waiting);
			waiting = window.setTimeout(() => this.search(this.box.value, false), 200);
		});
		this.box.addEventListener("keydown", (event) => {
			if (event.key === "Enter") this.search(this.box.value, false);
			if (event.key === "Escape") {
				this.search("");
				this.box.blur();
			}
			event.stopPropagation();
		});
		const many = this.panes.length > 1;
		const grid = el("div", { class: `panes ${many ? "two" : "one"}` }, ...this.panes.map((p) => p.root));
		if (!many) this.panes[0].root.querySelector(".file")?.remove();
		this.panes.forEach((pane, i) => {
			pane.root.addEventListener("pointerdown", () => this.activate(i), true);
			pane.root.addEventListener("focusin", () => this.activate(i));
		});
		// At one scale, unless one of them would be a line at the bottom.
		const tops = this.panes.map((p) => wanted_top(p.state));
		this.shared_scale = Math.max(...tops) <= 5 * Math.min(...tops);
		const scale = many
			? button("Same scale", () => this.toggle_scale(scale), {
					"aria-pressed": String(this.shared_scale),
					title: "draw all recordings at one scale",
				})
			: null;
		fill(
			this.root,
			el(
				"header",
				{ class: "top" },
				el("span", { class: "name" }, "plimsoll"),
				el(
					"span",
					{ class: "file" },
					`${many ? `${this.panes.length} recordings` : text.plain(head.title, 200)}, ${text.plural(events, "event")}`,
				),
				form,
				scale,
				many ? this.link_button : null,
				button("Light / dark", () => this.choose_theme(this.theme === "dark" ? "light" : "dark"), {
					title: "light or dark (t)",
				}),
				button("Keys ?", () => this.help.showModal(), { title: "all keys (?)" }),
			),
			el(
				"p",
				{ class: "hidden", id: "keys-hint" },
				"Arrow keys move the cursor, plus and minus zoom, question mark lists all keys.",
			),
			grid,
			el(
				"p",
				{ class: "note" },
				`Written by plimsoll ${text.plain(head.version, 40)}. This file holds everything it shows and loads nothing.`,
			),
			this.help,
		);
		this.activate(0);
	}

	private make_help(): HTMLDialogElement {
		const rows = (list: [string, string][]) =>
			el(
				"div",
				{ class: "keys" },
				...list.map(([key, words]) => el("div", {}, el("span", {}, words), el("kbd", {}, key))),
			);
		const dialog = el(
			"dialog",
			{ "aria-label": "Keys" },
			el("h2", {}, "Keys"),
			rows(keys),
			el("h2", {}, "Pointer"),
			rows(pointers),
			el(
				"div",
				{ class: "bar" },
				el("span", { class: "gap" }),
				button("Close", () => dialog.close()),
			),
		);
		return dialog;
	}

	private activate(i: number): void {
		this.active = i;
		this.panes.forEach((p, k) => p.root.classList.toggle("active", k === i));
	}

	private share_scale(): void {
		const tops = this.panes.map((p) => wanted_top(p.state));
		const top = tops.length > 1 && this.shared_scale ? Math.max(...tops) : null;
		for (const pane of this.panes) {
			pane.state.top = top;
			pane.state.tell("view");
		}
	}

	private toggle_scale(pressed: HTMLButtonElement | null): void {
		this.shared_scale = !this.shared_scale;
		pressed?.setAttribute("aria-pressed", String(this.shared_scale));
		this.share_scale();
	}

	private toggle_link(): void {
		this.link.on = !this.link.on;
		this.link_button.setAttribute("aria-pressed", String(this.link.on));
	}

	private search(query: string, set = true): void {
		if (set) this.box.value = query.startsWith("owner:") ? "" : query;
		const list = query.startsWith("owner:") ? [this.panes[this.active]] : this.panes;
		for (const pane of list) pane.run_search(query);
	}

	// null: as the system wants it
	private choose_theme(wish: "light" | "dark" | null): void {
		this.theme = wish ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
		document.documentElement.dataset.theme = this.theme;
		forget_colours();
		for (const pane of this.panes) pane.state.tell("theme");
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

	private key(event: KeyboardEvent): void {
		if (event.ctrlKey || event.metaKey || event.altKey || this.help.open) return;
		if (event.target instanceof HTMLInputElement) return;
		const pane = this.panes[this.active];
		const { state } = pane;
		const { recording } = state;
		const width = state.to - state.from;
		const { chosen } = state;
		const actions: Record<string, () => void> = {
			"?": () => this.help.showModal(),
			"/": () => this.box.focus(),
			d: () => recording.death && pane.jump(recording.death_moment!),
			p: () => pane.jump(recording.peak_moment),
			e: () => pane.jump(recording.events),
			ArrowLeft: () => pane.move(event.shiftKey ? -width / 20 : -1),
			ArrowRight: () => pane.move(event.shiftKey ? width / 20 : 1),
			ArrowUp: () => pane.next_allocation(-1),
			ArrowDown: () => pane.next_allocation(1),
			"[": () => pane.next_step(-1),
			"]": () => pane.next_step(1),
			n: () => pane.next_finding(1),
			N: () => pane.next_finding(-1),
			"+": () => state.zoom(0.5, pane.zoom_centre()),
			"=": () => state.zoom(0.5, pane.zoom_centre()),
			"-": () => state.zoom(2, pane.zoom_centre()),
			"0": () => state.look(0, recording.events),
			a: () => state.pan(-width / 5),
			s: () => state.pan(width / 5),
			b: () => chosen !== null && pane.jump(recording.born[chosen]),
			x: () => chosen !== null && pane.jump(recording.freed[chosen] || recording.events),
			z: () =>
				chosen !== null &&
				state.span(recording.born[chosen], recording.freed[chosen] || recording.events),
			c: () => state.set_mode("category"),
			o: () => state.set_mode("owner"),
			l: () => pane.set_lowest(!state.lowest),
			y: () => pane.set_fit(!state.fit),
			f: () => pane.set_mark(),
			w: () => this.other_pane(),
			k: () => this.panes.length > 1 && this.toggle_link(),
			t: () => this.choose_theme(this.theme === "dark" ? "light" : "dark"),
			Escape: () => this.escape(pane),
		};
		for (let n = 1; n <= 7; n++) actions[String(n)] = () => pane.open_nth(n - 1);
		// Up and down scroll the page where nothing is chosen and the picture has no focus.
		const on_picture = document.activeElement?.classList.contains("over");
		if ((event.key === "ArrowUp" || event.key === "ArrowDown") && !on_picture) return;
		const action = actions[event.key];
		if (!action) return;
		action();
		event.preventDefault();
	}

	private other_pane(): void {
		this.activate((this.active + 1) % this.panes.length);
		const { root } = this.panes[this.active];
		root.scrollIntoView({ block: "nearest" });
		root.querySelector<HTMLElement>("canvas.over")?.focus();
	}

	private escape(pane: Pane): void {
		if (pane.state.chosen !== null) pane.state.choose(null);
		else if (pane.state.mark !== null) pane.set_mark();
		else this.search("");
	}
}

// Let the browser paint and answer before the next slice of work.
function breath(): Promise<void> {
	return new Promise((resume) => setTimeout(resume));
}

const root = el("main", { id: "plimsoll" });
document.body.append(root);
new App(root).open().then(
	() => {
		document.documentElement.dataset.ready = String(Math.round(performance.now()));
	},
	(why: unknown) => {
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
	},
);
