"""The tables over all days, made of the tables of each day."""

from collections.abc import Mapping

from pyspark.sql import DataFrame

from rsmq_tui.history.analysis.schema import (
    ADVICE,
    ANOMALIES,
    BASELINE,
    EPISODES,
    FORECAST,
    LIFECYCLE,
    POISON,
    POISON_DAYS,
    QUEUES,
    ROLLUP_1H,
    VERDICT_RUNS,
)
from rsmq_tui.pipeline.settings import Settings
from rsmq_tui.pipeline.transforms.advice import advice
from rsmq_tui.pipeline.transforms.anomalies import anomalies
from rsmq_tui.pipeline.transforms.baseline import baseline
from rsmq_tui.pipeline.transforms.episodes import episodes_of
from rsmq_tui.pipeline.transforms.forecast import forecast
from rsmq_tui.pipeline.transforms.poison import poison
from rsmq_tui.pipeline.transforms.queues import queues


def whole_tables(tables: Mapping[str, DataFrame], settings: Settings) -> dict[str, DataFrame]:
    """Return every table that is not kept by day; ``tables`` are those that are, with all of their days."""
    hours, lifecycle = tables[ROLLUP_1H], tables[LIFECYCLE]
    return {
        QUEUES: queues(hours),
        EPISODES: episodes_of(tables[VERDICT_RUNS]),
        BASELINE: baseline(hours),
        ANOMALIES: anomalies(hours, settings.anomaly_score),
        FORECAST: forecast(hours, settings),
        POISON: poison(tables[POISON_DAYS], lifecycle),
        ADVICE: advice(lifecycle, hours),
    }
