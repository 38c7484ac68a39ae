"""diagnose(model, loader): a few steps of training, and all that is known of their memory and their input on one page."""
from __future__ import annotations

import gc
from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, Iterator, Mapping

from . import _torch
from ._check import Problem, check
from .oom._guard import is_oom
from .data._input_watch import InputVerdict, InputWatch
from .memory._monitor import MemoryMonitor, MemorySummary, mib
from .memory._owners import Owners, by_owner, forget, key_of, tensors_of
from .gradients._precision import _mapped, _tensors
from .oom._retry import Restore
from .memory._saved import ActivationUse, saved_activations
from .memory._trend import LEAST, trend
from .errors import ArgumentError

SETTLED = 4  # steps after which what a model makes once is there
SHOWN = 5  # owners and lines of activations that are shown
LARGE = 0.5  # share of the peak from which on one kind of memory is what to change


@dataclass(frozen=True)
class Growth:
    """Memory that stays after each step, in bytes per step with a 95 % interval; holder: the variable whose tensors grew the most."""

    bytes_per_step: float
    low_bytes_per_step: float
    high_bytes_per_step: float
    holder: str | None

    def __str__(self) -> str:
        text = f"{mib(self.bytes_per_step)} more after each step ({mib(self.low_bytes_per_step)} to {mib(self.high_bytes_per_step)})"
        return text + (f", held by {self.holder}" if self.holder else "")


@dataclass(frozen=True)
class Diagnosis:
    """What diagnose() saw.  None: not known; notes say why."""

    device: str
    steps: int  # that ended, of those whose memory was looked at
    batch_size: int | None
    phases: MemorySummary
    owners: Owners | None  # between the backward pass and the optimizer
    activations: ActivationUse | None  # of one forward pass
    input: InputVerdict
    leak: Growth | None
    largest_batch: int | None  # an estimate, from the memory of this batch
    problems: tuple[Problem, ...]
    failure: str | None  # the message of an out-of-memory error
    first: str  # what to change first
    notes: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"First: {self.first}", "", *map(str, self.problems), str(self.phases)]
        if self.owners is not None:
            lines += ["held after the backward pass:", *str(self.owners).splitlines()[:SHOWN]]
        if self.activations is not None:
            lines.append(f"activations of one forward pass: {mib(self.activations.saved_bytes)}")
            lines += [f"  {mib(n)}  {line}" for line, n in list(self.activations.by_line().items())[:SHOWN]]
        lines.append(f"input: {self.input}")
        lines.append(f"leak: {self.leak if self.leak is not None else 'none' if self.steps >= LEAST else 'not known'}")
        if self.largest_batch is not None:
            lines.append(f"largest batch: about {self.largest_batch} (estimated from {self.batch_size}; find_batch_size() proves it)")
        return "\n".join([*lines, *self.notes])


def diagnose(model: Any, loader: Any, *, optimizer: Any = None, loss: Callable[[Any, Any], Any] | None = None,
             steps: int = 16) -> Diagnosis:
    """Run a few training steps, and say where their memory and their time go: peaks by phase, who holds what, activations by line,
    waiting for input, a leak, the largest batch, and what to change first.

    loader: gives batches; a dict is passed to the model by name, of a tuple or a list the first item is passed.  loss(output,
    batch) gives the loss; None: output.loss if there is one, else the mean square of the outputs, whose memory is the same.
    steps: in each of two rounds, one for time and one for memory; 12 are needed to see a leak.  Model, optimizer and random states are afterwards bitwise as they were (copies are kept
    on the host).  On a CPU the memory is the process's own, and the largest batch is not known.

    >>> print(plimsoll.diagnose(model, loader, optimizer=optimizer))      # doctest: +SKIP

    Raises ArgumentError: the model has no parameters or is on the meta device, or the loader gives no batch.  What the model itself
    raises is raised; an out-of-memory error is part of the answer.
    """
    devices = {str(p.device) for p in model.parameters()} if hasattr(model, "parameters") else set()
    if not devices or "meta" in devices:
        raise ArgumentError("diagnose takes a torch.nn.Module whose parameters have memory")
    if steps < 1:
        raise ArgumentError(f"steps is 1 or more, not {steps}")
    device = next(p.device for p in model.parameters())
    state = Restore(model, optimizer)
    watch = InputWatch(loader, device=device if device.type == "cuda" else None)
    monitor = MemoryMonitor(device if device.type == "cuda" else "cpu")
    run = _Steps(model, optimizer, loss, device, monitor, steps >= LEAST)
    try:
        model.train()
        # One round for time, in which nothing else is measured, and one for memory.
        if all(run.one(batch, False) for batch in again(watch, steps)):
            with monitor.attach(model, optimizer):
                all(run.one(batch, True) for batch in again(loader, steps))
    finally:
        state.restore()
    if run.problems is None:
        raise ArgumentError("the loader gives no batch")
    return run.told(watch.verdict())


def again(loader: Iterable[Any], steps: int) -> Iterator[Any]:
    """So many batches; a short loader begins anew."""
    left = steps
    while left:
        before = left
        for batch in loader:
            yield batch
            left -= 1
            if not left:
                return
        if left == before:
            return


def live_bytes() -> int:
    """Of all tensors that Python sees, each storage once."""
    tensor = _torch.torch().Tensor
    found = {}
    for item in gc.get_objects():
        if issubclass(type(item), tensor):
            key = key_of(item)
            if key is not None:
                found[key] = item.untyped_storage().nbytes()
    return sum(found.values())


@dataclass
class _Steps:
    model: Any
    optimizer: Any
    loss: Callable[[Any, Any], Any] | None
    device: Any
    monitor: MemoryMonitor
    counted: bool  # are the bytes after each step wanted?
    problems: tuple[Problem, ...] | None = None  # None: there was no step yet
    batch_size: int | None = None
    activations: ActivationUse | None = None
    owners: Owners | None = None
    settled: Owners | None = None
    ends: list[tuple[int, int]] = field(default_factory=list)
    failure: str | None = None
    notes: list[str] = field(default_factory=list)

    def one(self, batch: Any, look: bool) -> bool:
        """A step.  look: at its memory too, which takes longer than a small step itself.  False: it ran out of memory."""
        batch = _mapped(batch, lambda tensor: tensor.to(self.device, non_blocking=True))
        if self.problems is None:
            self.problems = check(self.model, batch, optimizer=self.optimizer).problems
            first = next((tensor for _, tensor in tensors_of(batch, "batch") if tensor.dim()), None)
            self.batch_size = None if first is None else int(first.shape[0])
        try:
            self.train(batch, look)
        except BaseException as error:
            if is_oom(error) is None:
                raise
            self.failure = str(error).splitlines()[0]
            forget(error)
            return False
        del batch
        if look:
            self.ends.append((len(self.ends), self.held_bytes() if self.counted else 0))
            if len(self.ends) == SETTLED:
                self.settled = by_owner(self.model, self.optimizer)
        return True

    def held_bytes(self) -> int:
        return self.monitor.memory.numbers()[0] if self.device.type == "cuda" else live_bytes()

    def train(self, batch: Any, look: bool) -> None:
        if look and not self.ends:
            output, self.activations = saved_activations(lambda: self.forward(batch), model=self.model)
        else:
            output = self.forward(batch)
        self.loss_of(output, batch).backward()
        del output
        if look and not self.ends:
            self.owners = by_owner(self.model, self.optimizer)
        if self.optimizer is not None:
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
        else:
            self.model.zero_grad(set_to_none=True)

    def forward(self, batch: Any) -> Any:
        if isinstance(batch, Mapping):
            return self.model(**batch)
        return self.model(batch[0] if isinstance(batch, (tuple, list)) else batch)

    def loss_of(self, output: Any, batch: Any) -> Any:
        if self.loss is not None:
            return self.loss(output, batch)
        own = getattr(output, "loss", None)
        if own is not None:
            return own
        note = "loss: the mean square of the outputs stood in for it; loss=(output, batch) -> tensor gives the true one"
        if note not in self.notes:
            self.notes.append(note)
        values = [one.float().square().mean() for one in _tensors(output) if one.requires_grad]
        if not values:
            raise ArgumentError("the model returns no tensor that needs a gradient", remedy="loss=(output, batch) -> tensor")
        return sum(values[1:], values[0])

    # ---- what it was ----

    def growth(self) -> Growth | None:
        found = trend(self.ends)
        if found is None:
            return None
        now = {(one.name, one.device): one.bytes for one in by_owner(self.model, self.optimizer).owners}
        for one in self.settled.owners if self.settled is not None else ():
            if (one.name, one.device) in now:
                now[one.name, one.device] -= one.bytes
        most = max(now, key=lambda key: now[key], default=None)
        return Growth(found.slope, found.low, found.high, most[0] if most is not None and now[most] > 0 else None)

    def largest_batch(self, peak: int) -> int | None:
        free = self.monitor.memory.free() if self.device.type == "cuda" else None
        if free is None or not self.activations or not self.batch_size or not self.activations.saved_bytes:
            return None
        allocated, reserved = self.monitor.memory.numbers()[:2]
        each = self.activations.saved_bytes / self.batch_size
        return max(0, int(self.batch_size + (free[0] + reserved - max(peak, allocated)) / each))

    def told(self, watched: InputVerdict) -> Diagnosis:
        summary = self.monitor.summary()
        peak = max((phase.max_peak_bytes for phase in summary.phases), default=0)
        if self.optimizer is None:
            self.notes.append("optimizer: none was given, so its memory is not counted")
        if self.device.type != "cuda":
            self.notes.append("peaks are those of the process's own memory: the model is on the CPU")
            self.notes.append("largest batch: not known on a CPU; plimsoll.plan(model, batch=1, seq=..., gpu=..., max_batch=True) works it out")
        if len(self.ends) < LEAST:
            self.notes.append(f"leak: {len(self.ends)} steps ended, {LEAST} are needed")
        leak = self.growth()
        return Diagnosis(self.monitor.memory.name, len(self.ends), self.batch_size, summary, self.owners, self.activations, watched, leak,
                         self.largest_batch(peak), self.problems or (), self.failure, self.first(watched, leak), tuple(self.notes))

    def first(self, watched: InputVerdict, leak: Growth | None) -> str:
        """What would end the run comes before what makes it slow, and that before what takes most memory."""
        wrong = next((one for one in self.problems or () if one.severity == "error"), None)
        if self.failure is not None:
            return f"it ran out of memory: {self.failure} (plimsoll.why takes the whole message)"
        if wrong is not None:
            return f"{wrong.what}: {wrong.fix}"
        if leak is not None:
            return f"stop the leak: {leak}"
        if watched.bound == "input":
            return f"{watched}: plimsoll.data.tune_loader(loader)"
        held = self.owners.total_bytes(str(self.device)) if self.owners is not None else 0
        kept = self.activations.saved_bytes if self.activations is not None else 0
        if kept > LARGE * (held + kept):
            return f"activations are most of the memory ({mib(kept)}, {mib(held)} are the rest): gradient checkpointing, or a smaller micro-batch"
        return "nothing: no leak, no waiting for input; parameters, gradients and optimizer take most of the memory" if held else "nothing was found"
