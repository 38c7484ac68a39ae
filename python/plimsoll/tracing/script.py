"""An unmodified training script under fakes, until its steps repeat: plimsoll plan -- python train.py."""
from __future__ import annotations

import contextlib
import os
import runpy
import sys
from dataclasses import replace

from . import ranks
from .engine import Recorder
from .loop import Options, modules_of_all, recording, tell
from .packed import Trace
from .steps import Enough, Steps


LAUNCHERS = ("torchrun", "torch.distributed.run", "torch.distributed.launch", "accelerate", "accelerate.commands.launch")
ALONE = {"--standalone", "--no-python", "--multi-gpu", "--cpu", "--use-deepspeed", "--use-fsdp", "--debug", "-u", "-B", "-O", "-E", "-s", "-I"}
RANKS = {"--nproc-per-node", "--num-processes", "--nnodes"}


def _launched(words: list[str]) -> tuple[list[str], int]:
    """A launcher's options: what it runs, and as how many ranks."""
    ranks = {"--nproc-per-node": 1, "--num-processes": 1, "--nnodes": 1}
    while words and words[0].startswith("-") and words[0] != "-m":
        name, given, value = words.pop(0).partition("=")
        name = "--" + name.lstrip("-").replace("_", "-") if name.startswith("--") else name
        if not given and name not in ALONE and words:
            value = words.pop(0)
        if name in RANKS and value.isdigit():
            ranks[name] = int(value)
        elif name in RANKS:
            raise ValueError(f"{name} {value}: how many GPUs that are only that machine knows; give a number")
    size = 1
    for n in ranks.values():
        size *= n
    return words, size


def _python(command: list[str]) -> tuple[list[str], int]:
    """["python", "-u", "train.py", ...] and ["torchrun", "--nproc-per-node", "4", "train.py"]: what they run, and as how many ranks; 0: no launcher."""
    words, size = list(command), 0
    if words and os.path.basename(words[0]).startswith("python"):
        words.pop(0)
        while words and words[0].startswith("-") and words[0] not in ("-m", "-c"):
            if words.pop(0) in ("-X", "-W") and words:
                words.pop(0)
    if words[:1] == ["-m"] and words[1:2] and words[1] in LAUNCHERS:
        words.pop(0)
    if words and os.path.basename(words[0]) in LAUNCHERS:
        launcher = os.path.basename(words.pop(0))
        if launcher == "accelerate" and words[:1] == ["launch"]:
            words.pop(0)
        words, size = _launched(words)
    if not words:
        raise ValueError("there is no script behind --")
    return words, size


SIZES = {"{batch}": "batch", "{seq}": "seq"}  # what stands in a command for a size that is asked for


def asks(command: list[str]) -> set[str]:
    """The sizes that the command line of a script takes: "--batch-size {batch}"."""
    return {name for mark, name in SIZES.items() if any(mark in word for word in command)}


def _filled(command: list[str], o: Options) -> list[str]:
    for mark, name in SIZES.items():
        command = [word.replace(mark, str(getattr(o, name))) for word in command]
    return command


def _ended(r: Recorder, what: str) -> ValueError:
    """With the lines whose conditions were guesses, any of which may be why."""
    e = ValueError(what + "".join(f"; {line} asks for a value that only a run knows" for line in r.guesses.asked))
    vars(e)["asked"] = list(r.guesses.asked)
    return e


def trace_script(command: list[str], o: Options) -> Trace:
    """Runs the script in this process; what it prints goes to standard error."""
    if "seq" in asks(command) and not o.seq:
        raise ValueError("{seq} stands for a sequence: say which (--seq)")
    words, size = _python(_filled(command, o))
    o = replace(o, gpus=max(size, 1), parallel="as the script says")
    with ranks.job(size, size > 0), recording(o, os.path.basename(words[-1] if words[0] == "-m" and len(words) < 2 else words[0])) as (r, _):
        steps = Steps(r, max(2, o.steps), o.say)
        o.say(f"running {r.trace.model} until its step {steps.most} has ended")
        sys.argv = words[1:] if words[0] in ("-m", "-c") else words
        with modules_of_all(r, steps.called), steps.watched(), contextlib.redirect_stdout(sys.stderr):
            try:
                if words[0] == "-m":
                    runpy.run_module(words[1], run_name="__main__", alter_sys=True)
                elif words[0] == "-c":
                    exec(compile(words[1], "<command>", "exec"), {"__name__": "__main__"})
                else:
                    sys.path.insert(0, os.path.dirname(os.path.abspath(words[0])))
                    runpy.run_path(words[0], run_name="__main__")
                steps.is_over = True
            except Enough:
                pass
            except Exception as e:
                if steps.done < steps.most:
                    vars(e)["asked"] = list(r.guesses.asked)
                    raise
                r.trace.assumed.append(f"what the script does after step {steps.done} is not traced: {type(e).__name__}: {e}".splitlines()[0][:200])
            except SystemExit as e:
                steps.is_over = True
                if e.code:
                    raise _ended(r, f"the script ended with {e.code} before its second step") from None
        if not steps.done:
            raise _ended(r, "the script ended without a step of an optimizer: nothing to plan")
        if not r.trace.category:
            raise ValueError("nothing of the script was on the GPU: it chose another device (a GPU is reported to be there: "
                             "torch.cuda.is_available(), \"cuda\")")
        taken = asks(command)
        r.trace.recipe = ""
        r.trace.transformers = getattr(sys.modules.get("transformers"), "__version__", "")
        r.trace.batch, r.trace.sequence = o.batch if "batch" in taken else 0, o.seq if "seq" in taken else 0
        r.trace.asked = [a for a in o.asked() if a.partition("=")[0] in taken]
        r.end_phase("end")
        tell(r)
        r.trace.assumed.append(steps.told())
        r.trace.unsure += steps.unsure()
        return r.trace
