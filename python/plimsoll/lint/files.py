"""The other files of a program: where an import leads, and what is defined there.  Each is parsed once, and walked as far as it is asked."""
from __future__ import annotations

import os
import sys
from collections import OrderedDict
from typing import TYPE_CHECKING, Callable, Sequence

from . import names
from .source import Source, Unreadable, decode, parse

if TYPE_CHECKING:
    from .program import Program
    from .symbols import Class, Function
    from .values import Value

LARGEST = 1 << 20  #: bytes of a file that is followed; what is larger is generated
KEPT = 128  #: files whose trees are held at a time
HOPS = 8  #: names that are handed on, `from .a import f` in each __init__.py
FOLDERS = 4  #: looked through upwards for the program's root
_ROOT_HAS = (".git", "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt")
_ELSEWHERE = frozenset(names.TORCH_ROOTS) | sys.stdlib_module_names | {"numpy", "torchvision", "tqdm"}  #: never a file of the program
_NO_ROOT = frozenset(["site-packages", "dist-packages"])


class Files:
    """Shared by the files of one run."""

    def __init__(self, make: "Callable[[Source, Files], Program]", folders: Sequence[str] = ()) -> None:
        self.make = make
        self.folders = [os.path.abspath(f) for f in folders]
        self.walking = 0  #: functions that are walked one inside the other, in whatever file
        self.open: OrderedDict[str, Program | None] = OrderedDict()
        self.bases: dict[str, list[str]] = {}
        self.found: dict[tuple[str, str], str] = {}
        self.told: dict[tuple[str, str], list[tuple[dict[str, Value], bool]]] = {}  #: file, function -> its calls in other files
        self.known: dict[tuple[str, str], list[tuple[dict[str, Value], bool]]] = {}  #: of these, how other files call their functions

        self.running: dict[str, set[bool]] = {}  #: method of a module -> True if one of its class runs a module, False if one does so without gradients
        self.methods: dict[str, set[bool]] = {}  #: the same, once all files have said so
        self.again: set[str] = set()  #: files that are linted a second time, knowing how others call their functions
        self.reported: dict[tuple[str, str], str] = {}  #: rule, program -> the file that reports it
        self.asked: dict[str, set[str]] = {}  #: method -> files that call it of a module of which no class is seen

    # ---- where an import leads ----

    def roots(self, folder: str) -> list[str]:
        """Where an absolute import of a file in this folder may begin: there, the package's root, the program's, the folders that are linted."""
        known = self.bases.get(folder)
        if known is None:
            known, at = [folder], folder
            while os.path.isfile(os.path.join(at, "__init__.py")) and os.path.dirname(at) != at:
                at = os.path.dirname(at)
            known.append(at)
            known += [f for f in (self.root(folder), *(f for f in self.folders if folder.startswith(f))) if f]
            known += [os.path.join(f, "src") for f in known]
            known = self.bases[folder] = [f for f in dict.fromkeys(known) if os.path.basename(f) not in _NO_ROOT]
        return known

    def root(self, folder: str) -> str:
        """The folder of the program, by what lies there; "" if nothing shows it."""
        for _ in range(FOLDERS):
            if any(os.path.exists(os.path.join(folder, mark)) for mark in _ROOT_HAS):
                return folder
            folder = os.path.dirname(folder)
        return ""

    def first(self, rule: str, path: str) -> bool:
        """Is it the first file of its program that reports this rule, one decision for the whole program?"""
        folder, path = os.path.dirname(os.path.abspath(path)), os.path.abspath(path)
        root = self.root(folder) or next((f for f in self.folders if folder.startswith(f)), folder)
        return self.reported.setdefault((rule, root), path) == path

    def module(self, folder: str, name: str) -> str:
        """The file, or the folder, of a module; "" where there is none."""
        key = (folder, name)
        known = self.found.get(key)
        if known is None:
            path = os.path.join(folder, name)
            known = self.found[key] = path + ".py" if os.path.isfile(path + ".py") else path if name and os.path.isdir(path) else ""
        return known

    def locate(self, qualified: str, path: str) -> tuple[str, str]:
        """The file that defines a qualified name which stands in the file `path`, and what it is called there; ("", "") if it is none of the program."""
        folder = os.path.dirname(os.path.abspath(path))
        name = qualified.lstrip(".")
        level = len(qualified) - len(name)
        parts = name.split(".")
        if level:
            for _ in range(level - 1):
                folder = os.path.dirname(folder)
            return self.descend(folder, parts)
        if parts[0] in _ELSEWHERE:
            return "", ""
        for root in self.roots(folder):
            if self.module(root, parts[0]):
                found = self.descend(root, parts)
                if found[0] and os.path.abspath(path) != found[0]:
                    return found
        return "", ""

    def descend(self, folder: str, parts: list[str]) -> tuple[str, str]:
        for i, part in enumerate(parts):
            at = self.module(folder, part)
            if at.endswith(".py"):
                return at, ".".join(parts[i + 1:])
            if not at:
                file = self.module(folder, "__init__")
                return (file, ".".join(parts[i:])) if file else ("", "")
            folder = at
        return self.module(folder, "__init__"), ""

    def to_tell(self) -> set[str]:
        """The files of which others say how they are called; from here on they know."""
        self.known, self.told = self.told, {}
        self.methods = self.running
        self.again = {file for method, files in self.asked.items() if self.methods.get(method) == {True} for file in files}
        self.again |= {file for (file, _), calls in self.known.items() if any(modules or off for modules, off in calls)}
        return self.again

    # ---- what is defined there ----

    def program(self, path: str) -> "Program | None":
        """The file's program; None where it cannot be read or parsed, or is being opened just now (a circle of imports)."""
        if path in self.open:
            self.open.move_to_end(path)
            return self.open[path]
        self.open[path] = None
        try:
            with open(path, "rb") as opened:
                data = opened.read(LARGEST + 1)
            made = self.make(parse(path, decode(data)), self) if len(data) <= LARGEST else None
        except (OSError, Unreadable):
            made = None
        self.open[path] = made
        while len(self.open) > KEPT:
            self.open.popitem(last=False)
        return made

    def definition(self, qualified: str, path: str) -> "Class | Function | None":
        """The class or function of another file that a qualified name means in the file `path`."""
        for _ in range(HOPS):
            file, name = self.locate(qualified, path)
            program = self.program(file) if name else None
            if program is None:
                return None
            first, _, rest = name.partition(".")
            symbols = program.symbols
            cls = symbols.classes.get(first)
            if cls is not None:
                return cls.methods.get(rest) if rest else cls
            assert symbols.module is not None
            if first in symbols.module.local:
                return None if rest else symbols.module.local[first]
            if first not in symbols.imports:
                return None
            qualified, path = symbols.imports[first] + ("." + rest if rest else ""), file
        return None
