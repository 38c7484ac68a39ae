"""Expressions to values.  Each kind of node has a method; what is not known is UNKNOWN, never guessed."""
from __future__ import annotations

import ast
from dataclasses import replace
from typing import Callable

from . import names, values
from .symbols import Class, Function, Symbols, dotted
from .trace import Autocast, Event, Loop, Path, Trace
from .values import NUMBER_VALUE, TEXT_VALUE, UNKNOWN_VALUE, Value

_FOR_NAME = {
    "module": Value(values.MODULE), "criterion": Value(values.CRITERION), "optimizer": Value(values.OPTIMIZER),
    "scheduler": Value(values.SCHEDULER), "scaler": Value(values.SCALER), "loader": Value(values.LOADER),
    "loss": Value(values.TENSOR, graph=values.MAYBE, scalar=True), "": UNKNOWN_VALUE,
}
_TENSOR_FIELDS = frozenset("grad data T mT H real imag".split())
_FIELDS_OF_OUTPUT = frozenset("loss logits last_hidden_state hidden_states sample pooler_output prediction_logits".split())
DEPTH = 60  #: of nested expressions; deeper is generated code


class Evaluator:
    """State of one walk, and the values of expressions in it."""

    def __init__(self, symbols: Symbols, owner: "Owner", function: Function, trace: Trace) -> None:
        self.symbols = symbols
        self.owner = owner
        self.function = function
        self.trace = trace
        self.env: dict[str, Value] = {}
        self.loop: Loop | None = None
        self.path: Path = ()
        self.no_grad = False
        self.autocast: Autocast | None = None
        self.handler: ast.ExceptHandler | None = None
        self.stmt: ast.stmt = ast.Pass()
        self.record = True
        self.depth = 0
        self.dispatch: dict[type, Callable[[ast.expr], Value]] = {
            ast.Name: self._name, ast.Constant: self._constant, ast.Attribute: self._attribute, ast.Call: self._call,
            ast.BinOp: self._binary, ast.UnaryOp: self._unary, ast.BoolOp: self._bool, ast.Compare: self._compare,
            ast.Subscript: self._subscript, ast.Tuple: self._tuple, ast.List: self._list, ast.Dict: self._dict,
            ast.IfExp: self._if, ast.ListComp: self._comprehension, ast.GeneratorExp: self._comprehension,
            ast.SetComp: self._comprehension, ast.DictComp: self._dict_comprehension, ast.NamedExpr: self._walrus,
            ast.Starred: self._starred, ast.Await: self._await, ast.Lambda: self._lambda,
            ast.JoinedStr: self._joined, ast.FormattedValue: self._formatted, ast.Yield: self._yield, ast.Set: self._set,
            ast.Slice: self._slice,
        }

    # ---- events ----

    def event(self, kind: str, node: ast.expr | ast.stmt) -> Event | None:
        if not self.record:
            return None
        made = Event(kind, node, self.stmt, self.loop, self.path, self.no_grad, self.autocast, self.function,
                     len(self.trace.events), self.handler)
        self.trace.events.append(made)
        return made

    # ---- names ----

    def eval(self, node: ast.expr | None) -> Value:
        if node is None:
            return UNKNOWN_VALUE
        method = self.dispatch.get(node.__class__)
        if method is None or self.depth > DEPTH:
            return UNKNOWN_VALUE
        self.depth += 1
        try:
            return method(node)
        finally:
            self.depth -= 1

    def lookup(self, name: str) -> Value:
        """Value of a dotted name: what was assigned here, in the class, in the module; else how it is used and called."""
        found = self.env.get(name)
        if found is None and name.startswith("self.") and self.function.cls is not None:
            found = self.owner.attribute(self.function.cls, name)
        if found is None and "." not in name:
            outer = self.function.outer
            while found is None and outer is not None:
                found = self.owner.globals(outer).get(name)
                outer = outer.outer
        if found is not None and found.kind and (found.strong or found.kind != values.INSTANCE):
            sure = not found.strong and kind_of_uses(self.uses_of(name)) == found.kind
            return self.loaded(name, replace(found, strong=True) if sure else found)
        return self.by_use(name, found)

    def uses_of(self, name: str) -> set[str]:
        uses = self.function.uses.get(name, set())
        return self.function.cls.uses.get(name, uses) if name.startswith("self.") and self.function.cls is not None else uses

    def loaded(self, name: str, found: Value) -> Value:
        """What torch.load gave is a module if it is called."""
        return Value(values.MODULE, True) if found.kind == values.CHECKPOINT and "()" in self.uses_of(name) else found

    def by_use(self, name: str, found: Value | None) -> Value:
        uses = self.uses_of(name)
        kind = kind_of_uses(uses) if uses else ""
        if kind:
            return Value(kind, True)
        if found is not None:
            if found.kind or found.qual or found.function or found.cls or found.node:
                return found
        hinted = _FOR_NAME[names.kind_of_name(name)]
        return found if found is not None and not hinted.kind else hinted

    def _name(self, node: ast.expr) -> Value:
        assert isinstance(node, ast.Name)
        name = node.id
        found = self.env.get(name)
        if found is not None and found.strong:
            return self.loaded(name, found)
        cls = self.symbols.classes.get(name)
        if cls is not None and name not in self.env:
            return Value(qual=name, cls=cls)
        function = self.owner.find(name, self.function)
        if function is not None and name not in self.env:
            return Value(function=function, qual=name)
        qualified = self.symbols.imports.get(name)
        if qualified is not None and name not in self.env:
            return self.owner.imported(qualified)
        return self.lookup(name)

    def _constant(self, node: ast.expr) -> Value:
        assert isinstance(node, ast.Constant)
        value = node.value
        if isinstance(value, str):
            return TEXT_VALUE
        return values.NONE_VALUE if value is None else NUMBER_VALUE

    def _attribute(self, node: ast.expr) -> Value:
        assert isinstance(node, ast.Attribute)
        name = dotted(node)
        if name:
            found = self.env.get(name)
            if found is not None and found.strong:
                return self.loaded(name, found)
            qualified = self.symbols.qualified(node)
            if qualified:
                return self.owner.imported(qualified)
            if name.startswith("self.") and name.count(".") == 1:
                if self.function.cls is not None and node.attr in self.function.cls.methods and name not in self.env:
                    return Value(function=self.function.cls.methods[node.attr])
                return self.lookup(name)
            if found is not None:
                return found
        of = self.eval(node.value)
        return self._field(of, node.attr, name)

    def _field(self, of: Value, attr: str, name: str) -> Value:
        if of.kind == values.TENSOR:
            if attr in _TENSOR_FIELDS:
                return Value(values.TENSOR, of.strong, values.NO if attr in ("grad", "data") else of.graph, of.device)
            if attr == "shape":
                return NUMBER_VALUE
            return UNKNOWN_VALUE
        if of.kind == values.OUTPUT:
            if attr in _FIELDS_OF_OUTPUT:
                return Value(values.TENSOR, of.strong, of.graph, of.device, scalar=attr == "loss")
            return UNKNOWN_VALUE
        if of.kind == values.BATCH:
            return Value(values.TENSOR, False)
        if of.kind in values.MODULES:
            if attr in ("module", "_orig_mod"):
                return of
            if of.cls is not None:
                found = self.owner.attribute(of.cls, "self." + attr)
                if found is not None:
                    return found
                method = self.owner.method(of.cls, attr)
                if method is not None:
                    return Value(function=method)
            if attr in ("weight", "bias"):
                return Value(values.TENSOR, of.strong, values.YES, qual="parameter")
            kind = names.kind_of_name(attr)
            return Value(kind) if kind in ("module", "criterion") else UNKNOWN_VALUE
        if of.kind == values.INSTANCE and of.cls is not None:
            found = self.owner.attribute(of.cls, "self." + attr)
            if found is not None:
                return found
        if name:
            return self.by_use(name, None) if name.count(".") == 1 and name.split(".")[1] in ("model", "module") else UNKNOWN_VALUE
        return UNKNOWN_VALUE

    # ---- operators ----

    def _binary(self, node: ast.expr) -> Value:
        assert isinstance(node, ast.BinOp)
        left, right = self.eval(node.left), self.eval(node.right)
        if left.kind in values.TENSORS or right.kind in values.TENSORS:
            tensor = left if left.kind in values.TENSORS else right
            scalar = (left.scalar or left.kind == values.NUMBER) and (right.scalar or right.kind == values.NUMBER)
            return Value(values.TENSOR, (left.strong or left.kind not in values.TENSORS) and
                         (right.strong or right.kind not in values.TENSORS), max(left.graph, right.graph), tensor.device, scalar)
        if left.kind in (values.LIST, values.TUPLE):
            return left
        if left.kind == values.NUMBER and right.kind == values.NUMBER:
            return NUMBER_VALUE
        if left.kind == values.TEXT:
            return TEXT_VALUE
        graph = max(left.graph, right.graph)
        return Value(graph=graph) if graph else UNKNOWN_VALUE

    def _unary(self, node: ast.expr) -> Value:
        assert isinstance(node, ast.UnaryOp)
        value = self.eval(node.operand)
        return NUMBER_VALUE if isinstance(node.op, ast.Not) else value

    def _bool(self, node: ast.expr) -> Value:
        assert isinstance(node, ast.BoolOp)
        found = UNKNOWN_VALUE
        path = self.path
        for i, part in enumerate(node.values):
            if i:
                self.path = path + ((node, i, False),)
            found = values.join(found, self.eval(part))
        self.path = path
        return found

    def _compare(self, node: ast.expr) -> Value:
        assert isinstance(node, ast.Compare)
        sides = [self.eval(node.left)] + [self.eval(c) for c in node.comparators]
        for side in sides:
            if side.kind == values.TENSOR and not isinstance(node.ops[0], (ast.Is, ast.IsNot, ast.In, ast.NotIn)):
                return Value(values.TENSOR, side.strong, device=side.device, scalar=side.scalar)
        return NUMBER_VALUE

    def _subscript(self, node: ast.expr) -> Value:
        assert isinstance(node, ast.Subscript)
        of = self.eval(node.value)
        self.eval(node.slice)
        name = dotted(node.value)
        index = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if name and index is not None:
            found = self.env.get(f"{name}[{index!r}]")
            if found is not None:
                return found
        if of.items is not None and isinstance(index, int) and -len(of.items) <= index < len(of.items):
            return of.items[index]
        if of.kind in values.TENSORS:
            return Value(values.TENSOR, of.strong and of.kind == values.TENSOR, of.graph, of.device,
                         scalar=index == "loss")
        if of.kind == values.BATCH:
            return Value(values.TENSOR, False)
        if of.kind in (values.LIST, values.DICT, values.TUPLE) and of.items:
            found = of.items[0]
            for item in of.items[1:]:
                found = values.join(found, item)
            return found
        if isinstance(index, str) and names.kind_of_name(name) == values.LOADER:
            return Value(values.LOADER)  # loaders["val"]
        return UNKNOWN_VALUE

    def _slice(self, node: ast.expr) -> Value:
        assert isinstance(node, ast.Slice)
        for part in (node.lower, node.upper, node.step):
            if part is not None:
                self.eval(part)
        return NUMBER_VALUE

    def _display(self, kind: str, elements: list[ast.expr]) -> Value:
        items = tuple(self.eval(e) for e in elements)
        return Value(kind, True, max((i.graph for i in items), default=0), items=items)

    def _tuple(self, node: ast.expr) -> Value:
        assert isinstance(node, ast.Tuple)
        return self._display(values.TUPLE, node.elts)

    def _list(self, node: ast.expr) -> Value:
        assert isinstance(node, ast.List)
        return self._display(values.LIST, node.elts)

    def _set(self, node: ast.expr) -> Value:
        assert isinstance(node, ast.Set)
        return self._display(values.LIST, node.elts)

    def _dict(self, node: ast.expr) -> Value:
        assert isinstance(node, ast.Dict)
        for key in node.keys:
            self.eval(key)
        return self._display(values.DICT, node.values)

    def _if(self, node: ast.expr) -> Value:
        assert isinstance(node, ast.IfExp)
        self.eval(node.test)
        path = self.path
        self.path = path + ((node, 0, False),)
        body = self.eval(node.body)
        self.path = path + ((node, 1, False),)
        other = self.eval(node.orelse)
        self.path = path
        return values.join(body, other)

    def _generators(self, generators: list[ast.comprehension]) -> dict[str, Value]:
        saved = dict(self.env)
        for part in generators:
            self.assign(part.target, self.element(self.eval(part.iter)), part.iter, quiet=True)
            for test in part.ifs:
                self.eval(test)
        return saved

    def _comprehension(self, node: ast.expr) -> Value:
        assert isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.SetComp))
        saved = self._generators(node.generators)
        item = self.eval(node.elt)
        self.env = saved
        if not isinstance(node, ast.GeneratorExp):
            self.comprehended(node, item)
        return Value(values.LIST, True, item.graph, items=(item,), node=node)

    def comprehended(self, node: ast.expr, item: Value) -> None:
        made = self.event("comprehension", node)
        if made is not None:
            made.value, made.source = item, node.elt  # type: ignore[attr-defined]

    def _dict_comprehension(self, node: ast.expr) -> Value:
        assert isinstance(node, ast.DictComp)
        saved = self._generators(node.generators)
        self.eval(node.key)
        item = self.eval(node.value)
        self.env = saved
        made = self.event("comprehension", node)
        if made is not None:
            made.value, made.source = item, node.value
        return Value(values.DICT, True, item.graph, items=(item,), node=node)

    def _walrus(self, node: ast.expr) -> Value:
        assert isinstance(node, ast.NamedExpr)
        value = self.eval(node.value)
        self.assign(node.target, value, node.value)
        return value

    def _starred(self, node: ast.expr) -> Value:
        assert isinstance(node, ast.Starred)
        return self.eval(node.value)

    def _await(self, node: ast.expr) -> Value:
        assert isinstance(node, ast.Await)
        return self.eval(node.value)

    def _yield(self, node: ast.expr) -> Value:
        assert isinstance(node, ast.Yield)
        if node.value is not None:
            self.eval(node.value)
        return UNKNOWN_VALUE

    def _lambda(self, node: ast.expr) -> Value:
        return Value(node=node, qual="lambda")

    def _joined(self, node: ast.expr) -> Value:
        assert isinstance(node, ast.JoinedStr)
        for part in node.values:
            self.eval(part)
        return TEXT_VALUE

    def _formatted(self, node: ast.expr) -> Value:
        assert isinstance(node, ast.FormattedValue)
        value = self.eval(node.value)
        made = self.event("format", node.value)
        if made is not None:
            made.value = value
        return TEXT_VALUE

    # ---- what a loop, or an unpacking, hands out ----

    def element(self, of: Value) -> Value:
        if of.qual == "enumerate" and of.items:
            return Value(values.TUPLE, True, items=(NUMBER_VALUE, of.items[0]))
        if of.qual == "zip" and of.items:
            return Value(values.TUPLE, True, items=of.items)
        if of.kind == values.LOADER:
            return Value(values.BATCH, of.strong)
        if of.kind in values.TENSORS:
            return Value(values.TENSOR, False, of.graph, of.device)
        if of.kind in (values.LIST, values.TUPLE) and of.items:
            found = of.items[0]
            for item in of.items[1:]:
                found = values.join(found, item)
            return found
        if of.kind == values.PARAMS:
            weight = Value(values.TENSOR, True, values.YES, qual="parameter")
            named = isinstance(of.node, ast.Call) and isinstance(of.node.func, ast.Attribute) and of.node.func.attr == "named_parameters"
            return Value(values.TUPLE, True, values.YES, items=(TEXT_VALUE, weight)) if named else weight
        if of.qual == "range":
            return NUMBER_VALUE
        return UNKNOWN_VALUE

    def assign(self, target: ast.expr, value: Value, source: ast.expr | None, quiet: bool = False) -> None:
        raise NotImplementedError

    def _call(self, node: ast.expr) -> Value:
        raise NotImplementedError


class Owner:
    """What an evaluator asks of the whole file (program.py)."""

    def globals(self, function: Function) -> dict[str, Value]:
        raise NotImplementedError

    def attribute(self, cls: Class, name: str) -> Value | None:
        raise NotImplementedError

    def find(self, name: str, within: Function) -> Function | None:
        raise NotImplementedError

    def imported(self, qualified: str) -> Value:
        raise NotImplementedError

    def method(self, cls: Class, name: str) -> Function | None:
        raise NotImplementedError

    def result(self, function: Function, args: tuple[Value, ...], named: dict[str | None, Value], of: Value | None) -> Value:
        raise NotImplementedError


def kind_of_uses(uses: set[str] | frozenset[str]) -> str:
    """What only that kind of object is asked."""
    if "zero_grad" in uses and "step" in uses or "param_groups" in uses:
        return values.ENGINE if "backward" in uses else values.OPTIMIZER
    if "()" in uses and uses & {"cuda", "half", "train"} or "eval()" in uses or "load_state_dict" in uses and uses & {"()", "to", "cuda", "eval"} or "parameters" in uses or "named_parameters" in uses or "named_modules" in uses or (
            "train" in uses and "eval" in uses) or "requires_grad_" in uses and ("eval" in uses or "train" in uses):
        return values.MODULE
    if "unscale_" in uses or "scale" in uses and "update" in uses:
        return values.SCALER
    if "get_last_lr" in uses:
        return values.SCHEDULER
    if "set_epoch" in uses and len(uses) == 1:
        return values.SAMPLER
    return ""
