"""Plays a replay: play, pause, step, seek, speed and clock; its places as sources of snapshots."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rsmq_tui.history.names import Place
from rsmq_tui.history.reading import Span
from rsmq_tui.history.replay.messages import Inventories, Inventory
from rsmq_tui.history.replay.polls import Change
from rsmq_tui.history.replay.replay import Replay
from rsmq_tui.monitor import Filter, MessageView, Page, PageRequest, PeekError, Progress, Snapshot, Thresholds
from rsmq_tui.protocol import Namespaces

if TYPE_CHECKING:
    from rsmq_tui.monitor.audit.rsmq import AuditProgress


# How often the screen follows while it plays.
TICK_S = 0.25
# Whoever comes later than this, for another reason than reading, was away: of that only a tick is played.
_LATE_S = 3.0
# While a frame is read for so long, recorded time goes on; where it takes longer, it does not go as fast as asked.
_READING_S = 10.0
# Over so long it is measured how fast it goes.
_MEASURED_S = 5.0


class ReplayClock:
    """Tells how much recorded time is to be played, by a monotonic clock in seconds that is given.

    ``speed`` is the recorded seconds in one of that clock. Between ``begin_frame`` and ``end_frame`` something is read.
    """

    def __init__(self, clock: Callable[[], float], speed: float) -> None:
        self._clock = clock
        self._speed = speed
        # Until when time was counted, and how much recorded time of that is not played yet.
        self._last_s = clock()
        self._owed_ms = 0.0
        # The frame that is being read: the speed at which it was begun, and for how long it was read until then.
        self._frame_speed: float | None = None
        self._reading_s = 0.0
        # When it was counted, how much time had passed, and how much of that is played.
        self._counted: deque[tuple[float, float, float]] = deque()

    @property
    def speed(self) -> float:
        """How fast recorded time goes, as it was asked for."""
        return self._speed

    @property
    def real_speed(self) -> float:
        """How fast it went of late: ``speed``, unless frames take too long to read."""
        counted = tuple(self._counted)
        passed_s, played_s = sum(passed for _, passed, _ in counted), sum(played for *_, played in counted)
        return self._speed * played_s / passed_s if passed_s > 0 else self._speed

    def begin(self) -> None:
        """Let time pass from now on, whatever was before."""
        self._last_s, self._owed_ms = self._clock(), 0.0
        self._counted.clear()

    def set_speed(self, speed: float) -> None:
        """Let recorded time go so fast from now on; what passed until now counts as it went."""
        if speed != self._speed:
            self._count()
            self._counted.clear()
            self._speed = speed

    def take_ms(self) -> int:
        """Return how much recorded time is to be played now."""
        self._count()
        taken_ms = round(self._owed_ms)
        # What is less than a ms counts the next time.
        self._owed_ms -= taken_ms
        return taken_ms

    def begin_frame(self) -> None:
        """Say that something is read from now on."""
        self._frame_speed, self._reading_s = self._speed, 0.0

    def end_frame(self) -> None:
        """Say that it was read."""
        self._count()
        self._frame_speed = None

    def _count(self) -> None:
        now_s = self._clock()
        passed_s, self._last_s = now_s - self._last_s, now_s
        if self._frame_speed is None:
            # What nobody watched is neither played nor measured.
            passed_s = played_s = passed_s if passed_s <= _LATE_S else TICK_S
        else:
            # What would be shown meanwhile is left out, so that recorded time goes on as asked.
            played_s = min(passed_s, max(0.0, _READING_S - self._reading_s))
            self._reading_s += passed_s
        self._owed_ms += played_s * 1000 * self._speed
        # A frame that was begun at another speed tells nothing of this one.
        if self._frame_speed in (None, self._speed):
            self._counted.append((now_s, passed_s, played_s))
        while len(self._counted) > 1 and now_s - self._counted[0][0] > _MEASURED_S:
            self._counted.popleft()


SPEEDS = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)


@dataclass(frozen=True, slots=True)
class SeekOutcome:
    """What a replay has to say besides its snapshot: what changed where it went, or what it left out.

    ``changes`` are those it went to, none where ``sought`` tells that there were no more in that direction;
    ``skipped`` is a time in which nothing was recorded; ``looking_ms`` is what a search is looking at now.
    """

    changes: tuple[Change, ...] = ()
    sought: int = 0
    skipped: Span | None = None
    looking_ms: int | None = None


class Player:
    """Moves a replay on as its clock goes, and as it is told to.

    What it is told to do is done one after the other, by whoever walks through ``snapshots``; ``clock`` is a monotonic
    clock in seconds, and ``speed`` the recorded seconds in one of it. What is shown stays while the next frame is read;
    where it is paused meanwhile, that frame is not shown.
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
        self.told = SeekOutcome()
        self._clock = ReplayClock(clock, speed)
        # Whether the frame that is being read is not wanted any more.
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
        """Whether something that was asked for is not done yet."""
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
        """How fast it is to go."""
        return self._clock.speed

    @property
    def real_speed(self) -> float:
        """How fast it really goes: ``speed``, unless what is shown takes too long to read."""
        return self._clock.real_speed if self.is_playing else self.speed

    @property
    def snapshot(self) -> Snapshot:
        """What is shown there."""
        # Screens take a snapshot for news only where it is another than the last.
        return replace(self._shown, paused=not self.is_playing)

    async def snapshots(self) -> AsyncGenerator[Snapshot, None]:
        """Play, and yield what is to be shown whenever something changed; until closed."""
        self._clock.begin()
        yield self.snapshot
        while not self._is_closed:
            self._wake.clear()
            if await self.move():
                yield self.snapshot
            if not self._is_wanted:
                await self._wait()

    async def move(self) -> bool:
        """Do what was asked for, or let the time pass that passed; tell whether there is something new to show."""
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
            # The time that this took is not played.
            self._clock.begin()
        elif self.is_playing and (elapsed_ms := self._clock.take_ms()) > 0:
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
        self._wake.set()

    def set_speed(self, speed: float) -> None:
        """Play so many times as fast as it was, from now on."""
        self._clock.set_speed(max(float(SPEEDS[0]), min(float(SPEEDS[-1]), speed)))
        self._wake.set()

    def change_speed(self, direction: int) -> None:
        """Take the next of the usual speeds, or the one before."""
        known = SPEEDS if direction > 0 else tuple(reversed(SPEEDS))
        self.set_speed(next((speed for speed in known if (speed - self.speed) * direction > 0), self.speed))

    def step(self, count: int) -> None:
        """Pause, and go so many polls on, or back where negative."""
        self._pause()
        self._is_searching = False
        self._steps += count
        self._wake.set()

    def seek(self, at_ms: int) -> None:
        """Go to a moment."""
        self._is_searching = False
        self._ask(lambda: self._seek(at_ms))

    def jump(self, span_ms: int) -> None:
        """Go so far on, or back where negative; what is asked for while it reads is added up."""
        self._is_searching = False
        self._jump_ms += span_ms
        self._wake.set()

    def go_to_change(self, direction: int, queue: tuple[Place, str] | None = None) -> None:
        """Pause, and go to the next change of a verdict, or the one before; one of one queue where that is given."""
        if self._is_searching:
            # Once more ends the search.
            self._is_searching = False
            return
        self._pause()
        self._is_searching = True
        self._ask(lambda: self._go_to_change(direction, queue))

    def wake(self) -> None:
        """Show it anew."""
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
        return self._shown, self._position_ms, self.is_playing, self.speed, self.told

    def _ask(self, work: Callable[[], None]) -> None:
        # Those were asked for before this.
        self._gather()
        self._work.append(work)
        self._wake.set()

    def _gather(self) -> None:
        """Let what was added up be done after what else was asked for."""
        steps, self._steps = self._steps, 0
        span_ms, self._jump_ms = self._jump_ms, 0
        if span_ms:
            self._work.append(lambda: self._seek(self.replay.position_ms + span_ms))
        if steps:
            self._work.append(lambda: self._step(steps))

    async def _play(self, elapsed_ms: int) -> None:
        """Read the next frame; where it was paused meanwhile, go back to what is shown."""
        replay, shown = self.replay, self.replay.instant()
        self._is_void = False
        self._clock.begin_frame()
        try:
            is_over = await asyncio.to_thread(self._read_frame, elapsed_ms)
            if not self._is_void:
                if replay.skipped is not None:
                    self.told = SeekOutcome(skipped=replay.skipped)
                if is_over:
                    self.is_playing = False
            else:
                await asyncio.to_thread(replay.take_back, shown)
        finally:
            self._clock.end_frame()

    def _read_frame(self, elapsed_ms: int) -> bool:
        """Let so much recorded time pass, and tell whether that was the end."""
        self.replay.play(elapsed_ms)
        if self.replay.is_at_end:
            self.replay.refresh()
        return self.replay.is_at_end

    def _step(self, count: int) -> None:
        self.told = SeekOutcome()
        if not self.replay.step(count) and count > 0:
            # There may be more by now.
            self.replay.refresh()
            self.replay.step(count)

    def _seek(self, at_ms: int) -> None:
        self.told = SeekOutcome()
        self.replay.seek(at_ms)

    def _go_to_change(self, direction: int, queue: tuple[Place, str] | None) -> None:
        def look(at_ms: int) -> bool:
            self.told = SeekOutcome(looking_ms=at_ms)
            return self._is_searching

        try:
            found = self.replay.go_to_change(direction, queue, look)
            self.told = SeekOutcome(tuple(found), direction) if self._is_searching else SeekOutcome()
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
        # When the messages of each queue that was looked at were written down.
        self.seen: dict[str, int] = {}

    @property
    def thresholds(self) -> Thresholds:
        """The recorder's thresholds of verdicts, at the moment that is shown."""
        return self._player.replay.thresholds.get(self._place, _USUAL)

    async def snapshots(self) -> AsyncGenerator[Snapshot, None]:
        """Yield what is to be shown of this place."""
        async for snapshot in self._player.snapshots():
            yield snapshot.part(self._player.replay.labels[self._place])

    def wake(self) -> None:
        """Show it anew."""
        self._player.wake()

    def set_paused(self, paused: bool) -> None:
        """Pause, or play."""
        self._player.set_playing(not paused)

    def switch(self, ns: str) -> None:
        """Do nothing: a place is of one namespace."""

    async def peek(self, request: PageRequest) -> Page:
        """Return a page of the last inventory; raises ``PeekError`` where there is none."""
        inventory = await self._inventory(request.queue)
        return inventory.page(request)

    async def read(self, queue: str, id: str) -> MessageView:
        """Return a message of the last inventory; raises ``PeekError``."""
        inventory = await self._inventory(queue)
        return inventory.view(id)

    async def search(self, queue: str, wanted: Filter) -> AsyncGenerator[Progress, None]:
        """Look for what matches in the last inventory; it raises ``PeekError``."""
        inventory = await self._inventory(queue)
        async for progress in inventory.search(wanted):
            yield progress

    async def audit(self, queues: Sequence[str] | None) -> "AsyncGenerator[AuditProgress, None]":
        """Say that there are no keys to audit, by a ``PeekError``."""
        raise PeekError(NO_AUDIT)
        yield

    async def due(self, queue: str, at_ms: int) -> tuple[tuple[str, int], ...]:
        """Count when the messages of the last inventory became visible; raises ``PeekError``."""
        inventory = await self._inventory(queue)
        return inventory.due(at_ms)

    async def namespaces(self) -> Namespaces:
        """Say that there are no others, by a ``PeekError``."""
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
            # Of when they are is said beside them.
            self._player.wake()
        return found
