"""Plimsoll's allocator under PyTorch: less memory reserved for the same program (docs/allocator.md).

    import plimsoll
    plimsoll.allocator.use()                    # before the first CUDA call; learns what repeats
    plimsoll.allocator.use(plan="run.plan")     # begins with what `plimsoll whatif run.pickle --plan -o run.plan` wrote

`use` puts libplimsoll_alloc.so in the place of PyTorch's caching allocator for the whole process, and lets
torch.cuda.memory_stats, memory_snapshot and what is built on them read its counters, which PyTorch's own wrapper
refuses.  `plimsoll whatif run.pickle --plan` says beforehand what it would reserve.
"""
from __future__ import annotations

import ctypes
import os
import pickle
import sys
import sysconfig
import warnings
from typing import Any

from . import _torch
from .errors import UnsupportedError

_STATS = ("allocation", "segment", "active", "allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes")
_HALVES = ("all", "small_pool", "large_pool")
_COUNTS = ("current", "peak", "allocated", "freed")
_STATES = ("inactive", "active_allocated", "active_awaiting_free")
_ACTIONS = ("alloc", "free_requested", "free_completed", "segment_map", "segment_unmap", "oom")
_NO_LIMIT = 2**64 - 1

# setter of PyTorch's, by release -> our function; what a release does not have is left out
_HOOKS = (
    ("set_init_fn", "plimsoll_init"),
    ("set_reset_fn", "plimsoll_reset"),
    ("set_memory_fraction_fn", "plimsoll_fraction"),
    ("set_base_alloc_fn", "plimsoll_base"),
    ("set_record_stream_fn", "plimsoll_record_stream"),
    ("set_begin_allocate_to_pool", "plimsoll_begin"),
    ("set_end_allocate_to_pool_fn", "plimsoll_end"),
    ("set_release_pool", "plimsoll_release"),
)


class _Count(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in _COUNTS]


class _Stats(ctypes.Structure):
    _fields_ = [
        ("count", (_Count * 3) * len(_STATS)),
        *((name, ctypes.c_uint64) for name in (
            "retries", "ooms", "device_allocs", "device_frees", "moved_bytes", "limit_bytes", "plan_hits", "plan_misses",
            "plan_conflicts", "plan_lost", "plan_found", "plan_learned", "plan_hit_bytes")),
    ]


class _Piece(ctypes.Structure):
    _fields_ = [
        ("addr", ctypes.c_uint64), ("bytes", ctypes.c_uint64), ("requested_bytes", ctypes.c_uint64), ("stream", ctypes.c_uint64),
        ("segment", ctypes.c_uint32), ("state", ctypes.c_uint8), ("large", ctypes.c_uint8), ("planned", ctypes.c_uint8),
        ("pool", ctypes.c_uint8),
    ]


class _Event(ctypes.Structure):
    _fields_ = [
        ("addr", ctypes.c_uint64), ("bytes", ctypes.c_uint64), ("stream", ctypes.c_uint64), ("time_us", ctypes.c_uint64),
        ("action", ctypes.c_uint32), ("reserved", ctypes.c_uint32),
    ]


_library: ctypes.CDLL | None = None
_allocator: Any = None  # PyTorch's object; it must live as long as the process


def library_path() -> str:
    """Where libplimsoll_alloc.so is: $PLIMSOLL_ALLOC_LIBRARY, or beside the package as the wheel puts it.

    Raises UnsupportedError: it is nowhere.
    """
    chosen = os.environ.get("PLIMSOLL_ALLOC_LIBRARY")
    if chosen:
        return chosen
    here = os.path.dirname(os.path.abspath(__file__))
    roots = [os.path.dirname(here), sysconfig.get_path("platlib")]
    for root in roots:
        for folder in (".plimsoll_gpu.mesonpy.libs", ".plimsoll-gpu.mesonpy.libs"):
            path = os.path.join(root, folder, "libplimsoll_alloc.so")
            if os.path.exists(path):
                return path
    raise UnsupportedError("libplimsoll_alloc.so is not beside the package; set PLIMSOLL_ALLOC_LIBRARY to it")


def load(path: str | None = None) -> ctypes.CDLL:
    """The library, loaded once; nothing of PyTorch changes."""
    global _library
    if _library is None:
        library = ctypes.CDLL(path or library_path())
        library.plimsoll_alloc_plan.argtypes = [ctypes.c_char_p]
        library.plimsoll_alloc_plan.restype = ctypes.c_char_p
        library.plimsoll_alloc_throws.restype = ctypes.c_char_p
        library.plimsoll_alloc_fraction.restype = ctypes.c_double
        library.plimsoll_alloc_stats.argtypes = [ctypes.c_int, ctypes.POINTER(_Stats)]
        library.plimsoll_alloc_limit.argtypes = [ctypes.c_int, ctypes.c_uint64]
        library.plimsoll_alloc_record.argtypes = [ctypes.c_int, ctypes.c_size_t]
        library.plimsoll_alloc_pieces.argtypes = [ctypes.c_int, ctypes.POINTER(_Piece), ctypes.c_size_t]
        library.plimsoll_alloc_pieces.restype = ctypes.c_size_t
        library.plimsoll_alloc_events.argtypes = [ctypes.c_int, ctypes.POINTER(_Event), ctypes.c_size_t]
        library.plimsoll_alloc_events.restype = ctypes.c_size_t
        _library = library
    return _library


def _lib() -> ctypes.CDLL:
    if _library is None:
        raise RuntimeError("plimsoll.allocator.use() was not called")
    return _library


def _device(device: Any = None) -> int:
    torch = _torch.torch()

    index = torch.cuda._utils._get_device_index(device, optional=True)
    return int(index)


def in_use() -> bool:
    """Is it the allocator of this process?"""
    return _allocator is not None


def use(*, plan: str | os.PathLike[str] | None = None, limit_bytes: int | None = None, learn: bool = True,
        library: str | None = None) -> None:
    """Make it the allocator of this process; before anything is allocated on a GPU.

    plan: a file of `plimsoll whatif --plan -o`; without one it learns in the first steps.  limit_bytes: of device 0 (see
    `limit`).  learn: look for what repeats.  A plan that is damaged or of another version raises ValueError and nothing is
    changed; one of another program costs nothing but its reading.
    Raises RuntimeError where PyTorch's allocator already works, UnsupportedError where PyTorch has no pluggable allocators.
    """
    global _allocator
    torch = _torch.torch()

    if _allocator is not None:
        raise RuntimeError("plimsoll's allocator is already in use")
    if not hasattr(torch.cuda.memory, "CUDAPluggableAllocator"):
        raise UnsupportedError("this PyTorch has no pluggable allocators (2.0 and later have)")
    if torch.cuda.is_initialized():
        raise RuntimeError("CUDA is initialised already: call plimsoll.allocator.use() before the first CUDA call")
    lib = load(library)
    if plan is not None:
        why = lib.plimsoll_alloc_plan(os.fsencode(plan))
        if why:
            raise ValueError(f"{os.fspath(plan)}: {why.decode(errors='replace')}")
    if not learn:
        lib.plimsoll_alloc_learn(0)
    plugged = torch.cuda.memory.CUDAPluggableAllocator(lib._name, "plimsoll_malloc", "plimsoll_free")
    inner = plugged.allocator()
    for setter, name in _HOOKS:
        if hasattr(inner, setter):
            getattr(inner, setter)(ctypes.cast(getattr(lib, name), ctypes.c_void_p).value)
    torch.cuda.memory.change_current_allocator(plugged)
    _allocator = plugged
    if limit_bytes is not None:
        limit(limit_bytes)
    _answer(torch)


def limit(bytes_: int | None, device: int = 0) -> None:
    """Mapped memory of a device may not exceed this; None: as far as the card goes."""
    _lib().plimsoll_alloc_limit(device, _NO_LIMIT if bytes_ is None else bytes_)


def throws() -> str:
    """What is raised where memory is refused: torch.OutOfMemoryError, or RuntimeError in a PyTorch whose C++ names are not known."""
    return str(_lib().plimsoll_alloc_throws().decode())


# ---- what PyTorch asks ----

def _raw(device: Any = None) -> _Stats:
    stats = _Stats()
    _lib().plimsoll_alloc_stats(_device(device), ctypes.byref(stats))
    return stats


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """As torch.cuda.memory_stats_as_nested_dict, and `plan`: large requests that lay where a plan has them, and that did not."""
    raw = _raw(device)
    out: dict[str, Any] = {
        stat: {half: {c: int(getattr(raw.count[i][k], c)) for c in _COUNTS} for k, half in enumerate(_HALVES)}
        for i, stat in enumerate(_STATS)}
    none = dict.fromkeys(_COUNTS, 0)
    out["inactive_split"] = {half: dict(none) for half in _HALVES}
    out["inactive_split_bytes"] = {half: dict(none) for half in _HALVES}
    for half in _HALVES:
        now = out["reserved_bytes"][half]["current"] - out["active_bytes"][half]["current"]
        out["inactive_split_bytes"][half]["current"] = now
    out["oversize_allocations"] = dict(none)
    out["oversize_segments"] = dict(none)
    out.update(num_alloc_retries=raw.retries, num_ooms=raw.ooms, num_device_alloc=raw.device_allocs,
               num_device_free=raw.device_frees, num_sync_all_streams=0, max_split_size=-1)
    out["plan"] = {name: int(getattr(raw, "plan_" + name))
                   for name in ("hits", "hit_bytes", "misses", "conflicts", "lost", "found", "learned")}
    return out


def memory_stats(device: Any = None) -> dict[str, Any]:
    """As torch.cuda.memory_stats: flat names, sorted."""
    flat: dict[str, Any] = {}

    def walk(prefix: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(f"{prefix}.{key}" if prefix else key, inner)
        else:
            flat[prefix] = value

    walk("", memory_stats_as_nested_dict(device))
    return dict(sorted(flat.items()))


def reset_peak_memory_stats(device: Any = None) -> None:
    _lib().plimsoll_alloc_reset_peaks(_device(device))


def reset_accumulated_memory_stats(device: Any = None) -> None:
    _lib().plimsoll_alloc_reset_accumulated(_device(device))


def get_per_process_memory_fraction(device: Any = None) -> float:
    return float(_lib().plimsoll_alloc_fraction(_device(device)))


def _rows(call: Any, kind: Any, device: int) -> Any:
    n = call(device, None, 0)
    while True:
        rows = (kind * (n + 64))()
        got = call(device, rows, len(rows))
        if got <= len(rows):
            return rows[:got]
        n = got


def memory_snapshot(device: int = 0) -> list[dict[str, Any]]:
    """The mapped ranges of a device as PyTorch's segments, each with its blocks."""
    segments: list[dict[str, Any]] = []
    number = None
    for p in _rows(_lib().plimsoll_alloc_pieces, _Piece, device):
        if p.segment != number:
            number = p.segment
            segments.append({
                "device": device, "address": p.addr, "total_size": 0, "allocated_size": 0, "active_size": 0,
                "requested_size": 0, "stream": p.stream, "segment_type": "large" if p.large else "small",
                "segment_pool_id": (0, int(p.pool)), "is_expandable": True, "frames": [], "blocks": []})
        s = segments[-1]
        s["total_size"] += p.bytes
        s["allocated_size"] += p.bytes if p.state == 1 else 0
        s["active_size"] += p.bytes if p.state else 0
        s["requested_size"] += p.requested_bytes if p.state else 0
        s["blocks"].append({"address": p.addr, "size": p.bytes, "requested_size": p.requested_bytes, "state": _STATES[p.state],
                            "frames": []})
    return segments


def snapshot(device: int = 0) -> dict[str, Any]:
    """As torch.cuda.memory._snapshot: what `plimsoll report` and PyTorch's viewer open; no stacks."""
    trace = [{"action": _ACTIONS[e.action], "addr": e.addr, "size": e.bytes, "stream": e.stream, "time_us": e.time_us,
              "compile_context": "", "user_metadata": "", "frames": []}
             for e in _rows(_lib().plimsoll_alloc_events, _Event, device)]
    return {"segments": memory_snapshot(device), "device_traces": [[] for _ in range(device)] + [trace],
            "allocator_settings": {"expandable_segments": True, "PYTORCH_CUDA_ALLOC_CONF": "plimsoll"},
            "external_annotations": []}


def record(max_entries: int = 1_000_000, device: int = 0) -> None:
    """Keep the last events (32 MB of host memory a million); 0: none."""
    if not _lib().plimsoll_alloc_record(device, max_entries):
        raise MemoryError(f"no memory for {max_entries} events")


def dump_snapshot(filename: str | os.PathLike[str] = "dump_snapshot.pickle", device: int = 0) -> None:
    """As torch.cuda.memory._dump_snapshot."""
    with open(filename, "wb") as f:
        pickle.dump(snapshot(device), f)


def _record_memory_history(enabled: Any = "all", *args: Any, **kwargs: Any) -> None:
    record(0 if not enabled else min(int(kwargs.get("max_entries", 1_000_000)), 1 << 24))


def _answer(torch: Any) -> None:
    """What PyTorch's wrapper refuses under any pluggable allocator is answered here."""
    ours = {
        "memory_stats": memory_stats,
        "memory_stats_as_nested_dict": memory_stats_as_nested_dict,
        "reset_peak_memory_stats": reset_peak_memory_stats,
        "reset_accumulated_memory_stats": reset_accumulated_memory_stats,
        "get_per_process_memory_fraction": get_per_process_memory_fraction,
        "memory_snapshot": lambda mempool_id=None: memory_snapshot(_device()),
        "_snapshot": lambda device=None, *a, **k: snapshot(_device(device)),
        "_dump_snapshot": lambda filename="dump_snapshot.pickle", *a, **k: dump_snapshot(filename, _device()),
        "_record_memory_history": _record_memory_history,
    }
    for name, function in ours.items():
        for module in (torch.cuda.memory, torch.cuda):
            if hasattr(module, name):
                setattr(module, name, function)
    torch._C._cuda_attach_out_of_memory_observer = lambda observer: None
    _pin_benchmark(torch)


def _pin_benchmark(torch: Any) -> None:
    """cudnn.benchmark asks PyTorch's wrapper for cacheInfo, which throws under any pluggable allocator."""
    cudnn = torch.backends.cudnn
    kind = type(cudnn)
    if getattr(cudnn, "benchmark", False):
        cudnn.benchmark = False

    def set_benchmark(self: Any, value: bool) -> None:
        if value:
            warnings.warn("cudnn.benchmark stays off: PyTorch cannot run it under a pluggable allocator", stacklevel=2)

    if isinstance(getattr(kind, "benchmark", None), object) and "benchmark" in vars(kind):
        try:
            setattr(kind, "benchmark", property(lambda self: False, set_benchmark))
        except (AttributeError, TypeError):
            print("plimsoll: cudnn.benchmark must stay off under this allocator", file=sys.stderr)
