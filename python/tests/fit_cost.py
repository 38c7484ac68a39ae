"""What the hook of `plimsoll fit` adds to a training step on the CPU: python fit_cost.py prints a line for each loop and hook.

One process steps a small model by the loop's own functions, with the hook and without it in turn.  Each pair is of blocks of
steps that follow each other, in changing order; the line has the median of the pairs' differences, and their quartiles.
"""
import statistics
import sys
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
            began = time.perf_counter()
            which()
            times[which] = (time.perf_counter() - began) / STEPS * 1e6
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
    batch = {"x": torch.randn(8, 16), "labels": torch.randint(0, 16, (8,))}
    model = trainer.model
    for parts, name in ((1, "Trainer, not cut"), (2, "Trainer, 2 parts, with their passes")):
        asked = {"parts": parts, "checkpointed": [], "way": "samples"}
        module.Trainer.training_step = step
        _job._run(asked)["transformers.trainer"](module)
        patched = module.Trainer.training_step

        def steps(one: Callable[..., object]) -> None:
            for _ in range(STEPS):
                one(trainer, model, batch, None)

        compare(name, lambda: steps(step), lambda: steps(patched))
    module.Trainer.training_step = step


def loops() -> None:
    from accelerate import Accelerator
    from accelerate.data_loader import DataLoaderShard
    from accelerate.optimizer import AcceleratedOptimizer
    from accelerate.scheduler import AcceleratedScheduler
    places = ((Accelerator, ("backward", "prepare_data_loader", "prepare_model", "_do_sync", "autocast", "clip_grad_norm_", "clip_grad_value_")),
              (AcceleratedOptimizer, ("step", "zero_grad")), (AcceleratedScheduler, ("step",)), (DataLoaderShard, ("__iter__",)))
    own = {(kind, name): getattr(kind, name) for kind, names in places for name in names}
    _job._run_accelerate({"parts": 1, "checkpointed": [], "way": "samples"})["accelerate.accelerator"](_accelerate)
    hooked = {(kind, name): getattr(kind, name) for kind, names in places for name in names}
    accelerator, model = Accelerator(cpu=True), Net()
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    data = [{"x": torch.randn(16), "labels": torch.randint(0, 16, ())} for _ in range(8 * STEPS)]
    model, optimizer, loader = accelerator.prepare(model, optimizer, torch.utils.data.DataLoader(data, batch_size=8))

    def steps(functions: dict[tuple[type, str], object]) -> None:
        for (kind, name), function in functions.items():
            setattr(kind, name, function)
        for batch in loader:
            with accelerator.accumulate(model):
                accelerator.backward(model(**batch)["loss"])
                optimizer.step()
                optimizer.zero_grad()

    compare("accelerate, not cut", lambda: steps(own), lambda: steps(hooked))


if __name__ == "__main__":
    torch.set_num_threads(1)
    trainers()
    loops()
    sys.exit(0)
