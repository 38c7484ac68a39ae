"""What a trace is doing, on standard error: at once on a terminal, elsewhere once it has taken two seconds."""
from __future__ import annotations

import os
import sys
import threading
from typing import TextIO

__all__ = ["Progress"]

LATE_S = 2.0


class Progress:
    """`own_line`: what is traced writes to standard error as well, so nothing is written over."""

    def __init__(self, own_line: bool, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self.over = self.stream.isatty() and not own_line and os.environ.get("TERM") != "dumb"
        self.stage = ""
        self.shown = self.stream.isatty()
        self.lock = threading.Lock()
        self.timer = threading.Timer(LATE_S, self._late)
        self.timer.daemon = True
        if not self.shown:
            self.timer.start()

    def say(self, stage: str) -> None:
        with self.lock:
            self.stage = stage
            self._write()

    def done(self) -> None:
        """Nothing is said any more."""
        self.timer.cancel()
        with self.lock:
            if self.over and self.stage:
                self.stream.write("\r\033[K")
                self.stream.flush()
            self.shown = False

    def _late(self) -> None:
        with self.lock:
            self.shown = True
            self._write()

    def _write(self) -> None:
        if not self.shown or not self.stage:
            return
        text = f"plimsoll: {self.stage} ..."
        self.stream.write(f"\r\033[K{text}" if self.over else text + "\n")
        self.stream.flush()
