"""Memory budgets as tests: @pytest.mark.gpu_memory(limit="2 GiB"), the fixture gpu_memory, a table, a baseline (docs/python.md).

Without a GPU the memory of this process stands in: what a test adds to it.
"""
from __future__ import annotations

import ctypes
import gc
import importlib.util
import os
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Iterator

import pytest

from .. import _torch
from .._baseline import Baseline, fail_over
from ..memory._monitor import MemoryMonitor, MemoryUse, gib
from .._size import bytes_of
from ..errors import ArgumentError, NotFoundError, PlimsollError

MARKER = "gpu_memory"
# pytest-memray's names, if it is not there to take them; its sizes are of the host.
LIMITS = {MARKER: "limit", "limit_memory": "limit", "limit_leaks": "leak"}
MOST = 5
_RESULT = "plimsoll_gpu_memory"  # among the properties of a report, which xdist brings to the process that prints


def _memory_kind(memory: _torch.Memory) -> str:
    return memory.name.partition(":")[0]


def _size(value: Any, what: str) -> int:
    """Bytes, from 0 on.  Raises ArgumentError."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ArgumentError(f"{what} is a size as '2 GiB', '300 MB' or a number of bytes, not {value!r}")
    return 0 if value == 0 or isinstance(value, str) and value.strip() == "0" else bytes_of(value, what)


class GpuMemory:
    """What the fixture gives; bytes or sizes like "3 GiB"."""

    def __init__(self, device: Any = None) -> None:
        self.monitor = MemoryMonitor(device)

    def __repr__(self) -> str:
        return f"<GpuMemory of {self.monitor.memory.name}: {gib(self.monitor.memory.numbers()[0])} allocated>"

    @contextmanager
    def peak_below(self, limit: int | str, *, above_start: bool | None = None) -> Iterator[MemoryUse]:
        """The test fails if more was allocated inside at any moment.

        above_start: only what was not there before counts; None: on the host, where the interpreter and its modules are.
        """
        most, memory = _size(limit, "limit"), self.monitor.memory
        above = _memory_kind(memory) == "host" if above_start is None else above_start
        before = _settled(memory) if above else 0
        with self.monitor.track("test") as use:
            yield use
        peak = use.peak_allocated_bytes - before
        if peak > most:
            pytest.fail(f"the peak was {gib(peak)} ({peak:,} bytes), {gib(peak - most)} above the budget of {gib(most)}",
                        pytrace=False)

    @contextmanager
    def no_leak(self, slack: int | str = 0) -> Iterator[None]:
        """The test fails if more is allocated after the block than before it; on the host 1 MiB more than slack is noise."""
        most, memory = _size(slack, "slack"), self.monitor.memory
        before = _settled(memory)
        yield
        left = _settled(memory) - before
        if left > most + memory.noise_bytes:
            pytest.fail(f"{gib(left)} ({left:,} bytes) more is allocated than before", pytrace=False)


@pytest.fixture  # type: ignore[untyped-decorator,unused-ignore]
def gpu_memory() -> GpuMemory:
    """The current GPU's memory, or this process's where PyTorch sees none."""
    if importlib.util.find_spec("torch") is not None:
        _torch.torch()
    return GpuMemory()


def _settled(memory: _torch.Memory) -> int:
    """Allocated bytes without garbage; on the host, without what its heap keeps of earlier tests."""
    gc.collect()
    if _memory_kind(memory) == "host":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc
        if trim is not None:
            trim(0)
    return memory.numbers()[0]


@dataclass
class Result:
    """Of one test; bytes.  peak: the most while it and its own fixtures ran, above what was there before.  left: after its function."""

    test: str
    device: str
    peak_bytes: int
    left_bytes: int
    limit_bytes: int | None
    passed: bool


class _Measure:
    """From a test's own fixtures to the end of its function."""

    def __init__(self, limits: dict[str, int]) -> None:
        self.limits = limits
        self.memory = _torch.memory_of()
        self.peaks = _torch.peaks_of(self.memory)
        self.before = self.before_call = _settled(self.memory)
        self.peak = self.peaks.begin(self.memory)
        self.reset_to = self.memory.numbers()[2]

    def restart(self) -> None:
        """What came up to here is others': of fixtures that more tests share."""
        self.before = _settled(self.memory)
        self.peaks.cut(self.memory, self.peak)
        self.reset_to = self.memory.numbers()[2]

    def end(self, test: str, passed: bool) -> Result:
        now = self.peaks.cut(self.memory, self.peak, last=True)
        peak = now[2]
        if peak <= self.reset_to and self.reset_to > self.before + self.memory.noise_bytes:
            peak = now[0]  # a sandbox does not let the peak be reset, and an earlier test's was higher
        left = _settled(self.memory) - self.before_call
        return Result(test, _memory_kind(self.memory), max(0, peak - self.before), max(0, left), self.limits.get("limit"), passed)

    def close(self) -> None:
        if self.peak in self.peaks.open:
            self.peaks.cut(self.memory, self.peak, last=True)


class Plugin:
    """What watches the tests of one process, and prints at the end what all processes measured."""

    def __init__(self, config: Any) -> None:
        def chosen(name: str) -> Any:
            given = config.getoption(name)
            return config.getini(name) if given is None else given

        self.config = config
        self.most = int(config.getoption("gpu_memory_most"))
        self.every = bool(config.getoption("gpu_memory") or config.getini("gpu_memory"))
        self.update = config.getoption("gpu_memory_update")
        self.baseline: Baseline | None = None
        self.results: dict[str, Result] = {}
        self.measure: _Measure | None = None
        path, tolerance = chosen("gpu_memory_baseline"), chosen("gpu_memory_fail_over")
        if not path and (self.update or tolerance):
            raise pytest.UsageError("--gpu-memory-update and --gpu-memory-fail-over need --gpu-memory-baseline=FILE")
        try:
            if path:
                path = os.path.join(config.invocation_params.dir if config.getoption("gpu_memory_baseline") else config.rootpath, path)
                self.baseline = Baseline(path) if self.update and not os.path.exists(path) else Baseline.read(path)
                self.every = True
            if self.baseline and tolerance:
                self.baseline.fail_over = fail_over(tolerance, "--gpu-memory-fail-over")
        except NotFoundError as why:
            raise pytest.UsageError(f"{why}; --gpu-memory-update writes it") from None
        except PlimsollError as why:
            raise pytest.UsageError(str(why)) from None

    # ---- one test ----

    def limits(self, item: Any) -> dict[str, int] | None:
        """By "limit" and "leak"; None: the test is not measured.  Raises ArgumentError."""
        found: dict[str, int] = {}
        marks = [(name, mark) for name, what in LIMITS.items() if name == MARKER or self.every and not _memray()
                 for mark in [item.get_closest_marker(name)] if mark is not None]
        for name, mark in marks:
            given = dict(mark.kwargs)
            given.update(zip((LIMITS[name],), mark.args))
            if len(mark.args) > 1 or set(given) - ({"limit", "leak"} if name == MARKER else {LIMITS[name]}):
                had = ", ".join([*map(repr, mark.args), *(f"{key}={value!r}" for key, value in mark.kwargs.items())])
                raise ArgumentError(f'@pytest.mark.{name} takes {"limit= and leak=" if name == MARKER else "one size"}, not {had}')
            found.update((what, _size(value, f"{what} of @pytest.mark.{name}")) for what, value in given.items())
        return found if marks or self.every else None

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)  # type: ignore[untyped-decorator,unused-ignore]
    def pytest_runtest_setup(self, item: Any) -> Any:
        try:
            limits = self.limits(item)
        except ArgumentError as why:
            path, line, _ = item.reportinfo()
            where = os.path.relpath(path, self.config.rootpath)
            limits, wrong = None, f"{where}{'' if line is None else f':{line + 1}'}, {item.name}: {why}"
        else:
            wrong = ""
        if limits is not None:
            self.measure = _Measure(limits)
        outcome = yield
        if wrong and outcome.excinfo is None:
            _fail(outcome, wrong)

    @pytest.hookimpl(hookwrapper=True)  # type: ignore[untyped-decorator,unused-ignore]
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Any:
        yield
        # what more tests share, and gpu_memory, which imports torch
        if self.measure is not None and (fixturedef.scope != "function" or fixturedef.argname == gpu_memory.__name__):
            self.measure.restart()

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)  # type: ignore[untyped-decorator,unused-ignore]
    def pytest_runtest_call(self, item: Any) -> Any:
        measure = self.measure
        if measure is not None:
            measure.before_call = measure.memory.numbers()[0]
        outcome = yield
        if measure is None:
            return
        self.measure = None
        result = measure.end(item.nodeid, outcome.excinfo is None)
        wrong = self.wrong(result, measure) if result.passed else None
        if wrong:
            result.passed = False
        item.user_properties.append((_RESULT, asdict(result)))
        if wrong:
            _fail(outcome, wrong)

    @pytest.hookimpl(hookwrapper=True)  # type: ignore[untyped-decorator,unused-ignore]
    def pytest_runtest_teardown(self, item: Any) -> Any:
        if self.measure is not None:  # the setup failed
            self.measure.close()
            self.measure = None
        yield

    def wrong(self, result: Result, measure: _Measure) -> str | None:
        peak, limit, leak = result.peak_bytes, measure.limits.get("limit"), measure.limits.get("leak")
        where = "" if result.device != "host" else " of host memory (PyTorch sees no GPU)"
        told = f"the test's peak was {gib(peak)} ({peak:,} bytes){where}"
        if limit is not None and peak > limit:
            return f"{told}, {gib(peak - limit)} above its limit of {gib(limit)}"
        if leak is not None and result.left_bytes > leak + measure.memory.noise_bytes:
            return (f"after the test's function {gib(result.left_bytes)} ({result.left_bytes:,} bytes){where} is still allocated; "
                    f"its limit is {gib(leak)}")
        if self.baseline is None or self.update or self.grown(result) is None:
            return None
        before = self.baseline.peaks[result.test][1]
        return (f"{told}, {gib(peak - before)} above the {gib(before)} in {os.path.basename(self.baseline.path)}, which allows "
                f"{self.baseline.fail_over.text}; to accept it: --gpu-memory-update")

    def grown(self, result: Result) -> int | None:
        """Beyond the tolerance, and on the host beyond its noise."""
        assert self.baseline is not None
        noise = _torch.HostMemory.noise_bytes if result.device == "host" else 0
        return self.baseline.grown(result.test, result.device, result.peak_bytes - noise)

    # ---- all tests ----

    def pytest_runtest_logreport(self, report: Any) -> None:
        for name, value in report.user_properties if report.when == "call" else ():
            if name == _RESULT:
                self.results[report.nodeid] = Result(**value)

    @pytest.hookimpl(trylast=True)  # type: ignore[untyped-decorator,unused-ignore]
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if not self.results:
            return
        highest = sorted(self.results.values(), key=lambda result: -result.peak_bytes)
        shown = highest if self.most <= 0 else highest[:self.most]
        terminalreporter.section("GPU memory" if any(r.device != "host" for r in highest) else "memory of the host: PyTorch sees no GPU")
        if shown:
            terminalreporter.write_line(f"{'peak':>11} {'left':>11} {'limit':>11} {'baseline':>11}  test")
        for result in shown:
            known = None if self.baseline is None else self.baseline.peaks.get(result.test)
            before = known[1] if known and known[0] == result.device else None
            terminalreporter.write_line(" ".join(f"{'-' if n is None else gib(n):>11}" for n in (
                result.peak_bytes, result.left_bytes, result.limit_bytes, before)) + f"  {result.test}")
        if len(shown) < len(highest):
            terminalreporter.write_line(f"{len(highest) - len(shown)} tests more; --gpu-memory-most=0 shows all")
        if self.baseline is not None:
            terminalreporter.write_line(self.told_of(self.baseline, highest))

    def told_of(self, baseline: Baseline, results: list[Result]) -> str:
        """How many were compared, or written."""
        if self.update:
            passed = {result.test: (result.device, result.peak_bytes) for result in results if result.passed}
            baseline.peaks.update(passed)
            baseline.write()
            return f"{len(passed)} peaks of tests that passed were written into {baseline.path}"
        lacks = sum(result.test not in baseline.peaks for result in results)
        other = sum(result.test in baseline.peaks and baseline.peaks[result.test][0] != result.device for result in results)
        said = [f"{len(results) - lacks - other} compared with {baseline.path}, which allows {baseline.fail_over.text}"]
        said += [f"{n} {why}" for n, why in ((other, "not compared: measured on another kind of device"),
                                             (lacks, "not in it; --gpu-memory-update adds them")) if n]
        return "; ".join(said)


def _fail(outcome: Any, text: str) -> None:
    """The last that an outermost wrapper does."""
    error = pytest.fail.Exception(text, pytrace=False)
    if not hasattr(outcome, "force_exception"):  # pluggy before 1.1
        raise error
    outcome.force_exception(error)


def _memray() -> bool:
    return importlib.util.find_spec("pytest_memray") is not None


def pytest_addoption(parser: Any) -> None:
    group = parser.getgroup("plimsoll", "GPU memory (plimsoll)")
    group.addoption("--gpu-memory", action="store_true", help="measure every test, and show those with the highest peaks")
    group.addoption("--gpu-memory-most", *([] if _memray() else ["--most-allocations"]), type=int, default=MOST, metavar="N",
                    help=f"show the N tests with the highest peaks ({MOST}; 0: all)")
    group.addoption("--gpu-memory-baseline", metavar="FILE", help="fail tests whose peak grew beyond that in FILE")
    group.addoption("--gpu-memory-fail-over", metavar="GROWTH", help="2%% or 500MiB: growth that is allowed, in place of the FILE's")
    group.addoption("--gpu-memory-update", action="store_true", help="write the peaks of tests that pass into the baseline")
    parser.addini("gpu_memory", "measure every test", type="bool", default=False)
    parser.addini("gpu_memory_baseline", "FILE of --gpu-memory-baseline, relative to the root")
    parser.addini("gpu_memory_fail_over", "GROWTH of --gpu-memory-fail-over")


def pytest_configure(config: Any) -> None:
    config.addinivalue_line("markers", f'{MARKER}(limit="2 GiB", leak=None): the most that a test and its own fixtures may allocate '
                                       "on the GPU, and that may stay after its function; without a GPU, of the host's memory (plimsoll)")
    if not _memray():
        for name in LIMITS:
            if name != MARKER:
                config.addinivalue_line("markers", f'{name}(size): with --gpu-memory, {MARKER}({LIMITS[name]}=size)')
    config.pluginmanager.register(Plugin(config), "plimsoll-gpu-memory")
