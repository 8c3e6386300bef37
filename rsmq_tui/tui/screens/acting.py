"""What the screens share from which messages of a queue are changed: from a key to the dialog that previews it."""

from typing import ClassVar

from textual import work

from rsmq_tui.monitor import PeekError
from rsmq_tui.triage.previews import Scope
from rsmq_tui.tui.screens.base import DashboardScreen

# These are for messages; any other change is for the queue.
_FOR_MESSAGES = ("delete", "hide", "release", "move", "copy", "redrive", "requeue", "ack")


class ActingScreen(DashboardScreen):
    """A screen of the messages of one queue.

    ``scope`` says which of them a change is for, and ``chosen_id`` which one a key for a single message is for;
    ``asked`` is the scope of the last change that was asked for from here.
    """

    NOTHING_TO_COPY: ClassVar[str] = "there is no message to copy here"

    def __init__(self, queue: str, place: str) -> None:
        super().__init__(place)
        self.queue = queue
        self.asked: Scope | None = None

    @property
    def scope(self) -> Scope | None:
        """What a change is for; None where there is nothing."""
        raise NotImplementedError

    @property
    def chosen_id(self) -> str | None:
        """The one message that is meant; None where there is none."""
        raise NotImplementedError

    @property
    def why_nothing(self) -> str:
        """Why there is nothing to change."""
        raise NotImplementedError

    @property
    def chosen_queue(self) -> tuple[str, str, str] | None:
        """The queue whose messages these are."""
        return None if self.snapshot is None else (self.snapshot.server, self.snapshot.ns, self.queue)

    def action_change(self, name: str) -> None:
        """Ask for a change of what is meant here, or of the queue."""
        scope = self.scope if name in _FOR_MESSAGES else None
        if name in _FOR_MESSAGES and scope is None:
            self.notify(self.why_nothing, severity="warning", markup=False)
            return
        # One that is refused must not stand for the one that is under way.
        if self.dashboard.ask_change(name, self.queue, scope, place=self.site.place):
            self.asked = scope

    def action_edit(self) -> None:
        """Edit a copy of the one message."""
        if self.chosen_id is None:
            self.notify(self.NOTHING_TO_COPY, severity="warning", markup=False)
        else:
            self._edit(self.chosen_id)

    def action_undo(self) -> None:
        """Take the last change of this queue back."""
        self.dashboard.undo(self.queue, self.site.place)

    def action_retry_skipped(self) -> None:
        """Ask again for what the last change skipped because it was received meanwhile."""
        self.dashboard.retry_skipped()

    def action_copy_id(self) -> None:
        """Copy the id of the one message."""
        if self.chosen_id is not None:
            self.dashboard.copy_text(self.chosen_id, "the id")

    @work(group="edit", exclusive=True)
    async def _edit(self, id: str) -> None:
        body = await self.body_of(id)
        # Whoever has gone on to something else meanwhile is not disturbed there.
        if body is not None and self.is_active:
            self._edit_body(id, body)

    def _edit_body(self, id: str, body: bytes) -> None:
        about = f"a copy of the message {id}"
        self.dashboard.ask_change("send", self.queue, body=body, about=about, place=self.site.place)

    async def body_of(self, id: str) -> bytes | None:
        """Read a body whole; say why where there is none."""
        try:
            view = await self.site.source.read(self.queue, id)
        except PeekError as error:
            self.notify(str(error), severity="warning", markup=False)
            return None
        if view.body is None:
            why = "is too long to read" if view.size else "no longer has a body"
            self.notify(f"that message {why}", severity="warning", markup=False)
        return view.body
