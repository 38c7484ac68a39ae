#!/usr/bin/env python3
"""pages.py FOLDER: pages for the tests of the viewer, made without the program, and made.json: what they should show."""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import pack  # noqa: E402

MIB = 1 << 20
GIB = 1 << 30
CATEGORIES = [("parameter", "parameters"), ("activation", "activations"), ("temporary", "temporaries"), ("unknown", "unknown")]
BASE = 0x7F0000000000
STEPS = 10
REQUEST = 2 * GIB

BIDI = "\u202egnp.exe\u2066\u200b"
MARKUP = "</script><script>window.broken=1</script><img src=x onerror=window.broken=1><style>*{display:none}</style>"


def totals(requested, allocated, active, reserved):
    return {"requested_bytes": requested, "allocated_bytes": allocated, "active_bytes": active, "reserved_bytes": reserved}


def recording(title="made.pickle", names=None, scale=1, number=0):
    """Weights, then STEPS steps of one activation and one temporary, then a request that fails."""
    name = names or (lambda plain: plain)
    rows = []  # born, freed, done, addr, size, block, stack, rule, flags
    event = 0
    steps = []
    rows.append([1, None, None, BASE, GIB * scale, GIB * scale, 1, 0, 0])
    event = 1
    for step in range(STEPS):
        first = event
        rows.append([event + 1, event + 4, event + (5 if step else 6), BASE + GIB * scale, 512 * MIB * scale - 100, 512 * MIB * scale, 2, 1, 0])
        rows.append([event + 2, event + 3, event + 3, BASE + 2 * GIB * scale, 64 * MIB * scale, 64 * MIB * scale, 3 if step else 2, 2, 1 if step else 0])
        event += 6
        steps.append({"index": step, "start_event": first, "end_event": event - 1, "requested_peak_bytes": None,
                      "phase_peaks": {"forward": 512 * MIB * scale, "backward": None}})
    rows.append([event + 1, None, None, BASE + GIB * scale, 512 * MIB * scale, 512 * MIB * scale, 2, 1, 0])
    death = event + 1
    events = event + 3
    columns = pack.Columns()
    born = [r[0] for r in rows]
    freed = [r[1] for r in rows]
    columns.add("allocs.born", born, delta=True)
    columns.add("allocs.freed", freed, after=("allocs.born", born))
    columns.add("allocs.done", [r[2] for r in rows], after=("allocs.freed", [0 if f is None else f for f in freed]))
    for at, key in enumerate(["addr", "size", "block", "stack", "rule", "flags"], 3):
        columns.add("allocs." + key, [r[at] for r in rows])
    ranges = [(1, BASE, 2 * GIB, 1), (1, BASE + 2 * GIB, GIB // 2, 3), (4, BASE + 2 * GIB + GIB // 2, GIB // 2, 3)]
    columns.add("segments.born", [r[0] for r in ranges], delta=True)
    columns.add("segments.addr", [r[1] for r in ranges])
    columns.add("segments.size", [r[2] * scale for r in ranges])
    columns.add("segments.flags", [r[3] for r in ranges])
    columns.add("segments.pool", [0, 1, 1])
    columns.add("segments.stack", [1, 2, 2])
    frames = [("build", "/home/user/train.py", 10), ("forward", "torch/nn/linear.py", 134), ("train_step", "/home/user/train.py", 42), ("softmax", "torch/functional.py", 7),
              ("_call_impl", "torch/nn/modules/module.py", 1790), ("forward", "/home/user/model.py", 12)]
    strings = sorted({name(f[0]) for f in frames} | {name(f[1]) for f in frames})
    columns.add("stacks.first", [0, 1, 6, 9])
    columns.add("stacks.frames", [0, 1, 4, 5, 4, 2, 3, 1, 2])
    columns.add("stacks.user", [1, 3, 3])
    columns.add("stacks.code", [1, 6, 3])
    columns.add("shown.first", [0, 0, 2], delta=True)
    columns.add("shown.rows", [2, 4], delta=True)  # two of the temporaries
    columns.add("frames.name", [strings.index(name(f[0])) for f in frames])
    columns.add("frames.file", [strings.index(name(f[1])) for f in frames])
    columns.add("frames.line", [f[2] for f in frames])
    columns.add("phases.from", [0, 1] + [s["start_event"] + 3 for s in steps], delta=True)
    columns.add("phases.phase", [0, 1] + [2] * len(steps))
    columns.add("time.us", [1_000_000 * i for i in range(events // 16 + 2)], delta=True)
    peak = (GIB + 576 * MIB) * scale
    moment = {"event": 2, "time_us": None, "range_bytes": {"low": 0, "high": 0}}
    live = (GIB + 512 * MIB) * scale
    headline = name("CAPACITY: 1.50 GiB was live and 2.00 GiB more was asked for")
    finding = {"severity": "warning", "confidence": 0.9, "bytes": 64 * MIB, "per_period_bytes": None, "period": None, "place": {"frame": name("/home/user/train.py:42 in train_step"), "file": None, "line": None, "offset": None, "inferred": False},
               "evidence": [name("a sentence")], "fix": [name("do this")], "see": []}
    device = {
        "device": 0, "events": events, "allocations": len(rows), "streams": 1,
        "before": totals(0, 0, 0, 0), "end": totals(live, live, live, 3 * GIB * scale),
        "peak": dict(totals(peak - 100, peak, peak, 3 * GIB * scale), requested=moment, active=moment, allocated=moment, reserved=moment, lower_bound=False),
        "oom": [{"event": death, "time_us": None, "survived": False, "requested_bytes": REQUEST, "segment_bytes": REQUEST, "phase": "forward", "step": STEPS,
                 "frame": name("/home/user/train.py:42 in train_step"), "stack": [], "live_bytes": live, "reserved_bytes": 3 * GIB * scale,
                 "device_free_bytes": 0, "free_bytes": 3 * GIB * scale - live, "largest_free_bytes": GIB,
                 "verdict": {"bound_by": name("device"), "cause": "capacity", "likely_cause": "unknown", "bound_bytes": {"low": 3 * GIB, "high": 3 * GIB},
                             "needed_bytes": {"low": None, "high": None}, "headline": headline,
                             "evidence": [name(f"reason {i}") for i in range(5)], "helps": [name("use a smaller batch")]}}],
        "findings": [dict(finding, id="oom", severity="error", title=headline), dict(finding, id="made", title=name("temporaries take 64.00 MiB"))],
        "steps": steps, "self_check": None,
        "told": {"kind": "died", "headline": name("DIED OF CAPACITY, forward of step 3: 2.00 GiB was refused"),
                 "lines": [{"label": None, "text": name("1.50 GiB live + 2.00 GiB asked = 3.50 GiB"), "brief": None},
                           {"label": "limit", "text": name("the card was full"), "brief": None},
                           {"label": "line", "text": name("train.py:42 in train_step"), "brief": name("train.py:42")}],
                 "remedies": [name("use a smaller batch"), name("or a larger card")], "held": name("Who held 1.50 GiB allocated"),
                 "kinds": name("1.00 GiB parameters"), "holders": [{"bytes": GIB, "text": name("train.py:10 in build"), "brief": name("train.py:10")}],
                 "peak": name("1.56 GiB allocated; 3.00 GiB reserved"), "stop": None},
    }
    head = {
        "format": "page/2", "version": "0.0", "title": name(title), "recording": number, "events": events,
        "report": {"source": {"path": None, "bytes": None, "complete": True, "notes": [name("a note")]}, "devices": [device]},
        "settings": {"conf": name("max_split_size_mb:64,roundup_power2_divisions:[1:4,>:8]"), "expandable": False, "max_split_bytes": 64 * MIB,
                     "gc_threshold": 0.8, "roundup_divisions": [4] + [8] * 15},
        "categories": [{"id": i, "name": name(n)} for i, n in CATEGORIES],
        "rules": [{"category": i, "confidence_pct": 90, "text": name("a rule")} for i in range(len(CATEGORIES))],
        "phases": ["load", "forward", "backward"], "streams": ["0"], "pools": [{"name": "default"}, {"name": name("private (0, 3)")}],
        "strings": strings, "merged": [], "time_stride": 16,
        "show": [{"moment": death + 1, "from": None, "to": None, "stack": None, "frame": None},
                 {"moment": 3, "from": 1, "to": 7, "stack": 1, "frame": 2}],
    }
    return head, columns


def flat(events=0, size=MIB, reserved=20 * MIB):
    """A bare list of segments: no event, no stack, nothing known."""
    columns = pack.Columns()
    columns.add("segments.addr", [BASE])
    columns.add("segments.size", [reserved])
    columns.add("segments.flags", [1])
    columns.add("segments.born", [0])
    columns.add("allocs.born", [0])
    columns.add("allocs.addr", [BASE])
    columns.add("allocs.size", [size])
    columns.add("allocs.block", [size])
    device = {"device": 0, "events": events, "allocations": 1, "streams": 1, "before": totals(None, None, None, None),
              "end": totals(size, size, size, reserved), "peak": None, "oom": [], "findings": [], "steps": None, "self_check": None,
              "told": {"kind": "no_events", "headline": "No events were recorded: only the memory at the end is shown.", "lines": [], "remedies": [],
                       "held": None, "kinds": None, "holders": [], "peak": "1.00 MiB allocated; 20.00 MiB reserved", "stop": None}}
    head = {"format": "page/2", "version": "0.0", "title": "flat.pickle", "recording": 0, "events": events,
            "report": {"source": {"path": None, "bytes": None, "complete": False, "notes": []}, "devices": [device]}, "settings": None,
            "categories": [{"id": "unknown", "name": "unknown"}], "rules": [{"category": 0, "confidence_pct": 0, "text": "nothing is known"}],
            "phases": [], "streams": ["0"], "pools": [{"name": None}], "strings": [], "merged": [], "time_stride": 0, "show": []}
    return head, columns


def ranged(title="ranges.pickle", names=None):
    """As recording(), with a range around all, one in each step, and user_metadata of the weights."""
    head, columns = recording(title, names)
    name = names or (lambda plain: plain)
    rows = [(0, head["events"], "train", 2), (0, 1, "weights", 4)]
    for step in head["report"]["devices"][0]["steps"]:
        first = step["start_event"]
        rows += [(first, first + 6, f"ProfilerStep#{step['index']}", 0), (first, first + 3, "forward_part", 0)]
    rows.sort(key=lambda row: (row[0], -row[1]))
    strings = sorted({name(row[2]) for row in rows})
    columns.add("ranges.from", [row[0] for row in rows], delta=True)
    columns.add("ranges.to", [row[1] for row in rows])
    columns.add("ranges.name", [len(head["strings"]) + strings.index(name(row[2])) for row in rows])
    columns.add("ranges.flags", [row[3] for row in rows])
    head["strings"] = head["strings"] + strings
    return head, columns


def hostile(plain):
    if plain.startswith("/home"):
        return plain + MARKUP + "x" * 1_000_000
    if plain == "train_step":
        return BIDI + MARKUP + "y" * (1 << 20)
    return plain + BIDI + MARKUP


def main(folder):
    out = pathlib.Path(folder)
    made = recording()
    (out / "made.html").write_text(pack.page([made]))
    (out / "two.html").write_text(pack.page([made, recording("other.pickle", scale=2, number=1)]))
    idle = recording()
    idle[0]["report"]["devices"][0] = dict(idle[0]["report"]["devices"][0], oom=[], findings=[])
    (out / "gpus.html").write_text(pack.page([idle, made]))  # of one file: the second died
    row = {"rank": 0, "path": hostile("a.pickle"), "member": None, "error": hostile("unreadable"), "events": None,
           "allocated_peak_bytes": None, "reserved_peak_bytes": None, "peak_phase": None, "died": None, "leak_bytes": None}
    answer = (hostile("2 recordings") + "\n\n" + hostile("Rank 0 died"), {"schema": "ranks/2", "rows": [row], "worst_row": 0})
    (out / "hostile.html").write_text(pack.page([ranged("made.pickle", hostile)], answer))
    (out / "bare.html").write_text(pack.page([]))
    (out / "ranges.html").write_text(pack.page([ranged()]))
    (out / "flat.html").write_text(pack.page([flat()]))
    (out / "tiny.html").write_text(pack.page([flat(size=1, reserved=1)]))
    head, columns = recording()
    (out / "future.html").write_text(pack.page([(dict(head, format="page/3"), columns)]))
    cut = pack.Columns()
    cut.head, cut.bytes = columns.head, columns.bytes[: len(columns.bytes) // 2]
    (out / "cut.html").write_text(pack.page([(head, cut)]))
    expected = {"events": head["events"], "death": head["report"]["devices"][0]["oom"][0]["event"], "request": REQUEST, "parameter": GIB, "activation": 512 * MIB, "top": 1.04, "steps": STEPS, "top_gib": 1.5625}
    (out / "made.json").write_text(json.dumps(expected))


if __name__ == "__main__":
    main(sys.argv[1])
