"""The open segment of polls: what differs from the poll before, as bytes that are cheap to write.

To write the columns of a poll of a hundred queues by Arrow takes most of a millisecond, for each poll. Here a poll is a
frame: a header in JSON, then the bytes of the columns of numbers that differ from those of the poll before. Other
columns that differ are in the header, with the rows that do. The first poll of a place in a segment has all columns.
They become rows when the segment is sealed.

A frame begins with the length of its header, the length of its numbers and the checksum of both. What follows the last
whole frame is ignored: the writer was stopped there.
"""

import json
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rsmq_tui.files import JsonError, parse_json
from rsmq_tui.history.names import Place
from rsmq_tui.history.rows import (
    NumberColumn,
    Poll,
    PollTimes,
    QueueColumns,
    ValueColumn,
    arrays_of_place,
    bitmap_of,
    failed_poll,
    numbers_array,
    of_poll,
    place_columns,
    table_of,
    thresholds_text,
)
from rsmq_tui.history.schema import SAMPLES, SCHEMAS
from rsmq_tui.monitor import Snapshot, Thresholds

_TYPES = dict(zip(SCHEMAS[SAMPLES].names, SCHEMAS[SAMPLES].types, strict=True))
_FRAME = struct.Struct("<III")
_NUMBER_BYTES = 8
# About the size of a row in memory, without the text that differs from queue to queue.
_ROW_BYTES = sum(_NUMBER_BYTES for type_ in _TYPES.values() if pa.types.is_primitive(type_)) + 130
_COLUMN, _MARK = "polls", b"\npolls 1\n"
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
        self._place = place_columns(recorder, place)
        self._thresholds = thresholds_text(thresholds)
        self._times = PollTimes()
        self._queues = QueueColumns()
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
        header: dict[str, Any] = {"place": self._place, "at_ms": at_ms, "interval_ms": interval_ms}
        if snapshot.link.failure is not None:
            header["failure"] = snapshot.link.failure.sentence
        else:
            header["of_poll"] = of_poll(info, snapshot.memory_limit, self._thresholds)
        return BegunPoll(self, at_ms, snapshot, header)

    def frame(self, poll: BegunPoll, segment: object) -> tuple[bytes, int, int]:
        """Return the frame of a poll for a segment, its rows, and about their size in memory."""
        snapshot, header = poll.snapshot, poll.header
        if snapshot.link.failure is not None:
            return _frame(_encode(header), ()), 1, _ROW_BYTES
        if self._segment is not segment:
            self._queues.forget()
        self._segment = segment
        rows = len(snapshot.queues) + 1
        differing = self._queues.follow(snapshot.queues)
        numbers: list[NumberColumn] = []
        values: list[str] = []
        header["numbers"] = []
        for name, differing_rows in differing.items():
            column = self._queues.columns[name]
            if isinstance(column, NumberColumn):
                header["numbers"].append(name)
                numbers.append(column)
            else:
                # Each on its own: others cannot run while the names of 100,000 queues are encoded.
                values.append(f"{_encode(name)}:{_encode([differing_rows, column.values_at(differing_rows)])}")
        text = f'{_encode(header)[:-1]},"rows":{rows},"values":{{{",".join(values)}}}}}'
        parts = [column.parts() for column in numbers]
        data = _frame(text, [*(value for value, _ in parts), *(known for _, known in parts)])
        if None in differing.values():
            self._bytes = rows * _ROW_BYTES + len(text)
        return data, rows, self._bytes


def _frame(header: str, parts: Sequence[bytes]) -> bytes:
    text, size, checksum = header.encode(), 0, 0
    # Part by part: crc32 releases the GIL for more than 5 kB, and then has to wait for it.
    for part in (text, *parts):
        size, checksum = size + len(part), zlib.crc32(part, checksum)
    return b"".join((_FRAME.pack(len(text), size - len(text), checksum), text, *parts))


def is_poll_log(data: bytes) -> bool:
    """Return whether these are the bytes of a segment of polls."""
    try:
        return bool(pa.ipc.open_stream(data).schema.names == [_COLUMN])
    except (pa.ArrowException, OSError):
        return False


def read_polls(data: bytes) -> pa.Table | None:
    """Return the rows of a segment of polls up to its last whole frame, or None if there are none."""
    places: dict[str, _Place] = {}
    polls = []
    try:
        # Without the mark, the writer was stopped before the first frame.
        for header, numbers in _frames(data, data.index(_MARK) + len(_MARK)):
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
        self._rows = 0
        self._arrays: dict[str, pa.Array] = {}
        self._columns: dict[str, ValueColumn] = {}
        # The bitmap of each column, and what it was made from: which values are known seldom changes.
        self._bitmaps: dict[str, tuple[bytes, pa.Buffer | None]] = {}

    def poll(self, header: Mapping[str, Any], numbers: bytes) -> Poll:
        """Return the poll of a frame."""
        at_ms = header["at_ms"]
        if "failure" in header:
            return failed_poll(self._place, header["failure"], at_ms)
        rows = header["rows"]
        if rows != self._rows:
            self._rows, self._arrays, self._columns = rows, arrays_of_place(self._place, rows), {}
        changed = dict(self._numbers(header["numbers"], rows, numbers))
        for name, (differing_rows, values) in header["values"].items():
            if name not in _TYPES:
                continue
            if differing_rows is None:
                self._columns[name] = ValueColumn(_TYPES[name], values)
            else:
                self._columns[name].change(differing_rows, values)
            changed[name] = self._columns[name].array()
        # A new one: polls before this one have the arrays as they were.
        self._arrays = self._arrays | changed
        return Poll(at_ms, header["interval_ms"], self._arrays, header["of_poll"])

    def _numbers(self, names: Sequence[str], rows: int, numbers: bytes) -> Iterator[tuple[str, pa.Array]]:
        values, known_from = pa.py_buffer(numbers), len(names) * rows * _NUMBER_BYTES
        for place, name in enumerate(names):
            known = numbers[known_from + place * rows :][:rows]
            if name not in _TYPES:
                # A later version has written this.
                continue
            if name not in self._bitmaps or self._bitmaps[name][0] != known:
                self._bitmaps[name] = known, bitmap_of(known)
            size = rows * _NUMBER_BYTES
            yield name, numbers_array(_TYPES[name], rows, self._bitmaps[name][1], values.slice(place * size, size))
