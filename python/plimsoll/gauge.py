"""The gauge: a page of shared memory that tells `plimsoll watch` what this job is doing (plimsoll/gauge.h).

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
from ._input import PathLike
from ._object import Object
from .errors import ArgumentError, PlimsollError

__all__ = ["Gauge", "GaugePage", "read", "current"]

PHASES = {"unknown": _abi.PLIM_GAUGE_UNKNOWN, "data": _abi.PLIM_GAUGE_DATA, "forward": _abi.PLIM_GAUGE_FORWARD,
          "backward": _abi.PLIM_GAUGE_BACKWARD, "optimizer": _abi.PLIM_GAUGE_OPTIMIZER, "eval": _abi.PLIM_GAUGE_EVAL,
          "save": _abi.PLIM_GAUGE_SAVE, "other": _abi.PLIM_GAUGE_OTHER, "between": _abi.PLIM_GAUGE_DATA}
NAN = math.nan

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
    """

    def __init__(self, *, run: str | None = None, rank: int | None = None, world: int | None = None,
                 total_steps: int | None = None, path: PathLike | None = None) -> None:
        library, error = _native.load(), _abi.plim_err()
        options = _native.options(
            "gauge", writer=_abi.PLIM_GAUGE_PYTHON, run=run, path=None if path is None else os.fspath(path),
            rank=_torch.rank() if rank is None else rank, total_steps=total_steps,
            world=int(os.environ.get("WORLD_SIZE", "0") or 0) if world is None else world)
        self._handle = ctypes.c_void_p()
        _native.check(library.plim_gauge_open(ctypes.byref(options), ctypes.byref(self._handle), ctypes.byref(error)), error)
        self.path = os.fsdecode(library.plim_gauge_path(self._handle))
        self._library, self._write = library, threading.Lock()
        self._close = weakref.finalize(self, library.plim_gauge_close, self._handle)
        self._step = _abi.plim_gauge_step(loss=NAN, lr=NAN, grad_norm=NAN, allocated_bytes=_native.UNKNOWN)
        self._device = _abi.plim_gauge_device()
        for name in (row[0] for row in _abi.plim_gauge_device._fields_):
            if name not in ("uuid", "unused"):
                setattr(self._device, name, _native.UNKNOWN)

    @property
    def closed(self) -> bool:
        return not self._close.alive

    def phase(self, name: str) -> None:
        """Another phase begins: data, forward, backward, optimizer, eval, save, other."""
        if name not in PHASES:
            raise ArgumentError(f"'{name}' is no phase; there are {', '.join(PHASES)}")
        if self._close.alive:
            with self._write:
                self._library.plim_gauge_set_phase(self._handle, PHASES[name])

    def step(self, step: int, *, memory: _torch.Numbers | None = None, device: int = 0, loss: float | None = None,
             lr: float | None = None, grad_norm: float | None = None, epoch: int | None = None) -> None:
        """A step is over; what is not given stays as it was.  Give plain floats: a tensor would be waited for."""
        if not self._close.alive:
            return
        with self._write:
            told = self._step
            told.step = step
            told.loss = NAN if loss is None else loss
            told.lr = NAN if lr is None else lr
            told.grad_norm = NAN if grad_norm is None else grad_norm
            if epoch is not None:
                told.epoch = epoch
            if memory is not None:
                told.allocated_bytes = memory[0]
                self._memory(memory, device)
            self._library.plim_gauge_set_step(self._handle, ctypes.byref(told))

    def _memory(self, memory: _torch.Numbers, device: int) -> None:
        slot = self._device
        (slot.allocated_bytes, slot.reserved_bytes, slot.peak_allocated_bytes, slot.peak_reserved_bytes, slot.alloc_retries,
         slot.ooms) = memory
        self._library.plim_gauge_set_device(self._handle, min(device, 15), ctypes.byref(slot))

    def close(self) -> None:
        """Remove the page."""
        self._close()

    def __enter__(self) -> Gauge:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def __reduce__(self) -> Any:
        return _nothing, ()  # a worker has no page


def _nothing() -> None:
    return None


class GaugePage(Object):
    """What a process tells of itself.  None: not known."""

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
    marks = sorted(({"step": m.step, "flags": m.flags, "allocated_bytes": m.allocated_bytes} for m in page.marks
                    if m.allocated_bytes != _native.UNKNOWN), key=lambda mark: int(mark["step"]))
    return GaugePage({
        "pid": page.pid, "run": page.run.decode("ascii", "replace"), "rank": page.rank, "world": page.world, "step": page.step,
        "total_steps": known(page.total_steps), "phase": names[page.phase], "loss": real(page.loss), "lr": real(page.lr),
        "grad_norm": real(page.grad_norm), "epoch": page.epoch, "last_step_ns": known(page.last_step_ns),
        "phase_ns": {name: page.phase_ns[i] for i, name in enumerate(names[1:])}, "devices": devices, "steps": marks})
