#!/usr/bin/env python3
"""shaken.py PLIMSOLL DATA: what was recorded, with samples missing, from later on, cut short, at half the rate, each number a little off.

However a recording is shaken, a verdict may become less sure, or undecided; none may become sure that is neither the truth nor what was
said of the recording as it is at about that time.  Seeds are the recordings' names.
"""
import collections
import copy
import json
import os
import random
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, ".."))
from lib import expect, finish, jobs, run, start  # noqa: E402
from recorded import PACED, TRUTH, recordings, samples, settled, span_of_work  # noqa: E402

ABOUT_S = 3  # half of a window and what verdicts are apart
# It fills memory, and sleeps then: both may be said of a window that has some of each.
ALSO = {"hold": {"sleeping"}}
counts = collections.Counter()


def merged(rows):
    """Samples that become one: levels are those of the last one, what GPM shows is a mean over the time between two."""
    last = dict(rows[-1])
    told = [r["gpm"] for r in rows if "gpm" in r]
    if told:
        last["gpm"] = {k: sum(g.get(k, 0) for g in told) / len(told) for k in told[-1]}
    return last


def thinned(rows, keeps):
    """Those whose number is kept, with what was reported in between."""
    out, pending = [], []
    for i, row in enumerate(rows):
        pending.append(row)
        if keeps(i):
            out.append(merged(pending))
            pending = []
    return out


class Scale:
    """Each number by a factor of its own, and another one at each sample; counters grow by so much."""

    def __init__(self, dice, most):
        self.dice, self.most, self.factors, self.counters = dice, most, {}, {}

    def factor(self, key):
        own = self.factors.setdefault(key, self.dice.uniform(-self.most, self.most) / 2)
        return 1 + own + self.dice.uniform(-self.most, self.most) / 2

    def level(self, key, value, most=None):
        moved = value * self.factor(key)
        return moved if most is None else min(most, moved)

    def counter(self, who, key, value):
        was, told = self.counters.get((who, key), (value, value))
        told += max(0, value - was) * self.factor(key)
        self.counters[who, key] = value, told
        return int(told)

    def row(self, row):
        row = copy.deepcopy(row)
        if isinstance(row.get("power_mw"), (int, float)):
            row["power_mw"] = self.level("power_mw", row["power_mw"])
        for key, value in row.get("gpm", {}).items():
            row["gpm"][key] = self.level(key, value, None if key.startswith("pcie") else 100)
        if row.get("util"):  # it was rounded: so may it have been before
            row["util"] = min(100, round(self.level("util", row["util"] + self.dice.uniform(-0.5, 0.5))))
        for p in row.get("tree", []):
            for key in "utime", "stime":
                p[key] = self.counter((p["pid"], p.get("start")), key, p[key])
            for key, value in p.get("io", {}).items():
                p["io"][key] = self.counter((p["pid"], p.get("start")), key, value)
        for t in row.get("threads", []):
            t[3:5] = self.counter(t[0], "utime", t[3]), self.counter(t[0], "stime", t[4])
        return row


def scaled(rows, dice, most):
    scale = Scale(dice, most)
    return [scale.row(r) for r in rows]


def shaken(rows, dice, work):
    """(how, rows)"""
    later = rows[dice.randrange(1, max(2, len(rows) // 3)):]
    yield "samples missing", thinned(rows, lambda i: not i or dice.random() < 0.75)
    yield "from later on", later
    yield "15 s of it", [r for r in rows if work and work[0] + 1 <= r["t"] <= work[0] + 16]
    yield "half the rate", thinned(rows, lambda i: i % 2)
    yield "5 % off", scaled(rows, dice, 0.05)
    yield "10 % off", scaled(rows, dice, 0.1)
    yield "20 % off", scaled(rows, dice, 0.2)
    yield "all of these", scaled(thinned(later, lambda i: dice.random() < 0.75), dice, 0.1)


def windows(rows):
    """What is said of them; too few samples: nothing."""
    text = "".join(json.dumps(r) + "\n" for r in rows).encode()
    return json.loads(run("watch", "--replay", "-", "--json", stdin=text, text=False).stdout)["jobs"][0]["windows"] if len(rows) > 1 else []


def stands(name, rows, work, gpm):
    """A recording as it is, and shaken."""
    kind = name.rsplit("_run", 1)[0]
    truth = set(TRUTH[kind].split()) | ALSO.get(kind, set())
    dice = random.Random(name)
    if not gpm:
        rows = [{k: v for k, v in r.items() if k != "gpm"} for r in rows]
        truth |= {"host_paced"} if PACED & truth else set()
    said = windows(rows)
    for how, moved in shaken(rows, dice, work):
        for w in windows(moved):
            near = {s["state"] for s in said if abs(s["time"] - w["time"]) <= ABOUT_S}
            works = work and work[0] + settled(name) <= w["time"] <= work[1]
            fits = w["state"] in truth | {"undecided"} | (set() if works else near)
            counts[how, gpm, "fits" if fits else w["confidence"]] += 1
            expect(fits or w["confidence"] != "high", name, how, "with" if gpm else "without", "GPM: surely", w["state"], "at",
                   w["time"] - rows[0]["t"])


def shake(path):
    name = os.path.basename(path)
    rows = samples(path)
    work = span_of_work(path, name.rsplit("_run", 1)[0], rows)
    for gpm in True, False:
        stands(name, rows, work, gpm)


def main():
    program, data = sys.argv[1:3]
    start(program)
    with tempfile.TemporaryDirectory() as scratch:
        jobs(shake, recordings(data, scratch))
    for how in sorted({key[0] for key in counts}):
        print("#", how, {("with GPM" if gpm else "without", k): counts[how, gpm, k] for gpm in (True, False) for k in ("fits", "medium", "low", "high")})
    expect(sum(counts.values()) > 5000, "windows", sum(counts.values()))
    finish("watch, shaken", least=500)


main()
