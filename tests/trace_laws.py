#!/usr/bin/env python3
"""trace_laws.py PLIMSOLL: two traces of a made-up program become one with a law for each request; sweeps and the largest
batch follow from it.  Needs neither PyTorch nor a GPU."""
import gzip
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
from plimsoll.tracing import laws  # noqa: E402
from plimsoll.tracing.packed import CATEGORIES, Trace  # noqa: E402

MIB = 1 << 20
plimsoll = sys.argv[1]
failures = []


def check(what, got, expected):
    if got != expected:
        failures.append(f"{what}: {got!r}, not {expected!r}")


def traced(batch, sorts_from=10**9, extra=0):
    """A weight of 64 MiB, an activation of 8 MiB a sample, and a sort that only large batches need."""
    t = Trace(model="made", batch=batch, sequence=16, torch="2.13.0", way="by hand", phases=["load", "fwd0"], places=["", "net"],
              operators=["", "mm", "sort"], parameters=16 * MIB, trainable=16 * MIB)

    def birth(size, category, operator=1):
        t.events.append(size)
        t.place.append(1)
        t.operator.append(operator)
        t.category.append(CATEGORIES.index(category))
        return len(t.category) - 1
    birth(64 * MIB, "parameter")
    t.events.append(0)
    activation = birth(8 * MIB * batch, "activation")
    if batch >= sorts_from:
        t.events.append(-birth(4 * MIB * batch, "workspace", 2) - 1)
    for _ in range(extra):
        birth(512, "activation")
    t.events += [-activation - 1, 0]
    return t


def plan(trace, folder, *arguments):
    path = os.path.join(folder, "made.json.gz")
    trace.write(path)
    out = subprocess.run([plimsoll, "plan", "--json", path, *arguments], capture_output=True, text=True)
    return json.loads(out.stdout) if out.stdout else out.stderr


def main():
    with tempfile.TemporaryDirectory() as folder:
        t = traced(2)
        check("two batches meet", laws.grow(t, traced(4)), "")
        check("bytes with four", t.grown, [64 * MIB, 32 * MIB])
        p = plan(t, folder, "--sweep", "batch=1,2,4,32", "--memory", "300MiB", "--max-batch")
        check("sweep", [row["allocated_bytes"] for row in p["sweep"]], [(64 + 8 * n) * MIB for n in (1, 2, 4, 32)])
        # the range's upper end (5 %) must be under 300 MiB
        check("largest batch", p["max_batch"], next(n for n in range(40, 0, -1) if (64 + 8 * n) * 1.05 <= 300))
        t = traced(2, sorts_from=3)
        check("a sort in one alone", laws.grow(t, traced(4, sorts_from=3)), "")
        p = plan(t, folder, "--sweep", "batch=2,4")
        check("... is in that one", [row["allocated_bytes"] // MIB for row in p["sweep"]], [80, 112])
        check("what differs is said", "its requests depend on the batch" in laws.grow(traced(2), traced(4, extra=1)), True)
        check("one batch alone", "trace it again with --max-batch" in plan(traced(2), folder, "--sweep", "batch=1,2"), True)
        t = traced(2)
        laws.grow(t, traced(4))
        for broken in ({"grown": t.grown[:1]}, {"grown_batch": 2}, {"grown_batch": 0}, {"grown": [1 << 60, 1]}):
            path = os.path.join(folder, "broken.json.gz")
            with gzip.open(path, "wt") as f:
                json.dump({**t.to_json(), **broken}, f, separators=(",", ":"))
            out = subprocess.run([plimsoll, "plan", path], capture_output=True, text=True)
            check(f"broken {list(broken)}", (out.returncode, "no trace of plan --trace" in " ".join(out.stderr.split())), (3, True))
    print("\n".join(failures) or "laws of traces: ok")
    return bool(failures)


sys.exit(main())
