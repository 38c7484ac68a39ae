#!/usr/bin/env python3
"""devices.py PLIMSOLL: devices of one snapshot, compared as ranks are.

What was wrong: three GPUs of nn.DataParallel were three reports; that one had 16 times the activations of the others, at
the same line, was for the reader to find.
"""
import os
import pickle
import sys
import tempfile

import lib
from made_recordings import MIB, Trainer

lib.start(sys.argv[1])


def snapshot(trainers):
    """One process with a device for each."""
    devices = [t.card.snapshot() for t in trainers]
    for number, device in enumerate(devices):
        for segment in device["segments"]:
            segment["device"] = number
    return {**devices[0], "segments": [s for d in devices for s in d["segments"]], "device_traces": [d["device_traces"][0] for d in devices]}


def told(trainers):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "several.pickle")
        with open(path, "wb") as f:
            pickle.dump(snapshot(trainers), f, 4)
        return lib.result("report", path)["uneven"], " ".join(lib.run("report", path).stdout.split())


def trainer(size=12, layers=4, weight=12, dies=False):
    t = Trainer(layers, weight * MIB)
    for _ in range(3):
        t.step(size=size * MIB)
    if dies:
        t.forward(size=size * MIB)
        t.card.fail(size * MIB, [])
    return t


uneven, text = told([trainer(), trainer(size=192), trainer()])
lib.expect(uneven and (uneven["device"], uneven["category"]) == (1, "activation"), "an uneven split of the batch", uneven)
lib.expect(uneven["category_bytes"] > 500 * MIB and "train.py:20" in uneven["frame"], "the line", uneven)
lib.expect("GPU 1 has" in text and "more activations" in text, "the text", text)
uneven, _ = told([trainer(), trainer(size=192, dies=True), trainer()])
lib.expect(uneven and (uneven["device"], uneven["category"]) == (1, "activation"), "the one that died", uneven)
uneven, _ = told([trainer(weight=12), trainer(weight=48)])
lib.expect(uneven and uneven["device"] == 1 and uneven["meaning"] == "the layers are not divided evenly", "layers on two GPUs", uneven)
for alike in ([trainer(), trainer()], [trainer()]):
    lib.expect(told(alike)[0] is None, "alike", told(alike)[0])
lib.finish("devices of one snapshot are compared", least=6)
