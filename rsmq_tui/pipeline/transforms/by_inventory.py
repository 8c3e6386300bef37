"""The tables of each day that come from the inventories of messages."""

from collections.abc import Sequence

from pyspark.sql import DataFrame

from rsmq_tui.history.analysis.schema import LIFECYCLE, POISON_DAYS
from rsmq_tui.pipeline.settings import Settings
from rsmq_tui.pipeline.transforms.inventories import inventories, observed, sightings
from rsmq_tui.pipeline.transforms.lifecycle import fates, lifecycle
from rsmq_tui.pipeline.transforms.poison import poison_days


def message_tables(messages: DataFrame, days: Sequence[str], settings: Settings) -> dict[str, DataFrame]:
    """Return ``lifecycle`` and ``poison_days`` of these days, with ``day`` in front.

    ``messages`` are the recorded rows of these days and of the day after each, in which the inventories lie that
    follow those of the day. Days may be told together or one by one: the tables are the same.

    The inventories, a row each, stay in Spark's cache until its owner clears it.
    """
    rows = observed(messages, days)
    # Four places ask for them, and each would read all messages for it.
    found = inventories(rows).cache()
    ends = fates(sightings(rows, found, days), found)
    return {
        LIFECYCLE: lifecycle(ends, found, days, settings.poison_rc),
        POISON_DAYS: poison_days(rows, found, days, settings.poison_rc),
    }
