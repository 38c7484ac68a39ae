#!/usr/bin/env python3
"""data_rows.py ROWS_PY: tools/rows.py makes C of rows, and refuses wrong ones with the file and line."""
import os
import subprocess
import sys
import tempfile

HEAD = """@include "x.h"
@column name text
@column kind name KIND_
@rest
@column who set WHO_
@column last flag
@set BOTH A|B
@key name
@table row rows count row_count
@source somebody
"""
GOOD = HEAD + "one\tX\twho=BOTH\ntwo\t-\tlast\n"
# (the file, the line, what the error says)
WRONG = [
    (GOOD + "one\tX\n", 13, "the same as line 11"),
    (GOOD + "three\tX\twho=A|BOTH\n", 13, "a member is there twice"),
    (GOOD + "three\tX\twhom=A\n", 13, "'whom' is not a column"),
    (GOOD + "three\tX\twho=A\twho=B\n", 13, "'who' is not a column, or is there twice"),
    (GOOD + "$NONE\tX\n", 13, "no @text has this name"),
    (GOOD + "@tabel row rows\n", 13, "'@tabel' is not known"),
    (GOOD + "@column late nonsense\n", 13, "'nonsense' is not a kind"),
    (GOOD.replace("count row_count", "count row_count sorted") + "a\tX\n", 13, "out of order: a"),
    (GOOD.replace("@source somebody\n", ""), 10, "a row without a source"),
    (GOOD.replace("who=BOTH", "who=A"), 0, "nothing uses BOTH"),
    (GOOD.replace("@table row rows count row_count\n", ""), 10, "a row before any @table"),
]


def made(text):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.rows")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return subprocess.run([sys.executable, sys.argv[1], path], capture_output=True, text=True)


def main():
    good = made(GOOD)
    wanted = '{ .name = "one", .kind = KIND_X, .who = 1ULL << (WHO_A) | 1ULL << (WHO_B) },'
    failures = [] if wanted in good.stdout and "row_count = 2;" in good.stdout else [f"good rows: {good.stdout}{good.stderr}"]
    for text, line, message in WRONG:
        run = made(text)
        place = f"x.rows:{line}: " if line else "x.rows: "
        if run.returncode == 0 or run.stdout or place not in run.stderr or message not in run.stderr:
            failures.append(f"wanted '{place}{message}', got exit {run.returncode} and '{run.stderr}'")
    sys.exit("\n".join(failures) or None)


main()
