#!/usr/bin/env python3
"""formats.py PLIMSOLL DATA: one recording written in every way, read to the same report."""
import bz2
import copy
import gzip
import io
import json
import lzma
import os
import pickle
import random
import subprocess
import sys
import tempfile
import zipfile

import lib

lib.start(sys.argv[1])
data = sys.argv[2]
folder = tempfile.mkdtemp()


def run(path, *options, stdin=None):
    return lib.result("report", path, *options, stdin=stdin, text=False)


def expect(name, ok, what=""):
    lib.expect(ok, name, what)


def write(name, content):
    path = os.path.join(folder, name)
    with open(path, "wb") as f:
        f.write(content)
    return path


def same(name, got, want):
    expect(name, got["devices"] == want["devices"], "another report")


with open(os.path.join(data, "formats", "train_python.pickle"), "rb") as f:
    raw = f.read()
x = pickle.loads(raw)
want = run(write("plain.pickle", raw))
expect("plain", want["source"]["complete"] and want["devices"][0]["self_check"]["exact"])

for protocol in range(6):
    same(f"protocol {protocol}", run(write(f"p{protocol}.pickle", pickle.dumps(x, protocol))), want)
same("json", run(write("x.json", json.dumps(x).encode())), want)
same("json, spaced", run(write("x2.json", b"\xef\xbb\xbf \n" + json.dumps(x, indent=1).encode())), want)
same("gzip", run(write("x.gz", gzip.compress(raw))), want)
same("xz", run(write("x.bin", lzma.compress(raw))), want)
same("zstd", run(write("x.zst", subprocess.run(["zstd", "-qc"], input=raw, capture_output=True, check=True).stdout)), want)
for level in (1, 9):
    same(f"bzip2 {level}", run(write("x.bz2", bz2.compress(raw, level))), want)
same("bzip2, two streams", run(write("x2.bz2", bz2.compress(raw[:999]) + bz2.compress(raw[999:]) + b"\0" * 9)), want)


class Pipe(io.BytesIO):
    """What zipfile cannot seek in: sizes follow the data."""

    def seekable(self):
        return False

    def tell(self):
        raise OSError


def zipped(members, method, out):
    with zipfile.ZipFile(out, "w", method) as file:
        for name, content in members:
            file.writestr(name, content)
    return out.getvalue()


MAC = [("a/", b""), ("a/run.pickle", raw), ("__MACOSX/a/._run.pickle", b"\0" * 3000000)]
for out in (io.BytesIO, Pipe):
    for name, method in (("stored", zipfile.ZIP_STORED), ("deflated", zipfile.ZIP_DEFLATED)):
        if (out, name) == (Pipe, "stored"):
            continue  # where it ends stands behind it
        for what, members in (("one", [("run.pickle", raw)]), ("of a Mac", MAC)):
            content = zipped(members, method, out())
            same(f"zip, {name}, {what}, {out.__name__}", run(write("x.zip", content)), want)
            same(f"stdin, zip, {name}, {what}, {out.__name__}", run("-", stdin=content), want)


def refused(name, content, *words):
    done = subprocess.run([lib.program, "report", write("bad.zip", content)], capture_output=True, text=True)
    expect(name, done.returncode == 3 and all(word in done.stderr for word in words), done.stderr)


TWO = [("a.pickle", raw), ("b.pickle", raw)]
for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
    refused("zip of two", zipped(TWO, method, io.BytesIO()), "holds several files", "unpack it")
refused("zip of bzip2", zipped(TWO[:1], zipfile.ZIP_BZIP2, io.BytesIO()), "a method that is not read")
refused("zip of torch", zipped([("archive/data.pkl", raw)], zipfile.ZIP_STORED, io.BytesIO()), "ckpt verify")
whole = zipped(TWO[:1], zipfile.ZIP_DEFLATED, io.BytesIO())
for at in (29, 60, len(whole) // 2, len(whole) - 120):
    refused(f"zip cut at {at}", whole[:at], "ends early")
    flipped = bytearray(whole)
    flipped[at] ^= 4
    if at > 40:
        done = subprocess.run([lib.program, "report", "--json", write("flip.zip", flipped)], capture_output=True, text=True)
        expect(f"zip flipped at {at}", done.returncode == 3 or json.loads(done.stdout)["devices"] == want["devices"])
packed = bz2.compress(raw)
for at in (9, 60, len(packed) // 2, len(packed) - 3):
    flipped = bytearray(packed)
    flipped[at] ^= 4
    refused(f"bzip2 flipped at {at}", flipped, "bzip2 data")
    refused(f"bzip2 cut at {at}", packed[:at], "bzip2 data ends early")
same("stdin", run("-", stdin=raw), want)
same("stdin, xz", run("-", stdin=lzma.compress(raw)), want)

# the C++ pickler's own recording of the same run as basic.pickle: one `snapshot` event more
a, b = (run(os.path.join(data, "formats", n)) for n in ("basic.pickle", "basic_cpp.pickle"))
expect("C++ pickler", a["devices"][0]["peak"] == b["devices"][0]["peak"] and
       b["devices"][0]["events"] == a["devices"][0]["events"] + 1, "differs from Python's")

bare = run(write("bare.pickle", pickle.dumps(x["segments"])))
# what memory was for is known by events, which it has none of
expect("bare segments", bare["devices"][0]["end"] == {**want["devices"][0]["end"], "categories": None} and not bare["source"]["complete"] and
       "no events" in bare["source"]["notes"][0], bare and bare["source"])


def shuffled(o, r=random.Random(1)):
    if isinstance(o, dict):
        items = list(o.items())
        r.shuffle(items)
        return {k: shuffled(v) for k, v in items}
    return [shuffled(v) for v in o] if isinstance(o, list) else o


same("other key order", run(write("shuffled.pickle", pickle.dumps(shuffled(x)))), want)

# what older releases did not write
old = copy.deepcopy(x)
for key in ("allocator_settings", "external_annotations"):
    del old[key]
for e in old["device_traces"][0]:
    for key in ("time_us", "compile_context", "user_metadata"):
        del e[key]
for s in old["segments"]:
    for key in ("segment_pool_id", "is_expandable", "frames"):
        del s[key]
    for block in s["blocks"]:
        del block["address"]
got = run(write("old.pickle", pickle.dumps(old)))
peaks = {k: v for k, v in want["devices"][0]["peak"].items() if k.endswith("_bytes")}
expect("2.0 keys", {k: got["devices"][0]["peak"][k] for k in peaks} == peaks and
       got["devices"][0]["self_check"]["exact"] and got["devices"][0]["peak"]["allocated"]["time_us"] is None)

# what later releases write
new = copy.deepcopy(x)
for i, e in enumerate(new["device_traces"][0]):
    e["pool_id"] = (0, 0)
    e["brand_new"] = i
new["device_traces"][0].insert(0, {"action": "annotate", "addr": 4096, "size": 0, "stream": 0, "time_us": 1})
new["device_traces"][0].insert(0, {"action": "dance", "addr": 0, "size": 0, "stream": 0, "time_us": 1})
for s in new["segments"]:
    for f in s["frames"]:
        f["line"] = 2**64 - 1
got = run(write("new.pickle", pickle.dumps(new)))
notes = " ".join(got["source"]["notes"])
expect("unknown keys", "key 'brand_new' in 228 event" in notes and "action 'dance' in 1" in notes, notes)
expect("unknown keys", {k: got["devices"][0]["peak"][k] for k in peaks} == peaks, "other peaks")

# "my.host" was taken for a C header and ".cuda" for CUDA source, a folder "torch" for PyTorch: nothing was the user's
theirs = want["devices"][0]["at_peak"]["owners"][0]["frame"].rsplit(":", 1)[0]
for name in ("/home/my.host/torch/.cuda/p.py", "/srv/x.cc/run.cpp/train.py"):
    moved = copy.deepcopy(x)
    for f in [f for e in moved["device_traces"][0] + moved["segments"] for f in e.get("frames", [])]:
        if f["filename"] == theirs:
            f["filename"] = name
    got = run(write("folders.pickle", pickle.dumps(moved)))
    expect(name, got["devices"][0]["at_peak"]["owners"][0]["frame"].startswith(name + ":"),
           got["devices"][0]["at_peak"]["owners"][0]["frame"])

# addresses that only unsigned 64 bits hold
high = copy.deepcopy(x)
for e in high["device_traces"][0]:
    if "addr" in e:
        e["addr"] |= 1 << 63
for s in high["segments"]:
    s["address"] |= 1 << 63
    for block in s["blocks"]:
        block["address"] |= 1 << 63
got = run(write("high.pickle", pickle.dumps(high)))
expect("9-byte integers", got["devices"][0]["peak"] == want["devices"][0]["peak"], "other peaks")

# two devices, an empty one between
two = copy.deepcopy(x)
two["device_traces"] = [x["device_traces"][0], [], copy.deepcopy(x["device_traces"][0])]
two["segments"] = x["segments"] + [dict(s, device=2) for s in copy.deepcopy(x["segments"])]
got = run(write("two.pickle", pickle.dumps(two)))
expect("two devices", [d["device"] for d in got["devices"]] == [0, 2] and
       got["devices"][1]["peak"] == want["devices"][0]["peak"], got["devices"])
got = run(write("two.pickle", pickle.dumps(two)), "--device", "2")
expect("--device", [d["device"] for d in got["devices"]] == [2])

# a ring that was re-armed smaller: new events in front of the old ones, then the newest
events = x["device_traces"][0]
old_part = [dict(e, time_us=e["time_us"] - 60_000_000) for e in events[:100]]
ring = dict(x, device_traces=[events[150:190] + old_part + events[190:]])
got = run(write("ring.pickle", pickle.dumps(ring)))
expect("re-armed ring", got["devices"][0]["events"] == len(events) - 150 and
       "re-armed" in " ".join(got["source"]["notes"]) and got["devices"][0]["self_check"]["exact"], got["source"])

# what is written is what was read
for name in ("train_python", "train_all", "basic", "basic_cpp", "exp", "graph"):
    path, out = os.path.join(data, "formats", name + ".pickle"), os.path.join(folder, "out.pickle")
    first = run(path, "-o", out)
    with open(path, "rb") as f:
        before = pickle.load(f)
    with open(out, "rb") as f:
        after = pickle.load(f)
    expect(f"{name} -o", list(before) == list(after), f"other keys: {list(after)}")
    for key in before:
        expect(f"{name} -o", before[key] == after[key], f"{key} differ")
    expect(f"{name} -o", list(before["allocator_settings"]) == list(after["allocator_settings"]),
           "settings in another order")
    second = run(out)
    second["devices"] and same(f"{name} -o", second, first)

# Settings that no release has yet were dropped: each is kept, whatever it is.
strange = copy.deepcopy(x)
strange["allocator_settings"] = {
    "garbage_collection_threshold": 1.5, "brand_new": {"list": [1, [2.5, None], {}], "": -1, 7: 2**64 - 1},
    "text": "\u00fc\n", "flag": True, "max_split_size": 2**40}
out = os.path.join(folder, "strange.pickle")
run(write("strange_in.pickle", pickle.dumps(strange)), "-o", out)
with open(out, "rb") as f:
    after = pickle.load(f)
expect("strange settings", after["allocator_settings"] == strange["allocator_settings"], after["allocator_settings"])
# A hostile one (2^60 values in shared lists) is read in bounded time; what is known of it is written.
bomb = [1]
for _ in range(60):
    bomb = [bomb, bomb]
strange["allocator_settings"]["brand_new"] = bomb
run(write("bomb.pickle", pickle.dumps(strange)), "-o", out)
with open(out, "rb") as f:
    after = pickle.load(f)["allocator_settings"]
expect("settings without end", after["max_split_size"] == 2**40 and "brand_new" not in after, after)

lib.finish("formats: all read to the same report", least=20)
