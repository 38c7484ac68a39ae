#!/usr/bin/env python3
"""readme.py PROGRAM [FILE]: print README.md (or FILE) with the output of its `$ plimsoll` as the program prints it now.

What it shows is run where `samples` and `tests` are, behind what its `$ tar` unpack; pages of docs/tasks show all that they
run, and may end a line with `| head -N`, `| tail -N` or both.
"""
import os
import re
import shlex
import subprocess
import sys
import tempfile

program = os.path.abspath(sys.argv[1])
top = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
env = dict(os.environ, LC_ALL="C.UTF-8", NO_COLOR="1")
where = tempfile.TemporaryDirectory()
for folder in ("samples", "tests"):
    os.symlink(os.path.join(top, folder), os.path.join(where.name, folder))


def shown(match):
    command, *parts = match[1].split(" | ")
    run = subprocess.run([program, *shlex.split(command)], cwd=where.name, env=env, capture_output=True, text=True)
    if run.returncode > 1:  # 1 is an answer: it does not fit, it is not safe
        sys.exit(f"plimsoll {command}: exit {run.returncode}: {run.stderr}")
    lines = run.stdout.strip("\n").split("\n")
    for part in parts:
        end, count = re.fullmatch(r"(head|tail) -(\d+)", part).groups()
        lines = lines[:int(count)] if end == "head" else lines[-int(count):]
    lines = "\n".join(lines).strip("\n").split("\n")
    body = "".join(("    " + line).rstrip() + "\n" for line in lines)
    return f"    $ plimsoll {match[1]}\n{body}"


name = sys.argv[2] if sys.argv[2:] else "README.md"
with open(os.path.join(top, name), encoding="utf-8") as f:
    text = f.read()
for archive in re.findall(r"    \$ tar -xf (\S+)\n", text):
    subprocess.run(["tar", "-xf", archive], cwd=where.name, check=True)
# A line of the shell and the indented lines below it, with the empty ones between.
runs = r".*" if name.startswith("docs/tasks/") else r"(?:report samples/|diff tests/|why tests/|why --here --root v2)\b.*"
text, n = re.subn(rf"    \$ plimsoll ({runs})\n(?:(?:    .*)?\n)*(?:    .+\n)", shown, text)
if not n:
    sys.exit(f"{name} shows no run of plimsoll")
sys.stdout.buffer.write(text.encode("utf-8"))
