#!/bin/sh
# pythons.sh: the package's wheels under every CPython from 3.10 on that can be had, and the aarch64 one under qemu.
# Interpreters: python3.N, pyenv's, else Debian's of another release (tools/foreign-python.sh).  What is not there is named;
# exit 77 if nothing could be run.
set -u
cd "$(dirname "$0")/.."
top=$PWD
failed=0
ran=0
tools/wheel.sh x86_64 aarch64 >build/pythons.log 2>&1 || {
	tail -5 build/pythons.log >&2
	echo "SKIPPED: no wheels could be built (tools/wheel.sh)" >&2
	exit 77
}
wheel_of() { # ARCH: unpacked, its folder
	rm -rf "build/pythons/$1"
	mkdir -p "build/pythons/$1"
	python3 -m zipfile -e "$(ls -t build/wheels/*_"$1".whl | head -1)" "build/pythons/$1"
	cp -r "build/pythons/$1"/*.data/purelib/. "build/pythons/$1"
	chmod +x "build/pythons/$1"/*.data/scripts/plimsoll
}
interpreter() { # VERSION: one that is that version
	for at in "python$1" "$HOME/.pyenv/versions/$1".*/bin/python; do
		if "$at" -c "import sys; assert '%d.%d' % sys.version_info[:2] == '$1'" 2>/dev/null; then
			command -v "$at"
			return
		fi
	done
	for suite in trixie sid; do
		tools/foreign-python.sh amd64 $suite "$1" "$top/build/pythons/debian-$1" 2>>build/pythons.log && echo "$top/build/pythons/debian-$1/python" && return
	done
}
tests() { # NAME PYTHON WHEEL PROGRAM TEST...
	name=$1 python=$2 site=$3 program=$4
	shift 4
	for test in "$@"; do
		if PYTHONPATH=$top/build/pythons/$site PLIMSOLL_PROGRAM=$program PLIMSOLL_LIBRARY=$(echo "$top/build/pythons/$site"/.plimsoll*/libplimsoll.so) \
			PLIMSOLL_SOURCE=$top PLIMSOLL_TEST_DATA=$top/tests/data PYTHONDONTWRITEBYTECODE=1 \
			"$python" "python/tests/test_$test.py" >build/pythons.log 2>&1; then
			ran=$((ran + 1))
		else
			tail -15 build/pythons.log >&2
			echo "$name: test_$test FAILED" >&2
			failed=$((failed + 1))
		fi
	done
	echo "$name: $("$python" -c 'import platform; print(platform.python_version(), platform.machine())'): $*"
}
wheel_of x86_64
for version in 3.10 3.11 3.12 3.13 3.14; do
	python=$(interpreter $version)
	if [ -z "$python" ]; then
		echo "NOT TESTED: Python $version: no interpreter"
		continue
	fi
	tests "Python $version" "$python" x86_64 "$(echo "$top"/build/pythons/x86_64/*.data/scripts/plimsoll)" package verbs memory oom gauge data
done
wheel_of aarch64
if tools/foreign-python.sh arm64 bookworm 3.11 "$top/build/pythons/arm64"; then
	printf '#!/bin/sh\nexec "%s/run" "%s" "$@"\n' "$top/build/pythons/arm64" "$(echo "$top"/build/pythons/aarch64/*.data/scripts/plimsoll)" >build/pythons/plimsoll-aarch64
	chmod +x build/pythons/plimsoll-aarch64
	tests aarch64 "$top/build/pythons/arm64/python" aarch64 "$top/build/pythons/plimsoll-aarch64" package memory gauge
else
	echo "NOT TESTED: aarch64"
fi
echo "pythons: $ran passed, $failed failed"
[ "$failed" = 0 ] || exit 1
[ "$ran" != 0 ] || exit 77
