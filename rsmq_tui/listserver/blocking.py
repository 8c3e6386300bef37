"""The clients that wait for lists, their order and their deadlines.

A client that finds all its lists empty is put at the end of the queue of each of them. When a list gets elements,
its clients are served in the order in which they began to wait, after the command that pushed, or the whole
transaction, has been executed and answered. To serve a client, its command is executed again: it takes from the first
of its lists that has an element, in the order of the command. A served BLMOVE pushes, and so may serve others, which
are served next.
"""

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from rsmq_tui.listserver.resp import NO_ARRAY, Reply

ListKey = tuple[int, bytes]
"""A list: the number of its database, and its key."""


@dataclass(slots=True)
class Blocked:
    """What a client waits for; ``timeout_ms`` is 0 for no timeout; ``at_once`` is the reply if it must not wait."""

    keys: list[bytes]
    timeout_ms: int
    at_once: Reply = NO_ARRAY
    index: int = 0
    since_ms: int = 0
    deadline_ms: int | None = None
    number: int = 0
    """The number of this wait; an entry among the deadlines with another number is stale."""


class Waiter(ABC):
    """A client that can wait for lists."""

    index = 0
    """The number of its database."""
    blocked: Blocked | None = None

    @abstractmethod
    def retry(self, blocked: Blocked) -> None:
        """Execute the waiting command again."""

    @abstractmethod
    def unblock(self, reply: Reply) -> None:
        """Reply to the waiting command."""


class Blocking:
    """All clients that wait, in one queue for each list, and their deadlines."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.queues: dict[ListKey, OrderedDict[Waiter, Blocked]] = {}
        self.ready: dict[ListKey, None] = {}
        """Lists that got elements, in that order, and whose clients must be served."""
        self.clients = 0
        self._now_ms = now_ms
        self._deadlines: list[tuple[int, int, Waiter]] = []
        self._last_number = 0

    def wait(self, client: Waiter, blocked: Blocked, earlier: Blocked | None) -> None:
        """Put a client into the queues of its lists; one that was woken and got nothing keeps its deadline."""
        self._last_number += 1
        blocked.index, blocked.number = client.index, self._last_number
        blocked.since_ms = earlier.since_ms if earlier else self._now_ms()
        if blocked.timeout_ms:
            blocked.deadline_ms = earlier.deadline_ms if earlier else blocked.since_ms + blocked.timeout_ms
            assert blocked.deadline_ms is not None
            heappush(self._deadlines, (blocked.deadline_ms, blocked.number, client))
        for key in blocked.keys:
            self.queues.setdefault((blocked.index, key), OrderedDict())[client] = blocked
        client.blocked = blocked
        self.clients += 1

    def forget(self, client: Waiter) -> Blocked:
        """Remove a waiting client from all queues."""
        blocked = client.blocked
        assert blocked is not None
        client.blocked = None
        self.clients -= 1
        for key in blocked.keys:
            queue = self.queues.get((blocked.index, key))
            if queue is not None:
                queue.pop(client, None)
                if not queue:
                    del self.queues[blocked.index, key]
        if len(self._deadlines) > 2 * self.clients + 64:
            self._deadlines = [entry for entry in self._deadlines if _is_true(entry)]
            heapify(self._deadlines)
        return blocked

    def serve(self, is_list: Callable[[ListKey], bool]) -> None:
        """Serve the clients of lists that got elements, and of those that get some by that."""
        while self.ready:
            ready, self.ready = self.ready, {}
            for key in ready:
                # As many as wait now: a client that gets nothing waits again, at the end.
                for _ in range(len(self.queues.get(key, ()))):
                    if key not in self.queues or not is_list(key):
                        break
                    client = next(iter(self.queues[key]))
                    client.retry(self.forget(client))

    def expire(self) -> None:
        """Reply to the clients whose timeout has passed."""
        now_ms = self._now_ms()
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            entry = heappop(self._deadlines)
            if _is_true(entry):
                client = entry[2]
                self.forget(client)
                client.unblock(NO_ARRAY)

    def next_deadline_ms(self) -> int | None:
        """Return the earliest deadline, or None."""
        while self._deadlines and not _is_true(self._deadlines[0]):
            heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def places(self, clients: Iterable[Waiter]) -> dict[tuple[Waiter, ListKey], int]:
        """Return the place, from 1, of each client in the queue of each list that one of these waits for."""
        keys = {(each.index, key) for each in clients if each.blocked for key in each.blocked.keys}
        return {(waiter, key): place for key in keys for place, waiter in enumerate(self.queues[key], 1)}

    def waiting(self) -> Iterable[tuple[ListKey, int, int]]:
        """Yield each list that clients wait for, the number of clients, and since when the first waits, in ms."""
        for key, queue in self.queues.items():
            yield key, len(queue), next(iter(queue.values())).since_ms


def _is_true(entry: tuple[int, int, Waiter]) -> bool:
    blocked = entry[2].blocked
    return blocked is not None and blocked.number == entry[1]
