"""Plimsoll's allocator under PyTorch: less memory reserved for the same program (docs/allocator.md).

    import plimsoll
    plimsoll.allocator.use()                    # before the first CUDA call; learns what repeats
    plimsoll.allocator.use(plan="run.plan")     # begins with what `plimsoll whatif run.pickle --plan -o run.plan` wrote

`use` puts libplimsoll_alloc.so in the place of PyTorch's caching allocator for the whole process, and lets
torch.cuda.memory_stats, memory_snapshot and what is built on them read its counters, which PyTorch's own wrapper
refuses.  `plimsoll whatif run.pickle --plan` says beforehand what it would reserve.
"""
from __future__ import annotations

import atexit
import ctypes
import os
import sysconfig
import warnings
from typing import Any, Callable

from . import _torch
from .errors import UnsupportedError

_STATS = ("allocation", "segment", "active", "allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes")
_HALVES = ("all", "small_pool", "large_pool")
_COUNTS = ("current", "peak", "allocated", "freed")
_STATES = ("inactive", "active_allocated", "active_pending_free")
_ACTIONS = ("alloc", "free_requested", "free_completed", "segment_map", "segment_unmap", "oom")
_NO_LIMIT = 2**64 - 1
_ENTRIES_MAX = 1 << 24
_BOUND = 32 << 20  # that it may reserve more than expandable segments while moves are quick

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
    ("set_begin_allocate_stream_to_pool", "plimsoll_begin_stream"),  # 2.1 and 2.2
    ("set_end_allocate_stream_to_pool_fn", "plimsoll_end_stream"),
    ("set_capture_begin_fn", "plimsoll_capture_begin"),  # 2.0
    ("set_capture_ended_fn", "plimsoll_capture_end"),
    ("set_capture_destroy_fn", "plimsoll_release"),
)


# struct plimsoll_alloc_stats: counts by statistic, half and _COUNTS; then these
_AFTER = ("retries", "ooms", "device_allocs", "device_frees", "moved_bytes", "limit_bytes", "plan_hits", "plan_misses",
          "plan_conflicts", "plan_lost", "plan_found", "plan_learned", "plan_hit_bytes", "reserved_most_bytes",
          "expandable_most_bytes", "moved_ns")
_WORDS = len(_STATS) * len(_HALVES) * len(_COUNTS) + len(_AFTER)
_Words = ctypes.c_uint64 * _WORDS


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


# What PyTorch's wrapper refuses under any pluggable allocator, and the way round it.
REFUSED = (
    ("torch.backends.cudnn.benchmark = True", "it is kept off"),
    ('torch.compile(mode="reduce-overhead")', "torch._inductor.config.triton.cudagraph_trees = False"),
    ("torch.cuda.MemPool, symmetric memory, registered NCCL pools", "none"),
    ("CUDA tensors through a queue of torch.multiprocessing", "send them through host memory"),
)

_Observer = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64)
_library: ctypes.CDLL | None = None
_allocator: Any = None  # PyTorch's object; it must live as long as the process
_recording = False


def library_path() -> str:
    """Where libplimsoll_alloc.so is: $PLIMSOLL_ALLOC_LIBRARY, or next to the package as the wheel puts it.

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
    raise UnsupportedError("libplimsoll_alloc.so is not next to the package; set PLIMSOLL_ALLOC_LIBRARY to it")


def load(path: str | None = None) -> ctypes.CDLL:
    """The library, loaded once; nothing of PyTorch changes."""
    global _library
    if _library is None:
        library = ctypes.CDLL(path or library_path())
        library.plimsoll_alloc_plan.argtypes = [ctypes.c_char_p]
        library.plimsoll_alloc_plan.restype = ctypes.c_char_p
        library.plimsoll_alloc_throws.restype = ctypes.c_char_p
        library.plimsoll_alloc_fraction.restype = ctypes.c_double
        library.plimsoll_alloc_stats.argtypes = [ctypes.c_int, ctypes.POINTER(ctypes.c_uint64)]
        library.plimsoll_alloc_dump.argtypes = [ctypes.c_char_p]
        library.plimsoll_alloc_dump.restype = ctypes.c_char_p
        library.plimsoll_alloc_observe.argtypes = [_Observer]
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
    atexit.register(_say_what_it_was_worth, torch.cuda.device_count())


def limit(bytes_: int | None, device: int = 0) -> None:
    """Mapped memory of a device may not exceed this; None: as far as the GPU goes."""
    _lib().plimsoll_alloc_limit(device, _NO_LIMIT if bytes_ is None else bytes_)


def throws() -> str:
    """What is raised where memory is refused: torch.OutOfMemoryError, or RuntimeError in a PyTorch whose C++ names are not known."""
    return str(_lib().plimsoll_alloc_throws().decode())


def _worth(device: int) -> str | None:
    """What was reserved at most, compared with expandable segments; None for a device that was not used."""
    now = dict(zip(_AFTER, list(_raw(device))[-len(_AFTER):]))
    reserved, expandable = now["reserved_most_bytes"], now["expandable_most_bytes"]
    if not expandable:
        return None
    over = reserved - expandable
    text = f"{reserved / 2**30:.2f} GiB reserved at most, {abs(over) / 2**30:.2f} {'less' if over <= 0 else 'more'} than with expandable segments"
    text += f"; moving memory took {now['moved_ns'] / 1e9:.1f} s"
    return text + (", all that it may take" if over > _BOUND else "")


def _say_what_it_was_worth(devices: int) -> None:
    for device in range(devices):
        text = _worth(device)
        if text:
            _torch.logger.warning("plimsoll.allocator, GPU %d: %s", device, text)


# ---- what PyTorch asks ----

def _raw(device: int) -> ctypes.Array[ctypes.c_uint64]:
    """struct plimsoll_alloc_stats: zeros for a device that was not used."""
    words = _Words()
    _lib().plimsoll_alloc_stats(device, words)
    return words


def numbers(device: int) -> _torch.Numbers:
    """What a reading of a MemoryMonitor needs, and no more."""
    raw = _raw(device)
    return raw[36], raw[48], raw[37], raw[49], raw[84], raw[85]


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """As torch.cuda.memory_stats_as_nested_dict, and `plan`: large requests that lay where a plan has them, and that did not."""
    raw = _raw(_device(device))
    at = iter(list(raw))
    out: dict[str, Any] = {stat: {half: {name: next(at) for name in _COUNTS} for half in _HALVES} for stat in _STATS}
    none = dict.fromkeys(_COUNTS, 0)
    out["inactive_split"] = {half: dict(none) for half in _HALVES}
    out["inactive_split_bytes"] = {half: dict(none) for half in _HALVES}
    for half in _HALVES:
        now = out["reserved_bytes"][half]["current"] - out["active_bytes"][half]["current"]
        out["inactive_split_bytes"][half]["current"] = now
    out["oversize_allocations"] = dict(none)
    out["oversize_segments"] = dict(none)
    more = dict(zip(_AFTER, at))
    out.update(num_alloc_retries=more["retries"], num_ooms=more["ooms"], num_device_alloc=more["device_allocs"],
               num_device_free=more["device_frees"], num_sync_all_streams=0, max_split_size=-1)
    out["plan"] = {name[len("plan_"):]: n for name, n in more.items() if name.startswith("plan_")}
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


def _trace(device: int) -> list[dict[str, Any]]:
    return [{"action": _ACTIONS[e.action], "device_free" if _ACTIONS[e.action] == "oom" else "addr": e.addr, "size": e.bytes,
             "stream": e.stream, "time_us": e.time_us, "compile_context": "", "user_metadata": "", "frames": []}
            for e in _rows(_lib().plimsoll_alloc_events, _Event, device)]


def snapshot() -> dict[str, Any]:
    """As torch.cuda.memory._snapshot, of all devices: what `plimsoll report` and PyTorch's viewer open; no stacks."""
    devices = range(_torch.torch().cuda.device_count())
    return {"segments": [segment for device in devices for segment in memory_snapshot(device)],
            "device_traces": [_trace(device) for device in devices],
            "allocator_settings": {"expandable_segments": True, "PYTORCH_CUDA_ALLOC_CONF": "plimsoll"},
            "external_annotations": []}


def record(max_entries: int = 1_000_000) -> None:
    """Keep each device's last events (48 MB of host memory a million); 0: none."""
    global _recording
    if not _lib().plimsoll_alloc_record(-1, max_entries):
        raise MemoryError(f"no memory for {max_entries} events")
    _recording = max_entries > 0


def dump_snapshot(filename: str | os.PathLike[str] = "dump_snapshot.pickle") -> None:
    """As torch.cuda.memory._dump_snapshot, whole or not at all.  Raises OSError."""
    why = _lib().plimsoll_alloc_dump(os.fsencode(filename))
    if why:
        raise OSError(f"cannot write '{os.fspath(filename)}': {why.decode(errors='replace')}")


def _history(enabled: Any, *args: Any) -> None:
    """Releases differ in what they give, and in its order: the largest number is how many events are to be kept."""
    entries = max((n for n in args if type(n) is int), default=1_000_000)
    record(min(entries, _ENTRIES_MAX) if enabled in ("all", True) else 0)


_observers: list[Callable[[int, int, int, int], Any]] = []


def _tell(device: int, requested: int, limit_: int, free: int) -> None:
    for observer in list(_observers):
        observer(device, requested, limit_, free)


_told = _Observer(_tell)  # the library keeps its address


def _observe(observer: Callable[[int, int, int, int], Any]) -> None:
    """As torch._C._cuda_attach_out_of_memory_observer: told where memory was refused, before the exception exists."""
    _observers.append(observer)
    _lib().plimsoll_alloc_observe(_told)


def _answer(torch: Any) -> None:
    """What PyTorch's wrapper refuses under any pluggable allocator is answered here, below what is built on it."""
    stats, peaks, accumulated = memory_stats_as_nested_dict, reset_peak_memory_stats, reset_accumulated_memory_stats
    ours = {
        "_cuda_memoryStats": stats,
        "_cuda_resetPeakMemoryStats": peaks,
        "_cuda_resetAccumulatedMemoryStats": accumulated,
        "_cuda_getMemoryFraction": get_per_process_memory_fraction,
        "_cuda_memorySnapshot": lambda pool=None: snapshot(),
        "_cuda_record_memory_history": _history,
        "_cuda_record_memory_history_legacy": _history,
        "_cuda_isHistoryEnabled": lambda: _recording,
        "_cuda_attach_out_of_memory_observer": _observe,
        "_accelerator_isAllocatorInitialized": torch.cuda.is_initialized,
        "_accelerator_getDeviceStats": stats,
        "_accelerator_resetPeakStats": peaks,
        "_accelerator_resetAccumulatedStats": accumulated,
        "_accelerator_emptyCache": torch.cuda.empty_cache,
        "_accelerator_getMemoryInfo": torch.cuda.mem_get_info,
    }
    for name, function in ours.items():
        if hasattr(torch._C, name):
            setattr(torch._C, name, function)
    if hasattr(torch.cuda.memory, "_dump_snapshot"):
        torch.cuda.memory._dump_snapshot = lambda filename="dump_snapshot.pickle", *a, **k: dump_snapshot(filename)
    _torch.own = numbers, peaks
    _pin_benchmark(torch)
    _refuse_sharing(torch)
    _torch.logger.warning("plimsoll.allocator is in use; PyTorch refuses under any pluggable allocator: %s",
                          "; ".join(f"{what} ({instead})" for what, instead in REFUSED))


def _refuse_sharing(torch: Any) -> None:
    """What torch.multiprocessing calls for a CUDA tensor; PyTorch's wrapper says nothing of what to do instead."""
    storage = getattr(torch, "UntypedStorage", None)

    def refuse(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("memory of a GPU cannot be shared with another process under plimsoll.allocator (PyTorch shares none of a "
                           "pluggable allocator's): send tensor.cpu() and copy it to the GPU there, or leave this allocator out")

    if hasattr(storage, "_share_cuda_"):
        setattr(storage, "_share_cuda_", refuse)


def _pin_benchmark(torch: Any) -> None:
    """cudnn.benchmark asks PyTorch's wrapper for cacheInfo, which throws under any pluggable allocator."""
    cudnn = getattr(getattr(torch, "backends", None), "cudnn", None)
    if cudnn is None:
        return
    if getattr(cudnn, "benchmark", False):
        cudnn.benchmark = False

    def set_benchmark(self: Any, value: bool) -> None:
        if value:
            warnings.warn("cudnn.benchmark stays off: PyTorch cannot run it under a pluggable allocator", stacklevel=2)

    if "benchmark" in vars(type(cudnn)):
        try:
            setattr(type(cudnn), "benchmark", property(lambda self: False, set_benchmark))
        except (AttributeError, TypeError):
            _torch.logger.warning("cudnn.benchmark must stay off under this allocator")
