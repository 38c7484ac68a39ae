"""MemoryMonitor: what a block, a phase, a step took; whether memory that stays grows."""
from __future__ import annotations

import ctypes
import statistics
import struct
import sys
import sysconfig
import threading
import time
from array import array
from collections import deque
from dataclasses import dataclass, fields
from types import TracebackType
from typing import Any, Callable, Literal

from .. import _torch
from ._trend import Trend, trend
from ..errors import ArgumentError, UnsupportedError

Peaks = Literal["phase", "step", "sampled"]
SAMPLED_FIRST, SAMPLED_EACH = 32, 8  # steps read by phase: those of the beginning, and then one of so many
GAUGE_PHASES = {"forward": 2, "backward": 3, "optimizer": 4, "eval": 5, "between": 1}  # enum plim_gauge_phase


@dataclass
class MemoryUse:
    """Memory of one device; bytes.  None: not known.

    allocated: in tensors.  reserved: taken from the driver by PyTorch.  peak: the most inside of the block.
    outside: of the whole GPU, neither free nor PyTorch's in this process (CUDA itself, NCCL, other processes).
    alloc_retries, ooms: times that cached blocks had to be given back to serve a request, and failures, since the reading before.
    """

    __slots__ = ("label", "allocated_bytes", "reserved_bytes", "peak_allocated_bytes", "peak_reserved_bytes", "free_bytes",
                 "outside_bytes", "alloc_retries", "ooms", "step", "seconds")
    label: str
    allocated_bytes: int
    reserved_bytes: int
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    free_bytes: int | None
    outside_bytes: int | None
    alloc_retries: int
    ooms: int
    step: int
    seconds: float | None

    def to_dict(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __str__(self) -> str:
        text = (f"{self.label}: peak {gib(self.peak_allocated_bytes)} allocated, {gib(self.peak_reserved_bytes)} reserved; "
                f"now {gib(self.allocated_bytes)} allocated, {gib(self.reserved_bytes)} reserved")
        if self.alloc_retries or self.ooms:
            text += f"; {self.alloc_retries} retries, {self.ooms} failures"
        return text


@dataclass(frozen=True)
class PhaseSummary:
    """All readings of one label: how many, and their peaks in bytes."""

    label: str
    count: int
    median_peak_bytes: int
    max_peak_bytes: int
    max_at_step: int

    def __str__(self) -> str:
        return (f"{self.label}: peak {gib(self.max_peak_bytes)} in step {self.max_at_step}, median "
                f"{gib(self.median_peak_bytes)} of {self.count}")


@dataclass(frozen=True)
class MemorySummary:
    """Of a monitor's ring: a row for each label, in the order in which they came first."""

    device: str
    steps: int
    phases: tuple[PhaseSummary, ...]
    dropped: int

    def __str__(self) -> str:
        lines = [f"{self.device}, {self.steps} steps"] + [f"  {phase}" for phase in self.phases]
        return "\n".join(lines + ([f"  ({self.dropped} older readings are gone)"] if self.dropped else []))

    def to_dict(self) -> dict[str, Any]:
        return {"device": self.device, "steps": self.steps, "dropped": self.dropped,
                "phases": [vars(phase) for phase in self.phases]}


@dataclass(frozen=True)
class Leak:
    """Allocated memory at the ends of steps climbs: bytes per step with a 95 % interval, and since which step."""

    bytes_per_step: float
    low_bytes_per_step: float
    high_bytes_per_step: float
    since_step: int
    steps: int
    line: str | None
    full_in_steps: tuple[int, int] | None

    def __str__(self) -> str:
        text = (f"memory that stays grows by {mib(self.bytes_per_step)} a step ({mib(self.low_bytes_per_step)} to "
                f"{mib(self.high_bytes_per_step)}), seen over {self.steps} steps since step {self.since_step}")
        if self.line:
            text += f"; allocated in {self.line}"
        if self.full_in_steps:
            text += f"; the GPU is full in {self.full_in_steps[0]:,} to {self.full_in_steps[1]:,} steps"
        return text


_Reading = tuple[str, _torch.Numbers, tuple[int, int], int]  # of the hooks: label, numbers, retries and failures before, step


# What hooks in C keep (src/live/gauge/hooks.c): phase, six numbers, retries and failures before, step; and a step's number and bytes
_PACKED, _PACKED_END = struct.Struct("=10Q"), struct.Struct("=2Q")
_LABELS = ("", "between", "forward", "backward", "optimizer", "eval", "step")
_STEPS, _KEPT, _RETRIES, _OOMS = range(4)  # what a monitor counts, where hooks in C count too


def _use_of(reading: _Reading | bytes) -> MemoryUse:
    if isinstance(reading, bytes):
        phase, *held, retries, ooms, step = _PACKED.unpack(reading)
        reading = _LABELS[phase], (held[0], held[1], held[2], held[3], held[4], held[5]), (retries, ooms), step
    label, now, last, step = reading
    return MemoryUse(label, now[0], now[1], now[2], now[3], None, None, now[4] - last[0], now[5] - last[1], step, None)


class Handle:
    """Removes what an attach put in; also as a context manager."""

    def __init__(self, *parts: Any) -> None:
        self._parts = list(parts)

    def remove(self) -> None:
        while self._parts:
            self._parts.pop().remove()

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.remove()


class _Track:
    """A block that is being watched; what `with` gives is filled when it ends."""

    __slots__ = ("monitor", "use", "peak", "began")

    def __init__(self, monitor: MemoryMonitor, label: str) -> None:
        self.monitor = monitor
        self.use = MemoryUse(label, 0, 0, 0, 0, None, None, 0, 0, monitor.steps, None)

    def __enter__(self) -> MemoryUse:
        self.peak = self.monitor._peaks.begin(self.monitor.memory)
        self.began = time.perf_counter()
        return self.use

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        monitor = self.monitor
        now = monitor._peaks.cut(monitor.memory, self.peak, last=True)
        monitor._fill(self.use, now, time.perf_counter() - self.began)
        monitor._keep(self.use)


class MemoryMonitor:
    """A ring of readings of one device's memory.

    device: as torch takes it; None: the current GPU, or this process's own memory where there is none ("cpu").
    capacity: readings kept.  Threads may share it.

    >>> from plimsoll.memory import MemoryMonitor
    >>> monitor = MemoryMonitor("cpu")
    >>> with monitor.track("load") as use:
    ...     content = bytes(1 << 20)
    >>> use.label
    'load'
    """

    def __init__(self, device: Any = None, *, capacity: int = 4096) -> None:
        self.memory = _torch.memory_of(device)
        self._counts = array("Q", (0, 0, 0, 0))  # by _STEPS, _KEPT, _RETRIES, _OOMS
        self._slot = min(getattr(self.memory, "index", 0), 15)  # of the gauge
        self._peaks = _torch.peaks_of(self.memory)
        self._ring: deque[MemoryUse | _Reading | bytes] = deque(maxlen=capacity)
        self._step_ends: deque[tuple[int, int] | bytes] = deque(maxlen=capacity)
        self._handles: list[Handle] = []
        self._forks = _torch.forks
        self._lock = threading.Lock()
        self._phases: _Phases | None = None
        self.gauge: Any = None  # a plimsoll.gauge.Gauge

    @property
    def steps(self) -> int:
        """Training steps that have ended."""
        return self._counts[_STEPS]

    # ---- readings ----

    def track(self, label: str) -> _Track:
        """`with monitor.track("x") as use:` the peak inside of the block; blocks may nest.

        Resets the allocator's peak (torch.cuda.reset_peak_memory_stats) when it begins.
        """
        return _Track(self, label)

    def mark(self, label: str) -> MemoryUse:
        """The memory now, and the peaks since someone last reset them."""
        use = MemoryUse(label, 0, 0, 0, 0, None, None, 0, 0, self.steps, None)
        self._fill(use, self.memory.numbers(), None)
        self._keep(use)
        return use

    def _fill(self, use: MemoryUse, now: _torch.Numbers, seconds: float | None) -> None:
        use.allocated_bytes, use.reserved_bytes, use.peak_allocated_bytes, use.peak_reserved_bytes, retries, ooms = now
        counts = self._counts
        use.alloc_retries, use.ooms = retries - counts[_RETRIES], ooms - counts[_OOMS]
        counts[_RETRIES], counts[_OOMS] = retries, ooms
        use.seconds = seconds
        known = self.memory.free()
        if known is not None:
            use.free_bytes = known[0]
            use.outside_bytes = max(0, known[1] - known[0] - use.reserved_bytes)

    def _keep(self, use: MemoryUse) -> None:
        with self._lock:
            self._ring.append(use)
            self._counts[_KEPT] += 1
        if _torch.due:
            _after_mark()

    def step(self) -> None:
        """The end of a training step; attach does it by itself."""
        if _torch.forks != self._forks:
            return
        now = self.memory.numbers()
        self._end_step(now, None if self.gauge is None else self.gauge.page, None, None)

    def _end_step(self, now: _torch.Numbers, page: Any, phase: int | None, peak: int | None) -> None:
        self._step_ends.append((self.steps, now[0]))
        self._counts[_STEPS] += 1
        if page is not None:
            page.step(self.steps, now, self._slot, 0, phase, peak)
        if _torch.due:
            _after_mark()

    def readings(self) -> list[MemoryUse]:
        """The newest, oldest first."""
        with self._lock:
            kept = list(self._ring)
        return [use if isinstance(use, MemoryUse) else _use_of(use) for use in kept]

    # ---- a training loop ----

    def attach(self, model: Any, optimizer: Any = None, *, peaks: Peaks = "phase") -> Handle:
        """Phases and steps of a loop, by hooks on the model and its optimizer; remove() takes them off.

        peaks: "phase" reads three times per step (forward, backward, optimizer), "step" once, "sampled" by phase in the first 32
        steps, in each 8th, and after each that was higher than all before, else once.  Without an optimizer a step begins
        with each forward pass that keeps a graph.  model None: nothing is hooked, integrations tell the phases.  Evaluation
        (no_grad) is a phase of its own.
        """
        if peaks not in ("phase", "step", "sampled"):
            raise ArgumentError(f"peaks takes 'phase', 'step' or 'sampled', not {peaks!r}")
        if self.gauge is None:
            from .. import gauge

            self.gauge = gauge.current()
        self._phases = _Phases(self, peaks)
        handle = Handle(*self._phases.hooks(model, optimizer), self._phases)
        self._handles.append(handle)
        return handle

    # ---- what they say ----

    def summary(self) -> MemorySummary:
        """Readings by label: median and largest peak, and in which step."""
        found: dict[str, list[MemoryUse]] = {}
        for use in self.readings():
            found.setdefault(use.label, []).append(use)
        rows = []
        for label, uses in found.items():
            peaks = [use.peak_allocated_bytes for use in uses]
            top = max(uses, key=lambda use: use.peak_allocated_bytes)
            rows.append(PhaseSummary(label, len(uses), int(statistics.median(peaks)), top.peak_allocated_bytes, top.step))
        return MemorySummary(self.memory.name, self.steps, tuple(rows), self._counts[_KEPT] - len(self._ring))

    def leak(self) -> Leak | None:
        """Does memory that outlives steps grow?  None: it does not, or fewer than 12 steps were seen.

        The floor of allocated bytes over parts of the steps, a Theil-Sen slope with Sen's 95 % interval; warm-up (the first
        quarter) is left out, and growth that dies away is none.  Of the host's memory, whose pages come and go, growth of less
        than 1 MiB in all is none either, and the monitor's own records are left out.  With a Recorder running, the line that allocates is reported.
        """
        ends = [_PACKED_END.unpack(end) if isinstance(end, bytes) else end for end in list(self._step_ends)]
        found = trend([(step, held - self._own_bytes(step)) for step, held in ends])
        if found is None or found.slope * found.steps < self.memory.noise_bytes:
            return None
        return Leak(found.slope, found.low, found.high, found.since, found.steps, _leaking_line(), self._full_in(found))

    def _own_bytes(self, step: int) -> int:
        """Of the host's memory, what this monitor's records took at the end of a step."""
        if not self.memory.noise_bytes or not self._ring:
            return 0
        kept = min(self._ring.maxlen or 0, self._counts[_KEPT] * (step + 1) // max(1, self.steps))
        return kept * _size_of(self._ring[-1]) + min(self._step_ends.maxlen or 0, step + 1) * _size_of(self._step_ends[-1])

    def _full_in(self, found: Trend) -> tuple[int, int] | None:
        free = self.memory.free()
        if free is None or found.low <= 0:
            return None
        allocated, reserved = self.memory.numbers()[:2]
        room = free[0] + reserved - allocated
        return int(room / found.high), int(room / found.low)

    def scalars(self) -> dict[str, float]:
        """The newest numbers for any logger: wandb.log(monitor.scalars()), writer.add_scalars, ...  Bytes."""
        now = self.memory.numbers()
        told = {"memory/allocated_bytes": float(now[0]), "memory/reserved_bytes": float(now[1]),
                "memory/alloc_retries": float(now[4]), "memory/ooms": float(now[5])}
        newest: dict[str, MemoryUse] = {}
        for use in self.readings():
            newest[use.label] = use
        for label, use in newest.items():
            told[f"memory/{label}/peak_allocated_bytes"] = float(use.peak_allocated_bytes)
        free = self.memory.free()
        if free is not None:
            told["memory/device_free_bytes"] = float(free[0])
        return told

    def close(self) -> None:
        while self._handles:
            self._handles.pop().remove()

    def __enter__(self) -> MemoryMonitor:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<MemoryMonitor of {self.memory.name}: {self.steps} steps, {len(self._ring)} readings>"

    def __getstate__(self) -> dict[str, Any]:
        return {"device": self.memory.name}  # a worker's copy counts for itself

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__("cpu" if state["device"] == "host" else state["device"])  # type: ignore[misc]


class _Phases:
    """The hooks of one attach: each ends the phase before it and begins the next.

    A reading takes some 30 us in a loop, where caches are cold, and each hook some 5 before it does anything.  So a step has
    three readings: what comes before a forward pass (zero_grad, the batch) counts to it.  Around evaluation there is one
    more.  With one reading a step there is one hook, and the gauge shows no phases.
    """

    def __init__(self, monitor: MemoryMonitor, peaks: Peaks) -> None:
        self.monitor, self.peaks = monitor, peaks
        self.each = peaks != "step"  # this step is read by phase
        self.highest = self.step_peak = 0
        self.phase: str | None = None
        self.peak: _torch.Peak | None = None
        self.own_steps = False
        self.forks = _torch.forks
        self.grad: Any = None
        self.append = monitor._ring.append
        self.page = None if monitor.gauge is None else monitor.gauge.page
        if monitor.gauge is not None:
            monitor.gauge.monitors += 1

    def hooks(self, model: Any, optimizer: Any) -> list[Any]:
        self.grad = _torch.torch().is_grad_enabled
        if model is None:  # a framework calls turn() itself
            return []
        if optimizer is not None:
            optimizer = getattr(optimizer, "optimizer", optimizer)  # what accelerate and Lightning wrap
        self.own_steps = optimizer is None
        next_pass, before_forward, after_forward, before_optimizer, after_optimizer = self.functions()
        if self.peaks == "step":
            self.begin()
            return [model.register_forward_pre_hook(next_pass) if optimizer is None else
                    optimizer.register_step_post_hook(after_optimizer)]
        put = [model.register_forward_pre_hook(before_forward), model.register_forward_hook(after_forward)]
        if optimizer is not None:
            put.append(optimizer.register_step_pre_hook(before_optimizer))
            put.append(optimizer.register_step_post_hook(after_optimizer))
        return put

    def functions(self) -> tuple[Callable[..., None], ...]:
        """The five hooks: in C where that can be had, a quarter of the time."""
        return _hooks_in_c(self) or (self.next_pass, self.before_forward, self.after_forward, self.before_optimizer,
                                     self.after_optimizer)

    def cut(self) -> _torch.Numbers:
        assert self.peak is not None
        return self.monitor._peaks.cut(self.monitor.memory, self.peak)

    def next_pass(self, module: Any, arguments: Any) -> None:
        if self.forks == _torch.forks and self.grad():
            if self.phase is not None:
                self.turn("between", step=True)
            self.phase = "step"

    def before_forward(self, module: Any, arguments: Any) -> None:
        if self.forks == _torch.forks:
            training = self.grad()
            if self.own_steps and training and self.phase == "backward":
                self.turn("between", step=True)
            self.turn("forward" if training else "eval")

    def after_forward(self, module: Any, arguments: Any, output: Any) -> None:
        if self.forks == _torch.forks:
            self.turn("backward" if self.phase == "forward" else "between")

    def before_optimizer(self, optimizer: Any, arguments: Any, named: Any) -> None:
        if self.forks == _torch.forks:
            self.turn("optimizer")

    def after_optimizer(self, optimizer: Any, arguments: Any, named: Any) -> None:
        if self.forks == _torch.forks:
            self.turn("between", step=True)

    def begin(self) -> None:
        if self.peak is None:
            self.peak = self.monitor._peaks.begin(self.monitor.memory)

    def turn(self, phase: str, step: bool = False) -> None:
        """The phase that was is over, and perhaps the step."""
        monitor, before = self.monitor, self.phase
        self.phase = phase
        if self.page is not None and not step and self.peaks != "step":
            self.page.turn(GAUGE_PHASES[phase])
        if self.peak is None:
            self.begin()
            if not step:
                return
        if not step and (not self.each or phase == "forward" and before in ("between", None)):
            return
        now = self.cut()
        self.step_peak = max(self.step_peak, now[2])
        counts = monitor._counts
        self.append(((before if self.each else "step") or "between", now, (counts[_RETRIES], counts[_OOMS]), counts[_STEPS]))
        counts[_RETRIES], counts[_OOMS] = now[4:]
        counts[_KEPT] += 1
        if step:
            monitor._end_step(now, self.page, GAUGE_PHASES[phase] if self.peaks != "step" else None, self.step_peak)
            self.step_peak = 0
            if self.peaks == "sampled":
                self.each = monitor.steps < SAMPLED_FIRST or monitor.steps % SAMPLED_EACH == 0 or now[2] > self.highest
        if now[2] > self.highest:
            self.highest = now[2]

    def remove(self) -> None:
        gauge, self.monitor.gauge, self.page = self.monitor.gauge, None, None
        if gauge is not None:
            gauge.monitors -= 1
        if self.peak is not None:
            self.monitor._peaks.cut(self.monitor.memory, self.peak, last=True)
            self.peak = None


def _hooks_in_c(phases: _Phases) -> tuple[Callable[..., None], ...] | None:
    """plim_python_hooks (src/live/gauge/hooks.c), which does what the methods of _Phases do; None: it cannot be had."""
    from .. import _native

    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return None
    try:
        function = ctypes.PyDLL(_native.load()._name).plim_python_hooks
    except UnsupportedError:
        return None
    monitor, page = phases.monitor, phases.page
    memory, peaks = monitor.memory, monitor._peaks
    stats, reset, arguments, is_dict = memory.calls()
    address = 0 if page is None else ctypes.addressof(ctypes.c_char.from_buffer(page.map))
    function.restype, function.argtypes = ctypes.py_object, [ctypes.py_object]
    try:
        made: tuple[Callable[..., None], ...] = function((
            monitor._counts, phases, phases.begin, stats, reset, arguments, phases.cut, peaks.open, phases.append, monitor._step_ends.append,
            phases.grad, page, None if page is None else page.tell_limit, _torch.due, _after_mark, address,
            monitor._counts.buffer_info()[0], monitor._slot, int(is_dict), int(phases.peaks != "step"),
            int(phases.peaks == "sampled"), int(phases.own_steps), SAMPLED_FIRST, SAMPLED_EACH))
    except ValueError:  # there is no Python to be found by name
        return None
    return made


def _size_of(record: Any) -> int:
    """Of a record in a ring: itself, what it holds, and its place."""
    held = record if isinstance(record, tuple) else ()
    return sys.getsizeof(record) + 8 + sum(_size_of(one) for one in held)


def _after_mark() -> None:
    from . import _recorder

    _recorder.dump_due()


def _leaking_line() -> str | None:
    from . import _recorder

    recorder = _recorder.active()
    if recorder is None:
        return None
    try:
        leaks = [f for f in recorder.report().findings if f.id == "leak"]
    except Exception as why:  # a line is a help, not the answer
        _torch.logger.info("no line for the leak: %s", why)
        return None
    return leaks[0].place.frame if leaks else None


def gib(n: float) -> str:
    return f"{n / 2**30:.2f} GiB" if abs(n) >= 2**30 else mib(n)


def mib(n: float) -> str:
    return f"{n / 2**20:.2f} MiB" if abs(n) >= 2**20 or n == 0 else f"{n / 2**10:.2f} KiB"
