"""Hours of queues made by chance, as ``rollup_1h`` holds them, and what they come to, told without haste."""

import math
import random
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from statistics import linear_regression, mean, median
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from rsmq_tui.history.analysis.schema import ROLLUP_1H, SCHEMAS
from rsmq_tui.monitor.text import count, duration
from rsmq_tui.pipeline.state import AnalysisSettings

HOUR_MS = 3_600_000
# A Saturday.
START = datetime(2031, 5, 17, tzinfo=UTC)
START_MS = int(START.timestamp() * 1000)
PLACE = {"profile": "prod", "server": "redis://db1:6379/0", "ns": "rsmq"}
METRICS = ("depth", "oldest_ready_age_ms", "arrivals_s", "deletes_s", "receives_s")
FLOORS = {"depth": 1.0, "oldest_ready_age_ms": 5000.0, "arrivals_s": 0.01, "deletes_s": 0.01, "receives_s": 0.01}
GROWTH_MIN_H = {"depth": 0.1, "oldest_ready_age_ms": 1000}
# One-sided, 5 %, on one to four degrees of freedom.
T_MIN = {3: 6.314, 4: 2.920, 5: 2.353, 6: 2.132}

Row = dict[str, Any]


def hour(queue: str, number: int, **facts: Any) -> Row:
    """An hour of a queue, counted from the first one; by default its last sample is at its very end."""
    bucket_ms = START_MS + number * HOUR_MS
    usual = {
        **PLACE,
        "queue": queue,
        "bucket_ms": bucket_ms,
        "kind": "rsmq",
        "samples": 720,
        "last_ms": bucket_ms + HOUR_MS,
    }
    return {**usual, **facts}


def arrow(rows: list[Row]) -> pa.Table:
    schema = SCHEMAS[ROLLUP_1H]
    # What is not told is unknown.
    return pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in rows], schema)


_QUEUES, _WEEKS = 30, 7


@dataclass(frozen=True)
class Chances:
    """What made hours are like; ``missing`` is a share of 100."""

    seed: int
    missing: int = 20


def weekly_hours(chances: Chances) -> list[Row]:
    """Some hours of some weeks: constant, wavering or wild, and with a bad one now and then."""
    dice = random.Random(chances.seed)
    rows = []
    for number in range(_QUEUES):
        usual, noise = dice.choice((0, 1, 50, 100_000)), dice.choice((0, 0, 1, 10, 1000))
        # Hours near each other, and some of the day before.
        chosen = {at + by for at in dice.sample(range(30, 168), 2) for by in (-26, -24, -3, -1, 0, 1)}
        for week in range(_WEEKS):
            for of_week in sorted(chosen):
                if dice.randrange(100) >= chances.missing:
                    means = {f"{metric}_mean": _mean(dice, usual, noise) for metric in METRICS}
                    rows.append(hour(f"q{number}", week * 168 + of_week, **means))
    return rows


def _mean(dice: random.Random, usual: int, noise: int) -> float | None:
    if dice.randrange(10) == 0:
        return None
    return usual + dice.uniform(-noise, noise) + (dice.choice((2, 7, 500, -40)) if dice.randrange(8) == 0 else 0)


def trending_hours(chances: Chances) -> list[Row]:
    """The last hours of queues that grow, shrink, waver, jump, or are not there any more."""
    dice = random.Random(chances.seed)
    rows = []
    for number in range(_QUEUES):
        slope, noise = dice.choice((-500, 0, 0, 0.0001, 3, 700)), dice.choice((0, 0.3, 20, 900))
        begin, end, start = dice.randrange(9), 10 + dice.choice((-3, -1, 0, 0, 0)), dice.choice((0, 500, 6000, 99_000))
        for at in range(begin, end):
            if dice.randrange(100) < chances.missing:
                continue
            mean = start + slope * at + dice.uniform(-noise, noise) + (5000 if dice.randrange(20) == 0 else 0)
            last_ms = START_MS + at * HOUR_MS + dice.choice((HOUR_MS, HOUR_MS, 0, 1234))
            known = {f"{metric}_mean": None if dice.randrange(12) == 0 else mean * 100 for metric in METRICS}
            rows.append(hour(f"q{number}", at, **known | {"depth_mean": mean}, last_ms=last_ms))
    return rows + _days_of_growth(dice, min(chances.missing, 10))


def _days_of_growth(dice: random.Random, missing: int) -> list[Row]:
    """The last days of queues that fill up every day or every other day, grow slowly, jumped, or began to grow."""
    rows = []
    for number in range(_QUEUES):
        days, per_day, daily = dice.choice((2, 4, 7, 10)), dice.choice((0, 0, 30, 2000)), dice.choice((0, 500, 3000))
        noise, jump, every = dice.choice((1, 40)), dice.choice((0, 0, 5000)), dice.choice((1, 1, 2))
        end, jump_at = 10, dice.randrange(30)
        for at in range(end - 24 * days, end):
            if dice.randrange(100) < missing:
                continue
            mean = 3000 + per_day * at / 24 + (daily * (at % 24) / 24 if at // 24 % every == 0 else 0)
            mean += dice.uniform(-noise, noise) + (jump if at > end - jump_at else 0)
            known = {"depth_mean": mean * 5, "oldest_ready_age_ms_mean": mean * 40}
            rows.append(hour(f"d{number}", at, **known))
    return rows


def _local_hour(bucket_ms: int, zone: str) -> int:
    """What the clocks show, in hours since they showed 1970-01-01 00:00."""
    shown = datetime.fromtimestamp(bucket_ms / 1000, ZoneInfo(zone)).replace(tzinfo=UTC, minute=0)
    return round(shown.timestamp()) // 3600


def _is_like(other: int, hour: int, weeks: int) -> bool:
    """Whether a local hour is of that hour of the week, or next to it, so many weeks before."""
    return abs(other + weeks * 168 - hour) <= 1


def _middle(values: list[float]) -> Row:
    middle = median(values)
    return {"median": middle, "mad": median(abs(value - middle) for value in values)}


def _by_queue(rows: list[Row]) -> dict[str, list[Row]]:
    queues: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        queues[row["queue"]].append(row)
    return queues


def expected_baseline(rows: list[Row], zone: str = "UTC") -> dict[Any, Row]:
    """The table ``baseline``, by queue, metric and hour of the week."""
    output = {}
    for queue, hours in _by_queue(rows).items():
        last = max(_local_hour(row["bucket_ms"], zone) for row in hours)
        near = [(_local_hour(row["bucket_ms"], zone) + by, row) for row in hours for by in (-1, 0, 1)]
        for metric in METRICS:
            for of_week in range(168):
                values = [
                    row[f"{metric}_mean"]
                    for at, row in near
                    # 1970 began on a Thursday, three days after Monday.
                    if (at + 72) % 168 == of_week
                    and _local_hour(row["bucket_ms"], zone) > last - 4 * 168 - 1
                    and row[f"{metric}_mean"] is not None
                ]
                if values:
                    output[queue, metric, of_week] = {"hours": len(values), "zone": zone, **_middle(values)}
    return output


def expected_anomalies(rows: list[Row], score: float, zone: str = "UTC") -> dict[Any, Row]:
    """The table ``anomalies``, by queue, metric and when the hour begins."""
    output = {}
    for queue, hours in _by_queue(rows).items():
        local = {row["bucket_ms"]: _local_hour(row["bucket_ms"], zone) for row in hours}
        for row in hours:
            at_ms = row["bucket_ms"]
            weeks = [
                one for one in hours if any(_is_like(local[one["bucket_ms"]], local[at_ms], n) for n in (1, 2, 3, 4))
            ]
            day = [one for one in hours if at_ms - 24 * HOUR_MS <= one["bucket_ms"] < at_ms]
            for metric in METRICS:
                found = _judged(metric, row, weeks, day)
                if found is not None and abs(found["score"]) >= score:
                    output[queue, metric, at_ms] = found
    return output


def _judged(metric: str, row: Row, weeks: list[Row], day: list[Row]) -> Row | None:
    name = f"{metric}_mean"
    value, usual, since = row[name], _known(weeks, name), _known(day, name)
    if value is None or len(usual) < 6:
        return None
    middle = _middle(usual)
    deviation = max(1.4826 * middle["mad"], 0.05 * abs(middle["median"]), FLOORS[metric])
    away = (value - middle["median"]) / deviation
    if since:
        away_from_day = (value - median(since)) / deviation
        away = 0 if away * away_from_day <= 0 else min(away, away_from_day, key=abs)
    if metric == "oldest_ready_age_ms" and away < 0:
        return None
    return {"value": value, "score": away, **middle}


def _known(rows: list[Row], name: str) -> list[float]:
    return [row[name] for row in rows if row[name] is not None]


def expected_forecast(rows: list[Row], settings: AnalysisSettings) -> dict[Any, Row]:
    """The table ``forecast``, by queue and metric."""
    newest_ms = max(row["bucket_ms"] for row in rows)
    limits = {"depth": settings.depth_limit, "oldest_ready_age_ms": settings.age_limit_ms}
    output = {}
    for queue, hours in _by_queue(rows).items():
        for metric, limit in limits.items():
            if limit is not None and max(row["bucket_ms"] for row in hours) >= newest_ms - HOUR_MS:
                found = _forecast(hours, metric, limit)
                if found is not None:
                    output[queue, metric] = found
    return output


def _forecast(hours: list[Row], metric: str, limit: int) -> Row | None:
    name = f"{metric}_mean"
    hours = sorted(hours, key=lambda row: row["bucket_ms"])
    last, now_ms = hours[-1], max(row["last_ms"] for row in hours)
    at_ms, value = last["bucket_ms"], last[name]
    # By the number of hours until the last one: the time of the mean, in hours from then on, and the mean.
    known = {
        (at_ms - row["bucket_ms"]) // HOUR_MS: ((row["bucket_ms"] + row["last_ms"]) / 2 / HOUR_MS - at_ms / HOUR_MS, y)
        for row in hours
        if (y := row[name]) is not None
    }
    by_day = [[known[back] for back in range(24 * day, 24 * day + 24) if back in known] for day in range(8)]
    days = {
        day: (mean(x for x, _ in found) / 24, mean(y for _, y in found))
        for day, found in enumerate(by_day)
        if len(found) >= 20
    }
    if value is None or _count(known) < 3:
        return None
    slope, intercept = _line(known)
    amount = f"{count(limit)} messages" if metric == "depth" else duration(limit)
    there = amount if metric == "depth" else f"an age of {amount}"
    by_hours, by_days = _is_growth(known, GROWTH_MIN_H[metric]), _is_growth(days, GROWTH_MIN_H[metric] * 24)
    if by_days:
        # The last day must be known, and be more than the same day of the week before.
        by_days = 0 in days and (7 not in days or days[0][1] - days[7][1] >= _line(days)[0])
    highest = max(y for back, (_, y) in known.items() if back < 168)
    is_usual = by_hours and highest < limit and any(_was_so(known, ago) for ago in (24, 168))
    if is_usual or (by_days and slope * 24 < 2 * _line(days)[0]):
        by_hours = False
    row = {"at_ms": at_ms, "value": value, "hours": _count(known), "slope_s": slope / 3600, "limit": limit}
    if not by_hours and by_days:
        row |= {"hours": 24 * _count(days), "slope_s": _line(days)[0] / 86_400}
    if value >= limit:
        below_ms = max((one["bucket_ms"] for one in hours if _below(one, metric, limit)), default=0)
        since_ms = min(one["bucket_ms"] for one in hours if one["bucket_ms"] > below_ms and one[name] is not None)
        return row | {"reaches_ms": since_ms, "told": f"over the limit of {amount} since {_minute(since_ms)}"}
    if by_hours:
        left_h, speed, unit = (limit - intercept) / slope, slope, "/h"
    elif by_days:
        speed, unit = _line(days)[0], " a day"
        left_h = min(
            24 * max(1, math.ceil((limit - known[back][1]) / speed)) - back for back in range(24) if back in known
        )
    else:
        usual = f"grows as it did a day or a week before, when it did not reach {there}"
        return row | {"reaches_ms": None, "told": usual if is_usual else "does not grow"}
    number = duration(speed) if metric != "depth" else count(speed) if speed >= 10 else f"{speed:,.1f}"
    rate = f"at +{number}{unit} it"
    if left_h >= 365 * 24:
        return row | {"reaches_ms": None, "told": f"{rate} does not reach {there} within a year"}
    reaches_ms = max(round(at_ms + left_h * HOUR_MS), now_ms)
    if reaches_ms == now_ms:
        return row | {"reaches_ms": now_ms, "told": f"{rate} is about to reach {there}"}
    left = f"{duration(reaches_ms - now_ms)} ({_minute(reaches_ms)})"
    return row | {"reaches_ms": reaches_ms, "told": f"{rate} reaches {there} in {left}"}


# By the number of steps until the last one.
Means = dict[int, tuple[float, float]]


def _some(known: Means, ago: int = 0, steps: int = 6) -> tuple[list[float], list[float]]:
    found = [known[back] for back in range(ago, ago + steps) if back in known]
    return [x for x, _ in found], [y for _, y in found]


def _count(known: Means) -> int:
    return len(_some(known)[0])


def _line(known: Means, ago: int = 0, steps: int = 6) -> tuple[float, float]:
    slope, intercept = linear_regression(*_some(known, ago, steps))
    return slope, intercept


def _is_growth(known: Means, least: float) -> bool:
    x, y = _some(known)
    if len(x) < 3 or _line(known)[0] < least or not _is_straight(x, y):
        return False
    steps = [
        (later - earlier) / max(1, late - early) for (late, later), (early, earlier) in pairwise(zip(x, y, strict=True))
    ]
    if max(steps) > 0.6 * (y[0] - y[-1]):
        # It jumped.
        return False
    return len(_some(known, 0, 3)[0]) < 2 or _line(known, 0, 3)[0] >= _line(known)[0] / 4


def _was_so(known: Means, ago: int) -> bool:
    """Tell whether it grew more than half as fast then, and was about as full."""
    if len(_some(known, ago)[0]) < 2:
        return False
    slope, now, then = _line(known)[0], mean(_some(known)[1]), mean(_some(known, ago)[1])
    return slope < 2 * _line(known, ago)[0] and now - then < 3 * slope


def _below(row: Row, metric: str, limit: int) -> bool:
    return row[f"{metric}_mean"] is not None and row[f"{metric}_mean"] < limit


def _is_straight(x: list[float], y: list[float]) -> bool:
    """Tell whether the correlation is beyond what chance makes of such series in 1 of 20 cases."""
    x_mean, y_mean = mean(x), mean(y)
    sxx, syy = sum((one - x_mean) ** 2 for one in x), sum((one - y_mean) ** 2 for one in y)
    sxy = sum((one - x_mean) * (other - y_mean) for one, other in zip(x, y, strict=True))
    r2 = sxy**2 / (sxx * syy)
    degrees = len(x) - 2
    return r2 >= 1 - 1e-12 or (r2 * degrees / (1 - r2)) ** 0.5 >= T_MIN[len(x)]


def _minute(at_ms: float) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"
