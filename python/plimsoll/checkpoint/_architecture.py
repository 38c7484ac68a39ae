"""What a model is besides its tensors: its class and its configuration, which shapes do not show (4 heads or 8)."""
from __future__ import annotations

import dataclasses
from typing import Any, Mapping

from . import _state

MOST_DEPTH = 8  # of mappings in a configuration
MISSING = object()


def of(model: Any) -> dict[str, Any]:
    """The class's name, and the plain values of model.config; None: it has no configuration."""
    model = unwrapped(model)
    return {"class": class_name(type(model)), "config": plain_config(getattr(model, "config", None))}


def unwrapped(model: Any) -> Any:
    """The user's own module, inside of what spreads it over ranks."""
    model = _state.bare(model)
    while type(model).__name__ == "FullyShardedDataParallel":
        model = _state.bare(model.module)
    return model


def class_name(kind: type) -> str:
    """fully_shard() gives a model a class of torch's own, whose base is the user's."""
    own = next((one for one in kind.__mro__ if not one.__module__.startswith("torch.distributed.")), kind)
    return own.__name__


def plain_config(config: Any) -> dict[str, Any] | None:
    """A Hugging Face configuration, a dataclass, a dict or an object with attributes, without what is private or is not a plain value."""
    if config is None:
        return None
    if callable(getattr(config, "to_dict", None)):
        config = config.to_dict()
    elif dataclasses.is_dataclass(config) and not isinstance(config, type):
        config = {one.name: getattr(config, one.name) for one in dataclasses.fields(config)}
    elif not isinstance(config, Mapping):
        config = getattr(config, "__dict__", None)
    found = plain(config, MOST_DEPTH)
    return found if isinstance(found, dict) else None


def plain(value: Any, depth: int) -> Any:
    """As JSON has it; MISSING: it is of another kind."""
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if value - value == 0 else repr(value)  # JSON has no infinities
    if depth and isinstance(value, Mapping):
        pairs = ((str(key), plain(one, depth - 1)) for key, one in value.items() if not str(key).startswith("_"))
        return {key: one for key, one in pairs if one is not MISSING}
    if depth and isinstance(value, (list, tuple)):
        items = [plain(one, depth - 1) for one in value]
        return MISSING if MISSING in items else items
    if type(value).__module__ == "torch" and type(value).__name__ == "dtype":
        return _state.dtype_name(value)
    return MISSING


def differences(saved: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """One line for the class and one for each value of the configuration; what only one side knows about is not a difference."""
    lines = []
    if saved["class"] != here["class"]:
        lines.append(f"the model is a {here['class']}, in the checkpoint it is a {saved['class']}")
    if saved["config"] is not None and here["config"] is not None:
        theirs, mine = flat(saved["config"]), flat(here["config"])
        versions = {name for name in {*theirs, *mine} if name.endswith("_version")}  # of the library that wrote it, not of the model
        upgraded = any(theirs.get(name) != mine.get(name) for name in versions)
        # A library of another version has new values, which the model had before without a name.
        for name in sorted((theirs.keys() & mine.keys() if upgraded else theirs.keys() | mine.keys()) - versions):
            if theirs.get(name, MISSING) != mine.get(name, MISSING):
                lines.append(f"config.{name} is {said(mine, name)} in the model, {said(theirs, name)} in the checkpoint")
    return lines


def flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, dict) and value:
            found.update(flat(value, f"{prefix}{name}."))
        else:
            found[prefix + name] = value
    return found


def said(config: Mapping[str, Any], name: str) -> str:
    text = repr(config[name]) if name in config else "missing"
    return text if len(text) <= 80 else text[:77] + "..."
