"""The parsers of our connections: what a server may send as one reply has limits, enforced below redis-py.

hiredis allocates whatever a reply announces, and redis-py handles each push message inside the one before it. A server
that lies could take all memory with twelve bytes, or end the program with a RecursionError. ``ReplyReader`` stands
between redis-py and hiredis: it looks at announced lengths before hiredis does, and discards pushes in a loop.

Memory for one reply is at most about twice ``REPLY_BYTES_MAX`` for one long body, and a gigabyte for many elements.
"""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain
from typing import Any

import hiredis
from redis import exceptions
from redis._parsers import _AsyncHiredisParser, _HiredisParser
from redis._parsers.hiredis import NOT_ENOUGH_DATA
from redis.exceptions import InvalidResponse, RedisError
from redis.utils import SENTINEL

from rsmq_tui.protocol.redaction import redact

# Redis itself stores no more than 512 MB under a key.
REPLY_BYTES_MAX = 600_000_000
# A poll reads no bodies: a million names in the index, and rows by the hundreds.
POLL_REPLY_BYTES_MAX = 64_000_000
# Announced by arrays of 100 elements and more of one reply, together. An index of a million names is real.
ELEMENTS_MAX = 10_000_000
# Arrays within one reply: each takes up to 900 bytes before its elements have come. A page has a few hundred.
ARRAYS_MAX = 1_000_000
# A status, an error or a number, which hiredis searches for its end again whenever more of it comes.
LINE_BYTES_MAX = 1_000_000
# Pushes between two replies; the server tells no more of a key than that it changed, until it is read again.
PUSHES_MAX = 1_000_000
# From here on a reply is so large that its elements are counted.
_COUNTED_FROM_BYTES = 256_000
# What follows the last line end may be the beginning of an announcement, if it is no longer than that.
_HEADER_BYTES_MAX = 32

# One pattern for each type of array: one that begins with a fixed byte is ten times as fast as one with a class.
_ANNOUNCEMENTS = {sign: re.compile(re.escape(sign) + rb"(\d{3,})\r?") for sign in (b"*", b"~", b"%", b">", b"|")}
_CUT_ANNOUNCEMENT = re.compile(rb"[*~%>|]\d*\r?")
_LENGTH = re.compile(rb"[$=](\d{9,})\r?")
_LENGTH_SIGNS = b"$=*~%>|"
_UNUSUAL = "which no Redis server does"

_bytes_max: ContextVar[int] = ContextVar("_bytes_max", default=REPLY_BYTES_MAX)


class ReplyTooLongError(InvalidResponse):
    """A reply is longer than this program takes; the rest of it is not read, and its connection is closed."""


@contextmanager
def replies_of_at_most(bytes_max: int) -> Iterator[None]:
    """Let calls within raise ``ReplyTooLongError`` for replies that are longer than that."""
    token = _bytes_max.set(bytes_max)
    try:
        yield
    finally:
        _bytes_max.reset(token)


class ReplyReader:
    """Reads replies as ``hiredis.Reader`` does, and raises ``InvalidResponse`` for one that goes beyond the limits.

    ``take_push`` is given each push message; without it they are discarded. ``bytes_max`` is for a whole reply.
    """

    def __init__(self, reader: Any) -> None:
        self.take_push: Callable[[list[Any]], None] | None = None
        self.bytes_max = REPLY_BYTES_MAX
        self._reader = reader
        self._gets = reader.gets
        # Fed later: from the next announcement on, which can be judged when all before it has been read.
        self._held = b""
        self._marks: list[tuple[int, int]] = []
        self._held_from = 0
        # How much has come of a line that has not ended, where it is known to be none with a length.
        self._line_bytes = 0
        self._pushes = 0
        self._begin_reply()

    def feed(self, data: Any, start: int = 0, length: int | None = None) -> None:
        """Take what came from the server."""
        fresh = bytes(data) if length is None else bytes(memoryview(data)[start : start + length])
        rest = self._held[self._held_from :]
        self._hold(rest + fresh if rest else fresh)

    @property
    def is_between_replies(self) -> bool:
        """Whether nothing came since the last reply."""
        return self._bytes == 0 and not self.has_data()

    def has_data(self) -> bool:
        """Tell whether something came that was not returned yet."""
        return self._held_from < len(self._held) or bool(self._reader.has_data())

    def gets(self, *decode: bool) -> Any:
        """Return the next reply, or redis-py's mark for "not enough data"."""
        while True:
            try:
                reply = self._gets(*decode)
            except (RedisError, hiredis.HiredisError):
                raise
            except (TypeError, ValueError, MemoryError, RecursionError) as error:
                # hiredis: a map whose keys are arrays, text that is none; its own objects are all that is made here.
                raise _refused("a reply that cannot be read") from error
            if type(reply) is hiredis.PushNotification:
                self._bytes = self._elements = self._arrays = self._lines = 0
                self._pushes += 1
                if self._pushes > PUSHES_MAX:
                    raise _refused(f"more than {PUSHES_MAX:,} unrequested push messages")
                if self.take_push is not None:
                    self.take_push(reply)
            elif reply is not NOT_ENOUGH_DATA:
                self._begin_reply()
                self._pushes = 0
                return reply
            elif not self._feed_next():
                return NOT_ENOUGH_DATA

    def _begin_reply(self) -> None:
        self._bytes = self._elements = self._arrays = self._lines = 0

    def _hold(self, data: bytes) -> None:
        """Keep what came, and note where arrays may be announced in it."""
        self._held, self._held_from = data, 0
        # Looking for a byte alone is quicker by far, and most replies have none of the rarer ones.
        searched = (pattern.finditer(data) for sign, pattern in _ANNOUNCEMENTS.items() if sign in data)
        found = chain.from_iterable(searched)
        marks = [(match.start(), int(match[1][:19])) for match in found if _begins_line(data, match.start())]
        last = data.rfind(b"\n") + 1
        if len(data) - last <= _HEADER_BYTES_MAX and _CUT_ANNOUNCEMENT.fullmatch(data, last):
            # The rest of the number is yet to come. No reply ends here.
            marks = [mark for mark in marks if mark[0] < last]
            marks.append((last, -1))
        self._marks = sorted(marks, reverse=True)

    def _feed_next(self) -> bool:
        """Feed what can be fed, and tell whether that was anything; hiredis has read all that it was fed before."""
        start, data = self._held_from, self._held
        if start >= len(data):
            return False
        is_at_element = not self._reader.has_data()
        if self._marks and self._marks[-1][0] == start:
            announced = self._marks[-1][1]
            # Between two elements it is one; else it is part of a body.
            if announced < 0:
                return False
            self._marks.pop()
            if is_at_element:
                self._announce(announced)
        end = self._marks[-1][0] if self._marks else len(data)
        part = data if start == 0 and end == len(data) else data[start:end]
        self._check_length(part, is_at_element)
        self._held_from = end
        if end == len(data):
            self._held, self._held_from = b"", 0
        self._bytes += len(part)
        bytes_max = min(self.bytes_max, _bytes_max.get())
        if self._bytes > bytes_max:
            raise _too_long(f"a reply of more than {bytes_max:,} bytes")
        if self._bytes > _COUNTED_FROM_BYTES:
            self._count(part)
        self._reader.feed(part)
        return bool(part)

    def _announce(self, elements: int) -> None:
        self._elements += elements
        if self._elements > ELEMENTS_MAX:
            raise _refused(f"a reply of {self._elements:,} elements")

    def _check_length(self, part: bytes, is_at_element: bool) -> None:
        if is_at_element:
            if (match := _LENGTH.match(part)) and int(match[1][:19]) > self.bytes_max:
                raise _too_long(f"a reply of {int(match[1][:19]):,} bytes")
            self._line_bytes = 0 if part[0] in _LENGTH_SIGNS else len(part)
        elif self._line_bytes:
            self._line_bytes += len(part)
        if self._line_bytes and b"\n" in part:
            self._line_bytes = 0
        if self._line_bytes > LINE_BYTES_MAX:
            raise _refused(f"a line of more than {LINE_BYTES_MAX:,} bytes")

    def _count(self, part: bytes) -> None:
        """Count the elements of a large reply from above: by line ends, where it is not a long body that comes."""
        if self._reader.len() > _COUNTED_FROM_BYTES:
            return
        self._lines += part.count(b"\n")
        self._arrays += part.count(b"\n*") + part.count(b"\n~")
        if self._lines > ELEMENTS_MAX or self._arrays > ARRAYS_MAX:
            raise _refused(f"a reply of more than {min(self._lines, ELEMENTS_MAX):,} elements")


class GuardedAsyncParser(_AsyncHiredisParser):
    """redis-py's parser for asyncio connections, with limits, and without the password in what the server says."""

    def on_connect(self, connection: Any) -> None:
        """Begin to read a connection."""
        # What makes an exception of an error reply; hiredis asks for it when the connection begins.
        vars(self)["parse_error"] = _without_password(connection, super().parse_error)
        super().on_connect(connection)  # type: ignore[no-untyped-call]
        self._reader: Any = ReplyReader(self._reader)


class GuardedParser(_HiredisParser):
    """``GuardedAsyncParser`` for synchronous connections; a reply that comes drop by drop has an end as well."""

    def on_connect(self, connection: Any, **options: Any) -> None:
        """Begin to read a connection."""
        # What makes an exception of an error reply; hiredis asks for it when the connection begins.
        vars(self)["parse_error"] = _without_password(connection, super().parse_error)
        super().on_connect(connection, **options)  # type: ignore[no-untyped-call]
        self._reader: Any = ReplyReader(self._reader)
        self._begun_s = 0.0

    def read_from_socket(self, timeout: Any = SENTINEL, raise_on_timeout: bool = True) -> bool:
        """Read what has come; a whole reply gets the time that redis-py gives each part of it."""
        now_s = time.monotonic()
        if self._reader is None or self._reader.is_between_replies:
            self._begun_s = now_s
        elif timeout is SENTINEL and self._socket_timeout is not None and now_s - self._begun_s > self._socket_timeout:
            raise exceptions.TimeoutError("Timeout reading from socket")
        return bool(super().read_from_socket(timeout, raise_on_timeout))  # type: ignore[no-untyped-call]


def _without_password(connection: Any, parse_error: Callable[[str], Exception]) -> Callable[[str], Exception]:
    """Strike out of error replies what a connection is about to authenticate with."""
    password = getattr(connection.credential_provider, "password", None) or connection.password
    return lambda response: parse_error(redact(response, password))


def _begins_line(data: bytes, place: int) -> bool:
    return place == 0 or data[place - 1] == 0x0A


def _refused(what: str) -> InvalidResponse:
    return InvalidResponse(f"the server sends {what}, {_UNUSUAL}")


def _too_long(what: str) -> ReplyTooLongError:
    return ReplyTooLongError(f"the server sends {what}, {_UNUSUAL}")
