#!/usr/bin/env python3
"""diff.py PLIMSOLL DATA: what must hold for the difference of any two recordings.

The parts add up to the whole, also when rows are cut off; a recording does not differ from itself; B against A
is A against B the other way round; sums are report's.  A program that was edited and moved to another folder has
the same owners, and a row says how it was matched.
"""
import functools
import glob
import os
import pickle
import sys
import tempfile

import lib
from lib import fail, load

GROUPS = ("user-frame", "stack", "category", "phase")
SWAPPED = {"only_a": "only_b", "only_b": "only_a"}
MEASURES = ("requested", "active", "allocated", "reserved")
# Whom a recording is compared with, in the sorted list: the next one, often a sibling, and one of another kind.
PARTNERS = (1, 17)
ANY_END = range(256)  # of a run whose exit code is what is tested


def run(*arguments):
    done = lib.run(*arguments, codes=ANY_END)
    return done.returncode, done.stdout, done.stderr


def diff(*arguments):
    return lib.result("diff", *arguments, codes=(0, 1))


@functools.cache
def report_of(path):
    return lib.result("report", path)


def name(path):
    return os.path.basename(path).split(".")[0]


def moments(d):
    for device in d["devices"]:
        for at in ("at_peak", "at_end"):
            if device[at]:
                yield device, at, device[at]


def check_sums(what, d):
    for device, at, m in moments(d):
        where = f"{what}, GPU {device['device']} {at}"
        for side in "ab":
            rows = sum(r[f"{side}_bytes"] for r in m["rows"]) + m[f"rest_{side}_bytes"] + m["unchanged_bytes"]
            if rows != m[f"{side}_bytes"]:
                fail(where, f"rows of {side} make {rows}, not", m[f"{side}_bytes"])
            total = device["peak" if at == "at_peak" else "end"]["allocated"][f"{side}_bytes"]
            if not total - device[f"{side}_slack_bytes"] <= m[f"{side}_bytes"] <= total:
                fail(where, f"owners of {side} make {m[side + '_bytes']}, not", total)
            for parts in ("categories", "phases"):
                if m[parts] and sum(p[f"{side}_bytes"] for p in m[parts]) != m[f"{side}_bytes"]:
                    fail(where, parts, side)
        for rows in (m["rows"], m["categories"], m["phases"]):
            for r in rows:
                if r["change_bytes"] != r["b_bytes"] - r["a_bytes"]:
                    fail(where, "a row's change", r)
        if sum(r["change_bytes"] for r in m["rows"]) + m["rest_change_bytes"] != m["change_bytes"]:
            fail(where, "changes do not add up")
        sizes = [abs(r["change_bytes"]) for r in m["rows"]]
        if sizes != sorted(sizes, reverse=True):
            fail(where, "rows are not in order")
        for r in m["rows"]:
            if (r["a_bytes"], r["a_count"]) == (r["b_bytes"], r["b_count"]):
                fail(where, "a row without a change", r)
            if abs(r["part_change_bytes"]) > abs(r["change_bytes"]) and r["part_change_bytes"] * r["change_bytes"] < 0:
                fail(where, "a part goes the other way", r)


def check_same(path):
    d = diff(path, path)
    rows = [r for _, _, m in moments(d) for r in m["rows"]]
    if d["different"] or rows or d["settings"] or any(x["different"] for x in d["devices"]):
        fail(f"{name(path)} against itself", rows[:1], d["settings"])
    code, out, _ = run("diff", path, path, "--fail-over", "0%")
    died = any(x["b_bound_why"] == "died" for x in d["devices"])  # a gate never passes a run that ran out of memory
    if code != died or "No difference" not in out and d["devices"]:
        fail(f"{name(path)} against itself in text", code, out[:300])


def comparable(r, swap):
    """A row as seen from one side: the other side's numbers swapped back."""
    a, b = ("b", "a") if swap else ("a", "b")
    names = (r["name"], r["a_name"] or r["name"])
    return (names[::-1] if swap else names, SWAPPED.get(r["match"], r["match"]) if swap else r["match"], r["inferred"],
            r[f"{a}_bytes"], r[f"{b}_bytes"], r[f"{a}_count"], r[f"{b}_count"],
            -r["change_bytes"] if swap else r["change_bytes"])


def check_swapped(what, there, back):
    for x in there["devices"]:
        y = next(y for y in back["devices"] if y["device"] == x["device"])
        for part in ("peak", "end"):
            for measure in MEASURES:
                if x[part][measure]["change_bytes"] != -y[part][measure]["change_bytes"]:
                    fail(what, part, measure, "is not the negative")
        for at in ("at_peak", "at_end"):
            one = sorted(map(str, (comparable(r, False) for r in x[at]["rows"])))
            other = sorted(map(str, (comparable(r, True) for r in y[at]["rows"])))
            if one != other:
                fail(what, at, "is not the negative:", sorted(set(one) ^ set(other))[:2])
    settings = sorted((s["name"], s["a"], s["b"]) for s in there["settings"])
    if settings != sorted((s["name"], s["b"], s["a"]) for s in back["settings"]):
        fail(what, "settings are not the negative")


def check_report(path, d, side):
    report = report_of(path)
    for device in d["devices"]:
        told = next((r for r in report["devices"] if r["device"] == device["device"]), None)
        for part in ("peak", "end"):
            for measure in MEASURES:
                want = told[part][f"{measure}_bytes"] if told else 0
                if device[part][measure][f"{side}_bytes"] != want:
                    fail(f"{name(path)}: {part} {measure}", device[part][measure], want)


def check_pair(a, b):
    what = f"{name(a)} {name(b)}"
    there, back = diff(a, b, "--top", "0"), diff(b, a, "--top", "0")
    check_sums(what, there)
    check_swapped(what, there, back)
    check_report(a, there, "a")
    check_sums(what + " --top 2", diff(a, b, "--top", "2"))
    for group in GROUPS[1:]:
        check_sums(f"{what} by {group}", diff(a, b, "--group-by", group, "--top", "0"))


def check_pairs(paths):
    lib.jobs(check_same, paths)
    pairs = [(a, paths[(i + k) % len(paths)]) for i, a in enumerate(paths) for k in PARTNERS]
    lib.jobs(check_pair, *zip(*pairs))


# ---- an edited program ----


def frames_of(recording):
    """Each frame once, however many events share it."""
    seen, todo = set(), [recording]
    while todo:
        o = todo.pop()
        if id(o) in seen:
            continue
        seen.add(id(o))
        if isinstance(o, dict) and "filename" in o and "line" in o:
            yield o
        else:
            todo.extend(v for v in (o.values() if isinstance(o, dict) else o) if isinstance(v, (dict, list, tuple)))


def copied(recording):
    return pickle.loads(pickle.dumps(recording, pickle.HIGHEST_PROTOCOL))


def edited(recording, change):
    x = copied(recording)
    for f in frames_of(x):
        change(f)
    return x


def is_users(f):
    return f["filename"].startswith("/") and "-packages/" not in f["filename"] and "/lib/python" not in f["filename"]


def moved_folders(f):
    if is_users(f):
        f["filename"] = "/root/elsewhere/" + "/".join(f["filename"].split("/")[-2:])
    elif "/site-packages/" in f["filename"]:
        f["filename"] = "/opt/venv/lib/python3.12/site-packages/" + f["filename"].split("/site-packages/")[1]


def lines_inserted(at, count):
    def change(f):
        if is_users(f) and f["line"] > at:
            f["line"] += count
    return change


def renamed(f):
    if is_users(f):
        f["filename"] = "/elsewhere/another_name.py"


def foreign(f):
    if f["name"] != "<module>":
        f["name"] = "other_" + f["name"]
    f["filename"] = "/other/" + f["filename"].replace("/", "_") + "x.py"


def check_edits(folder, path):
    recording = load(path)
    lines = sorted({f["line"] for f in frames_of(recording) if is_users(f)})
    middle = lines[len(lines) // 2] - 1
    edits = {
        "another folder": ([moved_folders], {"exact"}),
        "lines inserted": ([lines_inserted(middle, 9)], {"exact", "moved"}),
        "lines removed": ([lines_inserted(0, -5)], {"moved", "exact"}),
        "two edits and another folder": ([lines_inserted(0, 3), lines_inserted(middle + 3, 30), moved_folders],
                                         {"moved", "exact"}),
        "another file": ([renamed], {"function"}),
    }
    for what, (changes, matches) in edits.items():
        x = recording
        for change in changes:
            x = edited(x, change)
        to = os.path.join(folder, "edited.pickle")
        with open(to, "wb") as f:
            pickle.dump(x, f)
        for group in ("user-frame", "stack"):
            d = diff(path, to, "--top", "0", "--group-by", group)
            label = f"{name(path)}, {what}, by {group}"
            check_sums(label, d)
            rows = [r for _, _, m in moments(d) for r in m["rows"]]
            if d["different"] or rows:
                fail(label, "differs", [(r["name"], r["a_name"], r["match"]) for r in rows[:3]])
        # the same with something that grew, so that there are rows to say how they were matched
        grown = copied(x)
        for trace in grown["device_traces"]:
            del trace[len(trace) * 2 // 3:]
        with open(to, "wb") as f:
            pickle.dump(grown, f)
        found = {r["match"] for _, _, m in moments(diff(path, to, "--top", "0")) for r in m["rows"] if r["name"]}
        if not found & (matches - {"exact"} or matches) or not found <= matches | {"exact", "only_a", "only_b"}:
            fail(f"{name(path)}, {what}: matched as", found)
    with open(to, "wb") as f:
        pickle.dump(edited(recording, foreign), f)
    d = diff(path, to)
    if not d["devices"][0]["unrelated"] or "hardly share" not in run("diff", path, to)[1]:
        fail(name(path), "another program is not seen as one", d["devices"][0]["a_shared"])
    check_sums(f"{name(path)} and another program", d)


def check_gate(a, b):
    d = diff(a, b)
    amount = d["devices"][0]["peak"]["allocated"]
    if amount["change_bytes"] < 0:
        a, b, amount = b, a, {"a_bytes": amount["b_bytes"], "change_bytes": -amount["change_bytes"]}
    grown = amount["change_bytes"]
    per_cent = 100 * grown / amount["a_bytes"]
    for limit, wanted in ((f"{grown}B", 0), (f"{grown - 1}B", 1), (f"{per_cent - 0.001:.4f}%", 1),
                          (f"{per_cent + 0.001:.4f}%", 0), ("0", 1), ("100000%", 0)):
        for form in ([], ["--json"]):
            code = run("diff", a, b, "--fail-over", limit, *form)[0]
            if code != wanted:
                fail(f"--fail-over {limit} of {grown}", code)
    if run("diff", b, a, "--fail-over", "0")[0]:
        fail("a peak that fell is over the limit")


def check_memory(folder, a, b):
    """--max-memory holds for both together: what is enough for each alone is refused before it is enough for both."""
    files = lib.unpacked((a, b), folder)
    seen = []
    for limit in range(1 << 20, 48 << 20, 1 << 20):
        code, out, err = run("diff", *files, "--max-memory", str(limit))
        each = [run("report", f, "--max-memory", str(limit))[0] for f in files]
        seen.append((code, *each))
        if code not in (0, 4) or code == 4 and (out or err.count("\n") != 1):
            fail(f"--max-memory {limit}", code, err)
    if (4, 0, 0) not in seen or (0, 0, 0) not in seen or seen != sorted(seen, reverse=True):
        fail("--max-memory", seen)


def main():
    program, data = (os.path.abspath(a) for a in sys.argv[1:3])
    lib.start(program)
    paths = sorted(glob.glob(os.path.join(data, "*.pickle.xz")) + glob.glob(os.path.join(data, "settings", "*.pickle.xz")) +
                   glob.glob(os.path.join(data, "formats", "*.pickle")))
    lib.expect(len(paths) >= 20, data, len(paths), "recordings")
    recording = {x: os.path.join(data, x + ".pickle.xz") for x in ("rnn", "leak_losses", "gpt2_s", "leak_graph")}
    with tempfile.TemporaryDirectory(prefix="plimsoll-") as folder:
        check_pairs(lib.unpacked(paths, folder))
    with tempfile.TemporaryDirectory(prefix="plimsoll-") as folder:
        check_edits(folder, recording["rnn"])
        check_edits(folder, recording["leak_losses"])
        check_memory(folder, recording["gpt2_s"], recording["leak_graph"])
    check_gate(recording["leak_losses"], recording["leak_graph"])
    lib.finish(f"diff: {len(paths)} recordings add up", least=700)


main()
