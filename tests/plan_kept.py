#!/usr/bin/env python3
"""plan_kept.py PLIMSOLL DATA: a plan that is kept as a snapshot says what the plan says.

Of one measured row of each architecture and kind, `report` of the kept snapshot must find the plan's allocated and reserved
peak to the byte, the categories (from stacks and lives alone), the steps, and the death.

Python's own pickle must read it: labels (user_metadata) add up to the plan's categories, annotations are its phases.
"""
import collections
import json
import lzma
import os
import pickle
import subprocess
import sys
import tempfile

plimsoll, data = sys.argv[1:3]
failures = []
KINDS = ("attn", "ckpt", "lora", "accum", "eval_batch", "opt", "precision", "kind", "new")
# how far a category may be off, of the peak: what stacks and lives tell is an inference
CATEGORY = 0.02


def rows():
    with lzma.open(os.path.join(data, "plan.jsonl.xz"), "rt") as f:
        every = [json.loads(line) for line in f]
    seen = set()
    for row in every:
        spec = row["spec"]
        kind = (spec["family"], tuple(spec.get(k) for k in KINDS)) if spec["family"] == "llama" else spec["family"]
        if kind not in seen and spec["size"] != "real":
            seen.add(kind)
            yield row


def options_of(spec):
    options = ["--batch", str(spec["batch"]), "--seq", str(spec.get("seq", 64))]
    if spec.get("kind") == "infer":
        return options + (["--task", "generate", "--new-tokens", str(spec["new"])] if spec.get("new") else ["--task", "infer"])
    for key, option in (("attn", "--attention"), ("lora", "--lora"), ("accum", "--accumulate"), ("eval_batch", "--eval-batch")):
        if spec.get(key):
            options += [option, str(spec[key])]
    options += ["--precision", spec.get("precision", "bf16_autocast").replace("_", "-")]
    options += ["--optimizer", spec.get("opt", "adamw").replace("sgdm", "sgd-momentum").replace("_", "-")]
    return options + (["--checkpointing"] if spec.get("ckpt") else [])


def run(*command):
    done = subprocess.run([plimsoll, *command], capture_output=True, text=True)
    if done.returncode not in (0, 1):  # 1: it does not fit
        failures.append(f"{' '.join(command)}: {done.stderr.strip()}")
        return None
    return json.loads(done.stdout)


def keep(config, kept, *options):
    plan = run("plan", "--json", config, "-o", kept, *options)
    report = plan and run("report", "--json", kept)
    return plan, report


def categories(name, plan, report):
    """Of the peak: the snapshot's labels give them exactly, the stacks nearly."""
    device = report["devices"][0]
    told = device["at_peak"]["categories"]
    planned = plan["peak"]["categories"]
    rounding = planned["rounding_bytes"]
    for key, bytes_ in told.items():
        if key in ("unknown", "buffer", "temporary", "autograd_detail"):
            continue
        off = abs(bytes_ - planned[key + "_bytes"]) - rounding
        if off > CATEGORY * plan["peak"]["allocated_bytes"]:
            failures.append(f"{name}: {key} {bytes_}, planned {planned[key + '_bytes']}")


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
                failures.append(f"{name}: a request without module")
        elif event["action"] == "free_requested":
            label, size = sizes.pop(event["addr"])
            live[label] -= size
    planned = {k.removesuffix("_bytes"): v for k, v in plan["peak"]["categories"].items() if v}
    planned.pop("rounding", None)
    if {k: v for k, v in best.items() if v} != planned:
        failures.append(f"{name}: labels say {best}, planned {planned}")
    phases = [a["name"] for a in snapshot["external_annotations"] if a["stage"] == "START" and "#" not in a["name"]]
    if phases.pop(0) != "plimsoll plan" or not phases.pop(0).startswith("plimsoll plan: "):
        failures.append(f"{name}: is not marked as a plan")
    if phases != [p["phase"] for p in plan["phases"]]:
        failures.append(f"{name}: annotations {phases}")


def compare(name, plan, report):
    device = report["devices"][0]
    for key in ("allocated_bytes", "reserved_bytes"):
        if device["peak"][key] != plan["peak"][key]:
            failures.append(f"{name}: peak {key} {device['peak'][key]}, planned {plan['peak'][key]}")
    if device.get("self_check", {}).get("faults"):
        failures.append(f"{name}: the replay finds faults")
    steps = sum(p["phase"].startswith("opt") for p in plan["phases"])
    if steps and len(device["steps"]) != steps + 1:  # what follows the last optimizer counts as one more
        failures.append(f"{name}: {len(device['steps'])} steps, planned {steps}")
    categories(name, plan, report)


def dies(name, config, kept, options, plan):
    """Under a limit below what is needed the snapshot ends with the death, in the phase that the plan names."""
    limit = plan["peak"]["needed_bytes"] * 9 // 10
    plan, report = keep(config, kept, *options, "--memory", str(limit))
    ooms = report["devices"][0]["oom"] if report else []
    words = {"load": "load", "fwd": "forward", "bwd": "backward", "opt": "optimizer", "gen": "generate", "eva": "eval"}
    if not report:
        return
    if len(ooms) != 1 or not plan["dies_at"]:
        failures.append(f"{name}: {len(ooms)} deaths, planned {plan['dies_at']}")
    elif ooms[0]["phase"] != words[plan["dies_at"][:3]] and not (ooms[0]["phase"] == "request" and plan["dies_at"] < "g"):
        failures.append(f"{name}: dies in {ooms[0]['phase']}, planned {plan['dies_at']}")
    else:  # the verdict knows what the plan would have come to
        cause = "capacity" if plan["peak"]["allocated_bytes"] > limit else "fragmentation"
        if ooms[0]["verdict"]["cause"] != cause or ooms[0]["verdict"]["still_basis"] != "planned":
            failures.append(f"{name}: dies of {ooms[0]['verdict']['cause']}, planned {cause}")


def main():
    n = 0
    with tempfile.TemporaryDirectory() as folder:
        config, kept = os.path.join(folder, "config.json"), os.path.join(folder, "plan.pickle")
        for row in rows():
            options = options_of(row["spec"])
            with open(config, "w", encoding="utf-8") as f:
                json.dump(row["config"], f)
            plan, report = keep(config, kept, *options)
            if report:
                compare(row["spec"]["name"], plan, report)
                labels(row["spec"]["name"], plan, kept)
                dies(row["spec"]["name"], config, kept, options, plan)
            n += 1
    print(f"{n} plans kept")


main()
for line in failures:
    print(line, file=sys.stderr)
sys.exit(1 if failures else 0)
