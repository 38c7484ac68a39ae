#!/usr/bin/env python3
"""tokens.py [REVISION ...]: hand-written tokens of C by floor, and rows of data/, a column a revision of git (default: HEAD).

A token is a word, a number, a string or a sign; comments are not counted, nor what the build makes.
"""
import collections
import re
import subprocess
import sys

# What begins first counts: a string may hold "https://", a comment a quote.
TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|("(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|\w+|[^\s\w])', re.S)


def git(*words):
    return subprocess.run(["git", *words], check=True, capture_output=True, text=True, errors="replace").stdout


def floors_of(revision):
    floors = collections.Counter()
    for path in git("ls-tree", "-r", "--name-only", revision, "--", "src", "include", "cli", "runtime").split():
        if path.endswith((".c", ".h")):
            parts = path.split("/")
            floor = parts[0] if parts[0] in ("include", "cli") else "/".join(parts[:2])
            floors[floor] += sum(map(bool, TOKEN.findall(git("show", f"{revision}:{path}"))))
    return floors


def rows_of(revision):
    """Rows of data/*.rows, which are not code."""
    paths = git("ls-tree", "-r", "--name-only", revision, "--", "data").split()
    texts = [git("show", f"{revision}:{path}") for path in paths if path.endswith(".rows")]
    return sum(line[:1] not in "#@" for text in texts for line in text.split("\n") if line.strip())


def main():
    revisions = sys.argv[1:] or ["HEAD"]
    columns = [floors_of(r) for r in revisions]
    rows = [rows_of(r) for r in revisions]
    print("| floor | " + " | ".join(revisions) + " |\n|---|" + "---:|" * len(revisions))
    for floor in sorted(set().union(*columns)) + ["all"]:
        cells = [sum(c.values()) if floor == "all" else c[floor] for c in columns]
        print(f"| {floor} | " + " | ".join(f"{n:,}" if n else "" for n in cells) + " |")
    print("| rows of data/ | " + " | ".join(f"{n:,}" for n in rows) + " |")


main()
