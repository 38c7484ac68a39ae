// watch.mjs PLIMSOLL FOLDER: the live page of `plimsoll watch --listen` in a real browser, beside a made tree of files:
// no process, card or clock of this machine is looked at, and everything is waited for.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { createRequire } from "node:module";

const require = createRequire(path.resolve("ui/package.json"));
const { chromium } = require("playwright-core");
const [plimsoll, top] = process.argv.slice(2);
const tree = path.join(top, "watch");
const hostile = "<img src=x onerror=alert(1)>\u202e.py";
const LIMIT = 180000;

function put(name, text) {
	fs.mkdirSync(path.dirname(path.join(tree, name)), { recursive: true });
	fs.writeFileSync(path.join(tree, name), text);
}

put("proc/meminfo", "MemTotal: 1000000 kB\nMemAvailable: 500000 kB\n");
const card = "sys/devices/0000:03:00.0";
put(`${card}/vendor`, "0x1002\n");
put(`${card}/product_name`, "AMD Instinct MI300X\n");
put(`${card}/mem_info_vram_total`, "206141652992\n");
put(`${card}/mem_info_vram_used`, "51539607552\n");
put(`${card}/gpu_busy_percent`, "73\n");
fs.mkdirSync(path.join(tree, "sys/class/drm/card0"), { recursive: true });
fs.symlinkSync(path.join(tree, card), path.join(tree, "sys/class/drm/card0/device"));
for (const pid of [4711, 4712]) {
	const stat = `${pid} (python) R 1 1 1 0 -1 0 0 0 0 0 500 20 0 0 20 0 1 0 12345 1000000 2000 0 0 0 0\n`;
	put(`proc/${pid}/stat`, stat);
	put(`proc/${pid}/task/${pid}/stat`, stat);
	put(`proc/${pid}/cmdline`, `python\0${pid === 4711 ? hostile : "second.py"}\0`);
	fs.mkdirSync(path.join(tree, `proc/${pid}/fd`));
	fs.symlinkSync("/dev/dri/renderD128", path.join(tree, `proc/${pid}/fd/3`));
	put(`proc/${pid}/fdinfo/3`, "drm-pdev: 0000:03:00.0\ndrm-client-id: 1\ndrm-memory-vram: 1024 MiB\n");
}

const token = path.join(top, "token");
fs.writeFileSync(token, "0123456789abcdef\n");
const watch = spawn(plimsoll, ["watch", "--root", tree, "--listen", "0", "--token-file", token], {
	stdio: ["ignore", "ignore", "pipe"],
});
const address = await new Promise((found, failed) => {
	let said = "";
	watch.stderr.on("data", (more) => {
		said += more;
		const url = /http:\/\/127\.0\.0\.1:\d+\//.exec(said);
		if (url) found(url[0]);
	});
	watch.on("exit", () => failed(new Error(`watch ended: ${said}`)));
});

const browser = await chromium.launch({
	executablePath: process.env.CHROMIUM,
	args: ["--no-sandbox"],
});
try {
	const page = await browser.newPage();
	const errors = [];
	page.on("pageerror", (e) => errors.push(String(e)));
	page.on("dialog", (d) => errors.push(`a dialog: ${d.message()}`));
	page.on("console", (m) => {
		if (/Content Security Policy/.test(m.text())) errors.push(m.text());
	});
	const says = (words) =>
		page.waitForFunction((w) => document.body.textContent.includes(w), words, { timeout: LIMIT });

	await page.goto(address, { timeout: LIMIT });
	await says("the token behind the # of the address is missing or wrong");
	await page.goto(`${address}#0123456789abcdef`, { timeout: LIMIT });
	await page.reload({ timeout: LIMIT });
	await says("AMD Instinct MI300X");
	await says("second.py");
	await says("<img src=x onerror=alert(1)>\\u202e.py");
	await says("time with any kernel (busy)"); // amdgpu tells no multiprocessors
	assert.ok(!/^rank$/m.test(await page.locator("body").innerText())); // no job has one
	await page.waitForSelector("path.busy[d^=M]", { state: "attached", timeout: LIMIT });
	await page.click("text=4712", { timeout: LIMIT });
	await page.waitForFunction(() => /4712/.test(document.querySelector("h2")?.textContent ?? ""), null, {
		timeout: LIMIT,
	});
	watch.removeAllListeners("exit");
	watch.kill();
	await says("watch does not answer");
	assert.deepEqual(errors, []);
	console.log("ok   the live page of watch");
} finally {
	await browser.close();
	watch.removeAllListeners("exit");
	watch.kill();
}
