"""Bodies as numbered lines of any number: indented JSON, text, or hex.

Lines are found block by block in ``read_on``; only the starts of blocks are kept, and the lines of a block are made
when they are shown. JSON is indented token by token, not through Python values, so numbers and duplicate keys stay as
they were sent; invalid JSON keeps all its characters too. Of escapes, only those of printable letters are replaced.
"""

import json
import re
from array import array
from bisect import bisect_right
from collections.abc import Generator, Iterator, Sequence
from enum import StrEnum
from functools import lru_cache, partial
from itertools import accumulate, pairwise
from typing import NamedTuple, Protocol
from weakref import proxy

from rich.cells import cell_len

from rsmq_tui.monitor.text import plural, printable
from rsmq_tui.tui.widgets.painted import Piece

# The bytes of a block, whose lines are made in a few milliseconds; a longer line of JSON is one block, up to a limit.
BLOCK_BYTES = 8 << 10
_LINE_BLOCKS = 4
# Longer JSON is not checked as a whole before it is shown.
_CHECKED_BYTES_MAX = 1_000_000
_JUDGED_BLOCKS = 8
_KEPT_BLOCKS = 16
_HEX_ROW = 16
_INDENT = 2
# Deeper levels are not indented further.
_INDENT_LEVELS_MAX = 40

_STRING = rb'"(?:[^"\\]++|\\.)*+"'
# A string, or the rest of an unclosed one, so that it is searched once, not from each of its quotes.
_STARTED = rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)'
_WORD = rb'[^\s{}\[\],:"]++'
_EMPTY = rb"\{\s*+\}|\[\s*+\]"
_KEY = rb"(?:" + _STRING + rb"\s*+:\s*+)?"
# One line of indented JSON: an opening (1) or closing (2) bracket, a value or a stray character; or the end (3).
_LINE = re.compile(
    rb"\s*+(?:" + _KEY + rb"(?:" + _EMPTY + rb"|([{\[])|([}\]])|" + _STARTED + rb"|" + _WORD + rb")\s*+,?|[,:]|(\Z))",
    re.DOTALL,
)
# A line, which ends with a comma, an opening bracket, or before a closing one; and a pattern of as many lines as fit.
_ONE = (
    rb'(?:(?:[^",{}\[\]]++|' + _STRING + rb"|" + _EMPTY + rb"|[}\]](?!\s*+[}\]]))*+"
    rb"(?:,|[{\[](?=\s*+[^\s}\]])|[}\]](?=\s*+[}\]])))"
)
_ONE_LINE, _LINES = re.compile(_ONE, re.DOTALL), re.compile(_ONE + rb"*+", re.DOTALL)
_LONG = re.compile(rb"\s*+(?:" + _STRING + rb'\s*+:\s*+)?("|' + _WORD + rb")", re.DOTALL)
_TAIL = re.compile(rb"\s*+[,:]?")
_NUMBER = rb"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?|-?Infinity"
# Lines of JSON in which strings are empty, and containers if they were.
_VALID = re.compile(
    rb'(?:\s*+(?:(?:""\s*+:\s*+)?(?:(?:""|' + _NUMBER + rb"|true|false|null|NaN|\[\])"
    rb"\s*+(?:,(?!\s*+[}\]])|(?=[}\]]|\Z))|[{\[](?=\s*+(?:[^\s}\],:]|\Z)))"
    rb"|[}\]]\s*+(?:,(?!\s*+[}\]])|(?=[}\]]|\Z))))*+\s*+"
)
_STRINGS, _EMPTIES = re.compile(_STRING, re.DOTALL), re.compile(_EMPTY)
_CLOSED = re.compile(rb'(?:[^"]++|' + _STRING + rb")*+", re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"{}[]"))
_TOKEN = re.compile(_STARTED.decode() + r'|[{}\[\],:]|[^\s{}\[\],:"]++', re.DOTALL)
_HEX, _HIGH, _LOW = "[0-9a-fA-F]", "[dD][89abAB][0-9a-fA-F]{2}", "[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPE = re.compile(rf"\\(?:u({_HIGH})\\u({_LOW})|u({_HEX}{{4}})|.)", re.DOTALL)
# A part of a string, which does not end within an escape, or within the two of one letter.
_UNCUT = re.compile(
    rf"(?:[^\\]++|\\u{_HIGH}\\u{_LOW}|\\(?!u{_HIGH}(?:\\(?:u{_HEX}{{0,3}})?)?\Z)u{_HEX}{{4}}"
    rf"|\\(?!u{_HEX}{{4}}|u{_HEX}{{0,3}}\Z).)*+".encode(),
    re.DOTALL,
)
# The brackets that open an object or an array.
_OPENERS = ("{", "[")


class View(StrEnum):
    """The views of a body."""

    PRETTY = "pretty"
    RAW = "raw"
    HEX = "hex"


class Line(NamedTuple):
    """A line: its bytes, its level, the bracket that it opens or closes, and the part of a long token in it."""

    start: int
    end: int
    depth: int = 0
    bracket: str = ""
    token: tuple[int, int] | None = None


class BodyLines(Protocol):
    """The lines of a body, from 0; lines that are not read yet are missing."""

    body: bytes

    def __len__(self) -> int: ...

    @property
    def is_read(self) -> bool:
        """Whether all lines are known."""

    @property
    def problem(self) -> str:
        """The error in the body, as far as it was read; empty if there is none."""

    @property
    def share(self) -> float:
        """How much was read, from 0 to 1."""

    def read_on(self) -> None:
        """Find the lines of one more block."""

    def line(self, number: int) -> Line:
        """Return a line that is known."""

    def pieces(self, number: int) -> list[Piece]:
        """Return the text of a line; it may be longer than the screen is wide."""

    def number_at(self, offset: int) -> int | None:
        """Return the line of a byte; None if it is not known yet."""


class TextLines:
    """The lines of a text."""

    problem = ""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self._starts, self._numbers = array("Q"), array("Q")
        self._end = self._length = 0
        # Without a reference cycle, the body is freed as soon as it is no longer shown.
        self._kept = lru_cache(_KEPT_BLOCKS)(partial(type(self)._lines_of, proxy(self)))
        self.read_on()

    def __len__(self) -> int:
        return self._length

    @property
    def is_read(self) -> bool:
        """Whether all lines are known."""
        return self._end >= len(self.body) and len(self._starts) > 0

    @property
    def share(self) -> float:
        """How much was read, from 0 to 1."""
        return self._end / len(self.body) if self.body else 1.0

    def read_on(self) -> None:
        """Find the lines of one more block."""
        if not self.is_read:
            start = self._end
            self._end = self._end_of(start)
            self._add(start, self._count(start, self._end))

    def line(self, number: int) -> Line:
        """Return a line that is known."""
        block = bisect_right(self._numbers, number) - 1
        return self._kept(block)[number - self._numbers[block]]

    def pieces(self, number: int) -> list[Piece]:
        """Return the text of a line; it may be longer than the screen is wide."""
        line = self.line(number)
        text = self.body[line.start : line.end].decode("utf-8", "surrogateescape")
        return [(_harmless(text.removesuffix("\n").removesuffix("\r").expandtabs(4)), "")]

    def number_at(self, offset: int) -> int | None:
        """Return the line of a byte; None if it is not known yet."""
        if not self._starts or offset >= self._end > 0:
            return None
        block = bisect_right(self._starts, offset) - 1
        lines = self._kept(block)
        within = bisect_right([line.start for line in lines], offset) - 1
        return min(self._length - 1, int(self._numbers[block]) + max(0, within))

    def _add(self, start: int, lines: int) -> None:
        self._starts.append(start)
        self._numbers.append(self._length)
        self._length += lines

    def _end_of(self, start: int) -> int:
        """Return where a block ends: after a line, or between two characters of a line that is longer than a block."""
        limit = start + BLOCK_BYTES
        if limit >= len(self.body):
            return len(self.body)
        return self.body.rfind(b"\n", start, limit) + 1 or _before_character(self.body, limit)

    def _count(self, start: int, end: int) -> int:
        return max(1, self.body.count(b"\n", start, end) + (not self.body.endswith(b"\n", start, end)))

    def _lines_of(self, block: int) -> list[Line]:
        start = self._starts[block]
        end = self._starts[block + 1] if block + 1 < len(self._starts) else self._end
        texts = self.body[start:end].removesuffix(b"\n").split(b"\n")
        starts = list(accumulate((len(text) + 1 for text in texts), initial=start))
        return [Line(first, min(end, last)) for first, last in pairwise(starts)]


class JsonLines(TextLines):
    """The lines of indented JSON, whose objects and arrays can be folded.

    The lines before invalid JSON are indented too; ``problem`` names the line.
    """

    def __init__(self, body: bytes) -> None:
        self.problem = ""
        self._depths, self._lows = array("Q"), array("Q")
        # The ends of long tokens, for the blocks that are within one or in which one begins.
        self._tokens: dict[int, tuple[int, int]] = {}
        self._depth = 0
        self._token: tuple[int, int] | None = None
        self._is_token_read = True
        super().__init__(body)

    def read_on(self) -> None:
        """Find the lines of one more block, or the end of a token that is longer than a block."""
        if self._token is not None and not self._is_token_read:
            self._read_token(*self._token)
        elif self._token is not None:
            self._add_part(*self._token)
        elif not self.is_read:
            self._read_lines()
        if self.is_read and self._depth and not self.problem:
            self.problem = "not JSON: it ends too early"

    @property
    def is_read(self) -> bool:
        """Whether all lines are known."""
        return super().is_read and self._token is None

    def pieces(self, number: int) -> list[Piece]:
        """Return a line's indentation and tokens."""
        line = self.line(number)
        if line.token is None:
            return [(" " * _INDENT * min(line.depth, _INDENT_LEVELS_MAX), ""), *self._tokens_of(line.start, line.end)]
        start, end = max(line.start, line.token[0]), min(line.end, line.token[1])
        style = _token_of(self.body[line.token[0] : line.token[0] + 5].decode("latin-1"), self._follows(line.token[1]))
        text = _harmless(with_letters(self.body[start:end].decode("utf-8", "surrogateescape")))
        indent = " " * _INDENT * min(line.depth, _INDENT_LEVELS_MAX) if line.start <= line.token[0] else ""
        return [
            (indent, ""),
            *self._tokens_of(line.start, start),
            (text, style),
            *self._tokens_of(end, line.end),
        ]

    def end_of(self, number: int) -> int | None:
        """Return the line that closes the object or array that a line opens; None if it is not known yet."""
        depth = self.line(number).depth
        block = bisect_right(self._numbers, number) - 1
        first = number - self._numbers[block] + 1
        for index in range(block, len(self._numbers)):
            if self._lows[index] <= depth:
                for at, line in enumerate(self._kept(index)[first:], int(self._numbers[index]) + first):
                    if line.depth <= depth and line.bracket in ("}", "]"):
                        return at
            first = 0
        return None

    def openers(self, number: int) -> Iterator[int]:
        """Yield the lines that open what is around a line, the innermost first; for a closing line also its own."""
        line = self.line(number)
        depth = line.depth + (line.bracket in ("}", "]"))
        block = bisect_right(self._numbers, number) - 1
        last = number - self._numbers[block]
        for index in range(block, -1, -1):
            if self._lows[index] < depth:
                for at in range(last - 1 if index == block else len(self._kept(index)) - 1, -1, -1):
                    found = self._kept(index)[at]
                    if found.depth < depth and found.bracket in _OPENERS:
                        yield int(self._numbers[index]) + at
                        depth = found.depth

    def _read_lines(self) -> None:
        start, body = self._end, self.body
        limit = start + BLOCK_BYTES
        end = len(body) if limit >= len(body) else _LINES.match(body, start, limit).end()  # type: ignore[union-attr]
        if end == start and start < len(body):
            limit = start + BLOCK_BYTES * _LINE_BLOCKS
            line = _ONE_LINE.match(body, start, limit)
            if line is None and self._begin_token(start, limit):
                return
            end = self._end_of_some(start, limit) if line is None else line.end()
        self._end = end
        self._add_lines(start)

    def _begin_token(self, start: int, limit: int) -> bool:
        """Begin a token that is longer than a block; False if there is none."""
        match = _LONG.match(self.body, start, limit)
        if match is None:
            return False
        is_string = match[1] == b'"'
        within = (_WITHIN_STRING if is_string else _WITHIN_WORD).match(self.body, match.end(), limit)
        end = match.end() if within is None else within.end()
        # The text after it may be cut too. A string that is not closed in the body counts as a long token.
        if end < limit - BLOCK_BYTES // 2 and not (is_string and end >= len(self.body) - 1):
            return False
        self._token, self._is_token_read = (match.start(1), match.end()), False
        return True

    def _end_of_some(self, start: int, limit: int) -> int:
        """Return the end of some lines of invalid JSON, or of long whitespace: the limit if no line ends before."""
        end = start
        for match in _LINE.finditer(self.body, start, limit):
            # It may continue beyond the limit.
            if match.end() == limit or end - start >= BLOCK_BYTES:
                break
            end = match.end()
        return end if end > start else min(len(self.body), limit)

    def _read_token(self, start: int, end: int) -> None:
        """Search for the end of a long token in the next part of the body."""
        body = self.body
        limit = end + BLOCK_BYTES * 8
        is_string = body[start : start + 1] == b'"'
        match = (_WITHIN_STRING if is_string else _WITHIN_WORD).match(body, end, limit)
        found = match.end() if match else end
        is_over = found < min(limit, len(body)) - is_string or found >= len(body) or found == end
        if is_over and is_string and body[found : found + 1] == b'"':
            found += 1
        elif is_over and is_string:
            found, self.problem = len(body), self.problem or "not JSON: it ends too early"
        self._token, self._is_token_read = (start, found), is_over

    def _add_part(self, first: int, last: int) -> None:
        """Add a block with a part of the long token; the last one includes the text after the token."""
        start = self._end
        limit = max(start, first) + BLOCK_BYTES
        if limit < last:
            uncut = _UNCUT.match(self.body, max(start, first), limit)
            self._end = _before_character(self.body, limit if uncut is None else uncut.end())
        else:
            tail = _TAIL.match(self.body, last, last + BLOCK_BYTES)
            self._end = tail.end() if tail else last
        block = len(self._starts)
        self._tokens[block] = (first, last)
        self._depths.append(self._depth)
        self._lows.append(self._depth)
        self._add(start, 1)
        if limit >= last:
            self._token = None

    def _add_lines(self, start: int) -> None:
        depth, end = self._depth, self._end
        # Searching for strings from each quote of an unclosed one would take quadratic time.
        is_closed = end < len(self.body) or _CLOSED.fullmatch(self.body, start) is not None
        bare = _EMPTIES.sub(b"[]", _STRINGS.sub(b'""', self.body[start:end])) if is_closed else b""
        block = len(self._starts)
        self._depths.append(depth)
        if bare.strip() and _VALID.fullmatch(bare):
            bare = bare.replace(b"[]", b"0").strip()
            brackets = bare.translate(None, _NO_BRACKETS)
            is_cut = (bare[-1:] in (b",", b"{", b"[")) + (bare[:1] in (b"}", b"]"))
            lines = 1 + bare.count(b",") + len(brackets) - is_cut
            while (shorter := brackets.replace(b"{}", b"").replace(b"[]", b"")) != brackets:
                brackets = shorter
            # Brackets that close what an earlier block opened; then those that a later block closes.
            closes = len(brackets) - len(brackets.lstrip(b"}]"))
            if closes <= depth and not brackets[closes:].strip(b"{["):
                self._lows.append(depth - closes)
                self._depth = depth + len(brackets) - 2 * closes
                self._add(start, lines)
                return
        if not self.problem and self.body[start:end].strip():
            self.problem = f"not JSON: see line {self._length + 1:,}"
        self._starts.append(start)
        made = self._lines_of(block)
        self._starts.pop()
        self._lows.append(min((line.depth for line in made), default=depth))
        self._depth = max(0, depth + sum({"{": 1, "[": 1, "}": -1, "]": -1}.get(line.bracket, 0) for line in made))
        self._add(start, len(made))

    def _lines_of(self, block: int) -> list[Line]:
        start, depth = self._starts[block], self._depths[block]
        end = self._starts[block + 1] if block + 1 < len(self._starts) else self._end
        if block in self._tokens:
            return [Line(start, end, depth, "", self._tokens[block])]
        lines = []
        for match in _LINE.finditer(self.body, start, end):
            if match[3] is not None:
                break
            closes = match[2] is not None
            depth = max(0, depth - closes)
            bracket = match[1] or match[2] or b""
            lines.append(Line(*match.span(), depth, bracket.decode()))
            depth += match[1] is not None
        return lines

    def _tokens_of(self, start: int, end: int) -> Iterator[Piece]:
        tokens = _TOKEN.findall(self.body[start:end].decode("utf-8", "surrogateescape"))
        for token, following in zip(tokens, [*tokens[1:], ""], strict=False):
            if token in "{}[],:":
                yield ": " if token == ":" else token, "muted"
            else:
                yield _harmless(with_letters(token)), _token_of(token, following)

    def _follows(self, end: int) -> str:
        return self.body[end : end + BLOCK_BYTES].lstrip()[:1].decode("latin-1")


_WITHIN_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_WITHIN_WORD = re.compile(rb'[^\s{}\[\],:"]*+')


class FoldedLines:
    """The lines of a body, of which those within folded objects and arrays are not shown; only JSON has such."""

    def __init__(self, lines: BodyLines) -> None:
        self.lines = lines
        self._json = lines if isinstance(lines, JsonLines) else None
        # Objects and arrays that differ from the rule: all below the outermost are folded, or none is.
        self._is_all_folded = False
        self._exceptions: set[int] = set()

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def can_fold(self) -> bool:
        """Whether there are objects and arrays."""
        return self._json is not None

    def toggle(self, number: int) -> int:
        """Fold the object or array that a line opens, or the one around it, or unfold it; return its line."""
        if self._json is not None:
            if self._json.line(number).bracket not in _OPENERS:
                number = next(self._json.openers(number), number)
            if self._json.line(number).bracket in _OPENERS:
                self._exceptions ^= {number}
        return number

    def toggle_all(self, number: int) -> int:
        """Fold every object and array but the outermost, or unfold all; return the line that is shown for a line."""
        around = [] if self._json is None else list(self._json.openers(number))
        self._is_all_folded = not self._is_all_folded
        self._exceptions.clear()
        return around[-2] if len(around) > 1 and self._is_all_folded else number

    def unfold_to(self, number: int) -> None:
        """Unfold what is around a line."""
        self._exceptions ^= set(self._folded_around(number))

    def shown(self, number: int) -> int:
        """Return a line, or the outermost one that is folded around it."""
        return min(self._folded_around(number), default=number)

    def next(self, number: int, step: int) -> int | None:
        """Return the next or previous line that is shown; None if there is none, or none is known."""
        if step < 0:
            return None if number == 0 else self.shown(number - 1)
        last = self._json.end_of(number) if self._json is not None and self._is_folded(number) else number
        return None if last is None or last + 1 >= len(self) else last + 1

    def further(self, number: int, step: int) -> int:
        """Return the line that many shown lines further, or the last one."""
        for _ in range(abs(step)):
            following = self.next(number, step)
            if following is None:
                break
            number = following
        return number

    def pieces(self, number: int) -> list[Piece]:
        """Return the text of a line, and of the end of what is folded in it."""
        pieces = self.lines.pieces(number)
        if self._json is None or not self._is_folded(number):
            return pieces
        end = self._json.end_of(number)
        hidden = "…" if end is None else f"… {plural(end - number - 1, 'line')} …"
        return [*pieces, (hidden, "muted strong"), *([] if end is None else self._json.pieces(end)[1:])]

    def _folded_around(self, number: int) -> Iterator[int]:
        if self._json is None or not (self._exceptions or self._is_all_folded):
            return iter(())
        return filter(self._is_folded, self._json.openers(number))

    def _is_folded(self, number: int) -> bool:
        if self._json is None or not (self._exceptions or self._is_all_folded):
            return False
        line = self._json.line(number)
        return line.bracket in _OPENERS and (number in self._exceptions) != (self._is_all_folded and line.depth > 0)


class HexLines:
    """Bytes as offset, hex and characters, 16 a line."""

    is_read, problem, share = True, "", 1.0

    def __init__(self, body: bytes) -> None:
        self.body = body

    def __len__(self) -> int:
        return max(1, -(-len(self.body) // _HEX_ROW))

    def read_on(self) -> None:
        """Do nothing: all lines are known."""

    def line(self, number: int) -> Line:
        """Return a line."""
        return Line(number * _HEX_ROW, min(len(self.body), (number + 1) * _HEX_ROW))

    def pieces(self, number: int) -> list[Piece]:
        """Return the text of a line."""
        start, end, *_ = self.line(number)
        row = self.body[start:end]
        left, right = row[:8].hex(" "), row[8:].hex(" ")
        characters = "".join(chr(byte) if 0x20 <= byte < 0x7F else "·" for byte in row)
        return [(f"{start:08x}  ", "muted"), (f"{left:<23}  {right:<23}  ", ""), (characters, "json-string")]

    def number_at(self, offset: int) -> int | None:
        """Return the line of a byte."""
        return offset // _HEX_ROW


def first_view(body: bytes) -> View:
    """Return the view that suits a body: pretty for JSON, raw for text, hex for anything else."""
    if is_json(body):
        return View.PRETTY
    start = body[:_CHECKED_BYTES_MAX]
    try:
        text = start.decode()
    except UnicodeDecodeError as error:
        # The start may end within a character.
        is_text = error.start >= _CHECKED_BYTES_MAX - 3
        return View.RAW if is_text and b"\0" not in start else View.HEX
    return View.HEX if "\0" in text else View.RAW


def is_json(body: bytes) -> bool:
    """Return whether a body is JSON; of a long or deeply nested one, whether it begins like JSON."""
    if len(body) <= _CHECKED_BYTES_MAX:
        try:
            json.loads(body.decode(), parse_int=str, parse_float=str)
        except ValueError:
            return False
        except RecursionError:
            pass
        else:
            return True
    if body[:BLOCK_BYTES].lstrip()[:1] not in (b"{", b"["):
        return False
    lines, blocks_left = JsonLines(body), len(body) if len(body) <= _CHECKED_BYTES_MAX else _JUDGED_BLOCKS
    while not lines.is_read and not lines.problem and blocks_left > 0:
        lines.read_on()
        blocks_left -= 1
    return not lines.problem


def lines_of(body: bytes, view: View) -> BodyLines:
    """Return a body's lines in a view; pretty falls back to raw if a body is not JSON."""
    if view is View.HEX:
        return HexLines(body)
    return JsonLines(body) if view is View.PRETTY and is_json(body) else TextLines(body)


def _before_character(body: bytes, offset: int) -> int:
    """Return the start of the character at an offset, in UTF-8."""
    for back in range(4):
        if body[offset - back] & 0xC0 != 0x80:
            return offset - back
    return offset


def _harmless(text: str) -> str:
    return text if text.isprintable() else printable(text)


def with_letters(token: str) -> str:
    """Return a token of JSON with letters in place of their escapes, if they are printable and have a width.

    A quote or a backslash stays escaped.
    """
    return _ESCAPE.sub(_letter_of, token) if "\\u" in token else token


def _letter_of(escape: re.Match[str]) -> str:
    code = "".join(filter(None, escape.groups()))
    letter = bytes.fromhex(code).decode("utf-16-be", "surrogatepass")
    return letter if letter not in ("", '"', "\\") and printable(letter) == letter and cell_len(letter) else escape[0]


def _token_of(token: str, following: str) -> str:
    if token.startswith('"'):
        return "json-key" if following == ":" else "json-string"
    return "json-word" if token in ("true", "false", "null") else "json-number"


def found_in(pieces: Sequence[Piece], pattern: re.Pattern[str]) -> list[Piece]:
    """Return the pieces of a line, in which matches of the pattern have the token ``changed``."""
    text = "".join(words for words, _ in pieces)
    spans = [match.span() for match in pattern.finditer(text) if match.end() > match.start()]
    marked, start = [], 0
    for words, token in pieces:
        end = start + len(words)
        cuts = sorted({start, end, *(at for span in spans for at in span if start < at < end)})
        for first, last in pairwise(cuts):
            is_found = any(begin <= first and last <= over for begin, over in spans)
            marked.append((text[first:last], f"{token} changed" if is_found else token))
        start = end
    return marked


# A match may be this much longer than the typed text: in JSON, the space after a colon may have any length.
_MATCH_BYTES_MAX = 4 << 10
_SEARCHED_BYTES = 128 << 10


class TextSearch:
    """A text to find in a body, even if JSON escapes its letters.

    A capital letter in it makes the search case-sensitive.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        is_any_case = text == text.lower()
        # JSON is shown with one space after a colon, but may be stored without it.
        parts = re.split('(?<=":) *', text)
        pattern = r"\s*".join("".join(_forms(letter, is_any_case=is_any_case) for letter in part) for part in parts)
        self.shown = re.compile(pattern)
        self._stored = re.compile(pattern.encode("utf-8", "surrogateescape"))

    def number_in(self, body: bytes, start: int, end: int) -> int:
        """Return how many matches begin from one byte to another, excluding the latter."""
        return sum(match.start() < end for match in self._stored.finditer(body, start, end + _MATCH_BYTES_MAX))

    def next_in(self, body: bytes, start: int, step: int) -> Generator[None, None, int | None]:
        """Search for the next match from a byte on, or the previous one if ``step`` is -1, once around the body.

        Returns the first byte of the match, None if there is none; each step takes a few milliseconds.
        """
        parts = [(start, len(body)), (0, min(len(body), start + _MATCH_BYTES_MAX))]
        if step < 0:
            parts = [(0, start), (max(0, start - _MATCH_BYTES_MAX), len(body))]
        for first, last in parts:
            begins = range(first, last, _SEARCHED_BYTES)
            for begin in begins if step > 0 else reversed(begins):
                end = min(last, begin + _SEARCHED_BYTES)
                limit = end if step < 0 and end == start else end + _MATCH_BYTES_MAX
                if step > 0:
                    match = self._stored.search(body, begin, limit)
                    found = None if match is None else match.start()
                else:
                    starts = (match.start() for match in self._stored.finditer(body, begin, limit))
                    found = max((at for at in starts if at < end), default=None)
                if found is not None:
                    return found
                yield
        return None


def _forms(letter: str, *, is_any_case: bool) -> str:
    """Return a pattern of a letter as it is, and as JSON escapes it.

    The flag IGNORECASE would take several times as long, and would apply only to ASCII letters in bytes.
    """
    letters = [letter, *({letter.upper()} - {letter} if is_any_case and len(letter.upper()) == 1 else ())]
    return f"(?:{'|'.join((*map(re.escape, letters), *map(_escaped, letters)))})"


def _escaped(letter: str) -> str:
    digits = [
        f"[{digit}{digit.upper()}]" if digit.isalpha() else digit
        for digit in letter.encode("utf-16-be", "surrogatepass").hex()
    ]
    return "".join(r"\\u" + "".join(digits[at : at + 4]) for at in range(0, len(digits), 4))


def shown_lines(body: bytes, view: View) -> Iterator[str]:
    """Yield the lines of a body as a view shows them, with their ends; long JSON is yielded as it is stored."""
    lines = TextLines(body) if len(body) > _CHECKED_BYTES_MAX and view is not View.HEX else lines_of(body, view)
    number = 0
    while number < len(lines) or not lines.is_read:
        if number == len(lines):
            lines.read_on()
        else:
            yield "".join(text for text, _ in lines.pieces(number)) + "\n"
            number += 1
