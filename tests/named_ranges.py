#!/usr/bin/env python3
"""named_ranges.py PLIMSOLL: which named ranges are steps, and what stackless frees say of them.

What was wrong: a compiler that tries kernels names a range for each one, so that a single forward pass had 11 steps and no
leak; recorded without the stacks of frees, each temporary that a forward pass dropped was a backward pass, 61 of them.
"""
import os
import pickle
import sys
import tempfile

import lib
from made_recordings import BUILD, CALL, MIB, TORCH, Card, Trainer, frame, user

lib.start(sys.argv[1])
FORWARD = [frame("/home/me/model.py", 57, "forward"), CALL, user(20)]
TUNER = [frame(TORCH + "_inductor/runtime/benchmarking.py", 202, "benchmark_gpu"),
         frame(TORCH + "_inductor/runtime/triton_heuristics.py", 886, "benchmark_all_configs"), *FORWARD]
GRAD = 16 * MIB


class Program:
    """A GPU, whose frees have stacks or not (context="all", "alloc")."""

    def __init__(self, stacks):
        self.card, self.stacks = Card(), stacks
        self.weights = [self.card.alloc(12 * MIB, BUILD) for _ in range(6)]

    def drop(self, blocks, stack):
        self.card.drop(*blocks, stack=stack if self.stacks else ())

    def named(self, name):
        program = self

        class Range:
            def __enter__(self):
                program.card.mark("START", name)

            def __exit__(self, *_):
                program.card.mark("END", name)
        return Range()

    def batch(self):
        return self.card.alloc(4096, [user(19)])


def check(name, program, basis, steps):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "ranges.pickle")
        with open(path, "wb") as f:
            pickle.dump(program.card.snapshot(), f, 4)
        device = lib.result("report", path)["devices"][0]
        text = lib.run("report", path).stdout
    lib.expect(device["self_check"]["exact"], name, "the recording made is none", device["self_check"])
    told = device["step_basis"], len(device["steps"])
    lib.expect(told == (basis, steps), name, told, "expected", basis, steps)
    lib.expect(steps or "Too few steps were recorded" in text, name, "it says whether it leaks", text[:200])


# ---- steps ----

def named_steps(stacks):
    """The program names its repetitions, which hold whole passes of a model."""
    p = Program(stacks)
    for n in range(8):
        with p.named(f"request {n}"):
            batch = p.batch()
            made = [p.card.alloc(6 * MIB, FORWARD) for _ in range(6)]
            p.drop(made, FORWARD)
            p.drop([batch], [user(22)])
    check(f"named requests, {stacks}", p, "annotation", 8)


def named_without_a_model(stacks):
    p = Program(stacks)
    for n in range(8):
        with p.named("simulate"):
            p.drop([p.card.alloc((8 + n) * MIB, [user(30, "solve")]) for _ in range(4)], [user(31, "solve")])
    check(f"named, no model, {stacks}", p, "annotation", 8)


def silent_backward(stacks):
    """Weights are updated in place, and autograd allocates nothing: it gives the pass back."""
    p = Program(stacks)
    for _ in range(8):
        batch = p.batch()
        saved = [p.card.alloc(6 * MIB, FORWARD) for _ in range(6)]
        p.card.drop(*reversed(saved), stack=())
        p.drop([batch], [user(22)])
    check(f"silent backward, {stacks}", p, "backward", 8)


# ---- traps ----

def autotuning(name, blocks, kept, gaps):
    """One forward pass, in which a compiler tries kernels before it runs them."""
    def trap(stacks):
        p = Program(stacks)
        p.batch()
        p.card.alloc(6 * MIB, FORWARD)
        for kernel in range(20):
            with p.named(name):
                for _ in range(7 + kernel % 3):
                    p.drop([p.card.alloc(32 * MIB, TUNER) for _ in range(blocks)], TUNER)
                for _ in range(kept):
                    p.card.alloc(6 * MIB, FORWARD)
            for _ in range(gaps):
                p.card.alloc(6 * MIB, FORWARD)
        check(f"autotuning {blocks} {kept} {gaps}, {stacks}", p, None, 0)
    return trap


def layers(stacks):
    """A range for each block of a model, in a single pass."""
    p = Program(stacks)
    p.batch()
    p.card.alloc(6 * MIB, FORWARD)
    for n in range(24):
        with p.named(f"block {n}"):
            work = p.card.alloc(12 * MIB, FORWARD)
            p.card.alloc(6 * MIB, FORWARD)
            p.drop([work], FORWARD)
    check(f"layers, {stacks}", p, None, 0)


def layers_of_requests(stacks):
    """The same in each of several requests: those are what repeats."""
    p = Program(stacks)
    for _ in range(6):
        batch, made = p.batch(), []
        for n in range(8):
            made.append(p.card.alloc(6 * MIB, FORWARD))
            with p.named(f"block {n}"):
                made += [p.card.alloc(6 * MIB, FORWARD) for _ in range(8)]
        p.drop(made, [user(22)])
        p.drop([batch], [user(22)])
    check(f"layers of requests, {stacks}", p, "request" if stacks else "backward", 6)


def hooks(stacks):
    """A range for each gradient that a hook compresses, in the backward passes of a program that updates by hand."""
    t = Trainer(layers=4)
    for _ in range(6):
        saved = t.forward()
        t.card.drop(t.card.alloc(512), stack=())
        for block in reversed(saved):
            t.card.mark("START", "compress")
            for _ in range(8):
                t.card.drop(t.card.alloc(GRAD), stack=())
            t.card.mark("END", "compress")
            t.card.drop(block, stack=())
        t.card.drop(t.inputs.pop(), stack=(user(99),) if stacks else ())
    p = Program(stacks)
    p.card = t.card
    check(f"hooks, {stacks}", p, "backward", 6)


def temporaries(stacks):
    """A forward pass without a backward pass drops each tensor once it has the next one."""
    p = Program(stacks)
    p.batch()
    last = p.card.alloc(6 * MIB, FORWARD)
    for _ in range(30):
        new = p.card.alloc(6 * MIB, FORWARD)
        p.drop([last], FORWARD)
        last = new
    check(f"temporaries, {stacks}", p, None, 0)


STEPS = (named_steps, named_without_a_model, silent_backward)
TRAPS = (autotuning("CachingAutotuner.benchmark_all_configs (dynamo_timed)", 1, 0, 3), autotuning("pad_mm_benchmark", 3, 0, 1),
         autotuning("tune", 2, 1, 0), layers, layers_of_requests, hooks, temporaries)
lib.jobs(lambda program, stacks: program(stacks), *zip(*[(p, s) for p in STEPS + TRAPS for s in (True, False)]))
lib.finish(f"{len(STEPS)} kinds of steps are steps, {len(TRAPS)} kinds of parts are none", least=4 * len(STEPS + TRAPS))
