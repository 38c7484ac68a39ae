#!/usr/bin/env python3
"""waits.py [--samples N] [--batch N] [--step-ms MS,...] [--seconds S] [--rounds N] [--workers N,...] [--threads N,...] [--folder DIR] [--json FILE]:
how long a training loop waits for its batches, with several loaders on the same samples, in turn.

Samples are of 3 x 224 x 224 uint8 with a label, shuffled, and normalised where the loop computes.  A step is a convolution over
the batch and products of matrices for about MS milliseconds on the GPU, and the loop runs one step ahead of it, as training
loops do that log the loss of the step before; without a GPU it is a pause.  The rows:

  none                the same batch again: what the loop does without a loader
  SampleCache         batches() of plimsoll.data
  DataLoader          torch's, over the samples in one mapped file, with worker processes that stay, page-locked
  FFCV's design       as FFCV publishes it (ffcv/loader/epoch_iterator.py, ffcv/fields/ndarray.py), rebuilt without its compiler, since
                      FFCV needs Numba and OpenCV: one mapped file, one thread that has others copy each sample into a page-locked
                      batch by compiled code without Python's lock, a stream for each of batches_ahead + 2 slots, 3 batches ahead.
                      GATHER is that code as a library, else cc makes it.
  WebDataset          its package, if it is installed: shards of 512 samples, whole shards and 1,000 samples shuffled, batches made in
                      its workers
"""
import argparse
import collections
import concurrent.futures
import ctypes
import importlib.util
import json
import multiprocessing
import os
import queue
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import torch

from plimsoll.data import SampleCache

SHAPE = (3, 224, 224)
BYTES = 3 * 224 * 224
SHARD = 512  # samples
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
AHEAD = 3
GATHER = """
#include <string.h>
void gather(const char *from, char *to, const long *which, long n, long bytes)
{
	for (long i = 0; i < n; i++)
		memcpy(to + i * bytes, from + which[i] * bytes, bytes);
}
"""


class Pictures:
    """Made of their number: a row of random bytes, turned by it."""

    def __init__(self, samples):
        self.samples = samples
        self.base = torch.randint(0, 256, (BYTES,), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))

    def __len__(self):
        return self.samples

    def __getitem__(self, i):
        if not 0 <= i < self.samples:
            raise IndexError(i)
        return self.base.roll(i).view(SHAPE), i


def mapped(path, samples):
    return torch.from_file(path, shared=False, size=BYTES * samples, dtype=torch.uint8).view(samples, *SHAPE)


class Mapped(torch.utils.data.Dataset):
    """The samples in one flat file that is mapped: what people write by hand."""

    def __init__(self, path, samples):
        self.path, self.samples, self.rows = path, samples, None

    def __len__(self):
        return self.samples

    def __getitem__(self, i):
        if self.rows is None:
            self.rows = mapped(self.path, self.samples)
        return self.rows[i], i


# ---- FFCV's design ----

def gather_function(folder):
    path = os.environ.get("GATHER")
    if not path:
        path = os.path.join(folder, "gather.so")
        subprocess.run(["cc", "-O3", "-shared", "-fPIC", "-x", "c", "-", "-o", path], input=GATHER, text=True, check=True)
    found = ctypes.CDLL(path).gather
    found.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_long] * 2
    return found


class Epoch(threading.Thread):
    def __init__(self, rows, batch, threads, gather, gpu, seed):
        super().__init__(daemon=True)
        order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))
        self.batches = order[:len(rows) // batch * batch].view(-1, batch)
        self.rows, self.threads, self.gather, self.gpu = rows, threads, gather, gpu
        self.ready, self.over = queue.Queue(AHEAD), threading.Event()
        slots = AHEAD + 2
        self.host = [torch.empty(batch, *SHAPE, dtype=torch.uint8, pin_memory=gpu) for _ in range(slots)]
        self.device = [torch.empty(batch, *SHAPE, dtype=torch.uint8, device="cuda") if gpu else None for _ in range(slots)]
        self.streams = [torch.cuda.Stream() if gpu else None for _ in range(slots)]
        self.main = torch.cuda.current_stream() if gpu else None
        self.start()

    def one(self, pool, which, slot, event):
        at, each, waiting = self.host[slot], -(-len(which) // self.threads), []
        for first in range(0, len(which), each):
            part = which[first:first + each]
            waiting.append(pool.submit(self.gather, self.rows.data_ptr(), at[first].data_ptr(), part.data_ptr(), len(part), BYTES))
        for one in waiting:
            one.result()
        if not self.gpu:
            return at, which
        with torch.cuda.stream(self.streams[slot]):
            if event:
                event.wait()
            self.device[slot].copy_(at, non_blocking=True)
            return self.device[slot], which.to("cuda", non_blocking=True)

    def run(self):
        events, slots = [None] * (AHEAD + 2), AHEAD + 2
        with concurrent.futures.ThreadPoolExecutor(self.threads) as pool:
            for i, which in enumerate(self.batches):
                made = i % slots, self.one(pool, which, i % slots, events[i % slots])
                while not self.over.is_set():
                    try:
                        self.ready.put(made, timeout=0.5)
                        break
                    except queue.Full:
                        pass
                if self.over.is_set():
                    return
                if self.gpu:
                    events[(i - AHEAD - 1) % slots] = torch.cuda.Event()
                    events[(i - AHEAD - 1) % slots].record(self.main)
            self.ready.put(None)

    def __iter__(self):
        try:
            for slot, batch in iter(self.ready.get, None):
                if self.gpu:
                    self.main.wait_stream(self.streams[slot])
                yield batch
        finally:
            self.over.set()
            self.join()


class Published:
    def __init__(self, path, samples, batch, threads, gather, gpu):
        self.given, self.rows, self.seed = (batch, threads, gather, gpu), mapped(path, samples), 0

    def __iter__(self):
        self.seed += 1
        return iter(Epoch(self.rows, *self.given, self.seed))


# ---- WebDataset ----

def shard(folder, number, samples):
    """As webdataset writes them: a member a field."""
    import webdataset

    source = Pictures(samples)
    with webdataset.TarWriter(os.path.join(folder, f"shard-{number:06d}.tar")) as writer:
        for i in range(number * SHARD, min(samples, (number + 1) * SHARD)):
            writer.write({"__key__": f"{i:08d}", "x": source[i][0].numpy().tobytes(), "n": str(i).encode()})


def decoded(sample):
    return torch.frombuffer(bytearray(sample["x"]), dtype=torch.uint8).view(SHAPE), int(sample["n"])


def collated(samples):
    return torch.stack([x for x, _ in samples]), torch.tensor([n for _, n in samples])


def streamed(folder, batch, workers, gpu):
    import webdataset

    names = sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".tar"))
    data = webdataset.WebDataset(names, shardshuffle=len(names), seed=1, nodesplitter=webdataset.split_by_node)
    data = data.shuffle(1000).map(decoded).batched(batch, collation_fn=collated, partial=False)
    return torch.utils.data.DataLoader(data, batch_size=None, num_workers=workers, pin_memory=gpu, persistent_workers=workers > 0)


# ---- the loop ----

class Step:
    """A convolution over the batch and products of matrices for so long; with a wait for the step before."""

    def __init__(self, ms, gpu):
        self.ms, self.gpu, self.queued, self.products = ms, gpu, collections.deque(), 0
        if not gpu:
            return
        self.mean, self.std = (torch.tensor(x, device="cuda").view(1, 3, 1, 1) for x in (MEAN, STD))
        self.patches = torch.nn.Conv2d(3, 64, 16, 16).to("cuda", torch.bfloat16)
        self.a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16) / 64
        self.b = torch.empty_like(self.a)
        for _ in range(20):
            torch.mm(self.a, self.a, out=self.b)
        torch.cuda.synchronize()

    def fit(self, batch):
        """So many products that a step takes its time."""
        one = self.took(batch, 0)
        each = (self.took(batch, 20) - one) / 20
        self.products = max(0, round((self.ms / 1e3 - one) / each))

    def took(self, batch, products):
        self.products = products
        self.run(batch)
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(10):
            self.run(batch)
        torch.cuda.synchronize()
        return (time.perf_counter() - began) / 10

    def run(self, batch):
        with torch.no_grad():
            x = batch[0].to("cuda", non_blocking=True).float().div_(255).sub_(self.mean).div_(self.std)
            self.patches(x.bfloat16())
            for _ in range(self.products):
                torch.mm(self.a, self.a, out=self.b)

    def __call__(self, batch):
        if not self.gpu:
            time.sleep(self.ms / 1e3)
            return
        self.run(batch)
        event = torch.cuda.Event()
        event.record()
        self.queued.append(event)
        if len(self.queued) > 1:
            self.queued.popleft().synchronize()


def measure(batches, seconds, step):
    """Samples a second after 8 steps, and the share of the time in which the loop waited for a batch."""
    count, waited, steps, began = 0, 0.0, 0, 0.0
    while True:
        asked = time.perf_counter()
        source = iter(batches)
        while True:
            batch = next(source, None)
            now = time.perf_counter()
            if batch is None:
                break
            step(batch)
            steps += 1
            if steps == 8:
                began = time.perf_counter()
            elif steps > 8:
                count += len(batch[1])
                waited += now - asked
                if now - began > seconds:
                    took = time.perf_counter() - began
                    return count / took, waited / took
            asked = time.perf_counter()


def rows_of(folder, given, cache, gpu):
    flat, workers, threads = os.path.join(folder, "flat"), numbers(given.workers), numbers(given.threads)
    once = next(iter(cache.batches(given.batch, shuffle=0, device="cuda" if gpu else None)))
    rows = {"none": [once] * 64}
    for n in threads:
        rows[f"SampleCache, {n} threads"] = cache.batches(given.batch, shuffle=0, threads=n, ahead=4, drop_last=True,
                                                          device="cuda" if gpu else None)
    for n in workers:
        rows[f"DataLoader, {n} workers"] = torch.utils.data.DataLoader(
            Mapped(flat, given.samples), batch_size=given.batch, shuffle=True, num_workers=n, pin_memory=gpu, drop_last=True,
            persistent_workers=n > 0)
    gather = gather_function(folder)
    for n in threads:
        rows[f"FFCV's design, {n} threads"] = Published(flat, given.samples, given.batch, n, gather, gpu)
    if importlib.util.find_spec("webdataset"):
        for n in workers:
            rows[f"WebDataset, {n} workers"] = streamed(folder, given.batch, n, gpu)
    return once, rows


def make(folder, given):
    """The same samples three times; before CUDA begins, as processes are forked for it."""
    source, cores = Pictures(given.samples), len(os.sched_getaffinity(0))
    with open(os.path.join(folder, "flat"), "wb") as f:
        for i in range(given.samples):
            f.write(source[i][0].numpy().data)
    if importlib.util.find_spec("webdataset"):
        with multiprocessing.get_context("fork").Pool(cores) as pool:
            pool.starmap(shard, [(folder, n, given.samples) for n in range(-(-given.samples // SHARD))])
    return SampleCache(source, os.path.join(folder, "samples"), workers=cores - 1)


def numbers(text):
    return [int(n) for n in text.split(",") if n]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=2048)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--step-ms", default="10")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", default="0,2")
    parser.add_argument("--threads", default="2")
    parser.add_argument("--folder")
    parser.add_argument("--json")
    given = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="plimsoll-waits", dir=given.folder)
    try:
        torch.set_num_threads(1)
        began = time.perf_counter()
        cache = make(folder, given)
        gpu = torch.cuda.is_available()
        once, rows = rows_of(folder, given, cache, gpu)
        print(f"made in {time.perf_counter() - began:.1f} s; {'on ' + torch.cuda.get_device_name() if gpu else 'no GPU'}, "
              f"{len(os.sched_getaffinity(0))} cores, PyTorch {torch.__version__}", flush=True)
        steps, found = {}, {}
        for ms in given.step_ms.split(","):
            steps[ms] = Step(float(ms), gpu)
            if gpu:
                steps[ms].fit(once)
        for _ in range(given.rounds):
            for name, batches in rows.items():
                for ms, step in steps.items():
                    found.setdefault((ms, name), []).append(measure(batches, given.seconds, step))
                    if given.json:
                        with open(given.json, "w") as f:
                            json.dump([[*key, *value] for key, value in found.items()], f)
        for (ms, name), values in sorted(found.items(), key=lambda one: -float(one[0][0])):
            rate, waited = (statistics.median(v[k] for v in values) for k in range(2))
            print(f"steps of {ms} ms, {name:28} {rate:10,.0f} samples/s  waits {waited:6.1%} of the loop  "
                  f"(rounds {', '.join(f'{v[0]:,.0f}' for v in values)})", flush=True)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
