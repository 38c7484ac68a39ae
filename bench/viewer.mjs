// viewer.mjs PAGE...: how long until a page can be used, and what zooming costs, in headless Chromium.  Run
// from the repository's folder; ui/node_modules must be there (make viewer).
//   usable   from the navigation's start until the picture is drawn and answers
//   longest  the longest task until then: how long the browser was deaf
//   opening  processor time of the page's main thread until then, the least of the runs: other load hardly changes it
//   filter, choose  from frame to frame, 95th percentile and worst, while filters are typed and allocations walked through
//   zoom     a scripted zoom by wheel to the middle and out again, a step each frame: median and worst time
//            between frames, and frames dropped (those that a 60 Hz display would have shown besides);
//            CPU is what all of the browser's processes took a frame, which other load does not change;
//            "idle" is what the same machine drops with nothing to do, run in turn with the pages
import fs from "node:fs";
import path from "node:path";
import { createRequire } from "node:module";

const { chromium } = createRequire(path.resolve("ui/package.json"))("playwright-core");
const RUNS = Number(process.env.RUNS ?? 5);
const STEPS = 150; // frames in, and as many out

const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)];

function zoom(steps) {
	const canvas = document.querySelector("canvas.over");
	const box = canvas.getBoundingClientRect();
	const at = [];
	return new Promise((done) => {
		const frame = (now) => {
			at.push(now);
			if (at.length > 2 * steps) return done(at);
			const deltaY = at.length <= steps ? -16 : 16;
			canvas.dispatchEvent(
				new WheelEvent("wheel", {
					deltaY,
					clientX: box.left + box.width * 0.55,
					clientY: box.top + 100,
					ctrlKey: true,
					cancelable: true,
					bubbles: true,
				}),
			);
			requestAnimationFrame(frame);
		};
		requestAnimationFrame(frame);
	});
}

// Frames while `act` is done again and again, a step each third frame.
function frames_during(what) {
	const at = [];
	const box = document.querySelector("#search");
	const canvas = document.querySelector("canvas.over");
	const words = ["size>=1MiB", "step:2", "category:activations", "life<10", "forward"];
	const acts = {
		filter: (n) => {
			const word = words[Math.floor(n / 12) % words.length];
			box.value = word.slice(0, 1 + (n % 12));
			box.dispatchEvent(new InputEvent("input", { bubbles: true }));
		},
		choose: (n) => {
			canvas.focus();
			const key = n % 10 ? "ArrowDown" : "ArrowRight";
			canvas.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
		},
	};
	return new Promise((done) => {
		const frame = (now) => {
			at.push(now);
			if (at.length > 240) return done(at);
			if (at.length % 3 === 0) acts[what](at.length / 3);
			requestAnimationFrame(frame);
		};
		requestAnimationFrame(frame);
	});
}

const gaps_of = (at) => at.slice(1).map((t, i) => t - at[i]);
const percentile = (list, part) => [...list].sort((a, b) => a - b)[Math.floor(list.length * part)];

// Processor time of the page's main thread, from a trace.
function main_thread_ms(trace) {
	const events = JSON.parse(trace.toString()).traceEvents;
	const of = new Map();
	for (const e of events)
		if (e.name === "thread_name" && e.args.name === "CrRendererMain") of.set(`${e.pid}:${e.tid}`, 0);
	for (const e of events) {
		const thread = `${e.pid}:${e.tid}`;
		if (e.ph === "X" && e.name === "ThreadControllerImpl::RunTask" && of.has(thread))
			of.set(thread, of.get(thread) + (e.tdur ?? 0) / 1000);
	}
	return Math.max(...of.values());
}

async function opening_ms(browser, file) {
	const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
	await browser.startTracing(page, { categories: ["toplevel"] });
	await page.goto("file://" + path.resolve(file));
	await page.waitForFunction(() => document.documentElement.dataset.ready, null, { timeout: 60000 });
	const ms = main_thread_ms(await browser.stopTracing());
	await page.close();
	return ms;
}

const dropped = (gaps) => gaps.reduce((sum, g) => sum + Math.max(0, Math.round(g / (1000 / 60)) - 1), 0);

async function idle(browser) {
	const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
	const at = await page.evaluate(
		(n) =>
			new Promise((done) => {
				const times = [];
				const frame = (now) => (times.push(now) > n ? done(times) : requestAnimationFrame(frame));
				requestAnimationFrame(frame);
			}),
		2 * STEPS,
	);
	await page.close();
	return at.slice(1).map((t, i) => t - at[i]);
}

// Milliseconds of processor that the browser and its children have used.
function cpu_ms(root) {
	const all = new Map();
	for (const pid of fs.readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
		try {
			const stat = fs.readFileSync(`/proc/${pid}/stat`, "utf8");
			const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
			all.set(Number(pid), {
				parent: Number(fields[1]),
				ms: 10 * (Number(fields[11]) + Number(fields[12])),
			});
		} catch {
			// it ended meanwhile
		}
	}
	let sum = 0;
	for (const [pid, { ms }] of all) {
		let at = pid;
		while (at && at !== root) at = all.get(at)?.parent;
		if (at === root) sum += ms;
	}
	return sum;
}

const server = await chromium.launchServer({
	executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
	args: ["--no-sandbox"],
});
const browser = await chromium.connect(server.wsEndpoint());
const tracer = await chromium.launch({
	executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
	args: ["--no-sandbox"],
});
console.log(
	"| page | MB | events | usable, ms | opening, CPU ms | longest task, ms | zoom: frame median, p95, worst, ms | filter: p95, worst | choose: p95, worst | CPU a frame, ms | frames | dropped | idle dropped |",
);
console.log("|---|---|---|---|---|---|---|---|---|---|---|---|---|");
for (const file of process.argv.slice(2)) {
	const runs = [];
	for (let run = 0; run < RUNS; run++) {
		const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
		await page.addInitScript(() => {
			window.tasks = [];
			new PerformanceObserver((list) =>
				window.tasks.push(...list.getEntries().map((e) => e.duration)),
			).observe({ type: "longtask", buffered: true });
		});
		await page.goto("file://" + path.resolve(file));
		await page.waitForFunction(() => document.documentElement.dataset.ready, null, { timeout: 60000 });
		const usable = await page.evaluate(
			() =>
				new Promise((done) =>
					requestAnimationFrame(() => setTimeout(() => done(performance.now()), 0)),
				),
		);
		const ready = await page.evaluate(() => Number(document.documentElement.dataset.ready));
		const tasks = await page.evaluate(() => window.tasks);
		const events = await page.evaluate(() => document.querySelector("header .file").textContent);
		const before = cpu_ms(server.process().pid);
		const at = await page.evaluate(zoom, STEPS);
		const cpu = (cpu_ms(server.process().pid) - before) / (2 * STEPS);
		const gaps = gaps_of(at);
		const filter = gaps_of(await page.evaluate(frames_during, "filter"));
		const choose = gaps_of(await page.evaluate(frames_during, "choose"));
		const opening = await opening_ms(tracer, file);
		const rest = await idle(browser);
		runs.push({
			usable: Math.max(usable, ready),
			longest: Math.max(0, ...tasks),
			gaps,
			filter,
			choose,
			opening,
			rest,
			cpu,
			events,
		});
		await page.close();
	}
	const gaps = runs.flatMap((r) => r.gaps);
	const frames = (of) => {
		const list = runs.flatMap(of);
		return `${percentile(list, 0.95).toFixed(1)}, ${Math.max(...list).toFixed(1)}`;
	};
	console.log(
		`| ${path.basename(file)} | ${(fs.statSync(file).size / 1e6).toFixed(2)} | ${/([\d,]+) events/.exec(runs[0].events)[1]} | ${median(runs.map((r) => r.usable)).toFixed(0)} ` +
			`| ${Math.min(...runs.map((r) => r.opening)).toFixed(0)} | ${median(runs.map((r) => r.longest)).toFixed(0)} ` +
			`| ${median(gaps).toFixed(1)}, ${frames((r) => r.gaps)} | ${frames((r) => r.filter)} | ${frames((r) => r.choose)} | ${median(runs.map((r) => r.cpu)).toFixed(1)} | ${gaps.length} | ${dropped(gaps)} | ${runs.reduce((sum, r) => sum + dropped(r.rest), 0)} |`,
	);
}
await tracer.close();
await browser.close();
await server.close();
