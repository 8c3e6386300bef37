"""The server's clock, which a tester can stop and move."""

import time
from collections.abc import Callable


class Clock:
    """Unix time in milliseconds or microseconds; while it is stopped it moves only by ``advance``.

    ``on_move`` is called after each of the three methods that change it, so that timers are set again.
    """

    def __init__(self) -> None:
        self.on_move: Callable[[], object] = lambda: None
        self._offset_us = time.time_ns() // 1000 - time.monotonic_ns() // 1000
        self._stopped_us: int | None = None

    @property
    def is_stopped(self) -> bool:
        """Whether time stands still."""
        return self._stopped_us is not None

    def now_us(self) -> int:
        """Return the time in microseconds."""
        # The time of day may jump; what waits must not end early by that.
        return self._offset_us + time.monotonic_ns() // 1000 if self._stopped_us is None else self._stopped_us

    def now_ms(self) -> int:
        """Return the time in milliseconds."""
        return self.now_us() // 1000

    def stop(self) -> None:
        """Let time stand still."""
        self._stopped_us = self.now_us()
        self.on_move()

    def advance(self, seconds: float) -> None:
        """Move time on, stopped or not; what is due by then happens."""
        if self._stopped_us is None:
            self._offset_us += int(seconds * 1_000_000)
        else:
            self._stopped_us += int(seconds * 1_000_000)
        self.on_move()

    def start(self) -> None:
        """Let time go on from where it stands."""
        if self._stopped_us is not None:
            self._offset_us = self._stopped_us - time.monotonic_ns() // 1000
            self._stopped_us = None
        self.on_move()

    def sleep(self, seconds: float) -> None:
        """Let the whole server wait, as DEBUG SLEEP does; a stopped clock is moved instead."""
        if self.is_stopped:
            self.advance(seconds)
        else:
            time.sleep(seconds)
