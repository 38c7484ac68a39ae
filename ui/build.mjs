// Builds the viewers, dist/{viewer,curves,watch}.{js,css}.  `node build.mjs FOLDER` writes them there instead.
import { build } from "esbuild";
import { fileURLToPath } from "node:url";
import path from "node:path";

const here = path.dirname(fileURLToPath(import.meta.url));
await build({
	absWorkingDir: here,
	entryPoints: { viewer: "src/main.ts", curves: "src/curves/main.ts", watch: "src/watch/main.ts" },
	outdir: process.argv[2] ?? "dist",
	bundle: true,
	minify: true,
	format: "iife",
	target: ["es2022", "chrome103", "firefox113", "safari16.4"],
	charset: "ascii",
	legalComments: "none",
	logLevel: "warning",
});
