#!/usr/bin/env python3
"""recordings_of_one_step.py PLIMSOLL: what memory is for, in recordings of one training step of a program that had warmed up before.

What was wrong: where no parameter's size is known, all that a backward pass made was called its temporaries, gradients
that lived to the end as well, and a gradient of 64 MiB a workspace of cuBLAS.  The numbers are MiB at the peak, which is
the end of the backward pass: activations are small here.
"""
import os
import pickle
import sys
import tempfile

import lib
from made_recordings import MIB, STEP, Trainer, module, user

lib.start(sys.argv[1])


def warm(layers=6, size=12, adam=True):
    """A program after some steps, and where the recording of one more begins."""
    t = Trainer(layers, size * MIB)
    if not adam:
        t.state = [t.card.alloc(4096, STEP)]
    for _ in range(3):
        t.step(size=MIB)
    return t, len(t.card.events)


def finished(t):
    t.optimize()
    return t


def report(snapshot):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "step.pickle")
        with open(path, "wb") as f:
            pickle.dump(snapshot, f, 4)
        return lib.result("report", path)["devices"][0]


def check(name, t, first, **expected):
    device = report(t.card.snapshot(last=len(t.card.events) - first))
    lib.expect(device["self_check"]["exact"], name, "the recording made is none", device["self_check"])
    told = {k: (v or 0) // MIB for k, v in device["at_peak"]["categories"].items()}
    expected = {"gradient": 0, "autograd_detail": 0, "workspace": 0, "unknown": 0, **expected}
    lib.expect(all(told[k] == v for k, v in expected.items()), name, told, "expected", expected)


def training_step():
    for size in (12, 4, 32, 64):  # three of them are sizes of workspaces, too
        for adam in (True, False):
            t, first = warm(size=size, adam=adam)
            t.backward(t.forward(size=MIB))
            check(f"a step, {size} MiB, Adam {adam}", finished(t), first, gradient=6 * size, autograd_detail=size)


def without_the_optimizer():
    t, first = warm()
    t.backward(t.forward(size=MIB))
    t.card.alloc(4096, [user(40)])  # the program goes on behind the pass
    check("no optimizer", t, first, gradient=72, autograd_detail=12)


def frozen_weights():
    t, first = warm()
    saved = t.forward(size=MIB)
    t.grads = [t.card.alloc(t.size) for _ in range(2)]
    t.card.drop(*reversed(saved), stack=())
    check("two of six are trained", finished(t), first, gradient=24)


def dies_in_backward():
    """The pass never ends: what has no weight's size may be a temporary."""
    t, first = warm()
    saved = t.forward(size=MIB)
    for block in reversed(saved):
        t.grads.append(t.card.alloc(t.size))
        t.card.alloc(7 * MIB)
        t.card.drop(block, stack=())
    t.card.fail(64 * MIB, ())
    check("dies in backward", t, first, gradient=72, autograd_detail=42)


# ---- traps ----

def temporaries_alone():
    """A pass that gives all back, though weights have the size of what it made."""
    t, first = warm()
    saved = t.forward(size=MIB)
    made = [t.card.alloc(t.size) for _ in range(4)]
    t.card.drop(*made, *reversed(saved), stack=())
    check("all is given back", finished(t), first, autograd_detail=48)


def workspace():
    """What cuBLAS keeps for autograd's thread, of a size that no weight has, and of one that all have."""
    for size, workspaces in ((12, 32), (32, 32)):
        t, first = warm(size=size, adam=False)
        saved = t.forward(size=MIB)
        t.card.alloc(workspaces * MIB)
        t.backward(saved)
        check(f"workspace beside {size} MiB", finished(t), first, gradient=6 * size, autograd_detail=size, workspace=32)


def kept_by_the_program():
    """Of a size that nothing has that was there before: no gradient, and no temporary."""
    t, first = warm()
    saved = t.forward(size=MIB)
    t.card.alloc(9 * MIB)
    t.backward(saved)
    check("kept", finished(t), first, gradient=72, autograd_detail=12, unknown=9)


def penalty():
    """torch.autograd.grad made as many blocks as there are weights before the backward pass of the loss."""
    t, first = warm(adam=False)
    saved = t.forward(size=MIB)
    for _ in t.weights:
        t.card.alloc(t.size)
    t.backward(saved)
    check("penalty", finished(t), first, gradient=72, autograd_detail=12, unknown=72)


def data_sets():
    """An object that holds the data is built by __init__ as a module is; only a module's file runs a forward pass."""
    for file, data in (("/home/me/data.py", True), ("/home/me/model.py", False)):
        t = Trainer(4, 12 * MIB)
        held = [t.card.alloc(6 * MIB, [user(8, "__init__", file), user(5)]) for _ in range(40)]
        for _ in range(4):
            saved = [t.card.alloc(12 * MIB, [*module(20, n, 0)[:2], user(50, "forward", "/home/me/model.py"), user(20)]) for n in range(4)]
            t.card.drop(*saved)
        device = report(t.card.snapshot())
        told = {k: (v or 0) // MIB for k, v in device["at_peak"]["categories"].items()}
        lib.expect(told["parameter"] == 48 + (0 if data else 240) and told["input"] == (240 if data else 0), file, told, len(held))


programs = (training_step, without_the_optimizer, frozen_weights, dies_in_backward, temporaries_alone, workspace, kept_by_the_program,
            penalty, data_sets)
for program in programs:
    program()
lib.finish("gradients, temporaries and workspaces of one step are told apart", least=15)
