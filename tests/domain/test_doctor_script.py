"""plimsoll doctor SCRIPT: one page before a run, and an exit code."""
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest

if importlib.util.find_spec("torch") is None:
    print("SKIPPED: there is no PyTorch here; tools/venv.sh makes an environment with one", file=sys.stderr)
    sys.exit(77)

HEAD = """import sys
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
data = TensorDataset(torch.randn(64, 512), torch.randint(0, 10, (64,)))
"""
LOOP = """model = nn.Linear(512, 10).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True)).backward()
    optimizer.step()
"""
LOADER = "loader = DataLoader(data, batch_size=16, num_workers=1, pin_memory=True)\n"


class Script(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def write(self, code):
        path = os.path.join(self.folder, "train.py")
        with open(path, "w", encoding="utf-8") as f:
            f.write(code)
        return path

    def doctor(self, *words):
        env = dict(os.environ, PATH=os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"])
        return subprocess.run([os.environ["PLIMSOLL_PROGRAM"], "doctor", *words], capture_output=True, text=True, env=env, cwd=self.folder)

    def rows(self, code, *options, arguments=()):
        """The exit code, and the rows by what they are about (state, says)."""
        done = self.doctor("--json", *options, self.write(code), *arguments)
        self.assertEqual(done.stderr, "")
        found = {}
        for check in json.loads(done.stdout)["checks"]:
            found.setdefault(check["what"].split()[0], []).append((check["state"], check["says"]))
        return done.returncode, found

    def test_a_sound_script_is_one_page(self):
        done = self.doctor("--gpu", "H100", self.write(HEAD + LOADER + LOOP))
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertLess(max(map(len, done.stdout.splitlines())), 81)
        self.assertIn(os.path.join(os.path.dirname(sys.executable), "python3"), done.stdout)  # the interpreter
        for said in ("nothing was found", "train.py:9: batch_size=16, num_workers=1", "Fits: it needs", "At the peak"):
            self.assertIn(said, " ".join(done.stdout.split()))

    def test_it_runs_under_the_tracer_alone_and_with_its_arguments(self):
        code = HEAD + "with open('ran', 'a') as f:\n    print('plimsoll.tracing' in sys.modules, sys.argv[1:], file=f)\n" + LOADER + LOOP
        code, found = self.rows(code, arguments=["--lr", "1"])
        self.assertEqual((code, found["plan"][0][0]), (0, "note"))
        with open(os.path.join(self.folder, "ran"), encoding="utf-8") as f:
            self.assertEqual(set(f), {"True ['--lr', '1']\n"})

    def test_what_would_fail_is_exit_code_1(self):
        for fault in ("open('missing.json')\n", "sys.exit('no data')\n", "nn.Linear(3, 4).cuda()(torch.ones(2, 5, device='cuda'))\n"):
            code, found = self.rows(HEAD + fault)
            self.assertEqual((code, found["plan"][0][0]), (1, "no"), (fault, found))
        code, found = self.rows(HEAD + LOADER.replace("num_workers=1", "num_workers=0").replace(")\n", ", persistent_workers=bool(sys.argv))\n") + LOOP)
        self.assertEqual((code, found["loader"][0][0]), (1, "no"), found)
        code = (HEAD + LOADER + LOOP.replace("    optimizer.zero_grad()\n", "")).replace("512", "2**18").replace("10)", "2**18)")
        code, found = self.rows(code, "--gpu", "T4")
        self.assertEqual((code, found["lint"][0][0], found["plan"][0][0]), (1, "no", "no"), found)
        self.assertIn("Does not fit", found["plan"][0][1])

    def test_what_is_not_known_is_no_failure(self):
        code, found = self.rows(HEAD + "print(nn.Linear(4, 4).cuda().weight.shape)\n")  # it does not train
        self.assertEqual((code, found["plan"][0][0]), (0, "note"), found)
        code, found = self.rows("import os, time\nprint(os.getpid(), file=open('pid', 'w'), flush=True)\ntime.sleep(10000)\n", "--time-limit", "3")
        self.assertEqual((code, found["plan"][0][0]), (0, "note"), found)
        self.assertIn("longer than 3 s", found["plan"][0][1])
        if os.path.exists(os.path.join(self.folder, "pid")):  # nothing that was started is left
            with open(os.path.join(self.folder, "pid"), encoding="utf-8") as f:
                self.assertRaises(ProcessLookupError, os.kill, int(f.read()), 0)

    def test_a_name_that_is_misspelt(self):
        done = self.doctor("tran.py")
        self.assertEqual((done.returncode, done.stdout), (3, ""))
        self.assertIn("cannot read 'tran.py'", done.stderr)

    def test_redacted_nothing_of_the_script_is_shown(self):
        done = self.doctor("--redact", self.write(HEAD + "open('/secret/place')\n" + LOADER + LOOP))
        for hidden in ("train.py", "secret", self.folder):
            self.assertNotIn(hidden, done.stdout)


if __name__ == "__main__":
    unittest.main()
