"""What happens in each list queue of the demo, as ``scenarios`` says it for those of RSMQ."""

from dataclasses import dataclass

from rsmq_tui.embedded import jobs
from rsmq_tui.embedded.jobs import Body
from rsmq_tui.embedded.scenarios import Backlog, Bounds, Pace


@dataclass(frozen=True, slots=True)
class Hands:
    """A worker with ``count`` hands: each waits for an item, works on it within ``work_s``, and comes for the next.

    With ``lease_ms`` what a hand works on lies in processing, under a lease of so many real ms, until it is
    acknowledged; without, an item is gone when it is popped. A worker that ``dies_after_s`` leaves what it holds as it
    lies, and ``down_s`` later there is another one.
    """

    count: int
    work_s: tuple[float, float]
    lease_ms: int | None = None
    dies_after_s: tuple[float, float] | None = None
    down_s: float = 4.0


@dataclass(frozen=True, slots=True)
class Abandoned:
    """What somebody left in processing: ``leased`` items whose leases ended ``ended_s`` ago, and ``unleased`` ones."""

    leased: int
    unleased: int
    ended_s: float


@dataclass(frozen=True, slots=True)
class ListScenario:
    """One list queue, by its whole key: what is pushed, who takes it, and what lies there at the start.

    Each item is ``body``, a JSON object, and tells when it was ``created``. Without a ``worker`` nobody takes any;
    without ``reap_every_s`` nothing that was left in processing comes back.
    """

    queue: str
    body: Body
    arrivals: Pace
    worker: Hands | None
    reap_every_s: float | None = None
    backlog: Backlog | None = None
    abandoned: Abandoned | None = None
    bounds: Bounds | None = None


# Each time the worker dies its eight items or so stay in processing; their leases end within five seconds, and the
# reaper, which comes every twenty, returns them before the demo calls the queue leaking.
# The last worker died a moment before the start, so that nobody has to wait for the next death.
CRASHING = ListScenario(
    queue="queue:thumbnails",
    body=jobs.thumbnail,
    arrivals=Pace(4.0, sway=0.15, sway_every_s=70.0),
    worker=Hands(12, work_s=(0.8, 3.0), lease_ms=5_000, dies_after_s=(22.0, 38.0)),
    reap_every_s=20.0,
    abandoned=Abandoned(leased=7, unleased=1, ended_s=1.0),
    bounds=Bounds(low=50, high=500, relief_per_s=1.0),
)

# Old at first, and clears by some 4/s; after that it grows by some 2/s for ten minutes, and clears again: 600 to 1,800
# for ever.
CLEARING = ListScenario(
    queue="queue:webhooks-out",
    body=jobs.delivery,
    arrivals=Pace(10.0, sway=0.1, sway_every_s=40.0),
    worker=Hands(2, work_s=(0.15, 0.35)),
    backlog=Backlog(1_900, oldest_s=1_500.0),
    bounds=Bounds(low=600, high=1_800, relief_per_s=4.0),
)

# Its worker died long ago, in the middle of its work, and nobody brings that back. Only silent senders keep the queue
# from filling the memory: 900 after 40 minutes.
ABANDONED = ListScenario(
    queue="queue:imports",
    body=jobs.import_file,
    arrivals=Pace(0.3),
    worker=None,
    backlog=Backlog(240, oldest_s=2_790.0),
    abandoned=Abandoned(leased=9, unleased=3, ended_s=2_760.0),
    bounds=Bounds(low=880, high=900, relief_per_s=0.0),
)

LIST_SCENARIOS = (CRASHING, CLEARING, ABANDONED)
