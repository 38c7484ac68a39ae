"""Results that have as many rows as values say: as many as are known (known.py), else as many as there can be, which is said."""
from __future__ import annotations

from typing import Any, Callable, Sequence

import torch
from torch.utils._python_dispatch import _disable_current_modes

from .known import Known

__all__ = ["Dynamic"]

_ATEN: Any = torch.ops.aten


class Dynamic:
    """Makes such results where the fake mode cannot; `guessed` counts those that are as large as can be."""

    def __init__(self, known: Known) -> None:
        self.known = known
        self.guessed = 0

    def rows(self, mask: torch.Tensor) -> int:
        """How many places of a mask are true."""
        value = self.known.of(mask)
        if value is not None:
            with _disable_current_modes():
                return int(torch.count_nonzero(value))
        self.guessed += 1
        return int(mask.numel())

    def _index(self, x: torch.Tensor, indices: Sequence[torch.Tensor | None], *rest: Any) -> Any:
        """A mask stands for the places where it is true, a list of numbers for each of its dimensions."""
        places: list[torch.Tensor | None] = []
        for index in indices:
            if index is None or index.dtype not in (torch.bool, torch.uint8):
                places.append(index)
                continue
            n = self.rows(index)
            places += [torch.empty(n, dtype=torch.long) for _ in range(index.dim())]
        return _ATEN.index.Tensor(x, places, *rest)

    def _nonzero(self, x: torch.Tensor) -> torch.Tensor:
        return torch.empty((self.rows(x), x.dim()), dtype=torch.long)

    def _masked_select(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        shape = torch.broadcast_shapes(x.shape, mask.shape)
        n = torch.Size(shape).numel()
        return x.new_empty(self.rows(mask) * n // max(mask.numel(), 1))

    def _unique(self, x: torch.Tensor, *_: Any, **__: Any) -> tuple[torch.Tensor, ...]:
        self.guessed += 1
        return x.new_empty(x.numel()), torch.empty(x.shape, dtype=torch.long), torch.empty(x.numel(), dtype=torch.long)

    def make(self, func: Any, args: Any, kwargs: Any) -> Any:
        """None: no one knows how large it can be."""
        rules: dict[Any, Callable[..., Any]] = {
            _ATEN.index.Tensor: self._index, _ATEN.nonzero.default: self._nonzero, _ATEN.masked_select.default: self._masked_select,
            _ATEN._unique2.default: self._unique, _ATEN.unique_consecutive.default: self._unique}
        return rules[func](*args, **kwargs) if func in rules else None
