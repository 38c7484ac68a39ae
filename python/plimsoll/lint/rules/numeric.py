"""PLM8xx: loops and losses that do not compute what they look like."""
from __future__ import annotations

import ast
import re

from .. import names, values
from ..context import HIGH, LOW, MEDIUM, Context, checks, constant, in_place, names_in
from ..finding import Edit
from ..symbols import Class, dotted
from ..trace import Event, Loop, Trace, apart, leads_to


def _zeroes(event: Event) -> bool:
    if event.kind == "call":
        return bool(re.search(r"zero_grad|zero_|reset_grad|clear_grad|zero_gradients", event.attr)) or event.attr == "set_to_none"
    if event.kind == "bind" and event.name.endswith(".grad"):
        return True
    return False


@checks("PLM801")
def zero_grad_missing(ctx: Context) -> None:
    text = ctx.program.source.text
    if ctx.program.symbols.imported("deepspeed", "colossalai", "accelerate.accelerator") and "zero_grad" not in text or ctx.mentions("dist_autograd", "functorch", "higher."):
        return
    for trace in ctx.traces:
        for loop in ctx.steps(trace):
            if loop.framework:
                continue
            inside = trace.inside(loop)
            steps = [e for e in inside if ctx.program.is_step(e) and e.of is not None and (e.of.kind in (values.OPTIMIZER, values.SCALER, "")) and e.of.qual != "deepspeed"]
            backward = [e for e in inside if ctx.program.is_backward(e)]
            if not steps or not backward:
                continue
            if any(e.of is not None and e.of.kind == values.ENGINE for e in backward):
                continue
            if _zero_somewhere(ctx, trace, loop) or _made_in(trace, loop, steps[0]):
                continue
            strong = steps[0].of is not None and steps[0].of.strong
            ctx.report("PLM801", steps[0].node, "gradients of all former steps are added up: zero_grad() is missing", 
                       confidence=HIGH if strong else LOW if _own_loss(ctx, backward[0], inside) else MEDIUM,
                       evidence=[f"line {backward[0].node.lineno}: the backward pass; nothing in the loop of line {loop.node.lineno} clears its gradients"],
                       fix=[f"{steps[0].receiver}.zero_grad() behind the step"])


def _own_loss(ctx: Context, backward: Event, inside: list[Event]) -> bool:
    """`loss = model(x, y)`: a model that knows the loss may clear its gradients, too."""
    roots = ctx.roots_of_backward(backward)
    return any(e.kind == "bind" and e.name in roots and any(
        c.stmt is e.stmt and c.node is e.source and (ctx.program.is_model_call(c) or c.kind == "call" and names.kind_of_name(dotted(c.call.func)) == values.MODULE)
        for c in inside) for e in inside)


def _function_zeroes(ctx: Context, event: Event) -> bool:
    """Does the function that is called, or another of its class, clear gradients?  For one of another file its name decides."""
    called = ctx.program.called_function(event)
    if called is None:
        return not event.name.startswith("torch.") and event.attr != "step" and bool(re.search(r"zero_|_zero|reset_grad|optim", event.attr))
    inner = ctx.program.trace_of(called)
    if inner is not None and any(_zeroes(e) for e in inner.events):
        return True
    return called.cls is not None and "zero_grad" in ctx.program.home(called).source.segment(called.cls.node)


def _step_zeroes(ctx: Context, event: Event) -> bool:
    """May the step or the backward pass clear gradients: of a wrapper of the file, with a closure, or with another library's option?"""
    of = event.of
    if of is None:
        return False
    if event.attr == "step":
        step = ctx.program.method(of.cls, "step") if of.cls is not None else None
        return of.cls is not None and (step is None or any(_zeroes(e) for e in _events_of(ctx, event))) or any(k.arg and "zero" in k.arg for k in event.call.keywords) or bool(event.call.args) and of.kind == values.OPTIMIZER
    return event.attr == "backward" and of.kind == values.ACCEL and "zero_grad" in ctx.program.source.text


def _zero_somewhere(ctx: Context, trace: Trace, loop: Loop) -> bool:
    if any(_zeroes(e) for e in trace.events):
        return True
    if any(e.kind == "call" and (_function_zeroes(ctx, e) or _step_zeroes(ctx, e)) for e in trace.inside(loop)):
        return True
    return any(isinstance(n, ast.Attribute) and n.attr == "grad" and isinstance(n.ctx, (ast.Store, ast.Del)) for n in ast.walk(loop.node))


def _made_in(trace: Trace, loop: Loop, step: Event) -> bool:
    return any(e.kind == "bind" and e.name == step.receiver for e in trace.inside(loop))


def _pass_and_step(ctx: Context, event: Event) -> tuple[Event, Event] | None:
    """The backward pass in front of a call and the step behind it, in one block and with neither a pass nor a step between."""
    near = [e for e in ctx.trace(event).events if e.loop is event.loop and e.path == event.path and e.kind == "call" and e.handler is event.handler]
    before = [e for e in near if e.index < event.index and (ctx.program.is_backward(e) or ctx.program.is_step(e))]
    after = [e for e in near if e.index > event.index and (ctx.program.is_backward(e) or ctx.program.is_step(e) or ctx.program.is_model_call(e))]
    if not before or not after or not ctx.program.is_backward(before[-1]) or not ctx.program.is_step(after[0]):
        return None
    return before[-1], after[0]


def _steps_optimizer(step: Event, name: str) -> bool:
    """Is it this optimizer's step: its own, a scaler's with it, or that of what wraps it?"""
    of = step.of
    target = dotted(step.call.args[0]) if of is not None and of.kind == values.SCALER and step.call.args else step.receiver
    return name == target or of is not None and of.of != "" and of.of == name


@checks("PLM802")
def cleared_before_step(ctx: Context) -> None:
    for event in ctx.calls("zero_grad"):
        if event.loop is None or not in_place(event.stmt, event.call) or event.of is None:
            continue
        around = _pass_and_step(ctx, event)
        if around is None or not _steps_optimizer(around[1], event.receiver):
            continue
        backward, step = around
        source = ctx.program.source
        edits: list[Edit | None] = [source.replace(event.stmt, source.segment(step.stmt)), source.replace(step.stmt, source.segment(event.stmt))] if in_place(step.stmt, step.call) else []
        ctx.report("PLM802", event.node, "the step has no gradients: they are cleared in front of it", edits=edits, safe=True,
                   evidence=[f"line {backward.node.lineno}: the backward pass", f"line {step.node.lineno}: the step"])


def _events_of(ctx: Context, event: Event) -> list[Event]:
    """What the function that is called does."""
    trace = ctx.program.trace_of(ctx.program.called_function(event))
    return trace.events if trace is not None else []


@checks("PLM803")
def scheduler_first(ctx: Context) -> None:
    for event in ctx.calls("step"):
        if event.of is None or event.of.kind != values.SCHEDULER or event.call.args or event.call.keywords or not event.of.strong:
            continue
        if "Plateau" in event.of.qual or not event.of.qual.startswith(("torch.optim", "transformers", "get_")):
            continue  # a class of its own may be made to step first
        trace = ctx.trace(event)
        loop = event.loop
        inside = trace.inside(loop) if loop is not None else []
        steps = [e for e in inside if ctx.program.is_step(e) or e.kind == "call" and any(ctx.program.is_step(s) for s in _events_of(ctx, e))]
        if not steps or not event.every(loop) or any(leads_to(s, event) for s in steps):
            continue
        if any(leads_to(s, event) for s in trace.events[:loop.start if loop else 0] if ctx.program.is_step(s)) or not any(leads_to(event, s) for s in steps):
            continue
        same_loop = steps[0].loop is loop
        edits: list[Edit | None] = [ctx.program.source.without(event.stmt), ctx.program.source.line_after(steps[-1].stmt, ctx.program.source.segment(event.stmt))] if same_loop and in_place(event.stmt, event.call) and in_place(
            steps[-1].stmt, steps[-1].call) else []
        ctx.report("PLM803", event.node, "the first learning rate is skipped: the scheduler steps before the optimizer", edits=edits,
                   evidence=[f"line {steps[0].node.lineno}: the optimizer's step"])


_NAMED = {"eval": values.MODULE, "train": values.MODULE, "zero_grad": values.OPTIMIZER, "step": values.OPTIMIZER, "backward": values.TENSOR, "update": values.SCALER}


def _kind_here(ctx: Context, trace: Trace, name: str) -> str:
    """By what it was bound to, here or in the module's body; else by its name."""
    module = ctx.program.traces.get(ctx.program.symbols.module) if ctx.program.symbols.module is not None else None
    for part in (trace, module):
        bound = [e.value for e in (part.events if part is not None else ()) if e.kind == "bind" and e.name == name and e.value is not None]
        if bound and bound[-1].kind in (values.MODULE, values.OPTIMIZER, values.SCHEDULER, values.SCALER, values.LIST, values.DICT, values.NUMBER):
            return bound[-1].kind
    return names.kind_of_name(name)


@checks("PLM804")
def not_called(ctx: Context) -> None:
    for trace in ctx.traces:
        for event in trace.events:
            if event.kind != "expression" or not isinstance(event.node, ast.Attribute):
                continue
            attr = event.node.attr
            name = ctx.program.symbols.qualified(event.node)
            known = name in ("torch.cuda.empty_cache", "torch.cuda.synchronize", "torch.distributed.barrier")
            if not known:
                if attr not in _NAMED or name:
                    continue
                kind = _kind_here(ctx, trace, dotted(event.node.value)) or ("module" if attr in ("eval", "train") and any(
                    e.receiver == dotted(event.node.value) for e in ctx.calls("parameters", "to", "cuda", "state_dict")) else "")
                if kind not in ("module", "optimizer", "scheduler", "scaler", "loss"):
                    continue
            ctx.report("PLM804", event.stmt, f"{ctx.program.source.segment(event.node)} is named, not called", edits=[ctx.program.source.after(event.node, "()")], safe=True)


@checks("PLM805")
def softmax_twice(ctx: Context) -> None:
    for event in ctx.calls(*{e.attr for t in ctx.traces for e in t.events if e.kind == "call" and (
            e.name == "torch.nn.functional.cross_entropy" or e.of is not None and e.of.kind == values.CRITERION and not e.receiver or e.attr == "cross_entropy" or
            e.of is not None and e.of.kind == values.CRITERION)}):
        functional = event.name in ("torch.nn.functional.cross_entropy",)
        bce = event.name == "torch.nn.functional.binary_cross_entropy_with_logits"
        criterion = _criterion(ctx, event)
        if not functional and not bce and criterion not in ("torch.nn.CrossEntropyLoss", "torch.nn.BCEWithLogitsLoss") or not event.call.args:
            continue
        wanted = ("sigmoid",) if bce or criterion.endswith("BCEWithLogitsLoss") else ("softmax",)  # log_softmax twice is log_softmax
        found = _activation(ctx, event, event.call.args[0], wanted)
        if found is not None:
            ctx.report("PLM805", event.node, f"{wanted[0]} is applied twice: the loss does it itself", evidence=[f"line {found.lineno}: the first"], fix=["give the loss the logits"])


def _criterion(ctx: Context, event: Event) -> str:
    """Qualified class of the criterion that is called, if every assignment of its name agrees."""
    if event.of is None or event.of.kind != values.CRITERION:
        return ""
    name = dotted(event.call.func)
    made = {e.value.qual if e.value is not None else "" for t in ctx.traces for e in t.events if e.kind == "bind" and e.name == name}
    return event.of.qual if len(made) <= 1 else ""


def _activation(ctx: Context, event: Event, node: ast.expr, wanted: tuple[str, ...]) -> ast.expr | None:
    if isinstance(node, ast.Call):
        called = dotted(node.func).rpartition(".")[2] if dotted(node.func) else node.func.attr if isinstance(node.func, ast.Attribute) else ""
        qualified = ctx.program.symbols.qualified(node.func)
        if called in wanted and (qualified.startswith("torch.") or isinstance(node.func, ast.Attribute) and not qualified):
            return node
        return None
    if isinstance(node, ast.Name):
        trace = ctx.trace(event)
        binds = [e for e in trace.events[:event.index] if e.kind == "bind" and e.name == node.id]
        last = binds[-1] if binds else None
        if last is not None and last.source is not None and len(last.path) <= len(event.path) and isinstance(last.stmt, ast.Assign) and isinstance(last.stmt.targets[0], ast.Name):
            if isinstance(last.source, ast.Call):
                direct = _activation(ctx, event, last.source, wanted)
                if direct is not None:
                    return direct
                return _last_layer(ctx, trace, last, wanted)
    return None


def _last_layer(ctx: Context, trace: Trace, bind: Event, wanted: tuple[str, ...]) -> ast.expr | None:
    """Does the module of this file that made the value end in such an activation?"""
    call = bind.source
    made = next((e for e in trace.events[:bind.index] if e.node is call), None)
    if made is None or made.of is None or made.of.cls is None or made.receiver:
        return None
    forward = made.of.cls.methods.get("forward")
    inner = ctx.program.traces.get(forward) if forward is not None else None
    if inner is None or len(inner.return_nodes) != 1:
        return None
    node = inner.return_nodes[0]
    if isinstance(node, ast.Name):
        binds = [e for e in inner.events if e.kind == "bind" and e.name == node.id]
        node = binds[-1].source if binds and binds[-1].source is not None and not binds[-1].path else node
    if isinstance(node, ast.Call) and ctx.program.symbols.qualified(node.func) in {f"torch.nn.functional.{w}" for w in wanted} | {f"torch.{w}" for w in wanted}:
        return node
    if isinstance(node, ast.Call) and dotted(node.func).startswith("self."):
        member = ctx.program.attribute(made.of.cls, dotted(node.func))
        if member is not None and member.qual == "torch.nn.Softmax" and "softmax" in wanted or member is not None and member.qual == "torch.nn.Sigmoid" and "sigmoid" in wanted:
            return node
    return None


def _step_guard(ctx: Context, loop: Loop, inside: list[Event]) -> tuple[Event, ast.If] | None:
    """The only step of a loop and the `if` around it."""
    steps = [e for e in inside if ctx.program.is_step(e) and e.loop is loop]
    if len(steps) != 1 or not steps[0].path[loop.depth:]:
        return None
    arm = steps[0].path[-1][0]
    return (steps[0], arm) if isinstance(arm, ast.If) else None


def _scaled_within(loop: Loop, fed: set[str]) -> bool:
    """Is something that goes backward divided or multiplied in the loop?"""
    for n in ast.walk(loop.node):
        if isinstance(n, ast.BinOp) and isinstance(n.op, (ast.Div, ast.Mult)) and names_in(n.left) & fed:
            return True
        if isinstance(n, ast.AugAssign) and isinstance(n.op, (ast.Div, ast.Mult)) and names_in(n.target) & fed:
            return True
    return False


@checks("PLM806")
def not_averaged(ctx: Context) -> None:
    if ctx.program.symbols.imported("accelerate", "deepspeed", "lightning", "pytorch_lightning", "colossalai") or ctx.mentions("booster"):
        return
    for trace in ctx.traces:
        for loop in ctx.steps(trace):
            inside = trace.inside(loop)
            guarded = _step_guard(ctx, loop, inside)
            if guarded is None:
                continue
            step, arm = guarded
            mod = next((n for n in ast.walk(arm.test) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod)), None)
            back = [e for e in inside if ctx.program.is_backward(e) and e.loop is loop and e.every(loop)]
            if mod is None or len(back) != 1 or not any(_zeroes(e) and e.path and e.path[-1][0] is arm for e in inside):
                continue
            if not _scaled_within(loop, ctx.fed(trace, loop)):
                ctx.report("PLM806", back[0].node, f"gradients are {ast.unparse(mod.right)} times as large: the loss is not divided", evidence=[f"line {step.node.lineno}: one step for {ast.unparse(mod.right)} backward passes"], confidence=MEDIUM)


@checks("PLM808")
def train_not_restored(ctx: Context) -> None:
    for event in ctx.calls("eval"):
        if event.of is None or event.of.kind != values.MODULE or not event.receiver or not in_place(event.stmt, event.call):
            continue
        if ctx.mentions(".train("):
            continue
        trace = ctx.trace(event)
        loops = [l for l in ctx.training(trace) if l.around(event.loop) or event.loop is not None and event.loop.around(l)]
        epoch = ctx.epoch_of(event)
        called = [c for c in ctx.program.callers.get(event.function, ()) if ctx.epoch_of(c) is not None and any(
            (ctx.epoch_of(c) or c.loop).around(l) for l in ctx.training(ctx.trace(c)))]  # type: ignore[union-attr]
        trained = any(e.receiver == event.receiver and e.attr == "parameters" for e in ctx.calls("parameters")) or called
        if (epoch is not None and loops or called and not trace.function.cls) and trained and not ctx.program.symbols.imported("lightning", "pytorch_lightning"):
            ctx.report("PLM808", event.node, f"from the second epoch on {event.receiver} trains without dropout and with frozen batch statistics: .train() is never called", confidence=MEDIUM)


_SWITCHES = re.compile(r"\.eval\(|\.train\(\s*[^\s)]")  # .train() alone is not an evaluation mode; .train(mode) may be


def _differs(ctx: Context, cls: Class | None) -> bool:
    """May a module do another thing in training?  Its file, or this one, names what does."""
    texts = ctx.program.source.text, ctx.program.home(cls).source.text if cls is not None else ""
    return any(word in text for text in texts for word in ("Dropout", "dropout", "BatchNorm"))


@checks("PLM809")
def eval_missing(ctx: Context) -> None:
    for trace in ctx.traces:
        for loop in ctx.evaluations(trace):
            function = trace.function
            calls = [e for e in trace.inside(loop) if ctx.program.is_model_call(e)]
            if not calls or not ctx.program.off(calls[0]) or _SWITCHES.search(ctx.program.source.text):
                continue
            if function.name and not ctx.program.callers.get(function):
                continue  # its callers, elsewhere, may have called .eval()
            if not any(e.value is not None and e.value.kind == values.OPTIMIZER for e in ctx.program.events()) or calls[0].of is not None and (calls[0].of.cls is not None or calls[0].of.qual.startswith("torch.nn.")) and not _differs(ctx, calls[0].of.cls):
                continue  # nothing here trains it, or nothing in it differs there
            if function.cls is not None and function.cls.lightning or ctx.program.symbols.imported("lightning", "pytorch_lightning"):
                continue
            ctx.report("PLM809", calls[0].node, "dropout and batch norm act as in training: .eval() is never called", confidence=MEDIUM)


def _iterator_of(event: Event) -> ast.Call | None:
    """The call in `name = model.parameters()`, `filter()` or `map()` of parameters, which binds a name to an iterator."""
    made, value = event.source, event.value
    if value is None or value.kind != values.PARAMS or not isinstance(made, ast.Call) or "." in event.name:
        return None
    if isinstance(made.func, ast.Attribute):
        return made if made.func.attr in ("parameters", "named_parameters") and value.node is made else None
    return made if isinstance(made.func, ast.Name) and made.func.id in ("filter", "map") else None


def _read_as_list(trace: Trace, name: str) -> bool:
    """Is it indexed, or its length taken?  An iterator has neither."""
    for n in ast.walk(trace.function.node):
        if isinstance(n, ast.Subscript) and dotted(n.value) == name:
            return True
        if isinstance(n, ast.Call) and dotted(n.func) == "len" and n.args and dotted(n.args[0]) == name:
            return True
    return False


def _lines_of_use(trace: Trace, event: Event) -> list[int]:
    """Lines that use up what is bound here, in order; none if two of them are on different arms."""
    name = event.name
    given = [e for e in trace.after(event) if e.kind == "call" and any(dotted(a) == name for a in e.call.args) and e.name not in ("len", "print", "isinstance", "type")]
    if len(given) >= 2 and apart(given[0].path, given[1].path):
        return []
    iterated = [l for l in trace.loops if isinstance(l.node, ast.For) and dotted(l.node.iter) == name]
    return sorted([e.node.lineno for e in given] + [l.node.lineno for l in iterated])


@checks("PLM810")
def iterator_used_up(ctx: Context) -> None:
    for trace in ctx.traces:
        for event in trace.events:
            made = _iterator_of(event) if event.kind == "bind" else None
            if made is None or event.loop is not None or _read_as_list(trace, event.name):
                continue
            again = [e for e in trace.events if e.kind == "bind" and e.name == event.name]
            lines = _lines_of_use(trace, event)
            if len(again) != 1 or len(lines) < 2:
                continue
            ctx.report("PLM810", event.stmt, f"{event.name} is an iterator: its second use, at line {lines[1]}, sees no parameters", evidence=[f"line {lines[0]} uses it up"],
                       edits=[ctx.program.source.replace(made, f"list({ctx.program.source.segment(made)})")], safe=True)


@checks("PLM812")
def leaf_in_place(ctx: Context) -> None:
    for event in ctx.program.events():
        if event.kind == "augment" and isinstance(event.target, ast.Name):
            of = event.of
        elif event.kind == "call" and event.attr.endswith("_") and event.attr not in ("requires_grad_", "detach_") and event.receiver.isidentifier():
            of = event.of
        else:
            continue
        if of is None or of.kind != values.TENSOR or of.graph != values.YES or not of.strong or not isinstance(of.node, ast.Call) or ctx.program.off(event):
            continue
        if of.qual.startswith("torch.") and constant(next((k.value for k in of.node.keywords if k.arg == "requires_grad"), None)) is True:
            ctx.report("PLM812", event.node, "an in-place operation on a leaf that requires gradients raises RuntimeError",
                       evidence=[f"line {of.node.lineno}: requires_grad=True"], fix=["do it under torch.no_grad()"])
