#!/usr/bin/env python3
"""page.py [SNAPSHOT...]: what writing a page costs, and what it is made of.

PLIMSOLL is the program, MAKE_SNAPSHOT makes a recording of 2,000,000 events.  Seconds are of the whole process, medians
of interleaved runs; what the page costs is the difference to `report` alone.  A column's bytes are what it takes deflated
by itself, which together is near what they take together; in the file base64 adds a third.
"""
import os
import statistics
import subprocess
import sys
import tempfile
import time
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests"))
import page_reader  # noqa: E402

RUNS = 5
RECORDING = "tests/data/llama_s_ckpt.pickle.xz"


def seconds(*args):
    """Of the whole process."""
    before = time.perf_counter()
    process = subprocess.Popen([os.environ["PLIMSOLL"], "report", *args], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if process.wait():
        sys.exit(f"plimsoll failed on {args}")
    return time.perf_counter() - before


def deflated(data):
    c = zlib.compressobj(6, zlib.DEFLATED, -15)
    return len(c.compress(data) + c.flush())


def show_parts(html):
    sections, rest = page_reader.sections_of(html)
    part = page_reader.Part(sections, 0)
    packed, rows = sections["plim-0-columns"], {}
    for name, c in part.head["columns"].items():
        rows[name] = (c["rows"] * c["bytes"], deflated(packed[c["at"]:c["at"] + c["rows"] * c["bytes"]]))
    rows["head"] = (len(sections["plim-0-head"]), deflated(sections["plim-0-head"]))
    for name, (plain, small) in sorted(rows.items(), key=lambda r: -r[1][1]):
        if small >= 1000:
            print(f"{name:>20} {plain / 1e6:>9.3f} {small / 1e6:>9.3f}")
    left = [small for _, small in rows.values() if small < 1000]
    print(f"{'':>20} {'':>9} {sum(left) / 1e6:>9.3f} in {len(left)} more")
    print(f"{'viewer':>20} {len(rest.encode()) / 1e6:>9.3f}           as it is", flush=True)


def measure(name, path, folder):
    out = os.path.join(folder, "page.html")
    rows = []
    seconds(path)
    for _ in range(RUNS):
        rows.append((seconds(path), seconds(path, "-o", out)))
    alone, both = (statistics.median(r[i] for r in rows) for i in range(2))
    with open(out, encoding="utf-8") as f:
        html = f.read()
    print(f"{name}: report {alone:.3f} s, with the page {both:.3f} s: {both - alone:.3f} s and {os.path.getsize(out) / 1e6:.2f} MB")
    print(f"{'':>20} {'MB':>9} {'deflated':>9}")
    show_parts(html)


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "made.pickle")
        subprocess.run([os.environ["MAKE_SNAPSHOT"], RECORDING, "2000000", path], check=True)
        measure("made, 2,000,000 events", path, folder)
        for path in sys.argv[1:]:
            measure(os.path.basename(path), path, folder)


main()
