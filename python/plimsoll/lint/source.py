"""A file as the linter reads it: text, tree, comments that switch findings off, and the way from `ast`'s
positions (UTF-8 bytes) to characters.  Notebooks become one text whose lines know their cell."""
from __future__ import annotations

import ast
import io
import json
import re
import tokenize
from bisect import bisect_right
from dataclasses import dataclass, field

from .finding import Edit, Place

LARGEST_BYTES = 8 << 20  #: of a file; what is larger is generated or data, and parsing takes 30 times its size
_NOQA = re.compile(r"#\s*noqa(?::\s*(?P<codes>[A-Z][0-9A-Z]*(?:[,\s]+[A-Z]+[0-9]+)*))?", re.IGNORECASE)
_OFF = re.compile(r"#\s*plimsoll:\s*off\b")
_OFF_LINES = 20  #: `# plimsoll: off` counts in a file's first lines only


class Unreadable(Exception):
    """A file that cannot be linted; the message is one line without the file's name."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


@dataclass(slots=True)
class Source:
    path: str
    text: str
    tree: ast.Module
    lines: list[str]
    starts: list[int]  #: offset of each line in `text`
    noqa: dict[int, frozenset[str] | None] = field(default_factory=dict)  #: line -> codes; None: all
    off: bool = False
    cells: list[tuple[int, int]] = field(default_factory=list)  #: notebooks: (first line, number of the cell)

    def column(self, line: int, byte: int) -> int:
        """0-based character column of a 0-based UTF-8 byte column."""
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        if text.isascii():
            return byte
        return len(text.encode()[:byte].decode(errors="replace"))

    def offset(self, line: int, byte: int) -> int:
        return self.starts[line - 1] + self.column(line, byte)

    def start(self, node: ast.expr | ast.stmt) -> int:
        return self.offset(node.lineno, node.col_offset)

    def end(self, node: ast.expr | ast.stmt) -> int:
        return self.offset(node.end_lineno or node.lineno, node.end_col_offset or 0)

    def segment(self, node: ast.expr | ast.stmt) -> str:
        return self.text[self.start(node):self.end(node)]

    def replace(self, node: ast.expr | ast.stmt, text: str) -> Edit:
        return Edit(self.start(node), self.end(node), text)

    def after(self, node: ast.expr | ast.stmt, text: str) -> Edit:
        return Edit(self.end(node), self.end(node), text)

    def before(self, node: ast.expr | ast.stmt, text: str) -> Edit:
        return Edit(self.start(node), self.start(node), text)

    def alone(self, stmt: ast.stmt) -> bool:
        """Is the statement all that its lines hold, so that a line can be put before or after it, or taken away?"""
        head = self.text[self.starts[stmt.lineno - 1]:self.start(stmt)]
        end = stmt.end_lineno or stmt.lineno
        stop = self.starts[end] if end < len(self.starts) else len(self.text)
        tail = self.text[self.end(stmt):stop].strip()
        return not head.strip() and (not tail or tail.startswith("#"))

    def line_before(self, stmt: ast.stmt, text: str) -> Edit | None:
        """A line of its own in front of a statement, indented as it is."""
        if not self.alone(stmt):
            return None
        at = self.starts[stmt.lineno - 1]
        return Edit(at, at, self.text[at:self.start(stmt)] + text + "\n")

    def line_after(self, stmt: ast.stmt, text: str) -> Edit | None:
        if not self.alone(stmt):
            return None
        indent = self.text[self.starts[stmt.lineno - 1]:self.start(stmt)]
        end = stmt.end_lineno or stmt.lineno
        if end >= len(self.starts):
            return Edit(len(self.text), len(self.text), "\n" + indent + text)
        return Edit(self.starts[end], self.starts[end], indent + text + "\n")

    def without(self, stmt: ast.stmt) -> Edit | None:
        """Take a statement and its line away."""
        if not self.alone(stmt):
            return None
        end = stmt.end_lineno or stmt.lineno
        stop = self.starts[end] if end < len(self.starts) else len(self.text)
        return Edit(self.starts[stmt.lineno - 1], stop, "")

    def place(self, node: ast.expr | ast.stmt) -> Place:
        last = node.end_lineno or node.lineno
        column = self.column(node.lineno, node.col_offset) + 1
        end_column = self.column(last, node.end_col_offset or 0) + 1
        if not self.cells:
            return Place(self.path, node.lineno, column, last, end_column)
        first, cell = self.cells[bisect_right(self.cells, (node.lineno, 1 << 30)) - 1]
        return Place(self.path, node.lineno - first + 1, column, last - first + 1, end_column, cell)

    def silenced(self, code: str, *lines: int) -> bool:
        for line in lines:
            if line in self.noqa:
                codes = self.noqa[line]
                if codes is None or any(code.startswith(c) for c in codes):
                    return True
        return False


def decode(data: bytes) -> str:
    """Text of a Python file, by its coding line or byte order mark."""
    if len(data) > LARGEST_BYTES:
        raise Unreadable(f"{len(data)} bytes are more than a Python file has ({LARGEST_BYTES}); not read")
    if b"\0" in data:
        raise Unreadable(f"holds a zero byte at offset {data.index(0)}: no Python text")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding)
    except (SyntaxError, LookupError, UnicodeDecodeError) as why:
        raise Unreadable(f"cannot be decoded: {str(why).splitlines()[0]}") from None
    return text[1:] if text.startswith("\ufeff") else text


def _magic(line: str) -> str:
    """A line of IPython that is no Python becomes `pass`, at the same indentation."""
    bare = line.lstrip()
    if bare.startswith(("%", "!", "?")) or bare.endswith("?") and not bare.startswith("#"):
        return line[:len(line) - len(bare)] + "pass"
    return line


def notebook(data: bytes) -> tuple[str, list[tuple[int, int]]]:
    """The code cells of an .ipynb file as one text, and where each begins."""
    try:
        book = json.loads(data)
        cells = book["cells"] if "cells" in book else book["worksheets"][0]["cells"]
        code = [(number, cell.get("source", cell.get("input", ""))) for number, cell in enumerate(cells, 1)
                if cell.get("cell_type") == "code"]
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        raise Unreadable("no notebook: JSON with cells was expected") from None
    lines: list[str] = []
    places: list[tuple[int, int]] = []
    for number, source in code:
        text = "".join(str(s) for s in source) if isinstance(source, list) else str(source)
        if text.lstrip().startswith("%%") and not text.lstrip().startswith(("%%time", "%%capture")):
            continue  # another language, or a file
        places.append((len(lines) + 1, number))
        lines += [_magic(line) for line in text.split("\n")] or [""]
    return "\n".join(lines) + "\n", places or [(1, 1)]


def _comments(source: Source) -> None:
    """Fill `noqa` and `off` from comments; `tokenize` tells them from strings."""
    if "noqa" not in source.text.lower() and "plimsoll:" not in source.text:
        return
    try:
        for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
            if token.type != tokenize.COMMENT:
                continue
            found = _NOQA.search(token.string)
            if found:
                codes = found["codes"]
                source.noqa[token.start[0]] = (
                    frozenset(re.split(r"[,\s]+", codes.upper())) if codes else None)
            if token.start[0] <= _OFF_LINES and _OFF.search(token.string):
                source.off = True
    except (tokenize.TokenError, SyntaxError):
        pass  # the tree was parsed; a comment that cannot be read silences nothing


def read(path: str, data: bytes) -> Source:
    """Parse a file's bytes; raises Unreadable."""
    cells: list[tuple[int, int]] = []
    if path.endswith(".ipynb"):
        text, cells = notebook(data)
    else:
        text = decode(data)
    return parse(path, text, cells)


def parse(path: str, text: str, cells: list[tuple[int, int]] | None = None) -> Source:
    text = text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
    try:
        tree = ast.parse(text)
    except SyntaxError as why:
        line = why.lineno or 0
        if "print" in (why.msg or "") and "parentheses" in (why.msg or ""):
            raise Unreadable("is Python 2 (print without parentheses)", line) from None
        raise Unreadable(f"cannot be parsed: {why.msg}", line) from None
    except (ValueError, MemoryError, RecursionError) as why:
        raise Unreadable(f"cannot be parsed: {why or type(why).__name__}") from None
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    starts, at = [], 0
    for row in lines:
        starts.append(at)
        at += len(row) + 1
    source = Source(path, text, tree, lines or [""], starts or [0], cells=cells or [])
    _comments(source)
    return source
