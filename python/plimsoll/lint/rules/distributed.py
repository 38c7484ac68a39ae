"""PLM5xx: several processes."""
from __future__ import annotations

import ast
import re

from .. import names, values
from ..context import HIGH, MEDIUM, Context, checks, constant, names_in
from ..symbols import dotted
from ..trace import Event, Loop, Trace, apart
from .untrained import known_as


WRAPPERS = ("DistributedDataParallel", "FullyShardedDataParallel", "DDP", "FSDP")


def _collective(event: Event) -> str:
    """The name of the collective operation that a call is; "" for other calls."""
    if event.attr in names.COLLECTIVES and event.name.startswith(("torch.distributed", "dist.", "torch.distributed.nn")):
        return event.attr
    if event.of is not None and event.of.kind == values.ACCEL and event.attr in names.ACCEL_COLLECTIVES:
        return event.attr
    return ""


_ONE_RANK = re.compile(r"(?<!\w)(rank|global_rank|get_rank\(\)|is_main_process|is_main|is_master|master_process|is_global_zero|is_world_process_zero)")
_NOT_ONE_RANK = re.compile(r"world_size|is_initialized|is_available|== ?-1|!= ?-1|>= ?0|> ?-1|size\(|local|node|group|mesh|num_processes|src|dst|"
                           r"(tp|dp|pp|cp|ep|sp|model|data|tensor|pipeline)_|parallel")


def _is_rank_test(ctx: Context, arm: ast.AST) -> bool:
    return isinstance(arm, ast.If) and ctx.program.rank_test(arm.test)


def _singles_out_rank(test: ast.expr) -> bool:
    """Does the test set one rank apart from all others of the job, by names that have this meaning?"""
    if any(isinstance(n, ast.Compare) and not any(isinstance(part, ast.Constant) for part in (n.left, *n.comparators)) for n in ast.walk(test)):
        return False  # which rank a name means is not seen
    text = ast.unparse(test)
    return not _NOT_ONE_RANK.search(text) and bool(_ONE_RANK.search(text))


def _failure_wanted(trace: Trace, event: Event) -> bool:
    """Is the call in a `with pytest.raises()`?"""
    return any(isinstance(n, ast.With) and n.lineno <= event.node.lineno <= (n.end_lineno or 0) and any("raises" in ast.unparse(i.context_expr).lower() for i in n.items)
               for n in ast.walk(trace.function.node))


def _others_reach_one(ctx: Context, event: Event, guard: ast.If, collectives: list[Event]) -> bool:
    """Do the other ranks reach one too: on another arm, under another test of the rank, or after an early return?"""
    return any(o is not event and (apart(o.path, event.path) or any(
        (arm is not guard or implied) and _is_rank_test(ctx, arm) for arm, _, implied in o.path)) for o in collectives)


def _guard_leaves(guard: ast.If) -> bool:
    """Does the guarded block do something, and then leave the function?"""
    return len(guard.body) > 1 and any(isinstance(n, (ast.Return, ast.Raise)) for s in guard.body for n in ast.walk(s))


@checks("PLM501")
def one_sided(ctx: Context) -> None:
    for trace in ctx.traces:
        found = [(e, op) for e in trace.events if e.kind == "call" and (op := _collective(e))]
        for event, op in found:
            guard = next((a for a, _, implied in event.path if not implied and isinstance(a, ast.If) and ctx.program.rank_test(a.test)), None)
            if guard is None or event.keyword("group") is not None or event.keyword("async_op") is not None or len(event.call.args) > 2:
                continue
            if not _singles_out_rank(guard.test) or _failure_wanted(trace, event) or _others_reach_one(ctx, event, guard, [o for o, _ in found]):
                continue
            yields = any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in ast.walk(trace.function.node))
            if yields or _called_under_rank(ctx, event, op) or _guard_leaves(guard):
                continue
            ctx.report("PLM501", event.node, f"only some ranks reach this {op}; they wait for ever", evidence=[f"line {guard.lineno}: if {ast.unparse(guard.test)[:60]}"])


def _called_under_rank(ctx: Context, event: Event, op: str) -> bool:
    """A helper for one side: its callers have the other."""
    return any(any(isinstance(getattr(a, "test", None), ast.expr) and ctx.program.rank_test(a.test) for a, _, _ in c.path)  # type: ignore[attr-defined]
               for c in ctx.program.callers.get(event.function, ()))


@checks("PLM502")
def set_epoch_missing(ctx: Context) -> None:
    if "set_epoch" in ctx.program.source.text or ctx.program.hidden_loops():
        return
    for event in ctx.calls("DistributedSampler", "StatefulDistributedSampler"):
        if not event.name.startswith(("torch.", "torchdata.", "DistributedSampler")) or constant(event.keyword("shuffle")) is False or event.open_ended:
            continue
        if len(event.call.args) >= 4 and constant(event.call.args[3]) is False:
            continue
        name = _sampler_name(event)
        if not name or re.search(r"val|test|eval|dev\b", name + ast.unparse(event.call.args[0] if event.call.args else event.call), re.IGNORECASE):
            continue
        trace = ctx.trace(event)
        if name != "sampler" and not any(dotted(k.value) == name for e in ctx.program.events() if e.kind == "call" for k in e.call.keywords if k.arg == "sampler"):
            continue  # no loader of this file has it
        if any(name in names_in(n) for n in trace.return_nodes) and not ctx.program.callers.get(event.function):
            continue
        if ctx.epoch_of(event) is not None or not _epochs(ctx):
            continue
        ctx.report("PLM502", event.node, "every epoch has the same order: set_epoch() is never called", confidence=HIGH,
                   evidence=[f"{name} shuffles by its epoch's number, which stays 0"], fix=[f"{name}.set_epoch(epoch) at the head of the loop over epochs"],
                   edits=_set_epoch(ctx, event, name))


def _sampler_name(event: Event) -> str:
    stmt = event.stmt
    if isinstance(stmt, ast.Assign):
        return dotted(stmt.targets[0])
    # DataLoader(..., sampler=DistributedSampler(...)) that a function of the file returns, and another calls.
    return "sampler" if isinstance(stmt, ast.Return) else ""


def _epochs(ctx: Context) -> list[tuple[Trace, Loop]]:
    return [(t, l) for t in ctx.traces for l in t.loops if not l.framework and ctx.is_epoch(l, t)]


def _set_epoch(ctx: Context, event: Event, name: str) -> list:  # type: ignore[type-arg]
    found = [(t, l) for t, l in _epochs(ctx) if t.function is event.function and isinstance(l.node, ast.For) and isinstance(l.node.target, ast.Name)]
    if len(found) != 1:
        return []
    node = found[0][1].node
    assert isinstance(node, ast.For) and isinstance(node.target, ast.Name)
    return [ctx.program.source.line_before(node.body[0], f"{name}.set_epoch({node.target.id})")]


@checks("PLM503")
def all_on_gpu_0(ctx: Context) -> None:
    if ctx.program.hidden_loops() or ctx.mentions("set_device", "device_id", "LOCAL_RANK", "CUDA_VISIBLE_DEVICES", "local_rank", "accelerat", "gpu_id", "device_ids", "args.gpu", "cuda:{", "local_process"):
        return
    starts = [e for e in ctx.calls("init_process_group") if e.name.startswith(("torch.distributed", "dist.")) and (
        constant(e.argument(0, "backend")) in ("nccl", "cpu:gloo,cuda:nccl"))]
    if not starts or ctx.mentions("cuda(rank", "to(rank", "cuda:%d", "'cuda:' +", '"cuda:" +', "cuda(args", "device=rank", "cuda(gpu", "to(gpu", "device(f", "device('cuda', ", 'device("cuda", ', "cuda.device("):
        return
    for event in ctx.calls("cuda", "to"):
        plain = event.attr == "cuda" and not event.call.args and not event.call.keywords and event.receiver or event.attr == "to" and event.call.args and constant(event.call.args[0]) in ("cuda", "cuda:0")
        if plain and event.of is not None and event.of.kind in values.MODULES + values.TENSORS:
            ctx.report("PLM503", event.node, "all ranks of a host use cuda:0", confidence=MEDIUM, evidence=[f"line {starts[0].node.lineno}: nccl, and no set_device() in this file"])
            return


@checks("PLM504")
def optimizer_before_wrap(ctx: Context) -> None:
    for event in ctx.calls("FullyShardedDataParallel", "FSDP", "fully_shard", "parallelize_module", "get_peft_model", "resize_token_embeddings"):
        if event.attr == "resize_token_embeddings":
            model = event.receiver
        else:
            model = dotted(event.call.args[0]) if event.call.args else ""
            if event.attr in ("FullyShardedDataParallel", "FSDP") and not event.name.endswith(("FullyShardedDataParallel", "FSDP")):
                continue
        if not model:
            continue
        trace = ctx.trace(event)
        before = [e for e in trace.events[:event.index] if e.kind == "call" and e.value is not None and e.value.kind == values.OPTIMIZER and e.value.of == model and e.value.node is e.node and
                  not apart(e.path, event.path)]
        if not before or any(e.kind == "call" and e.value is not None and e.value.kind == values.OPTIMIZER and e.value.of == model and e.index > event.index for e in trace.events):
            continue
        if any(e.kind == "bind" and e.name == model and before[-1].index < e.index < event.index for e in trace.events):
            continue
        original = constant(event.keyword("use_orig_params")) is True
        ctx.report("PLM504", before[-1].node, "the optimizer holds parameters that the model no longer uses", severity="info" if original else "",
                   confidence=HIGH, evidence=[f"line {event.node.lineno}: {event.attr}() replaces them"], fix=["make the optimizer after it"])


@checks("PLM505")
def every_rank_sees_all(ctx: Context) -> None:
    if ctx.program.hidden_loops() or ctx.mentions("DistributedSampler", "sampler", "rank::", "world_size", "IterableDataset", "Sampler", "split_dataset_by_node", "shard("):
        return
    wrapped = list(ctx.calls("DistributedDataParallel", "DDP"))
    if not wrapped:
        return
    for event in ctx.calls("DataLoader"):
        if constant(event.keyword("shuffle")) is True and event.value is not None and event.value.kind == values.LOADER and event.name.startswith("torch."):
            ctx.report("PLM505", event.node, "each rank trains on the whole set", evidence=[f"line {wrapped[0].node.lineno}: DistributedDataParallel; no sampler splits the data"], confidence=MEDIUM)


@checks("PLM506")
def clipped_under_fsdp(ctx: Context) -> None:
    for event in ctx.calls("clip_grad_norm_"):
        if not event.name.startswith("torch.nn.utils") or not event.call.args:
            continue
        first = event.call.args[0]
        if not (isinstance(first, ast.Call) and isinstance(first.func, ast.Attribute) and first.func.attr == "parameters"):
            continue
        model = dotted(first.func.value)
        binds = [e for e in ctx.trace(event).events[:event.index] if e.kind == "bind" and e.name == model and e.value is not None]
        if binds and binds[-1].value is not None and binds[-1].value.of in ("FullyShardedDataParallel", "FSDP") and "NO_SHARD" not in ast.unparse(binds[-1].stmt) and not binds[-1].path:
            rest = ", ".join(ctx.program.source.segment(a) for a in event.call.args[1:]) or ", ".join(ast.unparse(k.value) for k in event.call.keywords[:1])
            edits = [ctx.program.source.replace(event.call, f"{model}.clip_grad_norm_({rest})")] if rest and len(event.call.args) + len(event.call.keywords) == 2 else []
            ctx.report("PLM506", event.node, "this is the norm of this rank's shard only: each rank clips by another factor", edits=edits, safe=True,
                       evidence=[f"line {binds[-1].node.lineno}: {model} is FullyShardedDataParallel"])


@checks("PLM507")
def skipped_on_one_rank(ctx: Context) -> None:
    wrapped = {dotted(e.stmt.targets[0]) for e in ctx.calls(*WRAPPERS) if isinstance(e.stmt, ast.Assign)} - {""}
    for trace in ctx.traces if wrapped else ():
        for loop in ctx.steps(trace):
            inside = trace.inside(loop)
            trained = {name for e in inside if ctx.program.is_model_call(e) for _, name in known_as(ctx, trace.function, dotted(e.call.func))}
            backward = [e for e in inside if ctx.program.is_backward(e)] if trained & wrapped else []
            for event in inside:
                if event.kind != "leave" or not isinstance(event.node, (ast.Continue, ast.Break)) or event.loop is not loop or not backward or event.index > backward[0].index:
                    continue
                arm = event.path[-1][0] if event.path else None
                if not isinstance(arm, ast.If) or event.path[-1][1] != 0:
                    continue
                test = ast.unparse(arm.test)
                if not re.search(r"isnan|isinf|isfinite", test) or re.search(r"reduce|gather|all_rank|global|dist", test):
                    continue
                if any("reduce" in e.attr or "gather" in e.attr for e in inside if e.kind == "call" and e.index < event.index):
                    continue
                ctx.report("PLM507", event.node, "one rank skips its backward pass, the others wait for it", confidence=MEDIUM,
                           evidence=[f"line {arm.lineno}: if {test[:60]}, which only this rank knows", f"line {backward[0].node.lineno}: the backward pass that reduces gradients"])


@checks("PLM508")
def data_parallel(ctx: Context) -> None:
    wrapped = [(e.call, None) for e in ctx.calls("DataParallel") if e.name == "torch.nn.DataParallel" and e.args and e.args[0].kind in values.MODULES]
    if wrapped and any(ctx.training(trace) for trace in ctx.traces) and ctx.program.files.first("PLM508", ctx.program.source.path):
        ctx.report_together("PLM508", sorted(wrapped, key=lambda w: w[0].lineno), "DataParallel copies the model to each GPU in every step and gathers all outputs on the first GPU")
