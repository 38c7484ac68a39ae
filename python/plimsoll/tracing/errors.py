"""What stopped a trace, in one line, with the user's own line and what to do."""
from __future__ import annotations

import os
import sysconfig
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
STANDARD = sysconfig.get_paths()["stdlib"]
HINTS = (
    ("DynamicOutputShape", "an operator's result is as large as values say that only a run knows: that is not traced"),
    ("DataDependentOutput", "the program branches on values of a tensor: that is not traced"),
    ("UnsupportedOperator", "an operator has no rule for fake tensors; it is not run instead"),
)


def is_the_scripts(filename: str) -> bool:
    """Neither of a library, nor of Python, nor of the tracer."""
    return not (filename.startswith((HERE, STANDARD)) or "site-packages/" in filename or "dist-packages/" in filename or
                "/torch/" in filename or filename.startswith("<frozen"))


def _lines(e: BaseException) -> str:
    """The script's own last line, and the library's line that it came to."""
    frames = [f for f in traceback.extract_tb(e.__traceback__)
              if "/torch/" not in f.filename and not f.filename.startswith(HERE) and "<frozen" not in f.filename]
    own = [f for f in frames if is_the_scripts(f.filename)]
    if not frames:
        return ""
    within = f"(in {frames[-1].filename}:{frames[-1].lineno}) " if own and own[-1] is not frames[-1] else ""
    shown = (own or frames)[-1]
    return f"{shown.filename}:{shown.lineno}: {within}"


def _first_cause(e: BaseException) -> BaseException:
    seen = {id(e)}
    while True:
        under = e.__cause__ or (None if e.__suppress_context__ else e.__context__)
        if under is None or id(under) in seen:
            return e
        seen.add(id(under))
        e = under


def told(e: BaseException) -> str:
    """"plimsoll: ..." in lines of their own; PLIMSOLL_DEBUG=1 adds the traceback."""
    kind = type(e).__name__
    text = " ".join(str(e).split())[:300] or kind
    lines = [f"plimsoll: the trace stopped: {_lines(e)}{'' if isinstance(e, (ValueError, OSError)) else kind + ': '}{text}"]
    first = _first_cause(e)
    if first is not e:
        lines.append(f"  because of {_lines(first)}{type(first).__name__}: {' '.join(str(first).split())[:300]}")
    for name, hint in HINTS:
        if name in kind:
            lines.append(f"  {hint}")
    if os.environ.get("PLIMSOLL_DEBUG"):
        lines += traceback.format_exception(e)
    return "\n".join(lines) + "\n"
