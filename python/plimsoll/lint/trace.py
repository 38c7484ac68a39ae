"""What a function does, in order: events with the loops, branches and contexts they lie in.

Rules read these lists; they do not walk trees.  A loop's events are one slice of its function's list.
"""
from __future__ import annotations

import ast
from dataclasses import dataclass, field

from .symbols import Function
from .values import Value

#: One step of the way to a statement: the `if` (or try, match), which arm, and whether the arm is only implied,
#: because the other one leaves.
Arm = tuple[ast.AST, int, bool]
Path = tuple[Arm, ...]


@dataclass(slots=True, eq=False)
class Loop:
    """A `for` or `while`; or the body of a function that a framework, or a loop elsewhere, calls again and again."""

    node: ast.For | ast.AsyncFor | ast.While | ast.FunctionDef | ast.AsyncFunctionDef
    outer: "Loop | None"
    depth: int  #: length of the path at its head
    start: int = 0
    end: int = 0
    source: Value | None = None  #: what a `for` iterates over
    framework: bool = False
    inner: bool = False  #: holds another loop

    def around(self, other: "Loop | None") -> bool:
        while other is not None:
            if other is self:
                return True
            other = other.outer
        return False


@dataclass(slots=True, eq=False)
class Event:
    kind: str  #: call, bind, augment, store, expression, leave, delete, comprehension, format (into text), test
    node: ast.expr | ast.stmt
    stmt: ast.stmt
    loop: Loop | None
    path: Path
    no_grad: bool
    autocast: "Autocast | None"
    function: Function
    index: int
    handler: ast.ExceptHandler | None = None
    name: str = ""  #: call: qualified or dotted name of what is called; bind, augment, store, delete: the target
    attr: str = ""  #: call: last part of the name
    receiver: str = ""  #: call: dotted name of the object a method is called on
    of: Value | None = None  #: call: that object; a plain call: what is called
    value: Value | None = None  #: the result, or what is bound
    source: ast.expr | None = None  #: bind, augment, store: the expression
    args: tuple[Value, ...] = ()
    target: ast.expr | None = None

    def every(self, loop: Loop | None = None) -> bool:
        """Runs in each iteration: nothing between it and the loop's head decides."""
        around = loop or self.loop
        depth = around.depth if around else 0
        return all(implied and not _counts(arm) for arm, _, implied in self.path[depth:]) and self.handler is None

    @property
    def call(self) -> ast.Call:
        assert isinstance(self.node, ast.Call)
        return self.node

    def keyword(self, name: str) -> ast.expr | None:
        for keyword in self.call.keywords:
            if keyword.arg == name:
                return keyword.value
        return None

    def argument(self, position: int, name: str) -> ast.expr | None:
        if position < len(self.call.args):
            return self.call.args[position]
        return self.keyword(name)

    @property
    def method(self) -> bool:
        """A method of an object without a name: `nets[0].to(x)`, `make().to(x)`."""
        return isinstance(self.call.func, ast.Attribute) and not self.receiver and not self.name.startswith("torch.") and not isinstance(
            _root(self.call.func), ast.Name)

    @property
    def open_ended(self) -> bool:
        """Has *args or **kwargs: what is not seen may be there."""
        return any(k.arg is None for k in self.call.keywords) or any(isinstance(a, ast.Starred) for a in self.call.args)

    def within(self, loop: Loop) -> bool:
        return loop.around(self.loop)


def _root(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node


def _counts(arm: ast.AST) -> bool:
    """`if step % n: continue`: what follows is not for every iteration."""
    test = getattr(arm, "test", None)
    return test is not None and any(isinstance(n, ast.Mod) for n in ast.walk(test))


@dataclass(slots=True)
class Autocast:
    node: ast.expr
    dtype: str = ""  #: as written, "" for the default
    enabled: str = ""  #: as written, "" for the default
    cpu: bool = False
    outer: "Autocast | None" = None  #: the one around it


@dataclass(slots=True, eq=False)
class Trace:
    function: Function
    events: list[Event] = field(default_factory=list)
    loops: list[Loop] = field(default_factory=list)
    returns: list[Value] = field(default_factory=list)
    return_nodes: list[ast.expr] = field(default_factory=list)
    handlers: list[ast.ExceptHandler] = field(default_factory=list)
    no_grad: bool = False  #: by decorator or framework
    done: bool = False

    def inside(self, loop: Loop) -> list[Event]:
        return self.events[loop.start:loop.end]

    def after(self, event: Event) -> list[Event]:
        return self.events[event.index + 1:]


def apart(a: Path, b: Path) -> bool:
    """Do the two lie on different arms of one branch?  Then they are never on one path."""
    for (x, arm_x, _), (y, arm_y, _) in zip(a, b):
        if x is not y:
            return False
        if arm_x != arm_y:
            return True
    return False


def leads_to(a: Event, b: Event) -> bool:
    """Can `b` come after `a` on one path through the function's text?"""
    return a.index < b.index and not apart(a.path, b.path)


def always(a: Event, b: Event) -> bool:
    """Has `a` run whenever `b` runs (a before b)?  Its branches are all `b`'s too."""
    return a.index < b.index and len(a.path) <= len(b.path) and all(
        x is y and i == j for (x, i, _), (y, j, _) in zip(a.path, b.path))
