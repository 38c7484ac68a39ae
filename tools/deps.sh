#!/bin/sh
# deps.sh GROUP...: install what the groups need and this machine lacks.  Groups: build check sanitizers lint fuzz page firefox wheel.
# Knows apt (Debian 12, Ubuntu 24.04); elsewhere it prints the list.  Says nothing when all is there.
# deps --list GROUP...: the names of the groups' packages in Debian.
set -eu
PATH=$PATH:/usr/bin:/bin

# group, Debian's package, how to see that it is there
needs='
build gcc             runs cc
build libc6-dev       header stdio.h
build meson           runs tools/meson.sh
build ninja-build     runs ninja
build pkg-config      runs pkg-config
build zlib1g-dev      header zlib.h
build liblzma-dev     header lzma.h
build libzstd-dev     header zstd.h
build libxxhash-dev   header xxhash.h
build libdeflate-dev  header libdeflate.h
build libyaml-dev     header yaml.h
build python3         runs python3
check libcmocka-dev   header cmocka.h
check xz-utils        runs xz
check zstd            runs zstd
check gzip            runs gzip
check bzip2           runs bzip2
check git             runs git
check strace          runs strace
check g++             runs c++
check python3-jsonschema file /usr/lib/python3/dist-packages/jsonschema/__init__.py
lint  clang-format-14 runs clang-format-14
lint  clang-tidy-14   runs clang-tidy-14
lint  python3-venv    module ensurepip
sanitizers clang-14   runs clang-14
sanitizers libclang-rt-14-dev file /usr/lib/llvm-14/lib/clang/14*/lib/linux/libclang_rt.asan-*.a
wheel python3-venv    module ensurepip
wheel make            runs make
wheel dpkg-dev        runs dpkg-source
wheel xz-utils        runs xz
page  nodejs          runs node
page  npm             runs npm
page  chromium        runs chromium
firefox firefox-esr   runs firefox-esr
'

there() {
	case $1 in
	runs) "$2" --version >/dev/null 2>&1 ;;
	file) [ -e "$2" ] ;;
	module) python3 -c "import $2" 2>/dev/null ;;
	# cmocka.h wants others in front of it: ask for the name, not for the content.
	header) printf '#if !__has_include(<%s>)\n#error\n#endif\n' "$2" | cc -E - >/dev/null 2>&1 ;;
	esac
}

cd "$(dirname "$0")/.."
if [ "${1:-}" = --list ]; then
	echo "$needs" | awk -v groups=" $* " 'NF && index(groups, " " $1 " ") { print $2 }'
	exit
fi
missing=
while read -r group package how what; do
	case " $* " in *" $group "*) ;; *) continue ;; esac
	# shellcheck disable=SC2086 # a pattern
	there "$how" $what || missing="$missing $package"
done <<END
$(echo "$needs" | grep .)
END
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null; then
	echo "These are missing; their names in Debian (install them, then run this again):" >&2
	for package in $missing; do echo "  $package" >&2; done
	exit 1
fi
as_root=
if [ "$(id -u)" != 0 ]; then
	command -v sudo >/dev/null || {
		echo "Missing, and there is no sudo; as root: apt-get install$missing" >&2
		exit 1
	}
	as_root=sudo
fi
install() {
	# shellcheck disable=SC2086 # a list
	$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing
}
echo "installing$missing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# A fresh machine has no package lists, an old one has stale ones.
install >"$log" 2>&1 || { $as_root apt-get update && install; } >"$log" 2>&1 || {
	echo "cannot install$missing: $(grep -m 1 '^E:' "$log" || tail -n 1 "$log")" >&2
	exit 1
}
