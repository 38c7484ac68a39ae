#!/usr/bin/env python3
"""litter.py ROOT: what a commit may not bring: a file twice, what a build or a profile left, kinds of files that have no place
in a folder, inputs of tests as thousands of files.

Skips (77) where ROOT is not a git checkout.
"""
import collections
import os
import re
import subprocess
import sys

# The kinds of files that each folder may hold, by the ending of their names ("" is none).  A new kind is a decision.
KINDS = {
    "": {"", "build", "md", "toml", "txt", "yaml"},
    ".ci": {""},
    "bench": {"c", "mjs", "py", "sh"},
    "cli": {"c", "h"},
    "data": {"md", "rows"},
    "docs": {"in", "md", "png"},
    "examples": {"", "c", "ipynb", "json", "py", "sh", "yaml"},
    "fuzz": {"c", "dict", "h", "zst"},
    "include": {"h"},
    "python": {"py", "toml", "typed"},
    "runtime": {"c", "h", "pth", "py"},
    "samples": {"xz"},
    "src": {"c", "cu", "h", "md", "ptx", "sh"},
    "tests": {"build", "c", "cases", "cc", "h", "json", "mjs", "py", "sh", "tsv", "txt"},  # and tests/data, in which anything may lie
    "tools": {"mjs", "py", "sh"},
    "ui": {"", "css", "js", "json", "mjs", "ts"},
}
# Facts of a recording lie next to each; two recordings may have the same.
SMALL_BYTES = 2048
# What may lie in a folder whose inputs are packed, and how they come there.
PACKED = {"fuzz/corpus": (r"\w+\.tar\.zst", "tools/corpus.sh add TARGET FILE"),
          "tests/data/host": (r"\w+\.tar\.xz", "tar -cJf NAME.tar.xz NAME"),
          "tests/cli": (r"\w+\.cases|run\.py", "a case of GROUP.cases (see tests/cli/run.py)")}
LEFT = re.compile(r"\.(o|so|a|pyc|profraw|gcda|gcno|orig|rej|part|log|tmp|swp)$|(^|/)((core|a\.out)$|(build|node_modules|__pycache__)/)")


def tracked(root):
    """{path: content's hash} of the files that git knows; links do not count as a file twice."""
    listed = subprocess.run(["git", "-C", root, "ls-files", "-sz"], capture_output=True, text=True, check=True).stdout
    rows = (entry.partition("\t") for entry in listed.split("\0") if entry)
    return {path: None if info.startswith("120000") else info.split()[1] for info, _, path in rows}


def findings(root, files):
    twice = collections.defaultdict(list)
    for path, content in files.items():
        twice[content].append(path)
        if LEFT.search(path):
            yield f"{path}: is made, not written"
        elif not path.startswith("tests/data/") and os.path.splitext(path)[1][1:] not in KINDS.get(path.partition("/")[0] if "/" in path else "", ()):
            yield f"{path}: no file of this kind belongs there (KINDS in tests/litter.py)"
        elif path.startswith("tests/") and path.count("/") == 1 and path[6:].removesuffix(".py") in sys.stdlib_module_names:
            yield f"{path}: scripts in tests would import it in place of Python's own"
        for folder, (allowed, how) in PACKED.items():
            if path.startswith(folder + "/") and not re.fullmatch(allowed, path[len(folder) + 1:]):
                yield f"{path}: is packed in {folder}: {how}"
    for content, paths in twice.items():
        here = [p for p in paths if os.path.exists(os.path.join(root, p))]
        if content and len(here) > 1 and os.path.getsize(os.path.join(root, here[0])) > SMALL_BYTES:
            yield f"{' '.join(paths)}: one file twice; link it"


def main():
    root = sys.argv[1]
    try:
        files = tracked(root)
    except (OSError, subprocess.CalledProcessError) as why:
        print(f"{root} is not a git checkout that can be read: {why}")
        return 77
    # Proof that it sees what it is for.
    planted = {"fuzz/corpus/json/a": "1", "default.profraw": "2", "NEWS.md": "3", "README.md": "3", "--help.log": "4", "src/notes.txt": "5",
               "tests/data/deaths/new.txt": "6", "src/planner/plan/new.c": "7", "bench/build.py": "8", "ui/build/x.js": "9", "tests/platform.py": "10"}
    seen = list(findings(root, planted))
    if len(seen) != 8:
        print("litter does not see what was planted:", *seen, sep="\n")
        return 1
    found = list(findings(root, files))
    print("\n".join(found) or f"{len(files)} files, none of them litter")
    return bool(found)


sys.exit(main())
