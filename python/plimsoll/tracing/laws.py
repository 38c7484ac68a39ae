"""Traces of one program with two batches, or three sequences, become one: each request has its bytes with either.

What lives beyond one operation must be the same in both, event by event.  What operators take for a moment may be there
in one alone (a sort only from some size on): it has no bytes in the other.
"""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Iterator, Sequence

from .packed import CATEGORIES, Trace

__all__ = ["grow", "lengthen"]

WORKSPACE = CATEGORIES.index("workspace")
COLUMNS = ("grown", "longer", "longest")


@dataclass(slots=True)
class Event:
    """One that lasts: a birth, an end (which birth, by its number among those that last) or a phase's end; `before` are
    the requests that came and went since the event before it."""

    kind: str
    number: int = -1   # of the request, in its own trace
    of: int = -1       # among those that last
    before: list[int] = field(default_factory=list)


def _is_moment(t: Trace, at: int, request: int) -> int:
    """How many requests from event `at` on are taken at once and given back at once, last first; 0: none."""
    n = 0
    while at + n < len(t.events) and t.events[at + n] > 0 and t.category[request + n] == WORKSPACE:
        n += 1
    while n and [-e - 1 for e in t.events[at + n:at + 2 * n]] != list(range(request + n - 1, request - 1, -1)):
        n -= 1
    return n


def _lasting(t: Trace) -> Iterator[Event]:
    numbers: dict[int, int] = {}
    before: list[int] = []
    at = request = 0
    while at < len(t.events):
        e = t.events[at]
        moment = _is_moment(t, at, request) if e > 0 else 0
        if moment:
            before += range(request, request + moment)
            request += moment
            at += 2 * moment
            continue
        at += 1
        if e > 0:
            numbers[request] = len(numbers)
            yield Event("birth", request, numbers[request], before)
            request += 1
        else:
            yield Event("end", -1, numbers[-e - 1], before) if e else Event("phase", before=before)
        before = []
    yield Event("last", before=before)


def _ordered(events: Iterator[Event]) -> list[Event]:
    """Ends between which nothing is asked for, by number: autocast drops its copies in the order of a hash table."""
    out: list[Event] = []
    run: list[Event] = []
    for e in events:
        if run and (e.kind != "end" or e.before):
            out += _by_number(run)
            run = []
        if e.kind == "end":
            run.append(e)
        else:
            out.append(e)
    return out


def _by_number(run: list[Event]) -> list[Event]:
    before, run[0].before = run[0].before, []
    run.sort(key=lambda e: e.of)
    run[0].before = before
    return run


def _name(t: Trace, request: int) -> tuple[str, str]:
    return t.operators[t.operator[request]], t.places[t.place[request]]


def _sizes(t: Trace) -> list[int]:
    return [e for e in t.events if e > 0]


def _meet(one: Trace, a: Sequence[int], two: Trace, b: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Momentary requests of both side by side, by what asks for them; -1 where there is none."""
    i = j = 0
    while i < len(a) or j < len(b):
        if i < len(a) and j < len(b) and _name(one, a[i]) == _name(two, b[j]):
            yield a[i], b[j]
            i, j = i + 1, j + 1
        elif i < len(a) and (j == len(b) or _name(one, a[i]) not in (_name(two, x) for x in b[j:])):
            yield a[i], -1
            i += 1
        else:
            yield -1, b[j]
            j += 1


class Merged:
    """The trace that is made, column by column; a request that one of them has not is one byte there."""

    def __init__(self, one: Trace, two: Trace) -> None:
        self.one, self.two = one, two
        self.sizes = _sizes(one), _sizes(two)
        self.events: list[int] = []
        self.other: list[int] = []  # bytes in `two`
        self.kept: dict[str, tuple[list[int], list[int]]] = {  # of others that are part of `one`: what it has, what is made
            name: (getattr(one, name), []) for name in COLUMNS if getattr(one, name)}
        self.columns: tuple[list[int], list[int], list[int]] = ([], [], [])
        self.operators = {name: i for i, name in enumerate(one.operators)}
        self.places = {name: i for i, name in enumerate(one.places)}

    def _number(self, names: list[str], ids: dict[str, int], name: str) -> int:
        if name not in ids:
            ids[name] = len(names)
            names.append(name)
        return ids[name]

    def birth(self, a: int, b: int) -> int:
        source, request = (self.one, a) if a >= 0 else (self.two, b)
        operator, place = _name(source, request)
        self.events.append(self.sizes[0][a] if a >= 0 else 1)
        self.other.append(self.sizes[1][b] if b >= 0 else 1)
        for had, made in self.kept.values():
            made.append(had[a] if a >= 0 else 1)
        place_of, operator_of, category_of = self.columns
        place_of.append(self._number(self.one.places, self.places, place))
        operator_of.append(self._number(self.one.operators, self.operators, operator))
        category_of.append(source.category[request])
        return len(self.other) - 1

    def moment(self, a: Sequence[int], b: Sequence[int]) -> None:
        for x, y in _meet(self.one, a, self.two, b):
            self.events.append(-self.birth(x, y) - 1)


def _merge(one: Trace, two: Trace, of: str, column: str) -> str:
    """Puts the bytes of `two`, the same program at another size, into a column of `one`; gives why it cannot, or ""."""
    if one.phases != two.phases:
        return f"its phases depend on the {of}"
    merged = Merged(one, two)
    last: dict[int, int] = {}
    first, second = _ordered(_lasting(one)), _ordered(_lasting(two))
    for n, (a, b) in enumerate(zip(first, second)):
        if (a.kind, a.of) != (b.kind, b.of) or (a.kind == "birth" and _name(one, a.number) != _name(two, b.number)):
            where = " in ".join(w for w in _name(one, a.number) if w) if a.kind == "birth" else a.kind
            return f"its requests depend on the {of} (event {n}, {where})"
        merged.moment(a.before, b.before)
        if a.kind == "birth":
            last[a.of] = merged.birth(a.number, b.number)
        elif a.kind == "end":
            merged.events.append(-last[a.of] - 1)
        elif a.kind == "phase":
            merged.events.append(0)
    if len(first) != len(second):
        return f"its requests depend on the {of}"
    one.events = merged.events
    for name, (_, made) in merged.kept.items():
        setattr(one, name, made)
    setattr(one, column, merged.other)
    one.place, one.operator, one.category = merged.columns
    return ""


def grow(one: Trace, two: Trace) -> str:
    """Puts what `two` has, the same program with another batch, next to what `one` has; gives why it cannot, or ""."""
    why = _merge(one, two, "batch", "grown")
    one.grown_batch = 0 if why else two.batch
    return why


def lengthen(one: Trace, two: Trace, three: Trace) -> str:
    """The same with two other sequences: three points of each request's line or parabola."""
    why = _merge(one, two, "sequence", "longer") or _merge(one, three, "sequence", "longest")
    if not why and _sizes(one) == one.longer == one.longest:
        why = "nothing of it does"
    one.sequences = [] if why else [two.sequence, three.sequence]
    return why
