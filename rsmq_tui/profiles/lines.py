"""On which line of a TOML file each key and each element of an array stands.

Python's reader does not tell. The text has been read by it before, and so is known to be right: this only walks over
it, and need not find mistakes.
"""

import re
import tomllib
from typing import Any

# What leads to a value: keys, and numbers in arrays.
Place = tuple[str | int, ...]

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(
    r'"""(?:[^"\\]|\\.|"{1,2}(?!"))*"{3,5}'
    r"|'''(?:[^']|'{1,2}(?!'))*'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_SCALAR = re.compile(r"[^,\]}#\n]+")


def lines_of(text: str) -> dict[Place, int]:
    """Return the line, counted from 1, of every table, key and element of a text that ``tomllib`` can read."""
    return _Walk(text.replace("\r\n", "\n")).lines


class _Walk:
    def __init__(self, text: str) -> None:
        self.lines: dict[Place, int] = {}
        self._text = text
        self._at = 0
        self._line = 1
        self._counted = 0
        # How many elements each array of tables has so far.
        self._sizes: dict[Place, int] = {}
        table: Place = ()
        self._take(_BLANK)
        while self._at < len(text):
            if text[self._at] == "[":
                table = self._header()
            else:
                self._pair(table)
            self._take(_BLANK)

    def _header(self) -> Place:
        is_array = self._text.startswith("[[", self._at)
        line = self._line_here()
        self._at += 2 if is_array else 1
        *parents, last = self._keys()
        self._at += 2 if is_array else 1
        table: Place = ()
        for key in parents:
            table = self._latest((*table, key))
            self.lines.setdefault(table, line)
        table = (*table, last)
        if is_array:
            number = self._sizes.get(table, 0)
            self._sizes[table] = number + 1
            self.lines.setdefault(table, line)
            table = (*table, number)
        else:
            table = self._latest(table)
        self.lines.setdefault(table, line)
        return table

    def _latest(self, table: Place) -> Place:
        """Return the last element of an array of tables, which is what its name means in a header."""
        return (*table, self._sizes[table] - 1) if table in self._sizes else table

    def _pair(self, table: Place) -> None:
        line = self._line_here()
        place = table
        for key in self._keys():
            place = (*place, key)
            self.lines.setdefault(place, line)
        self._at += 1
        self._take(_SPACE)
        self._value(place)

    def _keys(self) -> list[str]:
        keys = []
        while True:
            self._take(_SPACE)
            if self._text[self._at] in "\"'":
                keys.append(_unquoted(self._take(_STRING)))
            else:
                keys.append(self._take(_BARE))
            self._take(_SPACE)
            if self._text[self._at] != ".":
                return keys
            self._at += 1

    def _value(self, place: Place) -> None:
        match self._text[self._at]:
            case '"' | "'":
                self._take(_STRING)
            case "[":
                self._elements(place)
            case "{":
                self._inline(place)
            case _:
                self._take(_SCALAR)

    def _elements(self, place: Place) -> None:
        self._at += 1
        number = 0
        while self._next() != "]":
            self.lines[*place, number] = self._line_here()
            self._value((*place, number))
            number += 1
        self._at += 1

    def _inline(self, place: Place) -> None:
        self._at += 1
        while self._next() != "}":
            self._pair(place)
        self._at += 1

    def _next(self) -> str:
        """Go to what follows white space, comments and commas."""
        self._take(_BLANK)
        if self._text[self._at] == ",":
            self._at += 1
            self._take(_BLANK)
        return self._text[self._at]

    def _take(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        assert found is not None, "a text that tomllib has read"
        self._at = found.end()
        return found[0]

    def _line_here(self) -> int:
        self._line += self._text.count("\n", self._counted, self._at)
        self._counted = self._at
        return self._line


def _unquoted(key: str) -> str:
    value: dict[str, Any] = tomllib.loads(f"key = {key}")
    return str(value["key"])
