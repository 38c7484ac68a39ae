"""From a file to findings: read, analyse, run the rules, settle severities, drop what is silenced or reported by another rule."""
from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field

from .catalogue import BY_ID
from .context import CHECKS, HIGH, MEDIUM, Context
from .finding import Finding
from .files import Files
from .program import ROOTS, analyse, uses_torch
from .source import Source, Unreadable, parse, read
from . import rules as _rules

FRAMES = 6000  #: Python frames: functions are analysed inside functions (program.CHAIN), each some levels deep


@dataclass(slots=True)
class Settings:
    select: tuple[str, ...] = ()  #: prefixes; empty: the default rules
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    confidence: float = MEDIUM
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    show_suppressed: bool = False

    def wants(self, rule: str, severity: str = "info") -> bool:
        """Is a finding of the rule shown?  Of a rule that is off by default, only what is heavier than an info."""
        if rule.startswith(self.ignore) and self.ignore:
            return False
        if self.extend_select and rule.startswith(self.extend_select):
            return True
        return rule.startswith(self.select) if self.select else BY_ID[rule].default or severity != "info"


@dataclass(slots=True)
class Result:
    path: str
    findings: list[Finding] = field(default_factory=list)
    suppressed: int = 0
    off: int = 0  #: findings of rules that are off by default
    unsure: int = 0  #: findings below the confidence that was asked for
    lines: int = 0
    source: Source | None = None
    skipped: bool = False  #: no word of PyTorch in it: no rule has anything to say
    error: str = ""  #: why the file was not linted
    error_line: int = 0


def lint_data(path: str, data: bytes, settings: Settings | None = None, *, named: bool = False, files: Files | None = None) -> Result:
    """Lint the bytes of one file.  A file that cannot be read or parsed gives a Result with `error`.

    A file without a word of PyTorch is not parsed, unless it was asked for by its name (`named`), or another file gives it a module."""
    settings = settings or Settings()
    given = _given_a_module(path, files)
    skipped = not given and not any(word.encode() in data for word in ROOTS)
    if skipped and not named:
        return Result(path, lines=data.count(b"\n"), skipped=True)
    try:
        source = read(path, data)
    except Unreadable as why:
        return Result(path, error=str(why), error_line=why.line)
    result = lint_parsed(source, settings, files)
    result.skipped = skipped
    return result


def lint_text(path: str, text: str, settings: Settings | None = None) -> Result:
    """Lint Python source text; raises source.Unreadable."""
    return lint_parsed(parse(path, text), settings or Settings())


def lint_parsed(source: Source, settings: Settings, files: Files | None = None) -> Result:
    result = Result(source.path, lines=len(source.lines), source=source, error=source.left_out)
    given = _given_a_module(source.path, files)
    if source.off or not given and not uses_torch(source.text):
        return result
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, FRAMES))
    try:
        context = Context(analyse(source, files))
        if not given and not context.program.symbols.torch:
            return result  # the word stands in a comment, or in a text
        for ids, check in CHECKS:
            if not settings.select or any(settings.wants(rule) for rule in ids):  # without a choice, to count what is off
                check(context)
    except RecursionError:
        result.error = "nested too deeply: not analysed"
        return result
    finally:
        sys.setrecursionlimit(limit)
    if source.left_out:
        for finding in context.findings:  # what would make it right may stand in a cell that was not read
            finding.confidence = min(finding.confidence, MEDIUM)
    for finding in _settled(context.findings):
        wanted = settings.wants(finding.id, finding.severity)
        if not wanted and (settings.select or finding.id.startswith(settings.ignore)) or _ignored(settings, finding):
            continue  # by the user's own choice
        line, last = _lines(source, finding)
        silenced, unsure = source.silenced(finding.id, line, last), finding.confidence < settings.confidence
        if silenced or unsure or not wanted:
            result.suppressed += silenced and wanted and not unsure
            result.unsure += unsure and not silenced
            result.off += not wanted and not silenced and not unsure
            continue
        result.findings.append(finding)
    result.findings.sort(key=Finding.order)
    return result


def _given_a_module(path: str, files: Files | None) -> bool:
    return files is not None and os.path.abspath(path) in files.again


def _lines(source: Source, finding: Finding) -> tuple[int, int]:
    """First and last line in the text that was parsed (a notebook's cells are joined there)."""
    if finding.place.cell is None:
        return finding.place.line, finding.place.end_line
    first = next(f for f, c in source.cells if c == finding.place.cell)
    return finding.place.line + first - 1, finding.place.end_line + first - 1


def _ignored(settings: Settings, finding: Finding) -> bool:
    from fnmatch import fnmatch

    return any(fnmatch(finding.place.file, pattern) and finding.id.startswith(codes) for pattern, codes in settings.per_file_ignores)


_SUBSUMED = {"PLM105": ("PLM104",), "PLM102": ("PLM101", "PLM103"), "PLM116": ("PLM801",)}


def _settled(findings: list[Finding]) -> list[Finding]:
    """Severities and costs from the catalogue; one finding a place and rule; what another rule says better is dropped.

    An error needs high confidence: with less it is a warning."""
    seen: set[tuple[str, int, int]] = set()
    kept: list[Finding] = []
    for finding in findings:
        rule = BY_ID[finding.id]
        key = (finding.id, finding.place.line, finding.place.cell or 0)
        if key in seen:
            continue
        seen.add(key)
        finding.severity = finding.severity or rule.severity
        if finding.severity == "error" and finding.confidence < HIGH:
            finding.severity = "warning"
        finding.cost = rule.costs()
        if rule.fix == "none":
            finding.edits = []
        finding.fix_is_safe = bool(finding.edits) and rule.fix == "safe" and finding.fix_is_safe
        kept.append(finding)
    places = {(f.id, f.place.line) for f in kept}
    return [f for f in kept if not any((better, f.place.line) in places for better in _SUBSUMED.get(f.id, ()))]
