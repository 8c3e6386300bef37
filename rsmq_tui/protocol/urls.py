"""URLs of servers: which can be one, and how a server is named without its secrets."""

from urllib.parse import parse_qs, urlsplit

import redis

DEFAULT_PORT = 6379
_SCHEMES = ("redis", "rediss", "unix")
_UNREADABLE = (
    "its host or port cannot be read (in a user name or password, / ? # [ ] must be written as %2F %3F %23 %5B %5D)"
)


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
            raise ValueError("not a Redis URL: unix:// needs the path of a socket, unix:///run/redis.sock")
    elif database and not database.isdecimal():
        raise ValueError("not a Redis URL: after the port, only a database number is allowed")
    elif port == 0:
        raise ValueError("not a Redis URL: port 0 cannot be connected to")
    try:
        pool = redis.ConnectionPool.from_url(url)
        pool.connection_class(**pool.connection_kwargs)
    except (TypeError, ValueError):
        raise ValueError("not a Redis URL: an option after the ? is unknown, or its value is not valid") from None
    return url


def database_of(url: str) -> int:
    """Return the number of the database that a URL names, 0 where it names none."""
    parts = urlsplit(url)
    # redis-py lets the option win over the path.
    given = parse_qs(parts.query).get("db", [""])[0]
    return int(given or (parts.scheme != "unix" and parts.path.strip("/")) or 0)


def server_label(url: str) -> str:
    """Return the URL as it may be shown: without user, password and options."""
    parts = urlsplit(url)
    database = database_of(url)
    if parts.scheme == "unix":
        return f"unix://{parts.path} db {database}"
    host = parts.hostname or "localhost"
    if ":" in host:
        host = f"[{host}]"
    return f"{parts.scheme}://{host}:{parts.port or DEFAULT_PORT}/{database}"
