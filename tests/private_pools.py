#!/usr/bin/env python3
"""private_pools.py PLIMSOLL: failures with enough free memory that is another pool's, or another stream's, and what only looks so.

What was wrong: a free block counted for a request of any pool, so that 15 GiB idle in pools of CUDA graphs were called
fragmentation, "in pieces of at most 512 MiB"; of another stream's memory no one was named.  Each program here is made up.
"""
import os
import pickle
import sys
import tempfile

import lib
from made_recordings import BUILD, MIB, Heap, module, user

lib.start(sys.argv[1])
GRAPH, SHARD, EAGER = [user(60, "capture")], [user(17, "shard")], [user(50, "forward")]


def told(heap, name):
    """The failure, and what whatif says; the cause is the same to both."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "pools.pickle")
        with open(path, "wb") as f:
            pickle.dump(heap.snapshot(), f, 4)
        device, tried = lib.result("report", path)["devices"][0], lib.result("whatif", path)
        text = lib.run("report", path).stdout
    lib.expect(device["self_check"]["exact"], name, "the recording made is none", device["self_check"])
    oom = device["oom"][-1]
    lib.expect(tried["death"]["cause"] == oom["verdict"]["cause"], name, "whatif", tried["death"]["cause"])
    return oom, tried, text


def cause(verdict):
    return verdict["cause"] if verdict["cause"] != "unknown" else verdict["likely_cause"]


def check(name, heap, expected, largest=None, says=(), first=None):
    oom, tried, text = told(heap, name)
    verdict = oom["verdict"]
    lib.expect(cause(verdict) == expected, name, "cause", cause(verdict), "not", expected, verdict["evidence"])
    if largest is not None:
        lib.expect(oom["largest_free_bytes"] == largest, name, "largest", oom["largest_free_bytes"], "not", largest)
    evidence = " ".join(verdict["evidence"])
    for part in says:
        lib.expect(part in evidence, name, "not said:", part, "but", evidence)
    if first:
        lib.expect(first in verdict["helps"][0], name, "advised first:", verdict["helps"])
    if expected in ("private_pools", "other_stream"):
        lib.expect("nvidia-smi" not in text and "one length" not in text, name, "advice for another cause", verdict["helps"])
    return oom, tried


def weights(heap, n=4, size=64 * MIB):
    for _ in range(n):
        heap.segment(size, (size, BUILD))


def graphs(pools, n=4, size=256 * MIB, live=False, **how):
    """Weights, graphs that were captured into pools of their own, and an eager pass that is refused."""
    heap = Heap(**how)
    weights(heap)
    for pool in range(1, pools + 1):
        for _ in range(n):
            segment = heap.segment(size, (size, GRAPH), pool=(pool, 0))
            if not live:
                heap.free(segment)
    for layer in range(4):
        heap.segment(size, (size, module(50, layer)))
    return heap


def idle_graphs(**how):
    heap = graphs(5, **how)
    heap.fail(512 * MIB)
    return heap


def side_stream(kept=40 * MIB, segments=16, size=256 * MIB):
    """Loaded by a side stream into large buffers, of which a part is kept."""
    heap = Heap()
    weights(heap)
    for _ in range(segments):
        heap.free(heap.segment(size, (kept, SHARD), (size - kept, SHARD), stream=7), 1)
    for layer in range(4):
        heap.segment(size, (size, module(50, layer)))
    return heap


def mempool(wholly):
    """A cache of the default pool, wholly free or not, behind which a MemPool is filled."""
    heap = Heap()
    weights(heap)
    parts = [(512 * MIB, EAGER)] if wholly else [(32 * MIB, EAGER), (480 * MIB, EAGER)]
    cached = [heap.segment(512 * MIB, *parts) for _ in range(10)]
    for segment in cached:
        heap.free(segment, len(parts) - 1)
    for _ in range(3):
        heap.segment(512 * MIB, (512 * MIB, SHARD), pool=(0, 1))
    heap.fail(512 * MIB, pool=(0, 1), room=128 * MIB)
    return heap


for tells in True, False:
    name = f"idle graphs, pools {'in events' if tells else 'of segments alone'}"
    oom, tried = check(name, idle_graphs(pools_in_events=tells), "private_pools", 0, ["5.00 GiB", "5 private pools", "train.py:60 in capture"], "share one pool")
    lib.expect(oom["verdict"]["cause"] == "private_pools", name, "is not certain")
    lib.expect(not tried["recommended"], name, "a setting is advised:", tried["recommended"])

# a request of the same pool may have all of it
heap = graphs(1)
heap.fail(256 * MIB, pool=(1, 0))
check("its own pool", heap, "fragmentation", 256 * MIB)
# captured on this stream just before, and events that tell no pools: the request may be of that pool
heap = graphs(0, pools_in_events=False)
for _ in range(2):
    heap.free(heap.segment(1024 * MIB, (512 * MIB, GRAPH), (512 * MIB, GRAPH), pool=(1, 0)), 1)
heap.fail(768 * MIB)
check("a pool that is not known", heap, "fragmentation", 512 * MIB)
heap = graphs(5, live=True)
heap.fail(512 * MIB)
check("graphs in use", heap, "capacity", 0)
# a little is idle in a pool, which would not have served the request
heap = graphs(1, n=1, size=128 * MIB)
weights(heap, 20, 256 * MIB)
heap.fail(512 * MIB)
check("little in a pool", heap, "capacity")
# most of what is free is this stream's and pool's own, in pieces
heap = graphs(1, n=2)
for _ in range(12):
    heap.free(heap.segment(256 * MIB, (40 * MIB, EAGER), (216 * MIB, EAGER)), 1)
heap.fail(512 * MIB)
check("pieces of its own", heap, "fragmentation", 216 * MIB)

heap = side_stream()
heap.fail(512 * MIB)
oom, tried = check("side stream", heap, "other_stream", 0, ["stream 7", "3.38 GiB", "train.py:17 in shard"])
lib.expect(any("stream 7" in line and "train.py:17" in line for line in oom["verdict"]["helps"]), "side stream", "advised:", oom["verdict"]["helps"])
# both streams have enough, in pieces
heap = side_stream()
for _ in range(3):
    heap.free(heap.segment(256 * MIB, (40 * MIB, EAGER), (216 * MIB, EAGER)), 1)
heap.fail(512 * MIB)
check("both in pieces", heap, "fragmentation", 216 * MIB)
heap = side_stream()
heap.fail(216 * MIB + 2 * MIB, stream=7)
check("the same stream", heap, "fragmentation", 216 * MIB)
heap = side_stream(kept=256 * MIB - 2 * MIB)
heap.fail(512 * MIB)
check("side stream in use", heap, "capacity", 0)

oom, tried = check("cached before a MemPool", mempool(True), "private_pools", 0, ["5.00 GiB of it in segments that are wholly free"], "empty_cache() before")
lib.expect(tried["self_check"]["exact"] and not tried["recommended"], "cached before a MemPool", "whatif", tried["self_check"], tried["recommended"])
oom, tried = check("in use before a MemPool", mempool(False), "private_pools", 0, ["0 bytes of it in segments that are wholly free"])
lib.expect("outside of the private pool" in oom["verdict"]["helps"][0], "in use before a MemPool", "advised:", oom["verdict"]["helps"])

lib.finish("failures with free memory of other pools and streams: each cause right")
