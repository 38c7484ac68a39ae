#!/usr/bin/env python3
"""plan_pasted.py PLIMSOLL: what is pasted in a tool's own keys, read again with --from, is the same run.

Trainer's arguments were pasted whatever file came in.  Now recipes are written in the keys of each tool and read back: the
same bytes in each phase, no key that is not understood; what a tool has no key for is said behind a #.
"""
import itertools
import os
import random
import sys
import tempfile

import lib

MODEL = ["--layers", 3, "--hidden", 256, "--heads", 4, "--vocab", 4000]
STEPS = [["--checkpointing", "none"], ["--checkpointing", "full"], ["--checkpointing", "full", "--offload-activations", "checkpoints"],
         ["--checkpointing", "every:3"], ["--offload-activations", "trl"], ["--offload-activations", "pinned"]]
OPTIMIZERS = ["adamw", "adamw-fused", "sgd", "sgd-momentum", "adafactor", "adamw-paged", "adamw-ao-8bit", "adamw-ao-4bit"]
# the Trainer runs bitsandbytes with states of embeddings in fp32, a loop of one's own does not
OF_8_BITS = {"torchtune": ["adamw-8bit", "adamw-paged-8bit"]}
ADAPTERS = [[], ["--lora", 8, "--lora-targets", "all-linear"], ["--lora", 8, "--lora-targets", "q_proj,o_proj", "--lora-dropout", 0.1],
            ["--lora", 4, "--lora-targets", "q_proj,v_proj,gate_proj,up_proj,down_proj"],
            ["--lora", 4, "--lora-targets", "all-linear", "--dora"]]
PRECISIONS = ["fp32", "bf16-autocast", "bf16-weights", "bf16-pure", "fp16-autocast"]
LOSSES = [[], ["--loss", "liger"], ["--liger"], ["--liger=norm,rope"], ["--liger=loss,swiglu"], ["--liger=swiglu", "--loss", "liger"], ["--loss", "chunked"], ["--grouped"], ["--no-clip"], ["--eval-batch", 3], ["--attention", "eager"],
          ["--attention", "flash"]]
OPTIMIZED = [["--optimizer", name] for name in OPTIMIZERS]
PRECISED = [["--precision", name] for name in PRECISIONS]
DRAWN = 40  # recipes of several changes
GPUS = [[], ["--gpus", 4], ["--gpus", 4, "--parallel", "fsdp2"], ["--gpus", 4, "--parallel", "fsdp2-zero2"],
        ["--gpus", 4, "--parallel", "fsdp2", "--offload-params"], ["--gpus", 2, "--parallel", "zero3"], ["--gpus", 2, "--parallel", "fsdp1"]]
TOOLS = {"axolotl": "base_model: x\n", "llama-factory": "", "torchtune": "checkpointer:\n  _component_: a\n", "trl": ""}
# what switches evaluation on, which is the file's own affair
EVALUATES = {"axolotl": "val_set_size: 0.1\n", "llama-factory": "eval_strategy: steps\n", "torchtune": "run_val_every_n_steps: 9\n",
             "trl": "eval_strategy: steps\n"}


def recipes(tool):
    """One thing changed at a time, and adapters by how weights are kept; what is not changed is the tool's own default."""
    plain = ["--batch", 3, "--accumulate", 2, "--seq", 384]
    optimizers = OPTIMIZERS + OF_8_BITS.get(tool, ["adamw_bnb_8bit", "paged_adamw_8bit"])
    for one in itertools.chain(STEPS, ([("--optimizer"), o] for o in optimizers), (["--precision", p] for p in PRECISIONS), LOSSES, GPUS):
        yield [*plain, *one]
    for adapters in ADAPTERS[1:]:
        for precision in [*PRECISIONS, "fp16-weights"]:
            yield [*plain, *adapters, "--precision", precision]
        for bits in ("nf4", "nf4-double", "int8"):
            yield [*plain, *adapters, "--quantize", bits, "--checkpointing", "full"]
    draw = random.Random(tool)
    for _ in range(DRAWN):
        yield [word for some in ([[], ["--batch", 2]], [[], ["--accumulate", 3]], [[], ["--seq", 200]], [[], *STEPS], [[], *OPTIMIZED],
                                 [[], *PRECISED], LOSSES, ADAPTERS) for word in draw.choice(some)]


def phases(told):
    return [(p["phase"], p["allocated_peak_bytes"], p["reserved_peak_bytes"]) for p in told["phases"]]


def read_again(tool, folder, recipe):
    """Is what is pasted the same run?  None: the tool has no key for a part of it."""
    told = lib.result("plan", *MODEL, *recipe, "--for", tool)
    text = told["config"]["tool_config"]
    if "has no key" in text or "deepspeed.json" in text:
        return None
    path = os.path.join(folder, "run.yaml")
    with open(path, "w", encoding="utf-8") as f:
        f.write(TOOLS[tool] + (EVALUATES[tool] if "--eval-batch" in recipe else "") + text)
    gpus = recipe[recipe.index("--gpus"):][:2] if "--gpus" in recipe else []
    again = lib.result("plan", *MODEL, "--from", path, *gpus)
    unread = [s["key"] for s in again["settings_read"] if not s["option"]]
    same = phases(told) == phases(again) and told["peak"]["needed_bytes"] == again["peak"]["needed_bytes"]
    if unread or not same:
        print("%s, %s: pasted as\n%sand read as %s; not read: %s" % (
            tool, recipe, text, [(s["key"], s["option"]) for s in again["settings_read"]], unread))
    return same and not unread


def main():
    lib.start(sys.argv[1])
    wrong, said = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for tool in TOOLS:
            answers = [read_again(tool, folder, r) for r in recipes(tool)]
            wrong += answers.count(False)
            said += answers.count(True)
            print("%s: %d the same, %d not sayable" % (tool, answers.count(True), answers.count(None)))
    lib.expect(not wrong, "what is pasted", "%d wrong of %d" % (wrong, said + wrong))
    lib.expect(said > 150, "what is pasted", "only %d recipes can be said" % said)
    lib.finish("0 wrong", least=200)


main()
