#!/usr/bin/env python3
"""quality.py PLIMSOLL [--runs N] [--seed S] [--snr X] [--check]: how often `plimsoll curves` is right, on made curves.

Prints a table by fault: found, median delay in logs (evaluations for overfitting and collapse), onset error; and what it
said of healthy runs.  --check fails below what docs/accuracy.md promises; it uses few runs.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from make_curves import FAULTS, make  # noqa: E402

IDS = {"hidden_nan": "nan"}
BY_EVALUATION = ("overfit", "collapse")
# What may be said beside the fault, because it is also true.
ALSO = {"nan": {"explosion", "collapse"}, "inf": {"nan", "explosion", "collapse"}, "hidden_nan": {"explosion", "collapse"}, "explosion": {"nan", "spike"},
        "spike": {"diverged", "explosion"}, "diverged": {"spike", "overfit", "collapse"},
        "overfit": {"collapse", "plateau"}, "collapse": {"overfit", "plateau"}, "plateau": set(),
        "scaler_skips": set(), "memory_creep": set(), "learning_rate": {"plateau"}}


def judge(program, kind, seeds, snr):
    with tempfile.TemporaryDirectory() as top:
        truth = {}
        for seed in seeds:
            rows, onset, every, eval_every = make(kind, seed, snr)
            path = os.path.join(top, f"{seed}.jsonl")
            with open(path, "w", encoding="ascii") as f:
                f.writelines(json.dumps(row) + "\n" for row in rows)
            truth[f"{top}/{seed}.jsonl"] = (onset, eval_every if kind in BY_EVALUATION else every, seed)
        said = subprocess.run([program, "curves", "--json", top], capture_output=True, text=True, check=True).stdout
        return [(truth[run["source"]], run["findings"]) for run in json.loads(said)["runs"]]


def measure(program, kind, seeds, snr):
    want = IDS.get(kind, kind)
    found, delays, other, missed = 0, [], [], []
    for (onset, unit, seed), findings in judge(program, kind, seeds, snr):
        mine = [f for f in findings if f["id"] == want]
        if kind != "healthy" and mine:
            found += 1
            first = min(mine, key=lambda f: f["detected_step"])
            delays.append((first["detected_step"] - onset) / unit)
        elif kind != "healthy":
            missed.append(seed)
        bad = sorted({f["id"] for f in findings if f["severity"] != "info" and f["id"] != want}
                     - ALSO.get(kind, set()))
        if bad:
            other.append((seed, bad))
    return found, delays, other, missed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--snr", type=float, default=3.0)
    parser.add_argument("--only")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    a = parser.parse_args()
    seeds = range(a.seed, a.seed + a.runs)
    failed = []
    print("| fault | runs | found | median delay | 9 of 10 within | something else said |\n|---|---|---|---|---|---|")
    for kind in ("healthy",) + FAULTS:
        if a.only and kind not in a.only.split(","):
            continue
        found, delays, other, missed = measure(a.program, kind, seeds, a.snr)
        delays.sort()
        share = f"{100 * found / a.runs:.1f} %" if kind != "healthy" else "-"
        middle = f"{statistics.median(delays):.0f}" if delays else "-"
        late = f"{delays[max(0, math.ceil(0.9 * len(delays)) - 1)]:.0f}" if delays else "-"
        print(f"| {kind} | {a.runs} | {share} | {middle} | {late} | {100 * len(other) / a.runs:.1f} % |", flush=True)
        if a.verbose:
            print("  missed", missed[:12], "other", other[:12])
        if kind == "healthy" and len(other) > max(1, a.runs // 100):
            failed.append(f"healthy: {other}")
        if kind != "healthy" and found < 0.97 * a.runs:
            failed.append(f"{kind}: missed {missed}")
    if a.check and failed:
        print("\n".join(failed), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
