#!/usr/bin/env python3
"""leak_fill_time.py PLIMSOLL [SEED]: when a leak will have filled a GPU is in the range that its first steps give.

Programs that leak are made up: training loops with leaks of several sizes and batches that vary.  Each is recorded for a
few steps on a large GPU, and runs until it dies on one of the size of the GPU that is asked for; a GPU gives back what
it holds free before it refuses, as PyTorch does.
"""
import json
import os
import random
import sys
import tempfile

import lib
import made_recordings as made
from made_recordings import Trainer, user

lib.start(sys.argv[1])
MIB, GIB = 1 << 20, 1 << 30
CARDS = {"T4": (14.56 * GIB, 14.74 * GIB), "RTX 4090": (23.52 * GIB, 23.64 * GIB)}
ALLOWANCE = 896 * MIB
SIZES = (10 * MIB, 25 * MIB, 41 * MIB, 80 * MIB)  # whose segments hold nothing else


class Full(Exception):
    pass


class Limited(made.Card):
    """A GPU that refuses what it has no room for, after it has given back all it holds free."""

    def __init__(self, limit):
        super().__init__()
        self.limit, self.reserved = limit, 0

    def alloc(self, size, stack=()):
        segment = 2 * MIB if size <= MIB else 20 * MIB if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB
        if not self.free.get((segment, size)):
            if self.reserved + segment > self.limit:
                self.reserved -= sum(key[0] * len(blocks) for key, blocks in self.free.items())
                for blocks in self.free.values():
                    blocks.clear()
            if self.reserved + segment > self.limit:
                raise Full
            self.reserved += segment
        return super().alloc(size, stack)


def program(random_of, card):
    """A loop: yields before each step; the leak is at a line of its own."""
    trainer = Trainer(layers=random_of.choice((4, 10)), size=random_of.choice((6, 12, 40)) * MIB)
    trainer.card.__class__ = Limited
    trainer.card.limit, trainer.card.reserved = card, sum(size for _, size in trainer.card.segments)
    kept, size, times = [], random_of.choice(SIZES), random_of.choice((1, 1, 3))
    varies = random_of.choice((0, 0, 0.1, 0.3))
    while True:
        yield trainer.card
        longer = 1 + varies * random_of.random()
        trainer.step(size=int(trainer.size * longer) // 512 * 512)
        for _ in range(times):
            kept.append(trainer.card.alloc(int(size * longer) // 512 * 512, [user(41, "keep"), user(18)]))


def steps_until(seed, limit, most):
    """How many steps end before the GPU is full, or `most`."""
    loop, n = program(random.Random(seed), limit), -1
    try:
        for n, card in enumerate(loop):
            if n == most:
                return n, card
    except Full:
        pass
    return n, None


def check(seed, folder):
    pick = random.Random(seed * 7 + 1)
    card, steps = pick.choice(list(CARDS)), pick.choice((8, 12, 20))
    low, high = CARDS[card]
    _, recorded = steps_until(seed, 1 << 50, steps)
    path = os.path.join(folder, f"{seed}.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(recorded.snapshot(), f)
    device = lib.result("report", path, "--gpu", card)["devices"][0]
    lib.expect(device["fills"], seed, "no leak, or not when it fills")
    for limit in (low - ALLOWANCE, high - ALLOWANCE / 2) if device["fills"] else ():
        dies, _ = steps_until(seed, limit, 10**6)
        told = device["fills"][0]["step"]
        lib.expect(told["low"] <= dies <= told["high"], seed, card, f"dies in step {dies}, told {told}")
        spans.append((told["high"] - told["low"]) / max(1, dies))


first = int(sys.argv[2]) if sys.argv[2:] else 0
spans = []
with tempfile.TemporaryDirectory() as scratch:
    for one in range(first, first + 18):
        check(one, scratch)
lib.finish(f"{len(spans)} deaths in the range that was told, which is {sorted(spans)[len(spans) // 2]:.0%} wide in the median", least=18)
