"""Tables of the structs plim_X_options, by which src/base/options.c checks what callers hand in.

A member `flags` says in its comment which enum its bits are of, or names them one by one; an enum may
hold its enumerators; `unused` is 0; a struct plim_X_options inside is checked as such.
"""
import re

from headers import HeaderError


def bits(api, struct, m):
    enums = [api.enums[name] for name in re.findall(r"enum plim_(\w+)", m.doc)]
    known = {name: number for enum in api.enums.values() for name, number, _ in enum.values}
    named = re.findall(r"\bPLIM_\w+", m.doc)
    numbers = [number for enum in enums for _, number, _ in enum.values] + [known[n] for n in named if n in known]
    if not numbers and m.doc != "0":
        raise HeaderError(f"struct plim_{struct.name}: the comment of 'flags' names no enum")
    mask = 0
    for number in numbers:
        mask |= number
    return mask


def rule(api, struct, m):
    """OPTIONS_* with what goes with it."""
    if m.name == "flags":
        return "OPTIONS_FLAGS", f"{bits(api, struct, m):#x}", "NULL"
    if m.name == "unused":
        return "OPTIONS_ZERO", "0", "NULL"
    if m.kind == "enum":
        return "OPTIONS_ENUM", str(max(number for _, number, _ in api.enums[m.of].values)), "NULL"
    if m.kind == "struct" and m.of.endswith("_options"):
        return "OPTIONS_NESTED", "0", f"&{m.of}_table"
    return "OPTIONS_ANY", "0", "NULL"


def options(api):
    """The options structs, those inside of others first."""
    structs = [s for s in api.structs.values() if s.name.endswith("_options")]
    return sorted(structs, key=lambda s: any(m.kind == "struct" for m in s.members))


def table(api, struct):
    of = f"struct plim_{struct.name}"
    if struct.members[0].name != "size":
        raise HeaderError(f"{of}: does not begin with its size")
    yield f"static const struct options_member {struct.name}_members[] = {{"
    for m in struct.members:
        how, most, nested = rule(api, struct, m)
        yield f'\t{{ "{m.name}", offsetof({of}, {m.name}), sizeof((({of} *)0)->{m.name}), {how}, {most}, {nested} }},'
    yield "};"
    yield f'const struct options_table {struct.name}_table = {{ "plim_{struct.name}", sizeof({of}), {struct.name}_members, {len(struct.members)} }};\n'
