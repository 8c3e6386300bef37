"""A body of any size: indented, decoded, folded and searched in steps, so that the screen stays responsive."""

import asyncio
import time
from bisect import bisect_right
from collections.abc import Generator, Iterator
from functools import partial
from itertools import accumulate, islice
from typing import TypeVar

from rich.cells import cell_len, chop_cells
from textual import events, on
from textual.content import Content
from textual.message import Message
from textual.strip import Strip
from textual.widgets import Input
from textual.worker import Worker

from rsmq_tui.monitor.messages.decoding import Decoded, Steps, decoding
from rsmq_tui.monitor.text import count, printable, size
from rsmq_tui.tui.keys import keymap_of
from rsmq_tui.tui.widgets.body_lines import FoldedLines, TextSearch, View, first_view, found_in, lines_of
from rsmq_tui.tui.widgets.painted import Piece
from rsmq_tui.tui.widgets.text_view import LineView, lines_words

T = TypeVar("T")

_VIEWS = tuple(View)
_NOT_ASCII = bytes(range(0x80, 0x100))
# After this time, the user interface gets its turn.
_TURN_S = 0.01
# Its turn ends after this many steps of the event loop that took at most this long: then it is idle. Opening a screen
# takes hundreds of steps.
_QUICK_STEPS, _QUICK_S = 10, 0.000_15
_TURN_OF_OTHERS_S = 0.5
# No line has as many rows, so it stands for the last one.
_LAST_ROW = 1 << 30


class BodyView(LineView):
    """Shows a body in one of the views, decoded if it is encoded, and the reason if there is none.

    JSON has a cursor, and the object or array at the cursor can be folded. Lines are numbered as if nothing was folded
    or wrapped. Without ``has_keys`` there is no cursor, and the border names no keys.
    """

    class WasDecoded(Message):
        """It is known whether the body is encoded; until then, no key shows it decoded or as it is stored."""

    def __init__(self, *, id: str | None = None, has_keys: bool = True) -> None:
        super().__init__(id=id)
        self.can_focus = self._has_keys = has_keys
        self.body: bytes | None = None
        self.view = View.PRETTY
        self.is_decoded = True
        self._note = self._problem = self._more = ""
        self._decoded: Decoded | None = None
        self._document: FoldedLines | None = None
        # The first line on the screen, and its first visible row.
        self._first = (0, 0)
        self._cursor = 0
        self._wanted: TextSearch | None = None
        self._found: int | None = None
        self._search = ""
        self._shown: list[int] = []
        self._wrapped: dict[int, list[list[Piece]]] = {}

    def show_body(self, body: bytes, note: str = "", *, problem: str = "", is_start: bool = False) -> None:
        """Show a body from its first line, or at the same position if it is the same body.

        ``note`` and ``problem`` are for the border. If it ``is_start``, only the start of a body, it is not decoded.
        """
        self._note, self._problem = note, problem
        if body is not self.body and body != self.body:
            self.body, self._decoded, self.is_decoded = body, None, True
            self._search, self._wanted, self._found = "", None, None
            # The start of a body may end within a character.
            self._begin(body, first_view(body.rstrip(_NOT_ASCII) if is_start else body))
            self.workers.cancel_group(self, "body-lines")
            # Not a partial of the body: Textual takes the repr of what it runs.
            work = self._read_lines if is_start else self._read
            _: Worker[None] = self.run_worker(work, group="body", exclusive=True)
        self._show_border()

    def show_none(self, why: str, more: str = "") -> None:
        """Show why there is no body; ``more`` is shown in its place."""
        self.workers.cancel_node(self)
        self._more = more
        self.body = self._document = self._decoded = None
        self.border_title, self.border_subtitle = Content(why), ""
        self.repaint()

    @property
    def content(self) -> bytes:
        """What is shown: the decoded body, or the body as it is stored."""
        return self._decoded.data if self._decoded is not None and self.is_decoded else self.body or b""

    def turn(self, step: int) -> None:
        """Show the body in the next or previous view."""
        if self._document is not None:
            view = _VIEWS[(_VIEWS.index(self.view) + step) % len(_VIEWS)]
            self._begin(self._document.lines.body, view)
            _: Worker[None] = self.run_worker(self._read_lines, group="body-lines", exclusive=True)

    def toggle_decoded(self) -> None:
        """Show the body as it is stored, or decoded again."""
        if self.is_encoded:
            self.is_decoded = not self.is_decoded
            self._begin(self.content, first_view(self.content))
            _: Worker[None] = self.run_worker(self._read_lines, group="body-lines", exclusive=True)

    def fold(self) -> None:
        """Fold the object or array under the cursor, or the one around it; or unfold it."""
        if self._document is not None and self._has_cursor:
            self._wrapped.clear()
            self._move_to(self._document.toggle(self._cursor))

    def fold_all(self) -> None:
        """Fold every object and array but the outermost; or unfold all."""
        if self._document is not None and self._has_cursor:
            self._wrapped.clear()
            self._move_to(self._document.toggle_all(self._cursor))

    def find(self, text: str) -> None:
        """Go to the next match of a text, from the cursor or the first visible line; an empty text ends the search."""
        self._wanted, self._found, self._search = TextSearch(text) if text else None, None, ""
        self._wrapped.clear()
        self.find_next(1)
        self._show_border()
        self.repaint()

    def find_next(self, step: int) -> bool:
        """Go to the next or previous match; False without a search."""
        if self._wanted is not None and self._document is not None and len(self._document):
            _: Worker[None] = self.run_worker(partial(self._find, self._wanted, step), group="find", exclusive=True)
        return self._wanted is not None

    @property
    def shown_layers(self) -> tuple[str, ...]:
        """The names of the layers that are decoded; none if the body is shown as it is stored."""
        return self._decoded.layers if self._decoded is not None and self.is_decoded else ()

    @property
    def is_encoded(self) -> bool:
        """Whether the body can be shown decoded."""
        return self._decoded is not None and bool(self._decoded.layers)

    @property
    def why_as_stored(self) -> str:
        """Why the body cannot be shown decoded; empty if it can."""
        if self._decoded is None:
            return "it is still being read"
        return "" if self.is_encoded else self._decoded.problem or "it is not encoded"

    @property
    def can_fold(self) -> bool:
        """Whether the shown text has objects and arrays."""
        return self._document is not None and self._document.can_fold

    @property
    def _has_cursor(self) -> bool:
        return self.can_fold and bool(self._document)

    def action_scroll_lines(self, step: int) -> None:
        """Move the cursor by lines; without one, scroll."""
        if self._document is not None and self._has_cursor:
            self._move_to(self._document.further(self._cursor, step))
        else:
            self._scroll(step)

    def action_scroll_pages(self, step: int) -> None:
        """Scroll by screens, and move the cursor as far."""
        rows = step * max(1, self.size.height - 1)
        before = self._first
        self._scroll(rows)
        if self._document is not None and self._has_cursor:
            is_far = before == self._first or self._cursor not in self._shown
            self._move_to(self._document.further(self._cursor, rows) if is_far else self._cursor)

    def action_scroll_to_end(self, step: int) -> None:
        """Go to the first line (-1) or to the last one that is known (1)."""
        if self._document is not None and len(self._document):
            self._first = (0, 0)
            self._move_to(0 if step < 0 else self._document.shown(len(self._document) - 1))

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to a line; on the line under the cursor, fold or unfold."""
        y = event.get_content_offset_capture(self).y
        if self.can_fold and 0 <= y < len(self._shown):
            if self._shown[y] == self._cursor:
                self.fold()
            else:
                self._move_to(self._shown[y])

    def on_unmount(self) -> None:
        """Free the body."""
        self.body = self._document = self._decoded = None

    def on_resize(self) -> None:
        """Wrap the lines again."""
        self._wrapped.clear()
        if self._document is not None:
            self._scroll(0)

    def paint(self) -> list[Strip]:
        """Paint the visible lines."""
        self._shown = []
        if self._document is None:
            lines = [
                row
                for line in self._more.splitlines()
                for row in wrapped([(printable(line), "")], max(2, self.size.width))
            ]
            return [self.line(row) for row in lines[: self.size.height]]
        if not len(self._document):
            return []
        strips: list[Strip] = []
        for number, row in self._rows_from(*self._first, 1):
            if len(strips) == self.size.height:
                break
            pieces = self._rows(number)[row]
            is_current = self._has_keys and number == self._cursor and self.can_fold
            room = self.size.width - sum(cell_len(text) for text, _ in pieces)
            padded = [*pieces, (" " * room, "")] if is_current else pieces
            strips.append(self.line(padded, "cursor" if is_current else ""))
            self._shown.append(number)
        return strips

    def _begin(self, body: bytes, view: View) -> None:
        """Show the known lines of a body in a view, from the first one."""
        self.view = view
        self._document = FoldedLines(lines_of(body, view))
        self._first, self._cursor, self._found = (0, 0), 0, None
        self._wrapped.clear()
        self._scroll(0)

    async def _read(self) -> None:
        """Decode the body, then find its lines; those on the screen are there already."""
        decoded = await _in_turns(decoding(self.body or b""))
        self._decoded = decoded
        if decoded.layers:
            self._begin(decoded.data, first_view(decoded.data))
        self._show_border()
        self.post_message(self.WasDecoded())
        await self._read_lines()

    async def _read_lines(self) -> None:
        if self._document is None:
            return
        lines = self._document.lines
        until_s, shown_share = time.monotonic() + _TURN_S, 0.0
        while not lines.is_read:
            lines.read_on()
            if time.monotonic() > until_s:
                if lines.share > shown_share + 0.02:
                    shown_share = lines.share
                    self._scroll(0)
                await _give_way()
                until_s = time.monotonic() + _TURN_S
        self._wrapped.clear()
        self._scroll(0)

    async def _find(self, wanted: TextSearch, step: int) -> None:
        document = self._document
        if document is None:
            return
        lines = document.lines
        line = lines.line(self._cursor if document.can_fold else self._first[0])
        start = line.start if self._found is None else self._found + (step > 0)
        self._search = f"searching for {printable(wanted.text, 40)} …"
        self._show_border()
        found = await _in_turns(wanted.next_in(lines.body, start, step))
        number = None if found is None else lines.number_at(found)
        while found is not None and number is None:
            # The lines before it are not read yet.
            lines.read_on()
            await _give_way()
            number = lines.number_at(found)
        if document is not self._document:
            # Another view or body, with other lines, is shown by now.
            self.find_next(step)
            return
        if found is None or number is None:
            self._search = f"{printable(wanted.text, 40)} not found"
        else:
            self._found = found
            self._search = f"{printable(wanted.text, 40)} in line {count(number + 1)}"
            document.unfold_to(number)
            self._wrapped.clear()
            self._move_to(number, self._row_of(number, found, wanted))
        self._show_border()

    def _rows_from(self, number: int, row: int, step: int) -> Iterator[tuple[int, int]]:
        """Yield rows from one on, upwards or downwards: the line, and the index of the row in it."""
        following: int | None = number
        while following is not None:
            number = following
            rows = len(self._rows(number))
            yield from ((number, at) for at in (range(row, rows) if step > 0 else range(min(row, rows - 1), -1, -1)))
            row = 0 if step > 0 else _LAST_ROW
            following = None if self._document is None else self._document.next(number, step)

    def _scroll(self, rows: int) -> None:
        """Scroll by rows, up to the ends."""
        lines = self._document
        if lines is None or not len(lines) or not self.size:
            return
        step = 1 if rows > 0 else -1
        number, row = self._first
        number = lines.shown(min(number, len(lines) - 1))
        first = (number, min(row, len(self._rows(number)) - 1))
        *_, first = islice(self._rows_from(*first, step), abs(rows) + 1)
        self._first = min(first, self._first_for(lines.shown(len(lines) - 1)))
        self._wrapped = {number: self._wrapped[number] for number in list(self._wrapped)[-200:]}
        self.repaint()
        self._show_border()

    def _first_for(self, last: int, row: int = _LAST_ROW) -> tuple[int, int]:
        """Return the first row of the screen whose last one is a row of the line ``last``."""
        *_, first = islice(self._rows_from(last, row, -1), max(1, self.size.height))
        return first

    def _move_to(self, number: int, row: int | None = None) -> None:
        """Move the cursor to a line, and scroll as far as needed to show it, or one of its rows."""
        self._cursor = number
        if self.size and (number, self._first[1] if row is None else row) < self._first:
            self._first = (number, row or 0)
        elif self.size:
            self._first = max(self._first, min((number, 0), self._first_for(number)), self._first_for(number, row or 0))
        self._scroll(0)

    def _row_of(self, number: int, found: int, wanted: TextSearch) -> int:
        """Return the row of a line that contains a match, by the number of matches before it in the line."""
        if self._document is None or len(self._rows(number)) == 1:
            return 0
        lines = self._document.lines
        before = wanted.number_in(lines.body, lines.line(number).start, found)
        texts = ["".join(text for text, _ in row) for row in self._rows(number)]
        starts = [match.start() for match in wanted.shown.finditer("".join(texts))]
        # A match that continues in the next line is in the last row.
        ends = list(accumulate(map(len, texts)))
        return bisect_right(ends, starts[before]) if before < len(starts) else len(texts) - 1

    def _rows(self, number: int) -> list[list[Piece]]:
        rows = self._wrapped.get(number)
        if rows is None and self._document is not None:
            pieces = self._document.pieces(number)
            if self._wanted is not None:
                pieces = found_in(pieces, self._wanted.shown)
            # Rows of hex have a fixed length.
            rows = [pieces] if self.view is View.HEX else wrapped(pieces, max(1, self.size.width))
            self._wrapped[number] = rows
        return rows or [[]]

    def _show_border(self) -> None:
        """Show the views, what was decoded, the position and the search in the border."""
        if self._document is None:
            return
        lines = self._document.lines
        tabs = " · ".join(f"[{view}]" if view is self.view else view.value for view in _VIEWS)
        parts = self._problem, tabs if self._has_keys else self.view.value, self._decoded_words, self._note
        self.border_title = Content(" · ".join(filter(None, parts)))
        *_, (last, _) = [(0, 0), *islice(self._rows_from(*self._first, 1), self.size.height if len(lines) else 0)]
        place = [lines_words(self._first[0] + 1, last + 1, len(lines), is_all=lines.is_read)]
        if not lines.is_read:
            place.append(f"read {lines.share:.0%}")
        self.border_subtitle = Content(" · ".join(filter(None, (*place, lines.problem, self._search))))

    @property
    def _decoded_words(self) -> str:
        decoded = self._decoded
        if decoded is None:
            return ""
        if not decoded.layers:
            return decoded.problem
        names = ", ".join(decoded.layers)
        if not self.is_decoded:
            return f"as stored; {keymap_of(self.app).first_key('decoded')} decodes {names}"
        became = f"{names}: {size(len(decoded.data))} from {size(len(self.body or b''))}"
        return "; ".join(filter(None, (became, decoded.problem)))


class FindInput(Input):
    """Finds a text in a body while it is typed; hidden until it is opened."""

    def __init__(self, body: BodyView) -> None:
        super().__init__(placeholder="text in the body", id="filter", compact=True)
        self._body = body

    def open(self) -> None:
        """Show and focus the input at once: characters typed next must not reach the body."""
        self.display = True
        self.screen.set_focus(self)

    def close(self) -> bool:
        """End the search, and return whether it was open."""
        was_open = bool(self.display)
        if was_open:
            with self.prevent(Input.Changed):
                self.value = ""
            self._body.find("")
            self.display = False
            self.screen.set_focus(self._body)
        return was_open

    @on(Input.Changed)
    def _find(self, event: Input.Changed) -> None:
        event.stop()
        self._body.find(self.value)

    @on(Input.Submitted)
    def _keep(self, event: Input.Submitted) -> None:
        event.stop()
        if self.value:
            self.screen.set_focus(self._body)
        else:
            self.close()


async def _give_way() -> None:
    """Let the user interface work until it has nothing to do, or for half a second."""
    now_s = time.monotonic()
    until_s, quick = now_s + _TURN_OF_OTHERS_S, 0
    while quick < _QUICK_STEPS and now_s < until_s:
        before_s = now_s
        await asyncio.sleep(0)
        now_s = time.monotonic()
        quick = quick + 1 if now_s - before_s < _QUICK_S else 0


async def _in_turns(work: Generator[None, None, T]) -> T:
    """Return the result of a generator whose steps do the work; the user interface has its turns between them."""
    steps, until_s = Steps(work), time.monotonic() + _TURN_S
    for _ in steps:
        if time.monotonic() > until_s:
            await _give_way()
            until_s = time.monotonic() + _TURN_S
    return steps.result


def wrapped(line: list[Piece], width: int) -> list[list[Piece]]:
    """Break a line into rows of at most that many cells."""
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
