#!/usr/bin/env python3
"""run.py PLIMSOLL: `plimsoll record` on small jobs, with a stand-in for torch (stub/torch)."""
import glob
import hashlib
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile

plimsoll = os.path.abspath(sys.argv[1])
stub = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stub")
failures = []


class Run:
    def __init__(self, code, env=None, python=(sys.executable,), options=()):
        self.folder = tempfile.mkdtemp()
        env = {**os.environ, "PYTHONPATH": stub, "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": self.folder, **(env or {})}
        done = subprocess.run([plimsoll, "record", "--dir", self.folder, *options, "--", *python, "-c", code], env=env,
                              capture_output=True, text=True, timeout=600, check=False)
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr
        self.files = sorted(os.path.basename(f) for f in glob.glob(self.folder + "/plimsoll-*-rank*"))
        self.left = glob.glob(self.folder + "/plimsoll-record-*") + glob.glob(self.folder + "/*.part")

    def why(self):
        return [f.rsplit("-", 1)[1] for f in self.files]

    def load(self, i):
        with open(os.path.join(self.folder, self.files[i]), "rb") as f:
            return pickle.load(f)


def expect(name, ok, run):
    if not ok or run.left:
        failures.append(f"{name}: exit {run.code}, files {run.files}, left {run.left}\n{run.err}")


r = Run("import torch; torch.cuda.empty(); print('done')")
expect("a job that ends well", r.code == 0 and r.out == "done\n" and r.why() == ["end.pickle"] and
       r.load(0)["device_traces"][0][0]["action"] == "alloc", r)

r = Run("import torch; torch.cuda.empty(); torch.fail()")
expect("a death", r.code == 1 and r.why() == ["oom1.pickle", "oom1.txt"] and
       r.load(0)["device_traces"][0][-1]["action"] == "oom", r)
with open(os.path.join(r.folder, r.files[1]), encoding="utf-8") as f:
    expect("the error's text", "Tried to allocate" in f.read(), r)

r = Run("import torch\ntorch.cuda.empty()\nfor i in range(5):\n try: torch.fail()\n except RuntimeError: pass")
expect("failures that are caught", r.code == 0 and
       r.why() == ["end.pickle", "oom1.pickle", "oom2.pickle", "oom3.pickle"] and "5 out-of-memory errors" in r.err, r)

r = Run("import torch\nname = torch.__file__\ntorch.cuda.memory.events.append({'action': 'alloc', 'addr': 1, 'size': 1, 'stream': 0, 'time_us': 1, "
        "'frames': [{'filename': name, 'line': 1, 'name': 'f'}, {'filename': '??', 'line': 0, 'name': 'g'}]})\ntorch.cuda.empty()")
named = json.loads(r.load(0)["plimsoll_sources"]) if r.files else {"files": {}}
job = Run("import torch; torch.cuda.empty()", env={"RANK": "5", "WORLD_SIZE": "8", "PLIMSOLL_LAYOUT": "tp=4,pp=2"})
expect("the process knows its place in the job", "-rank5-" in "".join(job.files) and
       json.loads(job.load(0)["plimsoll_sources"])["job"] == {"rank": 5, "world": 8, "place": "pp 1, tp 1"}, job)
with open(os.path.join(stub, "torch/__init__.py"), "rb") as f:
    whole = f.read()
expect("the program's files are remembered", list(r.load(0))[-1] == "plimsoll_sources" and list(named) == ["schema", "job", "files"] and
       [(v["bytes"], v["sha256"], v["edited"]) for v in named["files"].values()] == [(len(whole), hashlib.sha256(whole).hexdigest(), False)], r)

r = Run("import torch; torch.cuda.empty(); torch.fail()", options=("--pack",))
packed = [f for f in r.files if f.endswith(".plim")]
report = subprocess.run([plimsoll, "report", "--json", *[os.path.join(r.folder, f) for f in packed]], capture_output=True, text=True,
                        check=False)
expect("dumps are packed", r.code == 1 and r.why() == ["oom1.plim", "oom1.txt"] and "oom1.plim (" in r.err and
       json.loads(report.stdout)["source"]["kind"] == "plim" and len(json.loads(report.stdout)["devices"][0]["oom"]) == 1, r)
r = Run("import os; os.environ['PLIMSOLL_RECORD_PACKER'] = '/nowhere/plimsoll'\n"
        "import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-c', 'import torch; torch.cuda.empty()']))", options=("--pack",))
expect("where packing fails the pickle stays", r.code == 0 and r.why() == ["end.pickle"] and "stays a pickle" in r.err, r)

if os.access("/dev/shm", os.W_OK):
    r = Run("import torch, os\ntorch.cuda.empty()\nfor _ in range(3):\n for who in 'ab':\n  for hook in torch._optimizer.hooks: hook(who, (), {})\n"
            "page = f'/dev/shm/plimsoll.{os.getpid()}'\nif os.fork() == 0:\n torch._optimizer.hooks[0]('a', (), {})\n os._exit(0)\nos.wait()\n"
            "print(page, open(page, 'rb').read().hex())")
    path, _, content = r.out.strip().partition(" ")
    page = bytes.fromhex(content)
    told = (page[:8], int.from_bytes(page[40:44], "little"), int.from_bytes(page[144:152], "little"), int.from_bytes(page[272:280], "little")) if page else ()
    expect("the gauge tells steps and memory, and goes with the job", told == (b"PLIMGAGE", 2, 3, 7 << 20) and not os.path.exists(path) and
           not r.err.count("outside"), r)

root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def by_environment(code, under_record=False):
    """Recordings of a job that only has PLIMSOLL_RECORD in its environment, as with the installed package; stderr."""
    with tempfile.TemporaryDirectory() as folder:
        target = os.path.join(folder, "a", "b")
        pth = os.path.join(root, "runtime", "recorder")
        start = f"import site; site.addsitedir({pth!r})\n"
        env = {**os.environ, "PYTHONPATH": stub + os.pathsep + os.path.join(root, "python"), "PLIMSOLL_RECORD": target,
               "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-c", start + code]
        if under_record:
            command = [plimsoll, "record", "--dir", target, "--", *command]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600, check=False)
        return sorted(f.rsplit("-", 1)[1] for f in os.listdir(target)), done.stderr


for code, names in (("import torch; torch.cuda.empty(); torch.fail()", ["oom1.pickle", "oom1.txt"]),
                    ("import torch; torch.cuda.empty()", []), ("import torch; torch.cuda.empty(); raise ValueError", []),
                    ("import torch", []), ("pass", [])):
    found = by_environment(code)
    if found[0] != names or "cannot" in found[1]:
        failures.append(f"PLIMSOLL_RECORD, {code!r}: {found}")
found = by_environment("import torch; torch.cuda.empty(); torch.fail()", under_record=True)
if found[0] != ["oom1.pickle", "oom1.txt"]:
    failures.append(f"PLIMSOLL_RECORD under plimsoll record, which makes the folder: {found}")

r = Run("import torch, os, signal; torch.cuda.empty(); os.kill(os.getpid(), signal.SIGUSR1)")
expect("SIGUSR1", r.code == 0 and r.why() == ["end.pickle", "signal.pickle"], r)

r = Run("import torch, os\ntorch.cuda.empty()\nif os.fork() == 0: raise SystemExit(0)\nos.wait()")
expect("a forked child does not dump", r.code == 0 and r.why() == ["end.pickle"], r)

r = Run("import torch, os\ntorch.cuda.empty()", env={"RANK": "3"})
expect("the rank is in the name", "-rank3-" in "".join(r.files), r)

r = Run("import torch, os; torch.cuda.empty(); os.kill(os.getpid(), 9)")
expect("a killed job", r.code == 128 + signal.SIGKILL and not r.files and "killed by signal 9" in r.err and
       "did not exit normally" in r.err, r)

r = Run("import torch")
expect("no CUDA", r.code == 0 and not r.files and "did not use CUDA" in r.err, r)
r = Run("pass")
expect("no torch", not r.files and "did not import torch" in r.err, r)
r = Run("raise SystemExit(7)")
expect("the exit code is passed on", r.code == 7, r)
r = Run("pass", python=(sys.executable, "-I"))
expect("python -I", "ignores its environment" in r.err and "no Python ran" in r.err, r)
r = Run("import torch; torch.cuda.memory._record_memory_history(5); torch.cuda.empty(); print(torch.cuda.memory.calls)",
        options=("--max-entries", "1234"))
expect("the job's own history stays", r.out == "[(5, 'all', 'all')]\n" and "its settings stay" in r.err, r)
r = Run("import torch; torch.cuda.empty(); print(torch.cuda.memory.calls)", options=("--max-entries", "1234"))
expect("the ring's size", r.out == "[(1234, 'all', 'python')]\n", r)

r = Run("import torch\ntorch.cuda.empty()\nprint('lives')", env={"STUB_CANNOT_RECORD": "1"})
expect("a torch that cannot record", r.code == 0 and r.out == "lives\n" and "does not record" in r.err, r)

own = tempfile.mkdtemp()
with open(os.path.join(own, "sitecustomize.py"), "w", encoding="utf-8") as f:
    f.write("import builtins; builtins.mine = 42\n")
r = Run("import torch; torch.cuda.empty(); print(mine)", env={"PYTHONPATH": own + ":" + stub})
expect("the user's own sitecustomize still runs", r.out == "42\n" and r.why() == ["end.pickle"], r)

print("\n".join(failures) or "record: all jobs as expected")
sys.exit(bool(failures))
