"""PLM2xx: stalls and transfers."""
from __future__ import annotations

import ast
import re

from .. import names, values
from ..context import HIGH, MEDIUM, Context, checks, constant, in_place, names_in
from ..finding import Edit
from ..symbols import Class, Function
from ..trace import Event, Loop, Trace

_READS = frozenset("item tolist cpu numpy".split())


def _device(node: ast.expr | None) -> str:
    """Text of a `.to()` argument if it names a device, not a dtype."""
    if node is None:
        return ""
    text = ast.unparse(node)
    if constant(node) is not ... and isinstance(constant(node), str):
        return text.strip("'\"")
    return text if re.search(r"device|cuda|rank|gpu", text) and "dtype" not in text else ""


def _moves(event: Event) -> str:
    """Device that `.cuda()` or `.to(device)` goes to, as written; "" for other calls."""
    if event.attr == "cuda":
        return "cuda" if not event.call.args else f"cuda:{ast.unparse(event.call.args[0])}"
    if event.attr == "to":
        return _device(event.call.args[0] if event.call.args else event.keyword("device"))
    return ""


@checks("PLM201")
def read_every_step(ctx: Context) -> None:
    if not ctx.gpu:
        return
    for trace in ctx.traces:
        for loop in ctx.steps(trace):
            if loop.framework or any(e.kind == "call" and e.attr == "synchronize" for e in trace.inside(loop)):
                continue
            reads = [e for e in trace.inside(loop) if e.loop is loop and e.every(loop) and _reads(e)]
            if _waits(ctx, trace.inside(loop), reads) < 2:
                continue  # one is what a number for the log takes
            lines = sorted({e.node.lineno for e in reads})
            ctx.report("PLM201", reads[0].node, f"{len(lines)} reads wait for the GPU in every step, with work for it between them", lines=lines,
                       confidence=HIGH if reads[0].of is not None and reads[0].of.strong else MEDIUM,
                       evidence=[f"line {', '.join(map(str, lines[:8]))}" + (" and more" if len(lines) > 8 else "") + f"; the loop begins at line {loop.node.lineno}"])


def _waits(ctx: Context, inside: list[Event], reads: list[Event]) -> int:
    """How often the GPU runs dry in an iteration: reads with work for it (a pass, backward, a step) between them."""
    work = [e.index for e in inside if ctx.program.runs_model(e) or ctx.program.is_backward(e) or ctx.program.is_step(e)]
    return sum(not i or any(reads[i - 1].index < at < read.index for at in work) for i, read in enumerate(reads))


def _reads(event: Event) -> bool:
    """Does it need a number of the GPU: a read, a text, a test?"""
    if event.kind in ("format", "test"):
        return event.value is not None and event.value.strong and event.value.kind == values.TENSOR and event.value.device != "cpu"
    if event.kind != "call":
        return False
    if event.attr in _READS and event.receiver + event.name and event.of is not None and event.of.kind in values.TENSORS:
        return event.of.device != "cpu"
    if event.name in ("float", "int", "bool", "print"):
        return any(a.kind == values.TENSOR and a.graph == values.YES for a in event.args)
    return event.attr == "item" and bool(event.receiver) and names.kind_of_name(event.receiver) == "loss"


@checks("PLM202")
def loader_every_epoch(ctx: Context) -> None:
    for event in ctx.calls("DataLoader"):
        loop = ctx.epoch_of(event)
        if loop is None or event.value is None or event.value.kind != values.LOADER or not event.every(loop) or event.loop is not loop:
            continue
        dataset = event.argument(0, "dataset")
        trace = ctx.trace(event)
        if constant(event.argument(5, "num_workers") or ast.Constant(0)) == 0:
            continue
        if dataset is None or not isinstance(dataset, (ast.Name, ast.Attribute, ast.Subscript)) or event.open_ended:
            continue
        bound = {e.name for e in trace.inside(loop) if e.kind in ("bind", "augment")}
        if names_in(dataset) & bound or any(names_in(k.value, cut=False) & bound for k in event.call.keywords):
            continue
        if re.search(r"fold|split|task|stage|round|client|cycle", ast.unparse(loop.node.target) if isinstance(loop.node, ast.For) else ""):
            continue
        ctx.report("PLM202", event.node, "workers are started and stopped every epoch",
                   evidence=[f"line {loop.node.lineno}: the loop; {ast.unparse(dataset)} is made before it"], fix=["make the loader before the loop"])


def _runs_in_workers(trace: Trace) -> str:
    """What of a data set's workers a function is: "dataset" for its own method, "collate" for a function that a loader is given."""
    function, cls = trace.function, trace.function.cls
    if cls is None:
        return "collate" if re.search(r"(^|_)collate(_|$)|^worker_init", function.name) else ""
    if function.name not in ("__getitem__", "__iter__", "__getitems__") or "__getitem__" not in cls.methods or not (cls.dataset or "__len__" in cls.methods):
        return ""
    return "" if cls.module or "Loader" in cls.name or any("Loader" in b for b in cls.bases) else "dataset"


def _gpu_in_worker(trace: Trace, event: Event, dataset: bool) -> str:
    """The device that a worker's call puts something on, as written; "" for the CPU, and for a device that may be the data's own."""
    if event.kind != "call" or event.attr == "from_pretrained":
        return ""
    where = _moves(event) or _device(event.keyword("device")) * (event.name.startswith("torch."))
    if "cpu" in where or "." in where.replace("self.", ""):
        return ""
    if not dataset and not where.startswith("cuda"):
        return ""  # a collate function may be given its data's device
    return where


@checks("PLM203")
def gpu_in_dataset(ctx: Context) -> None:
    if ctx.in_benchmark:
        return
    workers = bool(re.search(r"num_workers\s*=\s*[1-9]", ctx.program.source.text))
    for trace in ctx.traces:
        role = _runs_in_workers(trace)
        if not role:
            continue
        for event in trace.events:
            where = _gpu_in_worker(trace, event, role == "dataset")
            if where:
                ctx.report("PLM203", event.node, ("CUDA cannot be initialised again in a forked worker" if workers else "with num_workers > 0 it fails in the worker") +
                           ("; and it is one copy a sample instead of one a batch" if role == "dataset" else ""),
                           severity="error" if workers else "warning", confidence=HIGH if where.startswith("cuda") else MEDIUM,
                           evidence=[f"{trace.function.path} runs in the loader's workers"])
                break


def _innermost(ctx: Context, event: Event) -> Loop | None:
    trace = ctx.trace(event)
    loop = event.loop
    if loop is None or loop.framework:
        return None
    return loop if loop in ctx.training(trace) or loop in ctx.evaluations(trace) else None


def _when_only(event: Event) -> bool:
    return event.handler is not None


@checks("PLM204")
def emptied_every_step(ctx: Context) -> None:
    for event in ctx.calls("empty_cache"):
        loop = _innermost(ctx, event)
        if loop is None or not event.every(loop) or not in_place(event.stmt, event.call) or _when_only(event):
            continue
        if not _per_batch(ctx, loop) or any(e.kind == "call" and re.search(r"memory_(allocated|reserved|stats)|mem_get_info|max_memory", e.attr)
                                            for e in ctx.trace(event).inside(loop)):
            continue  # a loop that measures memory has a reason
        ctx.report("PLM204", event.node, "gives memory back and asks the driver for it again every step",
                   edits=[_removed(ctx, event)], evidence=[f"line {loop.node.lineno}: the loop"])


def _per_batch(ctx: Context, loop: Loop) -> bool:
    """A loop over batches: not one over epochs, models or stages that trains in a function it calls."""
    if loop.source is not None and loop.source.kind == values.LOADER:
        return True
    trace = next(t for t in ctx.traces if loop in t.loops)
    return loop in ctx.steps(trace) and (not loop.inner or not ctx.program.epoch(loop, trace))


def _removed(ctx: Context, event: Event) -> Edit | None:
    body = _body_of(ctx, event.stmt)
    if body is not None and len(body) == 1:
        return ctx.program.source.replace(event.stmt, "pass")
    return ctx.program.source.without(event.stmt)


def _body_of(ctx: Context, stmt: ast.stmt) -> list[ast.stmt] | None:
    for node in ast.walk(ctx.program.source.tree):
        for name in ("body", "orelse", "finalbody"):
            body = getattr(node, name, None)
            if isinstance(body, list) and stmt in body:
                return body
    return None


def _placeable(ctx: Context, event: Event) -> tuple[ast.Call, str] | None:
    """The call in `torch.zeros(n).cuda()` that could have made its tensor on the GPU, and its function's name in torch."""
    func = event.call.func
    if not isinstance(func, ast.Attribute) or not isinstance(func.value, ast.Call):
        return None
    name = ctx.program.symbols.qualified(func.value.func)
    made = name.removeprefix("torch.")
    if name == made or made not in names.PLACEABLE or any(k.arg in ("device", "generator", None) for k in func.value.keywords):
        return None
    return func.value, made


def _runs_often(event: Event) -> bool:
    """Is it in a loop, or in a module's pass?"""
    cls = event.function.cls
    return event.loop is not None or event.function.name in ("forward", "training_step") and cls is not None and cls.module


def _device_argument(ctx: Context, event: Event) -> str:
    """Text of the device that `.to()` or `.cuda()` goes to, as another call's argument."""
    call = event.call
    if event.attr == "cuda" and not call.args:
        return '"cuda"'
    text = ctx.program.source.segment(call.args[0] if call.args else event.keyword("device") or call)
    if event.attr != "cuda":
        return text
    return f'"cuda:{text}"' if isinstance(constant(call.args[0]), int) else f'f"cuda:{{{text}}}"'


def _made_there(ctx: Context, event: Event, inner: ast.Call) -> Edit | None:
    """`torch.zeros(n, device="cuda")` for `torch.zeros(n).cuda()`; None if that says more than the device."""
    if event.call.args[1:] or any(k.arg not in ("device", "non_blocking") for k in event.call.keywords):
        return None
    text = ctx.program.source.segment(inner)
    if text.rstrip(")").rstrip().endswith(","):
        return None
    joint = ", " if inner.args or inner.keywords else ""
    return ctx.program.source.replace(event.call, f"{text[:-1]}{joint}device={_device_argument(ctx, event)})")


@checks("PLM206")
def made_on_cpu(ctx: Context) -> None:
    groups: dict[tuple[Function, str, bool], list[tuple[ast.expr, Edit | None]]] = {}
    for event in ctx.calls("to", "cuda"):
        where = _moves(event)
        if where in ("", "cpu") or event.of is not None and event.of.device == "cuda":
            continue
        found = _placeable(ctx, event)
        if found is None or not _runs_often(event):
            continue
        inner, made = found
        groups.setdefault((event.function, made, made in names.RANDOM), []).append((event.call, _made_there(ctx, event, inner)))
    for (_, made, random), places in groups.items():
        ctx.report_together("PLM206", places, f"made on the CPU, then copied; pass device= to torch.{made}", safe=not random,
                            evidence=["random numbers differ between devices"] if random else [])


@checks("PLM207")
def round_trip(ctx: Context) -> None:
    for event in ctx.calls("from_numpy", "tensor", "as_tensor", "FloatTensor", "Tensor"):
        if not event.name.startswith("torch.") or not event.call.args or event.loop is None and event.function.name != "forward":
            continue
        if event.loop is not None and not (ctx.step_of(event) or ctx.evaluation_of(event)) and event.function.name != "forward":
            continue
        trace = ctx.trace(event)
        events = trace.inside(event.loop) if event.loop is not None else trace.events
        text = ast.unparse(event.stmt)
        argument = event.call.args[0]
        direct = isinstance(argument, ast.Call) and isinstance(argument.func, ast.Attribute) and argument.func.attr == "numpy"
        if not re.search(r"\.cuda\(|\.to\((?!torch\.)|device=", text) or not isinstance(argument, (ast.Name, ast.Call)):
            continue
        names_ = names_in(argument, cut=False) if isinstance(argument, ast.Name) else set()
        source = [e for e in events if e.kind == "bind" and e.name in names_ and e.index < event.index and e.value is not None and
                  e.value.kind == "numpy" and e.value.of == "tensor" and e.source is not None and ".cpu()" in ast.unparse(e.source)]
        if direct and ".cpu()" in ast.unparse(argument) or source:
            ctx.report("PLM207", event.node, "goes to the CPU and back in one iteration", confidence=MEDIUM,
                       evidence=[f"line {(source[-1].node if source else argument).lineno}: .cpu().numpy()"])


_OPENS = frozenset("open imread load read_image".split())  #: what reads a file, of any library


def _of_dataset(ctx: Context, event: Event) -> Class | None:
    """The class in this file of the data set that a DataLoader is given."""
    if event.value is None or event.value.kind != values.LOADER or event.open_ended:
        return None
    given = event.argument(0, "dataset")
    value = next((a for a in event.args if a.cls is not None and a.cls.dataset), None) if given is not None else None
    return value.cls if value is not None and value.cls is not None and ctx.program.home(value.cls) is ctx.program else None


@checks("PLM212")
def objects_in_workers(ctx: Context) -> None:
    for event in ctx.calls("DataLoader"):
        cls, workers = _of_dataset(ctx, event), constant(event.keyword("num_workers"))
        if cls is None or not isinstance(workers, int) or workers < 1:
            continue
        for name, places in cls.assigned.items():
            found = ctx.program.attribute(cls, name)
            made = next((node for node, function in places if function.name == "__init__" and isinstance(node, (ast.ListComp, ast.DictComp))), None)
            if made is None or found is None or any(i.kind in values.TENSORS + (values.NUMBER,) for i in found.items or ()):
                continue
            ctx.report("PLM212", made, f"each of {workers} workers comes to hold its own copy of {name}",
                       evidence=[f"line {event.node.lineno}: the loader", "reading a Python object writes its reference count, and the forked page is copied"],
                       fix=["numpy arrays or tensors in place of many Python objects (strings: one array of bytes and one of offsets)"])


@checks("PLM213")
def decoded_in_the_loop(ctx: Context) -> None:
    for event in ctx.calls("DataLoader"):
        cls, workers = _of_dataset(ctx, event), event.argument(5, "num_workers")
        get = cls.methods.get("__getitem__") if cls is not None else None
        trace = ctx.program.traces.get(get) if get is not None else None
        if trace is None or workers is not None and constant(workers) != 0:
            continue
        reads = next((e for e in trace.events if e.kind == "call" and e.attr in _OPENS and (e.name == "open" or e.name.partition(".")[0] in ctx.program.roots())), None)
        trains = any(l.source is not None and l.source.node is event.node for t in ctx.traces for l in ctx.training(t))
        if reads is not None and trains:
            ctx.report("PLM213", event.node, "the training loop waits for each file that the data set reads: num_workers is 0",
                       evidence=[f"line {reads.node.lineno}: __getitem__ reads a file"], fix=["num_workers=4 or more, pin_memory=True, persistent_workers=True; plimsoll.tune_loader measures how many"])


@checks("PLM214")
def emptied_before_deleted(ctx: Context) -> None:
    for event in ctx.calls("empty_cache"):
        trace = ctx.trace(event)
        following = trace.after(event)[:1]
        if not event.name.startswith("torch.") or not in_place(event.stmt, event.call) or not following or following[0].kind != "delete" or following[0].path != event.path:
            continue
        deleted = following[0]
        held = next((e.value for e in reversed(trace.events[:event.index]) if e.kind == "bind" and e.name == deleted.name and e.value is not None), None)
        if held is None or held.kind not in values.MODULES + values.TENSORS or any(e.kind == "call" and e.attr == "empty_cache" for e in trace.after(deleted)):
            continue
        ctx.report("PLM214", event.node, f"{deleted.name} is deleted only afterwards: its memory stays in PyTorch's cache",
                   evidence=[f"line {deleted.node.lineno}: del {deleted.name}"], fix=[f"del {deleted.name} first"])


Keywords = dict[str, ast.keyword]


def _needs_workers(ctx: Context, event: Event, given: Keywords) -> None:
    """Options of workers, without workers."""
    workers = constant(given["num_workers"].value) if "num_workers" in given else 0
    if workers != 0 or workers is False:
        return
    for name, harmless in (("persistent_workers", False), ("prefetch_factor", None)):
        value = constant(given[name].value) if name in given else ...
        if value is not ... and value is not harmless and value is not False:
            ctx.report("PLM208", event.node, f"{name} without workers: DataLoader raises ValueError", edits=[ctx.without(event.call, given[name])],
                       safe=True, evidence=["num_workers is 0" + ("" if "num_workers" in given else ", its default")])


def _shuffles_with_sampler(ctx: Context, event: Event, given: Keywords) -> None:
    args = event.call.args
    shuffle = given["shuffle"].value if "shuffle" in given else args[2] if len(args) > 2 else None
    sampler = given["sampler"].value if "sampler" in given else None
    if constant(shuffle) is True and sampler is not None and constant(sampler) is not None and not isinstance(sampler, ast.IfExp):
        edits: list[Edit | None] = [ctx.without(event.call, given["shuffle"])] if "shuffle" in given else []
        ctx.report("PLM208", event.node, "shuffle=True with a sampler: DataLoader raises ValueError", edits=edits, safe=True)


def _clashes_with_batches(ctx: Context, event: Event, given: Keywords) -> None:
    """Options of batches, with a sampler that makes them itself."""
    if "batch_sampler" not in given or constant(given["batch_sampler"].value) is None:
        return
    clash = [n for n, harmless in (("batch_size", 1), ("shuffle", False), ("drop_last", False)) if n in given and
             constant(given[n].value) not in (..., None) and constant(given[n].value) is not harmless]
    if clash:
        ctx.report("PLM208", event.node, f"batch_sampler with {', '.join(clash)}: DataLoader raises ValueError",
                   edits=[ctx.without(event.call, given[name]) for name in clash], safe=True)


@checks("PLM208")
def arguments_clash(ctx: Context) -> None:
    for event in ctx.calls("DataLoader"):
        if not event.name.endswith("utils.data.DataLoader") and event.name != "torch.utils.data.dataloader.DataLoader":
            continue
        if event.open_ended or len(event.call.args) > 5:
            continue
        given = {k.arg: k for k in event.call.keywords if k.arg}
        _needs_workers(ctx, event, given)
        _shuffles_with_sampler(ctx, event, given)
        _clashes_with_batches(ctx, event, given)


def _copied_waiting(ctx: Context, trace: Trace) -> list[Event]:
    """What loops over a loader copy of their batch without non_blocking."""
    found: list[Event] = []
    for loop in ctx.training(trace) + ctx.evaluations(trace):
        if loop.source is None or loop.source.kind != values.LOADER or loop.framework:
            continue
        moved = [e for e in trace.inside(loop) if e.kind == "call" and _moves(e) and "cpu" not in _moves(e) and e.loop is loop and
                 e.of is not None and (e.of.qual == "batch" or e.of.kind == values.BATCH)]
        reads = [e for e in trace.inside(loop) if e.loop is loop and e.every(loop) and _reads(e)]  # they wait for the GPU, and the copy does not matter
        if moved and not reads and not any(e.keyword("non_blocking") is not None for e in moved):
            found += moved
    return found


def _pinned_on_the_spot(event: Event) -> bool:
    """`x.pin_memory().to(device, non_blocking=True)`"""
    func = event.call.func
    inner = func.value.func if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Call) else None
    return isinstance(inner, ast.Attribute) and inner.attr == "pin_memory" and constant(event.keyword("non_blocking")) is True


@checks("PLM209")
def pinned_for_nothing(ctx: Context) -> None:
    loaders = [e for e in ctx.calls("DataLoader") if e.value is not None and e.value.kind == values.LOADER]
    pinned = bool(loaders) and all(constant(e.keyword("pin_memory")) is True for e in loaders) and not ctx.program.hidden_loops()
    waiting = [e for trace in ctx.traces for e in _copied_waiting(ctx, trace)] if pinned else []
    if waiting:
        ctx.report_together("PLM209", [(e.call, _non_blocking(ctx, e)) for e in waiting], "the batch is pinned, but copied with the CPU waiting", safe=True,
                            evidence=["with non_blocking=True the CPU goes on while the batch is copied"])
    for event in ctx.calls("to", "cuda"):
        if _pinned_on_the_spot(event):
            ctx.report("PLM209", event.node, "pinning on the spot takes longer than the copy that it speeds up",
                       evidence=["pin_memory() itself copies, with the CPU waiting"])


def _non_blocking(ctx: Context, event: Event) -> Edit | None:
    source = ctx.program.source
    end = source.end(event.call)
    return Edit(end - 1, end - 1, (", " if event.call.args or event.call.keywords else "") + "non_blocking=True")


@checks("PLM210")
def debugging_left_on(ctx: Context) -> None:
    if ctx.in_benchmark or re.search(r"debug", ctx.program.source.path, re.IGNORECASE):
        return
    for event in ctx.calls("set_detect_anomaly"):
        first = constant(event.argument(0, "mode"))
        if event.name.startswith("torch.") and first is True and event.every(None) and in_place(event.stmt, event.call):
            ctx.report("PLM210", event.node, "anomaly detection is on for the whole run: it keeps a stack for every operation and reads every gradient")
