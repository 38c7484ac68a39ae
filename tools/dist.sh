#!/bin/sh
# dist.sh: what a release needs, in build/dist: wheels, the source distribution, the program as tar.gz and .deb, what is in them
# (CycloneDX) and SHA256SUMS.  The same commit gives the same bytes.  tools/dist-check.sh installs and runs them.
set -eu
cd "$(dirname "$0")/.."
umask 022
export LC_ALL=C
fail() {
	echo "dist: $1" >&2
	exit "${2:-1}"
}
[ $# = 0 ] || fail "usage: tools/dist.sh (it takes no argument)" 2
[ "$(uname -m)" = x86_64 ] || fail "needs an x86_64 machine: the program prints its own man pages"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null) || fail "needs a git checkout: the time of the commit is the time of every file"
export SOURCE_DATE_EPOCH
if [ -n "$(git status --porcelain)" ]; then
	echo "dist: NOT A RELEASE: the tree has changes that are not committed (git status); the sdist does not have them" >&2
fi
version=$(sed -n "s/^project(.* version: '\([^']*\)'.*/\1/p" meson.build)
build=$PWD/build/wheel/x86_64/build
out=$PWD/build/dist
tree=$PWD/build/dist-tree/plimsoll-$version-linux-x86_64
deb=$PWD/build/dist-tree/deb

rm -rf "$out" build/dist-tree build/wheels 2>/dev/null && mkdir -p "$out" "$tree" "$deb/DEBIAN" 2>/dev/null || fail "cannot write to $PWD/build"
tools/wheel.sh sdist aarch64 x86_64
cp build/wheels/* "$out"

# The program is compiled already, for the wheel; now it is installed as `make install` does.
echo "dist: linking the program"
{
	PATH=$PWD/build/wheel/venv/bin:$PATH
	meson configure "$build" -Dpython=false -Dprefix=/usr -Dlibdir=lib && ninja -C "$build" product &&
		DESTDIR=$tree/.install meson install -C "$build" --no-rebuild --quiet --tags runtime,data
} >build/dist.log 2>&1 || {
	tail -5 build/dist.log >&2
	fail "the program cannot be built, see build/dist.log"
}
mv "$tree"/.install/usr/* "$tree"
rm -r "$tree/.install" "$tree"/lib/libplimsoll.so* # for Python and C, who have it from the wheel or from source
(cd "$tree" && python3 "$OLDPWD/tools/wheel-check.py" bin/plimsoll 2.28 && python3 "$OLDPWD/tools/wheel-check.py" lib/libplimsoll_alloc.so 2.28)
mkdir -p "$tree/share/doc/plimsoll"
cp README.md NEWS.md "$tree/share/doc/plimsoll"
cp build/wheel/copyright "$tree/share/doc/plimsoll"

echo "dist: packing"
cp -r "$tree" "$deb/usr"
gzip -9n "$deb"/usr/share/man/man1/*.1
cat >"$deb/DEBIAN/control" <<END
Package: plimsoll
Version: $version
Architecture: amd64
Maintainer: The Plimsoll authors
Depends: libc6 (>= 2.28)
Recommends: python3 (>= 3.10)
Section: utils
Priority: optional
Installed-Size: $(du -ks --apparent-size "$deb/usr" | cut -f 1)
Description: what filled the memory of a GPU, and what will fit
 Explains the memory of PyTorch runs from their recordings, logs and
 configurations: why a job ran out of memory, which lines held it, what to
 change, and how much memory a run will need.  Needs no GPU and no network.
END
(cd "$deb" && find usr -type f | sort | xargs md5sum >DEBIAN/md5sums)
dpkg-deb --root-owner-group --threads-max=1 -Zxz --build "$deb" "$out/plimsoll_${version}_amd64.deb" >/dev/null
cp LICENSE README.md "$tree"
tar -C build/dist-tree --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --format=gnu \
	-cf - "${tree##*/}" | gzip -9n >"$out/${tree##*/}.tar.gz"

python3 tools/sbom.py "$version" "$out"/* >build/sbom.json
mv build/sbom.json "$out/plimsoll-$version.cdx.json"
(cd "$out" && sha256sum -- * >SHA256SUMS && cat SHA256SUMS && du -ch --apparent-size -- *)
