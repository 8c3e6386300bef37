"""What a profile's keys say of where its server is and how to get in."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rsmq_tui.profiles import values
from rsmq_tui.profiles.lines import Place
from rsmq_tui.profiles.passwords import from_command, from_file, from_text, from_variable
from rsmq_tui.profiles.table import Mistakes, Value
from rsmq_tui.profiles.values import Read
from rsmq_tui.protocol import (
    Address,
    Node,
    Password,
    Sentinels,
    Tls,
    check_url,
    socket_url_of,
    url_of,
)
from rsmq_tui.protocol.address import DEFAULT_SENTINEL_PORT
from rsmq_tui.protocol.urls import DEFAULT_PORT

_PLACEHOLDER = "redis://"
_PASSWORDS: dict[str, Callable[[Any], Password]] = {
    "password": from_text,
    "password_env": from_variable,
    "password_file": from_file,
    "password_command": from_command,
}
_PREFIXES = ("", "sentinel_")
_TLS_FILES = ("tls_ca", "tls_cert", "tls_key")
# What may stand in the defaults; everything else is of one server.
DEFAULTS_KEYS = (
    *(prefix + key for prefix in _PREFIXES for key in ("user", *_PASSWORDS)),
    *_TLS_FILES,
    "tls_verify",
)
# What each of these keys says already.
_SAID_BY = {
    "url": ("host", "port", "db", "socket", "tls", "sentinels"),
    "socket": ("host", "port", "tls", "sentinels", "cluster"),
    "sentinels": ("host", "port", "cluster"),
}
_SAID_BY_NODES = ("url", "host", "port")


def address_keys(folder: Path) -> dict[str, Read]:
    """Return how each key is read; paths that are not absolute start in the folder."""
    path = values.path_in(folder)
    ways_in = {
        "user": values.text,
        "password_env": values.text,
        "password_file": path,
        "password_command": values.command,
        "password": values.secret,
    }
    return {
        "url": _url,
        "host": values.host,
        "port": values.port,
        "db": values.database,
        "socket": path,
        **ways_in,
        "tls": values.flag,
        **dict.fromkeys(_TLS_FILES, path),
        "tls_verify": values.one_of("full", "chain", "none"),
        "sentinels": values.nodes(DEFAULT_SENTINEL_PORT),
        "sentinel_service": values.text,
        "sentinel_tls": values.flag,
        **{f"sentinel_{key}": read for key, read in ways_in.items()},
        "cluster": values.cluster(DEFAULT_PORT),
    }


def address_of(own: Mapping[str, Value], defaults: Mapping[str, Value], place: Place, mistakes: Mistakes) -> Address:
    """Return the address of a profile; what does not go together is noted."""
    said = _Said(own, defaults, mistakes)
    before = len(mistakes.found)
    said.check()
    if len(mistakes.found) == before:
        try:
            return said.address()
        except ValueError as error:
            mistakes.add(place, f"[{'.'.join(map(str, place))}] is not valid: {error}")
    return Address(_PLACEHOLDER)


def passwords_of(table: Mapping[str, Any]) -> Iterator[str]:
    """Give the keys of a table that hold a password in so many words."""
    for key, value in table.items():
        if key in ("password", "sentinel_password"):
            yield key
        elif key == "url" and isinstance(value, str):
            try:
                has_secret = Address(value).has_secret
            except ValueError:
                # It is told as a mistake; what cannot be read may hold one.
                has_secret = "@" in value or "password" in value
            if has_secret:
                yield key


@dataclass(frozen=True, slots=True)
class _Said:
    own: Mapping[str, Value] = field(repr=False)
    defaults: Mapping[str, Value] = field(repr=False)
    mistakes: Mistakes

    def check(self) -> None:
        """Note the keys that do not go together."""
        for key, others in _SAID_BY.items():
            self._go_without(key, others)
        if isinstance(self._own("cluster"), tuple):
            self._go_without("cluster", _SAID_BY_NODES)
        for prefix in _PREFIXES:
            self._check_way_in(prefix)
        if "sentinels" in self.own and "sentinel_service" not in self.own:
            self._note("sentinels", "need sentinel_service, the name of the service that they monitor")
        if "sentinels" not in self.own:
            for key in self.own:
                if key.startswith("sentinel_"):
                    self._note(key, 'needs sentinels, a list such as ["one.example:26379"]')
        if not (self._is_secure or self._own("sentinel_tls")):
            for key in (*_TLS_FILES, "tls_verify"):
                if key in self.own:
                    self._note(key, "needs tls = true, or a url that begins with rediss://")
        if "tls_key" in self.own and self._value("tls_cert") is None:
            self._note("tls_key", "needs tls_cert, the certificate that it belongs to")

    def address(self) -> Address:
        """Put the address together; raises ValueError for what cannot be one."""
        url = self._url()
        parts = urlsplit(url)
        cluster = self._own("cluster") or ()
        if cluster is True:
            cluster = (Node(parts.hostname or "localhost", parts.port or DEFAULT_PORT),)
        in_url = bool(parts.username or parts.password)
        return Address(
            url,
            user=None if in_url else self._value("user"),
            password=None if in_url else self._password(""),
            tls=self._tls() if self._is_secure else None,
            sentinels=self._sentinels(),
            cluster=cluster,
        )

    @property
    def _is_secure(self) -> bool:
        return bool(self._own("tls")) or str(self._own("url") or "").startswith("rediss://")

    def _check_way_in(self, prefix: str) -> None:
        ways = [key for key in self.own if key.startswith(prefix) and key.removeprefix(prefix) in _PASSWORDS]
        for key in ways[1:]:
            self._note(key, f"cannot be combined with {ways[0]}: give the password only once")
        url = self._own("url")
        if prefix or url is None:
            return
        parts = urlsplit(url)
        for key in ("user", *ways):
            if key in self.own and (parts.username or Address(url).has_password):
                self._note(key, "cannot be combined with a user or a password in url")

    def _go_without(self, key: str, others: tuple[str, ...]) -> None:
        if self._own(key) is None:
            return
        for other in others:
            if other in self.own:
                self._note(other, f"cannot be combined with {key}, which already gives the address")

    def _url(self) -> str:
        db, tls, socket, cluster = (self._own(key) for key in ("db", "tls", "socket", "cluster"))
        url: str | None = self._own("url")
        if url is not None:
            return url
        if socket is not None:
            return socket_url_of(socket, db=db or 0)
        node = cluster[0] if isinstance(cluster, tuple) else Node("localhost", DEFAULT_PORT)
        return url_of(self._own("host") or node.host, self._own("port") or node.port, db=db or 0, tls=bool(tls))

    def _tls(self) -> Tls | None:
        given = {key: self._value(key) for key in (*_TLS_FILES, "tls_verify")}
        named = {key.removeprefix("tls_"): value for key, value in given.items() if value is not None}
        return Tls(**named) if named else None

    def _sentinels(self) -> Sentinels | None:
        nodes = self._own("sentinels")
        if nodes is None:
            return None
        tls = self._own("sentinel_tls")
        is_secure = self._is_secure if tls is None else tls
        return Sentinels(
            self._own("sentinel_service"),
            nodes,
            user=self._value("sentinel_user"),
            password=self._password("sentinel_"),
            tls=(self._tls() or Tls()) if is_secure else None,
        )

    def _password(self, prefix: str) -> Password | None:
        for table in (self.own, self.defaults):
            for key, way in _PASSWORDS.items():
                if prefix + key in table:
                    return way(table[prefix + key].value)
        return None

    def _own(self, key: str) -> Any:
        return self.own[key].value if key in self.own else None

    def _value(self, key: str) -> Any:
        found = self.own.get(key) or self.defaults.get(key)
        return None if found is None else found.value

    def _note(self, key: str, sentence: str) -> None:
        self.mistakes.add(self.own[key].place, f"{key} {sentence}")


def _url(value: Any) -> str:
    try:
        return check_url(values.text(value))
    except ValueError as error:
        raise ValueError(f"is {error}" if str(error).startswith("not a") else str(error)) from None
