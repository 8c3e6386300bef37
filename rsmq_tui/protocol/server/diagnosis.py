"""Diagnoses one server step by step, without writing, and finds out which commands its user may run.

Commands are queued in a transaction which is then discarded: the server checks each against the user's permissions, its
memory and its role, and runs none of them.
"""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from redis.exceptions import NoScriptError

from rsmq_tui.protocol.address import DEFAULT_PORT, Address
from rsmq_tui.protocol.connections.connect import TIMEOUT_S, Traffic, pool_async, writer_of
from rsmq_tui.protocol.connections.script_runner import read_reply
from rsmq_tui.protocol.errors import SERVER_ERRORS, ExplainedError, Failure, failure_of
from rsmq_tui.protocol.keys import Keys, name_of
from rsmq_tui.protocol.polling import TrackedConnection
from rsmq_tui.protocol.replies import decode_all, decode_clock
from rsmq_tui.protocol.server.status import COMMANDS, ServerStatus, status_of

# The name of a queue that does not exist, for commands that are checked and not run.
_NO_QUEUE = "rsmq-tui-doctor"


class Need(StrEnum):
    """What a command is needed for."""

    POLL = "the state of all queues"
    LOOK = "messages, searches and audits"
    SCRIPTS = "scripts"
    NAMESPACES = "finding namespaces"
    CHANGE = "changes"


@dataclass(frozen=True, slots=True)
class NeededCommand:
    """One command with its arguments."""

    need: Need
    words: Sequence[bytes | str | int]

    @property
    def name(self) -> str:
        """The command's name in lower case, as in an ACL."""
        return str(self.words[0]).lower()

    @property
    def writes(self) -> bool:
        """Whether it would change something."""
        return self.need is Need.CHANGE


def commands_for(ns: str, queue: str | None) -> tuple[NeededCommand, ...]:
    """Return the commands that are needed on a namespace: reads of ``queue`` if given, changes of no real queue."""
    keys = Keys(ns)
    zset, attributes = keys.messages(queue or _NO_QUEUE), keys.attributes(queue or _NO_QUEUE)
    made, made_of = keys.messages(_NO_QUEUE), keys.attributes(_NO_QUEUE)
    needed: dict[Need, tuple[Sequence[bytes | str | int], ...]] = {
        Need.POLL: (
            ("TIME",),
            ("SMEMBERS", keys.index),
            ("HMGET", attributes, "vt"),
            ("ZCARD", zset),
            ("ZCOUNT", zset, 0, 1),
            ("ZRANGE", zset, 0, 0),
        ),
        Need.LOOK: (
            ("HGET", attributes, "vt"),
            ("HEXISTS", attributes, "vt"),
            ("HSTRLEN", attributes, "vt"),
            ("ZRANK", zset, "m"),
            ("ZSCORE", zset, "m"),
            ("ZSCAN", zset, 0),
            ("TYPE", zset),
            ("HLEN", attributes),
            ("HSCAN", attributes, 0, "COUNT", 1),
            ("SISMEMBER", keys.index, _NO_QUEUE),
            ("SCARD", keys.index),
            ("SSCAN", keys.index, 0, "COUNT", 1),
        ),
        Need.SCRIPTS: (("EVAL", "return 1", 1, zset), ("EVALSHA", "0" * 40, 1, zset)),
        Need.NAMESPACES: (("SCAN", 0),),
        Need.CHANGE: (
            ("SADD", keys.index, _NO_QUEUE),
            ("SREM", keys.index, _NO_QUEUE),
            ("HSET", made_of, "vt", 30),
            ("HINCRBY", made_of, "totalsent", 1),
            ("HDEL", made_of, "vt"),
            ("ZADD", made, 1, "m"),
            ("ZREM", made, "m"),
            ("SET", keys.marker("doctor"), "1"),
            ("GET", keys.marker("doctor")),
            ("EXISTS", keys.marker("doctor")),
            ("DEL", made),
        ),
    }
    return tuple(NeededCommand(need, words) for need, commands in needed.items() for words in commands)


_AT_CONNECTING = {"tls": "tls", "noauth": "auth", "password": "auth"}


@dataclass(frozen=True, slots=True)
class ConnectStep:
    """A step of connecting to a server: its result, or why it failed; a step that failed is the last.

    ``name`` is one of dns, tcp, socket, route, tls, auth and redis.
    """

    name: str
    result: str
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Permissions:
    """What the connected user may do, as far as the server reports it.

    ``user`` is None if it is not known; commands in neither list could not be checked.
    """

    user: str | None
    allowed: tuple[NeededCommand, ...]
    refused: tuple[tuple[NeededCommand, Failure], ...]


@dataclass(frozen=True, slots=True)
class Skew:
    """How far the server's clock is ahead of the local one, give or take half a round trip."""

    ahead_ms: float
    uncertainty_ms: float


class Diagnosis:
    """Diagnoses the server that holds ``ns``; call ``connect`` first, and the other methods only if it succeeded.

    Raises ValueError for an invalid URL. Its methods raise SERVER_ERRORS. Close it with ``aclose``.
    """

    def __init__(self, server: Address | str, ns: str = "rsmq", *, timeout_s: float = TIMEOUT_S) -> None:
        self._address = Address.of(server)
        self.label = self._address.label
        self._ns = ns
        self._timeout_s = timeout_s
        self._pool = pool_async(self._address, ns, timeout_s=timeout_s)
        self._connection: Any = None

    async def connect(self) -> AsyncIterator[ConnectStep]:
        """Connect, and yield each step as it is done, up to the one that failed."""
        options = self._pool.connection_kwargs
        if "path" in options:
            path = str(options["path"])
            yield (step := await self._try("socket", path, lambda: _opened_socket(path)))
            if step.failure:
                return
        elif not (self._address.sentinels or self._address.cluster):
            host, port = str(options.get("host", "localhost")), int(options.get("port", DEFAULT_PORT))
            yield (step := await self._try("dns", host, lambda: _resolved(host, port)))
            if step.failure:
                return
            yield (step := await self._try("tcp", f"{host} port {port}", lambda: _opened(host, port)))
            if step.failure:
                return
        async for step in self._log_in():
            yield step

    async def status(self) -> ServerStatus:
        """Return the status of the server."""
        return status_of(decode_all(COMMANDS, await self._ask(*COMMANDS)))

    async def permissions(self, queue: str | None = None) -> Permissions:
        """Check what the user may do; ``queue`` is one whose keys may be read. Nothing is written."""
        name = await self._user()
        commands = commands_for(self._ns, queue)
        judged = await self._judged_in_transaction(commands)
        if judged is None and name is not None:
            judged = await self._judged_by_dry_run(name, commands)
        if judged is None:
            # Commands that only read can be tried; the others stay unchecked.
            reading = [command for command in commands if not command.writes]
            replies = await self._ask(*(command.words for command in reading))
            judged = list(zip(reading, map(_refusal, replies), strict=True))
        allowed = tuple(command for command, refusal in judged if refusal is None)
        return Permissions(name, allowed, tuple((command, refusal) for command, refusal in judged if refusal))

    async def tracks(self) -> bool:
        """Return whether the server reports changes, so that polls need not read everything."""
        connection = TrackedConnection(self._pool, Traffic())
        try:
            await connection.begin(("TIME",))
            return connection.tracks
        finally:
            await connection.aclose()

    async def round_trips_ms(self, count: int) -> list[float]:
        """Return the time of each of ``count`` round trips, in ms."""
        took_ms = []
        for _ in range(count):
            started_s = time.perf_counter()
            # A user that may poll may send TIME, but perhaps not PING.
            await self._ask(("TIME",))
            took_ms.append((time.perf_counter() - started_s) * 1000)
        return took_ms

    async def skew(self, clock: Callable[[], float] = time.time, tries: int = 5) -> Skew:
        """Compare the server's clock with ``clock``, in seconds, by the fastest of ``tries`` round trips."""
        found = []
        for _ in range(tries):
            before_s = clock()
            (reply,) = await self._ask(("TIME",))
            after_s = clock()
            server_s = _seconds(reply)
            found.append(Skew((server_s - (before_s + after_s) / 2) * 1000, (after_s - before_s) * 500))
        return min(found, key=lambda skew: skew.uncertainty_ms)

    async def aclose(self) -> None:
        """Close all connections."""
        if self._connection is not None:
            await self._connection.disconnect(nowait=True)
        await self._pool.aclose()

    async def _try(self, name: str, what: str, attempt: Callable[[], Any]) -> ConnectStep:
        try:
            async with asyncio.timeout(self._timeout_s):
                result = await attempt()
        except (OSError, TimeoutError) as error:
            return ConnectStep(name, what, failure_of(error))
        return ConnectStep(name, result or what)

    async def _log_in(self) -> AsyncIterator[ConnectStep]:
        """Connect as every client here does, and yield the steps of that."""
        pool = self._pool
        connection: Any = pool.connection_class(**pool.connection_kwargs)
        self._connection = connection
        try:
            await connection.connect()
            for reply in await self._ask(("TIME",), ("PING",)):
                # A missing permission is reported by ``permissions``.
                if isinstance(reply, Exception) and failure_of(reply).kind != "noperm":
                    raise reply
                if not isinstance(reply, Exception) and reply != b"PONG":
                    _seconds(reply)
        except SERVER_ERRORS as error:
            failure = failure_of(error)
            unanswered = failure.kind in ("timeout", "closed") and writer_of(connection) is None
            if unanswered and self._address.url.startswith("rediss"):
                reason = "the port does not use TLS", "use redis:// without TLS, or check the server's tls-port"
                failure = Failure("tls", *reason)
            # An ExplainedError comes from the search for the server.
            otherwise = "route" if isinstance(error, ExplainedError) else "redis"
            yield ConnectStep(_AT_CONNECTING.get(failure.kind, otherwise), self.label, failure)
            return
        if encrypted := _encryption(self._connection):
            yield ConnectStep("tls", encrypted)
        user = await self._user()
        yield ConnectStep("auth", "as an unnamed user" if user is None else f"as user {user}")
        yield ConnectStep("redis", "answers")

    async def _user(self) -> str | None:
        (user,) = await self._ask(("ACL", "WHOAMI"))
        if isinstance(user, bytes):
            return name_of(user)
        given = self._pool.connection_kwargs.get("username")
        return None if given is None else str(given)

    async def _judged_in_transaction(
        self, commands: Sequence[NeededCommand]
    ) -> list[tuple[NeededCommand, Failure | None]] | None:
        """Queue the commands in a transaction and discard it; None if that is not possible."""
        # One by one: if MULTI is refused, the commands after it would be executed.
        (begun,) = await self._ask(("MULTI",))
        if begun != b"OK":
            return None
        try:
            (queued,) = await self._ask(("PING",))
            if queued != b"QUEUED":
                return None
            judged = []
            for command in commands:
                (reply,) = await self._ask(command.words)
                judged.append((command, _refusal(reply)))
            return judged
        finally:
            (ended,) = await self._ask(("DISCARD",))
            if ended != b"OK":
                # Closing the connection discards the transaction as well.
                await self._connection.disconnect(nowait=True)

    async def _judged_by_dry_run(
        self, user: str, commands: Sequence[NeededCommand]
    ) -> list[tuple[NeededCommand, Failure | None]] | None:
        replies = await self._ask(*(("ACL", "DRYRUN", user, *command.words) for command in commands))
        if any(isinstance(reply, Exception) for reply in replies):
            return None
        failures = [None if reply == b"OK" else Failure("noperm", "permission denied", "grant it") for reply in replies]
        return list(zip(commands, failures, strict=True))

    async def _ask(self, *commands: Sequence[bytes | str | int]) -> list[Any]:
        """Send commands in one round trip; a command's own error is its result, not an exception."""
        connection = self._connection
        if not connection.is_connected:
            await connection.connect()
        await connection.send_packed_command(
            [part for command in commands for part in connection.pack_command(*command)], check_health=False
        )
        return [await read_reply(connection) for _ in commands]


def _refusal(reply: Any) -> Failure | None:
    """Return why the server refuses a command; None if it would execute it."""
    if not isinstance(reply, Exception) or isinstance(reply, NoScriptError) or "WRONGTYPE" in str(reply):
        return None
    return failure_of(reply)


def _seconds(clock: Any) -> float:
    """Return the seconds of a reply to TIME; raises redis-py's errors."""
    if isinstance(clock, Exception):
        raise clock
    seconds, microseconds = decode_clock(clock)
    return seconds + microseconds / 1e6


async def _resolved(host: str, port: int) -> str:
    addresses = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    found = list(dict.fromkeys(str(address[4][0]) for address in addresses))
    return host if found == [host] else f"{host} is {', '.join(found)}"


async def _opened(host: str, port: int) -> None:
    _, writer = await asyncio.open_connection(host, port)
    await _closed(writer)


async def _opened_socket(path: str) -> None:
    _, writer = await asyncio.open_unix_connection(path)
    await _closed(writer)


async def _closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    try:
        await writer.wait_closed()
    except OSError:
        return


def _encryption(connection: Any) -> str | None:
    """Return the TLS version and cipher of a connection; None if it is not encrypted."""
    writer = writer_of(connection)
    encrypted = None if writer is None else writer.get_extra_info("ssl_object")
    return None if encrypted is None else f"{encrypted.version()}, {encrypted.cipher()[0]}"
