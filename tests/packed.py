#!/usr/bin/env python3
"""packed.py PLIMSOLL DATA... [--all]: recordings packed and back: every command says the same of both, and they are small.

Each recording is packed; what commands say of the packed one must be byte for byte what they say of the recording, except for
the file's own name, kind and size.  What --unpack gives, and what tests/plim_reader.py reads, are compared with the recording as
Python reads it.  Packed in two parts (--append) it must be the same again; --redact must leave no private name, and say what
report --redact says.
"""
import json
import os
import pickle
import re
import sys
import tempfile

import lib
import plim_reader

lib.start(sys.argv[1])
folder = tempfile.TemporaryDirectory()
EVERYTHING = "--all" in sys.argv
EVENTS_LARGE, SMALLER_LARGE, SMALLER = 100000, 40, 12
LEAST_BYTES = 15000  # below that a pickle is hardly more than its names
FEW_EVENTS = 6000  # Python reads so many in a fifth of a second

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


def words(snapshot):
    """A snapshot as both readers have it; a line that is not known is -1 or 2^64 - 1."""
    def stack(row):
        return [(f["name"], f["filename"], f["line"] if f["line"] < 1 << 32 else -1) for f in row.get("frames") or ()]

    return ([[({k: v for k, v in e.items() if k in KEYS}, stack(e)) for e in t] for t in snapshot.get("device_traces", [])],
            [(s["address"], s["total_size"], s["stream"], [(b["size"], b["state"], stack(b)) for b in s["blocks"]])
             for s in snapshot["segments"]],
            [(a["stage"], a["time_us"], a["name"]) for a in snapshot.get("external_annotations", ())])


KEYS = {"action", "addr", "device_free", "size", "stream", "time_us", "pool_id", "compile_context", "user_metadata"}


def read_alone(name, snapshot, packed):
    """The reader that shares nothing with ours."""
    with open(packed, "rb") as f:
        lib.expect(words(plim_reader.read(f.read())) == words(snapshot), name, "the reader in Python reads something else")


def named(plain, place, folder):
    """A packed file that is called as the recording is: names stand in what is said."""
    os.mkdir(os.path.join(place, folder))
    return os.path.join(place, folder, os.path.basename(plain).rsplit(".", 1)[0] + ".plim")


def in_two(name, snapshot, plain, place):
    """The later part's clock is a little off, as PyTorch's is from one snapshot to the next."""
    events = snapshot["device_traces"]
    grown, expected = named(plain, place, "grown"), os.path.join(place, "later.pickle")
    for part, clock in ((slice(0, 2), 0), (slice(1, 3), 2)):
        cuts = [[len(t) * i // 3 for i in range(4)] for t in events]
        rows = [[{**e, "time_us": e["time_us"] + clock} for e in t[c[part.start]:c[part.stop]]] for t, c in zip(events, cuts)]
        with open(expected, "wb") as f:
            pickle.dump({**snapshot, "device_traces": rows}, f, protocol=4)
        lib.run("pack", "--append", expected, "-o", grown)
    with open(grown, "rb") as f:
        ours = plim_reader.read(f.read())
    for t in ours["device_traces"] + events:
        for e in t:
            e.pop("time_us")
    lib.expect(words(ours)[:2] == words(snapshot)[:2], name, "in two parts it is another one")
    told = [re.sub(r'"[a-z_]*time_us": .*', "", "".join(said(("report", "@", "--json"), p)[1])) for p in (plain, grown)]
    lib.expect(told[0] == told[1], name, "another answer in two parts")
    lib.expect("; 0 more events" in lib.run("pack", "--append", expected, "-o", grown).stdout, name, "the same is appended twice")
    lib.run("report", grown)


PUBLIC = ("/site-packages/", "/dist-packages/", "/lib/python3")
COMPILED = re.compile(r"/c[a-z2-7]{40,}\.py$")  # torch.compile's own, a hash
WORD = re.compile(r"(Optimizer.step#|::)?(file|function|range|key|label|settings|conf)-[0-9]+(\.[a-z]+)?|(/../)?\bc[a-z2-7]{40,}\.py")


def without_names(name, snapshot, plain, packed, place):
    """No private name is left, and what is reported is what report --redact shows."""
    redacted = named(plain, place, "redacted")
    lib.run("pack", "--redact", packed, "-o", redacted)
    told = [NAMED.sub(r"word:\1 in word", WORD.sub("word", re.sub(r'\n *"notes": .*', "", "".join(said(question, path)[1]))))
            for question, path in ((("report", "@", "--json", "--redact"), plain), (("report", "@", "--json"), redacted))]
    lib.expect(told[0] == told[1], name, "redacted it is told otherwise")
    with open(redacted, "rb") as f:
        part, = plim_reader.parts(f.read())
    left = {plim_reader.said(t) for t in part.texts}
    frames = {(f["name"], f["filename"]) for t in snapshot.get("device_traces", ()) for e in t for f in e.get("frames") or ()}
    public = {n for n, f in frames if any(p in f for p in PUBLIC) or not f or f == "??"}
    for function, file in frames:
        if file.endswith(".py") and not any(p in file for p in PUBLIC) and not COMPILED.search(file):
            lib.expect(file not in left and not any(os.path.basename(file) in text for text in left), name, file, "is left")
            lib.expect(function not in left - public or function in CUES, name, function, "is left")


CUES = {"_init_group", "zero_grad", "forward", "backward", "__init__", "_apply", "__deepcopy__", "from_pretrained", "load_state_dict",
        "to_empty", "load_model", "generate"}


# What shows C++ from Python, and a phase, is kept in a file, and not in a report.
NAMED = re.compile(rf"word:([0-9]+) in (word|{'|'.join(sorted(CUES))})\b")


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
    snapshot = lib.load(plain)
    if isinstance(snapshot, dict) and "device_traces" in snapshot:
        without_names(name, snapshot, plain, packed, place)
        if EVERYTHING or sum(map(len, snapshot["device_traces"])) < FEW_EVENTS:
            read_alone(name, snapshot, packed)
            if all("time_us" in e for t in snapshot["device_traces"] for e in t) and max(map(len, snapshot["device_traces"])) > 100:
                in_two(name, snapshot, plain, place)
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
