"""ui/src/results.ts: the structs of report, curves and watch as the pages' JSON has them."""

SCALARS = {"u64": "number | null", "i64": "number", "u32": "number", "bool": "boolean", "tri": "boolean | null",
           "double": "number | null", "string": "string | null", "strings": "string[]", "u64s": "number[]"}


def name_of(struct):
    return "".join(part[:1].upper() + part[1:] for part in struct.split("_"))


def type_of(api, m):
    if m.kind == "enum":
        return " | ".join("null" if n is None else f'"{n}"' for n in api.enums[m.of].names().values())
    if m.kind in SCALARS:
        return SCALARS[m.kind].replace(" | null", "") if m.never_null else SCALARS[m.kind]
    return {"struct": "{}", "pointer": "{} | null", "structs": "{}[]"}[m.kind].format(name_of(m.of))


def interfaces(api, roots):
    yield "// Made of include/plimsoll by tools/results in each build; git does not have it.\n"
    structs = {struct.name: struct for root in roots for struct in api.reachable(root)}
    for struct in structs.values():
        yield f"export interface {name_of(struct.name)} {{"
        for m in struct.shown:
            yield f"\t{m.name}: {type_of(api, m)}; // {m.text}"
        yield "}\n"


def source(api):
    return "\n".join(interfaces(api, ("report", "curves", "watch")))
