"""A message's body as lines: JSON set out and coloured, text as text, anything else in hex.

JSON is set out token by token, not through Python values, so that numbers, escapes and double keys stay as they were
sent.
"""

import json
import re
from collections.abc import Iterator, Sequence
from enum import StrEnum

from rsmq_tui.monitor.wording import printable
from rsmq_tui.tui.widgets.line_view import Lines
from rsmq_tui.tui.widgets.painted import Piece

# Setting out takes about a second per megabyte.
PRETTY_BYTES_MAX = 1_000_000
_HEX_ROW = 16
_TEXT_ROW = 2_000
_INDENT = 2
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


class View(StrEnum):
    """The ways to look at a body."""

    PRETTY = "pretty"
    RAW = "raw"
    HEX = "hex"


class PieceLines:
    """Lines that are ready made."""

    def __init__(self, lines: Sequence[Sequence[Piece]]) -> None:
        self._lines = lines

    def __len__(self) -> int:
        """How many there are."""
        return len(self._lines)

    def line(self, number: int) -> Sequence[Piece]:
        """Return one."""
        return self._lines[number]


class TextLines:
    """Text as lines; a very long line is cut into rows, so that it can be scrolled through."""

    def __init__(self, text: str) -> None:
        self._rows = [
            row[start : start + _TEXT_ROW]
            for row in text.splitlines() or [""]
            for start in range(0, max(1, len(row)), _TEXT_ROW)
        ]

    def __len__(self) -> int:
        """How many there are."""
        return len(self._rows)

    def line(self, number: int) -> Sequence[Piece]:
        """Make one line harmless."""
        return [(printable(self._rows[number].expandtabs(4)), "")]


class HexLines:
    """Bytes as offset, hex and characters, 16 a line."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def __len__(self) -> int:
        """How many there are."""
        return max(1, -(-len(self._body) // _HEX_ROW))

    def line(self, number: int) -> Sequence[Piece]:
        """Make one line."""
        start = number * _HEX_ROW
        row = self._body[start : start + _HEX_ROW]
        left, right = row[:8].hex(" "), row[8:].hex(" ")
        characters = "".join(chr(byte) if 0x20 <= byte < 0x7F else "·" for byte in row)
        return [(f"{start:08x}  ", "muted"), (f"{left:<23}  {right:<23}  ", ""), (characters, "json-string")]


def first_view(body: bytes) -> View:
    """Return the view that suits a body: pretty for JSON, raw for text, hex for anything else."""
    if is_json(body):
        return View.PRETTY
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return View.HEX
    return View.HEX if "\0" in text else View.RAW


def is_json(body: bytes) -> bool:
    """Tell whether a body is JSON, and short enough to be set out."""
    if len(body) > PRETTY_BYTES_MAX:
        return False
    try:
        json.loads(body.decode(), parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return False
    return True


def lines_of(body: bytes, view: View, width: int) -> Lines:
    """Return a body's lines in a view, ``width`` cells wide; pretty falls back to raw where a body is no JSON."""
    if view is View.HEX:
        return HexLines(body)
    if view is View.PRETTY and is_json(body):
        return PieceLines([row for line in _set_out(body.decode()) for row in _wrapped(line, width)])
    text = body.decode("utf-8", "surrogateescape")
    rows = [
        row[start : start + width] for row in text.splitlines() for start in range(0, max(1, len(row)), max(1, width))
    ]
    return TextLines("\n".join(rows))


def _set_out(text: str) -> Iterator[list[Piece]]:
    """Yield the lines of a JSON text, indented."""
    depth = 0
    line: list[Piece] = []
    tokens = _TOKEN.findall(text)
    for number, token in enumerate(tokens):
        following = tokens[number + 1] if number + 1 < len(tokens) else ""
        if token in "{[":
            line.append((token, "muted"))
            if following in ("}", "]"):
                continue
            depth += 1
            yield line
            line = [(" " * _INDENT * depth, "")]
        elif token in "}]":
            if not (number and tokens[number - 1] in "{["):
                depth -= 1
                yield line
                line = [(" " * _INDENT * depth, "")]
            line.append((token, "muted"))
        elif token == ",":
            line.append((token, "muted"))
            yield line
            line = [(" " * _INDENT * depth, "")]
        elif token == ":":
            line.append((": ", "muted"))
        else:
            line.append((printable(token), _token_of(token, following)))
    yield line


def _token_of(token: str, following: str) -> str:
    if token.startswith('"'):
        return "json-key" if following == ":" else "json-string"
    return "json-word" if token in ("true", "false", "null") else "json-number"


def _wrapped(line: list[Piece], width: int) -> Iterator[list[Piece]]:
    """Break a line that is too wide into rows."""
    row: list[Piece] = []
    room = width
    for text, token in line:
        rest = text
        while len(rest) > room > 0:
            row.append((rest[:room], token))
            yield row
            row, rest, room = [], rest[room:], width
        row.append((rest, token))
        room -= len(rest)
    yield row
