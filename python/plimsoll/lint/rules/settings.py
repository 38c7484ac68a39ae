"""PLM6xx: settings that come too late."""
from __future__ import annotations

import ast
import re

from .. import values
from ..context import Context, checks, constant
from ..symbols import dotted
from ..trace import Event, always

_READ_AT_START = re.compile(r"^(PYTORCH_(CUDA_|HIP_)?ALLOC_CONF|CUDA_VISIBLE_DEVICES|CUDA_LAUNCH_BLOCKING)$")
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


@checks("PLM601")
def environment_too_late(ctx: Context) -> None:
    for trace in ctx.traces:
        for event in trace.events:
            key = str(constant(event.target.slice)) if event.kind == "store" and event.name == "os.environ" and isinstance(event.target, ast.Subscript) else ""
            if not _READ_AT_START.match(key):
                continue
            started = [e for e in trace.events[:event.index] if _starts_cuda(e) and always(e, event)]
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
