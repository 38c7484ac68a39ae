#!/usr/bin/env python3
"""page.py PLIMSOLL DATA [SNAPSHOT...]: what is in a page is what is in the recording.

Pages are unpacked as docs/formats/page.md says.  Each recording is read by Python's pickle and its allocations are paired here
anew, by a few lines that share nothing with the program; every row must be equal.  The four totals follow from the rows at
every event, the segments too.  Also: named ranges, names that want to be markup, names that are too long, --redact,
--strip-prefix, the same bytes each time, several recordings in a page, a disk that is full.  With SNAPSHOTs only these are
compared.
"""
import json
import lzma
import os
import pickle
import random
import resource
import subprocess
import sys
import tempfile

import lib
import made_recordings as made
import page_reader

lib.start(sys.argv[1])
data = os.path.abspath(sys.argv[2])
seen = {"recordings": 0, "allocations": 0, "events": 0}


def check(ok, *what):
    if not ok:
        lib.fail("page", *what)
    return ok


def write_page(*args, fails=False, out="page.html"):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, out)
        p = lib.run("report", *args, "-o", path, codes=lib.ANY)
        check((p.returncode != 0) == fails, args, p.returncode, p.stderr)
        if p.returncode:
            check(not os.listdir(folder), "a failure left", os.listdir(folder))
            return p.stderr
        with open(path, encoding="utf-8", newline="") as f:
            return f.read()


# ---- the recording, by itself ----

def load(path):
    with (lzma.open if path.endswith(".xz") else open)(path, "rb") as f:
        return pickle.load(f)


NEVER = None


def pair(events, segments):
    """Lives in the order of their births: [addr, size, born, freed, done, stream, frames], moments; None: never."""
    before, after, live = [], [], {}
    for e, ev in enumerate(events):
        action = ev["action"]
        if action not in ("alloc", "free_requested", "free_completed", "free"):
            continue
        if action == "alloc":
            life = [ev["addr"], ev["size"], e + 1, NEVER, NEVER, ev["stream"], ev.get("frames", [])]
            live[ev["addr"]] = life
            after.append(life)
            continue
        if ev["addr"] not in live:
            live[ev["addr"]] = [ev["addr"], ev["size"], 0, NEVER, NEVER, ev["stream"], []]
            before.append(live[ev["addr"]])
        life = live[ev["addr"]]
        if action == "free_requested":
            life[3] = e + 1
        else:
            life[4] = e + 1
            del live[ev["addr"]]
    for s in segments:
        at = s["address"]
        for b in s["blocks"]:
            if b["state"] != "inactive" and b.get("address", at) not in live:
                before.append([b.get("address", at), b["requested_size"], 0, NEVER, NEVER, s["stream"], b.get("frames", [])])
            at += b["size"]
    return before + after


def reserved_of(events, segments):
    """Reserved bytes after each event, backwards from what stands at the end."""
    now = sum(s["total_size"] for s in segments)
    out = [now]
    for ev in reversed(events):
        if ev["action"] in ("segment_alloc", "segment_map"):
            now -= ev["size"]
        elif ev["action"] in ("segment_free", "segment_unmap"):
            now += ev["size"]
        out.append(now)
    return out[::-1]


def curve(events, spans):
    """The sum after each event of bytes that live in [born, end); an end of 0 is never."""
    change = [0] * (events + 2)
    for born, end, size in spans:
        change[born] += size
        if end:
            change[end] -= size
    now, out = 0, []
    for m in range(events + 1):
        now += change[m]
        out.append(now)
    return out


# ---- held against each other ----

def short(file):
    at = file.find("/site-packages/")
    return file[at + len("/site-packages/"):] if at >= 0 else file


def compare_lives(name, part, lives):
    rows = part.rows("allocs", ["addr", "size", "born", "freed", "done", "stream", "stack", "flags"])
    if not check(len(rows) == len(lives), name, len(rows), "rows of", len(lives), "allocations"):
        return
    stacks = {}
    # what was there before has no order of its own
    key = (lambda x: (x[2], x[0], x[3] or 0, x[4] or 0))
    for row, life in zip(sorted(rows, key=key), sorted(lives, key=key)):
        addr, size, born, freed, done, stream, stack, flags = row
        own = (addr, size, born, freed or NEVER, done or NEVER, int(part.head["streams"][stream]))
        if not check(own == tuple(life[:6]), name, own, "is", life[:6]):
            return
        python = [f for f in life[6] if f["filename"].endswith(".py") or f["filename"].startswith("<")]
        frames = life[6] if python else []  # a stack of C++ alone is none
        if not frames:
            check(not stack or flags & 1 or life[6], name, row, "has a stack that nobody recorded")
            continue
        if not check(stack and not flags & 1, name, row, "has lost its stack"):
            return
        if stack not in stacks:
            stacks[stack] = part.stack(stack - 1)
        want = [(short(f["filename"]), f["name"], f["line"]) for f in frames]
        if not check(stacks[stack] == want, name, row, stacks[stack][:3], "is", want[:3]):
            return


def compare_totals(name, part, events, segments):
    n, device = part.head["events"], part.device
    rows = part.rows("allocs", ["born", "freed", "done", "size", "block", "flags"])
    curves = {
        "requested": curve(n, [(b, done, size) for b, _, done, size, _, _ in rows]),
        "active": curve(n, [(b, done, block) for b, _, done, _, block, _ in rows]),
        "allocated": curve(n, [(b, freed, block) for b, freed, _, _, block, flags in rows if not flags & 2]),
        "reserved": curve(n, part.rows("segments", ["born", "gone", "size"])),
    }
    check(curves["reserved"] == reserved_of(events, segments), name, "reserved is not the sum of segments somewhere")
    for measure, c in curves.items():
        peak, event = device["peak"][measure + "_bytes"], device["peak"][measure]["event"]
        moment = 0 if event is None else event + 1
        check(max(c) == peak and c.index(peak) == moment, name, measure, "peak", max(c), c.index(max(c)), "is", peak, moment)
        check(c[0] == device["before"][measure + "_bytes"], name, measure, "before")
        check(c[-1] == device["end"][measure + "_bytes"], name, measure, "at the end")
    # all of the curve, by the report's own samples: the largest value in each of equal parts
    samples = device["timeline_bytes"]
    for i in range(len(samples) if n else 0):
        first, end = -(-i * n // len(samples)), -(-(i + 1) * n // len(samples))
        if first < end:
            check(max(curves["allocated"][first + 1:end + 1]) == samples[i], name, "sample", i)


def compare_categories(name, part):
    end = dict(part.device["end"]["categories"] or {})
    rows = part.rows("allocs", ["freed", "block", "rule", "flags"])
    sums = {c["id"]: 0 for c in part.head["categories"]}
    for freed, block, rule, flags in rows:
        if not freed and not flags & 2:
            sums[part.head["categories"][part.head["rules"][rule]["category"]]["id"]] += block
    if end:
        check(sums == end, name, "categories at the end", sums, end)
    phases = part.rows("phases", ["from", "phase"])
    check(all(a[0] < b[0] and a[1] != b[1] for a, b in zip(phases, phases[1:])), name, "phases are runs")


def compare_segment_stacks(name, part, events):
    """Who asked the driver for a segment is who the recording says."""
    for born, stack in part.rows("segments", ["born", "stack"]):
        frames = events[born - 1].get("frames", []) if born else []
        if not any(f["filename"].endswith(".py") or f["filename"].startswith("<") for f in frames):
            check(not stack, name, "a segment has a stack that nobody recorded")
            continue
        want = [(short(f["filename"]), f["name"], f["line"]) for f in frames]
        if not check(stack and part.stack(stack - 1) == want, name, "who asked for a segment", want[:3]):
            return


def compare_shown(name, part):
    """The rows that findings are about are what they count, to the byte; those of a leak are never freed before its last
    repetition."""
    for fault in part.mispainted():
        check(False, name, fault)
    freed, shown = [row for row, in part.rows("allocs", ["freed"])], part.shown()
    for leak in part.device["leaks"]:
        mine = shown[leak["finding"]] if leak["finding"] is not None else []
        check(all(not freed[a] or freed[a] > leak["last_event"] for a in mine), name, "a row of a leak is freed")
        seen["leaked rows"] = seen.get("leaked rows", 0) + len(mine)


def compare_segments(name, part, segments):
    """At the end: the snapshot's own segments; never two at one address."""
    rows = part.rows("segments", ["born", "gone", "addr", "size", "pool", "stream", "flags"])
    rest = sorted((r[2], r[3]) for r in rows if not r[1])
    joined = []
    whole = {s["address"] for s in segments}
    for addr, size in rest:
        if joined and sum(joined[-1]) == addr and addr not in whole:
            joined[-1] = (joined[-1][0], joined[-1][1] + size)
        else:
            joined.append((addr, size))
    check(joined == sorted((s["address"], s["total_size"]) for s in segments), name, "segments at the end")
    changes = sorted([(r[0], 1, i) for i, r in enumerate(rows)] + [(r[1], 0, i) for i, r in enumerate(rows) if r[1]])
    live = {}
    for _, born, i in changes:
        addr, size = rows[i][2:4]
        if not born:
            del live[addr]
            continue
        check(addr not in live, name, "two segments at", hex(addr))
        live[addr] = size
    expandable = any(s.get("is_expandable") for s in segments)
    check(expandable or not any(r[6] & 2 for r in rows), name, "expandable segments where there are none")


def compare_place(name, part):
    """What findings point to is what they say."""
    check(len(part.head["show"]) == len(part.device["findings"]), name, "show")
    for show, finding in zip(part.head["show"], part.device["findings"]):
        if finding["place"]["frame"] is None:
            check(show["frame"] is None, name, finding["id"], show)
            continue
        file, function, line = part.frame(show["frame"])
        said = (f"{file}:{line}" if line else file) + f" in {function}"
        check(said == finding["place"]["frame"], name, finding["id"], said, finding["place"]["frame"])
        check(any(part.frame(show["frame"]) == f for f in part.stack(show["stack"])), name, finding["id"], "not on its stack")


def compare_owners(name, part):
    """Who holds the memory at the moment that the report says of, from rows, stacks and their lines."""
    told = part.device["at_peak"]
    m = 0 if told["event"] is None else told["event"] + 1
    sums = {}
    for born, freed, block, stack, flags in part.rows("allocs", ["born", "freed", "block", "stack", "flags"]):
        if born <= m and (not freed or m < freed) and not flags & 2:
            user = part.columns["stacks.user"][stack - 1] if stack else 0
            key = user, flags & 1, not stack and not born  # what was there before the recording is distinguished
            bytes_, count = sums.get(key, (0, 0))
            sums[key] = bytes_ + block, count + 1
    check(sum(b for b, _ in sums.values()) == told["total_bytes"], name, "owners' total")
    largest = sorted(sums.values(), reverse=True)[:len(told["owners"])]
    check(largest == [(o["bytes"], o["count"]) for o in told["owners"]], name, "owners", largest, told["owners"])


def compare_times(name, part, events):
    stride, times = part.head["time_stride"], part.columns.get("time.us", [])
    if not times:
        check(not any("time_us" in e for e in events), name, "times were recorded")
        return
    want = list(range(0, len(events), stride))
    want += [len(events) - 1] if want[-1] != len(events) - 1 else []
    check(times == [events[e]["time_us"] for e in want], name, "times")


def compare(path, snapshot=None):
    name = os.path.basename(path)
    snapshot = snapshot or load(path)
    if isinstance(snapshot, list):
        snapshot = {"segments": snapshot, "device_traces": []}
    parts, _ = page_reader.read(write_page(path))
    seen["recordings"] += 1
    for part in parts:
        d = part.device["device"]
        events = snapshot["device_traces"][d] if d < len(snapshot["device_traces"]) else []
        segments = [s for s in snapshot["segments"] if s["device"] == d]
        check(part.head["events"] == len(events), name, "events")
        seen["events"] += len(events)
        lives = pair(events, segments)
        seen["allocations"] += len(lives)
        compare_lives(name, part, lives)
        compare_totals(name, part, events, segments)
        compare_categories(name, part)
        compare_segments(name, part, segments)
        compare_segment_stacks(name, part, events)
        compare_place(name, part)
        compare_shown(name, part)
        compare_owners(name, part)
        compare_times(name, part, events)
    return snapshot


def compare_cut(folder, snapshot, name):
    """Without its beginning, as a ring leaves it; the last part also without a stack."""
    for keep in (0.7, 0.2):
        cut = dict(snapshot, device_traces=[t[-int(len(t) * keep):] for t in snapshot["device_traces"]])
        path = os.path.join(folder, f"{name}-{keep}.pickle")
        with open(path, "wb") as f:
            pickle.dump(cut, f)
        compare(path, cut)


# ---- several, names, failures ----

def check_several():
    """Two recordings are two times one; the same bytes each time."""
    paths = [os.path.join(data, n) for n in ("gpt2_s.pickle.xz", "formats/exp.pickle")]
    both = write_page(*paths)
    check(both == write_page(*paths), "the same recordings, other bytes")
    sections, rest = page_reader.sections_of(both)
    told = ["plim-answer-text", "plim-answer-result"]
    check(list(sections) == [f"plim-{i}-{s}" for i in (0, 1) for s in ("head", "columns")] + told, list(sections))
    ranks = json.loads(lib.run("report", *paths, "--json").stdout)
    check(json.loads(sections[told[1]])["rows"] == ranks["rows"], "what ranks says is not on its page")
    check(b"2 recordings" in sections[told[0]], sections[told[0]][:100])
    for i, path in enumerate(paths):
        one, rest_of_one = page_reader.sections_of(write_page(path))
        check(rest == rest_of_one, "what is around the sections depends on them")
        check(sections[f"plim-{i}-columns"] == one["plim-0-columns"], path, "columns")
        check(json.loads(sections[f"plim-{i}-head"]) == {**json.loads(one["plim-0-head"]), "recording": i}, path, "head")
    policy, allowed, found = page_reader.policy_of(rest)
    check(policy.startswith("default-src 'none';") and "unsafe" not in policy, policy)
    check(allowed == found and [k for k, _ in found] == ["script", "style"], "hashes", allowed, found)
    check("<!--" not in rest and "\r" not in rest and "\0" not in rest, "the viewer holds what HTML changes")
    check(rest.count("</script") == 1 and rest.count("</style") == 1, "the viewer ends its own tag")


def check_mapping():
    """Pages mapped in pieces of any size and unmapped in others, some from before, in no order of addresses."""
    random.seed(8)
    base, page, pages = 0x7F0000000000, 2 << 20, 4000
    mapped = [random.random() < 0.5 for _ in range(pages)]
    born, lives, events = [0 if m else None for m in mapped], [], []
    for _ in range(9000):
        first = random.randrange(pages)
        n = 1
        while n < random.choice((1, 2, 9, 40)) and first + n < pages and mapped[first + n] == mapped[first]:
            n += 1
        unmap = mapped[first]
        events.append({"action": "segment_unmap" if unmap else "segment_map", "addr": base + page * first, "size": page * n,
                       "stream": 0, "time_us": len(events), "frames": []})
        for i in range(first, first + n):
            mapped[i] = not unmap
            if unmap:
                lives.append((i, born[i], len(events)))
            else:
                born[i] = len(events)
    lives += [(i, born[i], 0) for i in range(pages) if mapped[i]]
    segments = [{"device": 0, "address": base + page * i, "total_size": page, "stream": 0, "segment_type": "large",
                 "is_expandable": True, "blocks": [{"address": base + page * i, "size": page, "requested_size": 0,
                                                    "state": "inactive", "frames": []}]} for i in range(pages) if mapped[i]]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "mapped.pickle")
        with open(path, "wb") as f:
            pickle.dump({"segments": segments, "device_traces": [events]}, f)
        (part,), _ = page_reader.read(write_page(path))
    rows = part.rows("segments", ["born", "gone", "addr", "size"])
    got = [((addr - base) // page + i, b, g) for b, g, addr, size in rows for i in range(size // page)]
    check(sorted(got) == sorted(lives), "mapped pages", len(got), len(lives), set(got) ^ set(lives))
    check(rows == sorted(rows, key=lambda r: (r[0], r[2])), "rows are by birth, then address")


def check_devices():
    """A recording of two devices: two parts, each with its own."""
    a, b = (load(os.path.join(data, n)) for n in ("gpt2_s.pickle.xz", "rnn.pickle.xz"))
    joined = dict(a, device_traces=[a["device_traces"][0], b["device_traces"][0]],
                  segments=a["segments"] + [dict(s, device=1) for s in b["segments"]])
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "two.pickle")
        with open(path, "wb") as f:
            pickle.dump(joined, f)
        parts, _ = page_reader.read(write_page(path))
        check([(p.head["recording"], p.device["device"]) for p in parts] == [(0, 0), (0, 1)], "two devices")
        parts, _ = page_reader.read(write_page(path, path, "--device", "1"))
        check([(p.head["recording"], p.device["device"]) for p in parts] == [(0, 1), (1, 1)], "the second device twice")
        compare(path, joined)


def check_whatif():
    """A run that goes on where its recording failed: what lives there is the same, and for the same.  What was made for a
    backward pass that never came was taken for outputs that the program kept."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "page.html")
        path = os.path.join(data, "oom_moe.pickle.xz")
        lib.run("whatif", path, "--keep", "expandable_segments:True", "-o", out)
        with open(out, encoding="utf-8", newline="") as f:
            recorded, tried = page_reader.read(f.read())[0]
    check(recorded.device["oom"] and not tried.device["oom"], "whatif's run does not survive")
    death = recorded.device["oom"][-1]["event"]
    made = []
    for part in recorded, tried:
        rows = part.rows("allocs", ["born", "size", "rule"])
        made.append([(size, part.head["categories"][part.head["rules"][rule]["category"]]["id"]) for born, size, rule in rows if born])
    n = sum(0 < born <= death for born, in recorded.rows("allocs", ["born"]))
    check(n > 10000 and made[0][:n] == made[1][:n], "whatif's run has other categories than its recording",
          [pair for pair in zip(made[0][:n], made[1][:n]) if pair[0] != pair[1]][:3])


def check_ranges():
    """record_function's ranges, whole and with an end that the ring dropped, and runs of user_metadata; redacted, too."""
    card = made.Card()
    card.mark("END", "lost")
    card.mark("START", "train")
    want = {("lost", 0, 0, 1)}
    weights = [card.alloc(12 * made.MIB, made.BUILD) for _ in range(3)]
    for event in card.events:
        event["user_metadata"] = "tagged-w" if event["action"] == "alloc" else ""
    first = next(e for e, event in enumerate(card.events) if event["action"] == "alloc")
    want.add(("tagged-w", first, len(card.events), 4))
    for step in range(4):
        start = len(card.events)
        card.mark("START", f"step#{step}")
        card.mark("START", "inner-part")
        blocks = [card.alloc((4 + i) * made.MIB, made.module(20, i)) for i in range(3)]
        card.mark("END", "inner-part")
        want.add(("inner-part", start, len(card.events), 0))
        card.drop(*blocks)
        card.mark("END", f"step#{step}")
        want.add((f"step#{step}", start, len(card.events), 0))
    card.drop(*weights)
    want.add(("train", 0, len(card.events), 2))
    for event in card.events:
        event.setdefault("user_metadata", "")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "ranges.pickle")
        with open(path, "wb") as f:
            pickle.dump(card.snapshot(), f)
        (part,), _ = page_reader.read(write_page(path))
        (hidden,), _ = page_reader.read(write_page(path, "--redact"))
    columns = ["name", "from", "to", "flags"]
    rows = part.rows("ranges", columns)
    got = {(part.head["strings"][name], *rest) for name, *rest in rows}
    check(got == want and len(rows) == len(want), "ranges", got ^ want)
    check([rest for _, *rest in hidden.rows("ranges", columns)] == [rest for _, *rest in rows], "ranges are redacted away")
    check(not hidden.has("inner-part") and not hidden.has("tagged-w"), "names of ranges are not redacted")


def check_prefix():
    path = os.path.join(data, "gpt2_s.pickle.xz")
    whole, _ = page_reader.read(write_page(path))
    file = next(s for s in whole[0].head["strings"] if s.startswith("/") and s.endswith(".py"))
    prefix = file[:file.rindex("/") + 1]
    parts, _ = page_reader.read(write_page(path, "--strip-prefix", prefix))
    check(not parts[0].has(prefix) and file[len(prefix):] in parts[0].head["strings"], "--strip-prefix", prefix)


def check_failures():
    path = os.path.join(data, "formats", "basic.pickle")
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "page.html")
        with open(out, "w", encoding="utf-8") as f:
            f.write("old")
        # a file may not become larger than this, as on a disk that is full
        full = subprocess.run([lib.program, "report", path, "-o", out], capture_output=True, text=True, check=False,
                              restore_signals=False,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)))
        check(full.returncode == 3 and os.listdir(folder) == ["page.html"] and full.stderr.count("\n") == 1,
              "a full disk", full.returncode, full.stderr, os.listdir(folder))
        with open(out, encoding="utf-8") as f:
            check(f.read() == "old", "a full disk took the old page")
    said = write_page(path, os.path.join(data, "no such.pickle"), fails=True)
    check("no such.pickle" in said, said)


def main():
    for path in sys.argv[3:]:
        compare(path)
    if sys.argv[3:]:
        lib.finish(seen)
    with tempfile.TemporaryDirectory() as folder:
        for sub in ("", "formats", "settings", "deaths"):
            top = os.path.join(data, sub)
            for file in sorted(os.listdir(top)):
                if not file.endswith((".pickle", ".pickle.xz")):
                    continue
                snapshot = compare(os.path.join(top, file))
                if sub in ("formats", "settings") or file.startswith(("streams", "graph", "oom_moe")):
                    compare_cut(folder, snapshot, file)
    check_several()
    check_mapping()
    check_devices()
    check_whatif()
    check_ranges()
    check_prefix()
    check_failures()
    lib.finish(seen, least=50)


main()
