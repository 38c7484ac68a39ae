"""A trace as a file: JSON (schema trace/1), columns of whole numbers, gzip.  docs/architecture.md draws it."""
from __future__ import annotations

import gzip
import json
import os
from dataclasses import dataclass, field
from typing import Any

__all__ = ["CATEGORIES", "Trace"]

# As the planner's enum timeline_category names them.
CATEGORIES = ("parameter", "gradient", "optimizer_state", "activation", "input", "workspace", "temporary",
              "autograd_detail", "kv_cache", "buffer", "unknown")


@dataclass(slots=True)
class Trace:
    """Requests in order.  `events`: a positive number is the birth of the next request (its bytes), a negative one
    the end of request -n - 1; 0 is the end of the phase at hand."""

    model: str = ""
    recipe: str = ""
    parameters: int = 0
    trainable: int = 0
    batch: int = 1
    sequence: int = 0
    task: str = "train"
    torch: str = ""
    transformers: str = ""
    way: str = ""
    capability: int = 90
    unknown_bytes: int = 0
    phases: list[str] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    operators: list[str] = field(default_factory=list)
    assumed: list[str] = field(default_factory=list)
    unsure: list[str] = field(default_factory=list)   # what was guessed and decides the bytes: it forbids a verdict
    guessed: list[str] = field(default_factory=list)  # lines of a script that ask for values: "train.py:12 true"
    asked: list[str] = field(default_factory=list)    # the options that it was made with, "precision=fp32" each
    events: list[int] = field(default_factory=list)
    place: list[int] = field(default_factory=list)
    operator: list[int] = field(default_factory=list)
    category: list[int] = field(default_factory=list)
    grown_batch: int = 0                              # another batch that was traced as well (laws.py)
    grown: list[int] = field(default_factory=list)    # ... and the requests' bytes with it
    positions: int = 0                                # that the model has; 0: no one says
    sequences: list[int] = field(default_factory=list)  # two others that were traced as well
    longer: list[int] = field(default_factory=list)   # ... and the requests' bytes with the first
    longest: list[int] = field(default_factory=list)  # ... and with the second

    def guesses(self) -> dict[str, str]:
        """Lines that asked for values, and how they were answered."""
        said = (line.rpartition(" ") for line in self.guessed)
        return {line: answer for line, _, answer in said}

    def peak(self) -> int:
        """The most bytes that live at once."""
        sizes: list[int] = []
        live = most = 0
        for event in self.events:
            if event > 0:
                sizes.append(-(-event // 512) * 512)
                live += sizes[-1]
                most = max(most, live)
            elif event < 0:
                live -= sizes[-event - 1]
        return most

    def to_json(self) -> dict[str, Any]:
        return {"schema": "trace/1", **{name: getattr(self, name) for name in self.__slots__}}

    @classmethod
    def read(cls, path: str) -> Trace:
        """What `write` wrote, of this release."""
        with gzip.open(path, "rt", encoding="utf-8") as f:
            values = json.load(f)
        return cls(**{name: values[name] for name in cls.__slots__})

    def write(self, path: str) -> None:
        """Whole or not at all; gzip without a date, so that equal traces are equal files."""
        text = json.dumps(self.to_json(), separators=(",", ":")).encode()
        part = f"{path}.part"
        with open(part, "wb") as f:
            f.write(gzip.compress(text, 9, mtime=0))
        os.replace(part, path)
