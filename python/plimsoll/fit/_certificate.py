"""Is the gradient of a batch in parts the gradient of the batch?  Measured, before the run."""
from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Generator, Iterable, Iterator, Mapping, Sequence

from ._ranks import count, local

#: A right cut in fp32 differs by 2e-7 to 4e-6 (kernels of other shapes round otherwise), a wrong one by 6e-4 or more: measured on an H200 with PyTorch 2.11.
FLOOR = 1e-5
#: Or this many times what another order of the same samples does.
NOISE_TIMES = 10.0
#: Or this many times what one unit in the last place of each weight does: kernels of other shapes round otherwise, which turns a ReLU near zero on or off.
ROUNDING_TIMES = 3.0
#: But never more: below the smallest difference of a wrong cut that was measured.
MOST = 5e-4
#: From here on nothing is proven.
NOISE_MOST = 0.01
SAMPLES = 8
PARTS = (2, 4, 8)
#: Gradients are compared at two points next to the weights.
MOVES = (0.01, -0.01)


@dataclass(frozen=True)
class Certificate:
    """What was measured: relative differences of the whole gradient, in fp32, without dropout.

    way: how parts are weighed ("own", "samples", "tokens"), or None: no way is right, so the batch must not be cut.
    """

    way: str | None
    samples: int
    parts: tuple[int, ...]
    noise: float  # another order of the same samples
    rounding: float = 0.0  # the last bit of each weight
    differences: Mapping[str, float] = field(default_factory=dict)  # by way that was tried: the largest over the numbers of parts

    @property
    def limit(self) -> float:
        """A difference up to here is rounding."""
        return min(max(NOISE_TIMES * self.noise, ROUNDING_TIMES * self.rounding, FLOOR), MOST)

    def is_right(self, way: str) -> bool:
        return bool(self.parts) and self.noise < NOISE_MOST and self.differences.get(way, math.inf) <= self.limit

    def __bool__(self) -> bool:
        return self.way is not None


def agreed(proofs: Sequence[Certificate]) -> Certificate:
    """Of all ranks: the first way that is right on each of them, and the largest differences."""
    first = proofs[0]
    right = [way for way in first.differences if all(proof.is_right(way) for proof in proofs)]
    return Certificate(right[0] if right else None, first.samples, first.parts, max(proof.noise for proof in proofs), max(proof.rounding for proof in proofs),
                       {way: max(proof.differences[way] for proof in proofs) for way in first.differences})


@contextlib.contextmanager
def _without_dropout(model: Any) -> Iterator[None]:
    """Dropout of the functional interface and of attention gives its input back; modules without weights, buffers and children (Dropout, DropPath) are as in evaluation."""
    import torch
    functional = torch.nn.functional
    names = [name for name in dir(functional) if "dropout" in name]
    kept = {name: getattr(functional, name) for name in names}
    attention = functional.scaled_dot_product_attention
    bare = [m for m in model.modules() if m.training and not any((m._parameters, m._buffers, m._modules)) and "train" not in vars(m)]

    def same(input: Any, *_: Any, **__: Any) -> Any:
        return input

    def attend(query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, *more: Any, **named: Any) -> Any:
        return attention(query, key, value, attn_mask, 0.0, *more, **named)

    try:
        for name in names:
            setattr(functional, name, same)
        functional.scaled_dot_product_attention = attend
        for module in bare:
            module.training = False
            module.train = lambda mode=True, module=module: module  # a Trainer's step calls it
        yield
    finally:
        for name, function in kept.items():
            setattr(functional, name, function)
        functional.scaled_dot_product_attention = attention
        for module in bare:
            del module.train
            module.training = True


@contextlib.contextmanager
def _without_tf32() -> Iterator[None]:
    """Convolutions may round to 10 bits by default, matrix products if the script asks for it; which do depends on their shape."""
    import torch
    cudnn: Any = torch.backends.cudnn
    try:
        precision = torch.get_float32_matmul_precision()
    except RuntimeError:  # the script uses the names of PyTorch 2.9, which must not be mixed with the older ones
        places: tuple[Any, ...] = (torch.backends.cuda.matmul, cudnn.conv, cudnn.rnn)
        kept = [place.fp32_precision for place in places]
        try:
            for place in places:
                place.fp32_precision = "ieee"
            yield
        finally:
            for place, value in zip(places, kept):
                place.fp32_precision = value
        return
    allowed = cudnn.allow_tf32
    try:
        torch.set_float32_matmul_precision("highest")
        cudnn.allow_tf32 = False
        yield
    finally:
        torch.set_float32_matmul_precision(precision)
        cudnn.allow_tf32 = allowed


@contextlib.contextmanager
def in_fp32(model: Any) -> Iterator[None]:
    """Weights in fp32 without autocast and TF32, buffers and random generators as they were.  Casting up and back loses nothing."""
    import torch
    model.zero_grad(set_to_none=True)
    types = {p: p.dtype for p in model.parameters() if p.dtype in (torch.bfloat16, torch.float16)}
    buffers = [(b, b.detach().clone()) for b in model.buffers()]
    wrapped = {m: {k: m.__dict__.pop(k) for k in ("forward", "_original_forward") if k in m.__dict__}
               for m in model.modules() if "_original_forward" in m.__dict__}  # accelerate's autocast
    for module, kept in wrapped.items():
        module.forward = kept["_original_forward"]
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices), _without_tf32():
        try:
            for p in types:
                p.data = p.data.float()
            yield
        finally:
            model.zero_grad(set_to_none=True)
            for p, dtype in types.items():
                p.data = p.data.to(dtype)
            for b, value in buffers:
                b.copy_(value)
            for module, kept in wrapped.items():
                module.__dict__.update(kept)


@contextlib.contextmanager
def moved(model: Any, gradient: Mapping[Any, Any], by: float) -> Iterator[None]:
    """Each trained tensor `by` times its norm along its gradient; a tensor of zeros (LoRA's) as if its norm were 1.

    At the start of a training terms of a loss may be zero that are not later, as KTO's distance from the model that it began as;
    on the other side (-by) such a term has the other sign, so that it is not cut off at zero on both.
    """
    import torch
    kept = [(p, local(p.data).to("cpu", copy=True)) for p in gradient]
    try:
        for p, weights in kept:
            size, far = float(torch.linalg.vector_norm(weights)), float(torch.linalg.vector_norm(gradient[p]))
            if far:
                local(p.data).add_(gradient[p].to(p.device, p.dtype), alpha=by * (size or 1.0) / far)
        yield
    finally:
        for p, weights in kept:
            local(p.data).copy_(weights)


@contextlib.contextmanager
def _nudged(weights: Iterable[Any]) -> Iterator[None]:
    """The last bit of each weight, up or down."""
    import torch
    kept = [(p, local(p.data).to("cpu", copy=True)) for p in weights]
    try:
        for number, (p, _) in enumerate(kept):
            generator = torch.Generator(p.device).manual_seed(number)
            for values in local(p.data).view(-1).split(1 << 20):  # of a large tensor a copy may not fit
                up = torch.randint(2, values.shape, generator=generator, device=values.device, dtype=torch.int8)
                values.mul_(torch.where(up > 0, 1 + torch.finfo(values.dtype).eps, 1 - torch.finfo(values.dtype).eps))
        yield
    finally:
        for p, before in kept:
            local(p.data).copy_(before)


def gradients(model: Any) -> dict[Any, Any]:
    """By parameter; not copied."""
    return {p: local(p.grad).detach() for p in model.parameters() if p.grad is not None}


def distance(now: Mapping[Any, Any], reference: Mapping[Any, Any]) -> float:
    """How far gradients are from others: the norm of the difference over that of the others.

    math.inf if either is not a number (a mean over no labels), or if all of the others are zero: then nothing is proven.
    """
    import torch
    far, size = 0.0, 0.0
    for p in now.keys() | reference.keys():
        a, b = now.get(p), reference.get(p)
        if a is None or b is None:
            far += float(torch.linalg.vector_norm(b if a is None else a, dtype=torch.float64) ** 2)
        else:
            far += float(torch.linalg.vector_norm(a - b.to(a.device), dtype=torch.float64) ** 2)
        if b is not None:
            size += float(torch.linalg.vector_norm(b, dtype=torch.float64) ** 2)
    if not math.isfinite(far + size):
        return math.inf
    return (far / size) ** 0.5 if size else math.inf


@dataclass(frozen=True)
class Variant:
    """One gradient to take: of the batch as it is, in another order, or in parts that are weighed in a way."""

    permuted: bool = False
    parts: int = 1
    way: str = "own"


def variants(model: Any, samples: int, ways: tuple[str, ...], counts: tuple[int, ...] = PARTS) -> Generator[Variant, bool, Certificate]:
    """Yields what to go backward through; send(True) once its gradient is there, send(False) if it failed.  Returns the certificate.

    Gradients are cleared before each.  The first way that is right for every number of parts is the certificate's; those behind it
    are not tried, and one that is wrong by more than MOST no further, except on several ranks, which all must do the same.
    """
    found = Certificate(None, samples, tuple(k for k in counts if k <= samples), 0.0)
    with _without_dropout(model), in_fp32(model):
        there = yield Variant()
        gradient = {p: g.to("cpu", copy=True) for p, g in gradients(model).items()} if there else {}
        for by in MOVES:
            with moved(model, gradient, by):
                found = yield from _at_a_point(model, gradient, ways, found)
            if count() == 1:
                ways = tuple(way for way, far in found.differences.items() if far <= MOST)
    return agreed([found])


def _at_a_point(model: Any, gradient: Mapping[Any, Any], ways: tuple[str, ...], found: Certificate) -> Generator[Variant, bool, Certificate]:
    """What is found with the weights as they are now, and at the point before."""
    model.zero_grad(set_to_none=True)
    there = yield Variant()
    reference = {p: g.clone() for p, g in gradients(model).items()} if there else {}

    def far(one: Variant) -> Generator[Variant, bool, float]:
        model.zero_grad(set_to_none=True)
        there = yield one
        return distance(gradients(model), reference) if there else math.inf

    noise = yield from far(Variant(permuted=True))
    with _nudged(gradient):
        rounding = yield from far(Variant())
    found = replace(found, noise=max(found.noise, noise), rounding=max(found.rounding, rounding if math.isfinite(rounding) else 0.0))
    for way in ways:
        for parts in found.parts:
            cut = yield from far(Variant(parts=parts, way=way))
            found = replace(found, differences={**found.differences, way: max(found.differences.get(way, 0.0), cut)})
            if count() == 1 and cut > MOST:
                break
        if count() == 1 and found.is_right(way):
            break
    return found


def certify(model: Any, samples: int, take: Callable[[Variant], Any], ways: tuple[str, ...]) -> Certificate:
    """The certificate, if each variant can be had by a call, which goes backward through it."""
    import torch
    running = variants(model, samples, ways)
    asked = next(running)
    try:
        while True:
            try:
                take(asked)
                there = True
            except torch.OutOfMemoryError:
                running.close()
                raise
            except Exception:  # BatchNorm of one sample, for one
                there = False
            asked = running.send(there)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
