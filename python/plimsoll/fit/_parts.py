"""A batch as parts of it: the same samples, in the same order, each once."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable, Iterator

#: How the loss of a part is weighed so that the parts' gradients add up to the whole batch's.
WAYS = {
    "own": "as the Trainer scales it",
    "samples": "by samples",
    "tokens": "by labelled tokens",
}
IGNORED = -100  # torch.nn.CrossEntropyLoss's ignore_index


def tensors(batch: Any) -> Iterator[Any]:
    import torch
    if isinstance(batch, torch.Tensor):
        yield batch
    elif isinstance(batch, Mapping):
        for value in batch.values():
            yield from tensors(value)
    elif isinstance(batch, (list, tuple)):
        for value in batch:
            yield from tensors(value)


def _is_rows(batch: Any) -> bool:
    """A list with an entry for each sample: texts, or a mapping of its own for each, as of boxes in an image.  Of tensors: a list of a batch's columns."""
    import torch
    return isinstance(batch, (list, tuple)) and bool(batch) and not any(isinstance(value, (torch.Tensor, list, tuple)) for value in batch)


def _lengths(batch: Any) -> Iterator[int]:
    """Of the first dimension of each tensor and of each list of rows."""
    import torch
    if isinstance(batch, torch.Tensor):
        yield from [int(batch.shape[0])] if batch.dim() else []
    elif _is_rows(batch):
        yield len(batch)
    elif isinstance(batch, Mapping):
        for value in batch.values():
            yield from _lengths(value)
    elif isinstance(batch, (list, tuple)):
        for value in batch:
            yield from _lengths(value)


def samples_of(batch: Any, blocks: int = 1) -> int | None:
    """The samples of a batch: the first dimension of each of its tensors and lists of rows; None if they do not agree.

    blocks: of the first dimension, with a row of each sample in each of them, as of pairs the chosen ones and then the rejected ones.
    """
    sizes = set(_lengths(batch))
    return sizes.pop() // blocks if len(sizes) == 1 and not max(sizes) % blocks else None


def blocks_of(batch: Any, loaded: int) -> int:
    """How many blocks a collator made of `loaded` samples."""
    rows = samples_of(batch) or 0
    return rows // loaded if loaded and rows > loaded and not rows % loaded else 1


def _each(batch: Any, change: Callable[[Any], Any]) -> Any:
    """change: of a tensor, or of a list of rows."""
    import torch
    if isinstance(batch, torch.Tensor):
        return change(batch) if batch.dim() else batch
    if _is_rows(batch):
        return type(batch)(change(batch))
    if isinstance(batch, Mapping):
        changed = {key: _each(value, change) for key, value in batch.items()}
        return changed if type(batch) is dict else type(batch)(changed)  # type: ignore[call-arg]
    if isinstance(batch, (list, tuple)):
        return type(batch)(_each(value, change) for value in batch)
    return batch


def _each_block(batch: Any, blocks: int, change: Callable[[Any], Any]) -> Any:
    import torch

    def all_blocks(rows: Any) -> Any:
        length = len(rows) // blocks
        changed = [change(rows[i * length:(i + 1) * length]) for i in range(blocks)]
        return torch.cat(changed) if isinstance(rows, torch.Tensor) else [row for block in changed for row in block]

    return _each(batch, change if blocks == 1 else all_blocks)


def take(batch: Any, begin: int, end: int, blocks: int = 1) -> Any:
    """Samples from `begin` to before `end`."""
    return _each_block(batch, blocks, lambda rows: rows[begin:end])


def permute(batch: Any, order: Any, blocks: int = 1) -> Any:
    """The samples in another order, a tensor of indices."""
    return _each_block(batch, blocks, lambda rows: rows[order.to(rows.device)] if hasattr(rows, "device") else [rows[i] for i in order.tolist()])


def bounds(samples: int, parts: int) -> list[tuple[int, int]]:
    """Where parts begin and end: as many as are asked for, or one for each sample, none larger than another by more than one."""
    parts = max(1, min(parts, samples))
    return [(samples * i // parts, samples * (i + 1) // parts) for i in range(parts)]


def labelled(batch: Any) -> int | None:
    """The labels of a batch that count; None: it has none."""
    labels = batch.get("labels") if isinstance(batch, Mapping) else None
    return None if labels is None or not hasattr(labels, "ne") else int(labels.ne(IGNORED).sum())


def weight(part: Any, whole: Any, way: str, shifted: bool = False) -> float:
    """The share of a part in the loss of the whole batch.  shifted: labels are compared with the token before them."""
    if way == "tokens":
        if shifted:
            part, whole = _shifted(part), _shifted(whole)
        of_part, of_whole = labelled(part), labelled(whole)
        if of_part is not None and of_whole:
            return of_part / of_whole
    return (samples_of(part) or 1) / (samples_of(whole) or 1)


def shares(batch: Any, parts: int, way: str, shifted: bool = False, blocks: int = 1) -> list[tuple[Any, float]]:
    """Parts of the batch, with the share of each in its loss.  A part without a share is left out: a mean over no labels is not a number."""
    samples = samples_of(batch, blocks)
    if samples is None or samples < 2 or parts < 2:
        return [(batch, 1.0)]
    cut = [take(batch, begin, end, blocks) for begin, end in bounds(samples, parts)]
    weighed = [(part, 1.0 if way == "own" else weight(part, batch, way, shifted)) for part in cut]
    return [(part, share) for part, share in weighed if share] or [(batch, 1.0)]


def _shifted(batch: Any) -> Any:
    labels = batch.get("labels") if isinstance(batch, Mapping) else None
    return {"labels": labels[..., 1:]} if labels is not None and labels.dim() > 1 else batch
