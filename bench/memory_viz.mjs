// memory_viz.mjs VIZ D3 FOLDER: the tasks of page_tasks.mjs in PyTorch's own viewer, on the same recordings, as far as it
// can do them: how many actions each takes, what is on the screen then, and a picture of it.  VIZ is a folder with its
// MemoryViz.js and what that imports from its folder, D3 a folder where npm has installed the d3 that it names.
// Exits 1 if a screen does not show what docs/evidence/page.md says of it.
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { createRequire } from "node:module";

const require = createRequire(path.resolve("ui/package.json"));
const { chromium } = require("playwright-core");
const [viz, d3, out] = process.argv.slice(2);
const SITE = "https://viewer.test/";
const stdin = { contents: 'export * from "d3"', resolveDir: path.resolve(d3) };
const made = await require("esbuild").build({ stdin, bundle: true, format: "esm", write: false });
const d3_module = made.outputFiles[0].text;

// As torch.cuda._memory_viz writes its page, with the recording in it.
const html = `<!DOCTYPE html><body><script type="module">
import {add_remote_files} from "${SITE}MemoryViz.js"
add_remote_files([{name: "snapshot.pickle", url: "${SITE}recording"}])
</script></body>`;

async function open(page, file) {
	const recording = execFileSync("xz", ["-dc", file], { maxBuffer: 2 ** 30 });
	const script = (body) => ({
		body,
		contentType: "text/javascript",
		headers: { "access-control-allow-origin": "*" },
	});
	await page.route("**/*", (route) => {
		const url = route.request().url();
		const name = url.startsWith(SITE) ? url.slice(SITE.length) : null;
		if (name === "") return route.fulfill({ contentType: "text/html", body: html });
		if (name === "recording") return route.fulfill({ body: recording });
		if (name?.endsWith(".js")) return route.fulfill(script(fs.readFileSync(path.join(viz, name))));
		return url.includes("/d3") ? route.fulfill(script(d3_module)) : route.abort();
	});
	await page.goto(SITE);
	await page.waitForFunction(() => document.querySelector("svg polygon"), null, { timeout: 120000 });
}

const view = (name) => async (page) => {
	await page.locator("select").nth(1).selectOption(name);
	await page.waitForFunction(
		() => [...document.querySelectorAll("pre")].some((p) => /allocated \//.test(p.textContent)),
		null,
		{ timeout: 120000 },
	);
};

// Drawn in the small picture, a part of it in which the peak is: the large picture shows that part.
const drag_over_the_peak = async (page) => {
	const box = await page.locator("svg").nth(1).boundingBox();
	const x = await page.evaluate(() => {
		const points = [...document.querySelectorAll("svg")[1].querySelector("polygon").points];
		return points.reduce((top, p) => (p.y < top.y ? p : top)).x / 1024;
	});
	const y = box.y + box.height / 2;
	await page.mouse.move(box.x + (x - 0.004) * box.width, y);
	await page.mouse.down();
	await page.mouse.move(box.x + (x + 0.004) * box.width, y, { steps: 8 });
	await page.mouse.up();
};

// The band at the highest point of the large picture.
const over_the_peak = async (page) => {
	const at = await page.evaluate(() => {
		const { left, right, top, bottom } = document.querySelector("svg").getBoundingClientRect();
		const is_band = (x, y) => document.elementFromPoint(x, y)?.tagName === "polygon";
		for (let y = top + 1; y < bottom; y++)
			for (let x = left + 90; x < right; x++) if (is_band(x, y)) return { x, y: y + 8 };
	});
	await page.mouse.move(at.x, at.y);
};

// Of the highest step but the last, one of the bands that end with it.
const press_a_band = async (page) => {
	const box = await page.locator("svg").first().boundingBox();
	await page.mouse.click(box.x + 0.453 * box.width, box.y + 0.79 * box.height);
};

// The largest segment whose middle is free.
const over_a_segment = async (page) => {
	const at = await page.evaluate(() => {
		let best = { area: 0 };
		for (const shape of document.querySelectorAll("svg rect[fill=white]")) {
			const { left, top, width, height } = shape.getBoundingClientRect();
			const [x, y, area] = [left + width / 2, top + height / 2, width * height];
			if (area > best.area && document.elementFromPoint(x, y) === shape) best = { area, x, y };
		}
		return best;
	});
	await page.mouse.move(at.x, at.y);
};

// The browser's own search, for there is no other in that view: words, or the block that was pressed.
let sought = "";
const search_again = async (page) => {
	const found = await page.evaluate((words) => {
		const there = window.find(words);
		if (there) getSelection().anchorNode.parentElement.scrollIntoView({ block: "center" });
		return there;
	}, sought);
	if (!found) throw new Error(`${sought} is not on the page`);
};
const search = (words) => async (page) => {
	const told = await page.locator("pre").first().textContent();
	sought = words ?? /Addr: (\S+),/.exec(told)[1];
	await search_again(page);
};

const died = "samples/died-moe.pickle.xz";
const leak = "tests/data/leak_rnn.pickle.xz";
const history = view("Allocator State History");
// Numbered as on the page of evidence.  It has no way to compare two recordings.
const tasks = [
	[1, "most at the peak", died, [drag_over_the_peak, over_the_peak], () => /Addr: .*MiB.*\.py:\d+:/s],
	[2, "before the death", died, [history, search("OOM")], () => /^OOM \(requested/m],
	[
		3,
		"this block's history",
		died,
		[press_a_band, history, search(), search_again],
		() => new RegExp(`^free +${sought}`, "m"),
	],
	[5, "who owns the gap", leak, [history, over_a_segment], () => /segment .*MiB.* free/],
];

const browser = await chromium.launch({
	executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
	args: ["--no-sandbox"],
});
let failed = 0;
for (const [number, name, file, actions, answer] of tasks) {
	const page = await browser.newPage({ viewport: { width: 1280, height: 800 }, colorScheme: "light" });
	await open(page, file);
	for (const act of actions) await act(page);
	await page.waitForTimeout(300);
	// What a reader sees of the texts.
	const seen = await page.evaluate(() =>
		[...document.querySelectorAll("pre")]
			.filter((p) => {
				const { top, height } = p.getBoundingClientRect();
				return height && top >= 0 && top < innerHeight && p.checkVisibility();
			})
			.map((p) => p.textContent)
			.join("\n"),
	);
	await page.screenshot({ path: path.join(out, `memory_viz-${number}.png`) });
	const ok = answer().test(seen);
	if (!ok) failed = 1;
	console.log(`${ok ? "ok  " : "FAIL"} ${name}: ${actions.length} actions`);
	if (!ok || process.env.TELL) console.log(seen.slice(0, 1500));
	await page.close();
}
await browser.close();
process.exit(failed);
