"""What the hook of `plimsoll fit` adds to a training step on the CPU: python fit_cost.py prints a line for each loop and hook.

One process steps a small model by the loop's own functions, with the hook and without it in turn.  Each pair is of blocks of
steps that follow each other, in changing order, and of the thread's CPU time, as other processes may use the machine; the line
has the median of the pairs' differences, and their quartiles.
"""
import functools
import statistics
import time
from typing import Callable

import torch

from plimsoll.fit import _accelerate, _job

PAIRS, STEPS = 300, 20
STEP_US = 50_000  # that a share is of


def compare(name: str, without: Callable[[], object], hooked: Callable[[], object]) -> None:
    """Each is STEPS steps."""
    taken = []
    for number in range(PAIRS + 10):
        times = {}
        for which in (without, hooked) if number % 2 else (hooked, without):
            began = time.thread_time()
            which()
            times[which] = (time.thread_time() - began) / STEPS * 1e6
        taken.append((times[without], times[hooked] - times[without]))
    low, middle, high = statistics.quantiles([more for _, more in taken[10:]], n=4)
    print(f"{name}: {statistics.median(alone for alone, _ in taken[10:]):.0f} us per step without, {middle:+.1f} us with (quartiles {low:+.1f} to {high:+.1f}), "
          f"{100 * middle / STEP_US:.4f} % of a step of {STEP_US // 1000} ms", flush=True)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(16, 16)

    def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        return {"loss": torch.nn.functional.cross_entropy(self.layer(x), labels)}


def trainers() -> None:
    import transformers.trainer as module
    step = module.Trainer.training_step
    trainer = module.Trainer(model=Net(), args=module.TrainingArguments(output_dir="out", report_to=[], use_cpu=True))
    trainer.current_gradient_accumulation_steps = 1
    model = trainer.model

    def nothing(*_: object) -> torch.Tensor:
        return torch.zeros(())

    for name, parts, samples, own in (("not cut", 1, 8, step), ("cut in 1 part", 2, 1, step), ("2 parts, passes left out", 2, 8, nothing)):
        batch = {"x": torch.randn(samples, 16), "labels": torch.randint(0, 16, (samples,))}
        module.Trainer.training_step = own
        _job._run({"parts": parts, "checkpointed": [], "way": "samples"})["transformers.trainer"](module)

        def steps(one: Callable[..., object], batch: dict[str, torch.Tensor] = batch) -> None:
            for _ in range(STEPS):
                one(trainer, model, batch, None)

        compare(f"Trainer, {name}", functools.partial(steps, own), functools.partial(steps, module.Trainer.training_step))
    module.Trainer.training_step = step


def loops() -> None:
    from accelerate import Accelerator
    from accelerate.data_loader import DataLoaderShard
    from accelerate.optimizer import AcceleratedOptimizer
    from accelerate.scheduler import AcceleratedScheduler
    places = ((Accelerator, ("backward", "prepare_data_loader", "prepare_model", "_do_sync", "autocast", "clip_grad_norm_", "clip_grad_value_")),
              (AcceleratedOptimizer, ("step", "zero_grad")), (AcceleratedScheduler, ("step",)), (DataLoaderShard, ("__iter__",)))
    own = {(kind, name): getattr(kind, name) for kind, names in places for name in names}

    def steps(functions: dict[tuple[type, str], object]) -> None:
        for (kind, name), function in functions.items():
            setattr(kind, name, function)
        for batch in loader:
            with accelerator.accumulate(model):
                accelerator.backward(model(**batch)["loss"])
                optimizer.step()
                optimizer.zero_grad()

    for name, parts, samples in (("not cut", 1, 8), ("cut in 1 part", 2, 1)):
        for (kind, attribute), function in own.items():
            setattr(kind, attribute, function)
        _job._run_accelerate({"parts": parts, "checkpointed": [], "way": "samples"})["accelerate.accelerator"](_accelerate)
        hooked = {(kind, attribute): getattr(kind, attribute) for kind, attribute in own}
        accelerator, model = Accelerator(cpu=True), Net()
        optimizer = torch.optim.SGD(model.parameters(), 1e-3)
        data = [{"x": torch.randn(16), "labels": torch.randint(0, 16, ())} for _ in range(samples * STEPS)]
        model, optimizer, loader = accelerator.prepare(model, optimizer, torch.utils.data.DataLoader(data, batch_size=samples))
        compare(f"accelerate, {name}", functools.partial(steps, own), functools.partial(steps, hooked))


if __name__ == "__main__":
    torch.set_num_threads(1)
    trainers()
    loops()
