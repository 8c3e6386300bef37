"""The manifest of an analysis, and reading its tables by column and time.

A reader sees one complete run, or none: if a run replaces the files meanwhile, the new manifest is read. A file that
cannot be read is left out and named in ``problems``. The manifest is JSON:

    {"schema": 3, "run": "...", "made_ms": 1, "history": "...", "problems": ["..."],
     "tables": {"rollup_1m": {"2031-05-17": ["tables/rollup_1m/.../part-0.parquet"]},
                "episodes": {"": ["tables/episodes/.../part-0.parquet"]}},
     "settings": {"poison_rc": 5}, "listed": {"samples": {"2031-05-17": "..."}},
     "left_out": {"samples/day=2031-05-17/a.parquet": ["...", "..."]}, "replaced": ["tables/.../part-0.parquet"]}
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow.fs import LocalFileSystem

from rsmq_tui.files import parse_json, reason_of, state_folder
from rsmq_tui.history.analysis.schema import COLUMNS, MANIFEST_FILE, SCHEMAS, VERSION
from rsmq_tui.history.analysis.values import TimeRange
from rsmq_tui.history.names import HistoryError
from rsmq_tui.history.store import LAST_MS, Store, is_day, nearest_day_of, open_store

T = TypeVar("T")
_KINDS: dict[type, str] = {dict: "object", list: "array", str: "string"}

WHOLE_KEY = ""
"""The key in place of a day, for tables that are not kept by day."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One complete run: its time, its history, its problems, and the files of each table by day.

    The rest is for the next run. ``settings`` are those of the tables. ``listed`` has a stamp for each day of the
    history whose files are all in the table ``sources``. ``left_out`` has the stamp of each file that could not be
    read, and the reason. ``replaced`` are the files that only the run before names. ``versions`` are those of the Delta
    tables.
    """

    run: str
    made_ms: int
    history: str
    problems: tuple[str, ...] = ()
    tables: dict[str, dict[str, tuple[str, ...]]] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    listed: dict[str, dict[str, str]] = field(default_factory=dict)
    left_out: dict[str, tuple[str, str]] = field(default_factory=dict)
    replaced: tuple[str, ...] = ()
    versions: dict[str, int] = field(default_factory=dict)
    schema: int = VERSION

    def files(self, table: str, from_day: str = "", to_day: str = "9999-99-99") -> list[str]:
        """Return the files of a table between two days, both included; names are relative to the analysis."""
        days = self.tables.get(table, {})
        return [name for day in sorted(days) if day == WHOLE_KEY or from_day <= day <= to_day for name in days[day]]

    def days(self, table: str) -> list[str]:
        """Return the days that a table has files of, the oldest first."""
        return sorted(day for day in self.tables.get(table, {}) if day != WHOLE_KEY)

    def as_text(self) -> str:
        """Return what ``_manifest.json`` holds."""
        return json.dumps(asdict(self)) + "\n"


def read_manifest(store: Store) -> Manifest | None:
    """Return the manifest of an analysis, or None if no run was completed; raises ``HistoryError``."""
    try:
        text = store.read(MANIFEST_FILE)
    except Exception as error:
        # Filesystems raise exceptions of their own.
        raise HistoryError(f"{store.label} cannot be read: {reason_of(error)}") from error
    if text is None:
        return None
    try:
        return _read(parse_json(text), store.label)
    except (ValueError, TypeError, LookupError) as error:
        why = f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
        raise HistoryError(
            f"{store.label}/{MANIFEST_FILE} is damaged ({why}): run the pipeline with --full to rebuild it"
        ) from error


def _read(given: Any, label: str) -> Manifest:
    """Return what a manifest says; raises ``HistoryError``, and ValueError, TypeError or KeyError for a damaged one."""
    if not isinstance(given, dict):
        raise TypeError("it is not an object")
    version = _whole(given["schema"], "schema")
    if version > VERSION:
        raise HistoryError(f"{label} has version {version}, but this program reads versions up to {VERSION}")
    tables: dict[str, dict[str, tuple[str, ...]]] = {}
    for table, days in _of(dict, given["tables"], "tables").items():
        if table not in COLUMNS:
            continue
        for day, names in _of(dict, days, table).items():
            if day != WHOLE_KEY and not is_day(day):
                raise ValueError(f"{table} has an invalid day")
            files = tuple(_of(str, name, "the name of a file") for name in _of(list, names, table))
            tables.setdefault(table, {})[day] = files
    return Manifest(
        run=_of(str, given["run"], "run"),
        made_ms=_whole(given["made_ms"], "made_ms", LAST_MS),
        history=_of(str, given["history"], "history"),
        problems=tuple(_of(str, problem, "a problem") for problem in _of(list, given["problems"], "problems")),
        tables=tables,
        settings=_of(dict, given.get("settings", {}), "settings"),
        listed={
            table: {day: _of(str, stamp, "a stamp") for day, stamp in _of(dict, days, table).items()}
            for table, days in _of(dict, given.get("listed", {}), "listed").items()
        },
        left_out={
            name: (_of(str, about[0], "a stamp"), _of(str, about[1], "a reason"))
            for name, about in _of(dict, given.get("left_out", {}), "left_out").items()
        },
        replaced=tuple(
            _of(str, name, "the name of a file") for name in _of(list, given.get("replaced", []), "replaced")
        ),
        versions={
            table: _whole(number, "a version")
            for table, number in _of(dict, given.get("versions", {}), "versions").items()
        },
        schema=version,
    )


def _of(kind: type[T], value: object, name: str) -> T:
    if not isinstance(value, kind):
        raise TypeError(f"{name} is not of the type {_KINDS[kind]}")
    return value


def _whole(value: object, name: str, most: int = 1 << 62) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise ValueError(f"{name} is not a number, or out of range")
    return value


def write_manifest(store: Store, manifest: Manifest, scratch: Path) -> None:
    """Publish a run by one rename; ``scratch`` is the path of a temporary file, used for a local store."""
    store.write(MANIFEST_FILE, manifest.as_text(), scratch)


# How often a read is repeated because a newer run was published.
_TRIES = 3
_PART_ROWS = 1 << 15
# Without buffers for whole row groups, which may be large.
_PARQUET = ds.ParquetFileFormat(
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(pre_buffer=False, use_buffered_stream=True)
)
_LOCAL = LocalFileSystem()


class _GoneError(Exception):
    """A file that the manifest names no longer exists."""


class Tables:
    """The tables of the analysis at ``out``, a path or a URL; raises ``HistoryError`` if there is none."""

    def __init__(self, out: str | Path, state: Path | None = None) -> None:
        self._store, _ = open_store(str(out), state or state_folder())
        self._left_out: dict[str, str] = {}
        self.label = self._store.label
        self.manifest = self._read_manifest()

    @property
    def problems(self) -> tuple[str, ...]:
        """A sentence for each problem: what the run left out, and what could not be read."""
        return (*self.manifest.problems, *self._left_out.values())

    @property
    def left_out(self) -> tuple[str, ...]:
        """A sentence for each file that could not be read."""
        return tuple(self._left_out.values())

    def renew(self) -> bool:
        """Look for a newer run, and return whether there is one; raises ``HistoryError``."""
        before, self.manifest = self.manifest, self._read_manifest()
        if self.manifest.run == before.run:
            return False
        self._left_out.clear()
        return True

    def days(self, table: str, span: TimeRange) -> set[str]:
        """Return the days of a span for which a table has files."""
        first, last = nearest_day_of(span.from_ms), nearest_day_of(span.to_ms)
        return {day for day in self.manifest.days(table) if first <= day <= last}

    def locations(self, table: str) -> list[str]:
        """Return the paths or URLs of the files of a table; raises ``HistoryError`` for a name outside the analysis."""
        try:
            return [self._store.location(name) for name in self.manifest.files(table)]
        except OSError as error:
            raise HistoryError(f"{self.label}: a file of {table} cannot be read: {reason_of(error)}") from error

    def read(
        self,
        table: str,
        columns: Sequence[str],
        wanted: pc.Expression | None = None,
        span: TimeRange | None = None,
    ) -> pa.Table:
        """Return some columns of the ``wanted`` rows, from the files of the days of ``span``."""
        parts = self.parts(table, columns, lambda part: part, wanted, span)
        return pa.concat_tables([pa.schema([SCHEMAS[table].field(name) for name in columns]).empty_table(), *parts])

    def parts(
        self,
        table: str,
        columns: Sequence[str],
        made: Callable[[pa.Table], T],
        wanted: pc.Expression | None = None,
        span: TimeRange | None = None,
        joined: Callable[[list[T]], T] | None = None,
    ) -> list[T]:
        """Return what is ``made`` of each part of the ``wanted`` rows; a part has at most ``_PART_ROWS`` rows.

        So a table of any size is read in bounded memory; ``joined`` makes one of the results of several files.
        """
        days = ("", "9999-99-99") if span is None else (nearest_day_of(span.from_ms), nearest_day_of(span.to_ms))
        for _ in range(_TRIES):
            try:
                return self._parts(table, columns, made, wanted, days, joined, is_final=False)
            except _GoneError:
                if not self.renew():
                    break
        return self._parts(table, columns, made, wanted, days, joined, is_final=True)

    def _read_manifest(self) -> Manifest:
        manifest = read_manifest(self._store)
        if manifest is None:
            raise HistoryError(
                f"{self.label} is not an analysis: rsmq-tui pipeline run --history DIR --out {self.label} creates one"
            )
        return manifest

    def _parts(
        self,
        table: str,
        columns: Sequence[str],
        made: Callable[[pa.Table], T],
        wanted: pc.Expression | None,
        days: tuple[str, str],
        joined: Callable[[list[T]], T] | None,
        *,
        is_final: bool,
    ) -> list[T]:
        found: list[T] = []
        for name in self.manifest.files(table, *days):
            try:
                batches = self._fragment(name).to_batches(
                    schema=SCHEMAS[table], columns=list(columns), filter=wanted, batch_size=_PART_ROWS,
                    batch_readahead=1, fragment_readahead=1, use_threads=False,
                )  # fmt: skip
                # Of a file that cannot be read to its end, nothing is used.
                of_file = [made(pa.Table.from_batches([batch])) for batch in batches if batch.num_rows]
            except FileNotFoundError as error:
                if not is_final:
                    raise _GoneError from error
                self._leave_out(name, "the file is missing; run the pipeline with --full to build it again")
            except Exception as error:
                # A bad file must not stop the others.
                self._leave_out(name, reason_of(error))
            else:
                found += of_file
                if joined is not None and len(found) > 1:
                    found = [joined(found)]
        return found

    def _fragment(self, name: str) -> ds.Fragment:
        source = self._store.open(name)
        return _PARQUET.make_fragment(source, _LOCAL) if isinstance(source, str) else _PARQUET.make_fragment(source)

    def _leave_out(self, name: str, why: str) -> None:
        self._left_out[name] = f"{self.label}/{name} was left out: {why[:200]}"
