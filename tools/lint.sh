#!/bin/bash
# lint.sh FOLDER: formatting, clang-tidy with the compile commands there, floors, banned functions, complexity, idioms, prose
# that cannot be diffed.  Prints what is wrong; a tool that is missing, dies or finds nothing wrong with what is known to be wrong is
# a failure.  clang-tidy checks the files that the last 20 commits changed, those that are not committed, and every tenth
# other file, another tenth with each commit; all of them with ALL=1, or if there is no history.
set -u -o pipefail
cd "$(dirname "$0")/.."
build=$1
failed=0
check() { # NAME COMMAND...
	local name=$1 said
	shift
	if said=$("$@" 2>&1); then
		echo "lint $name: ok"
	else
		echo "$said"
		echo "lint $name: FAILED"
		failed=$((failed + 1))
	fi
}
refuses() { # WHAT COMMAND...: the command must find something wrong with its input, and say so
	local what=$1 said
	shift
	said=$("$@" 2>&1) && echo "$what found nothing wrong with what is wrong" && return 1
	grep -q 'error:' <<<"$said" || { echo "$said" && return 1; }
}
format() {
	refuses clang-format-14 clang-format-14 --dry-run -Werror --assume-filename=src/x.c <<<'int  x ;' &&
		tools/c-files.sh | xargs clang-format-14 --dry-run -Werror
}
# The files that clang-tidy checks, one a line.
tidied() {
	local changed at=0
	if [ -n "${ALL:-}" ] || ! changed=$(git diff --name-only "$(git rev-list --max-count=21 HEAD | tail -n 1)" -- && git ls-files -o --exclude-standard); then
		changed=.
		at=all
	fi
	tools/c-files.sh | grep -E '^(src|cli|runtime)/.*\.c$' | if [ $at = all ]; then cat; else
		awk -v changed="$changed" -v at="$(git rev-list --count HEAD)" '
			BEGIN { n = split(changed, list, "\n"); for (i = 1; i <= n; i++) is_changed[list[i]] = 1 }
			($0 in is_changed) || NR % 10 == at % 10'
	fi
}
tidy() {
	local scratch
	scratch=$(mktemp -d) || return 1
	echo 'int f(int a); int f(int a) { return a == a; }' >"$scratch/x.c"
	# One file a process, and again where clang-tidy 14 itself dies of a signal, which it does now and then.
	# shellcheck disable=SC2016 # of the inner shell
	local again='for try in 1 2 3 4 5; do clang-tidy-14 "$@"; code=$?; [ $code -ge 128 ] || break; done; exit $code'
	tidied >"$scratch/files" && [ -s "$scratch/files" ] || { echo "clang-tidy: no file to check" && return 1; }
	echo "lint: clang-tidy checks $(wc -l <"$scratch/files") files" >&2
	refuses clang-tidy-14 clang-tidy-14 --quiet --config-file=.clang-tidy "$scratch/x.c" -- &&
		xargs -P "$(nproc)" -n 1 sh -c "$again" sh -p "$build" --quiet <"$scratch/files"
	local code=$?
	rm -r "$scratch"
	return $code
}
floors() { /usr/bin/python3 tests/layering.py .; }
words() { tools/lint-words.py; }
# docs/json.md and docs/lint.md are made from others.
prose() {
	git ls-files README.md NEWS.md CONTRIBUTING.md 'docs/*.md' | grep -vE '^docs/(json|lint)\.md$' |
		xargs tools/wrap-prose.py --check
}
# The build bans them in src/ and cli/; here is proof that the ban holds.
banned() {
	local call
	for call in 'strcpy(a, a)' 'sprintf(a, "b")' 'atoi(a)' 'strtok(a, a)' 'alloca(8)'; do
		refuses "the ban of $call" cc -x c -fsyntax-only -include src/base/banned.h - \
			<<<"void f(char *a); void f(char *a) { (void)$call; }" || return 1
	done
	cc -x c -fsyntax-only -include src/base/banned.h - <<<'void f(void);'
}
# A function above 30 (lizard's cyclomatic complexity: 1, and 1 for each if, loop, case, && and ||) asks several questions:
# give each a function.  Tests are left out.
LIZARD=build/lint-venv/bin/lizard
complex_functions() { # PATH...
	"$LIZARD" -C 30 -w "$@" | sed 's/: warning: /: error: /'
}
# A file in C and one in Python, each with one function whose complexity is 1 and the number of its ifs.
plant() { # FOLDER IFS
	{
		echo 'int planted(int a)' && echo '{'
		for _ in $(seq "$2"); do printf '\tif (a > 1)\n\t\ta--;\n'; done
		printf '\treturn a;\n}\n'
	} >"$1/planted.c"
	{
		echo 'def planted(a):'
		for _ in $(seq "$2"); do printf '    if a > 1:\n        a -= 1\n'; done
		echo '    return a'
	} >"$1/planted.py"
}
complexity() {
	local scratch
	tools/venv.sh build/lint-venv lizard==1.24.3 && scratch=$(mktemp -d) || return 1
	plant "$scratch" 30
	refuses 'lizard, of C,' complex_functions "$scratch/planted.c" && refuses 'lizard, of Python,' complex_functions "$scratch/planted.py" &&
		plant "$scratch" 29 && complex_functions "$scratch" && complex_functions src cli runtime python/plimsoll tools
	local code=$?
	rm -r "$scratch"
	return $code
}
# Four files with the same function are refused.
names() {
	local scratch code
	scratch=$(mktemp -d) || return 1
	printf 'static int keep(void)\n{\n\treturn 0;\n}\n' | tee "$scratch"/{a,b,c,d}.c >/dev/null
	refuses 'the rule of names' tools/lint-names.py "$scratch"/*.c && rm "$scratch/d.c" && tools/lint-names.py "$scratch"/*.c &&
		git ls-files 'src/*.c' 'cli/*.c' 'runtime/*.c' | xargs tools/lint-names.py
	code=$?
	rm -r "$scratch"
	return $code
}
check format format
check clang-tidy tidy
check floors floors
check banned banned
check complexity complexity
check names names
check words words
check prose prose
[ $failed = 0 ]
