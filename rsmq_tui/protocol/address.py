"""Addresses and URLs of servers."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qs, quote, urlsplit

from rsmq_tui.protocol.errors import Failure

DEFAULT_PORT = 6379
_SCHEMES = ("redis", "rediss", "unix")
_UNREADABLE = (
    "its host or port cannot be read (in a user name or password, / ? # [ ] must be written as %2F %3F %23 %5B %5D)"
)


def check_url(url: str) -> str:
    """Return ``url``; raise ValueError, whose message holds no password, if it is not a Redis URL."""
    try:
        parts = urlsplit(url)
        port, database = parts.port, parts.path.lstrip("/")
        host = parts.hostname or ""
        # The codec is large: it is loaded for the names that need it, and for those that it refuses.
        if not (host.isascii() and all(0 < len(label) < 64 for label in host.split("."))):
            host.encode("idna")
    except ValueError:
        # Python's message quotes what it parsed as the port: the start of a password that contains a #.
        raise ValueError(f"not a Redis URL: {_UNREADABLE}; write redis://host:6379/0") from None
    if not url.startswith(tuple(f"{scheme}://" for scheme in _SCHEMES)):
        raise ValueError(f"not a Redis URL: it must start with {' or '.join(f'{scheme}://' for scheme in _SCHEMES)}")
    # An unescaped # or ? in a password ends the part of the URL that may hold it.
    if parts.fragment or ("@" in parts.query and "=" not in parts.query):
        raise ValueError(f"not a Redis URL: {_UNREADABLE}; write redis://host:6379/0")
    if parts.scheme == "unix":
        if not parts.path:
            raise ValueError("not a Redis URL: unix:// needs the path of a socket, unix:///run/redis.sock")
    elif database and not database.isdecimal():
        raise ValueError("not a Redis URL: after the port, only a database number is allowed")
    elif port == 0:
        raise ValueError("not a Redis URL: port 0 cannot be connected to")
    if parts.query:
        _check_options(url)
    return url


def _check_options(url: str) -> None:
    from redis import ConnectionPool  # noqa: PLC0415 - few URLs have options, and polls do without all of redis-py

    try:
        pool = ConnectionPool.from_url(url)
        pool.connection_class(**pool.connection_kwargs)
    except (TypeError, ValueError):
        raise ValueError("not a Redis URL: an option after the ? is unknown, or its value is not valid") from None


def database_of(url: str) -> int:
    """Return the database number of a URL, by default 0."""
    parts = urlsplit(url)
    # In redis-py the option overrides the path.
    given = parse_qs(parts.query).get("db", [""])[0]
    return int(given or (parts.scheme != "unix" and parts.path.strip("/")) or 0)


def server_label(url: str) -> str:
    """Return the URL without user, password and options, which may be shown."""
    parts = urlsplit(url)
    database = database_of(url)
    if parts.scheme == "unix":
        return f"unix://{parts.path} db {database}"
    host = parts.hostname or "localhost"
    if ":" in host:
        host = f"[{host}]"
    return f"{parts.scheme}://{host}:{parts.port or DEFAULT_PORT}/{database}"


DEFAULT_SENTINEL_PORT = 26379
_PORT_MAX = 65535
_NODE = re.compile(r"(?:\[(?P<address>[^\s\[\]@/]+)\]|(?P<host>[^\s:/?#@\[\],]+))(?::(?P<port>[0-9]{1,5}))?")

Password = Callable[[], str]


@dataclass(frozen=True, slots=True)
class Node:
    """The host and port of one server process."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{_bracketed(self.host)}:{self.port}"

    @classmethod
    def parse(cls, text: str, default_port: int) -> "Node":
        """Read ``host``, ``host:port``, ``[address]`` or ``[address]:port``; raises ValueError with what is allowed."""
        found = _NODE.fullmatch(text)
        port = int(found["port"] or default_port) if found else 0
        if found is None or not 0 < port <= _PORT_MAX:
            raise ValueError(f"write host:port, such as localhost:{default_port} or [::1]:{default_port}")
        return cls(found["host"] or found["address"], port)


@dataclass(frozen=True, slots=True)
class Tls:
    """The TLS settings of a connection.

    ``ca`` is a file of certificates to trust besides the system's; ``cert`` and ``key`` are the client's certificate
    and key. ``verify`` is ``full``, ``chain`` (any host name is accepted) or ``none`` (any certificate is accepted).
    """

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    verify: Literal["full", "chain", "none"] = "full"


@dataclass(frozen=True, slots=True)
class Sentinels:
    """The sentinels of ``service``; user, password and TLS are those of the sentinels, not of the server."""

    service: str
    nodes: tuple[Node, ...]
    user: str | None = None
    password: Password | None = field(default=None, repr=False, compare=False)
    tls: Tls | None = None


@dataclass(frozen=True, slots=True)
class Address:
    """The address of one server or one cluster; raises ValueError if it is not valid.

    ``url`` may hold a password and is not shown; ``label`` may be. ``password`` is called for each new connection, and
    its result is not kept; it may raise ``ExplainedError``. With ``sentinels`` or ``cluster`` the server is found by
    asking those nodes, and the URL only says whether to use TLS, and which database. ``ended`` is called when no
    connection can be made: a program that started the server itself knows whether it has ended.
    """

    url: str = field(repr=False)
    user: str | None = None
    password: Password | None = field(default=None, repr=False, compare=False)
    tls: Tls | None = None
    sentinels: Sentinels | None = None
    cluster: tuple[Node, ...] = ()
    ended: Callable[[], Failure | None] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_url(self.url)
        parts = urlsplit(self.url)
        if self.tls is not None and not self.is_secure:
            raise ValueError("TLS needs a rediss:// address")
        if self.user is not None and parts.username:
            raise ValueError("the user is given twice: in the URL and separately")
        if self.password is not None and self.has_password:
            raise ValueError("the password is given twice: in the URL and separately")
        if (self.sentinels or self.cluster) and parts.scheme == "unix":
            raise ValueError("a unix socket leads to one server, not to a cluster or a Sentinel service")
        if self.sentinels and self.cluster:
            raise ValueError("sentinels do not monitor clusters: a cluster manages its own failover")
        if self.sentinels and not (self.sentinels.nodes and self.sentinels.service):
            raise ValueError("with Sentinel, name at least one sentinel, and the service")
        if self.cluster and self.database:
            raise ValueError("a cluster has only database 0")

    @property
    def database(self) -> int:
        """The number of the database."""
        return database_of(self.url)

    @property
    def is_secure(self) -> bool:
        """Whether TLS is used."""
        return urlsplit(self.url).scheme == "rediss"

    @property
    def has_password(self) -> bool:
        """Whether the URL itself holds the password of a user."""
        parts = urlsplit(self.url)
        return bool(parts.password or parse_qs(parts.query).get("password"))

    @property
    def has_secret(self) -> bool:
        """Whether the URL itself holds a password: a user's, or that of a TLS key."""
        return self.has_password or bool(parse_qs(urlsplit(self.url).query).get("ssl_password"))

    @property
    def login(self) -> str:
        """The name of the user, as it is written in a URL; empty for the default user."""
        parts = urlsplit(self.url)
        return self.user or parts.username or parse_qs(parts.query).get("username", [""])[0]

    @property
    def label(self) -> str:
        """The address without user, password and options: it may be shown, and identifies the server.

        It names the first of several sentinels or cluster nodes, so it stays the same when more are added.
        """
        if self.sentinels:
            return f"sentinel://{self.sentinels.nodes[0]}/{self.sentinels.service}/{self.database}"
        if self.cluster:
            return f"cluster://{self.cluster[0]}"
        return server_label(self.url)

    @classmethod
    def of(cls, server: "Address | str") -> "Address":
        """Return an address as it is, or make one from a URL."""
        return server if isinstance(server, Address) else cls(server)


def url_of(host: str, port: int = DEFAULT_PORT, *, db: int = 0, tls: bool = False) -> str:
    """Return the URL of a server on a host."""
    return f"{'rediss' if tls else 'redis'}://{_bracketed(host)}:{port}/{db}"


def socket_url_of(path: Path, *, db: int = 0) -> str:
    """Return the URL of a server on a unix socket."""
    return f"unix://{quote(str(path))}?db={db}"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
