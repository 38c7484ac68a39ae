"""For accelerate: register(accelerator, model, optimizer) after prepare()."""
from __future__ import annotations

from typing import Any

from .._attach import Attached
from ..memory._monitor import Peaks

__all__ = ["register"]


def register(accelerator: Any, model: Any, optimizer: Any = None, loader: Any = None, *, run: str | None = None,
             peaks: Peaks = "phase") -> Attached:
    """Attach to what accelerator.prepare() gave; numbers go to accelerator.log with attached.scalars().

    accelerator.end_training() takes it off again; so does attached.remove().
    """
    attached = Attached(model, optimizer, loader, run, peaks, None)
    saving = accelerator.register_save_state_pre_hook(lambda *rest: _phase(attached, "save"))
    attached._handle._parts.append(saving)
    return attached


def _phase(attached: Attached, name: str) -> None:
    if attached.gauge is not None:
        attached.gauge.phase(name)
