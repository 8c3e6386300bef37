"""Peek: reads one page of a queue's messages, or one whole message, without changing anything.

A page is found by rank, which costs the same at any depth. Bodies are read for one page only, cut by the server, and
not at all if they are very long.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from redis.exceptions import ResponseError

from rsmq_tui.protocol.connections.script_runner import Arrived, ScriptRunner, ScriptsRefusedError, raise_first
from rsmq_tui.protocol.keys import Keys, name_bytes, name_of
from rsmq_tui.protocol.replies import clock_ms, leading_int
from rsmq_tui.protocol.rsmq import scripts

PAGE_MESSAGES = 100
PREVIEW_BYTES = 240
# HGET copies a whole body inside the server: one page may make it copy this much, one body at most a quarter of it.
PAGE_BODY_BYTES = 4_000_000
BODY_BYTES_MAX = 64_000_000
# The longest body that is copied inside the server for the start of one message that is looked at.
START_OF_BYTES = 16_000_000

Part = Literal["all", "ready", "hidden"]
Where = Literal["first", "last", "after", "before", "at"]


class Anchor(NamedTuple):
    """A place in a queue's order: a raw score and an id, which may no longer exist."""

    score: str
    id: str


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Which page to read, relative to ``anchor``: the place of a message, which may be gone.

    It is moved by ``offset`` messages; beyond the end of the part it is the last page. Longer bodies than
    ``longest_bytes`` have no preview; for lists they always have one.
    """

    queue: str
    part: Part = "all"
    where: Where = "first"
    anchor: Anchor | None = None
    count: int = PAGE_MESSAGES
    offset: int = 0
    longest_bytes: int = PAGE_BODY_BYTES // 4


class PeekedMessage(NamedTuple):
    """A message in the queue; ``score`` is raw, ``preview`` None if there is no body.

    If the body is too long to be read for a page, ``preview`` is empty and ``size`` is not 0.
    """

    id: str
    score: str
    rc: int
    fr_ms: int | None
    size: int
    preview: bytes | None


class RawPage(NamedTuple):
    """One page at one moment: ``start`` is the rank of its first message, ``depth`` and ``ready`` are the queue's."""

    at_ms: int
    depth: int
    ready: int
    start: int
    messages: tuple[PeekedMessage, ...]


class WholeMessage(NamedTuple):
    """One message; ``score`` is None if it has left the queue, ``body`` None if it is missing or too long."""

    at_ms: int
    id: str
    score: str | None
    rc: int
    fr_ms: int | None
    size: int
    body: bytes | None


class PresentMessage(NamedTuple):
    """The score of a message now, raw, and its receive count."""

    score: str
    rc: int
    fr_ms: int | None


class RsmqPages:
    """Reads pages and messages of one namespace; raises ``wrongType`` if a key of the queue has another type."""

    def __init__(self, runner: ScriptRunner, keys: Keys) -> None:
        self._runner = runner
        self._keys = keys

    async def page(self, request: PageRequest) -> RawPage:
        """Read a page; without scripts, bodies longer than a quarter of PAGE_BODY_BYTES have no preview either."""
        place = request.anchor or Anchor("0", "")
        arguments = (
            request.part,
            request.where,
            place.score,
            name_bytes(place.id),
            request.count,
            PREVIEW_BYTES,
            request.longest_bytes,
            max(request.longest_bytes, PAGE_BODY_BYTES),
            request.offset,
        )
        try:
            now, depth, ready, start, rows = await self._runner.run(scripts.PAGE, self._of(request.queue), arguments)
        except ScriptsRefusedError:
            return await self._page_plainly(request, place)
        return RawPage(int(now), depth, ready, start, tuple(_peeked(*row) for row in rows))

    async def message(self, queue: str, id: str, *, with_body: bool = True) -> WholeMessage:
        """Read one message, and its body unless that is longer than BODY_BYTES_MAX or not wanted."""
        (zset, attributes), identity = self._of(queue), name_bytes(id)
        (size,) = await self._runner.ask(("HSTRLEN", attributes, identity))
        # The body is read before the score: if there is a score, the message was there when its body was read.
        body = [("HGET", attributes, identity)] if with_body and size <= BODY_BYTES_MAX else []
        at_ms, ((score,), (rc,), (fr,)), whole = await scores_and_counts(
            self._runner, zset, attributes, [identity], *body
        )
        found = None if score is None else score.decode()
        return WholeMessage(at_ms, id, found, leading_int(rc) or 0, leading_int(fr), size, whole[0] if whole else None)

    async def long_body(self, queue: str, id: str, arrived: Arrived) -> bytes | None:
        """Read a body of any length; None if it is missing. ``arrived`` is as in ``ScriptRunner.ask_long``."""
        body: bytes | None = await self._runner.ask_long(arrived, ("HGET", self._of(queue)[1], name_bytes(id)))
        return body

    async def present(self, queue: str, ids: Sequence[str]) -> tuple[int, tuple[PresentMessage | None, ...]]:
        """Return the server's time and the state of messages, in one round trip; None for one that has left."""
        zset, attributes = self._of(queue)
        names = list(map(name_bytes, ids))
        if not names:
            return 0, ()
        at_ms, found, _ = await scores_and_counts(self._runner, zset, attributes, names)
        return at_ms, tuple(
            None if score is None else PresentMessage(score.decode(), leading_int(rc) or 0, leading_int(fr))
            for score, rc, fr in zip(*found, strict=True)
        )

    async def due_counts(self, queue: str, bounds_ms: tuple[int, ...]) -> tuple[int, ...]:
        """Count the messages that are visible by each bound, then all of them."""
        zset = self._keys.messages(queue)
        return tuple(await self._runner.ask(*(("ZCOUNT", zset, "-inf", bound) for bound in bounds_ms), ("ZCARD", zset)))

    def _of(self, queue: str) -> tuple[bytes, bytes]:
        return self._keys.messages(queue), self._keys.attributes(queue)

    async def _page_plainly(self, request: PageRequest, anchor: Anchor) -> RawPage:
        (zset, attributes), part, count = self._of(request.queue), request.part, request.count
        clock, depth = await self._runner.ask(("TIME",), ("ZCARD", zset))
        now = clock_ms(clock)
        ready, rank, score, below = await self._runner.ask(
            ("ZCOUNT", zset, "-inf", now),
            ("ZRANK", zset, name_bytes(anchor.id)),
            ("ZSCORE", zset, name_bytes(anchor.id)),
            ("ZCOUNT", zset, "-inf", f"({anchor.score}"),
        )
        # A message that was received since then has moved: the anchor is its old place.
        if score is None or float(score) != float(anchor.score):
            rank = None
        low, high = (ready if part == "hidden" else 0), (ready if part == "ready" else depth)
        # Without scripts, an anchor that has left is placed before all messages of its score.
        at = below if rank is None else rank
        start = {
            "first": low,
            "last": high - count,
            "after": at if rank is None else at + 1,
            "before": at - count,
            "at": at,
        }[request.where] + request.offset
        start = start_of_page(start, request.offset, count, low, high)
        stop = min(start + count, high) - 1
        found: list[bytes] = []
        if stop >= start:
            (found,) = await self._runner.ask(("ZRANGE", zset, start, stop, "WITHSCORES"))
        ids = found[::2]
        replies = await self._runner.ask(
            *(("HSTRLEN", attributes, identity) for identity in ids),
            *(("HEXISTS", attributes, identity) for identity in ids),
        )
        sizes, there = replies[: len(ids)], replies[len(ids) :]
        bodies = await self._bodies_plainly(attributes, ids, sizes)
        found_now: Counted = ((), (), ())
        if ids:
            now, found_now, _ = await scores_and_counts(self._runner, zset, attributes, ids)
        messages = []
        for identity, score, rc, fr, size, is_there in zip(ids, *found_now, sizes, there, strict=True):
            body = bodies.get(identity, b"") if is_there else None
            if score is not None:
                preview = None if body is None else body[:PREVIEW_BYTES]
                messages.append(_peeked(identity, score, rc, fr, size, preview))
        return RawPage(now, depth, ready, start, tuple(messages))

    async def _bodies_plainly(self, attributes: bytes, ids: list[bytes], sizes: list[int]) -> dict[bytes, bytes | None]:
        """Read the bodies that are short enough for a page."""
        budget = PAGE_BODY_BYTES
        short: list[bytes] = []
        for identity, size in zip(ids, sizes, strict=True):
            if 0 < size <= min(budget, PAGE_BODY_BYTES // 4):
                budget -= size
                short.append(identity)
        bodies = await self._runner.ask(*(("HGET", attributes, identity) for identity in short))
        return dict(zip(short, bodies, strict=True))


def start_of_page(start: int, offset: int, count: int, low: int, high: int) -> int:
    """Return the rank of a page's first message in a part of ranks ``low`` to ``high``, not included.

    A page that was moved by an offset beyond the part is the last one.
    """
    if offset and start >= high:
        start = high - count
    return max(low, min(start, high - 1))


Counted = Sequence[Sequence[bytes | None]]
"""The columns of the raw score, rc and fr of messages; the score is None if a message has left the queue."""

# A message that is received each time it is read, which none should be, counts as it was read last.
_READS_MAX = 5


async def scores_and_counts(
    runner: ScriptRunner, zset: bytes, attributes: bytes, ids: Sequence[bytes], *also: Sequence[bytes | str | int]
) -> tuple[int, Counted, list[Any]]:
    """Read the score, rc and fr of messages, each as they were at one moment, and the server's time after that.

    A receive changes all three. So the scores are read before and after the counts, and a message whose score has
    changed is read again. ``also`` are commands to send before; their replies are returned last.
    """
    found: dict[bytes, tuple[bytes | None, ...]] = {}
    changing, can_list = list(dict.fromkeys(ids)), True
    for _ in range(_READS_MAX):
        counters = [id + suffix for id in changing for suffix in (b":rc", b":fr")]
        each = [("ZMSCORE", zset, *changing)] if can_list else [("ZSCORE", zset, id) for id in changing]
        replies = await runner.commands(*also, *each, ("HMGET", attributes, *counters), *each, ("TIME",))
        scores = replies[len(also) : len(also) + len(each)]
        if can_list and isinstance(scores[0], ResponseError) and "WRONGTYPE" not in str(scores[0]):
            # Redis before 6.2, or no permission.
            can_list = False
            continue
        raise_first(replies)
        counts, *again = replies[len(also) + len(each) : -1]
        before, after = (scores[0], again[0]) if can_list else (scores, again)
        columns = after, counts[::2], counts[1::2]
        if not found and before == after and len(changing) == len(ids):
            # None changed, as usual.
            return clock_ms(replies[-1]), columns, replies[: len(also)]
        found.update(zip(changing, zip(*columns, strict=True), strict=True))
        changing = [id for id, score, now in zip(changing, before, after, strict=True) if score != now]
        if not changing:
            break
    return clock_ms(replies[-1]), list(zip(*map(found.__getitem__, ids), strict=True)), replies[: len(also)]


def _peeked(
    identity: bytes, score: bytes, rc: bytes | None, fr: bytes | None, size: int, preview: bytes | None
) -> PeekedMessage:
    return PeekedMessage(name_of(identity), score.decode(), leading_int(rc) or 0, leading_int(fr), size, preview)
