"""Paths into JSON bodies, such as ``customer.id``, ``items[0].sku`` or ``"odd key"[-1]``, and the time at a path.

No body makes these functions raise.
"""

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from enum import Enum
from typing import Any, NamedTuple

from rsmq_tui.monitor.text import printable
from rsmq_tui.protocol import MICROSECONDS_FROM, SECONDS_BELOW

JsonPath = tuple[str | int, ...]

_KEY = re.compile(r"[^\W\d](?:[\w$-])*|[0-9]+")
_INDEX = re.compile(r"\[(-?[0-9]{1,9})\]")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_PLAIN_KEY = re.compile(r"(?:[^\W\d][\w$-]*|[0-9]+)\Z")


class Absent(Enum):
    """A missing value; it equals no JSON value."""

    VALUE = "no such path"
    JSON = "not JSON"


class JsonPathError(ValueError):
    """An invalid path; ``at`` is the offset of the error, in characters."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at


def quoted(text: str) -> str:
    """Return a text in quotes, escaped as in filters and paths."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def unquote(text: str, start: int) -> tuple[str, int] | None:
    r"""Return the quoted text that begins at ``start``, and its end; None if the closing quote is missing.

    A backslash stands for itself, as regexes need it, except before a quote or another backslash.
    """
    found = _QUOTED.match(text, start)
    return (re.sub(r'\\(["\\])', r"\1", found[1]), found.end()) if found else None


def read_path(text: str, start: int = 0) -> tuple[JsonPath, int]:
    """Parse the ``.key`` and ``[index]`` parts from ``start``; return them and their end. Raises ``JsonPathError``."""
    parts: list[str | int] = []
    while text[start : start + 1] in (".", "["):
        if found := _INDEX.match(text, start):
            parts.append(int(found[1]))
            start = found.end()
        elif text[start] == "[":
            raise JsonPathError("[ needs a number: items[0], or items[-1] for the last", start)
        elif key := _KEY.match(text, start + 1):
            parts.append(key[0])
            start = key.end()
        elif text[start + 1 : start + 2] == '"' and (key_and_end := unquote(text, start + 1)):
            parts.append(key_and_end[0])
            start = key_and_end[1]
        else:
            raise JsonPathError('a key comes after the dot: json.customer.id, or json."odd key"', start)
    return tuple(parts), start


def path_text(path: JsonPath) -> str:
    """Return a path in the syntax of ``read_path``."""
    return "".join(
        f"[{part}]" if isinstance(part, int) else f".{part if _PLAIN_KEY.match(part) else quoted(part)}"
        for part in path
    )


def load(body: bytes) -> Any:
    """Parse a body as JSON (UTF-8); return ``Absent.JSON`` if it is not JSON."""
    try:
        return json.loads(body.decode())
    except (ValueError, RecursionError):
        return Absent.JSON


def value_at(document: Any, path: JsonPath) -> Any:
    """Return the value at a path, or ``Absent.VALUE``; an empty path returns the document, even ``Absent.JSON``."""
    for part in path:
        if isinstance(part, str) and isinstance(document, dict):
            document = document.get(part, Absent.VALUE)
        elif isinstance(part, int) and isinstance(document, list) and -len(document) <= part < len(document):
            document = document[part]
        else:
            return Absent.VALUE
    return document


_FIELD_LEVELS = 4


class Field(NamedTuple):
    """A field of some bodies: in how many ``bodies`` it is, and into how many ``groups`` it divides the objects."""

    path: JsonPath
    bodies: int
    groups: int


def fields_in(bodies: Iterable[bytes]) -> list[Field]:
    """Return the texts, numbers and words in objects of these bodies; those by which they can be grouped come first."""
    found: defaultdict[JsonPath, Counter[str]] = defaultdict(Counter)
    objects = 0
    for body in bodies:
        document = load(body)
        objects += isinstance(document, dict)
        level: list[tuple[JsonPath, Any]] = [((), document)]
        for _ in range(_FIELD_LEVELS):
            level = [
                ((*path, key), inner)
                for path, value in level
                if isinstance(value, dict)
                for key, inner in value.items()
            ]
            for path, value in level:
                if not isinstance(value, dict | list):
                    found[path][value_text(value)] += 1
    fields = [Field(path, values.total(), len(values) + (values.total() < objects)) for path, values in found.items()]
    # Not those that are the same in all, nor those that are another one in most.
    return sorted(fields, key=lambda field: (not 1 < field.groups <= objects / 2, -field.bodies))


def value_text(value: Any) -> str:
    """Return a string itself, and anything else as compact JSON."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (ValueError, RecursionError):
        return ""


# Only this much of an item is read for its age; a longer item has none, because JSON cannot be parsed in part.
AGE_BYTES = 8 << 10

_TIME_FROM = 100_000_000
_NANOSECONDS_FROM = 100_000_000_000_000_000
_END_MS = 253_402_300_800_000
_NUMBER = re.compile(r"\s*([0-9]{1,19}(?:\.[0-9]+)?)\s*")


def age_path(text: str) -> JsonPath:
    """Parse the path of the timestamp: ``created``, ``json.meta.at`` or ``.meta["at"]``; raises ValueError."""
    start = text.strip().removeprefix("json")
    start = start if start[:1] in (".", "[") else "." + text.strip()
    try:
        path, end = read_path(start)
    except JsonPathError as error:
        raise ValueError(f"must be a JSON path in an item, such as created or meta.at: {error}") from error
    if end != len(start) or not path:
        raise ValueError("must be a JSON path in an item, such as created or meta.at")
    return path


def read_age(start: bytes, size: int, path: JsonPath) -> tuple[int | None, str | None]:
    """Return when an item was made, in ms, or None and a sentence; ``start`` is the whole item unless it is long."""
    if len(start) < size:
        return None, f"the next item is too long for its age to be read: {size:,} bytes"
    document = load(start)
    if document is Absent.JSON:
        return None, "the next item is not JSON: its age is unknown"
    value = value_at(document, path)
    if value is Absent.VALUE:
        return None, f"the next item has no {printable(path_text(path), 60)}: its age is unknown"
    at_ms = timestamp_ms(value)
    if at_ms is None:
        return (
            None,
            f"{printable(path_text(path), 60)} of the next item is not a time: {printable(value_text(value), 40)}",
        )
    return at_ms, None


def timestamp_ms(value: Any) -> int | None:
    """Read a time: an ISO date, or seconds, ms, µs or ns since 1970, told apart by magnitude."""
    if isinstance(value, str):
        number = _NUMBER.fullmatch(value)
        if number is None:
            return _iso_ms(value)
        value = float(number[1])
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    if not _TIME_FROM <= value < _NANOSECONDS_FROM * 1000:
        return None
    if value < SECONDS_BELOW:
        found = value * 1000
    elif value < MICROSECONDS_FROM:
        found = value
    else:
        found = value / (1000 if value < _NANOSECONDS_FROM else 1_000_000)
    return int(found) if found < _END_MS else None


def _iso_ms(text: str) -> int | None:
    # Go writes nanoseconds, but Python reads at most microseconds.
    try:
        moment = datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text.strip()))
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
