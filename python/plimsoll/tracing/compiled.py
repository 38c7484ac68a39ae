"""torch.compile: Dynamo, AOTAutograd and Inductor themselves, on the same fake tensors.

Dynamo breaks the program where it does on the GPU; each graph is cut and lowered by Inductor, whose code then runs under
the recorder (inductor.py).  A graph that Inductor does not lower here runs node by node instead: elementwise results that
only fused kernels read are never in memory, they hold what they are made of.
"""
from __future__ import annotations

import contextlib
import importlib
from typing import Any, Callable, Iterator

import torch
from torch.fx import Interpreter, Node
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves

from . import inductor
from .engine import Recorder

__all__ = ["Compiler"]

READS_MOST, OPERATIONS_MOST = 4, 30  # realize_reads_threshold, realize_opcount_threshold of torch._inductor.config
INDEXED = {"embedding", "index", "gather", "clone", "_to_copy", "convert_element_type", "full", "full_like", "arange", "iota", "where", "scalar_tensor"}
REDUCED = {"sum", "mean", "amax", "amin", "var_mean", "var", "any", "all", "prod", "argmax", "max", "min"}


def _name(n: Node) -> str:
    return str(getattr(n.target, "_opname", "")) or str(getattr(n.target, "__name__", ""))


def _is_view(n: Node) -> bool:
    schema = getattr(n.target, "_schema", None)
    if schema is None:
        return n.op == "call_function" and _name(n) == "getitem"
    return any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns)


def _is_comparison(n: Node) -> bool:
    """One value a row, put into a constant (the gradient of a loss by classes): Inductor's scatter_upon_const_tensor."""
    if n.target is not torch.ops.aten.scatter.value:
        return False
    into, along, at = n.args[:3]
    if not isinstance(into, Node) or not isinstance(at, Node) or not isinstance(along, int) or _name(into) not in ("full", "full_like"):
        return False
    whole, index = into.meta["val"].shape, at.meta["val"].shape
    dim = along % max(len(whole), 1)
    return len(index) == len(whole) and all(a == (1 if i == dim else b) for i, (a, b) in enumerate(zip(index, whole)))


def _is_pointwise(n: Node) -> bool:
    if n.op != "call_function" or _is_view(n):
        return False
    return torch.Tag.pointwise in getattr(n.target, "tags", ()) or _name(n) in INDEXED or _is_comparison(n)


def _readers(n: Node) -> Iterator[Node]:
    for user in n.users:
        if _is_view(user):
            yield from _readers(user)
        else:
            yield user


def _read(n: Node) -> Iterator[Node]:
    """What a node reads, without views between."""
    for source in n.all_input_nodes:
        while _is_view(source) and source.all_input_nodes:
            source = source.all_input_nodes[0]
        yield source


def fused(graph: torch.fx.Graph) -> set[Node]:
    """Nodes whose results are in no memory: elementwise, and read by elementwise operations and reductions alone."""
    inlined: set[Node] = set()
    reads: dict[Node, tuple[set[Node], int]] = {}  # of a node that is inlined: what its kernel reads, each once, and its operations
    for n in graph.nodes:
        if not _is_pointwise(n):
            continue
        readers = list(_readers(n))
        sources = set(_read(n))
        read = set[Node]().union(*(reads[s][0] if s in reads else {s} for s in sources))
        operations = 1 + sum(reads[s][1] for s in sources if s in reads)
        whole = all(_is_pointwise(u) or _name(u) in REDUCED for u in readers)
        again = len(readers) > 1 and (len(read) > READS_MOST or operations > OPERATIONS_MOST)
        if readers and whole and not again:
            inlined.add(n)
            reads[n] = read, operations
    return inlined


class Run(Interpreter):  # type: ignore[misc, unused-ignore]
    """A graph, node by node: what is fused away is not a request, and keeps what it reads alive."""

    def __init__(self, module: Any, r: Recorder) -> None:
        super().__init__(module)
        self.r = r
        self.inlined = fused(module.graph)

    def once(self, arguments: list[Any]) -> Any:
        try:
            return self.boxed_run(arguments)
        finally:
            self.env: dict[Node, Any] = {}  # what it gave is not the graph's

    def run_node(self, n: Node) -> Any:
        gate = self.r.gate
        away = n in self.inlined
        before = gate.to_gpu, gate.to_host
        gate.to_gpu, gate.to_host = n.op == "call_function" and not away, away
        try:
            out = super().run_node(n)
        finally:
            gate.to_gpu, gate.to_host = before
        if n.op == "call_function" and (away or _is_view(n)):
            held = [t for t in map(self.env.__getitem__, n.all_input_nodes) if isinstance(t, torch.Tensor)]
            for t in tree_leaves(out):
                if isinstance(t, torch.Tensor):
                    setattr(t, "plimsoll_held", held)
        return out


@contextlib.contextmanager
def _without_function_modes() -> Iterator[None]:
    modes = [torch._C._pop_torch_function_stack() for _ in range(torch._C._len_torch_function_stack())]
    try:
        yield
    finally:
        for mode in reversed(modes):
            torch._C._push_on_torch_function_stack(mode)


def _copied(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(module.graph, {}))
    return torch.fx.GraphModule(module, graph)


def _first_line(e: Exception) -> str:
    return f"{type(e).__name__}: {str(e).strip().partition(chr(10))[0]}"[:160]


class Compiler:
    """What torch.compile is while a trace lasts."""

    def __init__(self, r: Recorder, plain: Callable[..., Any], mode: Callable[[], Any]) -> None:
        self.r, self.plain, self.mode = r, plain, mode
        self.patched: list[tuple[Any, str, Any]] = []

    # ---- what is called ----

    def __call__(self, model: Any = None, *args: Any, **kwargs: Any) -> Any:
        if model is None:
            return lambda m: self(m, *args, **kwargs)
        if kwargs.get("disable"):
            return model
        try:
            self.prepare()
            made = self.plain(model, backend=self.backend, dynamic=kwargs.get("dynamic"), fullgraph=bool(kwargs.get("fullgraph")))
        except Exception as e:  # noqa: BLE001 - a release or a Python without it: it then runs as it is, and that is said
            self.r.left_out(_first_line(e))
            return model
        if kwargs.get("mode") not in (None, "default") or kwargs.get("options"):
            self.r.tuned()
        if isinstance(model, torch.nn.Module):
            made.forward = self.around(made.forward, model)
            return made
        return self.around(made, model)

    def around(self, compiled: Callable[..., Any], plain: Callable[..., Any]) -> Callable[..., Any]:
        left_out: list[str] = []

        def call(*args: Any, **kwargs: Any) -> Any:
            if left_out or self.r.gate.compiling:  # within another one
                return plain(*args, **kwargs)
            events = len(self.r.trace.events)
            try:
                with self.quiet():
                    return compiled(*args, **kwargs)
            except Exception as e:  # noqa: BLE001 - whatever cannot be done here
                if len(self.r.trace.events) != events:
                    raise
                left_out.append(_first_line(e))
            self.r.left_out(left_out[0])
            return plain(*args, **kwargs)
        return call

    @contextlib.contextmanager
    def quiet(self) -> Iterator[None]:
        """Without what Dynamo would take for a part of the program: the function mode, hooks of all modules."""
        module = torch.nn.modules.module
        hooks = [(d, dict(d)) for name, d in vars(module).items() if name.startswith("_global_") and isinstance(d, dict)]
        for d, _ in hooks:
            d.clear()
        try:
            with _without_function_modes():
                yield
        finally:
            for d, before in hooks:
                d.update(before)

    # ---- what Dynamo calls ----

    @contextlib.contextmanager
    def making(self) -> Iterator[None]:
        """Nothing is recorded: a graph is made."""
        gate = self.r.gate
        before, gate.compiling = gate.compiling, True
        gate.inside += 1
        try:
            with _disable_current_modes():
                yield
        finally:
            gate.inside -= 1
            gate.compiling = before

    @contextlib.contextmanager
    def without_streams(self) -> Iterator[None]:
        """Dynamo asks for the accelerator's, of which there is none."""
        accelerator: Any = getattr(torch, "accelerator", None)
        told = getattr(accelerator, "is_available", None)
        if told:
            accelerator.is_available = lambda: False
        try:
            yield
        finally:
            if told:
                accelerator.is_available = told

    def prepare(self) -> None:
        """Dynamo's own calls are to see neither recorder nor GPU."""
        if self.patched:
            return
        frames: Any = importlib.import_module("torch._dynamo.convert_frame")
        inductor_config: Any = importlib.import_module("torch._inductor.config")
        with inductor_config.patch({"compile_threads": 1}):  # else its import starts processes that would build kernels
            fx: Any = importlib.import_module("torch._inductor.compile_fx")
        fakes: Any = importlib.import_module("torch._subclasses.fake_tensor")
        caught, joint, dispatch = frames.CatchErrorsWrapper.__call__, fx._recursive_joint_graph_passes, fakes.FakeTensorMode.__torch_dispatch__

        def frame(wrapper: Any, *args: Any, **kwargs: Any) -> Any:
            with self.making(), self.without_streams():
                return caught(wrapper, *args, **kwargs)

        def passes(graph: Any, *args: Any, **kwargs: Any) -> Any:
            graph = inductor.on_card(joint(graph, *args, **kwargs))  # on the CPU first: constants are folded by running them
            if inductor.is_unaligned(graph):
                with self.lowering(), inductor_config.patch({"joint_graph_constant_folding": False}):
                    graph = joint(graph, *args, **kwargs)  # on the GPU products are padded
            return graph

        def placed(mode: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            gate = self.r.gate
            if gate.compiling and not gate.lowering and kwargs and getattr(kwargs.get("device"), "type", "") == "cuda":
                kwargs = {**kwargs, "device": torch.device("cpu")}
            return dispatch(mode, func, types, args, kwargs)
        self.patch(frames.CatchErrorsWrapper, "__call__", frame)
        self.patch(fx, "_recursive_joint_graph_passes", passes)
        self.patch(fakes.FakeTensorMode, "__torch_dispatch__", placed)

    def patch(self, owner: Any, name: str, value: Any) -> None:
        self.patched.append((owner, name, owner.__dict__[name]))
        setattr(owner, name, value)

    def undo(self) -> None:
        if not self.patched:
            return
        for owner, name, value in reversed(self.patched):
            setattr(owner, name, value)
        self.patched.clear()
        importlib.import_module("torch._dynamo").reset()

    def backend(self, graph: Any, inputs: list[Any]) -> Any:
        fx: Any = importlib.import_module("torch._inductor.compile_fx")
        with self.configured(), self.mode():
            return fx.compile_fx(graph, inputs, inner_compile=self.inner)

    @contextlib.contextmanager
    def configured(self) -> Iterator[None]:
        """Nothing is kept on disk, nothing is built."""
        aot: Any = importlib.import_module("torch._functorch.config")
        config: Any = importlib.import_module("torch._inductor.config")
        with aot.patch({"enable_autograd_cache": False}), config.patch({"compile_threads": 1, "fx_graph_cache": False, "force_disable_caches": True}):
            yield

    @contextlib.contextmanager
    def lowering(self) -> Iterator[None]:
        gate = self.r.gate
        before, gate.lowering = gate.lowering, True
        try:
            with _without_function_modes(), inductor.stand_in(self.r.properties):
                yield
        finally:
            gate.lowering = before

    def inner(self, graph: Any, inputs: Any, **kwargs: Any) -> Callable[[list[Any]], Any]:
        """In compile_fx_inner's place: Inductor's code, or the graph itself."""
        run: Callable[[list[Any]], Any]
        as_it_is = _copied(graph)
        try:
            with self.making(), self.configured(), self.lowering():
                text = inductor.written(graph, inputs, bool(kwargs.get("is_backward")), bool(kwargs.get("is_inference")))
            run = inductor.Code(text, self.empty, self.r.workspace)
            self.r.lowered()
        except Exception:  # noqa: BLE001 - a release that is built otherwise
            run = Run(as_it_is, self.r).once
            self.r.graphed()

        def call(arguments: list[Any]) -> Any:
            return run(arguments)
        call._boxed_call = True  # type: ignore[attr-defined]
        return call

    # ---- what the code asks for ----

    def empty(self, size: Any, stride: Any, dtype: torch.dtype, on_card: bool) -> torch.Tensor:
        gate = self.r.gate
        before = gate.to_gpu, gate.to_host
        gate.to_gpu, gate.to_host = on_card, not on_card
        try:
            return torch.empty_strided(size, stride, dtype=dtype)
        finally:
            gate.to_gpu, gate.to_host = before
