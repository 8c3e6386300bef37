"""Connections as the dashboard and the commands want them: quick to fail, nothing hidden, their cost counted."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

import hiredis
import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.driver_info import DriverInfo
from redis.retry import Retry

TIMEOUT_S = 5.0
_SCHEMES = ("redis", "rediss", "unix")
_UNREADABLE = (
    "its host or port cannot be read (in a user name or password, / ? # [ ] must be written as %2F %3F %23 %5B %5D)"
)


@dataclass(slots=True)
class Traffic:
    """What one client has cost so far: bytes on the wire in both directions, and commands sent."""

    bytes_sent: int = 0
    bytes_received: int = 0
    commands: int = 0


def connect(url: str, *, timeout_s: float = TIMEOUT_S) -> redis.Redis:
    """Return a synchronous client for ``redis://``, ``rediss://`` or ``unix://``; no connection is made yet.

    It does not retry: redis-py's default takes seconds to say that a port is closed. Raises ValueError for a URL that
    cannot be one, with what is allowed.
    """
    return redis.Redis.from_url(check_url(url), retry=Retry(NoBackoff(), 0), **_options(timeout_s))


def connect_async(url: str, *, timeout_s: float = TIMEOUT_S, traffic: Traffic | None = None) -> "redis.asyncio.Redis":
    """Return an asyncio client, as ``connect``; ``traffic`` is counted up as the client works."""
    pool = redis.asyncio.ConnectionPool.from_url(
        check_url(url), retry=AsyncRetry(NoBackoff(), 0), **_options(timeout_s)
    )
    if traffic is not None:
        pool.connection_class = _metered(pool.connection_class, traffic)
    return redis.asyncio.Redis.from_pool(pool)


def check_url(url: str) -> str:
    """Return the URL; raise ValueError, without repeating a password, when it cannot be a server's."""
    try:
        parts = urlsplit(url)
        port, database = parts.port, parts.path.lstrip("/")
        (parts.hostname or "").encode("idna")
    except ValueError:
        # Python's own words repeat what it took for the port: the first part of a password with a # in it.
        raise ValueError(f"not a Redis URL: {_UNREADABLE}; write redis://host:6379/0") from None
    if not url.startswith(tuple(f"{scheme}://" for scheme in _SCHEMES)):
        raise ValueError(f"not a Redis URL: it must start with {', '.join(f'{scheme}://' for scheme in _SCHEMES)}")
    # A # or a ? ends what may hold a password.
    if parts.fragment or ("@" in parts.query and "=" not in parts.query):
        raise ValueError(f"not a Redis URL: {_UNREADABLE}; write redis://host:6379/0")
    if parts.scheme == "unix":
        if not parts.path:
            raise ValueError("not a Redis URL: unix:// wants the path of a socket, unix:///run/redis.sock")
    elif database and not database.isdecimal():
        raise ValueError("not a Redis URL: what follows the port must be the number of a database")
    elif port == 0:
        raise ValueError("not a Redis URL: port 0 cannot be connected to")
    try:
        pool = redis.ConnectionPool.from_url(url)
        pool.connection_class(**pool.connection_kwargs)
    except (TypeError, ValueError):
        raise ValueError("not a Redis URL: what follows the ? is no option of redis-py, or has no such value") from None
    return url


def server_label(url: str) -> str:
    """Return the URL as it may be shown: without user, password and options."""
    parts = urlsplit(url)
    # redis-py lets the option win over the path.
    database = parse_qs(parts.query).get("db", [""])[0]
    if parts.scheme == "unix":
        return f"unix://{parts.path} db {database or 0}"
    host = parts.hostname or "localhost"
    if ":" in host:
        host = f"[{host}]"
    return f"{parts.scheme}://{host}:{parts.port or 6379}/{database or parts.path.strip('/') or 0}"


def _options(timeout_s: float) -> dict[str, Any]:
    return {
        "socket_timeout": timeout_s,
        "socket_connect_timeout": timeout_s,
        "decode_responses": False,
        # RESP2 spares a HELLO, which old servers and restricted users may not send.
        "protocol": 2,
        # Shown by CLIENT LIST; a server that does not know CLIENT SETINFO is not an error.
        "driver_info": DriverInfo(name="rsmq-tui"),
    }


def _metered(base: type[Any], traffic: Traffic) -> type[Any]:
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
