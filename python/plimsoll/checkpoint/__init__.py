"""Checkpoints that do not stop the loop, are never torn, and resume bit for bit.

    from plimsoll.checkpoint import Checkpointer

    with Checkpointer("ckpts", keep_last=3, monitor="val_loss", on_signal=("SIGTERM",)) as checkpointer:
        start = 0
        if checkpointer.checkpoints():
            start = checkpointer.load("latest", model=model, optimizer=optimizer, scheduler=scheduler).step
        for step in range(start + 1, total + 1):
            train_step()
            if step % 1000 == 0:
                checkpointer.save(step, model=model, optimizer=optimizer, scheduler=scheduler, metrics={"val_loss": loss})
            if checkpointer.preempted():
                checkpointer.save_and_exit(step, model=model, optimizer=optimizer, scheduler=scheduler)

Files that something else wrote (torch.save, Lightning, Transformers):

    from plimsoll import checkpoint

    checkpoint.load("last.pt", model=model, optimizer=optimizer, scheduler=scheduler)

What is written, and what is promised: docs/checkpointer.md.
"""
from __future__ import annotations

from ._checkpointer import Checkpointer, Saved, Saving
from ._foreign_checkpoint import LoadedFile, load
from ._load import Loaded
from ._state import rng_state, set_rng_state

__all__ = ["Checkpointer", "Saving", "Saved", "Loaded", "LoadedFile", "load", "rng_state", "set_rng_state"]
