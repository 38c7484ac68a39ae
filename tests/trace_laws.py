#!/usr/bin/env python3
"""trace_laws.py PLIMSOLL: two traces of a made-up program become one with a law for each request; sweeps and the largest
batch follow from it.  Needs neither PyTorch nor a GPU."""
import gzip
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
from plimsoll.tracing import laws  # noqa: E402
from plimsoll.tracing.packed import CATEGORIES, Trace  # noqa: E402

MIB = 1 << 20
plimsoll = sys.argv[1]
failures = []


def check(what, got, expected):
    if got != expected:
        failures.append(f"{what}: {got!r}, not {expected!r}")


def traced(batch, sorts_from=10**9, extra=0):
    """A weight of 64 MiB, an activation of 8 MiB a sample, and a sort that only large batches need."""
    t = Trace(model="made", batch=batch, sequence=16, torch="2.13.0", way="by hand", phases=["load", "fwd0"], places=["", "net"],
              operators=["", "mm", "sort"], parameters=16 * MIB, trainable=16 * MIB)

    def birth(size, category, operator=1):
        t.events.append(size)
        t.place.append(1)
        t.operator.append(operator)
        t.category.append(CATEGORIES.index(category))
        return len(t.category) - 1
    birth(64 * MIB, "parameter")
    t.events.append(0)
    activation = birth(8 * MIB * batch, "activation")
    if batch >= sorts_from:
        t.events.append(-birth(4 * MIB * batch, "workspace", 2) - 1)
    for _ in range(extra):
        birth(512, "activation")
    t.events += [-activation - 1, 0]
    return t


def plan(trace, folder, *arguments):
    path = os.path.join(folder, "made.json.gz")
    trace.write(path)
    out = subprocess.run([plimsoll, "plan", "--json", path, *arguments], capture_output=True, text=True)
    return json.loads(out.stdout) if out.stdout else out.stderr


# Stands in for Python with PyTorch: what plan --trace runs.  A weight, and activations by batch and recipe.
TRACER = """
import argparse, sys
sys.path.insert(0, {python!r})
from plimsoll.tracing import laws
from plimsoll.tracing.packed import CATEGORIES, Trace
words = sys.argv[sys.argv.index("-o"):]
p = argparse.ArgumentParser()
p.add_argument("model")
for name, kind, unset in (("-o", str, ""), ("--batch", int, 1), ("--seq", int, 16), ("--accumulate", int, 1), ("--lora", int, 0), ("--steps", int, 2),
                          ("--precision", str, "bf16-autocast"), ("--optimizer", str, "adamw"), ("--checkpointing", str, "none"),
                          ("--task", str, "train"), ("--attention", str, "sdpa"), ("--gpu", str, ""), ("--grown", int, 0), ("--longer", str, "")):
    p.add_argument(name, type=kind, default=unset)
a = p.parse_args(words)
with open(a.model + ".log", "a") as f:
    f.write(f"{{a.batch}} {{a.accumulate}} {{a.checkpointing}} {{a.optimizer}} {{a.precision}} {{a.lora}} {{a.seq}}\\n")
if a.lora or a.optimizer == "adafactor" or a.precision == "bf16-pure":
    sys.stderr.write("plimsoll: the trace stopped: not here\\n")
    sys.exit(4)

def made(seq, batch=a.batch):
    t = Trace(model="made", batch=batch, sequence=seq, task=a.task, torch="2.13.0", transformers="5.23.0", way="by hand", phases=["load", "fwd0"],
              places=["", "net"], operators=["", "mm"], parameters=1 << 24, trainable=1 << 24, positions=4096,
              asked=[f"{{n}}={{getattr(a, n) if n != 'batch' else batch}}" for n in ("batch", "seq", "precision", "steps", "task", "optimizer", "checkpointing", "accumulate", "attention")])
    each = (8 << 20 if a.checkpointing == "none" else 2 << 20) * seq // 16
    each -= (1 << 20) * (batch == 1 and seq in (16, 48))  # of one sample less is copied
    each += (1 << 20) * (batch >= 20)               # from 20 on a kernel takes more
    scores = 0 if seq <= 16 else batch * seq * seq * 16
    for size, category in ((64 << 20, "parameter"), (each * batch, "activation"), (max(scores, 1), "activation")):
        t.events += [size]
        t.place.append(1)
        t.operator.append(1)
        t.category.append(CATEGORIES.index(category))
        t.events += [0] * (category == "parameter")
    t.events += [0]
    return t


t = made(a.seq, max(a.batch, 2) if a.grown else a.batch)
if a.grown:
    with open(a.model + ".log", "a") as f:
        f.write(f"grown {{a.grown}}\\n")
    why = laws.grow(t, made(a.seq, max(a.grown, 4) if a.grown < 3 else a.grown))
    assert not why, why
if a.longer:
    from plimsoll.tracing.__main__ import _lengths
    others = _lengths(a.longer, a.seq, t.positions)
    with open(a.model + ".log", "a") as f:
        f.write(f"{{others}}\\n")
    why = laws.lengthen(t, *(made(n) for n in others))
    assert not why, why
t.write(a.o)
"""


def rungs(folder):
    """What does not fit is traced again with what PyTorch can be asked for, and with nothing else."""
    tracer, python = os.path.join(folder, "tracer.py"), os.path.join(folder, "python3")
    with open(tracer, "w") as f:
        f.write(TRACER.format(python=sys.path[0]))
    with open(python, "w") as f:
        f.write('#!/bin/sh\nexec "$REAL_PYTHON" -B "$TRACER" "$@"\n')
    os.chmod(python, 0o755)
    model = os.path.join(folder, "model")
    environment = {**os.environ, "PATH": folder + os.pathsep + os.environ["PATH"], "REAL_PYTHON": sys.executable, "TRACER": tracer}

    def run(*arguments):
        if os.path.exists(model + ".log"):
            os.unlink(model + ".log")
        out = subprocess.run([plimsoll, "plan", "--json", "--trace", model, *arguments], capture_output=True, text=True, env=environment)
        with open(model + ".log") as f:
            return out, json.loads(out.stdout), f.read().splitlines()
    out, p, log = run("--batch", "9", "--memory", "100MiB")
    names = [row["rung"] for row in p["ladder"]]
    check("rungs that are traced", names, ["checkpoint every layer"])
    row = p["ladder"][0]
    check("... by itself", (row["needed_bytes"] < 100 * MIB, row["fits"]), (True, True))
    check("... to be pasted", "gradient_checkpointing=True" in row["config"]["training_arguments"], True)
    check("... nothing else is", [line for line in log if line.split()[2:3] == ["full"]], ["9 1 full adamw bf16-autocast 0 16"])
    check("... nothing is said of it", out.stderr, "")
    out, p, log = run("--batch", "8", "--memory", "110MiB")
    check("half the batch, twice as often", (p["ladder"][0]["rung"], p["ladder"][0]["fits"]), ("micro-batch 4, accumulation 2", True))
    out, p, log = run("--batch", "9", "--memory", "70MiB")
    check("what cannot be traced is no rung", [r["rung"] for r in p["ladder"] if "LoRA" in r["rung"] or "bf16" in r["rung"]], [])
    check("... each is tried once", len(log), len(set(log)))
    out, p, log = run("--batch", "9", "--memory", "4GiB")
    check("what fits is traced once", (out.returncode, log), (0, ["9 1 none adamw bf16-autocast 0 16"]))
    out, p, log = run("--batch", "1", "--seq", "64", "--memory", "900MiB", "--max-seq")
    # 64 MiB, half a MiB and 16 bytes times the sequence for each token, 5 % more at most, in whole 64s
    fits = max(n for n in range(64, 4097, 64) if (64 * MIB + n * (8 * MIB // 16) + 16 * n * n) * 1.05 + 2 * MIB <= 900 * MIB)
    check("the longest sequence", abs(p["max_sequence"] - fits) <= 64, True)
    check("... was traced itself", str(p["max_sequence"]) in log[-1], True)
    out, p, log = run("--batch", "1", "--seq", "64", "--memory", "100GiB", "--max-seq")
    check("no longer than its positions", p["max_sequence"], 4096)
    out, p, log = run("--batch", "1", "--seq", "64", "--sweep", "seq=32,128,256,1024")
    check("a sweep of sequences", [row["allocated_bytes"] for row in p["sweep"]],
          [64 * MIB + n * (8 * MIB // 16) + 16 * n * n for n in (32, 128, 256, 1024)])
    out, p, log = run("--sweep", "batch=1,3,8", "--memory", "300MiB")
    check("a batch beside the line is traced itself", [(row["allocated_bytes"] // MIB, row["fits"]) for row in p["sweep"]],
          [(71, True), (88, True), (128, True)])
    check("... and nothing else is", log[1:], ["grown 8", "1 1 none adamw bf16-autocast 0 16"])
    for memory in (300, 72, 40):
        out, p, log = run("--max-batch", "--memory", f"{memory}MiB")
        needs = {n: 64 + (7 if n == 1 else 8 if n < 20 else 9) * n for n in range(1, 40)}
        fits = max((n for n in needs if needs[n] * 1.05 + 2 <= memory), default=0)
        check(f"the largest batch in {memory} MiB, where no line goes through all", p["max_batch"], fits)
        check("... was traced itself", not fits or f"grown {fits}" in log or any(line.startswith(f"{fits} 1 none") for line in log), True)
    out, p, log = run("--max-batch", "--seq", "48", "--memory", "100MiB")  # 64 and 23 MiB, with two samples 64 and 48
    check("one sample alone is traced", (p["max_batch"], log[-1].split()[0]), (1, "1"))
    out = subprocess.run([plimsoll, "plan", "--trace", model, "--max-seq", "--max-batch"], capture_output=True, text=True, env=environment)
    check("one of them", "not both at once" in " ".join(out.stderr.split()), True)
    kept = os.path.join(folder, "kept.json.gz")
    subprocess.run([plimsoll, "plan", "--trace", model, "--batch", "9", "-o", kept], env=environment, check=True, capture_output=True)
    out = subprocess.run([plimsoll, "plan", kept, "--memory", "100MiB"], capture_output=True, text=True)
    words = " ".join(out.stdout.split())
    check("a kept trace says why", ("plan --trace traces others" in words, "checkpoint" in words), (True, False))


def main():
    with tempfile.TemporaryDirectory() as folder:
        rungs(folder)
    with tempfile.TemporaryDirectory() as folder:
        t = traced(2)
        check("two batches meet", laws.grow(t, traced(4)), "")
        check("bytes with four", t.grown, [64 * MIB, 32 * MIB])
        p = plan(t, folder, "--sweep", "batch=1,2,4,32", "--memory", "300MiB", "--max-batch")
        check("sweep", [row["allocated_bytes"] for row in p["sweep"]], [(64 + 8 * n) * MIB for n in (1, 2, 4, 32)])
        # the range's upper end (5 %) must be under 300 MiB
        fits = next(n for n in range(40, 0, -1) if (64 + 8 * n) * 1.05 <= 300)
        # verdicts on batches beyond those that were traced were given from the line alone
        check("... of what was traced alone", [row["fits"] for row in p["sweep"]], [None, True, True, None])
        check("the largest batch on a line that ends before it", (p["max_batch"], p["max_batch_range"]["low"]), (None, fits))
        check("... which is said", [a for a in p["assumptions"] if "no verdict on a batch" in a][:1],
              ["no verdict on a batch that is not between those that were traced (2 and 4): numbers of it are on their line"])
        t = traced(2)
        laws.grow(t, traced(64))
        p = plan(t, folder, "--sweep", "batch=4,32", "--memory", "300MiB", "--max-batch")
        check("largest batch", (p["max_batch"], [row["fits"] for row in p["sweep"]]), (fits, [True, False]))
        t = traced(2, sorts_from=3)
        check("a sort in one alone", laws.grow(t, traced(4, sorts_from=3)), "")
        p = plan(t, folder, "--sweep", "batch=2,4")
        check("... is in that one", [row["allocated_bytes"] // MIB for row in p["sweep"]], [80, 112])
        check("what differs is said", "its requests depend on the batch" in laws.grow(traced(2), traced(4, extra=1)), True)
        check("one sequence alone", "trace it again with --max-seq" in " ".join(plan(traced(2), folder, "--sweep", "seq=8,16").split()), True)
        check("one batch alone", "trace it again with --max-batch" in plan(traced(2), folder, "--sweep", "batch=1,2"), True)
        t = traced(2)
        laws.grow(t, traced(4))
        for broken in ({"grown": t.grown[:1]}, {"grown_batch": 2}, {"grown_batch": 0}, {"grown": [1 << 60, 1]}, {"sequences": [32, 64]},
                       {"sequences": [16, 32], "longer": [1, 1], "longest": [1, 1]}, {"longer": [1, 1]}):
            path = os.path.join(folder, "broken.json.gz")
            with gzip.open(path, "wt") as f:
                json.dump({**t.to_json(), **broken}, f, separators=(",", ":"))
            out = subprocess.run([plimsoll, "plan", path], capture_output=True, text=True)
            check(f"broken {list(broken)}", (out.returncode, "is not a trace of plan --trace" in " ".join(out.stderr.split())), (3, True))
    print("\n".join(failures) or "laws of traces: ok")
    return bool(failures)


sys.exit(main())
