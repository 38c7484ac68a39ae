"""A training step that builds graphs, or goes back through them, for nothing: a teacher, a generator without detach(), create_graph."""
from __future__ import annotations

import ast
from dataclasses import dataclass, field

from .. import names, values
from ..context import HIGH, MEDIUM, Context, checks, constant, names_in, sets_mode, uncut
from ..symbols import Function, dotted
from ..trace import Event, Loop, Trace
from ..walk import argument, parameters

LIBRARIES = ("torch.", "torchvision.", "transformers.", "timm.", "segmentation_models_pytorch.")  #: what they make has weights that can be trained


@dataclass
class _Step:
    """What is done again and again: a training loop, or a function that goes backward once."""

    ctx: Context
    trace: Trace
    loop: Loop | None
    events: list[Event]
    plain: bool = False  #: functions that it calls are not looked into
    calls: dict[ast.AST, Event] = field(default_factory=dict)  #: calls of modules that build a graph
    helpers: dict[ast.AST, "_Helper"] = field(default_factory=dict)  #: calls of functions of the program
    made: dict[ast.AST, Event] = field(default_factory=dict)  #: those of them that return what one module makes

    def __post_init__(self) -> None:
        self.calls = {e.node: e for e in self.events if self.ctx.program.is_model_call(e) and not e.no_grad and e.handler is None and
                      e.of is not None and e.of.kind == values.MODULE and e.value is not None and e.value.graph == values.YES}
        for event in () if self.plain else self.events:
            helper = _helper(self.ctx, event)
            if helper is not None:
                self.helpers[event.node] = helper
                if len(helper.modules) == 1 and event.value is not None and event.value.graph == values.YES:
                    self.made[event.node] = event

    def reached(self, start: list[ast.expr], before: int) -> list[Event]:
        """The modules' calls that a graph of these expressions leads back to."""
        return self.way(start, before)[0]

    def way(self, start: list[ast.expr], before: int) -> tuple[list[Event], set[str], set[str]]:
        """These calls, the modules that functions on the way call, and the names on it."""
        found: list[Event] = []
        within: set[str] = set()
        seen: set[str] = set()
        cut: set[ast.AST] = set()
        todo = list(start)
        while todo:
            for part in uncut(todo.pop()):
                if part in cut:
                    continue
                call = self.calls.get(part) or self.made.get(part)
                if call is not None and call not in found:
                    found.append(call)
                if call is not None and _may_detach(self.ctx, call):
                    cut |= {inner for given in _given(call) for inner in ast.walk(given)}
                helper = self.helpers.get(part)
                if helper is not None:
                    within |= helper.modules
                    cut |= helper.cut
                name = dotted(part) if isinstance(part, (ast.Name, ast.Attribute)) else ""
                if name and name not in seen:
                    seen.add(name)
                    todo += self.sources(name, before)
        return found, within, seen

    def sources(self, name: str, before: int) -> list[ast.expr]:
        """What a name may hold then: its last value on each path, and what was added since."""
        made: list[ast.expr] = []
        for event in reversed(self.events):
            if event.index >= before or event.no_grad:
                continue
            if event.kind in ("bind", "augment", "store") and event.name == name and event.source is not None:
                made.append(event.source)
                if event.kind == "bind" and event.every(self.loop) and name not in names_in(event.source):
                    break
            elif event.kind == "call" and event.attr in ("append", "extend") and event.receiver == name:
                made += event.call.args[-1:]
        return made


@dataclass(frozen=True)
class _Helper:
    """A call of a function of the program that computes with modules, as it is seen from there."""

    modules: set[str]  #: on the way to what it returns
    cut: set[ast.AST]  #: in arguments whose graph does not reach what it returns


def _helper(ctx: Context, event: Event) -> _Helper | None:
    called = ctx.program.called_function(event) if event.kind == "call" and not event.no_grad and not ctx.program.is_model_call(event) else None
    trace = ctx.program.trace_of(called)
    if called is None or trace is None or trace.no_grad or not trace.return_nodes or called is event.function:
        return None
    calls, _, seen = _Step(ctx, trace, None, trace.events, plain=True).way(trace.return_nodes, len(trace.events))
    cut = {part for p in parameters(called) if p.arg not in seen and (given := argument(event, called, p.arg)) is not None for part in ast.walk(given[0])}
    return _Helper({_seen_from(ctx, event, called, _module(c)) for c in calls} - {""}, cut)


def _seen_from(ctx: Context, event: Event, called: Function, name: str) -> str:
    """What a module of a function is called where the function is called; "" if that is not known."""
    first, _, rest = name.partition(".")
    if first == "self":
        return name if event.receiver == "self" and called.cls is event.function.cls else ""
    given = argument(event, called, first)
    if given is not None:
        return dotted(given[0]) + ("." + rest if rest else "") if dotted(given[0]) else ""
    return name if name and first not in called.bound and ctx.program.home(called) is ctx.program else ""


def _steps(ctx: Context, trace: Trace) -> list[_Step]:
    found = [_Step(ctx, trace, loop, trace.inside(loop)) for loop in ctx.steps(trace) if not loop.framework]
    if not isinstance(trace.function.node, ast.Module) and any(e.loop is None and ctx.program.is_backward(e) for e in trace.events):
        found.append(_Step(ctx, trace, None, trace.events))
    return found


def _module_of(step: _Step, call: Event) -> str:
    helper = step.helpers.get(call.node)
    return _module(call) if helper is None else next(iter(helper.modules))


def _module(event: Event) -> str:
    return dotted(event.call.func).removesuffix(".forward")


def _may_detach(ctx: Context, call: Event) -> bool:
    """Does the module's forward() cut a graph somewhere, perhaps if an argument says so?  Then what it is given may not be gone back through."""
    trace = ctx.program.trace_of(ctx.program.called_function(call)) if ctx.program.is_model_call(call) else None
    return trace is not None and any(e.no_grad or e.kind == "call" and e.attr in ("detach", "detach_") for e in trace.events)


def _given(event: Event) -> list[ast.expr]:
    return [*event.call.args, *(k.value for k in event.call.keywords)]


@checks("PLM119")
def built_for_nothing(ctx: Context) -> None:
    for trace in ctx.traces:
        if trace.no_grad:
            continue
        for step in _steps(ctx, trace):
            if step.calls:
                _gone_through(ctx, step)
                _fixed_modules(ctx, step)


# ---- a module in eval mode that no optimizer has ----

def _fixed_modules(ctx: Context, step: _Step) -> None:
    told: set[str] = set()
    others = {_module(c) for c in step.calls.values()}
    for call in step.calls.values():
        name = _module(call)
        if not name or name in told or len(others) < 2 or not _without_graph(step, call) or not _in_eval_mode(ctx, step, call, name):
            continue
        sure = _weights_known(ctx, call)
        if not sure or _may_be_trained(ctx, step.trace.function, name):
            continue
        told.add(name)
        ctx.report("PLM119", call.node, f"this pass of {name} builds a graph, and nothing trains {name}: call it under torch.no_grad()",
                   confidence=MEDIUM if sure < HIGH else HIGH,
                   evidence=[f"{name} is in eval mode, what goes in carries no graph, and no optimizer of this file is given its parameters"])


def _without_graph(step: _Step, call: Event) -> bool:
    """Does nothing that the pass is given carry a graph, as far as it is made in the step?"""
    if any(a.graph or a.kind in values.MODULES for a in call.args) or step.reached(_given(call), call.index):
        return False
    modules = {_module(c) for c in step.calls.values()}
    made = step.ctx.ancestors(set().union(*(names_in(a) for a in _given(call))), [e for e in step.events if e.index < call.index])
    if made & modules:
        return False  # a function that is given a module made it: an attack's pictures, a generator's
    return not any(e.kind == "call" and e.attr in ("requires_grad_", "retain_grad") and e.receiver in made or
                   e.kind == "bind" and e.name.endswith(".requires_grad") and e.name.removesuffix(".requires_grad") in made for e in step.trace.events)


def _in_eval_mode(ctx: Context, step: _Step, call: Event, name: str) -> bool:
    modes = {sets_mode(e) for e in step.trace.events if e.receiver == name and sets_mode(e)}
    if not modes and name.split(".")[0] not in step.trace.function.bound | {a.arg for a in parameters(step.trace.function)}:
        modes = ctx.modes(name)
    return modes == {"eval"}


def _weights_known(ctx: Context, call: Event) -> float:
    """How sure is it that the module has weights that could be trained: its class is seen, or is a library's, and freezes nothing?"""
    of = call.of
    assert of is not None
    if of.cls is not None:
        home = ctx.program.home(of.cls)
        text = ast.get_source_segment(home.source.text, of.cls.node) or ""
        return 0.0 if "requires_grad" in text or "no_grad" in text or "inference_mode" in text else HIGH
    if of.qual.startswith(LIBRARIES):
        return HIGH if of.strong else MEDIUM
    return 0.0


def known_as(ctx: Context, function: Function, name: str, levels: int = 2) -> list[tuple[Function, str]]:
    """The module's names: this one, and those that callers give for a parameter."""
    found = [(function, name)]
    if name in {a.arg for a in parameters(function)} and levels:
        for event in ctx.program.callers.get(function, ()):
            given = argument(event, function, name)
            for part in _elements(given[0]) if given is not None else ():
                if dotted(part):
                    found += known_as(ctx, event.function, dotted(part), levels - 1)
    return found


def _may_be_trained(ctx: Context, function: Function, name: str) -> bool:
    """Is the module given to an optimizer, frozen, or given to something that may do either?"""
    known = {n for _, n in known_as(ctx, function, name)}
    if name in {a.arg for a in parameters(function)} and len(known) < 2 and not ctx.program.callers.get(function):
        return True
    return any(_may_change(ctx, event, known) for event in ctx.program.events())


def _may_change(ctx: Context, event: Event, known: set[str]) -> bool:
    """Is it asked for its parameters, or those of a part of it, or given to a function that may be?"""
    if event.kind != "call":
        return False
    if event.attr == "apply" and event.args and (meant := event.args[0].function or event.args[0].cls) is not None:
        return event.receiver in known and "requires_grad" in (ast.get_source_segment(ctx.program.home(meant).source.text, meant.node) or "")
    if event.attr in ("requires_grad_", "apply", "parameters", "named_parameters", "modules", "named_modules"):
        return any(event.receiver == name or event.receiver.startswith(name + ".") for name in known)
    if not any(dotted(part) in known for given in _given(event) for part in _elements(given)) or event.name.startswith(("torch.", "copy.")) or event.name in ("print", "len"):
        return False
    called = ctx.program.called_function(event)
    if called is None:
        return True
    text = ast.get_source_segment(ctx.program.home(called).source.text, called.node) if not isinstance(called.node, ast.Module) else ""
    return "requires_grad" in (text or "") or "optim." in (text or "")


def _elements(node: ast.expr) -> list[ast.expr]:
    return [part for n in node.elts for part in _elements(n)] if isinstance(node, (ast.Tuple, ast.List)) else [node.value if isinstance(node, ast.Starred) else node]


# ---- a backward pass through a module whose gradients are thrown away ----

def _gone_through(ctx: Context, step: _Step) -> None:
    events: list[Event] = step.events
    told: set[Event] = set()
    for at, event in enumerate(events):
        found = _backward(ctx, step, at)
        if found is None:
            continue
        roots, trained, within = found
        reached, more, _ = step.way(roots, event.index)
        within |= more
        for call in reached:
            name = _module_of(step, call)
            if not name or name in trained or call in told or any(_module_of(step, c) in trained or _module_of(step, c) != name for c in step.reached(_given(call), call.index)):
                continue
            zero = _thrown_away(ctx, step, at, name) if _inputs_plain(call) and not _frozen_here(ctx, step, name) else None
            if zero is not None and (within & trained or any(_module_of(step, c) in trained for c in reached)):
                told.add(call)
                source = ctx.program.source
                ctx.report("PLM119", call.stmt, f"line {event.node.lineno} goes back through {name} for nothing: detach() what {name} made for it",
                           confidence=HIGH if call.of is not None and call.of.strong else MEDIUM,
                           evidence=[f"line {event.node.lineno}: {source.segment(event.call.func)}(); the step after it trains {', '.join(sorted(trained))}",
                                     f"line {zero.node.lineno}: the gradients of {name} are set to zero before anything uses them"])


def _backward(ctx: Context, step: _Step, at: int) -> tuple[list[ast.expr], set[str], set[str]] | None:
    """Of an event that goes backward: from what, which modules the step after it trains, and those that its function calls on the way."""
    event = step.events[at]
    if ctx.program.is_backward(event) and isinstance(event.call.func, ast.Attribute):
        trained = _stepped_after(ctx, step, at)
        return None if trained is None else ([event.call.func.value, *event.call.args], trained, set())
    called = ctx.program.called_function(event)
    trace = ctx.program.trace_of(called) if ctx.feeds(event) and not event.no_grad else None
    if called is None or trace is None or step.plain or called is event.function or ctx.program.home(called) is not ctx.program:
        return None
    inner = _Step(ctx, trace, None, trace.events)
    passes = [i for i, e in enumerate(trace.events) if ctx.program.is_backward(e)]
    found = _backward(ctx, inner, passes[0]) if len(passes) == 1 else None
    if found is None:
        return None
    roots, trained, _ = found
    calls, within, seen = inner.way(roots, trace.events[passes[0]].index)
    given = [value[0] for p in parameters(called) if p.arg in seen and (value := argument(event, called, p.arg)) is not None]
    return given, {_seen_from(ctx, event, called, n) for n in trained} - {""}, {_seen_from(ctx, event, called, n) for n in {*within, *(_module_of(inner, c) for c in calls)}}


def _inputs_plain(call: Event) -> bool:
    return not any(a.graph for a in call.args)


def _frozen_here(ctx: Context, step: _Step, name: str) -> bool:
    """May the function turn the gradients of a module off: itself, or by a function that it gives the module?"""
    for event in step.trace.events:
        if event.kind == "call" and event.attr in ("parameters", "named_parameters") and event.receiver == name:
            if isinstance(event.stmt, (ast.For, ast.AsyncFor)) and "requires_grad" in ast.unparse(event.stmt):
                return True
        elif event.within(step.loop) if step.loop is not None else True:
            if _may_change(ctx, event, {name}):
                return True
    return False


def _optimizer_of(ctx: Context, event: Event) -> set[str] | None:
    """The modules whose parameters the optimizer of `opt.step()` has; None where that is not seen."""
    name = event.receiver
    made = [e for e in ctx.program.events() if e.kind == "bind" and e.name == name and e.value is not None and e.value.kind == values.OPTIMIZER and e.value.node is e.source]
    if len(made) != 1 or not isinstance(made[0].source, ast.Call):
        return None
    call = made[0].source
    first = call.args[0] if call.args else next((k.value for k in call.keywords if k.arg == "params"), None)
    found = {dotted(n.func.value) for n in ast.walk(first) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr == "parameters"} if first is not None else set()
    return found if found and "" not in found else None


def _stepped_after(ctx: Context, step: _Step, at: int) -> set[str] | None:
    """What the optimizers train that step between this backward pass and the next one; None if that is not all seen."""
    trained: set[str] = set()
    for event in step.events[at + 1:]:
        if ctx.feeds(event):
            break
        if event.kind == "call" and event.attr == "step" and ctx.program.is_step(event):
            found = _optimizer_of(ctx, event)
            if found is None:
                return None
            trained |= found
    return trained or None


def _thrown_away(ctx: Context, step: _Step, at: int, name: str) -> Event | None:
    """The zero_grad() that comes before the optimizer of a module steps, after this backward pass."""
    for event in step.events[at + 1:] + step.events[:at]:
        if event.kind != "call" or event.attr not in ("zero_grad", "step") or not event.receiver:
            continue
        if event.attr == "zero_grad" and event.receiver == name:
            return event
        found = _optimizer_of(ctx, event)
        if found is not None and name in found:
            return event if event.attr == "zero_grad" else None
        if found is None and event.attr == "step" and ctx.program.is_step(event):
            return None
    return _zeroed_elsewhere(ctx, step, name)


def _zeroed_elsewhere(ctx: Context, step: _Step, name: str) -> Event | None:
    """The zero_grad() in front of the backward pass that another function makes for the optimizer of a module; None if one does without."""
    found: Event | None = None
    for event in ctx.calls("step"):
        trained = _optimizer_of(ctx, event) if ctx.program.is_step(event) else set()
        if trained is not None and name not in trained:
            continue
        before = ctx.trace(event).events[:event.index]
        last = max((e.index for e in before if ctx.program.is_backward(e)), default=0)
        zero = [e for e in before[:last] if e.kind == "call" and e.attr == "zero_grad" and e.receiver in (event.receiver, name)]
        if trained is None or not zero or event.function is step.trace.function:
            return None
        found = zero[-1]
    return found


# ---- create_graph for nothing ----

@checks("PLM105")
def created_for_nothing(ctx: Context) -> None:
    for event in ctx.calls("grad"):
        if event.name != "torch.autograd.grad" or constant(event.keyword("create_graph")) is not True or event.no_grad:
            continue
        trace = ctx.trace(event)
        if not isinstance(event.stmt, ast.Assign) or _used_with_graph(ctx, trace, event):
            continue
        ctx.report("PLM105", event.node, "create_graph=True, and nothing goes back through these gradients: it only keeps the graph of the backward pass", confidence=MEDIUM,
                   evidence=["what is made of them reaches no backward pass, does not leave the function, and is given to nothing that could differentiate it"])


def _spreads(trace: Trace, event: Event, known: set[str], quiet: set[ast.stmt]) -> bool:
    """Adds names to `known` that are made of those that it has; is anything else than a plain name made of them?"""
    size = 0
    while size != len(known):
        size = len(known)
        for other in trace.events:
            if other.stmt in quiet or other.stmt is event.stmt:
                continue
            source = other.source if other.kind in ("bind", "augment", "store") else other.call.args[-1] if other.kind == "call" and other.attr in (
                "append", "extend") and other.call.args else None
            target = other.receiver if other.kind == "call" else other.name
            if source is not None and _uses(source, known):
                if "." in target or not target:
                    return True
                known.add(target)
    return False


def _used_with_graph(ctx: Context, trace: Trace, event: Event) -> bool:
    """May anything differentiate what the call returns, or what is made of it with its graph?"""
    assert isinstance(event.stmt, ast.Assign)
    known = {dotted(n) for target in event.stmt.targets for n in ast.walk(target) if isinstance(n, (ast.Name, ast.Attribute)) and dotted(n)}
    if any("." in n for n in known):
        return True
    quiet = {e.stmt for e in trace.events if e.no_grad}
    if _spreads(trace, event, known, quiet):
        return True
    if known & (ctx.fed(trace) | ctx.returned_directly(trace)):
        return True
    return any(other.kind == "call" and other.stmt not in quiet and other.stmt is not event.stmt and any(_uses(a, known) for a in _given(other))
               for other in trace.events) or any(isinstance(n, (ast.Yield, ast.YieldFrom, ast.FunctionDef, ast.Lambda)) and n is not trace.function.node
                                                 for n in ast.walk(trace.function.node) if not isinstance(trace.function.node, ast.Module))


def _uses(node: ast.expr, known: set[str]) -> bool:
    return any(isinstance(n, ast.Name) and n.id in known for n in uncut(node))
