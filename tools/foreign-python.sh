#!/bin/sh
# foreign-python.sh ARCH SUITE VERSION FOLDER: Debian's Python VERSION for ARCH (amd64, arm64) from SUITE, unpacked into FOLDER/root
# with the libraries it needs; FOLDER/python runs it, under qemu where the machine is another.  Nothing is installed.
# Exit 77, saying why, where it cannot be had.
set -eu
arch=$1 suite=$2 version=$3 folder=$4
[ ! -e "$folder/.ready" ] || exit 0
case $arch in
amd64) triplet=x86_64-linux-gnu loader=ld-linux-x86-64.so.2 machine=x86_64 ;;
arm64) triplet=aarch64-linux-gnu loader=ld-linux-aarch64.so.1 machine=aarch64 ;;
*) echo "foreign-python: '$arch' is none of amd64, arm64" >&2 && exit 2 ;;
esac
skip() {
	echo "SKIPPED: no Python $version for $arch: $1" >&2
	exit 77
}
command -v apt-get >/dev/null || skip "it comes from Debian, and there is no apt-get"
emulator=
if [ "$machine" != "$(uname -m)" ]; then
	emulator=qemu-$machine
	command -v "$emulator" >/dev/null || skip "$emulator is missing (Debian: qemu-user)"
	emulator="$emulator -L $folder/root"
fi
rm -rf "$folder"
mkdir -p "$folder/lists/partial" "$folder/parts" "$folder/debs" "$folder/cache/archives/partial" "$folder/root"
mirror=$(sed -n 's/^URIs: *//p' /etc/apt/sources.list.d/debian.sources 2>/dev/null | head -1)
[ -n "$mirror" ] || mirror=$(sed -n 's/^deb \(\[[^]]*\] \)\?\([^ ]*\) .*/\2/p' /etc/apt/sources.list 2>/dev/null | head -1)
echo "deb [arch=$arch] $mirror $suite main" >"$folder/parts/debian.list"
apt() { # TOOL ARGUMENT...
	tool=$1
	shift
	"$tool" -o APT::Architecture="$arch" -o APT::Architectures="$arch" -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$folder/parts" \
		-o Dir::State::Lists="$folder/lists" -o Dir::Cache="$folder/cache" -o Dir::State::status=/dev/null "$@"
}
log=$folder.log
apt apt-get update >"$log" 2>&1 || skip "apt-get update of $suite fails, see $log"
packages=$(apt apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances \
	"python$version" 2>>"$log" | grep -E '^(libc6|libgcc-s1|lib(expat1|ffi[0-9]|bz2|lzma|zstd|uuid|sqlite3)|libssl|zlib1g|libpython|python3)[^ ]*$' | sort -u)
[ -n "$packages" ] || skip "$suite has none"
# shellcheck disable=SC2086 # a list
(cd "$folder/debs" && apt apt-get download $packages) >>"$log" 2>&1 || skip "apt-get download fails, see $log"
for deb in "$folder"/debs/*.deb; do
	dpkg-deb -x "$deb" "$folder/root"
done
# Newer Debians have /lib in /usr.
found=
for path in "$folder/root/lib/$loader" "$folder/root/lib64/$loader" "$folder/root/usr/lib64/$loader" "$folder/root/usr/lib/$triplet/$loader" \
	"$folder/root/lib/$triplet/$loader"; do
	[ ! -e "$path" ] || found=$path
done
[ -n "$found" ] || skip "no $loader in it"
cat >"$folder/run" <<END
#!/bin/sh
# run PROGRAM ARGUMENT...: with the loader and the libraries of $folder/root
exec $emulator $found --library-path "$folder/root/lib/$triplet:$folder/root/usr/lib/$triplet" "\$@"
END
cat >"$folder/python" <<END
#!/bin/sh
PYTHONHOME=$folder/root/usr exec $emulator $found --library-path "$folder/root/lib/$triplet:$folder/root/usr/lib/$triplet" \\
	--argv0 "$folder/python" "$folder/root/usr/bin/python$version" "\$@"
END
chmod +x "$folder/run" "$folder/python"
"$folder/python" -c "import sys, ctypes, platform; assert '%d.%d' % sys.version_info[:2] == '$version', sys.version" >>"$log" 2>&1 ||
	skip "it does not run here, see $log"
rm -rf "$folder/debs" "$folder/lists" "$folder/cache"
touch "$folder/.ready"
