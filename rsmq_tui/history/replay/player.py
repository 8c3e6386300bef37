"""Plays a replay: play, pause, step, seek, speed and clock; its places as snapshot sources."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rsmq_tui.history.names import Place
from rsmq_tui.history.reading import RecordedSpan
from rsmq_tui.history.replay.messages import Inventories, Inventory
from rsmq_tui.history.replay.polls import Turn, VerdictChange
from rsmq_tui.history.replay.replay import Replay
from rsmq_tui.monitor import Filter, MessageView, Page, PageRequest, PeekError, SearchProgress, Snapshot, Thresholds
from rsmq_tui.protocol import Namespaces

if TYPE_CHECKING:
    from rsmq_tui.monitor.audit.rsmq import AuditProgress


# How often the screen is updated while playing.
TICK_S = 0.25
# After a longer delay that is not due to reading, such as a suspended process, only one tick is played.
_LATE_S = 3.0
# Recorded time advances while a frame is read, up to this long; with slower reads it falls behind the speed.
_READING_S = 10.0
# The actual speed is measured over this time.
_MEASURED_S = 5.0


class ReplayClock:
    """Computes how much recorded time is to be played; ``clock`` is a monotonic clock in seconds.

    ``speed`` is recorded seconds per second of that clock. A frame is read between ``begin_frame`` and ``end_frame``.
    """

    def __init__(self, clock: Callable[[], float], speed: float) -> None:
        self._clock = clock
        self._speed = speed
        # When time was last counted, and how much recorded time is not played yet.
        self._last_s = clock()
        self._owed_ms = 0.0
        # The frame that is being read: its speed at the start, and how long it has been read.
        self._frame_speed: float | None = None
        self._reading_s = 0.0
        # For measuring: when counted, time passed, recorded time played.
        self._counted: deque[tuple[float, float, float]] = deque()

    @property
    def speed(self) -> float:
        """The requested speed."""
        return self._speed

    @property
    def real_speed(self) -> float:
        """The actual speed of the last seconds: ``speed``, unless frames take too long to read."""
        counted = tuple(self._counted)
        passed_s, played_s = sum(passed for _, passed, _ in counted), sum(played for *_, played in counted)
        return self._speed * played_s / passed_s if passed_s > 0 else self._speed

    def begin(self) -> None:
        """Start counting time now."""
        self._last_s, self._owed_ms = self._clock(), 0.0
        self._counted.clear()

    def set_speed(self, speed: float) -> None:
        """Change the speed from now on; time until now counts at the old speed."""
        if speed != self._speed:
            self._count()
            self._counted.clear()
            self._speed = speed

    def pop_owed_ms(self) -> int:
        """Return how much recorded time is to be played now."""
        self._count()
        taken_ms = round(self._owed_ms)
        # Fractions of a ms are carried over.
        self._owed_ms -= taken_ms
        return taken_ms

    def begin_frame(self) -> None:
        """Mark the start of reading a frame."""
        self._frame_speed, self._reading_s = self._speed, 0.0

    def end_frame(self) -> None:
        """Mark the end of reading a frame."""
        self._count()
        self._frame_speed = None

    def _count(self) -> None:
        now_s = self._clock()
        passed_s, self._last_s = now_s - self._last_s, now_s
        if self._frame_speed is None:
            # Time away is neither played nor measured.
            passed_s = played_s = passed_s if passed_s <= _LATE_S else TICK_S
        else:
            # Frames that would be shown meanwhile are skipped, to keep the requested speed.
            played_s = min(passed_s, max(0.0, _READING_S - self._reading_s))
            self._reading_s += passed_s
        self._owed_ms += played_s * 1000 * self._speed
        # A frame that was started at another speed must not be measured.
        if self._frame_speed in (None, self._speed):
            self._counted.append((now_s, passed_s, played_s))
        while len(self._counted) > 1 and now_s - self._counted[0][0] > _MEASURED_S:
            self._counted.popleft()


SPEEDS = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)


@dataclass(frozen=True, slots=True)
class SeekOutcome:
    """The outcome of a seek, besides the snapshot.

    ``changes`` are those of a queue at the position, ``turns`` the begins and ends of incidents; if there are none and
    ``sought`` is set, there were no more in that direction, of a queue if ``is_queue``.
    ``skipped`` is a gap that was skipped; ``looking_ms`` is the current position of a search. ``is_stopped`` says that
    a search was ended by a second request.
    """

    changes: tuple[VerdictChange, ...] = ()
    turns: tuple[Turn, ...] = ()
    sought: int = 0
    is_queue: bool = False
    skipped: RecordedSpan | None = None
    looking_ms: int | None = None
    is_stopped: bool = False


class Player:
    """Moves a replay along with its clock, and by commands.

    Commands are run in order, by the consumer of ``snapshots``; ``clock`` is a monotonic clock in seconds, and
    ``speed`` the recorded seconds per second of it. The current frame stays while the next one is read; if the replay
    is paused meanwhile, that next frame is dropped.
    """

    def __init__(
        self,
        replay: Replay,
        *,
        speed: float = 60.0,
        playing: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.replay = replay
        self.is_playing = playing
        self.outcome = SeekOutcome()
        self._clock = ReplayClock(clock, speed)
        # Whether the frame that is being read is to be dropped.
        self._is_void = False
        self._wake = asyncio.Event()
        self._work: list[Callable[[], None]] = []
        self._steps = self._jump_ms = 0
        self._is_closed = False
        self._is_searching = False
        self._is_moving = False
        self._is_asked = False
        self._shown = replay.snapshot
        self._position_ms = replay.position_ms
        self._state = self._state_now()

    @property
    def is_busy(self) -> bool:
        """Whether commands are pending."""
        return self._is_wanted or self._is_asked or self._is_moving

    @property
    def _is_wanted(self) -> bool:
        return bool(self._work or self._steps or self._jump_ms)

    @property
    def position_ms(self) -> int:
        """The moment that is shown."""
        return self._position_ms

    @property
    def speed(self) -> float:
        """The requested speed."""
        return self._clock.speed

    @property
    def real_speed(self) -> float:
        """The actual speed: ``speed``, unless frames take too long to read."""
        return self._clock.real_speed if self.is_playing else self.speed

    @property
    def snapshot(self) -> Snapshot:
        """The current snapshot."""
        # A new object, because screens ignore a snapshot that they have already shown.
        return replace(self._shown, paused=not self.is_playing)

    async def snapshots(self) -> AsyncGenerator[Snapshot, None]:
        """Play, and yield a snapshot whenever something has changed, until closed."""
        self._clock.begin()
        yield self.snapshot
        while not self._is_closed:
            self._wake.clear()
            if await self.move():
                yield self.snapshot
            if not self._is_wanted:
                await self._wait()

    async def move(self) -> bool:
        """Run a command, or play the elapsed time; return whether there is something new to show."""
        self._is_moving = True
        try:
            return await self._move()
        finally:
            self._is_moving = False

    async def _move(self) -> bool:
        self._gather()
        work, self._work = self._work, []
        if work:
            for each in work:
                await asyncio.to_thread(each)
            # The time that the command took is not played.
            self._clock.begin()
        elif self.is_playing and (elapsed_ms := self._clock.pop_owed_ms()) > 0:
            await self._play(elapsed_ms)
        self._shown, self._position_ms = self.replay.snapshot, self.replay.position_ms
        before, self._state = self._state, self._state_now()
        is_asked, self._is_asked = self._is_asked, False
        return before != self._state or is_asked

    def set_playing(self, playing: bool) -> None:
        """Play, or pause at what is shown."""
        if not playing:
            self._pause()
        elif not self.is_playing:
            self._clock.begin()
            self.is_playing = True
            # What a search found is true of the moment that it went to.
            self.forget_outcome()
        self._wake.set()

    def set_speed(self, speed: float) -> None:
        """Change the speed, from now on."""
        self._clock.set_speed(max(float(SPEEDS[0]), min(float(SPEEDS[-1]), speed)))
        self._wake.set()

    def change_speed(self, direction: int) -> None:
        """Change to the next or previous of ``SPEEDS``."""
        known = SPEEDS if direction > 0 else tuple(reversed(SPEEDS))
        self.set_speed(next((speed for speed in known if (speed - self.speed) * direction > 0), self.speed))

    def step(self, count: int) -> None:
        """Pause, and go ``count`` polls forward, or back if negative."""
        self._pause()
        self._is_searching = False
        self._steps += count
        self._wake.set()

    def seek(self, at_ms: int) -> None:
        """Go to a moment."""
        self._is_searching = False
        self._ask(lambda: self._seek(at_ms))

    def jump(self, span_ms: int) -> None:
        """Go forward, or back if negative; jumps requested while a frame is read are added up."""
        self._is_searching = False
        self._jump_ms += span_ms
        self._wake.set()

    def go_to_change(self, direction: int, queue: tuple[Place, str] | None = None) -> None:
        """Pause, and go to the next or previous begin or end of an incident; of ``queue``, to any change of verdict."""
        if self._is_searching:
            # A second request ends the search.
            self._is_searching = False
            self.outcome = SeekOutcome(is_stopped=True)
            return
        self._pause()
        self._is_searching = True
        # Shown at once: the work before it, and the first hour, may take seconds.
        self.outcome = SeekOutcome(looking_ms=self._position_ms)
        self._ask(lambda: self._go_to_change(direction, queue))

    def forget_outcome(self) -> None:
        """Forget the outcome of the last seek, unless one is running."""
        if not self._is_searching:
            self.outcome = SeekOutcome()

    def wake(self) -> None:
        """Yield the current snapshot again."""
        self._is_asked = True
        self._wake.set()

    def close(self) -> None:
        """End."""
        self._is_closed = True
        self._is_searching = False
        self._wake.set()

    def _pause(self) -> None:
        self.is_playing = False
        self._is_void = True

    def _state_now(self) -> tuple[object, ...]:
        return self._shown, self._position_ms, self.is_playing, self.speed, self.outcome

    def _ask(self, work: Callable[[], None]) -> None:
        # Jumps that were requested earlier come first.
        self._gather()
        self._work.append(work)
        self._wake.set()

    def _gather(self) -> None:
        """Queue the sum of the jumps after the other commands."""
        steps, self._steps = self._steps, 0
        span_ms, self._jump_ms = self._jump_ms, 0
        if span_ms:
            self._work.append(lambda: self._seek(self.replay.position_ms + span_ms))
        if steps:
            self._work.append(lambda: self._step(steps))

    async def _play(self, elapsed_ms: int) -> None:
        """Read the next frame; if paused meanwhile, go back to the current one."""
        replay, shown = self.replay, self.replay.instant()
        self._is_void = False
        self._clock.begin_frame()
        try:
            is_over = await asyncio.to_thread(self._read_frame, elapsed_ms)
            if not self._is_void:
                if replay.skipped is not None:
                    self.outcome = SeekOutcome(skipped=replay.skipped)
                if is_over:
                    self.is_playing = False
            else:
                await asyncio.to_thread(replay.take_back, shown)
        finally:
            self._clock.end_frame()

    def _read_frame(self, elapsed_ms: int) -> bool:
        """Play ``elapsed_ms`` of recorded time, and return whether that was the end."""
        self.replay.play(elapsed_ms)
        if self.replay.is_at_end:
            self.replay.refresh()
        return self.replay.is_at_end

    def _step(self, count: int) -> None:
        self.outcome = SeekOutcome()
        if not self.replay.step(count) and count > 0:
            # More may have been recorded by now.
            self.replay.refresh()
            self.replay.step(count)

    def _seek(self, at_ms: int) -> None:
        self.outcome = SeekOutcome()
        self.replay.seek(at_ms)

    def _go_to_change(self, direction: int, queue: tuple[Place, str] | None) -> None:
        def look(at_ms: int) -> bool:
            if self._is_searching:
                self.outcome = SeekOutcome(looking_ms=at_ms)
            return self._is_searching

        stopped = SeekOutcome(is_stopped=True)
        try:
            if queue is None:
                turns = self.replay.go_to_incident(direction, look)
                outcome = SeekOutcome(turns=tuple(turns), sought=direction)
            else:
                changes = self.replay.go_to_change(direction, queue, look)
                outcome = SeekOutcome(tuple(changes), sought=direction, is_queue=True)
            self.outcome = outcome if self._is_searching or outcome.changes or outcome.turns else stopped
        finally:
            self._is_searching = False

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(TICK_S if self.is_playing else None):
                await self._wake.wait()
        except TimeoutError:
            return


_USUAL = Thresholds()
NO_AUDIT = "this is a recording, which has no keys to audit; audit the server itself"
NO_NAMESPACES = "this is a recording: it contains only the namespaces that were recorded"


class ReplaySource:
    """The recorded queues of one place, and the messages of the last inventory before the moment that is shown."""

    def __init__(self, player: Player, place: "Place", inventories: Inventories) -> None:
        self._player = player
        self._place = place
        self._inventories = inventories
        # The time of the inventory that was read last, by queue.
        self.seen: dict[str, int] = {}

    @property
    def thresholds(self) -> Thresholds:
        """The recorder's thresholds of verdicts, at the moment that is shown."""
        return self._player.replay.thresholds.get(self._place, _USUAL)

    async def snapshots(self) -> AsyncGenerator[Snapshot, None]:
        """Yield the snapshots of this place."""
        async for snapshot in self._player.snapshots():
            yield snapshot.part(self._player.replay.labels[self._place])

    def wake(self) -> None:
        """Yield the current snapshot again."""
        self._player.wake()

    def set_paused(self, paused: bool) -> None:
        """Pause, or play."""
        self._player.set_playing(not paused)

    def switch(self, ns: str) -> None:
        """Do nothing: a place has one namespace."""

    async def peek(self, request: PageRequest) -> Page:
        """Return a page of the last inventory; raises ``PeekError`` if there is none."""
        return (await self._inventory(request.queue)).page(request)

    async def read(self, queue: str, id: str) -> MessageView:
        """Return a message of the last inventory; raises ``PeekError``."""
        return (await self._inventory(queue)).view(id)

    async def search(self, queue: str, wanted: Filter) -> AsyncGenerator[SearchProgress, None]:
        """Search the last inventory; raises ``PeekError``."""
        async for progress in (await self._inventory(queue)).search(wanted):
            yield progress

    async def audit(self, queues: Sequence[str] | None) -> "AsyncGenerator[AuditProgress, None]":
        """Raise ``PeekError``: a recording has no keys to audit."""
        raise PeekError(NO_AUDIT)
        yield

    async def due(self, queue: str, at_ms: int) -> tuple[tuple[str, int], ...]:
        """Count when the messages of the last inventory became visible; raises ``PeekError``."""
        return (await self._inventory(queue)).due(at_ms)

    async def namespaces(self) -> Namespaces:
        """Raise ``PeekError``: a recording has only the recorded namespaces."""
        raise PeekError(NO_NAMESPACES)

    async def aclose(self) -> None:
        """End the replay."""
        self._player.close()

    async def _inventory(self, queue: str) -> Inventory:
        try:
            found = await self._inventories.last(self._place, queue, self._player.position_ms)
        except PeekError:
            self.seen.pop(queue, None)
            raise
        before_ms, self.seen[queue] = self.seen.get(queue), found.at_ms
        if found.at_ms != before_ms:
            # The screen shows the time of the inventory.
            self._player.wake()
        return found
