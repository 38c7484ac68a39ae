"""Weights and activations looked at as gradients are; values and gradients in fp32 next to a lower precision."""
from __future__ import annotations

import contextlib
import copy
import math
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Iterator

from .. import _torch
from ..data._randomness import own_randomness, seed_all
from ._gradients import GradStats, Watched, dtype_codes, lies_together, tell
from ..errors import ArgumentError, UnsupportedError

# ---- weights and activations ----


def check_tensors(named: Any) -> GradStats:
    """NaN, infinities and norms of tensors, in one pass: a module's parameters and buffers, or names and tensors
    (pairs, or a dict).

    The first of `bad` is the first in the order given.  Waits for the GPU.  Tensors of other dtypes are left out.

    >>> import torch
    >>> str(check_tensors([("weight", torch.tensor([1.0, float("nan")]))]).bad[0].name)
    'weight'
    """
    if hasattr(named, "named_parameters"):
        named = [*named.named_parameters(), *named.named_buffers()]
    elif hasattr(named, "items"):
        named = named.items()
    return _look((str(name), tensor.detach()) for name, tensor in named)


def _look(named: Iterable[tuple[str, Any]]) -> GradStats:
    codes = dtype_codes()
    kept = [(name, t if lies_together(t) else t.contiguous()) for name, t in named if t.dtype in codes and t.device.type != "meta"]
    if not kept:
        raise ArgumentError("there is no tensor of float32, float16, bfloat16 or float64")
    watched = Watched(kept, 1, lambda tensor: tensor)
    try:
        watched.order({i: i for i in range(len(kept))})
        for k, core in enumerate(watched.cores):
            core.check(0, watched.addresses(k))
        for core in watched.cores:
            core.take(True)
        return tell(watched, [core.stats for core in watched.cores], ())
    finally:
        watched.close()


def _tensors(value: Any) -> Iterator[Any]:
    """All tensors of floats in nested tuples, lists, dicts and dataclasses."""
    if hasattr(value, "data_ptr") and hasattr(value, "is_floating_point"):
        if value.is_floating_point():
            yield value
    elif isinstance(value, dict) or hasattr(value, "to_tuple") and hasattr(value, "values"):
        for one in value.values():
            yield from _tensors(one)
    elif isinstance(value, (tuple, list)):
        for one in value:
            yield from _tensors(one)
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from _tensors(getattr(value, name))


def check_activations(model: Any, *args: Any, **kwargs: Any) -> GradStats:
    """Run model(*args, **kwargs) without gradients and look at what every module returns; the first of `bad` ran first.

    All activations are held until the end.  Waits for the GPU.
    """
    found: list[tuple[str, Any]] = []

    def listener(name: str) -> Callable[[Any, Any, Any], None]:
        def note(_: Any, __: Any, output: Any) -> None:
            found.extend((name, tensor.detach()) for tensor in _tensors(output))

        return note

    handles = [module.register_forward_hook(listener(name or type(model).__name__)) for name, module in model.named_modules()]
    try:
        with _torch.torch().no_grad():
            model(*args, **kwargs)
    finally:
        for handle in handles:
            handle.remove()
    return _look(found)


# ---- precision ----

DIGITS = {"bfloat16": 8, "float16": 11}  # bits of a significand


@dataclass(frozen=True, slots=True)
class Difference:
    """Of one thing, the worst over all seeds.  None: it is not a tensor there, or there was nothing to compare."""

    name: str
    kind: str  # "output", "module" or "gradient"
    dtype: str  # of the lower run
    relative: float | None  # norm of the difference by that of the float32 value
    largest_ulp: float | None  # largest difference, in units of the lower dtype's last place at the largest float32 value
    cosine: float | None
    nan: int  # values that are NaN in the lower run and finite in float32
    inf: int
    underflow: float | None  # part of the values other than 0 that became 0
    own: float | None  # a module: the relative difference that it makes of the float32 inputs; the rest came from before it
    largest: float | None = None  # difference of a value, in the value's own units
    mean: float | None = None  # of the differences' sizes, in the same units
    values: int = 0
    outside: int | None = None  # values that differ by more than the tolerances allow; None: none were given

    def __str__(self) -> str:
        said = f"{self.kind} '{self.name}' ({self.dtype})"
        if self.relative is not None:
            said += (f": differs by {self.largest:.3g} at most, {self.mean:.3g} on average, {self.relative:.2e} of its norm, "
                     f"{self.largest_ulp:.3g} ulp at most" + ("" if self.cosine is None else f", cosine {self.cosine:.6f}"))
        if self.own is not None:
            said += f"; of its own {self.own:.2e}"
        if self.nan or self.inf:
            said += f"; {self.nan:,} NaN and {self.inf:,} infinite values that float32 does not have"
        if self.underflow:
            said += f"; {100 * self.underflow:.1f} % became 0"
        return said


@dataclass(frozen=True, slots=True)
class PrecisionResult:
    """What a lower dtype changes.  exercised: something was computed in it; else nothing was tested."""

    dtype: str
    seeds: int
    exercised: bool
    operations: tuple[str, ...]  # that gave tensors of the lower dtype
    outputs: tuple[Difference, ...]
    modules: tuple[Difference, ...]  # in the order in which they ran
    gradients: tuple[Difference, ...]  # in the model's order
    atol: float | None = None
    rtol: float | None = None

    @property
    def ok(self) -> bool | None:
        """Does every value of every output lie within atol + rtol * |float32 value|?  None: no tolerance was given, or nothing was
        tested.
        """
        if self.atol is None or self.rtol is None or not self.exercised or not self.outputs:
            return None
        return not any(d.outside for d in self.outputs)

    def __bool__(self) -> bool:
        if self.atol is None:
            raise ArgumentError("whether that is close enough is a question of tolerances", remedy="precision_test(..., atol=, rtol=)")
        return self.ok is True

    def _verdict(self) -> str:
        within = f"within {self.atol:g} + {self.rtol:g} * |value| of float32"
        outside, values = sum(d.outside or 0 for d in self.outputs), sum(d.values for d in self.outputs)
        if self.ok is None:
            return "unknown: there is no output to compare"
        return f"yes: all {values:,} values are {within}" if self.ok else f"no: {outside:,} of {values:,} values are not {within}"

    @property
    def worst(self) -> Difference | None:
        """The module that adds the most of its own; else the output or gradient that differs most; new NaN or inf come first."""
        broken = [d for d in (*self.modules, *self.outputs, *self.gradients) if d.nan or d.inf]
        if broken:
            return broken[0]
        owns = [d for d in self.modules if d.own is not None]
        if owns:
            return max(owns, key=lambda d: d.own or 0.0)
        rest = [d for d in (*self.outputs, *self.gradients) if d.relative is not None]
        return max(rest, key=lambda d: d.relative or 0.0) if rest else None

    def __str__(self) -> str:
        if not self.exercised:
            return (f"not exercised: nothing was computed in {self.dtype}; the function neither follows its inputs' dtype nor has "
                    "operations that autocast lowers")
        lines = [] if self.atol is None else [self._verdict()]
        lines += [f"{self.dtype}, {self.seeds} seeds, {len(self.operations)} kinds of operations in it"]
        lines += [str(d) for d in self.outputs]
        if self.worst is not None and self.worst not in self.outputs:
            lines.append(f"worst: {self.worst}")
        return "\n".join(lines)


def _tolerances(atol: float | None, rtol: float | None) -> tuple[float, float] | None:
    """(atol, rtol), of which the one that is not given is 0; None if neither is given."""
    if atol is None and rtol is None:
        return None
    both = (float(atol or 0.0), float(rtol or 0.0))
    if not all(one >= 0 for one in both):
        raise ArgumentError(f"atol and rtol are 0 or more, not {both[0]} and {both[1]}")
    return both


def _add_differences(found: dict[tuple[str, str], Difference], high: _Run, low: _Run, dtype: Any, tolerances: tuple[float, float] | None) -> None:
    """Add two runs' differences, by kind and name; of each pair the worst one stays."""
    for kind in ("output", "module", "gradient"):
        for name, value in high.values[kind].items():
            other = low.values[kind].get(name)
            if other is None or other.shape != value.shape:
                continue
            one = _difference(name, kind, value, other, dtype, low.own.get(name) if kind == "module" else None, tolerances)
            key = (kind, name)
            found[key] = one if key not in found else _worse(found[key], one)


def precision_test(fn: Callable[..., Any], *args: Any, dtype: Any = None, grads: bool = True, seeds: int = 3, cast: bool = True,
                   atol: float | None = None, rtol: float | None = None, **kwargs: Any) -> PrecisionResult:
    """Run fn in float32 and in a lower dtype, and compare values and gradients: outputs, each module, each parameter.

    >>> if not precision_test(model, batch, atol=0.01, rtol=0.01): ...   # doctest: +SKIP

    fn: a module, or a function; it is called on copies, never changed.  dtype: torch.bfloat16 unless given, or float16.
    The lower run is under autocast and, with cast, has its parameters and inputs in the lower dtype as well; without it
    only what autocast lowers is.  seeds: how often, each time with other random numbers within fn, the same in both runs: dropout drops
    the same values, whatever the dtype.  atol, rtol: the result is true or false: does every value of every output lie within
    atol + rtol * |float32 value| (the one that is not given is 0)?  False also if nothing was computed in the lower dtype.
    grads: also backpropagate the sum of squares of the outputs.  Inputs of floats are tested as they are given.

    Raises ArgumentError: another dtype, a tolerance below 0, or fn returns no floats; UnsupportedError: parameters on "meta".
    """
    t = _torch.torch()
    dtype = t.bfloat16 if dtype is None else dtype
    if dtype not in (t.bfloat16, t.float16):
        raise ArgumentError(f"dtype is torch.bfloat16 or torch.float16, not {dtype}")
    if seeds < 1:
        raise ArgumentError("seeds is at least 1")
    tolerances = _tolerances(atol, rtol)
    module: Any = fn if isinstance(fn, t.nn.Module) else None
    if module is not None and any(p.device.type == "meta" for p in module.parameters()):
        raise UnsupportedError("parameters on 'meta' have no values")
    found: dict[tuple[str, str], Difference] = {}
    operations: set[str] = set()
    for seed in range(seeds):
        high = _Run(fn, args, kwargs, t.float32, None, grads, cast, seed, None)
        low = _Run(fn, args, kwargs, dtype, dtype, grads, cast, seed, high)
        operations |= low.operations
        _add_differences(found, high, low, dtype, tolerances)
        if not found:
            raise ArgumentError("fn returns no tensor of floats, or other shapes each time")
    return PrecisionResult(
        dtype=str(dtype).removeprefix("torch."), seeds=seeds, exercised=bool(operations), operations=tuple(sorted(operations)),
        outputs=tuple(d for (kind, _), d in found.items() if kind == "output"),
        modules=tuple(d for (kind, _), d in found.items() if kind == "module"),
        gradients=tuple(d for (kind, _), d in found.items() if kind == "gradient"),
        atol=None if tolerances is None else tolerances[0], rtol=None if tolerances is None else tolerances[1])


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    if hasattr(value, "data_ptr"):
        return change(value)
    if isinstance(value, dict):
        return {key: _mapped(one, change) for key, one in value.items()}
    if isinstance(value, (tuple, list)):
        made = [_mapped(one, change) for one in value]
        return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
    return value


class _Run:
    """One run: values by kind and name, and operations that gave tensors of the lower dtype."""

    def __init__(self, fn: Any, args: Any, kwargs: Any, dtype: Any, lower: Any, grads: bool, cast: bool, seed: int,
                 high: _Run | None) -> None:
        t = _torch.torch()
        self.values: dict[str, dict[str, Any]] = {"output": {}, "module": {}, "gradient": {}}
        self.inputs: dict[str, tuple[Any, Any]] = {}  # of modules, where fn is to be compared with itself
        self.own: dict[str, float] = {}
        self.draws: _Draws = _Draws(None if high is None else high.draws.drawn, lower)
        self.begun: dict[str, int] = {}  # of modules: how often random numbers had been drawn
        self.operations: set[str] = set()
        to = dtype if lower is None or cast else t.float32

        def given(tensor: Any) -> Any:
            if not tensor.is_floating_point():
                return tensor
            return tensor.detach().to(to).clone().requires_grad_(grads and tensor.requires_grad)

        module = copy.deepcopy(fn).to(to) if isinstance(fn, t.nn.Module) else None
        args, kwargs = _mapped(args, given), _mapped(kwargs, given)
        handles = self._listen(module, high) if module is not None else []
        inputs = [x for x in _tensors((args, kwargs)) if x.requires_grad]
        devices = {x.device.type for x in (*_tensors((args, kwargs)), *(module.parameters() if module is not None else ()))}
        devices = devices or {"cpu"}
        with t.random.fork_rng(), own_randomness(), _Watching(self.operations, lower, self.draws):
            seed_all(seed)
            t.manual_seed(seed)
            with t.autocast(device_type=sorted(devices)[-1], dtype=lower or t.bfloat16, enabled=lower is not None), \
                    t.set_grad_enabled(grads):
                output = (module if module is not None else fn)(*args, **kwargs)
            for handle in handles:
                handle.remove()
            outputs = list(_tensors(output))
            if grads and any(x.requires_grad for x in outputs):
                total: Any = sum(x.float().square().sum() for x in outputs if x.requires_grad)
                total.backward()
        for i, value in enumerate(outputs):
            self.values["output"][str(i) if len(outputs) > 1 else "output"] = value.detach()
        for name, parameter in module.named_parameters() if module is not None else ():
            if parameter.grad is not None:
                self.values["gradient"][name] = parameter.grad
        for i, value in enumerate(inputs):
            if value.grad is not None:
                self.values["gradient"][f"input {i}"] = value.grad
        self.module = module

    def _listen(self, module: Any, high: _Run | None) -> list[Any]:
        """Outputs of modules without modules in them; in the lower run also what they make of the float32 run's inputs."""
        busy: list[bool] = []

        def listener(name: str) -> Callable[..., None]:
            def note(one: Any, args: Any, kwargs: Any, output: Any) -> None:
                if busy:
                    return
                first = next(_tensors(output), None)
                if first is None or name in self.values["module"]:
                    return
                self.values["module"][name] = first.detach()
                if high is None:
                    self.inputs[name] = (_mapped(args, _kept), _mapped(kwargs, _kept))
                elif name in high.inputs:
                    busy.append(True)
                    try:
                        self.own[name] = self._own(one, high, name, args)
                    finally:
                        busy.clear()

            return note

        def begins(name: str) -> Callable[..., None]:
            def note(*_: Any) -> None:
                self.begun.setdefault(name, self.draws.at)

            return note

        if high is None:
            for name, one in module.named_modules():
                one.register_forward_pre_hook(begins(name))  # of a copy, which no one else sees
        return [one.register_forward_hook(listener(name), with_kwargs=True) for name, one in module.named_modules()
                if name and not any(True for _ in one.children())]

    def _own(self, one: Any, high: _Run, name: str, args: Any) -> float:
        t = _torch.torch()
        lowered = next((x.dtype for x in _tensors(args)), t.float32)
        given = [_mapped(part, lambda x: x.to(lowered) if x.is_floating_point() else x) for part in high.inputs[name]]
        statistics = [(buffer, buffer.detach().clone()) for buffer in one.buffers()]
        with t.no_grad(), t.random.fork_rng(), self.draws.again_from(high.begun[name]):
            output = next(_tensors(one(*given[0], **given[1])), None)
        for buffer, before in statistics:
            buffer.data.copy_(before)
        return math.nan if output is None else _relative(high.values["module"][name].float(), output.float())


def _kept(tensor: Any) -> Any:
    return tensor.detach().clone()


class _Draws:
    """The operations that draw random numbers: in a first run the states of their generators are noted, in a second one each gets
    the state that it had, and works in float32, since a kernel of another dtype draws other numbers from the same state.
    """

    def __init__(self, before: list[tuple[str, Any]] | None, lower: Any) -> None:
        self.drawn: list[tuple[str, Any]] = [] if before is None else before
        self.again, self.lower, self.at = before is not None, lower, 0

    @contextlib.contextmanager
    def again_from(self, at: int) -> Iterator[None]:
        kept, self.at = self.at, at
        try:
            yield
        finally:
            self.at = kept

    def run(self, func: Any, args: Any, kwargs: Any) -> Any:
        generator, name = _generator(args, kwargs), str(func)
        number, self.at = self.at, self.at + 1
        if not self.again:
            self.drawn.append((name, generator.get_state()))
            return func(*args, **kwargs)
        if number >= len(self.drawn) or self.drawn[number][0] != name:
            return func(*args, **kwargs)  # fn went another way than in float32
        generator.set_state(self.drawn[number][1])
        return self._in_float32(func, args, kwargs)

    def _in_float32(self, func: Any, args: Any, kwargs: Any) -> Any:
        t = _torch.torch()
        raised: dict[int, tuple[Any, Any]] = {}

        def higher(x: Any) -> Any:
            if x.dtype is not self.lower:
                return x
            return raised.setdefault(id(x), (x, x.to(t.float32)))[1]

        made = kwargs.get("dtype") is self.lower
        result = func(*_mapped(args, higher), **{**_mapped(kwargs, higher), **({"dtype": t.float32} if made else {})})
        if not raised and not made:
            return result
        for x, high in raised.values():
            if func._schema.is_mutable:
                x.copy_(high)
        back = {id(high): x for x, high in raised.values()}
        return _mapped(result, lambda x: back[id(x)] if id(x) in back else x.to(self.lower) if x.dtype is t.float32 else x)


def _generator(args: Any, kwargs: Any) -> Any:
    """Whose numbers an operation draws: the one that it is given, or its device's."""
    t = _torch.torch()
    given = next((x for x in (*args, *kwargs.values()) if isinstance(x, t.Generator)), None)
    if given is not None:
        return given
    device = next((x.device for x in (*args, *kwargs.values()) if isinstance(x, t.Tensor)), None) or t.device(kwargs.get("device") or "cpu")
    if device.type == "cuda":
        return t.cuda.default_generators[t.cuda.current_device() if device.index is None else device.index]
    return t.default_generator


class _Watching:
    """Names of operations that give tensors of a dtype, if there is one; and what draws random numbers."""

    def __init__(self, found: set[str], dtype: Any, draws: _Draws) -> None:
        seeded = _torch.torch().Tag.nondeterministic_seeded
        from torch.utils._python_dispatch import TorchDispatchMode  # type: ignore[import-not-found,unused-ignore]

        class Mode(TorchDispatchMode):  # type: ignore[misc,unused-ignore]
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                result = draws.run(func, args, kwargs or {}) if seeded in func.tags else func(*args, **(kwargs or {}))
                if dtype is None:
                    return result
                name = str(func).removeprefix("aten.").split(".")[0]
                if name not in COPIES and any(x.dtype is dtype for x in _tensors(result)):
                    found.add(name)
                return result

        self.mode: Any = Mode()

    def __enter__(self) -> None:
        self.mode.__enter__()

    def __exit__(self, *why: Any) -> None:
        self.mode.__exit__(*why)


# What gives a tensor of a dtype but computes nothing in it.
COPIES = frozenset(("_to_copy", "clone", "detach", "view", "_unsafe_view", "t", "transpose", "permute", "expand", "alias", "slice", "select",
                    "reshape", "empty", "empty_like", "zeros", "zeros_like", "ones_like", "copy_", "unsqueeze", "squeeze", "split", "cat",
                    "stack", "as_strided", "contiguous", "index_select", "embedding", "full_like", "fill_", "lift_fresh"))


def _relative(value: Any, other: Any) -> float:
    finite = value.isfinite() & other.isfinite()
    norm = float(value[finite].double().norm())
    apart = float((value[finite].double() - other[finite].double()).norm())
    return apart / norm if norm else (0.0 if not apart else math.inf)


def _difference(name: str, kind: str, value: Any, other: Any, dtype: Any, own: float | None,
                tolerances: tuple[float, float] | None) -> Difference:
    was = str(other.dtype).removeprefix("torch.")
    value, other = value.detach().double().flatten(), other.detach().double().flatten().to(value.device)
    fine = value.isfinite()
    both = fine & other.isfinite()
    a, b = value[both], other[both]
    empty = not a.numel()
    top = 0.0 if empty else float(a.abs().max())
    bits = DIGITS[str(dtype).removeprefix("torch.")]
    ulp = 2.0 ** (math.floor(math.log2(top)) - bits + 1) if top else 0.0
    differences = (a - b).abs()
    apart = 0.0 if empty else float(differences.max())
    outside = None
    if tolerances is not None:
        # What only one of them has that is infinite or no number is outside; what both have is not a difference.
        alike = both | (value == other) | (value.isnan() & other.isnan())
        outside = int((differences > tolerances[0] + tolerances[1] * a.abs()).sum() + (~alike).sum())
    norms = 0.0 if empty else float(a.norm() * b.norm())
    there = (value != 0) & fine
    return Difference(
        name=name, kind=kind, dtype=was, relative=None if empty else _relative(a, b),
        largest_ulp=None if empty else apart / ulp if ulp else (0.0 if not apart else math.inf),
        cosine=float(a @ b) / norms if norms else None, nan=int((other.isnan() & fine).sum()), inf=int((other.isinf() & fine).sum()),
        underflow=float((there & (other == 0)).sum() / there.sum()) if bool(there.any()) else None, own=own,
        largest=None if empty else apart, mean=None if empty else float(differences.mean()), values=value.numel(), outside=outside)


def _worse(a: Difference, b: Difference) -> Difference:
    def most(x: Any, y: Any, of: Callable[..., Any] = max) -> Any:
        return y if x is None else x if y is None else of(x, y)

    return Difference(a.name, a.kind, a.dtype, most(a.relative, b.relative), most(a.largest_ulp, b.largest_ulp),
                      most(a.cosine, b.cosine, min), max(a.nan, b.nan), max(a.inf, b.inf), most(a.underflow, b.underflow), most(a.own, b.own),
                      most(a.largest, b.largest), most(a.mean, b.mean), a.values, most(a.outside, b.outside))
