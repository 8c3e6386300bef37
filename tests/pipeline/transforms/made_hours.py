"""Hours of queues made by chance, as ``rollup_1h`` holds them, and what they come to, told without haste."""

import random
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from statistics import linear_regression, mean, median
from typing import Any

import pyarrow as pa

from rsmq_tui.history.analysis.schema import ROLLUP_1H, SCHEMAS
from rsmq_tui.monitor.text import count, duration
from rsmq_tui.pipeline.state import Settings

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


_QUEUES, _WEEKS = 30, 5


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
        for of_week in dice.sample(range(168), 2):
            for week in range(_WEEKS):
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
    return rows


def _hour_of_week(bucket_ms: int) -> int:
    moment = datetime.fromtimestamp(bucket_ms / 1000, UTC)
    return moment.weekday() * 24 + moment.hour


def expected_baseline(rows: list[Row]) -> dict[Any, Row]:
    """The table ``baseline``, by queue, metric and hour of the week."""
    means: dict[tuple[str, str, int], list[float]] = defaultdict(list)
    for row in rows:
        for metric in METRICS:
            if row[f"{metric}_mean"] is not None:
                means[row["queue"], metric, _hour_of_week(row["bucket_ms"])].append(row[f"{metric}_mean"])
    told = {}
    for key, values in means.items():
        middle = median(values)
        mad = median(abs(value - middle) for value in values)
        told[key] = {"hours": len(values), "median": middle, "mad": mad}
    return told


def expected_anomalies(rows: list[Row], score: float) -> dict[Any, Row]:
    """The table ``anomalies``, by queue, metric and when the hour begins."""
    usual, told = expected_baseline(rows), {}
    for row in rows:
        for metric in METRICS:
            value = row[f"{metric}_mean"]
            if value is None:
                continue
            known = usual[row["queue"], metric, _hour_of_week(row["bucket_ms"])]
            deviation = max(1.4826 * known["mad"], 0.05 * abs(known["median"]), FLOORS[metric])
            away = (value - known["median"]) / deviation
            if known["hours"] >= 3 and abs(away) >= score:
                facts = {"value": value, "median": known["median"], "mad": known["mad"], "score": away}
                told[row["queue"], metric, row["bucket_ms"]] = facts
    return told


def expected_forecast(rows: list[Row], settings: Settings) -> dict[Any, Row]:
    """The table ``forecast``, by queue and metric."""
    queues: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        queues[row["queue"]].append(row)
    newest_ms = max(row["bucket_ms"] for row in rows)
    limits = {"depth": settings.depth_limit, "oldest_ready_age_ms": settings.age_limit_ms}
    told = {}
    for queue, hours in queues.items():
        for metric, limit in limits.items():
            if limit is not None and max(row["bucket_ms"] for row in hours) >= newest_ms - HOUR_MS:
                found = _forecast(hours, metric, limit)
                if found is not None:
                    told[queue, metric] = found
    return told


def _forecast(hours: list[Row], metric: str, limit: int) -> Row | None:
    hours = sorted(hours, key=lambda row: row["bucket_ms"])
    last, now_ms = hours[-1], max(row["last_ms"] for row in hours)
    at_ms, value = last["bucket_ms"], last[f"{metric}_mean"]
    known = [row for row in hours if row["bucket_ms"] > at_ms - 6 * HOUR_MS and row[f"{metric}_mean"] is not None]
    if value is None or len(known) < 3:
        return None
    x = [(row["bucket_ms"] + row["last_ms"]) / 2 / HOUR_MS - at_ms / HOUR_MS for row in known]
    y = [row[f"{metric}_mean"] for row in known]
    slope, intercept = linear_regression(x, y)
    row = {"at_ms": at_ms, "value": value, "hours": len(known), "slope_s": slope / 3600, "limit": limit}
    amount = f"{count(limit)} messages" if metric == "depth" else duration(limit)
    if value >= limit:
        below_ms = max((one["bucket_ms"] for one in hours if _below(one, metric, limit)), default=0)
        since_ms = min(
            one["bucket_ms"] for one in hours if one["bucket_ms"] > below_ms and one[f"{metric}_mean"] is not None
        )
        return row | {"reaches_ms": since_ms, "told": f"over the limit of {amount} since {_minute(since_ms)}"}
    if slope < GROWTH_MIN_H[metric] or not _is_straight(x, y):
        return row | {"reaches_ms": None, "told": "does not grow"}
    rate = f"at +{duration(slope) if metric != 'depth' else count(slope) if slope >= 10 else f'{slope:,.1f}'}/h it"
    amount = amount if metric == "depth" else f"an age of {amount}"
    left_ms = (limit - intercept) / slope * HOUR_MS
    if left_ms >= timedelta(days=365) / timedelta(milliseconds=1):
        return row | {"reaches_ms": None, "told": f"{rate} does not reach {amount} within a year"}
    reaches_ms = max(round(at_ms + left_ms), now_ms)
    if reaches_ms == now_ms:
        return row | {"reaches_ms": now_ms, "told": f"{rate} is about to reach {amount}"}
    left = f"{duration(reaches_ms - now_ms)} ({_minute(reaches_ms)})"
    return row | {"reaches_ms": reaches_ms, "told": f"{rate} reaches {amount} in {left}"}


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
