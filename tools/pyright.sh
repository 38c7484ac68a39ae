#!/bin/sh
# pyright.sh PYTHON: the second checker of the package's types, of one release, by npm; exit 77, loudly, where it cannot be had.
# PYTHON is an interpreter with PyTorch in it.
set -eu
cd "$(dirname "$0")/.."
release=1.1.414
folder=$PWD/build/pyright
if [ "$(cat "$folder/.ready" 2>/dev/null)" != "$release" ]; then
	rm -rf "$folder"
	mkdir -p "$folder"
	npm install --prefix "$folder" --no-fund --no-audit "pyright@$release" >"$folder.log" 2>&1 || {
		echo "SKIPPED: pyright cannot be had by npm, see $folder.log" >&2
		exit 77
	}
	echo "$release" >"$folder/.ready"
fi
exec "$folder/node_modules/.bin/pyright" --pythonpath "$1" python/plimsoll
