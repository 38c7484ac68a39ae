"""Recorder: PyTorch's memory history of this process, dumped when memory is refused, at the end, and on demand."""
from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
import weakref
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Iterable, Literal

from .. import _abi, _native, _torch
from .._input import PathLike
from ._sources import sources
from ..errors import ArgumentError, NotFoundError, PlimsollError, UnsupportedError

if TYPE_CHECKING:
    from ..verbs import Report

OOM_DUMPS_MAX = 3  # of a job that catches its failures and goes on
SIGNAL_WAIT_S = 10.0  # a dump that a signal asked for is made at the next mark, or after this

_active: weakref.ref[Recorder] | None = None


def active() -> Recorder | None:
    """The recorder that runs in this process."""
    found = _active() if _active is not None else None
    return found if found is not None and found.running else None


def dump_due() -> None:
    """The dumps that signals asked for."""
    while _torch.due:
        recorder = _torch.due.pop()()
        if recorder is not None and recorder.running:
            recorder._try_dump("signal")


class Recorder:
    """Records GPU memory from `with` on, and writes recordings that plimsoll.report reads.

    dir: where they go (plimsoll-TIME-rankR-pidP-WHY.pickle).  max_entries: events kept, the newest; a million take some
    400 MB of host memory.  stacks: "python", or "all" for C++ too (dumps take three times as long).  on_oom: dump where
    memory is refused, before the exception exists: what was live then is in it.  at_exit: dump when the block ends.
    on_signal: a signal after which a dump is made at the next mark or step of a monitor, or after 10 s without one.
    pack: dumps are packed (.plim, 12 to 200 times smaller); where one cannot be, it stays a pickle.

    CUDA need not be in use yet.  Where the job records its own history already, its settings stay.
    """

    def __init__(self, dir: PathLike = ".", *, max_entries: int = 1_000_000, stacks: Literal["python", "all"] = "python",
                 on_oom: bool = True, at_exit: bool = False, on_signal: int | None = None, pack: bool = False) -> None:
        if stacks not in ("python", "all"):
            raise ArgumentError(f"stacks takes 'python' or 'all', not '{stacks}'")
        self.dir = Path(dir)
        self.max_entries, self.stacks = max_entries, stacks
        self.dump_on_oom, self.dump_at_exit, self.on_signal = on_oom, at_exit, on_signal
        self.pack = pack
        self.files: list[Path] = []
        self.ooms = 0
        self.running = False
        self._pid = os.getpid()
        self._run = time.strftime("%m%d-%H%M%S")
        self._born = time.time()
        self._started_by_us = False
        self._lock = threading.RLock()
        self._old_handler: Any = None
        self._window: tuple[int, int] | None = None
        self._step = 0
        self._gauge: Any = None

    # ---- starting and ending ----

    def start(self) -> Recorder:
        """As `with` does.  Raises UnsupportedError where PyTorch cannot record, NotFoundError where dir cannot be written."""
        global _active
        torch = _torch.torch()
        if not hasattr(torch.cuda.memory, "_record_memory_history"):
            raise UnsupportedError("this PyTorch does not record memory history", remedy="take 2.1 or later")
        if not torch.cuda.is_available():
            raise UnsupportedError("there is no GPU that PyTorch sees: nothing can be recorded")
        self.dir.mkdir(parents=True, exist_ok=True)
        if not os.access(self.dir, os.W_OK):
            raise NotFoundError(f"recordings cannot be written to '{self.dir}'", path=str(self.dir))
        self.running = True
        _active = weakref.ref(self)
        if self._window is None:
            torch.cuda._lazy_call(self._begin)
        if self.dump_on_oom:
            _torch.observe_failures(self)
        if self.on_signal is not None:
            self._old_handler = signal.signal(self.on_signal, self._on_signal)
        from .. import gauge

        self._gauge = gauge.current()  # a monitor's, where one is attached
        return self

    def _begin(self) -> None:
        torch = _torch.torch()
        enabled = getattr(torch._C, "_cuda_isHistoryEnabled", lambda: False)
        if not self.running or enabled():
            return
        try:
            torch.cuda.memory._record_memory_history(max_entries=self.max_entries, stacks=self.stacks)
        except TypeError:  # PyTorch 2.0
            torch.cuda.memory._record_memory_history(True, trace_alloc_max_entries=self.max_entries,
                                                     trace_alloc_record_context=True)
        self._started_by_us = True

    def close(self) -> None:
        """Stop recording; the recorder can be started again."""
        global _active
        if not self.running or os.getpid() != self._pid:
            return
        if self.dump_at_exit:
            self._try_dump("end")
        self.running = False
        _torch.ignore_failures(self)
        self._stop_history()
        self._gauge = None
        if self.on_signal is not None:
            signal.signal(self.on_signal, self._old_handler or signal.SIG_DFL)
        if _active is not None and _active() is self:
            _active = None

    def _stop_history(self) -> None:
        if self._started_by_us:
            self._started_by_us = False
            _torch.torch().cuda.memory._record_memory_history(enabled=None)

    def __enter__(self) -> Recorder:
        return self if self.running else self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Recorder in {self.dir}: {'running' if self.running else 'off'}, {len(self.files)} recordings>"

    def __getstate__(self) -> dict[str, Any]:
        return {"dir": self.dir}  # a worker's copy records nothing

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["dir"])  # type: ignore[misc]

    # ---- chosen steps ----

    def steps(self, start: int, stop: int) -> None:
        """Record only steps start..stop-1, then dump; step() counts.  Before `with`, so that nothing is recorded earlier."""
        if not 0 <= start < stop:
            raise ArgumentError(f"steps takes 0 <= start < stop, not {start} and {stop}")
        self._window = (start, stop)
        if start == 0 and self.running:
            self._begin()

    def step(self) -> None:
        """The end of a training step."""
        if not self.running or os.getpid() != self._pid:
            return
        self._step += 1
        self._tell()
        if self._window is not None and self._step == self._window[0]:
            _torch.torch().cuda._lazy_call(self._begin)
        if self._window is not None and self._step == self._window[1]:
            self._try_dump("steps")
            self._stop_history()
        if _torch.due:
            dump_due()

    def _tell(self) -> None:
        """The gauge, unless a monitor counts the steps."""
        if self._gauge is not None and not self._gauge.monitors and _torch.cuda_started():
            memory = _torch.memory_of()
            self._gauge.step(self._step, memory=memory.numbers(), device=getattr(memory, "index", 0))

    # ---- dumps ----

    def path_for(self, why: str) -> Path:
        return self.dir / f"plimsoll-{self._run}-rank{_torch.rank()}-pid{self._pid}-{why}{'.plim' if self.pack else '.pickle'}"

    def dump(self, path: PathLike | None = None) -> Path:
        """Write what was recorded so far, whole or not at all; host time is 2 to 3 s a million events, of which PyTorch takes two thirds.

        A path that ends in .plim is packed, which takes half a second a million events more.

        Size, time and sha256 of the program's files that have frames go into it, for `plimsoll lint --recording`.

        Raises NotFoundError where it cannot be written, UnsupportedError where nothing was allocated.
        """
        if os.getpid() != self._pid:
            raise UnsupportedError("this is a forked child: the recording is its parent's")
        to = self.path_for("demand") if path is None else Path(path)
        with self._lock:
            plain = to.with_suffix(".pickle") if to.suffix == ".plim" else to
            with _torch.NoCollection():
                self._write(plain)
            to = plain if to == plain else pack(plain, to)
            self.files.append(to)
        _torch.logger.info("recorded %s", to)
        return to

    def _write(self, path: Path) -> None:
        snapshot = _torch.snapshot()  # gone when this returns, before it could be collected
        if not snapshot.get("segments") and not any(snapshot.get("device_traces", [])):
            raise UnsupportedError("no GPU memory was allocated: there is nothing to write")
        write_pickle(path, snapshot, ("plimsoll_sources", self._sources))  # the last key: readers look at the end

    def _sources(self, files: Iterable[str]) -> str:
        try:
            return sources(files, self._born)
        except Exception as error:  # a recording without the list is worth more than none
            _torch.logger.warning("the recording does not name its sources: %s", error)
            return "{}"

    def _try_dump(self, why: str) -> Path | None:
        try:
            return self.dump(self.path_for(why))
        except (OSError, UnsupportedError) as error:
            _torch.logger.warning("nothing was recorded (%s): %s", why, error)
            return None

    def on_oom(self, device: int, requested: int, limit: int, free: int) -> None:
        if os.getpid() != self._pid or not self.running:
            return
        self.ooms += 1
        if self.ooms <= OOM_DUMPS_MAX:
            self._try_dump(f"oom{self.ooms}")

    def _on_signal(self, number: int, frame: Any) -> None:
        """Only a note: a snapshot holds the GIL for long, and this may be in the middle of anything."""
        if os.getpid() != self._pid:
            return
        _torch.due.append(weakref.ref(self))
        timer = threading.Timer(SIGNAL_WAIT_S, dump_due)
        timer.daemon = True
        timer.start()

    def report(self, **options: Any) -> Report:
        """Explain the last dump, or what was recorded up to now."""
        from .. import verbs

        if self.files and not self.running:
            return verbs.report(self.files[-1], **options)
        return verbs.report(_torch.snapshot(), **options)


def started(dir: PathLike | None) -> Recorder | None:
    """A Recorder that runs, for a trainer's callback; None: none is wanted, or none can be had here, which a warning says."""
    if dir is None:
        return None
    try:
        return Recorder(dir).start()
    except UnsupportedError as why:
        _torch.logger.warning("%s", why)
        return None


def write_pickle(path: Path, value: Any, last: Any = None) -> None:
    """Into a file next to it, then renamed: the name never stands for half a recording."""
    part = path.with_name(path.name + ".part")
    try:
        with _torch.NoCollection(), open(part, "wb", buffering=0) as file:
            _native.pickle_to(file.fileno(), value, last)
        os.replace(part, path)
    except OSError as why:
        part.unlink(missing_ok=True)
        raise NotFoundError(f"cannot write '{path}': {why.strerror}", path=str(path), errno=why.errno) from None


def pack(plain: Path, packed: Path) -> Path:
    """A pickle in its packed form, whose name is given back; the pickle goes, or stays where that fails."""
    recording, error = ctypes.c_void_p(), _abi.plim_err()
    try:
        library = _native.load()
        _native.check(library.plim_recording_open(os.fsencode(plain), None, ctypes.byref(recording), ctypes.byref(error)), error,
                      str(plain))
        try:
            _native.check(library.plim_recording_snapshot(recording, os.fsencode(packed), ctypes.byref(error)), error, str(packed))
        finally:
            library.plim_recording_free(recording)
        plain.unlink()
        return packed
    except (PlimsollError, OSError) as why:
        _torch.logger.warning("the recording stays a pickle: %s", why)
        return plain
