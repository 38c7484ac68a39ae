#!/usr/bin/env bash
# run.sh [PLIMSOLL]: the viewer is what its sources make, and does what a reader expects.  Needs Node 18, npm's registry
# once, and chromium; where one cannot be had it says so and exits 77.
set -u
cd "$(dirname "$0")/../.." || exit 1
plimsoll=${1:-}
PATH=$PATH:/usr/bin:/bin

skip() {
	echo "SKIPPED, the viewer is NOT tested: $1" >&2
	exit 77
}
tools/deps.sh page >&2 || skip "what it needs cannot be installed here"
log=$(mktemp)
work=$(mktemp -d)
trap 'rm -rf "$work" "$log"' EXIT

if ! [ ui/node_modules/.package-lock.json -nt ui/package-lock.json ]; then
	npm ci --prefix ui --no-audit --no-fund >"$log" 2>&1 || {
		cat "$log" >&2
		skip "npm cannot fetch what ui/package-lock.json names"
	}
	touch ui/node_modules/.package-lock.json
fi
failed=0
ui/node_modules/.bin/tsc --noEmit -p ui || failed=1
npm run --prefix ui --silent check-format >"$log" 2>&1 || {
	cat "$log"
	failed=1
}
node ui/build.mjs "$work" || failed=1
for file in viewer.js viewer.css curves.js curves.css watch.js watch.css; do
	cmp "$work/$file" "ui/dist/$file" || {
		echo "ui/dist/$file is not what ui/src makes: run 'make viewer' and commit it"
		failed=1
	}
done
[ $failed = 0 ] && echo "ok   types, format, and ui/dist is what ui/src makes"

chromium=$(command -v "${CHROMIUM:-chromium}")
/usr/bin/python3 tests/ui/pages.py "$work" || exit 1
pages=()
if [ -n "$plimsoll" ]; then
	for recording in samples/died-moe tests/data/leak_rnn; do
		[ -f "$recording.pickle.xz" ] || continue
		page=$work/$(basename "$recording").html
		"$plimsoll" report "$recording.pickle.xz" -o "$page" >/dev/null 2>&1 && pages+=("$page")
	done
	"$plimsoll" report samples/died-moe.pickle.xz tests/data/leak_rnn.pickle.xz -o "$work/ranks.html" >/dev/null 2>&1 &&
		pages+=("$work/ranks.html")
	"$plimsoll" pack tests/data/leak_rnn.pickle.xz -o "$work/leak_rnn.plim" >/dev/null 2>&1
	"$plimsoll" whatif samples/died-moe.pickle.xz --keep expandable_segments:True -o "$work/whatif.html" >/dev/null 2>&1 &&
		pages+=("$work/whatif.html")
	"$plimsoll" diff tests/data/leak_rnn.pickle.xz tests/data/rnn.pickle.xz -o "$work/diff.html" >/dev/null 2>&1 &&
		pages+=("$work/diff.html")
	ckpt=tests/data/checkpoints
	"$plimsoll" ckpt show $ckpt/hf -o "$work/ckpt.html" >/dev/null 2>&1 && pages+=("$work/ckpt.html")
	"$plimsoll" ckpt diff $ckpt/more/train.pt $ckpt/legacy.pt -o "$work/ckpt_diff.html" >/dev/null 2>&1
	[ -f "$work/ckpt_diff.html" ] && pages+=("$work/ckpt_diff.html") # they differ: it exits with 1
	for memory in 700MiB 1536MiB; do # a plan that dies, and one that fits
		page=$work/plan-$memory.html
		"$plimsoll" plan --layers 4 --hidden 512 --heads 8 --vocab 8000 --batch 8 --seq 512 \
			--memory $memory -o "$page" >/dev/null 2>&1 && pages+=("$page")
	done
fi
if [ -n "$plimsoll" ]; then
	node tests/ui/plim.mjs "$work/leak_rnn.plim" || failed=1
	CHROMIUM=$chromium node tests/ui/curves.mjs "$plimsoll" "$work" || failed=1
	CHROMIUM=$chromium node tests/ui/watch.mjs "$plimsoll" "$work" || failed=1
fi
FIREFOX='' CHROMIUM=$chromium node tests/ui/viewer.mjs "$work" "${pages[@]}" || failed=1
# The same in Firefox, as long as that takes; where it cannot be had the page is tested in chromium alone.
if firefox=$(command -v "${FIREFOX:-firefox-esr}") || { tools/deps.sh firefox >&2 && firefox=$(command -v firefox-esr); }; then
	SECONDS=${FIREFOX_SECONDS:-180} FIREFOX=$firefox node tests/ui/viewer.mjs "$work" "${pages[@]}"
	case $? in
	0) ;;
	77) echo "NOT TESTED IN FIREFOX: this one cannot be driven" >&2 ;;
	*) failed=1 ;;
	esac
else
	echo "NOT TESTED IN FIREFOX: it cannot be installed here" >&2
fi
exit $failed
