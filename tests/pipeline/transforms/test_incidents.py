"""The table of incidents: what the rule makes of the episodes, with names as they are stored, and what SQL does."""

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from rsmq_tui.history.analysis.schema import EPISODES, INCIDENTS, SCHEMAS, VERDICT_RUNS
from rsmq_tui.monitor.incidents import Expected
from rsmq_tui.pipeline.state import AnalysisSettings
from rsmq_tui.pipeline.transforms.episodes import episodes_of
from rsmq_tui.pipeline.transforms.samples import sample_tables
from rsmq_tui.pipeline.transforms.whole import incidents
from tests.pipeline.transforms.incidents_sql import comparable, incidents_by_sql
from tests.pipeline.transforms.made import HOURS, Row, by_chance, frame, rows_of

MINUTE = 60_000


def episode(queue: str | None, verdict: str, start_ms: int, **more: Any) -> dict[str, Any]:
    end_ms = start_ms + MINUTE
    return dict.fromkeys(SCHEMAS[EPISODES].names) | {
        "profile": "prod", "server": "db1", "ns": "caf\\xe9", "queue": queue, "verdict": verdict, "start_ms": start_ms,
        "end_ms": end_ms, "ended": "over", "recovered_ms": end_ms, "cause": f"was {verdict}", **more,
    }  # fmt: skip


def test_the_table_is_what_the_rule_makes_of_the_episodes() -> None:
    rows = [
        episode("a\\\\b\\xff", "growing", 0, affected=4, peak_depth=9),
        episode("a\\\\b\\xff", "stalled", MINUTE, affected=3, recovered_ms=None, ended="open"),
        episode(None, "down", 30 * MINUTE),
        episode("dead", "aged", 0),
    ]
    table = incidents(rows, AnalysisSettings(expected={"prod": Expected(("dead",)).as_lists()}))

    one, head = sorted(
        pa.Table.from_pylist(table, SCHEMAS[INCIDENTS]).to_pylist(), key=lambda row: int(row["start_ms"])
    )
    assert len(one.pop("id")) == len(head.pop("id")) == 16
    assert one == {
        "profile": "prod", "server": "db1", "ns": "caf\\xe9", "queue": "a\\\\b\\xff", "head_id": None, "start_ms": 0,
        "end_ms": 2 * MINUTE, "ended": "open", "recovered_ms": None, "worst": "stalled",
        "verdicts": ["growing", "stalled"], "peak_depth": 9, "affected": 4, "episodes": 2, "cause": "was stalled",
    }  # fmt: skip
    assert (head["ns"], head["queue"], head["worst"], head["episodes"]) == ("", None, "down", 1)


@pytest.mark.parametrize("seed", [3, 7])
def test_another_engine_finds_the_same_incidents_in_the_runs(spark: SparkSession, seed: int) -> None:
    # Several namespaces of a server, with recorders that overlap.
    rows = [row | {"server": f"redis://db{sum(row['server'].encode()) % 3}"} for row in by_chance(seed)]
    runs = sample_tables(frame(spark, rows), HOURS, keep=lambda rows: rows)[VERDICT_RUNS]
    stored = spark.createDataFrame(runs.toArrow())

    found = comparable(incidents(rows_of(episodes_of(stored)), AnalysisSettings()))

    assert sorted(found, key=_order) == sorted(incidents_by_sql(stored.toArrow()), key=_order)
    assert {row["queue"] is None for row in found} == {True, False}
    assert any(row["head_ms"] is not None for row in found)
    assert any(row["episodes"] > 3 and row["queue"] for row in found)


def _order(row: Row) -> tuple[Any, ...]:
    return row["profile"], row["server"], row["start_ms"], row["ns"], row["queue"] or "", row["end_ms"]
