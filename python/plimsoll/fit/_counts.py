"""Does a loop count batches by itself?  A part would count as a batch: the loop would end early, or its learning rate would run ahead.

Found by what whole numbers of the script do while a batch goes through it, once as it is and once in parts.
"""
from __future__ import annotations

import ast
import linecache
import sys
from types import FrameType
from typing import Any, Iterator, Mapping

from ._longest import is_own

Numbers = Mapping["tuple[FrameType, str]", int]


def _frames() -> Iterator[FrameType]:
    """Those of the script, from the one that takes batches on."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_own(frame.f_code.co_filename):
            yield frame
        frame = frame.f_back


def numbers() -> Numbers:
    """Whole numbers: local ones, and those of `self`."""
    found: dict[tuple[FrameType, str], int] = {}
    for frame in _frames():
        own = getattr(frame.f_locals.get("self"), "__dict__", {})
        for name, value in (*frame.f_locals.items(), *((f"self.{name}", value) for name, value in own.items())):
            if type(value) is int:
                found[frame, name] = value
    return found


def growth(before: Numbers, after: Numbers) -> Numbers:
    """By how much each has grown."""
    return {key: after[key] - value for key, value in before.items() if key in after}


def counted(whole: Numbers, parts: Numbers) -> set[str]:
    """Names of numbers that grow otherwise if the batch comes in parts, without those of enumerate() that decide nothing."""
    return {name for frame, name in whole.keys() & parts.keys() if whole[frame, name] != parts[frame, name] and not _decides_nothing(frame, name)}


def _source(frame: FrameType) -> list[ast.AST]:
    """Of the frame's file; [] if it is not there."""
    try:
        return list(ast.walk(ast.parse("".join(linecache.getlines(frame.f_code.co_filename, frame.f_globals)))))
    except (SyntaxError, ValueError):
        return []


def is_left() -> bool:
    """Is the script at a `break` or `return`, rather than at an error?"""
    frame = next(_frames(), None)
    return frame is not None and any(isinstance(node, (ast.Break, ast.Return)) and node.lineno == frame.f_lineno for node in _source(frame))


def _loop(frame: FrameType) -> ast.For | None:
    """The innermost `for` that the frame is in."""
    around = [node for node in _source(frame) if isinstance(node, ast.For) and node.lineno <= frame.f_lineno <= (node.end_lineno or 0)]
    return max(around, key=lambda node: node.lineno, default=None)


def _decides_nothing(frame: FrameType, name: str) -> bool:
    """Does enumerate() give it, to a loop that reads it in `name % every` and to print it alone?"""
    loop = _loop(frame)
    if loop is None or not _is_index(loop, name):
        return False
    harmless: set[ast.AST] = set()
    for node in ast.walk(loop):
        if isinstance(node, ast.JoinedStr) or isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) in ("print", "format"):
            harmless |= set(ast.walk(node))
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):  # of a text: what is put into it
            harmless |= set(ast.walk(node.right)) if isinstance(node.left, ast.Constant) else {node.left}
    return all(node in harmless for part in loop.body for node in ast.walk(part) if isinstance(node, ast.Name) and node.id == name)


def _is_index(loop: ast.For, name: str) -> bool:
    call: Any = loop.iter
    first = loop.target.elts[0] if isinstance(loop.target, ast.Tuple) and loop.target.elts else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "enumerate" and isinstance(first, ast.Name) and first.id == name
