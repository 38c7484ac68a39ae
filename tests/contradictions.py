#!/usr/bin/env python3
"""contradictions.py PLIMSOLL RECORDING|FOLDER...: report and whatif say the same of one recording and setting.

When a leak fills a GPU is the same in both.  Every number of a report's replays (oom[].tried) is that of whatif's row; what report advises to set, whatif recommends, and
what whatif has no advice for, report does not advise.
"""
import re
import sys

import lib

lib.start(sys.argv[1])
SAME = "limit_bytes", "oom_event", "reserved_peak_bytes"


def advised(verdict):
    return next((line for line in verdict["helps"] if "replayed with it" in line), None)


def fills_agree(path, device):
    """What report says of a GPU that a leak will fill, whatif says of it; and no setting is advised then."""
    fills = {f["gpu"]: f for f in device["fills"]}
    leaks = [f for f in device["findings"] if f["id"] == "leak"]
    for card, fill in fills.items():
        whatif = lib.result("whatif", path, "--gpu", card, "--device", device["device"])
        told = whatif["leak"]
        lib.expect(told and told["fill"] == fill, path, card, "report:", fill, "whatif:", told)
        lib.expect(told and told["per_period_bytes"] == leaks[0]["per_period_bytes"], path, card, leaks[0], told)
        certain = fill["repetitions"]["low"] <= 1_000_000
        lib.expect(not certain or not whatif["recommended"], path, card, "a setting is advised for a leak")
        lib.expect("survives" not in lib.run("whatif", path, "--gpu", card).stdout or not certain, path, card, "survives")
    return len(fills)


def waste_agrees(path, device):
    """What a setting saves where nothing died is a sum that adds up, of whatif's numbers."""
    rows = 0
    for finding in device["findings"]:
        told = re.match(r"(\S+ \S+) less is reserved under (\S+): (\S+ \S+) instead of (\S+ \S+),", finding["title"])
        if finding["id"] != "fragmentation" or not told:
            continue
        rows += 1
        whatif = lib.result("whatif", path, "-s", told[2], "--device", device["device"])
        reserved, recorded = whatif["runs"][0]["reserved_peak_bytes"], device["peak"]["reserved_bytes"]
        for words, size in ((told[1], recorded - reserved), (told[3], reserved), (told[4], recorded)):
            number, unit = float(words.split()[0]), {"MiB": 1 << 20, "GiB": 1 << 30}[words.split()[1]]
            lib.expect(abs(number * unit - size) <= 0.0051 * unit, path, "report:", words, "whatif:", size)
    return rows


def compare(path):
    """How many replays were compared."""
    rows = 0
    for device in lib.result("report", path, codes=(0, 3))["devices"]:
        rows += fills_agree(path, device) + waste_agrees(path, device)
        last = device["oom"][-1] if device["oom"] else None
        if not last or not last["verdict"]:
            continue
        whatif = lib.result("whatif", path, "--plan", "--device", device["device"])
        runs = {r["settings"]: r for r in whatif["runs"]}
        names = [one["settings"] for one in last["tried"]]
        lib.expect(not names or names[-1] == "plimsoll.allocator.use()", path, "our allocator was not tried", names)
        for one in last["tried"]:
            rows += 1
            row = runs.get(one["settings"])
            if not lib.expect(row, path, one["settings"], "whatif has no such row"):
                continue
            survives = row["outcome"] == "ok" and row["outcome_certain"]
            lib.expect(one["survives"] == survives, path, one["settings"], one["survives"], row["outcome"])
            for key in SAME:
                lib.expect(one[key] == row[key], path, one["settings"], key, one[key], row[key])
        line = advised(last["verdict"])
        if line:
            # With a plan's file our allocator can be better still; report tries it as it comes.
            best = (whatif["recommended"] or "nothing").replace("plan=...", "")
            lib.expect(f"={best}:" in line or f" {best}:" in line, path, "report:", line, "whatif:", whatif["recommended"], whatif["withheld"])
        if whatif["recommended"] in [t["settings"] for t in last["tried"]]:
            lib.expect(line, path, "whatif recommends what report does not:", whatif["recommended"])
    return rows


compared = sum(compare(path) for path in lib.recordings(sys.argv[2:]))
lib.expect(compared, "no replay", "was compared")
lib.finish(f"{compared} replays: report's numbers are whatif's", least=1)
