"""Batches of a SampleCache: native threads gather them ahead of their use, on a GPU's side copied next to its work."""
from __future__ import annotations

import ctypes
import operator
import os
import sys
import weakref
from collections import deque
from typing import Any, Iterator, Sequence

from .. import _abi, _loader, _native, _torch
from . import _samples
from ..errors import ArgumentError, UnsupportedError

WAIT_MS = 200  # at most, before signals are looked at
STATE_VERSION = 1


class _Engine:
    """The C side: threads, and the ring of a GPU."""

    def __init__(self, samples: _samples.Samples, device: int, threads: int, ahead: int) -> None:
        error, handle = _abi.plim_err(), ctypes.c_void_p()
        options = _native.options("batches", device=device, threads=threads, ahead=ahead,
                                  cuda_library=os.environ.get("PLIMSOLL_CUDA_LIBRARY"))
        library = _native.load()
        _native.check(library.plim_batches_new(samples.handle, ctypes.byref(options), ctypes.byref(handle), ctypes.byref(error)), error)
        self.handle, self.device, self.forks = handle, device, _torch.forks
        self.waiting = deque[tuple[list[Any], list[Any], list[int]]]()  # bytes, views and samples of what is on the way
        # What threads write into lives until they have ended.
        weakref.finalize(self, _free, handle, _torch.forks, samples, self.waiting).atexit = device == _loader.HOST

    def stream(self) -> int | None:
        return None if self.device == _loader.HOST else _torch.torch().cuda.current_stream(self.device).cuda_stream

    def begin(self, epoch: Any) -> None:
        error = _abi.plim_err()
        _native.check(_native.load().plim_batches_begin(self.handle, ctypes.byref(epoch), ctypes.byref(error)), error)
        self.waiting.clear()

    def peek(self) -> Any:
        error, batch = _abi.plim_err(), _abi.plim_batch()
        _native.check(_native.load().plim_batches_peek(self.handle, ctypes.byref(batch), ctypes.byref(error)), error)
        return batch

    def push(self, places: list[int]) -> None:
        error, where = _abi.plim_err(), (ctypes.c_void_p * len(places))(*places)
        _native.check(_native.load().plim_batches_push(self.handle, where, self.stream(), ctypes.byref(error)), error)

    def next(self) -> None:
        """The oldest is there."""
        error, batch, count = _abi.plim_err(), _abi.plim_batch(), 0
        while not count:
            _native.check(_native.load().plim_batches_next(self.handle, self.stream(), WAIT_MS, ctypes.byref(batch), ctypes.byref(error)),
                          error)
            count = batch.count


def _free(handle: Any, forks: int, *_held: Any) -> None:
    if forks == _torch.forks:
        _native.load().plim_batches_free(handle)


class _Host:
    """Host memory that is used again when no one has a tensor in it any more: the pages of a fresh one cost more than the copy."""

    def __init__(self, most: int) -> None:
        self.most, self.spare = most, deque[Any]()

    def take(self, size: int) -> Any:
        """A tensor of so many bytes."""
        torch = _torch.torch()
        for _ in range(len(self.spare)):
            memory = self.spare.popleft()
            if ctypes.sizeof(memory) >= size:
                break
        else:
            memory = (ctypes.c_uint8 * max(size, 1))()
        view = (ctypes.c_uint8 * max(size, 1)).from_buffer(memory)
        weakref.finalize(view, self.give, memory).atexit = False
        return torch.frombuffer(view, dtype=torch.uint8)[:size]

    def give(self, memory: Any) -> None:
        if len(self.spare) < self.most:
            self.spare.append(memory)


class Batches:
    """What SampleCache.batches() gives; a loop, Trainer, Lightning and accelerate take it as they take a DataLoader.

    Each iteration is an epoch with an order of its own; set_epoch(n) says which.  state_dict() is the place of the loop, which
    load_state_dict() goes on from: exactly, and also with other ranks or batch sizes, as far as all ranks were at one step.
    """

    def __init__(self, cache: Any, batch_size: int, *, shuffle: int | None, drop_last: bool, device: Any, threads: int,
                 ahead: int, normalize: tuple[Any, Any] | None, rank: int | None, world: int | None) -> None:
        if (rank is None) != (world is None):
            raise ArgumentError("rank and world belong together")
        if operator.index(batch_size) < 1:
            raise ArgumentError(f"batch_size is 1 or more, not {batch_size}")
        if isinstance(shuffle, bool) or shuffle is not None and not 0 <= shuffle < 2**64:
            raise ArgumentError("shuffle is the seed of the order, 0 or more; None: no shuffle")
        self.dataset, self.batch_size, self.drop_last, self.shuffle = cache, batch_size, drop_last, shuffle
        # What is asked of a DataLoader: to skip batches accelerate makes one of its own of these.
        self.num_workers, self.prefetch_factor, self.pin_memory, self.sampler = 0, None, False, None
        self.batch_sampler = _Numbers(self)
        self._samples, self._node = cache._samples, cache._node
        self._rank, self._world = rank, world
        self._threads, self._ahead = threads, ahead
        self._device = _torch.torch().device("cpu" if device is None else device)
        self._number = _loader.device_number(self._device)
        self._normalize = None if normalize is None else _Normalize(self._samples, normalize, self._device)
        self._dtypes = [_samples.dtype_of(field) for field in self._samples.fields]
        kinds = _samples.kinds_of(self._node)
        self._texts = {field: kind for field, kind in enumerate(kinds) if kind in _samples.BYTES}
        self._pictures = [kind.startswith(_samples.PICTURE) for kind in kinds]
        self._host = [_Host(ahead + 2) for _ in self._dtypes]
        self._idle: _Engine | None = None
        self._epoch = self._start = self._done = 0
        self._begun = False  # an iteration of this epoch
        self._now: _Iteration | None = None
        self._order(0)  # raises what is wrong with its arguments

    def __repr__(self) -> str:
        return f"<Batches of {self.dataset!r}: {self.batch_size} each, epoch {self._epoch}, {self._done} samples done>"

    def __reduce__(self) -> Any:
        raise UnsupportedError("Batches hold threads and memory of their process; pickle the SampleCache and state_dict()")

    def ranks(self) -> tuple[int, int]:
        """The rank and how many there are: as given, or those of torch.distributed."""
        if self._rank is not None and self._world is not None:
            return self._rank, self._world
        distributed = sys.modules.get("torch.distributed")
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank(), distributed.get_world_size()
        return 0, 1

    def _order(self, epoch: int, start: int = 0, done: int = 0) -> Any:
        """The C library's epoch, and how many batches it has."""
        rank, world = self.ranks()
        flags = (0 if self.shuffle is None else _abi.PLIM_EPOCH_SHUFFLE) | (_abi.PLIM_EPOCH_DROP_LAST if self.drop_last else 0)
        order = _abi.plim_epoch(size=ctypes.sizeof(_abi.plim_epoch), flags=flags, seed=self.shuffle or 0, epoch=epoch,
                                batch_size=self.batch_size, rank=rank, world=world, start=start, done=done)
        error, count = _abi.plim_err(), ctypes.c_uint64()
        _native.check(_native.load().plim_epoch_batches(ctypes.byref(order), len(self.dataset), ctypes.byref(count), ctypes.byref(error)),
                      error)
        return order, count.value

    def __len__(self) -> int:
        """Batches of a whole epoch."""
        return int(self._order(0)[1])

    def __iter__(self) -> Iterator[Any]:
        if self._begun:
            self._epoch, self._start, self._done = self._epoch + 1, 0, 0
        self._begun = True
        engine, self._idle = self._idle, None
        if engine is None or engine.forks != _torch.forks:
            engine = _Engine(self._samples, self._number, self._threads, self._ahead)
        self._now = _Iteration(self, engine)
        return self._now

    def set_epoch(self, epoch: int) -> None:
        """The next iteration is this epoch's; from its beginning, or where load_state_dict() was in it."""
        if epoch != self._epoch or self._begun:
            self._epoch, self._start, self._done, self._begun = epoch, 0, 0, False

    def collate_fn(self, rows: Sequence[Any]) -> Any:
        """A batch of samples that someone else took out of the cache."""
        torch = _torch.torch()
        values: list[list[Any]] = [[] for _ in self._dtypes]
        for row in rows:
            _samples.put_apart(self._node, row, values)
        views = []
        for i, (field, dtype, column) in enumerate(zip(self._samples.fields, self._dtypes, values)):
            if i in self._texts:
                views.append(column)
                continue
            moved = [(_pixels(one, dtype) if self._pictures[i] else torch.as_tensor(one, dtype=dtype)).to(self._device) for one in column]
            views.append(moved if field.ragged else torch.stack(moved))
        return self._tree(views)

    def _read_texts(self, samples: Sequence[int], views: list[Any]) -> None:
        """Texts and bytes are Python's own objects.  Of a GPU's batch they come out of the file, which was just read: a copy back
        from the GPU would wait for all that it is to do before.
        """
        if self._number == _loader.HOST:
            for field, kind in self._texts.items():
                views[field] = [_samples.of_bytes(kind, ctypes.string_at(one.data_ptr(), one.numel()) if one.numel() else b"")
                                for one in views[field]]
        elif self._texts:
            rows = [self._samples.rows_of_bytes(number, self._texts) for number in samples]
            for field in self._texts:
                views[field] = [row[field] for row in rows]

    def _tree(self, views: list[Any]) -> Any:
        if self._normalize is not None:
            views = self._normalize(views)
        return _samples.put_together(self._node, lambda kind, field: views[field], list)  # as a DataLoader does

    # ---- the place of the loop ----

    def state_dict(self) -> dict[str, int]:
        world = self.ranks()[1]
        return {"version": STATE_VERSION, "samples": len(self.dataset), "shuffle": -1 if self.shuffle is None else self.shuffle,
                "epoch": self._epoch, "start": self._start, "done": self._done, "batch_size": self.batch_size, "world": world,
                "drop_last": int(self.drop_last)}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """The next iteration goes on where state_dict() was.  Raises ArgumentError: that is not a place here."""
        mine = self.state_dict()
        for key in ("version", "samples", "shuffle"):
            if state.get(key) != mine[key]:
                raise ArgumentError(f"the state is of {key} {state.get(key)}, this loader's is {mine[key]}")
        start, done = state["start"], state["done"]
        if any(state[key] != mine[key] for key in ("batch_size", "world", "drop_last")):
            step = state["batch_size"] * state["world"]
            if start + done * step > len(self.dataset):
                raise ArgumentError(f"batches of {state['batch_size']} on {state['world']} ranks went on to the end of the epoch, where "
                                    f"ranks are not at one sample; go on with these numbers, or at the next epoch")
            start, done = start + done * step, 0
        self._order(state["epoch"], start, done)
        self._epoch, self._start, self._done, self._begun, self._now = state["epoch"], start, done, False, None

    def _ended(self, engine: _Engine) -> None:
        """An epoch is over."""
        self._epoch, self._start, self._done, self._begun, self._now = self._epoch + 1, 0, 0, False, None
        self._idle = engine

    # ---- a batch ----

    def _tensors(self, batch: Any) -> list[Any]:
        """A flat tensor of bytes a field."""
        torch = _torch.torch()
        sizes = [int(batch.bytes[i]) for i in range(len(self._dtypes))]
        if self._number == _loader.HOST:
            return [host.take(size) for host, size in zip(self._host, sizes)]
        return [torch.empty(size, dtype=torch.uint8, device=self._device) for size in sizes]

    def _views(self, batch: Any, flat: list[Any]) -> list[Any]:
        """Tensors of the batch: one a field, or where sizes differ a list of one a sample."""
        count, at, out = int(batch.count), 0, []
        for field, dtype, one in zip(self._samples.fields, self._dtypes, flat):
            values = one.view(dtype)
            if not field.ragged:
                out.append(values.view(count, *field.shape))
                continue
            width = field.shape.count(None)
            shapes = []
            for i in range(count):
                open_sizes = iter(batch.sizes[i * batch.size_count + at:i * batch.size_count + at + width])
                shapes.append(tuple(next(open_sizes) if size is None else size for size in field.shape))
            at += width
            numbers = [_product(shape) for shape in shapes]
            out.append([part.view(shape) for part, shape in zip(values.split(numbers), shapes)])
        return out


def _pixels(picture: Any, dtype: Any) -> Any:
    """A picture of PIL as a tensor: height, width, channels."""
    torch, channels = _torch.torch(), len(picture.getbands())
    shape = (picture.height, picture.width) + ((channels,) if channels > 1 else ())
    data = bytearray(picture.tobytes())
    return torch.frombuffer(data, dtype=dtype).reshape(shape) if data else torch.empty(shape, dtype=dtype)


def _product(shape: tuple[int, ...]) -> int:
    n = 1
    for size in shape:
        n *= size
    return n


class _Iteration:
    """One epoch, or what is left of it."""

    def __init__(self, of: Batches, engine: _Engine) -> None:
        self.of, self.engine, self.waiting = of, engine, engine.waiting
        engine.begin(of._order(of._epoch, of._start, of._done)[0])
        self.push()

    def push(self) -> None:
        while len(self.waiting) < self.of._ahead:
            batch = self.engine.peek()
            if not batch.count:
                return
            flat = self.of._tensors(batch)
            self.waiting.append((flat, self.of._views(batch, flat), batch.samples[:batch.count] if self.of._texts else []))
            self.engine.push([one.data_ptr() for one in flat])

    def __iter__(self) -> _Iteration:
        return self

    def __next__(self) -> Any:
        of = self.of
        if self.engine.forks != _torch.forks:
            raise UnsupportedError("this iteration was begun before the process forked: its threads are the parent's")
        if of._now is not self and self.waiting:
            raise UnsupportedError("another iteration of these batches was begun since")
        if not self.waiting:
            if of._now is self:
                of._ended(self.engine)
            raise StopIteration
        self.engine.next()
        _, views, samples = self.waiting.popleft()
        of._read_texts(samples, views)
        of._done += 1
        self.push()
        return of._tree(views)


class _Numbers:
    """The numbers of each batch's samples in the epoch that comes, for who reads them elsewhere."""

    def __init__(self, of: Batches) -> None:
        self.of = weakref.proxy(of)
        self.batch_size, self.drop_last = of.batch_size, of.drop_last

    def __len__(self) -> int:
        return len(self.of)

    def __iter__(self) -> Iterator[list[int]]:
        of = self.of
        order, batches = of._order(of._epoch, of._start)
        library, error, handle = _native.load(), _abi.plim_err(), ctypes.c_void_p()
        _native.check(library.plim_order_new(ctypes.byref(order), len(of.dataset), ctypes.byref(handle), ctypes.byref(error)), error)
        try:
            numbers = (ctypes.c_uint32 * self.batch_size)()
            for k in range(of._done, batches):
                yield numbers[:library.plim_order_batch(handle, k, numbers)]
        finally:
            library.plim_order_free(handle)


class _Normalize:
    """(x / 255 - mean) / std of the fields of uint8 that are images, on their device."""

    def __init__(self, samples: _samples.Samples, normalize: tuple[Any, Any], device: Any) -> None:
        torch = _torch.torch()
        mean, std = (torch.as_tensor(one, dtype=torch.float64).reshape(-1) for one in normalize)
        if mean.numel() != std.numel() or not mean.numel() or not bool((std > 0).all()):
            raise ArgumentError("normalize is a mean and a standard deviation above 0 a channel, of values of 0 to 1")
        channels = mean.numel()
        self.fields = [i for i, field in enumerate(samples.fields)
                       if field.dtype == "uint8" and len(field.shape) == 3 and channels in (1, field.shape[0])]
        if not self.fields:
            raise ArgumentError(f"no field is of uint8 with {channels} channels first: "
                                + ", ".join(f"'{f.name}' {f.dtype} {list(f.shape)}" for f in samples.fields))
        self.scale = (1 / (255 * std)).to(device, torch.float32).reshape(-1, 1, 1)
        self.shift = (-mean / std).to(device, torch.float32).reshape(-1, 1, 1)

    def one(self, x: Any) -> Any:
        torch = _torch.torch()
        return torch.addcmul(self.shift, x.to(torch.float32), self.scale)

    def __call__(self, views: list[Any]) -> list[Any]:
        return [([self.one(x) for x in view] if isinstance(view, list) else self.one(view)) if i in self.fields else view
                for i, view in enumerate(views)]
