"""Reads values and tables of the configuration file, and reports the line of each mistake.

A reader returns the parsed value, or raises ValueError. The text of the error follows the name of the key:
``port must be …``. It never contains the value of a secret.

``tomllib`` does not report the lines of values. So the text, which is known to be valid, is parsed again in parts.
"""

import re
import shlex
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from rsmq_tui.files import expanded
from rsmq_tui.monitor.filters.json_paths import age_path
from rsmq_tui.monitor.text import printable, read_span
from rsmq_tui.protocol import Node
from rsmq_tui.protocol.kinds import read_reference
from rsmq_tui.protocol.lists.naming import ListNames

COLOURS = {
    "red": "#ff5f5f",
    "orange": "#ff9f43",
    "yellow": "#e6d05a",
    "green": "#5fd787",
    "cyan": "#4fd6d6",
    "blue": "#5fafff",
    "purple": "#af87ff",
    "pink": "#ff87d7",
    "grey": "#9aa5b1",
    "white": "#ffffff",
}
_HEX = re.compile(r"#[0-9a-fA-F]{6}")


def hex_of(text: str) -> str | None:
    """Return the ``#rrggbb`` of a colour's name, or of such a text itself; None for any other text."""
    return COLOURS.get(text.lower(), text.lower() if _HEX.fullmatch(text) else None)


Read = Callable[[Any], Any]

_INTERVAL_S = 0.1, 1e6
_HOST = re.compile(r"[^\s/?#@\[\],\\]+")
_DB_MAX = 1_000_000
_SPAN_MAX_MS = 366 * 86_400_000
_SPAN_EXAMPLE = "{ from = 2031-05-17T02:00:00, to = 2031-05-17T04:00:00 }"


def anything(value: Any) -> Any:
    """Return the value as it is; it is checked elsewhere."""
    return value


def text(value: Any) -> str:
    """Read a non-empty string."""
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError("must be a string in quotes, not empty")
    return value


def flag(value: Any) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        raise ValueError("must be true or false, without quotes")
    return value


def host(value: Any) -> str:
    """Read the name or the address of a host."""
    name = text(value).removeprefix("[").removesuffix("]")
    if not _HOST.fullmatch(name):
        raise ValueError("must be a host name or an address; the port has its own key")
    return name


def port(value: Any) -> int:
    """Read the number of a TCP port."""
    return _whole(value, 1, 65_535)


def database(value: Any) -> int:
    """Read the number of a database."""
    return _whole(value, 0, _DB_MAX)


def path_in(folder: Path) -> Read:
    """Return a reader of paths; relative paths start in the folder, and ~ is the home directory."""
    return lambda value: folder / expanded(text(value))


def one_of(*allowed: str) -> Read:
    """Return a reader of one of these words."""

    def read(value: Any) -> str:
        if value not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}{meant(value, allowed)}")
        return str(value)

    return read


def nodes(default_port: int) -> Read:
    """Return a reader of a list of host:port."""

    def read(value: Any) -> tuple[Node, ...]:
        if not isinstance(value, list) or not value:
            raise ValueError(f'must be a list such as ["one.example:{default_port}", "two.example:{default_port}"]')
        return tuple(_node(each, number, default_port) for number, each in enumerate(value))

    return read


def cluster(default_port: int) -> Read:
    """Return a reader of ``cluster``: a flag, or a list of nodes."""

    def read(value: Any) -> tuple[Node, ...] | bool:
        if isinstance(value, bool):
            return value
        if not isinstance(value, list):
            raise ValueError(f'must be true, or a list of nodes such as ["one.example:{default_port}"]')
        found: tuple[Node, ...] = nodes(default_port)(value)
        return found

    return read


def command(value: Any) -> tuple[str, ...]:
    """Read a command: a list of words, or a string that is split as a shell would."""
    if isinstance(value, str):
        try:
            words = shlex.split(value)
        except ValueError:
            raise ValueError("has a quote that is not closed") from None
    elif isinstance(value, list) and all(isinstance(each, str) for each in value):
        words = list(value)
    else:
        words = []
    if not words or not words[0] or any("\0" in word for word in words):
        raise ValueError('must be a command, such as "pass show redis" or ["sh", "-c", "…"]; no shell is added')
    return (str(expanded(words[0])) if words[0].startswith("~") else words[0], *words[1:])


def namespace(value: Any) -> tuple[str, ...]:
    """Read one namespace."""
    return (text(value),)


def namespaces(value: Any) -> tuple[str, ...]:
    """Read several namespaces."""
    if not isinstance(value, list) or not value or not all(isinstance(each, str) and each for each in value):
        raise ValueError('must be a list of namespaces such as ["rsmq", "jobs"]')
    return tuple(dict.fromkeys(map(text, value)))


def lists(value: Any) -> tuple[str, ...]:
    """Read names and patterns of lists."""
    if not isinstance(value, list) or not all(isinstance(each, str) and each and "\0" not in each for each in value):
        raise ValueError('must be a list of keys and patterns of keys such as ["queue:*", "mail"]')
    return tuple(dict.fromkeys(value))


def patterns(value: Any) -> tuple[str, ...]:
    """Read names and patterns of queues; raises ``ElementError`` as ``of_all_namespaces`` does."""
    if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
        raise ValueError('must be a list of names and patterns of queues such as ["*-dead", "dlq"]')
    return of_all_namespaces(value)


def of_all_namespaces(texts: Sequence[str]) -> tuple[str, ...]:
    """Return names and patterns, each once; raises ``ElementError`` for one with a namespace, as none is compared."""
    for number, each in enumerate(texts):
        reference = read_reference(each, "")
        if reference is not None and reference.kind.has_namespaces and reference.ns:
            name = printable(f"{reference.kind.prefix}{reference.queue}")
            raise ElementError(f"cannot name a namespace: write {name}, for the queue in every namespace", number)
    return tuple(dict.fromkeys(texts))


def spans_of_time(value: Any) -> tuple[tuple[int, int], ...]:
    """Read times of maintenance, in ms: tables with ``from`` and ``to``, which are TOML's times, UTC without offset."""
    if not isinstance(value, list):
        raise ValueError(f"must be a list of times such as [{_SPAN_EXAMPLE}]")
    return tuple(sorted(_span_of_time(each, number) for number, each in enumerate(value)))


def _span_of_time(value: Any, number: int) -> tuple[int, int]:
    if not isinstance(value, dict) or value.keys() != {"from", "to"}:
        raise ElementError(f"must be a list of times such as {_SPAN_EXAMPLE}", number)
    ends = []
    for at in value["from"], value["to"]:
        if not isinstance(at, datetime):
            raise ElementError(f"has a time that is not one: write it without quotes, as in {_SPAN_EXAMPLE}", number)
        ends.append(round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000))
    if ends[0] >= ends[1]:
        raise ElementError("has a time that ends before it begins", number)
    return ends[0], ends[1]


def list_template(field: str) -> Read:
    """Return a reader of the template for names of keys; ``field`` is a field of ``ListNames``."""

    def read(value: Any) -> str:
        template = text(value)
        if template.count("{queue}") + template.count("{name}") != 1:
            usual = getattr(ListNames(), field)
            raise ValueError(
                f'must be a key that contains {{queue}} once, which stands for the key of the queue: "{usual}"; or '
                "{name}, which stands for the part that matches the * of a pattern"
            )
        return template

    return read


def list_age(value: Any) -> str:
    """Read the JSON path of the creation time in an item."""
    place = text(value)
    age_path(place)
    return place


def colour(value: Any) -> str:
    """Read a colour, as #rrggbb."""
    found = hex_of(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError(f"must be #rrggbb or one of {', '.join(COLOURS)}{meant(value, COLOURS)}")
    return found


def interval_s(value: Any) -> float:
    """Read the interval between polls in seconds: a number of seconds, or a duration with a unit."""
    least, most = _INTERVAL_S
    if isinstance(value, str):
        read = read_span(value)
        value = read / 1000 if isinstance(read, int) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise ValueError('must be seconds, 0.1 or more, or a duration such as "2s" or "500ms"')
    return float(value)


def zone(value: Any) -> str:
    """Read the name of a time zone."""
    return str(zone_of(text(value)))


def zone_of(name: str) -> tzinfo:
    """Return the time zone of a name; raises ValueError."""
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - few files name one

    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        raise ValueError(f"has a time zone that is not known here: {name}") from None


def span_ms(value: Any) -> int:
    """Read a duration with a unit, in ms."""
    found = read_span(value) if isinstance(value, str) else None
    if not isinstance(found, int) or not 0 < found <= _SPAN_MAX_MS:
        raise ValueError('must be a duration such as "90s", "10m", "1h30m" or "2d"')
    return found


def count(value: Any) -> int:
    """Read a whole number, 1 or more."""
    return _whole(value, 1, 10**12)


def share(value: Any) -> float:
    """Read a fraction from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError("must be a fraction from 0 to 1")
    return float(value)


def meant(value: Any, allowed: Any) -> str:
    """Return ``; did you mean …?`` with the closest allowed word, or an empty string."""
    close = get_close_matches(value.lower(), allowed, n=1) if isinstance(value, str) else []
    return f"; did you mean {close[0]}?" if close else ""


def _whole(value: Any, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"must be a whole number from {least:,} to {most:,}, without quotes")
    return value


class ElementError(ValueError):
    """An invalid element of a list; ``number`` is its index."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.number = number


def _node(value: Any, number: int, default_port: int) -> Node:
    try:
        return Node.parse(text(value), default_port)
    except ValueError as error:
        raise ElementError(f"has an invalid element: {error}", number) from None


# The path of a value: keys, and indexes in arrays.
KeyPath = tuple[str | int, ...]


def lines_of(text: str) -> dict[KeyPath, int]:
    """Return the line, counted from 1, of every table, key and element of a valid TOML text.

    A header is a valid document by itself, and so is a key with its value: the text is parsed statement by statement.
    The line of a key is the first line of its statement; that of an array element is the line where it is complete.
    """
    lines: dict[KeyPath, int] = {}
    # The index of the last element of each array of tables.
    last: dict[KeyPath, int] = {}
    rows = text.replace("\r\n", "\n").split("\n")
    table: KeyPath = ()
    begin = 0
    for end in range(1, len(rows) + 1):
        content = _content_of(rows[begin:end])
        if content is None:
            continue
        if rows[begin].lstrip().startswith("["):
            table = ()
            while content:
                ((key, content),) = content.items()
                table = (*table, key)
                lines.setdefault(table, end)
                if isinstance(content, list):
                    last[table], content = last.get(table, -1) + 1, None
                table = (*table, last[table]) if table in last else table
                lines.setdefault(table, end)
        else:
            for place in _places(content, table):
                if all(isinstance(key, str) for key in place[len(table) :]):
                    lines.setdefault(place, begin + 1)
            for part in range(begin + 1, end + 1):
                content = _content_of([*rows[begin:part], "]"] if part < end else rows[begin:end])
                for place in () if content is None else _places(content, table):
                    lines.setdefault(place, part)
        begin = end
    return lines


def _content_of(rows: Sequence[str]) -> Any:
    try:
        return tomllib.loads("\n".join(rows))
    except tomllib.TOMLDecodeError:
        return None


def _places(value: Any, place: KeyPath) -> Iterator[KeyPath]:
    """Yield the places of all values in a table or an array, recursively."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield (*place, key)
        yield from _places(each, (*place, key))


class ConfigError(ValueError):
    """An invalid configuration file; the text has the file, the line, the mistake and what is allowed."""


@dataclass(slots=True)
class Mistakes:
    """The mistakes in a file."""

    path: Path
    lines: Mapping[KeyPath, int]
    found: list[tuple[int, str]] = field(default_factory=list)

    def add(self, place: KeyPath, sentence: str) -> None:
        """Add a mistake at a place, or at the nearest enclosing place that has a line."""
        while place and place not in self.lines:
            place = place[:-1]
        self.found.append((self.lines.get(place, 1), sentence))

    def sentences(self) -> list[str]:
        """Return the mistakes with the path and their lines, in the order of the file."""
        found = sorted(self.found, key=lambda each: each[0])
        return [f"{self.path}:{line}: {printable(sentence)}" for line, sentence in found]

    def raise_first(self) -> None:
        """Raise ``ConfigError`` if there is a mistake."""
        if self.found:
            raise ConfigError(self.sentences()[0])


@dataclass(frozen=True, slots=True)
class Value:
    """A value and its place; it may be a password, so ``repr`` omits it."""

    value: Any = field(repr=False)
    place: KeyPath


def read_table(table: Any, place: KeyPath, keys: Mapping[str, Read], mistakes: Mistakes) -> dict[str, Value]:
    """Read the keys of a table; invalid keys are added to ``mistakes``, and omitted."""
    if not isinstance(table, dict):
        mistakes.add(place, f"{_called(place)} must be a table, [{_called(place)}]")
        return {}
    values = {}
    for key, value in table.items():
        here = (*place, key)
        if key not in keys:
            where = f"in [{_called(place)}]" if place else "at the top of the file"
            hint = meant(key, keys) or "; known keys: " + ", ".join(keys)
            mistakes.add(here, f"unknown key {key} {where}{hint}")
            continue
        try:
            values[key] = Value(keys[key](value), here)
        except ElementError as error:
            mistakes.add((*here, error.number), f"{key} {error}")
        except ValueError as error:
            mistakes.add(here, f"{key} {error}")
    return values


def _called(place: KeyPath) -> str:
    # Without the index in an array of tables.
    return ".".join(each for each in place if isinstance(each, str))
