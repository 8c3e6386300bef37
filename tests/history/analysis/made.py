"""Analyses made by hand: tables and a manifest, as the pipeline would leave them."""

from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rsmq_tui.history.analysis import schema
from rsmq_tui.history.analysis.reading import Analysis, Chosen
from rsmq_tui.history.analysis.tables import Manifest, write_manifest
from rsmq_tui.history.analysis.values import Line, QueueRef, TimeRange
from rsmq_tui.history.names import Place, stored_name
from rsmq_tui.history.store import day_of, open_store
from rsmq_tui.monitor.moments import DAY_MS, HOUR_MS
from tests.history.analysis.queues import END_MS, GAP, INVOICES, ORDERS, OUTAGE, PROD, REFS, START_MS, WEBHOOKS


class Made:
    """An analysis that is being made in a folder: rows are added, and published as one run."""

    def __init__(self, out: Path, history: str = "/var/lib/history") -> None:
        self.out = out
        self.history = history
        self.rows: dict[str, dict[str, list[pa.Table]]] = {}

    def add(self, table: str, *rows: dict[str, Any]) -> None:
        """Add rows to a table, those of a table by day to the days of their times."""
        days: dict[str, list[dict[str, Any]]] = {}
        for row in rows:
            at_ms = row.get("bucket_ms", row.get("first_ms", 0))
            days.setdefault(day_of(at_ms) if table in schema.BY_DAY else "", []).append(row)
        for day, added in days.items():
            # As columns they take a tenth of the memory.
            columns = pa.Table.from_pylist(added, schema=schema.SCHEMAS[table])
            self.rows.setdefault(table, {}).setdefault(day, []).append(columns)

    def publish(self, run: str = "run-1", problems: Iterable[str] = ()) -> Manifest:
        """Write the files of a run, and let it become visible."""
        tables: dict[str, dict[str, tuple[str, ...]]] = {}
        for table, days in self.rows.items():
            for day, parts in days.items():
                name = f"runs/{run}/{table}/{f'day={day}/' if day else ''}part-0.parquet"
                path = self.out / name
                path.parent.mkdir(parents=True, exist_ok=True)
                pq.write_table(pa.concat_tables(parts), path, compression="zstd")
                tables.setdefault(table, {})[day] = (name,)
        manifest = Manifest(run, END_MS, self.history, tuple(problems), tables)
        self.out.mkdir(parents=True, exist_ok=True)
        write_manifest(open_store(str(self.out), self.out)[0], manifest, self.out / "_scratch")
        return manifest


def named(ref: QueueRef) -> dict[str, Any]:
    """The columns that name a queue, as they are stored."""
    return {
        "profile": stored_name(ref.profile),
        "server": ref.server,
        "ns": stored_name(ref.ns),
        "queue": stored_name(ref.queue),
    }


def bucket(ref: QueueRef, bucket_ms: int, width_ms: int, *, samples: int = 0, **values: Any) -> dict[str, Any]:
    """A row of a roll-up: statistics around each value, or the counts of a rate over the whole bucket."""
    row: dict[str, Any] = {
        "bucket_ms": bucket_ms, **named(ref), "kind": "rsmq", "samples": samples or width_ms // 5_000,
        "covered_ms": width_ms,
    }  # fmt: skip
    for name, value in values.items():
        factors = {"min": 0.8, "mean": 1.0, "max": 1.3, "p50": 0.99, "p95": 1.2, "p99": 1.25}
        row |= {f"{name}_{word}": None if value is None else value * factor for word, factor in factors.items()}
        if name.endswith("_s") and value is not None:
            row[name.removesuffix("_s")] = round(value * width_ms / 1000)
    return row


def roll_up(ref: QueueRef, table: str, from_ms: int, to_ms: int) -> list[dict[str, Any]]:
    """The buckets of a queue of the script in [from, to), but for those that nobody recorded."""
    width_ms = schema.WIDTHS_MS[table]
    return [
        bucket(ref, at_ms, width_ms, **metrics_of(ref, at_ms))
        for at_ms in range(from_ms, to_ms, width_ms)
        if not _is_unknown(ref, at_ms, width_ms)
    ]


def of_places(rows: Iterable[dict[str, Any]], table: str) -> list[dict[str, Any]]:
    """The roll-up of places, from rows of a roll-up of queues."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in ("bucket_ms", "profile", "server", "ns")), []).append(row)
    found = []
    for (bucket_ms, profile, server, ns), queues in sorted(groups.items()):
        place = {"bucket_ms": bucket_ms, "profile": profile, "server": server, "ns": ns, "queues": len(queues)}
        place |= {"width_ms": schema.WIDTHS_MS[table]}
        place |= {name: max(queue[name] for queue in queues) for name in ("samples", "covered_ms")}
        names = [f"{metric}_{statistic}" for metric in schema.METRICS for statistic in schema.STATISTICS]
        for name in ("arrivals", "deletes", "receives", "redeliveries", "ready_mean", "hidden_mean", *names):
            known = [queue[name] for queue in queues if queue.get(name) is not None]
            place[name] = (max(known) if name.startswith("oldest_") else sum(known)) if known else None
        for metric in schema.METRICS:
            known = [queue[f"{metric}_max"] for queue in queues if queue.get(f"{metric}_max") is not None]
            place[f"{metric}_greatest"] = max(known, default=None)
        found.append(place)
    return found


def metrics_of(ref: QueueRef, at_ms: int) -> dict[str, Any]:
    """What the script tells of a queue at a time."""
    return {
        "depth": depth_of(ref, at_ms),
        "oldest_ready_age_ms": 1_000.0 + depth_of(ref, at_ms) * 20,
        "arrivals_s": 4.0 + at_ms // HOUR_MS % 24,
        "deletes_s": 3.0 + at_ms // HOUR_MS % 24,
        "receives_s": 5.0 + at_ms // HOUR_MS % 24,
        "redeliveries_s": 0.5,
    }


def depth_of(ref: QueueRef, at_ms: int) -> float:
    """The depth of a queue of the script: a level by day, and a hill while it was in trouble."""
    hour = at_ms // HOUR_MS % 24
    base = {"orders": 400.0, "emails": 60.0, "invoices": 17.0}.get(ref.queue, 30.0) * (0.4 + (hour in range(8, 20)))
    trouble = START_MS + 3 * DAY_MS + 14 * HOUR_MS
    if ref == ORDERS and trouble <= at_ms < trouble + 4 * HOUR_MS:
        middle = trouble + 2 * HOUR_MS
        base += 38_000 * (1 - abs(at_ms - middle) / (2 * HOUR_MS))
    return base


def episode(place: Place, queue: str | None, verdict: str, start_ms: int, end_ms: int, **more: Any) -> dict[str, Any]:
    """A row of the episodes."""
    usual = {
        "ended": "over", "recovered_ms": end_ms, "peak_depth": 1_200, "peak_ready": 900, "peak_ms": start_ms + 60_000,
        "peak_age_ms": 1_260_000, "affected": 5_400, "cause": f"{queue} was {verdict}",
    }  # fmt: skip
    names = {"profile": stored_name(place.profile), "server": place.server, "ns": stored_name(place.ns)}
    stored = None if queue is None else stored_name(queue)
    return {**names, "queue": stored, "verdict": verdict, "start_ms": start_ms, "end_ms": end_ms, **usual, **more}


def scripted(out: Path, history: str = "/var/lib/history") -> Made:
    """Four days of four queues at two places, with an episode of every kind, published."""
    made = Made(out, history)
    made.rows = {table: {day: list(parts) for day, parts in days.items()} for table, days in _scripted_rows().items()}
    made.publish()
    return made


@cache
def _scripted_rows() -> dict[str, dict[str, list[pa.Table]]]:
    made = Made(Path())
    for ref in REFS:
        made.add(schema.ROLLUP_1H, *roll_up(ref, schema.ROLLUP_1H, START_MS, END_MS))
        made.add(schema.ROLLUP_1M, *roll_up(ref, schema.ROLLUP_1M, END_MS - 2 * DAY_MS, END_MS))
        made.add(schema.ROLLUP_10S, *roll_up(ref, schema.ROLLUP_10S, END_MS - 2 * HOUR_MS, END_MS))
        known = {"kind": "rsmq", "first_ms": START_MS, "last_ms": END_MS - 5_000, "samples": 60_000}
        made.add(
            schema.QUEUES, {**named(ref), **known, "peak_depth": 38_400 if ref == ORDERS else 90, "last_depth": 24}
        )
        for hour in range(168):
            usual = {"metric": "depth", "hour_of_week": hour, "hours": 4, "median": 300.0, "mad": 20.0}
            made.add(schema.BASELINE, {**named(ref), **usual})
        made.add(schema.VERDICT_RUNS, *_runs(ref))
    made.add(schema.EPISODES, *_episodes())
    made.add(schema.POISON, *_poison())
    made.add(schema.ADVICE, *_advice())
    made.add(schema.FORECAST, *_forecasts())
    made.add(schema.ANOMALIES, *_anomalies())
    return made.rows


def _runs(ref: QueueRef) -> list[dict[str, Any]]:
    """A run for each hour, but for what nobody recorded; the first after that continues no other one."""
    runs = []
    for first_ms in range(START_MS, END_MS, HOUR_MS):
        spans = [(first_ms, first_ms + HOUR_MS - 5_000, first_ms > START_MS)]
        for from_ms, to_ms in (GAP, OUTAGE) if ref.place == PROD else ():
            spans = [
                part
                for begin, end, continues in spans
                for part in ((begin, min(end, from_ms - 5_000), continues), (max(begin, to_ms), end, begin > to_ms))
                if part[0] <= part[1]
            ]
        runs += [
            {**named(ref), "verdict": "ok", "first_ms": begin, "last_ms": end, "continues": continues}
            for begin, end, continues in spans
        ]
    return runs


def _episodes() -> list[dict[str, Any]]:
    day = START_MS + 3 * DAY_MS
    at: Callable[[float], int] = lambda hour: day + int(hour * HOUR_MS)  # noqa: E731
    return [
        episode(
            PROD, "orders", "growing", at(14), at(18), peak_depth=38_400, peak_ready=37_900, peak_ms=at(16),
            peak_age_ms=8_040_000, affected=151_200, recovered_ms=at(18.5),
            cause="arrivals exceeded deletes by 2.6/s for 4h 0m",
        ),
        episode(
            PROD, "emails", "stalled", at(20), at(21), affected=216, peak_depth=276, peak_ready=276,
            cause="3,020 messages were ready, and nobody received any for 1h 0m",
        ),
        episode(PROD, "emails", "aged", at(3), at(3.5), cause="the first ready message was 12m old"),
        episode(
            PROD, "invoices", "poisoned", at(22), END_MS - 5_000, ended="open", recovered_ms=None, affected=3,
            cause="3 messages were received 5 times or more",
        ),
        episode(
            PROD, "invoices", "broken", START_MS + 2 * DAY_MS + 5 * HOUR_MS, GAP[0], ended="unknown",
            recovered_ms=None, affected=None, peak_depth=None, peak_ready=None, peak_age_ms=None, peak_ms=None,
            cause="WRONGTYPE: the queue's key holds a string",
        ),
        episode(
            PROD, None, "down", *OUTAGE, affected=None, peak_depth=None, peak_ready=None, peak_age_ms=None,
            peak_ms=None, cause="connection refused",
        ),
    ]  # fmt: skip


def _poison() -> list[dict[str, Any]]:
    return [
        {
            **named(INVOICES), "id": f"hocx8qopw1aQ0zR7cK2mV5nB8xL4jD{number}g", "sent_ms": END_MS - 5 * HOUR_MS,
            "fr_ms": END_MS - 5 * HOUR_MS + 2_000, "rc": 9 + number, "size": 212 + number,
            "first_seen_ms": END_MS - 4 * HOUR_MS, "last_seen_ms": END_MS - number * HOUR_MS, "is_there": number < 2,
        }
        for number in range(3)
    ]  # fmt: skip


def _advice() -> list[dict[str, Any]]:
    return [
        {
            **named(INVOICES), "vt_s": 30.0, "receives": 410, "redeliveries": 98, "advised_vt_s": 90.0,
            "told": "about 98 of 410 receives (24 %) redelivered a message; a vt of 90 s would cover 99 % or more",
        },
        {
            **named(ORDERS), "vt_s": 30.0, "receives": 88_121, "redeliveries": 88, "advised_vt_s": None,
            "told": "vt 30 s is enough",
        },
    ]  # fmt: skip


def _forecasts() -> list[dict[str, Any]]:
    last = END_MS - HOUR_MS
    return [
        {
            **named(WEBHOOKS), "metric": "depth", "at_ms": last, "value": 42.0, "slope_s": -0.1, "hours": 24,
            "limit": 10_000.0, "reaches_ms": None, "told": "it does not grow",
        },
        {
            **named(ORDERS), "metric": "depth", "at_ms": last, "value": 1_400.0, "slope_s": 0.3, "hours": 24,
            "limit": 10_000.0, "reaches_ms": last + 8 * HOUR_MS, "told": "at +0.3/s it reaches 10,000 in 8h 0m",
        },
    ]  # fmt: skip


def _anomalies() -> list[dict[str, Any]]:
    day = START_MS + 3 * DAY_MS
    hours = ((14, 9.5, 19_000.0), (15, 21.0, 38_000.0), (9, -7.1, 12.0))
    return [
        {
            **named(ORDERS), "bucket_ms": day + hour * HOUR_MS, "metric": "depth", "value": value, "median": 560.0,
            "mad": 20.0, "score": score,
        }
        for hour, score, value in hours
    ]  # fmt: skip


def _is_unknown(ref: QueueRef, at_ms: int, width_ms: int) -> bool:
    spans = (GAP, OUTAGE) if ref.place == PROD else ()
    return any(from_ms <= at_ms and at_ms + width_ms <= to_ms for from_ms, to_ms in spans)


def line_of(
    analysis: Analysis, queues: Chosen, metric: str, span: TimeRange, *, points: int = 200, statistic: str = "mean"
) -> Line:
    """Return one line of an analysis."""
    (line,) = analysis.lines(queues, ((metric, statistic),), span, points=points)
    return line
