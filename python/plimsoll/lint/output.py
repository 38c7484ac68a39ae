"""Findings as text, JSON (lint/1), SARIF 2.1.0 and GitHub annotations."""
from __future__ import annotations

import hashlib
import os
import textwrap
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from . import __version__
from .catalogue import BY_ID, FOLDED, RULES
from .engine import Result
from .finding import SEVERITIES, Finding

_SARIF_LEVEL = {"error": "error", "warning": "warning", "info": "note"}
_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_COLOURS = {"error": "\033[1;31m", "warning": "\033[1;33m", "info": "\033[1;34m", "dim": "\033[2m", "off": "\033[0m"}


@dataclass(slots=True)
class Report:
    """All that a run found."""

    findings: list[Finding] = field(default_factory=list)
    errors: list[tuple[str, int, str]] = field(default_factory=list)  #: (file, line, why) of what was not linted
    files: int = 0
    skipped: int = 0  #: of these, without a word of PyTorch: not parsed, or with nothing to look for
    lines: int = 0
    suppressed: int = 0
    off: int = 0  #: findings of rules that are off by default
    unsure: int = 0  #: findings below the confidence that was asked for
    in_baseline: int = 0
    recordings: list[dict[str, Any]] = field(default_factory=list)  #: what was joined, and what was not
    notes: list[str] = field(default_factory=list)

    def add(self, result: Result) -> None:
        self.files += 1
        self.skipped += result.skipped
        self.lines += result.lines
        self.suppressed += result.suppressed
        self.off += result.off
        self.unsure += result.unsure
        self.findings += result.findings
        if result.error:
            self.errors.append((result.path, result.error_line, result.error))


# ---- text ----

def _where(finding: Finding) -> str:
    place = finding.place
    cell = f"cell{place.cell}:" if place.cell is not None else ""
    return f"{place.file}:{cell}{place.line}:{place.column}"


def _excerpt(finding: Finding, width: int) -> list[str]:
    """The line, and a caret under what is meant."""
    text = finding.line_text.rstrip()
    if not text:
        return []
    indent = len(text) - len(text.lstrip())
    place = finding.place
    start = place.column - 1
    end = place.end_column - 1 if place.end_line == place.line else len(text)
    shown = text[indent:].replace("\t", " ")
    room = max(width - 10, 20)
    cut = max(0, start - indent - room // 2) if end - indent > room else 0
    line = shown[cut:cut + room]
    first = max(0, start - indent - cut)
    marks = max(1, min(end - indent - cut, len(line)) - first)
    return [f"{place.line:>6} | {line}", " " * 6 + " | " + " " * first + "^" * marks]


def _wrapped(mark: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(text, max(width - 2, 30), initial_indent=" " * 6 + mark + " ", subsequent_indent=" " * 8, break_long_words=False,
                         break_on_hyphens=False)


def finding_text(finding: Finding, width: int = 80, colour: bool = False, *, cost: bool = True) -> str:
    """One finding; cost: with what its rule cost elsewhere, if this was not measured."""
    on = _COLOURS[finding.severity] if colour else ""
    off = _COLOURS["off"] if colour else ""
    head = f"{_where(finding)}: {finding.id} {on}{finding.severity}{off} {finding.title}"
    lines = [head, *_excerpt(finding, width)]
    for evidence in finding.evidence:
        lines += _wrapped("=", evidence, width)
    if cost and finding.cost is not None and finding.cost.text and not finding.joined:
        whose = "measured elsewhere" if finding.cost.bytes else "its cost"
        lines += _wrapped("=", f"{whose}: {finding.cost.text} ({finding.cost.source})", width)
    for fix in finding.fix:
        lines += _wrapped("+", fix, width)
    if finding.edits:
        lines += _wrapped("+", "--fix fixes it" if finding.fix_is_safe else "--fix --unsafe-fixes fixes it", width)
    return "\n".join(lines)


def summary(report: Report) -> str:
    counts = Counter(f.severity for f in report.findings)
    parts = [f"{counts[s]} {s}{'s' if counts[s] != 1 and s != 'info' else ''}" for s in SEVERITIES if counts[s]]
    files = f"{report.files} file{'s' if report.files != 1 else ''}"
    text = f"{len(report.findings)} finding{'s' if len(report.findings) != 1 else ''}"
    text += f" ({', '.join(parts)}) in {files}" if parts else f" in {files}"
    extra = []
    if report.skipped:
        extra.append(f"{report.skipped} without a word of PyTorch")
    if report.suppressed:
        extra.append(f"{report.suppressed} silenced by comments")
    if report.off:
        extra.append(f"{report.off} hidden by rules that are off (--select PLM shows {'it' if report.off == 1 else 'them'})")
    if report.unsure:
        extra.append(f"{report.unsure} hidden as less sure (--confidence low shows {'it' if report.unsure == 1 else 'them'})")
    if report.in_baseline:
        extra.append(f"{report.in_baseline} in the baseline")
    if report.errors:
        extra.append(f"{len(report.errors)} file{'s' if len(report.errors) != 1 else ''} not read whole")
    return text + ("; " + ", ".join(extra) if extra else "")


def folded(findings: list[Finding]) -> list[list[Finding]]:
    """Findings one by one, but infos of little weight of one file together, at the place of the first."""
    groups: dict[object, list[Finding]] = {}
    for finding in findings:
        light = finding.id in FOLDED and finding.severity == "info" and not finding.joined
        groups.setdefault(finding.place.file if light else id(finding), []).append(finding)
    return list(groups.values())


def _spots(findings: list[Finding]) -> str:
    """`PLM206 made-on-cpu at 12, 40; PLM201 sync-every-step at 33`."""
    parts = []
    for rule in dict.fromkeys(f.id for f in findings):
        places = [(f"cell{f.place.cell}:" if f.place.cell is not None else "") + str(line) for f in findings if f.id == rule for line in f.lines or [f.place.line]]
        parts.append(f"{rule} {BY_ID[rule].name} at {', '.join(places[:8])}" + (f" and {len(places) - 8} more" if len(places) > 8 else ""))
    return "; ".join(parts)


def as_text(report: Report, width: int = 80, colour: bool = False) -> str:
    first = {f.id: f for f in reversed(report.findings)}  # says what its rule costs
    blocks = [finding_text(g[0], width, colour, cost=g[0] is first[g[0].id]) if len(g) == 1 else f"{_where(g[0])}: info {sum(len(f.lines) or 1 for f in g)} of little weight: {_spots(g)}" for g in folded(report.findings)]
    notes = [line for recording in report.recordings for line in recording["notes"]]
    return "\n".join(blocks + notes + [summary(report)] + report.notes) + "\n"


# ---- JSON ----

def finding_json(finding: Finding) -> dict[str, Any]:
    place = finding.place
    return {
        "id": finding.id, "name": BY_ID[finding.id].name, "severity": finding.severity, "confidence": finding.confidence,
        "title": finding.title, "evidence": finding.evidence, "fix": finding.fix,
        "place": {"file": place.file, "line": place.line, "column": place.column, "end_line": place.end_line,
                  "end_column": place.end_column, "cell": place.cell},
        "lines": finding.lines or [place.line],
        "edits": [{"start": e.start, "end": e.end, "text": e.text} for e in finding.edits],
        "fix_is_safe": finding.fix_is_safe,
        "cost": None if finding.cost is None else {"text": finding.cost.text, "bytes": finding.cost.bytes, "source": finding.cost.source},
        "joined": finding.joined,
    }


def as_json(report: Report) -> dict[str, Any]:
    return {
        "schema": "lint/1", "version": __version__, "files": report.files, "skipped": report.skipped, "lines": report.lines,
        "suppressed": report.suppressed, "off": report.off, "unsure": report.unsure, "in_baseline": report.in_baseline,
        "findings": [finding_json(f) for f in report.findings],
        "errors": [{"file": f, "line": line or None, "message": why} for f, line, why in report.errors],
        "recordings": [{k: v for k, v in r.items() if k != "notes"} | {"notes": r["notes"]} for r in report.recordings],
        "notes": report.notes,
    }


# ---- SARIF 2.1.0 ----

def fingerprint(finding: Finding, seen: Counter[str]) -> str:
    """Of a line's text without blanks, so that it stays when lines move; equal lines are numbered."""
    text = "".join(finding.line_text.split())
    key = hashlib.sha256(f"{finding.id}\0{finding.place.file}\0{text}".encode()).hexdigest()[:16]
    seen[key] += 1
    return f"{key}:{seen[key]}"


def _from_root(path: str) -> str:
    """A path as code scanning and annotations want it: from the repository's root (GITHUB_WORKSPACE, or where this runs)."""
    root = os.environ.get("GITHUB_WORKSPACE") or os.getcwd()
    inside = os.path.relpath(os.path.abspath(path), root)
    return path if inside.startswith("..") else inside


def _artifact(path: str) -> dict[str, str]:
    from urllib.parse import quote

    path = _from_root(path)
    uri = quote(path.replace(os.sep, "/"))
    return {"uri": "file://" + uri} if os.path.isabs(path) else {"uri": uri, "uriBaseId": "%SRCROOT%"}


def _sarif_rule(rule_id: str) -> dict[str, Any]:
    rule = BY_ID[rule_id]
    markdown = f"{rule.cause}\n\n```python\n{rule.bad}```\n\nInstead:\n\n```python\n{rule.good}```\n"
    return {
        "id": rule.id, "name": "".join(w.capitalize() for w in rule.name.split("-")), "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.cause}, "help": {"text": rule.cause, "markdown": markdown},
        "defaultConfiguration": {"level": _SARIF_LEVEL[rule.severity], "enabled": rule.default},
        "properties": {"tags": ["pytorch", "gpu-memory"], "precision": "high",
                       "problem.severity": {"error": "error", "warning": "warning", "info": "recommendation"}[rule.severity]},
    }


def _in_cell(finding: Finding) -> str:
    """Where a finding stands, for formats that know files and lines only."""
    return f"cell {finding.place.cell}, line {finding.place.line}: " if finding.place.cell is not None else ""


def _region(finding: Finding) -> dict[str, Any]:
    place = finding.place
    if place.cell is not None:  # lines count in the cell, not in the file
        return {"startLine": 1}
    return {"startLine": place.line, "startColumn": place.column, "endLine": place.end_line, "endColumn": place.end_column}


def as_sarif(report: Report) -> dict[str, Any]:
    index = {rule.id: i for i, rule in enumerate(RULES)}
    seen: Counter[str] = Counter()
    results = []
    for finding in report.findings:
        message = _in_cell(finding) + finding.title + ("" if not finding.evidence else " (" + "; ".join(finding.evidence) + ")")
        results.append({
            "ruleId": finding.id, "ruleIndex": index[finding.id], "level": _SARIF_LEVEL[finding.severity], "rank": 100 * finding.confidence,
            "message": {"text": message},
            "locations": [{"physicalLocation": {"artifactLocation": _artifact(finding.place.file), "region": _region(finding)}}],
            "partialFingerprints": {"primaryLocationLineHash": fingerprint(finding, seen)},
        })
    notes = [{"level": "error", "message": {"text": why}, "locations": [{"physicalLocation": {
        "artifactLocation": _artifact(path), **({"region": {"startLine": line}} if line else {})}}]}
        for path, line, why in report.errors]
    return {
        "$schema": _SARIF_SCHEMA, "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {"name": "plimsoll lint", "semanticVersion": __version__, "rules": [_sarif_rule(r.id) for r in RULES]}},
            "columnKind": "unicodeCodePoints", "results": results,
            "invocations": [{"executionSuccessful": not report.errors, "toolExecutionNotifications": notes}],
        }],
    }


# ---- GitHub ----

def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def as_github(report: Report) -> str:
    level = {"error": "error", "warning": "warning", "info": "notice"}
    lines = []
    for group in folded(sorted(report.findings, key=lambda f: (SEVERITIES.index(f.severity), f.order()))):
        finding = group[0]
        place = finding.place
        where = "line=1" if place.cell is not None else f"line={place.line},col={place.column},endLine={place.end_line},endColumn={place.end_column}"
        lines.append(f"::{level[finding.severity]} file={_property(_from_root(place.file))},{where},title={finding.id} {BY_ID[finding.id].name}::"
                     f"{_data(_in_cell(finding) + finding.title if len(group) == 1 else f'{len(group)} of little weight: {_spots(group)}')}")
    lines += [f"::error file={_property(_from_root(file))},line={line or 1},title=plimsoll lint::{_data(why)}" for file, line, why in report.errors]
    return "".join(line + "\n" for line in lines)


# ---- rules ----

def explain(rule_id: str, width: int = 80) -> str:
    """A rule's page: cause, cost as measured, examples, where the claim is checked."""
    rule = BY_ID[rule_id]

    def fold(text: str) -> str:
        return textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)

    def block(text: str) -> str:
        return "".join(f"    {line}\n" for line in text.rstrip().split("\n"))

    fix = {"safe": "--fix fixes it", "unsafe": "--fix --unsafe-fixes fixes it", "none": "no automatic fix"}[rule.fix]
    parts = [fold(f"{rule.id} {rule.name}: {rule.severity}, {fix}" + ("" if rule.default else f"; off by default ({rule.off_because})")),
             fold(rule.title + "."), fold(rule.cause)]
    if rule.cost:
        parts.append(fold(f"Cost: {rule.cost} ({rule.source})."))
    elif rule.source:
        parts.append(fold(f"Source: {rule.source}."))
    if rule.claim:
        parts.append(fold(f"The claim, checked, in docs/claims.md: \"{rule.claim} ...\""))
    parts.append("Found:\n" + block(rule.bad))
    parts.append("Not found:\n" + block(rule.good))
    if rule.not_told:
        parts.append(fold(f"Not reported: {rule.not_told}."))
    parts.append(f"Silence one line with: # noqa: {rule.id}")
    return "\n\n".join(p.rstrip("\n") for p in parts) + "\n"


def list_rules() -> str:
    rows = [f"{r.id}  {r.severity:<7}  {r.fix:<6}  {'on ' if r.default else 'off'}  {r.name}" for r in RULES]
    return "\n".join(rows) + "\n"
