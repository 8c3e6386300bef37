"""Scrollable text whose lines are made on demand, and message bodies as lines.

A body is shown as JSON, indented and coloured, as text, or in hex. JSON is formatted token by token, not through Python
values, so numbers, escapes and duplicate keys stay as they were sent.
"""

import json
import re
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Protocol

from rich.cells import cell_len, chop_cells
from textual import events
from textual.message import Message
from textual.strip import Strip

from rsmq_tui.monitor.text import count, printable
from rsmq_tui.tui.keys import bindings_of
from rsmq_tui.tui.widgets.painted import Painted, Piece


class Lines(Protocol):
    """Lines by number, from 0; a list, or an object that makes them on demand."""

    def __len__(self) -> int: ...

    def __getitem__(self, number: int, /) -> Sequence[Piece]: ...


class LineView(Painted, can_focus=True):
    """Shows lines and scrolls through them; its border says which are visible."""

    BINDINGS = bindings_of("lines")
    DEFAULT_CSS = """
    LineView { height: 1fr; border: round $rule; border-title-color: $quiet; border-subtitle-color: $quiet; }
    """

    class Resized(Message):
        """The lines may have to be wrapped again."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._content: Lines | None = None
        self._top = 0

    def show(self, content: Lines, *, stay: bool = False) -> None:
        """Show these lines from the first; ``stay`` keeps the relative position, for text that was wrapped again."""
        top = self._top * len(content) // max(1, self._length) if stay else 0
        self._content = content
        self._scroll_to_line(top)

    def action_scroll_lines(self, step: int) -> None:
        """Scroll by lines."""
        self._scroll_to_line(self._top + step)

    def action_scroll_pages(self, step: int) -> None:
        """Scroll by screens."""
        self._scroll_to_line(self._top + step * max(1, self.size.height - 1))

    def action_scroll_to_end(self, step: int) -> None:
        """Scroll to the first line (-1) or to the last (1)."""
        self._scroll_to_line(0 if step < 0 else self._length)

    def paint(self) -> list[Strip]:
        """Paint the visible lines."""
        content = self._content
        if content is None:
            return []
        last = min(self._top + self.size.height, len(content))
        return [self.line(content[number]) for number in range(self._top, last)]

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Three lines down."""
        event.stop()
        self.action_scroll_lines(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Three lines up."""
        event.stop()
        self.action_scroll_lines(-3)

    def on_resize(self) -> None:
        """Stay within the lines."""
        self._scroll_to_line(self._top)
        self.post_message(self.Resized())

    @property
    def _length(self) -> int:
        return len(self._content) if self._content is not None else 0

    def _scroll_to_line(self, top: int) -> None:
        self._top = max(0, min(top, self._length - self.size.height))
        self._tell()
        self.repaint()

    def _tell(self) -> None:
        length = self._length
        last = min(self._top + self.size.height, length)
        self.border_subtitle = f"{count(self._top + 1)}–{count(last)} of {count(length)} lines" if length else ""


# Formatting takes up to half a second per megabyte.
PRETTY_BYTES_MAX = 1_000_000
# Measuring a character takes a microsecond; in longer texts every non-ASCII character counts as wide.
_MEASURED_CHARACTERS_MAX = 1_000_000
# The number of rows that are made at once; more if they are short.
_BLOCK_ROWS = 400
_HEX_ROW = 16
_INDENT = 2
_STRING = r'"(?:[^"\\]++|\\.)*+"'
_SCALAR = rf'{_STRING}|[^\s{{}}\[\],:"]++'
_TOKEN = re.compile(rf"{_SCALAR}|[{{}}\[\],:]")
# One line of formatted JSON: a scalar or an empty container (1), or an opening (2) or closing (3) bracket.
_LINE = re.compile(rf"\s*(?:{_STRING}\s*:\s*)?(?:({_SCALAR}|\{{\s*\}}|\[\s*\])|([{{\[])|([}}\]]))\s*,?")
_OPENS, _CLOSES = 2, 3


class View(StrEnum):
    """The ways to look at a body."""

    PRETTY = "pretty"
    RAW = "raw"
    HEX = "hex"


class TextLines:
    """Wrapped text; only the starts of blocks are kept, and the rows of a block are made on demand."""

    def __init__(self, text: str, width: int) -> None:
        self._text, self._width = text.replace("\r\n", "\n"), width
        self._is_measured = len(text) <= _MEASURED_CHARACTERS_MAX
        self._too_long = re.compile(rf"[^\n]{{{width + 1}}}|[^\n\x00-\x7f]|\t")
        self._starts, self._first_rows = array("L", [0]), array("L", [0])
        self._length = self._count(0)
        while (start := self._end(self._starts[-1])) < len(self._text):
            self._starts.append(start)
            self._first_rows.append(self._length)
            self._length += self._count(start)
        self._made: tuple[int, list[str]] = (-1, [])

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, number: int, /) -> Sequence[Piece]:
        index = bisect_right(self._first_rows, number) - 1
        if self._made[0] != index:
            self._made = (index, self._rows(self._starts[index]))
        return [(_harmless(self._made[1][number - self._first_rows[index]]), "")]

    def _end(self, start: int) -> int:
        """Return where a block ends: after a line, or within one that is longer than a block."""
        limit = start + self._width * _BLOCK_ROWS
        return limit if limit >= len(self._text) else self._text.rfind("\n", start, limit) + 1 or limit

    def _count(self, start: int) -> int:
        """Count a block's rows; if no line has to be changed, this takes a hundredth of the time of making them."""
        end = self._end(start)
        if self._too_long.search(self._text, start, end):
            return len(self._rows(start))
        return max(1, self._text.count("\n", start, end) + (not self._text.endswith("\n", start, end)))

    def _rows(self, start: int) -> list[str]:
        rows: list[str] = []
        for raw in self._text[start : self._end(start)].removesuffix("\n").split("\n"):
            line = raw.expandtabs(4)
            if self._is_measured and not line.isascii():
                rows += chop_cells(_harmless(line), self._width) or [""]
            else:
                step = self._width if line.isascii() else max(1, self._width // 2)
                rows += [line[start : start + step] for start in range(0, max(1, len(line)), step)]
        return rows


class JsonLines:
    """Formatted and wrapped JSON; only the starts of lines are kept, and a line is made on demand."""

    def __init__(self, text: str, width: int) -> None:
        self._text, self._width = text, width
        self._starts, self._depths, self._first_rows = array("L"), array("H"), array("L")
        self._length = 0
        self._wrapped: tuple[int, list[list[Piece]]] = (-1, [])
        depth = 0
        for match in _LINE.finditer(text):
            kind = match.lastindex
            if kind == _CLOSES:
                depth -= 1
            start, end = match.span()
            self._starts.append(start)
            self._depths.append(depth)
            self._first_rows.append(self._length)
            self._length += 1 if self._is_short(start, end, depth) else len(self._rows(len(self._starts) - 1))
            if kind == _OPENS:
                depth += 1

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, number: int, /) -> Sequence[Piece]:
        index = bisect_right(self._first_rows, number) - 1
        return self._rows(index)[number - self._first_rows[index]]

    def _is_short(self, start: int, end: int, depth: int) -> bool:
        """Return whether a line certainly needs no wrapping; formatting may add a space after its colon."""
        length = depth * _INDENT + end - start + 1
        return length <= self._width and self._text[start:end].isascii()

    def _rows(self, index: int) -> list[list[Piece]]:
        if self._wrapped[0] != index:
            self._wrapped = (index, _wrapped(list(self._pieces(index)), self._width))
        return self._wrapped[1]

    def _pieces(self, index: int) -> Iterator[Piece]:
        match = _LINE.match(self._text, self._starts[index])
        tokens = _TOKEN.findall(match[0]) if match else []
        yield " " * _INDENT * self._depths[index], ""
        for token, following in zip(tokens, [*tokens[1:], ""], strict=True):
            if token in "{}[],:":
                yield ": " if token == ":" else token, "muted"
            else:
                yield _harmless(token), _token_of(token, following)


class HexLines:
    """Bytes as offset, hex and characters, 16 a line."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def __len__(self) -> int:
        return max(1, -(-len(self._body) // _HEX_ROW))

    def __getitem__(self, number: int, /) -> Sequence[Piece]:
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
    """Return whether a body is JSON, and short enough to be formatted."""
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
        return JsonLines(body.decode(), width)
    return TextLines(body.decode("utf-8", "surrogateescape"), width)


def _harmless(text: str) -> str:
    return text if text.isprintable() else printable(text)


def _token_of(token: str, following: str) -> str:
    if token.startswith('"'):
        return "json-key" if following == ":" else "json-string"
    return "json-word" if token in ("true", "false", "null") else "json-number"


def _wrapped(line: list[Piece], width: int) -> list[list[Piece]]:
    """Break a line into rows."""
    text = "".join(text for text, _ in line)
    if cell_len(text) <= width:
        return [line]
    rows: list[list[Piece]] = []
    pieces = iter(line)
    piece, token = next(pieces)
    start = 0
    for row in chop_cells(text, width):
        room = len(row)
        rows.append([])
        while room:
            if start == len(piece):
                (piece, token), start = next(pieces), 0
            taken = piece[start : start + room]
            rows[-1].append((taken, token))
            start, room = start + len(taken), room - len(taken)
    return rows
