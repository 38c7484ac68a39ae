"""results WHAT [NAME]: what is made of the public headers, printed.

    rows, tables   the C file of the tables that JSON is emitted by, and its header
    docs           docs/json.md
    commands       the C header of the rows of commands' options
    python-results plimsoll/_results.py, the results as typed classes
    schema NAME    JSON Schema of one result ("report"); schemas prints their names
    typescript     ui/src/results.ts, the types of what the viewer shows
    python-abi     plimsoll/_abi.py, the library as ctypes

results write: the files of CHECKOUT, which git does not have, written into this source tree (or $MESON_DIST_ROOT) if
they are missing or changed.
"""
import glob
import os
import re
import sys
import tempfile

import commands
import docs
import headers
import python
import rows
import schema
import typescript

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def template():
    with open(os.path.join(TOP, "docs/json.md.in"), encoding="utf-8") as f:
        return f.read()


def version():
    with open(os.path.join(TOP, "meson.build"), encoding="utf-8") as f:
        return re.search(r"version: '([\d.]+)'", f.read())[1]


WAYS = {
    "rows": rows.source,
    "tables": rows.header,
    "commands": commands.header,
    "docs": lambda api: "\n".join(docs.page(api, template())) + "\n",
    "python-results": python.results,
    "python-abi": python.abi,
    "python-version": lambda api: f'"""The version that meson.build has.  make docs rewrites it."""\n__version__ = "{api.version}"\n',
    "typescript": typescript.source,
    "schema": schema.source,
    "schemas": lambda api: "\n".join(api.schemas) + "\n",
}

# What Python and the viewer's type checker import from the source tree itself.
CHECKOUT = {"python/plimsoll/_abi.py": python.abi, "python/plimsoll/_results.py": python.results, "ui/src/results.ts": typescript.source}


def write(api):
    top = os.environ.get("MESON_DIST_ROOT", TOP)
    for name, way in CHECKOUT.items():
        path, made = os.path.join(top, name), way(api)
        try:
            with open(path, encoding="utf-8") as f:
                if f.read() == made:
                    continue
        except (FileNotFoundError, UnicodeDecodeError):
            pass
        # Several build folders may write it at once, and a program may be reading it.
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=os.path.dirname(path), suffix=".made", delete=False) as f:
            f.write(made)
        os.chmod(f.name, 0o644)
        os.replace(f.name, path)
    return ""


WAYS["write"] = write


def main():
    if len(sys.argv) != 2 + (sys.argv[1:2] == ["schema"]) or sys.argv[1] not in WAYS:
        sys.exit(__doc__)
    try:
        api = headers.read(glob.glob(os.path.join(TOP, "include/plimsoll/*.h")))
        api.version = version()
        made = WAYS[sys.argv[1]](api, *sys.argv[2:])
    except headers.HeaderError as error:
        sys.exit(f"results: {error}")
    sys.stdout.write(made)


if __name__ == "__main__":
    main()
