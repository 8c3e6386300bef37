"""Which lease is whose: a lease names an item by its bytes, and several items may have the same."""

from rsmq_tui.protocol import RawMessage
from rsmq_tui.protocol.lists.item_ids import READY_SCORE, UNKNOWN_LEASE_SCORE, UNLEASED_SCORE

_NONE = (READY_SCORE, UNLEASED_SCORE)


class Leases:
    """The leases of a queue, to be handed out to the items in processing: by bytes, (token, deadline) each."""

    def __init__(self, known: dict[bytes, list[tuple[bytes, bytes]]]) -> None:
        self._left = {item: list(leases) for item, leases in known.items()}

    def take(self, item: RawMessage) -> RawMessage | None:
        """Return an item with its lease, or None where it is no longer the one that was seen."""
        left = self._left.get(item.body or b"", [])
        if item.score in _NONE:
            return item._replace(rc=None, score=READY_SCORE)
        for number, (token, deadline) in enumerate(left):
            if item.score == UNKNOWN_LEASE_SCORE or float(deadline) == float(item.score):
                del left[number]
                return item._replace(rc=token, score=deadline)
        return item._replace(rc=None, score=READY_SCORE) if item.score == UNKNOWN_LEASE_SCORE else None

    def put_back(self, item: RawMessage) -> None:
        """Have an item's lease to be handed out again."""
        if item.rc is not None:
            self._left.setdefault(item.body or b"", []).append((item.rc, item.score))
