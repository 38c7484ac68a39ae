"""Progress of a long call: one line on a terminal's stderr, one output in a notebook, nothing elsewhere."""
from __future__ import annotations

import shutil
import sys
from typing import Any


class Line:
    def __init__(self, what: str) -> None:
        self.what, self.last = what, ""

    def show(self, progress: tuple[int, int] | None) -> None:
        text = sentence(self.what, progress)[: shutil.get_terminal_size().columns - 1]
        if text != self.last:
            sys.stderr.write("\r" + text.ljust(len(self.last)))
            sys.stderr.flush()
            self.last = text

    def clear(self) -> None:
        sys.stderr.write("\r" + " " * len(self.last) + "\r")
        sys.stderr.flush()


class Output:
    def __init__(self, what: str) -> None:
        from IPython.display import display

        self.what, self.last = what, ""
        self.handle: Any = display({"text/plain": "…"}, raw=True, display_id=True)

    def show(self, progress: tuple[int, int] | None) -> None:
        text = sentence(self.what, progress)
        if text != self.last and self.handle is not None:
            self.handle.update({"text/plain": text}, raw=True)
            self.last = text

    def clear(self) -> None:
        if self.handle is not None:
            self.handle.update({"text/plain": ""}, raw=True)


def sentence(what: str, progress: tuple[int, int] | None) -> str:
    if progress is None:
        return f"{what} ..."
    done, total = progress
    if done >= total:
        return f"{what}: all read, explaining ..."
    return f"{what}: {100 * done // total} % of {total / 1e6:,.0f} MB read"


def in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    get = getattr(shell, "get_ipython", None)
    found = get() if get else None
    return found is not None and type(found).__name__ == "ZMQInteractiveShell"


def shower(what: str, wanted: bool | None) -> Line | Output | None:
    if in_notebook():
        return Output(what)
    if wanted or (sys.stderr is not None and sys.stderr.isatty()):
        return Line(what)
    return None
