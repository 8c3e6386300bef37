"""The commands of hashes, sets and sorted sets that queues, their clients and the dashboard use.

Documentation: https://redis.io/docs/latest/commands/?group=hash, ``?group=set`` and ``?group=sorted-set``.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain, islice
from math import isnan
from typing import Any

from rsmq_tui.listserver.command import command, count, integer, options, reads, real, syntax_error, wrong_number
from rsmq_tui.listserver.engine import Client
from rsmq_tui.listserver.key_commands import added, scan
from rsmq_tui.listserver.resp import CommandError, Reply, number
from rsmq_tui.listserver.store import SortedSet, V, span

_NO_HASH: dict[bytes, bytes] = {}
_NO_SET: set[bytes] = set()
_NO_SORTED_SET = SortedSet()


# Removing and scanning, which differ by type only in how a member is removed and shown.


def _removes(syntax: str, kind: type[V], remove: Callable[[Any, bytes], bool]) -> None:
    def call(client: Client, key: bytes, *members: bytes) -> Reply:
        stored = client.db.typed(key, kind)
        removed = sum(remove(stored, member) for member in members) if stored else 0
        if removed:
            client.db.changed(key)
        return removed

    command(syntax, "write fast")(call)


def _remove_member(stored: set[bytes], member: bytes) -> bool:
    is_there = member in stored
    stored.discard(member)
    return is_there


_removes("HDEL key field...", dict, lambda stored, field: stored.pop(field, None) is not None)
_removes("SREM key member...", set, _remove_member)
_removes("ZREM key member...", SortedSet, SortedSet.discard)


def _scans(name: str, kind: type[V], none: V, shown: Callable[[Any, bytes], Iterable[bytes]]) -> None:
    def call(client: Client, key: bytes, *words: bytes) -> Reply:
        stored: Any = client.db.typed(key, kind) or none
        cursor, members = scan(client, words, lambda: stored)
        return [cursor, list(chain.from_iterable(shown(stored, member) for member in members if member in stored))]

    command(f"{name} key cursor [options...]", "readonly")(call)


_scans("HSCAN", dict, _NO_HASH, lambda stored, field: (field, stored[field]))
_scans("SSCAN", set, _NO_SET, lambda stored, member: (member,))
_scans("ZSCAN", SortedSet, _NO_SORTED_SET, lambda stored, member: (member, number(stored.scores[member])))


# Hashes.


def _set_fields(client: Client, name: str, key: bytes, words: tuple[bytes, ...]) -> int:
    if len(words) % 2:
        raise wrong_number(name)
    fields = client.db.made(key, dict)
    before = len(fields)
    fields.update(zip(words[::2], words[1::2], strict=True))
    client.db.changed(key)
    return len(fields) - before


@command("HSET key field,value...", "write denyoom fast")
def _hset(client: Client, key: bytes, *words: bytes) -> Reply:
    return _set_fields(client, "hset", key, words)


@command("HMSET key field,value...", "write denyoom fast")
def _hmset(client: Client, key: bytes, *words: bytes) -> Reply:
    _set_fields(client, "hmset", key, words)
    return "OK"


@command("HSETNX key field value", "write denyoom fast")
def _hsetnx(client: Client, key: bytes, field: bytes, value: bytes) -> Reply:
    if field in (client.db.typed(key, dict) or _NO_HASH):
        return 0
    return _set_fields(client, "hsetnx", key, (field, value))


@command("HINCRBY key field by:int", "write denyoom fast")
def _hincrby(client: Client, key: bytes, field: bytes, by: int) -> Reply:
    value = (client.db.typed(key, dict) or _NO_HASH).get(field, b"0")
    total = added(value, by, "hash value is not an integer")
    _set_fields(client, "hincrby", key, (field, b"%d" % total))
    return total


reads(
    dict,
    _NO_HASH,
    ("HGET key field", lambda stored, field: stored.get(field)),
    ("HMGET key field...", lambda stored, *fields: [stored.get(field) for field in fields]),
    ("HLEN key", len),
    ("HEXISTS key field", lambda stored, field: int(field in stored)),
    ("HSTRLEN key field", lambda stored, field: len(stored.get(field, b""))),
    ("HGETALL key", dict),
    ("HKEYS key", list),
    ("HVALS key", lambda stored: list(stored.values())),
)


# Sets.


@command("SADD key member...", "write denyoom fast")
def _sadd(client: Client, key: bytes, *members: bytes) -> Reply:
    stored = client.db.made(key, set)
    before = len(stored)
    stored.update(members)
    if len(stored) != before:
        client.db.changed(key)
    return len(stored) - before


reads(
    set,
    _NO_SET,
    ("SCARD key", len),
    ("SISMEMBER key member", lambda stored, member: int(member in stored)),
    ("SMISMEMBER key member...", lambda stored, *members: [int(member in stored) for member in members]),
    ("SMEMBERS key", set),
)


# Sorted sets.


@command("ZADD key [options...] score,member...", "write denyoom fast")
def _zadd(client: Client, key: bytes, *words: bytes) -> Reply:  # noqa: PLR0912 - its options are many
    at = 0
    while at < len(words) and words[at].upper() in (b"NX", b"XX", b"GT", b"LT", b"CH", b"INCR"):
        at += 1
    options, pairs = {word.upper() for word in words[:at]}, words[at:]
    if not pairs or len(pairs) % 2:
        raise syntax_error()
    if {b"NX", b"XX"} <= options:
        raise CommandError("ERR XX and NX options at the same time are not compatible")
    if len(options & {b"GT", b"LT", b"NX"}) > 1:
        raise CommandError("ERR GT, LT, and/or NX options at the same time are not compatible")
    if b"INCR" in options and len(pairs) > 2:
        raise CommandError("ERR INCR option supports a single increment-element pair")
    scores = [real(word) for word in pairs[::2]]
    stored = client.db.typed(key, SortedSet) or _NO_SORTED_SET
    new = changed = 0
    total: float | None = None
    for member, given in zip(pairs[1::2], scores, strict=True):
        old = stored.scores.get(member)
        score = (old or 0.0) + given if b"INCR" in options else given
        if isnan(score):
            raise CommandError("ERR resulting score is not a number (NaN)")
        if old is None:
            if b"XX" in options:
                continue
        elif b"NX" in options or (b"GT" in options and score <= old) or (b"LT" in options and score >= old):
            continue
        total = score
        if score != old:
            stored = client.db.made(key, SortedSet)
            stored.add(member, score)
            new += old is None
            changed += 1
    if changed:
        client.db.changed(key)
    if b"INCR" in options:
        return total
    return changed if b"CH" in options else new


@command("ZINCRBY key increment member", "write denyoom fast")
def _zincrby(client: Client, key: bytes, by: bytes, member: bytes) -> Reply:
    return _zadd(client, key, b"INCR", by, member)


Ordered = list[tuple[float, bytes]]


def _bound(word: bytes) -> tuple[float, bool]:
    """Parse a bound of a range of scores; return it, and whether it is exclusive."""
    return real(word.removeprefix(b"("), "min or max is not a float"), word.startswith(b"(")


def _by_score(stored: SortedSet, low: bytes, high: bytes) -> range:
    """Return the indexes of the members with scores between two bounds."""
    (least, leaves_least), (most, leaves_most) = _bound(low), _bound(high)
    first = (bisect_right if leaves_least else bisect_left)(stored.order, least, key=_score)
    last = (bisect_left if leaves_most else bisect_right)(stored.order, most, key=_score)
    return range(first, max(first, last))


def _score(entry: tuple[float, bytes]) -> float:
    return entry[0]


def _shown(client: Client, found: Ordered, *, with_scores: bool) -> Reply:
    if not with_scores:
        return [member for _, member in found]
    if client.version == 3:
        return [[member, score] for score, member in found]
    return list(chain.from_iterable((member, number(score)) for score, member in found))


def _limited(found: Ordered, limit: tuple[int, int] | None) -> Ordered:
    if limit is None:
        return found
    offset, most = limit
    return [] if offset < 0 else list(islice(found, offset, None if most < 0 else offset + most))


@command("ZRANGE key start stop [options...]", "readonly")
def _zrange(
    client: Client, key: bytes, start: bytes, stop: bytes, *words: bytes, given: tuple[bytes, ...] = ()
) -> Reply:
    chosen = options((*given, *words), "BYSCORE REV WITHSCORES", LIMIT=(integer, integer))
    limit = chosen.get("LIMIT")
    if limit is not None and "BYSCORE" not in chosen:
        raise CommandError("ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX")
    stored = client.db.typed(key, SortedSet) or _NO_SORTED_SET
    if "BYSCORE" in chosen:
        places = _by_score(stored, *((stop, start) if "REV" in chosen else (start, stop)))
        found = stored.order[places.start : places.stop]
        if "REV" in chosen:
            found.reverse()
    else:
        order = stored.order[::-1] if "REV" in chosen else stored.order
        places = span(order, integer(start), integer(stop))
        found = order[places.start : max(places.stop, 0)]
    return _shown(client, _limited(found, limit), with_scores="WITHSCORES" in chosen)


for _name, _options in (
    ("ZRANGEBYSCORE", (b"BYSCORE",)),
    ("ZREVRANGEBYSCORE", (b"BYSCORE", b"REV")),
    ("ZREVRANGE", (b"REV",)),
):
    command(f"{_name} key start stop [options...]", "readonly")(partial(_zrange, given=_options))


reads(
    SortedSet,
    _NO_SORTED_SET,
    ("ZCARD key", len),
    ("ZCOUNT key min max", lambda stored, low, high: len(_by_score(stored, low, high))),
    ("ZSCORE key member", lambda stored, member: stored.scores.get(member)),
    ("ZMSCORE key member...", lambda stored, *members: [stored.scores.get(member) for member in members]),
    ("ZRANK key member", lambda stored, member: stored.rank(member)),
    ("ZREVRANK key member", lambda stored, member: stored.rank(member, backwards=True)),
)


def _remove(client: Client, key: bytes, found: Ordered) -> int:
    stored = client.db.typed(key, SortedSet)
    for _, member in found:
        assert stored is not None
        stored.discard(member)
    if found:
        client.db.changed(key)
    return len(found)


@command("ZREMRANGEBYSCORE key min max", "write")
def _zremrangebyscore(client: Client, key: bytes, low: bytes, high: bytes) -> Reply:
    stored = client.db.typed(key, SortedSet) or _NO_SORTED_SET
    places = _by_score(stored, low, high)
    return _remove(client, key, stored.order[places.start : places.stop])


def _pop(client: Client, key: bytes, *most: bytes, first: bool) -> Reply:
    wanted = count(most[0]) if most else 1
    order = (client.db.typed(key, SortedSet) or _NO_SORTED_SET).order
    found = order[:wanted] if first else order[::-1][:wanted]
    _remove(client, key, found)
    if client.version == 3 and not most:
        return list(found[0][::-1]) if found else []
    return _shown(client, found, with_scores=True)


command("ZPOPMIN key [count]", "write fast")(partial(_pop, first=True))
command("ZPOPMAX key [count]", "write fast")(partial(_pop, first=False))
