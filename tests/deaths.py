#!/usr/bin/env python3
"""deaths.py PLIMSOLL DATA: verdicts of runs that were made to die (DATA/deaths, PyTorch 2.11 on an H100).

Those with a limit were also run under expandable_segments:True and max_split_size_mb:64 with the same
limit: churn lived under the first, all others died under both.  `causes` are the verdicts that this
truth allows, `bound_by` what the memory really ran into.
"""
import json
import os
import sys

import lib

program, data = sys.argv[1:3]
lib.start(program)
folder = os.path.join(data, "deaths")


def matters(leak, device):
    """Has it taken a hundredth of the peak?  A small one is shown, and killed no one."""
    return 100 * leak["bytes"] >= device["peak"]["allocated_bytes"]


def report(name, *options):
    path = os.path.join(folder, name + ".pickle.xz")
    return lib.result("report", path, *options)["devices"][0]


def expect(name, what, ok):
    lib.expect(ok, name, what)


def check(name, truth):
    log = os.path.join(folder, name + ".txt")
    for options in ([], ["--log", log]) if os.path.exists(log) else ([],):
        device = report(name, *options)
        expect(name, "self-check", device["self_check"]["exact"])
        leaks = [f for f in device["findings"] if f["id"] == "leak" and matters(f, device)]
        expect(name, f"leaks {leaks}", bool(leaks) == ("leak" in truth["causes"]))
        if not truth["causes"]:
            expect(name, "a death was seen", not device["oom"])
            continue
        verdict = device["oom"][-1]["verdict"]
        expect(name, f"cause {verdict['cause']}", verdict["cause"] in truth["causes"])
        if verdict["cause"] == "leak":  # the verdict and the finding are one measure
            rate = leaks[0]["title"].split("leak: ")[1].split(",")[0]
            expect(name, f"two rates: {verdict['headline']}, {leaks[0]['title']}", rate in verdict["headline"])
            expect(name, "an advice that is no fix of the leak", verdict["helps"][0] == leaks[0]["fix"][0])
        allowed = [truth["bound_by"]] if options or truth["bound_by"] == "limit" else [truth["bound_by"], "unknown"]
        expect(name, f"bound by {verdict['bound_by']}", verdict["bound_by"] in allowed)
        if truth["limit_gib"]:
            limit = truth["limit_gib"] * 2**30
            expect(name, "the limit is outside of its interval",
                   verdict["bound_bytes"]["low"] <= limit <= verdict["bound_bytes"]["high"])


def check_own(name, truth):
    device = report("../own/" + name)
    leaks = any(f["id"] == "leak" and matters(f, device) for f in device["findings"])
    expect(name, f"leak {leaks}", leaks == truth["leaks"])
    last = device["oom"][-1]
    verdict = last["verdict"]
    expect(name, f"survived {last['survived']}, it ended {truth['outcome']}", last["survived"] == (truth["outcome"] == "ok"))
    expect(name, f"cause {verdict['cause']}", (verdict["cause"] == "leak") == truth["leaks"])
    expect(name, "it is called too small, and survives under another setting",
           verdict["cause"] != "capacity" or not truth["survives"])
    expect(name, f"needs {verdict['needed_bytes']} and more, {truth['full_allocated_mib']} MiB were enough",
           truth["leaks"] or verdict["needed_bytes"]["low"] <= (truth["full_allocated_mib"] + 1) << 20)


own = sorted(f[:-5] for f in os.listdir(os.path.join(data, "own")) if f.endswith(".json"))
for name in own:
    with open(os.path.join(data, "own", name + ".json"), encoding="utf-8") as f:
        check_own(name, json.load(f))
names = sorted(f[:-5] for f in os.listdir(folder) if f.endswith(".json"))
for name in names:
    with open(os.path.join(folder, name + ".json"), encoding="utf-8") as f:
        check(name, json.load(f))
lib.finish(f"{len(names) + len(own)} recordings as measured", least=len(names) + len(own))
