"""Batches cut into parts within transformers.Trainer.training_step, and so within the Trainers that call it (TRL, axolotl)."""
from __future__ import annotations

import contextlib
import math
from typing import Any, Callable, Iterator

from ..errors import UnsupportedError
from ._parts import shares
from ._ranks import even, unsynced

#: What the cut relies on; without one of them it would be silent and wrong.
NEEDED = ("training_step", "get_batch_samples", "compute_loss_context_manager")

Step = Callable[..., Any]


def check(trainer_class: Any) -> None:
    """UnsupportedError if this release of Transformers has another training_step than the cut knows."""
    missing = [name for name in NEEDED if not hasattr(trainer_class, name)]
    if missing:
        raise UnsupportedError(f"this release of Transformers has no Trainer.{missing[0]}", remedy="4.50 or newer is needed")


def _is_scaled(trainer: Any, items: Any) -> bool:
    """Does the Trainer leave the loss as it is, and not divide it by the accumulation?  As training_step decides it."""
    said = getattr(trainer, "loss_is_scaled_for_ga", None)
    return bool(said) if said is not None else trainer.model_accepts_loss_kwargs and items is not None or trainer.compute_loss_func is not None


@contextlib.contextmanager
def _weighed(trainer: Any, share: float, items: Any) -> Iterator[None]:
    """The loss of a part counts `share` of what the whole batch's would."""
    name = "loss_is_scaled_for_ga" if hasattr(trainer, "loss_is_scaled_for_ga") else "model_accepts_loss_kwargs"
    kept, accumulated = getattr(trainer, name), trainer.current_gradient_accumulation_steps
    trainer.current_gradient_accumulation_steps = (1 if _is_scaled(trainer, items) else accumulated) / share if share else math.inf
    setattr(trainer, name, False)
    try:
        yield
    finally:
        setattr(trainer, name, kept)
        trainer.current_gradient_accumulation_steps = accumulated


def cut_step(step: Step, trainer: Any, model: Any, inputs: Any, items: Any, parts: int, way: str, blocks: int = 1) -> Any:
    """One training step in parts: `step` is the Trainer's own.  Gives the loss of the whole batch, as that does."""
    parts_of_it = even(model, shares(inputs, parts, way, bool(getattr(trainer, "_loss_shifts_labels", False)), blocks))
    total = None
    for number, (part, share) in enumerate(parts_of_it, 1):
        with contextlib.ExitStack() as around:
            if number < len(parts_of_it):
                around.enter_context(unsynced(model)())
            if share != 1.0:
                around.enter_context(_weighed(trainer, share, items))
            loss = step(trainer, model, part, items)
        total = loss if total is None else total + loss
    return total


def patch(module: Any, around: Callable[[Step, Any, Any, Any, Any], Any]) -> None:
    """From now on `around(step, trainer, model, inputs, items)` is what a training step does; module: transformers.trainer."""
    check(module.Trainer)
    step = module.Trainer.training_step

    def training_step(self: Any, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Any:
        if not hasattr(self, "current_gradient_accumulation_steps"):
            raise UnsupportedError("this release of Transformers accumulates gradients in a way that is not known here", remedy="4.50 or newer is needed")
        return around(step, self, model, inputs, num_items_in_batch)

    module.Trainer.training_step = training_step
