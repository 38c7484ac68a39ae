"""Activation checkpointing by the model's own call, if its gradient is bitwise the same: dropout on, in the model's own precision."""
from __future__ import annotations

import contextlib
import warnings
from typing import Any, Callable, Generator


def is_able(model: Any) -> bool:
    """Has it a call of its own, not yet made?"""
    return bool(callable(getattr(model, "gradient_checkpointing_enable", None)) and getattr(model, "supports_gradient_checkpointing", False)
                and not getattr(model, "is_gradient_checkpointing", True))


def switch(model: Any, on: bool) -> None:
    """Hugging Face's call, or its opposite."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # newer releases have another name for it, too
        if on:
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        else:
            model.gradient_checkpointing_disable()


@contextlib.contextmanager
def switched(model: Any, on: bool) -> Generator[None, None, None]:
    """Checkpointing for as long as this is entered."""
    if on:
        switch(model, True)
    try:
        yield
    finally:
        if on:
            switch(model, False)


def _buffers(model: Any) -> list[Any]:
    return [b.detach().clone() for b in model.buffers()]


def _is_same(a: Any, b: Any) -> bool:
    import torch
    return a is b if a is None or b is None else torch.equal(a, b)


def compare(model: Any) -> Generator[None, bool, bool]:
    """Yields three times, for a gradient of the same samples: twice as the model is, then checkpointed.  send(False): it failed.

    Returns whether gradients and buffers are bitwise the same.  Weights, buffers, gradients (none) and random generators are as
    before afterwards.  A model that does not repeat itself without checkpointing is not the same, either.
    """
    import torch
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    before, results = _buffers(model), []
    strict, warned = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()

    def restore() -> None:
        model.zero_grad(set_to_none=True)
        with torch.no_grad():
            for b, value in zip(model.buffers(), before):
                b.copy_(value)

    with torch.random.fork_rng(devices), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        states = torch.get_rng_state(), [torch.cuda.get_rng_state(d) for d in devices]
        torch.use_deterministic_algorithms(True, warn_only=True)
        try:
            for on in (False, False, True):
                restore()
                torch.set_rng_state(states[0])
                for device, state in zip(devices, states[1]):
                    torch.cuda.set_rng_state(state, device)
                with switched(model, on):
                    if not (yield):
                        return False
                results.append([None if p.grad is None else p.grad.detach().clone() for p in model.parameters()] + _buffers(model))
        finally:
            torch.use_deterministic_algorithms(strict, warn_only=warned)
            restore()
    return any(g is not None for g in results[0]) and all(_is_same(a, b) for other in results[1:] for a, b in zip(results[0], other))


def is_bitwise(model: Any, take: Callable[[], Any]) -> bool:
    """Whether it is, if a gradient can be had by a call."""
    import torch
    running = compare(model)
    next(running)
    try:
        while True:
            try:
                take()
                there = True
            except torch.OutOfMemoryError:
                there = False
            except Exception:  # a router that counts its tokens twice, for one
                there = False
            running.send(there)
    except StopIteration as done:
        return bool(done.value)
