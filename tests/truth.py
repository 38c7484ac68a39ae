#!/usr/bin/env python3
"""truth.py PLIMSOLL DATA [TRUTH]: numbers of recordings next to what PyTorch itself measured.

DATA is tests/data; TRUTH the full set of measured recordings, where it is at hand.
"""
import glob
import json
import os
import sys

import lib

MEASURES = ("requested_bytes", "active_bytes", "allocated_bytes", "reserved_bytes")
# What is known of each death: it lived, or died, under other settings with the same limit.
CAUSES = {"oom_step2": "capacity", "oom_opt_a": "capacity", "oom_batch": "capacity", "oom_bwd_a": "capacity",
          "oom_eval": "leak", "oom_moe": "fragmentation", "oom_frag": "fragmentation"}
# leak_losses keeps a few scalars: too little.
LEAKS = {"leak_graph", "leak_evalpile", "leak_rnn", "oom_eval"}

program, data = sys.argv[1:3]
lib.start(program)


def report(path, *options):
    return lib.run("report", "--json", path, *options).stdout


def peaks_of(truth):
    if "peaks" in truth:
        return truth["peaks"]
    stats = truth.get("stats") or truth["final"]
    return {m: stats[m + ".all.peak"] for m in MEASURES}


def expect(path, ok, what):
    lib.expect(ok, path, what)


def check_death(path, name, device, truth):
    limit = (truth.get("limit_gib") or truth["spec"]["limit_gib"]) * 2**30
    text = os.path.join(os.path.dirname(path), "..", "oom", name + ".txt")
    text = text if os.path.exists(text) else os.path.join(os.path.dirname(path), "oom", name + ".txt")
    told = json.loads(report(path, "--log", text))["devices"][0]["oom"][-1]["verdict"]
    verdict = device["oom"][-1]["verdict"]
    for v in (verdict, told):
        expect(path, v["cause"] == CAUSES[name], f"cause {v['cause']}, not {CAUSES[name]}")
        expect(path, v["bound_by"] == "limit", f"bound by {v['bound_by']}")
        expect(path, v["bound_bytes"]["low"] <= limit <= v["bound_bytes"]["high"], "the limit is outside of its interval")
    width = [v["bound_bytes"]["high"] - v["bound_bytes"]["low"] for v in (verdict, told)]
    expect(path, width[1] <= width[0], "the text made the interval wider")
    segment = device["oom"][-1]["segment_bytes"]
    expect(path, f"Tried to allocate {segment / 2**20:.2f} MiB" in truth["message"] or
           f"Tried to allocate {segment / 2**30:.2f} GiB" in truth["message"], "segment_bytes is not what PyTorch tried")


def check(path):
    name = os.path.basename(path)[: -len(".pickle.xz")]
    with open(path[: -len(".pickle.xz")] + ".json", encoding="utf-8") as f:
        truth = json.load(f)
    text = report(path)
    result = json.loads(text)
    device = result["devices"][0]
    for measure, want in peaks_of(truth).items():
        expect(path, device["peak"][measure] == want, f"peak {measure} {device['peak'][measure]}, PyTorch says {want}")
    expect(path, device["self_check"]["exact"], "the self-check is not exact")
    expect(path, (len(device["oom"]) > 0) == (truth.get("outcome") == "oom") or "settings" in path or name == "graph", "deaths")
    leaks = {f["id"] for f in device["findings"] if f["severity"] == "error"} & {"leak"}
    if "settings" not in path:
        expect(path, bool(leaks) == (name in LEAKS), f"leak findings: {sorted(leaks)}")
    if name in CAUSES:
        check_death(path, name, device, truth)
        expect(path, report(path) == text, "two runs print different bytes")


def recordings(base):
    """By their path below it: what is in both sets is one recording."""
    found = [p for folder in ("", "kinds", "settings") for p in glob.glob(os.path.join(base, folder, "*.pickle.xz"))]
    return {os.path.relpath(p, base): p for p in found}


known = recordings(data)
if len(sys.argv) > 3 and sys.argv[3]:
    known.update(recordings(os.path.join(sys.argv[3], "snapshots")))
paths = [known[k] for k in sorted(known)]
lib.jobs(check, paths)
lib.finish(f"{len(paths)} recordings: all as PyTorch measured", least=len(paths))
