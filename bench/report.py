#!/usr/bin/env python3
"""report.py [SNAPSHOT...]: measure reading next to Python's pickle.load, interleaved in one run; medians and ratios.

PLIMSOLL is the program, MAKE_SNAPSHOT what makes files of several sizes from a recording; snapshots
that are named are measured too, as they are (uncompressed: pickle.load must read them).  Figures are
of this machine in this minute: quote the ratios.
"""
import os
import statistics
import subprocess
import sys
import tempfile
import time

PAIRS = 5
RECORDING = "tests/data/llama_s_ckpt.pickle.xz"
SIZES = [10_000, 100_000, 1_000_000, 2_000_000]
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
LOAD = """
import gc, pickle, sys, time
if sys.argv[2] == "off": gc.disable()
with open(sys.argv[1], "rb") as f:
    t = time.perf_counter(); x = pickle.load(f); print(time.perf_counter() - t)
"""


def plimsoll(path, cpus):
    """Seconds of the whole process, and its peak memory."""
    before = time.perf_counter()
    process = subprocess.Popen([os.environ["PLIMSOLL"], "report", "--json", path], stdout=subprocess.DEVNULL,
                               preexec_fn=lambda: os.sched_setaffinity(0, cpus))
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"plimsoll failed on {path}")
    return time.perf_counter() - before, usage.ru_maxrss * 1024


def load(path, gc):
    return float(subprocess.run([PYTHON, "-c", LOAD, path, gc], capture_output=True, text=True, check=True).stdout)


def measure(name, path, cpus):
    rows = []
    for _ in range(PAIRS):
        # Not counted: the page cache, and the memory that pickle.load gave back, which a virtual
        # machine's host takes away and has to find again (up to a third of our time).
        plimsoll(path, cpus)
        ours, peak = plimsoll(path, cpus[:2])
        one, _ = plimsoll(path, cpus[:1])
        rows.append((ours, one, load(path, "on"), load(path, "off"), peak))
    ours, one, on, off, peak = (statistics.median(r[i] for r in rows) for i in range(5))
    size = os.path.getsize(path)
    print(f"{name:>12} {size / 1e6:>8.1f} {ours:>12.3f} s {one:>7.3f} s {on:>10.3f} s {off:>5.3f} s"
          f" {on / ours:>6.1f} {on / one:>9.1f} {off / ours:>7.1f} {peak / size:>10.2f}", flush=True)


def main():
    cpus = sorted(os.sched_getaffinity(0))
    print("the allocator model on one core, by free blocks in the pool that is searched", flush=True)
    subprocess.run([os.environ["ALLOCATOR_CURVE"]], check=True, preexec_fn=lambda: os.sched_setaffinity(0, cpus[:1]))
    print(f"{'events':>12} {'file MB':>8} {'report --json':>14} {'one core':>9} {'pickle.load':>12} {'gc off':>7}"
          f" {'times':>6} {'one core':>9} {'gc off':>7} {'peak/file':>10}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for events in SIZES:
            path = os.path.join(folder, f"{events}.pickle")
            subprocess.run([os.environ["MAKE_SNAPSHOT"], RECORDING, str(events), path], check=True)
            measure(f"{events:,}", path, cpus)
    for path in sys.argv[1:]:
        measure(os.path.basename(path)[:12], path, cpus)


if __name__ == "__main__":
    main()
