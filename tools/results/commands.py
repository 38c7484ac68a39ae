"""Options of commands: what the members of a struct plim_X_options, and the bits of its flags, say in front of their comments.

    (-s --seq tokens, 1 to 2^26, also seq-len max-length, after --batch) tokens of a sample. 0: as the model has it

The first sentence is the help; what follows it is for callers from C.  In the parentheses, with commas between:

    -s --seq tokens        the letter, the name, and what help calls the value
    1 to 2^26, from 1MiB   what a number may be
    is 2, is unknown       what it is unless given, as help says; without it 0, NULL, or not set; is 0.5 of a double
    else 896MiB            the same, where the sentence says it or it is not needed
    times 1000             of what help calls the value, in the member
    of plim_x              the enum whose enumerators the names are; of a member that is an enum it is that one
    alone full             what it is if the value is left out
    or full none every:    what may then stand in the next argument
    also a b=x c:y=z,v=w   names that other tools have for it; with a value that is meant; with their words for values
    takes "a size, like 3" a text that the program turns into numbers, and what to say if it cannot (or: wants)
    by image_width         the member that the second number of such a text goes to
    under GROUP            the first of a group of rows: X_GROUP_OPTIONS in the command's table
    after --batch          where it stands; else it follows the one above it

Structs that share an enum have the bits in the comment of `flags`: PLIM_X_A (--a, under GROUP) help. PLIM_X_B (--b) help

A struct with such a member has them all; the others are "(C only)", counts, or named behind "by".
"""
import ast
import os
import re
from dataclasses import dataclass, field

from headers import HeaderError


@dataclass
class Option:
    member: str
    help: str
    kind: str = ""  # FLAG U64 BYTES STRING OPTIONAL LIST RELEASE COUNT SIDES DOUBLE CHOICE, as cli/opt.h has them
    letter: str = ""
    name: str = ""
    value: str = ""
    least: str = "0"
    most: str = "OPT_NONE"
    default: str = "0"
    said: str = "0"  # the default as it stands in the header
    alone: str = ""
    words: list = field(default_factory=list)
    also: list = field(default_factory=list)
    takes: str = ""
    second: str = ""  # the member that counts a list, or that the second side goes to
    group: str = ""
    after: str = ""
    bit: str = ""
    unsaid: bool = False
    narrow: bool = False  # a number of 32 bits
    times: str = ""
    of: str = ""

    @property
    def python(self):
        """The name that Python's keyword has, if it is not the member's."""
        return self.name.replace("-", "_")

    @property
    def initial(self):
        """What the member is unless the option is given, as C."""
        return f"({self.default} * (uint64_t){self.times})" if self.times else self.default


def number(text):
    """2^26, 1MiB, 4.46 (a release) and plain numbers, as C."""
    units = {"KiB": 10, "MiB": 20, "GiB": 30}
    found = re.fullmatch(r"(\d+)(?:\^(\d+)|(KiB|MiB|GiB)|\.(\d+))?", text)
    if not found:
        return None
    base, power, unit, minor = found.groups()
    n = int(base)
    n = n**int(power) if power else n << units[unit] if unit else 100 * n + int(minor) if minor else n
    return f"{n}u" if n < 1 << 32 else f"{n}ull"


def take(option, item):
    """One item of an annotation; false: it is none."""
    word, _, rest = item.partition(" ")
    limits = re.fullmatch(r"(?:from (\S+)|(\S+) to (\S+))", item)
    if limits and number(limits[1] or limits[2]):
        option.least = number(limits[1] or limits[2])
        option.most = number(limits[3]) if limits[3] else option.most
    elif word in ("is", "else"):
        option.unsaid = word == "else"
        option.default, option.said = "PLIM_UNKNOWN" if rest == "unknown" else number(rest), rest
    elif word in ("or", "also"):
        setattr(option, {"or": "words"}.get(word, word), rest.split())
    elif word in ("takes", "wants"):
        option.takes = word + " " + rest.strip('"')
    elif word in ("alone", "under", "after", "by", "times", "of"):
        setattr(option, {"under": "group", "by": "second"}.get(word, word), rest.removeprefix("--"))
    else:
        return False
    return True


def annotation(struct, member, doc):
    """The option that a comment declares, or None."""
    found = re.match(r"\((?:-(\w) )?--([\w-]+)(?: ((?:[^,()]|,(?! ))+))?((?:, (?:\"[^\"]*\"|[^()\"])+)*)\) (.*)", doc)
    if not found:
        return None
    letter, name, value, items, text = found.groups()
    option = Option(member, re.split(r"(?<!\.)\. ", text)[0], letter=letter or "", name=name, value=value or "")
    for item in re.findall(r", ((?:\"[^\"]*\"|,(?! )|[^,\"])+)", items):
        if not take(option, item):
            raise HeaderError(f"struct plim_{struct}: '{member}': an option has no '{item}'")
    return option


def kind_of(m, option):
    if m.kind == "enum" or option.of:
        option.of = option.of.removeprefix("plim_") or m.of
        return "CHOICE"
    if m.kind == "u32" or m.type == "unsigned" and not option.takes:
        option.narrow = True
        return "U64"
    if m.kind == "double":
        return "DOUBLE"
    if m.kind == "u64":
        takes = "SIDES" if option.second else "COUNT"
        return takes if option.takes else "BYTES" if m.name.endswith("_bytes") else "U64"
    if m.kind == "string":
        return "OPTIONAL" if option.alone else "STRING"
    return {"unsigned": "RELEASE", "const char *const *": "LIST", "const char **": "LIST"}.get(m.type)


def flags_of(api, struct):
    doc = next((m.doc for m in struct.members if m.name == "flags"), "")
    for enum in re.findall(r"enum plim_(\w+)", doc):
        begin = f"PLIM_{enum.removesuffix('_flags').upper()}_"
        for name, _, text in api.enums[enum].values:
            option = annotation(struct.name, name.removeprefix(begin).lower(), text)
            if option:
                option.kind, option.bit = "FLAG", name
            yield name, text, option
    for name, text in re.findall(r"(PLIM_\w+) (\(.*?)(?=\. PLIM_|$)", doc):
        begin = f"PLIM_{struct.name.partition('_')[0].upper()}_"
        option = annotation(struct.name, name.removeprefix(begin).lower(), text)
        if option:
            option.kind, option.bit = "FLAG", name
        yield name, text, option


def members_of(struct):
    names = [m.name for m in struct.members]
    for m in struct.members:
        option = annotation(struct.name, m.name, m.doc)
        if option:
            option.kind = kind_of(m, option)
            if not option.kind:
                raise HeaderError(f"struct plim_{struct.name}: '{m.name}' is of a type that no option has")
            if option.kind == "DOUBLE":
                option.default = option.said
            if option.kind == "LIST":
                option.second = m.name + "_count" if m.name + "_count" in names else m.count
        yield m.name, m.doc, option


def check_all(struct, found, others):
    covered = {"size", "flags", "unused", *(o.second for o in found)}
    for name, doc in others:
        if name not in covered and not doc.startswith("(C only)"):
            raise HeaderError(f"struct plim_{struct.name}: '{name}' is not an option of the command; begin its comment "
                              "with (--NAME ...) or (C only)")


def declared(api, struct):
    """The options of a struct as they stand in the header."""
    members = [*flags_of(api, struct), *members_of(struct)]
    found = [o for _, _, o in members if o]
    if found:
        check_all(struct, found, [(name, doc) for name, doc, o in members if not o])
    return found


def groups(api, struct):
    """{group: options} in the order of the help."""
    found = declared(api, struct)
    heads, behind, above = {}, {}, None
    for option in found:
        if option.group:
            heads.setdefault(option.group, []).append(option)
        else:  # those that say so come first, the newest first
            at = behind.setdefault(option.after or above.name, [])
            at.insert(0, option) if option.after else at.append(option)
        above = option
    done = {group: [] for group in heads}

    def place(group, option):
        done[group].append(option)
        for follower in behind.pop(option.name, []):
            place(group, follower)
    for group, options in heads.items():
        for option in options:
            place(group, option)
    if behind:
        raise HeaderError(f"struct plim_{struct.name}: there is no place after --{', --'.join(behind)}")
    return done


def commands(api):
    """(command, its struct, {group: options}) of each struct whose members are options."""
    for struct in api.structs.values():
        if struct.name.endswith("_options") and declared(api, struct):
            yield struct.name.removesuffix("_options"), struct, groups(api, struct)


def big_of(struct):
    return struct.name.removesuffix("_options").upper()


def text(value):
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def row(api, struct, o):
    def at(member):
        return f"{big_of(struct)}_AT + offsetof(struct plim_{struct.name}, {member})"

    parts = [f".kind = OPT_KIND_{o.kind}", f".name = {text(o.name)}", f".help = {text(o.help)}",
             f".offset = {at('flags' if o.bit else o.member)}", f".min = {o.least}", f".max = {o.most}",
             f".{'real' if o.kind == 'DOUBLE' else 'def'} = {o.default}"]
    parts += [f".letter = '{o.letter}'"] if o.letter else []
    parts += [f".value = {text(o.value)}"] if o.value else []
    parts += [f".bit = {o.bit}"] if o.bit else []
    parts += [f".times = {o.times}"] if o.times else []
    parts += [".unsaid = true"] if o.unsaid else []
    parts += [".narrow = true"] if o.narrow else []
    parts += [f".second = {at(o.second)}"] if o.second else []
    parts += [f".text = {text(o.alone or o.takes)}"] if o.alone or o.takes else []
    words = [name.replace("_", "-") for name in api.enums[o.of].names().values()] if o.of else o.words
    if words:
        parts.append(f".names = (const char *const[]){{ {', '.join(map(text, words))}, NULL }}")
    return f"{{ {', '.join(parts)} }}"


def alias(o, other):
    name, colon, pairs = other.partition(":")
    if colon:
        words = [text(word) for pair in pairs.split(",") for word in pair.split("=")]
        return f"OPT_ALIAS_WORDS({text(name)}, {text(o.name)}, ((const char *const[]){{ {', '.join(words)}, NULL }}))"
    name, equals, value = other.partition("=")
    return f"OPT_ALIAS({text(name)}, {text(o.name)}, {text(value) if equals else 'NULL'})"


def define(name, rows):
    return f"#define {name} \\\n\t" + ", \\\n\t".join(rows)


LINTER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../python/plimsoll/lint/cli.py")


def linter_options():
    """OPTIONS of the linter, which is Python alone and as such a package of its own; read, not imported."""
    with open(LINTER, encoding="utf-8") as f:
        tree = ast.parse(f.read())
    return next(ast.literal_eval(node.value) for node in tree.body if isinstance(node, ast.AnnAssign) and node.target.id == "OPTIONS")


def linter_row(names, kind, value, help_):
    """For help, man page and completion: the words go on as they were typed."""
    *letter, name = names.split()
    head = f"{letter[0][1:]!r}" if letter else "0"
    head += f", {text(name[2:])}, lint_opts, "
    if kind == "choice":
        value, default, *words = value.split()
        choices = f"((const char *const[]){{ {', '.join(map(text, words))}, NULL }})"
        return f"OPT_CHOICE({head}choice, {text(value)}, {choices}, {words.index(default)}, {text(help_)})"
    if kind == "columns":
        return f"OPT_U64({head}width, {text(value)}, 40, 500, OPT_NONE, {text(help_)})"
    return {"flag": f"OPT_FLAG({head}flag, {text(help_)})", "list": f"OPT_LIST({head}list, {text(value)}, {text(help_)})",
            "text": f"OPT_STRING({head}text, {text(value)}, NULL, {text(help_)})"}[kind]


def linter():
    rows = []
    for heading, group in linter_options():
        rows += [f"OPT_HEADING({text(heading)})"] if heading else []
        rows += [linter_row(*row) for row in group]
    return define("LINT_OPTIONS", rows)


def header(api):
    """option_rows.h: the rows of commands, and what the library says of the same options."""
    lines = ["/* Made of include/plimsoll by tools/results: change the headers. */", "#ifndef OPTION_ROWS_H",
             "#define OPTION_ROWS_H", ""]
    renamed = {}
    for command, struct, grouped in commands(api):
        options, big = [o for rows in grouped.values() for o in rows], big_of(struct)
        lines += ["/* Where the struct lies in the command's own. */", f"#ifndef {big}_AT", f"#define {big}_AT 0", "#endif"]
        lines += [define(f"{big}_{group.upper()}_OPTIONS", [row(api, struct, o) for o in rows]) for group, rows in grouped.items()]
        aliases = [alias(o, other) for o in options for other in o.also]
        lines += [define(f"{big}_ALIASES", aliases)] if aliases else []
        lines.append(define(f"{big}_DEFAULTS", [f".size = sizeof(struct plim_{struct.name})"] +
                            [f".{o.member} = {o.initial}" for o in options if o.default != "0"]))
        for o in options:
            lines.append(f"#define {big}_NAME_{o.member.upper() if o.bit else o.member} {text(o.name)}")
            lines += [f"#define {big}_DEFAULT_{o.member} {o.initial}"] if o.default != "0" else []
            lines += [f"#define {big}_MOST_{o.member} {o.most}"] if o.most != "OPT_NONE" else []
        for o in options:
            if o.python != o.member and renamed.setdefault(o.member, o.name) != o.name:
                raise HeaderError(f"struct plim_{struct.name}: '{o.member}' is --{renamed[o.member]} elsewhere, here --{o.name}")
    lines.append(define("RENAMED_OPTIONS", [f"{{ {text(member)}, {text(name)} }}" for member, name in renamed.items()]))
    lines.append(linter())
    return "\n".join(lines + ["", "#endif", ""])


def python_alias(o, other):
    """(another tool's word, what plan() takes for it): "batch=", or with the value that the word stands for."""
    name, equals, value = other.partition(":")[0].partition("=")
    return name.replace("-", "_"), f"{o.python}={value!r}" if equals else f"{o.python}="


def python(api):
    """OPTIONS of _abi.py: what Python's keywords are made of."""
    yield "# of a command: other names of members, bits of flags, what counts a list, releases, where second sides go, and"
    yield "# what other tools' words for an option are here"
    yield "OPTIONS: dict[str, dict[str, Any]] = {"
    for command, _, grouped in commands(api):
        options = [o for rows in grouped.values() for o in rows]
        yield f'    "{command}": {{'
        yield f'        "names": {({o.python: o.member for o in options if o.python != o.member})!r},'
        yield f'        "flags": {{{", ".join(f"{o.member!r}: {o.bit}" for o in options if o.bit)}}},'
        yield f'        "alone": {({o.member: o.alone for o in options if o.alone})!r},'
        yield f'        "counts": {({o.member: o.second for o in options if o.kind == "LIST"})!r},'
        yield f'        "releases": {[o.member for o in options if o.kind == "RELEASE"]!r},'
        yield f'        "sides": {({o.member: o.second for o in options if o.kind == "SIDES"})!r},'
        yield f'        "also": {dict(python_alias(o, other) for o in options for other in o.also)!r},'
        yield "    },"
    yield "}"
