"""plimsoll.toml: what probes chose, by command.  The next `fit` of the same command takes it from there, while all that it was measured on is the same.

It is read and written whole; a file that `fit` did not write is left alone.
"""
from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import re
import sys
from typing import Any, Sequence

from ..errors import FormatError
from . import _gauge, _ranks

NAME = "plimsoll.toml"
FIRST = "# Written by plimsoll fit; `plimsoll fit --again` measures anew."
#: Of these a release may change what a step does.
LIBRARIES = ("torch", "transformers", "accelerate", "trl", "peft", "plimsoll")
_PAIR = re.compile(r"^([a-z_]+) = (.+)$")


def versions() -> dict[str, str]:
    """Of this process's Python and of what it can import."""
    found = {"python": sys.version.split()[0]}
    for name in LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def made_with(model: Any, samples: int | None) -> list[str]:
    """What a result holds for: the libraries, the GPU, the model and the batch."""
    gauge = _gauge.gauge
    device = gauge.device() if gauge.is_used_by(model) else {"gpu": "none"}
    count, ranks = sum(p.numel() for p in model.parameters()), _ranks.count()
    return [*(f"{name} {version}" for name, version in versions().items()), *(f"{name} {value}" for name, value in device.items()),
            f"{type(model).__name__}, {count} parameters, batches of {samples}" + (f" on {ranks} ranks" if ranks > 1 else "")]


def files(command: Sequence[str]) -> str:
    """A digest of the files that the command names: a script that changed is another one."""
    digest = hashlib.sha256()
    for word in command:
        if os.path.isfile(word):
            with open(word, "rb") as f:
                digest.update(hashlib.sha256(f.read()).digest())
    return digest.hexdigest()[:32]


def _text(value: Any) -> str:
    """As TOML: what JSON writes of strings, numbers, lists and booleans is TOML, except for one control character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def read(path: str) -> list[dict[str, Any]]:
    """Its tables; [] if there is none.  FormatError: fit did not write it so."""
    try:
        with open(path, encoding="utf-8") as f:
            lines = f.read().split("\n")
    except FileNotFoundError:
        return []
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: not UTF-8 at byte {error.start}") from None
    if not lines or lines[0] != FIRST:
        raise FormatError(f"{path}: plimsoll fit did not write it, so it is left alone", remedy="give another file: --file FILE")
    tables: list[dict[str, Any]] = []
    for number, line in enumerate(lines[1:], 2):
        pair = _PAIR.match(line)
        if line == "[[fit]]":
            tables.append({})
        elif pair and tables:
            try:
                tables[-1][pair[1]] = json.loads(pair[2])
            except ValueError:
                raise FormatError(f"{path}:{number}: '{pair[1]}' has no value that can be read", remedy="remove the file") from None
        elif line and not line.startswith("#"):
            raise FormatError(f"{path}:{number}: not a line of plimsoll fit's", remedy="remove the file")
    return tables


def _is_counts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(count, int) and count >= 0 for count in value)


def find(tables: Sequence[dict[str, Any]], key: dict[str, Any]) -> dict[str, Any] | None:
    """The table of this command and limit, if its settings are ones."""
    for table in tables:
        if all(table.get(name) == value for name, value in key.items()):
            whole = isinstance(table.get("parts"), int) and table["parts"] > 0 and _is_counts(table.get("checkpointed")) and isinstance(table.get("setting"), str)
            return table if whole and table.get("loop") and isinstance(table.get("made_with"), list) else None
    return None


def write(path: str, tables: Sequence[dict[str, Any]]) -> None:
    """Replace the file."""
    part = f"{path}.{os.getpid()}.part"
    with open(part, "w", encoding="utf-8") as f:
        f.write(FIRST + "\n")
        for table in tables:
            f.write("\n[[fit]]\n" + "".join(f"{name} = {_text(value)}\n" for name, value in table.items() if value is not None))
    os.replace(part, path)


ENABLE = 'model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})'


def _arguments(answer: dict[str, Any], parts: int, checkpointing: bool) -> tuple[dict[str, str], dict[str, str], list[str]]:
    own = answer["arguments"]
    old = {"per_device_train_batch_size": str(own["batch"]), "gradient_accumulation_steps": str(own["accumulation"])}
    new, notes = dict(old), []
    if parts > 1 and (answer["certificate"]["way"] != "own" or answer["samples"] != own["batch"] or own["batch"] % parts or own["drop_last"]):
        notes.append(f"# {parts} parts: no arguments of the Trainer train the same; keep `plimsoll fit --` in front of the command")
    elif parts > 1:
        new = {"per_device_train_batch_size": str(own["batch"] // parts), "gradient_accumulation_steps": str(own["accumulation"] * parts)}
    if checkpointing:
        old |= {"gradient_checkpointing": "False"}
        new |= {"gradient_checkpointing": "True", "gradient_checkpointing_kwargs": '{"use_reentrant": False}'}
    return old, new, notes


def _some_layers(of: dict[str, int], counts: Sequence[int]) -> list[str]:
    """Python that checkpoints the first layers of each list."""
    lines = ["+" + ENABLE]
    for (name, size), count in zip(of.items(), counts):
        if count < size:
            path = re.sub(r"\.(\d+)(?=\.|$)", r"[\1]", f"model.{name}")
            lines += [f"+for module in (m for layer in {path}[{count}:] for m in layer.modules()):", "+    module.gradient_checkpointing = False"]
    return lines


def diff(answer: dict[str, Any], parts: int, counts: Sequence[int]) -> list[str]:
    """The same as arguments of the script: lines to take out and to put in."""
    of = answer["checkpointing_layers"]
    if answer["loop"] != "transformers.Trainer":
        return (["# a loop of accelerate: keep `plimsoll fit --` in front of the command"] if parts > 1 else
                _some_layers(of, counts) if any(counts) else ["# nothing to change"])
    is_every = any(counts) and list(counts) == list(of.values())
    old, new, notes = _arguments(answer, parts, is_every)
    lines = ["--- TrainingArguments", "+++ TrainingArguments"]
    changed = [name for name in new if new[name] != old.get(name)]
    for name in changed:
        lines += ([f"-    {name}={old[name]},"] if name in old else []) + [f"+    {name}={new[name]},"]
    if any(counts) and not is_every:
        notes += ["# before training, with gradient_checkpointing left off:", *_some_layers(of, counts)]
    return (lines if changed else []) + (notes or ([] if changed else ["# nothing to change"]))
