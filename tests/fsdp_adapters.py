#!/usr/bin/env python3
"""fsdp_adapters.py PLIMSOLL DATA: FSDP with LoRA on two GPUs, as plan has it and as it was measured.

DATA/fsdp_adapters.jsonl has a run a row: its options, the changes to the configuration, the measured peak and, if bitsandbytes'
weights were imitated by codes alone (packed 16 bits), the elements whose scales the run did not have.
"""
import json
import os
import sys

import lib

program, data = sys.argv[1:3]
lib.start(program)
with open(os.path.join(data, "fsdp_adapters.jsonl"), encoding="utf-8") as f:
    rows = [json.loads(line) for line in f]
shape = rows.pop(0)
for row in rows:
    plan = lib.planned({**shape, **row["changes"]}, *row["options"].split())
    off = (plan["peak"]["allocated_bytes"] - row["without_scales"] / 64 * 4) / row["bytes"] - 1
    lib.expect(row["below"] <= off <= row["above"], f"{row['options']}, {row['changes']}: {off:+.2%}", plan["peak"])
lib.finish("runs of FSDP with adapters planned")
