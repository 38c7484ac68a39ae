"""Arguments that are given by name only: the error for a call by position shows how to write it."""
from __future__ import annotations

import functools
from typing import Callable, ParamSpec, TypeVar

from .errors import ArgumentError

P = ParamSpec("P")
T = TypeVar("T")


def by_name(spelling: str, most: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Of a function that takes `most` arguments by position (self counts), and the others by name.

    >>> by_name("half(of=4)", 0)(lambda *, of: of / 2)(4)
    Traceback (most recent call last):
    plimsoll.errors.ArgumentError: write half(of=4): the other arguments have names
    """
    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            if len(args) > most:
                raise ArgumentError(f"write {spelling}: the other arguments have names")
            return function(*args, **kwargs)

        return call

    return decorate
