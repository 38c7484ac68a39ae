"""`plimsoll fit -- python train.py`: an unchanged training command that fits, and provably trains the same.

Each batch is cut into parts inside the training step of transformers.Trainer, weighed so that their gradients add up to the
whole batch's.  Loader, accumulation, schedule and seeds stay untouched.  Before the run a process of its own measures the
gradient of the whole batch, of another order of it (the noise), and of the parts, in fp32 and without dropout; a model for
which they differ (BatchNorm, in-batch negatives, a balancing loss) is refused.  No list of models is kept.

The module can be called: plimsoll.fit(model, loader, step) does the same for a loop of one's own (_notebook.py).
"""
from __future__ import annotations

import sys
import types

TYPE_CHECKING = False  # checkers take it for true
if TYPE_CHECKING:
    from typing import Any


class _Callable(types.ModuleType):
    def __call__(self, model: Any, loader: Any, step: Any, **named: Any) -> Any:
        """As plimsoll.fit._notebook.fit."""
        from ._notebook import fit
        return fit(model, loader, step, **named)


sys.modules[__name__].__class__ = _Callable
