#!/usr/bin/env python3
"""recipes.py PLIMSOLL DATA [--markdown]: runs with other libraries, measured (tests/gpu/recipes.py), next to what plan says of them.

A row of recipes.jsonl.xz that can be expressed (DeepSpeed's by its own file) is planned within 0.3 % of what was allocated at most and 8 % of what was
reserved, and no part of its basis says that nothing like it was measured.  --markdown prints the table of docs/evidence/accuracy.md.
"""
import json
import os
import sys
import tempfile

import lib

MOST, MOST_RESERVED = 0.003, 0.08
UNSEEN = ("bitsandbytes", "fused head", "steps in the backward pass", "Liger", "DeepSpeed", "on the host", "shares the work")

program, data = sys.argv[1:3]
markdown = "--markdown" in sys.argv
lib.start(program)


def peak_of(row, what):
    return max(phase[what] for phase in row["phases"])


def planned(row):
    options = ["--gpu", "H100", "--steps", "3", *row["options"].split()]
    if "deepspeed" not in row:
        return lib.planned(row["config"], *options)
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as f:
        json.dump(row["deepspeed"], f)
        f.flush()
        return lib.planned(row["config"], *options, "--from", f.name)


def line(row, plan):
    measured, planned = peak_of(row, "allocated_peak"), plan["peak"]["allocated_bytes"]
    reserved = plan["peak"]["reserved_bytes"] / peak_of(row, "reserved_peak") - 1
    why = f" ({row['not_expressible']})" if row["not_expressible"] else ""
    zero = row.get("deepspeed", {}).get("zero_optimization")
    more = f" --from`, with `{json.dumps(zero)}" if zero else ""
    before = row["before"]["allocated"]
    before = f"{100 * (before / measured - 1):+.1f} %" if before else "refused"
    return (f"| {row['run']}{why} | {measured / 2**20:,.1f} MiB | {before} | {100 * (planned / measured - 1):+.2f} % | {100 * reserved:+.1f} % "
            f"| `{row['options']}{more}` |")


def judge(row):
    plan = planned(row)
    if markdown:
        return line(row, plan)
    off = plan["peak"]["allocated_bytes"] / peak_of(row, "allocated_peak") - 1
    off_reserved = plan["peak"]["reserved_bytes"] / peak_of(row, "reserved_peak") - 1
    if row["not_expressible"] is None:
        lib.expect(abs(off) <= MOST, f"{row['name']}: {off:+.2%} allocated", plan["peak"])
        lib.expect(abs(off_reserved) <= MOST_RESERVED, f"{row['name']}: {off_reserved:+.2%} reserved", plan["peak"])
        for reason in plan["peak"]["reasons"]:
            lib.expect(not any(word in reason for word in UNSEEN), row["name"], "was measured, and:", reason)
    return None


table = lib.jobs(judge, lib.rows(os.path.join(data, "recipes.jsonl.xz")))
if markdown:
    print("| run | allocated at most | before | now | reserved | `plimsoll plan config.json --gpu H100` |\n|---|---|---|---|---|---|")
    print("\n".join(table))
else:
    lib.finish("runs with other libraries planned within 0.3 %")
