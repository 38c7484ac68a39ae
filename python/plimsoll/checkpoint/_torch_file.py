"""What torch.save wrote, as plain values and tensors.  Nothing in the file is called: what is neither is an Opaque with its name."""
from __future__ import annotations

import io
import os
import pickle
import types
from typing import Any

from .. import _torch
from .._loader import _mark
from ..errors import FormatError, UnsupportedError
from ..verbs import verify

MODULE_PARTS = ("_parameters", "_buffers", "_modules")


class Opaque:
    """Where the file has an object of a class: it was not made, and nothing of its class was run.  state: what was to become of it."""

    _name = "?"
    state: Any = None

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __new__(cls, *_: Any, **__: Any) -> Opaque:
        return super().__new__(cls)

    def __call__(self, *_: Any, **__: Any) -> Opaque:
        return self

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def append(self, value: Any) -> None:
        pass

    def extend(self, values: Any) -> None:
        pass

    def __repr__(self) -> str:
        return f"<{self._name}, which was not made>"


class _Name(type):
    """A class of an Opaque, which says the name that the file has, too."""

    def __repr__(cls) -> str:
        return f"<{getattr(cls, '_name', cls.__name__)}, which was not imported>"


class _OpaqueClass(Opaque, metaclass=_Name):
    pass


# ---- what is made ----


def _tensor(storage: Any, offset: int, size: Any, stride: Any, *_: Any) -> Any:
    """torch._utils._rebuild_tensor_v2 within the storage: that one enlarges it if the file says so."""
    torch = _torch.torch()
    item = storage.dtype.itemsize if hasattr(storage.dtype, "itemsize") else torch.empty((), dtype=storage.dtype).element_size()
    last = sum((n - 1) * step for n, step in zip(size, stride))
    if offset < 0 or any(n < 0 for n in size) or any(step < 0 for step in stride) or len(size) != len(stride) or (
            0 not in size and (offset + last + 1) * item > storage._untyped_storage.nbytes()):
        raise FormatError("a tensor reaches past its storage")
    made = torch.empty((0,), dtype=storage.dtype, device=storage._untyped_storage.device)
    return made.set_(storage._untyped_storage, offset, tuple(size), tuple(stride))


def _parameter(data: Any, *_: Any) -> Any:
    return data


def _latin1(text: str, encoding: str = "latin1") -> bytes:
    return text.encode("latin1")


class Table(dict[Any, Any]):
    """A dict of any class, without the attributes that the file gives it (state_dict()'s _metadata)."""

    def __setstate__(self, state: Any) -> None:
        pass


def _of_default(*_: Any) -> Table:
    return Table()


MADE = {
    ("torch._utils", "_rebuild_tensor_v2"): _tensor, ("torch._utils", "_rebuild_tensor"): _tensor,
    ("torch._utils", "_rebuild_parameter"): _parameter, ("torch._utils", "_rebuild_parameter_with_state"): _parameter,
    ("collections", "OrderedDict"): Table, ("collections", "defaultdict"): _of_default, ("collections", "Counter"): Table,
    ("_codecs", "encode"): _latin1, ("torch.torch_version", "TorchVersion"): str,
    ("builtins", "set"): set, ("builtins", "frozenset"): frozenset, ("builtins", "complex"): complex, ("builtins", "dict"): Table,
    ("builtins", "list"): list,
}
# The Unpickler of C takes memory for as many memo entries as the file says; that of Python only for those that are there.
_Unpickler: Any = getattr(pickle, "_Unpickler")


class _Plain(_Unpickler):  # type: ignore[misc]
    def find_class(self, module: str, name: str) -> Any:
        made = MADE.get((module.replace("__builtin__", "builtins"), name))
        if made is not None:
            return made
        if module == "torch":
            torch = _torch.torch()
            found = getattr(torch, name, None) if name.isidentifier() else None
            if isinstance(found, (torch.dtype, torch.layout, torch.memory_format)) or found is torch.device:
                return found
            if name == "Size":
                return tuple
        return _Name(name, (_OpaqueClass,), {"_name": f"{module}.{name}"})


def _load(file: Any, **_: Any) -> Any:
    return _Plain(file, encoding="utf-8").load()


PLAIN: Any = types.SimpleNamespace(Unpickler=_Plain, load=_load, __name__="plimsoll._torch_file")


def read(path: str, map_location: Any) -> tuple[Any, list[str]]:
    """The object in a file of torch.save, and notes about it.  Verified first: every checksum that it has is compared.

    Raises NotFoundError; FormatError: it is damaged, or names code that would do harm; UnsupportedError: it is TorchScript, or
    another kind of file.
    """
    mark = _mark(path)
    told = verify(path, values=False)
    if told.kind not in ("torch", "torch_legacy"):
        raise UnsupportedError(f"'{path}' is of kind {told.kind}, not a file of torch.save", path=path)
    if told.verdict not in ("whole", "unproven", "unknown_code"):
        raise FormatError(f"'{path}' is not loaded: {told.headline}", path=path)
    torch = _torch.torch()
    with open(path, "rb") as file:
        data: Any = file
        if told.kind == "torch_legacy":
            data = io.BytesIO(file.read())  # torch reads a file of this kind by its descriptor, and leaves it anywhere
        try:
            found = torch.load(data, map_location=map_location, pickle_module=PLAIN, weights_only=False)
        except (FormatError, MemoryError, KeyboardInterrupt):
            raise
        except Exception as why:
            raise FormatError(f"'{path}' cannot be read: {type(why).__name__}: {why}", path=path) from None
    if _mark(path) != mark:
        raise FormatError(f"'{path}' was written while it was read", path=path, remedy="load it again when its writer has ended")
    notes = [f"{os.path.basename(path)}: it has no checksums, so a changed bit cannot be seen"] if told.verdict == "unproven" else []
    return found, notes


# ---- a whole module ----


def module_state(value: Any, prefix: str = "") -> dict[str, Any] | None:
    """What state_dict() of a module would be that was saved whole; None: it is none."""
    state = value.state if isinstance(value, Opaque) else None
    if not isinstance(state, dict) or not all(isinstance(state.get(part), dict) for part in MODULE_PARTS):
        return None
    hidden = state.get("_non_persistent_buffers_set", ())
    found = {prefix + name: one for part in MODULE_PARTS[:2] for name, one in state[part].items() if one is not None and name not in hidden}
    for name, inner in state["_modules"].items():
        found.update(module_state(inner, f"{prefix}{name}.") or {})
    return found
