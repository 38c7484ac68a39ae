#!/bin/sh
# viewer.sh [SNAPSHOT...]: how long until their pages can be used, and what zooming costs (bench/viewer.mjs); PLIMSOLL is the
# program.  Needs Node, chromium and ui/node_modules ('make viewer'); says so where one is missing.
set -eu
cd "$(dirname "$0")/.."
for need in node "${CHROMIUM:-chromium}"; do
	command -v "$need" >/dev/null || { echo "bench of the viewer: skipped, there is no $need"; exit 0; }
done
[ -d ui/node_modules ] || { echo "bench of the viewer: skipped, run 'make viewer' first"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for snapshot in samples/died-moe.pickle.xz "$@"; do
	page=$work/$(basename "$snapshot" | sed 's/\.pickle.*//').html
	"$PLIMSOLL" report "$snapshot" -o "$page" >/dev/null 2>&1
done
node bench/viewer.mjs "$work"/*.html
