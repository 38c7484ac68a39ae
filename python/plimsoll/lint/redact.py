"""A report without names: for a ticket that everybody can read."""
from __future__ import annotations

import os
from dataclasses import replace

from .catalogue import BY_ID
from .finding import Finding
from .join import size
from .output import Report

KEPT = "redacted; kept are rules, severities, sizes, and numbers of lines, columns and cells"


class _Names:
    """"file2.py" for the second file; what is left of its name is what kind of file it is."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def of(self, path: str) -> str:
        number = self._numbers.setdefault(path, len(self._numbers) + 1)
        kind = os.path.splitext(path)[1]
        return f"file{number}{kind if kind in ('.py', '.ipynb') else ''}"


def _finding(finding: Finding, names: _Names) -> Finding:
    """Its rule's own words: a title, evidence, fix and edits of its own quote the source."""
    rule, cost = BY_ID[finding.id], finding.cost
    title = rule.title
    if finding.joined:
        # what a recording's JSON calls a period, or a finding, may be anybody's words
        measured = f"{size(cost.bytes)} measured" if cost is not None and cost.bytes else "measured"
        title = f"{measured}: {title}"
        cost = None if cost is None else replace(cost, text=measured, source="a recording")
    return replace(finding, title=title, place=replace(finding.place, file=names.of(finding.place.file)), evidence=[],
                   fix=[f"plimsoll lint --explain {finding.id}"], edits=[], cost=cost, line_text="")


def redacted(report: Report) -> Report:
    """The same findings without names of files and of the program, and without its lines."""
    names = _Names()
    return replace(
        report, findings=[_finding(f, names) for f in report.findings],
        errors=[(names.of(file), line, "cannot be read or parsed") for file, line, _ in report.errors],
        recordings=[{**r, "path": f"{r['kind']}{i}", "notes": []} for i, r in enumerate(report.recordings, 1)], notes=[*report.notes, KEPT])
