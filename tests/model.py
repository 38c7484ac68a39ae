#!/usr/bin/env python3
"""model.py MODEL_DUMP DATA [TRUTH]: models have the parameters and buffers that PyTorch counted."""
import json
import os
import subprocess
import sys

DTYPES = {"bf16_pure": "bfloat16", "fsdp_mp": "bfloat16"}


def measured(truth):
    """(name, dtype, row) of each measured run without adapters whose parameters were counted."""
    for name in ("plan.jsonl", "plan2.jsonl", "parallel.jsonl"):
        path = os.path.join(truth, name)
        for line in open(path) if os.path.exists(path) else ():
            row = json.loads(line)
            spec = row["spec"]
            if not spec.get("lora"):
                infer = spec.get("kind") == "infer"
                dtype = "bfloat16" if infer else DTYPES.get(spec.get("precision"), "float32")
                yield spec.get("name", name), dtype, row


def main():
    dump, roots = sys.argv[1], [r for r in sys.argv[2:] if r]
    rows = [r for root in roots for r in measured(root)]
    text = "".join("%s %s\n" % (dtype, json.dumps(row["config"])) for _, dtype, row in rows)
    out = subprocess.run([dump], input=text, capture_output=True, text=True, check=False).stdout.splitlines()
    failed = len(out) != len(rows)
    for (name, _, row), line in zip(rows, out):
        words = line.split()
        got = dict(zip(("n_params", "n_trainable", "param_bytes", "buffer_bytes"), words[3:])) if words[0] == "total" else {}
        for key in ("n_params", "n_trainable", "param_bytes", "buffer_bytes"):
            if row.get(key) is not None and got.get(key) != str(row[key]):
                failed = True
                print("%s: %s is %s, measured %s" % (name, key, got.get(key, line), row[key]))
    print("%d models" % len(rows))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
