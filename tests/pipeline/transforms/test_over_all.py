"""All tables over all days come out of the tables by day, with the columns that are promised, also of nothing."""

import pyarrow as pa
from pyspark.sql import SparkSession

from rsmq_tui.history.analysis.schema import BY_DAY, INCIDENTS, SCHEMAS, WHOLE
from rsmq_tui.pipeline.state import AnalysisSettings
from rsmq_tui.pipeline.transforms.columns import columns_of
from rsmq_tui.pipeline.transforms.whole import whole_tables


def test_nothing_gives_empty_tables(spark: SparkSession) -> None:
    nothing = {
        name: spark.createDataFrame(SCHEMAS[name].insert(0, pa.field("day", pa.string())).empty_table())
        for name in BY_DAY
    }

    tables = whole_tables(nothing, AnalysisSettings(depth_limit=100))

    assert tables.keys() == WHOLE.keys() - {INCIDENTS}
    for name, df in tables.items():
        assert dict(df.dtypes) == columns_of(name)
        assert df.isEmpty(), name
