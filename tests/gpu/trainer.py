#!/usr/bin/env python3
"""trainer.py ROWS [NAME]: three steps of the Trainer for each row of tests/data/trainer.jsonl on a GPU; prints the row with what was measured.

Needs PyTorch with CUDA and Transformers.  Each run has a process of its own; weights are random, samples are token ids
with themselves, or a class, as labels, or images of noise.
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
import transformers  # noqa: E402

row = rows[sys.argv[2]]
config, option = row["config"], dict(zip(row["options"], row["options"][1:] + [""]))
name, batch = config["architectures"][0], int(option["--batch"])
random = torch.Generator().manual_seed(0)


def sample():
    label = int(torch.randint(0, 2, (1,), generator=random))
    if "Image" in name:
        return {"pixel_values": torch.randn(3, config["image_size"], config["image_size"], generator=random), "labels": label}
    ids = torch.randint(5, config["vocab_size"] - 5, (int(option["--seq"]),), generator=random)
    return {"input_ids": ids, "labels": label if "Sequence" in name else ids.clone()}


with tempfile.TemporaryDirectory() as folder:
    with open(folder + "/config.json", "w", encoding="utf-8") as f:
        json.dump(config, f)
    model = getattr(transformers, name)._from_config(
        transformers.AutoConfig.from_pretrained(folder), dtype=torch.bfloat16 if option["--precision"] == "bf16-pure" else torch.float32,
        **({"attn_implementation": option["--attention"]} if "--attention" in option else {}))
    arguments = transformers.TrainingArguments(
        output_dir=folder, per_device_train_batch_size=batch, max_steps=3, bf16=option["--precision"] == "bf16-autocast", fp16=option["--precision"] == "fp16-autocast",
        gradient_checkpointing="--checkpointing" in option, save_strategy="no", logging_strategy="no", report_to=[], disable_tqdm=True)
    transformers.Trainer(model=model, args=arguments, train_dataset=[sample() for _ in range(3 * batch)]).train()
stats = torch.cuda.memory_stats()
print(json.dumps(dict(row, allocated_mib=round(stats["allocated_bytes.all.peak"] / 2**20, 1), reserved_mib=stats["reserved_bytes.all.peak"] >> 20)))
