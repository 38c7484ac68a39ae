"""For transformers' Trainer: trainer = Trainer(..., callbacks=[PlimsollCallback()])."""
from __future__ import annotations

import os
from typing import Any

from transformers import TrainerCallback

from .._attach import Attached
from .._monitor import Peaks
from .._guard import is_oom as is_oom
from .._input import PathLike
from .._recorder import Recorder

__all__ = ["PlimsollCallback"]


class PlimsollCallback(TrainerCallback):  # type: ignore[misc,unused-ignore]
    """Memory by phase and step in the logs, leaks, the gauge; with record_dir a recording where memory is refused.

    peaks: "phase" (three readings a step) or "step" (one).  .attached has the monitor after training began, .summary() at the end.
    """

    def __init__(self, *, record_dir: PathLike | None = None, peaks: Peaks = "phase", run: str | None = None) -> None:
        self.record_dir, self.run = record_dir, run
        self.peaks: Peaks = peaks
        self.attached: Attached | None = None
        self.recorder: Recorder | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._end()
        if self.record_dir is not None:
            self.recorder = Recorder(self.record_dir).start()
        name = self.run or getattr(args, "run_name", None) or os.path.basename(str(getattr(args, "output_dir", "") or ""))
        self.attached = Attached(kwargs["model"], kwargs.get("optimizer"), None, name or None, self.peaks, None)
        self.attached.__enter__()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.recorder is not None:
            self.recorder.step()

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        if self.attached is None or logs is None:
            return
        if "loss" in logs or "eval_loss" in logs:
            told = {name: value for name, value in self.attached.scalars().items() if name.startswith("memory/")}
            logs.update(told)  # for callbacks that come after this one
            if state.log_history:
                state.log_history[-1].update(told)
        self.attached.log(loss=number(logs.get("loss")), lr=number(logs.get("learning_rate")),
                          grad_norm=number(logs.get("grad_norm")), epoch=int(state.epoch or 0))

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._end()

    def summary(self) -> Any:
        return None if self.attached is None else self.attached.summary()

    def _end(self) -> None:
        if self.attached is not None:
            self.attached.__exit__(None, None, None)
        if self.recorder is not None:
            self.recorder.close()
            self.recorder = None


def number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None
