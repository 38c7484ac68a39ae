"""The ranks of a job: what each of them gives, for all of them to decide by.

They talk over a group of gloo's: a rank whose GPU is full can use it, and it ends in an error, which names the rank, as soon as
one ends.  Calls have to be the same, in the same order, on all of them.
"""
from __future__ import annotations

import contextlib
import functools
import os
import sys
import time
from typing import Any, Callable, Iterator, NoReturn

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


@contextlib.contextmanager
def _together() -> Iterator[tuple[Any, Any]]:
    """(torch.distributed, the group of gloo's); a rank that has ended ends this one."""
    distributed = _distributed()
    job = distributed.group.WORLD
    try:
        if job not in _groups:
            _groups[job] = distributed.new_group(backend="gloo")
        yield distributed, _groups[job]
    except RuntimeError as error:
        sys.stderr.write(f"plimsoll fit: a rank has ended, so rank {number()} ends, too: {error}\n")
        time.sleep(WAIT_S)
        os._exit(EXIT)


def everyone(value: Any) -> list[Any]:
    """What each rank gives, by number."""
    if count() == 1:
        return [value]
    values = [None] * count()
    with _together() as (distributed, group):
        distributed.monitored_barrier(group, wait_all_ranks=True)
        distributed.all_gather_object(values, value, group=group)
    return values


def even(model: Any, parts: list[tuple[Any, float]]) -> list[tuple[Any, float]]:
    """The parts of a batch with their shares, as many on each rank if passes wait for all ranks (FSDP2): the first one again, without a share."""
    if count() == 1 or not is_sharded(model):
        return parts
    import torch
    most = torch.tensor(len(parts))
    with _together() as (distributed, group):
        distributed.all_reduce(most, distributed.ReduceOp.MAX, group=group)
    return [(parts[0][0], 0.0)] * (int(most) - len(parts)) + parts


def is_sharded(model: Any) -> bool:
    """Is it FSDP2's?  Each of its passes waits for all ranks, so a rank that runs out of memory has to end."""
    kind = getattr(sys.modules.get("torch.distributed.fsdp"), "FSDPModule", None)
    return kind is not None and isinstance(model, kind)


def alone(model: Any) -> Any:
    """The model of this rank under DDP: its passes wait for no other rank.  FSDP2's is the model itself."""
    return model if count() == 1 or is_sharded(model) else model.module


@contextlib.contextmanager
def synced(model: Any) -> Iterator[None]:
    """Gradients are added up over the ranks, also in a step that the script only accumulates in."""
    if is_sharded(model):  # has no way to ask how it was; a probe does not go on with the script's steps
        model.set_requires_gradient_sync(True)
        yield
        return
    kept, model.require_backward_grad_sync = model.require_backward_grad_sync, True
    try:
        yield
    finally:
        model.require_backward_grad_sync = kept


def local(tensor: Any) -> Any:
    """What this rank has of a tensor that is sharded."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


_in_fp32: list[Any] = []  # what was sharded so


def shard_in_fp32(fsdp: Any) -> None:
    """torch.distributed.fsdp: from now on fully_shard computes and adds up in the precision of the weights, whatever is asked for, as gradients are to be compared."""
    own = getattr(fsdp, "fully_shard", None)
    if own is None:
        return

    @functools.wraps(own)
    def fully_shard(module: Any, **named: Any) -> Any:
        made = own(module, **{**named, "mp_policy": fsdp.MixedPrecisionPolicy()})
        _in_fp32.extend(module if isinstance(module, list) else [module])
        return made

    fsdp.fully_shard = fully_shard


def is_in_fp32(model: Any) -> bool:
    """Was all that is sharded of it sharded by shard_in_fp32()?"""
    return all(any(module is one for one in _in_fp32) for module in model.modules() if is_sharded(module))


def unsynced(model: Any) -> Callable[[], contextlib.AbstractContextManager[None]]:
    """Around a part that is not the batch's last: DDP adds up over the ranks what the last one completes."""
    return getattr(model, "no_sync", contextlib.nullcontext)


def refusal(accelerator: Any, model: Any) -> str | None:
    """Why this is neither one process nor DDP or FSDP2 over all ranks; None: it is one of them."""
    from torch.nn.parallel import DataParallel, DistributedDataParallel
    ranks, kind = count(), str(accelerator.distributed_type.value)
    if is_sharded(model):
        for module in filter(is_sharded, model.modules()):
            module.reshard()  # parameters are those of the optimizer then
        sizes = {tuple(p.device_mesh.shape) for p in model.parameters() if hasattr(p, "device_mesh")} - {(ranks,)}
        if sizes:
            return f"its FSDP2 is over {' x '.join(map(str, sizes.pop()))} of {ranks} ranks; one group of all of them is what is known here: {WAY_OUT}"
    elif isinstance(model, DistributedDataParallel):
        group: Any = model.process_group
        if group.size() != ranks:
            return f"its DDP is over {group.size()} of {ranks} ranks, so the others split the model: {WAY_OUT}"
    elif ranks == 1 and kind == "NO" and not isinstance(model, DataParallel):
        return None
    else:
        return f"it trains a {type(model).__name__} under {kind}, {ranks} processes; one GPU, DDP and FSDP2 are what is known here: {WAY_OUT}"
    if int(os.environ.get("LOCAL_WORLD_SIZE", ranks)) != ranks:
        return f"its ranks run on several machines; one is what is known here: {WAY_OUT}"
    if any(p.requires_grad and p.element_size() < 4 for p in model.parameters()):
        return "its ranks add up gradients in the 16 bits of its weights, so fp32 proves nothing: keep weights in fp32, with autocast (bf16=True)"
    return None
