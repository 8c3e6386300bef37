"""What a history holds: its tables, what each column means, and where the files lie. A promise to whoever reads it.

    DIR/_schema.json                               the version of the newest files, and the columns
    DIR/samples/day=2031-05-17/<recorder>-000001.parquet
    DIR/messages/day=2031-05-17/<recorder>-000001.parquet
    DIR/_segments/<recorder>/...                   what is being written; readers of Parquet leave out names with a _

Days are UTC, by the server's time. A file appears whole, by one rename, and never changes; a row is in one file. Files
are compressed with zstd. Their metadata holds ``rsmq_schema``, the version, and ``rsmq_places``, a JSON list of the
places in them. A reader takes columns by name: a later version may add some. Null means unknown, never 0.

``profile``, ``server`` and ``ns`` together name a place, which is what one poll reads. ``queue``, ``id``, ``profile``
and ``ns`` are names as ``rsmq_tui.history.names`` stores them: any bytes, as valid UTF-8, and read back exactly.

Times are in ms since 1970, UTC, by the clock of the Redis server; spans end in ``_ms`` or ``_s``, sizes are bytes.
"""

import json
from typing import NamedTuple

import pyarrow as pa

VERSION = 1
VERSION_KEY = "rsmq_schema"
PLACES_KEY = "rsmq_places"
SCHEMA_FILE = "_schema.json"
SAMPLES, MESSAGES = "samples", "messages"
OK, DOWN = "ok", "down"

_TEXT, _WHOLE, _FLOAT, _TEXTS, _BYTES = pa.string(), pa.int64(), pa.float64(), pa.list_(pa.string()), pa.binary()


class Column(NamedTuple):
    """A column: its name, its type, and what it means."""

    name: str
    type: pa.DataType
    words: str


_PLACE = (
    Column("recorder", _TEXT, "random id of the recorder's run; two recorders of one place write rows of their own"),
    Column("profile", _TEXT, "the profile's name, empty where the server came from a URL"),
    Column("server", _TEXT, "the server's address, without secrets"),
    Column("ns", _TEXT, "namespace; (lists) for the list queues of a server"),
)
_SAMPLES = (
    Column("at_ms", _WHOLE, "when it was polled; of a poll that failed, the recorder's estimate of the server's time"),
    Column(
        "interval_ms",
        _WHOLE,
        "time since the recorder's row before of this place; null in the first, and after an outage or lost rows",
    ),
    *_PLACE,
    Column(
        "queue", _TEXT, "the queue; null in the one row of each poll that tells of the whole place: how the poll went"
    ),
    Column("kind", _TEXT, "rsmq or list"),
    Column("depth", _WHOLE, "messages stored; of a list, the items in it and in its processing list"),
    Column("ready", _WHOLE, "messages that a consumer would have got"),
    Column("hidden", _WHOLE, "messages in flight or delayed; of a list, the items in its processing list"),
    Column(
        "oldest_ready_age_ms",
        _WHOLE,
        "time since the first ready message was sent; null where none is ready, and of a list whose items do not tell",
    ),
    Column(
        "totalsent",
        _WHOLE,
        "messages sent since the queue was created; falls when it is created anew; null of a list: nothing counts them",
    ),
    Column("totalrecv", _WHOLE, "receives since the queue was created; null of a list"),
    Column("vt_s", _FLOAT, "attribute vt: how long a received message stays hidden"),
    Column("delay_s", _FLOAT, "attribute delay: how long a new message stays hidden"),
    Column("maxsize", _WHOLE, "attribute maxsize: longest body that is taken, -1 for no limit"),
    Column("created_ms", _WHOLE, "when the queue was created, as its creator wrote it"),
    Column("modified_ms", _WHOLE, "when its attributes were last changed, as whoever did it wrote it"),
    Column("poison", _WHOLE, "messages received too often, among those that were last looked at; null of a list"),
    Column("highest_rc", _WHOLE, "highest receive count among the messages that were last looked at; null of a list"),
    Column("verdict", _TEXT, "ok, growing, stalled, poisoned, aged or broken, by the recorder's thresholds"),
    Column("broken", _TEXT, "why the queue cannot be used, null where it can"),
    Column("problems", _TEXTS, "oddities in the queue's keys, a sentence each"),
    Column("status", _TEXT, "ok, or down: the poll failed, nothing is known but the columns before the queue"),
    Column("failure", _TEXT, "what failed, where it is down"),
    Column(
        "expired",
        _WHOLE,
        "leases of a list past their deadline; null of RSMQ queues, and in files of before there was it",
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
        "the message; null in the last row of an inventory that is whole: a message without a row in it was not there "
        "throughout. Without that row the inventory was cut short",
    ),
    Column("sent_ms", _WHOLE, "when it was sent; null where the id carries no time"),
    Column("due_ms", _WHOLE, "when it becomes or became visible; null for never"),
    Column("rc", _WHOLE, "how often it was received"),
    Column("fr_ms", _WHOLE, "when it was first received; null for never"),
    Column("size", _WHOLE, "length of the body"),
    Column("body", _BYTES, "the body; null unless bodies are recorded, and where it is missing or very long"),
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
    """Return the version that a ``_schema.json`` names, or None where it names none."""
    try:
        version = json.loads(text)["schema"]
    except (ValueError, TypeError, KeyError):
        return None
    return version if isinstance(version, int) else None
