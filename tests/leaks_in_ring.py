#!/usr/bin/env python3
"""leaks_in_ring.py PLIMSOLL: leaks of long runs of which a ring has kept the last events alone, and what only looks like one.

What was wrong: only what grew inside the ring was counted, so that a run with 22.5 of 24 GiB at the line that leaks had
died of its capacity, and whatif advised a setting.  Each program here runs to its death, or not; what it keeps is known.
"""
import os
import pickle
import random
import sys
import tempfile

import lib
from made_recordings import MIB, Trainer, user

lib.start(sys.argv[1])
KEEP, CACHE, OTHER = [user(61, "loss")], [user(70, "cached")], [user(80, "log")]


class Run:
    """A training run; `keeps` has what is meant to be found, by line."""

    def __init__(self):
        self.trainer, self.keeps, self.first, self.newest = Trainer(layers=4, size=8 * MIB), {}, 0, 0
        self.card = self.trainer.card

    def leak(self, size, stack=tuple(KEEP)):
        self.keeps[stack[0]["line"]] = self.keeps.get(stack[0]["line"], 0) + size
        self.card.alloc(size, stack)

    def begin_ring(self, now=True):
        """From here on the ring has the events."""
        if now:
            self.first = len(self.card.events)

    def step(self):
        self.trainer.step()

    def told(self, dies):
        """Report and whatif."""
        if dies:
            self.card.fail(30 * MIB, [user(20)])
        snapshot = self.card.snapshot(stacks=True, last=len(self.card.events) - self.first)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "ring.pickle")
            with open(path, "wb") as f:
                pickle.dump(snapshot, f, 4)
            return lib.result("report", path)["devices"][0], lib.result("whatif", path)


def check(name, run, dies, leaks=True):
    device, tried = run.told(dies)
    found = {int(f["place"]["frame"].split(":")[1].split()[0]): f for f in device["findings"] if f["id"] == "leak"}
    lib.expect(device["self_check"]["exact"], name, "the recording made is none", device["self_check"])
    so_far = {line: f["bytes"] for line, f in found.items()}
    lib.expect(set(so_far) == set(run.keeps), name, "leaks", so_far, "kept", run.keeps)
    for line, kept in run.keeps.items():
        # of blocks that grow the newest is left out: it is larger than a repetition has kept
        lib.expect(kept - run.newest <= so_far.get(line, 0) <= kept, name, "so far", so_far, "kept", run.keeps)
    if not dies:
        return
    verdict = device["oom"][-1]["verdict"]
    lib.expect((verdict["cause"] == "leak") == leaks, name, "cause", verdict["cause"], verdict["headline"])
    if leaks:
        grown = sum(leak["grown_bytes"] for leak in device["leaks"])
        lib.expect(grown == sum(so_far.values()), name, "grown", grown, so_far)
        lib.expect(not tried["recommended"], name, "whatif advises", tried["recommended"])


# ---- leaks ----

def constant(chance, dies):
    """One size, at every step or every second."""
    run, size, every = Run(), chance.choice((3, 5, 12)) * MIB + 512 * chance.randrange(99), chance.choice((1, 2))
    before, inside = chance.randrange(60, 200), chance.randrange(12, 30)
    for n in range(before + inside):
        run.begin_ring(n == before)
        run.step()
        if n % every == 0:
            run.leak(size)
    run.step()
    check(f"constant {size} {before} {inside} {every}", run, dies)


def some_sizes(chance, dies):
    """The same few sizes at each step."""
    run, sizes = Run(), [n * MIB for n in chance.sample((2, 3, 4, 6, 9), 3)]
    before, inside = chance.randrange(40, 90), chance.randrange(12, 20)
    for n in range(before + inside):
        run.begin_ring(n == before)
        run.step()
        for size in sizes:
            run.leak(size)
    run.step()
    check(f"some sizes {sizes} {before} {inside}", run, dies)


def growing(chance, dies):
    """What is kept grows from step to step, so that all that is older is smaller."""
    run, by = Run(), chance.choice((2, 4, 8)) * 8192
    before, inside = chance.randrange(60, 120), chance.randrange(12, 30)
    for n in range(before + inside):
        run.begin_ring(n == before)
        run.step()
        run.leak(2 * MIB + (n + 1) * by)
    run.newest = 2 * MIB + (n + 1) * by
    run.step()
    check(f"growing {by} {before} {inside}", run, dies)


def two_at_once(chance, dies):
    """Two lines leak blocks of one size."""
    run, size = Run(), chance.choice((2, 3, 6)) * MIB
    before, inside = chance.randrange(60, 120), chance.randrange(12, 30)
    for n in range(before + inside):
        run.begin_ring(n == before)
        run.step()
        run.leak(size)
        if n % 2:
            run.leak(size, tuple(OTHER))
    run.step()
    check(f"two {size} {before} {inside}", run, dies)


# ---- traps ----

def with_a_cache_of_the_stack(chance, dies):
    """The line that leaks has filled a large cache before; its blocks have other sizes."""
    run = Run()
    before, inside = chance.randrange(60, 120), chance.randrange(12, 30)
    for n in range(20):
        run.card.alloc((7 + n) * MIB, KEEP)
    for n in range(before + inside):
        run.begin_ring(n == before)
        run.step()
        run.leak(5 * MIB)
    run.step()
    check(f"cache of the stack {before} {inside}", run, dies)


def with_a_cache_of_the_size(chance, dies):
    """Another line has filled a large cache with blocks of the leak's size."""
    run = Run()
    before, inside = chance.randrange(60, 120), chance.randrange(12, 30)
    for n in range(chance.randrange(10, 40)):
        run.card.alloc(5 * MIB, CACHE)
    for n in range(before + inside):
        run.begin_ring(n == before)
        run.step()
        run.leak(5 * MIB)
    run.step()
    check(f"cache of the size {before} {inside}", run, dies)


def evicting(sizes):
    """A queue longer than the ring: each step adds a block and drops the oldest."""
    def trap(chance, dies):
        run, queue, length = Run(), [], chance.randrange(60, 100)
        for n in range(160):
            run.begin_ring(n == 160 - length // 3)
            run.step()
            queue.append(run.card.alloc(sizes(n, chance), KEEP))
            if len(queue) > length:
                run.card.drop(queue.pop(0))
        run.step()
        check(f"evicting {length}", run, dies, leaks=False)
    return trap


def full_cache(chance, dies):
    """It was filled before, and is read."""
    run = Run()
    for n in range(100):
        run.card.alloc(chance.choice((3, 8)) * MIB, KEEP)
    for n in range(40):
        run.begin_ring(n == 15)
        run.step()
    check("full cache", run, dies, leaks=False)


def nearly_full_cache(chance, dies):
    """A mask for each length of a batch: now and then comes one that was never seen."""
    run, rare = Run(), sorted(chance.sample(range(4, 30), 2) + [38, 41])
    for n in range(100):
        run.card.alloc(5 * MIB, KEEP)
    run.begin_ring()
    for n in range(64):
        if n in rare or n in (0, 63):
            run.card.alloc(5 * MIB, KEEP)
        run.step()
    device = run.told(dies)[0]
    so_far = sum(f["bytes"] for f in device["findings"] if f["id"] == "leak")
    lib.expect(so_far <= 6 * 5 * MIB, "nearly full cache", so_far)
    if dies:
        lib.expect(device["oom"][-1]["verdict"]["cause"] != "leak", "nearly full cache", device["oom"][-1]["verdict"]["headline"])


def fixed(n, chance):
    return 5 * MIB


def varying(n, chance):
    return 4 * MIB + 8192 * chance.randrange(200)


def rising(n, chance):
    return 4 * MIB + 8192 * n


LEAKS = (constant, some_sizes, growing, two_at_once)
TRAPS = (with_a_cache_of_the_stack, with_a_cache_of_the_size, evicting(fixed), evicting(varying), evicting(rising), full_cache,
         nearly_full_cache)
SEEDS = 6
lib.jobs(lambda program, seed: program(random.Random(seed), seed % 3 > 0), *zip(*[(p, s) for p in LEAKS + TRAPS for s in range(SEEDS)]))
lib.finish(f"{SEEDS * len(LEAKS)} leaks behind a ring are counted whole, {SEEDS * len(TRAPS)} traps are none", least=SEEDS * len(LEAKS + TRAPS))
