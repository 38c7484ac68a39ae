#!/usr/bin/env python3
"""ranks.py PLIMSOLL DATA [RANKS]: a job of 1,000 ranks, made on the spot.

Every recording is read whichever way it lies there, memory does not grow with their number (beyond a row for
each), and a job that is stopped by Ctrl-C leaves nothing behind.
"""
import bz2
import gzip
import json
import lzma
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile

import lib

lib.start(sys.argv[1])
data = sys.argv[2]
RANKS = int(sys.argv[3]) if len(sys.argv) > 3 else 1000
FIRST = 417  # dies 40 ms before the others, of which each tenth asked for something else
ROW_BYTES = 4096
SANITISED = "SAN_OPTIONS" in " ".join(os.environ)


def write(path, late_us):
    snapshot = lib.load(os.path.join(data, "oom_batch.pickle.xz"))
    for event in snapshot["device_traces"][0]:
        event["time_us"] += late_us
    with open(path, "wb") as f:
        pickle.dump(snapshot, f, protocol=4)


def make_job(folder, n):
    """Links to two files: what they cost is in the reading, not on the disk."""
    os.mkdir(folder)
    write(os.path.join(folder, "rank0.pickle"), 40_000)
    for rank in range(1, n):
        if rank == FIRST:
            write(os.path.join(folder, f"rank{rank}.pickle"), 0)
        else:
            os.link(os.path.join(folder, "rank0.pickle"), os.path.join(folder, f"rank{rank}.pickle"))


def resident(pid):
    """The most that was resident so far; 0 when the process has ended.  (wait4 would count Python's own, from before exec.)"""
    try:
        with open(f"/proc/{pid}/status") as f:
            return max([int(line.split()[1]) * 1024 for line in f if line.startswith("VmHWM:")], default=0)
    except OSError:
        return 0


def read(*args):
    """The report's JSON, the seconds it took, its peak of resident bytes."""
    with tempfile.TemporaryFile() as out:
        before = time.perf_counter()
        process = subprocess.Popen([lib.program, "report", "--json", *args], stdout=out)
        peak = 0
        while process.poll() is None:
            peak = max(peak, resident(process.pid))
            time.sleep(0.002)
        seconds = time.perf_counter() - before
        assert process.returncode == 0, args
        out.seek(0)
        return json.load(out), seconds, peak


def check(report, n, how):
    assert report["read"] == n and not report["failed"], how
    assert [row["rank"] for row in report["rows"]] == list(range(n)), how
    peaks = {row["allocated_peak_bytes"] for row in report["rows"]}
    assert len(peaks) == 1, (how, peaks)
    if n > FIRST:
        assert report["first_death"]["rank"] == report["worst_rank"] == FIRST, how
        assert report["first_death"]["ahead_us"] == 40_000, how


def check_interrupt(folder):
    """SIGINT while it reads: it ends by it, soon, and its folder is as it was."""
    with tempfile.TemporaryDirectory() as scratch:
        process = subprocess.Popen([lib.program, "report", folder], cwd=scratch, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, env=dict(os.environ, TMPDIR=scratch))
        time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=600) in (-signal.SIGINT, 0)
        assert not os.listdir(scratch), os.listdir(scratch)


def check_strangers(folder):
    """Files of every compression that are not recordings, alone and next to one: they are skipped or not read, and nothing dies."""
    for name, content in (("a.gz", gzip.compress(b"text" * 99)), ("a.bz2", bz2.compress(b"text" * 99)), ("a.xz", lzma.compress(b"text" * 99)),
                       ("a.lzma", lzma.compress(b"text" * 99, format=lzma.FORMAT_ALONE)), ("plain", b"text" * 99)):
        with open(os.path.join(folder, name), "wb") as out:
            out.write(content)
    for name, method in (("state.pt", zipfile.ZIP_STORED), ("arrays.npz", zipfile.ZIP_DEFLATED)):
        with zipfile.ZipFile(os.path.join(folder, name), "w", method) as z:
            z.writestr("archive/data.pkl", b"\x80\x02}q\x00.")
    assert lib.run("report", folder, codes=(3,)).returncode == 3
    shutil.copy(os.path.join(data, "oom_batch.pickle.xz"), folder)
    assert "1 died" in lib.run("report", folder, codes=(0, 3)).stdout


with tempfile.TemporaryDirectory() as top:
    strangers = os.path.join(top, "strangers")
    os.mkdir(strangers)
    check_strangers(strangers)
    small, large, tar = (os.path.join(top, name) for name in ("small", "large", "large.tar"))
    make_job(small, RANKS // 10)
    make_job(large, RANKS)
    subprocess.run(["tar", "--hard-dereference", "-cf", tar, "-C", top, "large"], check=True)
    few, _, few_bytes = read(small)
    check(few, RANKS // 10, "few")
    for how, args in (("folder", (large,)), ("one thread", (large, "--threads", "1")), ("tar", (tar,)),
                      ("little memory", (large, "--max-memory", "32MiB"))):
        report, seconds, peak = read(*args)
        check(report, RANKS, how)
        print(f"{how}: {RANKS} recordings in {seconds:.2f} s, {peak / 2**20:.1f} MiB resident "
              f"({RANKS // 10}: {few_bytes / 2**20:.1f})")
        assert SANITISED or peak - few_bytes < RANKS * ROW_BYTES, (how, peak, few_bytes)
    check_interrupt(large)
