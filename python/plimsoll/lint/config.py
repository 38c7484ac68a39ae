"""[tool.plimsoll.lint] of pyproject.toml.  The command line stands above it."""
from __future__ import annotations

import importlib
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

KEYS = frozenset("select extend-select ignore exclude fail-on confidence per-file-ignores baseline".split())


class BadConfig(Exception):
    """One line that says what is wrong, and where."""


@dataclass(slots=True)
class Config:
    path: str = ""
    select: list[str] = field(default_factory=list)
    extend_select: list[str] = field(default_factory=list)
    ignore: list[str] = field(default_factory=list)
    exclude: list[str] = field(default_factory=list)
    fail_on: str = ""
    confidence: str = ""
    baseline: str = ""
    per_file_ignores: dict[str, list[str]] = field(default_factory=dict)


def find(start: Path) -> Path | None:
    """The nearest pyproject.toml at or above a folder."""
    here = start.resolve()
    for folder in (here, *here.parents):
        file = folder / "pyproject.toml"
        if file.is_file():
            return file
    return None


def _strings(path: Path, key: str, value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and all(isinstance(v, str) for v in value):
        return list(value)
    raise BadConfig(f"{path}: [tool.plimsoll.lint] {key} must be a string or a list of strings")


def read(path: Path) -> Config:
    """Raises BadConfig for unknown keys and wrong types: a misspelt key must not silently do nothing."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as why:
        raise BadConfig(f"{path}: cannot be read: {why}") from None
    if "plimsoll" not in text:
        return Config(str(path))
    table = _table(path, text)
    unknown = sorted(set(table) - KEYS)
    if unknown:
        raise BadConfig(f"{path}: [tool.plimsoll.lint] has no key '{unknown[0]}' (known: {', '.join(sorted(KEYS))})")
    config = Config(str(path))
    for key, value in table.items():
        if key == "per-file-ignores":
            if not isinstance(value, dict):
                raise BadConfig(f"{path}: [tool.plimsoll.lint] per-file-ignores must be a table of lists")
            config.per_file_ignores = {k: _strings(path, f"per-file-ignores.{k}", v) for k, v in value.items()}
        elif key in ("fail-on", "confidence", "baseline"):
            if not isinstance(value, str):
                raise BadConfig(f"{path}: [tool.plimsoll.lint] {key} must be a string")
            setattr(config, key.replace("-", "_"), value)
        else:
            setattr(config, key.replace("-", "_"), _strings(path, key, value))
    return config


def _table(path: Path, text: str) -> dict[str, Any]:
    try:
        tomllib = importlib.import_module("tomllib")
    except ModuleNotFoundError:  # Python 3.10
        return _small_reader(path, text)
    try:
        data: Any = tomllib.loads(text)
    except ValueError as why:
        raise BadConfig(f"{path}: {why}") from None
    for part in ("tool", "plimsoll", "lint"):
        data = data.get(part, {})
        if not isinstance(data, dict):
            raise BadConfig(f"{path}: [tool.plimsoll.lint] must be a table")
    return dict(data)


def _small_reader(path: Path, text: str) -> dict[str, Any]:
    """Strings and lists of strings below [tool.plimsoll.lint]: all that this table holds."""
    table: dict[str, Any] = {}
    at: dict[str, Any] | None = None
    lines = iter(text.splitlines())
    for line in lines:
        bare = line.split("#")[0].strip() if '"' not in line else line.strip()
        header = re.fullmatch(r"\[([\w.\"-]+)\]", bare)
        if header:
            name = header[1].replace('"', "")
            at = table if name == "tool.plimsoll.lint" else None
            if name == "tool.plimsoll.lint.per-file-ignores":
                at = table.setdefault("per-file-ignores", {})
            continue
        if at is None or "=" not in bare:
            continue
        key, _, value = (p.strip() for p in bare.partition("="))
        while value.startswith("[") and "]" not in value:
            value += next(lines, "]").strip()
        strings = re.findall(r"\"([^\"]*)\"|'([^']*)'", value)
        found = [a or b for a, b in strings]
        at[key.strip('"')] = found if value.startswith("[") else found[0] if found else value
    return table
