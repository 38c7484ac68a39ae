"""What the package asks of PyTorch, in one place: statistics, peaks, history, failures.  Never imports it unasked."""
from __future__ import annotations

import gc
import importlib
import logging
import os
import sys
import threading
import weakref
from typing import Any, Callable, Protocol

from . import _job
from .errors import UnsupportedError

logger = logging.getLogger("plimsoll")
due: list[Any] = []  # dumps that signals asked for: what makes each (see _recorder.py)
forks = 0  # of this process since its parent imported this: a system call less than os.getpid()


def _forked() -> None:
    global forks
    forks += 1


os.register_at_fork(after_in_child=_forked)
Numbers = tuple[int, int, int, int, int, int]  # allocated, reserved, their peaks, retries, failures
# plimsoll.allocator's, where it is in use: numbers, and what resets their peaks
own: tuple[Callable[[int], Numbers], Callable[[int], None]] | None = None


def torch() -> Any:
    """The torch of this process.  Raises UnsupportedError where it cannot be imported."""
    module = sys.modules.get("torch")
    if module is not None:
        return module
    try:
        return importlib.import_module("torch")
    except ImportError as why:
        raise UnsupportedError(f"this needs PyTorch ({why})", remedy="pip install torch") from None


def cuda_started() -> bool:
    """Has this process used a GPU?  Imports nothing, starts nothing."""
    module = sys.modules.get("torch")
    return bool(module is not None and module.cuda.is_available() and module.cuda.is_initialized())


# what gives numbers and what resets peaks, the arguments of both, and: is it PyTorch's dict, not Numbers?
Calls = tuple[Callable[..., Any], Callable[..., None], tuple[int, ...], bool]


class Memory(Protocol):
    """Where memory is read from."""

    name: str
    noise_bytes: int  # growth that says nothing

    def numbers(self) -> Numbers: ...
    def free(self) -> tuple[int, int] | None: ...
    def limit(self) -> int | None: ...
    def reset_peak(self) -> None: ...

    def calls(self) -> Calls:
        """numbers() and reset_peak() for hooks in C."""
        ...


class CudaMemory:
    """One GPU's caching allocator.  numbers() is one call (22 us on an H100); memory_allocated() and others take 150 each."""

    noise_bytes = 0

    def __init__(self, index: int) -> None:
        t = torch()
        self.index, self.name = index, f"cuda:{index}"
        self._stats: Callable[[int], dict[str, Any]] = (
            getattr(t._C, "_cuda_memoryStats", None) or t.cuda.memory_stats_as_nested_dict)
        self._reset: Callable[[int], None] = getattr(t._C, "_cuda_resetPeakMemoryStats", None) or t.cuda.reset_peak_memory_stats
        self._info: Callable[[int], tuple[int, int]] = t.cuda.mem_get_info

    def numbers(self) -> Numbers:
        if own is not None:
            return own[0](self.index)
        stats = self._stats(self.index)
        allocated, reserved = stats["allocated_bytes"]["all"], stats["reserved_bytes"]["all"]
        return (allocated["current"], reserved["current"], allocated["peak"], reserved["peak"],
                stats["num_alloc_retries"], stats["num_ooms"])

    def free(self) -> tuple[int, int] | None:
        return self._info(self.index)

    def limit(self) -> int:
        """Bytes that PyTorch can take: those it has and those that are free, at most the fraction that the process set itself."""
        free, total = self._info(self.index)
        return min(free + self.numbers()[1], int(total * memory_fraction(self.index)))

    def reset_peak(self) -> None:
        (self._reset if own is None else own[1])(self.index)

    def calls(self) -> Calls:
        if own is not None:
            return own[0], own[1], (self.index,), False
        return self._stats, self._reset, (self.index,), True


class HostMemory:
    """This process's own memory, where there is no GPU: allocated is anonymous and shared memory, reserved all of the resident."""

    name = "host"
    noise_bytes = 1 << 20  # pages come singly, and the heap and Python's arenas keep some
    _fields = {b"VmHWM": "peak", b"VmRSS": "resident", b"RssFile": "file"}

    def numbers(self) -> Numbers:
        found = {"peak": 0, "resident": 0, "file": 0}
        with open("/proc/self/status", "rb") as f:
            for line in f:
                name = self._fields.get(line.partition(b":")[0])
                if name:
                    found[name] = int(line.split()[1]) << 10
        allocated = found["resident"] - found["file"]
        return allocated, found["resident"], max(allocated, found["peak"] - found["file"]), found["peak"], 0, 0

    def free(self) -> tuple[int, int] | None:
        return None

    def limit(self) -> int | None:
        return None

    def reset_peak(self) -> None:
        try:
            with open("/proc/self/clear_refs", "w") as f:
                f.write("5")
        except OSError:
            pass  # then the peak is the process's, which is no less

    def calls(self) -> Calls:
        return self.numbers, self.reset_peak, (), False


def memory_fraction(index: int) -> float:
    """What set_per_process_memory_fraction set; 1.0: nothing, or a PyTorch that does not say (before 2.6)."""
    read = getattr(torch().cuda, "get_per_process_memory_fraction", None)
    return 1.0 if read is None else float(read(index))


def memory_of(device: Any = None) -> Memory:
    """device None: the current GPU, or the host where there is none; "cpu" or "host"; a GPU as torch takes it."""
    if device is None:
        module = sys.modules.get("torch")
        if module is None or not module.cuda.is_available():
            return HostMemory()
        return CudaMemory(module.cuda.current_device())
    if str(device) in ("cpu", "host"):
        return HostMemory()
    t = torch()
    where = t.device("cuda", device) if isinstance(device, int) else t.device(device)
    if where.type != "cuda" or not t.cuda.is_available():
        raise UnsupportedError(f"memory of '{device}' cannot be read here", remedy="give 'cpu' or a GPU that PyTorch sees")
    return CudaMemory(t.cuda.current_device() if where.index is None else where.index)


# ---- peaks that nest ----


class Peak:
    """The most since it was begun, whoever else resets the allocator's own peak meanwhile."""

    __slots__ = ("allocated", "reserved")

    def __init__(self) -> None:
        self.allocated = self.reserved = 0


class Peaks:
    """All open peaks of one device in this process: the allocator has one only."""

    def __init__(self) -> None:
        self.open: list[Peak] = []
        self.lock = threading.Lock()

    def begin(self, memory: Memory) -> Peak:
        peak = Peak()
        with self.lock:
            if self.open:
                self._fold(memory.numbers())
            memory.reset_peak()
            self.open.append(peak)
        return peak

    def cut(self, memory: Memory, peak: Peak, last: bool = False) -> Numbers:
        """Numbers whose peaks are those since `peak` was begun or cut; it begins anew, or ends."""
        with self.lock:
            now = memory.numbers()
            if not last and len(self.open) == 1 and not peak.allocated:  # no one else reset it: it is the allocator's own
                memory.reset_peak()
                return now
            self._fold(now)
            result = (now[0], now[1], peak.allocated, peak.reserved, now[4], now[5])
            if last:
                self.open.remove(peak)
            else:
                peak.allocated = peak.reserved = 0
                memory.reset_peak()
        return result

    def _fold(self, now: Numbers) -> None:
        for peak in self.open:
            peak.allocated = max(peak.allocated, now[2])
            peak.reserved = max(peak.reserved, now[3])


_peaks: dict[str, Peaks] = {}


def peaks_of(memory: Memory) -> Peaks:
    return _peaks.setdefault(memory.name, Peaks())


# ---- failures ----

_observers: weakref.WeakSet[Any] = weakref.WeakSet()
_attached = False
_observing = threading.Lock()


def observe_failures(observer: Any) -> None:
    """observer.on_oom(device, requested, limit, free) is called where memory was refused, before the exception exists.

    PyTorch keeps an observer for good, so one dispatcher is given to it, once CUDA is in use.  observer is held weakly.
    """
    global _attached
    with _observing:
        _observers.add(observer)
        if _attached:
            return
        _attached = True
    attach = getattr(torch()._C, "_cuda_attach_out_of_memory_observer", None)
    if attach is not None:
        torch().cuda._lazy_call(lambda: attach(_dispatch))


def ignore_failures(observer: Any) -> None:
    _observers.discard(observer)


def _dispatch(device: int, requested: int, limit: int, free: int) -> None:
    for observer in list(_observers):
        try:
            observer.on_oom(device, requested, limit, free)
        except Exception:  # whatever is raised here would replace the failure itself
            logger.exception("while a failure of memory was looked at")


# ---- snapshots ----


class NoCollection:
    """`with` it the garbage collector is off: it would walk the millions of dicts of a snapshot again and again, and once more
    when it comes back while they live."""

    def __enter__(self) -> None:
        self.was_on = gc.isenabled()
        gc.disable()

    def __exit__(self, *rest: Any) -> None:
        if self.was_on:
            gc.enable()


def snapshot() -> dict[str, Any]:
    """torch.cuda.memory._snapshot()."""
    with NoCollection():
        taken: dict[str, Any] = torch().cuda.memory._snapshot()
        return taken


def rank() -> int:
    return _job.rank()
