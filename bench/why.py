#!/usr/bin/env python3
"""why.py [GIGABYTES]: how fast a log is read, and in how much memory, next to cat and grep; medians of three.

The log is made on the spot: lines of a training run, of NCCL and of warnings that hold the words that are searched
for, and one death at its end.  PLIMSOLL is the program.
"""
import os
import statistics
import subprocess
import sys
import tempfile
import time

LINES = [
    "2026-11-20 03:{m:02d}:12,345 INFO trainer step {i} loss {l:.4f} lr 3.0e-04 tokens/s {i} mem 71.2/79.2GiB GPU 0\n",
    "[rank{r}]: 2026-11-20 03:11:12.345678 DEBUG NCCL INFO Channel {m:02d}/0 : {r}[0] -> 1[0] via P2P/CUMEM/read\n",
    "  warnings.warn('out of the {i} files read, 5 out of 10 were cached; memory use is fine')\n",
]
DEATH = ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of 79.18 GiB "
         "of which 300.00 MiB is free.\n")


def make(path, size):
    block = "".join(LINES[0 if i % 10 < 6 else 1 if i % 10 < 9 else 2].format(i=i, m=i % 60, r=i % 8, l=1 / (i + 1))
                    for i in range(50_000)).encode()
    with open(path, "wb") as f:
        for _ in range(size // len(block) + 1):
            f.write(block)
        f.write(DEATH.encode())


def highest(pid):
    """MiB; that of wait4 would hold this script's own, from before the exec."""
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return sum(int(line.split()[1]) for line in f if line.startswith("VmHWM")) / 1024


def measure(command):
    before, peak, done = time.perf_counter(), 0.0, 0
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while not done:
        time.sleep(0.02)
        peak = max(peak, highest(process.pid))
        done, status, usage = os.wait4(process.pid, os.WNOHANG)
    if os.waitstatus_to_exitcode(status):
        sys.exit(f"{command[0]} failed")
    return time.perf_counter() - before, usage.ru_utime + usage.ru_stime, peak


with tempfile.TemporaryDirectory() as top:
    log = os.path.join(top, "train.log")
    make(log, int(float(sys.argv[1] if len(sys.argv) > 1 else 1) * 1e9))
    commands = {"plimsoll why": [os.environ["PLIMSOLL"], "why", log], "cat": ["cat", log],
                "grep -ciE (3 words)": ["grep", "-ciE", "out of memory|oom-kill|exit code 137", log]}
    rows = {name: [] for name in commands}
    for _ in range(4):
        for name, command in commands.items():
            rows[name].append(measure(command))
    print(f"a log of {os.path.getsize(log) / 1e6:.0f} MB: seconds, of the processor, MB/s of those, MiB of memory")
    for name, times in rows.items():
        wall, cpu, peak = (statistics.median(t[i] for t in times[1:]) for i in range(3))
        print(f"{name:>20} {wall:8.2f} {cpu:8.2f} {os.path.getsize(log) / 1e6 / max(cpu, 0.01):8.0f} {peak:8.1f}")
