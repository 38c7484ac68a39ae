"""State as plain values: what state_dict() gives becomes JSON with tensors next to it, and comes back as it was.

No classes, no pickles: what is neither a plain value nor a tensor is refused by its place.
"""
from __future__ import annotations

import base64
import math
import random
import sys
from typing import Any, Container, Iterable, Mapping, Protocol

from .. import _torch
from .._version import __version__
from ..errors import ArgumentError, FormatError

STATELESS = {"DataLoader": "; torchdata's StatefulDataLoader and SampleCache.batches() know their place"}
Tensors = dict[str, Any]  # name -> tensor
PREFIX_NAMES = 32  # names that are looked at to find what others begin with


class Source(Protocol):
    """Where tensors come from, by their names."""

    def __getitem__(self, name: str, /) -> Any: ...


# ---- parts of tensors ----

def local(tensor: Any) -> Any:
    """What of a DTensor lies on this rank."""
    return getattr(tensor, "_local_tensor", tensor)


def is_sharded(value: Any) -> bool:
    """Do tensors of it lie in parts on several ranks?  A module, what has state_dict(), or a value."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return False
    if hasattr(value, "_local_tensor") or hasattr(value, "local_shards") or type(value).__name__ == "FullyShardedDataParallel":
        return True
    if hasattr(value, "named_parameters"):
        return any(map(is_sharded, value.parameters())) or any(type(one).__name__ == "FullyShardedDataParallel" for one in value.modules())
    if hasattr(value, "state_dict"):
        value = value.state_dict()
    if isinstance(value, Mapping):
        value = list(value.values())
    return isinstance(value, (list, tuple)) and any(map(is_sharded, value))


# ---- packing ----

def _identity(tensor: Any) -> tuple[Any, ...]:
    return (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.device)


class Packer:
    """Collects the tensors of one file while values are packed; one that is met again is stored once.

    torch: what is packed is also to be an object of torch.load(weights_only=True), which the library makes of it.
    """

    def __init__(self, torch: bool = False) -> None:
        self.torch = torch
        self.tree: Any = None  # that object; None: a dict of the tensors
        self.tensors: Tensors = {}
        self.ties: dict[str, str] = {}  # another name -> the one it is stored under
        self._seen: dict[int, str] = {}  # by their first bytes

    def tensor(self, name: str, tensor: Any) -> str:
        if hasattr(tensor, "_local_tensor") or hasattr(tensor, "local_shards") or str(tensor.layout) != "torch.strided" or tensor.is_quantized:
            raise ArgumentError(f"'{name}' is {type(tensor).__name__} of {tensor.layout}: only dense tensors can be saved, and in parts only "
                                "those of a model, its optimizers, and what has a state_dict()")
        if tensor.device.type not in ("cpu", "cuda"):
            raise ArgumentError(f"'{name}' lies on {tensor.device}: only tensors of the host and of CUDA GPUs can be saved")
        other = self._seen.setdefault(tensor.data_ptr(), name)
        if other is not name and tensor.numel():
            if other in self.tensors and _identity(self.tensors[other]) == _identity(tensor):
                self.ties[name] = other
                return other
        self.tensors[name] = tensor
        return name

    def pack(self, value: Any, place: str) -> Any:
        if type(value) is dict:
            return self._mapping(value, place)
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, int):
            return int(value)
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else {"$float": repr(float(value))}
        if isinstance(value, (bytes, bytearray)):
            return {"$latin1": value.decode("latin-1")} if self.torch else {"$bytes": base64.b64encode(value).decode()}
        if isinstance(value, Mapping):
            return self._mapping(value, place)
        if isinstance(value, (list, tuple, set, frozenset)):
            items = [self.pack(item, f"{place}/{i}") for i, item in enumerate(value)]
            return items if isinstance(value, list) else {"$tuple" if isinstance(value, tuple) else "$set": items}
        return self._object(value, place)

    def _mapping(self, value: Mapping[Any, Any], place: str) -> Any:
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {str(key): self.pack(item, f"{place}/{key}") for key, item in value.items()}
        return {"$items": [[self.pack(key, place), self.pack(item, f"{place}/{key}")] for key, item in value.items()]}

    def _object(self, value: Any, place: str) -> Any:
        torch = _torch.torch()
        if isinstance(value, torch.Tensor):
            return {"$tensor": self.tensor(place, value.detach())}
        if isinstance(value, (torch.dtype, torch.device)):
            return {"$torch": str(value)}
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(value, numpy.generic) and value.dtype.kind in "biuf":
            return self.pack(value.item(), place)
        if numpy is not None and isinstance(value, numpy.ndarray) and value.dtype.kind in "biufc":
            if self.torch and value.dtype.isnative:
                return {"$ndarray": {"$tensor": self.tensor(place, torch.from_numpy(value.copy()))}}
            return {"$ndarray": [value.dtype.str, list(value.shape), base64.b64encode(value.tobytes()).decode()]}
        if hasattr(value, "state_dict") and "/" in place:
            raise ArgumentError(f"'{place}' is {type(value).__module__}.{type(value).__qualname__} inside of another object",
                                remedy=f"give it a name of its own: save(step, {place.rpartition('/')[2]}=...)" if not place[-1].isdigit()
                                else "give it a name of its own: save(step, NAME=...)")
        raise ArgumentError(f"'{place}' is {type(value).__module__}.{type(value).__qualname__}: only plain values, tensors, arrays of "
                            "numbers, generators and what has a state_dict() can be saved" + STATELESS.get(type(value).__qualname__, ""))


def unpack(value: Any, tensors: Source) -> Any:
    """What Packer.pack was given; tensors by their names.  Raises FormatError."""
    if isinstance(value, list):
        return [unpack(item, tensors) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        (kind, inner), = value.items()
        if kind.startswith("$"):
            return _special(kind, inner, tensors)
    return {key: unpack(item, tensors) for key, item in value.items()}


def _special(kind: str, inner: Any, tensors: Source) -> Any:
    try:
        if kind == "$tensor":
            return tensors[inner]
        if kind == "$float":
            return float(inner)
        if kind == "$bytes":
            return base64.b64decode(inner, validate=True)
        if kind == "$latin1":
            return inner.encode("latin-1")
        if kind == "$items":
            return {unpack(key, tensors): unpack(item, tensors) for key, item in inner}
        if kind == "$tuple":
            return tuple(unpack(item, tensors) for item in inner)
        if kind == "$set":
            return {unpack(item, tensors) for item in inner}
        if kind == "$torch":
            return _torch_value(inner)
        if kind == "$ndarray":
            import numpy

            if isinstance(inner, dict):
                return unpack(inner, tensors).numpy()
            code, shape, text = inner
            return numpy.frombuffer(base64.b64decode(text, validate=True), numpy.dtype(str(code))).reshape(shape).copy()
    except (KeyError, TypeError, ValueError) as why:
        raise FormatError(f"a value of the checkpoint's state is none: {kind} ({why})") from None
    raise FormatError(f"a value of the checkpoint's state is of a kind that this version does not know: {kind}")


def _torch_value(text: str) -> Any:
    torch = _torch.torch()
    name = text[6:] if text.startswith("torch.") else ""
    found = getattr(torch, name, None) if name else None
    return found if isinstance(found, torch.dtype) else torch.device(text)


# ---- random numbers ----

def rng_state(*generators: Any) -> dict[str, Any]:
    """All generators that training draws from, as plain values: Python's, NumPy's global one, torch's on the CPU and on every
    GPU, and those that are given (torch.Generator, numpy.random.Generator).
    """
    torch = _torch.torch()
    version, words, gauss = random.getstate()
    state: dict[str, Any] = {"python": [version, list(words), gauss], "torch": _bytes(torch.get_rng_state())}
    if _torch.cuda_started():
        state["cuda"] = [_bytes(one) for one in torch.cuda.get_rng_state_all()]
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        name, keys, position, has_gauss, cached = numpy.random.get_state()
        state["numpy"] = [name, keys.tobytes(), int(position), int(has_gauss), float(cached)]
    if generators:
        state["generators"] = [_generator_state(one) for one in generators]
    return state


def set_rng_state(state: Mapping[str, Any], *generators: Any) -> list[str]:
    """Put back what rng_state gave; names what could not be restored."""
    torch = _torch.torch()
    lost = []
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    torch.set_rng_state(_tensor(state["torch"]))
    if "cuda" in state:
        there = torch.cuda.device_count() if torch.cuda.is_available() else 0
        for i, one in enumerate(state["cuda"]):
            if i < there:
                torch.cuda.set_rng_state(_tensor(one), i)
            else:
                lost.append(f"cuda:{i}")
    if "numpy" in state:
        try:
            import numpy

            name, keys, position, has_gauss, cached = state["numpy"]
            numpy.random.set_state((name, numpy.frombuffer(keys, numpy.uint32), position, has_gauss, cached))
        except ImportError:
            lost.append("numpy")
    given = state.get("generators", [])
    for i, (one, at) in enumerate(zip(given, generators)):
        if not set_generator_state(at, one):
            lost.append(f"generator {i}")
    lost += [f"generator {i}" for i in range(len(generators), len(given))]
    return lost


def is_generator(value: Any) -> bool:
    return type(value).__name__ == "Generator" and (hasattr(value, "get_state") or hasattr(value, "bit_generator"))


def is_optimizer(value: Any) -> bool:
    return hasattr(value, "state_dict") and hasattr(value, "param_groups")


def _generator_state(generator: Any) -> dict[str, Any]:
    if hasattr(generator, "bit_generator"):
        return {"numpy": generator.bit_generator.state}
    return {"torch": _bytes(generator.get_state())}


generator_state = _generator_state


def takes_generator(generator: Any, kinds: Container[str]) -> bool:
    """Is it of the kind whose state that is?"""
    return "numpy" in kinds and hasattr(generator, "bit_generator") or "torch" in kinds and hasattr(generator, "set_state")


def set_generator_state(generator: Any, state: Mapping[str, Any]) -> bool:
    if not takes_generator(generator, state):
        return False
    if "numpy" in state:
        generator.bit_generator.state = state["numpy"]
    else:
        generator.set_state(_tensor(state["torch"]))
    return True


def _bytes(tensor: Any) -> bytes:
    return bytes(tensor.cpu().tolist())


def _tensor(data: bytes) -> Any:
    torch = _torch.torch()
    return torch.tensor(list(data), dtype=torch.uint8)


# ---- architecture ----

def dtype_name(dtype: Any) -> str:
    return str(dtype).rpartition(".")[2]


def rows_of(tensors: Mapping[str, Any], ties: Mapping[str, str]) -> dict[str, tuple[str, list[int]]]:
    """name -> (dtype, shape), those that are tied to another one too."""
    rows = {name: (dtype_name(tensor.dtype), list(tensor.shape)) for name, tensor in tensors.items()}
    rows.update({name: rows[stored] for name, stored in ties.items()})
    return rows


def bare(model: Any) -> Any:
    """The module inside of DistributedDataParallel and torch.compile."""
    while True:
        if type(model).__name__ in ("DistributedDataParallel", "DataParallel"):
            model = model.module
        elif hasattr(model, "_orig_mod"):
            model = model._orig_mod
        else:
            return model


def parameter_names(optimizer: Any, model: Any) -> list[str]:
    """Of the optimizer's parameters in its order, by which its state is numbered."""
    known: dict[int, str] = {}
    if model is not None:
        for name, parameter in bare(model).named_parameters():
            known.setdefault(id(parameter), name)
    numbered = [p for group in optimizer.param_groups for p in group["params"]]
    return [known.get(id(p), f"parameter {i}") for i, p in enumerate(numbered)]


def versions() -> dict[str, Any]:
    """What a run is made with: where one of these differs, its numbers may, too."""
    torch = _torch.torch()
    numpy = sys.modules.get("numpy")
    backends = torch.backends
    return {"plimsoll": __version__, "python": sys.version.split()[0], "torch": str(torch.__version__),
            "numpy": None if numpy is None else str(numpy.__version__), "cuda": torch.version.cuda,
            "gpu": torch.cuda.get_device_name() if _torch.cuda_started() else None,
            "deterministic": bool(torch.are_deterministic_algorithms_enabled()),
            "cudnn_benchmark": bool(backends.cudnn.benchmark), "tf32": bool(backends.cuda.matmul.allow_tf32)}


def differences(wanted: Mapping[str, tuple[str, list[int]]], found: Mapping[str, tuple[str, list[int]]],
                spared: Iterable[str] = ()) -> list[str]:
    """One line for each name that differs; `spared`: patterns of names that may."""
    from fnmatch import fnmatchcase

    lines = []
    for name in sorted({*wanted, *found}):
        if any(fnmatchcase(name, pattern) for pattern in spared):
            continue
        here, there = wanted.get(name), found.get(name)
        if here is None and there is not None:
            lines.append(f"'{name}' is only in the checkpoint ({there[0]} {there[1]})")
        elif there is None and here is not None:
            lines.append(f"'{name}' is only in the model ({here[0]} {here[1]})")
        elif here is not None and there is not None and (here[0] != there[0] or list(here[1]) != list(there[1])):
            lines.append(f"'{name}' is {here[0]} {list(here[1])} in the model, {there[0]} {list(there[1])} in the checkpoint")
    return lines


def prefix_of(mine: Iterable[str], theirs: Iterable[str]) -> tuple[str, int]:
    """The prefix with which the most names are the same, and how many are: one that only theirs have, or after a "+" only mine.

    Names of all lengths are tried, PREFIX_NAMES of them at most; a long name has few others that end as it does.
    """
    here, there = set(mine), set(theirs)
    counts = {"": len(here & there)}
    for sign, short, long in (("", here, there), ("+", there, here)):
        by_end: dict[str, list[str]] = {}
        for name in long:
            by_end.setdefault(name.rpartition(".")[2], []).append(name)
        names = sorted(short, key=lambda one: (-len(one), one))
        for name in names[::1 + len(names) // PREFIX_NAMES]:
            prefixes = {other[:-len(name)] for other in by_end.get(name.rpartition(".")[2], ()) if other.endswith("." + name)}
            for prefix in sorted(prefixes, key=len)[:PREFIX_NAMES]:
                if sign + prefix not in counts:
                    counts[sign + prefix] = sum(prefix + one in long for one in short)
    best = max(counts, key=lambda one: (counts[one], -len(one)))
    return best, counts[best]


def suggest(wanted: Iterable[str], found: Iterable[str]) -> str:
    """What renames would explain the difference, or ''."""
    mine, theirs = set(wanted), set(found)
    prefix, count = prefix_of(mine, theirs)
    if not prefix:
        return ""
    if prefix.startswith("+"):
        return f"rename={{'': '{prefix[1:]}'}} puts it before the names of the checkpoint: then {count} of the model's {len(mine)} are there"
    return f"rename={{'{prefix}': ''}} takes it off the names of the checkpoint: then {count} of the model's {len(mine)} are there"
