"""One model, many checkpoints, in place: see plimsoll.weights."""
from __future__ import annotations

import copy
import os
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, Iterator, Mapping, TypeVar

from ..checkpoint import _state
from .. import _torch
from .._loader import HOST, Loader, Memory, Opened, Row, dtype_of
from ._weight_cache import Lease, WeightCache
from ..errors import ArgumentError, FormatError, LimitError, UnsupportedError

T = TypeVar("T")
SHOWN = 20  # differences in one message
UNKNOWN = object()  # what a tensor holds after a copy that failed
ALIGNED = 256
COMPILED = "_orig_mod."  # in the names of compiled modules
# What PEFT leaves out of an adapter's file: the adapter's name behind these.
ADAPTER_PARTS = ("lora_A", "lora_B", "lora_embedding_A", "lora_embedding_B", "lora_magnitude_vector")


@dataclass(frozen=True, slots=True)
class SwapReport:
    """What a swap did."""

    name: str | None  # None: the model's own weights
    bytes: int  # that were copied
    tensors: int  # that were copied from the checkpoint
    base_tensors: int  # that were copied from the model's own, because the checkpoint has none
    unexpected: tuple[str, ...]  # tensors of the checkpoint that the model has not
    tier: str  # "gpu", "host", "file": where it came from; "": nothing was copied
    seconds: float  # until copies were queued


@dataclass(slots=True, eq=False)
class Target:
    """A tensor of the model, under all its names."""

    tensor: Any
    names: list[str]
    buffer: bool
    plain: bool  # bytes in row-major order on the cache's device: copied as they are
    source: Any = None  # what it holds: None: the model's own; (name, load); UNKNOWN
    version: int | None = 0
    kept: Any = None  # the model's own value: an address in host memory, or a tensor; None: not kept yet
    # What does not change:
    address: int = 0
    bytes: int = 0
    dtype: str = ""

    def __post_init__(self) -> None:
        self.address, self.dtype = self.tensor.data_ptr(), _state.dtype_name(self.tensor.dtype)
        self.bytes = self.tensor.numel() * self.tensor.element_size()


Pair = tuple[Target, Row, str]


@dataclass(slots=True)
class Plan:
    """Which tensors of a checkpoint go where."""

    pairs: list[Pair] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)


# ---- the model ----


def _refuse_offloaded(name: str, module: Any) -> None:
    hook = getattr(module, "_hf_hook", None)
    if hook is not None and any(getattr(one, "offload", False) for one in (hook, *getattr(hook, "hooks", ()))):
        raise UnsupportedError(f"'{name}' is offloaded by accelerate: what is copied into it would be lost")
    if getattr(module, "merged", False) is True and hasattr(module, "lora_A"):
        raise UnsupportedError(f"'{name}' has its adapter merged into its weight: unmerge it first")


def _targets(model: Any, device: int) -> list[Target]:
    """What state_dict() shows, each tensor once.  Raises UnsupportedError: one of them is not there as it is shown."""
    torch = _torch.torch()
    for name, module in model.named_modules():
        _refuse_offloaded(name or type(model).__name__, module)
    live = {id(t): False for t in model.parameters()}
    live.update({id(t): True for t in model.buffers()})
    usual = {torch.Tensor, torch.nn.Parameter, getattr(torch.nn, "Buffer", torch.Tensor)}
    found: dict[tuple[Any, ...], Target] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if not isinstance(tensor, torch.Tensor):
            continue  # extra state: no tensors
        if tensor.is_meta:
            raise UnsupportedError(f"'{name}' has no memory: it is on the meta device, or offloaded")
        if id(tensor) not in live or type(tensor) not in usual or str(tensor.layout) != "torch.strided" or tensor.is_quantized:
            raise UnsupportedError(f"'{name}' is {type(tensor).__name__} of {tensor.layout}: only dense tensors of this process alone "
                                   "can be swapped")
        key = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.device) if tensor.numel() else (id(tensor),)
        if key in found:
            found[key].names.append(name)
            continue
        there = tensor.device.type == "cpu" if device == HOST else tensor.device.type == "cuda" and tensor.device.index == device
        plain = there and tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()
        found[key] = Target(tensor, [name], live[id(tensor)], plain)
    return list(found.values())


def _refuse_frozen(modules: Iterable[Any]) -> None:
    """Inductor's freezing makes constants of weights: what is copied into them would change nothing."""
    config = sys.modules.get("torch._inductor.config")
    set_there = os.environ.get("TORCHINDUCTOR_FREEZING") == "1" if config is None else getattr(config, "freezing", False)
    for one in modules:
        compiled = one.__dict__.get("_compiled_call_impl")
        options = getattr(one.__dict__.get("dynamo_ctx"), "compiler_config", None)
        if compiled is not None and hasattr(compiled, "get_compiler_config"):
            options = compiled.get_compiler_config()
        if (compiled is not None or "_orig_mod" in one._modules) and (set_there or isinstance(options, Mapping) and options.get("freezing")):
            raise UnsupportedError("the model is compiled with inductor's freezing, which makes constants of its weights: they cannot be "
                                   "swapped", remedy="compile it without")


def _refuse_now(modules: Iterable[Any], device: int) -> None:
    torch = _torch.torch()
    _refuse_frozen(modules)
    parametrize = sys.modules.get("torch.nn.utils.parametrize")
    if parametrize is not None and getattr(parametrize, "_cache_enabled", False):
        raise UnsupportedError("parametrize.cached() is on: it would go on with values of the weights that were there before")
    if device != HOST and torch.cuda.is_current_stream_capturing():
        raise UnsupportedError("a CUDA graph is being captured: swap before it, or after it")


# ---- names ----


def _adapters(name: str) -> Iterator[tuple[str, str]]:
    """(what PEFT calls it in a file, the adapter), if it may be an adapter's tensor."""
    parts = name.split(".")
    for i, part in enumerate(parts[:-1]):
        if part in ADAPTER_PARTS:
            yield ".".join([*parts[:i + 1], *parts[i + 2:]]), parts[i + 1]


def _names(targets: list[Target]) -> list[list[str]]:
    """What each tensor may be called, as state_dict() has it; and what PEFT's files call it, where a model has one adapter."""
    found = [[name.replace(COMPILED, "") for name in target.names] for target in targets]
    taken = {name for names in found for name in names}
    adapters: dict[str, set[str]] = {}
    for names in found:
        for name in names:
            for stored, adapter in _adapters(name):
                adapters.setdefault(stored, set()).add(adapter)
    for names in found:
        names += [stored for name in list(names) for stored, _ in _adapters(name) if stored not in taken and len(adapters[stored]) == 1]
    return found


def _row_of(tensor: Any) -> tuple[str, list[int]]:
    return _state.dtype_name(tensor.dtype), list(tensor.shape)


class WeightSwapper:
    """One model that runs many checkpoints: their values are copied into its tensors, whose addresses stay.

    missing: what becomes of tensors that a checkpoint has not: "base": the model's own values, or "error".
    unexpected: of the checkpoint's tensors that the model has not: "error" or "ignore".
    cast: let dtypes differ, as load_state_dict() does; else they are an error.
    keep_base: keep the model's own values of what is overwritten in host memory, next to the cache; without, restore() is refused,
    and so is missing="base".
    The model stays where it is and as it is: .to(), new parameters and sharding need a new WeightSwapper.
    Raises UnsupportedError: a tensor is offloaded, sharded, quantized or merged with an adapter; each is named.
    """

    def __init__(self, model: Any, cache: WeightCache, *, missing: str = "base", unexpected: str = "error", cast: bool = False,
                 keep_base: bool = True) -> None:
        if missing not in ("base", "error") or unexpected not in ("error", "ignore"):
            raise ArgumentError("missing is 'base' or 'error', unexpected is 'error' or 'ignore'")
        if missing == "base" and not keep_base:
            raise ArgumentError("missing='base' needs the model's own values: keep_base=True")
        self.model, self.cache = model, cache
        self.missing, self.unexpected, self.cast, self.keep_base = missing, unexpected, cast, keep_base
        self._loader = Loader(cache.device, cache.threads)  # its streams wait for the model, the cache's do not
        self._targets = _targets(_state.bare(model), cache.device)
        self._modules = list(model.modules())
        _refuse_frozen(self._modules)
        self._names = _names(self._targets)
        self._by_name = {name: _row_of(t.tensor) for t, names in zip(self._targets, self._names) for name in names}
        self._lock = threading.Lock()
        self._user: int | None = None
        self._base: list[Memory] = []  # the model's own values
        self._plans: dict[str, tuple[Any, Plan]] = {}  # by name, of what was compared last
        self._over: list[tuple[int, Lease]] = []  # copies that may go on, and what they read
        self._current: str | None = None

    def __repr__(self) -> str:
        return f"<WeightSwapper of {type(self.model).__name__}: {self._current or 'its own weights'}>"

    def __reduce__(self) -> Any:
        raise UnsupportedError("a WeightSwapper belongs to the model of its process; it cannot be pickled")

    @property
    def current(self) -> str | None:
        """Whose weights the model holds; None: its own."""
        return self._current

    # ---- what users call ----

    @contextmanager
    def use(self, name: str) -> Iterator[Any]:
        """The model with that checkpoint's weights, for this thread alone; they stay behind the block, until another is used.

        Raises ArgumentError: this thread uses one already; FormatError: it does not fit, with all differences.
        """
        with self._alone():
            self._swap(name)
            try:
                yield self.model
            finally:
                self._loader.after()

    def load(self, name: str) -> SwapReport:
        """As use(), without an end: the caller sees to it that no one else swaps."""
        with self._alone():
            return self._swap(name)

    def restore(self) -> SwapReport:
        """The model's own weights."""
        with self._alone():
            return self._restore()

    def compare(self, fn: Callable[[Any], T], names: Iterable[str]) -> dict[str, T]:
        """fn(model) with each checkpoint, one after the other: in eval mode, without gradients, outputs copied to the host.

        The next one is read while this one computes.  Afterwards the model is as it was.
        """
        torch = _torch.torch()
        names = list(names)
        found: dict[str, T] = {}
        with self._alone(), _eval(self.model), torch.no_grad():
            before = self._current
            try:
                for i, name in enumerate(names):
                    self._swap(name)
                    self.cache.prefetch(*names[i + 1:i + 2])
                    found[name] = to_host(fn(self.model), f"the output with '{name}'")
                    self._loader.after()
            finally:
                self._swap(before) if before is not None else self._restore()
        return found

    def close(self) -> None:
        """Release what it holds of the cache; the model keeps the weights that it has."""
        with self._alone():
            self._reap(wait=True)

    def __enter__(self) -> WeightSwapper:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- inside ----

    @contextmanager
    def _alone(self) -> Iterator[None]:
        me = threading.get_ident()
        if self._user == me:
            raise ArgumentError(f"'{self._current}' is in use by this thread: one model holds one checkpoint at a time")
        self._loader.check()
        with self._lock:
            self._user = me
            try:
                yield
            finally:
                self._reap(wait=False)
                self._user = None

    def _reap(self, wait: bool) -> None:
        """Leases whose copies are over."""
        while self._over and (wait or self._loader.is_over(self._over[0][0])):
            ticket, lease = self._over.pop(0)
            try:
                self._loader.wait(ticket)
            finally:
                lease.release()

    def _check(self) -> None:
        _refuse_now(self._modules, self.cache.device)
        for target in self._targets:
            if target.tensor.data_ptr() != target.address:
                raise UnsupportedError(f"'{target.names[0]}' was moved since the WeightSwapper was made: make a new one")

    def _swap(self, name: str) -> SwapReport:
        began = time.perf_counter()
        self._check()
        self._reap(wait=False)
        lease = self._lease(name)
        with (Opened(self.cache.registered(name).path) if lease is None else _Over(self, lease)) as source:
            registered = self.cache.registered(name)
            mark = (name, registered, source.mark)
            known = self._plans.get(name)
            if known is None or known[0] != mark:
                rows = source.rows if isinstance(source, _Over) else registered.rows_of(source)
                known = self._plans[name] = (mark, self._match(name, rows))
            plan = known[1]
            moved = [one for one in plan.pairs if self._is_other(one[0], mark)]
            self._keep([t for t, _, _ in moved])
            base = [t for t in self._absent(plan) if t.kept is not None and self._is_other(t, None)]
            self._current = None
            self._write([t for t, _, _ in moved], mark, lambda: source.write(moved) if isinstance(source, _Over) else
                        self._read(source, moved))
            self._write_base(base)
        self._current = name
        tier = "file" if lease is None else "gpu" if lease.tier.blocks else "host"
        return SwapReport(name, sum(t.bytes for t, _, _ in moved) + sum(t.bytes for t in base), len(moved), len(base),
                          tuple(plan.unexpected), tier if moved or base else "", time.perf_counter() - began)

    def _restore(self) -> SwapReport:
        if not self.keep_base:
            raise ArgumentError("the model's own values were not kept: keep_base=True")
        began = time.perf_counter()
        self._check()
        base = [t for t in self._targets if t.kept is not None and self._is_other(t, None)] if self._current is not None or any(
            t.source is not None for t in self._targets) else []
        self._current = None
        self._write_base(base)
        return SwapReport(None, sum(t.bytes for t in base), 0, len(base), (), "host" if base else "", time.perf_counter() - began)

    def _lease(self, name: str) -> Lease | None:
        """None: it has no room."""
        try:
            return self.cache.take(name)
        except LimitError:
            self._reap(wait=True)
        try:
            return self.cache.take(name)
        except LimitError:
            return None

    # ---- what goes where ----

    def _match(self, name: str, rows: Mapping[str, Row]) -> Plan:
        """Raises FormatError with all differences, before anything is changed."""
        plan, lines = Plan(), []
        rows = {one.replace(COMPILED, ""): row for one, row in rows.items()}
        plan.unexpected = [one for one in rows if one not in self._by_name]
        if self.unexpected == "error":
            lines += [f"'{one}' is only in the checkpoint ({rows[one].dtype} {list(rows[one].shape)})" for one in plan.unexpected]
        for target, names in zip(self._targets, self._names):
            found = [one for one in names if one in rows]
            if not found:
                if self.missing == "error":
                    lines.append(f"'{names[0]}' is only in the model ({_said(target)})")
                continue
            one = found[-1]  # as load_state_dict() leaves it
            row = rows[one]
            if list(row.shape) != list(target.tensor.shape) or not (self.cast or row.dtype == target.dtype):
                lines.append(f"'{one}' is {_said(target)} in the model, {row.dtype} {list(row.shape)} in the checkpoint")
            plan.pairs.append((target, row, one))
        if not plan.pairs:
            lines.append("no tensor of it is in the model")
        if lines:
            prefix, count = _state.prefix_of(self._by_name, rows)
            hint = _state.suggest(self._by_name, rows)
            if prefix and not prefix.startswith("+"):
                taken = self.cache.registered(name).prefix + prefix
                hint = f"register('{name}', path, prefix='{taken}') would find {count} of the model's {len(self._by_name)} tensors"
            shown = lines[:SHOWN] + ([f"and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []) + ([hint] if hint else [])
            raise FormatError(f"'{name}' does not fit, nothing was changed:\n  " + "\n  ".join(shown),
                              path=self.cache.registered(name).path)
        return plan

    def _absent(self, plan: Plan) -> list[Target]:
        there = {id(target) for target, _, _ in plan.pairs}
        return [target for target in self._targets if id(target) not in there]

    def _is_other(self, target: Target, source: Any) -> bool:
        """Does it hold something else, or may it?  A CUDA graph changes buffers, and what has a gradient, without a trace."""
        tensor = target.tensor
        return target.buffer or target.source != source or _version(tensor) != target.version or (tensor.is_leaf and tensor.grad is not None)

    # ---- copies ----

    def _write(self, targets: list[Target], source: Any, copy: Callable[[], None]) -> None:
        for target in targets:
            target.source = UNKNOWN
        copy()
        bump = getattr(_torch.torch().autograd.graph, "increment_version", None)
        for target in targets:
            # What autograd has saved of it is not what it is any more: backward() says so then.
            if bump is not None and not target.tensor.is_inference():
                bump(target.tensor)
            target.source, target.version = source, _version(target.tensor)

    def _write_base(self, targets: list[Target]) -> None:
        def copy() -> None:
            _copy([(t.tensor, t.kept) for t in targets if not t.plain])
            self._loader.copy([(t.address, t.kept, t.bytes) for t in targets if t.plain])

        self._write(targets, None, copy)

    def _keep(self, moved: list[Target]) -> None:
        """The model's own values of what is overwritten next, and of its buffers, which running it may change; before a swap."""
        if not self.keep_base:
            return
        going = {id(target) for target in moved}
        wanted = [t for t in self._targets if t.source is None and (
            (t.kept is None and (t.buffer or id(t) in going)) or  # for the first time
            (t.kept is not None and self._current is None and self._is_other(t, None)))]  # it was trained since, say
        new = [t for t in wanted if t.plain and t.kept is None]
        size = sum(-(-t.bytes // ALIGNED) * ALIGNED for t in new)
        if size:
            memory = Memory(self._loader, size)
            self._base.append(memory)
            at = memory.address
            for target in new:
                target.kept, at = at, at + -(-target.bytes // ALIGNED) * ALIGNED
        for target in wanted:
            if not target.plain:
                target.kept = target.tensor.detach().to("cpu", copy=True)
            target.version = _version(target.tensor)
        self._loader.copy([(t.kept, t.address, t.bytes) for t in wanted if t.plain])

    def _read(self, opened: Opened, moved: list[Pair]) -> None:
        """What has no room in the cache: through the ring, straight into the model."""
        torch = _torch.torch()
        for target, row, one in moved:
            if not _as_it_is(target, row):
                room = torch.empty(row.shape, dtype=dtype_of(row.dtype, one), device="cpu" if self.cache.device == HOST else
                                   f"cuda:{self.cache.device}")
                self._loader.load(opened, [(row.number, room.data_ptr())])
                _copy([(target.tensor, room)])
        self._loader.load(opened, [(row.number, t.address) for t, row, _ in moved if _as_it_is(t, row)])


class _Over:
    """A lease, which ends when the copies out of it are over."""

    def __init__(self, owner: WeightSwapper, lease: Lease) -> None:
        self.owner, self.lease = owner, lease
        self.rows, self.mark = lease.rows, (lease.tier, lease.load)
        self.ticket: int | None = None
        self.began = False

    def write(self, moved: list[Pair]) -> None:
        self.began = True
        _copy([(t.tensor, self.lease.tensor(one)) for t, row, one in moved if not _as_it_is(t, row)])
        self.ticket = self.owner._loader.copy([(t.address, self.lease.addresses[one], t.bytes) for t, row, one in moved
                                               if _as_it_is(t, row)])

    def __enter__(self) -> _Over:
        return self

    def __exit__(self, *_: object) -> None:
        if self.ticket is None:
            if self.began and self.owner.cache.device != HOST:  # it failed: torch's own copies may go on
                _torch.torch().cuda.synchronize(self.owner.cache.device)
            self.lease.release()
        else:
            self.owner._over.append((self.ticket, self.lease))


def _as_it_is(target: Target, row: Row) -> bool:
    return target.plain and row.dtype == target.dtype


def _said(target: Target) -> str:
    return f"{target.dtype} {list(target.tensor.shape)}"


def _version(tensor: Any) -> int | None:
    """Counts what changes it; None: it does not count."""
    return None if tensor.is_inference() else int(tensor._version)


def _copy(pairs: list[tuple[Any, Any]]) -> None:
    torch = _torch.torch()
    for to, value in pairs:
        with torch.inference_mode() if to.is_inference() else torch.no_grad():
            to.copy_(value, non_blocking=True)


# ---- outputs ----


@contextmanager
def _eval(model: Any) -> Iterator[None]:
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


PLAIN = (type(None), bool, int, float, complex, str, bytes)


def to_host(value: Any, what: str, seen: dict[int, Any] | None = None) -> Any:
    """The same, with copies of its tensors in host memory: nothing in it is the model's.  Raises ArgumentError: it cannot be seen through."""
    torch = _torch.torch()
    seen = {} if seen is None else seen
    if isinstance(value, torch.Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, (*PLAIN, torch.dtype, torch.device, torch.Size)):
        return value
    if id(value) in seen:
        return seen[id(value)]
    if isinstance(value, torch.nn.Module) or callable(value):
        raise ArgumentError(f"{what} holds a {type(value).__qualname__}: return tensors, or what is made of tensors")
    if isinstance(value, (tuple, set, frozenset)):
        items = [to_host(one, what, seen) for one in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        return value.copy()
    if isinstance(value, list):
        found = seen[id(value)] = copy.copy(value)
        found[:] = [to_host(one, what, seen) for one in value]
        return found
    if not hasattr(value, "__dict__") and not isinstance(value, dict):
        raise ArgumentError(f"{what} holds a {type(value).__qualname__}: return tensors, or what is made of tensors")
    found = seen[id(value)] = copy.copy(value)
    if isinstance(value, dict):
        for key, one in value.items():
            found[key] = to_host(one, what, seen)
    for key, one in getattr(value, "__dict__", {}).items():
        object.__setattr__(found, key, to_host(one, what, seen))
    return found
