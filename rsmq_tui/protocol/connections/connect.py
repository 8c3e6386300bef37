"""How connections are made: timeouts, limits of replies, counted traffic, and cancellation.

Cancellation: on Python 3.11, ``asyncio.wait_for``, in which redis-py writes, may drop a cancel that arrives when the
write is done and the waiting task has not continued. Connections made here end such a task all the same.

Limits: hiredis allocates whatever a reply announces, and redis-py handles each push message inside the one before it,
so a hostile server could take all memory with twelve bytes, or cause a RecursionError. ``ReplyReader`` stands between
redis-py and hiredis: it checks announced lengths first, and discards pushes in a loop. One reply takes at most about
twice ``REPLY_BYTES_MAX`` of memory for one long body, and a gigabyte for many elements.

What is used of redis-py's private names is used here only.
"""

import asyncio
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import hiredis
import redis
import redis.asyncio
from redis import Connection, SSLConnection, exceptions
from redis._parsers import _AsyncHiredisParser, _HiredisParser
from redis._parsers.hiredis import NOT_ENOUGH_DATA
from redis.asyncio import Connection as AsyncConnection
from redis.asyncio import SSLConnection as AsyncSSLConnection
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.connection import parse_url
from redis.credentials import UsernamePasswordCredentialProvider
from redis.driver_info import DriverInfo
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import InvalidResponse, RedisError
from redis.retry import Retry
from redis.utils import SENTINEL

from rsmq_tui.protocol.address import Address, Node, Password, Tls
from rsmq_tui.protocol.connections.topology import Question, Search, T, Topology, answered, answered_async, route_of
from rsmq_tui.protocol.errors import SERVER_ERRORS, ExplainedError, Failure, failure_of, redact

_lock = threading.Lock()
_under_way: dict[int, "Future[str]"] = {}


async def fetched(password: Password) -> str:
    """Return a password; whoever asks for the same one meanwhile waits for that fetch. It raises what the fetch raises.

    It is fetched in a thread of its own: asyncio's few would soon all wait, and with them DNS and the journal; and the
    program's end waits for those, but for this one it does not.
    """
    with _lock:
        future = _under_way.get(id(password))
        if future is None:
            future = _under_way[id(password)] = Future()
            # Now no cancel of one who waits ends it for the others.
            future.set_running_or_notify_cancel()
            thread = threading.Thread(target=_fetch, args=(password, future), name="password", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                del _under_way[id(password)]
                raise
    return await asyncio.wrap_future(future)


def _fetch(password: Password, future: "Future[str]") -> None:
    try:
        result = password()
    except BaseException as error:
        _forget(password)
        future.set_exception(error)
    else:
        _forget(password)
        future.set_result(result)


def _forget(password: Password) -> None:
    with _lock:
        del _under_way[id(password)]


@dataclass(slots=True)
class Traffic:
    """What one client has cost so far: bytes on the wire in both directions, and commands sent."""

    bytes_sent: int = 0
    bytes_received: int = 0
    commands: int = 0


def metered(base: type[Any], traffic: Traffic) -> type[Any]:
    """Make a connection class that counts its bytes: the reader's input, and each packed command."""

    class Metered(base):  # type: ignore[misc] # the base is chosen by the URL's scheme
        async def _connect(self) -> None:
            await super()._connect()
            reader: asyncio.StreamReader = self._reader
            feed: Callable[[bytes], None] = reader.feed_data

            def counted(data: bytes) -> None:
                traffic.bytes_received += len(data)
                feed(data)

            # asyncio offers no hook for this; an instance attribute stands before the method.
            vars(reader)["feed_data"] = counted

        def pack_command(self, *args: Any) -> list[bytes]:
            # The asyncio connection packs in Python; hiredis does it in a fifth of the time, which a poll feels.
            return [hiredis.pack_command(args)]

        async def send_packed_command(self, command: Any, check_health: bool = True) -> None:
            parts = [command] if isinstance(command, bytes | str) else command
            traffic.bytes_sent += sum(map(len, parts))
            await super().send_packed_command(parts, check_health=check_health)

    return Metered


def cancellable(base: type[Any]) -> type[Any]:
    """Make an asyncio connection class in which no cancel is lost; a connection that is cancelled is closed."""

    class Cancellable(base):  # type: ignore[misc] # the base is chosen by the URL's scheme
        async def connect_check_health(self, check_health: bool = True, retry_socket_connect: bool = True) -> None:
            before = cancels()
            try:
                await super().connect_check_health(check_health, retry_socket_connect)
            except Exception as error:
                await end_if_cancelled(self, before, error)
                raise
            await end_if_cancelled(self, before)

        async def send_packed_command(self, command: Any, check_health: bool = True) -> None:
            before = cancels()
            try:
                await super().send_packed_command(command, check_health=check_health)
            except Exception as error:
                await end_if_cancelled(self, before, error)
                if isinstance(error, AttributeError) and not self.is_connected:
                    # redis-py writes in a task of its own, which does not look whether somebody closed the connection.
                    raise RedisConnectionError("the connection was closed") from error
                raise
            await end_if_cancelled(self, before)

    return Cancellable


def cancels() -> int:
    """Return how many cancels of the running task are still to be answered."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


async def end_if_cancelled(connection: Any, before: int, error: Exception | None = None) -> None:
    """Raise the ``CancelledError`` that was lost, if there are more cancels than before."""
    if cancels() > before:
        # The command may be on its way: its reply is nobody's.
        await connection.disconnect(nowait=True)
        raise asyncio.CancelledError from error


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
        read, take_push, was_push = self._gets, self.take_push, False
        while True:
            try:
                reply = read(*decode)
            except (RedisError, hiredis.HiredisError):
                raise
            except (TypeError, ValueError, MemoryError, RecursionError) as error:
                # hiredis: a map whose keys are arrays, text that is none; its own objects are all that is made here.
                raise _refused("a reply that cannot be read") from error
            if type(reply) is hiredis.PushNotification:
                # A poll may be told of thousands.
                was_push = True
                self._pushes += 1
                if self._pushes > PUSHES_MAX:
                    raise _refused(f"more than {PUSHES_MAX:,} unrequested push messages")
                if take_push is not None:
                    take_push(reply)
                continue
            if was_push or reply is not NOT_ENOUGH_DATA:
                was_push = False
                self._begin_reply()
            if reply is not NOT_ENOUGH_DATA:
                self._pushes = 0
                return reply
            if not self._feed_next():
                return NOT_ENOUGH_DATA

    def _begin_reply(self) -> None:
        self._bytes = self._elements = self._arrays = self._lines = 0

    def _hold(self, data: bytes) -> None:
        """Keep what came, and note where arrays may be announced in it."""
        self._held, self._held_from = data, 0
        # Looking for a byte alone is quicker by far: most replies have a few of one of them, at the beginning.
        searched = (
            pattern.finditer(data, first, data.rfind(sign) + _HEADER_BYTES_MAX)
            for sign, pattern in _ANNOUNCEMENTS.items()
            if (first := data.find(sign)) >= 0
        )
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
        self._check_length(data, start, end, is_at_element)
        self._held_from = end
        if end == len(data):
            self._held, self._held_from = b"", 0
        self._bytes += end - start
        bytes_max = min(self.bytes_max, _bytes_max.get())
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
        """Count the elements of a large reply from above: by line ends, where it is not a long body that comes."""
        if self._reader.len() > _COUNTED_FROM_BYTES:
            return
        self._lines += data.count(b"\n", start, end)
        self._arrays += data.count(b"\n*", start, end) + data.count(b"\n~", start, end)
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


def reader_of(connection: Any) -> ReplyReader:
    """Return what reads the replies of an asyncio connection that was made here, once it is connected."""
    reader: ReplyReader = connection._parser._reader
    return reader


def writer_of(connection: Any) -> asyncio.StreamWriter | None:
    """Return what an asyncio connection writes to; None before it is connected."""
    writer: asyncio.StreamWriter | None = getattr(connection, "_writer", None)
    return writer


def _begins_line(data: bytes, place: int) -> bool:
    return place == 0 or data[place - 1] == 0x0A


def _refused(what: str) -> InvalidResponse:
    return InvalidResponse(f"the server sends {what}, {_UNUSUAL}")


def _too_long(what: str) -> ReplyTooLongError:
    return ReplyTooLongError(f"the server sends {what}, {_UNUSUAL}")


# A node that is gone without a word must not cost the time that a server is given to answer.
_QUESTION_TIMEOUT_S = 2.0
# The reply says that another server is the right one by now: the next connection looks for it.
_ELSEWHERE = (exceptions.MovedError, exceptions.ReadOnlyError, exceptions.ClusterDownError)
_OF_THE_URL_ALONE = ("host", "port", "db", "connection_class")
_LOST = (exceptions.ConnectionError, exceptions.TimeoutError)


def approaching_async(
    base: type[Any], address: Address, route: Topology | None, timeout_s: float, traffic: Traffic | None
) -> type[Any]:
    """Make a connection class for the asyncio client from redis-py's own for that URL."""
    base = _counted(cancellable(base), traffic)
    if route is None and _is_plain(address):
        return base

    class Approaching(base):  # type: ignore[misc] # the base is chosen by the URL's scheme
        credential_provider: Any

        async def connect_check_health(self, check_health: bool = True, retry_socket_connect: bool = True) -> None:
            if self.is_connected:
                return
            _check_files(address.tls)
            if route is not None:
                found = await search_async(address, route.find(), timeout_s, traffic)
                self.host, self.port = found.host, found.port
            if address.password is not None:
                self.credential_provider = _credentials(address.user, await fetched(address.password))
            try:
                await super().connect_check_health(check_health, retry_socket_connect)
            except _LOST as error:
                explained = _explained(error, address, None if route is None else found)
                if explained is None:
                    raise
                raise explained from error
            finally:
                self.credential_provider = None

    return Approaching if route is None else _leaving_async(Approaching)


def approaching(base: type[Any], address: Address, route: Topology | None, timeout_s: float) -> type[Any]:
    """Make a connection class for the synchronous client, as ``approaching_async`` does."""
    if route is None and _is_plain(address):
        return base

    class Approaching(base):  # type: ignore[misc] # the base is chosen by the URL's scheme
        credential_provider: Any

        def connect_check_health(self, check_health: bool = True, retry_socket_connect: bool = True) -> None:
            if self.is_connected:
                return
            _check_files(address.tls)
            if route is not None:
                found = answered(route.find(), lambda question: _ask(address, question, timeout_s))
                self.host, self.port = found.host, found.port
            if address.password is not None:
                self.credential_provider = _credentials(address.user, address.password())
            try:
                super().connect_check_health(check_health, retry_socket_connect)
            except _LOST as error:
                explained = _explained(error, address, None if route is None else found)
                if explained is None:
                    raise
                raise explained from error
            finally:
                self.credential_provider = None

        def read_response(self, *args: Any, **options: Any) -> Any:
            try:
                return super().read_response(*args, **options)
            except _ELSEWHERE:
                if route is not None:
                    self.mark_for_reconnect()
                raise

    return Approaching


def _is_plain(address: Address) -> bool:
    """Tell whether redis-py's own connection class does for that address."""
    return address.password is None and not address.is_secure and address.ended is None


def _leaving_async(base: type[Any]) -> type[Any]:
    """Make a connection be given up, once its replies are read, when it is told that another server is the right one.

    Apart from ``approaching_async`` because every reply passes here.
    """

    class Leaving(base):  # type: ignore[misc] # the base is chosen by the URL's scheme
        async def read_response(self, *args: Any, **options: Any) -> Any:
            try:
                return await super().read_response(*args, **options)
            except _ELSEWHERE:
                self.mark_for_reconnect()
                raise

    return Leaving


def _counted(base: type[Any], traffic: Traffic | None) -> type[Any]:
    return base if traffic is None else metered(base, traffic)


async def search_async(address: Address, search: Search[T], timeout_s: float, traffic: Traffic | None) -> T:
    """Carry out a search for servers of that address; raises ``ExplainedError``."""

    async def ask(question: Question) -> Any:
        way = _way_to(address, question)
        credentials = None if way.password is None else _credentials(way.user, await fetched(way.password))
        base: type[Any] = AsyncSSLConnection if way.is_secure else AsyncConnection
        connection = _counted(cancellable(base), traffic)(parser_class=GuardedAsyncParser, **way.options(timeout_s))
        connection.credential_provider = credentials
        try:
            await connection.connect()
            await connection.send_command(*question.command, check_health=False)
            return await connection.read_response()
        except SERVER_ERRORS as error:
            return error
        finally:
            await connection.disconnect(nowait=True)

    return await answered_async(search, ask)


def _ask(address: Address, question: Question, timeout_s: float) -> Any:
    way = _way_to(address, question)
    base: type[Any] = SSLConnection if way.is_secure else Connection
    connection = base(parser_class=GuardedParser, **way.options(timeout_s))
    connection.credential_provider = None if way.password is None else _credentials(way.user, way.password())
    try:
        connection.connect()
        connection.send_command(*question.command, check_health=False)
        return connection.read_response()
    except SERVER_ERRORS as error:
        return error
    finally:
        connection.disconnect()


@dataclass(frozen=True, slots=True)
class _Way:
    """How to get in where a question is asked."""

    node: Node
    is_secure: bool
    tls: Tls | None
    user: str | None
    password: Password | None
    others: dict[str, Any]

    def options(self, timeout_s: float) -> dict[str, Any]:
        """Return what redis-py's connections take."""
        _check_files(self.tls)
        wait_s = min(timeout_s, _QUESTION_TIMEOUT_S)
        return {
            **self.others,
            **({} if self.user is None else {"username": self.user}),
            **tls_options(self.tls),
            "host": self.node.host,
            "port": self.node.port,
            "socket_timeout": wait_s,
            "socket_connect_timeout": wait_s,
            "decode_responses": False,
            "protocol": 2,
            # A sentinel need not know who asks.
            "driver_info": None,
        }


def _way_to(address: Address, question: Question) -> _Way:
    sentinels = address.sentinels
    if question.to_sentinel and sentinels is not None:
        tls = sentinels.tls
        return _Way(question.node, tls is not None, tls, sentinels.user, sentinels.password, {})
    told: dict[str, Any] = parse_url(address.url)  # type: ignore[no-untyped-call] # redis-py has not typed it
    others = {name: value for name, value in told.items() if name not in _OF_THE_URL_ALONE}
    return _Way(question.node, address.is_secure, address.tls, address.user, address.password, others)


def _credentials(user: str | None, password: str) -> UsernamePasswordCredentialProvider:
    return UsernamePasswordCredentialProvider(user, password)


def tls_options(tls: Tls | None) -> dict[str, Any]:
    """Return what redis-py's connections take for TLS."""
    if tls is None:
        return {}
    return {
        "ssl_ca_certs": None if tls.ca is None else str(tls.ca),
        "ssl_certfile": None if tls.cert is None else str(tls.cert),
        "ssl_keyfile": None if tls.key is None else str(tls.key),
        "ssl_cert_reqs": "none" if tls.verify == "none" else "required",
        "ssl_check_hostname": tls.verify == "full",
        # Without one OpenSSL would ask whoever sits at the terminal for the password of a key.
        "ssl_password": "",
    }


def _check_files(tls: Tls | None) -> None:
    """Raise ``ExplainedError`` for a file that cannot be read; from redis-py's words nobody could tell which."""
    for path in () if tls is None else (tls.ca, tls.cert, tls.key):
        if path is None:
            continue
        try:
            path.open("rb").close()
        except OSError as error:
            failure = Failure("tls", f"{path} cannot be read: {error.strerror}", "the profile's tls_ keys name it")
            raise ExplainedError(failure) from error


def _explained(error: exceptions.RedisError, address: Address, found: Node | None) -> ExplainedError | None:
    """Say what redis-py cannot know: that the server has ended, which one others have named, that TLS was spoken."""
    if isinstance(error, exceptions.AuthenticationError):
        return None
    ended = None if address.ended is None else address.ended()
    if ended is not None:
        return ExplainedError(ended)
    failure = failure_of(error)
    is_silence = failure.kind == "timeout" and address.is_secure
    if found is None and not is_silence:
        return None
    if is_silence:
        failure = Failure("timeout", "the server does not answer in TLS", "check whether the port uses TLS")
    return ExplainedError(failure if found is None else replace(failure, sentence=f"{found}: {failure.sentence}"))


TIMEOUT_S = 5.0


def connect(server: Address | str, ns: str | None = None, *, timeout_s: float = TIMEOUT_S) -> redis.Redis:
    """Return a synchronous client for an address or a URL; no connection is made yet.

    In a cluster it is one of the node that holds the namespace, or of any node if none is named. It does not retry:
    redis-py's default takes seconds to say that a port is closed. Raises ValueError for a URL that cannot be one, with
    what is allowed.
    """
    address = Address.of(server)
    options = {**_options(address, timeout_s), "parser_class": GuardedParser}
    pool = redis.ConnectionPool.from_url(address.url, retry=Retry(NoBackoff(), 0), **options)
    pool.connection_class = approaching(pool.connection_class, address, route_of(address, ns), timeout_s)
    return redis.Redis.from_pool(pool)


def connect_async(
    server: Address | str,
    ns: str | None = None,
    *,
    timeout_s: float = TIMEOUT_S,
    traffic: Traffic | None = None,
    route: Topology | None = None,
) -> "redis.asyncio.Redis":
    """Return an asyncio client, as ``connect``; ``traffic`` is counted up as the client works.

    ``route`` finds the server instead of what the address says of that.
    """
    address = Address.of(server)
    options = {**_options(address, timeout_s), "parser_class": GuardedAsyncParser}
    pool = redis.asyncio.ConnectionPool.from_url(address.url, retry=AsyncRetry(NoBackoff(), 0), **options)
    pool.connection_class = approaching_async(
        pool.connection_class, address, route or route_of(address, ns), timeout_s, traffic
    )
    return redis.asyncio.Redis.from_pool(pool)


def _options(address: Address, timeout_s: float) -> dict[str, Any]:
    options: dict[str, Any] = {
        "socket_timeout": timeout_s,
        "socket_connect_timeout": timeout_s,
        "decode_responses": False,
        # RESP2 spares a HELLO, which old servers and restricted users may not send.
        "protocol": 2,
        # Shown by CLIENT LIST; a server that does not know CLIENT SETINFO is not an error.
        "driver_info": DriverInfo(name="rsmq-tui"),
    }
    if address.user is not None:
        options["username"] = address.user
    return options | tls_options(address.tls)
