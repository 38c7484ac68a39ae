"""An unmodified training script under fakes, until its second step has ended: plimsoll plan -- python train.py."""
from __future__ import annotations

import contextlib
import importlib
import os
import runpy
import sys
from dataclasses import replace
from typing import Any, Callable, Iterator

import torch

from . import ranks
from .engine import Recorder
from .loop import Options, modules_of_all, recording, tell
from .packed import Trace


class Enough(BaseException):
    """The second step has ended: what comes is like it.  No Exception, so that no script takes it for one."""


LAUNCHERS = ("torchrun", "torch.distributed.run", "torch.distributed.launch", "accelerate", "accelerate.commands.launch")
ALONE = {"--standalone", "--no-python", "--multi-gpu", "--cpu", "--use-deepspeed", "--use-fsdp", "--debug", "-u", "-B", "-O", "-E", "-s", "-I"}
RANKS = {"--nproc-per-node", "--num-processes", "--nnodes"}


def _launched(words: list[str]) -> tuple[list[str], int]:
    """A launcher's options: what it runs, and as how many ranks."""
    ranks = {"--nproc-per-node": 1, "--num-processes": 1, "--nnodes": 1}
    while words and words[0].startswith("-") and words[0] != "-m":
        name, given, value = words.pop(0).partition("=")
        name = "--" + name.lstrip("-").replace("_", "-") if name.startswith("--") else name
        if not given and name not in ALONE and words:
            value = words.pop(0)
        if name in RANKS and value.isdigit():
            ranks[name] = int(value)
        elif name in RANKS:
            raise ValueError(f"{name} {value}: how many GPUs that are only that machine knows; give a number")
    size = 1
    for n in ranks.values():
        size *= n
    return words, size


def _python(command: list[str]) -> tuple[list[str], int]:
    """["python", "-u", "train.py", ...] and ["torchrun", "--nproc-per-node", "4", "train.py"]: what they run, and as how many ranks; 0: no launcher."""
    words, size = list(command), 0
    if words and os.path.basename(words[0]).startswith("python"):
        words.pop(0)
        while words and words[0].startswith("-") and words[0] not in ("-m", "-c"):
            if words.pop(0) in ("-X", "-W") and words:
                words.pop(0)
    if words[:1] == ["-m"] and words[1:2] and words[1] in LAUNCHERS:
        words.pop(0)
    if words and os.path.basename(words[0]) in LAUNCHERS:
        launcher = os.path.basename(words.pop(0))
        if launcher == "accelerate" and words[:1] == ["launch"]:
            words.pop(0)
        words, size = _launched(words)
    if not words:
        raise ValueError("there is no script behind --")
    return words, size


SIZES = {"{batch}": "batch", "{seq}": "seq"}  # what stands in a command for a size that is asked for


def asks(command: list[str]) -> set[str]:
    """The sizes that the command line of a script takes: "--batch-size {batch}"."""
    return {name for mark, name in SIZES.items() if any(mark in word for word in command)}


def _filled(command: list[str], o: Options) -> list[str]:
    for mark, name in SIZES.items():
        command = [word.replace(mark, str(getattr(o, name))) for word in command]
    return command


class Steps:
    """Phases from what a script calls: backward, and the optimizers' steps."""

    def __init__(self, r: Recorder, steps: int, say: Callable[[str], None]) -> None:
        self.r = r
        self.say = say
        self.most = steps
        self.done = 0
        self.passes = 0
        r.phase = "load"

    def first(self) -> None:
        """Ends the load when the first module with parameters runs."""
        if self.r.phase == "load":
            self.r.end_phase("fwd0")

    def backward(self, run: Any, *args: Any, **kwargs: Any) -> Any:
        r = self.r
        r.end_phase(f"bwd{self.done}" + (f".{self.passes}" if self.passes else ""))
        r.backward = True
        try:
            with torch.autograd.set_multithreading_enabled(False):
                return run(*args, **kwargs)
        finally:
            r.backward = False
            self.passes += 1
            r.end_phase(f"fwd{self.done}.{self.passes}")

    def zeroed(self, plain: Any, module: torch.nn.Module, *args: Any, **kwargs: Any) -> None:
        """Gradients that go although no optimizer took them: the script updates its parameters itself, and a step begins."""
        if self.passes:
            parameters = list(module.parameters())
            self.r.mark(iter(parameters), "parameter")
            self.r.mark((p.grad for p in parameters if p.grad is not None), "gradient")
            self.r.trace.trainable = self.r.trace.trainable or sum(p.numel() for p in parameters if p.requires_grad)
        plain(module, *args, **kwargs)
        if self.passes:
            self.ended()

    def before_step(self, optimizer: Any, *_: Any) -> None:
        parameters = [p for g in optimizer.param_groups for p in g["params"]]
        self.r.mark(iter(parameters), "parameter")
        self.r.mark((p.grad for p in parameters if p.grad is not None), "gradient")
        if not self.r.trace.trainable:
            self.r.trace.trainable = sum(p.numel() for p in parameters)
        self.r.end_phase(f"opt{self.done}")

    def after_step(self, optimizer: Any, *_: Any) -> None:
        self.r.mark((t for s in optimizer.state.values() for t in s.values() if isinstance(t, torch.Tensor)),
                    "optimizer_state")
        self.ended()

    def ended(self) -> None:
        self.done += 1
        self.passes = 0
        self.r.end_phase(f"fwd{self.done}")
        if self.done >= self.most:
            raise Enough
        self.say(f"its step {self.done} of {self.most} has ended, the next is traced")

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        optimizer: Any = importlib.import_module("torch.optim.optimizer")
        engine: Any = importlib.import_module("torch.autograd")
        plain, zero_grad = engine.backward, torch.nn.Module.zero_grad
        steps = self

        def zeroed(module: torch.nn.Module, *args: Any, **kwargs: Any) -> None:
            steps.zeroed(zero_grad, module, *args, **kwargs)
        setattr(torch.nn.Module, "zero_grad", zeroed)
        engine.backward = lambda *a, **k: self.backward(plain, *a, **k)
        handles = [optimizer.register_optimizer_step_pre_hook(self.before_step),
                   optimizer.register_optimizer_step_post_hook(self.after_step)]
        try:
            yield
        finally:
            engine.backward = plain
            setattr(torch.nn.Module, "zero_grad", zero_grad)
            for handle in handles:
                handle.remove()


def trace_script(command: list[str], o: Options) -> Trace:
    """Runs the script in this process; what it prints goes to standard error."""
    if "seq" in asks(command) and not o.seq:
        raise ValueError("{seq} stands for a sequence: say which (--seq)")
    words, size = _python(_filled(command, o))
    o = replace(o, gpus=max(size, 1), parallel="as the script says")
    with ranks.job(size, size > 0), recording(o, os.path.basename(words[-1] if words[0] == "-m" and len(words) < 2 else words[0])) as (r, _):
        steps = Steps(r, max(2, o.steps), o.say)
        o.say(f"running {r.trace.model} until its step {steps.most} has ended")
        sys.argv = words[1:] if words[0] in ("-m", "-c") else words
        with modules_of_all(r, steps.first), steps.watched(), contextlib.redirect_stdout(sys.stderr):
            try:
                if words[0] == "-m":
                    runpy.run_module(words[1], run_name="__main__", alter_sys=True)
                elif words[0] == "-c":
                    exec(compile(words[1], "<command>", "exec"), {"__name__": "__main__"})
                else:
                    sys.path.insert(0, os.path.dirname(os.path.abspath(words[0])))
                    runpy.run_path(words[0], run_name="__main__")
            except Enough:
                pass
            except SystemExit as e:
                if e.code:
                    raise ValueError(f"the script ended with {e.code} before its second step") from None
        if not steps.done:
            raise ValueError("the script ended without a step of an optimizer: nothing to plan")
        if not r.trace.category:
            raise ValueError("nothing of the script was on the GPU: it chose another device (a GPU is told to be there: "
                             "torch.cuda.is_available(), \"cuda\")")
        taken = asks(command)
        r.trace.parameters, r.trace.recipe = r.trace.trainable, ""
        r.trace.batch, r.trace.sequence = o.batch if "batch" in taken else 0, o.seq if "seq" in taken else 0
        r.trace.asked = [a for a in o.asked() if a.partition("=")[0] in taken]
        r.end_phase("end")
        tell(r)
        r.trace.assumed.append(f"the script's first {steps.done} steps; later ones take the same")
        return r.trace
