#!/usr/bin/env python3
"""checkpoints.py [BYTES]: measure ckpt verify next to a plain summing read and zipfile.testzip, interleaved in one run.

PLIMSOLL is the program, SUM_READ the summing read.  A file of 2 GB is made in TMPDIR.  Warm: all of it is in the
page cache; medians.  Cold: it was dropped from the cache before (posix_fadvise; a virtual machine's host may still hold
it); the least of COLD_ROUNDS, as others at the disk only add.  Figures are of this machine in this minute: quote the ratios; where others work on it too, those of the
processors' time.
"""
import os
import statistics
import subprocess
import sys
import tempfile
import time

ROUNDS = 5
COLD_ROUNDS = 7
HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
TESTZIP = "import sys, zipfile; sys.exit(zipfile.ZipFile(sys.argv[1]).testzip() is not None)"


def drop(path):
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def run(command, cpus):
    """Seconds of the whole process, of its processors, and its peak memory."""
    before = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, preexec_fn=lambda: os.sched_setaffinity(0, cpus))
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{command} failed")
    return time.perf_counter() - before, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def programs(path, threads):
    ours = [os.environ["PLIMSOLL"], "ckpt", "verify", "-q", "--threads", str(threads), path]
    yield "summing read", [os.environ["SUM_READ"], path, str(threads)]
    yield "ckpt verify", ours
    yield "ckpt verify --values", ours + ["--values"]
    if threads == 1:
        yield "cat", ["cat", path]
        yield "zipfile.testzip", [PYTHON, "-c", TESTZIP, path]


def measure(path, cpus, cold):
    size = os.path.getsize(path)
    for count in sorted({1, len(cpus)}):
        rows = {}
        for _ in range(COLD_ROUNDS if cold else ROUNDS):
            for name, command in programs(path, count):
                if cold:
                    drop(path)
                rows.setdefault(name, []).append(run(command, cpus[:count]))
        typical = min if cold else statistics.median
        middle = {name: [typical([r[i] for r in got]) for i in range(3)] for name, got in rows.items()}
        base, base_cpu, _ = middle["summing read"]
        for name, (wall, cpu, peak) in middle.items():
            print(f"{'cold' if cold else 'warm':>5} {count:>6} {name:<21} {wall:>7.3f} s {size / wall / 1e9:>6.2f} GB/s"
                  f" {base / wall:>6.2f} {cpu:>7.3f} s {base_cpu / cpu:>6.2f} {peak / 1e6:>7.1f} MB", flush=True)


def main():
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 2 << 30
    cpus = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "big.pt")
        subprocess.run([PYTHON, os.path.join(HERE, "make_checkpoint.py"), path, str(size)], check=True)
        print(f"a checkpoint of {os.path.getsize(path) / 1e9:.2f} GB")
        print(f"cache  cores {'':21} {'time':>9} {'':>11} {'of read':>7} {'cpu':>8} {'of read':>7} {'memory':>9}")
        run([os.environ["SUM_READ"], path, "1"], cpus)
        measure(path, cpus, cold=False)
        measure(path, cpus, cold=True)


if __name__ == "__main__":
    main()
