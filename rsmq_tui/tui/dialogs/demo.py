"""The control pane of a demo: what its user can do to the server and to the clients of a queue."""

import asyncio
from collections.abc import Sequence
from typing import ClassVar, Protocol

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from rsmq_tui.monitor.text import printable
from rsmq_tui.tui.keys import bindings_of
from rsmq_tui.tui.widgets.controls import Dialog
from rsmq_tui.tui.widgets.painted import Piece
from rsmq_tui.tui.widgets.row_table import Column, RowTable


class Control(Protocol):
    """One control."""

    @property
    def name(self) -> str:
        """Its name, unique among all."""

    @property
    def key(self) -> str:
        """The key that turns it on, and off again."""

    @property
    def group(self) -> str:
        """What it acts on."""

    @property
    def title(self) -> str:
        """Its state while the control is on."""

    @property
    def expect(self) -> str:
        """What to expect on the screen."""


class Controls(Protocol):
    """The controls of a demo; ``switch`` waits for the server, and may be called in a thread."""

    @property
    def queues(self) -> Sequence[str]:
        """The names of the queues."""

    def of(self, queue: str) -> Sequence[Control]:
        """Return the controls of the server, and of a queue."""

    def is_on(self, name: str, queue: str) -> bool:
        """Return whether a control is on."""

    def switch(self, name: str, queue: str) -> str:
        """Turn a control on or off, and return what else was done; raises ``RuntimeError``."""


def _sign(control: Control, is_on: frozenset[str]) -> Piece:
    return ("● on", "alarm") if control.name in is_on else ("○", "muted")


_COLUMNS: tuple[Column[Control, frozenset[str]], ...] = (
    Column("key", "KEY", 3, lambda control, _: (control.key, "strong")),
    Column("of", "OF", 8, lambda control, _: (control.group, "muted")),
    Column("what", "WHAT", 15, lambda control, _: (control.title, ""), grow=True),
    Column("state", "STATE", 5, _sign),
)


# The border, and the lines below the list.
_OTHER_LINES = 6


class ControlsScreen(Dialog[None]):
    """Lists the controls of the server and of one queue, which their keys turn on and off.

    ``h`` and ``l`` show other queues.
    """

    DEFAULT_CSS = """
    ControlsScreen .dialog {
        width: 48; margin-bottom: 1;
        & RowTable { height: 1fr; padding: 0; }
        & #expect { height: 3; color: $quiet; }
        & #said { height: 1; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings_of("controls")
    AUTO_FOCUS = "RowTable"

    def __init__(self, controls: Controls, queue: str) -> None:
        super().__init__()
        self._controls = controls
        self._queue = queue if queue in controls.queues else next(iter(controls.queues), "")
        self.table = RowTable(_COLUMNS, frozenset[str](), on_open=self._switch)

    def compose(self) -> ComposeResult:
        """The list, the effect of the control under the cursor, and what was done."""
        with Vertical(classes="dialog"):
            yield self.table
            yield Static(markup=False, id="expect")
            yield Static(markup=False, id="said")

    def on_mount(self) -> None:
        """List the controls of the first queue."""
        self.query_one(".dialog").border_subtitle = Content("h l other queue · D closes")
        self._show()

    def on_key(self, event: events.Key) -> None:
        """Turn on or off the control whose key was pressed."""
        for control in self.table.rows:
            if event.character == control.key:
                event.stop()
                self.table.place_cursor(self.table.rows.index(control))
                self._switch(control)
                return

    def action_turn(self, step: int) -> None:
        """Show the controls of the next or previous queue."""
        queues = self._controls.queues
        if queues:
            self._queue = queues[(queues.index(self._queue) + step) % len(queues)]
            self._show()

    @on(RowTable.Moved)
    def _explain(self) -> None:
        control = self.table.cursor_row
        self.query_one("#expect", Static).update("" if control is None else control.expect)

    def _show(self) -> None:
        title = f"Demo: the server, and {printable(self._queue, 26)}"
        self.query_one(".dialog").border_title = Content(title)
        controls = self._controls.of(self._queue)
        is_on = frozenset(each.name for each in controls if self._controls.is_on(each.name, self._queue))
        self.table.show(controls, [control.name for control in controls], is_on)
        self.query_one(".dialog").styles.height = 1 + len(controls) + _OTHER_LINES
        self._explain()

    @work(group="controls")
    async def _switch(self, control: Control) -> None:
        self._explain()
        try:
            said = await asyncio.to_thread(self._controls.switch, control.name, self._queue)
        except RuntimeError as error:
            self.warn(printable(str(error), 200))
        else:
            on = "on" if self._controls.is_on(control.name, self._queue) else "off"
            self.query_one("#said", Static).update(printable(f"{control.title}: {on}{'; ' if said else ''}{said}", 200))
        self._show()
