"""Several GPUs: rank 0 of a job whose other ranks no one is.

A fake process group answers at once; streams and events are stand-ins, so all lies in one order, as the host asks for it.
DDP's reducer, which is C++ and reads values, has its requests made here: buckets that stay, made anew in the order of gradients
when the second forward pass begins.  FSDP2 is Python and runs itself; its storages are resized, which no dispatch shows.
"""
from __future__ import annotations

import contextlib
import importlib
import os
from typing import Any, Callable, Iterator, Sequence

import torch

from .engine import Recorder

__all__ = ["check", "job", "patches", "shard"]

GPU = torch.device("cuda", 0)


class Stream:
    """One that is always done."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.cuda_stream = self.stream_id = 0
        self.device = GPU

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def record_event(self, event: Any = None) -> Any:
        return event or Event()

    def query(self) -> bool:
        return True

    def wait_event(self, _: Any) -> None:
        pass

    wait_stream = wait_event

    def synchronize(self) -> None:
        pass


class Event:
    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def record(self, *_: Any) -> Event:
        return self

    def query(self) -> bool:
        return True

    def elapsed_time(self, _: Any) -> float:
        return 1.0

    def wait(self, *_: Any) -> None:
        pass

    synchronize = wait


def _resize(r: Recorder) -> Callable[..., Any]:
    plain = torch.UntypedStorage.resize_

    def resize(self: Any, size: int) -> Any:
        """A storage that is emptied and filled again, as sharded parameters are."""
        gpu = self._cdata in r.requests or self._cdata in r.emptied
        request = r.requests.pop(self._cdata, None)
        if request is not None:
            r.death(request)
            r.emptied.add(self._cdata)
        plain(self, size)
        if size and gpu:
            r.emptied.discard(self._cdata)
            r.take_storage(self, "resize_")
        return self
    return resize


class Reducer:
    """torch.distributed.Reducer as far as it takes memory."""

    def __init__(self, parameters: Sequence[torch.Tensor], buckets: Sequence[Sequence[int]], limits: Sequence[int], group: Any,
                 expect_sparse: Any = None, bytes_cap: int = 25 << 20, find_unused: bool = False, views: bool = False,
                 names: Any = None, first_cap: int = 1 << 20, *_: Any) -> None:
        self.parameters, self.views, self.caps = list(parameters), views, (first_cap, bytes_cap)
        self.static = find_unused  # then they are never made anew
        self.order: list[int] = []
        self.active = self.rebuilt = False
        self.replaced: list[torch.Tensor] = []  # buckets that NCCL's process group still holds,
        self.holds = 0                          # for so many more passes
        self.make([list(b) for b in buckets])
        for i, p in enumerate(self.parameters):
            hooked: Any = p
            hooked.register_post_accumulate_grad_hook(self.ready(i))

    def make(self, buckets: list[list[int]]) -> None:
        self.flat: list[torch.Tensor] = []
        self.view: dict[int, torch.Tensor] = {}
        for bucket in buckets:
            like = self.parameters[bucket[0]]
            with torch.no_grad():
                flat = torch.empty(sum(self.parameters[i].numel() for i in bucket), dtype=like.dtype, device=GPU)
                at = 0
                for i in bucket:
                    p = self.parameters[i]
                    self.view[i] = flat[at:at + p.numel()].view(p.shape)
                    at += p.numel()
            self.flat.append(flat)

    def ready(self, i: int) -> Callable[[torch.Tensor], None]:
        def run(p: torch.Tensor) -> None:
            if not self.active or p.grad is None:
                return
            if not self.rebuilt:
                self.order.append(i)
            if self.views:
                p.grad = self.view[i]
        return run

    def _rebuild_buckets(self) -> bool:
        if self.rebuilt or self.static or len(self.order) < len(self.parameters):
            return False
        self.rebuilt = True
        buckets: list[list[int]] = [[]]
        size, cap = 0, self.caps[0]
        for i in self.order:
            p = self.parameters[i]
            buckets[-1].append(i)
            size += p.numel() * p.element_size()
            if size >= cap:
                buckets.append([])
                size, cap = 0, self.caps[1]
        grads = {i: p.grad for i, p in enumerate(self.parameters) if self.views and p.grad is not None}
        # What was reduced is let go of when another reduction begins after NCCL's watchdog has looked, every 100 ms: with
        # short steps that is the pass after the next (measured, H200, PyTorch 2.11).
        self.replaced, self.flat, self.view = self.flat, [], {}
        self.holds = 2
        self.make([b for b in buckets if b])
        for i in grads:
            self.parameters[i].grad = self.view[i]
        return True

    def prepare_for_forward(self) -> None:
        pass

    def prepare_for_backward(self, _: Any) -> None:
        self.active = True
        self.holds -= 1
        if self.holds <= 0:
            self.replaced = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *a, **k: None


class Logger:
    def __init__(self, *_: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *a, **k: None


def _assign(parameters: Sequence[torch.Tensor], limits: Sequence[int], *_: Any) -> tuple[list[list[int]], list[int]]:
    """compute_bucket_assignment_by_size: the first limit first, the last one for all others; a bucket is of one dtype."""
    buckets: list[list[int]] = []
    sizes: dict[Any, tuple[list[int], int, int]] = {}
    used: list[int] = []
    for i, p in enumerate(parameters):
        bucket, size, at = sizes.get(p.dtype, ([], 0, 0))
        bucket.append(i)
        size += p.numel() * p.element_size()
        if size >= limits[at]:
            buckets.append(bucket)
            used.append(limits[at])
            bucket, size, at = [], 0, min(at + 1, len(limits) - 1)
        sizes[p.dtype] = (bucket, size, at)
    for bucket, _size, at in sizes.values():
        if bucket:
            buckets.append(bucket)
            used.append(limits[at])
    order = sorted(range(len(buckets)), key=lambda n: min(buckets[n]))
    return [buckets[n] for n in order], [used[n] for n in order]


def _broadcast(r: Recorder) -> Callable[..., None]:
    def run(group: Any, tensors: Sequence[torch.Tensor], size: int, *_: Any) -> None:
        """Flat copies of 250 MiB at most, two at a time."""
        flat, held = 0, []
        for t in tensors:
            flat += t.numel() * t.element_size()
            if flat >= size:
                held.append(flat)
                flat = 0
        r.touch((held + [flat] if flat else held)[:2], "broadcast_coalesced")
    return run


def _for_real(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Of meshes, whose ranks are numbers that are read: small tensors of the host, no fake ones."""
    from torch.utils._python_dispatch import _disable_current_modes

    def run(*args: Any, **kwargs: Any) -> Any:
        with _disable_current_modes(), torch._C.DisableTorchFunction():
            return plain(*args, **kwargs)
    return run


# What would be traced wrong: its shards are emptied and filled, or sent, where no dispatch shows it.
NEXT = "plimsoll plan CONFIG --gpus {size} {option} plans it from tables, without the script"
REFUSED: tuple[tuple[str, str, str, str], ...] = (
    ("torch.distributed.fsdp", "FullyShardedDataParallel", "FSDP1 is not traced: fully_shard of FSDP2 is; or ", "--parallel fsdp1"),
    ("torch.distributed.tensor.parallel", "parallelize_module", "tensor parallelism is not traced: ", "--tp {size}"),
    ("torch.distributed.pipelining", "PipelineStage", "pipeline parallelism is not traced: ", "--pp {size}"),
)


def _refusing(text: str) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise ValueError(text)
    return refuse


def _refusals() -> list[tuple[Any, str, Any]]:
    """In a job of several ranks; of one alone nothing is shared."""
    size, found = int(os.environ.get("WORLD_SIZE", "1")), list[tuple[Any, str, Any]]()
    for module, name, text, option in REFUSED if size > 1 else ():
        try:
            owner = importlib.import_module(module)
        except ImportError:  # a release that has it not
            continue
        thing: Any = getattr(owner, name, None)
        refuse = _refusing(text + NEXT.format(size=size, option=option.format(size=size)))
        if thing is not None:
            found.append((thing, "__init__", refuse) if isinstance(thing, type) else (owner, name, refuse))
    return found


def patches(r: Recorder) -> list[tuple[Any, str, Any]]:
    """What stands in for streams, and where there is torch.distributed for its C++."""
    cuda: Any = torch.cuda
    one = Stream()
    found: list[tuple[Any, str, Any]] = [
        (cuda, "Stream", Stream), (cuda, "Event", Event), (cuda, "current_stream", lambda *a, **k: one),
        (cuda, "default_stream", lambda *a, **k: one), (cuda, "stream", lambda stream, *a, **k: stream or one), (cuda, "set_stream", lambda *a: None),
        (torch.UntypedStorage, "resize_", _resize(r)), (torch.Tensor, "record_stream", lambda self, s: None),
    ]
    if not torch.distributed.is_available():
        return found
    distributed: Any = torch.distributed
    parallel: Any = importlib.import_module("torch.nn.parallel.distributed")
    nothing = lambda *a, **k: None  # noqa: E731
    meshes: Any = importlib.import_module("torch.distributed.device_mesh")
    mesh, made = meshes.DeviceMesh, _for_real(meshes.init_device_mesh)
    found += [(meshes, "init_device_mesh", made), (distributed, "init_device_mesh", made)]
    found += [(mesh, name, _for_real(getattr(mesh, name))) for name in ("__init__", "__getitem__", "_flatten", "_unflatten") if name in vars(mesh)]
    return [*found, *_refusals(), (distributed, "init_process_group", _begin(distributed.init_process_group)), (distributed, "Reducer", Reducer), (distributed, "Logger", Logger),
            (distributed, "_compute_bucket_assignment_by_size", _assign), (distributed, "_broadcast_coalesced", _broadcast(r)),
            (parallel, "_verify_param_shape_across_processes", nothing), (distributed, "barrier", nothing),
            (distributed, "destroy_process_group", nothing)]


def _begin(plain: Callable[..., None]) -> Callable[..., None]:
    def begin(*_: Any, **given: Any) -> None:
        """init_process_group, whatever the backend."""
        if torch.distributed.is_initialized():
            return
        fakes: Any = importlib.import_module("torch.testing._internal.distributed.fake_pg")
        importlib.import_module("torch.distributed._tools.fake_collectives")  # what they give of fake tensors
        size = int(given.get("world_size") or 0)
        plain(backend="fake", store=fakes.FakeStore(), rank=0, world_size=size if size > 1 else int(os.environ.get("WORLD_SIZE", "1")))
    return begin


@contextlib.contextmanager
def job(size: int, launched: bool = False) -> Iterator[None]:
    """A job of so many ranks, this one the first, as its launcher says it (also to one alone)."""
    words = {"WORLD_SIZE": str(size), "RANK": "0", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": str(size), "MASTER_ADDR": "localhost",
             "MASTER_PORT": "29500"}
    before = {name: os.environ.get(name) for name in words}
    if size > 1 or launched:
        os.environ.update(words)
    try:
        yield
    finally:
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _blocks(model: Any) -> list[torch.nn.Module]:
    names = set(getattr(model, "_no_split_modules", None) or [])
    return [m for m in model.modules() if type(m).__name__ in names]


def check(how: str, size: int) -> None:
    """Before a model is made: a way of sharing that is not traced names the one that plans it."""
    if how not in ("ddp", "fsdp2", "fsdp2-zero2"):
        raise ValueError(f"--parallel {how} is not traced; known are ddp, fsdp2 and fsdp2-zero2 (fully_shard). From tables, without --trace: "
                         f"plimsoll plan CONFIG --gpus {size} --parallel {how}")


def shard(model: Any, how: str, mixed: torch.dtype | None) -> Any:
    """The model as `--parallel` says: whole in DDP, or each block and the rest sharded."""
    check(how, int(os.environ.get("WORLD_SIZE", "1")))
    torch.distributed.init_process_group()
    if how == "ddp":
        return torch.nn.parallel.DistributedDataParallel(model, device_ids=[0])
    fsdp: Any = importlib.import_module("torch.distributed.fsdp")
    mesh = importlib.import_module("torch.distributed.device_mesh").init_device_mesh("cuda", (torch.distributed.get_world_size(),))
    policy = fsdp.MixedPrecisionPolicy(param_dtype=mixed) if mixed else fsdp.MixedPrecisionPolicy()
    for block in _blocks(model):
        fsdp.fully_shard(block, mesh=mesh, mp_policy=policy, reshard_after_forward=how == "fsdp2")
    fsdp.fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=how == "fsdp2")
    return model
