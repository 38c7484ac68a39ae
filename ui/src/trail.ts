// What is looked at, as the fragment of the page's address: a link leads there, and the browser's history goes
// back and on.  Undo and redo are its back and forward.

import { Delay } from "./dom";
import { note_words, read_notes } from "./notes";
import type { Pane } from "./pane";
import type { Look } from "./state";

const SETTLED = 300; // ms without a change: what was done is done
const DIGITS = 1; // of moments that are zoomed to

interface Entry {
	at: number; // how many can be undone
}

const number = (n: number) => String(Number(n.toFixed(DIGITS)));

// The names in a link, of the first recording; those of others have its number behind.
function write_one(pane: Pane, out: URLSearchParams, suffix: string): void {
	const now = pane.state.now;
	const put = (key: string, value: string | null) => value !== null && out.set(key + suffix, value);
	put("view", `${number(now.from)}-${number(now.to)}`);
	put("height", now.high === null ? null : `${number(now.low)}-${number(now.high)}`);
	put("at", String(now.cursor));
	put("mark", now.mark === null ? null : String(now.mark));
	put("row", now.chosen === null ? null : String(now.chosen));
	put("find", pane.query || null);
	put("by", now.mode === "category" ? null : now.mode);
	put("hide", now.hidden.length ? now.hidden.join("_") : null);
	put("show", now.lowest ? "lowest" : null);
	put("fit", now.fit ? "1" : null);
	for (const note of now.notes) out.append("note" + suffix, note_words(note));
	put("tab", pane.tab === pane.first_tab ? null : pane.tab);
}

export function write_link(panes: Pane[]): string {
	const out = new URLSearchParams();
	panes.forEach((pane, i) => write_one(pane, out, i ? String(i) : ""));
	return "#" + out.toString();
}

function read_one(pane: Pane, from: URLSearchParams, suffix: string): void {
	const get = (key: string) => from.get(key + suffix);
	const whole = (key: string) => {
		const value = get(key);
		return value !== null && /^\d{1,15}$/.test(value) ? Number(value) : null;
	};
	const range = (key: string): [number, number] | null => {
		const parts = /^(\d{1,15}(?:\.\d+)?)-(\d{1,15}(?:\.\d+)?)$/.exec(get(key) ?? "");
		return parts && Number(parts[2]) > Number(parts[1]) ? [Number(parts[1]), Number(parts[2])] : null;
	};
	const view = range("view") ?? [0, pane.recording.events];
	const height = range("height");
	pane.run_query(get("find") ?? "");
	const look: Look = {
		from: view[0],
		to: view[1],
		low: height?.[0] ?? 0,
		high: height?.[1] ?? null,
		cursor: whole("at") ?? pane.recording.peak_moment,
		mark: whole("mark"),
		chosen: whole("row"),
		mode: get("by") ?? "category",
		hidden: (get("hide") ?? "").split("_").filter(Boolean).map(Number),
		lowest: get("show") === "lowest",
		fit: get("fit") === "1",
		notes: read_notes(from.getAll("note" + suffix)),
	};
	pane.state.restore(look);
	pane.open(get("tab") ?? pane.first_tab);
}

export class Trail {
	private now = "";
	private at = 0;
	private top = 0; // the highest number of an entry that can be gone back to
	private settling = new Delay(SETTLED, () => this.keep());
	private busy = false;
	private begun = false; // what is shown until then is not what a link asked for

	constructor(
		private panes: () => Pane[],
		private changed: (can_undo: boolean, can_redo: boolean) => void,
	) {}

	// After the page has opened: what a link asks for, or what is shown.
	begin(): void {
		const entry = history.state as Entry | null;
		this.at = this.top = entry?.at ?? 0;
		if (location.hash.length > 1) this.read();
		this.now = write_link(this.panes());
		this.put("replaceState");
		this.begun = true;
		addEventListener("popstate", (event) => {
			const entry = event.state as Entry | null;
			this.settling.stop();
			this.at = entry?.at ?? this.at + 1; // an address that was typed is a new entry
			this.top = Math.max(this.top, this.at);
			this.read();
			this.now = write_link(this.panes());
			if (!entry) this.put("replaceState");
			this.tell();
		});
		this.tell();
	}

	// Something was looked at; when it has settled it can be undone.
	note(): void {
		if (this.begun && !this.busy) this.settling.start();
	}

	undo(): void {
		this.keep();
		if (this.at > 0) history.back();
	}

	redo(): void {
		if (this.at < this.top) history.forward();
	}

	private keep(): void {
		this.settling.stop();
		const link = write_link(this.panes());
		if (link === this.now) return;
		this.now = link;
		this.top = ++this.at;
		this.put("pushState");
		this.tell();
	}

	private put(how: "pushState" | "replaceState"): void {
		try {
			history[how]({ at: this.at } satisfies Entry, "", this.now);
		} catch {
			// A browser that keeps no history of files, or not so fast: the page works without.
		}
	}

	private read(): void {
		this.busy = true;
		const from = new URLSearchParams(location.hash.slice(1));
		this.panes().forEach((pane, i) => read_one(pane, from, i ? String(i) : ""));
		this.busy = false;
	}

	private tell(): void {
		this.changed(this.at > 0, this.at < this.top);
	}
}
