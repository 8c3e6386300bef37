"""One poll as immutable values: Snapshot, QueueState and Verdict. Screens, commands and recorders read them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import compress
from operator import is_not
from typing import Any, NamedTuple

from rsmq_tui.monitor.tracking.forecast import Limit
from rsmq_tui.monitor.tracking.series import FlightTimes, Rates
from rsmq_tui.monitor.tracking.trend import Trend
from rsmq_tui.protocol import Failure
from rsmq_tui.protocol.server.status import ServerInfo


class Verdict(StrEnum):
    """What is wrong with a queue, worst first."""

    BROKEN = "broken"
    STALLED = "stalled"
    LEAKING = "leaking"
    GROWING = "growing"
    POISONED = "poisoned"
    AGED = "aged"
    WATCHING = "watching"
    OK = "ok"

    @property
    def is_trouble(self) -> bool:
        """Whether something is wrong: not ``ok``, and not ``watching``, which is still undecided."""
        return self not in (Verdict.WATCHING, Verdict.OK)

    @property
    def rank(self) -> int:
        """0 for the worst; the default order of the overview."""
        return _RANKS[self]


_RANKS = {verdict: rank for rank, verdict in enumerate(Verdict)}


# A poll looks at few of many queues.
TIMES_KEPT_MS = 60_000


class Drain(StrEnum):
    """Whether a backlog clears. A growing or stalled queue never gets a drain time."""

    EMPTY = "empty"
    CLEARS = "clears"
    STEADY = "steady"
    STALLED = "stalled"
    GROWING = "growing"
    UNKNOWN = "unknown"


class QueueState(NamedTuple):
    """One queue at one moment. None means unknown, never 0.

    ``ready``, ``hidden`` and ``depth`` are counts. ``arrivals_s``, ``deletes_s``, ``receives_s`` and ``net_s`` are
    rates in messages per second, over about the ten seconds before the queue changed, or before one of the last
    ``BUCKET_MS`` if it did not. ``oldest_ready_ms`` is when the first ready message was sent, or became visible if its
    id carries no time: its age is the snapshot's time minus this.
    ``oldest_ready_due_ms`` is when it became due, or was sent if its score is not a time: no message has been ready for
    longer, but one that was sent earlier may come after it, because it was delayed, or received and not deleted.
    ``since_ms`` is when the condition of the verdict began; of a growing queue, ``since_depth`` is the depth then, and
    ``is_since_longer`` is True if it may have grown before, because monitoring started or resumed then.
    ``place`` names the server if there are several, and is empty otherwise.

    ``idle_since_ms`` is the start of the time in which messages are ready and none is received (for a list, taken), as
    far as is known. ``since_ms`` may be earlier: the condition may have held several times.
    ``is_idle_longer`` is True if the queue was already idle when monitoring started or resumed: the real start is
    earlier and unknown.

    A verdict is pending from ``pending_since_ms``. ``watching`` lasts until ``pending_until_ms``, when the verdict is
    known. For any other verdict, ``pending_since_ms`` is when its condition stopped holding. The verdict ends at
    ``pending_until_ms``; None means that the condition is not clearly over yet.

    ``poison`` counts the messages that were received too often, ``missing`` the ids that have no body, among the
    messages checked so far. All messages were last checked at ``looked_all_ms``; while that is None, ``looked`` of
    them were checked, and ``looked`` is None before the first check.

    For a list queue, ``expired`` counts the leases past their deadline, and ``net_s`` is the change of its depth per
    second: lists do not count arrivals and deletes. Both are None for an RSMQ queue.

    ``times`` are those of messages in flight at the last look, None if there are none, or none were looked at yet.
    ``limit`` is the limit that the queue reaches first; None if it approaches none, or if that is unknown.
    """

    name: str
    kind: str
    depth: int | None
    ready: int | None
    hidden: int | None
    oldest_ready_ms: int | None
    vt_s: float | None
    delay_s: float | None
    maxsize: int | None
    created_ms: int | None
    modified_ms: int | None
    totalsent: int | None
    totalrecv: int | None
    arrivals_s: float | None
    deletes_s: float | None
    receives_s: float | None
    poison: int
    highest_rc: int
    verdict: Verdict
    since_ms: int | None
    drain: Drain
    drain_s: float | None
    broken: str | None
    problems: tuple[str, ...]
    place: str = ""
    expired: int | None = None
    net_s: float | None = None
    oldest_ready_due_ms: int | None = None
    pending_since_ms: int | None = None
    pending_until_ms: int | None = None
    idle_since_ms: int | None = None
    missing: int = 0
    looked: int | None = None
    looked_all_ms: int | None = None
    is_idle_longer: bool = False
    times: FlightTimes | None = None
    limit: Limit | None = None
    since_depth: int | None = None
    is_since_longer: bool = False

    @property
    def key(self) -> str:
        """Its name among the queues of all servers."""
        return f"{self.place}\0{self.name}" if self.place else self.name

    def trouble(self, *, is_silenced: bool = False) -> tuple[Any, ...]:
        """Return the key by which queues are sorted: worst verdict, longest wait of a ready message, most ready.

        A queue for whose trouble no alerts are sent, as it is known or expected, comes right before those that are ok.
        """
        rank, due_ms = Verdict.OK.rank - 0.5 if is_silenced else self.verdict.rank, self.oldest_ready_due_ms
        return rank, due_ms is None, due_ms or 0, -(self.ready or 0), self.name, self.place

    def times_at(self, at_ms: int) -> FlightTimes | None:
        """Return the times of messages in flight, unless they are too old."""
        return self.times if self.times is not None and at_ms - self.times.at_ms <= TIMES_KEPT_MS else None

    @property
    def rates(self) -> Rates | None:
        """Its rates, None if they are not known."""
        if self.arrivals_s is None or self.deletes_s is None or self.receives_s is None:
            return None
        return Rates(self.arrivals_s, self.deletes_s, self.receives_s)

    @property
    def change_s(self) -> float | None:
        """The change of the depth per second: arrivals minus deletes if both are counted."""
        if self.arrivals_s is None or self.deletes_s is None:
            return self.net_s
        return self.arrivals_s - self.deletes_s

    def oldest_ready_age_ms(self, at_ms: int) -> int | None:
        """Return how long ago the first ready message was sent, in ms."""
        return None if self.oldest_ready_ms is None else max(0, at_ms - self.oldest_ready_ms)

    def waiting_ms(self, at_ms: int) -> int | None:
        """Return how long ago the first ready message became due, in ms."""
        return None if self.oldest_ready_due_ms is None else max(0, at_ms - self.oldest_ready_due_ms)


def was_created_again(before_ms: int | None, after_ms: int | None) -> bool:
    """Return whether a queue was deleted and created again, by two times of creation; an unknown one proves nothing."""
    return None not in (before_ms, after_ms) and before_ms != after_ms


class Differences(NamedTuple):
    """The queues that differ from those of an earlier poll: as they were and as they are, those gone, and new ones."""

    before: Sequence[QueueState]
    after: Sequence[QueueState]
    gone: Sequence[QueueState] = ()
    created: Sequence[QueueState] = ()

    @property
    def pairs(self) -> Iterator[tuple[QueueState, QueueState]]:
        """The states of each queue that was not the same before, before and after."""
        return zip(self.before, self.after, strict=True)


class Totals(NamedTuple):
    """Sums over all queues; ``oldest`` is the name of the queue that has had a ready message for the longest time.

    ``oldest_ready_due_ms`` is when that message became due.
    """

    depth: int = 0
    ready: int = 0
    hidden: int = 0
    arrivals_s: float | None = None
    deletes_s: float | None = None
    receives_s: float | None = None
    oldest: str | None = None
    oldest_ready_due_ms: int | None = None
    verdicts: Mapping[Verdict, int] = {}


class Cost(NamedTuple):
    """The cost of a poll: round trip and whole poll in ms, bytes in both directions, commands sent."""

    round_trip_ms: float = 0.0
    poll_ms: float = 0.0
    bytes: int = 0
    commands: int = 0


class Connection(NamedTuple):
    """The state of the connection, on the poller's own monotonic clock in seconds.

    ``failure`` is None while the server answers. ``fresh_at_s`` is when it last answered, None before the first answer.
    ``retry_at_s`` is when the next automatic attempt is due, None while paused.
    """

    failure: Failure | None = None
    fresh_at_s: float | None = None
    retry_at_s: float | None = None


_NO_TOTALS, _NO_COST, _NOT_YET = Totals(), Cost(), Connection()


class ChangedStates(NamedTuple):
    """The indexes, in ascending order, of the states that are other objects than in ``before``.

    ``before`` are the states of the same queues, in the same order, after the last poll that succeeded.
    """

    before: tuple[QueueState, ...]
    indexes: Sequence[int]


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """One poll of everything, stamped with the server's TIME.

    ``queues`` is ordered by name. ``notes`` are sentences about the whole server; ``is_partial`` if one of them says
    why queues may be missing. ``namespaces`` lists the namespaces on the server, and ``lists`` patterns of its lists;
    they are read only while the watched one has no queues. Snapshots are compared by identity.

    ``place`` names the server if there are several. A combined snapshot has those of the servers as its ``parts``;
    ``Fleet`` says how it is timed.

    ``info`` is the last INFO of the server, None if that is not known. ``memory_limit`` is when its memory will
    be full; None if it does not grow towards its limit, or if that is unknown.

    ``changes`` saves ``changed_since`` a comparison of all states. It is None after a poll that found a queue created
    or deleted, and for a snapshot of a replay or of several servers.
    """

    at_ms: int
    server: str
    ns: str
    queues: tuple[QueueState, ...] = ()
    totals: Totals = _NO_TOTALS
    trend: Trend = field(default_factory=Trend)
    cost: Cost = _NO_COST
    connection: Connection = _NOT_YET
    interval_s: float = 1.0
    paused: bool = False
    notes: tuple[str, ...] = ()
    is_partial: bool = False
    namespaces: tuple[str, ...] | None = None
    lists: tuple[str, ...] = ()
    place: str = ""
    parts: tuple["Snapshot", ...] = ()
    info: ServerInfo | None = None
    memory_limit: Limit | None = None
    changes: ChangedStates | None = None

    @property
    def refusals(self) -> tuple[str, ...]:
        """A sentence for each server that answers and refuses messages because its memory is full."""
        parts = self.parts or (self,)
        full = [each for each in parts if each.connection.failure is None and each.info and each.info.refuses_messages]
        is_one = len({part.server for part in parts}) == 1
        of_server = {part.server: "" if is_one else f": {part.place}" for part in reversed(full)}
        return tuple(f"memory is full, messages are refused{where}" for where in of_server.values())

    def changed_since(self, last: Sequence[QueueState]) -> tuple[Sequence[QueueState], Sequence[QueueState]] | None:
        """Return the states that are other objects than in ``last``: as they were there, and as they are now.

        ``last`` are the queues of any earlier snapshot of the same place. None if queues were created or deleted since.
        """
        queues, changes = self.queues, self.changes
        if changes is not None and changes.before is last:
            return [last[index] for index in changes.indexes], [queues[index] for index in changes.indexes]
        if len(last) != len(queues):
            return None
        # Without an object for each queue, of which thousands would start the garbage collector.
        are_new = list(map(is_not, last, queues))
        before, after = list(compress(last, are_new)), list(compress(queues, are_new))
        return (before, after) if [queue.name for queue in before] == [queue.name for queue in after] else None

    def differences(self, last: Sequence[QueueState]) -> Differences:
        """As ``changed_since``, also if queues were created or deleted since."""
        if (changed := self.changed_since(last)) is not None:
            return Differences(*changed)
        known, created = {queue.name: queue for queue in last}, []
        before, after = [], []
        for queue in self.queues:
            if (earlier := known.pop(queue.name, None)) is None:
                created.append(queue)
            elif earlier is not queue:
                before.append(earlier)
                after.append(queue)
        return Differences(before, after, list(known.values()), created)

    def part(self, place: str) -> "Snapshot":
        """Return the part of that server, an empty snapshot before its first poll; this snapshot if it has no parts."""
        if not self.parts:
            return self
        return next((part for part in self.parts if part.place == place), Snapshot(0, "", "", place=place))

    @property
    def is_empty(self) -> bool:
        """True when the server answered and the namespace holds no queue."""
        return self.connection.fresh_at_s is not None and not self.queues
