#!/usr/bin/env python3
"""schemas.py PLIMSOLL DATA RESULTS: real outputs of every command, by the JSON Schema of its result.

Strictly: an output may have no key that its schema lacks.  Exits with 77 where python3-jsonschema is missing.
"""
import json
import os
import subprocess
import sys
import tempfile

try:
    import jsonschema
except ImportError:
    print("skipped: this needs python3-jsonschema (tools/deps.sh check)")
    sys.exit(77)

program, data, results = sys.argv[1:4]
MODEL = os.path.join(data, "models/llama_s/config.json")
LOGS = sorted(os.path.join(at, f) for at, _, files in os.walk(os.path.join(data, "../messages")) for f in files)


def data_file(name):
    return os.path.join(data, name)


DEATH, LEAK, OTHER = (data_file(f + ".pickle.xz") for f in ("oom_moe", "leak_evalpile", "rnn"))
# schema, arguments; a status of 0 or 1 is a result.
CASES = [
    ("report", ["report", DEATH]), ("report", ["report", LEAK, "--redact"]), ("report", ["report", OTHER, "--at", "end"]),
    ("diff", ["diff", LEAK, OTHER, "--fail-over", "1%"]), ("diff", ["diff", OTHER, OTHER]),
    ("ranks", ["report", DEATH, LEAK]),
    ("whatif", ["whatif", DEATH]), ("whatif", ["whatif", OTHER, "--limit", "1GiB"]),
    ("plan", ["plan", MODEL]), ("plan", ["plan", MODEL, "--memory", "100MiB", "--allow-changes", "--host-memory", "1GiB"]),
    ("plan", ["plan", MODEL, "--memory", "4GiB", "--max-batch", "--sweep", "batch=1,2"]),
    ("curves", ["curves", data_file("logs/hf_trainer")]), ("curves", ["curves", data_file("logs/tb_nan")]),
    ("doctor", ["doctor", "--no-python"]),
    ("here", ["why", "--here"]),
    ("watch", ["watch", "--replay", data_file("watch/input_cpu_run1.jsonl.xz")]),
]


def strict(schema):
    """The same schema, without leave for other keys."""
    if isinstance(schema, dict):
        more = {"additionalProperties": False} if "properties" in schema and schema.get("type") == "object" else {}
        return {k: strict(v) for k, v in schema.items()} | more
    return [strict(v) for v in schema] if isinstance(schema, list) else schema


def output(arguments):
    done = subprocess.run([program, *arguments, "--json"], capture_output=True, text=True)
    assert done.returncode in (0, 1) and done.stdout, (arguments, done.returncode, done.stderr)
    return json.loads(done.stdout)


def cases(scratch):
    yield from CASES
    for log in LOGS[:40]:
        yield "why", ["why", log]
    a, b = (os.path.join(scratch, f) for f in ("step_1.safetensors", "step_2.safetensors"))
    for path, size in (a, 4), (b, 8):
        head = json.dumps({"w": {"dtype": "F32", "shape": [size], "data_offsets": [0, 4 * size]}}).encode()
        with open(path, "wb") as f:
            f.write(len(head).to_bytes(8, "little") + head + bytes(4 * size))
    with open(os.path.join(scratch, "bad.safetensors"), "wb") as f:
        f.write(b"\1\2\3")
    yield from [("ckpt", ["ckpt", "verify", a, "--values"]), ("ckpt", ["ckpt", "show", b]),
                ("ckpt", ["ckpt", "verify", os.path.join(scratch, "bad.safetensors")]),
                ("ckpt_diff", ["ckpt", "diff", a, b, "--values"]), ("ckpt_last", ["ckpt", "last-good", scratch])]


def main():
    seen, schemas = {}, {}
    with tempfile.TemporaryDirectory() as scratch:
        for name, arguments in cases(scratch):
            if name not in schemas:
                text = subprocess.run([sys.executable, results, "schema", name], check=True, capture_output=True).stdout
                schemas[name] = json.loads(text)
                jsonschema.Draft202012Validator.check_schema(schemas[name])
            result = output(arguments)
            for error in jsonschema.Draft202012Validator(strict(schemas[name])).iter_errors(result):
                print(f"{' '.join(arguments)}: {'.'.join(map(str, error.absolute_path))}: {error.message[:300]}")
                seen["wrong"] = seen.get("wrong", 0) + 1
            seen[name] = seen.get(name, 0) + 1
        # The test itself can fail: a key that no schema has, and one that is missing.
        more = output(["why", "--here"]) | {"surprise": 1}
        assert list(jsonschema.Draft202012Validator(strict(schemas["here"])).iter_errors(more)), "any key passes"
        more = {k: v for k, v in more.items() if k not in ("surprise", "bounds")}
        assert list(jsonschema.Draft202012Validator(schemas["here"]).iter_errors(more)), "a missing key passes"
    names = set(subprocess.run([sys.executable, results, "schemas"], check=True, capture_output=True, text=True).stdout.split())
    assert names <= set(seen), f"no output was tried of {names - set(seen)}"
    print(f"{sum(v for k, v in seen.items() if k != 'wrong')} outputs of {len(names)} schemas")
    sys.exit(bool(seen.get("wrong")))


main()
