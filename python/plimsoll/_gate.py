"""plimsoll gate FILE: the planned peak of each configuration in a TOML file, compared with a baseline (docs/gate.md).

Exit codes: 1 a peak grew by more than is allowed, or a configuration does not fit; 2 usage; 3 a file cannot be read or written;
4 this machine cannot.  A configuration that cannot be planned gives the exit code of its plan.
"""
from __future__ import annotations

import argparse
import importlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass, field
from typing import Any, Iterable, Sequence

from . import __main__ as own
from ._usage import OneLineParser
from ._baseline import Baseline, fail_over
from .errors import ArgumentError, FormatError, NotFoundError, PlimsollError, UnsupportedError

GREW, USAGE, INPUT, MACHINE = 1, 2, 3, 4
DEVICE = "plan"
FAIL_OVER = "0.5%"  # of a new baseline: plans have no noise
OWN = ("baseline", "fail_over", "gate")
OF_ONE = ("name", "run", "plan", "gpu", "memory")
MODULES = 3  # of one that grew, in the table


@dataclass(frozen=True)
class Configuration:
    """words: what `plimsoll plan` gets.  device: what peaks are compared with."""

    name: str
    words: tuple[str, ...]
    device: str


@dataclass
class Planned:
    """fits: None, no limit was given or it is not certain.  modules: bytes at the peak by module.  error: why there is no plan, with its exit code."""

    peak_bytes: int = 0
    fits: bool | None = None
    unsure: str = ""
    modules: dict[str, int] = field(default_factory=dict)
    error: str = ""
    code: int = 0


@dataclass
class Gate:
    path: str
    baseline: str
    fail_over: str | None
    configurations: list[Configuration]


def read(path: str) -> Gate:
    """Raises NotFoundError, FormatError, UnsupportedError."""
    try:
        toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    except ModuleNotFoundError:
        raise UnsupportedError(f"TOML is read by Python 3.11; this is {sys.version_info[0]}.{sys.version_info[1]}: pip install tomli") from None
    try:
        with open(path, "rb") as file:
            content = toml.loads(file.read(1 << 20).decode())
    except OSError as why:
        raise NotFoundError(f"'{path}' cannot be read: {why.strerror}", path=path) from None
    except (ValueError, RecursionError) as why:  # not UTF-8, or not TOML: with its line
        raise FormatError(f"'{path}' is not TOML: {why}", path=path) from None
    try:
        return _content(path, content)
    except ValueError as why:
        raise FormatError(f"'{path}': {why}", path=path) from None


def _content(path: str, content: dict[str, Any]) -> Gate:
    _known(content, OWN, "the file")
    rows = content.get("gate")
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise ValueError('there is no [[gate]] with name = "..." and run = "python train.py"')
    found = [_configuration(row, i + 1) for i, row in enumerate(rows)]
    for i, one in enumerate(found):
        if any(one.name == other.name for other in found[:i]):
            raise ValueError(f"the name '{one.name}' is there twice")
    allowed = _text(content, "fail_over", "the file")
    if allowed is not None:
        fail_over(allowed, "fail_over")
    beside = _text(content, "baseline", "the file") or os.path.splitext(os.path.basename(path))[0] + ".baseline.json"
    return Gate(path, os.path.join(os.path.dirname(path), beside), allowed, found)


def _known(row: dict[str, Any], keys: Sequence[str], where: str) -> None:
    for key in row:
        if key not in keys:
            raise ValueError(f"{where} has '{key}', which is none of {', '.join(keys)}")


def _text(row: dict[str, Any], key: str, where: str) -> str | None:
    value = row.get(key)
    if value is not None and (not isinstance(value, str) or not value or not value.isprintable()):
        raise ValueError(f"{key} of {where} is not a text of one line")
    return value


def _words(row: dict[str, Any], key: str, where: str) -> list[str] | None:
    value = row.get(key)
    if isinstance(value, list) and value and all(isinstance(word, str) and "\0" not in word for word in value):
        return value
    text = _text(row, key, where)
    try:
        return None if text is None else shlex.split(text)
    except ValueError as why:
        raise ValueError(f"{key} of {where}: {why}") from None


def _configuration(row: dict[str, Any], number: int) -> Configuration:
    where = f"[[gate]] {number}"
    name = _text(row, "name", where)
    if name is None:
        raise ValueError(f'{where} has no name = "..."')
    where = f"'{name}'"
    _known(row, OF_ONE, where)
    run, plan = _words(row, "run", where), _words(row, "plan", where)
    if bool(run) == bool(plan):
        raise ValueError(f"{where} needs one of run, a command, and plan, the options of plimsoll plan")
    if plan and "--" in plan:
        raise ValueError(f"{where}: a command is run, not plan")
    gpu, memory = _text(row, "gpu", where), _text(row, "memory", where)
    words = [*(plan or []), *(["--gpu", gpu] if gpu else []), *(["--memory", memory] if memory else [])]
    return Configuration(name, (*words, "--json", "-o", "{}", *(["--", *run] if run else [])), f"{DEVICE} {gpu}" if gpu else DEVICE)


# ---- planning ----

def program() -> str:
    """Raises UnsupportedError."""
    path = os.environ.get("PLIMSOLL") or own.program()
    if path is None:
        raise UnsupportedError("the program plimsoll is not there; pip install . builds it")
    return os.path.abspath(path) if os.sep in path else path  # it is run in another folder


def planned(one: Configuration, folder: str) -> Planned:
    """In that folder."""
    with tempfile.TemporaryDirectory(prefix="plimsoll-gate-") as kept:
        recording = os.path.join(kept, "plan.pickle")
        code, said, error = _answer(["plan", *(recording if word == "{}" else word for word in one.words)], folder)
        if said is None:
            return Planned(error=error, code=code or MACHINE)
        _, of, error = _answer(["report", "--json", "--group-by", "module", "--owners", "1000000", recording], folder)
    if of is None:
        return Planned(error=error, code=MACHINE)
    unsure = "; ".join(said["model"]["doubts"]) or ("too close to call" if said["limit_bytes"] is not None and said["fits"] is None else "")
    return Planned(said["peak"]["allocated_bytes"], said["fits"], unsure, _modules(of))


def _answer(words: list[str], folder: str) -> tuple[int, Any, str]:
    """Exit code, JSON, and the last line that was said if there is none."""
    # a script whose layers are in a set is traced in one order
    done = subprocess.run([program(), *words], cwd=folder or None, env={**os.environ, "PYTHONHASHSEED": "0"}, stdin=subprocess.DEVNULL, check=False,
                          capture_output=True)
    try:
        return done.returncode, json.loads(done.stdout), ""
    except ValueError:
        lines = [line for line in done.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
        last = [line for line in lines if line.startswith("plimsoll: ") and not line.endswith(" ...")] or lines or ["it printed nothing"]
        return done.returncode, None, clean(last[-1].removeprefix("plimsoll: "))


def clean(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)


def _modules(report: dict[str, Any]) -> dict[str, int]:
    """Bytes at the peak by module: layers.0.mlp and layers.1.mlp are layers.*.mlp, but members without modules below them, as a Sequential's, stay apart."""
    owners = [owner for device in report["devices"] if device["at_peak"] for owner in device["at_peak"]["owners"]]
    names = [clean(owner["module"] or owner["frame"] or "?").split(".") for owner in owners]
    blocks = {tuple(parts[:i]) for parts in names for i, part in enumerate(parts[:-1]) if part.isdigit()}
    sums: dict[str, int] = {}
    for owner, parts in zip(owners, names):
        name = ".".join("*" if part.isdigit() and tuple(parts[:i]) in blocks else part for i, part in enumerate(parts))
        sums[name] = sums.get(name, 0) + owner["bytes"]
    return sums


# ---- comparing and telling ----

@dataclass
class Row:
    name: str
    now: Planned
    before_bytes: int | None
    grown: list[tuple[str, int]]  # modules, by how many bytes each
    wrong: str  # empty: nothing is
    note: str


def compare(one: Configuration, now: Planned, baseline: Baseline, update: bool) -> Row:
    if now.error:
        return Row(one.name, now, None, [], "not planned", now.error)
    device, before = baseline.peaks.get(one.name, (None, None))
    note = f"no verdict on the limit: {now.unsure}" if now.unsure else ""
    if device not in (None, one.device):
        before, note = None, f"not compared: the baseline is of '{device}', this is '{one.device}'"
    elif device is None and not update:
        note = note or "not in the baseline"
    wrong = "" if update or baseline.grown(one.name, one.device, now.peak_bytes) is None else f"grew by more than {baseline.fail_over.text}"
    if now.fits is False:
        wrong = f"{wrong}, does not fit".lstrip(", ")
    had = baseline.modules.get(one.name)
    changes = [(name, now.modules.get(name, 0) - had.get(name, 0)) for name in {**now.modules, **had}] if had and before is not None else []
    most = sorted((change for change in changes if change[1] > 0), key=lambda change: (-change[1], change[0]))[:MODULES]
    return Row(one.name, now, before, most if before is not None and now.peak_bytes > before else [], wrong, note)


def size(count: int) -> str:
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if abs(count) >= unit:
            return f"{count / unit:,.2f} {name}"
    return f"{count} bytes"


def change(now: int, before: int) -> str:
    more = now - before
    if not more:
        return "none"
    return f"{'+' if more > 0 else '-'}{size(abs(more))}" + (f" ({100 * more / before:+.2f} %)" if before else "")


def cells(row: Row) -> tuple[str, str, str]:
    """Baseline, now, change."""
    known = row.before_bytes is not None and not row.now.error
    return (size(row.before_bytes) if row.before_bytes is not None else "-", "-" if row.now.error else size(row.now.peak_bytes),
            change(row.now.peak_bytes, row.before_bytes) if known and row.before_bytes is not None else "-")


def told_text(rows: Iterable[Row], last: str) -> str:
    lines = [f"{'baseline':>12} {'now':>12} {'change':>24}  configuration"]
    for row in rows:
        before, now, more = cells(row)
        lines.append(f"{before:>12} {now:>12} {more:>24}  {row.name}")
        for name, count in row.grown:
            lines.append(f"{'':>25} {'+' + size(count):>24}    {name}")
        lines += [piece for text in (row.wrong.upper(), row.note) if text
                  for piece in textwrap.wrap(text, 80, initial_indent="  ", subsequent_indent="    ", break_long_words=False)]
    return "\n".join([*lines, "", *textwrap.wrap(last, 80, break_long_words=False)]) + "\n"


def code(text: str) -> str:
    return "`" + text.replace("`", "'").replace("|", "\\|") + "`"


def plain(text: str) -> str:
    return "".join("\\" + c if c in "\\`*_{}[]<>|#~@" else c for c in text)


def told_markdown(rows: Iterable[Row], last: str) -> str:
    lines = ["| configuration | baseline | now | change | modules that grew | |", "|---|--:|--:|--:|---|---|"]
    for row in rows:
        grown = "<br>".join(f"{code(name)} +{size(count)}" for name, count in row.grown)
        verdict = "; ".join(text for text in (f"**{plain(row.wrong)}**" if row.wrong else "", plain(row.note)) if text) or "ok"
        lines.append(f"| {' | '.join((code(row.name), *cells(row), grown, verdict))} |")
    return "\n".join([*lines, "", plain(last)]) + "\n"


# ---- the command ----

def parser() -> argparse.ArgumentParser:
    made = OneLineParser(prog="plimsoll gate", description="Plans each configuration of FILE, without a GPU, and compares its peak with a baseline.")
    made.add_argument("file", metavar="FILE", help="TOML: [[gate]] with a name, and run or plan")
    made.add_argument("--update", action="store_true", help="write the peaks into the baseline")
    made.add_argument("--fail-over", metavar="GROWTH", help="growth that is allowed, in place of the file's (0.5%%): 2%%, or 500MiB")
    made.add_argument("--format", choices=("text", "markdown"), default="text", help="the text as it is, or as Markdown for a pull request")
    return made


def opened(gate: Gate, given: str | None, update: bool) -> Baseline:
    """Raises NotFoundError, FormatError, ArgumentError."""
    if update and not os.path.exists(gate.baseline):
        baseline = Baseline(gate.baseline, fail_over(FAIL_OVER, "fail_over"))
    else:
        try:
            baseline = Baseline.read(gate.baseline)
        except NotFoundError as why:
            raise NotFoundError(f"{why}; --update writes it", path=gate.baseline) from None
    if given or gate.fail_over:
        baseline.fail_over = fail_over(given or gate.fail_over or "", "--fail-over")
    return baseline


def write(gate: Gate, baseline: Baseline, plans: Sequence[Planned]) -> None:
    """Also removes peaks of this command whose configuration is gone; others, as of tests, stay.  Raises OSError."""
    for name in [name for name, (device, _) in baseline.peaks.items() if device.split(" ")[0] == DEVICE]:
        del baseline.peaks[name]
        baseline.modules.pop(name, None)
    for one, now in zip(gate.configurations, plans):
        baseline.peaks[one.name] = (one.device, now.peak_bytes)
        baseline.modules[one.name] = now.modules
    baseline.write()


def fail(text: str, exit_code: int) -> int:
    print(f"plimsoll: {text}", file=sys.stderr)
    return exit_code


def main(words: Sequence[str] | None = None) -> int:
    options = parser().parse_args(words)
    try:
        gate = read(options.file)
        baseline = opened(gate, options.fail_over, options.update)
        return judge(gate, baseline, options)
    except ArgumentError as why:
        return fail(str(why), USAGE)
    except UnsupportedError as why:
        return fail(str(why), MACHINE)
    except PlimsollError as why:
        return fail(str(why), INPUT)
    except OSError as why:
        return fail(f"{why.strerror}: '{why.filename}'", INPUT)
    except KeyboardInterrupt:
        return 130


def judge(gate: Gate, baseline: Baseline, options: argparse.Namespace) -> int:
    plans = []
    for one in gate.configurations:
        if sys.stderr.isatty():
            print(f"plimsoll: planning {one.name} ...", file=sys.stderr)
        plans.append(planned(one, os.path.dirname(gate.path)))
    rows = [compare(one, now, baseline, options.update) for one, now in zip(gate.configurations, plans)]
    failed = next((now.code for now in plans if now.error), 0)
    name = os.path.basename(gate.baseline)
    wrong = [row for row in rows if row.wrong]
    if options.update and not failed:
        write(gate, baseline, plans)
        last = f"{len(rows)} peaks are in {name}; it allows {baseline.fail_over.text}."
    elif options.update:
        last = f"{name} was not written: not every configuration was planned."
    else:
        last = f"{len(wrong)} of {len(rows)} failed; compared with {name}, which allows {baseline.fail_over.text}." + (
            " To accept the peaks: --update" if wrong and not failed else "")
    told = told_markdown if options.format == "markdown" else told_text
    sys.stdout.buffer.write(told(rows, last).encode("utf-8", "replace"))
    sys.stdout.flush()
    return failed or (GREW if wrong else 0)


if __name__ == "__main__":
    sys.exit(main())
