"""What a forward pass keeps for its backward pass: exact, for one call."""
from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Any, Callable, TypeVar

from .. import _torch

T = TypeVar("T")


@dataclass(frozen=True)
class SavedTensor:
    """One storage that was kept: bytes, and the line of the user's own code that made autograd keep it."""

    bytes: int
    shape: tuple[int, ...]
    dtype: str
    line: str | None


@dataclass(frozen=True)
class ActivationUse:
    """Bytes of storages that autograd kept, each counted once; those of parameters and buffers apart."""

    saved_bytes: int
    parameter_bytes: int
    tensors: int
    largest: tuple[SavedTensor, ...]

    def by_line(self) -> dict[str, int]:
        """Bytes by the line that kept them, most first."""
        found: dict[str, int] = {}
        for tensor in self.largest:
            found[tensor.line or "?"] = found.get(tensor.line or "?", 0) + tensor.bytes
        return dict(sorted(found.items(), key=lambda item: -item[1]))


def saved_activations(fn: Callable[[], T], *, model: Any = None) -> tuple[T, ActivationUse]:
    """fn() and what it kept for a backward pass (torch.autograd.graph.saved_tensors_hooks, for this one call).

    model: its parameters and buffers are not activations; without it leaves that need gradients are taken for parameters.

    >>> out, use = saved_activations(lambda: model(batch))         # doctest: +SKIP
    >>> use.saved_bytes                                            # doctest: +SKIP
    """
    torch = _torch.torch()
    own = set()
    if model is not None:
        for tensor in (*model.parameters(), *model.buffers()):
            own.add(storage_key(tensor))
    kept: dict[Any, SavedTensor] = {}
    parameters: dict[Any, int] = {}
    count = 0

    def pack(tensor: Any) -> Any:
        nonlocal count
        count += 1
        key = storage_key(tensor)
        n = tensor.untyped_storage().nbytes()
        if key in own or model is None and tensor.is_leaf and tensor.requires_grad:
            parameters[key] = n
        elif key not in kept:
            kept[key] = SavedTensor(n, tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."), user_line())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = fn()
    largest = sorted(kept.values(), key=lambda tensor: -tensor.bytes)
    return result, ActivationUse(sum(t.bytes for t in largest), sum(parameters.values()), count, tuple(largest))


def storage_key(tensor: Any) -> tuple[str, int]:
    return str(tensor.device), tensor.untyped_storage().data_ptr()


OUR_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep  # of the package


def user_line() -> str | None:
    """The innermost line outside of torch and of this package."""
    frame = sys._getframe(1)
    torch_folder = os.path.dirname(getattr(_torch.torch(), "__file__", "/nowhere/x")) + os.sep
    at: Any = frame
    while at is not None:
        name = at.f_code.co_filename
        if not name.startswith((torch_folder, OUR_FOLDER, "<frozen")):
            return f"{name}:{at.f_lineno} in {at.f_code.co_name}"
        at = at.f_back
    return None
