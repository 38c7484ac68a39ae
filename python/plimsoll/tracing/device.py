"""Stands in for the GPU: "cuda" is reported to be there, its tensors are fake ones of the CPU that are marked.

Fake tensors of device "cuda" run forward without a GPU, but the autograd engine then asks the driver for a stream (in
CPU-only builds there is none at all), so they cannot be used.  What PyTorch decides by device is decided here as it
would be on the GPU: the kernel of scaled_dot_product_attention, dropout's masks, autocast's lists, the optimizers'
foreach.  All of it is undone when the block ends; a trace belongs in a process of its own where others use PyTorch.
"""
from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import inspect
import os
import re
import sys
import types
import warnings
from typing import Any, Callable, Iterator

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils.weak import WeakIdKeyDictionary

from . import fused, ranks, recurrent
from .compiled import Compiler
from .engine import DispatchMode, Gate, Recorder

GPU = torch.device("cuda", 0)
CPU = torch.device("cpu")


def _is_cuda(device: Any) -> bool:
    if isinstance(device, torch.device):
        return bool(device.type == "cuda")
    if isinstance(device, int) and not isinstance(device, bool):
        return True
    return isinstance(device, str) and device.startswith("cuda")


# ---- scaled_dot_product_attention ----

def _autocast_dtype() -> torch.dtype | None:
    return torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None


def _shares_heads(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> bool:
    return not q.shape[1] == k.shape[1] == v.shape[1]


def _only_math(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: Any, shares: bool) -> bool:
    """Does no fused kernel take these shapes and strides?"""
    if q.dim() != 4 or not q.numel() or k.shape[0] != q.shape[0] or v.shape[0] != q.shape[0]:
        return True
    if _shares_heads(q, k, v) and not shares:
        return True  # heads that are broadcast
    # every other kernel wants rows whole: T5's relative positions are not, nor heads that were channels
    return any(t is not None and t.stride(-1) != 1 and t.shape[-1] != 1 for t in (q, k, v, mask))


def attention_kernel(r: Recorder, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: Any, dropout: float,
                     causal: bool, shares: bool = False) -> str:
    """"cudnn", "flash", "efficient" or "math", in the order of sdp_utils.cpp for the GPU.  `shares`: enable_gqa."""
    half = q.dtype in (torch.float16, torch.bfloat16)
    same = q.shape[-1] == v.shape[-1]
    card = r.card
    if _only_math(q, k, v, mask, shares):
        return "math"
    shared = _shares_heads(q, k, v)
    if mask is not None and mask.requires_grad and torch.is_grad_enabled():
        return "math" if shared else "efficient"  # a bias that is learned: only one kernel gives its gradient
    if card.cudnn_attention and half and q.shape[-1] % 8 == 0 and q.shape[-1] <= 128 and v.shape[-1] <= 128:
        return "cudnn"
    if card.flash_attention and half and mask is None and same and q.shape[-1] <= 256:
        return "flash"
    rows = 8 if half else 4 if card.capability >= (8, 0) else 1  # minimum_gemm_alignment
    if not shared and (half or q.dtype is torch.float32) and q.shape[-1] % rows == v.shape[-1] % rows == 0:
        return "efficient"
    return "math"


def _flash(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, dropout: float, causal: bool, scale: float | None) -> Any:
    """Heads of whole eights: others are padded, and what was added is cut off (pad_last_dim)."""
    size = q.shape[-1]
    scale = size ** -0.5 if scale is None else scale
    q, k, v = (torch.nn.functional.pad(t, (0, -size % 8)) if size % 8 else t for t in (q, k, v))
    return torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, dropout, causal, False, scale=scale)[0][..., :size]


def _padded(bias: torch.Tensor) -> torch.Tensor:
    """Rows of eight elements, as the memory-efficient kernel wants them (preprocess_mask)."""
    if all(stride % 8 == 0 for stride in bias.stride()[:-1]):
        return bias
    n = bias.shape[-1]
    return torch.nn.functional.pad(bias, (0, -n % 8 or 8))[..., :n]


def _math(r: Recorder, q: Any, k: Any, v: Any, mask: Any, dropout_p: float, causal: bool, scale: Any, gqa: bool) -> Any:
    before = r.gate.to_gpu, r.gate.adds
    r.gate.to_gpu = r.gate.adds = True
    try:  # autocast is over once the call is made: its products of fp32 stay so
        with torch._C._ExcludeDispatchKeyGuard(AUTOCAST):
            return torch.ops.aten._scaled_dot_product_attention_math(q, k, v, mask, dropout_p, causal, None, scale=scale,
                                                                     enable_gqa=gqa)[0]
    finally:
        r.gate.to_gpu, r.gate.adds = before


def attend(r: Recorder, q: Any, k: Any, v: Any, attn_mask: Any = None,
           dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None,
           enable_gqa: bool = False) -> Any:
    aten = torch.ops.aten
    dtype = _autocast_dtype()
    if dtype is not None:
        q, k, v = (t.to(dtype) if t.dtype is torch.float32 else t for t in (q, k, v))
        if attn_mask is not None and attn_mask.dtype is torch.float32:
            attn_mask = attn_mask.to(dtype)
    kernel = attention_kernel(r, q, k, v, attn_mask, dropout_p, is_causal, enable_gqa)
    if kernel == "math":
        return _math(r, q, k, v, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    bias = attn_mask
    if bias is not None and bias.dtype is torch.bool:  # convert_boolean_attn_mask
        bias = torch.zeros_like(bias, dtype=q.dtype).masked_fill_(bias.logical_not(), float("-inf"))
    grad = torch.is_grad_enabled() and any(t.requires_grad for t in (q, k, v))
    if kernel == "flash":
        return _flash(q, k, v, dropout_p, is_causal, scale)
    if bias is not None:
        bias = _padded(bias) if kernel == "efficient" else bias
        bias = bias.expand(q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    if kernel == "cudnn":
        return aten._scaled_dot_product_cudnn_attention(q, k, v, bias, grad, dropout_p, is_causal, False,
                                                        scale=scale)[0]
    return aten._scaled_dot_product_efficient_attention(q, k, v, bias, grad, dropout_p, is_causal, scale=scale)[0]


class FunctionMode(TorchFunctionMode):  # type: ignore[misc]
    """Calls as Python makes them: devices, and what the GPU decides."""

    def __init__(self, recorder: Recorder, gate: Gate) -> None:
        super().__init__()
        self.r = recorder
        self.gate = gate

    def __torch_function__(self, func: Any, types_: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.nn.functional.scaled_dot_product_attention:
            if args and isinstance(args[0], torch.Tensor) and (self.gate.compiling or self.r.is_gpu(args[0])):
                return attend(self.r, *args, **kwargs)
        elif func in (torch.nn.functional.dropout, torch.dropout):
            return self.dropout(func, args, kwargs)
        elif func in (torch.nn.functional.batch_norm, torch.batch_norm):
            args = (self.whole(func, args, kwargs), *args[1:]) if args else args
        elif func in (torch.Tensor.to, torch.Tensor.cuda, torch.Tensor.cpu):
            return self.move(func, args, kwargs)
        elif func is torch.asarray and args and isinstance(args[0], torch.UntypedStorage):  # what safetensors reads
            with _disable_current_modes():
                return func(*args, **kwargs)
        elif func is torch.device and args and type(args[0]) is int:
            return torch.device("cuda", *args)
        elif func is torch.Tensor.item:
            return self.item(*args)
        elif func is torch.Tensor.backward:
            return self.backward(*args, **kwargs)
        elif func is torch.Tensor.pin_memory:
            return args[0]
        elif func in (torch.Tensor.numpy, torch.Tensor.__array__):
            return self.array(args[0], *args[1:])
        elif func is torch.Tensor.__deepcopy__:
            return self.copied(*args)
        elif func is torch.nn.functional.linear:
            return self.linear(func, args, kwargs)
        elif func is torch.nn.functional.one_hot:
            return self.one_hot(*args, **kwargs)
        elif func is torch.nn.functional.multi_head_attention_forward:
            return self.heads(args, kwargs)
        elif getattr(func, "__name__", "") in ("_pack_padded_sequence", "_pad_packed_sequence"):
            return (self.packed if "pack_padded" in func.__name__ else self.unpacked)(*args)
        if "device" in kwargs and kwargs["device"] is not None:
            return self.placed(func, args, kwargs)
        return func(*args, **kwargs)

    def backward(self, loss: torch.Tensor, gradient: Any = None, retain_graph: bool | None = None,
                 create_graph: bool = False, inputs: Any = None) -> Any:
        """Checkpointed blocks are computed again in it, and want the mode."""
        with self:
            torch.autograd.backward(loss, gradient, retain_graph, create_graph, inputs=inputs)

    def item(self, t: torch.Tensor) -> Any:
        """A fraction that only a run knows stays unknown when Python has it."""
        before = self.r.taken.get("0", 0)
        value = torch.Tensor.item(t)
        return self.r.guesses.unknown(t) if isinstance(value, float) and self.r.taken.get("0", 0) > before else value

    def heads(self, args: Any, kwargs: dict[str, Any]) -> Any:
        """nn.MultiheadAttention: the attention within it is to be seen here, too."""
        functional: Any = torch.nn.functional
        before = functional.has_torch_function
        functional.has_torch_function = lambda tensors: False
        try:
            with self:
                return functional.multi_head_attention_forward(*args, **kwargs)
        finally:
            functional.has_torch_function = before

    def linear(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Of rows that are not whole it is a product, to which the bias is added in place; what is like a subclass gets another result."""
        before, self.gate.biased = self.gate.biased, not self.gate.compiling
        try:
            return func(*args, **kwargs)
        finally:
            self.gate.biased = before

    def whole(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """cuDNN's batch norm takes its input in one piece, keeps that, and gives its result so (_batch_norm_impl_index)."""
        functional = func is torch.nn.functional.batch_norm
        given = dict(zip(("input", "running_mean", "running_var", "weight", "bias", "training") if functional else
                         ("input", "weight", "bias", "running_mean", "running_var", "training"), args)) | kwargs
        x = given["input"]
        statistics = (given.get("running_mean"), given.get("running_var"))
        if not self.gate.compiling and not self.r.is_gpu(x) or x.dtype not in (torch.float32, torch.float16) or x.dim() < 3 or (
                given.get("weight") is None or given.get("bias") is None or (None in statistics and not given.get("training"))):
            return x
        formats = {4: torch.channels_last, 5: torch.channels_last_3d}
        last = x.dim() in formats and x.is_contiguous(memory_format=formats[x.dim()])
        return x if last else x.contiguous()

    def one_hot(self, t: torch.Tensor, num_classes: int = -1) -> torch.Tensor:
        """Of what is like a subclass it is a comparison."""
        n = num_classes if num_classes >= 0 else int(t.max().item()) + 1
        return t.new_zeros((*t.shape, n)).scatter_(-1, t.unsqueeze(-1), 1)

    def packed(self, x: torch.Tensor, lengths: torch.Tensor, batch_first: bool) -> tuple[torch.Tensor, torch.Tensor]:
        known = self.r.known.of(lengths)
        self.r.dynamic.guessed += known is None
        return recurrent.pack(known, x, batch_first)

    def unpacked(self, data: torch.Tensor, sizes: torch.Tensor, batch_first: bool, value: float, time: int) -> tuple[torch.Tensor, torch.Tensor]:
        at: list[int] = self.r.known.of(sizes).tolist()  # type: ignore[union-attr]
        return recurrent.pad(data, max(time, len(at)), at[0], batch_first, value), torch.tensor([sum(n > i for n in at) for i in range(at[0])])

    def copied(self, t: torch.Tensor, memo: dict[int, Any]) -> torch.Tensor:
        """copy.deepcopy of a tensor, whose storage there is none of."""
        if id(t) not in memo:
            memo[id(t)] = t.detach().clone().requires_grad_(t.requires_grad)
        found: torch.Tensor = memo[id(t)]
        return found

    def array(self, t: torch.Tensor, *dtype: Any) -> Any:
        """NumPy's of what is known, else of zeros."""
        value = self.r.known.of(t)
        shape, kind = tuple(t.shape), t.dtype
        with _disable_current_modes():
            made: Any = (torch.zeros(shape, dtype=kind) if value is None else value).numpy()
        return made.astype(dtype[0]) if dtype and dtype[0] is not None else made

    def placed(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        cuda = _is_cuda(kwargs["device"])
        if not cuda and torch.device(kwargs["device"]).type != "cpu":
            return func(*args, **kwargs)
        kwargs["device"] = CPU
        gate = self.gate
        before = gate.to_gpu, gate.to_host
        gate.to_gpu, gate.to_host = cuda, not cuda
        try:
            return func(*args, **kwargs)
        finally:
            gate.to_gpu, gate.to_host = before

    def dropout(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        names = ("input", "p", "training" if func is torch.nn.functional.dropout else "train", "inplace")
        given = dict(zip(names, args)) | kwargs
        p, training = float(given.get("p", 0.5)), bool(given.get(names[2], True))
        if not training or not 0 < p < 1 or given.get("inplace"):
            return func(*args, **kwargs)
        return torch.ops.aten.native_dropout(given["input"], p, True)[0]

    def move(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        t, rest = args[0], list(args[1:])
        device, other = kwargs.pop("device", None), None
        if func is torch.Tensor.cuda:
            device, rest, kwargs = GPU, [], {}
        elif func is torch.Tensor.cpu:
            device, rest, kwargs = CPU, [], {}
        elif rest and isinstance(rest[0], torch.Tensor):
            other = rest.pop(0)
            device, kwargs["dtype"] = other.device, other.dtype
        elif rest and (rest[0] is None or isinstance(rest[0], (str, int, torch.device))):
            device = rest.pop(0)
        kwargs.pop("non_blocking", None)
        rest = rest[:1] if rest and isinstance(rest[0], torch.dtype) else []
        here = self.gate.compiling or self.r.is_gpu(t)
        there = here if device is None else _is_cuda(device)
        if device is not None and not there and torch.device(device).type == "meta":
            return func(t, *rest, device=device, **kwargs)
        if here == there:
            return torch.Tensor.to(t, *rest, **kwargs) if rest or kwargs else t
        before = self.gate.to_gpu, self.gate.to_host
        self.gate.to_gpu, self.gate.to_host = there, not there
        try:
            return torch.Tensor.to(t, *rest, **kwargs, copy=True) if "copy" not in kwargs else torch.Tensor.to(
                t, *rest, **kwargs)
        finally:
            self.gate.to_gpu, self.gate.to_host = before


# ---- autocast: CUDA's lists for the CPU's key ----

# As of 2.11, for an installation without PyTorch's headers, which are read else: the lists grow with releases.
FP32 = """acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow.Tensor_Scalar
pow.Tensor_Tensor pow.Scalar softplus layer_norm native_layer_norm group_norm cosine_similarity cosine_embedding_loss
nll_loss nll_loss2d hinge_embedding_loss kl_div l1_loss smooth_l1_loss huber_loss mse_loss soft_margin_loss
binary_cross_entropy_with_logits dist cdist logsumexp upsample_bicubic2d upsample_bilinear2d upsample_nearest2d
""".split()
SET_DTYPE = """prod prod.dim_int softmax.int log_softmax.int cumprod cumsum linalg_vector_norm linalg_matrix_norm
linalg_matrix_norm.str_ord sum sum.dim_IntList""".split()


def autocast_lists(header: str) -> tuple[list[str], list[str]]:
    """What CUDA's autocast does in fp32, and what it gives fp32 as the result's dtype: autocast_mode.h of the release."""
    found = []
    for name in ("AT_FORALL_FP32", "AT_FORALL_FP32_SET_OPT_DTYPE"):
        part = re.search(rf"#define {name}\(_\)((?:.*\\\n)*.*)", header)
        rows = re.findall(r"_\((\w+)(?:, (\w+))?\)", re.sub(r"/\*.*?\*/", "", part[1], flags=re.S)) if part else []
        found.append([f"{base}.{overload}" if overload else base for base, overload in rows])
    return (found[0], found[1]) if all(found) else (list(FP32), list(SET_DTYPE))


def _installed_lists() -> tuple[list[str], list[str]]:
    try:
        with open(os.path.join(os.path.dirname(torch.__file__), "include", "ATen", "autocast_mode.h"), encoding="utf-8") as f:
            return autocast_lists(f.read())
    except OSError:
        return list(FP32), list(SET_DTYPE)


def _redispatch_fp32(op: Any) -> Callable[..., Any]:
    def widen(x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        return type(x)(widen(i) for i in x) if isinstance(x, (list, tuple)) else x

    def kernel(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(AUTOCAST):
            return op(*(widen(a) for a in args), **{k: widen(v) for k, v in kwargs.items()})
    return kernel


def _redispatch_dtype(op: Any) -> Callable[..., Any]:
    at = [a.name for a in op._schema.arguments].index("dtype")
    keyword = op._schema.arguments[at].kwarg_only

    def kernel(*args: Any, **kwargs: Any) -> Any:
        half = isinstance(args[0], torch.Tensor) and args[0].dtype in (torch.float16, torch.bfloat16)
        if half and kwargs.get("dtype") is None and (keyword or len(args) <= at or args[at] is None):
            kwargs["dtype"] = torch.float32
            args = args if keyword else args[:at]
        with torch._C._ExcludeDispatchKeyGuard(AUTOCAST):
            return op(*args, **kwargs)
    return kernel


THROUGH = ("cat", "stack", "index_copy")  # in the CPU's lists and not in CUDA's: their kernels mix dtypes


def _through(op: Any) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(AUTOCAST):
            return op(*args, **kwargs)
    return kernel


def _cross_entropy(x: torch.Tensor, target: torch.Tensor, weight: Any = None, reduction: int = 1, ignore_index: int = -100,
                   label_smoothing: float = 0.0) -> torch.Tensor:
    """CUDA's list has the loss over log-probabilities, and not the whole: these stay in the dtype of the logits."""
    aten: Any = torch.ops.aten
    whole = label_smoothing or target.is_floating_point() or x.dim() < 2
    with torch._C._ExcludeDispatchKeyGuard(AUTOCAST):
        if whole:
            return aten.cross_entropy_loss(x.float(), target, weight, reduction, ignore_index, label_smoothing)
        return aten.nll_loss_nd(aten.log_softmax.int(x, 1, x.dtype).float(), target, weight, reduction, ignore_index)


def _dropout(x: torch.Tensor, p: float, train: bool) -> torch.Tensor:
    """The GPU's: a mask of bytes is kept, not one of numbers."""
    if not train or p == 0 or not x.numel():
        return x
    return torch.ops.aten.native_dropout(x, p, True)[0] if p < 1 else x * 0


AUTOCAST = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)


def _autocast_lists() -> Any:
    """A library whose end takes the lists back."""
    library = torch.library.Library("aten", "IMPL")
    wide, given = _installed_lists()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for names, make in ((wide, _redispatch_fp32), (given, _redispatch_dtype)):
            for name in names:
                base, _, overload = name.partition(".")
                packet = getattr(torch.ops.aten, base, None)
                if packet is None:  # a release that has it not
                    continue
                op = getattr(packet, overload or "default", None)
                if op is None:
                    continue
                with contextlib.suppress(RuntimeError):  # one that the CPU's list has as well
                    library.impl(name, make(op), "AutocastCPU", allow_override=True)
        for name in THROUGH:
            library.impl(name, _through(getattr(torch.ops.aten, name).default), "AutocastCPU", allow_override=True)
        library.impl("cross_entropy_loss", _cross_entropy, "AutocastCPU", allow_override=True)
        for key in ("AutogradCPU", "CPU"):  # what calls it from C++, the plain attention, is to have the GPU's kernel as well
            library.impl("dropout", _dropout, key, allow_override=True)
        fused.register(library)
        recurrent.register(library)
    return library


# ---- torch.cuda, the optimizers ----

def _properties(r: Recorder) -> Any:
    return types.SimpleNamespace(name="planned card", major=r.card.capability[0], minor=r.card.capability[1],
                                 total_memory=80 << 30, multi_processor_count=r.card.multiprocessors,
                                 warp_size=32, max_threads_per_multi_processor=2048, gcnArchName="",
                                 regs_per_multiprocessor=65536, L2_cache_size=50 << 20, shared_memory_per_block=49152, shared_memory_per_block_optin=232448)


def _of_cpu(plain: Callable[..., Any]) -> Callable[..., Any]:
    """One of autocast's functions, which says of CUDA what it says of the CPU."""
    def answer(device: Any = "cuda", *rest: Any) -> Any:
        if isinstance(device, bool):
            return plain("cpu", device)
        return plain("cpu" if device == "cuda" else device, *rest)
    return answer


def _to(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Module.to, whose parser of arguments knows no GPU by its number here."""
    def to(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        if isinstance(kwargs.get("device"), int):
            kwargs["device"] = torch.device("cuda", kwargs["device"])
        return plain(self, *(torch.device("cuda", a) if type(a) is int else a for a in args[:1]), *args[1:], **kwargs)
    return to


class _Parameters:
    """Those of modules.  What is read from a file is real: a module gets a fake one in its place, and all that share it the same one."""

    def __init__(self) -> None:
        self.made: Any = WeakIdKeyDictionary()

    def fake(self, p: Any) -> Any:
        if type(p) is not torch.nn.Parameter or p.device.type == "meta":
            return p
        if p not in self.made:
            made = torch.nn.Parameter(torch.empty_like(p), requires_grad=p.requires_grad)
            vars(made).update(vars(p))
            self.made[p] = made
        return self.made[p]

    def register(self, plain: Callable[..., None]) -> Callable[..., None]:
        return lambda module, name, param: plain(module, name, self.fake(param))

    def apply(self) -> Callable[..., torch.nn.Module]:
        """Module._apply as it is for tensors that are not fake: data are set, tensors not swapped."""
        def _apply(module: torch.nn.Module, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> torch.nn.Module:
            for child in module.children() if recurse else ():
                child._apply(fn)
            for key, held in module._parameters.items():
                if held is None:
                    continue
                p = module._parameters[key] = self.fake(held)
                with torch.no_grad():
                    new = fn(p)
                if new is not p:
                    p.data = new
                if p.grad is not None:
                    p.grad.data = fn(p.grad)
            for key, b in module._buffers.items():
                if b is not None:
                    module._buffers[key] = fn(b)
            return module
        return _apply


def _here(init: Callable[..., None]) -> Callable[..., None]:
    """A DataLoader's, whose workers would be processes that know nothing of fakes; on the GPU it makes no difference."""
    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        vars(self)["_plimsoll_asked"] = inspect.signature(init).bind_partial(self, *args, **kwargs).arguments
        args = (*args[:5], 0, *args[6:]) if len(args) > 5 else args
        kwargs.update({"num_workers": 0} if len(args) <= 5 else {}, prefetch_factor=None, persistent_workers=False,
                      multiprocessing_context=None, timeout=0)
        init(self, *args, **kwargs)
    return made


def _of_accelerator() -> list[tuple[Any, str, Any]]:
    """torch.accelerator, of releases that have it: the device of scripts that name none."""
    accelerator: Any = getattr(torch, "accelerator", None)
    answers: dict[str, Any] = {"is_available": True, "device_count": 1, "current_accelerator": GPU, "current_device_index": 0,
                               "current_device_idx": 0, "synchronize": None, "set_device_index": None, "set_device_idx": None,
                               "empty_cache": None, "current_stream": types.SimpleNamespace(is_capturing=lambda: False, synchronize=lambda: None)}
    return [(accelerator, name, lambda *a, _answer=answer, **k: _answer) for name, answer in answers.items() if hasattr(accelerator, name)]


def _patches(r: Recorder) -> list[tuple[Any, str, Any]]:
    cuda: Any = torch.cuda
    optimizer: Any = importlib.import_module("torch.optim.optimizer")  # its package hides it
    nothing = lambda *a, **k: None  # noqa: E731
    autocast = torch.amp.autocast_mode.autocast
    init, parameters = autocast.__init__, _Parameters()

    def autocast_init(self: Any, device_type: str = "cuda", dtype: Any = None, enabled: bool = True, cache_enabled: Any = None) -> None:
        if device_type == "cuda" and dtype is None:
            dtype = torch.float16
        init(self, "cpu" if device_type == "cuda" else device_type, dtype, enabled, cache_enabled)  # as Dynamo binds it

    told: Any = FakeTensor.__dict__["device"]

    def device(self: Any) -> torch.device:
        real: torch.device = told.__get__(self)
        return real if r.gate.inside or real.type != "cpu" or not r.is_gpu(self) else GPU

    found: list[tuple[Any, str, Any]] = [
        (cuda, "is_available", lambda: True), (cuda, "device_count", lambda: 1), (cuda, "current_device", lambda: 0),
        # bitsandbytes takes this name when it is imported, and builds of PyTorch without CUDA have none
        (torch._C, "_cuda_getCurrentRawStream", lambda *a: 0),
        (cuda, "set_device", nothing), (cuda, "synchronize", nothing), (cuda, "empty_cache", nothing),
        (cuda, "manual_seed", nothing), (cuda, "manual_seed_all", nothing), (cuda, "_lazy_init", nothing), (cuda, "_DeviceGuard", contextlib.nullcontext),
        (cuda, "is_bf16_supported", lambda *a, **k: r.card.capability >= (8, 0)),
        (cuda, "get_device_capability", lambda *a, **k: r.card.capability),
        (cuda, "get_device_properties", lambda *a, **k: _properties(r)),
        (cuda, "get_device_name", lambda *a, **k: "planned card"),
        (cuda, "mem_get_info", lambda *a, **k: (80 << 30, 80 << 30)),
        (cuda, "memory_allocated", lambda *a, **k: 0), (cuda, "max_memory_allocated", lambda *a, **k: 0),
        (cuda, "memory_reserved", lambda *a, **k: 0), (cuda, "max_memory_reserved", lambda *a, **k: 0),
        (cuda, "reset_peak_memory_stats", nothing), (cuda, "is_current_stream_capturing", lambda: False), (cuda, "is_initialized", lambda: True),
        (cuda, "get_rng_state", lambda *a, **k: torch.zeros(16, dtype=torch.uint8)),
        (cuda, "set_rng_state", nothing), (cuda, "get_rng_state_all", lambda *a, **k: []),
        (cuda, "set_rng_state_all", nothing),
        *_of_accelerator(),
        (autocast, "__init__", autocast_init),
        *((torch, name, _of_cpu(getattr(torch, name))) for name in (
            "is_autocast_enabled", "get_autocast_dtype", "set_autocast_enabled", "set_autocast_dtype")),
        (torch, "get_autocast_gpu_dtype", lambda: torch.get_autocast_dtype("cpu")),
        (torch.nn.Module, "_apply", parameters.apply()),
        (torch.nn.Module, "to", _to(torch.nn.Module.to)),
        (torch.nn.Module, "register_parameter", parameters.register(torch.nn.Module.register_parameter)),
        (torch, "save", _save),
        (torch.utils.data.DataLoader, "__init__", _here(torch.utils.data.DataLoader.__init__)),
        # from 2.13 on it draws again until no value is out of bounds: a question whose answer never changes here
        (torch.nn.init, "_no_grad_trunc_normal_", lambda tensor, *a, **k: tensor),
        (torch.autograd, "has_torch_function", lambda args: False),  # else the function mode is off in backward passes
        (FakeTensor, "device", property(device)),
        (FakeTensor, "__format__", lambda self, spec: format(self.item(), spec) if not self.dim() else object.__format__(self, spec)),
        (FakeTensor, "tolist", _listed(r, FakeTensor.tolist)),
        (FakeTensor, "is_cuda", property(lambda self: device(self).type == "cuda")),
        (optimizer, "_foreach_supported_types", [*optimizer._foreach_supported_types, FakeTensor]),
        (optimizer, "_get_foreach_kernels_supported_devices", lambda: ["cuda", "cpu"]),
        (importlib.import_module("torch.utils._foreach_utils"), "_get_foreach_kernels_supported_devices", lambda: ["cuda", "cpu"]),
    ]
    utilities = sys.modules.get(_Masks.NAME)
    if utilities is not None:
        found.append((utilities, "is_fake_tensor", _Masks.is_fake))
    common = getattr(torch.cuda.amp, "common", None)
    if common is not None:
        found.append((common, "amp_definitely_not_available", lambda: False))
    return found


def _listed(r: Recorder, plain: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """At once where it is known, not a number at a time: a sampler lists the order of a million samples."""
    def tolist(t: Any) -> Any:
        value = r.known.of(t)
        if value is None:
            return plain(t)
        with _disable_current_modes():
            return value.tolist()
    return tolist


def _save(obj: Any, f: Any, *_: Any, **__: Any) -> None:
    """Tensors have no values here: a file of the script's stays as it is, and what it would write itself is not made up."""
    if not isinstance(f, (str, os.PathLike)):
        raise ValueError("the script saves tensors before its second step, which have no values in a trace: let it run once until its data is "
                         "prepared, or save later")


class _Masks:
    """Transformers makes masks for fake tensors that it leaves out otherwise: where a script imports it later, it is reported then."""

    NAME = "transformers.utils.import_utils"

    @staticmethod
    def is_fake(x: Any) -> bool:
        return False

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        spec = importlib.machinery.PathFinder.find_spec(name, path) if name == self.NAME else None
        if spec is None or spec.loader is None:
            return None
        loader: Any = spec.loader
        run = loader.exec_module

        def exec_module(module: types.ModuleType) -> None:
            run(module)
            self.told.append((vars(module), vars(module).get("is_fake_tensor")))
            vars(module)["is_fake_tensor"] = self.is_fake
        loader.exec_module = exec_module
        return spec

    def __enter__(self) -> None:
        self.told: list[tuple[dict[str, Any], Any]] = []
        sys.meta_path.insert(0, self)

    def __exit__(self, *_: Any) -> None:
        sys.meta_path.remove(self)
        for names, before in self.told:
            names["is_fake_tensor"] = before


def _own(value: Any) -> Any:
    """A function of its own for each name: Dynamo knows PyTorch's by which they are, and stops where two are one."""
    if not isinstance(value, types.FunctionType):
        return value
    copy = types.FunctionType(value.__code__, value.__globals__, value.__name__, value.__defaults__, value.__closure__)
    copy.__kwdefaults__ = value.__kwdefaults__
    return copy


def _probe(r: Recorder) -> None:
    """Two gradients meet: how many hold one that no one else holds depends on the release."""
    x = torch.zeros(4, requires_grad=True)
    y = x * 2
    z = (y * 3 + y * 4).sum()
    r.backward = True
    with torch.autograd.set_multithreading_enabled(False):
        z.backward()
    r.backward = False
    r.forget()


@contextlib.contextmanager
def stand_in(r: Recorder) -> Iterator[FakeTensorMode]:
    """While it lasts the process has a GPU whose tensors have no bytes."""
    gate = r.gate
    fake = FakeTensorMode(allow_non_fake_inputs=True, allow_fallback_kernels=False)  # imports look at torch.cuda
    undo: list[tuple[Any, str, Any]] = []
    absent = object()

    r.properties = lambda: _properties(r)
    compiler = Compiler(r, torch.compile, lambda: FunctionMode(r, gate))
    for owner, name, value in [*_patches(r), (torch, "compile", compiler), *ranks.patches(r)]:
        undo.append((owner, name, owner.__dict__.get(name, absent)))
        setattr(owner, name, _own(value))
    library = _autocast_lists()
    drawn = torch.random.get_rng_state()
    torch.default_generator.manual_seed(0)  # what the host draws is known (known.py), and each trace draws the same
    try:
        with _Masks(), fake, DispatchMode(r, gate), FunctionMode(r, gate):
            _probe(r)
            yield fake
    finally:
        r.closed = True
        compiler.undo()
        torch.random.set_rng_state(drawn)
        library._destroy()
        for owner, name, value in reversed(undo):
            if value is absent:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
