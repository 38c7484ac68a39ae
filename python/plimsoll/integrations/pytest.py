"""A memory budget as a test: def test_step(gpu_memory): with gpu_memory.peak_below("3 GiB"): step()."""
from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Iterator

import pytest

from .._monitor import MemoryMonitor, MemoryUse, gib
from ..verbs import to_bytes


class GpuMemory:
    """What the fixture gives; bytes or sizes like "3 GiB"."""

    def __init__(self, device: Any = None) -> None:
        self.monitor = MemoryMonitor(device)

    @contextmanager
    def peak_below(self, limit: int | str, *, above_start: bool = False) -> Iterator[MemoryUse]:
        """The test fails if more was allocated inside at any moment.  above_start: of what was not there before."""
        most = to_bytes(limit, "peak_below")
        before = self.monitor.memory.numbers()[0] if above_start else 0
        with self.monitor.track("test") as use:
            yield use
        peak = use.peak_allocated_bytes - before
        if peak > most:
            pytest.fail(f"the peak was {gib(peak)} ({peak:,} bytes), {gib(peak - most)} above the budget of {gib(most)}",
                        pytrace=False)

    @contextmanager
    def no_leak(self, slack: int | str = 0) -> Iterator[None]:
        """The test fails if more is allocated after the block than before it."""
        before = self.monitor.memory.numbers()[0]
        yield
        left = self.monitor.memory.numbers()[0] - before
        if left > to_bytes(slack, "slack"):
            pytest.fail(f"{gib(left)} ({left:,} bytes) more is allocated than before", pytrace=False)


@pytest.fixture  # type: ignore[untyped-decorator,unused-ignore]
def gpu_memory() -> GpuMemory:
    """The current GPU's memory; the test is skipped where PyTorch sees none."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU: gpu_memory has nothing to measure")
    return GpuMemory()
