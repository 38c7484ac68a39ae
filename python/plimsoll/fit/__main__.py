"""python -m plimsoll.fit [OPTION...] -- COMMAND: an unchanged training command with each batch cut into parts, if that is proven to train the same.

Exit codes: the command's; 1 it does not fit, 2 usage, 4 it is refused, or this machine cannot.
"""
from __future__ import annotations

import argparse
import json
import math
import sys
import textwrap
from typing import Any, Sequence

from .. import _size
from ..errors import ArgumentError, UnsupportedError
from ._launch import Probed, become, probe, run
from ._parts import WAYS, bounds

MISFIT, USAGE, REFUSED = 1, 2, 4
GIB = 1 << 30


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="plimsoll fit", usage="plimsoll fit [OPTION...] -- COMMAND...", formatter_class=argparse.RawDescriptionHelpFormatter,
                                   description=textwrap.fill("Starts a training command, unchanged, so that it fits: each batch is cut into parts inside the step. Before the run a "
                                                             "process of its own measures whether the gradient of the parts is the gradient of the batch, in fp32; if it is "
                                                             "not, the command is refused. Steps, samples, their order and the schedule stay as they are.", 80))
    made.add_argument("--parts", type=int, metavar="N", help="cut each batch into N parts (the fewest that fit: 1, 2, 4 ...)")
    made.add_argument("--memory", metavar="SIZE", help="of GPU memory the job may use: 15.1GiB (all of the GPU)")
    made.add_argument("--probe-only", action="store_true", help="measure and print, do not run")
    made.add_argument("-j", "--json", action="store_true", help="print JSON (schema fit/1) instead of text; with --probe-only")
    return made


def fail(text: str) -> None:
    print(textwrap.fill(f"plimsoll fit: {text}", 80, subsequent_indent="  ", break_long_words=False), file=sys.stderr)


class Line:
    """How far the probe is, on a terminal."""

    def __init__(self) -> None:
        self.shown = False

    def __call__(self, text: str) -> None:
        if text and sys.stderr.isatty():
            sys.stderr.write(f"\r{text}\x1b[K")
            self.shown = True
        elif not text and self.shown:
            sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def _size_text(run_: dict[str, Any]) -> str:
    if not run_["fits"]:
        return "does not fit"
    return f"{run_['allocated_bytes'] / GIB:.2f} GiB ({run_['reserved_bytes'] / GIB:.2f} reserved), {run_['step_s']:.2f} s per step"


def told(answer: dict[str, Any], seconds: float) -> list[str]:
    proof, samples = answer["certificate"], answer["samples"]
    way = proof["way"]
    known = [far for far in proof["differences"].values() if far is not None]
    far = proof["differences"][way] if way else min(known) if known else math.inf
    lines = [f"Probe: {answer['model']}, {answer['loop']}, batch of {samples}, {seconds:.0f} s",
             f"  gradient  {', '.join(map(str, proof['parts']))} parts against whole: {far:.1e} off (noise {proof['noise']:.1e},",
             f"            right up to {proof['limit']:.1e}); {proof['samples']} samples, fp32, no dropout",
             f"            weighed {WAYS[way]}" if way else "            no way to weigh the parts is right"]
    lines += [f"  {run_['parts']:>2} part{'s' if run_['parts'] > 1 else ' '}  {_size_text(run_)}" for run_ in answer["runs"]]
    lengths = answer.get("lengths")
    if lengths:
        all_read = lengths["read"] == lengths["of"]
        lines.append(f"  measured on the longest samples, {lengths['longest']:,} elements; " + ("all" if all_read else f"{lengths['read']:,} of {lengths['of']:,}") + " were read")
    elif answer["runs"]:
        lines.append("  measured on the first batch: a longer one needs more")
    return lines


def choose(answer: dict[str, Any], asked: int | None) -> tuple[int | None, str]:
    """(parts or None, why none)."""
    proven = answer["certificate"]["way"] is not None
    fitting = [r["parts"] for r in answer["runs"] if r["fits"]]
    if asked and asked > 1 and not proven or not asked and not fitting and not proven:
        return None, "the gradient of the parts is not the gradient of the batch: the loss is not a sum over its samples (BatchNorm, in-batch negatives, a balancing loss)"
    if not answer["gpu"]:
        return (asked, "") if asked else (None, "the model is not on a GPU, so no peak was measured: give --parts")
    if not fitting:
        return None, f"it does not fit in {answer['runs'][-1]['parts']} parts" + ("" if asked else ", the most that this batch has")
    return fitting[0], ""


def _probed(command: list[str], parts: int | None, limit: int | None) -> Probed:
    """A loop of accelerate runs out of memory in the script's own frames, which ends the process: the next number of parts needs another."""
    runs: list[dict[str, Any]] = []
    while True:
        probed = probe(command, parts, limit, Line())
        answer = probed.answer
        if answer is None or answer.get("loop") != "accelerate" or "refused" in answer or not answer["runs"]:
            return probed
        last = answer["runs"][-1]
        if not last["fits"] and not any("out of memory" in line.lower() for line in probed.last):
            probed.answer = None  # it died of something else
            return probed
        runs.append(last)
        answer["runs"] = runs
        if last["fits"] or parts is not None and not runs[:-1] or 2 * last["parts"] > answer["samples"] or not answer["certificate"]["way"]:
            return probed
        parts = 2 * last["parts"]


def _without_answer(probed: Probed) -> int:
    fail(f"the command ended without a training step that is known here (exit code {probed.code}); its last lines:" if probed.last else
         f"the command ended without a training step that is known here (exit code {probed.code})")
    for line in probed.last:
        print(f"  {line}", file=sys.stderr)
    return REFUSED


def main(words: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if words is None else words)
    at = words.index("--") if "--" in words else len(words)
    options, command = parser().parse_args(words[:at]), words[at + 1:]
    if not command:
        fail("give the command behind --: plimsoll fit -- python train.py")
        return USAGE
    if options.parts is not None and options.parts < 1:
        fail("--parts takes a number from 1 on")
        return USAGE
    if options.json and not options.probe_only:
        fail("--json prints what was measured: give --probe-only, too")
        return USAGE
    try:
        limit = _size.bytes_of(options.memory, "--memory") if options.memory else None
        probed = _probed(command, options.parts, limit)
    except ArgumentError as error:
        fail(str(error))
        return USAGE
    except UnsupportedError as error:
        fail(str(error))
        return REFUSED
    except OSError as error:
        fail(f"cannot run '{command[0]}': {error.strerror}")
        return REFUSED
    except KeyboardInterrupt:
        return 130
    return _decide(options, command, probed)


def _decide(options: argparse.Namespace, command: list[str], probed: Probed) -> int:
    answer = probed.answer
    if answer is None:
        return _without_answer(probed)
    if "refused" in answer:
        if options.json:
            print(json.dumps({"schema": "fit/1", **answer, "parts": None}, indent=2))
        fail(f"refused: {answer['refused']}")
        return REFUSED
    parts, why = choose(answer, options.parts)
    if options.json:
        print(json.dumps({"schema": "fit/1", **answer, "probe_s": round(probed.seconds, 1), "parts": parts}, indent=2))
    else:
        print("\n".join(told(answer, probed.seconds)))
    if parts is None:
        fail(f"{'refused: ' if 'gradient' in why else ''}{why}")
        return MISFIT if why.startswith("it does not fit") else REFUSED
    samples = answer["samples"]
    if not options.json:
        sizes = sorted({end - begin for begin, end in bounds(samples, parts)}, reverse=True)
        print(f"Chosen: {min(parts, samples)} parts of {' and '.join(map(str, sizes))}. Batch, samples, order, steps and schedule stay"
              if parts > 1 else "It fits as it is: nothing is changed", flush=True)
    if options.probe_only:
        return 0
    if parts == 1:
        become(command)
    return run(command, {"loop": answer["loop"], "parts": parts, "way": answer["certificate"]["way"], "loader": answer.get("loader")})


if __name__ == "__main__":
    sys.exit(main())
