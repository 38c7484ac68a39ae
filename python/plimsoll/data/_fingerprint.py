"""What samples are made of, as parts by name: code, the values it uses, versions of libraries, files.  Two that differ can be distinguished."""
from __future__ import annotations

import enum
import functools
import hashlib
import importlib.metadata
import os
import pickle
import re
import stat
import sys
import sysconfig
import types
from typing import Any, Callable, Iterable, Mapping

LARGE = 64  # elements; what is larger is one part
MOST_PARTS = 2000
SHOWN = 60  # characters of a value
PACKAGES = ("numpy", "opencv-python", "opencv-python-headless", "pillow", "scikit-image", "scipy", "tokenizers", "torch", "torchaudio",
            "torchvision", "transformers")
_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_OPAQUE = (types.ModuleType, types.GeneratorType)
_installed = tuple({os.path.realpath(sysconfig.get_path(name)) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")})

Parts = dict[str, str]


def of(dataset: Any, transform: Any, files: Iterable[Any] = ()) -> Parts:
    """The parts of a data set, of its transform and of further files."""
    walk = _Walk()
    walk.add("python", "%d.%d" % sys.version_info[:2])
    for name in PACKAGES:
        walk.package(name)
    walk.folders = [value for value in _attributes(dataset).values()
                    if isinstance(value, (str, os.PathLike)) and os.path.isdir(value)]
    walk.look("dataset", dataset)
    if transform is not None:
        walk.look("transform", transform)
    walk.folders = []
    for path in files:
        if not walk.file(os.fspath(path)):
            walk.add(f"file {os.fspath(path)!r}", "not there")
    return walk.end()


def differences(was: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """What changed, a line a part."""
    lines = []
    for name in [*was, *(name for name in now if name not in was)]:
        a, b = was.get(name), now.get(name)
        if a != b:
            lines.append(f"{name}: {'not there' if a is None else a} -> {'not there' if b is None else b}")
    return lines


def _short(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN - 20]}... {_digest(text.encode('utf-8', 'surrogatepass'))}"


def _digest(content: Any) -> str:
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def _attributes(value: Any) -> dict[str, Any]:
    found = dict(getattr(value, "__dict__", None) or {})
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                found[name] = getattr(value, name)
    return found


def _is_installed(module: str | None) -> bool:
    """Does code of this module change only with a version?"""
    found = sys.modules.get(module or "")
    path = getattr(found, "__file__", None)
    return found is None or path is None and module != "__main__" or path is not None and os.path.realpath(path).startswith(_installed)


def _constant(value: Any) -> str:
    if isinstance(value, types.CodeType):
        return _code(value)
    if isinstance(value, frozenset):
        return "{" + ",".join(sorted(map(_constant, value))) + "}"
    if isinstance(value, tuple):
        return "(" + ",".join(map(_constant, value)) + ")"
    return repr(value)


def _code(code: types.CodeType) -> str:
    """The bytecode and what it names; not where it is written."""
    content = (code.co_code.hex(), [_constant(c) for c in code.co_consts], code.co_names, code.co_varnames, code.co_freevars,
               code.co_cellvars, code.co_argcount, code.co_kwonlyargcount, code.co_flags)
    return _digest(repr(content).encode("utf-8", "surrogatepass"))


def _names(code: types.CodeType) -> list[str]:
    found = list(code.co_names)
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            found += _names(one)
    return found


class _Walk:
    def __init__(self) -> None:
        self.parts: Parts = {}
        self.rest = hashlib.blake2b(digest_size=8)
        self.more = 0
        self.seen: dict[int, Any] = {}  # held, so that no address is used again
        self.folders: list[Any] = []
        self.stats = hashlib.blake2b(digest_size=8)
        self.files = self.file_bytes = 0
        self.known_files: set[str] = set()

    def add(self, name: str, text: str) -> None:
        if name in self.parts or len(self.parts) < MOST_PARTS:
            self.parts[name] = text
        else:
            self.rest.update(f"{name}\0{text}\0".encode("utf-8", "surrogatepass"))
            self.more += 1

    def end(self) -> Parts:
        if self.files:
            self.parts["files"] = f"{self.files} of {self.file_bytes} bytes, sizes and times {self.stats.hexdigest()}"
        if self.more:
            self.parts["more"] = f"{self.more} parts {self.rest.hexdigest()}"
        return self.parts

    def package(self, name: str) -> None:
        try:
            self.add(f"version of {name}", importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            pass

    def file(self, path: str) -> bool:
        """A regular file's size and time; is it one?"""
        for folder in ("", *self.folders):
            full = os.path.join(folder, path)
            try:
                told = os.stat(full)
            except (OSError, ValueError):
                continue
            if stat.S_ISREG(told.st_mode):
                if full not in self.known_files:
                    self.known_files.add(full)
                    self.files += 1
                    self.file_bytes += told.st_size
                    self.stats.update(f"{path}\0{told.st_size}\0{told.st_mtime_ns}\0".encode("utf-8", "surrogatepass"))
                return True
        return False

    def plain(self, value: Any) -> str:
        if isinstance(value, str) and value and len(value) < 4096 and "\n" not in value:
            self.file(value)
        return repr(value)

    # ---- what there is ----

    def look(self, name: str, value: Any) -> None:
        if isinstance(value, _PLAIN):
            self.add(name, _short(self.plain(value)))
            return
        if id(value) in self.seen:
            return
        self.seen[id(value)] = value
        for kind, how in _HOW:
            if isinstance(value, kind):
                how(self, name, value)
                return
        self.thing(name, value)

    def sequence(self, name: str, value: Any) -> None:
        items = sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value
        if len(items) > LARGE:
            self.large(name, items)
            return
        self.add(name, f"{type(value).__name__} of {len(items)}")
        for i, one in enumerate(items):
            self.look(f"{name}[{i}]", one)

    def mapping(self, name: str, value: Mapping[Any, Any]) -> None:
        if len(value) > LARGE:
            self.large(name, [part for item in value.items() for part in item])
            return
        self.add(name, f"{type(value).__name__} of {len(value)}")
        for key, one in value.items():
            self.look(f"{name}[{key!r}]" if isinstance(key, _PLAIN) else f"{name}[...]", one)

    def large(self, name: str, items: Iterable[Any]) -> None:
        """Many values as one part."""
        inner, count = hashlib.blake2b(digest_size=8), 0
        for one in items:
            count += 1
            if isinstance(one, _PLAIN):
                text = self.plain(one)
            elif isinstance(one, os.PathLike):
                text = self.plain(os.fspath(one))
            elif isinstance(one, (tuple, list)) and all(isinstance(x, _PLAIN) for x in one):
                text = repr([self.plain(x) for x in one])
            else:
                parts, self.parts = self.parts, {}
                self.look("", one)
                text, self.parts = repr(sorted(self.parts.items())), parts
            inner.update(text.encode("utf-8", "surrogatepass") + b"\0")
        self.add(name, f"{count} values {inner.hexdigest()}")

    def function(self, name: str, value: types.FunctionType) -> None:
        if _is_installed(value.__module__):
            self.named(name, value)
            return
        self.add(f"{name} ({value.__qualname__})", f"code {_code(value.__code__)}")
        for i, one in enumerate(value.__defaults__ or ()):
            self.look(f"{name}, default {i}", one)
        for key, one in (value.__kwdefaults__ or {}).items():
            self.look(f"{name}, default of {key}", one)
        for key, cell in zip(value.__code__.co_freevars, value.__closure__ or ()):
            try:
                self.look(f"{name}, {key}", cell.cell_contents)
            except ValueError:  # not bound yet
                self.add(f"{name}, {key}", "nothing")
        self.globals(name, value)

    def globals(self, name: str, value: types.FunctionType) -> None:
        names = dict.fromkeys(_names(value.__code__))
        for key in names:
            if key not in value.__globals__:
                continue
            found = value.__globals__[key]
            if isinstance(found, types.ModuleType) and not _is_installed(found.__name__):
                for inner in names:
                    if inner in vars(found):
                        self.look(f"{key}.{inner}", vars(found)[inner])
            else:
                self.look(f"global {key}", found)

    def method(self, name: str, value: types.MethodType) -> None:
        self.look(name, value.__func__)
        self.look(f"{name}, its object", value.__self__)

    def partial(self, name: str, value: functools.partial[Any]) -> None:
        self.look(name, value.func)
        self.look(f"{name}, arguments", value.args)
        self.look(f"{name}, keywords", value.keywords)

    def module(self, name: str, value: types.ModuleType) -> None:
        self.root(value.__name__)

    def named(self, name: str, value: Any) -> None:
        module = getattr(value, "__module__", None) or ""
        self.add(name, f"{module}.{getattr(value, '__qualname__', type(value).__qualname__)}")
        self.root(module)

    def root(self, module: str) -> None:
        """The version of the package that a module is of."""
        top = module.partition(".")[0]
        found = getattr(sys.modules.get(top), "__version__", None)
        if isinstance(found, str):
            self.add(f"version of {top}", found)

    def kind(self, name: str, value: type) -> None:
        if _is_installed(value.__module__):
            self.named(name, value)
            return
        self.add(name, f"class {value.__qualname__}")
        for key, one in sorted(vars(value).items()):
            inner = getattr(one, "__func__", one)
            if isinstance(one, property):
                inner = one.fget
            if isinstance(inner, functools.cached_property):
                inner = inner.func
            if isinstance(inner, types.FunctionType):
                self.look(f"{value.__qualname__}.{key}", inner)
            elif isinstance(inner, (*_PLAIN, tuple, list, dict, set)) and not key.startswith("__"):
                self.look(f"{value.__qualname__}.{key}", inner)
        for base in value.__bases__:
            if base is not object:
                self.look(f"base {base.__qualname__}", base)

    def text(self, name: str, value: Any) -> None:
        self.add(name, _short(str(value)))

    def path(self, name: str, value: Any) -> None:
        self.add(name, _short(self.plain(os.fspath(value))))

    def bytes(self, name: str, value: Any) -> None:
        self.add(name, f"{len(value)} bytes {_digest(value)}")

    def thing(self, name: str, value: Any) -> None:
        """An object: tensors and arrays by their bytes, others by their class and attributes."""
        torch: Any = sys.modules.get("torch")
        numpy: Any = sys.modules.get("numpy")
        if torch is not None and isinstance(value, torch.Tensor):
            if value.layout == torch.strided and not value.is_quantized:
                flat = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
                self.add(name, f"{value.dtype} {list(value.shape)} {_digest(memoryview(flat.numpy()))}")
                return
        elif torch is not None and isinstance(value, (torch.dtype, torch.device, torch.layout, torch.memory_format)):
            self.text(name, value)
            return
        elif numpy is not None and isinstance(value, numpy.ndarray) and not value.dtype.hasobject:
            self.add(name, f"{value.dtype} {list(value.shape)} {_digest(numpy.ascontiguousarray(value).data.cast('B') if value.size else b'')}")
            return
        self.look(f"class of {name}", type(value))
        inside = _attributes(value)
        self.add(name, f"a {type(value).__qualname__}")
        for key, one in inside.items():
            self.look(f"{name}.{key}", one)
        if not inside and _is_installed(type(value).__module__):
            self.pickled(name, value)

    def pickled(self, name: str, value: Any) -> None:
        """What shows nothing of itself."""
        try:
            self.add(name, f"a {type(value).__qualname__} {_digest(pickle.dumps(value, protocol=4))}")
        except Exception:  # then its class stands for it, and samples that are made again
            pass


_HOW: list[tuple[Any, Callable[[_Walk, str, Any], None]]] = [
    (enum.Enum, _Walk.text),
    (re.Pattern, _Walk.text),
    (os.PathLike, _Walk.path),
    ((bytearray, memoryview), _Walk.bytes),
    ((tuple, list, set, frozenset), _Walk.sequence),
    (Mapping, _Walk.mapping),
    (types.FunctionType, _Walk.function),
    (types.MethodType, _Walk.method),
    (functools.partial, _Walk.partial),
    (types.ModuleType, _Walk.module),
    (type, _Walk.kind),
    ((types.BuiltinFunctionType, types.MethodWrapperType, types.WrapperDescriptorType, types.MethodDescriptorType), _Walk.named),
]
