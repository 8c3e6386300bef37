"""Playing a replay: play, pause, step, seek and speed, on a clock that is given; the reading is done in a thread."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace

from rsmq_tui.history.place import Place
from rsmq_tui.history.reading import Span
from rsmq_tui.history.replay_changes import Change
from rsmq_tui.history.replaying import Replay
from rsmq_tui.monitor import Snapshot

SPEEDS = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
# How often the screen follows while it plays.
TICK_S = 0.25
# Whoever comes later than this, for another reason than reading, was away: that is not made up for.
_LATE_S = 1.0
# While something is read for so long, recorded time goes on; where it takes longer, it does not go as fast as asked.
_READING_S = 10.0
# Over so long it is measured how fast it goes.
_MEASURED_S = 5.0


@dataclass(frozen=True, slots=True)
class Told:
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
    clock in seconds, and ``speed`` the recorded seconds in one of it.
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
        self.speed = speed
        self.is_playing = playing
        self.told = Told()
        self._clock = clock
        self._last_s = clock()
        self._reading_s = 0.0
        # When it was played, for how long, and how much of that was.
        self._played: deque[tuple[float, float, float]] = deque()
        self._wake = asyncio.Event()
        self._work: list[Callable[[], None]] = []
        self._steps = self._jump_ms = 0
        self._is_closed = False
        self._is_searching = False
        self._is_moving = False
        self._is_asked = False
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
        """Where the replay is."""
        return self.replay.position_ms

    @property
    def real_speed(self) -> float:
        """How fast it really goes: ``speed``, unless what is shown takes too long to read."""
        played = tuple(self._played)
        asked_s, played_s = sum(asked for _, asked, _ in played), sum(gone for *_, gone in played)
        return self.speed * played_s / asked_s if self.is_playing and asked_s > 0 else self.speed

    @property
    def snapshot(self) -> Snapshot:
        """What is shown there."""
        # Screens take a snapshot for news only where it is another than the last.
        return replace(self.replay.snapshot, paused=not self.is_playing)

    async def snapshots(self) -> AsyncIterator[Snapshot]:
        """Play, and yield what is to be shown whenever something changed; until closed."""
        self._begin_clock()
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
        now_s = self._clock()
        late_s = now_s - self._last_s
        # What was shown meanwhile is left out, so that the clock goes on as asked.
        elapsed_s = min(late_s, _LATE_S + self._reading_s)
        elapsed_ms = round(elapsed_s * 1000 * self.speed)
        self._gather()
        work, self._work = self._work, []
        if work:
            for each in work:
                await asyncio.to_thread(each)
            # The time that this took is not played.
            self._begin_clock()
        elif elapsed_ms > 0:
            # What is less than a ms counts the next time.
            self._last_s = now_s
            if self.is_playing:
                self._measure(now_s, late_s, elapsed_s)
                await asyncio.to_thread(self._play, elapsed_ms)
                self._reading_s = min(_READING_S, self._clock() - now_s)
        before, self._state = self._state, self._state_now()
        is_asked, self._is_asked = self._is_asked, False
        return before != self._state or is_asked

    def set_playing(self, playing: bool) -> None:
        """Play, or pause."""
        if playing and not self.is_playing:
            self._begin_clock()
        self.is_playing = playing
        self._wake.set()

    def set_speed(self, speed: float) -> None:
        """Play so many times as fast as it was."""
        self.speed = max(float(SPEEDS[0]), min(float(SPEEDS[-1]), speed))
        self._wake.set()

    def change_speed(self, direction: int) -> None:
        """Take the next of the usual speeds, or the one before."""
        known = SPEEDS if direction > 0 else tuple(reversed(SPEEDS))
        self.set_speed(next((speed for speed in known if (speed - self.speed) * direction > 0), self.speed))

    def step(self, count: int) -> None:
        """Pause, and go so many polls on, or back where negative."""
        self.is_playing = self._is_searching = False
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
        self.is_playing = False
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

    def _begin_clock(self) -> None:
        """Let time pass from now on, whatever was before."""
        self._last_s, self._reading_s = self._clock(), 0.0
        self._played.clear()

    def _measure(self, now_s: float, asked_s: float, played_s: float) -> None:
        self._played.append((now_s, asked_s, played_s))
        while len(self._played) > 1 and now_s - self._played[0][0] > _MEASURED_S:
            self._played.popleft()

    def _state_now(self) -> tuple[object, ...]:
        return self.replay.snapshot, self.position_ms, self.is_playing, self.speed, self.told

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
            self._work.append(lambda: self._seek(self.position_ms + span_ms))
        if steps:
            self._work.append(lambda: self._step(steps))

    def _play(self, elapsed_ms: int) -> None:
        replay = self.replay
        replay.play(elapsed_ms)
        if replay.skipped is not None:
            self.told = Told(skipped=replay.skipped)
        if replay.is_at_end:
            replay.refresh()
            self.is_playing = not replay.is_at_end

    def _step(self, count: int) -> None:
        self.told = Told()
        if not self.replay.step(count) and count > 0:
            # There may be more by now.
            self.replay.refresh()
            self.replay.step(count)

    def _seek(self, at_ms: int) -> None:
        self.told = Told()
        self.replay.seek(at_ms)

    def _go_to_change(self, direction: int, queue: tuple[Place, str] | None) -> None:
        def look(at_ms: int) -> bool:
            self.told = Told(looking_ms=at_ms)
            return self._is_searching

        try:
            found = self.replay.go_to_change(direction, queue, look)
            self.told = Told(tuple(found), direction) if self._is_searching else Told()
        finally:
            self._is_searching = False

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(TICK_S if self.is_playing else None):
                await self._wake.wait()
        except TimeoutError:
            return
