#!/usr/bin/env python3
"""why_programs.py PLIMSOLL TESTS: the program of each row of TESTS/messages/programs.tsv is named, by its headline or its evidence."""
import concurrent.futures
import json
import os
import subprocess
import sys

plimsoll, tests = sys.argv[1:3]


def told(row):
    """What is said of the program in the first death."""
    text = row[1].replace("\\n", "\n") + "\n"
    done = subprocess.run([plimsoll, "why", "--json", "-"], input=text, capture_output=True, text=True, timeout=600, check=True)
    deaths = json.loads(done.stdout)["deaths"]
    if not deaths:
        return "no failure"
    verdict = deaths[0]["verdict"]
    return " ".join([verdict["headline"], *[e for e in verdict["evidence"] if e.startswith(("the program is ", "the message is "))]])


with open(os.path.join(tests, "messages", "programs.tsv"), encoding="utf-8") as f:
    rows = [line.rstrip("\n").split("\t", 1) for line in f if not line.startswith("#")]
with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
    said = list(pool.map(told, rows))
failures = [f"{name}: {text!r}: {got}" for (name, text), got in zip(rows, said) if name not in got]
print("\n".join(failures) or f"{len(rows)} programs named")
sys.exit(bool(failures))
