"""The list of sources in a recording: what `plimsoll lint --recording` needs to join it to the files that ran, and to no others;
and of which rank, stage and group the process is, by which `plimsoll report` names the recordings of a job.

runtime/recorder/plimsoll_record.py, which stands alone in the recorded process, writes the same (tests/test_memory.py compares them).
"""
from __future__ import annotations

import hashlib
import json
import os
from typing import Any, Iterable

from .._job import job

FILES_MAX = 500
BYTES_MAX = 4 << 20  #: of one file


def sources(names: Iterable[str], born: float) -> str:
    """Size, time and sha256, as JSON (plimsoll-sources/1), of the program's own files among those that have frames.

    born: when the run began, in seconds since 1970; a file that changed since may not be what ran, and is marked.
    """
    files: dict[str, Any] = {}
    for name in sorted(set(names)):
        if not name.endswith(".py") or "-packages" in name or len(files) >= FILES_MAX:
            continue
        try:
            state = os.stat(name)
            if state.st_size > BYTES_MAX:
                continue
            with open(name, "rb") as f:
                digest = hashlib.sha256(f.read()).hexdigest()
        except OSError:
            continue
        files[name] = {"bytes": state.st_size, "mtime": int(state.st_mtime), "sha256": digest, "edited": state.st_mtime > born}
    return json.dumps({"schema": "plimsoll-sources/1", "job": job(), "files": files})
