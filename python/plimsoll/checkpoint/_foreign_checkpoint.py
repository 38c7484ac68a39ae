"""load(): a checkpoint that something else wrote into a model, its optimizer and its scheduler.

Nothing is known by its key: a part is found by its shape.  A model's state is the mapping whose names are the model's, an
optimizer's has "state" and "param_groups", a scheduler's has the scheduler's own keys.
"""
from __future__ import annotations

import glob
import json
import os
from dataclasses import dataclass, field
from typing import Any, Iterable, Iterator, Mapping, Sequence

from . import _state, _torch_file
from .. import _torch
from .._by_name import by_name
from .._input import PathLike
from ._load import SHOWN
from .._loader import load_file
from ._torch_file import Opaque
from ..errors import ArgumentError, FormatError, NotFoundError, UnsupportedError

MANIFEST = "plimsoll.manifest.json"
MOST_DEPTH = 4  # of mappings and lists in which parts are looked for
WEIGHTS = ("model.safetensors.index.json", "model.safetensors", "adapter_model.safetensors", "pytorch_model.bin.index.json",
           "pytorch_model.bin")  # of a folder of Transformers, as it looks for them
WRAPPERS = ("_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")  # that torch puts inside of names


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """What plimsoll.checkpoint.load() did."""

    path: str
    model_key: str  # which part of the file became the model's state; "": the file itself
    prefix: str  # what its names began with and the model's do not; "+x": what the model's begin with and its do not
    loaded: tuple[str, ...]  # names of the model that were loaded
    missing: tuple[str, ...]  # names of the model that the file has not
    unexpected: tuple[str, ...]  # names of the file that the model has not
    other_shapes: tuple[str, ...]  # a line each: name, shape in the model, shape in the file
    values: dict[str, Any]  # what else the file has (epoch, loss), by its key
    notes: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Nothing was left out."""
        return not (self.missing or self.unexpected or self.other_shapes)

    def __str__(self) -> str:
        head = f"{self.path}: {len(self.loaded)} tensors of the model were loaded"
        head += f" from '{self.model_key}'" if self.model_key else ""
        head += f", without the prefix '{self.prefix}'" if self.prefix and self.prefix[0] != "+" else ""
        lines = [*left_out(self.missing, self.unexpected, self.other_shapes), *self.notes]
        return "\n  ".join([head, *lines])


def left_out(missing: Iterable[str], unexpected: Iterable[str], other_shapes: Iterable[str]) -> list[str]:
    return [*(f"'{name}' is only in the model" for name in missing), *(f"'{name}' is only in the file" for name in unexpected),
            *other_shapes]


# ---- reading ----


@dataclass
class Tree:
    """What a file or a folder holds; notes are for LoadedFile."""

    path: str
    map_location: Any
    value: Any = None
    notes: list[str] = field(default_factory=list)

    def read(self, path: str) -> Any:
        if path.endswith((".safetensors", ".safetensors.index.json")):
            from ..verbs import verify

            told = verify(path, values=False)
            if told.verdict not in ("whole", "unproven"):
                raise FormatError(f"'{path}' is not loaded: {told.headline}", path=path)
            if told.verdict == "unproven":
                self.notes.append(f"{os.path.basename(path)}: it has no checksums, so a changed bit cannot be seen")
            return load_file(path, "cpu")
        found, notes = _torch_file.read(path, self.map_location)
        self.notes += notes
        whole = _torch_file.module_state(found)
        return found if whole is None else whole

    def shards(self, index: str) -> dict[str, Any]:
        """Of pytorch_model.bin.index.json: names of files of the same folder."""
        with open(index, encoding="utf-8") as f:
            names = json.load(f).get("weight_map", {})
        files = sorted({str(name) for name in names.values()})
        if not files or any(os.path.basename(name) != name for name in files):
            raise FormatError(f"'{index}' names no files of its folder", path=index)
        return {name: tensor for one in files for name, tensor in self.read(os.path.join(os.path.dirname(index), one)).items()}

    def folder(self, model: bool, others: Sequence[str]) -> dict[str, Any]:
        """A folder of Transformers' Trainer: only what is asked for is read."""
        found: dict[str, Any] = {}
        weights = next((one for one in WEIGHTS if os.path.exists(os.path.join(self.path, one))), None)
        if model and weights is not None:
            at = os.path.join(self.path, weights)
            found["model"] = self.shards(at) if at.endswith(".bin.index.json") else self.read(at)
        for name in others:
            if os.path.exists(os.path.join(self.path, name + ".pt")):
                found[name] = self.read(os.path.join(self.path, name + ".pt"))
        state = os.path.join(self.path, "trainer_state.json")
        if os.path.exists(state):
            with open(state, encoding="utf-8") as f:
                found.update({name: value for name, value in json.load(f).items() if isinstance(value, (int, float, str))})
        if not found:
            kinds = ", ".join(sorted(os.path.basename(one) for one in glob.glob(glob.escape(self.path) + "/*"))[:5])
            raise NotFoundError(f"'{self.path}' has no weights of Transformers ({kinds or 'it is empty'})", path=self.path,
                                remedy="name the file")
        return found


def read_tree(path: str, map_location: Any, model: bool, others: Sequence[str]) -> Tree:
    tree = Tree(path, map_location)
    if not os.path.exists(path):
        raise NotFoundError(f"there is no '{path}'", path=path)
    if os.path.exists(os.path.join(path, MANIFEST)):
        raise UnsupportedError(f"'{path}' is a checkpoint of a Checkpointer", path=path,
                               remedy=f"Checkpointer({os.path.dirname(os.path.abspath(path))!r}).load({os.path.basename(path)!r}, ...)")
    try:
        tree.value = tree.folder(model, others) if os.path.isdir(path) else tree.read(path)
    except (ValueError, AttributeError) as why:
        raise FormatError(f"'{path}' cannot be read: {why}", path=path) from None
    return tree


def nodes(value: Any, key: str = "", depth: int = MOST_DEPTH) -> Iterator[tuple[str, Mapping[Any, Any]]]:
    """All mappings, with the keys that lead to them joined by dots; the outer ones first."""
    if isinstance(value, Mapping):
        yield key, value
    items: Iterable[tuple[Any, Any]] = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items if depth else ():
        if isinstance(inner, (Mapping, list)):
            yield from nodes(inner, f"{key}.{name}" if key else str(name), depth - 1)


# ---- the model ----


def unwrapped(name: str) -> str:
    for one in WRAPPERS:
        name = name.replace(one, "")
    return name


@dataclass
class ModelPart:
    """A model next to the part of the file that is its state."""

    key: str
    prefix: str
    state: dict[str, Any] = field(default_factory=dict)  # by the model's names
    missing: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    other_shapes: list[str] = field(default_factory=list)
    other_dtypes: dict[str, int] = field(default_factory=dict)


def find_model(tree: Tree, own: Mapping[str, Any], model_key: str | None) -> tuple[str, Mapping[str, Any], str]:
    """(key, mapping, prefix) of what has the most of the model's names.  Raises FormatError: none has; ArgumentError: two have."""
    torch = _torch.torch()
    names = [unwrapped(name) for name in own]
    found = []
    for key, node in nodes(tree.value):
        tensors = {name: one for name, one in node.items() if isinstance(name, str) and isinstance(one, torch.Tensor)}
        if tensors and (model_key is None or key == model_key):
            prefix, count = _state.prefix_of(names, map(unwrapped, tensors))
            found.append((count, key, node, prefix))
    best = max((count for count, *_ in found), default=0)
    if not best:
        raise FormatError(no_model(tree, names, model_key), path=tree.path)
    equal = [row for row in found if row[0] == best]
    if len(equal) > 1:
        keys = ", ".join(f"'{row[1]}'" for row in equal)
        raise ArgumentError(f"'{tree.path}' has {len(equal)} states of the model: {keys}", remedy=f"model_key='{equal[0][1]}' takes that one")
    return equal[0][1], equal[0][2], equal[0][3]


def no_model(tree: Tree, names: Sequence[str], model_key: str | None) -> str:
    """Why no part of the file is the model's state, with a name of each side."""
    torch = _torch.torch()
    held = {key: [name for name, one in node.items() if isinstance(one, torch.Tensor)] for key, node in nodes(tree.value)}
    held = {key: tensors for key, tensors in held.items() if tensors}
    there = ", ".join(f"'{key}'" if key else "the file itself" for key in list(held)[:6]) + (", ..." if len(held) > 6 else "")
    if not held:
        return f"'{tree.path}' has no tensors"
    if model_key is not None and model_key not in held:
        return f"'{tree.path}' has no tensors under '{model_key}'; it has some in: {there}"
    key = max(held, key=lambda one: len(held[one])) if model_key is None else model_key
    under = f" in '{key}'" if key else ""
    text = f"'{tree.path}': no name matches: the file has {held[key][0]}{under}, the model {next(iter(names), 'no tensors')}"
    return text if len(held) == 1 or model_key is not None else f"{text}; mappings of tensors in the file: {there}"


def compare_model(tree: Tree, model: Any, model_key: str | None) -> ModelPart:
    own = {name: one for name, one in model.state_dict().items() if hasattr(one, "data_ptr")}
    if _state.is_sharded(model):
        raise UnsupportedError("the model lies in parts on several ranks", remedy="load it before it is sharded")
    meta = next((name for name, one in own.items() if one.device.type == "meta"), None)
    if meta is not None:
        raise ArgumentError(f"'{meta}' of the model has no memory (meta)", remedy="model.to_empty(device=...) first")
    key, node, prefix = find_model(tree, own, model_key)
    part = ModelPart(key, prefix)
    by_short = {unwrapped(name): name for name in own}
    for name, tensor in node.items():
        if not hasattr(tensor, "data_ptr"):
            continue
        short = unwrapped(str(name))
        if prefix.startswith("+"):
            mine = by_short.get(prefix[1:] + short)
        else:
            mine = by_short.get(short[len(prefix):]) if short.startswith(prefix) else None
        if mine is None:
            part.unexpected.append(str(name))
        elif tensor.shape != own[mine].shape:
            part.other_shapes.append(f"'{mine}' is {list(own[mine].shape)} in the model, {list(tensor.shape)} in the file")
        else:
            part.state[mine] = tensor
            if tensor.dtype != own[mine].dtype:
                change = f"{_state.dtype_name(tensor.dtype)} in the file and become {_state.dtype_name(own[mine].dtype)}"
                part.other_dtypes[change] = part.other_dtypes.get(change, 0) + 1
    other = {line.split("'")[1] for line in part.other_shapes}
    # A tied tensor is in many files under one of its names alone.
    there = {own[name].data_ptr() for name in part.state if own[name].numel()}
    part.missing = [name for name, one in own.items() if name not in part.state and name not in other and one.data_ptr() not in there]
    return part


# ---- optimizer and scheduler ----


def optimizer_lines(optimizer: Any, saved: Mapping[str, Any]) -> list[str]:
    """Why a state is not this optimizer's; one line each."""
    mine, theirs = optimizer.param_groups, saved["param_groups"]
    if len(mine) != len(theirs):
        return [f"the optimizer has {len(mine)} groups of parameters, in the file {len(theirs)}"]
    lines = []
    for i, (here, there) in enumerate(zip(mine, theirs)):
        if len(here["params"]) != len(there["params"]):
            lines.append(f"group {i} of the optimizer has {len(here['params'])} parameters, in the file {len(there['params'])}")
        only_here, only_there = sorted(here.keys() - there.keys()), sorted(there.keys() - here.keys() - {"initial_lr"})
        if only_here and only_there:  # versions of one optimizer add options; another optimizer has others
            lines.append(f"the optimizer ({type(optimizer).__name__}) has '{only_here[0]}', the file's has '{only_there[0]}': it is another one")
        for parameter, number in zip(here["params"], there["params"]):
            state = saved["state"].get(number, {})
            shapes = {tuple(one.shape) for one in state.values() if hasattr(one, "data_ptr") and one.dim()} if isinstance(state, Mapping) else set()
            if shapes and parameter.dim() and all(len(one) == parameter.dim() for one in shapes) and tuple(parameter.shape) not in shapes:
                lines.append(f"parameter {number} of the optimizer is {list(parameter.shape)}, its state in the file {list(min(shapes))}")
    return lines


def also_there(tree: Tree) -> str:
    """The keys of the file, for an error."""
    keys = [str(key) for key in tree.value] if isinstance(tree.value, Mapping) else []
    shown = ", ".join(f"'{key}'" for key in keys[:6])
    return f"; the file has {shown}{f' and {len(keys) - 6} more' if len(keys) > 6 else ''}" if keys else ""


def find_optimizer(tree: Tree, optimizer: Any) -> tuple[str, Mapping[str, Any]]:
    found = [(key, node) for key, node in nodes(tree.value)
             if isinstance(node.get("state"), Mapping) and isinstance(node.get("param_groups"), list)
             and all(isinstance(group, Mapping) and isinstance(group.get("params"), list) for group in node["param_groups"])]
    if not found:
        raise FormatError(f"'{tree.path}' has no state of an optimizer{also_there(tree)}", path=tree.path)
    fitting = [one for one in found if not optimizer_lines(optimizer, one[1])]
    if len(fitting) > 1:
        keys = ", ".join(f"'{key}'" for key, _ in fitting)
        raise ArgumentError(f"'{tree.path}' has {len(fitting)} states that fit the optimizer: {keys}",
                            remedy="load it without optimizer=, and give LoadedFile.values' to it")
    return (fitting or found)[0]


def find_scheduler(tree: Tree, scheduler: Any) -> tuple[str, Mapping[str, Any]]:
    """The mapping that has the most of the scheduler's own keys, and more than half of them."""
    own = set(scheduler.state_dict())
    key, node = max(nodes(tree.value), key=lambda one: len(own & {name for name in one[1] if isinstance(name, str)}), default=("", {}))
    if 2 * len(own & set(node)) <= len(own):
        raise FormatError(f"'{tree.path}' has no state of a scheduler with {', '.join(sorted(own)[:4])}{also_there(tree)}", path=tree.path)
    return key, node


def opaque_in(value: Any, place: str, depth: int = 6) -> list[str]:
    if isinstance(value, Opaque) or isinstance(value, type):
        return [f"{place} holds {value!r}"]
    items: Iterable[tuple[Any, Any]] = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, (list, tuple)) else ()
    return [line for name, one in items if depth for line in opaque_in(one, f"{place}.{name}", depth - 1)]


# ---- load ----


def rest_of(value: Any, taken: Sequence[str]) -> dict[str, Any]:
    """What of the file's own keys nothing was taken from."""
    if not isinstance(value, Mapping) or "" in taken:
        return {}
    return {str(key): one for key, one in value.items() if not any(at == str(key) or at.startswith(f"{key}.") for at in taken)}


def compare(tree: Tree, model: Any, optimizer: Any, scheduler: Any, strict: bool,
            model_key: str | None) -> tuple[ModelPart, dict[str, tuple[str, Mapping[str, Any]]]]:
    """What of the file goes where: the model's part, and (key, state) of the others.  Raises FormatError with all differences."""
    lines: list[str] = []
    taken: dict[str, tuple[str, Mapping[str, Any]]] = {}
    part = ModelPart("", "")
    if model is not None:
        part = compare_model(tree, model, model_key)
        lines += left_out(part.missing, part.unexpected, part.other_shapes) if strict else []
    if optimizer is not None:
        taken["optimizer"] = find_optimizer(tree, optimizer)
        lines += optimizer_lines(optimizer, taken["optimizer"][1])
    if scheduler is not None:
        taken["scheduler"] = find_scheduler(tree, scheduler)
    for what, (_, state) in taken.items():
        lines += opaque_in(state, what)
    if lines:
        shown = lines[:SHOWN] + ([f"and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else [])
        hint = "strict=False loads what fits" if model is not None and strict else None
        raise FormatError(f"'{tree.path}' does not fit, nothing was loaded:\n  " + "\n  ".join(shown), path=tree.path, remedy=hint)
    return part, taken


@by_name("load(path, model=model, optimizer=optimizer)", 1)
def load(path: PathLike, *, model: Any = None, optimizer: Any = None, scheduler: Any = None, strict: bool = True,
         map_location: Any = "cpu", model_key: str | None = None) -> LoadedFile:
    """Load a checkpoint that something else wrote: verify it, compare all that is given, and only then change anything.

    path: a file of torch.save (`{'model_state_dict': ...}`, a plain state dict, Lightning, a whole module), safetensors, or a
    folder of Transformers' Trainer.  Nothing in it is executed: objects of classes stand in LoadedFile.values as their names.
    model, optimizer, scheduler: what gets its state; parts of the file that are not asked for are left alone.  Prefixes of names
    (`module.`, `_orig_mod.`, `model.`, any other) are found, and LoadedFile.prefix is what it was.
    strict: names that only one side has, and other shapes, are an error; False loads what fits and lists the rest.
    map_location: where LoadedFile.values' tensors are put, as torch.load takes it; the model's and the optimizer's go where these are.
    model_key: which part is the model's state, if the file has several ("ema_state_dict").

    >>> plimsoll.checkpoint.load("last.pt", model=model, optimizer=optimizer).values["epoch"]    # doctest: +SKIP
    3

    Raises NotFoundError; FormatError: it is damaged, would do harm, or does not fit, with all differences, and nothing was
    changed; ArgumentError: it has two states that fit; UnsupportedError: the file or the model is of a kind that this cannot load.
    """
    if model is None and optimizer is None and scheduler is None:
        raise ArgumentError("load takes a model, an optimizer or a scheduler")
    name = os.fspath(path)
    others = [one for one, target in (("optimizer", optimizer), ("scheduler", scheduler)) if target is not None]
    tree = read_tree(name, map_location, model is not None, others)
    if model is not None:
        model = _state.bare(model)
    part, taken = compare(tree, model, optimizer, scheduler, strict, model_key)
    if model is not None:
        model.load_state_dict(part.state, strict=False)
    for target, what in ((optimizer, "optimizer"), (scheduler, "scheduler")):
        if target is not None:
            target.load_state_dict(dict(taken[what][1]))
    notes = tree.notes + [f"{n} tensors are {change}" for change, n in part.other_dtypes.items()]
    keys = ([part.key] if model is not None else []) + [key for key, _ in taken.values()]
    return LoadedFile(name, part.key, part.prefix, tuple(part.state), tuple(part.missing), tuple(part.unexpected), tuple(part.other_shapes),
                      rest_of(tree.value, keys), tuple(notes))
