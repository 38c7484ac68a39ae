#!/bin/sh
# installed.sh BIN MODULE SCHEMA: the linter as pip put it into the environment BIN (MODULE is plimsoll.lint or plimsoll_lint):
# its script, its module, its flake8 plugin, and its SARIF before jsonschema.  flake8 and jsonschema must be there.
set -eu
bin=$1 module=$2 schema=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
printf 'import torch\nmodel = torch.nn.Linear(1, 1)\nmodel.eval\n' >a.py
has() { # TEXT FILE
	grep -q "$1" "$2" || { echo "no '$1' in:" >&2; cat "$2" >&2; exit 1; }
}
"$bin/plimsoll-lint" --fail-on never a.py >script.txt
has '^a.py:3:1: PLM804 error' script.txt
"$bin/python" -m "$module" --fail-on never a.py >module.txt
has '^a.py:3:1: PLM804 error' module.txt
"$bin/python" -m flake8 --isolated --select PLM a.py >flake8.txt && { echo "flake8 found nothing" >&2; exit 1; }
has '^a.py:3:1: PLM804 ' flake8.txt
[ "$(wc -l <flake8.txt)" = 1 ] || { cat flake8.txt >&2; exit 1; }
printf 'import torch\nx = (\n' >b.py
"$bin/plimsoll-lint" --format sarif . >a.sarif 2>/dev/null && exit 1
"$bin/python" -c 'import json, sys, jsonschema; jsonschema.validate(json.load(open(sys.argv[1])), json.load(open(sys.argv[2])))' a.sarif "$schema"
