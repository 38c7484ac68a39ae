#!/usr/bin/env python3
"""traces.py PLIMSOLL DATA: committed traces (plan --trace on a machine without a GPU) next to runs that were measured.

DATA/traces/NAME.json.gz are traces of the rows NAME of DATA/plan.jsonl.xz, of families that have tables: each phase's peak,
and the tables' plan of the same run; and of DATA/plan_traced.jsonl.xz, of families that have none; of DATA/plan_ranks.jsonl, of two GPUs.  They are replayed here without Python's torch; the tracer itself is tested in the second part of CI.
"""
import glob
import json
import lzma
import os
import statistics
import subprocess
import sys

plimsoll, data = sys.argv[1:3]
PHASE, RUN, TABLES = 0.02, 0.01, 0.002  # a phase's peak, the run's; against our own tables, the run's
CONVOLVED = 0.025  # with convolutions: cuDNN's workspaces are in the range, not in the number
MENDED = 0.002  # of a set whose causes were fixed: traced again
failures = []


def measured():
    rows = {}
    for name in ("plan.jsonl.xz", "plan2.jsonl.xz"):
        path = os.path.join(data, name)
        if os.path.exists(path):
            with lzma.open(path, "rt") as f:
                rows.update((row["spec"]["name"], row) for row in map(json.loads, f))
    with lzma.open(os.path.join(data, "plan_traced.jsonl.xz"), "rt") as f:
        rows.update((row["name"], {**row, "n_params": row["parameters"]}) for row in map(json.loads, f))
    rows.update((row["name"], {**row, "n_params": row["parameters"]}) for row in lines("plan_ranks.jsonl"))
    return rows


def lines(name):
    with open(os.path.join(data, name), encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def plan(*arguments):
    out = subprocess.run([plimsoll, "plan", "--json", *arguments], capture_output=True, text=True, check=True)
    return json.loads(out.stdout)


def by_tables(row, folder):
    spec = row["spec"]
    path = os.path.join(folder, "config.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(row["config"], f)
    return plan(path, "-b", str(spec["batch"]), "-s", str(spec["seq"]), "-p", spec["precision"].replace("_", "-"))


def check(what, got, expected, most):
    off = got / expected - 1
    if abs(off) > most:
        failures.append(f"{what}: {got} beside {expected}, {off:+.2%}")


def blind(name):
    """Models that were planned before they were measured (docs/evidence/trace.md): the table's numbers."""
    rows = lines(name)
    for convolutions in (False, True):
        off = sorted(abs(r["planned_peak"] / r["measured_peak"] - 1) for r in rows if r["convolutions"] is convolutions)
        print(f"{name}: planned blind, with{'' if convolutions else 'out'} convolutions: {len(off)} models, median {statistics.median(off):.2%}, "
              f"{sum(e <= 0.005 for e in off)} within 0.5 %, {sum(e <= 0.03 for e in off)} within 3 %, worst {off[-1]:.1%}")
        if statistics.median(off) > 0.0015:
            failures.append(f"{name}: the table of models planned blind does not hold")
    for r in rows:
        check(f"{r['name']}, mended", r.get("mended_peak", r["measured_peak"]), r["measured_peak"], MENDED)
        if r["parameters"] != r["planned_parameters"]:
            failures.append(f"{r['name']}: {r['planned_parameters']} parameters, not {r['parameters']}")


def ranks():
    """Jobs of two GPUs: the requests were traced before the runs, and went through the planner's allocator after them."""
    for r in lines("plan_ranks.jsonl"):
        requested, planned = (r[k] / r["measured_peak"] - 1 for k in ("requested_peak", "planned_peak"))
        print(f"{r['name']}, {r['parallel']}, rank {r['rank']}: {r['measured_peak'] / 2**20:,.1f} MiB measured; requests alone {requested:+.2%}, "
              f"through the allocator {planned:+.2%}")
        check(f"{r['name']}, rank {r['rank']}", r["planned_peak"], r["measured_peak"], 0.0025)
        if r["parameters"] != r["planned_parameters"]:
            failures.append(f"{r['name']}: {r['planned_parameters']} parameters, not {r['parameters']}")


def main():
    import tempfile

    rows, files = measured(), sorted(glob.glob(os.path.join(data, "traces", "*.json.gz")))
    worst = 0.0
    for path in files:
        name = os.path.basename(path)[:-8]
        row, traced = rows[name], plan(path)
        peaks = {p["phase"]: p["allocated_peak"] for p in row["phases"]}
        if traced["model"]["parameters"] != row["n_params"]:
            failures.append(f"{name}: {traced['model']['parameters']} parameters, not {row['n_params']}")
        seen = [(p["allocated_peak_bytes"], peaks[p["phase"]], p["phase"]) for p in traced["phases"] if p["phase"] in peaks]
        for got, expected, phase in seen:
            check(f"{name} {phase}", got, expected, CONVOLVED if name == "unet" else PHASE)
        most, expected = max(s[0] for s in seen), max(s[1] for s in seen)
        worst = max(worst, abs(most / expected - 1))
        check(f"{name}, the run", most, expected, RUN if name != "unet" else CONVOLVED)
        if not traced["peak"]["needed_range_bytes"]["low"] <= max(expected, traced["peak"]["needed_bytes"]) <= (
                traced["peak"]["needed_range_bytes"]["high"]):
            failures.append(f"{name}: {expected} is not in {traced['peak']['needed_range_bytes']}")
        if "spec" not in row:  # no table
            continue
        with tempfile.TemporaryDirectory() as folder:
            check(f"{name} against the tables", traced["peak"]["allocated_bytes"],
                  by_tables(row, folder)["peak"]["allocated_bytes"], TABLES)
    if not files:
        failures.append("there are no traces")
    if sum(map(os.path.getsize, files)) > 300 << 10:
        failures.append("the traces are larger than 300 KiB")
    print(f"{len(files)} traces, worst peak {worst:.2%} off what was measured")
    for name in ("plan_blind.jsonl", "plan_blind5.jsonl", "plan_blind6.jsonl"):
        blind(name)
    ranks()
    print("\n".join(failures))
    return bool(failures)


sys.exit(main())
