"""When a growing queue, or the memory of a server, reaches a limit, from the rates of the last ten minutes.

Method: the counters of the last ten minutes are compared over windows of about a minute, one window every half minute.
Each window has a slope: the change of the depth, or of the age of the first ready message, per second. The band runs
from the first to the ninth decile of the slopes, by nearest rank; so a single burst or pause decides neither end. With
fewer than ``_WINDOWS_MIN`` windows, or if the median slope is not positive, there is no forecast. Nor is there one
for more than a day ahead: ten minutes of data are too little for that.

The age grows by a second per second while nothing leaves the queue. Otherwise it grows by 1 - leaving / arriving, as in
a queue whose messages leave in order: its first message is the one that arrived when as many had left as arrived before
it. Lists do not count what arrives and leaves: if their items have times, the age itself is compared.

The memory of a server is forecast in the same way, by its own growth.
"""

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from math import ceil, inf, isnan
from typing import NamedTuple

from rsmq_tui.monitor.text import duration
from rsmq_tui.monitor.tracking.series import BUCKET_MS, BUCKETS_MS, QueueSeries
from rsmq_tui.protocol.server.status import ServerInfo

_WINDOW_MS = 60_000
_STEP_MS = 30_000
_WINDOWS_MIN = 5
# The time until there are that many windows.
KNOWN_MS = _WINDOW_MS + (_WINDOWS_MIN - 1) * _STEP_MS
# A forecast takes some tens of microseconds: for a queue that changes, it is made this often.
FORECAST_EVERY_MS = 15_000
_HORIZON_MS = 86_400_000
# Of the limit of the age: a message that waits for less is not forecast.
WAITING_SHARE = 0.1


class Limit(NamedTuple):
    """A limit that is reached, ``depth``, ``age`` or ``memory``, and the server times between which it is, in ms.

    ``latest_ms`` is None if the slowest of the rates does not reach it, or not within a day.
    """

    name: str
    soonest_ms: int
    latest_ms: int | None

    def until_ms(self, at_ms: int) -> tuple[int, int | None]:
        """Return the remaining times at a time; 0 for a limit that is reached."""
        return max(0, self.soonest_ms - at_ms), None if self.latest_ms is None else max(0, self.latest_ms - at_ms)


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
    ages: "Ages | None" = None,
    memory: Limit | None = None,
    drain_s: float | None = None,
) -> Limit | None:
    """Return the limit that a queue reaches first; None if it approaches none, or if that is unknown.

    Buckets of the series before ``from_ms`` do not count. ``depth_limit`` is 0 for none. ``age_ms`` is how long the
    first ready message has been due, None for unknown; an age that has reached its limit is no forecast. ``ages`` are
    its earlier values, for a queue that does not count what leaves it. While the queue ``is_still``, nothing arrives
    and nothing leaves: only the age grows, and its time is exact. ``memory`` is the limit of the server's memory, which
    is one of each queue that grows. A queue without ready messages in ``drain_s`` approaches no limit after that.
    """
    if depth_limit and depth >= depth_limit:
        return Limit("depth", at_ms, at_ms)
    is_aging = age_ms is not None and WAITING_SHARE * age_limit_ms <= age_ms < age_limit_ms
    age_left_ms = age_limit_ms - (age_ms or 0)
    if is_still:
        is_known = is_aging and at_ms - from_ms >= KNOWN_MS
        return Limit("age", at_ms + age_left_ms, at_ms + age_left_ms) if is_known else None
    found = []
    if depth_limit or memory is not None:
        slopes = depth_slopes(series, from_ms)
        if depth_limit:
            found.append(_reached("depth", at_ms, depth_limit - depth, slopes))
        if band_of(slopes) is not None:
            found.append(memory)
    if is_aging:
        slopes = age_slopes(series, from_ms) if ages is None else ages.slopes(from_ms)
        found.append(_reached("age", at_ms, age_left_ms / 1000, slopes))
    until_ms = inf if drain_s is None else at_ms + drain_s * 1000
    near = (limit for limit in found if limit is not None and limit.soonest_ms <= until_ms)
    return min(near, key=lambda limit: limit.soonest_ms, default=None)


class Ages:
    """How old the first item of a list was in the last ten minutes, at times that are a bucket or more apart."""

    __slots__ = ("_ages_ms", "_times_ms")

    def __init__(self) -> None:
        self._times_ms: list[int] = []
        self._ages_ms: list[int] = []

    def add(self, at_ms: int, age_ms: int) -> None:
        """Add the age at a server time; an empty list has an age of 0."""
        times_ms = self._times_ms
        if times_ms and 0 <= at_ms - times_ms[-1] < BUCKET_MS:
            return
        # After the clock was set back, start again.
        old = len(times_ms) if times_ms and at_ms < times_ms[-1] else bisect_left(times_ms, at_ms - BUCKETS_MS)
        del times_ms[:old], self._ages_ms[:old]
        times_ms.append(at_ms)
        self._ages_ms.append(age_ms)

    def slopes(self, from_ms: int) -> list[float]:
        """Return the change of the age, in seconds per second, in each window."""
        return [slope / 1000 for slope in _slopes(self._ages_ms, _windows(tuple(self._times_ms), from_ms))]


class MemoryGrowth:
    """The memory that a server used in the last ten minutes, and when it will reach ``maxmemory``."""

    def __init__(self) -> None:
        self.limit: Limit | None = None
        self._last: ServerInfo | None = None
        self._times_ms: list[int] = []
        self._used: list[int] = []

    def forget(self) -> None:
        """Start again from nothing: the server did not answer for some time."""
        self.limit = None
        self._times_ms.clear()
        self._used.clear()

    def add(self, info: ServerInfo | None) -> None:
        """Process the values of INFO, None for unknown; after a restart of the server, start again from nothing."""
        last = self._last
        if info is None or last is None or info.run_id != last.run_id or info.at_ms <= last.at_ms:
            self.forget()
        self._last = info
        if info is None or not info.maxmemory or not info.used_memory:
            self.limit = None
            return
        at_ms, times_ms, used = info.at_ms, self._times_ms, self._used
        times_ms.append(at_ms)
        used.append(info.used_memory)
        old = bisect_left(times_ms, at_ms - BUCKETS_MS)
        del times_ms[:old], used[:old]
        rest = info.maxmemory - info.used_memory
        if rest <= 0:
            self.limit = Limit("memory", at_ms, at_ms)
            return
        self.limit = _reached("memory", at_ms, rest, _slopes(used, _windows(tuple(times_ms), 0)))


def limit_words(limit: Limit | None, at_ms: int) -> str:
    """Return the text of the column LIMIT: ``depth 12m–20m``, ``age ≥ 9m 0s``, ``depth reached``; empty for None."""
    return "" if limit is None else f"{limit.name} {time_left(limit, at_ms)}"


def time_left(limit: Limit, at_ms: int) -> str:
    """Return the time until a limit in words, as in ``limit_words``."""
    soonest_ms = limit.soonest_ms - at_ms
    if limit.latest_ms is None:
        return f"≥ {duration(max(0, soonest_ms))}"
    if limit.latest_ms <= at_ms:
        return "now" if limit.name == "age" else "reached"
    return "–".join(dict.fromkeys((duration(max(0, soonest_ms)), duration(limit.latest_ms - at_ms))))


def band_of(slopes: Sequence[float]) -> tuple[float, float] | None:
    """Return the first and the ninth decile of the slopes; None if they are too few, or most are not positive."""
    ordered = sorted(slopes)
    last = len(ordered) - 1
    if last + 1 < _WINDOWS_MIN or ordered[last // 2] <= 0:
        return None
    return ordered[last // 10], ordered[ceil(0.9 * last)]


def depth_slopes(series: QueueSeries, from_ms: int) -> list[float]:
    """Return the change of the depth per second in each window."""
    return [slope for slope in _slopes(series.depth, _windows_of(series, from_ms)) if not isnan(slope)]


def _slopes(values: Sequence[float], windows: Sequence[tuple[int, int, float]]) -> list[float]:
    """Return the change of the value per second in each window."""
    return [(values[end] - values[start]) / seconds for start, end, seconds in windows]


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
