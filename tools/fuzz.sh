#!/bin/sh
# fuzz.sh FOLDER: run every fuzzer that was built there for FUZZ_SECONDS; new inputs join the corpus.
set -eu
cd "$(dirname "$0")/.."
failed=
fixed=$(tools/same-addresses.sh)
for exe in "$1"/tests/fuzz_*; do
	[ -x "$exe" ] && [ -f "$exe" ] || continue
	name=${exe##*/fuzz_}
	corpus=$1/corpus/$name
	rm -rf "$corpus"
	mkdir -p "$1/found/$name"
	tools/corpus.sh unpack "$name" "$corpus"
	echo "fuzz $name, ${FUZZ_SECONDS:-60} s"
	dict=fuzz/$name.dict
	[ -f "$dict" ] && dict=-dict=$dict || dict=
	# shellcheck disable=SC2086 # a command and its option, or nothing
	$fixed "$exe" $dict -max_total_time="${FUZZ_SECONDS:-60}" -rss_limit_mb=2048 -timeout=20 -print_final_stats=1 \
		-artifact_prefix="$1/found/$name/crash-" "$1/found/$name" "$corpus" \
		>"$1/$name.log" 2>&1 || failed="$failed $name"
	tail -n 8 "$1/$name.log"
	# Only what reaches something new is worth keeping.
	# shellcheck disable=SC2086
	$fixed "$exe" -merge=1 -artifact_prefix="$1/found/$name/crash-" "$corpus" "$1/found/$name" >"$1/$name.merge.log" 2>&1 || failed="$failed $name"
	tools/corpus.sh pack "$name" "$corpus"
done
[ -z "$failed" ] || { echo "fuzz found something:$failed (see $1/found)"; exit 1; }
