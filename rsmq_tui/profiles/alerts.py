"""Reads the alerts of the configuration file: the rules of [[alerts]], and the channels of [channels.NAME].

A mistake is reported with its line, and the rule or channel that has it is left out. Everything else is used.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any

from rsmq_tui.monitor import Verdict
from rsmq_tui.monitor.incidents import Expected
from rsmq_tui.monitor.text import read_span, read_whole
from rsmq_tui.profiles import values
from rsmq_tui.profiles.passwords import from_command, from_file, from_text, from_variable
from rsmq_tui.profiles.values import KeyPath, Mistakes, Read, Value, read_table, zone_of
from rsmq_tui.protocol import Password

SERVER_GONE, SERVER_RESTARTED = "server gone", "server restarted"
TROUBLE = "trouble"
DEPTH, OLDEST, RECEIVE_COUNT, EXPIRED_LEASES = "depth", "oldest", "receive count", "expired leases"
FULL_IN, MEMORY_FULL_IN = "full in", "memory full in"
# The conditions that concern a server, not a queue.
OF_SERVERS = (SERVER_GONE, SERVER_RESTARTED, MEMORY_FULL_IN)
# The conditions of which one poll says nothing.
OVER_TIME = (Verdict.LEAKING.value, Verdict.GROWING.value, FULL_IN, MEMORY_FULL_IN, SERVER_RESTARTED)
# Channels that need no table of their own.
BELL, TERMINAL = "bell", "terminal"
SEQUENCES = ("osc9", "osc777", "osc99")
_VERDICTS = tuple(verdict.value for verdict in Verdict if verdict.is_trouble)
_WITHOUT_NUMBER = (*_VERDICTS, TROUBLE, SERVER_GONE, SERVER_RESTARTED)
_EXAMPLES = '"depth > 1000", "oldest > 10m", "receive count > 5", "expired leases > 0", "full in < 2h"'
_LIMIT = re.compile(r"([a-z ]+?) ?(>=?|<=?|=) ?(.+)")
_IN_GROUPS = re.compile(r"[0-9]{1,3}(,[0-9]{3})+")
_CLOCK = r"([01]?[0-9]|2[0-3]):([0-5][0-9])"
_QUIET = re.compile(rf"{_CLOCK} ?- ?{_CLOCK}(?: +(\S+))?")
_TIMEOUT_S, _TIMEOUT_MAX_S = 10.0, 600.0
_NAME = re.compile(r"[\w.-]{1,40}")


@dataclass(frozen=True, slots=True)
class Condition:
    """When a rule alerts: a verdict, a number beyond its ``bound`` (or equal, if ``or_equal``), or what a server does.

    ``what`` is a verdict's name, ``TROUBLE`` for any of them, one of ``OF_SERVERS``, or the name of a number. These are
    above the bound: ``DEPTH``, ``OLDEST`` (ms since the first ready message became due), ``RECEIVE_COUNT`` (the
    highest), ``EXPIRED_LEASES``. These are below it, in ms: ``FULL_IN``, the time until a queue reaches its first
    limit, and ``MEMORY_FULL_IN``, until the memory of the server is full. ``text`` is how it is written.
    """

    text: str
    what: str
    bound: int = 0
    or_equal: bool = False


@dataclass(frozen=True, slots=True)
class Quiet:
    """The hours of each day in which a rule sends nothing, in minutes after midnight; in local time without ``zone``.

    The end may be before the beginning: then it is on the next day.
    """

    begin: int
    end: int
    zone: tzinfo | None = None

    def holds(self, wall_s: float) -> bool:
        """Return whether that time, in seconds since 1970, is within the hours."""
        moment = datetime.fromtimestamp(wall_s, UTC).astimezone(self.zone)
        minute = moment.hour * 60 + moment.minute
        if self.begin <= self.end:
            return self.begin <= minute < self.end
        return minute >= self.begin or minute < self.end


@dataclass(frozen=True, slots=True)
class Rule:
    """One of [[alerts]]: on which queues and profiles, when, for how long, and where it is sent.

    ``queues`` are names and patterns, ``profiles`` names; empty for all. It is sent when the condition has lasted for
    ``for_ms``, again every ``repeat_ms`` if that is not None, and when it is over if ``resolved``.
    """

    name: str
    when: Condition
    queues: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    for_ms: int = 0
    repeat_ms: int | None = None
    quiet: Quiet | None = None
    channels: tuple[str, ...] = ()
    resolved: bool = True


@dataclass(frozen=True, slots=True)
class Channel:
    """Where messages are sent. ``kind`` is ``bell``, ``terminal``, ``command`` or ``apprise``.

    ``sequence`` is one of ``SEQUENCES``, or empty to choose by the terminal; ``tmux`` passes it through tmux.
    ``urls`` return the URLs for apprise, which may be secrets.
    """

    name: str
    kind: str
    sequence: str = ""
    tmux: bool = False
    command: tuple[str, ...] = ()
    urls: tuple[Password, ...] = field(default=(), repr=False)
    timeout_s: float = _TIMEOUT_S


@dataclass(frozen=True, slots=True)
class Alerts:
    """The rules and channels of a configuration file, and the mistakes in others, each with its line.

    Nothing is sent for troubles that are ``expected``, by profile.
    """

    rules: tuple[Rule, ...] = ()
    channels: Mapping[str, Channel] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    expected: Mapping[str, Expected] = field(default_factory=dict)


def read_alerts(content: Mapping[str, Any], mistakes: Mistakes, *, others_may_read: bool) -> Alerts:
    """Return the alerts of a file whose path and lines ``mistakes`` has; ``others_may_read`` refuses URLs in it."""
    channels = {name: Channel(name, name) for name in (BELL, TERMINAL)}
    tables = content.get("channels", {})
    if not isinstance(tables, dict):
        mistakes.add(("channels",), "channels must be tables, one for each: [channels.NAME]")
        tables = {}
    given = {}
    for name, table in tables.items():
        found = _read_channel(name, table, mistakes, others_may_read=others_may_read)
        if found is not None:
            given[name] = found
    channels |= given
    raw = content.get("alerts", [])
    if not isinstance(raw, list):
        mistakes.add(("alerts",), "alerts must be tables, one for each rule: [[alerts]]")
        raw = []
    usual = tuple(given) or (BELL, TERMINAL)
    # A mistake in a channel is reported once, for the channel.
    named = {*channels, *tables}
    rules: dict[str, Rule] = {}
    for number, table in enumerate(raw):
        known = {"channels": named, "profiles": content.get("profiles", ())}
        rule = _read_rule(table, ("alerts", number), mistakes, usual, known)
        if rule is not None and rule.name in rules:
            mistakes.add(("alerts", number), f"name {rule.name} is used by an earlier rule: each needs its own")
        elif rule is not None:
            rules[rule.name] = rule
    return Alerts(tuple(rules.values()), channels, tuple(mistakes.sentences()))


def _read_rule(
    table: Any, place: KeyPath, mistakes: Mistakes, usual: Sequence[str], known: Mapping[str, Any]
) -> Rule | None:
    before = len(mistakes.found)
    given = read_table(table, place, _RULE, mistakes)
    for key, names in known.items():
        for name in given[key].value if key in given else ():
            if name not in names:
                close = values.meant(name, names)
                mistakes.add(given[key].place, f"{key} names {name}, but there is no [{key}.{name}]{close}")
    if "when" not in given and len(mistakes.found) == before:
        mistakes.add(place, 'a rule needs when, such as when = "stalled"')
    if "queues" in given and "when" in given and given["when"].value.what in OF_SERVERS:
        when = given["when"].value
        mistakes.add(given["queues"].place, f'queues cannot be combined with when = "{when.text}", which has none')
    if len(mistakes.found) > before:
        return None
    said = {_FIELDS.get(key, key): value.value for key, value in given.items()}
    return Rule(**{"name": said["when"].text, "channels": tuple(usual), **said})


def _read_channel(name: str, table: Any, mistakes: Mistakes, *, others_may_read: bool) -> Channel | None:
    place, before = ("channels", name), len(mistakes.found)
    if not _NAME.fullmatch(name):
        mistakes.add(place, f"{name!r} is not a valid channel name: use at most 40 letters, digits, '.', '_' and '-'")
    given = read_table(table, place, _channel_keys(mistakes.path.parent), mistakes)
    kinds = dict.fromkeys(_KINDS[key] for key in given if key in _KINDS)
    if len(mistakes.found) == before and len(kinds) != 1:
        mistakes.add(place, f"a channel needs one of {', '.join(_KINDS)}")
    if others_may_read and "apprise" in given:
        mistakes.add(
            given["apprise"].place,
            f"other users can read this file, and apprise may contain a password: run `chmod 600 {mistakes.path}`, or "
            "better, use apprise_env, apprise_file or apprise_command",
        )
    if len(mistakes.found) > before:
        return None
    (kind,) = kinds
    urls = [url for key, read in _URLS.items() if key in given for url in read(given[key].value)]
    sequence = _value_or(given, "terminal", True)
    return Channel(
        name,
        kind,
        sequence="" if sequence is True else sequence,
        tmux=_value_or(given, "tmux", False),
        command=_value_or(given, "command", ()),
        urls=tuple(urls),
        timeout_s=_value_or(given, "timeout", _TIMEOUT_S),
    )


def _value_or(given: Mapping[str, Value], key: str, usual: Any) -> Any:
    return given[key].value if key in given else usual


def read_condition(value: Any) -> Condition:
    """Read ``when``; raises ValueError."""
    written = " ".join(values.text(value).lower().split())
    if written in _WITHOUT_NUMBER:
        return Condition(written, written)
    limit = _LIMIT.fullmatch(written)
    if limit is None:
        names, close = ", ".join(_WITHOUT_NUMBER), values.meant(written, _WITHOUT_NUMBER)
        raise ValueError(f"must be one of {names}, or a limit such as {_EXAMPLES}{close}")
    what, sign, bound = limit.groups()
    if what not in NUMBERS:
        raise ValueError(f"has no number {what}: write {_EXAMPLES}{values.meant(what, NUMBERS)}")
    beyond, side = ("<", "below") if what in _BELOW else (">", "above")
    if not sign.startswith(beyond):
        raise ValueError(f"must be {side} a limit: write {what} {beyond} {bound} or {what} {beyond}= {bound}")
    found = NUMBERS[what](bound)
    if isinstance(found, str) or found < 0:
        raise ValueError(
            f"has no number behind {sign}: {found if isinstance(found, str) else 'it must not be below 0'}"
        )
    return Condition(written, what, found, sign.endswith("="))


def _whole(text: str) -> int | str:
    # The screens write 50,000.
    found = read_whole(text.replace(",", "") if _IN_GROUPS.fullmatch(text) else text)
    return "it must be a whole number" if found is None else found


# The numbers of a rule are read as those of the options of `rsmq-tui check`; ``events.alerts.checks`` has a check for
# each that is of a queue.
NUMBERS: dict[str, Callable[[str], int | str]] = {
    DEPTH: _whole,
    OLDEST: read_span,
    RECEIVE_COUNT: _whole,
    EXPIRED_LEASES: _whole,
    FULL_IN: read_span,
    MEMORY_FULL_IN: read_span,
}
# The numbers that have to be below their limit; the others have to be above it.
_BELOW = (FULL_IN, MEMORY_FULL_IN)


def read_quiet(value: Any) -> Quiet:
    """Read ``quiet``; raises ValueError."""
    found = _QUIET.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        raise ValueError('must be two times such as "22:00-06:00", or with a time zone: "22:00-06:00 Europe/Berlin"')
    begin, end = (int(found[part]) * 60 + int(found[part + 1]) for part in (1, 3))
    if begin == end:
        raise ValueError("must be two different times")
    return Quiet(begin, end, None if found[5] is None else zone_of(found[5]))


def _several(example: str) -> Read:
    def read(value: Any) -> tuple[str, ...]:
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, list) or not texts or not all(isinstance(each, str) and each for each in texts):
            raise ValueError(f"must be a string in quotes, or a list of them such as {example}")
        return tuple(dict.fromkeys(texts))

    return read


def _yes(value: Any) -> bool:
    if value is not True:
        raise ValueError("must be true, without quotes")
    return True


def _sequence(value: Any) -> str | bool:
    if value is not True and value not in SEQUENCES:
        raise ValueError(f"must be true, to choose by the terminal, or one of {', '.join(SEQUENCES)}")
    return bool(value) if value is True else str(value)


def _timeout_s(value: Any) -> float:
    span_ms = values.span_ms(value)
    if span_ms > _TIMEOUT_MAX_S * 1000:
        raise ValueError("must be 10m or less")
    return span_ms / 1000


_RULE: dict[str, Read] = {
    "name": values.text,
    "when": read_condition,
    "queues": lambda value: values.of_all_namespaces(_several('["orders", "mail-*"]')(value)),
    "profiles": _several('["staging", "production"]'),
    "for": values.span_ms,
    "repeat": values.span_ms,
    "quiet": read_quiet,
    "channels": _several('["bell", "oncall"]'),
    "resolved": values.flag,
}
# The keys of a rule -> the fields of ``Rule``, where those are others.
_FIELDS = {"for": "for_ms", "repeat": "repeat_ms"}
_URLS: dict[str, Callable[[Any], list[Password]]] = {
    "apprise": lambda urls: [from_text(url) for url in urls],
    "apprise_env": lambda name: [from_variable(name)],
    "apprise_file": lambda path: [from_file(path)],
    "apprise_command": lambda command: [from_command(command)],
}
# The keys that say what a channel is -> its kind.
_KINDS = {BELL: BELL, TERMINAL: TERMINAL, "command": "command", **dict.fromkeys(_URLS, "apprise")}


def _channel_keys(folder: Path) -> dict[str, Read]:
    return {
        BELL: _yes,
        TERMINAL: _sequence,
        "tmux": values.flag,
        "command": values.command,
        "apprise": _several('["mailtos://…", "slack://…"]'),
        "apprise_env": values.text,
        "apprise_file": values.path_in(folder),
        "apprise_command": values.command,
        "timeout": _timeout_s,
    }
