"""What a change would do, in exact numbers, before anybody says yes to it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from rsmq_tui.monitor.filters import Filter
from rsmq_tui.monitor.states import MessageState
from rsmq_tui.monitor.wording import plural, printable
from rsmq_tui.protocol.editor import QueueFields
from rsmq_tui.protocol.lists.naming import LISTS_NS
from rsmq_tui.triage.actions import (
    Action,
    Copy,
    CreateQueue,
    DeleteQueue,
    Fix,
    Hide,
    MessageAction,
    Send,
    SetAttributes,
    Undo,
)
from rsmq_tui.triage.guards import UNCHANGED, Guard
from rsmq_tui.triage.selection import Selection
from rsmq_tui.triage.transfer import FileSeen

_BODY_SHOWN = 60


class Shown(NamedTuple):
    """A message as a screen or a list showed it: id, raw score, and receive count as a number."""

    id: str
    score: str
    rc: int


@dataclass(frozen=True, slots=True)
class Marked:
    """These messages, as they were shown; ``even_if_received``: whatever they are by now."""

    messages: tuple[Shown, ...]
    even_if_received: bool = False


@dataclass(frozen=True, slots=True)
class Named:
    """The messages of these ids, whatever they are by the time of the preview; ``even_if_received``: or after it."""

    ids: tuple[str, ...]
    even_if_received: bool = False


@dataclass(frozen=True, slots=True)
class Matching:
    """Every message of the queue that matches, or the ``limit`` of them that are due first; an empty filter is all.

    A release takes those due first of the hidden ones, for the others are visible. An export takes any so many; a
    change of a list queue those that are taken next, or with a filter any. ``even_if_received``: those that matched
    when they were counted, also if that is because nobody had received them yet.
    """

    filter: Filter
    limit: int | None = None
    even_if_received: bool = False


@dataclass(frozen=True, slots=True)
class Everything:
    """Every message of the queue."""


Scope = Marked | Named | Matching | Everything


@dataclass(frozen=True, slots=True)
class Preview:
    """A change that was not made yet; what was seen is in ``selection``, which ``close`` frees.

    ``count`` is how many messages (or queues) it is for, ``elsewhere`` how many of the marked ones have changed since
    they were shown, or of the named ones are not there, and are left out, ``unsearched`` how many could not be matched
    because their bodies are too long. ``notes`` are sentences that whoever decides should read. ``fields`` is what the
    queue was, and ``file`` which file was read, where the change is only for these. ``guard`` tells which messages are
    left alone; ``left_is_asked`` says that the ids of those that it leaves alone are wanted, to be offered again.
    ``changed`` counts those of ``elsewhere`` that are still in the queue, and ``wider`` is the scope that has them too.
    ``keep_days`` is how long the journal keeps it, None for that of a demo.
    """

    action: Action
    what: str
    server: str
    ns: str
    profile: str
    at_ms: int
    count: int
    selection: Selection | None = None
    elsewhere: int = 0
    unsearched: int = 0
    keep_days: int | None = 7
    notes: tuple[str, ...] = ()
    fields: QueueFields | None = None
    file: FileSeen | None = None
    guard: Guard = UNCHANGED
    left_is_asked: bool = False
    changed: int = 0
    wider: Marked | None = None

    @property
    def title(self) -> str:
        """What would be done, as a headline."""
        return f"{self.action.verb} {self.object}"

    @property
    def object(self) -> str:
        """What it would be done to: a number of messages, or a queue."""
        action = self.action
        if isinstance(action, CreateQueue | SetAttributes | Fix):
            return f"queue {action.queue}"
        if isinstance(action, DeleteQueue):
            return f"{action.queue} and its {plural(self.count - 1, 'message')}"
        if isinstance(action, Undo):
            return action.summary
        if isinstance(action, Send):
            return plural(len(action.bodies), "message")
        return plural(self.count, "message")

    @property
    def rows(self) -> tuple[tuple[str, str], ...]:
        """What people should read before they decide, as (label, words)."""
        server = self.server if self.ns == LISTS_NS else f"{self.server}, ns {self.ns}"
        where = f"{self.profile} ({server})" if self.profile else server
        action = self.action
        rows = [("in" if not isinstance(action, MessageAction) else "from", f"{action.queue} on {where}")]
        target = action.to if isinstance(action, MessageAction) else None
        if target is not None:
            rows.append(("to", target))
        rows.append(("that", self.what))
        if (body := self._only_body()) is not None:
            rows.append(("body", body))
        if isinstance(action, Hide):
            rows.append(("for", f"{action.seconds:,} s from now"))
        if isinstance(action, Send) and action.delay_s is not None:
            rows.append(("after", f"{action.delay_s:,} s"))
        if self.selection is not None:
            rows.append(("now", _now(self.selection.states)))
        if self.count and not isinstance(action, Undo):
            rows.append(("undo", self._undo()))
        return tuple(rows)

    def close(self) -> None:
        """Free what was seen."""
        if self.selection is not None:
            self.selection.close()

    def _only_body(self) -> str | None:
        """Return the start of the body where it is for one message: with it people know that it is the right one."""
        only = next(iter(self.selection), None) if self.selection is not None and self.count == 1 else None
        body = None if only is None else only.body
        return None if body is None else printable(body[:_BODY_SHOWN].decode("utf-8", "replace"), _BODY_SHOWN)

    def _undo(self) -> str:
        # Other programs have their own journal, not that of a demo.
        by = "u" if self.keep_days is None else "u, or rsmq-tui undo"
        if isinstance(self.action, Copy | Send):
            return f"removes them again, except for those received meanwhile ({by})"
        if self.selection is None:
            return by
        if self.keep_days is None:
            return f"kept until the demo ends ({by})"
        return f"kept in the journal for {plural(self.keep_days, 'day')} ({by})"


def _now(states: Mapping[MessageState, int]) -> str:
    told = " · ".join(f"{count:,} {state}" for state, count in states.items() if count) or "nothing"
    if states[MessageState.IN_FLIGHT]:
        told += f" (a consumer may be working on {'it' if states[MessageState.IN_FLIGHT] == 1 else 'them'})"
    return told
