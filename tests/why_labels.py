#!/usr/bin/env python3
"""why_labels.py PLIMSOLL TESTS [--markdown]: what `why` says of the texts in TESTS/messages beside their labels.

labels.tsv tells of each text which program wrote it, what it was doing, which memory it was, what the one thing to do
first must hold and what must not be said.  "*" leaves a program or an activity open; "-" says that nothing in the text
proves one, so none may be named.  Each must be met; --markdown prints the table of docs/evidence/accuracy.md instead.
"""
import collections
import concurrent.futures
import json
import os
import subprocess
import sys

markdown = "--markdown" in sys.argv
plimsoll, tests = [a for a in sys.argv[1:] if a != "--markdown"]
folder = os.path.join(tests, "messages")
KILLED = ("cgroup_kill", "host_kill", "killed")


def parts(words):
    return [] if words == "-" else words.split(";")


def told(name):
    """(engine, activity, memory, first, everything that is advised) of the first death, or of the outcome."""
    path = os.path.join(folder, name + ".txt")
    done = subprocess.run([plimsoll, "why", "--json", path], capture_output=True, text=True, timeout=600, check=True)
    w = json.loads(done.stdout)
    if not w["deaths"]:
        return None, None, w["outcome"], "", ""
    d = w["deaths"][0]
    memory = "caught" if d["caught_line"] else "killed" if d["kind"] in KILLED else d["kind"]
    said = " ".join([d["verdict"]["headline"], *d["verdict"]["helps"]])
    return d["engine"], d["activity"], memory, d["first"] or "", said


def judge(row):
    """What is right of the text: {"engine": bool ...}; what its label leaves open is not in it."""
    name, engine, activity, memory, first, never = row
    engine, activity = (None if words == "-" else words for words in (engine, activity))
    got = told(name)
    right = {"memory": got[2] == memory}
    if engine != "*" and (got[0] or memory not in ("other", "nothing")):
        right["engine"] = got[0] == engine
    if activity != "*" and got[0]:
        right["activity"] = got[1] == activity
    if first != "-":
        right["first"] = any(words in got[3] for words in parts(first))
    right["never"] = not any(words in got[4] for words in parts(never))
    return right, got


def table(rows, results):
    """Precision and recall by engine, and how many of its texts are right in the rest."""
    by = collections.defaultdict(list)
    named = collections.Counter(got[0] for (_, got), row in zip(results, rows) if got[0] and row[1] != "*")
    for row, (right, got) in zip(rows, results):
        by[row[1]].append((right, got))
    print("| program | texts | named: precision | recall | which memory | the first thing to do | nothing said that must not be |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for engine in sorted(by, key=lambda e: (e == "*", -len(by[e]), e)):
        mine = by[engine]
        hits = sum(right.get("engine", False) for right, _ in mine)
        asked = sum("engine" in right for right, _ in mine)

        def share(key):
            judged = [right[key] for right, _ in mine if key in right]
            return f"{sum(judged)} of {len(judged)}" if judged else ""

        rates = ("", "") if engine == "*" else (f"{hits} of {named[engine]}", f"{hits} of {asked}")
        print(f"| {'not told by the text' if engine == '*' else engine} | {len(mine)} | {rates[0]} | {rates[1]} | {share('memory')} "
              f"| {share('first')} | {share('never')} |")
    print(f"| **all** | {len(rows)} | | | {sum(r['memory'] for r, _ in results)} of {len(rows)} | | |")


def main():
    with open(os.path.join(folder, "labels.tsv"), encoding="utf-8") as f:
        rows = [line.rstrip("\n").split("\t") for line in f if not line.startswith("#")]
    texts = {f[:-4] for f in os.listdir(folder) if f.endswith(".txt")}
    failures = [f"no label, or no text: {sorted(texts ^ {r[0] for r in rows})}"] if texts != {r[0] for r in rows} else []
    if len(rows) < 300:
        failures.append(f"{len(rows)} texts: there were 300")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        results = list(pool.map(judge, rows))
    if markdown:
        table(rows, results)
        return 0
    for row, (right, got) in zip(rows, results):
        failures += [f"{row[0]}: {key}: {got[:4]}" for key, good in right.items() if not good]
    print("\n".join(failures) or f"{len(rows)} texts as labelled")
    return bool(failures)


sys.exit(main())
