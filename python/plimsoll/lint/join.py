"""A recording's findings, or a log's tracebacks, put next to the linter's: the measured bytes at the mistake's line.

A recording shows where memory was allocated (the model's call, the loss); the mistake is where it is kept.  So what
joins the two is the same function, and the same loop in it, not the same line.
"""
from __future__ import annotations

import ast
import gzip
import hashlib
import json
import lzma
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .engine import Result
from .finding import SEVERITIES, Cost, Finding
from .output import Report

#: Which rules explain a finding of a recording, the most telling first.
EXPLAINS: dict[str, tuple[str, ...]] = {
    "leak": ("PLM104", "PLM101", "PLM103", "PLM106", "PLM111", "PLM112", "PLM102", "PLM113", "PLM105"),
    "gradients_live_in_forward": ("PLM116", "PLM801"),
    "eval_heavier_than_train": ("PLM110", "PLM111", "PLM103", "PLM101"),
    "duplicate_weights": ("PLM115", "PLM401", "PLM403"),
    "allocation_in_loop": ("PLM206", "PLM207"),
}
#: A leak of a known kind, by the words of its evidence, has an order of its own.
KINDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("hidden state", ("PLM104", "PLM105")), ("numbers", ("PLM102",)), ("scalar", ("PLM102",)),
    ("outputs", ("PLM111", "PLM103", "PLM112")), ("graph", ("PLM101", "PLM103", "PLM104", "PLM106")),
)
OF_A_LOG = ("PLM104", "PLM101", "PLM103", "PLM106", "PLM111", "PLM110", "PLM112", "PLM115", "PLM107", "PLM801", "PLM105", "PLM116", "PLM102",
            "PLM113", "PLM401")
_FRAME = re.compile(r"^(?P<file>.+?):(?P<line>\d+) in (?P<function>.+)$")
_SOURCES = b'{"schema": "plimsoll-sources/1"'
TAIL = 8 << 20  #: bytes at a recording's end in which its list of sources is looked for


class Unusable(Exception):
    """One line: what of a recording or log cannot be used."""


@dataclass(slots=True, frozen=True)
class Frame:
    file: str
    line: int
    function: str


@dataclass(slots=True)
class Measured:
    """One finding of a recording."""

    id: str
    severity: str
    title: str
    bytes: int | None
    per: int | None
    period: str
    repetitions: int | None
    frames: list[Frame]
    evidence: list[str]


@dataclass(slots=True)
class Recording:
    path: str
    kind: str  #: recording or log
    measured: list[Measured]
    sources: dict[str, dict[str, Any]] = field(default_factory=dict)  #: path -> bytes, sha256 as of the run


def frame_of(text: Any) -> Frame | None:
    found = _FRAME.match(text) if isinstance(text, str) else None
    return Frame(found["file"], int(found["line"]), found["function"]) if found else None


# ---- reading ----

def read_recording(path: str, program: str) -> Recording:
    """What `plimsoll report --json` says of a recording; a file that holds that JSON is taken as it is."""
    data = _answer("report", path, program)
    if not isinstance(data, dict) or not str(data.get("schema", "")).startswith("report/"):
        raise Unusable(f"{path}: no report's JSON")
    measured: list[Measured] = []
    for device in data.get("devices") or []:
        leaks = {leak.get("finding"): leak for leak in device.get("leaks") or []}
        found = enumerate(device.get("findings") or [])
        measured += [m for m in (_measured(one, leaks.get(i) or {}) for i, one in found) if m is not None]
    return Recording(path, "recording", measured, sources_of(path, program))


def _answer(verb: str, path: str, program: str) -> Any:
    """The JSON of `plimsoll report` or `plimsoll why`: from the program, or the file itself where it holds one."""
    if not os.path.isfile(path):
        raise Unusable(f"{path}: no such file")
    with open(path, "rb") as file:
        head = file.read(64)
    if head.lstrip()[:1] == b"{" and b'"schema"' in head:
        try:
            return json.loads(Path(path).read_text(encoding="utf-8"))
        except ValueError:
            raise Unusable(f"{path}: no {verb}'s JSON") from None
    try:
        done = subprocess.run([program, verb, "--json", "--", path], capture_output=True, text=True, errors="replace", check=False)
    except OSError as why:
        raise Unusable(f"cannot run '{program}' to read {path}: {why.strerror} (--plimsoll PROGRAM)") from None
    if done.returncode and not done.stdout:
        lines = done.stderr.strip().splitlines()
        raise Unusable(lines[-1].removeprefix("plimsoll: ") if lines else f"{path}: plimsoll {verb} failed")
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise Unusable(f"{path}: plimsoll {verb} printed no JSON") from None


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _measured(found: dict[str, Any], leak: dict[str, Any]) -> Measured | None:
    place = found.get("place") or {}
    first = frame_of(place.get("frame"))
    if first is None and place.get("file") and _number(place.get("line")):
        first = Frame(str(place["file"]), int(place["line"]), "")
    stack = [f for f in map(frame_of, leak.get("stack") or []) if f is not None]
    frames = ([first] if first is not None else []) + [f for f in stack if f != first]
    if not frames:
        return None
    severity = str(found.get("severity"))
    return Measured(str(found.get("id")), severity if severity in SEVERITIES else "info", str(found.get("title")), _number(found.get("bytes")),
                    _number(found.get("per_period_bytes")), str(found.get("period") or "repetition"), _number(leak.get("repetitions")), frames,
                    [str(e) for e in found.get("evidence") or []])


def sources_of(path: str, program: str = "plimsoll") -> dict[str, dict[str, Any]]:
    """The list of sources that `plimsoll record` puts at the end of a recording; {} where there is none.

    A packed recording is unpacked by the program.
    """
    try:
        if path.endswith(".plim"):
            unpacked = subprocess.run([program, "pack", "--unpack", "-o", "-", "--", path], capture_output=True, check=False)
            tail = unpacked.stdout[-TAIL:]
        elif path.endswith((".gz", ".xz")):
            with (gzip.open if path.endswith(".gz") else lzma.open)(path, "rb") as stream:
                tail = b""
                while block := stream.read(1 << 20):
                    tail = (tail + block)[-TAIL:]
        else:
            with open(path, "rb") as file:
                file.seek(max(0, os.path.getsize(path) - TAIL))
                tail = file.read(TAIL)
    except (OSError, EOFError, lzma.LZMAError):
        return {}
    at = tail.rfind(_SOURCES)
    if at < 0:
        return {}
    try:
        table, _ = json.JSONDecoder().raw_decode(tail[at:].decode("utf-8", "replace"))
        return {str(k): v for k, v in table["files"].items() if isinstance(v, dict)}
    except (ValueError, KeyError, AttributeError, RecursionError):
        return {}


def read_log(path: str, program: str) -> Recording:
    """The tracebacks of a log's deaths, as `plimsoll why --json` reads them; a file that holds that JSON is taken as it is."""
    data = _answer("why", path, program)
    if not isinstance(data, dict) or not str(data.get("schema", "")).startswith("why/"):
        raise Unusable(f"{path}: no why's JSON")
    measured: list[Measured] = []
    for death in data.get("deaths") or []:
        frames = [f for f in map(frame_of, death.get("frames") or []) if f is not None]
        if frames:
            measured.append(Measured("oom", "error", str(death.get("text"))[:200], None, None, "", None, frames, []))
    return Recording(path, "log", measured)


# ---- joining ----

def _same_end(a: str, b: str) -> int:
    """How many folders and names two paths have in common at their end."""
    x, y = Path(a).parts[::-1], Path(b).parts[::-1]
    n = 0
    while n < min(len(x), len(y)) and x[n] == y[n]:
        n += 1
    return n


def match_file(frame: Frame, results: list[Result]) -> Result | None:
    """The linted file that a frame names: the longest common end of the paths, no other as long."""
    scored = sorted(((_same_end(frame.file, str(Path(r.path).resolve())), r.path) for r in results), reverse=True)
    if not scored or scored[0][0] == 0 or len(scored) > 1 and scored[1][0] == scored[0][0]:
        return None
    return next(r for r in results if r.path == scored[0][1])


def changed_since(result: Result, frame: Frame, sources: dict[str, dict[str, Any]]) -> str:
    """Why this source is not the recorded one; "" if it is, as far as can be seen."""
    assert result.source is not None
    known = sources.get(frame.file) or next((v for k, v in sources.items() if _same_end(k, frame.file) == len(Path(frame.file).parts)), None)
    if known is not None:
        data = Path(result.path).read_bytes()
        if known.get("edited"):
            return "was edited while the recorded run was going on"
        if len(data) != known.get("bytes") or hashlib.sha256(data).hexdigest() != known.get("sha256"):
            return f"differs from the recorded one ({known.get('bytes')} bytes, sha256 {str(known.get('sha256'))[:12]}; here {len(data)} bytes)"
        return ""
    name = function_at(result.source.tree, frame.line)
    if name is None:
        return f"has no line {frame.line}"
    if frame.function not in ("<module>", "<lambda>", "<listcomp>", "<genexpr>", "<dictcomp>", "") and name != frame.function.rpartition(".")[2]:
        return f"has {name or 'no function'} at line {frame.line}, the recording has {frame.function}: it has changed since"
    return ""


def _scopes(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node


def function_at(tree: ast.Module, line: int) -> str | None:
    """Name of the innermost function around a line; "" for the module's own code; None below the file's end."""
    if tree.body and line > (tree.body[-1].end_lineno or 0) or not tree.body:
        return None
    around = [f for f in _scopes(tree) if f.lineno <= line <= (f.end_lineno or 0)]
    return min(around, key=lambda f: (f.end_lineno or 0) - f.lineno).name if around else ""


def _span(tree: ast.Module, line: int) -> tuple[int, int]:
    around = [f for f in _scopes(tree) if f.lineno <= line <= (f.end_lineno or 0)]
    if not around:
        return 1, 1 << 30
    best = min(around, key=lambda f: (f.end_lineno or 0) - f.lineno)
    return best.lineno, best.end_lineno or 1 << 30


def _loops(tree: ast.Module, line: int, span: tuple[int, int]) -> list[tuple[int, int]]:
    """The loops of the function around a line, outermost first."""
    found = [(n.lineno, n.end_lineno or 0) for n in ast.walk(tree) if isinstance(n, (ast.For, ast.AsyncFor, ast.While)) and
             n.lineno <= line <= (n.end_lineno or 0) and span[0] <= n.lineno <= span[1]]
    return sorted(found)


def order_of(measured: Measured) -> tuple[str, ...]:
    if measured.id == "oom":
        return OF_A_LOG
    known = EXPLAINS.get(measured.id, ())
    if measured.id == "leak":
        text = " ".join(measured.evidence[1:2]) or " ".join(measured.evidence)
        for word, first in KINDS:
            if word in text:
                return first + tuple(r for r in known if r not in first)
    return known


def explain(measured: Measured, results: list[Result], sources: dict[str, dict[str, Any]]) -> tuple[Finding | None, list[str], bool]:
    """The finding that a measurement belongs to, what stands against joining, and whether any of its files is here."""
    wanted = order_of(measured)
    notes: list[str] = []
    here = False
    other: set[str] = set()  #: files that are not the recorded ones
    for frame in measured.frames:
        result = match_file(frame, results)
        if result is None or result.source is None or result.path in other:
            continue
        here = True
        why = changed_since(result, frame, sources)
        if why:
            notes.append(f"{result.path} {why}; nothing is joined to it")
            other.add(result.path)
            continue
        span = _span(result.source.tree, frame.line)
        loops = _loops(result.source.tree, frame.line, span)
        tree = result.source.tree
        inside = [f for f in result.findings if f.id in wanted and f.place.cell is None and _span(tree, f.place.line) == span]
        if loops:
            inside = [f for f in inside if loops[0][0] <= f.place.line <= loops[0][1]]
        if inside:
            return min(inside, key=lambda f: (wanted.index(f.id), abs(f.place.line - frame.line))), notes, True
    return None, notes, here


def size(count: int) -> str:
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= factor:
            return f"{count / factor:.2f}".rstrip("0").rstrip(".") + f" {unit}" if count < 100 * factor else f"{count / factor:.0f} {unit}"
    return f"{count} bytes"


def joined(finding: Finding, measured: Measured, path: str) -> Finding:
    """The finding with what was measured in the place of what such a mistake usually costs."""
    if measured.id == "oom":
        return replace(finding, joined=True, evidence=[*finding.evidence, f"{path}: in the function, and the loop, that ran out of memory"])
    if measured.per is not None:
        repeated = f", {measured.repetitions} {measured.period}s" if measured.repetitions else ""
        text, number = f"leaks {size(measured.per)} a {measured.period} (measured{repeated})", measured.per
    else:
        number = measured.bytes or 0
        text = f"{size(number)} (measured: {measured.id})" if number else f"measured: {measured.id}"
    severity = min(finding.severity, measured.severity, key=SEVERITIES.index)
    return replace(finding, joined=True, severity=severity, confidence=max(finding.confidence, 0.95), title=f"{text}: {finding.title}",
                   cost=Cost(text, number or None, path), evidence=[*finding.evidence, f"{path}: {measured.title}"])


def join(report: Report, results: list[Result], recordings: list[Recording], only: bool) -> None:
    """Put measurements into a report, and rank it by them.  With `only`, drop what no measurement points at."""
    findings = list(report.findings)
    for recording in recordings:
        notes: list[str] = []
        count = 0
        for measured in recording.measured:
            if measured.id != "oom" and measured.id not in EXPLAINS:
                continue
            found, why, here = explain(measured, results, recording.sources)
            notes += [n for n in why if n not in notes]
            if found is None:
                if here and not why:
                    notes.append(f"{recording.path}: no rule explains: {measured.title}")
                continue
            made = joined(found, measured, recording.path)
            findings = [f for f in findings if f is not found and (f.id, f.place) != (found.id, found.place)] + [made]
            count += 1
        if not count and not notes and recording.measured:
            notes.append(f"{recording.path}: none of its lines is in the files that were linted")
        report.recordings.append({"path": recording.path, "kind": recording.kind, "joined": count, "sources": bool(recording.sources), "notes": notes})
    if only:
        findings = [f for f in findings if f.joined]
    findings.sort(key=lambda f: (not f.joined, -(f.cost.bytes or 0) if f.joined and f.cost is not None else 0, f.order()))
    report.findings = findings

