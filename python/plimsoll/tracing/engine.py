"""Writes down what is asked of the GPU: a dispatch mode that sees each new storage, and each one's end.

A storage is the GPU's where an operand of the operation that made it is, or where the call named the GPU (device.py).
Python's reference counts and autograd's release of saved tensors give the order of ends; nothing of that is modelled.
"""
from __future__ import annotations

import weakref
from typing import Any, Callable, Iterator, Sequence

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from . import fused, recurrent, tables
from .dynamic import Dynamic
from .guesses import Guesses
from .known import Known
from .packed import CATEGORIES, Trace

aten = torch.ops.aten
CPU = torch.device("cpu")
CATEGORY = {name: i for i, name in enumerate(CATEGORIES)}
PRODUCTS = {"mm", "addmm", "bmm", "baddbmm", "_scaled_mm", "_grouped_mm", "_addmm_activation", "_euclidean_dist"}
OF_PHASE = {"load": "buffer", "fwd": "activation", "bwd": "autograd_detail", "opt": "temporary",
            "eval": "activation", "gen": "activation"}


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)


class Numbers:
    """Texts by number, in the order of use."""

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts
        self.ids: dict[str, int] = {}

    def of(self, text: str) -> int:
        n = self.ids.get(text)
        if n is None:
            n = self.ids[text] = len(self.texts)
            self.texts.append(text)
        return n


class Gate:
    """What the Python call at hand says about where its result is."""

    __slots__ = ("to_gpu", "to_host", "inside", "adds", "biased", "compiling", "lowering")

    def __init__(self) -> None:
        self.to_gpu = self.to_host = False
        self.adds = False  # sums without gradients may take an operand's place
        self.biased = False  # a linear layer: its bias is added in place
        self.inside = 0
        self.compiling = False  # a graph is made: nothing is recorded, all is the GPU's
        self.lowering = False   # by Inductor, on fake tensors of the GPU


class Recorder:
    """Requests and ends, phase by phase."""

    def __init__(self, trace: Trace, card: tables.Card) -> None:
        self.trace = trace
        self.card = card
        self.requests: dict[int, int] = {}       # of a storage that lives, by its address
        self.watched: dict[int, Any] = {}        # what shows its end
        self.emptied: set[int] = set()           # storages that live on without bytes (ranks.py)
        self.places = Numbers(trace.places)
        self.operators = Numbers(trace.operators)
        self.places.of("")
        self.operators.of("")
        self.phase = "load"
        self.stack: list[str] = []               # modules that run
        self.by_sequence: dict[int, str] = {}    # of autograd's nodes: the module whose call made them
        self.backward = False
        self.workspaces: set[tuple[bool, str]] = set()
        self.sole: tuple[int, int] | None = None  # counts of a gradient that no one else holds (device.py probes)
        self.closed = False
        self.taken: dict[str, int] = {}          # values that a program asked for
        self.asked = 0                           # how many of them in this phase
        self.known = Known()
        self.dynamic = Dynamic(self.known)
        self.guesses = Guesses(self.known)
        self.gate = Gate()
        self.properties: Callable[[], Any] = lambda: None  # of the planned GPU (device.py)

    # ---- requests ----

    def is_gpu(self, t: torch.Tensor) -> bool:
        return t.untyped_storage()._cdata in self.requests

    def is_just_made(self, t: torch.Tensor, operators: tuple[str, ...]) -> bool:
        """Is it what was asked for last, by one of these?"""
        request = self.requests.get(t.untyped_storage()._cdata, -2)
        return request == len(self.trace.category) - 1 and self.trace.operators[self.trace.operator[request]] in operators

    def birth(self, size: int, operator: str, category: str | None = None) -> int:
        """A request of `size` bytes; gives its number."""
        t = self.trace
        name = category or OF_PHASE.get(self.phase.rstrip("0123456789."), "unknown")
        t.events.append(size)
        t.place.append(self.places.of(self.place()))
        t.operator.append(self.operators.of(operator))
        t.category.append(CATEGORY[name])
        return len(t.category) - 1

    def death(self, request: int) -> None:
        if not self.closed:
            self.trace.events.append(-request - 1)

    def touch(self, sizes: list[int], operator: str) -> None:
        """Requests that live for a moment, all at once."""
        made = [self.birth(n, operator, "workspace") for n in sizes]
        for request in reversed(made):
            self.death(request)

    def workspace(self, name: str) -> None:
        """cuBLAS's and cuBLASLt's stay, one for each thread that multiplies."""
        if name not in PRODUCTS:
            return
        if (self.backward, "blas") not in self.workspaces:
            self.workspaces.add((self.backward, "blas"))
            self.birth(self.card.blas_bytes, name, "workspace")
        if name == "addmm" and not self.backward and (False, "lt") not in self.workspaces:
            self.workspaces.add((False, "lt"))
            self.birth(self.card.lt_bytes, name, "workspace")

    def forget(self) -> None:
        """What was noted so far was not a part of the run."""
        for column in (self.trace.events, self.trace.place, self.trace.operator, self.trace.category):
            column.clear()
        self.requests.clear()
        self.watched.clear()
        self.workspaces.clear()
        self.by_sequence.clear()

    def end_phase(self, next_phase: str) -> None:
        self.trace.events.append(0)
        self.trace.phases.append(self.phase)
        self.phase = next_phase
        self.asked = 0

    def mark(self, tensors: Iterator[torch.Tensor], category: str) -> None:
        for t in tensors:
            t = getattr(t, "_local_tensor", t)  # of a DTensor
            request = self.requests.get(t.untyped_storage()._cdata)
            if request is not None:
                self.trace.category[request] = CATEGORY[category]
            if category == "input":
                self.known.forget(t)  # zeros that stand for what no one knows

    # ---- torch.compile ----

    def lowered(self) -> None:
        self.operators.of("inductor")  # the planner's range depends on all (src/planner/plan/given/traced.c)
        self.taken["lowered"] = self.taken.get("lowered", 0) + 1

    def graphed(self) -> None:
        self.operators.of("compiled graph")
        self.taken["graphed"] = self.taken.get("graphed", 0) + 1

    def tuned(self) -> None:
        self.operators.of("compiled graph")
        self.taken["tuned"] = self.taken.get("tuned", 0) + 1

    def left_out(self, why: str) -> None:
        self.operators.of("torch.compile")
        self.trace.assumed.append(f"torch.compile could not be done here ({why})")
        self.taken["compiled"] = self.taken.get("compiled", 0) + 1

    # ---- storages ----

    def take(self, t: torch.Tensor, operator: str) -> None:
        """A tensor that an operation gave: a request, if its storage is new."""
        self.take_storage(t.untyped_storage(), operator)

    def take_storage(self, storage: Any, operator: str) -> None:
        key = storage._cdata
        if key in self.requests:
            return
        size = storage.nbytes()
        if not size:
            return
        self.requests[key] = self.birth(size, operator)
        self.watched[key] = weakref.ref(storage, self._gone(key))

    def _gone(self, key: int) -> Callable[[Any], None]:
        def gone(_: Any) -> None:
            request = self.requests.pop(key, None)
            self.watched.pop(key, None)
            self.emptied.discard(key)
            if request is not None:
                self.death(request)
        return gone

    def give(self, t: torch.Tensor) -> None:
        """A tensor that came to the GPU by no operation (a copy of the host's)."""
        self.take(t, "copy_")

    # ---- where ----

    def place(self) -> str:
        if not self.backward:
            return self.stack[-1] if self.stack else ""
        node = torch._C._current_autograd_node()
        return self.by_sequence.get(node._sequence_nr(), "") if node is not None else ""

    def enter(self, path: str) -> None:
        self.stack.append(path)

    def leave(self) -> None:
        if self.stack:
            self.stack.pop()


SUMS = {aten.add.Tensor}


def counts(t: torch.Tensor) -> tuple[int, int]:
    """Who holds a tensor and its storage, the call's own references among them."""
    return t._use_count(), torch._C._storage_Use_Count(t.untyped_storage()._cdata)  # pyright: ignore[reportAttributeAccessIssue]


def _is_dense(t: torch.Tensor) -> bool:
    """Neither holes nor overlaps."""
    expected = 1
    for size, stride in sorted(((n, s) for n, s in zip(t.shape, t.stride()) if n > 1), key=lambda x: x[1]):
        if stride != expected:
            return False
        expected *= size
    return True


# Derivatives that fill zeros in place, except for what is like a subclass; under a dispatch mode all tensors are.
INTO_ZEROS = {aten.index_put.default: aten.index_put_.default, aten.scatter_add.default: aten.scatter_add_.default,
              aten.scatter.src: aten.scatter_.src, aten.index_add.default: aten.index_add_.default}
ZEROS = ("new_zeros", "zeros")

VALUES = {aten._local_scalar_dense.default, aten.is_nonzero.default, aten.equal.default, aten.item.default}

GROUPED: Any = getattr(getattr(aten, "_grouped_mm", None), "default", None)  # from 2.8 on
EFFICIENT_BACKWARD = aten._scaled_dot_product_efficient_attention_backward.default
NON_FINITE = aten._amp_foreach_non_finite_check_and_unscale_.default
DRAWS = {aten.rand.default}
SPLIT = aten.split_with_sizes.default
RULES = {**fused.RULES, **recurrent.RULES}
VALUES_MOST = 20_000  # of a phase; a mixture of experts asks a few times for each expert


class DispatchMode(TorchDispatchMode):  # type: ignore[misc]
    """Each operation once, above the fake mode that computes shapes."""

    def __init__(self, recorder: Recorder, gate: Any) -> None:
        super().__init__()
        self.recorder = recorder
        self.gate = gate  # device.Gate: is the call at hand one that names the GPU

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Dynamo is to compile what runs under it (compiled.py)."""
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        r, gate = self.recorder, self.gate
        if any(t.__name__ == "DTensor" for t in types):
            return NotImplemented  # it asks again with this rank's own part
        if func in VALUES:
            return self.value(func, args)
        if func._schema.name.endswith("_") and torch.Tag.nondeterministic_seeded in func.tags:
            r.known.follow(func, args, kwargs, [args[0]], args[0], r.is_gpu(args[0]))
            return args[0]  # filled with numbers that no one sees
        if func is aten.histc.default:  # whole numbers are counted on the GPU alone
            return self.empty(args[0], args[1] if len(args) > 1 else 100)
        if func in DRAWS and not gate.to_gpu and not args[0]:
            return self.drawn()
        device = kwargs.get("device")
        names_gpu = device is not None and device.type == "cuda"
        if names_gpu:  # by PyTorch's own Python, where the function mode is off
            kwargs = {**kwargs, "device": CPU}
        if func is SPLIT and r.taken.get("0") and not any(args[1]) and args[1]:
            args = self.split(*args)
        inputs = list(_tensors(args)) + list(_tensors(kwargs))
        if len(inputs) == 2 and func in SUMS and (r.backward or gate.adds):
            func, args, kwargs = self.sum(func, args, kwargs)
        on_gpu = names_gpu or self.goes_to_gpu(inputs)
        gate.inside += 1
        try:
            result = self.run(func, args, kwargs, inputs)
            if not gate.compiling:
                r.known.follow(func, args, kwargs, inputs, result, on_gpu)
                r.guesses.follow(func, args, kwargs, inputs, result)
                if func is NON_FINITE:
                    r.guesses.healthy(args[1])
        finally:
            gate.inside -= 1
        if on_gpu:
            self.note(func, args, kwargs, inputs, result)
        return result

    def goes_to_gpu(self, inputs: list[torch.Tensor]) -> bool:
        """Does a result go to the GPU: as the call at hand says, else as its operands are; without operands, in a backward pass."""
        if self.gate.to_gpu or self.gate.to_host:
            return bool(self.gate.to_gpu)
        return any(self.recorder.is_gpu(t) for t in inputs) if inputs else self.recorder.backward

    def run(self, func: Any, args: Any, kwargs: Any, inputs: list[torch.Tensor]) -> Any:
        """By the fake mode; except for what its rules have otherwise than the GPU, and where values decide how much there is."""
        if func in RULES:
            return RULES[func](*args, **kwargs)
        if self.gate.biased and func in SUMS and not self.recorder.backward:
            return args[0].detach()
        if func in INTO_ZEROS and self.recorder.backward and self.recorder.is_just_made(args[0], ZEROS):
            return INTO_ZEROS[func](*args, **kwargs)
        if func is GROUPED and args[0].dtype is not torch.bfloat16:  # the rule knows one dtype, the GPU all
            like = func(*(torch.empty_like(t, dtype=torch.bfloat16) for t in args[:2]), *args[2:], **kwargs)
            return torch.empty_strided(like.shape, like.stride(), dtype=args[0].dtype)
        try:
            result = func(*args, **kwargs)
        except DataDependentOutputException:
            return self.recorder.guesses.predicate(func, args, kwargs, inputs)
        except DynamicOutputShapeException:
            real = self.recorder.known.run(func, args, kwargs, inputs)
            if real is None:
                made = self.recorder.dynamic.make(func, args, kwargs)
                if made is None:
                    raise
                return made
            return tree_map(lambda t: torch.empty_strided(t.shape, t.stride(), dtype=t.dtype) if isinstance(t, torch.Tensor) else t, real)
        if func is EFFICIENT_BACKWARD and result[3] is not None and result[3].numel():
            bias = args[4]  # the rule has it as large as the bias, the kernel for all samples, in rows of 16
            whole = torch.empty((*bias.shape[:-1], -(-bias.shape[-1] // 16) * 16), dtype=bias.dtype)
            result = (*result[:3], whole[..., :bias.shape[-1]])
        return result

    def drawn(self) -> torch.Tensor:
        """One number drawn on the host, which decides what runs (layers that are dropped): the middle one, and known."""
        self.gate.inside += 1
        try:
            return torch.tensor(0.5)
        finally:
            self.gate.inside -= 1

    def split(self, x: torch.Tensor, sizes: Sequence[int], dim: int = 0) -> tuple[torch.Tensor, list[int], int]:
        """Rows of experts, of which only a run knows how many each has: taken for 0, their sum would not be right."""
        self.recorder.dynamic.guessed += 1
        return x, [x.shape[dim], *[0] * (len(sizes) - 1)], dim

    def empty(self, like: torch.Tensor, size: int) -> torch.Tensor:
        """What an operation that the fake world cannot do would give."""
        self.gate.inside += 1
        try:
            out: torch.Tensor = aten.new_empty.default(like, [size])
        finally:
            self.gate.inside -= 1
        self.recorder.take(out, "histc")
        return out

    def sum(self, func: Any, args: Any, kwargs: Any) -> tuple[Any, Any, Any]:
        """
        Gradients that meet are added in place by eager's engine where no one else holds one; under a dispatch mode it makes
        a third (isTensorSubclassLike is true of all tensors).  So does the plain attention with its mask.
        """
        a, b = args[0], args[1]
        if a.shape != b.shape and not self.gate.adds:
            return func, args, kwargs
        if self.recorder.sole is None:
            self.recorder.sole = counts(a)
        for into, other in ((a, b), (b, a)):
            if counts(into) == self.recorder.sole and _is_dense(into) and into.dtype == torch.result_type(a, b) and (
                    into.shape == torch.broadcast_shapes(a.shape, b.shape)) and not into.requires_grad:
                return aten.add_.Tensor, (into, other), kwargs
        return func, args, kwargs

    def note(self, func: Any, args: Any, kwargs: Any, inputs: list[torch.Tensor], result: Any) -> None:
        r = self.recorder
        name = func._schema.name.partition("::")[2]
        if not r.backward and torch.is_grad_enabled() and r.stack:
            number = torch._C._autograd._get_sequence_nr()  # pyright: ignore[reportAttributeAccessIssue]
            r.by_sequence[number - 1] = r.stack[-1]
        r.workspace(name)
        if name == "convolution":
            r.trace.unknown_bytes = max(r.trace.unknown_bytes, tables.convolution_most(tables.Call(name, args, kwargs, result), r.card))
        known = {t.untyped_storage()._cdata for t in inputs}
        for t in _tensors(result):
            if t.untyped_storage()._cdata not in known:
                r.take(t, name)
        for sizes in tables.inside(tables.Call(name, args, kwargs, result), r.card):
            r.touch(sizes, name)

    def value(self, func: Any, args: Any) -> Any:
        """A number that only a run knows.  What a fake tensor knows (a constant) it says."""
        gate = self.gate
        gate.inside += 1
        try:
            known = self.recorder.known.run(func, args, {}, list(_tensors(args)))
            return func(*args) if known is None else known
        except Exception:  # noqa: BLE001 - any of FakeTensor's ways to say that it does not know
            pass
        finally:
            gate.inside -= 1
        dtype = args[0].dtype
        number = self.recorder.guesses.number(args[0]) if func is aten._local_scalar_dense.default else None
        if number is not None:
            return number
        kind = "true" if dtype is torch.bool or func is not aten._local_scalar_dense.default else "0"
        self.recorder.taken[kind] = self.recorder.taken.get(kind, 0) + 1
        self.recorder.asked += 1
        if self.recorder.asked > VALUES_MOST:
            raise ValueError(f"the program asked for the values of tensors {VALUES_MOST} times in one phase ({self.recorder.phase}): "
                             "it seems to wait for one, and here they stay what they are")
        if func is aten.equal.default:
            return True
        if dtype is torch.bool or func is aten.is_nonzero.default:
            return self.recorder.guesses.condition(args[0])
        return 0.0 if dtype.is_floating_point else 0
