"""When the demo's producers and consumers do something: a steady beat, and what a rate comes to at each beat."""

import asyncio
from collections.abc import Awaitable, Callable

from rsmq_tui.embedded.scenarios import Bounds, Pace

RETRY_S = 0.5
# Ten batches a second look like a steady flow and cost a tenth of what single messages would.
_TICK_S = 0.1
_BOUNDS_CHECK_S = 2.0
# After a pause (the server was away, the machine slept) at most this much is made up for.
_CATCH_UP_S = 1.0


class Ticks:
    """A steady beat; ``at_s`` is the seconds since it began."""

    def __init__(self) -> None:
        self._clock = asyncio.get_running_loop().time
        self._began_s = self._last_s = self._clock()

    @property
    def at_s(self) -> float:
        """When the last beat was."""
        return self._last_s - self._began_s

    async def wait(self) -> float:
        """Wait for the next beat; return the seconds since the last one, at most ``_CATCH_UP_S``."""
        await asyncio.sleep(_TICK_S)
        before_s, self._last_s = self._last_s, self._clock()
        return min(self._last_s - before_s, _CATCH_UP_S)


class Arrivals:
    """How many messages are due at each beat: those of the pace, or of the bounds' relief while the depth is to fall.

    ``depth`` asks for the depth now; it is only asked where there are bounds.
    """

    def __init__(self, pace: Pace, bounds: Bounds | None, speed: float, depth: Callable[[], Awaitable[int]]) -> None:
        self._pace = pace
        self._bounds = bounds
        self._speed = speed
        self._depth = depth
        self._ticks = Ticks()
        self._is_relieved = False
        self._next_check_s = 0.0
        self._owed = 0.0

    async def due(self) -> int:
        """Wait for the next beat; return how many messages are to be sent."""
        passed_s = await self._ticks.wait()
        self._owed += await self._rate() * self._speed * passed_s
        count = int(self._owed)
        self._owed -= count
        return count

    async def _rate(self) -> float:
        at_s, bounds = self._ticks.at_s, self._bounds
        if bounds is not None and at_s >= self._next_check_s:
            self._next_check_s = at_s + _BOUNDS_CHECK_S
            self._is_relieved = await self._depth() >= (bounds.low if self._is_relieved else bounds.high)
        return bounds.relief_per_s if bounds is not None and self._is_relieved else self._pace.rate(at_s * self._speed)
