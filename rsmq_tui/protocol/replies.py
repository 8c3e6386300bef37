"""Decodes replies: each reply is checked once, where it arrives.

Only this module reports malformed replies. An exception in code that works on decoded replies is a bug, and is not
caught. An error reply is returned unchanged: the caller decides what it means.

A shape checks what hiredis makes of RESP2: ``int``, ``bytes``, ``None`` and ``list``. The
booleans, floats and maps of RESP3 are refused.
"""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from math import inf, isnan, nan
from typing import Any, TypeVar

from redis.exceptions import InvalidResponse

T = TypeVar("T")

NONSENSE = "the server at this address does not speak the Redis protocol"

Shape = Callable[[Any], bool]
Argument = bytes | str | int
Command = Sequence[Argument]

# No server can hold more: addresses have 48 bits.
COUNT_MAX = 1 << 48
# Near the end of year 9999, which ``datetime`` allows, less a few months for time zones and deadlines.
_CLOCK_MAX_S = 253_370_764_800
# How a date as text begins.
TEXT_DATE = re.compile(rb"\s*\d{4}-\d\d-\d\d")
_DIGITS = re.compile(rb"\d{1,20}").fullmatch
_BYTES, _BYTES_OR_NONE = frozenset({bytes}), frozenset({bytes, type(None)})


def leading_int(raw: bytes | None) -> int | None:
    """Parse a number as JavaScript's parseInt does, by which the canonical client reads every field."""
    found = re.match(rb"\s*([+-]?\d{1,18})", raw or b"")
    return int(found[1]) if found else None


def text_date_ms(raw: bytes | None) -> int | None:
    """Parse a date as text (RFC 3339, as Go writes it), in ms since the epoch; None for anything else.

    Without a time zone it is UTC.
    """
    # Go writes nanoseconds; Python reads at most microseconds.
    text = re.sub(rb"(\.\d{6})\d+", rb"\1", (raw or b"").strip())
    if not TEXT_DATE.match(text):
        return None
    try:
        moment = datetime.fromisoformat(text.decode("latin-1"))
    except ValueError:
        return None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def misshapen(what: str) -> InvalidResponse:
    """Return the error for a reply that no Redis server would send; ``what`` names the command."""
    return InvalidResponse(f"{NONSENSE} ({what})")


def decode(command: Command, reply: Any) -> Any:
    """Check and return the reply to a command, to TIME as two numbers; raises ``InvalidResponse``.

    The reply to a command that is not in the table is not checked.
    """
    if isinstance(reply, Exception):
        return reply
    name = str(command[0])
    if name == "TIME":
        return decode_clock(reply)
    shape = _COMMANDS.get(name)
    if shape is not None and not shape(command)(reply):
        raise misshapen(f"in reply to {name}")
    return reply


def decode_all(commands: Sequence[Command], replies: Sequence[Any]) -> list[Any]:
    """Decode the replies to several commands."""
    return list(map(decode, commands, replies))


def decode_clock(reply: Any) -> tuple[int, int]:
    """Decode a reply to TIME: seconds since the epoch, and microseconds; raises ``InvalidResponse``."""
    if not (blobs(reply) and len(reply) == 2 and all(map(_DIGITS, reply))):
        if blobs(reply) and len(reply) == 2 and all(re.fullmatch(rb"-?\d{1,40}", part) for part in reply):
            raise InvalidResponse(f"the server's clock is wrong: TIME returned {reply[0].decode()} s")
        raise misshapen("in reply to TIME")
    seconds, microseconds = map(int, reply)
    if not 0 < seconds < _CLOCK_MAX_S or microseconds >= 1_000_000:
        raise InvalidResponse(f"the server's clock is wrong: TIME returned {seconds} s and {microseconds} µs")
    return seconds, microseconds


def clock_ms(reply: Any) -> int:
    """Return the time in ms of a decoded reply to TIME; an error reply is raised."""
    if isinstance(reply, Exception):
        raise reply
    seconds, microseconds = reply
    return int(seconds) * 1000 + int(microseconds) // 1000


def decoded(read: Callable[[Any], T], reply: Any) -> T:
    """Decode a reply by ``read``, which must do nothing else; raises ``InvalidResponse`` if it fails."""
    try:
        return read(reply)
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        raise InvalidResponse(NONSENSE) from error


def due_ms(reply: Any) -> float:
    """Return when, in ms, time alone changes a row: infinity for an empty text; raises ``InvalidResponse``."""
    if reply == b"":
        return inf
    # Called for every row.
    if type(reply) is bytes or type(reply) is int:
        try:
            at_ms = float(reply)
        except (ValueError, OverflowError):
            at_ms = nan
        if not isnan(at_ms):
            return at_ms
    raise misshapen("in the row of a queue")


def decode_text(reply: bytes) -> str:
    """Decode ASCII text that was written by this program; raises ``InvalidResponse``."""
    if not ascii_text(reply):
        raise misshapen("invalid text")
    return reply.decode()


def integer(reply: Any) -> bool:
    """An integer."""
    return type(reply) is int


def count(reply: Any) -> bool:
    """A count: an integer from 0 to COUNT_MAX."""
    return type(reply) is int and 0 <= reply <= COUNT_MAX


def blob(reply: Any) -> bool:
    """Bytes."""
    return type(reply) is bytes


def ascii_text(reply: Any) -> bool:
    """Bytes that are ASCII."""
    return type(reply) is bytes and reply.isascii()


def moment(reply: Any) -> bool:
    """A time in ms, as our scripts return it."""
    return type(reply) is bytes and bool(_DIGITS(reply)) and 0 < int(reply) < _CLOCK_MAX_S * 1000


def cursor(reply: Any) -> bool:
    """A cursor of SCAN."""
    return type(reply) is bytes and bool(_DIGITS(reply))


def number(reply: Any) -> bool:
    """A score, as the server writes it."""
    return type(reply) is bytes and _are_numbers((reply,))


def nothing(reply: Any) -> bool:
    """A null."""
    return reply is None


def blobs(reply: Any) -> bool:
    """An array of bytes."""
    return type(reply) is list and _BYTES.issuperset(map(type, reply))


def scored(reply: Any) -> bool:
    """Members and their scores, alternating."""
    return blobs(reply) and len(reply) % 2 == 0 and _are_numbers(reply[1::2])


def either(*shapes: Shape) -> Shape:
    """One of several shapes."""
    return lambda reply: any(shape(reply) for shape in shapes)


def optional(shape: Shape) -> Shape:
    """A shape, or a null."""
    return lambda reply: reply is None or shape(reply)


def optional_blobs(length: int) -> Shape:
    """An array of ``length`` bytes or nulls."""
    return lambda reply: type(reply) is list and len(reply) == length and _BYTES_OR_NONE.issuperset(map(type, reply))


def optional_numbers(length: int) -> Shape:
    """An array of ``length`` scores or nulls."""
    are_texts = optional_blobs(length)
    # Written out for speed: a deletion checks a hundred thousand.
    return lambda reply: are_texts(reply) and _are_numbers([text for text in reply if text is not None])


def array(shape: Shape, length: int | None = None) -> Shape:
    """An array whose elements all have that shape, of that length if one is given."""
    return lambda reply: type(reply) is list and length in (None, len(reply)) and all(map(shape, reply))


def record(*shapes: Shape) -> Shape:
    """An array whose elements have these shapes, in this order."""
    return lambda reply: (
        type(reply) is list
        and len(reply) == len(shapes)
        and all(shape(part) for shape, part in zip(shapes, reply, strict=True))
    )


def _are_numbers(texts: Sequence[bytes]) -> bool:
    try:
        values = list(map(float, texts))
    except ValueError:
        return False
    # Redis stores no score that is not a number.
    return not any(map(isnan, values))


def _step(found: Shape) -> Shape:
    """The reply to SCAN and its variants: the next cursor, and what was found."""
    return record(cursor, found)


def pairs(reply: Any) -> bool:
    """Bytes, of which there is an even number."""
    return blobs(reply) and len(reply) % 2 == 0


def _always(shape: Shape) -> Callable[[Command], Shape]:
    return lambda command: shape


def _is_ok(reply: Any) -> bool:
    return bool(reply == b"OK")


def _of_range(command: Command) -> Shape:
    return scored if "WITHSCORES" in command else blobs


def _of_hscan(command: Command) -> Shape:
    return _step(blobs if "NOVALUES" in command else pairs)


_COMMANDS: dict[str, Callable[[Command], Shape]] = {
    **dict.fromkeys(
        (
            "ZCARD",
            "ZCOUNT",
            "SCARD",
            "LLEN",
            "HLEN",
            "HSTRLEN",
            "HEXISTS",
            "EXISTS",
            "SISMEMBER",
            "DEL",
            "HDEL",
            "SREM",
            "ZREM",
        ),
        _always(count),
    ),
    **dict.fromkeys(("GET", "HGET", "LINDEX", "LMOVE", "LPOP", "RPOP"), _always(optional(blob))),
    **dict.fromkeys(("SMEMBERS", "LRANGE"), _always(blobs)),
    **dict.fromkeys(("SCAN", "SSCAN"), _always(_step(blobs))),
    "ZRANGE": _of_range,
    "HMGET": lambda command: optional_blobs(len(command) - 2),
    "HSCAN": _of_hscan,
    "CLIENT": _always(blob),
    "INFO": _always(blob),
    "SET": _always(optional(_is_ok)),
    "TYPE": _always(ascii_text),
    "ZMSCORE": lambda command: optional_numbers(len(command) - 2),
    "ZRANK": _always(optional(count)),
    "ZSCAN": _always(_step(scored)),
    "ZSCORE": _always(optional(number)),
}
