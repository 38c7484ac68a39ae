"""What rules share: reporting, the flow of names into a backward pass, and small questions on events."""
from __future__ import annotations

import ast
from dataclasses import dataclass, field
from os.path import basename
from typing import Any, Callable, Iterable, Iterator, Sequence

from . import names, values
from .finding import Edit, Finding
from .program import Program
from .symbols import Function, dotted
from .trace import Event, Loop, Trace
from .walk import parameters

HIGH, MEDIUM, LOW = 0.9, 0.7, 0.5

Check = Callable[["Context"], None]
CHECKS: list[tuple[tuple[str, ...], Check]] = []


def checks(*ids: str) -> Callable[[Check], Check]:
    """Registers the function that finds these rules' mistakes."""

    def add(check: Check) -> Check:
        CHECKS.append((ids, check))
        return check

    return add


_CUT = frozenset("item detach detach_ tolist numpy".split())


def names_in(node: ast.expr | None, cut: bool = True) -> set[str]:
    """Dotted names whose values an expression uses.  With `cut`, not through `.item()`, `.detach()`, `.data`, `float()`."""
    found: set[str] = set()
    stack: list[ast.AST] = [node] if node is not None else []
    while stack:
        at = stack.pop()
        if isinstance(at, ast.Call):
            func = at.func
            if cut and (isinstance(func, ast.Attribute) and func.attr in _CUT or isinstance(func, ast.Name) and func.id in ("float", "int", "len")):
                continue
            stack += at.args
            stack += [k.value for k in at.keywords]
            if isinstance(func, ast.Attribute):
                stack.append(func.value)
            elif not isinstance(func, ast.Name):
                stack.append(func)
        elif isinstance(at, ast.Attribute):
            if cut and at.attr in ("data", "shape"):
                continue
            name = dotted(at)
            if name:
                found.add(name)
                while "." in name:
                    name = name.rpartition(".")[0]
                    if name not in ("self", "cls"):
                        found.add(name)
            else:
                stack.append(at.value)
        elif isinstance(at, ast.Name):
            found.add(at.id)
        elif isinstance(at, (ast.Lambda, ast.FunctionDef)):
            continue
        else:
            stack += ast.iter_child_nodes(at)
    return found


def uncut(node: ast.AST) -> list[ast.AST]:
    """The parts of an expression whose graphs are the expression's, too."""
    found: list[ast.AST] = []
    todo: list[ast.AST] = [node]
    while todo:
        at = todo.pop()
        if isinstance(at, ast.Call):
            called = at.func.attr if isinstance(at.func, ast.Attribute) else at.func.id if isinstance(at.func, ast.Name) else ""
            if called in names.ENDS_GRAPH or called in names.FLAT_FUNCTIONS or isinstance(at.func, ast.Name) and called in ("float", "int", "len", "str"):
                continue
        if isinstance(at, ast.Attribute) and at.attr in ("data", "shape", "grad"):
            continue
        if isinstance(at, (ast.Lambda, ast.Compare)):
            continue
        found.append(at)
        todo += ast.iter_child_nodes(at)
    return found


def pick(node: ast.AST | None, kind: type) -> Iterator[ast.AST]:
    if node is not None:
        for part in ast.walk(node):
            if isinstance(part, kind):
                yield part


def constant(node: ast.expr | None) -> object:
    """Value of a literal, or Ellipsis."""
    return node.value if isinstance(node, ast.Constant) else ...


def in_place(stmt: ast.stmt, node: ast.expr) -> bool:
    """Is the call a statement of its own, its result thrown away?"""
    return isinstance(stmt, ast.Expr) and stmt.value is node


def _around(event: Event, loops: list[Loop]) -> Loop | None:
    """The innermost of these loops that an event lies in."""
    loop = event.loop
    while loop is not None and loop not in loops:
        loop = loop.outer
    return loop


def _graphs_made(inside: list[Event], calls: set[ast.expr | ast.stmt]) -> set[str]:
    """Names that get a graph from these events; `calls` are the model's calls among them."""
    bound = [e for e in inside if e.kind in ("bind", "augment", "store")]
    last = {e.name: e.value for e in bound if e.value is not None}
    made = {name for name, value in last.items() if value.graph == values.YES or value.kind == values.OUTPUT}
    made |= {e.name for e in bound if e.source is not None and (e.value is None or not e.value.kind) and any(
        n in calls for n in ast.walk(e.source))}  # a part of what the model returned, of which nothing is known
    return made | {e.receiver for e in inside if e.kind == "call" and e.attr in ("append", "extend") and e.args and e.args[-1].graph == values.YES}


def _put_on_object(event: Event, made: set[str]) -> bool:
    """Does a member of an object get one of these names' values?"""
    return event.kind in ("bind", "augment", "store") and "." in event.name and (event.name in made or bool(names_in(event.source) & made))


def sets_mode(event: Event) -> str:
    """ "eval" for `net.eval()`, `net = Net().eval()` and `net.train(False)`, "train" for `net.train()`; "" for all else."""
    if event.kind != "call" or event.attr not in ("eval", "train") or not event.receiver and not (isinstance(event.stmt, ast.Assign) and event.method):
        return ""
    given = [*event.call.args, *(k.value for k in event.call.keywords)]
    if event.attr == "eval" or any(k.arg != "mode" for k in event.call.keywords):
        return "" if given else "eval"
    return "eval" if given and constant(given[0]) is False else "train"


def _given_away(event: Event, made: set[str]) -> bool:
    """Is one of these names' values put in an object's list, or given to a function that may do anything with it?"""
    if event.kind != "call" or not in_place(event.stmt, event.call) or not any(names_in(a) & made for a in event.call.args):
        return False
    if event.attr in ("append", "extend"):
        return "." in event.receiver
    of = event.of
    return event.name != "print" and (of is None or of.kind in (values.UNKNOWN, values.INSTANCE) or of.kind in values.MODULES and bool(event.receiver))


def _is_test(function: Function, path: str) -> bool:
    """Does pytest or unittest find it, and does it check anything?  A script of the name test_x.py, which calls its functions, may evaluate a model."""
    file = basename(path)
    found = function.cls is not None and any(b.endswith("TestCase") for b in function.cls.bases) or function.name.startswith("test_") and (
        file.startswith("test_") or file.endswith("_test.py"))
    return found and any(isinstance(n, ast.Assert) or isinstance(n, ast.Attribute) and n.attr.startswith("assert") for n in ast.walk(function.node))


@dataclass(eq=False)
class Context:
    program: Program
    findings: list[Finding] = field(default_factory=list)
    by_attr: dict[str, list[Event]] = field(default_factory=dict)
    _fed: dict[tuple[Trace, Loop | None], set[str]] = field(default_factory=dict)
    _steps: dict[Trace, list[Loop]] = field(default_factory=dict)
    _direct: dict[Trace, list[Loop]] = field(default_factory=dict)
    _evals: dict[Trace, list[Loop]] = field(default_factory=dict)
    _inference: dict[Trace, list[Loop]] = field(default_factory=dict)
    keeps: dict[Function, list[Any]] = field(default_factory=dict)  #: of rules/keeps.py
    in_benchmark: bool = False
    tests: list[tuple[int, int]] = field(default_factory=list)  #: lines of functions that pytest or unittest calls

    def __post_init__(self) -> None:
        for trace in self.program.traces.values():
            for event in trace.events:
                if event.kind == "call":
                    self.by_attr.setdefault(event.attr, []).append(event)
        self.in_benchmark = bool(names.BENCHMARK.search("/".join(self.program.source.path.split("/")[-2:])))
        self.tests = [(f.node.lineno, f.node.end_lineno or 0) for f in self.program.symbols.functions if not isinstance(f.node, ast.Module) and f not in self.program.callers and _is_test(f, self.program.source.path)]

    # ---- reporting ----

    def report(self, rule: str, node: ast.expr | ast.stmt, title: str, *, confidence: float = HIGH, severity: str = "",
               evidence: Iterable[str] = (), fix: Iterable[str] = (), edits: Iterable[Edit | None] = (), safe: bool = False,
               lines: Iterable[int] = ()) -> None:
        source = self.program.source
        if rule.startswith("PLM1") and any(first <= node.lineno <= last for first, last in self.tests):
            return  # a test runs a few passes on what it makes, and ends
        made = [e for e in edits]
        place = source.place(node)
        self.findings.append(Finding(
            rule, severity, confidence, title, place, list(evidence), list(fix),
            [e for e in made if e is not None] if None not in made else [], safe, None, False, sorted(set(lines)),
            source.lines[node.lineno - 1] if node.lineno <= len(source.lines) else ""))

    def report_together(self, rule: str, found: Sequence[tuple[ast.expr, Edit | None]], title: str, *, severity: str = "", confidence: float = HIGH,
                        evidence: Iterable[str] = (), safe: bool = False) -> None:
        """Report several places that one decision settles, at the first that no comment silences; `lines` has each.  In a notebook, each by itself."""
        source = self.program.source
        if source.cells and len(found) > 1:
            for place in found:
                self.report_together(rule, [place], title, severity=severity, confidence=confidence, evidence=evidence, safe=safe)
            return
        told = [f for f in found if not source.silenced(rule, f[0].lineno, f[0].end_lineno or f[0].lineno)] or found
        first, rest = told[0][0], [str(node.lineno) for node, _ in told[1:]]
        more = [f"also in line{'s' if len(rest) > 1 else ''} {', '.join(rest[:8])}" + (f" and {len(rest) - 8} more" if len(rest) > 8 else "")] if rest else []
        self.report(rule, first, title, severity=severity, confidence=confidence, evidence=[*evidence, *more], edits=[edit for _, edit in told if edit is not None], safe=safe,
                    lines=[node.lineno for node, _ in told] if rest else ())

    def without(self, call: ast.Call, keyword: ast.keyword) -> Edit | None:
        """Take one keyword argument, and the comma in front of it, out of a call."""
        source = self.program.source
        start, end = source.offset(keyword.lineno, keyword.col_offset), source.end(keyword.value)
        before = source.text[:start].rstrip()
        if source.text[start:end].count("(") != source.text[start:end].count(")"):
            return None
        return Edit(len(before) - 1, end, "") if before.endswith(",") else Edit(start, end, "") if len(call.args) + len(call.keywords) == 1 else None

    # ---- events ----

    def calls(self, *attrs: str) -> Iterator[Event]:
        for attr in attrs:
            yield from self.by_attr.get(attr, ())

    @property
    def traces(self) -> Iterable[Trace]:
        return self.program.traces.values()

    def trace(self, event: Event) -> Trace:
        return self.program.traces[event.function]

    def steps(self, trace: Trace) -> list[Loop]:
        """Training loops whose backward stands in them."""
        found = self._direct.get(trace)
        if found is None:
            found = self._direct[trace] = self.program.direct_steps(trace)
        return found

    def training(self, trace: Trace) -> list[Loop]:
        """Training loops, also those that go backward in a function of the file."""
        found = self._steps.get(trace)
        if found is None:
            found = self._steps[trace] = self.program.steps(trace)
        return found

    def evaluations(self, trace: Trace) -> list[Loop]:
        found = self._evals.get(trace)
        if found is None:
            found = self._evals[trace] = self.program.evaluations(trace)
        return found

    def step_of(self, event: Event) -> Loop | None:
        """The training loop that an event lies in."""
        return _around(event, self.steps(self.trace(event)))

    def inference(self, trace: Trace) -> list[Loop]:
        """Loops that call a model, of whose results none goes backward: over a loader, or as `_is_inference` finds."""
        found = self._inference.get(trace)
        if found is None:
            found = self._inference[trace] = [l for l in self.program.passes(trace) if self._is_inference(trace, l)]
        return found

    def _is_inference(self, trace: Trace, loop: Loop) -> bool:
        """Over a loader; else the model is in eval mode, or what it returns can reach no backward pass: none in the function goes
        through it, and nothing with a graph leaves that, by its result or on an object."""
        if loop.source is not None and loop.source.kind == values.LOADER:
            return True
        for outer in self.training(trace):
            if loop is not outer and outer.around(loop) and self._read_in(trace, loop, outer):
                return False  # a part of a training step
        if self.quiet(trace, loop):
            return True
        return self.ends_here(trace, loop) and all(e.of is not None and e.of.strong for e in trace.inside(loop) if self.program.is_model_call(e))

    def ends_here(self, trace: Trace, loop: Loop) -> bool:
        """Can nothing go backward through what the loop computes?"""
        cls = trace.function.cls
        return not (cls is not None and (cls.module or cls.lightning or cls.trainer) or self._leaves(trace, loop))

    def _leaves(self, trace: Trace, loop: Loop) -> bool:
        """Does anything that the loop computes with a graph leave the function: returned, yielded, kept on an object, given to a call
        of the file?  Numbers (`.item()`, `.tolist()`) carry none."""
        inside = trace.inside(loop)
        calls = {e.node for e in inside if self.program.runs_model(e)}
        made = _graphs_made(inside, calls)
        if made & self.returned(trace) or any(self.escapes(trace, name, loop) for name in made & self.fed(trace)):
            return True
        if calls and any(n in calls for returned in trace.return_nodes for n in ast.walk(returned)):
            return True
        if any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in ast.walk(loop.node)):
            return True
        return any(_put_on_object(e, made) or _given_away(e, made) for e in inside)

    def _read_in(self, trace: Trace, loop: Loop, outer: Loop) -> bool:
        """May the loop around this one read what this one computes with a graph, in its iteration or in the next?"""
        inside = trace.inside(loop)
        made = _graphs_made(inside, {e.node for e in inside if self.program.runs_model(e)})
        flow = [e for e in inside if e.kind in ("bind", "augment", "store") and e.name and (e.value is None or e.value.kind not in (values.NUMBER, values.TEXT))]
        size = 0
        while size != len(made):
            size = len(made)
            made |= {e.name for e in flow if names_in(e.source) & made}
        if any(_put_on_object(e, made) or _given_away(e, made) for e in inside):
            return True
        read: set[str] = set()
        anew: set[str] = set()
        for event in trace.events[loop.end:outer.end] + trace.events[outer.start:loop.start]:
            used = names_in(event.source)
            if event.kind == "call":
                used |= set().union(*(names_in(a) for a in event.call.args), *(names_in(k.value) for k in event.call.keywords)) | {event.receiver}
            read |= used - anew
            if event.kind == "bind" and event.every(outer):
                anew.add(event.name)
        return bool(self.ancestors(read, inside) & made)

    def quiet(self, trace: Trace, loop: Loop) -> bool:
        """Do the models that a loop calls run in eval mode?"""
        return self.quiet_at(trace, loop.end, [e for e in trace.inside(loop) if self.program.runs_model(e)])

    def quiet_at(self, trace: Trace, end: int, called: list[Event]) -> bool:
        """Was a model put into eval mode before, and none into training mode since?  Or, for a member or a global, elsewhere in
        the file, and that one never into training mode?"""
        mode = self._mode(trace.events[:end])
        if mode:
            return mode == "eval"
        given = {a.arg for a in parameters(trace.function)}
        names_ = {e.receiver or dotted(e.call.func) for e in called}
        if names_ and names_ <= given:
            ways = [self._mode(self.program.traces[c.function].events[:c.index]) for c in self.program.callers.get(trace.function, ())]
            return bool(ways) and all(mode == "eval" for mode in ways)
        own = given | trace.function.bound
        made = self.makers(trace, names_)
        if made and all(self._mode(maker.events) == "eval" for maker in made) and "train" not in self.modes(*names_):
            return True
        return bool(names_) and all(n not in own and self.modes(n) == {"eval"} for n in names_)

    def modes(self, *receivers: str) -> set[str]:
        """The modes that the file puts these models into, anywhere."""
        return {mode for e in self.calls("eval", "train") if e.receiver in receivers and (mode := sets_mode(e))}

    @staticmethod
    def _mode(events: list[Event]) -> str:
        """The mode that a model was put into last: "eval", "train", or "" if in none."""
        return next((mode for e in reversed(events) if (mode := sets_mode(e))), "")

    def makers(self, trace: Trace, names_: set[str]) -> list[Trace]:
        """What the functions of the program do that made these modules here: `net = load(path)`, `net, epoch = load(path)`."""
        cls = trace.function.cls
        others = {self.program.trace_of(f) for name in names_ for _, f in cls.assigned.get(name, ())} if cls is not None else set()
        within = [e for t in {trace, *others} if t is not None for e in t.events]
        parts = {node for e in within if e.kind == "bind" and e.name in names_ and e.source is not None for node in ast.walk(e.source)}
        found = [self.program.trace_of(self.program.called_function(e)) for e in within if e.kind == "call" and e.node in parts]
        return [t for t in found if t is not None and any(v.kind in values.MODULES for made in t.returns for v in (made, *(made.items or ())))]

    def set_to_train(self, trace: Trace, loop: Loop) -> bool:
        """Was a model put into training mode last, before the loop or before a call of its function, and trained by another function?"""
        if self.any_backward(trace):
            return False
        ways = [trace.events[:loop.start]] + [self.program.traces[c.function].events[:c.index] for c in self.program.callers.get(trace.function, ())]
        return any(self._mode(way) == "train" for way in ways)

    def any_backward(self, trace: Trace) -> bool:
        return any(self.feeds(e) for e in trace.events)

    def inference_of(self, event: Event) -> Loop | None:
        return _around(event, self.inference(self.trace(event)))

    def evaluation_of(self, event: Event) -> Loop | None:
        return _around(event, self.evaluations(self.trace(event)))

    def epoch_of(self, event: Event) -> Loop | None:
        """A loop over epochs around an event: one around a training or evaluation loop, or one called so."""
        trace = self.trace(event)
        loop = event.loop
        while loop is not None:
            if self.is_epoch(loop, trace):
                return loop
            loop = loop.outer
        return None

    def is_epoch(self, loop: Loop, trace: Trace) -> bool:
        if isinstance(loop.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return False
        if self.program.epoch(loop, trace):
            return True
        inner = self.training(trace) + self.evaluations(trace)
        return any(loop is not l and loop.around(l) for l in inner) and self.counted(loop)

    @staticmethod
    def counted(loop: Loop) -> bool:
        node = loop.node
        return isinstance(node, ast.For) and isinstance(node.iter, ast.Call) and dotted(node.iter.func) in ("range", "trange", "tqdm.trange")

    @staticmethod
    def loop_names(loop: Loop) -> set[str]:
        """The names that a `for` hands out."""
        return {dotted(n) for n in ast.walk(loop.node.target) if isinstance(n, ast.Name)} if isinstance(loop.node, (ast.For, ast.AsyncFor)) else set()

    def bound_in(self, trace: Trace, name: str, loop: Loop) -> bool:
        """Does a name get a new value in the loop?"""
        return any(e.name == name and e.kind in ("bind", "delete") for e in trace.inside(loop))

    def cleared_in(self, trace: Trace, name: str, loop: Loop) -> bool:
        return any(e.kind == "call" and e.receiver == name and e.attr in ("clear", "pop", "popleft", "popitem", "get") or
                   e.kind in ("delete", "store") and e.name == name and isinstance(getattr(e.target or e.node, "slice", None), ast.Slice)
                   or e.kind == "delete" and e.name == name for e in trace.inside(loop))

    # ---- the flow into backward ----

    def roots_of_backward(self, event: Event) -> set[str]:
        call = event.call
        found: set[str] = set()
        if isinstance(call.func, ast.Attribute) and event.attr == "backward":
            found |= names_in(call.func.value)
        for argument in call.args:
            found |= names_in(argument)
        for keyword in call.keywords:
            if keyword.arg in ("loss", "tensors", "outputs", "inputs", "gradient"):
                found |= names_in(keyword.value)
        return found

    def feeds(self, event: Event) -> bool:
        if event.kind != "call":
            return False
        if self.program.is_backward(event) or event.name == "torch.autograd.grad" or event.name == "torch.autograd.backward":
            return True
        trace = self.program.trace_of(self.program.called_function(event))
        return trace is not None and any(self.program.is_backward(e) for e in trace.events)

    def fed(self, trace: Trace, loop: Loop | None = None) -> set[str]:
        """Names whose values reach a backward pass within the loop (or anywhere in the function)."""
        key = (trace, loop)
        found = self._fed.get(key)
        if found is not None:
            return found
        events = trace.inside(loop) if loop is not None else trace.events
        found = set()
        for event in events:
            if self.feeds(event):
                found |= self.roots_of_backward(event)
        if found:
            found = self.ancestors(found, events)
        self._fed[key] = found
        return found

    def ancestors(self, start: set[str], events: list[Event], cut: bool = True) -> set[str]:
        """The names that these were computed from, through assignments, `+=` and `append`; without `cut`, by way of numbers, too."""
        found = set(start)
        flow = [(e.name, e.source) for e in events if e.kind in ("bind", "augment", "store") and e.name and e.source is not None]
        flow += [(e.receiver, e.call.args[-1]) for e in events if e.kind == "call" and e.attr in ("append", "extend", "appendleft") and
                 e.receiver and e.call.args]
        for _ in range(6):
            size = len(found)
            for name, source in reversed(flow):
                if name in found:
                    found |= names_in(source, cut=cut)
            if len(found) == size:
                break
        return found

    def returned(self, trace: Trace) -> set[str]:
        found: set[str] = set()
        for node in trace.return_nodes:
            found |= names_in(node)
        return self.ancestors(found, trace.events) if found else found

    def returned_directly(self, trace: Trace) -> set[str]:
        found: set[str] = set()
        for node in trace.return_nodes:
            found |= names_in(node)
        return found

    def escapes(self, trace: Trace, name: str, loop: Loop) -> bool:
        """Is a name's value read after the loop, before the name gets another one?"""
        for event in trace.events[loop.end:]:
            if event.source is not None and name in names_in(event.source):
                return True
            if event.kind == "call" and (name in self.roots_of_backward(event) if self.feeds(event) else False):
                return True
            if event.kind == "bind" and event.name == name:
                return False
        return False

    def result_is_fed(self, function: Function) -> bool:
        """Does a caller go backward from what this function returns?"""
        for call in self.program.callers.get(function, ()):
            trace = self.program.traces[call.function]
            fed = self.fed(trace)
            for event in trace.events:
                if event.kind in ("bind", "augment") and event.stmt is call.stmt and event.name in fed:
                    return True
            if any(e is not call and self.feeds(e) and any(call.node is n for n in ast.walk(e.node)) for e in trace.events):
                return True
        return False

    # ---- the file ----

    def mentions(self, *words: str) -> bool:
        text = self.program.source.text
        return any(w in text for w in words)

    @property
    def gpu(self) -> bool:
        return self.mentions("cuda", "device", "accelerat", "fabric", "Trainer", "gpu")
