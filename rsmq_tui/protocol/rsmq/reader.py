"""The read side of one namespace on one server, and its poll rows.

A poll reads the clock, and the index if it changed, in one round trip; then the queues that changed, or all of them if
the server does not report changes (``rsmq_tui.protocol.polling``).
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from redis.exceptions import ResponseError

from rsmq_tui.protocol.address import Address
from rsmq_tui.protocol.connections.connect import TIMEOUT_S, Traffic
from rsmq_tui.protocol.connections.pool import ConnectionManager
from rsmq_tui.protocol.connections.script_runner import Call, ScriptRunner, ScriptsRefusedError
from rsmq_tui.protocol.errors import failure_of
from rsmq_tui.protocol.keys import ATTRIBUTE_FIELDS, Keys, name_bytes, name_of
from rsmq_tui.protocol.polling import IncrementalPoll, Index, QueueKeys, TrackedConnection, as_data, sum_of
from rsmq_tui.protocol.replies import COUNT_MAX, blob, clock_ms, count, due_ms, leading_int, misshapen, optional_blobs
from rsmq_tui.protocol.rsmq import scripts
from rsmq_tui.protocol.rsmq.pages import RsmqPages
from rsmq_tui.protocol.rsmq.scripts import MICROSECONDS_FROM, RC_MAX, SECONDS_BELOW, Row, Script

if TYPE_CHECKING:
    from rsmq_tui.protocol.rsmq.inspection import QueueInspection
    from rsmq_tui.protocol.rsmq.scan import RsmqScan
    from rsmq_tui.protocol.rsmq.scan_strategies import BodyScan, QueueRanges
    from rsmq_tui.protocol.server.clients import QueueClients
    from rsmq_tui.protocol.server.status import ServerInfo, ServerStatus

# An index of up to this many names is read in every poll: it costs little, and a revoked permission shows at once.
_SHORT_INDEX = 250


class MessagePage(NamedTuple):
    """A page of a queue's messages, sorted by score: the ``size`` messages after a score and an id, if given.

    With ``around_ms``, up to that many around the first message that is hidden at that time.
    """

    queue: str
    behind: tuple[bytes, bytes] | None
    size: int
    around_ms: int | None = None


class Flight(NamedTuple):
    """A message in flight, as it is stored: id, score, receive count, and when it was first received."""

    id: bytes
    score: bytes
    rc: bytes
    fr: bytes


class PageLook(NamedTuple):
    """What was found on a page.

    ``poison`` are the ids that were received too often, ``missing`` those without a body (not looked for with
    ``around_ms``), ``last`` is the score and the id after which the next page begins, and ``is_last`` says that there
    is none. ``flights`` are some messages in flight, only with ``around_ms``.
    """

    looked: int
    highest_rc: int
    poison: tuple[bytes, ...]
    missing: tuple[bytes, ...]
    last: tuple[bytes, bytes]
    is_last: bool
    flights: tuple[Flight, ...] = ()


_are_attributes = optional_blobs(len(ATTRIBUTE_FIELDS))


class RsmqRowCodec:
    """Reads the zset and the attributes hash of each queue of a namespace."""

    script: Script = scripts.QUEUE_ROWS

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def keys(self, name: str) -> QueueKeys:
        """Return the zset and the attributes hash."""
        return self._keys.messages(name), self._keys.attributes(name)

    def calls(self, names: Sequence[str], keys: Sequence[QueueKeys], now_ms: int) -> Sequence[Call]:
        """Return one call for all queues."""
        return (([*chain.from_iterable(keys), self._keys.index], (now_ms,)),)

    async def read_plainly(
        self, runner: ScriptRunner, names: Sequence[str], keys: Sequence[QueueKeys], now_ms: int
    ) -> list[Row]:
        """Read the rows of these queues by plain commands."""
        commands: list[Sequence[bytes | str | int]] = []
        for zset, attributes in keys:
            commands += (
                ("HMGET", attributes, *ATTRIBUTE_FIELDS),
                ("ZCARD", zset),
                ("ZRANGE", zset, 0, 0, "WITHSCORES"),
                ("ZCOUNT", zset, f"({now_ms}", "+inf"),
            )
        replies = await runner.commands(*commands)
        rows = []
        for number, (zset, _) in enumerate(keys):
            fields, depth, head, hidden = (as_data(reply) for reply in replies[4 * number : 4 * number + 4])
            if error := next((reply for reply in (depth, head, hidden) if isinstance(reply, bytes)), None):
                rows.append([fields, error])
                continue
            # Other clients may write between these commands, so the replies need not agree.
            if not head or not depth:
                rows.append([fields, 0])
                continue
            if not SECONDS_BELOW <= float(head[1]) < MICROSECONDS_FROM:
                hidden = await sum_of(
                    runner,
                    ("ZCOUNT", zset, f"({now_ms // 1000}", f"({SECONDS_BELOW}"),
                    ("ZCOUNT", zset, f"({now_ms}", f"({MICROSECONDS_FROM}"),
                    ("ZCOUNT", zset, f"({now_ms}000", "+inf"),
                )
            rows.append([fields, depth, head[0], head[1], min(hidden, depth), 0])
        heads = [(number, row[2]) for number, row in enumerate(rows) if len(row) > 2 and isinstance(row[0], list)]
        bodiless = await _without_body(runner, [(*keys[number], id) for number, id in heads])
        for number, id in heads:
            if (keys[number][0], id) in bodiless:
                rows[number].append(1)
        missing = [number for number, (fields, depth, *_) in enumerate(rows) if depth == 0 and not any(fields)]
        if missing:
            questions = [("SISMEMBER", self._keys.index, name_bytes(names[number])) for number in missing]
            for number, is_listed in zip(missing, await runner.commands(*questions), strict=True):
                if is_listed == 0:
                    rows[number] = []
        return rows

    def normalize(self, name: str, row: Row, before: Row, now_ms: int) -> float:
        """Remove from a row when time alone will change it; a row with an error is read in each poll."""
        if row == []:
            return 0
        if not isinstance(row, list) or len(row) not in (2, 6, 7):
            raise misshapen("in the row of a queue")
        due = row.pop(5) if len(row) > 2 else b""
        if type(row[0]) is bytes or type(row[1]) is bytes:
            return 0
        return inf if due == b"" else due_ms(due)

    def changed_alike(self, row: Row) -> Row:
        """Return the row: its counters tell everything."""
        return row

    def is_row(self, row: Row) -> bool:
        """Return whether a normalized row has the form of ``scripts.Row``."""
        if not row:
            return True
        if len(row) == 2:
            return (blob(row[0]) or _are_attributes(row[0])) and (count(row[1]) or blob(row[1]))
        # Written out for speed: it checks every row.
        fields, depth, first, score, hidden = row[:5]
        return (
            (type(depth), type(first), type(score), type(hidden)) == (int, bytes, bytes, int)
            and 0 <= hidden <= depth <= COUNT_MAX
            and score.isascii()
            and (type(fields) is bytes or _are_attributes(fields))
            and (len(row) == 5 or row[5] == 1)
        )


class RsmqRows(IncrementalPoll):
    """Reads the rows of every queue of one namespace.

    A poll is ``index``, then ``rows``; polls must not overlap.
    """

    def __init__(self, connection: TrackedConnection, runner: ScriptRunner, keys: Keys) -> None:
        super().__init__(connection, runner, RsmqRowCodec(keys))
        self._keys = keys
        self._index_known = False

    async def index(self) -> Index:
        """Read the names, sorted, and the clock; raises redis-py's errors when the server cannot be read."""
        read_names = ("SMEMBERS", self._keys.index)
        asked_at_once = not self._index_known
        clock, *members = await self._connection.begin(("TIME",), *([read_names] if asked_at_once else []))
        at_ms = clock_ms(clock)
        changed = self._learn_what_changed()
        if changed is None or self._keys.index in changed or self._known.begins_anew:
            self._index_known = False
        if not members and not self._index_known:
            members = await self._connection.commands(read_names)
        for found in members:
            self._index_known = False
            if isinstance(found, ResponseError) and "WRONGTYPE" in str(found):
                self._known.keep(frozenset())
                return Index(at_ms, (), f"{name_of(self._keys.index)} is not a set of names: {found}")
            if isinstance(found, Exception):
                raise found
            self._known.keep(frozenset(found))
            self._index_known = self._connection.tracks and len(found) > _SHORT_INDEX
        return Index(at_ms, self._known.names)

    async def receive_counts(self, names: Sequence[str], now_ms: int, threshold: int, span: int) -> list[list[int]]:
        """For each queue, read up to ``2 * span`` messages around the first hidden one.

        Returns for each: how many were read, how many have ``rc >= threshold``, the highest ``rc``.
        """
        return (await self.looks(names, (), now_ms, threshold, span))[0]

    async def looks(
        self, names: Sequence[str], pages: Sequence[MessagePage], now_ms: int, threshold: int, span: int
    ) -> tuple[list[list[int]], list[PageLook], list[tuple[Flight, ...]]]:
        """Read in one round trip messages around the first hidden ones, as ``receive_counts``, and pages.

        For a page it returns the receive counts, and which messages have no body; then, for each of the names, some of
        its messages in flight.
        """
        quick = [MessagePage(name, None, 2 * span, now_ms) for name in names]
        asked = [part for part in (quick, pages) if part]
        try:
            replies = await self._runner.run_many(
                scripts.MESSAGE_PAGES, [self._call_of(part, threshold) for part in asked]
            )
            found = [_page_look(*row) for reply in replies for row in reply]
        except ScriptsRefusedError:
            found = [await self._page_plainly(page, threshold) for part in asked for page in part]
        counts = [[look.looked, len(look.poison), look.highest_rc] for look in found[: len(quick)]]
        return counts, found[len(quick) :], [look.flights for look in found[: len(quick)]]

    def _call_of(self, pages: Sequence[MessagePage], threshold: int) -> Call:
        keys = [key(page.queue) for page in pages for key in (self._keys.messages, self._keys.attributes)]
        arguments: list[bytes | str | int] = [threshold]
        for page in pages:
            arguments += (*(page.behind or (b"", b"")), page.size, "" if page.around_ms is None else page.around_ms)
        return keys, arguments

    async def _page_plainly(self, page: MessagePage, threshold: int) -> PageLook:
        zset, attributes = self._keys.messages(page.queue), self._keys.attributes(page.queue)
        nothing = PageLook(0, 0, (), (), page.behind or (b"", b""), is_last=True)
        start, stop = 0, page.size - 1
        flights: tuple[Flight, ...] = ()
        if page.around_ms is not None:
            ready, held = await self._runner.commands(("ZCOUNT", zset, "-inf", page.around_ms), ("ZCARD", zset))
            if not isinstance(ready, int) or not isinstance(held, int):
                return nothing
            flights = await self._flights_plainly(zset, attributes, ready, held)
            start, stop = max(0, ready - page.size // 2), ready + page.size // 2 - 1
        elif page.behind is not None:
            score, id = page.behind
            now_at, rank, before = await self._runner.commands(
                ("ZSCORE", zset, id), ("ZRANK", zset, id), ("ZCOUNT", zset, "-inf", b"(" + score)
            )
            is_there = isinstance(now_at, bytes) and float(now_at) == float(score) and isinstance(rank, int)
            start = rank + 1 if is_there else before if isinstance(before, int) else 0
            stop = start + page.size - 1
        found, depth = await self._runner.commands(("ZRANGE", zset, start, stop, "WITHSCORES"), ("ZCARD", zset))
        if not isinstance(found, list) or not found:
            return nothing
        ids = found[::2]
        (raw,) = await self._runner.commands(("HMGET", attributes, *(id + b":rc" for id in ids)))
        if isinstance(raw, Exception):
            return nothing
        counts = [min(leading_int(value) or 0, RC_MAX) for value in raw]
        looked_for = ids if page.around_ms is None else ()
        bodiless = await _without_body(self._runner, [(zset, attributes, id) for id in looked_for])
        poison = tuple(id for id, count in zip(ids, counts, strict=True) if count >= threshold)
        missing = tuple(id for id in ids if (zset, id) in bodiless)
        last, is_last = (found[-1], ids[-1]), start + len(ids) >= depth
        return PageLook(len(ids), max(0, *counts), poison, missing, last, is_last, flights)

    async def _flights_plainly(self, zset: bytes, attributes: bytes, ready: int, depth: int) -> tuple[Flight, ...]:
        hidden, most = depth - ready, scripts.FLIGHTS_MAX
        if hidden <= 0:
            return ()
        offsets = range(hidden) if hidden <= most else [number * (hidden - 1) // (most - 1) for number in range(most)]
        ranges = [("ZRANGE", zset, ready + offset, ready + offset, "WITHSCORES") for offset in offsets]
        # Messages may have left meanwhile.
        found = [reply for reply in await self._runner.commands(*ranges) if isinstance(reply, list) and len(reply) == 2]
        if not found:
            return ()
        names = [id + suffix for id, _ in found for suffix in (b":rc", b":fr")]
        again = [("ZSCORE", zset, id) for id, _ in found]
        fields, *scores = await self._runner.commands(("HMGET", attributes, *names), *again)
        if isinstance(fields, Exception):
            return ()
        # A receive changes the score, rc and fr: they belong together if the score is the same before and after.
        known = zip(found, fields[::2], fields[1::2], scores, strict=True)
        return tuple(
            Flight(id, score, rc, fr)
            for (id, score), rc, fr, now in known
            if rc is not None and fr is not None and now == score
        )


def _page_look(
    looked: int,
    highest: int,
    poison: list[bytes],
    missing: list[bytes],
    score: bytes,
    id: bytes,
    is_last: int,
    flat: list[bytes],
) -> PageLook:
    flights = tuple(map(Flight, flat[::4], flat[1::4], flat[2::4], flat[3::4]))
    return PageLook(looked, highest, tuple(poison), tuple(missing), (score, id), bool(is_last), flights)


async def _without_body(runner: ScriptRunner, wanted: Sequence[tuple[bytes, bytes, bytes]]) -> set[tuple[bytes, bytes]]:
    """Return those of some messages (zset, hash, id) that have no body, as zset and id.

    A message may be deleted between the commands, so it counts only if it is there after its body was not.
    """
    if not wanted:
        return set()
    commands: list[Sequence[bytes | str | int]] = []
    for zset, attributes, id in wanted:
        commands += (("HEXISTS", attributes, id), ("ZSCORE", zset, id))
    replies = await runner.commands(*commands)
    pairs = zip(wanted, replies[::2], replies[1::2], strict=True)
    return {(zset, id) for (zset, _, id), has_body, score in pairs if has_body == 0 and isinstance(score, bytes)}


_SCAN_COUNT = 1000
_SCAN_CALLS_MAX = 500
# So many lists, and the lists among the first 100,000 keys, are enough to name patterns.
_LISTS_MAX = 1_000
_LISTS_CALLS_MAX = 100
_PATTERNS_MAX = 3
# What a pattern and a shell leave as it is.
_PLAIN = re.compile(r"[\w.:@/{}+-]+", re.ASCII)


class Namespaces(NamedTuple):
    """The namespaces that a scan found; ``complete`` is False when it stopped before the end of a large keyspace.

    ``lists`` are patterns of the keys that are lists, those with the most keys first, for who has no RSMQ queues.
    """

    names: tuple[str, ...]
    complete: bool
    lists: tuple[str, ...] = ()


def list_patterns(names: Iterable[str]) -> tuple[str, ...]:
    """Return a few patterns for lists: what they have before their last colon, or the whole name of one without it.

    Names that a pattern or a shell would not leave as they are have none.
    """
    plain = (name for name in names if _PLAIN.fullmatch(name))
    counted = Counter(f"{name.rpartition(':')[0]}:*" if ":" in name[1:] else name for name in plain)
    return tuple(pattern for pattern, _ in counted.most_common(_PATTERNS_MAX))


class RsmqReader:
    """Reads the queues of ``ns`` on a server: ``rows`` for all of them, ``pages`` and ``scan`` for one.

    ``inspection`` checks whether their keys agree. ``traffic`` counts bytes and commands. Close it with ``aclose``.
    Raises ValueError for an invalid URL.
    """

    def __init__(self, server: Address | str, ns: str = "rsmq", *, timeout_s: float = TIMEOUT_S) -> None:
        self.traffic = Traffic()
        address = Address.of(server)
        self.label = address.label
        self._connections = ConnectionManager(address, timeout_s=timeout_s, traffic=self.traffic)
        self.watch(ns)

    def watch(self, ns: str) -> None:
        """Read another namespace of the same server from now on."""
        self.ns = ns
        connection = self._connections.of(ns)
        self._runner = connection.runner
        self.rows = RsmqRows(connection.tracked, self._runner, Keys(ns))
        self.pages = RsmqPages(self._runner, Keys(ns))
        for name in ("scan", "ranges", "bodies", "inspection"):
            # Imported readers of the previous namespace.
            vars(self).pop(name, None)

    @cached_property
    def scan(self) -> "RsmqScan":
        """Reads every message of a queue."""
        # Imported on first use, like the next ones, because polls do not need it.
        from rsmq_tui.protocol.rsmq.scan import RsmqScan  # noqa: PLC0415

        return RsmqScan(self._runner, Keys(self.ns))

    @cached_property
    def ranges(self) -> "QueueRanges":
        """Reads the messages of a queue whose scores are in a range."""
        from rsmq_tui.protocol.rsmq.scan_strategies import QueueRanges  # noqa: PLC0415

        return QueueRanges(self._runner, Keys(self.ns))

    @cached_property
    def bodies(self) -> "BodyScan":
        """Reads the bodies of a queue as its hash has them."""
        from rsmq_tui.protocol.rsmq.scan_strategies import BodyScan  # noqa: PLC0415

        return BodyScan(self._runner, Keys(self.ns))

    @cached_property
    def inspection(self) -> "QueueInspection":
        """Reads the data that shows whether the keys of queues are consistent."""
        from rsmq_tui.protocol.rsmq.inspection import QueueInspection  # noqa: PLC0415

        return QueueInspection(self._runner, Keys(self.ns))

    def within(self, ns: str) -> "RsmqReader":
        """Return a reader of another namespace that shares the connections of this one."""
        other = object.__new__(RsmqReader)
        other.traffic, other.label = self.traffic, self.label
        other._connections = self._connections
        other.watch(ns)
        return other

    async def server_info(self) -> "ServerInfo | None":
        """Read INFO of the server of the namespace; raises redis-py's errors."""
        from rsmq_tui.protocol.server.status import read_server_info  # noqa: PLC0415

        return await read_server_info(self._runner)

    async def clients(self, queue: str, *, seconds: float | None) -> "QueueClients":
        """Find out who works on a queue, by MONITOR for at most ``seconds``, None for CLIENT LIST alone.

        Raises redis-py's errors.
        """
        from rsmq_tui.protocol.server.clients import clients_of_queue, rsmq_rules  # noqa: PLC0415

        keys, connection = Keys(self.ns), self._connections.of(self.ns)
        rules = rsmq_rules(keys.messages(queue), keys.attributes(queue))
        return await clients_of_queue(connection.pool, connection.runner, rules, seconds=seconds)

    @property
    def scripts_refused(self) -> str | None:
        """Why the server refuses scripts; None until it does."""
        return self._runner.refused

    async def namespaces(self) -> Namespaces:
        """Search for sets named ``*:QUEUES`` by SCAN, over at most about 500,000 keys of each server, and for lists.

        In a cluster every node that holds keys is searched. Call it on demand only.
        """
        found: set[str] = set()
        lists: set[str] = set()
        complete = True
        for connection in await self._connections.everywhere():
            complete = await self._add_namespaces(connection.runner, found, lists) and complete
        return Namespaces(tuple(sorted(found)), complete, list_patterns(sorted(lists)))

    async def status(self) -> "tuple[ServerStatus, ...]":
        """Read the status of the server, or of each node of a cluster; raises redis-py's errors."""
        from rsmq_tui.protocol.server.status import read_statuses  # noqa: PLC0415

        return await read_statuses(self._connections)

    async def _add_namespaces(self, runner: ScriptRunner, found: set[str], lists: set[str]) -> bool:
        """Add the namespaces of one server, and some of its lists; return whether these are all namespaces."""
        cursor: int | str | bytes = 0
        for number in range(_SCAN_CALLS_MAX):
            asked: list[Sequence[bytes | str | int]] = [
                ("SCAN", cursor, "MATCH", "*:QUEUES", "COUNT", _SCAN_COUNT, "TYPE", "set")
            ]
            if number < _LISTS_CALLS_MAX and len(lists) < _LISTS_MAX:
                asked.append(("SCAN", cursor, "COUNT", _SCAN_COUNT, "TYPE", "list"))
            reply, *others = await runner.commands(*asked)
            for _, keys in (other for other in others if not isinstance(other, Exception)):
                lists.update(map(name_of, keys))
            if isinstance(reply, ResponseError) and failure_of(reply).kind in ("noperm", "error"):
                # SCAN is not allowed, or not with these options; other errors are temporary.
                return False
            if isinstance(reply, Exception):
                raise reply
            cursor, keys = reply
            found.update(name_of(key).removesuffix(":QUEUES") for key in keys)
            if int(cursor) == 0:
                return True
        return False

    async def aclose(self) -> None:
        """Close all connections."""
        await self._connections.aclose()
