"""Detects the events of a dashboard and writes them, in a thread, so that the screen does not wait.

Events that cannot be written, for example because the disk is full, are kept in memory and written later. Changes are
read from the journal, including those made by commands.
"""

import asyncio
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rsmq_tui.events.detector import MaintenanceDetector, QueueDetector, ServerDetector
from rsmq_tui.events.known import FILE_NAME as KNOWN_NAME
from rsmq_tui.events.known import Known, KnownError, KnownReader
from rsmq_tui.events.model import Event, EventKind, Severity
from rsmq_tui.events.store import FILE_NAME, LIMIT, EventStore, EventStoreError, Stored
from rsmq_tui.files import sqlite_version
from rsmq_tui.monitor import Snapshot, Source, Verdict
from rsmq_tui.monitor.changes import AuditedChange
from rsmq_tui.monitor.incidents import Expected
from rsmq_tui.monitor.text import SENTENCE_MAX, plural, printable
from rsmq_tui.triage.change import Change, State
from rsmq_tui.triage.journal.journal import Removal, last_changes, last_removals

# Events that can be shown without reading the file again.
RECENT = 2_000
_NO_DETAILS: Mapping[str, Any] = MappingProxyType({})
# The maximum of events that are kept in memory if they cannot be written; beyond it, the oldest are lost.
_UNWRITTEN_MAX = 10_000
_WAITING_MAX = 256
_TICK_S = 1.0
_RETRY_S = 30.0
# A change that deletes a queue begins at most this long before a poll misses it.
_DELETED_MS = 60_000

_Work = Callable[[], Sequence[Event]]


class EventRecorder:
    """Records the events of the places whose snapshots it takes, from ``start`` to ``close``.

    ``folder`` holds the file of events and the journal. ``clock`` is the monotonic clock, in seconds, of the sources;
    ``wall_s`` the local time, which is used for a server that never answered.
    """

    def __init__(
        self,
        folder: Path,
        *,
        limit: int = LIMIT,
        clock: Callable[[], float] = time.monotonic,
        wall_s: Callable[[], float] = time.time,
        tick_s: float = _TICK_S,
    ) -> None:
        self.path = folder / FILE_NAME
        self.problem: str | None = None
        self.known_problem: str | None = None
        self.revision = 0
        self._known = KnownReader(folder / KNOWN_NAME)
        self._known_retry_at_s = 0.0
        self._journal_path = folder / "journal.sqlite"
        self._journal_seen: object = None
        self._limit = limit
        self._clock = clock
        self._wall_s = wall_s
        self._tick_s = tick_s
        self._writer = secrets.token_hex(8)
        self._store: EventStore | None = None
        self._retry_at_s = 0.0
        self._last_id = 0
        self._recent: deque[Event] = deque(maxlen=RECENT)
        self._unwritten: deque[Event] = deque()
        self._shown: tuple[Event, ...] = ()
        self._queues: dict[str, QueueDetector] = {}
        self._servers: dict[str, ServerDetector] = {}
        # By the server and the times of its maintenance: several profiles may have the same server.
        self._maintenance: dict[tuple[str, Sequence[tuple[int, int]]], MaintenanceDetector] = {}
        # The place whose poll reads the INFO of each server.
        self._informing: dict[str, str] = {}
        self._work: deque[_Work] = deque()
        self._news = threading.Condition()
        self._closing = False
        # A daemon, so that a disk that hangs does not keep the program from ending.
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)

    def start(self) -> None:
        """Start the thread, which opens the file."""
        self._thread.start()

    @property
    def recent(self) -> Sequence[Event]:
        """The last events, the oldest first, those of other dashboards included, most of them without their details.

        ``revision`` changes with them.
        """
        return self._shown

    def run_id(self, server: str) -> str:
        """Return the run id of a server, empty if it is not known."""
        return self._servers[server].run_id if server in self._servers else ""

    def known(self, snapshot: Snapshot) -> Mapping[str, Known]:
        """Return the current and past acknowledgements of a snapshot's namespace, by the names of the queues."""
        return self._known.of(snapshot.server, snapshot.ns)

    def acknowledged(self, snapshot: Snapshot) -> set[str]:
        """Return the names of the queues whose trouble is acknowledged now."""
        return {name for name, known in self.known(snapshot).items() if known.is_active}

    @property
    def problems(self) -> dict[str, str]:
        """Why a file cannot be used, by its content."""
        found = {"events": self.problem, "known troubles": self.known_problem}
        return {name: f"{problem}; everything else continues" for name, problem in found.items() if problem is not None}

    def set_known(self, known: Known, *, at_ms: int, failed: Callable[[str], object] = lambda _: None) -> None:
        """Store a known trouble, or its end; returns at once. ``at_ms`` is the server's time.

        If that fails, the thread calls ``failed`` with the reason.
        """

        def work() -> Sequence[Event]:
            try:
                return self._set_known(known, at_ms)
            except KnownError as error:
                failed(printable(str(error), SENTENCE_MAX))
                raise

        with self._news:
            # It is never dropped, unlike a snapshot if too many wait.
            self._work.append(work)
            self._news.notify()

    def observe(self, snapshot: Snapshot, source: Source, expected: Expected | None = None) -> None:
        """Compare a snapshot with the last one of its place; returns at once.

        ``expected`` are the expected troubles of its profile, if it has any.
        """
        connection, at_ms = snapshot.connection, snapshot.at_ms
        if connection.failure is not None:
            fresh_s = connection.fresh_at_s
            now_s = self._clock()
            at_ms = round(self._wall_s() * 1000) if fresh_s is None else at_ms + round((now_s - fresh_s) * 1000)
        self._give(lambda: self._detect(snapshot, source, at_ms, expected))

    async def aclose(self) -> None:
        """Write what was taken, and end, without waiting for a disk that hangs."""
        await asyncio.to_thread(self.close)

    def close(self, timeout_s: float = 5.0) -> None:
        """Write what was taken, and end the thread, within that time."""
        with self._news:
            self._closing = True
            self._news.notify()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def _give(self, work: _Work) -> None:
        with self._news:
            if len(self._work) < _WAITING_MAX:
                self._work.append(work)
                self._news.notify()

    def _run(self) -> None:
        while True:
            with self._news:
                if not self._work and not self._closing:
                    self._news.wait(self._tick_s)
                works = [self._work.popleft() for _ in range(len(self._work))]
                is_last = self._closing and not works
            self._turn(works)
            if is_last:
                break
        if self._store is not None:
            self._store.close()
        self._known.close()

    def _turn(self, works: Sequence[_Work]) -> None:
        """Detect, write and read again; an error is kept as a sentence, and does not stop the other steps."""
        done = (partial(self._do, work) for work in works)
        steps: list[Callable[[], None]] = [self._open, self._read_known, *done, self._write]
        for step in steps:
            try:
                step()
            except EventStoreError as error:
                self.problem = printable(str(error), SENTENCE_MAX)
                self._retry_at_s = self._clock() + _RETRY_S
                if self._store is not None:
                    self._store.close()
                    self._store = None
            except KnownError as error:
                self.known_problem = printable(str(error), SENTENCE_MAX)
                self._known_retry_at_s = self._clock() + _RETRY_S
                self._known.close()
            except Exception as error:
                self.problem = printable(f"an event was not recorded: {type(error).__name__}: {error}", SENTENCE_MAX)
        # Not before they were to be written: all queues of a server may get into trouble at once.
        while len(self._unwritten) > _UNWRITTEN_MAX:
            self._unwritten.popleft()
        shown = (*self._recent, *self._unwritten)
        if len(shown) != len(self._shown) or shown[-1:] != self._shown[-1:]:
            self._shown = shown
            self.revision += 1

    def _open(self) -> None:
        if self._store is not None and not self._store.is_in_place:
            # Somebody removed the file: a new one begins.
            self._store.close()
            self._store, self._last_id = None, 0
        if self._store is None and self._clock() >= self._retry_at_s:
            self._store = EventStore(self.path, writer=self._writer, limit=self._limit)
            self._last_id = self._store.newest_id()
            self._recent.clear()
            last = self._store.last(RECENT)
            self._recent.extend(_without_details(stored) for stored in last if stored.id <= self._last_id)
            self.problem = None

    def _read_known(self, *, create: bool = False) -> None:
        """Read the acknowledgements again if they have changed; after an error, some time later."""
        if self._known.store is None and not create and self._clock() < self._known_retry_at_s:
            return
        self.revision += self._known.read(create=create)
        self.known_problem = None

    def _set_known(self, known: Known, at_ms: int) -> Sequence[Event]:
        self._read_known(create=True)
        store = self._known.store
        if store is None:
            return []
        if known.is_active:
            store.put(known)
            events = [known.event(at_ms)]
        else:
            events = [known.event(at_ms, "somebody ended it")] if store.end(known, known.ended_ms or 0) else []
        self._read_known()
        return events

    def _end_known(self, snapshot: Snapshot) -> list[Event]:
        """End the acknowledgements that last until a queue is ok, if it is, and those whose time is over."""
        active = {name: known for name, known in self.known(snapshot).items() if known.is_active}
        if not active or self._known.store is None or snapshot.connection.failure is not None:
            return []
        now_ms = round(self._wall_s() * 1000)
        ok = {queue.name for queue in snapshot.queues if queue.name in active and queue.verdict is Verdict.OK}
        found = []
        for name, known in active.items():
            why = known.why_over(now_ms, is_ok=name in ok)
            if why and self._known.store.end(known, now_ms):
                found.append(known.event(snapshot.at_ms, why))
        if found:
            self._read_known()
        return found

    def _do(self, work: _Work) -> None:
        self._unwritten += [replace(event, run_id=self.run_id(event.server)) for event in work()]

    def _write(self) -> None:
        store = self._store
        if store is None:
            return
        if self._unwritten:
            store.write(self._unwritten)
            self._unwritten.clear()
            self.problem = None
        changes = self._changes()
        if changes:
            store.write(changes.values(), uids=list(changes))
        if store.has_news():
            for stored in store.after(max(self._last_id, store.newest_id() - RECENT), RECENT):
                self._last_id = stored.id
                self._recent.append(_without_details(stored))

    def _detect(self, snapshot: Snapshot, source: Source, at_ms: int, expected: Expected | None) -> Sequence[Event]:
        server, ns = snapshot.server, snapshot.ns
        queues = self._queues.get(snapshot.place)
        if queues is None or queues.ns != ns:
            reported = None if self._store is None else self._store.reported_verdicts(server, ns)
            queues = self._queues[snapshot.place] = QueueDetector(server, ns, source.thresholds, reported)
        of_server = self._maintained(server, expected)
        of_server += self._server(server).observe(snapshot.place, snapshot.connection.failure, at_ms)
        # The places of a cluster may be on different nodes: INFO of the first one counts for all.
        is_first = self._informing.setdefault(server, snapshot.place) == snapshot.place
        if is_first and snapshot.info is not None and snapshot.info.run_id:
            of_server += self._server(server).observe_info(snapshot.info)
        of_queues = self._with_changes(queues.observe(snapshot))
        return [*of_server, *of_queues, *self._end_known(snapshot)]

    def _maintained(self, server: str, expected: Expected | None) -> list[Event]:
        """Return what begins and ends of the maintenance of a server, by the local clock, as for alerts."""
        if expected is None or not expected.spans:
            return []
        detector = self._maintenance.setdefault((server, expected.spans), MaintenanceDetector(expected))
        return detector.observe(server, self._wall_s() * 1000)

    def _with_changes(self, events: list[Event]) -> list[Event]:
        """Return the events; if a change from this machine deleted a queue, its event names the change."""
        if not any(event.kind is EventKind.DELETED and event.queue is not None for event in events):
            return events
        removals = last_removals(self._journal_path)
        return [_deleted_by(event, removals) if event.kind is EventKind.DELETED else event for event in events]

    def _server(self, server: str) -> ServerDetector:
        if server not in self._servers:
            was_lost = self._store is not None and self._store.was_lost(server)
            self._servers[server] = ServerDetector(server, was_lost=was_lost)
        return self._servers[server]

    def _changes(self) -> dict[str, Event]:
        """Return the last changes in the journal by their ids, if it has changed."""
        seen = sqlite_version(self._journal_path)
        if seen is None or seen == self._journal_seen:
            return {}
        self._journal_seen = seen
        ended = [
            change for change in last_changes(self._journal_path) if change.state not in (State.RUNNING, State.DAMAGED)
        ]
        return {
            f"change:{change.change}:{change.at_ms}": event_of_change(change.as_audited(change.state), change.run_id)
            for change in ended
        }


def deletions(journal: Path, snapshot: Snapshot, queues: Collection[str]) -> dict[str, str]:
    """Return by which change from this machine queues were just deleted that a poll misses, for those that were."""
    removals = last_removals(journal)
    of_queues = {queue: _deletion(removals, snapshot.server, snapshot.ns, queue, snapshot.at_ms) for queue in queues}
    return {queue: _deletion_words(change) for queue, change in of_queues.items() if change is not None}


def _deletion(removals: Sequence[Removal], server: str, ns: str, queue: str, at_ms: int) -> Change | None:
    """Return the change that has deleted a queue shortly before a poll missed it; None if none of these has."""
    for change, removed in reversed(removals):
        is_of_it = (change.server, change.ns) == (server, ns) and queue in removed and change.state is not State.UNDONE
        if is_of_it and (change.state is State.RUNNING or at_ms - change.at_ms <= _DELETED_MS):
            return change
    return None


def _deletion_words(change: Change) -> str:
    undoes = "" if change.undoes is None else f", which undoes change {change.undoes}"
    return f"deleted by change {change.change}{undoes}"


def _without_details(stored: Stored) -> Event:
    # Screens show no details, which would take most of the memory of an event.
    return replace(stored.event, details=_NO_DETAILS)


def _deleted_by(event: Event, removals: Sequence[Removal]) -> Event:
    """Return the event of a deleted queue with the change that has just deleted it, if there is one."""
    change = _deletion(removals, event.server, event.ns, event.queue or "", event.at_ms)
    if change is None:
        return event
    depth = event.details.get("depth")
    held = "" if depth is None else f"; it held {plural(depth, 'message')} at the previous poll"
    details = {**event.details, "change": change.change}
    return replace(event, text=f"{_deletion_words(change)}{held}", details=details)


def event_of_change(change: AuditedChange, run_id: str | None = None) -> Event:
    """Return the event of a change that has ended; ``run_id`` is that of the server, if it is known."""
    # Whether it can be undone may change, so that is not part of the event.
    undoes = (
        f"; undoes {'a part of ' if change.part else ''}change {change.undoes}" if change.undoes is not None else ""
    )
    words = f"change {change.change}, {change.summary}, by {change.who}{undoes}"
    details = {
        "change": change.change,
        "action": change.action,
        "who": change.who,
        "host": change.host,
        "target": change.target,
        "filter": change.filter,
        "planned": change.planned,
        "done": change.done,
        "skipped": change.skipped,
        "failed": change.failed,
        "undoes": change.undoes,
    }
    severity = Severity.WARNING if change.failed or change.ended == State.INTERRUPTED else Severity.INFO
    return Event(
        change.at_ms, change.server, change.ns, change.queue or None, EventKind.CHANGE, severity, words, details,
        str(change.change), change.at_ms, run_id or "",
    )  # fmt: skip
