#!/usr/bin/env python3
"""causes.py PLIMSOLL [CASES [FIRST]]: how often the cause of a death is right in made-up runs.

Each run is made by a rule from its number: half are leaks, half traps (healthy caches of the leak's stack, queues, plain
capacity, private pools, other streams).  Of every second run a ring has kept the last hundredth of the events alone.
"""
import collections
import os
import pickle
import random
import sys
import tempfile

import lib
from made_recordings import MIB, Heap, Trainer, user

lib.start(sys.argv[1])
CASES, FIRST = [int(n) for n in (*sys.argv[2:], *("40", "0")[len(sys.argv) - 2:])]
KEEP, OTHER = [user(61, "loss")], [user(80, "log")]
STEPS = 800  # a hundredth of them is eight


class Run:
    """Training that dies at its end."""

    def __init__(self, chance, ring):
        self.t, self.ring, self.chance = Trainer(layers=2, size=8 * MIB), ring, chance
        self.card = self.t.card

    def steps(self, each, n=STEPS):
        for i in range(n):
            self.t.step()
            each(i)
        self.t.step()
        self.card.fail(30 * MIB, [user(20)])
        events = len(self.card.events)
        return self.card.snapshot(stacks=True, last=max(events // 100, 1) if self.ring else events)


def constant(run):
    size, every = run.chance.choice((1, 3, 5)) * MIB + 512 * run.chance.randrange(99), run.chance.choice((1, 1, 2))
    return run.steps(lambda i: i % every or run.card.alloc(size, KEEP))


def some_sizes(run):
    sizes = [n * MIB for n in run.chance.sample((1, 2, 3, 4, 6), 3)]
    return run.steps(lambda i: [run.card.alloc(size, KEEP) for size in sizes])


def growing(run):
    by = run.chance.choice((2, 4, 8)) * 8192
    return run.steps(lambda i: run.card.alloc(2 * MIB + (i + 1) * by, KEEP))


def two_leaks(run):
    size = run.chance.choice((2, 3, 6)) * MIB
    return run.steps(lambda i: [run.card.alloc(size, KEEP), i % 2 and run.card.alloc(size, OTHER)])


def beside_a_cache(run):
    for n in range(20):
        run.card.alloc((7 + n) * MIB, KEEP)
    return run.steps(lambda i: run.card.alloc(5 * MIB, KEEP))


def capacity(run):
    run.card.alloc(run.chance.randrange(1000, 4000) * MIB, OTHER)
    return run.steps(lambda i: None, 300)


def full_cache(run):
    """It filled long ago, with the stack and size of a leak."""
    n, size = run.chance.randrange(100, 300), run.chance.choice((2, 5, 12)) * MIB
    return run.steps(lambda i: i < n and run.card.alloc(size, KEEP))


def queue(run):
    """Each step adds one and drops the oldest."""
    held, n, size = collections.deque(), run.chance.randrange(50, 400), run.chance.choice((2, 5, 12)) * MIB

    def each(_):
        held.append(run.card.alloc(size, KEEP))
        if len(held) > n:
            run.card.drop(held.popleft())

    return run.steps(each)


def batches(run):
    """Sizes that vary, of what each step drops."""
    return run.steps(lambda i: run.card.drop(run.card.alloc(run.chance.randrange(1, 40) * MIB, KEEP)))


def pools(run):
    return heap(run, pool=True)


def streams(run):
    return heap(run, pool=False)


def heap(run, pool):
    made = Heap()
    made.segment(2048 * MIB, (2048 * MIB, [user(3)]))
    for n in range(run.chance.randrange(3, 8)):
        where = {"pool": (n + 1, 0)} if pool else {"stream": 7}
        size = run.chance.randrange(600, 1500) * MIB
        made.free(made.segment(size, (32 * MIB, KEEP), (size - 32 * MIB, KEEP), **where), 1)
    made.fail(run.chance.randrange(300, 500) * MIB)
    return made.snapshot()


LEAKS = constant, some_sizes, growing, two_leaks, beside_a_cache
TRAPS = {capacity: None, full_cache: None, queue: None, batches: None, pools: "private_pools", streams: "other_stream"}


def case(number):
    """(kind, is it right, what the verdict is)"""
    chance, traps = random.Random(number), list(TRAPS)
    kind = traps[number // 2 % len(traps)] if number % 2 else LEAKS[number // 2 % len(LEAKS)]
    ring = chance.random() < 0.5
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "run.pickle")
        with open(path, "wb") as f:
            pickle.dump(kind(Run(chance, ring)), f, 4)
        verdict = lib.result("report", path)["devices"][0]["oom"][-1]["verdict"]
    cause, likely = verdict["cause"], verdict["likely_cause"]
    right = cause == "leak" if kind in LEAKS else cause == TRAPS[kind] if TRAPS[kind] else "leak" not in (cause, likely)
    return f"{kind.__name__}{' in a ring' if ring else ''}", right, cause, likely


seen, missed = collections.Counter(), set()
for number in range(FIRST, FIRST + CASES):
    kind, right, cause, likely = case(number)
    seen[kind] += 1
    if not right:
        missed.add(number)
        print(f"missed: case {number}, {kind}: {cause}, likelier {likely}")
for kind, count in sorted(seen.items()):
    print(f"{count:4} {kind}")
print(f"{CASES - len(missed)} of {CASES} causes right: {100 * (CASES - len(missed)) / CASES:.1f} %")
lib.expect(not missed, "causes", "missed", sorted(missed))
lib.finish("causes of deaths in made-up runs", least=CASES)
