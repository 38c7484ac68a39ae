#!/usr/bin/env python3
"""own_model.py PLIMSOLL DATA: what is said of a run does not depend on whose code the model is.

The frames of a library's models get a user's path, as when people write their model themselves.  A loop over its
layers is then the user's own; it must not be taken for the loop of a leak.
"""
import glob
import os
import pickle
import sys
import tempfile

import lib
from lib import failures, load

program, data = sys.argv[1:3]
lib.start(program)
LIBRARIES = "site-packages/transformers/", "site-packages/torchvision/"


def own(snapshot):
    """Every frame is shared by many events: each is changed once."""
    done = set()
    lists = [e.get("frames", []) for trace in snapshot["device_traces"] for e in trace]
    lists += [b.get("frames", []) for s in snapshot["segments"] for b in s["blocks"]]
    for frame in (f for frames in lists for f in frames):
        if id(frame) not in done and any(library in frame["filename"] for library in LIBRARIES):
            frame["filename"] = "/home/user/project/" + frame["filename"].split("site-packages/")[1]
        done.add(id(frame))
    return snapshot


def told(path):
    device = lib.result("report", path)["devices"][0]
    return [[(o["verdict"]["bound_by"], o["verdict"]["cause"]) for o in device["oom"] if o["verdict"]],
            any(f["id"] == "leak" for f in device["findings"])]


paths = [p for folder in ("", "deaths", "kinds") for p in sorted(glob.glob(os.path.join(data, folder, "*.pickle.xz")))]
with tempfile.TemporaryDirectory() as scratch:
    changed = os.path.join(scratch, "own.pickle")
    for path in paths:
        snapshot = load(path)
        with open(changed, "wb") as f:
            pickle.dump(own(snapshot), f, protocol=4)
        as_recorded, as_own = told(path), told(changed)
        if as_recorded != as_own:
            failures.append(f"{path}: {as_recorded}, with a model of the user's own {as_own}")
lib.finish(f"{len(paths)} recordings: the same verdict with a model of the user's own", least=2 * len(paths))
