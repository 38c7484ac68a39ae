#!/usr/bin/env python3
"""published.py PLIMSOLL DATA [--markdown]: memory that others published of their runs, next to what plan says of them.

DATA is tests/data: published_memory.jsonl has a published number a row with the command's options, published.jsonl the
models' configurations.  A row that can be expressed stays within 5 %; of the others it is said why they cannot.
--markdown prints the table of docs/evidence/accuracy.md.
"""
import json
import os
import sys

import lib

MOST = 0.05
PART = {"reserved": lambda p: p["peak"]["reserved_bytes"], "allocated": lambda p: p["peak"]["allocated_bytes"],
        "needed": lambda p: p["peak"]["needed_bytes"], "kv cache": lambda p: p["peak"]["categories"]["kv_cache_bytes"]}

program, data = sys.argv[1:3]
markdown = "--markdown" in sys.argv
lib.start(program)


def rows_of(name):
    with open(os.path.join(data, name), encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def size(n):
    return f"{n / 1e9:.2f} GB"


configs = {row["name"]: row["config"] for row in rows_of("published.jsonl")}
source = None
for row in rows_of("published_memory.jsonl"):
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
    lib.finish("published runs planned within 5 %")
