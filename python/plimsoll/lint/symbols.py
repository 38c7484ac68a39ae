"""Pass 1: a file's imports, classes, functions, and which attributes are asked of which name."""
from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Callable

from . import names
from .values import Value

Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Module


@dataclass(slots=True, eq=False)
class Function:
    """A function, method, or the module's body (name "")."""

    name: str
    node: Scope
    cls: "Class | None" = None
    outer: "Function | None" = None
    uses: dict[str, set[str]] = field(default_factory=dict)  #: dotted name -> attributes asked of it here; "()" if it is called
    tensors: set[str] = field(default_factory=set)  #: names given to a function of torch: tensors, or containers of tensors
    put: list[tuple[str, ast.expr]] = field(default_factory=list)  #: (container, what is appended to it)
    local: dict[str, "Function"] = field(default_factory=dict)
    bound: set[str] = field(default_factory=set)  #: names that are assigned here
    home: object = field(default=None, repr=False)  #: the program of its file
    hook: bool = False  #: registered to run after each forward pass of a module: (module, inputs, output)

    @property
    def path(self) -> str:
        head = self.cls.name + "." if self.cls else ""
        return head + self.name


@dataclass(slots=True, eq=False)
class Class:
    name: str
    node: ast.ClassDef
    bases: list[str]
    methods: dict[str, Function] = field(default_factory=dict)
    uses: dict[str, set[str]] = field(default_factory=dict)
    assigned: dict[str, list[tuple[ast.expr, Function]]] = field(default_factory=dict)  #: self.x -> what, where
    values: dict[str, Value] = field(default_factory=dict)  #: of self.x, as methods were walked
    module: bool = False
    lightning: bool = False
    trainer: bool = False
    dataset: bool = False
    home: object = field(default=None, repr=False)  #: the program of its file


@dataclass(slots=True)
class Symbols:
    imports: dict[str, str] = field(default_factory=dict)  #: local name -> qualified
    classes: dict[str, Class] = field(default_factory=dict)
    functions: list[Function] = field(default_factory=list)
    module: Function | None = None
    stars: list[str] = field(default_factory=list)  #: modules of which everything is imported
    text: str = ""
    hooks: list[tuple[ast.expr, Function]] = field(default_factory=list)  #: what register_forward_hook() is given, where

    @property
    def torch(self) -> bool:
        """Does the file import PyTorch, a library on it, or what may hold it (everything of another file)?"""
        return bool(self.stars) or any("torch" in q or q.partition(".")[0] in names.TORCH_ROOTS or q.startswith(".") for q in self.imports.values())

    def imported(self, *roots: str) -> bool:
        return any(q == r or q.startswith(r + ".") for q in self.imports.values() for r in roots)

    def qualified(self, node: ast.expr) -> str:
        """`F.relu` -> "torch.nn.functional.relu"; "" for what was not imported."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        root = self.imports.get(node.id)
        if root is None:
            return ""
        parts.append(root)
        return ".".join(reversed(parts))


def dotted(node: ast.expr) -> str:
    """`self.model.x` as text; "" for what is not a chain of names."""
    if isinstance(node, ast.Name):
        return node.id
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    parts.append(node.id)
    return ".".join(reversed(parts))


def within(module: str, name: str) -> str:
    """What a module's name is called in full: `from . import x` means ".x"."""
    return module + name if module.endswith(".") else f"{module}.{name}"


def _imports(node: ast.Import | ast.ImportFrom, symbols: Symbols) -> None:
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.asname:
                symbols.imports[alias.asname] = alias.name
            else:
                root = alias.name.partition(".")[0]
                symbols.imports[root] = root
        return
    module = "." * node.level + (node.module or "")
    for alias in node.names:
        if alias.name == "*":
            symbols.stars.append(module)
        else:
            symbols.imports[alias.asname or alias.name] = within(module, alias.name)


def settle_bases(symbols: Symbols, above_of: Callable[[str, Class], Class | None]) -> None:
    """Which classes are modules, Lightning modules, trainers, datasets: three levels of bases within the file, and those of other files."""
    for _ in range(3):
        for cls in symbols.classes.values():
            for base in cls.bases:
                last = base.rpartition(".")[2]
                above = above_of(base, cls)
                if base in names.MODULE_BASES or base.startswith("torch.nn.") or above and above.module:
                    cls.module = True
                elif last in ("ModelMixin", "Module") and base != last and "__call__" not in cls.methods or last == "PreTrainedModel":
                    cls.module = True  # the Module of a library that is not built on PyTorch has __call__ in place of forward
                if last == "LightningModule" or above and above.lightning:
                    cls.lightning = cls.module = True
                if last.endswith("Trainer") or last.endswith("TrainerCallback") or above and above.trainer:
                    cls.trainer = True
                if last.endswith("Dataset") or above and above.dataset:
                    cls.dataset = True
            if not cls.module and "forward" in cls.methods and "__init__" in cls.methods and _makes_layers(symbols, cls.methods["__init__"]):
                cls.module = not any("Function" in b for b in cls.bases)


def _makes_layers(symbols: Symbols, init: Function) -> bool:
    """Calls its base's __init__ and makes layers: a module, although its base is in another file."""
    made = [n for n in ast.walk(init.node) if isinstance(n, ast.Call)]
    return any(isinstance(c.func, ast.Attribute) and c.func.attr == "__init__" for c in made) and any(
        symbols.qualified(c.func).startswith("torch.nn.") for c in made)


def _children(node: ast.AST) -> list[ast.AST]:
    """As ast.iter_child_nodes() in half of its time, without what has no parts (`Load`, `Add`)."""
    found: list[ast.AST] = []
    for name in node._fields:
        part = getattr(node, name, None)
        if isinstance(part, list):
            found += [p for p in part if isinstance(p, ast.AST)]
        elif isinstance(part, ast.AST) and part._fields:
            found.append(part)
    return found


class _Collector:
    """One walk over the tree.  A plain stack of (node, function, class): no recursion on deep files."""

    def __init__(self, tree: ast.Module, symbols: Symbols) -> None:
        self.symbols = symbols
        module = Function("", tree)
        symbols.module = module
        stack: list[tuple[ast.AST, Function, Class | None]] = [(tree, module, None)]
        later: list[tuple[ast.ClassDef, Class]] = []
        while stack:
            node, function, cls = stack.pop()
            for child in _children(node):
                kind = child.__class__
                if kind is ast.FunctionDef or kind is ast.AsyncFunctionDef:
                    assert isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef))
                    stack.append((child, self.function(child, function, cls), None if cls is None else cls))
                elif kind is ast.ClassDef:
                    assert isinstance(child, ast.ClassDef)
                    inner = Class(child.name, child, [])
                    symbols.classes[child.name] = inner
                    later.append((child, inner))
                    stack.append((child, function, inner))
                elif kind is ast.Import or kind is ast.ImportFrom:
                    assert isinstance(child, (ast.Import, ast.ImportFrom))
                    _imports(child, symbols)
                elif kind is ast.Attribute:
                    assert isinstance(child, ast.Attribute)
                    self.attribute(child, function)
                    stack.append((child, function, cls))
                elif kind is ast.Name:
                    assert isinstance(child, ast.Name)
                    if isinstance(child.ctx, ast.Store):
                        function.bound.add(child.id)
                elif kind is not ast.Constant:
                    if kind is ast.Assign or kind is ast.AnnAssign:
                        assert isinstance(child, (ast.Assign, ast.AnnAssign))
                        self.assign(child, function)
                    elif kind is ast.Call:
                        assert isinstance(child, ast.Call)
                        self.call(child, function)
                    stack.append((child, function, cls))
        for node_, made in later:
            made.bases = [symbols.qualified(b) or dotted(b) for b in node_.bases]

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, outer: Function, cls: Class | None) -> Function:
        method = cls is not None and outer.cls is not cls
        made = Function(node.name, node, cls, outer)
        self.symbols.functions.append(made)
        if method:
            assert cls is not None
            cls.methods.setdefault(node.name, made)
        else:
            outer.local[node.name] = made
        return made

    def attribute(self, node: ast.Attribute, function: Function) -> None:
        self.use(dotted(node.value), node.attr, function)

    def use(self, of: str, attr: str, function: Function) -> None:
        if not of:
            return
        function.uses.setdefault(of, set()).add(attr)
        if of.startswith("self.") and function.cls is not None:
            function.cls.uses.setdefault(of, set()).add(attr)

    def call(self, node: ast.Call, function: Function) -> None:
        func = node.func
        self.use(dotted(func), "()", function)
        if isinstance(func, ast.Attribute) and (func.attr == "eval" and not node.args and not node.keywords or func.attr == "train" and any(
                isinstance(a, ast.Constant) and isinstance(a.value, bool) for a in node.args)):
            of = func.value
            while isinstance(of, ast.Call) and isinstance(of.func, ast.Attribute) and of.func.attr in ("to", "cuda", "cpu", "float", "half"):
                of = of.func.value  # net.to(device).eval()
            self.use(dotted(of), "eval()", function)
        if isinstance(func, ast.Attribute) and func.attr in ("append", "extend") and node.args:
            function.put.append((dotted(func.value), node.args[-1]))
        if isinstance(func, ast.Attribute) and func.attr == "register_forward_hook" and node.args:
            self.symbols.hooks.append((node.args[0], function))
        head, _, last = self.symbols.qualified(func).rpartition(".")
        if node.args and (head == "torch" and last in names.FUNCTIONS or head == "torch.nn.functional"):
            given = node.args[0]
            function.tensors.update(dotted(n) for n in (given.elts if isinstance(given, (ast.List, ast.Tuple)) else [given]))

    def assign(self, node: ast.Assign | ast.AnnAssign, function: Function) -> None:
        if function.cls is None or node.value is None:
            return
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            name = dotted(target)
            if name.startswith("self."):
                function.cls.assigned.setdefault(name, []).append((node.value, function))


def find(name: str, within: Function) -> Function | None:
    """A function of the file by its name: here, or in a function around, or a method `self.x`."""
    if name.startswith("self.") and within.cls is not None:
        return within.cls.methods.get(name.removeprefix("self."))
    at: Function | None = within
    while at is not None and name not in at.local:
        at = at.outer
    return at.local[name] if at is not None else None


def _mark_hooks(symbols: Symbols) -> None:
    """Functions that run after each forward pass: by name, or made by a function of the file that returns one of its own."""
    for given, where in symbols.hooks:
        function = find(dotted(given.func if isinstance(given, ast.Call) else given), where)
        if function is not None and isinstance(given, ast.Call):
            returned = {dotted(n.value) for n in ast.walk(function.node) if isinstance(n, ast.Return) and n.value is not None}
            function = next((f for name, f in function.local.items() if name in returned), None)
        if function is not None:
            function.hook = True


def collect(tree: ast.Module, text: str) -> Symbols:
    symbols = Symbols(text=text)
    _Collector(tree, symbols)
    _mark_hooks(symbols)
    return symbols
