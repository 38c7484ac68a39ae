#!/usr/bin/env python3
"""offload.py PLIMSOLL DATA: what is kept in the machine's own memory, next to runs that were measured with it.

DATA/offload.jsonl.xz has runs with saved tensors on the host, FSDP's CPU offload and a phase that saves.  `host` is what
PyTorch had pinned in the process, `rss` the process's VmRSS, each when a phase ended.
"""
import os
import sys

import lib

lib.start(sys.argv[1])
data = sys.argv[2]

# How far a plan may be off: the GPU's peak of one process, and of several; what is pinned.  The process as a whole is
# planned for its highest moment, which `rss` at the ends of phases misses: an optimizer's temporaries on the host.
ALONE, SHARED, PINNED, PROCESS = 0.005, 0.001, 0.002, (-0.03, 0.15)
ACTIVATIONS = {"pin": "pinned", "plain": "save-on-cpu"}
SAVES = {"sd": "torch", "pre": "pretrained", "full": "full", "dcp": "sharded"}
STAGING = 4 << 20  # pinned bytes of the loop itself: what clipping and collectives copy


def options_of(spec):
    options = ["--batch", spec["batch"], "--seq", spec["seq"], "--steps", 3]
    precision = spec.get("precision", "bf16_autocast").replace("fsdp_mp", "bf16_autocast")
    options += ["--precision", precision.replace("_", "-")]
    if "parallel" in spec:
        zero2 = "-zero2" if spec.get("strategy") == "SHARD_GRAD_OP" else ""
        options += ["--parallel", spec["parallel"] + zero2, "--gpus", spec["gpus"], "--load", "whole"]
    for on, option in ((spec.get("ckpt"), "--checkpointing"), (spec.get("offload"), "--offload-params"),
                       (spec.get("soc"), "--offload-activations=" + ACTIVATIONS.get(spec.get("soc"), "")),
                       (spec.get("save"), "--save=" + SAVES.get(spec.get("save"), ""))):
        if on:
            options.append(option)
    return options


def check(name, what, planned, measured, least, most):
    off = planned / measured - 1
    print("%-60s %-8s %+.2f %%" % (name, what, 100 * off))
    lib.expect(least <= off <= most, name, "%s is planned as %d, and was %d" % (what, planned, measured))


def compare(row):
    p, name = lib.planned(row["config"], *options_of(row["spec"]), codes=(0,)), row["spec"]["name"]
    planned = {f["phase"]: f for f in p["phases"]}
    alone = "parallel" not in row["spec"]
    most = ALONE if alone else SHARED
    check(name, "GPU", p["peak"]["allocated_bytes"], max(f["allocated_peak"] for f in row["phases"]), -most, most)
    for f in row["phases"]:
        if alone:
            check(name, f["phase"], planned[f["phase"]]["allocated_peak_bytes"], f["allocated_peak"], -ALONE, ALONE)
    host = p["host"]
    pinned = max(f["host"] for f in row["phases"])
    if pinned > STAGING:
        check(name, "pinned", host["pinned_bytes"] / host["processes"], pinned, -PINNED, PINNED)
    elif host["pinned_bytes"]:
        lib.fail(name, "%d bytes are planned to be pinned, and none were" % host["pinned_bytes"])
    once = host["saving_bytes"] if row["spec"].get("save") == "full" else 0  # by the first rank, whose process it is
    if row["spec"].get("save") not in ("sd", "pre"):  # their copies were gone when the phase ended
        check(name, "process", (host["bytes"] - once) / host["processes"] + once, max(f["rss"] for f in row["phases"]), *PROCESS)
    if sum(host[k] for k in host if k.endswith("_bytes") and k not in ("pinned_bytes", "range_bytes", "limit_bytes")) != host["bytes"]:
        lib.fail(name, "the parts of the machine's memory do not add up")


rows = lib.rows(os.path.join(data, "offload.jsonl.xz"))
lib.jobs(compare, rows)
lib.finish("offload: as measured", least=len(rows))
