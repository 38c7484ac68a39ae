#!/usr/bin/env python3
"""spellings.py PLIMSOLL [COUNT]: one run has one plan, however it is spelled.

`--lora 16` fitted a GPU that the same with `--bf16`, the default's own word, or `--params 8B` did not fit.  Recipes are drawn at
random and spelled in four ways: plan's options, words of Transformers' users, files of TrainingArguments and PEFT, and Python.  Each
must need the same bytes in each phase.  PLIMSOLL_LIBRARY is the library that Python loads.
"""
import dataclasses
import json
import os
import random
import sys
import tempfile

import plimsoll

import lib

COUNT = 60
LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 256, "num_hidden_layers": 3, "num_attention_heads": 4,
         "num_key_value_heads": 2, "intermediate_size": 704, "vocab_size": 4000, "max_position_embeddings": 4096}
LLAMA_8B = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "num_hidden_layers": 32,
            "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
            "max_position_embeddings": 131072, "torch_dtype": "bfloat16"}
OPTIMIZERS = {"adamw": "adamw_torch", "adamw-fused": "adamw_torch_fused", "adafactor": "adafactor", "sgd": "sgd",
              "paged_adamw_8bit": "paged_adamw_8bit", "adamw_bnb_8bit": "adamw_bnb_8bit"}


KERNELS = {"loss": "fused_linear_cross_entropy", "norm": "rms_norm", "rope": "rope", "swiglu": "swiglu"}


@dataclasses.dataclass
class Recipe:
    stored: str | None
    release: str
    batch: int
    accumulate: int
    seq: int
    word: str  # of precision: bf16 or fp16
    optimizer: str
    checkpointed: bool
    rank: int  # of adapters, 0: none
    dropout: bool
    liger: str  # of Liger's kernels: all, some, "": none
    clips: bool


def drawn(rng):
    return Recipe(stored=rng.choice(["bfloat16", "float16", "float32", None]), release=rng.choice(["4.44", "4.57", "5.0", "5.20"]),
                  batch=rng.randint(1, 6), accumulate=rng.randint(1, 3), seq=rng.choice([128, 384, 1000]),
                  word=rng.choice(["bf16", "bf16", "fp16"]), optimizer=rng.choice(list(OPTIMIZERS)), checkpointed=rng.random() < 0.5,
                  rank=rng.choice([0, 0, 8, 16]), dropout=rng.random() < 0.5, liger=rng.choice(["", "", "all", *KERNELS, ",".join(rng.sample(list(KERNELS), 2))]),
                  clips=rng.random() < 0.8)


def flags(names):
    return [f"--{name}" for name, on in names.items() if on]


def as_options(r):
    """plan's own words; bf16 is its default."""
    given = ["--batch", r.batch, "--accumulate", r.accumulate, "--seq", r.seq, "--optimizer", r.optimizer, "--transformers", r.release]
    given += ["--precision", r.word] if r.word != "bf16" else []
    given += ["--checkpointing", "full"] if r.checkpointed else []
    given += ["--lora", r.rank, "--lora-targets", "q_proj,v_proj"] if r.rank else []
    given += ["--lora-dropout", "0.1"] if r.rank and r.dropout else []
    given += [f"--liger={r.liger}"] if r.liger else []
    return given + flags({"no-clip": not r.clips})


def as_words(r):
    """What is typed behind train.py."""
    given = ["--per_device_train_batch_size", r.batch, "--gradient_accumulation_steps", r.accumulate, "--max_seq_length", r.seq,
             f"--{r.word}", "True", "--optim", OPTIMIZERS[r.optimizer], "--transformers", r.release]
    given += ["--gradient_checkpointing", "True"] if r.checkpointed else []
    given += ["--lora_r", r.rank, "--lora_target_modules", "q_proj,v_proj"] if r.rank else []
    given += ["--lora_dropout", "0.1"] if r.rank and r.dropout else []
    given += ["--use_liger_kernel", "True"] if r.liger == "all" else [f"--liger={r.liger}"] if r.liger else []
    return given + flags({"no-clip": not r.clips})


def as_files(r, folder):
    arguments = {"output_dir": "out", "per_device_train_batch_size": r.batch, "gradient_accumulation_steps": r.accumulate, r.word: True,
                 "optim": OPTIMIZERS[r.optimizer], "gradient_checkpointing": r.checkpointed, "use_liger_kernel": bool(r.liger),
                 "max_grad_norm": 1.0 if r.clips else 0.0}
    if r.liger and r.liger != "all":
        arguments["liger_kernel_config"] = {key: name in r.liger.split(",") for name, key in KERNELS.items()}
    adapters = {"peft_type": "LORA", "r": r.rank, "target_modules": ["q_proj", "v_proj"], "lora_dropout": 0.1 if r.dropout else 0.0}
    given = ["--seq", r.seq, "--transformers", r.release]
    for name, values in {"arguments.json": arguments, "adapters.json": adapters if r.rank else None}.items():
        path = os.path.join(folder, name)
        if values:
            with open(path, "w", encoding="utf-8") as f:
                json.dump(values, f)
            given += ["--from", path]
    return given


def as_keywords(r):
    given = {"batch": r.batch, "accumulate": r.accumulate, "seq": r.seq, "optimizer": r.optimizer, "transformers": r.release,
             "precision": r.word, "liger": r.liger == "all" or r.liger or None, "no_clip": not r.clips}
    if r.checkpointed:
        given["checkpointing"] = "full"
    if r.rank:
        given |= {"lora": r.rank, "lora_targets": "q_proj,v_proj"}
    if r.rank and r.dropout:
        given["lora_dropout"] = "0.1"
    return given


def bytes_of(told):
    """What must be the same."""
    return (told["model"]["parameters"], told["model"]["trainable"], told["peak"]["needed_bytes"],
            [(p["phase"], p["allocated_peak_bytes"], p["reserved_peak_bytes"]) for p in told["phases"]])


def judge(recipe):
    config = dict(LLAMA, **({"torch_dtype": recipe.stored} if recipe.stored else {}))
    with tempfile.TemporaryDirectory() as folder:
        told = {"options": lib.planned(config, *as_options(recipe)), "words": lib.planned(config, *as_words(recipe)),
                "files": lib.planned(config, *as_files(recipe, folder)),
                "Python": plimsoll.plan(config, **as_keywords(recipe)).to_dict()}
    for spelled, plan in told.items():
        lib.expect(bytes_of(plan) == bytes_of(told["options"]), spelled, recipe, plan["peak"]["needed_bytes"],
                   told["options"]["peak"]["needed_bytes"])


def judge_default():
    """The word of the default changes nothing, and neither does a number that stands for the file, of which less is sure."""
    given = ["--lora", 16, "--gpu", "A100 40GB"]
    told = lib.planned(LLAMA_8B, *given)
    said = lib.planned(LLAMA_8B, *given, "--bf16")
    lib.expect(told["fits"] and said["fits"], "the default's word", told["fits"], said["fits"])
    for same in (said, lib.result("plan", "--params", "8B", *given), lib.result("plan", "--params", "8B", "--bf16", *given)):
        lib.expect(bytes_of(same) == bytes_of(told), "default", same["peak"], told["peak"])


def judge_shapes():
    """Shapes that stand for a number of parameters have about as many, and divide among GPUs."""
    for size in (0.36, 0.5, 1, 1.5, 3, 7, 8, 9, 13, 20, 32, 70, 100, 405):
        told = lib.result("plan", "--params", f"{size}B", "--task", "infer")
        lib.expect(abs(told["model"]["parameters"] / size / 1e9 - 1) < 0.02, f"{size}B", told["model"]["parameters"])
    for size, gpus in ((7, 8), (8, 8), (20, 4), (70, 8)):
        lib.run("plan", "--params", f"{size}B", "--tp", gpus, "--gpus", gpus)


lib.start(sys.argv[1])
random_recipes = random.Random(5)
lib.jobs(judge, [drawn(random_recipes) for _ in range(int(sys.argv[2]) if len(sys.argv) > 2 else COUNT)])
judge_default()
judge_shapes()
lib.finish("one run has one plan, however it is spelled")
