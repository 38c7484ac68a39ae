"""What the linter says: a finding, its place in a file, and the edits that would fix it."""
from __future__ import annotations

from dataclasses import dataclass, field

#: Severities, from the heaviest: an error breaks the run or grows without bound, a warning costs memory or time
#: worth having back, an info is a fact that the author may well have chosen.
SEVERITIES = ("error", "warning", "info")


@dataclass(slots=True, frozen=True)
class Place:
    """A range of text.  Lines and columns count from 1, columns are characters; the end is exclusive."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    cell: int | None = None  #: of a notebook, from 1; lines then count within the cell


@dataclass(slots=True, frozen=True)
class Edit:
    """Replace the characters [start, end) of the file's text (0-based offsets) by `text`."""

    start: int
    end: int
    text: str


@dataclass(slots=True, frozen=True)
class Cost:
    """What the mistake costs: in words, in bytes a repetition where one number says it, and who measured it."""

    text: str
    bytes: int | None
    source: str


@dataclass(slots=True)
class Finding:
    """One mistake at one place.  `confidence` is from 0 to 1: how sure it is that this is what `id` says."""

    id: str
    severity: str
    confidence: float
    title: str
    place: Place
    evidence: list[str] = field(default_factory=list)
    fix: list[str] = field(default_factory=list)
    edits: list[Edit] = field(default_factory=list)
    fix_is_safe: bool = False
    cost: Cost | None = None
    joined: bool = False  #: a recording measured this mistake; `cost` is then its measurement
    lines: list[int] = field(default_factory=list)  #: all lines, where one finding speaks for several
    line_text: str = ""

    def order(self) -> tuple[str, int, int, str]:
        return (self.place.file, self.place.line, self.place.column, self.id)
