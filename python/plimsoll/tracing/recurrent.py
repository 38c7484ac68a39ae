"""Recurrent layers as cuDNN has them: all layers and both directions in one call, with what it keeps for the backward pass.

The CPU takes them apart, by layer or by time step.  Here its key has the whole (ATen/native/cudnn/RNN.cpp) for what was
measured: RNN, LSTM and GRU without projections, of whole batches (docs/trace.md); packed sequences stay as they were.
"""
from __future__ import annotations

from typing import Any, Callable, Sequence

import torch

__all__ = ["RULES", "register", "reserve_bytes"]

_ATEN: Any = torch.ops.aten
_FORWARD: Any = getattr(getattr(_ATEN, "_cudnn_rnn", None), "default", None)
_BACKWARD: Any = getattr(getattr(_ATEN, "_cudnn_rnn_backward", None), "default", None)
MODES = {"rnn_relu": 0, "rnn_tanh": 1, "lstm": 2, "gru": 3}  # cudnnRNNMode_t
KEPT = {0: 1, 1: 1, 2: 5, 3: 6}  # elements of each step of each layer
HALF = (torch.float16, torch.bfloat16)


def reserve_bytes(mode: int, steps: int, hidden: int, layers: int, directions: int, drops: bool, size: int) -> int:
    """
    What cuDNN keeps from a forward pass of `steps` (time x batch): of each layer its gates, between layers what goes on and
    a bit for each element that may be dropped.  Exact in 72 measured cases (tests/data/cudnn_rnn.json).
    """
    n = steps * hidden * directions
    dropped = -(-n * directions * (layers - 1) // 8) if drops else 0
    return -(-(n * (KEPT[mode] * layers + layers - 1) * size + dropped + 256) // 64) * 64


def _forward(x: torch.Tensor, weight: Sequence[torch.Tensor], stride: int, buffer: Any, hx: torch.Tensor, cx: Any, mode: int,
             hidden: int, projection: int, layers: int, batch_first: bool, dropout: float, train: bool, bidirectional: bool,
             sizes: Any, state: Any) -> tuple[torch.Tensor, ...]:
    """Output, last states, what is kept, and in 16 bits the weights in one piece."""
    ways = 2 if bidirectional else 1
    time, batch = (x.shape[1], x.shape[0]) if batch_first else (x.shape[0], x.shape[1])
    out = torch.empty((time, batch, hidden * ways), dtype=x.dtype)
    kept = reserve_bytes(mode, time * batch, hidden, layers, ways, dropout > 0, x.element_size()) if train else 0
    whole = sum(w.numel() for w in weight) if x.dtype in HALF else 0
    return (out.transpose(0, 1) if batch_first else out, torch.empty_like(hx), torch.empty_like(cx if cx is not None else x.new_empty(0)),
            torch.empty(kept, dtype=torch.uint8), torch.empty(whole, dtype=x.dtype))


def _backward(x: torch.Tensor, weight: Sequence[torch.Tensor], stride: int, buffer: Any, hx: torch.Tensor, cx: Any, output: Any,
              *_: Any) -> tuple[Any, ...]:
    """Gradients; those of the weights are views of one piece."""
    flat = torch.empty(sum(w.numel() for w in weight), dtype=x.dtype)
    parts = [part.view(w.shape) for part, w in zip(flat.split([w.numel() for w in weight]), weight)]
    return torch.empty_like(x), torch.empty_like(hx), torch.empty_like(cx if cx is not None else x.new_empty(0)), parts


RULES: dict[Any, Callable[..., Any]] = {_FORWARD: _forward, _BACKWARD: _backward} if _FORWARD and _BACKWARD else {}


class _Recurrent(torch.autograd.Function):  # type: ignore[misc]
    """CUDA's derivative keeps the input, the weights, the first states, the output, and cuDNN's own."""

    @staticmethod
    def forward(ctx: Any, how: tuple[Any, ...], x: torch.Tensor, hx: torch.Tensor, cx: Any, *weight: torch.Tensor) -> Any:
        mode, layers, batch_first, dropout, train, bidirectional = how
        ctx.rest = (mode, hx.shape[2], 0, layers, batch_first, dropout, train, bidirectional, [], None)
        ctx.stride = len(weight) // (layers * (2 if bidirectional else 1))
        with torch._C._AutoDispatchBelowAutograd():
            out, hy, cy, kept, whole = _FORWARD(x, list(weight), ctx.stride, None, hx, cx, *ctx.rest)
        ctx.save_for_backward(x, hx, cx, out, kept, whole, *weight)
        return (out, hy, cy) if cx is not None else (out, hy)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        x, hx, cx, out, kept, whole, *weight = ctx.saved_tensors
        with torch._C._AutoDispatchBelowAutograd():
            dx, dh, dc, dw = _BACKWARD(x, weight, ctx.stride, whole, hx, cx, out, grads[0], grads[1],
                                       grads[2] if cx is not None else None, *ctx.rest, kept, [True] * 4)
            found = [g if g.dtype is w.dtype else g.to(w.dtype) for g, w in zip(dw, weight)]
        needs = ctx.needs_input_grad
        return None, dx if needs[1] else None, dh if needs[2] else None, dc if cx is not None and needs[3] else None, *found


def _kernel(name: str, plain: Any) -> Callable[..., Any]:
    def run(x: torch.Tensor, states: Any, weight: Sequence[torch.Tensor], biases: bool, layers: int, dropout: float, train: bool,
            bidirectional: bool, batch_first: bool) -> Any:
        hx, cx = states if isinstance(states, (list, tuple)) else (states, None)
        projects = cx is not None and hx.shape[2] != cx.shape[2]
        if projects or x.dim() != 3 or x.dtype is torch.float64:
            return plain.decompose(x, states, weight, biases, layers, dropout, train, bidirectional, batch_first)
        if torch.is_autocast_enabled("cpu"):  # AutocastRNN.cpp: float16 whatever autocast's dtype is; the weights are made whole in it
            x = x.to(torch.float16)
            hx, cx = (t.to(torch.float16) if t is not None else t for t in (hx, cx))
        return _Recurrent.apply((MODES[name], layers, batch_first, dropout if layers > 1 else 0.0, train, bidirectional), x, hx, cx, *weight)
    return run


def register(library: Any) -> None:
    """For as long as the library lasts."""
    for name in MODES if RULES else ():
        library.impl(f"{name}.input", _kernel(name, getattr(_ATEN, name).input), "AutogradCPU", allow_override=True)
