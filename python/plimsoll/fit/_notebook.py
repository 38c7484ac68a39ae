"""plimsoll.fit(model, loader, step): the same for a loop of one's own, in this process."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, Sequence

from .. import _size
from ..errors import ArgumentError, UnsupportedError
from . import _gauge
from ._certificate import SAMPLES, Certificate, Variant, certify
from ._checkpointing import is_able, is_the_same, measure, sizes, switch, switched
from ._ladder import Found, Run, Trial, only, search
from ._parts import bounds, permute, samples_of, take, weight

WAYS = ("samples", "tokens")
STEPS = 2  # the first allocates what stays


@dataclass(frozen=True)
class Fit:
    """What was chosen, and what it was chosen by.

    parts: of each batch.  checkpointing: how many layers are checkpointed, by the model's own call.  certificate: of the gradient of parts.  peaks: what was
    measured of whole batches, in bytes and seconds; [] on a CPU.  step(batch): goes forward and backward through a batch, part by
    part, and gives the loss of the whole batch, without a graph; gradients add up in .grad as those of one backward pass.
    """

    parts: int
    checkpointing: int
    certificate: Certificate
    peaks: list[Run] = field(default_factory=list)
    step: Callable[[Any], Any] = field(default=lambda _: None, repr=False)


def _pass(model: Any, step: Callable[[Any, Any], Any], batch: Any, parts: int, way: str) -> Any:
    samples = samples_of(batch)
    if samples is None or parts < 2 or samples < 2:
        loss = step(model, batch)
        loss.backward()
        return loss.detach()
    total = None
    for begin, end in bounds(samples, parts):
        part = take(batch, begin, end)
        share = weight(part, batch, way)
        if share:
            loss = step(model, part) * share
            loss.backward()
            total = loss.detach() if total is None else total + loss.detach()
            del loss
    return _pass(model, step, batch, 1, way) if total is None else total


def _measured(model: Any, step: Callable[[Any, Any], Any], batch: Any, trial: Trial, way: str) -> Run:
    import torch
    gauge, times, held, peak = _gauge.gauge, [], 0, (0, 0, 0)
    model.zero_grad(set_to_none=True)
    gauge.begin()
    try:
        with switched(model, trial.checkpointed):
            for _ in range(STEPS):
                gauge.reset()
                held, began = gauge.gradients(model), gauge.seconds()
                _pass(model, step, take(batch, 0, trial.samples), trial.parts, way)
                times.append(gauge.seconds() - began)
                peak = _gauge.highest(peak, gauge.peak())
                if not trial.held:
                    model.zero_grad(set_to_none=True)
    except torch.OutOfMemoryError:
        return Run(trial, False)
    finally:
        model.zero_grad(set_to_none=True)
    return Run.at(trial, min(times), peak, held_bytes=held)


def _search(model: Any, step: Callable[[Any, Any], Any], batch: Any, proof: Certificate, sizes: Sequence[int], parts: int | None) -> Found:
    import torch
    samples = samples_of(batch) or 0
    running = only(Trial(samples, parts)) if parts else search(samples, _gauge.gauge.limit_bytes or 0, bool(proof), sizes)
    buffers = [(b, b.detach().clone()) for b in model.buffers()]
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices):
        try:
            trial = next(running)
            while True:
                trial = running.send(_measured(model, step, batch, trial, proof.way or "samples"))
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
        finally:
            with torch.no_grad():
                for b, value in buffers:
                    b.copy_(value)


def fit(model: Any, loader: Iterable[Any], step: Callable[[Any, Any], Any], *, parts: int | None = None, memory: str | int | None = None) -> Fit:
    """Cut each batch of a training loop into as few parts as fit, if their gradient is measured to be the batch's.

    model: a torch.nn.Module.  loader: gives batches (tensors, or mappings and lists of them) with samples in the first
    dimension; the first batch is measured, so give the longest.  step(model, batch): the loss, a scalar tensor with a graph; no
    backward pass, no optimizer.  parts: a number to use instead of the fewest that fit.  memory: bytes, or "15GiB", of the GPU (all of it).
    Weights, buffers and random generators are as before afterwards; gradients are cleared.  Peaks hold what an optimizer has
    already allocated: take a first step before, or leave room for its states.

        fitted = plimsoll.fit(model, loader, step=lambda model, batch: model(**batch).loss)
        for batch in loader:
            loss = fitted.step(batch)
            optimizer.step()
            optimizer.zero_grad()

    Raises ArgumentError: there is no batch, or its samples cannot be counted.  UnsupportedError: the gradient of parts is another
    one, it fits in no number of parts, or there is no GPU and `parts` was not given.
    """
    if parts is not None and parts < 1:
        raise ArgumentError("parts: from 1 on")
    batch = next(iter(loader), None)
    samples = samples_of(batch)
    if samples is None or samples < 2:
        raise ArgumentError("the first batch has fewer than two samples" if samples else "the loader gives no batch, or tensors that do not agree in their first dimension")
    gauge, gpu = _gauge.gauge, _gauge.gauge.is_used_by(model)
    if gpu:
        gauge.hold(_size.bytes_of(memory, "memory") if isinstance(memory, str) else memory)
    elif not parts:
        raise UnsupportedError("the model is not on a GPU, so no peak can be measured", remedy="give parts=")
    proof = _proof(model, step, batch, samples)
    able = gpu and not parts and is_able(model) and is_the_same(measure(model, lambda _: step(model, take(batch, 0, proof.samples)).backward()))
    if (parts or 2) > 1 and not proof and not able:
        raise UnsupportedError("the gradient of the parts is not the gradient of the batch: the loss is not a mean over its samples (BatchNorm, in-batch negatives, a balancing loss)")
    found = _search(model, step, batch, proof, list(sizes(model).values()) if able else [], parts) if gpu else Found(Run(Trial(samples, parts or 1), True))
    if found.chosen is None:
        raise UnsupportedError(f"it fits in no number of parts that was tried: {', '.join(str(run.trial.parts) for run in found.runs) or 'not even two samples fit'}")
    trial, way = found.chosen.trial, proof.way or "samples"
    if trial.checkpointed:
        switch(model, trial.checkpointed)
    return Fit(trial.parts, sum(trial.checkpointed), proof, found.runs, lambda batch: _pass(model, step, batch, trial.parts, way))


def _proof(model: Any, step: Callable[[Any, Any], Any], batch: Any, samples: int) -> Certificate:
    import torch
    count = min(SAMPLES, samples)
    while True:
        few = take(batch, 0, count)
        order = torch.randperm(count, generator=torch.Generator().manual_seed(1))

        def variant(one: Variant, few: Any = few, order: Any = order) -> None:
            _pass(model, step, permute(few, order) if one.permuted else few, one.parts, one.way)

        try:
            return certify(model, count, variant, WAYS)
        except torch.OutOfMemoryError:
            if count < 4:
                raise UnsupportedError("two samples in fp32 do not fit, so nothing is proven") from None
        count //= 2
