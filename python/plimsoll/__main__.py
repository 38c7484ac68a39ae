"""python -m plimsoll: the program itself."""
from __future__ import annotations

import os
import shutil
import sys
import sysconfig


def program() -> str | None:
    """The plimsoll program of this installation: next to this Python, or on the PATH."""
    chosen = os.environ.get("PLIMSOLL_PROGRAM")
    if chosen:
        return chosen
    for folder in (sysconfig.get_path("scripts"), os.path.dirname(sys.executable)):
        path = os.path.join(folder or "", "plimsoll")
        if os.access(path, os.X_OK):
            return path
    return shutil.which("plimsoll")


def main() -> int:
    path = program()
    if path is None:
        print("plimsoll: the program is not there; pip install . builds it", file=sys.stderr)
        return 4
    os.execv(path, ["plimsoll", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
