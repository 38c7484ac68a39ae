#!/usr/bin/env python3
"""python-api.py: every public name of the Python package with its signature, as tests/python_api.txt keeps it; `make docs` rewrites that.

Before 1.0 it may change, but never unseen.  Nothing of torch is imported.
"""
import dataclasses
import enum
import importlib
import inspect
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "python"))
MODULES = ("allocator", "checkpoint", "data", "errors", "gauge", "gradients", "memory", "oom", "training")


def signature(value):
    try:
        return re.sub(r"<function (\w+) at 0x[0-9a-f]+>", r"\1", str(inspect.signature(value)))
    except (TypeError, ValueError):
        return "(...)"


def members(name, kind):
    """Attributes, methods and properties that a class or its bases of this package define."""
    if dataclasses.is_dataclass(kind):
        yield from (f"{name}.{field.name}: {field.type}" for field in dataclasses.fields(kind))
    seen = {}
    for base in reversed([base for base in kind.__mro__ if base.__module__.startswith("plimsoll")]):
        if base.__name__.endswith("Fields"):
            continue  # of the schemas: docs/json.md has them
        seen.update({key: value for key, value in vars(base).items() if not key.startswith("_")})
    for key in sorted(seen):
        value = seen[key]
        if isinstance(value, property):
            returns = inspect.signature(value.fget).return_annotation if value.fget else ""
            yield f"{name}.{key} -> {returns}"
        elif isinstance(value, (classmethod, staticmethod)):
            yield f"{name}.{key}{signature(value.__func__)}"
        elif inspect.isfunction(value):
            yield f"{name}.{key}{signature(value)}"


def lines(name, value):
    if inspect.ismodule(value):
        return
    if inspect.isclass(value):
        bases = ", ".join(base.__name__ for base in value.__bases__ if base is not object)
        init = signature(value) if not issubclass(value, (BaseException, enum.Enum)) else ""
        yield f"class {name}{init}" + (f" of {bases}" if bases else "")
        yield from ("  " + line for line in members(name, value))
    elif callable(value):
        yield f"def {name}{signature(value)}"
    else:
        yield f"{name}: {type(value).__name__}"


def main():
    package = importlib.import_module("plimsoll")
    print("# The public names of the Python package, printed by tools/python-api.py; make docs rewrites it.  Before 1.0 it may")
    print("# change, but never unseen: read the difference.")
    for name in sorted(package.__all__):
        print("\n".join(lines("plimsoll." + name, getattr(package, name))) or f"module plimsoll.{name}")
    verbs = importlib.import_module("plimsoll.verbs")
    for name in sorted(set(verbs.__all__) - set(package.__all__)):
        print("\n".join(lines("plimsoll.verbs." + name, getattr(verbs, name))))
    for module in MODULES:
        held = importlib.import_module("plimsoll." + module)
        for name in sorted(getattr(held, "__all__", None) or [n for n in vars(held) if not n.startswith("_")]):
            value = getattr(held, name)
            if name not in package.__all__ and not inspect.ismodule(value) and getattr(value, "__module__", "").startswith("plimsoll"):
                print("\n".join(lines(f"plimsoll.{module}.{name}", value)))


main()
