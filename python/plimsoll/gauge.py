"""The gauge: a page of shared memory that shows `plimsoll watch` what this job is doing (plimsoll/gauge.h).

    from plimsoll.gauge import Gauge, read

    gauge = Gauge(run="llama")                   # /dev/shm/plimsoll.PID
    gauge.phase("forward")
    gauge.step(17, loss=2.31)
    read(os.getpid()).step                       # from any process of this user

A MemoryMonitor that is attached, and plimsoll.attach, keep one by themselves.  In a forked child it does nothing.
"""
from __future__ import annotations

import ctypes
import math
import os
import threading
import weakref
from types import TracebackType
from typing import Any

from . import _abi, _native, _torch
from ._gauge_page import Page
from ._input import PathLike
from ._object import Object
from .errors import ArgumentError, NotFoundError, PlimsollError

__all__ = ["Gauge", "GaugePage", "read", "current"]

PHASES = {"unknown": _abi.PLIM_GAUGE_UNKNOWN, "data": _abi.PLIM_GAUGE_DATA, "forward": _abi.PLIM_GAUGE_FORWARD,
          "backward": _abi.PLIM_GAUGE_BACKWARD, "optimizer": _abi.PLIM_GAUGE_OPTIMIZER, "eval": _abi.PLIM_GAUGE_EVAL,
          "save": _abi.PLIM_GAUGE_SAVE, "other": _abi.PLIM_GAUGE_OTHER, "between": _abi.PLIM_GAUGE_DATA}
_current: weakref.ref[Gauge] | None = None
_lock = threading.Lock()


def current(run: str | None = None) -> Gauge | None:
    """The gauge of this process, made if there is none; None: there is no place for one."""
    global _current
    with _lock:
        found = _current() if _current is not None else None
        if found is not None and not found.closed:
            return found
        try:
            found = Gauge(run=run)
        except PlimsollError as why:
            _torch.logger.info("no gauge: %s", why)
            return None
        _current = weakref.ref(found)
        return found


class Gauge:
    """The page of this process; one is enough, current() gives it.

    run: a name for people.  rank, world: from the environment of torchrun and Slurm.  Any thread may write, one at a time.
    Raises NotFoundError where there is no place for it.
    """

    def __init__(self, *, run: str | None = None, rank: int | None = None, world: int | None = None,
                 total_steps: int | None = None, path: PathLike | None = None) -> None:
        try:
            self.page = Page(path=None if path is None else os.fspath(path), run=run or "",
                             rank=_torch.rank() if rank is None else rank,
                             world=int(os.environ.get("WORLD_SIZE", "0") or 0) if world is None else world,
                             total_steps=_native.UNKNOWN if total_steps is None else total_steps)
        except OSError as why:
            raise NotFoundError(f"there is no place for the gauge: {why}", path=None if path is None else os.fspath(path),
                                errno=why.errno) from None
        self.path: str = self.page.path
        self.monitors = 0  # that tell it steps: then no one else does
        self._close = weakref.finalize(self, self.page.close)

    @property
    def closed(self) -> bool:
        return not self._close.alive

    def phase(self, name: str) -> None:
        """Another phase begins: data, forward, backward, optimizer, eval, save, other."""
        number = PHASES.get(name)
        if number is None:
            raise ArgumentError(f"'{name}' is not a phase; there are {', '.join(PHASES)}")
        self.page.turn(number)

    def step(self, step: int, *, memory: _torch.Numbers | None = None, device: int = 0, loss: float | None = None,
             lr: float | None = None, grad_norm: float | None = None, epoch: int | None = None) -> None:
        """A step is over; what is not given stays as it was.  Give plain floats: a tensor would be waited for."""
        page = self.page
        if loss is not None:
            page.loss = float(loss)
        if lr is not None:
            page.lr = float(lr)
        if grad_norm is not None:
            page.grad_norm = float(grad_norm)
        if epoch is not None:
            page.epoch = epoch
        page.step(step, memory, min(device, 15))

    def close(self) -> None:
        """Remove the page."""
        self._close()

    def __enter__(self) -> Gauge:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Gauge {self.path}: {self.monitors} monitors>"

    def __reduce__(self) -> Any:
        return _nothing, ()  # a worker has no page


def _nothing() -> None:
    return None


class GaugePage(Object):
    """What a process says of itself.  None: not known."""

    __slots__ = ()
    pid: int
    run: str
    rank: int
    world: int
    step: int
    total_steps: int | None
    phase: str
    loss: float | None
    lr: float | None
    grad_norm: float | None
    epoch: int
    last_step_ns: int | None
    phase_ns: dict[str, int]
    devices: list[Any]
    steps: list[Any]


def read(pid: int | None = None, *, path: PathLike | None = None) -> GaugePage:
    """The gauge of process pid of this user (None: of this one), or a file.  Raises NotFoundError, FormatError."""
    library, error, page = _native.load(), _abi.plim_err(), _abi.plim_gauge_page()
    number = 0 if path is not None and pid is None else os.getpid() if pid is None else pid
    status = library.plim_gauge_read(number, None if path is None else os.fsencode(path), ctypes.byref(page),
                                     ctypes.byref(error))
    _native.check(status, error, None if path is None else os.fspath(path))
    names = ["unknown", "data", "forward", "backward", "optimizer", "eval", "save", "other"]

    def known(n: int) -> int | None:
        return None if n == _native.UNKNOWN else n

    def real(x: float) -> float | None:
        return None if math.isnan(x) else x

    devices = [{name: known(getattr(page.devices[i], name)) for name in (row[0] for row in _abi.plim_gauge_device._fields_)
                if name not in ("uuid", "unused")} for i in range(page.device_count)]
    marks = sorted(({"step": m.step, "flags": m.flags, "peak_allocated_bytes": known(m.peak_allocated_bytes)} for m in page.marks
                    if m.step), key=lambda mark: int(mark["step"]))
    return GaugePage({
        "pid": page.pid, "run": page.run.decode("ascii", "replace"), "rank": page.rank, "world": page.world, "step": page.step,
        "total_steps": known(page.total_steps), "phase": names[page.phase], "loss": real(page.loss), "lr": real(page.lr),
        "grad_norm": real(page.grad_norm), "epoch": page.epoch, "last_step_ns": known(page.last_step_ns),
        "phase_ns": {name: page.phase_ns[i] for i, name in enumerate(names[1:])}, "devices": devices, "steps": marks})
