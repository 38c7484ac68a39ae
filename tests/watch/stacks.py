#!/usr/bin/env python3
"""stacks.py PLIMSOLL: what watch says of Python programs that run, under each CPython that is here: where they are, and the line.

Nothing is timed: a program says where it is, stays there until it is ended, and is looked at until that is seen.
Where the kernel does not let one process read another's memory, the reason must be reported, and the rest is skipped.
"""
import glob
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from lib import expect, finish, run, start  # noqa: E402

LIMIT_S = float(os.environ.get("PLIMSOLL_TEST_LIMIT_S", 180))
RELEASES = range(10, 15)

# What each does, a function that stays in one place; the place as watch shows it: line, function, the expression from 3.11 on.
PROGRAMS = {
    "sleep": ("import time\ndef rest():\n    x = 1 + (0 or\n        time.sleep(600))\nrest()\n", "sleep", 4, "rest", "time.sleep(600)"),
    "wait": ("import subprocess, sys\ndef tool():\n    subprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])\ntool()\n", "wait", 3, "tool",
             "subprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])"),
    "save": ("import time\nclass Trainer:\n    def save_checkpoint(self):\n        time.sleep(600)\nTrainer().save_checkpoint()\n", "saving", 4, "save_checkpoint",
             "time.sleep(600)"),
    "thread": ("import threading, time\nthreading.Thread(target=time.sleep, args=(600,), daemon=True).start()\ndef Größe():\n    time.sleep(600)\nGröße()\n", "sleep", 4,
               "Größe", "time.sleep(600)"),
}


def pythons():
    """Of each release that is here a real program (no shell shim), by what it says itself."""
    candidates = [sys.executable] + [f"/usr/bin/python3.{n}" for n in RELEASES]
    candidates += glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3"))
    found = {}
    for at in candidates:
        code = "import sys, sysconfig, platform; print(platform.python_implementation(), sys.version_info[1], sysconfig.get_config_var('Py_GIL_DISABLED') or 0, sys.executable)"
        try:
            said = subprocess.run([at, "-c", code], capture_output=True, text=True, timeout=LIMIT_S, check=False).stdout.split(maxsplit=3)
        except OSError:
            continue
        if len(said) == 4 and said[0] == "CPython" and said[2] == "0" and int(said[1]) in RELEASES:
            found.setdefault(int(said[1]), said[3].strip())
    return found


def places_of(pid, holds):
    """Look until holds(job) says so; the newest job."""
    end = time.monotonic() + LIMIT_S
    while True:
        seen = json.loads(run("watch", pid, "--no-gpu", "--once", "--json").stdout)
        notes = [n for n in seen["notes"] if n.startswith("Python stacks")]
        if notes or (seen["jobs"] and holds(seen["jobs"][0])) or time.monotonic() > end:
            return seen["jobs"][0], notes


def look(release, python, name, scratch):
    """One program under one Python; False: it may not be looked at."""
    code, does, line, function, text = PROGRAMS[name]
    path, where = os.path.join(scratch, f"{name}.py"), f"3.{release}, {name}"
    with open(path, "w", encoding="utf-8") as f:
        f.write(code)
    with subprocess.Popen([python, "-S", path], cwd=scratch, start_new_session=True) as job:
        try:
            seen, notes = places_of(job.pid, lambda j: j["places"] and (j["places"][0]["does"], j["places"][0]["line"]) == (does, line))
            if notes:
                print(f"SKIPPED: {notes[0]}")
                return False
            place = seen["places"][0] if seen["places"] else {}
            expect((place.get("who"), place.get("does"), place.get("line"), place.get("file")) == ("main", does, line, f"{name}.py"), where, seen["places"])
            expect((place.get("function") or "").split(".")[-1] == function, where, place)
            expect(text in (place.get("code") or "") if release == 10 else place.get("code") == text, where, place)
            if name == "save":
                redacted = run("watch", job.pid, "--no-gpu", "--once", "--json", "--redact").stdout
                expect(f"{name}.py" not in redacted and text not in redacted and "saving" in redacted, where, "--redact shows", redacted)
                without = json.loads(run("watch", job.pid, "--no-gpu", "--once", "--json", "--no-stacks").stdout)
                expect(not without["jobs"][0]["places"], where, "--no-stacks shows", without["jobs"][0]["places"])
        finally:
            os.killpg(job.pid, signal.SIGKILL)
    return True


def main():
    start(sys.argv[1])
    here = pythons()
    if not here:
        print("SKIPPED: no CPython 3.10 to 3.14 is here")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as scratch:
        for release, python in sorted(here.items()):
            for name in PROGRAMS:
                if not look(release, python, name, scratch):
                    sys.exit(77)
    finish(f"watch, stacks of CPython {', '.join(f'3.{n}' for n in sorted(here))}", least=3)


main()
