"""The probe: a process of its own that starts the user's command, measures at its first training step, and ends there.

It leaves no trace: what Transformers would write goes into a folder that is removed, trackers and pushes are off.  What the
script itself writes before it trains is its own.
"""
from __future__ import annotations

import contextlib
import gc
import json
import math
import os
import sys
import time
from typing import Any, Generator, Iterator, NoReturn

from ._accelerate import Loop
from ._certificate import PARTS, SAMPLES, Certificate, Variant, certify, variants
from ._parts import WAYS, permute, samples_of, take
from ._trainer import Step, cut_step

#: Environment of a probe: nothing is reported to a service, nothing is pushed.
QUIET = {"WANDB_MODE": "disabled", "WANDB_DISABLED": "true", "MLFLOW_TRACKING_URI": "", "COMET_MODE": "disabled", "CLEARML_OFFLINE_MODE": "1",
         "DISABLE_MLFLOW_INTEGRATION": "TRUE", "HF_HUB_DISABLE_TELEMETRY": "1", "NEPTUNE_MODE": "debug", "SWANLAB_MODE": "disabled"}
STEPS = 3  # the optimizer's states are there from the second on
SEVERAL = "it runs on {} GPUs or under a strategy of its own ({}); one GPU without is what is known here"
READ_MOST = 2000  # samples whose lengths are looked at
READ_S = 10.0     # or as long as that takes
_own_steps: list[bool] = []  # not empty: the probe itself steps the optimizer


def quieten(module: Any, folder: str) -> None:
    """transformers.training_args: what a Trainer writes goes into the folder, nothing is reported or pushed."""
    made = module.TrainingArguments.__post_init__

    def __post_init__(self: Any) -> None:
        self.output_dir = folder
        self.report_to = "none"
        self.push_to_hub = False
        for name in ("logging_dir", "hub_model_id", "resume_from_checkpoint"):
            if hasattr(self, name):
                setattr(self, name, None)
        self.save_strategy = "no"
        made(self)

    module.TrainingArguments.__post_init__ = __post_init__


def write(path: str, answer: dict[str, Any]) -> None:
    part = path + ".part"
    with open(part, "w", encoding="utf-8") as f:
        json.dump(answer, f)
    os.replace(part, path)


def finish(path: str, answer: dict[str, Any]) -> NoReturn:
    """Write the answer and end the process: whatever the script does at its end would be a trace."""
    write(path, answer)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


@contextlib.contextmanager
def _plain_context(trainer: Any) -> Iterator[None]:
    """Without the autocast that a Trainer puts around its loss."""
    trainer.compute_loss_context_manager = contextlib.nullcontext
    try:
        yield
    finally:
        del trainer.compute_loss_context_manager


def _items(trainer: Any, inputs: Any, items: Any) -> Any:
    """What the Trainer divides the loss of these samples by; None: by nothing."""
    if items is None:
        return None
    try:
        return trainer.get_batch_samples(iter([inputs]), 1, trainer.args.device)[1]
    except TypeError:
        return trainer.get_batch_samples(iter([inputs]), 1)[1]


def _elements(sample: Any) -> int:
    """Of the largest tensor or list of a sample: what its length is measured by."""
    values = list(sample.values()) if hasattr(sample, "values") else list(sample) if isinstance(sample, (list, tuple)) else [sample]
    return max((v.numel() if hasattr(v, "numel") else len(v) if hasattr(v, "__len__") else 0 for v in values), default=0)


def longest(trainer: Any, samples: int) -> tuple[Any, dict[str, Any]]:
    """The batch of the longest samples that were read, ready for a step, and what was read; (None, {}): the data set has no indices."""
    loader = trainer.get_train_dataloader()
    data: Any = getattr(loader, "dataset", None)
    if not hasattr(data, "__len__") or not hasattr(data, "__getitem__") or len(data) < samples:
        return None, {}
    count = min(len(data), READ_MOST)
    began, found = time.monotonic(), []
    for number in range(count):
        index = len(data) * number // count
        found.append((_elements(data[index]), index))
        if time.monotonic() - began > READ_S and len(found) >= samples:
            break
    found.sort(key=lambda one: (-one[0], one[1]))
    batch = loader.collate_fn([data[index] for _, index in found[:samples]])
    return trainer._prepare_inputs(batch), {"read": len(found), "of": len(data), "longest": found[0][0], "shortest": found[-1][0]}


def certificate(step: Step, trainer: Any, model: Any, inputs: Any, items: Any) -> Certificate:
    """Of the first samples of this batch."""
    import torch
    count = min(SAMPLES, samples_of(inputs) or 0)
    few = take(inputs, 0, count)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(1))
    items = _items(trainer, few, items)
    def take_variant(one: Variant) -> None:
        cut_step(step, trainer, model, permute(few, order) if one.permuted else few, items, one.parts, one.way)

    with _plain_context(trainer):
        return certify(model, count, take_variant, tuple(WAYS))


def shown(proof: Certificate) -> dict[str, Any]:
    """As JSON."""
    return {"way": proof.way, "samples": proof.samples, "parts": list(proof.parts), "noise": proof.noise, "limit": proof.limit,
            "differences": {way: far if math.isfinite(far) else None for way, far in proof.differences.items()}}


def hold(limit_bytes: int) -> None:
    """PyTorch takes no more of the GPU."""
    import torch
    torch.cuda.set_per_process_memory_fraction(min(1.0, limit_bytes / torch.cuda.get_device_properties(0).total_memory))


def _peaks(retries: int, parts: int, times: list[float]) -> dict[str, Any]:
    import torch
    stats = torch.cuda.memory_stats()
    return {"parts": parts, "fits": True, "allocated_bytes": stats["allocated_bytes.all.peak"], "reserved_bytes": stats["reserved_bytes.all.peak"],
            "retries": stats.get("num_alloc_retries", 0) - retries, "step_s": min(times[1:])}


def _measured(step: Step, trainer: Any, model: Any, inputs: Any, items: Any, parts: int, way: str) -> dict[str, Any]:
    """Whole steps, the optimizer's too, of this batch in parts: the peak of allocated and reserved bytes, seconds per step."""
    import torch
    model.zero_grad(set_to_none=True)
    gc.collect()
    torch.cuda.empty_cache()
    retries = torch.cuda.memory_stats().get("num_alloc_retries", 0)
    times = []
    optimizer = getattr(trainer.optimizer, "optimizer", trainer.optimizer)  # accelerate's own skips steps while it accumulates
    _own_steps.append(True)
    try:
        for number in range(STEPS):
            if number == 1:
                torch.cuda.reset_peak_memory_stats()
            torch.cuda.synchronize()
            began = time.perf_counter()
            cut_step(step, trainer, model, inputs, items, parts, way)
            optimizer.step()
            model.zero_grad(set_to_none=True)
            torch.cuda.synchronize()
            times.append(time.perf_counter() - began)
    except torch.OutOfMemoryError:
        return {"parts": parts, "fits": False}
    finally:
        _own_steps.clear()
    return _peaks(retries, parts, times)


def refuse_other_loops(module: Any, path: str) -> None:
    """torch.optim.optimizer: a step that no Trainer took ends the probe."""
    def another(*_: Any) -> None:
        if not _own_steps:
            finish(path, {"refused": "it steps an optimizer outside of the loops that are known here: transformers.Trainer's, and accelerate's with a prepared loader, accelerator.backward and a prepared optimizer"})

    module.register_optimizer_step_pre_hook(another)


def trainer_probe(path: str, asked: int | None, limit_bytes: int | None) -> Any:
    """What is done in place of the first training step: measure, write, end.  asked: a number of parts, None: find it."""
    def around(step: Step, trainer: Any, model: Any, inputs: Any, items: Any) -> Any:
        import torch
        samples = samples_of(inputs)
        answer: dict[str, Any] = {"loop": "transformers.Trainer", "model": type(trainer.accelerator.unwrap_model(model)).__name__, "samples": samples}
        kind = str(trainer.accelerator.distributed_type.value)
        if trainer.args.world_size > 1 or trainer.args.n_gpu > 1 or kind != "NO":
            finish(path, {**answer, "refused": SEVERAL.format(max(trainer.args.world_size, trainer.args.n_gpu), kind)})
        if samples is None or samples < 2:
            finish(path, {**answer, "refused": "the first batch is one sample" if samples else
                          "the tensors of a batch do not agree in their first dimension, so it is not known which of their rows are one sample"})
        gpu = torch.cuda.is_initialized() and next(model.parameters()).is_cuda
        if gpu and limit_bytes:
            hold(limit_bytes)
        try:
            proof = certificate(step, trainer, model, inputs, items)
        except RuntimeError as error:
            if not isinstance(error, torch.OutOfMemoryError):
                raise
            finish(path, {**answer, "refused": f"{min(SAMPLES, samples or 0)} samples in fp32 do not fit, so nothing is proven"})
        answer["certificate"] = shown(proof)
        answer["accumulation"] = trainer.current_gradient_accumulation_steps
        if gpu:
            batch, answer["lengths"] = longest(trainer, samples or 0)
            if batch is not None and samples_of(batch) == samples:
                inputs, items = batch, _items(trainer, batch, items)
        runs: list[dict[str, Any]] = []
        parts = asked or 1
        while gpu and parts <= (samples or 0):
            runs.append(_measured(step, trainer, model, inputs, items, parts, proof.way or "own"))
            if asked or runs[-1]["fits"] or not proof:
                break
            parts *= 2
        finish(path, {**answer, "gpu": gpu, "runs": runs})

    return around


def _gradients(loop: Loop, model: Any, batch: Any, answer: dict[str, Any]) -> Generator[Any, None, Certificate | None]:
    """Gives the loop samples, whole and in parts, while steps are still; None: it does not train with this loader."""
    import torch
    count = min(SAMPLES, samples_of(batch) or 0)
    few = take(batch, 0, count)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(1))
    running = variants(model, count, tuple(way for way in WAYS if way != "own"), tuple(k for k in PARTS if 2 * k <= count))
    loop.still = True
    try:
        asked, before = next(running), (loop.steps, loop.synced)
        while True:
            began = loop.backwards
            yield from loop.parts(permute(few, order) if asked.permuted else few, asked.parts, asked.way)
            if loop.backwards == began:
                running.close()
                return None
            if asked == Variant() and loop.steps == before[0] and loop.synced == before[1]:
                running.close()
                answer["refused"] = "it accumulates gradients by itself, without accelerator.accumulate()"
                return None
            asked = running.send(True)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    finally:
        loop.still = False


def accelerate_probe(path: str, asked: int | None, limit_bytes: int | None) -> Any:
    """What a prepared loader gives in a probe: samples to compare gradients with, then whole batches to measure; then the process ends."""
    def batches(loop: Loop, loader: Any, accelerator: Any, own: Iterator[Any]) -> Iterator[Any]:
        import torch
        for batch in own:
            samples = samples_of(batch)
            answer: dict[str, Any] = {"loop": "accelerate", "model": type(accelerator.unwrap_model(accelerator._models[0])).__name__ if accelerator._models else "?",
                                      "samples": samples, "loader": getattr(loader, "plimsoll_number", None)}
            kind = str(accelerator.distributed_type.value)
            if accelerator.num_processes > 1 or kind != "NO":
                finish(path, {**answer, "refused": SEVERAL.format(accelerator.num_processes, kind)})
            if len(accelerator._models) != 1 or samples is None or samples < 4:
                finish(path, {**answer, "refused": "it prepared several models" if len(accelerator._models) > 1 else "it prepared no model" if not accelerator._models else
                              "the first batch has fewer than 4 samples" if samples else "the tensors of a batch do not agree in their first dimension"})
            model = accelerator._models[0]
            gpu = torch.cuda.is_initialized() and next(model.parameters()).is_cuda
            if gpu and limit_bytes:
                hold(limit_bytes)
            proof = yield from _gradients(loop, model, batch, answer)
            if proof is None:
                if "refused" in answer:
                    finish(path, answer)
                yield from own  # it evaluates with gradients on
                return
            parts = asked or 1
            answer |= {"certificate": shown(proof), "accumulation": accelerator.gradient_accumulation_steps, "gpu": gpu, "runs": []}
            if not gpu:
                finish(path, answer)
            write(path, {**answer, "runs": [{"parts": parts, "fits": False}]})  # what stands if it dies now
            retries = torch.cuda.memory_stats().get("num_alloc_retries", 0)
            times = []
            _own_steps.append(True)
            for number in range(STEPS):
                if number == 1:
                    torch.cuda.reset_peak_memory_stats()
                torch.cuda.synchronize()
                began = time.perf_counter()
                yield from loop.parts(batch, parts, proof.way or "samples")
                torch.cuda.synchronize()
                times.append(time.perf_counter() - began)
            finish(path, {**answer, "runs": [_peaks(retries, parts, times)]})

    return batches
