#!/usr/bin/env python3
"""published.py PLIMSOLL DATA [--markdown|--unseen]: memory that others published of their runs, and what plan says of them.

DATA is tests/data: published_memory.jsonl has a published number a row with the command's options, published.jsonl the
models' configurations.  A row that can be expressed stays within 5 %; of the others it is said why they cannot.
--markdown prints the table of docs/evidence/accuracy.md.

published_2.jsonl has rows that were written down before plan saw them (docs/evidence/published-2.md): `first` and `first_said`
are of the first run, `restated` and `restated_config` are what the source says and the first options did not, `missed` is the cause of a miss.  A row without
either reason stays within 7 %, a run that was out of memory does not fit, and one that was not does not die.  --unseen prints
the table.
"""
import json
import os
import shlex
import sys

import lib

MOST = 0.05
MOST_UNSEEN = 0.07
CLOSE = 0.02
PART = {"reserved": lambda p: p["peak"]["reserved_bytes"], "allocated": lambda p: p["peak"]["allocated_bytes"],
        "needed": lambda p: p["peak"]["needed_bytes"], "kv cache": lambda p: p["peak"]["categories"]["kv_cache_bytes"]}

program, data = sys.argv[1:3]
markdown = "--markdown" in sys.argv
unseen = "--unseen" in sys.argv
lib.start(program)


def rows_of(name):
    with open(os.path.join(data, name), encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def size(n):
    return f"{n / 1e9:.2f} GB"


def verdict(fits, dies):
    return "-" if fits is None else "fits" if fits else "dies" if dies else "close"


def shown(row, planned):
    return f"{planned / 1e9:.2f} ({100 * (planned / row['bytes'] - 1):+.1f} %)" if row["bytes"] else f"needs {planned / 1e9:.2f}"


class Counts:
    """Rows by how far off they are."""

    def __init__(self):
        self.rows = self.close = self.within = self.fits = self.dies = 0

    def add(self, row, planned, said):
        if row["bytes"]:
            off = abs(planned / row["bytes"] - 1)
            self.rows += 1
            self.close += off <= CLOSE
            self.within += off <= MOST_UNSEEN
            self.dies += said == "dies"
        else:
            self.fits += said == "fits"

    def __str__(self):
        return (f"{self.close} and {self.within} of {self.rows} within 2 and 7 %, {self.fits} false 'fits', "
                f"{self.dies} false 'does not fit'")


def check_unseen():
    """The rows of published_2.jsonl, which plan had not seen; prints the table if it is asked for."""
    before, after, every = Counts(), Counts(), Counts()
    source = None
    for row in rows_of("published_2.jsonl"):
        config = row.get("config") or configs[row["model"]]
        plan = lib.planned({**config, **row["changes"], **row.get("restated_config", {})}, *shlex.split(f"{row['options']} {row['restated'] or ''}"))
        said = verdict(plan["fits"], plan["dies_at"])
        planned = PART[row["of"]](plan) if row["bytes"] else plan["peak"]["needed_bytes"]
        name = f"{row['source']}, {row['model']}, {row['run']}"
        every.add(row, row["first"], row["first_said"])
        if not row["not_expressible"]:
            before.add(row, row["first"], row["first_said"])
            after.add(row, planned, said)
        if not row["not_expressible"] and not row["missed"]:
            off = planned / row["bytes"] - 1 if row["bytes"] else 0
            lib.expect(abs(off) <= MOST_UNSEEN, f"{name}: {off:+.1%}", plan["peak"])
            lib.expect(said != ("dies" if row["bytes"] else "fits"), f"{name}: {said}", plan["peak"])
        if not unseen:
            continue
        if row["source"] != source:
            source = row["source"]
            print(f"\n{source}:\n\n| model | run | published, GB | planned first | planned now | verdict |\n|---|---|---|---|---|---|")
        mark = " (a)" if row["not_expressible"] else " (b)" if row["missed"] else ""
        amount = f"{row['bytes'] / 1e9:.2f}" if row["bytes"] else "OOM"
        print(f"| {row['model']} | {row['run']}{mark} | {amount} | "
              f"{shown(row, row['first'])} | {shown(row, planned)} | {said} |")
    if unseen:
        print(f"\nAll rows, first run: {every}\nExpressible rows, first run: {before}\nExpressible rows, now: {after}")


configs = {row["name"]: row["config"] for row in rows_of("published.jsonl")}
source = None
for row in [] if unseen else rows_of("published_memory.jsonl"):
    if not markdown and row["not_expressible"]:
        continue
    plan = lib.planned({**configs[row["model"]], **row["changes"]}, *row["options"].split())
    planned = PART[row["of"]](plan)
    off = planned / row["bytes"] - 1
    if row["not_expressible"] is None:
        lib.expect(abs(off) <= MOST, f"{row['source']}, {row['model']}, {row['run']}: {off:+.1%}", plan["peak"])
    if not markdown:
        continue
    if row["source"] != source:
        source = row["source"]
        print(f"\n{source}:\n\n| model | run | published | planned | | `plimsoll plan config.json` |\n|---|---|---|---|---|---|")
    why = f" ({row['not_expressible']})" if row["not_expressible"] else ""
    print(f"| {row['model']} | {row['run']}{why} | {size(row['bytes'])} {row['of']} | {size(planned)} | {100 * off:+.1f} % | `{row['options']}` |")
if not markdown:
    check_unseen()
if not markdown and not unseen:
    lib.finish("published runs planned within 5 %")
