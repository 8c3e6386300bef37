"""The open segment of polls: what differs from the poll before, as bytes that are cheap to write.

To write the columns of a poll of a hundred queues by Arrow takes most of a millisecond, for each poll. Here a poll is a
frame: a header in JSON, then numbers. It has the rows of the queues that changed, and their values in the columns that
differ from the poll before. The first poll of a place in a segment has all rows and columns. They become rows of a
table when the segment is sealed.

The numbers are, for each column of numbers, the values, 8 bytes each; then for each of these columns a byte for each
value, 1 if it is known; then the rows. A frame begins with the length of its header, the length of its numbers and the
checksum of both. What follows the last whole frame is ignored: the writer was stopped there.
"""

import json
import re
import struct
import zlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rsmq_tui.files import JsonError, parse_json
from rsmq_tui.history.names import HistoryError, Place
from rsmq_tui.history.rows import (
    Changes,
    NumberColumn,
    PlaceArrays,
    PollColumns,
    PollTimes,
    QueueChanges,
    failed_poll,
    of_poll,
    place_columns,
    table_of,
    thresholds_text,
)
from rsmq_tui.history.schema import SAMPLES, SCHEMAS
from rsmq_tui.monitor import Snapshot, Thresholds

_TYPES = dict(zip(SCHEMAS[SAMPLES].names, SCHEMAS[SAMPLES].types, strict=True))
_FRAME = struct.Struct("<III")
# Of each column of numbers, the code of ``array``.
_CODES = {
    name: "d" if pa.types.is_floating(type_) else "q"
    for name, type_ in _TYPES.items()
    if pa.types.is_floating(type_) or pa.types.is_integer(type_)
}
_NUMBER_BYTES, _ROW_NUMBER = 8, "I"
# crc32 releases the GIL for more, and then has to wait for it.
_CHECKED_BYTES = 4_096
# About the size of a row in memory, without the text that differs from queue to queue.
_ROW_BYTES = sum(_NUMBER_BYTES for type_ in _TYPES.values() if pa.types.is_primitive(type_)) + 130
_COLUMN, _MARK, _ANY_MARK = "polls", b"\npolls 2\n", re.compile(rb"\npolls \d+\n")
_encode = json.JSONEncoder(check_circular=False, separators=(",", ":")).encode


def _beginning() -> bytes:
    """Return how a segment of polls begins.

    An earlier version of this program that finds the segment of a recorder that was killed deletes what is not a stream
    of Arrow batches. A batch of other columns is an error, for which it leaves the segment to a later version.
    """
    sink, rows = pa.BufferOutputStream(), pa.record_batch([pa.array([1])], [_COLUMN])
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    return bytes(sink.getvalue()) + _MARK


BEGINNING = _beginning()


@dataclass(frozen=True, slots=True)
class BegunPoll:
    """A poll that is to be written by its ``log``; ``at_ms`` says to which segment it belongs."""

    log: "PollLog"
    at_ms: int
    snapshot: Snapshot
    header: dict[str, Any]

    def frame(self, segment: object) -> tuple[bytes, int, int]:
        """Return the frame of the poll for a segment, its rows, and about their size in memory."""
        return self.log.frame(self, segment)


class PollLog:
    """Turns the polls of one place into frames; ``thresholds`` are those of its verdicts.

    Each poll that ``begin`` returns must be written, by its ``frame``, before the next one begins; otherwise call
    ``forget``.
    """

    def __init__(self, recorder: str, place: Place, thresholds: Thresholds | None = None) -> None:
        # What is the same in all headers.
        self._same = _encode({"place": place_columns(recorder, place), "thresholds": thresholds_text(thresholds)})
        self._times = PollTimes()
        self._changes = QueueChanges()
        # What the last frame was written to.
        self._segment: object = None
        # About the size in memory of the rows of a poll.
        self._bytes = 0

    @property
    def last_ms(self) -> int | None:
        """The time of the last poll that the next one may be compared with; None if there is none."""
        return self._times.last_ms

    def forget(self) -> None:
        """Note that a poll was not written: the next one is compared with none."""
        self._times.last_ms = self._segment = None

    def begin(self, snapshot: Snapshot, wall_ms: int) -> BegunPoll:
        """Return a poll, which may have failed, with its time; ``wall_ms`` is that by the local clock."""
        at_ms, interval_ms, info = self._times.follow(snapshot, wall_ms)
        header: dict[str, Any] = {"at_ms": at_ms, "interval_ms": interval_ms}
        if snapshot.connection.failure is not None:
            header["failure"] = snapshot.connection.failure.sentence
        elif info is not None or snapshot.memory_limit is not None:
            header["of_poll"] = of_poll(info, snapshot.memory_limit)
        return BegunPoll(self, at_ms, snapshot, header)

    def frame(self, poll: BegunPoll, segment: object) -> tuple[bytes, int, int]:
        """Return the frame of a poll for a segment, its rows, and about their size in memory."""
        snapshot, text = poll.snapshot, f"{self._same[:-1]},{_encode(poll.header)[1:-1]}"
        if snapshot.connection.failure is not None:
            return _frame(f"{text}}}", ()), 1, _ROW_BYTES
        if self._segment is not segment:
            self._changes.forget()
        self._segment = segment
        count = len(snapshot.queues) + 1
        rows, changes = self._changes.follow(snapshot.queues)
        numbers = [name for name in changes if name in _CODES]
        # Each on its own: others cannot run while the names of 100,000 queues are encoded.
        values = [f"{_encode(name)}:{_encode(column)}" for name, column in changes.items() if name not in _CODES]
        text += f',"rows":{count},"changed":{len(rows)},"numbers":{_encode(numbers)},"values":{{{",".join(values)}}}}}'
        parts = [_number_parts(name, changes[name]) for name in numbers]
        row_numbers = array(_ROW_NUMBER, rows).tobytes()
        data = _frame(text, [*(value for value, _ in parts), *(known for _, known in parts), row_numbers])
        if len(rows) == count:
            self._bytes = count * _ROW_BYTES + len(text)
        return data, count, self._bytes


def _number_parts(name: str, values: Sequence[Any]) -> tuple[bytes, bytes]:
    try:
        # Fast path: most columns have a number for each.
        return array(_CODES[name], values).tobytes(), b"\1" * len(values)
    except (OverflowError, TypeError):
        return NumberColumn(_TYPES[name], values).parts()


def _frame(header: str, parts: Sequence[bytes]) -> bytes:
    text = header.encode()
    content, checksum = memoryview(b"".join((text, *parts))), 0
    for start in range(0, len(content), _CHECKED_BYTES):
        checksum = zlib.crc32(content[start : start + _CHECKED_BYTES], checksum)
    return b"".join((_FRAME.pack(len(text), len(content) - len(text), checksum), content))


def is_poll_log(data: bytes) -> bool:
    """Return whether these are the bytes of a segment of polls."""
    try:
        return bool(pa.ipc.open_stream(data).schema.names == [_COLUMN])
    except (pa.ArrowException, OSError):
        return False


def read_polls(data: bytes) -> pa.Table | None:
    """Return the rows of a segment of polls up to its last whole frame, or None if there are none.

    Raises ``HistoryError`` for a segment of another version of this program, which must not be removed.
    """
    places: dict[str, _Place] = {}
    polls = []
    mark = _ANY_MARK.search(data)
    if mark is None:
        # The writer was stopped before the first frame.
        return None
    if mark[0] != _MARK:
        raise HistoryError("a segment was written by another version of this program: record with that one to seal it")
    try:
        for header, numbers in _frames(data, mark.end()):
            key = _encode(header["place"])
            if key not in places:
                places[key] = _Place(header["place"])
            polls.append(places[key].poll(header, numbers))
    except (JsonError, LookupError, TypeError, ValueError, pa.ArrowException):
        # A checksum is right by chance, or another program has written this.
        pass
    return table_of(polls) if polls else None


def _frames(data: bytes, at: int) -> Iterator[tuple[dict[str, Any], bytes]]:
    while at + _FRAME.size <= len(data):
        header_bytes, number_bytes, checksum = _FRAME.unpack_from(data, at)
        begin = at + _FRAME.size
        at = begin + header_bytes + number_bytes
        if not header_bytes or at > len(data) or zlib.crc32(memoryview(data)[begin:at]) != checksum:
            return
        yield parse_json(data[begin : begin + header_bytes]), data[begin + header_bytes : at]


class _Place:
    """Turns the frames of a place into polls again."""

    def __init__(self, place: Mapping[str, str]) -> None:
        self._place = place
        self._arrays = PlaceArrays(place)

    def poll(self, header: Mapping[str, Any], numbers: bytes) -> PollColumns:
        """Return the poll of a frame."""
        at_ms = header["at_ms"]
        if "failure" in header:
            return failed_poll(self._place, header["failure"], at_ms)
        rows, changes = _changes_of(header, numbers)
        # A later version may have written others.
        known = {name: values for name, values in changes.items() if name in _TYPES}
        arrays = self._arrays.follow(header["rows"], rows, known)
        about = {**header.get("of_poll", {}), "thresholds": header["thresholds"]}
        return PollColumns(at_ms, header["interval_ms"], arrays, about)


def _changes_of(header: Mapping[str, Any], numbers: bytes) -> tuple[Sequence[int], Changes]:
    changed, names = header["changed"], header["numbers"]
    known_from, rows_from = (len(names) * changed * size for size in (_NUMBER_BYTES, _NUMBER_BYTES + 1))
    rows = array(_ROW_NUMBER, numbers[rows_from:])
    changes = dict(header["values"])
    for index, name in enumerate(names):
        values = array(_CODES.get(name, "q"), numbers[index * changed * _NUMBER_BYTES :][: changed * _NUMBER_BYTES])
        known = numbers[known_from + index * changed :][:changed]
        if 0 in known:
            changes[name] = [value if is_known else None for value, is_known in zip(values, known, strict=True)]
        else:
            changes[name] = values
    if {changed} != {len(rows), *map(len, changes.values())}:
        raise ValueError("values of other rows")
    return rows, changes
