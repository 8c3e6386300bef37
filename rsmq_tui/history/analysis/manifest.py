"""The manifest: which files make up each table of an analysis. Whoever reads it sees one complete run, or none.

{"schema": 1, "run": "...", "made_ms": 1, "history": "...", "problems": ["..."],
 "tables": {"rollup_1m": {"2031-05-17": ["runs/.../part-0.parquet"]}, "episodes": {"": ["runs/.../part-0.parquet"]}}}
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from rsmq_tui.files import parse_json
from rsmq_tui.history.analysis.schema import COLUMNS, MANIFEST_FILE, VERSION
from rsmq_tui.history.errors import HistoryError
from rsmq_tui.history.keeping import LAST_MS, is_day
from rsmq_tui.history.store import Store

T = TypeVar("T")
_KINDS: dict[type, str] = {dict: "object", list: "array", str: "string"}

WHOLE_KEY = ""
"""What stands for the day in a table that is not kept by day."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One complete run: when it was made, of which history, what was left out, and the files of each table by day."""

    run: str
    made_ms: int
    history: str
    problems: tuple[str, ...] = ()
    tables: dict[str, dict[str, tuple[str, ...]]] = field(default_factory=dict)

    def files(self, table: str, from_day: str = "", to_day: str = "9999-99-99") -> list[str]:
        """Return the files of a table, between two days, both in it; names are relative to the analysis."""
        days = self.tables.get(table, {})
        return [name for day in sorted(days) if day == WHOLE_KEY or from_day <= day <= to_day for name in days[day]]

    def days(self, table: str) -> list[str]:
        """Return the days that a table has files of, the oldest first."""
        return sorted(day for day in self.tables.get(table, {}) if day != WHOLE_KEY)

    def as_text(self) -> str:
        """Return what ``_manifest.json`` holds."""
        return json.dumps({"schema": VERSION, **asdict(self)}) + "\n"


def read_manifest(store: Store) -> Manifest | None:
    """Return the manifest of an analysis, or None where no run was completed; raises ``HistoryError``."""
    try:
        text = store.read(MANIFEST_FILE)
    except Exception as error:
        # Each kind of filesystem has errors of its own.
        raise HistoryError(f"{store.label} cannot be read: {error}") from error
    if text is None:
        return None
    try:
        return _read(parse_json(text), store.label)
    except (ValueError, TypeError, KeyError) as error:
        why = f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
        raise HistoryError(
            f"{store.label}/{MANIFEST_FILE} is damaged ({why}): run the pipeline with --full to rebuild it"
        ) from error


def _read(told: Any, label: str) -> Manifest:
    """Return what a manifest says; raises ``HistoryError``, and ValueError, TypeError or KeyError for a damaged one."""
    if not isinstance(told, dict):
        raise TypeError("it is not an object")
    version = _whole(told["schema"], "schema")
    if version > VERSION:
        raise HistoryError(f"{label} has version {version}, but this program reads versions up to {VERSION}")
    tables: dict[str, dict[str, tuple[str, ...]]] = {}
    for table, days in _of(dict, told["tables"], "tables").items():
        if table not in COLUMNS:
            continue
        for day, names in _of(dict, days, table).items():
            if day != WHOLE_KEY and not is_day(day):
                raise ValueError(f"{table} has an invalid day")
            files = tuple(_of(str, name, "the name of a file") for name in _of(list, names, table))
            tables.setdefault(table, {})[day] = files
    return Manifest(
        _of(str, told["run"], "run"),
        _whole(told["made_ms"], "made_ms", LAST_MS),
        _of(str, told["history"], "history"),
        tuple(_of(str, problem, "a problem") for problem in _of(list, told["problems"], "problems")),
        tables,
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
    """Let a run become visible, by one rename; ``scratch`` is a path that may be used on the way, where it is local."""
    store.write(MANIFEST_FILE, manifest.as_text(), scratch)
