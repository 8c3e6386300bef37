"""The tables of samples that are kept by day."""

from collections.abc import Callable, Collection

from pyspark.sql import DataFrame
from pyspark.storagelevel import StorageLevel

from rsmq_tui.history.analysis.schema import ROLLUP_1H, ROLLUP_1M, ROLLUP_10S, VERDICT_RUNS
from rsmq_tui.pipeline.transforms.rollups import minutes_of, rollup_1h, rollup_1m, rollup_10s
from rsmq_tui.pipeline.transforms.runs import verdict_runs
from rsmq_tui.pipeline.transforms.samples import told_samples


def persisted(rows: DataFrame) -> DataFrame:
    """Let Spark keep rows once they are worked out, in memory as far as that goes and else on disk."""
    return rows.persist(StorageLevel.MEMORY_AND_DISK)


def sample_tables(
    samples: DataFrame, hours: Collection[int], keep: Callable[[DataFrame], DataFrame] = persisted
) -> dict[str, DataFrame]:
    """Return the tables of some hours, each with ``day`` in front.

    ``samples`` are rows of a history: of these hours, and of the hour before each; other rows do no harm. What all four
    tables are made from goes through ``keep``, so that it is worked out once; whoever asks lets go of it.
    """
    # Reading, shuffling and sorting the samples is more than half the work of each table.
    told = keep(told_samples(samples, hours))
    minutes = minutes_of(told)
    return {
        ROLLUP_10S: rollup_10s(told),
        ROLLUP_1M: rollup_1m(minutes),
        ROLLUP_1H: rollup_1h(minutes),
        VERDICT_RUNS: verdict_runs(told),
    }
