#!/bin/sh
# What pre-commit runs: the linter of this checkout.  Needs Python 3.10 and nothing else.
here=$(cd "$(dirname "$0")/.." && pwd)
PYTHONPATH=$here/python${PYTHONPATH:+:$PYTHONPATH} PYTHONDONTWRITEBYTECODE=1 exec python3 -m plimsoll.lint "$@"
