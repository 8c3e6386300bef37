"""From snapshots and messages to rows and columns.

Most queues do not change from poll to poll: only what changed since the poll before is converted.
"""

import json
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from itertools import compress
from operator import attrgetter, is_not, itemgetter, ne
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rsmq_tui.history.names import Place, stored_name, stored_text
from rsmq_tui.history.schema import DOWN, MESSAGES, OF_MEMORY, OF_SERVER, OK, SAMPLES, SCHEMAS
from rsmq_tui.monitor import QueueState, Snapshot, Thresholds
from rsmq_tui.monitor.messages.reading import read_score
from rsmq_tui.monitor.model import TIMES_KEPT_MS
from rsmq_tui.monitor.tracking.forecast import Limit
from rsmq_tui.monitor.tracking.series import FlightTimes
from rsmq_tui.protocol import RawMessage, leading_int, name_of, sent_ms
from rsmq_tui.protocol.kinds import kind_named
from rsmq_tui.protocol.status import ServerInfo

_WHOLE_MAX = 2**63 - 1


class NumberColumn:
    """A column of integers or floats; numbers that do not fit, which clients may write, become null."""

    def __init__(self, type_: pa.DataType, values: Sequence[Any]) -> None:
        self._type = type_
        self._fitted = as_float if pa.types.is_floating(type_) else as_whole
        self._count = len(values)
        self._values = array("d" if pa.types.is_floating(type_) else "q", bytes(8 * self._count))
        # A byte for each value: 1 if it is known.
        self._known = bytearray(self._count)
        # The bitmap of ``_known`` for Arrow; None if it must be made again, or is not needed.
        self._bitmap: pa.Buffer | None = None
        self.change(range(self._count), values)

    def change(self, ats: Sequence[int], values: Iterable[Any]) -> None:
        """Change the values at these indexes."""
        kept, known = self._values, self._known
        before = bytes(known)
        for at, value in zip(ats, values, strict=True):
            try:
                kept[at] = value
                known[at] = 1
            except (OverflowError, TypeError):
                fitted = None if value is None else self._fitted(value)
                known[at] = fitted is not None
                if fitted is not None:
                    kept[at] = fitted  # type: ignore[assignment]  # the fitting one of two types
        if known != before:
            self._bitmap = None

    def array(self) -> pa.Array:
        """Return the current values."""
        if self._bitmap is None and 0 in self._known:
            bytes_ = pa.Array.from_buffers(pa.uint8(), self._count, [None, pa.py_buffer(self._known)])
            # Arrow's validity bitmap has a bit for each value.
            self._bitmap = bytes_.cast(pa.bool_()).buffers()[1]
        return pa.Array.from_buffers(self._type, self._count, [self._bitmap, pa.py_buffer(self._values.tobytes())])


class ValueColumn:
    """A column of any other type."""

    def __init__(self, type_: pa.DataType, values: Sequence[Any]) -> None:
        self._type = type_
        self._values = list(values)

    def change(self, ats: Sequence[int], values: Iterable[Any]) -> None:
        """Change the values at these indexes."""
        kept = self._values
        for at, value in zip(ats, values, strict=True):
            kept[at] = value

    def array(self) -> pa.Array:
        """Return the current values."""
        return pa.array(self._values, self._type)


def column_of(type_: pa.DataType, values: Sequence[Any]) -> NumberColumn | ValueColumn:
    """Return a column of that type."""
    is_number = pa.types.is_integer(type_) or pa.types.is_floating(type_)
    return NumberColumn(type_, values) if is_number else ValueColumn(type_, values)


def array_of(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """Return values as an array, by ``column_of``."""
    try:
        return pa.array(values, type_)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return column_of(type_, values).array()


def repeated(value: Any, type_: pa.DataType, count: int) -> pa.Array:
    """Return an array of ``count`` equal values."""
    return pa.nulls(count, type_) if value is None else pa.repeat(pa.scalar(value, type_), count)


def as_whole(value: Any) -> int | None:
    """Return a number as a 64-bit integer, or None."""
    try:
        whole = int(value)
    except (OverflowError, TypeError, ValueError):
        return None
    return whole if -_WHOLE_MAX <= whole <= _WHOLE_MAX else None


def as_float(value: Any) -> float | None:
    """Return a number as a float, or None."""
    try:
        return float(value)
    except (OverflowError, TypeError, ValueError):
        return None


_SAMPLES, _MESSAGES = SCHEMAS[SAMPLES], SCHEMAS[MESSAGES]

# Made once: Arrow tries to import numpy for each plain number.
_NOTHING, _UNKNOWN = pa.scalar(0, pa.int64()), pa.scalar(None, pa.int64())

# How a field of the queue's state is converted for its column.
_STORED: dict[str, Callable[[Any], Any]] = {
    "kind": str,
    "queue": stored_name,
    "verdict": str,
    "drain": str,
    "broken": lambda sentence: None if sentence is None else stored_text(sentence),
    "problems": lambda sentences: list(map(stored_text, sentences)),
}
# Columns that are time spans until the poll, and the fields that they are counted from.
_SINCE = {"oldest_ready_age_ms": "oldest_ready_ms", "oldest_ready_waiting_ms": "oldest_ready_due_ms"}
_FIELDS = {"queue": "name", **_SINCE} | {name: name for name in _SAMPLES.names if name in QueueState._fields}
# The columns of a sample of messages in flight, and the fields of it; the first one is its age.
_SAMPLED = dict(zip(("sampled_age_ms", *FlightTimes._fields[1:]), range(len(FlightTimes._fields)), strict=True))
_SAMPLED_MAX_MS = pa.scalar(TIMES_KEPT_MS, pa.int64())


def _if_counted(at: int) -> Callable[[QueueState], Any]:
    """Return a getter for a field that is null, not 0, for kinds that do not count receives."""
    return lambda queue: queue[at] if kind_named(queue.kind).counts_receives else None


def _of_sample(at: int) -> Callable[[FlightTimes | None], int | None]:
    return lambda times: None if times is None else times[at]


# What is read of a state, and the columns that it is stored in.
_READ: list[tuple[Callable[[QueueState], Any], dict[str, Callable[[Any], Any] | None]]] = [
    (itemgetter(QueueState._fields.index(field)), {column: _STORED.get(column)})
    for column, field in _FIELDS.items()
    if column not in ("poison", "highest_rc")
]
_READ += [(_if_counted(QueueState._fields.index(column)), {column: None}) for column in ("poison", "highest_rc")]
_READ.append((attrgetter("times"), {column: _of_sample(at) for column, at in _SAMPLED.items()}))


class SampleRows:
    """Converts the polls of one place to rows; ``thresholds`` are those of its verdicts.

    ``last_ms`` is the time of the last poll that the next one may be compared with; None if there is none.
    """

    def __init__(self, recorder: str, place: Place, thresholds: Thresholds | None = None) -> None:
        self._recorder = recorder
        self._place = place
        self._thresholds = None if thresholds is None else json.dumps(asdict(thresholds))
        self._queues: tuple[QueueState, ...] = ()
        self._columns: dict[str, NumberColumn | ValueColumn] = {}
        self._kept: dict[str, pa.Array] = {}
        self.last_ms: int | None = None
        self._info: ServerInfo | None = None
        # How far the server's clock is ahead of the local clock.
        self._ahead_ms = 0

    def taken(
        self, snapshot: Snapshot, wall_ms: int, queues: tuple[QueueState, ...] | None = None
    ) -> tuple[pa.RecordBatch, int]:
        """Return the rows of a poll, which may have failed, and its time; ``wall_ms`` is its time by the local clock.

        ``queues`` limits the rows to these queues.
        """
        if snapshot.link.failure is not None:
            self.last_ms = None
            at_ms = wall_ms + self._ahead_ms
            return self.failed(snapshot.link.failure.sentence, at_ms), at_ms
        at_ms, last_ms = snapshot.at_ms, self.last_ms
        self._ahead_ms, self.last_ms = at_ms - wall_ms, at_ms
        interval_ms = at_ms - last_ms if last_ms is not None and at_ms > last_ms else None
        wanted = snapshot.queues if queues is None else queues
        info = None if snapshot.info == self._info else snapshot.info
        self._info = snapshot.info
        return self.polled(wanted, at_ms, interval_ms, info, snapshot.memory_limit), at_ms

    def polled(
        self,
        queues: tuple[QueueState, ...],
        at_ms: int,
        interval_ms: int | None,
        info: ServerInfo | None = None,
        memory_limit: Limit | None = None,
    ) -> pa.RecordBatch:
        """Return a row for each queue, and one without a queue for the poll."""
        self._refresh(queues)
        count = len(queues) + 1
        kept = self._kept
        of_server = {} if info is None else dict(zip(OF_SERVER, info, strict=False))
        of_memory = {} if memory_limit is None else dict(zip(OF_MEMORY, memory_limit[1:], strict=True))
        of_poll: dict[str, Any] = {**dict.fromkeys((*OF_SERVER, *OF_MEMORY)), **of_server, **of_memory}
        # Without any sample, its columns are null as they are.
        has_samples = kept["sampled_age_ms"].null_count < count
        is_sampled = pc.less_equal(_age(at_ms, kept["sampled_age_ms"]), _SAMPLED_MAX_MS) if has_samples else None
        arrays = []
        for field in _SAMPLES:
            if field.name == "at_ms":
                arrays.append(repeated(at_ms, field.type, count))
            elif field.name == "interval_ms":
                arrays.append(repeated(interval_ms, field.type, count))
            elif field.name in of_poll:
                value = of_poll[field.name]
                told = array_of([stored_text(value) if isinstance(value, str) else value], field.type)
                arrays.append(pa.concat_arrays([pa.nulls(count - 1, field.type), told]))
            elif field.name in _SINCE:
                arrays.append(_age(at_ms, kept[field.name]))
            elif field.name in _SAMPLED and has_samples:
                value = _age(at_ms, kept[field.name]) if field.name == "sampled_age_ms" else kept[field.name]
                arrays.append(pc.if_else(is_sampled, value, _UNKNOWN))
            else:
                arrays.append(kept[field.name])
        return pa.RecordBatch.from_arrays(arrays, schema=_SAMPLES)

    def failed(self, failure: str, at_ms: int) -> pa.RecordBatch:
        """Return the single row of a failed poll."""
        row = {
            **place_columns(self._recorder, self._place),
            "at_ms": at_ms,
            "status": DOWN,
            "failure": stored_text(failure),
        }
        return pa.RecordBatch.from_arrays([pa.array([row.get(f.name)], f.type) for f in _SAMPLES], schema=_SAMPLES)

    def _refresh(self, queues: tuple[QueueState, ...]) -> None:
        before, self._queues = self._queues, queues
        if not self._columns or len(before) != len(queues):
            self._begin(queues)
            return
        # Most of thousands of queues are the same objects as before: no Python code must run for each.
        changed = list(compress(range(len(queues)), map(is_not, before, queues)))
        if not changed:
            return
        old, new = ([states[row] for row in changed] for states in (before, queues))
        for found, columns in _READ:
            was, now = list(map(found, old)), list(map(found, new))
            if was != now:
                differs = list(map(ne, was, now))
                rows, values = list(compress(changed, differs)), list(compress(now, differs))
                for name, stored in columns.items():
                    self._columns[name].change(rows, values if stored is None else map(stored, values))
                    self._kept[name] = self._columns[name].array()

    def _begin(self, queues: tuple[QueueState, ...]) -> None:
        told = {**place_columns(self._recorder, self._place), "status": OK, "failure": None}
        for name, value in told.items():
            self._kept[name] = repeated(value, _SAMPLES.field(name).type, len(queues) + 1)
        for found, columns in _READ:
            values = list(map(found, queues))
            for name, stored in columns.items():
                # The last row is that of the poll itself.
                kept = [*(values if stored is None else map(stored, values)), None]
                column = self._columns[name] = column_of(_SAMPLES.field(name).type, kept)
                self._kept[name] = column.array()
        self._kept["thresholds"] = pa.array([None] * len(queues) + [self._thresholds], pa.string())


def _age(at_ms: int, times_ms: pa.Array) -> pa.Array:
    """Return the time since each of these, never negative."""
    age = pc.subtract(pa.scalar(at_ms, pa.int64()), times_ms)
    return pc.if_else(pc.less(age, _NOTHING), _NOTHING, age)


def message_rows(
    recorder: str, place: Place, queue: str, messages: Sequence[RawMessage], *, at_ms: int, inventory_ms: int
) -> pa.RecordBatch:
    """Return a row for each message."""
    names = [name_of(message.id) for message in messages]
    found: dict[str, list[Any]] = {
        "id": list(map(stored_name, names)),
        "sent_ms": [sent_ms(name, now_ms=at_ms) for name in names],
        "due_ms": [read_score(message.score.decode("latin-1"))[0] for message in messages],
        "rc": [0 if message.rc is None else leading_int(message.rc) for message in messages],
        "fr_ms": [None if message.fr is None else leading_int(message.fr) for message in messages],
        "size": [message.size for message in messages],
        "body": [message.body for message in messages],
    }
    return inventory_rows(recorder, place, queue, found, len(messages), at_ms=at_ms, inventory_ms=inventory_ms)


def inventory_end(recorder: str, place: Place, queue: str, *, at_ms: int, inventory_ms: int) -> pa.RecordBatch:
    """Return the row that marks an inventory as complete."""
    return inventory_rows(recorder, place, queue, {}, 1, at_ms=at_ms, inventory_ms=inventory_ms)


def inventory_rows(
    recorder: str, place: Place, queue: str, found: dict[str, list[Any]], count: int, *, at_ms: int, inventory_ms: int
) -> pa.RecordBatch:
    """Return ``count`` rows of an inventory with the columns ``found``; other columns of a message are null."""
    same = {**place_columns(recorder, place), "queue": stored_name(queue), "at_ms": at_ms}
    same["inventory_ms"] = inventory_ms
    arrays = [
        array_of(found[field.name], field.type)
        if field.name in found
        else repeated(same.get(field.name), field.type, count)
        for field in _MESSAGES
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_MESSAGES)


def place_columns(recorder: str, place: Place) -> dict[str, str]:
    """Return the columns that all rows of a recorder and a place have."""
    return {
        "recorder": recorder,
        "profile": stored_name(place.profile),
        "server": stored_text(place.server),
        "ns": stored_name(place.ns),
    }
