"""find_batch_size: few runs of a full step, a line through their peaks, halves if the line is wrong, one proof from each side."""
from __future__ import annotations

import gc
import math
from dataclasses import dataclass
from typing import Any, Callable

from . import _seed
from .. import _torch
from ._guard import is_oom
from ..memory._owners import forget
from ._retry import Restore
from ..errors import ArgumentError, UnsupportedError




@dataclass(frozen=True)
class BatchSize:
    """The largest size that fits; runs and failures that it took; peaks in bytes by size."""

    size: int
    exact: bool
    runs: int
    ooms: int
    limit_bytes: int | None
    peak_bytes: dict[int, int]

    def __int__(self) -> int:
        return self.size

    __index__ = __int__

    def __str__(self) -> str:
        how = "exact" if self.exact else "at least"
        return f"{self.size} ({how}; {self.runs} runs, {self.ooms} of them out of memory)"


class Search:
    """Sizes that fit, with their peaks, and the least that does not; limit: bytes that may be allocated, as far as is known."""

    def __init__(self, multiple_of: int, max_size: int, limit: int | None) -> None:
        self.multiple, self.most = multiple_of, max_size // multiple_of * multiple_of
        self.limit = self.believed = limit
        self.fits: dict[int, int] = {}
        self.fails: int | None = None
        self.ooms = 0
        self.had = 0  # bytes that were allocated when memory was refused
        self.beyond = 0  # runs past the end of the line
        self.halved = math.inf  # sizes that were open when the line was last followed into their upper half

    def best(self) -> int:
        return max(self.fits, default=0)

    def done(self) -> bool:
        best = self.best()
        return best >= self.most or self.fails is not None and self.fails - best <= self.multiple

    def grid(self, size: float) -> int:
        """The multiple at or below, between what fits and what does not."""
        top = self.most if self.fails is None else self.fails - self.multiple
        return int(max(self.best() + self.multiple, min(top, size // self.multiple * self.multiple)))

    def line(self, allocated_bytes: float) -> float | None:
        """The size whose peak is so high, by the line through the largest that fits and one of at most half its size: peaks are
        rounded, so neighbours tell little of the slope."""
        sizes = sorted(self.fits)
        if len(sizes) < 2:
            return None
        b = sizes[-1]
        a = max([size for size in sizes if 2 * size <= b], default=sizes[0])
        slope = (self.fits[b] - self.fits[a]) / (b - a)
        return None if slope <= 0 else b + (allocated_bytes - self.fits[b]) / slope

    def failed(self, size: int, allocated_bytes: int | None = None, refused_bytes: int = 0) -> None:
        """A size that does not fit.  allocated_bytes were there when refused_bytes were not: the limit lies between, whoever
        sets it: a fraction, a neighbour, an allocator that loses some."""
        self.fails = min(size, self.fails or size)
        if allocated_bytes is not None and self.limit is not None:
            self.had, self.limit = max(self.had, allocated_bytes), min(self.limit, allocated_bytes + refused_bytes)

    def next(self, hint: int | None) -> int:
        best, told = self.best(), None if self.limit is None else self.line(self.limit)
        if not best:
            return self.multiple
        if self.fails is None:
            if told is None:  # a plan is sure of its size: then the line through it and the first shows the rest
                return self.grid(hint or 2 * best)
            # Far from the largest that was seen a line is uncertain: fixed parts and rounding are still large.
            return self.grid(self.at_least(min(told, 8 * best)))
        half, aim = (best + self.fails) / 2, None
        if told is not None and self.limit is not None:
            known = self.limit == self.believed and told < self.fails
            aim = told if known else self.line((max(self.had, self.fits[best]) + self.limit) / 2)
        if aim is None or aim >= self.fails or aim > half and 2 * (self.fails - best) > self.halved:
            return self.grid(half)
        if aim > half:
            self.halved = self.fails - best
            return self.grid(aim)
        return self.grid(min(half, self.at_least(aim)))

    def at_least(self, size: float) -> float:
        """The line may say again and again that the next one fails, and be wrong: one on, then two, then four."""
        on = self.best() + (self.multiple << self.beyond)
        self.beyond += size < on
        return max(on, size)


def find_batch_size(step: Callable[[int], object], *, max_size: int = 65536, multiple_of: int = 1, margin: float = 0.0,
                    model: Any = None, optimizer: Any = None, limit_bytes: int | None = None, plan: Any = None,
                    group: Any = None) -> BatchSize:
    """The largest batch size whose full step fits, exactly: it was run, and the next one failed.

    step(size): one whole step of training, with backward, optimizer and zero_grad.  margin: share of the memory that is to
    stay free (0: none).  model, optimizer: made bitwise as they were before (kept on the host meanwhile).  limit_bytes: memory
    PyTorch may take, at most what is free and what set_per_process_memory_fraction allows; None: all of that.  Another limit
    (a neighbour, MIG, MPS) is learned from the failures.  plan: a plimsoll.plan(..., max_batch=True) to begin from; None: one
    of its own, if model is one of transformers that the planner knows.  It only says where to begin: fewer runs, the same
    answer.
    Needs a GPU.  Raises UnsupportedError without one, the failure itself if multiple_of does not fit.
    """
    if multiple_of < 1 or max_size < multiple_of or not 0 <= margin < 1:
        raise ArgumentError("find_batch_size takes multiple_of >= 1, max_size >= multiple_of and 0 <= margin < 1")
    if not _torch.cuda_started() and not _torch.torch().cuda.is_available():
        raise UnsupportedError("find_batch_size needs a GPU; plimsoll.plan(..., max_batch=True) does not")
    memory = _torch.memory_of()
    state = Restore(model, optimizer)
    trial = Trial(step, memory, multiple_of, max_size, limit_bytes, margin)
    try:
        _torch.observe_failures(trial)
        with _Fraction(memory, limit_bytes):
            trial.run(model, optimizer, getattr(plan, "max_batch", None))
    finally:
        _torch.ignore_failures(trial)
        state.restore()
        _clear()
    size = trial.search.best()
    if group is not None:
        size = least_of(size, None if group is True else group)
    return BatchSize(size, trial.search.done(), trial.runs, trial.search.ooms, trial.limit, trial.search.fits)


class Trial:
    def __init__(self, step: Callable[[int], object], memory: _torch.Memory, multiple_of: int, max_size: int,
                 limit_bytes: int | None, margin: float) -> None:
        self.step, self.memory, self.margin, self.runs = step, memory, margin, 0
        _clear()
        self.limit = memory.limit()
        if limit_bytes is not None:
            self.limit = limit_bytes if self.limit is None else min(limit_bytes, self.limit)
        if self.limit is not None:
            self.limit = int(self.limit * (1 - margin))
        self.search = Search(multiple_of, max_size, self.limit)
        self.refused: tuple[int | None, int] = None, 0

    def on_oom(self, device: int, requested: int, limit: int, free: int) -> None:
        """Before the exception exists: what is allocated is still that of the failure."""
        if device == getattr(self.memory, "index", None):
            self.refused = self.memory.numbers()[0], requested

    def run(self, model: Any, optimizer: Any, hint: int | None) -> None:
        size = self.search.multiple
        seen = _seed.watch(model, size) if hint is None and self.search.limit is not None else None
        try:
            self.one(size)  # the optimizer's state comes into being; its peak is not yet that of a later step
        finally:
            if seen is not None:
                seen.handle.remove()
        if seen is not None and self.search.limit is not None:
            hint = _seed.largest(seen, model, optimizer, self.search.limit)
        while not self.search.done():
            size = self.search.next(hint)
            self.one(size)

    def one(self, size: int) -> None:
        """Run a step twice: the second has what the first leaves, as every step of a training run."""
        self.runs += 1
        self.refused = None, 0
        _clear()
        peak = _torch.peaks_of(self.memory).begin(self.memory)
        failed = None
        try:
            self.step(size)
            self.step(size)
        except BaseException as error:
            if is_oom(error) is None:
                _torch.peaks_of(self.memory).cut(self.memory, peak, last=True)
                raise
            forget(error)
            failed = error
        numbers = _torch.peaks_of(self.memory).cut(self.memory, peak, last=True)
        search = self.search
        if failed is None and (self.margin == 0 or self.limit is None or numbers[3] <= self.limit):
            search.fits[size] = numbers[2]
            return
        search.failed(size, *self.refused)
        search.ooms += failed is not None
        if failed is not None and size == search.multiple:
            raise failed


class _Fraction:
    """PyTorch's own limit for a while; never more than the one in force."""

    def __init__(self, memory: _torch.Memory, limit_bytes: int | None) -> None:
        self.memory, self.limit, self.before = memory, limit_bytes, _torch.memory_fraction(getattr(memory, "index", 0))

    def __enter__(self) -> None:
        if self.limit is not None:
            free = self.memory.free()
            assert free is not None
            _torch.torch().cuda.set_per_process_memory_fraction(min(self.before, self.limit / free[1]))

    def __exit__(self, *rest: Any) -> None:
        if self.limit is not None:
            _torch.torch().cuda.set_per_process_memory_fraction(self.before)


def _clear() -> None:
    """As a fresh process would begin."""
    gc.collect()
    if _torch.cuda_started():
        _torch.torch().cuda.empty_cache()


def least_of(size: int, group: Any) -> int:
    """The least over all ranks."""
    torch = _torch.torch()
    device = "cuda" if torch.distributed.get_backend(group) == "nccl" else "cpu"
    told = torch.tensor([size], dtype=torch.int64, device=device)
    torch.distributed.all_reduce(told, op=torch.distributed.ReduceOp.MIN, group=group)
    return int(told.item())
