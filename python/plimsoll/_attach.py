"""plimsoll.attach: monitor, guard, gauge and input in one handle."""
from __future__ import annotations

from types import TracebackType
from typing import Any, Literal

from .oom._guard import oom_guard
from .data._input_watch import InputVerdict, InputWatch
from .errors import UnsupportedError
from .memory._monitor import Leak, MemoryMonitor, MemorySummary, Peaks


class Attached:
    """What attach put around a loop; `with` adds the guard, remove() takes all of it off.

    monitor: a MemoryMonitor with phases and steps.  loader: iterate over it instead of yours.  gauge: None if there is no place.
    """

    def __init__(self, model: Any, optimizer: Any, loader: Any, run: str | None, peaks: Peaks, device: Any) -> None:
        from . import gauge

        if device is None and model is not None:
            device = next((p.device for p in model.parameters()), None)
        self.monitor = MemoryMonitor(device)
        self.gauge = self.monitor.gauge = gauge.current(run)
        self._handle = self.monitor.attach(model, optimizer, peaks=peaks)
        self.loader: Any = None if loader is None else InputWatch(loader)
        if self.loader is not None:
            self.loader.gauge = None if peaks == "step" else self.gauge  # there no one would end its phase
        self._guard: oom_guard | None = None

    @property
    def phases(self) -> Any:
        """For frameworks that tell the phases themselves: turn(phase, step=False)."""
        return self.monitor._phases

    def summary(self) -> MemorySummary:
        return self.monitor.summary()

    def leak(self) -> Leak | None:
        return self.monitor.leak()

    def input(self) -> InputVerdict | None:
        return None if self.loader is None else self.loader.verdict()

    def scalars(self) -> dict[str, float]:
        """For any logger; see MemoryMonitor.scalars."""
        told = self.monitor.scalars()
        if self.loader is not None:
            verdict = self.loader.verdict()
            told["input/share"] = verdict.input_share
            told["input/wait_ms"] = verdict.median_wait_ms
        return told

    def log(self, *, loss: float | None = None, lr: float | None = None, grad_norm: float | None = None,
            epoch: int | None = None) -> None:
        """Numbers for the gauge, plain floats: once a step, or when you have them anyway."""
        if self.gauge is not None:
            self.gauge.step(self.monitor.steps, loss=loss, lr=lr, grad_norm=grad_norm, epoch=epoch)

    def __repr__(self) -> str:
        return f"<Attached: {self.monitor!r}{'' if self.loader is None else f', {self.loader!r}'}>"

    def __reduce__(self) -> Any:
        raise UnsupportedError("what attach gives belongs to the loop of its process; it cannot be pickled", remedy="pickle summary()")

    def remove(self) -> None:
        self._handle.remove()
        if self.loader is not None:
            self.loader.gauge = None
        self.gauge = None  # the page goes with the last who keeps it: a Recorder may

    close = remove

    def __enter__(self) -> Attached:
        self._guard = oom_guard()
        self._guard.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._guard is not None:
            self._guard.__exit__(kind, error, trace)
        self.remove()


def logged(attached: Attached, log: bool | Literal["all"]) -> dict[str, float]:
    """For a framework's logs: the peak since training began and what is reserved, in GiB; "all": everything, in bytes; False: nothing."""
    if not log:
        return {}
    if log == "all":
        return {name: value for name, value in attached.scalars().items() if name.startswith("memory/")}
    _, reserved, peak = attached.monitor.memory.numbers()[:3]
    peaks = [phase.max_peak_bytes for phase in attached.summary().phases]
    where = "host_memory" if attached.monitor.memory.name == "host" else "memory"
    return {f"{where}/peak_gib": round(max(peak, *peaks, 0) / 2**30, 3), f"{where}/reserved_gib": round(reserved / 2**30, 3)}


def attach(model: Any, optimizer: Any = None, loader: Any = None, *, run: str | None = None, peaks: Peaks = "phase",
           device: Any = None) -> Attached:
    """Watch a training loop: memory by phase and step, leaks, waits for input, the gauge, verdicts on failures.

    >>> with plimsoll.attach(model, optimizer, loader) as watch:       # doctest: +SKIP
    ...     for batch in watch.loader:
    ...         train_step(batch)
    >>> print(watch.summary(), watch.input(), watch.leak())            # doctest: +SKIP
    """
    return Attached(model, optimizer, loader, run, peaks, device)
