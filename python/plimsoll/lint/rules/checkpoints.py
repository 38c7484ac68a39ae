"""PLM4xx: checkpoints and resuming."""
from __future__ import annotations

import ast
import re

from .. import values
from ..context import HIGH, LOW, MEDIUM, Context, checks, constant, names_in
from ..finding import Edit
from ..symbols import Function, dotted
from ..trace import Event, Trace
from .memory import around_training


@checks("PLM401")
def loaded_where_saved(ctx: Context) -> None:
    groups: dict[tuple[Function, bool, bool], list[tuple[ast.expr, Edit | None]]] = {}
    for event in ctx.calls("load"):
        if event.name != "torch.load" or event.open_ended or event.argument(1, "map_location") is not None or event.keyword("mmap") is not None:
            continue
        path = ast.unparse(event.call.args[0]) if event.call.args else ""
        if re.search(r"\.npy|data|feat|embed|token|vocab|index|cache|label|split|tensor\b", path, re.IGNORECASE) and not re.search(r"checkpoint|ckpt|model|weight|state", path, re.IGNORECASE):
            continue
        if _placed_otherwise(ctx, event):
            continue
        into = _goes_to_load(ctx, event)
        ranks = into and ctx.program.symbols.imported("torch.distributed", "torch.nn.parallel") and ctx.mentions("init_process_group", "DistributedDataParallel(", "DDP(") and not any(
            ctx.program.rank_test(arm.test) for arm, _, _ in event.path if isinstance(arm, ast.If))
        edit = Edit(ctx.program.source.end(event.call) - 1, ctx.program.source.end(event.call) - 1, ', map_location="cpu"')
        groups.setdefault((event.function, into, bool(ranks)), []).append((event.call, edit if into else None))
    for (_, into, ranks), places in groups.items():
        ctx.report_together("PLM401", places, "every rank loads onto the GPU it was saved from: a copy for each rank, all on that one" if ranks else
                            "loads onto the device it was saved from: if that was a GPU, a second copy there, and no start without it",
                            severity="warning" if ranks else "info", confidence=HIGH if into else LOW, safe=into,
                            evidence=["its result only goes to load_state_dict(), which copies to where the module is"] if into else [])


def _placed_otherwise(ctx: Context, event: Event) -> bool:
    """Does another arm of the same `if` load with map_location (the author has seen both cases), or is the file one of a program
    that never leaves the CPU: it saves what it loads, and names no device?"""
    for arm, _, _ in event.path:
        if isinstance(arm, ast.If) and any(e is not event and e.name == "torch.load" and e.argument(1, "map_location") is not None and any(
                a is arm for a, _, _ in e.path) for e in ctx.calls("load")):
            return True
    return not ctx.gpu and any(e.name == "torch.save" for e in ctx.calls("save"))


def _goes_to_load(ctx: Context, event: Event) -> bool:
    for load in ctx.calls("load_state_dict"):
        if load.call.args and load.call.args[0] is event.node:  # schedulers and scalers hold numbers
            return not (load.of is not None and load.of.kind in (values.SCHEDULER, values.SCALER) or re.search(r"sched|scaler", load.receiver))
    return False


def _copies(node: ast.expr | None) -> bool:
    return node is not None and any(isinstance(n, ast.Call) and dotted(n.func).rpartition(".")[2] in ("deepcopy", "clone", "cpu", "numpy", "copy_", "to", "save") or
                                    isinstance(n, ast.Attribute) and n.attr in ("clone", "deepcopy", "cpu") for n in ast.walk(node))


def _state_kept(event: Event) -> str:
    """The name of `kept = model.state_dict()`; "" for calls of another form, or of an object that is not a model."""
    stmt, of = event.stmt, event.of
    if not isinstance(stmt, ast.Assign) or stmt.value is not event.node or event.value is None or not event.receiver or event.call.args or event.call.keywords:
        return ""
    if of is not None and of.kind not in values.MODULES and (of.kind or not re.search(r"model|net", event.receiver)):
        return ""
    return dotted(stmt.targets[0])


def _state_changed(trace: Trace, name: str) -> bool:
    """Does the function write to the dict of this name, or copy its tensors?"""
    for e in trace.events:
        if e.kind == "call" and e.receiver == name and e.attr in ("update", "pop", "setdefault") or e.kind == "store" and e.name == name:
            return True
        if e.kind == "bind" and e.name == name and _copies(e.source) and name in names_in(e.source):
            return True
    return False


@checks("PLM403")
def state_dict_alias(ctx: Context) -> None:
    for event in ctx.calls("state_dict"):
        target = _state_kept(event)
        trace = ctx.trace(event)
        if not target or _state_changed(trace, target):
            continue
        best = _best_under_comparison(ctx, event, target)
        backup = _restored(ctx, event, target, trace)
        if not best and not backup:
            continue
        text = ctx.program.source.segment(event.call)
        copied = f"copy.deepcopy({text})" if ctx.program.symbols.imports.get("copy") == "copy" else "{k: v.detach().clone() for k, v in " + text + ".items()}"
        ctx.report("PLM403", event.stmt, f"{target} shares memory with the model: it will hold the last weights, not " + ("the best" if best else "these"),
                   confidence=HIGH if event.of is not None and event.of.kind in values.MODULES else MEDIUM,
                   edits=[ctx.program.source.replace(event.call, copied)], safe=True, evidence=[best or backup])


@checks("PLM403")
def state_dicts_listed(ctx: Context) -> None:
    """`snapshots.append(model.state_dict())` around a training loop: each entry is the same tensors."""
    for event in ctx.calls("append"):
        what = event.call.args[0] if len(event.call.args) == 1 else None
        asked = next((e for e in ctx.calls("state_dict") if e.node is what), None)
        if asked is None or asked.of is None or asked.of.kind not in values.MODULES or not asked.receiver or event.handler is not None or event.loop is None:
            continue
        if not around_training(ctx, event) or ctx.bound_in(ctx.trace(event), asked.receiver, event.loop):
            continue
        text = ctx.program.source.segment(asked.call)
        copied = f"copy.deepcopy({text})" if ctx.program.symbols.imports.get("copy") == "copy" else "{k: v.detach().clone() for k, v in " + text + ".items()}"
        ctx.report("PLM403", event.stmt, f"each entry of {event.receiver} shares memory with {asked.receiver}: all of them will hold the last weights", confidence=HIGH if asked.of.strong else MEDIUM,
                   edits=[ctx.program.source.replace(asked.call, copied)], safe=True, evidence=[f"line {event.loop.node.lineno}: the loop, in which training goes on"])


def _best_under_comparison(ctx: Context, event: Event, target: str) -> str:
    if not event.path or event.loop is None:
        return ""
    arm = event.path[-1][0]
    if not isinstance(arm, ast.If) or not any(isinstance(n, ast.Compare) and isinstance(n.ops[0], (ast.Lt, ast.Gt, ast.LtE, ast.GtE)) for n in ast.walk(arm.test)):
        return ""
    if not re.search(r"best|min|max|top|lowest|highest", target + ast.unparse(arm.test), re.IGNORECASE):
        return ""
    trace = ctx.trace(event)
    # Saved at once: what is in the file is right.
    saved = [e for e in trace.inside(event.loop) if e.kind == "call" and e.attr in ("save", "save_model", "save_checkpoint", "save_file") and any(
        target in names_in(a) for a in e.call.args)]
    if saved and all(e.path[:len(event.path)] == event.path for e in saved) and not any(
            e.kind == "call" and e.attr == "load_state_dict" and e.call.args and target in names_in(e.call.args[0]) for e in trace.events):
        return ""
    used = any(e.kind == "call" and e.attr in ("load_state_dict", "save") and any(target in names_in(a) for a in e.call.args) or e.kind == "leave" and isinstance(
        e.node, ast.Return) and target in names_in(e.node.value) for e in trace.events)
    return f"line {arm.lineno}: kept under a comparison, while training goes on in the loop of line {event.loop.node.lineno}" if used else ""


def _restored(ctx: Context, event: Event, target: str, trace: Trace) -> str:
    for later in trace.after(event):
        if later.kind == "bind" and later.name == target and later.stmt is not event.stmt:
            return ""
        if later.kind != "call" or later.attr != "load_state_dict" or later.receiver != event.receiver:
            continue
        if not later.call.args or dotted(later.call.args[0]) != target:
            continue
        between = trace.events[event.index + 1:later.index]
        changed = [e for e in between if ctx.program.is_step(e) or ctx.program.is_backward(e) or e.kind == "call" and e.attr == "load_state_dict" and e.receiver == event.receiver or
                   e.kind == "call" and ctx.program.called_function(e) is not None and ctx.program.trains(e)]
        if any(e.kind == "call" and any(target in names_in(a) for a in e.call.args) for e in between):
            return ""  # given to a reader that fills it
        if changed:
            return f"line {changed[0].node.lineno} changes the weights; line {later.node.lineno} means to bring these back"
    return ""


def _saved_dict(event: Event) -> ast.Dict | None:
    if event.name in ("torch.save", "accelerator.save", "fabric.save") and event.call.args and isinstance(event.call.args[0], ast.Dict):
        return event.call.args[0]
    return None


def _keys(node: ast.Dict) -> dict[str, ast.expr]:
    return {k.value: v for k, v in zip(node.keys, node.values) if isinstance(k, ast.Constant) and isinstance(k.value, str)}


def _saved(ctx: Context) -> list[tuple[Event, ast.Dict]]:
    found: list[tuple[Event, ast.Dict]] = []
    for event in ctx.calls("save"):
        given = _saved_dict(event)
        if given is None and event.name == "torch.save" and event.call.args and isinstance(event.call.args[0], ast.Name):
            for other in reversed(ctx.trace(event).events[:event.index]):
                if other.kind == "bind" and other.name == event.call.args[0].id:
                    given = other.source if isinstance(other.source, ast.Dict) else None
                    break
                if other.kind == "store" and other.name == event.call.args[0].id:
                    break
        if given is not None:
            found.append((event, given))
    return found


def _keys_written(saves: list[tuple[Event, ast.Dict]]) -> set[str] | None:
    """Keys of all dicts that are saved; None if one of them unpacks another (`**more`)."""
    if any(k is None for _, given in saves for k in given.keys):
        return None
    return {key for _, given in saves for key in _keys(given)}


def _reloaded(trace: Trace, paths: set[str]) -> set[str]:
    """Names that torch.load() of one of these paths binds, and nothing else."""
    bound = [e for e in trace.events if e.kind == "bind"]
    loaded = {e.name for e in bound if e.value is not None and e.value.kind == values.CHECKPOINT and e.value.qual == "torch.load" and isinstance(e.source, ast.Call) and
              e.source.args and ast.unparse(e.source.args[0]) in paths}
    return loaded - {e.name for e in bound if e.value is None or e.value.qual != "torch.load"}


@checks("PLM405")
def saved_and_loaded_differ(ctx: Context) -> None:
    saves = _saved(ctx)
    if not saves or len(saves) != len([e for e in ctx.calls("save") if e.name == "torch.save"]):
        return
    written = _keys_written(saves)
    if written is None:
        return
    paths = {ast.unparse(s.call.args[1]) for s, _ in saves if len(s.call.args) > 1}
    for trace in ctx.traces:
        loaded = _reloaded(trace, paths)
        for node in ast.walk(trace.function.node) if loaded else ():
            if not isinstance(node, ast.Subscript) or not isinstance(node.ctx, ast.Load) or dotted(node.value) not in loaded:
                continue
            key = constant(node.slice)
            if not isinstance(key, str) or key in written or ctx.mentions(f"'{key}' in ", f'"{key}" in ') or _foreign(ctx, dotted(node.value), trace, written):
                continue
            ctx.report("PLM405", node, f"'{key}' is read but never saved here", evidence=[f"line {saves[0][0].node.lineno} saves: {', '.join(sorted(written))}"], confidence=MEDIUM)


def _foreign(ctx: Context, name: str, trace: Trace, written: set[str]) -> bool:
    """A file that others wrote: no key of ours is read from it."""
    read = {constant(n.slice) for n in ast.walk(trace.function.node) if isinstance(n, ast.Subscript) and dotted(n.value) == name}
    return not read & written


@checks("PLM406")
def overwritten(ctx: Context) -> None:
    if ctx.mentions("os.replace", "os.rename", "shutil.move", ".rename(", ".replace(tmp"):
        return
    loads = [e for e in ctx.calls("load") if e.name == "torch.load" and e.call.args]
    for event in ctx.calls("save"):
        if event.name != "torch.save" or len(event.call.args) < 2 or event.loop is None:
            continue
        path = event.call.args[1]
        text = ast.unparse(path)
        if not (isinstance(path, ast.Constant) or isinstance(path, (ast.Name, ast.Attribute)) and text.isupper()) or not any(
                ast.unparse(e.call.args[0]) == text and not _after_training(e, event) for e in loads):
            continue
        ctx.report("PLM406", event.node, "overwritten in place: a kill while writing leaves neither the old nor the new checkpoint",
                   evidence=[f"{text} is loaded in this file too"])


def _after_training(load: Event, save: Event) -> bool:
    """Does the load only come when the loop that saves is over?  Then it tries the best weights, and resumes nothing."""
    outer = save.loop
    while outer is not None and outer.outer is not None:
        outer = outer.outer
    return load.function is save.function and load.index > save.index and outer is not None and not load.within(outer)


@checks("PLM408")
def wrapped_prefix(ctx: Context) -> None:
    groups: dict[tuple[Function, str], list[tuple[ast.expr, Edit | None]]] = {}
    wraps: dict[tuple[Function, str], Event] = {}
    prefix = {"DistributedDataParallel": "module.", "DataParallel": "module.", "DDP": "module.", "compile": "_orig_mod."}
    for event in ctx.calls("save"):
        if event.name != "torch.save" or not event.call.args:
            continue
        saved = event.call.args[0]
        parts = [saved] if isinstance(saved, ast.Call) else [v for v in saved.values] if isinstance(saved, ast.Dict) else []
        for part in parts:
            if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr == "state_dict":
                name = dotted(part.func.value)
                binds = [e for e in ctx.trace(event).events[:event.index] if e.kind == "bind" and e.name == name]
                if binds and binds[-1].value is not None and binds[-1].value.of in prefix and binds[-1].value.kind in values.MODULES and not binds[-1].path:
                    key = (event.function, prefix[binds[-1].value.of])
                    groups.setdefault(key, []).append((part, None))
                    wraps.setdefault(key, binds[-1])
    for key, places in groups.items():
        ctx.report_together("PLM408", places, f"the keys get the prefix {key[1]}", evidence=[f"line {wraps[key].node.lineno} wraps {wraps[key].name}"])


@checks("PLM410")
def optimizer_loaded_first(ctx: Context) -> None:
    for event in ctx.calls("load_state_dict"):
        if event.of is None or event.of.kind != values.OPTIMIZER or not event.of.of:
            continue
        model = event.of.of
        for later in ctx.trace(event).after(event):
            if later.kind == "call" and later.receiver == model and (later.attr == "cuda" or later.attr == "to" and later.call.args and re.search(
                    r"cuda|device", ast.unparse(later.call.args[0]))) and later.loop is event.loop:
                earlier = any(e.kind == "call" and e.receiver == model and e.attr in ("cuda", "to") for e in ctx.trace(event).events[:event.index])
                if not earlier:
                    ctx.report("PLM410", event.node, "the optimizer's state stays where the parameters were", evidence=[f"line {later.node.lineno} moves {model} afterwards"])
                break
