#!/usr/bin/env python3
"""build.py [--ci]: what building costs, in a fresh clone of this checkout's last commit (with --ci also .ci/run, up to an hour).

Processor time is of all processes that a command starts; wall time is of this machine as loaded as it is.
"""
import os
import resource
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# name, command, what is aimed at
ROWS = [
    ("make demo", ["make", "demo"], "150 s CPU, 90 s wall on two idle cores"),
    ("make check, the build", ["make", "tests"], "compiles nothing that demo compiled"),
    ("make check, the tests", ["make", "check"], "700 s CPU"),
    ("pip install .", [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", "build/pip", "."], "150 s CPU"),
]
CI = (".ci/run", [".ci/run"], "1,500 s wall on two idle cores")


def spent():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime, used.ru_stime


def objects(folder):
    """{object file: when it was written} of the program."""
    return {path: os.path.getmtime(path) for top, _, names in os.walk(os.path.join(folder, "build/release")) for name in names
            if name.endswith(".o") and "libplimsoll_parts" in (path := os.path.join(top, name))}


def main():
    with tempfile.TemporaryDirectory() as folder:
        clone = os.path.join(folder, "plimsoll")
        subprocess.run(["git", "clone", "-q", TOP, clone], check=True)
        subprocess.run(["tools/deps.sh", "build", "check"], cwd=clone, check=True)
        print(f"{'command, fresh clone':<24} {'CPU':>6} {'in the kernel':>14} {'wall':>7}   aim", flush=True)
        before = {}
        for name, command, aim in ROWS + ([CI] if "--ci" in sys.argv else []):
            user, kernel = spent()
            began = time.monotonic()
            with open(os.path.join(folder, "log"), "w", encoding="utf-8") as log:
                code = subprocess.run(command, cwd=clone, stdout=log, stderr=log, stdin=subprocess.DEVNULL, check=False).returncode
            wall, (user, kernel) = time.monotonic() - began, (b - a for a, b in zip((user, kernel), spent()))
            now = objects(clone)
            again = sum(now[path] != when for path, when in before.items() if path in now)
            before = now
            print(f"{name:<24} {user + kernel:>4.0f} s {kernel:>12.0f} s {wall:>5.0f} s   {aim}"
                  + (f"; {again} objects were compiled again" if again else "") + (f"; FAILED ({code})" if code else ""), flush=True)


main()
