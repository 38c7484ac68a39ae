"""Where find_batch_size begins: what the planner says of a model of transformers, in the loop that is seen at its first step."""
from __future__ import annotations

from typing import Any

from .. import _torch
from ..errors import PlimsollError

OPTIMIZERS = {"Adam": "adamw", "AdamW": "adamw", "Adafactor": "adafactor"}  # by class; what is not here gets no seed


class Seen:
    """The batch of a model's first forward pass: its tokens, and how it was computed."""

    def __init__(self, model: Any, size: int) -> None:
        self.size, self.sequence, self.precision = size, 0, ""
        self.handle = model.register_forward_pre_hook(self.look, with_kwargs=True)

    def look(self, module: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        for value in (*arguments, *named.values()):
            shape: Any = getattr(value, "shape", ())
            if len(shape) == 2 and shape[0] == self.size and not value.is_floating_point():
                self.sequence = int(shape[1])
        torch = _torch.torch()
        first = next(module.parameters(), None)
        weights = str(getattr(first, "dtype", "")).removeprefix("torch.")
        autocast = (str(torch.get_autocast_dtype("cuda")).removeprefix("torch.")
                    if torch.is_autocast_enabled() else "")
        self.precision = {("float32", ""): "fp32", ("float32", "bfloat16"): "bf16-autocast", ("float32", "float16"): "fp16-autocast",
                          ("bfloat16", ""): "bf16-pure"}.get((weights, autocast), "")
        self.handle.remove()


def watch(model: Any, size: int) -> Seen | None:
    """Look at the first pass of a model that the planner may know; None: it does not."""
    if not hasattr(getattr(model, "config", None), "to_dict") or hasattr(model, "peft_config"):
        return None  # no model of transformers, or adapters, whose plan would need their rank
    return Seen(model, size)


def largest(seen: Seen, model: Any, optimizer: Any, limit_bytes: int) -> int | None:
    """The largest batch that the plan is sure of; None: it has no verdict.  Only where to begin: the search proves its answer."""
    from .. import verbs

    kind = OPTIMIZERS.get(type(optimizer).__name__) if optimizer is not None else "adamw"
    if kind is None or not seen.sequence or not seen.precision:
        return None
    try:
        plan = verbs.plan(model, sequence=seen.sequence, precision=seen.precision, optimizer=kind, max_batch=True,
                          checkpointing="full" if getattr(model, "is_gradient_checkpointing", False) else None,
                          memory=limit_bytes, allowance=0, progress=False)
    except PlimsollError as why:
        _torch.logger.info("find_batch_size begins without a plan: %s", why)
        return None
    return plan.max_batch

