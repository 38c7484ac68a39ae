#!/bin/sh
# replay_all.sh FAKECUDA REPLAY DATA: each recording of DATA through the hooks, as recorded, perturbed, and perturbed in three threads.
export PLIMSOLL_CUDA_LIBRARY="$1"
bad=0
for f in "$3"/*.pickle.xz; do
	for seed in "" 3 "7 3"; do
		# shellcheck disable=SC2086  # two arguments
		timeout 120 "$2" "$f" $seed || {
			echo "FAIL $f $seed"
			bad=1
		}
	done
done
exit $bad
