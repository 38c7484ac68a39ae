"""Arguments that a function or an object keeps: `meter.update(loss)`, where the method, here or in another file, sums up or collects what it gets."""
from __future__ import annotations

import ast
from dataclasses import dataclass

from .. import values
from ..context import Context, names_in
from ..symbols import Class, Function, dotted
from ..trace import Event, Loop, Trace
from ..walk import argument, parameters

GROWS = ("append", "extend", "appendleft", "add")  #: what puts one more thing into a container
_EMPTIES = frozenset("clear pop popleft popitem".split())


def added_by(event: Event) -> ast.expr | None:
    """What `acc += e`, `acc = acc + e` or `acc = 0.9 * acc + e` adds."""
    if event.kind == "augment":
        stmt = event.stmt
        return stmt.value if isinstance(stmt, ast.AugAssign) and isinstance(stmt.op, ast.Add) else None
    if event.kind == "store" and event.target is not None and isinstance(event.source, ast.BinOp):
        return _added(event.source, ast.unparse(event.target))
    return _added(event.source, event.name) if event.kind == "bind" and event.name and isinstance(event.stmt, ast.Assign) else None


def _added(source: ast.expr | None, name: str) -> ast.expr | None:
    """The other side of the addition that has the name on one side, however scaled."""
    if not isinstance(source, ast.BinOp):
        return None
    sides = [(source.left, source.right), (source.right, source.left)]
    if isinstance(source.op, ast.Add):
        return next((other for side, other in sides if _scaled(side) == name), None)
    return next(filter(None, (_added(side, name) for side, _ in sides)), None) if isinstance(source.op, (ast.Mult, ast.Div)) else None


def _scaled(node: ast.expr) -> str:
    """The name of `acc` and `0.9 * acc`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div)):
        return _scaled(node.left) or _scaled(node.right)
    return ast.unparse(node) if isinstance(node, ast.Subscript) else dotted(node)


def holder(of: ast.expr) -> str:
    """The container of `kept`, `kept[key]` and `kept.setdefault(key, [])`."""
    if isinstance(of, ast.Call) and isinstance(of.func, ast.Attribute) and of.func.attr == "setdefault":
        return dotted(of.func.value)
    return dotted(of.value if isinstance(of, ast.Subscript) else of)


def _object(event: Event) -> str:
    """The name of the object, or of the container that holds it, that a method is called on."""
    func = event.call.func
    return event.receiver or (holder(func.value) if isinstance(func, ast.Attribute) else "")


def put_by_key(event: Event) -> bool:
    """`kept[i] = ...` of a list or dict, by a key that may be another each time."""
    if not event.name or not isinstance(event.target, ast.Subscript) or isinstance(event.target.slice, (ast.Constant, ast.Slice, ast.Tuple)):
        return False
    return event.of is not None and event.of.kind in (values.DICT, values.LIST)


@dataclass(frozen=True)
class Keep:
    """An argument that stays after the call."""

    parameters: frozenset[str]  #: what it is made from
    container: str  #: `self.sum`, a global, or a parameter that is given the list
    sums: bool
    line: int


def keeps(ctx: Context, function: Function) -> list[Keep]:
    known = ctx.keeps.get(function)
    if known is None:
        ctx.keeps[function] = known = []
        if _may_keep(function):
            trace = ctx.program.unbound(function)
            known += [k for e in trace.events if not e.no_grad and e.handler is None for k in _kept_by(ctx, trace, e)]
    return known


def _may_keep(function: Function) -> bool:
    """Is it worth a walk?"""
    return bool(function.put) or any(isinstance(n, ast.AugAssign) or isinstance(n, ast.Assign) and isinstance(n.value, ast.BinOp) or
                                     isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store) for n in ast.walk(function.node))


def _kept_by(ctx: Context, trace: Trace, event: Event) -> list[Keep]:
    sums, name, what, value = False, event.name, None, event.value
    if event.kind == "call" and event.attr in GROWS and event.call.args and event.args:
        name, what, value = event.receiver, event.call.args[-1], event.args[-1]
    elif event.kind in ("augment", "bind"):
        sums, what = True, added_by(event)
    elif event.kind == "store" and put_by_key(event):
        what = event.source
    if what is None or value is None or not value.graph or value.kind not in ("", *values.TENSORS):
        return []
    plain = {e.name for e in trace.events if e.kind == "bind" and e.value is not None and not e.value.graph}  # `val = val.item()`, on whatever branch
    given = {a.arg for a in parameters(trace.function)} - {"self", "cls"} - plain
    own = frozenset(ctx.ancestors(names_in(what), trace.events[:event.index]) & given)
    return [Keep(own, name, sums, event.node.lineno)] if own and _stays(ctx, trace.function, name, given, sums) else []


def _stays(ctx: Context, function: Function, name: str, given: set[str], sums: bool) -> bool:
    """Is it a member without a bound, that the call itself does not empty; a name of the module; or what the caller gives?"""
    cls = function.cls
    if name.startswith("self.") and name.count(".") == 1 and cls is not None:
        member = ctx.program.attribute(cls, name)
        emptying = _emptying(cls, name)
        inner = {m for f in cls.methods.values() if f.name != "__init__" for m in f.uses.get("self", ())}
        return (member is None or member.bound is None) and function not in emptying and not any(f.name in inner for f in emptying)
    if sums:
        return any(isinstance(n, ast.Global) and name in n.names for n in ast.walk(function.node))
    return name in given or name not in function.bound and "." not in name


def _emptying(cls: Class, name: str) -> list[Function]:
    """Methods that give the member a new value, or take something out of it."""
    anew = [f for node, f in cls.assigned.get(name, ()) if f.name != "__init__" and name not in names_in(node, cut=False)]
    return anew + [f for f in cls.methods.values() if f.uses.get(name, set()) & _EMPTIES]


def container_of(event: Event, function: Function, keep: Keep) -> str:
    """What the container of a function is called where it is called; "" where that is not seen."""
    if keep.container.startswith("self."):
        of = _object(event)
        return of + keep.container.removeprefix("self") if of else ""
    given = argument(event, function, keep.container)
    return dotted(given[0]) if given is not None else "" if keep.container in {a.arg for a in parameters(function)} else keep.container


def renewed(ctx: Context, event: Event, function: Function, keep: Keep, loop: Loop) -> bool:
    """May an iteration of the loop make the object anew, or empty it?"""
    of = _object(event)
    names = {f.name for f in _emptying(function.cls, keep.container)} if function.cls is not None else set()
    for other in ctx.trace(event).inside(loop):
        if other.kind in ("bind", "delete") and of and of != "self" and other.name == of or other.kind == "call" and other.attr in names:
            return True
        if other.kind == "call" and other is not event and of and of != "self" and other.name != "print" and any(of in names_in(a) for a in other.call.args):
            return True
    return False
