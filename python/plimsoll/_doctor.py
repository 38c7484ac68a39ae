"""What works here and what does not: one paste for a ticket.  The C library looks at the machine, this adds Python."""
from __future__ import annotations

import ctypes
import os
import platform
import sys
from dataclasses import dataclass
from typing import Any, Iterable, Literal

from . import __version__, _torch
from ._result import Result, Source
from ._results import DoctorFields
from .errors import PlimsollError

# Peers by their distribution: never imported, their version is read from metadata.
PEERS = ("torch", "transformers", "accelerate", "lightning", "safetensors", "numpy", "gradio", "ipython")
STATES = ("ok", "note", "no")


class Doctor(Result, DoctorFields):
    """All rows (doctor/1): .works, .checks."""

    __slots__ = ()


@dataclass(frozen=True)
class Check:
    """A row of Python's: how it stands, what was looked at, what was seen, what to do."""

    state: Literal["ok", "note", "no"]
    what: str
    says: str
    remedy: str | None = None


def doctor(*, redact: bool = False) -> Doctor:
    """Look around; imports nothing that is not there, starts no CUDA, writes nothing.

    redact: no path of this machine.  Raises UnsupportedError where the C library is missing.

    >>> import plimsoll
    >>> plimsoll.doctor().checks[0].what
    'plimsoll'
    """
    from . import _abi, _native

    library, error, out = _native.load(), _abi.plim_err(), ctypes.c_void_p()
    options = _native.options("doctor", flags=_abi.PLIM_DOCTOR_REDACT if redact else 0)
    _native.check(library.plim_doctor_open(ctypes.byref(options), ctypes.byref(out), ctypes.byref(error)), error)
    assert out.value is not None
    source = Source("doctor", out.value, [])
    for check in [Check("ok", "library", hidden(str(library._name), redact)), program(redact), *python_rows(redact)]:
        row = _abi.plim_doctor_check(what=encode(check.what), state=STATES.index(check.state), says=encode(check.says),
                                     remedy=encode(check.remedy))
        _native.check(library.plim_doctor_add(out, ctypes.byref(row), ctypes.byref(error)), error)
    result: Doctor = Doctor._of(source)
    return result


def encode(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "replace")


def tell(redact: bool) -> None:
    """For the program: what Python sees."""
    show(python_rows(redact))


def show(rows: Iterable[Check]) -> None:
    """A line per row, its parts between tabs."""
    for check in rows:
        parts = (check.state, check.what, check.says, check.remedy or "")
        print("\t".join(" ".join(part.split())[:600] for part in parts))


def python_rows(redact: bool) -> list[Check]:
    rows = [Check("ok", "Python", f"{platform.python_version()}, {hidden(sys.executable, redact)}"),
            Check("ok", "package", f"{__version__}, {hidden(os.path.dirname(os.path.abspath(__file__)), redact)}")]
    rows += [row for row in map(peer, PEERS) if row is not None]
    for look in (cuda, history):
        try:
            row = look()
        except (PlimsollError, RuntimeError) as why:
            row = Check("no", look.__name__, str(why))
        if row is not None:
            rows.append(row)
    return rows


def hidden(path: str, redact: bool) -> str:
    return "..." + os.sep + os.path.basename(path) if redact else path


def program(redact: bool) -> Check:
    from .__main__ import program as find

    path = find()
    if path is None:
        return Check("no", "program", "not on the PATH", "pip install . puts it there")
    return Check("ok", "program", hidden(path, redact))


def peer(name: str) -> Check | None:
    from importlib import metadata

    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return None if name != "torch" else Check("note", name, "not installed; recordings, logs, plans and checkpoints need none")
    if name == "torch":
        release = tuple(int(part) for part in version.split("+")[0].split(".")[:2] if part.isdigit())
        if release < (2, 1):
            return Check("no", name, version, "plimsoll.memory and plimsoll.oom want 2.1 or later")
        if "+cpu" in version:
            return Check("note", name, f"{version}: a build without CUDA, which sees no GPU")
    return Check("ok", name, version)


def cuda() -> Check | None:
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return None
    if not torch.cuda.is_available():
        return Check("note", "CUDA", "this PyTorch sees no GPU")
    state = "in use" if torch.cuda.is_initialized() else "not used yet"
    return Check("ok", "CUDA", f"{torch.cuda.device_count()} device(s), {torch.version.cuda}, {state}")


def history() -> Check | None:
    """Can this PyTorch record memory history?"""
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return None
    if not hasattr(torch.cuda.memory, "_record_memory_history"):
        return Check("no", "memory history", "this PyTorch is older than 2.0", "pip install -U torch")
    if _torch.own is not None:
        return Check("ok", "memory history", "can be recorded, without stacks: plimsoll.allocator is in use")
    backend = getattr(torch.cuda, "get_allocator_backend", lambda: "native")()
    if backend != "native":
        return Check("no", "memory history", f"the allocator is {backend}: it records nothing")
    return Check("ok", "memory history", "can be recorded")
