"""Raw rows of a list queue that the test's producers and consumers work on."""

from collections import deque
from dataclasses import dataclass, field
from itertools import count

from rsmq_tui.monitor import QueueState, Thresholds
from rsmq_tui.monitor.filters.json_paths import JsonPath
from rsmq_tui.monitor.tracking.list_tracker import list_trackers
from rsmq_tui.protocol import Row
from tests.monitor.rows import Scripted


@dataclass
class ListFlow:
    """One list queue: ``ready`` holds its items, the next one first, and ``leases`` the deadline of each lease.

    New items are numbered, unless ``equal`` is set; ``body`` is what the row shows of the next one.
    """

    equal: bool = False
    body: bytes | None = None
    looked: bool = True
    processing: int = 0
    leases: list[int] = field(default_factory=list)
    ready: deque[bytes] = field(default_factory=deque)
    _serials: "count[int]" = field(default_factory=count)

    def push(self, items: int) -> None:
        self.ready.extend(b"same" if self.equal else b"%d" % next(self._serials) for _ in range(items))

    def take(self, items: int) -> None:
        for _ in range(min(items, len(self.ready))):
            self.ready.popleft()
            self.processing += 1

    def row(self, at_ms: int) -> Row:
        head: list[object] | None = None
        if self.ready and self.looked:
            next_items = list(self.ready)[:2]
            head = [len(self.body or next_items[0]), next_items[0], next_items.count(next_items[0])]
            if self.body is not None:
                head.append(self.body)
        lease: list[object] | None = None
        if self.leases:
            lease = [sum(deadline <= at_ms for deadline in self.leases), b"%d" % min(self.leases)]
        return [len(self.ready), self.processing, len(self.leases), head, lease]


def filled(items: int, **values: object) -> ListFlow:
    """A queue with so many ready items."""
    flow = ListFlow(**values)  # type: ignore[arg-type]
    flow.push(items)
    return flow


class ScriptedLists(Scripted):
    """Polls one list queue, ``q``."""

    def __init__(self, thresholds: Thresholds | None = None, age: JsonPath | None = None) -> None:
        super().__init__(thresholds, list_trackers(age))

    def once(self, flow: ListFlow, *, after_s: float = 1.0) -> QueueState:
        """Poll that long after the previous poll."""
        return self.poll_one(flow.row(self.at_ms + round(after_s * 1000)), after_s=after_s)

    def go(self, flow: ListFlow, *, seconds: int, pushed: int = 0, taken: int = 0, done: int = 0) -> QueueState:
        """Poll once a second while these many items move each second; return the last state."""
        state: QueueState | None = None
        for _ in range(seconds):
            flow.push(pushed)
            flow.take(taken)
            flow.processing -= min(done, flow.processing)
            state = self.once(flow)
        assert state is not None
        return state
