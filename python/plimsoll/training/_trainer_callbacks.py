"""What watches values, as a callback of transformers' Trainer or of Lightning's: its state is in their checkpoints."""
from __future__ import annotations

from typing import Any, Callable, Mapping

Look = Callable[[int, Mapping[str, Any], bool], bool]  # step, values by name, is this the first rank? -> stop


def transformers_callback(owner: Any, name: str, *, on_log: Look | None = None, on_evaluate: Look | None = None) -> Any:
    """owner: has state_dict and load_state_dict.  name: under which checkpoints hold its state."""
    from transformers import TrainerCallback  # type: ignore[import-not-found,unused-ignore]
    from transformers.trainer_callback import ExportableState  # type: ignore[import-not-found,unused-ignore]

    class Callback(TrainerCallback, ExportableState):  # type: ignore[misc,unused-ignore]
        @property
        def monitor_state(self) -> Any:
            return owner.state_dict()

        @monitor_state.setter
        def monitor_state(self, state: Any) -> None:
            owner.load_state_dict(state)

        def state(self) -> dict[str, Any]:
            return {"args": {}, "attributes": {"monitor_state": self.monitor_state}}

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
            if on_log is not None and "train_runtime" not in (logs or {}):  # the sum at the end has no step
                control.should_training_stop |= on_log(state.global_step, logs or {}, state.is_world_process_zero)

        def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **kwargs: Any) -> None:
            if on_evaluate is not None:
                control.should_training_stop |= on_evaluate(state.global_step, metrics or {}, state.is_world_process_zero)

    Callback.__name__ = Callback.__qualname__ = name
    return Callback()


def lightning_callback(owner: Any, name: str, after_batch: Look | None, after_validation: Look) -> Any:
    try:
        from lightning.pytorch.callbacks import Callback as Base  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        from pytorch_lightning.callbacks import Callback as Base  # type: ignore[import-not-found,no-redef,unused-ignore]

    class Callback(Base):  # type: ignore[misc,unused-ignore]
        @property
        def state_key(self) -> str:
            return name

        def on_train_batch_end(self, trainer: Any, *arguments: Any, **kwargs: Any) -> None:
            if after_batch is not None and trainer.global_step % trainer.log_every_n_steps == 0:
                trainer.should_stop |= after_batch(trainer.global_step, trainer.callback_metrics, trainer.is_global_zero)

        def on_validation_end(self, trainer: Any, *arguments: Any, **kwargs: Any) -> None:
            if not trainer.sanity_checking:
                trainer.should_stop |= after_validation(trainer.global_step, trainer.callback_metrics, trainer.is_global_zero)

        def state_dict(self) -> Any:
            return owner.state_dict()

        def load_state_dict(self, state: Any) -> None:
            owner.load_state_dict(state)

    return Callback()
