#!/usr/bin/env python3
"""cut_recordings.py PLIMSOLL DATA: recordings cut to their last 30 %, as a ring that was too small leaves them.

The part that is left is known from the whole recording: its peaks must come out the same, or lower by
no more than the range that the report gives.
"""
import glob
import json
import os
import pickle
import sys
import tempfile

import lib
from lib import failures, load

program, data = sys.argv[1:3]
lib.start(program)
MEASURES = ("requested", "allocated", "active", "reserved")


def report(path, *options):
    return lib.result("report", path, *options)


def width(interval):
    return interval["high"] - interval["low"]


def check(path, folder):
    whole = load(path)
    events = whole["device_traces"][0]
    first = len(events) * 7 // 10
    cut = os.path.join(folder, "cut.pickle")
    with open(cut, "wb") as f:
        pickle.dump({**whole, "device_traces": [events[first:]]}, f, 4)
    # PyTorch writes segments by address; what has changed the file may not, and it makes no difference
    turned = os.path.join(folder, "turned.pickle")
    with open(turned, "wb") as f:
        pickle.dump({**whole, "segments": whole["segments"][::-1], "device_traces": [events[first:]]}, f, 4)
    # the state right before the part counts too: the cut recording begins with it
    want = report(path, "--events", f"{first}:{len(events) - 1}")["devices"][0]
    got_all = report(cut)
    got = got_all["devices"][0]
    other = report(turned)["devices"][0]
    for key in ("before", "peak", "end", "self_check"):
        if other[key] != got[key]:
            failures.append(f"{path}: {key} is another when the segments stand in another order")
    for m in MEASURES:
        full, seen, slack = want["peak"][m + "_bytes"], got["peak"][m + "_bytes"], width(got["peak"][m]["range_bytes"])
        if not seen <= full <= seen + slack:
            failures.append(f"{path}: peak {m} {seen} + {slack}, the whole recording has {full}")
        if want["end"][m + "_bytes"] != got["end"][m + "_bytes"]:
            failures.append(f"{path}: end {m} {got['end'][m + '_bytes']}, not {want['end'][m + '_bytes']}")
    # what is left must also follow from the state that is found before it, event by event, unless the
    # size of some block before is not known
    done = lib.run("whatif", "--json", "--settings", "", cut, codes=range(256))
    model = json.loads(done.stdout)["self_check"] if not done.returncode else {"exact": False, "diverged_at": done.stderr}
    if not done.returncode:
        said = "cannot be known from this recording"
        told = [said in " ".join(lib.run("whatif", "--plan", "--settings", "", one, codes=range(256)).stdout.split()) for one in (cut, path)]
        if told != [any(got["before"][m + "_bytes"] for m in MEASURES), not report(path)["source"]["complete"]]:
            failures.append(f"{path}: whatif --plan says {told} that a whole run is not known, of the cut recording and the whole one")
    known = not width(got["peak"]["allocated"]["range_bytes"])
    if known and not model["exact"]:
        failures.append(f"{path}: the model differs at event {model['diverged_at']}")
    if not got["self_check"]["exact"]:
        failures.append(f"{path}: self-check {got['self_check']}")
    before = any(got["before"][m + "_bytes"] for m in MEASURES)
    if got_all["source"]["complete"] == before or got["peak"]["lower_bound"] != before:
        failures.append(f"{path}: it does not say that something was there before")


paths = sorted(glob.glob(data + "/*.pickle.xz") + glob.glob(data + "/settings/*.xz") + glob.glob(data + "/deaths/*.xz") + glob.glob(data + "/kinds/*.pickle.xz") +
               glob.glob(data + "/formats/*.pickle"))
with tempfile.TemporaryDirectory() as scratch:
    for one in paths:
        check(one, scratch)
lib.finish(f"{len(paths)} recordings cut: the part that is left is exact, or within its range", least=4 * len(paths))
