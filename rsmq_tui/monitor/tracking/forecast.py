"""When a growing queue reaches a limit, from its rates in the last ten minutes.

Method: the counters of the last ten minutes are compared over windows of about a minute, one window every half minute.
Each window has a slope: the change of the depth, or of the age of the first ready message, per second. The band runs
from the first to the ninth decile of the slopes, by nearest rank; so a single burst or pause decides neither end. With
fewer than ``_LEAST_WINDOWS`` windows, or if the median slope is not positive, there is no forecast. Nor is there one
for more than a day ahead: ten minutes do not tell that.

The age grows by a second per second while nothing leaves the queue. Otherwise it grows by 1 - leaving / arriving, as in
a queue whose messages leave in order: its first message is the one that arrived when as many had left as arrived before
it.
"""

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from math import ceil, inf, isnan
from typing import NamedTuple

from rsmq_tui.monitor.text import duration
from rsmq_tui.monitor.tracking.series import QueueSeries

_WINDOW_MS = 60_000
_STEP_MS = 30_000
_LEAST_WINDOWS = 5
# So long does it take until there are that many.
KNOWN_MS = _WINDOW_MS + (_LEAST_WINDOWS - 1) * _STEP_MS
_HORIZON_MS = 86_400_000


class Limit(NamedTuple):
    """The limit that a queue reaches first, ``depth`` or ``age``, and the server times between which it does, in ms.

    ``latest_ms`` is None if the slowest of the rates does not reach it, or not within a day.
    """

    name: str
    soonest_ms: int
    latest_ms: int | None


def limit_of(
    series: QueueSeries,
    at_ms: int,
    from_ms: int,
    *,
    depth: int,
    depth_limit: int,
    age_ms: int | None,
    age_limit_ms: int,
    is_still: bool = False,
) -> Limit | None:
    """Return the limit that a queue reaches first; None if it approaches none, or if that is unknown.

    Buckets of the series before ``from_ms`` do not count. ``depth_limit`` is 0 for none. ``age_ms`` is how long the
    first ready message has been due, None for unknown; an age that has reached its limit is no forecast. While the
    queue ``is_still``, nothing arrives and nothing leaves: only the age grows, and its time is exact.
    """
    if depth_limit and depth >= depth_limit:
        return Limit("depth", at_ms, at_ms)
    ages = age_ms is not None and age_ms < age_limit_ms
    age_left_ms = age_limit_ms - (age_ms or 0)
    if is_still:
        is_known = ages and at_ms - from_ms >= KNOWN_MS
        return Limit("age", at_ms + age_left_ms, at_ms + age_left_ms) if is_known else None
    found = []
    if depth_limit:
        found.append(_reached("depth", at_ms, depth_limit - depth, depth_slopes(series, from_ms)))
    if ages:
        found.append(_reached("age", at_ms, age_left_ms / 1000, age_slopes(series, from_ms)))
    return min((limit for limit in found if limit is not None), key=lambda limit: limit.soonest_ms, default=None)


def limit_words(limit: Limit | None, at_ms: int) -> str:
    """Return the text of the column LIMIT: ``depth 12m–20m``, ``age ≥ 9m 0s``, ``depth reached``; empty for None."""
    if limit is None:
        return ""
    soonest_ms = limit.soonest_ms - at_ms
    if limit.latest_ms is None:
        return f"{limit.name} ≥ {duration(max(0, soonest_ms))}"
    if limit.latest_ms <= at_ms:
        return f"{limit.name} reached" if limit.name == "depth" else f"{limit.name} now"
    ends = dict.fromkeys((duration(max(0, soonest_ms)), duration(limit.latest_ms - at_ms)))
    return f"{limit.name} {'–'.join(ends)}"


def band_of(slopes: Sequence[float]) -> tuple[float, float] | None:
    """Return the first and the ninth decile of the slopes; None if they are too few, or most are not positive."""
    ordered = sorted(slopes)
    last = len(ordered) - 1
    if last + 1 < _LEAST_WINDOWS or ordered[last // 2] <= 0:
        return None
    return ordered[last // 10], ordered[ceil(0.9 * last)]


def depth_slopes(series: QueueSeries, from_ms: int) -> list[float]:
    """Return the change of the depth per second in each window."""
    depth = series.depth
    slopes = [(depth[end] - depth[start]) / seconds for start, end, seconds in _windows_of(series, from_ms)]
    return [slope for slope in slopes if not isnan(slope)]


def age_slopes(series: QueueSeries, from_ms: int) -> list[float]:
    """Return the change of the age of the first message, in seconds per second, in each window."""
    depth, totalsent = series.depth, series.totalsent
    slopes = []
    for start, end, _ in _windows_of(series, from_ms):
        arrived = totalsent[end] - totalsent[start]
        left = max(0.0, arrived - (depth[end] - depth[start]))
        # A queue that did not exist has no numbers, and one that was created again has lower ones.
        if arrived > 0:
            slopes.append(1 - left / arrived)
        elif arrived == 0:
            slopes.append(-inf if left else 1.0)
    return slopes


def _windows_of(series: QueueSeries, from_ms: int) -> Sequence[tuple[int, int, float]]:
    return _windows(tuple(series.times_ms), from_ms)


# All queues of a server have the same buckets, and most of them are known from the same time on.
@lru_cache(64)
def _windows(times_ms: tuple[int, ...], from_ms: int) -> Sequence[tuple[int, int, float]]:
    """Return the first bucket, the last bucket and the length in seconds of each window."""
    windows: list[tuple[int, int, float]] = []
    next_ms = 0
    for start in range(bisect_left(times_ms, from_ms), len(times_ms)):
        if times_ms[start] < next_ms:
            continue
        end = bisect_left(times_ms, times_ms[start] + _WINDOW_MS, start + 1)
        if end == len(times_ms):
            break
        next_ms = times_ms[start] + _STEP_MS
        windows.append((start, end, (times_ms[end] - times_ms[start]) / 1000))
    return windows


def _reached(name: str, at_ms: int, rest: float, slopes: Sequence[float]) -> Limit | None:
    band = band_of(slopes)
    if band is None:
        return None
    low, high = band
    soonest_ms = rest * 1000 / high
    if soonest_ms > _HORIZON_MS:
        return None
    latest_ms = rest * 1000 / low if low > 0 else inf
    return Limit(name, at_ms + round(soonest_ms), None if latest_ms > _HORIZON_MS else at_ms + round(latest_ms))
