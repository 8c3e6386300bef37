"""The tables of a history in files: against another engine, with a kill, an outage, and a file that comes late."""

from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from rsmq_tui.history.analysis.schema import ROLLUP_1M, VERDICT_RUNS, WIDTHS_MS
from rsmq_tui.history.schema import SAMPLES
from rsmq_tui.history.synthetic import Generator, HistorySpec
from rsmq_tui.pipeline.folder import Folder
from rsmq_tui.pipeline.tables import BEGINS, history_rows
from rsmq_tui.pipeline.transforms.samples import sample_tables
from rsmq_tui.pipeline.work_plan import hours_to_work
from tests.pipeline.transforms import reference
from tests.pipeline.transforms.made import Row, arrow, failed, in_order, poll, rows_of

S, MINUTE, HOUR = 1000, 60_000, 3_600_000
# On this day the clocks of Berlin go from 2:00 to 3:00, which is at 1:00 UTC.
DAY = "2031-03-30"
START_MS = round(datetime(2031, 3, 30, tzinfo=UTC).timestamp() * 1000)
# Messages a second.
SENT_S, DELETED_S = 7, 5


@pytest.fixture(autouse=True)
def kept_rows_are_let_go(spark: SparkSession) -> Iterator[None]:
    yield
    spark.catalog.clearCache()


def seen(recorder: str, every_ms: int, from_ms: int, to_ms: int) -> list[Row]:
    """What a recorder saw of a queue, whose counters are the server's."""
    rows: list[Row] = []
    for at_ms in range(from_ms, to_ms, every_ms):
        second = (at_ms - START_MS) // S
        sent, deleted = SENT_S * second, DELETED_S * second
        counters = {"totalsent": sent, "totalrecv": deleted, "depth": sent - deleted, "ready": sent - deleted}
        verdict = "growing" if second > 700 else "ok"
        interval_ms = None if at_ms == from_ms else every_ms
        rows += poll(at_ms, interval_ms, {**counters, "verdict": verdict}, recorder=recorder)
    return rows


def add(history: Path, name: str, rows: Iterable[Row]) -> None:
    folder = history / SAMPLES / f"day={DAY}"
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(arrow(rows), folder / f"{name}-000001.parquet")


def work(spark: SparkSession, history: Path, state: Path, hours: Collection[int]) -> dict[str, list[Row]]:
    """The tables of some hours, of the files that are there."""
    folders = sorted(f"{SAMPLES}/{path.name}" for path in (history / SAMPLES).iterdir())
    samples = history_rows(spark, Folder(str(history), state), SAMPLES, folders, [])
    return {table: rows_of(df) for table, df in sample_tables(samples, hours).items()}


def test_a_recorded_and_a_generated_history_are_the_same_to_another_engine(spark: SparkSession, tmp_path: Path) -> None:
    history = tmp_path / "history"
    Generator(HistorySpec(START_MS + HOUR // 2, START_MS + 3 * HOUR // 2, 2, 30 * S, lists=1), history).run()
    killed_ms, down_ms = START_MS + 7 * MINUTE + 23 * S, START_MS + 15 * MINUTE
    end_ms = down_ms + 5 * MINUTE
    again = seen("again", S, killed_ms + 2 * S, down_ms) + seen("again", S, down_ms + 30 * S, end_ms)
    again += [row for at_ms in range(down_ms, down_ms + 30 * S, S) for row in failed(at_ms, recorder="again")]
    add(history, "dense", seen("dense", S, START_MS, killed_ms))
    add(history, "again", again)
    first, last = START_MS // HOUR - 1, START_MS // HOUR + 2

    found = work(spark, history, tmp_path, range(first, last + 1))
    add(
        history,
        "late",
        seen("late", 45 * S, START_MS + 11 * S, down_ms) + seen("late", 45 * S, down_ms + 40 * S, end_ms),
    )
    touched = hours_to_work([START_MS // HOUR], [DAY])
    anew = work(spark, history, tmp_path, touched)

    expected = reference.tables_of(f"{history}/{SAMPLES}/*/*.parquet")
    for table in (*WIDTHS_MS, VERDICT_RUNS):
        begins = BEGINS[table]
        kept = [row for row in found[table] if row[begins] // HOUR not in touched]
        reference.assert_same(in_order(kept + anew[table]), in_order(expected[table]))
    recorded = [row for row in anew[ROLLUP_1M] if row["server"] == "redis://db1:6379/0"]
    # All that was sent, but for the time between the last poll before the outage and the first one after it.
    known_s = 15 * 60 - 1 + 5 * 60 - 1 - 30
    assert sum(row["covered_ms"] for row in recorded) == known_s * S
    assert sum(row["arrivals"] or 0 for row in recorded) == known_s * SENT_S
    assert sum(row["deletes"] or 0 for row in recorded) == known_s * DELETED_S
