#!/bin/sh
# static-library.sh ARCHIVE OUTPUT: one object of a static library's, with only what is exported visible, in an
# archive of its own, so that whoever links it meets no name without plim_.
set -eu
archive=$1
output=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${LD:-ld}" -r -o "$folder/plimsoll.o" --whole-archive "$archive"
"${OBJCOPY:-objcopy}" --strip-debug --localize-hidden --wildcard "$folder/plimsoll.o"
rm -f "$output"
"${AR:-ar}" rcs "$output" "$folder/plimsoll.o"
