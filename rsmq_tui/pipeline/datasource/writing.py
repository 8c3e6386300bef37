"""Sends rows to queues in batches, and checks the columns of each row."""

import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, ByteType, DataType, IntegerType, LongType, ShortType, StringType, StructType

from rsmq_tui.history.names import read_name
from rsmq_tui.monitor.text import SENTENCE_MAX, plural, printable
from rsmq_tui.pipeline.datasource.options import ERRORS, KEPT, ONCE, SourceError, SourceOptions, briefly, explain
from rsmq_tui.protocol import RsmqError, StoredMessage, connect, name_bytes, validation
from rsmq_tui.protocol.rsmq.client import FencedRsmq, MarkedMessage
from rsmq_tui.protocol.rsmq.operations import CHUNK_MESSAGES

_TEXT: tuple[type[DataType], ...] = (StringType,)
_BODY: tuple[type[DataType], ...] = (StringType, BinaryType)
_WHOLE: tuple[type[DataType], ...] = (ByteType, ShortType, IntegerType, LongType)
_COLUMNS = {"body": _BODY, "queue": _TEXT, "delay_s": _WHOLE}
_KEPT_COLUMNS = {"id": _TEXT, "due_ms": _WHOLE, "rc": _WHOLE, "fr_ms": _WHOLE}
# Columns of the table ``messages`` that are ignored in a write.
_LEFT_OUT = {"at_ms", "inventory_ms", "recorder", "profile", "server", "ns", "sent_ms", "state", "size"}
# As many as stand for the content of a message to send once.
_CONTENT_BYTES = 12


class RefusedError(Exception):
    """Why one row cannot be sent, in a sentence."""


@dataclass(slots=True)
class Outgoing:
    """A row: its body, its queue and its delay; ``kept`` has the other fields of a message that keeps its id."""

    queue: str
    body: str | bytes
    delay_s: int | None
    mark: bytes | None = None
    kept: dict[str, Any] | None = None


def check_written(schema: StructType, options: SourceOptions) -> None:
    """Raise ``SourceError`` if rows of that schema cannot be sent."""
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


def outgoing_rows(
    batch: pa.RecordBatch, options: SourceOptions, refuse: Callable[[int, str], None]
) -> Iterator[Outgoing]:
    """Yield the rows to send; ``refuse`` is called for the others. A row's queue overrides the option."""
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
    """Return the mark of a row; ``times`` counts, over all rows of a task, how often each content occurred."""
    body = row.body.encode("utf-8", "surrogatepass") if isinstance(row.body, str) else row.body
    content = blake2b(digest_size=_CONTENT_BYTES)
    for part in (name_bytes(row.queue), b"" if row.delay_s is None else b"%d" % row.delay_s):
        content.update(b"%d:%b" % (len(part), part))
    content.update(body)
    digest = content.digest()
    key = int.from_bytes(digest)
    times[key] += 1
    return digest + b"#%d" % times[key]


def stored_of(row: Outgoing) -> StoredMessage:
    """Return a message with its id and other fields; raises ``RefusedError``."""
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


# How long fences are kept after a write: an executor that was believed dead may still run this long.
_AFTER_S = 600


@dataclass
class TaskResult(WriterCommitMessage):
    """The result of a task: messages sent, messages that had been sent before, rows that cannot be sent."""

    fence: str
    sent: int = 0
    before: int = 0
    refused: int = 0
    reasons: list[str] = field(default_factory=list)

    def refuse(self, count: int, reason: str) -> None:
        """Count rows that cannot be sent."""
        self.refused += count
        if not self.reasons:
            self.reasons.append(reason)


def check_all_sent(written: Sequence[TaskResult]) -> None:
    """Raise ``SourceError`` if some rows could not be sent."""
    refused = sum(message.refused for message in written)
    if refused:
        sent = sum(message.sent + message.before for message in written)
        reason = next(reason for message in written for reason in message.reasons)
        rows = plural(refused + sent, "row")
        raise SourceError(f"{refused:,} of {rows} cannot be sent; the others were sent. First reason: {reason}")


class QueueWriter(DataSourceArrowWriter):
    """Sends rows: the column ``body``, to the queue ``queue`` with the delay ``delay_s``, if there are such columns.

    Spark may run a task again. Option ``ids`` decides whether its rows are then sent again:

    - ``new``, the default: each row is sent at least once. A task that fails midway is run again from its first row, so
      that rows it had sent are sent twice.
    - ``once``: each row is sent once, however often its task is run, also where consumers have deleted the messages
      since. A fence on the server remembers a mark of each row until the write is done: its partition, its content, and
      which of the equal rows of the partition it is, so that their order does not matter. It takes about 60 bytes per
      row on the server, and 100 in the task. Rows must be the same when a partition is computed again (no ``rand``). If
      option ``run`` names the write, it can be repeated under that name within ``fence_s``, also in other partitions:
      of equal rows, only as many are sent as are missing. That takes 200 bytes per row on the server.
    - ``kept``: rows are messages of the table ``messages``, with their own id, due_ms, rc and fr_ms, and are stored as
      they were; an id that is already in the queue is not changed. If a task is run again, messages that consumers
      deleted meanwhile come back.

    Rows go out in their order in a partition, for each queue and delay. A row that cannot be sent (a body that is null
    or longer than the queue takes, a queue that is not there) does not stop the others, and no task is run again for
    it; the write fails at the end, and says how many there were. If the connection to the server is lost, the task
    fails.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        check_written(schema, options)
        self._options = options
        self._write = secrets.token_hex(8)
        self._check_server()

    @briefly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskResult:
        """Send the rows of one partition; raises ``SourceError``."""
        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        done = TaskResult(f"once:{self._write}:{partition}")
        address = self._options.server.address()
        with connect(address, self._options.ns) as client:
            sending = _Sending(FencedRsmq(client, self._options.ns), self._options, done, self._counts)
            try:
                for batch in iterator:
                    sending.send(outgoing_rows(batch, self._options, done.refuse))
            except ERRORS as error:
                sent = plural(done.sent, "message")
                raise explain(error, address.label, f"this task had sent {sent}") from None
        return done

    @briefly
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Release the fences; raises ``SourceError`` if rows could not be sent."""
        written = [message for message in messages if isinstance(message, TaskResult)]
        if self._options.ids == ONCE:
            self._forget([*(message.fence for message in written), *self._counts[1:]])
        check_all_sent(written)

    @property
    def _counts(self) -> tuple[str, ...]:
        """The names of what a named run has sent, and of what this write of it was given."""
        run = self._options.run
        return () if run is None else (f"once:run:{run}", f"once:{self._write}")

    def _check_server(self) -> None:
        """Check, before any task starts, that the server answers and has the queue."""
        options = self._options
        address = options.server.address()
        with connect(address, options.ns) as client:
            rsmq = FencedRsmq(client, options.ns)
            try:
                if options.queue is None:
                    rsmq.now_ms()
                else:
                    rsmq.get_queue_attributes(options.queue)
            except RsmqError as error:
                name = printable(options.queue or "")
                if error.code == "queueNotFound":
                    raise SourceError(f"no queue {name} on {address.label}: create it first") from None
                raise explain(error, address.label, f"queue {name}") from None
            except ERRORS as error:
                raise explain(error, address.label) from None

    def _forget(self, fences: Iterable[str]) -> None:
        options = self._options
        with connect(options.server.address(), options.ns) as client:
            rsmq = FencedRsmq(client, options.ns)
            try:
                for fence in fences:
                    rsmq.forget_fence(fence, after_s=_AFTER_S)
            except ERRORS:
                # All rows are sent; the fences expire later.
                return


class _Sending:
    """Sends the rows of one task, and counts them in ``done``."""

    def __init__(self, rsmq: FencedRsmq, options: SourceOptions, done: TaskResult, counts: tuple[str, ...]) -> None:
        self._rsmq = rsmq
        self._options = options
        self._done = done
        self._counts = counts
        self._times: Counter[int] = Counter()

    def send(self, rows: Iterable[Outgoing]) -> None:
        """Send some rows; those of one queue and delay keep their order."""
        groups: dict[tuple[str, int | None], list[Outgoing]] = {}
        for row in rows:
            groups.setdefault((row.queue, row.delay_s), []).append(row)
        way = {ONCE: self._send_once, KEPT: self._store}.get(self._options.ids, self._send_new)
        for (queue, delay_s), group in groups.items():
            for start in range(0, len(group), CHUNK_MESSAGES):
                self._part(way, queue, delay_s, group[start : start + CHUNK_MESSAGES])

    def _part(
        self,
        way: Callable[[str, int | None, list[Outgoing]], None],
        queue: str,
        delay_s: int | None,
        part: list[Outgoing],
    ) -> None:
        """Send rows; if one is too long, split them in half until only single rows are refused."""
        try:
            way(queue, delay_s, part)
        except RsmqError as error:
            if error.code != "messageTooLong" or len(part) == 1:
                self._done.refuse(len(part), printable(f"queue {queue}: {error}", SENTENCE_MAX))
                return
            half = len(part) // 2
            self._part(way, queue, delay_s, part[:half])
            self._part(way, queue, delay_s, part[half:])

    def _send_new(self, queue: str, delay_s: int | None, part: list[Outgoing]) -> None:
        self._done.sent += len(self._rsmq.send_messages(queue, [row.body for row in part], delay=delay_s))

    def _send_once(self, queue: str, delay_s: int | None, part: list[Outgoing]) -> None:
        marked = [MarkedMessage(mark_of(row, self._times) if row.mark is None else row.mark, row.body) for row in part]
        for row, (mark, _) in zip(part, marked, strict=True):
            row.mark = mark
        fence, keep_s = self._done.fence, self._options.fence_s
        fresh = self._rsmq.send_once(queue, marked, fence=fence, keep_s=keep_s, delay=delay_s, counts=self._counts)
        sent = sum(fresh)
        self._done.sent += sent
        self._done.before += len(part) - sent

    def _store(self, queue: str, delay_s: int | None, part: list[Outgoing]) -> None:
        stored = []
        for row in part:
            try:
                stored.append(stored_of(row))
            except RefusedError as error:
                self._done.refuse(1, str(error))
        sent = sum(self._rsmq.restore_messages(queue, stored))
        self._done.sent += sent
        self._done.before += len(stored) - sent
