"""plimsoll gate: planned peaks against a baseline, the same bytes in every run."""
import contextlib
import importlib.util
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from plimsoll import _baseline, _gate
from plimsoll.errors import FormatError, NotFoundError, UnsupportedError

TORCH = importlib.util.find_spec("torch") is not None
TOML = importlib.util.find_spec("tomllib" if sys.version_info >= (3, 11) else "tomli") is not None
PROGRAM = os.environ["PLIMSOLL_PROGRAM"]
CONFIG = json.dumps({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4,
                     "intermediate_size": 128, "vocab_size": 1000})
# Which of the three words is the first is up to the hash seed; the tracer must see the same one in each run.
TRAIN = """
import sys
import torch
first = next(iter({"alpha", "be", "gamma-delta"}))
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.wide, self.head = torch.nn.Linear(64, 512), torch.nn.Linear(512, int(sys.argv[1])), torch.nn.Linear(512, 8 * len(first))
    def forward(self, x):
        x = self.stem(x)
        return self.head(x).sum() + self.wide(x).relu().sum()
net = Net().cuda()
optimizer = torch.optim.SGD(net.parameters())
for _ in range(3):
    net(torch.randn(4096, 64, device="cuda")).backward()
    optimizer.step()
    optimizer.zero_grad()
"""
TABLES = '[[gate]]\nname = "größe | 4"\nplan = "config.json --batch {batch} --seq 128"\ngpu = "L4"\n'
TRACED = '[[gate]]\nname = "net"\nrun = ["{python}", "train.py", "{width}"]\nmemory = "4GiB"\n'


def put(folder, name, text):
    path = os.path.join(folder, name)
    os.makedirs(folder, exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def folder_of(folder, width=1024, batch=4, traced=TORCH):
    put(folder, "config.json", CONFIG)
    put(folder, "train.py", TRAIN)
    return put(folder, "gate.toml", TABLES.format(batch=batch) + (TRACED.format(python=sys.executable, width=width) if traced else ""))


def start(path, *words, **env):
    return subprocess.Popen([PROGRAM, "gate", path, *words], env={**os.environ, **env}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def ended(job):
    said, wrong = job.communicate()
    return job.returncode, said.decode(), wrong.decode()


@contextlib.contextmanager
def scratch():
    with tempfile.TemporaryDirectory() as folder:
        yield os.path.realpath(folder)


class Files(unittest.TestCase):
    @unittest.skipUnless(TOML, "there is no reader of TOML")
    def test_what_is_wrong_is_one_line(self):
        for text, said in (("[[gate]\n", "line 1"), ("", "no [[gate]]"), ("gate = 3", "no [[gate]]"), ("[[gate]]\nrun = 'python x'", "[[gate]] 1 has no name"),
                           ("[[gate]]\nname = 'a'", "'a' needs one of run"), ("[[gate]]\nname = 'a'\nrun = 'python x'\nplan = '--layers 2'", "'a' needs one of run"),
                           ("[[gate]]\nname = 'a'\nrun = 3", "run of 'a' is not a text"), ("[[gate]]\nname = 'a'\nrun = 'python \"x'", "No closing quotation"),
                           ("[[gate]]\nname = 'a'\nrun = 'python x'\ngpus = 'L4'", "'a' has 'gpus'"), ("more = 1", "the file has 'more'"),
                           ("[[gate]]\nname = 'a'\nplan = 'x -- python y'", "a command is run"), ("fail_over = '2'\n[[gate]]\nname = 'a'\nrun = 'p'", "fail_over takes"),
                           ("[[gate]]\nname = 'a'\nrun = 'p'\n[[gate]]\nname = 'a'\nrun = 'p'", "there twice"), ("x = " + "[" * 5000, "not TOML"),
                           ("[[gate]]\nname = 'a'\nrun = ['p', 'x\\u0000']".replace("'x\\u0000'", '"x\\u0000"'), "run of 'a'")):
            with self.subTest(text[:60]), scratch() as folder:
                with self.assertRaises(FormatError) as caught:
                    _gate.read(put(folder, "gate.toml", text))
                self.assertIn(said, str(caught.exception))
                self.assertNotIn("\n", str(caught.exception))
        with self.assertRaises(NotFoundError):
            _gate.read("/nowhere/gate.toml")

    def test_python_without_toml_says_so(self):
        with mock.patch.object(_gate.importlib, "import_module", side_effect=ModuleNotFoundError), self.assertRaisesRegex(UnsupportedError, "pip install tomli"):
            _gate.read("gate.toml")

    def test_a_baseline_keeps_what_others_wrote(self):
        with scratch() as folder:
            path = put(folder, "b.json", json.dumps({"schema": _baseline.SCHEMA, "fail_over": "3%", "peaks": {
                "tests/a.py::test": {"device": "cuda", "peak_bytes": 5}, "gone": {"device": "plan L4", "peak_bytes": 7, "modules": {"m": 7}}}}))
            baseline = _baseline.Baseline.read(path)
            one = _gate.Configuration("new", (), "plan L4")
            _gate.write(_gate.Gate("", path, None, [one]), baseline, [_gate.Planned(9, modules={"m.*": 9})])
            after = _baseline.Baseline.read(path)
            self.assertEqual(after.peaks, {"tests/a.py::test": ("cuda", 5), "new": ("plan L4", 9)})
            self.assertEqual((after.modules, after.fail_over.text), ({"new": {"m.*": 9}}, "3%"))
            for modules in ([], {"m": "7"}, {"m": True}):
                put(folder, "b.json", json.dumps({"schema": _baseline.SCHEMA, "peaks": {"a": {"device": "plan", "peak_bytes": 7, "modules": modules}}}))
                with self.assertRaisesRegex(FormatError, '"modules" of "a"'):
                    _baseline.Baseline.read(path)

    def test_blocks_are_one_module_and_members_are_not(self):
        owners = [{"module": name, "frame": None, "bytes": 1} for name in ("layers.0.mlp", "layers.1.mlp", "layers.0", "layers.1", "seq.0", "seq.1")]
        owners.append({"module": None, "frame": "train.py:3 in\nstep", "bytes": 4})
        self.assertEqual(_gate._modules({"devices": [{"at_peak": {"owners": owners}}, {"at_peak": None}]}),
                         {"layers.*.mlp": 2, "layers.*": 2, "seq.0": 1, "seq.1": 1, "train.py:3 in step": 4})

    def test_another_gpu_is_not_compared_and_what_does_not_fit_fails(self):
        baseline = _baseline.Baseline("b.json", peaks={"a": ("plan L4", 100)})
        row = _gate.compare(_gate.Configuration("a", (), "plan H100"), _gate.Planned(200, fits=True), baseline, False)
        self.assertEqual((row.wrong, row.before_bytes), ("", None))
        self.assertIn("not compared", row.note)
        row = _gate.compare(_gate.Configuration("a", (), "plan L4"), _gate.Planned(100, fits=False), baseline, False)
        self.assertEqual(row.wrong, "does not fit")
        self.assertIn("\\|", _gate.told_markdown([_gate.Row("a | b", _gate.Planned(1), None, [], "", "x | y")], ""))


@unittest.skipUnless(TOML, "there is no reader of TOML")
class Runs(unittest.TestCase):
    def test_the_same_bytes_in_every_run(self):
        with scratch() as folder:
            paths = [folder_of(os.path.join(folder, name)) for name in ("one", "two of them")]
            written = []
            for seed, path in enumerate(paths):
                self.assertEqual(ended(start(path, "--update", PYTHONHASHSEED=str(seed)))[0], 0)
                with open(path.replace(".toml", ".baseline.json"), "rb") as file:
                    written.append(file.read())
            self.assertEqual(written[0], written[1])
            answers = set()
            for seed, locale in ((1, "C"), (22, "C.UTF-8"), (333, "POSIX")):
                jobs = [start(path, PYTHONHASHSEED=str(seed + i), LC_ALL=locale, PYTHONUTF8="0") for i, path in enumerate(paths)]  # two at once
                answers.update(ended(job) for job in jobs)
            self.assertEqual(len(answers), 1, answers)
            code, said, wrong = answers.pop()
            self.assertEqual((code, wrong, said.count("none")), (0, "", 2 if TORCH else 1), said)

    def test_a_growth_of_one_per_cent_is_found_with_its_module(self):
        with scratch() as folder:
            path = folder_of(folder)
            self.assertEqual(ended(start(path, "--update"))[0], 0)
            folder_of(folder, width=1024 + 24, batch=5)
            code, said, _ = ended(start(path))
            self.assertEqual(code, 1, said)
            rows = said.split("größe | 4\n")
            self.assertIn("GREW BY MORE THAN 0.5%", rows[1])
            if TORCH:
                self.assertEqual(said.count("GREW"), 2, said)
                self.assertIn("  wide\n", rows[1].split("  net\n")[1])
                self.assertRegex(said, r"\(\+[01]\.[0-9]+ %\)  net")
            code, said, _ = ended(start(path, "--fail-over", "90%", "--format", "markdown"))
            self.assertEqual(code, 0, said)
            self.assertIn("| `größe \\| 4` |", said)

    def test_what_cannot_be_planned(self):
        with scratch() as folder:
            path = folder_of(folder, traced=False)
            code, said, wrong = ended(start(path))
            self.assertEqual((code, said), (3, ""))
            self.assertIn("--update writes it", wrong)
            self.assertEqual(ended(start(path, "--update"))[0], 0)
            put(folder, "gate.toml", TABLES.format(batch=4) + '[[gate]]\nname = "lost"\nplan = "lost.json"\n')
            code, said, _ = ended(start(path, "--update"))
            self.assertEqual(code, 3, said)
            self.assertRegex(said, "(?s)NOT PLANNED.*lost.json.*was not written")
            put(folder, "gate.toml", TABLES.format(batch=4).replace('gpu = "L4"', 'memory = "2MiB"'))
            code, said, _ = ended(start(path))
            self.assertEqual(code, 1, said)
            self.assertIn("DOES NOT FIT", said)

    @unittest.skipUnless(TORCH, "there is no PyTorch")
    def test_a_script_that_fails(self):
        with scratch() as folder:
            path = folder_of(folder)
            put(folder, "train.py", "raise ValueError('the data is not here')\n")
            code, said, _ = ended(start(path, "--update"))
            self.assertEqual(code, 4, said)
            self.assertIn("the data is not here", said)
            self.assertFalse(os.path.exists(os.path.join(folder, "gate.baseline.json")))


@unittest.skipUnless(TOML and importlib.util.find_spec("yaml"), "there is no reader of TOML or of YAML")
class Pipelines(unittest.TestCase):
    """The exit code is the gate's, and its table is kept."""

    def run_of(self, lines, folder, **env):
        words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", lines]  # as GitHub's `shell: bash`, and GitLab's
        path = f"{os.path.dirname(PROGRAM)}:{os.environ['PATH']}"
        return subprocess.run(words, cwd=folder, env={**os.environ, "PATH": path, **env}, capture_output=True, check=False, encoding="utf-8")

    def test_github_and_gitlab(self):
        import yaml
        with scratch() as folder:
            self.assertEqual(ended(start(folder_of(folder, traced=False), "--update"))[0], 0)
            templates = os.path.join(os.environ["PLIMSOLL_SOURCE"], "examples", "gate")
            with open(os.path.join(templates, "action.yaml"), encoding="utf-8") as file:
                action = yaml.safe_load(file)
            with open(os.path.join(templates, "gitlab-ci.yaml"), encoding="utf-8") as file:
                job = yaml.safe_load(file)["plimsoll-gate"]
            step = action["runs"]["steps"][-1]
            self.assertEqual((step["env"], step["shell"], job["artifacts"]["paths"]), ({"FILE": "${{ inputs.file }}"}, "bash", ["gate.md"]))
            for batch, code in ((4, 0), (5, 1)):
                folder_of(folder, batch=batch, traced=False)
                summary = os.path.join(folder, f"summary{batch}")
                github = self.run_of(step["run"], folder, FILE="gate.toml", GITHUB_STEP_SUMMARY=summary)
                gitlab = self.run_of("\n".join(job["script"]), folder, PLIMSOLL_GATE="gate.toml")
                with open(summary, encoding="utf-8") as file, open(os.path.join(folder, "gate.md"), encoding="utf-8") as kept:
                    tables = {file.read(), kept.read(), github.stdout, gitlab.stdout}
                self.assertEqual((github.returncode, gitlab.returncode, len(tables)), (code, code, 1), (github, gitlab))
                self.assertIn("| `größe", tables.pop())


class Command(unittest.TestCase):
    def test_a_program_by_a_relative_path_is_found_from_the_folder_of_the_file(self):
        for given, found in (("build/plimsoll", os.path.abspath("build/plimsoll")), ("plimsoll", "plimsoll")):
            with mock.patch.dict(os.environ, {"PLIMSOLL": given}):
                self.assertEqual(_gate.program(), found)

    def test_options(self):
        with contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(SystemExit) as ended_with:
            _gate.main(["a.toml", "--format", "html"])
        self.assertEqual(ended_with.exception.code, 2)
        self.assertIn("html", said.getvalue())


if __name__ == "__main__":
    unittest.main()
