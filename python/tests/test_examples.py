"""What docs/python.md and the notebook show is run: with a real PyTorch where there is one, else the blocks that need none."""
import importlib.util
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from contextlib import redirect_stdout

import plimsoll

SOURCE = os.environ["PLIMSOLL_SOURCE"]
TORCH = importlib.util.find_spec("torch") is not None
PYTEST = importlib.util.find_spec("pytest") is not None
TASKS = sorted("docs/tasks/" + name for name in os.listdir(os.path.join(SOURCE, "docs", "tasks")))
NEEDS_TORCH = re.compile(r"\b(model|loader|batch|optimizer|train_step)\b")
ran: list[str] = []
left: dict[str, int] = {}  # examples that are not run, by what is not there


def blocks(path: str) -> list[tuple[int, str]]:
    """(line, code) of each ```python block."""
    with open(os.path.join(SOURCE, path), encoding="utf-8") as f:
        text = f.read()
    return [(text.count("\n", 0, found.start()) + 2, found[1]) for found in re.finditer(r"^```python\n(.*?)^```", text, re.S | re.M)]


def run(path: str, line: int, code: str, space: dict) -> None:
    """The block, or a word of what it lacks here."""
    lacks = ("a GPU" if code.startswith("# GPU") else "PyTorch" if NEEDS_TORCH.search(code) and not TORCH else
             "pytest" if "import pytest" in code and not PYTEST else "")
    if lacks:
        left[lacks] = left.get(lacks, 0) + 1
        return
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()):
        for name in ("died.html", "ckpts"):
            code = code.replace(f'"{name}"', repr(os.path.join(folder, name)))
        exec(compile("\n" * (line - 1) + code, path, "exec"), space)
    ran.append(f"{path}:{line}")


def tearDownModule():
    print(f"{len(ran)} examples run", *(f"{n} not, without {what}" for what, n in left.items()), sep="; ", file=sys.stderr)


def names() -> dict:
    """What the examples take as given: a model and a loop."""
    space = {"__name__": "example"}
    if TORCH:
        import torch

        model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
        optimizer = torch.optim.AdamW(model.parameters())
        loader = torch.utils.data.DataLoader(torch.randn(64, 16), batch_size=8)

        def train_step(batch):
            model(batch).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()

        space.update(model=model, optimizer=optimizer, loader=loader, batch=torch.randn(8, 16), train_step=train_step)
    return space


class Examples(unittest.TestCase):
    def test_docs(self):
        os.chdir(SOURCE)
        space = names()
        for line, code in blocks("docs/python.md"):
            with self.subTest(line=line):
                run("docs/python.md", line, code, space)
        self.assertGreaterEqual(sum(where.startswith("docs/python.md") for where in ran), 7 if TORCH else 2)

    @unittest.skipUnless(TORCH and importlib.util.find_spec("mypy"), "mypy or PyTorch is not there")
    def test_types(self):
        # `report(...).verdict.cause`: verdict may be None.
        given = "from typing import Any\nimport plimsoll\n" + "".join(f"{name}: Any = None\n" for name in sorted(
            set(names()) | {"train_size"}) if name != "__name__")
        package = os.path.dirname(os.path.abspath(plimsoll.__file__))
        with tempfile.TemporaryDirectory() as folder:
            files = []
            for path in ("docs/python.md", "README.md", *TASKS):
                files.append(os.path.join(folder, re.sub(r"\W", "_", path) + ".py"))
                with open(files[-1], "w") as f:
                    f.write(given + "\n".join(code for _, code in blocks(path)))
            # The package alone: mypy refuses a folder of installed packages there.
            typed = os.path.join(folder, "typed")
            os.mkdir(typed)
            os.symlink(package, os.path.join(typed, "plimsoll"))
            done = subprocess.run([sys.executable, "-m", "mypy", "--cache-dir", folder, "--follow-imports", "silent", *files], cwd=folder,
                                  capture_output=True, text=True, env={**os.environ, "MYPYPATH": typed}, timeout=600)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_readme_and_tasks(self):
        os.chdir(SOURCE)
        for path in ("README.md", *TASKS):
            for line, code in blocks(path):
                with self.subTest(path, line=line):
                    run(path, line, code, names())

    def test_notebook(self):
        # Cell by cell, as a kernel would; check-python runs it in a real one too.
        os.chdir(os.path.join(SOURCE, "examples"))
        with open("oom.ipynb", encoding="utf-8") as f:
            cells = [c for c in json.load(f)["cells"] if c["cell_type"] == "code"]
        self.assertEqual(len(cells), 6)
        space = {"__name__": "__main__"}
        for cell in cells:
            self.assertEqual((cell["outputs"], cell["execution_count"]), ([], None))
            with redirect_stdout(io.StringIO()):
                exec("".join(cell["source"]), space)
        self.assertIn("<iframe", space["died"]._repr_html_())

    @unittest.skipUnless(importlib.util.find_spec("nbclient"), "nbclient is not there")
    def test_notebook_in_a_kernel(self):
        import nbformat
        from nbclient import NotebookClient

        with open(os.path.join(SOURCE, "examples/oom.ipynb"), encoding="utf-8") as f:
            book = nbformat.read(f, as_version=4)
        NotebookClient(book, timeout=600, resources={"metadata": {"path": os.path.join(SOURCE, "examples")}}).execute()
        shown = [out.data.get("text/html", "") for cell in book.cells for out in cell.get("outputs", []) if "data" in out]
        self.assertTrue(any("<iframe" in html for html in shown))

    def test_the_name_on_the_index_is_not_told_to_be_ours(self):
        # plimsoll on the package index is someone else's: no text may say to install it.
        wrong = []
        for folder, _, files in os.walk(SOURCE):
            if any(part in folder for part in ("/build", "/.git", "/node_modules", "/fuzz/corpus")):
                continue
            for name in files:
                if name.endswith((".md", ".py", ".ipynb", ".txt", ".1", ".toml")):
                    with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as f:
                        text = f.read()
                    wrong += [os.path.join(folder, name) for _ in re.finditer(r"pip3? install (-\S+ )*plimsoll", text)]
        self.assertEqual([p for p in wrong if not p.endswith("test_examples.py")], [])


if __name__ == "__main__":
    print("with" if TORCH else "without", "PyTorch", file=sys.stderr)
    unittest.main()
