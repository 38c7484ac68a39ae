"""A batch of the longest samples for a traced script whose batches differ in size: a later step of its run meets one as long."""
from __future__ import annotations

import contextlib
from typing import Any, Iterator, Mapping

import torch

from ..fit._longest import longest
from ..fit._parts import samples_of

__all__ = ["Longest"]


def _shapes(batch: Any) -> tuple[Any, ...]:
    if isinstance(batch, torch.Tensor):
        return tuple(batch.shape)
    values = list(batch.values()) if isinstance(batch, Mapping) else batch if isinstance(batch, (list, tuple)) else []
    return tuple(map(_shapes, values))


def _samples(loader: Any) -> int:
    """Of a batch; a collate function may make several rows of each (DPO)."""
    return int(loader.batch_size or getattr(loader.batch_sampler, "batch_size", None) or 0)


class Longest:
    """Watches the loaders of a script; `give()` has the one that it trains with hand out a batch of its longest samples next."""

    def __init__(self) -> None:
        self.last: Any = None       # the loader that gave a batch last
        self.trained: Any = None    # the one that gave the batch of the last backward pass
        self.shapes: dict[int, set[Any]] = {}  # of a loader's batches
        self.is_wanted = False
        self.lengths: dict[str, Any] = {}  # of the batch that was given

    def backward(self) -> None:
        self.trained = self.last

    def differ(self) -> bool:
        """Have batches of the loader that it trains with had several shapes?"""
        return self.trained is not None and len(self.shapes[id(self.trained)]) > 1

    def give(self) -> None:
        self.is_wanted = True

    @property
    def is_given(self) -> bool:
        return bool(self.lengths)

    def _instead(self, loader: Any, batch: Any) -> Any:
        if not self.is_wanted or loader is not self.trained:
            return batch
        self.is_wanted = False
        try:
            found, self.lengths = longest(loader, _samples(loader) or samples_of(batch) or 1)
        except Exception:  # the data set's own: it is read in another order here
            found = None
        return batch if found is None else found

    def text(self) -> str:
        read = "all were read" if self.lengths["read"] == self.lengths["of"] else f"{self.lengths['read']:,} were read"
        return f"a batch of its longest samples, {self.lengths['longest']:,} {self.lengths['unit']} ({read})"

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        plain, seen = torch.utils.data.DataLoader.__iter__, self

        def batches(loader: Any) -> Iterator[Any]:
            for batch in plain(loader):
                batch = seen._instead(loader, batch)
                seen.shapes.setdefault(id(loader), set()).add(_shapes(batch))
                seen.last = loader
                yield batch

        setattr(torch.utils.data.DataLoader, "__iter__", batches)
        try:
            yield
        finally:
            setattr(torch.utils.data.DataLoader, "__iter__", plain)
