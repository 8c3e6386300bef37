"""Looking at messages beside the rows: which are received too often, and which ids have no body.

A row tells neither. Each poll looks at the receive counts around the first hidden message of some queues, where
messages that keep coming back lie, and at a few pages of messages on a walk through all of every queue. Both take the
queues in turn, and cost the same however many messages there are.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from rsmq_tui.monitor.series import Sample
from rsmq_tui.protocol import MessagePage, PageLook, Row

# Each poll looks at the receive counts of this many queues, and at this many messages on either side of the first
# hidden one; together with the walk a poll holds the server for a millisecond or two.
QUICK_QUEUES = 20
QUICK_SPAN = 50
# The walk looks at so many messages, in so many queues at most, and considers so many queues.
WALK_MESSAGES = 250
WALK_QUEUES = 20
_CONSIDERED = 500
# A queue that was found in order, and has not changed since, is walked through again only after this time.
_QUIET_MS = 600_000
# Ids kept of one walk, so that a message which moved meanwhile is not counted twice; more are only counted.
_IDS_MAX = 10_000


class Looked(NamedTuple):
    """What is known from looks at a queue's messages, as in ``QueueState``."""

    poison: int = 0
    highest_rc: int = 0
    missing: int = 0
    looked: int | None = None
    looked_all_ms: int | None = None


class _Found:
    """What a walk through a queue has found so far; the next page is that behind ``last``."""

    __slots__ = ("begun_ms", "highest_rc", "last", "looked", "missing", "more", "poison")

    def __init__(self, begun_ms: int) -> None:
        self.begun_ms = begun_ms
        self.last: tuple[bytes, bytes] | None = None
        self.looked = 0
        self.highest_rc = 0
        self.more = 0
        self.poison: set[bytes] = set()
        self.missing: set[bytes] = set()

    def take(self, page: PageLook) -> None:
        self.looked += page.looked
        self.highest_rc = max(self.highest_rc, page.highest_rc)
        self.missing.update(page.missing[: _IDS_MAX - len(self.missing)])
        if len(self.poison) < _IDS_MAX:
            self.poison.update(page.poison)
        else:
            self.more += len(page.poison)
        self.last = page.last


class Look:
    """What looks found in one queue; ``found`` is what is known of it now."""

    __slots__ = ("_headless_ms", "_quick", "_walk", "_walked", "_walked_ms", "_walked_row", "found")

    def __init__(self) -> None:
        self.found = Looked()
        self._quick = (0, 0)
        self._walk: _Found | None = None
        self._walked: _Found | None = None
        self._walked_ms = 0
        self._walked_row: Row | None = None
        self._headless_ms: int | None = None

    def take_counts(self, looked: int, poison: int, highest_rc: int, depth: int, at_ms: int) -> None:
        """Take what the messages around the first hidden one say; ``looked`` may be all of them."""
        self._quick = poison, highest_rc
        if not depth:
            self.found, self._walk, self._walked, self._headless_ms = Looked(), None, None, None
        elif looked >= depth:
            # It is newer than any walk.
            missing = self.found.missing
            self.found = Looked(poison, highest_rc, missing, looked, at_ms)
            if self._walked is not None:
                self._walked.poison, self._walked.more, self._walked.highest_rc = set(), 0, 0
        else:
            self._tell()

    def take_headless(self, at_ms: int) -> None:
        """Take note that the first message has no body."""
        self._headless_ms = at_ms
        self._tell()

    def take_page(self, page: PageLook, row: Row | None, at_ms: int) -> None:
        """Take a page of the walk; the last one ends it."""
        walk = self._walk = self._walk or _Found(at_ms)
        walk.take(page)
        if page.is_last:
            self._walked, self._walked_ms, self._walked_row, self._walk = walk, at_ms, row, None
            if self._headless_ms is not None and self._headless_ms < walk.begun_ms:
                self._headless_ms = None
        self._tell()

    def next_page(self, name: str, row: Row | None, at_ms: int, size: int) -> MessagePage | None:
        """Return the page that the walk looks at next, or None where there is nothing new to be found."""
        found = self.found
        is_same = row is self._walked_row and row is not None
        if is_same and not found.poison and not found.missing and at_ms - self._walked_ms < _QUIET_MS:
            return None
        return MessagePage(name, None if self._walk is None else self._walk.last, size)

    def _tell(self) -> None:
        walk, walked = self._walk, self._walked
        poison, highest_rc = self._quick
        missing = int(self._headless_ms is not None)
        for known in (walk, walked):
            if known is not None:
                poison = max(poison, len(known.poison) + known.more)
                highest_rc = max(highest_rc, known.highest_rc)
                missing = max(missing, len(known.missing))
        looked = walk.looked if walk is not None else None if walked is None else walked.looked
        self.found = Looked(poison, highest_rc, missing, looked, None if walked is None else self._walked_ms)


class Walked(Protocol):
    """What is walked through: a tracker of a queue."""

    @property
    def look(self) -> Look | None:
        """What was found in it; None for a queue whose messages cannot be looked at."""
        ...

    @property
    def row(self) -> Row | None:
        """Its row of the last poll."""
        ...

    @property
    def sample(self) -> Sample | None:
        """Its counters of the last poll, None where it could not be read."""
        ...


class Rotation:
    """Chooses which queues are looked at in each poll; all have their turn."""

    def __init__(self) -> None:
        self._quick_index = 0
        self._walk_index = 0

    def quick(self, names: Sequence[str]) -> Sequence[str]:
        """Return the queues whose receive counts are looked at now."""
        start = self._quick_index if self._quick_index < len(names) else 0
        looked = names[start : start + QUICK_QUEUES]
        self._quick_index = start + len(looked)
        return looked

    def pages(self, names: Sequence[str], trackers: Mapping[str, Walked], at_ms: int) -> list[MessagePage]:
        """Return the pages of messages that are looked at now."""
        pages: list[MessagePage] = []
        budget = WALK_MESSAGES
        for _ in range(min(len(names), _CONSIDERED)):
            if budget <= 0 or len(pages) == WALK_QUEUES:
                break
            self._walk_index = self._walk_index + 1 if self._walk_index + 1 < len(names) else 0
            tracker = trackers.get(names[self._walk_index])
            if tracker is None or tracker.look is None or tracker.sample is None or not tracker.sample.depth:
                continue
            page = tracker.look.next_page(names[self._walk_index], tracker.row, at_ms, budget)
            if page is not None:
                pages.append(page)
                budget -= min(budget, tracker.sample.depth)
        return pages
