#!/bin/sh
# corpus.sh unpack TARGET FOLDER    put the inputs of a fuzz target into FOLDER
# corpus pack TARGET FOLDER      make the files of FOLDER its inputs
# corpus add TARGET FILE...      add inputs, under their names
# The inputs of a target are one file, fuzz/corpus/TARGET.tar.zst.  Needs zstd.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
what=${1:-}
file=$top/fuzz/corpus/${2:-}.tar.zst
unpack() { # FOLDER
	mkdir -p "$1"
	[ ! -f "$file" ] || zstd -qdc "$file" | tar -xf - -C "$1"
}
pack() { # FOLDER
	(cd "$1" && find . -type f | sed 's|^\./||' | LC_ALL=C sort) |
		tar -cf - -C "$1" --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=644 --format=ustar --no-recursion -T - |
		zstd -19 -q -f -o "$file.part"
	mv "$file.part" "$file"
}
case $what:$# in
unpack:3) unpack "$3" ;;
pack:3) pack "$3" ;;
add:[3-9] | add:??*)
	shift 2
	scratch=$(mktemp -d)
	trap 'rm -r "$scratch"' EXIT
	unpack "$scratch"
	cp -- "$@" "$scratch"
	pack "$scratch"
	;;
*)
	sed -n '2,5s/^# //p' "$0" >&2
	exit 2
	;;
esac
