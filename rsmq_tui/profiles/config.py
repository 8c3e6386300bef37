"""Reads the configuration file, checks all of it, and turns it into profiles."""

import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from rsmq_tui.monitor.incidents import Expected
from rsmq_tui.monitor.slo import AGE, ANSWERING, STALLED, Objective
from rsmq_tui.monitor.text import printable, read_span
from rsmq_tui.monitor.tracking.verdicts import Thresholds
from rsmq_tui.profiles import Profile, values
from rsmq_tui.profiles.alerts import Alerts, read_alerts
from rsmq_tui.profiles.passwords import from_command, from_file, from_text, from_variable
from rsmq_tui.profiles.values import ConfigError, KeyPath, Mistakes, Read, Value, lines_of, read_table
from rsmq_tui.protocol import Address, Node, Password, Sentinels, Tls, check_url, slot_of, socket_url_of, url_of
from rsmq_tui.protocol.address import DEFAULT_PORT, DEFAULT_SENTINEL_PORT
from rsmq_tui.protocol.lists.naming import ListNames

_PLACEHOLDER = "redis://"
_PASSWORDS: dict[str, Callable[[Any], Password]] = {
    "password": from_text,
    "password_env": from_variable,
    "password_file": from_file,
    "password_command": from_command,
}
_PREFIXES = ("", "sentinel_")
_TLS_FILES = ("tls_ca", "tls_cert", "tls_key")
# The keys of an address that [defaults] may have; the others describe one server.
DEFAULTS_KEYS = (
    *(prefix + key for prefix in _PREFIXES for key in ("user", *_PASSWORDS)),
    *_TLS_FILES,
    "tls_verify",
)
# Keys that already give the address, and the keys that they exclude.
_GIVEN_BY = {
    "url": ("host", "port", "db", "socket", "tls", "sentinels"),
    "socket": ("host", "port", "tls", "sentinels", "cluster"),
    "sentinels": ("host", "port", "cluster"),
}
_GIVEN_BY_NODES = ("url", "host", "port")


def _credential_keys(folder: Path) -> dict[str, Read]:
    return {
        "user": values.text,
        "password_env": values.text,
        "password_file": values.path_in(folder),
        "password_command": values.command,
        "password": values.text,
    }


def address_keys(folder: Path) -> dict[str, Read]:
    """Return the reader of each key; relative paths start in the folder."""
    path = values.path_in(folder)
    credentials = _credential_keys(folder)
    return {
        "url": _url,
        "host": values.host,
        "port": values.port,
        "db": values.database,
        "socket": path,
        **credentials,
        "tls": values.flag,
        **dict.fromkeys(_TLS_FILES, path),
        "tls_verify": values.one_of("full", "chain", "none"),
        "sentinels": values.nodes(DEFAULT_SENTINEL_PORT),
        "sentinel_service": values.text,
        "sentinel_tls": values.flag,
        **{f"sentinel_{key}": read for key, read in credentials.items()},
        "cluster": values.cluster(DEFAULT_PORT),
    }


def address_of(own: Mapping[str, Value], defaults: Mapping[str, Value], place: KeyPath, mistakes: Mistakes) -> Address:
    """Return the address of a profile; conflicting keys are added to ``mistakes``."""
    keys = _AddressKeys(own, defaults, mistakes)
    before = len(mistakes.found)
    keys.check()
    if len(mistakes.found) == before:
        try:
            return keys.address()
        except ValueError as error:
            mistakes.add(place, f"[{'.'.join(map(str, place))}] is not valid: {error}")
    return Address(_PLACEHOLDER)


def passwords_of(table: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys of a table whose values contain a password."""
    for key, value in table.items():
        if key in ("password", "sentinel_password", "secret"):
            yield key
        elif key == "url" and isinstance(value, str):
            try:
                has_secret = Address(value).has_secret
            except ValueError:
                # An invalid URL is reported as a mistake, and may contain a password.
                has_secret = "@" in value or "password" in value
            if has_secret:
                yield key


@dataclass(frozen=True, slots=True)
class _AddressKeys:
    """The keys of a profile that give its address."""

    own: Mapping[str, Value] = field(repr=False)
    defaults: Mapping[str, Value] = field(repr=False)
    mistakes: Mistakes

    def check(self) -> None:
        """Note the keys that cannot be combined, and those that need another key."""
        for key, others in _GIVEN_BY.items():
            self._go_without(key, others)
        if isinstance(self._own("cluster"), tuple):
            self._go_without("cluster", _GIVEN_BY_NODES)
        for prefix in _PREFIXES:
            self._check_passwords(prefix)
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
        """Return the address; raises ValueError if it is invalid."""
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

    def _check_passwords(self, prefix: str) -> None:
        given = [key for key in self.own if key.startswith(prefix) and key.removeprefix(prefix) in _PASSWORDS]
        for key in given[1:]:
            self._note(key, f"cannot be combined with {given[0]}: give the password only once")
        url = self._own("url")
        if prefix or url is None:
            return
        parts = urlsplit(url)
        for key in ("user", *given):
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
            for key, read in _PASSWORDS.items():
                if prefix + key in table:
                    return read(table[prefix + key].value)
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


_NAME = re.compile(r"[\w.-]{1,40}")
_OTHERS_MAY = 0o077
_SYNTAX = re.compile(r"(.*?) \(at (?:line ([0-9]+), column [0-9]+|end of document)\)", re.DOTALL)
_UNNAMED = Profile("", Address("redis://"))
_CLUSTER_NS = "{rsmq}"
_WHY_TAG = "otherwise its keys are on several nodes"
_READ_AS: dict[object, Read] = {int: values.count, float: values.share}
# Key -> the field of the thresholds, and how its value is read.
_THRESHOLDS: dict[str, tuple[str, Read]] = {
    each.name.removesuffix("_ms"): (each.name, values.span_ms if each.name.endswith("_ms") else _READ_AS[each.type])
    for each in fields(Thresholds)
}
_WATCHING: dict[str, Read] = {
    "namespace": values.namespace,
    "namespaces": values.namespaces,
    "read_only": values.flag,
    "colour": values.colour,
    "color": values.colour,
    "interval": values.interval_s,
    "thresholds": values.anything,
    "lists": values.lists,
    "lists_processing": values.list_template("processing"),
    "lists_leases": values.list_template("leases"),
    "lists_take": values.one_of("right", "left"),
    "lists_age": values.list_age,
    "memory": values.flag,
    "slo": values.anything,
    "zone": values.zone,
    "ignore": values.patterns,
    "maintenance": values.spans_of_time,
}
# The keys about the keys of lists -> the fields of ``ListNames``.
_LIST_NAMES = {"lists_processing": "processing", "lists_leases": "leases", "lists_take": "take_from"}


class Web(NamedTuple):
    """Who may open the dashboard in a browser, from [web]: anyone with the secret, or the user with the password."""

    secret: Password | None = None
    user: str = ""
    password: Password | None = None


@dataclass(frozen=True, slots=True)
class Config:
    """A configuration file: ``profiles`` by name, and the name of the ``default`` one.

    ``watched`` has the settings of a server without a profile, from [defaults]. ``naming_ns`` has the names of the
    profiles that set a namespace, "" for ``watched``. A mistake in ``alerts`` is in its ``problems``. ``keys`` has the
    keys of the dashboard that the user chose, by the names of commands; whether there are such is not checked here.
    """

    profiles: Mapping[str, Profile] = field(default_factory=dict)
    default: str | None = None
    watched: Profile = _UNNAMED
    naming_ns: frozenset[str] = frozenset()
    alerts: Alerts = field(default_factory=Alerts)
    web: Web = field(default_factory=Web)
    keys: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def expected(self) -> dict[str, Expected]:
        """The expected troubles, which are no incidents, by profile name, "" for ``watched``."""
        of_profiles = {name: profile.expected for name, profile in ({"": self.watched} | {**self.profiles}).items()}
        return {name: expected for name, expected in of_profiles.items() if any(expected)}


def read_config(path: Path) -> Config:
    """Read a configuration file; raises ``ConfigError`` with the line of the first mistake."""
    try:
        with path.open("rb") as file:
            others_may = os.name == "posix" and bool(os.fstat(file.fileno()).st_mode & _OTHERS_MAY)
            text = file.read().decode()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text") from error
    try:
        content = tomllib.loads(text)
        lines = lines_of(text)
    except tomllib.TOMLDecodeError as error:
        at_line = _SYNTAX.fullmatch(str(error))
        line = at_line[2] if at_line and at_line[2] else max(1, len(text.splitlines()))
        raise ConfigError(f"{path}:{line}: {printable(at_line[1] if at_line else 'this is not TOML')}") from error
    except RecursionError:
        raise ConfigError(f"{path} is nested too deeply to be read") from None
    mistakes = Mistakes(path, lines)
    config = _read(content, path.parent, mistakes)
    if others_may:
        _refuse_passwords(content, mistakes)
    mistakes.raise_first()
    alerts = read_alerts(content, Mistakes(path, lines), others_may_read=others_may)
    return replace(config, alerts=replace(alerts, expected=config.expected))


def _read(content: dict[str, Any], folder: Path, mistakes: Mistakes) -> Config:
    elsewhere = dict.fromkeys(("defaults", "profiles", "alerts", "channels", "web", "keys"), values.anything)
    top = read_table(content, (), {"default": values.text, **elsewhere}, mistakes)
    keys = address_keys(folder) | _WATCHING
    allowed = {key: keys[key] for key in (*DEFAULTS_KEYS, *_WATCHING)}
    defaults = read_table(content.get("defaults", {}), ("defaults",), allowed, mistakes)
    tables = content.get("profiles", {})
    if not isinstance(tables, dict):
        mistakes.add(("profiles",), "profiles must be tables, one for each server: [profiles.NAME]")
        tables = {}
    watched = _watched(_UNNAMED, defaults, mistakes)
    profiles = {}
    naming_ns = {"", *tables} if _names_ns(defaults) else set()
    for name, table in tables.items():
        place = ("profiles", name)
        if not _NAME.fullmatch(name):
            mistakes.add(
                place, f"{name!r} is not a valid profile name: use at most 40 letters, digits, '.', '_' and '-'"
            )
        own = read_table(table, place, keys, mistakes)
        address = address_of(own, defaults, place, mistakes)
        profiles[name] = _watched(replace(watched, name=name, address=address), own, mistakes)
        naming_ns |= {name} if _names_ns(own) else set()
    default = top["default"].value if "default" in top else None
    if default is not None and default not in tables:
        mistakes.add(("default",), f"default is not the name of a profile: {default}{values.meant(default, tables)}")
    web = _web(content.get("web", {}), folder, mistakes)
    keys_given = dict(_keys(content.get("keys", {}), mistakes))
    return Config(profiles, default, watched, frozenset(naming_ns), web=web, keys=keys_given)


def _keys(table: Any, mistakes: Mistakes) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the names of commands of the dashboard, such as ``delete``, with their keys."""
    if not isinstance(table, dict):
        mistakes.add(("keys",), 'keys must be a table: [keys], and then lines such as delete = "f8"')
        return
    for name, value in table.items():
        keys = [value] if isinstance(value, str) else value
        if isinstance(keys, list) and keys and all(isinstance(key, str) for key in keys):
            yield name, keys
        else:
            mistakes.add(("keys", name), f'{name} must be a key such as "f8", or a list of keys: ["x", "f8"]')


def _web(table: Any, folder: Path, mistakes: Mistakes) -> Web:
    keys = _credential_keys(folder)
    secrets = {name.replace("password", "secret"): read for name, read in keys.items() if name != "user"}
    given = read_table(table, ("web",), keys | secrets, mistakes)
    found: dict[str, Password] = {}
    for what in ("password", "secret"):
        for name, read in _PASSWORDS.items():
            key = name.replace("password", what)
            if key not in given:
                continue
            if what in found:
                mistakes.add(given[key].place, f"{key} cannot be combined with another one: give the {what} only once")
            found[what] = read(given[key].value)
    user = given["user"].value if "user" in given else ""
    if ":" in user or bool(user) != ("password" in found):
        mistakes.add(("web",), "user and password go together, and a user has no colon")
    return Web(found.get("secret"), user, found.get("password"))


def _names_ns(table: Mapping[str, Value]) -> bool:
    return "namespace" in table or "namespaces" in table


def _watched(profile: Profile, given: Mapping[str, Value], mistakes: Mistakes) -> Profile:
    """Return the profile with these settings."""
    if "namespace" in given and "namespaces" in given:
        mistakes.add(
            given["namespace"].place, "namespace and namespaces cannot be combined: put all of them into namespaces"
        )
    if "colour" in given and "color" in given:
        mistakes.add(given["color"].place, "color and colour are the same key: give one of them")
    namespaces = given.get("namespaces") or given.get("namespace")
    changes = {
        "namespaces": namespaces,
        "read_only": given.get("read_only"),
        "colour": given.get("colour") or given.get("color"),
        "interval_s": given.get("interval"),
        "lists": given.get("lists"),
        "list_age": given.get("lists_age"),
        "memory": given.get("memory"),
        "zone": given.get("zone"),
    }
    profile = replace(profile, **{name: value.value for name, value in changes.items() if value is not None})
    expected = {"queues": given.get("ignore"), "spans": given.get("maintenance")}
    levels = {name: value.value for name, value in expected.items() if value is not None}
    profile = replace(profile, expected=profile.expected._replace(**levels))
    profile = replace(profile, list_names=_list_names(profile.list_names, profile.lists, given, mistakes))
    if "thresholds" in given:
        raw = given["thresholds"]
        readers = {key: read for key, (_, read) in _THRESHOLDS.items()}
        read = read_table(raw.value, raw.place, readers, mistakes)
        named = {_THRESHOLDS[key][0]: value.value for key, value in read.items()}
        profile = replace(profile, thresholds=replace(profile.thresholds, **named))
    if "slo" in given:
        profile = replace(profile, slo=read_slo(given["slo"], mistakes))
    if profile.address.cluster:
        if namespaces is None and profile.namespaces == _UNNAMED.namespaces:
            profile = replace(profile, namespaces=(_CLUSTER_NS,))
        for ns in profile.namespaces:
            if slot_of(ns) is None:
                place = ("profiles", profile.name) if namespaces is None else namespaces.place
                mistakes.add(place, f"namespace {ns} needs a hash tag on a cluster, such as {_CLUSTER_NS}: {_WHY_TAG}")
    return profile


def _list_names(names: ListNames, patterns: Sequence[str], given: Mapping[str, Value], mistakes: Mistakes) -> ListNames:
    """Return the names of the keys of lists; each is valid by itself, but two may conflict."""
    said = {field: given[key].value for key, field in _LIST_NAMES.items() if key in given}
    try:
        named = replace(names, **said)
        # Without patterns here, they come from --lists or another profile, and are checked there.
        return named.for_patterns(patterns) if patterns else named
    except ValueError as error:
        place = next(given[key].place for key in (*_LIST_NAMES, "lists") if key in given)
        mistakes.add(place, f"{place[-1]} is not valid: {str(error)[0].lower()}{str(error)[1:]}")
        return names


def _refuse_passwords(content: dict[str, Any], mistakes: Mistakes) -> None:
    """Note the passwords in a file that other users can read."""
    profiles = content.get("profiles")
    tables = {("profiles", name): table for name, table in profiles.items()} if isinstance(profiles, dict) else {}
    others: dict[KeyPath, Any] = {(name,): content.get(name) for name in ("defaults", "web")}
    for place, table in (others | tables).items():
        for key in passwords_of(table) if isinstance(table, dict) else ():
            path = mistakes.path
            mistakes.add(
                (*place, key),
                f"other users can read this file, and {key} contains a password: run `chmod 600 {path}`, "
                "or better, use password_env, password_file or password_command",
            )


def example() -> str:
    """Return an example of a configuration file, which explains each key, in ASCII for any terminal."""
    return files("rsmq_tui.profiles").joinpath("example.toml").read_text("ascii")


_SLO_EXAMPLES = f'"{ANSWERING}", "{AGE} < 5m" or "{STALLED} < 2m"'
_BELOW = re.compile(rf"({AGE}|{STALLED}) ?< ?(.+)")
_PERCENT_MIN, _PERCENT_MAX = 50, 99.9999


def read_slo(given: Value, mistakes: Mistakes) -> tuple[Objective, ...]:
    """Return the objectives of a profile; mistakes are added to ``mistakes``."""
    if not isinstance(given.value, list) or not all(isinstance(table, dict) for table in given.value):
        mistakes.add(given.place, f"slo must be tables, one for each objective: [[{'.'.join(map(str, given.place))}]]")
        return ()
    found = []
    for number, table in enumerate(given.value):
        place, before = (*given.place, number), len(mistakes.found)
        read = {key: value.value for key, value in read_table(table, place, _SLO_KEYS, mistakes).items()}
        for key in ("target", "objective"):
            if key not in table:
                mistakes.add(place, f"an objective needs {key}, such as {_SLO_NEEDED[key]}")
        if "queues" in read and read.get("target", ("",))[0] == ANSWERING:
            mistakes.add((*place, "queues"), f'queues cannot be combined with target = "{ANSWERING}": it has none')
        if len(mistakes.found) == before:
            sli, below_ms = read["target"]
            more = {field: read[key] for key, field in _SLO_FIELDS.items() if key in read}
            found.append(Objective(sli, read["objective"], below_ms, **more))
    return tuple(found)


def _target(value: Any) -> tuple[str, int]:
    written = " ".join(values.text(value).lower().split())
    if written == ANSWERING:
        return ANSWERING, 0
    limit = _BELOW.fullmatch(written)
    below_ms = read_span(limit[2]) if limit else None
    if limit is None or not isinstance(below_ms, int) or below_ms <= 0:
        raise ValueError(f"must be {_SLO_EXAMPLES}")
    return limit[1], below_ms


def _percent(value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not _PERCENT_MIN <= value <= _PERCENT_MAX:
        raise ValueError(f"must be a percentage from {_PERCENT_MIN} to {_PERCENT_MAX}, without quotes, such as 99.5")
    return float(value)


_SLO_KEYS: dict[str, Read] = {
    "target": _target,
    "objective": _percent,
    "queues": values.patterns,
    "window": values.span_ms,
}
_SLO_FIELDS = {"queues": "queues", "window": "window_ms"}
_SLO_NEEDED = {"target": f"target = {_SLO_EXAMPLES}", "objective": "objective = 99.5, in percent of the time"}
