"""is_oom, explain and oom_guard: what an exception says of memory, and saying it where it is read."""
from __future__ import annotations

import functools
import inspect
import os
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, ParamSpec, TypeVar

from .. import _torch
from ..memory._owners import forget as forget  # for those who keep exceptions
from ..errors import ArgumentError, PlimsollError

if TYPE_CHECKING:
    from ..memory._recorder import Recorder
    from .._results import WhyDeath

P = ParamSpec("P")
T = TypeVar("T")
SHOWN_TEXT = 80  # characters of the message in a repr


@dataclass(frozen=True)
class OutOfMemory:
    """A failure of memory: whose ("device", "budget", "host", "shared_memory", "killed", ...), and its numbers in bytes.

    Numbers are as the text gives them, rounded there: the lower end of each range.  None: the text does not say.
    """

    kind: str
    family: str
    text: str
    tried_bytes: int | None = None
    total_bytes: int | None = None
    free_bytes: int | None = None
    allocated_bytes: int | None = None
    reserved_bytes: int | None = None

    @property
    def on_device(self) -> bool:
        return self.kind in ("device", "budget")

    def __repr__(self) -> str:
        text = " ".join(self.text.split())
        return f"<OutOfMemory: {self.kind}, {self.family}: {text if len(text) <= SHOWN_TEXT else text[:SHOWN_TEXT - 3] + '...'}>"


def is_oom(error: BaseException) -> OutOfMemory | None:
    """Is this a failure of memory?  By its class (torch.OutOfMemoryError, MemoryError) and by every wording that
    plimsoll why knows: NCCL, cuBLAS, cuDNN, Triton, JAX, vLLM, the host, /dev/shm; also of the exception behind it.

    >>> is_oom(RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB.")).tried_bytes
    2142252892
    >>> is_oom(ValueError("batch of 3")) is None
    True
    """
    seen = set()
    at: BaseException | None = error
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        found = _one(at)
        if found is not None:
            return found
        at = at.__cause__ or (None if at.__suppress_context__ else at.__context__)
    return None


def _one(error: BaseException) -> OutOfMemory | None:
    from .. import _native, verbs

    if not isinstance(error, Exception):
        return None  # KeyboardInterrupt, SystemExit
    kind = type(error)
    text = "".join(traceback.format_exception_only(kind, error))
    try:
        deaths = verbs.why(text + "\n").deaths
    except PlimsollError:  # without the library the class still shows
        deaths = []
    if deaths:
        return _from_why(deaths[0], text.strip())
    if isinstance(error, MemoryError):
        return OutOfMemory("host", "Python", text.strip())
    torch = sys.modules.get("torch")
    known = getattr(torch, "OutOfMemoryError", None) or getattr(getattr(torch, "cuda", None), "OutOfMemoryError", None)
    if isinstance(known, type) and isinstance(error, known):
        return OutOfMemory("device", "PyTorch", text.strip())
    return None


def _from_why(death: WhyDeath, text: str) -> OutOfMemory:
    numbers = death.numbers.to_dict() if death.numbers is not None else {}

    def low(name: str) -> int | None:
        told = numbers.get(name + "_bytes")
        return told["low"] if isinstance(told, dict) else None

    return OutOfMemory(death.kind, death.family or "?", text, low("tried"), low("total"), low("free"), low("allocated"),
                       low("reserved"))


def explain(error: BaseException) -> str:
    """The verdict on a failure of memory, with what helps and what does not; "" if it is none."""
    from .. import verbs

    if is_oom(error) is None:
        return ""
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    try:
        return str(verbs.why(text + "\n"))
    except PlimsollError as why:
        return f"there is no verdict: {why}"


class oom_guard:
    """Around a loop or a function: a failure of memory is recorded where it happens, its verdict is added to the exception
    (add_note, which leaves its text alone), and it goes on.

    `with oom_guard():` around a loop; `@oom_guard()` in front of a function opens one for each call.
    recorder: a Recorder that runs; None: the one that does, if any.  note: add the verdict to the exception.
    After the block: .error (an OutOfMemory or None), .verdict (text), .recording (a path or None).
    """

    def __init__(self, *bare: object, recorder: Recorder | None = None, note: bool = True) -> None:
        if bare:
            raise ArgumentError("oom_guard takes nothing by position", remedy="write @oom_guard() in front of a function, or with oom_guard():")
        self.recorder, self.note = recorder, note
        self.error: OutOfMemory | None = None
        self.verdict = ""
        self.recording: Path | None = None
        self._pid = os.getpid()
        self._files = 0
        self.at_failure: dict[str, int] | None = None

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        """The function, with a guard of this kind around each of its calls."""
        if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise ArgumentError("oom_guard cannot go around a function that is left before it ends", remedy="write with oom_guard(): in it")
        recorder, note = self.recorder, self.note

        @functools.wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> T:
            with oom_guard(recorder=recorder, note=note):
                return function(*args, **kwargs)

        return run

    def __enter__(self) -> oom_guard:
        from ..memory import _recorder

        self.recorder = self.recorder or _recorder.active()
        self._files = len(self.recorder.files) if self.recorder else 0
        if "torch" in sys.modules:
            _torch.observe_failures(self)
        return self

    def __repr__(self) -> str:
        return f"<oom_guard: {'nothing happened' if self.error is None else self.error.text.splitlines()[-1]}>"

    def on_oom(self, device: int, requested: int, limit: int, free: int) -> None:
        """Tensors are live as at the failure: the only place for true numbers."""
        now = _torch.CudaMemory(device).numbers()
        self.at_failure = {"device": device, "requested_bytes": requested, "limit_bytes": limit, "free_bytes": free,
                           "allocated_bytes": now[0], "reserved_bytes": now[1]}

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        _torch.ignore_failures(self)
        if error is None or os.getpid() != self._pid:
            return
        try:
            self.error = is_oom(error)
            if self.error is not None:
                self._tell(error)
        except Exception:  # the failure itself is what counts
            _torch.logger.exception("while a failure of memory was explained")

    def _tell(self, error: BaseException) -> None:
        files = self.recorder.files[self._files:] if self.recorder else []
        self.recording = files[-1] if files else None
        self.verdict = self._from_recording() or explain(error)
        if self.note and self.verdict:
            note(error, "plimsoll: " + self.verdict.rstrip())

    def _from_recording(self) -> str:
        from .. import verbs

        if self.recording is None:
            return ""
        try:
            told = verbs.report(self.recording, progress=False)
        except PlimsollError as why:
            return f"the recording {self.recording} cannot be explained: {why}"
        verdict = told.verdict
        if verdict is None:
            return f"recorded in {self.recording}"
        lines = [verdict.headline or "", "Why"] + [f"  - {line}" for line in verdict.evidence]
        lines += ["What to do"] + [f"  - {line}" for line in verdict.helps]
        return "\n".join(lines + [f"  - the whole report: plimsoll report {self.recording}"])


def note(error: BaseException, text: str) -> None:
    """error.add_note, and its like before Python 3.11."""
    add = getattr(error, "add_note", None)
    if add is not None:
        add(text)
    else:
        error.__notes__ = [*getattr(error, "__notes__", []), text]  # type: ignore[attr-defined]
        _torch.logger.error("%s", text)
