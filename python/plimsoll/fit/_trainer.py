"""Batches cut into parts within transformers.Trainer.training_step, and so within the Trainers that call it (TRL, axolotl)."""
from __future__ import annotations

import contextlib
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


@contextlib.contextmanager
def _weighed(accelerator: Any, share: float) -> Iterator[None]:
    """The gradient of a part counts `share` of what it would.  All that a Trainer does to its loss before (items, ranks, accumulation) stays."""
    backward, own = accelerator.backward, vars(accelerator).get("backward")
    accelerator.backward = lambda loss, **named: backward(loss * share, **named)
    try:
        yield
    finally:
        if own is None:
            del accelerator.backward
        else:
            accelerator.backward = own


def cut_step(step: Step, trainer: Any, model: Any, inputs: Any, items: Any, parts: int, way: str, blocks: int = 1) -> Any:
    """One training step in parts: `step` is the Trainer's own.  Gives the loss of the whole batch, as that does."""
    parts_of_it = even(model, shares(inputs, parts, way, bool(getattr(trainer, "_loss_shifts_labels", False)), blocks))
    total = None
    for number, (part, share) in enumerate(parts_of_it, 1):
        with contextlib.ExitStack() as around:
            if number < len(parts_of_it):
                around.enter_context(unsynced(model)())
            if share != 1.0:
                around.enter_context(_weighed(trainer.accelerator, share))
            loss = step(trainer, model, part, items) * share
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
