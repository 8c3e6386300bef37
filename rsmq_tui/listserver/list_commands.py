"""The commands of lists, including blocking ones, and SORT.

Documentation of each: https://redis.io/docs/latest/commands/?group=list. A blocking command is called again when
one of its lists has elements; until then it has no reply (``Client.wait``).
"""

from collections import deque
from collections.abc import Iterator
from functools import partial
from itertools import islice
from math import ceil

from rsmq_tui.listserver.blocking import Blocked
from rsmq_tui.listserver.command import (
    command,
    count,
    integer,
    no_such_key,
    one_of,
    options,
    reads,
    real,
    syntax_error,
    wrong_number,
)
from rsmq_tui.listserver.engine import Client
from rsmq_tui.listserver.resp import NO_ARRAY, CommandError, Reply
from rsmq_tui.listserver.store import List, SortedSet, slice_of, span

# Push, pop and move.


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


def _take(client: Client, key: bytes, values: List, most: int, *, left: bool) -> list[bytes]:
    take = values.popleft if left else values.pop
    taken = [take() for _ in range(min(most, len(values)))]
    if taken:
        client.db.changed(key)
    return taken


def _take_first(client: Client, keys: list[bytes], most: int, *, left: bool) -> tuple[bytes, list[bytes]] | None:
    """Take from the first list that has elements; return its key and the elements."""
    for key in keys:
        values = client.db.typed(key, deque)
        if values is not None:
            return key, _take(client, key, values, most, left=left)
    return None


def _pop(client: Client, key: bytes, *most: bytes, left: bool) -> Reply:
    if len(most) > 1:
        raise wrong_number("lpop" if left else "rpop")
    wanted = count(most[0]) if most else None
    values = client.db.typed(key, deque)
    if values is None:
        return None if wanted is None else NO_ARRAY
    taken = _take(client, key, values, 1 if wanted is None else wanted, left=left)
    return taken[0] if wanted is None else taken


def _blocking_pop(client: Client, *words: bytes, left: bool) -> Reply:
    *keys, timeout = words
    timeout_ms = _timeout_ms(timeout)
    taken = _take_first(client, keys, 1, left=left)
    return client.wait(Blocked(keys, timeout_ms)) if taken is None else [taken[0], *taken[1]]


for _name, _left in (("L", True), ("R", False)):
    command(f"{_name}PUSH key element...", "write denyoom fast")(partial(_push, left=_left))
    command(f"{_name}PUSHX key element...", "write denyoom fast")(partial(_push, left=_left, makes=False))
    command(f"{_name}POP key [count]", "write fast")(partial(_pop, left=_left))
    command(f"B{_name}POP key... timeout", "write blocking")(partial(_blocking_pop, left=_left))


def _timeout_ms(word: bytes) -> int:
    """Return a timeout in milliseconds, 0 for none; raises ``CommandError``."""
    timeout_ms = real(word, "timeout is not a float or out of range") * 1000
    if timeout_ms > 2**63 - 1:
        raise CommandError("ERR timeout is out of range")
    if timeout_ms < 0:
        raise CommandError("ERR timeout is negative")
    return ceil(timeout_ms)


@command("LMPOP numkeys key... where [options...]", "write movablekeys")
def _lmpop(client: Client, *words: bytes, timeout: bytes | None = None) -> Reply:
    size = integer(words[0], "numkeys should be greater than 0", least=1)
    if len(words) < size + 2:
        raise syntax_error()
    keys, left = list(words[1 : size + 1]), _is_left(words[size + 1])
    most = options(words[size + 2 :], once=True, COUNT=_elements).get("COUNT", 1)
    timeout_ms = None if timeout is None else _timeout_ms(timeout)
    taken = _take_first(client, keys, most, left=left)
    if taken is None:
        return NO_ARRAY if timeout_ms is None else client.wait(Blocked(keys, timeout_ms))
    return list(taken)


@command("BLMPOP timeout numkeys key... where [options...]", "write blocking movablekeys")
def _blmpop(client: Client, timeout: bytes, *words: bytes) -> Reply:
    return _lmpop(client, *words, timeout=timeout)


def _elements(word: bytes) -> int:
    return integer(word, "count should be greater than 0", least=1)


def _is_left(word: bytes) -> bool:
    return one_of(word, "LEFT", "RIGHT") == "LEFT"


def _move(client: Client, source: bytes, target: bytes, *words: bytes, sides: tuple[bytes, ...] = ()) -> Reply:
    """Move an element; ``words`` are the two sides, unless they are given, and the timeout if the command blocks."""
    side, target_side, *timeout = (*sides, *words)
    left, target_left = _is_left(side), _is_left(target_side)
    timeout_ms = _timeout_ms(timeout[0]) if timeout else None
    values = client.db.typed(source, deque)
    if values is None:
        return None if timeout_ms is None else client.wait(Blocked([source], timeout_ms, at_once=None))
    client.db.typed(target, deque)
    if source == target:
        # A list with a single element must not be deleted between the pop and the push.
        element = values.popleft() if left else values.pop()
        (values.appendleft if target_left else values.append)(element)
        client.db.changed(source)
        return element
    (element,) = _take(client, source, values, 1, left=left)
    _push(client, target, element, left=target_left)
    return element


command("LMOVE source destination side side", "write denyoom")(_move)
command("BLMOVE source destination side side timeout", "write denyoom blocking")(_move)
command("RPOPLPUSH source destination", "write denyoom")(partial(_move, sides=(b"RIGHT", b"LEFT")))
command("BRPOPLPUSH source destination timeout", "write denyoom blocking")(partial(_move, sides=(b"RIGHT", b"LEFT")))


# Read.

_NO_LIST: List = deque()


def _lindex(values: List, index: bytes) -> bytes | None:
    # Of a list that does not exist, Redis does not read the index.
    position = integer(index) if values else 0
    return values[position] if -len(values) <= position < len(values) else None


reads(
    deque,
    _NO_LIST,
    ("LLEN key", len),
    ("LRANGE key start:int stop:int", lambda values, start, stop: slice_of(values, span(values, start, stop))),
    ("LINDEX key index", _lindex),
)


@command("LPOS key element [options...]", "readonly")
def _lpos(client: Client, key: bytes, element: bytes, *words: bytes) -> Reply:
    given = options(
        words,
        RANK=_rank,
        COUNT=partial(integer, error="COUNT can't be negative", least=0),
        MAXLEN=partial(integer, error="MAXLEN can't be negative", least=0),
    )
    rank, most = given.get("RANK", 1), given.get("COUNT")
    values = client.db.typed(key, deque) or _NO_LIST
    found = _positions(values, element, backwards=rank < 0, depth=given.get("MAXLEN", 0))
    first = abs(rank) - 1
    if most is None:
        return next(islice(found, first, None), None)
    return list(islice(found, first, first + most if most else None))


def _rank(word: bytes) -> int:
    rank = _signed(word)
    if rank == 0:
        raise CommandError(
            "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... "
            "or use negative to start from the end of the list"
        )
    return rank


def _signed(word: bytes) -> int:
    """Parse a number whose sign is a direction; raises ``CommandError`` also for -2**63, which cannot be negated."""
    value = integer(word)
    if value == -(2**63):
        raise CommandError(f"ERR value is out of range, value must between {value + 1} and {-value - 1}")
    return value


def _positions(values: List, element: bytes, *, backwards: bool, depth: int = 0) -> Iterator[int]:
    """Yield the indexes of an element, from one end, within the first ``depth`` elements, 0 for all."""
    size = len(values)
    for distance, value in enumerate(islice(reversed(values) if backwards else iter(values), depth or None)):
        if value == element:
            yield size - 1 - distance if backwards else distance


# Change.


@command("LSET key index element", "write denyoom")
def _lset(client: Client, key: bytes, index: bytes, element: bytes) -> Reply:
    values = client.db.typed(key, deque)
    if values is None:
        raise no_such_key()
    position = integer(index)
    if not -len(values) <= position < len(values):
        raise CommandError("ERR index out of range")
    values[position] = element
    client.db.changed(key)
    return "OK"


@command("LINSERT key where pivot element", "write denyoom")
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


@command("LREM key count element", "write")
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


@command("LTRIM key start:int stop:int", "write")
def _ltrim(client: Client, key: bytes, start: int, stop: int) -> Reply:
    values = client.db.typed(key, deque)
    if values is not None:
        kept = span(values, start, stop)
        for _ in range(len(values) - kept.stop if kept else len(values)):
            values.pop()
        for _ in range(kept.start if kept else 0):
            values.popleft()
        client.db.changed(key)
    return "OK"


@command("SORT key [options...]", "write denyoom movablekeys")
def _sort(client: Client, key: bytes, *words: bytes) -> Reply:
    """Sort the elements of a list, a set or a sorted set; BY and GET, which read other keys, are refused."""
    given = options(words, "ASC DESC ALPHA", LIMIT=(integer, integer), STORE=bytes)
    first, most = given.get("LIMIT", (0, -1))
    first = max(first, 0)
    value = client.db.get(key)
    if isinstance(value, bytes | dict):
        client.db.typed(key, deque)
    found = [*(value.scores if isinstance(value, SortedSet) else value or ())]
    try:
        found.sort(key=None if "ALPHA" in given else float, reverse="DESC" in given)
    except ValueError:
        raise CommandError("ERR One or more scores can't be converted into double") from None
    found = found[first : None if most < 0 else first + most]
    if "STORE" not in given:
        return list[Reply](found)
    client.db.delete(given["STORE"])
    if found:
        client.db.put(given["STORE"], deque(found))
    return len(found)
