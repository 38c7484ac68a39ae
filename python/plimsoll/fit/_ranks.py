"""The ranks of a job: what each of them gives, for all of them to decide by.

They talk over a group of gloo's: a rank whose GPU is full can use it, and it ends in an error, which names the rank, as soon as
one ends.  Calls have to be the same, in the same order, on all of them.
"""
from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import Any, Callable, NoReturn

EXIT = 4  # of a job that stops because it cannot be cut as was asked
WAY_OUT = "paste what `plimsoll plan config.json --for TOOL` prints for it"
WAIT_S = 5.0  # for the launcher: it ends this rank, and names the one that ended first
_groups: dict[Any, Any] = {}  # by the job's own group


def stop(why: str) -> NoReturn:
    """One line, and the end of the process.  A launcher ends the other ranks then."""
    sys.stderr.write(f"plimsoll fit: {why}\n")
    sys.stderr.flush()
    os._exit(EXIT)


def _distributed() -> Any:
    import torch.distributed as distributed
    return distributed if distributed.is_available() and distributed.is_initialized() else None


def count() -> int:
    distributed = _distributed()
    return int(distributed.get_world_size()) if distributed else 1


def number() -> int:
    """Of this rank, from 0 on."""
    distributed = _distributed()
    return int(distributed.get_rank()) if distributed else 0


def everyone(value: Any) -> list[Any]:
    """What each rank gives, by number."""
    if count() == 1:
        return [value]
    distributed = _distributed()
    job, values = distributed.group.WORLD, [None] * count()
    try:
        if job not in _groups:
            _groups[job] = distributed.new_group(backend="gloo")
        distributed.monitored_barrier(_groups[job], wait_all_ranks=True)
        distributed.all_gather_object(values, value, group=_groups[job])
    except RuntimeError as error:
        sys.stderr.write(f"plimsoll fit: a rank has ended, so rank {number()} ends, too: {error}\n")
        time.sleep(WAIT_S)
        os._exit(EXIT)
    return values


def unsynced(model: Any) -> Callable[[], contextlib.AbstractContextManager[None]]:
    """Around a part that is not the batch's last: DDP adds up over the ranks what the last one completes."""
    return getattr(model, "no_sync", contextlib.nullcontext)


def refusal(accelerator: Any, model: Any) -> str | None:
    """Why this is neither one process nor DDP over all ranks; None: it is one of them."""
    from torch.nn.parallel import DataParallel, DistributedDataParallel
    ranks, kind = count(), str(accelerator.distributed_type.value)
    if not isinstance(model, DistributedDataParallel):
        if ranks == 1 and kind == "NO" and not isinstance(model, DataParallel):
            return None
        return f"it trains a {type(model).__name__} under {kind}, {ranks} processes; one GPU and DDP are what is known here: {WAY_OUT}"
    group: Any = model.process_group
    if group.size() != ranks:
        return f"its DDP is over {group.size()} of {ranks} ranks, so the others split the model: {WAY_OUT}"
    if int(os.environ.get("LOCAL_WORLD_SIZE", ranks)) != ranks:
        return f"its ranks run on several machines; one is what is known here: {WAY_OUT}"
    if any(p.requires_grad and p.element_size() < 4 for p in model.parameters()):
        return "DDP adds up gradients in the 16 bits of its weights, so fp32 proves nothing: keep weights in fp32, with autocast (bf16=True)"
    return None
