"""What a Trainer does later than its first step, done once in the probe: an evaluation of the longest samples, and a save."""
from __future__ import annotations

import contextlib
import functools
import os
import shutil
import tempfile
from typing import Any, Callable, Iterator, Sequence

from . import _gauge
from ._longest import is_indexed, is_own, largest_batch, longest, source_of
from ._parts import samples_of

MEASURED = 3  # batches of an evaluation: the first has nothing before it, two more show how it grows


def _not_measured(row: dict[str, Any], error: Exception) -> dict[str, Any]:
    return {**row, "fits": None, "error": f"not measured: {type(error).__name__}: {error}".splitlines()[0]}


def _taken(what: str, samples: int | None, work: Callable[[], int]) -> dict[str, Any]:
    """The peak of `work`; it gives bytes to add: of what later batches keep."""
    import torch
    gauge = _gauge.gauge
    gauge.begin()
    row: dict[str, Any] = {"what": what, "samples": samples}
    try:
        kept = work()
        gauge.seconds()
    except torch.OutOfMemoryError:
        return {**row, "fits": False}
    except Exception as error:  # the script's own, at a place that it reaches later
        return _not_measured(row, error)
    allocated, reserved, _ = gauge.peak()
    return {**row, "fits": allocated + kept <= (gauge.limit_bytes or 0), "allocated_bytes": allocated + kept, "reserved_bytes": reserved + kept, "kept_bytes": kept}


class _Batches:
    """The same batch a few times, in place of an evaluation's loader."""

    def __init__(self, loader: Any, batch: Any, count: int, ended: Callable[[], None]) -> None:
        self.dataset, self.batch, self.count, self.ended = loader.dataset, batch, count, ended

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Any]:
        yield from [self.batch] * self.count
        self.ended()


@contextlib.contextmanager
def _replaced(thing: Any, **attributes: Any) -> Iterator[None]:
    own = {name: vars(thing).get(name, thing) for name in attributes}  # itself: it has none of its own
    vars(thing).update(attributes)
    try:
        yield
    finally:
        for name, value in own.items():
            if value is thing:
                delattr(thing, name)
            else:
                setattr(thing, name, value)


def _grown(peaks: Sequence[int], batches: int) -> int:
    """Of `batches`: each after those that were measured adds what the last one added."""
    return max(peaks) + (batches - len(peaks)) * max(0, peaks[-1] - peaks[-2]) if len(peaks) > 1 and batches > len(peaks) else max(peaks)


def _evaluated(trainer: Any, name: str | None, loader: Any, batch: Any, batches: int) -> int:
    """The Trainer's own evaluation, of its first batches; gives bytes that all of `batches` need above the peak.

    What stays on the GPU grows from batch to batch: outputs until they go to the CPU, their copy as the next is appended, what a
    metric keeps.  The peak of a forward pass and that of what is done between two grow by different steps; what is done after
    the last one grows as what stays, which a forward pass shows.
    """
    gauge, step = _gauge.gauge, trainer.prediction_step
    forward: list[int] = []
    between: list[int] = []

    def prediction_step(*words: Any, **named: Any) -> Any:
        between.append(gauge.peak()[0])
        gauge.reset()
        result = step(*words, **named)
        forward.append(gauge.peak()[0])
        gauge.reset()
        return result

    def ended() -> None:
        between.append(gauge.peak()[0])
        gauge.reset()

    by_batch = getattr(trainer.args, "batch_eval_metrics", False)
    until = batches if by_batch else min(batches, trainer.args.eval_accumulation_steps or batches)
    metrics = trainer.compute_metrics if by_batch or trainer.compute_metrics is None else lambda _: {}
    with _replaced(trainer, prediction_step=prediction_step, compute_metrics=metrics, log=lambda *_, **__: None,
                   get_eval_dataloader=lambda *_, **__: _Batches(loader, batch, min(MEASURED, batches), ended)), _replaced(trainer.callback_handler, callbacks=[]):
        trainer.evaluate(**({} if name is None else {"eval_dataset": name}))
    after = gauge.peak()[0]
    measured = max(forward + between + [after])
    if not forward:
        return 0
    return max(_grown(forward, until), _grown(between[1:], until), after + _grown(forward, until) - max(forward), measured) - measured


def _evaluations(trainer: Any) -> Iterator[dict[str, Any]]:
    """One of each data set that it evaluates."""
    data = trainer.eval_dataset
    for name in data if isinstance(data, dict) else (None,) if data is not None else ():
        loader = trainer.get_eval_dataloader() if name is None else trainer.get_eval_dataloader(name)
        batch, batches = _longest_batch(loader, trainer.args.eval_batch_size)
        if batch is None:
            continue
        yield _taken("evaluation" if name is None else f"evaluation of {name}", samples_of(batch), functools.partial(_evaluated, trainer, name, loader, batch, batches))


def _longest_batch(loader: Any, samples: int) -> tuple[Any, int]:
    """And how many batches there are at least; (None, 0): none."""
    count = len(loader.dataset) if is_indexed(loader.dataset) else samples
    batch, lengths = longest(loader, max(1, min(samples, count)))
    if batch is None:
        batch = next(iter(loader), None)
        return batch, int(batch is not None)
    return batch, -(-(lengths["of"] or lengths["read"]) // samples)


def forward_pass(model: Any, loader: Any) -> dict[str, Any]:
    """Of the longest batch of a loader that a loop of accelerate prepared and does not train with."""
    import torch
    from accelerate.utils import send_to_device
    trains, what = model.training, "evaluation"
    with torch.no_grad():
        try:
            batch, _ = _longest_batch(loader, largest_batch(loader) or 1)
            samples = samples_of(batch)
        except Exception as error:
            return _not_measured({"what": what, "samples": None}, error)

        def work() -> int:
            on_device = send_to_device(batch, loader.device) if loader.device is not None else batch
            model.eval()
            model(**on_device) if hasattr(on_device, "keys") else model(on_device)
            return 0

        try:
            return _taken(what, samples, work)
        finally:
            model.train(trains)


def own_callbacks(trainer: Any) -> list[str]:
    """The script's own callbacks may do anything later."""
    names = [type(one).__name__ for one in trainer.callback_handler.callbacks if is_own(source_of(one))]
    return [f"what callback {' and '.join(names)} of the script does later"] if names else []


def _save(trainer: Any, model: Any, folder: str) -> dict[str, Any]:
    """A checkpoint, in a folder of the probe's that is removed."""
    size = 3 * sum(p.numel() * p.element_size() for p in model.parameters())  # an Adam's states with it
    row = {"what": "save", "samples": None}
    if shutil.disk_usage(folder).free < 2 * size:
        return {**row, "fits": None, "error": f"not tried: less than {2 * size >> 20:,} MiB are free in {os.path.dirname(folder)}"}
    place = tempfile.mkdtemp(prefix="save-", dir=folder)
    kept, trainer.args.output_dir, best = trainer.args.output_dir, place, trainer.state.best_model_checkpoint

    def work() -> int:
        trainer._save_checkpoint(model, None)
        if trainer.args.load_best_model_at_end:
            trainer.state.best_model_checkpoint = os.path.join(place, f"checkpoint-{trainer.state.global_step}")
            trainer._load_best_model()
        return 0

    try:
        return _taken("save", None, work)
    finally:
        trainer.args.output_dir, trainer.state.best_model_checkpoint = kept, best
        shutil.rmtree(place, ignore_errors=True)


def worst(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Of a row on several ranks: one that does not fit, one that was not measured, or the largest."""
    return max(rows, key=lambda row: (row["fits"] is False, row["fits"] is None, row.get("allocated_bytes", 0)))


def later(trainer: Any, model: Any, folder: str) -> list[dict[str, Any]]:
    """Rows of what was done: fits False: it runs out of memory; None: it was not measured, "error" has why.

    The optimizer has its states, gradients are gone, as between two steps.
    """
    rows = list(_evaluations(trainer))
    if getattr(trainer.args.save_strategy, "value", trainer.args.save_strategy) != "no":
        rows.append(_save(trainer, model, folder))
    return rows
