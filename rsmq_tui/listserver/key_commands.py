"""The commands of keys of any type, and of strings.

Documentation: https://redis.io/docs/latest/commands/?group=generic and ``?group=string``.
"""

import random
import re
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from math import isfinite

from rsmq_tui.listserver.command import (
    NOT_AN_INTEGER,
    command,
    integer,
    no_such_key,
    options,
    reads,
    real,
    syntax_error,
    wrong_number,
)
from rsmq_tui.listserver.engine import Client
from rsmq_tui.listserver.resp import CommandError, Reply, number
from rsmq_tui.listserver.store import TYPES


@command("DEL key...", "write")
@command("UNLINK key...", "write fast")
def _del(client: Client, *keys: bytes) -> Reply:
    return sum(client.db.delete(key) for key in keys)


@command("EXISTS key...", "readonly fast")
@command("TOUCH key...", "readonly fast")
def _exists(client: Client, *keys: bytes) -> Reply:
    return sum(client.db.get(key) is not None for key in keys)


@command("TYPE key", "readonly fast")
def _type(client: Client, key: bytes) -> Reply:
    value = client.db.get(key)
    return "none" if value is None else TYPES[type(value)]


@command("RANDOMKEY", "readonly")
def _randomkey(client: Client) -> Reply:
    keys = client.db.names()
    return random.choice(keys) if keys else None


@command("RENAME key newkey", "write")
def _rename(client: Client, key: bytes, new_key: bytes, *, replaces: bool = True) -> Reply:
    value, expires_ms = client.db.get(key), client.db.expires_ms.get(key)
    if value is None:
        raise no_such_key()
    if not replaces and client.db.get(new_key) is not None:
        return 0
    if key != new_key:
        client.db.delete(key)
        client.db.put(new_key, value, expires_ms)
    return "OK" if replaces else 1


command("RENAMENX key newkey", "write fast")(partial(_rename, replaces=False))


# Names by pattern.


@lru_cache(maxsize=64)
def matcher(pattern: bytes) -> Callable[[bytes], object]:
    r"""Return the matcher of a Redis glob: ``*``, ``?``, ``[a-z]``, ``[^a]`` and ``\`` before a character."""
    parts: list[bytes] = []
    position, end = 0, len(pattern)
    while position < end:
        sign = pattern[position : position + 1]
        position += 1
        if sign == b"*":
            parts.append(b".*")
        elif sign == b"?":
            parts.append(b".")
        elif sign == b"[":
            close = pattern.find(b"]", position)
            close = end if close < 0 else close
            inside = pattern[position:close]
            negated = inside.startswith(b"^")
            parts.append(_of_class(inside.removeprefix(b"^"), negated=negated))
            position = close + 1
        else:
            if sign == b"\\" and position < end:
                sign = pattern[position : position + 1]
                position += 1
            parts.append(re.escape(sign))
    return re.compile(b"".join(parts), re.DOTALL).fullmatch


def _of_class(inside: bytes, *, negated: bool) -> bytes:
    pairs = re.findall(rb"\\?(.)(?:-(.))?", inside, re.DOTALL)
    ranges = b"".join(re.escape(min(low, high or low)) + b"-" + re.escape(max(low, high or low)) for low, high in pairs)
    if not ranges:
        return b"." if negated else b"(?!)"
    return b"[" + (b"^" if negated else b"") + ranges + b"]"


@command("KEYS pattern", "readonly")
def _keys(client: Client, pattern: bytes) -> Reply:
    return [key for key in client.db.names() if matcher(pattern)(key)]


def scan(client: Client, words: tuple[bytes, ...], names: Callable[[], Iterable[bytes]]) -> tuple[bytes, list[bytes]]:
    """Execute SCAN, HSCAN, SSCAN or ZSCAN; return the next cursor and the names that match."""
    cursor = integer(words[0], "invalid cursor", least=0, most=2**64 - 1)
    given = options(words[1:], MATCH=bytes, COUNT=_page_size, TYPE=lambda kind: kind.lower().decode("latin-1"))
    rest, page = client.server.cursors.page(cursor, names, given.get("COUNT", 10))
    matches, kind = matcher(given.get("MATCH", b"*")), given.get("TYPE")
    return b"%d" % rest, [name for name in page if matches(name) and (not kind or _type(client, name) == kind)]


def _page_size(word: bytes) -> int:
    size = integer(word)
    if size < 1:
        raise syntax_error()
    return size


@command("SCAN cursor [options...]", "readonly")
def _scan(client: Client, *words: bytes) -> Reply:
    cursor, keys = scan(client, words, client.db.names)
    return [cursor, [key for key in keys if client.db.get(key) is not None]]


# Expiry.


def _expire(client: Client, key: bytes, time: int, *condition: bytes, unit_ms: int, absolute: bool) -> Reply:
    expires_ms = time * unit_ms + (0 if absolute else client.server.clock.now_ms())
    if client.db.get(key) is None:
        return 0
    now_ms = client.db.expires_ms.get(key)
    for word in condition:
        match word.upper():
            case b"NX" if now_ms is not None:
                return 0
            case b"XX" if now_ms is None:
                return 0
            case b"GT" if now_ms is None or expires_ms <= now_ms:
                return 0
            case b"LT" if now_ms is not None and expires_ms >= now_ms:
                return 0
            case b"NX" | b"XX" | b"GT" | b"LT":
                continue
            case _:
                raise CommandError(f"ERR Unsupported option {word.decode('utf-8', 'surrogateescape')}")
    if expires_ms <= client.server.clock.now_ms():
        client.db.delete(key)
    else:
        client.db.put(key, client.db.values[key], expires_ms)
    return 1


def _left(client: Client, key: bytes, *, unit_ms: int, absolute: bool) -> Reply:
    """Return when a key expires, or its time to live; -1 if it has none, -2 if there is no key."""
    if client.db.get(key) is None:
        return -2
    expires_ms = client.db.expires_ms.get(key)
    if expires_ms is None:
        return -1
    return (expires_ms - (0 if absolute else client.server.clock.now_ms()) + unit_ms // 2) // unit_ms


for _name, _unit_ms, _absolute in (("", 1000, False), ("P", 1, False), ("", 1000, True), ("P", 1, True)):
    _names = (f"{_name}EXPIREAT", f"{_name}EXPIRETIME") if _absolute else (f"{_name}EXPIRE", f"{_name}TTL")
    command(f"{_names[0]} key time:int [condition...]", "write fast")(
        partial(_expire, unit_ms=_unit_ms, absolute=_absolute)
    )
    command(f"{_names[1]} key", "readonly fast")(partial(_left, unit_ms=_unit_ms, absolute=_absolute))


@command("PERSIST key", "write fast")
def _persist(client: Client, key: bytes) -> Reply:
    if client.db.get(key) is None or key not in client.db.expires_ms:
        return 0
    client.db.put(key, client.db.values[key])
    return 1


# Strings.


reads(bytes, b"", ("STRLEN key", len))


@command("GET key", "readonly fast")
def _get(client: Client, key: bytes) -> Reply:
    return client.db.typed(key, bytes)


@command("SET key value [options...]", "write denyoom")
def _set(client: Client, key: bytes, value: bytes, *words: bytes) -> Reply:
    given = options(words, "NX XX GET KEEPTTL", once=True, EX=_time, PX=_time, EXAT=_time, PXAT=_time)
    expiries = given.keys() & {"EX", "PX", "EXAT", "PXAT", "KEEPTTL"}
    if {"NX", "XX"} <= given.keys() or len(expiries) > 1:
        raise syntax_error()
    expires_ms = None
    for option in expiries - {"KEEPTTL"}:
        expires_ms = given[option] * (1000 if option.startswith("EX") else 1)
        expires_ms += 0 if option.endswith("AT") else client.server.clock.now_ms()
    old = client.db.typed(key, bytes) if "GET" in given else client.db.get(key)
    stays = (old is not None and "NX" in given) or (old is None and "XX" in given)
    if not stays:
        client.db.put(key, value, client.db.expires_ms.get(key) if "KEEPTTL" in given else expires_ms)
    if "GET" in given:
        return old
    return None if stays else "OK"


def _time(word: bytes) -> int:
    time = integer(word)
    if time <= 0:
        raise CommandError("ERR invalid expire time in 'set' command")
    return time


for _syntax, _flags, _call in (
    ("SETNX key value", "fast", lambda client, key, value: int(_set(client, key, value, b"NX") == "OK")),
    ("SETEX key seconds value", "", lambda client, key, time, value: _set(client, key, value, b"EX", time)),
    ("PSETEX key milliseconds value", "", lambda client, key, time, value: _set(client, key, value, b"PX", time)),
    ("GETSET key value", "fast", lambda client, key, value: _set(client, key, value, b"GET")),
):
    command(_syntax, f"write denyoom {_flags}")(_call)


@command("GETDEL key", "write fast")
def _getdel(client: Client, key: bytes) -> Reply:
    value = client.db.typed(key, bytes)
    client.db.delete(key)
    return value


@command("MGET key...", "readonly fast")
def _mget(client: Client, *keys: bytes) -> Reply:
    values = [client.db.get(key) for key in keys]
    return [value if isinstance(value, bytes) else None for value in values]


@command("MSET key,value...", "write denyoom")
def _mset(client: Client, *words: bytes) -> Reply:
    if len(words) % 2:
        raise wrong_number("mset")
    for key, value in zip(words[::2], words[1::2], strict=True):
        client.db.put(key, value)
    return "OK"


@command("APPEND key value", "write denyoom fast")
def _append(client: Client, key: bytes, value: bytes) -> Reply:
    joined = (client.db.typed(key, bytes) or b"") + value
    client.db.put(key, joined, client.db.expires_ms.get(key))
    return len(joined)


def added(value: bytes, by: int, error: str = NOT_AN_INTEGER) -> int:
    """Return a stored number with ``by`` added; raises ``CommandError`` beyond 64 bits."""
    total = integer(value, error) + by
    if not -(2**63) <= total < 2**63:
        raise CommandError("ERR increment or decrement would overflow")
    return total


def _add(client: Client, key: bytes, by: int = 1, *, sign: int) -> Reply:
    total = added(client.db.typed(key, bytes) or b"0", sign * by)
    client.db.put(key, b"%d" % total, client.db.expires_ms.get(key))
    return total


for _name, _sign in (("INCR", 1), ("DECR", -1)):
    command(f"{_name} key", "write denyoom fast")(partial(_add, sign=_sign))
    command(f"{_name}BY key by:int", "write denyoom fast")(partial(_add, sign=_sign))


@command("INCRBYFLOAT key increment", "write denyoom fast")
def _incrbyfloat(client: Client, key: bytes, by: bytes) -> Reply:
    value = real(client.db.typed(key, bytes) or b"0") + real(by)
    if not isfinite(value):
        raise CommandError("ERR increment would produce NaN or Infinity")
    total = number(value)
    client.db.put(key, total, client.db.expires_ms.get(key))
    return total
