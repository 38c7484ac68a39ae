"""python -m plimsoll.tracing: a trace as a file; `plimsoll plan --trace` and `plimsoll plan -- python ...` run it."""
from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Sequence

if TYPE_CHECKING:
    from . import loop
    from .packed import Trace
    from .progress import Progress


# What other tools call it; training in 16 bits is autocast over fp32 weights, as the planner has it.
PRECISIONS = {"bf16-mixed": "bf16-autocast", "16-mixed": "fp16-autocast", "bf16-true": "bf16-pure", "bfloat16": "bf16-pure",
              "float16": "bf16-pure", "half": "bf16-pure", "float32": "fp32", "32-true": "fp32", "no": "fp32"}
OF_TRAINING = {"bf16": "bf16-autocast", "fp16": "fp16-autocast"}
TASKS = {"training": "train", "inference": "infer", "generation": "generate"}
OPTIMIZERS = {"adamw_torch": "adamw", "adamw_torch_fused": "adamw-fused"}
ATTENTIONS = {"flash_attention_2": "flash", "flash_attn": "flash"}


def _parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(prog="python -m plimsoll.tracing", description=__doc__)
    p.add_argument("model", nargs="?", help="a config.json, a folder that has one, timm/NAME, or MODULE:FUNCTION, which "
                                            "gives (module, batch, step)")
    p.add_argument("-o", "--output", required=True, help="the trace, FILE.json.gz")
    p.add_argument("--batch", type=int, default=1)
    p.add_argument("--grown", type=int, default=0, help="trace this batch as well: each request's bytes then follow from "
                                                        "a line through both")
    p.add_argument("--seq", type=int, default=0)
    p.add_argument("--longer", default="", help="trace two other sequences as well, these and what goes with them (0: any): each "
                                                "request's bytes then follow from a line or a parabola through all three")
    p.add_argument("--precision", default="")
    p.add_argument("--optimizer", default="adamw")
    p.add_argument("--attention", default="")
    p.add_argument("--checkpointing", default="none")
    p.add_argument("--accumulate", type=int, default=1)
    p.add_argument("--lora", type=int, default=0)
    p.add_argument("--lora-targets", default="")
    p.add_argument("--steps", type=int, default=2)
    p.add_argument("--task", default="train")
    p.add_argument("--new-tokens", type=int, default=0, help="of --task generate (128)")
    p.add_argument("--gpus", type=int, default=1)
    p.add_argument("--parallel", default="ddp", help="ddp, fsdp2 or fsdp2-zero2")
    p.add_argument("--no-clip", action="store_true")
    p.add_argument("--once", action="store_true", help="try no condition of a script the other way")
    p.add_argument("--keep-outputs", action="store_true")
    p.add_argument("--otherwise", action="append", default=[], metavar="FILE:LINE", help="a line of a script whose condition is answered the "
                                                                                        "other way, as its value is known to a run alone")
    p.add_argument("--gpu", default="", help="the card that decides kernels and workspaces (H100)")
    return p


def _options(args: argparse.Namespace, batch: int, sequence: int, progress: Progress) -> loop.Options:
    progress.say("importing PyTorch")
    from . import loop, tables
    which = f"batch {batch}: " if batch != args.batch else f"sequence {sequence}: " if sequence != args.seq else ""
    task = TASKS.get(args.task, str(args.task))
    precisions = PRECISIONS | (OF_TRAINING if task == "train" else dict.fromkeys(OF_TRAINING, "bf16-pure"))
    return loop.Options(batch=batch, seq=sequence, precision=precisions.get(args.precision, str(args.precision)),
                        optimizer=OPTIMIZERS.get(args.optimizer, str(args.optimizer)), new_tokens=args.new_tokens, gpus=args.gpus, parallel=args.parallel,
                        attention=ATTENTIONS.get(args.attention, str(args.attention)), checkpointing=args.checkpointing, accumulate=args.accumulate,
                        lora=args.lora, lora_targets=args.lora_targets, steps=args.steps, task=task, clip=not args.no_clip,
                        keep_outputs=args.keep_outputs, otherwise=tuple(args.otherwise), capability=tables.capability_of(args.gpu), say=lambda stage: progress.say(which + stage))


def _once(args: argparse.Namespace, command: list[str], progress: Progress, batch: int, sequence: int = 0) -> Trace:
    o = _options(args, batch, sequence or args.seq, progress)
    from . import loop
    if command:
        from . import script
        return script.trace_script(command, o)
    if not args.model:
        raise ValueError("there is nothing to trace: give a configuration, MODULE:FUNCTION, or -- and a script")
    if os.path.exists(args.model):
        return loop.trace_config(args.model, o)
    if args.model.startswith("timm/"):
        return loop.trace_timm(args.model[len("timm/"):], o)
    module, colon, function = args.model.partition(":")
    if colon:
        return loop.trace_function(module, function, o)
    raise ValueError(f"'{args.model}' is not a file here and no MODULE:FUNCTION; nothing is fetched from the Hub: give the "
                     "config.json of the local cache (~/.cache/huggingface/hub/models--ORG--NAME/snapshots/*)")


BOTH_WAYS_MOST = 4  # lines of a script that are tried the other way


def _other_way(args: argparse.Namespace, command: list[str], progress: Progress, line: str) -> Trace | None:
    """The script with one more of its conditions answered the other way; None: it does not train so."""
    from .packed import Trace
    progress.say(f"the condition at {line} depends on values: tracing it the other way")
    with tempfile.TemporaryDirectory(prefix="plimsoll-") as folder:
        path = os.path.join(folder, "trace.json.gz")
        words = [f"--{name}={getattr(args, name)}" for name in ("batch", "seq", "steps", "gpu")]
        words += [f"--otherwise={at}" for at in (*args.otherwise, line)]
        done = subprocess.run([sys.executable, "-m", "plimsoll.tracing", "-o", path, *words, "--once", "--", *command], check=False, capture_output=True)
        return None if done.returncode else Trace.read(path)


def _trains(args: argparse.Namespace, command: list[str], progress: Progress) -> Trace:
    """A script's trace; if it ends without a step as values were guessed, with the last of the guesses that lets it go on turned."""
    try:
        return _once(args, command, progress, args.batch)
    except Exception as e:
        for line in reversed(vars(e).get("asked", [])[-BOTH_WAYS_MOST:]):
            trace = None if args.once else _other_way(args, command, progress, line)
            if trace is not None:
                args.otherwise.append(line)
                return trace
        raise


def _both_ways(args: argparse.Namespace, command: list[str], progress: Progress) -> Trace:
    """A script whose conditions depend on values that only a run knows: whichever way takes more."""
    trace = _trains(args, command, progress)
    tried = set(args.otherwise)
    while not args.once and len(tried) < BOTH_WAYS_MOST:
        line = next((at for at in trace.guesses() if at not in tried), None)
        if line is None:
            break
        tried.add(line)
        other = _other_way(args, command, progress, line)
        if other is not None and other.peak() > trace.peak():
            args.otherwise.append(line)
            trace = other
    for line, answer in trace.guesses().items():
        words = f"the condition at {line} depends on values that only a run knows and is taken for {answer}"
        if line in tried:
            trace.assumed.append(f"{words}: the other way takes no more, or does not train")
        else:
            trace.unsure.append(f"{words}: the other way was not tried")
    return trace


def _again(args: argparse.Namespace, command: list[str], progress: Progress, batch: int, sequence: int = 0) -> Trace:
    """The same at another size: a script in a process of its own, as it leaves traces in the one that it ran in."""
    if not command:
        return _once(args, command, progress, batch, sequence)
    from .packed import Trace
    with tempfile.TemporaryDirectory(prefix="plimsoll-") as folder:
        path = os.path.join(folder, "trace.json.gz")
        sizes = ["--batch", str(batch), "--seq", str(sequence or args.seq), "--steps", str(args.steps), "--gpu", args.gpu, "--once"]
        sizes += [f"--otherwise={line}" for line in args.otherwise]
        progress.say(f"running it again with batch {batch}" + (f" and sequence {sequence}" if sequence else ""))
        code = subprocess.run([sys.executable, "-m", "plimsoll.tracing", "-o", path, *sizes, "--", *command], check=False).returncode
        if code:
            raise ValueError(f"with batch {batch}{f' and sequence {sequence}' if sequence else ''} it stopped (above); with {args.batch}"
                             f"{f' and {args.seq}' if sequence else ''} it did not")
        return Trace.read(path)


def _first(args: argparse.Namespace, command: list[str], progress: Progress) -> Trace:
    return _both_ways(args, command, progress) if command else _once(args, command, progress, args.batch)


def _check_takes(command: list[str], name: str) -> None:
    if not command:
        return
    from .script import asks
    if name not in asks(command):
        raise ValueError(f"a script makes its {name} itself; if that is an argument of the script, write {{{name}}} for the number: plimsoll plan "
                         f"--max-{name} -- python train.py --{name} {{{name}}}")


def _lengths(wanted: str, traced: int, positions: int) -> list[int]:
    """Two sequences next to the one that was traced: those that are asked for, or around it, none beyond the positions."""
    most = positions or 1 << 26
    found: list[int] = []
    asked = [int(n) for n in wanted.split(",")]
    if max(asked) > most:
        raise ValueError(f"a sequence of {max(asked)} tokens is longer than the {positions} positions of this model: give it more in its config.json")
    for n in (max(asked), min(asked), *asked, 2 * traced, 4 * traced, traced // 2, traced // 4):
        if 0 < n <= most and n not in (traced, *found) and len(found) < 2:
            found.append(n)
    return sorted(found)


def _longer(args: argparse.Namespace, command: list[str], progress: Progress) -> Trace:
    _check_takes(command, "seq")
    from . import laws
    trace = _first(args, command, progress)
    others = _lengths(args.longer, trace.sequence, trace.positions) if trace.sequence else []
    if len(others) < 2:
        raise ValueError("it has no sequence whose length could be asked for (--seq)")
    why = laws.lengthen(trace, *(_again(args, command, progress, args.batch, n) for n in others))
    if why:
        raise ValueError(f"how memory grows with the sequence is not known: {why}; trace each sequence by itself")
    trace.assumed.append(f"other sequences: each request lies on the line or parabola through {trace.sequence}, {others[0]} and "
                         f"{others[1]}, which were all traced")
    if trace.positions:
        trace.assumed.append(f"no sequence is longer than the {trace.positions} positions of the model")
    return trace


def _trace(args: argparse.Namespace, command: list[str], progress: Progress) -> Trace:
    if args.longer:
        return _longer(args, command, progress)
    if not args.grown or args.grown == args.batch:
        return _first(args, command, progress)
    _check_takes(command, "batch")
    from . import laws
    # with one sample much is contiguous that is copied with more, so a line from there goes nowhere
    batch = max(args.batch, 2)
    trace = _once(args, command, progress, batch)
    why = laws.grow(trace, _again(args, command, progress, max(args.grown, 4) if args.grown < 3 else args.grown))
    if why:
        raise ValueError(f"how memory grows with the batch is not known: {why}; trace each batch by itself")
    trace.assumed.append(f"other batches: each request lies on the line through batches {batch} and {trace.grown_batch}, "
                         "which were both traced")
    if batch != args.batch:
        trace.assumed.append("shown is batch 2: one sample alone is copied less often, and shows nothing of more")
    return trace


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    at = words.index("--") if "--" in words else len(words)
    args = _parser().parse_args(words[:at])
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # a GPU that is there is left alone
    os.environ["HF_DEACTIVATE_ASYNC_LOAD"] = "1"  # in Transformers' threads tensors would be real
    from .progress import Progress
    progress = Progress(own_line=at < len(words))
    try:
        try:
            trace = _trace(args, words[at + 1:], progress)
        finally:
            progress.done()
        trace.write(args.output)
    except ModuleNotFoundError as e:
        sys.stderr.write(f"plimsoll: tracing needs {e.name}, which this Python has not: {sys.executable}\n" if e.name else
                         f"plimsoll: the trace stopped: {e}\n")
        return 4
    except KeyboardInterrupt:
        return 130
    except Exception as e:  # noqa: BLE001 - the traced program may fail in any way
        from .errors import told
        sys.stderr.write(told(e))
        return 4
    return 0


if __name__ == "__main__":
    sys.exit(main())
