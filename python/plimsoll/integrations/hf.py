"""For transformers' Trainer: trainer = Trainer(..., callbacks=[PlimsollCallback()])."""
from __future__ import annotations

import functools
import os
import sys
from typing import Any, Literal

from transformers import TrainerCallback

from .._attach import Attached, logged
from ..memory._monitor import Peaks
from ..oom._guard import is_oom as is_oom
from .._input import PathLike
from ..memory._recorder import Recorder, started

__all__ = ["PlimsollCallback"]


class PlimsollCallback(TrainerCallback):  # type: ignore[misc,unused-ignore]
    """Memory by phase and step, leaks, the gauge; on a failure its verdict is added to the exception, and all hooks go.

    record_dir: also record, and dump if memory is refused; without a GPU a warning says that nothing is recorded.
    peaks: "phase" (three readings per step) or "step" (one).  log: two numbers in the Trainer's logs, in GiB
    ("memory/peak_gib" since training began and "memory/reserved_gib"; "host_memory/..." without a GPU), "all": each in bytes
    as MemoryMonitor.scalars gives them, False: none.  .attached has the monitor after training began, .summary() at the end.

    The Trainer has no event for an exception: train() of the trainer that is given this callback is wrapped.
    """

    def __init__(self, *, record_dir: PathLike | None = None, peaks: Peaks = "phase", run: str | None = None,
                 log: bool | Literal["all"] = True) -> None:
        self.record_dir, self.run = record_dir, run
        self.log: bool | Literal["all"] = log
        self.peaks: Peaks = peaks
        self.attached: Attached | None = None
        self.recorder: Recorder | None = None

    def on_init_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._wrap("train")

    def _wrap(self, name: str) -> None:
        """A method of the trainer that is calling: what it raises ends this callback."""
        trainer = calling(self)
        if trainer is None or any(getattr(vars(trainer).get(one), "__plimsoll__", None) is self for one in ("train", name)):
            return
        method = getattr(trainer, name)

        @functools.wraps(method)
        def guarded(*arguments: Any, **named: Any) -> Any:
            try:
                return method(*arguments, **named)
            except BaseException as error:
                self._end(error)
                raise

        guarded.__plimsoll__ = self  # type: ignore[attr-defined]
        setattr(trainer, name, guarded)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._end()
        self._wrap("training_step")  # of add_callback, which comes after the trainer was made
        self.recorder = started(self.record_dir)
        name = self.run or getattr(args, "run_name", None) or os.path.basename(str(getattr(args, "output_dir", "") or ""))
        self.attached = Attached(kwargs["model"], kwargs.get("optimizer"), None, name or None, self.peaks, None)
        self.attached.__enter__()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.recorder is not None:
            self.recorder.step()

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        if self.attached is None or logs is None:
            return
        if self.log and ("loss" in logs or "eval_loss" in logs):
            told = logged(self.attached, self.log)
            logs.update(told)  # for callbacks that come after this one
            if state.log_history:
                state.log_history[-1].update(told)
        self.attached.log(loss=number(logs.get("loss")), lr=number(logs.get("learning_rate")),
                          grad_norm=number(logs.get("grad_norm")), epoch=int(state.epoch or 0))

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._end()

    def summary(self) -> Any:
        return None if self.attached is None else self.attached.summary()

    def _end(self, error: BaseException | None = None) -> None:
        if self.attached is not None:
            self.attached.__exit__(None if error is None else type(error), error, None if error is None else error.__traceback__)
        if self.recorder is not None:
            self.recorder.close()
            self.recorder = None


def calling(callback: Any) -> Any:
    """The Trainer among the callers whose callback this is; callbacks do not get it.  None: it is not among them."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        handler = getattr(frame.f_locals.get("self"), "callback_handler", None)
        if any(one is callback for one in getattr(handler, "callbacks", ())):
            return frame.f_locals["self"]
    return None


def number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None
