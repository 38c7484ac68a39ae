"""Which changes to try, in which order: from measured steps of a few samples, the cheapest first, at most three whole batches."""
from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Generator, Iterator, Sequence

FEW = 8    # samples of a slice
PROBES = 3  # whole batches that are tried
#: A change whose estimate is above the limit by more than this is not tried.
SLACK = 1.02


@dataclass(frozen=True)
class Trial:
    """Whole steps to take, the optimizer's too: of the longest `samples` samples, in parts, with or without checkpointing."""

    samples: int
    parts: int = 1
    checkpointing: bool = False


@dataclass(frozen=True)
class Run:
    """What a trial took.  fits False: it ran out of memory."""

    trial: Trial
    fits: bool
    allocated_bytes: int = 0
    reserved_bytes: int = 0
    retries: int = 0
    step_s: float = 0.0

    def json(self) -> dict[str, Any]:
        return {**asdict(self.trial), **{k: v for k, v in asdict(self).items() if k != "trial" and (self.fits or k == "fits")}}

    @staticmethod
    def of(kept: dict[str, Any]) -> Run:
        trial = Trial(kept["samples"], kept["parts"], kept["checkpointing"])
        return Run(trial, **{k: v for k, v in kept.items() if k not in asdict(trial)})


def worst(runs: Sequence[Run]) -> Run:
    """Of a trial on several ranks: what is enough for each of them."""
    for run in runs:
        if not run.fits:
            return run
    return Run(runs[0].trial, True, max(r.allocated_bytes for r in runs), max(r.reserved_bytes for r in runs), max(r.retries for r in runs), max(r.step_s for r in runs))


@dataclass
class Found:
    """chosen: the trial of the whole batch that fits, or None.  costs: of each change, milliseconds of a step per GiB that it saves, measured on slices."""

    chosen: Run | None = None
    runs: list[Run] = field(default_factory=list)
    costs: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class _Slices:
    """Steps of few samples and of half of them: straight lines through both estimate what a larger batch takes."""

    half: Run
    whole: Run
    halved: Run | None         # `whole` in two parts
    half_checkpointed: Run | None
    checkpointed: Run | None

    def estimate(self, trial: Trial) -> tuple[float, float] | None:
        """(bytes at the peak, seconds) of a step; None: that was not measured."""
        half, whole = (self.half_checkpointed, self.checkpointed) if trial.checkpointing else (self.half, self.whole)
        if half is None or whole is None or trial.parts > 1 and self.halved is None:
            return None
        width = whole.trial.samples - half.trial.samples
        each = -(-trial.samples // trial.parts)
        slope = max(0.0, (whole.allocated_bytes - half.allocated_bytes) / width)
        needed = whole.allocated_bytes + slope * (each - whole.trial.samples)
        per_sample = max(0.0, (whole.step_s - half.step_s) / width)
        seconds = whole.step_s + per_sample * (trial.samples - whole.trial.samples)
        if trial.parts > 1 and self.halved is not None:
            needed += max(0, self.halved.allocated_bytes - self.half.allocated_bytes)  # gradients stay through the next part
            seconds += (trial.parts - 1) * max(0.0, self.halved.step_s - self.whole.step_s)
        return needed, seconds


def _cost(change: Run | None, base: Run) -> float | None:
    """Milliseconds per GiB; None: it saves nothing."""
    if change is None or change.allocated_bytes >= base.allocated_bytes:
        return None
    return 1e3 * (change.step_s - base.step_s) / ((base.allocated_bytes - change.allocated_bytes) / (1 << 30))


def _slices(found: Found, samples: int, may_cut: bool, may_checkpoint: bool) -> Generator[Trial, Run, _Slices | None]:
    few = min(FEW, max(2, samples // 2))
    while few > 1:
        whole = yield Trial(few)
        if whole.fits:
            break
        few //= 2
    else:
        return None
    half = yield Trial(few // 2)
    halved = (yield Trial(few, 2)) if may_cut else None
    checkpointed = (yield Trial(few, 1, True)) if may_checkpoint else None
    half_checkpointed = (yield Trial(few // 2, 1, True)) if may_checkpoint else None
    for name, change in (("parts", halved), ("checkpointing", checkpointed)):
        cost = _cost(change, whole)
        if cost is not None:
            found.costs[name] = cost
    return _Slices(half, whole, halved, half_checkpointed, checkpointed)


def _settings(samples: int, may_cut: bool, may_checkpoint: bool) -> Iterator[Trial]:
    for checkpointing in (False, True) if may_checkpoint else (False,):
        parts = 1
        while parts <= samples:
            yield Trial(samples, parts, checkpointing)
            parts *= 2
            if not may_cut:
                break


def _order(slices: _Slices | None, trials: list[Trial], limit_bytes: int, runs: list[Run]) -> list[Trial]:
    """What is worth a try, the cheapest first: what should fit, by estimated seconds; the last try is of what needs least."""
    estimates = {t: e for t in trials if slices is not None and (e := slices.estimate(t)) is not None}
    if not estimates:  # not even two samples fit without a change
        return sorted(trials, key=lambda t: (t.parts, not t.checkpointing), reverse=True)[:1]
    # an estimate that failed was too low by the rest of the memory at least
    failed = [estimates[r.trial][0] for r in runs if not r.fits and r.trial in estimates]
    most = min([SLACK * limit_bytes, *(0.95 * needed for needed in failed)])
    fitting = sorted((t for t in estimates if estimates[t][0] <= most), key=lambda t: (estimates[t][1], t.parts))
    least = min(estimates, key=lambda t: (estimates[t][0], estimates[t][1]))
    return [least] if len(runs) == PROBES - 1 or not fitting else fitting


def search(samples: int, limit_bytes: int, may_cut: bool, may_checkpoint: bool) -> Generator[Trial, Run, Found]:
    """Yields trials, is sent what they took.  Deterministic: a search that is begun anew asks for the same, given the same answers."""
    found = Found()
    slices = yield from _slices(found, samples, may_cut, may_checkpoint)
    trials = list(_settings(samples, may_cut, may_checkpoint))
    tried: list[Trial] = []
    while len(tried) < PROBES:
        left = [t for t in _order(slices, trials, limit_bytes, found.runs) if t not in tried]
        if not left:
            break
        run = yield left[0]
        tried.append(left[0])
        found.runs.append(run)
        if run.fits:
            found.chosen = run
            break
    return found


def only(trial: Trial) -> Generator[Trial, Run, Found]:
    """A setting that was asked for."""
    run = yield trial
    return Found(run if run.fits else None, [run])
