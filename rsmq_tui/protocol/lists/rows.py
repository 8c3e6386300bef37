"""Reading all list queues at once, as those of RSMQ are read: in chunks, and only what changed where that is told.

A row tells how many items are ready and in processing, the leases, and what the next item is. To learn that, Redis
copies the item, however long it is: one that is big is looked at again only after ``BIG_PACE_MS``, and what a call may
copy is bounded. The first look at a big item cannot be avoided.
"""

from collections.abc import Callable, Sequence
from itertools import chain, islice
from typing import Any

from redis.crc import key_slot

from rsmq_tui.protocol.keys import name_bytes
from rsmq_tui.protocol.known import QueueKeys
from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.protocol.lists.row_scripts import BIG_BYTES, LIST_ROWS, LOOK_BYTES_MAX, mark_of
from rsmq_tui.protocol.polled import Index, PolledRows, as_data
from rsmq_tui.protocol.read_scripts import MICROSECONDS_FROM, SECONDS_BELOW, Row
from rsmq_tui.protocol.replies import (
    ascii_text,
    blob,
    clock_ms,
    count,
    due_ms,
    either,
    integer,
    misshapen,
    nothing,
    optional,
    record,
)
from rsmq_tui.protocol.running import Call, ScriptRunner
from rsmq_tui.protocol.scripts import Script
from rsmq_tui.protocol.tracked import TrackedConnection

# [ready, processing, leases, head, lease]: each of the first three is a number, or an error text; ``leases`` is 1 where
# there are any, else 0. ``head`` is None where nothing is ready or the next item is not known, else [size, mark, 2 if
# the one behind it is equal, else 1] and, if asked for, the start of it. ``lease`` is None, or [how many are expired,
# the first deadline as it is written].
ListRow = Row

BIG_PACE_MS = 10_000
# Stands for a key that another node of a cluster may hold; then the row's numbers for it are None.
ELSEWHERE = b""
_PLAIN_LOOKS = 25


_HEAD = either(nothing, integer, record(count, blob, count), record(count, blob, count, blob))
_NUMBER = either(nothing, count, blob)
_ROW = record(_NUMBER, _NUMBER, _NUMBER, _HEAD, optional(record(count, ascii_text)))


class ListLayout:
    """The list, the processing list and the leases of each queue; a queue's name is its whole key."""

    script: Script = LIST_ROWS

    def __init__(self, names: ListNames, *, shown_bytes: int = 0) -> None:
        self._names = names
        self._shown_bytes = shown_bytes
        self._range = ("0", "1") if names.take_from == "left" else ("-2", "-1")
        # When the next item of a queue was last found to be big, in ms.
        self._big_at_ms: dict[str, int] = {}

    def keys(self, name: str) -> QueueKeys:
        """Return the keys of the list, of its processing list and of the leases."""
        return name_bytes(name), self._names.processing_key(name), self._names.leases_key(name)

    def calls(self, names: Sequence[str], keys: Sequence[QueueKeys], now_ms: int) -> Sequence[Call]:
        """Return one call for all."""
        return (self._call(names, list(chain.from_iterable(keys)), now_ms),)

    def _call(self, names: Sequence[str], keys: Sequence[bytes], now_ms: int) -> Call:
        looks = "1" * len(names)
        if self._big_at_ms:
            looks = "".join("1" if self._may_look(name, now_ms) else "0" for name in names)
        return keys, (now_ms, self._shown_bytes, *self._range, looks, int(len(keys) == len(names)))

    def settle(self, name: str, row: Row, before: Row, now_ms: int) -> float:
        """Take off a row's end when a lease expires; where the next item was not looked at, it is the one from before.

        A row that cannot be relied on is read each time.
        """
        if not isinstance(row, list) or len(row) not in (5, 6):
            raise misshapen("in the row of a queue")
        due = due_ms(row.pop() if len(row) == 6 else b"")
        head = row[3]
        if not _HEAD(head):
            raise misshapen("in the row of a queue")
        if isinstance(head, list):
            if head[0] >= BIG_BYTES:
                self._big_at_ms[name] = now_ms
            elif self._big_at_ms:
                self._big_at_ms.pop(name, None)
        elif head is not None:
            row[3] = before[3] if before else None
            due = min(due, self._big_at_ms[name] + BIG_PACE_MS) if not self._may_look(name, now_ms) else 0
        if isinstance(row[0], bytes) or isinstance(row[1], bytes) or isinstance(row[2], bytes):
            return 0
        return due

    def is_row(self, row: Row) -> bool:
        """Tell whether a settled row is one as ``ListRow`` says."""
        return _ROW(row)

    async def read_plainly(
        self, runner: ScriptRunner, names: Sequence[str], keys: Sequence[QueueKeys], now_ms: int
    ) -> list[Row]:
        """Read the rows of these queues by plain commands."""
        commands: list[Sequence[bytes | str | int]] = []
        for queue, processing, leases in keys:
            commands.append(("LLEN", queue))
            if processing != ELSEWHERE:
                commands += (
                    ("LLEN", processing),
                    ("ZRANGE", leases, 0, 0, "WITHSCORES"),
                    ("ZCOUNT", leases, "-inf", now_ms),
                )
        replies = iter([as_data(reply) for reply in await runner.commands(*commands)])
        rows: list[Row] = []
        for _, processing, leases in keys:
            if processing == ELSEWHERE:
                rows.append([next(replies), None, None, None, None])
                continue
            ready, hidden, first, expired = islice(replies, 4)
            # Other clients work between these commands: what they say need not agree.
            lease = None
            if isinstance(first, list) and isinstance(expired, int) and first:
                if not SECONDS_BELOW <= float(first[1]) < MICROSECONDS_FROM:
                    expired = await _expired_in_other_units(runner, leases, now_ms)
                lease = [expired, first[1]]
            rows.append([ready, hidden, first if isinstance(first, bytes) else int(lease is not None), None, lease])
        filled = [number for number, row in enumerate(rows) if isinstance(row[0], int) and row[0] > 0]
        for number in filled:
            rows[number][3] = 0
        await self._look(runner, keys, rows, [number for number in filled if self._may_look(names[number], now_ms)])
        return rows

    async def _look(
        self, runner: ScriptRunner, keys: Sequence[QueueKeys], rows: list[Row], wanted: Sequence[int]
    ) -> None:
        """Look at the next items of these, a few queues at a time, until enough has been read."""
        budget = LOOK_BYTES_MAX
        while wanted and budget > 0:
            some, wanted = wanted[:_PLAIN_LOOKS], wanted[_PLAIN_LOOKS:]
            replies = await runner.commands(*(("LRANGE", keys[number][0], *self._range) for number in some))
            for number, reply in zip(some, replies, strict=True):
                items = as_data(reply)
                if not isinstance(items, list) or not items:
                    rows[number][:1], rows[number][3] = [0 if isinstance(items, list) else items], None
                    continue
                budget -= sum(map(len, items))
                rows[number][3] = self._head_of(items)

    def _head_of(self, items: list[bytes]) -> list[Any]:
        item = items[0 if self._names.take_from == "left" else -1]
        head = [len(item), mark_of(item), items.count(item)]
        return [*head, item[: self._shown_bytes]] if self._shown_bytes else head

    def _may_look(self, name: str, now_ms: int) -> bool:
        big_at_ms = self._big_at_ms.get(name)
        return big_at_ms is None or not 0 <= now_ms - big_at_ms < BIG_PACE_MS


class ClusterListLayout(ListLayout):
    """The same in a cluster, where a call takes keys of one slot only: each queue has a call of its own.

    Where a queue's keys are in several slots, its processing list and its leases may be on other nodes, and are not
    read.
    """

    def keys(self, name: str) -> QueueKeys:
        """Return the three keys, or ELSEWHERE for those that are in another slot than the list."""
        queue, *others = super().keys(name)
        if all(key_slot(key) == key_slot(queue) for key in others):
            return (queue, *others)
        return (queue, ELSEWHERE, ELSEWHERE)

    def calls(self, names: Sequence[str], keys: Sequence[QueueKeys], now_ms: int) -> Sequence[Call]:
        """Return a call for each."""
        return [
            self._call((name,), [key for key in of_queue if key != ELSEWHERE], now_ms)
            for name, of_queue in zip(names, keys, strict=True)
        ]


class ListRows(PolledRows):
    """Reads the rows of the list queues that ``known`` tells, by their keys; a poll is ``index``, then ``rows``.

    Polls may not overlap. ``shown_bytes`` is how much of each next item its row holds.
    """

    def __init__(
        self,
        connection: TrackedConnection,
        runner: ScriptRunner,
        names: ListNames,
        known: Callable[[], frozenset[bytes]],
        *,
        shown_bytes: int = 0,
        in_cluster: bool = False,
    ) -> None:
        layout = ClusterListLayout if in_cluster else ListLayout
        super().__init__(connection, runner, layout(names, shown_bytes=shown_bytes))
        self._known_names = known

    async def index(self) -> Index:
        """Read the clock; raises redis-py's errors when the server cannot be read."""
        (clock,) = await self._connection.begin(("TIME",))
        at_ms = clock_ms(clock)
        self._learn_what_changed()
        self._known.keep(self._known_names())
        return Index(at_ms, self._known.names)


async def _expired_in_other_units(runner: ScriptRunner, leases: bytes, now_ms: int) -> int:
    counts = await runner.commands(
        ("ZCOUNT", leases, "-inf", now_ms // 1000),
        ("ZCOUNT", leases, SECONDS_BELOW, now_ms),
        ("ZCOUNT", leases, MICROSECONDS_FROM, f"{now_ms}000"),
    )
    return sum(count for count in counts if isinstance(count, int))
