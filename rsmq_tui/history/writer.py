"""Writing a history: rows go into segments, segments become sealed files, old days go. One thread at a time.

Whatever is stopped at any point, by kill -9 or by a full disk, leaves sealed files that are whole, and each row in at
most one of them: a segment's rows have their file's name from the start, so that to seal it again changes nothing.
"""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from rsmq_tui.history.errors import HistoryError, told
from rsmq_tui.history.keeping import day_of, delete_old_days
from rsmq_tui.history.schema import SCHEMA_FILE, SCHEMAS, VERSION, describe, version_in
from rsmq_tui.history.sealing import write_sealed
from rsmq_tui.history.segment import SUFFIX, Segment, read_segment
from rsmq_tui.history.store import SEALED, open_store
from rsmq_tui.history.workplace import Workplace, claim_abandoned, make_workplace

# A segment of a day that is over gets no more rows, but from a server whose clock is behind.
_DAY_OVER_S = 60.0
_RETRY_S = 30.0


@dataclass(frozen=True, slots=True)
class Settings:
    """When segments are sealed, and what is kept; ``seal_bytes`` is in memory, before anything is compressed.

    ``keep_ms`` and ``max_bytes`` are None for everything.
    """

    seal_every_s: float = 600.0
    seal_rows: int = 250_000
    seal_bytes: int = 256_000_000
    keep_ms: int | None = None
    max_bytes: int | None = None


@dataclass(slots=True)
class _Open:
    """An open segment, and when it was opened and last written to."""

    segment: Segment
    opened_s: float
    written_s: float


@dataclass(slots=True)
class _Waiting:
    """Segments that are to be sealed, and when that is tried again."""

    paths: list[Path] = field(default_factory=list)
    retry_at_s: float = 0.0


class Writer:
    """Writes one history; ``state`` is the user's folder, ``clock`` a monotonic one in seconds.

    ``problem`` says why what could be sealed or deleted could not, until that is done. Raises ``HistoryError`` for an
    ``out`` that cannot be a history.
    """

    def __init__(
        self,
        out: str,
        state: Path,
        settings: Settings,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self.recorder = secrets.token_hex(6)
        self.problem: str | None = None
        self.sealed_files = self.sealed_bytes = 0
        self._store, self._root = open_store(out, state)
        self.label = self._store.label
        self._settings = settings
        self._clock = clock
        self._wall_s = wall_s
        self._place: Workplace | None = None
        self._open: dict[tuple[str, str], _Open] = {}
        self._waiting = _Waiting()
        self._number = 0
        self._newest_ms = 0
        self._recover_at_s = 0.0

    def open(self) -> None:
        """Make the folders, and see whether this version may write there; raises ``HistoryError``."""
        try:
            self._store.prepare()
            text = self._store.read(SCHEMA_FILE)
            version = None if text is None else version_in(text)
            if version is not None and version > VERSION:
                raise HistoryError(
                    f"{self.label} contains a history of version {version}, but this program writes "
                    f"version {VERSION}: record to another folder, or use a newer program"
                )
            place = self._place = make_workplace(self._root, self.recorder)
            # A program from before may have described fewer columns.
            if version != VERSION or text != describe():
                self._store.write(SCHEMA_FILE, describe(), place.folder / SCHEMA_FILE)
        except HistoryError:
            raise
        except Exception as error:
            raise HistoryError(told(error, self.label)) from error

    def append(self, table: str, batch: pa.RecordBatch, at_ms: int) -> None:
        """Append rows of one moment, all or none; raises ``OSError`` or ``HistoryError``."""
        day = day_of(at_ms)
        now_s = self._clock()
        found = self._open.get((table, day))
        if found is None:
            self._number += 1
            path = self._folder / f"{table}.{day}.{self._number:06d}{SUFFIX}"
            found = _Open(Segment(path, table, day, SCHEMAS[table]), now_s, now_s)
            self._open[table, day] = found
        try:
            found.segment.append(batch)
        finally:
            if found.segment.is_torn:
                self._end(table, day)
        found.written_s = now_s
        self._newest_ms = max(self._newest_ms, at_ms)

    def sync(self) -> None:
        """Let all that was appended reach the disk; raises ``OSError``."""
        for found in self._open.values():
            found.segment.sync()

    def tend(self) -> None:
        """Seal what is due, recover what others left, delete old days; what fails is tried again later."""
        now_s = self._clock()
        for (table, day), found in list(self._open.items()):
            if self._is_due(found, now_s):
                self._end(table, day)
        if self._waiting.paths and now_s >= self._waiting.retry_at_s:
            self._seal_waiting()
            self._delete_old_days()
        if now_s >= self._recover_at_s:
            self._recover_at_s = now_s + self._settings.seal_every_s
            self._recover()

    def close(self) -> None:
        """Seal everything; what cannot be sealed stays for the next recorder."""
        for table, day in list(self._open):
            self._end(table, day)
        if self._waiting.paths:
            self._seal_waiting()
            self._delete_old_days()
        if self._place is not None:
            self._place.leave()

    @property
    def open_bytes(self) -> int:
        """How large the open segments are on the disk."""
        return sum(found.segment.file_bytes for found in self._open.values())

    @property
    def _folder(self) -> Path:
        if self._place is None:
            raise HistoryError("nothing recorded yet")
        return self._place.folder

    def _is_due(self, found: _Open, now_s: float) -> bool:
        settings, segment = self._settings, found.segment
        if segment.rows >= settings.seal_rows or segment.bytes >= settings.seal_bytes:
            return True
        if segment.day < day_of(self._newest_ms) and now_s - found.written_s >= _DAY_OVER_S:
            return True
        return now_s - found.opened_s >= settings.seal_every_s

    def _end(self, table: str, day: str) -> None:
        segment = self._open.pop((table, day)).segment
        segment.close()
        self._waiting.paths.append(segment.path)
        self._waiting.retry_at_s = 0.0

    def _seal_waiting(self) -> None:
        waiting, self._waiting = self._waiting, _Waiting()
        self.problem = None
        for path in waiting.paths:
            try:
                self._seal(path, self.recorder)
            except Exception as error:
                # pyarrow and each kind of filesystem have errors of their own.
                self.problem = told(error, self.label)
                self._waiting.paths.append(path)
                self._waiting.retry_at_s = self._clock() + _RETRY_S

    def _seal(self, path: Path, recorder: str) -> None:
        table, day, number = path.name.removesuffix(SUFFIX).split(".")
        name = f"{table}/day={day}/{recorder}-{number}{SEALED}"
        # Somebody may have been stopped after the file had appeared.
        if not self._store.has(name):
            rows = read_segment(path)
            if rows is not None:
                scratch = path.with_suffix(".part")
                try:
                    write_sealed(rows, scratch)
                    size = scratch.stat().st_size
                    self._store.publish(scratch, name)
                except BaseException:
                    scratch.unlink(missing_ok=True)
                    raise
                self.sealed_files += 1
                self.sealed_bytes += size
        path.unlink()

    def _recover(self) -> None:
        """Seal what recorders that died have left behind."""
        try:
            for place in claim_abandoned(self._root):
                try:
                    for path in place.segments():
                        self._seal(path, place.recorder)
                finally:
                    place.leave()
        except Exception as error:
            self.problem = told(error, self.label)

    def _delete_old_days(self) -> None:
        settings = self._settings
        if settings.keep_ms is None and settings.max_bytes is None:
            return
        try:
            delete_old_days(
                self._store,
                keep_ms=settings.keep_ms,
                max_bytes=settings.max_bytes,
                # A clock that is far ahead, there or here, must not delete everything.
                now_ms=min(self._newest_ms, round(self._wall_s() * 1000)),
                written={day for _, day in self._open},
                scratch=self._folder,
            )
        except Exception as error:
            self.problem = told(error, self.label)
