"""Marked messages, and the actions on them."""

from collections.abc import Iterable, Sequence, Set

from textual import work

from rsmq_tui.monitor import Filter, MessageRow, Page, PeekError
from rsmq_tui.monitor.list_poller import follow_items
from rsmq_tui.monitor.text import count, size
from rsmq_tui.protocol import name_bytes
from rsmq_tui.protocol.lists.naming import order_of
from rsmq_tui.protocol.rsmq.pages import BODY_BYTES_MAX
from rsmq_tui.triage.actions import action_named
from rsmq_tui.triage.scope import Everything, Marked, Matching, Scope, Shown
from rsmq_tui.tui.queue import outside
from rsmq_tui.tui.screen import DashboardScreen
from rsmq_tui.tui.servers import WatchedServer
from rsmq_tui.tui.widgets.controls import copy_text


class Marks:
    """Marked messages by id, as they were shown when marked; or a mark on everything that matches.

    A range is open from ``start_range`` until its end is marked; ``ranged`` returns its rows. After ``end_all``, an
    action has no scope until a message is marked or ``clear`` is called.
    """

    def __init__(self) -> None:
        self._shown: dict[str, Shown] = {}
        self._range: tuple[str, int] | None = None
        self._elsewhere: set[str] = set()
        self.is_all = self.is_all_ended = False

    def __len__(self) -> int:
        """The number of messages marked individually."""
        return len(self._shown)

    @property
    def ids(self) -> Set[str]:
        """The ids of the marked messages."""
        return self._shown.keys()

    @property
    def has_range(self) -> bool:
        """True while a range is open."""
        return self._range is not None

    def toggle(self, row: MessageRow) -> None:
        """Mark or unmark a message."""
        self.is_all = self.is_all_ended = False
        if self._shown.pop(row.id, None) is None:
            self._shown[row.id] = shown(row)
        self._elsewhere.discard(row.id)

    def mark(self, rows: Iterable[MessageRow]) -> None:
        """Mark messages as they are shown now."""
        self.is_all = self.is_all_ended = False
        for row in rows:
            self._shown[row.id] = shown(row)
            self._elsewhere.discard(row.id)

    def mark_or_clear(self, rows: Sequence[MessageRow]) -> None:
        """Mark messages; if all of them are marked, unmark them."""
        if rows and all(row.id in self._shown for row in rows):
            for row in rows:
                del self._shown[row.id]
        else:
            self.mark(rows)

    def mark_all(self) -> None:
        """Mark everything that matches, in the whole queue, in place of individual marks."""
        self.clear()
        self.is_all = True

    def end_all(self) -> bool:
        """End a mark on everything, after which nothing is marked; return whether there was one."""
        if not self.is_all:
            return False
        self.is_all, self.is_all_ended = False, True
        return True

    def lose(self, id: str) -> None:
        """Forget a message that has left the queue."""
        self._shown.pop(id, None)

    def keep(self, id: str) -> None:
        """Remember that a message is still in the queue, but at another position."""
        self._elsewhere.add(id)

    def follow(self, before: Sequence[MessageRow], now: Sequence[MessageRow]) -> None:
        """Move the marks of list items that moved between two reads: their ids contain their positions."""
        ids = {row.id for row in now}
        moved = [row.id for row in before if row.id in self._shown and row.id not in ids]
        for id, row in follow_items(moved, [row for row in now if row.id not in self._shown]) if moved else ():
            del self._shown[id]
            self._elsewhere.discard(id)
            self._shown[row.id] = shown(row)

    def clear(self) -> bool:
        """Remove all marks, and return whether there were any."""
        had_any = bool(self._shown) or self.is_all or self.is_all_ended
        self._shown.clear()
        self._elsewhere.clear()
        self._range = None
        self.is_all = self.is_all_ended = False
        return had_any

    def start_range(self, id: str, index: int) -> None:
        """Open a range at a row."""
        self._range = id, index

    def end_range(self) -> bool:
        """Close the range without marking it, and return whether one was open."""
        was_open, self._range = self._range is not None, None
        return was_open

    def ranged(self, rows: Sequence[MessageRow], keys: Sequence[str], cursor: int) -> Sequence[MessageRow]:
        """Return the rows from the start of the range, or its old index if that row is gone, to the cursor."""
        if self._range is None:
            return ()
        start_id, index = self._range
        start = keys.index(start_id) if start_id in keys else min(index, len(keys) - 1)
        return rows[min(start, cursor) : max(start, cursor) + 1]

    def missing(self, page: Page) -> list[str]:
        """Return the marked ids that should be on that page, by their scores when marked, but are not."""
        here = {row.id for row in page.rows}
        if len(page.rows) == page.depth:
            return [id for id in self._shown if id not in here]
        if not page.rows:
            return []
        is_end = page.is_last and page.request.part == "all"
        first = (float("-inf"), b"") if page.is_first else _place(shown(page.rows[0]))
        last = (float("inf"), b"") if is_end else _place(shown(page.rows[-1]))
        return [
            id
            for id, seen in self._shown.items()
            if id not in here and id not in self._elsewhere and first <= _place(seen) <= last
        ]

    def scope(self, wanted: Filter, row: MessageRow | None) -> Scope | None:
        """Return the scope of an action: the marks, else all that match, else the row under the cursor."""
        if self._shown:
            return Marked(tuple(self._shown.values()))
        if self.is_all:
            return all_of(wanted)
        return None if row is None or self.is_all_ended else Marked((shown(row),))

    def words(self, wanted: Filter, known: int | None, *, is_final: bool) -> str:
        """Describe what is marked, if anything; ``known`` matches were counted so far, all of them if ``is_final``."""
        if self.is_all:
            what = "in the queue" if wanted.is_empty else "matching"
            number = "" if known is None else f"{count(known)}{'' if is_final else '+'} "
            return f"all {number}{what}"
        if self.is_all_ended:
            return "all unmarked"
        return f"{count(len(self._shown))} marked" if self._shown else ""


def all_of(wanted: Filter) -> Scope:
    """Return the scope of everything that matches, in the whole queue."""
    return Everything() if wanted.is_empty else Matching(wanted)


def shown(row: MessageRow) -> Shown:
    """Return the state of a message that its row shows."""
    return Shown(row.id, row.score, row.rc or 0)


def _place(seen: Shown) -> tuple[float, bytes]:
    order = order_of(name_bytes(seen.id))
    try:
        return float(seen.score), order
    except ValueError:
        return float("inf"), order


class ActingScreen(DashboardScreen):
    """A screen of the messages of one queue.

    ``scope`` is what a change applies to, and ``chosen_id`` the message that a key for a single message applies to;
    ``asked`` is the scope of the last change that was started here.
    """

    def __init__(self, queue: str, place: str) -> None:
        super().__init__(place)
        self.queue = queue
        self.asked: Scope | None = None

    @property
    def scope(self) -> Scope | None:
        """The messages that a change applies to; None if there are none."""
        raise NotImplementedError

    @property
    def chosen_id(self) -> str | None:
        """The id of the message under the cursor, or the one shown; None if there is none."""
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
        """Start a change of the scope, or of the queue."""
        is_scoped = action_named(name).is_scoped
        scope = self.scope if is_scoped else None
        if is_scoped and scope is None:
            self.warn(self.why_nothing)
            return
        # A refused change must not replace the scope of the running one.
        if self.dashboard.changes.ask(self.server, name, self.queue, scope):
            self.asked = scope

    def action_edit(self) -> None:
        """Edit a copy of the chosen message."""
        if self.chosen_id is None:
            self.warn(self.why_nothing)
        else:
            self._edit(self.chosen_id)

    def action_life(self) -> None:
        """Watch the life of the chosen message."""
        if self.chosen_id is None:
            self.warn(self.why_nothing)
        else:
            self.dashboard.navigation.open("life", self.queue, self.chosen_id, self.place)

    @work(group="edit", exclusive=True)
    async def action_edit_outside(self) -> None:
        """Edit a copy of the chosen message in the user's editor, and ask to send it."""
        if self.chosen_id is None:
            self.warn(self.why_nothing)
            return
        # Text typed in the editor must not be lost because it may not be sent.
        if not self.dashboard.changes.may_begin(self.server):
            return
        id = self.chosen_id
        body = await self.editable_body(id)
        if body is not None and self.is_active and self._may_send(body):
            await outside.edit(self, self.queue, body, f"a copy of the message {id}", self.decoded_from)

    async def editable_body(self, id: str) -> bytes | None:
        """Return the body that the user's editor gets; if there is none, show why and return None."""
        return await self.body_of(id)

    @property
    def decoded_from(self) -> tuple[bytes, tuple[str, ...]] | None:
        """The stored body and the names of its layers, if the editor gets the decoded one; else None."""
        return None

    @property
    def undo_scope(self) -> tuple[WatchedServer, str | None]:
        """The last change of this queue is undone."""
        return self.server, self.queue

    def action_retry_skipped(self) -> None:
        """Preview the last change again, for the messages that it skipped because they were received."""
        self.dashboard.changes.retry_skipped()

    def action_copy_id(self) -> None:
        """Copy the id of the chosen message."""
        if self.chosen_id is not None:
            copy_text(self.app, self.chosen_id, "the id")

    @work(group="edit", exclusive=True)
    async def _edit(self, id: str) -> None:
        body = await self.body_of(id)
        # If the user has opened another screen meanwhile, do not interrupt there.
        if body is not None and self.is_active:
            self._edit_body(id, body)

    def _edit_body(self, id: str, body: bytes) -> None:
        if self._may_send(body):
            about = f"a copy of the message {id}"
            self.dashboard.changes.ask(self.server, "send", self.queue, body=body, about=about)

    def _may_send(self, body: bytes) -> bool:
        """Return whether a body is short enough to be sent from here; if it is not, say so."""
        if len(body) <= BODY_BYTES_MAX:
            return True
        why = f"a body of {size(len(body))} cannot be sent from here, at most {size(BODY_BYTES_MAX)}"
        self.warn(why)
        return False

    async def body_of(self, id: str) -> bytes | None:
        """Read a whole body; if there is none, show why and return None."""
        try:
            view = await self.server.source.read(self.queue, id)
        except PeekError as error:
            self.warn(str(error))
            return None
        if view.body is None:
            why = f"is long, {size(view.size)}: open it to read it" if view.size else "no longer has a body"
            self.warn(f"that message {why}")
        return view.body
