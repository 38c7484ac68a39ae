#!/usr/bin/env python3
"""layering.py ROOT: includes point down the floors of the house, never up, never sideways; so do imports of Python.

Proves itself first: a house with one wrong arrow of each kind must be refused.
"""
import ast
import os
import re
import sys
import tempfile

# Who may include whom, besides themselves.  base is open to all; a name stands for all it may use.
# The order is the order of the floors, ground floor first.
BESIDE = ["base", "facts", "pickle"]
CHAIN = ["base", "facts", "pickle", "snapshot", "program", "allocator", "timeline"]
FLOORS = {
    "base": [],
    "facts": ["base"],
    "gpu": ["base"],
    "pickle": ["base", "facts"],
    "snapshot": CHAIN[:3],
    "program": CHAIN[:4],
    "allocator": CHAIN[:5],
    "timeline": CHAIN[:6],
    "recording": CHAIN,
    "messages": BESIDE,
    "diagnose": CHAIN + ["recording", "messages"],
    "checkpoint": BESIDE,
    "host": BESIDE + ["messages"],
    "record": BESIDE,
    "gauge": ["base"],
    "gradients": ["base", "gpu"],
    "series": ["base"],
    "save": BESIDE + ["gpu", "checkpoint"],
    "load": BESIDE + ["gpu", "checkpoint"],
    "data": ["base", "gpu"],
    "stacks": ["base"],
    "watch": ["base", "gpu", "gauge", "messages", "host", "stacks"],
    "model": CHAIN + ["recording", "diagnose", "checkpoint"],
    "plan": CHAIN + ["recording", "diagnose", "model"],
    "page": CHAIN + ["recording", "diagnose"],
    "commands": CHAIN + ["recording", "diagnose", "checkpoint", "messages", "host", "record", "series", "gradients", "save", "load", "data", "watch", "model", "plan", "page"],
}
# What lives in other people's processes: of the floors only these headers, which reach no further than base.
RUNTIME = {"allocator": ["allocator/vmm.h", "gpu/cuda.h", "base/base.h", "pickle/encode.h"]}
# src/commands has a folder per command, with what several share above them.  A command does not use another.
# Headers that the build makes, and who may include them.
GENERATED = {"result_tables.h": ["gauge", "record", "commands"], "option_rows.h": ["plan", "commands", "cli"]}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+(["<])([^">]+)[">]', re.M)


def sources(root, folder):
    for at, _, files in sorted(os.walk(os.path.join(root, folder))):
        for name in sorted(files):
            if name.endswith((".c", ".h")):
                yield os.path.relpath(os.path.join(at, name), root)


def includes(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as f:
        text = f.read()
    for found in INCLUDE.finditer(text):
        yield text.count("\n", 0, found.start()) + 1, found.group(1), found.group(2)


# Folders of src/ that hold floors; base has files of its own, too.
GROUPS = {
    "base": ["facts", "pickle", "gpu"],
    "recordings": ["snapshot", "program", "allocator", "timeline", "recording", "diagnose", "page"],
    "planner": ["model", "plan"],
    "logs": ["messages", "series"],
    "live": ["host", "gauge", "record", "stacks", "watch"],
    "job": ["save", "load", "data", "gradients"],
}


def place(path):
    """(floor, the file's folder inside it) of a file of src/; the floor is None if nothing stands there."""
    first, *rest = path.split("/")[1:]
    if first in GROUPS and len(rest) > 1:
        return (rest[0], "/".join(rest[1:-1])) if rest[0] in GROUPS[first] else (None, "")
    return (first, "/".join(rest[:-1])) if first in ("base", "checkpoint", "commands") else (None, "")


def judge_command(command, header):
    """What is wrong with a command ("" for what commands share) that includes this header of src/commands, or None."""
    other = os.path.dirname(header)
    if other in ("", command):
        return None
    return f"the command '{command}' may not use the command '{other}'"


def judge_src(root, path, quote, target):
    """What is wrong with this include of a file of src/, or None."""
    floor, inside = place(path)
    if floor is None:
        return "no floor of the house is there (GROUPS)"
    if quote == "<":
        return None  # the system's, and <plimsoll/...>
    if target in GENERATED:
        return None if floor in GENERATED[target] else f"'{floor}' may not use {target}"
    if "/" not in target:
        beside = os.path.join(root, os.path.dirname(path), target)
        return None if os.path.exists(beside) else f'"{target}" is not in this folder'
    other, _, header = target.partition("/")
    if other == floor == "commands":
        return judge_command(inside, header)
    if other == floor:
        return None
    if other not in FLOORS:
        return f'"{target}" is on no floor'
    if other not in FLOORS[floor]:
        return f"{floor} may not use {other}"
    if header != other + ".h":
        return f'of {other} only "{other}/{other}.h" is for neighbours, not "{target}"'
    return None


def judge_cli(root, path, quote, target):
    if quote == "<":
        return None
    if "cli" in GENERATED.get(target, []):
        return None
    if "/" in target or not os.path.exists(os.path.join(root, "cli", target)):
        return f'the program uses <plimsoll/...> and its own headers only, not "{target}"'
    return None


def judge_public(root, path, quote, target):
    if quote == '"' or "/" in target and not target.startswith(("plimsoll/", "sys/")):
        return f"a public header includes <plimsoll/...> and the system only, not {target}"
    return None


def judge_runtime(root, path, quote, target):
    part = path.split("/")[1]
    if quote == "<":
        return "a job's process needs no header of a command" if target.startswith("plimsoll/") else None
    if os.path.exists(os.path.join(root, os.path.dirname(path), target)) and "/" not in target:
        return None
    return None if target in RUNTIME.get(part, []) else f'runtime/{part} may not use "{target}"'


# ---- Python: the package, its linter, and what is put into a job ----

PACKAGE = "python/plimsoll"
LINT = PACKAGE + "/lint"
LOADED, LATER, TYPES = range(3)  # when an import is done: with its module, when it is needed, never


def modules(root, folder):
    for at, _, files in sorted(os.walk(os.path.join(root, folder))):
        for name in sorted(files):
            if name.endswith(".py"):
                yield os.path.relpath(os.path.join(at, name), root)


def imports(root, path):
    """(line, file or None, absolute name or None, when it is done: LOADED, LATER or for TYPES) of each import."""
    with open(os.path.join(root, path), encoding="utf-8") as f:
        tree = ast.parse(f.read(), path)
    when = {id(n): LATER for f in ast.walk(tree) if isinstance(f, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Try)) for n in ast.walk(f)}
    when |= {id(n): TYPES for f in ast.walk(tree) if isinstance(f, ast.If) and "TYPE_CHECKING" in ast.dump(f.test) for n in ast.walk(f)}
    for node in ast.walk(tree):
        at = when.get(id(node), LOADED)
        if isinstance(node, ast.Import):
            for name in node.names:
                yield node.lineno, None, name.name, at
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.lineno, None, node.module, at
        elif isinstance(node, ast.ImportFrom):
            folder = path
            for _ in range(node.level):
                folder = os.path.dirname(folder)
            base = os.path.join(folder, *(node.module or "").split("."))
            for name in node.names:
                yield node.lineno, file_of(root, base, name.name), None, at


def file_of(root, base, name):
    """The module that `from BASE import NAME` loads."""
    for one in (os.path.join(base, name) + ".py", os.path.join(base, name, "__init__.py"), base.rstrip("/") + ".py",
                os.path.join(base, "__init__.py")):
        if os.path.exists(os.path.join(root, one)):
            return one
    return base + ".py"


def judge_import(path, target, name, when):
    """What is wrong with an import, or None."""
    lints, recorder = path.startswith(LINT + "/"), path.startswith("runtime/")
    # what is for a framework alone may load it
    at_once = when == LOADED and not path.startswith((PACKAGE + "/integrations/", PACKAGE + "/tracing/", LINT + "/lsp.py"))
    if name:
        top = name.split(".")[0]
        ours = top == "plimsoll"
        if ours and (lints or recorder):
            return f"{'the linter' if lints else 'what is put into a job'} uses nothing of the package: {name}"
        if recorder and top.startswith("plimsoll_"):
            return None  # put into the job with it
        if top not in sys.stdlib_module_names and not ours and (at_once or recorder and top != "torch"):
            return f"{name} is not of the standard library: import it where it is used"
        return None
    if lints and not target.startswith(LINT + "/"):
        return f"the linter uses nothing of the package: {target}"
    if not lints and target.startswith(LINT + "/") and target != LINT + "/__init__.py":
        return f"of the linter only its own package is for neighbours, not {target}"
    return None


def find_circle(edges):
    """Modules that need each other, or None."""
    state, trail = {}, []

    def visit(one):
        state[one] = 1
        trail.append(one)
        for other in sorted(edges.get(one, ())):
            if state.get(other) == 1:
                return trail[trail.index(other):] + [other]
            if other not in state and (circle := visit(other)):
                return circle
        state[one] = 2
        trail.pop()
        return None

    for one in sorted(edges):
        if one not in state and (circle := visit(one)):
            return circle
    return None


def judge_python(root):
    wrong, seen, edges = [], 0, {}
    for folder in (PACKAGE, "runtime"):
        for path in modules(root, folder):
            for line, target, name, when in imports(root, path):
                seen += 1
                why = judge_import(path, target, name, when)
                if why:
                    wrong.append(f"{path}:{line}: {why}")
                # a package's own __init__ loads its modules, which may name it again
                if target and when != TYPES and target != path and not path.endswith("__init__.py"):
                    edges.setdefault(path, set()).add(target)
    circle = find_circle(edges)
    if circle:
        wrong.append("modules need each other: " + " -> ".join(circle))
    return wrong, seen


def judge_guide(root):
    """What docs/architecture.md's table "Where to look" names and is not there."""
    path = os.path.join(root, "docs/architecture.md")
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as f:
        table = f.read().partition("## Where to look\n")[2].partition("\n## ")[0]
    wrong, text = [], ""
    for file, names in re.findall(r"`([\w./-]+/[\w./-]*)`|\(((?:`\w+`(?:, )?)+)\)", table):
        if file:
            full = next((f for f in (os.path.join(root, "src", file), os.path.join(root, file)) if os.path.exists(f)), None)
            if not full:
                wrong.append(f"docs/architecture.md: '{file}' is not there")
            text = ""
            if full and os.path.isfile(full):
                with open(full, encoding="utf-8", errors="replace") as f:
                    text = f.read()
        for name in re.findall(r"\w+", names):
            if not re.search(rf"\b{name}\(", text):
                wrong.append(f"docs/architecture.md: no {name}() is in the file that is named before it")
    return wrong


def judge_house(root):
    wrong, seen = judge_python(root)
    wrong += judge_guide(root)
    for folder, judge in (("src", judge_src), ("cli", judge_cli), ("include", judge_public), ("runtime", judge_runtime)):
        for path in sources(root, folder):
            for line, quote, target in includes(root, path):
                seen += 1
                why = judge(root, path, quote, target)
                if why:
                    wrong.append(f"{path}:{line}: {why}")
    return wrong, seen


HOUSE = {
    "docs/architecture.md": "## Where to look\n`base/base.h`, `src/base/`\n",
    "src/base/base.h": "",
    "src/base/files.h": "",
    "src/recordings/snapshot/snapshot.h": '#include "base/base.h"\n',
    "src/recordings/snapshot/inner.h": "",
    "src/recordings/program/program.h": '#include "snapshot/snapshot.h"\n',
    "src/logs/messages/messages.h": '#include <stdio.h>\n',
    "src/commands/report/run.c": '#include "program/program.h"\n#include <plimsoll/report.h>\n',
    "cli/cmd.h": "#include <plimsoll/report.h>\n",
    "cli/main.c": '#include "cmd.h"\n',
    "include/plimsoll/report.h": "#include <stdint.h>\n",
    "src/recordings/allocator/vmm.h": "",
    "runtime/allocator/device.h": "",
    "runtime/allocator/hooks.c": '#include "device.h"\n#include "allocator/vmm.h"\n',
    "runtime/recorder/record.py": "import os\n",
    "python/plimsoll/__init__.py": "from .a import one\n",
    "python/plimsoll/a.py": "import os\nfrom .b import two\nfrom . import lint\n",
    "python/plimsoll/b.py": "def f():\n    import torch\n",
    "python/plimsoll/lint/__init__.py": "from .engine import run\n",
    "python/plimsoll/lint/engine.py": "import re\nfrom .source import read\n",
    "python/plimsoll/lint/source.py": "import tokenize\n",
}
BAD_ARROWS = [
    ("src/base/base.h", '#include "snapshot/snapshot.h"'),           # up
    ("src/recordings/snapshot/snapshot.c", '#include "program/program.h"'),     # up the chain
    ("src/logs/messages/messages.c", '#include "snapshot/snapshot.h"'),   # sideways
    ("src/recordings/snapshot/snapshot.c", '#include "messages/messages.h"'),   # sideways
    ("src/recordings/program/a.c", '#include "snapshot/inner.h"'),           # past the neighbour's one header
    ("src/recordings/snapshot/snapshot.c", '#include "base/files.h"'),          # the same on the ground floor
    ("src/recordings/snapshot/snapshot.c", '  #  include "commands/out.h"'),         # odd spacing
    ("src/recordings/snapshot/snapshot.c", '#include "../program/program.h"'),  # around the corner
    ("src/commands/report/run.c", '#include "commands/ckpt/ckpt.h"'),   # another command
    ("src/logs/cellar/cellar.c", '#include "base/base.h"'),    # no such floor
    ("cli/main.c", '#include "base/base.h"'),                  # the program past the public API
    ("cli/main.c", '#include "../src/base/base.h"'),
    ("include/plimsoll/report.h", '#include "base/base.h"'),
    ("runtime/allocator/hooks.c", '#include "allocator/caching.h"'),  # more than the job needs
    ("runtime/allocator/hooks.c", "#include <plimsoll/report.h>"),
    ("runtime/recorder/record.py", "import plimsoll"),
    ("python/plimsoll/b.py", "import numpy"),                        # a dependency of everybody
    ("python/plimsoll/b.py", "from .a import one"),                  # a circle
    ("python/plimsoll/b.py", "def g():\n    from .a import one"),    # a circle that a function hides
    ("python/plimsoll/b.py", "from .lint.source import read"),       # past the linter's one face
    ("python/plimsoll/lint/source.py", "from ..a import one"),       # the linter is on its own
    ("python/plimsoll/lint/source.py", "from .engine import run"),   # a circle
    ("docs/architecture.md", "`base/gone.c`"),                       # a file that is not there
    ("docs/architecture.md", "`base/base.h` (`gone`)"),              # a function that is not in it
]


def build(top, house):
    for path, text in house.items():
        full = os.path.join(top, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as f:
            f.write(text)


def self_test():
    said = []
    for path, line in [(None, None)] + BAD_ARROWS:
        with tempfile.TemporaryDirectory() as top:
            house = dict(HOUSE)
            if path:
                house[path] = house.get(path, "") + line + "\n"
            build(top, house)
            wrong, _ = judge_house(top)
        if bool(wrong) != bool(path):
            said.append(f"self-test: {path or 'a good house'} {line or ''}: {wrong or 'not refused'}")
    return said


def main():
    said = self_test()
    wrong, seen = judge_house(sys.argv[1])
    if not seen:
        said.append("no include was seen: is this the project's folder?")
    for line in said + wrong:
        print(line)
    if not said + wrong:
        print(f"{seen} includes and imports, all point down; {len(BAD_ARROWS)} bad ones were refused")
    return 1 if said + wrong else 0


sys.exit(main())
