#!/usr/bin/env python3
"""curves.py: 10 million values as a TensorBoard event file, CSV, JSON lines and plain text, read by `plimsoll curves --json`; medians of the
whole process on two cores and on one, its peak memory, and next to them, in the same run, TensorBoard's own reader of the same file
(EventFileLoader, its fastest: values are decoded and nothing is kept) where PYTHON_LOGS, or build/venv, has tensorboard.

PLIMSOLL is the program, MAKE_EVENTS makes the file.  Figures are of this machine in this minute: quote the ratios.
"""
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time

VALUES = 10_000_000
PEER_VALUES = 500_000  # it takes a minute for ten million
ROUNDS = 3
PEER = """
import sys, time
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
t = time.perf_counter(); n = 0
for event in EventFileLoader(sys.argv[1]).Load():
    for value in event.summary.value:
        n += 1
print(time.perf_counter() - t, n)
"""


def measure(path, cpus):
    """Seconds of the whole process, of its processors, and its peak memory."""
    before = time.perf_counter()
    process = subprocess.Popen([os.environ["PLIMSOLL"], "curves", "--json", path], stdout=subprocess.DEVNULL,
                               preexec_fn=lambda: os.sched_setaffinity(0, cpus))
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"plimsoll failed on {path}")
    return time.perf_counter() - before, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def rows():
    for i in range(VALUES // 5):
        loss = 3 * (1 + i / 1000) ** -0.2
        yield i, loss * (1 + (i * 7919 % 1000 - 500) / 5000), 1 + (i * 104729 % 1000) / 1000, 1e-4, 40 + i * 31 % 7 / 10, i * 4096


def write(folder):
    names = ("loss", "grad_norm", "lr", "memory_gb", "tokens")
    paths = [os.path.join(folder, name) for name in ("log.csv", "log.jsonl", "train.log")]
    csv, jsonl, text = (open(path, "w", encoding="ascii") for path in paths)
    csv.write("step," + ",".join(names) + "\n")
    for step, *values in rows():
        csv.write(f"{step},{values[0]:.6g},{values[1]:.4g},{values[2]:.4g},{values[3]:.4g},{values[4]}\n")
        jsonl.write('{"step": %d, ' % step + ", ".join(f'"{n}": {v:.6g}' for n, v in zip(names, values)) + "}\n")
        text.write(f"step {step} | " + " | ".join(f"{n} {v:.6g}" for n, v in zip(names, values)) + "\n")
    for f in (csv, jsonl, text):
        f.close()
    return paths


def first_values(path, n):
    """The head of an event file that holds n values: a record is u64 length, u32, data, u32."""
    out = path + ".head"
    with open(path, "rb") as f, open(out, "wb") as to:
        for _ in range(n):
            length = f.read(8)
            to.write(length + f.read(struct.unpack("<Q", length)[0] + 8))
    return out


def main():
    cpus = sorted(os.sched_getaffinity(0))
    print(f"{'format':>12} {'MB':>7} {'two cores':>10} {'one core':>9} {'processor':>10} {'peak MiB':>9}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        events = os.path.join(folder, "events.out.tfevents.1.bench")
        subprocess.run([os.environ["MAKE_EVENTS"], events, str(VALUES)], check=True)
        for path in (events, *write(folder)):
            measure(path, cpus)  # not counted: the page cache
            runs = [(measure(path, cpus[:2]), measure(path, cpus[:1])) for _ in range(ROUNDS)]
            two, used, peak = (statistics.median(r[0][i] for r in runs) for i in range(3))
            one = statistics.median(r[1][0] for r in runs)
            name = {"events.out.tfevents.1.bench": "TensorBoard", "log.csv": "CSV", "log.jsonl": "JSON lines"}.get(
                os.path.basename(path), "text")
            print(f"{name:>12} {os.path.getsize(path) / 1e6:>7.0f} {two:>8.2f} s {one:>7.2f} s {used:>8.2f} s {peak / 2**20:>9.1f}", flush=True)
        python = os.environ.get("PYTHON_LOGS", "build/venv/bin/python")
        if not os.access(python, os.X_OK) or subprocess.run([python, "-c", "import tensorboard"], capture_output=True, check=False).returncode:
            print("TensorBoard's own reader: not measured, PYTHON_LOGS names no Python that has it")
            return
        head = first_values(events, PEER_VALUES)
        ours = statistics.median(measure(head, cpus[:2])[0] for _ in range(ROUNDS))
        said = subprocess.run([python, "-c", PEER, head], capture_output=True, text=True, check=True).stdout.split()
        theirs = float(said[0])
        print(f"TensorBoard's EventFileLoader, {PEER_VALUES:,} values: {theirs:.2f} s, ours {ours:.3f} s: {theirs / ours:.0f} times")


if __name__ == "__main__":
    main()
