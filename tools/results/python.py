"""Two modules of the Python package: the results as typed classes over their JSON, the C library as ctypes."""
import re
import textwrap

import commands

HEAD = "Made of include/plimsoll by tools/results in each build; git does not have it."


def camel(name):
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


# ---- _results.py ----

SCALARS = {"u64": "int | None", "i64": "int", "u32": "int", "bool": "bool", "tri": "bool | None",
           "double": "float | None", "string": "str | None", "strings": "list[str]", "u64s": "list[int]"}


def class_of(api, name):
    """ReportPeak; what a schema prints is ReportFields, for the command's own class to be named Report."""
    return camel(name) + ("Fields" if name in {root for _, root in api.schemas.values()} else "")


def annotation(api, m):
    if m.kind == "enum":
        names = api.enums[m.of].names().values()
        literal = ", ".join(f'"{n}"' for n in names if n is not None)
        return f"Literal[{literal}]" + (" | None" if None in names else "")
    if m.kind in SCALARS:
        return SCALARS[m.kind].replace(" | None", "") if m.never_null else SCALARS[m.kind]
    inner = class_of(api, m.of)
    return {"struct": inner, "pointer": inner + " | None", "structs": f"list[{inner}]"}[m.kind]


def quoted(text, indent="    "):
    text = text.replace("\\", "\\\\").replace('"', "'")
    return textwrap.wrap(f'"""{text}"""', 118, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def result_class(api, struct):
    schema = next((f"{name}/{number}" for name, (number, root) in api.schemas.items() if root == struct.name), None)
    yield f"class {class_of(api, struct.name)}(Object):"
    if schema:
        yield f'    """The fields of {schema} (docs/json.md)."""\n'
    yield "    __slots__ = ()"
    if schema:
        yield f'    schema: Literal["{schema}"]\n    version: str\n    """of the library"""'
    for m in struct.shown:
        yield f"    {m.name}: {annotation(api, m)}"
        yield from quoted(m.text)
    inner = [f'"{m.name}": {class_of(api, m.of)}' for m in struct.shown if m.of in api.structs]
    if inner:
        yield f"    _objects: ClassVar[dict[str, type[Object]]] = {{{', '.join(inner)}}}"


def results(api):
    lines = [f'"""The JSON schemas as classes.  {HEAD}"""', "# ruff: noqa", "from __future__ import annotations", "",
             "from typing import ClassVar, Literal", "", "from ._object import Object", ""]
    for struct in api.results():
        lines += [""] + list(result_class(api, struct)) + [""]
    return "\n".join(lines)


# ---- _abi.py ----

CTYPES = {"uint8_t": "c_uint8", "uint16_t": "c_uint16", "uint32_t": "c_uint32", "uint64_t": "c_uint64",
          "int32_t": "c_int32", "int64_t": "c_int64", "size_t": "c_size_t", "unsigned": "c_uint", "int": "c_int",
          "long": "c_long", "float": "c_float", "double": "c_double", "bool": "c_bool", "char": "c_char", "void": "None"}


def ctype(api, type_, structs):
    """A C type as ctypes spells it; what Python hands through only is a c_void_p."""
    bare, stars = re.sub(r"\b(const|volatile|struct|enum)\b|[\s*]", "", type_), type_.count("*")
    if bare in api.callbacks:
        return "c_void_p"
    base = CTYPES.get(bare) or ("c_int" if "enum " in type_ else bare)
    if stars == 0:
        return base
    if bare == "char":
        return {1: "c_char_p", 2: "POINTER(c_char_p)"}.get(stars, "c_void_p")
    if bare == "void" or "struct " in type_ and bare not in structs:
        return "c_void_p" if stars == 1 else "POINTER(c_void_p)"
    return f"POINTER({base})" if stars == 1 else "POINTER(c_void_p)"


def inputs(api):
    """The structs that callers fill or that are filled for them, those within others first."""
    results_ = {s.name for s in api.results()}
    handed = " ".join(type_ for f in api.functions for type_, _ in f.parameters)
    wanted = {n: s for n, s in api.structs.items() if n not in results_ or
              re.search(rf"const struct plim_{n} ?\*", handed) and "hidden" not in [m.name for m in s.members]}
    placed = {}
    while len(placed) < len(wanted):
        for name, struct in wanted.items():
            needs = {m.of for m in struct.members if m.kind in ("struct", "pointer", "structs")} & set(wanted) - {name}
            if name not in placed and needs <= set(placed):
                placed[name] = struct
    return list(placed.values())


def structure(api, struct, structs):
    yield f"class plim_{struct.name}(Structure):\n    _fields_ = ["
    for m in struct.members:
        kind = ctype(api, m.type, structs)
        for bound in re.findall(r"\[(\w+)\]", m.bounds):
            kind = f"{kind} * {bound}"
        yield f'        ("{m.name}", {kind}),'
    yield "    ]"


def abi(api):
    lines = [f'"""The C library as ctypes.  {HEAD}"""', "# ruff: noqa", "# mypy: ignore-errors", "from ctypes import *",
             "from typing import Any", "",
             "UNKNOWN = 2**64 - 1", ""]
    lines += [f"{name} = {number}" for enum in api.enums.values() for name, number, _ in enum.values]
    structs = {f"plim_{s.name}" for s in inputs(api)}
    for struct in inputs(api):
        lines += ["", ""] + list(structure(api, struct, structs))
    lines += ["", "", "PROTOTYPES = {"]
    for f in sorted(api.functions, key=lambda f: f.name):
        arguments = ", ".join(ctype(api, type_, structs) for type_, _ in f.parameters)
        lines.append(f'    "{f.name}": ({ctype(api, f.returns, structs)}, [{arguments}]),')
    return "\n".join(lines + ["}", "", *commands.python(api), ""])
