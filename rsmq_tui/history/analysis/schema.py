"""The tables of an analysis, their columns, and the layout of files. Other programs read them: keep them compatible.

    OUT/_manifest.json             which files make up each table; replaced by one rename when a run is complete
    OUT/tables/<table>/<run>/...   the files, as Spark wrote them; none ever changes
    OUT/tables/<table>/_delta_log  the log of the table as a Delta table, which names the same files

A table consists of exactly the files that the manifest names: other files belong to a running, failed or old run.
Tables by day have their days as keys in the manifest; each run writes the others completely. Version 2 kept the files
in OUT/runs/<run>/<table>. Readers must select columns by name: a later version may add some. Null means unknown, never
0.

``profile``, ``server`` and ``ns`` name a place, and with ``queue`` a queue; names are stored as
``rsmq_tui.history.names`` says. Times are in ms since 1970, UTC, by the clock of the Redis server. Spans end in ``_ms``
or ``_s``, rates in ``_s`` are messages a second.
"""

from rsmq_tui.history.schema import TROUBLES, VERDICTS, columns_in, schemas_of

VERSION = 3
MANIFEST_FILE, FILES = "_manifest.json", "tables"

ROLLUP_10S, ROLLUP_1M, ROLLUP_1H = "rollup_10s", "rollup_1m", "rollup_1h"
PLACES, VERDICT_RUNS, SERVER_RUNS = "places", "verdict_runs", "server_runs"
LIFECYCLE, POISON_DAYS = "lifecycle", "poison_days"
QUEUES, EPISODES, BASELINE, ANOMALIES, FORECAST = "queues", "episodes", "baseline", "anomalies", "forecast"
POISON, ADVICE, INCIDENTS = "poison", "advice", "incidents"
SOURCES, RUNS = "sources", "runs"

WIDTHS_MS = {ROLLUP_10S: 10_000, ROLLUP_1M: 60_000, ROLLUP_1H: 3_600_000}
"""The roll-ups, and how long a bucket of each is."""

METRICS = ("depth", "oldest_ready_age_ms", "arrivals_s", "deletes_s", "receives_s", "redeliveries_s")
"""What the roll-ups hold statistics of."""

USUAL_HOURS_MIN = 6
"""The minimum number of hours that tell what is usual at an hour of the week: those of two weeks."""

STATISTICS = ("min", "mean", "max", "p50", "p95", "p99")
"""The statistics of each metric: columns such as ``depth_p95``."""

_PLACE = """\
profile: text: the profile's name, empty if the server was given by a URL
server: text: the server's address
ns: text: namespace
"""
_QUEUE = f"{_PLACE}queue: text: the queue\n"


def _each(line: str, *names: str) -> str:
    """Return a line for each name, in place of ``@`` in it."""
    return "".join(f"{line}\n".replace("@", name) for name in names)


_ROLLUP = f"""\
bucket_ms: whole: when the bucket begins
{_QUEUE}\
kind: text: rsmq or list
samples: whole: samples in the bucket
covered_ms: whole: how much of the bucket the counters cover; gaps are not covered
arrivals: whole: messages sent in the covered time, so without those sent during an outage or a gap; null if nothing is
    covered, and for lists, which count nothing
deletes: whole: messages deleted in the covered time
receives: whole: receives in the covered time
redeliveries: whole: messages that came back after a receive, derived from the counters: receives minus deletes minus
    the change of hidden, less what delayed messages that became due may account for. Messages that were moved into the
    queue count too, as far as more were deleted until the next poll
ready_mean: float: mean of ready
hidden_mean: float: mean of hidden
oldest_ready_waiting_ms_mean: float: mean of oldest_ready_waiting_ms; null if none is ready, and in older tables
oldest_ready_waiting_ms_max: float: the greatest oldest_ready_waiting_ms
""" + "".join(
    _each(f"{metric}_@: float: @ of {metric} over the samples of the bucket", *STATISTICS) for metric in METRICS
)
_POISON = f"""\
{_QUEUE}\
id: text: the message
sent_ms: whole: when it was sent; null if its id contains no time
fr_ms: whole: when it was first received
rc: whole: how often it was received, when last seen
size: whole: length of its body
first_seen_ms: whole: the first inventory that showed it received too often
last_seen_ms: whole: the last inventory that showed it
"""

_BY_DAY = {
    # Only of samples that were polled more often than every 9.5 s, or as the first after a break.
    ROLLUP_10S: _ROLLUP,
    ROLLUP_1M: _ROLLUP,
    ROLLUP_1H: f"""\
{_ROLLUP}\
vt_s: float: attribute vt in the last sample
maxsize: whole: attribute maxsize in the last sample, -1 for no limit
last_ms: whole: when the last sample was taken
last_depth: whole: depth in the last sample
{_each("@_known: whole: samples that know @", *METRICS)}\
{_each("@_quantiles: floats: @ at 0, 1, 2, ... and 100 % of these, by nearest rank", *METRICS)}""",
    PLACES: f"""\
width_ms: whole: how long the bucket is: that of rollup_10s, rollup_1m or rollup_1h
bucket_ms: whole: when the bucket begins
{_PLACE}\
queues: whole: queues that have samples in the bucket
samples: whole: the greatest number of samples of a queue
covered_ms: whole: how much of the bucket the counters cover, of the queue where that is most
arrivals: whole: messages sent in the covered time, to all queues; null if nothing is covered
deletes: whole: messages deleted in the covered time
receives: whole: receives in the covered time
redeliveries: whole: messages that came back after a receive; see rollup_1h
ready_mean: float: the sum of the means of ready
hidden_mean: float: the sum of the means of hidden
"""
    + "".join(
        _each(f"{metric}_@: float: the sum of @ over the queues; of ages, the maximum", *STATISTICS)
        for metric in METRICS
    )
    + _each("@_greatest: float: the greatest @ of a queue", *METRICS),
    VERDICT_RUNS: f"""\
{_PLACE}\
queue: text: the queue; null for a run of polls of the whole namespace, whose verdict is down if they failed, and ok if
    they succeeded; older tables have only those that failed
verdict: text: {VERDICTS}, or down
first_ms: whole: the first sample of the run; a run that continues in the next hour is another run there
since_ms: whole: when the condition of the verdict began, as recorded; null for ok, broken and down, and if unknown
last_ms: whole: the last sample of the run
continues: flag: whether there is no gap before the run, and the queue is the same as before; for polls, whether the one
    before failed or succeeded too
samples: whole: samples in the run
first_depth: whole: depth in the first sample
last_depth: whole: depth in the last sample
peak_depth: whole: the greatest depth
peak_ready: whole: the greatest number of ready messages
peak_ms: whole: when the depth was greatest, first
peak_age_ms: whole: the greatest age of the first ready message
arrivals: whole: messages sent in the run, as far as it is covered
deletes: whole: messages deleted
receives: whole: receives
poison: whole: the greatest number of messages received too often
highest_rc: whole: the highest receive count
told: text: why the queue was broken or the poll failed, in the first sample
kind: text: rsmq or list
expired: whole: of a list, the greatest number of leases past their deadline
pending_since_ms: whole: in the last sample, for a trouble, the time since which its condition does not hold; null if it
    holds, in older tables, and if older files do not say
created_ms: whole: when the queue was created, in the first sample; a queue that was created at another time is another
    one; null for lists and polls, and in older tables
since_depth: whole: of a growing queue, depth at since_ms, in the first sample; null if unknown, and in older tables
""",
    SERVER_RUNS: f"""\
{_PLACE}\
run_id: text: the run id of the server that answered; it is another one after a restart or a failover
first_ms: whole: the first poll in an hour that read it; older recordings do not have it
last_ms: whole: the last poll in that hour that read it
started_ms: whole: when that server was started, to about a second
""",
    LIFECYCLE: f"""\
{_QUEUE}\
inventories: whole: whole inventories that began on this day
messages: whole: messages seen in them
received: whole: those that were received at least once when last seen on this day
gone: whole: those that were missing in the next whole inventory, of this day or the next
{_each("waiting_ms_@: float: @ of sent to first received", *STATISTICS)}\
{_each("holding_ms_@: float: @ of first received to deleted, of those seen to go", *STATISTICS)}\
holding_error_ms: float: 99 % of these times are wrong by at most this: half of the time between two inventories
rc_counts: wholes: messages by receive count when last seen: 0, 1, 2, ... 9, and 10 or more
poison: whole: messages received too often
expired: whole: received messages that came back at least once
final_received: whole: of received, those that are not in the first inventory of the next day; can be added up over days
final_expired: whole: of these, those that came back at least once
last_inventory_ms: whole: when the last whole inventory of the day began
holding_ms_known: whole: messages whose holding time is known
holding_ms_quantiles: floats: the holding time at 0, 1, 2, ... and 100 % of these; null if none is
""",
    POISON_DAYS: _POISON,
}
_WHOLE = {
    QUEUES: f"""\
{_QUEUE}\
kind: text: rsmq or list
first_ms: whole: the first hour that it was seen in
last_ms: whole: when it was last seen
samples: whole: samples of it
peak_depth: whole: the greatest depth
last_depth: whole: depth when last seen
""",
    EPISODES: f"""\
{_PLACE}\
queue: text: the queue; null if the whole namespace was down
verdict: text: {TROUBLES}, or down
start_ms: whole: when the condition of the verdict began, as recorded; the first sample in trouble if that is unknown
end_ms: whole: when the condition of the verdict stopped holding; if that is not recorded, the first sample after the
    trouble, or the last known one if ended is not 'over'
ended: text: over; unknown if a gap follows, or the queue was gone; open if the history ends in the episode
recovered_ms: whole: the end of the last trouble before it was next ok, with nothing unknown in between; null if not
    known
peak_depth: whole: the greatest depth
peak_ready: whole: the greatest number of ready messages
peak_ms: whole: when the depth was greatest, first
peak_age_ms: whole: the greatest age of the first ready message
affected: whole: messages affected: see rsmq_tui.pipeline.transforms.episodes
cause: text: why, in one sentence
created_ms: whole: when the queue was created; null for lists, if the whole namespace was down, and in older tables
answered_ms: whole: of a place that was down, the last poll that succeeded before that; null if there is none within a
    minute, for a queue, and in older tables
failed_ms: whole: of a place that was down, the last poll that failed; null for a queue, and in older tables
""",
    INCIDENTS: f"""\
profile: text: the profile's name, empty if the server was given by a URL
server: text: the server's address
ns: text: namespace; empty for the head of a server
queue: text: the queue; null for the head of a server, which stands for what happened together in it: an outage, or
    incidents of several queues that began within a minute
id: text: identifies the incident: computed from the names above and start_ms
head_id: text: the head that the incident belongs to; null for a head, and for an incident of its own
start_ms: whole: when the first condition began
end_ms: whole: when the last episode ended, or the last known time of it if ended is not 'over'
ended: text: over; unknown if a gap follows; open if the history ends in the incident
recovered_ms: whole: the end of the last trouble before the queue was next ok, with nothing unknown in between; null if
    not known
worst: text: the worst verdict: down, {TROUBLES}
verdicts: texts: all verdicts in the order in which they began, each once
peak_depth: whole: the greatest depth; for a head, of one queue
affected: whole: the most messages that one episode affected; for a head, the sum over its incidents
episodes: whole: number of episodes
cause: text: the cause of the longest episode with the worst verdict, in one sentence
""",
    BASELINE: f"""\
{_QUEUE}\
metric: text: depth, oldest_ready_age_ms, arrivals_s, deletes_s or receives_s
hour_of_week: whole: 0 is Monday 00:00, 167 Sunday 23:00, on the clocks of the zone
hours: whole: number of hours that the median is computed from
median: float: median of the hourly means at this hour of the week, the one before and the one after, of four weeks
mad: float: median absolute deviation from it
zone: text: the time zone, such as Europe/Berlin; null in older tables, for UTC
""",
    ANOMALIES: f"""\
bucket_ms: whole: when the hour begins
{_QUEUE}\
metric: text: the unusual metric
value: float: its hourly mean
median: float: the usual value at that hour of the week, in the four weeks before
mad: float: how much it varies
score: float: robust standard deviations away from it, or from the day before if that is nearer; negative below
""",
    FORECAST: f"""\
{_QUEUE}\
metric: text: depth or oldest_ready_age_ms
at_ms: whole: the last hour of the trend
value: float: its mean in that hour
slope_s: float: growth per second, over these hours
hours: whole: number of hours of the trend: up to 6, or those of up to 6 days
limit: float: the limit
reaches_ms: whole: when it reaches the limit; if it is over it, the hour since which it is; null if it does not grow
told: text: the same in one sentence
""",
    POISON: f"{_POISON}is_there: flag: whether the last whole inventory of its queue still held it\n",
    ADVICE: f"""\
{_QUEUE}\
vt_s: float: attribute vt as last seen
received: whole: received messages in inventories, which mostly show those that are held longest
expired_share: float: share of them that became visible again before they were deleted
holding_ms_p99: float: 99 % of those seen to go were deleted within this time after their first receive
advised_vt_s: float: the vt that would cover 99 % or more; null if vt is enough, too little is known, consumers may
    crash, or messages fail
receives: whole: receives in the covered time; null for lists, which count nothing, and in older tables
redeliveries: whole: how many of these delivered a message again: see rollup_1h; null in older tables
told: text: the advice in one sentence
""",
}
_LINEAGE = {
    SOURCES: """\
source: text: samples or messages: the table of the history
name: text: a file of the history that was read, or could not be read
first_ms: whole: the first time of its rows; null if unknown
last_ms: whole: the last time of its rows
rows: whole: its rows
run: text: the run that read it first
""",
    RUNS: """\
run: text: the run
made_ms: whole: when it was complete
seconds: float: how long it took
version: text: the version of rsmq-tui
spark: text: the version of Spark
schema: whole: the version of the tables
history: text: the history that was read
sources: whole: files of the history that were new
rows_in: whole: rows in these files; null if unknown
left_out: whole: files of the history that could not be read, of this and of earlier runs
hours: whole: hours of samples that were computed
days: whole: days of messages that were computed
rows_out: whole: rows written to all tables
from_ms: whole: the first time of the new rows
to_ms: whole: the last time of the new rows
covered_ms: whole: time with samples in the computed hours, added up over places
gaps: whole: gaps between samples in the computed hours, added up over places
gap_ms: whole: how long these gaps are together
""",
}
BY_DAY = {table: columns_in(text) for table, text in _BY_DAY.items()}
"""The tables that are computed from a history by day."""
WHOLE = {table: columns_in(text) for table, text in _WHOLE.items()}
"""The tables that are computed from those by day."""
COLUMNS = BY_DAY | WHOLE | {table: columns_in(text) for table, text in _LINEAGE.items()}
SCHEMAS = schemas_of(COLUMNS)
