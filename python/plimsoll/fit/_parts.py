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


def samples_of(batch: Any, blocks: int = 1) -> int | None:
    """The samples of a batch: the first dimension of each of its tensors; None if they do not agree, or are not tensors.

    blocks: of the first dimension, with a row of each sample in each of them, as of pairs the chosen ones and then the rejected ones.
    """
    sizes = {int(tensor.shape[0]) for tensor in tensors(batch) if tensor.dim()}
    return sizes.pop() // blocks if len(sizes) == 1 and not _is_listed(batch) and not max(sizes) % blocks else None


def blocks_of(batch: Any, loaded: int) -> int:
    """How many blocks a collator made of `loaded` samples."""
    rows = samples_of(batch) or 0
    return rows // loaded if loaded and rows > loaded and not rows % loaded else 1


def _is_listed(batch: Any) -> bool:
    """Does it hold lists of what are not tensors?  Whether such a list goes by samples is not known."""
    import torch
    if isinstance(batch, Mapping):
        return any(_is_listed(value) for value in batch.values())
    if isinstance(batch, (list, tuple)):
        return any(not isinstance(value, (torch.Tensor, Mapping)) or _is_listed(value) for value in batch)
    return False


def _each(batch: Any, change: Callable[[Any], Any]) -> Any:
    import torch
    if isinstance(batch, torch.Tensor):
        return change(batch) if batch.dim() else batch
    if isinstance(batch, Mapping):
        changed = {key: _each(value, change) for key, value in batch.items()}
        return changed if type(batch) is dict else type(batch)(changed)  # type: ignore[call-arg]
    if isinstance(batch, (list, tuple)):
        return type(batch)(_each(value, change) for value in batch)
    return batch


def _each_block(batch: Any, blocks: int, change: Callable[[Any], Any]) -> Any:
    import torch
    return _each(batch, change if blocks == 1 else lambda tensor: torch.cat([change(block) for block in tensor.chunk(blocks)]))


def take(batch: Any, begin: int, end: int, blocks: int = 1) -> Any:
    """Samples from `begin` to before `end`."""
    return _each_block(batch, blocks, lambda tensor: tensor[begin:end])


def permute(batch: Any, order: Any, blocks: int = 1) -> Any:
    """The samples in another order, a tensor of indices."""
    return _each_block(batch, blocks, lambda tensor: tensor[order.to(tensor.device)])


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
