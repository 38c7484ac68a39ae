"""`plimsoll lint`: mistakes that cost GPU memory, found in source text before the first run.

Standard library only; files are parsed, never imported or run.

>>> from plimsoll.lint import lint_text
>>> [f.id for f in lint_text("x.py", "import torch\\nmodel = torch.nn.Linear(1, 1)\\nmodel.eval\\n").findings]
['PLM804']
"""
from __future__ import annotations

from ._version import __version__ as __version__
from .engine import Result, Settings, lint_data, lint_text  # noqa: E402
from .finding import Cost, Edit, Finding, Place  # noqa: E402
from .source import Unreadable  # noqa: E402

__all__ = ["Cost", "Edit", "Finding", "Place", "Result", "Settings", "Unreadable", "lint_data", "lint_text"]
