"""A data set's samples in one file: filled once, compared at each opening, read as fast as memory goes."""
from __future__ import annotations

import json
import multiprocessing
import operator
import os
import random
import sys
import time
import traceback
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Iterator, Sequence

from . import _fingerprint, _samples
from .. import _torch
from ._batches import Batches
from .._input import PathLike
from ._randomness import own_randomness, seed_all
from ._samples import Field, Filling, Node, Samples, Value
from ..errors import ArgumentError, FormatError, NotFoundError, PlimsollError

ABOUT_VERSION = 1
REMADE = 32  # samples that are made again at opening, and twice before filling
DRAWN = 256  # as many where random numbers are drawn, though nothing is seen of them
WAIT_S = 0.05
MOST_TOLD = 6


class StaleCacheError(FormatError):
    """The file's samples are not those that the data set and its transform make now.  differences: what changed, a line each."""

    def __init__(self, message: str, differences: Sequence[str] = (), *, path: str | None = None, remedy: str | None = None) -> None:
        super().__init__(message, path=path, remedy=remedy)
        self.differences = tuple(differences)


@dataclass(frozen=True)
class Source:
    """What makes a sample."""

    dataset: Any
    transform: Callable[[Any], Any] | None

    def __call__(self, number: int) -> Any:
        sample = self.dataset[number]
        return sample if self.transform is None else self.transform(sample)

    def values(self, number: int) -> tuple[Node, list[Value]]:
        try:
            return _samples.take_apart(self(number))
        except PlimsollError as why:
            raise type(why)(f"sample {number}: {why}") from None
        except Exception as why:  # its own, with the sample that it is of
            if hasattr(why, "add_note"):
                why.add_note(f"sample {number} of the data set, which a SampleCache is made of")
            raise


# ---- random numbers ----


def _states() -> tuple[Any, ...]:
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    legacy = numpy.random.get_state() if numpy is not None else None
    return (random.getstate(), None if legacy is None else (legacy[0], legacy[1].tobytes(), *legacy[2:]),
            None if torch is None else bytes(torch.random.get_rng_state().tolist()))


# ---- what is made ----


def _spread(samples: int, most: int) -> list[int]:
    """Numbers of samples, the first among them."""
    return sorted({i * samples // most for i in range(most)}) if samples > most else list(range(samples))


def _make_twice(source: Source, number: int) -> tuple[Node, list[Value], bool]:
    """A sample, and whether making it drew random numbers.  Raises ArgumentError: it is another one each time."""
    seed_all(number)
    before = _states()
    node, values = source.values(number)
    drew = _states() != before
    seed_all(number + 0x9E3779B9)
    again, others = source.values(number)
    found = "its tree" if again != node else _samples.difference(values, others)
    if found is not None:
        raise ArgumentError(f"sample {number} is another one each time that it is made: {found}",
                            remedy="cache what does not change, and make what is random in the loop, on the batches")
    return node, values, drew


def _probe(source: Source, samples: int, ragged: bool) -> tuple[Node, list[Field]]:
    """The tree and the fields of the data set's samples, seen on some of them, each made twice."""
    node, seen, drawn = None, [], False
    with own_randomness():
        for number in _spread(samples, REMADE):
            this, values, drew = _make_twice(source, number)
            drawn |= drew
            _same_tree(node or this, this, number)
            node = node or this
            seen.append(values)
        for number in _spread(samples, DRAWN) if drawn else ():
            _make_twice(source, number)
    if node is None:
        raise ArgumentError("the data set has no samples")
    for values in seen:
        if [(v.dtype, len(v.shape)) for v in values] != [(v.dtype, len(v.shape)) for v in seen[0]]:
            raise ArgumentError(f"samples differ in dtype or in the number of dimensions: {_samples.difference(seen[0], values)}")
    return node, _samples.fields_of(seen, ragged)


def _same_tree(node: Node, this: Node, number: int) -> None:
    if this != node:
        raise ArgumentError(f"sample {number} is another tree of tensors than the first: {json.dumps(this)}, not {json.dumps(node)}")


# ---- filling ----


@dataclass(frozen=True)
class Job:
    """What a process needs to fill."""

    path: str
    source: Source
    node: Node
    fields: list[Field]
    samples: int
    about: bytes
    replaces: int  # mark of a file that is stale

    def run(self, look: Callable[[], None]) -> None:
        """Fill until nothing is missing; look() is called between ranges."""
        with Filling(self.path, self.fields, self.samples, self.about, self.replaces) as filling:
            while not self._sealed(filling, look):
                pass

    def _sealed(self, filling: Filling, look: Callable[[], None]) -> bool:
        while (claim := filling.claim()) is not None:
            look()
            if not claim:
                time.sleep(WAIT_S)
            for number in claim:
                node, values = self.source.values(number)
                _same_tree(self.node, node, number)
                filling.put(number, values)
        look()
        try:
            if filling.seal():
                return True
        except FormatError as why:
            _torch.logger.warning("%s: %s; it is made again", self.path, why)
        time.sleep(WAIT_S)
        return False


def _work(job: Job, parent: int, errors: Any) -> None:
    """A process that fills."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)

    def look() -> None:
        if os.getppid() != parent:
            raise SystemExit(1)

    try:
        job.run(look)
    except Exception as why:
        errors.send((f"{type(why).__name__}: {why}", traceback.format_exc()))
        raise SystemExit(1) from None


class _Workers:
    """Processes that fill next to this one."""

    def __init__(self, job: Job, count: int, start_method: str | None) -> None:
        context: Any = multiprocessing.get_context(start_method or ("spawn" if _torch.cuda_started() else None))
        self.errors, theirs = context.Pipe(duplex=False)
        self.processes = [context.Process(target=_work, args=(job, os.getpid(), theirs), daemon=True) for _ in range(count)]
        try:
            for process in self.processes:
                process.start()
        except BaseException:
            self.end()
            raise
        theirs.close()

    def look(self) -> None:
        """Raises what ended one of them.  One that was killed is not missed: this process makes what it has not."""
        try:
            if self.errors.poll():
                told, trace = self.errors.recv()
                raise PlimsollError(f"a process that fills failed: {told}\n{trace}")
        except EOFError:
            pass

    def end(self) -> None:
        for process in self.processes:
            if process.pid is not None and process.is_alive():
                process.terminate()
        for process in self.processes:
            if process.pid is not None:
                process.join()
        self.errors.close()


def _fill(job: Job, workers: int, start_method: str | None) -> None:
    with own_randomness():
        if not workers:
            job.run(lambda: None)
            return
        others = _Workers(job, workers, start_method)
        try:
            job.run(others.look)
        finally:
            others.end()


# ---- the cache ----


def _reopen(path: str, mark: int, check: str) -> SampleCache:
    cache = SampleCache.__new__(SampleCache)
    cache._open(path, check)
    if cache._samples.mark != mark:
        raise StaleCacheError(f"'{path}' was replaced since it was opened", path=path)
    return cache


class SampleCache:
    """The samples of a map-style data set, kept in one file: SampleCache(dataset, "train.samples", transform).

    Where the file is missing it is filled, by this process, `workers` others, and whoever else opens it meanwhile (the ranks of a
    job); what is killed is gone on with.  What the samples are made of (code, values, versions, files) is kept next to them, and some
    samples are made again at each opening: where they differ StaleCacheError says what does, and refresh=True fills anew.

    fingerprint: stands in for what is found out about data set and transform.  files: further ones whose size and time count.
    ragged: all sizes may differ from sample to sample (else those in which the first samples seen do).
    checksums: a sample's, when it is "first" read, "always" or "never".
    """

    def __init__(self, dataset: Any, path: PathLike, transform: Callable[[Any], Any] | None = None, *, workers: int = 0,
                 refresh: bool = False, ragged: bool = False, fingerprint: str | None = None, files: Iterable[PathLike] = (),
                 checksums: str = "first", start_method: str | None = None) -> None:
        if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
            raise ArgumentError(f"a {type(dataset).__name__} has no len() and no [i], as a map-style data set has")
        name, source, samples, opened = os.fspath(path), Source(dataset, transform), len(dataset), False
        parts = _fingerprint.of(dataset, transform, files) if fingerprint is None else {"fingerprint": fingerprint}
        parts["samples"] = str(samples)
        try:
            self._open(name, checksums)
            opened = True
            self._compare(source, parts)
            return
        except NotFoundError as why:
            if os.path.exists(name):
                raise
            del why
        except FormatError as why:
            if not refresh:
                raise
            _torch.logger.info("%s", why)
        node, fields = _probe(source, samples, ragged)
        about = json.dumps({"version": ABOUT_VERSION, "tree": node, "parts": parts}).encode("utf-8", "surrogatepass")
        _fill(Job(name, source, node, fields, samples, about, self._samples.mark if opened else 0), workers, start_method)
        self._open(name, checksums)
        self._compare(source, parts)

    def _open(self, path: str, checksums: str) -> None:
        self._samples = Samples(path, checksums)
        self._checksums = checksums
        try:
            about = json.loads(self._samples.about)
            if about["version"] != ABOUT_VERSION:
                raise FormatError(f"'{path}' is of version {about['version']}; this reads {ABOUT_VERSION}", path=path)
            self._node: Node = about["tree"]
            self._parts: dict[str, str] = dict(about["parts"])
            _samples.check_node(self._node, len(self._samples.fields))
        except (KeyError, TypeError, ValueError, IndexError) as why:
            if isinstance(why, PlimsollError):
                raise
            raise FormatError(f"'{path}' does not say what its samples are", path=path) from None

    def _compare(self, source: Source, parts: dict[str, str]) -> None:
        found = _fingerprint.differences(self._parts, parts)
        if found:
            more = f", and {len(found) - MOST_TOLD} more" if len(found) > MOST_TOLD else ""
            self._stale("its samples were made otherwise: " + "; ".join(found[:MOST_TOLD]) + more, found)
        with own_randomness():
            for number in random.SystemRandom().sample(range(len(self)), min(REMADE, len(self))):
                node, values = source.values(number)
                what = "its tree" if node != self._node else _samples.difference(self._samples.values(number), values)
                if what is not None:
                    self._stale(f"sample {number} is not what the data set makes now: {what}", [what])

    def _stale(self, what: str, differences: Sequence[str]) -> None:
        path = self._samples.path
        raise StaleCacheError(f"'{path}' is stale: {what}", differences, path=path, remedy="refresh=True fills it anew")

    @property
    def path(self) -> str:
        return self._samples.path

    def __len__(self) -> int:
        return self._samples.count

    def __getitem__(self, index: int) -> Any:
        number = operator.index(index)
        if number < 0:
            number += len(self)
        if not 0 <= number < len(self):
            raise IndexError(f"sample {index} of {len(self)}")
        return self._samples.sample(number, self._node)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"<SampleCache {self._samples.path}: {len(self)} samples>"

    def __reduce__(self) -> Any:
        return _reopen, (self._samples.path, self._samples.mark, self._checksums)

    def batches(self, batch_size: int, *, shuffle: int | None = None, drop_last: bool = False, device: Any = None, threads: int = 4,
                ahead: int = 2, normalize: tuple[Any, Any] | None = None, rank: int | None = None, world: int | None = None) -> Batches:
        """Batches as torch's DataLoader gives them, gathered by native threads `ahead` of their use.

        shuffle: the seed of the order, another one each epoch; None: the data set's own.  device: a GPU to which they are copied
        on a stream next to the loop's.  normalize: mean and std of 0..1 a channel; images of uint8 become (x / 255 - mean) / std on
        the device.  rank, world: by default those of torch.distributed; each sample is in one rank's batch.
        """
        return Batches(self, batch_size, shuffle=shuffle, drop_last=drop_last, device=device, threads=threads, ahead=ahead,
                       normalize=normalize, rank=rank, world=world)
