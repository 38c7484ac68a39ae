"""Gradients looked at once a step: see plimsoll.gradients."""
from __future__ import annotations

import ctypes
import logging
import math
import operator
import os
import struct
import sys
import weakref
from collections import deque
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Mapping, Sequence

from .. import _abi, _native, _torch
from ..errors import ArgumentError, NonFiniteError, UnsupportedError

logger = logging.getLogger("plimsoll")
TOLD = 8  # bad tensors of a step that are described; all are counted
BEFORE = 2  # tensors ahead of the first bad one that are named
PAST = 4  # steps back whose norms are reported
ON_BAD = ("report", "skip", "raise")


@dataclass(frozen=True, slots=True)
class Healthy:
    """A tensor ahead of the first bad one."""

    name: str
    norm: float
    max_abs: float


@dataclass(frozen=True, slots=True)
class BadTensor:
    """A tensor that holds NaN or infinities."""

    name: str
    nan: int
    inf: int
    elements: int
    norm: float  # of its finite values
    max_abs: float
    past: tuple[tuple[int, float], ...]  # (step, its norm) of the steps before, the nearest first

    def __str__(self) -> str:
        past = ", ".join(f"{norm:.3g}" for _, norm in self.past)
        return f"'{self.name}' ({self.nan:,} NaN and {self.inf:,} infinite of {self.elements:,}" + (
            f"; its norm in the steps before, the nearest first: {past})" if past else ")")


@dataclass(frozen=True, slots=True)
class GradStats:
    """All gradients of one step.  With several ranks nan, inf and norm are of all of them, bad of this one."""

    step: int
    norm: float  # NaN or infinite where a value is
    finite_norm: float  # of the finite values
    max_abs: float  # of the finite values of this rank
    scale: float  # of the loss, which is taken out of the others; 1: there was none
    nan: int  # values
    inf: int
    none: int  # parameters without a gradient
    bad_count: int  # tensors that hold NaN or infinities
    bad: tuple[BadTensor, ...]  # the first of them, in the order in which gradients were made
    before: tuple[Healthy, ...]  # what was made right before the first, the nearest first
    missed: int  # results so far that no one took in time

    @property
    def finite(self) -> bool:
        return not self.nan and not self.inf

    def __str__(self) -> str:
        if self.finite:
            return f"step {self.step}: norm {self.norm:.6g}, largest {self.max_abs:.3g}"
        head = f"step {self.step}: {self.nan:,} NaN and {self.inf:,} infinite values"
        if not self.bad:
            return head + ", none of them on this rank"
        said = f"{head} in {self.bad_count} gradient{'s' if self.bad_count > 1 else ''}, first in {self.bad[0]}"
        if self.before:
            said += f", made right after '{self.before[0].name}' (finite, norm {self.before[0].norm:.3g})"
        if self.scale != 1:
            said += f"; under a loss scale of {self.scale:g}, where the scaler skips the step"
        return said


def dtype_codes() -> dict[Any, tuple[int, int]]:
    """dtype -> (its number in C, bytes of an element)."""
    t = _torch.torch()
    return {t.float32: (_abi.PLIM_GRADIENT_FLOAT32, 4), t.float16: (_abi.PLIM_GRADIENT_FLOAT16, 2),
            t.bfloat16: (_abi.PLIM_GRADIENT_BFLOAT16, 2), t.float64: (_abi.PLIM_GRADIENT_FLOAT64, 8)}


def lies_together(tensor: Any) -> bool:
    """Do its elements fill a range of memory, each once, in whatever order?"""
    if tensor.is_contiguous():
        return True
    expected = 1
    for stride, size in sorted((stride, size) for stride, size in zip(tensor.stride(), tensor.shape) if size != 1):
        if stride != expected:
            return False
        expected *= size
    return True


def local(tensor: Any) -> Any:
    """What of it lies here: a DTensor's shard, a sparse tensor's values."""
    shard = getattr(tensor, "_local_tensor", None)
    if shard is not None:
        return shard
    return tensor._values() if tensor.layout is _torch.torch().sparse_coo else tensor


class Core:
    """Tensors of one device, in C.  where: their addresses at the last check."""

    def __init__(self, device: Any, history: int) -> None:
        t = _torch.torch()
        if device.type not in ("cuda", "cpu"):
            raise UnsupportedError(f"tensors on '{device}' cannot be looked at", remedy="'cuda' and 'cpu' can")
        if device.type == "cuda" and t.version.cuda is None:
            raise UnsupportedError("this PyTorch is not made for CUDA: the kernel is for NVIDIA's GPUs")
        self.device, self.history = device, history
        self.on_gpu = device.type == "cuda"
        self.summary = t.zeros(6, dtype=t.float64, device=device)
        floats = self.summary.view(t.float32)
        self.norm, self.found = floats[10], floats[11]
        self.n = 0
        self.rows: list[tuple[int, int, int, int]] = []
        self.where: list[int] = []
        self.addresses: Any = None
        self._packed = struct.Struct("")
        self.call = _abi.plim_gradients_call(size=ctypes.sizeof(_abi.plim_gradients_call), summary=self.summary.data_ptr())
        self.stats = _abi.plim_gradients_stats()
        self._error = _abi.plim_err()
        self._library = _native.load()
        self._raw_stream = getattr(t._C, "_cuda_getCurrentRawStream", None)
        self._handle = ctypes.c_void_p()
        options = _native.options("gradients", device=device.index if self.on_gpu else _native.UNKNOWN, history=history,
                                  cuda_library=os.environ.get("PLIMSOLL_CUDA_LIBRARY"))
        self._check(self._library.plim_gradients_open(ctypes.byref(options), ctypes.byref(self._handle), ctypes.byref(self._error)))

    def _check(self, status: int) -> None:
        if status:
            _native.check(status, self._error)

    def set(self, rows: Sequence[tuple[int, int, int, int]]) -> None:
        """(elements, order, dtype, copies) of each.  Results that were not taken are gone."""
        self.n, self.rows = len(rows), list(rows)
        listed = (_abi.plim_gradient * self.n)(*(_abi.plim_gradient(*row) for row in rows))
        self._check(self._library.plim_gradients_set(self._handle, listed, self.n, ctypes.byref(self._error)))
        self.where = []
        self.addresses = (ctypes.c_uint64 * self.n)()
        self._packed = struct.Struct(f"={self.n}Q")
        self.call.where = ctypes.cast(self.addresses, ctypes.POINTER(ctypes.c_uint64))

    def order(self, order: Sequence[int]) -> None:
        self._library.plim_gradients_order(self._handle, (ctypes.c_uint64 * self.n)(*order), self.n)

    def _stream(self) -> None:
        if self.on_gpu:
            self.call.stream = (self._raw_stream(self.device.index) if self._raw_stream is not None
                                else _torch.torch().cuda.current_stream(self.device).cuda_stream)

    def check(self, step: int, where: list[int], scale: Any = None, later: bool = False) -> None:
        if where != self.where:
            self._packed.pack_into(self.addresses, 0, *where)
            self.where = where
        call = self.call
        call.step, call.scale, call.flags = step, 0 if scale is None else scale.data_ptr(), int(later)
        self._stream()
        self._check(self._library.plim_gradients_check(self._handle, ctypes.byref(call), ctypes.byref(self._error)))

    def collect(self, step: int) -> None:
        self.call.step, self.call.flags = step, 0
        self._stream()
        self._check(self._library.plim_gradients_collect(self._handle, ctypes.byref(self.call), ctypes.byref(self._error)))

    def clip(self, max_norm: float) -> None:
        self.call.flags = 0
        self._check(self._library.plim_gradients_clip(self._handle, max_norm, ctypes.byref(self.call), ctypes.byref(self._error)))

    def take(self, wait: bool) -> bool:
        """Is there one more result?  Then self.stats is it."""
        function = self._library.plim_gradients_wait if wait else self._library.plim_gradients_take
        self._check(function(self._handle, ctypes.byref(self.stats), ctypes.byref(self._error)))
        return bool(self.stats.step != _native.UNKNOWN)

    def results(self, ago: int = 0) -> Any:
        """plim_gradient_result of each tensor; empty: not kept."""
        at, n = ctypes.c_void_p(), ctypes.c_size_t()
        self._library.plim_gradients_results(self._handle, ago, ctypes.byref(at), ctypes.byref(n))
        return ctypes.cast(at, ctypes.POINTER(_abi.plim_gradient_result))[:n.value] if at else []

    def bad(self) -> list[int]:
        found = (ctypes.c_uint64 * self.n)()
        return list(found[:self._library.plim_gradients_bad(self._handle, found, self.n)])

    def close(self) -> None:
        if self._handle:
            self._library.plim_gradients_free(self._handle)
            self._handle = ctypes.c_void_p()


class Watched:
    """Tensors by name, and the cores of their devices."""

    def __init__(self, named: Iterable[tuple[str, Any]], history: int, of: Callable[[Any], Any]) -> None:
        self.named = list(named)
        self.of = of  # what of a tensor is looked at: its gradient, or itself
        self.history = history
        self.codes = dtype_codes()
        self.cores: list[Core] = []
        self.members: list[list[int]] = []  # of each core: places in self.named
        self.made_order: list[int] = list(range(len(self.named), 0, -1))
        self._tensors: list[list[Any]] = []  # those of each core
        self._seen: list[dict[int, int]] = []  # of each core: an address that was looked at -> the place in the core
        self._places: list[list[int]] = []  # what self._seen gives for all of them where nothing is new
        self._address = _torch.torch().Tensor.data_ptr
        self._indirect = any(hasattr(tensor, "_local_tensor") for _, tensor in self.named)
        by_device: dict[Any, list[int]] = {}
        for i, (name, tensor) in enumerate(self.named):
            if tensor.dtype not in self.codes:
                raise UnsupportedError(f"'{name}' is {tensor.dtype}; float32, float16, bfloat16 and float64 can be looked at")
            by_device.setdefault(tensor.device, []).append(i)
        self.copies = [_copies(name, tensor, self.mesh) for name, tensor in self.named]
        for device, members in by_device.items():
            core = Core(device, history)
            self.cores.append(core)
            self.members.append(members)
            self._tensors.append([self.named[i][1] for i in members])
            self._seen.append({})
            self._places.append(list(range(len(members))))
            core.set([self._row(i, local(self.named[i][1])) for i in members])

    @property
    def mesh(self) -> Any:
        """The DeviceMesh of its DTensors; None: there are none."""
        found = {tensor.device_mesh for _, tensor in self.named if hasattr(tensor, "device_mesh")}
        if len(found) > 1:
            raise UnsupportedError("parameters lie on several DeviceMeshes, so they have no norm together",
                                   remedy="make a GradientMonitor of each")
        return found.pop() if found else None

    def _row(self, i: int, tensor: Any) -> tuple[int, int, int, int]:
        return tensor.numel(), self.made_order[i], self.codes[tensor.dtype][0], self.copies[i]

    def order(self, made: Mapping[int, int]) -> None:
        """made: when the gradient of each parameter was made, by its place in self.named.  Others come last."""
        self.made_order = [made.get(i, 2 * len(self.named) - i) for i in range(len(self.named))]
        for core, members in zip(self.cores, self.members):
            core.order([self.made_order[i] for i in members])

    def addresses(self, k: int, settle: Callable[[], object] = lambda: None) -> list[int]:
        """Of the k-th core's tensors now.  settle: takes results before the list is set anew, which forgets them.

        The GPU may be idle meanwhile: where all is as usual no line of Python runs for a tensor of its own.
        """
        core = self.cores[k]
        now = list(map(self.of, self._tensors[k]))
        where: list[int] = []
        if not self._indirect:
            try:
                where = self._plain(now)
            except (RuntimeError, NotImplementedError):  # a sparse one has no address of its own
                self._indirect = True
        if self._indirect:
            now = [None if one is None else local(one) for one in now]
            where = [0 if one is None else one.data_ptr() for one in now]
        if self._indirect or where != core.where and list(map(self._seen[k].get, where)) != self._places[k]:
            self._look(k, now, where, settle)
        return where

    def _plain(self, now: list[Any]) -> list[int]:
        try:
            return list(map(self._address, now))
        except TypeError:  # some are None
            return [0 if one is None else self._address(one) for one in now]

    def _look(self, k: int, now: list[Any], where: list[int], settle: Callable[[], object]) -> None:
        """Addresses that are new: are they of what was set?"""
        core, members, seen = self.cores[k], self.members[k], self._seen[k]
        before = core.where or [0] * len(where)
        another = False
        for j, (address, last) in enumerate(zip(where, before)):
            if not address or not self._indirect and (address == last or seen.get(address) == j):
                continue
            tensor = now[j]
            if tensor.dtype not in self.codes or not lies_together(tensor):
                raise UnsupportedError(f"'{self.named[members[j]][0]}' ({tensor.dtype}, strides {tensor.stride()}) does not lie together, "
                                       "or has a dtype that is not looked at")
            elements, _, code, _ = core.rows[j]
            another |= self.codes[tensor.dtype][0] != code or tensor.numel() != elements
            seen[address] = j
        if len(seen) > 64 * len(members):
            seen.clear()
        if another:  # sparse gradients, or of another dtype
            seen.clear()
            settle()
            core.set([row if one is None else self._row(i, one) for i, one, row in zip(members, now, core.rows)])

    def close(self) -> None:
        for core in self.cores:
            core.close()


def _copies(name: str, tensor: Any, mesh: Any) -> int:
    """How many ranks hold the same values."""
    if mesh is None:
        return 1
    if not hasattr(tensor, "placements"):
        return int(mesh.size())
    copies = 1
    for dimension, placement in enumerate(tensor.placements):
        if placement.is_partial():
            raise UnsupportedError(f"'{name}' is a DTensor of partial sums")
        if placement.is_replicate():
            copies *= int(mesh.size(dimension))
    return copies


def _norms_before(watched: Watched, tensors: Sequence[int], steps: Sequence[int]) -> dict[int, list[tuple[int, float]]]:
    """Of each of these tensors: (step, norm) of the steps before, the nearest first; NaN for a step that was not finite."""
    past: dict[int, list[tuple[int, float]]] = {i: [] for i in tensors}
    for ago, step in enumerate(steps[:PAST] if past else (), 1):
        for core, members in zip(watched.cores, watched.members):
            for i, r in zip(members, core.results(ago)):
                if i in past and r.is_set:
                    past[i].append((step, r.norm if not r.nan and not r.inf else math.nan))
    return past


def _made_before(watched: Watched, results: dict[int, Any], first: int) -> list[int]:
    """Tensors whose gradients were made before the first bad one, the nearest first."""
    order = watched.made_order
    return sorted((i for i, r in results.items() if order[i] < order[first] and r.is_set), key=lambda i: -order[i])


def tell(watched: Watched, taken: Sequence[Any], steps: Sequence[int]) -> GradStats:
    """One GradStats of what the cores have taken last; steps: those before, the nearest first."""
    nan, inf = sum(s.nan for s in taken), sum(s.inf for s in taken)
    finite_norm = math.sqrt(sum(s.finite_norm ** 2 for s in taken))
    norm = math.nan if nan else math.inf if inf else finite_norm if len(taken) > 1 else taken[0].norm
    bad: list[int] = []
    results: dict[int, Any] = {}
    if any(s.bad for s in taken):
        for core, members in zip(watched.cores, watched.members):
            results.update(zip(members, core.results()))
        bad = sorted((i for i, r in results.items() if r.nan or r.inf), key=lambda i: watched.made_order[i])
    past = _norms_before(watched, bad[:TOLD], steps)
    before = _made_before(watched, results, bad[0]) if bad else []
    return GradStats(
        step=taken[0].step, norm=norm, finite_norm=finite_norm, max_abs=max(s.max_abs for s in taken), scale=taken[0].scale,
        nan=nan, inf=inf, none=sum(s.none for s in taken), bad_count=sum(s.bad for s in taken), missed=taken[0].missed,
        bad=tuple(BadTensor(watched.named[i][0], results[i].nan, results[i].inf, local(watched.named[i][1]).numel(),
                            results[i].norm, results[i].max_abs, tuple(past[i])) for i in bad[:TOLD]),
        before=tuple(Healthy(watched.named[i][0], results[i].norm, results[i].max_abs) for i in before[:BEFORE]))


def _named(model: Any) -> list[tuple[str, Any]]:
    """Parameters that are trained, each once."""
    if hasattr(model, "param_groups"):
        raise ArgumentError(f"the model comes first, then the optimizer; the first is a {type(model).__name__}")
    pairs = model.named_parameters() if hasattr(model, "named_parameters") else model.items() if hasattr(model, "items") else model
    seen: set[int] = set()
    found = []
    for name, parameter in pairs:
        if parameter.requires_grad and id(parameter) not in seen:
            seen.add(id(parameter))
            found.append((str(name), parameter))
    if not found:
        raise ArgumentError("there is no parameter that requires a gradient")
    return found


def _scale_in_use(scaler: Any, optimizer: Any) -> Any:
    """The scaler's scale, if gradients of the optimizer are multiplied by it now; else None."""
    if scaler is None or not scaler.is_enabled() or getattr(scaler, "_scale", None) is None:
        return None
    stage = scaler._per_optimizer_states.get(id(optimizer), {}).get("stage") if optimizer is not None else None
    return scaler._scale if stage is None or stage.name == "READY" else None


class Handle:
    """remove() undoes what made it."""

    def __init__(self, remove: Callable[[], None]) -> None:
        self._remove: Callable[[], None] | None = remove

    def remove(self) -> None:
        if self._remove is not None:
            self._remove()
        self._remove = None

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *_: Any) -> None:
        self.remove()


class GradientMonitor:
    """Looks at all gradients of a step in one pass, without waiting for the GPU; what it found is there a step later.

    model: a module, or pairs of names and parameters.  scaler: a GradScaler, so that its scale is taken out.
    on_bad, when a gradient holds NaN or infinities: "report" logs it, one step later; "skip" leaves the update out, decided
    on the GPU where the optimizer can (fused ones), else by one wait a step; "raise" raises NonFiniteError, by one wait.
    clip: also scale gradients down to this norm, as clip_grad_norm_ does, without a second pass where they are within it.
    history: results that are kept.  Values under a loss scale that are not finite are the scaler's to skip.
    """

    def __init__(self, model: Any, optimizer: Any = None, *, scaler: Any = None, on_bad: str = "report", clip: float | None = None,
                 history: int = 1024) -> None:
        if on_bad not in ON_BAD:
            raise ArgumentError(f"on_bad is one of {', '.join(map(repr, ON_BAD))}, not {on_bad!r}")
        if clip is not None and not clip > 0:
            raise ArgumentError(f"clip is above 0, not {clip}")
        self.optimizer, self.scaler, self.on_bad, self.clip = optimizer, scaler, on_bad, clip
        self.steps = 0  # checks so far
        self.history: deque[GradStats] = deque(maxlen=history)
        self._forks = _torch.forks
        self._watched = Watched(_named(model), min(history, PAST + 1), operator.attrgetter("grad"))
        weakref.finalize(self, _release, self._watched, _torch.forks).atexit = False
        self._mesh = self._watched.mesh
        self._joined = self._mesh is not None or len(self._watched.cores) > 1
        self._handles: list[Handle] = []
        self._withheld: list[tuple[Any, Any]] = []
        self._gave = False
        self._captured = False
        self._made: dict[int, int] | None = {}
        self._listeners = self._listen()

    # ---- when gradients are made ----

    def _listen(self) -> list[Any]:
        """Until the first check: in which order the backward pass makes them."""
        made = self._made
        handles = []

        def listener(i: int) -> Callable[[Any], None]:
            def note(_: Any) -> None:
                if made is not None:
                    made.setdefault(i, len(made))

            return note

        for i, (_, parameter) in enumerate(self._watched.named):
            if hasattr(parameter, "register_post_accumulate_grad_hook") and parameter.is_leaf:
                handles.append(parameter.register_post_accumulate_grad_hook(listener(i)))
        return handles

    def _listened(self) -> None:
        for handle in self._listeners:
            handle.remove()
        self._listeners = []
        if self._made:
            self._watched.order(self._made)
        self._made = None

    # ---- checks ----

    def check(self, step: int | None = None) -> GradStats | None:
        """Queue a look at the gradients as they are now; the newest result that is there, None: none yet.

        Waits only for on_bad="raise".  Within a CUDA graph's capture it becomes part of the graph: see replayed().
        """
        self._alive()
        if self._made is not None:
            self._listened()
        self._enqueue(self.steps if step is None else step, _scale_in_use(self.scaler, self.optimizer))
        return self._look(self.on_bad == "raise" and not self._captured)

    def _enqueue(self, step: int, scale: Any) -> None:
        watched = self._watched
        self._captured = any(core.on_gpu for core in watched.cores) and _torch.torch().cuda.is_current_stream_capturing()
        for k, core in enumerate(watched.cores):
            at = scale if scale is None or scale.device == core.device else scale.to(core.device, non_blocking=True)
            core.check(step, watched.addresses(k, self._settle), at, self._joined)
        if self._joined:
            self._join()
            if not self._captured:
                for core in watched.cores:
                    core.collect(step)
        self.steps += 1

    def _join(self) -> None:
        """Sums over devices and ranks, on the devices."""
        t = _torch.torch()
        cores = self._watched.cores
        home = cores[0].device
        parts = [core.summary.to(home, non_blocking=True) for core in cores]
        sums = t.stack([t.cat((part[:2], part[3:4])) for part in parts]).sum(0)
        largest = t.stack([part[2] for part in parts]).max()
        if self._mesh is not None:
            distributed = sys.modules["torch.distributed"]
            for dimension in range(self._mesh.ndim):
                group = self._mesh.get_group(dimension)
                distributed.all_reduce(sums, group=group)
                distributed.all_reduce(largest, op=distributed.ReduceOp.MAX, group=group)
        norm = sums[2].sqrt() / parts[0][4]
        norm = t.where(sums[0] > 0, math.nan, t.where(sums[1] > 0, math.inf, norm))
        for core in cores:
            core.summary[:4] = t.stack([sums[0], sums[1], largest, sums[2]]).to(core.device, non_blocking=True)
            core.norm.copy_(norm, non_blocking=True)
            core.found.copy_(sums[0] + sums[1] > 0, non_blocking=True)

    def replayed(self, step: int | None = None) -> GradStats | None:
        """After each replay of a CUDA graph that has a check in it: bring its result; returns as check() does."""
        self._alive()
        if not self._captured:
            raise ArgumentError("no check was captured: call check() within torch.cuda.graph()")
        for core in self._watched.cores:
            core.collect(self.steps if step is None else step)
        self.steps += 1
        return self._look(self.on_bad == "raise")

    def wait(self) -> GradStats:
        """The result of the last check, waited for."""
        self._alive()
        self._look(True, self.on_bad != "raise")
        if not self.history:
            raise ArgumentError("nothing was checked yet")
        return self.history[-1]

    def _look(self, wait: bool, quiet: bool = False) -> GradStats | None:
        """Take what is there; log it, or raise."""
        newest = None
        worst: GradStats | None = None
        while True:
            cores = self._watched.cores
            if not cores[0].take(wait):
                break
            for core in cores[1:]:
                core.take(True)  # the same check: nearly there
            newest = self._told([core.stats for core in cores])
            self.history.append(newest)
            if not newest.finite and newest.scale == 1 and worst is None:
                worst = newest
            if not newest.finite:
                logger.log(logging.WARNING if newest.scale == 1 else logging.INFO, "%s", newest)
        if worst is not None and self.on_bad == "raise" and not quiet:
            raise NonFiniteError(str(worst), worst)
        return newest

    def _settle(self) -> None:
        self._look(True, True)

    def _told(self, taken: list[Any]) -> GradStats:
        steps = [s.step for s in reversed(self.history)] if any(s.bad for s in taken) else []
        if self._joined:  # each summary is that of all
            one = tell(self._watched, taken[:1] if len(taken) == 1 else taken, steps)
            return _as_joined(one, taken[0])
        return tell(self._watched, taken, steps)

    def total_norm(self) -> Any:
        """Of the last check, a float32 tensor on the GPU, for clip_grads_with_norm_; NaN or infinite where a value is.

        Its memory is used again by the next check.
        """
        self._checked()
        return self._watched.cores[0].norm

    def _checked(self) -> None:
        if not self.steps:
            raise ArgumentError("check() comes first: its norm is used")

    def found_inf(self) -> Any:
        """1 if a value is not finite, else 0: a float32 tensor on the GPU, as fused optimizers take it."""
        return self._watched.cores[0].found

    def clip_(self, max_norm: float | None = None) -> Any:
        """Scale the gradients of the last check down to max_norm; returns their norm before.  Nothing is read or written if
        the norm is within it, or not finite."""
        self._alive()
        limit = self.clip if max_norm is None else max_norm
        if limit is None or not limit > 0:
            raise ArgumentError("give max_norm, above 0")
        self._checked()
        for core in self._watched.cores:
            core.clip(limit)
        return self.total_norm()

    # ---- the optimizer ----

    @property
    def decides(self) -> str:
        """Where on_bad="skip" is decided: "device", "host" (one wait a step), or "scaler"."""
        if self.scaler is not None and self.scaler.is_enabled():
            return "scaler"
        fused = bool(getattr(self.optimizer, "_step_supports_amp_scaling", False))
        return "device" if fused else "host"

    def attach(self) -> Handle:
        """Check, clip and skip by itself before each optimizer.step(), until the handle is removed."""
        self._alive()
        if self.optimizer is None:
            raise ArgumentError("GradientMonitor(model, optimizer) is needed to attach it")
        mine = {id(parameter) for _, parameter in self._watched.named}
        if not any(id(parameter) in mine for group in self.optimizer.param_groups for parameter in group["params"]):
            raise ArgumentError("the optimizer updates none of these parameters: was it made before the model was moved or sharded?")
        if self.on_bad == "skip" and self.decides == "host":
            logger.warning("%s cannot leave an update out by itself: gradients are waited for at each step; fused=True would not",
                           type(self.optimizer).__name__)
        if self.on_bad == "raise":
            logger.warning("on_bad='raise' waits for the gradients at each step")
        before = self.optimizer.register_step_pre_hook(self._before_step)
        after = self.optimizer.register_step_post_hook(self._after_step)

        def remove() -> None:
            before.remove()
            after.remove()

        handle = Handle(remove)
        self._handles.append(handle)
        return handle

    def _before_step(self, optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if any(callable(one) for one in (*args, kwargs.get("closure"))):
            raise UnsupportedError("gradients that step() computes by a closure cannot be looked at before it",
                                   remedy="call check() within the closure")
        self._alive()
        if self._made is not None:
            self._listened()
        scale = getattr(optimizer, "grad_scale", None)
        if scale is None and self.decides != "scaler":
            scale = _scale_in_use(self.scaler, optimizer)
        self._enqueue(self.steps, scale)
        decided = self.on_bad == "skip" and self.decides == "device"
        waits = self.on_bad == "raise" or self.on_bad == "skip" and self.decides == "host"
        if waits and self._captured:
            raise UnsupportedError(f"on_bad='{self.on_bad}' waits for the gradients, which a CUDA graph cannot",
                                   remedy="use a fused optimizer and 'skip', or 'report'")
        if self.clip is not None:
            self.clip_()
        if decided and getattr(optimizer, "found_inf", None) is None:
            optimizer.found_inf, self._gave = self.found_inf(), True
        newest = self._look(waits)
        if waits and self.on_bad == "skip" and newest is not None and not newest.finite:
            self._withhold(optimizer)

    def _withhold(self, optimizer: Any) -> None:
        """Optimizers leave out what has no gradient."""
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                self._withheld.append((parameter, parameter.grad))
                parameter.grad = None

    def _after_step(self, optimizer: Any, *_: Any) -> None:
        if self._gave:
            del optimizer.found_inf
            self._gave = False
        for parameter, gradient in self._withheld:
            parameter.grad = gradient
        self._withheld.clear()

    # ---- the rest ----

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self.steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.steps = int(state["steps"])

    def _alive(self) -> None:
        if self._forks != _torch.forks:
            raise UnsupportedError("a GradientMonitor works in the process that made it, not in one that was forked from it")
        if not self._watched.cores:
            raise ArgumentError("this GradientMonitor is closed")

    def close(self) -> None:
        """Take the hooks away, and give the memory back."""
        for handle in self._handles:
            handle.remove()
        for listener in self._listeners:
            listener.remove()
        self._listeners = []
        if self._forks == _torch.forks:
            self._watched.close()
        self._watched.cores = []

    def __enter__(self) -> GradientMonitor:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        how = f"{len(self._watched.named)} tensors, {self.steps} steps" if self._watched.cores else "closed"
        return f"<GradientMonitor: {how}, on_bad={self.on_bad!r}>"

    def __reduce__(self) -> Any:
        raise UnsupportedError("a GradientMonitor belongs to its process; it cannot be pickled")


def _release(watched: Watched, forks: int) -> None:
    if forks == _torch.forks:
        watched.close()


def _as_joined(one: GradStats, all_of: Any) -> GradStats:
    """Its sums, taken from a summary that is already of all devices and ranks."""
    from dataclasses import replace

    return replace(one, nan=all_of.nan, inf=all_of.inf, norm=all_of.norm, finite_norm=all_of.finite_norm, max_abs=all_of.max_abs)
