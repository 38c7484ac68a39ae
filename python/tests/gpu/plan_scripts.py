"""plan_scripts.py FOLDER OUT MEASURED [NAME...]: the public scripts of fit_scripts.py, planned without a GPU, next to the peaks that they had on one.

FOLDER: as for fit_scripts.py.  MEASURED: its scripts.jsonl, with the peak of each whole run.  Each script is planned by `plimsoll plan
-- python SCRIPT ...` with the same arguments, models and data.  One JSON line for each goes to OUT/planned.jsonl.
"""
import json
import os
import subprocess
import sys
import time

import fit_scripts


def measured(paths):
    """The last peak of each row, from one or more files."""
    found = {}
    for path in paths.split(","):
        with open(path) as f:
            for row in map(json.loads, f):
                if "whole_bytes" in row:
                    found[row["row"]] = row["whole_bytes"]
    return found


def planned(folder, out, row):
    """What `plimsoll plan` says of a row."""
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HOME": os.path.join(out, "home"), "WANDB_MODE": "disabled"}
    command = fit_scripts.command(folder, row, os.path.join(out, "runs", row))
    program = os.environ.get("PLIMSOLL_PROGRAM", "plimsoll")
    began = time.monotonic()
    done = subprocess.run([program, "plan", "--json", "--", *command], cwd=os.path.join(out, "world"), env=env, check=False, capture_output=True, text=True, timeout=400)
    took = round(time.monotonic() - began, 1)
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        return {"row": row, "code": done.returncode, "s": took, "err": done.stderr[-700:]}
    return {"row": row, "code": done.returncode, "s": took, "peak_bytes": answer.get("peak", {}).get("allocated_bytes")}


def main():
    folder, out, peaks, *names = sys.argv[1:]
    folder, out = os.path.abspath(folder), os.path.abspath(out)
    fit_scripts.make_world(os.path.join(out, "world"), folder)
    real = measured(peaks)
    for row in names or [name for name in fit_scripts.ROWS if name in real]:
        try:
            line = planned(folder, out, row)
        except subprocess.TimeoutExpired:
            line = {"row": row, "err": "no answer in 400 s"}
        line["measured_bytes"] = real.get(row)
        if line.get("peak_bytes") and real.get(row):
            line["off"] = round(line["peak_bytes"] / real[row] - 1, 4)
        with open(os.path.join(out, "planned.jsonl"), "a") as f:
            f.write(json.dumps(line) + "\n")
        print(line, flush=True)


if __name__ == "__main__":
    main()
