"""plimsoll doctor SCRIPT: what lint says of it, and what its first steps under the tracer show.  It runs nowhere else."""
from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from types import FrameType
from typing import Any, Callable, Iterator, Mapping

from ._doctor import Check, hidden, show

MOST = 8  # findings that are rows: all is one page


def tell(redact: bool, trace: str, gpu: str, limit_s: str, *command: str) -> None:
    """For the program: rows as _doctor.show prints them."""
    show(look(list(command), trace, gpu, float(limit_s), redact))


def look(command: list[str], trace: str, gpu: str, limit_s: float, redact: bool) -> Iterator[Check]:
    """
    Rows about a command that trains (["python", "train.py", "--lr", "1"]).  `trace`: where the traced plan is put, a file that
    stays empty if there is none.
    """
    with tempfile.TemporaryDirectory(prefix="plimsoll-") as folder:
        rows = os.path.join(folder, "rows")
        yield from linted(command, limit_s, redact)
        words = [sys.executable, "-c", "from plimsoll._doctor_script import main; main()", rows, trace, gpu, "1" if redact else "", *command]
        if sys.stderr.isatty():
            sys.stderr.write(f"plimsoll: tracing the script, for {limit_s:g} s at most (--time-limit) ...\n")
        code, said = limited(words, limit_s)
        with contextlib.suppress(OSError), open(rows, encoding="utf-8") as f:
            for line in f:
                yield Check(*json.loads(line))
    if code is None:
        yield Check("note", "plan", f"not known: the trace took longer than {limit_s:g} s", "--time-limit SECONDS allows more")
    elif code:
        last = said.strip().splitlines()[-1:] or [f"exit code {code}"]
        yield Check("no", "plan", "the script ended the Python that traced it" + ("" if redact else f": {last[0][:300]}"))


def limited(words: list[str], limit_s: float) -> tuple[int | None, str]:
    """The exit code, None after the limit, and what was said on standard error; nothing that it started is left."""
    with tempfile.TemporaryFile() as said, subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True) as job:
        code: int | None = None
        try:
            code = job.wait(limit_s)
        except subprocess.TimeoutExpired:
            pass
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(job.pid, signal.SIGKILL)
        said.seek(max(0, said.seek(0, os.SEEK_END) - 4000))
        return code, said.read().decode("utf-8", "replace")


# ---- lint ----

def linted(command: list[str], limit_s: float, redact: bool) -> Iterator[Check]:
    script = next((word for word in command if word.endswith(".py")), None)
    if script is None:
        yield Check("note", "lint", "the command names no file", "plimsoll lint FOLDER")
        return
    words = [sys.executable, "-m", "plimsoll.lint", "--json", "--fail-on=never", *(["--redact"] if redact else []), "--", script]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=limit_s, check=False)
        found = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError):
        yield Check("note", "lint", "it did not end" if redact else f"plimsoll lint {script} says why it did not end")
        return
    for error in found["errors"]:
        yield Check("no", "lint", f"line {error['line']}: {error['message']}" if error.get("line") else error["message"])
    findings = sorted(found["findings"], key=lambda f: ("error", "warning", "info").index(f["severity"]))
    for f in findings[:MOST]:
        yield Check("no" if f["severity"] == "error" else "note", f"lint {f['id']}", f"line {f['place']['line']}: {f['title']}", (f["fix"] or [None])[0])
    if len(findings) > MOST:
        yield Check("note", "lint", f"{len(findings) - MOST} findings more", f"plimsoll lint {hidden(script, redact)}")
    if not findings and not found["errors"]:
        yield Check("ok", "lint", "nothing was found")


# ---- the trace, in a process of its own ----

def main() -> None:
    rows, trace, gpu, redact, *command = sys.argv[1:]
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # a GPU that is there is left alone
    with open(rows, "a", encoding="utf-8") as out:
        def tell(check: Check) -> None:
            out.write(json.dumps([check.state, check.what, check.says, check.remedy]) + "\n")
            out.flush()

        traced(command, trace, gpu, bool(redact), tell)


def traced(command: list[str], path: str, gpu: str, redact: bool, tell: Callable[[Check], None]) -> None:
    from .tracing import __main__ as tracing
    from .tracing.progress import Progress

    try:
        import torch  # noqa: F401
    except ImportError as why:
        tell(Check("no", "plan", f"tracing needs {why.name or why}, which this Python does not have", "pip install torch"))
        return
    try:
        with loaders(redact, tell):
            args = tracing._parser().parse_args(["-o", path, "--gpu", gpu])
            trace = tracing._trace(args, command, Progress(own_line=True, stream=io.StringIO()))
        trace.write(path)
    except Exception as why:  # noqa: BLE001 - the traced program may fail in any way
        tell(stopped(why, redact))


def stopped(why: BaseException, redact: bool) -> Check:
    """Would the run stop, too?  Not surely, if it is a limit of the tracer, or a condition had to be guessed before it."""
    from .tracing import errors

    inner, asked = why.__traceback__, vars(why).get("asked")
    while inner is not None and inner.tb_next is not None:
        inner = inner.tb_next
    ended = isinstance(why.__context__, SystemExit) and bool(why.__context__.code)
    tracer = inner is None or inner.tb_frame.f_code.co_filename.startswith(errors.HERE)
    sure = not asked and (ended or not tracer) and not any(name in type(why).__name__ for name, _ in errors.HINTS)
    said = " ".join(re.sub(r"^plimsoll: the trace stopped: ", "", str(why) if tracer else errors.told(why)).split())
    if redact:
        said = type(why).__name__
    remedy = f"pip install {why.name}" if isinstance(why, ModuleNotFoundError) and why.name and not redact else None
    return Check("no" if sure else "note", "plan", said if sure else f"not known, the trace stopped: {said}", remedy)


# ---- loaders ----

@contextlib.contextmanager
def loaders(redact: bool, tell: Callable[[Check], None]) -> Iterator[None]:
    """A row for each DataLoader with its first batch: what the script asked for (the tracer itself reads without workers)."""
    from torch.utils.data import dataloader

    kind: Any = dataloader._BaseDataLoaderIter
    begin, following = kind.__init__, kind.__next__
    seen: list[Any] = []

    def __init__(self: Any, loader: Any) -> None:
        begin(self, loader)
        vars(self)["plimsoll_loader"] = loader

    def __next__(self: Any) -> Any:
        batch, loader = following(self), vars(self)["plimsoll_loader"]
        if not any(loader is other for other in seen):
            seen.append(loader)
            tell(loader_row(vars(loader).get("_plimsoll_asked", {}), size_of(batch), script_line(redact)))
        return batch

    kind.__init__, kind.__next__ = __init__, __next__
    try:
        yield
    finally:
        kind.__init__, kind.__next__ = begin, following


def script_line(redact: bool) -> str:
    """Of the script's own frame that asks for the batch; "": a library's loop does."""
    from .tracing.errors import is_the_scripts

    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (frame.f_code.co_filename == __file__ or not is_the_scripts(frame.f_code.co_filename)):
        frame = frame.f_back
    if frame is None or frame.f_code.co_filename.startswith("<"):
        return ""
    return f"line {frame.f_lineno}: " if redact else f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}: "


def size_of(batch: Any) -> int:
    from torch.utils._pytree import tree_leaves

    return sum(t.numel() * t.element_size() for t in tree_leaves(batch) if hasattr(t, "element_size"))


def loader_row(asked: Mapping[str, Any], batch_bytes: int, line: str) -> Check:
    """What would stop this loader, or slow it down, on this machine."""
    from .data._tune import shm_room, usable_cores

    workers, room, cores = asked.get("num_workers", 0), shm_room(), usable_cores()
    ahead = workers * (asked.get("prefetch_factor") or 2) * batch_bytes
    says = (f"{line}batch_size={asked.get('batch_size', 1)}, num_workers={workers}, pin_memory={bool(asked.get('pin_memory'))}; "
            f"{batch_bytes / 2**20:.2f} MiB per batch")
    only = [name for name in ("prefetch_factor", "persistent_workers", "multiprocessing_context") if asked.get(name)]
    if not workers and only:
        return Check("no", "loader", f"{says}; {only[0]} without workers is an error", "num_workers=1 or more")
    if room is not None and ahead > room:
        return Check("no", "loader", f"{says}; {ahead / 2**20:.0f} MiB are made ahead, /dev/shm has {room / 2**20:.0f} MiB left",
                     "fewer workers, or a larger /dev/shm (docker run --shm-size)")
    if not workers:
        return Check("note", "loader", f"{says}; the GPU waits while the main process makes a batch", "plimsoll.data.tune_loader(loader) measures workers")
    if workers > cores:
        return Check("note", "loader", f"{says}; {cores:g} cores are usable here", f"num_workers={int(cores) or 1}")
    return Check("ok", "loader", f"{says}; {ahead / 2**20:.1f} MiB are made ahead")
