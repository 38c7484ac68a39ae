#!/usr/bin/env python3
"""model.py MODEL_DUMP DATA [TRUTH]: models have the parameters and buffers that PyTorch has.

DATA/models.jsonl.xz holds what Transformers 5.17 and PEFT 0.21 built of configs: names, shapes and order, from the full
config and from the one that a checkpoint would have (keys at their default left out).  The totals of published
models are next to it.  TRUTH is the full set of measured runs.
"""
import ast
import json
import math
import os
import sys
import tempfile

import lib

TOTALS = ("n_params", "n_trainable", "param_bytes", "buffer_bytes")
SHOWN = 5  # differences of a model that are printed


def dump(configs, *options):
    """What the program says of each [dtype, config, words], as lists of lines, totals first."""
    text = "".join("%s%s %s\n" % (dtype, words, json.dumps(config)) for dtype, config, words in configs)
    out = lib.run(*options, stdin=text.encode(), codes=lib.ANY, text=False).stdout.decode()
    models = []
    for line in out.splitlines():
        if line.startswith(("total ", "error ")):
            models.append([])
        models[-1].append(line)
    assert len(models) == len(configs), (len(models), len(configs))
    return models


def dtype_of(spec):
    if spec.get("kind") == "infer" or spec.get("precision") == "bf16_pure":
        return "bfloat16"
    return "float32"


def lora_of(row):
    """PEFT's adapters of the measured runs: c_attn in GPT-2, else q_proj and v_proj."""
    rank = row["spec"].get("lora")
    targets = "c_attn" if row["config"]["model_type"] == "gpt2" else "q_proj,v_proj"
    return "" if not rank else ":lora=%d:%s" % (rank, targets)


def check_totals(rows):
    """rows: [name, dtype, words, config, {total: number}]"""
    failed = 0
    models = dump([(dtype, config, words) for _, dtype, words, config, _ in rows])
    for (name, _, _, _, want), lines in zip(rows, models):
        got = dict(zip(TOTALS, lines[0].split()[3:]))
        wrong = [k for k in TOTALS if want.get(k) is not None and got.get(k) != str(want[k])]
        for key in wrong:
            print("%s: %s is %s, should be %s" % (name, key, got.get(key, lines[0]), want[key]))
        failed += bool(wrong)
    print("%d totals, %d wrong" % (len(rows), failed))
    return failed


def published(path):
    """Models as they stand on the hub; keys that their files omit are left to the defaults."""
    for row in lib.rows(path):
        yield row["name"], "float32", "", row["config"], {"n_params": row["n_params"]}


def measured(truth):
    for name in ("plan.jsonl", "plan2.jsonl", "plan3.jsonl", "parallel.jsonl"):
        path = os.path.join(truth, name)
        for row in lib.rows(path) if os.path.exists(path) else ():
            want = {k: row.get(k) for k in TOTALS}
            yield row["spec"].get("name", name), dtype_of(row["spec"]), lora_of(row), row["config"], want


def check_tensors(rows):
    """rows: [name, words, config, lines]"""
    failed = 0
    models = dump([("float32", config, words) for _, words, config, _ in rows], "-n")
    for (name, _, _, want), lines in zip(rows, models):
        got = lines[1:] or lines
        if got == want:
            continue
        failed += 1
        print("%s: %d of %d tensors differ" % (name, len(set(want) ^ set(got)), len(want)))
        for line in [("only in PyTorch: " + w) for w in want if w not in got][:SHOWN] + [
                ("only here: " + g) for g in got if g not in want][:SHOWN]:
            print("    " + line)
        if set(got) == set(want):
            print("    in another order")
    print("%d models, %d differ" % (len(rows), failed))
    return failed


def built(path):
    for row in lib.rows(path):
        adapters = adapters_of(row["what"])
        if adapters is None:
            continue
        frozen = set(row["frozen"])
        want = ["p%s %s" % ("*" if i in frozen else "", tensor(p)) for i, p in enumerate(row["parameters"])]
        want += ["b " + tensor(b) for b in row["buffers"]]
        name = "%s %s" % (row["class"], row["what"])
        yield name, adapters, row["config"], want
        yield name + ", defaults left out", adapters, row["diff"], want


def tensor(words):
    """A line of model_dump -n: PEFT's wrappers are left out of names."""
    name = words[0].replace("base_model.model.", "").replace(".base_layer.", ".").replace(".original_module.", ".")
    return " ".join([name, *map(str, words[1:])])


def adapters_of(what):
    """Options of model_dump for "peft ['q_proj', 'v_proj'] {'use_dora': True}"; None: not of our forms."""
    if not what.startswith("peft "):
        return ""
    targets, _, options = what[5:].rpartition(" {")
    options = ast.literal_eval("{" + options)
    if "bias" in options or "\\" in targets:
        return None
    names = {"None": "default", "all-linear": "all-linear"}.get(targets) or ",".join(ast.literal_eval(targets))
    saved = ":save=" + ",".join(options["modules_to_save"]) if "modules_to_save" in options else ""
    return ":lora=4:%s%s%s" % (names, ":dora" if options.get("use_dora") else "", saved)


HEADERS = ("LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM", "GemmaForCausalLM", "Gemma2ForCausalLM",
           "Phi3ForCausalLM", "MixtralForCausalLM", "Qwen3MoeForCausalLM", "GPT2LMHeadModel", "BertForMaskedLM")


def write_safetensors(path, tensors):
    header, at = {}, 0
    for name, *shape in tensors:
        n = 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + n]}
        at += n
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        f.truncate(8 + len(text) + at)


def check_headers(path):
    """Checkpoints without a config have the parameters that stand in them, and say that they are guessed."""
    rows = lib.rows(path)
    rows = [r for r in rows if r["class"] in HEADERS and r["what"] == "small"]
    failed = len(rows) != len(HEADERS)
    with tempfile.TemporaryDirectory() as folder:
        for row in rows:
            file = os.path.join(folder, "model.safetensors")
            write_safetensors(file, row["parameters"])
            out = lib.run(file, codes=lib.ANY).stdout.split()
            want = sum(math.prod(shape) for _, *shape in row["parameters"])
            if out[:1] != ["total"] or out[2:4] != ["1", str(want)]:
                failed += 1
                print("%s: %s from its tensors, should have %d" % (row["class"], " ".join(out), want))
    print("%d checkpoints without a config, %d wrong" % (len(rows), failed))
    return failed


def main():
    lib.start(sys.argv[1])
    data = sys.argv[2]
    truth = sys.argv[3] if len(sys.argv) > 3 else ""
    failed = check_tensors(list(built(os.path.join(data, "models.jsonl.xz"))))
    failed += check_headers(os.path.join(data, "models.jsonl.xz"))
    failed += check_totals(list(published(os.path.join(data, "published.jsonl"))))
    for place in [p for p in (data, truth) if p]:
        failed += check_totals(list(measured(place)))
    lib.expect(not failed, "models", "%d are not as PyTorch has them" % failed)
    lib.finish("models as PyTorch has them", least=10)


main()
