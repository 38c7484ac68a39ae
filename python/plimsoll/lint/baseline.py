"""What a code base already has: a file of known findings, and the lines that changed since a commit."""
from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from pathlib import Path

from .finding import Finding
from .output import fingerprint


class Unusable(Exception):
    """One line: the file or the commit cannot be used."""


def write(path: str, findings: list[Finding]) -> None:
    seen: Counter[str] = Counter()
    known = sorted({f"{f.place.file}:{f.id}:{fingerprint(f, seen)}" for f in findings})
    Path(path).write_text(json.dumps({"schema": "lint-baseline/1", "findings": known}, indent=1) + "\n", encoding="utf-8")


def read(path: str) -> frozenset[str]:
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
        if data["schema"] != "lint-baseline/1":
            raise Unusable(f"{path}: schema {data['schema']!r} is not a lint-baseline/1")
        return frozenset(str(f) for f in data["findings"])
    except OSError as why:
        raise Unusable(f"{path}: cannot be read: {why.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise Unusable(f"{path}: no baseline (write one with --write-baseline)") from None


def new(findings: list[Finding], known: frozenset[str]) -> list[Finding]:
    """Findings that the baseline does not have.  They are known by their line's text, so lines may move."""
    seen: Counter[str] = Counter()
    return [f for f in findings if f"{f.place.file}:{f.id}:{fingerprint(f, seen)}" not in known]


def changed(reference: str) -> dict[str, set[int] | None]:
    """Lines that differ from a commit, by file; None: a file that git does not know.  Of the working tree, in its repository."""
    def known(name: str) -> bool:
        return not subprocess.run(["git", "rev-parse", "--verify", "--quiet", name + "^{commit}"], capture_output=True, check=False).returncode

    def git(*arguments: str) -> str:
        try:
            done = subprocess.run(["git", *arguments], capture_output=True, text=True, errors="replace", check=False)
        except OSError as why:
            raise Unusable(f"--diff needs git: {why.strerror}") from None
        if done.returncode:
            raise Unusable(f"--diff: git {next(a for a in arguments if a[0] != '-' and '=' not in a)}: {done.stderr.strip().splitlines()[0] if done.stderr.strip() else 'failed'}")
        return done.stdout

    top = git("rev-parse", "--show-toplevel").strip()
    if reference.startswith("-") or not reference or not known(reference):
        shallow = git("rev-parse", "--is-shallow-repository").strip() == "true"
        raise Unusable(f"--diff: '{reference}' is not a commit here" + (
            "; this clone is shallow: git fetch --unshallow, or git fetch --depth=1 origin BRANCH and --diff FETCH_HEAD" if shallow else ""))
    found: dict[str, set[int] | None] = {}
    file = ""
    for line in git("-c", "core.quotePath=false", "diff", "--unified=0", "--no-color", "--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/",
                    reference, "--").split("\n"):
        if line.startswith(("+++ ", '+++ "')):
            name = line[4:].rstrip("\t").strip('"')
            file = str(Path(top, name[2:])) if name.startswith("b/") else ""
            if file:
                found[file] = set()
        elif line.startswith("@@") and file:
            hunk = re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line)
            lines = found[file]
            if hunk and lines is not None:
                lines |= set(range(int(hunk[1]), int(hunk[1]) + int(hunk[2] if hunk[2] is not None else 1)))
    for name in git("ls-files", "-z", "--others", "--exclude-standard", "--full-name", top).split("\0"):
        if name:
            found[str(Path(top, name))] = None
    return found


def touched(finding: Finding, lines: dict[str, set[int] | None]) -> bool:
    """Does a finding's text meet a changed line?"""
    path = str(Path(finding.place.file).resolve())
    if path not in lines:
        return False
    changed_lines = lines[path]
    return changed_lines is None or finding.place.cell is not None or any(
        n in changed_lines for n in [*range(finding.place.line, finding.place.end_line + 1), *finding.lines])
