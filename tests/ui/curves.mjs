// curves.mjs PLIMSOLL FOLDER: what a reader does with the page of curves, in a real browser.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { createRequire } from "node:module";

const require = createRequire(path.resolve("ui/package.json"));
const { chromium } = require("playwright-core");
const [plimsoll, top] = process.argv.slice(2);
const folder = path.join(top, "curves");
const hostile = "</script><img src=x onerror=alert(1)>\u202e";

// ---- logs ----

function log(name, rows) {
	const file = path.join(folder, name, "log.jsonl");
	fs.mkdirSync(path.dirname(file), { recursive: true });
	const words = (v) => (Number.isNaN(v) ? "NaN" : JSON.stringify(v));
	const line = (r) =>
		`{${Object.entries(r)
			.map(([k, v]) => `${JSON.stringify(k)}: ${words(v)}`)
			.join(", ")}}\n`;
	fs.writeFileSync(file, rows.map(line).join(""));
	return file;
}

function page_of(name, ...paths) {
	const out = path.join(folder, `${name}.html`);
	execFileSync(plimsoll, ["curves", ...paths, "-o", out, "--no-plot"], {
		stdio: ["ignore", "ignore", "pipe"],
	});
	return out;
}

const steps = Array.from({ length: 40 }, (_, i) => i + 1);
const overfit = steps.map((i) => ({
	step: 10 * i,
	loss: 4 * 0.93 ** i,
	grad_norm: 1 + 0.1 * (i % 3),
	eval_loss: i <= 15 ? 4 * 0.93 ** i + 0.2 : 4 * 0.93 ** 15 + 0.2 + 0.08 * (i - 15),
	[hostile]: i,
}));
const dies = steps.map((i) => ({
	step: 10 * i,
	loss: i < 30 ? 5 - 0.1 * i : NaN,
	eval_loss: i < 30 ? 5 - 0.1 * i : NaN,
}));
const fine = steps.map((i) => ({ step: 10 * i, loss: 3 + 2 / i, eval_loss: 3.2 + 2 / i }));
const long = Array.from({ length: 20000 }, (_, i) => ({
	step: i,
	loss: 3 + Math.sin(i * 12.9) / 4 + 2000 / (i + 500),
}));

const one = page_of("one", log("overfit", overfit));
log("sweep/dies", dies);
log("sweep/fine", fine);
log("sweep/overfit", overfit);
for (let i = 0; i < 12; i++) log(`sweep/more-${i}`, fine);
const many = page_of("many", path.join(folder, "sweep"));
log("ends/dies", dies.slice(0, 32));
log("ends/fine", fine);
const ends = page_of("ends", path.join(folder, "ends"));
const thinned = page_of("thinned", log("long", long));
const broken = path.join(folder, "broken.html");
fs.writeFileSync(
	broken,
	fs.readFileSync(one, "latin1").replace(/(id="plim-0-head">.{40}).{400}/, "$1"),
	"latin1",
);

// ---- the browser ----

const browser = await chromium.launch({
	executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
	args: ["--no-sandbox"],
});

async function open(file, options = {}) {
	const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
	const page = await context.newPage();
	page.bad = [];
	page.on("console", (m) => page.bad.push(`console ${m.type()}: ${m.text()}`));
	page.on("pageerror", (e) => page.bad.push(`error: ${e.message}`));
	page.on("request", (r) => r.isNavigationRequest() || page.bad.push(`request: ${r.url().slice(0, 80)}`));
	page.on("dialog", (d) => {
		page.bad.push("dialog");
		d.dismiss();
	});
	await page.goto("file://" + path.resolve(file));
	await page.waitForFunction(
		() => document.documentElement.dataset.ready || document.querySelector(".failed[role=alert]"),
	);
	await settle(page);
	return page;
}

const settle = (page) =>
	page.evaluate(() => new Promise((done) => setTimeout(() => requestAnimationFrame(done), 120)));

const main = (page) => page.locator(".chart.main .plot");
const lines = (page) => main(page).getAttribute("data-lines");
const range = async (page) =>
	(await page.locator(".range").textContent()).replace(/,/g, "").match(/\d+/g).map(Number);
const box_of = (page, n = 0) => page.locator(".u-over").nth(n).boundingBox();

// How many pixels of a chart are of a colour.
const painted = (page, variable) =>
	page.evaluate((variable) => {
		const canvas = document.querySelector(".chart.main canvas");
		const value = getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
		const wanted = [1, 3, 5].map((at) => parseInt(value.slice(at, at + 2), 16));
		const copy = Object.assign(document.createElement("canvas"), {
			width: canvas.width,
			height: canvas.height,
		});
		const context = copy.getContext("2d", { willReadFrequently: true });
		context.drawImage(canvas, 0, 0);
		const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
		let n = 0;
		for (let i = 0; i < data.length; i += 4)
			n += wanted.every((v, k) => Math.abs(data[i + k] - v) < 8) && data[i + 3] > 200;
		return n;
	}, variable);

const tests = {
	async "says what is wrong, and marks it in the chart"() {
		const page = await open(one);
		assert.match(await page.locator("h1").textContent(), /eval_loss' is best at step 150/);
		assert.ok(Number(await main(page).getAttribute("data-marks")) >= 2);
		assert.ok((await painted(page, "--training")) > 300, "the training loss is drawn");
		assert.ok((await painted(page, "--validation")) > 300, "the validation loss is drawn");
		assert.ok((await painted(page, "--warning")) > 100, "a finding is marked");
		assert.match(await page.locator(".back").textContent(), /Go back to step 150/);
		return page;
	},

	async "names from the log are text"() {
		const page = await open(one);
		assert.equal(await page.locator("img").count(), 0);
		await page.locator("details.others summary").click();
		await settle(page);
		assert.match(
			await page.locator(".others h3").first().textContent(),
			/<img src=x onerror=alert\(1\)>\\u202e/,
		);
		return page;
	},

	async "dragging zooms all charts, a double click shows all"() {
		const page = await open(one);
		const box = await box_of(page);
		await page.mouse.move(box.x + box.width * 0.25, box.y + 60);
		await page.mouse.down();
		await page.mouse.move(box.x + box.width * 0.5, box.y + 60, { steps: 4 });
		await page.mouse.up();
		await settle(page);
		const [from, to] = await range(page);
		assert.ok(Math.abs(from - 107) < 12 && Math.abs(to - 205) < 12, `zoomed to ${from}..${to}`);
		assert.equal(await page.getByRole("button", { name: "All steps" }).isVisible(), true);
		await page.mouse.dblclick(box.x + 100, box.y + 60);
		await settle(page);
		assert.deepEqual(await range(page), [10, 400]);
		return page;
	},

	async "the cursor is linked, and tells the values"() {
		const page = await open(one);
		const box = await box_of(page);
		await page.mouse.move(box.x + box.width * 0.5, box.y + 90);
		await settle(page);
		const tip = page.locator(".chart.main .tip");
		assert.match(await tip.textContent(), /step 2\d\d.*eval_loss/);
		const at = await page.evaluate(() =>
			[...document.querySelectorAll(".u-over")].slice(0, 2).map((over) => {
				const x = over.querySelector(".u-cursor-x").getBoundingClientRect().left;
				const { left, width } = over.getBoundingClientRect();
				return (x - left) / width;
			}),
		);
		assert.ok(Math.abs(at[0] - 0.5) < 0.01 && Math.abs(at[1] - 0.5) < 0.03, `cursors at ${at}`);
		return page;
	},

	async "the legend hides a line, and isolates it"() {
		const page = await open(one);
		assert.equal(await lines(page), "2");
		const legend = page.locator(".chart.main .legend button");
		await legend.nth(1).click();
		await settle(page);
		assert.equal(await lines(page), "1");
		assert.equal(await painted(page, "--validation"), 0);
		await legend.nth(1).click();
		await legend.nth(1).dblclick();
		await settle(page);
		assert.equal(await lines(page), "1");
		assert.equal(await painted(page, "--training"), 0);
		return page;
	},

	async "a logarithmic scale, smoothing, and keys"() {
		const page = await open(one);
		const log = page.locator(".chart.main .head > button.small");
		const before = await log.getAttribute("aria-pressed");
		await log.click();
		assert.notEqual(await log.getAttribute("aria-pressed"), before);
		await page.keyboard.press("m");
		assert.equal(await page.locator("input[type=range]").inputValue(), "0.6");
		await page.keyboard.press("n");
		await settle(page);
		const [from, to] = await range(page);
		assert.ok(from < 150 && 150 < to && to - from < 200, `the finding is looked at: ${from}..${to}`);
		await page.keyboard.press("0");
		await page.keyboard.press("?");
		assert.equal(await page.locator("dialog").isVisible(), true);
		return page;
	},

	async "many runs: the worst are shown, a colour hides, a double click isolates"() {
		const page = await open(many);
		assert.match(await page.locator("h1").textContent(), /wrong with 2 of 15 runs/);
		const shown = () => page.locator(".runs button.colour[aria-pressed=true]").count();
		assert.equal(await shown(), 12);
		assert.equal(await lines(page), "24");
		await page.getByRole("button", { name: "Show all runs" }).click();
		await settle(page);
		assert.equal(await shown(), 15);
		const dies = page.getByRole("button", { name: "show dies", exact: true });
		await dies.click();
		await settle(page);
		assert.equal(await shown(), 14);
		await dies.dblclick();
		await settle(page);
		assert.equal(await shown(), 1);
		assert.equal(await lines(page), "2");
		assert.ok((await painted(page, "--error")) > 200, "what is not finite is marked");
		return page;
	},

	async "runs sort by what they did, and a name leads to its findings"() {
		const page = await open(many);
		await page.locator(".runs th button", { hasText: "best" }).click();
		const best = await page.locator(".runs tbody tr td:nth-child(4)").allTextContents();
		const numbers = best.map(Number);
		assert.deepEqual(
			numbers,
			[...numbers].sort((a, b) => a - b),
		);
		await page.locator(".runs td.name button", { hasText: /^fine$/ }).click();
		await settle(page);
		const open_run = page.locator("details.run[open] summary", { hasText: "fine" });
		assert.equal(await open_run.count(), 1);
		return page;
	},

	async "a long curve keeps its lowest and highest values"() {
		const page = await open(thinned);
		const box = await box_of(page);
		await page.mouse.move(box.x + box.width * 0.7, box.y + 60);
		await settle(page);
		assert.match(await page.locator(".chart.main .tip").textContent(), /\d \([\d.]+ to [\d.]+\)/);
		return page;
	},

	async "light and dark"() {
		const page = await open(one, { colorScheme: "dark" });
		assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
		assert.ok((await painted(page, "--training")) > 300);
		await page.keyboard.press("t");
		await settle(page);
		assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "light");
		assert.ok((await painted(page, "--training")) > 300);
		return page;
	},

	// Bars of a NaN and of an open finding went on to the end of the longest run.
	async "draws nothing behind a run's end"() {
		const page = await open(ends);
		const [last, end] = await page.evaluate(() => {
			const canvas = document.querySelector(".chart.main canvas");
			const hex = getComputedStyle(document.documentElement).getPropertyValue("--error").trim();
			const wanted = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
			const copy = Object.assign(document.createElement("canvas"), {
				width: canvas.width,
				height: canvas.height,
			});
			const context = copy.getContext("2d", { willReadFrequently: true });
			context.drawImage(canvas, 0, 0);
			const over = document.querySelector(".chart.main .u-over").getBoundingClientRect();
			const left = over.left - canvas.getBoundingClientRect().left;
			const top = Math.round(over.top - canvas.getBoundingClientRect().top);
			const high = Math.round(over.height);
			let last = 0;
			// The bars at the two edges; names of findings may stand further right.
			for (const y of [top + 1, top + high - 2])
				for (let x = 0; x < canvas.width; x++) {
					const seen = context.getImageData(x, y, 1, 1).data;
					const near = wanted.every((v, k) => Math.abs(seen[k] - v) < 40);
					if (near && seen[3] > 100) last = Math.max(last, x);
				}
			return [last, left + (over.width * (320 - 10)) / (400 - 10)];
		});
		assert.ok(last > 0 && last <= end + 2, `${last} of ${end}`);
		return page;
	},

	async "fits a phone, and paper"() {
		for (const file of [one, many]) {
			const page = await open(file, { viewport: { width: 390, height: 844 }, hasTouch: true });
			assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390);
			assert.deepEqual(page.bad, []);
			await page.context().close();
		}
		const page = await open(one, { colorScheme: "dark" });
		await page.pdf({ path: path.join(folder, "one.pdf"), format: "A4" });
		assert.ok(fs.statSync(path.join(folder, "one.pdf")).size > 20000);
		return page;
	},

	async "a damaged page says so"() {
		const page = await open(broken);
		assert.match(await page.locator(".failed").textContent(), /cannot be shown/);
		return page;
	},
};

let failed = 0;
for (const [name, run] of Object.entries(tests)) {
	try {
		const page = await run();
		assert.deepEqual(page.bad, []);
		await page.context().close();
		console.log(`ok   curves: ${name}`);
	} catch (error) {
		failed++;
		console.log(`FAIL curves: ${name}\n${error.stack ?? error}`);
	}
}
await browser.close();
process.exit(failed ? 1 : 0);
