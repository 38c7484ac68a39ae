#!/usr/bin/env python3
"""Code of listed names that runs when a pickle is loaded: code_on_load.py PROGRAM.

Each class and function that data/pickled.rows lists, and whose library can be imported here, is looked up as an
unpickler would, by every name that leads to it.  What pickle calls of it is read, with what that calls in turn inside the
same library: what unpickles, imports by name, compiles, opens files or starts processes must be a row of
tests/code_on_load.tsv, which says why it does no harm.  A row that meets nothing any more fails, too, if its library is here.
"""
import ast
import builtins
import contextlib
import functools
import importlib
import importlib.util
import inspect
import io
import os
import pkgutil
import re
import sys
import tempfile
import textwrap
import types
import warnings

import lib
from attacks import verify

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
import rows  # noqa: E402

SKIPPED = 77
HERE = os.path.dirname(os.path.abspath(__file__))
POLICY = os.path.join(HERE, "..", "data", "pickled.rows")
REVIEWED = os.path.join(HERE, "code_on_load.tsv")
NEEDED = ("torch", "numpy")
DEEP = 4  # calls of calls
# Of every object, made in whatever way; of those that are called; of lists and dicts that are filled.
MADE = ("__new__", "__setstate__", "__setattr__", "__getattr__", "__getattribute__", "__reduce__", "__reduce_ex__", "__del__", "__hash__", "__eq__")
CALLED = ("__init__", "__post_init__", "_missing_")
FILLED = {"sequences": ("append", "extend"), "mappings": ("__setitem__",)}
CALLING = ("POLICY_DATA", "POLICY_FAMILY", "POLICY_NEW_OR_ENUM", "POLICY_BYTES")
# What a callee is called, wherever it lives: modules of which everything counts, and functions.
MODULES = ("pickle", "_pickle", "dill", "cloudpickle", "marshal", "subprocess", "ctypes", "importlib", "runpy", "multiprocessing", "socket", "urllib", "requests",
           "shutil", "tempfile", "zipfile", "tarfile", "code", "threading", "concurrent", "webbrowser", "imp", "shelve", "asyncio", "_io")
FUNCTIONS = re.compile(r"""^(builtins\.(eval|exec|compile|open|__import__|input)|(os|posix|nt)\.(system|popen|open|exec\w*|spawn\w*|posix_spawn\w*|fork\w*|remove|unlink|rename|mkdir|makedirs)
    |io\.open|torch\.(load|serialization\.load|jit\.\w*load|hub\.\w+|ops\.load_library|_ops\.\w*load_library|compile|jit\._script\.script|fx\.graph_module\._\w+)|joblib\..*load|numpy\..*(load|fromfile|memmap)
    |pathlib\.Path\.(open|read_\w+|write_\w+|unlink)|sympy\..*sympify|sympy\..*parse_expr)$""", re.X)
UNRESOLVED = ("loads", "load_module", "import_module", "exec_module", "system", "popen", "read_pickle", "load_library", "sympify", "parse_expr")


def table(name):
    """The names of one of the tables; of harmless ones with their rule."""
    found = rows.File(POLICY).read().tables["policy_" + name].rows
    return [(row["name"], "POLICY_" + row["rule"]) for row in found] if name == "harmless" else [row["name"] for row in found]


@functools.cache
def module(name):
    """The module of that name; None: it cannot be imported here."""
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    except (Exception, SystemExit):  # an extra that is not installed, in whatever words
        return None


def member(found, name):
    """The attribute; None: there is none, or an extra that is not installed would make it."""
    with contextlib.suppress(Exception):
        return getattr(found, name)


def module_of(name):
    """(the longest beginning of a dotted name that is a module, the rest)."""
    parts = name.split(".")
    for n in range(len(parts), 0, -1):
        found = module(".".join(parts[:n]))
        if found:
            return found, parts[n:]
    return None, parts


def below(package, pattern):
    """A package and its modules, as far as the pattern can match a name in them."""
    yield package
    wanted = re.compile(pattern.replace(".", r"\.").replace("*", r"[^/]*"))
    for info in pkgutil.walk_packages(getattr(package, "__path__", []), package.__name__ + ".", onerror=lambda _: None):
        leads = "*" not in pattern or wanted.match(info.name + ".") or info.ispkg
        found = module(info.name) if leads and "test" not in info.name else None
        if found:
            yield found


def is_class_name(name):
    return re.fullmatch(r"_*[A-Z]\w*", name)


def listed():
    """(name, object, rule) of each row, patterns spread out over what modules hold, whoever wrote it."""
    rows = [*table("harmless"), *((name, "POLICY_DATA") for name in table("plain"))]
    exact = {name for name, _ in rows}
    functions = table("functions")
    for row, rule in rows:
        if row[-1] not in "*^":
            found, rest = module_of(row)
            for part in rest:
                found = member(found, part)
            if found is not None and len(rest) in (1, 2):
                yield row, found, rule
            continue
        inner = row[:-1]
        package, _ = module_of(inner.rstrip(".").partition(".*")[0])
        if not package or not (package.__name__ + ".").startswith(inner.partition("*")[0]):
            continue
        for m in (package,) if row[-1] == "*" else below(package, inner):
            if not re.match(inner.replace(".", r"\.").replace("*", ".*"), m.__name__ + "."):
                continue
            for name, found in list(vars(m).items()):
                if f"{m.__name__}.{name}" not in exact and (name in functions if row[-1] == "*" else is_class_name(name)):
                    yield f"{m.__name__}.{name}", found, rule


# ---- what a function does ----

def label(found):
    """"pickle.loads" of what is called."""
    found = inspect.unwrap(found) if callable(found) and not isinstance(found, type) else found
    return f"{getattr(found, '__module__', None) or 'builtins'}.{getattr(found, '__qualname__', getattr(found, '__name__', '?'))}"


def is_code(found):
    name = label(found)
    return bool(FUNCTIONS.match(name)) or (name.partition(".")[0] in MODULES and not isinstance(found, types.ModuleType))


class Names(ast.NodeVisitor):
    """What the callees in a function's source are."""

    def __init__(self, function, owner):
        self.function, self.owner = function, owner
        self.names = dict(inspect.getclosurevars(function).nonlocals) if function.__closure__ else {}
        self.calls = []

    def visit_Import(self, node):
        for a in node.names:
            self.names[a.asname or a.name.partition(".")[0]] = module(a.name if a.asname else a.name.partition(".")[0])

    def visit_ImportFrom(self, node):
        base = "." * node.level + (node.module or "")
        with contextlib.suppress(ImportError, ValueError):
            base = importlib.util.resolve_name(base, self.function.__globals__.get("__package__") or "") if node.level else base
        for a in node.names:
            self.names[a.asname or a.name] = member(module(base), a.name)

    def look_up(self, node):
        """The object that an expression names; None: only known when it runs."""
        if isinstance(node, ast.Name):
            if node.id in ("self", "cls"):
                return self.owner or self.names_owner()
            return self.names.get(node.id, self.function.__globals__.get(node.id, getattr(builtins, node.id, None)))
        if isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name) and node.value.func.id == "super" and self.owner:
                return next((vars(c)[node.attr] for c in self.owner.__mro__ if node.attr in vars(c) and inspect.unwrap(plain_function(vars(c)[node.attr])) is not self.function), None)
            base, of = self.look_up(node.value), self.function.__qualname__.rpartition(".")[0].rpartition(".")[2]
            if node.attr.startswith("__") and not node.attr.endswith("__"):
                node.attr = f"_{of.lstrip('_')}{node.attr}"
            if isinstance(base, (types.ModuleType, type)):
                return inspect.getattr_static(base, node.attr, None) if isinstance(base, type) else member(base, node.attr)
        return None

    def names_owner(self):
        """The class that a method's name shows."""
        return member(sys.modules.get(self.function.__module__), self.function.__qualname__.partition(".")[0])

    def visit_Call(self, node):
        of = self.look_up(node.func.value) if isinstance(node.func, ast.Attribute) else None
        self.calls.append((node.func, self.look_up(node.func), of if isinstance(of, type) else self.owner))
        self.generic_visit(node)


def plain_function(found):
    found = getattr(found, "__func__", found)
    found = getattr(found, "fget", None) or found
    return getattr(found, "func", found) if isinstance(found, functools.partial) else found


def functions_of(found):
    """What is called when `found` is: a class's constructors, or itself."""
    if isinstance(found, type):
        return [(vars(c)[n], found) for n in ("__new__", "__init__", "__post_init__") for c in found.__mro__ if n in vars(c)][:4]
    return [(found, None)]


seen = {}


def does(function, owner, depth=0):
    """{(what is called, in which function)}."""
    with contextlib.suppress(Exception):
        function = inspect.unwrap(plain_function(function))
    if not isinstance(function, types.FunctionType):
        return set()
    key = (function, owner, depth >= DEEP)
    if key in seen:
        return seen[key]
    seen[key] = set()
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError, TypeError):
        return seen[key]
    reader = Names(function, owner)
    reader.visit(tree)
    here, found = f"{function.__module__}.{function.__qualname__}", set()
    for node, callee, of in reader.calls:
        if callee is not None and is_code(callee):
            found.add((label(callee), here))
        elif callee is None and isinstance(node, ast.Attribute) and node.attr in UNRESOLVED:
            found.add((ast.unparse(node), here))
        elif callee is None and isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            found.add((f"self.{node.attr}", here))
        elif callee is not None and depth < DEEP and str(getattr(callee, "__module__", "")).partition(".")[0] == function.__module__.partition(".")[0]:
            for f, made in functions_of(callee):
                found |= does(f, made or of, depth + 1)
    seen[key] = found
    return found


def takes_nothing(found):
    """A function that is spelled like a class: INST calls it with no arguments, where a class is made empty."""
    with contextlib.suppress(Exception):
        inspect.signature(found).bind()
        return True
    return False


def hooks(found, rule, fills):
    """(what pickle calls of it, its class)."""
    called = rule in CALLING
    if rule == "POLICY_VALUE":
        return []
    if not isinstance(found, type):
        return [(found, None)] if called or takes_nothing(found) else []
    names = [*MADE, *fills, *(CALLED if called else ())]
    return [(vars(c)[n], found) for n in names for c in found.__mro__ if n in vars(c) and c is next(k for k in found.__mro__ if n in vars(k))]


def are_listed(program_names, folder):
    """Those of the names that the program does not doubt: each named by a pickle, and thrown away."""
    good = set()
    for i in range(0, len(program_names), 2000):
        path = os.path.join(folder, "names.pkl")
        with open(path, "wb") as f:
            f.write(b"\x80\x02")
            for name in program_names[i:i + 2000]:
                m, _, n = name.rpartition(".")
                f.write(f"c{m}\n{n}\n0".encode())
            f.write(b"}.")
        good |= {g["name"] for g in verify(path)[0]["globals"] if g["trust"] not in ("unknown", "dangerous")}
    return good


def reviewed():
    with open(REVIEWED, encoding="utf-8") as f:
        rows = [line.rstrip("\n").split("\t") for line in f if line.strip() and not line.startswith("#")]
    assert all(len(row) == 3 and all(row) for row in rows), "three columns: what is called, in which function, why it does no harm"
    return {(what, where): why for what, where, why in rows}


class Unpickling:
    """What must be found: the reader would else be broken."""

    def __setstate__(self, state):
        self._open(state)

    def _open(self, state):
        import pickle as module_by_another_name
        self.__dict__ = module_by_another_name.loads(state)


def main():
    missing = [name for name in NEEDED if not importlib.util.find_spec(name)]
    if missing:
        print(f"code_on_load.py: SKIPPED, {' and '.join(missing)} cannot be imported", file=sys.stderr)
        return SKIPPED
    fills = {name: hooks for which, hooks in FILLED.items() for name in table(which)}
    met, objects = {}, 0
    for name, found, rule in listed():
        objects += 1
        for hook, owner in hooks(found, rule, fills.get(name, ())):
            # What __reduce__ calls runs when it is saved; that it unpickles would say that its class does.
            for finding in does(hook, owner, DEEP if getattr(hook, "__name__", "").startswith("__reduce") else 0):
                met.setdefault(finding, set()).add(name)
    with tempfile.TemporaryDirectory() as folder:
        good = are_listed(sorted(set().union(*met.values())), folder)
    met = {finding: sorted(names & good) for finding, names in met.items() if names & good}
    rows = reviewed()
    for (what, where), names in sorted(met.items()):
        if (what, where) not in rows:
            print(f"{what}\t{where}\t{names[0]} and {len(names) - 1} more")
    new = [f for f in met if f not in rows]
    libraries = {n.partition(".")[0] for n, _ in table("harmless")}
    absent = sorted(n for n in libraries if not module(n))
    print("code_on_load.py: SKIPPED, cannot be imported: " + " ".join(absent), file=sys.stderr)
    broken = not any(what == "_pickle.loads" for what, _ in does(vars(Unpickling)["__setstate__"], Unpickling))
    stale = [f for f in rows if f not in met and module(f[1].partition(".")[0])]
    for what, where in stale:
        print(f"{what}\t{where}\tis reviewed, and is not met any more: take the row away")
    print(f"code_on_load.py: {objects} listed names of {len({n.partition('.')[0] for n, _ in table('harmless')})} libraries that the policy names, {len(met) - len(new)} calls that were reviewed, {len(new)} that were not"
          + "; it does not find pickle.loads in a class of its own" * broken)
    return bool(new or stale or broken)


if __name__ == "__main__":
    lib.start(sys.argv[1])
    sys.exit(main())
