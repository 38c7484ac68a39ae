// Notes: a text pinned to a moment, or to a block at a moment.  They are a part of the link, and of nothing else.

import { FONT_SMALL, button, colour, el, fill } from "./dom";
import { TOP } from "./chart";
import type { State } from "./state";
import * as text from "./text";

const LONGEST = 300; // characters
const MOST = 50;

export interface Note {
	moment: number;
	row: number | null; // of an allocation
	text: string;
}

// "120 text", "120.45 text": of row 45.
export function note_words(note: Note): string {
	return `${note.moment}${note.row === null ? "" : `.${note.row}`} ${note.text}`;
}

// What a link says may be anything: what is not a note of this recording is left out.
export function read_notes(list: string[]): Note[] {
	return list.slice(0, MOST).flatMap((words) => {
		const parts = /^(\d{1,15})(?:\.(\d{1,15}))? (\S[^]*)$/.exec(words);
		if (!parts) return [];
		const row = parts[2] === undefined ? null : Number(parts[2]);
		return [{ moment: Number(parts[1]), row, text: text.plain(parts[3].slice(0, LONGEST), LONGEST) }];
	});
}

export function show_note(state: State, note: Note): void {
	state.go(note.moment);
	state.choose(note.row);
}

const SIZE = 7; // pixels from the middle of a pin

// Where they are in the picture, numbered as in the list.
export function draw_notes(c: CanvasRenderingContext2D, notes: Note[], x_of: (m: number) => number): void {
	c.font = "600 " + FONT_SMALL;
	c.textAlign = "center";
	c.textBaseline = "middle";
	notes.forEach((note, i) => {
		const x = Math.round(x_of(note.moment));
		c.fillStyle = colour("--accent");
		c.fillRect(x - SIZE, TOP - 2 * SIZE - 3, 2 * SIZE, 2 * SIZE);
		c.beginPath();
		c.moveTo(x - 4, TOP - 3);
		c.lineTo(x + 4, TOP - 3);
		c.lineTo(x, TOP + 3);
		c.fill();
		c.fillStyle = colour("--paper");
		c.fillText(String(i + 1), x, TOP - SIZE - 3);
	});
}

export function note_at(
	notes: Note[],
	x_of: (m: number) => number,
	at: { x: number; y: number },
): Note | undefined {
	if (at.y > TOP + 3) return undefined;
	return notes.filter((note) => Math.abs(x_of(note.moment) - at.x) <= SIZE).pop();
}

export class Notes {
	readonly root = el("section", { class: "notes no-print", "aria-label": "Notes", hidden: true });
	private writing = false;

	constructor(private state: State) {
		state.on((change) => {
			if (change === "notes") this.show();
			if ((change === "cursor" || change === "chosen") && this.writing) this.show();
		});
	}

	// A line to write in, for what is chosen at the cursor, or for the moment.
	write(): void {
		this.writing = true;
		this.show();
		this.root.querySelector("input")?.focus();
	}

	private place(note: { moment: number; row: number | null }): string {
		const { recording } = this.state;
		const moment = note.moment ? `event ${text.count(note.moment - 1)}` : "before the first event";
		return note.row === null ? moment : `${text.bytes(recording.block[note.row])} at ${moment}`;
	}

	private form(): HTMLElement {
		const { state } = this;
		const old = this.root.querySelector("input")?.value ?? "";
		const note = { moment: state.cursor, row: state.chosen };
		const input = el("input", {
			type: "text",
			maxlength: LONGEST,
			"aria-label": `Note on ${this.place(note)}`,
			placeholder: `Note on ${this.place(note)}`,
			autocomplete: "off",
		});
		input.value = old;
		const stop = () => {
			this.writing = false;
			this.show();
		};
		input.addEventListener("keydown", (event) => {
			if (event.key === "Escape") stop();
			event.stopPropagation();
		});
		const keep = (event: Event) => {
			event.preventDefault();
			this.writing = false;
			const words = text.plain(input.value.trim(), LONGEST);
			if (words && state.notes.length < MOST)
				state.set_notes([...state.notes, { ...note, text: words }]);
			else this.show();
		};
		return el(
			"form",
			{ submit: keep },
			input,
			el("button", { type: "submit" }, "Pin"),
			button("Cancel", stop),
		);
	}

	private show(): void {
		const { state } = this;
		const { notes } = state;
		this.root.hidden = !notes.length && !this.writing;
		const had_focus = this.root.contains(document.activeElement);
		const rows = notes.map((note, i) =>
			el(
				"li",
				{},
				button(this.place(note), () => show_note(state, note), { class: "link" }),
				" ",
				el("span", {}, note.text),
				" ",
				button("Remove", () => state.set_notes(notes.filter((one) => one !== note)), {
					"aria-label": `remove note ${i + 1}`,
				}),
			),
		);
		fill(
			this.root,
			el("h2", {}, "Notes"),
			rows.length ? el("ol", {}, ...rows) : null,
			this.writing ? this.form() : null,
			el("p", { class: "soft" }, "They are in the link (Share, Copy link), not in the file."),
		);
		if (had_focus) this.root.querySelector("input")?.focus();
	}
}
