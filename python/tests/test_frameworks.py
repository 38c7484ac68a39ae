"""The pytest fixture, the cell magic and forks, as their users run them; with real PyTorch, pytest and IPython where they are.

Run by tools/check-python; a fake torch with a card stands in for a GPU.
"""
import importlib.metadata
import importlib.util
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest

import plimsoll

HERE = os.path.dirname(os.path.abspath(__file__))
FAKE = os.path.join(HERE, "fake")


def has(name):
    return importlib.util.find_spec(name) is not None


def run(code, *arguments, cwd=None):
    env = dict(os.environ)
    package = os.path.dirname(os.path.dirname(os.path.abspath(plimsoll.__file__)))
    env["PYTHONPATH"] = os.pathsep.join([FAKE, package, env.get("PYTHONPATH", "")])
    return subprocess.run([sys.executable, *arguments] + (["-c", textwrap.dedent(code)] if code else []), capture_output=True, text=True,
                          env=env, cwd=cwd, timeout=600)


@unittest.skipUnless(has("pytest"), "pytest is not there")
class Fixture(unittest.TestCase):
    TESTS = """
        import torch
        torch.card.available = {available}
        MIB = 1 << 20

        def take(mib):
            return torch.empty(mib << 18, device="cuda")

        def test_within(gpu_memory):
            with gpu_memory.peak_below("100 MiB") as use:
                take(90)
            assert use.peak_allocated_bytes == 90 * MIB

        def test_above(gpu_memory):
            with gpu_memory.peak_below("100 MiB"):
                take(101)

        def test_above_start(gpu_memory):
            kept = take(500)
            with gpu_memory.peak_below("100 MiB", above_start=True):
                take(90)

        def test_leak(gpu_memory):
            global left
            with gpu_memory.no_leak():
                left = take(3)

        def test_slack(gpu_memory):
            global more
            with gpu_memory.no_leak(slack="4 MiB"):
                more = take(3)
        """

    def pytest(self, available):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "test_budget.py")
            with open(path, "w") as f:
                f.write(textwrap.dedent(self.TESTS.format(available=available)))
            installed = any(entry.name == "plimsoll" for entry in importlib.metadata.entry_points(group="pytest11"))
            plugin = [] if installed else ["-p", "plimsoll.integrations.pytest"]
            return run("", "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin, path, cwd=folder)

    def test_a_budget(self):
        done = self.pytest(True)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("2 failed, 3 passed", done.stdout)
        self.assertIn("the peak was 101.00 MiB (105,906,176 bytes), 1.00 MiB above the budget of 100.00 MiB", done.stdout)
        self.assertIn("3.00 MiB (3,145,728 bytes) more is allocated than before", done.stdout)

    def test_without_a_gpu_they_are_skipped(self):
        done = self.pytest(False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("5 skipped", done.stdout)


@unittest.skipUnless(has("IPython"), "IPython is not there")
class Magic(unittest.TestCase):
    def cells(self, *cells, available=True):
        return run(f"""
            import torch
            torch.card.available = {available}
            from IPython.core.interactiveshell import InteractiveShell
            from IPython.testing.globalipapp import start_ipython
            shell = start_ipython()
            shell.run_line_magic("load_ext", "plimsoll")
            shell.push(dict(torch=torch))
            for cell in {cells!r}:
                shell.run_cell(cell)
            """)

    def test_a_cell(self):
        done = self.cells("%%memory\nkept = torch.empty(10 << 18, device='cuda')\ngone = torch.empty(20 << 18, device='cuda'); del gone",
                          "%%memory\nanswer = 6 * 7", "print(answer)")
        self.assertIn("cuda:0: peak 30.00 MiB (30.00 MiB above the start), +10.00 MiB stays", done.stdout, done.stderr)
        self.assertIn("cuda:0: peak 10.00 MiB (0.00 MiB above the start), +0.00 MiB stays", done.stdout)
        self.assertIn("42", done.stdout)

    def test_a_cell_that_dies(self):
        done = self.cells("def step():\n    big = torch.empty(900 << 18, device='cuda')\n    torch.empty(900 << 18, device='cuda')",
                          "%%memory\nstep()", "%free", "print('live', torch.card.allocated)")
        self.assertIn("out of memory", done.stdout.lower(), done.stderr)
        self.assertIn("%free lets go", done.stdout)
        self.assertIn("900.00 MiB freed", done.stdout)
        self.assertIn("live 0", done.stdout)

    def test_without_a_gpu_it_tells_of_the_host(self):
        done = self.cells("%%memory\nkept = bytearray(b'x') * (64 << 20)", available=False)
        self.assertIn("host: peak", done.stdout, done.stderr)


class Forks(unittest.TestCase):
    """A child that returns, exits, calls os._exit or is killed: the parent's gauge, history and files are untouched."""

    JOB = """
        import os, signal, sys
        import torch
        torch.card.available = torch.card.started = True
        import plimsoll
        from plimsoll import gauge
        from plimsoll.memory import MemoryMonitor, Recorder

        how, folder = sys.argv[1:]

        class Model(torch.nn.Module):
            def forward(self, n):
                return torch.empty(n << 18, device="cuda")

        def child():
            model(3)
            optimizer.step()
            recorder.step()
            monitor.mark("in the child")
            if how == "exit":
                sys.exit(0)
            if how == "os._exit":
                os._exit(0)
            if how == "killed":
                os.kill(os.getpid(), signal.SIGKILL)

        model = Model()
        optimizer = torch.optim.Optimizer(model.parameters())
        monitor = MemoryMonitor()
        recorder = Recorder(folder, at_exit=True).start()
        monitor.attach(model, optimizer)
        for _ in range(3):
            model(2)
            optimizer.step()
        before = (gauge.read().to_dict(), monitor.steps, len(monitor.readings()), list(torch.calls), os.listdir(folder))
        pid = os.fork()
        if pid == 0:
            child()
        else:
            os.waitpid(pid, 0)
            after = (gauge.read().to_dict(), monitor.steps, len(monitor.readings()), list(torch.calls), os.listdir(folder))
            assert before == after, (before, after)
            model(1)
            optimizer.step()
            assert gauge.read().step == 4 and recorder.running
            recorder.close()
            assert [name.rsplit("-", 1)[1] for name in os.listdir(folder)] == ["end.pickle"], os.listdir(folder)
            print("parent fine")
        """

    def test_each_way(self):
        for how in ("return", "exit", "os._exit", "killed"):
            with self.subTest(how), tempfile.TemporaryDirectory() as folder:
                done = run("", "-c", textwrap.dedent(self.JOB), how, folder)
                self.assertEqual((done.returncode, done.stdout), (0, "parent fine\n"), done.stderr)
                left = [name for name in os.listdir("/dev/shm") if name.startswith("plimsoll.")] if os.path.isdir("/dev/shm") else []
                self.assertEqual([name for name in left if not os.path.exists("/proc/" + name.partition(".")[2])], [])


if __name__ == "__main__":
    unittest.main()
