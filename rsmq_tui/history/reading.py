"""Reads a history: its places, its time range, and its polls in order.

A file that cannot be read, or that was removed meanwhile, is left out and named in ``problems``. If a compaction has
removed it, the file that has its rows is read. Files are not trusted: rows of another day than their file's, and rows
without the required columns, are left out.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rsmq_tui.files import JsonError, parse_json, reason_of, state_folder
from rsmq_tui.history.names import HistoryError, Place
from rsmq_tui.history.schema import (
    DOWN,
    MESSAGES,
    OF_MEMORY,
    OF_SERVER,
    PLACES_KEY,
    REPLACES_KEY,
    SAMPLES,
    SCHEMA_FILE,
    SCHEMAS,
    VERSION,
    version_in,
)
from rsmq_tui.history.store import LAST_MS, SealedFile, Store, day_span_ms, nearest_day_of, open_store
from rsmq_tui.monitor import Thresholds
from rsmq_tui.monitor.moments import DAY_MS, HOUR_MS
from rsmq_tui.monitor.text import printable
from rsmq_tui.monitor.tracking.forecast import Limit
from rsmq_tui.protocol.server.status import ServerInfo

T = TypeVar("T")
# The usual time span of a file: each file is opened for one or two windows.
_WINDOW_MS = 600_000
_POLL = ("at_ms", "recorder", "profile", "server", "ns")
# A row without these is dropped.
_NEEDED = {SAMPLES: _POLL, MESSAGES: (*_POLL, "inventory_ms", "queue")}
# Rows read about midnight may be in the file of the day before.
_SLACK_MS = HOUR_MS
# A longer interval is invalid.
_INTERVAL_MAX_MS = DAY_MS
_TEXT_MAX = 1_000
# A longer threshold is invalid.
_SPAN_MAX_MS = 366 * DAY_MS
# The columns of the poll itself, in its row without a queue.
_OF_POLL = ("interval_ms", "status", "failure", "thresholds", *OF_SERVER, *OF_MEMORY)


class RecordedSpan(NamedTuple):
    """A span of time in ms; both ends are included."""

    from_ms: int
    to_ms: int


_ALWAYS = RecordedSpan(-LAST_MS, LAST_MS)


class ReplacedError(Exception):
    """A file was removed while it was read, because another one has its rows: list the files again."""


def is_joined(name: str) -> bool:
    """Return whether a compaction made a file, by its name: ``<recorder>-<first>-<last>.parquet``."""
    return name.rpartition("/")[2].count("-") == 2


def replaced_by(metadata: dict[bytes, bytes] | None) -> tuple[str, ...]:
    """Return the files that a file replaces, by its metadata; raises ``ValueError`` for damaged ones."""
    return tuple(map(str, parse_json((metadata or {}).get(REPLACES_KEY.encode(), b"[]"))))


def replaced_in(store: Store, names: Iterable[str]) -> set[str]:
    """Return the files that some files replace, whether they are still there or not; raises what reading raises."""
    found: set[str] = set()
    for name in filter(is_joined, names):
        with pq.ParquetFile(store.open(name)) as file:
            found.update(replaced_by(file.metadata.metadata))
    return found


@dataclass(frozen=True, slots=True)
class Poll:
    """One recorded poll of a place; ``failure`` is the reason if it failed.

    ``rows`` has a row for each queue, with the columns of the schema, sorted by name. ``thresholds`` are those of its
    verdicts; for older files, the defaults. ``info`` is the INFO of the server, in those polls that read it.
    ``memory_limit`` is as in ``Snapshot``; None for older files.
    """

    at_ms: int
    interval_ms: int | None
    recorder: str
    place: Place
    failure: str | None
    rows: pa.Table
    thresholds: Thresholds
    info: ServerInfo | None
    memory_limit: Limit | None


@dataclass(frozen=True, slots=True)
class RowFile:
    """A readable file: its name, its span, the places in it, and the files that it replaces."""

    name: str
    span: RecordedSpan
    places: tuple[Place, ...]
    replaces: tuple[str, ...] = ()


# Why a history has no rows, if none of its files is unreadable.
NONE_SEALED = (
    "a recorder seals a file after 10 minutes at most, and when it ends: wait, or stop it (Ctrl+C) and start it again"
)


class History:
    """Reads a history; raises ``HistoryError`` if there is none. ``problems`` names what was left out.

    Each call lists the files again; after the first call of ``refresh``, only ``refresh`` does.
    """

    def __init__(self, out: str | Path, *, state: Path | None = None) -> None:
        self.problems: list[str] = []
        self._store, _ = open_store(str(out), state or state_folder())
        self.label = self._store.label
        try:
            text = self._store.read(SCHEMA_FILE)
        except Exception as error:
            # Each kind of filesystem has errors of its own.
            raise HistoryError(f"{self.label} cannot be read: {reason_of(error)}") from error
        version = None if text is None else version_in(text)
        if version is None:
            raise HistoryError(f"{self.label} is not a history: rsmq-tui record --out {self.label} creates one")
        if version > VERSION:
            raise HistoryError(f"{self.label} has version {version}, but this program reads versions up to {VERSION}")
        self._file = lru_cache(None)(self._read_footer)
        self._listed: dict[str, list[SealedFile]] | None = None

    def refresh(self) -> None:
        """List the files again; from now on no other method does.

        Raises ``HistoryError`` if that fails the first time; later failures are added to ``problems``.
        """
        try:
            self._listed = {table: self._list(table) for table in SCHEMAS}
        except Exception as error:
            # Each kind of filesystem has errors of its own.
            if self._listed is None:
                raise HistoryError(f"{self.label} cannot be read: {reason_of(error)}") from error
            self._add_problem(f"{self.label} could not be searched again: {reason_of(error)}")

    def listed(self, table: str = SAMPLES) -> list[SealedFile]:
        """Return the files of a table, the oldest day first, without opening them."""
        return self._list(table) if self._listed is None else self._listed[table]

    def again(self, read: Callable[[], T]) -> T:
        """Return what ``read`` returns; if a file that it reads is replaced meanwhile, it is called again.

        It must list the files itself.
        """
        while True:
            with suppress(ReplacedError):
                return read()

    def span(self) -> RecordedSpan | None:
        """Return the time that the samples cover, or None if there are none."""
        return self.again(self._span)

    def _span(self) -> RecordedSpan | None:
        names: dict[str, list[str]] = {}
        for file in self.listed():
            names.setdefault(file.day, []).append(file.name)
        first = next((spans for day in names if (spans := self._spans(names[day]))), None)
        last = next((spans for day in reversed(names) if (spans := self._spans(names[day]))), None)
        if first is None or last is None:
            return None
        return RecordedSpan(min(span.from_ms for span in first), max(span.to_ms for span in last))

    def places(self, span: RecordedSpan | None = None) -> list[Place]:
        """Return the places that were recorded within ``span``, or at any time."""
        return sorted({place for file in self.files(span) for place in file.places})

    def places_in(self, name: str) -> tuple[Place, ...]:
        """Return the places in a file of samples; empty if it cannot be read. Raises ``ReplacedError``."""
        file = self._file(name)
        return () if file is None else file.places

    def span_in(self, name: str) -> RecordedSpan | None:
        """Return the span of a file of samples; None if it cannot be read. Raises ``ReplacedError``."""
        file = self._file(name)
        return None if file is None else file.span

    def polls(self, span: RecordedSpan | None = None) -> Iterator[Poll]:
        """Yield the polls of all places in chronological order.

        If several recorders recorded a place, the polls of all of them are yielded; ``recorder`` says whose they are.
        """
        left = span or _ALWAYS
        while True:
            # What is left is read from the files that replaced others meanwhile.
            with suppress(ReplacedError):
                for window, tables in self._windows(left):
                    yield from _polls(_within(window, tables))
                    left = RecordedSpan(window.to_ms + 1, left.to_ms)
                return

    def _windows(self, span: RecordedSpan) -> Iterator[tuple[RecordedSpan, list[pa.Table]]]:
        """Yield the windows of a span, with the tables that have rows of each."""
        open_: list[tuple[RowFile, pa.Table]] = []
        from_ms, waiting = span.from_ms, sorted(self.files(span), key=lambda file: file.span)
        while from_ms <= span.to_ms and (open_ or waiting):
            if not open_:
                from_ms = max(from_ms, waiting[0].span.from_ms)
            window = RecordedSpan(from_ms, min(span.to_ms, from_ms + _WINDOW_MS - 1))
            while waiting and waiting[0].span.from_ms <= window.to_ms:
                file, waiting = waiting[0], waiting[1:]
                if (table := self._rows(file.name)) is not None:
                    open_.append((file, table))
            yield window, [table for _, table in open_]
            from_ms = window.to_ms + 1
            open_ = [(file, table) for file, table in open_ if file.span.to_ms >= from_ms]

    def columns(self, name: str, columns: Sequence[str], table: str = SAMPLES) -> pa.Table | None:
        """Return some columns of a file, in its row order; None if it cannot be read. Raises ``ReplacedError``."""
        try:
            with pq.ParquetFile(self._store.open(name)) as file:
                known = set(file.schema_arrow.names)
                needed = dict.fromkeys([*columns, *_NEEDED[table]])
                found = _in_schema(file.read([column for column in needed if column in known]), table, [*needed])
                return _fit(found, name, table).select(columns)
        except Exception as error:
            self._leave_out(name, error)
            return None

    def files(self, span: RecordedSpan | None = None, table: str = SAMPLES) -> list[RowFile]:
        """Return the files that have rows of a span of time, the oldest day first."""
        return self.again(lambda: self._files(span, table))

    def _files(self, span: RecordedSpan | None, table: str) -> list[RowFile]:
        days = None if span is None else (nearest_day_of(span.from_ms), nearest_day_of(span.to_ms))
        found = []
        for sealed in self.listed(table):
            if days is not None and not days[0] <= sealed.day <= days[1]:
                continue
            file = self._file(sealed.name)
            if file is None:
                continue
            if span is None or (file.span.from_ms <= span.to_ms and file.span.to_ms >= span.from_ms):
                found.append(file)
        return found

    def _list(self, table: str, days: Sequence[str] | None = None) -> list[SealedFile]:
        """List the files of a table, or of some days, without those whose rows are in others.

        A compaction may have been killed before it removed these.
        """
        found = self._store.files(table, days)
        joined = (self._file(file.name) for file in found if is_joined(file.name))
        replaced = {name for file in joined if file is not None for name in file.replaces}
        return [file for file in found if file.name not in replaced]

    def _spans(self, names: Iterable[str]) -> list[RecordedSpan]:
        return [file.span for name in names if (file := self._file(name)) is not None]

    def _read_footer(self, name: str) -> RowFile | None:
        try:
            with pq.ParquetFile(self._store.open(name)) as file:
                metadata = file.metadata
                at = file.schema_arrow.names.index("at_ms")
                groups = [metadata.row_group(number).column(at).statistics for number in range(metadata.num_row_groups)]
                day = _day_of(name)
                span = RecordedSpan(min(int(group.min) for group in groups), max(int(group.max) for group in groups))
                if span.from_ms < day.from_ms or span.to_ms > day.to_ms:
                    # Rows of other days are ignored.
                    span = _span_within(file.read(["at_ms"]), day)
                places = parse_json((metadata.metadata or {})[PLACES_KEY.encode()])
                places = tuple(Place.read(*place) for place in places)
                return RowFile(name, span, places, replaced_by(metadata.metadata))
        except Exception as error:
            # Whatever is wrong with a file, the others are read.
            self._leave_out(name, error)
            return None

    def _rows(self, name: str) -> pa.Table | None:
        try:
            with pq.ParquetFile(self._store.open(name)) as file:
                return _fit(_in_schema(file.read()), name, SAMPLES)
        except Exception as error:
            self._leave_out(name, error)
            return None

    def _leave_out(self, name: str, error: Exception) -> None:
        if isinstance(error, FileNotFoundError) and self._is_replaced(name):
            raise ReplacedError from error
        self._add_problem(f"{self.label}/{name} was left out: {reason_of(error)}")

    def _is_replaced(self, name: str) -> bool:
        """Return whether another file has the rows of a file that is gone; then its day is listed again."""
        table, day = name.split("/", maxsplit=1)[0], name.split("/")[1].removeprefix("day=")
        try:
            now = self._list(table, [day])
        except Exception:
            # The history cannot be listed any more: the file is left out.
            return False
        joined = (self._file(file.name) for file in now if is_joined(file.name))
        if not any(file is not None and name in file.replaces for file in joined):
            return False
        if self._listed is not None:
            others = (file for file in self._listed[table] if file.day != day)
            self._listed[table] = sorted([*others, *now], key=lambda file: (file.day, file.name))
        return True

    def _add_problem(self, problem: str) -> None:
        # The same problem may occur repeatedly.
        if problem not in self.problems:
            self.problems.append(problem)


def _within(window: RecordedSpan, tables: Iterable[pa.Table]) -> pa.Table:
    wanted = (pc.field("at_ms") >= window.from_ms) & (pc.field("at_ms") <= window.to_ms)
    found = pa.concat_tables([SCHEMAS[SAMPLES].empty_table(), *(table.filter(wanted) for table in tables)])
    return found.sort_by([(name, "ascending") for name in (*_POLL, "queue")])


def _polls(rows: pa.Table) -> Iterator[Poll]:
    """Yield the polls in sorted rows; the last row of each has no queue."""
    start = 0
    alone = pc.indices_nonzero(pc.is_null(rows.column("queue"))).to_pylist()
    for end in alone:
        row: dict[str, Any] = rows.select([*_POLL, *_OF_POLL]).slice(end, 1).to_pylist()[0]
        failure = printable(row["failure"] or "the poll failed", _TEXT_MAX) if row["status"] == DOWN else None
        interval_ms = row["interval_ms"]
        if interval_ms is not None and not 0 <= interval_ms <= _INTERVAL_MAX_MS:
            interval_ms = None
        soonest_ms, latest_ms = (row[name] for name in OF_MEMORY)
        yield Poll(
            at_ms=row["at_ms"],
            interval_ms=interval_ms,
            recorder=row["recorder"],
            place=Place.read(row["profile"], row["server"], row["ns"]),
            failure=failure,
            rows=rows.slice(start, end - start),
            thresholds=read_thresholds(row["thresholds"]),
            info=_info_of(row),
            memory_limit=None if soonest_ms is None else Limit("memory", soonest_ms, latest_ms),
        )
        start = end + 1


def _info_of(row: Mapping[str, Any]) -> ServerInfo | None:
    """Return what the server said of itself at a poll; None if it was not asked. Older files have less of it."""
    found = {name: row[name] for name in OF_SERVER if row[name] is not None}
    if not row["run_id"] or any(name not in found for name in OF_SERVER if name not in ServerInfo._field_defaults):
        return None
    return ServerInfo(**found, at_ms=row["at_ms"])


@lru_cache
def read_thresholds(text: str | None) -> Thresholds:
    """Return recorded thresholds; missing and invalid ones are the defaults."""
    try:
        parsed = parse_json(text or "{}")
    except JsonError:
        parsed = None
    given, found = parsed if isinstance(parsed, dict) else {}, asdict(Thresholds())
    for name, usual in found.items():
        value: Any = given.get(name)
        if type(value) in (int, type(usual)) and 0 <= value <= _SPAN_MAX_MS:
            found[name] = value
    return Thresholds(**found)


def _day_of(name: str) -> RecordedSpan:
    """Return the span of the day of a file, with some slack; raises ValueError."""
    day = name.split("/")[1].removeprefix("day=")
    span_ms = day_span_ms(day)
    if span_ms is None:
        raise ValueError(f"{day} is not a valid date")
    return RecordedSpan(span_ms[0] - _SLACK_MS, span_ms[1] + _SLACK_MS)


def _span_within(rows: pa.Table, day: RecordedSpan) -> RecordedSpan:
    """Return the span of the rows of a file that are of its day; raises ValueError if there are none."""
    times = rows.column("at_ms").cast(pa.int64())
    known = pc.min_max(times.filter(pc.and_(pc.greater_equal(times, day.from_ms), pc.less_equal(times, day.to_ms))))
    first, last = known["min"].as_py(), known["max"].as_py()
    if first is None:
        raise ValueError("the file contains no rows of its day")
    return RecordedSpan(first, last)


def _fit(found: pa.Table, name: str, table: str) -> pa.Table:
    """Leave out rows of another day than the file's, and rows without the required columns."""
    day = _day_of(name)
    fits = (pc.field("at_ms") >= day.from_ms) & (pc.field("at_ms") <= day.to_ms)
    for column in _NEEDED[table]:
        fits &= pc.field(column).is_valid()
    return found.filter(fits)


def _in_schema(found: pa.Table, table: str = SAMPLES, names: Sequence[str] | None = None) -> pa.Table:
    """Return a table with the columns of this version, or those named: others are left out, missing ones null."""
    fields = [field for field in SCHEMAS[table] if names is None or field.name in names]
    columns = [
        found.column(field.name).cast(field.type)
        if field.name in found.column_names
        else pa.nulls(found.num_rows, field.type)
        for field in fields
    ]
    return pa.table(columns, schema=pa.schema(fields))
