#!/usr/bin/env python3
"""plimsoll lint: rules, examples, output, fixes, joining.  run.py PLIMSOLL DATA [unittest's arguments]

Imports the linter from a folder that holds nothing else of the package: it must need neither the library nor the rest.
"""
from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PLIMSOLL = str(Path(sys.argv[1]).resolve())
DATA = Path(sys.argv[2]).resolve()
ALONE = tempfile.TemporaryDirectory()
shutil.copytree(ROOT / "python/plimsoll/lint", Path(ALONE.name, "plimsoll/lint"), ignore=shutil.ignore_patterns("__pycache__"))
sys.dont_write_bytecode = True
sys.path.insert(0, ALONE.name)

from plimsoll.lint import catalogue, cli, engine, fixes, join, output, redact, source, values  # noqa: E402
from plimsoll.lint.program import analyse  # noqa: E402

ALL = engine.Settings(select=("PLM",))
SHIPPED = engine.Settings()


def lint(text: str, settings: engine.Settings = ALL, path: str = "x.py") -> engine.Result:
    return engine.lint_text(path, text, settings)


def command(*arguments: str, cwd: str | None = None, stdin: str | None = None, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("GITHUB_", "PLIMSOLL")) and k != "PYTHONPATH"}
    return subprocess.run([sys.executable, "-B", "-m", "plimsoll.lint", *arguments], capture_output=True, text=True, cwd=cwd, input=stdin, timeout=120,
                          env={**clean, "PYTHONPATH": ALONE.name, **(env or {})}, check=False)


def sections() -> list[tuple[str, bool, str]]:
    """(name, whether it is a mistake, text) of tests/lint/cases."""
    found = []
    for file in sorted((HERE / "cases").glob("*.py")):
        for part in file.read_text().split("\n#: ")[1:]:
            head, _, text = part.partition("\n")
            found.append((f"{file.name}: {head}", head.startswith("bad"), text + "\n"))
    return found


def against(schema: dict[str, object], data: object, whole: dict[str, object], at: str = "") -> list[str]:
    """What of a document breaks a JSON Schema, of the keywords that tests/lint/sarif.schema.json uses."""
    if "$ref" in schema:
        schema = whole["definitions"][str(schema["$ref"]).rpartition("/")[2]]  # type: ignore[index,assignment]
    types = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool}
    kind = schema.get("type")
    if kind and not isinstance(data, types[str(kind)]) or kind in ("integer", "number") and isinstance(data, bool):  # type: ignore[arg-type]
        return [f"{at}: no {kind}"]
    wrong = [f"{at}: {data!r} is none of {schema['enum']}"] if "enum" in schema and data not in schema["enum"] else []  # type: ignore[operator]
    if "pattern" in schema and not re.search(str(schema["pattern"]), str(data)):
        wrong.append(f"{at}: {data!r} is not as {schema['pattern']}")
    if "minimum" in schema and data < schema["minimum"] or "maximum" in schema and data > schema["maximum"]:  # type: ignore[operator]
        wrong.append(f"{at}: {data} is out of range")
    if isinstance(data, list):
        wrong += [f"{at}: too few"] if len(data) < int(schema.get("minItems", 0)) else []  # type: ignore[call-overload]
        return wrong + [w for i, part in enumerate(data) for w in against(schema.get("items", {}), part, whole, f"{at}[{i}]")]  # type: ignore[arg-type]
    if isinstance(data, dict):
        known: dict[str, dict[str, object]] = schema.get("properties", {})  # type: ignore[assignment]
        wrong += [f"{at}: lacks {name}" for name in schema.get("required", []) if name not in data]  # type: ignore[attr-defined]
        wrong += [f"{at}: {name} is no member" for name in data if name not in known and schema.get("additionalProperties") is False]
        wrong += [w for name, part in data.items() if name in known for w in against(known[name], part, whole, f"{at}.{name}")]
    return wrong


TREE = {
    "pkg/__init__.py": "from .meters import Meter, Number, Window\n",
    "pkg/meters.py": """class Meter:
    def __init__(self):
        self.reset()
    def reset(self):
        self.sum = 0
    def update(self, val, n=1):
        self.val = val
        self.sum += val * n


class Number(Meter):
    def update(self, val, n=1):
        if hasattr(val, 'item'):
            val = val.item()
        self.sum += val * n


class Window(Meter):
    def update(self, val):
        self.last.append(val)
        if len(self.last) > 9:
            self.last.pop(0)
""",
    "pkg/net.py": """import torch
from torch import nn
from .base import Base


class Net(Base):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
    def forward(self, x):
        return self.layer(x)
    def training_step(self, batch):
        x, y = batch
        return nn.functional.mse_loss(self.layer(x), y)
    def number_step(self, batch):
        return self.training_step(batch).item()
""",
    "pkg/base.py": "from torch import nn\nfrom . import net\n\n\nclass Base(nn.Module):\n    pass\n",
    "broken.py": "def compute(:\n",
    "circle.py": "from circle import *\nfrom circle import around\n",
    "losses.py": """import torch
kept_here = []


def compute(model, x, y):
    return (model(x) - y).pow(2).mean()


def detached(model, x, y):
    return compute(model, x, y).detach()


def number(model, x, y):
    return compute(model, x, y).item()


@torch.no_grad()
def quiet(model, x, y):
    return compute(model, x, y)


def keep(store, x):
    store.append(x)


def keep_detached(store, x):
    store.append(x.detach().cpu())


def keep_global(x):
    kept_here.append(x)
""",
}
HEAD = """import torch
import losses
from losses import compute, keep
from pkg import Meter, Number, Window
from pkg.net import Net


def evaluate(loader):
    net = Net()
    net.eval()
    meter, number, window, total, kept = Meter(), Number(), Window(), 0, []
    for x, y in loader:
        out = net(x)
        %s
    print(total)
"""


class Follows(unittest.TestCase):
    """What is defined in another file of the program."""

    def setUp(self) -> None:
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.top = made.name
        for name, text in TREE.items():
            Path(made.name, name).parent.mkdir(exist_ok=True)
            Path(made.name, name).write_text(text)

    def found(self, line: str, head: str = HEAD, path: str = "train.py") -> set[str]:
        """The errors and warnings of a line of train.py, which need not be on disk."""
        text = head % line
        at = [n for n, row in enumerate(text.split("\n"), 1) if row.strip() == line.split("\n")[0]]
        return {f.id for f in lint(text, SHIPPED, str(Path(self.top, path))).findings if f.severity != "info" and f.place.line in at}

    def test_what_keeps_a_graph(self) -> None:
        for line, rule in (("total += compute(net, x, y)", "PLM101"), ("total += losses.compute(net, x, y)", "PLM101"),
                           ("kept.append(compute(net, x, y))", "PLM103"), ("kept.append(net.training_step((x, y)))", "PLM103"),
                           ("meter.update(out.mean())", "PLM101"), ("meter.update(val=out.mean(), n=2)", "PLM101"), ("keep(kept, out)", "PLM103"),
                           ("losses.keep_global(out)", "PLM103")):
            with self.subTest(line):
                self.assertEqual(self.found(line), {rule})

    def test_what_keeps_none(self) -> None:
        for line in ("total += losses.detached(net, x, y)", "total += losses.number(net, x, y)", "total += losses.quiet(net, x, y)",
                     "kept.append(net.number_step((x, y)))", "number.update(out.mean())", "meter.update(out.mean().item())", "window.update(out)",
                     "losses.keep_detached(kept, out)", "meter.update(out.mean())\n        meter.reset()", "with torch.no_grad(): meter.update(out.mean())"):
            with self.subTest(line):
                self.assertEqual(self.found(line), set())

    def test_what_leads_nowhere(self) -> None:
        """A file that does not parse, a circle, a name that is not there: as if the import was of another library."""
        for module in ("broken", "circle", "nowhere", "pkg.nowhere", "losses.nowhere", "..losses", "......losses"):
            head = HEAD.replace("from losses import compute, keep", f"from {module} import compute, keep, around")
            with self.subTest(module):
                self.assertEqual(self.found("total += compute(net, x, y)", head), set())
        self.assertEqual(self.found("total += around(net, x)", HEAD.replace("import losses\n", "from circle import *\n")), set())

    def test_where_it_looks(self) -> None:
        """A star, a package's relative imports, and the program's root for a script in a folder."""
        self.assertEqual(self.found("total += compute(net, x, y)", HEAD.replace("from losses import compute, keep", "from losses import *")), {"PLM101"})
        inside = HEAD.replace("import losses\nfrom losses", "from ..losses").replace("from pkg import", "from . import").replace("pkg.net", ".net")
        for line in ("total += compute(net, x, y)", "meter.update(out.mean())"):
            self.assertEqual(self.found(line, inside, "pkg/train.py"), {"PLM101"})
        self.assertEqual(self.found("total += compute(net, x, y)", path="scripts/train.py"), set())
        Path(self.top, "pyproject.toml").write_text("")
        self.assertEqual(self.found("total += compute(net, x, y)", path="scripts/train.py"), {"PLM101"})

    def test_the_place_is_named(self) -> None:
        text = HEAD % "meter.update(out.mean())"
        evidence = [f.evidence for f in lint(text, SHIPPED, str(Path(self.top, "train.py"))).findings if f.id == "PLM101"]
        self.assertIn("line 8 of meters.py: Meter.update() keeps it in self.sum", evidence[0])

    def test_a_file_learns_how_others_call_it(self) -> None:
        """A module that another file gives makes a parameter, or a member, a module, whatever it is called; and callers without gradients are heard."""
        Path(self.top, "uses.py").write_text("import torch\n\n\ndef run(thing, data):\n    kept = []\n    for x in data:\n        kept.append(thing(x))\n    print(len(kept))\n\n\n"
                                             "class Tester:\n    def __init__(self, thing):\n        self.thing = thing\n    def go(self, data):\n        for x in data:\n            print(self.thing(x))\n")
        for calls, wanted in (("uses.run(net, [1])", {("PLM103", 7), ("PLM110", 7)}), ("uses.Tester(net).go([1])", {("PLM110", 16)}),
                              ("with torch.no_grad():\n    uses.run(net, [1])", set()), ("uses.run(str, [1])", set())):
            Path(self.top, "main.py").write_text(f"import torch\nimport uses\nfrom pkg.net import Net\nnet = Net()\n{calls}\n")
            for files in (("main.py", "uses.py"), ("uses.py", "main.py")):
                with self.subTest(calls, files=files):
                    done = command("--no-config", "--json", *files, cwd=self.top)
                    self.assertEqual({(f["id"], f["place"]["line"]) for f in json.loads(done.stdout)["findings"]}, wanted)

    def test_a_method_of_a_module_without_a_class(self) -> None:
        """What runs a module is read off the methods of that name in all modules of the program; the file that calls it need not name PyTorch."""
        Path(self.top, "judge.py").write_text("class Judge:\n    def __init__(self, thing):\n        self.thing = thing\n\n    def go(self, data):\n        self.thing.eval()\n"
                                              "        for x in data:\n            print(self.thing.measure(x))\n")
        Path(self.top, "main.py").write_text("import torch, sys\nfrom judge import Judge\nnet = getattr(sys.modules['nets'], 'Net')()\nnet.eval()\nnet.load_state_dict({})\nJudge(net).go([1])\n")
        head = "import torch\nfrom torch import nn\n\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.layer = nn.Linear(8, 8)\n\n"
        for body, wanted in (("    def measure(self, x):\n        return self.layer(x).sum()\n", {("PLM110", 8)}), ("    def measure(self, x):\n        return x.sum()\n", set()),
                             ("    @torch.no_grad()\n    def measure(self, x):\n        return self.layer(x).sum()\n", set())):
            Path(self.top, "nets.py").write_text(head + body)
            for files in (("main.py", "judge.py", "nets.py"), ("nets.py", "judge.py", "main.py")):
                with self.subTest(body, files=files):
                    done = command("--no-config", "--json", *files, cwd=self.top)
                    self.assertEqual({(f["id"], f["place"]["line"]) for f in json.loads(done.stdout)["findings"]}, wanted)

    def test_the_command_follows(self) -> None:
        Path(self.top, "train.py").write_text(HEAD % "meter.update(out.mean())")
        os.remove(Path(self.top, "broken.py"))
        done = command("--no-config", "--json", ".", cwd=self.top)
        self.assertIn(("train.py", "PLM101"), {(f["place"]["file"], f["id"]) for f in json.loads(done.stdout)["findings"]})


class Rules(unittest.TestCase):
    def test_examples(self) -> None:
        """Every rule finds its bad example and nothing of the kind in its good one."""
        self.assertEqual(len(catalogue.RULES), 62)
        for rule in catalogue.RULES:
            with self.subTest(rule.id):
                bad = lint(catalogue.PREAMBLE + rule.bad)
                good = lint(catalogue.PREAMBLE + rule.good)
                self.assertIn(rule.id, [f.id for f in bad.findings])
                self.assertNotIn(rule.id, [f.id for f in good.findings])
                self.assertEqual([f.id for f in good.findings if f.severity != "info"], [])

    def test_preamble_is_clean(self) -> None:
        self.assertEqual([f.id for f in lint(catalogue.PREAMBLE).findings], [])

    def test_cases(self) -> None:
        head = catalogue.PREAMBLE.count("\n")
        for name, bad, text in sections():
            with self.subTest(name):
                wanted = {(rule, number) for number, line in enumerate(text.split("\n"), 1) if "# PLM" in line
                          for rule in re.findall(r"PLM\d+", line.partition("# PLM")[1] + line.partition("# PLM")[2])}
                self.assertEqual(bool(wanted), bad)
                shown = {rule for rule, _ in wanted}
                result = lint(catalogue.PREAMBLE + text)
                found = {(f.id, f.place.line - head) for f in result.findings if f.severity != "info" or f.id in shown}
                number = re.match(r"\S+ (?:bad|good) (\d+)", name)
                assert number is not None
                self.assertEqual(found, wanted)
                if not bad:
                    self.assertNotIn(f"PLM{number[1]}", [f.id for f in result.findings])

    def test_lists_in_lists(self) -> None:
        """Each line doubles what the list holds; a loop over all of it would take years."""
        text = "import torch\ndef pairs(a):\n" + "    a = [a, a]\n" * 60 + "    return a\nprint(pairs(torch.zeros(3)))\n"
        done = subprocess.run([sys.executable, "-B", "-m", "plimsoll.lint", "--no-config", "--json", "-"], capture_output=True, text=True, input=text, timeout=20,
                              env={**os.environ, "PYTHONPATH": ALONE.name}, check=False)
        self.assertEqual(json.loads(done.stdout)["files"], 1, done.stderr)

    def test_a_value_has_a_short_text(self) -> None:
        """To print a value once went through all that it is made of, and through its program."""
        value = values.TEXT_VALUE
        for _ in range(60):
            value = values.Value(values.LIST, True, items=(value, value))
        self.assertLess(len(repr(value)), 200)
        program = analyse(source.parse("x.py", "import torch\ndef f(x):\n    return x\ny = f(f)\n"))
        self.assertLess(len(repr(next(iter(program.traces.values())).events[0])), 5000)

    def test_once_for_a_program(self) -> None:
        """DataParallel is one decision for all scripts of a program; another program has its own."""
        text = "import torch\nfrom torch import nn\nnet = nn.DataParallel(nn.Linear(8, 8))\nfor x in torch.utils.data.DataLoader(range(3)):\n    net(x).sum().backward()\n"
        with tempfile.TemporaryDirectory() as top:
            for name in ("a/train.py", "a/tools/tune.py", "b/train.py"):
                Path(top, name).parent.mkdir(parents=True, exist_ok=True)
                Path(top, name).write_text(text)
                Path(top, name[0], "setup.py").write_text("")
            done = command("--no-config", "--json", ".", cwd=top)
            found = sorted(f["place"]["file"] for f in json.loads(done.stdout)["findings"] if f["id"] == "PLM508")
        self.assertEqual([f.partition("/")[0] for f in found], ["a", "b"])

    def test_nothing_without_torch(self) -> None:
        self.assertEqual(lint("total = 0\nfor x in loader:\n    total += model(x)\n").findings, [])

    def test_a_word_in_a_comment_is_no_import(self) -> None:
        text = "from mxnet import gluon  # not torch\nnet = gluon.nn.Dense(8)\ndef test(loader):\n    net.eval()\n    for x in gluon.data.DataLoader(loader):\n        print(net(x))\n"
        self.assertEqual(lint(text).findings, [])
        self.assertNotEqual(lint(text.replace("# not torch", "") + "import torch\n").findings, [])

    def test_severity_needs_confidence(self) -> None:
        for _, _, text in sections():
            for finding in lint(catalogue.PREAMBLE + text).findings:
                self.assertTrue(finding.severity != "error" or finding.confidence >= 0.9)

    def test_one_rule_alone_finds_the_same(self) -> None:
        """A check that reports several rules runs for each of them."""
        for name, text in [(r.id, r.bad) for r in catalogue.RULES] + [(n, t) for n, bad, t in sections() if bad]:
            for rule in {f.id for f in lint(catalogue.PREAMBLE + text).findings}:
                alone = lint(catalogue.PREAMBLE + text, engine.Settings(select=(rule,)))
                self.assertTrue({f.place.line for f in lint(catalogue.PREAMBLE + text).findings if f.id == rule} <= {f.place.line for f in alone.findings}, f"{name} {rule}")

    def test_what_a_test_runs(self) -> None:
        """A function that pytest or unittest calls and that checks something is not an evaluation; a script that is called test_x.py may be one."""
        body = "    net.eval()\n    for x in DataLoader(dataset):\n        out = net(x)\n        {} out.sum().item() > 0\n"
        for head, path, word, found in (("def test_net(net: nn.Module):\n", "test_net.py", "assert", False), ("def test_net(net: nn.Module):\n", "net.py", "assert", True),
                                        ("def test_net(net: nn.Module):\n", "test_net.py", "yield", True), ("def run(net: nn.Module):\n", "test_net.py", "assert", True)):
            with self.subTest(head=head, path=path, word=word):
                self.assertEqual("PLM110" in [f.id for f in lint(catalogue.PREAMBLE + head + body.format(word), path=path).findings], found)
        case = "import unittest\nclass Net(unittest.TestCase):\n    def check(self):\n" + body.replace("    ", "        ").format("yield") + "        self.assertTrue(out)\n"
        self.assertEqual(lint(catalogue.PREAMBLE + case, path="net.py").findings, [])

    def test_a_load_of_every_rank_is_worse(self) -> None:
        text = catalogue.PREAMBLE + "import torch.distributed as dist\ndist.init_process_group('gloo')\n{}model.load_state_dict(torch.load('model.pt'))\n"
        for guard, severity in (("", "warning"), ("if dist.get_rank() == 0: ", "info")):
            self.assertEqual([f.severity for f in lint(text.format(guard)).findings if f.id == "PLM401"], [severity])
        text = catalogue.PREAMBLE + catalogue.BY_ID["PLM401"].bad
        self.assertEqual([f.severity for f in lint(text).findings], ["info"])
        self.assertEqual([f.id for f in lint(text, SHIPPED).findings], [])  # an info of a rule that is off
        ranks = text.replace("model.load", "import torch.distributed as dist\ndist.init_process_group('gloo')\nmodel.load")
        self.assertEqual([f.id for f in lint(ranks, SHIPPED).findings], ["PLM401"])

    def test_claims_exist(self) -> None:
        """What a rule says was measured stands in docs/claims.md."""
        claims = (ROOT / "docs/claims.md").read_text()
        for rule in catalogue.RULES:
            if rule.claim:
                self.assertIn(f"| {rule.claim}", claims, rule.id)
            if "docs/claims.md" in rule.source:
                self.assertTrue(rule.claim, rule.id)

    def test_page_is_the_table(self) -> None:
        made = subprocess.run([sys.executable, "-B", ROOT / "tools/lint-page.py"], capture_output=True, text=True, check=True).stdout
        self.assertEqual(made, (ROOT / "docs/lint.md").read_text(), "make docs writes docs/lint.md")

    def test_version(self) -> None:
        version = re.search(r"version: '([\d.]+)'", (ROOT / "meson.build").read_text())
        assert version is not None
        self.assertEqual(sys.modules["plimsoll.lint"].__version__, version[1])


class Fixes(unittest.TestCase):
    def test_state_is_detached_before_its_pass(self) -> None:
        """Behind the pass of a cell the detached state would be the loss's own, which then has no graph at all."""
        text = catalogue.PREAMBLE + """class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(8, 8)
        self.h, self.c = torch.zeros(4, 8), torch.zeros(4, 8)
    def forward(self, x):
        self.h, self.c = self.cell(x, (self.h, self.c))
        return self.h
net = Net()
for x, y in loader:
    loss = criterion(net(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
        found = lint(text).findings
        self.assertIn("self.h.detach(), in front of line", found[0].fix[0])
        after = fixes.fix("x.py", text, found, ALL, True).after
        for name in "hc":
            self.assertLess(after.index(f"else self.{name}.detach()"), after.index("self.cell(x"))

    def test_fixed_once_and_for_all(self) -> None:
        """What a fix fixes parses, is found no more, and a second fix changes nothing."""
        texts = [catalogue.PREAMBLE + r.bad for r in catalogue.RULES] + [catalogue.PREAMBLE + "DataLoader(dataset, shuffle=True, sampler=mine)\nDataLoader(dataset, batch_sampler=mine, batch_size=4, drop_last=True)\n"] + [catalogue.PREAMBLE + t for _, bad, t in sections() if bad]
        mended = set()
        for text in texts:
            for unsafe in (False, True):
                first = fixes.fix("x.py", text, lint(text).findings, ALL, unsafe)
                again = fixes.fix("x.py", first.after, lint(first.after).findings, ALL, unsafe)
                self.assertEqual(again.after, first.after)
                self.assertEqual(fixes.choose(lint(first.after).findings, unsafe), [])
                for finding in first.made:
                    mended.add(finding.id)
                    self.assertTrue(unsafe or finding.fix_is_safe)
        for rule in ("PLM208", "PLM101", "PLM103", "PLM206", "PLM302", "PLM401", "PLM403", "PLM506", "PLM701", "PLM704", "PLM802", "PLM804", "PLM810",
                     "PLM104", "PLM110", "PLM111", "PLM116", "PLM204", "PLM502", "PLM803"):
            self.assertIn(rule, mended)

    def test_a_sum_does_not_wait(self) -> None:
        """What is only added up or kept is detached: no fix brings the waits that another rule finds."""
        for rule in ("PLM101", "PLM102"):
            text = catalogue.PREAMBLE + catalogue.BY_ID[rule].bad
            before = lint(text).findings
            after = fixes.fix("x.py", text, before, ALL, False).after
            self.assertIn(".detach()", after)
            self.assertLessEqual({f.id for f in lint(after).findings}, {f.id for f in before} - {rule})

    def test_famous_mistakes_are_on(self) -> None:
        """A loss kept with its graph and the outputs of a whole set on the GPU are reported as it ships."""
        for rule, severity in (("PLM101", "error"), ("PLM111", "warning")):
            found = lint(catalogue.PREAMBLE + catalogue.BY_ID[rule].bad, SHIPPED).findings
            self.assertIn((rule, severity), [(f.id, f.severity) for f in found])

    def test_no_fix_only_silences(self) -> None:
        """Outputs that are detached still pile up on the GPU: no safe fix of theirs, and none without .cpu()."""
        for head in ("", "model.eval()\n"):
            for kept in ("model(x)", "model(x.cuda())", "model(x)[0]"):
                text = catalogue.PREAMBLE + head + f"outputs = []\nfor x, y in loader:\n    out = {kept}\n    outputs.append(out)\nprint(len(outputs))\n"
                found = lint(text).findings
                self.assertIn("PLM103", [f.id for f in found])
                safe = fixes.fix("x.py", text, found, ALL, False)
                self.assertIn("PLM103", [f.id for f in lint(safe.after).findings])
                self.assertIn("outputs.append(out.detach().cpu())", fixes.fix("x.py", text, found, ALL, True).after)
                by_hand = text.replace("append(out)", "append(out.detach())")
                self.assertIn("PLM111", [f.id for f in lint(by_hand).findings])

    def test_memory_is_of_files_with_findings(self) -> None:
        """The parsed source of a file without findings is let go, unless a recording may point at it."""
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "a.py").write_text(catalogue.PREAMBLE)
            Path(folder, "b.py").write_text(catalogue.PREAMBLE + "model.eval\n")
            names = [[Path(r.path).name for r in cli.lint_paths([folder], [], ALL, "", every=every)[1]] for every in (False, True)]
        self.assertEqual(names, [["b.py"], ["a.py", "b.py"]])

    def test_whose_cost_it_is(self) -> None:
        """What was measured in another program does not read as this program's."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "x.py")
            path.write_text(catalogue.PREAMBLE + catalogue.BY_ID["PLM101"].bad)
            told = " ".join(command("--no-color", "--width", "500", "--select", "PLM", str(path)).stdout.split())
        self.assertIn("measured elsewhere: 57 MiB per step", told)

    def test_cost_is_said_once_per_rule(self) -> None:
        """Each finding of a rule repeated what its mistake cost elsewhere."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "x.py")
            path.write_text(catalogue.PREAMBLE + catalogue.BY_ID["PLM101"].bad * 2)
            told = command("--no-color", "--width", "500", "--select", "PLM101", str(path)).stdout
        self.assertGreater(told.count("PLM101"), 1)
        self.assertEqual(told.count("measured elsewhere"), 1)

    def test_what_a_model_keeps_is_not_known(self) -> None:
        """retain_graph=True is not taken away where the model's class is in another file."""
        text = catalogue.PREAMBLE + "from acme import Net\nnet = Net()\n" + catalogue.BY_ID["PLM105"].bad.replace("model(x)", "net(x)")
        found = [f for f in lint(text).findings if f.id == "PLM105"]
        self.assertEqual([f.edits for f in found], [[]] * len(found))
        self.assertNotEqual([f.edits for f in lint(catalogue.PREAMBLE + catalogue.BY_ID["PLM105"].bad).findings if f.id == "PLM105"], [[]])

    def test_file_is_shown_then_written(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "a.py")
            text = (catalogue.PREAMBLE + "y = 'é'; model.eval\n").replace("\n", "\r\n")
            path.write_bytes(text.encode())
            path.chmod(0o640)
            shown = command("--fix", str(path))
            self.assertIn("+y = 'é'; model.eval()", shown.stdout)
            self.assertEqual(path.read_bytes(), text.encode())
            done = command("--fix", "--yes", str(path))
            self.assertEqual(path.read_bytes(), text.replace("model.eval", "model.eval()").encode())
            self.assertEqual(path.stat().st_mode & 0o777, 0o640)
            self.assertEqual(done.returncode, 0)
            self.assertEqual(os.listdir(folder), ["a.py"])


class Reading(unittest.TestCase):
    def test_noqa(self) -> None:
        text = catalogue.PREAMBLE + "model.eval"
        self.assertEqual([f.id for f in lint(text).findings], ["PLM804"])
        for comment in ("# noqa", "# noqa: PLM804", "# NOQA:E501,PLM8", "# noqa: E501 PLM804 why"):
            self.assertEqual(lint(f"{text}  {comment}\n").findings, [], comment)
        for comment in ("# noqa: PLM101", "; s = '# noqa'"):
            self.assertEqual(len(lint(f"{text}  {comment}\n").findings), 1, comment)
        self.assertEqual(lint("# plimsoll: off\n" + text).findings, [])

    def test_columns_are_characters(self) -> None:
        text = catalogue.PREAMBLE + "s = 'ééé'; model.eval\n"
        finding = lint(text).findings[0]
        self.assertEqual((finding.place.column, finding.place.end_column), (12, 22))
        self.assertEqual(fixes.apply(text, finding.edits), text.replace("model.eval", "model.eval()"))

    def test_notebook(self) -> None:
        book = {"cells": [{"cell_type": "markdown", "source": ["# hello"]},
                          {"cell_type": "code", "source": ["%matplotlib inline\n", "!pip install x\n", *[line + "\n" for line in catalogue.PREAMBLE.splitlines()]]},
                          {"cell_type": "code", "source": "print(1)\nmodel.eval"}]}
        result = engine.lint_data("a.ipynb", json.dumps(book).encode(), ALL)
        self.assertEqual([(f.id, f.place.cell, f.place.line) for f in result.findings], [("PLM804", 3, 2)])
        self.assertIn("a.ipynb:cell3:2:1: PLM804", output.finding_text(result.findings[0]))
        # A cell that does not parse is left out, the others are linted, less surely; `%` goes on with a line, `%name` is IPython's.
        cells = [catalogue.PREAMBLE + "print('%d'\n    % (1))\nfiles = !ls\nmodel?\nawait f()", "<your code>", "%%time\nmodel.eval", "%%bash\nls ("]
        book = {"cells": [{"cell_type": "code", "source": text} for text in cells]}
        result = engine.lint_data("a.ipynb", json.dumps(book).encode(), ALL)
        self.assertEqual([(f.id, f.severity, f.place.cell, f.place.line) for f in result.findings], [("PLM804", "warning", 3, 2)])
        self.assertEqual(result.error, "left out, because they cannot be parsed: cell 2, line 1: invalid syntax")
        book["metadata"] = {"language_info": {"name": "julia"}}  # type: ignore[assignment]
        result = engine.lint_data("a.ipynb", json.dumps(book).encode(), ALL)
        self.assertEqual((result.findings, result.error), ([], ""))
        self.assertIn("cell 1, line 1: Python 2", engine.lint_data("a.ipynb", b'{"cells": [{"cell_type": "code", "source": "print torch"}]}', ALL).error)
        for bad in (b"{}torch", b"[torch", b'{"cells": 3, "torch": 1}', b'{"cells": [3], "a": "torch"}'):
            self.assertIn("notebook", engine.lint_data("a.ipynb", bad, ALL).error)

    def test_bad_files(self) -> None:
        for data, word in ((b"import torch\nprint 'x'\n", "Python 2"), (b"import torch\nx = (\n", "cannot be parsed"), (b"import torch\0", "zero byte"),
                           (b"# coding: nonsense\nimport torch\n", "cannot be decoded"), (b"import torch\nx = '\xff'\n", "cannot be decoded"),
                           (b"import torch\nx = " + b"(" * 300 + b")" * 300, ""), (b"import torch\nx = " + b"-" * 30000 + b"1", "")):
            error = engine.lint_data("a.py", data, ALL).error
            self.assertIn(word, error)
            self.assertNotIn("\n", error)

    def test_python_of_this_machine(self) -> None:
        """Any file of the standard library is read without an exception; `import torch` makes it worth reading."""
        folder = Path(os.__file__).parent
        for name in sorted(os.listdir(folder))[:60]:
            if name.endswith(".py"):
                data = b"import torch\n" + (folder / name).read_bytes()
                self.assertFalse(engine.lint_data(name, data.replace(b"from __future__", b"from future"), ALL).findings and False)

    def test_huge_files_are_not_read_whole(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "a.py")
            with open(path, "wb") as file:
                file.write(b"import torch\n")
                file.truncate(1 << 40)  # a hole: reading it whole would not end
            done = command(str(path))
            self.assertEqual((done.returncode, done.stderr), (3, f"plimsoll lint: {path}: larger than 8 MiB: generated, or data; not read\n"))

    def test_nothing_native(self) -> None:
        """With the rest of the package around it, and no library anywhere: neither ctypes nor the rest is imported."""
        code = ("import sys; from plimsoll.lint import cli; cli.main(['--rules']); "
                "print(sorted(m for m in sys.modules if m == 'ctypes' or m.startswith('plimsoll.') and not m.startswith('plimsoll.lint')))")
        done = subprocess.run([sys.executable, "-B", "-c", code], capture_output=True, text=True, check=True,
                              env={**os.environ, "PYTHONPATH": str(ROOT / "python"), "PLIMSOLL_LIBRARY": "/nonexistent"})
        self.assertEqual(done.stdout.splitlines()[-1], "[]")

    def test_any_cut_is_read(self) -> None:
        """Cut anywhere, a file gives findings or one line of error, never an exception."""
        text = catalogue.PREAMBLE + "".join(r.bad for r in catalogue.RULES[:24])
        for end in range(0, len(text), 97):
            engine.lint_data("a.py", text[:end].encode(), ALL)


class Output(unittest.TestCase):
    text = catalogue.PREAMBLE + catalogue.BY_ID["PLM104"].bad + "model.eval\n"

    def report(self) -> output.Report:
        report = output.Report()
        report.add(lint(self.text, SHIPPED, "src/a b.py"))
        report.add(engine.lint_data("c.py", b"import torch\nx = (\n"))
        return report

    def test_text_points_at_it(self) -> None:
        shown = output.as_text(self.report())
        self.assertIn("src/a b.py:14:5: PLM104 error state chains the graphs", shown)
        line = shown.splitlines()[1:3]
        self.assertEqual(line, ["    14 | out, state = rnn(x, state)", "       | " + "^" * 26])
        for row in shown.splitlines():
            self.assertTrue(len(row) <= 80 or ": PLM" in row, row)

    def test_json(self) -> None:
        data = output.as_json(self.report())
        self.assertEqual(data["schema"], "lint/1")
        self.assertEqual(data["errors"], [{"file": "c.py", "line": 2, "message": data["errors"][0]["message"]}])
        self.assertEqual(set(data["findings"][0]), {"id", "name", "severity", "confidence", "title", "evidence", "fix", "place", "lines", "edits", "fix_is_safe",
                                                    "cost", "joined"})
        self.assertEqual(data["findings"][0]["cost"]["bytes"], 97 << 20)

    def test_redact_is_no_repair(self) -> None:
        for other in (["--fix"], ["--write-baseline", "b.json"], ["--format", "sarif"], ["--format", "github"]):
            self.assertEqual(command("--redact", *other, "-", stdin="x\n").returncode, 2, other)

    def test_redact(self) -> None:
        """Every rule's example, and what is joined to it, with a secret in each name that the program gives."""
        hush, shown = output.Report(), 0
        for rule in catalogue.RULES:
            text = catalogue.PREAMBLE + rule.bad
            names = {n.id for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
            for name in names - {"model", "optimizer", "loader", "criterion"}:
                text = re.sub(rf"\b{name}\b", f"hush_{name}", text)
            hush.add(lint(text + "# hush\n", path=f"/home/hush/{rule.id}_hush.py"))
        hush.add(engine.lint_data("hush.ipynb", b"hush"))
        hush.add(engine.lint_data("hush.py", b"import torch\nglobal hush; hush = (\n"))
        measured = join.Measured("leak", "error", "hush", 5 << 20, 1 << 20, "hush", 3, [], [])
        hush.findings += [join.joined(f, measured, "hush.pickle") for f in hush.findings]
        hush.recordings.append({"path": "hush.pickle", "kind": "recording", "joined": 1, "sources": False, "notes": ["hush"]})
        told = redact.redacted(hush)
        for form in (output.as_text, lambda report: json.dumps(output.as_json(report))):
            self.assertIn("hush", form(hush))
            self.assertNotIn("hush", form(told))
            self.assertIn(redact.KEPT, form(told))
        for before, after in zip(hush.findings, told.findings, strict=True):
            shown += "hush" in before.title
            self.assertEqual((before.id, before.severity, before.place.line), (after.id, after.severity, after.place.line))
        self.assertGreater(shown, 20)
        self.assertEqual(len({f.place.file for f in told.findings}), len({f.place.file for f in hush.findings}))

    def test_sarif(self) -> None:
        data = output.as_sarif(self.report())
        self.assertEqual(data["version"], "2.1.0")
        run = data["runs"][0]
        for result in run["results"]:
            self.assertEqual(run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"], result["ruleId"])
            self.assertIn(result["level"], ("error", "warning", "note"))
        self.assertEqual(run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"], "src/a%20b.py")
        self.assertFalse(run["invocations"][0]["executionSuccessful"])
        prints = [r["partialFingerprints"]["primaryLocationLineHash"] for r in run["results"]]
        self.assertEqual(len(set(prints)), len(prints))
        moved = output.Report()
        moved.add(lint("\n\n" + self.text, SHIPPED, "src/a b.py"))
        self.assertEqual([r["partialFingerprints"] for r in output.as_sarif(moved)["runs"][0]["results"]], [r["partialFingerprints"] for r in run["results"]])

    def test_sarif_schema(self) -> None:
        """Of code, notebooks, files that cannot be read, places outside; and what breaks the schema is found."""
        schema = json.loads((HERE / "sarif.schema.json").read_text())
        report = self.report()
        book = {"cells": [{"cell_type": "code", "source": catalogue.PREAMBLE}, {"cell_type": "code", "source": "<here>"}, {"cell_type": "code", "source": "model.eval"}]}
        report.add(engine.lint_data("/tmp/a b/n%.ipynb", json.dumps(book).encode(), ALL))
        data = output.as_sarif(report)
        self.assertEqual(against(schema, data, schema), [])
        self.assertEqual(len(data["runs"][0]["invocations"][0]["toolExecutionNotifications"]), 2)
        last = data["runs"][0]["results"][-1]
        self.assertTrue(last["message"]["text"].startswith("cell 3, line 1: "))
        self.assertEqual(last["locations"][0]["physicalLocation"], {"artifactLocation": {"uri": "file:///tmp/a%20b/n%25.ipynb"}, "region": {"startLine": 1}})
        last["locations"][0]["physicalLocation"]["region"]["startLine"] = 0
        last["color"] = data["runs"][0].pop("tool")
        self.assertEqual(len(against(schema, data, schema)), 3)

    def test_github(self) -> None:
        report = self.report()
        report.findings[0].title = "50% of it\nx"
        report.findings[0].place = report.findings[0].place.__class__("a:b,c.py", 1, 1, 1, 2)
        lines = output.as_github(report).splitlines()
        self.assertEqual(len(lines), len(report.findings) + len(report.errors))
        self.assertEqual(lines[-1], "::error file=c.py,line=2,title=plimsoll lint::cannot be parsed: '(' was never closed")
        self.assertTrue(any("file=a%3Ab%2Cc.py" in line and "50%25 of it%0Ax" in line for line in lines))

    def test_flake8(self) -> None:
        from plimsoll.lint.flake8 import Plugin
        found = list(Plugin(ast.parse(self.text), "a.py", self.text.splitlines(keepends=True)).run())
        self.assertIn((14, 4), [(line, column) for line, column, _, _ in found])
        for _, _, message, _ in found:
            self.assertRegex(message, r"^[A-Z]{1,3}[0-9]{0,3} ")


class Command(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = Path(self.folder.name)
        (self.path / "a.py").write_text(catalogue.PREAMBLE + "model.eval\n")
        (self.path / "venv").mkdir()
        (self.path / "venv/b.py").write_text(catalogue.PREAMBLE + "model.eval\n")

    def test_exit_codes(self) -> None:
        self.assertEqual(command("a.py", cwd=self.folder.name).returncode, 1)
        self.assertEqual(command("a.py", "--fail-on", "never", cwd=self.folder.name).returncode, 0)
        self.assertEqual(command("a.py", "--ignore", "PLM8", cwd=self.folder.name).returncode, 0)
        self.assertEqual(command("--nonsense").returncode, 2)
        self.assertEqual(command("--select", "XYZ", "a.py", cwd=self.folder.name).returncode, 2)
        missing = command("none.py", "a.py", cwd=self.folder.name)
        self.assertEqual((missing.returncode, missing.stderr), (3, "plimsoll lint: none.py: no such file or folder\n"))
        self.assertIn("PLM804", missing.stdout)

    def test_what_was_not_read_is_said(self) -> None:
        """A file without a word of PyTorch is counted; asked for by its name it is parsed, too."""
        for name in ("plain.py", "broken.py"):
            (self.path / name).write_text("x = 1\n" if name == "plain.py" else "x = (\n")
        folder = command(".", "--fail-on", "never", cwd=self.folder.name)
        self.assertEqual((folder.returncode, folder.stdout.splitlines()[-1]), (0, "1 finding (1 error) in 3 files; 2 without a word of PyTorch"))
        self.assertEqual(json.loads(command("--json", ".", cwd=self.folder.name).stdout)["skipped"], 2)
        named = command("broken.py", "plain.py", cwd=self.folder.name)
        self.assertEqual((named.returncode, named.stderr), (3, "plimsoll lint: broken.py:1: cannot be parsed: '(' was never closed\n"))
        self.assertEqual(named.stdout, "0 findings in 2 files; 1 without a word of PyTorch, 1 file not read whole\n")
        self.assertEqual(command("-", stdin="x = (\n").returncode, 3)
        os.mkfifo(self.path / "pipe.py")
        pipe = command("pipe.py", cwd=self.folder.name)
        self.assertEqual((pipe.returncode, pipe.stderr), (3, "plimsoll lint: pipe.py: no regular file (- reads standard input)\n"))

    def test_folder_and_stdin(self) -> None:
        shown = json.loads(command("--json", cwd=self.folder.name).stdout)
        self.assertEqual([f["place"]["file"] for f in shown["findings"]], ["a.py"])
        piped = command("-", "--stdin-filename", "z.py", stdin=(self.path / "a.py").read_text(), cwd=self.folder.name)
        self.assertIn("z.py:11:1: PLM804", piped.stdout)

    def test_configuration(self) -> None:
        toml = self.path / "pyproject.toml"
        for text, code in (('[tool.plimsoll.lint]\nignore = ["PLM8"]\n', 0), ('[tool.plimsoll.lint.per-file-ignores]\n"a.py" = ["PLM804"]\n', 0),
                           ('[tool.plimsoll.lint]\nexclude = ["a.*"]\n', 0), ('[tool.plimsoll.lint]\nfail-on = "never"\n', 0),
                           ('[tool.plimsoll.lint]\nselect = ["PLM1"]\n', 0), ("[tool.other]\n", 1), ('[tool.plimsoll.lint]\nignroe = ["PLM8"]\n', 2),
                           ("[tool.plimsoll.lint]\nignore = 3\n", 2), ("[tool.plimsoll.lint\n", 2)):
            toml.write_text(text)
            done = command(".", cwd=self.folder.name)
            self.assertEqual(done.returncode, code, text + done.stderr)
            self.assertLessEqual(done.stderr.count("\n"), 1)
        toml.write_text('[tool.plimsoll.lint]\nignore = ["PLM8"]\n')
        self.assertEqual(command(".", "--no-config", cwd=self.folder.name).returncode, 1)

    def test_small_reader_reads_the_same(self) -> None:
        from plimsoll.lint import config
        text = '[tool.plimsoll.lint]\nselect = ["PLM1", "PLM2"] # two\nfail-on = "info"\nignore = [\n  "PLM101",\n]\n[tool.plimsoll.lint.per-file-ignores]\n"a/*.py" = ["PLM1"]\n[tool.x]\nselect = 1\n'
        small = config._small_reader(Path("p"), text)
        self.assertEqual(small, {"select": ["PLM1", "PLM2"], "fail-on": "info", "ignore": ["PLM101"], "per-file-ignores": {"a/*.py": ["PLM1"]}})
        if sys.version_info >= (3, 11):
            self.assertEqual(config._table(Path("p"), text), small)

    def test_baseline(self) -> None:
        wrote = command("a.py", "--write-baseline", "known.json", cwd=self.folder.name)
        self.assertEqual(wrote.returncode, 0)
        self.assertEqual(command("a.py", "--baseline", "known.json", cwd=self.folder.name).returncode, 0)
        (self.path / "a.py").write_text("\n" + catalogue.PREAMBLE + "model.eval\nprint(1)\noptimizer.step\n")
        fresh = json.loads(command("a.py", "--baseline", "known.json", "--json", cwd=self.folder.name).stdout)
        self.assertEqual([f["place"]["line"] for f in fresh["findings"]], [14])
        (self.path / "known.json").write_text("[]")
        self.assertEqual(command("a.py", "--baseline", "known.json", cwd=self.folder.name).returncode, 3)

    def test_diff(self) -> None:
        def git(*arguments: str) -> None:
            subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main", *arguments], cwd=self.folder.name, check=True,
                           capture_output=True)
        git("init")
        git("add", "a.py")
        git("commit", "-m", "x")
        self.assertEqual(command("a.py", "--diff", "HEAD", cwd=self.folder.name).returncode, 0)
        (self.path / "a.py").write_text(catalogue.PREAMBLE + "model.eval\nprint(1)\noptimizer.step\n")
        (self.path / "new.py").write_text(catalogue.PREAMBLE + "model.eval\n")
        shown = json.loads(command(".", "--diff", "HEAD", "--json", cwd=self.folder.name).stdout)
        self.assertEqual([(f["place"]["file"], f["place"]["line"]) for f in shown["findings"]], [("a.py", 13), ("new.py", 11)])
        lost = command(".", "--diff", "nothing", cwd=self.folder.name)
        self.assertEqual((lost.returncode, lost.stderr), (3, "plimsoll lint: --diff: 'nothing' is not a commit here\n"))
        (self.path / "é b.py").write_text(catalogue.PREAMBLE + "model.eval\n")
        git("add", "é b.py")
        self.assertIn("é b.py:11:1", command(".", "--diff", "HEAD", cwd=self.folder.name).stdout)
        with tempfile.TemporaryDirectory() as shallow:
            git("clone", "--depth=1", "file://" + self.folder.name, shallow + "/x")
            self.assertIn("this clone is shallow: git fetch", command(".", "--diff", "HEAD~1", cwd=shallow + "/x").stderr)
        self.assertEqual(command(".", "--diff=--output=x", cwd=self.folder.name).returncode, 3)
        self.assertFalse((self.path / "x").exists())

    def test_hidden_is_counted(self) -> None:
        """The last line says how many findings are hidden, and an option that shows them does."""
        off = catalogue.PREAMBLE + catalogue.BY_ID["PLM206"].bad
        unsure = catalogue.PREAMBLE + "from elsewhere import build\nnet = build()\nboard = None\nfor x, y in loader:\n    out, board = net(x, board)\n    criterion(out, y).backward()\n    optimizer.step()\n    optimizer.zero_grad()\n"
        with tempfile.TemporaryDirectory() as folder:
            for name, text, option in (("off.py", off, ("--select", "PLM")), ("unsure.py", unsure, ("--confidence", "low"))):
                path = Path(folder, name)
                path.write_text(text)
                last = command(str(path)).stdout.splitlines()[-1]
                self.assertIn("1 hidden", last)
                self.assertIn(" ".join(option), last)
                shown = command(*option, str(path)).stdout
                self.assertNotIn("hidden", shown)
                self.assertNotIn("hidden", command("--ignore", "PLM1,PLM2", str(path)).stdout)

    def test_infos_of_little_weight_are_one_line(self) -> None:
        text = catalogue.PREAMBLE + catalogue.BY_ID["PLM206"].bad * 3 + catalogue.BY_ID["PLM201"].bad
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "x.py")
            path.write_text(text)
            on = ("--extend-select", "PLM206")
            light = [line for line in command(*on, str(path)).stdout.splitlines() if "PLM206" in line or "PLM201" in line]
            self.assertEqual(len(light), 1)
            self.assertRegex(light[0], r"^.*x\.py:\d+:\d+: info \d+ of little weight: PLM206 made-on-cpu at \d+, \d+, \d+; PLM201 ")
            self.assertEqual(command(*on, "--format", "github", str(path)).stdout.count("of little weight"), 1)
            found = [f for f in json.loads(command(*on, "--json", str(path)).stdout)["findings"] if f["id"] == "PLM206"]
        self.assertEqual([len(f["lines"]) for f in found], [3])
        self.assertEqual(len(found[0]["edits"]), 3)

    def test_retired_codes_are_accepted(self) -> None:
        """Each is noted once; chosen alone it finds nothing, and does not bring back the default rules."""
        self.assertFalse(catalogue.RETIRED.keys() & catalogue.BY_ID.keys())
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "x.py")
            path.write_text(catalogue.PREAMBLE + "model.eval  # noqa: PLM205\n")
            done = command("--select", "PLM205", "--ignore", "PLM205", str(path))
            self.assertEqual((done.returncode, done.stderr.count("PLM205 is retired")), (0, 1))
            self.assertIn("0 findings", done.stdout)
            self.assertEqual(command(str(path)).returncode, 1)
            self.assertIn("retired", command("--explain", "plm205").stdout)

    def test_explain(self) -> None:
        for rule in catalogue.RULES:
            shown = output.explain(rule.id)
            self.assertTrue(all(len(line) <= 80 or line.startswith("    ") for line in shown.splitlines()), rule.id)
        self.assertIn("PLM104 state-carried: error", command("--explain", "plm104").stdout)
        self.assertEqual(command("--explain", "PLM999").returncode, 2)
        self.assertEqual(len(command("--rules").stdout.splitlines()), len(catalogue.RULES))

    def test_the_program_has_the_same_options(self) -> None:
        """cli/cmd_lint.c shows what cli.py reads."""
        shown = subprocess.run([PLIMSOLL, "lint", "--help-all"], capture_output=True, text=True, check=True).stdout
        theirs = set(re.findall(r"--([a-z-]+)(?:=[A-Za-z]+)?(?:  |\n|=)", shown)) - {"help", "help-all"}
        mine = {o.lstrip("-") for a in cli.parser()._actions for o in a.option_strings if o.startswith("--")} - {"help", "version"}
        self.assertEqual(theirs, mine)

    def test_the_program_becomes_it(self) -> None:
        done = subprocess.run([PLIMSOLL, "lint", "--no-config", "a.py"], capture_output=True, text=True, cwd=self.folder.name, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("a.py:11:1: PLM804 error", done.stdout)
        lost = Path(self.folder.name, "bin")
        lost.mkdir()
        env = {**os.environ, "PATH": str(lost)}
        done = subprocess.run([PLIMSOLL, "lint", "a.py"], capture_output=True, text=True, cwd=self.folder.name, env=env, check=False)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (4, 1))


RNN = """import torch
from torch import nn
from torch.utils.data import DataLoader
{blank}
def rnn(data, steps):
    model = nn.LSTM(8, 8).cuda()
    opt = torch.optim.SGD(model.parameters())
    state = None
    for x, y in DataLoader(data):
        out, state = model(x.cuda(), state)
        loss = out.sum()
        loss.backward(retain_graph=True)
        opt.step()
        opt.zero_grad()
{more}
"""


class Join(unittest.TestCase):
    """A measured recording, and a source whose lines are where the recording says."""

    def setUp(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.file = Path(self.folder.name, "workloads.py")
        text = RNN.format(blank="\n" * 191, more="pass\n" * 120)
        shift = next(i for i, line in enumerate(text.split("\n"), 1) if "out, state" in line) - 202
        self.file.write_text(RNN.format(blank="\n" * (191 - shift), more="pass\n" * 120))

    def run_joined(self, *arguments: str) -> dict[str, object]:
        done = command("--recording", str(DATA / "leak_rnn.pickle.xz"), "--plimsoll", PLIMSOLL, "--json", *arguments, str(self.file))
        self.assertIn(done.returncode, (0, 1), done.stderr)
        found: dict[str, object] = json.loads(done.stdout)
        return found

    def test_measured(self) -> None:
        found = self.run_joined()
        first = found["findings"][0]  # type: ignore[index]
        self.assertEqual((first["id"], first["joined"], first["severity"], first["confidence"]), ("PLM104", True, "error", 0.95))
        self.assertEqual(first["cost"]["bytes"], 101212672)
        self.assertTrue(first["title"].startswith("leaks 96.52 MiB a step (measured, 9 steps)"))

    def test_other_source(self) -> None:
        """The function at the frame's line has another name: nothing is joined, and it says so."""
        self.file.write_text(self.file.read_text().replace("def rnn(", "def other("))
        found = self.run_joined()
        self.assertFalse(any(f["joined"] for f in found["findings"]))  # type: ignore[attr-defined]
        self.assertIn("has other at line 202, the recording has rnn", found["recordings"][0]["notes"][0])  # type: ignore[index]

    def test_other_bytes(self) -> None:
        """A recording that knows its sources' sha256 is joined to nothing else."""
        report = subprocess.run([PLIMSOLL, "report", "--json", DATA / "leak_rnn.pickle.xz"], capture_output=True, check=True).stdout
        import hashlib
        data = self.file.read_bytes()
        for sha, joined in ((hashlib.sha256(data).hexdigest(), 1), ("0" * 64, 0)):
            table = {"schema": "plimsoll-sources/1", "files": {"/home/user/run/lab/workloads.py": {"bytes": len(data), "mtime": 1, "sha256": sha, "edited": False}}}
            path = Path(self.folder.name, "r.json")
            path.write_bytes(report.rstrip() + b"\n")
            recording = join.read_recording(str(path), PLIMSOLL)
            with open(path, "ab") as file:
                file.write(json.dumps(table).encode())
            recording.sources = join.sources_of(str(path))
            self.assertEqual(len(recording.sources), 1)
            results = [engine.lint_data(str(self.file), data, ALL)]
            made = output.Report()
            made.add(results[0])
            join.join(made, results, [recording], False)
            self.assertEqual(made.recordings[0]["joined"], joined)
            self.assertEqual(any("differs from the recorded" in n for n in made.recordings[0]["notes"]), not joined)

    def test_report_and_why(self) -> None:
        done = subprocess.run([PLIMSOLL, "report", str(DATA / "leak_rnn.pickle.xz"), "--source", self.folder.name], capture_output=True, text=True, check=False)
        self.assertIn("PLM104 error leaks 96.52 MiB a step (measured, 9 steps)", done.stdout, done.stderr)
        log = Path(self.folder.name, "log.txt")
        log.write_text('Traceback (most recent call last):\n  File "/x/workloads.py", line 202, in rnn\n    out\ntorch.OutOfMemoryError: CUDA out of memory. '
                       "Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB of which 1.00 GiB is free.\n")
        done = subprocess.run([PLIMSOLL, "why", str(log), "--source", self.folder.name], capture_output=True, text=True, check=False)
        self.assertIn("PLM104", done.stdout, done.stderr)
        done = subprocess.run([PLIMSOLL, "why", str(log), "--json", "--source", self.folder.name], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)

    def test_rules_of_the_join_exist(self) -> None:
        named = {r for rules in (*join.EXPLAINS.values(), *(k for _, k in join.KINDS), join.OF_A_LOG) for r in rules}
        self.assertEqual(named - set(catalogue.BY_ID), set())

    def test_unusable(self) -> None:
        bad = Path(self.folder.name, "bad.json")
        bad.write_text('{"schema": "other/1"}')
        done = command("--recording", str(bad), str(self.file))
        self.assertEqual((done.returncode, done.stderr), (3, f"plimsoll lint: {bad}: no report's JSON\n"))
        self.assertEqual(command("--recording", "/nonexistent", str(self.file)).returncode, 3)
        self.assertEqual(command("--recording", str(DATA / "leak_rnn.pickle.xz"), "--plimsoll", "/nonexistent", str(self.file)).returncode, 3)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
