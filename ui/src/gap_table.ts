// Who owns the gap at the cursor: a row for each band of it.  A press chooses the band in the picture.

import { code, el, fill, swatch, table } from "./dom";
import type { GapBand } from "./gap";
import type { Panel } from "./panels";
import type { State } from "./state";
import * as text from "./text";
import { meaning } from "./words";

export function gap_title(band: GapBand): string {
	return meaning(band.name) || meaning(band.name.split(" ").slice(0, 3).join(" ").replace(/s in$/, "s"));
}

export function gap_swatch(band: GapBand): HTMLElement {
	return swatch(band.colour, band.kind === "idle" ? "hatch back" : "hatch");
}

export class GapTable implements Panel {
	readonly root = el("div", { class: "gap-table" });
	private at = "";

	constructor(private state: State) {}

	show(): void {
		const { state } = this;
		const { recording, cursor, gap } = state;
		const key = `${cursor} ${state.gap_band} ${gap !== null}`;
		if (key === this.at) return;
		this.at = key;
		if (!gap) {
			fill(this.root, el("p", {}, "Nothing is known of segments."));
			return;
		}
		const bytes = gap.at(cursor);
		const kept = gap.kept(cursor);
		const total = bytes.reduce((sum, one) => sum + one, 0);
		const rows = gap.bands
			.map((band, g) => ({ band, g, bytes: bytes[g], kept: kept[g] }))
			.filter((row) => row.band.most > 0)
			.sort((a, b) => b.bytes - a.bytes || b.band.most - a.band.most);
		fill(
			this.root,
			table(
				`Who owns the gap: ${text.bytes(total)} reserved and not allocated at ${recording.moment_text(cursor)}`,
				[
					{
						name: "owner",
						cell: (r) =>
							el(
								"span",
								{ title: gap_title(r.band) },
								gap_swatch(r.band),
								" ",
								text.plain(r.band.name, 80),
							),
						order: (r) => r.band.name,
					},
					{
						name: "at the cursor",
						number: true,
						cell: (r) => (r.bytes ? text.bytes(r.bytes) : "-"),
						order: (r) => r.bytes,
					},
					{
						name: "most",
						number: true,
						cell: (r) => text.bytes(r.band.most),
						order: (r) => r.band.most,
					},
					{
						name: "kept by",
						number: true,
						cell: (r) => (r.kept.bytes ? text.bytes(r.kept.bytes) : "-"),
						order: (r) => r.kept.bytes,
					},
					{ name: "most of that from", cell: (r) => (r.kept.frame ? code(r.kept.frame) : "") },
				],
				rows,
				(r) => {
					state.choose_gap(r.g);
					if (!r.bytes) state.go(r.band.most_at);
				},
				(r) => r.g === state.gap_band,
			),
		);
	}
}
