"""What happens in each queue of the demo: one small value per queue, and nothing about how it is run.

Rates are per second and times in seconds, as the demo's clock counts them: ``speed`` 2 doubles the rates and halves the
times. ``vt``, delays and ages are real seconds, because the server counts those.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import pi, sin

from rsmq_tui.embedded import jobs
from rsmq_tui.embedded.jobs import Body


@dataclass(frozen=True, slots=True)
class Pace:
    """A rate: ``per_s``, swaying by a share of itself, with ``burst`` more spread over a second every so often."""

    per_s: float
    sway: float = 0.0
    sway_every_s: float = 90.0
    burst: int = 0
    burst_every_s: float = 20.0

    def rate(self, at_s: float) -> float:
        """Return how many a second are wanted at that time."""
        rate = self.per_s * (1.0 + self.sway * sin(2 * pi * at_s / self.sway_every_s))
        return rate + self.burst if at_s % self.burst_every_s < 1.0 else rate


@dataclass(frozen=True, slots=True)
class Backlog:
    """What lies in the queue at the start: ``count`` messages, the oldest sent ``oldest_s`` ago.

    ``skew`` above 1 makes most of them old, below 1 most of them new. ``rcs`` are receive counts, in turn. ``body``
    is the scenario's own by default. Where senders delay, each message is somewhere within its delay instead.
    """

    count: int
    oldest_s: float = 0.0
    skew: float = 1.0
    rcs: tuple[int, ...] = (0,)
    body: Body | None = None


@dataclass(frozen=True, slots=True)
class Bounds:
    """Keeps a depth bounded for days: from ``high`` down to ``low`` messages, only ``relief_per_s`` are sent."""

    low: int
    high: int
    relief_per_s: float


@dataclass(frozen=True, slots=True)
class Consumer:
    """Receives up to ``pace`` messages, works on each for a time within ``work_s``, and deletes it.

    It loses a ``fails`` share of them, and those that ``can_read`` refuses crash it: neither is deleted.
    """

    pace: Pace
    work_s: tuple[float, float] = (0.5, 1.5)
    fails: float = 0.0
    can_read: Callable[[bytes], bool] | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """One queue: what is sent to it, who receives, and what lies there at the start.

    ``delay_s`` is the range of the senders' delays, None for none; without a ``consumer`` nobody receives.
    """

    queue: str
    body: Body
    arrivals: Pace
    consumer: Consumer | None
    vt_s: int = 30
    delay_s: tuple[int, int] | None = None
    backlog: Backlog | None = None
    bounds: Bounds | None = None


# Just enough consumers: some dozens wait while arrivals sway above their pace, and none a moment later.
OK = Scenario(
    queue="thumbnails",
    body=jobs.thumbnail,
    arrivals=Pace(180.0, sway=0.08),
    consumer=Consumer(Pace(187.0), work_s=(2.0, 5.0)),
)

# Grows by some 20/s for a quarter of an hour, then recovers by 15/s for 22 minutes: 36,000 to 56,000 for ever.
GROWING = Scenario(
    queue="orders",
    body=jobs.order,
    arrivals=Pace(60.0, sway=0.1),
    consumer=Consumer(Pace(42.0), work_s=(2.0, 6.0), fails=0.05),
    backlog=Backlog(38_000, oldest_s=8_040.0, skew=3.0, rcs=(0,) * 24 + (1,)),
    bounds=Bounds(low=36_000, high=56_000, relief_per_s=25.0),
)

# Nobody receives, so that only silent senders keep it from filling the memory: 30,000 after 40 minutes.
STALLED = Scenario(
    queue="emails",
    body=jobs.email,
    arrivals=Pace(12.0, sway=0.2, sway_every_s=50.0),
    consumer=None,
    backlog=Backlog(3_000, oldest_s=2_460.0, skew=0.4),
    bounds=Bounds(low=29_000, high=30_000, relief_per_s=0.0),
)

POISONED = Scenario(
    queue="invoices",
    body=jobs.invoice,
    arrivals=Pace(0.2),
    consumer=Consumer(Pace(1.5), can_read=jobs.is_readable_json),
    vt_s=5,
    backlog=Backlog(9, oldest_s=1_320.0, rcs=(9, 3, 7, 9, 4, 8, 2, 9, 7), body=jobs.cut_off_invoice),
)

DELAYED = Scenario(
    queue="reminders",
    body=jobs.reminder,
    arrivals=Pace(0.4),
    consumer=Consumer(Pace(2.0)),
    delay_s=(30, 600),
    backlog=Backlog(120),
)

BURSTING = Scenario(
    queue="webhooks",
    body=jobs.webhook,
    arrivals=Pace(1.5, burst=60),
    consumer=Consumer(Pace(30.0)),
)

# The big backlog comes last: the others are complete before it is.
SCENARIOS = (OK, STALLED, POISONED, DELAYED, BURSTING, GROWING)
