"""PLM6xx: settings that come too late."""
from __future__ import annotations

import ast
import re

from .. import values
from ..context import Context, checks, constant
from ..symbols import dotted
from ..trace import Event, always

_READ_AT_START = re.compile(r"^(PYTORCH_(CUDA_|HIP_)?ALLOC_CONF|CUDA_VISIBLE_DEVICES|CUDA_LAUNCH_BLOCKING|CUBLAS_WORKSPACE_CONFIG|NCCL_\w+)$")
_STARTS = frozenset("init set_device mem_get_info get_device_properties memory_reserved current_stream Stream get_device_capability get_device_name synchronize".split())


def _starts_cuda(event: Event) -> bool:
    """A call that makes the CUDA context for certain."""
    if event.kind != "call":
        return False
    if event.name.startswith("torch.cuda.") and event.name.count(".") == 2 and event.attr in _STARTS:
        return True
    if event.of is not None and event.of.kind in values.MODULES + values.TENSORS:
        if event.attr == "cuda":
            return True
        return event.attr == "to" and bool(event.call.args) and str(constant(event.call.args[0])).startswith("cuda")
    return event.name.startswith("torch.") and str(constant(event.keyword("device"))).startswith("cuda") and event.value is not None and event.value.kind == values.TENSOR


def _key(event: Event) -> tuple[str, ast.expr | None]:
    if event.kind == "store" and event.name == "os.environ" and isinstance(event.target, ast.Subscript):
        return str(constant(event.target.slice)), event.source
    if event.kind == "call" and event.name in ("os.environ.setdefault", "os.putenv", "os.environ.update"):
        first = event.call.args[0] if event.call.args else None
        return (str(constant(first)), event.call.args[1] if len(event.call.args) > 1 else None) if first is not None else ("", None)
    return "", None


@checks("PLM601")
def environment_too_late(ctx: Context) -> None:
    if "environ" not in ctx.program.source.text and "putenv" not in ctx.program.source.text:
        return
    for trace in ctx.traces:
        for event in trace.events:
            key, _ = _key(event)
            if not _READ_AT_START.match(key):
                continue
            started = [e for e in trace.events[:event.index] if _starts_cuda(e) and always(e, event)]
            if key.startswith("NCCL_"):
                started = [e for e in trace.events[:event.index] if e.kind == "call" and e.attr == "init_process_group" and always(e, event)]
            elif key == "CUBLAS_WORKSPACE_CONFIG":
                started = [e for e in started if any(ctx.program.is_model_call(m) and e.index < m.index < event.index for m in trace.events)]
            if not started or any(e.kind == "call" and re.search(r"spawn|Popen|subprocess|Process|\.run$|system", e.name) for e in trace.after(event)):
                continue
            ctx.report("PLM601", event.stmt, f"{key} is read when CUDA starts, at line {started[0].node.lineno}; here it changes nothing",
                       evidence=[f"line {started[0].node.lineno}: {ctx.program.source.segment(started[0].call)[:60]}"], fix=["set it at the head of the file, or in the shell"])


@checks("PLM602")
def forked_after_cuda(ctx: Context) -> None:
    if ctx.mentions("spawn", "forkserver"):
        return
    for event in ctx.calls("Process", "Pool"):
        if not event.name.startswith(("multiprocessing", "torch.multiprocessing")):
            continue
        trace = ctx.trace(event)
        started = [e for e in trace.events[:event.index] if _starts_cuda(e) and always(e, event)]
        target = event.keyword("target")
        function = ctx.program.find(dotted(target), event.function) if target is not None else None
        if not started or function is None:
            continue
        inside = ctx.program.traces.get(function)
        if inside is not None and any(_starts_cuda(e) or e.kind == "call" and e.attr in ("cuda",) for e in inside.events):
            ctx.report("PLM602", event.node, "CUDA cannot be used in a forked child", evidence=[
                f"line {started[0].node.lineno} starts CUDA in the parent", f"{function.name}() uses it in the child"], fix=["multiprocessing.set_start_method('spawn') first"])


@checks("PLM604")
def changed_after_compile(ctx: Context) -> None:
    for event in ctx.calls("half", "to", "bfloat16", "requires_grad_"):
        if not event.receiver or event.of is None or event.of.kind not in values.MODULES:
            continue
        text = ast.unparse(event.node)
        if event.attr == "to" and not re.search(r"float16|dtype|\.half", text):
            continue
        binds = [e for e in ctx.trace(event).events[:event.index] if e.kind == "bind" and e.name == event.receiver]
        if binds and binds[-1].value is not None and binds[-1].value.of == "compile" and always(binds[-1], event):
            ctx.report("PLM604", event.node, "compiled twice", evidence=[f"line {binds[-1].node.lineno}: torch.compile()"])
