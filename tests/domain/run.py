#!/usr/bin/env python3
"""run.py PLIMSOLL [NUMBER...]: the everyday items of the domain (items.txt), each as a user writes it.

An item has steps, and each what its output must have:

    $ COMMAND       a shell command, in a folder of its own; {data} and {samples} are the tests' recordings, {NAME.json} is the
                    configuration of that model in tests/data/published.jsonl
    python          lines behind "|", in this process
    lint [OPTION]   lines behind "|", a script behind HEAD below, which `plimsoll lint` reads
    file NAME       lines behind "|", an input of the steps that follow
    exit CODE       of the command above, if it is not 0
    = WORDS         the output has them;  ! WORDS: it does not.  Any blanks between words are one
    test FILE NAME  the item is tested there, so the test must exist
    gpu REASON      nothing of it can be seen without a GPU
"""
import concurrent.futures
import contextlib
import importlib.util
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
import types

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
ITEMS = 123
PLACES = {"{data}": os.path.join(ROOT, "tests", "data"), "{samples}": os.path.join(ROOT, "samples")}
HEAD = """import torch
from torch import nn
from torch.utils.data import DataLoader
device = torch.device("cuda")
model = nn.Sequential(nn.Linear(8, 8), nn.Dropout()).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(model.parameters())
data = torch.utils.data.TensorDataset(torch.zeros(64, 8), torch.zeros(64, dtype=torch.long))
loader = DataLoader(data, batch_size=8, num_workers=2, pin_memory=True)
"""


def items():
    """(number, title, [[command, rest, code, code of the exit, [(sign, words)]]])"""
    found = []
    with open(os.path.join(HERE, "items.txt"), encoding="utf-8") as f:
        for line in f.read().splitlines():
            head = re.fullmatch(r"(\d+)\. (.*)", line)
            verb, _, rest = line.partition(" ")
            if head:
                found.append((int(head[1]), head[2], []))
            elif line.startswith("|"):
                found[-1][2][-1][2].append(line[2:])
            elif verb in ("=", "!"):
                found[-1][2][-1][4].append((verb, rest))
            elif verb == "exit":
                found[-1][2][-1][3] = int(rest)
            elif verb in ("$", "python", "lint", "file", "test", "gpu"):
                found[-1][2].append([verb, rest, [], 0, []])
            elif line and not line.startswith("#"):
                raise ValueError(f"items.txt: {line}")
    return found


def command(words, folder, program):
    for name, path in PLACES.items():
        words = words.replace(name, path)
    for model in re.findall(r"\{(\S+)\.json\}", words):
        with open(os.path.join(ROOT, "tests", "data", "published.jsonl"), encoding="utf-8") as rows, \
                open(os.path.join(folder, f"{model}.json"), "w", encoding="utf-8") as f:
            json.dump(next(row["config"] for row in map(json.loads, rows) if row["name"] == model), f)
        words = words.replace(f"{{{model}.json}}", f"{model}.json")
    env = dict(os.environ, PATH=os.pathsep.join([os.path.dirname(program), os.path.dirname(sys.executable), os.environ["PATH"]]), NO_COLOR="1")
    done = subprocess.run(words, shell=True, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env, check=False)
    return done.returncode, done.stdout


def snippet(code, folder):
    out, module = io.StringIO(), types.ModuleType("snippet")
    module.__file__ = os.path.join(folder, "snippet.py")
    sys.modules["snippet"] = module  # variables that a module has, as those of a script
    os.chdir(folder)  # of the whole process, so nothing else may change it while other items run in threads
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            exec(compile(code, module.__file__, "exec"), vars(module))
        except Exception:  # pylint: disable=broad-except
            traceback.print_exc(file=out)
            return 1, out.getvalue()
        finally:
            os.chdir(HERE)
    return 0, out.getvalue()


def exists(rest):
    path, _, name = rest.partition(" ")
    try:
        with open(os.path.join(ROOT, path), encoding="utf-8") as f:
            text = f.read()
    except OSError as why:
        return str(why)
    return "" if re.search(rf"(^|[\s/\"]){re.escape(name)}\b", text, re.M) else f"{path} has no {name}"


def step(verb, rest, code, folder, program):
    """(exit code, output); None: nothing is to be said."""
    text = "".join(line + "\n" for line in code)
    if verb == "file":
        with open(os.path.join(folder, rest), "w", encoding="utf-8") as f:
            f.write(text)
        return None
    if verb == "python":
        return snippet(text, folder)
    if verb == "lint":
        with open(os.path.join(folder, "train.py"), "w", encoding="utf-8") as f:
            f.write(HEAD + text)
        return command(f"plimsoll lint --no-config --fail-on never {rest} train.py", folder, program)
    return command(rest, folder, program)


def check(item, program):
    """What is wrong with it; "": nothing, None: a GPU is missing."""
    number, title, steps = item
    wrong = [] if steps else ["it has no step"]
    with tempfile.TemporaryDirectory() as folder:
        for verb, rest, code, wanted, words in steps:
            if verb == "gpu":
                return None
            if verb == "test":
                wrong += filter(None, [exists(rest)])
                continue
            done = step(verb, rest, code, folder, program)
            if done is None:
                continue
            said = " ".join(done[1].split())
            wrong += [f"exit {done[0]}, not {wanted}: {said[-600:]}"] if done[0] != wanted else []
            wrong += [f"{verb} {rest}: nothing is asked of its output"] if not words else []
            wrong += [f"{verb} {rest}: {'no' if sign == '=' else 'has'} '{text}': {said[:1500]}" for sign, text in words
                      if (" ".join(text.split()) in said) != (sign == "=")]
    return "\n".join(f"{number}. {title}: {what}" for what in wrong)


def main():
    if any(importlib.util.find_spec(name) is None for name in ("torch", "transformers")):
        print("SKIPPED: there is no PyTorch with Transformers here; tools/venv.sh makes an environment with both", file=sys.stderr)
        sys.exit(77)
    program, chosen = os.path.abspath(sys.argv[1]), [int(n) for n in sys.argv[2:]]
    table = items()
    failures = [] if [number for number, *_ in table] == list(range(1, ITEMS + 1)) else [f"items.txt has not the items 1 to {ITEMS} in their order"]
    table = [item for item in table if not chosen or item[0] in chosen]
    here = [item for item in table if any(verb == "python" for verb, *_ in item[2])]  # these share the process, so one at a time
    began = time.process_time()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        others = pool.map(lambda item: check(item, program), [item for item in table if item not in here])
        said = [check(item, program) for item in here] + list(others)
    failures += [what for what in said if what]
    used = time.process_time() - began + sum(os.times()[2:4])
    print("\n".join(failures) or f"{len(table)} items, {said.count(None)} of them need a GPU; {used:.0f} s of processor time")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
