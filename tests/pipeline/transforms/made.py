"""Histories made by hand, by chance, and what a table came to as rows of Python."""

from collections.abc import Iterable
from random import Random
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from rsmq_tui.history.schema import SAMPLES, SCHEMAS
from rsmq_tui.monitor.moments import HOUR_MS
from rsmq_tui.pipeline.work_plan import hours_of

Row = dict[str, Any]

DAY_MS = 86_400_000
FIRST_DAY = 20_000
MIDNIGHT_MS = (FIRST_DAY + 1) * DAY_MS
"""Where the second of the days begins."""
DAYS = ("2024-10-04", "2024-10-05", "2024-10-06")
HOURS = frozenset(hours_of(DAYS))
VERDICTS = ("ok", "ok", "growing", "stalled", "aged", "poisoned", "broken")
NAMES = ("orders", "a\\\\b", "caf\\xe9 ✓", "[/red]\x1b[2J", "'; --", "")


def sample(at_ms: int, queue: str | None = "orders", **fields: Any) -> Row:
    """A row of a queue, or that of a poll where there is none."""
    row = dict.fromkeys(SCHEMAS[SAMPLES].names) | {
        "at_ms": at_ms, "recorder": "r1", "profile": "prod", "server": "redis://db1:6379/0", "ns": "rsmq",
        "queue": queue, "status": "ok",
    }  # fmt: skip
    if queue is not None:
        row |= {
            "kind": "rsmq", "depth": 0, "ready": 0, "hidden": 0, "totalsent": 0, "totalrecv": 0, "vt_s": 30.0,
            "maxsize": 65536, "poison": 0, "highest_rc": 0, "verdict": "ok", "problems": [],
        }  # fmt: skip
    return row | fields


def poll(at_ms: int, interval_ms: int | None = None, *queues: Row, **fields: Any) -> list[Row]:
    """The rows of a poll: its own, and one for each queue, given as what differs."""
    common = {"interval_ms": interval_ms, **fields}
    return [sample(at_ms, None, **common), *(sample(at_ms, **{**common, **queue}) for queue in queues)]


def failed(at_ms: int, failure: str = "connection refused", **fields: Any) -> list[Row]:
    """The one row of a poll that failed."""
    return [sample(at_ms, None, status="down", failure=failure, **fields)]


def arrow(rows: Iterable[Row]) -> pa.Table:
    """The rows as a history holds them."""
    return pa.Table.from_pylist(list(rows), SCHEMAS[SAMPLES])


def frame(spark: SparkSession, rows: Iterable[Row]) -> DataFrame:
    """The rows as Spark reads them from a history."""
    return spark.createDataFrame(arrow(rows))


def rows_of(df: DataFrame) -> list[Row]:
    """What Spark computes, as rows of Python, in an order of their own."""
    rows: list[Row] = df.toArrow().to_pylist()
    return in_order(rows)


def in_order(rows: Iterable[Row]) -> list[Row]:
    """The rows by place, queue and time."""
    keys = ("profile", "server", "ns", "queue", "bucket_ms", "first_ms", "start_ms", "verdict", "end_ms")
    return sorted(rows, key=lambda row: [str(row.get(name)) for name in keys])


def by_chance(seed: int) -> list[Row]:
    """Some days of several places: with restarts, gaps, outages, second recorders, duplicates, in any order."""
    random = Random(seed)
    rows: list[Row] = []
    for number in range(random.randint(4, 8)):
        place = {"profile": random.choice(["", "prod"]), "server": f"redis://db{number}", "ns": random.choice(NAMES)}
        turns_ms = (MIDNIGHT_MS, MIDNIGHT_MS + 5 * HOUR_MS, MIDNIGHT_MS + DAY_MS, FIRST_DAY * DAY_MS + 460_000)
        start_ms = random.choice(turns_ms) - 400_000
        for recorder in random.sample(["a", "b", "c"], random.choice([1, 1, 2, 3])):
            rows += _recorded(random, place | {"recorder": recorder}, start_ms + random.randrange(120_000))
    rows += random.choices(rows, k=len(rows) // 10)
    random.shuffle(rows)
    return rows


def _recorded(random: Random, place: Row, at_ms: int) -> list[Row]:
    rows: list[Row] = []
    before_ms: int | None = None
    every_ms = random.choice([1_000, 4_000, 9_000, 30_000])
    states: dict[str, Row] = {}
    for _ in range(random.randint(40, 120)):
        if random.random() < 0.08:
            rows += failed(at_ms, random.choice(["connection refused", "\x1b[31mwho?"]), **place)
            before_ms = None
        else:
            if random.random() < 0.04:
                before_ms = None
            _change(random, states, at_ms)
            queues = [state | {"queue": name} for name, state in states.items()]
            rows += poll(at_ms, None if before_ms is None else at_ms - before_ms, *queues, **place)
            before_ms = at_ms
        at_ms += every_ms + random.randrange(7)
        if random.random() < 0.06:
            at_ms += random.choice([20_000, 59_000, 61_000, 300_000, 3_600_001, 7_200_000, 40_000_000])
    return rows


def _change(random: Random, states: dict[str, Row], at_ms: int) -> None:
    for name in NAMES[:3]:
        if name not in states and random.random() < 0.3:
            states[name] = {"totalsent": 0, "totalrecv": 0, "kind": random.choice(["rsmq", "list"]), "verdict": "ok"}
            states[name]["created_ms"] = random.choice([None, at_ms])
        elif name in states and random.random() < 0.03:
            del states[name]
    for state in states.values():
        state.update(_next(random, state, at_ms))


def _next(random: Random, state: Row, at_ms: int) -> Row:
    state = dict(state)
    if random.random() < 0.05:
        # Some queues are created again, of others only the counters are lost.
        created_ms = None if state["created_ms"] is None else random.choice([state["created_ms"], at_ms])
        state |= {"totalsent": 0, "totalrecv": 0, "created_ms": created_ms}
    for total in ("totalsent", "totalrecv"):
        if state[total] is None or random.random() < 0.05:
            state[total] = random.choice([None, 0, 10**6])
        else:
            state[total] += random.randrange(50)
    ready, hidden = random.randrange(90), random.randrange(9)
    state |= {"depth": ready + hidden, "ready": ready, "hidden": hidden, "poison": random.randrange(3)}
    age_ms = random.randrange(10**6) if ready else None
    state |= {"oldest_ready_age_ms": age_ms, "oldest_ready_waiting_ms": age_ms and random.randrange(age_ms)}
    state |= {"highest_rc": random.randrange(9), "vt_s": random.choice([30.0, None]), "maxsize": 65536}
    if random.random() < 0.04:
        state |= dict.fromkeys(("depth", "ready", "hidden", "oldest_ready_age_ms", "oldest_ready_waiting_ms", "poison"))
    if random.random() < 0.25:
        state["verdict"] = random.choice(VERDICTS)
        state["since_ms"] = random.choice([None, -5, MIDNIGHT_MS + random.randrange(-DAY_MS, DAY_MS)])
        state["pending_since_ms"] = None
    elif random.random() < 0.3:
        state["pending_since_ms"] = random.choice([None, -5, at_ms, at_ms, at_ms + 1])
    if state["kind"] == "list":
        # Nothing counts what is pushed and taken.
        state |= dict.fromkeys(("totalsent", "totalrecv", "vt_s", "maxsize", "poison", "highest_rc", "created_ms"))
        state["expired"] = random.choice([None, 0, 0, random.randrange(90)])
    return state | {"broken": "a key of the wrong type" if state["verdict"] == "broken" else None}
