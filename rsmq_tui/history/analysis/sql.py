"""SQL over an analysis, by DuckDB: a view for each table, of exactly the files that the manifest names.

So a query sees one complete run; a glob over the folder would also see the files of replaced and failed runs.
"""

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from rsmq_tui.files import reason_of
from rsmq_tui.history.analysis.schema import BY_DAY, COLUMNS, SCHEMAS, SOURCES
from rsmq_tui.history.analysis.tables import Tables
from rsmq_tui.history.names import HistoryError
from rsmq_tui.history.reading import replaced_in
from rsmq_tui.history.schema import SCHEMAS as HISTORY_SCHEMAS
from rsmq_tui.history.store import open_store


class SqlError(Exception):
    """A query that failed; its text is one line."""


class Database:
    """The tables of an analysis, and ``samples`` and ``messages`` of its history, in DuckDB.

    Tables by day have the column ``day``. The macro ``utc(ms)`` makes a timestamp. Raises ``HistoryError`` if
    there is no analysis.
    """

    def __init__(self, out: str, history: str | None, state: Path) -> None:
        import duckdb  # noqa: PLC0415 - only this command needs it

        self._error = duckdb.Error
        self._tables = Tables(out, state)
        self._history = history or self._tables.manifest.history
        self._state = state
        self._con = duckdb.connect()
        self._con.execute(f"set temp_directory = {_text(tempfile.gettempdir())}; set timezone = 'UTC'")
        self._con.execute("create macro utc(ms) as make_timestamp(ms * 1000)")

    def query(self, text: str) -> tuple[list[str], Iterator[tuple[Any, ...]]]:
        """Run a query, and return its columns and rows; raises ``SqlError``, also while the rows are read."""
        try:
            # A view reads the footers of its files: only those that the query may name are made.
            words = set(re.findall(r"\w+", text.lower()))
            for table in COLUMNS:
                if table in words:
                    files = self._tables.locations(table)
                    self._view(table, SCHEMAS[table], files, is_by_day=table in BY_DAY or table == SOURCES)
            for table in HISTORY_SCHEMAS:
                if table in words:
                    self._view(table, HISTORY_SCHEMAS[table], self._sealed(table), is_by_day=True)
            self._con.execute(text)
            columns = [str(column[0]) for column in self._con.description or ()]
        except self._error as error:
            raise SqlError(reason_of(error)) from error
        return columns, self._rows()

    def _rows(self) -> Iterator[tuple[Any, ...]]:
        try:
            while rows := self._con.fetchmany(1_000):
                yield from rows
        except self._error as error:
            raise SqlError(reason_of(error)) from error

    def _sealed(self, table: str) -> list[str]:
        """Return the files of a table of the history; raises ``HistoryError``."""
        store, _ = open_store(self._history, self._state)
        try:
            names = [file.name for file in store.files(table)]
            replaced = replaced_in(store, names)
            return [store.location(name) for name in names if name not in replaced]
        except Exception as error:
            # Filesystems raise exceptions of their own.
            raise HistoryError(f"{store.label} cannot be read: {reason_of(error)}") from error

    def _view(self, table: str, schema: pa.Schema, files: list[str], *, is_by_day: bool) -> None:
        # Files of earlier versions lack columns: these are null.
        self._con.register(f"_{table}", schema.empty_table())
        rows = f"select * from _{table}"
        if files:
            for protocol in {file.partition("://")[0] for file in files if "://" in file}:
                self._register(protocol)
            named = ", ".join(map(_text, files))
            of_days = ", hive_partitioning = true, hive_types = {'day': date}" if is_by_day else ""
            rows += f" union all by name select * from read_parquet([{named}], union_by_name = true{of_days})"
        elif is_by_day:
            rows = f"select *, null::date as day from _{table}"
        self._con.execute(f"create or replace view {table} as {rows}")

    def _register(self, protocol: str) -> None:
        import fsspec  # noqa: PLC0415 - only for tables that are elsewhere

        if not self._con.filesystem_is_registered(protocol):
            self._con.register_filesystem(fsspec.filesystem(protocol))


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
