"""PLM3xx: precision."""
from __future__ import annotations

import ast
import re

from .. import values
from ..context import Context, checks, constant, in_place
from ..finding import Edit
from ..symbols import dotted
from ..trace import Event, Trace, apart, leads_to

_FP16 = re.compile(r"float16$|\.half$|^half$")
_FRAMEWORKS = ("accelerate", "lightning", "pytorch_lightning", "deepspeed", "colossalai", "apex", "fairscale", "ignite", "transformers.Trainer")


def _scaled(event: Event) -> str:
    """`scaler.scale(loss).backward()` -> the scaler's name."""
    func = event.call.func
    if event.attr == "backward" and isinstance(func, ast.Attribute) and isinstance(func.value, ast.Call):
        inner = func.value.func
        if isinstance(inner, ast.Attribute) and inner.attr == "scale":
            return dotted(inner.value)
    return ""


@checks("PLM301")
def backward_under_autocast(ctx: Context) -> None:
    for event in ctx.calls("backward"):
        if not ctx.program.is_backward(event) or event.autocast is None or event.no_grad:
            continue
        ctx.report("PLM301", event.node, "backward belongs outside autocast: its operations take the dtype of the forward pass by themselves",
                   evidence=[f"line {event.autocast.node.lineno}: the context"])


def _scaled_before(trace: Trace, event: Event) -> list[Event]:
    """Backward passes of a scaled loss that lead to this call, in its loop or in one that it is around."""
    return [e for e in trace.events if e.kind == "call" and leads_to(e, event) and _scaled(e) and (e.loop is event.loop or event.loop is not None and event.loop.around(e.loop))]


def _unscaled_before(trace: Trace, event: Event, scaled: Event) -> bool:
    """Are gradients unscaled before this call: by any name since the backward pass, by PyTorch's anywhere before?"""
    for e in trace.events[:event.index]:
        if e.kind == "call" and (e.attr == "unscale_" or e.attr in ("unscale", "unscale_gradients", "unscale_grads") and e.index > scaled.index and not apart(e.path, event.path)):
            return True
    return False


def _unscale_edit(ctx: Context, trace: Trace, event: Event, scaler: str) -> list[Edit | None]:
    """The line that unscales, if the file steps one optimizer with this scaler."""
    step = next((e for e in trace.after(event) if e.kind == "call" and e.attr == "step" and e.receiver == scaler and e.call.args), None)
    stepped = {ast.unparse(e.call.args[0]) for e in ctx.calls("step") if e.receiver == scaler and e.call.args}
    if step is None or len(stepped) != 1 or not in_place(event.stmt, event.call):
        return []
    return [ctx.program.source.line_before(event.stmt, f"{scaler}.unscale_({ast.unparse(step.call.args[0])})")]


@checks("PLM302")
def clipped_before_unscale(ctx: Context) -> None:
    for event in ctx.calls("clip_grad_norm_", "clip_grad_value_", "clip_grad_norm"):
        if not event.name.startswith("torch."):
            continue
        trace = ctx.trace(event)
        scaled = _scaled_before(trace, event)
        if not scaled or _unscaled_before(trace, event, scaled[0]):
            continue
        scaler = _scaled(scaled[-1])
        ctx.report("PLM302", event.node, "clips gradients that are still multiplied by the scale (65,536 at the start)",
                   edits=_unscale_edit(ctx, trace, event, scaler), safe=True,
                   evidence=[f"line {scaled[-1].node.lineno}: {scaler}.scale(...).backward(); no {scaler}.unscale_() between"])


def _stepped_scaled(ctx: Context, trace: Trace, calls: list[Event], scaled: list[Event]) -> None:
    """An optimizer that steps by itself behind a backward pass of a scaled loss."""
    if any(e.kind == "call" and e.attr == "unscale_" for e in trace.events):
        return
    for event in calls:
        if event.attr != "step" or event.of is None or event.of.kind != values.OPTIMIZER or not event.of.strong:
            continue
        back = [e for e in scaled if leads_to(e, event)]
        if back and not any(not _scaled(e) and ctx.program.is_backward(e) and leads_to(e, event) for e in calls):
            ctx.report("PLM304", event.node, f"steps with gradients that are still multiplied by the scale: {_scaled(back[-1])}.step({event.receiver}) divides them",
                       evidence=[f"line {back[-1].node.lineno}: {_scaled(back[-1])}.scale(...).backward()"])


@checks("PLM304")
def scaler_incomplete(ctx: Context) -> None:
    if not any(e.value is not None and e.value.kind == values.SCALER and e.name.startswith("torch.") for e in ctx.calls("GradScaler")) or any(
            e.of is not None and e.of.kind == values.SCALER for e in ctx.calls("step")):
        return
    for trace in ctx.traces:
        for loop in ctx.steps(trace):
            calls = [e for e in trace.inside(loop) if e.kind == "call"]
            scaled = [e for e in calls if _scaled(e)]
            if scaled:
                _stepped_scaled(ctx, trace, calls, scaled)


@checks("PLM305")
def fp16_without_scaler(ctx: Context) -> None:
    if ctx.mentions("GradScaler", "scaler", "Scaler") or ctx.program.symbols.imported(*_FRAMEWORKS) or bool(ctx.program.symbols.stars):
        return
    for trace in ctx.traces:
        for loop in ctx.steps(trace):
            if loop.framework:
                continue
            inside = trace.inside(loop)
            for event in inside:
                cast = event.autocast
                if cast is None or not ctx.program.is_model_call(event) or cast.cpu or event.no_grad or cast.enabled not in ("", "True"):
                    continue
                name = ctx.program.symbols.qualified(cast.node.func) if isinstance(cast.node, ast.Call) else ""
                default = not cast.dtype and name.startswith("torch.") and ("cuda" in name or constant(cast.node.args[0] if isinstance(cast.node, ast.Call) and cast.node.args else None) == "cuda")
                if (_FP16.search(cast.dtype) and "bf" not in cast.dtype or default) and any(ctx.program.is_backward(e) and e.index > event.index for e in inside):
                    ctx.report("PLM305", event.node, "small gradients become zero in fp16: there is no GradScaler",
                               evidence=[f"line {cast.node.lineno}: autocast to float16" + ("" if cast.dtype else ", the default on CUDA")])
                    break


@checks("PLM307")
def pure_half_training(ctx: Context) -> None:
    if ctx.program.symbols.imported("peft", "deepspeed", "accelerate", "colossalai", "apex") or ctx.mentions("requires_grad_(False)", "requires_grad = False", "FP16_Optimizer", "master"):
        return
    for event in ctx.calls("half", "to", "bfloat16"):
        if event.of is None or event.of.kind != values.MODULE or not event.of.strong or not event.receiver:
            continue
        text = ast.unparse(event.node)
        fp16, bf16 = event.attr == "half" or "torch.float16" in text or "torch.half" in text, "bfloat16" in text
        if not (fp16 or bf16) or not event.every(None) or event.loop is not None:
            continue
        optimizers = [e for name in ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad") for e in ctx.calls(name)
                      if e.value is not None and e.value.of == event.receiver and e.function is event.function and e.name.startswith("torch.")]
        undone = any(e.receiver == event.receiver and e.attr == "float" for e in ctx.calls("float"))
        if optimizers and not undone and any(ctx.program.is_step(e) for e in ctx.calls("step")):
            ctx.report("PLM307", event.node, "an update of 0.001 to a weight of 1.0 is lost in " + ("bfloat16" if bf16 else "float16"),
                       severity="info" if bf16 else "warning", evidence=[f"line {optimizers[0].node.lineno}: the optimizer holds these half-precision weights"])


@checks("PLM308")
def autocast_in_autocast(ctx: Context) -> None:
    for event in ctx.program.events():
        inner = event.autocast
        outer = inner.outer if inner is not None else None
        if inner is None or outer is None or event.kind != "call" or not inner.dtype or not outer.dtype or inner.cpu != outer.cpu:
            continue
        kinds = [d.rpartition(".")[2] for d in (outer.dtype, inner.dtype)]
        if sorted(kinds) == ["bfloat16", "float16"] and {inner.enabled, outer.enabled} <= {"", "True"}:
            ctx.report("PLM308", inner.node, f"{kinds[1]} inside an autocast of {kinds[0]}: what was cast there is cast again, and kept twice",
                       evidence=[f"line {outer.node.lineno}: the context around"])
