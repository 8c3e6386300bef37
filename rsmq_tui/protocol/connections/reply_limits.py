"""Limits what the reply of a server may take: ``ReplyReader`` stands between redis-py and hiredis.

hiredis allocates whatever a reply announces, and redis-py handles each push message inside the one before it, so a
hostile server could take all memory with twelve bytes, or cause a RecursionError. The reader checks announced lengths
first, and discards pushes in a loop. One reply takes at most about twice ``REPLY_BYTES_MAX`` of memory for one long
body, and a gigabyte for many elements.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain
from typing import Any

import hiredis
from redis._parsers.hiredis import NOT_ENOUGH_DATA
from redis.exceptions import InvalidResponse, RedisError

# By default, Redis limits a value to 512 MB.
REPLY_BYTES_MAX = 600_000_000
# A poll reads no bodies. Its largest replies are an index of a million names, and hundreds of rows.
POLL_REPLY_BYTES_MAX = 64_000_000
# The sum over the arrays of 100 elements and more in one reply. An index can have a million names.
ELEMENTS_MAX = 10_000_000
# Arrays within one reply: each takes up to 900 bytes before its elements arrive. A page has a few hundred.
ARRAYS_MAX = 1_000_000
# A status, an error or a number: hiredis searches it from the start each time more of it arrives.
LINE_BYTES_MAX = 1_000_000
# Push messages between two replies. The server reports a changed key once, until the key is read again.
PUSHES_MAX = 1_000_000
# The elements of a reply larger than this are counted, unless more than ``_BODY_BYTES`` of one of them have arrived.
_COUNTED_FROM_BYTES = 1_000_000
_BODY_BYTES = 256_000
# hiredis keeps a buffer of this length.
_KEPT_BYTES_MAX = 16_384
# Data after the last line end may be an incomplete array header if it is no longer than this.
_HEADER_BYTES_MAX = 32

# One pattern for each type of array: a fixed first byte is ten times as fast as a character class.
_ANNOUNCEMENTS = {sign: re.compile(re.escape(sign) + rb"(\d{3,})\r?") for sign in (b"*", b"~", b"%", b">", b"|")}
_CUT_ANNOUNCEMENT = re.compile(rb"[*~%>|]\d*\r?")
_LENGTH = re.compile(rb"[$=](\d{9,})\r?")
_LENGTH_SIGNS = b"$=*~%>|"
_UNUSUAL = "which no Redis server does"

reply_bytes_max: ContextVar[int] = ContextVar("reply_bytes_max", default=REPLY_BYTES_MAX)


class ReplyTooLongError(InvalidResponse):
    """A reply is longer than the limit; the rest of it is not read, and its connection is closed."""


@contextmanager
def replies_of_at_most(bytes_max: int) -> Iterator[None]:
    """Make calls in the ``with`` block raise ``ReplyTooLongError`` for longer replies."""
    token = reply_bytes_max.set(bytes_max)
    try:
        yield
    finally:
        reply_bytes_max.reset(token)


class ReplyReader:
    """Reads replies as ``hiredis.Reader`` does, and raises ``InvalidResponse`` for one that exceeds the limits.

    ``take_push`` is called with each push message; without it they are discarded. ``bytes_max`` limits a whole reply.
    """

    def __init__(self, reader: Any) -> None:
        self.take_push: Callable[[list[Any]], None] | None = None
        self.bytes_max = REPLY_BYTES_MAX
        self._reader = reader
        self._gets = reader.gets
        # Not yet fed: starts at the next array header, which can be checked when all before it has been parsed.
        self._held = b""
        self._marks: list[tuple[int, int]] = []
        self._held_from = 0
        # Bytes received of an unfinished line that does not announce a length; 0 if there is none.
        self._line_bytes = 0
        self._pushes = self._bytes = 0
        self._begin_reply()

    def feed(self, data: Any, start: int = 0, length: int | None = None) -> None:
        """Take data from the server."""
        fresh = bytes(data) if length is None else bytes(memoryview(data)[start : start + length])
        rest = self._held[self._held_from :]
        self._hold(rest + fresh if rest else fresh)

    @property
    def arrived(self) -> int:
        """How many bytes of the next reply have arrived."""
        return self._bytes

    @property
    def is_between_replies(self) -> bool:
        """Whether nothing has arrived since the last reply."""
        return self._bytes == 0 and not self.has_data()

    def has_data(self) -> bool:
        """Return whether there is data that was not returned yet."""
        return self._held_from < len(self._held) or bool(self._reader.has_data())

    def gets(self, *decode: bool) -> Any:
        """Return the next reply, or redis-py's mark for "not enough data"."""
        read, take_push, was_push = self._gets, self.take_push, False
        while True:
            try:
                reply = read(*decode)
            except (RedisError, hiredis.HiredisError):
                raise
            except (TypeError, ValueError, MemoryError, RecursionError) as error:
                # Raised by hiredis, such as for a map whose keys are arrays; no code of ours runs in ``read``.
                raise _refused("a reply that cannot be read") from error
            if type(reply) is hiredis.PushNotification:
                # One poll may get thousands.
                was_push = True
                self._pushes += 1
                if self._pushes > PUSHES_MAX:
                    raise _refused(f"more than {PUSHES_MAX:,} unrequested push messages")
                if take_push is not None:
                    take_push(reply)
                continue
            if reply is not NOT_ENOUGH_DATA:
                self._free_buffer()
                self._begin_reply()
                self._pushes = 0
                return reply
            if was_push:
                was_push = False
                self._begin_reply()
            if not self._feed_next():
                return NOT_ENOUGH_DATA

    def _free_buffer(self) -> None:
        """Free the buffer of a long reply that has just ended; a push may be followed by a part of the next one."""
        if self._bytes > _KEPT_BYTES_MAX and not self.has_data():
            # hiredis frees it when more arrives, which may be hours later. An empty status counts as that.
            self._reader.feed(b"+\r\n")
            self._reader.gets()

    def _begin_reply(self) -> None:
        self._bytes = self._elements = self._arrays = self._lines = 0

    def _hold(self, data: bytes) -> None:
        """Keep the data, and note where it may hold array headers."""
        self._held, self._held_from = data, 0
        # Finding the byte first is much faster: most replies have few arrays of one type, at the beginning.
        searched = (
            pattern.finditer(data, first, data.rfind(sign) + _HEADER_BYTES_MAX)
            for sign, pattern in _ANNOUNCEMENTS.items()
            if (first := data.find(sign)) >= 0
        )
        found = chain.from_iterable(searched)
        marks = [(match.start(), int(match[1][:19])) for match in found if _begins_line(data, match.start())]
        last = data.rfind(b"\n") + 1
        if len(data) - last <= _HEADER_BYTES_MAX and _CUT_ANNOUNCEMENT.fullmatch(data, last):
            # The number is incomplete, so no reply ends here.
            marks = [mark for mark in marks if mark[0] < last]
            marks.append((last, -1))
        self._marks = sorted(marks, reverse=True)

    def _feed_next(self) -> bool:
        """Feed the next part, and return whether there was one; hiredis has parsed all that it was fed before."""
        start, data = self._held_from, self._held
        if start >= len(data):
            return False
        is_at_element = not self._reader.has_data()
        if self._marks and self._marks[-1][0] == start:
            announced = self._marks[-1][1]
            # Between two elements this is an array header; otherwise it is part of a body.
            if announced < 0:
                return False
            self._marks.pop()
            if is_at_element:
                self._announce(announced)
        end = self._marks[-1][0] if self._marks else len(data)
        self._check_length(data, start, end, is_at_element)
        self._held_from = end
        if end == len(data):
            self._held, self._held_from = b"", 0
        self._bytes += end - start
        bytes_max = min(self.bytes_max, reply_bytes_max.get())
        if self._bytes > bytes_max:
            raise _too_long(f"a reply of more than {bytes_max:,} bytes")
        if self._bytes > _COUNTED_FROM_BYTES:
            self._count(data, start, end)
        self._reader.feed(data, start, end - start)
        return end > start

    def _announce(self, elements: int) -> None:
        self._elements += elements
        if self._elements > ELEMENTS_MAX:
            raise _refused(f"a reply of {self._elements:,} elements")

    def _check_length(self, data: bytes, start: int, end: int, is_at_element: bool) -> None:
        if is_at_element:
            if (match := _LENGTH.match(data, start, end)) and int(match[1][:19]) > self.bytes_max:
                raise _too_long(f"a reply of {int(match[1][:19]):,} bytes")
            self._line_bytes = 0 if data[start] in _LENGTH_SIGNS else end - start
        elif self._line_bytes:
            self._line_bytes += end - start
        if self._line_bytes and data.find(b"\n", start, end) >= 0:
            self._line_bytes = 0
        if self._line_bytes > LINE_BYTES_MAX:
            raise _refused(f"a line of more than {LINE_BYTES_MAX:,} bytes")

    def _count(self, data: bytes, start: int, end: int) -> None:
        """Count at least as many elements as a large reply has, by line ends, unless a long body is arriving."""
        if self._reader.len() > _BODY_BYTES:
            return
        self._lines += data.count(b"\n", start, end)
        # To find one byte is much faster than to count two, and few bodies have one of these.
        if data.find(b"*", start, end) >= 0:
            self._arrays += data.count(b"\n*", start, end)
        if data.find(b"~", start, end) >= 0:
            self._arrays += data.count(b"\n~", start, end)
        if self._lines > ELEMENTS_MAX or self._arrays > ARRAYS_MAX:
            raise _refused(f"a reply of more than {min(self._lines, ELEMENTS_MAX):,} elements")


def _begins_line(data: bytes, place: int) -> bool:
    return place == 0 or data[place - 1] == 0x0A


def _refused(what: str) -> InvalidResponse:
    return InvalidResponse(f"the server sends {what}, {_UNUSUAL}")


def _too_long(what: str) -> ReplyTooLongError:
    return ReplyTooLongError(f"the server sends {what}, {_UNUSUAL}")
