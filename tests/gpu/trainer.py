#!/usr/bin/env python3
"""trainer.py ROWS [NAME]: three steps of the Trainer for each row of tests/data/trainer.jsonl on a GPU; prints the row with what was measured.

Needs PyTorch with CUDA and Transformers.  Each run has a process of its own; weights are random, samples are token ids.
"""
import json
import subprocess
import sys
import tempfile

rows = {row["name"]: row for row in map(json.loads, open(sys.argv[1], encoding="utf-8"))}
if len(sys.argv) < 3:
    for name in rows:
        done = subprocess.run([sys.executable, __file__, sys.argv[1], name], capture_output=True, text=True, check=False)
        print(done.stdout.strip().splitlines()[-1] if done.returncode == 0 else f"{name}: {done.stderr.strip().splitlines()[-1]}", flush=True)
    sys.exit()

import torch  # noqa: E402
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM, Trainer, TrainingArguments  # noqa: E402

row = rows[sys.argv[2]]
option = dict(zip(row["options"], row["options"][1:] + [""]))
batch, length = int(option["--batch"]), int(option["--seq"])
with tempfile.TemporaryDirectory() as folder:
    with open(folder + "/config.json", "w", encoding="utf-8") as f:
        json.dump(row["config"], f)
    of = AutoModelForMaskedLM if "MaskedLM" in row["config"]["architectures"][0] else AutoModelForCausalLM
    model = of.from_config(AutoConfig.from_pretrained(folder), dtype=torch.bfloat16 if option["--precision"] == "bf16-pure" else torch.float32,
                           **({"attn_implementation": option["--attention"]} if "--attention" in option else {}))
    random = torch.Generator().manual_seed(0)
    ids = [torch.randint(5, row["config"]["vocab_size"] - 5, (length,), generator=random) for _ in range(3 * batch)]
    arguments = TrainingArguments(output_dir=folder, per_device_train_batch_size=batch, max_steps=3, bf16=option["--precision"] == "bf16-autocast",
                                  gradient_checkpointing="--checkpointing" in option, save_strategy="no", logging_strategy="no", report_to=[], disable_tqdm=True)
    Trainer(model=model, args=arguments, train_dataset=[{"input_ids": i, "labels": i.clone()} for i in ids]).train()
stats = torch.cuda.memory_stats()
print(json.dumps(dict(row, allocated_mib=round(stats["allocated_bytes.all.peak"] / 2**20, 1), reserved_mib=stats["reserved_bytes.all.peak"] >> 20)))
