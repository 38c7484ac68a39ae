"""What a Trainer does later than its first step, done once in the probe: an evaluation batch of the longest samples, and a save."""
from __future__ import annotations

import os
import shutil
import tempfile
from typing import Any, Callable, Iterator, Sequence

from . import _gauge
from ._parts import samples_of, tensors


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
        return {**row, "fits": None, "error": f"{type(error).__name__}: {error}".splitlines()[0]}
    allocated, reserved, _ = gauge.peak()
    return {**row, "fits": allocated + kept <= (gauge.limit_bytes or 0), "allocated_bytes": allocated + kept, "reserved_bytes": reserved + kept, "kept_bytes": kept}


def _bytes(outputs: Any) -> int:
    return sum(t.numel() * t.element_size() for t in tensors(outputs))


def _evaluations(trainer: Any, model: Any, longest: Callable[[Any, int], Any]) -> Iterator[dict[str, Any]]:
    """A batch of each data set that it evaluates."""
    data = trainer.eval_dataset
    for name in data if isinstance(data, dict) else (None,) if data is not None else ():
        loader = trainer.get_eval_dataloader() if name is None else trainer.get_eval_dataloader(name)
        if not hasattr(loader.dataset, "__len__") or not len(loader.dataset):
            batch, batches = next(iter(loader)), 1
        else:
            batch, _ = longest(loader, min(trainer.args.eval_batch_size, len(loader.dataset)))
            batches = -(-len(loader.dataset) // trainer.args.eval_batch_size)
        count = trainer.args.eval_accumulation_steps or batches

        def work(batch: Any = batch, count: int = count) -> int:
            model.eval()
            only_loss = trainer.args.prediction_loss_only or trainer.compute_metrics is None
            _, logits, labels = trainer.prediction_step(model, batch, only_loss)
            chosen = getattr(trainer, "preprocess_logits_for_metrics", None)
            if chosen is not None and logits is not None:
                logits = chosen(logits, labels)
            model.train()
            # each batch's outputs stay until they go to the CPU, and are copied as the next is appended
            return 0 if getattr(trainer.args, "batch_eval_metrics", False) else _bytes((logits, labels)) * (count - 1)

        yield _taken("evaluation" if name is None else f"evaluation of {name}", samples_of(batch), work)


def _save(trainer: Any, model: Any, folder: str) -> dict[str, Any]:
    """A checkpoint, in a folder of the probe's that is removed."""
    size = 3 * sum(p.numel() * p.element_size() for p in model.parameters())  # an Adam's states with it
    row = {"what": "save", "samples": None}
    if shutil.disk_usage(folder).free < 2 * size:
        return {**row, "fits": None, "error": f"not tried: less than {2 * size >> 20:,} MiB are free in {os.path.dirname(folder)}"}
    place = tempfile.mkdtemp(prefix="save-", dir=folder)
    kept, trainer.args.output_dir = trainer.args.output_dir, place

    def work() -> int:
        trainer._save_checkpoint(model, None)
        return 0

    try:
        return _taken("save", None, work)
    finally:
        trainer.args.output_dir = kept
        shutil.rmtree(place, ignore_errors=True)


def worst(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Of a row on several ranks: one that does not fit, one that was not measured, or the largest."""
    return max(rows, key=lambda row: (row["fits"] is False, row["fits"] is None, row.get("allocated_bytes", 0)))


def later(trainer: Any, model: Any, longest: Callable[[Any, int], Any], folder: str) -> list[dict[str, Any]]:
    """Rows of what was done: fits False: it runs out of memory; None: it was not measured, "error" has why.

    The optimizer has its states, gradients are gone, as between two steps.
    """
    rows = list(_evaluations(trainer, model, longest))
    if getattr(trainer.args.save_strategy, "value", trainer.args.save_strategy) != "no":
        rows.append(_save(trainer, model, folder))
    return rows
