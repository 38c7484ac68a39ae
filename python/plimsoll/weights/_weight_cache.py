"""Checkpoints held in memory: see plimsoll.weights.  What is held, evicted and leased is decided in C (plimsoll/weights.h)."""
from __future__ import annotations

import ctypes
import logging
import os
import queue
import threading
import weakref
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Callable, Iterator, Mapping, Sequence

from .. import _abi, _native, _torch
from .._input import PathLike
from ..checkpoint._load import _renamed
from .._loader import HOST, Loader, Opened, Row, device_number, dtype_of
from .._size import bytes_of, bytes_or_percent
from ..errors import ArgumentError, LimitError, PlimsollError, UnsupportedError

logger = logging.getLogger("plimsoll")
Rename = Mapping[str, str] | Callable[[str], str] | None
TAKE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(_abi.plim_weight), ctypes.POINTER(ctypes.c_void_p),
                        ctypes.POINTER(_abi.plim_err))
DROP = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(_abi.plim_weight), ctypes.c_void_p)


@dataclass(frozen=True, slots=True)
class TierStats:
    """Of one kind of memory."""

    hits: int
    misses: int  # were loaded
    waits: int  # for another thread that loaded the same
    failures: int
    evictions: int
    checkpoints: int  # held now
    leased: int  # of these, in use
    bytes: int  # held now, or being loaded
    max_bytes: int | None  # None: what the machine's memory gave


@dataclass(frozen=True, slots=True)
class CacheStats:
    host: TierStats  # page-locked, if the cache is for a GPU
    gpu: TierStats | None  # None: the cache has no memory there


@dataclass(frozen=True, slots=True)
class Registered:
    path: str
    prefix: str
    rename: Rename
    patterns: tuple[str, ...]

    def name_of(self, name: str) -> str:
        return _renamed(name[len(self.prefix):], self.rename)

    def rows_of(self, opened: Opened) -> dict[str, Row]:
        """What of an open checkpoint it is."""
        return {self.name_of(row.name): row for row in opened.rows if any(fnmatchcase(row.name, one) for one in self.patterns)}


Held = tuple[dict[str, Row], dict[str, int]]  # tensors by name, and where they are


def _told(held: Any, registered: Registered) -> Held:
    rows: dict[str, Row] = {}
    addresses: dict[str, int] = {}
    for i in range(held.tensor_count):
        one = held.tensors[i]
        name = registered.name_of(one.name.decode("utf-8", "surrogateescape"))
        rows[name] = Row(i, name, one.dtype.decode(), tuple(one.shape[:one.shape_count]), None, one.bytes, ())
        addresses[name] = one.where or 0
    return rows, addresses


class Lease:
    """A checkpoint that stays where it is until this is released."""

    def __init__(self, tier: Tier, name: str, registered: Registered, handle: Any) -> None:
        self.tier, self.name, self.registered = tier, name, registered
        self._handle = handle
        self.load: int = handle.contents.load
        known = tier.known.get(name)
        if known is None or known[0] != self.load:  # else it is held as it was
            known = tier.known[name] = (self.load, *_told(handle.contents, registered))
        self.rows, self.addresses = known[1], known[2]

    def release(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None and self.tier.handle is not None:
            _native.load().plim_weights_put(self.tier.handle, handle)

    def tensor(self, name: str) -> Any:
        """Of this memory itself: not to be written, nor used when the lease is over."""
        torch = _torch.torch()
        row, address = self.rows[name], self.addresses[name]
        dtype = dtype_of(row.dtype, name)
        if not row.bytes:
            return torch.empty(row.shape, dtype=dtype, device=self.tier.place)
        return self.tier.bytes_at(address, row.bytes).view(dtype).reshape(row.shape)


class Blocks:
    """Memory of torch's allocator on the GPU, so that it is counted and recorded there; on a stream that nothing else uses."""

    def __init__(self, device: int) -> None:
        self.place = f"cuda:{device}"
        self.stream = _torch.torch().cuda.Stream(device)
        self.at: dict[int, Any] = {}
        self.callbacks = TAKE(self._take), DROP(self._drop)
        take, drop = (ctypes.cast(one, ctypes.c_void_p) for one in self.callbacks)
        self.as_place = _abi.plim_weights_place(take=take, drop=drop, stream=self.stream.cuda_stream)

    def _take(self, _: Any, weight: Any, where: Any, error: Any) -> int:
        torch = _torch.torch()
        try:
            with torch.cuda.stream(self.stream):
                block = torch.empty(max(weight.contents.bytes, 1), dtype=torch.uint8, device=self.place)
        except BaseException as why:  # nothing may be raised through C
            if error:
                error.contents.status, error.contents.message = LimitError.status, f"the GPU has no room: {why}".encode()[:1000]
            return LimitError.status
        self.at[block.data_ptr()] = block
        where[0] = block.data_ptr()
        return 0

    def _drop(self, _: Any, weight: Any, where: int) -> None:
        self.at.pop(where, None)


class Tier:
    """One C cache: of host memory, or with `gpu` of torch's memory on the GPU."""

    def __init__(self, loader: Loader, max_bytes: int, percent: int, max_loaded: int, gpu: bool) -> None:
        self.loader, self.max_bytes = loader, max_bytes or None
        self.place = f"cuda:{loader.device}" if gpu else "cpu"
        self.known: dict[str, tuple[int, dict[str, Row], dict[str, int]]] = {}  # by name: of its last load
        self.blocks = Blocks(loader.device) if gpu else None
        options = _native.options("weights", max_bytes=max_bytes, percent=percent, max_sets=max_loaded)
        options.loader = loader.handle
        if self.blocks is not None:
            options.place = ctypes.pointer(self.blocks.as_place)
        error, handle = _abi.plim_err(), ctypes.c_void_p()
        _native.check(_native.load().plim_weights_new(ctypes.byref(options), ctypes.byref(handle), ctypes.byref(error)), error)
        self.handle: Any = handle
        self._end = weakref.finalize(self, _free, handle, loader, self.blocks)  # a lease holds its tier
        self._end.atexit = False

    def bytes_at(self, address: int, n: int) -> Any:
        torch = _torch.torch()
        if self.blocks is None:
            return torch.frombuffer((ctypes.c_char * n).from_address(address), dtype=torch.uint8)
        at = max(base for base in list(self.blocks.at) if base <= address)
        return self.blocks.at[at][address - at:address - at + n]

    def lease(self, name: str, registered: Registered) -> Lease:
        error, handle = _abi.plim_err(), ctypes.c_void_p()
        _native.check(_native.load().plim_weights_get(self.handle, os.fsencode(name), ctypes.byref(handle), ctypes.byref(error)), error,
                      registered.path)
        return Lease(self, name, registered, ctypes.cast(handle, ctypes.POINTER(_abi.plim_weights_set)))

    def stats(self) -> TierStats:
        told = _abi.plim_weights_stats()
        _native.load().plim_weights_stats(self.handle, ctypes.byref(told))
        return TierStats(told.hits, told.misses, told.waits, told.failures, told.evictions, told.sets, told.pinned, told.bytes,
                         self.max_bytes)

    def close(self) -> None:
        self.handle = None
        self._end()


def _free(handle: Any, loader: Loader, blocks: Blocks | None) -> None:
    if loader._forks == _torch.forks:
        _native.load().plim_weights_free(handle)


def _pattern(prefix: str, patterns: Sequence[str]) -> str:
    for one in patterns:
        if "|" in one:
            raise ArgumentError(f"include is a list of patterns, one each: '{one}'")
    taken = "".join(f"[{c}]" if c in "*?[" else c for c in prefix)
    if "|" in prefix or "\\" in prefix:
        raise ArgumentError(f"prefix may not have '|' or '\\': '{prefix}'")
    return "|".join(taken + one for one in patterns)


class WeightCache:
    """Checkpoints by name, held within a budget of bytes, the least recently used going first; what is in use stays.

    budget: of host memory, page-locked if there is a GPU: "20 GiB", a number of bytes, or "10%" of this machine's or container's
    memory.  max_loaded: how many checkpoints at most are held, in each kind of memory; None: any number.
    gpu_bytes: of the GPU's memory, as budget, for those that are to be there in milliseconds; 0: none.
    device: None: the current GPU, or the host where there is none.  threads: that read; None: three quarters of the processors, 8 to 16.
    Threads may share one; of those that want the same checkpoint one reads it.  A file that was rewritten is read anew.
    Raises ArgumentError: a size or a number that is none; UnsupportedError: the CUDA driver cannot be used.
    """

    def __init__(self, *, budget: int | str = "10%", max_loaded: int | None = None, gpu_bytes: int | str = 0, device: Any = None,
                 threads: int | None = None) -> None:
        torch = _torch.torch()
        if max_loaded is not None and max_loaded < 1:
            raise ArgumentError(f"max_loaded is 1 or more, not {max_loaded}")
        sizes, on_gpu = bytes_or_percent(budget, "budget"), bytes_of(gpu_bytes, "gpu_bytes") if gpu_bytes else 0
        number = device_number(("cuda" if torch.cuda.is_available() else "cpu") if device is None else device)
        if on_gpu and number == HOST:
            raise ArgumentError("gpu_bytes needs a GPU")
        self.device = number
        self.threads = threads
        self._loader = Loader(number, threads)
        self._lock = threading.Lock()
        self._names: dict[str, Registered] = {}
        self._host = Tier(self._loader, *sizes, max_loaded or 0, gpu=False)
        self._gpu = Tier(self._loader, on_gpu, 0, max_loaded or 0, gpu=True) if on_gpu else None
        self._ahead: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        weakref.finalize(self, self._ahead.put, None)

    def __repr__(self) -> str:
        return f"<WeightCache: {'closed' if self._host.handle is None else f'{len(self._names)} sets registered'}>"

    def __reduce__(self) -> Any:
        raise UnsupportedError("a WeightCache holds memory of its process; it cannot be pickled")

    def _tiers(self) -> list[Tier]:
        self._loader.check()
        if self._host.handle is None:
            raise ArgumentError("the cache is closed")
        return [self._host] if self._gpu is None else [self._gpu, self._host]

    def register(self, name: str, path: PathLike, *, prefix: str = "", include: Sequence[str] = ("*",), rename: Rename = None) -> None:
        """A checkpoint's name; nothing is read yet.  A name that is taken is the new one's from then on.

        prefix: what its tensors' names begin with, which is taken off; others are left out.  include: patterns (* and ?) of the
        names behind the prefix.  rename: beginnings of names and what they become, or a function.
        Raises ArgumentError: the name's checkpoint is in use.
        """
        path = os.path.abspath(os.fspath(path))
        pattern = _pattern(prefix, include)
        library, error = _native.load(), _abi.plim_err()
        with self._lock:
            for tier in self._tiers():
                if name in self._names:
                    _native.check(library.plim_weights_remove(tier.handle, os.fsencode(name), ctypes.byref(error)), error)
                _native.check(library.plim_weights_add(tier.handle, os.fsencode(name), os.fsencode(path), os.fsencode(pattern), ctypes.byref(error)),
                              error, path)
            self._names[name] = Registered(path, prefix, rename, tuple(pattern.split("|")))

    def names(self) -> list[str]:
        return list(self._names)

    def registered(self, name: str) -> Registered:
        found = self._names.get(name)
        if found is None:
            known = ", ".join(sorted(self._names)) or "none"
            raise ArgumentError(f"'{name}' is not registered; these are: {known}")
        return found

    def take(self, name: str) -> Lease:
        """A lease, in the fastest memory that has room for it.  Raises LimitError: none has."""
        registered, tiers = self.registered(name), self._tiers()
        for tier in tiers[:-1]:
            try:
                return tier.lease(name, registered)
            except LimitError:
                pass
        return tiers[-1].lease(name, registered)

    @contextmanager
    def lease(self, name: str) -> Iterator[dict[str, Any]]:
        """The tensors of a checkpoint where they are held; not to be written, nor used behind the block."""
        held = self.take(name)
        try:
            yield {one: held.tensor(one) for one in held.rows}
        finally:
            held.release()

    def prefetch(self, *names: str) -> None:
        """Read them ahead, on a thread, in this order.  What goes wrong is reported when they are used."""
        for name in names:
            self.registered(name)
        self._tiers()
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=_prefetch, args=(weakref.ref(self), self._ahead), name="plimsoll prefetch", daemon=True)
                self._thread.start()
        for name in names:
            self._ahead.put(name)

    def stats(self) -> CacheStats:
        tiers = self._tiers()
        return CacheStats(tiers[-1].stats(), tiers[0].stats() if len(tiers) > 1 else None)

    def close(self) -> None:
        """Give the memory back.  Raises ArgumentError: a lease is not over; a WeightSwapper that uses it is to be closed first."""
        if self._thread is not None and self._loader._forks == _torch.forks:
            self._ahead.put(None)
            self._thread.join()
            self._thread = None
        tiers = [tier for tier in (self._host, self._gpu) if tier is not None and tier.handle is not None]
        leased = sum(tier.stats().leased for tier in tiers if self._loader._forks == _torch.forks)
        if leased:
            raise ArgumentError(f"{leased} of the cache's checkpoints are in use: end their leases, or close the WeightSwapper, first")
        for tier in tiers:
            tier.close()

    def __enter__(self) -> WeightCache:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _prefetch(cache: weakref.ref[WeightCache], wanted: queue.SimpleQueue[str | None]) -> None:
    while True:
        name = wanted.get()
        owner = cache()
        if name is None or owner is None:
            return
        try:
            owner.take(name).release()
        except PlimsollError as why:
            logger.debug("'%s' was not read ahead: %s", name, why)
        del owner
