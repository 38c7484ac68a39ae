#!/usr/bin/env python3
"""profiles.py PLIMSOLL: what torch.profiler writes, made by hand.

Traces of profile_memory=True and memory timelines whose right answers follow from how they were made: peaks, owners, what
lived before, several devices, totals that begin anew, events that lack something, cut files.  tests/domain/test_profiler.py
has those that PyTorch writes.
"""
import gzip
import json
import os
import random
import sys
import tempfile

import lib

lib.start(sys.argv[1])
folder = tempfile.TemporaryDirectory()
MIB = 1 << 20


def memory(ts, addr, size, total, reserved=0, device=(1, 0), thread=1, **more):
    args = {"Addr": addr, "Bytes": size, "Total Allocated": total, "Total Reserved": reserved,
            "Device Type": device[0], "Device Id": device[1]}
    args.update(more)
    return {"ph": "i", "s": "t", "name": "[memory]", "pid": 1, "tid": thread, "ts": ts,
            "args": {k: v for k, v in args.items() if v is not None}}


def ranged(category, name, start, end, thread=1):
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": thread, "ts": start, "dur": end - start}


def write(value, name="prof.json"):
    path = os.path.join(folder.name, name)
    with (gzip.open if name.endswith(".gz") else open)(path, "wt", encoding="utf-8") as f:
        f.write(value if isinstance(value, str) else json.dumps(value))
    return path


def trace(*events, **more):
    return write({"schemaVersion": 1, "traceEvents": list(events), **more})


def report(path):
    return lib.result("report", path)


def notes(r):
    return " ".join(r["source"]["notes"])


def refused(path, *words):
    said = lib.run("report", path, codes=(3,)).stderr
    for word in words:
        lib.expect(word in said, path, word, said)
    lib.expect(said.count("\n") == 1, path, "one line", said)


def owners(device):
    return {o["frame"]: o["bytes"] for o in device["at_peak"]["owners"]}


def test_totals_are_those_of_the_trace():
    r = report(trace(memory(1, 4096, MIB, 3 * MIB, 8 * MIB), memory(2, 8192, MIB, 4 * MIB, 20 * MIB),
                     memory(3, 4096, -MIB, 3 * MIB, 20 * MIB), memory(4, 99, -MIB, 2 * MIB, 10 * MIB),
                     baseTimeNanoseconds=10 ** 18))
    d = r["devices"][0]
    lib.expect(d["peak"]["allocated_bytes"] == 4 * MIB and d["end"]["allocated_bytes"] == 2 * MIB, "totals", d["peak"])
    lib.expect(d["before"]["allocated_bytes"] == 2 * MIB, "before", d["before"])  # one of the two is freed, one stays
    lib.expect(d["allocations"] == 4, "allocations", d["allocations"])
    lib.expect(d["peak"]["reserved_bytes"] == 20 * MIB and d["end"]["reserved_bytes"] == 10 * MIB, "reserved", d["peak"])
    lib.expect(d["peak"]["requested_bytes"] is None, "requested bytes are not in the trace", d["peak"])
    lib.expect(d["peak"]["lower_bound"] and not r["source"]["complete"], "a part of a run")
    lib.expect(d["peak"]["allocated"]["time_us"] == 10 ** 15 + 2, "time", d["peak"]["allocated"])
    lib.expect("no segments" in notes(r) and "2.00 MiB were allocated before" in notes(r), "notes", notes(r))
    lib.expect("not what the bytes" not in notes(r), "they add up", notes(r))
    lib.expect(r["source"]["kind"] == "profile" and not r["source"]["notes"][0].startswith("no stacks"), r["source"])


def test_order_in_the_file_does_not_matter():
    made = random.Random(1)
    events, total = [], 0
    for i in range(200):
        total += 512 * (i + 1)
        events.append(memory(i, 4096 * (i + 1), 512 * (i + 1), total))
    most = total
    for i in range(200):
        total -= 512 * (i + 1)
        events.append(memory(200 + i, 4096 * (i + 1), -512 * (i + 1), total))
    events += [ranged("cpu_op", "aten::first", 0, 99.5), ranged("cpu_op", "aten::second", 100, 199)]
    made.shuffle(events)
    d = report(trace(*events))["devices"][0]
    lib.expect(d["peak"]["allocated_bytes"] == most and d["end"]["allocated_bytes"] == 0, "shuffled", d["peak"])
    first = sum(512 * (i + 1) for i in range(100))
    lib.expect(owners(d) == {"aten::first": first, "aten::second": most - first}, "owners", owners(d))


def test_owners_are_calls_on_the_same_thread():
    events = [
        ranged("user_annotation", "ProfilerStep#3", 0, 100), ranged("user_annotation", "my part", 10, 90),
        ranged("cpu_op", "aten::linear", 20, 40), ranged("cpu_op", "aten::empty", 25, 35),
        ranged("cpu_op", "aten::other", 0, 100, thread=2), ranged("cuda_runtime", "cudaMalloc", 28, 33),
        memory(30, 1, 100, 100), memory(40.5, 2, 10, 110), memory(200, 3, 1, 111),
    ]
    d = report(trace(*events))["devices"][0]
    lib.expect(owners(d) == {"my part in aten::linear": 100, "my part": 10, None: 1}, "by operation", owners(d))
    inner = d["at_peak"]["owners"][0]["stack"]
    lib.expect(inner == ["aten::empty", "my part in aten::linear"], "stack", inner)
    # one that ends where the next begins is not around it
    r = report(trace(ranged("cpu_op", "aten::a", 0, 10), ranged("cpu_op", "aten::b", 10, 20), memory(15, 1, 5, 5)))
    lib.expect(owners(r["devices"][0]) == {"aten::b": 5}, "touching", owners(r["devices"][0]))
    events += [ranged("python_function", "torch/nn/modules/linear.py(131): forward", 18, 50),
               ranged("python_function", "train.py(12): step", 15, 60),
               ranged("python_function", "<built-in method f of T object at 0x7f00>", 19, 50)]
    d = report(trace(*events))["devices"][0]
    lib.expect(owners(d).get("train.py:12 in step") == 110, "by line", owners(d))
    stack = d["at_peak"]["owners"][0]["stack"]
    lib.expect(stack[2] == "<built-in method f of T object", "addresses tell nothing", stack)
    lib.expect(stack[3] == ".../torch/nn/modules/linear.py:131 in forward", "a name without its beginning", stack)


def test_the_optimizer_and_autograd_are_known_by_their_names():
    d = report(trace(
        ranged("user_annotation", "Optimizer.step#AdamW.step", 100, 200), ranged("cpu_op", "aten::zeros_like", 110, 120),
        ranged("cpu_op", "autograd::engine::evaluate_function: MmBackward0", 10, 20),
        memory(15, 1, 64, 64), memory(115, 2, 128, 192), memory(300, 3, 1, 193), memory(301, 3, -1, 192)))["devices"][0]
    c = d["at_peak"]["categories"]
    lib.expect(c["optimizer_state"] == 128, "state", c)
    lib.expect(d["peak"]["allocated"]["step"] is None or d["peak"]["allocated_bytes"] == 193, "peak", d["peak"])


def test_devices():
    both = [memory(1, 1, 10, 10, device=(1, 0)), memory(2, 1, 20, 20, device=(1, 1)), memory(3, 1, 7, 7, device=(0, -1))]
    r = report(trace(*both))
    lib.expect([(d["device"], d["peak"]["allocated_bytes"]) for d in r["devices"]] == [(0, 10), (1, 20)], "two GPUs")
    lib.expect("left out: 1 memory event of the CPU" in notes(r) and "of the CPU, from" not in notes(r), "left out", notes(r))
    r = report(trace(both[2], memory(4, 2, 8, 15, device=(0, -1))))
    lib.expect(r["devices"][0]["peak"]["allocated_bytes"] == 15, "CPU", r["devices"])
    lib.expect(r["devices"][0]["peak"]["reserved_bytes"] is None, "malloc has no reserve")
    lib.expect("this is the memory of the CPU" in notes(r), "it is said", notes(r))
    lib.expect("0 bytes reserved" not in lib.run("report", os.path.join(folder.name, "prof.json")).stdout, "unknown")


def test_totals_that_begin_anew_and_events_that_lack_something():
    r = report(trace(memory(1, 1, 100, 100), memory(2, 2, 50, 50), memory(3, 3, 50, 100), memory(4, 1, 30, 130),
                     memory(5, 9, 10, None), memory(6, None, 5, 5), memory(7, 4, None, 5), memory(8, 5, 0, 5),
                     memory(None, 5, 5, 5), memory("x", 5, 5, 5), memory(9, 5, 5, 5, device=(1, 5000)),
                     memory(9, -5, 5, 5), memory(9, 5, 1 << 70, 5), memory(-9, 5, 5, 5)))
    said = notes(r)
    lib.expect(r["devices"][0]["peak"]["allocated_bytes"] == 240, "sum of bytes", r["devices"][0]["peak"])
    lib.expect("Total Allocated of 3 events is not what the bytes add up to" in said, "totals", said)
    lib.expect("9 memory events without a time" in said, "incomplete", said)
    lib.expect("1 time memory is allocated where something lives" in said, "overlap", said)
    r = report(trace(memory(1, 1, 10, 10), {"name": "[OutOfMemory]", "ph": "i", "ts": 2, "args": {"Bytes": 3 << 30}}))
    lib.expect("1 allocation failed ([OutOfMemory]), the last one of 3.00 GiB" in notes(r), "failures", notes(r))


def test_what_is_refused():
    refused(trace(ranged("cpu_op", "aten::mm", 0, 1)), "without memory events", "profile_memory=True", "plimsoll record")
    refused(trace(memory(1, 1, 0, 0)), "without memory events")
    whole = json.dumps({"schemaVersion": 1, "traceEvents": [memory(i, i + 1, 10, 10 * i + 10) for i in range(40)]})
    for cut in (len(whole) - 1, len(whole) // 2, 60):
        refused(write(whole[:cut]), "byte")
    refused(write('{"traceEvents": 3}'), "byte", "not a list")
    path = trace(memory(1, 1, 10, 10))
    for verb in ("whatif",):
        said = lib.run(verb, path, codes=(3,)).stderr
        lib.expect("no segments" in said and "plimsoll record" in said, verb, said)
    page = "<html>\n<head><meta charset=\"utf-8\" /><title>GPU Memory Timeline HTML</title></head>\n<body>\n  <img src='data:"
    refused(write(page, "timeline.html"), "no numbers", "export_memory_timeline('timeline.json')")


def test_other_verbs_and_pages_take_it():
    path = trace(ranged("cpu_op", "aten::mm", 0, 9), memory(1, 4096, MIB, 2 * MIB, 8 * MIB), memory(2, 4096, -MIB, MIB, 4 * MIB))
    out = os.path.join(folder.name, "page.html")
    lib.run("report", path, "-o", out)
    lib.expect(os.path.getsize(out) > 1000, "a page")
    lib.run("diff", path, path, codes=(0, 1))
    text = lib.run(path).stdout
    lib.expect("PEAK SEEN 2.00 MiB" in text and "whatif" not in text, "by its name alone", text)


def test_what_is_not_told_is_not_zero():
    """Of the CPU nothing is said of reserved memory: it was 0 bytes in comparisons."""
    a, b = (write({"traceEvents": [memory(1, 4096, size, size, device=(0, -1))]}, name) for size, name in ((MIB, "a.json"), (2 * MIB, "b.json")))
    peak = lib.result("diff", a, b)["devices"][0]["peak"]
    lib.expect(peak["reserved"]["a_bytes"] is None and peak["allocated"]["b_bytes"] == 2 * MIB, "diff", peak)
    lib.expect("peak reserved" not in lib.run("diff", a, b).stdout, "diff")
    lib.expect("0 bytes" not in lib.run("report", a, b).stdout.split("Notes")[0], "the table of several")
    rows = lib.result("report", a, b)["rows"]
    lib.expect([row["reserved_peak_bytes"] for row in rows] == [None, None], "ranks", rows)


def test_memory_timelines():
    times = [1000, 1000, 2000, 3000]
    sizes = [[0, 0, 0, 0, 0, 0, 0, 0, 0], [0, 100, 0, 0, 0, 40, 0, 0, 0], [0, 100, 60, 0, 40, 0, 0, 0, 7], [0, 100, 60, 0, 0, 0, 0, 0, 0]]
    r = report(write([times, sizes], "timeline.json"))
    d = r["devices"][0]
    lib.expect(d["peak"]["allocated_bytes"] == 207 and d["end"]["allocated_bytes"] == 160, "a plot", d["peak"])
    c = d["at_peak"]["categories"]
    lib.expect((c["parameter"], c["optimizer_state"], c["temporary"], c["unknown"]) == (100, 60, 40, 7), "kinds", c)
    lib.expect(r["source"]["kind"] == "timeline" and "memory timeline" in notes(r), "it is said", r["source"])
    # 40 become 40 of another category in the same moment: never 80
    raw = [[-1, 0, 100, 0], [5000, 1, 40, 4], [6000, 2, 40, 5], [6000, 2, -40, 4], [7000, 3, -40, 5], [7000, 1, 9, 77]]
    d = report(write(raw, "timeline.raw.json.gz"))["devices"][0]
    lib.expect(d["peak"]["allocated_bytes"] == 140 and d["end"]["allocated_bytes"] == 109, "a raw one", d["peak"])
    lib.expect(d["end"]["categories"]["parameter"] == 100 and d["end"]["categories"]["unknown"] == 9, "kinds", d["end"])
    lib.expect(d["peak"]["reserved_bytes"] is None, "reserved", d["peak"])
    lib.expect(report(write([raw[1]], "one.json"))["devices"][0]["peak"]["allocated_bytes"] == 40, "one row")
    for bad in ([[1, 2], [[0, 1]]], [[1], [[0, 1], [0, 1]]], [[1, 2, 3, 4], [5, 6]], [[1, 2, 3, 4], 7], [[1, 2]], [[1, 2.5]],
                [[1], [[0, "x"]]], [[1], [[0, 1]], 3], [[1 << 70, 2, 3, 4]]):
        refused(write(bad, "bad.json"), "byte")
    refused(write(json.dumps([times, sizes])[:-9], "bad.json"), "byte")


for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
lib.finish("profiles")
