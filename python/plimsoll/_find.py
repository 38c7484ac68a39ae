"""find_batch_size: few runs of a full step, a line through their peaks, one proof from each side."""
from __future__ import annotations

import gc
import math
from dataclasses import dataclass
from typing import Any, Callable

from . import _seed, _torch
from ._guard import is_oom
from ._owners import forget
from ._retry import Restore
from .errors import ArgumentError, PlimsollError, UnsupportedError


FAILURES = 3  # at most
LITTLE = 0.06  # of its memory that an allocator loses: what fits then lies near what the line told


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
    """What is known: sizes that fit, with their peaks, and the least that does not."""

    def __init__(self, multiple_of: int, max_size: int, limit: int | None) -> None:
        self.multiple, self.most, self.limit = multiple_of, max_size // multiple_of * multiple_of, limit
        self.fits: dict[int, int] = {}
        self.fails: int | None = None
        self.ooms = 0
        self.lost = 1.0  # reserved beyond what was allocated, of the largest that fits

    def best(self) -> int:
        return max(self.fits, default=0)

    def done(self) -> bool:
        best = self.best()
        return best >= self.most or self.fails is not None and self.fails - best <= self.multiple

    def grid(self, size: float) -> int:
        """The multiple at or below, between what fits and what does not."""
        top = self.most if self.fails is None else self.fails - self.multiple
        return int(max(self.best() + self.multiple, min(top, size // self.multiple * self.multiple)))

    def predicted(self) -> float | None:
        """The largest size whose peak is below the limit, by the line through the largest that fits and one of at most half its
        size: peaks are rounded, so neighbours tell little of the slope."""
        sizes = sorted(self.fits)
        if self.limit is None or len(sizes) < 2:
            return None
        b = sizes[-1]
        a = max([size for size in sizes if 2 * size <= b], default=sizes[0])
        slope = (self.fits[b] - self.fits[a]) / (b - a)
        return None if slope <= 0 else b + (self.limit - self.fits[b]) / slope

    def careful(self) -> int:
        """How far to go where the line does not help, so that three failures do: with two left as many steps up as the steps
        are long, with one left one by one.  Where little is lost most of the way, until it is short."""
        assert self.fails is not None
        gap = (self.fails - self.best()) // self.multiple
        if self.ooms >= FAILURES - 1:
            return 1
        if self.lost <= LITTLE and 8 * gap * self.multiple > self.fails:
            return max(1, 3 * gap // 4)
        return max(1, math.isqrt(2 * gap))

    def next(self, hint: int | None) -> int:
        best = self.best()
        if not best:
            return self.multiple
        if len(self.fits) == 1:
            # A plan is sure of its size: then the line through it and the first tells the rest.
            return self.grid(hint if hint and self.fails is None else 2 * best)
        told = self.predicted()
        if told is None:
            return self.grid(hint or 2 * best) if self.fails is None else self.grid((best + self.fails) / 2)
        if self.fails is not None and not (self.ooms < 2 and best + self.multiple <= told < self.fails):
            return self.grid(best + self.careful() * self.multiple)
        # Far from the largest that was seen a line is uncertain: fixed parts and rounding are still large.
        reach = 8 * best if self.ooms == 0 else told
        return self.grid(min(told, reach))


def find_batch_size(step: Callable[[int], object], *, max_size: int = 65536, multiple_of: int = 1, margin: float = 0.0,
                    model: Any = None, optimizer: Any = None, limit_bytes: int | None = None, plan: Any = None,
                    group: Any = None) -> BatchSize:
    """The largest batch size whose full step fits, exactly: it was run, and the next one failed.

    step(size): one whole step of training, with backward, optimizer and zero_grad.  margin: share of the memory that is to
    stay free (0: none).  model, optimizer: made bitwise as they were before (kept on the host meanwhile).  limit_bytes: memory
    PyTorch may take; None: all that is free.  plan: a plimsoll.plan(..., max_batch=True) to begin from; None: one of its own,
    where model is one of transformers that the planner knows.  It only says where to begin: fewer runs, the same answer.
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
        with trial.fraction(limit_bytes):
            trial.run(model, optimizer, getattr(plan, "max_batch", None))
    finally:
        state.restore()
        _clear()
    size = trial.search.best()
    if group is not None:
        size = least_of(size, None if group is True else group)
    return BatchSize(size, trial.search.done(), trial.runs, trial.search.ooms, trial.search.limit, trial.search.fits)


class Trial:
    def __init__(self, step: Callable[[int], object], memory: _torch.Memory, multiple_of: int, max_size: int,
                 limit_bytes: int | None, margin: float) -> None:
        self.step, self.memory, self.margin, self.runs = step, memory, margin, 0
        _clear()
        free = memory.free()
        limit = limit_bytes if limit_bytes is not None else free[0] + memory.numbers()[1] if free else None
        self.search = Search(multiple_of, max_size, None if limit is None else int(limit * (1 - margin)))

    def fraction(self, limit_bytes: int | None) -> Any:
        return _Fraction(self.memory, limit_bytes)

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
            if not self.one(size) and self.runs > 64:
                raise PlimsollError("no size was found in 64 runs: does step() use its argument?")

    def one(self, size: int) -> bool:
        """Run a step twice: the second has what the first leaves, as every step of a training run."""
        self.runs += 1
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
        if failed is None and (self.margin == 0 or search.limit is None or numbers[3] <= search.limit):
            if size >= search.best():
                search.lost = numbers[3] / max(1, numbers[2]) - 1
            search.fits[size] = numbers[2]
            return True
        search.fails = min(size, search.fails or size)
        search.ooms += failed is not None
        if failed is not None and size == search.multiple:
            raise failed
        return False


class _Fraction:
    """PyTorch's own limit for a while."""

    def __init__(self, memory: _torch.Memory, limit_bytes: int | None) -> None:
        self.memory, self.limit = memory, limit_bytes

    def __enter__(self) -> None:
        if self.limit is not None:
            free = self.memory.free()
            assert free is not None
            _torch.torch().cuda.set_per_process_memory_fraction(min(1.0, self.limit / free[1]))

    def __exit__(self, *rest: Any) -> None:
        if self.limit is not None:
            _torch.torch().cuda.set_per_process_memory_fraction(1.0)


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
