#!/bin/sh
# TaskEpilog of slurm.conf: ends what slurm_task_prolog.sh began and writes next to its log what held the job back and what it may die of.
[ "${SLURM_LOCALID:-0}" = 0 ] || exit 0
log=${PLIMSOLL_WATCH_DIR:-${SLURM_SUBMIT_DIR:-.}}/plimsoll-${SLURM_JOB_ID:-0}.${SLURM_STEP_ID:-0}-$(uname -n).jsonl
[ -f "$log.pid" ] || exit 0
read -r pid <"$log.pid"
rm -f "$log.pid"
kill "$pid" 2>/dev/null
plimsoll watch --replay "$log" --fail-on input,idle,stalled,throttled,fills-up >"${log%.jsonl}.txt" 2>&1
case $? in
0) rm -f "$log" ;;                                                          # nothing to say: the text alone is kept
1) echo "plimsoll: something held this job back: ${log%.jsonl}.txt" >&2 ;;
esac
exit 0
