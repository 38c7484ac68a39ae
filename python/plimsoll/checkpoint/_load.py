"""Loading a checkpoint of plimsoll.checkpoint: compare everything first, then copy."""
from __future__ import annotations

import json
import os
import zipfile
from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, Mapping, Sequence

from . import _architecture, _state
from .. import _loader, _torch
from .._loader import Opened, Row
from ..errors import ArgumentError, FormatError, NotFoundError

INDEX = "archive/plimsoll.json"  # of a file of torch: what its tensors are called, and where they lie
INDEX_BYTES = 100_000_000
SHOWN = 40  # differences that a message names


@dataclass(frozen=True, slots=True)
class Loaded:
    """What load() did."""

    path: str
    step: int
    metrics: dict[str, float]
    values: dict[str, Any]  # plain values that were saved, by name
    skipped: tuple[str, ...] = ()  # newer ones that are damaged
    notes: tuple[str, ...] = ()  # what keeps the run from being exactly the same
    time: str | None = None  # when it was saved, as ISO 8601 in UTC; None: an older version saved it
    host: str | None = None  # where


class TensorFile:
    """A file of tensors, NAME.safetensors or NAME.pt as the library writes it.  Its threads read it, to where tensors belong."""

    def __init__(self, folder: str, name: str) -> None:
        self.path = os.path.join(folder, name + ".pt")
        if not os.path.exists(self.path):
            self.path = os.path.join(folder, name + ".safetensors")
        self._held: dict[str, Any] | None = None

    def _rows(self, opened: Opened) -> dict[str, Row]:
        """By the names that they were saved under."""
        if not self.path.endswith(".pt"):
            return {row.name: row for row in opened.rows}
        at = {(row.place[1], row.dtype, row.shape): row for row in opened.rows if row.bytes}
        found = {}
        for name, told in self._index().items():
            (begin, end), dtype, shape = told["data_offsets"], told["dtype"], tuple(told["shape"])
            row = at.get((begin, dtype, shape)) if begin != end else Row(0, name, dtype, shape, None, 0, ())
            if row is None:
                raise FormatError(f"'{self.path}' has no tensor where '{name}' is to be", path=self.path)
            found[name] = row
        return found

    def _index(self) -> dict[str, Any]:
        try:
            with zipfile.ZipFile(self.path) as archive:
                if archive.getinfo(INDEX).file_size > INDEX_BYTES:
                    raise KeyError
                found: dict[str, Any] = json.loads(archive.read(INDEX))
                return found
        except (KeyError, ValueError, zipfile.BadZipFile):
            raise FormatError(f"'{self.path}' was not written by a Checkpointer, or is damaged", path=self.path) from None

    def _read(self, opened: Opened, wanted: Iterable[tuple[Row, Any]]) -> None:
        places: dict[int, dict[int, Row]] = {}
        for row, tensor in wanted:
            if row.bytes != tensor.numel() * tensor.element_size():
                raise FormatError(f"'{self.path}' has a tensor '{row.name}' whose size is not that of its shape", path=self.path)
            if row.bytes:
                places.setdefault(_loader.device_number(tensor.device), {})[tensor.data_ptr()] = row
        for device, rows in places.items():
            _loader.shared(device, None).load(opened, [(row.number, at) for at, row in rows.items()])

    def into(self, copies: Sequence[tuple[Any, str]]) -> None:
        """Tensors that have the dtypes and shapes of these; each as if it were written by an in-place operation."""
        torch = _torch.torch()
        count = getattr(torch.autograd.graph, "increment_version", None)
        straight: list[tuple[Any, str]] = []
        others: list[tuple[Any, str]] = []
        for tensor, name in copies:
            plain = type(tensor.data) is torch.Tensor and tensor.is_contiguous() and not tensor.is_inference()
            (straight if plain and count else others).append((tensor, name))
        if straight and count:
            with Opened(self.path) as opened:
                rows = self._rows(opened)
                self._read(opened, [(rows[name], tensor) for tensor, name in straight])
            for tensor, _ in straight:
                count(tensor)
        for tensor, name in others:
            tensor.copy_(_spread(self[name], tensor))

    def hold(self, device: Callable[[str, Row], Any] = lambda name, row: "cpu") -> None:
        """All of them, where device() says."""
        torch = _torch.torch()
        self._held = {}
        if not os.path.exists(self.path):
            return
        with Opened(self.path) as opened:
            rows = self._rows(opened)
            for name, row in rows.items():
                self._held[name] = torch.empty(row.shape, dtype=_loader.dtype_of(row.dtype, name), device=device(name, row))
            self._read(opened, [(rows[name], tensor) for name, tensor in self._held.items()])

    def __getitem__(self, name: str) -> Any:
        if self._held is None:
            self.hold()
        assert self._held is not None
        return self._held[name]


def optimizer_file(name: str) -> str:
    return f"optimizer-{name}" if name else "optimizer"


def _json(path: str, schema: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as f:
            found = json.load(f)
    except OSError as why:
        raise NotFoundError(f"cannot read '{path}': {why.strerror}", path=path) from None
    except ValueError as why:
        raise FormatError(f"'{path}' is not JSON: {why}", path=path) from None
    if not isinstance(found, dict) or found.get("schema") != schema:
        raise FormatError(f"'{path}' is not of schema {schema}", path=path)
    return found


def _renamed(name: str, rename: Mapping[str, str] | Callable[[str], str] | None) -> str:
    if rename is None:
        return name
    if callable(rename):
        return rename(name)
    for old, new in rename.items():
        if name.startswith(old):
            return new + name[len(old):]
    return name


@dataclass
class Compared:
    """A checkpoint next to what it is to be loaded into; `lines` are all differences."""

    path: str
    rank: int
    world: int
    model: Any
    optimizers: Mapping[str, Any]
    stateful: Mapping[str, Any]
    partial: Sequence[str]
    rename: Mapping[str, str] | Callable[[str], str] | None
    strict_architecture: bool = True
    notes: list[str] = field(default_factory=list)  # differences that were allowed
    lines: list[str] = field(default_factory=list)
    copies: list[tuple[Any, str]] = field(default_factory=list)  # a tensor of the model, a name in the file

    def __post_init__(self) -> None:
        self.state = _json(os.path.join(self.path, "state.json"), "state/1")
        rank = self.rank if self.world == self.state["world"] else 0
        self.own = _json(os.path.join(self.path, f"rank-{rank:05d}.json"), "rank/1")
        self.own_file = TensorFile(self.path, f"rank-{rank:05d}")
        sharded = self.state.get("sharded", [])
        self.shards = self._compare_shards(sharded) if sharded else None
        self._compare_architecture()
        if self.model is not None and "model" not in sharded:
            self._compare_model()
        for name, optimizer in self.optimizers.items():
            if optimizer_file(name) not in sharded:
                self._compare_optimizer(name, optimizer)
        for name in self.stateful:
            if name not in sharded:
                self._compare_stateful(name, self.stateful[name])

    def _held(self) -> dict[str, str]:
        """All that the checkpoint holds: what it is, by the keyword that load() takes it by."""
        state, sharded = self.state, self.state.get("sharded", [])
        held = {"model": "a module"} if state["model"] is not None or "model" in sharded else {}
        held.update({f"optimizer['{name}']" if name else "optimizer": "an optimizer" for name in state["optimizers"]})
        for name in sharded:
            _, several, key = name.partition("optimizer-")
            name = f"optimizer['{key}']" if several and name.startswith("optimizer-") else name
            held.setdefault(name, "an optimizer" if name.startswith("optimizer") else "an object with state_dict()")
        for name, saved in {**state["stateful"], **self.own["stateful"]}.items():
            held[name] = _kind_of_saved(saved)
        return held

    def _missing(self, label: str, kind: str, name: str) -> None:
        """The line for an object that is given and was not saved: what of its kind was saved under another name."""
        held = self._held()
        kinds = {"a module": ("a module", "an object with state_dict()"), "an optimizer": ("an optimizer",)}.get(kind, ())
        like = [one for one, what in held.items() if what in kinds]
        if len(like) == 1 and "[" not in like[0]:
            self.lines.append(f"{label} not in the checkpoint, which has '{like[0]}', {held[like[0]]}: load with {like[0]}={name}")
        else:
            there = ", ".join(f"{one} ({what})" for one, what in held.items()) or "nothing"
            self.lines.append(f"{label} not in the checkpoint, which has {there}")

    def _compare_stateful(self, name: str, target: Any) -> None:
        saved = self.own["stateful"].get(name, self.state["stateful"].get(name))
        if saved is None:
            self._missing(f"'{name}' is", _kind_of(target), name)
        elif saved["kind"] == "generator" and not _state.takes_generator(target, _generator_keys(saved["value"])):
            self.lines.append(f"'{name}' is a generator of another kind in the checkpoint, here it is {_kind(target)}")
        elif saved["kind"] == "state_dict" and not hasattr(target, "load_state_dict"):
            self.lines.append(f"'{name}' has a state_dict() in the checkpoint, here it is {_kind(target)} without load_state_dict()")

    def _compare_shards(self, sharded: Sequence[str]) -> Any:
        from . import _sharded

        shards = _sharded.Shards(self.path, lambda name: _renamed(name, self.rename), self.partial)
        if self.model is not None and "model" in sharded:
            self.lines += shards.model(self.model)
        for name, optimizer in self.optimizers.items():
            if optimizer_file(name) in sharded:
                if self.model is None:
                    raise ArgumentError("the optimizer of a sharded model is loaded with the model, which names its parameters")
                self.lines += shards.optimizer(optimizer_file(name), self.model, optimizer)
        for name, target in self.stateful.items():
            if name in sharded:
                self.lines += shards.stateful(name, target)
        return shards

    def _compare_architecture(self) -> None:
        saved = self.state.get("architecture")  # older checkpoints have none
        if self.model is None or saved is None:
            return
        found = _architecture.differences(saved, _architecture.of(self.model))
        if not found:
            return
        if self.strict_architecture and not self.partial and self.rename is None:
            self.lines += [*found, "strict_architecture=False loads it all the same, and notes this"]
        else:
            self.notes += found

    def _compare_model(self) -> None:
        saved = self.state["model"]
        if saved is None:
            self._missing("the model is", "a module", "model")
            return
        self.file = TensorFile(self.path, "model")
        stored = {name: saved["ties"].get(name, name) for name in saved["tensors"]}
        found = {_renamed(name, self.rename): (name, tuple(row)) for name, row in saved["tensors"].items()}
        target = {name: value for name, value in _state.bare(self.model).state_dict().items() if hasattr(value, "data_ptr")}
        wanted = _state.rows_of(target, {})
        there = {name: row for name, (_, row) in found.items()}
        lines = _state.differences(wanted, there, self.partial)
        if lines:
            hint = _state.suggest(wanted, there)
            self.lines += lines + ([hint] if hint else [])
        for name, tensor in target.items():
            if name in found and wanted[name] == (found[name][1][0], list(found[name][1][1])):
                self.copies.append((tensor, stored[found[name][0]]))

    def _compare_optimizer(self, name: str, optimizer: Any) -> None:
        if any(_state.is_sharded(p) for group in optimizer.param_groups for p in group["params"]):
            self.lines.append("the optimizer's parameters lie in parts on several ranks, the checkpoint's do not: load the model alone")
            return
        label = f"optimizer '{name}'" if name else "the optimizer"
        saved = self.state["optimizers"].get(name)
        if saved is None:
            self._missing(f"{label} is", "an optimizer", name or "optimizer")
            return
        names = _state.parameter_names(optimizer, self.model)
        at = 0
        groups = []
        for group in optimizer.param_groups:
            groups.append(set(names[at:at + len(group["params"])]))
            at += len(group["params"])
        if type(optimizer).__qualname__ != saved["class"]:
            self.lines.append(f"{label} is {type(optimizer).__qualname__}, in the checkpoint it is {saved['class']}")
        if len(groups) != len(saved["groups"]):
            self.lines.append(f"{label} has {len(groups)} groups of parameters, in the checkpoint {len(saved['groups'])}")
        if self.model is None:
            named = {one for group in saved["groups"] for one in group["params"]}
            if named - set(names) and not named & set(names):
                self.lines.append(f"{label}: its parameters have the model's names in the checkpoint: give model=, too")
                return
        for i, (mine, theirs) in enumerate(zip(groups, saved["groups"])):
            kept = {_renamed(one, self.rename) for one in theirs["params"]}
            self.lines += [f"{label}: group {i} has '{one}', in the checkpoint it has not" for one in sorted(mine - kept)]
            self.lines += [f"{label}: group {i} of the checkpoint has '{one}', here it has not" for one in sorted(kept - mine)]


def _kind(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _kind_of(value: Any) -> str:
    """What an object is to save(), in words."""
    if _state.is_generator(value):
        return "a generator"
    if _state.is_optimizer(value):
        return "an optimizer"
    return "an object with state_dict()" if hasattr(value, "state_dict") else "a value"


def _kind_of_saved(saved: Mapping[str, Any]) -> str:
    """The same, of what save() wrote."""
    value = saved["value"]
    if saved["kind"] == "state_dict" and isinstance(value, dict) and {"state", "param_groups"} <= value.keys():
        return "an optimizer"
    return {"generator": "a generator", "state_dict": "an object with state_dict()"}.get(saved["kind"], "a value")


def _generator_keys(packed: Any) -> set[str]:
    return set(packed) if isinstance(packed, dict) else set()


def _notes(state: Mapping[str, Any], world: int) -> list[str]:
    notes = [f"{name} was {state['versions'].get(name)}, is {now}" for name, now in _state.versions().items()
             if name in state["versions"] and state["versions"][name] != now]
    if world != state["world"]:
        notes.append(f"{state['world']} ranks saved, {world} load: each begins with the generators of rank 0")
    return notes


def _load_optimizer(compared: Compared, name: str, optimizer: Any) -> None:
    saved = compared.state["optimizers"][name]
    tensors = TensorFile(compared.path, optimizer_file(name))
    names = _state.parameter_names(optimizer, compared.model)
    number = {one: i for i, one in enumerate(names)}
    owners = dict(zip(names, (p for group in optimizer.param_groups for p in group["params"])))

    def device(place: str, row: Row) -> Any:
        """Moments are to be where their parameter is; what else there is load_state_dict() moves itself."""
        owner = owners.get(_renamed(place.rpartition("/")[0], compared.rename))
        return owner.device if owner is not None and owner.dim() and tuple(owner.shape) == row.shape else "cpu"

    tensors.hold(device)
    groups = []
    for mine, theirs in zip(optimizer.state_dict()["param_groups"], saved["groups"]):
        groups.append({**_state.unpack(theirs, tensors), "params": list(mine["params"])})
    state = {number[_renamed(one, compared.rename)]: _state.unpack(value, tensors) for one, value in saved["state"].items()}
    optimizer.load_state_dict({"state": state, "param_groups": groups, **_state.unpack(saved["rest"], tensors)})


def _load_stateful(compared: Compared, name: str, target: Any) -> Any:
    own = name in compared.own["stateful"]
    saved = (compared.own if own else compared.state)["stateful"][name]
    tensors = compared.own_file if own else TensorFile(compared.path, name)
    value = _state.unpack(saved["value"], tensors)
    if saved["kind"] == "generator":
        _state.set_generator_state(target, value)
    elif saved["kind"] == "state_dict":
        target.load_state_dict(value)
    return value


def _spread(whole: Any, target: Any) -> Any:
    """As a DTensor like the target, if that is one: each rank has read the whole."""
    if not hasattr(target, "_local_tensor"):
        return whole
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(whole.to(target.device), target.device_mesh, target.placements)


def read(compared: Compared, rng: bool, skipped: Sequence[str]) -> Loaded:
    """Copy what was compared.  Raises FormatError with all differences, before anything is changed."""
    torch = _torch.torch()
    if compared.lines:
        shown = compared.lines[:SHOWN] + ([f"and {len(compared.lines) - SHOWN} more"] if len(compared.lines) > SHOWN else [])
        raise FormatError(f"'{compared.path}' does not fit, nothing was loaded:\n  " + "\n  ".join(shown), path=compared.path)
    with torch.no_grad():
        if compared.copies:
            compared.file.into(compared.copies)
    if compared.shards is not None:
        compared.shards.load()
    if compared.model is not None and compared.state["model"] is not None and compared.state["model"]["extra"]:
        extra = _state.unpack(compared.state["model"]["extra"], compared.file)
        _state.bare(compared.model).load_state_dict(extra, strict=False)
    sharded = compared.state.get("sharded", [])
    for name, optimizer in compared.optimizers.items():
        if optimizer_file(name) not in sharded:
            _load_optimizer(compared, name, optimizer)
    values = {}
    for name, entry in compared.state["stateful"].items():
        if entry["kind"] == "value":
            values[name] = _state.unpack(entry["value"], TensorFile(compared.path, name))
    for name, target in compared.stateful.items():
        if name not in sharded:
            _load_stateful(compared, name, target)
    notes = compared.notes + _notes(compared.state, compared.world)
    if rng:
        notes += [f"the generator of {one} was not restored" for one in
                  _state.set_rng_state(_state.unpack(compared.own["rng"], compared.own_file))]
    return Loaded(compared.path, int(compared.state["step"]), dict(_state.unpack(compared.state["metrics"], {})), values, tuple(skipped), tuple(notes),
                  compared.state.get("time"), compared.state.get("host"))
