"""The files of a history: which of them are new, the content of their footers, and which cannot be read.

A file is new if the table ``sources`` of the last run does not name it. Only days whose folder has changed since are
listed. A file that replaces others (see ``rsmq_tui.history.compaction``) is not new if all of its rows are known.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from rsmq_tui.files import reason_of
from rsmq_tui.history.analysis.schema import SOURCES
from rsmq_tui.history.analysis.tables import Manifest
from rsmq_tui.history.reading import replaced_by
from rsmq_tui.history.schema import MESSAGES, SAMPLES, SCHEMAS
from rsmq_tui.history.store import Store, is_day
from rsmq_tui.monitor.moments import HOUR_MS
from rsmq_tui.pipeline.folder import Folder, rows_in
from rsmq_tui.pipeline.state import PipelineError

HISTORY_TABLES = (SAMPLES, MESSAGES)
_AT_ONCE = 8
_SAID_MAX = 200
_NAMED = re.compile(r"reading file (\S+\.parquet)")


def day_in(name: str) -> str | None:
    """Return the day of a file of a history, by its name; None if it is not a file of a history."""
    parts = name.split("/")
    if len(parts) != 3 or not parts[1].startswith("day=") or parts[2].startswith(("_", ".")):
        return None
    day = parts[1].removeprefix("day=")
    return day if is_day(day) else None


class SourceFile(NamedTuple):
    """The footer of a file: the times of its rows, and the files that it replaces.

    The times are None if the footer does not have them, or cannot be read; ``why`` is then the reason.
    """

    name: str
    first_ms: int | None = None
    last_ms: int | None = None
    rows: int | None = None
    run: str = ""
    replaces: tuple[str, ...] = ()
    why: str | None = None

    def hours(self) -> set[int]:
        """Return the hours since 1970 in which it may have rows; empty if they are unknown."""
        if self.first_ms is None or self.last_ms is None:
            return set()
        return set(range(self.first_ms // HOUR_MS, self.last_ms // HOUR_MS + 1))


class Sources:
    """The files of a history, next to those that the manifest ``before`` knows.

    A day is listed when its files are needed, and then once. Raises ``PipelineError`` if the history cannot be listed.
    """

    def __init__(self, history: Folder, out: Folder, before: Manifest | None) -> None:
        self._history, self._out, self._before = history, out, before
        self._names: dict[tuple[str, str], set[str]] = {}
        self._known: dict[str, dict[str, SourceFile]] = {}
        self._footers: dict[str, SourceFile] = {}
        try:
            self.days = {
                table: {day: stamp for day, stamp in history.store.days(table).items() if is_day(day)}
                for table in HISTORY_TABLES
            }
        except Exception as error:
            raise PipelineError(_cannot_be_read(history, error)) from error

    @property
    def newest(self) -> str:
        """The newest day of samples; empty if there are none."""
        return max(self.days[SAMPLES], default="")

    def names(self, table: str, day: str) -> set[str]:
        """Return the names of the files of a day."""
        if (table, day) not in self._names:
            self._names[table, day] = self.names_now(table, day)
        return self._names[table, day]

    def names_now(self, table: str, day: str) -> set[str]:
        """Return the names of the files of a day, listed anew."""
        try:
            return {file.name for file in self._history.store.files(table, [day]) if day_in(file.name) is not None}
        except Exception as error:
            raise PipelineError(_cannot_be_read(self._history, error)) from error

    def known(self, day: str) -> dict[str, SourceFile]:
        """Return the files of a day that earlier runs have read, by name."""
        if day not in self._known:
            files = () if self._before is None else self._before.files(SOURCES, day, day)
            self._known[day] = {
                row["name"]: SourceFile(row["name"], row["first_ms"], row["last_ms"], row["rows"], row["run"] or "")
                for row in rows_in(self._out, SOURCES, files)
            }
        return self._known[day]

    def new(self, table: str, *, is_anew: bool) -> set[str]:
        """Return the files that no run has read, or all of them; their footers are read."""
        listed = {} if self._before is None or is_anew else self._before.listed.get(table, {})
        found = set()
        for day, stamp in self.days[table].items():
            if not stamp or listed.get(day) != stamp:
                found |= self.names(table, day) - (set() if is_anew else self.known(day).keys())
        return {name for name in self.footers(found) if is_anew or not self._is_copy(name)}

    def footers(self, names: Iterable[str]) -> dict[str, SourceFile]:
        """Return the footers of files, by name; a file that has vanished is left out."""
        names = sorted(names)
        missing = [name for name in names if name not in self._footers]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            self._footers |= {source.name: source for source in pool.map(self._footer, missing) if source is not None}
        return {name: self._footers[name] for name in names if name in self._footers}

    def of_day(self, table: str, day: str) -> dict[str, SourceFile]:
        """Return all files of a day, with what is known of them."""
        known = self.known(day)
        return {name: self._footers.get(name) or known.get(name) or SourceFile(name) for name in self.names(table, day)}

    def stamps(self) -> dict[str, dict[str, str]]:
        """Return the stamps of the days whose stamps are certain to change with their next change."""
        return {table: {day: stamp for day, stamp in days.items() if stamp} for table, days in self.days.items()}

    def _footer(self, name: str) -> SourceFile | None:
        try:
            return read_footer(self._history.store, name)
        except FileNotFoundError:
            # Its day was deleted meanwhile.
            return None
        except Exception as error:
            # A bad file must not stop the others.
            return SourceFile(name, why=_sentence_of(error))

    def _is_copy(self, name: str) -> bool:
        """Return whether all rows of a file are those of files that are known."""
        file, known = self._footers[name], self.known(day_in(name) or "")
        return bool(file.replaces) and file.rows == sum(
            known[part].rows or 0 for part in file.replaces if part in known
        )


def _cannot_be_read(history: Folder, error: Exception) -> str:
    return f"{history.label} cannot be read: {reason_of(error)}"


def read_footer(store: Store, name: str) -> SourceFile:
    """Read the footer of a file; raises if it cannot be read."""
    with pq.ParquetFile(store.open(name)) as file:
        why = odd_column(name, {field.name: field.type for field in file.schema_arrow})
        spans: list[tuple[int, int]] = []
        # Without the times of its rows, the whole day is computed.
        with suppress(ValueError, StopIteration):
            spans = spans_in(file.metadata, "at_ms")
        replaces = replaced_by(file.metadata.metadata)
        first_ms = min((first for first, _ in spans), default=None)
        last_ms = max((last for _, last in spans), default=None)
        return SourceFile(name, first_ms, last_ms, file.metadata.num_rows, "", replaces, why)


def spans_in(footer: pq.FileMetaData, column: str) -> list[tuple[int, int]]:
    """Return the first and last time of each row group; raises if one has no statistics."""
    place = next(number for number in range(footer.num_columns) if footer.schema.column(number).path == column)
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    bounds = [group.column(place).statistics for group in groups if group.num_rows]
    if not all(one is not None and one.has_min_max for one in bounds):
        raise ValueError("a row group has no statistics")
    return [(int(one.min), int(one.max)) for one in bounds]


def named_in(error: BaseException, names: Iterable[str]) -> str | None:
    """Return which of some files Spark could not read, by its message; None if it names none of them."""
    # Spark quotes the URL of the file; its last parts identify it.
    found = _NAMED.search(str(error))
    if found is None:
        return None
    ends = "/".join(unquote(found[1]).rsplit("/", 3)[1:])
    return ends if ends in set(names) else None


def damage_in(store: Store, names: Collection[str]) -> dict[str, str]:
    """Read files of a history completely, and return what is wrong with them, by name."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        damages = pool.map(lambda name: _damage(store, name), names)
        return {name: why for name, why in zip(names, damages, strict=True) if why is not None}


def _damage(store: Store, name: str) -> str | None:
    try:
        with pq.ParquetFile(store.open(name)) as file:
            for number in range(file.metadata.num_row_groups):
                file.read_row_group(number)
    except FileNotFoundError:
        return None
    except Exception as error:
        return _sentence_of(error)
    return None


def _sentence_of(error: Exception) -> str:
    return reason_of(error)[:_SAID_MAX]


def odd_column(name: str, types: Mapping[str, pa.DataType]) -> str | None:
    """Describe the first column whose type differs from the schema; missing and additional columns are accepted."""
    for column in SCHEMAS[name.partition("/")[0]]:
        found = types.get(column.name, column.type)
        if _plain(found) != _plain(column.type):
            return f"its column {column.name} is {found}, not {column.type}"
    return None


def _plain(kind: pa.DataType) -> str:
    """Return the name of a type, without names and widths that do not matter."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"list of {_plain(kind.value_type)}"
    return "string" if pa.types.is_large_string(kind) else "int64" if pa.types.is_int32(kind) else str(kind)
