"""When memory is refused: the verdict on the exception, retries that work, the largest batch that fits.

    from plimsoll.oom import oom_guard, retry_on_oom, find_batch_size

    with oom_guard():                            # the verdict is added to the exception, which goes on
        train()

    done = retry_on_oom(step, size=64)           # smaller, outside of the except block, which holds every tensor
    best = find_batch_size(step, model=model, optimizer=optimizer)
"""
from __future__ import annotations

from ._find import BatchSize, find_batch_size
from ._guard import OutOfMemory, explain, is_oom, oom_guard
from ._retry import OomEvent, Restore, Retried, auto_batch_size, retry_on_oom

__all__ = ["oom_guard", "retry_on_oom", "auto_batch_size", "find_batch_size", "is_oom", "explain", "OutOfMemory", "OomEvent",
           "Retried", "Restore", "BatchSize"]
