"""Peaks by name in a file, and whether newer ones grew by more than a tolerance: a gate for CI.

The file is JSON (docs/python.md): {"schema": "plimsoll-baseline/1", "fail_over": "2%", "peaks": {NAME: {"device": "cuda",
"peak_bytes": N, "modules": {MODULE: N}}}}.  modules, bytes at the peak, are in those of `plimsoll gate`.  fail_over is written as `plimsoll diff --fail-over` takes it.  Peaks of another kind of device are not
compared: bytes of a GPU say nothing about those of a process.
"""
from __future__ import annotations

import json
import os
import re
import tempfile
from dataclasses import dataclass, field
from typing import Any

from ._size import bytes_of
from .errors import ArgumentError, FormatError, NotFoundError

SCHEMA = "plimsoll-baseline/1"
FAIL_OVER = "2%"


@dataclass(frozen=True)
class FailOver:
    """How much more is allowed: a part of the baseline in millionths, or bytes."""

    text: str
    ppm: int
    bytes: int

    def allows(self, before_bytes: int, now_bytes: int) -> bool:
        return (now_bytes - before_bytes) * 1_000_000 <= max(self.bytes * 1_000_000, before_bytes * self.ppm)


def fail_over(text: str, what: str) -> FailOver:
    """Of "2%", "0.5%", "500 MiB" or "0".  what: the option's or the file's name, for the error."""
    percent = re.fullmatch(r"([0-9]+)(?:\.([0-9]{1,4}))?%", text.strip())
    if percent:
        return FailOver(text, int(percent[1] + (percent[2] or "").ljust(4, "0")), 0)
    if re.fullmatch(r"0+", text.strip()):
        return FailOver(text, 0, 0)
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text.strip()):  # per cent, MiB or bytes?
        raise ArgumentError(f"{what} takes a percentage, or a size with its unit: did you mean '{text.strip()}%'?")
    try:
        return FailOver(text, 0, bytes_of(text, what))
    except ArgumentError:
        raise ArgumentError(f"{what} takes a percentage (2%) or a size with its unit (500MiB), not '{text}'") from None


@dataclass
class Baseline:
    """peaks: by name, the kind of device ("cuda", "host" or "plan L4") and its peak in bytes.  modules: by name, bytes at the peak by module, if they are known."""

    path: str
    fail_over: FailOver = field(default_factory=lambda: fail_over(FAIL_OVER, "fail_over"))
    peaks: dict[str, tuple[str, int]] = field(default_factory=dict)
    modules: dict[str, dict[str, int]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: str) -> Baseline:
        """Raises NotFoundError, FormatError."""
        try:
            with open(path, "rb") as file:
                text = file.read(64 << 20)
        except OSError as why:
            raise NotFoundError(f"the baseline '{path}' cannot be read: {why.strerror}", path=path) from None
        try:
            return cls(path, *_content(json.loads(text)))
        except (ValueError, RecursionError, ArgumentError) as why:
            raise FormatError(f"'{path}' is not a baseline of Plimsoll: {why}", path=path,
                              offset=getattr(why, "pos", None)) from None

    def grown(self, name: str, device: str, peak_bytes: int) -> int | None:
        """By how many bytes more than is allowed was exceeded; None: it was not, or nothing is known of this name here."""
        known = self.peaks.get(name)
        if known is None or known[0] != device or self.fail_over.allows(known[1], peak_bytes):
            return None
        return peak_bytes - known[1]

    def write(self) -> None:
        """Whole or not at all; names are sorted, so that a change is a small difference."""
        peaks: dict[str, dict[str, Any]] = {name: {"device": device, "peak_bytes": peak} for name, (device, peak) in sorted(self.peaks.items())}
        for name in self.modules.keys() & peaks.keys():
            peaks[name]["modules"] = dict(sorted(self.modules[name].items()))
        content = {"schema": SCHEMA, "fail_over": self.fail_over.text, "peaks": peaks}
        folder = os.path.dirname(os.path.abspath(self.path))
        os.makedirs(folder, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=folder, prefix=".baseline-", delete=False) as file:
            json.dump(content, file, indent=1)
            file.write("\n")
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(file.name, 0o666 & ~mask)
        os.replace(file.name, self.path)


def _content(content: Any) -> tuple[FailOver, dict[str, tuple[str, int]], dict[str, dict[str, int]]]:
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise ValueError(f'"schema" is not "{SCHEMA}"')
    peaks = content.get("peaks")
    if not isinstance(peaks, dict):
        raise ValueError('"peaks" is not an object')
    found, modules = {}, {}
    for name, row in peaks.items():
        device, peak = (row.get("device"), row.get("peak_bytes")) if isinstance(row, dict) else (None, None)
        if not isinstance(device, str) or type(peak) is not int or peak < 0:
            raise ValueError(f'"{name}" needs a "device" and "peak_bytes", a number that is not negative')
        found[name] = (device, peak)
        if "modules" in row:
            modules[name] = row["modules"]
            if not isinstance(modules[name], dict) or not all(type(held) is int for held in modules[name].values()):
                raise ValueError(f'"modules" of "{name}" is not an object of whole numbers')
    return fail_over(str(content.get("fail_over", FAIL_OVER)), "fail_over"), found, modules
