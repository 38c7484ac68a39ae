#!/usr/bin/env python3
"""digests.py PLIMSOLL: jobs of 8, 128 and 1,024 ranks with planted differences, as recordings and as digests.

What is planted must be reported, and nothing else; ranks that differ by chance alone are not reported at all; and the digests say what
the recordings say.
"""
import json
import os
import pickle
import random
import shutil
import sys
import tempfile

import lib

lib.start(sys.argv[1])
MIB = 1 << 20
BASE = 0x7F0000000000
top = tempfile.TemporaryDirectory()
CHANCE_JOBS, CHANCE_RANKS = 100, 128


def frames(line, function="train"):
    return [{"name": function, "filename": "/home/user/train.py", "line": line}]


def recording(activations, leak=0, dies=None, steps=12, late_us=0, extra_line=0, pools=False, told=None):
    """A program of one loop; dies: the request that is refused in its last step."""
    events, time = [], 1_700_000_000_000_000 + late_us
    places = {}

    def add(action, size, line, key, **more):
        nonlocal time
        time += 10
        if key not in places:
            places[key] = BASE + sum(s for _, s in places.values())
            places[key] = (places[key], size)
            events.append({"action": "segment_alloc", "addr": places[key][0], "size": size, "stream": 0, "time_us": time,
                           "frames": frames(line)})
        event = {"action": action, "addr": places[key][0], "size": size, "stream": 0, "time_us": time, "frames": frames(line), **more}
        if pools:
            event["pool_id"] = (0, 0)
        events.append(event)

    add("alloc", 64 * MIB, 5, "weights")
    for step in range(steps):
        add("alloc", activations, 10, "activations")
        add("alloc", 32 * MIB, 11, "temporary")
        if extra_line:
            add("alloc", 16 * MIB, extra_line, "extra")
        if leak:
            add("alloc", leak, 20, f"leak{step}")
        if dies and step == steps - 1:
            time += 10
            events.append({"action": "oom", "device_free": 1 * MIB, "size": dies, "stream": 0, "time_us": time, "frames": frames(10)})
        for action in ("free_requested", "free_completed"):
            if extra_line:
                add(action, 16 * MIB, extra_line, "extra")
            add(action, 32 * MIB, 11, "temporary")
            add(action, activations, 10, "activations")
    live = {"weights": 64 * MIB, **({f"leak{s}": leak for s in range(steps)} if leak else {})}
    segments = [{"device": 0, "address": at, "total_size": size, "allocated_size": live.get(key, 0), "active_size": live.get(key, 0),
                 "stream": 0, "segment_type": "large", "blocks": [
                     {"address": at, "size": size, "requested_size": size, "frames": frames(5),
                      "state": "active_allocated" if key in live else "inactive"}]} for key, (at, size) in places.items()]
    made = {"segments": segments, "device_traces": [events]}
    if told is not None:
        made["plimsoll_sources"] = json.dumps({"schema": "plimsoll-sources/1", "job": {
            "rank": told, "world": 16, "place": f"pp {told // 4}, tp {told % 4}"}, "files": {}})
    return made


def job(name, ranks, planted):
    """A folder; planted: by rank what recording() is asked for, None: no file, bytes: these are the file."""
    folder = os.path.join(top.name, name)
    os.mkdir(folder)
    made = {}
    for rank in range(ranks):
        how = planted(rank)
        path = os.path.join(folder, f"rank{rank}.pickle")
        if how is None:
            continue
        if isinstance(how, bytes):
            with open(path, "wb") as f:
                f.write(how)
            continue
        key = json.dumps(how, sort_keys=True)
        if key in made:
            os.link(made[key], path)
            continue
        made[key] = path
        with open(path, "wb") as f:
            pickle.dump(recording(**how), f, protocol=4)
    return folder


def digested(folder, many=8):
    """The digests of a job in a folder of their own, of so many recordings each, as nodes make them."""
    to = folder + ".digests"
    os.mkdir(to)
    names = sorted(os.listdir(folder))
    for i in range(0, len(names), many):
        lib.run("report", "--digest", *[os.path.join(folder, n) for n in names[i:i + many]], "-o", os.path.join(to, f"node{i}.digest"))
    return to


def told(folder, *options, codes=(0,)):
    return lib.result("report", folder, *options, codes=codes)


def unlike(report):
    return {o["rank"] for o in report["outliers"]}


NORMAL = {"activations": 256 * MIB}

# one longer batch that dies, one that stops for it, one that leaks
for ranks in (8, 128, 1024):
    late = {ranks - 1: {"activations": 512 * MIB, "dies": 700 * MIB}, 3: {"activations": 256 * MIB, "leak": 12 * MIB}}
    folder = job(f"planted{ranks}", ranks, lambda rank: late.get(rank, NORMAL))
    whole, reduced = told(folder), told(digested(folder))
    where = f"{ranks} ranks"
    lib.expect(unlike(whole) == {3, ranks - 1}, where, "unlike:", unlike(whole))
    lib.expect(whole["first_death"]["rank"] == ranks - 1, where, "another died first")
    lib.expect(f"rank {ranks - 1} died first" in whole["sentence"] and "train.py:10" in whole["sentence"], where, whole["sentence"])
    lib.expect([(x["rank"], "train.py:20" in x["why"]) for x in whole["also"]] == [(3, True)], where, "told in full, too:",
               [(x["rank"], x["why"]) for x in whole["also"]])
    lib.expect(whole["also"] and '"train.py:20' in json.dumps(whole["also"][0]["report"]).replace("/home/user/", ""), where, "the leak in full")
    leaks = [o for o in whole["outliers"] if o["rank"] == 3]
    lib.expect(leaks and (leaks[0]["frame"] or "").startswith("/home/user/train.py:20"), where, "the leak's line:", leaks)
    for part in ("rows", "first_death", "sentence", "groups", "outliers", "allocated", "reserved", "excess"):
        lib.expect(whole[part] == reduced[part], where, "from digests another", part)
    lib.expect(reduced["worst"] is None and "not reported in full" in " ".join(reduced["notes"]), where, "a recording that is not there")

# one that died of another's failure: refused a moment later, while the others stopped a step earlier; nothing else is unlike
late = {2: {"activations": 512 * MIB, "dies": 700 * MIB}, 5: {**NORMAL, "late_us": 200, "dies": 256 * MIB}}
second = told(job("second", 8, lambda rank: late.get(rank, {**NORMAL, "steps": 11})))
lib.expect(unlike(second) == {2} and second["sentence"].startswith("rank 2 died first"), "second", second["sentence"], second["outliers"])
lib.expect((second["first_death"]["next_rank"], second["first_death"]["certain"]) == (5, False), "second", second["first_death"])

# digests next to their recordings: each is read once, and the worst is reported in full
beside = job("beside", 8, lambda rank: {"activations": 512 * MIB, "dies": 700 * MIB} if rank == 2 else NORMAL)
alone = told(beside)
lib.run("report", "--digest", beside, "-o", os.path.join(beside, "all.digest"))
both = told(beside)
lib.expect({k: v for k, v in both.items() if k != "worst"} == {k: v for k, v in alone.items() if k != "worst"}, "beside", "another answer")
lib.expect(both["worst"]["devices"] == alone["worst"]["devices"], "beside", "the worst in full is another")
for n in range(4):
    lib.run("pack", os.path.join(beside, f"rank{n}.pickle"))
lib.expect(told(beside)["rows"] == both["rows"], "beside", "packed ones are read again")
os.unlink(os.path.join(beside, "all.digest"))
lib.expect([r["path"].rsplit(".", 1)[1] for r in told(beside)["rows"]] == ["plim"] * 4 + ["pickle"] * 4, "beside", "not each is read once")

# packed ones are read several at a time: what they need is known before
small = job("small", 12, lambda rank: {**NORMAL, "steps": 400})
for name in sorted(os.listdir(small)):
    lib.run("pack", os.path.join(small, name))
    os.unlink(os.path.join(small, name))
report = told(small)
lib.expect(report["read"] == 12 and not report["notes"], "packed", report["notes"])

# a stage with larger activations is a group, by its name, and no outlier
stage = job("stage", 128, lambda rank: {"activations": (384 if rank // 32 == 2 else 256) * MIB})
report = told(stage, "--layout", "tp=8,dp=4,pp=4")
lib.expect(not report["outliers"], "stage", report["outliers"])
lib.expect([(g["ranks"], g["name"]) for g in report["groups"]] == [(96, None), (32, "pp 2")], "stage", report["groups"])
lib.expect(report["rows"][70]["place"] == "pp 2, dp 0, tp 6", "stage", report["rows"][70]["place"])
lib.run("report", stage, "--layout", "tp=,pp", codes=(2,))

# ranks know themselves: no name has a number, or another one; their stages are named as they are without --layout
knowing = job("knowing", 16, lambda rank: {"activations": (384 if rank // 4 == 2 else 256) * MIB, "told": rank})
for rank in range(16):
    os.rename(os.path.join(knowing, f"rank{rank}.pickle"), os.path.join(knowing, f"{'abcdefghijklmnop'[15 - rank]}.step400.pickle"))
whole = told(knowing)
lib.expect([(r["rank"], r["rank_from"], r["place"]) for r in whole["rows"]] ==
           [(rank, "recording", f"pp {rank // 4}, tp {rank % 4}") for rank in range(16)], "knowing", whole["rows"][3])
lib.expect([(g["ranks"], g["name"]) for g in whole["groups"]] == [(12, None), (4, "pp 2")], "knowing", whole["groups"])
reduced = told(digested(knowing))
for part in ("rows", "groups", "sentence"):
    lib.expect(whole[part] == reduced[part], "knowing", "from digests another", part)
lib.expect(not [r["place"] for r in told(knowing, "--redact")["rows"] if r["place"]], "knowing", "places are shown redacted")

# a recording from the standard input is called by its digest
with open(os.path.join(beside, "rank2.pickle"), "rb") as f:
    lib.run("report", "--digest", "-", "-o", os.path.join(top.name, "rank7.digest"), stdin=f.read(), text=False)
piped = told(os.path.join(top.name, "rank7.digest"))["rows"][0]
lib.expect((piped["rank"], piped["rank_from"]) == (7, "name") and piped["died"], "piped", piped)

# one runs another program; releases are mixed; ranks are missing, one file is torn
mixed = job("mixed", 64, lambda rank: None if rank in (9, 40) else b"\x80\x04\x95torn" if rank == 11 else
            {**NORMAL, "extra_line": 30 if rank == 20 else 0, "pools": rank >= 32})
report = told(mixed, codes=(3,))
notes = " ".join(report["notes"])
lib.expect(unlike(report) == {20}, "mixed", "unlike:", report["outliers"])
lib.expect("2 ranks have no recording (first: rank 9)" in notes and "different releases" in notes, "mixed", report["notes"])
lib.run("report", "--digest", mixed, "-o", os.path.join(top.name, "mixed.digest"), codes=(3,))
lib.expect(not os.path.exists(os.path.join(top.name, "mixed.digest")), "mixed", "a digest hides what could not be read")

# chance: sizes that vary by 4 % of one another, normally or by doublings of a few batches
whole = os.path.join(top.name, "one.digest")
lib.run("report", "--digest", os.path.join(beside, "rank0.pickle"), "-o", whole)
with open(whole, encoding="utf-8") as f:
    row = json.loads(f.readline())
dice = random.Random(26)


def chance(number):
    path = os.path.join(top.name, f"chance{number}.digest")
    with open(path, "w", encoding="utf-8") as out:
        for rank in range(CHANCE_RANKS):
            peak = int((dice.gauss(1, 0.04) if number % 2 else 1 + 0.1 * dice.random()) * 400 * MIB) // 512 * 512
            spare = int(dice.gauss(1, 0.1) * 80 * MIB)
            out.write(json.dumps({**row, "rank": rank, "path": f"rank{rank}.pickle", "allocated_peak_bytes": peak,
                                  "reserved_peak_bytes": peak + spare}) + "\n")
    return told(path)["outliers"]


false = [o for n in range(CHANCE_JOBS) for o in chance(n)]
lib.expect(not false, "chance", f"{len(false)} ranks told of {CHANCE_JOBS} jobs where there is nothing:", false[:3])

# what is not a digest, or is damaged
for name, text, says in (("other", '{"schema": "report/2"}', "not a digest"), ("cut", json.dumps(row)[:200], " end"),
                         ("odd", json.dumps({**row, "events": "many"}), "of another kind")):
    path = os.path.join(top.name, name + ".digest")
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    lib.expect(says in lib.run("report", path, codes=(3,)).stdout, name, lib.run("report", path, codes=(3,)).stdout)
shutil.rmtree(top.name)
os.mkdir(top.name)
lib.finish("digests: what was planted is told, and nothing else", least=200)
