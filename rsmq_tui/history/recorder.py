"""Records polls and inventories of messages. A place that fails does not stop the others."""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from rsmq_tui.files import state_folder
from rsmq_tui.history.names import Place, explain
from rsmq_tui.history.poll_log import PollLog
from rsmq_tui.history.rows import inventory_end, message_rows
from rsmq_tui.history.schema import MESSAGES, SAMPLES
from rsmq_tui.history.writer import RecordingSettings, Writer
from rsmq_tui.monitor import PeekError, Snapshot, Thresholds, parse_filter, search
from rsmq_tui.monitor.poller import Polling
from rsmq_tui.monitor.text import SENTENCE_MAX, printable
from rsmq_tui.protocol import RawMessage, RsmqReader

# The limits of the queue to the disk, which is in memory: polls of thousands of queues, a thousand messages each.
_WAITING_MAX = 64
_MESSAGES_WAITING_MAX = 8
# How long the thread waits for new work.
_IDLE_S = 1.0

_Work = Callable[[], None]


@dataclass(slots=True)
class RecordingTotals:
    """What was recorded so far; ``lost`` is the number of polls that could not be written.

    ``open_bytes`` is the size of the open segments; sealed files are about a twentieth of that. ``problem`` is the last
    error, in a sentence; ``is_failing`` says whether it persists.
    """

    polls: int = 0
    rows: int = 0
    messages: int = 0
    sealed_files: int = 0
    sealed_bytes: int = 0
    open_bytes: int = 0
    lost: int = 0
    problem: str | None = None
    is_failing: bool = False


class Recorder:
    """Records into a history from ``start`` to ``close``.

    ``out`` is a folder or a URL. ``state`` is the user's folder, for segments if ``out`` is a URL. ``wall_s`` is the
    local clock, from which the time of a failed poll is estimated. Raises ``HistoryError`` if ``out`` cannot be a
    history.
    """

    def __init__(
        self,
        out: str | Path,
        settings: RecordingSettings | None = None,
        *,
        state: Path | None = None,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self._writer = Writer(str(out), state or state_folder(), settings or RecordingSettings(), wall_s=wall_s)
        self._wall_s = wall_s
        self._places: dict[Place, PollLog] = {}
        self._taken: dict[Place, Snapshot] = {}
        # Those whose last poll was lost before it reached the thread, and the number of all such polls.
        self._interrupted: set[Place] = set()
        self._refused = 0
        # The last incomplete inventory of each queue.
        self._torn: dict[tuple[Place, str], int] = {}
        # None for the end.
        self._work: SimpleQueue[_Work | None] = SimpleQueue()
        # Its numbers are changed by the thread alone.
        self._tally = RecordingTotals()
        # A daemon, so that a program can end without closing it; only the last poll is lost then.
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)

    @property
    def label(self) -> str:
        """The path or URL of the history, without secrets."""
        return self._writer.label

    @property
    def recorder(self) -> str:
        """The random id of this recorder in its rows."""
        return self._writer.recorder

    @property
    def tally(self) -> RecordingTotals:
        """What was recorded so far."""
        writer, tally = self._writer, self._tally
        return replace(
            tally,
            lost=tally.lost + self._refused,
            sealed_files=writer.sealed_files,
            sealed_bytes=writer.sealed_bytes,
            problem=writer.problem or tally.problem,
            is_failing=tally.is_failing or writer.problem is not None,
        )

    @property
    def has_room(self) -> bool:
        """Whether ``add_messages`` may be called; ``add`` may always be."""
        return self._work.qsize() < _MESSAGES_WAITING_MAX

    @property
    def is_closed(self) -> bool:
        """Whether everything is written, or it was never started."""
        return not self._thread.is_alive()

    def start(self) -> None:
        """Create the folders and start the thread; raises ``HistoryError``."""
        self._writer.open()
        self._thread.start()

    def add(self, snapshot: Snapshot, profile: str | None = None, thresholds: Thresholds | None = None) -> None:
        """Record a snapshot, or each new one of its parts; ``profile`` is by default its place's name.

        ``thresholds`` are those of its verdicts. It returns at once. A snapshot that was recorded before, or that is
        not of a new poll, is left out.
        """
        for part in snapshot.parts or (snapshot,):
            place = Place(part.place if profile is None else profile, part.server, part.ns)
            is_poll = part.connection.failure is not None or part.connection.fresh_at_s is not None
            if is_poll and self._taken.get(place) is not part:
                self._taken[place] = part
                self._give_poll(place, part, round(self._wall_s() * 1000), thresholds)

    def add_messages(
        self, place: Place, queue: str, messages: Sequence[RawMessage], *, at_ms: int, inventory_ms: int
    ) -> None:
        """Record some messages of an inventory."""

        def write() -> None:
            try:
                rows = message_rows(self.recorder, place, queue, messages, at_ms=at_ms, inventory_ms=inventory_ms)
                self._writer.append(MESSAGES, rows, at_ms)
            except BaseException:
                self._torn[place, queue] = inventory_ms
                raise
            self._tally.messages += len(messages)

        self._work.put(write)

    def end_inventory(self, place: Place, queue: str, *, at_ms: int, inventory_ms: int) -> None:
        """Record that an inventory of a queue is complete, unless some of its messages could not be written."""
        rows = inventory_end(self.recorder, place, queue, at_ms=at_ms, inventory_ms=inventory_ms)

        def write() -> None:
            if self._torn.pop((place, queue), None) != inventory_ms:
                self._writer.append(MESSAGES, rows, at_ms)

        self._work.put(write)

    def close(self) -> None:
        """Request the end, after everything taken is written and sealed. ``wait`` waits for that."""
        self._work.put(None)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until it is closed or the timeout expires; return whether it is closed."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return self.is_closed

    def _give_poll(self, place: Place, snapshot: Snapshot, wall_ms: int, thresholds: Thresholds | None) -> None:
        if self._work.qsize() >= _WAITING_MAX:
            self._refused += 1
            self._tally.problem, self._tally.is_failing = "the disk is too slow: some polls were not recorded", True
            self._interrupted.add(place)
            return
        polls = self._places.get(place)
        if polls is None:
            polls = self._places[place] = PollLog(self.recorder, place, thresholds)
        is_first_since = place in self._interrupted
        self._interrupted.discard(place)

        def write() -> None:
            try:
                if is_first_since:
                    # Only now: polls that waited when others were lost are compared with those before them.
                    polls.forget()
                # Of two polls within a millisecond, only one is recorded.
                if snapshot.connection.failure is not None or snapshot.at_ms != polls.last_ms:
                    poll = polls.begin(snapshot, wall_ms)
                    self._tally.rows += self._writer.append(SAMPLES, poll, poll.at_ms)
                self._tally.polls += 1
            except BaseException:
                polls.forget()
                self._tally.lost += 1
                raise

        self._work.put(write)

    def _run(self) -> None:
        works: list[_Work | None] = []
        while None not in works:
            works.clear()
            with suppress(Empty):
                works.append(self._work.get(timeout=_IDLE_S))
                # Only what is queued now: new work must not delay the sync.
                works += [self._work.get_nowait() for _ in range(self._work.qsize())]
            self._guard([work for work in works if work is not None])
        try:
            self._writer.close()
            self._tally.open_bytes = self._writer.open_bytes
        except Exception as error:
            self._note(error)

    def _guard(self, works: Sequence[_Work]) -> None:
        """Run the work; keep errors as a sentence."""
        failed = False
        for work in (*works, self._writer.sync, self._writer.tend):
            try:
                work()
            except Exception as error:
                failed = True
                self._note(error)
        self._tally.open_bytes = self._writer.open_bytes
        if works and not failed:
            self._tally.is_failing = False

    def _note(self, error: Exception) -> None:
        self._tally.is_failing = True
        self._tally.problem = printable(explain(error, self.label), SENTENCE_MAX)


# The limit of an inventory: a deep queue must not fill the disk.
MESSAGES_MAX = 1_000_000
_ROOM_S = 0.02
_EVERYTHING = parse_filter("")


class InventoryTaker:
    """Takes inventories of the queues of one place; with ``bodies``, bodies are recorded too.

    ``problem`` is why the last one is incomplete, if it is.
    """

    def __init__(
        self,
        reader: RsmqReader,
        place: Place,
        recorder: Recorder,
        *,
        bodies: bool = False,
        messages_max: int = MESSAGES_MAX,
    ) -> None:
        self.problem: str | None = None
        self._reader = reader
        self._place = place
        self._recorder = recorder
        self._bodies = bodies
        self._messages_max = messages_max

    async def take(self, queues: Sequence[str]) -> None:
        """Take an inventory of each of these queues in turn; a queue that cannot be read does not stop the others."""
        problem = None
        for queue in queues:
            try:
                await self._take(queue)
            except PeekError as error:
                problem = f"the messages of {queue} cannot be read: {error}"
        self.problem = problem

    async def _take(self, queue: str) -> None:
        begun_ms: int | None = None
        at_ms, scanned = 0, 0
        async with aclosing(search(self._reader, queue, _EVERYTHING, bodies=self._bodies)) as coming:
            asked_s = time.monotonic()
            async for found in coming:
                at_ms, scanned = found.at_ms, found.scanned
                begun_ms = at_ms if begun_ms is None else begun_ms
                if found.messages:
                    self._recorder.add_messages(self._place, queue, found.messages, at_ms=at_ms, inventory_ms=begun_ms)
                if scanned >= self._messages_max:
                    return
                # Pause as long as the last read took, to limit the load on the server, and let the disk catch up.
                await asyncio.sleep(min(1.0, time.monotonic() - asked_s))
                while not self._recorder.has_room:  # noqa: ASYNC110 - a thread makes room
                    await asyncio.sleep(_ROOM_S)
                asked_s = time.monotonic()
        if begun_ms is not None:
            self._recorder.end_inventory(self._place, queue, at_ms=at_ms, inventory_ms=begun_ms)


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds between polls, and between inventories (None for no inventories)."""

    every_s: float
    messages_s: float | None = None
    bodies: bool = False


class RecordedPlace:
    """A place that is recorded; ``snapshot`` is its last poll.

    ``messages`` is a separate reader for inventories, so that polls do not wait for them. It is None if none are taken,
    as for lists, whose items have no ids by which inventories could be compared.
    """

    def __init__(self, place: Place, poller: Polling, messages: RsmqReader | None) -> None:
        self.place = place
        self.snapshot: Snapshot | None = None
        self.inventory: InventoryTaker | None = None
        self._poller = poller
        self._messages = messages

    @property
    def failure(self) -> str | None:
        """The current problem of the place, in a sentence."""
        if self.snapshot is not None and self.snapshot.connection.failure is not None:
            return self.snapshot.connection.failure.sentence
        return None if self.inventory is None else self.inventory.problem

    async def record(self, recorder: Recorder, pace: Pace) -> None:
        """Poll and record until cancelled; then close the connections."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._poll(recorder, pace.every_s))
                if pace.messages_s is not None and self._messages is not None:
                    self.inventory = InventoryTaker(self._messages, self.place, recorder, bodies=pace.bodies)
                    group.create_task(self._take_inventories(self.inventory, pace.messages_s))
        finally:
            await self._poller.aclose()
            if self._messages is not None:
                await self._messages.aclose()

    async def _poll(self, recorder: Recorder, every_s: float) -> None:
        while True:
            begun_s = time.monotonic()
            snapshot = await self._poller.poll()
            self.snapshot = snapshot
            recorder.add(snapshot, self.place.profile, self._poller.thresholds)
            retry_at_s = snapshot.connection.retry_at_s
            due_s = begun_s + every_s if retry_at_s is None else retry_at_s
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))

    async def _take_inventories(self, inventory: InventoryTaker, every_s: float) -> None:
        while True:
            begun_s = time.monotonic()
            snapshot = self.snapshot
            if snapshot is None or snapshot.connection.failure is not None:
                # No poll has succeeded yet.
                await asyncio.sleep(min(every_s, 0.1))
                continue
            await inventory.take([queue.name for queue in snapshot.queues])
            await asyncio.sleep(max(0.0, begun_s + every_s - time.monotonic()))


async def record(watched: Sequence[RecordedPlace], recorder: Recorder, pace: Pace, stop: asyncio.Event) -> None:
    """Record all of these until ``stop`` is set; then wait until the recorder has sealed everything."""
    tasks: list[asyncio.Task[Any]] = [asyncio.create_task(one.record(recorder, pace)) for one in watched]
    try:
        stopping = asyncio.create_task(stop.wait())
        tasks.append(stopping)
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            # No task ends by itself: if one does, its error must be raised.
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)
        recorder.close()
    while not recorder.is_closed:  # noqa: ASYNC110 - a thread closes it
        await asyncio.sleep(0.01)
