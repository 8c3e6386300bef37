"""Why a queue was in trouble, in one sentence of plain words."""

from pyspark.sql import Column
from pyspark.sql import functions as sf

from rsmq_tui.pipeline.transforms.wording import count, duration, plural, rate


def cause() -> Column:
    """Return the sentence for an episode, from its columns and ``span_ms``, how long it went on as far as is known.

    It names no queue. Why a place could not be polled or a queue was broken is as the server told: that may be any
    text, and whoever prints it makes it harmless.
    """
    verdict, is_list = sf.col("verdict"), sf.col("kind").eqNullSafe("list")
    return (
        sf.when((verdict == "stalled") & is_list, _stalled_list())
        .when(verdict == "leaking", _leaking())
        .when((verdict == "growing") & is_list, _growing_list())
        .when(verdict == "growing", _growing())
        .when(
            verdict == "stalled",
            sf.concat(plural(_known("peak_ready"), "message"), _text(" ready and none received"), _span()),
        )
        .when(
            verdict == "aged",
            sf.concat(_text("the first ready message was up to "), duration(sf.col("peak_age_ms")), _text(" old")),
        )
        .when(verdict == "poisoned", _poisoned())
        .when(verdict == "broken", sf.coalesce("told", _text("its keys disagree")))
        .when(verdict == "down", sf.concat(sf.coalesce("told", _text("no poll succeeded")), _span()))
        .otherwise(verdict)
    )


def _growing() -> Column:
    net_s = sf.try_divide(sf.try_subtract("arrivals", "deletes"), sf.col("span_ms") / 1000)
    by = _if(net_s > 0, _text(" by "), rate(net_s), _text("/s"))
    first, peak = sf.col("first_depth"), sf.col("peak_depth")
    rose = _if(peak > first, _text("; depth rose from "), count(first), _text(" to "), count(peak))
    return sf.concat(_text("arrivals exceeded deletes"), by, _span(), rose)


def _growing_list() -> Column:
    """Say by how much a list grew: nothing counts its arrivals and deletes."""
    first, peak = sf.col("first_depth"), sf.col("peak_depth")
    rose = _if(peak > first, _text(": depth rose from "), count(first), _text(" to "), count(peak))
    return sf.concat(_text("more was pushed than taken"), _span(), rose)


def _stalled_list() -> Column:
    """Say that none was taken, or that leases expired: older histories have the same verdict for both."""
    items = sf.concat(plural(_known("peak_ready"), "item"), _text(" ready and none taken"), _span())
    return sf.when(sf.col("expired") > _known("peak_ready"), _leaking()).otherwise(items)


def _leaking() -> Column:
    return sf.concat(plural(_known("expired"), "lease"), _text(" expired and not returned"), _span())


def _poisoned() -> Column:
    highest = sf.col("highest_rc")
    return sf.concat(
        sf.when(sf.col("poison") > 0, plural(sf.col("poison"), "message")).otherwise("messages"),
        _text(" received too often"),
        _if(highest.isNotNull(), _text(" (up to "), plural(_known("highest_rc"), "time"), _text(")")),
    )


def _span() -> Column:
    """Say for how long; nothing where it was seen in one sample only."""
    return _if(sf.col("span_ms") > 0, _text(" for "), duration(sf.col("span_ms")))


def _if(condition: Column, *words: Column) -> Column:
    return sf.when(condition, sf.concat(*words)).otherwise("")


def _known(name: str) -> Column:
    return sf.coalesce(name, sf.lit(0))


def _text(words: str) -> Column:
    return sf.lit(words)
