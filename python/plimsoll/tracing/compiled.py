"""torch.compile: AOTAutograd's forward and backward graphs, as Inductor would fuse them.

The module is traced once for each kind of call, on the same fake tensors; the joint graph is cut where least is kept (the
partitioner of the installed release, with Inductor's decompositions).  Both graphs then run node by node under the recorder.
Elementwise results that only fused kernels read are never in memory: they hold what they are made of instead.
"""
from __future__ import annotations

import importlib
from typing import Any, Callable, Iterator

import torch
from torch.fx import Interpreter, Node
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves

from .engine import DispatchMode, Recorder

__all__ = ["graphed"]

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
    """A graph, node by node: what is fused away is no request, and keeps what it reads alive."""

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


class Graphed:
    """A module's call: traced when it first comes so, and run as graphs."""

    def __init__(self, r: Recorder, module: torch.nn.Module, plain: Callable[..., Any], modes: Callable[[], Any]) -> None:
        self.r, self.module, self.plain, self.modes = r, module, plain, modes
        self.made: dict[Any, Callable[..., Any] | None] = {}
        self.tracing = False

    def compiler(self, graph: Any, _: Any) -> Callable[[list[Any]], Any]:
        run = Run(graph, self.r)

        def call(arguments: list[Any]) -> Any:
            gate = self.r.gate
            if not gate.compiling:  # a backward pass: the recorder is there
                return run.once(arguments)
            inside, gate.inside, gate.compiling = gate.inside, 0, False
            try:
                with DispatchMode(self.r, gate):
                    return run.once(arguments)
            finally:
                gate.inside, gate.compiling = inside, True
        call._boxed_call = True  # type: ignore[attr-defined]
        return call

    def make(self) -> Callable[..., Any]:
        aot: Any = importlib.import_module("functorch.compile")
        inductor: Any = importlib.import_module("torch._inductor.decomposition")

        def function(state: dict[str, torch.Tensor], args: Any, kwargs: Any) -> Any:
            with torch.nn.utils.stateless._reparametrize_module(self.module, state):
                return self.plain(*args, **kwargs)
        made: Callable[..., Any] = aot.aot_function(function, fw_compiler=self.compiler, bw_compiler=self.compiler,
                                                    partition_fn=aot.min_cut_rematerialization_partition,
                                                    decompositions=inductor.select_decomp_table())
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.r.gate.compiling:  # within another one
            return self.plain(*args, **kwargs)
        leaves = tree_leaves((args, kwargs))
        key = (self.module.training, torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"),
               tuple((tuple(t.shape), t.dtype, t.requires_grad) if isinstance(t, torch.Tensor) else t for t in leaves))
        if key not in self.made:
            self.made[key] = self.make()
        made = self.made[key]
        if made is None:
            return self.plain(*args, **kwargs)
        events = len(self.r.trace.events)
        try:
            return self.run(made, args, kwargs)
        except Exception:  # noqa: BLE001 - whatever the tracer does not do: it then runs as it is, and that is said
            if len(self.r.trace.events) != events:
                raise
            self.made[key] = None
            self.r.left_out()
            return self.plain(*args, **kwargs)

    def run(self, made: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        state = {**dict(self.module.named_parameters()), **dict(self.module.named_buffers())}
        gate = self.r.gate
        gate.inside += 1
        gate.compiling = True
        try:
            with _disable_current_modes(), self.modes():
                return made(state, args, kwargs)
        finally:
            gate.compiling = False
            gate.inside -= 1


def graphed(r: Recorder, module: torch.nn.Module, modes: Callable[[], Any]) -> torch.nn.Module:
    """The module, whose calls are graphs from now on."""
    called: Any = module
    called._compiled_call_impl = Graphed(r, module, module._call_impl, modes)
    r.graphed()
    return module
