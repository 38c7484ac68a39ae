// plim.mjs FILE.plim: the viewer's reader of packed recordings says of damaged ones what is wrong, and nothing worse:
// of files whose sums tell it, and of content that was changed beneath them.
import assert from "node:assert/strict";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { createRequire } from "node:module";

const { build } = createRequire(path.resolve("ui/package.json"))("esbuild");
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "plim-"));
const outfile = path.join(folder, "plim.mjs");
const contents = 'export * from "./plim"; export { recorded } from "./recorded";';
await build({
	stdin: { contents, resolveDir: path.resolve("ui/src"), loader: "ts" },
	bundle: true,
	format: "esm",
	outfile,
});
globalThis.addEventListener = () => undefined; // modules that draw listen to the window
const { Damaged, Part, read_plim, recorded, unpacked } = await import(outfile);
fs.rmSync(folder, { recursive: true });

const file = new Uint8Array(fs.readFileSync(process.argv[2]));
let seed = 44;
const random = (n) => {
	seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
	return Math.floor((seed / 2 ** 32) * n);
};
const changed = (bytes) => {
	const out = bytes.slice();
	for (let k = 1 + random(3); k > 0; k--) out[random(out.length)] = random(256);
	return out;
};
const damaged = async (act) => {
	try {
		await act();
		return false;
	} catch (why) {
		assert.ok(why instanceof Damaged, why.stack);
		assert.ok(!why.message.includes("\n"));
		return true;
	}
};
const whole = await read_plim(file, async () => undefined);
assert.ok(recorded(whole, "whole.plim", 0).length);
for (let n = 0; n < file.length; n += 97)
	assert.ok(await damaged(() => read_plim(file.subarray(0, n), async () => undefined)), `cut at ${n}`);
for (let k = 0; k < 200; k++) {
	const bytes = file.slice();
	bytes[16 + random(bytes.length - 16)] ^= 1 << random(8);
	assert.ok(await damaged(() => read_plim(bytes, async () => undefined)), "a bit");
}
// The first chunk: its kind, its two lengths, its frame.
let at = 17;
const varint = () => {
	let value = 0;
	for (let times = 1; ; times *= 128) {
		const byte = file[at++];
		value += (byte & 127) * times;
		if (byte < 128) return value;
	}
};
const [packed, plain] = [varint(), varint()];
const content = unpacked(file.subarray(at, at + packed), plain);
let bad = 0;
for (let k = 0; k < 1500; k++)
	bad += await damaged(() => recorded([new Part(changed(content))], "changed.plim", 0));
assert.ok(bad > 300, `${bad} of 1500 were noticed`);
console.log(
	`ok   packed recordings: cut, with wrong bits, and 1500 with other content (${bad} of them say what is wrong)`,
);
