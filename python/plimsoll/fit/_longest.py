"""The batch of the longest samples that a loader can give, read before the first step; and what of later batches that does not bound."""
from __future__ import annotations

import math
import os
import site
import sys
import sysconfig
import time
from itertools import islice
from typing import Any, Iterable, Iterator

READ_S = 10.0  # samples are read for so long
KEPT_MOST = 1000  # samples of a data set without indices that are held
SIZES_MOST = 100_000  # batches of one epoch whose sizes are looked at
_LIBRARIES = tuple(os.path.join(os.path.realpath(folder), "") for folder in (
    *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")), *site.getsitepackages(), site.getusersitepackages(), os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


def is_own(path: str) -> bool:
    """Is this file the script's, or one of its own modules?"""
    return not path.startswith("<") and not os.path.realpath(path).startswith(_LIBRARIES)


def _size(value: Any) -> int:
    """Elements of a tensor, characters of a text, or those of all that a list holds."""
    if isinstance(value, (list, tuple)):
        return sum(map(_size, value)) if value and not isinstance(value[0], (int, float)) else len(value)
    return int(value.numel()) if hasattr(value, "numel") else len(value) if hasattr(value, "__len__") else 1


def _columns(sample: Any) -> dict[Any, Any]:
    return dict(sample) if hasattr(sample, "keys") else dict(enumerate(sample)) if isinstance(sample, (list, tuple)) else {0: sample}


def _sizes(sample: Any, collate: Any) -> dict[Any, int]:
    """Elements of each column.  What a text comes to is known once it is collated: characters are not tokens."""
    columns = _columns(sample)
    if any(isinstance(value, str) for value in columns.values()):
        try:
            columns = _columns(collate([sample]))
        except Exception:  # the collate function takes no single sample: its characters are what is known
            pass
    return {name: _size(value) for name, value in columns.items()}


def _spread(count: int) -> Iterator[int]:
    """Each index once; those of any beginning lie all over the data set."""
    step = max(1, round(count * 0.618))
    while math.gcd(step, count) > 1:
        step += 1
    return (number * step % count for number in range(count))


def _longest_first(read: list[tuple[dict[Any, int], Any]], samples: int) -> list[tuple[dict[Any, int], Any]]:
    """The longest, by their largest column; the longest of each column is among them, as a batch is as wide as that."""
    by_size = sorted(read, key=lambda one: -max(one[0].values(), default=0))
    names = dict.fromkeys(name for sizes, _ in read for name in sizes)
    widest = {id(max(by_size, key=lambda one: one[0].get(name, 0))) for name in names}
    chosen = {id(one) for one in sorted(by_size, key=lambda one: id(one) not in widest)[:samples]}
    return [one for one in by_size if id(one) in chosen]


def is_indexed(data: Any) -> bool:
    """Has it a sample for each index?  Wrappers of data sets without indices may have both calls all the same."""
    from torch.utils.data import IterableDataset
    return hasattr(data, "__len__") and hasattr(data, "__getitem__") and not isinstance(data, IterableDataset)


def longest(loader: Any, samples: int) -> tuple[Any, dict[str, Any]]:
    """The batch of the longest samples that were read, and what was read; (None, {}): the data set gives no samples.

    "of" is None if the data set has no indices and did not end.  "unit" is "characters" if the model itself makes tokens of the texts.
    """
    data: Any = getattr(loader, "dataset", None)
    began, collate = time.monotonic(), loader.collate_fn
    indexed = is_indexed(data)
    if not indexed and not hasattr(data, "__iter__") or indexed and len(data) < samples:
        return None, {}
    source: Iterable[Any] = _spread(len(data)) if indexed else data
    kept: list[tuple[dict[Any, int], Any]] = []
    of, count, lengths = len(data) if indexed else None, 0, (sys.maxsize, 0)
    for one in source:
        sizes = _sizes(data[one] if indexed else one, collate)
        kept.append((sizes, one))
        count, lengths = count + 1, (min(lengths[0], max(sizes.values(), default=0)), max([lengths[1], *sizes.values()]))
        if len(kept) > KEPT_MOST + samples:
            kept = _longest_first(kept, samples)
        if time.monotonic() - began > READ_S and count >= samples:
            break
    else:
        of = count
    if count < samples:
        return None, {}
    batch = collate([data[one] if indexed else one for _, one in _longest_first(kept, samples)])
    is_text = any(isinstance(value, (list, tuple)) and len(value) and isinstance(value[0], str) for value in _columns(batch).values())
    return batch, {"read": count, "of": of, "longest": lengths[1], "shortest": lengths[0], "unit": "characters" if is_text else "elements"}


def largest_batch(loader: Any) -> int:
    """Samples of the largest batch of an epoch; 0: not known."""
    if not is_indexed(getattr(loader, "dataset", None)):
        return int(getattr(loader, "batch_size", None) or 0)
    return max((len(indices) for indices in islice(getattr(loader, "batch_sampler", None) or (), SIZES_MOST)), default=0)


def unwrapped(thing: Any) -> Any:
    """The script's function or data set, which a library's wrapper may hold."""
    for name in ("func", "data_collator", "dataset"):
        thing = getattr(thing, name, thing)
    return thing


def source_of(thing: Any) -> str:
    """File of a function, or of an object's class."""
    code = getattr(thing, "__code__", None)
    if code is not None:
        return str(code.co_filename)
    return str(getattr(sys.modules.get(type(thing).__module__), "__file__", None) or "<unknown>")


def not_bounded(loader: Any, samples: int) -> list[str]:
    """What may make a later batch larger than the measured one, and cannot be known before it does."""
    found = []
    if largest_batch(loader) > samples:
        found.append(f"later batches of up to {largest_batch(loader):,} samples, the first one has {samples:,}")
    collate, data = unwrapped(loader.collate_fn), unwrapped(getattr(loader, "dataset", None))
    makers = [f"{getattr(collate, '__name__', type(collate).__name__)}()"] if is_own(source_of(collate)) else []
    makers += [type(data).__name__] if is_own(source_of(data)) else []
    if makers:
        found.append(f"lengths that {' and '.join(makers)} of the script would only give later")
    return found
