"""A single pass of a module of which nothing that is used has a graph: a picture that is saved, a class that is printed."""
from __future__ import annotations

import ast
import re

from .. import names, values
from ..context import HIGH, MEDIUM, Context, checks, uncut
from ..symbols import Class, Function, dotted
from ..trace import Event, Trace
from ..walk import argument, parameters
from .keeps import GROWS
from .memory import frozen, inference_edits, untrained
from .untrained import LIBRARIES

_OF_MODULES = ("eval", "parameters", "load_state_dict", "state_dict")


@checks("PLM110")
def single_passes(ctx: Context) -> None:
    source = ctx.program.source
    if not ctx.gpu or ctx.in_benchmark or ctx.mentions("set_grad_enabled"):
        return
    told = _reported(ctx, "PLM110", "PLM119")
    within = {ctx.program.called_function(e) for e in ctx.program.events() if e.kind == "call" and _at(ctx, e.node) in told}
    for trace in ctx.traces:
        if trace.function in within or _of_a_framework(trace) and not any(ctx.feeds(e) for e in trace.events) or ctx.program.no_grad(trace.function):
            continue
        found = [e for e in trace.events if _builds(ctx, trace, e, methods=True) and _at(ctx, e.node) not in told]
        if found and not isinstance(trace.function.node, ast.Module) and any(e.kind == "call" and _at(ctx, e.node) in told for e in trace.events):
            continue  # one decision settles them all
        found = [e for e in found if _Flow(ctx, trace, e).read_without_graph()]
        if not found:
            continue
        first = found[0]
        more = _other_lines(ctx, found)
        ctx.report("PLM110", first.node, "this pass builds a graph, and what is used of its result needs none", confidence=HIGH if first.of is not None and first.of.cls is not None else MEDIUM,
                   edits=inference_edits(ctx, trace) if len(found) == sum(ctx.program.runs_model(e) for e in trace.events) else [],
                   evidence=[f"no backward pass, object or caller gets what {source.segment(first.call.func)}() returns, and no torch.no_grad() is around it"] + (
                       [f"also in line{'s' if len(more) > 1 else ''} {', '.join(more)}"] if more else []),
                   fix=["torch.no_grad() around it"])


def _other_lines(ctx: Context, found: list[Event]) -> list[str]:
    """The lines of all but the first, in the first one's cell."""
    (cell, line), *rest = [_at(ctx, e.node) for e in found]
    return [str(n) for n in sorted({n for c, n in rest if c == cell} - {line})]


def _of_a_framework(trace: Trace) -> bool:
    """Is it a method of a module, or of a trainer, whose results go to what calls it?"""
    cls = trace.function.cls
    return cls is not None and (cls.module or cls.lightning or cls.trainer) and not (cls.lightning and trace.function.name in names.LIGHTNING_HOOKS)


@checks("PLM119")
def unused_passes(ctx: Context) -> None:
    """A training step's pass of a module whose result is bound to a name, and used by nothing."""
    if ctx.mentions("register_forward_hook", "register_forward_pre_hook"):
        return  # a hook may take what it needs
    for trace in ctx.traces:
        whole = not isinstance(trace.function.node, ast.Module) and any(e.loop is None and ctx.program.is_backward(e) for e in trace.events)  # the function is the step
        for event in trace.events:
            if event.kind != "call" or not whole and not any(event.within(loop) for loop in ctx.training(trace)) or not _builds(ctx, trace, event) or _leaves_something(ctx, event) or not _Flow(ctx, trace, event).unread():
                continue
            ctx.report("PLM119", event.node, "nothing uses what this pass returns, or what is made of it; it builds a graph all the same",
                       confidence=HIGH if event.of is not None and event.of.cls is not None else MEDIUM,
                       evidence=["it reaches no backward pass, no return, no object and no output"], fix=["take it out, or go backward from it"])


def _leaves_something(ctx: Context, event: Event) -> bool:
    """May the pass write to the module, so that it is called for that?"""
    cls = event.of.cls if event.of is not None else None
    if cls is None:
        return event.of is None or not event.of.qual.startswith(LIBRARIES)
    return any(isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store) for name, method in cls.methods.items() if name != "__init__" for n in ast.walk(method.node))


def _at(ctx: Context, node: ast.expr | ast.stmt) -> tuple[int, int]:
    place = ctx.program.source.place(node)
    return place.cell or 0, place.line


def _reported(ctx: Context, *rules: str) -> set[tuple[int, int]]:
    return {(f.place.cell or 0, f.place.line) for f in ctx.findings if f.id in rules}


def _builds(ctx: Context, trace: Trace, event: Event, methods: bool = False) -> bool:
    """Is it a call of what surely is a module, with weights to train, that is not one of a loop of passes?  Or, if asked for, of a function that runs one?"""
    of = event.of
    if event.kind != "call" or event.no_grad or event.handler is not None or of is None:
        return False
    name, called = event.receiver or dotted(event.call.func), ctx.program.called_function(event)
    if not name or ctx.program.needs_gradients(called) or ctx.inference_of(event) is not None:
        return False
    if not ctx.program.is_model_call(event):
        return methods and called is not None and _runs_one(ctx, trace, event, called, name)
    forward = ctx.program.trace_of(called)
    if not of.strong or of.kind != values.MODULE or forward is not None and forward.no_grad or event.value is None or event.value.graph != values.YES:
        return False
    if ctx.program.builds_none(event):
        return False
    known = of.cls is not None or of.qual.startswith(LIBRARIES) or any(e.receiver == name for e in ctx.calls(*_OF_MODULES))
    return known and not frozen(ctx, {name}, trace) and not untrained(ctx, trace, name)


_FREEZES = re.compile(r"\.requires_grad(_\(|\s*=[^=])")
_LOOKS_UP = ("torch.nn.Embedding", "torch.nn.EmbeddingBag")  #: whose graph holds indices alone


def _runs_one(ctx: Context, trace: Trace, event: Event, called: Function, name: str) -> bool:
    """Does a method of a module, or another function whose result has a graph, run a module that nothing freezes, and keep nothing of it?"""
    own = called.cls is not None and called.cls.module
    inner = ctx.program.trace_of(called)
    if inner is None or called is trace.function or not inner.return_nodes or own and event.receiver in ("self", "") or _has_finding(ctx, called):
        return False
    if not own and (event.value is None or event.value.graph != values.YES) or _keeps(ctx, called) or not _trainable(ctx, called):
        return False
    return not frozen(ctx, {name}, trace) and not (own and untrained(ctx, trace, name))


def _has_finding(ctx: Context, function: Function) -> bool:
    """Is a graph that a function of the file builds or keeps reported there?"""
    node = function.node
    if isinstance(node, ast.Module) or ctx.program.home(function) is not ctx.program:
        return False
    cell, line = _at(ctx, node)
    return any((cell, line) <= at <= (cell, line + (node.end_lineno or 0) - node.lineno) for at in _reported(ctx, "PLM101", "PLM102", "PLM103", "PLM110"))


def _keeps(ctx: Context, function: Function, given: bool = True, levels: int = 3) -> bool:
    """May a function, or one that it calls, leave a graph on an object?  One that is given nothing leaves only what it makes."""
    trace = ctx.program.trace_of(function)
    return trace is None or ctx.program.keeps_graphs(trace, values.MAYBE if given else values.YES) or levels > 0 and any(
        inner is not None and inner is not function and _keeps(ctx, inner, bool(e.args), levels - 1) for e in trace.events if (inner := ctx.program.called_function(e)) is not None)


def _trainable(ctx: Context, function: Function, levels: int = 3) -> bool:
    """Does a function run a module with gradients on that it did not make itself, whose class, like its own, freezes nothing?"""
    trace = ctx.program.trace_of(function)
    if trace is None or trace.no_grad or _freezing(ctx, function.cls):
        return False
    made = {e.name for e in trace.events if e.kind == "bind" and isinstance(e.source, ast.Call)}
    for event in trace.events:
        if event.kind != "call" or event.no_grad or event.handler is not None or isinstance(event.call.func, ast.Call) or (event.receiver or dotted(event.call.func)) in made:
            continue
        if ctx.program.is_model_call(event) and event.of is not None and event.of.strong and event.of.qual not in _LOOKS_UP and not ctx.program.builds_none(event) and not _freezing(ctx, event.of.cls):
            return True
        inner = ctx.program.called_function(event)
        if levels and inner is not None and inner is not function and _trainable(ctx, inner, levels - 1):
            return True
    return False


def _freezing(ctx: Context, cls: Class | None) -> bool:
    return cls is not None and _FREEZES.search(ast.get_source_segment(ctx.program.home(cls).source.text, cls.node) or "") is not None


class _Flow:
    """Where the result of one call goes: by names, in the order of the text, once around the loop that it is in."""

    def __init__(self, ctx: Context, trace: Trace, call: Event, given: frozenset[str] = frozenset()) -> None:
        self.ctx, self.trace, self.call = ctx, trace, call
        self.kept = set() if given else _reported(ctx, "PLM101", "PLM102", "PLM103")
        self.live: set[str] = set(given)  #: names that hold its graph
        self.ever: set[str] = set(given)
        self.read = False
        self.needed = False  #: more of it than its shape

    def carried(self, node: ast.AST | None) -> bool:
        return node is not None and any(part is self.call.node or isinstance(part, (ast.Name, ast.Attribute)) and dotted(part) in self.live for part in uncut(node))

    def named(self, node: ast.AST | None) -> bool:
        parts = [] if node is None else [p for p in ast.walk(node) if p is self.call.node or isinstance(p, (ast.Name, ast.Attribute)) and dotted(p) in self.live]
        if not self.needed and parts and node is not None:
            bare = {inner for p in ast.walk(node) if _of_shape(p) for inner in ast.walk(p)}
            self.needed = any(p not in bare for p in parts)
        return bool(parts)

    def read_without_graph(self) -> bool:
        """Is the result read, and never with its graph by what may go backward, keep it or give it away?"""
        if not self._ends_here():
            return False
        # `fake = net(z).detach()` in a training step: its graph is gone before the step's largest one is made
        return self.read and self.needed and (bool(self.ever) or self.ctx.step_of(self.call) is None)

    def unread(self) -> bool:
        """Does what is made of the result, by way of names, reach nothing at all?"""
        return self._ends_here() and not self.read and bool(self.ever - {"_"})

    def _ends_here(self) -> bool:
        events, loop = self.trace.events[self.call.index + 1:], self.call.loop
        while loop is not None and loop.outer is not None:
            loop = loop.outer
        if loop is not None:  # the next iteration reads what this one left
            events = events + self.trace.events[loop.start:self.call.index]
        for event in events:
            if not self._passes(event):
                return False
        if self._leaves():
            return False
        self.read = any([self.named(node) for node in self.trace.return_nodes]) or self.read
        return True

    def _passes(self, event: Event) -> bool:
        """Does this event leave the graph within the function?"""
        if event.kind in ("bind", "augment", "store") and event.source is not None:
            return self._bound(event)
        if event.kind == "delete" or event.kind == "bind":
            self.live.discard(event.name)
            return True
        if event.kind != "call":
            return True
        given = [event.call.func, *event.call.args, *(k.value for k in event.call.keywords)]
        if not any(self.carried(a) for a in given):
            self.read = not isinstance(event.stmt, ast.Assert) and any([self.named(a) for a in given]) or self.read
            return True
        if self.ctx.feeds(event) or self.ctx.program.trains(event) or self.ctx.program.needs_gradients(self.ctx.program.called_function(event)):
            return False
        if not isinstance(event.stmt, ast.Expr):
            return True  # what it returns is bound, tested or returned
        if event.node is self.call.node or event.call is not event.stmt.value:
            return True  # a part of a call in place
        return self._given(event)

    def _bound(self, event: Event) -> bool:
        value = event.value
        flat = value is not None and (value.kind in (values.NUMBER, values.TEXT) or value.kind == values.TENSOR and not value.graph and _pair(event.source))
        if not flat and self.carried(event.source):
            if "." in event.name or not event.name or _at(self.ctx, event.stmt) in self.kept:
                return False
            self.live.add(event.name)
            self.ever.add(event.name)
            return True
        self.read = self.named(event.source) or self.read
        if event.kind == "bind" and len(event.path) <= len(self.call.path) and all(a is b and i == j for (a, i, _), (b, j, _) in zip(event.path, self.call.path)):
            self.live.discard(event.name)
        return True

    def _given(self, event: Event) -> bool:
        """A call for its own sake: of print() and PyTorch's libraries, which keep nothing, or a list that is the function's."""
        of, name = event.of, event.name
        self.read = self.needed = True
        if _at(self.ctx, event.stmt) in self.kept:
            return False  # reported there
        if event.attr in GROWS and event.receiver and "." not in event.receiver:
            self.live.add(event.receiver)
            self.ever.add(event.receiver)
            return True
        library = name.startswith(("torch.", "torchvision.")) or of is not None and of.qual.startswith(("torch.", "torchvision."))
        return name == "print" or library and (of is None or of.kind not in values.MODULES) or self._ends_within(event)

    def _ends_within(self, event: Event) -> bool:
        """Does a function of the program leave what it is given nowhere?  What it returns is thrown away."""
        called = self.ctx.program.called_function(event)
        trace = self.ctx.program.trace_of(called)
        if called is None or trace is None or self.trace.function is not self.call.function or called is self.trace.function:
            return False
        own = {p.arg for p in parameters(called)}
        within = _Flow(self.ctx, trace, self.call, frozenset(p for p in own if (found := argument(event, called, p)) is not None and self.carried(found[0])))
        return bool(within.ever) and all(within._passes(e) for e in trace.events) and within.ever <= called.bound | own and not within._read_inside()

    def _leaves(self) -> bool:
        """Is a name with the graph returned, handed out, or read by another function?"""
        self.live = self.ever
        flat = [v.kind == values.TENSOR and v.strong and not v.graph for v in self.trace.returns]
        if len(flat) != len(self.trace.return_nodes):
            flat = [False] * len(self.trace.return_nodes)
        return any(self.carried(node) for node, indices in zip(self.trace.return_nodes, flat) if not indices) or self._read_inside()

    def _read_inside(self) -> bool:
        """Does a function within this one, or one of the file if this is the file, read such a name?  Or a generator, which goes on later?"""
        function = self.trace.function
        body = function.node.body
        inner = [n for stmt in body for n in ast.walk(stmt) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.Yield, ast.YieldFrom)) or isinstance(
            n, (ast.Global, ast.Nonlocal)) and self.ever & set(n.names)]
        if isinstance(function.node, ast.Module):
            return any(isinstance(p, ast.Name) and isinstance(p.ctx, ast.Load) and p.id in self.ever and p.id not in f.bound | {a.arg for a in _arguments(f.node)}
                       for f in self.ctx.program.symbols.functions for p in ast.walk(f.node))
        return any(isinstance(n, (ast.Yield, ast.YieldFrom, ast.Global, ast.Nonlocal)) or any(
            isinstance(p, ast.Name) and p.id in self.ever for p in ast.walk(n)) for n in inner)


def _of_shape(node: ast.AST) -> bool:
    """Does it need only the shape or the class of a value, or how many there are?"""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "len", "type") or isinstance(node.func, ast.Attribute) and node.func.attr in ("size", "dim")
    return isinstance(node, ast.Attribute) and node.attr in ("shape", "ndim", "dtype", "device")


def _pair(source: ast.expr | None) -> bool:
    """Is it a call that returns values and their indices?  The indices have no graph."""
    return isinstance(source, ast.Call) and (source.func.attr if isinstance(source.func, ast.Attribute) else dotted(source.func)) in names.PAIRS


def _arguments(node: ast.AST) -> list[ast.arg]:
    return [*node.args.args, *node.args.kwonlyargs] if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) else []
