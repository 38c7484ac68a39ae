"""What stopped a trace, in one line, with the user's own line and what to do."""
from __future__ import annotations

import os
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
HINTS = (
    ("DynamicOutputShape", "an operator's result is as large as values say that only a run knows: that is not traced"),
    ("DataDependentOutput", "the program branches on values of a tensor: that is not traced"),
    ("UnsupportedOperator", "an operator has no rule for fake tensors; it is not run instead"),
)


def _user_line(e: BaseException) -> str:
    """The last frame that is neither PyTorch's nor ours."""
    frames = [f for f in traceback.extract_tb(e.__traceback__)
              if "/torch/" not in f.filename and not f.filename.startswith(HERE) and "<frozen" not in f.filename]
    return f"{frames[-1].filename}:{frames[-1].lineno}: " if frames else ""


def told(e: BaseException) -> str:
    """"plimsoll: ..." in lines of their own; PLIMSOLL_DEBUG=1 adds the traceback."""
    kind = type(e).__name__
    text = " ".join(str(e).split())[:300] or kind
    lines = [f"plimsoll: the trace stopped: {_user_line(e)}{'' if isinstance(e, (ValueError, OSError)) else kind + ': '}{text}"]
    if e.__cause__ is not None:
        lines.append(f"  because of {type(e.__cause__).__name__}: {' '.join(str(e.__cause__).split())[:300]}")
    for name, hint in HINTS:
        if name in kind:
            lines.append(f"  {hint}")
    if os.environ.get("PLIMSOLL_DEBUG"):
        lines += traceback.format_exception(e)
    return "\n".join(lines) + "\n"
