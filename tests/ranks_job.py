#!/usr/bin/env python3
"""ranks_job.py DATA FOLDER [RANKS]: a job's recordings, made of two that were measured.

Ranks run the healthy recording of DATA/deaths, ranks 2 and 5 the one whose batch became too long: rank 5 dies
first, rank 2 1.24 s later.
"""
import lzma
import os
import pickle
import shutil
import sys

data, folder = sys.argv[1:3]
ranks = int(sys.argv[3]) if len(sys.argv) > 3 else 8


def write(rank, snapshot, late_us):
    for trace in snapshot["device_traces"]:
        for event in trace:
            event["time_us"] += late_us
    for edge in snapshot.get("external_annotations", []):
        edge["time_us"] += late_us
    with open(os.path.join(folder, f"rank{rank}.pickle"), "wb") as f:
        pickle.dump(snapshot, f, protocol=4)


def long_batch():
    with lzma.open(os.path.join(data, "deaths", "long_batch.pickle.xz")) as f:
        return pickle.load(f)


os.makedirs(folder, exist_ok=True)
healthy = os.path.join(folder, "rank0.pickle.xz")
shutil.copyfile(os.path.join(data, "deaths", "healthy_train.pickle.xz"), healthy)
for rank in range(1, ranks):
    if rank in (2, 5):
        write(rank, long_batch(), 1_240_000 if rank == 2 else 0)
    else:
        os.link(healthy, os.path.join(folder, f"rank{rank}.pickle.xz"))
