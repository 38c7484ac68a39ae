#!/usr/bin/env python3
"""abi.py LIBRARY [CC...]: print the library's binary interface, for tests/abi.txt.

Exported symbols as the linker sees them; prototypes, enumerators and the layout of every struct of
include/plimsoll as the compiler sees them.
"""
import glob
import os
import re
import subprocess
import sys
import tempfile

library, *cc = sys.argv[1:]
top = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
include = os.path.join(top, "include")


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def symbols():
    """What the library exports; sanitizers add their own."""
    names = [line.split()[-1] for line in output("nm", "-D", "--defined-only", library).splitlines()]
    return sorted("symbol " + n for n in names if not re.match(r"(__\w*[au]san|__sanitizer|___?asan|_init$|_fini$)", n))


def header_text():
    text = ""
    for path in sorted(glob.glob(os.path.join(include, "plimsoll", "*.h"))):
        with open(path) as f:
            text += f.read()
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    return re.sub(r"^[ \t]*#.*(\\\n.*)*$", "", text, flags=re.M)


def one_line(text):
    return re.sub(r"\( | \)", lambda m: m[0].strip(), " ".join(text.split()))


def members(body):
    """The names that a struct's declarations declare: the last word of each, before any bounds."""
    for declaration in body.split(";"):
        for declarator in declaration.split(","):
            name = re.search(r"(\w+)\s*(\[[^]]*\]\s*)*$", declarator)
            if name:
                yield name[1]


def layouts(text):
    """Sizes and offsets, printed by a program that the compiler makes of the headers."""
    lines = []
    for name, body in re.findall(r"struct (plim_\w+) \{(.*?)\n\};", text, flags=re.S):
        lines.append(f'printf("struct {name} %zu\\n", sizeof(struct {name}));')
        for m in members(body):
            lines.append(f'printf("struct {name}.{m} %zu %zu\\n", offsetof(struct {name}, {m}), '
                         f'sizeof(((struct {name} *)0)->{m}));')
    for name, body in re.findall(r"enum (plim_\w+) \{(.*?)\}", text, flags=re.S):
        for m in re.findall(r"(\w+)\s*(?:=[^,]*)?(?:,|$)", body.strip()):
            lines.append(f'printf("enum {name} {m} %d\\n", (int){m});')
    with tempfile.TemporaryDirectory() as folder:
        source, exe = os.path.join(folder, "abi.c"), os.path.join(folder, "abi")
        with open(source, "w") as f:
            f.write("#include <plimsoll/plimsoll.h>\n#include <stddef.h>\n#include <stdio.h>\nint main(void)\n{\n" +
                    "\n".join(lines) + "\nreturn 0;\n}\n")
        output(*(cc or ["cc"]), "-I", include, "-o", exe, source)
        return output(exe).splitlines()


def prototypes(text):
    for declaration in re.findall(r"(?:PLIM_API|typedef)\s[^;{]*;", text):
        yield one_line(declaration.replace("PLIM_API", "")).rstrip(";")


text = header_text()
found = layouts(text)
print("# The binary interface of libplimsoll, printed by tools/abi.py; make docs rewrites it.  Before 1.0 it may change,")
print("# but never unseen: read the difference, and think of the soname.")
print("\n".join(symbols() + sorted(prototypes(text)) + found))
