"""What a report says of changes is true of an analysis that the pipeline made of a real recording."""

from pathlib import Path
from typing import Any, cast

from pyspark.sql import SparkSession

from rsmq_tui.history.analysis.reading import Analysis
from rsmq_tui.history.analysis.schema import ROLLUP_1M
from rsmq_tui.history.report.facts import gather
from rsmq_tui.monitor.changes import read_changes
from rsmq_tui.monitor.moments import MINUTE_MS
from rsmq_tui.pipeline.run import Job, PipelineRun
from rsmq_tui.pipeline.state import AnalysisSettings
from tests.history.operated import PURGED, operated
from tests.pipeline.running import SharedEngine

DONE = PURGED + 49


async def test_a_purge_and_its_undo(spark: SparkSession, tmp_path: Path) -> None:
    recorded = await operated(tmp_path)
    job = Job(str(recorded.history), str(tmp_path / "out"), AnalysisSettings())
    PipelineRun(job, tmp_path / "state", cast(Any, lambda *_: SharedEngine(spark))).run()
    analysis = Analysis(tmp_path / "out")
    span = analysis.span()
    assert span is not None
    report = gather(analysis, span, audited=read_changes([recorded.log]))

    purge, undo = report.changes
    assert (purge.at_ms, undo.at_ms) == tuple(recorded.changed_ms)
    assert (purge.undone, purge.undone_ms) == (DONE, undo.at_ms)
    # Nobody consumed anything: all deletes that the analysis counts are those of the purge.
    of_purge, of_undo = report.counted
    assert (of_purge.change, of_purge.metric, of_purge.number, of_purge.total) == (purge, "deletes", DONE, DONE)
    assert of_purge.span.from_ms <= purge.at_ms < of_purge.span.to_ms <= of_purge.span.from_ms + 2 * MINUTE_MS
    # Of what an undo put back, only the minute of one message that was sent is counted, as not deleted.
    assert (of_undo.change, of_undo.metric, of_undo.number, of_undo.total) == (undo, "deletes", -DONE, 0)
    rows = analysis.read(ROLLUP_1M, ("arrivals", "deletes")).to_pylist()
    assert sum(row["deletes"] for row in rows) == DONE
    assert sum(row["arrivals"] for row in rows) == 119
