#!/bin/sh
# make-ptx.sh [--check]: kernel.ptx of kernel.cu, with clang 14 as Debian has it; --check says whether the one here is the same.
# PTX 6.0 for sm_60: every driver since 2017 takes it, and makes what its GPU runs of it.
set -eu
cd "$(dirname "$0")"
clang=${CLANG:-clang-14}
if ! "$clang" --version 2>/dev/null | grep -q 'version 14\.'; then
	echo "make-ptx: SKIPPED, there is no clang 14: kernel.ptx was not compared with kernel.cu" >&2
	exit 77
fi
make() {
	"$clang" -x cuda --cuda-device-only --cuda-gpu-arch=sm_60 --cuda-path=/nonexistent -nocudainc -nocudalib \
		-Xclang -target-feature -Xclang +ptx60 -O3 -ffp-contract=off -std=c++17 -S kernel.cu -o -
}
if [ "${1:-}" = --check ]; then
	made=$(mktemp)
	trap 'rm -f "$made"' EXIT
	make >"$made"
	grep -Eqx '\.version (6\.[0-9]|7\.0)' "$made" || { echo "kernel.ptx: .version is above 7.0" >&2 && exit 1; }
	cmp kernel.ptx "$made" || { echo "kernel.ptx is not made of kernel.cu: src/job/gradients/make-ptx.sh makes it anew" >&2 && exit 1; }
else
	make >kernel.ptx.new
	mv kernel.ptx.new kernel.ptx
fi
