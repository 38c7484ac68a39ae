"""Tensors of a checkpoint into memory: what a file holds, and the C loader that reads it."""
from __future__ import annotations

import ctypes
import json
import os
import threading
import weakref
from dataclasses import dataclass
from typing import Any, Iterable, Sequence

from . import _abi, _native, _torch
from ._input import PathLike
from .errors import ArgumentError, FormatError, UnsupportedError

Load = tuple[int, int]  # number of a tensor in its checkpoint, address
Copy = tuple[int, int, int]  # to, from, bytes
HOST = -1

_lock = threading.Lock()
_loaders: dict[tuple[int, int | None], Loader] = {}  # by GPU and threads: for load_file


@dataclass(frozen=True, slots=True)
class Row:
    """A tensor of a checkpoint."""

    number: int
    name: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None  # of one that is dense, but not row-major; None: row-major
    bytes: int
    place: tuple[Any, ...]  # two of one place are one tensor under two names


class Opened:
    """A checkpoint that is open: its tensors by name.  Raises NotFoundError, or FormatError: it is damaged or runs code."""

    def __init__(self, path: PathLike) -> None:
        self.path = os.fspath(path)
        library, error, handle = _native.load(), _abi.plim_err(), ctypes.c_void_p()
        options = _native.options("ckpt")
        _native.check(library.plim_ckpt_open(os.fsencode(self.path), ctypes.byref(options), ctypes.byref(handle), ctypes.byref(error)),
                      error, self.path)
        self.handle: Any = handle
        try:
            told = json.loads(_native.text_of(library.plim_ckpt_json, handle))
            if told["verdict"] not in ("not_verified", "unknown_code"):
                raise FormatError(f"'{self.path}' is not loaded: {told['headline']}", path=self.path)
            self.mark = _mark(self.path)
            self.rows = [_row(i, one) for i, one in enumerate(told["tensors"])]
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        handle, self.handle = self.handle, None
        if handle is not None:
            _native.load().plim_ckpt_free(handle)

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _mark(path: str) -> object:
    """Another one when the file was written or replaced."""
    told = os.stat(path)
    return object() if os.path.isdir(path) else (told.st_dev, told.st_ino, told.st_size, told.st_mtime_ns)


def _row(number: int, told: dict[str, Any]) -> Row:
    shape, strides = tuple(told["shape"]), tuple(told["strides"])
    known = told["offset_bytes"] is not None and not told["parts"]
    kept = strides if known and _is_dense(shape, strides) and not _is_row_major(shape, strides) else None
    place = (told["storage"], told["offset_bytes"], told["dtype"], shape, strides) if known and told["bytes"] else (number,)
    return Row(number, told["name"], told["dtype"], shape, kept, told["bytes"], place)


def _steps(sizes: Iterable[tuple[int, int]]) -> bool:
    step = 1
    for stride, size in sizes:
        if size != 1 and stride != step:
            return False
        step *= size
    return True


def _is_row_major(shape: Sequence[int], strides: Sequence[int]) -> bool:
    return 0 in shape or _steps(zip(reversed(strides), reversed(shape)))


def _is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    return _steps(sorted((stride, size) for stride, size in zip(strides, shape) if size != 1))


def dtype_of(name: str, what: str) -> Any:
    """torch's dtype.  Raises UnsupportedError: this torch has none of that name."""
    torch = _torch.torch()
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise UnsupportedError(f"'{what}' is {name}, which PyTorch {torch.__version__} has not")
    return found


class Loader:
    """The C loader of one GPU, or with HOST of none; it lives as long as someone holds it."""

    def __init__(self, device: int, threads: int | None = None, ring_bytes: int | None = None) -> None:
        self.device, self._forks = device, _torch.forks
        error, handle = _abi.plim_err(), ctypes.c_void_p()
        options = _native.options("loader", device=device, threads=threads, ring_bytes=ring_bytes,
                                  cuda_library=os.environ.get("PLIMSOLL_CUDA_LIBRARY"))
        _native.check(_native.load().plim_loader_new(ctypes.byref(options), ctypes.byref(handle), ctypes.byref(error)), error)
        self.handle = handle
        weakref.finalize(self, _free, handle, _torch.forks).atexit = False  # at the end of the process its driver may be gone

    def check(self) -> None:
        if self._forks != _torch.forks:
            raise UnsupportedError("this was made before the process forked: its threads and its GPU are the parent's")

    def stream(self) -> int | None:
        """The current stream of the GPU."""
        return None if self.device == HOST else _torch.torch().cuda.current_stream(self.device).cuda_stream

    def load(self, opened: Opened, loads: Sequence[Load], flags: int = 0) -> None:
        self.check()
        array = (_abi.plim_load * len(loads))(*(_abi.plim_load(*one) for one in loads))
        what = _abi.plim_loading(ckpt=opened.handle, loads=array, n=len(loads), flags=flags, stream=self.stream())
        error = _abi.plim_err()

        running = _native.Running(lambda: _native.load().plim_loader_load(self.handle, ctypes.byref(what), ctypes.byref(error)))
        running.thread.start()
        try:
            while not running.done.wait(_native.LOOK_EVERY_S):
                pass
        except BaseException:  # KeyboardInterrupt: what is read goes into memory of the caller's until it has ended
            running.cancel()
            _wait(running.done)
            raise
        if running.error is not None:
            raise running.error
        _native.check(running.result, error, opened.path)

    def copy(self, copies: Sequence[Copy]) -> int:
        """In the order of the current stream; what wait() takes."""
        self.check()
        array = (_abi.plim_copy * len(copies))(*(_abi.plim_copy(*one) for one in copies))
        error, ticket = _abi.plim_err(), ctypes.c_uint64()
        _native.check(_native.load().plim_loader_copy(self.handle, array, len(copies), self.stream(), ctypes.byref(ticket),
                                                      ctypes.byref(error)), error)
        return ticket.value

    def after(self) -> None:
        """What is copied from now on waits for what the current stream does."""
        error = _abi.plim_err()
        _native.check(_native.load().plim_loader_after(self.handle, self.stream(), ctypes.byref(error)), error)

    def is_over(self, ticket: int) -> bool:
        error, over = _abi.plim_err(), ctypes.c_uint32()
        _native.check(_native.load().plim_loader_look(self.handle, ticket, ctypes.byref(over), ctypes.byref(error)), error)
        return bool(over.value)

    def wait(self, ticket: int) -> None:
        error = _abi.plim_err()
        _native.check(_native.load().plim_loader_wait(self.handle, ticket, ctypes.byref(error)), error)


def _wait(done: threading.Event) -> None:
    while not done.is_set():
        try:
            done.wait()
        except BaseException:  # once more: the first one is raised
            continue


def _free(handle: Any, forks: int) -> None:
    if forks == _torch.forks:
        _native.load().plim_loader_free(handle)


class Memory:
    """Host memory of a loader, page-locked if it is for a GPU."""

    def __init__(self, loader: Loader, size: int) -> None:
        error, at = _abi.plim_err(), ctypes.c_void_p()
        _native.check(_native.load().plim_loader_take(loader.handle, size, ctypes.byref(at), ctypes.byref(error)), error)
        self.address: int = at.value or 0
        self.loader = loader
        weakref.finalize(self, _give, loader, self.address, size, _torch.forks).atexit = False


def _give(loader: Loader, address: int, size: int, forks: int) -> None:
    if forks == _torch.forks:
        _native.load().plim_loader_give(loader.handle, address, size)


def device_number(device: Any) -> int:
    """HOST, or the ordinal of a GPU, which is in use from then on.  Raises UnsupportedError if PyTorch sees no GPU."""
    torch = _torch.torch()
    target = torch.device(device)
    if target.type == "cpu":
        return HOST
    if target.type != "cuda":
        raise ArgumentError(f"device is the host or a CUDA GPU, not '{target}'")
    if not torch.cuda.is_available():
        raise UnsupportedError(f"device '{target}' is not there: PyTorch sees no GPU", remedy="give device='cpu'")
    torch.cuda.init()
    return int(torch.cuda.current_device() if target.index is None else target.index)


def shared(device: int, threads: int | None) -> Loader:
    """That of a GPU, or of the host."""
    with _lock:
        found = _loaders.get((device, threads))
        if found is None or found._forks != _torch.forks:
            found = _loaders[device, threads] = Loader(device, threads)
        return found


def _empty(row: Row, device: Any) -> Any:
    torch = _torch.torch()
    dtype = dtype_of(row.dtype, row.name)
    make = torch.empty(row.shape, dtype=dtype, device=device) if row.strides is None else \
        torch.empty_strided(row.shape, row.strides, dtype=dtype, device=device)
    if make.numel() * make.element_size() != row.bytes:
        raise UnsupportedError(f"'{row.name}' is {row.dtype} of {list(row.shape)} in {row.bytes} bytes, which is not how PyTorch lays it out")
    return make


def load_file(path: PathLike, device: Any = "cuda", *, threads: int | None = None) -> dict[str, Any]:
    """The tensors of a checkpoint by their names, on a GPU or, with device="cpu", in host memory.

    path: safetensors (one file, or a folder with its index), or what torch.save wrote, whose pickle is read as data and never
    run: names are the keys that lead to a tensor, joined by dots.  Threads read pieces of it into 64 MiB of page-locked memory,
    from where they go to the GPU meanwhile; checksums, where the file has them, are compared.  What torch.save wrote under two
    names is one tensor again; other views of one storage become tensors of their own.

        state = load_file("model.safetensors")
        model.load_state_dict(state, assign=True)

    Raises NotFoundError; FormatError: it is damaged, incomplete, or would run code if it were unpickled; UnsupportedError: a
    tensor that cannot be laid out (quantized, one rank's part) or the CUDA driver cannot be used.
    """
    number = device_number(device)
    target = "cpu" if number == HOST else f"cuda:{number}"
    loader = shared(number, threads)
    tensors: dict[str, Any] = {}
    made: dict[tuple[Any, ...], Any] = {}
    loads: list[Load] = []
    with Opened(path) as opened:
        for row in opened.rows:
            tensor = made.get(row.place)
            if tensor is None:
                tensor = made[row.place] = _empty(row, target)
                loads.append((row.number, tensor.data_ptr()))
            tensors[row.name] = tensor
        loader.load(opened, loads, _abi.PLIM_LOADING_AS_STORED)
    return tensors
