"""A file as rules see it: its traces, who calls whom, which loops train and which evaluate."""
from __future__ import annotations

import ast
import os
import re
from dataclasses import dataclass, field, replace
from typing import Sequence

from . import names, values
from .evaluate import Owner
from .files import Files
from .source import Source
from .symbols import Class, Function, Symbols, collect, dotted, find, settle_bases, within
from .trace import Event, Loop, Trace
from .values import UNKNOWN_VALUE, Value
from .walk import Walker, argument, kind_of_annotation, parameters

CHAIN = 16  #: functions walked one inside the other; what is deeper is unknown
_TRAINS = re.compile(r"^(train_step|train_one_step|train_batch|training_step|optimize_parameters|update|learn|step_train|optimize\w*|"
                     r"run_step|update_\w+|optimize)$")
_METER = re.compile(r"meter|metric|confmat|confusion|matrix|logger|monitor|tracker|average|averag|progress|(^|[._])(p?bar|time|\w+_time|acc\w*|loss\w*|top\d|prec\w*|score\w*|stats?|history|"
                    r"results?|state|info|dict|config|cfg|params?|kwargs|args)$", re.IGNORECASE)  #: what has an update() that trains nothing


@dataclass(eq=False)
class Program(Owner):
    source: Source
    symbols: Symbols
    files: Files
    traces: dict[Function, Trace] = field(default_factory=dict)
    walkers: dict[Function, Walker] = field(default_factory=dict)  #: of each function the last walk, also while it goes on
    callers: dict[Function, list[Event]] = field(default_factory=dict)
    given: dict[Function, list[Value]] = field(default_factory=dict)  #: what the walk of a function took its parameters for
    learned: dict[Function, dict[str, Value]] = field(default_factory=dict)  #: modules that constructors get in this file
    again: set[Function] = field(default_factory=set)  #: functions that were walked a second time
    linked: dict[str, Value] = field(default_factory=dict)  #: what qualified names mean: functions and classes of other files
    gradients: dict[Function, bool] = field(default_factory=dict)  #: what needs_gradients() found
    followed: bool = False  #: opened for another file's sake

    def __post_init__(self) -> None:
        symbols = self.symbols
        assert symbols.module is not None
        for function in (symbols.module, *symbols.functions):
            function.home = self
        for cls in symbols.classes.values():
            cls.home = self
        for star in symbols.stars:
            self.spread(star)
        settle_bases(symbols, self.class_named)

    # ---- other files ----

    def spread(self, star: str) -> None:
        """`from .utils import *`: its names as if each was imported."""
        file, name = self.files.locate(star, self.source.path)
        other = self.files.program(file) if file and not name else None
        if other is None:
            return
        symbols, own = other.symbols, self.symbols
        assert symbols.module is not None and own.module is not None
        for known in (*symbols.classes, *symbols.module.local):
            if known not in own.classes and known not in own.module.local:
                own.imports.setdefault(known, within(star, known))
        for known, qualified in symbols.imports.items():
            if not qualified.startswith("."):
                own.imports.setdefault(known, qualified)

    def imported(self, qualified: str) -> Value:
        found = self.linked.get(qualified)
        if found is None:
            meant = self.files.definition(qualified, self.source.path)
            found = self.linked[qualified] = Value(qual=qualified, cls=meant if isinstance(meant, Class) else None,
                                                   function=meant if isinstance(meant, Function) else None)
        return found

    def class_named(self, name: str, within: Class) -> Class | None:
        """A class by what a class's text calls it: of its own file, or imported there."""
        home = self.home(within)
        return home.symbols.classes.get(name) or (home.imported(name).cls if "." in name else None)

    def home(self, of: Class | Function) -> "Program":
        return of.home if isinstance(of.home, Program) else self

    def method(self, cls: Class, name: str, hops: int = 8) -> Function | None:
        """A class's method, its own or of a base."""
        found = cls.methods.get(name)
        for base in cls.bases if found is None and hops else ():
            above = self.class_named(base, cls)
            found = self.method(above, name, hops - 1) if above is not None and above is not cls else None
            if found is not None:
                break
        return found

    def trace_of(self, function: Function | None) -> Trace | None:
        """What a function does, of whatever file; None while it is walked, or where it cannot be."""
        if function is None:
            return None
        home = self.home(function)
        trace = home.traces.get(function)
        if trace is None and home is not self and self.files.walking < CHAIN:
            trace = home.walk(function)
        return trace

    # ---- walking ----

    def walk_all(self) -> None:
        self.walk_each()
        if self.learn():  # now that it is known what members of the file's classes are
            for known in (self.traces, self.walkers, self.given, self.again, *(cls.values for cls in self.symbols.classes.values())):
                known.clear()  # type: ignore[attr-defined]
            self.walk_each()
        for trace in self.traces.values():
            for event in trace.events:
                if event.kind == "call":
                    called = self.called_function(event)
                    if called is not None:
                        self.callers.setdefault(called, []).append(event)
                    elif event.of is not None and event.of.cls is not None and not event.of.kind and not event.receiver:
                        called = self.method(event.of.cls, "__init__")
                    if called is not None and self.home(called) is not self:
                        self.tell(called, event)
        self.tell_methods()

    def walk_each(self) -> None:
        assert self.symbols.module is not None
        self.walk(self.symbols.module)
        for function in self.symbols.functions:
            self.walk(function)

    def learn(self) -> bool:
        """Take note of the modules that the file gives to constructors of its own classes.  Was one not seen there?"""
        for event in self.events():
            cls = event.of.cls if event.kind == "call" and event.of is not None and not event.of.kind and not event.receiver else None
            init = self.method(cls, "__init__") if cls is not None and self.home(cls) is self else None
            if init is not None and self.home(init) is self:
                before = {p.arg: v for p, v in zip(parameters(init), self.given.get(init, []))}
                modules = {name: value for name, value in self.modules_given(init, event).items() if not before.get(name, value).strong}
                self.learned.setdefault(init, {}).update(modules)
        return any(self.learned.values())

    def modules_given(self, called: Function, event: Event) -> dict[str, Value]:
        given = {a.arg: found[1] for a in parameters(called) if (found := argument(event, called, a.arg)) is not None}
        return {name: Value(value.kind, True) for name, value in given.items() if value.strong and value.kind in values.MODULES and not self.counts(value)}

    def counts(self, module: Value) -> bool:
        """Is it of a class whose passes return numbers, as a metric's do?"""
        trace = self.trace_of(self.method(module.cls, "forward")) if module.cls is not None else None
        return trace is not None and bool(trace.returns) and all(part.kind == values.NUMBER for made in trace.returns for part in made.items or (made,))

    def tell(self, called: Function, event: Event) -> None:
        """Let the file of a function know how it is called here."""
        self.files.told.setdefault(self.key(called), []).append((self.modules_given(called, event), self.off(event)))

    def key(self, function: Function) -> tuple[str, str]:
        return os.path.abspath(self.home(function).source.path), function.path

    def known(self, function: Function) -> list[tuple[dict[str, Value], bool]]:
        """How other files call a function: the modules that they give, and whether without gradients."""
        return self.files.known.get(self.key(function), []) if self.files.known and not self.followed else []

    def walk(self, function: Function, args: tuple[Value, ...] = (), named: dict[str | None, Value] | None = None,
             of: Value | None = None) -> Trace:
        trace = self.traces.get(function)
        if trace is not None:
            return trace
        trace = self.traces[function] = Trace(function)
        walker = self.walkers[function] = Walker(self.symbols, self, function, trace)
        if self.framework_loop(function):
            assert not isinstance(function.node, ast.Module)
            trace.loops.append(Loop(function.node, None, 0, framework=True))
        self.bind_parameters(walker, function, args, named or {})
        self.files.walking += 1
        walker.run()
        self.files.walking -= 1
        trace.done = True
        return trace

    def unbound(self, function: Function) -> Trace:
        """What a function does with arguments of which nothing is known."""
        home = self.home(function)
        trace = Trace(function)
        if self.files.walking < CHAIN:
            walker = Walker(home.symbols, home, function, trace)
            known = home.given.pop(function, None)
            home.bind_parameters(walker, function, (), {})
            home.given[function] = known or home.given.get(function, [])
            self.files.walking += 1
            walker.run()
            self.files.walking -= 1
        return trace

    def bind_parameters(self, walker: Walker, function: Function, args: tuple[Value, ...], named: dict[str | None, Value]) -> None:
        given = parameters(function)
        method = function.cls is not None and given and given[0].arg in ("self", "cls")
        elsewhere = {**self.learned.get(function, {}), **{name: value for modules, _ in self.known(function) for name, value in modules.items()}}
        for i, parameter in enumerate(given):
            value = named.get(parameter.arg, UNKNOWN_VALUE)
            at = i - 1 if method else i
            if not value.kind and 0 <= at < len(args):
                value = args[at]
            if not value.kind:
                value = self.annotated(parameter.annotation)
            if not value.strong:
                value = elsewhere.get(parameter.arg, value)
            if not value.kind:
                value = Value(graph=values.MAYBE)
            elif value.kind in values.TENSORS:
                value = replace(value, graph=values.MAYBE, node=None)
            walker.env[parameter.arg] = replace(value, node=None) if value.node is not None else value
            self.given.setdefault(function, []).append(value)
        if function.hook and len(given) == 3 + bool(method):
            walker.env[given[-1].arg] = Value(values.OUTPUT, True, values.YES)
        if method:
            assert function.cls is not None
            kind = values.MODULE if function.cls.module else values.INSTANCE
            walker.env["self"] = Value(kind, True, cls=function.cls)
            if given[0].arg == "cls":
                walker.env["cls"] = Value(cls=function.cls, qual=function.cls.name)
        node = function.node
        if not isinstance(node, ast.Module):
            for extra in (node.args.vararg, node.args.kwarg):
                if extra is not None:
                    walker.env[extra.arg] = Value(graph=values.MAYBE)

    def annotated(self, annotation: ast.expr | None) -> Value:
        """What a parameter's annotation says; a library that is not built on PyTorch has a Module of its own."""
        value = kind_of_annotation(annotation)
        qualified = self.symbols.qualified(annotation) if value.kind == values.MODULE and annotation is not None else ""
        other = qualified and qualified.partition(".")[0] not in ("", *names.TORCH_ROOTS) and self.imported(qualified).cls is None
        return UNKNOWN_VALUE if other else value

    def framework_loop(self, function: Function) -> bool:
        cls = function.cls
        if cls is None or isinstance(function.node, ast.Module):
            return False
        return cls.lightning and function.name in names.LIGHTNING_STEPS | names.LIGHTNING_EVALS or (
            cls.trainer and function.name in names.TRAINER_STEPS)

    # ---- what an evaluator asks ----

    def globals(self, function: Function) -> dict[str, Value]:
        if self.followed and function is self.symbols.module and function not in self.traces and self.files.walking < CHAIN:
            self.walk(function)
        walker = self.walkers.get(function)
        return walker.env if walker is not None else {}

    def attribute(self, cls: Class, name: str) -> Value | None:
        home = self.home(cls)
        if home is not self:
            return home.attribute(cls, name)
        found = cls.values.get(name)
        if found is None and self.files.walking < CHAIN:
            init = cls.methods.get("__init__")
            if init is not None and init not in self.traces:
                self.walk(init)
                found = cls.values.get(name)
            if found is None:
                for _, function in cls.assigned.get(name, ()):
                    if function not in self.traces:
                        self.walk(function)
                found = cls.values.get(name)
        if found is None:
            for base in cls.bases:
                above = self.class_named(base, cls)
                if above is not None and above is not cls:
                    found = self.attribute(above, name)
                    if found is not None:
                        break
        return found

    def find(self, name: str, within: Function) -> Function | None:
        return find(name, within) if "." not in name else None

    def result(self, function: Function, args: tuple[Value, ...], named: dict[str | None, Value], of: Value | None) -> Value:
        home = self.home(function)
        if home is not self:
            return home.result(function, args, named, of)
        trace = self.traces.get(function)
        if trace is not None and trace.done and function not in self.again and self.tells_more(function, args, named):
            self.again.add(function)
            del self.traces[function], self.given[function]
            trace = None
        if trace is None and self.files.walking < CHAIN:
            trace = self.walk(function, args, named, of)
        if trace is None or not trace.done or not trace.returns:
            return UNKNOWN_VALUE
        if isinstance(function.node, ast.AsyncFunctionDef) or any("contextmanager" in dotted(d) for d in
                                                                   getattr(function.node, "decorator_list", ())):
            return UNKNOWN_VALUE
        kinds = {value.kind for value in trace.returns}
        same = [a for a in args if a.kind in values.MODULES and a.kind in kinds]
        if len(kinds) > 1 and same:
            return same[0]  # `return x.to(device)`, and a list of such for a list: what it was given
        found = trace.returns[0]
        for value in trace.returns[1:]:
            found = values.join(found, value)
        given = max([a.graph for a in args] + [v.graph for v in named.values()], default=values.NO)
        return replace(self.lifted(found, given), node=None)

    def tells_more(self, function: Function, args: tuple[Value, ...], named: dict[str | None, Value]) -> bool:
        """Does this call show a module where the walk of the function saw none?"""
        own = parameters(function)
        skip = int(function.cls is not None and bool(own) and own[0].arg in ("self", "cls"))
        known = self.given.get(function, [])
        for i, (parameter, before) in enumerate(zip(own, known)):
            value = named.get(parameter.arg) or (args[i - skip] if 0 <= i - skip < len(args) else UNKNOWN_VALUE)
            if value.strong and value.kind in values.MODULES and not before.strong:
                return True
        return False

    def lifted(self, value: Value, given: int, levels: int = 4) -> Value:
        """A graph that depends on the arguments is theirs.  Of lists in lists, `a = [a, a]` in a row, only the outer ones are looked at: each doubles what is in them."""
        if value.graph == values.MAYBE and value.graph != given:
            value = replace(value, graph=given)
        if value.items:
            value = replace(value, items=tuple(self.lifted(i, given, levels - 1) for i in value.items) if levels else None)
        return value

    # ---- what rules ask ----

    def called_function(self, event: Event) -> Function | None:
        of = event.of
        if of is None or event.kind != "call":
            return None
        if event.receiver == "" and of.function is not None:
            return of.function
        if event.receiver:
            cls = event.function.cls if event.receiver in ("self", "cls") else of.cls
            if cls is not None:
                return self.method(cls, event.attr)
        if of.kind == values.INSTANCE and of.cls is not None and isinstance(event.call.func, ast.Attribute):
            return self.method(of.cls, event.attr)  # meters["loss"].update(x)
        if of.cls is not None and of.kind in values.MODULES and not event.receiver:
            return self.method(of.cls, event.attr if event.method else "forward")
        return None

    def events(self) -> "list[Event]":
        return [event for trace in self.traces.values() for event in trace.events]

    def no_grad(self, function: Function, levels: int = 2) -> bool:
        """Is gradient recording off whenever this function runs: by its decorator, or because all its callers turn it off?"""
        trace = self.traces.get(function)
        if trace is not None and trace.no_grad:
            return True
        callers, known = self.callers.get(function, []), self.known(function)
        if not (callers or known) or levels == 0:
            return False
        return all(off for _, off in known) and all(c.no_grad or c.function is not function and self.no_grad(c.function, levels - 1) for c in callers)

    def off(self, event: Event) -> bool:
        return event.no_grad or self.no_grad(event.function)

    def is_backward(self, event: Event) -> bool:
        """`loss.backward()`, `accelerator.backward(loss)`, `engine.backward(loss)`, `self.manual_backward(loss)`."""
        if event.kind != "call" or event.attr not in ("backward", "manual_backward") or event.name == "torch.autograd.Function.backward":
            return False
        own = event.function.cls.methods.get(event.attr) if event.function.cls is not None and event.receiver in ("self", "cls") else None
        inside = self.traces.get(own) if own is not None and own is not event.function else None
        return not event.receiver.startswith("super") and (inside is None or any(
            e.kind == "call" and e.attr in ("backward", "manual_backward") and e.receiver not in ("self", "cls") for e in inside.events))

    def is_step(self, event: Event) -> bool:
        if event.kind != "call" or event.attr != "step" or event.of is None:
            return False
        kind = event.of.kind
        if kind == values.SCALER:
            return True
        return kind in (values.OPTIMIZER, values.ENGINE) or kind == "" and bool(
            re.search(r"optim|^opt$|_opt$|solver", event.receiver))

    def is_model_call(self, event: Event) -> bool:
        if event.kind != "call" or event.of is None:
            return False
        if event.receiver or event.method:
            return event.of.kind in (values.MODULE, values.ENGINE) and event.attr == "forward"
        return event.of.kind in (values.MODULE, values.ENGINE)

    def weightless(self, module: Value) -> bool:
        """Is it a module that surely has no weights: of PyTorch's own, one that only computes; of the program's, one that calls no other?"""
        cls, qual = module.cls, module.qual
        if cls is None:
            return qual.startswith("torch.nn.") and not names.LAYERS.match(qual) and not names.HOLDERS.search(qual.removeprefix("torch.nn"))
        home = self.home(cls)
        if cls.bases != ["torch.nn.Module"]:
            return False
        for node in ast.walk(cls.node):
            if isinstance(node, ast.Call):
                name, member = home.symbols.qualified(node.func) or dotted(node.func), home.attribute(cls, dotted(node.func))
                last = name.rpartition(".")[2]
                if last == "register_parameter" or last[:1].isupper() and not self.weightless(Value(qual=name)) or name.startswith("self.") and not (
                        last in cls.methods or last == "register_buffer" or name.count(".") > 1 or member is not None and member.cls is None and self.weightless(member)):
                    return False
        return True

    def builds_none(self, event: Event) -> bool:
        """Is it sure of a module's call that it builds no graph: nothing has weights, or numpy() is asked of its result, which fails on a graph?"""
        if event.of is not None and "self" not in (event.receiver, dotted(event.call.func)) and not any(a.graph for a in event.args) and self.weightless(event.of):
            return True
        trace = self.home(event.function).traces.get(event.function)
        later = trace.events[event.index + 1:] if trace is not None else []
        for at, read in enumerate(later):
            if read.kind == "call" and read.attr == "numpy" and isinstance(read.call.func, ast.Attribute):
                of = read.call.func.value
                while isinstance(of, ast.Subscript) or isinstance(of, ast.Call) and isinstance(of.func, ast.Attribute) and of.func.attr in names.SAME_GRAPH:
                    of = of.value if isinstance(of, ast.Subscript) else of.func.value  # type: ignore[attr-defined]
                bound = isinstance(of, ast.Name) and isinstance(event.stmt, ast.Assign) and event.stmt.value is event.node and dotted(event.stmt.targets[0]) == of.id
                if of is event.node or bound and not any(e.kind == "bind" and e.name == dotted(of) and e.stmt is not event.stmt for e in later[:at]):
                    return True
        return False

    def runs_model(self, event: Event) -> bool:
        """A call of a module, or of a function that calls one once per call with gradients on."""
        called = self.called_function(event)
        if self.is_model_call(event):
            if self.builds_none(event):
                return False
            trace = self.trace_of(called)
            off = [e.no_grad for e in trace.events if self.is_model_call(e)] if trace is not None else []
            return not (off and all(off))  # its forward turns gradients off by itself
        return self.runs_within(called) if called is not None else self.settled(event) == {True}

    def needs_gradients(self, function: Function | None, levels: int = 4) -> bool:
        """Does a function go backward, or ask for gradients: itself, or in a function that it calls?  Then its caller cannot turn them off."""
        trace = self.trace_of(function)
        if function is None or trace is None or not levels:
            return False
        known = self.gradients.get(function)
        if known is None:
            self.gradients[function] = False  # a circle
            known = any(e.kind == "call" and not e.no_grad and (self.is_backward(e) or e.name in ("torch.autograd.grad", "torch.autograd.backward") or self.needs_gradients(
                self.called_function(e), levels - 1)) for e in trace.events)
            self.gradients[function] = known
        return known

    def runs_within(self, function: Function, levels: int = 3) -> bool:
        """Does the function run a module with gradients on?  A method of a module, in whatever way; any other must know that it is one, and keep nothing."""
        trace = self.trace_of(function)
        if trace is None or trace.no_grad or not levels:
            return False
        own = function.cls is not None and function.cls.module
        if not own and self.keeps_graphs(trace):
            return False
        for event in trace.events:
            if event.kind != "call" or event.no_grad or event.handler is not None or not own and event.loop is not None:
                continue
            if self.is_model_call(event) and (own or self.handed_in(event)) and not self.builds_none(event):
                return True
            inner = self.called_function(event)
            if inner is not None and inner is not function and self.runs_within(inner, levels - 1):
                return True
        return False

    def handed_in(self, event: Event) -> bool:
        """Is the called module surely one, and not made by the function itself, as a layer without weights may be?"""
        name = event.receiver or dotted(event.call.func)
        return event.of is not None and event.of.strong and bool(name) and name not in event.function.bound

    def keeps_graphs(self, trace: Trace, least: int = values.MAYBE) -> bool:
        """Does a function go backward, or put a graph on an object?"""
        return any(e.kind in ("bind", "augment", "store") and "." in e.name and e.value is not None and e.value.graph >= least or e.kind == "call" and (
            self.is_backward(e) or e.attr in ("append", "extend") and "." in e.receiver) for e in trace.events)

    def settled(self, event: Event) -> set[bool]:
        """What the methods of this name do, in all modules of the program, if the object surely is a module and nothing shows its class."""
        of = event.of
        if event.kind != "call" or of is None or of.kind != values.MODULE or not of.strong or of.cls is not None or of.qual or not event.receiver:
            return set()
        self.files.asked.setdefault(event.attr, set()).add(os.path.abspath(self.source.path))
        return self.files.methods.get(event.attr, set())

    def tell_methods(self) -> None:
        """Let other files know which methods of this file's modules run a module, and which turn gradients off."""
        for cls in self.symbols.classes.values():
            for name, method in cls.methods.items() if cls.module else ():
                trace = self.traces[method]
                off = trace.no_grad or any(e.no_grad and self.is_model_call(e) for e in trace.events)
                if off or self.runs_within(method):
                    self.files.running.setdefault(name, set()).add(not off)

    def trains(self, event: Event) -> bool:
        """Does this event go backward: by itself, or by the function of the file that it calls?"""
        if event.kind != "call":
            return False
        if self.is_backward(event):
            return True
        called = self.called_function(event)
        if called is not None and called is not event.function:
            trace = self.trace_of(called)
            return trace is not None and any(self.is_backward(e) or self.is_step(e) for e in trace.events)
        if called is None and any(a.graph == values.YES for a in event.args) and any(a.kind in (values.OPTIMIZER, values.PARAMS) for a in event.args):
            return True  # `descend(optimizer, loss)` of a library
        return called is None and bool(_TRAINS.match(event.attr)) and bool(event.receiver) and not _METER.search(event.receiver)

    def steps(self, trace: Trace) -> list[Loop]:
        """Training loops: innermost ones that hold a backward pass, here or in a function they call."""
        found: list[Loop] = []
        for event in trace.events:
            if event.loop is not None and event.loop not in found and self.trains(event):
                found.append(event.loop)
        return [l for l in found if not any(l.around(o) and o is not l for o in found)]

    def direct_steps(self, trace: Trace) -> list[Loop]:
        """Those whose backward stands in the loop itself."""
        found: list[Loop] = []
        for event in trace.events:
            if event.loop is not None and event.loop not in found and self.is_backward(event):
                found.append(event.loop)
        for loop in trace.loops:
            if loop.framework and loop not in found and trace.function.name in names.LIGHTNING_STEPS | names.TRAINER_STEPS:
                found.append(loop)
        return found

    def evaluations(self, trace: Trace) -> list[Loop]:
        """Loops over a loader that call a model and never train."""
        return [l for l in self.passes(trace) if l.source is not None and l.source.kind == values.LOADER]

    def passes(self, trace: Trace) -> list[Loop]:
        """Loops of any kind that run a model and never train."""
        found = []
        for loop in trace.loops:
            inside = trace.inside(loop)
            if not loop.framework and any(self.runs_model(e) for e in inside) and not any(
                    self.trains(e) or self.is_step(e) or e.name == "torch.autograd.grad" or self.needs_gradients(self.called_function(e)) for e in inside):
                found.append(loop)
        return found

    def epoch(self, loop: Loop, trace: Trace) -> bool:
        """Around a training or an evaluation loop, or called so."""
        node = loop.node
        if isinstance(node, (ast.For, ast.AsyncFor)):
            text = " ".join(n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)) + " " + " ".join(
                n.id if isinstance(n, ast.Name) else n.attr for n in ast.walk(node.iter) if isinstance(n, (ast.Name, ast.Attribute)))
            return bool(names.EPOCH.search(text))
        if isinstance(node, ast.While):
            return bool(names.EPOCH.search(ast.unparse(node.test)))
        return False

    def rank_test(self, node: ast.expr) -> bool:
        """Does a test single out some ranks?"""
        for part in ast.walk(node):
            if isinstance(part, (ast.Name, ast.Attribute)):
                if names.RANK_TEST.search(dotted(part) or getattr(part, "attr", "")):
                    return True
        return False

    def roots(self) -> set[str]:
        return {q.partition(".")[0] for q in self.symbols.imports.values()}

    def hidden_loops(self) -> bool:
        """Does a framework hide the training loop's device moves, samplers, backward?"""
        return self.symbols.imported("accelerate", "pytorch_lightning", "lightning", "deepspeed", "colossalai", "ignite", "ray",
                                     "fastai", "composer", "horovod")


def analyse(source: Source, files: Files | None = None) -> Program:
    """A file's program; what it imports from `files`, or from those on disk, is followed."""
    program = Program(source, collect(source.tree, source.text), files or followed())
    program.walk_all()
    return program


def followed(folders: Sequence[str] = ()) -> Files:
    """The files that imports may lead to, in the folder of a file or in these: of each, only what is asked for is walked."""

    def make(source: Source, files: Files) -> Program:
        return Program(source, collect(source.tree, source.text), files, followed=True)

    return Files(make, folders)


ROOTS = ("torch", "lightning", "accelerate", "transformers")  #: a file without any of these words is none of ours


def uses_torch(text: str) -> bool:
    """Is it worth parsing?"""
    return any(word in text for word in ROOTS)
