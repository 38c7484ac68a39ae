"""PLM7xx: devices and modules."""
from __future__ import annotations

import ast
import re

from .. import names, values
from ..context import HIGH, MEDIUM, Context, checks, constant, in_place
from ..finding import Edit
from ..symbols import Class, dotted
from ..trace import Event, Trace
from .distributed import WRAPPERS


@checks("PLM701")
def result_discarded(ctx: Context) -> None:
    for event in ctx.calls(*names.NEW_TENSOR):
        tensors = values.TENSORS if event.attr == "detach" else (values.TENSOR,)  # only tensors have detach()
        if not in_place(event.stmt, event.call) or event.of is None or event.of.kind not in tensors:
            continue
        if not event.of.strong and not (event.of.qual == "batch" and event.attr in ("to", "cuda")):
            continue
        func = event.call.func
        assert isinstance(func, ast.Attribute)
        if not isinstance(func.value, (ast.Name, ast.Attribute)) or event.attr == "clone" or event.of.qual == "parameter":
            continue
        if not _certain(ctx, event) or ctx.program.source.shown(event.stmt):
            continue
        name = dotted(func.value)
        ctx.report("PLM701", event.stmt, confidence=HIGH if event.of.strong else MEDIUM, title=f"returns a new tensor that no one keeps; {name} stays what and where it is",
                   edits=[ctx.program.source.before(event.call, f"{name} = ")], safe=isinstance(func.value, ast.Name) or name.startswith("self."))


def _certain(ctx: Context, event: Event) -> bool:
    """A tensor by torch's function, by arithmetic, or as one element of an unpacked tuple; not an object that happens to have .to()."""
    if event.of is not None and event.of.qual == "batch":
        trace = ctx.trace(event)
        loop = event.loop
        if loop is not None and isinstance(loop.node, ast.For) and isinstance(loop.node.target, ast.Name):
            return False
        texts = [n for n in ast.walk(trace.function.node) if isinstance(n, ast.Attribute) and dotted(n.value) == event.receiver and n.attr in (
            "x", "edge_index", "keys", "items", "input_ids", "num_graphs", "batch", "tensors", "ndata", "decompose", "mask", "y")]
        return not texts
    return True


@checks("PLM702")
def device_hard_coded(ctx: Context) -> None:
    if not ctx.mentions("LOCAL_RANK", "local_rank") or not any(ctx.calls(*WRAPPERS)):
        return
    for event in ctx.calls("cuda", "to", "device"):
        text = ""
        if event.attr == "cuda" and event.call.args and constant(event.call.args[0]) == 0 and not isinstance(constant(event.call.args[0]), bool):
            text = ".cuda(0)"
        elif event.attr == "to" and event.call.args and constant(event.call.args[0]) == "cuda:0":
            text = '"cuda:0"'
        elif event.name == "torch.device" and event.call.args and constant(event.call.args[0]) == "cuda:0":
            text = '"cuda:0"'
        if text and not event.path and event.of is not None or text and event.name == "torch.device" and not event.path:
            ctx.report("PLM702", event.node, "ranks above 0 put this on GPU 0", evidence=[f"{text} in a file that is started with LOCAL_RANK"], confidence=MEDIUM)


def _has_parameters(value: values.Value) -> bool:
    if value.qual == "torch.nn.Sequential" and value.node is not None:
        return any(isinstance(n, ast.Call) and names.LAYERS.match("torch.nn." + dotted(n.func).rpartition(".")[2]) for n in ast.walk(value.node))
    if names.LAYERS.match(value.qual):
        return True
    return value.kind == values.MODULE and value.cls is not None and any(
        isinstance(n, ast.Call) and (dotted(n.func).rpartition(".")[2] in ("Parameter", "register_parameter") or
                                     names.LAYERS.match("torch.nn." + dotted(n.func).rpartition(".")[2])) for n in ast.walk(value.cls.node))


def _first(node: ast.expr | None) -> ast.expr | None:
    """The first display of `[...] + [...]`."""
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        node = node.left
    return node


def _is_plain_container(event: Event, value: values.Value) -> bool:
    """`self.layers = [...]`, or a dict, of a display or a comprehension."""
    return value.kind in (values.LIST, values.DICT) and event.name.startswith("self.") and event.name.count(".") == 1 and isinstance(_first(event.source), (ast.List, ast.Dict, ast.ListComp, ast.DictComp))


def _layers_made_anew(ctx: Context, forward: Trace) -> None:
    """Layers that each call of forward() makes."""
    for event in forward.events:
        kept = isinstance(event.stmt, ast.Return) or isinstance(event.stmt, ast.Assign) and dotted(event.stmt.targets[0]).startswith("self.")
        if event.kind == "call" and names.LAYERS.match(event.name) and event.value is not None and not kept and event.every(None):
            ctx.report("PLM704", event.node, "a layer made in forward() has new random weights at every call, and nothing trains them")


@checks("PLM704")
def not_registered(ctx: Context) -> None:
    for cls in ctx.program.symbols.classes.values():
        init = ctx.program.traces.get(cls.methods["__init__"]) if cls.module and not cls.trainer and "__init__" in cls.methods else None
        for event in init.events if init is not None else ():
            if event.kind != "bind" or event.value is None or not _is_plain_container(event, event.value):
                continue
            assert init is not None
            appended = [e for e in init.events if e.kind == "call" and e.receiver == event.name and e.attr == "append" and e.args]
            stored = [e for e in init.events if e.kind == "store" and e.name == event.name and e.value is not None]
            held = [*(event.value.items or ()), *(e.args[-1] for e in appended), *(e.value for e in stored if e.value is not None)]
            if any(v.kind == values.MODULE and _has_parameters(v) for v in held) and not _registered(cls, event.name, appended + stored):
                _tell_unregistered(ctx, event, cls)
        if init is not None and "forward" in cls.methods:
            _layers_made_anew(ctx, ctx.program.traces[cls.methods["forward"]])


def _registered(cls: Class, name: str, grown: list[Event]) -> bool:
    """Is the list wrapped later, or are its elements registered in another way?"""
    attr = name.removeprefix("self.")
    text = ast.unparse(cls.node)  # without comments
    if re.search(rf"(ModuleList|ModuleDict|Sequential)\(\s*\*?\s*self\.{attr}\b|add_module\(|setattr\(self|register_module|self\.{attr}\s*=\s*(nn\.|torch\.nn\.)?(ModuleList|ModuleDict|Sequential)\(|ParameterList", text):
        return True
    # Each has an optimizer of its own, or is moved and saved one by one.
    if re.search(rf"self\.{attr}\[[^\]]*\]\.(parameters|state_dict)\(|for \w+ in self\.{attr}\b[^\n]*\n?[^\n]*\.(parameters|state_dict)\(|\.parameters\(\)[^\n]* in self\.{attr}\b", text):
        return True
    for event in grown:
        argument = event.call.args[-1] if event.kind == "call" and event.call.args else event.source
        if isinstance(argument, ast.Attribute) or isinstance(argument, ast.Name) and re.search(rf"self\.\w+\s*=\s*{argument.id}\b", text):
            return True
    # Elements that are members already: [self.a, self.b].
    return any(isinstance(node, (ast.List, ast.Dict)) and any(isinstance(e, ast.Attribute) for e in (node.elts if isinstance(node, ast.List) else node.values))
               for node, _ in cls.assigned.get(name, ()))


def _tell_unregistered(ctx: Context, event: Event, cls: Class) -> None:
    source = ctx.program.source
    node = event.source
    assert node is not None
    torch_nn = next((n for n, q in ctx.program.symbols.imports.items() if q == "torch.nn"), "torch.nn" if ctx.program.symbols.imports.get("torch") == "torch" else "")
    wrapper = "ModuleList" if isinstance(node, (ast.List, ast.ListComp, ast.BinOp)) else "ModuleDict"
    textual = not isinstance(node, ast.Dict) or all(isinstance(constant(k), str) for k in node.keys if k is not None)
    edits: list[Edit | None] = [source.replace(node, f"{torch_nn}.{wrapper}({source.segment(node)})")] if torch_nn and textual and not isinstance(node, ast.DictComp) else []
    ctx.report("PLM704", event.stmt, "these parameters are not trained, moved or saved", edits=edits, safe=True,
               evidence=[f"{event.name} is a plain {'list' if wrapper == 'ModuleList' else 'dict'}: {cls.name} does not see the modules in it"], fix=[f"nn.{wrapper}"])
