"""Decodes replies: what each command and each script answers is checked once, where the reply arrives.

Only this module may report that a server does not speak as Redis does. An exception of code that works on decoded
replies is a defect of that code, and is not caught. An error reply stays what it is: the caller decides what it means.

A shape checks what hiredis makes of RESP2: ``int``, ``bytes``, ``None`` and ``list``. A boolean, a float or a map,
which only RESP3 has, is none of these.
"""

import re
from collections.abc import Callable, Sequence
from math import inf, isnan, nan
from typing import Any, TypeVar

from redis.exceptions import InvalidResponse

T = TypeVar("T")

NONSENSE = "the server at this address does not speak the Redis protocol"

Shape = Callable[[Any], bool]
Argument = bytes | str | int
Command = Sequence[Argument]

# No server has room for more: addresses have 48 bits.
COUNT_MAX = 1 << 48
# The year 9999, in seconds: what calendars know, and a few months for time zones and deadlines.
_CLOCK_MAX_S = 253_370_764_800
_DIGITS = re.compile(rb"\d{1,20}").fullmatch
_BYTES, _BYTES_OR_NONE = frozenset({bytes}), frozenset({bytes, type(None)})


def misshapen(what: str) -> InvalidResponse:
    """Return the error for a reply that no Redis server would give; ``what`` names the question."""
    return InvalidResponse(f"{NONSENSE} ({what})")


def decode(command: Command, reply: Any) -> Any:
    """Return the reply to a command as it is, or that to TIME as two numbers; raises ``InvalidResponse``.

    The reply to a command that is not known here is returned as it is.
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
    """Return the seconds since 1970 and the microseconds that TIME tells; raises ``InvalidResponse``."""
    if not (blobs(reply) and len(reply) == 2 and all(map(_DIGITS, reply))):
        if blobs(reply) and len(reply) == 2 and all(re.fullmatch(rb"-?\d{1,40}", part) for part in reply):
            raise InvalidResponse(f"the server's clock cannot be right: TIME says {reply[0].decode()} s")
        raise misshapen("in reply to TIME")
    seconds, microseconds = map(int, reply)
    if not 0 < seconds < _CLOCK_MAX_S or microseconds >= 1_000_000:
        raise InvalidResponse(f"the server's clock cannot be right: TIME says {seconds} s and {microseconds} µs")
    return seconds, microseconds


def clock_ms(reply: Any) -> int:
    """Return the time in ms that a decoded reply to TIME tells; an error is raised."""
    if isinstance(reply, Exception):
        raise reply
    seconds, microseconds = reply
    return int(seconds) * 1000 + int(microseconds) // 1000


def decoded(read: Callable[[Any], T], reply: Any) -> T:
    """Read a reply by a function that does nothing else; raises ``InvalidResponse`` where it cannot."""
    try:
        return read(reply)
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        raise InvalidResponse(NONSENSE) from error


def due_ms(reply: Any) -> float:
    """Return when, in ms, time alone changes a row: infinity for an empty text; raises ``InvalidResponse``."""
    if reply == b"":
        return inf
    # Asked for each row that is read.
    if type(reply) is bytes or type(reply) is int:
        try:
            at_ms = float(reply)
        except (ValueError, OverflowError):
            at_ms = nan
        if not isnan(at_ms):
            return at_ms
    raise misshapen("in the row of a queue")


def decode_text(reply: bytes) -> str:
    """Return text that was written by this program, as ASCII; raises ``InvalidResponse``."""
    if not ascii_text(reply):
        raise misshapen("invalid text")
    return reply.decode()


def integer(reply: Any) -> bool:
    """A number of 64 bits."""
    return type(reply) is int


def count(reply: Any) -> bool:
    """How many of something there are."""
    return type(reply) is int and 0 <= reply <= COUNT_MAX


def blob(reply: Any) -> bool:
    """Bytes."""
    return type(reply) is bytes


def ascii_text(reply: Any) -> bool:
    """Bytes that are ASCII."""
    return type(reply) is bytes and reply.isascii()


def moment(reply: Any) -> bool:
    """A time in ms, as scripts of ours write it."""
    return type(reply) is bytes and bool(_DIGITS(reply)) and 0 < int(reply) < _CLOCK_MAX_S * 1000


def cursor(reply: Any) -> bool:
    """Where a scan goes on."""
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
    """Members and their scores, in turns."""
    return blobs(reply) and len(reply) % 2 == 0 and _are_numbers(reply[1::2])


def either(*shapes: Shape) -> Shape:
    """What has one of these shapes."""
    return lambda reply: any(shape(reply) for shape in shapes)


def optional(shape: Shape) -> Shape:
    """What has that shape, or a null."""
    return lambda reply: reply is None or shape(reply)


def optional_blobs(length: int) -> Shape:
    """An array of so many bytes or nulls."""
    return lambda reply: type(reply) is list and len(reply) == length and _BYTES_OR_NONE.issuperset(map(type, reply))


def optional_numbers(length: int) -> Shape:
    """An array of so many scores or nulls."""
    are_texts = optional_blobs(length)
    # Written out: a deletion asks for a hundred thousand.
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
    """A step of a scan: where to go on, and what was found."""
    return record(cursor, found)


def _pairs(reply: Any) -> bool:
    return blobs(reply) and len(reply) % 2 == 0


def _always(shape: Shape) -> Callable[[Command], Shape]:
    return lambda command: shape


def _is_ok(reply: Any) -> bool:
    return bool(reply == b"OK")


def _of_range(command: Command) -> Shape:
    return scored if "WITHSCORES" in command else blobs


def _of_hscan(command: Command) -> Shape:
    return _step(blobs if "NOVALUES" in command else _pairs)


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
    **dict.fromkeys(("ZRANGE", "ZRANGEBYSCORE"), _of_range),
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
