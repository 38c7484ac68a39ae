"""Activation checkpointing by the model's own call, if its gradient is bitwise the same: dropout on, in the model's own precision."""
from __future__ import annotations

import contextlib
import warnings
from typing import Any, Callable, Generator, Sequence


def is_able(model: Any) -> bool:
    """Has it a call of its own, not yet made?"""
    return bool(callable(getattr(model, "gradient_checkpointing_enable", None)) and getattr(model, "supports_gradient_checkpointing", False)
                and not getattr(model, "is_gradient_checkpointing", True))


#: Lists of layers that are told apart; a model with more of them is checkpointed whole or not at all.
MOST_LISTS = 8


def lists(model: Any) -> dict[str, list[Any]]:
    """Layers that have a switch of their own, by the name of the list that holds them, in the order of the model.

    {"": [model]} if only the whole model has one, as in releases before GradientCheckpointingLayer.
    """
    import torch
    found: dict[str, list[Any]] = {}
    within: set[int] = set()
    for name, module in model.named_modules():
        layers = list(module) if isinstance(module, torch.nn.ModuleList) and id(module) not in within else []
        if layers and all(hasattr(layer, "gradient_checkpointing") for layer in layers):
            found[name] = layers
            within.update(id(inner) for layer in layers for inner in layer.modules())
    return found if 0 < len(found) <= MOST_LISTS else {"": [model]}


def sizes(model: Any) -> dict[str, int]:
    """How many layers each of lists() has."""
    return {name: len(layers) for name, layers in lists(model).items()}


def first(number: int | None, of: Sequence[int]) -> tuple[int, ...]:
    """The first layers, `number` of them, by list of these sizes; None: all."""
    counts = []
    for size in of:
        counts.append(size if number is None else min(number, size))
        number = number and number - counts[-1]
    return tuple(counts)


def wanted(number: int | None, of: Sequence[int]) -> tuple[int, ...]:
    """As `--checkpoint` gives it: None or 0 none, -1 all."""
    return first(None if number < 0 else number, of) if number else ()


def text(counts: Sequence[int], of: dict[str, int]) -> str:
    """In words, as `13 of 24 layers checkpointed`; none: an empty string."""
    if not any(counts):
        return ""
    return "checkpointing" if list(of) == [""] else f"{sum(counts)} of {sum(of.values())} layers checkpointed"


def switch(model: Any, counts: Sequence[int]) -> None:
    """Hugging Face's call, for the first layers of each list, as many as `counts` gives; () or zeros: its opposite.

    The first ones: in the backward pass the last layers have freed what they kept when the first are computed again.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # newer releases have another name for it, too
        if not any(counts):
            model.gradient_checkpointing_disable()
            return
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    found = lists(model)
    if len(found) != len(counts):
        raise ValueError(f"the model has {len(found)} lists of layers, not {len(counts)}")
    for layers, count in zip(found.values(), counts):
        for module in (inner for layer in layers[count:] for inner in layer.modules()):
            if hasattr(module, "gradient_checkpointing"):
                module.gradient_checkpointing = False


@contextlib.contextmanager
def switched(model: Any, counts: Sequence[int]) -> Generator[None, None, None]:
    """Checkpointing for as long as this is entered."""
    if any(counts):
        switch(model, counts)
    try:
        yield
    finally:
        if any(counts):
            switch(model, ())


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
            for counts in ((), (), first(None, list(sizes(model).values()))):
                restore()
                torch.set_rng_state(states[0])
                for device, state in zip(devices, states[1]):
                    torch.cuda.set_rng_state(state, device)
                with switched(model, counts):
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
