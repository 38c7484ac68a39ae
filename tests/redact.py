#!/usr/bin/env python3
"""redact.py PLIMSOLL DATA: a secret stands in every string of a recording; --redact lets none of them out."""
import copy
import json
import os
import pickle
import struct
import sys
import tarfile
import tempfile

import lib
import page_reader

lib.start(sys.argv[1])
data = os.path.abspath(sys.argv[2])
SECRET = "hush"
MEANING = {"action", "state", "segment_type", "stage"}  # words of the format, not names


def plant(o, how, key=None):
    """A copy with a secret in all strings; `how` makes it of the value and its key."""
    if isinstance(o, dict):
        out = {k: plant(v, how, k) for k, v in o.items()}
        if key != "roundup_power2_divisions":
            out[f"{SECRET}_key"] = f"{SECRET} value"
        return out
    if isinstance(o, (list, tuple)):
        return type(o)(plant(v, how, key) for v in o)
    return how(o, key) if isinstance(o, str) and key not in MEANING else o


names = {}


def replaced(value, key):
    """All different, as they were."""
    return names.setdefault(value, f"{SECRET}{len(names)}")


def in_front(value, key):
    """Whose machine it is: in front of a file's name, which may be a public one; functions are as they were."""
    if key == "name" or (key == "filename" and value in ("", "??")):
        return value
    return f"/home/{SECRET}/" + value.lstrip("/") if key == "filename" else replaced(value, key)


def user_code(value, key):
    """C++ symbols and installed packages of one's own, which look like public ones."""
    if key == "filename":
        return ("??", "", f"/usr/lib/python3/dist-packages/{SECRET}/a.py", f"/venv/site-packages/torch{SECRET}/b.py",
                f"/home/{SECRET}/torch/c.py", f"/src/{SECRET}.cpp")[len(value) % 6]
    return (f"at::Tensor {SECRET}::forward(at::Tensor)", f"void at::launch<{SECRET}::Kernel>({SECRET}*)",
            f"std::vector<{SECRET}> {SECRET}(int)", SECRET, f"PyInit_{SECRET}")[len(value) % 5]


def small(x):
    """The death or the end and some before it: the secret goes into every dict."""
    x = copy.deepcopy(x)
    x["device_traces"] = [t[-3000:] for t in x["device_traces"]]
    t = next(t for t in x["device_traces"] if t)
    t.insert(0, dict(t[0], action=f"{SECRET}_action"))
    for e in t[-50:]:
        e["user_metadata"] = "a label"
        e["compile_context"] = "0/0"
    x["external_annotations"] = [{"stage": s, "name": "phase", "device": 0, "time_us": e["time_us"]}
                                 for s, e in (("START", t[1]), ("END", t[-1]))]
    return x


def run(path, *options):
    done = lib.run("report", path, *options, codes=lib.ANY)
    return done.returncode, done.stdout + done.stderr


def check_page(folder, name, how, path):
    """In a page everything is packed."""
    out = os.path.join(folder, "page.html")
    for options in (["--redact"], []):
        code, said = run(path, *options, "-o", out)
        with open(out, encoding="utf-8") as f:
            parts, rest = page_reader.read(f.read())
        os.unlink(out)
        if code or not options and not parts[0].has(SECRET):
            lib.failures.append(f"{name}, {how.__name__}, page: no secret to hide: {said[:200]}")
        elif options and (SECRET in rest or any(p.has(SECRET) for p in parts)):
            lib.failures.append(f"{name}, {how.__name__}: the page lets it out")


def check_diff(folder, x, how, path):
    """Two recordings of one program, the second without its last events."""
    x = copy.deepcopy(x)
    for t in x["device_traces"]:
        del t[len(t) // 2:]
    other = os.path.join(folder, f"{SECRET}-other.pickle")
    with open(other, "wb") as f:
        pickle.dump(plant(x, how), f)
    for options in ([], ["--json", "--top", "0"], ["--group-by", "stack"], ["--at", "end"], ["--width", "200"]):
        for pair in ((path, other), (other, path)):
            done = lib.run("diff", *pair, "--redact", *options, codes=lib.ANY)
            said = done.stdout + done.stderr
            at = said.lower().find(SECRET)
            if done.returncode or at >= 0 or "--json" in options and "file-" not in said:
                lib.failures.append(f"diff, {how.__name__}, {' '.join(options)}: exit {done.returncode}: "
                                f"{said[max(at - 60, 0):at + 60]!r}")


def check_bundle(folder, name, how, path, log):
    """What is listed is what is written, nothing before -o is given; no part of it has the secret."""
    out = os.path.join(folder, "out.tar")
    listed = lib.run("bundle", path, "--log", log).stdout
    if os.path.exists(out) or "nothing was written" not in listed or SECRET in listed:
        lib.failures.append(f"{name}, {how.__name__}, bundle: {listed[-300:]}")
    for options in ([], ["--names"]):
        said = lib.run("bundle", path, "--log", log, "-o", out, *options).stdout
        with tarfile.open(out) as tar:
            parts = {m.name.split("/")[1]: tar.extractfile(m).read() for m in tar}
        inside = os.path.join(folder, "inside.plim")
        with open(inside, "wb") as f:
            f.write(parts["recording.plim"])
        parts["read"] = run(inside, "--json", "--owners", "0")[1].replace(folder, "").encode()
        os.unlink(out)
        os.unlink(inside)
        rows = [line.split() for line in said.splitlines() if line[:1] == " "]
        if [(row[1], int(row[0])) for row in rows] != [(n, len(b)) for n, b in parts.items() if n != "read"]:
            lib.failures.append(f"{name}, {how.__name__}: {said} lists what is not in it: {list(parts)}")
        told = parts["versions.txt"].decode()
        wanted = ["2.6.0+cu124, by the log", "550.54.15, by the log"] + ["3.12, by paths"] * (how is in_front)
        lib.expect(all(w in told for w in wanted) and "of the run" not in told, name, how.__name__, "bundle: versions", told)
        leaky = [n for n, b in parts.items() if SECRET.encode() in b.lower()]
        if bool(leaky) != bool(options) or options and "log-tail.txt" not in leaky:
            lib.failures.append(f"{name}, {how.__name__}, bundle {options}: the secret is in {leaky}")


def check(folder, name, x, how):
    path = os.path.join(folder, f"{SECRET}-{how.__name__}.pickle")
    log = os.path.join(folder, f"{SECRET}.log")
    with open(path, "wb") as f:
        pickle.dump(plant(x, how), f)
    with open(log, "w", encoding="utf-8") as f:
        f.write(f"{SECRET}: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 9.00 GiB of "
                f"which 1.00 MiB is free.\nCollecting torch==2.6.0+cu124.{SECRET}\nDriver Version: 550.54.15 {SECRET}\n")
    code, said = run(path, "--json", "--owners", "0")
    if code or SECRET not in said:
        lib.failures.append(f"{name}, {how.__name__}: no secret to hide: {said[:200]}")
    for options in ([], ["--json", "--owners", "0"], ["--json", "--group-by", "stack"], ["--group-by", "size"],
                    ["--at", "end"], ["--log", log], ["--json", "--log", log], ["--width", "200"]):
        code, said = run(path, "--redact", *options)
        at = said.lower().find(SECRET)
        if code or at >= 0:
            lib.failures.append(f"{name}, {how.__name__}, {' '.join(options)}: exit {code}: {said[max(at - 60, 0):at + 60]!r}")
    check_page(folder, name, how, path)
    check_bundle(folder, name, how, path, log)
    check_diff(folder, x, how, path)
    return run(path, "--json", "--redact", "--owners", "0")[1]


with tempfile.TemporaryDirectory(prefix=f"plimsoll-{SECRET}-") as top:
    folder = os.path.join(top, SECRET)
    os.mkdir(folder)
    for name in ("oom_moe.pickle.xz", "leak_evalpile.pickle.xz", "formats/train_all.pickle"):
        x = small(lib.load(os.path.join(data, name)))
        for how in (replaced, user_code):
            check(folder, name, x, how)
        said = check(folder, name, x, in_front)
        if '"torch/nn/modules/' not in said:
            lib.failures.append(f"{name}: PyTorch's own frames are hidden too")
        if name.endswith("train_all.pickle") and " in at::" not in said:
            lib.failures.append(f"{name}: PyTorch's own symbols are hidden too")
    out = os.path.join(folder, "out.pickle")
    code, said = run(os.path.join(data, "formats", "basic.pickle"), "--redact", "-o", out)
    if code != 2 or os.path.exists(out):
        lib.failures.append(f"a snapshot with all names was written: {said}")


def check_logs(folder):
    """The same for logs: names of files, functions, processes and groups, and what the lines say."""
    for name, old in (("at_eval", ("/home/u/train", "<module>")), ("kernel_cgroup2", ("python", "kubepods")),
                      ("killed_bash", ("train.py",)), ("assert_device", ("block",)), ("oomd", ("user-1000",)),
                      ("one_line", ())):
        path = os.path.join(folder, f"{SECRET}_{name}.log")
        text = f"{SECRET}: Killed\nKilled\n"
        if old:
            with open(os.path.join(data, "..", "messages", name + ".txt"), encoding="utf-8") as f:
                text = f.read()
        for word in old:
            text = text.replace(word, f"/home/{SECRET}/x" if "/" in word else SECRET)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
    for at in sorted(os.listdir(folder)) + ["."]:
        if not at.endswith((".log", ".")):
            continue
        for options in ([], ["--json"]):
            done = lib.run("why", "--redact", os.path.join(folder, at), *options, codes=lib.ANY)
            said = done.stdout + done.stderr
            found = said.lower().find(SECRET)
            if done.returncode or found >= 0:
                lib.failures.append(f"why {at} {options}: exit {done.returncode}: {said[max(found - 60, 0):found + 60]!r}")


def said_nothing(*command):
    """What a command prints without the secret in it, and with it where nothing is to be hidden."""
    for options in ([], ["--redact"]):
        done = lib.run(*command, *options, codes=lib.ANY)
        said = done.stdout + done.stderr
        found = said.lower().find(SECRET)
        told = found >= 0 or command[0] == "plan" or "--json" not in command
        lib.expect((found < 0) if options else told, " ".join(command), options, said[max(found - 60, 0):found + 60])
        lib.expect(done.returncode in (0, 1), " ".join(command), options, done.returncode, said[:200])
        lib.expect(not options or "--json" in command or "edacted" in said, " ".join(command), "what was kept is not told")


def tensors_file(path, names, metadata, cut=0):
    """A safetensors file of tensors of two numbers each."""
    head = {n: {"dtype": "F32", "shape": [2], "data_offsets": [8 * i, 8 * i + 8]} for i, n in enumerate(names)}
    text = json.dumps(dict(head, __metadata__=metadata)).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + bytes(8 * len(names) - cut))


class Code:
    """Pickled by its name, which no list has."""


def check_checkpoints(folder):
    """Names of files, tensors, keys, metadata, devices and classes, also where a name tries to end its quotation."""
    names = [f"model.layers.{i}.{SECRET}_proj.weight" for i in range(3)] + [f"it's '{SECRET}' a '{SECRET}"]
    files = {n: os.path.join(folder, f"{SECRET}{n}") for n in ("a.safetensors", "b.safetensors", "cut.safetensors", "c.pkl", "shards")}
    tensors_file(files["a.safetensors"], names, {SECRET: SECRET, "format": "pt"})
    tensors_file(files["b.safetensors"], [n.replace("layers", f"{SECRET}s") for n in names[1:]], {})
    tensors_file(files["cut.safetensors"], names, {}, cut=9)
    os.mkdir(files["shards"])
    tensors_file(os.path.join(files["shards"], f"{SECRET}-00001-of-00002.safetensors"), names, {})
    with open(os.path.join(files["shards"], "model.safetensors.index.json"), "w", encoding="utf-8") as f:
        json.dump({"weight_map": {n: f"{SECRET}-0000{i % 2 + 1}-of-00002.safetensors" for i, n in enumerate(names)}}, f)
    Code.__module__, Code.__qualname__ = f"{SECRET}.models", f"{SECRET.title()}Model"
    module = type(sys)(Code.__module__)
    setattr(module, Code.__qualname__, Code)
    sys.modules[SECRET] = sys.modules[Code.__module__] = module
    with open(files["c.pkl"], "wb") as f:
        pickle.dump({f"{SECRET}_model": Code(), "epoch": 3, "path": f"/home/{SECRET}/x", SECRET: {SECRET: [1]}}, f)
    for path in files.values():
        for command in (["verify"], ["verify", "--quiet"], ["show"], ["show", "--tensors"], ["show", "--json"], ["verify", "--json"]):
            if "--quiet" not in command:
                said_nothing("ckpt", command[0], path, *command[1:])
    for extra in ([], ["--json"], ["--values"]):
        said_nothing("ckpt", "diff", files["a.safetensors"], files["b.safetensors"], *extra)


def check_plans(folder, data):
    """A model that is not known, with keys that no one reads."""
    with open(os.path.join(data, "models", "llama_s", "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    for kind in (config["model_type"], SECRET):
        path = os.path.join(folder, f"{SECRET}.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(dict(config, model_type=kind, _name_or_path=f"/home/{SECRET}", **{f"{SECRET}_key": SECRET}), f)
        for extra in ([], ["--json"]):
            said_nothing("plan", path, *extra)


def log_files(folder):
    """Two runs: names of files, folders, series and tags, between words that are well known and glued to them."""
    for run in (f"{SECRET}-a", f"b_{SECRET}"):
        os.makedirs(os.path.join(folder, run, "checkpoint-300", f"{SECRET}.pt"))
        with open(os.path.join(folder, run, f"{SECRET}_metrics.jsonl"), "w", encoding="utf-8") as f:
            for i in range(80):
                print(json.dumps({"step": 10 * i, "train/loss": 3 - i * 0.03 if i < 70 else float("nan"), f"{SECRET}/extra_loss": 2 - i * 0.01,
                                  f"eval/{SECRET}_loss": 1 + (i - 30) ** 2 / 900, f"{SECRET}Acc": i / 100, "lr": 1e-4 * (i < 60),
                                  f"plan{SECRET.upper()}": i, f"grad_norm_{SECRET}2": 1 + i % 3}), file=f)


def curves_page(folder, *options):
    out = os.path.join(folder, "curves.html")
    lib.run("curves", folder, "-o", out, *options)
    with open(out, encoding="utf-8") as f:
        sections, rest = page_reader.sections_of(f.read())
    os.unlink(out)
    return [json.loads(s) for s in sections.values()], rest


def check_curves(top):
    """Also in the page, where a hash of a name would confirm a guess, and in what a command is handed."""
    folder = os.path.join(top, f"{SECRET}_logs")
    log_files(folder)
    first = os.path.join(folder, f"{SECRET}-a", f"{SECRET}_metrics.jsonl")
    for extra in ([], ["--series"], ["--brief"], ["--json"], ["--monitor", f"{SECRET}Acc"], ["--map", f"plan{SECRET.upper()}=memory"],
                  ["--follow", "--fail-on", "overfit", "--run", 'echo "$PLIMSOLL_RUN $PLIMSOLL_TITLE"']):
        said_nothing("curves", folder, *extra)
        said_nothing("curves", first, *extra)
    shown, hidden = (json.loads(lib.run("curves", folder, "--json", *o).stdout)["runs"][0] for o in ([], ["--redact"]))
    known = [s["name"] for s in hidden["series"] if not any(c.isdigit() for c in s["name"])]
    lib.expect(known == ["train/loss", "lr"] and len({s["name"] for s in hidden["series"]}) == len(shown["series"]), "curves: names", hidden["series"])
    lib.expect([{**s, "name": 0} for s in shown["series"]] == [{**s, "name": 0} for s in hidden["series"]], "curves: numbers")
    (shown, _), (hidden, rest) = curves_page(folder), curves_page(folder, "--redact")
    lib.expect(SECRET in json.dumps(shown) and SECRET not in (rest + json.dumps(hidden)).lower(), "curves: the page lets it out")
    lib.expect("redacted, except for" in hidden[0]["notes"][-1] and not shown[0]["notes"], "curves: notes of the page", hidden[0]["notes"])
    same = {c["quantity"] for c in shown[0]["curves"]} & {c["quantity"] for c in hidden[0]["curves"]}
    lib.expect(len(shown[0]["curves"]) == 7 and len(same) == 2, "curves: hashes of names in the page", same)


with tempfile.TemporaryDirectory(prefix=f"plimsoll-{SECRET}-") as top:
    check_logs(top)
with tempfile.TemporaryDirectory(prefix=f"plimsoll-{SECRET}-") as top:
    check_curves(top)
with tempfile.TemporaryDirectory(prefix=f"plimsoll-{SECRET}-") as top:
    check_checkpoints(top)
    check_plans(top, data)

lib.finish("redact: no secret came out", least=100)
