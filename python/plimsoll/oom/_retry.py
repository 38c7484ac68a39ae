"""retry_on_oom and auto_batch_size: the next attempt is made outside of the except block, smaller, with everything restored."""
from __future__ import annotations

import functools
import gc
import inspect
import reprlib
import sys
import time
import weakref
from dataclasses import dataclass
from typing import Any, Callable, Concatenate, Generic, NoReturn, ParamSpec, TypeVar, overload

from .. import _torch
from ._guard import OutOfMemory, is_oom
from ..memory._owners import forget
from ..errors import ArgumentError, UnsupportedError

T = TypeVar("T")
P = ParamSpec("P")


@dataclass(frozen=True)
class OomEvent:
    """One failure: at which size, and what was still allocated once the frames of the exception were cleared."""

    size: int
    next_size: int
    error: OutOfMemory
    allocated_before_bytes: int | None
    allocated_after_bytes: int | None

    @property
    def kept_bytes(self) -> int | None:
        """What the attempt left behind; more than a little means that someone outside of it holds its tensors."""
        if self.allocated_after_bytes is None or self.allocated_before_bytes is None:
            return None
        return max(0, self.allocated_after_bytes - self.allocated_before_bytes)

    def __repr__(self) -> str:
        return f"OomEvent(size={self.size}, next_size={self.next_size}, error={self.error!r})"


@dataclass(frozen=True)
class Retried(Generic[T]):
    """What the attempt that worked gave, its size, and those that did not."""

    value: T
    size: int
    events: tuple[OomEvent, ...]

    def __repr__(self) -> str:
        """One line: a value is shown if it is short, else by its class."""
        plain = self.value is None or isinstance(self.value, (bool, int, float, str))
        value = reprlib.repr(self.value) if plain else f"<{type(self.value).__qualname__}>"
        return f"Retried(size={self.size}, value={value}, {len(self.events)} attempt{'' if len(self.events) == 1 else 's'} out of memory)"


class Restore:
    """What a step changes, kept on the host: parameters, buffers, gradients, optimizer state, random states, modes.

    restore() makes all of it bitwise as it was, in place: addresses stay.  Costs host memory of as many bytes.
    weights=False: gradients and random states only, for steps that fail before the optimizer runs.
    """

    def __init__(self, model: Any = None, optimizer: Any = None, *, weights: bool = True) -> None:
        torch = _torch.torch()
        self.model, self.optimizer = model, optimizer
        self.tensors: list[tuple[Any, Any]] = []
        self.gradients: list[tuple[Any, Any]] = []
        self.modes: list[tuple[Any, bool]] = []
        if model is not None:
            self.gradients = [(p, None if p.grad is None else (p.grad, p.grad.detach().to("cpu", copy=True)))
                              for p in model.parameters()]
            self.modes = [(module, module.training) for module in model.modules()]
            if weights:
                self.tensors = [(t, t.detach().to("cpu", copy=True)) for t in (*model.parameters(), *model.buffers())]
        self.state = self._keep_state() if optimizer is not None and weights else None
        self.groups = ([{k: v for k, v in group.items() if k != "params"} for group in optimizer.param_groups]
                       if optimizer is not None and self.state is not None else None)
        self.cpu_random = torch.get_rng_state()
        self.cuda_random = torch.cuda.get_rng_state_all() if _torch.cuda_started() else None

    def __repr__(self) -> str:
        of = [kind for kind, kept in (("weights", self.tensors), ("gradients", self.gradients), ("optimizer", self.state is not None)) if kept]
        return f"<Restore of {', '.join([*of, 'random states'])}>"

    def __reduce__(self) -> Any:
        raise UnsupportedError("a Restore belongs to the tensors of its process; it cannot be pickled")

    def _keep_state(self) -> dict[Any, dict[str, Any]]:
        torch = _torch.torch()
        return {key: {name: (value, value.detach().to("cpu", copy=True)) if isinstance(value, torch.Tensor) else value
                      for name, value in state.items()} for key, state in self.optimizer.state.items()}

    def restore(self) -> None:
        torch = _torch.torch()
        with torch.no_grad():
            for tensor, kept in self.tensors:
                tensor.copy_(kept)
            for parameter, before in self.gradients:
                parameter.grad = None if before is None else before[0]
                if before is not None:
                    before[0].copy_(before[1])
            if self.state is not None:
                self._put_state()
        for module, training in self.modes:
            module.training = training
        torch.set_rng_state(self.cpu_random)
        if self.cuda_random is not None:
            torch.cuda.set_rng_state_all(self.cuda_random)

    def _put_state(self) -> None:
        assert self.state is not None and self.groups is not None
        self.optimizer.state.clear()
        for key, state in self.state.items():
            self.optimizer.state[key] = {name: self._put(value) for name, value in state.items()}
        for group, before in zip(self.optimizer.param_groups, self.groups):
            for name, value in before.items():
                group[name] = value

    @staticmethod
    def _put(value: Any) -> Any:
        if isinstance(value, tuple) and len(value) == 2 and hasattr(value[0], "copy_"):
            value[0].copy_(value[1])
            return value[0]
        return value


class _Sizes:
    """What is known of one function in this process: the largest size that fits (0: none yet) and the least that does not."""

    __slots__ = ("fits", "fails")

    def __init__(self) -> None:
        self.fits = 0
        self.fails: int | None = None

    def fitted(self, size: int) -> None:
        self.fits = max(self.fits, size)
        if self.fails is not None and self.fails <= size:  # another process has given memory back
            self.fails = None

    def failed(self, size: int) -> None:
        self.fails = size if self.fails is None else min(self.fails, size)
        if self.fits >= size:
            self.fits = 0

    def first(self, size: int) -> int:
        return size if self.fails is None or self.fails > size else self.fits or size

    def smaller(self, size: int, min_size: int, shrink: float) -> int:
        """After `size` failed: between what fits and what does not, what fits if nothing lies between, else a part of it."""
        if self.fits:
            return (self.fits + size) // 2
        return max(min_size, min(size - 1, int(size * shrink)))

    def larger(self, size: int, most: int) -> int | None:
        """After `size` fitted; None: it is the largest up to `most`."""
        end = min(most + 1, self.fails or most + 1)
        return (size + end) // 2 if end - size > 1 else None


_known: weakref.WeakKeyDictionary[Any, dict[Any, _Sizes]] = weakref.WeakKeyDictionary()  # by function, or object and method


def _sizes_of(fn: Any) -> _Sizes:
    """Of a function object, or of a method of one object.  A lambda that is written in the call is a new one each time."""
    owner, method = (fn.__self__, fn.__func__) if inspect.ismethod(fn) else (fn, None)
    try:
        return _known.setdefault(owner, {}).setdefault(method, _Sizes())
    except TypeError:  # it cannot be a key, or not be held weakly
        return _Sizes()


@overload
def retry_on_oom(fn: Callable[[int], T], size: int, *, min_size: int = ..., shrink: float = ..., restore: Restore | None = ...,
                 group: Any = ..., on_retry: Callable[[OomEvent], None] | None = ..., timeout_s: float = ...,
                 repeat_s: float = ...) -> Retried[T]: ...


@overload
def retry_on_oom(fn: Any) -> NoReturn: ...


def retry_on_oom(fn: Callable[[int], T], size: int | None = None, *, min_size: int = 1, shrink: float = 0.5, restore: Restore | None = None,
                 group: Any = None, on_retry: Callable[[OomEvent], None] | None = None, timeout_s: float = 10.0,
                 repeat_s: float = 60.0) -> Retried[T]:
    """fn(size), and where memory is refused fn of the largest smaller size that fits; raises the failure if min_size fails too.

    After a failure the size shrinks until it fits, then sizes between one that fits and one that fails are bisected: fn runs
    again after it worked, and last of all with the largest size.  The size is remembered for the function object (not for a
    lambda written in the call): later calls begin with it.  repeat_s: a run that fits and took longer is the last one, 0: the
    first that fits is, as it is with a group.
    The next attempt begins after the except block was left and the exception's frames were cleared: before, they hold every
    tensor of the failed one.  restore: makes weights, gradients, optimizer and random states as they were; None: random
    states only.  group: a torch.distributed process group (True: the default one) whose ranks agree on each attempt: where
    one fails all shrink; where one is stuck or dies all raise within timeout_s.  Other errors pass through.

    >>> retry_on_oom(lambda n: n, 64).size
    64
    """
    if size is None or not callable(fn):
        raise ArgumentError("retry_on_oom takes a function and a size, and is not a decorator",
                            remedy="write retry_on_oom(step, 64), or @auto_batch_size(64)")
    if not 0 < shrink < 1 or min_size < 1 or size < min_size:
        raise ArgumentError("retry_on_oom takes min_size >= 1, size >= min_size and 0 < shrink < 1")
    return _retry(fn, size, _sizes_of(fn), min_size, shrink, restore, _agreement(group, timeout_s), on_retry, repeat_s)


def _retry(fn: Callable[[int], T], most: int, known: _Sizes, min_size: int, shrink: float, restore: Restore | None, agreement: Any,
           on_retry: Callable[[OomEvent], None] | None, repeat_s: float) -> Retried[T]:
    state = restore or (Restore() if "torch" in sys.modules else None)
    events: list[OomEvent] = []
    size = max(min_size, known.first(most))
    while True:
        before, began = allocated(), time.monotonic()
        value, failed = _attempt(fn, size, agreement)
        if failed is None:
            known.fitted(size)
            larger = known.larger(size, most)
            if larger is None or agreement is not None or time.monotonic() - began > repeat_s:
                return Retried(value, size, tuple(events))
            following = larger
        else:
            known.failed(size)
            following = known.smaller(size, min_size, shrink)
        value = None  # type: ignore[assignment]  # it may hold memory; of a rank whose own attempt worked, too
        after = _clean(before)
        if failed is not None:
            events.append(OomEvent(size, following, failed[0], before, after))
            if size <= min_size:
                raise failed[1]
            _torch.logger.info("out of memory at %d, trying %d", size, following)
        if state is not None:
            state.restore()
        if failed is not None and on_retry is not None:
            on_retry(events[-1])
        failed, size = None, following


def _attempt(fn: Callable[[int], T], size: int, agreement: Any) -> tuple[T, tuple[OutOfMemory, BaseException] | None]:
    """What fn gave, or the failure without its frames; all ranks' in one if they are to agree."""
    failed: tuple[OutOfMemory, BaseException] | None = None
    value: Any = None
    if agreement is not None:
        agreement.begin()
    try:
        value = fn(size)
    except BaseException as error:
        told = is_oom(error)
        if agreement is not None:
            told = agreement.judge(error, told)
        if told is None:
            raise
        forget(error)
        failed = (told, error)
    if agreement is not None:
        others = agreement.end(failed is not None)
        if others is not None and failed is None:
            failed = (others, RuntimeError(others.text))
    return value, failed


def _agreement(group: Any, timeout_s: float) -> Any:
    if group is None:
        return None
    from ._ranks import Agreement

    return Agreement(None if group is True else group, timeout_s)


def allocated() -> int | None:
    """Bytes in tensors of the current GPU; None: no GPU is in use."""
    return _torch.memory_of().numbers()[0] if _torch.cuda_started() else None


def _clean(before: int | None) -> int | None:
    """Free what a failed attempt left: cycles only if something is left, the cache only if it is worth it."""
    if before is None:
        return None
    memory = _torch.memory_of()
    now = memory.numbers()
    if now[0] > before:
        gc.collect()
        now = memory.numbers()
    if now[1] - now[0] > now[1] // 10:
        _torch.torch().cuda.empty_cache()
    return now[0]


@overload
def auto_batch_size(start: Callable[Concatenate[int, P], T], /) -> Callable[P, T]: ...


@overload
def auto_batch_size(start: int = ..., *, min_size: int = ..., shrink: float = ..., group: Any = ..., starting_batch_size: int | None = ...,
                    repeat_s: float = ...) -> Callable[[Callable[Concatenate[int, P], T]], Callable[P, T]]: ...


def auto_batch_size(start: Any = 128, *, min_size: int = 1, shrink: float = 0.5, group: Any = None, starting_batch_size: int | None = None,
                    repeat_s: float = 60.0) -> Any:
    """In place of accelerate's find_executable_batch_size: the function's first argument is the batch size, the largest that fits.

    Sizes are tried as by retry_on_oom, which see for the arguments: a function that fits in less than repeat_s seconds is called
    again with larger sizes.  The size is remembered for the process: later calls begin with it.  Without parentheses start is 128.

    >>> @auto_batch_size(64)
    ... def train(batch_size, epochs):
    ...     return batch_size * epochs
    >>> train(2)
    128
    """
    bare = start if callable(start) else None
    start = 128 if bare is not None else start
    first = start if starting_batch_size is None else starting_batch_size
    if not isinstance(first, int):
        raise ArgumentError(f"auto_batch_size takes the first size, not {first!r}", remedy="write @auto_batch_size(64)")
    if not 0 < shrink < 1 or min_size < 1 or first < min_size:
        raise ArgumentError("auto_batch_size takes min_size >= 1, start >= min_size and 0 < shrink < 1")

    def decorate(function: Callable[Concatenate[int, P], T]) -> Callable[P, T]:
        known = _Sizes()
        names = list(inspect.signature(function).parameters)
        if not names:
            raise ArgumentError(f"{function.__name__} takes no argument: its first one is to be the batch size")

        @functools.wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> T:
            if names[0] in kwargs or len(args) >= len(names) and not _takes_more(function):
                raise ArgumentError(f"{function.__name__} is given its {names[0]} by auto_batch_size: leave it out")
            return _retry(lambda size: function(size, *args, **kwargs), first, known, min_size, shrink, None, _agreement(group, 10.0),
                          None, repeat_s).value

        return run

    return decorate if bare is None else decorate(bare)


def _takes_more(function: Callable[..., Any]) -> bool:
    return any(p.kind is p.VAR_POSITIONAL for p in inspect.signature(function).parameters.values())
