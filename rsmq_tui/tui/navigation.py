"""Navigation between screens, screenshots and the clipboard."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.app import App, SystemCommand
from textual.screen import Screen

if TYPE_CHECKING:
    from rsmq_tui.tui.history.loading import Past


class Pictures(App[None]):
    """An app whose palette offers Textual's theme picker and screenshot, and nothing else of its commands."""

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Offer Textual's theme picker and screenshot besides our own commands."""
        wanted = {"Theme", "Screenshot"}
        return (command for command in super().get_system_commands(screen) if command.title in wanted)

    def deliver_screenshot(
        self, filename: str | None = None, path: str | None = None, time_format: str | None = None
    ) -> str | None:
        """Save a picture of the screen in the user's downloads, or here where there are none."""
        downloads = Path.home() / "Downloads"
        folder = path or str(downloads if downloads.is_dir() else Path.cwd())
        return super().deliver_screenshot(filename, folder, time_format)


# More than this is not taken by terminals that do take OSC 52.
_BYTES_MAX = 74_000


def copy_text(app: App[Any], text: str, what: str) -> None:
    """Copy a text, and tell that it was done or why not."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) > _BYTES_MAX:
        app.notify(f"{what} is too long for the terminal's clipboard", severity="warning", markup=False)
        return
    app.copy_to_clipboard(encoded.decode())
    app.notify(f"copied {what}", timeout=2, markup=False)


class Navigation(Pictures):
    """An app that opens screens, each of which is loaded when it is first needed.

    ``floor`` is how many screens lie under what is shown, the first of it included: leaving that one leaves all of it.
    ``past`` names an analysis to look into, if there is one.
    """

    def __init__(self, past: "Past | None" = None) -> None:
        super().__init__()
        self.past = past
        self.floor = 1

    def open_audit(self, queue: str | None, place: str = "") -> None:
        """Go to the audit of a queue, or of all."""
        from rsmq_tui.tui.audit import AuditScreen  # noqa: PLC0415

        self.push_screen(AuditScreen(queue, place))

    def open_history(self, queue: tuple[str, str, str] | None = None) -> None:
        """Go to the past, of a queue by its server, namespace and name, or of all."""
        if self.past is None:
            words = "no analysis is open: rsmq-tui --analysis OUT opens one, rsmq-tui pipeline run creates one"
            self.notify(words, severity="warning", markup=False)
            return
        from rsmq_tui.tui.history.screen import HistoryScreen  # noqa: PLC0415

        if not isinstance(self.screen, HistoryScreen):
            self.push_screen(HistoryScreen(self.past, queue))

    def leads_somewhere(self, action: str) -> bool:
        """Tell whether a key's action does more here than to say why it does nothing."""
        return action != "history" or (self.past is not None and not getattr(self.screen, "is_of_past", False))

    def open_queue(self, queue: str, place: str = "") -> None:
        """Go to a queue's own screen."""
        # Imported when first needed: the overview shows its first numbers before anything else is loaded.
        from rsmq_tui.tui.queue.screen import QueueScreen  # noqa: PLC0415

        while len(self.screen_stack) > self.floor:
            self.pop_screen()
        self.push_screen(QueueScreen(queue, place, of_lists=self.is_of_lists(place)))

    def is_of_lists(self, place: str) -> bool:
        """Tell whether the queues of a place are Redis Lists."""
        return False

    def open_message(self, queue: str, id: str, place: str = "") -> None:
        """Go to one message."""
        from rsmq_tui.tui.queue.message import MessageScreen  # noqa: PLC0415

        self.push_screen(MessageScreen(queue, id, place))

    def open_page(self, topic: str) -> None:
        """Show the page for users of that topic."""
        from rsmq_tui.tui.dialogs.page import PageScreen  # noqa: PLC0415

        self.push_screen(PageScreen(topic))

    def copy_text(self, text: str, what: str) -> None:
        """Copy to the terminal's clipboard (OSC 52), which works over SSH too."""
        copy_text(self, text, what)
