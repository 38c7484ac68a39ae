#!/usr/bin/env python3
"""kinds.py PLIMSOLL DATA: every command on every kind of file does its work, or says what the file is and what reads it."""
import gzip
import json
import lzma
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

import lib

lib.start(sys.argv[1])
data = os.path.abspath(sys.argv[2])
C = "a checkpoint or another zip file"
T = "a training log"
OF_RECORDINGS = ("report", "diff", "whatif", "pack")
OF_PROFILES = ("report", "diff", "pack")
OF_CHECKPOINTS = ("ckpt verify", "ckpt show", "ckpt diff", "plan")
# name: what the file is; the command that reads it, which stands behind it without a command; others that do their work on it
KINDS = {
    "run.pickle": ("a recording of GPU memory", *OF_RECORDINGS),
    "run.pickle.gz": ("a recording of GPU memory", *OF_RECORDINGS),
    "run.pickle.xz": ("a recording of GPU memory", *OF_RECORDINGS),
    "renamed": ("a recording of GPU memory", *OF_RECORDINGS),
    "run.plim": ("a recording of GPU memory", *OF_RECORDINGS),
    "cut.pickle": ("a recording of GPU memory", *OF_RECORDINGS, "ckpt verify", "ckpt show", "ckpt diff"),  # which say that it is cut
    "page.html": ("a page that plimsoll made", None),
    "trace.json": ("profiler", *OF_PROFILES),
    "trace.json.gz": ("profiler", *OF_PROFILES),
    "timeline.json": ("profiler", *OF_PROFILES),
    "state.pt": (C, *OF_CHECKPOINTS),
    "cut.pt": (C, *OF_CHECKPOINTS),
    "model.safetensors": ("a model's weights", *OF_CHECKPOINTS),
    "model.gguf": ("a model's weights", *OF_CHECKPOINTS),
    "dcp": (C, *OF_CHECKPOINTS),
    "sharded": ("a model's weights", *OF_CHECKPOINTS),
    "trained": ("a model's weights", *OF_CHECKPOINTS, "curves"),
    "config.json": ("a model's configuration", "plan"),
    "modeldir": ("config", "plan"),
    "ds.json": ("a configuration of DeepSpeed", "plan"),
    "accelerate.yaml": ("a training run's configuration", "plan"),
    "axolotl.yaml": ("a training run's configuration", "plan"),
    "train.log": (T, "curves", "why"),
    "train.txt": (T, "curves", "why"),
    "metrics.csv": (T, "curves", "why"),
    "metrics.jsonl": (T, "curves", "why"),
    "trainer_state.json": (T, "curves"),
    "events.out.tfevents.1.vm.1.0": (T, "curves"),
    "trainings": (T, "curves", "why"),
    "oom.log": ("a log", "why"),
    "oom.txt": ("a log", "why"),
    "healthy.log": ("a log", "why"),
    "notes.txt": ("a text", "why"),
    "nvidia-smi.txt": ("what nvidia-smi printed", "why"),
    "logs": ("a log", "why"),
    "train.py": ("Python source", "lint", "doctor"),
    "notebook.ipynb": ("a notebook", "lint", "doctor"),
    "empty": ("empty", None, "lint", "doctor"),  # of Python, it is nothing wrong
    "random": ("binary data of no kind that is known here", None),
    "picture.png": ("a picture", None),
    "recordings": ("a recording of GPU memory", "report"),
    "checkpoints": ("a folder of checkpoints", "ckpt last-good"),
    "emptydir": ("a folder without files", None),
}
PIPED = ("run.pickle", "run.plim", "page.html", "trace.json", "state.pt", "config.json", "train.log", "metrics.csv", "oom.log", "nvidia-smi.txt",
         "train.py", "empty", "cut.pickle", "random", "picture.png")
NOWHERE = ("missing", "missing.pickle", "https://example.com/run.pickle", "meta-llama/Llama-3.1-8B")
COMMANDS = {
    "": "{}", "report": "report {}", "diff": "diff {} {}", "diff A": "diff run.pickle {}", "diff B": "diff {} run.pickle", "whatif": "whatif {}",
    "plan": "plan {}", "why": "why {}", "curves": "curves {}", "lint": "lint {}", "ckpt verify": "ckpt verify {}", "ckpt show": "ckpt show {}",
    "ckpt diff": "ckpt diff model.safetensors {}", "ckpt last-good": "ckpt last-good {}", "page": "page {}", "pack": "pack {} -o out/packed.plim",
    "watch": "watch {}", "record": "record {}", "doctor": "doctor {}",
}


def make(folder):
    """One file of each kind."""
    def put(name, content):
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(content if isinstance(content, bytes) else content.encode())

    def read(name):
        with open(os.path.join(data, name), "rb") as f:
            return f.read()

    recording = lzma.decompress(read("deaths/first_fwd.pickle.xz"))
    for name in ("run.pickle", "renamed", "recordings/rank0.pickle", "recordings/rank1.pickle"):
        put(name, recording)
    put("run.pickle.gz", gzip.compress(recording, 1))
    put("run.pickle.xz", read("deaths/first_fwd.pickle.xz"))
    put("cut.pickle", recording[:len(recording) // 2])
    memory = {"Device Type": 1, "Device Id": 0, "Addr": 4096, "Total Reserved": 2 << 20}
    trace = json.dumps({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA A100"}], "traceEvents": [
        {"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": 10 + i, "s": "t",
         "args": {**memory, "Bytes": (1 - i % 2 * 2) << 20, "Total Allocated": (1 - i % 2) << 20}} for i in range(8)]})
    put("trace.json", trace)
    put("trace.json.gz", gzip.compress(trace.encode()))
    put("timeline.json", json.dumps([[1, 2, 3], [[0, 100, 0, 0, 0, 0, 0, 0, 0], [0, 100, 200, 0, 0, 0, 0, 0, 0], [0, 100, 0, 0, 0, 0, 0, 0, 0]]]))
    state, weights = read("checkpoints/state_dict_cuda.pt"), read("checkpoints/model.safetensors")
    put("state.pt", state)
    put("cut.pt", state[:600])
    for name in ("model.safetensors", "sharded/model-00001-of-00001.safetensors", "checkpoints/checkpoint-1/model.safetensors",
                 "checkpoints/checkpoint-2/model.safetensors"):
        put(name, weights)
    names = json.loads(weights[8:8 + struct.unpack("<Q", weights[:8])[0]])
    put("sharded/model.safetensors.index.json", json.dumps({"weight_map": {k: "model-00001-of-00001.safetensors" for k in names if k != "__metadata__"}}))
    header = b"GGUF" + struct.pack("<IQQQ", 3, 1, 1, 20) + b"general.architecture" + struct.pack("<IQ", 8, 5) + b"llama"
    header += struct.pack("<Q", 1) + b"w" + struct.pack("<IQIQ", 1, 32, 0, 0)
    put("model.gguf", header + bytes(-len(header) % 32) + bytes(128))
    shutil.copytree(os.path.join(data, "checkpoints/more/dcp2"), os.path.join(folder, "dcp"))
    shutil.copytree(os.path.join(data, "checkpoints/hf"), os.path.join(folder, "trained"))
    shutil.copytree(os.path.join(data, "logs"), os.path.join(folder, "trainings"))
    model = json.dumps({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "vocab_size": 1000,
                        "num_hidden_layers": 2, "num_attention_heads": 4}, indent=1)
    put("config.json", model)
    put("modeldir/config.json", model)
    put("ds.json", json.dumps({"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3}, "bf16": {"enabled": True}}))
    put("accelerate.yaml", "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 8\n")
    put("axolotl.yaml", "base_model: meta-llama/Llama-3.1-8B\nadapter: lora\nlora_r: 16\nmicro_batch_size: 2\nsequence_len: 2048\n")
    losses = [4 / (1 + i * .01) for i in range(200)]
    for name in ("train.log", "train.txt"):
        put(name, "".join(f"step {i} loss={loss:.4f} lr=3e-4\n" for i, loss in enumerate(losses)))
    put("metrics.jsonl", "".join(json.dumps({"step": i, "loss": loss}) + "\n" for i, loss in enumerate(losses)))
    put("metrics.csv", read("logs/lightning/metrics.csv"))
    put("trainer_state.json", read("logs/hf_trainer/trainer_state.json"))
    put("events.out.tfevents.1.vm.1.0", read("logs/tb_overfit/events.out.tfevents.1795218071.vm.1964.0"))
    for name in ("oom.log", "oom.txt", "logs/rank0.log"):
        put(name, read("oom/oom_batch.txt"))
    put("healthy.log", "2026-01-01 10:00:00 INFO server: listening on port 8080\n2026-01-01 10:00:01 INFO server: ready\n" * 50)
    line, wide = "+" + "-" * 89 + "+\n", "| {:<87} |\n".format
    put("nvidia-smi.txt", "Sun Nov 29 03:37:29 2026\n" + line + wide("NVIDIA-SMI 550.54.15   Driver Version: 550.54.15   CUDA Version: 12.4") + line +
        wide("  0  NVIDIA A100-SXM4-80GB          On  |   00000000:07:00.0 Off |                    0") +
        wide("N/A   34C    P0     65W /  400W |   75000MiB /  81920MiB |      0%      Default") + line)
    put("train.py", "import torch\nlosses = []\nmodel = torch.nn.Linear(4, 4).cuda()\n"
                    "for i in range(100):\n    losses.append(model(torch.randn(4, 4).cuda()).sum())\n")
    put("notebook.ipynb", json.dumps({"cells": [{"cell_type": "code", "metadata": {}, "outputs": [], "source": ["import torch\n"]}], "metadata": {},
                                      "nbformat": 4, "nbformat_minor": 5}))
    put("notes.txt", "Buy more GPUs, and read the manual.\nThen train again, with a larger batch.\n")
    put("empty", b"")
    put("random", b"\xa5" + bytes(i * i * 7919 % 251 for i in range(1, 4096)))
    put("picture.png", b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sIIBBBBB", 13, b"IHDR", 1, 1, 8, 0, 0, 0, 0) + bytes(50))
    os.makedirs(os.path.join(folder, "emptydir"))
    os.makedirs(os.path.join(folder, "out"))
    lib.expect(not typed(folder, "pack run.pickle -o run.plim")[0], "run.plim")
    lib.expect(not typed(folder, "report run.pickle -o page.html")[0], "page.html")


def typed(folder, line, given=None):
    """Exit code and all output of a command line, with its white space made single."""
    env = {**os.environ, "NO_COLOR": "1", "PLIMSOLL_PROGRESS": "0"}
    with open(os.path.join(folder, given) if given else os.devnull, "rb") as stdin:
        r = subprocess.run([lib.program, *line.split()], cwd=folder, env=env, stdin=stdin, capture_output=True, timeout=60)
    return r.returncode, re.sub(r"\s+", " ", (r.stdout + b" " + r.stderr).decode(errors="replace"))


def is_excused(base, name, what, reader, said):
    """What is right without naming the kind and the command."""
    if base.startswith("ckpt") and name.endswith(".gz"):
        return "compressed with gzip" in said  # which these do not read
    if what == "a text":
        return base in ("lint", "doctor", "curves") or base.startswith("ckpt")  # anything may be in it
    if name == "recordings":
        return f"'{name}' is a folder: give a file in it" in said
    if name == "empty":
        return base in ("watch", "record", "page")
    return (base == "record" and reader == "lint") or (name == "emptydir" and base)  # a command line is proposed; nothing is in it


def works(where, file, reader, code, said):
    """It does its work, or says by the file's name why it cannot."""
    lib.expect(code in (0, 1, 3, 4) and len(said) > 3, where, code, said[:300])
    if code > 1:
        named = (f"'{file}'", f"{file}:", "standard input", "/dev/stdin")
        lib.expect(any(name in said for name in named), where, code, said[:300])
    lib.expect(not reader or f"plimsoll: {reader} {file}" in said, where, "does not name", reader, said[:300])


def judge(folder, command, name, piped):
    what, reader, *others = KINDS[name]
    file = "-" if piped else name
    line = COMMANDS[command].format(*[file] * 2)
    where = line + (f" < {name}" if piped else "")
    code, said = typed(folder, line, name if piped else None)
    base = "diff" if command.startswith("diff") else command
    if base in (reader, *others) or (not base and reader):
        works(where, file, None if base else reader, code, said)
    elif piped and base in ("watch", "record", "doctor", "ckpt last-good"):
        lib.expect(code and "'-'" in said, where, code, said[:300])
    elif base == "lint" and os.path.isdir(os.path.join(folder, name)):
        lib.expect(f"no Python file in '{name}'" in said, where, code, said[:300])
    else:
        lib.expect(code, where, "is not refused", said[:300])
        if is_excused(base, name, what, reader, said):
            return
        lib.expect(what in said or (what == "profiler" and "Python" in said), where, "does not say that it is", what, said[:300])
        lib.expect(not reader or f"plimsoll {reader}" in said, where, "does not name", reader, said[:300])
        lib.expect(not re.search(r" at byte |magic|begins with [0-9a-f]{2} ", said), where, "speaks of bytes", said[:300])


def judge_nowhere(folder, command, name):
    line = COMMANDS[command].format(name, name)
    code, said = typed(folder, line)
    lib.expect(code > 1 and name in said and len(said) < 400, line, code, said[:300])


def main(folder):
    make(folder)
    pairs = [(judge, c, name, False) for c in COMMANDS for name in KINDS]
    pairs += [(judge, c, name, True) for c in COMMANDS if c != "diff" for name in PIPED]
    pairs += [(judge_nowhere, c, name) for c in COMMANDS for name in NOWHERE]
    lib.jobs(lambda p: p[0](folder, *p[1:]), pairs)
    print(f"{len(pairs)} pairs of a command and a file")


with tempfile.TemporaryDirectory() as where:
    main(where)
lib.finish("kinds of files", least=0)
