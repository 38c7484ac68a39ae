"""PLM1xx: memory that is kept."""
from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from os.path import basename

from .. import names, values
from ..context import HIGH, LOW, MEDIUM, Context, checks, constant, in_place, names_in, pick, sets_mode
from ..finding import Edit
from ..symbols import Class, Function, dotted
from ..trace import Event, Loop, Trace, apart
from ..walk import argument, parameters
from .untrained import known_as
from .keeps import GROWS, added_by, container_of, holder, keeps, put_by_key, renewed



def _own_model_code(event: Event) -> bool:
    cls = event.function.cls
    return cls is not None and cls.module and event.function.name not in names.LIGHTNING_STEPS | names.LIGHTNING_EVALS | names.TRAINER_STEPS


def _scalar_text(node: ast.expr) -> bool:
    name = dotted(node).rpartition(".")[2].lower()
    return "loss" in name or isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("mean", "sum")


def _loop_of(ctx: Context, event: Event) -> tuple[Loop | None, bool]:
    """The training or evaluation loop, and whether it trains."""
    step = ctx.step_of(event)
    if step is not None and not step.framework:
        return step, True
    inference = ctx.inference_of(event)
    if inference is not None:
        return inference, False
    own = event.loop  # trains in a function that it calls; or goes around a loop that trains, over epochs
    return own if own is not None and not own.framework and any(own.around(l) for l in ctx.training(ctx.trace(event))) else None, True


def _outlives(ctx: Context, event: Event, trace: Trace, name: str, loop: Loop) -> bool:
    """Is the name born before the loop and never made anew in it?"""
    for other in trace.inside(loop):
        if other.name == name and other.kind in ("bind", "delete") and other is not event and added_by(other) is None and not _first_time(other, event):
            return False
    return not ctx.cleared_in(trace, name, loop)


def _first_time(made: Event, event: Event) -> bool:
    """`if kept is None: kept = out`, or `if i == 0:`, in the other branch of an event that adds to `kept`."""
    for (x, i, _), (y, j, _) in zip(made.path, event.path):
        if x is y and i != j and isinstance(x, ast.If) and i == 0:
            test = x.test
            if isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.Is, ast.Eq)) and event.loop is not None:
                known, of = constant(test.comparators[0]), test.left
                if isinstance(of, ast.Call) and dotted(of.func) == "len" and of.args:
                    return known == 0 and dotted(of.args[0]) == made.name
                return known is None and dotted(of) == made.name or known == 0 and dotted(of) in Context.loop_names(event.loop)
    return False


@dataclass(frozen=True)
class _Sum:
    """`acc += e` in a loop, `acc` made before it, `e` with a graph that the loop makes."""

    event: Event
    name: str  #: `acc`
    added: ast.expr
    value: values.Value  #: of what is added, or of the sum
    loop: Loop
    trains: bool
    certain: bool  #: what is added itself goes backward in the loop
    swept: bool  #: a backward pass of each iteration goes through it
    why: str = ""  #: which function adds it, if another does


def _has_graph(value: values.Value, in_fed: bool) -> bool:
    return value.graph == values.YES and value.kind in values.TENSORS or in_fed and value.graph != values.NO and value.kind in ("", *values.TENSORS)


def _sum_of(ctx: Context, trace: Trace, event: Event, name: str, added: ast.expr, value: values.Value, why: str = "") -> _Sum | None:
    if event.no_grad or not name or event.handler is not None or _own_model_code(event):
        return None
    loop, trains = _loop_of(ctx, event)
    own = names_in(added)
    if loop is None or not own:
        return None
    fed = ctx.fed(trace, loop)
    in_fed = bool(own & fed)
    gone = trains and _gone_backward(ctx, trace, loop, added)
    certain = trains and _goes_backward(ctx, trace, loop, added) and not _number_by_then(trace, event, added) or gone and _has_graph(value, False) and value.strong
    if not certain and not _has_graph(value, in_fed) or not in_fed and not _born_in(ctx, trace, loop, added):
        return None
    if _fed_later(ctx, trace, event.function, name) or not _outlives(ctx, event, trace, name, loop):
        return None
    return _Sum(event, name, added, value, loop, trains, certain, trains and (in_fed or _came_with(trace, loop, own, fed) or gone), why)


def _fed_later(ctx: Context, trace: Trace, function: Function, name: str) -> bool:
    """Does a backward pass go through the whole of it, in the function or in a caller; or is not a graph made in the function at all?"""
    return name in ctx.fed(trace) or ctx.program.no_grad(function) or name in ctx.returned_directly(trace) and ctx.result_is_fed(function)


@checks("PLM101", "PLM102", "PLM110")  # PLM110 reads what these two find
def accumulated(ctx: Context) -> None:
    for trace in ctx.traces:
        for event in trace.events:
            added = added_by(event) if event.loop is not None and event.kind in ("augment", "bind", "store") else None
            if added is not None and event.value is not None:
                tell_if_summed(ctx, trace, event, event.name, added, event.value)


def tell_if_summed(ctx: Context, trace: Trace, event: Event, name: str, added: ast.expr, value: values.Value, why: str = "") -> None:
    """Report it if `name` sums up graphs by the event: in a statement of the loop, or, as `why` says, in the function that is called."""
    found = _sum_of(ctx, trace, event, name, added, value, why)
    if found is None:
        return
    retained = any(e.kind == "call" and e.attr == "backward" and constant(e.keyword("retain_graph")) is True for e in trace.inside(found.loop))
    if found.swept and not retained and _is_small(found):
        ctx.report("PLM102", event.stmt, f"{found.name} keeps one small tensor and its graph nodes a step; .detach() keeps the sum alone",
                   confidence=HIGH if found.certain or _has_graph(found.value, False) and found.value.strong else LOW, edits=[_sum_edit(ctx, found.added)], safe=True,
                   evidence=[f"the backward pass of the same iteration frees what {ctx.program.source.segment(found.added)} saved", *_by(found.why)])
    elif (not found.swept or retained) and (not found.trains or found.value.strong or found.value.kind in values.TENSORS):
        _tell_sum(ctx, found)


def _is_small(found: _Sum) -> bool:
    return found.certain or found.value.scalar or _scalar_text(found.added)


def _sum_edit(ctx: Context, added: ast.expr) -> Edit:
    """Only added up: .detach() drops the graph, and does not make the CPU wait as .item() does (PLM201)."""
    source = ctx.program.source
    if isinstance(added, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)):
        return source.after(added, ".detach()")
    return Edit(source.start(added), source.end(added), f"({source.segment(added)}).detach()")


def _by(why: str) -> list[str]:
    return [why] if why else []


def _tell_sum(ctx: Context, found: _Sum) -> None:
    event, loop = found.event, found.loop
    unseen = _caller_unseen(ctx, event, loop, found.name)
    ctx.report("PLM101", event.stmt, f"{found.name} keeps the graph of every iteration: no backward pass frees it",
               confidence=HIGH if found.value.strong and not unseen else MEDIUM, edits=[_sum_edit(ctx, found.added)], safe=_is_small(found),
               evidence=[f"line {loop.node.lineno}: the loop; nothing in it goes backward from {ctx.program.source.segment(found.added)}", *_by(found.why)])


def _caller_unseen(ctx: Context, event: Event, loop: Loop, name: str) -> bool:
    """Is it returned to another file, which may go backward?  An evaluation over a loader is none of that."""
    loads = loop.source is not None and loop.source.kind == values.LOADER
    return not loads and name in ctx.returned_directly(ctx.trace(event)) and not ctx.program.callers.get(event.function)


def _goes_backward(ctx: Context, trace: Trace, loop: Loop, node: ast.expr) -> bool:
    """Is it the very name that goes backward in the loop, or a multiple of it?  Then it has a graph for certain."""
    if isinstance(node, ast.BinOp):
        return _goes_backward(ctx, trace, loop, node.left) or _goes_backward(ctx, trace, loop, node.right)
    return isinstance(node, ast.Name) and any(e.receiver == node.id or any(dotted(part) == node.id for part in (*e.call.args, *(
        a for n in pick(e.call.func, ast.Call) for a in n.args))) for e in trace.inside(loop) if ctx.program.is_backward(e))  # type: ignore[attr-defined]


def _number_by_then(trace: Trace, event: Event, node: ast.expr) -> bool:
    """Was the name bound to something without a graph, `loss = loss.item()`, before this?"""
    bound = [e for e in trace.events[:event.index] if e.kind == "bind" and e.name == dotted(node) and not apart(e.path, event.path)]
    return bool(bound) and not names_in(bound[-1].source) and bound[-1].source is not None or bool(bound) and bound[-1].value is not None and bound[-1].value.kind == values.NUMBER


def _came_with(trace: Trace, loop: Loop, own: set[str], fed: set[str]) -> bool:
    """Is it one of several results of a call, of which another goes backward?  `loss, part = criterion(out)` has one graph.

    Or an element of a container that goes backward as a whole: `for name, part in losses.items()`.
    """
    if any(e.kind == "bind" and e.name in own and isinstance(e.stmt, (ast.For, ast.AsyncFor)) and names_in(e.source) & fed for e in trace.inside(loop)):
        return True
    calls = {e.stmt for e in trace.inside(loop) if e.kind == "bind" and e.name in own and isinstance(e.stmt, ast.Assign) and isinstance(e.stmt.value, ast.Call)}
    return any(e.kind == "bind" and e.name in fed and e.stmt in calls for e in trace.inside(loop))


def _gone_backward(ctx: Context, trace: Trace, loop: Loop, what: ast.expr) -> bool:
    """Is it made from what went backward, or what a function returns that goes backward from it: `loss = train_step(batch)`?"""
    own, inside = names_in(what), trace.inside(loop)
    if ctx.ancestors(own, inside) & {name for e in inside if ctx.program.is_backward(e) for name in ctx.roots_of_backward(e)}:
        return True
    bound = [e.source for e in inside if e.kind == "bind" and e.name in own and e.source is not None]
    nodes = {n for source in (what, *bound) for n in ast.walk(source) if isinstance(n, ast.Call)}
    inner = [ctx.program.trace_of(ctx.program.called_function(e)) for e in inside if e.kind == "call" and e.node in nodes]
    return any(t is not None and ctx.returned(t) & ctx.fed(t) for t in inner)


@checks("PLM102", "PLM103", "PLM110")
def collected(ctx: Context) -> None:
    for event in ctx.calls(*GROWS):
        if event.attr == "add" and (event.of is None or event.of.kind != values.LIST):
            continue  # a meter's method, more often than a set's
        of = event.call.func.value if isinstance(event.call.func, ast.Attribute) else event.call.func
        container = event.receiver or holder(of)
        if container and event.call.args and not isinstance(event.stmt, ast.Return):
            contained(ctx, event, container, event.call.args[-1], event.args[-1] if event.args else values.UNKNOWN_VALUE)
    for trace in ctx.traces:
        for event in trace.events:
            put = _put_by_statement(ctx, event) if event.value is not None and event.kind in ("store", "bind", "augment") else None
            if put is not None:
                contained(ctx, event, event.name, *put)


def _put_by_statement(ctx: Context, event: Event) -> tuple[ast.expr, values.Value] | None:
    """What `kept[i] = out`, `kept = torch.cat((kept, out))` or `kept += [out]` puts into `kept`, and its value."""
    value, what = event.value or values.UNKNOWN_VALUE, event.source
    if event.kind == "store":
        return (what, value) if what is not None and put_by_key(event) and added_by(event) is None else None
    if event.kind == "bind":
        joined = _joined(ctx, event)
        return (joined, value) if joined is not None else None
    if event.kind == "augment" and event.name and value.items and isinstance(what, ast.List) and event.of is not None and event.of.kind == values.LIST:
        return what.elts[0], value.items[0]
    return None


def _joined(ctx: Context, event: Event) -> ast.expr | None:
    """What `kept = torch.cat((kept, out))` adds."""
    source = event.source
    if not isinstance(source, ast.Call) or ctx.program.symbols.qualified(source.func) not in ("torch.cat", "torch.concat", "torch.concatenate", "torch.hstack", "torch.vstack"):
        return None
    parts = source.args[0].elts if source.args and isinstance(source.args[0], (ast.Tuple, ast.List)) else []
    return next((p for p in parts if dotted(p) != event.name), None) if any(dotted(p) == event.name for p in parts) else None


@dataclass(frozen=True)
class _Put:
    """`kept.append(e)` in a loop, `kept` made before it, `e` with a graph."""

    event: Event
    container: str
    what: ast.expr
    value: values.Value
    loop: Loop
    grad_fn: bool  #: `e.grad_fn`: the graph itself
    why: str = ""  #: which function puts it there, if another does

    def small(self) -> bool:
        inner = [item for item in self.value.items or () if item.graph]
        return self.value.scalar or _scalar_text(self.what) or bool(inner) and all(item.scalar for item in inner)


def _keeps_all(ctx: Context, trace: Trace, event: Event, container: str, loop: Loop) -> bool:
    """Does the container hold what every iteration put in it: made before the loop, without a bound, not cleared, fed to no backward pass?"""
    if event.kind == "bind" and not any(e.name == container and e.kind == "bind" and (e.index < loop.start or _first_time(e, event)) for e in trace.events[:loop.end]):
        return False
    holder = event.of
    if holder is not None and (holder.bound is not None or holder.kind in (values.MODULE, values.DATASET)):
        return False
    on_self = container.startswith("self.")
    if not on_self and container.split(".")[0] != "self" and container.split(".")[0] in ctx.fed(trace):
        return False
    if _fed_later(ctx, trace, event.function, container) or not _outlives(ctx, event, trace, container, loop):
        return False
    return not on_self or not _cleared_in_class(event.function.cls, container)


def _carries_graph(put: _Put, in_fed: bool) -> bool:
    value = put.value
    if _only_weights(value):
        return put.grad_fn  # they have no graph of their own
    tensors = value.kind in values.TENSORS or value.kind in (values.DICT, values.LIST, values.TUPLE) and bool(value.items)
    return put.grad_fn or value.graph == values.YES and tensors or in_fed and value.graph != values.NO and value.kind in ("", values.TENSOR)


def _only_weights(value: values.Value) -> bool:
    inner = [item for item in value.items or () if item.graph]
    return value.qual == "parameter" or bool(inner) and all(_only_weights(item) for item in inner)


def contained(ctx: Context, event: Event, container: str, what: ast.expr, value: values.Value, why: str = "") -> None:
    """Report it if `container` collects graphs by the event: in a statement of the loop, or, as `why` says, in the function that is called."""
    if event.no_grad or event.loop is None or _own_model_code(event) or event.handler is not None:
        return
    loop, trains = _loop_of(ctx, event)
    if loop is None:
        return
    trace = ctx.trace(event)
    put = _Put(event, container, what, value, loop, ctx.program.source.segment(what).endswith(".grad_fn"), why)
    own, fed = names_in(what), ctx.fed(trace, loop)
    if not _carries_graph(put, bool(own & fed)) or not _keeps_all(ctx, trace, event, container, loop):
        return
    if trains and not put.grad_fn and (own & fed or _came_with(trace, loop, own, fed)):
        _tell_swept_put(ctx, trace, put)
        return
    if trains and not put.grad_fn and _gone_backward(ctx, trace, loop, what):
        if put.small():
            _tell_swept_put(ctx, trace, put)
        return
    if not put.grad_fn and not _born_in(ctx, trace, loop, what):
        return
    if any(container in names_in(a) for e in trace.inside(loop) if ctx.program.is_model_call(e) for a in e.call.args):
        return  # each pass goes on from the ones before: an unrolled recurrence
    _tell_put(ctx, put)


def _parts(what: ast.expr) -> list[ast.expr]:
    """What a display holds; anything else is one part."""
    return what.values if isinstance(what, ast.Dict) else what.elts if isinstance(what, (ast.Tuple, ast.List)) else [what]


def _put_edits(ctx: Context, put: _Put, text: str) -> list[Edit | None]:
    return [ctx.program.source.after(put.what, text)] if isinstance(put.what, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)) else []


def _tell_swept_put(ctx: Context, trace: Trace, put: _Put) -> None:
    """Of what a backward pass of the same iteration goes through."""
    text = ctx.program.source.segment(put.what)
    if put.small():
        ctx.report("PLM102", put.event.stmt, f"{put.container} keeps one small tensor and its graph nodes a step; .detach() keeps the number alone",
                   confidence=HIGH if any(_goes_backward(ctx, trace, put.loop, part) for part in _parts(put.what)) or
                   _gone_backward(ctx, trace, put.loop, put.what) and put.value.strong else LOW, edits=_put_edits(ctx, put, ".detach()"), safe=True,
                   evidence=[f"the backward pass of the same iteration frees what {text} saved", *_by(put.why)])
    elif put.value.device != "cpu" and put.value.kind in values.TENSORS:
        ctx.report("PLM102", put.event.stmt, f"{put.container} keeps every batch's {text} on the GPU", severity="warning", confidence=MEDIUM,
                   edits=_put_edits(ctx, put, ".detach().cpu()"))


def _tell_put(ctx: Context, put: _Put) -> None:
    event, value = put.event, put.value
    unseen = _caller_unseen(ctx, event, put.loop, put.container)
    # A whole output that is only detached still piles up on the GPU.  To move it may change what reads it: not a safe fix.
    small = put.small() or value.device == "cpu"
    ctx.report("PLM103", event.stmt, f"{put.container} keeps every iteration's tensors with their graph",
               confidence=HIGH if (value.strong or put.grad_fn) and not unseen else MEDIUM,
               edits=_put_edits(ctx, put, ".detach()" if small else ".detach().cpu()") if not put.grad_fn and event.kind != "bind" and value.kind in values.TENSORS else [], safe=small,
               evidence=[f"line {put.loop.node.lineno}: the loop; nothing in it goes backward from {ctx.program.source.segment(put.what)}", *_by(put.why)],
               fix=[] if put.grad_fn or small else [".detach() frees the graph, .cpu() the GPU: with .detach() alone the tensors still pile up there"])


@checks("PLM101", "PLM102", "PLM103", "PLM110")
def kept_by_callee(ctx: Context) -> None:
    for trace in ctx.traces:
        for event in [e for e in trace.events if e.kind == "call" and e.loop is not None and any(a.graph for a in e.args)]:
            function = ctx.program.called_function(event)
            if function is None or function is trace.function or function.name == "forward":
                continue
            for keep in keeps(ctx, function):
                container = container_of(event, function, keep)
                given = next((g for g in (argument(event, function, p) for p in sorted(keep.parameters)) if g is not None and g[1].graph), None)
                if not container or given is None or event.loop is None or renewed(ctx, event, function, keep, event.loop):
                    continue
                home = ctx.program.home(function)
                where = f"line {keep.line}" + (f" of {basename(home.source.path)}" if home is not ctx.program else "")
                why = f"{where}: {function.path}() keeps it in {keep.container}"
                if keep.sums:
                    tell_if_summed(ctx, trace, event, container, *given, why)
                else:
                    contained(ctx, event, container, *given, why)


@checks("PLM102")
def kept_by_step(ctx: Context) -> None:
    """A function that goes backward, and is called for each batch: `loss.backward(); self.history.append(loss)`."""
    for trace in ctx.traces:
        cls, events = trace.function.cls, trace.events
        if isinstance(trace.function.node, ast.Module) or cls is not None and (cls.module or cls.lightning):
            continue
        swept = {name for e in events if e.loop is None and ctx.program.is_backward(e) for name in ctx.roots_of_backward(e)}
        for event in events if swept else ():
            container, what = _put_outside(event)
            if not isinstance(what, ast.Name) or what.id not in swept or event.loop is not None or event.no_grad or _number_by_then(trace, event, what):
                continue
            if _lives_on(ctx, trace.function, container):
                ctx.report("PLM102", event.stmt, f"{container} keeps one small tensor and its graph nodes at each call; .detach() keeps the number alone",
                           edits=[ctx.program.source.after(what, ".detach()")], safe=True,
                           evidence=[f"the backward pass of the same call frees what {what.id} saved; nothing in this file clears {container}"])


def _put_outside(event: Event) -> tuple[str, ast.expr | None]:
    """The container and what is put into it, of `kept.append(x)`, `kept[key].append(x)` and `self.kept += x`."""
    if event.kind == "call" and event.attr in GROWS and event.call.args and isinstance(event.call.func, ast.Attribute):
        return holder(event.call.func.value), event.call.args[-1]
    return event.name, added_by(event) if event.kind in ("augment", "bind") else None


def _lives_on(ctx: Context, function: Function, container: str) -> bool:
    """Is it a member that no method empties, or a list around the function that nothing empties?"""
    if container.startswith("self."):
        return container.count(".") == 1 and not _cleared_in_class(function.cls, container) and not _read_and_made_anew(ctx, container)
    own = {a.arg for a in parameters(function)} | function.bound
    return bool(container) and "." not in container and container not in own and not any(e.receiver == container for e in ctx.calls("clear", "pop", "popleft")) and sum(
        e.kind in ("bind", "delete") and e.name == container for e in ctx.program.events()) == 1


def _steps_comprehended(ctx: Context, trace: Trace, event: Event, parts: set[ast.Call]) -> None:
    """`losses = [train_step(x, y) for x, y in loader]`, where the function returns what it went backward from."""
    for call in [e for e in trace.events[:event.index] if e.node in parts and e.node is event.source]:
        inner = ctx.program.trace_of(ctx.program.called_function(call))
        value = event.value
        if inner is None or value is None or value.graph != values.YES or value.kind not in values.TENSORS or isinstance(event.node, ast.GeneratorExp):
            continue
        if ctx.returned_directly(inner) & {name for e in inner.events if ctx.program.is_backward(e) for name in ctx.roots_of_backward(e)}:
            ctx.report("PLM102", call.node, "the comprehension keeps one small tensor and its graph nodes a step; .detach() keeps the number alone",
                       edits=[ctx.program.source.after(call.call, ".detach()")], safe=True,
                       evidence=[f"{inner.function.path}() goes backward from what it returns, which frees what that saved"])


@checks("PLM102", "PLM103", "PLM110")
def comprehended(ctx: Context) -> None:
    """`[model(x) for x in data]` in eval mode: a loop that keeps what it makes, or makes a graph for each."""
    for trace in ctx.traces:
        for event in trace.events:
            value = event.value
            if event.kind != "comprehension" or value is None or ctx.program.off(event):
                continue
            parts = {n for n in ast.walk(event.node) if isinstance(n, ast.Call)}
            _steps_comprehended(ctx, trace, event, parts)
            called = [e for e in trace.events[:event.index] if e.node in parts and ctx.program.runs_model(e)]
            if not called or _own_model_code(event) or event.handler is not None or not ctx.quiet_at(trace, event.index, called):
                continue
            if ctx.any_backward(trace) or ctx.result_is_fed(event.function) or frozen(ctx, {e.receiver or e.attr for e in called}, trace):
                continue
            _tell_comprehended(ctx, event, value, called)


def _tell_comprehended(ctx: Context, event: Event, value: values.Value, called: list[Event]) -> None:
    source, what = ctx.program.source, event.source
    if value.kind not in values.TENSORS or value.graph != values.YES:
        if not value.graph and not any(ctx.program.needs_gradients(ctx.program.called_function(e)) for e in called):
            ctx.report("PLM110", called[0].node, "the model builds a graph for every batch here: model.eval() does not stop that",
                       confidence=HIGH if called[0].of is not None and called[0].of.strong else MEDIUM,
                       evidence=["the comprehension keeps no graph, and none is needed to make what it keeps; no torch.no_grad() is around it"])
        return
    ctx.report("PLM103", event.node, "the comprehension keeps every output with its graph: model.eval() does not stop that",
               confidence=HIGH if value.strong and (ctx.program.callers.get(event.function) or not isinstance(event.stmt, ast.Return)) else MEDIUM,
               edits=[source.after(what, ".detach().cpu()")] if isinstance(what, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)) else [],
               evidence=[f"line {called[0].node.lineno}: {source.segment(called[0].call.func)}() is called for each, and no torch.no_grad() is around it"])


def _born_in(ctx: Context, trace: Trace, loop: Loop, what: ast.expr) -> bool:
    """Does something that carries a graph here come from this loop?  What was made before it is kept once, not every time."""
    inside = trace.inside(loop)
    own = names_in(what)
    return any(e.kind in ("bind", "augment") and e.name in own and e.value is not None and e.value.graph for e in inside) or any(
        e.kind == "call" and e.stmt is not None and any(e.node is n for n in ast.walk(what)) and (ctx.program.is_model_call(e) or e.of is not None and
        e.of.kind == values.CRITERION or e.value is not None and e.value.graph == values.YES and ctx.program.called_function(e) is not None) for e in inside)


def _cleared_in_class(cls: Class | None, name: str) -> bool:
    if cls is None:
        return False
    uses = cls.uses.get(name, set())
    if uses & {"clear", "pop", "popleft", "popitem"}:
        return True
    return any(function.name != "__init__" for _, function in cls.assigned.get(name, ()))


# ---- state from iteration to iteration ----

def _targets(stmt: ast.stmt) -> set[str]:
    found: set[str] = set()
    if isinstance(stmt, ast.Assign):
        for target in stmt.targets:
            for part in ast.walk(target):
                if isinstance(part, (ast.Name, ast.Attribute)) and dotted(part):
                    found.add(dotted(part))
    found.discard("self")
    return found


def _detaches(ctx: Context, event: Event, name: str) -> bool:
    """Does this event give `name` a value without its graph, or a new one?"""
    if event.kind == "call":
        return event.attr in ("detach_", "zero_", "fill_") and isinstance(event.call.func, ast.Attribute) and name in names_in(event.call.func.value, cut=False)
    if event.kind == "augment" or event.name != name and not name.startswith(event.name + "."):
        return False
    if event.kind == "delete":
        return True
    if event.kind != "bind" or event.source is None:
        return False
    if name not in names_in(event.source, cut=False):
        return True
    for part in ast.walk(event.source):
        if isinstance(part, ast.Attribute) and part.attr in ("detach", "data", "detach_", "clone_detached"):
            return True
        if isinstance(part, ast.Call):
            called = dotted(part.func).rpartition(".")[2]
            if re.search(r"detach|repackage|truncate|stop_grad|no_grad|reset|init", called):
                return True
            function = ctx.program.find(dotted(part.func), event.function) or (
                event.function.cls.methods.get(called) if event.function.cls is not None else None)
            if function is not None and any(isinstance(n, ast.Attribute) and n.attr in ("detach", "data", "detach_") for n in ast.walk(function.node)):
                return True
    return False


def _state_arguments(call: ast.Call) -> set[str]:
    found: set[str] = set()
    for i, argument in enumerate(call.args):
        if i >= 1:
            found |= {dotted(n) for n in ast.walk(argument) if isinstance(n, (ast.Name, ast.Attribute))} if isinstance(
                argument, (ast.Name, ast.Attribute, ast.Tuple, ast.Starred, ast.List)) else set()
    for keyword in call.keywords:
        if isinstance(keyword.value, (ast.Name, ast.Attribute, ast.Tuple)):
            found |= {dotted(n) for n in ast.walk(keyword.value) if isinstance(n, (ast.Name, ast.Attribute))}
    return found - {"", "self"}


def _may_carry(ctx: Context, event: Event, inside: list[Event]) -> bool:
    """Is it a call whose result may be a state for its next call: of a model, or of an unknown function in a loop that retains graphs?"""
    of = event.of
    if event.kind != "call" or event.no_grad or of is None or not isinstance(event.stmt, ast.Assign):
        return False
    if ctx.program.is_model_call(event) or of.kind == values.MODULE and event.attr == "forward":
        return True
    unknown = of.kind == values.UNKNOWN and of.function is None and not of.qual and not event.receiver
    return unknown and any(constant(e.keyword("retain_graph")) is True for e in inside if ctx.program.is_backward(e))


def _stays_attached(ctx: Context, event: Event, name: str, inside: list[Event]) -> bool:
    """Is a call's result never cut from its graph in the loop, and not made anew by the loader?"""
    for e in inside:
        if e.kind == "bind" and e.name == name and e.value is not None and e.value.kind == values.BATCH:
            return False
        if e.stmt is not event.stmt and _detaches(ctx, e, name):
            return False
    return True


@checks("PLM104")
def carried(ctx: Context) -> None:
    for trace in ctx.traces:
        for loop in ctx.steps(trace):
            if loop.framework:
                continue
            told: set[str] = set()
            inside = trace.inside(loop)
            for event in inside:
                if not _may_carry(ctx, event, inside) or _stepped_inside(ctx, event, loop, trace):
                    continue
                for name in sorted(_targets(event.stmt) & _state_arguments(event.call)):
                    if name not in told and _stays_attached(ctx, event, name, inside) and not _record(trace, name):
                        told.add(name)
                        _tell_carried(ctx, event, loop, name, inside)


@checks("PLM104")
def carried_on_self(ctx: Context) -> None:
    """`out, self.h = self.rnn(x, self.h)` in forward of a module that a training loop calls."""
    for trace in ctx.traces:
        for loop in ctx.steps(trace):
            inside = trace.inside(loop)
            for event in () if loop.framework else inside:
                if not ctx.program.is_model_call(event) or event.no_grad or event.of is None or event.of.cls is None or _stepped_inside(ctx, event, loop, trace):
                    continue
                for cls in _classes_within(ctx, event.of.cls):
                    for kept in _kept_on_self(ctx, cls):
                        if kept.certain:
                            _tell_kept(ctx, kept, loop, trace, inside)


@dataclass(frozen=True)
class _Kept:
    """A member that a pass of a module leaves behind and the next one reads."""

    event: Event  #: where it is bound
    certain: bool  #: argument and result of one call, and nothing in the file cuts it off or makes it anew


def _classes_within(ctx: Context, cls: Class) -> list[Class]:
    """A class and all of the program that its body names: bases, parts, what it makes."""
    found, todo = [cls], [cls]
    while todo:
        at = todo.pop()
        home = ctx.program.home(at)
        for name in {n.id for n in ast.walk(at.node) if isinstance(n, ast.Name)} | set(at.bases):
            other = home.class_named(home.symbols.imports.get(name, name), at)
            if other is not None and other not in found:
                found.append(other)
                todo.append(other)
    return found


def _kept_on_self(ctx: Context, cls: Class) -> list[_Kept]:
    found = []
    for method in cls.methods.values():
        trace = ctx.program.trace_of(method)
        if trace is None or method.name in ("__init__", "__new__"):
            continue
        for event in trace.events:
            puts = event.kind == "call" and event.attr in (*GROWS, "copy_")
            name = event.receiver if puts else event.name
            if not puts and event.kind not in ("bind", "augment", "store") or not name.startswith("self.") or name.count(".") != 1 or event.no_grad or _number(event):
                continue
            if event.kind == "bind" and (event.source is None or constant(event.source) is not ... or _cuts(ctx, event, name)):
                continue
            if not _reads(cls, name) or any(e.index > event.index and e.path == event.path and _detaches(ctx, e, name) and _cuts(ctx, e, name) for e in trace.events):
                continue
            found.append(_Kept(event, _certainly_carried(ctx, event, cls)))
    return found


def _number(event: Event) -> bool:
    return event.value is not None and event.value.kind in (values.NUMBER, values.TEXT)


def _cuts(ctx: Context, event: Event, name: str) -> bool:
    """Does it take the graph away, and not only give another value?"""
    if event.kind == "call":
        return event.attr == "detach_"
    return event.source is not None and not names_in(event.source) or name in names_in(event.source, cut=False) and _detaches(ctx, event, name)


def _reads(cls: Class, name: str) -> bool:
    return any(isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load) and dotted(n) == name for n in ast.walk(cls.node))


def _certainly_carried(ctx: Context, event: Event, cls: Class) -> bool:
    stmt, name, member, source = event.stmt, event.name, event.name.removeprefix("self."), _call_behind(ctx, event)
    if event.kind != "bind" or not isinstance(stmt, ast.Assign) or event.function.name != "forward" or source is None:
        return False
    called = dotted(source.func)
    made = ctx.program.attribute(cls, called) if called.startswith("self.") else None
    if made is None or made.kind != values.MODULE or name not in _state_arguments(source):
        return False
    # Whatever else in the file writes a member of this name, or calls a method of it, may make it anew.
    for node in (n for tree in {ctx.program.source.tree, ctx.program.home(cls).source.tree} for n in ast.walk(tree)):
        if isinstance(node, ast.Attribute) and node.attr == member and isinstance(node.ctx, (ast.Store, ast.Del)) and not any(
                node is part for part in ast.walk(stmt)) and not _in_init(cls, node):
            return False
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute) and node.value.attr == member or (
                isinstance(node, ast.Constant) and node.value == member):
            return False
    return True


def _call_behind(ctx: Context, event: Event) -> ast.Call | None:
    """The call that made what is bound: in the statement, or by way of one name, `out, new = self.rnn(x, self.h); self.h = new`."""
    if isinstance(event.source, ast.Name):
        trace = ctx.program.trace_of(event.function)
        made = [e for e in trace.events[:event.index] if e.kind == "bind" and e.name == event.source.id] if trace is not None else []
        return made[0].source if len(made) == 1 and isinstance(made[0].source, ast.Call) and not made[0].no_grad else None
    return event.source if isinstance(event.source, ast.Call) else None


def _in_init(cls: Class, node: ast.AST) -> bool:
    init = cls.methods.get("__init__")
    return init is not None and any(node is part for part in ast.walk(init.node))


def _tell_kept(ctx: Context, kept: _Kept, loop: Loop, trace: Trace, inside: list[Event]) -> None:
    event, name = kept.event, kept.event.name
    backward = [e for e in inside if ctx.program.is_backward(e)]
    if not backward or any(e.kind == "bind" and e.value is not None and e.value.kind == values.MODULE for e in inside):
        return  # a model that is made anew in the loop has no state of the step before
    source = _call_behind(ctx, event)
    called = dotted(source.func) if source is not None else ""
    made = ctx.program.attribute(event.function.cls, called) if event.function.cls is not None else None
    kind = made.qual if made is not None and not _tuple_given(source) else ""
    # In front of the pass: what it gives back may be its loss's, as a cell's state is.
    line = f"{name} = None if {name} is None else {_detached(name, kind).partition(' = ')[2]}"
    known = made is not None and made.qual in _RECURRENT
    retained = [e for e in backward if constant(e.keyword("retain_graph")) is True]
    ctx.report("PLM104", event.stmt, _chained(name, bool(retained)), confidence=HIGH if known else MEDIUM,
               evidence=[f"line {loop.node.lineno}: the loop; {name} is argument and result of {called} in each of its passes, and nothing in the "
                         "file detaches it or makes it anew"] + [f"line {e.node.lineno}: backward(retain_graph=True)" for e in retained[:1]],
               fix=_cut(line, f"in front of line {event.stmt.lineno}", retained),
               edits=[ctx.program.source.line_before(event.stmt, line)] if known else [])


@checks("PLM104")
def chained_buffers(ctx: Context) -> None:
    """`self.mean = 0.9 * self.mean + 0.1 * x.mean()` in forward: each value hangs on the graph of the one before."""
    for trace in ctx.traces:
        cls = trace.function.cls
        if cls is None or not cls.module or trace.function.name != "forward":
            continue
        for event in trace.events:
            name, source = _updated(ctx, trace, event)
            if name.count(".") != 1 or not name.startswith("self.") or source is None or event.no_grad or ctx.program.off(event):
                continue
            added = event.value if event.kind != "call" else max(event.args, key=lambda a: a.graph, default=values.UNKNOWN_VALUE)
            if added is None or not added.graph or not (names_in(source) - {name, "self"}):
                continue
            if not _starts_as_tensor(ctx, cls, name) or _written_elsewhere(ctx, trace, event, name):
                continue
            ctx.report("PLM104", event.stmt, f"{name} hangs on the graphs of all earlier passes: it is made from itself and from what carries a graph", confidence=HIGH,
                       evidence=[f"nothing in the file detaches {name} or makes it anew"], fix=["compute it under torch.no_grad(), or from x.detach()"])


def _updated(ctx: Context, trace: Trace, event: Event) -> tuple[str, ast.expr | None]:
    """A name that gets a value made from its own, and from what."""
    if event.kind == "augment" and not isinstance(event.target, ast.Subscript):
        return event.name, event.source
    if event.kind == "bind" and event.source is not None and event.name.startswith("self."):
        known = names_in(event.source)
        by_way = event.value is not None and event.value.graph == values.YES and event.name in ctx.ancestors(known, [e for e in trace.events[:event.index] if not e.no_grad])
        if event.name in known or by_way:
            return event.name, event.source
    if event.kind == "call" and event.attr.endswith("_") and event.attr not in _OVERWRITES and event.call.args:
        of: ast.expr = event.call.func
        while isinstance(of, ast.Attribute) and of.attr.endswith("_") or isinstance(of, ast.Call):  # self.mean.mul_(0.9).add_(m)
            of = of.value if isinstance(of, ast.Attribute) else of.func
        return dotted(of), event.call.args[0]
    return "", None


_OVERWRITES = frozenset("copy_ zero_ fill_ detach_".split())  #: in-place methods that leave nothing of the old value


def _starts_as_tensor(ctx: Context, cls: Class, name: str) -> bool:
    """A buffer, or a member that __init__ makes as a tensor without gradients."""
    found = ctx.program.attribute(cls, name)
    made = [node for node, function in cls.assigned.get(name, ()) if function.name == "__init__"]
    if any(isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr == "register_buffer" and n.args and constant(n.args[0]) == name.removeprefix("self.")
           for n in ast.walk(cls.node)):
        return True
    return bool(made) and found is not None and found.kind == values.TENSOR and all(
        isinstance(m, ast.Call) and ctx.program.symbols.qualified(m.func).rpartition(".")[2] in names.CONSTRUCTORS for m in made)


def _written_elsewhere(ctx: Context, trace: Trace, event: Event, name: str) -> bool:
    """Does anything else that this file says of the member give it another value, or cut its graph off?"""
    cls, member = trace.function.cls, name.removeprefix("self.")
    assert cls is not None
    mine = {part for part in ast.walk(event.stmt)} | ({part for part in ast.walk(cls.methods["__init__"].node)} if "__init__" in cls.methods else set())
    related = [c for c in ctx.program.symbols.classes.values() if c is cls or cls.name in c.bases or c.name in cls.bases]
    own = {part for c in related for part in ast.walk(c.node)}
    for node in ast.walk(ctx.program.source.tree):
        if not isinstance(node, ast.Attribute) or dotted(node).startswith("self.") and node not in own:
            continue
        if node.attr == member and isinstance(node.ctx, (ast.Store, ast.Del)) and node not in mine:
            return True
        if node.attr in _OVERWRITES | {"data"} and isinstance(node.value, ast.Attribute) and node.value.attr == member:
            return True
    return False


_RECURRENT = frozenset(f"torch.nn.{kind}{cell}" for kind in ("LSTM", "GRU", "RNN") for cell in ("", "Cell"))


def _detached(name: str, kind: str = "") -> str:
    """A state without the graph that it came from; an LSTM's are two tensors."""
    return f"{name} = tuple(t.detach() for t in {name})" if "LSTM" in kind else f"{name} = {name}.detach()"


def _tuple_given(call: ast.AST | None) -> bool:
    """rnn(x, (h, c)): each name is one tensor."""
    return isinstance(call, ast.Call) and any(isinstance(a, (ast.Tuple, ast.List)) for a in call.args)


def _cut(line: str, where: str, retained: list[Event]) -> list[str]:
    """In words what ends the chain."""
    return [f"{line}, {where}"] + (["backward() without retain_graph: each pass then has a graph of its own"] if retained else [])


def _chained(name: str, retained: bool) -> str:
    return (f"{name} chains the graphs of all iterations: every backward pass goes through all earlier ones" if retained else
            f"the second iteration fails: {name} carries the first one's graph ('backward through the graph a second time')")


_STATE = re.compile(r"(^|_|\.)(h|c|hx|cx|hc|h_?\d|c_?\d|h_?[nt]|c_?[nt]|rnn\w*|lstm\w*|hid\w*|states?|mems?|memory|memories|past\w*|cells?|carry|cache|kv\w*)(_|$)", re.IGNORECASE)


def _record(trace: Trace, name: str) -> bool:
    """Is it read by a word, `endpoints["emb"]`?  Then it is a dict that the model fills anew, no state of a recurrence."""
    return any(isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Load) and dotted(n.value) == name and isinstance(constant(n.slice), str)
               for n in ast.walk(trace.function.node))


def _stepped_inside(ctx: Context, event: Event, loop: Loop, trace: Trace) -> bool:
    return event.loop is not loop and ctx.step_of(event) is not loop


def _tell_carried(ctx: Context, event: Event, loop: Loop, name: str, inside: list[Event]) -> None:
    retained = [e for e in inside if e.kind == "call" and e.attr == "backward" and constant(e.keyword("retain_graph")) is True]
    title = _chained(name, bool(retained))
    line = _detached(name, event.of.qual if event.of is not None and not _tuple_given(event.call) else "")
    born = [e for e in ctx.trace(event).events[:loop.start] if e.kind == "bind" and e.name == name]
    if born and constant(born[-1].source) is None:
        line = f"{name} = None if {name} is None else {line.partition(' = ')[2]}"
    first = loop.node.body[0]
    # What a model of another file gives back for its argument is not known; a name may say that it is a state.
    seen = event.of is not None and (event.of.cls is not None or event.of.qual.startswith("torch.nn."))
    ctx.report("PLM104", event.stmt, title, confidence=LOW if not seen and not _STATE.search(name) else HIGH if event.of is not None and event.of.strong else MEDIUM,
               evidence=[f"line {loop.node.lineno}: the loop; {name} is argument and result of the model in it, and is never detached"] +
               [f"line {e.node.lineno}: backward(retain_graph=True)" for e in retained[:1]],
               fix=_cut(line, f"at the head of the loop's body (line {first.lineno})", retained),
               edits=[ctx.program.source.line_before(first, line)])


@checks("PLM105")
def retained(ctx: Context) -> None:
    for event in ctx.calls("backward"):
        if constant(event.keyword("retain_graph")) is not True or event.loop is None or event.loop.framework:
            continue
        if constant(event.keyword("create_graph")) is True:
            continue
        trace = ctx.trace(event)
        loop = event.loop
        if _needed_again(ctx, event, trace, loop) or _state_within(ctx, trace, loop) or any(
                f.id == "PLM104" and loop.node.lineno <= f.place.line <= (loop.node.end_lineno or 0) for f in ctx.findings):
            continue
        keyword = next(k for k in event.call.keywords if k.arg == "retain_graph")
        seen = _models_seen(ctx, trace, loop)
        ctx.report("PLM105", event.node, "nothing goes back through this graph again; retain_graph=True only keeps its memory" if seen else
                   "nothing in this file goes back through this graph again: retain_graph=True only keeps its memory, if the model keeps no state",
                   confidence=MEDIUM, edits=[ctx.without(event.call, keyword)] if seen else [], safe=False,
                   evidence=["no value that this loss was computed from is used by a later backward pass"] + (
                       [] if seen else ["what the model keeps on itself from pass to pass is in another file"]))


def _forwards(ctx: Context, trace: Trace, loop: Loop) -> list[Event]:
    return [e for e in trace.inside(loop) if ctx.program.is_model_call(e)]


def _state_within(ctx: Context, trace: Trace, loop: Loop) -> bool:
    """May a module that this loop calls keep what a later pass goes back through?  Where it is not seen which is called: any of the file."""
    calls = _forwards(ctx, trace, loop)
    known = [e.of.cls for e in calls if e.of is not None and e.of.cls is not None]
    classes = known if calls and _models_seen(ctx, trace, loop) else list(ctx.program.symbols.classes.values())
    return any(_kept_on_self(ctx, within) for cls in classes if cls.module for within in _classes_within(ctx, cls))


def _models_seen(ctx: Context, trace: Trace, loop: Loop) -> bool:
    """Is each model that is called here of this file, or PyTorch's own?"""
    return all(e.of is not None and (e.of.cls is not None or e.of.qual.startswith("torch.nn.")) for e in _forwards(ctx, trace, loop))


def _needed_again(ctx: Context, event: Event, trace: Trace, loop: Loop) -> bool:
    """May another backward pass, or the next iteration's, go through what this one goes through?"""
    inside = trace.inside(loop)
    mine = ctx.ancestors(ctx.roots_of_backward(event), [e for e in inside if e.index < event.index])
    bound = {e.name for e in inside if e.kind in ("bind", "augment")}
    # What was computed before the loop and carries a graph is gone through in every iteration: so are its parts.
    loader = loop.source is not None and loop.source.kind == values.LOADER
    if not mine & bound or mine & ctx.loop_names(loop) and not loader and not _forwards(ctx, trace, loop):
        return True
    if any(_made_before(ctx, event, trace, loop, name) for name in mine - bound):
        return True
    if _made_from_itself(ctx, inside, mine) or _shared_with_another(ctx, event, inside, loop, mine):
        return True
    return any(e.kind == "call" and (e.name == "torch.autograd.grad" or e.attr in ("hvp", "jacobian")) for e in trace.events)


def _made_before(ctx: Context, event: Event, trace: Trace, loop: Loop, name: str) -> bool:
    """May a name that the loop does not bind hold a graph: made in front of the loop or in the module's body, a member, a parameter?"""
    module = ctx.program.symbols.module
    for other in trace.events[:loop.start] + (ctx.program.traces[module].events if module else []):
        if other.kind == "bind" and other.name == name and other.value is not None and other.value.graph and other.value.kind not in values.MODULES:
            return True
    if name.startswith("self.") and name.count(".") == 1 and not _looks_like_data(name.removeprefix("self.")):
        return True
    return name in {a.arg for a in _parameters(event)} and not _looks_like_data(name)


def _made_from_itself(ctx: Context, inside: list[Event], mine: set[str]) -> bool:
    """Is one of these names made from its own value of the iteration before, with its graph and each time?"""
    own = {e.name for e in inside if e.kind == "bind" and e.source is not None and e.name in names_in(e.source)} & mine
    anew = {e.name for e in inside if e.kind == "bind" and e.name in own and e.name not in names_in(e.source)}
    return any(not any(_detaches(ctx, e, name) for e in inside) for name in own - anew)


def _shared_with_another(ctx: Context, event: Event, inside: list[Event], loop: Loop, mine: set[str]) -> bool:
    """Does another backward pass of the iteration go through a graph of these names: a later one, or an earlier one in another loop?"""
    graph = mine & {e.name for e in inside if e.kind in ("bind", "augment", "store") and (e.value is None or e.value.graph or e.value.kind == "")}
    graph -= ctx.loop_names(loop)
    for other in inside if graph else ():
        later = other.index > event.index
        if other is event or not later and other.loop is event.loop or not ctx.feeds(other) or apart(event.path, other.path):
            continue
        before = [e for e in inside if e.index < other.index] if later else inside  # an earlier one comes after this one, too
        if ctx.ancestors(ctx.roots_of_backward(other), before) & graph:
            return True
    return False


def _parameters(event: Event) -> list[ast.arg]:
    node = event.function.node
    return [] if isinstance(node, ast.Module) else node.args.args + node.args.kwonlyargs


_DATA = re.compile(r"^(args|config|cfg|self|device|epoch|opt|options|params|([a-z]+_?)?(x|y|data|targets?|inputs?|labels?|images?|imgs?|texts?|txt|batch|samples?))$|"
                   r"(size|num\w*|count|freq|rate|lr|eps|gamma|alpha|beta|dim|steps?|fn|func|iter|iterator|loader|dataset|sampler|trade_off)$", re.IGNORECASE)  #: what carries no graph, by its name


def _looks_like_data(name: str) -> bool:
    kind = names.kind_of_name(name)
    return kind in ("module", "criterion", "optimizer", "loader", "scaler") or bool(_DATA.search(name))


# ---- members that grow ----

@checks("PLM106")
def grows_on_self(ctx: Context) -> None:
    for event in ctx.calls("append", "extend"):
        cls, function = event.function.cls, event.function
        if not event.args or not event.every():
            continue  # behind a flag: it was asked for
        if function.hook:
            _grows_by_hook(ctx, event)
            continue
        if cls is None or not event.receiver.startswith("self.") or event.receiver.count(".") != 1:
            continue
        if function.name not in ("forward", "training_step", "validation_step", "__call__") or not (cls.module or cls.lightning):
            continue
        value = event.args[-1]
        if value.kind not in values.TENSORS or _cleared_in_class(cls, event.receiver) or event.of is not None and event.of.bound is not None:
            continue
        if event.of is not None and event.of.kind != values.LIST or not _list_member(cls, event.receiver) or _read_and_made_anew(ctx, event.receiver):
            continue
        _tell_growth(ctx, event, event.receiver, value, f"no method of {cls.name} clears {event.receiver} or gives it a new list")
    for given, where in ctx.program.symbols.hooks:
        if isinstance(given, ast.Lambda) and isinstance(given.body, ast.Call) and isinstance(given.body.func, ast.Attribute) and given.body.func.attr == "append" and given.body.args:
            container, output = dotted(given.body.func.value), given.args.args[-1].arg if given.args.args else ""
            if container and output in names_in(given.body.args[0]) and _stays(ctx, container, where):
                ctx.report("PLM106", given, f"{container} grows at every forward pass and is never cleared", confidence=HIGH, evidence=[_HOOK])


@checks("PLM106")
def graphs_collected(ctx: Context) -> None:
    """`self.log_probs.append(dist.log_prob(a))` in a method of any class, that nothing in the file ever empties."""
    for event in ctx.calls("append", "extend"):
        cls, name = event.function.cls, event.receiver
        if cls is None or cls.module or cls.lightning or cls.trainer or event.loop is not None or name.count(".") != 1 or not name.startswith("self.") or not event.args:
            continue
        value = event.args[-1]
        if value.graph != values.YES or value.kind not in values.TENSORS or event.no_grad or ctx.program.off(event) or event.of is None or event.of.kind != values.LIST or event.of.bound:
            continue
        called = ctx.program.callers.get(event.function, ())
        if not any(c.loop is not None for c in called) or not _list_member(cls, name) or _emptied_anywhere(ctx, name.removeprefix("self.")):
            continue
        ctx.report("PLM106", event.node, f"{name} keeps the graph of every call, and nothing in this file empties it", severity="warning", confidence=MEDIUM,
                   evidence=[f"line {c.node.lineno}: called in a loop" for c in called if c.loop is not None][:1], fix=["clear it after each backward pass"])


def _emptied_anywhere(ctx: Context, member: str) -> bool:
    """Does the file give a member of this name, of whatever object, another value, take something out of it, or hand it to a function?"""
    for node in ast.walk(ctx.program.source.tree):
        targets = node.targets if isinstance(node, (ast.Assign, ast.Delete)) else [node.target] if isinstance(node, (ast.AugAssign, ast.AnnAssign)) else []
        for target in targets:
            inner = target.value if isinstance(target, ast.Subscript) else target
            made = isinstance(node, ast.Assign) and isinstance(inner, ast.Attribute) and dotted(inner).startswith("self.")
            if isinstance(inner, ast.Attribute) and inner.attr == member and not (made and _first_value(ctx, node)):
                return True
        if isinstance(node, ast.Call):
            func = node.func
            if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Attribute) and func.value.attr == member and func.attr in _EMPTIES:
                return True
            if any(isinstance(a, ast.Attribute) and a.attr == member for a in node.args) and not ctx.program.symbols.qualified(func).startswith("torch.") and dotted(func) not in (
                    "len", "sum", "zip", "reversed", "enumerate", "print", "list"):
                return True
    return False


_EMPTIES = frozenset("clear pop popleft popitem remove".split())


def _first_value(ctx: Context, node: ast.AST) -> bool:
    return any(any(part is node for part in ast.walk(c.methods["__init__"].node)) for c in ctx.program.symbols.classes.values() if "__init__" in c.methods)


_HOOK = "it is filled by a forward hook that nothing in this file removes"


def _grows_by_hook(ctx: Context, event: Event) -> None:
    of = event.call.func.value if isinstance(event.call.func, ast.Attribute) else event.call
    container = dotted(of.value if isinstance(of, ast.Subscript) else of)  # kept[name].append(output)
    if container and event.args[-1].kind in values.TENSORS and container not in event.function.bound and _stays(ctx, container, event.function):
        _tell_growth(ctx, event, container, event.args[-1], _HOOK)


def _stays(ctx: Context, container: str, function: Function) -> bool:
    """Does the hook stay and nothing empty its list?  What is not an object's must be filled in a loop of this file."""
    if any(not e.call.args for e in ctx.calls("remove")) or any(e.receiver == container for e in ctx.calls("clear", "pop", "popleft")):
        return False
    if container.startswith("self."):
        return not _cleared_in_class(function.cls, container) and not _read_and_made_anew(ctx, container)
    if sum(e.kind in ("bind", "delete") and e.name == container for e in ctx.program.events()) > 1:
        return False
    return any(ctx.program.passes(t) or ctx.steps(t) for t in ctx.traces)


def _tell_growth(ctx: Context, event: Event, container: str, value: values.Value, why: str) -> None:
    graph = bool(value.graph) and not ctx.program.off(event)
    ctx.report("PLM106", event.node, f"{container} grows at every forward pass and is never cleared", severity="error" if graph and value.strong else "warning",
               confidence=HIGH if value.strong else MEDIUM, evidence=[why])


def _list_member(cls: Class, name: str) -> bool:
    return any(isinstance(node, (ast.List, ast.Call)) for node, _ in cls.assigned.get(name, ()))


def _read_and_made_anew(ctx: Context, container: str) -> bool:
    member, text = container.removeprefix("self."), ctx.program.source.text
    return bool(re.search(rf"\.{member}\s*=\s*(\[\]|list\(\))", text.replace(f"self.{member} = []", "", 1))) or bool(
        re.search(rf"\.{member}\.clear\(|del self\.{member}\b", text))


@checks("PLM107")
def retried(ctx: Context) -> None:
    for trace in ctx.traces:
        for handler in trace.handlers:
            if not _is_memory(handler):
                continue
            inside = [e for e in trace.events if e.handler is handler and e.kind == "call"]
            cleared = any(e.attr in ("clear_frames",) or "__traceback__" in ast.unparse(e.node) for e in inside)
            for event in inside:
                again = ctx.program.is_backward(event) or ctx.program.is_model_call(event) or ctx.program.needs_gradients(ctx.program.called_function(event))
                if again and not cleared and not event.attr[:1].isupper() and not event.no_grad:
                    ctx.report("PLM107", event.node, "the exception still holds the failed frame and its tensors; retry after the except block",
                               evidence=[f"line {handler.lineno}: the handler"], confidence=HIGH if event.of is not None and event.of.strong else MEDIUM)
                    break


def _is_memory(handler: ast.ExceptHandler) -> bool:
    kind = ast.unparse(handler.type) if handler.type is not None else ""
    if "OutOfMemory" in kind:
        return True
    return "RuntimeError" in kind and any(isinstance(n, ast.Constant) and isinstance(n.value, str) and "out of memory" in n.value
                                          for s in handler.body for n in ast.walk(s))


# ---- evaluation ----

@checks("PLM110")
def evaluated_with_gradients(ctx: Context) -> None:
    if any(e.args and constant(e.call.args[0] if e.call.args else None) is False for e in ctx.calls("set_grad_enabled")) and not any(
            constant(e.call.args[0] if e.call.args else None) is True for e in ctx.calls("set_grad_enabled")):
        return
    for trace in ctx.traces:
        told: set[int] = set()
        for loop in ctx.inference(trace):
            _evaluation(ctx, trace, loop, told)


def _evaluation(ctx: Context, trace: Trace, loop: Loop, told: set[int]) -> None:
    inside = trace.inside(loop)
    called = [e for e in inside if ctx.program.runs_model(e) and not e.no_grad and e.loop is not None and not _only_counts(ctx, e, inside) and not ctx.program.needs_gradients(ctx.program.called_function(e))]
    if not called or ctx.program.no_grad(trace.function) or called[0].handler is not None:  # a handler: it was tried without gradients
        return
    event = called[0]
    quiet = ctx.quiet(trace, loop)
    if event.index in told or not quiet and (_noisy_by_purpose(ctx, trace, loop, called) or _of_framework(ctx, trace)):
        return
    if trace.function.name in ("forward", "training_step") or _own_gradients(ctx, trace, inside, loop):
        return
    if any(e.kind == "call" and e.attr == "requires_grad_" and not e.call.args for e in trace.events) or frozen(ctx, _models_called(called), trace):
        return
    told.add(event.index)
    _tell_evaluation(ctx, trace, loop, event, quiet)


@checks("PLM110")
def phases(ctx: Context) -> None:
    """One loop for training and evaluation: the model is put into eval mode in the other branch of the test that the backward pass is behind."""
    for trace in ctx.traces:
        callers = ctx.program.callers.get(trace.function, ())
        if any(c.no_grad for c in callers) or any(off for _, off in ctx.program.known(trace.function)):
            continue  # the caller turns gradients off for the evaluation
        for loop in ctx.steps(trace):
            inside = trace.inside(loop)
            tests = [_arms(e) for e in inside if ctx.program.is_backward(e)]
            quiet = {e.receiver: min(_training_test(arm) for arm in arms & tests[0]) for e in trace.events[:loop.end] if e.kind == "call" and e.receiver and (
                arms := {(text, 1 - at) for text, at in _quiet_arms(e)}) and all(arms & t for t in tests)}
            quiet = quiet or _quiet_by_argument(ctx, trace, [e for e in inside if ctx.program.is_backward(e)])
            for event in inside if not loop.framework else ():
                if ctx.program.is_model_call(event) and not event.no_grad and event.every(loop) and (event.receiver or event.attr) in quiet:
                    test = quiet[event.receiver or event.attr]
                    ctx.report("PLM110", event.node, "the model builds a graph for the batches of an evaluation, too: model.eval() does not stop that", confidence=MEDIUM,
                               evidence=[f"the backward pass is behind 'if {test}', and eval() is in the other branch of it, or in front of a call of this function"],
                               fix=[f"with torch.set_grad_enabled({test}):"])
                    break


def _quiet_by_argument(ctx: Context, trace: Trace, passes: list[Event]) -> dict[str, str]:
    """The models that a caller puts into eval mode in front of its call, if an argument decides whether this function goes backward; and the test of it."""
    own = {a.arg for a in parameters(trace.function)}
    tests = [{_training_test(_arm(node.test, at)) for node, at, _ in e.path if isinstance(node, ast.If) and names_in(node.test, cut=False) & own} for e in passes]
    shared = set.intersection(*tests) if tests else set()
    found: dict[str, str] = {}
    for call in ctx.program.callers.get(trace.function, ()) if shared else ():
        modes = [e for e in ctx.program.traces[call.function].events[:call.index] if sets_mode(e)]
        if modes and sets_mode(modes[-1]) == "eval" and modes[-1].receiver:
            name = modes[-1].receiver
            given = [a for a in own if (value := argument(call, trace.function, a)) is not None and dotted(value[0]) == name]
            found[given[0] if given else name] = min(shared)
    return found


def _arms(event: Event) -> set[tuple[str, int]]:
    """The tests that an event is behind, and on which side."""
    return {_arm(node.test, at) for node, at, _ in event.path if isinstance(node, (ast.If, ast.IfExp))}


def _arm(test: ast.expr, at: int) -> tuple[str, int]:
    """A test and its side, without the test's `not`."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _arm(test.operand, 1 - at)
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.IsNot) and len(test.ops) == 1:
        return ast.unparse(ast.Compare(test.left, [ast.Is()], test.comparators)), 1 - at
    return ast.unparse(test), at


def _training_test(arm: tuple[str, int]) -> str:
    """The text of a test that is true on this side."""
    text, at = arm
    return ast.unparse(ast.UnaryOp(ast.Not(), ast.parse(text, mode="eval").body)) if at else text


def _quiet_arms(event: Event) -> set[tuple[str, int]]:
    """Where `net.eval()` lies, or where `net.train(test)` is the same."""
    if sets_mode(event) == "eval":
        return _arms(event)
    return {_arm(event.call.args[0], 1)} if event.call.args and not isinstance(event.call.args[0], ast.Constant) and event.attr == "train" else set()


def _of_framework(ctx: Context, trace: Trace) -> bool:
    """Is it a method that extends its base's, `super().valid_step(x)`, or that only such ones call?  What calls those may have turned gradients off."""
    def extends(function: Function) -> bool:
        return any(isinstance(n, ast.Attribute) and n.attr == function.name and isinstance(n.value, ast.Call) and dotted(n.value.func) == "super" for n in ast.walk(function.node))
    callers = {c.function for c in ctx.program.callers.get(trace.function, ())}
    return trace.function.cls is not None and (extends(trace.function) or bool(callers) and all(extends(f) for f in callers))


def _models_called(called: list[Event]) -> set[str]:
    return {e.receiver or e.attr for e in called}


def _noisy_by_purpose(ctx: Context, trace: Trace, loop: Loop, called: list[Event]) -> bool:
    """Of models in training mode: may something else than an evaluation want these passes?"""
    if all(in_place(e.stmt, e.call) or isinstance(e.stmt, ast.Assign) and dotted(e.stmt.targets[0]) == "_" for e in called):
        return True  # no one looks at what comes out: a warm-up, a clock's loop
    if not _kept_within(ctx, trace.inside(loop)) and (not ctx.ends_here(trace, loop) or ctx.set_to_train(trace, loop)):
        return True
    cls = trace.function.cls
    if cls is not None and cls.module and not cls.lightning:
        return True
    return all(untrained(ctx, trace, name) for name in _models_called(called))


def _tell_evaluation(ctx: Context, trace: Trace, loop: Loop, event: Event, quiet: bool) -> None:
    strong = (quiet or loop.source is not None and loop.source.strong) and event.of is not None and event.of.strong
    ctx.report("PLM110", event.node, "the model builds a graph for every batch here" + (": model.eval() does not stop that" if quiet else ""),
               confidence=HIGH if strong else MEDIUM, edits=inference_edits(ctx, trace),
               evidence=[f"line {loop.node.lineno}: the loop calls {ctx.program.source.segment(event.call.func)}() and never goes backward; no torch.no_grad() around it"],
               fix=["torch.inference_mode(), or torch.no_grad() where what comes out is trained on later: tensors of inference mode cannot be"] if trace.return_nodes else [])


def inference_edits(ctx: Context, trace: Trace) -> list[Edit | None]:
    """The decorator for a function that only evaluates."""
    definition = trace.function.node
    if not isinstance(definition, ast.FunctionDef) or ctx.training(trace) or definition.decorator_list or ctx.program.symbols.imports.get("torch") != "torch":
        return []
    return [ctx.program.source.line_before(definition, "@torch.inference_mode()")]


def untrained(ctx: Context, trace: Trace, name: str) -> bool:
    """Is the model made here, and given no weights, to no optimizer and to no function?  Then this is a test of its shapes."""
    if any(e.attr == "eval" or e.attr.startswith("load") for maker in ctx.makers(trace, {name}) for e in maker.events if e.kind == "call"):
        return False
    made = [e for e in trace.events if e.kind == "bind" and e.name == name and e.value is not None and e.value.kind in values.MODULES and (
        isinstance(e.source, (ast.Call, ast.Tuple)) and (e.value.cls is not None or e.value.qual.startswith("torch.nn.")) or isinstance(e.source, ast.Call) and dotted(e.source.func).rpartition(".")[2][:1].isupper())]
    return bool(made) and not any(e.kind == "call" and _gives_weights(e, name) for e in trace.events)


def _gives_weights(event: Event, name: str) -> bool:
    if event.receiver == name:
        return event.attr.startswith("load")
    given = any(name in names_in(a) for a in (*event.call.args, *(k.value for k in event.call.keywords)))
    return given and (event.value is not None and event.value.kind == values.OPTIMIZER or event.value is not None and event.value.kind == values.UNKNOWN and event.name not in (
        "print", "sum", "str", "len", "type"))


def _kept_within(ctx: Context, inside: list[Event]) -> bool:
    """Does a rule above say that results of this loop pile up with their graphs?"""
    lines = {e.node.lineno for e in inside}
    return any(f.id in ("PLM101", "PLM103") and f.place.line in lines for f in ctx.findings)


def _only_counts(ctx: Context, event: Event, inside: list[Event]) -> bool:
    """`for _ in range(n)` that uses its number for nothing, and in which no pass goes on from the one before: a warm-up, or a clock's loop."""
    node = event.loop.node if event.loop is not None else None
    made = {e.name for e in inside if e.kind == "bind" and e.stmt is event.stmt and e.name}
    given = set().union(*(names_in(a) for a in event.call.args), *(names_in(k.value) for k in event.call.keywords))
    if made & ctx.ancestors(given, inside, cut=False):
        return False
    if not isinstance(node, ast.For) or not Context.counted(Loop(node, None, 0)) or not isinstance(node.target, ast.Name):
        return False
    return not any(isinstance(n, ast.Name) and n.id == node.target.id for stmt in node.body for n in ast.walk(stmt))


def _own_gradients(ctx: Context, trace: Trace, inside: list[Event], loop: Loop) -> bool:
    fed = ctx.fed(trace)
    out = {e.name for e in inside if e.kind in ("bind", "augment", "store") and e.name in fed and e.value is not None and e.value.graph}
    out |= {e.receiver for e in inside if e.kind == "call" and e.attr in ("append", "extend") and e.receiver in fed}
    if any(ctx.escapes(trace, name, loop) for name in out):
        return True
    if any(e.kind == "call" and e.attr in ("grad", "jacobian", "vjp", "attribute", "attack", "perturb") for e in inside):
        return True
    return not ctx.ends_here(trace, loop) and ctx.result_is_fed(trace.function)


def frozen(ctx: Context, models: set[str], trace: Trace) -> bool:
    """Were the parameters of one of these, or of a part of it, frozen here, where it was made, or by its class?  Then no graph, or a smaller one, is built."""
    cls = trace.function.cls
    classes = {v.cls for name in models if (v := ctx.program.attribute(cls, name) if cls is not None and name.startswith("self.") else _made(ctx, trace, name)) is not None and v.cls is not None}
    for maker in (trace, *ctx.makers(trace, models), *(t for c in classes for m in c.methods.values() if _asked_for(ctx, m) and (t := ctx.program.trace_of(m)) is not None)):
        if any(_freezes(e) for e in maker.events) and maker is not trace:
            return True
    known = {part for name in models for part in (name, *(name[:at] for at, letter in enumerate(name) if letter == "."))} - {"self"}
    return any(k == f or f.startswith(k + ".") for f in _frozen_names(ctx) for k in known)


def _asked_for(ctx: Context, method: Function) -> bool:
    """Is a method its class's constructor, or does this file or the class's ask for its name?"""
    return method.name.startswith("__") or any("." + method.name in text for text in (ctx.program.source.text, ctx.program.home(method).source.text))


def _made(ctx: Context, trace: Trace, name: str) -> values.Value | None:
    given = next((v for a, v in zip(parameters(trace.function), ctx.program.given.get(trace.function, ())) if a.arg == name), None)
    return given if given is not None and given.strong and given.kind in values.MODULES else next((e.value for e in ctx.program.events() if e.kind == "bind" and e.name == name and e.value is not None and e.value.cls is not None), None)


def _frozen_names(ctx: Context) -> set[str]:
    """What the file freezes, by name, and by what callers call the parameters of a function that does."""
    found: set[str] = set()
    for trace in ctx.traces:
        for event in [e for e in trace.events if _freezes(e)]:
            of = names_in(event.call.func.value, cut=False) if event.kind == "call" and isinstance(event.call.func, ast.Attribute) else {event.name.removesuffix(".requires_grad")}
            for name in ctx.ancestors(of, trace.events):
                found |= {known for _, known in known_as(ctx, trace.function, name)}
    return found


def _freezes(event: Event) -> bool:
    """`net.requires_grad_(False)`, `p.requires_grad = False`, also if an argument decides."""
    if event.kind == "bind" and event.name.endswith(".requires_grad"):
        return constant(event.source) is not True
    return event.kind == "call" and event.attr == "requires_grad_" and bool(event.call.args) and constant(event.call.args[0]) is not True


@checks("PLM111")
def outputs_stay(ctx: Context) -> None:
    for event in ctx.calls("append", "extend"):
        loop = ctx.inference_of(event)
        if loop is None or not event.receiver or not event.args or event.handler is not None:
            continue
        trace = ctx.trace(event)
        if not ctx.program.off(event) and event.args[-1].graph:
            continue  # PLM103 says it
        value, what = event.args[-1], event.call.args[-1] if event.call.args else None
        if what is None or value.kind not in values.TENSORS or value.scalar or value.device == "cpu" or event.of is not None and event.of.kind in values.MODULES:
            continue
        if not _from_model(ctx, trace, loop, what) or not _outlives(ctx, event, trace, event.receiver, loop) or event.loop is not loop:
            continue
        if _bounded(trace, loop) or not ctx.gpu or not _over_a_set(loop) or _wanted_there(trace, loop, event.receiver):
            continue
        text = ctx.program.source.segment(what)
        ctx.report("PLM111", event.node, f"{event.receiver} keeps the model's outputs for the whole set on the GPU",
                   confidence=HIGH if value.strong else MEDIUM,
                   edits=[ctx.program.source.after(what, ".cpu()")] if isinstance(what, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)) else [],
                   evidence=[f"line {loop.node.lineno}: the loop; {text} comes from the model and is neither reduced nor moved"])


def _wanted_there(trace: Trace, loop: Loop, container: str) -> bool:
    """Does an object get the whole afterwards, as a bank of features or an index does, which is asked on the GPU?"""
    held = {container}
    for event in trace.events[loop.end:]:
        if event.kind == "bind" and names_in(event.source) & held and not _copied_to_cpu(event.source):
            if "." in event.name:
                return True
            held.add(event.name)
        elif event.kind == "call" and event.attr[:1].isupper() and not event.name.startswith("torch.") and any(names_in(a) & held for a in event.call.args):
            return True
    return False


def _copied_to_cpu(node: ast.expr | None) -> bool:
    return any(_reduces_output(part) for part in pick(node, ast.Call))


_REDUCES = frozenset("argmax argmin mean sum item max min topk sort unique any all eq numpy tolist cpu norm".split())


def _from_model(ctx: Context, trace: Trace, loop: Loop, what: ast.expr) -> bool:
    """Is it what the model returned, not reduced and not moved?"""
    seen: set[str] = set()
    todo: list[ast.expr] = [what]
    found = False
    events = trace.inside(loop)
    while todo:
        for part in ast.walk(todo.pop()):
            if _reduces_output(part):
                return False
            if isinstance(part, ast.Call):
                found = found or any(e.node is part and ctx.program.is_model_call(e) for e in events)
            elif isinstance(part, ast.Name) and part.id not in seen:
                seen.add(part.id)
                todo += [e.source for e in events if e.kind == "bind" and e.name == part.id and e.source is not None and e.loop is loop]
    return found


def _reduces_output(part: ast.AST) -> bool:
    """Does a part of an expression make a measure of the model's output, one class's probability, or a copy on the CPU?"""
    if isinstance(part, ast.Call):
        called = part.func.attr if isinstance(part.func, ast.Attribute) else dotted(part.func)
        if called in _REDUCES or any(word in called.lower() for word in ("loss", "criterion", "acc")):
            return True
        return isinstance(part.func, ast.Attribute) and called == "to" and bool(part.args) and constant(part.args[0]) == "cpu"
    if isinstance(part, ast.Subscript):  # the probability of one class: a number per row
        return isinstance(part.slice, ast.Tuple) and isinstance(part.slice.elts[-1], ast.Constant) and any(
            isinstance(n, ast.Call) and dotted(n.func).rpartition(".")[2] in ("softmax", "sigmoid") for n in ast.walk(part.value))
    return isinstance(part, ast.Compare) or isinstance(part, ast.BinOp) and isinstance(part.op, ast.Sub)


def _over_a_set(loop: Loop) -> bool:
    """Does it go through a loader, a data set, or range(start, stop, step), as batches do?  Other loops may make a few pictures."""
    node = loop.node
    batches = isinstance(node, ast.For) and isinstance(node.iter, ast.Call) and len(node.iter.args) == 3 and Context.counted(loop)
    return batches or loop.source is not None and loop.source.kind in (values.LOADER, values.DATASET)


def _bounded(trace: Trace, loop: Loop) -> bool:
    return any(e.kind == "leave" and isinstance(e.node, ast.Break) and e.loop is loop for e in trace.inside(loop))


@checks("PLM112")
def logits_pile_up(ctx: Context) -> None:
    if not ctx.program.symbols.imported("transformers"):
        return
    arguments = [e for e in ctx.calls("TrainingArguments", "Seq2SeqTrainingArguments")]
    if any(e.open_ended for e in arguments) or not arguments or any(
            e.keyword(k) is not None for e in arguments for k in ("eval_accumulation_steps", "prediction_loss_only", "batch_eval_metrics", "predict_with_generate")):
        return
    for event in ctx.calls("Trainer"):
        if event.keyword("compute_metrics") is not None and constant(event.keyword("compute_metrics")) is not None and (
                event.keyword("preprocess_logits_for_metrics") is None and not event.open_ended) and not _of_whole_samples(ctx, event):
            ctx.report("PLM112", event.node, "all evaluation logits are gathered on the GPU before metrics are computed",
                       evidence=["compute_metrics without preprocess_logits_for_metrics or eval_accumulation_steps"])


def _of_whole_samples(ctx: Context, event: Event) -> bool:
    """Is the model a classifier of whole samples, whose logits are one row per sample?"""
    given = dotted(event.keyword("model") or (event.call.args[0] if event.call.args else ast.Constant(None)))
    made = [e.value.qual for e in ctx.program.events() if e.kind == "bind" and e.name == given and e.value is not None]
    return bool(made) and all(re.search(r"For(Sequence|Image|Audio|Video)Classification$", q.removesuffix(".from_pretrained")) for q in made)


@checks("PLM113")
def hook_stays(ctx: Context) -> None:
    for event in ctx.calls("register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook", "register_backward_hook"):
        if not in_place(event.stmt, event.call):
            continue
        forward = event.function.name == "forward" and event.function.cls is not None and event.function.cls.module
        loop = ctx.step_of(event) or ctx.evaluation_of(event) or ctx.epoch_of(event)
        if forward and event.every(None) or loop is not None and event.every(loop):
            ctx.report("PLM113", event.node, "each iteration adds another hook", evidence=["the handle that could remove it is thrown away"])


@checks("PLM115")
def models_pile_up(ctx: Context) -> None:
    for event in ctx.calls("from_pretrained", "from_single_file"):
        loop = event.loop
        value = event.value
        if loop is None or loop.framework or value is None or value.kind != values.MODULE or not isinstance(loop.node, ast.For):
            continue
        stmt = event.stmt
        text = ast.unparse(stmt)
        if not re.search(r"\.cuda\(|\.to\(|device_map", text) or re.search(r"""['"]cpu['"]|meta""", text) or not event.every(loop):
            continue
        trace = ctx.trace(event)
        if isinstance(stmt, ast.Assign) and isinstance(stmt.targets[0], ast.Name):
            name = stmt.targets[0].id
            stored = any(e.kind == "call" and e.attr in ("append", "add", "insert") and e.call.args and dotted(e.call.args[-1]) == name or e.kind == "store" and
                         e.source is not None and dotted(e.source) == name for e in trace.inside(loop))
            if not stored and not any(e.name == name and e.kind in ("delete", "bind") and e.stmt is not stmt or e.kind == "call" and e.receiver == name and
                       e.attr in ("cpu", "to") and e.stmt is not stmt for e in trace.inside(loop)):
                ctx.report("PLM115", stmt, f"two models are alive while the next one loads: {name} still holds the one before",
                           evidence=[f"line {loop.node.lineno}: the loop; {name} is not deleted in it"], fix=[f"del {name} at the end of the loop's body"])


@checks("PLM118")
def loaded_again(ctx: Context) -> None:
    """The same weights in each iteration: from_pretrained() in the loop, or in a function of the file that it calls."""
    for event in ctx.program.events():
        if event.kind != "call" or event.loop is None or event.loop.framework or not event.every(event.loop):
            continue
        called = ctx.program.called_function(event)
        trace = ctx.program.traces.get(called) if called is not None and not getattr(called.node, "decorator_list", ()) else None
        loads = [event] if trace is None else [e for e in trace.events if e.loop is None and e.every() and not ctx.program.called_function(e)]
        for load in loads:
            if load.attr != "from_pretrained" or load.value is None or load.value.kind != values.MODULE or not load.value.strong or load.open_ended:
                continue
            given = set().union(*(names_in(a, cut=False) for a in [*load.call.args, *(k.value for k in load.call.keywords)]))
            if trace is None and (any(ctx.bound_in(ctx.trace(event), name, event.loop) for name in given) or load.receiver in ctx.loop_names(event.loop)):
                continue
            if trace is not None and given & {a.arg for a in _parameters(load)} or not load.call.args:
                continue
            ctx.report("PLM118", event.node, "the same model is loaded in every iteration", evidence=[f"line {event.loop.node.lineno}: the loop"] + (
                [f"line {load.node.lineno}: from_pretrained()"] if load is not event else []), fix=["load it once, before the loop"])
            break


@checks("PLM115")
def copies_pile_up(ctx: Context) -> None:
    """`snapshots.append(copy.deepcopy(model))` around a training loop, or of its state_dict(): one more model on the GPU each time."""
    for event in ctx.calls("append"):
        what = event.call.args[0] if len(event.call.args) == 1 else None
        copied = _copied(ctx, what)
        if copied is None or event.handler is not None or not around_training(ctx, event):
            continue
        module, strong = _weights_of(ctx, event, copied)
        if module:
            ctx.report("PLM115", event.stmt, f"{event.receiver} keeps one more copy of {module} each time, on the device of {module}", confidence=HIGH if strong else MEDIUM,
                       evidence=[f"line {event.loop.node.lineno}: the loop; nothing in it empties {event.receiver}" if event.loop is not None else ""],
                       fix=["keep {k: v.cpu() for k, v in " + module + ".state_dict().items()}"])


def _copied(ctx: Context, what: ast.expr | None) -> ast.expr | None:
    """What is copied by `copy.deepcopy(x)` or `{k: v.clone() for k, v in x.items()}`."""
    if isinstance(what, ast.Call):
        return what.args[0] if ctx.program.symbols.qualified(what.func) == "copy.deepcopy" and what.args else None
    if not isinstance(what, ast.DictComp) or len(what.generators) != 1:
        return None
    of, value = what.generators[0].iter, what.value
    called = {n.func.attr for n in ast.walk(value) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)}
    items = isinstance(of, ast.Call) and isinstance(of.func, ast.Attribute) and of.func.attr == "items" and not of.args
    return of.func.value if items and called and called <= {"clone", "detach"} and "clone" in called else None  # type: ignore[attr-defined]


def _weights_of(ctx: Context, event: Event, copied: ast.expr) -> tuple[str, bool]:
    """The module whose weights these are: it or its state_dict(); "" for anything else."""
    if isinstance(copied, ast.Call) and isinstance(copied.func, ast.Attribute) and copied.func.attr == "state_dict" and not copied.args:
        asked = next((e for e in ctx.calls("state_dict") if e.node is copied), None)
        known = asked is not None and asked.of is not None and asked.of.kind in values.MODULES
        return (ctx.program.source.segment(copied.func.value), asked.of.strong) if known and asked is not None and asked.of is not None else ("", False)
    return (ctx.program.source.segment(copied), event.args[0].strong) if event.args and event.args[0].kind in values.MODULES else ("", False)


def around_training(ctx: Context, event: Event) -> bool:
    """Does each iteration of a loop around a training loop put one more into a list that nothing bounds or empties?"""
    trace, loop = ctx.trace(event), event.loop
    if loop is None or not event.every(loop) or not any(loop.around(l) for l in ctx.training(trace)):
        return False
    return bool(event.receiver) and (event.of is None or event.of.bound is None) and _outlives(ctx, event, trace, event.receiver, loop)


@checks("PLM116")
def zeroed_late(ctx: Context) -> None:
    for trace in ctx.traces if ctx.gpu and _short_of_memory(ctx) else ():
        for loop in ctx.steps(trace):
            if loop.framework:
                continue
            inside = [e for e in trace.inside(loop) if e.loop is loop]
            zero = [e for e in inside if e.kind == "call" and e.attr == "zero_grad"]
            backward = [e for e in inside if ctx.program.is_backward(e)]
            steps = [e for e in inside if ctx.program.is_step(e)]
            forward = [e for e in inside if ctx.program.is_model_call(e) and not e.no_grad]
            if len(zero) != 1 or len(backward) != 1 or len(steps) != 1 or not forward:
                continue
            z = zero[0]
            if not z.every(loop) or not steps[0].every(loop) or z.of is None or z.of.kind not in (values.OPTIMIZER, values.MODULE, values.ENGINE):
                continue
            if ctx.bound_in(trace, z.receiver, loop):
                continue  # a new optimizer, or model, has no gradients of the last step
            if forward[0].index < z.index < backward[0].index < steps[0].index and not ctx.program.off(forward[0]):
                ctx.report("PLM116", z.node, "gradients of the last step live through this forward pass",
                           confidence=HIGH if z.of.strong else MEDIUM, edits=_moved(ctx, z.stmt, steps[0].stmt),
                           evidence=[f"line {forward[0].node.lineno}: the forward pass", f"line {z.node.lineno}: its gradients are cleared only here"])


def _short_of_memory(ctx: Context) -> bool:
    """Does the file save memory in another way, or train a library's model?  Gradients of small models are small."""
    calls = ("autocast", "checkpoint", "gradient_checkpointing_enable", "empty_cache", "bfloat16", "half", "fully_shard", "from_pretrained", "FullyShardedDataParallel")
    return any(any(ctx.calls(name)) for name in calls)


def _moved(ctx: Context, what: ast.stmt, behind: ast.stmt) -> list[Edit | None]:
    source = ctx.program.source
    if not isinstance(what, ast.Expr):
        return []
    return [source.without(what), source.line_after(behind, source.segment(what))]
