"""The files of an analysis, read by table, columns and time; a run that replaces them meanwhile is followed.

A file that cannot be read is left out and named in ``problems``.
"""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow.fs import LocalFileSystem

from rsmq_tui.folders import state_folder
from rsmq_tui.history.analysis.manifest import Manifest, read_manifest
from rsmq_tui.history.analysis.schema import SCHEMAS
from rsmq_tui.history.analysis.values import TimeRange
from rsmq_tui.history.errors import HistoryError
from rsmq_tui.history.keeping import nearest_day_of
from rsmq_tui.history.store import open_store

# So many newer runs may come along during one question.
_TRIES = 3
_PARQUET = ds.ParquetFileFormat()
_LOCAL = LocalFileSystem()


class _GoneError(Exception):
    """A file that the manifest names is not there any more."""


class Tables:
    """The tables of the analysis at ``out``, a path or a URL; raises ``HistoryError`` where there is none."""

    def __init__(self, out: str | Path, state: Path | None = None) -> None:
        self._store, _ = open_store(str(out), state or state_folder())
        self._left_out: dict[str, str] = {}
        self.label = self._store.label
        self.manifest = self._look()

    @property
    def problems(self) -> tuple[str, ...]:
        """A sentence for each thing that is missing: what the run left out, and what could not be read."""
        return (*self.manifest.problems, *self._left_out.values())

    @property
    def left_out(self) -> tuple[str, ...]:
        """A sentence for each file that could not be read."""
        return tuple(self._left_out.values())

    def renew(self) -> bool:
        """Look for a newer run, and tell whether there is one; raises ``HistoryError``."""
        before, self.manifest = self.manifest, self._look()
        if self.manifest.run == before.run:
            return False
        self._left_out.clear()
        return True

    def days(self, table: str, span: TimeRange) -> set[str]:
        """Return the days that a span touches and a table has files of."""
        first, last = nearest_day_of(span.from_ms), nearest_day_of(span.to_ms)
        return {day for day in self.manifest.days(table) if first <= day <= last}

    def read(
        self,
        table: str,
        columns: Sequence[str],
        wanted: pc.Expression | None = None,
        span: TimeRange | None = None,
    ) -> pa.Table:
        """Return some columns of the rows that are ``wanted``, from the files of the days that ``span`` touches."""
        days = ("", "9999-99-99") if span is None else (nearest_day_of(span.from_ms), nearest_day_of(span.to_ms))
        for _ in range(_TRIES):
            try:
                return self._read(table, columns, wanted, days, is_final=False)
            except _GoneError:
                if not self.renew():
                    break
        return self._read(table, columns, wanted, days, is_final=True)

    def _look(self) -> Manifest:
        manifest = read_manifest(self._store)
        if manifest is None:
            raise HistoryError(
                f"{self.label} is not an analysis: rsmq-tui pipeline run --history DIR --out {self.label} creates one"
            )
        return manifest

    def _read(
        self, table: str, columns: Sequence[str], wanted: pc.Expression | None, days: tuple[str, str], *, is_final: bool
    ) -> pa.Table:
        schema = SCHEMAS[table]
        parts = [pa.schema([schema.field(name) for name in columns]).empty_table()]
        for name in self.manifest.files(table, *days):
            try:
                parts.append(self._fragment(name).to_table(schema=schema, columns=list(columns), filter=wanted))
            except FileNotFoundError as error:
                if not is_final:
                    raise _GoneError from error
                self._leave_out(name, "the file is missing; run the pipeline with --full to build it again")
            except Exception as error:
                # Whatever is wrong with a file, the others are read.
                self._leave_out(name, str(error).splitlines()[0] if str(error) else type(error).__name__)
        return pa.concat_tables(parts)

    def _fragment(self, name: str) -> ds.Fragment:
        source = self._store.open(name)
        return _PARQUET.make_fragment(source, _LOCAL) if isinstance(source, str) else _PARQUET.make_fragment(source)

    def _leave_out(self, name: str, why: str) -> None:
        self._left_out[name] = f"{self.label}/{name} was left out: {why[:200]}"
