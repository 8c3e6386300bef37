"""The ways from any screen to another one."""

from typing import TYPE_CHECKING

from rsmq_tui.tui.clipboard import copy_text
from rsmq_tui.tui.pictures import Pictures

if TYPE_CHECKING:
    from rsmq_tui.tui.past import Past


class Ways(Pictures):
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
        from rsmq_tui.tui.screens.audit import AuditScreen  # noqa: PLC0415

        self.push_screen(AuditScreen(queue, place))

    def open_history(self, queue: tuple[str, str, str] | None = None) -> None:
        """Go to the past, of a queue by its server, namespace and name, or of all."""
        if self.past is None:
            words = "no analysis is open: rsmq-tui --analysis OUT opens one, rsmq-tui pipeline run creates one"
            self.notify(words, severity="warning", markup=False)
            return
        from rsmq_tui.tui.screens.history import HistoryScreen  # noqa: PLC0415

        if not isinstance(self.screen, HistoryScreen):
            self.push_screen(HistoryScreen(self.past, queue))

    def leads_somewhere(self, action: str) -> bool:
        """Tell whether a key's action does more here than to say why it does nothing."""
        return action != "history" or (self.past is not None and not getattr(self.screen, "is_of_past", False))

    def open_queue(self, queue: str, place: str = "") -> None:
        """Go to a queue's own screen."""
        # Imported when first needed: the overview shows its first numbers before anything else is loaded.
        from rsmq_tui.tui.screens.queue import QueueScreen  # noqa: PLC0415

        while len(self.screen_stack) > self.floor:
            self.pop_screen()
        self.push_screen(QueueScreen(queue, place, of_lists=self.is_of_lists(place)))

    def is_of_lists(self, place: str) -> bool:
        """Tell whether the queues of a place are Redis Lists."""
        return False

    def open_message(self, queue: str, id: str, place: str = "") -> None:
        """Go to one message."""
        from rsmq_tui.tui.screens.message import MessageScreen  # noqa: PLC0415

        self.push_screen(MessageScreen(queue, id, place))

    def open_page(self, topic: str) -> None:
        """Show the page for users of that topic."""
        from rsmq_tui.tui.screens.page import PageScreen  # noqa: PLC0415

        self.push_screen(PageScreen(topic))

    def copy_text(self, text: str, what: str) -> None:
        """Copy to the terminal's clipboard (OSC 52), which works over SSH too."""
        copy_text(self, text, what)
