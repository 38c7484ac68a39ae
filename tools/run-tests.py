#!/usr/bin/env python3
"""run-tests.py FOLDER [OPTION OF MESON TEST...]: the tests that were built there; exits as `meson test` does.

At the end stand the tests that took the most processor time.
"""
import os
import re
import shutil
import subprocess
import sys

TOOLS = os.path.dirname(os.path.abspath(__file__))
SLOW_S = 20
MOST = 10


def seconds(text):
    minutes, rest = re.fullmatch(r"(\d+)m([\d.]+)s", text).groups()
    return int(minutes) * 60 + float(rest)


def taken(folder):
    """[(seconds of processor time, of these in the kernel, command)], the most first."""
    rows = []
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), encoding="utf-8") as f:
            _, times, command = f.read().split("\n", 2)
        programs, kernel = (seconds(part) for part in times.split())
        rows.append((programs + kernel, kernel, command))
    return sorted(rows, reverse=True)


def short(command):
    """The part of a test's command that no other test has."""
    words = [word for word in command.split() if re.search(r"/tests?[/_]|/fuzz_|/kernel_run", word)]
    return os.path.basename(words[0]) if words else command[:60]


def main():
    folder, *options = sys.argv[1:]
    times = os.path.join(folder, "times")
    shutil.rmtree(times, ignore_errors=True)
    os.makedirs(times)
    code = subprocess.call([os.path.join(TOOLS, "steady.py"), os.path.join(TOOLS, "meson.sh"), "test", "-C", folder, "--no-rebuild",
                            "--print-errorlogs", "--timeout-multiplier", "4",
                            "--wrapper", f"{os.path.join(TOOLS, 'with-times.sh')} {os.path.abspath(times)}", *options],
                           env=dict(os.environ, MALLOC_PERTURB_="0", PLIMSOLL_PROGRESS="0"))
    rows = taken(times)
    print(f"{sum(row[0] for row in rows):.0f} s of processor time in {len(rows)} tests, "
          f"{sum(row[1] for row in rows):.0f} s of it in the kernel; the most:")
    for total, kernel, command in rows[:MOST]:
        print(f"  {total:6.1f} s, {kernel:5.1f} s in the kernel  {short(command)}")
    return code


sys.exit(main())
