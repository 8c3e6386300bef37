"""How much recorded time passes while a replay is watched, and how fast that really is."""

from collections import deque
from collections.abc import Callable

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
