#!/usr/bin/env python3
"""saves.py [FOLDER]: what saving 4 GB costs a loop of steps on a GPU, and what loading takes; exit 77 without one.

A loop of --steps steps with one save, next to the same loop without, in turn, --pairs times; FOLDER is on the disk to be saved
to.  The anchors are what that disk takes, written and synced, and torch.load with load_state_dict() out of /dev/shm.
"""
import argparse
import os
import shutil
import sys
import tempfile
import time

import torch
from torch import nn

from plimsoll.checkpoint._load import Compared, read
from plimsoll.checkpoint import Checkpointer

WIDTH, BLOCKS = 2048, 10


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Job:
    def __init__(self, step_s):
        self.model = nn.Sequential(*[Block() for _ in range(BLOCKS)]).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)
        self.x = torch.randn(2048, WIDTH, device="cuda")
        self.bytes, self.passes = 3 * sum(4 * p.numel() for p in self.model.parameters()), 1
        self.run(5)
        self.passes = max(1, round(step_s / (timed(lambda: self.run(5)) / 5)))
        self.run(5)
        self.step_s = timed(lambda: self.run(10)) / 10

    def run(self, steps, save=lambda: None):
        for i in range(steps):
            for _ in range(self.passes):
                with torch.autocast("cuda", torch.bfloat16):
                    self.model(self.x).float().square().mean().backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            if i % 2:
                torch.cuda.current_stream().synchronize()
            if i == 3:
                save()


def timed(work):
    torch.cuda.synchronize()
    began = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - began


def disk_rate(folder):
    path, data = os.path.join(folder, "probe"), memoryview(bytearray(1 << 26))
    began = time.perf_counter()
    with open(path, "wb", buffering=0) as f:
        for _ in range(8):
            f.write(data)
        os.fsync(f.fileno())
    took = time.perf_counter() - began
    os.unlink(path)
    return 8 * len(data) / took / 1e9


def loops(job, checkpointer, pairs, steps):
    off = on = 0.0
    for pair in range(pairs):
        saved, took = [], {}

        def save(step=pair + 2):
            began = time.perf_counter()
            saved.append(checkpointer.save(step, model=job.model, optimizer=job.optimizer))
            saved.append(time.perf_counter() - began)

        for what in ((None, save) if pair % 2 == 0 else (save, None)):
            took[what] = timed(lambda what=what: job.run(steps, what or (lambda: None)))
        saved[0].result()
        print(f"{steps} steps without {took[None]:.3f} s, with a save {took[save]:.3f} s: {took[save] - took[None]:+.3f} s; the call "
              f"{saved[1] * 1e3:.1f} ms, of these {saved[0].waited_s * 1e3:.1f} for memory; durable {saved[0].durable_s:.1f} s after", flush=True)
        off, on = off + took[None], on + took[save]
    print(f"{on / off:.4f} times the loop without; 10 saves in 1,000 steps of {job.step_s * 1e3:.0f} ms: "
          f"{1 + (on - off) / pairs / (100 * job.step_s):.4f}", flush=True)


def loads(job, checkpointer, folder):
    at = os.path.realpath(os.path.join(folder, "ckpts", "latest"))

    def unverified():
        read(Compared(at, 0, 1, job.model, {"": job.optimizer}, {}, (), None), True, [])

    cold, warm = timed(unverified), timed(unverified)
    whole = timed(lambda: checkpointer.load(model=job.model, optimizer=job.optimizer))
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as f:
        torch.save({"model": job.model.state_dict(), "optimizer": job.optimizer.state_dict()}, f.name)

        def theirs():
            state = torch.load(f.name, map_location="cpu", weights_only=True)
            job.model.load_state_dict(state["model"])
            job.optimizer.load_state_dict(state["optimizer"])

        anchor = timed(theirs)
    print(f"load(): {whole:.2f} s with every byte verified; what follows the verification {warm:.2f} s ({job.bytes / warm / 1e9:.1f} GB/s), "
          f"off the disk {cold:.2f}; torch.load and load_state_dict() {anchor:.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--step-ms", type=float, default=75, help="about: a whole number of forward and backward passes")
    given = parser.parse_args()
    if not torch.cuda.is_available():
        print("SKIPPED: no GPU", file=sys.stderr)
        return 77
    folder = tempfile.mkdtemp(prefix="plimsoll-saves", dir=given.folder)
    try:
        job = Job(given.step_ms / 1e3)
        print(f"{job.bytes / 1e9:.2f} GB, steps of {job.step_s * 1e3:.1f} ms; the disk takes {disk_rate(folder):.2f} GB/s", flush=True)
        with Checkpointer(os.path.join(folder, "ckpts"), keep_last=1) as checkpointer:
            began = time.perf_counter()
            checkpointer.prepare(model=job.model, optimizer=job.optimizer)
            first = checkpointer.save(1, model=job.model, optimizer=job.optimizer)
            print(f"the first save(), straight after prepare(): {time.perf_counter() - began:.2f} s", flush=True)
            first.result()
            loops(job, checkpointer, given.pairs, given.steps)
            loads(job, checkpointer, folder)
    finally:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
