#!/usr/bin/env python3
"""findings.py PLIMSOLL DATA [TRUTH]: what `report` finds in recordings whose faults are known, whole and cut.

EXPECTED says what was planted, or is known of a run from how it was made (NAME.json, ../data/README of the
truth); what is not in it must not be found.  The growth of leaks is held against what PyTorch measured after
each step or eval pass.
"""
import glob
import json
import os
import pickle
import statistics
import sys
import tempfile

import lib
from lib import failures, load

program, data, *truth = sys.argv[1:]
# id -> severity; a run that is not named has no fault.
EXPECTED = {
    "leak_graph": {"leak": "error"}, "leak_evalpile": {"leak": "error"}, "leak_rnn": {"leak": "error"},
    "oom_eval": {"leak": "error"}, "leak_losses": {"leak": "warning"},
    "no_zero_grad": {"gradients_live_in_forward": "warning"},
    "compare_naive": {"duplicate_weights": "warning"},
    "oom_opt_a": {"optimizer_first_step": "error"}, "oom_step2": {"optimizer_first_step": "error"},
    "oom_frag": {"fragmentation": "error"}, "oom_moe": {"fragmentation": "error", "longest_batch": "warning"},
    "graph": {"private_pools": "warning"},
    "streams": {"foreach_temporaries": "warning"},  # the peak lies in AdamW.step, which works on lists
    # batches of varying length (spec.varlen), and the peak in the longest
    "big_llama": {"longest_batch": "info"}, "huge_llama": {"longest_batch": "info"},
    "llama_m_var": {"longest_batch": "info"}, "mixtral_tiny": {"longest_batch": "info"},
    # tests/data/deaths
    "eval_pile": {"leak": "error"}, "graph_leak": {"leak": "error"},
    "adam_step": {"optimizer_first_step": "error"}, "fused_step": {"optimizer_first_step": "error"},
    "churn": {"fragmentation": "error"}, "long_batch": {"longest_batch": "warning"},
    "infer_big": {"kv_cache_growth": "warning", "longest_batch": "warning"},  # its last prompt is the longest
    # logits of the whole prompt: 3,000 tokens in serve; and a vocabulary of 256,000
    "serve": {"kv_cache_growth": "info", "logits_dominate": "warning", "longest_batch": "info"}, "infer_qwen2": {"logits_dominate": "warning"},
    "gemma2_s": {"logits_dominate": "warning"},
    "qwen2_s_eager": {"materialised_attention": "warning"},
    "healthy_train": {"longest_batch": "info"},
    # batches of varying length that are kept in a list: a few MiB of 2.7 GiB
    "accum_cache": {"leak": "error", "longest_batch": "warning"},
    # programs that call zero_grad() after the forward pass: before backward (GAN, scaler) or never with None
    "kinds/gan": {"gradients_live_in_forward": "warning"}, "kinds/scaler": {"gradients_live_in_forward": "warning"},
    "kinds/zeroes": {"gradients_live_in_forward": "warning"}, "kinds/plain": {"gradients_live_in_forward": "info"},
    "kinds/graphs": {"private_pools": "info"}, "kinds/zerolate": {"gradients_live_in_forward": "warning"},
    "kinds/evalheavy": {"eval_heavier_than_train": "warning"}, "kinds/allocloop": {"allocation_in_loop": "info"},
    "kinds/featbank": {"many_small_segments": "warning"},
    "kinds/evalgrad": {"eval_heavier_than_train": "warning", "logits_dominate": "info"},
    # models of people's own, under a limit: what they died of by construction (own/NAME.json)
    "own/bigopt_5": {"optimizer_first_step": "error"}, "own/bigopt_72": {"optimizer_first_step": "error"},
    "own/bigopt_93": {"optimizer_first_step": "error"}, "own/gptck_93": {"optimizer_first_step": "error"},
    "own/evalbig_72": {"fragmentation": "error"}, "own/unet_93": {"fragmentation": "error"},
    "own/gradeval_5": {"leak": "error"}, "own/lossleak_5": {"leak": "error"}, "own/longest_72": {"longest_batch": "warning"},
    "own/infer_101": {"longest_batch": "warning"}, "own/serve_72": {"longest_batch": "warning"},
    "own/rl_72": {"leak": "warning"},  # what a rollout keeps for the update that never came: scalars
    # a tensor that another stream still used when it was freed; a CUDA graph's pool
    "formats/basic": {"pending_frees": "info"}, "formats/basic_cpp": {"pending_frees": "info"},
    "formats/graph": {"private_pools": "warning"},
}
BY_FOLDER = "kinds", "own", "formats"  # names of their own
# Where the planted leak allocates, and what a repetition is.
LINES = {"leak_graph": ("workloads.py:158", "step"), "leak_evalpile": ("workloads.py:175", "eval iteration"),
         "oom_eval": ("workloads.py:175", "eval iteration"), "leak_rnn": ("workloads.py:202", "step"),
         "leak_losses": ("workloads.py:152", "step"), "graph_leak": ("w.py:19", "step"),
         "eval_pile": ("w.py:60", "request"),
         # the lines that call the models, not the five or six inside them that a kept graph was allocated at
         "own/gradeval_5": ("ver.py:62", "eval iteration"), "own/lossleak_5": ("ver.py:65", "step")}
# What the first fix has to say.
FIXES = {"leak_graph": "loss.item()", "leak_evalpile": ".cpu()", "oom_eval": ".cpu()", "leak_rnn": "h.detach()", "leak_losses": "loss.item()",
         "graph_leak": "loss.item()", "eval_pile": ".cpu()", "own/gradeval_5": "inference_mode", "own/lossleak_5": "loss.item()"}
# What a healthy run may be reported: what its memory goes to, and what other settings save.
WORTH_KNOWING = {"logits_dominate", "fragmentation"}
SEVERITIES = {"info": 0, "warning": 1, "error": 2}


def device_of(path, *options):
    return lib.result("report", path, *options)["devices"][0]


def expect(path, ok, what):
    lib.expect(ok, path, what)


def check_form(path, device):
    """What holds of any finding."""
    found = device["findings"]
    order = [-SEVERITIES[f["severity"]] for f in found if f["id"] != "oom"]
    expect(path, order == sorted(order), "findings are not sorted by severity")
    for f in found:
        expect(path, f["title"] and f["evidence"] and f["fix"] and f["see"], f"{f['id']} says too little")
        expect(path, 0 < f["confidence"] <= 1, f"{f['id']}: confidence {f['confidence']}")
        expect(path, (f["period"] is None) == (f["per_period_bytes"] is None), f"{f['id']}: period")
        expect(path, any(l["finding"] == device["findings"].index(f) for l in device["leaks"]) == (f["id"] == "leak"), f"{f['id']}: leak")
        expect(path, f["place"]["frame"] is None or f["place"]["frame"].split(" in ")[0].split("/")[-1] in f["title"] or f["id"] == "oom",
               f"{f['id']}: the title does not name its place")
        if f["bytes"] is not None and f["id"] not in ("leak", "oom", "allocation_in_loop"):
            expect(path, f["bytes"] * 100 >= device["peak"]["allocated_bytes"] or f["id"] == "optimizer_first_step",
                   f"{f['id']}: {f['bytes']} bytes are not worth a line")


def growth_of(name, truth_of_run):
    """Median growth by what PyTorch had allocated after each repetition, and how far single ones differ."""
    phase = {"leak_evalpile": "eval", "oom_eval": "eval", "leak_rnn": "step"}.get(name, "zero")
    at = [p["allocated"] for p in truth_of_run.get("phases", []) if p["phase"].startswith(phase)]
    steps = [b - a for a, b in zip(at[1:], at[2:])]
    return (statistics.median(steps), max(steps) - min(steps)) if len(steps) > 2 else None


def check_leaks(path, name, device, truth_of_run):
    leaks = [f for f in device["findings"] if f["id"] == "leak"]
    if name not in LINES or not leaks:
        return
    place, period = LINES[name]
    expect(path, place in leaks[0]["place"]["frame"], f"the leak is seen at {leaks[0]['place']['frame']}")
    expect(path, leaks[0]["period"] == period, f"the period is a {leaks[0]['period']}")
    expect(path, len({f["place"]["frame"] for f in leaks}) == len(leaks), "a line is told twice")
    expect(path, FIXES[name] in leaks[0]["fix"][0], f"its fix is {leaks[0]['fix'][0]}")
    if name.startswith("own/"):
        expect(path, len(leaks) == 1, f"one graph is told as {len(leaks)} leaks")
    measured = growth_of(name, truth_of_run)
    if measured and measured[0]:  # leak_losses: allocated bytes are rounded up
        told = sum(f["per_period_bytes"] for f in leaks)
        # what lies below a twentieth of the largest line is not reported by itself
        expect(path, abs(told - measured[0]) <= max(measured[0] / 20, measured[1]),
               f"{told} bytes a period, measured {measured[0]:.0f}")


def check(path):
    folder, name = os.path.basename(os.path.dirname(path)), os.path.basename(path).split(".")[0]
    name = f"{folder}/{name}" if folder in BY_FOLDER else name
    beside = path.split(".pickle")[0] + ".json"
    told = json.load(open(beside, encoding="utf-8")) if os.path.exists(beside) else {}
    device = device_of(path)
    found = {}
    for f in device["findings"]:
        if f["id"] != "oom":
            found[f["id"]] = max(found.get(f["id"], "info"), f["severity"], key=SEVERITIES.get)
    want = EXPECTED.get(name, {}) if "settings" not in path else {}
    for one, severity in want.items():
        expect(path, found.get(one) == severity, f"{one}: {found.get(one)}, not {severity}")
    for one in sorted(set(found) - set(want)):
        expect(path, one in WORTH_KNOWING and found[one] != "error", f"{one} ({found[one]}) is told of a run that has no such fault")
    check_form(path, device)
    check_leaks(path, name, device, told)
    if name == "compare_naive":
        with lib.opened(path.replace(".pickle.xz", ".live.json.xz")) as f:
            model = sum(size for _, size, category, _ in json.load(f) if category == "parameter")
        told = next(f["bytes"] for f in device["findings"] if f["id"] == "duplicate_weights")
        expect(path, abs(told - 3 * model) < model / 100, f"{told} bytes of copies: a model has {model}")


# A cut recording shows less; what it shows must not be something else.
CUT_MAY_LACK = {"gradients_live_in_forward", "duplicate_weights", "optimizer_first_step", "fragmentation", "longest_batch",
                "leak"}
CUT_MAY_ADD = WORTH_KNOWING | {"longest_batch", "kv_cache_growth"}


def check_cut(path, folder):
    name = os.path.basename(path).split(".")[0]
    whole = load(path)
    events = whole["device_traces"][0]
    cut = os.path.join(folder, name + ".pickle")
    with open(cut, "wb") as f:
        pickle.dump({**whole, "device_traces": [events[len(events) * 7 // 10:]]}, f, 4)
    device = device_of(cut)
    want = EXPECTED.get(name, {})
    found = {f["id"]: f["severity"] for f in device["findings"] if f["id"] != "oom"}
    for one in set(want) - set(found) - CUT_MAY_LACK:
        failures.append(f"{path}: {one} is not seen in its last 30 %")
    for one in set(found) - set(want) - CUT_MAY_ADD:
        failures.append(f"{path}: {one} ({found[one]}) is seen in its last 30 % alone")
    if want.get("leak") == "error" and name not in ("leak_rnn", "accum_cache"):  # of which two whole steps are left
        expect(path, found.get("leak") == "error", "the leak is not seen in its last 30 %")
    check_form(path, device)
    os.remove(cut)


def check_outside(folder):
    for name, word in (("other_process", "by other processes"), ("non_pytorch", "by this process")):
        path = os.path.join(folder, name + ".pickle.xz")
        found = [f for f in device_of(path, "--log", path.replace(".pickle.xz", ".txt"))["findings"] if f["id"] == "outside_allocator"]
        expect(path, found and word in found[0]["title"] and found[0]["see"], f"outside_allocator: {found}")


deaths = os.path.join(data, "deaths")
folders = [data, deaths, os.path.join(data, "settings"), os.path.join(data, "kinds"), os.path.join(data, "own")]
if truth and truth[0]:
    folders += [os.path.join(truth[0], "snapshots"), os.path.join(truth[0], "snapshots", "settings")]
folders.append(os.path.join(data, "formats"))
paths = {os.path.basename(p) + os.path.basename(f): p for f in folders for p in sorted(glob.glob(os.path.join(f, "*.pickle*")))}
lib.start(program)
lib.jobs(check, paths.values())
with tempfile.TemporaryDirectory() as scratch:
    lib.jobs(lambda p: check_cut(p, scratch), [p for p in sorted(glob.glob(data + "/*.pickle.xz") + glob.glob(deaths + "/*.pickle.xz"))
                                               if os.path.basename(p) != "graph.pickle.xz"])  # it has 24 events
check_outside(deaths)
lib.finish(f"{len(paths)} recordings: what was planted was found, and nothing else", least=len(paths))
