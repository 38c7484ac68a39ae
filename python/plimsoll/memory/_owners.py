"""Whose tensors these are: by the names that reach them; giving memory back, and who still holds it."""
from __future__ import annotations

import contextlib
import gc
import os
import sys
import traceback
from collections import deque
from dataclasses import dataclass
from types import FrameType, ModuleType
from typing import Any, Iterator

from .. import _torch
from ._saved import OUR_FOLDER, storage_key

DEPTH = 5  # containers in containers that are looked into
LOOKS = 200_000  # objects looked at, at most


@dataclass(frozen=True)
class Owner:
    """Storages reached first by one name: bytes, how many, on which device."""

    name: str
    device: str
    bytes: int
    tensors: int


@dataclass(frozen=True)
class Owners:
    """All tensors that Python sees, largest owner first; each storage counts once."""

    owners: tuple[Owner, ...]

    def total_bytes(self, device: str | None = None) -> int:
        return sum(o.bytes for o in self.owners if device is None or o.device == device)

    def __str__(self) -> str:
        return "\n".join(f"{o.bytes / 2**20:12.2f} MiB  {o.tensors:6}  {o.device:7}  {o.name}" for o in self.owners)

    def to_dict(self) -> dict[str, Any]:
        return {"owners": [vars(owner) for owner in self.owners]}


class Released(int):
    """Bytes that were freed; held_by says who still holds what was to go."""

    held_by: tuple[str, ...]

    def __new__(cls, freed: int, held_by: tuple[str, ...]) -> Released:
        self = super().__new__(cls, freed)
        self.held_by = held_by
        return self

    def __reduce__(self) -> Any:
        return Released, (int(self), self.held_by)

    def __repr__(self) -> str:
        text = f"{int(self):,} bytes freed"
        return text + ("; still held by " + "; ".join(self.held_by) if self.held_by else "")

    __str__ = __repr__


# ---- names ----


def tensors_of(value: Any, name: str, depth: int = DEPTH, budget: list[int] | None = None) -> Iterator[tuple[str, Any]]:
    """(name, tensor) of all tensors that a value reaches through containers and attributes, breadth first."""
    tensor = _torch.torch().Tensor
    left = [LOOKS] if budget is None else budget
    queue: deque[tuple[str, Any, int]] = deque([(name, value, depth)])
    seen = set()
    while queue and left[0] > 0:
        left[0] -= 1
        at, item, more = queue.popleft()
        if issubclass(type(item), tensor):
            yield at, item
            grad = item.grad if item.is_leaf else None
            if grad is not None:
                yield at + ".grad", grad
            continue
        if more == 0 or id(item) in seen or issubclass(type(item), (str, bytes, int, float, type, ModuleType, FrameType)):
            continue
        seen.add(id(item))
        # A look at an object can run its own code: a proxy of a request that is over raises at __dict__ and at __class__.
        with contextlib.suppress(Exception):
            for part, inner in parts(item):
                queue.append((at + part, inner, more - 1))


def parts(item: Any) -> Iterator[tuple[str, Any]]:
    """What a container or an object has, with how Python writes it."""
    if isinstance(item, dict):
        for key, inner in list(item.items()):
            yield f"[{key!r}]" if isinstance(key, (str, int)) else "[...]", inner
    elif isinstance(item, (list, tuple, set, frozenset, deque)):
        for inner in list(item):
            yield "[...]", inner
    else:
        held = getattr(item, "__dict__", None)
        if isinstance(held, dict):
            for key, inner in list(held.items()):
                if key in ("_parameters", "_buffers", "_modules") and isinstance(inner, dict):  # of an nn.Module
                    for name, part in list(inner.items()):
                        yield f".{name}", part
                else:
                    yield f".{key}", inner
        cells = getattr(item, "__closure__", None)
        for name, cell in zip(getattr(getattr(item, "__code__", None), "co_freevars", ()), cells or ()):
            try:
                yield f"<{name}>", cell.cell_contents
            except ValueError:
                pass  # not bound yet


def roots(skip: FrameType | None = None) -> Iterator[tuple[str, Any]]:
    """(name, value) of what programs hold: locals of all running functions, globals of the user's own modules."""
    for first in list(sys._current_frames().values()):
        frame: FrameType | None = first
        while frame is not None:
            code = frame.f_code
            if frame is not skip and not code.co_filename.startswith((OUR_FOLDER, "<frozen")) and code.co_name != "<module>":
                where = f"{os.path.basename(code.co_filename)}:{frame.f_lineno} {code.co_name}"
                for name, value in list(frame.f_locals.items()):
                    yield f"{where}: {name}", value
            frame = frame.f_back
    for name, module in list(sys.modules.items()):
        try:  # A module that imports itself lazily raises what its import raises.
            file = getattr(module, "__file__", None) or ""
            variables = list(vars(module).items()) if name == "__main__" or file and not library_file(file) else []
        except Exception:
            continue
        short = os.path.basename(file) or name
        for variable, value in variables:
            if not variable.startswith("__"):
                yield f"{short}: {variable}", value


def library_file(path: str) -> bool:
    return path.startswith((sys.prefix, sys.base_prefix, OUR_FOLDER)) or "site-packages" in path or "dist-packages" in path


# ---- by owner ----


def by_owner(model: Any = None, optimizer: Any = None) -> Owners:
    """All tensors of this process, on GPUs and in host memory, by who holds them.

    model, optimizer: their parameters, buffers, gradients and state get lines of their own; what is left is named after the
    variable that reaches it ("train.py:31 main: losses[...]").  Looks at every object once: for diagnosis, not for loops.
    """
    torch = _torch.torch()
    owner_of: dict[Any, str] = {}

    def claim(tensor: Any, name: str) -> None:
        key = key_of(tensor)
        if key is not None:
            owner_of.setdefault(key, name)

    if model is not None:
        for parameter in model.parameters():
            claim(parameter, "model: parameters")
            if parameter.grad is not None:
                claim(parameter.grad, "model: gradients")
        for buffer in model.buffers():
            claim(buffer, "model: buffers")
    for state in (getattr(optimizer, "state", None) or {}).values():
        for value in state.values():
            if isinstance(value, torch.Tensor):
                claim(value, "optimizer: state")
    budget = [LOOKS]
    for name, value in roots():
        for path, tensor in tensors_of(value, name, budget=budget):
            claim(tensor, collapse(path))
    found: dict[tuple[str, str], list[int]] = {}
    counted = set()
    for item in gc.get_objects():
        if issubclass(type(item), torch.Tensor):
            key = key_of(item)
            if key is None or key in counted:
                continue
            counted.add(key)
            row = found.setdefault((owner_of.get(key, "held by no variable that was found"), key[0]), [0, 0])
            row[0] += item.untyped_storage().nbytes()
            row[1] += 1
    rows = [Owner(name, device, n, count) for (name, device), (n, count) in found.items()]
    return Owners(tuple(sorted(rows, key=lambda row: -row.bytes)))


def key_of(tensor: Any) -> tuple[str, int] | None:
    """None: it has no bytes of its own (meta, fake, sparse, empty)."""
    try:
        key = storage_key(tensor)
    except (RuntimeError, NotImplementedError):
        return None
    return None if key[1] == 0 or key[0] == "meta" else key


def collapse(path: str) -> str:
    """The variable and its first container: what is below belongs together."""
    place, _, variable = path.partition(": ")
    end = next((i for i, c in enumerate(variable) if c in "[.<"), len(variable))
    return f"{place}: {variable[:end]}" + ("[...]" if variable[end:end + 1] == "[" else "")


# ---- giving back ----


NOBODY = ("this call itself, until it returns (Python 3.10)" if sys.version_info < (3, 11)
          else "something that no variable reaches")


def release(*objects: Any) -> Released:
    """Let go of objects and give their memory back: bytes freed, and who still holds them.

    Variables of the caller's module that are these objects are deleted; locals of functions cannot be (del them).  Then
    cycles are collected, and cached blocks are returned to the driver.  Python 3.10 holds the arguments of a call until it
    returns: what nothing else holds is free only then, and is not counted.

    >>> release(model, optimizer)                        # doctest: +SKIP
    8,301,182,976 bytes freed; still held by train.py:40 evaluate: outputs[...]
    """
    import weakref

    memory = _torch.memory_of() if _torch.cuda_started() else None
    before = memory.numbers()[0] if memory else 0
    watched, freed_host = [], 0
    for value in objects:
        for _, tensor in tensors_of(value, ""):
            key = key_of(tensor)
            if key is not None:
                watched.append((key, tensor.untyped_storage().nbytes(), weakref.ref(tensor)))
    namespace = sys._getframe(1).f_globals
    mine = {id(value) for value in objects}
    for name in [name for name, value in namespace.items() if id(value) in mine]:
        del namespace[name]
    del objects, mine
    value = tensor = None  # the loops' own
    gc.collect()
    alive = {key for key, _, reference in watched if reference() is not None}
    if memory is not None:
        _torch.torch().cuda.empty_cache()
        freed = before - memory.numbers()[0]
    else:
        freed = sum({key: n for key, n, _ in watched if key not in alive}.values())
    held: dict[str, int] = {}
    if alive:
        for name, root in roots():
            for path, found in tensors_of(root, name, budget=[LOOKS // 10]):
                if key_of(found) in alive:
                    held.setdefault(collapse(path), 0)
    return Released(max(0, freed), tuple(held) if held or not alive else (NOBODY,))


def free_last_exception() -> int:
    """Let go of the last uncaught exception, which holds the locals of every frame it went through; bytes freed.

    In notebooks and at the prompt Python keeps it in sys.last_exc, sys.last_value and sys.last_traceback.
    """
    memory = _torch.memory_of() if _torch.cuda_started() else None
    before = memory.numbers()[0] if memory else 0
    for name in ("last_exc", "last_value"):
        forget(getattr(sys, name, None))
    for name in ("last_exc", "last_value", "last_traceback", "last_type"):
        if hasattr(sys, name):
            delattr(sys, name)
    shell = sys.modules.get("IPython")
    ip = shell.get_ipython() if shell is not None else None
    formatter = getattr(ip, "InteractiveTB", None)
    if formatter is not None:
        formatter.tb = formatter.etb = formatter.value = formatter.etype = formatter.evalue = formatter.pdb = None
    if memory is None or memory.numbers()[0] == before:
        gc.collect()
    return max(0, before - memory.numbers()[0]) if memory else 0


def forget(error: BaseException | None) -> None:
    """Clear the frames of an exception and of those behind it; running frames cannot be cleared."""
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if error.__traceback__ is not None:
            traceback.clear_frames(error.__traceback__)
        error.__traceback__ = None
        error = error.__cause__ or error.__context__
