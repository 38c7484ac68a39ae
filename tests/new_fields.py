#!/usr/bin/env python3
"""new_fields.py PLIMSOLL: what PyTorch 2.10 to 2.13 write beyond their forerunners.

What was wrong: user_metadata and fx_original_trace were read by no one, so that memory that the program had named had no
name and a compiled graph's lines were its own; whether the ring had overflowed was guessed though the file says it.
"""
import os
import pickle
import sys
import tempfile

import lib
from made_recordings import MIB, Trainer, frame, user

lib.start(sys.argv[1])


def program(tag=False, trace=None, drop=0, **settings):
    t = Trainer(4, 12 * MIB)
    for _ in range(4):
        t.step()
        if trace:
            compiled = dict(frame("<eval_with_key>.3", 9, "forward"), fx_node_op="call_function", fx_node_name="linear_3", fx_node_target="linear",
                            fx_node_info={}, fx_original_trace=trace)
            t.card.drop(t.card.alloc(900 * MIB, [compiled, user(20)]))
    snapshot = t.card.snapshot(last=len(t.card.events) - drop, stacks=True)
    for event in snapshot["device_traces"][0]:
        event["user_metadata"] = "weights" if tag and event["action"] == "alloc" and any(f["name"] == "__init__" for f in event["frames"]) else ""
        event["forward_frames"] = []
    for segment in snapshot["segments"]:
        for block in segment["blocks"]:
            block["user_metadata"] = ""
    snapshot["allocator_settings"] = {"max_split_size": -1, "trace_alloc_max_entries": 100000, **settings}
    return snapshot


def told(snapshot, *options):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "run.pickle")
        with open(path, "wb") as f:
            pickle.dump(snapshot, f, 4)
        text = " ".join(lib.run("report", path, *options).stdout.split())
        lib.run("pack", path, "-o", path + ".plim")
        packed, plain = (lib.result("report", path + end, *options) for end in (".plim", ""))
        lib.expect(packed["devices"] == plain["devices"], "packed, the report is another one")
        return plain, text


plain, text = told(program(tag=True))
tags = {tag["name"]: (tag["bytes"] // MIB, tag["count"]) for tag in plain["devices"][0]["at_peak"]["tags"]}
lib.expect(tags.get("weights") == (48, 4) and None in tags and len(tags) == 2, "tags", tags)
lib.expect(sum(b for b, _ in tags.values()) == plain["devices"][0]["at_peak"]["total_bytes"] // MIB, "tags do not add up", tags)
lib.expect("48.00 MiB weights" in text, "the text", text)
lib.expect("unknown key" not in text, "keys that are known", text)
redacted, text = told(program(tag=True), "--redact")
lib.expect("weights" not in text and len(redacted["devices"][0]["at_peak"]["tags"]) == 2, "redacted", text)
lib.expect(not told(program())[0]["devices"][0]["at_peak"]["tags"], "no tags")

for trace, line in (('File "/home/me/model.py", line 50, in forward\n    x = self.fc(x)', "/home/me/model.py:50 in forward"),
                    ('  File "/home/me/net.py", line 7, in forward\n    y = f(x)\n  File "/home/me/model.py", line 51, in f\n    return g(x)',
                     "/home/me/model.py:51 in f"),
                    ('File "C:\\me\\model.py", line 50, in forward\n', "C:/me/model.py:50 in forward"),
                    ("something else", "<eval_with_key>.3:9 in forward"), ('File "a", line 99999999999999999999, in', "<eval_with_key>.3:9 in forward")):
    plain, text = told(program(trace=trace))
    stacks = [owner["stack"][0] for owner in plain["devices"][0]["at_peak"]["owners"] if owner["stack"]]
    lib.expect(line in stacks and "unknown key" not in text, repr(trace), stacks)

for overflowed, says in ((True, "(the ring was full)"), (False, "(it was switched on late)"), (None, "(the ring was full, or it was switched on late)")):
    _, text = told(program(drop=60, **({} if overflowed is None else {"trace_alloc_overflowed": overflowed})))
    lib.expect(says in text, says, text[-400:])
lib.expect("the ring was full: nothing" in told(program(trace_alloc_overflowed=True))[1], "overflowed, and nothing was there before")
lib.expect("the ring" not in told(program(trace_alloc_overflowed=False))[1], "complete")
lib.finish("fields of PyTorch 2.10 to 2.13 are read", least=20)
