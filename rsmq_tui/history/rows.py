"""From states and messages to columns and rows.

Most queues do not change from poll to poll: only what changed since the poll before is converted.
"""

import json
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import compress
from operator import is_not
from typing import Any, NamedTuple

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
from rsmq_tui.protocol.server.status import ServerInfo

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
        # The bitmap of ``_known``; None if it must be made again, or is not needed.
        self._bitmap: pa.Buffer | None = None
        self.change(range(self._count), values)

    def change(self, ats: Sequence[int], values: Iterable[Any]) -> None:
        """Change the values at these indexes."""
        kept, known = self._values, self._known
        for at, value in zip(ats, values, strict=True):
            try:
                kept[at] = value
                is_known = 1
            except (OverflowError, TypeError):
                fitted = None if value is None else self._fitted(value)
                is_known = fitted is not None
                if fitted is not None:
                    kept[at] = fitted  # type: ignore[assignment]  # the fitting one of two types
            if known[at] != is_known:
                known[at] = is_known
                self._bitmap = None

    def array(self) -> pa.Array:
        """Return the current values."""
        if self._bitmap is None:
            self._bitmap = _bitmap_of(self._known)
        values = pa.py_buffer(self._values.tobytes())
        return pa.Array.from_buffers(self._type, self._count, [self._bitmap, values])

    def parts(self) -> tuple[bytes, bytes]:
        """Return the current values, 8 bytes each, and for each a byte that is 1 if it is known."""
        return self._values.tobytes(), bytes(self._known)


def _bitmap_of(known: bytes | bytearray) -> pa.Buffer | None:
    """Return Arrow's validity bitmap, with a bit for each value; None if all are known."""
    if 0 not in known:
        return None
    bytes_ = pa.Array.from_buffers(pa.uint8(), len(known), [None, pa.py_buffer(known)])
    return bytes_.cast(pa.bool_()).buffers()[1]


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
_NOTHING, _UNKNOWN, _LONGEST = (pa.scalar(number, pa.int64()) for number in (0, None, _WHOLE_MAX))

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
# The columns of the times of messages in flight, in the order of their fields; the first one is how old they are.
_FLIGHT_TIMES = ("sampled_age_ms", *FlightTimes._fields[1:])
_TIMES_MAX_MS = pa.scalar(TIMES_KEPT_MS, pa.int64())
# Null for kinds of queues that do not count receives.
_COUNTED = ("poison", "highest_rc")
_OF_POLL = (*OF_SERVER, *OF_MEMORY, "thresholds")


# What is recorded of a state: one value for each of these columns. Times of messages in flight come last.
_RECORDED = (*_FIELDS, *_FLIGHT_TIMES)
_FIELDS_AT = tuple(map(QueueState._fields.index, _FIELDS.values()))
_TIMES_AT = QueueState._fields.index("times")
_NO_TIMES = (None,) * len(_FLIGHT_TIMES)


def _recorded(queues: Sequence[QueueState]) -> list[Sequence[Any]]:
    """Return what is recorded of these queues, by column, as their states have it."""
    if not queues:
        return [()] * len(_RECORDED)
    # Transposed, they are compared at once.
    fields = list(zip(*queues, strict=True))
    flights = zip(*[times or _NO_TIMES for times in fields[_TIMES_AT]], strict=True)
    return [*map(fields.__getitem__, _FIELDS_AT), *flights]


def _stored(name: str, values: Sequence[Any], queues: Sequence[QueueState]) -> Sequence[Any]:
    """Return values of these queues as the column of that name has them."""
    if name in _COUNTED:
        counts = (kind_named(queue.kind).counts_receives for queue in queues)
        return [value if is_counted else None for value, is_counted in zip(values, counts, strict=True)]
    return list(map(_STORED[name], values)) if name in _STORED else values


class PollColumns(NamedTuple):
    """A poll of a place, as the columns of its rows: one for each queue, and one without a queue for the poll itself.

    ``arrays`` are what is known of each row, by column, ``of_poll`` what is known of the last one alone. Columns that
    count from the time of the poll have the moments that they count from. What is in neither is unknown.
    """

    at_ms: int
    interval_ms: int | None
    arrays: Mapping[str, pa.Array]
    of_poll: Mapping[str, Any]


def table_of(polls: Sequence[PollColumns]) -> pa.Table:
    """Return the rows of these polls, at least one."""
    counts = [len(poll.arrays["recorder"]) for poll in polls]

    def joined(name: str, array_of_poll: Callable[[PollColumns, int], pa.Array]) -> pa.Array:
        arrays = list(map(array_of_poll, polls, counts))
        return arrays[0] if len(arrays) == 1 else pa.chunked_array(arrays, _SAMPLES.field(name).type).combine_chunks()

    at_ms = joined("at_ms", lambda poll, count: repeated(poll.at_ms, pa.int64(), count))
    columns = {"at_ms": at_ms}
    for name, type_ in zip(_SAMPLES.names, _SAMPLES.types, strict=True):
        if name == "interval_ms":
            columns[name] = joined(name, lambda poll, count: repeated(poll.interval_ms, pa.int64(), count))
        elif name in _OF_POLL and all(poll.of_poll.get(name) is None for poll in polls):
            columns[name] = pa.nulls(len(at_ms), type_)
        elif name in _OF_POLL:
            columns[name] = joined(name, partial(_in_last_row, name, type_))
        elif name != "at_ms":
            columns[name] = joined(name, partial(_in_each_row, name, type_))
    for name in _SINCE:
        columns[name] = _age(at_ms, columns[name])
    looked_ms = columns["sampled_age_ms"]
    # If no messages in flight were looked at, their columns are null as they are.
    if looked_ms.null_count < len(looked_ms):
        columns["sampled_age_ms"] = _age(at_ms, looked_ms)
        is_recent = pc.less_equal(columns["sampled_age_ms"], _TIMES_MAX_MS)
        columns |= {name: pc.if_else(is_recent, columns[name], _UNKNOWN) for name in _FLIGHT_TIMES}
    return pa.table([columns[name] for name in _SAMPLES.names], schema=_SAMPLES)


def _in_each_row(name: str, type_: pa.DataType, poll: PollColumns, count: int) -> pa.Array:
    found = poll.arrays.get(name)
    return pa.nulls(count, type_) if found is None else found


def _in_last_row(name: str, type_: pa.DataType, poll: PollColumns, count: int) -> pa.Array:
    value = poll.of_poll.get(name)
    last = array_of([stored_text(value) if isinstance(value, str) else value], type_)
    return last if count == 1 else pa.concat_arrays([pa.nulls(count - 1, type_), last])


def _age(at_ms: pa.Array, times_ms: pa.Array) -> pa.Array:
    """Return the time since each of these, never negative; null if it does not fit, as clients may write any time."""
    fits = pc.greater_equal(times_ms, pc.subtract(at_ms, _LONGEST))
    return pc.if_else(fits, pc.max_element_wise(pc.subtract(at_ms, times_ms), _NOTHING, skip_nulls=False), _UNKNOWN)


def of_poll(info: ServerInfo | None, memory_limit: Limit | None) -> dict[str, Any]:
    """Return what is recorded of a poll itself, other than its thresholds."""
    of_server = {} if info is None else {name: getattr(info, name) for name in OF_SERVER}
    of_memory = {} if memory_limit is None else dict(zip(OF_MEMORY, memory_limit[1:], strict=True))
    return {**of_server, **of_memory}


def thresholds_text(thresholds: Thresholds | None) -> str | None:
    """Return thresholds as they are recorded."""
    return None if thresholds is None else json.dumps(asdict(thresholds))


class PollTimes:
    """Follows the polls of a place: when they were made, and what is new of the server.

    ``last_ms`` is the time of the last poll that the next one may be compared with; None if there is none.
    """

    def __init__(self) -> None:
        self.last_ms: int | None = None
        self._info: ServerInfo | None = None
        # How far the server's clock is ahead of the local clock.
        self._ahead_ms = 0

    def follow(self, snapshot: Snapshot, wall_ms: int) -> tuple[int, int | None, ServerInfo | None]:
        """Return the time of a poll, the time since the one before, and INFO if it was read since.

        ``wall_ms`` is its time by the local clock, from which that of a poll that failed is estimated.
        """
        if snapshot.connection.failure is not None:
            self.last_ms = None
            return wall_ms + self._ahead_ms, None, None
        at_ms, last_ms = snapshot.at_ms, self.last_ms
        self._ahead_ms, self.last_ms = at_ms - wall_ms, at_ms
        info = None if snapshot.info == self._info else snapshot.info
        self._info = snapshot.info
        return at_ms, at_ms - last_ms if last_ms is not None and at_ms > last_ms else None, info


# The values of some rows, by column.
Changes = Mapping[str, Sequence[Any]]


class QueueChanges:
    """What is recorded of the queues of a place, as far as it differs from the poll before."""

    def __init__(self) -> None:
        self._queues: tuple[QueueState, ...] | None = None

    def follow(self, queues: tuple[QueueState, ...]) -> tuple[Sequence[int], Changes]:
        """Take over the states of a poll; return the rows of queues that changed, and their values by column.

        Columns that do not differ in any of these rows are left out. If there are other queues than before, these are
        all rows and columns, also the row of the poll itself, which comes last and has no values.
        """
        before, self._queues = self._queues, queues
        if before is None or len(before) != len(queues):
            all_values = zip(_RECORDED, _recorded(queues), strict=True)
            return range(len(queues) + 1), {name: [*_stored(name, values, queues), None] for name, values in all_values}
        # Most of thousands of queues are the same objects as before: no Python code must run for each, nor for each
        # value of those that changed.
        rows = list(compress(range(len(queues)), map(is_not, before, queues)))
        was, now = (list(map(states.__getitem__, rows)) for states in (before, queues))
        columns = zip(_RECORDED, _recorded(was), _recorded(now), strict=True)
        return rows, {name: _stored(name, new, now) for name, old, new in columns if old != new}

    def forget(self) -> None:
        """Compare the next poll with none."""
        self._queues = None


class PlaceArrays:
    """The columns of a place, poll by poll, as arrays; ``place`` is from ``place_columns``.

    Raises ``ValueError`` or ``LookupError`` for changes that do not follow from the polls before.
    """

    def __init__(self, place: Mapping[str, str]) -> None:
        self._place = place
        self._count = 0
        self._columns: dict[str, NumberColumn | ValueColumn] = {}
        self._arrays: dict[str, pa.Array] = {}

    def follow(self, count: int, rows: Sequence[int], changes: Changes) -> Mapping[str, pa.Array]:
        """Return the columns of a poll with ``count`` rows; the changes are from ``QueueChanges``."""
        if len(rows) == count:
            self._count, self._arrays = count, arrays_of_place(self._place, count)
            self._columns = {name: column_of(_SAMPLES.field(name).type, values) for name, values in changes.items()}
        elif count != self._count:
            raise ValueError("changes of other rows")
        else:
            for name, values in changes.items():
                self._columns[name].change(rows, values)
        # A new one: polls before this one have the arrays as they were.
        self._arrays = self._arrays | {name: self._columns[name].array() for name in changes}
        return self._arrays


class SampleRows:
    """Converts the polls of one place to rows; ``thresholds`` are those of its verdicts."""

    def __init__(self, recorder: str, place: Place, thresholds: Thresholds | None = None) -> None:
        self._place = place_columns(recorder, place)
        self._thresholds = thresholds_text(thresholds)
        self._times = PollTimes()
        self._changes = QueueChanges()
        self._arrays = PlaceArrays(self._place)

    def taken(
        self, snapshot: Snapshot, wall_ms: int, queues: tuple[QueueState, ...] | None = None
    ) -> tuple[pa.RecordBatch, int]:
        """Return the rows of a poll, which may have failed, and its time; ``wall_ms`` is its time by the local clock.

        ``queues`` limits the rows to these queues.
        """
        at_ms, interval_ms, info = self._times.follow(snapshot, wall_ms)
        if snapshot.connection.failure is not None:
            return self.failed(snapshot.connection.failure.sentence, at_ms), at_ms
        wanted = snapshot.queues if queues is None else queues
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
        arrays = self._arrays.follow(len(queues) + 1, *self._changes.follow(queues))
        about = {**of_poll(info, memory_limit), "thresholds": self._thresholds}
        return _batch_of(PollColumns(at_ms, interval_ms, arrays, about))

    def failed(self, failure: str, at_ms: int) -> pa.RecordBatch:
        """Return the single row of a failed poll."""
        return _batch_of(failed_poll(self._place, failure, at_ms))


def _batch_of(poll: PollColumns) -> pa.RecordBatch:
    return table_of((poll,)).to_batches()[0]


def arrays_of_place(place: Mapping[str, str], count: int) -> dict[str, pa.Array]:
    """Return the columns that all rows of a poll that succeeded have; ``place`` is from ``place_columns``."""
    return {name: repeated(value, pa.string(), count) for name, value in {**place, "status": OK}.items()}


def failed_poll(place: Mapping[str, str], failure: str, at_ms: int) -> PollColumns:
    """Return a poll that failed, which is a single row; ``place`` is from ``place_columns``."""
    row = {**place, "status": DOWN, "failure": stored_text(failure)}
    return PollColumns(at_ms, None, {name: repeated(value, pa.string(), 1) for name, value in row.items()}, {})


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
    return {"recorder": recorder, **place.stored._asdict(), "server": stored_text(place.server)}
