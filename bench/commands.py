#!/usr/bin/env python3
"""commands.py [NAME...]: what each command costs that has no bench of its own; medians of three, of the whole process.

PLIMSOLL is the program, MAKE_SNAPSHOT makes recordings of EVENTS events (1,000,000; a smaller number tries the script).
Figures are of this machine in this minute: compare them with others of the same run, or processor time with processor time.
"""
import glob
import os
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time

ROUNDS = 3
RANKS = 64
RECORDING = "tests/data/llama_s_ckpt.pickle.xz"
WATCHED = "tests/data/watch/input_cpu_run1.jsonl.xz"
EVENTS = int(os.environ.get("EVENTS", 1_000_000))


def snapshot(folder, events, name):
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        subprocess.run([os.environ["MAKE_SNAPSHOT"], RECORDING, str(events), path], check=True)
    return path


def one(folder):
    return [snapshot(folder, EVENTS, "run.pickle")], EVENTS, "events"


def two(folder):
    other = snapshot(folder, EVENTS * 9 // 10, "other.pickle")
    return [*one(folder)[0], other], EVENTS * 19 // 10, "events"


def some(folder):
    return [snapshot(folder, EVENTS // 10, "short.pickle")], EVENTS // 10, "events"


def job(folder):
    """As many ranks as a large job has, all alike: links, so that the page cache holds them."""
    first, ranks = snapshot(folder, EVENTS // 10, "short.pickle"), os.path.join(folder, "job")
    os.makedirs(ranks, exist_ok=True)
    for rank in range(RANKS):
        path = os.path.join(ranks, f"rank{rank}.pickle")
        if not os.path.exists(path):
            os.link(first, path)
    return [ranks], RANKS * (EVENTS // 10), "events"


def library(_):
    files = glob.glob(os.path.join(sysconfig.get_path("stdlib"), "*.py"))
    lines = 0
    for path in files:
        with open(path, "rb") as f:
            lines += sum(1 for _ in f)
    return files, lines, "lines"


def nothing(_):
    return [], 0, ""


# name: what is run before its inputs, the inputs, what is run after them
ROWS = {
    "diff": (["diff"], two, []),
    "report of ranks": (["report"], job, []),
    "whatif": (["whatif"], some, []),
    "whatif --plan": (["whatif"], some, ["--plan"]),
    "whatif --smallest": (["whatif"], some, ["--smallest"]),
    "report -o run.pickle": (["report"], one, ["-o", "{}/copy.pickle"]),
    "lint": (["lint", "--fail-on", "never"], library, []),
    "watch --replay": (["watch", "--replay", WATCHED], nothing, []),
    "why --here": (["why", "--here"], nothing, []),
    "doctor": (["doctor", "--no-python"], nothing, []),
}


def highest(pid):
    """MiB so far; that of wait4 would hold this script's own, from before the exec."""
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return sum(int(line.split()[1]) for line in f if line.startswith("VmHWM")) / 1024


def measure(command):
    """Seconds by the clock, of processor time, and MiB."""
    before, peak, done = time.perf_counter(), 0.0, 0
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen([os.environ["PLIMSOLL"], *command], stdout=subprocess.DEVNULL, stderr=said)
        while not done:
            time.sleep(0.002)
            peak = max(peak, highest(process.pid))
            done, status, usage = os.wait4(process.pid, os.WNOHANG)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in (0, 1):
            said.seek(0)
            sys.exit(f"plimsoll {' '.join(command)[:200]}: {said.read().decode()[-300:]}")
    return time.perf_counter() - before, usage.ru_utime + usage.ru_stime, peak


def main():
    wanted = sys.argv[1:] or list(ROWS)
    if unknown := set(wanted) - set(ROWS):
        sys.exit(f"{', '.join(unknown)}: not one of {', '.join(ROWS)}")
    print(f"{'':>22} {'seconds':>8} {'of processors':>14} {'a second of those':>24} {'MiB':>8}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in wanted:
            before, inputs, after = ROWS[name]
            paths, n, what = inputs(folder)
            command = [*before, *paths, *(word.format(folder) for word in after)]
            measure(command)
            clock, processors, memory = (statistics.median(column) for column in zip(*(measure(command) for _ in range(ROUNDS))))
            rate = f"{n / processors:,.0f} {what}" if n else ""
            print(f"{name:>22} {clock:>8.3f} {processors:>14.3f} {rate:>24} {memory:>8.1f}", flush=True)


main()
