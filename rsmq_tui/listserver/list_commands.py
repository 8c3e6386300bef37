"""The commands of lists, including blocking ones.

Documentation of each: https://redis.io/docs/latest/commands/?group=list. A blocking command is called again when
one of its lists has elements; until then it has no reply (``Blocking.wait``).
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from math import ceil

from rsmq_tui.listserver.blocking import Blocked
from rsmq_tui.listserver.command import NO_SUCH_KEY, SYNTAX_ERROR, Words, command, count, integer, one_of, real
from rsmq_tui.listserver.engine import Client
from rsmq_tui.listserver.resp import NO_ARRAY, CommandError, Reply
from rsmq_tui.listserver.store import List, SortedSet, slice_of, span

_KEY = (1, 1, 1)
_TWO_KEYS = (1, 2, 1)


def _push(client: Client, key: bytes, *elements: bytes, left: bool, makes: bool = True) -> int:
    """Push elements one after the other; without ``makes`` only onto a list that exists."""
    if not makes and client.db.typed(key, deque) is None:
        return 0
    values = client.db.made(key, deque)
    if left:
        values.extendleft(elements)
    else:
        values.extend(elements)
    size = len(values)
    client.db.changed(key)
    return size


for _name, _left in (("L", True), ("R", False)):
    command(f"{_name}PUSH", -3, "write denyoom fast", keys=_KEY)(partial(_push, left=_left))
    command(f"{_name}PUSHX", -3, "write denyoom fast", keys=_KEY)(partial(_push, left=_left, makes=False))


def _take(client: Client, key: bytes, values: List, most: int, *, left: bool) -> list[bytes]:
    take = values.popleft if left else values.pop
    taken = [take() for _ in range(min(most, len(values)))]
    if taken:
        client.db.changed(key)
    return taken


def _pop(client: Client, key: bytes, *most: bytes, left: bool) -> Reply:
    if len(most) > 1:
        raise CommandError(f"ERR wrong number of arguments for '{'lpop' if left else 'rpop'}' command")
    wanted = count(most[0]) if most else None
    values = client.db.typed(key, deque)
    if values is None:
        return None if wanted is None else NO_ARRAY
    if wanted is None:
        return _take(client, key, values, 1, left=left)[0]
    return _take(client, key, values, wanted, left=left)


def _timeout_ms(word: bytes) -> int:
    """Return a timeout in milliseconds, 0 for none; raises ``CommandError``."""
    timeout_ms = real(word, "timeout is not a float or out of range") * 1000
    if timeout_ms > 2**63 - 1:
        raise CommandError("ERR timeout is out of range")
    if timeout_ms < 0:
        raise CommandError("ERR timeout is negative")
    return ceil(timeout_ms)


def _blocking_pop(client: Client, *words: bytes, left: bool) -> Reply:
    *keys, timeout = words
    timeout_ms = _timeout_ms(timeout)
    for key in keys:
        values = client.db.typed(key, deque)
        if values is not None:
            return [key, *_take(client, key, values, 1, left=left)]
    return client.wait(Blocked(keys, timeout_ms))


for _name, _left in (("L", True), ("R", False)):
    command(f"{_name}POP", -2, "write fast", keys=_KEY)(partial(_pop, left=_left))
    command(f"B{_name}POP", -3, "write blocking", keys=(1, -2, 1))(partial(_blocking_pop, left=_left))


def _move(client: Client, source: bytes, target: bytes, side: str, target_side: str) -> bytes | None:
    values = client.db.typed(source, deque)
    if values is None:
        return None
    client.db.typed(target, deque)
    left, target_left = side == "LEFT", target_side == "LEFT"
    if source == target:
        # A list with a single element must not be deleted between the pop and the push.
        element = values.popleft() if left else values.pop()
        (values.appendleft if target_left else values.append)(element)
        client.db.changed(source)
        return element
    (element,) = _take(client, source, values, 1, left=left)
    _push(client, target, element, left=target_left)
    return element


def _blocking_move(client: Client, source: bytes, target: bytes, sides: tuple[str, str], timeout: bytes) -> Reply:
    timeout_ms = _timeout_ms(timeout)
    element = _move(client, source, target, *sides)
    return client.wait(Blocked([source], timeout_ms, at_once=None)) if element is None else element


@command("LMOVE", 5, "write denyoom", keys=_TWO_KEYS)
def _lmove(client: Client, source: bytes, target: bytes, side: bytes, target_side: bytes) -> Reply:
    return _move(client, source, target, _side(side), _side(target_side))


@command("BLMOVE", 6, "write denyoom blocking", keys=_TWO_KEYS)
def _blmove(client: Client, source: bytes, target: bytes, side: bytes, target_side: bytes, timeout: bytes) -> Reply:
    return _blocking_move(client, source, target, (_side(side), _side(target_side)), timeout)


@command("RPOPLPUSH", 3, "write denyoom", keys=_TWO_KEYS)
def _rpoplpush(client: Client, source: bytes, target: bytes) -> Reply:
    return _move(client, source, target, "RIGHT", "LEFT")


@command("BRPOPLPUSH", 4, "write denyoom blocking", keys=_TWO_KEYS)
def _brpoplpush(client: Client, source: bytes, target: bytes, timeout: bytes) -> Reply:
    return _blocking_move(client, source, target, ("RIGHT", "LEFT"), timeout)


def _side(word: bytes) -> str:
    return one_of(word, "LEFT", "RIGHT")


@dataclass(slots=True)
class _PopOfMany:
    """The arguments of LMPOP and BLMPOP after the timeout; raises ``CommandError`` if they are wrong."""

    keys: list[bytes]
    left: bool
    most: int = 0

    @classmethod
    def read(cls, words: tuple[bytes, ...]) -> "_PopOfMany":
        size = integer(words[0], "numkeys should be greater than 0", least=1)
        if len(words) < size + 2:
            raise SYNTAX_ERROR
        read = cls(list(words[1 : size + 1]), _side(words[size + 1]) == "LEFT")
        options = Words(words[size + 2 :])
        for option in options:
            if option != "COUNT" or read.most:
                raise SYNTAX_ERROR
            read.most = integer(options.next(), "count should be greater than 0", least=1)
        return read

    def pop(self, client: Client) -> Reply:
        """Pop from the first list that has elements; return None if all are empty."""
        for key in self.keys:
            values = client.db.typed(key, deque)
            if values is not None:
                return [key, _take(client, key, values, self.most or 1, left=self.left)]
        return None


@command("LMPOP", -4, "write movablekeys", count_at=1)
def _lmpop(client: Client, *words: bytes) -> Reply:
    return _PopOfMany.read(words).pop(client) or NO_ARRAY


@command("BLMPOP", -5, "write blocking movablekeys", count_at=2)
def _blmpop(client: Client, timeout: bytes, *words: bytes) -> Reply:
    wanted = _PopOfMany.read(words)
    timeout_ms = _timeout_ms(timeout)
    return wanted.pop(client) or client.wait(Blocked(wanted.keys, timeout_ms))


@command("LLEN", 2, "readonly fast", keys=_KEY)
def _llen(client: Client, key: bytes) -> Reply:
    return len(client.db.typed(key, deque) or ())


@command("LRANGE", 4, "readonly", keys=_KEY)
def _lrange(client: Client, key: bytes, start: bytes, stop: bytes) -> Reply:
    first, last = integer(start), integer(stop)
    values = client.db.typed(key, deque)
    return slice_of(values, span(values, first, last)) if values else []


@command("LINDEX", 3, "readonly", keys=_KEY)
def _lindex(client: Client, key: bytes, index: bytes) -> Reply:
    values = client.db.typed(key, deque)
    if values is None:
        return None
    position = integer(index)
    return values[position] if -len(values) <= position < len(values) else None


@command("LSET", 4, "write denyoom", keys=_KEY)
def _lset(client: Client, key: bytes, index: bytes, element: bytes) -> Reply:
    values = client.db.typed(key, deque)
    if values is None:
        raise NO_SUCH_KEY
    position = integer(index)
    if not -len(values) <= position < len(values):
        raise CommandError("ERR index out of range")
    values[position] = element
    client.db.changed(key)
    return "OK"


@command("LINSERT", 5, "write denyoom", keys=_KEY)
def _linsert(client: Client, key: bytes, where: bytes, pivot: bytes, element: bytes) -> Reply:
    after = one_of(where, "BEFORE", "AFTER") == "AFTER"
    values = client.db.typed(key, deque)
    if values is None:
        return 0
    if pivot not in values:
        return -1
    values.insert(values.index(pivot) + after, element)
    client.db.changed(key)
    return len(values)


def _signed(word: bytes) -> int:
    """Parse a number whose sign is a direction; raises ``CommandError`` also for -2**63, which cannot be negated."""
    value = integer(word)
    if value == -(2**63):
        raise CommandError(f"ERR value is out of range, value must between {value + 1} and {-value - 1}")
    return value


@command("LREM", 4, "write", keys=_KEY)
def _lrem(client: Client, key: bytes, most: bytes, element: bytes) -> Reply:
    limit = _signed(most)
    values = client.db.typed(key, deque)
    if values is None:
        return 0
    found = _positions(values, element, backwards=limit < 0)
    positions = list(found if limit == 0 else islice(found, abs(limit)))
    if len(positions) == 1:
        del values[positions[0]]
    elif positions:
        removed = set(positions)
        kept = [value for position, value in enumerate(values) if position not in removed]
        values.clear()
        values.extend(kept)
    if positions:
        client.db.changed(key)
    return len(positions)


@command("LTRIM", 4, "write", keys=_KEY)
def _ltrim(client: Client, key: bytes, start: bytes, stop: bytes) -> Reply:
    first, last = integer(start), integer(stop)
    values = client.db.typed(key, deque)
    if values is None:
        return "OK"
    kept = span(values, first, last)
    if kept:
        for _ in range(len(values) - kept.stop):
            values.pop()
        for _ in range(kept.start):
            values.popleft()
    else:
        values.clear()
    client.db.changed(key)
    return "OK"


@command("LPOS", -3, "readonly", keys=_KEY)
def _lpos(client: Client, key: bytes, element: bytes, *words: bytes) -> Reply:
    rank, most, depth = 1, None, 0
    options = Words(words)
    for option in options:
        value = options.next()
        match option:
            case "RANK":
                rank = _signed(value)
                if rank == 0:
                    raise CommandError(
                        "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... "
                        "or use negative to start from the end of the list"
                    )
            case "COUNT":
                most = integer(value, "COUNT can't be negative", least=0)
            case "MAXLEN":
                depth = integer(value, "MAXLEN can't be negative", least=0)
            case _:
                raise SYNTAX_ERROR
    values = client.db.typed(key, deque)
    if values is None:
        return None if most is None else []
    found = _positions(values, element, backwards=rank < 0, depth=depth)
    first = abs(rank) - 1
    if most is None:
        return next(islice(found, first, None), None)
    return list(islice(found, first, first + most if most else None))


def _positions(values: List, element: bytes, *, backwards: bool = False, depth: int = 0) -> Iterator[int]:
    """Yield the indexes of an element, from one end, within the first ``depth`` elements, 0 for all."""
    size = len(values)
    for distance, value in enumerate(islice(reversed(values) if backwards else iter(values), depth or None)):
        if value == element:
            yield size - 1 - distance if backwards else distance


@command("SORT", -2, "write denyoom movablekeys", keys=_KEY)
def _sort(client: Client, key: bytes, *words: bytes) -> Reply:
    """Sort the elements of a list, a set or a sorted set; BY and GET, which read other keys, are refused."""
    given: set[str] = set()
    target, limit = b"", slice(None)
    options = Words(words)
    for option in options:
        match option:
            case "ASC" | "DESC" | "ALPHA":
                given.add(option)
            case "LIMIT":
                first, most = max(integer(options.next()), 0), integer(options.next())
                limit = slice(first, None if most < 0 else first + most)
            case "STORE":
                target = options.next()
            case _:
                raise SYNTAX_ERROR
    value = client.db.get(key)
    if isinstance(value, bytes | dict):
        client.db.typed(key, deque)
    found = [*(value.scores if isinstance(value, SortedSet) else value or ())]
    try:
        found.sort(key=None if "ALPHA" in given else float, reverse="DESC" in given)
    except ValueError:
        raise CommandError("ERR One or more scores can't be converted into double") from None
    if not target:
        return list[Reply](found[limit])
    client.db.delete(target)
    if found[limit]:
        client.db.put(target, deque(found[limit]))
    return len(found[limit])
