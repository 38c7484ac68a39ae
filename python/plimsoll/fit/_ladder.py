"""Which changes to try, in which order: from measured steps of a few samples, the cheapest first, few whole batches."""
from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any, Generator, Iterable, Iterator, Sequence

FEW = 8    # samples of a first slice; larger ones follow if they fit, as few samples do not keep a GPU busy
FILLED = 0.8  # of the limit, by a larger slice
PROBES = 3  # whole batches that are tried, if one that does not fit ends the process
TRIES = 6  # ... and if it does not
STEP = 0.04  # of the limit: what the next try needs less than one that did not fit; after a second one twice as much, and so on
WORTH = 1.05  # another try after one that fits has to be faster by this


@dataclass(frozen=True)
class Trial:
    """Whole steps to take, the optimizer's too: of the longest `samples` samples, in parts.

    checkpointed: how many layers of each list; (): none.  held: gradients stay from step to step, as in a part that is not the first.
    """

    samples: int
    parts: int = 1
    checkpointed: tuple[int, ...] = ()
    held: bool = False

    def json(self) -> dict[str, Any]:
        return {"samples": self.samples, "parts": self.parts, "checkpointing": bool(self.checkpointed), "checkpointed_layers": list(self.checkpointed), **({"held": True} if self.held else {})}


@dataclass(frozen=True)
class Run:
    """What a trial took.  fits False: it ran out of memory.

    allocated_bytes: the larger of passes_bytes, the peak of the forward and backward passes, and step_bytes, that of the optimizer's step.
    held_bytes: of gradients that were there as the passes began.
    """

    trial: Trial
    fits: bool
    allocated_bytes: int = 0
    reserved_bytes: int = 0
    retries: int = 0
    step_s: float = 0.0
    passes_bytes: int = 0
    step_bytes: int = 0
    held_bytes: int = 0

    @property
    def fits_well(self) -> bool:
        """And the allocator did not have to give memory back to go on, which costs time in each step, and another order of requests may not survive."""
        return self.fits and not self.retries

    def json(self) -> dict[str, Any]:
        return {**self.trial.json(), **{k: v for k, v in asdict(self).items() if k != "trial" and (self.fits or k == "fits")}}

    @staticmethod
    def at(trial: Trial, step_s: float, passes: tuple[int, int, int], step: tuple[int, int, int] = (0, 0, 0), held_bytes: int = 0) -> Run:
        """Of peaks as a gauge gives them: (allocated, reserved, retries)."""
        return Run(trial, True, max(passes[0], step[0]), max(passes[1], step[1]), max(passes[2], step[2]), step_s, passes[0], step[0], held_bytes)

    @staticmethod
    def of(kept: dict[str, Any]) -> Run:
        trial = Trial(kept["samples"], kept["parts"], tuple(kept["checkpointed_layers"]), kept.get("held", False))
        return Run(trial, **{k: v for k, v in kept.items() if k not in trial.json()})


def worst(runs: Sequence[Run]) -> Run:
    """Of a trial on several ranks: what is enough for each of them."""
    for run in runs:
        if not run.fits:
            return run
    names = [one.name for one in fields(Run) if one.name not in ("trial", "fits")]
    return Run(runs[0].trial, True, **{name: max(getattr(run, name) for run in runs) for name in names})


@dataclass(frozen=True)
class Estimate:
    """What a step of a whole batch should take.  passes_bytes: of the passes, with gradients of an earlier part."""

    trial: Trial
    fits: bool
    allocated_bytes: int
    reserved_bytes: int
    step_s: float
    passes_bytes: int

    def json(self) -> dict[str, Any]:
        return {**self.trial.json(), **{k: v for k, v in asdict(self).items() if k not in ("trial", "passes_bytes")}}


@dataclass
class Found:
    """chosen: the trial of the whole batch that fits, or None.  estimates: of the batch as it is, and of the least of each change that should fit.

    costs: of each change, milliseconds of a step per GiB that it saves, measured on slices.
    """

    chosen: Run | None = None
    runs: list[Run] = field(default_factory=list)
    estimates: list[Estimate] = field(default_factory=list)
    costs: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class _Pair:
    """Steps of few samples and of half of them: a straight line through both estimates what another number of samples takes."""

    half: Run
    whole: Run

    def line(self, name: str, samples: int) -> float:
        """Run's field `name`: bytes or seconds."""
        half, whole = getattr(self.half, name), getattr(self.whole, name)
        slope = max(0.0, (whole - half) / (self.whole.trial.samples - self.half.trial.samples))
        return float(whole + slope * (samples - self.whole.trial.samples))

    def seconds(self, samples: int) -> float:
        """Of a step: no sample takes longer because there are more of them."""
        return min(self.line("step_s", samples), self.whole.step_s * samples / self.whole.trial.samples)


@dataclass
class _Slices:
    """Few samples as they are, in two parts, with all layers checkpointed, and with half of each list.

    A layer saves what half of its list saves on average.  The last of all saves nothing, as it is computed again at once, so all
    layers together may save less than that: the peak stays above what was measured for all.
    """

    sizes: tuple[int, ...]
    base: _Pair
    halved: Run | None = None
    every: _Pair | None = None
    each: list[tuple[int, int, _Pair]] = field(default_factory=list)  # number of a list, layers of it, their steps; the cheapest first

    def slower(self, checkpointed: tuple[int, ...]) -> float:
        """Seconds that these layers add to a step, of those that it takes as it is; of as many samples, as lines of few would differ by chance."""
        assert self.every is not None
        own = self.base.whole.step_s
        layer = {number: max(0.0, pair.whole.step_s - own) / count for number, count, pair in self.each}
        whole = sum(layer.get(number, 0.0) * size for number, size in enumerate(self.sizes))
        share = sum(layer.get(n, 0.0) * count for n, count in enumerate(checkpointed)) / whole if whole > 0 else sum(checkpointed) / sum(self.sizes)
        return max(0.0, self.every.whole.step_s - own) * share / own if own > 0 else 0.0

    def saved(self, checkpointed: tuple[int, ...], samples: int) -> float:
        """Bytes that these layers add to the passes: fewer than none."""
        assert self.every is not None
        base = self.base.line("passes_bytes", samples)
        layers = sum((pair.line("passes_bytes", samples) - base) / count * checkpointed[number] for number, count, pair in self.each)
        return max(layers, self.every.line("passes_bytes", samples) - base)

    def estimate(self, trial: Trial, limit_bytes: int) -> Estimate | None:
        """None: what it changes was not measured.

        With gradients held, memory grows by the same bytes for each sample.  Without them a step of few samples needs most at the end
        of its backward pass, one of many at the beginning: less by the gradients than with them.
        """
        if trial.checkpointed and self.every is None or trial.parts > 1 and self.halved is None:
            return None
        each = -(-trial.samples // trial.parts)
        passes, seconds = self.base.line("passes_bytes", each), self.base.seconds(trial.samples)
        if trial.parts > 1 and self.halved is not None:
            seconds += (trial.parts - 1) * max(0.0, self.halved.step_s - self.base.whole.step_s)
        if trial.checkpointed:
            passes += self.saved(trial.checkpointed, each)
            seconds *= 1 + self.slower(trial.checkpointed)
        needed = passes if trial.parts > 1 or trial.held else max(passes - self.base.whole.held_bytes, self.base.line("passes_bytes", 0))
        needed = max(needed, self.base.whole.step_bytes)
        reserved = needed + self.spare(bool(trial.checkpointed), each)
        return Estimate(trial, reserved <= limit_bytes, int(needed), int(reserved), seconds, int(passes))

    def spare(self, is_checkpointed: bool, samples: int) -> float:
        """What the allocator reserves above what is allocated."""
        pairs = [self.base, *([self.every] if is_checkpointed and self.every is not None else [])]
        return max(0.0, *(pair.line("reserved_bytes", samples) - pair.line("allocated_bytes", samples) for pair in pairs))

    def counts(self) -> Iterator[tuple[int, ...]]:
        """How many layers of each list: none, then more and more, of the list first that costs least per byte."""
        counts = [0] * len(self.sizes)
        yield ()
        for number, _, _ in self.each:
            while counts[number] < self.sizes[number]:
                counts[number] += 1
                yield tuple(counts)


def _cost(change: Run | None, base: Run) -> float | None:
    """Milliseconds per GiB; None: it saves nothing."""
    if change is None or not change.fits or change.passes_bytes >= base.passes_bytes:
        return None
    return 1e3 * (change.step_s - base.step_s) / ((base.passes_bytes - change.passes_bytes) / (1 << 30))


def _pair(few: int, counts: tuple[int, ...]) -> Generator[Trial, Run, _Pair | None]:
    whole = yield Trial(few, 1, counts, held=True)
    if not whole.fits:
        return None
    half = yield Trial(few // 2, 1, counts, held=True)
    return _Pair(half, whole) if half.fits else None


def _checkpointed(slices: _Slices, few: int) -> Generator[Trial, Run, None]:
    """Measure all layers, then half of each list; what saves nothing is left out."""
    slices.every = yield from _pair(few, slices.sizes)
    if slices.every is None:
        return
    costs = []
    for number, size in enumerate(slices.sizes):
        count = (size + 1) // 2
        counts = tuple(count if n == number else 0 for n in range(len(slices.sizes)))
        pair = slices.every if counts == slices.sizes else (yield from _pair(few, counts))
        cost = _cost(pair.whole, slices.base.whole) if pair is not None else None
        if pair is not None and cost is not None:
            costs.append((cost, (number, count, pair)))
    slices.each = [one for _, one in sorted(costs, key=lambda row: row[0])]


def _base(samples: int, limit_bytes: int) -> Generator[Trial, Run, _Pair | None]:
    """The model as it is, with as many samples as fit well."""
    few = min(FEW, max(2, samples // 2))
    base = yield from _pair(few, ())
    while base is None and few > 3:
        few //= 2
        base = yield from _pair(few, ())
    if base is None:
        return None
    more = few
    while more * 2 <= samples // 2 and base.line("passes_bytes", more * 2) <= FILLED * limit_bytes:
        more *= 2
    larger = (yield Trial(more, held=True)) if more > few else base.whole
    return _Pair(base.whole, larger) if more > few and larger.fits else base


def _slices(found: Found, samples: int, limit_bytes: int, may_cut: bool, sizes: tuple[int, ...]) -> Generator[Trial, Run, _Slices | None]:
    base = yield from _base(samples, limit_bytes)
    if base is None:
        return None
    few = base.whole.trial.samples
    slices = _Slices(sizes, base, (yield Trial(few, 2, held=True)) if may_cut else None)
    if sizes:
        yield from _checkpointed(slices, few)
    for name, change in (("parts", slices.halved), ("checkpointing", slices.every.whole if slices.every is not None else None)):
        cost = _cost(change, base.whole)
        if cost is not None:
            found.costs[name] = cost
    return slices


def _settings(samples: int, may_cut: bool, counts: Iterable[tuple[int, ...]], held: bool) -> Iterator[Trial]:
    for checkpointed in counts:
        parts = 1
        while parts <= samples:
            yield Trial(samples, parts, checkpointed, held)
            parts *= 2
            if not may_cut:
                break


@dataclass
class _Tries:
    """Whole batches, and what they say of the estimates."""

    estimates: dict[Trial, Estimate]
    limit_bytes: int
    most: int
    runs: list[Run] = field(default_factory=list)

    def room(self) -> float:
        """Bytes, reserved as estimated, up to which a setting should fit."""
        room, failed, step = float(self.limit_bytes), float("inf"), STEP
        for run in self.runs:
            needed = self.estimates[run.trial].reserved_bytes
            if run.fits_well:
                room = self.limit_bytes - (run.reserved_bytes - needed)
            else:
                failed = min(failed, needed)
                room = failed - step * self.limit_bytes
                step *= 2
        return min(room, failed - 1)

    def seconds(self, estimate: Estimate) -> float:
        """As the last measured batch in as many parts was faster or slower than its own estimate."""
        for run in reversed(self.runs):
            own = self.estimates[run.trial].step_s
            if run.fits and own > 0 and run.trial.parts == estimate.trial.parts:
                return estimate.step_s * run.step_s / own
        return estimate.step_s

    def chosen(self) -> Run | None:
        """The fastest that fits well, or else one that fits."""
        return min((run for run in self.runs if run.fits), key=lambda run: (not run.fits_well, run.step_s), default=None)

    def next(self) -> Trial | None:
        """The fastest that should fit, or what needs least, if nothing should, or this is the last try; None: no other is worth it."""
        best, tried, room = self.chosen(), [run.trial for run in self.runs], self.room()
        most_s = best.step_s / WORTH if best is not None and best.fits_well else None
        fitting = [e for e in self.estimates.values() if e.reserved_bytes <= room and e.trial not in tried and (most_s is None or self.seconds(e) < most_s)]
        if most_s is None and (not fitting or len(self.runs) == self.most - 1):
            least = min(self.estimates.values(), key=lambda e: (e.allocated_bytes, e.passes_bytes, e.step_s)).trial
            return None if least in tried else least
        return min(fitting, key=lambda e: (self.seconds(e), e.trial.parts, sum(e.trial.checkpointed))).trial if fitting else None


def _shown(estimates: dict[Trial, Estimate], samples: int) -> Iterator[Estimate]:
    """The batch as it is, and for each change alone the least that should fit."""
    alone = sorted(estimates.values(), key=lambda e: (e.trial.parts, sum(e.trial.checkpointed)))
    yield from alone[:1]
    yield from [e for e in alone if e.fits and e.trial.parts > 1 and not e.trial.checkpointed][:1]
    yield from [e for e in alone if e.fits and e.trial.parts == 1 and e.trial.checkpointed][:1]


def search(samples: int, limit_bytes: int, may_cut: bool, sizes: Sequence[int] = (), held: bool = False, most: int = TRIES) -> Generator[Trial, Run, Found]:
    """Yields trials, is sent what they took.  sizes: of the lists of layers that may be checkpointed.  held: the job accumulates gradients.
    most: whole batches to try.

    Deterministic: a search that is begun anew asks for the same, given the same answers.
    """
    found, all_layers = Found(), tuple(sizes)
    slices = yield from _slices(found, samples, limit_bytes, may_cut, all_layers)
    estimates: dict[Trial, Estimate] = {}
    for trial in _settings(samples, may_cut, slices.counts(), held) if slices is not None else ():
        made = slices.estimate(trial, limit_bytes) if slices is not None else None
        if made is not None:
            estimates[trial] = made
    found.estimates = list(_shown(estimates, samples))
    if not estimates:  # not even two samples fit without a change
        least = list(_settings(samples, may_cut, [all_layers], held))[-1]
        found.runs = [(yield least)]
        found.chosen = found.runs[0] if found.runs[0].fits else None
        return found
    tries = _Tries(estimates, limit_bytes, most, found.runs)
    while len(tries.runs) < most and (another := tries.next()) is not None:
        tries.runs.append((yield another))
    found.chosen = tries.chosen()
    return found


def only(trial: Trial) -> Generator[Trial, Run, Found]:
    """A setting that was asked for."""
    run = yield trial
    return Found(run if run.fits else None, [run])
