"""Checks whether the keys of a namespace are consistent, without changing anything or blocking the server for long.

Clients change a message's zset entry and its fields in one step, and other clients work between the commands sent here.
So what is compared is read before and after: an id is used only once, and one that both reads show was there in
between.
"""

import re
from collections.abc import AsyncGenerator, Container, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import compress
from typing import Any, NamedTuple

from redis.exceptions import NoPermissionError, ResponseError

from rsmq_tui.protocol.connections.script_runner import ScriptRunner, ScriptsRefusedError
from rsmq_tui.protocol.errors import rsmq_error
from rsmq_tui.protocol.keys import ATTRIBUTE_FIELDS, QUEUE_FIELDS, Keys, name_bytes, name_of
from rsmq_tui.protocol.replies import (
    blobs,
    clock_ms,
    count,
    cursor,
    record,
)
from rsmq_tui.protocol.rsmq.operations import chunked
from rsmq_tui.protocol.rsmq.scan import WINDOW_IDS, Seen, bounded_values
from rsmq_tui.protocol.rsmq.scripts import Script

# An id and one of these suffixes name a field of a message that is not its body.
COUNTER_SUFFIXES = (b":rc", b":fr", b":meta")
# Without one of these every client answers queueNotFound.
NEEDED_ATTRIBUTES = (b"vt", b"delay", b"maxsize")


def is_queue(attributes: Container[bytes]) -> bool:
    """Return whether every client takes a hash with these attributes for a queue."""
    return all(name in attributes for name in NEEDED_ATTRIBUTES)


def stem_of(name: bytes) -> bytes | None:
    """Return the id whose counter a field of that name would be, or None."""
    return next((name.removesuffix(suffix) for suffix in COUNTER_SUFFIXES if name.endswith(suffix)), None)


@dataclass(frozen=True, slots=True)
class QueueLook:
    """The keys of one queue at one moment: their types (``none``, ``zset``, ``hash``, …), and what they hold.

    ``attributes`` are the raw attribute fields that exist, ``fields`` counts all fields; ``head`` is the first
    message's id and score, None if there is none.
    """

    queue: str
    zset_type: str
    hash_type: str
    listed: bool
    depth: int
    fields: int
    head: tuple[bytes, bytes] | None
    attributes: dict[bytes, bytes]

    @property
    def exists(self) -> bool:
        """True if every client takes it for a queue."""
        return is_queue(self.attributes)


class MemberNow(NamedTuple):
    """A message at one moment; ``score`` is None if it is not in the queue. A counter that is a body is None."""

    id: bytes
    score: bytes | None
    has_body: bool
    rc: bytes | None
    fr: bytes | None


class Belonging(IntEnum):
    """The owner of a field."""

    MESSAGE = 0
    """A message in the queue, or the field is gone."""
    BODY = 1
    """A body without a message."""
    OF_BODY = 2
    """A counter of such a body."""
    COUNTER = 3
    """A counter of nothing."""


# KEYS hash; ARGV cursor, count. A step of HSCAN without the values, which only later servers can leave out themselves
# (NOVALUES: Redis 7.4, Valkey 8): the next cursor, the names of fields, the length of the longest value, and how many
# fields there are.
FIELD_NAMES = Script(
    """
local step = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
local names, longest = {}, 0
for n = 1, #step[2], 2 do
  names[#names + 1] = step[2][n]
  longest = math.max(longest, #step[2][n + 1])
end
return {step[1], names, longest, redis.call('HLEN', KEYS[1])}
""",
    reply=lambda keys, arguments: record(cursor, blobs, count, count),
)

INDEX_NAME = "QUEUES"
# Per call, on two cores over loopback: 1,000 keys or names 0.3 ms, 125 members 0.2 ms, 150 fields 0.2 ms; a busy
# machine takes ten times as long. Twice as many a call would make an audit a tenth faster.
_SCAN_COUNT = 1000
_LOOKS_PER_CALL = 50
_MEMBERS_PER_CALL = 125
_FIELDS_PER_SCAN = 250
_FIELDS_PER_CALL = 150
# If a server cannot leave out the values, which are bodies: sixteen of 64 KiB take a millisecond.
_VALUES_PER_CALL = 16
_VALUE_BYTES_PER_CALL = 500_000
_GLOB = re.compile(rb"([*?\[\]\\])")
_FIELDS = tuple(name.encode() for name in ATTRIBUTE_FIELDS)


class QueueInspection:
    """Looks at the queues of one namespace; raises redis-py's errors, and ``wrongType`` for an index that is no set."""

    def __init__(self, runner: ScriptRunner, keys: Keys) -> None:
        self._runner = runner
        self._keys = keys
        self._can_leave_values_out = True

    async def clock_ms(self) -> int:
        """Read the server's clock."""
        (clock,) = await self._ask(("TIME",))
        return clock_ms(clock)

    async def listed(self) -> AsyncGenerator[list[str], None]:
        """Yield the names in the index, some at a time."""
        cursor: bytes | None = b"0"
        while cursor is not None:
            cursor, found = await self._step("SSCAN", self._keys.index, cursor, "COUNT", _SCAN_COUNT)
            yield [name_of(name) for name in found]

    async def listed_count(self) -> int:
        """Return how many names the index holds, 0 if the user may not read it."""
        (count,) = await self._runner.commands(("SCARD", self._keys.index))
        return count if isinstance(count, int) else 0

    async def keyed(self) -> AsyncGenerator[tuple[int, list[str]], None]:
        """Yield how many keys were scanned, and the queue names that they may belong to, listed or not.

        Names with a colon belong to other namespaces, and are left out.
        """
        prefix = self._keys.index.removesuffix(INDEX_NAME.encode())
        pattern = _GLOB.sub(rb"\\\1", prefix) + b"*"
        cursor: bytes | None = b"0"
        while cursor is not None:
            cursor, keys = await self._step("SCAN", cursor, "MATCH", pattern, "COUNT", _SCAN_COUNT)
            names = set()
            for key in keys:
                rest = key.removeprefix(prefix)
                name = rest.removesuffix(b":Q")
                if key != self._keys.index and name and b":" not in name:
                    names.add(name_of(name))
            yield _SCAN_COUNT, sorted(names)

    async def looks(self, queues: Sequence[str]) -> list[QueueLook]:
        """Read the keys of queues, all keys of one queue in one round trip."""
        found: list[QueueLook] = []
        for part in chunked(queues, _LOOKS_PER_CALL):
            found += await self._looks(part)
        return found

    async def members(self, queue: str, ids: Sequence[bytes]) -> list[MemberNow]:
        """Read messages again, about a hundred per call; one is present if its score was there before and after."""
        zset, attributes = self._keys.messages(queue), self._keys.attributes(queue)
        found: list[MemberNow] = []
        for part in chunked(ids, _MEMBERS_PER_CALL):
            scores = [("ZSCORE", zset, id) for id in part]
            bodies = [("HEXISTS", attributes, id) for id in part]
            counters = [("HMGET", attributes, id + b":rc", id + b":fr") for id in part]
            # A field that is named like a counter may be the body of another message.
            others = [("ZSCORE", zset, id + b":rc") for id in part]
            replies = await self._ask(*scores, *bodies, *counters, *others, *scores)
            columns = chunked(replies, len(part))
            found += [
                MemberNow(id, None if first is None else last, bool(there), rc if other is None else None, fr)
                for id, first, there, (rc, fr), other, last in zip(part, *columns, strict=True)
            ]
        return found

    async def fields(
        self, queue: str, *, besides: Container[bytes] = QUEUE_FIELDS
    ) -> AsyncGenerator[list[bytes], None]:
        """Yield the names of the fields of a queue, each once, a few at a time; by default those of messages."""
        attributes = self._keys.attributes(queue)
        seen = Seen(WINDOW_IDS)
        cursor: bytes | None = b"0"
        step = _VALUES_PER_CALL
        while cursor is not None:
            cursor, count, names, step = await self._field_step(attributes, cursor, step)
            fresh = seen.fresh(names, count)
            names = names if fresh is None else list(compress(names, fresh))
            yield [name for name in names if name not in besides]

    async def belongings(self, queue: str, names: Sequence[bytes]) -> list[Belonging]:
        """Return the owner of each field."""
        found: list[Belonging] = []
        for part in chunked(names, _FIELDS_PER_CALL):
            found += await self._belongings(queue, part)
        return found

    async def values(self, queue: str, names: Sequence[bytes]) -> list[bytes | int | None]:
        """Read fields; of one longer than a megabyte only its length, None for one that is not there."""
        return await bounded_values(self._runner, self._keys.attributes(queue), names)

    async def _looks(self, queues: Sequence[str]) -> list[QueueLook]:
        commands: list[Sequence[bytes | str | int]] = []
        for queue in queues:
            zset, attributes = self._keys.messages(queue), self._keys.attributes(queue)
            listed = ("SISMEMBER", self._keys.index, name_bytes(queue))
            commands += [("TYPE", zset), ("TYPE", attributes), listed, ("ZCARD", zset), ("HLEN", attributes)]
            commands += [("ZRANGE", zset, 0, 0, "WITHSCORES"), ("HMGET", attributes, *_FIELDS)]
        # A key of another type holds nothing.
        rows = chunked(await self._ask(*commands, wrong_type=None), 7)
        return [_look_of(queue, *row) for queue, row in zip(queues, rows, strict=True)]

    async def _belongings(self, queue: str, names: Sequence[bytes]) -> list[Belonging]:
        zset, attributes = self._keys.messages(queue), self._keys.attributes(queue)
        stems = [name if (stem := stem_of(name)) is None else stem for name in names]
        # Nearly all belong to a message, which one command shows.
        (owners,) = await self._runner.commands(("ZMSCORE", zset, *stems))
        if isinstance(owners, ResponseError):
            # Redis before 6.2, or no permission, or another type.
            owners = await self._ask(*(("ZSCORE", zset, stem) for stem in stems))
        doubtful = [pair for pair, owner in zip(zip(names, stems, strict=True), owners, strict=True) if owner is None]
        there = [("HEXISTS", attributes, name) for name, _ in doubtful]
        members = [("ZSCORE", zset, name) for name, _ in doubtful]
        owned = [("ZSCORE", zset, stem) for _, stem in doubtful]
        bodies = [("HEXISTS", attributes, stem) for _, stem in doubtful]
        found = dict.fromkeys(names, Belonging.MESSAGE)
        if doubtful:
            replies = await self._ask(*there, *members, *owned, *bodies, *there)
            columns = chunked(replies, len(doubtful))
            found |= {name: _belonging(name, *column) for (name, _), *column in zip(doubtful, *columns, strict=True)}
        return [found[name] for name in names]

    async def _field_step(
        self, attributes: bytes, cursor: bytes, step: int
    ) -> tuple[bytes | None, int, list[bytes], int]:
        """Scan one step: return the next cursor, the number of fields, some names, and the COUNT of the next step."""
        if self._can_leave_values_out:
            scan = ("HSCAN", attributes, cursor, "COUNT", _FIELDS_PER_SCAN, "NOVALUES")
            count, reply = await self._ask(("HLEN", attributes), scan, unknown=None)
            if reply is not None:
                following, names = reply
                return _following(following), count, names, step
            self._can_leave_values_out = False
        try:
            following, names, longest, count = await self._runner.run(FIELD_NAMES, (attributes,), (cursor, step))
        except ScriptsRefusedError:
            plain = ("HSCAN", attributes, cursor, "COUNT", step)
            count, (following, found) = await self._ask(("HLEN", attributes), plain)
            names, longest = found[::2], max(map(len, found[1::2]), default=0)
        step = max(_VALUES_PER_CALL, min(_FIELDS_PER_SCAN, _VALUE_BYTES_PER_CALL // (longest or 1)))
        return _following(following), count, names, step

    async def _step(self, *command: bytes | str | int) -> tuple[bytes | None, list[bytes]]:
        ((following, found),) = await self._ask(command)
        return _following(following), found

    async def _ask(self, *commands: Sequence[bytes | str | int], **instead: None) -> list[Any]:
        """Send plain commands; raises the first error, except those named in ``instead``, which become None."""
        replies = await self._runner.commands(*commands)
        for index, reply in enumerate(replies):
            if not isinstance(reply, Exception):
                continue
            is_reply = isinstance(reply, ResponseError) and not isinstance(reply, NoPermissionError)
            if is_reply and "WRONGTYPE" in str(reply):
                if "wrong_type" not in instead:
                    raise rsmq_error("wrongType") from reply
            elif not (is_reply and "unknown" in instead and "syntax" in str(reply).lower()):
                raise reply
            replies[index] = None
        return replies


def _look_of(
    queue: str,
    zset_type: bytes,
    hash_type: bytes,
    listed: int | None,
    depth: int | None,
    count: int | None,
    head: list[bytes] | None,
    values: list[bytes | None] | None,
) -> QueueLook:
    attributes = {name: value for name, value in zip(_FIELDS, values or (), strict=False) if value is not None}
    first = (head[0], head[1]) if head else None
    types = zset_type.decode(), hash_type.decode()
    return QueueLook(queue, *types, bool(listed), depth or 0, count or 0, first, attributes)


def _belonging(name: bytes, there: int, member: Any, owner: Any, body: int, still: int) -> Belonging:
    is_counter = stem_of(name) is not None
    if not (there and still) or member is not None or (is_counter and owner is not None):
        return Belonging.MESSAGE
    if not is_counter:
        return Belonging.BODY
    return Belonging.OF_BODY if body else Belonging.COUNTER


def _following(cursor: bytes) -> bytes | None:
    return None if int(cursor) == 0 else cursor
