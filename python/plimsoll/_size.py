"""Sizes as people write them, and as the options of the program take them: 24 GiB, 1.5G, 300 MB, 10%."""
from __future__ import annotations

import re

from .errors import ArgumentError

UNITS = {"": 1, "B": 1, **{name + unit: 1024 ** (i + 1) for i, name in enumerate("KMGT") for unit in ("IB", "")},
         **{name + "B": 1000 ** (i + 1) for i, name in enumerate("KMGT")}}


def bytes_of(value: int | str, what: str) -> int:
    """Bytes, more than 0.  what: the argument's name, for the error."""
    if isinstance(value, str):
        read = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]*)", value.strip())
        if read is None or read[2].upper() not in UNITS:
            raise ArgumentError(f"{what} is a size as '24 GiB', '300 MB' or a number of bytes, not '{value}'")
        value = int(float(read[1]) * UNITS[read[2].upper()])
    if value <= 0:
        raise ArgumentError(f"{what} is more than 0, not {value}")
    return value


def bytes_or_percent(value: int | str, what: str) -> tuple[int, int]:
    """(bytes, percent): one of them is 0."""
    if not isinstance(value, str) or not value.strip().endswith("%"):
        return bytes_of(value, what), 0
    number = value.strip()[:-1].strip()
    if not number.isdigit() or not 0 < int(number) <= 100:
        raise ArgumentError(f"{what} in percent is a whole number of 1 to 100, not '{value}'")
    return 0, int(number)
