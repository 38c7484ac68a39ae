#!/bin/sh
# Every C file of ours, one a line: what lint and format work on.
cd "$(dirname "$0")/.."
find src cli include runtime tests fuzz bench -name '*.[ch]' 2>/dev/null | LC_ALL=C sort
