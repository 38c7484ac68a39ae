"""What the commands give: the JSON with attributes, its text, and ways to look at it and to keep it."""
from __future__ import annotations

import ctypes
import html
import json
import os
import tempfile
import weakref
from pathlib import Path
from typing import Any, Callable

from . import _abi, _native
from ._input import Input, PathLike
from ._object import Object
from .errors import ArgumentError


class Source:
    """The C object of a result: freed with the last result that needs it."""

    def __init__(self, verb: str, pointer: int, inputs: list[Input], keep: tuple[Any, ...] = ()) -> None:
        self.verb, self.pointer, self.inputs, self.keep = verb, pointer, inputs, keep
        self._free = weakref.finalize(self, getattr(_native.load(), f"plim_{verb}_free"), pointer)
        self._free.atexit = False

    def rename(self, text: str) -> str:
        for given in self.inputs:
            text = given.rename(text)
        return text

    def json(self) -> str:
        return self.rename(_native.text_of(getattr(_native.load(), f"plim_{self.verb}_json"), self.pointer))

    def text(self, width: int, color: bool, *more: Any) -> str:
        style = _abi.plim_text_style(width=width, color=color, utf8=True)
        function = getattr(_native.load(), f"plim_{self.verb}_text")
        return self.rename(_native.text_of(function, self.pointer, *more, ctypes.byref(style)))

    def to_file(self, function: str, path: str, *before: Any) -> None:
        error = _abi.plim_err()
        status = getattr(_native.load(), function)(self.pointer, *before, os.fsencode(path), ctypes.byref(error))
        _native.check(status, error, path)


class Result(Object):
    """Prints as the program's text; attributes are the JSON's keys."""

    __slots__ = ()
    _text_arguments: tuple[Any, ...] = ()

    @classmethod
    def _of(cls, source: Source) -> Any:
        result = cls(json.loads(source.json()))
        object.__setattr__(result, "_source", source)
        return result

    @classmethod
    def _plain(cls, data: dict[str, Any], text: str) -> Any:
        """Unpickled: the C object stayed where it was made."""
        result = cls(data)
        object.__setattr__(result, "_source", text)
        return result

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self)._plain, (self._data, str(self))

    def text(self, *, width: int = 80, color: bool = False) -> str:
        """As the program prints it, `width` columns wide."""
        source = self._source
        return source.text(width, color, *self._text_arguments) if isinstance(source, Source) else str(source or "")

    def __str__(self) -> str:
        return self.text()

    def to_json(self) -> str:
        """What --json prints (docs/json.md)."""
        return json.dumps(self._data, ensure_ascii=False)

    def _page(self, page: Any, error: Any) -> int:
        """Add what can be drawn; a result that cannot be has no page."""
        raise ArgumentError(f"{type(self).__name__} has no page; .txt and .json it has")

    def _snapshot(self, path: str) -> None:
        raise ArgumentError(f"{type(self).__name__} cannot be kept as a snapshot")

    def save(self, path: PathLike) -> Path:
        """Keep it, whole or not at all: .html is a page that needs no network, .json, .txt, .pickle a snapshot."""
        path = Path(path)
        kinds: dict[str, Callable[[], None]] = {
            ".html": lambda: self._save_page(str(path)),
            ".json": lambda: durable_write(path, self.to_json() + "\n"),
            ".txt": lambda: durable_write(path, self.text()),
            ".pickle": lambda: self._snapshot(str(path)),
        }
        if path.suffix not in kinds:
            raise ArgumentError(f"'{path}' ends in none of {', '.join(kinds)}")
        kinds[path.suffix]()
        return path

    def _save_page(self, path: str) -> None:
        if not isinstance(self._source, Source):
            raise ArgumentError("this result was unpickled: only .txt and .json can be made of it")
        library, error = _native.load(), _abi.plim_err()
        page = ctypes.c_void_p()
        _native.check(library.plim_page_new(None, ctypes.byref(page), ctypes.byref(error)), error)
        try:
            _native.check(self._page(page, error), error)
            _native.check(library.plim_page_write(page, os.fsencode(path), ctypes.byref(error)), error, path)
        finally:
            library.plim_page_free(page)

    def _repr_html_(self) -> str:
        """For notebooks: the page in a frame of its own, or the text where there is no page."""
        try:
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "page.html")
                self._save_page(path)
                with open(path, encoding="utf-8") as f:
                    page = f.read()
            return (f'<iframe sandbox="allow-scripts" style="width:100%;height:640px;border:0" '
                    f'title="{html.escape(type(self).__name__)}" srcdoc="{html.escape(page)}"></iframe>')
        except ArgumentError:
            return f'<pre style="line-height:1.25">{html.escape(str(self))}</pre>'


def durable_write(path: PathLike, text: str) -> None:
    """A file of this text, or the old one still (plimsoll/durable.h)."""
    library, error, file = _native.load(), _abi.plim_err(), ctypes.c_void_p()
    content = text.encode("utf-8", "replace")
    name = os.fsencode(path)
    _native.check(library.plim_durable_begin(name, len(content), ctypes.byref(file), ctypes.byref(error)), error)
    status = library.plim_durable_write(file, content, len(content), ctypes.byref(error))
    if status:
        library.plim_durable_abort(file)
        _native.check(status, error, os.fspath(path))
    _native.check(library.plim_durable_commit(file, None, ctypes.byref(error)), error, os.fspath(path))
