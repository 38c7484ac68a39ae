#!/usr/bin/env python3
"""lint-words.py [--count]: idioms that are not English, in what people read: README, NEWS, docs, public headers, CLI help.

The older texts have many.  Each row allows as many as there are; a new one fails, and whoever removes some lowers the row
(--count prints the rows as they would be).  docs/glossary.md and the style in CONTRIBUTING.md say what to write instead.
"""
import glob
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Idiom, how often it may still be there, what to write.
WORDS = [
    (r"\btold\b(?![-.`>{}()/\"])", 21, "reported, given, said"),
    (r"\btells\b", 5, "shows, says"),
    (r"\b[Bb]eside\b", 4, "next to, with, compared with"),
    (r"\bmend(?:s|ed)?\b", 0, "fix"),
    (r"(?<!there )\b(?:is|are|was) no (?!longer|more|one|other|use|room|way|need|reason to)[a-z]+", 21, "is not a"),
    (r"(?<!, )\bbut for\b", 0, "except for"),
    (r"(?<!`)\bverbs?\b(?![`./,])", 16, "command"),
    (r"\b(?:[Nn]o|[Ss]ome)body\b", 0, "no one, someone"),
    (r"(?<!there )\b(?:is|are) none\b", 94, "is not, there is no"),
    (r"\bas a rule\b", 0, "usually"),
    (r"\bstands? (?:in|at|for|next to|behind)\b", 162, "is in, is listed"),
    (r"\bso many\b", 81, "a number"),
    (r"\bof one.s own\b", 4, "your own"),
    (r"\bnothing is (?:said|reported)\b", 22, "does not say"),
]
# Made from others, or about the words themselves.
SKIPPED = {"docs/json.md", "docs/lint.md", "docs/glossary.md"}


def texts():
    paths = ["README.md", "NEWS.md", "CONTRIBUTING.md"]
    for pattern in ("docs/*.md", "docs/tasks/*.md", "docs/formats/*.md", "docs/*.md.in", "src/*/README.md", "src/**/*.[ch]", "cli/*.[ch]", "python/plimsoll/**/*.py", "include/plimsoll/*.h", "data/*.*"):
        paths += sorted(os.path.relpath(p, ROOT) for p in glob.glob(os.path.join(ROOT, pattern), recursive=True))
    for path in paths:
        if path not in SKIPPED:
            with open(os.path.join(ROOT, path), encoding="utf-8") as f:
                yield path, f.read()


def prose(path, text):
    """Without the program's output in Markdown, which its own tests read; of C, comments and strings."""
    if path.endswith((".md", ".in", ".rows")):
        return re.sub(r"^(    |\t).*$", "", text, flags=re.M)
    return " ".join(re.findall(r"/\*.*?\*/|\"(?:\\.|[^\"\\])*\"", text, flags=re.S))


def main():
    found = {idiom: [] for idiom, *_ in WORDS}
    for path, text in texts():
        whole = re.sub(r"[\s*]+", " ", prose(path, text))
        for idiom in found:
            found[idiom] += [(path, whole[max(m.start() - 30, 0):m.end() + 30]) for m in re.finditer(idiom, whole, flags=re.I)]
    # Proof that it sees one.
    if not any(re.search(idiom, "that is none, as a rule") for idiom in found):
        sys.exit("lint-words sees nothing")
    wrong = 0
    for idiom, most, instead in WORDS:
        if "--count" in sys.argv:
            print(f'    (r"{idiom}", {len(found[idiom])}, "{instead}"),')
        elif len(found[idiom]) > most:
            wrong += 1
            print(f"error: '{idiom}' is there {len(found[idiom])} times, {most} are allowed; write {instead}:")
            print("\n".join(f"  {path}: ...{at}..." for path, at in found[idiom][-5:]))
    return bool(wrong)


sys.exit(main())
