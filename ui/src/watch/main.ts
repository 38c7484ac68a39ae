// The live page of `plimsoll watch --listen`: follows /events and draws what they say.
// A token stands behind the # of the address, which no browser sends; it goes as Authorization.

import "./watch.css";
import { code, el, fill, table } from "../dom";
import type { Watch, WatchAlert, WatchCard, WatchJob } from "../results";
import { bytes, count, plain, plural } from "../text";

const EVERY_MS = 1000;
const POINTS = 300; // of a graph

const sure = { low: "not sure", medium: "fairly sure", high: "sure" };

const healthy = new Set(["compute_bound", "starting", "saving", "undecided"]);

function word(name: string): string {
	return name.replaceAll("_", "-");
}

function span(seconds: number): string {
	if (seconds < 120) return `${seconds.toFixed(0)} s`;
	if (seconds < 7200) return `${(seconds / 60).toFixed(0)} min`;
	return `${(seconds / 3600).toFixed(1)} h`;
}

function percent(value: number | null): string {
	return value === null ? "-" : `${value.toFixed(0)} %`;
}

function list(title: string, lines: string[]): HTMLElement | null {
	if (!lines.length) return null;
	return el("section", {}, el("h3", {}, title), el("ul", {}, ...lines.map((l) => el("li", {}, plain(l)))));
}

// Two lines over the last minutes: how busy the GPU is, how full its memory.
class History {
	private points: { time: number; busy: number | null; memory: number | null }[] = [];

	// One measure a line: from when the multiprocessors are reported on, the share of the time is none of it.
	private of_sm = false;

	add(job: WatchJob): void {
		const now = job.now;
		if (now.time === null || this.points.at(-1)?.time === now.time) return;
		const total = now.gpu_total_bytes;
		if (!this.of_sm && now.sm_active_percent !== null) {
			this.of_sm = true;
			for (const p of this.points) p.busy = null;
		}
		this.points.push({
			time: now.time,
			busy: this.of_sm ? now.sm_active_percent : now.gpu_busy_percent,
			memory: total && now.gpu_used_bytes !== null ? (100 * now.gpu_used_bytes) / total : null,
		});
		if (this.points.length > POINTS) this.points.shift();
	}

	private line(name: "busy" | "memory"): SVGElement {
		const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
		let d = "";
		let pen = false;
		this.points.forEach((p, i) => {
			const y = p[name];
			if (y === null) pen = false;
			else {
				d += `${pen ? "L" : "M"}${((600 * i) / (POINTS - 1)).toFixed(1)} ${(100 - y).toFixed(1)}`;
				pen = true;
			}
		});
		path.setAttribute("d", d);
		path.setAttribute("class", name);
		return path;
	}

	picture(): Element {
		const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
		const first = this.points[0];
		const last = this.points.at(-1);
		svg.setAttribute("viewBox", "0 -2 600 104");
		svg.setAttribute("preserveAspectRatio", "none");
		svg.setAttribute("role", "img");
		svg.setAttribute(
			"aria-label",
			last ? `use ${percent(last.busy)}, memory ${percent(last.memory)} of the card` : "nothing yet",
		);
		svg.append(this.line("memory"), this.line("busy"));
		return el(
			"figure",
			{},
			svg as unknown as Node,
			el(
				"figcaption",
				{},
				el(
					"span",
					{ class: "busy" },
					this.of_sm ? "multiprocessors at work (SM)" : "time with any kernel (busy)",
				),
				el("span", { class: "memory" }, "its memory"),
				first && last ? `the last ${span(last.time - first.time)}` : "",
			),
		);
	}
}

class App {
	private chosen: number | null = null;
	private histories = new Map<string, History>();
	private state = el("p", { class: "state", role: "status" }, "connecting");
	private alerts = el("div", { class: "alerts", role: "alert" });
	private cards = el("div");
	private jobs = el("div");
	private job = el("div");
	private notes = el("div");
	private alerted = "";
	private seen = ""; // the newest event

	constructor(root: HTMLElement) {
		fill(
			root,
			el("h1", {}, "plimsoll watch"),
			this.state,
			this.alerts,
			this.cards,
			this.jobs,
			this.job,
			this.notes,
		);
	}

	// Samples as they come (/events); where there is no room for one more who follows, asked for once a second.
	async look(): Promise<void> {
		try {
			await this.follow();
		} catch (error) {
			const why =
				error instanceof TypeError
					? "watch does not answer; below is what it said last"
					: String(error);
			document.body.classList.add("stale");
			this.say(why.replace(/^Error: /, ""));
		}
		setTimeout(() => void this.look(), EVERY_MS);
	}

	private async ask(what: string): Promise<Response> {
		const token = location.hash.slice(1);
		const headers: Record<string, string> = token ? { Authorization: `Bearer ${token}` } : {};
		if (this.seen && what === "events") headers["Last-Event-ID"] = this.seen;
		const answer = await fetch(what, { headers, cache: "no-store" });
		if (answer.status === 401)
			throw new Error("the token behind the # of the address is missing or wrong");
		return answer;
	}

	// Until the stream ends; where there is none the newest sample is asked for.
	private async follow(): Promise<void> {
		const events = await this.ask("events");
		if (!events.ok || !events.body) {
			const answer = await this.ask("watch.json");
			if (!answer.ok) throw new Error(`watch answers ${answer.status}`);
			this.show((await answer.json()) as Watch);
			return;
		}
		const reader = events.body.pipeThrough(new TextDecoderStream()).getReader();
		let rest = "";
		for (;;) {
			const { done, value } = await reader.read();
			if (done) throw new TypeError("it ended");
			const parts = (rest + value).split("\n\n");
			rest = parts.pop() ?? "";
			for (const part of parts) this.take(part);
		}
	}

	private take(event: string): void {
		for (const line of event.split("\n")) {
			if (line.startsWith("id: ")) this.seen = line.slice(4);
			if (line.startsWith("data: ")) this.show(JSON.parse(line.slice(6)) as Watch);
		}
	}

	private say(words: string): void {
		if (this.state.textContent !== words) this.state.textContent = words;
	}

	private show(w: Watch): void {
		document.body.classList.remove("stale");
		for (const job of w.jobs) this.history(job).add(job);
		this.say(
			w.driver_silent_seconds !== null && w.driver_silent_seconds >= 2
				? `the GPU's driver has not answered for ${span(w.driver_silent_seconds)}`
				: `${plural(w.jobs.length, "job")}, ${plural(w.cards.length, "GPU")}`,
		);
		this.show_alerts(w.alerts);
		const focused = document.activeElement?.closest("tr")?.querySelector("td")?.textContent;
		fill(this.cards, w.cards.length ? this.card_table(w.cards) : null);
		fill(this.jobs, this.job_table(w.jobs));
		if (focused)
			for (const button of this.jobs.querySelectorAll<HTMLElement>("button.row"))
				if (button.textContent === focused) button.focus();
		const job = w.jobs.find((j) => j.pid === this.chosen) ?? w.jobs[0];
		fill(this.job, job ? this.detail(job) : null);
		fill(
			this.notes,
			...w.groups.map((g) =>
				el(
					"section",
					{},
					el("p", {}, `${plural(g.ranks ?? 0, "rank")}: ${g.title}`),
					list("Seen", g.evidence),
				),
			),
			list("Notes", w.notes),
		);
	}

	private history(job: WatchJob): History {
		const key = `${job.pid} ${job.first_time}`;
		let found = this.histories.get(key);
		if (!found) this.histories.set(key, (found = new History()));
		return found;
	}

	// Only what changed is put anew: a screen reader shows an alert once.
	private show_alerts(alerts: WatchAlert[]): void {
		const words = alerts.map((a) => `${word(a.event)}: ${plain(a.title)}`);
		const all = words.join("\n");
		if (all === this.alerted) return;
		this.alerted = all;
		fill(this.alerts, ...words.map((text) => el("p", {}, text)));
	}

	private card_table(cards: WatchCard[]): HTMLElement {
		return table(
			"GPUs",
			[
				{ name: "GPU", cell: (c) => count(c.index) },
				{ name: "name", cell: (c) => plain(c.name) },
				{ name: "busy", number: true, cell: (c) => percent(c.gpu_busy_percent) },
				{ name: "SM", number: true, cell: (c) => percent(c.sm_active_percent) },
				{
					name: "memory",
					number: true,
					cell: (c) => `${bytes(c.used_bytes)} of ${bytes(c.total_bytes)}`,
				},
				{
					name: "power",
					number: true,
					cell: (c) => (c.power_watts === null ? "-" : `${c.power_watts.toFixed(0)} W`),
				},
				{
					name: "",
					cell: (c) =>
						c.lost
							? "has fallen off the bus"
							: c.slowed
								? `slowed: ${c.slowed}`
								: c.xid
									? `Xid ${c.xid}`
									: "",
				},
			],
			cards,
		);
	}

	private job_table(jobs: WatchJob[]): HTMLElement {
		if (!jobs.length) return el("p", {}, "no job holds a GPU here");
		return table(
			"Jobs",
			[
				{ name: "process", cell: (j) => (j.pid === null ? "-" : String(j.pid)) },
				{ name: "name", cell: (j) => code(j.name, 60) },
				...(jobs.some((j) => j.rank !== null)
					? [{ name: "rank", number: true, cell: (j: WatchJob) => count(j.rank) }]
					: []),
				{
					name: "use",
					number: true,
					cell: (j) => percent(j.now.sm_active_percent ?? j.now.gpu_busy_percent),
				},
				{ name: "memory", number: true, cell: (j) => bytes(j.now.gpu_job_bytes) },
				{ name: "state", cell: (j) => this.state_of(j) },
				...(jobs.some((j) => this.end_of(j))
					? [{ name: "full in", cell: (j: WatchJob) => this.end_of(j) }]
					: []),
			],
			jobs,
			(j) => {
				this.chosen = j.pid;
			},
			(j) => j.pid === (this.chosen ?? jobs[0]?.pid),
		);
	}

	private state_of(j: WatchJob): HTMLElement {
		const v = j.verdicts[0];
		if (j.ended) return el("span", {}, "ended");
		if (!v) return el("span", {}, "looking");
		const since = j.last_time !== null && v.since !== null ? ` for ${span(j.last_time - v.since)}` : "";
		return el("span", { class: healthy.has(v.state) ? "good" : "bad" }, word(v.state) + since);
	}

	// As the text says it.
	private how_sure(j: WatchJob): string {
		const v = j.verdicts[0];
		if (!v || v.state === "undecided") return "";
		const since = j.last_time !== null && v.since !== null ? `for ${span(j.last_time - v.since)}; ` : "";
		return ` (${since}${sure[v.confidence]})`;
	}

	private end_of(j: WatchJob): string {
		const f = j.forecasts[0];
		if (!f || f.confidence === "low" || f.seconds_range.low === null || f.seconds_range.high === null)
			return "";
		return `${span(f.seconds_range.low)} to ${span(f.seconds_range.high)}`;
	}

	private detail(j: WatchJob): HTMLElement {
		const v = j.verdicts[0];
		const now = j.now;
		const gauge =
			now.step === null
				? null
				: el(
						"p",
						{},
						`step ${count(now.step)}` +
							(now.loss === null ? "" : `, loss ${now.loss.toPrecision(4)}`),
					);
		return el(
			"section",
			{ class: "job" },
			el("h2", {}, code(j.name, 60), ` [${j.pid ?? "-"}]`),
			v
				? el(
						"p",
						{ class: "verdict" },
						el("b", {}, word(v.state).toUpperCase()),
						`: ${plain(v.title)}${this.how_sure(j)}`,
					)
				: null,
			v ? list("Seen", v.evidence) : null,
			v ? list("What to change", v.advice) : null,
			...j.forecasts.map((f) =>
				el("p", { class: f.confidence === "low" ? "" : "bad" }, plain(f.title)),
			),
			gauge,
			this.history(j).picture() as HTMLElement,
			table(
				"Processes",
				[
					{ name: "process", cell: (p) => String(p.pid) },
					{ name: "what", cell: (p) => p.what },
					{ name: "state", cell: (p) => plain(p.state) },
					{
						name: "core",
						number: true,
						cell: (p) => (p.cores === null ? "-" : percent(100 * p.cores)),
					},
					{ name: "memory", number: true, cell: (p) => bytes(p.resident_bytes) },
					{ name: "sleeps in", cell: (p) => plain(p.sleeps_in ?? "-") },
				],
				j.processes,
			),
		);
	}
}

const root = document.getElementById("watch");
if (root) void new App(root).look();
