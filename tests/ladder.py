#!/usr/bin/env python3
"""ladder.py PLIMSOLL DATA: the ladder of a plan that does not fit.

Each rung that stays needs less than the one before; the last one's configuration, planned by itself, needs what the
ladder said; rungs that change what is trained are alternatives unless they are allowed; what is to be pasted parses.
"""
import ast
import json
import os
import sys
import tempfile

import lib

OPTIMIZERS = {"adamw_torch": "adamw", "adamw_torch_fused": "adamw-fused", "adafactor": "adafactor", "sgd": "sgd",
              "adamw_bnb_8bit": "adamw-8bit", "paged_adamw_32bit": "adamw-paged"}


def plan(config, *options):
    return lib.result("plan", config, *options, codes=(0, 1))


def options_of(config):
    """The command's options for what is to be pasted."""
    arguments = {k.arg: ast.literal_eval(k.value) for k in ast.parse(config["training_arguments"]).body[0].value.keywords}
    statements = ast.parse(config["from_pretrained"]).body
    model = {k.arg: ast.unparse(k.value) for k in statements[0].value.keywords}
    options = ["--batch", arguments["per_device_train_batch_size"], "--accumulate", arguments["gradient_accumulation_steps"],
               "--optimizer", OPTIMIZERS[arguments["optim"]], "--attention", model["attn_implementation"].strip("'")]
    prepared = any("prepare_model_for_kbit_training" in ast.unparse(s) for s in statements[1:])
    half = model["dtype"] == "torch.bfloat16" and not prepared
    masters = "bf16" in json.loads(config["deepspeed"] or "{}")
    options += ["--precision", "bf16-master" if masters else "bf16-weights" if half and arguments["bf16"] else
                "bf16-pure" if half else "bf16-autocast" if arguments["bf16"] else "fp32"]
    assert masters <= ("deepspeed" in arguments)
    options += ["--loss", {"chunked_nll": "chunked"}[arguments["loss_type"]]] if "loss_type" in arguments else []
    options += ["--grouped"] if arguments.get("train_sampling_strategy") == "group_by_length" else []
    if "quantization_config" in model:
        assert "load_in_4bit=True" in model["quantization_config"] and "double_quant=True" in model["quantization_config"]
        options += ["--quantize", "nf4-double"]
    if any("context_fn" in ast.unparse(s) for s in statements[1:]):
        assert not arguments.get("gradient_checkpointing")
        options += ["--checkpointing=selective"]
    if arguments.get("gradient_checkpointing"):
        every = arguments["gradient_checkpointing_kwargs"].get("every_n_layers", 1)
        options += ["--checkpointing=every:%d" % every]
        if arguments["gradient_checkpointing_kwargs"].get("offload"):
            options += ["--offload-activations=checkpoints"]
    if "deepspeed" in arguments:
        offload = json.loads(config["deepspeed"])["zero_optimization"].get("offload_optimizer")
        options += ["--offload-optimizer=" + offload["device"]] if offload else []
    if config["fsdp"] and json.loads(config["fsdp"]).get("cpu_offload"):
        options += ["--parallel", "fsdp2", "--offload-params"]
    if config["peft"]:
        options += ["--lora", ast.literal_eval(ast.parse(config["peft"]).body[0].value.keywords[0].value)]
    if config["environment"]:
        options += ["--settings", config["environment"].split("=", 1)[1]]
    return options


def check(config, options):
    failed = 0
    told = plan(config, *options)
    needed, last = told["peak"]["needed_bytes"], None
    alone = [r for r in told["ladder"] if r["alone"]]
    failed += alone != told["ladder"][:len(alone)]
    for rung in alone:
        failed += not rung["fits"] or rung["saved_bytes"] != needed - rung["needed_bytes"]
    told["ladder"] = told["ladder"][len(alone):]
    longest = options[2:4] if options[2] == "--longest" else []
    assert told["fits"] is False, options
    for rung in told["ladder"]:
        if rung["saved_bytes"] != needed - rung["needed_bytes"] or rung["saved_bytes"] <= 0:
            failed += 1
            print("%s: %s saves %d" % (options, rung["rung"], rung["saved_bytes"]))
        if rung["config"]["deepspeed"]:
            json.loads(rung["config"]["deepspeed"])
        if not rung["changes_results"] or "--allow-changes" in options:
            needed, last = rung["needed_bytes"], rung
    again = plan(config, *options_of(last["config"]), *options[:2], *longest, *options[-2:])
    if again["peak"]["needed_bytes"] != last["needed_bytes"] or again["fits"] != last["fits"]:
        failed += 1
        print("%s: %s is told to need %d, and needs %d" % (options, last["rung"], last["needed_bytes"],
                                                           again["peak"]["needed_bytes"]))
    return failed, told


def frozen(config):
    """Adapters over weights in fp32: 16 bits for what is frozen come before all that is slower, and are what is pasted."""
    wrong = 0
    for precision, name in (("bf16-autocast", "frozen weights in bf16 under the adapters"),
                            ("fp32", "bf16 autocast, frozen weights in bf16")):
        options = ["--seq", 512, "--batch", 1, "--lora", 8, "--precision", precision, "--memory", "4500MiB"]
        failed, told = check(config, options)
        last = told["ladder"][-1]
        good = last["rung"] == name and last["fits"] and not last["changes_results"] and "lost" not in str(told["ladder"])
        text = lib.run("plan", config, *options, codes=(1,)).stdout
        pasted = text.split("To be pasted")[1]
        if not good:
            print("%s: %s" % (precision, [(r["rung"], r["needed_bytes"], r["fits"]) for r in told["ladder"]]))
        wrong += failed + (not good) + ("torch.bfloat16" not in pasted or "fsdp" in pasted.split("elsewhere")[0])
    return wrong


def quantized(config):
    """Where nothing is trained, weights of fewer bits are what is left."""
    options = ["--task", "generate", "--new-tokens", 4, "--memory", "2100MiB"]
    last = plan(config, *options)["ladder"][-1]
    assert "BitsAndBytesConfig(load_in_4bit=True" in last["config"]["from_pretrained"], last
    settings = last["config"]["environment"].split("=", 1)[1:] if last["config"]["environment"] else []
    again = plan(config, *options, "--quantize", "nf4-double", *(["--settings", *settings] if settings else []))
    return again["peak"]["needed_bytes"] != last["needed_bytes"] or again["fits"] != last["fits"] or not last["fits"]


def stages(config):
    """What is to be pasted for DeepSpeed shares out what was planned: the stage in its file is that of --parallel."""
    wrong = 0
    for stage in (1, 2, 3):
        told = plan(config, "--parallel", "zero%d" % stage, "--gpus", 4, "--memory", "4GiB", "--allow-changes")
        written = {json.loads(r["config"]["deepspeed"])["zero_optimization"]["stage"] for r in told["ladder"] if r["config"]["deepspeed"]}
        if written != {stage}:
            print("--parallel zero%d is pasted as stage %s" % (stage, written))
            wrong += 1
    return wrong


def own_allocator():
    """Plimsoll's own is a library more: told where it is enough and settings are not, and nowhere else."""
    wrong = 0
    model = ["--layers", 12, "--hidden", 768, "--heads", 12, "--vocab", 50257, "--batch", 8, "--seq", 1024]
    for memory, own in (("12GiB", True), ("12400MiB", False), ("11900MiB", False)):
        ladder = lib.result("plan", *model, "--memory", memory, codes=(0, 1))["ladder"]
        told = [r for r in ladder if r["rung"] == "Plimsoll's allocator"]
        good = [r["fits"] for r in told] == [True] * own and all(
            r["config"]["script"] and not r["config"]["environment"] for r in told)
        if not good:
            print("under %s Plimsoll's allocator is %s" % (memory, told))
            wrong += 1
    settings = lib.result("plan", *model, "--memory", "12GiB", "--settings", "max_split_size_mb:64", codes=(0, 1))["ladder"]
    return wrong + any(r["rung"] == "Plimsoll's allocator" for r in settings)


QWEN_7B = {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "hidden_size": 3584, "intermediate_size": 18944,
           "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064, "max_position_embeddings": 32768,
           "tie_word_embeddings": False, "torch_dtype": "bfloat16"}


def minimal(folder):
    """What another rung made needless is taken back: tensor parallelism stayed next to ZeRO-Offload, and made it dearer and larger."""
    path = os.path.join(folder, "qwen.json")
    json.dump(QWEN_7B, open(path, "w", encoding="utf-8"))
    given = ["--batch", 2, "--seq", 2048, "--gpu", "2x A100 40GB", "--parallel", "zero2"]
    told = plan(path, *given)["ladder"]
    again = plan(path, *given, "--checkpointing", "full", "--offload-optimizer", "cpu")
    wrong = ("tp_plan" in told[-1]["config"]["from_pretrained"]) + (told[-1]["needed_bytes"] > again["peak"]["needed_bytes"])
    # bitsandbytes' optimizers stop at the first step over shards of FSDP 2: never pasted, and refused where they are asked for
    for tool in ("axolotl", "llama-factory", "torchtune", "trl", "trainer"):
        for rung in plan(path, *given, "--for", tool, "--allow-changes")["ladder"]:
            pasted = str(rung["config"]["tool_config"]) + rung["config"]["training_arguments"]
            wrong += bool(rung["config"]["fsdp"]) and ("paged" in pasted or "bnb_8bit" in pasted or "bitsandbytes" in pasted)
    for optimizer in ("adamw-paged", "adamw-8bit", "paged_adamw_8bit"):
        wrong += "FSDP 2" not in lib.run("plan", path, "--parallel", "fsdp2", "--gpus", 2, "--optimizer", optimizer, codes=(2,)).stderr
    # the Trainer refuses FSDP in a process that no launcher started
    alone = plan(path, "--gpu", "RTX 4090")["ladder"][-1]["config"]
    wrong += not alone["fsdp"] or "torchrun --nproc-per-node 1" not in alone["training_arguments"]
    return wrong


def main():
    lib.start(sys.argv[1])
    failed = 0
    row = lib.rows(os.path.join(sys.argv[2], "published.jsonl"))
    row = next(r for r in row if r["name"] == "Llama-3.2-1B")
    with tempfile.TemporaryDirectory() as folder:
        config = os.path.join(folder, "config.json")
        json.dump(row["config"], open(config, "w", encoding="utf-8"))
        seq = ["--seq", 512]
        wrong, told = check(config, [*seq, "--batch", 8, "--precision", "fp32", "--attention", "eager", "--memory", "24GiB"])
        failed += wrong + (not told["ladder"][-1]["fits"])
        wrong, told = check(config, [*seq, "--batch", 4, "--memory", "2500MiB"])
        kinds = [r["changes_results"] for r in told["ladder"]]
        failed += wrong + (kinds != sorted(kinds)) + (True not in kinds)
        wrong, told = check(config, [*seq, "--batch", 4, "--allow-changes", "--memory", "9GiB"])
        failed += wrong + (not told["ladder"][-1]["fits"])
        wrong, told = check(config, [*seq, "--batch", 1, "--checkpointing", "--memory", "1GiB"])
        failed += wrong
        # A rung is measured with few of many micro-batches; pasted, it has them all.
        wrong, told = check(config, [*seq, "--batch", 4, "--accumulate", 12, "--memory", "26GiB"])
        failed += wrong + ("gradient_accumulation_steps=24" not in told["ladder"][-1]["config"]["training_arguments"])
        failed += plan(config, *seq, "--memory", "100GiB")["ladder"] != []
        # Fused optimizer and others that were climbed by and are not needed were reported as well.
        for memory, rungs in (("24GiB", ["expandable segments", "loss in chunks"]), ("26GiB", ["loss in chunks"])):
            wrong, told = check(config, [*seq, "--longest", 3000, "--memory", memory])
            failed += wrong + ([r["rung"] for r in told["ladder"]] != rungs)
        # What people do came behind a stack of seven, or not at all.
        wrong, told = check(config, [*seq, "--batch", 1, "--lora", 8, "--precision", "bf16-autocast", "--memory", "4800MiB"])
        failed += wrong
        failed += not told["ladder"][0]["fits"]
        first = plan(config, *seq, "--batch", 1, "--memory", "12000MiB")["ladder"][0]
        failed += not (first["alone"] and first["fits"])
        wrong, told = check(config, [*seq, "--longest", 3000, "--grouped", "--memory", "23GiB"])
        failed += wrong + ("group_by_length" not in told["ladder"][0]["config"]["training_arguments"])
        wrong, told = check(config, [*seq, "--batch", 2, "--allow-changes", "--host-memory", "3GiB", "--memory", "3600MiB"])
        failed += wrong + (not any("QLoRA" in r["rung"] for r in told["ladder"]))
        failed += frozen(config) + quantized(config)
        failed += stages(config)
        failed += minimal(folder)
        failed += own_allocator()
    lib.expect(not failed, "the ladder", "%d wrong" % failed)
    lib.finish("0 wrong", least=20)


main()
