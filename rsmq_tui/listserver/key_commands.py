"""The commands of keys of any type, and of strings.

Documentation: https://redis.io/docs/latest/commands/?group=generic and ``?group=string``.
"""

import random
import re
from collections.abc import Callable, Iterable
from functools import lru_cache, partial

from rsmq_tui.listserver.command import NO_SUCH_KEY, SYNTAX_ERROR, Words, command, integer, real
from rsmq_tui.listserver.engine import Client
from rsmq_tui.listserver.resp import CommandError, Reply, number
from rsmq_tui.listserver.store import TYPES

_KEY = (1, 1, 1)
_KEYS = (1, -1, 1)


@command("DEL", -2, "write", keys=_KEYS)
@command("UNLINK", -2, "write fast", keys=_KEYS)
def _del(client: Client, *keys: bytes) -> Reply:
    return sum(client.db.delete(key) for key in keys)


@command("EXISTS", -2, "readonly fast", keys=_KEYS)
@command("TOUCH", -2, "readonly fast", keys=_KEYS)
def _exists(client: Client, *keys: bytes) -> Reply:
    return sum(client.db.get(key) is not None for key in keys)


@command("TYPE", 2, "readonly fast", keys=_KEY)
def _type(client: Client, key: bytes) -> Reply:
    value = client.db.get(key)
    return "none" if value is None else TYPES[type(value)]


@command("RANDOMKEY", 1, "readonly")
def _randomkey(client: Client) -> Reply:
    keys = client.db.names()
    return random.choice(keys) if keys else None


@command("RENAME", 3, "write", keys=(1, 2, 1))
def _rename(client: Client, key: bytes, new_key: bytes) -> Reply:
    _move(client, key, new_key)
    return "OK"


@command("RENAMENX", 3, "write fast", keys=(1, 2, 1))
def _renamenx(client: Client, key: bytes, new_key: bytes) -> Reply:
    if client.db.get(key) is None:
        raise NO_SUCH_KEY
    if client.db.get(new_key) is not None:
        return 0
    _move(client, key, new_key)
    return 1


def _move(client: Client, key: bytes, new_key: bytes) -> None:
    value, expires_ms = client.db.get(key), client.db.expires_ms.get(key)
    if value is None:
        raise NO_SUCH_KEY
    if key != new_key:
        client.db.delete(key)
        client.db.put(new_key, value, expires_ms)


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


@command("KEYS", 2, "readonly")
def _keys(client: Client, pattern: bytes) -> Reply:
    return [key for key in client.db.names() if matcher(pattern)(key)]


def scan(client: Client, words: tuple[bytes, ...], names: Callable[[], Iterable[bytes]]) -> tuple[bytes, list[bytes]]:
    """Execute SCAN, HSCAN, SSCAN or ZSCAN; return the next cursor and the names that match."""
    cursor = integer(words[0], "invalid cursor", least=0, most=2**64 - 1)
    pattern, kind, count = b"*", "", 10
    options = Words(words[1:])
    for option in options:
        value = options.next()
        if option == "MATCH":
            pattern = value
        elif option == "COUNT":
            count = integer(value)
            if count < 1:
                raise SYNTAX_ERROR
        elif option == "TYPE":
            kind = value.lower().decode("latin-1")
        else:
            raise SYNTAX_ERROR
    rest, page = client.server.cursors.page(cursor, names, count)
    matches = matcher(pattern)
    return b"%d" % rest, [name for name in page if matches(name) and (not kind or _type(client, name) == kind)]


@command("SCAN", -2, "readonly")
def _scan(client: Client, *words: bytes) -> Reply:
    cursor, keys = scan(client, words, client.db.names)
    return [cursor, [key for key in keys if client.db.get(key) is not None]]


# Expiry.


def _expire(client: Client, key: bytes, time: bytes, *condition: bytes, unit_ms: int, absolute: bool) -> Reply:
    expires_ms = integer(time) * unit_ms + (0 if absolute else client.server.clock.now_ms())
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
    command(_names[0], -3, "write fast", keys=_KEY)(partial(_expire, unit_ms=_unit_ms, absolute=_absolute))
    command(_names[1], 2, "readonly fast", keys=_KEY)(partial(_left, unit_ms=_unit_ms, absolute=_absolute))


@command("PERSIST", 2, "write fast", keys=_KEY)
def _persist(client: Client, key: bytes) -> Reply:
    if client.db.get(key) is None or key not in client.db.expires_ms:
        return 0
    client.db.put(key, client.db.values[key])
    return 1


# Strings.


@command("GET", 2, "readonly fast", keys=_KEY)
def _get(client: Client, key: bytes) -> Reply:
    return client.db.typed(key, bytes)


@command("SET", -3, "write denyoom", keys=_KEY)
def _set(client: Client, key: bytes, value: bytes, *words: bytes) -> Reply:
    given: set[str] = set()
    expires_ms = None
    options = Words(words)
    for option in options:
        if option in given:
            raise SYNTAX_ERROR
        given.add(option)
        match option:
            case "EX" | "PX" | "EXAT" | "PXAT":
                factor = 1000 if option.startswith("EX") else 1
                expires_ms = factor * integer(options.next())
                if expires_ms <= 0:
                    raise CommandError("ERR invalid expire time in 'set' command")
                expires_ms += 0 if option.endswith("AT") else client.server.clock.now_ms()
            case "NX" | "XX" | "GET" | "KEEPTTL":
                continue
            case _:
                raise SYNTAX_ERROR
    if {"NX", "XX"} <= given or len(given & {"EX", "PX", "EXAT", "PXAT", "KEEPTTL"}) > 1:
        raise SYNTAX_ERROR
    old = client.db.typed(key, bytes) if "GET" in given else client.db.get(key)
    stays = (old is not None and "NX" in given) or (old is None and "XX" in given)
    if not stays:
        client.db.put(key, value, client.db.expires_ms.get(key) if "KEEPTTL" in given else expires_ms)
    if "GET" in given:
        return old
    return None if stays else "OK"


@command("SETNX", 3, "write denyoom fast", keys=_KEY)
def _setnx(client: Client, key: bytes, value: bytes) -> Reply:
    return int(_set(client, key, value, b"NX") == "OK")


def _set_for(client: Client, key: bytes, time: bytes, value: bytes, *, unit: bytes) -> Reply:
    return _set(client, key, value, unit, time)


command("SETEX", 4, "write denyoom", keys=_KEY)(partial(_set_for, unit=b"EX"))
command("PSETEX", 4, "write denyoom", keys=_KEY)(partial(_set_for, unit=b"PX"))


@command("GETSET", 3, "write denyoom fast", keys=_KEY)
def _getset(client: Client, key: bytes, value: bytes) -> Reply:
    return _set(client, key, value, b"GET")


@command("GETDEL", 2, "write fast", keys=_KEY)
def _getdel(client: Client, key: bytes) -> Reply:
    value = client.db.typed(key, bytes)
    client.db.delete(key)
    return value


@command("MGET", -2, "readonly fast", keys=_KEYS)
def _mget(client: Client, *keys: bytes) -> Reply:
    values = [client.db.get(key) for key in keys]
    return [value if isinstance(value, bytes) else None for value in values]


@command("MSET", -3, "write denyoom", keys=(1, -1, 2))
def _mset(client: Client, *words: bytes) -> Reply:
    if len(words) % 2:
        raise CommandError("ERR wrong number of arguments for 'mset' command")
    for key, value in zip(words[::2], words[1::2], strict=True):
        client.db.put(key, value)
    return "OK"


@command("STRLEN", 2, "readonly fast", keys=_KEY)
def _strlen(client: Client, key: bytes) -> Reply:
    return len(client.db.typed(key, bytes) or b"")


@command("APPEND", 3, "write denyoom fast", keys=_KEY)
def _append(client: Client, key: bytes, value: bytes) -> Reply:
    joined = (client.db.typed(key, bytes) or b"") + value
    client.db.put(key, joined, client.db.expires_ms.get(key))
    return len(joined)


def added(value: bytes, by: int, error: str = "value is not an integer or out of range") -> int:
    """Return a stored number with ``by`` added; raises ``CommandError`` beyond 64 bits."""
    total = integer(value, error) + by
    if not -(2**63) <= total < 2**63:
        raise CommandError("ERR increment or decrement would overflow")
    return total


def _add(client: Client, key: bytes, by: bytes = b"1", *, sign: int) -> Reply:
    total = added(client.db.typed(key, bytes) or b"0", sign * integer(by))
    client.db.put(key, b"%d" % total, client.db.expires_ms.get(key))
    return total


for _name, _sign in (("INCR", 1), ("DECR", -1)):
    command(_name, 2, "write denyoom fast", keys=_KEY)(partial(_add, sign=_sign))
    command(f"{_name}BY", 3, "write denyoom fast", keys=_KEY)(partial(_add, sign=_sign))


@command("INCRBYFLOAT", 3, "write denyoom fast", keys=_KEY)
def _incrbyfloat(client: Client, key: bytes, by: bytes) -> Reply:
    total = number(real(client.db.typed(key, bytes) or b"0") + real(by))
    client.db.put(key, total, client.db.expires_ms.get(key))
    return total
