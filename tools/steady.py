#!/usr/bin/env python3
"""steady.py COMMAND...: run a command that takes long, so that no one wonders whether it still runs.

On a terminal the command shows its own progress.  Elsewhere its lines are passed on, and after nine seconds without one
the last is printed again with the seconds that passed.  Of ninja only a line every five seconds is shown, such as
`[120/458] src/planner/plan/step/ops.c`, and what went wrong.  VERBOSE=1 shows all that ninja says.
"""
import os
import re
import selectors
import subprocess
import sys
import time

EVERY_S = 5
SILENT_S = 9

STATUS = re.compile(r"\[(\d+/\d+)\] (.*)")
MADE = re.compile(r" -c (\S+)$| -o (\S+)")


def made_by(command):
    """What a command of ninja makes: the source that it compiles, else the file that it writes."""
    found = [source or written for source, written in MADE.findall(command)]
    return re.sub(r"^(\.\./)+", "", found[-1] if found else re.split(r"[ /]", command)[-1])


class Passing:
    """Lines of a command, on their way to OUT."""

    def __init__(self, out, is_ninja):
        self.out, self.is_ninja = out, is_ninja
        self.last, self.said, self.started = "starting", time.monotonic(), time.monotonic()

    def say(self, text):
        print(text, file=self.out, flush=True)
        self.said = time.monotonic()

    def line(self, text):
        status = STATUS.match(text) if self.is_ninja else None
        if status:
            first = self.last == "starting"
            self.last = f"[{status[1]}] {made_by(status[2])}"
            if first or time.monotonic() - self.said >= EVERY_S:
                self.say(self.last)
        elif not self.is_ninja or not text.startswith(("ninja: Entering", "ninja: no work")) and text:
            self.last = text or self.last
            self.say(text)

    def silence(self):
        """Seconds until the silence is too long."""
        return max(0.0, self.said + SILENT_S - time.monotonic())

    def still(self):
        self.say(f"{self.last.rstrip()} (still running after {time.monotonic() - self.started:.0f} s)")


def pass_on(lines, passing):
    waiting = selectors.DefaultSelector()
    waiting.register(lines, selectors.EVENT_READ)
    rest = b""
    while True:
        if not waiting.select(timeout=passing.silence()):
            passing.still()
            continue
        chunk = os.read(lines.fileno(), 1 << 16)
        if not chunk:
            break
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            passing.line(line.decode("utf-8", "replace"))
    if rest:
        passing.line(rest.decode("utf-8", "replace"))


def main():
    command = sys.argv[1:]
    if not command:
        sys.exit("usage: steady COMMAND...")
    is_ninja = os.path.basename(command[0]) == "ninja"
    if sys.stderr.isatty() and sys.stdout.isatty():
        os.execvp(command[0], command)
    env = dict(os.environ, PYTHONUNBUFFERED="1")
    if is_ninja:
        command = [*command, "--verbose"]
        env["NINJA_STATUS"] = "[%f/%t] "
    # What a build says is talk, what tests say is their result.
    out = sys.stderr if is_ninja else sys.stdout
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env) as running:
        pass_on(running.stdout, Passing(out, is_ninja and not os.environ.get("VERBOSE")))
    return running.returncode


if __name__ == "__main__":
    try:
        code = main()
    except KeyboardInterrupt:
        code = 130
    sys.exit(code if code >= 0 else 128 - code)
