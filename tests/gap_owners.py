#!/usr/bin/env python3
"""gap_owners.py PLIMSOLL: who owns what is reserved and not asked for, at the end and at the peak.

What was wrong: a program with 8.98 GiB reserved and 1.95 in use was reported with "No failure. No leak." and nothing else.  Each
program here is made up, so that each byte has a known owner.
"""
import os
import pickle
import sys
import tempfile

import lib
from made_recordings import BUILD, MIB, Heap, user

lib.start(sys.argv[1])
CACHE, SHARD, GRAPH = [user(40, "cached")], [user(17, "shard")], [user(60, "capture")]


def weights(n=4, size=256 * MIB):
    heap = Heap()
    for _ in range(n):
        heap.segment(size, (size, BUILD))
    return heap


def check(name, heap, expected, kept=None, text=()):
    """`expected`: bytes by kind; None: nothing is reported."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "gap.pickle")
        for events in True, False:
            snapshot = heap.snapshot()
            if not events:
                snapshot["device_traces"] = [[]]
            with open(path, "wb") as f:
                pickle.dump(snapshot, f, 4)
            device, told, why = lib.result("report", path)["devices"][0], lib.run("report", path).stdout, lib.run("report", "--why", path).stdout
            lib.expect(device["self_check"]["exact"], name, "the recording made is none", device["self_check"])
            gap = device["gap"]
            if expected is None:
                lib.expect(gap is None and "is unused" not in told, name, "told:", gap)
                continue
            parts = {p["kind"]: p for p in gap["parts"]} if gap else {}
            lib.expect({k: p["bytes"] for k, p in parts.items()} == expected, name, {k: p["bytes"] / MIB for k, p in parts.items()})
            lib.expect(gap and gap["bytes"] == device["end"]["reserved_bytes"] - device["end"]["requested_bytes"], name, "do not add up")
            lib.expect([p["bytes"] for p in gap["parts"]] == sorted((p["bytes"] for p in gap["parts"]), reverse=True), name, "not sorted")
            for kind, (bytes_, line) in (kept or {}).items():
                lib.expect(parts[kind]["kept_by_bytes"] == bytes_ and line in (parts[kind]["frame"] or ""), name, "kept by", parts[kind])
            flat = " ".join(told.split())
            for words in text:
                lib.expect(words in flat, name, "not said:", words, "but", flat)
            lib.expect("Reserved at the end, but not asked for" in why, name, "--why says nothing of it")


heap = weights()
for _ in range(3):
    heap.free(heap.segment(512 * MIB, (512 * MIB, CACHE)))
check("wholly free", heap, {"wholly_free": 1536 * MIB}, text=["1.50 GiB reserved at the end is unused: 1.50 GiB wholly free (empty_cache() gives it back)"])

heap = weights()
for _ in range(3):
    heap.free(heap.segment(512 * MIB, (32 * MIB, CACHE), (480 * MIB, CACHE)), 1)
check("splits", heap, {"splits": 1440 * MIB}, {"splits": (96 * MIB, "train.py:40 in cached")}, ["in segments that are in use (kept by train.py:40)"])

heap = weights()
for _ in range(3):
    heap.free(heap.segment(256 * MIB, (32 * MIB, SHARD), (224 * MIB, SHARD), stream=7), 1)
heap.free(heap.segment(64 * MIB, (64 * MIB, SHARD), stream=7))
check("another stream", heap, {"other_streams": 672 * MIB, "wholly_free": 64 * MIB}, {"other_streams": (96 * MIB, "train.py:17 in shard")})

heap = weights()
heap.free(heap.segment(512 * MIB, (512 * MIB, GRAPH), pool=(1, 0)))
heap.free(heap.segment(512 * MIB, (128 * MIB, GRAPH), (384 * MIB, GRAPH), pool=(1, 0)), 1)
check("private pools", heap, {"private_pools": 896 * MIB}, {"private_pools": (128 * MIB, "train.py:60 in capture")})

# whole pages of an expandable range go back, though the range is in use
heap = weights()
heap.free(heap.segment(400 * MIB, (30 * MIB, CACHE), (350 * MIB, CACHE), (20 * MIB, CACHE), expandable=True), 1)
check("expandable", heap, {"wholly_free": 340 * MIB, "splits": 10 * MIB})

# many small tensors, of which each takes 512 bytes
heap = Heap()
for _ in range(4):
    heap.segment(2 * MIB, *[(300, CACHE)] * 4096)
    heap.free(heap.segment(2 * MIB, (MIB, CACHE), (MIB, CACHE)))
check("rounding", heap, {"wholly_free": 8 * MIB, "rounding": 4 * 4096 * 212})

check("full", weights(), None)
heap = weights()
heap.free(heap.segment(100 * MIB, (100 * MIB, CACHE)))
check("less than a tenth", heap, None)

def at_peak(name, heap, then, expected):
    """What owns the gap at a peak that is gone at the end: `then` frees what was in use."""
    told = heap.snapshot()
    before = len(told["device_traces"][0])
    then()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "peak.pickle")
        with open(path, "wb") as f:
            pickle.dump(heap.snapshot(), f, 4)
        device = lib.result("report", path)["devices"][0]
        said = " ".join(lib.run("report", path).stdout.split())
        with open(path, "wb") as f:  # the same, if the recording stops there: both moments are one
            pickle.dump(dict(told, device_traces=[told["device_traces"][0][:before]]), f, 4)
        stopped = lib.result("report", path)["devices"][0]
    gap = device["gap_at_peak"]
    parts = {p["kind"]: p["bytes"] for p in gap["parts"]} if gap else {}
    lib.expect(parts == expected, name, {k: v / MIB for k, v in parts.items()})
    lib.expect(bool(gap) == ("reserved at the peak is unused" in said), name, said)
    lib.expect(not gap or stopped["gap"] == gap, name, "stopped at the peak:", stopped["gap"], gap)


heap = weights()
cache = heap.segment(512 * MIB, (512 * MIB, CACHE))
heap.free(cache)
shard = heap.segment(256 * MIB, (32 * MIB, SHARD), (224 * MIB, SHARD), stream=7)
heap.free(shard, 1)
pool = heap.segment(512 * MIB, (128 * MIB, GRAPH), (384 * MIB, GRAPH), pool=(1, 0))
heap.free(pool, 1)
pages = heap.segment(400 * MIB, (30 * MIB, CACHE), (350 * MIB, CACHE), (20 * MIB, CACHE), expandable=True)
heap.free(pages, 1)
big = heap.segment(3072 * MIB, (3072 * MIB, BUILD))
at_peak("all kinds", heap, lambda: [heap.free(s) for s in (big, shard, pool, pages)],
        {"wholly_free": 852 * MIB, "other_streams": 224 * MIB, "private_pools": 384 * MIB, "splits": 10 * MIB})

heap = weights()
big = heap.segment(3072 * MIB, (3072 * MIB, BUILD))
at_peak("no gap at the peak", heap, lambda: heap.free(big), {})


lib.finish("gaps between reserved and asked for: each byte has its owner")
