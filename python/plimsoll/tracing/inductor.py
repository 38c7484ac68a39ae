"""Asks Inductor for its code, without a GPU: what is fused, which buffers there are, which take another's place.

The graph is put on fake tensors of device "cuda", lowered, scheduled, and written as Inductor writes it; the kernels
are not built.  The code's `call` names each buffer and its end, so it is run as it is, on the recorder's tensors:
kernels do nothing, `empty_strided_cuda` is a request, operators that Inductor leaves to PyTorch are recorded as ever.
"""
from __future__ import annotations

import ast
import contextlib
import importlib
import math
import re
import types
from typing import Any, Callable, Iterator, Sequence

import torch
from torch.fx.node import map_aggregate
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_map

__all__ = ["Code", "is_unaligned", "on_card", "stand_in", "written"]

CARD = torch.device("cuda", 0)


def _module(name: str) -> Any:
    return importlib.import_module(name)


# ---- the graph on the GPU ----

def _moved(value: Any) -> Any:
    """A fake tensor of the CPU as one of the GPU."""
    if not isinstance(value, FakeTensor) or value.fake_device.type != "cpu":
        return value
    with torch._C._DisableTorchDispatch():  # type: ignore[attr-defined, unused-ignore]
        like = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
    return FakeTensor(value.fake_mode, like, CARD)


def _named(value: Any) -> Any:
    return CARD if isinstance(value, torch.device) and value.type == "cpu" else value


def on_card(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Each node's device, and what is known of its result."""
    for n in graph.graph.nodes:
        n.args, n.kwargs = map_aggregate(n.args, _named), map_aggregate(n.kwargs, _named)
        for key in ("val", "example_value"):
            if key in n.meta:
                n.meta[key] = tree_map(_moved, n.meta[key])
    return graph


PRODUCTS = {torch.ops.aten.mm.default, torch.ops.aten.addmm.default, torch.ops.aten.bmm.default}


def is_unaligned(graph: torch.fx.GraphModule) -> bool:
    """Has it products whose rows Inductor pads, as a vocabulary of 50,257 has?"""
    for n in graph.graph.nodes:
        if n.target in PRODUCTS:
            a, b = (s.meta["val"] for s in n.args[-2:])
            if any(isinstance(size, int) and size % (8 if a.dtype in (torch.float16, torch.bfloat16) else 4) for size in (*a.shape[-2:], b.shape[-1])):
                return True
    return False


# ---- the code ----

def written(graph: torch.fx.GraphModule, inputs: Sequence[Any], backward: bool, inference: bool) -> str:
    """What Inductor writes for a graph (compile_fx.py, codegen_and_compile, up to the code)."""
    fx, lowering, debug = _module("torch._inductor.compile_fx"), _module("torch._inductor.graph"), _module("torch._inductor.debug")
    v = _module("torch._inductor.virtualized").V
    inputs = [_moved(t) for t in inputs]
    on_card(graph)
    shapes = getattr(graph, "shape_env", None) or fx.shape_env_from_inputs(inputs)
    fx.view_to_reshape(graph)
    with torch.no_grad():
        fake = fx.fake_tensor_prop(graph, inputs)
    with contextlib.suppress(AttributeError):
        fx._recursive_record_original_output_strides(graph)
    with v.set_fake_mode(fake), v.set_debug_handler(debug.DebugContext()):
        fx._recursive_post_grad_passes(graph, is_inference=inference)
        lowered = lowering.GraphLowering(graph, example_inputs=inputs, shape_env=shapes, is_inference=inference, is_backward=backward)
        with contextlib.suppress(AttributeError):
            lowered.freeze_runtime_asserts()
        with v.set_graph_handler(lowered), v.set_extern_kernel_nodes([]):
            lowered.run(*inputs)
            code = lowered.codegen()
    first = code[0]
    return str(getattr(first, "value", first))


# ---- running it ----

class Kernel:
    """One that is not built: what it would write is there already."""

    def __call__(self, *_: Any, **__: Any) -> None:
        return None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self


class Names(dict[str, Any]):
    """Of the code: what is not known is a kernel."""

    def __missing__(self, name: str) -> Any:
        if name in vars(__builtins__ if isinstance(__builtins__, types.ModuleType) else types.SimpleNamespace(**__builtins__)):
            raise KeyError(name)
        return Kernel()


class Library:
    """extern_kernels: PyTorch's own, which mostly write into a buffer that is there."""

    def __init__(self, product: Callable[[str], None]) -> None:
        self._product = product

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)

        def run(*args: Any, out: Any = None, **kwargs: Any) -> Any:
            self._product({"bias_addmm": "addmm"}.get(name, name))
            return getattr(torch.ops.aten, name)(*args, **kwargs) if out is None else out
        return run


class Code:
    """A graph's, ready to be called with a list of its inputs."""

    def __init__(self, text: str, empty: Callable[..., torch.Tensor], product: Callable[[str], None]) -> None:
        tree = ast.parse(text)
        tree.body = [n for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef)) and (n.name in ("call", "Runner") or n.name.startswith("partition"))]
        names = Names(torch=torch, aten=torch.ops.aten, inductor_ops=torch.ops.inductor, math=math, device=torch.device, inf=math.inf, nan=math.nan,
                      __builtins__=__builtins__, __name__="code", empty_strided_cuda=lambda size, stride, dtype: empty(size, stride, dtype, True),
                      empty_strided_cpu=lambda size, stride, dtype: empty(size, stride, dtype, False),
                      empty_strided_cpu_pinned=lambda size, stride, dtype: empty(size, stride, dtype, False),
                      reinterpret_tensor=lambda t, size, stride, offset=0: torch.ops.aten.as_strided.default(t, size, stride, offset),
                      extern_kernels=Library(product))
        exec(compile(tree, "<inductor>", "exec"), names)  # noqa: S102 - Inductor's own, made in this process
        runner = names.get("Runner")
        if runner is not None:
            parts = sorted((n for n in names if n.startswith("partition_")), key=lambda n: int(n.rpartition("_")[2]))
            self.call: Callable[[list[Any]], Any] = runner([names[n] for n in parts]).call
        else:
            self.call = names["call"]

    def __call__(self, arguments: list[Any]) -> Any:
        return self.call(arguments)


# ---- what Inductor asks of a GPU and of Triton ----

def _item(t: torch.Tensor, at: Any) -> Any:
    aten, dim = torch.ops.aten, 0
    parts = list(at) if isinstance(at, tuple) else [at]
    if Ellipsis in [p for p in parts if not isinstance(p, torch.Tensor)]:
        where = next(i for i, p in enumerate(parts) if p is Ellipsis)
        parts[where:where + 1] = [slice(None)] * (t.dim() - sum(p is not None for p in parts) + 1)
    tensors: list[Any] = []
    for p in parts:
        if p is None:
            t = aten.unsqueeze.default(t, dim)
        elif isinstance(p, slice):
            t = aten.slice.Tensor(t, dim, p.start, p.stop, p.step or 1)
        elif isinstance(p, torch.Tensor):
            tensors += [None] * (dim - len(tensors)) + [p]
        else:
            t, dim = aten.select.int(t, dim, p), dim - 1
        dim += 1
    return aten.index.Tensor(t, tensors) if tensors else t


# What Python's binding asks a guard of the GPU for, which builds without CUDA have not.
UNGUARDED: dict[str, Callable[..., Any]] = {
    "__getitem__": _item, "__invert__": lambda t: torch.bitwise_not(t), "copy_": lambda t, *a, **k: t,
    "contiguous": lambda t, memory_format=torch.contiguous_format: t if t.is_contiguous(memory_format=memory_format) else torch.empty_like(
        t, memory_format=memory_format),
}


@contextlib.contextmanager
def _nothing(*_: Any, **__: Any) -> Iterator[None]:
    yield


def _pads(key: str) -> bool:
    """
    Of a product (M, K) by (K, N): padded where K or N is not in whole vectors, and not where M alone is so: as an H100 chose for two
    vocabularies (50,257 and 30,522), forward, for the gradient of the hidden states, and of the weight.
    """
    sizes = [[int(n) for n in found.split(",")] for found in re.findall(r"torch\.Size\(\[([\d, ]+)\]\)", key)[:2]]
    to = 4 if "torch.float32" in key else 8
    return len(sizes) < 2 or bool(sizes[0][-1] % to or sizes[1][-1] % to)


def _patches(properties: Callable[[], Any]) -> list[tuple[Any, str, Any]]:
    """What stands in while graphs are lowered; where the release has it."""
    answer = lambda *a, **k: properties()  # noqa: E731
    true = lambda *a, **k: True  # noqa: E731
    card = _module("torch._dynamo.device_interface").CudaInterface
    wanted: list[tuple[str, str, Any]] = [
        ("torch._inductor.scheduler", "has_triton", true), ("torch._inductor.utils", "has_triton", true),
        ("torch._inductor.lowering", "has_triton", true), ("torch.utils._triton", "has_triton", true),
        ("torch.utils._triton", "triton_hash_with_backend", lambda *a, **k: "none"),
        ("torch._inductor.fx_passes.pad_mm", "get_cached_should_pad", _pads),  # else it takes the time of both on the GPU
        ("torch._subclasses.fake_tensor", "init_gpu_context", lambda *a, **k: None),
    ]
    found: list[tuple[Any, str, Any]] = []
    for name, attribute, value in wanted:
        with contextlib.suppress(ImportError):
            if hasattr(_module(name), attribute):
                found.append((_module(name), attribute, value))
    found += [(card, "get_device_properties", staticmethod(answer)), (card.Worker, "get_device_properties", staticmethod(answer)),
              (card, "raise_if_triton_unavailable", staticmethod(lambda *a, **k: None)), *((FakeTensor, name, value) for name, value in UNGUARDED.items())]
    return found


@contextlib.contextmanager
def stand_in(properties: Callable[[], Any]) -> Iterator[None]:
    """While graphs are lowered: a GPU with these properties, and Triton."""
    absent, undo = object(), []
    for owner, name, value in _patches(properties):
        undo.append((owner, name, owner.__dict__.get(name, absent)))
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in reversed(undo):
            if value is absent:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
