"""tune_loader: which workers, and what else, of a DataLoader are fastest here, by measuring."""
from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from typing import Any, Callable, Iterator, Mapping

from .. import _torch
from ..memory._owners import tensors_of
from ..errors import ArgumentError, PlimsollError

CLOSE = 0.05  # settings within so much of the best are equal: the one with fewest workers is taken
SWEEP = 0.5  # part of the budget that finds the workers; the rest tries the other options
LEAST_S = 0.8  # of a trial: four runs, of which each has to come to an even pace
PREFETCH = (4, 8)  # the second one only if the first one was better


@dataclass(frozen=True)
class Measured:
    """One setting: batches a second once it runs, and how long its first batch took."""

    workers: int
    batches_per_s: float
    samples_per_s: float
    first_batch_s: float
    batches: int


@dataclass(frozen=True)
class Tried:
    """One option next to the workers, with what it brought; None: that is not its unit, or it was not tried."""

    option: str
    value: Any
    taken: bool
    gain: float | None = None  # samples/s, as a multiple of those without it
    saved_s: float | None = None  # at the start of each epoch
    note: str = ""  # why it was not tried

    def __str__(self) -> str:
        told = self.note or (f"each epoch begins {self.saved_s:.2f} s earlier" if self.saved_s is not None else
                             f"{100 * ((self.gain or 1.0) - 1):+.0f} % samples/s")
        return f"{self.option}={self.value}: {told}" + ("" if self.taken or self.note else ", not more than two runs of one setting differ")


@dataclass(frozen=True)
class LoaderAdvice:
    """kwargs for DataLoader, why, and what was measured."""

    kwargs: dict[str, Any]
    why: str
    measured: tuple[Measured, ...]
    cores: float
    tried: tuple[Tried, ...] = ()

    @property
    def line(self) -> str:
        """To paste."""
        return "DataLoader(..., " + ", ".join(f"{name}={value!r}" for name, value in self.kwargs.items()) + ")"

    def __str__(self) -> str:
        rows = [f"  {m.workers:3} workers  {m.samples_per_s:10,.0f} samples/s  first batch {m.first_batch_s:.2f} s"
                for m in self.measured]
        return "\n".join([self.line, self.why, *rows, *(f"  {one}" for one in self.tried)])


def tune_loader(loader: Any, *, step_s: float | None = None, budget_s: float = 10.0,
                max_workers: int | None = None) -> LoaderAdvice:
    """Measure a DataLoader with 0, 1, 2, 4 ... workers on this machine, then with other prefetch_factor, pin_memory and
    persistent_workers, and say which to take: LoaderAdvice.line is to be pasted, LoaderAdvice.tried has the gain of each.

    step_s: how long a training step takes; what makes batches faster than that is fast enough, and the fewest workers that do
    are taken.  budget_s: time it may take.  max_workers: at most; None: one and a half times the cores that the cgroup and the
    affinity leave, on this rank.  pin_memory is tried if PyTorch sees a GPU, by copies to it.  The loader itself is left alone: others like it are made of its dataset, sampler and collate_fn.

    >>> print(tune_loader(loader).line)                                # doctest: +SKIP
    DataLoader(..., num_workers=8, persistent_workers=True, prefetch_factor=2)

    Raises ArgumentError: it is not a DataLoader; PlimsollError: it made no batch.
    """
    for name in ("dataset", "batch_size", "collate_fn"):
        if not hasattr(loader, name):
            raise ArgumentError(f"tune_loader takes a torch.utils.data.DataLoader, not {type(loader).__name__}")
    cores = usable_cores() / local_ranks()
    most = max_workers if max_workers is not None else max(1, int(1.5 * cores + 0.5))
    ends = time.monotonic() + budget_s
    measured: list[Measured] = []
    notes: list[str] = []
    order = candidates(most)
    for i, workers in enumerate(order):
        left = ends - (1 - SWEEP) * budget_s - time.monotonic()
        if measured and left < 0.3:
            notes.append(f"not tried in {budget_s:g} s: {', '.join(map(str, order[i:]))} workers")
            break
        try:
            measured.append(measure(loader, workers, left / (len(order) - i)))
        except (OSError, RuntimeError) as why:
            notes.append(f"{workers} workers fail: {str(why).splitlines()[0]}")
            break
        if enough(measured, step_s):
            break
    if not measured:
        raise PlimsollError("the loader made no batch: " + "; ".join(notes))
    advice = advise(loader, measured, step_s, cores, notes)
    tried = tuple(try_options(loader, advice.kwargs, ends))
    return replace(advice, kwargs={**advice.kwargs, **{one.option: one.value for one in tried if one.taken}}, tried=tried)


# ---- the other options ----


def try_options(loader: Any, kwargs: Mapping[str, Any], ends: float) -> Iterator[Tried]:
    """Each with those workers, next to the same loader without it."""
    workers = int(kwargs["num_workers"])
    options: list[tuple[str, Any]] = [("persistent_workers", True)] if workers else []
    options += [("prefetch_factor", n) for n in PREFETCH if workers and n > kwargs["prefetch_factor"]]
    gpu = _torch.torch().cuda.is_available()
    options += [("pin_memory", True)] if gpu else []
    taken: dict[str, Any] = {}
    failed: set[str] = set()
    for i, (option, value) in enumerate(options):
        if option in failed:  # a value below it was not better
            continue
        one = try_option(loader, workers, option, value, (ends - time.monotonic()) / (len(options) - i), taken)
        if not one.taken:
            failed.add(option)
        elif option == "prefetch_factor":
            taken[option] = value
        yield one
    if not gpu:
        yield Tried("pin_memory", True, False, note="not tried: PyTorch sees no GPU here")


def try_option(loader: Any, workers: int, option: str, value: Any, seconds: float, taken: Mapping[str, Any]) -> Tried:
    stays = option == "persistent_workers"
    if seconds < (0 if stays else LEAST_S):
        return Tried(option, value, stays, note=f"not tried in the time that budget_s leaves ({max(seconds, 0):.1f} s)")
    try:
        if stays:
            stay, anew = (later_epoch_s(like(loader, workers, persistent_workers=keep)) for keep in (True, False))
            return Tried(option, value, True, saved_s=max(0.0, anew - stay))
        without, rates, copied = [], [], option == "pin_memory"
        for _ in range(2):  # in turn, as other work on the machine comes and goes
            without.append(measure(loader, workers, seconds / 4, copied, **taken).batches_per_s)
            rates.append(measure(loader, workers, seconds / 4, copied, **{**taken, option: value}).batches_per_s)
    except (OSError, RuntimeError) as why:
        return Tried(option, value, False, note=f"fails: {str(why).splitlines()[0]}")
    return Tried(option, value, min(rates) > (1 + CLOSE) * max(without), gain=sum(rates) / sum(without))


def later_epoch_s(made: Any) -> float:
    """Until the first batch of an epoch that is not the first one."""
    iterator, began = None, 0.0
    try:
        for _ in range(2):
            began = time.monotonic()
            iterator = iter(made)
            next(iterator)
        return time.monotonic() - began
    finally:
        shut_down(iterator)


def shut_down(iterator: Any) -> None:
    shutdown = getattr(iterator, "_shutdown_workers", None)
    if shutdown is not None:
        shutdown()


def copy_to_gpu(batch: Any) -> None:
    """As a training loop does it."""
    torch = _torch.torch()
    for _, tensor in tensors_of(batch, "batch"):
        tensor.to("cuda", non_blocking=True)
    torch.cuda.current_stream().synchronize()


# ---- workers ----


def candidates(most: int) -> list[int]:
    """0, then doubling, then the most."""
    found, n = [0], 1
    while n < most:
        found.append(n)
        n *= 2
    return [*found, most]


def enough(measured: list[Measured], step_s: float | None) -> bool:
    """Fast enough for the step, or falling for the second time."""
    if step_s is not None and measured[-1].batches_per_s * step_s > 1.2:
        return True
    rates = [m.batches_per_s for m in measured]
    return len(rates) > 3 and rates[-1] < 0.95 * max(rates) and rates[-2] < 0.95 * max(rates)


def measure(loader: Any, workers: int, seconds: float, copied: bool = False, **options: Any) -> Measured:
    """Batches a second, with nothing done with them, or copied to the GPU.

    Workers begin together, so batches come in bursts of as many: what counts is whole rounds after the first one.  Goes on
    for up to twice the `seconds` until there is one; else the start counts too, and the rate is a lower bound.
    """
    made = like(loader, workers, **options)
    began = time.monotonic()
    iterator = iter(made)
    try:
        times: list[float] = []
        while True:
            try:
                batch = next(iterator)
            except StopIteration:
                if not times:
                    raise RuntimeError("the dataset has no batch") from None
                if len(times) >= 2 * max(1, workers) or time.monotonic() - began > seconds:
                    break
                iterator = iter(made)  # a short data set: once more from its beginning
                continue
            if copied:
                copy_to_gpu(batch)
            times.append(time.monotonic())
            took = times[-1] - began
            if took > seconds and len(times) >= 2 * max(1, workers) or took > 2 * seconds:
                break
        rate = steady(times, max(1, workers), began)
        return Measured(workers, rate, rate * (loader.batch_size or 1), times[0] - began, len(times))
    finally:
        shut_down(iterator)


def steady(times: list[float], burst: int, began: float) -> float:
    """Batches a second of whole bursts after the first one."""
    rounds = len(times) // burst
    if rounds >= 2 and times[rounds * burst - 1] > times[burst - 1]:
        return (rounds - 1) * burst / (times[rounds * burst - 1] - times[burst - 1])
    return len(times) / max(times[-1] - began, 1e-9)


def like(loader: Any, workers: int, **options: Any) -> Any:
    """Another DataLoader over the same data, with these options."""
    kind: Callable[..., Any] = _torch.torch().utils.data.DataLoader
    more: dict[str, Any] = {}
    if workers:
        more["prefetch_factor"] = loader.prefetch_factor or 2
        more["worker_init_fn"] = loader.worker_init_fn
        more["multiprocessing_context"] = loader.multiprocessing_context
    if loader.batch_sampler is not None:
        more["batch_sampler"] = loader.batch_sampler
    else:
        more["batch_size"] = loader.batch_size
    return kind(loader.dataset, num_workers=workers, collate_fn=loader.collate_fn, **{"pin_memory": False, **more, **options})


def advise(loader: Any, measured: list[Measured], step_s: float | None, cores: float, notes: list[str]) -> LoaderAdvice:
    best = max(measured, key=lambda m: m.batches_per_s)
    wanted = best.batches_per_s * (1 - CLOSE)
    if step_s is not None:
        wanted = min(wanted, 1.2 / step_s)
    taken = next(m for m in measured if m.batches_per_s >= wanted)
    kwargs: dict[str, Any] = {"num_workers": taken.workers}
    why = f"{taken.workers} workers make {taken.samples_per_s:,.0f} samples/s here"
    alone = next((m for m in measured if m.workers == 0), None)
    if taken.workers and alone is not None:
        why += f", {taken.batches_per_s / alone.batches_per_s:.1f} times as many as the loop itself"
    if step_s is not None:
        why += f"; a step of {1e3 * step_s:.1f} ms wants {1 / step_s:,.1f} batches/s, they make {taken.batches_per_s:,.1f}"
    if taken is not best:
        why += f"; {best.workers} make {best.samples_per_s:,.0f}, which is {'more than is wanted' if step_s else 'no more to speak of'}"
    if taken.workers:
        kwargs["persistent_workers"] = True
        kwargs["prefetch_factor"] = loader.prefetch_factor or 2
        why += f"; they stay between epochs (the first batch takes {taken.first_batch_s:.2f} s)"
    room = shm_room()
    if taken.workers and room is not None and room < 1 << 30:
        notes.append(f"/dev/shm has {room / 2**20:.0f} MiB left, through which workers hand over batches: a larger one (--shm-size)")
    return LoaderAdvice(kwargs, "; ".join([why, *notes]), tuple(measured), cores)


# ---- what the machine gives ----


def usable_cores() -> float:
    """Cores of the affinity and of the cgroup's quota, whichever are fewer."""
    cores = float(len(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else float(os.cpu_count() or 1)
    quota = cgroup_quota()
    return min(cores, quota) if quota else cores


def cgroup_quota() -> float | None:
    """cpu.max (v2) of this process's cgroup and those above, or cpu.cfs_quota_us (v1), in cores; None: no limit is seen."""
    least: float | None = None
    try:
        with open("/proc/self/cgroup") as f:
            paths = [line.rstrip("\n").split(":", 2)[2] for line in f if line.startswith("0::")]
    except OSError:
        return None
    folder = "/sys/fs/cgroup" + (paths[0] if paths else "")
    while folder.startswith("/sys/fs/cgroup"):
        quota = read_words(os.path.join(folder, "cpu.max"))
        if len(quota) == 2 and quota[0] != "max":
            cores = int(quota[0]) / int(quota[1])
            least = cores if least is None else min(least, cores)
        folder = os.path.dirname(folder)
    v1 = read_words("/sys/fs/cgroup/cpu/cpu.cfs_quota_us") + read_words("/sys/fs/cgroup/cpu/cpu.cfs_period_us")
    if len(v1) == 2 and int(v1[0]) > 0:
        least = int(v1[0]) / int(v1[1])
    return least


def read_words(path: str) -> list[str]:
    try:
        with open(path) as f:
            return f.read().split()
    except OSError:
        return []


def local_ranks() -> int:
    """Processes of the job on this machine, which share its cores."""
    text = os.environ.get("LOCAL_WORLD_SIZE", "")
    return int(text) if text.isdigit() and int(text) > 0 else 1


def shm_room() -> int | None:
    try:
        at = os.statvfs("/dev/shm")
    except OSError:
        return None
    return at.f_bavail * at.f_frsize
