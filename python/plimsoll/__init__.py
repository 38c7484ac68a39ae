"""Plimsoll inside the Python process: explain, watch and bound the GPU memory of a PyTorch job.

    import plimsoll
    print(plimsoll.report("snapshot.pickle"))       # what filled the memory, who kept it, why it ran out
    plan = plimsoll.plan("config.json", batch=2, sequence=256, gpu="RTX 4090")
    plan.fits, plan.peak.allocated_bytes            # as in the JSON (docs/json.md), None: not known

Importing it loads neither torch nor numpy nor the C library: each name below is imported when it is first used.
"""
from __future__ import annotations

import importlib

TYPE_CHECKING = False  # checkers take it for true; importing it from typing takes longer than all the rest
if TYPE_CHECKING:
    from typing import Any

# name -> module it lives in; a name that is a module of its own is listed with itself.  tests/test_package.py walks it.
_WHERE = {
    "__version__": "_version",
    "report": "verbs",
    "diff": "verbs",
    "whatif": "verbs",
    "plan": "verbs",
    "why": "verbs",
    "here": "verbs",
    "verify": "verbs",
    "record": "verbs",
    "doctor": "_doctor",
    "PlimsollError": "errors",
    "NotFoundError": "errors",
    "FormatError": "errors",
    "LimitError": "errors",
    "Cancelled": "errors",
    "errors": "errors",
    "attach": "_attach",
    "check": "_check",
    "checkpoint": "checkpoint",
    "data": "data",
    "diagnose": "_diagnose",
    "gradients": "gradients",
    "fit": "fit",
    "gauge": "gauge",
    "memory": "memory",
    "allocator": "allocator",
    "oom": "oom",
    "training": "training",
    "weights": "weights",
    "is_oom": "oom._guard",
    "oom_guard": "oom._guard",
    "free_last_exception": "memory._owners",
}

# Commands of the program that are not a function here, and what is.
_PROGRAM = "it is a command of the program: plimsoll "
_COMMANDS = {
    **{name: _PROGRAM + name for name in ("bundle", "curves", "gate", "pack", "page", "watch")},
    "ckpt": "its functions are plimsoll.verify and plimsoll.checkpoint.load",
    "lint": "it is a command of the program: plimsoll lint, or a module: import plimsoll.lint",
}

if TYPE_CHECKING:
    from . import allocator as allocator
    from . import errors as errors
    from . import checkpoint as checkpoint
    from . import data as data
    from . import gradients as gradients
    from . import gauge as gauge
    from . import memory as memory
    from . import oom as oom
    from . import training as training
    from . import weights as weights
    from ._version import __version__ as __version__
    from .fit._notebook import fit as fit
    from ._attach import attach
    from ._check import check
    from ._diagnose import diagnose
    from .oom._guard import is_oom, oom_guard
    from .memory._owners import free_last_exception
    from .errors import Cancelled, FormatError, LimitError, NotFoundError, PlimsollError
    from ._doctor import doctor
    from .verbs import diff, here, plan, record, report, verify, whatif, why

__all__ = [*_WHERE]


def _elsewhere(name: str) -> str | None:
    """The module below that has the name."""
    for module in (home for known, home in _WHERE.items() if known == home and not name.startswith("_")):
        if name in getattr(importlib.import_module("." + module, __name__), "__all__", ()):
            return f"it is plimsoll.{module}.{name}"
    return None


def __getattr__(name: str) -> Any:
    if name == "_abi":  # all that calls the C library imports it first
        try:
            return importlib.import_module("._abi", __name__)
        except ModuleNotFoundError:
            raise ImportError(f"'{__path__[0]}' is not built: run `make` in this checkout of Plimsoll", name=name) from None
    home = _WHERE.get(name)
    if home is None:
        instead = _COMMANDS.get(name) or _elsewhere(name)
        raise AttributeError(f"module 'plimsoll' has no attribute '{name}'" + (f"; {instead}" if instead else ""))
    module = importlib.import_module("." + home, __name__)
    value = module if name == home else getattr(module, name)
    globals()[name] = value
    return value


def load_ipython_extension(ipython: Any) -> None:
    """%load_ext plimsoll: the cell magic %%memory, and %free."""
    from .integrations.ipython import load_ipython_extension as load

    load(ipython)


def __dir__() -> list[str]:
    return sorted(__all__)
