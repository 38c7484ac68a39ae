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
    """What a new result or command needs elsewhere: a row in the contract test, a row in the README."""
    top = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

    def text_of(path):
        with open(os.path.join(top, path), encoding="utf-8") as f:
            return f.read()
    api = headers.read(glob.glob(os.path.join(top, "include/plimsoll/*.h")))
    contract, readme = text_of("tests/contract/contract.c"), text_of("README.md")
    for struct in api.structs:
        assert not struct.endswith("_options") or f", {struct}, " in contract, \
            f"tests/contract/contract.c: no row of struct plim_{struct}"
    for command in re.findall(r"\w+", re.search(r"^commands = \[(.*?)\]", text_of("meson.build"), re.M | re.S)[1]):
        assert f"`plimsoll {command}" in readme, f"README.md: no row of plimsoll {command}"


def main():
    check_mentions()
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
