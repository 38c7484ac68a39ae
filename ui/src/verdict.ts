// What is to be said first: did it die, of what, and what to do.

import { copy, definitions, el, explained, table } from "./dom";
import type { Measure } from "./page";
import type { ReportDevice as Device, ReportOom as Oom } from "./results";
import type { Recording } from "./recording";
import * as text from "./text";

// Only what the report calls a warning or worse is the headline.
export function headline_finding(recording: Recording) {
	return recording.device.findings.find((f) => f.id === "leak" && f.severity !== "info");
}

// The program's own words: the text and `why --snapshot` say the same, in this order.
function headline({ device: { told }, head: { read_here } }: Recording): HTMLElement {
	if (read_here)
		return el(
			"h1",
			{ title: `No verdict: run ${read_here}` },
			"No verdict: run ",
			el("code", {}, read_here),
			" ",
			copy("Copy", () => read_here),
		);
	const words = text.plain(told.headline ?? "");
	const colon = words.indexOf(":");
	const bad = told.kind !== "fine" && told.kind !== "no_events";
	return bad && colon > 0
		? el(
				"h1",
				{ title: words },
				el("span", { class: "cause" }, words.slice(0, colon)),
				words.slice(colon),
			)
		: el("h1", { title: words }, words);
}

// What stands under the headline with a word in front: limit, because, line.
function facts({ told }: Device): HTMLElement | null {
	const rows = told.lines.flatMap((l): [string, string][] =>
		l.label === null ? [] : [[l.label, text.plain(l.text ?? "")]],
	);
	return rows.length ? definitions(rows) : null;
}

const HOLDERS = 6;

function holders({ told }: Device): HTMLElement | null {
	if (told.held === null) return null;
	return el(
		"div",
		{ class: "held" },
		el("h2", {}, text.plain(told.held)),
		told.kinds === null ? null : el("p", {}, text.plain(told.kinds)),
		definitions(
			told.holders
				.slice(0, HOLDERS)
				.map((h): [string, string] => [text.bytes(h.bytes), text.plain(h.text ?? "")]),
		),
	);
}

// Settings, calls and options are set as code, which breaks behind "=" alone.
function advice(line: string): Node[] {
	return text
		.plain(line)
		.split(/(\s+)/)
		.flatMap((word): Node[] => {
			const [, inner, tail] = /^(.*?)([.,:;]?)$/.exec(word) ?? ["", word, ""];
			if (!/\w[=(/]|^--?\w|_\w/.test(inner)) return [document.createTextNode(word)];
			const parts = inner.split(/(?<==)/).flatMap((part, i) => [i ? el("wbr") : null, part]);
			return [el("code", {}, ...parts), document.createTextNode(tail)];
		});
}

// What can be pasted: the setting that a sentence names, or else all of it.
function pasted(line: string): string {
	return /\b[A-Z][A-Z_]+=[\w:.,[\]]*\w\]?/.exec(line)?.[0] ?? line;
}

function advised(line: string): HTMLElement {
	return el(
		"li",
		{},
		el("span", {}, ...advice(line)),
		copy("Copy", () => pasted(text.plain(line))),
	);
}

const SHOWN = 3; // sentences; more are a press away

function list(title: string, lines: string[], kind: "ul" | "ol" = "ul"): HTMLElement | null {
	if (!lines.length) return null;
	const cards = kind === "ol" ? { class: "advice" } : {};
	const items = lines.map((line) => (kind === "ol" ? advised(line) : el("li", {}, text.plain(line))));
	const more = items.slice(SHOWN);
	return el(
		"div",
		{},
		el("h2", {}, title),
		el(kind, cards, ...items.slice(0, SHOWN)),
		more.length
			? el(
					"details",
					{ class: "more" },
					el("summary", {}, `${more.length} more`),
					el(kind, kind === "ol" ? { ...cards, start: String(SHOWN + 1) } : {}, ...more),
				)
			: null,
	);
}

const measures: Measure[] = ["requested", "allocated", "active", "reserved"];

function totals(recording: Recording, jump: (m: number) => void): HTMLElement {
	const { device } = recording;
	const out = table(
		"",
		[
			{ name: "memory", cell: (m: Measure) => el("span", explained(m), m) },
			{ name: "peak", number: true, cell: (m) => text.bytes(device.peak?.[`${m}_bytes`]) },
			{
				name: "at event",
				number: true,
				cell: (m) => {
					const event = device.peak?.[m]?.event;
					if (event === null || event === undefined) return device.peak ? "before" : "-";
					return el(
						"button",
						{ type: "button", class: "link", click: () => jump(event + 1) },
						text.count(event),
					);
				},
			},
			{ name: "at the end", number: true, cell: (m) => text.bytes(device.end[`${m}_bytes`]) },
		],
		measures,
	);
	out.querySelector("caption")?.remove();
	out.querySelector("table")!.className = "totals";
	return out;
}

// PYTORCH_CUDA_ALLOC_CONF as it was recorded, and what it amounts to.
function settings({ head }: Recording): HTMLElement | null {
	const s = head.settings;
	if (!s) return null;
	const rounded = s.roundup_divisions.flatMap((n, i) =>
		n > 1 ? [`${n} from ${text.bytes(2 ** (20 + i))}`] : [],
	);
	return el(
		"details",
		{ class: "more", open: true },
		el("summary", {}, "Settings of the allocator"),
		definitions(
			[
				["settings", s.conf ? el("code", {}, text.plain(s.conf)) : "the defaults"],
				["expandable segments", s.expandable ? "yes" : "no"],
				[
					"largest split",
					s.max_split_bytes === null ? "blocks of any size" : text.bytes(s.max_split_bytes),
				],
				["collects at", s.gc_threshold ? `${text.percent(s.gc_threshold, 1)} of the limit` : "never"],
				["rounds up by", rounded.join(", ") || "512 B"],
			],
			{ class: "facts" },
		),
	);
}

// Do the viewer's own sums agree with what the program said?
export function checked(recording: Recording): { ok: boolean; words: string } {
	const { device } = recording;
	const own = recording.allocated.total(recording.peak_moment);
	const said = device.peak?.allocated_bytes ?? device.before.allocated_bytes;
	const reserved = device.peak?.reserved_bytes ?? device.before.reserved_bytes;
	if (recording.head.read_here)
		return {
			ok: true,
			words: `${text.plural(recording.rows, "allocation")}, not compared with the program's sums.`,
		};
	const ok = (said === null || said === own) && (reserved === null || reserved === recording.reserved_peak);
	const { low, high } = device.peak?.allocated?.range_bytes ?? { low: null, high: null };
	const slack = low !== null && high !== null ? high - low : 0;
	return {
		ok,
		words: ok
			? `Checked: ${text.plural(recording.rows, "allocation")} in this page add up to the report's peaks${slack ? `, which may be higher by up to ${text.bytes(slack)}` : ""}.`
			: `The allocations in this page add up to ${text.bytes(own)} at the peak, the report says ${text.bytes(said)}: do not trust this page.`,
	};
}

function peak({ told, peak, events }: Device): string {
	return `${!events ? "At the end" : peak?.lower_bound ? "Peak seen" : "Peak"}: ${text.plain(told.peak ?? "")}`;
}

// One line under the headline: the sum that decides, or the peak.
function summary(device: Device): string {
	const alone = device.told.lines.find((l) => l.label === null);
	return alone ? text.plain(alone.text ?? "") : peak(device);
}

function last_oom(recording: Recording): Oom | undefined {
	return recording.death ?? recording.device.oom[recording.device.oom.length - 1];
}

// Two lines over the picture.
export function verdict_of(recording: Recording, which: string): HTMLElement {
	const { device } = recording;
	return el(
		"section",
		{ class: "verdict", "aria-label": `Verdict${which}` },
		headline(recording),
		el("p", { class: "sum" }, summary(device)),
		// On a phone all else is below the picture.
		device.told.remedies.length
			? el("p", { class: "first-advice" }, "Do first: ", ...advice(device.told.remedies[0]))
			: null,
	);
}

// What stands next to the picture as long as nothing is chosen: what to do, why, the numbers.
export function reasons_of(
	recording: Recording,
	jump: (m: number) => void,
	helps: string[], // what the verb says that made the page, instead
): HTMLElement {
	const { device } = recording;
	const oom = last_oom(recording);
	// Where nothing failed, what the headline is about.
	const finding = oom ? undefined : headline_finding(recording);
	const notes = [...recording.head.report.source.notes];
	if (device.peak?.lower_bound && !notes.length)
		notes.unshift("the recording does not cover the whole run: its peak may lie outside");
	const check = checked(recording);
	return el(
		"section",
		{ class: "reasons", "aria-label": "Why, and what to do" },
		facts(device),
		list("What to do, best first", helps.length ? helps : device.told.remedies, "ol"),
		holders(device),
		device.told.lines.length && device.told.peak ? el("p", {}, peak(device)) : null,
		...[device.told.gap, device.told.gap_at_peak].map((gap) =>
			gap ? el("p", {}, text.plain(gap)) : null,
		),
		device.told.stop === null ? null : el("p", {}, text.plain(device.told.stop)),
		list("Why", finding?.evidence ?? oom?.verdict?.evidence ?? []),
		oom?.stack?.length
			? el(
					"details",
					{ class: "more", open: true },
					el("summary", {}, "Stack of the request"),
					el(
						"ol",
						{ class: "stack" },
						...oom.stack.map((f) => el("li", {}, el("code", {}, text.plain(f)))),
					),
				)
			: null,
		recording.head.read_here ? null : totals(recording, jump),
		settings(recording),
		...notes.map((n) => el("p", { class: "note" }, "Note: " + text.plain(n))),
		el(
			"footer",
			{},
			...recording.head.merged.map((m) => el("p", {}, text.plain(m))),
			el("p", check.ok ? {} : { class: "failed" }, check.words),
			el(
				"p",
				{},
				recording.head.read_here
					? "Read in this browser, as docs/packed.md says. Nothing was sent anywhere."
					: `Written by plimsoll ${text.plain(recording.head.version, 40)}. This file holds everything it shows and loads nothing.`,
			),
		),
	);
}
