"""What works here and what does not: one paste for a ticket."""
from __future__ import annotations

import os
import platform
import sys
from dataclasses import dataclass
from typing import Any

from . import __version__
from .errors import PlimsollError

# Peers by their module: imported only if the process already has them, else their version is read from metadata.
PEERS = ("torch", "transformers", "accelerate", "lightning", "safetensors", "numpy", "gradio", "IPython")


@dataclass(frozen=True)
class Check:
    """One row: what was looked at, how it stands ("ok", "no", "note"), and what is to be done."""

    what: str
    state: str
    says: str


@dataclass(frozen=True)
class Doctor:
    """All rows; prints as a table."""

    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        return all(check.state != "no" for check in self.checks)

    def __str__(self) -> str:
        wide = max(len(check.what) for check in self.checks)
        return "\n".join(f"{check.state:4} {check.what:{wide}}  {check.says}" for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        return {"ok": self.ok, "checks": [vars(check) for check in self.checks]}


def doctor(*, redact: bool = False) -> Doctor:
    """Look around; imports nothing that is not there, starts no CUDA, writes nothing.

    redact: no path of this machine.
    """
    rows = [Check("plimsoll", "ok", f"{__version__}, Python {platform.python_version()}, {platform.system()} "
                                    f"{platform.machine()}")]
    for look in (library, program, *(peer(name) for name in PEERS), cuda, history, host, gauge):
        try:
            row = look()
        except PlimsollError as why:
            row = Check(look.__name__, "no", str(why))
        if row is not None:
            rows.append(row)
    if redact:
        home = os.path.expanduser("~")
        rows = [Check(r.what, r.state, r.says.replace(home, "~").replace(sys.prefix, "<prefix>")) for r in rows]
    return Doctor(tuple(rows))


def library() -> Check:
    from . import _native

    return Check("library", "ok", str(_native.load()._name))


def program() -> Check:
    from .__main__ import program as find

    path = find()
    return Check("program", "ok", path) if path else Check("program", "no", "not on the PATH; pip install . puts it there")


def peer(name: str) -> Any:
    def look() -> Check:
        from importlib import metadata

        try:
            return Check(name, "ok", metadata.version(name))
        except metadata.PackageNotFoundError:
            return Check(name, "note", "not installed; only what needs it does not work")

    return look


def cuda() -> Check:
    torch = sys.modules.get("torch")
    if torch is None:
        return Check("CUDA", "note", "torch is not imported in this process")
    if not torch.cuda.is_available():
        return Check("CUDA", "note", "this PyTorch sees no GPU")
    state = "in use" if torch.cuda.is_initialized() else "not used yet"
    return Check("CUDA", "ok", f"{torch.cuda.device_count()} device(s), {torch.version.cuda}, {state}")


def history() -> Check | None:
    """Can this PyTorch record memory history?"""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    if not hasattr(torch.cuda.memory, "_record_memory_history"):
        return Check("memory history", "no", "this PyTorch is older than 2.0")
    backend = getattr(torch.cuda, "get_allocator_backend", lambda: "native")() if torch.cuda.is_available() else "native"
    if backend != "native":
        return Check("memory history", "no", f"the allocator is {backend}: it records nothing")
    return Check("memory history", "ok", "can be recorded")


def host() -> Check:
    from .verbs import here

    room = here().headroom
    if room is None or room.room_bytes is None:
        return Check("host memory", "note", "no bound is seen")
    return Check("host memory", "ok", f"{room.room_bytes / 2**30:.1f} GiB until {room.where}: {room.effect}")


def gauge() -> Check:
    shm = "/dev/shm"
    if os.path.isdir(shm) and os.access(shm, os.W_OK):
        return Check("gauge", "ok", f"{shm} can be written")
    return Check("gauge", "note", f"{shm} cannot be written: plimsoll watch sees this process from outside only")
