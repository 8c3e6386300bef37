"""The table of incidents holds what the rule makes of the episodes, with names as they are stored."""

from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from rsmq_tui.history.analysis.schema import EPISODES, INCIDENTS, SCHEMAS
from rsmq_tui.monitor.incidents import Expected
from rsmq_tui.pipeline.transforms.columns import columns_of
from rsmq_tui.pipeline.transforms.incidents import incidents
from tests.pipeline.transforms.made import rows_of

MINUTE = 60_000


def episode(queue: str | None, verdict: str, start_ms: int, **more: Any) -> dict[str, Any]:
    end_ms = start_ms + MINUTE
    return dict.fromkeys(SCHEMAS[EPISODES].names) | {
        "profile": "prod", "server": "db1", "ns": "caf\\xe9", "queue": queue, "verdict": verdict, "start_ms": start_ms,
        "end_ms": end_ms, "ended": "over", "recovered_ms": end_ms, "cause": f"was {verdict}", **more,
    }  # fmt: skip


def test_the_table_is_what_the_rule_makes_of_the_episodes(spark: SparkSession) -> None:
    rows = [
        episode("a\\\\b\\xff", "growing", 0, affected=4, peak_depth=9),
        episode("a\\\\b\\xff", "stalled", MINUTE, affected=3, recovered_ms=None, ended="open"),
        episode(None, "down", 30 * MINUTE),
        episode("dead", "aged", 0),
    ]
    table = incidents(
        spark.createDataFrame(pa.Table.from_pylist(rows, SCHEMAS[EPISODES])), {"prod": Expected(("dead",))}
    )

    assert dict(table.dtypes) == columns_of(INCIDENTS)
    one, head = sorted(rows_of(table), key=lambda row: int(row["start_ms"]))
    assert len(one.pop("id")) == len(head.pop("id")) == 16
    assert one == {
        "profile": "prod", "server": "db1", "ns": "caf\\xe9", "queue": "a\\\\b\\xff", "head_id": None, "start_ms": 0,
        "end_ms": 2 * MINUTE, "ended": "open", "recovered_ms": None, "worst": "stalled",
        "verdicts": ["growing", "stalled"], "peak_depth": 9, "affected": 4, "episodes": 2, "cause": "was stalled",
    }  # fmt: skip
    assert (head["ns"], head["queue"], head["worst"], head["episodes"]) == ("", None, "down", 1)
