// What is to be said first: did it die, of what, and what to do.

import { el, table } from "./dom";
import { grouping_of, sum_groups } from "./groups";
import type { Measure } from "./page";
import type { ReportOom as Oom } from "./results";
import type { Recording } from "./recording";
import * as text from "./text";

const bounds: Record<string, string> = {
	device: "the card's memory",
	limit: "a limit of this process",
	other_process: "another process on the card",
	non_pytorch: "memory outside of PyTorch",
	unknown: "not known",
};

function headline(recording: Recording): HTMLElement {
	const { death, device } = recording;
	const told = device.oom[device.oom.length - 1]?.verdict?.headline ?? null;
	const words = death ? (death.verdict?.headline ?? null) : null;
	const colon = words?.indexOf(":") ?? -1;
	if (death && words && colon > 0)
		return el(
			"h1",
			{},
			recording.head.plan ? "Will die of " : "Died of ",
			el("span", { class: "cause" }, text.plain(words.slice(0, colon))),
			text.plain(words.slice(colon)),
		);
	if (death)
		return el(
			"h1",
			{},
			`${recording.head.plan ? "Will die" : "Died"} asking for ${text.bytes(death.requested_bytes)}`,
		);
	if (device.oom.length)
		return el(
			"h1",
			{},
			`Ran out of memory ${device.oom.length === 1 ? "once" : `${device.oom.length} times`}, caught it and went on`,
			told ? `: ${text.plain(told)}` : null,
		);
	// Only what the report calls a warning or worse is the headline.
	const leak = device.findings.find((f) => f.id === "leak" && f.severity !== "info");
	if (leak)
		return el(
			"h1",
			{},
			el("span", { class: "cause" }, "Leaks: "),
			text.plain(leak.title.replace(/^leak: /, "")),
		);
	return el(
		"h1",
		{},
		`No death in this ${recording.head.plan ? "plan" : "recording"}; the peak is ${text.bytes(device.peak?.allocated_bytes ?? recording.allocated.total(recording.peak_moment))}`,
	);
}

// What held most at m: three categories, and the line with most.
function holders(recording: Recording, m: number): [string, string][] {
	const live = recording.live(m);
	const { categories } = recording.head;
	const sums = categories.map(() => 0);
	for (const a of live) sums[recording.category(a)] += recording.block[a];
	const order = sums
		.map((_, i) => i)
		.filter((i) => sums[i] > 0)
		.sort((a, b) => sums[b] - sums[a]);
	const rest = order.slice(4).reduce((sum, i) => sum + sums[i], 0);
	const parts = order.slice(0, 4).map((i) => `${text.bytes(sums[i])} ${categories[i].name}`);
	if (rest) parts.push(`${text.bytes(rest)} other`);
	const [first] = sum_groups(recording, grouping_of("line"), live);
	const out: [string, string][] = [["held by", parts.join(", ") || "nothing"]];
	if (first) out.push(["largest line", `${text.bytes(first.bytes)} ${first.name}`]);
	return out;
}

function definitions(rows: [string, string][]): HTMLElement {
	return el("dl", {}, ...rows.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

function facts(recording: Recording, oom: Oom): HTMLElement {
	const { verdict } = oom;
	const rows: [string, string][] = [];
	if (verdict) {
		const { low, high } = verdict.bound_bytes;
		const range =
			low === null
				? ""
				: `; PyTorch could have ${text.bytes(low)}${high !== null && high !== low ? ` to ${text.bytes(high)}` : ""}`;
		rows.push(["limited by", (bounds[verdict.bound_by] ?? text.plain(verdict.bound_by)) + range]);
	}
	rows.push(["asked for", `${text.bytes(oom.requested_bytes)} (${recording.moment_text(oom.event + 1)})`]);
	rows.push([
		"allocated then",
		`${text.bytes(oom.live_bytes)} of ${text.bytes(oom.reserved_bytes)} reserved; ${text.bytes(oom.free_bytes)} free, ${text.bytes(oom.largest_free_bytes)} at most in one piece that fits`,
	]);
	rows.push([
		"at",
		oom.frame
			? text.plain(oom.frame)
			: "code without a Python stack (autograd's backward thread, as a rule)",
	]);
	return definitions([...rows, ...holders(recording, oom.event + 1)]);
}

const SHOWN = 3; // sentences; more are a press away

function list(title: string, lines: string[]): HTMLElement | null {
	if (!lines.length) return null;
	const items = lines.map((line) => el("li", {}, text.plain(line)));
	const more = items.slice(SHOWN);
	return el(
		"div",
		{},
		el("h2", {}, title),
		el("ul", {}, ...items.slice(0, SHOWN)),
		more.length
			? el(
					"details",
					{ class: "more" },
					el("summary", {}, `${more.length} more`),
					el("ul", {}, ...more),
				)
			: null,
	);
}

const glossary: Record<Measure, string> = {
	requested: "what the program asked for",
	allocated: "blocks in use: what was asked for, rounded up (torch.cuda.memory_allocated)",
	active: "blocks in use, or freed while another stream still uses them",
	reserved: "what the allocator has taken from the driver (torch.cuda.memory_reserved)",
};

const measures: Measure[] = ["requested", "allocated", "active", "reserved"];

function totals(recording: Recording, jump: (m: number) => void): HTMLElement {
	const { device } = recording;
	const out = table(
		"",
		[
			{ name: "memory", cell: (m: Measure) => el("span", { title: glossary[m] }, m) },
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

// Do the viewer's own sums agree with what the program said?
export function checked(recording: Recording): { ok: boolean; words: string } {
	const { device } = recording;
	const own = recording.allocated.total(recording.peak_moment);
	const said = device.peak?.allocated_bytes ?? device.before.allocated_bytes;
	const reserved = device.peak?.reserved_bytes ?? device.before.reserved_bytes;
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

// One line under the headline: the sum that decides, or the peak.
function summary(recording: Recording, oom: Oom | undefined): string {
	const { device } = recording;
	if (oom?.verdict?.arithmetic) return oom.verdict.arithmetic;
	if (oom)
		return `${text.bytes(oom.requested_bytes)} was asked for; ${text.bytes(oom.live_bytes)} of ${text.bytes(oom.reserved_bytes)} reserved was allocated`;
	const peak = device.peak?.allocated_bytes ?? recording.allocated.total(recording.peak_moment);
	const reserved = device.peak?.reserved_bytes ?? recording.reserved_peak;
	return `Peaks: ${text.bytes(peak)} allocated (${recording.moment_text(recording.peak_moment)}), ${text.bytes(reserved)} reserved`;
}

function last_oom(recording: Recording): Oom | undefined {
	return recording.death ?? recording.device.oom[recording.device.oom.length - 1];
}

// Two lines over the picture.
export function verdict_of(recording: Recording, which: string): HTMLElement {
	return el(
		"section",
		{ class: "verdict", "aria-label": `Verdict${which}` },
		headline(recording),
		el("p", { class: "sum" }, text.plain(summary(recording, last_oom(recording)))),
	);
}

// What stands beside the picture as long as nothing is chosen: what to do, why, the numbers.
export function reasons_of(recording: Recording, jump: (m: number) => void): HTMLElement {
	const oom = last_oom(recording);
	const notes = [...recording.head.report.source.notes];
	if (recording.device.peak?.lower_bound && !notes.length)
		notes.unshift("the recording does not cover the whole run: its peak may lie outside");
	const check = checked(recording);
	return el(
		"section",
		{ class: "reasons", "aria-label": "Why, and what to do" },
		oom?.verdict ? list("What to do", oom.verdict.helps) : null,
		oom?.verdict ? list("Why", oom.verdict.evidence) : null,
		oom ? facts(recording, oom) : definitions(holders(recording, recording.peak_moment)),
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
		totals(recording, jump),
		...notes.map((n) => el("p", { class: "note" }, "Note: " + text.plain(n))),
		el(
			"footer",
			{},
			...recording.head.merged.map((m) => el("p", {}, text.plain(m))),
			el("p", check.ok ? {} : { class: "failed" }, check.words),
			el(
				"p",
				{},
				`Written by plimsoll ${text.plain(recording.head.version, 40)}. This file holds everything it shows and loads nothing.`,
			),
		),
	);
}
