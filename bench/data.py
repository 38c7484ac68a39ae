#!/usr/bin/env python3
"""data.py [--samples N] [--seconds S] [--folder DIR] [--json FILE]: samples per second out of a SampleCache and out of torch's DataLoader, on the same samples.

Samples are of 3 x 224 x 224 uint8 with a label, 150,536 bytes.  Each row is measured for S seconds after a first batch, in turn with
the others.  With a GPU: copied there too, and normalised; each batch of an epoch is compared with what was put.
"""
import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time

import torch

from plimsoll.data import SampleCache

SHAPE = (3, 224, 224)
BATCH = 256
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Pictures:
    """Made of their number: a row of random bytes, turned by it."""

    def __init__(self, samples):
        self.samples = samples
        self.base = torch.randint(0, 256, (SHAPE[0] * SHAPE[1] * SHAPE[2],), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))

    def __len__(self):
        return self.samples

    def __getitem__(self, i):
        if not 0 <= i < self.samples:
            raise IndexError(i)
        return self.base.roll(i).view(SHAPE), i


class Mapped(torch.utils.data.Dataset):
    """The same in one flat file that is mapped: what people write by hand."""

    def __init__(self, path, samples):
        self.path, self.samples, self.rows = path, samples, None

    def __len__(self):
        return self.samples

    def __getitem__(self, i):
        if self.rows is None:
            size = SHAPE[0] * SHAPE[1] * SHAPE[2]
            self.rows = torch.from_file(self.path, shared=False, size=size * self.samples, dtype=torch.uint8).view(self.samples, *SHAPE)
        return self.rows[i], i


def rate(batches, seconds, then=lambda batch: None):
    """Samples a second after the first batch, and the share of the time that the loop waited for batches."""
    count, waited, began, at_all = 0, 0.0, None, time.perf_counter()
    while began is None or time.perf_counter() - began < seconds:
        source = iter(batches)
        while True:
            asked = time.perf_counter()
            batch = next(source, None)
            now = time.perf_counter()
            if batch is None:
                break
            if began is not None:
                count += len(batch[1])
                waited += now - asked
            then(batch)
            if began is None:
                if torch.cuda.is_available():
                    torch.cuda.synchronize()
                began = time.perf_counter()
            elif now - began > seconds:
                break
        del source
        if time.perf_counter() - at_all > 20 * seconds:
            break
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    took = time.perf_counter() - began
    return count / took, waited / took


def loader(folder, samples, workers, **more):
    return torch.utils.data.DataLoader(Mapped(os.path.join(folder, "flat"), samples), batch_size=BATCH, shuffle=True, num_workers=workers,
                                       persistent_workers=workers > 0, drop_last=True, **more)


def to_gpu(batch):
    x = batch[0].to("cuda", non_blocking=True)
    return x


def normalised(batch):
    x = to_gpu(batch).float().div_(255)
    return x.sub_(normalised.mean).div_(normalised.std)


def step(batch):
    """A step of 3 ms, and a loop that waits for it: 85,000 samples per second are wanted."""
    torch.cuda._sleep(step.cycles)
    torch.cuda.synchronize()


def measure_step():
    step.cycles = 1 << 20
    for _ in range(2):
        torch.cuda.synchronize()
        began = time.perf_counter()
        step(None)
        step.cycles = int(step.cycles * 0.003 / (time.perf_counter() - began))


def make(folder, samples, fill_workers):
    source = Pictures(samples)
    flat = os.path.join(folder, "flat")
    with open(flat, "wb") as f:
        for i in range(samples):
            f.write(source[i][0].numpy().data)
    began = time.perf_counter()
    cache = SampleCache(source, os.path.join(folder, "samples"), workers=fill_workers)
    print(f"filled {samples} samples with {fill_workers} processes beside this one in {time.perf_counter() - began:.1f} s", flush=True)
    began = time.perf_counter()
    again = SampleCache(source, os.path.join(folder, "samples"))
    print(f"opened it again, 32 samples made anew, in {time.perf_counter() - began:.3f} s", flush=True)
    return source, cache, again


def compare(source, cache):
    """An epoch on the GPU, each sample there what was put."""
    base, seen = source.base.cuda(), set()
    for x, y in cache.batches(BATCH, shuffle=3, device="cuda", threads=4):
        for row, i in zip(x, y.tolist()):
            assert torch.equal(row.view(-1), base.roll(i)), i
            seen.add(i)
    assert len(seen) == len(cache)
    print(f"compared: {len(seen)} samples on the GPU, bit for bit", flush=True)


def anchor():
    size = 1 << 28
    a, b = torch.empty(size, dtype=torch.uint8, pin_memory=True), torch.empty(size, dtype=torch.uint8, device="cuda")
    best = 0.0
    for _ in range(6):
        torch.cuda.synchronize()
        began = time.perf_counter()
        b.copy_(a, non_blocking=True)
        torch.cuda.synchronize()
        best = max(best, size / (time.perf_counter() - began) / 1e9)
    print(f"anchor: a page-locked copy to the GPU runs at {best:.1f} GB/s", flush=True)
    return best


def rows_of(folder, samples, cache, workers, threads):
    """What is measured: name and a function of the seconds."""
    rows = []
    for n in threads:
        rows.append((f"SampleCache, {n} threads",
                     lambda s, n=n: rate(cache.batches(BATCH, shuffle=0, threads=n, ahead=4, drop_last=True), s)))
    for n in workers:
        rows.append((f"DataLoader, {n} workers", lambda s, n=n: rate(loader(folder, samples, n), s)))
    if torch.cuda.is_available():
        normalised.mean, normalised.std = (torch.tensor(x, device="cuda").view(1, 3, 1, 1) for x in (MEAN, STD))
        for n in threads:
            rows.append((f"SampleCache, {n} threads, to the GPU",
                         lambda s, n=n: rate(cache.batches(BATCH, shuffle=0, threads=n, ahead=4, drop_last=True, device="cuda"), s)))
        rows.append(("SampleCache, 4 threads, to the GPU, normalised",
                     lambda s: rate(cache.batches(BATCH, shuffle=0, ahead=4, drop_last=True, device="cuda", normalize=(MEAN, STD)), s)))
        measure_step()
        rows.append(("SampleCache, 4 threads, to the GPU, beside steps of 3 ms",
                     lambda s: rate(cache.batches(BATCH, shuffle=0, ahead=4, drop_last=True, device="cuda"), s, step)))
        for n in workers:
            rows.append((f"DataLoader, {n} workers, pinned, to the GPU, normalised",
                         lambda s, n=n: rate(loader(folder, samples, n, pin_memory=True), s, normalised)))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=4096)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", default="0,2")
    parser.add_argument("--threads", default="1,2,4")
    parser.add_argument("--folder")
    parser.add_argument("--json")
    given = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="plimsoll-data", dir=given.folder)
    found = {}
    try:
        source, cache, again = make(folder, given.samples, len(os.sched_getaffinity(0)) - 1)
        if torch.cuda.is_available():
            anchor()
            compare(source, again)
        rows = rows_of(folder, given.samples, cache, [int(n) for n in given.workers.split(",")], [int(n) for n in given.threads.split(",")])
        for _ in range(given.rounds):
            for name, measure in rows:
                found.setdefault(name, []).append(measure(given.seconds))
                if given.json:
                    with open(given.json, "w") as f:
                        json.dump(found, f, indent=1)
        for name, values in found.items():
            per_s = statistics.median(v[0] for v in values)
            print(f"{name:58} {per_s:10,.0f} samples/s {per_s * 150528 / 1e9:6.2f} GB/s  (best {max(v[0] for v in values):,.0f}; "
                  f"waited {statistics.median(v[1] for v in values):.0%})", flush=True)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
