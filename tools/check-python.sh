#!/bin/bash
# check-python.sh BUILD: the Python package in an environment with a real PyTorch: types, tests, examples, the notebook, the
# wheel that `pip install .` makes; and what `curves` says next to real libraries and of made logs.  As many at a time as there are
# processors.  Exit 77 where there is no such environment.
set -eu
cd "$(dirname "$0")/.."
top=$PWD
build=$1
tools/venv.sh build/venv || exit $?
python=$top/build/venv/bin/python
logs=build/check-python
at_a_time=$(nproc)
number=0
rm -rf $logs
mkdir -p $logs
judge() { # LOG NAME COMMAND...
	local log=$1 name=$2
	shift 2
	if "$@" >"$log" 2>&1; then
		touch "$log.passed"
	else
		{ tail -40 "$log" && echo "check-python $name: FAILED"; } >&2
	fi
}
run() { # NAME COMMAND...
	while [ "$(jobs -rp | wc -l)" -ge "$at_a_time" ]; do wait -n || true; done
	number=$((number + 1))
	judge "$logs/$number" "$@" &
}
export PYTHONPATH="$top/python" PLIMSOLL_LIBRARY="$top/$build/libplimsoll.so.0" PLIMSOLL_PROGRAM="$top/$build/plimsoll" \
	PLIMSOLL_TEST_DATA="$top/tests/data" PLIMSOLL_SOURCE="$top" PYTHONDONTWRITEBYTECODE=1
run types "$python" -m mypy --strict python/plimsoll
status=0
tools/pyright.sh "$python" >build/pyright.log || status=$?
[ $status = 77 ] || run 'types, by pyright' sh -c "cat build/pyright.log; exit $status"
run torch "$python" python/tests/test_real_torch.py
run checkpoints "$python" python/tests/test_real_checkpoint.py
run weights env PLIMSOLL_FAKE_CUDA="$top/$build/tests/libfakecuda.so" "$python" python/tests/test_real_weights.py
run data env PLIMSOLL_FAKE_CUDA="$top/$build/tests/libfakecuda.so" "$python" python/tests/test_real_data.py
run fit "$python" python/tests/test_fit.py
run gate "$python" python/tests/test_gate.py
run gradients "$python" python/tests/test_real_gradients.py
run trainers "$python" python/tests/test_real_trainers.py
run objects "$python" python/tests/test_real_objects.py
run 'everyday items' "$python" tests/domain/run.py "$build/plimsoll"
for everyday in tests/domain/test_*.py; do
	run "$everyday" "$python" "$everyday"
done
run families sh -c "'$python' tests/families.py '$build/tests/model_dump' '$build/plimsoll' || [ \$? = 77 ]"
run 'reference readers' sh -c "'$python' tests/reference_readers.py '$build/plimsoll' || [ \$? = 77 ]"
run 'code on load' sh -c "'$python' -W ignore tests/code_on_load.py '$build/plimsoll' || [ \$? = 77 ]"
run 'honest files' sh -c "'$python' -W ignore tests/honest_files.py '$build/plimsoll' || [ \$? = 77 ]"
run tracing "$python" -m pytest -q python/tests/test_tracing.py
run 'early stopping' "$python" tests/curves/early_stop.py
run 'logs' "$python" tests/curves/real_logs.py "$build/plimsoll"
run 'quality of curves' "$python" tests/curves/quality.py "$build/plimsoll" --check --runs 60
run examples "$python" python/tests/test_examples.py
run 'language server' "$python" python/tests/test_lsp.py
run gradio "$python" python/tests/test_gradio.py
run frameworks "$python" python/tests/test_frameworks.py
run interrupt env PLIMSOLL_MAKE_SNAPSHOT="$top/$build/make_snapshot" "$python" python/tests/test_interrupt.py
unset PYTHONPATH PLIMSOLL_LIBRARY PLIMSOLL_PROGRAM
# What users do, one after the other: a step uses what the one before installed.
at_a_time=1
rm -rf build/installed build/installed-lint
run 'pip install .' sh -c "'$python' -m venv build/installed && build/installed/bin/pip wheel -q --disable-pip-version-check --no-deps -w build/installed/wheels . &&
	[ \$(cat build/installed/wheels/*.whl | wc -c) -lt 3000000 ] && build/installed/bin/pip install -q --disable-pip-version-check build/installed/wheels/*.whl &&
	cd / && '$top/build/installed/bin/python' -c \"import plimsoll; assert plimsoll.report('$top/samples/died-moe.pickle.xz').verdict.cause == 'fragmentation'\" &&
	'$top/build/installed/bin/plimsoll' --version && '$top/build/installed/bin/python' -m plimsoll doctor"
# The linter needs nothing native: without the library and the program, and as the package of its own.
run 'linter without the library' sh -c "find build/installed -name 'libplimsoll*' -delete && rm -f build/installed/bin/plimsoll &&
	build/installed/bin/pip install -q --disable-pip-version-check flake8 jsonschema &&
	tests/lint/installed.sh '$top/build/installed/bin' plimsoll.lint '$top/tests/lint/sarif.schema.json'"
run 'pip install ./python/lint' sh -c "'$python' -m venv build/installed-lint &&
	build/installed-lint/bin/pip install -q --disable-pip-version-check ./python/lint flake8 jsonschema &&
	tests/lint/installed.sh '$top/build/installed-lint/bin' plimsoll_lint '$top/tests/lint/sarif.schema.json'"
run 'templates of pipelines' sh -c "build/installed-lint/bin/pip install -q --disable-pip-version-check check-jsonschema &&
	build/installed-lint/bin/check-jsonschema --builtin-schema vendor.github-actions examples/gate/action.yaml &&
	build/installed-lint/bin/check-jsonschema --builtin-schema vendor.gitlab-ci examples/gate/gitlab-ci.yaml"
run 'pre-commit hooks' sh -c "build/installed-lint/bin/pip install -q --disable-pip-version-check pre-commit &&
	tests/lint/hooks.sh '$top/build/installed-lint/bin' '$top'"
wait
passed=$(find $logs -name '*.passed' | wc -l)
echo "check-python: $passed passed, $((number - passed)) failed"
[ "$passed" = "$number" ]
