#!/usr/bin/env python3
"""why.py [GIGABYTES]: how fast logs are read, and in how much memory, next to cat and grep; medians of five.

Three logs are made on the spot: `false alarms` has lines of a training run, of NCCL and of warnings that hold the words that
are searched for, and one death at its end; `healthy` has none of the warnings and no death, and `everyday` the lines of
trainers and servers whose words tell what a program does.  Both have a tenth of the size.  PLIMSOLL is the program.
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
EVERYDAY = [
    "{{'loss': {l:.4f}, 'grad_norm': {l:.3f}, 'learning_rate': 4.98e-05, 'epoch': {e:.2f}}}\n",
    "\r 45%|####5     | {i}/20000 [12:34<15:12,  1.{m:02d}it/s]\n",
    "Epoch {m}:  45%|####5     | {i}/20000 [12:34<15:12,  1.{m:02d}it/s, v_num=3, train_loss={l:.3f}]\n",
    "INFO 11-20 03:{m:02d}:12 [loggers.py:111] Engine 000: Avg prompt throughput: {i}.1 tokens/s, Running: 3 reqs, "
    "GPU KV cache usage: 12.3%, Prefix cache hit rate: 0.0%\n",
    " [2026-11-20 03:{m:02d}:12] iteration {i}/ 500000 | elapsed time per iteration (ms): 512.{m:02d} | learning rate: 1.5E-04 | "
    "global batch size: 512 | lm loss: {l:.6f} | grad norm: 0.312 |\n",
    "[rank{r}]: step {i} memory allocated 31.2 GiB, batch size 4, lr 0.0003\n",
]
DEATH = ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of 79.18 GiB "
         "of which 300.00 MiB is free.\n")
# the kinds of lines in turn, what stands at the end, and the part of the size
LOGS = {"false alarms": ([LINES[0]] * 6 + [LINES[1]] * 3 + [LINES[2]], DEATH, 1),
        "healthy": ([LINES[0]] * 6 + [LINES[1]] * 4, "", 10),
        "everyday": (EVERYDAY, "", 10)}


def make(path, lines, end, size):
    block = "".join(lines[i % len(lines)].format(i=i, m=i % 60, r=i % 8, l=1 / (i + 1), e=i / 1e4)
                    for i in range(50_000)).encode()
    with open(path, "wb") as f:
        for _ in range(size // len(block) + 1):
            f.write(block)
        f.write(end.encode())


def highest(pid):
    """MiB; that of wait4 would hold this script's own, from before the exec."""
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return sum(int(line.split()[1]) for line in f if line.startswith("VmHWM")) / 1024


def measure(command):
    before, peak, done = time.perf_counter(), 0.0, 0
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while not done:
        time.sleep(0.005)
        peak = max(peak, highest(process.pid))
        done, status, usage = os.wait4(process.pid, os.WNOHANG)
    if os.waitstatus_to_exitcode(status) > (command[0] == "grep"):  # which found nothing
        sys.exit(f"{command[0]} failed")
    return time.perf_counter() - before, usage.ru_utime + usage.ru_stime, peak


def compare(path, name):
    commands = {"plimsoll why": [os.environ["PLIMSOLL"], "why", path], "cat": ["cat", path],
                "grep -F (1 word)": ["grep", "-F", "OutOfMemoryError", path],
                "grep -ciE (3 words)": ["grep", "-ciE", "out of memory|oom-kill|exit code 137", path]}
    rows = {name: [] for name in commands}
    for _ in range(6):
        for which, command in commands.items():
            rows[which].append(measure(command))
    size = os.path.getsize(path) / 1e6
    print(f"{name}, a log of {size:.0f} MB: seconds, of the processor, MB/s of those, MiB of memory")
    for which, times in rows.items():
        wall, cpu, peak = (statistics.median(t[i] for t in times[1:]) for i in range(3))
        print(f"{which:>20} {wall:8.2f} {cpu:8.3f} {size / max(cpu, 0.001):8.0f} {peak:8.1f}")


with tempfile.TemporaryDirectory() as top:
    for kind, (given, last, part) in LOGS.items():
        log = os.path.join(top, "train.log")
        make(log, given, last, int(float(sys.argv[1] if len(sys.argv) > 1 else 1) * 1e9 / part))
        compare(log, kind)
