"""The public headers as data: structs, enums, functions, and the rules that they keep.

The public header is the schema: what is written once there becomes the JSON, docs/json.md, the JSON
Schema files and the types of Python and TypeScript.  So it keeps to a form that a hundred lines can read:

    struct plim_NAME {                  one member a line, each with a comment behind it or above it
        uint64_t a_bytes;               null unless known; "(never null) ..." where it always is
        struct plim_x *rows;            followed by a size_t that ends in _count: an array; else a pointer or null
        enum plim_y kind;               shown by the name of its enumerator
        struct plim_x_hidden *hidden;   "hidden" and members whose comment begins "(C only)" are in no JSON
    };

An enumerator is shown without what all of them begin with, in small letters; null if its comment begins "null".
"""
import os
import re
from dataclasses import dataclass, field


class HeaderError(Exception):
    pass


@dataclass
class Member:
    name: str
    type: str  # as C has it, without the name: "const struct plim_x *"
    doc: str
    kind: str  # u64 i64 u32 bool tri double string enum struct pointer structs strings u64s count other
    of: str = ""  # the enum or struct without "plim_"
    count: str = ""  # the member that counts an array
    bounds: str = ""  # of an array inside of the struct: "[1000]"

    @property
    def hidden(self):
        """Is it the library's own: what owns the memory?"""
        return self.name == "hidden" and self.kind == "pointer"

    @property
    def shown(self):
        """Is it in the JSON?"""
        return self.kind not in ("count", "other") and not self.hidden and not self.doc.startswith("(C only)")

    @property
    def never_null(self):
        return self.doc.startswith("(never null)")

    @property
    def text(self):
        return re.sub(r"^\((never null|C only)\) ?", "", self.doc)


@dataclass
class Struct:
    name: str  # without "plim_"
    members: list
    doc: str
    header: str

    @property
    def shown(self):
        return [m for m in self.members if m.shown]


@dataclass
class Enum:
    name: str
    values: list  # (enumerator, number, comment)
    doc: str

    def names(self):
        """The names in JSON by value, None for those that are null."""
        words = [name.split("_") for name, _, _ in self.values]
        same = len(os.path.commonprefix(words)) if len(words) > 1 else 2
        return {number: None if doc.startswith("null") else "_".join(w[same:]).lower()
                for w, (_, number, doc) in zip(words, self.values)}

    @property
    def flags(self):
        return self.name.endswith("_flags")


@dataclass
class Function:
    name: str
    returns: str
    parameters: list  # (type, name)
    doc: str


@dataclass
class Api:
    structs: dict = field(default_factory=dict)
    enums: dict = field(default_factory=dict)
    functions: list = field(default_factory=list)
    callbacks: dict = field(default_factory=dict)
    version: str = ""
    schemas: dict = field(default_factory=dict)  # "report" -> (number, struct), in the headers' order

    def reachable(self, root):
        """A struct and all that it holds, those without structs first."""
        done = {}

        def visit(name, path):
            if name in path:
                raise HeaderError(f"struct plim_{name} holds itself")
            for m in self.structs[name].shown:
                if m.kind in ("struct", "pointer", "structs") and m.of not in done:
                    if m.of not in self.structs:
                        raise HeaderError(f"struct plim_{name}: nothing is known of what '{m.name}' points to")
                    visit(m.of, path + [name])
            done[name] = self.structs[name]
        visit(root, [])
        return list(done.values())

    def results(self):
        """All structs of all schemas, each behind what it holds."""
        found = {}
        for _, root in self.schemas.values():
            for struct in self.reachable(root):
                found[struct.name] = struct
        return list(found.values())


def comment_text(comment):
    lines = [re.sub(r"^\s*\*? ?", "", line) for line in comment.strip()[2:-2].split("\n")]
    return " ".join(" ".join(lines).split())


# What a member's type without const and spaces makes of it.
PLAIN = {"uint64_t": "u64", "int64_t": "i64", "uint32_t": "u32", "bool": "bool", "double": "double",
         "char*": "string", "size_t": "count"}
ARRAYS = {"char**": "strings", "uint64_t*": "u64s"}


def member(struct, declaration, doc, following):
    found = re.fullmatch(r"(.*?)(\w+)((?:\[\w*\])*)", declaration.strip())
    if not found:
        raise HeaderError(f"struct plim_{struct}: cannot read '{declaration}'")
    type_, name, bounds = found[1].strip(), found[2], found[3]
    if not type_:
        raise HeaderError(f"struct plim_{struct}: '{name}' has no type that can be read")
    bare = re.sub(r"\bconst\b|\s", "", type_)
    counted = re.fullmatch(r"\s*size_t (\w+_count);.*", following or "", re.S)
    m = Member(name, type_, doc, PLAIN.get(bare, "other"), bounds=bounds)
    compound = re.fullmatch(r"(struct|enum)plim_(\w+?)(\*?)", bare)
    if bounds:
        m.kind = "other"
    elif bare in ARRAYS and counted:
        m.kind, m.count = ARRAYS[bare], counted[1]
    elif compound:
        m.of = compound[2]
        m.kind = compound[1] if not compound[3] else "structs" if counted else "pointer"
        m.count = counted[1] if m.kind == "structs" else ""
    if m.kind == "enum" and m.of == "tri":
        m.kind, m.of = "tri", ""
    if m.kind == "count" and not name.endswith("_count"):
        m.kind = "other"
    return m


def struct_of(name, body, doc, header):
    """The members of a struct, a line each; rules that are broken are errors."""
    statements, above = [], None  # (declaration, comment)
    token = re.compile(r"(/\*.*?\*/)|([^/\n;]+(?:\n[ \t]+[^/\n;]+)?;)[ \t]*(/\*.*?\*/)?", re.S)
    rest = token.sub("", body).split()
    if rest:
        raise HeaderError(f"{header}: struct plim_{name}: '{' '.join(rest)}' is no member on a line of its own")
    for comment, declaration, behind in token.findall(body):
        if comment:
            above = comment_text(comment)
            continue
        text = comment_text(behind) if behind else above or ""
        statements.append((" ".join(declaration.split()), text))
        above = None
    members = []
    for i, (declaration, text) in enumerate(statements):
        if "," in declaration:
            raise HeaderError(f"{header}: struct plim_{name}: more than one member in '{declaration}'")
        following = statements[i + 1][0] if i + 1 < len(statements) else ""
        members.append(member(name, declaration[:-1], text, following))
        if not text and members[-1].kind != "count" and not members[-1].hidden:
            raise HeaderError(f"{header}: struct plim_{name}: '{members[-1].name}' has no comment")
    return Struct(name, members, doc, header)


def enum_of(name, body, doc, header):
    values, number, above = [], 0, ""
    for comment, enumerator, value, behind in re.findall(
            r"(/\*.*?\*/)|(\w+)(?:\s*=\s*([^,/\n]+?))?\s*(?:,|(?=/\*)|$)(?:[ \t]*(/\*.*?\*/))?", body, re.S):
        if comment:
            above = comment_text(comment)
            continue
        number = eval(value, {}, {n: v for n, v, _ in values}) if value else number  # 1 << 20
        values.append((enumerator, number, comment_text(behind) if behind else above))
        number, above = number + 1, ""
    if not values:
        raise HeaderError(f"{header}: enum plim_{name} has no enumerators")
    return Enum(name, values, doc)


def parameters(text):
    result = []
    for part in text.split(","):
        part = " ".join(part.split())
        if part not in ("void", ""):
            found = re.fullmatch(r"(.*?)(\w+)(\[\])?", part)
            result.append((found[1].strip() + (" *" if found[3] else ""), found[2]))
    return result


def read(paths):
    """The headers at `paths` as an Api."""
    api = Api()
    for path in sorted(paths):
        header = os.path.basename(path)
        with open(path, encoding="utf-8") as f:
            text = re.sub(r"^[ \t]*#.*(\\\n.*)*$", "", f.read(), flags=re.M)
        doc = r"(?:(/\*(?:(?!\*/).)*\*/)\n)?"
        for comment, name, body in re.findall(doc + r"struct plim_(\w+) \{(.*?)\n\};", text, re.S):
            api.structs[name] = struct_of(name, body, comment and comment_text(comment), header)
        for comment, name, body in re.findall(doc + r"enum plim_(\w+) \{(.*?)\};", text, re.S):
            api.enums[name] = enum_of(name, body, comment and comment_text(comment), header)
        for comment, returns, name, args in re.findall(
                doc + r"PLIM_API ([\w\s\*]+?)\s*\b(plim_\w+)\(([^;{]*)\);", text, re.S):
            told = comment and comment_text(comment)
            api.functions.append(Function(name, " ".join(returns.split()), parameters(args), told))
            schema = re.search(r"schema (\w+)/(\d+)", told or "")
            if schema and name.endswith("_json"):
                api.schemas[schema[1]] = (int(schema[2]), re.search(r"struct plim_(\w+)", args)[1])
        for comment, returns, name, args in re.findall(
                doc + r"typedef ([\w\s\*]+?)\s*\b(plim_\w+_fn)\(([^;{]*)\);", text, re.S):
            api.callbacks[name] = Function(name, " ".join(returns.split()), parameters(args),
                                           comment and comment_text(comment))
    check(api)
    return api


UNITS = {"bytes": "bytes", "_ns": "nanoseconds", "_us": "microseconds", "_ms": "milliseconds", "_s": "seconds",
         "_pct": "percent", "_mw": "milliwatts"}
NUMBERS = ("u64", "i64", "u32", "double", "u64s")


def unit_word(name):
    return next((word for end, word in UNITS.items() if name.endswith(end)), None)


def unit(m):
    return unit_word(m.name) if m.kind in NUMBERS else None


def fault(m):
    """What is wrong with a member of a result, or None."""
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", m.name):
        return "is not snake_case"
    if "bytes" in m.name and m.kind not in NUMBERS + ("struct",):
        return "speaks of bytes, but is no number"
    if "|" in m.doc:
        return "has a comment that breaks a table of Markdown"
    if m.kind in ("strings", "structs", "u64s") and not m.count:
        return "has no count behind it"
    return None


def check(api):
    """The rules of results: PLIM_API functions `_json` are their roots."""
    functions = {f.name for f in api.functions}
    for struct in api.results():
        for m in struct.members:
            wrong = m.shown and fault(m)
            if not wrong and m.kind == "other" and not m.doc.startswith("(C only)"):
                wrong = "is of a type that no JSON has"
            if not wrong and m.kind == "enum" and m.of not in api.enums:
                wrong = "is of an enum that no header has"
            if not wrong and m.kind == "enum" and f"plim_{m.of}_name" not in functions:
                wrong = f"is of an enum without a function plim_{m.of}_name"
            if wrong:
                raise HeaderError(f"{struct.header}: struct plim_{struct.name}: '{m.name}' {wrong}")
