#!/bin/sh
# with-times.sh FOLDER COMMAND...: run the command; then a file in FOLDER has what it took: two times of the shell and, in
# the second line, of the command (seconds in programs, seconds in the kernel), and the command.  `meson test --wrapper`.
folder=$1
shift
"$@"
code=$?
{
	times
	printf '%s\n' "$*"
} >"$folder/$$"
exit $code
