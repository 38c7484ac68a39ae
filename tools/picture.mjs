// picture.mjs PLIMSOLL FILE: the README's picture, which is the page of a shipped recording, zoomed to its end.
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { createRequire } from "node:module";

const { chromium } = createRequire(path.resolve("ui/package.json"))("playwright-core");
const [plimsoll, file] = process.argv.slice(2);
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "picture-"));
const html = path.join(folder, "page.html");
execFileSync(plimsoll, ["report", "samples/died-moe.pickle.xz", "-o", html], { stdio: "ignore" });

const browser = await chromium.launch({
	executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
	args: ["--no-sandbox"],
});
const page = await browser.newPage({ viewport: { width: 1280, height: 900 }, colorScheme: "light" });
await page.goto("file://" + html);
await page.waitForFunction(() => document.documentElement.dataset.ready);
await page.locator("canvas.over").focus();
for (let i = 0; i < 5; i++) await page.keyboard.press("+");
await page.keyboard.press("4");
await page.waitForTimeout(500);
await page.mouse.click(5, 5);
await page.screenshot({ path: file, fullPage: true });
await browser.close();
fs.rmSync(folder, { recursive: true });
