"""Makes connections: timeouts, reply limits, counted traffic, cancellation, and contexts.

Cancellation: on Python 3.11, ``asyncio.wait_for``, in which redis-py writes, may drop a cancellation that
arrives after the write and before the waiting task continues. Connections made here raise it all the same.

Contexts: the event loop keeps the context of the task that opens a connection for as long as it is open. In a Textual
app that context has the screen, so each connection of a pool would keep a closed screen in memory.

Limits: the parsers read through a ``ReplyReader``, which refuses replies that would take too much memory.

Private names of redis-py are used in this module and in ``reply_limits`` only.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import hiredis
from redis import exceptions
from redis._parsers import _AsyncHiredisParser, _HiredisParser
from redis.asyncio.connection import Connection as AsyncConnection
from redis.asyncio.connection import ConnectionPool as AsyncConnectionPool
from redis.asyncio.connection import SSLConnection as AsyncSSLConnection
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.credentials import UsernamePasswordCredentialProvider
from redis.driver_info import DriverInfo
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.utils import SENTINEL

from rsmq_tui import __version__
from rsmq_tui.protocol.address import Address, Node, Password, Tls
from rsmq_tui.protocol.connections.reply_limits import ReplyReader, reply_bytes_max
from rsmq_tui.protocol.connections.topology import Question, Search, T, Topology, answered, answered_async, topology_of
from rsmq_tui.protocol.errors import SERVER_ERRORS, ExplainedError, Failure, failure_of, redact

if TYPE_CHECKING:
    from redis import Redis
    from redis.asyncio import Redis as AsyncRedis

_lock = threading.Lock()
_under_way: dict[int, "Future[str]"] = {}


async def fetched(password: Password) -> str:
    """Call ``password`` in a thread; concurrent calls for the same one share one fetch. Raises what it raises.

    The thread is a daemon of its own. In asyncio's thread pool, slow fetches would block DNS lookups and the journal,
    and the program could not exit before they end.
    """
    with _lock:
        future = _under_way.get(id(password))
        if future is None:
            future = _under_way[id(password)] = Future()
            # From now on the future cannot be cancelled, so a caller that is cancelled does not end it for the others.
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
    """What one client has sent and received so far: bytes in both directions, and commands.

    ``replaced`` is how many connections of polls broke and were replaced within the poll, so that it did not fail.
    """

    bytes_sent: int = 0
    bytes_received: int = 0
    commands: int = 0
    replaced: int = 0


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

            # asyncio offers no hook for this; an instance attribute shadows the method.
            vars(reader)["feed_data"] = counted

        def pack_command(self, *args: Any) -> list[bytes]:
            # redis-py's asyncio connection packs in Python; hiredis takes a fifth of the time, which matters for polls.
            return [hiredis.pack_command(args)]

        async def send_packed_command(self, command: Any, check_health: bool = True) -> None:
            parts = [command] if isinstance(command, bytes | str) else command
            traffic.bytes_sent += sum(map(len, parts))
            await super().send_packed_command(parts, check_health=check_health)

    return Metered


def contextless(base: type[Any]) -> type[Any]:
    """Make an asyncio connection class that keeps no context of the tasks that use it."""

    class Contextless(base):  # type: ignore[misc] # the base is chosen by the URL's scheme
        async def _connect(self) -> None:
            context = Context()
            # Over a Unix socket, redis-py logs in here.
            context.run(reply_bytes_max.set, reply_bytes_max.get())
            try:
                await asyncio.create_task(super()._connect(), context=context)
            except BaseException:
                # Cancelled after it was opened, it would go back to the pool without a login.
                await self.disconnect(nowait=True)
                raise
            if self._reader is None:
                raise RedisConnectionError("the connection was closed")
            reader: asyncio.StreamReader = self._reader
            vars(reader)["_transport"] = _Resuming(self._writer.transport)

    return Contextless


class _Resuming:
    """The transport of a stream that was paused because its buffer is full; it resumes in a context of its own.

    The event loop would keep that of the task that reads from the stream.
    """

    def __init__(self, transport: Any) -> None:
        self.pause_reading = transport.pause_reading
        self.resume_reading = partial(Context().run, transport.resume_reading)


def cancellable(base: type[Any]) -> type[Any]:
    """Make an asyncio connection class in which no cancellation is lost; a cancelled connection is closed."""

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
                    # redis-py writes in a task of its own, which does not check whether the connection was closed.
                    raise RedisConnectionError("the connection was closed") from error
                raise
            await end_if_cancelled(self, before)

    return Cancellable


def cancels() -> int:
    """Return how many cancellations of the running task are pending."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


async def end_if_cancelled(connection: Any, before: int, error: Exception | None = None) -> None:
    """Raise the ``CancelledError`` that was lost, if there are more cancellations than ``before``."""
    if cancels() > before:
        # The command may have been sent, and nobody will read its reply.
        await connection.disconnect(nowait=True)
        raise asyncio.CancelledError from error


class GuardedAsyncParser(_AsyncHiredisParser):
    """redis-py's parser for asyncio connections, with limits, and with the password removed from errors."""

    def on_connect(self, connection: Any) -> None:
        """Start reading a connection."""
        # Turns an error reply into an exception; hiredis reads this attribute when the connection starts.
        vars(self)["parse_error"] = _without_password(connection, super().parse_error)
        super().on_connect(connection)  # type: ignore[no-untyped-call]
        self._reader: Any = ReplyReader(self._reader)


class GuardedParser(_HiredisParser):
    """``GuardedAsyncParser`` for synchronous connections; it also limits the time of a slow reply."""

    def on_connect(self, connection: Any, **options: Any) -> None:
        """Start reading a connection."""
        # Turns an error reply into an exception; hiredis reads this attribute when the connection starts.
        vars(self)["parse_error"] = _without_password(connection, super().parse_error)
        super().on_connect(connection, **options)  # type: ignore[no-untyped-call]
        self._reader: Any = ReplyReader(self._reader)
        self._begun_s = 0.0

    def read_from_socket(self, timeout: Any = SENTINEL, raise_on_timeout: bool = True) -> bool:
        """Read from the socket; the timeout is for a whole reply, while that of redis-py is for each part."""
        now_s = time.monotonic()
        if self._reader is None or self._reader.is_between_replies:
            self._begun_s = now_s
        elif timeout is SENTINEL and self._socket_timeout is not None and now_s - self._begun_s > self._socket_timeout:
            raise exceptions.TimeoutError("Timeout reading from socket")
        return bool(super().read_from_socket(timeout, raise_on_timeout))  # type: ignore[no-untyped-call]


def _without_password(connection: Any, parse_error: Callable[[str], Exception]) -> Callable[[str], Exception]:
    """Remove the password of a connection from error replies."""
    password = getattr(connection.credential_provider, "password", None) or connection.password
    return lambda response: parse_error(redact(response, password))


def reader_of(connection: Any) -> ReplyReader:
    """Return the reader of an asyncio connection that was made here and is connected."""
    reader: ReplyReader = connection._parser._reader
    return reader


def writer_of(connection: Any) -> asyncio.StreamWriter | None:
    """Return the stream writer of an asyncio connection; None before it is connected."""
    writer: asyncio.StreamWriter | None = getattr(connection, "_writer", None)
    return writer


def stream_of(connection: Any) -> asyncio.StreamReader:
    """Return the stream of a connected asyncio connection, for what its parser must not read."""
    stream: asyncio.StreamReader = connection._reader
    return stream


def error_of(connection: Any, line: bytes) -> Exception:
    """Return the error of an error reply that was read from the stream of a connection made here."""
    error: Exception = connection._parser.parse_error(line.decode("utf-8", "replace"))
    return error


# Shorter than the timeout for a server: a dead node must not delay the search for so long.
_QUESTION_TIMEOUT_S = 2.0
# These errors say that another server is responsible now: the next connection searches for it.
_ELSEWHERE = (exceptions.MovedError, exceptions.ReadOnlyError, exceptions.ClusterDownError)
_OF_THE_URL_ALONE = ("host", "port", "db", "connection_class")
_LOST = (exceptions.ConnectionError, exceptions.TimeoutError)


def locating_async(
    base: type[Any], address: Address, topology: Topology | None, timeout_s: float, traffic: Traffic | None
) -> type[Any]:
    """Make a connection class for the asyncio client from redis-py's own for the URL."""
    base = _extended(base, traffic)
    if topology is None and _is_plain(address):
        return base

    class Locating(base):  # type: ignore[misc] # the base is chosen by the URL's scheme
        async def connect_check_health(self, check_health: bool = True, retry_socket_connect: bool = True) -> None:
            if self.is_connected:
                return
            _check_files(address.tls)
            found = None if topology is None else await search_async(address, topology.find(), timeout_s, traffic)
            password = None if address.password is None else await fetched(address.password)
            with _explaining(self, address, found, password):
                await super().connect_check_health(check_health, retry_socket_connect)

    return Locating if topology is None else _relocating_async(Locating)


def locating(base: type[Any], address: Address, topology: Topology | None, timeout_s: float) -> type[Any]:
    """Make a connection class for the synchronous client, as ``locating_async`` does."""
    if topology is None and _is_plain(address):
        return base

    class Locating(base):  # type: ignore[misc] # the base is chosen by the URL's scheme
        def connect_check_health(self, check_health: bool = True, retry_socket_connect: bool = True) -> None:
            if self.is_connected:
                return
            _check_files(address.tls)
            found = None if topology is None else answered(topology.find(), partial(_ask, address, timeout_s=timeout_s))
            password = None if address.password is None else address.password()
            with _explaining(self, address, found, password):
                super().connect_check_health(check_health, retry_socket_connect)

        def read_response(self, *args: Any, **options: Any) -> Any:
            try:
                return super().read_response(*args, **options)
            except _ELSEWHERE:
                if topology is not None:
                    self.mark_for_reconnect()
                raise

    return Locating


@contextmanager
def _explaining(connection: Any, address: Address, found: Node | None, password: str | None) -> Iterator[None]:
    """Let a connection connect to the server that was found, with a password that is not kept; explain its errors."""
    if found is not None:
        connection.host, connection.port = found.host, found.port
    if password is not None:
        connection.credential_provider = _credentials(address.user, password)
    try:
        yield
    except _LOST as error:
        explained = _explained(error, address, found)
        if explained is None:
            raise
        raise explained from error
    finally:
        connection.credential_provider = None


def _is_plain(address: Address) -> bool:
    """Return whether redis-py's own connection class is enough for that address."""
    return address.password is None and not address.is_secure and address.ended is None


def _relocating_async(base: type[Any]) -> type[Any]:
    """Make a connection class that reconnects after a reply says that another server is responsible.

    Separate from ``locating_async`` because it slows down every reply.
    """

    class Relocating(base):  # type: ignore[misc] # the base is chosen by the URL's scheme
        async def read_response(self, *args: Any, **options: Any) -> Any:
            try:
                return await super().read_response(*args, **options)
            except _ELSEWHERE:
                self.mark_for_reconnect()
                raise

    return Relocating


def _extended(base: type[Any], traffic: Traffic | None) -> type[Any]:
    """Make an asyncio connection class with all that those made here have in common."""
    base = cancellable(contextless(base))
    return base if traffic is None else metered(base, traffic)


async def search_async(address: Address, search: Search[T], timeout_s: float, traffic: Traffic | None) -> T:
    """Run a search for servers of that address; raises ``ExplainedError``."""

    async def ask(question: Question) -> Any:
        endpoint = _endpoint_of(address, question)
        credentials = (
            None if endpoint.password is None else _credentials(endpoint.user, await fetched(endpoint.password))
        )
        base: type[Any] = AsyncSSLConnection if endpoint.is_secure else AsyncConnection
        connection = _extended(base, traffic)(parser_class=GuardedAsyncParser, **endpoint.options(timeout_s))
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
    from redis.connection import Connection, SSLConnection  # noqa: PLC0415 - polls do without

    endpoint = _endpoint_of(address, question)
    base: type[Any] = SSLConnection if endpoint.is_secure else Connection
    connection = base(parser_class=GuardedParser, **endpoint.options(timeout_s))
    connection.credential_provider = (
        None if endpoint.password is None else _credentials(endpoint.user, endpoint.password())
    )
    try:
        connection.connect()
        connection.send_command(*question.command, check_health=False)
        return connection.read_response()
    except SERVER_ERRORS as error:
        return error
    finally:
        connection.disconnect()


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """How to connect to the node of a question."""

    node: Node
    is_secure: bool
    tls: Tls | None
    user: str | None
    password: Password | None
    others: dict[str, Any]

    def options(self, timeout_s: float) -> dict[str, Any]:
        """Return the arguments for a redis-py connection."""
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
            # No CLIENT SETINFO for a single question.
            "driver_info": None,
        }


def _endpoint_of(address: Address, question: Question) -> _Endpoint:
    sentinels = address.sentinels
    if question.to_sentinel and sentinels is not None:
        tls = sentinels.tls
        return _Endpoint(question.node, tls is not None, tls, sentinels.user, sentinels.password, {})
    from redis.connection import parse_url  # noqa: PLC0415 - as above

    options: dict[str, Any] = parse_url(address.url)  # type: ignore[no-untyped-call] # redis-py has not typed it
    others = {name: value for name, value in options.items() if name not in _OF_THE_URL_ALONE}
    return _Endpoint(question.node, address.is_secure, address.tls, address.user, address.password, others)


def _credentials(user: str | None, password: str) -> UsernamePasswordCredentialProvider:
    return UsernamePasswordCredentialProvider(user, password)


def tls_options(tls: Tls | None) -> dict[str, Any]:
    """Return the TLS arguments for a redis-py connection."""
    if tls is None:
        return {}
    return {
        "ssl_ca_certs": None if tls.ca is None else str(tls.ca),
        "ssl_certfile": None if tls.cert is None else str(tls.cert),
        "ssl_keyfile": None if tls.key is None else str(tls.key),
        "ssl_cert_reqs": "none" if tls.verify == "none" else "required",
        "ssl_check_hostname": tls.verify == "full",
        # Without it OpenSSL would prompt on the terminal for the password of a key.
        "ssl_password": "",
    }


def _check_files(tls: Tls | None) -> None:
    """Raise ``ExplainedError`` for a file that cannot be read; redis-py's message does not name it."""
    for path in () if tls is None else (tls.ca, tls.cert, tls.key):
        if path is None:
            continue
        try:
            path.open("rb").close()
        except OSError as error:
            failure = Failure("tls", f"{path} cannot be read: {error.strerror}", "the profile's tls_ keys name it")
            raise ExplainedError(failure) from error


def _explained(error: exceptions.RedisError, address: Address, found: Node | None) -> ExplainedError | None:
    """Explain what redis-py cannot know: that the server has ended, which node it is, or that TLS was used."""
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
    return ExplainedError(failure if found is None else failure._replace(sentence=f"{found}: {failure.sentence}"))


TIMEOUT_S = 5.0
# Each read costs more than its bytes do, and asyncio takes as much at once from a socket.
_READ_BYTES = 262_144


def connect(server: Address | str, ns: str | None = None, *, timeout_s: float = TIMEOUT_S) -> "Redis":
    """Return a synchronous client for an address or a URL; no connection is made yet.

    In a cluster it connects to the node that holds the namespace, or to any node if ``ns`` is None. It does not
    retry: with redis-py's default it takes seconds to report a closed port. Raises ValueError for an invalid URL.
    """
    from redis import ConnectionPool, Redis  # noqa: PLC0415 - polls do without all of redis-py
    from redis.retry import Retry  # noqa: PLC0415

    address = Address.of(server)
    options = {**_options(address, timeout_s), "parser_class": GuardedParser}
    pool = ConnectionPool.from_url(address.url, retry=Retry(NoBackoff(), 0), **options)
    pool.connection_class = locating(pool.connection_class, address, topology_of(address, ns), timeout_s)
    return Redis.from_pool(pool)


def connect_async(
    server: Address | str,
    ns: str | None = None,
    *,
    timeout_s: float = TIMEOUT_S,
    traffic: Traffic | None = None,
) -> "AsyncRedis":
    """Return an asyncio client, as ``connect``; ``traffic`` counts what it sends and receives."""
    from redis.asyncio import Redis  # noqa: PLC0415 - as above

    return Redis.from_pool(pool_async(server, ns, timeout_s=timeout_s, traffic=traffic))


def pool_async(
    server: Address | str,
    ns: str | None = None,
    *,
    timeout_s: float = TIMEOUT_S,
    traffic: Traffic | None = None,
    topology: Topology | None = None,
) -> AsyncConnectionPool:
    """Return the connections of ``connect_async`` without a client.

    ``topology`` finds the server in place of the address.

    Raises ValueError for an invalid URL. Close them with ``aclose``.
    """
    address = Address.of(server)
    options = {**_options(address, timeout_s), "parser_class": GuardedAsyncParser}
    pool = AsyncConnectionPool.from_url(address.url, retry=AsyncRetry(NoBackoff(), 0), **options)
    pool.connection_class = locating_async(
        pool.connection_class, address, topology or topology_of(address, ns), timeout_s, traffic
    )
    return pool


def _options(address: Address, timeout_s: float) -> dict[str, Any]:
    options: dict[str, Any] = {
        "socket_timeout": timeout_s,
        "socket_connect_timeout": timeout_s,
        "decode_responses": False,
        "socket_read_size": _READ_BYTES,
        # RESP2 needs no HELLO, which old servers do not know and restricted users may not send.
        "protocol": 2,
        # Shown by CLIENT LIST; redis-py ignores the error of a server without CLIENT SETINFO.
        "driver_info": DriverInfo(name="rsmq-tui", lib_version=__version__),
    }
    if address.user is not None:
        options["username"] = address.user
    return options | tls_options(address.tls)
