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
LARGEST_NOTEBOOK = 256 << 20  #: pictures in a notebook's outputs are text in its JSON
_NOQA = re.compile(r"#\s*noqa(?::\s*(?P<codes>[A-Z][0-9A-Z]*(?:[,\s]+[A-Z]+[0-9]+)*))?", re.IGNORECASE)
_OFF = re.compile(r"#\s*plimsoll:\s*off\b")
_CELL = re.compile(r"^# ?%%", re.MULTILINE)
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
    left_out: str = ""  #: notebooks: cells that do not parse; the others are linted

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

    def shown(self, stmt: ast.stmt) -> bool:
        """Is it the last statement of a notebook's cell, or of a `# %%` cell, so that its value is printed there?"""
        end = (stmt.end_lineno or stmt.lineno)
        if self.cells:
            following = bisect_right(self.cells, (end, 1 << 30))
            stop = self.cells[following][0] - 1 if following < len(self.cells) else len(self.lines)
            return not any(row.strip() and not row.lstrip().startswith("#") for row in self.lines[end:stop])
        if not _CELL.search(self.text):
            return False
        for row in self.lines[end:]:
            if _CELL.match(row):
                return True
            if row.strip() and not row.startswith("#"):
                return False
        return True

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
        raise Unreadable(f"larger than {LARGEST_BYTES >> 20} MiB: generated, or data; not read")
    if b"\0" in data:
        raise Unreadable(f"holds a zero byte at offset {data.index(0)}: no Python text")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding)
    except (SyntaxError, LookupError, UnicodeDecodeError) as why:
        raise Unreadable(f"cannot be decoded: {str(why).splitlines()[0]}") from None
    return text[1:] if text.startswith("\ufeff") else text


_MAGIC = re.compile(r"^(\s*)(?:[\w, ]+ = *)?(%{1,2}[A-Za-z]|!|\?|[\w.]+\?{1,2}\s*$)")
_CELL_MAGIC = re.compile(r"\s*%%(\w+)")
_RUNS_THE_CELL = frozenset("time timeit capture prun".split())  #: of these the cell is Python all the same


def _python(text: str) -> SyntaxError | None:
    """Why a cell does not parse; `await` is allowed at its top."""
    try:
        compile(text, "cell", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except SyntaxError as why:
        return why
    except (ValueError, MemoryError, RecursionError) as why:
        return SyntaxError(str(why) or type(why).__name__)
    return None


def _cell(text: str) -> tuple[str, SyntaxError | None]:
    """A cell's Python: where it does not parse as it stands, lines of IPython's own become `pass`."""
    why = _python(text)
    if why is None:
        return text, None
    plain = "\n".join(_MAGIC.sub(r"\1pass #", line, count=1) for line in text.split("\n"))
    return plain, _python(plain)


def _code_cells(data: bytes) -> list[tuple[int, str]]:
    """Number, from 1, and text of each code cell; none where the notebook is in another language."""
    try:
        book = json.loads(data)
        info = book.get("metadata", {})
        language = str(info.get("language_info", {}).get("name") or info.get("kernelspec", {}).get("language") or "python")
        cells = book["cells"] if "cells" in book else book["worksheets"][0]["cells"]
        code = [(number, cell.get("source", cell.get("input", ""))) for number, cell in enumerate(cells, 1)
                if cell.get("cell_type") == "code"]
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        raise Unreadable("no notebook: JSON with cells was expected") from None
    if not language.lower().startswith(("python", "ipython")):
        return []
    return [(number, "".join(str(s) for s in source) if isinstance(source, list) else str(source)) for number, source in code]


def notebook(data: bytes) -> tuple[str, list[tuple[int, int]], str]:
    """The code cells of an .ipynb file as one text, where each begins, and why some were left out ("" where none was)."""
    lines: list[str] = []
    places: list[tuple[int, int]] = []
    bad: list[str] = []
    for number, text in _code_cells(data):
        magic = _CELL_MAGIC.match(text)
        if magic and magic[1] not in _RUNS_THE_CELL:
            continue  # another language, or a file
        text, why = _cell(text.replace("\r\n", "\n").replace("\r", "\n"))
        if why is not None:
            bad.append(f"cell {number}, line {why.lineno or 1}: {'Python 2' if _python2(why) else why.msg}")
            continue
        places.append((len(lines) + 1, number))
        lines += text.split("\n")
    if bad and not places:
        raise Unreadable(f"cannot be parsed: {bad[0]}")
    more = f" and {len(bad) - 3} more" if len(bad) > 3 else ""
    left_out = f"left out, because they cannot be parsed: {'; '.join(bad[:3])}{more}" if bad else ""
    return "\n".join(lines) + "\n", places or [(1, 1)], left_out


def _python2(why: SyntaxError) -> bool:
    return "print" in (why.msg or "") and "parentheses" in (why.msg or "")


def _comments(source: Source) -> None:
    """Fill `noqa` and `off` from comments; `tokenize` knows a comment from a string."""
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
    if not path.endswith(".ipynb"):
        return parse(path, decode(data))
    if len(data) > LARGEST_NOTEBOOK:
        raise Unreadable(f"larger than {LARGEST_NOTEBOOK >> 20} MiB: not read (clear the notebook's outputs)")
    text, cells, left_out = notebook(data)
    source = parse(path, text, cells)
    source.left_out = left_out
    return source


def parse(path: str, text: str, cells: list[tuple[int, int]] | None = None) -> Source:
    text = text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
    try:
        tree = compile(text, path, "exec", ast.PyCF_ONLY_AST | (ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if cells else 0), dont_inherit=True)
    except SyntaxError as why:
        line = why.lineno or 0
        if _python2(why):
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
