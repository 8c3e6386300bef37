"""All tables over all days, from the tables by day, and the incidents of the episodes."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from rsmq_tui.history.analysis.incidents import incidents_of
from rsmq_tui.history.analysis.schema import (
    ADVICE,
    ANOMALIES,
    BASELINE,
    EPISODES,
    FORECAST,
    INCIDENTS,
    LIFECYCLE,
    POISON,
    POISON_DAYS,
    QUEUES,
    ROLLUP_1H,
    VERDICT_RUNS,
)
from rsmq_tui.history.analysis.values import Episode
from rsmq_tui.history.names import Place, read_name, stored_name
from rsmq_tui.monitor.incidents import Expected
from rsmq_tui.pipeline.state import Settings
from rsmq_tui.pipeline.transforms.advice import advice
from rsmq_tui.pipeline.transforms.baselines import anomalies, baseline
from rsmq_tui.pipeline.transforms.columns import conform
from rsmq_tui.pipeline.transforms.episodes import episodes_of
from rsmq_tui.pipeline.transforms.forecasts import forecast
from rsmq_tui.pipeline.transforms.inventories import poison
from rsmq_tui.pipeline.transforms.samples import QUEUE, last_known

WHOLE_SOURCES = {
    QUEUES: (ROLLUP_1H,),
    EPISODES: (VERDICT_RUNS,),
    INCIDENTS: (VERDICT_RUNS,),
    BASELINE: (ROLLUP_1H,),
    ANOMALIES: (ROLLUP_1H,),
    FORECAST: (ROLLUP_1H,),
    POISON: (POISON_DAYS, LIFECYCLE),
    ADVICE: (LIFECYCLE, ROLLUP_1H),
}
"""The tables over all days, and the tables by day that each is computed from."""


def whole_tables(tables: Mapping[str, DataFrame], settings: Settings) -> dict[str, DataFrame]:
    """Return the tables over all days; ``tables`` are those in ``WHOLE_SOURCES``, with all of their days.

    ``incidents`` is computed from the rows of ``episodes`` once they are written.
    """
    hours, lifecycle = tables[ROLLUP_1H], tables[LIFECYCLE]
    return {
        QUEUES: queues(hours),
        EPISODES: episodes_of(tables[VERDICT_RUNS]),
        BASELINE: baseline(hours, settings),
        ANOMALIES: anomalies(hours, settings),
        FORECAST: forecast(hours, settings),
        POISON: poison(tables[POISON_DAYS], lifecycle),
        ADVICE: advice(lifecycle, hours),
    }


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


_EPISODE_FIELDS = [field.name for field in fields(Episode) if field.name != "place"]


def incidents(episodes: Iterable[Mapping[str, Any]], settings: Settings) -> list[dict[str, Any]]:
    """Return the rows of the table ``incidents``, from those of ``episodes``.

    It is computed by this process, by the rule that replays use (see ``rsmq_tui.history.analysis.incidents``): there
    are few episodes beside samples.
    """
    expected = {profile: Expected.of_lists(*lists) for profile, lists in settings.expected.items()}
    found = []
    for row in episodes:
        place = Place(read_name(row["profile"]), row["server"], read_name(row["ns"]))
        values = {name: row[name] for name in _EPISODE_FIELDS}
        values["queue"] = None if row["queue"] is None else read_name(row["queue"])
        found.append(Episode(place=place, **values))
    rows = []
    for incident in incidents_of(found, expected):
        place = incident.place
        names = {"profile": stored_name(place.profile), "server": place.server, "ns": stored_name(place.ns)}
        queue = None if incident.queue is None else stored_name(incident.queue)
        rows.append(asdict(incident) | names | {"queue": queue, "verdicts": list(incident.verdicts)})
    return rows
