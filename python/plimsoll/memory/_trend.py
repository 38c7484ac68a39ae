"""Does a series climb for good?  Floors of blocks, Theil and Sen's slope, Sen's interval by Kendall's variance."""
from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import Sequence

BLOCKS = 24  # floors of so many parts: what comes and goes within one vanishes
LEAST = 12  # readings
RISES = 4  # of the floor


@dataclass(frozen=True)
class Trend:
    """A slope a unit of x with a 95 % interval, and the x from which on it was looked at."""

    slope: float
    low: float
    high: float
    since: int
    steps: int


def floors(points: Sequence[tuple[int, int]], blocks: int) -> list[tuple[float, float]]:
    """The middle and the least of each part of the points."""
    size = len(points) / blocks
    parts = [points[round(i * size):round((i + 1) * size)] for i in range(blocks)]
    return [(statistics.fmean(x for x, _ in part), min(y for _, y in part)) for part in parts if part]


def trend(points: Sequence[tuple[int, int]]) -> Trend | None:
    """None: it does not climb, or it stops climbing.

    Rules (constants are ours): the first quarter is warm-up; the floor rises at least 4 times, the last one in the last
    quarter; the later half climbs at more than half of the rate of the earlier one; the interval lies above zero.
    """
    if len(points) < LEAST:
        return None
    kept = points[len(points) // 4:]
    told = floors(kept, min(BLOCKS, len(kept)))
    rises = [i for i in range(1, len(told)) if told[i][1] > told[i - 1][1]]
    if len(rises) < RISES or rises[-1] < len(told) * 3 // 4:
        return None
    slope, low, high = theil_sen(told)
    half = len(told) // 2
    if low <= 0 or theil_sen(told[half:])[0] <= 0.5 * theil_sen(told[:half])[0]:
        return None
    return Trend(slope, low, high, kept[0][0], len(kept))


def theil_sen(points: Sequence[tuple[float, float]]) -> tuple[float, float, float]:
    """The median of all slopes, and Sen's (1968) 95 % interval."""
    slopes = sorted((b[1] - a[1]) / (b[0] - a[0]) for i, a in enumerate(points) for b in points[i + 1:])
    n = len(points)
    spread = 1.96 * math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    lower = max(0, round((len(slopes) - spread) / 2))
    upper = min(len(slopes) - 1, round((len(slopes) + spread) / 2))
    return statistics.median(slopes), slopes[lower], slopes[upper]
