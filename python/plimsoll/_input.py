"""What people hand in: paths, bytes, open files, live objects; the C library reads files."""
from __future__ import annotations

import io
import json
import os
import re
import tempfile
import weakref
from types import TracebackType
from typing import IO, Any, Mapping, Union

from .errors import ArgumentError

PathLike = Union[str, "os.PathLike[str]"]
Log = Union[PathLike, bytes, IO[bytes], BaseException]


class Input:
    """A file for the length of a call: one that is there, or bytes as one without a name.

    shown: how the text and the JSON call it.  It ends with its last user, or with a `with`.
    """

    def __init__(self, path: str, shown: str | None = None, file: IO[bytes] | None = None) -> None:
        self.path, self.shown, self._file = path, shown, file
        if file is not None:
            weakref.finalize(self, file.close).atexit = False

    @classmethod
    def of_bytes(cls, content: bytes | bytearray | memoryview | io.BufferedIOBase | IO[bytes], shown: str) -> Input:
        file: IO[bytes]
        if hasattr(os, "memfd_create"):
            file = os.fdopen(os.memfd_create("plimsoll"), "w+b")
            path = f"/proc/self/fd/{file.fileno()}"
        else:
            file = tempfile.NamedTemporaryFile()
            path = file.name
        if isinstance(content, (bytes, bytearray, memoryview)):
            file.write(content)
        else:
            while part := content.read(1 << 20):
                file.write(part.encode() if isinstance(part, str) else part)
        file.flush()
        return cls(path, shown, file)

    def rename(self, text: str) -> str:
        """Text of the library with our name for the file."""
        return text if self.shown is None else text.replace(self.path, self.shown)

    def __enter__(self) -> Input:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._file is not None:
            self._file.close()


def recording(source: Any) -> Input:
    """A path, bytes, an open file, or what torch.cuda.memory._snapshot() gave."""
    if isinstance(source, (str, os.PathLike)):
        return Input(os.fspath(source))
    if isinstance(source, (bytes, bytearray, memoryview)) or hasattr(source, "read"):
        return Input.of_bytes(source, getattr(source, "name", None) or "<bytes>")
    if isinstance(source, Mapping) and "segments" in source:
        from . import _native

        given = Input.of_bytes(b"", "<snapshot>")
        assert given._file is not None
        _native.pickle_to(given._file.fileno(), dict(source))
        return given
    raise ArgumentError(f"a recording is a path, bytes, an open file or torch.cuda.memory._snapshot(), "
                        f"not {type(source).__name__}")


def is_path(text: str) -> bool:
    """Does a string name a file, or is it the text itself?

    What exists is a path, and so is what has no white space or looks like one: it begins at a folder, or ends in a suffix.  Text
    has several lines, is JSON, or reads like a message: words, with a colon and a blank between them.
    """
    if "\n" in text:
        return False
    if os.path.lexists(text):
        return True
    if text.lstrip().startswith(("{", "[")) or ": " in text:
        return False
    begins = text.startswith(("/", "./", "../", "~")) or os.path.isdir(os.path.dirname(text) or "\0")
    return begins or len(text.split()) < 2 or re.search(r"\.\w{1,12}$", text) is not None


def log(source: Any) -> Input:
    """A path, text, bytes, an open file, or an exception."""
    if isinstance(source, BaseException):
        import traceback

        text = "".join(traceback.format_exception(type(source), source, source.__traceback__))
        return Input.of_bytes(text.encode("utf-8", "replace"), "<exception>")
    if isinstance(source, str) and not is_path(source):
        return Input.of_bytes(source.encode("utf-8", "surrogateescape") + b"\n", "<text>")
    if isinstance(source, (str, os.PathLike)):
        return Input(os.fspath(source))
    if isinstance(source, (bytes, bytearray, memoryview)) or hasattr(source, "read"):
        return Input.of_bytes(source, str(getattr(source, "name", None) or "<text>"))
    raise ArgumentError(f"a log is a path, text, bytes, an open file or an exception, not {type(source).__name__}")


def model(source: Any) -> Input | None:
    """A path, the content of a config.json (parsed, or as text), a model of transformers, or None (a model by numbers)."""
    if source is None:
        return None
    if isinstance(source, str) and source.lstrip().startswith("{") and not is_path(source):
        return Input.of_bytes(source.encode("utf-8", "surrogateescape"), "<config>")
    if isinstance(source, (str, os.PathLike)):
        return Input(os.fspath(source))
    config = source if isinstance(source, Mapping) else getattr(source, "config", source)
    to_dict = getattr(config, "to_dict", None)
    if to_dict is not None:
        config = to_dict()
    if not isinstance(config, Mapping):
        raise ArgumentError(f"{type(source).__name__} has no config that says what it is",
                            remedy="give a config.json, or layers=, hidden= and heads=")
    return Input.of_bytes(json.dumps(dict(config), default=str).encode(), "<config>")
