"""InputWatch: how long a loop waits for its input, at two readings of a clock a batch."""
from __future__ import annotations

import statistics
import time
from collections import deque
from dataclasses import dataclass
from typing import Any, Generic, Iterable, Iterator, TypeVar

from .. import _torch

T = TypeVar("T")
WAITED_S = 0.1e-3  # a shorter wait is the loader's own hand-over
BOUND = 0.10  # share of the time, from which on the input holds the loop back
_clock = time.perf_counter  # tests have another one
EVENT_EVERY = 32  # batches, of which one has events on the GPU: two cost 22 us


@dataclass(frozen=True)
class InputVerdict:
    """Shares of the loop's time after its first batch; None: not known.

    bound: "input" (the loop waits for it), "compute" (it does not), "start" (too little was seen).
    """

    bound: str
    batches: int
    input_share: float
    waited_batches_share: float
    median_wait_ms: float
    median_step_ms: float
    first_batch_ms: float
    gpu_idle_share: float | None
    queue_depth: float | None
    workers: int | None
    batches_per_s: float
    says: str

    def __str__(self) -> str:
        return self.says


class InputWatch(Generic[T]):
    """Iterates over a loader and measures; everything else of the loader is there as before (len, dataset, sampler, ...).

    device: a GPU whose idle time next to each wait is measured by events, in one batch of 32; None: the current one if CUDA
    is in use.  history: batches kept.  Costs about a microsecond a batch; nothing is synchronised.
    """

    def __init__(self, loader: Iterable[T], *, device: Any = None, history: int = 4096) -> None:
        self.loader, self.device = loader, device
        self.waits: deque[float] = deque(maxlen=history)
        self.works: deque[float] = deque(maxlen=history)
        self.depths: deque[int] = deque(maxlen=history)
        self.first_s: float | None = None
        self.batches = 0
        self._gaps: deque[tuple[Any, Any, float]] = deque(maxlen=64)
        self._idle: list[tuple[float, float]] = []
        self.gauge: Any = None

    def __repr__(self) -> str:
        return f"<InputWatch of {type(self.loader).__name__}: {self.batches} batches>"

    def __len__(self) -> int:
        return len(self.loader)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        if name == "loader":  # not set yet: being unpickled
            raise AttributeError(name)
        return getattr(self.loader, name)

    def __iter__(self) -> Iterator[T]:
        clock = _clock
        waits, works = self.waits.append, self.works.append
        began = clock()
        source = iter(self.loader)
        depth = depth_of(source)
        last: float | None = None
        try:
            while True:
                asked = clock()
                gauge = self.gauge
                if gauge is not None:
                    gauge.phase("data")
                if last is not None:
                    works(asked - last)
                if depth is not None:
                    self.depths.append(depth())
                events = self._before() if not self.batches % EVENT_EVERY else None
                try:
                    batch = next(source)
                except StopIteration:
                    return
                last = clock()
                if events is not None:
                    self._after(events, last - asked)
                if self.first_s is None or self.batches == 0:
                    self.first_s = last - began
                else:
                    waits(last - asked)
                self.batches += 1
                yield batch
        finally:
            close = getattr(source, "close", None)
            if close is not None and not hasattr(source, "_workers"):
                close()

    # ---- the GPU next to it ----

    def _before(self) -> Any:
        if not _torch.cuda_started():
            return None
        event = _torch.torch().cuda.Event(enable_timing=True)
        event.record()
        return event

    def _after(self, before: Any, waited: float) -> None:
        event = _torch.torch().cuda.Event(enable_timing=True)
        event.record()
        self._gaps.append((before, event, waited))
        while self._gaps and self._gaps[0][1].query():
            start, end, wait = self._gaps.popleft()
            self._idle.append((start.elapsed_time(end) / 1e3, wait))

    # ---- what it says ----

    def verdict(self) -> InputVerdict:
        """Whether the input holds the loop back, by how much, and what would help."""
        waits, works = list(self.waits), list(self.works)
        waited, worked = sum(waits), sum(works)
        total = waited + worked
        share = waited / total if total else 0.0
        often = sum(w > WAITED_S for w in waits) / len(waits) if waits else 0.0
        idle = self._gpu_idle_share(share)
        depth = statistics.fmean(self.depths) if self.depths else None
        seen = idle if idle is not None else share
        bound = "start" if len(waits) < 4 else "input" if seen > BOUND else "compute"
        workers = getattr(self.loader, "num_workers", None)
        rate = len(waits) / total if total else 0.0
        return InputVerdict(bound, self.batches, share, often, 1e3 * median(waits), 1e3 * median(works),
                            1e3 * (self.first_s or 0.0), idle, depth, workers, rate,
                            say(bound, share, idle, waits, works, workers, depth))

    def _gpu_idle_share(self, share: float) -> float | None:
        """Of the loop's time: a wait that the GPU spent working is none."""
        if not self._idle:
            return None
        waited = sum(wait for _, wait in self._idle)
        stood = sum(min(gap, wait) for gap, wait in self._idle)
        return share * stood / waited if waited else 0.0


def median(values: list[float]) -> float:
    return statistics.median(values) if values else 0.0


def depth_of(iterator: Any) -> Any:
    """A function that says how many batches are ready; None: not known.  Of PyTorch's loader with workers."""
    queue = getattr(iterator, "_data_queue", None)
    size = getattr(queue, "qsize", None)
    if size is None:
        return None
    try:
        size()
    except NotImplementedError:
        return None
    return size


def say(bound: str, share: float, idle: float | None, waits: list[float], works: list[float], workers: int | None,
        depth: float | None) -> str:
    if bound == "start":
        return "too few batches to tell what the loop waits for"
    wait, work = 1e3 * median(waits), 1e3 * median(works)
    if bound == "compute":
        text = f"not input-bound: {100 * share:.0f} % of the time is spent waiting for batches ({wait:.2f} ms of {wait + work:.1f} ms)"
        if idle is not None and share > BOUND:
            text += f"; meanwhile the GPU works (it stands still {100 * idle:.0f} %)"
        return text
    text = f"input-bound: {100 * (share if idle is None else idle):.0f} % of the time "
    text += "the loop waits for batches" if idle is None else "the GPU stands still because of the input"
    text += f" ({wait:.1f} ms of {wait + work:.1f} ms a batch)"
    if workers == 0:
        return text + "; batches are made in the loop itself: num_workers=0 (plimsoll.data.tune_loader measures how many help)"
    if workers and work > 0:
        # With w workers a batch comes every (wait + work) ms; for one every `work` ms it takes so many.
        need = -(-workers * (wait + work) // work)
        text += f"; {workers} workers make one batch in {wait + work:.1f} ms, the loop wants one in {work:.1f} ms: some {need:.0f} workers"
    if depth is not None and depth >= 1:
        text += f"; {depth:.1f} batches were ready on average: the hand-over is slow, not their making (pin_memory, large batches)"
    return text
