"""RESP, the protocol of Redis: parses requests and encodes replies.

A reply is a plain value, and its type says how it is sent:

    int                 integer
    bytes               bulk string
    str                 simple string, such as ``OK``
    None, NO_ARRAY      null; in RESP2 the null bulk string and the null array
    list, tuple         array
    dict                map; in RESP2 an array of keys and values
    set                 set; in RESP2 an array
    float               double; in RESP2 a bulk string
    CommandError        error

Limits and error texts are those of Redis (``networking.c``): https://redis.io/docs/latest/develop/reference/protocol-spec/
"""

from collections.abc import Callable
from math import isinf, isnan

INLINE_LIMIT = 64 * 1024
ARGUMENTS_LIMIT = 1024 * 1024
BULK_LIMIT = 512 * 1024 * 1024
# What a connection may send before it has given its password.
_ARGUMENTS_LIMIT_BEFORE_AUTH = 10
_BULK_LIMIT_BEFORE_AUTH = 16384

_ESCAPES = {0x6E: b"\n", 0x72: b"\r", 0x74: b"\t", 0x62: b"\b", 0x61: b"\a"}
_HEX = frozenset(b"0123456789abcdefABCDEF")
_QUOTE, _APOSTROPHE, _BACKSLASH, _X = b"\"'\\x"
_SPACES = frozenset(b" \t\n\r\v\f\0")


class CommandError(Exception):
    """A command was refused; the text is the reply, and begins with the error's code, such as ``ERR``."""


class ProtocolError(Exception):
    """The bytes are not a request; the connection gets this as an error and is closed."""


class _NoArray:
    """The type of ``NO_ARRAY``."""


NO_ARRAY = _NoArray()

Reply = object


class Requests:
    """Splits the data of a connection into requests; an incomplete request is kept."""

    def __init__(self, bulk_limit: int = BULK_LIMIT, *, is_trusted: bool = True) -> None:
        self.bulk_limit = bulk_limit
        self.is_trusted = is_trusted
        """Whether the connection is authenticated, so that the higher limits apply."""
        self.size = 0
        """Bytes received of incomplete requests."""
        self._chunks: list[bytes] = []
        self._position = 0
        self._needed = 1
        self._arguments: list[bytes] = []
        self._missing = 0
        self._bulk_size = -1

    def feed(self, data: bytes) -> None:
        """Add what was received."""
        self._chunks.append(data)
        self.size += len(data)

    def next(self) -> list[bytes] | None:
        """Return the arguments of the next request, or None until more is received; raises ``ProtocolError``."""
        while self.size >= self._needed:
            if len(self._chunks) > 1:
                # Joined only when there is enough data, so that a large value in many parts is copied once.
                self._chunks[0] = self._chunks[0][self._position :]
                self._chunks = [b"".join(self._chunks)]
                self._position = 0
            if not self._missing:
                request = self._begin(self._chunks[0])
            else:
                request = self._arguments if self._read_arguments(self._chunks[0]) else None
            if request is None:
                break
            self._arguments = []
            if request:
                return request
        return None

    def _begin(self, data: bytes) -> list[bytes] | None:
        """Read the first line: the arguments of an inline request, [] for an empty array, None if incomplete."""
        if data[self._position] != 0x2A:  # *
            line = self._line(data, "too big inline request", b"\n")
            return None if line is None else split_inline(line.removesuffix(b"\r"))
        line = self._line(data, "too big mbulk count string")
        if line is None:
            return None
        count = _size(line[1:])
        if count is None or count > ARGUMENTS_LIMIT:
            raise ProtocolError("invalid multibulk length")
        if count > _ARGUMENTS_LIMIT_BEFORE_AUTH and not self.is_trusted:
            raise ProtocolError("unauthenticated multibulk length")
        self._missing = max(count, 0)
        if not self._missing:
            return []
        return self._arguments if self._read_arguments(data) else None

    def _read_arguments(self, data: bytes) -> bool:
        """Read bulk strings; return whether the request is complete."""
        arguments = self._arguments
        while self._missing:
            if self._bulk_size < 0:
                line = self._line(data, "too big bulk count string")
                if line is None:
                    return False
                if line[:1] != b"$":
                    raise ProtocolError(f"expected '$', got '{chr(line[0]) if line else chr(13)}'")
                size = _size(line[1:])
                if size is None or not 0 <= size <= self.bulk_limit:
                    raise ProtocolError("invalid bulk length")
                if size > _BULK_LIMIT_BEFORE_AUTH and not self.is_trusted:
                    raise ProtocolError("unauthenticated bulk length")
                self._bulk_size = size
            end = self._position + self._bulk_size
            if end + 2 > len(data):
                self._needed = self._bulk_size + 2
                return False
            arguments.append(data[self._position : end])
            self._take(end + 2)
            self._bulk_size = -1
            self._missing -= 1
        return True

    def _line(self, data: bytes, too_long: str, end_of_line: bytes = b"\r\n") -> bytes | None:
        end = data.find(end_of_line, self._position)
        if end < 0:
            if self.size > INLINE_LIMIT:
                raise ProtocolError(too_long)
            self._needed = self.size + 1
            return None
        line = data[self._position : end]
        self._take(end + len(end_of_line))
        return line

    def _take(self, position: int) -> None:
        self.size -= position - self._position
        self._position = position
        self._needed = 1


def _size(digits: bytes) -> int | None:
    return int(digits) if digits.removeprefix(b"-").isdigit() and len(digits) <= 20 else None


def split_inline(line: bytes) -> list[bytes]:  # noqa: PLR0912 - one branch for each sign
    r"""Split a line as a shell would: ``"…"`` with ``\n`` and ``\x00``, ``'…'`` without; raises ``ProtocolError``."""
    words: list[bytes] = []
    position, end = 0, len(line)
    while True:
        while position < end and line[position] in _SPACES:
            position += 1
        if position == end:
            return words
        word = bytearray()
        quote = 0
        while position < end and (quote or line[position] not in _SPACES):
            byte = line[position]
            position += 1
            if byte == _BACKSLASH and quote == _QUOTE and position < end:
                digits = line[position + 1 : position + 3]
                if line[position] == _X and len(digits) == 2 and _HEX.issuperset(digits):
                    word.append(int(digits, 16))
                    position += 3
                else:
                    word += _ESCAPES.get(line[position], line[position : position + 1])
                    position += 1
            elif quote == _APOSTROPHE and line[position - 1 : position + 1] == b"\\'":
                word.append(_APOSTROPHE)
                position += 1
            elif quote and byte == quote:
                quote = 0
                if position < end and line[position] not in _SPACES:
                    raise ProtocolError("unbalanced quotes in request")
                break
            elif not quote and byte in (_QUOTE, _APOSTROPHE):
                quote = byte
            else:
                word.append(byte)
        if quote:
            raise ProtocolError("unbalanced quotes in request")
        words.append(bytes(word))


def encode(reply: Reply, write: Callable[[bytes], object], version: int = 2) -> None:
    """Write a reply as RESP2 or RESP3."""
    if isinstance(reply, int):
        write(b":%d\r\n" % reply)
    elif isinstance(reply, bytes):
        write(b"$%d\r\n%b\r\n" % (len(reply), reply))
    elif reply is None or reply is NO_ARRAY:
        write(b"_\r\n" if version == 3 else b"$-1\r\n" if reply is None else b"*-1\r\n")
    elif isinstance(reply, str):
        write(b"+%b\r\n" % reply.encode())
    elif isinstance(reply, CommandError):
        write(b"-%b\r\n" % str(reply).translate(_ONE_LINE).encode("utf-8", "surrogateescape"))
    elif isinstance(reply, float):
        write(b",%b\r\n" % number(reply)) if version == 3 else encode(number(reply), write)
    elif isinstance(reply, dict):
        write((b"%%%d\r\n" if version == 3 else b"*%d\r\n") % (len(reply) * (1 if version == 3 else 2)))
        for key, value in reply.items():
            encode(key, write, version)
            encode(value, write, version)
    elif isinstance(reply, list | tuple | set | frozenset):
        write((b"~%d\r\n" if version == 3 and isinstance(reply, set | frozenset) else b"*%d\r\n") % len(reply))
        for element in reply:
            encode(element, write, version)
    else:
        raise TypeError(f"{reply!r} is not a reply")


_ONE_LINE = {10: " ", 13: " "}


def number(value: float) -> bytes:
    """Return a number as Redis prints a score: ``1``, ``1.5``, ``inf``, at most 17 digits."""
    if isnan(value):
        return b"nan"
    if isinf(value):
        return b"inf" if value > 0 else b"-inf"
    if value == int(value) and abs(value) < 1e17:
        return b"%d" % int(value)
    return repr(value).encode()
