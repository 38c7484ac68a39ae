#!/bin/sh
# hooks.sh BIN TOP: the pre-commit hooks as users have them, with the pre-commit in the environment BIN and an empty home:
# from a clone of the repository TOP, and as the linter's own package in pre-commit's environment (docs/lint.md).
set -eu
bin=$1 top=$2
git -C "$top" rev-parse -q --verify HEAD >/dev/null || { echo "$top is no git repository" >&2; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/home" "$folder/code"
cd "$folder/code"
[ -n "${PIP_CONFIG_FILE-}" ] || [ ! -f "$HOME/.config/pip/pip.conf" ] || export PIP_CONFIG_FILE="$HOME/.config/pip/pip.conf"
HOME=$folder/home PRE_COMMIT_HOME=$folder/cache PATH=$bin:$PATH GIT_CONFIG_NOSYSTEM=1
export HOME PRE_COMMIT_HOME PATH GIT_CONFIG_NOSYSTEM
unset GIT_DIR GIT_INDEX_FILE GIT_WORK_TREE PYTHONPATH XDG_CONFIG_HOME XDG_CACHE_HOME
git init -q .
has() { # TEXT FILE
	grep -q -- "$1" "$2" || { echo "no '$1' in:" >&2; cat "$2" >&2; exit 1; }
}
mistake() {
	printf 'import torch\nmodel = torch.nn.Linear(1, 1)\nmodel.eval\n' >a.py
	printf 'x = 1\n' >plain.py
	git add .
}
run() { # ID
	"$bin/pre-commit" run --color never --all-files "$1" >"$folder/out.txt" 2>&1
}

cat >.pre-commit-config.yaml <<EOF
repos:
- repo: $top
  rev: $(git -C "$top" rev-parse HEAD)
  hooks: [{id: plimsoll-lint}, {id: plimsoll-lint-fix}]
EOF
mistake
run plimsoll-lint && { echo 'plimsoll-lint found nothing' >&2; exit 1; }
has '^a.py:3:1: PLM804 error' "$folder/out.txt"
run plimsoll-lint-fix && { echo 'plimsoll-lint-fix changed nothing' >&2; exit 1; }
has '^+model.eval()' "$folder/out.txt"
git add .
run plimsoll-lint || { cat "$folder/out.txt" >&2; exit 1; }
run plimsoll-lint-fix || { cat "$folder/out.txt" >&2; exit 1; }

cat >.pre-commit-config.yaml <<EOF
repos:
- repo: local
  hooks:
  - id: plimsoll-lint
    name: plimsoll lint
    entry: plimsoll-lint
    language: python
    types_or: [python, jupyter]
    additional_dependencies: ["$top/python/lint"]
EOF
mistake
run plimsoll-lint && { echo 'the package found nothing' >&2; exit 1; }
has '^a.py:3:1: PLM804 error' "$folder/out.txt"
[ ! -e "$folder/home/.local" ]
