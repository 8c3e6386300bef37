"""Clients as the dashboard and the commands want them: quick to fail, nothing hidden, their cost counted."""

from typing import Any

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.driver_info import DriverInfo
from redis.retry import Retry

from rsmq_tui.protocol.address import Address
from rsmq_tui.protocol.approach import approaching, approaching_async, tls_options
from rsmq_tui.protocol.metering import Traffic
from rsmq_tui.protocol.reply_limits import GuardedAsyncParser, GuardedParser
from rsmq_tui.protocol.routes import Route, route_of

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
    route: Route | None = None,
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
