"""Values that are known although tensors are fake: what the host makes of whole numbers, lengths, masks and indices decides shapes.

An operation whose operands are all known is run for real next to the fake one, on the host, if it is small; on the GPU only
whole numbers and conditions are followed.  Views of what is known share its memory, so what is written in place is seen by all.
"""
from __future__ import annotations

from typing import Any, Iterator

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.weak import WeakIdKeyDictionary

__all__ = ["Known"]

WHOLE_MOST = 1 << 22   # elements of integers and conditions that are followed
FLOATS_MOST = 1 << 16  # of others, on the host alone: no weights


def _is_small(t: torch.Tensor, on_gpu: bool) -> bool:
    if t.layout is not torch.strided or t.dtype.is_complex:
        return False
    return t.numel() <= FLOATS_MOST and not on_gpu if t.dtype.is_floating_point else t.numel() <= WHOLE_MOST


class Known:
    """What is known of fake tensors, for as long as they live."""

    def __init__(self) -> None:
        self.values: Any = WeakIdKeyDictionary()
        self.spoiled: dict[int, Any] = {}  # storages of values that something unknown was written into

    def of(self, t: torch.Tensor) -> torch.Tensor | None:
        value: torch.Tensor | None = self.values.get(t) if isinstance(t, FakeTensor) else t if type(t) is torch.Tensor else None
        if value is None or value.device.type != "cpu" or value.untyped_storage()._cdata in self.spoiled:
            return None
        return value

    def tell(self, t: torch.Tensor, value: torch.Tensor) -> None:
        self.values[t] = value

    def forget(self, t: torch.Tensor) -> None:
        value = self.of(t)
        if value is not None and isinstance(t, FakeTensor):
            storage = value.untyped_storage()
            self.spoiled[storage._cdata] = storage

    def run(self, func: Any, args: Any, kwargs: Any, inputs: list[torch.Tensor]) -> Any:
        """The operation on what is known; None: something is not, or it cannot be done."""
        real = [self.of(t) for t in inputs]
        if any(value is None for value in real):
            return None
        by = {id(t): value for t, value in zip(inputs, real)}

        def value_of(x: Any) -> Any:
            return by[id(x)] if isinstance(x, torch.Tensor) else x
        try:
            with _disable_current_modes(), torch.no_grad():
                return func(*tree_map(value_of, args), **tree_map(value_of, {k: v for k, v in kwargs.items() if k != "pin_memory"}))
        except Exception:  # noqa: BLE001 - the fake world says what is wrong, if anything is
            return None

    def follow(self, func: Any, args: Any, kwargs: Any, inputs: list[torch.Tensor], result: Any, on_gpu: bool) -> None:
        """After the fake operation: what of its result is known."""
        made = [t for t in tree_leaves(result) if isinstance(t, torch.Tensor)]
        if made and all(_is_small(t, on_gpu) for t in made):
            real = self.run(func, args, kwargs, inputs)
            values = [t for t in tree_leaves(real) if isinstance(t, torch.Tensor)]
            if len(values) == len(made) and all(a.shape == b.shape for a, b in zip(made, values)):
                for t, value in zip(made, values):
                    if isinstance(t, FakeTensor):
                        self.tell(t, value)
                return
        for t in _written(func, args):
            self.forget(t)


def _written(func: Any, args: Any) -> Iterator[torch.Tensor]:
    for argument, value in zip(func._schema.arguments, args):
        if argument.alias_info is not None and argument.alias_info.is_write:
            yield from (t for t in tree_leaves(value) if isinstance(t, torch.Tensor))
