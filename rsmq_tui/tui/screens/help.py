"""The keys of a screen and the meaning of the signs, made from the registry."""

from collections.abc import Iterable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import ModalScreen

from rsmq_tui.monitor import Verdict
from rsmq_tui.tui.body_text import PieceLines
from rsmq_tui.tui.key import NO_CHANGES, Usable, Where
from rsmq_tui.tui.keymap import bindings_of, keys_of
from rsmq_tui.tui.signs import MEANINGS, verdict_words
from rsmq_tui.tui.widgets.line_view import LineView
from rsmq_tui.tui.widgets.painted import Piece

_TITLES: dict[Where, str] = {
    "overview": "Overview",
    "queue": "Queue",
    "message": "Message",
    "audit": "Audit",
    "history": "History",
    "table": "Rows",
    "lines": "Lines",
    "replay": "Replay",
    "diff": "Two instants",
    "change": "While a change runs",
    "app": "Everywhere",
}
_WORDS = (
    ("ready", "a consumer would get it now"),
    ("hidden", "not visible yet: in flight (received, not deleted) or delayed (never received)"),
    ("oldest", "how long ago the first ready message was sent"),
    ("in/s out/s recv/s", "arrivals, deletes and receives a second, over the last ten seconds"),
    ("clears", "when nothing is ready any more, if things go on as they do"),
    ("–", "unknown"),
)


class HelpScreen(ModalScreen[None]):
    """Lists the keys of the places given that are ``usable`` there; in a replay its own come first."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_of("modal")

    def __init__(self, where: Iterable[Where], usable: Usable = NO_CHANGES) -> None:
        super().__init__()
        self._usable = usable
        self._where = (*where, "change", "app")
        self._view = LineView()

    def compose(self) -> ComposeResult:
        """One view of lines."""
        yield self._view

    def on_mount(self) -> None:
        """Fill it."""
        ascii_only = bool(getattr(self.app, "ascii_only", False))
        lines: list[list[Piece]] = []
        is_replay = getattr(self.app, "replay", None) is not None
        for where in ("replay", *self._where) if is_replay else self._where:
            if keys := list(keys_of(where, usable=self._usable)):
                lines += [[], [(f" {_TITLES[where]}", "head")]]
                lines += [[(f"   {key.shown:<16}", "strong"), (key.help, "")] for key in keys]
        lines += [[], [(" Verdicts, worst first", "head")]]
        lines += [
            [(f"   {verdict_words(verdict, ascii_only):<16}", f"verdict-{verdict}"), (MEANINGS[verdict], "")]
            for verdict in Verdict
        ]
        lines += [[], [(" Words", "head")]]
        lines += [[(f"   {word:<18}", "strong"), (meaning, "")] for word, meaning in _WORDS]
        self._view.border_title = "Help"
        self._view.show(PieceLines(lines[1:]))
        self._view.focus()

    def action_close(self) -> None:
        """Close."""
        self.dismiss()
