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
from .._usage import OneLineParser
from ..errors import ArgumentError, FormatError, UnsupportedError
from . import _file
from ._certificate import NOISE_MOST
from ._checkpointing import is_the_same, text as checkpointed_text, wanted as layers_wanted
from ._ladder import PROBES
from ._launch import ALLOCATOR, Probed, Stale, allocator, become, probe, run
from ._parts import WAYS, bounds

MISFIT, USAGE, REFUSED = 1, 2, 4
GIB = 1 << 30
AS_IT_IS = "as it is"


def parser() -> argparse.ArgumentParser:
    made = OneLineParser(prog="plimsoll fit", usage="plimsoll fit [OPTION...] -- COMMAND...", formatter_class=argparse.RawDescriptionHelpFormatter,
                                   description=textwrap.fill("Starts a training command, unchanged, so that it fits: each batch is cut into parts inside the step. Before the run a "
                                                             "process of its own measures whether the gradient of the parts is the gradient of the batch, in fp32; if it is "
                                                             "not, the command is refused. Steps, samples, their order and the schedule stay as they are.", 80))
    made.add_argument("--parts", type=int, metavar="N", help="cut each batch into N parts (the fewest that fit: 1, 2, 4 ...)")
    made.add_argument("--checkpoint", type=int, nargs="?", const=-1, metavar="N", help="checkpoint the activations of N layers, too (all of them), by the model's own call")
    made.add_argument("--memory", metavar="SIZE", help="of GPU memory the job may use: 15.1GiB (all of the GPU)")
    made.add_argument("--probe-only", action="store_true", help="measure and print, do not run")
    made.add_argument("--diff", action="store_true", help="print the result as arguments of the script, do not run")
    made.add_argument("--again", action="store_true", help="measure, also if the file has a result for this command")
    made.add_argument("--file", metavar="FILE", default=_file.NAME, help="that keeps results (plimsoll.toml)")
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


def _bytes_text(size: int) -> str:
    return f"{size / GIB:.2f} GiB" if size >= GIB else f"{size / (1 << 20):.1f} MiB"


def _setting(parts: int, counts: Sequence[int], of: dict[str, int]) -> str:
    return ", ".join([f"{parts} parts"] * (parts > 1) + [checkpointed_text(counts, of)] * any(counts)) or AS_IT_IS


def _retries(row: dict[str, Any]) -> str:
    return f": {row['retries']} retr{'y' if row['retries'] == 1 else 'ies'}" if row.get("retries") else ""


def _told_settings(answer: dict[str, Any]) -> list[str]:
    """Bytes and time of each setting that was tried or estimated, of the whole batch."""
    runs, of = answer.get("runs", ()), answer["checkpointing_layers"]
    tried = [(run_["parts"], run_["checkpointed_layers"]) for run_ in runs]
    rows = [(row, "estimated") for row in answer.get("estimated", ()) if (row["parts"], row["checkpointed_layers"]) not in tried]
    rows = sorted(rows + [(row, "measured") for row in runs], key=lambda one: (one[0]["parts"], sum(one[0]["checkpointed_layers"])))
    lines = ["  setting                                    peak  per step"] if rows else []
    for row, how in rows:
        line = f"  {_setting(row['parts'], row['checkpointed_layers'], of):<37}"
        if "allocated_bytes" in row:
            lines.append(f"{line}{_bytes_text(row['allocated_bytes']):>10}{row['step_s']:>8.3g} s  {how}{'' if row['fits'] else ': too much'}{_retries(row)}")
        else:
            lines.append(f"{line}    out of memory  measured")
    chosen = answer.get("chosen")
    return lines + ([f"  reserved by PyTorch in the one that fits: {_bytes_text(chosen['reserved_bytes'])}"] if chosen else [])


def _told_later(row: dict[str, Any]) -> str:
    text = row.get("error") or ("does not fit" if "allocated_bytes" not in row else _bytes_text(row["allocated_bytes"]) + ("" if row["fits"] else ": does not fit"))
    batch = f", batch of {row['samples']}" if row["samples"] else ""
    return f"  {row['what']}{batch}: {text}"


def _told_checkpointing(answer: dict[str, Any]) -> list[str]:
    if answer["checkpointing_bitwise"] is None:
        return []
    far = answer["checkpointing_off"]
    return ["  checkpointing, the model's own: " + ("bitwise the same gradient" if far == 0 else f"{far:.1e} off in fp32, which is rounding" if is_the_same(far) else
                                                    "another gradient, so it is not used")]


def _told_counted(answer: dict[str, Any]) -> list[str]:
    names = answer.get("counted")
    return textwrap.wrap(f"no parts: the loop counts batches by itself ({', '.join(names)})", 80, initial_indent="  ", subsequent_indent="    ") if names else []


def told(answer: dict[str, Any], seconds: float) -> list[str]:
    proof, samples = answer["certificate"], answer["samples"]
    way = proof["way"]
    known = [far for far in proof["differences"].values() if far is not None]
    far = proof["differences"][way] if way else min(known) if known else math.inf
    ranks = f" on each of {answer['ranks']} ranks" if answer["ranks"] > 1 else ""
    lines = [f"Probe: {answer['model']}, {answer['loop']}, batch of {samples}{ranks}, {seconds:.0f} s",
             f"  gradient  {', '.join(map(str, proof['parts']))} parts against whole: {far:.1e} off (noise {max(proof['noise'], proof['rounding']):.1e},",
             f"            right up to {proof['limit']:.1e}); {proof['samples']} samples, fp32, no dropout",
             f"            weighed {WAYS[way]}" if way else "            no way to weigh the parts is right", *_told_counted(answer), *_told_checkpointing(answer)]
    lines += _told_settings(answer)
    lines += map(_told_later, answer.get("later", ()))
    lengths = answer.get("lengths")
    if lengths:
        read = "all were read" if lengths["read"] == lengths["of"] else f"{lengths['read']:,} {'of ' + format(lengths['of'], ',') + ' ' if lengths['of'] else ''}were read, a longer one needs more"
        more = ", one of more tokens needs more" if lengths["unit"] == "characters" else ""
        lines += textwrap.wrap(f"measured on the longest samples, {lengths['longest']:,} {lengths['unit']}{more}; {read}", 80, initial_indent="  ", subsequent_indent="    ")
    elif answer.get("runs"):
        lines.append("  measured on the first batch: a longer one needs more")
    if answer.get("not_measured"):
        lines += textwrap.wrap(f"not measured: {'; '.join(answer['not_measured'])}", 80, initial_indent="  ", subsequent_indent="    ")
    return lines


class Misfit(Exception):
    """It fits in no setting."""


class Refused(Exception):
    """It would be another training, or nothing is known."""


def _refuse_changes(answer: dict[str, Any], parts: int | None, checkpointing: bool) -> None:
    """Raises Refused if a change that is asked for, or every one that there is, would be another training."""
    proven, same = answer["certificate"]["way"] is not None, is_the_same(answer["checkpointing_off"])
    wants_parts = (parts or 1) > 1 or not (parts or checkpointing or answer.get("chosen") or same)
    counted = ", ".join(answer.get("counted", ()))
    if wants_parts and counted:
        raise Refused(f"the loop counts batches by itself ({counted}), so it would count each part as a batch")
    noise = answer["certificate"]["noise"]
    if wants_parts and not proven and noise >= NOISE_MOST:
        raise Refused(f"the gradient of the same samples in another order differs by {noise:.1e}, so nothing is proven: the model draws random numbers for a batch (masks, noise)")
    if wants_parts and not proven:
        raise Refused("the gradient of the parts is not the gradient of the batch: the loss is not a sum over its samples (BatchNorm, in-batch negatives, a balancing loss)")
    if checkpointing and not same:
        raise Refused("the checkpointed gradient is another one" if answer.get("checkpointing_layers") else "the model has no gradient_checkpointing_enable() to call, or has called it")


def choose(answer: dict[str, Any], parts: int | None, checkpoint: int | None) -> tuple[int, list[int]]:
    """(parts, how many layers of each list are checkpointed); raises Misfit, Refused.  checkpoint: as `--checkpoint` gives it."""
    of, checkpointing, chosen = answer.get("checkpointing_layers", {}), bool(checkpoint), answer.get("chosen")
    _refuse_changes(answer, parts, checkpointing)
    if not answer["gpu"]:
        if parts or checkpointing:
            return parts or 1, list(layers_wanted(checkpoint, list(of.values())))
        raise Refused("the model is not on a GPU, so no peak was measured: give --parts")
    if not chosen:
        last = answer["runs"][-1] if answer["runs"] else {"parts": answer["samples"], "checkpointed_layers": []}
        setting = _setting(last["parts"], last["checkpointed_layers"], of)
        raise Misfit(f"it does not fit {'' if setting == AS_IT_IS else 'with '}{setting}" + ("" if parts or checkpointing else ", of what was tried the setting that needs least"))
    for row in answer.get("later", ()):
        if row["fits"] is False:
            way_out = "smaller batches of it do" if answer["loop"] == "accelerate" else "a smaller per_device_eval_batch_size, or eval_accumulation_steps, does"
            raise Misfit(f"training fits, but {row['what']} does not fit" + (f" in batches of {row['samples']}: {way_out} not change the training" if row["samples"] else ""))
    return chosen["parts"], chosen["checkpointed_layers"]


def _probed(command: list[str], parts: int | None, checkpoint: int | None, limit: int | None) -> Probed:
    """In a loop of accelerate, and of FSDP2, out of memory ends the process: what is left to measure needs another, at most three."""
    wanted: dict[str, Any] = {"parts": parts, "checkpointed": checkpoint, "limit_bytes": limit}
    seconds, probed, left = 0.0, Probed(None, 0, [], 0.0), PROBES
    while left:
        probed = probe(command, wanted, Line())
        seconds += probed.seconds
        probed.seconds = seconds
        answer = probed.answer
        if answer is None or "again" not in answer:
            break
        again = answer.pop("again")
        is_certified = "certified" in again  # of FSDP2: the gradients are compared, the next process measures
        if not is_certified and not probed.out_of_memory:
            probed.answer = None  # it died of something else
            break
        wanted |= again
        probed.answer = answer if "certificate" in answer else {**answer, "refused": "the samples that it tried do not fit in fp32, so nothing is proven"}
        if not is_certified and (parts or checkpoint) and "certificate" in answer:
            break
        left -= "known" in again and again["known"][-1]["samples"] == answer["samples"]  # whole batches are tried so often
    return probed


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
        key = {"command": command, "files": _file.files(command), "memory": limit or 0, "asked": [options.parts or 0, options.checkpoint or 0]}
        tables = [] if options.probe_only else _file.read(options.file)
        kept = None if options.again else _file.find(tables, key)
        if kept is not None:
            code = _from_kept(options, command, kept)
            if code is not None:
                return code
        probed = _probed(command, options.parts, options.checkpoint, limit)
    except ArgumentError as error:
        fail(str(error))
        return USAGE
    except (UnsupportedError, FormatError) as error:
        fail(str(error))
        return REFUSED
    except OSError as error:
        fail(f"cannot run '{command[0]}': {error.strerror}")
        return REFUSED
    except KeyboardInterrupt:
        return 130
    return _decide(options, command, probed, key, tables)


def _from_kept(options: argparse.Namespace, command: list[str], kept: dict[str, Any]) -> int | None:
    """The exit code of the command with a result of before; None: that is of something else."""
    if options.diff:
        print("\n".join(kept.get("diff", [])))
        return 0
    print(f"{options.file}: {kept['setting']}, as measured before (--again measures anew)", flush=True)
    try:
        return run(command, kept)
    except Stale as stale:
        fail(f"{options.file} does not hold here: {stale}. It is measured anew")
        return None


def _keep(path: str, tables: list[dict[str, Any]], key: dict[str, Any], answer: dict[str, Any], parts: int, counts: list[int]) -> dict[str, Any]:
    """The table, written."""
    table = {**key, "parts": parts, "checkpointed": counts, "setting": _setting(parts, counts, answer["checkpointing_layers"]), "loop": answer["loop"],
             "way": answer["certificate"]["way"], "blocks": answer.get("blocks"), "loader": answer.get("loader"), "made_with": answer["made_with"], "diff": _file.diff(answer, parts, counts)}
    others = [other for other in tables if any(other.get(name) != value for name, value in key.items())]
    try:
        _file.write(path, [*others, table])
    except OSError as error:
        fail(f"{path} is not kept: {error.strerror}")
    return table


def _decide(options: argparse.Namespace, command: list[str], probed: Probed, key: dict[str, Any], tables: list[dict[str, Any]]) -> int:
    answer = probed.answer
    if answer is None:
        return _without_answer(probed)
    if "refused" in answer:
        if options.json:
            print(json.dumps({"schema": "fit/1", **answer, "parts": None}, indent=2))
        fail(f"refused: {answer['refused']}")
        return REFUSED
    parts: int | None = None
    counts: list[int] = []
    why, code = "", 0
    try:
        parts, counts = choose(answer, options.parts, options.checkpoint)
    except Misfit as misfit:
        why, code = str(misfit), MISFIT
    except Refused as refused:
        why, code = str(refused), REFUSED
    if options.json:
        print(json.dumps({"schema": "fit/1", **answer, "probe_s": round(probed.seconds, 1), "environment": allocator(), "parts": parts, "checkpointing": any(counts) if parts else None,
                          "checkpointed_layers": counts if parts else None}, indent=2))
    else:
        print("\n".join(told(answer, probed.seconds)))
    if parts is None:
        fail(f"{'refused: ' if code == REFUSED else ''}{why}")
        return code
    if not options.json:
        print(_chosen(answer["samples"], parts, checkpointed_text(counts, answer["checkpointing_layers"])))
        if answer["gpu"] and allocator():
            print(f"Set for it: {ALLOCATOR[1]}={allocator()[ALLOCATOR[1]]}", flush=True)
    if options.probe_only:
        return 0
    table = _keep(options.file, tables, key, answer, parts, counts)
    if options.diff:
        print("\n".join(table["diff"]))
        return 0
    if parts == 1 and not any(counts):
        become(command)
    return run(command, {name: value for name, value in table.items() if name != "made_with"})


def _chosen(samples: int, parts: int, checkpointed: str) -> str:
    if parts == 1:
        return f"Chosen: {checkpointed}. Batch, samples, order, steps and schedule stay" if checkpointed else "It fits as it is"
    sizes = sorted({end - begin for begin, end in bounds(samples, parts)}, reverse=True)
    return (f"Chosen: {min(parts, samples)} parts of {' and '.join(map(str, sizes))}{', ' + checkpointed if checkpointed else ''}. "
            "Batch, samples, order, steps and schedule stay")


if __name__ == "__main__":
    sys.exit(main())
