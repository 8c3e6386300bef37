"""Reading the values of a configuration file: each reader returns what the program works with, or raises ValueError.

The words of such an error follow the name of the key: ``port must be …``. They never repeat the value of a secret.
"""

import re
import shlex
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from rsmq_tui.monitor.list_ages import age_path
from rsmq_tui.monitor.spans import read_span
from rsmq_tui.profiles.colours import COLOURS, hex_of
from rsmq_tui.protocol import Node
from rsmq_tui.protocol.lists.naming import ListNames

Read = Callable[[Any], Any]

_INTERVAL_S = 0.1, 1e6
_HOST = re.compile(r"[^\s/?#@\[\],\\]+")
_DB_MAX = 1_000_000
_SPAN_MAX_MS = 366 * 86_400_000


def anything(value: Any) -> Any:
    """Take a value that is read elsewhere."""
    return value


def text(value: Any) -> str:
    """Read a text that is not empty."""
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError("must be a string in quotes, not empty")
    return value


def secret(value: Any) -> str:
    """Read a password."""
    return text(value)


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
    """Return what reads a path; one that is not absolute starts in the folder, ~ is the user's own."""
    return lambda value: folder / Path(text(value)).expanduser()


def one_of(*allowed: str) -> Read:
    """Return what reads one of a few words."""

    def read(value: Any) -> str:
        if value not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}{meant(value, allowed)}")
        return str(value)

    return read


def nodes(default_port: int) -> Read:
    """Return what reads a list of host:port."""

    def read(value: Any) -> tuple[Node, ...]:
        if not isinstance(value, list) or not value:
            raise ValueError(f'must be a list such as ["one.example:{default_port}", "two.example:{default_port}"]')
        return tuple(_node(each, number, default_port) for number, each in enumerate(value))

    return read


def cluster(default_port: int) -> Read:
    """Return what reads whether there is a cluster, or some of its nodes."""

    def read(value: Any) -> tuple[Node, ...] | bool:
        if isinstance(value, bool):
            return value
        if not isinstance(value, list):
            raise ValueError(f'must be true, or a list of nodes such as ["one.example:{default_port}"]')
        found: tuple[Node, ...] = nodes(default_port)(value)
        return found

    return read


def command(value: Any) -> tuple[str, ...]:
    """Read a command: a list of words, or a text that is split at its spaces as a shell would."""
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
    return (str(Path(words[0]).expanduser()) if words[0].startswith("~") else words[0], *words[1:])


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


def list_template(field: str) -> Read:
    """Return what reads how the keys of that kind are named."""

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
    """Read where the JSON of an item tells when it was made."""
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
    """Read the seconds between polls: a number of them, or a span of time."""
    least, most = _INTERVAL_S
    if isinstance(value, str):
        read = read_span(value)
        value = read / 1000 if isinstance(read, int) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise ValueError('must be seconds, 0.1 or more, or a duration such as "2s" or "500ms"')
    return float(value)


def span_ms(value: Any) -> int:
    """Read a span of time, in ms."""
    found = read_span(value) if isinstance(value, str) else None
    if not isinstance(found, int) or not 0 < found <= _SPAN_MAX_MS:
        raise ValueError('must be a duration such as "90s", "10m", "1h30m" or "2d"')
    return found


def count(value: Any) -> int:
    """Read a number of things, 1 or more."""
    return _whole(value, 1, 10**12)


def share(value: Any) -> float:
    """Read a part of a whole."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError("must be a fraction from 0 to 1")
    return float(value)


def meant(value: Any, allowed: Any) -> str:
    """Return what somebody may have meant who wrote something else, as the end of a sentence."""
    close = get_close_matches(value.lower(), allowed, n=1) if isinstance(value, str) else []
    return f"; did you mean {close[0]}?" if close else ""


def _whole(value: Any, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"must be a whole number from {least:,} to {most:,}, without quotes")
    return value


class ElementError(ValueError):
    """What is wrong with one element of a list, whose number is ``number``."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.number = number


def _node(value: Any, number: int, default_port: int) -> Node:
    try:
        return Node.parse(text(value), default_port)
    except ValueError as error:
        raise ElementError(f"has an invalid element: {error}", number) from None
