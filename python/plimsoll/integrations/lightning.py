"""For Lightning: Trainer(callbacks=[PlimsollCallback()])."""
from __future__ import annotations

import importlib
from typing import Any, Literal

from .._attach import Attached, logged
from ..memory._monitor import Peaks
from ..oom._guard import oom_guard
from .._input import PathLike
from ..memory._recorder import Recorder, started


def _base() -> Any:
    """Callback of `lightning`, or of `pytorch_lightning` where that is what is there."""
    try:
        return importlib.import_module("lightning.pytorch").Callback
    except ImportError:
        return importlib.import_module("pytorch_lightning").Callback


Base: Any = _base()

__all__ = ["PlimsollCallback"]


class PlimsollCallback(Base):  # type: ignore[misc]
    """Memory by phase and step, leaks, the gauge; on a failure its verdict is added to the exception, and all hooks go.

    record_dir: also record, and dump if memory is refused; without a GPU a warning says that nothing is recorded.  log: two
    numbers for the Trainer's logger, in GiB ("memory/peak_gib" since training began and "memory/reserved_gib"; "host_memory/..."
    without a GPU), "all": each in bytes as MemoryMonitor.scalars gives them, False: none.
    """

    def __init__(self, *, record_dir: PathLike | None = None, peaks: Peaks = "phase", run: str | None = None,
                 log: bool | Literal["all"] = True) -> None:
        super().__init__()
        self.record_dir, self.run = record_dir, run
        self.logged: bool | Literal["all"] = log  # Lightning puts a method of the model into .log
        self.peaks: Peaks = peaks
        self.attached: Attached | None = None
        self.recorder: Recorder | None = None
        self._guard: oom_guard | None = None

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        self.recorder = started(self.record_dir)
        self._guard = oom_guard()
        self._guard.__enter__()

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        # training_step calls the module's parts, inside of optimizer.step(closure): the hooks of attach would see neither
        # forward nor the optimizer's own work.
        self.attached = Attached(None, None, None, self.run, self.peaks, pl_module.device)

    def _turn(self, phase: str, step: bool = False) -> None:
        if self.attached is not None:
            self.attached.phases.turn(phase, step=step)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        self._turn("forward")

    def on_before_backward(self, trainer: Any, pl_module: Any, loss: Any) -> None:
        self._turn("backward")

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        self._turn("optimizer")

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        self._turn("eval")

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        self._turn("between")

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        self._turn("between", step=True)
        if self.recorder is not None:
            self.recorder.step()
        if self.attached is None:
            return
        if self.logged and trainer.loggers and trainer.global_step % max(1, trainer.log_every_n_steps) == 0:
            told = logged(self.attached, self.logged)
            for logger in trainer.loggers:
                logger.log_metrics(told, step=trainer.global_step)
        self.attached.log(epoch=trainer.current_epoch)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        if self._guard is not None:
            self._guard.__exit__(type(exception), exception, exception.__traceback__)
            self._guard = None
        self._end()

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        if self._guard is not None:
            self._guard.__exit__(None, None, None)
            self._guard = None
        self._end()

    def summary(self) -> Any:
        return None if self.attached is None else self.attached.summary()

    def _end(self) -> None:
        if self.attached is not None:
            self.attached.remove()
        if self.recorder is not None:
            self.recorder.close()
            self.recorder = None
