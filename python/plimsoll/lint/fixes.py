"""Edits: choose those that may be made, make them, show them as a diff, write them whole or not at all."""
from __future__ import annotations

import ast
import difflib
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from .engine import Settings, lint_text
from .finding import Edit, Finding

ROUNDS = 5  #: a fix may uncover another finding; five are more than was ever needed


@dataclass(slots=True)
class Fixed:
    path: str
    before: str
    after: str
    made: list[Finding] = field(default_factory=list)

    @property
    def diff(self) -> str:
        a, b = ("", "") if os.path.isabs(self.path) else ("a/", "b/")
        lines = difflib.unified_diff(self.before.splitlines(keepends=True), self.after.splitlines(keepends=True), a + self.path, b + self.path)
        return "".join(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines)


def apply(text: str, edits: list[Edit]) -> str:
    for edit in sorted(edits, key=lambda e: (e.start, e.end), reverse=True):
        text = text[:edit.start] + edit.text + text[edit.end:]
    return text


def choose(findings: list[Finding], unsafe: bool) -> list[Finding]:
    """Findings whose edits may be made together: safe ones (or all), of which no two touch."""
    chosen: list[Finding] = []
    taken: list[Edit] = []
    for finding in findings:
        if not finding.edits or not (finding.fix_is_safe or unsafe) or finding.place.cell is not None:
            continue
        if all(e.end <= t.start or e.start >= t.end for e in finding.edits for t in taken) and all(
                (e.start, e.end) != (t.start, t.end) for e in finding.edits for t in taken):
            chosen.append(finding)
            taken += finding.edits
    return chosen


def fix(path: str, text: str, findings: list[Finding], settings: Settings, unsafe: bool) -> Fixed:
    """All that can be fixed in one file.  The result parses, or that round is not made."""
    fixed = Fixed(path, text, text)
    for _ in range(ROUNDS):
        chosen = choose(findings, unsafe)
        if not chosen:
            break
        after = apply(fixed.after, [e for f in chosen for e in f.edits])
        try:
            ast.parse(after)
        except SyntaxError:
            break
        fixed.after = after
        fixed.made += chosen
        findings = lint_text(path, after, settings).findings
    return fixed


def write(path: str, text: str) -> None:
    """Replace a file: a new one next to it with the same mode, fsync, rename.  Line ends stay as they were."""
    target = Path(os.path.realpath(path))
    old = target.read_bytes()
    newline = "\r\n" if b"\r\n" in old else "\n"
    bom = old[:3] if old.startswith(b"\xef\xbb\xbf") else b""
    descriptor, name = tempfile.mkstemp(prefix=target.name + ".", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(bom + text.replace("\n", newline).encode())
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, target.stat().st_mode & 0o7777)
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise
