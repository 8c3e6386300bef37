"""The tables of an analysis, their columns, and the layout of files. Other programs read them: keep them compatible.

    OUT/_manifest.json             which files make up each table; replaced by one rename when a run is complete
    OUT/runs/<run>/<table>/...     the files, as Spark wrote them; none ever changes
    OUT/_checkpoint/...            how far the history has been read

A table consists of exactly the files that the manifest names: other files belong to a running, failed or old run.
Tables by day have their days as keys in the manifest; each run writes the others completely. Readers must select
columns by name: a later version may add some. Null means unknown, never 0.

``profile``, ``server`` and ``ns`` name a place, and with ``queue`` a queue; names are stored as
``rsmq_tui.history.names`` says. Times are in ms since 1970, UTC, by the clock of the Redis server. Spans end in ``_ms``
or ``_s``, rates in ``_s`` are messages a second.
"""

import pyarrow as pa

from rsmq_tui.history.schema import Column

VERSION = 2
MANIFEST_FILE, RUNS = "_manifest.json", "runs"

ROLLUP_10S, ROLLUP_1M, ROLLUP_1H = "rollup_10s", "rollup_1m", "rollup_1h"
VERDICT_RUNS, LIFECYCLE, POISON_DAYS = "verdict_runs", "lifecycle", "poison_days"
QUEUES, EPISODES, BASELINE, ANOMALIES, FORECAST = "queues", "episodes", "baseline", "anomalies", "forecast"
POISON, ADVICE = "poison", "advice"

WIDTHS_MS = {ROLLUP_10S: 10_000, ROLLUP_1M: 60_000, ROLLUP_1H: 3_600_000}
"""The roll-ups, and how long a bucket of each is."""

METRICS = ("depth", "oldest_ready_age_ms", "arrivals_s", "deletes_s", "receives_s", "redeliveries_s")
"""What the roll-ups hold statistics of."""

STATISTICS = ("min", "mean", "max", "p50", "p95", "p99")
"""The statistics of each metric: columns such as ``depth_p95``."""

_TEXT, _WHOLE, _FLOAT, _BYTES, _YES = pa.string(), pa.int64(), pa.float64(), pa.binary(), pa.bool_()

_PLACE = (
    Column("profile", _TEXT, "the profile's name, empty if the server was given by a URL"),
    Column("server", _TEXT, "the server's address"),
    Column("ns", _TEXT, "namespace"),
)
_QUEUE = (*_PLACE, Column("queue", _TEXT, "the queue"))

_ROLLUP = (
    Column("bucket_ms", _WHOLE, "when the bucket begins"),
    *_QUEUE,
    Column("kind", _TEXT, "rsmq or list"),
    Column("samples", _WHOLE, "samples in the bucket"),
    Column("covered_ms", _WHOLE, "how much of the bucket the counters cover; gaps are not covered"),
    Column(
        "arrivals",
        _WHOLE,
        "messages sent in the covered time; null if nothing is covered, and for lists, which count nothing",
    ),
    Column("deletes", _WHOLE, "messages deleted in the covered time"),
    Column("receives", _WHOLE, "receives in the covered time"),
    Column("redeliveries", _WHOLE, "receives beyond the first of each message, as derived from the counters"),
    Column("ready_mean", _FLOAT, "mean of ready"),
    Column("hidden_mean", _FLOAT, "mean of hidden"),
    *(
        Column(f"{metric}_{statistic}", _FLOAT, f"{statistic} of {metric} over the samples of the bucket")
        for metric in METRICS
        for statistic in STATISTICS
    ),
)
_SKETCHES = tuple(
    Column(f"{metric}_sketch", _BYTES, f"KLL sketch of {metric}, to be merged with others") for metric in METRICS
)
_HOUR_FACTS = (
    Column("vt_s", _FLOAT, "attribute vt in the last sample"),
    Column("maxsize", _WHOLE, "attribute maxsize in the last sample, -1 for no limit"),
    Column("last_ms", _WHOLE, "when the last sample was taken"),
    Column("last_depth", _WHOLE, "depth in the last sample"),
)
_RUNS = (
    *_PLACE,
    Column("queue", _TEXT, "the queue; null for a run of failed polls of the whole place, whose verdict is down"),
    Column("verdict", _TEXT, "ok, watching, growing, stalled, leaking, poisoned, aged, broken or down"),
    Column(
        "first_ms", _WHOLE, "the first sample of the run; a run that continues in the next hour is another run there"
    ),
    Column("last_ms", _WHOLE, "the last sample of the run"),
    Column(
        "continues",
        _YES,
        "whether there is no gap before the run; for failed polls, whether the poll before failed too",
    ),
    Column("samples", _WHOLE, "samples in the run"),
    Column("first_depth", _WHOLE, "depth in the first sample"),
    Column("last_depth", _WHOLE, "depth in the last sample"),
    Column("peak_depth", _WHOLE, "the greatest depth"),
    Column("peak_ready", _WHOLE, "the greatest number of ready messages"),
    Column("peak_ms", _WHOLE, "when the depth was greatest, first"),
    Column("peak_age_ms", _WHOLE, "the greatest age of the first ready message"),
    Column("arrivals", _WHOLE, "messages sent in the run, as far as it is covered"),
    Column("deletes", _WHOLE, "messages deleted"),
    Column("receives", _WHOLE, "receives"),
    Column("poison", _WHOLE, "the greatest number of messages received too often"),
    Column("highest_rc", _WHOLE, "the highest receive count"),
    Column("told", _TEXT, "why the queue was broken or the poll failed, in the first sample"),
    Column("kind", _TEXT, "rsmq or list"),
    Column("expired", _WHOLE, "of a list, the greatest number of leases past their deadline"),
)
_WAITING = tuple(Column(f"waiting_ms_{name}", _FLOAT, f"{name} of sent to first received") for name in STATISTICS)
_HOLDING = tuple(
    Column(f"holding_ms_{name}", _FLOAT, f"{name} of first received to deleted, of those seen to go")
    for name in STATISTICS
)
_LIFECYCLE = (
    *_QUEUE,
    Column("inventories", _WHOLE, "whole inventories that began on this day"),
    Column("messages", _WHOLE, "messages seen in them"),
    Column("received", _WHOLE, "those that were received at least once when last seen on this day"),
    Column("gone", _WHOLE, "those that were missing in the next whole inventory, of this day or the next"),
    *_WAITING,
    *_HOLDING,
    Column("rc_counts", pa.list_(_WHOLE), "messages by receive count when last seen: 0, 1, 2, ... 9, and 10 or more"),
    Column("poison", _WHOLE, "messages received too often"),
    Column("expired", _WHOLE, "received messages that came back at least once"),
    Column(
        "final_received",
        _WHOLE,
        "of received, those that are not in the first inventory of the next day; can be added up over days",
    ),
    Column("final_expired", _WHOLE, "of these, those that came back at least once"),
    Column("last_inventory_ms", _WHOLE, "when the last whole inventory of the day began"),
    Column("holding_ms_sketch", _BYTES, "KLL sketch of the holding times, to be merged with others; null if none is"),
)
_POISON = (
    *_QUEUE,
    Column("id", _TEXT, "the message"),
    Column("sent_ms", _WHOLE, "when it was sent; null if its id contains no time"),
    Column("fr_ms", _WHOLE, "when it was first received"),
    Column("rc", _WHOLE, "how often it was received, when last seen"),
    Column("size", _WHOLE, "length of its body"),
    Column("first_seen_ms", _WHOLE, "the first inventory that showed it received too often"),
    Column("last_seen_ms", _WHOLE, "the last inventory that showed it"),
)

BY_DAY: dict[str, tuple[Column, ...]] = {
    ROLLUP_10S: _ROLLUP,
    ROLLUP_1M: _ROLLUP,
    ROLLUP_1H: (*_ROLLUP, *_HOUR_FACTS, *_SKETCHES),
    VERDICT_RUNS: _RUNS,
    LIFECYCLE: _LIFECYCLE,
    POISON_DAYS: _POISON,
}
WHOLE: dict[str, tuple[Column, ...]] = {
    QUEUES: (
        *_QUEUE,
        Column("kind", _TEXT, "rsmq or list"),
        Column("first_ms", _WHOLE, "the first hour that it was seen in"),
        Column("last_ms", _WHOLE, "when it was last seen"),
        Column("samples", _WHOLE, "samples of it"),
        Column("peak_depth", _WHOLE, "the greatest depth"),
        Column("last_depth", _WHOLE, "depth when last seen"),
    ),
    EPISODES: (
        *_PLACE,
        Column("queue", _TEXT, "the queue; null if the whole place was down"),
        Column("verdict", _TEXT, "growing, stalled, leaking, poisoned, aged, broken or down"),
        Column("start_ms", _WHOLE, "the first sample in trouble"),
        Column("end_ms", _WHOLE, "the first sample after the trouble, or the last known one if ended is not 'over'"),
        Column("ended", _TEXT, "over; unknown if a gap follows; open if the history ends in the episode"),
        Column("recovered_ms", _WHOLE, "when it was next ok, with nothing unknown in between; null if not known"),
        Column("peak_depth", _WHOLE, "the greatest depth"),
        Column("peak_ready", _WHOLE, "the greatest number of ready messages"),
        Column("peak_ms", _WHOLE, "when the depth was greatest, first"),
        Column("peak_age_ms", _WHOLE, "the greatest age of the first ready message"),
        Column("affected", _WHOLE, "messages affected: see rsmq_tui.pipeline.transforms.outlook"),
        Column("cause", _TEXT, "why, in one sentence"),
    ),
    BASELINE: (
        *_QUEUE,
        Column("metric", _TEXT, "depth, oldest_ready_age_ms, arrivals_s, deletes_s or receives_s"),
        Column("hour_of_week", _WHOLE, "0 is Monday 00:00 UTC, 167 Sunday 23:00"),
        Column("hours", _WHOLE, "number of hours that the median is computed from"),
        Column("median", _FLOAT, "median of the hourly means"),
        Column("mad", _FLOAT, "median absolute deviation from it"),
    ),
    ANOMALIES: (
        Column("bucket_ms", _WHOLE, "when the hour begins"),
        *_QUEUE,
        Column("metric", _TEXT, "the unusual metric"),
        Column("value", _FLOAT, "its hourly mean"),
        Column("median", _FLOAT, "the usual value at that hour of the week"),
        Column("mad", _FLOAT, "how much it varies"),
        Column("score", _FLOAT, "robust standard deviations away, negative below"),
    ),
    FORECAST: (
        *_QUEUE,
        Column("metric", _TEXT, "depth or oldest_ready_age_ms"),
        Column("at_ms", _WHOLE, "the last hour of the trend"),
        Column("value", _FLOAT, "its mean in that hour"),
        Column("slope_s", _FLOAT, "growth per second"),
        Column("hours", _WHOLE, "number of hours of the trend"),
        Column("limit", _FLOAT, "the limit"),
        Column("reaches_ms", _WHOLE, "when it reaches the limit; at_ms if it already has; null if it does not grow"),
        Column("told", _TEXT, "the same in one sentence"),
    ),
    POISON: (*_POISON, Column("is_there", _YES, "whether the last whole inventory of its queue still held it")),
    ADVICE: (
        *_QUEUE,
        Column("vt_s", _FLOAT, "attribute vt as last seen"),
        Column("received", _WHOLE, "number of received messages that this is based on"),
        Column("expired_share", _FLOAT, "share of them that became visible again before they were deleted"),
        Column(
            "holding_ms_p99",
            _FLOAT,
            "99 % of the messages seen to go were deleted within this time after their first receive",
        ),
        Column("advised_vt_s", _FLOAT, "the vt that would cover 99 %; null if too little is known"),
        Column("told", _TEXT, "the advice in one sentence"),
    ),
}
COLUMNS = {**BY_DAY, **WHOLE}
SCHEMAS = {
    table: pa.schema([pa.field(column.name, column.type) for column in columns]) for table, columns in COLUMNS.items()
}
