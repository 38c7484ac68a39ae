"""Pass 2: statements in order.  Branches are walked in turn and joined, loops twice: the second time round a name
may hold what the iteration before left in it.  Events are recorded the second time only, so each once."""
from __future__ import annotations

import ast
from dataclasses import replace
from typing import Callable, Sequence

from . import names, values
from .calls import Calls
from .symbols import Function, dotted
from .trace import Autocast, Event, Loop
from .values import UNKNOWN_VALUE, Value

_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_OF_TENSORS = frozenset("backward detach grad_fn requires_grad requires_grad_ argmax unsqueeze softmax".split())  #: what only a tensor is asked
_EXITS = frozenset(["sys.exit", "exit", "quit", "os._exit", "parser.error"])


def ends(body: Sequence[ast.stmt]) -> bool:
    """Does every way through these statements leave the block they are in?"""
    if not body:
        return False
    last = body[-1]
    if isinstance(last, _LEAVES):
        return True
    if isinstance(last, ast.If):
        return bool(last.orelse) and ends(last.body) and ends(last.orelse)
    if isinstance(last, ast.With):
        return ends(last.body)
    return isinstance(last, ast.Expr) and isinstance(last.value, ast.Call) and dotted(last.value.func) in _EXITS


class Walker(Calls):
    """Walks one function's statements."""

    def run(self) -> None:
        node = self.function.node
        if not isinstance(node, ast.Module):
            self.no_grad = any(self.stops_gradients(d) for d in node.decorator_list)
            if self.function.name in names.LIGHTNING_EVALS and self.function.cls is not None and self.function.cls.lightning:
                self.no_grad = True
            self.trace.no_grad = self.no_grad
        if self.trace.loops:  # the body of a framework's loop
            self.loop = self.trace.loops[0]
        self.body(node.body)
        if self.loop is not None:
            self.loop.end = len(self.trace.events)

    def body(self, statements: Sequence[ast.stmt]) -> None:
        methods = self.statements
        for stmt in statements:
            method = methods.get(stmt.__class__)
            if method is not None:
                self.stmt = stmt
                method(self, stmt)

    # ---- binding ----

    def assign(self, target: ast.expr, value: Value, source: ast.expr | None, quiet: bool = False) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            self.unpack(target, value, source, quiet)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, Value(values.LIST, items=(value,)), source, quiet)
        elif isinstance(target, ast.Subscript):
            self.store(target, value, source)
        else:
            name = dotted(target)
            if not name:
                return
            self.env[name] = value
            if name.startswith("self.") and self.function.cls is not None and name.count(".") == 1:
                old = self.function.cls.values.get(name)
                self.function.cls.values[name] = value if old is None else values.join(old, value)
            if not quiet:
                made = self.event("bind", target)
                if made is not None:
                    made.name, made.value, made.source, made.target = name, value, source, target

    def unpack(self, target: ast.Tuple | ast.List, value: Value, source: ast.expr | None, quiet: bool) -> None:
        elements = target.elts
        items = value.items if value.kind in (values.TUPLE, values.LIST) and value.items is not None else None
        sources = source.args if isinstance(source, ast.Call) and dotted(source.func) == "zip" and value.kind == values.TUPLE else []
        for i, element in enumerate(elements):
            if items is not None and len(items) == len(elements):
                item = items[i]
            elif items is not None and len(items) == 1 and value.kind == values.LIST:
                item = items[0]
            elif value.kind == values.BATCH:
                item = Value(values.TENSOR, value.strong, device="cpu", qual="batch")
            elif value.kind == values.OUTPUT or value.kind == values.TENSOR and value.scalar:  # a loss with more than its number is of a class of its own
                # A second result may be a ratio or a length; how it is used decides.
                item = replace(value, kind=values.TENSOR, node=None) if i == 0 or self.used_as_tensor(element) else Value(
                    graph=values.MAYBE if value.graph else values.NO)
            elif value.kind == values.TENSOR:
                item = Value(values.TENSOR, False, value.graph, value.device, qual=value.qual * (value.qual == "parameter"))
            elif value.kind == values.DATASET:
                item = value
            else:
                item = UNKNOWN_VALUE
            self.assign(element, item, sources[i] if len(sources) == len(elements) else source, quiet)

    def used_as_tensor(self, target: ast.expr) -> bool:
        """Is it, or the list that it is put into, given to a function of torch, or asked what only a tensor has?"""
        name = dotted(target)
        if name in self.function.tensors or self.function.uses.get(name, set()) & _OF_TENSORS:
            return True
        return any(name == dotted(given) and container in self.function.tensors for container, given in self.function.put)

    def store(self, target: ast.Subscript, value: Value, source: ast.expr | None) -> None:
        of = self.eval(target.value)
        self.eval(target.slice)
        name = dotted(target.value)
        if name and isinstance(target.slice, ast.Constant):
            self.env[f"{name}[{target.slice.value!r}]"] = value
        if name and of.kind in (values.LIST, values.DICT, ""):
            self.env[name] = replace(of, items=(value,) + (of.items or ())[:7], graph=max(of.graph, value.graph)) if of.kind else of
        made = self.event("store", target)
        if made is not None:
            made.name, made.value, made.source, made.of, made.target = name, value, source, of, target

    def _assign(self, stmt: ast.stmt) -> None:
        assert isinstance(stmt, ast.Assign)
        value = self.eval(stmt.value)
        for target in stmt.targets:
            self.assign(target, value, stmt.value)

    def _annotated(self, stmt: ast.stmt) -> None:
        assert isinstance(stmt, ast.AnnAssign)
        if stmt.value is not None:
            value = self.eval(stmt.value)
            self.assign(stmt.target, value if value.kind else kind_of_annotation(stmt.annotation), stmt.value)

    def _augmented(self, stmt: ast.stmt) -> None:
        assert isinstance(stmt, ast.AugAssign)
        value = self.eval(stmt.value)
        old = self.eval(stmt.target)
        name = dotted(stmt.target)
        made = self.event("augment", stmt.target)
        if made is not None:
            made.name = name or dotted(stmt.target.value) if isinstance(stmt.target, ast.Subscript) else name
            made.value, made.source, made.of, made.target = value, stmt.value, old, stmt.target
        if name and (value.kind in values.TENSORS or value.graph):
            self.env[name] = values.join(old if old.kind in values.TENSORS else Value(), replace(value, node=None))
            if old.graph > value.graph:
                self.env[name] = replace(self.env[name], graph=old.graph)

    def _delete(self, stmt: ast.stmt) -> None:
        assert isinstance(stmt, ast.Delete)
        for target in stmt.targets:
            name = dotted(target)
            made = self.event("delete", target)
            if made is not None:
                made.name = name or (dotted(target.value) if isinstance(target, ast.Subscript) else "")
            self.env.pop(name, None)

    # ---- branches ----

    def _branch(self, stmt: ast.stmt) -> None:
        assert isinstance(stmt, ast.If)
        self.test(stmt.test)
        before, path = self.env, self.path
        grad = self.no_grad
        self.env, self.path = dict(before), path + ((stmt, 0, False),)
        self.body(stmt.body)
        after_body, grad_body = self.env, self.no_grad
        self.env, self.path, self.no_grad = before, path + ((stmt, 1, False),), grad
        if stmt.orelse:
            self.env = dict(before)
            self.body(stmt.orelse)
        body_ends, else_ends = ends(stmt.body), ends(stmt.orelse)
        self.path = path
        if body_ends and not else_ends:
            self.path = path + ((stmt, 1, True),)
        elif else_ends and not body_ends:
            self.env, self.no_grad = after_body, grad_body
            self.path = path + ((stmt, 0, True),)
        else:
            self.merge(after_body)
            self.no_grad = self.no_grad and grad_body if not stmt.orelse else self.no_grad

    def merge(self, other: dict[str, Value]) -> None:
        env = self.env
        for name, value in other.items():
            mine = env.get(name)
            if mine is None:
                env[name] = value
            elif mine is not value:
                env[name] = values.join(mine, value)

    def _try(self, stmt: ast.stmt) -> None:
        assert isinstance(stmt, ast.Try)
        before, path = dict(self.env), self.path
        self.body(stmt.body)
        after = self.env
        self.body(stmt.orelse)
        kept = self.env
        for i, handler in enumerate(stmt.handlers, 1):
            self.env = dict(before)
            self.merge(after)
            self.path = path + ((stmt, i, False),)
            outer, self.handler = self.handler, handler
            if self.record:
                self.trace.handlers.append(handler)
            self.body(handler.body)
            self.handler = outer
            if not ends(handler.body):
                inner, self.env = self.env, kept
                self.merge(inner)
        self.env, self.path = kept, path
        self.body(stmt.finalbody)

    def _match(self, stmt: ast.stmt) -> None:
        assert isinstance(stmt, ast.Match)
        self.eval(stmt.subject)
        before, path = self.env, self.path
        merged = dict(before)
        for i, case in enumerate(stmt.cases):
            self.env, self.path = dict(before), path + ((stmt, i, False),)
            self.body(case.body)
            inner, self.env = self.env, merged
            if not ends(case.body):
                self.merge(inner)
        self.env, self.path = merged, path

    # ---- loops ----

    def _loop(self, stmt: ast.stmt) -> None:
        assert isinstance(stmt, (ast.For, ast.AsyncFor, ast.While))
        source: Value | None = None
        if not isinstance(stmt, ast.While):
            source = self.eval(stmt.iter)
        loop = Loop(stmt, self.loop, len(self.path), source=source)
        first = self.record and not self.trace.function.name == "\0"
        before = dict(self.env)
        path, outer = self.path, self.loop
        if first:
            self.record = False
            self.round(stmt, loop)
            self.merge(before)
            self.record = True
            self.path = path
        if self.record:
            loop.start = len(self.trace.events)
            self.trace.loops.append(loop)
            if outer is not None:
                outer.inner = True
        self.round(stmt, loop)
        loop.end = len(self.trace.events)
        self.merge(before)
        self.loop, self.path = outer, path
        self.body(stmt.orelse)

    def round(self, stmt: ast.For | ast.AsyncFor | ast.While, loop: Loop) -> None:
        outer = self.loop
        self.loop = loop
        self.stmt = stmt  # not the last one of the round before
        grad = self.no_grad
        if isinstance(stmt, ast.While):
            self.test(stmt.test)
        else:
            self.assign(stmt.target, self.element(loop.source or UNKNOWN_VALUE), stmt.iter)
        self.body(stmt.body)
        self.no_grad = grad and self.no_grad
        self.loop = outer

    # ---- contexts ----

    def _with(self, stmt: ast.stmt) -> None:
        assert isinstance(stmt, (ast.With, ast.AsyncWith))
        grad, autocast = self.no_grad, self.autocast
        for item in stmt.items:
            node = item.context_expr
            value = self.eval(node)
            if self.stops_gradients(node):
                self.no_grad = True
            elif last_name(node) == "enable_grad" or last_name(node) == "set_grad_enabled":
                self.no_grad = False
            found = self.autocast_of(node, value)
            if found is not None:
                found.outer = self.autocast
                self.autocast = found if found.enabled != "False" else None
            if item.optional_vars is not None:
                self.assign(item.optional_vars, value, node)
        self.body(stmt.body)
        self.no_grad, self.autocast = grad, autocast

    def stops_gradients(self, node: ast.expr) -> bool:
        """Is this context, or decorator, one under which no graph is built?"""
        if isinstance(node, ast.IfExp):
            return self.stops_gradients(node.body) or self.stops_gradients(node.orelse)
        if isinstance(node, ast.Call):
            name = last_name(node)
            mode = node.args[0] if node.args else next((k.value for k in node.keywords if k.arg == "mode"), None)
            if name == "set_grad_enabled":
                return not (isinstance(mode, ast.Constant) and mode.value is True)
            if name == "inference_mode" and isinstance(mode, ast.Constant):
                return bool(mode.value)
            if name in ("enter_context", "partial", "wraps") and node.args:
                return self.stops_gradients(node.args[0])
            return bool(names.CONTEXT_NO_GRAD.search(name)) or (
                isinstance(node.func, ast.Call) and self.stops_gradients(node.func))
        name = dotted(node)
        value = self.env.get(name)
        if value is not None and value.kind == values.CONTEXT and value.node is not None:
            return self.stops_gradients(value.node)
        return bool(names.CONTEXT_NO_GRAD.search(name.rpartition(".")[2]))

    def autocast_of(self, node: ast.expr, value: Value) -> Autocast | None:
        if isinstance(node, ast.IfExp):
            return self.autocast_of(node.body, UNKNOWN_VALUE) or self.autocast_of(node.orelse, UNKNOWN_VALUE)
        if not isinstance(node, ast.Call):
            if value.kind == values.CONTEXT and value.node is not None and isinstance(value.node, (ast.Call, ast.IfExp)):
                return self.autocast_of(value.node, UNKNOWN_VALUE)
            return Autocast(node) if names.AUTOCAST.search(dotted(node)) else None
        name = self.symbols.qualified(node.func) or dotted(node.func)
        if not names.AUTOCAST.search(name):
            return None
        found = Autocast(node, cpu="cpu" in name)
        for keyword in node.keywords:
            text = ast.unparse(keyword.value)
            if keyword.arg == "dtype":
                found.dtype = text
            elif keyword.arg == "enabled":
                found.enabled = text
            elif keyword.arg == "device_type":
                found.cpu = text in ("'cpu'", '"cpu"')
        for i, argument in enumerate(node.args):
            if isinstance(argument, ast.Constant):
                if argument.value == "cpu":
                    found.cpu = True
                elif argument.value is False and i == 0:
                    found.enabled = "False"
            elif i >= 1 or "dtype" in ast.unparse(argument) or "float16" in ast.unparse(argument):
                found.dtype = found.dtype or ast.unparse(argument)
            elif i == 0 and not name.startswith("torch.amp") and not name == "torch.autocast":
                found.enabled = found.enabled or ast.unparse(argument)
        return found

    # ---- the rest ----

    def _expression(self, stmt: ast.stmt) -> None:
        assert isinstance(stmt, ast.Expr)
        value = self.eval(stmt.value)
        node = stmt.value
        if isinstance(node, ast.Call):
            name = last_name(node)
            if name == "set_grad_enabled" or name == "enter_context":
                if self.stops_gradients(node):
                    self.no_grad = True
                elif name == "set_grad_enabled":
                    self.no_grad = False
            elif name == "requires_grad_" and isinstance(node.func, ast.Attribute) and value.kind == values.TENSOR:
                self.env[dotted(node.func.value)] = replace(value, graph=values.YES)
            elif name == "detach_" and isinstance(node.func, ast.Attribute):
                self.env[dotted(node.func.value)] = value.without_graph()
            elif name in ("append", "extend", "appendleft", "insert", "add") and isinstance(node.func, ast.Attribute) and node.args:
                self.grow(node.func.value, self.eval_quietly(node.args[-1]))
        elif not isinstance(node, ast.Constant):
            made = self.event("expression", node)
            if made is not None:
                made.name, made.value = dotted(node), value

    def eval_quietly(self, node: ast.expr) -> Value:
        record, self.record = self.record, False
        value = self.eval(node)
        self.record = record
        return value

    def grow(self, container: ast.expr, value: Value) -> None:
        name = dotted(container)
        old = self.env.get(name)
        if name and old is not None and old.kind == values.LIST:
            self.env[name] = replace(old, items=(value,) + (old.items or ())[:3], graph=max(old.graph, value.graph))

    def _return(self, stmt: ast.stmt) -> None:
        assert isinstance(stmt, ast.Return)
        value = self.eval(stmt.value)
        made = self.event("leave", stmt)
        if made is not None:
            made.value = value
        if self.record:
            self.trace.returns.append(value)
            if stmt.value is not None:
                self.trace.return_nodes.append(stmt.value)

    def _leave(self, stmt: ast.stmt) -> None:
        if isinstance(stmt, ast.Raise):
            self.eval(stmt.exc)
        self.event("leave", stmt)

    def _assert(self, stmt: ast.stmt) -> None:
        assert isinstance(stmt, ast.Assert)
        self.test(stmt.test)

    def test(self, node: ast.expr) -> None:
        value = self.eval(node)
        made = self.event("test", node)
        if made is not None:
            made.target, made.value = node, value

    def _define(self, stmt: ast.stmt) -> None:
        if isinstance(stmt, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self.env.pop(stmt.name, None)

    def _import(self, stmt: ast.stmt) -> None:
        for alias in getattr(stmt, "names", ()):
            self.env.pop((alias.asname or alias.name).partition(".")[0], None)

    statements: dict[type, Callable[["Walker", ast.stmt], None]] = {
        ast.Assign: _assign, ast.AnnAssign: _annotated, ast.AugAssign: _augmented, ast.Delete: _delete,
        ast.If: _branch, ast.Try: _try, ast.For: _loop, ast.AsyncFor: _loop, ast.While: _loop, ast.Match: _match,
        ast.With: _with, ast.AsyncWith: _with, ast.Expr: _expression, ast.Return: _return, ast.Raise: _leave,
        ast.Continue: _leave, ast.Break: _leave, ast.Assert: _assert, ast.FunctionDef: _define,
        ast.AsyncFunctionDef: _define, ast.Import: _import, ast.ImportFrom: _import,
    }
    if hasattr(ast, "TryStar"):
        statements[ast.TryStar] = _try


def last_name(node: ast.expr) -> str:
    """`torch.cuda.amp.autocast(...)` -> "autocast"."""
    if isinstance(node, ast.Call):
        node = node.func
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


_ANNOTATIONS = {
    "Module": Value(values.MODULE, True), "DataLoader": Value(values.LOADER, True), "Optimizer": Value(values.OPTIMIZER, True),
    "Tensor": Value(values.TENSOR, True, values.MAYBE), "GradScaler": Value(values.SCALER, True),
    "PreTrainedModel": Value(values.MODULE, True), "Accelerator": Value(values.ACCEL, True), "FloatTensor": Value(values.TENSOR, True, values.MAYBE),
    "LRScheduler": Value(values.SCHEDULER, True), "Fabric": Value(values.ACCEL, True), "float": Value(values.NUMBER, True),
    "int": Value(values.NUMBER, True), "str": Value(values.TEXT, True), "bool": Value(values.NUMBER, True),
}


def kind_of_annotation(node: ast.expr | None) -> Value:
    """`model: nn.Module`, `"DataLoader"`, `Optional[Tensor]`."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return _ANNOTATIONS.get(node.value.rpartition(".")[2], UNKNOWN_VALUE)
    if isinstance(node, ast.Subscript) and last_name(node.value) == "Optional":
        return kind_of_annotation(node.slice)
    if isinstance(node, ast.BinOp):
        return kind_of_annotation(node.left)
    return _ANNOTATIONS.get(last_name(node), UNKNOWN_VALUE) if isinstance(node, (ast.Name, ast.Attribute)) else UNKNOWN_VALUE


def parameters(function: Function) -> list[ast.arg]:
    node = function.node
    if isinstance(node, ast.Module):
        return []
    return node.args.posonlyargs + node.args.args + node.args.kwonlyargs


def argument(event: Event, function: Function, parameter: str) -> tuple[ast.expr, Value] | None:
    """What a call gives for a parameter."""
    own = [a.arg for a in parameters(function)]
    skip = int(function.cls is not None and bool(own) and own[0] in ("self", "cls"))
    call = event.call
    if event.open_ended or parameter not in own:
        return None
    at = own.index(parameter) - skip
    if 0 <= at < len(call.args):
        return call.args[at], event.args[at]
    for i, keyword in enumerate(call.keywords, len(call.args)):
        if keyword.arg == parameter:
            return keyword.value, event.args[i]
    return None
