#!/usr/bin/env python3
"""widths.py PLIMSOLL DATA: no line of a report, a diff, a plan or of why is wider than was asked for, save for a word that must stay whole."""
import glob
import json
import os
import subprocess
import sys
import tempfile

plimsoll, data = sys.argv[1:3]
wrong = []
paths = sorted(glob.glob(os.path.join(data, "**", "*.pickle*"), recursive=True))
logs = sorted(glob.glob(os.path.join(data, "..", "messages", "*.txt")) + glob.glob(os.path.join(data, "oom", "*.txt")))
commands = [c for i, path in enumerate(paths) for c in (["report", path], ["diff", path, paths[i - 1], "--fail-over", "1%"])]
folder = tempfile.TemporaryDirectory()
with open(os.path.join(data, "published.jsonl"), encoding="utf-8") as f:
    models = [json.loads(line) for line in f]
for i, model in enumerate(models):  # some fit, some die, some with every part of the answer
    path = os.path.join(folder.name, model["name"].replace("/", "_"))
    with open(path, "w", encoding="utf-8") as f:
        json.dump(model["config"], f)
    recipe = [["--memory", "4GiB", "--max-batch", "--sweep", "batch=1,8"], ["--memory", "40GiB", "--optimizer", "adamw-8bit"],
              ["--parallel", "fsdp2", "--gpus", "4", "--memory", "2GiB"], ["--task", "infer"]][i % 4]
    commands.append(["plan", path, "--seq", "64", *recipe])
    if i % 4 == 0:
        commands.append(["why", logs[i % len(logs)], "--config", path, "--seq", "64", *recipe[:2]])
for command in commands + [["why", path] for path in logs]:
    for width in (40, 60, 80, 120):
        for locale in ("C.UTF-8", "C") if width == 40 else ("C.UTF-8",):
            done = subprocess.run([plimsoll, *command, "--width", str(width)], capture_output=True, timeout=120,
                                  env=dict(os.environ, LC_ALL=locale))
            for line in done.stdout.decode().splitlines():
                if len(line) > width and len(line.lstrip(" -").split()) > 1:
                    wrong.append(f"{command[0]} {os.path.basename(command[1])} in {width}: {line}")
if len(paths) < 20 or len(logs) < 80:
    wrong.append(f"{data} has {len(paths)} recordings, {len(logs)} logs")
print("\n".join(wrong) or f"widths: {len(paths)} reports and diffs and {len(logs)} logs fit")
sys.exit(bool(wrong))
