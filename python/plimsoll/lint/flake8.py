"""The flake8 plugin: codes PLM101 and so on.  flake8 itself applies `# noqa` and selects by prefix.

Entry point: group `flake8.extension`, name `PLM`, value `plimsoll.lint.flake8:Plugin`.
"""
from __future__ import annotations

import ast
from typing import Any, Iterator

from . import __version__
from .engine import Settings, lint_text
from .source import Unreadable


class Plugin:
    name = "plimsoll-lint"
    version = __version__
    settings = Settings()

    def __init__(self, tree: ast.AST, filename: str, lines: list[str]) -> None:
        self.filename = filename
        self.lines = lines

    @staticmethod
    def add_options(parser: Any) -> None:
        parser.add_option("--plimsoll-select", default="", parse_from_config=True, comma_separated_list=True,
                          help="PLM rules that are off by default, by prefix")

    @classmethod
    def parse_options(cls, options: Any) -> None:
        cls.settings = Settings(extend_select=tuple(s.strip() for s in options.plimsoll_select if s.strip()))

    def run(self) -> Iterator[tuple[int, int, str, type["Plugin"]]]:
        try:
            result = lint_text(self.filename, "".join(self.lines), self.settings)
        except Unreadable:
            return  # flake8 has its own word for it
        for finding in result.findings:
            yield finding.place.line, finding.place.column - 1, f"{finding.id} {finding.title}", type(self)
