#!/usr/bin/env python3
"""plan_kept.py PLIMSOLL DATA: a plan that is kept as a snapshot says what the plan says.

Of one measured row of each architecture and kind, `report` of the kept snapshot must find the plan's allocated and reserved
peak to the byte, the categories (from stacks and lives alone), the steps, and the death.

Python's own pickle must read it: labels (user_metadata) add up to the plan's categories, annotations are its phases.
"""
import collections
import json
import os
import pickle
import sys
import tempfile

import lib

lib.start(sys.argv[1])
data = sys.argv[2]
KINDS = ("attn", "ckpt", "lora", "accum", "eval_batch", "opt", "precision", "kind", "new")
# how far a category may be off, of the peak: what stacks and lives tell is an inference
CATEGORY = 0.02


def rows():
    seen = set()
    for row in lib.rows(os.path.join(data, "plan.jsonl.xz")):
        spec = row["spec"]
        kind = (spec["family"], tuple(spec.get(k) for k in KINDS)) if spec["family"] == "llama" else spec["family"]
        if kind not in seen and spec["size"] != "real":
            seen.add(kind)
            yield row


def options_of(spec):
    options = ["--batch", str(spec["batch"]), "--seq", str(spec.get("seq", 64))]
    if spec.get("kind") == "infer":
        generate = ["--task", "generate", "--new-tokens", str(spec.get("new")), "--eval-batch", str(spec["batch"])]
        return options + (generate if spec.get("new") else ["--task", "infer"])
    for key, option in (("attn", "--attention"), ("lora", "--lora"), ("accum", "--accumulate"), ("eval_batch", "--eval-batch")):
        if spec.get(key):
            options += [option, str(spec[key])]
    options += ["--precision", spec.get("precision", "bf16_autocast").replace("_", "-")]
    options += ["--optimizer", spec.get("opt", "adamw").replace("sgdm", "sgd-momentum").replace("_", "-")]
    return options + (["--checkpointing"] if spec.get("ckpt") else [])


def keep(config, kept, *options):
    return lib.result("plan", config, "-o", kept, *options, codes=(0, 1)), lib.result("report", kept)


def categories(name, plan, report):
    """Of the peak: the snapshot's labels give them exactly, the stacks nearly."""
    device = report["devices"][0]
    told = device["at_peak"]["categories"]
    planned = plan["peak"]["categories"]
    rounding = planned["rounding_bytes"]
    for key, bytes_ in told.items():
        if key in ("unknown", "buffer", "temporary", "autograd_detail", "before_recording"):
            continue
        off = abs(bytes_ - planned[key + "_bytes"]) - rounding
        if off > CATEGORY * plan["peak"]["allocated_bytes"]:
            lib.fail(name, f"{key} {bytes_}, planned {planned[key + '_bytes']}")


def labels(name, plan, kept):
    with open(kept, "rb") as f:
        snapshot = pickle.load(f)
    live, best, most = collections.Counter(), {}, 0
    sizes = {}
    for event in snapshot["device_traces"][0]:
        if event["action"] == "alloc":
            sizes[event["addr"]] = (event["user_metadata"], (event["size"] + 511) // 512 * 512)
            live[event["user_metadata"]] += sizes[event["addr"]][1]
            if sum(live.values()) > most:
                most, best = sum(live.values()), dict(live)
            if not event["frames"] or not event["frames"][0]["filename"]:
                lib.fail(name, f"a request without module")
        elif event["action"] == "free_requested":
            label, size = sizes.pop(event["addr"])
            live[label] -= size
    planned = {k.removesuffix("_bytes"): v for k, v in plan["peak"]["categories"].items() if v}
    planned.pop("rounding", None)
    if {k: v for k, v in best.items() if v} != planned:
        lib.fail(name, f"labels say {best}, planned {planned}")
    phases = [a["name"] for a in snapshot["external_annotations"] if a["stage"] == "START" and "#" not in a["name"]]
    if phases.pop(0) != "plimsoll plan" or not phases.pop(0).startswith("plimsoll plan: "):
        lib.fail(name, f"is not marked as a plan")
    told = [p["phase"] for p in plan["phases"]]
    more = phases[len(told):]  # steps that are planned until nothing grows, and not shown
    if phases[:len(told)] != told or any(not p.startswith(("fwd", "bwd", "opt", "zero")) for p in more):
        lib.fail(name, f"annotations {phases}")


def compare(name, plan, report):
    device = report["devices"][0]
    for key in ("allocated_bytes", "reserved_bytes"):
        if device["peak"][key] != plan["peak"][key]:
            lib.fail(name, f"peak {key} {device['peak'][key]}, planned {plan['peak'][key]}")
    if device.get("self_check", {}).get("faults"):
        lib.fail(name, f"the replay finds faults")
    steps = sum(p["phase"].startswith("opt") for p in plan["phases"])
    if steps and len(device["steps"]) < steps + 1:  # what follows the last optimizer counts as one more
        lib.fail(name, f"{len(device['steps'])} steps, planned {steps}")
    categories(name, plan, report)


def dies(name, config, kept, options, plan):
    """Under a limit below what is needed the snapshot ends with the death, in the phase that the plan names."""
    limit = plan["peak"]["needed_bytes"] * 9 // 10
    plan, report = keep(config, kept, *options, "--memory", str(limit))
    ooms = report["devices"][0]["oom"]
    words = {"load": "load", "fwd": "forward", "bwd": "backward", "opt": "optimizer", "gen": "generate", "eva": "eval"}
    if len(ooms) != 1 or not plan["dies_at"]:
        lib.fail(name, f"{len(ooms)} deaths, planned {plan['dies_at']}")
    elif ooms[0]["phase"] != words[plan["dies_at"][:3]] and not (ooms[0]["phase"] == "request" and plan["dies_at"] < "g"):
        lib.fail(name, f"dies in {ooms[0]['phase']}, planned {plan['dies_at']}")
    else:  # the verdict knows what the plan would have come to
        cause = "capacity" if plan["peak"]["allocated_bytes"] > limit else "fragmentation"
        if ooms[0]["verdict"]["cause"] != cause or ooms[0]["verdict"]["still_basis"] != "planned":
            lib.fail(name, f"dies of {ooms[0]['verdict']['cause']}, planned {cause}")


def check(row):
    name, options = row["spec"]["name"], options_of(row["spec"])
    with tempfile.TemporaryDirectory() as folder:
        config, kept = os.path.join(folder, "config.json"), os.path.join(folder, "plan.pickle")
        with open(config, "w", encoding="utf-8") as f:
            json.dump(row["config"], f)
        plan, report = keep(config, kept, *options)
        compare(name, plan, report)
        labels(name, plan, kept)
        dies(name, config, kept, options, plan)


chosen = list(rows())
lib.jobs(check, chosen)
lib.finish(f"{len(chosen)} plans kept", least=4 * len(chosen))
