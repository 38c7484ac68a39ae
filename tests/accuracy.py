#!/usr/bin/env python3
"""accuracy.py PLIMSOLL DATA [TRUTH] [--markdown]: categories next to what was known to be live at the end.

NAME.live.json.xz next to a recording lists [address, bytes, category, name] of tensors that were live when it
ended.  Several tensors can lie in one block, so they are matched by address ranges.  --markdown prints the table
of docs/evidence/accuracy.md.
"""
import bisect
import collections
import glob
import json
import os
import pickle
import re
import sys
import tempfile

import lib
from lib import failures, load

markdown = "--markdown" in sys.argv
program, data, *truth = [a for a in sys.argv[1:] if a != "--markdown"]
AIM = {"parameter": 0.98, "gradient": 0.98, "optimizer_state": 0.98, "activation": 0.95}
BLOCKS = 1.06  # what blocks take beyond requests of a few MiB
SLACK = 1 << 20  # bytes of scalars and the like that are not held against a category


def blocks_of(path):
    """What plimsoll says is live at the end: [(address, bytes, category)], by address."""
    lines = (line.split(None, 4) for line in lib.run("__live", path).stdout.splitlines())
    return sorted((int(a), int(b), category) for a, b, category, *_ in lines)


def confusion(path, recording=None):
    """Bytes by (true category, told category); a block whose content is not in the truth is not counted."""
    with lib.opened(path.replace(".pickle.xz", ".live.json.xz")) as f:
        live = json.load(f)
    blocks = blocks_of(recording or path)
    starts = [b[0] for b in blocks]
    counts = collections.Counter()
    for address, size, category, _ in live:
        i = bisect.bisect_right(starts, address) - 1
        inside = i >= 0 and address < blocks[i][0] + max(blocks[i][1], 512)
        counts[category, blocks[i][2] if inside else "(none)"] += size
    return counts


def rates(counts):
    """Per category: (bytes, precision, recall)."""
    out = {}
    for c in AIM:
        true = sum(n for (t, _), n in counts.items() if t == c)
        told = sum(n for (_, p), n in counts.items() if p == c)
        both = counts[c, c]
        if true > SLACK or told > SLACK:
            out[c] = (true, both / told if told else 1.0, both / true if true else 1.0)
    return out


def check_sums(path):
    """What must hold of any recording, measured or not."""
    device = lib.result("report", path)["devices"][0]
    for where, total in (("end", device["end"]["allocated_bytes"]), ("at_peak", device["at_peak"]["total_bytes"])):
        categories = device[where]["categories"]
        if categories is not None and sum(categories.values()) != total:
            failures.append(f"{path}: categories of {where} add up to {sum(categories.values())}, not {total}")
        # here in blocks, which are larger; and cuDNN packs all gradients of an RNN, where one that is a view holds them all
        packed = 2 if "rnn" in path else BLOCKS
        if categories is not None and categories["gradient"] > categories["parameter"] * packed + SLACK:
            failures.append(f"{path}: at {where} more gradients ({categories['gradient']}) than parameters ({categories['parameter']})")
    for step, after in zip(device["steps"], device["steps"][1:]):
        if after["start_event"] != step["end_event"] + 1:
            failures.append(f"{path}: step {after['index']} does not begin where the one before ended")
    peak = device["peak"]["requested_bytes"]
    if device["steps"] and max(s["requested_peak_bytes"] for s in device["steps"]) != peak:
        failures.append(f"{path}: no step has the peak of {peak}")


def check_owners(path):
    """What autograd allocates has no Python stack: it has the line that it answers, marked as inferred."""
    with open(path.replace(".pickle.xz", ".json"), encoding="utf-8") as f:
        kind = json.load(f).get("spec", {}).get("kind")
    at_peak = lib.result("report", "--at", "peak", "--owners", "0", path)["devices"][0]["at_peak"]
    nobody = sum(o["bytes"] for o in at_peak["owners"] if not o["frame"])
    inferred = sum(o["bytes"] for o in at_peak["owners"] if o["inferred"])
    backward = at_peak["categories"]["gradient"] + at_peak["categories"]["autograd_detail"]
    if kind == "lm" and (nobody > at_peak["total_bytes"] / 20 or inferred < 0.9 * backward):
        failures.append(f"{path}: {nobody} bytes of nobody, {inferred} inferred of {backward} that backward made")


def check_laws(path):
    """Gradients never exceed parameters; AdamW keeps two numbers for each that it trains."""
    held = collections.Counter()
    for _, size, category in blocks_of(path):
        held[category] += size
    if held["gradient"] > held["parameter"] + SLACK:
        failures.append(f"{path}: more gradients ({held['gradient']}) than parameters ({held['parameter']})")
    with open(path.replace(".pickle.xz", ".json"), encoding="utf-8") as f:
        told = json.load(f)
    spec = told.get("spec", {})
    adamw = spec.get("kind") == "lm" and spec.get("opt", "adamw") == "adamw" and not spec.get("lora")
    if adamw and told.get("outcome") == "ok" and not 0.98 < held["optimizer_state"] / (2 * held["parameter"]) < 1.02:
        failures.append(f"{path}: {held['optimizer_state']} bytes of state for {held['parameter']} of parameters")


def check_cut(path, folder):
    """Of a recording whose beginning is lost less is known, but nothing else: what is reported must be so."""
    whole = load(path)
    events = whole["device_traces"][0]
    cut = os.path.join(folder, os.path.basename(path)[:-len(".xz")])
    with open(cut, "wb") as f:
        pickle.dump({**whole, "device_traces": [events[len(events) * 7 // 10:]]}, f, 4)
    counts = confusion(path, cut)
    for category, (_, precision, _) in rates(counts).items():
        if precision < AIM[category]:
            failures.append(f"{path}: {category} of its last 30 %: precision {precision:.4f}")
    for (true, told), size in counts.items():
        if told in ("input", "temporary", "kv_cache", "workspace") and true in AIM and true != "activation" and size > SLACK:
            failures.append(f"{path}: {size} bytes of {true} are called {told} in its last 30 %")
    os.remove(cut)


PHASES = {"fwd": "forward", "bwd": "backward", "opt": "optimizer"}


def check_steps(path):
    """The peak of each step, request and phase is what PyTorch measured between reset_peak_memory_stats() and its end."""
    with open(path.replace(".pickle.xz", ".json"), encoding="utf-8") as f:
        told = json.load(f)
    steps = lib.result("report", path)["devices"][0]["steps"]
    most = collections.Counter()
    for row in told.get("phases", []):
        name = re.fullmatch(r"(fwd|bwd|opt|req|step|ckpt)(\d+)", row["phase"])
        if not name or "requested_peak" not in row:
            continue
        kind, k = name[1], int(name[2])
        most[k] = max(most[k], row["requested_peak"])
        seen = steps[k]["phase_peaks"][PHASES[kind]] if k < len(steps) and kind in PHASES else row["requested_peak"]
        if seen != row["requested_peak"] and told["spec"]["kind"] == "lm":
            failures.append(f"{path}: {row['phase']} peaks at {row['requested_peak']}, told {seen}")
    # a run that died shows nothing of its last phase
    for k, peak in list(most.items())[:None if told.get("outcome") == "ok" else -1]:
        if k >= len(steps) or steps[k]["requested_peak_bytes"] != peak:
            failures.append(f"{path}: step {k} of {len(steps)} peaks at {steps[k]['requested_peak_bytes'] if k < len(steps) else '-'}, not {peak}")


def check(path):
    check_sums(path)
    check_steps(path)
    check_owners(path)
    check_laws(path)
    table = rates(confusion(path))
    for category, (true, precision, recall) in table.items():
        aim = AIM[category]
        if min(precision, recall) < aim and not markdown:
            failures.append(f"{path}: {category} of {true / 2**20:.1f} MiB: precision {precision:.4f}, recall {recall:.4f}")
    return os.path.basename(path)[:-len(".pickle.xz")], table


folders = [data, os.path.join(data, "kinds")] + ([os.path.join(truth[0], "snapshots")] if truth and truth[0] else [])
paths = {os.path.basename(p): p for folder in folders for p in sorted(glob.glob(os.path.join(folder, "*.pickle.xz")))
         if os.path.exists(p.replace(".pickle.xz", ".live.json.xz"))}
others = [p for folder in ("deaths", "own", "formats", "settings") for p in glob.glob(os.path.join(data, folder, "*.pickle*"))]
lib.start(program)
lib.jobs(check_sums, [] if markdown else others)
results = sorted(filter(None, lib.jobs(check, paths.values())))
with tempfile.TemporaryDirectory() as scratch:
    lib.jobs(lambda p: check_cut(p, scratch), [] if markdown else paths.values())
if markdown:
    print("| recording | " + " | ".join(AIM) + " |")
    print("|---|" + "---|" * len(AIM))
    for name, table in results:
        cells = [f"{100 * table[c][1]:.1f} / {100 * table[c][2]:.1f} of {table[c][0] / 2**20:,.1f} MiB" if c in table else ""
                 for c in AIM]
        if any(cells):
            print(f"| {name} | " + " | ".join(cells) + " |")
lib.finish("" if markdown else f"{len(results)} recordings: categories as known; {len(others)} more: sums and laws", least=len(paths))
