"""Undoes a change: the inverse of its batches in reverse order, with the same guards.

A message is unsettled if it is unknown whether the change or another client removed it, or put it there. An undo
changes such messages only on request.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import NamedTuple

from rsmq_tui.monitor.text import count, plural, printable
from rsmq_tui.protocol.editing import EditExecutor
from rsmq_tui.protocol.kinds import kind_of, kind_of_batch
from rsmq_tui.protocol.outcomes import Outcome
from rsmq_tui.triage import actions
from rsmq_tui.triage.change import Change, Entry, Step
from rsmq_tui.triage.journal import Journal
from rsmq_tui.triage.scope import BODIES_SHOWN, starts_of


class BatchUndo(ABC):
    """Undoes the batches of one change, for one kind of queue.

    ``already`` are the numbers of the batches that an earlier, unfinished undo has undone.
    """

    # A sentence for the preview of an undo.
    note = ""

    def __init__(self, journal: Journal, change: int, already: set[int]) -> None:
        self.journal, self.change, self.already = journal, change, already

    def is_unsettled(self, entry: Entry) -> bool:
        """Return whether undoing a batch may change what another client did.

        Any other batch with an unsure outcome is safe to undo: guards skip what the change did not do.
        """
        return entry.unsure and entry.batch.takes_away

    @abstractmethod
    def still_done(self, entry: Entry) -> str:
        """Return the outcome of a batch, without what earlier, unfinished undos have undone."""

    @abstractmethod
    def steps(self, editor: EditExecutor, entry: Entry) -> AsyncGenerator[Step, None]:
        """Yield the inverse of what is left of a batch; ``editor`` is that of the change."""

    def created(self, entry: Entry) -> str | None:
        """Return the queue that a batch created, which the undo removes, or None."""
        return None

    async def unchanged(self, editor: EditExecutor, entry: Entry) -> tuple[int, int]:
        """Read what is left of a batch; return how many messages that is, and how many are as the change left them.

        Both are 0 if the kind can only find out by an undo.
        """
        return 0, 0


class LeftToUndo(NamedTuple):
    """What is left to undo of a change: numbers of messages or queues, and the queues that it created.

    ``counted`` are those that the change counted, ``auxiliary`` the others. ``taken`` and ``put`` are messages of which
    it is unknown whether the change, or another client, has taken them away or put them there.
    """

    counted: int
    auxiliary: int
    taken: int
    put: int
    created: tuple[str, ...]

    @property
    def unsettled(self) -> int:
        """Messages that an undo changes only on request."""
        return self.taken + self.put

    def planned(self, *, unsettled: bool) -> int:
        """Return how many an undo changes; auxiliary ones count only if no others are left."""
        return (self.counted or self.auxiliary) + (self.unsettled if unsettled else 0)


class UndoOutlook(NamedTuple):
    """What an undo would do now: of the first ``examined`` messages, ``unchanged`` are as the change left them."""

    left: LeftToUndo
    examined: int
    unchanged: int

    @property
    def words(self) -> str:
        """One sentence."""
        planned, left_out = self.left.planned(unsettled=False), self.examined - self.unchanged
        if not planned:
            return "nothing is left to undo" + (", or it is not certain" if self.left.unsettled else "")
        if not self.examined:
            return f"applies to {count(planned)} at most; what has changed since is skipped"
        skipped = (
            f"{count(left_out)} {'has changed since and is' if left_out == 1 else 'have changed since and are'} skipped"
        )
        if self.examined < planned:
            at_most = f"applies to {count(planned - left_out)} at most"
            return f"{at_most}: of the first {count(self.examined)}, {skipped}"
        if not left_out:
            return f"applies to {count(planned)}, all as the change left them"
        return f"applies to {count(self.unchanged)} of {count(planned)}; {skipped}"


class _Undos:
    """The ``BatchUndo`` of one change, for each kind of queue."""

    def __init__(self, journal: Journal, change: int) -> None:
        self.journal, self.change = journal, change
        self.already = journal.numbers_undone(change)
        self._known: dict[str, BatchUndo] = {}

    def of(self, entry: Entry) -> BatchUndo:
        """Return the ``BatchUndo`` of a batch."""
        kind = kind_of_batch(entry.batch.kind)
        if kind.name not in self._known:
            self._known[kind.name] = kind.part("undo")(self.journal, self.change, self.already)
        return self._known[kind.name]


async def prepare_undo(
    editor: EditExecutor, journal: Journal, change: int, *, unsettled: bool = False
) -> AsyncGenerator[Step, None]:
    """Yield the inverse of a change; that of unsettled batches only with ``unsettled``.

    Raises what the editor and the journal raise.
    """
    undos = await asyncio.to_thread(_Undos, journal, change)
    is_rest = await asyncio.to_thread(_is_rest, undos)
    entries = journal.entries(change, newest_first=True)
    kind: str | None = None
    while (entry := await asyncio.to_thread(next, entries, None)) is not None:
        undo = undos.of(entry)
        if undo.is_unsettled(entry) and not unsettled:
            continue
        async for prepared in undo.steps(editor, entry):
            prepared.undoes, prepared.counted = entry.number, entry.counted or is_rest
            before, kind = kind, entry.batch.kind
            if before not in (None, kind):
                # A message may be in several batches of different kinds: the order must be kept.
                yield Step(alone=True)
            yield prepared


def left_to_undo(journal: Journal, change: int) -> LeftToUndo:
    """Count what is left to undo."""
    return _left(_Undos(journal, change))


# How many messages are read to find out what an undo would do now.
_EXAMINED_MAX = 1_000


async def undo_outlook(editor: EditExecutor, journal: Journal, change: int) -> UndoOutlook:
    """Return what undoing a change would do now; raises what the editor and the journal raise."""
    undos = await asyncio.to_thread(_Undos, journal, change)
    left, first = await asyncio.to_thread(_left_and_first, undos)
    examined = unchanged = 0
    for entry in first:
        looked_at, same = await undos.of(entry).unchanged(editor, entry)
        examined, unchanged = examined + looked_at, unchanged + same
    return UndoOutlook(left, examined, unchanged)


def removal_notes(left: LeftToUndo) -> list[str]:
    """Return a note for each queue that the undo removes if nobody else has used it."""
    return [
        f"Queue {printable(queue)}, which the change created, is removed if it is empty then and nobody else has used "
        "it; otherwise it is kept."
        for queue in left.created
    ]


def notes_of_undo(change: Change) -> tuple[str, ...]:
    """Return the notes for the preview of an undo."""
    note = kind_of(change.ns).part("undo").note
    action = actions.action_named(change.name)
    is_put_back = not action.of_processing and action.inverse != actions.REMOVE
    return (note,) if note and is_put_back else ()


def undo_summary(change: Change, original: Change) -> str:
    """Return one line: the change that is undone; ``original`` is the same, or the change that a redo made again."""
    action, again = actions.action_named(original.name), "" if change is original else " again"
    if issubclass(action, actions.QueueAction):
        done = f"{change.past} queue {printable(change.queue)}{again}, {original.what}"
    elif not change.done:
        what = f"created queue {change.target}" if change.target is not None else f"changed queue {change.queue}"
        done = f"{what}{again}"
    elif action.counts_queue and change.done == change.planned:
        # One of them is the queue.
        done = f"{change.past} queue {printable(change.queue)} and its {plural(change.done - 1, 'message')}{again}"
    else:
        to = "" if change.target is None else f" to {printable(change.target)}"
        done = f"{change.past} {plural(change.done, 'message')}{to}{again}, {original.what}"
    return f"change {change.change}: {done}"


def effect_of(original: Change, planned: int, *, is_redo: bool) -> actions.Effect:
    """Return the effect of undoing a change, or of making it again, on ``planned`` messages or queues."""
    action, queue = actions.action_named(original.name), original.queue
    if not original.done:
        # It changed no messages: it created its target, or changed its queue.
        action, queue = (
            (actions.SetAttributes, queue) if original.target is None else (actions.CreateQueue, original.target)
        )
    what, were = plural(planned, "message"), "was" if planned == 1 else "were"
    is_of_queue = issubclass(action, actions.QueueAction)
    if is_of_queue:
        what, were = f"queue {printable(queue)}", "was"
    elif action.counts_queue:
        what, were = f"queue {printable(queue)} and its messages", "were"
    if is_redo:
        return actions.Effect(action.does, original.past, f"{what} again", removes=action.takes_away)
    did = original.past if original.done else action.done_word
    removes = action.inverse == actions.REMOVE and not is_of_queue
    return actions.Effect(*action.inverse, f"{what} that {were} {did}", removes)


async def bodies_to_remove(
    editor: EditExecutor, journal: Journal, change: int, *, unsettled: bool
) -> tuple[bytes, ...]:
    """Return the starts of some bodies that an undo removes; raises what the editor and the journal raise."""
    async with aclosing(prepare_undo(editor, journal, change, unsettled=unsettled)) as steps:
        async for step in steps:
            if step.batch is not None and step.batch.takes_away:
                befores = [before for before, _ in getattr(step.batch, "edits", ()) if before is not None]
                return starts_of(before.body for before in befores[:BODIES_SHOWN])
    return ()


def _is_rest(undos: _Undos) -> bool:
    """Return whether only auxiliary batches are left, such as the creation of a queue that got no messages."""
    found = undos.journal.change(undos.change)
    if found is not None and found.done and not undos.already:
        # Fast path: reading all batches takes time.
        return False
    left = _left(undos)
    return not left.counted + left.unsettled


def _left(undos: _Undos) -> LeftToUndo:
    return _left_and_first(undos)[0]


def _left_and_first(undos: _Undos) -> tuple[LeftToUndo, list[Entry]]:
    """Return what is left to undo, and the first batches of it, of about ``_EXAMINED_MAX`` messages."""
    counted = auxiliary = taken = put = 0
    created: list[str] = []
    first: list[Entry] = []
    for entry in undos.journal.entries(undos.change):
        undo = undos.of(entry)
        done = undo.still_done(entry).count(Outcome.DONE)
        if done and (queue := undo.created(entry)) is not None:
            created.append(queue)
        if undo.is_unsettled(entry):
            taken, put = (taken + done, put) if entry.batch.takes_away else (taken, put + done)
        elif entry.counted:
            if done and counted < _EXAMINED_MAX:
                first.append(entry)
            counted += done
        else:
            auxiliary += done
    return LeftToUndo(counted, auxiliary, taken, put, tuple(created)), first
