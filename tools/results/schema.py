"""JSON Schema (2020-12) of a result, for whoever reads our JSON with a program."""
import json

TYPES = {"u64": {"type": ["integer", "null"], "minimum": 0}, "i64": {"type": "integer"},
         "u32": {"type": "integer", "minimum": 0}, "bool": {"type": "boolean"}, "tri": {"type": ["boolean", "null"]},
         "double": {"type": ["number", "null"]}, "string": {"type": ["string", "null"]},
         "strings": {"type": "array", "items": {"type": ["string", "null"]}},
         "u64s": {"type": "array", "items": {"type": ["integer", "null"], "minimum": 0}}}


def type_of(api, m):
    if m.kind == "enum":
        return {"enum": list(api.enums[m.of].names().values())}
    if m.kind in TYPES:
        kind = dict(TYPES[m.kind])
        if m.never_null:
            kind["type"] = kind["type"][0]
        return kind
    inner = {"$ref": f"#/$defs/{m.of}"}
    return {"struct": inner, "pointer": {"anyOf": [inner, {"type": "null"}]},
            "structs": {"type": "array", "items": inner}}[m.kind]


def object_of(api, struct, more=None):
    properties = dict(more or {})
    for m in struct.shown:
        properties[m.name] = {"description": m.text, **type_of(api, m)}
    return {"type": "object", "properties": properties, "required": list(properties)}


def schema(api, name):
    number, root = api.schemas[name]
    *inner, outer = api.reachable(root)
    head = {"schema": {"const": f"{name}/{number}"}, "version": {"type": "string", "description": "of the program"}}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"urn:plimsoll:{name}:{number}",
            "title": f"{name}/{number}", **object_of(api, outer, head),
            "$defs": {s.name: object_of(api, s) for s in inner}}


def source(api, name):
    return json.dumps(schema(api, name), indent=1) + "\n"
