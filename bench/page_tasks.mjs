// page_tasks.mjs PLIMSOLL FOLDER: the five tasks of docs/evidence/page.md, done on pages as a reader does them: how many
// actions each takes, whether the answer is on the screen then, and a picture of it.  Exits 1 if one is not.
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { createRequire } from "node:module";

const require = createRequire(path.resolve("ui/package.json"));
const { chromium } = require("playwright-core");
const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const [plimsoll, out] = process.argv.slice(2);
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "tasks-"));
const made = (name, ...args) => {
	const html = path.join(folder, name);
	execFileSync(plimsoll, [...args, "-o", html], { stdio: "ignore" });
	return html;
};
const died = made("died.html", "report", "samples/died-moe.pickle.xz");
const leak = made("leak.html", "report", "tests/data/leak_rnn.pickle.xz");
const both = made("both.html", "diff", "tests/data/rnn.pickle.xz", "tests/data/leak_rnn.pickle.xz");

const browser = await chromium.launch({
	executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
	args: ["--no-sandbox"],
});
const tab = (name) => (page) => page.getByRole("tab", { name }).click();
const button = (name) => (page) => page.getByRole("button", { name, exact: true }).click();

const scroll_to = (place) => (page) => page.locator(place).first().scrollIntoViewIfNeeded();

// Of the death's last allocations, in the band of activations.
const on_a_band = async (page) => {
	const box = await page.locator("canvas.over").boundingBox();
	await page.mouse.click(box.x + 0.94 * box.width, box.y + box.height - 120);
};
const tasks = [
	[
		"most at the peak",
		died,
		[button("Peak"), tab("Owners")],
		".owners",
		/live at .*event [\d,]+.*[MG]iB\d+ %/,
	],
	["before the death", died, [tab("Events")], '.events tr[aria-current="true"]', /oom/],
	[
		"this block's history",
		died,
		[on_a_band, scroll_to(".details dl >> nth=-1")],
		".details dl >> nth=-1",
		/here before.*freed at.*here after/,
	],
	[
		"compare two runs",
		both,
		[(page) => page.locator(".told tbody button.row").first().click()],
		".told table",
		/[+-][\d.]+ [KMG]iB/,
	],
	[
		"who owns the gap",
		leak,
		[tab("Gap"), (page) => page.locator(".gap-table tbody button").first().click()],
		'.gap-table tr[aria-current="true"]',
		/GiB|MiB/,
	],
];
let failed = 0;
for (const [i, [name, html, actions, place, answer]] of tasks.entries()) {
	const page = await browser.newPage({ viewport: { width: 1280, height: 800 }, colorScheme: "light" });
	await page.goto("file://" + html);
	await page.waitForFunction(
		() => document.documentElement.dataset.ready && document.documentElement.dataset.waiting === "0",
	);
	for (const act of actions) {
		await act(page);
		await page.waitForFunction(() => document.documentElement.dataset.waiting === "0");
	}
	await page.evaluate(
		() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))),
	);
	const words = await page
		.locator(place)
		.first()
		.innerText({ timeout: 5000 })
		.catch(() => "");
	const box = await page
		.locator(place)
		.first()
		.boundingBox()
		.catch(() => null);
	const seen = !!box && box.y >= 0 && box.y < 800;
	await page.screenshot({ path: path.join(out, `page-${i + 1}.png`) });
	await page.evaluate(axe);
	const found = await page.evaluate(async () => (await window.axe.run()).violations.map((v) => v.id));
	const ok = seen && answer.test(words.replace(/\s*\n\s*|\t/g, "")) && !found.length;
	if (!ok) {
		failed = 1;
		console.log(words.slice(0, 400), box);
	}
	console.log(
		`${ok ? "ok  " : "FAIL"} ${name}: ${actions.length} actions, axe ${found.length} ${found.join()}`,
	);
	await page.close();
}
await browser.close();
fs.rmSync(folder, { recursive: true });
process.exit(failed);
