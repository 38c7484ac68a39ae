#!/usr/bin/env python3
"""Prints docs/lint.md: its text from docs/lint.md.in, its rules from the linter's catalogue."""
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "python"))
from plimsoll.lint.catalogue import RULES  # noqa: E402

FIX = {"safe": "`--fix`", "unsafe": "`--unsafe-fixes`", "none": ""}


def table() -> str:
    rows = ["| rule | severity | what | fix |", "|---|---|---|---|"]
    for rule in RULES:
        off = "" if rule.default else ", off"
        rows.append(f"| [{rule.id}](#{rule.id.lower()}-{rule.name}) | {rule.severity}{off} | {rule.title} | {FIX[rule.fix]} |")
    return "\n".join(rows)


def page(rule) -> str:
    parts = [f"### {rule.id} {rule.name}", f"*{rule.severity}.* {rule.title}. {rule.cause}"]
    if not rule.default:
        parts.append(f"Off by default: {rule.off_because}. Ask for it with `--extend-select {rule.id}`.")
    if rule.cost:
        parts.append(f"Cost: {rule.cost} ({rule.source}).")
    elif rule.source:
        parts.append(f"Source: {rule.source}.")
    if rule.claim:
        parts.append(f"Checked: \"{rule.claim} ...\" ([claims](claims.md)).")
    parts.append(f"```python\n{rule.bad.rstrip()}\n```")
    parts.append(f"Instead:\n\n```python\n{rule.good.rstrip()}\n```")
    if rule.not_told:
        parts.append(f"Not reported: {rule.not_told}.")
    return "\n\n".join(parts)


text = (ROOT / "docs/lint.md.in").read_text()
text = text.replace("@TABLE@", table()).replace("@RULES@", "\n\n".join(page(r) for r in RULES))
sys.stdout.write(text)
