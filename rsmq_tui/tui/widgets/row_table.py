"""A table of any number of rows that paints only the visible ones; the cursor stays on its row."""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from textwrap import wrap
from typing import Generic, NamedTuple, Self, TypeVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual import events
from textual.message import Message
from textual.strip import Strip

from rsmq_tui.monitor.text import printable
from rsmq_tui.tui.keys import bindings_of
from rsmq_tui.tui.widgets.painted import Painted, Piece

R = TypeVar("R")
C = TypeVar("C")
# Of a time with its date.
CLOCK_WIDTH = 11
# A text that shares a narrow table with numbers keeps this width.
_TEXT_WIDTH_MIN = 4
# What a cell is made of: the id of its column, its width, the token below it, its own tokens, and its text.
_MadeOf = tuple[str, int, str, str, str]


@dataclass(frozen=True, slots=True)
class Column(Generic[R, C]):
    """One column: ``cell`` makes the content from the row and the table's context.

    The content is a text with its style token, or several that are ``width`` wide together. In a narrow table, columns
    with the highest ``drop`` are left out first, those with the same value together; 0 always stays. Free width goes to
    the columns that can use it, in the order of ``drop``: up to ``width_max`` cells, or, with ``grow``, as many as the
    texts shown so far need, if those are fewer or there is no ``width_max``. The last column gets the rest. If even the
    columns that stay do not fit, the widest text gets less. ``extra`` columns are shown only if columns with ``grow``
    have all the width that they need, up to a third of the table. Text that does not fit is cut off at its end, or in
    the ``middle``. Titles have room for the mark of the sort order.
    """

    id: str
    title: str
    width: int
    cell: Callable[[R, C], Piece | list[Piece]]
    drop: int = 0
    right: bool = False
    grow: bool = False
    width_max: int = 0
    middle: bool = False
    extra: bool = False

    def wanted(self, widest: Mapping[str, int]) -> int:
        """Return how many cells it can use, by the widths of the widest texts of columns."""
        if not self.grow:
            return self.width_max
        cells = widest.get(self.id, 0)
        return min(cells, self.width_max) if self.width_max else cells


def fitting_columns(
    columns: Sequence[Column[R, C]], widest: Mapping[str, int], width: int
) -> list[tuple[Column[R, C], int]]:
    """Return the columns that fit into ``width`` cells, with their widths; ``widest`` has those of texts, by column."""
    left = list(columns)
    wanted = sum(max(0, column.wanted(widest) - column.width) for column in left if column.grow)
    while left:
        last = max(left, key=lambda column: column.drop)
        room = width - (min(wanted, width // 3) if last.extra else 0)
        if last.drop == 0 or sum(column.width + 1 for column in left) - 1 <= room:
            break
        left = [column for column in left if column.drop != last.drop]
    spare = max(0, width - sum(column.width + 1 for column in left) + 1)
    widths = {}
    for column in sorted(left, key=lambda column: column.drop):
        more = max(0, min(spare, column.wanted(widest) - column.width))
        widths[column.id] = column.width + more
        spare -= more
    if not left[-1].right:
        widths[left[-1].id] += spare
    lacking = sum(widths.values()) + len(left) - 1 - width
    texts = [column.id for column in left if not column.right]
    if lacking > 0 and texts:
        # A number whose end is cut off is another number.
        longest = max(texts, key=lambda id: widths[id])
        widths[longest] = max(_TEXT_WIDTH_MIN, widths[longest] - lacking)
    return [(column, widths[column.id]) for column in left]


class Order(NamedTuple):
    """An order of rows: by a column, possibly reversed."""

    column: str
    reverse: bool = False

    def next_of(self, columns: Sequence[str]) -> Self:
        """Return the order by the next one of some columns, or by the first if its own is not among them."""
        index = columns.index(self.column) + 1 if self.column in columns else 0
        return self._replace(column=columns[index % len(columns)], reverse=False)

    def reversed(self) -> Self:
        """Return the opposite order."""
        return self._replace(reverse=not self.reverse)

    def clicked(self, column: str) -> Self:
        """Return the order after a click on the title of a column: by that column, or the opposite of it."""
        return self.reversed() if column == self.column else self._replace(column=column, reverse=False)


class Cursor:
    """The cursor in rows that come, go and move, and which of them are in sight; ``keys`` are those of the rows.

    Until it is moved it stays at the top, unless it ``follows_at_once``; then it follows its row. ``room`` is the
    number of rows that fit, 0 while they are not shown.
    """

    def __init__(self, *, follows_at_once: bool) -> None:
        self.keys: Sequence[str] = ()
        self.index = 0
        # The first row in sight.
        self.top = 0
        self._follows_at_once = follows_at_once
        # The key of the row that it follows.
        self._followed: str | None = None
        # Until the user moves it, it does not follow rows with these keys.
        self._unfollowed: Set[str] = frozenset()
        # What it followed, the index and the first row in sight for ``restore``; None after the user moved it.
        self._held: tuple[str | None, int, int] | None = None

    @property
    def key(self) -> str | None:
        """The key of the row under the cursor."""
        return self.keys[self.index] if self.index < len(self.keys) else None

    def show(self, keys: Sequence[str], room: int) -> None:
        """Take other rows: stay on the row, and keep that at its line on the screen; if it is gone, keep the index."""
        if keys is not self.keys:
            self.keys = keys
            self._follow(room)
        self.scroll_into_view(room)

    def _follow(self, room: int) -> None:
        keys = self.keys
        if self._followed is None:
            self.index = 0
            if self._follows_at_once:
                self._followed = self.key
            return
        index = max(0, min(self.index, len(keys) - 1))
        if self._followed not in self._unfollowed:
            with suppress(ValueError):
                index = keys.index(self._followed)
        self._followed = keys[index] if keys else None
        moved = index - self.index
        self.index = index
        if moved and self.top:
            self._scroll(self.top + moved, room)

    def place(self, index: int, room: int, *, for_now: bool = False) -> None:
        """Move to a row, as the user would; ``for_now``, ``restore`` still goes back from there."""
        if not for_now:
            self._held = None
        self._unfollowed = frozenset()
        self.index = max(0, min(index, len(self.keys) - 1))
        self._followed = self.key
        self.scroll_into_view(room)

    def stay_at_top(self) -> None:
        """Follow no row, unless it always does."""
        if not self._follows_at_once:
            self._followed = None

    def stay_when_moved(self, keys: Set[str]) -> None:
        """Keep the index, and not the row, when rows with these keys move; until the user moves it."""
        self._unfollowed = keys

    def hold(self) -> None:
        """Remember where it is, before other rows are shown for some time."""
        self._held = self._followed, self.index, self.top

    @property
    def is_held(self) -> bool:
        """Whether it was not moved since ``hold``."""
        return self._held is not None

    def restore(self, room: int) -> None:
        """Return to the row and the line of ``hold``, unless the user has moved it since."""
        if self._held is None:
            return
        (key, before, top), self._held = self._held, None
        index = self.keys.index(key) if key in self.keys else before
        self.place(index, room)
        self._scroll(top + index - before, room)
        self.scroll_into_view(room)
        if key is None:
            self._followed = None

    def scroll_into_view(self, room: int) -> None:
        """Scroll as far as needed to show the row under the cursor, and no empty lines if there are enough rows."""
        if not room:
            # The first resize scrolls it.
            return
        if self.index < self.top:
            self._scroll(self.index, room)
        elif self.index >= self.top + room:
            self._scroll(self.index - room + 1, room)
        elif self.top > max(0, len(self.keys) - room):
            self._scroll(len(self.keys) - room, room)

    def _scroll(self, top: int, room: int) -> None:
        self.top = max(0, min(top, len(self.keys) - max(1, room)))


class RowTable(Painted, Generic[R, C], can_focus=True):
    """Rows of one kind, with a header line and a ``cursor``, which may follow its row at once.

    Enter or a click calls ``on_open`` with the row under the cursor, synchronously, so that no poll comes in between. A
    disabled table shows no cursor.
    """

    BINDINGS = bindings_of("table")

    class Moved(Message):
        """The cursor was moved by the user."""

    class Overrun(Message):
        """The cursor was moved beyond the last row (``step`` 1) or the first (-1)."""

        def __init__(self, step: int) -> None:
            super().__init__()
            self.step = step

    class Resized(Message):
        """The number of visible rows may have changed."""

    class HeadClicked(Message):
        """The title of a column was clicked."""

        def __init__(self, column: str) -> None:
            super().__init__()
            self.column = column

    def __init__(
        self,
        columns: Sequence[Column[R, C]],
        context: C,
        *,
        id: str | None = None,
        on_open: Callable[[R], object] | None = None,
        follows_at_once: bool = False,
    ) -> None:
        super().__init__(id=id)
        self._on_open = on_open
        self.cursor = Cursor(follows_at_once=follows_at_once)
        self.columns = tuple(columns)
        self.context = context
        self.rows: Sequence[R] = ()
        self.sorted_by: tuple[str, bool] | None = None
        self.empty_text: Sequence[Piece] = ()
        # The widest text so far in each column that may grow, so that widths do not jump back and forth.
        self._widest: dict[str, int] = {}
        # The cells of the last paint, by what they are made of: most are the same in the next one.
        self._cells: dict[_MadeOf, Segment] = {}

    @property
    def keys(self) -> Sequence[str]:
        """The unique keys of the rows."""
        return self.cursor.keys

    @property
    def cursor_key(self) -> str | None:
        """The key of the row under the cursor."""
        return self.cursor.key

    @property
    def cursor_index(self) -> int:
        """The index of the row under the cursor."""
        return self.cursor.index

    @property
    def cursor_row(self) -> R | None:
        """The row under the cursor."""
        return self.rows[self.cursor.index] if self.cursor.index < len(self.rows) else None

    @property
    def visible_rows(self) -> int:
        """How many rows fit below the header."""
        return max(1, self.size.height - 1)

    @property
    def _room(self) -> int:
        return self.visible_rows if self.size.height else 0

    @property
    def rows_in_sight(self) -> Sequence[R]:
        """The visible rows."""
        return self.rows[self.cursor.top : self.cursor.top + self.visible_rows]

    @property
    def fitting(self) -> Set[str]:
        """The ids of the columns for which there is room."""
        return {column.id for column, _ in self._fitting()}

    def show(self, rows: Sequence[R], keys: Sequence[str], context: C) -> None:
        """Show these rows in this order; ``keys`` are their unique keys."""
        self.context, self.rows = context, rows
        self.cursor.show(keys, self._room)
        self.repaint()

    def place_cursor(self, index: int, *, for_now: bool = False) -> None:
        """Move the cursor to a row, as the user would; ``for_now``, ``restore_cursor`` still goes back from there."""
        self.cursor.place(index, self._room, for_now=for_now)
        self.repaint()

    def restore_cursor(self) -> None:
        """Return to the row and the line at which the cursor was held, unless the user has moved it since."""
        self.cursor.restore(self._room)
        self.repaint()

    def paint(self) -> list[Strip]:
        """Paint the header and the visible rows, or why there are none."""
        self._measure(self.rows_in_sight)
        columns = self._fitting()
        lines, before, self._cells = [self._head(columns)], self._cells, {}
        if not self.rows:
            return [*lines, Strip([]), *self._empty()]
        for index, row in enumerate(self.rows_in_sight, self.cursor.top):
            base = "cursor" if index == self.cursor.index and not self.disabled else ""
            lines.append(self._row(columns, row, base, before))
        return lines

    def _empty(self) -> Iterator[Strip]:
        """Wrap each text that is shown in place of rows, with its indent."""
        width = max(12, self.size.width - 1)
        for text, token in self.empty_text:
            indent = text[: len(text) - len(text.lstrip())]
            for line in wrap(text, width, subsequent_indent=indent, break_on_hyphens=False) or [""]:
                yield self.clipped([(line, token)])

    def notify_style_update(self) -> None:
        """Forget the cells: the theme or a class changed."""
        self._cells = {}
        super().notify_style_update()

    def action_cursor(self, step: int) -> None:
        """Move the cursor by rows."""
        target = self.cursor.index + step
        if not 0 <= target < len(self.keys):
            self.post_message(self.Overrun(1 if step > 0 else -1))
            return
        self._move_to(target)

    def action_page(self, step: int) -> None:
        """Move the cursor by screens."""
        self._move_to(self.cursor.index + step * self.visible_rows)

    def action_top(self) -> None:
        """Move to the first row, and stay at the top, unless the cursor always follows its row."""
        self._move_to(0)
        self.cursor.stay_at_top()

    def action_bottom(self) -> None:
        """Move to the last row."""
        self._move_to(len(self.keys) - 1)

    def action_open(self) -> None:
        """Open the row under the cursor."""
        row = self.cursor_row
        if row is not None and self._on_open is not None:
            self._on_open(row)

    def on_click(self, event: events.Click) -> None:
        """Sort by a title; move to a row; open the row under the cursor."""
        clicked = event.get_content_offset(self)
        if clicked is None:
            return
        if clicked.y == 0:
            position = 0
            for column, width in self._fitting():
                position += width + 1
                if clicked.x < position:
                    self.post_message(self.HeadClicked(column.id))
                    return
        index = clicked.y - 1 + self.cursor.top
        if clicked.y == 0 or not 0 <= index < len(self.keys):
            return
        if index == self.cursor.index:
            self.action_open()
        else:
            self._move_to(index)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Move three rows down."""
        event.stop()
        self._move_to(self.cursor.index + 3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Move three rows up."""
        event.stop()
        self._move_to(self.cursor.index - 3)

    def on_resize(self) -> None:
        """Keep the cursor visible."""
        top = self.cursor.top
        self.cursor.scroll_into_view(self._room)
        if self.cursor.top != top:
            self.repaint()
        self.post_message(self.Resized())

    def _move_to(self, index: int) -> None:
        if self.keys:
            self.place_cursor(index)
            self.post_message(self.Moved())

    def _fitting(self) -> list[tuple[Column[R, C], int]]:
        """Return the columns that fit, with their widths."""
        return fitting_columns(self.columns, self._widest, self.size.width)

    def _measure(self, rows: Sequence[R]) -> None:
        """Update the widest text of the columns that may grow."""
        for column in self.columns:
            if not column.grow:
                continue
            widest = self._widest.get(column.id, 0)
            for row in rows:
                cell = column.cell(row, self.context)
                text = cell[0] if isinstance(cell, tuple) else "".join(text for text, _ in cell)
                if len(text) > widest or not text.isascii():
                    # Text beyond the table's width need not be measured.
                    widest = max(widest, cell_len(printable(text[: self.size.width])))
            self._widest[column.id] = widest

    def _head(self, columns: Sequence[tuple[Column[R, C], int]]) -> Strip:
        pieces = []
        for column, width in columns:
            title = column.title
            if self.sorted_by and self.sorted_by[0] == column.id:
                mark = "↓" if self.sorted_by[1] else "↑"
                title = f"{mark}{title}" if column.right else f"{title}{mark}"
            pieces.append((fit(title, width, right=column.right) + " ", "head"))
        return self.line(pieces)

    def _row(
        self, columns: Sequence[tuple[Column[R, C], int]], row: R, base: str, before: Mapping[_MadeOf, Segment]
    ) -> Strip:
        context, token, cells = self.context, self.token, self._cells
        segments, length = [], 0
        for column, width in columns:
            length += width + 1
            cell = column.cell(row, context)
            if isinstance(cell, tuple):
                text, style = cell
                made_of = column.id, width, base, style, text
                segment = cells.get(made_of) or before.get(made_of)
                if segment is None:
                    shown = fit(text, width, right=column.right, middle=column.middle)
                    segment = Segment(f"{shown} ", token(f"{base} {style}"))
                cells[made_of] = segment
                segments.append(segment)
            else:
                segments += [Segment(text, token(f"{base} {style}")) for text, style in cell]
                rest = width + 1 - sum(cell_len(text) for text, _ in cell)
                segments.append(Segment(" " * rest, token(base)))
                length -= min(0, rest)
        if (rest := self._painted_size.width - length) > 0:
            segments.append(Segment(" " * rest, token(base)))
            length += rest
        return Strip(segments, length)


def fit(text: str, width: int, *, right: bool = False, middle: bool = False) -> str:
    """Make text printable and exactly ``width`` cells wide; … marks a cut."""
    # Characters beyond this cannot be visible, and a name may be long.
    reach = 16 * width
    is_long = middle and len(text) > 2 * reach
    text = printable(text[:reach] + text[-reach:] if is_long else text[: 2 * reach if middle else reach])
    length = len(text) if text.isascii() else cell_len(text)
    if length > width and middle:
        end = _end_of(text, width // 2)
        return f"{set_cell_size(text, width - cell_len(end) - 1)}…{end}"
    if length > width:
        return text[: width - 1] + "…" if text.isascii() else set_cell_size(text, width - 1) + "…"
    padding = " " * (width - length)
    return padding + text if right else text + padding


def _end_of(text: str, width: int) -> str:
    """Return as much of the end of a text as fits into ``width`` cells."""
    start = len(text)
    while start and cell_len(text[start - 1 :]) <= width:
        start -= 1
    return text[start:]
