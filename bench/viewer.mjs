// viewer.mjs PAGE...: how long until a page can be used, and what zooming costs, in headless Chromium.  Run
// from the repository's folder; ui/node_modules must be there (make viewer).
//   usable   from the navigation's start until the picture is drawn and answers
//   longest  the longest task until then: how long the browser was deaf
//   zoom     a scripted zoom by wheel to the middle and out again, a step each frame: median and worst time
//            between frames, and frames dropped (those that a 60 Hz display would have shown besides);
//            CPU is what all of the browser's processes took a frame, which other load does not change;
//            "idle" is what the same machine drops with nothing to do, run in turn with the pages
import fs from "node:fs";
import path from "node:path";
import { createRequire } from "node:module";

const { chromium } = createRequire(path.resolve("ui/package.json"))("playwright-core");
const RUNS = 5;
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
console.log(
	"| page | MB | events | usable, ms | longest task, ms | zoom: frame median, worst, ms | CPU a frame, ms | frames | dropped | idle dropped |",
);
console.log("|---|---|---|---|---|---|---|---|---|---|");
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
		const gaps = at.slice(1).map((t, i) => t - at[i]);
		const rest = await idle(browser);
		runs.push({
			usable: Math.max(usable, ready),
			longest: Math.max(0, ...tasks),
			gaps,
			rest,
			cpu,
			events,
		});
		await page.close();
	}
	const gaps = runs.flatMap((r) => r.gaps);
	console.log(
		`| ${path.basename(file)} | ${(fs.statSync(file).size / 1e6).toFixed(2)} | ${/([\d,]+) events/.exec(runs[0].events)[1]} | ${median(runs.map((r) => r.usable)).toFixed(0)} ` +
			`| ${median(runs.map((r) => r.longest)).toFixed(0)} | ${median(gaps).toFixed(1)}, ${Math.max(...gaps).toFixed(1)} | ${median(runs.map((r) => r.cpu)).toFixed(1)} | ${gaps.length} | ${dropped(gaps)} | ${runs.reduce((sum, r) => sum + dropped(r.rest), 0)} |`,
	);
}
await browser.close();
await server.close();
