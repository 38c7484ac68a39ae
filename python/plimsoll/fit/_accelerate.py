"""Batches cut into parts in loops of accelerate: the prepared loader gives parts, backward weighs them, and only the last one steps.

Nothing that a script reads (the accumulation, the length of the loader) changes.  A script that counts batches by itself
counts parts; one that prints the loss of a batch prints that of a part.
"""
from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator

from ..errors import UnsupportedError
from ._parts import shares
from ._ranks import even, unsynced

#: What the cut relies on: (module, class, attribute).
NEEDED = (("accelerate.accelerator", "Accelerator", ("backward", "prepare_data_loader", "prepare_model", "_do_sync", "autocast", "clip_grad_norm_", "clip_grad_value_")),
          ("accelerate.data_loader", "DataLoaderShard", ("__iter__",)),
          ("accelerate.optimizer", "AcceleratedOptimizer", ("step", "zero_grad")),
          ("accelerate.scheduler", "AcceleratedScheduler", ("step",)))

Batches = Callable[["Loop", Any, Any, Iterator[Any]], Iterator[Any]]


class Loop:
    """How the loop of this process stands between two batches."""

    def __init__(self) -> None:
        self.share = 1.0      # of the batch's loss, of the part that is out
        self.last = True      # of its batch
        self.still = False    # steps change nothing: gradients are being compared
        self.backwards = 0    # so far
        self.steps = 0
        self.synced = 0       # accelerator.accumulate() was entered
        self.accelerator: Any = None
        self.model: Any = None  # as the script calls it: DDP's, FSDP2's
        self.loaders: list[Any] = []  # that were prepared
        self.optimizers: dict[Any, None] = {}  # that stepped
        self.held = False     # gradients stay there from batch to batch
        self.measure: Callable[[tuple[int, int, int]], tuple[int, int, int]] | None = None  # of the passes, as the optimizer begins a step
        self.passes: tuple[int, int, int] = (0, 0, 0)  # the peak before the optimizer steps, as a gauge gives it

    def parts(self, batch: Any, parts: int, way: str) -> Iterator[Any]:
        """The batch in parts; what the loop does with each counts its share."""
        cut = even(self.model, shares(batch, parts, way))
        if len(cut) < 2:
            yield batch
            return
        state = self.accelerator.gradient_state
        try:
            for number, (part, self.share) in enumerate(cut, 1):
                self.last = number == len(cut)
                state._set_sync_gradients(self.last)  # for a loop without accumulate(); that sets it anew
                held = contextlib.nullcontext if self.last else unsynced(self.model)
                with held():
                    yield part
        finally:
            self.share, self.last = 1.0, True


def patch(batches: Batches, owned: Callable[[], bool] = lambda: False) -> None:
    """From now on prepared loaders give what `batches` makes of theirs.  owned(): loaders are a Trainer's, which cuts by itself."""
    import importlib
    for module, name, attributes in NEEDED:
        missing = [a for a in attributes if not hasattr(getattr(importlib.import_module(module), name, None), a)]
        if missing:
            raise UnsupportedError(f"this release of accelerate has no {name}.{missing[0]}")
    from accelerate.accelerator import Accelerator
    from accelerate.data_loader import DataLoaderShard
    from accelerate.optimizer import AcceleratedOptimizer
    from accelerate.scheduler import AcceleratedScheduler
    loop = Loop()

    def around(owner: Any, name: str, changed: Callable[..., Any]) -> None:
        own = getattr(owner, name)
        setattr(owner, name, lambda self, *words, **named: changed(own, self, *words, **named))

    def backward(own: Any, self: Any, loss: Any, **named: Any) -> None:
        loop.backwards += 1
        own(self, loss if loop.share == 1.0 else loss * loop.share, **named)

    def prepare_model(own: Any, self: Any, *words: Any, **named: Any) -> Any:
        loop.model = own(self, *words, **named)
        return loop.model

    def prepare(own: Any, self: Any, *words: Any, **named: Any) -> Any:
        loader = own(self, *words, **named)
        loop.accelerator = self
        loader.plimsoll_number = len(loop.loaders)
        loop.loaders.append(loader)
        return loader

    def sync(own: Any, self: Any) -> None:
        loop.synced += 1
        if loop.last and not loop.still:
            own(self)
        else:  # the batch is not counted yet, or never; gradients that are compared are those of all ranks
            self.gradient_state._set_sync_gradients(loop.last)

    def step(own: Any, self: Any, *words: Any, **named: Any) -> Any:
        loop.steps += 1
        loop.optimizers[self.optimizer] = None
        if loop.still:
            return None
        if loop.measure is not None:
            loop.passes = loop.measure(loop.passes)
        return own(self, *words, **named)

    def zero_grad(own: Any, self: Any, *words: Any, **named: Any) -> Any:
        return None if loop.still else own(self, set_to_none=False) if loop.held else own(self, *words, **named)

    def quiet(own: Any, self: Any, *words: Any, **named: Any) -> Any:
        return None if loop.still else own(self, *words, **named)

    def clip(own: Any, self: Any, parameters: Any, *words: Any, **named: Any) -> Any:
        import torch
        return torch.zeros(()) if loop.still else own(self, parameters, *words, **named)

    def autocast(own: Any, self: Any, *words: Any, **named: Any) -> Any:
        return contextlib.nullcontext() if loop.still else own(self, *words, **named)

    def iterate(own: Any, self: Any) -> Iterator[Any]:
        import torch
        if owned() or loop.accelerator is None or not torch.is_grad_enabled():
            yield from own(self)
        else:
            if loop.model is None and len(loop.accelerator._models) == 1:  # FSDP2's does not go through prepare_model
                loop.model = loop.accelerator._models[0]
            yield from batches(loop, self, loop.accelerator, own(self))

    around(Accelerator, "backward", backward)
    around(Accelerator, "prepare_data_loader", prepare)
    around(Accelerator, "prepare_model", prepare_model)
    around(Accelerator, "_do_sync", sync)
    around(Accelerator, "autocast", autocast)
    around(Accelerator, "clip_grad_norm_", clip)
    around(Accelerator, "clip_grad_value_", clip)
    around(AcceleratedOptimizer, "step", step)
    around(AcceleratedOptimizer, "zero_grad", zero_grad)
    around(AcceleratedScheduler, "step", quiet)
    around(DataLoaderShard, "__iter__", iterate)
