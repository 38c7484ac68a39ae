#!/usr/bin/env python3
"""wrap-prose.py [--check] FILE...: wrap Markdown paragraphs and list items that are wider than 110 columns, so that they can be diffed.

Code, tables, headings and HTML stay as they are; a paragraph that fits stays too.  --check names what would change.
"""
import re
import sys
import textwrap

WIDTH = 110
ITEM = re.compile(r"(\s*(?:[-*+]|\d+\.) +)(.*)", re.S)
# What begins a line of another kind: a wrapped line must not.
SPECIAL = re.compile(r"\s*([-*+#>|]|\d+[.)])(\s|$)|    |\t|```|<")


def blocks(lines):
    """(is it prose, its lines): paragraphs and list items apart from all else."""
    block, fenced = [], False
    for line in [*lines, ""]:
        fence = line.lstrip().startswith("```")
        starts = not line.strip() or fenced or fence or SPECIAL.match(line)
        if starts and block:
            yield True, block
            block = []
        if fence:
            fenced = not fenced
        if not line.strip() or fenced or fence or (SPECIAL.match(line) and not ITEM.fullmatch(line)) or re.match(r"    |\t", line):
            yield False, [line]
        else:
            block.append(line)


def wrapped(block):
    if max(map(len, block)) <= WIDTH:
        return block
    item = ITEM.fullmatch(block[0])
    first = item[1] if item else re.match(r"\s*", block[0])[0]
    rest = " " * len(first)
    text = " ".join(line.strip() for line in [item[2] if item else block[0], *block[1:]])
    out = textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False)
    return out if not any(re.match(r"\s*([-*+#>|]|\d+[.)])(\s|$)", line) for line in out[1:]) else block


def main():
    check = "--check" in sys.argv
    wide = []
    for path in [a for a in sys.argv[1:] if a != "--check"]:
        with open(path, encoding="utf-8") as f:
            lines = f.read().split("\n")
        out = [x for prose, block in blocks(lines[:-1]) for x in (wrapped(block) if prose else block)][:-1]
        if out != lines[:-1]:
            wide.append(path)
            if not check:
                with open(path, "w", encoding="utf-8") as f:
                    f.write("\n".join([*out, ""]))
    if check and wide:
        print("prose wider than %d columns (tools/wrap-prose.py FILE): %s" % (WIDTH, " ".join(wide)))
    return bool(check and wide)


sys.exit(main())
