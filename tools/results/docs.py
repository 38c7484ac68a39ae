"""docs/json.md: what stands in docs/json.md.in, with the rows of each schema."""
import re

from headers import HeaderError, unit, unit_word

TYPES = {"u64": "integer", "i64": "integer", "u32": "integer", "bool": "true or false", "tri": "true or false",
         "double": "number", "string": "string", "enum": "string", "struct": "object", "pointer": "object",
         "structs": "array of objects", "strings": "array of strings", "u64s": "array of integers"}
NULLABLE = ("u64", "tri", "double", "string", "pointer")


def type_of(api, m):
    if m.of == "interval":
        return f"interval, {word}" if (word := unit_word(m.name)) else "interval"
    text, null = TYPES[m.kind], m.kind in NULLABLE and not m.never_null
    if unit(m):
        text += ", " + unit(m)
    if m.kind == "enum":
        names = api.enums[m.of].names().values()
        text += ": " + ", ".join(f"`{n}`" for n in names if n is not None)
        null = None in names
    if null:
        text += ", or null" if unit(m) or m.kind == "enum" else " or null"
    return text


def rows(api, struct, prefix=""):
    for m in api.structs[struct].shown:
        path = prefix + m.name + ("[]" if m.count else "")
        yield f"| `{path}` | {type_of(api, m)} | {m.text} |"
        if m.of in api.structs and m.of != "interval":
            yield from rows(api, m.of, path + ".")


def check(api, template):
    """Each schema has one table and is named in a heading; no table is of a schema that no header has."""
    tables = re.findall(r"^@(\w+)@$", template, re.M)
    for name in api.schemas:
        if tables.count(name) != 1 or not re.search(rf"^## .*@{name}/N@", template, re.M):
            raise HeaderError(f"docs/json.md.in: schema {name} wants one section: a heading '## @{name}/N@', what prints "
                              f"it, and a line '@{name}@'")
    for name in {*tables, *re.findall(r"@(\w+)/N@", template)} - set(api.schemas):
        raise HeaderError(f"docs/json.md.in: no header has a schema {name}")


def page(api, template):
    """The template's lines, a line "@NAME@" replaced by the table of that schema."""
    check(api, template)
    for line in template.splitlines():
        found = re.fullmatch(r"@(\w+)@", line)
        if found:
            number, root = api.schemas[found[1]]
            yield "| key | type | meaning |\n|---|---|---|"
            yield f"| `schema` | string | `{found[1]}/{number}` |\n| `version` | string | of the program |"
            yield from rows(api, root)
        else:
            yield re.sub(r"@(\w+)/N@", lambda m: f"{m[1]}/{api.schemas[m[1]][0]}", line)
