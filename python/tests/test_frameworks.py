"""The pytest fixture, the cell magic and forks, as their users run them; with real PyTorch, pytest and IPython where they are.

Run by tools/check-python.sh; a fake torch with a GPU stands in for a GPU.
"""
import importlib.metadata
import importlib.util
import json
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
            return pytest_of(folder, self.TESTS.format(available=available))

    def test_a_budget(self):
        done = self.pytest(True)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("2 failed, 3 passed", done.stdout)
        self.assertIn("the peak was 101.00 MiB (105,906,176 bytes), 1.00 MiB above the budget of 100.00 MiB", done.stdout)
        self.assertIn("3.00 MiB (3,145,728 bytes) more is allocated than before", done.stdout)

    def test_without_a_gpu_the_host_is_measured(self):
        with tempfile.TemporaryDirectory() as folder:
            done = pytest_of(folder, """
                def test_within(gpu_memory):
                    with gpu_memory.peak_below("100 MiB") as use:
                        b"x" * (50 << 20)

                def test_above(gpu_memory):
                    with gpu_memory.peak_below("100 MiB"):
                        b"x" * (150 << 20)

                def test_leak(gpu_memory):
                    global left
                    with gpu_memory.no_leak("2 MiB"):
                        left = b"x" * (50 << 20)
                """)
        self.assertIn("2 failed, 1 passed", done.stdout, done.stderr)
        self.assertIn("above the budget of 100.00 MiB", done.stdout)
        self.assertIn("more is allocated than before", done.stdout)


def pytest_of(folder, tests, *options):
    with open(os.path.join(folder, "test_budget.py"), "w") as f:
        f.write(textwrap.dedent(tests))
    installed = any(entry.name == "plimsoll" for entry in importlib.metadata.entry_points(group="pytest11"))
    plugin = [] if installed else ["-p", "plimsoll.integrations.pytest"]
    return run("", "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin, *options, "test_budget.py", cwd=folder)


@unittest.skipUnless(has("pytest"), "pytest is not there")
class Marker(unittest.TestCase):
    """@pytest.mark.gpu_memory, the table and the baseline: on a GPU whose bytes are known, and on the host."""

    HEAD = """
        import pytest, torch
        torch.card.available = {available}
        kept = []

        def take(mib):
            return torch.empty(mib << 18, device="cuda") if {available} else b"x" * (mib << 20)

        @pytest.fixture(scope="module")
        def shared():
            return take(300)

        @pytest.fixture
        def own():
            return take(60)
        """

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def pytest(self, tests, *options, available=True):
        return pytest_of(self.folder, textwrap.dedent(self.HEAD.format(available=available)) + textwrap.dedent(tests), *options)

    def test_limits(self):
        tests = """
            @pytest.mark.gpu_memory(limit="100 MiB")
            def test_within(shared, own):
                take(30)

            @pytest.mark.gpu_memory(limit="100 MiB")
            def test_above(shared, own):
                take(50)

            @pytest.mark.gpu_memory("100 MiB", leak="40 MiB")
            def test_leak():
                kept.append(take(50))

            @pytest.mark.gpu_memory(leak="60 MiB")
            def test_small_leak():
                kept.append(take(50))

            @pytest.mark.gpu_memory(limit="1 MiB")
            class TestAll:
                def test_own_failure(self):
                    take(50)
                    raise KeyError("mine")

                @pytest.mark.gpu_memory(limit="1 GiB")
                def test_nearest_marker(self):
                    take(50)

            def test_not_measured():
                take(50)
            """
        for available in (True, False):
            done = self.pytest(tests, available=available)
            self.assertIn("3 failed, 4 passed", done.stdout, done.stderr)
            self.assertIn("above its limit of 100.00 MiB", done.stdout)
            self.assertIn("its limit is 40.00 MiB", done.stdout)
            self.assertIn("KeyError: 'mine'", done.stdout)
            if available:  # to the byte
                self.assertIn("the test's peak was 110.00 MiB (115,343,360 bytes), 10.00 MiB above", done.stdout)
                self.assertIn(" 110.00 MiB    0.00 MiB  100.00 MiB           -  test_budget.py::test_above", done.stdout)
            self.assertEqual(not available, "memory of the host" in done.stdout)
            self.assertIn("1 tests more; --gpu-memory-most=0 shows all", done.stdout)

    def test_arguments_that_are_wrong(self):
        for given, told in (('limit="abc"', "or a number of bytes, not 'abc'"), ("limit=True", "not True"), ("limit=-1", "not -1"),
                            ('limt="2 GiB"', "takes limit= and leak=, not limt='2 GiB'"), ("1, 2", "takes limit= and leak=, not 1, 2")):
            done = self.pytest(f"""
                @pytest.mark.gpu_memory({given})
                def test_a():
                    pass

                def test_b():
                    pass
                """)
            self.assertIn("1 passed, 1 error", done.stdout, done.stderr)
            self.assertRegex(done.stdout, r"test_budget.py:\d+, test_a: .*" + told)

    def test_a_baseline(self):
        tests = "def test_a():\n    take({})\ndef test_b():\n    take({})\n"
        path = os.path.join(self.folder, "memory.json")
        baseline = "--gpu-memory-baseline=memory.json"
        done = self.pytest(tests.format(100, 50), baseline)
        self.assertIn(f"'{path}' cannot be read: No such file or directory; --gpu-memory-update writes it", done.stderr)
        done = self.pytest(tests.format(100, 50), baseline, "--gpu-memory-update")
        self.assertIn("2 peaks of tests that passed were written", done.stdout)
        with open(path) as f:
            self.assertEqual(json.load(f), {"schema": "plimsoll-baseline/1", "fail_over": "2%", "peaks": {
                f"test_budget.py::test_{name}": {"device": "cuda", "peak_bytes": n << 20} for name, n in (("a", 100), ("b", 50))}})
        for a, options, told in ((102, (), "2 passed"), (103, (), "1 failed, 1 passed"), (103, ("--gpu-memory-fail-over=3%",), "2 passed"),
                                 (103, ("--gpu-memory-fail-over=2.9999%",), "1 failed"), (101, ("--gpu-memory-fail-over=0",), "1 failed"),
                                 (150, ("--gpu-memory-fail-over=50MiB",), "2 passed"), (151, ("--gpu-memory-fail-over=50MiB",), "1 failed"),
                                 (300, ("-o", "gpu_memory_fail_over=1GiB"), "2 passed")):
            done = self.pytest(tests.format(a, 1), baseline, *options)
            self.assertIn(told, done.stdout, (a, options, done.stderr))
        self.assertIn("the test's peak was 103.00 MiB (108,003,328 bytes), 3.00 MiB above the 100.00 MiB in memory.json, which allows 2%",
                      self.pytest(tests.format(103, 1), baseline).stdout)
        done = self.pytest(tests.format(500, 1), baseline, available=False)
        self.assertIn("2 not compared: measured on another kind of device", done.stdout)
        done = self.pytest("def test_c():\n    take(1)\n", baseline, "--gpu-memory-update")
        with open(path) as f:
            self.assertEqual(len(json.load(f)["peaks"]), 3, "what was not run stays")
        done = self.pytest("", baseline, "--gpu-memory-fail-over=5")
        self.assertIn("takes a percentage, or a size with its unit: did you mean '5%'?", done.stderr)
        self.assertIn("need --gpu-memory-baseline=FILE", self.pytest("", "--gpu-memory-update").stderr)
        for content in ("", "[]", "{}", '{"schema": "plimsoll-baseline/1", "peaks": {"a": 3}}', "[" * 100000, "\0\xff",
                        '{"schema": "plimsoll-baseline/1", "fail_over": "2", "peaks": {}}'):
            with open(path, "w") as f:
                f.write(content)
            done = self.pytest("", baseline)
            self.assertIn("'" + path + "' is not a baseline of Plimsoll", done.stderr)
            self.assertNotIn("Traceback", done.stderr)

    @unittest.skipIf(has("pytest_memray"), "pytest-memray has these names")
    def test_the_names_of_pytest_memray(self):
        tests = """
            @pytest.mark.limit_memory("40 MiB")
            def test_a():
                take(50)

            @pytest.mark.limit_leaks("40 MiB")
            def test_b():
                kept.append(take(60))

            def test_c():
                take(10)
            """
        done = self.pytest(tests, "--gpu-memory", "--most-allocations=1", "--strict-markers")
        self.assertIn("2 failed, 1 passed", done.stdout, done.stderr)
        self.assertIn("60.00 MiB   60.00 MiB           -           -  test_budget.py::test_b", done.stdout)
        self.assertNotIn("-  test_budget.py::test_a", done.stdout)
        self.assertIn("3 passed", self.pytest(tests, "--strict-markers").stdout, "they are pytest-memray's unless asked for")


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
