"""Playing a replay: play, pause, step, seek and speed, on a clock that is given; the reading is done in a thread."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace

from rsmq_tui.history.place import Place
from rsmq_tui.history.reading import Span
from rsmq_tui.history.replay_changes import Change
from rsmq_tui.history.replay_clock import TICK_S, ReplayClock
from rsmq_tui.history.replaying import Replay
from rsmq_tui.monitor import Snapshot

SPEEDS = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)


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
        self.told = Told()
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

    async def snapshots(self) -> AsyncIterator[Snapshot]:
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
                    self.told = Told(skipped=replay.skipped)
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
