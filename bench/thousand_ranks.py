#!/usr/bin/env python3
"""thousand_ranks.py [RANKS [EVENTS]]: a job of 1,024 ranks of 100,000 events each: packed and digested one after the other, as its nodes would
do it, then reduced to one answer and to a page.  Processor seconds and resident memory of each.

PLIMSOLL is the program; MAKE_SNAPSHOT makes recordings of real ones.  Ranks that are alike are copies of one file; what is planted
is reported in the end.
"""
import json
import multiprocessing
import os
import pickle
import statistics
import subprocess
import sys
import tempfile
import threading
import time

PLIMSOLL = os.environ["PLIMSOLL"]
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/data")
RANKS = int(sys.argv[1]) if len(sys.argv) > 1 else 1024
EVENTS = sys.argv[2] if len(sys.argv) > 2 else "100000"
#: one rank holds a tensor more, one dies, and a quarter is of another stage
EXTRA, DIES = RANKS // 3, RANKS - 5


def measured(*command):
    """(processor seconds, resident bytes, what it said)."""
    with tempfile.TemporaryFile() as out:
        child = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = status
        out.seek(0)
        return used.ru_utime + used.ru_stime, used.ru_maxrss << 10, out.read(), status


def varied(snapshot, larger=0, dies=False):
    """The same program with larger requests of more than 1 MiB; or one that dies at its end."""
    trace = next(t for t in snapshot["device_traces"] if t)
    first = next(e for e in trace if e["action"] == "alloc" and e["size"] >= 1 << 20)
    device = snapshot["device_traces"].index(trace)
    rows = list(trace)
    if larger:
        size, addr, time_us = larger, 0x7A0000000000, rows[0]["time_us"]
        rows[:0] = [{**first, "action": "segment_alloc", "addr": addr, "size": size, "time_us": time_us},
                    {**first, "addr": addr, "size": size, "time_us": time_us}]
        segment = {**snapshot["segments"][0], "device": device, "address": addr, "total_size": size, "allocated_size": size,
                   "active_size": size, "requested_size": size, "segment_type": "large",
                   "blocks": [{"address": addr, "size": size, "requested_size": size, "state": "active_allocated", "frames": first["frames"]}]}
        segments = [*snapshot["segments"], segment]
    else:
        segments = snapshot["segments"]
    if dies:
        rows.append({**first, "action": "oom", "device_free": 1 << 20, "size": 3 << 30, "time_us": rows[-1]["time_us"] + 10})
        rows[-1].pop("addr")
    traces = list(snapshot["device_traces"])
    traces[device] = rows
    return {**snapshot, "segments": segments, "device_traces": traces}


def make(top):
    """The distinct recordings, by what a rank is; in a process of its own, for a child begins as large as its parent is."""
    source = os.path.join(top, "made.pickle")
    subprocess.run([os.environ["MAKE_SNAPSHOT"], os.path.join(DATA, "llama_s_ckpt.pickle.xz"), EVENTS, source], check=True)
    with open(source, "rb") as f:
        base = pickle.load(f)
    kinds = {"usual": varied(base), "stage": varied(base, larger=1 << 30), "extra": varied(base, larger=8 << 30),
             "dies": varied(base, larger=2 << 30, dies=True)}
    for name, snapshot in kinds.items():
        with open(os.path.join(top, name + ".pickle"), "wb") as f:
            pickle.dump(snapshot, f, protocol=4)
    print(f"{RANKS} ranks of {sum(map(len, base['device_traces']))} events, {os.path.getsize(os.path.join(top, 'usual.pickle'))} bytes each",
          flush=True)


def kind_of(rank):
    return "extra" if rank == EXTRA else "dies" if rank == DIES else "stage" if rank // (RANKS // 4) == 2 else "usual"


def map_ranks(top, paths, job, digests):
    """Each rank is packed and digested, two at a time."""
    times, sizes, left = {"pack": [], "digest": []}, {"pack": [], "digest": []}, iter(range(RANKS))
    lock = threading.Lock()

    def work():
        while True:
            with lock:
                rank = next(left, None)
            if rank is None:
                return
            packed = os.path.join(job, f"rank{rank}.plim")
            for name, command in (("pack", ("pack", paths[kind_of(rank)], "-o", packed)),
                                  ("digest", ("report", "--digest", packed, "-o", os.path.join(digests, f"rank{rank}.digest")))):
                seconds, resident, _, status = measured(PLIMSOLL, *command)
                assert status == 0, command
                times[name].append(seconds)
                sizes[name].append(resident)

    threads = [threading.Thread(target=work) for _ in range(os.cpu_count() or 1)]
    begun = time.time()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for name in times:
        print(f"{name}: median {statistics.median(times[name]):.2f} s, most {max(times[name]):.2f} s of processor time a rank, "
              f"most {max(sizes[name]) / 2**20:.0f} MiB")
    both = [a + b for a, b in zip(times["pack"], times["digest"])]
    print(f"both: most {max(both):.2f} s; all of them {time.time() - begun:.0f} s by the clock on {len(threads)} cores")


with tempfile.TemporaryDirectory() as top:
    maker = multiprocessing.Process(target=make, args=(top,))
    maker.start()
    maker.join()
    files = {name: os.path.join(top, name + ".pickle") for name in ("usual", "stage", "extra", "dies")}
    seconds, resident, _, _ = measured(sys.executable, "-c", f"import pickle; pickle.load(open({files['usual']!r}, 'rb'))")
    print(f"beside it, pickle.load of one: {seconds:.2f} s, {resident / 2**20:.0f} MiB")
    folder, reduced = os.path.join(top, "job"), os.path.join(top, "digests")
    os.mkdir(folder)
    os.mkdir(reduced)
    map_ranks(top, files, folder, reduced)
    print(f"{sum(os.path.getsize(os.path.join(folder, n)) for n in os.listdir(folder)) / 1e6:.0f} MB packed, "
          f"{sum(os.path.getsize(os.path.join(reduced, n)) for n in os.listdir(reduced)) / 1e6:.1f} MB of digests")
    seconds, resident, said, _ = measured(PLIMSOLL, "report", reduced, "--layout", f"tp=8,dp={RANKS // 32},pp=4", "--json")
    told = json.loads(said)
    print(f"reduce: {seconds:.2f} s, {resident / 2**20:.0f} MiB: {told['sentence']}")
    print("unlike:", sorted({o["rank"] for o in told["outliers"]}), "planted:", [EXTRA, DIES],
          "groups:", [(g["ranks"], g["name"]) for g in told["groups"]])
    begun = time.time()
    seconds, resident, said, _ = measured(PLIMSOLL, "report", folder, "--json")
    print(f"the same from the packed recordings: {seconds:.1f} s, {time.time() - begun:.0f} s by the clock, {resident / 2**20:.0f} MiB")
    page = os.environ.get("PAGE", os.path.join(top, "page.html"))
    for path in os.listdir(reduced):
        os.rename(os.path.join(reduced, path), os.path.join(folder, path))
    seconds, resident, _, _ = measured(PLIMSOLL, "report", folder, "-o", page)
    print(f"page: {seconds:.1f} s, {resident / 2**20:.0f} MiB, {os.path.getsize(page) / 1e6:.1f} MB")
