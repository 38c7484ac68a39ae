#!/usr/bin/env python3
"""allocator_worth.py PLIMSOLL DIR... [--markdown]: libplimsoll_alloc.so's allocator next to PyTorch's, over all recordings in DIR.

Never worse: with and without a plan it reserves at most 32 MiB more than expandable segments, at most 2 % and 32 MiB more than the
better of them and default settings, and survives every limit that one of them survives.  --markdown prints the table of docs/evidence/allocator.md.
"""
import glob
import json
import os
import statistics
import subprocess
import sys

MIB = 1 << 20
KNOWN = ("", "expandable_segments:True")
markdown = "--markdown" in sys.argv
plimsoll, *folders = [a for a in sys.argv[1:] if a != "--markdown"]


def whatif(path):
    settings = [part for one in KNOWN for part in ("-s", one)]
    # a limit that nothing runs into, in place of the one that the recording died of
    done = subprocess.run([plimsoll, "whatif", path, "--plan", "--json", "--smallest", "--threads", "1", "--limit", "4096GiB",
                           *settings], capture_output=True, text=True)
    return json.loads(done.stdout) if not done.returncode else None


def recordings():
    seen = {}
    for folder in folders:
        for path in sorted(glob.glob(os.path.join(folder, "*.pickle*")) + glob.glob(os.path.join(folder, "*.plim"))):
            seen.setdefault(os.path.basename(path).split(".")[0], path)
    return seen


def judge(name, result):
    theirs = [r for r in result["runs"] if not r["plan"]]
    ours = [r for r in result["runs"] if r["plan"]]
    best = min(r["reserved_peak_bytes"] for r in theirs)
    # null: not even without a limit does it come to the end without a workspace refused
    needs = min([r["smallest_limit_bytes"] for r in theirs if r["smallest_limit_bytes"] is not None], default=None)
    expandable = min(r["reserved_peak_bytes"] for r in theirs if r["settings"] == KNOWN[1])
    wrong = []
    for run in ours:
        if run["reserved_peak_bytes"] > expandable + 32 * MIB:
            wrong.append(f"{name}: {run['settings']} reserves {run['reserved_peak_bytes']}, expandable segments {expandable}")
        if run["reserved_peak_bytes"] > best * 1.02 + 32 * MIB:
            wrong.append(f"{name}: {run['settings']} reserves {run['reserved_peak_bytes']}, PyTorch {best}")
        if needs is not None and (run["smallest_limit_bytes"] is None or run["smallest_limit_bytes"] > needs):
            wrong.append(f"{name}: {run['settings']} needs {run['smallest_limit_bytes']}, PyTorch {needs}")
    return wrong, best


def main():
    wrong, shares = [], []
    if markdown:
        print("| recording | live | default | expandable | Plimsoll learns | with a plan | waits | over live | beside the better |")
        print("|---|---|---|---|---|---|---|---|---|")
    for name, path in recordings().items():
        result = whatif(path)
        if result is None or not result["self_check"]["exact"] or not result["runs"]:
            continue
        said, best = judge(name, result)
        wrong += said
        rows = {r["settings"]: r for r in result["runs"]}
        own = rows["plimsoll.allocator.use()"]
        live = own["allocated_peak_bytes"]
        share = own["reserved_peak_bytes"] / best - 1
        shares.append(share)
        if markdown:
            sizes = [live, *(r["reserved_peak_bytes"] for r in result["runs"])]
            print(f"| {name} | " + " | ".join(f"{s / MIB:.0f}" for s in sizes) +
                  f" | {own['retries']} | {own['reserved_peak_bytes'] / live - 1:+.1%} | {share:+.1%} |")
    print(f"{len(shares)} recordings: mean {statistics.mean(shares):+.1%}, median {statistics.median(shares):+.1%}, "
          f"most {max(shares):+.1%} beside the better of PyTorch's")
    for line in wrong:
        print(line)
    return 1 if wrong or not shares else 0


sys.exit(main())
