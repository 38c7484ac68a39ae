#!/usr/bin/env python3
"""whatif_made.py PLIMSOLL: whatif of programs that are made up here: beginnings that are lost, deaths, several GPUs, floors.

A random program is brought into PyTorch's order by whatif itself (--keep), so that the model gives each of these recordings
back.  What was wrong: what lived before a recording was left out where it did not fit; the floor left out the request that
was refused; a packing stood above what settings do with; a GPU without memory was taken; a sum did not add up.
"""
import copy
import os
import pickle
import random
import re
import sys
import tempfile

import lib
from made_recordings import BUILD, MIB, Card, user

lib.start(sys.argv[1])
UNIT = {"MiB": 1 << 20, "GiB": 1 << 30}


def write(folder, name, snapshot):
    path = os.path.join(folder, name + ".pickle")
    with open(path, "wb") as f:
        pickle.dump(snapshot, f, 4)
    return path


def churn(seed, count=120):
    """Blocks of many sizes that live for long or not, and weights that stay."""
    chance, card, live = random.Random(seed), Card(), []
    for n in range(10):
        card.alloc((20 + n) * MIB, BUILD)
    for _ in range(count):
        live.append(card.alloc(chance.choice((3, 11, 24, 60, 130)) * MIB + 512 * chance.randrange(4000), [user(20)]))
        while len(live) > 3 and chance.random() < 0.55:
            card.drop(live.pop(chance.randrange(len(live))))
    return card


def kept(folder, name, card, *bound):
    """The recording of a run of its requests under default settings."""
    path = os.path.join(folder, name + ".kept.pickle")
    lib.run("whatif", write(folder, name, card.snapshot()), "--keep", "", "-o", path, *bound)
    return path


def cut(path, share):
    """The same without the first events: a ring that was full."""
    snapshot = lib.load(path)
    events = snapshot["device_traces"][0]
    snapshot["device_traces"][0] = events[int(len(events) * share) :]
    return write(os.path.dirname(path), f"{os.path.basename(path)}.cut", snapshot)


def rows_of(told):
    return [told["as_recorded"], *told["runs"]]


def laws(path, told):
    """What must hold of any recording: nothing does with less than is asked for at once, and the floor is one."""
    lib.expect(told["self_check"]["exact"], path, "the recording made is none", told["self_check"])
    floor = told["floor"]
    lib.expect(floor["requested_peak_bytes"] <= floor["packed_peak_bytes"], path, floor)
    for run in rows_of(told):
        needs = run["smallest_limit_bytes"]
        lib.expect(needs is not None and floor["packed_peak_bytes"] <= needs, path, run["settings"], needs, floor)
        if run["outcome"] == "ok" and run["limit_bytes"] is not None:
            lib.expect(needs <= run["limit_bytes"], path, run["settings"], "survives what it does not do with")
        if run["outcome"] == "oom":
            lib.expect(run["oom_request_bytes"] and needs > run["limit_bytes"], path, run["settings"], "dies of what it does with")


def collects(run):
    return "garbage" in run["settings"]  # a share of the limit: there the limit decides


def beginning_lost(folder, seed):
    """What lived before comes first: it fits or it does not, and what is needed is not the limit's affair."""
    path = cut(kept(folder, f"churn{seed}", churn(seed)), 0.4)
    free = lib.result("whatif", path)
    laws(path, free)
    needs = {r["settings"]: r["smallest_limit_bytes"] for r in free["runs"]}
    before = lib.result("report", path)["devices"][0]["before"]["requested_bytes"]
    lib.expect(before > 200 * MIB, path, "nothing lived before", before)
    for limit in (before // 2, before, free["floor"]["requested_peak_bytes"], 2 * free["floor"]["requested_peak_bytes"]):
        told = lib.result("whatif", path, "--limit", limit)
        laws(path, told)
        lib.expect(limit >= before or told["withheld"], path, limit, "advice where nothing helps")
        for run in told["runs"]:
            if not collects(run):
                lib.expect(run["smallest_limit_bytes"] == needs[run["settings"]], path, limit, run["settings"],
                           run["smallest_limit_bytes"], "without it", needs[run["settings"]])
            if limit < before:
                lib.expect(run["outcome"] == "oom" and run["oom_event"] is None, path, limit, run["settings"], run["outcome"])
    own, least = free["as_recorded"]["smallest_limit_bytes"], min(n for s, n in needs.items() if "garbage" not in s)
    if own > least + 2 * MIB:  # what was there before is placed anew: one MiB is not a margin
        told = lib.result("whatif", path, "--limit", least + MIB)
        lib.expect(not told["recommended"] and "below the limit" in (told["withheld"] or ""), path, least, told["withheld"])
    text = lib.run("whatif", path, "--limit", before // 2).stdout
    lib.expect("does not fit" in text and "survives" not in text.split("\nNotes")[0], path, text)


def floor_is_below(folder, seed):
    """A packing of addresses can be worse than a setting that gives memory back."""
    laws(seed, lib.result("whatif", kept(folder, f"floor{seed}", churn(seed, 60))))


def death(folder):
    """The floor counts what was refused, and our allocator has to be given it, too."""
    card = Card()
    for n in range(10):
        card.alloc((20 + n) * MIB, BUILD)
    live = sum(20 + n for n in range(10)) * MIB
    card.fail(300 * MIB, [user(20)])
    card.events[-1]["device_free"] = 64 * MIB
    path = write(folder, "died", card.snapshot())
    told = lib.result("whatif", path, "--plan", "--limit", 400 * MIB)
    lib.expect(told["floor"]["requested_peak_bytes"] == live + 300 * MIB, path, told["floor"], live)
    lib.expect(told["floor"]["packed_peak_bytes"] >= live + 300 * MIB, path, told["floor"], live)
    for run in rows_of(told):
        lib.expect(run["outcome"] == "oom", path, run["settings"], "survives with less than was asked for")
    lib.expect(told["withheld"], path, "advice where nothing helps")


def two_gpus(folder):
    """The GPU that is reported is the one that died, or else the one that reserved most, whatever the others' events are."""
    small, large = Card(), Card()
    for _ in range(40):
        small.drop(small.alloc(MIB, [user(20)]))
    large.alloc(900 * MIB, BUILD)
    both = small.snapshot()
    other = copy.deepcopy(large.snapshot())
    for segment in other["segments"]:
        segment["device"] = 1
    both["segments"] += other["segments"]
    both["device_traces"] += other["device_traces"]
    path = write(folder, "two", both)
    told = lib.result("whatif", path)
    lib.expect(told["device"] == 1 and any("--device" in n for n in told["notes"]), path, told["device"], told["notes"])
    lib.expect("GPU 1 of 2, 2 events" in lib.run("whatif", path).stdout, path, "the GPU is not named")
    lib.expect(lib.result("whatif", path, "--device", 0)["device"] == 0, path, "--device is not heard")
    both["device_traces"][0] = both["device_traces"][0] + [
        {"action": "oom", "addr": 0, "size": 8 * MIB, "stream": 0, "time_us": 10**6, "device_free": 0, "frames": []}]
    told = lib.result("whatif", write(folder, "two died", both))
    lib.expect(told["device"] == 0 and told["death"], path, "the GPU that died is not told", told["device"])


def size(words):
    number, unit = words.split()
    return float(number) * UNIT[unit]


def waste_adds_up(folder):
    """Longer and longer blocks, none of which fits where the last one was: the parts of the title make its sum."""
    card = Card()
    for n in range(12):
        card.drop(card.alloc((100 + 30 * n) * MIB, [user(20)]))
    told = lib.result("report", kept(folder, "waste", card))["devices"][0]
    titles = [f["title"] for f in told["findings"] if f["id"] == "fragmentation"]
    if lib.expect(titles, "waste", "no finding", told["findings"]):
        told = [size(words) for words in re.findall(r"[\d.]+ [MG]iB", titles[0])]
        lib.expect(len(told) == 4 and abs(told[2] - told[1] - told[0]) < 0.02 * (1 << 30) and told[3] <= told[1], "waste", titles[0])


with tempfile.TemporaryDirectory() as where:
    lib.jobs(lambda seed: beginning_lost(where, seed), (1, 2, 3))
    lib.jobs(lambda seed: floor_is_below(where, seed), range(10, 22))
    death(where)
    two_gpus(where)
    waste_adds_up(where)
lib.finish("what whatif says of recordings without a beginning, of deaths, of several GPUs and of floors holds", least=40)
