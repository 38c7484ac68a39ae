"""One kernel on the GPU where the CPU has several operations: RMSNorm, as CUDA has it from 2.9 on.

`rms_norm` asks for `_fused_rms_norm`, which has a kernel and a derivative for CUDA alone, and is taken apart for the
CPU: each part would be a request that the GPU never gets.  Here the CPU's key has the whole, and its backward.
"""
from __future__ import annotations

from typing import Any, Callable, Sequence

import torch

__all__ = ["RULES", "register"]

_ATEN: Any = torch.ops.aten
# with the derivative came the kernel; releases before 2.9 take it apart on CUDA too
_FORWARD: Any = getattr(getattr(_ATEN, "_fused_rms_norm", None), "default", None)
_BACKWARD: Any = getattr(getattr(_ATEN, "_fused_rms_norm_backward", None), "default", None)

Tensors = tuple["torch.Tensor | None", ...]


def _statistics_dtype(x: torch.Tensor) -> torch.dtype:
    return torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype


def _forward(x: torch.Tensor, shape: Sequence[int], weight: torch.Tensor | None, eps: float | None) -> Tensors:
    """The result, and one number a row."""
    outer = x.dim() - len(shape)
    rows = torch.empty([*x.shape[:outer], *[1] * len(shape)], dtype=_statistics_dtype(x))
    return torch.empty_like(x, memory_format=torch.contiguous_format), rows


def _backward(grad: torch.Tensor, x: torch.Tensor, shape: Sequence[int], rstd: torch.Tensor, weight: torch.Tensor | None,
              mask: Sequence[bool]) -> Tensors:
    return (torch.empty_like(x, memory_format=torch.contiguous_format) if mask[0] else None,
            torch.empty_like(weight, memory_format=torch.contiguous_format) if mask[1] and weight is not None else None)


def _bag(weight: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor, scale: bool = False, mode: int = 0, sparse: bool = False,
         per_sample: torch.Tensor | None = None, include_last: bool = False, padding: int = -1) -> Tensors:
    """EmbeddingBag.cu: the bag of each index is kept, which the CPU's fast path leaves out."""
    out = weight.new_empty((offsets.shape[0] - include_last, weight.shape[1]))
    return out, indices.new_empty(indices.shape), indices.new_empty(offsets.shape), indices.new_empty(out.shape if mode == 2 else (0,))


# What the operations give: the fake mode's own rules are of the parts.
RULES: dict[Any, Callable[..., Any]] = {_FORWARD: _forward, _BACKWARD: _backward} if _FORWARD and _BACKWARD else {}
RULES |= {_ATEN._embedding_bag.default: _bag, _ATEN._embedding_bag_forward_only.default: _bag}


class _RmsNorm(torch.autograd.Function):  # type: ignore[misc]
    """CUDA's derivative keeps the input, the weight and a number per row."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor | None, shape: Sequence[int], eps: float | None) -> Any:
        with torch.enable_grad(), torch._C._AutoDispatchBelowAutograd():  # as a node in C++ has it
            out, rstd = _FORWARD(x, shape, weight, eps)
        ctx.shape = shape
        ctx.save_for_backward(x, weight, rstd)
        ctx.mark_non_differentiable(rstd)
        ctx.set_materialize_grads(False)
        return out, rstd

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        x, weight, rstd = ctx.saved_tensors
        if grads[0] is None:
            return None, None, None, None
        mask = [ctx.needs_input_grad[0], weight is not None and ctx.needs_input_grad[1]]
        with torch._C._AutoDispatchBelowAutograd():
            dx, dw = _BACKWARD(grads[0], x, ctx.shape, rstd, weight, mask)
        return dx, dw, None, None


def _whole(x: torch.Tensor, shape: Sequence[int], weight: torch.Tensor | None = None, eps: float | None = None) -> Any:
    return _RmsNorm.apply(x, weight, tuple(shape), eps)


def register(library: Any) -> None:
    """For as long as the library lasts."""
    if _FORWARD in RULES:
        library.impl("_fused_rms_norm", _whole, "AutogradCPU", allow_override=True)
