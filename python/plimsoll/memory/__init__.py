"""Watching the GPU memory of this process, and recording it.

    from plimsoll.memory import MemoryMonitor, Recorder

    monitor = MemoryMonitor()
    with monitor.track("forward") as use:       # the peak inside, without a synchronisation
        loss = model(batch).loss
    print(use.peak_allocated_bytes)

    with Recorder("recordings") as recorder:    # PyTorch's memory history; dumped when memory is refused
        train()

Nothing here synchronises the GPU: the allocator's numbers are the host's.  Every class takes part in `with`, has close(),
and is inert in a forked child: what belongs to the parent stays as it is.
"""
from __future__ import annotations

from ._monitor import Leak, MemoryMonitor, MemorySummary, MemoryUse, PhaseSummary
from ._owners import Owner, Owners, Released, by_owner, free_last_exception, release
from ._recorder import Recorder
from ._saved import ActivationUse, SavedTensor, saved_activations

__all__ = ["MemoryMonitor", "MemoryUse", "MemorySummary", "PhaseSummary", "Leak", "Recorder", "saved_activations",
           "ActivationUse", "SavedTensor", "by_owner", "Owner", "Owners", "release", "Released", "free_last_exception"]
