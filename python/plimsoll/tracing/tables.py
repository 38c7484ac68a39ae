"""What operators take next to their results: inside of kernels and libraries, where no dispatch is seen.

A row is {operators, bytes, source}.  `bytes` gets the call and the GPU, and gives the requests that live for the call,
in order.  Constants were measured on an H100 with PyTorch 2.11 (docs/evidence/accuracy.md), the rest read in the source named.
"""
from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Callable, Sequence

__all__ = ["Card", "CARDS", "Call", "Row", "ROWS", "card_of", "inside"]

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Card:
    """What of a GPU decides bytes (the planner's src/planner/plan/device.c has the same rows)."""

    capability: tuple[int, int]
    blas_bytes: int
    lt_bytes: int
    cudnn_attention: bool
    flash_attention: bool
    multiprocessors: int


SMALL = 2 * (4096 << 10) + 8 * (16 << 10)  # ":4096:2:16:8", CUDA's CublasHandlePool.cpp
CARDS: dict[int, Card] = {
    60: Card((6, 0), SMALL, MIB, False, False, 56),
    75: Card((7, 5), SMALL, MIB, False, False, 40),
    80: Card((8, 0), SMALL, MIB, False, True, 108),
    86: Card((8, 6), SMALL, MIB, False, True, 84),
    90: Card((9, 0), 32 * MIB, MIB, True, True, 132),
    100: Card((10, 0), 32 * MIB, MIB, True, True, 148),
    120: Card((12, 0), 32 * MIB, MIB, False, True, 170),
}


def card_of(capability: int) -> Card:
    """The newest generation that is not newer; 0 or less: an H100."""
    known = [c for c in sorted(CARDS) if c <= capability] if capability > 0 else [90]
    return CARDS[known[-1] if known else min(CARDS)]


# The generation in a GPU's name, the first that fits; what is of no row is taken for an H100.
NAMES: tuple[tuple[str, int], ...] = (
    (r"h100|h200|gh200|h20\b|h800", 90), (r"[gb]b?200|b300", 100), (r"rtx ?50|50[5-9]0|pro 6000", 120),
    (r"a100|a30\b|a800", 80), (r"v100|p100|titan v", 60), (r"\bt4\b|rtx ?20|20[6-8]0|quadro rtx", 75),
    (r"30[5-9]0|40[5-9]0|a10|a40|a[2456]000|l4|l40|ada", 86),
)


def capability_of(name: str) -> int:
    """Of a GPU as people name it."""
    return next((c for pattern, c in NAMES if re.search(pattern, name.lower())), 90)


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an operator: its name without overload, arguments and result."""

    name: str
    args: Sequence[Any]
    kwargs: dict[str, Any]
    result: Any


def _up(n: int, to: int) -> int:
    return -(-n // to) * to


def _shape(x: Any) -> tuple[int, ...]:
    return tuple(int(n) for n in x.shape)


def _count(x: Any) -> int:
    n = 1
    for size in _shape(x):
        n *= size
    return n


def _sdpa_backward(call: Call, card: Card) -> list[int]:
    """fp32 accumulators of the gradient of q, keys and values spread to all heads, row sums."""
    q, k = call.args[1], call.args[2]
    batch, heads, rows, dim = _shape(q)
    if "cudnn" in call.name:
        wide = dim
    else:
        rows, wide = _up(rows, 128), _up(dim, 64 if dim > 128 else 32)
    spread = 0 if _shape(k)[1] == heads else 2 * batch * heads * _shape(k)[2] * dim * q.element_size()
    return [batch * heads * rows * wide * 4 + spread + batch * heads * rows * 4 + 256]


def _efficient_backward(call: Call, card: Card) -> list[int]:
    q = call.args[1]
    batch, heads, rows, dim = _shape(q)
    rows = _up(rows, 128)
    wide = 0 if q.element_size() == 4 else batch * heads * rows * _up(dim, 32) * 4
    return [batch * heads * rows * 4 + wide]


EMBEDDING_SORTS = 3072  # embedding_dense_backward_cuda sorts more indices than that


def _embedding_backward(call: Call, card: Card) -> list[int]:
    """Four sorted lists of indices, and partial sums of segments in fp32."""
    ids, rows = _count(call.args[1]), int(call.args[2])
    if ids <= EMBEDDING_SORTS:
        return []
    width = _shape(call.args[0])[-1]
    return [ids * 8] * 4 + [(ids // 10 + min(ids, rows)) * width * 4]


def _bag_backward(call: Call, card: Card) -> list[int]:
    """The same of bags that are summed or averaged: the gradient in one piece, three lists of indices, two of rows."""
    grad, ids, rows, mode = call.args[0], _count(call.args[1]), int(call.args[6]), call.args[8]
    if mode > 1:
        return []
    whole = 0 if grad.is_contiguous() else _count(grad) * grad.element_size()
    return [whole, *[ids * 8] * 3, *[rows * 8] * 2, (ids // 10 + min(ids, rows)) * _shape(grad)[-1] * 4]


def _foreach_norm(call: Call, card: Card) -> list[int]:
    """Partial norms: a number for each chunk of 65,536 elements of the largest tensor, for each tensor."""
    tensors = call.args[0]
    largest = max((_count(t) for t in tensors), default=0)
    return [-(-largest // 65536) * len(tensors) * 4]


def _sort(call: Call, card: Card) -> list[int]:
    """Values and indices of a segmented radix sort, twice (double buffers of CUB)."""
    n = _count(call.args[0])
    return [n * (call.args[0].element_size() + 8)] * 2


RADIX_DIGITS, BLOCK_THREADS = 256, 256  # SortingRadixSelect.cuh, TensorTopK.cu
# Slices (the last of these that are no more) and how long each is at least for several blocks to share it.
SHARED = ((20, 20000), (40, 10000), (80, 8000), (199, 5000), (799, 3000), (4000, 800), (1 << 62, 400))
SORTED_SLICES, SORTED_LEAST = 10, 100_000


def _topk(call: Call, card: Card) -> list[int]:
    """Sorted whole where few slices are long; counts of digits where blocks share a slice; else nothing."""
    x = call.args[0]
    at = int(call.args[2]) if len(call.args) > 2 else int(call.kwargs.get("dim", -1))
    length = _shape(x)[at] if _shape(x) else 1
    slices = _count(x) // max(length, 1)
    if slices <= SORTED_SLICES and length >= SORTED_LEAST:
        return _sort(call, card)
    if length < next(least for most, least in SHARED if slices <= most):
        return []
    blocks_at_once = card.multiprocessors * (65536 // (40 * BLOCK_THREADS))
    items = min(max(-(-_count(x) // (blocks_at_once * BLOCK_THREADS)), 4), 64)
    blocks = slices * -(-length // (items * BLOCK_THREADS))
    whole = 0 if x.is_contiguous() else _count(x) * x.element_size()
    return [whole, 2 * slices * 4, 2 * slices * x.element_size(), blocks * RADIX_DIGITS * 2, slices * RADIX_DIGITS * 4, blocks * 4, blocks * 4]


def _scatter(call: Call, card: Card) -> list[int]:
    return [_count(call.args[0]) * 9]


def _multinomial(call: Call, card: Card) -> list[int]:
    return [_count(call.args[0]) * call.args[0].element_size()]


def _converted(call: Call, card: Card) -> list[int]:
    """What is summed in another dtype is converted first, except for halves that are summed in fp32 (make_reduction)."""
    x, out = call.args[0], call.result.dtype
    if out == x.dtype or x.element_size() == 2 and out.is_floating_point and call.result.element_size() == 4 and x.dtype.is_floating_point:
        return []
    return [_count(x) * call.result.element_size()]


def _sum(call: Call, card: Card) -> list[int]:
    return _converted(call, card) + _sum_rows(call, card)


def _sum_rows(call: Call, card: Card) -> list[int]:
    """The staging buffer of a sum over the rows of a matrix: Reduce.cuh's setReduceConfig (src/planner/plan/step/reduce.c)."""
    x = call.args[0]
    shape, dims = _shape(x), call.args[1] if len(call.args) > 1 else None
    if not isinstance(dims, (list, tuple)) or not shape or not x.is_contiguous():
        return []
    summed = {int(d) % len(shape) for d in dims}
    if summed != set(range(len(summed))) or len(summed) == len(shape):
        return []  # not the leading dimensions alone
    rows = outputs = 1
    for i, n in enumerate(shape):
        rows, outputs = (rows * n, outputs) if i in summed else (rows, outputs * n)
    n = reduce_bytes(rows, outputs, card)
    return [n] if n else []


def _power(n: int) -> int:
    return 1 << (max(n, 1).bit_length() - 1)


def reduce_bytes(rows: int, outputs: int, card: Card) -> int:
    """As plan_reduce_bytes of the planner, which was measured."""
    vector = 4 if outputs % 4 == 0 else 2 if outputs % 2 == 0 else 1
    threads = 512 // vector
    across, down = _power(min(outputs // vector or 1, threads)), _power(min(rows or 1, threads))
    width = min(across, 32)
    height = min(down, threads // width)
    width = min(across, threads // height)
    if rows < height * 16 and rows < 256:
        return 0
    grid, values = -(-(outputs // vector) // width), -(-rows // height)
    target = card.multiprocessors * ((1536 if card.capability in ((8, 6), (12, 0)) else 2048) // (width * height))
    if values < 256 or grid > target:
        return 0
    blocks = max(min(-(-target // grid), -(-values // 16)), -(-values // 256))
    return 4 * outputs * blocks * width * vector if blocks > 1 else 0


def _whole(*tensors: Any) -> list[int]:
    """Copies in one piece of those that are not, for kernels that know no strides."""
    return [_count(t) * int(t.element_size()) for t in tensors if not t.is_contiguous()]


def _softmax(call: Call, card: Card) -> list[int]:
    return _whole(call.args[0])


def _log_softmax_backward(call: Call, card: Card) -> list[int]:
    return _whole(*call.args[:2])


def _softmax_backward(call: Call, card: Card) -> list[int]:
    """The gradient times the result."""
    return [_count(call.args[0]) * call.args[0].element_size()]


def _spread(t: Any, *channels: int) -> int:
    """Bytes of a tensor with its channels (dimension 1; of a weight 0 and 1) in whole vectors."""
    to, n = 4 if t.element_size() == 4 else 8, int(t.element_size())
    for i, size in enumerate(_shape(t)):
        n *= _up(size, to) if i in (channels or (1,)) else size
    return n


def _is_last(t: Any) -> bool:
    return not t.is_contiguous() and t.dim() in (4, 5) and t.is_contiguous(memory_format=_format(t.dim()))


def _format(dims: int) -> Any:
    import torch
    return torch.channels_last if dims == 4 else torch.channels_last_3d


def _convolved(call: Call, at: int) -> tuple[Any, Any, Any, int]:
    """Input, weight, result or its gradient, groups."""
    groups = call.kwargs.get("groups", call.args[8 + at] if len(call.args) > 8 + at else 1)
    return call.args[at], call.args[at + 1], call.args[0] if at else call.result, int(groups)


def _convolution(call: Call, card: Card) -> list[int]:
    """cuDNN's kernels want channels last: what is not so is copied, with the result and the weight."""
    x, weight, out, groups = _convolved(call, 0)
    if groups > 1 or x.dim() < 3 or _is_last(x) or _is_last(weight) or max(_shape(weight)[2:]) == 1:
        return []
    return [_spread(x) + _spread(out) + _spread(weight, 0, 1)]


def _convolution_backward(call: Call, card: Card) -> list[int]:
    """The same for the gradients of the input and then of the weight, which is summed up in parts."""
    x, weight, out, groups = _convolved(call, 1)
    if groups > 1 or x.dim() < 3 or _is_last(x) or _is_last(weight) or max(_shape(weight)[2:]) == 1:
        return []
    whole, parts = _spread(x) + _spread(out) + _spread(weight, 0, 1), max(2 * _spread(weight, 0, 1), PARTIAL)
    return [whole, whole + parts]


PARTIAL = 4 * MIB
PARTIAL_SUMS, PARTIAL_LEAST = 24, 10 * MIB  # of the weight's gradient: up to 21 were measured


def convolution_most(call: Call, card: Card) -> int:
    """What cuDNN may take next to a convolution, in its backward pass, more than the table says."""
    x, weight, out, groups = _convolved(call, 0)
    if groups > 1 and groups == _shape(x)[1] or x.dim() < 3:
        return 0  # PyTorch's own kernels
    most = _spread(x) + _spread(out) + max(PARTIAL_SUMS * _spread(weight, 0, 1), PARTIAL_LEAST)
    return most - sum(_convolution(call, card))


@dataclass(frozen=True, slots=True)
class Row:
    operators: tuple[str, ...]
    bytes: Callable[[Call, Card], list[int]]
    source: str
    apart: bool = False  # one after the other, not all at once


ROWS: tuple[Row, ...] = (
    Row(("_scaled_dot_product_cudnn_attention_backward", "_scaled_dot_product_flash_attention_backward"),
        _sdpa_backward, "measured, H100, PyTorch 2.11: fp32 accumulator of dq, expanded dk and dv, row sums; rows as they are in "
                        "cuDNN (22 models with others than multiples of 128), in blocks of 128 in FlashAttention (read)"),
    Row(("convolution",), _convolution, "measured, H100, cuDNN 9.19: 51 convolutions of 1 to 3 dimensions (tests/data/convolutions.json)"),
    Row(("convolution_backward",), _convolution_backward, "the same; of the weight's gradient up to 21 partial sums more, which are in the range", apart=True),
    Row(("_softmax_backward_data",), _softmax_backward, "measured, H100, PyTorch 2.11 (8 models); SoftMax.cu, softmax_backward_cuda_out"),
    Row(("_softmax", "_log_softmax"), _softmax, "read: SoftMax.cu, host_softmax; logits without their last row (measured, H200, PyTorch 2.11)"),
    Row(("_log_softmax_backward_data",), _log_softmax_backward, "read: SoftMax.cu, host_softmax_backward"),
    Row(("_scaled_dot_product_efficient_attention_backward",), _efficient_backward, "measured, H100, PyTorch 2.11"),
    Row(("embedding_dense_backward",), _embedding_backward, "measured, H100: nothing up to 3,072 indices (29 models), padded or not; "
                                                             "EmbeddingBackwardKernel.cu"),
    Row(("_embedding_bag_backward",), _bag_backward, "measured, H100, PyTorch 2.11 (12 tables of 131,072 indices); EmbeddingBag.cu"),
    Row(("_foreach_norm",), _foreach_norm, "measured, H100; ForeachReduceOp.cu"),
    Row(("sum", "mean"), _sum, "measured, H100; Reduce.cuh, setReduceConfig; a mask that is summed (2 of PyTorch 2.11), ReduceOpsUtils.h"),
    Row(("prod", "cumsum", "cumprod"), _converted, "read: ReduceOpsUtils.h, make_reduction; ReduceOps.cpp, impl_func_cum_ops; not measured"),
    Row(("masked_scatter",), _scatter, "measured, H100: a mask of each element and sums along it"),
    Row(("sort", "argsort"), _sort, "read: Sort.cu, segmented sort of CUB; not measured"),
    Row(("topk",), _topk, "measured, H100, PyTorch 2.11: 16,384 slices of 1,024 and 4,096 of 256; TensorTopK.cu"),
    Row(("multinomial",), _multinomial, "read: MultinomialKernel.cu; not measured"),
)
BY_NAME: dict[str, Row] = {name: row for row in ROWS for name in row.operators}


def inside(call: Call, card: Card) -> list[list[int]]:
    """Requests that live while the operator runs: lists of those that live at once."""
    row = BY_NAME.get(call.name)
    sizes = [n for n in row.bytes(call, card) if n > 0] if row else []
    return [[n] for n in sizes] if row and row.apart else [sizes] if sizes else []
