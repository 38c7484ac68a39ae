"""Where the steps of a script end: a step has ended when every optimizer that the script made has stepped.

Two models with an optimizer each, one optimizer for matrices and one for the rest, and one for each parameter that steps
in the backward pass are then one step each, however often one of them steps within it.
"""
from __future__ import annotations

import contextlib
import importlib
import sys
import weakref
from typing import Any, Callable, Iterator

import torch
from torch.utils.weak import WeakIdKeyDictionary

from .engine import CATEGORY, Recorder
from .errors import is_the_scripts
from .longest import Longest

__all__ = ["Enough", "Steps"]

TURNS_MOST = 16    # of one optimizer, while another that was made has none
STEPS_MOST = 6     # of a script whose steps take different amounts
AHEAD = 2          # steps until a batch that a loader gave has gone through: accelerate takes one ahead
ALIKE = 0.01       # of what two steps ask for,
LEAST = 1 << 20    # or so many bytes
OF_DATA = {CATEGORY[name] for name in ("activation", "input", "autograd_detail", "unknown")}


class Enough(BaseException):
    """The steps that come are like those that were traced.  No Exception, so that no script takes it for one."""


def _line_of_script() -> str:
    frame: Any = sys._getframe(1)
    while frame is not None and not is_the_scripts(frame.f_code.co_filename):
        frame = frame.f_back
    return f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno}" if frame is not None else "the script"


def _parameters(optimizer: Any) -> list[torch.Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


class Steps:
    """Phases from what a script calls: backward, and the optimizers' steps."""

    def __init__(self, r: Recorder, steps: int, say: Callable[[str], None]) -> None:
        self.r = r
        self.say = say
        self.most = steps
        self.done = 0
        self.passes = 0
        self.depth = 0         # of backward passes: one that recomputes runs another within
        self.is_over = False   # the script ended by itself
        self.stepping = 0      # of optimizers: one may step another
        self.is_due = False    # the step ends with the backward pass at hand
        self.made: list[tuple[Any, str]] = []  # optimizers that live, and the lines that made them
        self.idle: list[str] = []              # lines of those that are no longer waited for
        self.turns: Any = WeakIdKeyDictionary()    # of each optimizer, in this step
        self.stepped: Any = WeakIdKeyDictionary()  # parameters that an optimizer took in this step
        self.trained: Any = WeakIdKeyDictionary()  # and in any
        self.modules: Any = WeakIdKeyDictionary()  # that the script called
        self.from_event = 0
        self.backwards = 0          # in the step at hand
        self.bytes: list[int] = []  # that a pass of each step asked for
        self.longest = Longest()
        self.until = 0              # steps, if one of the longest samples is among them
        r.phase = "load"

    def called(self, module: torch.nn.Module) -> None:
        """Ends the load when the first module runs."""
        if not self.r.stack:
            self.modules[module] = True
        if self.r.phase == "load":
            self.r.end_phase("fwd0")

    def backward(self, run: Any, *args: Any, **kwargs: Any) -> Any:
        r = self.r
        if self.depth:
            return run(*args, **kwargs)
        r.end_phase(f"bwd{self.done}" + (f".{self.passes}" if self.passes else ""))
        r.backward = True
        self.longest.backward()
        self.depth += 1
        try:
            with torch.autograd.set_multithreading_enabled(False):
                result = run(*args, **kwargs)
        finally:
            self.depth -= 1
            self.backwards += 1
            r.backward = False
            self.passes += 1
            r.end_phase(f"fwd{self.done}.{self.passes}")
        if self.is_due:
            self.ended()
        return result

    def zeroed(self, plain: Any, module: torch.nn.Module, *args: Any, **kwargs: Any) -> None:
        """Gradients that go in a script without an optimizer: it updates its parameters itself, and a step begins."""
        itself = self.passes > 0 and not any(made() is not None for made, _ in self.made)
        if itself:
            parameters = list(module.parameters())
            self.r.mark(iter(parameters), "parameter")
            self.r.mark((p.grad for p in parameters if p.grad is not None), "gradient")
            self.trained.update((p, True) for p in parameters if p.requires_grad)
        plain(module, *args, **kwargs)
        if itself:
            self.ended()

    def before_step(self, optimizer: Any, *_: Any) -> None:
        parameters = _parameters(optimizer)
        self.r.mark(iter(parameters), "parameter")
        self.r.mark((p.grad for p in parameters if p.grad is not None), "gradient")
        self.trained.update((p, True) for p in parameters)
        self.stepping += 1
        if not self.depth and self.stepping == 1:
            self.r.end_phase(f"opt{self.done}")

    def after_step(self, optimizer: Any, *_: Any) -> None:
        self.r.mark((t for s in optimizer.state.values() for t in s.values() if isinstance(t, torch.Tensor)),
                    "optimizer_state")
        self.stepping -= 1
        self.stepped.update((p, True) for p in _parameters(optimizer))
        self.turns[optimizer] = self.turns.get(optimizer, 0) + 1
        if self.stepping:
            return
        if self.turns[optimizer] >= TURNS_MOST:
            self.idle += [line for made, line in self.awaited()]
            self.made = [x for x in self.made if x not in self.awaited()]
        if self.awaited():
            if not self.depth:
                self.passes += 1
                self.r.end_phase(f"fwd{self.done}.{self.passes}")
        elif self.depth:
            self.is_due = True
        else:
            self.ended()

    def awaited(self) -> list[tuple[Any, str]]:
        """Optimizers that live and hold a parameter that no optimizer took in this step."""
        self.made = [x for x in self.made if x[0]() is not None]
        return [x for x in self.made if any(p.requires_grad and p not in self.stepped for p in _parameters(x[0]()))]

    def ended(self) -> None:
        self.done += 1
        self.passes = 0
        self.is_due = False
        self.count()
        self.turns.clear()
        self.stepped.clear()
        self.bytes.append(self._asked_for() // max(self.backwards, 1))
        self.backwards = 0
        self.r.end_phase(f"fwd{self.done}")
        if self.done >= self.most and self._is_enough():
            raise Enough
        self.say(f"its step {self.done} has ended, the next is traced")

    def _asked_for(self) -> int:
        """By the passes of the step that has ended: what its data decide, not what is made once."""
        trace = self.r.trace
        births = [e for e in trace.events[self.from_event:] if e > 0]
        self.from_event = len(trace.events)
        categories = trace.category[len(trace.category) - len(births):]
        return sum(n for n, category in zip(births, categories) if category in OF_DATA)

    def _is_enough(self) -> bool:
        """All steps take the same; or one of the longest samples is done, or cannot be had."""
        if self.longest.differ() and not self.until:
            self.longest.give()
            self.until = self.done + AHEAD
        return self.done >= self.until if self.longest.is_given else self._is_alike() and not self.until or self.done >= max(self.most, STEPS_MOST)

    def _is_alike(self) -> bool:
        return abs(self.bytes[-1] - self.bytes[-2]) <= max(ALIKE * self.bytes[-2], LEAST)

    def count(self) -> None:
        """Parameters of all modules that ran and of all optimizers that stepped, while they live."""
        trace = self.r.trace
        trace.trainable = sum(p.numel() for p in self.trained)
        found: Any = WeakIdKeyDictionary()
        found.update((p, True) for p in self.trained)
        found.update((p, True) for module in self.modules for p in module.parameters())
        trace.parameters = sum(p.numel() for p in found)

    def unsure(self) -> list[str]:
        return [f"the optimizer made at {line} did not step in {TURNS_MOST} steps of another: its states are not in the plan" for line in self.idle]

    def told(self) -> str:
        if self.is_over:
            return f"all {self.done} steps of the script"
        if self.longest.is_given and self.done >= self.until:
            return f"the script's first {self.done} steps, among them {self.longest.text()}"
        if self.done >= 2 and (self.until or not self._is_alike()):
            return f"the script's first {self.done} steps, which take different amounts; a later one may take more"
        return f"the script's first {self.done} steps; later ones take the same"

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        optimizer: Any = importlib.import_module("torch.optim.optimizer")
        engine: Any = importlib.import_module("torch.autograd")
        base: Any = optimizer.Optimizer
        plain, zero_grad, init = engine.backward, torch.nn.Module.zero_grad, base.__init__
        steps = self

        def zeroed(module: torch.nn.Module, *args: Any, **kwargs: Any) -> None:
            steps.zeroed(zero_grad, module, *args, **kwargs)

        def made(self: Any, *args: Any, **kwargs: Any) -> None:
            init(self, *args, **kwargs)
            steps.made.append((weakref.ref(self), _line_of_script()))
        setattr(torch.nn.Module, "zero_grad", zeroed)
        base.__init__ = made
        engine.backward = lambda *a, **k: self.backward(plain, *a, **k)
        handles = [optimizer.register_optimizer_step_pre_hook(self.before_step),
                   optimizer.register_optimizer_step_post_hook(self.after_step)]
        try:
            with self.longest.watched():
                yield
        finally:
            engine.backward = plain
            base.__init__ = init
            setattr(torch.nn.Module, "zero_grad", zero_grad)
            for handle in handles:
                handle.remove()
