"""The C library: finding it, calling it without the GIL, turning its errors into exceptions.

Looked for in $PLIMSOLL_LIBRARY, next to the package (where the wheel puts it), and where the system keeps libraries.
Calls that may take long run on a thread of their own, so that progress is shown and Ctrl-C is obeyed.
"""
from __future__ import annotations

import ctypes
import os
import pickle
import re
import sysconfig
import threading
import time
from typing import Any, Callable, Iterable

from . import _abi
from ._version import __version__
from .errors import ArgumentError, UnsupportedError, kind_of

UNKNOWN = _abi.UNKNOWN
SHOW_AFTER_S = 0.5  # a call that ends sooner shows no progress
LOOK_EVERY_S = 0.02

_lock = threading.Lock()
_library: ctypes.CDLL | None = None


def places() -> list[str]:
    """Where the library may be, best first."""
    here = os.path.dirname(os.path.abspath(__file__))
    chosen = os.environ.get("PLIMSOLL_LIBRARY")
    if chosen:
        return [chosen]
    roots = [os.path.dirname(here)]
    if not os.path.exists(os.path.join(roots[0], ".plimsoll_gpu.mesonpy.libs")):
        roots.append(sysconfig.get_path("platlib"))  # where it is not the folder of pure modules
    beside = [os.path.join(root, folder, name) for root in roots
              for folder in (".plimsoll_gpu.mesonpy.libs", ".plimsoll-gpu.mesonpy.libs")
              for name in ("libplimsoll.so", "libplimsoll.dylib")]
    beside.append(os.path.join(os.path.dirname(str(_abi.__file__)), "libplimsoll.so"))  # of an editable install, in its build folder
    return [path for path in beside if os.path.exists(path)] + ["libplimsoll.so.0"]


def load() -> ctypes.CDLL:
    """The library, loaded once.  Raises UnsupportedError: it is missing, or is another version's."""
    global _library
    with _lock:
        if _library is None:
            _library = _open()
        return _library


def _open() -> ctypes.CDLL:
    tried = []
    for path in places():
        try:
            library = ctypes.CDLL(path)
        except OSError as why:
            tried.append(str(why))
            continue
        library.plim_version.restype = ctypes.c_char_p
        version = library.plim_version().decode()
        if version != __version__:
            raise UnsupportedError(f"'{path}' is Plimsoll {version}, this package is {__version__}",
                                   path=path, remedy="install both anew: pip install --force-reinstall .")
        for name, (result, arguments) in _abi.PROTOTYPES.items():
            function = getattr(library, name, None)
            if function is not None:
                function.restype, function.argtypes = result, arguments
        return library
    raise UnsupportedError("the C library of Plimsoll cannot be loaded (" + "; ".join(tried) + ")",
                           remedy="pip install . builds it, PLIMSOLL_LIBRARY=FILE names one")


def check(status: int, error: Any, path: str | None = None) -> None:
    """Raise what *error shows, unless status is 0."""
    if not status:
        return
    message = re.sub(r"\boptions\.([a-z])", r"\1", error.message.decode("utf-8", "replace"))
    kind = kind_of(status, error.native)
    raise kind(message, path=path, offset=None if error.offset == UNKNOWN else error.offset, errno=error.native or None)


def pickle_to(fd: int, value: dict[str, Any], last: tuple[str, Callable[[Iterable[str]], str]] | None = None) -> None:
    """value as a pickle; what torch.cuda.memory._snapshot() gives three times as fast as the pickle module does it.

    last: a key that is added, and what gives its value from the source files of the frames, in any order.
    Raises OSError where it cannot be written.
    """
    at = os.lseek(fd, 0, os.SEEK_CUR)
    try:
        if not sysconfig.get_config_var("Py_GIL_DISABLED") and _pickle_in_c(fd, value, last):  # there objects look otherwise
            return
    except UnsupportedError:  # no library: what was recorded is to be kept all the same
        pass
    os.ftruncate(fd, at)
    os.lseek(fd, at, os.SEEK_SET)
    if last is not None:
        value = {**value, last[0]: last[1](_files(value))}
    with open(fd, "wb", closefd=False) as file:
        pickle.dump(value, file, protocol=4)


def _pickle_in_c(fd: int, value: dict[str, Any], last: tuple[str, Callable[[Iterable[str]], str]] | None) -> bool:
    library, error, files = load(), _abi.plim_err(), _abi.plim_buffer()
    function = ctypes.PyDLL(library._name).plim_python_pickle  # it reads Python objects: not without the GIL
    function.argtypes = [ctypes.py_object, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]

    def late() -> str:
        assert last is not None
        text = ctypes.string_at(files.text, files.bytes).decode() if files.bytes else ""
        return last[1](text.split("\n")[:-1])

    if last is not None:
        value = {**value, last[0]: late}
    try:
        status = function(value, fd, ctypes.addressof(files), id(late) if last is not None else None, ctypes.addressof(error))
    finally:
        library.plim_buffer_release(ctypes.byref(files))
    if status and error.native:
        raise OSError(error.native, os.strerror(error.native))
    return not status


def _files(snapshot: dict[str, Any]) -> set[str]:
    """Source files of the frames.  PyTorch shares the frames, not the lists of them."""
    frames: dict[int, Any] = {}
    for part in snapshot.get("device_traces", []) + [segment.get("blocks", []) for segment in snapshot.get("segments", [])]:
        for row in part:
            for frame in row.get("frames") or ():
                frames[id(frame)] = frame
    return {frame.get("filename", "") for frame in frames.values()}


def encode(text: str | os.PathLike[str] | None) -> bytes | None:
    return None if text is None else os.fsencode(text)


def put(struct: Any, name: str, value: Any, given: str = "") -> None:
    """struct.name = value, which the caller knows as `given`.  ctypes would take a number for the address of a text."""
    kind = next(field[1] for field in struct._fields_ if field[0] == name)
    if isinstance(value, (str, os.PathLike)):
        value = encode(value)
    if kind is ctypes.c_char_p and not isinstance(value, (bytes, type(None))):
        raise ArgumentError(f"{given or name} takes a text, not {value!r}")
    setattr(struct, name, value)


def options(name: str, **values: Any) -> Any:
    """A plim_NAME_options with its defaults, and over them what is not None."""
    struct = getattr(_abi, f"plim_{name}_options")()
    init = getattr(load(), f"plim_{name}_options_init", None)
    if init is not None:
        init(ctypes.byref(struct))
    else:
        struct.size = ctypes.sizeof(struct)
    for key, value in values.items():
        if value is not None:
            put(struct, key, value)
    return struct


def text_of(function: Any, *arguments: Any) -> str:
    """What a function prints through a plim_write_fn, whose last three arguments are (write, ctx, err)."""
    library = load()
    buffer, error = _abi.plim_buffer(), _abi.plim_err()
    write = ctypes.cast(library.plim_buffer_write, ctypes.c_void_p)
    try:
        check(function(*arguments, write, ctypes.byref(buffer), ctypes.byref(error)), error)
        return ctypes.string_at(buffer.text, buffer.bytes).decode("utf-8", "replace") if buffer.bytes else ""
    finally:
        library.plim_buffer_release(ctypes.byref(buffer))


class Running:
    """One long call on a thread of its own."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.task = _abi.plim_task(size=ctypes.sizeof(_abi.plim_task))
        self.work = work
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = threading.Event()
        self.abandoned = False
        self.thread = threading.Thread(target=self.run, name="plimsoll", daemon=True)

    def run(self) -> None:
        library = load()
        library.plim_task_watch(ctypes.byref(self.task))
        try:
            self.result = self.work()
        except BaseException as error:  # is raised again by who waits
            self.error = error
        finally:
            library.plim_task_watch(None)
            self.done.set()

    def cancel(self) -> None:
        self.task.cancel = 1

    def progress(self) -> tuple[int, int] | None:
        """Bytes read and to read of the file at hand; None: not known."""
        total = self.task.total_bytes
        return None if total in (0, UNKNOWN) else (self.task.done_bytes, total)


def run(what: str, work: Callable[[], Any], progress: bool | None = None) -> Any:
    """work() on a thread, with progress in terminals and notebooks; Ctrl-C stops it.

    progress None: shown where someone looks (a terminal, a notebook).
    """
    running = Running(work)
    running.thread.start()
    shown: Any = None
    began = time.monotonic()
    try:
        while not running.done.wait(LOOK_EVERY_S):
            if progress is not False and shown is None and time.monotonic() - began > SHOW_AFTER_S:
                from ._progress import shower

                shown = shower(what, progress)
            if shown:
                shown.show(running.progress())
    except BaseException:  # KeyboardInterrupt, or what a signal's handler raised
        running.cancel()
        running.done.wait(0.15)
        raise
    finally:
        if shown:
            shown.clear()
    if running.error is not None:
        raise running.error
    return running.result
