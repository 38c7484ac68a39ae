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

from . import _gauge, _ranks
from ._accelerate import Loop
from ._checkpointing import compare, is_able, is_the_same, measure, sizes, switched, wanted
from ._counts import counted, growth, is_left, numbers
from ._certificate import PARTS, SAMPLES, Certificate, Variant, agreed, certify, variants
from ._file import made_with
from ._ladder import PROBES, TRIES, Found, Run, Trial, only, search, worst
from ._later import forward_pass, later, own_callbacks, worst as worst_row
from ._longest import longest, not_bounded
from ._parts import WAYS, blocks_of, permute, samples_of, take
from ._trainer import Step, cut_step

#: Environment of a probe: nothing is reported to a service, nothing is pushed.
QUIET = {"WANDB_MODE": "disabled", "WANDB_DISABLED": "true", "MLFLOW_TRACKING_URI": "", "COMET_MODE": "disabled", "CLEARML_OFFLINE_MODE": "1",
         "DISABLE_MLFLOW_INTEGRATION": "TRUE", "HF_HUB_DISABLE_TELEMETRY": "1", "NEPTUNE_MODE": "debug", "SWANLAB_MODE": "disabled"}
#: Of a model that has no call for it, or made it.
NO_CHECKPOINTING: dict[str, Any] = {"checkpointing_bitwise": None, "checkpointing_off": None, "checkpointing_layers": {}}
STEPS = 3  # the optimizer's states are there from the second on
ENOUGH_S, STEPS_MOST = 0.5, 10  # short steps are taken so long, as their times vary most
_own_steps: list[bool] = []  # not empty: the probe itself steps the optimizer


def _silence(arguments: Any, folder: str) -> None:
    """Of TrainingArguments: what a Trainer writes goes into the folder, nothing is reported or pushed."""
    arguments.output_dir = folder
    arguments.report_to = "none"
    arguments.push_to_hub = False
    for name in ("logging_dir", "hub_model_id", "resume_from_checkpoint"):
        if hasattr(arguments, name):
            setattr(arguments, name, None)


def quieten(module: Any, folder: str) -> None:
    """transformers.training_args: as they are made."""
    made = module.TrainingArguments.__post_init__

    def __post_init__(self: Any) -> None:
        _silence(self, folder)
        made(self)

    module.TrainingArguments.__post_init__ = __post_init__


def quieten_trainer(module: Any, folder: str) -> None:
    """transformers.trainer: as training begins, what was set or added since; no tracker's callback stays, and nothing is resumed."""
    trains = module.Trainer.train

    def train(self: Any, resume_from_checkpoint: Any = None, *words: Any, **named: Any) -> Any:
        from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK
        _silence(self.args, folder)
        self.args.report_to = []
        for callback in INTEGRATION_TO_CALLBACK.values():
            while self.pop_callback(callback) is not None:
                pass
        return trains(self, None, *words, **named)

    module.Trainer.train = train
    module.Trainer.init_hf_repo = module.Trainer.push_to_hub = lambda *_, **__: None


def write(path: str, answer: dict[str, Any]) -> None:
    part = f"{path}.{os.getpid()}"
    with open(part, "w", encoding="utf-8") as f:
        json.dump(answer, f)
    os.replace(part, path)


def finish(path: str, answer: dict[str, Any]) -> NoReturn:
    """Write the answer and end the process: whatever the script does at its end would be a trace.

    A refusal is of the rank that finds it, so it ends in an error: a launcher ends the other ranks then.
    """
    refused = "refused" in answer
    if refused or _ranks.number() == 0:
        write(path, answer)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(_ranks.EXIT if refused else 0)


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


def certificate(step: Step, trainer: Any, model: Any, inputs: Any, items: Any, blocks: int) -> Certificate | None:
    """Of the first samples of this batch, as many as fit, 8 at most; None: two do not.

    Under DDP each rank takes its own gradients first, as one whose GPU is full would leave the others waiting; then all take theirs together.
    """
    import torch
    count, alone = min(_ranks.everyone(min(SAMPLES, samples_of(inputs, blocks) or 0))), _ranks.alone(model)
    while count > 1:
        try:
            proof = _certificate(step, trainer, alone, inputs, items, count, tuple(WAYS), blocks)
        except torch.OutOfMemoryError:
            proof = None
        proofs = _ranks.everyone(proof)
        if all(one is not None for one in proofs):
            break
        count //= 2
        gc.collect()  # the error's frames held its tensors
    else:
        return None
    proof = agreed(proofs)
    if alone is model or proof.way is None:
        return proof
    with _ranks.synced(model):
        return agreed(_ranks.everyone(_certificate(step, trainer, model, inputs, items, count, (proof.way,), blocks)))


def sharded_certificate(step: Step, trainer: Any, model: Any, inputs: Any, items: Any, count: int, blocks: int) -> Certificate | None:
    """The same of FSDP2: all ranks together, of `count` samples.  A rank whose GPU is full ends."""
    if count < 2:
        return None
    with _ranks.synced(model):
        return agreed(_ranks.everyone(_certificate(step, trainer, model, inputs, items, count, tuple(WAYS), blocks)))


def _certificate(step: Step, trainer: Any, model: Any, inputs: Any, items: Any, count: int, ways: tuple[str, ...], blocks: int) -> Certificate:
    import torch
    few = take(inputs, 0, count, blocks)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(1))
    items = _items(trainer, few, items)
    def take_variant(one: Variant) -> None:
        cut_step(step, trainer, model, permute(few, order, blocks) if one.permuted else few, items, one.parts, one.way, blocks)

    with _plain_context(trainer):
        return certify(model, count, take_variant, ways)


def shown(proof: Certificate) -> dict[str, Any]:
    """As JSON."""
    return {"way": proof.way, "samples": proof.samples, "parts": list(proof.parts), "noise": proof.noise, "rounding": proof.rounding, "limit": proof.limit,
            "differences": {way: far if math.isfinite(far) else None for way, far in proof.differences.items()}}


def _forget(optimizer: Any) -> None:
    """Before a trial of the whole batch: the optimizer begins as in the run, so that its states lie between the same activations."""
    getattr(optimizer, "optimizer", optimizer).state.clear()


def _measured(step: Step, trainer: Any, model: Any, inputs: Any, items: Any, trial: Trial, way: str, blocks: int) -> Run:
    """Whole steps, the optimizer's too, of samples in parts: the peak of allocated and reserved bytes, seconds per step."""
    import torch
    model.zero_grad(set_to_none=True)
    gauge = _gauge.gauge
    times: list[float] = []
    held, passes, after = 0, (0, 0, 0), (0, 0, 0)
    optimizer = getattr(trainer.optimizer, "optimizer", trainer.optimizer)  # accelerate's own skips steps while it accumulates
    gauge.begin()
    _own_steps.append(True)
    try:
        with switched(trainer.accelerator.unwrap_model(model), trial.checkpointed):
            while len(times) < STEPS or sum(times) < ENOUGH_S and len(times) < STEPS_MOST and _ranks.count() == 1:
                gauge.reset()
                held = gauge.gradients(model)
                began = gauge.seconds()
                cut_step(step, trainer, model, inputs, items, trial.parts, way, blocks)
                passes = _gauge.highest(passes, gauge.peak())
                gauge.reset()
                optimizer.step()
                model.zero_grad(set_to_none=not trial.held)
                times.append(gauge.seconds() - began)
                after = _gauge.highest(after, gauge.peak())
    except torch.OutOfMemoryError:
        if _ranks.is_sharded(model):
            raise
        return Run(trial, False)
    finally:
        _own_steps.clear()
    return Run.at(trial, min(times[1:]), passes, after, held)


def refuse_other_loops(module: Any, path: str) -> None:
    """torch.optim.optimizer: a step that no Trainer took ends the probe."""
    def another(*_: Any) -> None:
        if not _own_steps:
            finish(path, {"refused": "it steps an optimizer outside of the loops that are known here: transformers.Trainer's, and accelerate's with a prepared loader, accelerator.backward and a prepared optimizer"})

    module.register_optimizer_step_pre_hook(another)


def _searched(answer: dict[str, Any], asked: dict[str, Any], goes_on: bool) -> Generator[Trial, Run, Found]:
    """The setting that was asked for, or a search.  goes_on: the process does, after a trial that runs out of memory."""
    samples = answer["samples"]
    layers = list(answer["checkpointing_layers"].values())
    if asked.get("parts") or asked.get("checkpointed"):
        return only(Trial(samples, asked.get("parts") or 1, wanted(asked.get("checkpointed"), layers), answer["accumulation"] > 1))
    return search(samples, min(_ranks.everyone(_gauge.gauge.limit_bytes or 0)), is_cuttable(answer), layers if is_the_same(answer["checkpointing_off"]) else (),
                  answer["accumulation"] > 1, TRIES if goes_on else PROBES)


def is_cuttable(answer: dict[str, Any]) -> bool:
    """Are the gradients of the parts those of the batch, and does the loop not count batches?"""
    return answer["certificate"]["way"] is not None and not answer.get("counted")


def _kept(answer: dict[str, Any], found: Found) -> None:
    answer["runs"] = [run.json() for run in found.runs]
    answer["estimated"] = [one.json() for one in found.estimates]
    answer["cost_ms_per_gib"] = found.costs
    answer["chosen"] = found.chosen.json() if found.chosen else None


def _of_ranks(samples: int | None) -> dict[str, Any]:
    """The largest batch of all ranks, and how many they are."""
    return {"samples": max(_ranks.everyone(samples or 0)), "ranks": _ranks.count()}


def _leave(path: str, answer: dict[str, Any]) -> None:
    """What stands if a rank dies from here on."""
    if _ranks.number() == 0:
        write(path, answer)
    _ranks.everyone(None)


def _known(asked: dict[str, Any]) -> dict[Trial, Run]:
    """Runs of earlier probes."""
    return {run.trial: run for run in map(Run.of, asked.get("known", ()))}


def _leave_known(path: str, answer: dict[str, Any], known: dict[Trial, Run], trial: Trial) -> None:
    """What stands if a rank runs out of memory in the trial: the next probe goes on behind it."""
    runs = [run.json() for run in [*known.values(), Run(trial, False)]]
    left = [run for run in runs if run["samples"] == answer["samples"]] or runs[-1:]
    _leave(path, {**answer, "runs": left, "chosen": None, "again": {"known": runs}})


def _check_sharded(path: str, answer: dict[str, Any], model: Any) -> None:
    if not _ranks.is_in_fp32(model):
        finish(path, {**answer, "refused": "some of its layers are sharded by another function than torch.distributed.fsdp.fully_shard, so their precision is not known"})


def _certified(path: str, answer: dict[str, Any]) -> None:
    """End this probe of FSDP2, which was sharded in fp32; the next one measures, in the precision of the script."""
    if answer["gpu"]:
        finish(path, {**answer, "again": {"certified": {name: answer[name] for name in ("certificate", "counted", "loader", *NO_CHECKPOINTING) if name in answer}}})


def trainer_probe(path: str, asked: dict[str, Any]) -> Any:
    """What is done in place of the first training step: measure, write, end.  asked: of a setting, as PLIMSOLL_FIT has it."""
    def around(step: Step, trainer: Any, model: Any, inputs: Any, items: Any) -> Any:
        import torch
        try:
            first_step(step, trainer, model, inputs, items)
        except torch.OutOfMemoryError as error:
            if not _ranks.is_sharded(model):
                raise
            _ranks.stop(f"rank {_ranks.number()} of FSDP2, where all ranks wait for each other: {error}")

    def first_step(step: Step, trainer: Any, model: Any, inputs: Any, items: Any) -> None:
        blocks = blocks_of(inputs, trainer.args.train_batch_size)
        samples = samples_of(inputs, blocks)
        own = trainer.accelerator.unwrap_model(model)
        answer: dict[str, Any] = {"loop": "transformers.Trainer", "model": type(own).__name__, "samples": samples, "blocks": blocks}
        refused = _ranks.refusal(trainer.accelerator, model)
        if refused:
            finish(path, {**answer, "refused": refused})
        if samples is None or samples < 2:
            finish(path, {**answer, "refused": "the first batch is one sample" if samples else
                          "the tensors of a batch do not agree in their first dimension, so it is not known which of their rows are one sample"})
        answer |= _of_ranks(samples)
        gauge = _gauge.gauge
        answer["gpu"] = gauge.is_used_by(model)
        if answer["gpu"]:
            gauge.hold(asked.get("limit_bytes"))
        if "certified" in asked:
            answer |= asked["certified"]
        else:
            prove(step, trainer, model, inputs, items, answer)
        answer |= {"accumulation": trainer.current_gradient_accumulation_steps, "made_with": made_with(own, samples), "arguments": {
            "batch": trainer.args.per_device_train_batch_size, "accumulation": trainer.args.gradient_accumulation_steps, "drop_last": trainer.args.dataloader_drop_last}}
        if answer["gpu"]:
            measure_all(step, trainer, _ranks.alone(model), inputs, items, answer)
        finish(path, answer)

    def prove(step: Step, trainer: Any, model: Any, inputs: Any, items: Any, answer: dict[str, Any]) -> None:
        own, sharded = trainer.accelerator.unwrap_model(model), _ranks.is_sharded(model)
        if sharded:
            _check_sharded(path, answer, model)
            count = min(_ranks.everyone(min(asked.get("at_most", SAMPLES), answer["samples"])))
            _leave(path, {**answer, "again": {"at_most": count // 2}})
            proof = sharded_certificate(step, trainer, model, inputs, items, count, answer["blocks"])
        else:
            proof = certificate(step, trainer, model, inputs, items, answer["blocks"])
        if proof is None:
            finish(path, {**answer, "refused": "two samples in fp32 do not fit, so nothing is proven"})
        answer |= {"certificate": shown(proof), **NO_CHECKPOINTING}
        if is_able(own):
            answer["checkpointing_layers"] = sizes(own)
            few = take(inputs, 0, proof.samples, answer["blocks"])
            few_items = _items(trainer, few, items)

            def one(fp32: bool) -> None:
                with _plain_context(trainer) if fp32 else contextlib.nullcontext():
                    step(trainer, _ranks.alone(model), few, few_items)

            _measured_off(answer, measure(own, one))
        if sharded:
            _certified(path, answer)

    def measure_all(step: Step, trainer: Any, model: Any, inputs: Any, items: Any, answer: dict[str, Any]) -> None:
        loader = trainer.get_train_dataloader()
        batch, answer["lengths"] = longest(loader, answer["samples"])
        answer["not_measured"] = [*not_bounded(loader, answer["samples"]), *own_callbacks(trainer), "anything after this training"]
        if batch is not None:
            batch = trainer._prepare_inputs(batch)
            if all(_ranks.everyone(samples_of(batch, answer["blocks"]) == answer["samples"])):
                inputs, items = batch, _items(trainer, batch, items)
        way = answer["certificate"]["way"] or "own"
        known, sharded = _known(asked), _ranks.is_sharded(model)
        running = _searched(answer, asked, not sharded)
        try:
            trial = next(running)
            while True:
                if trial not in known:
                    if sharded:
                        _leave_known(path, answer, known, trial)
                    if trial.samples == answer["samples"]:
                        _forget(trainer.optimizer)
                    some = take(inputs, 0, trial.samples, answer["blocks"])
                    known[trial] = worst(_ranks.everyone(_measured(step, trainer, model, some, _items(trainer, some, items), trial, way, answer["blocks"])))
                trial = running.send(known[trial])
        except StopIteration as done:
            _kept(answer, done.value)
        if answer["chosen"]:
            model.zero_grad(set_to_none=True)
            if sharded:
                _leave(path, {**answer, "later": [{"what": "evaluation or save", "samples": None, "fits": False}]})
            rows = _ranks.everyone(later(trainer, model, os.path.dirname(path)))
            answer["later"] = [worst_row(of_ranks) for of_ranks in zip(*rows)]

    return around


def _gradients(loop: Loop, model: Any, few: Any, answer: dict[str, Any]) -> Generator[Any, None, Certificate | None]:
    """Gives the loop samples, whole and in parts, while steps are still; None: it does not train with this loader."""
    import torch
    count = samples_of(few) or 0
    order = torch.randperm(count, generator=torch.Generator().manual_seed(1))
    running = variants(model, count, tuple(way for way in WAYS if way != "own"), tuple(k for k in PARTS if 2 * k <= count))
    loop.still = True
    try:
        asked, before = next(running), (loop.steps, loop.synced)
        whole, counts = growth({}, {}), set[str]()
        while True:
            began, at = loop.backwards, numbers()
            yield from loop.parts(permute(few, order) if asked.permuted else few, asked.parts, asked.way)
            grown = growth(at, numbers())
            if asked.parts == 1:
                whole = grown
            else:
                counts |= counted(whole, grown)
                answer["counted"] = sorted(counts)
            if loop.backwards == began:
                running.close()
                return None
            if asked == Variant() and loop.steps == before[0] and loop.synced == before[1]:
                running.close()
                answer["refused"] = "it accumulates gradients by itself, without accelerator.accumulate()"
                return None
            asked = running.send(True)
    except StopIteration as done:
        return agreed(_ranks.everyone(done.value))
    finally:
        loop.still = False


def _measured_off(answer: dict[str, Any], far: float) -> None:
    """How far the checkpointed gradient is, on the rank where it is farthest."""
    far = max(_ranks.everyone(far))
    answer["checkpointing_off"] = far if math.isfinite(far) else None
    answer["checkpointing_bitwise"] = far == 0.0


def _checkpointed(loop: Loop, model: Any, batch: Any) -> Generator[Any, None, float]:
    """Gives the loop the same samples as it is and checkpointed, while steps are still; how far the gradient is."""
    running = compare(model)
    loop.still = True
    try:
        next(running)
        while True:
            yield from loop.parts(batch, 1, "samples")
            running.send(True)
    except StopIteration as done:
        return float(done.value)
    finally:
        loop.still = False


def _tried(loop: Loop, model: Any, batch: Any, trial: Trial, way: str) -> Generator[Any, None, Run]:
    """Gives the loop samples in parts, for whole steps; out of memory ends the process, in the script's own frames."""
    gauge = _gauge.gauge
    for optimizer in loop.optimizers:
        optimizer.zero_grad()
        if trial.samples == samples_of(batch):
            _forget(optimizer)
    gauge.begin()
    times, held, loop.held, loop.passes, step = [], 0, trial.held, (0, 0, 0), (0, 0, 0)
    with switched(model, trial.checkpointed):
        for _ in range(STEPS):
            gauge.reset()
            held, began = gauge.gradients(model), gauge.seconds()
            yield from loop.parts(take(batch, 0, trial.samples), trial.parts, way)
            times.append(gauge.seconds() - began)
            step = _gauge.highest(step, gauge.peak())
    peaks = (loop.passes, step) if any(loop.passes) else (step, (0, 0, 0))
    return worst(_ranks.everyone(Run.at(trial, min(times[1:]), *peaks, held)))


def _refusal(loop: Loop, accelerator: Any, samples: int | None) -> str | None:
    if len(accelerator._models) != 1:
        return "it prepared several models" if accelerator._models else "it prepared no model"
    refused = _ranks.refusal(accelerator, loop.model)
    if refused:
        return refused
    if samples is None or samples < 4:
        return "the first batch has fewer than 4 samples" if samples else "the tensors of a batch do not agree in their first dimension"
    return None


def _longest_of(loader: Any, batch: Any, answer: dict[str, Any]) -> Any:
    """The longest samples that a prepared loader can give, where it would put them; its own batch, if its data set has no indices."""
    from accelerate.utils import send_to_device
    found, answer["lengths"] = longest(loader, answer["samples"])
    if found is None or samples_of(found) != samples_of(batch):
        return batch
    return found if loader.device is None else send_to_device(found, loader.device)


def accelerate_probe(path: str, asked: dict[str, Any]) -> Any:
    """What a prepared loader gives in a probe: samples to compare gradients with, then batches to measure; then the process ends.

    It runs out of memory in the script's own frames, which ends it; "again" of what stands then is asked of the next probe:
    "known", runs that need not be measured again; "at_most", samples of a certificate.
    """
    known = _known(asked)
    under_way: list[int] = []  # samples of the batch that is measured

    def batches(loop: Loop, loader: Any, accelerator: Any, own: Iterator[Any]) -> Iterator[Any]:
        certified = asked.get("certified", {})
        number, began = getattr(loader, "plimsoll_number", None), loop.backwards
        if certified.get("loader", number) != number:
            yield from own
            return
        try:
            for batch in own:
                trains = yield from at_first(loop, loader, accelerator, batch, certified)
                if not trains:
                    yield from own  # it evaluates with gradients on
                    return
        except GeneratorExit:
            if loop.backwards == began:  # the script only looked at a batch
                under_way.clear()
            elif is_left():
                finish(path, {"refused": f"the loop ended after {loop.backwards - began} batches, before all was measured: give it more steps (it counts them by itself)"})
            raise

    def at_first(loop: Loop, loader: Any, accelerator: Any, batch: Any, certified: dict[str, Any]) -> Generator[Any, None, bool]:
        samples = samples_of(batch)
        if under_way:  # and it has not died of that
            finish(path, {"refused": f"it caught the out-of-memory error of batches of {under_way[0]}, and began anew with {samples}: it finds a batch size that fits by itself"})
        answer: dict[str, Any] = {"loop": "accelerate", "model": type(accelerator.unwrap_model(loop.model)).__name__ if loop.model is not None else "?",
                                  "samples": samples, "loader": getattr(loader, "plimsoll_number", None)}
        refused = _refusal(loop, accelerator, samples)
        if refused:
            finish(path, {**answer, "refused": refused})
        gauge, model = _gauge.gauge, accelerator.unwrap_model(loop.model)
        answer["gpu"] = gauge.is_used_by(model)
        if answer["gpu"]:
            gauge.hold(asked.get("limit_bytes"))
        answer |= {**_of_ranks(samples), "accumulation": accelerator.gradient_accumulation_steps, **NO_CHECKPOINTING, "made_with": made_with(model, samples), **certified}
        under_way.append(samples or 0)
        if not certified:
            yield from prove(loop, model, batch, answer)
        if "certificate" not in answer:
            under_way.clear()
            return False
        if answer["gpu"]:
            _own_steps.append(True)
            yield from measured(loop, model, _longest_of(loader, batch, answer), answer)
            others = [one for one in loop.loaders if one is not loader and answer["chosen"] and not _ranks.is_sharded(model)]
            rows = _ranks.everyone([forward_pass(model, one) for one in others])
            answer["later"] = [worst_row(of_ranks) for of_ranks in zip(*rows)]
            answer["not_measured"] = [*not_bounded(loader, answer["samples"]), "what the loop keeps of evaluations, and saves"]
        finish(path, answer)

    def prove(loop: Loop, model: Any, batch: Any, answer: dict[str, Any]) -> Iterator[Any]:
        """Compares gradients; the answer has no certificate then if it does not train with this loader."""
        if _ranks.is_sharded(model):
            _check_sharded(path, answer, model)
        count = min(_ranks.everyone(min(SAMPLES, answer["samples"], asked.get("at_most", SAMPLES))))
        if count < 4:
            finish(path, {**answer, "refused": "four samples in fp32 do not fit, so nothing is proven"})
        _leave(path, {**answer, "again": {"at_most": count // 2}})
        proof = yield from _gradients(loop, loop.model, take(batch, 0, count), answer)
        if proof is None:
            if "refused" in answer:
                finish(path, answer)
            if _ranks.number() == 0:
                os.remove(path)
            return
        answer["certificate"] = shown(proof)
        if is_able(model):
            answer["checkpointing_layers"] = sizes(model)
            _measured_off(answer, (yield from _checkpointed(loop, model, take(batch, 0, count))))
        if _ranks.is_sharded(model):
            _certified(path, answer)

    def measured(loop: Loop, model: Any, batch: Any, answer: dict[str, Any]) -> Iterator[Any]:
        running, way = _searched(answer, asked, False), answer["certificate"]["way"] or "samples"
        gauge = _gauge.gauge

        def passed(before: tuple[int, int, int]) -> tuple[int, int, int]:
            now = gauge.peak()
            gauge.reset()
            return _gauge.highest(before, now)

        loop.measure = passed
        try:
            trial = next(running)
            while True:
                if trial not in known:
                    _leave_known(path, answer, known, trial)
                    known[trial] = yield from _tried(loop, model, batch, trial, way)
                trial = running.send(known[trial])
        except StopIteration as done:
            _kept(answer, done.value)

    return batches
