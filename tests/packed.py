#!/usr/bin/env python3
"""packed.py PLIMSOLL DATA... [--all]: recordings packed and back: every command says the same of both, and they are small.

Each recording is packed; what commands say of the packed one must be byte for byte what they say of the recording, but for
the file's own name, kind and size.  What --unpack gives is compared with the recording as Python reads both.
"""
import json
import os
import re
import sys
import tempfile

import lib

lib.start(sys.argv[1])
folder = tempfile.TemporaryDirectory()
EVERYTHING = "--all" in sys.argv
EVENTS_LARGE, SMALLER_LARGE, SMALLER = 100000, 40, 12
LEAST_BYTES = 15000  # below that a pickle is hardly more than its names

LOG = os.path.join(sys.argv[2], "deaths", "churn.txt")
# What commands are asked of each; "@" stands for the recording.
QUESTIONS = [
    ("report", "@", "--json", "--events"),
    ("report", "@", "--json", "--at", "end", "--redact"),
    ("report", "@", "--why"),
    ("report", "@", "--json", "--steps"),
    ("whatif", "@", "--json", "--settings", "expandable_segments:True"),
    ("why", LOG, "--snapshot", "@", "--json"),
    ("diff", "@", "@", "--json"),
    ("__live", "@"),
]
ALWAYS = 1  # the first ones are asked of each recording; of the others one each in turn, or with --all every one
# Of the file, not of the recording.
OWN = re.compile(r'^ *"(path|kind|compression|bytes|decoded_bytes|file_bytes)": .*\n', re.M)


def said(question, path):
    """What it says, without what is the file's own."""
    done = lib.run(*[path if a == "@" else a for a in question], codes=lib.ANY)
    name = os.path.basename(path)
    return done.returncode, [OWN.sub("", text).replace(path, "@").replace(name, "@").replace(name.rsplit(".", 1)[0], "@")
                             for text in (done.stdout, done.stderr)]


def without_notes(snapshot):
    """A snapshot as far as the packed form promises it: what no reader knows is left out of both."""
    traces = snapshot.get("device_traces", []) if isinstance(snapshot, dict) else []
    return [[(e["action"], e.get("addr", e.get("device_free")), e["size"], e.get("stream"), e.get("time_us"),
              [(f["name"], f["filename"], f["line"]) for f in e.get("frames") or ()]) for e in t] for t in traces]


def check(path, number):
    """One recording: packed, unpacked, and asked."""
    name = os.path.basename(path)
    place = os.path.join(folder.name, str(number))
    os.mkdir(place)
    plain, = lib.unpacked([path], place)
    packed, back = plain.rsplit(".", 1)[0] + ".plim", os.path.join(place, "back.pickle")
    lib.run("pack", plain, "-o", packed)
    lib.run("pack", "--unpack", packed, "-o", back)
    lib.expect(without_notes(lib.load(plain)) == without_notes(lib.load(back)), name, "another snapshot comes back")
    turn = number % (len(QUESTIONS) - ALWAYS) + ALWAYS
    for question in QUESTIONS if EVERYTHING else QUESTIONS[:ALWAYS] + [QUESTIONS[turn]]:
        lib.expect(said(question, plain) == said(question, packed), name, "another answer to", *question)
    again = os.path.join(place, "again.plim")
    lib.run("pack", packed, "-o", again)
    with open(packed, "rb") as a, open(again, "rb") as b:
        lib.expect(a.read() == b.read(), name, "packed twice it is another file")
    events = json.loads(lib.run("report", packed, "--json").stdout)["source"]["events"]
    size, small = os.path.getsize(plain), os.path.getsize(packed)
    least = SMALLER_LARGE if events >= EVENTS_LARGE else SMALLER
    lib.expect(size < LEAST_BYTES or size >= least * small, name, f"{size} bytes to {small}: less than {least} times smaller")
    for made in os.listdir(place):
        if made.endswith((".pickle", ".plim")):
            os.unlink(os.path.join(place, made))
    return size, small


known = list(lib.recordings(a for a in sys.argv[2:] if a != "--all"))
readable = [p for p in known if lib.run("report", p, "--json", codes=lib.ANY).returncode in (0, 1)]
sizes = [s for s in lib.jobs(check, readable, range(len(readable))) if s]
lib.expect(len(readable) > 40, "the data", f"only {len(readable)} recordings")
folder.cleanup()
lib.finish(f"{len(sizes)} recordings packed and back; "
           f"{sum(s for s, _ in sizes) / max(1, sum(s for _, s in sizes)):.1f} times smaller together", least=100)
