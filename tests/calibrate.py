#!/usr/bin/env python3
"""calibrate.py PLIMSOLL DATA [TRUTH] [--markdown]: plans of measured runs, with and without a recording of another run of the model.

A model is planned as what it is, and as an architecture that is not known (its model_type is another word).  DATA is
tests/data; recordings that only the full set TRUTH has are used where it is at hand.  --markdown prints the section of
docs/evidence/accuracy.md.
"""
import os
import statistics
import sys

import lib

markdown = "--markdown" in sys.argv
program, data, *truth = [a for a in sys.argv[1:] if a != "--markdown"]
lib.start(program)

# recording, the family and size of its model in plan.jsonl.xz, what it was, whether to hide the architecture
RECORDINGS = [
    ("gpt2_s", ("gpt2", "s"), {"batch": 8, "seq": 1024}, False),
    ("llama_s_ckpt", ("llama", "s"), {"batch": 8, "seq": 2048, "ckpt": 1}, False),
    ("gemma2_s", ("gemma2", "s"), {"batch": 4, "seq": 1024}, False),
    ("gemma2_s", ("gemma2", "s"), {"batch": 4, "seq": 1024}, True),
]
# keys of a run's spec that are options, with what they are where the spec says nothing
KEYS = {"batch": 1, "seq": 1024, "precision": "bf16_autocast", "opt": "adamw", "attn": "sdpa", "ckpt": None}
OPTIONS = {"opt": "optimizer", "attn": "attention", "ckpt": "checkpointing"}
NAMES = {"sgdm": "sgd-momentum", 1: "full", None: "none"}
OTHERS = {"family", "size", "steps", "name"}


def rows_of(family, size):
    return [r for r in lib.rows(os.path.join(data, "plan.jsonl.xz")) if (r["spec"].get("family"), r["spec"].get("size")) == (family, size)]


def told(spec):
    """What a run was, in the words of the command line."""
    values = {key: spec.get(key, usual) for key, usual in KEYS.items()}
    return {OPTIONS.get(key, key): str(NAMES.get(v, v) if key not in ("batch", "seq") else v).replace("_", "-")
            for key, v in values.items()}


def is_plain(row):
    return not set(row["spec"]) - set(KEYS) - OTHERS


def planned(config, *options):
    return lib.planned(config, "--steps", 3, *options, codes=(0,))


def hidden(config):
    """The same numbers under a name that no one knows."""
    return {**{k: v for k, v in config.items() if k != "architectures"}, "model_type": "never_heard_of"}


def percent(x):
    return f"{100 * x:.2f}"


def compare(name, model, spec, hide):
    path = lib.recording(name, data, truth)
    if not path:
        return  # not at hand
    recorded = told(spec)
    without, calibrated, inside, seen = [], [], 0, 0
    for row in filter(is_plain, rows_of(*model)):
        wanted = told(row["spec"])
        if wanted == recorded:
            continue  # only runs that the recording is not of
        options = [word for key, value in wanted.items() for word in
                   ([f"--{key}={value}"] if key == "checkpointing" else [f"--{key}", value])]
        config = hidden(row["config"]) if hide else row["config"]
        truth_bytes = max(p["allocated_peak"] for p in row["phases"])
        before = planned(config, *options)
        after = planned(config, *options, "--calibrate", path, "--recorded",
                        ",".join(f"{k}={v}" for k, v in recorded.items()))
        if not before or not after:
            continue
        seen += 1
        without.append(abs(before["peak"]["allocated_bytes"] / truth_bytes - 1))
        calibrated.append(abs(after["peak"]["allocated_bytes"] / truth_bytes - 1))
        least = after["peak"]["needed_bytes"] - after["peak"]["needed_range_bytes"]["low"]
        most = after["peak"]["needed_range_bytes"]["high"] - after["peak"]["needed_bytes"]
        inside += -least <= truth_bytes - after["peak"]["allocated_bytes"] <= most
        if after["peak"]["basis"] != "measured":
            lib.failures.append(f"{name}: basis {after['peak']['basis']}")
    title = f"{name}, architecture hidden" if hide else name
    if markdown:
        print(f"| {title} | {seen} | {percent(statistics.median(without))} | {percent(max(without))} | "
              f"{percent(statistics.median(calibrated))} | {percent(max(calibrated))} | {inside} |")
        return
    print(title, seen, "rows:", [percent(x) for x in without], [percent(x) for x in calibrated], inside)
    if max(calibrated) > max(without) + 0.001:
        lib.failures.append(f"{title}: worse with a recording")
    if statistics.median(calibrated) > 0.01:
        lib.failures.append(f"{title}: off by {percent(statistics.median(calibrated))} %")
    if inside != seen:
        lib.failures.append(f"{title}: only {inside} of {seen} are in the range")


def refuses(why, model, name, *options):
    """What cannot be of this model or recipe is reported, not fitted."""
    path = lib.recording(name, data, truth)
    config = rows_of(*model)[0]["config"]
    try:
        planned(config, *options, "--calibrate", path)
        lib.fail(name, f"with {options} it is taken")
    except lib.Failed as said:
        lib.expect("exit code 2" in str(said) and why in str(said), name, f"with {options}: {said}")


def says_the_same(model, name, *options):
    """A recorded run that says what is assumed anyway changes nothing."""
    config = rows_of(*model)[0]["config"]
    plain, told_all = (planned(config, *options, "--calibrate", lib.recording(name, data, truth), "--recorded", "batch=8,seq=1024" + more)
                       for more in ("", ",checkpointing=none,attention=sdpa,no-clip=0"))
    if plain != told_all:
        lib.failures.append(f"{name}: told as it is, it is planned otherwise")


def main():
    if markdown:
        print("| recording | rows | peak without, median % | worst | calibrated, median % | worst | truth in range |")
        print("|---|---|---|---|---|---|---|")
    for one in RECORDINGS:
        compare(*one)
    says_the_same(("gpt2", "s"), "gpt2_s", "--batch", "4", "--seq", "1024", "--loss", "chunked")  # so that it keeps more
    refuses("not of this model", ("llama", "s"), "gpt2_s", "--batch", "8", "--seq", "1024")
    refuses("token ids", ("gpt2", "s"), "gpt2_s", "--batch", "4", "--seq", "1024")
    refuses("not of this recipe", ("llama", "s"), "llama_s_ckpt", "--batch", "8", "--seq", "2048")
    refuses("no whole step", ("gpt2", "s"), "churn_a")


main()
if not markdown:
    lib.finish("calibrated as measured", least=10)
