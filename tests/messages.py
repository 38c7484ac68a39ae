#!/usr/bin/env python3
"""messages.py PLIMSOLL TESTS: what `why` says of the texts in TESTS/messages is what their table expects.

The table's columns are in its head.  Numbers (tried=20MiB) must lie in the range that the program gives, and the
range must be no wider than a hundredth of them or of their unit, or what "MB" may mean.
"""
import concurrent.futures
import json
import os
import re
import subprocess
import sys

plimsoll, tests = sys.argv[1:3]
folder = os.path.join(tests, "messages")
UNITS = {"": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "GB": 10**9}
NUMBERS = {"others": "other_processes"}
failures = []


def amount(text):
    number, unit = re.fullmatch(r"([\d.]+)(\w*)", text).groups()
    return float(number) * UNITS[unit]


def in_range(death, name, want):
    got = death["numbers"][NUMBERS.get(name, name)]
    if got["low_bytes"] is None:
        return False
    slack = 0.006 * 2**30
    return got["low_bytes"] - slack <= amount(want) <= got["high_bytes"] + slack


def ranks(death, want):
    return death["ranks"] == [int(r) for r in want.split(",")]


# What a check's name means: of the answer `w` and its first death `d`.
CHECKS = {
    "deaths": lambda w, d, v: len(w["deaths"]) == int(v),
    "ranks": lambda w, d, v: ranks(d, v),
    "device": lambda w, d, v: d["device"] == int(v),
    "step": lambda w, d, v: d["step"] == int(v),
    "line": lambda w, d, v: d["line"] == int(v),
    "pid": lambda w, d, v: d["pid"] == int(v),
    "process": lambda w, d, v: d["process"] == v,
    "group": lambda w, d, v: d["group"] == v,
    "processes": lambda w, d, v: d["table_processes"] == int(v),
    "largest": lambda w, d, v: d["processes"][0]["resident_bytes"] == amount(v),
    "frame": lambda w, d, v: (d["frame"] or "").split(" in ")[0] == v,
    "likelier": lambda w, d, v: d["verdict"]["likelier"] == v,
    "excludes": lambda w, d, v: v not in [c["cause"] for c in d["verdict"]["causes"]],
    "certain": lambda w, d, v: d["verdict"]["bound_certain"] == (v == "true"),
    "says": lambda w, d, v: any(v in line for line in d["verdict"]["evidence"]),
}


def allowed(want, got):
    return want == "*" or str(got) in want.split("|")


def run(name):
    path = os.path.join(folder, name + ".txt")
    done = subprocess.run([plimsoll, "why", "--json", path], capture_output=True, text=True, timeout=60)
    if done.returncode:
        return None, f"exit {done.returncode}: {done.stderr}"
    return json.loads(done.stdout), None


def judge(row):
    name, outcome, kind, family, bound, cause, moment, checks = row[:8]
    said = []
    w, failed = run(name)
    if failed:
        return [f"{name}: {failed}"]
    if w["outcome"] != outcome:
        return [f"{name}: outcome {w['outcome']}"]
    if outcome == "other" and not allowed(family, w["others"][0]["family"]):
        said.append(f"{name}: family {w['others'][0]['family']}")
    if outcome != "memory":
        return said
    d = w["deaths"][0]
    for what, want, got in (("kind", kind, d["kind"]), ("family", family, d["family"]),
                            ("bound", bound, d["verdict"]["bound_by"]), ("cause", cause, d["verdict"]["cause"]),
                            ("moment", moment, d["moment"] or "-")):
        if not allowed(want, got):
            said.append(f"{name}: {what} {got}, not {want}")
    for check in checks.split() if checks != "-" else []:
        key, _, value = check.partition("=")
        good = CHECKS[key](w, d, value) if key in CHECKS else in_range(d, key, value)
        if not good:
            said.append(f"{name}: {check}: {json.dumps(d)[:1500]}")
    if d["verdict"]["cause"] == "unknown" and not d["verdict"]["causes"]:
        said.append(f"{name}: nothing is ranked")
    if not d["verdict"]["helps"]:
        said.append(f"{name}: no advice")
    return said


with open(os.path.join(folder, "table.tsv"), encoding="utf-8") as f:
    rows = [line.rstrip("\n").split("\t") for line in f if not line.startswith("#")]
files = {f[:-4] for f in os.listdir(folder) if f.endswith(".txt")}
if files != {r[0] for r in rows} or len(rows) < 80:
    failures.append(f"the table and the folder differ: {sorted(files ^ {r[0] for r in rows})}")
with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
    for said in pool.map(judge, rows):
        failures += said
print("\n".join(failures) or f"{len(rows)} texts as expected")
sys.exit(bool(failures))
