"""Activation checkpointing by the model's own call, if its gradient is the same with dropout on: bitwise, or to rounding in fp32."""
from __future__ import annotations

import contextlib
import math
import types
import warnings
from typing import Any, Callable, Generator, Sequence

from . import _ranks
from ._certificate import FLOOR, distance, gradients, in_fp32


def is_able(model: Any) -> bool:
    """Has it a call of its own, not yet made?"""
    return bool(callable(getattr(model, "gradient_checkpointing_enable", None)) and getattr(model, "supports_gradient_checkpointing", False)
                and not getattr(model, "is_gradient_checkpointing", True))


#: Of Hugging Face; newer releases have the second name too.
CALLS = ("gradient_checkpointing_enable", "activation_checkpointing_enable")
#: Lists of layers that are counted one by one; a model with more of them is checkpointed whole or not at all.
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

    The first ones: in the backward pass the last layers have freed what they kept when the first are computed again.  A script may make
    the call itself, as TRL does after a pass of its reference model: it gets the same layers.
    """
    for name in CALLS:
        vars(model).pop(name, None)
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

    def again(self: Any, *_: Any, **__: Any) -> None:
        switch(self, counts)

    vars(model).update({name: types.MethodType(again, model) for name in CALLS if hasattr(model, name)})


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


def _differences(model: Any, fp32: bool) -> Generator[bool, bool, list[tuple[float, bool]] | None]:
    """How far the gradient of the same samples is from the first one (0.0: bitwise the same), and are buffers the same: once more as the model is, then checkpointed.

    None: one failed, or gave no gradient.
    """
    import torch
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    before, reference, buffers, found = _buffers(model), dict[Any, Any](), list[Any](), list[tuple[float, bool]]()
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
                    if not (yield fp32):
                        return None
                if reference:
                    found.append((distance(gradients(model), reference), all(map(torch.equal, buffers, model.buffers()))))
                else:  # not on the GPU, where it may not fit
                    reference, buffers = {p: g.to("cpu", copy=True) for p, g in gradients(model).items()}, _buffers(model)
                    if not reference:
                        return None
        finally:
            torch.use_deterministic_algorithms(strict, warn_only=warned)
            restore()
    return found


def compare(model: Any) -> Generator[bool, bool, float]:
    """How far the checkpointed gradient is from the model's own, with dropout: 0.0 if bitwise the same in the model's own precision.

    Else it is measured in fp32, where the order of a sum may differ (T5); math.inf: buffers differ, it fails, or the model does not
    repeat itself to rounding.  Yields whether a gradient of the same samples is wanted in fp32, without autocast; send(False): it failed.
    Weights, buffers, gradients (none) and random generators are as before afterwards.
    """
    found = yield from _differences(model, False)
    failed = found is None or not found[1][1]
    same = found is not None and all(far == 0 for far, _ in found)
    of_ranks = _ranks.everyone((failed, same))  # they go on together, or none does
    if any(failed for failed, _ in of_ranks):
        return math.inf
    if all(same for _, same in of_ranks):
        return 0.0
    with in_fp32(model):
        found = yield from _differences(model, True)
    if found is None or not found[1][1] or found[0][0] > FLOOR:
        return math.inf
    return found[1][0]


def is_the_same(far: float | None) -> bool:
    """Is a checkpointed gradient that far away the same, to rounding?"""
    return far is not None and far <= FLOOR


def measure(model: Any, take: Callable[[bool], Any]) -> float:
    """compare(), if a gradient can be had by a call; `take(True)` is of one in fp32."""
    import torch
    running = compare(model)
    fp32 = next(running)
    try:
        while True:
            try:
                take(fp32)
                there = True
            except torch.OutOfMemoryError:
                if _ranks.is_sharded(model):
                    raise
                there = False
            except Exception:  # a router that counts its tokens twice, for one
                there = False
            fp32 = running.send(there)
    except StopIteration as done:
        return float(done.value)
