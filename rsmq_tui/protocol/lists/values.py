"""What the operations of list queues take and give, besides bytes and numbers."""

from typing import NamedTuple


class Lease(NamedTuple):
    """An item that was taken, and for how long it is whose it is.

    ``queue`` is the queue's key, ``token`` tells this lease from others of equal items, and ``deadline_ms`` is the
    server's time from which on a reaper may give the item to somebody else.
    """

    queue: str
    item: bytes
    token: str
    deadline_ms: int

    @property
    def member(self) -> bytes:
        """The member of the zset of leases that stands for it."""
        return b"%b:%b" % (self.token.encode(), self.item)


class Popped(NamedTuple):
    """An item, and the key of the queue that it came from."""

    queue: str
    item: bytes


class Reaped(NamedTuple):
    """What a reaper did.

    ``returned`` items whose lease had ended went back to be taken next; ``adopted`` items that nobody had leased got a
    grace time; ``dropped`` leases had lost their item. ``unexamined`` is how many items were being processed where they
    were too many or too large to be compared with their leases, else 0: nothing was adopted then.
    """

    returned: int = 0
    adopted: int = 0
    dropped: int = 0
    unexamined: int = 0
