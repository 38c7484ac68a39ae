#!/bin/sh
# Explain the shipped recordings.  PLIMSOLL is the program.
set -eu
cd "$(dirname "$0")/.."
shown=0
for sample in samples/*.xz; do
	[ -e "$sample" ] || continue
	echo
	echo "\$ plimsoll report $sample"
	"$PLIMSOLL" report "$sample"
	shown=1
done
if [ $shown = 0 ]; then
	"$PLIMSOLL" --help
	exit 0
fi
cat <<END

What to look at: the first lines of each report are the verdict: what bound the run and why it
died or grew.  Below stand the evidence and what to do.  Then try your own:
  $PLIMSOLL record -- python train.py
  $PLIMSOLL report RECORDING
END
