"""Whether a curve is flat: the slope of Theil and Sen, which outliers do not move, with an interval.

The interval is that of Sen (1968), from the variance of Kendall's S with ties, at 95 %. Samples of a process resemble
the ones before them, so the variance is widened by the autocorrelation of what the line leaves over, as for a series
with fewer independent samples.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations, pairwise
from math import inf, sqrt
from statistics import median

_Z = 1.96
# Half of a curve with fewer says nothing.
SAMPLES_MIN = 10
_DAY_H = 24.0
_RESEMBLANCE_MAX = 0.9


class Verdict(StrEnum):
    """What a curve does."""

    FLAT = "flat"
    LEVELS_OFF = "levels off"
    UNPROVED = "not proved"
    GROWS = "grows"


@dataclass(frozen=True, slots=True)
class Slope:
    """How much a figure changes in an hour, with the ends of its interval."""

    per_h: float
    low_per_h: float
    high_per_h: float


def slope_of(times_h: Sequence[float], values: Sequence[float]) -> Slope:
    """Return the slope of values at increasing times; raises ``ValueError`` for fewer than two."""
    points = list(zip(times_h, values, strict=True))
    if len(points) < 2:
        raise ValueError("a slope needs two samples or more")
    slopes = sorted((after[1] - before[1]) / (after[0] - before[0]) for before, after in combinations(points, 2))
    per_h = median(slopes)
    resemblance = _resemblance([value - per_h * at_h for at_h, value in points])
    margin = _Z * sqrt(_variance(values) * (1 + resemblance) / (1 - resemblance))
    low, high = round((len(slopes) - margin) / 2) - 1, round((len(slopes) + margin) / 2)
    return Slope(
        per_h,
        min(per_h, slopes[low]) if low >= 0 or not margin else -inf,
        max(per_h, slopes[high]) if high < len(slopes) or not margin else inf,
    )


def verdict_of(times_h: Sequence[float], values: Sequence[float], bound: float) -> tuple[Verdict, Slope]:
    """Return what a curve does, and its slope; ``bound`` is what it may gain in a day.

    It is flat if the upper end of the interval stays within the bound, and levels off if that is so for its second
    half. Otherwise it grows if the lower end is above 0 and the slope itself exceeds the bound; and else nothing is
    proved. Nothing is proved either if the slope is 0 because most values are equal, but the last fifth is above the
    first, as after one step: it may be the first of many.
    """
    slope = slope_of(times_h, values)
    bound_per_h = bound / _DAY_H
    half = len(values) // 2
    if half < SAMPLES_MIN:
        return Verdict.UNPROVED, slope
    if _hides_step(slope, values):
        return Verdict.UNPROVED, slope
    if slope.high_per_h <= bound_per_h:
        return Verdict.FLAT, slope
    if slope_of(times_h[half:], values[half:]).high_per_h <= bound_per_h:
        return Verdict.LEVELS_OFF, slope
    grows = slope.low_per_h > 0 and slope.per_h > bound_per_h
    return Verdict.GROWS if grows else Verdict.UNPROVED, slope


def _hides_step(slope: Slope, values: Sequence[float]) -> bool:
    fifth = len(values) // 5
    return slope.low_per_h == slope.high_per_h == 0 and median(values[-fifth:]) > median(values[:fifth])


def _variance(values: Sequence[float]) -> float:
    """Return the variance of Kendall's S if there were no trend; equal values are ties, which say nothing."""
    ties = Counter(values).values()
    return float(_terms(len(values)) - sum(map(_terms, ties))) / 18


def _terms(number: int) -> int:
    return number * (number - 1) * (2 * number + 5)


def _resemblance(rest: Sequence[float]) -> float:
    """Return the autocorrelation of values with those before them, from 0 to a limit."""
    mean = sum(rest) / len(rest)
    whole = sum((each - mean) ** 2 for each in rest)
    if not whole:
        return 0.0
    beside = sum((before - mean) * (after - mean) for before, after in pairwise(rest))
    return min(max(0.0, beside / whole), _RESEMBLANCE_MAX)
