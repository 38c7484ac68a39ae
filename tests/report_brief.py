#!/usr/bin/env python3
"""report_brief.py PLIMSOLL RECORDING|FOLDER...: report's text is read in ten seconds.

At 80 columns: 40 lines for one device and six more for each other; no line is longer; verdict, sum, cause and the first
remedy stand within twelve; a healthy run says so in its third line, and no text is missing what --why has.
"""
import os
import re
import sys
import tempfile

import lib
import page_reader

lib.start(sys.argv[1])
LINES, MORE, FIRST = 40, 6, 12


UNIT = {"MiB": 1 << 20, "GiB": 1 << 30}


def sums_agree(path, death, lines):
    """The sum adds up, and what it calls live is what the owners hold: no line mixes requested and allocated bytes."""
    text = " ".join(line.strip() for line in lines[:12])
    live = re.search(r"([\d.]+) ([MG]iB) live(?: \(([\d.]+) ([MG]iB) with rounding\))?", text)
    if not live:
        return lib.expect(False, path, "no live memory in its sum")
    size, unit = (live[3], live[4]) if live[3] else (live[1], live[2])
    held = next((m for line in lines if (m := re.match(r"Who held ([\d.]+) ([MG]iB) allocated", line))), None)
    step = 0.006 * UNIT[unit] + 0.006 * UNIT[held[2]] if held else 0
    lib.expect(
        held and abs(float(size) * UNIT[unit] - float(held[1]) * UNIT[held[2]]) <= step, path, "live", live[0], held
    )
    lib.expect(not held or abs(float(size) * UNIT[unit] - death["live_bytes"]) <= step, path, "live", live[0])
    sum_text = text[live.start() : text.index(" = ", live.start())]
    total = re.match(r" = ([\d.]+) ", text[live.start() + len(sum_text) :])
    terms = re.findall(r"(?:^|\+ )([\d.]+) " + live[2], re.sub(r" \([^)]*\)", "", sum_text))
    lib.expect(
        round(sum(float(t) * 100 for t in terms)) == round(float(total[1]) * 100), path, "does not add up", sum_text
    )
    if death["verdict"]["cause"] == "leak":
        lib.expect("without the leak" in text, path, "the leak's share is not told")


def why_agrees(path):
    """With the recording, why says of a death what report says of it, in the same order."""
    log = os.path.join(os.path.dirname(path), "oom", os.path.basename(path).split(".")[0] + ".txt")
    if not os.path.exists(log):
        return
    both = [lib.run(*command, "--width", 80).stdout for command in (("report", path, "--log", log), ("why", log, "--snapshot", path))]
    start, end = (both[0].index("\n\n") + 2, both[0].index("\n\nWhat to do"))
    lib.expect(both[0][start:end] in both[1], path, "why --snapshot tells the death otherwise")
    report, why = (remedies_of(text.splitlines()) for text in both)
    lib.expect(report == why[: len(report)], path, "why --snapshot advises otherwise", report, why)


def owners_agree(path, held):
    """A row by code holds what its two lines hold, and nothing of another caller's."""
    stacks = lib.result("report", path, "--owners", 0, "--group-by", "stack", codes=(0, 3))["devices"]
    stacks = next(d["at_peak"] for d in stacks if d["at_peak"]["total_bytes"] == held["total_bytes"])
    sums = {}
    for one in stacks["owners"]:
        key = one["code_frame"], one["frame"], one["inferred"], one["before_recording"]
        sums[key] = sums.get(key, 0) + one["bytes"]
    for one in held["by_code"]:
        key = one["code_frame"], one["frame"], one["inferred"], one["before_recording"]
        lib.expect(one["bytes"] == sums.get(key), path, one["bytes"], "of", key, "by stack", sums.get(key))


def unwrapped(text):
    """One line, so that where a text breaks does not count."""
    return " ".join(text.split())


def told_alike(path, told, faces):
    """Text, `why --snapshot` and page say the words of the result's `told`, in its order, and no face another verdict."""
    wanted = [told["headline"], *(line["text"] for line in told["lines"]), *told["remedies"], told["held"], told["kinds"],
              *(h["text"] for h in told["holders"]), told["peak"], told["stop"]]
    for name, text in faces.items():
        at, said, shown = 0, unwrapped(text), 0
        for words in filter(None, wanted):
            found = said.find(unwrapped(words), at)
            shown += found >= 0
            at = found if found >= 0 else at
            # the brief text has the first remedies and holders alone, and counts the others
            alone = words in told["remedies"][1:] or any(h["text"] == words for h in told["holders"][1:])
            lib.expect(found >= 0 or alone, path, name, "does not say in its place:", words)
        lib.expect(shown >= min(4, len(wanted)), path, name, "says", shown)


def faces_agree(path, told):
    """The three, wide enough that no place is shortened."""
    wide = ("--width", 200)
    faces = {"report": lib.run("report", path, *wide).stdout}
    log = os.path.join(os.path.dirname(path), "oom", os.path.basename(path).split(".")[0] + ".txt")
    told_alike(path, told["told"], faces)
    if os.path.exists(log):
        with_log = lib.result("report", path, "--log", log)["devices"][0]["told"]
        told_alike(path, with_log, {"why": lib.run("why", log, "--snapshot", path, *wide).stdout})
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "page.html")
        lib.run("report", path, "-o", out)
        with open(out, encoding="utf-8") as f:
            parts, _ = page_reader.read(f.read())
        lib.expect(parts[0].device["told"] == told["told"], path, "the page is given other words")


def remedies_of(lines):
    """What to do, numbered, joined from its lines."""
    at = next((i for i, line in enumerate(lines) if line.startswith("What to do")), None)
    body = [] if at is None else lines[at + 1 : at + 1 + next(i for i, x in enumerate(lines[at + 1 :]) if not x)]
    return re.split(r" ?\b\d\. ", " ".join(line.strip() for line in body))[1:]


def lists_agree(path, lines):
    """What the short text leaves out is in --why, in the same order, and its count is true; --redact drops none."""
    brief, whole = remedies_of(lines), remedies_of(lib.run("report", path, "--width", 80, "--why").stdout.splitlines())
    head = next((line for line in lines if line.startswith("What to do")), "")
    said = re.search(r"\((\d+) of (\d+), all: --why\)", head)
    lib.expect(brief == whole[: len(brief)], path, "--why has other remedies", brief, whole)
    lib.expect(len(whole) == (int(said[2]) if said else len(brief)), path, head, len(whole))
    lib.expect(not said or int(said[1]) == len(brief), path, head, len(brief))
    secret = lib.run("report", path, "--width", 80, "--redact").stdout.splitlines()
    lib.expect(len(remedies_of(secret)) == len(brief), path, "--redact has other advice")


def markdown_agrees(path, lines, text):
    """One heading, which is the verdict; fences in pairs; the remedies as a list; no one is called."""
    parts = re.split(r"^`{3,}$", text, flags=re.M)
    outside = "".join(parts[::2])
    lib.expect(len(parts) % 2 == 1 and "@" not in outside, path, "a fence without an end, or a name that is called")
    heads = re.findall(r"^### (.*)$", outside, re.M)
    lib.expect(len(heads) == 1 and heads[0].replace("\\", "")[:20] == lines[2][:20], path, heads, lines[2])
    items = [re.sub(r"\\(.)", r"\1", item) for item in re.findall(r"^\d+\. (.*)$", outside, re.M)]
    lib.expect(items == remedies_of(lines)[: len(items)] and len(items) >= bool(remedies_of(lines)), path, items)
    lib.expect(not re.search(r"[^\n]\n\*\*|\*\*\n[^\n]", outside), path, "no empty line around a heading")


def check(path):
    told = lib.result("report", path, codes=(0, 3))["devices"]
    lines = lib.run("report", path, "--width", 80).stdout.splitlines()
    lib.expect(len(lines) <= LINES + MORE * max(0, len(told) - 1), path, f"{len(lines)} lines")
    lib.expect(all(len(line) <= 80 for line in lines), path, "a line of more than 80 columns")
    died = [d for d in told if d["oom"] and d["oom"][-1]["verdict"]]
    for device in told:
        owners_agree(path, device["at_peak"])
    if len(told) == 1:
        remedy = [i for i, line in enumerate(lines, 1) if line.startswith("  1. ")]
        lib.expect(not died or (remedy and remedy[0] <= FIRST), path, f"the first remedy is in line {remedy}")
        lib.expect(not died or " = " in "".join(lines[:6]), path, "no sum")
        if died:
            sums_agree(path, died[0]["oom"][-1], lines)
            lists_agree(path, lines)
            why_agrees(path)
        faces_agree(path, told[0])
    leaks = any(f["id"] == "leak" for d in told for f in d["findings"])
    if told and not died:
        head = "NO FAILURE, BUT A LEAK" if leaks else "No events" if not any(d["events"] for d in told) else "PEAK "
        lib.expect(any(line.startswith(head) for line in lines[:5]), path, "it does not begin with", head)
        lib.expect(head != "PEAK " or any(line.startswith("  No failure.") for line in lines[:7]), path, "it does not say that nothing failed")
    lib.run("report", path, "--why")
    if len(told) == 1:
        markdown_agrees(path, lines, lib.run("report", path, "--format", "markdown").stdout)


paths = list(lib.recordings(sys.argv[2:]))
for one in paths:
    check(one)
lib.finish(f"{len(paths)} reports of at most {LINES} lines", least=len(paths))
