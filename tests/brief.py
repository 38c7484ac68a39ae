#!/usr/bin/env python3
"""brief.py PLIMSOLL RECORDING|FOLDER...: report's text is read in ten seconds.

At 80 columns: 40 lines for one device and six more for each other; no line is longer; verdict, sum, cause and the first
remedy stand within twelve; a healthy run says so in its third line, and no text is missing what --why has.
"""
import sys

import lib

lib.start(sys.argv[1])
LINES, MORE, FIRST = 40, 6, 12


def check(path):
    told = lib.result("report", path, codes=(0, 3))["devices"]
    lines = lib.run("report", path, "--width", 80).stdout.splitlines()
    lib.expect(len(lines) <= LINES + MORE * max(0, len(told) - 1), path, f"{len(lines)} lines")
    lib.expect(all(len(line) <= 80 for line in lines), path, "a line of more than 80 columns")
    died = [d for d in told if d["oom"] and d["oom"][-1]["verdict"]]
    if len(told) == 1:
        remedy = [i for i, line in enumerate(lines, 1) if line.startswith("  1. ")]
        lib.expect(not died or (remedy and remedy[0] <= FIRST), path, f"the first remedy is in line {remedy}")
        lib.expect(not died or " = " in "".join(lines[:6]), path, "no sum")
    leaks = any(f["id"] == "leak" for d in told for f in d["findings"])
    if told and not died:
        head = "NO FAILURE, BUT A LEAK" if leaks else "No events" if not any(d["events"] for d in told) else "No failure"
        lib.expect(any(line.startswith(head) for line in lines[:5]), path, "it does not begin with", head)
    lib.run("report", path, "--why")


paths = list(lib.recordings(sys.argv[2:]))
for one in paths:
    check(one)
lib.finish(f"{len(paths)} reports of at most {LINES} lines", least=len(paths))
