"""Makes a history: a file at a time, some at once, and those that are there are left alone."""

import json
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from rsmq_tui.folders import state_folder
from rsmq_tui.history.errors import HistoryError, told
from rsmq_tui.history.generating.curves import Curve
from rsmq_tui.history.generating.inventories import messages_of
from rsmq_tui.history.generating.lines import Lines
from rsmq_tui.history.generating.lists import as_lists
from rsmq_tui.history.generating.plan import DAY_MS, LISTS, PLACE, File, Plan, Times, Wanted
from rsmq_tui.history.generating.roles import Queue, list_queue_of, queue_of
from rsmq_tui.history.generating.samples import samples_of
from rsmq_tui.history.rows import SampleRows
from rsmq_tui.history.schema import MESSAGES, SAMPLES, SCHEMA_FILE, SCHEMAS, describe
from rsmq_tui.history.sealing import write_sealed, write_sorted
from rsmq_tui.history.store import open_store
from rsmq_tui.locks import FileLock

_MARK = "_generated.json"
_SCRATCH = "_generating"
_DOWN = "connection refused"


class Progress(NamedTuple):
    """How far it is: files of all, and what they came to; ``day`` is the one that is worked at."""

    day: str
    files: int
    of: int
    rows: int
    messages: int
    bytes: int
    kept: int
    """Files that were there before."""


class Generator:
    """Makes what is wanted in ``out``, a folder or a URL; ``state`` is the user's folder, for files under way.

    Raises ``HistoryError`` for a place that cannot be written, or that holds another history.
    """

    def __init__(self, wanted: Wanted, out: str | Path, *, state: Path | None = None) -> None:
        self.plan = Plan(wanted)
        self._store, segments = open_store(str(out), state or state_folder())
        self.label = self._store.label
        self._scratch = segments.parent / _SCRATCH
        self._queues = [(queue := queue_of(number, wanted.seed), Curve(queue)) for number in range(wanted.queues)]
        self._lists = [(queue := list_queue_of(number, wanted.seed), Curve(queue)) for number in range(wanted.lists)]
        self._stopped = threading.Event()

    def run(self, tell: Callable[[Progress], None] = lambda _: None, threads: int | None = None) -> Progress:
        """Make the files that are not there, and return what they came to; raises ``HistoryError``.

        Whatever stops it, what is there is whole, and another run goes on behind it.
        """
        try:
            self._store.prepare()
            with self._scratching():
                self._begin()
                return self._make(list(self.plan.files()), tell, threads or os.cpu_count() or 1)
        except HistoryError:
            raise
        except Exception as error:
            # Each kind of filesystem has errors of its own.
            raise HistoryError(told(error, self.label)) from error

    def _make(self, files: Sequence[File], tell: Callable[[Progress], None], threads: int) -> Progress:
        there = {file.name for table in (SAMPLES, MESSAGES) for file in self._store.files(table)}
        missing = [file for file in files if not there.issuperset(self._names(file))]
        done = Progress("", len(files) - len(missing), len(files), 0, 0, 0, len(files) - len(missing))
        waiting, days, lists = deque(missing), _Days(self._queues), _Days(self._lists)
        with ThreadPoolExecutor(threads) as pool:
            running: set[Future[tuple[str, int, int, int]]] = set()
            try:
                while waiting or running:
                    while waiting and len(running) <= threads:
                        file = waiting.popleft()
                        of_lists = lists.of(file) if self._lists else None
                        running.add(pool.submit(self._file, file, days.of(file), of_lists, there))
                    ready, running = wait(running, return_when=FIRST_COMPLETED)
                    for future in ready:
                        day, rows, messages, size = future.result()
                        done = done._replace(
                            day=day,
                            files=done.files + 1,
                            rows=done.rows + rows,
                            messages=done.messages + messages,
                            bytes=done.bytes + size,
                        )
                        tell(done)
            except BaseException:
                self._stopped.set()
                raise
        return done

    def _begin(self) -> None:
        mark = json.dumps(self.plan.wanted.told) + "\n"
        found = self._store.read(_MARK)
        if found is None and (self._store.read(SCHEMA_FILE) is not None or self._is_used()):
            raise HistoryError(f"{self.label} contains a recorded history: name another folder")
        if found not in (None, mark):
            raise HistoryError(
                f"{self.label} was generated with other options: use the same options, or another folder"
            )
        if found is None:
            self._store.write(_MARK, mark, self._scratch / _MARK)
            self._store.write(SCHEMA_FILE, describe(), self._scratch / SCHEMA_FILE)

    def _is_used(self) -> bool:
        return any(self._store.files(table) for table in (SAMPLES, MESSAGES))

    @contextmanager
    def _scratching(self) -> Iterator[None]:
        """Have the folder for files under way, and have it alone."""
        self._scratch.mkdir(parents=True, exist_ok=True)
        lock = FileLock.acquire(self._scratch / "lock")
        if lock is None:
            raise HistoryError(
                f"{self.label} is already being generated: wait until it is done, or name another folder"
            )
        try:
            yield
        finally:
            with suppress(OSError):
                for path in self._scratch.iterdir():
                    path.unlink()
                self._scratch.rmdir()
            lock.release()

    def _names(self, file: File) -> list[str]:
        tables = [SAMPLES] if not self.plan.inventories(file.span) else [SAMPLES, MESSAGES]
        return [f"{table}/day={file.day}/{file.name}" for table in tables]

    def _file(self, file: File, lines: Lines, lists: Lines | None, there: set[str]) -> tuple[str, int, int, int]:
        """Make one file of samples, and one of messages if it is time for it; return the day, rows, messages, bytes."""
        rows = messages = size = 0
        if not self._stopped.is_set() and f"{SAMPLES}/day={file.day}/{file.name}" not in there:
            rows, size = self._samples(file, lines, lists)
        inventories, name = self.plan.inventories(file.span), f"{MESSAGES}/day={file.day}/{file.name}"
        if inventories and not self._stopped.is_set() and name not in there:
            table = pa.concat_tables([messages_of(file, at_ms, self._queues) for at_ms in inventories])
            messages, size = table.num_rows, size + self._publish(name, lambda path: write_sealed(table, path))
        return file.day, rows, messages, size

    def _samples(self, file: File, lines: Lines, lists: Lines | None) -> tuple[int, int]:
        times, failed = self.plan.polls(file.span)
        name, wanted = f"{SAMPLES}/day={file.day}/{file.name}", self.plan.wanted
        table = SCHEMAS[SAMPLES].empty_table()
        if times.at_ms:
            table = samples_of(wanted, file, times, lines, [queue for queue, _ in self._queues])
        if lists is not None:
            return self._with_lists(file, times, failed, table, lists)
        if not failed:
            size = self._publish(name, lambda path: write_sorted(table, path, [PLACE])) if times.at_ms else 0
            return table.num_rows, size
        down = SampleRows(file.recorder, PLACE)
        rows = [down.failed(_DOWN, at_ms) for at_ms in failed]
        table = pa.concat_tables([table.cast(SCHEMAS[SAMPLES]), pa.Table.from_batches(rows)])
        return table.num_rows, self._publish(name, lambda path: write_sealed(table, path))

    def _with_lists(
        self, file: File, times: Times, failed: Sequence[int], table: pa.Table, lists: Lines
    ) -> tuple[int, int]:
        """Make a file that also holds the lists, which are a place of their own."""
        tables = [table.cast(SCHEMAS[SAMPLES])]
        if times.at_ms:
            queues = [queue for queue, _ in self._lists]
            tables.append(as_lists(samples_of(self.plan.wanted, file, times, lists, queues)))
        for place in (PLACE, LISTS):
            rows = SampleRows(file.recorder, place)
            tables += [pa.Table.from_batches([rows.failed(_DOWN, at_ms)]) for at_ms in failed]
        whole = pa.concat_tables(tables)
        name = f"{SAMPLES}/day={file.day}/{file.name}"
        return whole.num_rows, self._publish(name, lambda path: write_sealed(whole, path)) if whole.num_rows else 0

    def _publish(self, name: str, write: Callable[[Path], None]) -> int:
        path = self._scratch / name.replace("/", "_")
        write(path)
        size = path.stat().st_size
        self._store.publish(path, name)
        return size


class _Days:
    """The lines of all queues, for the day that is worked at."""

    def __init__(self, queues: Sequence[tuple[Queue, Curve]]) -> None:
        self._queues = queues
        self._found: Lines | None = None

    def of(self, file: File) -> Lines:
        """Return the lines of a file's day."""
        from_ms = file.span.from_ms // DAY_MS * DAY_MS
        if self._found is None or self._found.from_ms != from_ms:
            self._found = Lines(from_ms, [(queue, curve.day(from_ms)) for queue, curve in self._queues])
        return self._found
