#!/usr/bin/env python3
"""widths.py PLIMSOLL SHOW_WIDTHS DATA: no line of a report, a diff, a plan or of why is wider than was asked for, save for a word that must stay whole.

SHOW_WIDTHS (unit/show_widths.c) reads each file once and shows it in all widths; some go through the command line too.
"""
import glob
import json
import os
import subprocess
import sys
import tempfile

import lib

STYLES = [(40, "C.UTF-8"), (40, "C"), (60, "C.UTF-8"), (80, "C.UTF-8"), (120, "C.UTF-8")]


def show(shower, verb, paths):
    """All at once, in one process."""
    done = subprocess.run([shower, verb, *paths], capture_output=True, text=True, timeout=600, check=False)
    *wrong, last = done.stdout.splitlines() or [""]
    whole = last == f"{verb}: {len(paths)} shown, 0 lines wrong"
    lib.expect(whole and not done.returncode, verb, done.returncode, last, done.stderr, *wrong)


def check(command, width, locale):
    done = lib.run(*command, "--width", width, codes=(0, 1), env={"LC_ALL": locale})
    lib.expect(done.stdout, " ".join(command), "nothing was written")
    for line in done.stdout.splitlines():
        if len(line) > width and len(line.lstrip(" -").split()) > 1:
            lib.fail(" ".join(command), f"in {width}: {line}")


def main():
    program, shower, data = sys.argv[1:4]
    lib.start(program)
    recordings = sorted(glob.glob(os.path.join(data, "**", "*.pickle*"), recursive=True))
    logs = sorted(glob.glob(os.path.join(data, "..", "messages", "*.txt")) + glob.glob(os.path.join(data, "oom", "*.txt")))
    models = lib.rows(os.path.join(data, "published.jsonl"))
    lib.expect(len(recordings) >= 100 and len(logs) >= 200, data, len(recordings), "recordings,", len(logs), "logs")
    with tempfile.TemporaryDirectory() as folder:
        configs = [os.path.join(folder, model["name"].replace("/", "_")) for model in models]
        for path, model in zip(configs, models):
            with open(path, "w", encoding="utf-8") as f:
                json.dump(model["config"], f)
        # A log with the plan of its run; each also once through the command line, with options.
        commands = [["why", logs[4 * i % len(logs)], "--config", path, "--seq", "64", "--memory", "4GiB"]
                    for i, path in enumerate(configs[::4])]
        commands += [["report", recordings[0]], ["diff", *recordings[:2], "--fail-over", "1%"], ["plan", configs[0]]]
        runs = [(c, *style) for c in commands for style in STYLES]
        lib.jobs(lambda verb, files: show(shower, verb, files), ("report", "diff", "why", "plan"),
                 (recordings, recordings, logs, configs))
        lib.jobs(check, *zip(*runs))
    lib.finish(f"widths: {len(recordings)} reports and diffs, {len(logs)} logs and {len(models)} plans fit", least=len(runs))


main()
