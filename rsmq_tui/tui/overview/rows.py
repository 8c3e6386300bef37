"""The rows of the overview: which queues or groups of queues are shown, and in which order."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

from rsmq_tui.monitor import QueueState, Snapshot
from rsmq_tui.monitor.text import passes
from rsmq_tui.tui.overview.columns import COLUMN_BY_ID
from rsmq_tui.tui.overview.groups import Grouping, QueueGroup, judged
from rsmq_tui.tui.overview.known import NONE_SILENCED, Silenced
from rsmq_tui.tui.widgets.row_table import Order

R = TypeVar("R")
# The order of queues by their troubles, which is not that of a column.
BY_TROUBLE = Order("")
# With more rows for each that changes, moving these is faster than sorting all.
_FEW = 5


class Arrangement(NamedTuple):
    """What decides which rows there are, and in which order.

    ``words`` is the filter. ``separators`` end the prefixes of groups; if empty, there are none. ``unfolded`` are the
    keys of the groups whose queues are shown, ``favourites`` the places and names of queues that come first. Unless
    rows ``may_move``, those that are shown keep their positions.
    """

    words: str
    order: Order
    separators: str
    unfolded: frozenset[str]
    favourites: frozenset[tuple[str, str]]
    silenced: Silenced
    may_move: bool

    @property
    def is_by_trouble(self) -> bool:
        """Whether the rows are all queues, sorted by trouble."""
        is_whole = not (self.words or self.separators or self.favourites)
        return is_whole and self.may_move and self.order == BY_TROUBLE


class QueueRows:
    """The rows of the last snapshot, their keys, and by which column they are sorted.

    ``members`` are the keys of the queues that are shown below their group. If no row changes or moves, ``rows`` or
    ``keys`` stay the same object.
    """

    def __init__(self) -> None:
        self.rows: Sequence[QueueState] = ()
        self.keys: Sequence[str] = ()
        self.members: frozenset[str] = frozenset()
        self.sorted_by: tuple[str, bool] | None = None
        self.snapshot: Snapshot | None = None
        self._arrangement: Arrangement | None = None
        self._grouping = Grouping()
        self._by_trouble: ByTrouble | None = None

    def arrange(self, snapshot: Snapshot, wanted: Arrangement) -> None:
        """Update the rows for a snapshot."""
        before = self.snapshot if wanted == self._arrangement else None
        self.snapshot, self._arrangement = snapshot, wanted
        changed = None if before is None else snapshot.changed_since(before.queues)
        if changed is not None and not changed[0]:
            return
        if not wanted.is_by_trouble:
            self._by_trouble = None
            self._arrange_some(snapshot, wanted)
            return
        again = None
        if changed is not None and self._by_trouble is not None and len(changed[0]) * _FEW <= len(snapshot.queues):
            again = self._by_trouble.changed(*changed)
        self._by_trouble = again = again or ByTrouble.of(snapshot.queues, wanted.silenced)
        self.rows, self.keys, self.members, self.sorted_by = again.queues, again.keys, frozenset(), None

    def _arrange_some(self, snapshot: Snapshot, wanted: Arrangement) -> None:
        """Show those that match the filter: the favourites, then the others, or groups of them."""
        favourites, order, silenced = wanted.favourites, wanted.order, wanted.silenced
        others = matching_queues(snapshot.queues, wanted.words)
        first = [queue for queue in others if (queue.place, queue.name) in favourites] if favourites else []
        if first:
            others = [queue for queue in others if (queue.place, queue.name) not in favourites]
        if wanted.separators:
            others = self._grouping.rows(others, wanted.separators, silenced, partial(trouble, silenced=silenced))
        sort_queues(first, order, silenced)
        downwards = sort_queues(others, order, silenced)
        self.members = frozenset()
        rows = [*first, *(self._with_members(others, wanted) if wanted.separators else others)]
        if wanted.may_move:
            self.sorted_by = None if order.column == BY_TROUBLE.column else (order.column, downwards)
        else:
            positions = {key: position for position, key in enumerate(self.keys)}
            rows.sort(key=lambda queue: positions.get(queue.key, len(positions)))
        self.rows, self.keys = rows, [queue.key for queue in rows]

    def _with_members(self, others: Iterable[QueueState], wanted: Arrangement) -> list[QueueState]:
        """Put the queues of each unfolded group, in order, below its row."""
        rows: list[QueueState] = []
        members: set[str] = set()
        for row in others:
            rows.append(row)
            if isinstance(row, QueueGroup) and row.key in wanted.unfolded:
                own = list(row.members)
                sort_queues(own, wanted.order, wanted.silenced)
                rows += own
                members.update(queue.key for queue in own)
        self.members = frozenset(members)
        return rows


def matching_queues(queues: Sequence[QueueState], wanted: str) -> list[QueueState]:
    """Return the queues for which each word is in the name or server, or starts the verdict; ! negates a word."""
    return [queue for queue in queues if passes(wanted, partial(_holds, queue))] if wanted else list(queues)


def _holds(queue: QueueState, part: str) -> bool:
    return part in queue.name.lower() or part in queue.place.lower() or queue.verdict.startswith(part)


def trouble(queue: QueueState, silenced: Silenced = NONE_SILENCED) -> tuple[Any, ...]:
    """Return the sort key of a queue or a group by trouble."""
    return queue.trouble(is_silenced=silenced.holds(judged(queue)))


def sort_queues(queues: list[QueueState], order: Order, silenced: Silenced) -> bool:
    """Sort in place, unknown values last, and return whether the order is descending.

    By trouble, those that are ``silenced`` come right before the queues that are ok.
    """
    if order.column == BY_TROUBLE.column:
        queues.sort(key=partial(trouble, silenced=silenced), reverse=order.reverse)
        return order.reverse
    column = COLUMN_BY_ID[order.column]
    sort_key, descending = column.sort_key, column.descending != order.reverse
    valued = [queue for queue in queues if sort_key(queue) is not None]
    unvalued = [queue for queue in queues if sort_key(queue) is None]
    valued.sort(key=lambda queue: (queue.name, queue.place))
    valued.sort(key=sort_key, reverse=descending)
    queues[:] = valued + unvalued
    return descending


class ByTrouble(NamedTuple):
    """Queues in the order of their troubles, their keys, and what each is sorted by: see ``trouble``."""

    queues: list[QueueState]
    keys: list[str]
    order: list[tuple[Any, ...]]
    silenced: Silenced

    @classmethod
    def of(cls, queues: Sequence[QueueState], silenced: Silenced = NONE_SILENCED) -> "ByTrouble":
        """Sort queues."""
        order = [trouble(queue, silenced) for queue in queues]
        positions = sorted(range(len(queues)), key=order.__getitem__)
        found = list(map(queues.__getitem__, positions))
        return cls(found, [queue.key for queue in found], list(map(order.__getitem__, positions)), silenced)

    def changed(self, before: Sequence[QueueState], after: Sequence[QueueState]) -> "ByTrouble | None":
        """Return the same queues, of which those of ``before`` became those of ``after``, in their order.

        ``keys`` is the same object if no queue moves. None if there was another queue.
        """
        silenced, order, keys, moves = self.silenced, self.order, self.keys, False
        # The positions of the old states, and where the new ones come, before what is there.
        gone, coming = [], []
        for old, new in zip(before, after, strict=True):
            was, now = trouble(old, silenced), trouble(new, silenced)
            position = bisect_left(order, was)
            if position == len(order) or self.queues[position] is not old:
                return None
            gone.append(position)
            coming.append((position if now == was else bisect_left(order, now), now, new))
            moves = moves or now != was
        gone.sort()
        coming.sort(key=itemgetter(0, 1))
        positions = [position for position, _, _ in coming]
        queues = _replaced(self.queues, gone, positions, [new for _, _, new in coming])
        if moves:
            keys = _replaced(keys, gone, positions, [new.key for _, _, new in coming])
            order = _replaced(order, gone, positions, [now for _, now, _ in coming])
        return ByTrouble(queues, keys, order, silenced)


def _replaced(values: Sequence[R], gone: Sequence[int], positions: Sequence[int], more: Sequence[R]) -> list[R]:
    """Return the values without those at ``gone``, and with one more before each of ``positions``, both ascending.

    In one pass: of 100,000 values, each pass touches all, most of which are no longer in the processor's caches.
    """
    made: list[R] = []
    end, leaving = 0, iter((*gone, len(values)))
    leaves = next(leaving)
    for position, value in (*zip(positions, more, strict=True), (len(values), None)):
        while leaves < position:
            made += values[end:leaves]
            end, leaves = leaves + 1, next(leaving)
        made += values[end:position]
        end = position
        if value is not None:
            made.append(value)
    return made
