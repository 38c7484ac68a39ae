// viewer.mjs PAGE...: how long until a page can be used, and what zooming costs, in headless Chromium.  Run
// from the repository's folder; ui/node_modules must be there (make viewer).
//   usable   from the navigation's start until the picture is drawn and answers
//   longest  the longest task until then: how long the browser was deaf
//   zoom     a scripted zoom by wheel to the middle and out again, a step each frame: median and worst time
//            between frames, and frames dropped (those that a 60 Hz display would have shown besides)
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
			canvas.dispatchEvent(new WheelEvent("wheel", { deltaY, clientX: box.left + box.width * 0.55, clientY: box.top + 100, cancelable: true, bubbles: true }));
			requestAnimationFrame(frame);
		};
		requestAnimationFrame(frame);
	});
}

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
console.log("| page | MB | events | usable, ms | longest task, ms | zoom: frame median, worst, ms | frames | dropped |");
console.log("|---|---|---|---|---|---|---|---|");
for (const file of process.argv.slice(2)) {
	const runs = [];
	for (let run = 0; run < RUNS; run++) {
		const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
		await page.addInitScript(() => {
			window.tasks = [];
			new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((e) => e.duration))).observe({ type: "longtask", buffered: true });
		});
		await page.goto("file://" + path.resolve(file));
		await page.waitForFunction(() => document.documentElement.dataset.ready, null, { timeout: 60000 });
		const usable = await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(() => done(performance.now()), 0))));
		const ready = await page.evaluate(() => Number(document.documentElement.dataset.ready));
		const tasks = await page.evaluate(() => window.tasks);
		const events = await page.evaluate(() => document.querySelector("header .file").textContent);
		const at = await page.evaluate(zoom, STEPS);
		const gaps = at.slice(1).map((t, i) => t - at[i]);
		runs.push({ usable: Math.max(usable, ready), longest: Math.max(0, ...tasks), gaps, events });
		await page.close();
	}
	const gaps = runs.flatMap((r) => r.gaps);
	const dropped = gaps.reduce((sum, g) => sum + Math.max(0, Math.round(g / (1000 / 60)) - 1), 0);
	console.log(
		`| ${path.basename(file)} | ${(fs.statSync(file).size / 1e6).toFixed(2)} | ${/([\d,]+) events/.exec(runs[0].events)[1]} | ${median(runs.map((r) => r.usable)).toFixed(0)} ` +
			`| ${median(runs.map((r) => r.longest)).toFixed(0)} | ${median(gaps).toFixed(1)}, ${Math.max(...gaps).toFixed(1)} | ${gaps.length} | ${dropped} |`,
	);
}
await browser.close();
