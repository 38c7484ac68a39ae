#!/bin/sh
# pythons.sh [VERSION|aarch64|sdist]...: the package as users install it, each time in an empty environment: the wheel with every
# CPython from 3.10 on that can be had, the aarch64 one under qemu, the source distribution.  Interpreters: python3.N, pyenv's, else
# Debian's of another release (tools/foreign-python.sh).  Then PyTorch is added, for the examples; from its general index that
# is a download of 2 GB.  What is not there is named; exit 77 if nothing could be run.
set -u
cd "$(dirname "$0")/.."
top=$PWD
log=build/pythons.log
failed=0
ran=0
[ $# -gt 0 ] || set -- 3.10 3.11 3.12 3.13 3.14 aarch64 sdist
kinds=x86_64
case " $* " in *" aarch64 "*) kinds="$kinds aarch64" ;; esac
case " $* " in *" sdist "*) kinds="$kinds sdist" ;; esac
rm -rf build/wheels
# shellcheck disable=SC2086 # a list
tools/wheel.sh $kinds >$log 2>&1 || {
	tail -5 $log >&2
	echo "SKIPPED: no wheels could be built (tools/wheel.sh)" >&2
	exit 77
}
interpreter() { # VERSION: one that is that version
	for at in "python$1" "$HOME/.pyenv/versions/$1".*/bin/python; do
		if "$at" -c "import sys; assert '%d.%d' % sys.version_info[:2] == '$1'" 2>/dev/null; then
			command -v "$at"
			return
		fi
	done
	for suite in trixie sid; do
		tools/foreign-python.sh amd64 $suite "$1" "$top/build/pythons/debian-$1" 2>>$log && echo "$top/build/pythons/debian-$1/python" && return
	done
}
environment() { # NAME PYTHON: an empty one, in $home; its $python and $site, which is what PYTHONPATH must have
	name=$1 home=$top/build/pythons/$1 site='' python=$top/build/pythons/$1/bin/python
	rm -rf "$home"
	if ! "$2" -m venv "$home" >>$log 2>&1; then # Debian's, without ensurepip: pip's --target
		rm -rf "$home"
		mkdir -p "$home"
		site=$home python=$2
	fi
}
install() { # PACKAGE...
	if [ -z "$site" ]; then
		"$python" -m pip install -q "$@" >>$log 2>&1
	else
		"$top/build/wheel/venv/bin/pip" --python "$python" install -q --target "$site" "$@" >>$log 2>&1 &&
			ln -sf "$python" "$site/bin/python3" # which the program starts
	fi && return
	tail -15 $log >&2
	return 1
}
result() { # TEST STATUS
	if [ "$2" = 0 ]; then
		ran=$((ran + 1))
		return
	fi
	tail -15 $log >&2
	echo "$name: $1 FAILED" >&2
	failed=$((failed + 1))
}
tests() { # PROGRAM TEST...
	program=$1
	shift
	for test in "$@"; do
		env -u PLIMSOLL_LIBRARY PYTHONPATH="$site" PLIMSOLL_PROGRAM="$program" PLIMSOLL_SOURCE="$top" PLIMSOLL_TEST_DATA="$top/tests/data" \
			PYTHONDONTWRITEBYTECODE=1 "$python" "python/tests/test_$test.py" >$log 2>&1
		result "test_$test" $?
		examples=$(grep -o '[0-9]* examples run.*' $log)
	done
	echo "$name: $("$python" -c 'import platform; print(platform.python_version(), platform.machine())'): $*${examples:+ ($examples)}"
}
suites='package verbs memory oom gauge data training weights gate lsp frameworks'
everything() { # NAME VERSION PACKAGE: all of it
	found=$(interpreter "$2")
	if [ -z "$found" ]; then
		echo "NOT TESTED: $1: no interpreter"
		return
	fi
	environment "$1" "$found"
	install "$3"
	result "pip install" $?
	# shellcheck disable=SC2086 # a list
	tests "$home/bin/plimsoll" $suites
	install torch==2.13.0 numpy pytest mypy 2>/dev/null || echo "$name: PyTorch cannot be had"
	tests "$home/bin/plimsoll" examples
	rm -rf "$home" # 5 GB
}
for what in "$@"; do
	case $what in
	3.*) everything "Python-$what" "$what" "$(echo "$top"/build/wheels/*_x86_64.whl)" ;;
	sdist) everything sdist "$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')" "$(echo "$top"/build/wheels/*.tar.gz)" ;;
	aarch64)
		if ! tools/foreign-python.sh arm64 bookworm 3.11 "$top/build/pythons/arm64"; then
			echo "NOT TESTED: aarch64"
			continue
		fi
		environment aarch64 "$top/build/pythons/arm64/python"
		install "$(echo "$top"/build/wheels/*_aarch64.whl)"
		result "pip install" $?
		# Under a loader that is named, /proc/self/exe is the loader, so the program cannot look next to itself.
		printf '#!/bin/sh\nPLIMSOLL_LIBRARY="%s" exec "%s/run" "%s" "$@"\n' "$(echo "$home"/.plimsoll*/libplimsoll.so)" "$top/build/pythons/arm64" \
			"$home/bin/plimsoll" >build/pythons/plimsoll-aarch64
		chmod +x build/pythons/plimsoll-aarch64
		tests "$top/build/pythons/plimsoll-aarch64" package memory gauge
		;;
	*) echo "usage: tools/pythons.sh [VERSION|aarch64|sdist]..." >&2 && exit 2 ;;
	esac
done
echo "pythons: $ran passed, $failed failed"
[ "$failed" = 0 ] || exit 1
[ "$ran" != 0 ] || exit 77
