#!/bin/sh
# wheel.sh [x86_64|aarch64|sdist]...: wheels for every glibc from 2.28 on, and the source distribution, in build/wheels.  The same
# commit gives the same bytes.  The compiler and the libraries are tools/portable.sh's.
set -eu
cd "$(dirname "$0")/.."
work=$PWD/build/wheel
glibc=2.28
umask 022
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y meson.build)}"
[ $# -gt 0 ] || set -- "$(uname -m)"
for what in "$@"; do
	case $what in
	x86_64 | aarch64 | sdist) ;;
	*)
		echo "usage: tools/wheel.sh [x86_64|aarch64|sdist]..." >&2
		exit 2
		;;
	esac
done

wheel() { "$work/venv/bin/wheel" "$@"; }

build() { # ARCH OPTION...: with Python's own front end, into ARCH's folder out
	prefix=$work/$1
	how=--cross-file
	[ "$1" != "$(uname -m)" ] || how=--native-file
	tools/portable.sh "$1"
	echo "wheel: building $what"
	rm -rf "$prefix/out"
	shift
	PATH=$work/venv/bin:$PATH PKG_CONFIG_LIBDIR=$prefix/lib/pkgconfig _PYTHON_HOST_PLATFORM=linux-${prefix##*/} ARCHFLAGS='' \
		python3 -m build --no-isolation -Csetup-args="$how=$prefix/machine.ini" -Csetup-args=-Dc_link_args=-s \
		-Cbuild-dir="$prefix/build" --outdir "$prefix/out" "$@" . >"$prefix/wheel.log" 2>&1 || {
		tail -30 "$prefix/wheel.log" >&2
		echo "wheel: cannot be built, see $prefix/wheel.log" >&2
		exit 1
	}
}

mkdir -p build/wheels
for what in "$@"; do
	if [ "$what" = sdist ]; then
		build "$(uname -m)" --sdist
		cp "$prefix"/out/*.tar.gz build/wheels/
		continue
	fi
	build "$what" --wheel
	{
		wheel unpack -d "$prefix/out/whole" "$prefix"/out/*.whl
		install -D -m 644 "$work/copyright" "$(echo "$prefix"/out/whole/*/*.dist-info)/licenses/LICENSE"
		wheel pack -d "$prefix/out" "$prefix"/out/whole/*
		wheel tags --remove --platform-tag "manylinux_2_28_$what" "$prefix"/out/*.whl
	} >>"$prefix/wheel.log"
	python3 tools/wheel-check.py "$prefix"/out/*.whl $glibc
	cp "$prefix"/out/*.whl build/wheels/
done
ls -l build/wheels
