"""Conditions of values that only a run knows, answered as a healthy run answers: its numbers are finite.

A predicate is computed on a few finite numbers in place of what no one knows.  Where they all agree (nothing is NaN, nothing
is infinite) the answer is known of every healthy run; else it is a guess, and the line of the script that asks is kept.
"""
from __future__ import annotations

import operator
import re
import sys
from typing import Any, Callable

import torch
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.weak import WeakIdKeyDictionary

from .errors import HERE, is_the_scripts
from .known import Known

__all__ = ["Guesses", "Unknown"]

NUMBERS = (0.5, -3.0, 1e-6, 1e4)  # each stands for a healthy run; the first is the one that is answered with


AROUND = (1, 0, -1, 2)  # whole numbers, from the one that they are compared with

# Files of PyTorch that lie between a line and the operation it asks for.
BETWEEN = tuple(f"/torch/{name}" for name in ("_tensor.py", "_compile.py", "_dynamo/", "_ops.py", "overrides.py", "utils/_stats.py"))


def _line(frame: Any) -> str:
    """A script's line by its file's name, a library's by its path in the library."""
    path = frame.f_code.co_filename
    name = path.rpartition("/")[2] if is_the_scripts(path) else re.split("(?:site|dist)-packages/", path)[-1]
    return f"{name}:{frame.f_lineno}"


def place() -> str:
    """"train.py:12": who asks; of a library "train.py:12 (in transformers/generation/utils.py:2841)", the script's line that calls it."""
    frame: Any = sys._getframe(1)
    while frame is not None and (frame.f_code.co_filename.startswith(HERE) or any(name in frame.f_code.co_filename for name in BETWEEN)):
        frame = frame.f_back
    asks = frame
    while frame is not None and not is_the_scripts(frame.f_code.co_filename):
        frame = frame.f_back
    if asks is None or frame is asks:
        return _line(asks) if asks is not None else ""
    return f"{_line(frame)} (in {_line(asks)})" if frame is not None else _line(asks)


class Guesses:
    """What such values may be, and which lines depend on them."""

    def __init__(self, known: Known) -> None:
        self.known = known
        self.samples: Any = WeakIdKeyDictionary()  # of tensors that predicates gave: one of each size 1 for each number
        self.numbers: Any = WeakIdKeyDictionary()  # what Python has of tensors of one element
        self.otherwise: frozenset[str] = frozenset()  # lines that are answered the other way
        self.asked: dict[str, bool] = {}              # lines whose answer is a guess

    def _sample(self, t: torch.Tensor, n: int, number: int, beside: int) -> torch.Tensor:
        """`number`: which of the operation's operands; `beside`: the whole number that whole numbers are compared with."""
        known = self.known.of(t)
        if known is not None and known.numel() == 1:
            return known.detach().clone()
        found = self.samples.get(t)
        if found is not None:
            made: torch.Tensor = found[n].clone()
            return made
        value = NUMBERS[(n + number) % len(NUMBERS)] if t.dtype.is_floating_point else beside + AROUND[(n + number) % len(AROUND)]
        return torch.full((1,) * t.dim(), value, dtype=t.dtype)

    def _computed(self, func: Any, args: Any, kwargs: Any, inputs: list[torch.Tensor]) -> list[Any]:
        """The operation on each number; nothing where sizes that are named do not suit one element."""
        beside = next((x for x in tree_leaves((args, kwargs)) if type(x) is int), 0)
        order = {id(t): i for i, t in reversed(list(enumerate(inputs)))}

        def small(n: int) -> Callable[[Any], Any]:
            return lambda x: self._sample(x, n, order[id(x)], beside) if isinstance(x, torch.Tensor) else x
        try:
            with _disable_current_modes(), torch.no_grad():
                return [func(*tree_map(small(n), args), **tree_map(small(n), kwargs)) for n in range(len(NUMBERS))]
        except Exception:  # noqa: BLE001 - any operation, on sizes that it was not called with
            return []

    def predicate(self, func: Any, args: Any, kwargs: Any, inputs: list[torch.Tensor]) -> bool:
        """Of an operation that gives no tensor but a condition."""
        found = self._computed(func, args, kwargs, inputs)
        return self.decide([bool(x) for x in found] or [True, False])

    def follow(self, func: Any, args: Any, kwargs: Any, inputs: list[torch.Tensor], result: Any) -> None:
        """After an operation: what a predicate gives, and what is made of predicates."""
        if not isinstance(result, torch.Tensor) or not inputs or (
                result.dtype is not torch.bool and not any(t in self.samples for t in inputs)):
            return
        found = self._computed(func, args, kwargs, inputs)
        if not found or not all(isinstance(x, torch.Tensor) and x.numel() == 1 for x in found):
            self.samples.pop(result, None)
            return
        if func._schema.name == "aten::any" and inputs[0].numel() > 1:
            with _disable_current_modes():
                found[0] = torch.full_like(found[0], any(bool(x) for x in found))  # of many elements one is
        self.samples[result] = found

    def healthy(self, t: torch.Tensor) -> None:
        """GradScaler's own flag: no gradient is infinite."""
        with _disable_current_modes():
            self.samples[t] = [torch.zeros((1,) * t.dim(), dtype=t.dtype) for _ in NUMBERS]

    def unknown(self, t: torch.Tensor) -> Unknown:
        """The same number each time that Python asks a tensor for it."""
        if t not in self.numbers:
            self.numbers[t] = Unknown(NUMBERS[0], self)
        found: Unknown = self.numbers[t]
        return found

    def decide(self, answers: list[bool]) -> bool:
        """One answer for what each number would have."""
        if all(a == answers[0] for a in answers):
            return answers[0]
        where = place()
        answer = answers[0] != (where in self.otherwise)
        self.asked[where] = answer
        return answer

    def condition(self, t: torch.Tensor) -> bool:
        found = self.samples.get(t)
        if found is None:
            return self.decide([True] + [False] * (len(NUMBERS) - 1))
        with _disable_current_modes():
            answers = [bool(x) for x in found]
        return self.decide(answers)

    def number(self, t: torch.Tensor) -> Any:
        """None: nothing is known of it."""
        found = self.samples.get(t)
        if found is None:
            return None
        with _disable_current_modes():
            values = [x.item() for x in found]
        return values[0] if all(v == values[0] for v in values) else None


def _compared(compare: Callable[[Any, Any], bool]) -> Callable[..., Any]:
    def run(self: Unknown, other: Any) -> Any:
        if not isinstance(other, (int, float)):
            return NotImplemented
        value = float(other)
        if other is self:
            return compare(value, value)
        shifted = NUMBERS[1:] + NUMBERS[:1] if isinstance(other, Unknown) else (value,) * len(NUMBERS)
        return self.guesses.decide([compare(n, other_n) for n, other_n in zip(NUMBERS, shifted)])
    return run


def _computed(compute: Callable[..., Any]) -> Callable[..., Any]:
    def run(self: Unknown, *others: Any) -> Any:
        value = compute(float(self), *(float(o) if isinstance(o, Unknown) else o for o in others))
        return Unknown(value, self.guesses) if isinstance(value, float) else value
    return run


class Unknown(float):
    """A number that only a run knows, as Python has it: what is compared with it is a guess."""

    guesses: Guesses

    def __new__(cls, value: float, guesses: Guesses) -> Unknown:
        made = super().__new__(cls, value)
        made.guesses = guesses
        return made

    __lt__, __le__, __gt__, __ge__ = (_compared(f) for f in (operator.lt, operator.le, operator.gt, operator.ge))
    __eq__, __ne__ = _compared(operator.eq), _compared(operator.ne)
    __hash__ = float.__hash__
    __add__, __radd__, __sub__, __rsub__, __mul__, __rmul__, __truediv__, __neg__, __abs__ = (_computed(getattr(float, name)) for name in (
        "__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__", "__neg__", "__abs__"))

    def __reduce__(self) -> Any:
        return float, (float(self),)
