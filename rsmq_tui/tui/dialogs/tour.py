"""The tour of the demo: ten steps, each with a sentence, something to do, and a check of the real state."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from textual.screen import Screen

from rsmq_tui.monitor import MessageState, Snapshot
from rsmq_tui.triage.change import Change, State
from rsmq_tui.triage.errors import TriageError
from rsmq_tui.tui.dashboard import Dashboard
from rsmq_tui.tui.overview.screen import OverviewScreen
from rsmq_tui.tui.queue.clients import ClientsScreen
from rsmq_tui.tui.queue.life import LifeScreen
from rsmq_tui.tui.queue.message import MessageScreen
from rsmq_tui.tui.queue.screen import QueueScreen
from rsmq_tui.tui.widgets.tour import Tour, TourStep

# The queues of the demo's scenario "tour": one with a consumer, one without, and dead letters.
ORDERS, EMAILS, DEAD_LETTERS = "orders", "emails", "orders-dlq"


@dataclass(frozen=True, slots=True)
class TourState:
    """The state by which steps are checked: the screens, the last one on top, the last poll, and the journal."""

    screens: Sequence[Screen[Any]]
    snapshot: Snapshot | None
    changes: Sequence[Change]

    @property
    def top(self) -> Screen[Any]:
        """The screen on top."""
        return self.screens[-1]

    def did(self, name: str) -> bool:
        """Return whether a change of that name was made, of any message."""
        return any(change.name == name and change.done > 0 for change in self.changes)


def _is_on_orders(seen: TourState) -> bool:
    return isinstance(seen.top, OverviewScreen) and seen.top.queue_in_sight == ORDERS


def _has_opened_orders(seen: TourState) -> bool:
    return any(isinstance(screen, QueueScreen) and screen.queue == ORDERS for screen in seen.screens)


def _has_opened_a_message(seen: TourState) -> bool:
    return isinstance(seen.top, MessageScreen) and seen.top.scope is not None


def _watches_one_in_flight(seen: TourState) -> bool:
    view = seen.top.life.seen if isinstance(seen.top, LifeScreen) else None
    return view is not None and view.row is not None and view.row.state is MessageState.IN_FLIGHT


def _has_hidden_and_released(seen: TourState) -> bool:
    return seen.did("hide") and seen.did("release")


def _has_found(seen: TourState) -> bool:
    screen = seen.top
    return isinstance(screen, QueueScreen) and bool(screen.messages.typed.text) and bool(screen.messages.table.keys)


def _has_sent(seen: TourState) -> bool:
    return seen.did("send")


def _has_undone_a_deletion(seen: TourState) -> bool:
    return any(change.name == "delete" and change.state is State.UNDONE for change in seen.changes)


def _has_watched_who_works(seen: TourState) -> bool:
    below = seen.screens[-2] if len(seen.screens) > 1 else None
    is_about_emails = isinstance(below, QueueScreen) and below.queue == EMAILS
    return isinstance(seen.top, ClientsScreen) and seen.top.has_watched and is_about_emails


def _has_redriven(seen: TourState) -> bool:
    queues = () if seen.snapshot is None else seen.snapshot.queues
    return seen.did("redrive") and any(queue.name == DEAD_LETTERS and queue.depth == 0 for queue in queues)


STEPS = (
    TourStep(
        "verdict",
        "Each queue has a verdict, and the worst come first; a sentence below or beside the table gives the reason.",
        "Move to orders with j: it is ok, and emails is not.",
        _is_on_orders,
    ),
    TourStep(
        "open",
        "A queue is a sorted set of messages: those that are due come first, and consumers receive them.",
        "Enter opens orders.",
        _has_opened_orders,
    ),
    TourStep(
        "peek",
        "Reading a message here does not receive it: its count, its timeout and its place stay the same.",
        "Enter opens a message.",
        _has_opened_a_message,
    ),
    TourStep(
        "timeout",
        "A received message is hidden for the visibility timeout; if it is not deleted, it comes back.",
        "Press q, then l l for those in flight: W follows the timeout of one.",
        _watches_one_in_flight,
    ),
    TourStep(
        "hide",
        "A timeout can be changed by hand: hide a message, and it is ready later; release it, and it is ready now.",
        "q q, Enter on emails: + hides one; l l l, then 0 releases it.",
        _has_hidden_and_released,
    ),
    TourStep(
        "find",
        "A filter finds messages by their text, their JSON, their age, or how often they were received.",
        "q and Enter show all of emails again: type / welcome, and Enter.",
        _has_found,
    ),
    TourStep(
        "send",
        "A message that you send is like any other; a preview says first what will happen.",
        "On emails, a sends a message.",
        _has_sent,
    ),
    TourStep(
        "undo",
        "Each change is written to the journal first: what was deleted can be put back.",
        "On emails: x deletes the message under the cursor, u undoes.",
        _has_undone_a_deletion,
    ),
    TourStep(
        "trouble",
        "Nobody receives from emails: its verdict is stalled, and its oldest message waits.",
        "On emails press w, then the button that watches for 1 second.",
        _has_watched_who_works,
    ),
    TourStep(
        "redrive",
        "Dead letters were received too often; when the cause is gone, they go back to their queue.",
        "q to the overview: R on orders-dlq redrives them to orders.",
        _has_redriven,
    ),
)
_READ_CHANGES = 50


class TourChecker:
    """Checks the steps of a tour, one after the other."""

    def __init__(self, dashboard: Dashboard) -> None:
        self.tour = Tour(STEPS)
        self._dashboard = dashboard
        self._changes: Sequence[Change] = ()
        self._version: object = None

    async def look(self, screens: Sequence[Screen[Any]]) -> None:
        """Check whether the step is done; ``screens`` are those that are open."""
        step = self.tour.step
        if step is None:
            return
        await self._read_journal()
        if step is self.tour.step and step.is_done(TourState(screens, self._dashboard.snapshot, self._changes)):
            self.tour.done.append(True)

    async def _read_journal(self) -> None:
        service = next(
            (server.triage_in_use for server in self._dashboard.servers if server.triage_in_use is not None), None
        )
        if service is None or service.journal_version == self._version:
            return
        # If the journal cannot be read, the next change reports it.
        with suppress(TriageError):
            version = service.journal_version
            self._changes = await service.changes(_READ_CHANGES)
            self._version = version
