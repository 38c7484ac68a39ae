"""Recurrent layers as cuDNN has them: all layers and both directions in one call, with what it keeps for the backward pass.

The CPU takes them apart, by layer or by time step.  Here its key has the whole (ATen/native/cudnn/RNN.cpp): RNN, LSTM with
and without projections, GRU, of whole batches and of packed sequences, whose rows are the sum of their lengths.
"""
from __future__ import annotations

import math
from typing import Any, Callable, Sequence

import torch

__all__ = ["RULES", "register", "reserve_bytes"]

_ATEN: Any = torch.ops.aten
_FORWARD: Any = getattr(getattr(_ATEN, "_cudnn_rnn", None), "default", None)
_BACKWARD: Any = getattr(getattr(_ATEN, "_cudnn_rnn_backward", None), "default", None)
MODES = {"rnn_relu": 0, "rnn_tanh": 1, "lstm": 2, "gru": 3}  # cudnnRNNMode_t
KEPT = {0: 1, 1: 1, 2: 5, 3: 6}  # elements of each step of each layer
HALF = (torch.float16, torch.bfloat16)


def reserve_bytes(mode: int, steps: int, hidden: int, layers: int, directions: int, drops: bool, size: int, projection: int = 0,
                  padded: int = 0) -> int:
    """
    What cuDNN keeps from a forward pass of `steps` (time x batch, or the rows of a packed sequence): of each layer its gates,
    and with a projection states of both sizes; between layers what goes on and a bit for each element that may be dropped (of
    a packed sequence, of all `padded` rows).  Exact in 72 measured cases, 26 under autocast (tests/data/cudnn_rnn*.json), 9 with projections, 12 of packed sequences.
    """
    n = steps * directions
    layer = KEPT[mode] * hidden + (hidden + projection if projection else 0)
    dropped = -(-(padded or steps) * directions * (projection or hidden) * directions * (layers - 1) // 8) if drops else 0
    return -(-(n * (layer * layers + hidden * (layers - 1)) * size + dropped + 256) // 64) * 64


def _forward(x: torch.Tensor, weight: Sequence[torch.Tensor], stride: int, buffer: Any, hx: torch.Tensor, cx: Any, mode: int,
             hidden: int, projection: int, layers: int, batch_first: bool, dropout: float, train: bool, bidirectional: bool,
             sizes: Any, state: Any) -> tuple[torch.Tensor, ...]:
    """Output, last states, what is kept, and in 16 bits the weights in one piece."""
    ways = 2 if bidirectional else 1
    outer = x.shape[:-1] if not batch_first else (x.shape[1], x.shape[0])
    out = torch.empty((*outer, (projection or hidden) * ways), dtype=x.dtype)
    kept = reserve_bytes(mode, math.prod(outer), hidden, layers, ways, dropout > 0, x.element_size(), projection, sum(sizes)) if train else 0
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
        mode, layers, batch_first, dropout, train, bidirectional, sizes = how
        hidden = cx.shape[2] if cx is not None else hx.shape[2]
        ctx.rest = (mode, hidden, hx.shape[2] if hx.shape[2] != hidden else 0, layers, batch_first, dropout, train, bidirectional, sizes, None)
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


def _kernel(name: str, plain: Any, packed: bool) -> Callable[..., Any]:
    def run(x: torch.Tensor, *args: Any) -> Any:
        states, weight, _, layers, dropout, train, bidirectional, *rest = args[1:] if packed else args
        hx, cx = states if isinstance(states, (list, tuple)) else (states, None)
        if x.dim() != (2 if packed else 3) or x.dtype is torch.float64:
            return plain.decompose(x, *args)
        if torch.is_autocast_enabled("cpu"):  # AutocastRNN.cpp: float16 whatever autocast's dtype is; the weights are made whole in it
            x = x.to(torch.float16)
            hx, cx = hx.to(torch.float16), cx.to(torch.float16) if cx is not None else None
        sizes = [hx.shape[1]] * args[0].shape[0] if packed else []
        return _Recurrent.apply((MODES[name], layers, bool(rest and rest[0]), dropout if layers > 1 else 0.0, train, bidirectional, sizes), x, hx, cx, *weight)
    return run


def register(library: Any) -> None:
    """For as long as the library lasts."""
    for name in MODES if RULES else ():
        for overload in ("input", "data"):  # whole, packed
            library.impl(f"{name}.{overload}", _kernel(name, getattr(getattr(_ATEN, name), overload), overload == "data"), "AutogradCPU", allow_override=True)


# ---- packed sequences ----

def pack(lengths: torch.Tensor | None, x: torch.Tensor, batch_first: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """
    PackedSequence.cpp: rows are copied where a sequence ends, and joined.  Lengths that no one knows are all of them;
    gives also how many sequences there are at each step, on the host.
    """
    time, batch = (x.shape[1], x.shape[0]) if batch_first else (x.shape[0], x.shape[1])
    known = [time] * batch if lengths is None else [int(n) for n in lengths.tolist()]
    at = torch.tensor([sum(n > t for n in known) for t in range(max(known))])
    rows = x.transpose(0, 1) if batch_first else x
    data = torch.cat([rows.reshape(time * batch, *x.shape[2:]).narrow(0, 0, sum(known)).clone()])
    return data, at


def pad(data: torch.Tensor, time: int, batch: int, batch_first: bool, value: float) -> torch.Tensor:
    out = torch.nn.functional.pad(data, [0, 0] * (data.dim() - 1) + [0, time * batch - data.shape[0]], value=value)
    out = out.view(time, batch, *data.shape[1:])
    return out.transpose(0, 1) if batch_first else out
