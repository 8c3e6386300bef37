"""The tables of a history, their columns, and the layout of files. Other programs read them: keep them compatible.

    DIR/_schema.json                               the version of the newest files, and the columns
    DIR/samples/day=2031-05-17/<recorder>-000001.parquet
    DIR/messages/day=2031-05-17/<recorder>-000001.parquet
    DIR/_segments/<recorder>/...                   open segments; readers of Parquet ignore names that begin with _

Days are UTC, by the server's time. A file appears complete, by one rename, and never changes; each row is in one file.
Files are compressed with zstd. Their metadata has ``rsmq_schema``, the version, and ``rsmq_places``, a JSON list of the
places in them. A file that compaction made, ``<recorder>-000001-000144.parquet``, has ``rsmq_replaces``, a JSON list of
the files whose rows it has: if one of these is still there, its rows are ignored. Readers must select columns by name:
a later version may add some. Null means unknown, never 0.

``profile``, ``server`` and ``ns`` together name a place, which is what one poll reads. ``queue``, ``id``, ``profile``
and ``ns`` are names as ``rsmq_tui.history.names`` stores them: any bytes, as valid UTF-8 that can be converted back
exactly.

Times are in ms since 1970, UTC, by the clock of the Redis server; spans end in ``_ms`` or ``_s``, sizes are bytes.
"""

import json
from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa

from rsmq_tui.files import JsonError, parse_json
from rsmq_tui.monitor import Verdict

VERSION = 1
VERSION_KEY = "rsmq_schema"
PLACES_KEY = "rsmq_places"
REPLACES_KEY = "rsmq_replaces"
SCHEMA_FILE = "_schema.json"
SAMPLES, MESSAGES = "samples", "messages"
OK, DOWN = "ok", "down"
# The columns of what a server says of itself, by the names of the fields of ``ServerInfo``.
OF_SERVER = ("run_id", "uptime_s", "role", "evicted_keys", "used_memory", "maxmemory", "maxmemory_policy")
# When its memory will be full: most servers have no such time, so these columns take no room.
OF_MEMORY = ("memory_soonest_ms", "memory_latest_ms")

_TYPES = {
    "text": pa.string(),
    "whole": pa.int64(),
    "float": pa.float64(),
    "flag": pa.bool_(),
    "bytes": pa.binary(),
    "texts": pa.list_(pa.string()),
    "wholes": pa.list_(pa.int64()),
    "floats": pa.list_(pa.float64()),
}
# The verdicts as columns document them, worst first.
VERDICTS = ", ".join(Verdict)
TROUBLES = ", ".join(verdict for verdict in Verdict if verdict.is_trouble)


class StoredColumn(NamedTuple):
    """A column: its name, its type, and what it means."""

    name: str
    type: pa.DataType
    words: str


def columns_in(text: str) -> tuple[StoredColumn, ...]:
    """Return the columns of a text with a line ``name: type: words`` for each; indented lines continue the line before.

    The types are those of ``_TYPES``.
    """
    lines = text.replace("\n    ", " ").splitlines()
    fields = (line.split(": ", 2) for line in lines)
    return tuple(StoredColumn(name, _TYPES[kind], words) for name, kind, words in fields)


def schemas_of(columns: Mapping[str, tuple[StoredColumn, ...]]) -> dict[str, pa.Schema]:
    """Return the Arrow schema of each table."""
    return {
        table: pa.schema([(column.name, column.type) for column in described]) for table, described in columns.items()
    }


_PLACE = """\
recorder: text: random id of the recorder's run; two recorders of the same queues write rows of their own
profile: text: the profile's name, empty if the server was given by a URL
server: text: the server's address, without secrets
ns: text: namespace; (lists) for the list queues of a server
"""
_TABLES = {
    SAMPLES: f"""\
at_ms: whole: the time of the poll; for a failed poll, the recorder's estimate of the server's time
interval_ms: whole: time since this recorder's previous row of this namespace; null in the first row, and after an
    outage or lost rows
{_PLACE}\
queue: text: the queue; null in the one row per poll that describes the poll itself
kind: text: rsmq or list
depth: whole: messages stored; of a list, the items in it and in its processing list
ready: whole: messages that a consumer would have received
hidden: whole: messages in flight or delayed; of a list, the items in its processing list
oldest_ready_age_ms: whole: time since the first ready message was sent; null if none is ready, and for a list whose
    items contain no time
totalsent: whole: messages sent since the queue was created; falls when it is recreated; null for lists, which do not
    count them
totalrecv: whole: receives since the queue was created; null for a list
vt_s: float: attribute vt: how long a received message stays hidden
delay_s: float: attribute delay: how long a new message stays hidden
maxsize: whole: attribute maxsize: longest body that is accepted, -1 for no limit
created_ms: whole: when the queue was created, as its creator wrote it
modified_ms: whole: when its attributes were last changed, as the client wrote it
poison: whole: messages received too often, among those last checked; null for a list
highest_rc: whole: highest receive count among the messages last checked; null for a list
verdict: text: {VERDICTS}, by the recorder's thresholds; watching if it was too early to
    decide; older files say stalled for a leaking list
broken: text: why the queue cannot be used; null if it can
problems: texts: unusual values in the queue's keys, one sentence each
status: text: ok, or down if the poll failed; then only the columns before the queue are known
failure: text: what failed, if status is down
expired: whole: leases of a list past their deadline; null for RSMQ queues, and in older files
oldest_ready_waiting_ms: whole: time since the first ready message became due; null like oldest_ready_age_ms, and in
    older files
since_ms: whole: when the condition of the verdict began; null for ok and broken, and in older files
idle_since_ms: whole: the time since which messages were ready and none was received; null in older files
pending_since_ms: whole: for a trouble, the time since which its condition does not hold; for watching, its start
pending_until_ms: whole: how long the verdict would stay if nothing changed; null if unknown
missing: whole: ids without a body among the messages checked; null in older files
looked: whole: messages checked since the last complete check, or ever; null in older files
looked_all_ms: whole: when the last complete check ended; null for never, and in older files
is_idle_longer: flag: whether it was already so before idle_since_ms, for an unknown time; null in older files
drain: text: empty, clears, steady, stalled, growing or unknown; null in older files
thresholds: text: the recorder's thresholds of verdicts, as a JSON object, in the row of the poll itself; null in older
    files
sampled_age_ms: whole: time since a look read messages in flight for the next columns; they are null after a minute,
    for a list, and in older files
sampled: whole: messages that the look read
wait_p50_ms: whole: of these, time from the send to the first receive: 50th percentile, by nearest rank
wait_p95_ms: whole: the same, 95th percentile
work_p50_ms: whole: of these, time since the last receive: 50th percentile, by nearest rank
work_p95_ms: whole: the same, 95th percentile
run_id: text: which server answers, in the row of the poll itself, if INFO was read since the row before; null in older
    files
uptime_s: whole: how long that server runs, like run_id
role: text: its role: master, slave or sentinel, like run_id
evicted_keys: whole: keys that it has evicted since its start, like run_id
used_memory: whole: bytes that it uses, like run_id
maxmemory: whole: bytes that it may use, 0 for no limit, like run_id
maxmemory_policy: text: what it does when it has used them, such as noeviction: refuse messages; like run_id
memory_soonest_ms: whole: in the row of the poll itself, when the memory of the server would be full at its recent
    growth, at the earliest; null if it does not grow towards its limit, if that is unknown, and in older files
memory_latest_ms: whole: the same, at the latest; null if that is more than a day ahead
since_depth: whole: of a growing queue, the depth at since_ms; null if unknown, and in older files
is_since_longer: flag: whether a growing queue may have grown before since_ms, for an unknown time; null in older files
""",
    MESSAGES: f"""\
at_ms: whole: when the message was read
inventory_ms: whole: when the inventory began: the same in all rows of one inventory of a queue
{_PLACE}\
queue: text: the queue
id: text: the message; null in the last row of a complete inventory: a message without a row in it was not in the queue
    the whole time. Without that row the inventory is incomplete
sent_ms: whole: when it was sent; null if the id contains no time
due_ms: whole: when it becomes visible; null for never
rc: whole: how often it was received
fr_ms: whole: when it was first received; null for never
size: whole: length of the body
body: bytes: the body; null unless bodies are recorded, and if it is missing or very long
""",
}
COLUMNS = {table: columns_in(text) for table, text in _TABLES.items()}
SCHEMAS = schemas_of(COLUMNS)


def describe() -> str:
    """Return the text of ``_schema.json``."""
    tables = {
        table: [{"name": column.name, "type": str(column.type), "words": column.words} for column in columns]
        for table, columns in COLUMNS.items()
    }
    return json.dumps({"schema": VERSION, "tables": tables}, indent=1) + "\n"


def version_in(text: str) -> int | None:
    """Return the version that a ``_schema.json`` names, or None if it names none."""
    try:
        version = parse_json(text)["schema"]
    except (JsonError, TypeError, LookupError):
        return None
    return version if isinstance(version, int) and not isinstance(version, bool) else None
