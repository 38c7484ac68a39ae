#!/usr/bin/env python3
"""results.py TOOLS: what tools/results refuses of a public header and of docs/json.md.in, each rule broken once; and that the
help of the commands and the pages of docs/ call each schema by its number.
"""
import glob
import os
import re
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import commands  # noqa: E402
import docs  # noqa: E402
import headers  # noqa: E402

JSON = """
/* As JSON, schema thing/3. */
PLIM_API enum plim_status plim_thing_json(const struct plim_thing *t, plim_write_fn *write);
"""
GOOD = """
struct plim_part {
	uint64_t a_bytes; /* of it */
};
enum plim_kind { PLIM_KIND_ONE, PLIM_KIND_TWO };
PLIM_API const char *plim_kind_name(enum plim_kind value);
struct plim_thing {
	struct plim_part *parts; /* of what it is made */
	size_t part_count;
	enum plim_kind kind; /* which of them */
	double share;        /* of all */
};
""" + JSON
# what is done to the good header: the text that is replaced, by what, and a word of the error
WRONG = [
    ("double share;        /* of all */", "double share;", "has no comment"),
    ("double share;", "double a, share;", "more than one member"),
    ("double share;", "double shareBytes;", "is not snake_case"),
    ("of all", "of a|b", "breaks a table"),
    ("double share;", "char *bytes;", "speaks of bytes"),
    ("double share;", "void *share;", "of a type that no JSON has"),
    ("	size_t part_count;\n", "	size_t parts_n; /* how many */\n", "of a type that no JSON has"),
    ("enum plim_kind kind;", "enum plim_other kind;", "of an enum that no header has"),
    ("plim_kind_name", "plim_kind_text", "without a function plim_kind_name"),
    ("uint64_t a_bytes; /* of it */", "struct plim_thing *up; /* of it */", "holds itself"),
    ("struct plim_part *parts;", "struct plim_gone *parts;", "nothing is known of"),
]
TEMPLATE = "# JSON\n\n## @thing/N@\n\nPrinted by nobody.\n\n@thing@\n"
WRONG_PAGES = [("", "wants one section"), (TEMPLATE.replace("@thing@", ""), "wants one section"),
               (TEMPLATE.replace("## @thing/N@", ""), "wants one section"), (TEMPLATE * 2, "wants one section"),
               (TEMPLATE + "\n## @other/N@\n\n@other@\n", "no header has a schema other")]


# Options of a command, and what is wrong with them.
OPTIONS = """
enum plim_thing_flags {
	/* (--fast, after --from) does less */
	PLIM_THING_FAST = 1
};
struct plim_thing_options {
	uint32_t size;  /* of it */
	uint32_t flags; /* enum plim_thing_flags */
	/*
	 * (-n --count things, 1 to 2^4, is 3, also number num:two=2,four=4, under which) how
	 * many, or ... none. Of those that there are
	 */
	uint64_t count;
	const char *const *files; /* (--from FILE, after --count) where they stand */
	size_t file_count;
	void *context; /* (C only) is handed on */
};
"""
WRONG_OPTIONS = [("(C only) is handed", "is handed", "'context' is not an option"), ("after --count", "after --gone", "--gone"),
                 ("is 3", "was 3", "has no 'was 3'"), ("uint64_t count;", "float count;", "of a type that no option has")]


def read(text):
    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(scratch, "thing.h")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return headers.read([path])


def refused(what, word, make):
    try:
        make()
    except headers.HeaderError as error:
        assert word in str(error), f"{what}: {error}"
    else:
        raise AssertionError(f"{what}: nobody minds")


def check_numbers():
    """A help text said schema diff/1 long after it was diff/2."""
    top = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    api = headers.read(glob.glob(os.path.join(top, "include/plimsoll/*.h")))
    seen = 0
    for path in glob.glob(os.path.join(top, "cli/*.c")) + glob.glob(os.path.join(top, "docs/*.md")):
        with open(path, encoding="utf-8") as f:
            text = f.read()
        for told in re.findall(r"\(schema [^)]*\)|\bschema `?\w+/\d+", text):
            for name, number in re.findall(r"(\w+)/(\d+)", told):
                assert name not in api.schemas or api.schemas[name][0] == int(number), f"{path}: {name}/{number}"
                seen += name in api.schemas
    assert seen > len(api.schemas), f"{seen} numbers were found"
    return seen


def check_mentions():
    """What a new result or command needs elsewhere: a row in the contract test, a row in docs/README.md."""
    top = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

    def text_of(path):
        with open(os.path.join(top, path), encoding="utf-8") as f:
            return f.read()
    api = headers.read(glob.glob(os.path.join(top, "include/plimsoll/*.h")))
    contract, readme = text_of("tests/contract/contract.c"), text_of("docs/README.md")
    for struct in api.structs:
        assert not struct.endswith("_options") or f", {struct}, " in contract, \
            f"tests/contract/contract.c: no row of struct plim_{struct}"
    for command in re.findall(r"\w+", re.search(r"^commands = \[(.*?)\]", text_of("meson.build"), re.M | re.S)[1]):
        assert f"plimsoll {command}" in readme or f"`{command}`" in readme, f"docs/README.md: no row of plimsoll {command}"


def made_of(text):
    return commands.header(read(text)) + "\n".join(commands.python(read(text)))


def check_options():
    """A member with its comment is all that an option needs; no command has a row of its own for one."""
    rows = made_of(OPTIONS)
    for part in ('.name = "count", .help = "how many, or ... none"', ".min = 1u, .max = 16u, .def = 3u, .letter = 'n'",
                 'OPT_ALIAS("number", "count", NULL)', '{ "two", "2", "four", "4", NULL }', ".bit = PLIM_THING_FAST",
                 ".second = THING_AT + offsetof(struct plim_thing_options, file_count)", '#define THING_NAME_files "from"',
                 ".count = 3u", "#define THING_MOST_count 16u", "'from': 'files'", "{'fast': PLIM_THING_FAST}"):
        assert part in rows, f"{part}\n{rows}"
    assert re.findall(r'\.name = "(\w+)"', rows) == ["count", "from", "fast"], rows
    shared = OPTIONS.replace("	uint32_t flags; /* enum plim_thing_flags */",
                             "	/* PLIM_THING_FAST (--quick, after --from) does less. PLIM_THING_SLOW (--slow) does more */\n	uint32_t flags;")
    shared = made_of(shared.replace("void *context; /* (C only)", "double share; /* (--share X, is 0.5, wants \"a part\")"))
    for part in ('.name = "quick", .help = "does less"', '.name = "slow", .help = "does more"', ".bit = PLIM_THING_SLOW", ".real = 0.5",
                 ".share = 0.5"):
        assert part in shared, f"{part}\n{shared}"
    more = OPTIONS.replace("	void *context;", "	const char *added; /* (--added TEXT) one more */\n	void *context;")
    assert '.name = "added"' in made_of(more)
    for old, new, word in WRONG_OPTIONS:
        refused(f"{old!r} as {new!r}", word, lambda: made_of(OPTIONS.replace(old, new)))
    top = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for command, _, grouped in commands.commands(headers.read(glob.glob(os.path.join(top, "include/plimsoll/*.h")))):
        with open(os.path.join(top, f"cli/cmd_{command.partition('_')[0]}.c"), encoding="utf-8") as f:
            by_hand = set(re.findall(r'\bOPT_[A-Z0-9]+\((?:[^",]+, *)?"([\w-]+)"', f.read()))
        for option in (o for rows in grouped.values() for o in rows):
            assert option.name not in by_hand, f"cli/cmd_{command}.c: --{option.name} is declared in the header"


def main():
    check_mentions()
    check_options()
    api = read(GOOD)
    text = "\n".join(docs.page(api, TEMPLATE))
    assert "## thing/3" in text and "| `parts[].a_bytes` | integer, bytes, or null | of it |" in text, text
    assert "| `kind` | string: `one`, `two` | which of them |" in text, text
    for old, new, word in WRONG:
        assert GOOD.count(old) == 1, old
        refused(f"{old!r} as {new!r}", word, lambda: read(GOOD.replace(old, new)))
    for page, word in WRONG_PAGES:
        refused(repr(page), word, lambda: list(docs.page(api, page)))
    print(f"{len(WRONG) + len(WRONG_PAGES)} faults refused, {check_numbers()} numbers of schemas are right")


main()
