"""Groups of queues whose names have a prefix in common: one row for each, with sums and the worst verdict."""

from collections.abc import Callable, Iterable, Sequence
from operator import is_
from typing import TypeVar

from rsmq_tui.monitor import QueueState

N = TypeVar("N", int, float)


class QueueGroup(QueueState):
    """A row that stands for its ``members``; ``name`` is the prefix of their names.

    Counts and rates are sums of those that are known, times the earliest. The rest is that of the ``worst`` member.
    """

    members: Sequence[QueueState]
    worst: QueueState

    @classmethod
    def of(cls, prefix: str, members: Sequence[QueueState], worst: QueueState) -> "QueueGroup":
        """Return the group of these queues of one server."""
        group = cls(
            *worst._replace(
                name=prefix,
                depth=_sum(queue.depth for queue in members),
                ready=_sum(queue.ready for queue in members),
                hidden=_sum(queue.hidden for queue in members),
                arrivals_s=_sum(queue.arrivals_s for queue in members),
                deletes_s=_sum(queue.deletes_s for queue in members),
                receives_s=_sum(queue.receives_s for queue in members),
                net_s=_sum(queue.change_s for queue in members),
                expired=_sum(queue.expired for queue in members),
                oldest_ready_ms=_least(queue.oldest_ready_ms for queue in members),
                oldest_ready_due_ms=_least(queue.oldest_ready_due_ms for queue in members),
                limit=min(
                    (queue.limit for queue in members if queue.limit is not None),
                    key=lambda limit: limit.soonest_ms,
                    default=None,
                ),
                times=None,
            )
        )
        group.members, group.worst = members, worst
        return group

    @property
    def key(self) -> str:
        """Its name among all rows; no queue has such a name."""
        return f"{self.place}\0group\0{self.name}"

    @property
    def change_s(self) -> float | None:
        """The change of the depth per second of all kinds of queues."""
        return self.net_s


def _sum(values: Iterable[N | None]) -> N | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _least(values: Iterable[int | None]) -> int | None:
    return min((value for value in values if value is not None), default=None)


def judged(row: QueueState) -> QueueState:
    """Return the queue of which a row shows the verdict: that of the row, or the worst one of a group."""
    return row.worst if isinstance(row, QueueGroup) else row


class Grouping:
    """Makes groups of the queues of each poll; those whose members did not change stay the same objects."""

    def __init__(self) -> None:
        self._separators = ""
        self._silenced: object = None
        self._prefixes: dict[str, str] = {}
        self._groups: dict[tuple[str, str], QueueGroup] = {}

    def rows(
        self,
        queues: Iterable[QueueState],
        separators: str,
        silenced: object,
        trouble: Callable[[QueueState], tuple[object, ...]],
    ) -> list[QueueState]:
        """Return a group for each prefix that several queues of a server have, and the other queues.

        A prefix ends with the last of the ``separators`` in a name. The worst member of a group is the first one by
        ``trouble``, which depends on those that are ``silenced``.
        """
        if separators != self._separators:
            self._separators, self._prefixes = separators, {}
        if silenced != self._silenced:
            self._silenced, self._groups = silenced, {}
        prefixes, members = self._prefixes, dict[tuple[str, str], list[QueueState]]()
        for queue in queues:
            prefix = prefixes.get(queue.name)
            if prefix is None:
                prefix = prefixes[queue.name] = prefix_of(queue.name, separators)
            members.setdefault((queue.place, prefix), []).append(queue)
        before, self._groups = self._groups, {}
        rows: list[QueueState] = []
        for key, found in members.items():
            if len(found) == 1 or not key[1]:
                rows += found
                continue
            group = before.get(key)
            if group is None or len(group.members) != len(found) or not all(map(is_, group.members, found)):
                group = QueueGroup.of(key[1], found, min(found, key=trouble))
            self._groups[key] = group
            rows.append(group)
        if len(prefixes) > 2 * sum(map(len, members.values())):
            # Most of these queues are gone.
            self._prefixes = {}
        return rows


def prefix_of(name: str, separators: str) -> str:
    """Return the name up to the last of these characters, empty if it has none of them."""
    return name[: max((name.rfind(separator) for separator in separators), default=-1) + 1]
