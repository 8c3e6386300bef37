"""Paths into JSON bodies: ``customer.id``, ``items[0].sku``, ``"odd key"[-1]``. No body makes these functions raise."""

import json
import re
from enum import Enum
from typing import Any

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


def value_text(value: Any) -> str:
    """Return a string itself, and anything else as compact JSON."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (ValueError, RecursionError):
        return ""
