"""The manifest: which files make up each table of an analysis. Whoever reads it sees one complete run, or none.

{"schema": 1, "run": "...", "made_ms": 1, "history": "...", "problems": ["..."],
 "tables": {"rollup_1m": {"2031-05-17": ["runs/.../part-0.parquet"]}, "episodes": {"": ["runs/.../part-0.parquet"]}}}
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rsmq_tui.history.analysis.schema import COLUMNS, MANIFEST_FILE, VERSION
from rsmq_tui.history.errors import HistoryError
from rsmq_tui.history.store import Store

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
        told = json.loads(text)
        version = int(told["schema"])
        if version > VERSION:
            raise HistoryError(f"{store.label} is of version {version}, and this program reads up to {VERSION}")
        tables = {
            str(table): {str(day): tuple(map(str, files)) for day, files in days.items()}
            for table, days in told["tables"].items()
            if table in COLUMNS
        }
        problems = tuple(map(str, told["problems"]))
        return Manifest(str(told["run"]), int(told["made_ms"]), str(told["history"]), problems, tables)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise HistoryError(
            f"{store.label}/{MANIFEST_FILE} is damaged: run the pipeline with --full to make it anew"
        ) from error


def write_manifest(store: Store, manifest: Manifest, scratch: Path) -> None:
    """Let a run become visible, by one rename; ``scratch`` is a path that may be used on the way, where it is local."""
    store.write(MANIFEST_FILE, manifest.as_text(), scratch)
