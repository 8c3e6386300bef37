"""Every queue that was ever seen, and as it was when it was last seen."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from rsmq_tui.history.analysis.schema import QUEUES
from rsmq_tui.pipeline.transforms.conforming import conform
from rsmq_tui.pipeline.transforms.samples import QUEUE


def queues(hours: DataFrame) -> DataFrame:
    """Return the table ``queues``, from ``rollup_1h`` of all days."""
    return conform(
        hours.where(sf.col("queue").isNotNull())
        .groupBy(*QUEUE)
        .agg(
            sf.min("bucket_ms").alias("first_ms"),
            sf.max("last_ms").alias("last_ms"),
            sf.sum("samples").alias("samples"),
            sf.max("depth_max").alias("peak_depth"),
            *(last_known(name) for name in ("kind", "last_depth")),
        ),
        QUEUES,
    )


def last_known(name: str) -> Column:
    """Return the aggregate that tells a column of ``rollup_1h`` in the last hour that knows it."""
    return sf.max_by(name, sf.when(sf.col(name).isNotNull(), sf.col("bucket_ms"))).alias(name)
