#!/usr/bin/env python3
"""lint-names.py FILE...: a static function's name says of what it is: no name is defined in more than three of these C files."""
import collections
import re
import sys

FUNCTION = re.compile(r"^static [^;={]*?\b(\w+)\([^;{]*\)\s*\n\{", re.M)


def main():
    found = collections.defaultdict(list)
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as f:
            for name in sorted(set(FUNCTION.findall(f.read()))):
                found[name].append(path)
    many = {name: paths for name, paths in found.items() if len(paths) > 3}
    for name, paths in sorted(many.items()):
        print(f"error: {name}() is in {len(paths)} files; name what it is of: {' '.join(paths)}")
    return bool(many)


sys.exit(main())
