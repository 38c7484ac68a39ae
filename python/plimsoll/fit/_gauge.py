"""The GPU as a probe reads it: peaks of PyTorch's allocator, and seconds.  A test puts another one in its place."""
from __future__ import annotations

import gc
import time
from typing import Any

from ._ranks import local


class Gauge:
    """Of the current CUDA device."""

    def __init__(self) -> None:
        self.limit_bytes: int | None = None
        self._retries = 0

    def is_used_by(self, model: Any) -> bool:
        import torch
        return bool(torch.cuda.is_initialized() and next(model.parameters()).is_cuda)

    def hold(self, limit_bytes: int | None) -> None:
        """PyTorch takes no more than this of the GPU; None: all of it."""
        import torch
        total = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
        self.limit_bytes = min(limit_bytes or total, total)
        if limit_bytes:
            torch.cuda.set_per_process_memory_fraction(min(1.0, limit_bytes / total))

    def begin(self) -> None:
        """What an earlier step left is given back."""
        import torch
        gc.collect()
        torch.cuda.empty_cache()
        self._retries = torch.cuda.memory_stats().get("num_alloc_retries", 0)
        torch.cuda.reset_peak_memory_stats()

    def reset(self) -> None:
        """Peaks count from here on."""
        import torch
        torch.cuda.reset_peak_memory_stats()

    def seconds(self) -> float:
        """A clock, once the GPU has done what it was given."""
        import torch
        torch.cuda.synchronize()
        return time.perf_counter()

    def peak(self) -> tuple[int, int, int]:
        """(allocated bytes, reserved bytes, retries of the allocator), since begin() and reset()."""
        import torch
        stats = torch.cuda.memory_stats()
        return stats["allocated_bytes.all.peak"], stats["reserved_bytes.all.peak"], stats.get("num_alloc_retries", 0) - self._retries

    def gradients(self, model: Any) -> int:
        """Bytes of those that are there."""
        return sum(grad.numel() * grad.element_size() for grad in (local(p.grad) for p in model.parameters() if p.grad is not None))

    def device(self) -> dict[str, Any]:
        """What a result holds for."""
        import torch
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        return {"gpu": properties.name, "gpu_bytes": properties.total_memory}


def highest(a: tuple[int, int, int], b: tuple[int, int, int]) -> tuple[int, int, int]:
    """Of two peaks: a step may need more than the one after it."""
    return max(a[0], b[0]), max(a[1], b[1]), max(a[2], b[2])


gauge = Gauge()
