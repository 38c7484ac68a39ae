#!/usr/bin/env python3
"""allocator_plans.py PLIMSOLL REPLAY FAKECUDA DATA [SHARED] [--markdown]: plans of runs that never happened, under recordings of real ones.

`plimsoll plan -o RUN.pickle`, `whatif RUN.pickle --plan -o RUN.plan`, and the recording's requests through the library's hooks
with that plan: how many of its places are hit is reported; no gain is demanded, but never worse: at most 2 % and 32 MiB more
than the better of default settings and expandable segments.  The same of each recording here with the plan of another one,
which must also survive the smallest limit that one of those two survives.
"""
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

import lib

markdown = "--markdown" in sys.argv
program, replay, cuda, data, *truth = [a for a in sys.argv[1:] if a != "--markdown" and a]
lib.start(program)

# recording, the family and size of its model in plan.jsonl.xz, what the run was
RUNS = [
    ("gpt2_s", ("gpt2", "s"), ["--batch", 8, "--seq", 1024]),
    ("llama_s_ckpt", ("llama", "s"), ["--batch", 8, "--seq", 2048, "--checkpointing", "full"]),
    ("gemma2_s", ("gemma2", "s"), ["--batch", 4, "--seq", 1024]),
    ("gpt2_s", ("gpt2", "s"), ["--batch", 4, "--seq", 1024]),  # of another batch: nothing of it fits
    ("gpt2_s", ("llama", "s"), ["--batch", 8, "--seq", 1024]),  # of another model
]
COUNTS = re.compile(r"told (\d+), is (\d+), live (\d+)\nhits (\d+), misses (\d+), hit bytes (\d+), conflicts (\d+)")


def config_of(family, size):
    rows = lib.rows(os.path.join(data, "plan.jsonl.xz"))
    return next(r for r in rows if (r["spec"].get("family"), r["spec"].get("size")) == (family, size))["config"]


def check(folder, name, model, options):
    path = lib.recording(name, data, truth)
    if path is None:
        print("NOT RUN: %s is not here" % name)
        return
    snapshot, plan = os.path.join(folder, "run.pickle"), os.path.join(folder, "run.plan")
    config = os.path.join(folder, "config.json")
    with open(config, "w", encoding="utf-8") as f:
        json.dump(config_of(*model), f)
    lib.run("plan", config, *options, "--steps", 4, "-o", snapshot, codes=(0, 1))
    lib.run("whatif", snapshot, "--plan", "-o", plan)
    done = subprocess.run([replay, path], capture_output=True, text=True,
                          env={**os.environ, "PLIMSOLL_ALLOC_PLAN": plan, "PLIMSOLL_CUDA_LIBRARY": cuda})
    found = COUNTS.search(done.stdout)
    lib.expect(done.returncode == 0 and found, name, done.stdout, done.stderr)
    without, reserved, live, hits, misses, _, conflicts = map(int, found.groups())
    mib = 1 << 20
    print("| %s | %s | %d of %d | %.0f | %.0f | %.0f |" % (
        name, " ".join(map(str, [*model, *options])), hits, hits + misses, live / mib, without / mib, reserved / mib))
    lib.expect(conflicts <= hits + misses, name, "conflicts")


def plans_of(folder, paths):
    """path -> the plan of its own run, where something repeats."""
    found = {}
    for path in paths:
        plan = os.path.join(folder, os.path.basename(path) + ".plan")
        if subprocess.run([program, "whatif", path, "--plan", "-o", plan], capture_output=True).returncode == 0 and os.path.exists(plan):
            found[path] = plan
    return found


def check_wrong_plans(folder):
    paths = sorted(glob.glob(os.path.join(data, "*.pickle.xz")))
    plans = plans_of(folder, paths)
    lib.expect(len(plans) > 5, "plans", len(plans))
    for i, path in enumerate(paths):
        others = [plan for other, plan in plans.items() if other != path]
        for how in ([], ["limit"]):
            done = subprocess.run([replay, path, *how], capture_output=True, text=True,
                                  env={**os.environ, "PLIMSOLL_ALLOC_PLAN": others[i % len(others)], "PLIMSOLL_CUDA_LIBRARY": cuda})
            lib.expect(done.returncode == 0, os.path.basename(path), *how, "under", os.path.basename(others[i % len(others)]),
                       done.stdout, done.stderr)


with tempfile.TemporaryDirectory() as folder:
    check_wrong_plans(folder)
    if markdown:
        print("| recording | planned | hits | live, MiB | reserved without | with the plan |")
        print("|---|---|---|---|---|---|")
    for row in RUNS:
        check(folder, *row)
lib.finish("never worse", least=8)
