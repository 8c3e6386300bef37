"""From rows to messages that are to be sent: what columns there have to be, and what each row comes down to."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import pyarrow as pa
from pyspark.sql.types import BinaryType, ByteType, DataType, IntegerType, LongType, ShortType, StringType, StructType

from rsmq_tui.history.names import read_name
from rsmq_tui.monitor.wording import printable
from rsmq_tui.pipeline.datasource.errors import SourceError
from rsmq_tui.pipeline.datasource.options import KEPT, Options
from rsmq_tui.protocol import RsmqError, StoredMessage, name_bytes, validation

_TEXT: tuple[type[DataType], ...] = (StringType,)
_BODY: tuple[type[DataType], ...] = (StringType, BinaryType)
_WHOLE: tuple[type[DataType], ...] = (ByteType, ShortType, IntegerType, LongType)
_COLUMNS = {"body": _BODY, "queue": _TEXT, "delay_s": _WHOLE}
_KEPT_COLUMNS = {"id": _TEXT, "due_ms": _WHOLE, "rc": _WHOLE, "fr_ms": _WHOLE}
# Of the table messages, and of no use to whoever writes them.
_LEFT_OUT = {"at_ms", "inventory_ms", "recorder", "profile", "server", "ns", "sent_ms", "state", "size"}
_MARK_BYTES = 12


class RefusedError(Exception):
    """Why one row cannot be sent, in a sentence."""


@dataclass(slots=True)
class Outgoing:
    """A row: its body, where it goes and when; ``kept`` holds what else is known of a message that is kept as it is."""

    queue: str
    body: str | bytes
    delay_s: int | None
    mark: bytes | None = None
    kept: dict[str, Any] | None = None


def check_written(schema: StructType, options: Options) -> None:
    """Raise ``SourceError`` where rows of that schema cannot be sent."""
    types = {each.name: each.dataType for each in schema}
    known = _COLUMNS | (_KEPT_COLUMNS if options.ids == KEPT else {})
    wanted = [name for name in ("body", "id") if name in known and name not in types]
    if wanted:
        raise SourceError(f"the rows have no column {wanted[0]}: select the values to send as {wanted[0]}")
    if options.queue is None and "queue" not in types:
        raise SourceError("no queue is given: set option queue, or add a column queue to the rows")
    for name, type_ in types.items():
        if name in known and not isinstance(type_, known[name]):
            allowed = " or ".join(each.__name__.removesuffix("Type").lower() for each in known[name])
            raise SourceError(f"the column {name} is {type_.simpleString()}: cast it to {allowed}")
        if name not in known and not (options.ids == KEPT and name in _LEFT_OUT):
            raise SourceError(
                f"the column {printable(name)} would not be sent: drop it; a message has {', '.join(known)}"
            )
    if options.ids == KEPT and (options.delay_s is not None or "delay_s" in types):
        raise SourceError("messages with ids keep their due_ms: leave delay_s out")


def outgoing_rows(batch: pa.RecordBatch, options: Options, refuse: Callable[[int, str], None]) -> Iterator[Outgoing]:
    """Yield what is to be sent of some rows; ``refuse`` is told of the others. A row's queue wins over the option."""
    columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
    count = batch.num_rows
    nothing = [None] * count
    bodies, queues, delays = columns["body"], columns.get("queue", nothing), columns.get("delay_s", nothing)
    kept = {name: columns.get(name, nothing) for name in _KEPT_COLUMNS} if options.ids == KEPT else None
    for number in range(count):
        queue, body, delay_s = queues[number], bodies[number], delays[number]
        name = options.queue if queue is None else read_name(queue)
        if body is None or name is None:
            refuse(1, "its body is null" if body is None else "its queue is null")
            continue
        row = Outgoing(name, body, options.delay_s if delay_s is None else delay_s)
        if kept is not None:
            row.kept = {name: values[number] for name, values in kept.items()}
        yield row


def mark_of(row: Outgoing, times: Counter[int]) -> bytes:
    """Return the mark of a row; ``times`` counts, over all rows of a task, how often each content came."""
    body = row.body.encode("utf-8", "surrogatepass") if isinstance(row.body, str) else row.body
    content = blake2b(digest_size=16)
    for part in (name_bytes(row.queue), b"" if row.delay_s is None else b"%d" % row.delay_s):
        content.update(b"%d:%b" % (len(part), part))
    content.update(body)
    key = int.from_bytes(content.digest())
    times[key] += 1
    content.update(b"#%d" % times[key])
    return content.digest()[:_MARK_BYTES]


def stored_of(row: Outgoing) -> StoredMessage:
    """Return a message that keeps what it has; raises ``RefusedError``."""
    kept = row.kept or {}
    identity, due_ms, fr_ms = kept["id"], kept["due_ms"], kept["fr_ms"]
    if identity is None or due_ms is None:
        raise RefusedError(
            "its id is null" if identity is None else "its due_ms is null: it would never become visible"
        )
    id = read_name(identity)
    try:
        validation.message_id(id)
    except RsmqError as error:
        raise RefusedError(str(error)) from error
    body = row.body.encode() if isinstance(row.body, str) else row.body
    return StoredMessage(id, body, due_ms, kept["rc"] or 0, fr_ms)
