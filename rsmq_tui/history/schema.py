"""The tables of a history, their columns, and the layout of files. Other programs read them: keep them compatible.

    DIR/_schema.json                               the version of the newest files, and the columns
    DIR/samples/day=2031-05-17/<recorder>-000001.parquet
    DIR/messages/day=2031-05-17/<recorder>-000001.parquet
    DIR/_segments/<recorder>/...                   open segments; readers of Parquet ignore names that begin with _

Days are UTC, by the server's time. A file appears complete, by one rename, and never changes; each row is in one file.
Files are compressed with zstd. Their metadata has ``rsmq_schema``, the version, and ``rsmq_places``, a JSON list of the
places in them. Readers must select columns by name: a later version may add some. Null means unknown, never 0.

``profile``, ``server`` and ``ns`` together name a place, which is what one poll reads. ``queue``, ``id``, ``profile``
and ``ns`` are names as ``rsmq_tui.history.names`` stores them: any bytes, as valid UTF-8 that can be converted back
exactly.

Times are in ms since 1970, UTC, by the clock of the Redis server; spans end in ``_ms`` or ``_s``, sizes are bytes.
"""

import json
from typing import NamedTuple

import pyarrow as pa

from rsmq_tui.files import JsonError, parse_json

VERSION = 1
VERSION_KEY = "rsmq_schema"
PLACES_KEY = "rsmq_places"
SCHEMA_FILE = "_schema.json"
SAMPLES, MESSAGES = "samples", "messages"
OK, DOWN = "ok", "down"

_TEXT, _WHOLE, _FLOAT, _FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()
_TEXTS, _BYTES = pa.list_(pa.string()), pa.binary()


class Column(NamedTuple):
    """A column: its name, its type, and what it means."""

    name: str
    type: pa.DataType
    words: str


_VERDICTS = (
    "ok, growing, stalled, leaking, poisoned, aged or broken, by the recorder's thresholds; watching if it "
    "was too early to decide; older files say stalled for a leaking list"
)
_PLACE = (
    Column("recorder", _TEXT, "random id of the recorder's run; two recorders of one place write rows of their own"),
    Column("profile", _TEXT, "the profile's name, empty if the server was given by a URL"),
    Column("server", _TEXT, "the server's address, without secrets"),
    Column("ns", _TEXT, "namespace; (lists) for the list queues of a server"),
)
_SAMPLES = (
    Column("at_ms", _WHOLE, "the time of the poll; for a failed poll, the recorder's estimate of the server's time"),
    Column(
        "interval_ms",
        _WHOLE,
        "time since this recorder's previous row of this place; null in the first row, and after an "
        "outage or lost rows",
    ),
    *_PLACE,
    Column("queue", _TEXT, "the queue; null in the one row per poll that describes the poll itself"),
    Column("kind", _TEXT, "rsmq or list"),
    Column("depth", _WHOLE, "messages stored; of a list, the items in it and in its processing list"),
    Column("ready", _WHOLE, "messages that a consumer would have received"),
    Column("hidden", _WHOLE, "messages in flight or delayed; of a list, the items in its processing list"),
    Column(
        "oldest_ready_age_ms",
        _WHOLE,
        "time since the first ready message was sent; null if none is ready, and for a list whose items "
        "contain no time",
    ),
    Column(
        "totalsent",
        _WHOLE,
        "messages sent since the queue was created; falls when it is recreated; null for lists, which do "
        "not count them",
    ),
    Column("totalrecv", _WHOLE, "receives since the queue was created; null for a list"),
    Column("vt_s", _FLOAT, "attribute vt: how long a received message stays hidden"),
    Column("delay_s", _FLOAT, "attribute delay: how long a new message stays hidden"),
    Column("maxsize", _WHOLE, "attribute maxsize: longest body that is accepted, -1 for no limit"),
    Column("created_ms", _WHOLE, "when the queue was created, as its creator wrote it"),
    Column("modified_ms", _WHOLE, "when its attributes were last changed, as the client wrote it"),
    Column("poison", _WHOLE, "messages received too often, among those last checked; null for a list"),
    Column("highest_rc", _WHOLE, "highest receive count among the messages last checked; null for a list"),
    Column("verdict", _TEXT, _VERDICTS),
    Column("broken", _TEXT, "why the queue cannot be used; null if it can"),
    Column("problems", _TEXTS, "unusual values in the queue's keys, one sentence each"),
    Column("status", _TEXT, "ok, or down if the poll failed; then only the columns before the queue are known"),
    Column("failure", _TEXT, "what failed, if status is down"),
    Column(
        "expired",
        _WHOLE,
        "leases of a list past their deadline; null for RSMQ queues, and in older files",
    ),
    Column(
        "oldest_ready_waiting_ms",
        _WHOLE,
        "time since the first ready message became due; null like oldest_ready_age_ms, and in older files",
    ),
    Column("since_ms", _WHOLE, "when the condition of the verdict began; null for ok and broken, and in older files"),
    Column(
        "idle_since_ms", _WHOLE, "the time since which messages were ready and none was received; null in older files"
    ),
    Column(
        "pending_since_ms",
        _WHOLE,
        "for a trouble, the time since which its condition does not hold; for watching, its start",
    ),
    Column("pending_until_ms", _WHOLE, "how long the verdict would stay if nothing changed; null if unknown"),
    Column("missing", _WHOLE, "ids without a body among the messages checked; null in older files"),
    Column("looked", _WHOLE, "messages checked since the last complete check, or ever; null in older files"),
    Column("looked_all_ms", _WHOLE, "when the last complete check ended; null for never, and in older files"),
    Column(
        "is_idle_longer",
        _FLAG,
        "whether it was already so before idle_since_ms, for an unknown time; null in older files",
    ),
    Column("drain", _TEXT, "empty, clears, steady, stalled, growing or unknown; null in older files"),
    Column(
        "thresholds",
        _TEXT,
        "the recorder's thresholds of verdicts, as a JSON object, in the row of the poll itself; null in older files",
    ),
)
_MESSAGES = (
    Column("at_ms", _WHOLE, "when the message was read"),
    Column("inventory_ms", _WHOLE, "when the inventory began: the same in all rows of one inventory of a queue"),
    *_PLACE,
    Column("queue", _TEXT, "the queue"),
    Column(
        "id",
        _TEXT,
        "the message; null in the last row of a complete inventory: a message without a row in it was not "
        "in the queue the whole time. Without that row the inventory is incomplete",
    ),
    Column("sent_ms", _WHOLE, "when it was sent; null if the id contains no time"),
    Column("due_ms", _WHOLE, "when it becomes visible; null for never"),
    Column("rc", _WHOLE, "how often it was received"),
    Column("fr_ms", _WHOLE, "when it was first received; null for never"),
    Column("size", _WHOLE, "length of the body"),
    Column("body", _BYTES, "the body; null unless bodies are recorded, and if it is missing or very long"),
)
COLUMNS = {SAMPLES: _SAMPLES, MESSAGES: _MESSAGES}
SCHEMAS = {
    table: pa.schema([pa.field(column.name, column.type) for column in columns]) for table, columns in COLUMNS.items()
}


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
