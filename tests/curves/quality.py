#!/usr/bin/env python3
"""quality.py PLIMSOLL... [--runs N] [--seed S] [--snr X] [--check]: how often `plimsoll curves` is right, on made curves.

Prints a table by fault, sound kinds first: found, how long after the onset it was said (median and nine of ten) in logs and in intervals between
evaluations, and in how many runs something else was said that is not true at the end of the log; "ever" what was taken back, too.  Delays below 0 count as found too early: the finding
began before the fault and is not a finding of it.  Several programs (of other thresholds) are asked about the same logs.  --check fails below what docs/evidence/accuracy.md promises; it uses few runs.
"""
import argparse
import json
import math
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from make_curves import FAULTS, make  # noqa: E402

SOUND = ("healthy", "level")
TAKEN_BACK = {"overfit", "memory_creep", "diverged"}  # warnings when they are said; information when they were wrong
IDS = {"hidden_nan": "nan"}
# What may be said next to the fault, because it is also true.
ALSO = {"nan": {"explosion", "collapse"}, "inf": {"nan", "explosion", "collapse"}, "hidden_nan": {"explosion", "collapse"}, "explosion": {"nan", "spike"},
        "spike": {"diverged", "explosion"}, "diverged": {"spike", "overfit", "collapse"},
        "overfit": {"collapse", "plateau"}, "collapse": {"overfit", "plateau"}, "plateau": set(),
        "scaler_skips": set(), "level": {"plateau"}, "memory_creep": set(), "learning_rate": {"plateau"}}


def write_logs(top, kind, seeds, snr):
    truth = {}
    for seed in seeds:
        rows, onset, every, eval_every = make(kind, seed, snr)
        path = os.path.join(top, f"{seed}.jsonl")
        with open(path, "w", encoding="ascii") as f:
            f.writelines(json.dumps(row) + "\n" for row in rows)
        truth[path] = (onset, every, eval_every, seed)
    return truth


def judge(program, top, truth):
    said = subprocess.run([program, "curves", "--json", top], capture_output=True, text=True, check=True).stdout
    return [(truth[run["source"]], run["findings"]) for run in json.loads(said)["runs"]]


def measure(program, kind, top, truth):
    """Delays in logs and in evaluations of those found; the runs of which something wrong was said, at the end and ever; those missed."""
    want = IDS.get(kind, kind)
    also = ALSO.get(kind, set()) | {want}
    delays, other, ever, missed = [], [], [], []
    for (onset, every, eval_every, seed), findings in judge(program, top, truth):
        mine = [f["detected_step"] for f in findings if f["id"] == want and kind not in SOUND and f["detected_step"] >= onset]
        if mine:
            delays.append(((min(mine) - onset) / every, (min(mine) - onset) / eval_every))
        elif kind not in SOUND:
            missed.append(seed)
        bad = sorted({f["id"] for f in findings if f["severity"] != "info"} - also)
        if bad:
            other.append((seed, bad))
        ever += sorted(({f["id"] for f in findings} & TAKEN_BACK | set(bad)) - also)
    return delays, other, ever, missed


def at(values, part):
    values = sorted(values)
    return values[max(0, math.ceil(part * len(values)) - 1)]


def row(kind, a, measured):
    """Prints it; what is below the promise."""
    delays, other, ever, missed = measured
    logs = evaluations = share = "-"
    if kind not in SOUND:
        share = f"{100 * len(delays) / a.runs:.1f} %"
    if delays:
        logs = f"{at([d[0] for d in delays], 0.5):.0f}, {at([d[0] for d in delays], 0.9):.0f}"
        evaluations = f"{at([d[1] for d in delays], 0.5):.1f}, {at([d[1] for d in delays], 0.9):.1f}"
    once = ", ".join(f"{id} {100 * ever.count(id) / a.runs:.1f} %" for id in sorted(set(ever)))
    print(f"| {kind} | {a.runs} | {share} | {logs} | {evaluations} | {100 * len(other) / a.runs:.1f} % | {once or '-'} |", flush=True)
    if a.verbose:
        print("  missed", missed[:12], "other", other[:12])
    if kind == "healthy" and len(other) > max(1, a.runs // 100):
        return [f"healthy: {other}"]
    return [f"{kind}: missed {missed}"] if kind not in SOUND and len(delays) < 0.93 * a.runs else []


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", nargs="+")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--snr", type=float, default=3.0)
    parser.add_argument("--only")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    a = parser.parse_args()
    seeds = range(a.seed, a.seed + a.runs)
    failed = []
    print("| fault | runs | found | delay in logs: median, 9 of 10 | in evaluations | something else said | ever |\n|---|---|---|---|---|---|---|")
    for kind in SOUND + FAULTS:
        if a.only and kind not in a.only.split(","):
            continue
        with tempfile.TemporaryDirectory() as top:
            truth = write_logs(top, kind, seeds, a.snr)
            for program in a.program:
                failed += row(kind, a, measure(program, kind, top, truth))
    if a.check and failed:
        print("\n".join(failed), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
