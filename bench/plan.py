#!/usr/bin/env python3
"""plan.py: how many configurations are planned a second, and how long what a person waits for takes (medians of five).

PLIMSOLL is the program, PLAN_RATE bench/plan_rate.c.  The peer of a rate is the run before it on the same machine in the same
minute: there is no other program that does it.
"""
import os
import statistics
import subprocess
import sys
import time

MODEL = ["--layers", "24", "--hidden", "1024", "--heads", "16", "--intermediate", "2816", "--vocab", "32000"]
ASKED = {
    "one plan": ["--batch", "8", "--seq", "2048"],
    "a sweep of 100 batches": ["--seq", "1024", "--sweep", "batch=" + ",".join(map(str, range(1, 101)))],
    "the largest batch": ["--seq", "2048", "--memory", "80GiB", "--max-batch"],
    "the ladder": ["--batch", "16", "--seq", "4096", "--memory", "16GiB"],
}


def measure(options):
    before = time.perf_counter()
    if subprocess.run([os.environ["PLIMSOLL"], "plan", "--json", *MODEL, *options], stdout=subprocess.DEVNULL).returncode > 1:
        sys.exit(f"plimsoll plan failed with {options}")
    return time.perf_counter() - before


print("models of 12 and 24 blocks on one core: least, median, most of nine rounds; then what a person waits for, of 24", flush=True)
cpus = sorted(os.sched_getaffinity(0))
subprocess.run([os.environ["PLAN_RATE"]], check=True, preexec_fn=lambda: os.sched_setaffinity(0, cpus[:1]))
for name, options in ASKED.items():
    print(f"{1000 * statistics.median(measure(options) for _ in range(5)):8.0f} ms  {name}", flush=True)
