"""PLIMSOLL_RECORD=FOLDER in the environment of a job: a recording of GPU memory if it runs out, nothing otherwise.

Imported by plimsoll.pth as Python starts, only if the variable is set.  Whatever goes wrong is one line on stderr: the job
goes on.  Nothing is done under `plimsoll record`, which has a recorder of its own.
"""
from __future__ import annotations

import importlib.util
import os
import sys
from types import ModuleType

_HERE = os.path.dirname(os.path.abspath(__file__))
#: The recorder: installed with the package, or of the checkout.
_PAYLOADS = (os.path.join(_HERE, "_record_payload.py"),
             os.path.join(_HERE, "..", "..", "runtime", "recorder", "plimsoll_record.py"))


def _is_recorded() -> bool:
    return any(os.path.isdir(os.path.join(folder, "plimsoll_in_job"))
               for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder)


def _recorder() -> ModuleType:
    path = next(p for p in _PAYLOADS if os.path.isfile(p))
    spec = importlib.util.spec_from_file_location("plimsoll._record_payload", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot import {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def start(folder: str) -> None:
    """Record at deaths into the folder, which is made."""
    try:
        os.makedirs(folder, exist_ok=True)
        # what the recorder needs of the package, under the name that it has in a folder of its own
        sys.modules.setdefault("plimsoll_in_job", sys.modules["plimsoll"])
        _recorder().main(os.path.abspath(folder))
    except Exception as error:
        sys.stderr.write(f"plimsoll: PLIMSOLL_RECORD={folder}: cannot record: {error}\n")


if os.environ.get("PLIMSOLL_RECORD") and not _is_recorded():
    start(os.environ["PLIMSOLL_RECORD"])
