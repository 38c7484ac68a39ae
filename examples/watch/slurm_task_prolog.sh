#!/bin/sh
# TaskProlog of slurm.conf: begins to watch on each node of a step, as the job's user and within its cgroup.  What it prints would be
# read by Slurm ("export NAME=value"), so it prints nothing.  slurm_task_epilog.sh says what was seen.
[ "${SLURM_LOCALID:-0}" = 0 ] || exit 0
command -v plimsoll >/dev/null || exit 0
log=${PLIMSOLL_WATCH_DIR:-${SLURM_SUBMIT_DIR:-.}}/plimsoll-${SLURM_JOB_ID:-0}.${SLURM_STEP_ID:-0}-$(uname -n).jsonl
plimsoll watch --here --interval 5 --log "$log" </dev/null >/dev/null 2>&1 &
echo "$!" >"$log.pid"
