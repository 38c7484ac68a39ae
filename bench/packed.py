#!/usr/bin/env python3
"""packed.py [RECORDING...]: packing next to its peers, and a job's digests; processor seconds, median of 5.

PLIMSOLL is the program; MAKE_SNAPSHOT makes a recording where none is given.
"""
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile

PLIMSOLL = os.environ["PLIMSOLL"]
RECORDING = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/data/llama_s_ckpt.pickle.xz")
RANKS = 1024


def cost(*command):
    """Processor seconds, the median of five runs."""
    def once():
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return statistics.median(once() for _ in range(5))


def one(path, folder):
    packed, digest = os.path.join(folder, "a.plim"), os.path.join(folder, "a.digest")
    seconds = {"pack": cost(PLIMSOLL, "pack", path, "-o", packed), "report": cost(PLIMSOLL, "report", path),
               "report .plim": cost(PLIMSOLL, "report", packed), "digest": cost(PLIMSOLL, "report", "--digest", packed, "-o", digest),
               "zstd -3": cost("zstd", "-3qf", path, "-o", os.path.join(folder, "a.zst")),
               "pickle.load": cost(sys.executable, "-c", f"import pickle; pickle.load(open({path!r}, 'rb'))")}
    size = os.path.getsize(path)
    print(f"{os.path.basename(path)}: {size} bytes; .plim {size / os.path.getsize(packed):.1f} times smaller, "
          f"zstd -3 {size / os.path.getsize(os.path.join(folder, 'a.zst')):.1f}")
    print("  " + ", ".join(f"{name} {value:.3f} s" for name, value in seconds.items()))
    with open(digest, encoding="utf-8") as f:
        return json.loads(f.readline())


with tempfile.TemporaryDirectory() as top:
    recordings = sys.argv[1:]
    if not recordings:
        recordings = [os.path.join(top, "made.pickle")]
        subprocess.run([os.environ["MAKE_SNAPSHOT"], RECORDING, "100000", recordings[0]], check=True)
    for recording in recordings:
        row = one(recording, top)
    job = os.path.join(top, "job")
    os.mkdir(job)
    for rank in range(RANKS):
        with open(os.path.join(job, f"rank{rank}.digest"), "w", encoding="utf-8") as f:
            f.write(json.dumps({**row, "rank": rank, "path": f"rank{rank}.plim"}) + "\n")
    print(f"{RANKS} digests: {cost(PLIMSOLL, 'report', job):.3f} s")
