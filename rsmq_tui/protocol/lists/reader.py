"""The read side of the list queues of one server or cluster, and their poll rows.

A row has the number of items ready and in processing, the leases, and the next item. Redis copies the next item to read
it, however long it is: a big one is read again only after ``BIG_PACE_MS``, and the bytes that one call may copy are
limited. The first read of a big item cannot be avoided.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from functools import partial
from itertools import chain, count, islice
from typing import Any

from redis.crc import key_slot
from redis.exceptions import MovedError, ResponseError

from rsmq_tui.protocol.address import Address, Node
from rsmq_tui.protocol.connections.connect import TIMEOUT_S, Traffic
from rsmq_tui.protocol.connections.pool import ConnectionManager, ServerConnection
from rsmq_tui.protocol.connections.script_runner import Call, Exchange, ScriptCall, ScriptRunner
from rsmq_tui.protocol.connections.topology import has_moved
from rsmq_tui.protocol.errors import SERVER_ERRORS, failure_of
from rsmq_tui.protocol.keys import name_bytes, name_of
from rsmq_tui.protocol.lists.inspection import COMMANDS, BlockedConsumer, ListLeases, read_blocked
from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.protocol.lists.pages import ListPages, list_keys
from rsmq_tui.protocol.lists.scan import ListScan
from rsmq_tui.protocol.lists.scripts import BIG_BYTES, LIST_ROWS, LOOK_BYTES_MAX, mark_of
from rsmq_tui.protocol.polling import IncrementalPoll, Index, QueueKeys, TrackedConnection, as_data, sum_of
from rsmq_tui.protocol.replies import ascii_text, blob, clock_ms, due_ms, misshapen
from rsmq_tui.protocol.replies import count as count_reply
from rsmq_tui.protocol.rsmq.scripts import MICROSECONDS_FROM, SECONDS_BELOW, Row, Script
from rsmq_tui.protocol.server.clients import QueueClients, clients_of_queue, list_rules
from rsmq_tui.protocol.server.status import ServerInfo, ServerStatus, read_server_info, read_statuses

# A row of a list is [ready, processing, leases, head, lease]: each of the first three is a number, or an error text;
# ``leases`` is 1 if there are any, else 0. ``head`` is None if nothing is ready or the next item is not known, else
# [size, mark, 2 if the one behind it is equal, else 1] and, if asked for, the start of it. For equal ones, that number
# rises when the server reports a change of the list that its length does not show: as many were pushed as were taken.
# ``lease`` is None, or [how many are expired, the first deadline, raw].

BIG_PACE_MS = 10_000
# In place of a key that another cluster node may hold; the row's numbers for it are then None.
ELSEWHERE = b""
_PLAIN_LOOKS = 25


# Written out and not composed of shapes, because they check every row.
def _is_number(reply: Any) -> bool:
    return reply is None or (type(reply) is int and reply >= 0) or type(reply) is bytes


def _is_lease(reply: Any) -> bool:
    return reply is None or (type(reply) is list and len(reply) == 2 and count_reply(reply[0]) and ascii_text(reply[1]))


def _is_head(reply: Any) -> bool:
    if reply is None or type(reply) is int:
        return True
    is_list = type(reply) is list and len(reply) in (3, 4)
    return (
        is_list
        and count_reply(reply[0])
        and blob(reply[1])
        and count_reply(reply[2])
        and (len(reply) == 3 or blob(reply[3]))
    )


class ListRowCodec:
    """Reads the list, the processing list and the leases of each queue; a queue's name is its whole key."""

    script: Script = LIST_ROWS

    def __init__(self, names: ListNames, *, shown_bytes: int = 0) -> None:
        self._names = names
        self._shown_bytes = shown_bytes
        self._range = ("0", "1") if names.take_from == "left" else ("-2", "-1")
        # When the next item of a queue was last found to be big, in ms; in the order of time.
        self._big_at_ms: dict[str, int] = {}

    def keys(self, name: str) -> QueueKeys:
        """Return the keys of the list, of its processing list and of the leases."""
        return name_bytes(name), self._names.processing_key(name), self._names.leases_key(name)

    def calls(self, names: Sequence[str], keys: Sequence[QueueKeys], now_ms: int) -> Sequence[Call]:
        """Return one call for all queues."""
        return (self._call(names, list(chain.from_iterable(keys)), now_ms),)

    def _call(self, names: Sequence[str], keys: Sequence[bytes], now_ms: int) -> Call:
        looks = "1" * len(names)
        if self._big_at_ms:
            looks = "".join("1" if self._may_look(name, now_ms) else "0" for name in names)
        return keys, (now_ms, self._shown_bytes, *self._range, looks, int(len(keys) == len(names)))

    def normalize(self, name: str, row: Row, before: Row, now_ms: int) -> float:
        """Remove from a row's end when a lease expires; if the next item was not read, keep the one from before.

        A row with an error is read in each poll.
        """
        if not isinstance(row, list) or len(row) not in (5, 6):
            raise misshapen("in the row of a queue")
        due = due_ms(row.pop() if len(row) == 6 else b"")
        head = row[3]
        if not _is_head(head):
            raise misshapen("in the row of a queue")
        if isinstance(head, list):
            if head[2] > 1 and before and before[3] is not None and before[3][:2] == head[:2]:
                head[2] = max(head[2], before[3][2])
            if self._big_at_ms:
                self._big_at_ms.pop(name, None)
            if head[0] >= BIG_BYTES:
                # Those that may be read again may be of queues that are gone.
                while self._big_at_ms and self._may_look(oldest := next(iter(self._big_at_ms)), now_ms):
                    del self._big_at_ms[oldest]
                self._big_at_ms[name] = now_ms
        elif head is not None:
            row[3] = before[3] if before else None
            due = min(due, self._big_at_ms[name] + BIG_PACE_MS) if not self._may_look(name, now_ms) else 0
        if isinstance(row[0], bytes) or isinstance(row[1], bytes) or isinstance(row[2], bytes):
            return 0
        return due

    def changed_alike(self, row: Row) -> Row:
        """Return a row with another number of equal next items, if they are equal."""
        ready, processing, leases, head, lease = row
        if head is None or head[2] == 1:
            return row
        size, mark, equal, *shown = head
        return [ready, processing, leases, [size, mark, equal + 1, *shown], lease]

    def is_row(self, row: Row) -> bool:
        """Return whether a normalized row has the form of a row of a list."""
        ready, processing, leases, _, lease = row
        return _is_number(ready) and _is_number(processing) and _is_number(leases) and _is_lease(lease)

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
            # Other clients may write between these commands, so the replies need not agree.
            lease = None
            if isinstance(first, list) and isinstance(expired, int) and first:
                if not SECONDS_BELOW <= float(first[1]) < MICROSECONDS_FROM:
                    expired = await sum_of(
                        runner,
                        ("ZCOUNT", leases, "-inf", now_ms // 1000),
                        ("ZCOUNT", leases, SECONDS_BELOW, now_ms),
                        ("ZCOUNT", leases, MICROSECONDS_FROM, f"{now_ms}000"),
                    )
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
        """Read the next items, of a few queues at a time, up to LOOK_BYTES_MAX."""
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


class ClusterListRowCodec(ListRowCodec):
    """``ListRowCodec`` for a cluster, where the keys of a call must be in one slot: each queue has its own call.

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
        """Return one call for each queue."""
        return [
            self._call((name,), [key for key in of_queue if key != ELSEWHERE], now_ms)
            for name, of_queue in zip(names, keys, strict=True)
        ]


class ListRows(IncrementalPoll):
    """Reads the rows of the list queues whose keys ``known`` returns; a poll is ``index``, then ``rows``.

    Polls must not overlap. ``shown_bytes`` is how much of each next item its row holds.
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
        codec = ClusterListRowCodec if in_cluster else ListRowCodec
        super().__init__(connection, runner, codec(names, shown_bytes=shown_bytes))
        self._known_names = known

    async def index(self) -> Index:
        """Read the clock; raises redis-py's errors when the server cannot be read."""
        (clock,) = await self._connection.begin(("TIME",))
        at_ms = clock_ms(clock)
        self._learn_what_changed()
        self._known.keep(self._known_names())
        return Index(at_ms, self._known.names)


class ClusterListRows:
    """``ListRows`` for queues on all nodes of a cluster.

    After a failed poll the slots are read again, because keys that moved make a poll fail.
    """

    def __init__(
        self,
        connections: ConnectionManager,
        names: ListNames,
        known: Callable[[], frozenset[bytes]],
        *,
        shown_bytes: int = 0,
    ) -> None:
        self._connections = connections
        self._names = names
        self._known = known
        self._shown_bytes = shown_bytes
        self._nodes: dict[Node, ListRows] = {}
        self._split: frozenset[bytes] | None = None
        self._held: dict[Node, frozenset[bytes]] = {}
        self._at_ms: dict[Node, int] = {}

    async def index(self) -> Index:
        """Read the clocks; raises redis-py's errors when a node cannot be read."""
        try:
            await self._find_holders()
            found = await asyncio.gather(*(self._nodes[node].index() for node in self._held))
        except SERVER_ERRORS:
            self._forget_holders()
            raise
        self._at_ms = {node: index.at_ms for node, index in zip(self._held, found, strict=True)}
        names = tuple(sorted(name for index in found for name in index.names))
        return Index(max((index.at_ms for index in found), default=0), names)

    def forget(self) -> None:
        """Do nothing: each poll yields all rows."""

    async def rows(self, now_ms: int) -> dict[str, Row]:
        """Return the rows of all queues, sorted by name; each node's clock decides what has expired there."""
        try:
            parts = await asyncio.gather(*(self._nodes[node].rows(self._at_ms[node]) for node in self._held))
        except SERVER_ERRORS:
            self._forget_holders()
            raise
        return dict(sorted(item for part in parts for item in part.items()))

    async def read(self, now_ms: int) -> AsyncGenerator[tuple[Sequence[int], list[Row]]]:
        """Yield the positions in the index and the rows of all queues."""
        rows = await self.rows(now_ms)
        yield range(len(rows)), list(rows.values())

    async def _find_holders(self) -> None:
        known = self._known()
        if known is self._split:
            return
        slots = await self._connections.slots()
        held: dict[Node, set[bytes]] = {node: set() for _, node in slots.ranges}
        first = next(iter(held))
        for name in known:
            held[slots.holder(name) or first].add(name)
        for node in held.keys() - self._nodes.keys():
            connection = self._connections.at(node)
            of_node = partial(self._held_by, node)
            self._nodes[node] = ListRows(
                connection.tracked,
                connection.runner,
                self._names,
                of_node,
                shown_bytes=self._shown_bytes,
                in_cluster=True,
            )
        self._held = {node: frozenset(names) for node, names in held.items()}
        self._split = known

    def _held_by(self, node: Node) -> frozenset[bytes]:
        return self._held.get(node, frozenset())

    def _forget_holders(self) -> None:
        self._connections.forget_slots()
        self._split = None


class ClusterRunner(ScriptRunner):
    """Runs scripts and commands on the node of the first key; if keys have moved, it tries once more."""

    def __init__(self, connections: ConnectionManager, traffic: Traffic) -> None:
        # Commands are sent by the runner of a node; these connections are for those without a key.
        super().__init__(connections.of("").pool, traffic)
        self._connections = connections

    async def run_all(self, calls: Sequence[ScriptCall], over: Exchange | None = None) -> list[Any]:
        """Run all scripts on the node of the first key; raises ``ScriptsRefusedError``."""
        key = calls[0][1][0]
        runner = await self._of(key)
        try:
            return await runner.run_all(calls, over)
        except MovedError:
            self._connections.forget_slots()
            return await (await self._of(key)).run_all(calls, over)
        finally:
            self.refused = self.refused or runner.refused

    async def commands(self, *commands: Sequence[bytes | str | int]) -> list[Any]:
        """Send commands to the node of the first key among them, or to any node."""
        key = next((command[1] for command in commands if len(command) > 1), b"")
        assert isinstance(key, bytes), "keys are bytes"
        replies = await (await self._of(key)).commands(*commands)
        if has_moved(replies):
            self._connections.forget_slots()
            replies = await (await self._of(key)).commands(*commands)
        return replies

    async def _of(self, key: bytes) -> ScriptRunner:
        return (await self._connections.holder(key)).runner


# The COUNT of one SCAN, which blocks the server for a millisecond or less.
SCAN_COUNT = 1_000
# A search on demand ends after this many steps on a server: ten million keys, some ten seconds.
STEPS_MAX = 10_000
LISTS_MAX = 100_000
# An empty list does not exist in Redis. A queue is forgotten after this many searches that do not find it.
KEPT_SEARCHES = 10

SearchCallback = Callable[[int, int], None]
"""Called with the approximate number of keys scanned, and the number of known lists."""

_GLOB = re.compile(r"[*?\[]")
_SPECIAL = re.compile(r"([*?\[\]\\])")


def is_key_pattern(text: str) -> bool:
    """Return whether a text is a pattern of keys, and not a name."""
    return bool(_GLOB.search(text))


class ListDiscovery:
    """Finds the list queues of ``patterns``, which are whole keys, or globs as in SCAN.

    ``names`` holds their keys; a processing list, leases or a marker count as the queue that they belong to. ``note``
    says why queues may be missing, None if none are.
    """

    def __init__(self, connections: ConnectionManager, names: ListNames, patterns: Sequence[str]) -> None:
        self.note: str | None = None
        self._connections = connections
        self._list_names = names
        self._named = frozenset(name_bytes(pattern) for pattern in patterns if not is_key_pattern(pattern))
        globs = dict.fromkeys(pattern for pattern in patterns if is_key_pattern(pattern))
        self._globs = tuple(name_bytes(glob) for pattern in globs for glob in _globs_of(pattern, names))
        # How many searches have not found each of those that were found.
        self._missed: dict[bytes, int] = {}
        self.names = self._named

    @property
    def searches(self) -> bool:
        """Whether there are globs to search for."""
        return bool(self._globs)

    async def search(
        self, *, pause_s: float = 0.0, steps_max: int | None = STEPS_MAX, on_progress: SearchCallback | None = None
    ) -> bool:
        """Scan the keys of the server, or of every node of a cluster; return whether the scan was complete.

        ``names`` grows with each step. It sleeps for ``pause_s`` between steps; ``steps_max`` limits the steps for each
        server and pattern, None for no limit. ``on_progress`` is called after each step. Raises redis-py's errors.
        """
        found: set[bytes] = set()
        passed = count(SCAN_COUNT, SCAN_COUNT)

        def stepped() -> None:
            if on_progress is not None:
                on_progress(next(passed), len(self.names))

        note: str | None = None
        if self._globs:
            for connection in await self._connections.everywhere():
                for glob in self._globs:
                    note = await self._walk(connection, glob, found, pause_s, steps_max, stepped) or note
        self.note = note
        if note is None:
            self._forget_others(found)
        return note is None

    async def _walk(
        self,
        connection: ServerConnection,
        glob: bytes,
        found: set[bytes],
        pause_s: float,
        steps_max: int | None,
        stepped: Callable[[], None],
    ) -> str | None:
        """Add the queues of one server; return why some may be missing, or None."""
        cursor: int | bytes = 0
        steps = 0
        while steps_max is None or steps < steps_max:
            (reply,) = await connection.runner.commands(
                ("SCAN", cursor, "MATCH", glob, "COUNT", SCAN_COUNT, "TYPE", "list")
            )
            if isinstance(reply, ResponseError) and failure_of(reply).kind in ("noperm", "error"):
                answer = " ".join(str(reply).split())
                return f"the server refused the search for lists ({answer}): only lists given by name are shown"
            if isinstance(reply, Exception):
                raise reply
            cursor, keys = reply
            steps += 1
            if not self._add(keys, found):
                return f"there are more than {LISTS_MAX:,} lists: narrow the pattern {name_of(glob)}"
            stepped()
            if int(cursor) == 0:
                return None
            await asyncio.sleep(pause_s)
        return (
            f"the search for lists stopped after about {steps * SCAN_COUNT:,} keys: name the lists, or narrow "
            "the pattern"
        )

    def _add(self, keys: Iterable[bytes], found: set[bytes]) -> bool:
        queues = {self._queue_of(key) for key in keys}
        found |= queues
        if queues <= self.names:
            return True
        room = LISTS_MAX - len(self.names)
        new = sorted(queues - self.names)[: max(0, room)]
        self._missed |= dict.fromkeys(new, 0)
        self.names |= frozenset(new)
        return queues <= self.names

    def _queue_of(self, key: bytes) -> bytes:
        owner = self._list_names.owner(name_of(key))
        return key if owner is None else name_bytes(owner)

    def _forget_others(self, found: set[bytes]) -> None:
        """Forget the queues that KEPT_SEARCHES searches have not found."""
        self._missed = {name: 0 if name in found else missed + 1 for name, missed in self._missed.items()}
        gone = {name for name, missed in self._missed.items() if missed >= KEPT_SEARCHES}
        if gone:
            for name in gone:
                del self._missed[name]
            self.names = (self.names - gone) | self._named


def _globs_of(pattern: str, names: ListNames) -> list[str]:
    """Return the pattern, and one for processing lists if it does not match them: they may be all that is left of a
    queue.
    """
    processing = _as_glob(names, pattern)
    before, _, _ = names.processing.partition("{queue}")
    covered = pattern.endswith("*") and "{queue}" in names.processing and not before
    return [pattern] if covered or processing == pattern else [pattern, processing]


def processing_glob(names: ListNames) -> str:
    """Return the glob that matches all processing lists."""
    return _as_glob(names, "*")


def _as_glob(names: ListNames, pattern: str) -> str:
    """Insert a pattern into the template of processing lists, whose own text is escaped."""
    for placeholder in ("{queue}", "{name}"):
        before, found, after = names.processing.partition(placeholder)
        if found:
            inner = pattern if placeholder == "{queue}" else "*"
            return _SPECIAL.sub(r"\\\1", before) + inner + _SPECIAL.sub(r"\\\1", after)
    return pattern


class ListReader:
    """Reads the list queues of ``patterns``: ``rows`` for all of them, ``pages`` and ``scan`` for one.

    ``discovery`` finds the queues; ``shown_bytes`` is how much of each queue's next item its row holds. ``traffic``
    counts bytes and commands. Close it with ``aclose``. Raises ValueError for an invalid URL.
    """

    def __init__(
        self,
        server: Address | str,
        names: ListNames,
        patterns: Sequence[str],
        *,
        shown_bytes: int = 0,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self.traffic = Traffic()
        address = Address.of(server)
        self.label = address.label
        self.names = names
        self._connections = ConnectionManager(address, timeout_s=timeout_s, traffic=self.traffic)
        self.discovery = ListDiscovery(self._connections, names, patterns)
        if self._connections.is_cluster:
            self._runner: ScriptRunner = ClusterRunner(self._connections, self.traffic)
            self.rows: ListRows | ClusterListRows = ClusterListRows(
                self._connections, names, lambda: self.discovery.names, shown_bytes=shown_bytes
            )
        else:
            connection = self._connections.of("")
            self._runner = connection.runner
            self.rows = ListRows(
                connection.tracked, self._runner, names, lambda: self.discovery.names, shown_bytes=shown_bytes
            )
        self.pages = ListPages(self._runner, names)
        self.scan = ListScan(self._runner, names)
        self.leases = ListLeases(self._runner, names)
        self._reports_waits = False if self._connections.is_cluster else None

    async def worked_on(self) -> tuple[frozenset[str], str | None]:
        """Find all processing lists of the server; return their queues, and why some may be missing.

        Queues that are not watched are included. Raises redis-py's errors.
        """
        found = ListDiscovery(self._connections, self.names, [processing_glob(self.names)])
        await found.search()
        return frozenset(map(name_of, found.names)), found.note

    @property
    def scripts_refused(self) -> str | None:
        """Why the server refuses scripts; None until it does."""
        return self._runner.refused

    async def reports_waits(self) -> bool:
        """Return whether the server reports for which lists each client waits; it is asked once, by INFO."""
        if self._reports_waits is None:
            (reply,) = await self._runner.commands(("INFO", "waiting"))
            self._reports_waits = isinstance(reply, bytes) and b"waiting_lists:" in reply
        return self._reports_waits

    async def server_info(self) -> ServerInfo | None:
        """Read INFO of the server, None for a cluster, which has many servers; raises redis-py's errors."""
        return None if self._connections.is_cluster else await read_server_info(self._runner)

    async def blocked(self) -> list[BlockedConsumer]:
        """Return the clients that wait for lists, from CLIENT LIST of the server, or of every node of a cluster.

        Redis and Valkey do not report for which lists each of them waits.
        """
        found: list[BlockedConsumer] = []
        for connection in await self._connections.everywhere():
            found += read_blocked(*await connection.runner.ask(*COMMANDS))
        return found

    async def clients(self, queue: str, *, seconds: float | None) -> QueueClients:
        """Find out who works on a queue, as ``RsmqReader.clients``; in a cluster, on the node that holds the list."""
        key, processing, _ = list_keys(self.names, queue)
        connection = await self._connections.holder(key)
        return await clients_of_queue(connection.pool, connection.runner, list_rules(key, processing), seconds=seconds)

    async def status(self) -> tuple[ServerStatus, ...]:
        """Read the status of the server, or of each node of a cluster; raises redis-py's errors."""
        return await read_statuses(self._connections)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._connections.aclose()
