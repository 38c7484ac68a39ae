"""Starting the user's command with the cut, or with the probe, in it."""
from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from typing import Any, Callable, Sequence

from ..errors import UnsupportedError
from ._probe import QUIET

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
#: Python runs this as it starts, in front of what else has its name.
_ENTRY = '''import importlib.util, os, sys
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, {root!r})
try:
    from plimsoll.fit._job import enter
finally:
    sys.path.remove({root!r})
enter(os.environ["PLIMSOLL_FIT"])
for folder in sys.path:
    path = os.path.join(folder or ".", "sitecustomize.py")
    if os.path.abspath(folder or ".") != HERE and os.path.isfile(path):
        spec = importlib.util.spec_from_file_location("sitecustomize", path)
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
        break
'''
LAST_LINES = 18  # torchrun's, of two ranks
END_S = 10.0


#: The first is the name since PyTorch 2.9, the second that of all releases.
ALLOCATOR = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")


def allocator() -> dict[str, str]:
    """Expandable segments for probe and run, as batches of other lengths leave no gaps in them; {}: the user's environment decides that."""
    said = next((os.environ[name] for name in ALLOCATOR if os.environ.get(name)), "")
    if "expandable_segments" in said or "backend" in said:
        return {}
    return dict.fromkeys(ALLOCATOR, f"{said},expandable_segments:True".lstrip(","))


def environment(folder: str, asked: dict[str, Any]) -> dict[str, str]:
    """Of a process that this comes into; `folder` has to be there as long as it starts Pythons."""
    with open(os.path.join(folder, "sitecustomize.py"), "w", encoding="utf-8") as f:
        f.write(_ENTRY.format(root=_ROOT))
    path = os.pathsep.join(p for p in (folder, os.environ.get("PYTHONPATH", "")) if p)
    return {**os.environ, **allocator(), "PYTHONPATH": path, "PLIMSOLL_FIT": json.dumps(asked)}


def check(command: Sequence[str]) -> None:
    """UnsupportedError if Python would not look at PYTHONPATH."""
    for word in command[1:] if "python" in os.path.basename(command[0]) else ():
        if not word.startswith("-") or word in ("-c", "-m", "-"):
            break
        if not word.startswith("--") and set("IES") & set(word[1:]):
            raise UnsupportedError(f"under 'python {word}' nothing can come into the job")


@dataclass
class Probed:
    """answer: None if the command ended without a training step; code: its exit code then, last: what it printed last."""

    answer: dict[str, Any] | None
    code: int
    last: list[str]
    seconds: float
    out_of_memory: bool = False  # some of its processes said so


def _end(job: subprocess.Popen[bytes]) -> None:
    """A launcher ends its ranks when it is asked to, and leaves them when it is killed."""
    job.terminate()
    try:
        job.wait(END_S)
    except subprocess.TimeoutExpired:
        job.kill()
        job.wait()


def probe(command: Sequence[str], wanted: dict[str, Any], say: Callable[[str], None]) -> Probed:
    """Start the command, wait until it has measured, and remove what it wrote.  wanted: "parts", "checkpointed", "limit_bytes", "known" (_job.py)."""
    check(command)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="plimsoll-fit-", ignore_cleanup_errors=True) as folder:
        path = os.path.join(folder, "answer.json")
        asked = {**wanted, "probe": path}
        os.mkdir(os.path.join(folder, "tmp"))
        inside = {"TMPDIR": os.path.join(folder, "tmp"), "TRITON_CACHE_DIR": os.path.join(folder, "tmp", "triton"), "PYTHONDONTWRITEBYTECODE": "1"}
        with open(os.path.join(folder, "output"), "w+b") as output:
            job = subprocess.Popen(list(command), env={**environment(folder, asked), **QUIET, **inside}, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
            try:
                while job.poll() is None:
                    say(f"probe: {time.monotonic() - began:.0f} s")
                    try:
                        job.wait(1)
                    except subprocess.TimeoutExpired:
                        continue
            finally:
                if job.poll() is None:
                    _end(job)
                say("")
            output.seek(max(0, os.path.getsize(output.name) - 16384))
            text = output.read().decode("utf-8", "replace")
        answer = None
        if os.path.isfile(path):
            with open(path, encoding="utf-8") as f:
                answer = json.load(f)
        return Probed(answer, job.returncode, text.splitlines()[-LAST_LINES:], time.monotonic() - began, "out of memory" in text.lower())


class Stale(Exception):
    """The kept result was made with something else."""


def run(command: Sequence[str], asked: dict[str, Any]) -> int:
    """The command with each step in parts, as PLIMSOLL_FIT says it (_job.py); its exit code.  The folder that lets it in is removed when it ends.

    Raises Stale if "made_with" is not what the job found before its first step.
    """
    check(command)
    with tempfile.TemporaryDirectory(prefix="plimsoll-fit-", ignore_cleanup_errors=True) as folder:
        stale = os.path.join(folder, "stale")
        job = subprocess.Popen(list(command), env=environment(folder, {**asked, "stale": stale}))
        for number in (signal.SIGTERM, signal.SIGHUP):  # a scheduler's; a terminal's Ctrl-C reaches the job by itself
            signal.signal(number, lambda got, _: job.send_signal(got))
        while True:
            try:
                code = job.wait()
                if os.path.isfile(stale):
                    with open(stale, encoding="utf-8") as f:
                        raise Stale(f.read())
                return code if code >= 0 else 128 - code
            except KeyboardInterrupt:  # the job has got it, too
                continue


def become(command: Sequence[str]) -> None:
    """Run the command in place of this process, with nothing in it but the allocator's settings that it was measured with."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execvpe(command[0], list(command), {**os.environ, **allocator()})
