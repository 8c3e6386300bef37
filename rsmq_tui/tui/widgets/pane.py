"""The pane beside or below a table, with the details of the row under the cursor."""

from collections.abc import Hashable
from typing import Generic, Literal, TypeVar

from textual.containers import Vertical
from textual.geometry import Size
from textual.timer import Timer
from textual.worker import Worker

from rsmq_tui.monitor import PeekError
from rsmq_tui.tui.dashboard import dashboard_of
from rsmq_tui.tui.preferences import PANE

T = TypeVar("T")
Position = Literal["beside", "below", "closed"]
_BESIDE_COLUMNS, _BELOW_ROWS = 120, 40
# Below a table, charts need a terminal of this width; beside it, one of the height for a pane below.
_CHART_COLUMNS = 100
# While the cursor moves, the pane is drawn at this interval, and nothing is read until the cursor rests.
_DRAW_S = 0.1
_REST_S = 0.2
_TICK_S = 0.05


def fitting(size: Size) -> tuple[Position, ...]:
    """Return where a terminal of that size has room for a pane, the best position first; empty if nowhere."""
    beside: tuple[Position, ...] = ("beside",) if size.width >= _BESIDE_COLUMNS else ()
    below: tuple[Position, ...] = ("below",) if size.height >= _BELOW_ROWS else ()
    return beside + below


class Pane(Vertical, Generic[T]):
    """Shows details of the row under the cursor, and never has the focus.

    Its widgets in a container of the class ``parts`` are hidden while it is closed. ``draw`` shows what is known
    without a read. ``read`` reads the rest, at most five times a second: at once after the move of a resting cursor,
    otherwise when it rests again. ``show_details`` gets the result, unless the cursor has moved on meanwhile.
    """

    DEFAULT_CSS = """
    Pane { height: auto; }
    Pane.-beside { dock: right; width: 40%; height: 100%; }
    Pane.-below { dock: bottom; width: 100%; height: 45%; }
    Pane .parts { display: none; }
    Pane.-beside .parts { display: block; height: 1fr; layout: vertical; }
    Pane.-below .parts { display: block; height: 1fr; layout: horizontal; }
    """

    def __init__(self, *, id: str = "pane") -> None:
        super().__init__(id=id)
        self.position: Position = "closed"
        self._ticking: Timer | None = None
        self._key: Hashable = None
        self._drawn: object = None
        self._version: object = None
        self._moved_s = self._drawn_s = self._read_from_s = float("-inf")
        self._must_draw = self._must_read = False
        self._reading: Worker[None] | None = None

    def draw(self) -> None:
        """Show what is known without a read."""

    def forget(self) -> None:
        """Remove the details: the cursor is on another row."""

    async def read(self) -> T:
        """Read the rest; may raise ``PeekError``."""
        raise NotImplementedError

    def show_details(self, found: T) -> None:
        """Show what was read."""

    def fail(self, problem: str) -> None:
        """Show why the rest cannot be read; the next ``point`` tries again."""

    def on_mount(self) -> None:
        """Apply the chosen position."""
        self._ticking = self.set_interval(_TICK_S, self._tick, pause=True)
        self.place()

    def place(self) -> bool:
        """Apply the chosen position, or the best one that fits, and return whether it has changed."""
        size, chosen = self.app.size, dashboard_of(self.app).preferences.get(PANE)
        fits = fitting(size)
        position: Position = next((each for each in (*fits, "closed") if each == chosen), next(iter(fits), "closed"))
        self.set_class(size.height < _BELOW_ROWS if position == "beside" else size.width < _CHART_COLUMNS, "-low")
        if position == self.position:
            return False
        self.position = position
        self.set_class(position == "beside", "-beside")
        self.set_class(position == "below", "-below")
        self.leave()
        return True

    def turn(self) -> None:
        """Choose the next position that fits, then none; if none fits, say so."""
        fits, size = fitting(self.app.size), self.app.size
        if not fits:
            words = (
                f"the pane needs {_BESIDE_COLUMNS} columns or {_BELOW_ROWS} rows; here are {size.width} x {size.height}"
            )
            self.notify(words, severity="warning", markup=False)
            return
        positions: tuple[Position, ...] = (*fits, "closed")
        position = positions[(positions.index(self.position) + 1) % len(positions)]
        dashboard_of(self.app).preferences.set(PANE, position)
        self.place()

    def point(self, key: Hashable, drawn: object, version: object) -> None:
        """Show the row with this ``key``; if the other arguments change, it is drawn and read again."""
        if self.position == "closed":
            return
        now_s = dashboard_of(self.app).clock()
        if key != self._key:
            self._key, self._drawn, self._version = key, None, None
            self._must_draw = self._must_read = False
            has_rested = now_s - self._moved_s >= _REST_S
            self._moved_s, self._read_from_s = now_s, now_s + (0 if has_rested else _REST_S)
            # An app that is ending removes them first.
            self.query(".parts").set(visible=key is not None)
            self.forget()
        if drawn != self._drawn:
            self._drawn, self._must_draw = drawn, True
        if version != self._version:
            self._version, self._must_read = version, True
        self._tick()

    def leave(self) -> None:
        """Stop reading; the details stay until the next ``point``."""
        self._drawn = self._version = None
        self._must_draw = self._must_read = False
        if self._reading is not None:
            self._reading.cancel()
            # A worker that is cancelled before its first step never counts as finished.
            self._reading = None

    @property
    def is_waiting(self) -> bool:
        """Whether something is still to be drawn or read."""
        return self._must_draw or self._must_read or self._is_reading

    @property
    def _is_reading(self) -> bool:
        return self._reading is not None and not self._reading.is_finished

    def _tick(self) -> None:
        """Draw and read if it is time, otherwise check again later."""
        now_s = dashboard_of(self.app).clock()
        if self._must_draw and now_s - self._drawn_s >= _DRAW_S:
            self._must_draw, self._drawn_s = False, now_s
            self.draw()
        if self._must_read and now_s >= self._read_from_s and not self._is_reading:
            self._must_read = False
            self._reading = self.run_worker(self._read, group="pane")
        if self._ticking is not None:
            if self._must_draw or self._must_read:
                self._ticking.resume()
            else:
                self._ticking.pause()

    async def _read(self) -> None:
        key = self._key
        try:
            found = await self.read()
        except PeekError as error:
            if key == self._key:
                self._version = None
                self.fail(str(error))
        else:
            if key == self._key:
                self.show_details(found)
