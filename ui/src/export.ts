// What a reader takes along: the picture, the allocations that are meant, stacks for other tools.

import { colour, download, el } from "./dom";
import type { Pane } from "./pane";
import { nobody_words } from "./recording";
import { SvgContext } from "./svg";

function name_of(pane: Pane, ending: string): string {
	const title = pane.recording.head.title.replace(/\.(pickle|json)?(\.\w+)?$/, "");
	return `${title.replace(/[^\w.-]+/g, "_").slice(0, 80) || "plimsoll"}.${ending}`;
}

export function svg_of(pane: Pane): string {
	const svg = new SvgContext();
	const { width, height } = pane.timeline.paint(svg.context);
	const below = pane.legend_text();
	svg.font = "12px sans-serif";
	svg.textBaseline = "middle";
	below.forEach(({ name, colour: fill, bytes }, i) => {
		const y = height + 14 + 18 * i;
		svg.fillStyle = fill;
		svg.fillRect(64, y - 6, 12, 12);
		svg.fillStyle = colour("--ink");
		svg.fillText(`${name}  ${bytes}`, 84, y);
	});
	return svg.text(width, height + 20 + 18 * below.length, colour("--paper"));
}

export function save_svg(pane: Pane): void {
	download(name_of(pane, "svg"), new Blob([svg_of(pane)], { type: "image/svg+xml" }));
}

export function save_png(pane: Pane): void {
	const { canvas } = pane.timeline;
	const whole = el("canvas", { width: canvas.width, height: canvas.height });
	const context = whole.getContext("2d")!;
	context.fillStyle = colour("--paper");
	context.fillRect(0, 0, whole.width, whole.height);
	context.drawImage(canvas, 0, 0);
	whole.toBlob((blob) => blob && download(name_of(pane, "png"), blob), "image/png");
}

// RFC 4180; what a spreadsheet would take for a formula is text.
function field(value: string | number): string {
	if (typeof value === "number") return String(value);
	const safe = /^[=+\-@\t\r]/.test(value) ? "'" + value : value;
	return /[",\n\r]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
}

export function csv_of(pane: Pane): string {
	const { recording } = pane;
	const { addr, size, block, born, freed, head } = recording;
	const columns =
		"row,address,size,block,category,born_event,freed_event,step,phase,stream,pool,line,stack";
	const lines = Array.from(pane.selected(), (a) =>
		[
			a,
			"0x" + addr[a].toString(16),
			size[a],
			block[a],
			head.categories[recording.category(a)]?.name ?? "",
			born[a] ? born[a] - 1 : "",
			freed[a] ? freed[a] - 1 : "",
			recording.step_at(born[a])?.index ?? "",
			recording.phase_at(born[a]) ?? "",
			head.streams[recording.stream[a]] ?? "",
			recording.pool_name(recording.pool(a)),
			recording.owner_name(recording.owner(a)),
			Array.from(recording.frames_of(recording.stack[a]), (f) => recording.frame_text(f)).join(" < "),
		]
			.map(field)
			.join(","),
	);
	return [columns, ...lines].join("\r\n") + "\r\n";
}

export function save_csv(pane: Pane): void {
	download(name_of(pane, "csv"), new Blob([csv_of(pane)], { type: "text/csv" }));
}

// "outermost;...;innermost bytes", as flamegraph.pl and speedscope read it.
export function folded_of(pane: Pane): string {
	const { recording, state } = pane;
	const sums = new Map<number, number>();
	for (const a of recording.live(state.cursor)) {
		const key = recording.stack[a] || -recording.nobody(a);
		sums.set(key, (sums.get(key) ?? 0) + recording.block[a]);
	}
	return [...sums]
		.map(([stack, bytes]) => {
			const frames = Array.from(recording.frames_of(Math.max(0, stack)), (f) =>
				recording.frame_text(f),
			);
			return `${
				frames
					.reverse()
					.join(";")
					.replace(/[\r\n]/g, " ") || nobody_words(-stack)
			} ${bytes}`;
		})
		.sort()
		.join("\n")
		.concat("\n");
}

export function save_folded(pane: Pane): void {
	download(name_of(pane, "folded"), new Blob([folded_of(pane)], { type: "text/plain" }));
}
