"""Undoes a change, or some of its messages: the inverse of its batches in reverse order, with the same guards.

What is left to undo of a batch follows from the journal: the edits that were done, without those that the batches of
earlier undos have undone.

A message is unsettled if it is unknown whether the change or another client removed it, or put it there. An undo
changes such messages only on request.
"""

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import NamedTuple

from rsmq_tui.monitor.text import count, plural, printable
from rsmq_tui.protocol.editing import EditExecutor
from rsmq_tui.protocol.kinds import kind_of, kind_of_batch
from rsmq_tui.protocol.lists.edits import TAKEN_BACK
from rsmq_tui.protocol.outcomes import Outcome, letters_of
from rsmq_tui.protocol.rsmq.edits import Edit
from rsmq_tui.triage import actions
from rsmq_tui.triage.actions import Part
from rsmq_tui.triage.change import Change, Entry, Step
from rsmq_tui.triage.errors import no_queue
from rsmq_tui.triage.journal.journal import DamagedError, Journal
from rsmq_tui.triage.scope import BODIES_SHOWN, starts_of

_EditKey = tuple[bytes | None, bytes | None]


class BatchUndo(ABC):
    """Undoes the batches of one change, or a part of them, for one kind of queue.

    ``already`` are the batches that have undone something of each batch, as ``Journal.batches_undoing`` returns them.
    """

    # A sentence for the preview of an undo.
    note = ""

    def __init__(
        self,
        journal: Journal,
        change: int,
        already: Mapping[int, Sequence[tuple[int, int]]],
        part: Part | None = None,
    ) -> None:
        self.journal, self.change, self.already, self.part = journal, change, already, part

    def is_unsettled(self, entry: Entry) -> bool:
        """Return whether undoing a batch may change what another client did.

        Any other batch with an unsure outcome is safe to undo: guards skip what the change did not do.
        """
        return entry.unsure and entry.batch.takes_away

    def still_done(self, entry: Entry) -> str:
        """Return the outcome of a batch, without what earlier undos have undone, and without what is not in the part.

        An earlier undo may have ended within a batch, or have undone some of its messages only.
        """
        outcome = self.not_undone(entry)
        if self.part is None or not outcome:
            return outcome
        indexes = self.part.edit_indexes.get(entry.number, ())
        return _without(outcome, lambda index: index not in indexes)

    async def left(self, entry: Entry) -> str:
        """Return ``still_done``; in a thread, if batches of earlier undos are read for it."""
        return (
            await asyncio.to_thread(self.still_done, entry) if entry.number in self.already else self.still_done(entry)
        )

    def not_undone(self, entry: Entry) -> str:
        """Return the outcome of a batch, without what earlier undos have undone."""
        undoing = self.already.get(entry.number)
        if not undoing or not entry.outcome:
            return entry.outcome or ""
        inverse = entry.batch.inverse(entry.outcome)
        if inverse is None or not inverse.edits:
            # Fields are undone as a whole.
            return ""
        back: Counter[_EditKey] = Counter()
        for change, number in undoing:
            back.update(map(_key, self.undid(self.journal.entry(change, number))))
        keys = iter([_key(edit) for edit in inverse.edits])

        def was_undone(_: int) -> bool:
            key = next(keys)
            back[key] -= 1
            return back[key] >= 0

        return _without(entry.outcome, was_undone)

    def made_again(self, entry: Entry, left: str) -> set[int]:
        """Return the indexes of edits that were undone, and that redos have made again; ``left`` is ``not_undone``."""
        letters = zip(letters_of(entry.outcome or ""), letters_of(left), strict=True)
        undone = [index for index, (before, now) in enumerate(letters) if before != now]
        edits, back = entry.batch.edits, self._in_effect(self.already.get(entry.number, ()))
        again = set()
        for index in undone:
            key = _key(edits[index])[::-1]
            if not back[key]:
                again.add(index)
            back[key] -= bool(back[key])
        return again

    def _in_effect(self, batches: Sequence[tuple[int, int]]) -> Counter[_EditKey]:
        """Count the edits of batches, named by their changes and numbers, that were done and are not undone now."""
        named = [*batches]
        undoing: dict[int, Mapping[int, Sequence[tuple[int, int]]]] = {}
        # With the batches that undo them, those that undo these, and so on; this extends the list.
        for change, number in named:
            if change not in undoing:
                undoing[change] = self.journal.batches_undoing(change)
            named += undoing[change].get(number, ())
        found: dict[tuple[int, int], Counter[_EditKey]] = {}
        for change, number in reversed(named):
            edits: Counter[_EditKey] = Counter()
            # The undo of a damaged batch is not known to be one.
            with suppress(DamagedError):
                edits.update(map(_key, self.undid(self.journal.entry(change, number))))
            for undo in undoing[change].get(number, ()):
                edits.subtract({key[::-1]: times for key, times in found[undo].items()})
            found[change, number] = +edits
        return sum((found[batch] for batch in batches), Counter())

    def undid(self, undo: Entry) -> list[Edit]:
        """Return those edits of a batch of an earlier undo that count as undone."""
        edits = zip(undo.batch.edits, letters_of(undo.outcome or ""), strict=True)
        return [edit for edit, letter in edits if letter == Outcome.DONE]

    async def bodies(self, editor: EditExecutor, entry: Entry, outcome: str) -> list[bytes | None] | None:
        """Read the bodies, as they are now, of the messages that ``outcome`` says were done, in their order.

        None if they cannot be read.
        """
        return None

    @abstractmethod
    def steps(self, editor: EditExecutor, entry: Entry) -> AsyncGenerator[Step, None]:
        """Yield the inverse of what is left of a batch; ``editor`` is that of the change."""

    def created(self, entry: Entry) -> str | None:
        """Return the queue that a batch created, which the undo removes, or None."""
        return None

    def recreated(self, entry: Entry) -> str | None:
        """Return the queue that a batch deleted, which the undo creates again, or None."""
        return None

    async def missing(self, editor: EditExecutor, entry: Entry) -> str | None:
        """Return the queue to which the undo of a batch puts messages, if it does not exist; else None."""
        return None

    async def unchanged(self, editor: EditExecutor, entry: Entry) -> tuple[int, int]:
        """Read what is left of a batch; return how many messages that is, and how many are as the change left them.

        Both are 0 if the kind can only find out by an undo.
        """
        return 0, 0


class LeftToUndo(NamedTuple):
    """What is left to undo of a change: numbers of messages or queues, and the queues that it created.

    ``counted`` are those that the change counted, ``auxiliary`` the others. ``taken`` and ``put`` are messages of which
    it is unknown whether the change, or another client, has taken them away or put them there. ``recreated`` are the
    queues that the change deleted, and ``auxiliary_recreated`` those of them that it did not count.
    """

    counted: int
    auxiliary: int
    taken: int
    put: int
    created: tuple[str, ...]
    recreated: tuple[str, ...] = ()
    auxiliary_recreated: tuple[str, ...] = ()

    @property
    def unsettled(self) -> int:
        """Messages that an undo changes only on request."""
        return self.taken + self.put

    def planned(self, *, unsettled: bool) -> int:
        """Return how many an undo changes; auxiliary ones count only if no others are left."""
        return (self.counted or self.auxiliary) + (self.unsettled if unsettled else 0)


class UndoOutlook(NamedTuple):
    """What an undo would do now: of the first ``examined`` messages, ``unchanged`` are as the change left them.

    ``missing`` are queues that the undo needs for these, and that do not exist.
    """

    left: LeftToUndo
    examined: int
    unchanged: int
    missing: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """One sentence."""
        planned, left_out = self.left.planned(unsettled=False), self.examined - self.unchanged
        if not planned:
            return "nothing is left to undo" + (", or it is not certain" if self.left.unsettled else "")
        if self.missing:
            return f"not possible now: {no_queue(*self.missing)}"
        if not self.examined:
            return f"applies to {count(planned)} at most; what has changed since is skipped"
        skipped = (
            f"{count(left_out)} {'has changed since and is' if left_out == 1 else 'have changed since and are'} skipped"
        )
        if self.examined < planned:
            at_most = f"applies to {count(planned - left_out)} at most"
            return f"{at_most}: of the first {count(self.examined)}, {skipped}"
        if not left_out:
            as_left = "as the change left it" if planned == 1 else "all as the change left them"
            return f"applies to {count(planned)}, {as_left}"
        return f"applies to {count(self.unchanged)} of {count(planned)}; {skipped}"


class Undos:
    """The ``BatchUndo`` of one change, for each kind of queue."""

    def __init__(self, journal: Journal, change: int, part: Part | None = None) -> None:
        self.journal, self.change, self.part = journal, change, part
        self.already = journal.batches_undoing(change)
        self._known: dict[str, BatchUndo] = {}

    def of(self, entry: Entry) -> BatchUndo:
        """Return the ``BatchUndo`` of a batch."""
        kind = kind_of_batch(entry.batch.kind)
        if kind.name not in self._known:
            self._known[kind.name] = kind.part("undo")(self.journal, self.change, self.already, self.part)
        return self._known[kind.name]

    def entries(self, *, newest_first: bool = False) -> Iterator[Entry]:
        """Iterate over the batches of the change, or those with messages of the part."""
        if self.part is None:
            return self.journal.entries(self.change, newest_first=newest_first)
        numbers = sorted(self.part.edit_indexes, reverse=newest_first)
        return (self.journal.entry(self.change, number) for number in numbers)


async def prepare_undo(
    editor: EditExecutor,
    journal: Journal,
    change: int,
    *,
    unsettled: bool,
    part: Part | None,
    planned: int = 0,
    was_undone: int | None = None,
) -> AsyncGenerator[Step, None]:
    """Yield the inverse of a change, or of a part of it; that of unsettled batches only with ``unsettled``.

    If more than ``was_undone`` messages were undone by now, those of ``planned`` that are no longer left count as
    undone meanwhile. Raises what the editor and the journal raise.
    """
    undos = await asyncio.to_thread(Undos, journal, change, part)
    if part is None and was_undone is not None:
        found = await asyncio.to_thread(journal.change, change)
        # To find out how many these are, all batches are read.
        if found is not None and found.was_undone > was_undone:
            still = await asyncio.to_thread(_left, undos)
            yield _undone_meanwhile(max(0, planned - still.planned(unsettled=unsettled)))
    is_rest = await asyncio.to_thread(_is_rest, undos)
    entries = undos.entries(newest_first=True)
    kind: str | None = None
    while (entry := await asyncio.to_thread(next, entries, None)) is not None:
        undo = undos.of(entry)
        if undo.is_unsettled(entry) and not unsettled:
            continue
        if part is not None and (indexes := part.edit_indexes.get(entry.number)):
            left = await undo.left(entry)
            if others := len(indexes) - left.count(Outcome.DONE):
                yield _undone_meanwhile(others)
        async for step in undo.steps(editor, entry):
            step.undoes, step.counted = entry.number, entry.counted or is_rest
            before, kind = kind, entry.batch.kind
            if before not in (None, kind):
                # A message may be in several batches of different kinds: the order must be kept.
                yield Step(alone=True)
            yield step


def _undone_meanwhile(messages: int) -> Step:
    """Return a step that excludes messages, because another undo of the same change came first."""
    return Step(excluded=Outcome.GONE * messages, skip_reason="undone meanwhile")


def left_to_undo(journal: Journal, change: int) -> LeftToUndo:
    """Count what is left to undo."""
    return _left(Undos(journal, change))


# How many messages are read to find out what an undo would do now.
_EXAMINED_MAX = 1_000


async def undo_outlook(editor: EditExecutor, journal: Journal, change: int, part: Part | None = None) -> UndoOutlook:
    """Return what undoing a change, or a part of it, would do now; raises what the editor and the journal raise."""
    undos = await asyncio.to_thread(Undos, journal, change, part)
    left, first = await asyncio.to_thread(_left_and_first, undos)
    examined = unchanged = 0
    missing: dict[str, None] = {}
    for entry in first:
        undo = undos.of(entry)
        looked_at, same = await undo.unchanged(editor, entry)
        examined, unchanged = examined + looked_at, unchanged + same
        if (queue := await undo.missing(editor, entry)) is not None and queue not in left.recreated:
            missing[queue] = None
    return UndoOutlook(left, examined, unchanged, tuple(missing))


def queue_notes(left: LeftToUndo) -> list[str]:
    """Return a note for each queue that the undo removes if nobody else has used it, or creates for its messages."""
    removed = [
        f"Queue {printable(queue)}, which the change created, is removed if it is empty then and nobody else has used "
        "it; otherwise it is kept."
        for queue in left.created
    ]
    again = [f"Queue {printable(queue)} is created again." for queue in left.auxiliary_recreated]
    return removed + again


def notes_of_undo(change: Change) -> tuple[str, ...]:
    """Return the notes for the preview of an undo."""
    note = kind_of(change.ns).part("undo").note
    action = actions.action_named(change.name)
    inverse = action.inverse if change.undoes is None else _inverse_by_past(change)
    is_put_back = not action.of_processing and inverse != actions.REMOVE
    return (note,) if note and is_put_back else ()


def undo_summary(change: Change, original: Change, planned: int, *, is_part: bool = False) -> str:
    """Return one line: the change that is undone; ``original`` is the same, or the change that a redo made again.

    With ``is_part``, only ``planned`` of its messages are. An ``original`` that is an undo or a redo stands for what it
    undoes, which is no longer in the journal; that has a sentence of its own there.
    """
    if original.undoes is not None:
        some = f"{count(planned)} of {plural(change.done, 'message')} of " if is_part and planned < change.done else ""
        is_first = change is original and original.name == actions.Undo.name
        return some + (original.what if is_first else f"change {change.change}: made again {original.what}")
    action, again = actions.action_named(original.name), "" if change is original else " again"
    # One of those that it counts is the queue.
    is_with_queue = action.counts_queue and change.done == change.planned
    if is_part:
        some = f"{count(planned)} of {plural(change.done - is_with_queue, 'message')} of change {change.change}"
        return f"{some}: {change.past}{change.to}{again}, {original.what}"
    if issubclass(action, actions.QueueAction):
        done = f"{change.past} queue {printable(change.queue)}{again}, {original.what}"
    elif not change.done:
        what = f"created queue {change.target}" if change.target is not None else f"changed queue {change.queue}"
        done = f"{what}{again}"
    elif is_with_queue:
        done = f"{change.past} queue {printable(change.queue)} and its {plural(change.done - 1, 'message')}{again}"
    else:
        done = f"{change.past} {plural(change.done, 'message')}{change.to}{again}, {original.what}"
    return f"change {change.change}: {done}"


def effect_of(original: Change, planned: int, *, is_redo: bool, is_part: bool = False) -> actions.Effect:
    """Return the effect of undoing a change, or of making it again, on ``planned`` messages or queues.

    With ``is_part``, these are messages alone.
    """
    if original.undoes is not None:
        return _effect_by_past(original, is_redo=is_redo)
    action, queue = actions.action_named(original.name), original.queue
    if not original.done:
        # It changed no messages: it created its target, or changed its queue.
        action, queue = (
            (actions.SetAttributes, queue) if original.target is None else (actions.CreateQueue, original.target)
        )
    what, were = plural(planned, "message"), "was" if planned == 1 else "were"
    is_of_queue = issubclass(action, actions.QueueAction) and not is_part
    if is_of_queue:
        what, were = f"queue {printable(queue)}", "was"
    elif action.counts_queue and not is_part:
        what, were = f"queue {printable(queue)} and its messages", "were"
    if is_redo:
        return actions.Effect(action.does, original.past, f"{what} again", removes=action.takes_away)
    did = original.past if original.done else action.done_word
    removes = action.inverse == actions.REMOVE and not is_of_queue
    return actions.Effect(*action.inverse, f"{what} that {were} {did}", removes)


# What the redo has done to messages or queues, by what the undo does to them.
_AGAIN = {
    actions.PUT_BACK: "removed",
    actions.REMOVE: "put back",
    actions.RESTORE: "changed",
    actions.MOVE_BACK: "moved",
}


def _effect_by_past(last: Change, *, is_redo: bool) -> actions.Effect:
    """Return the effect if the journal no longer has the original: ``last`` is an undo or a redo of it."""
    inverse, is_undo = _inverse_by_past(last), last.name == actions.Undo.name
    what = f"what change {last.undoes if is_undo else last.change} did"
    if not is_redo:
        return actions.Effect(*inverse, what, removes=inverse == actions.REMOVE)
    return actions.Effect("make again", _AGAIN[inverse], what, removes=inverse == actions.PUT_BACK)


def _inverse_by_past(last: Change) -> actions.Inverse:
    """Return what the undo of a change does to messages or queues, by an undo or a redo of the change."""
    for inverse, again in _AGAIN.items():
        if last.past == (inverse.past if last.name == actions.Undo.name else again):
            return inverse
    return actions.action_that(last.past).inverse


async def bodies_of_undo(
    editor: EditExecutor, journal: Journal, change: int, *, unsettled: bool, part: Part | None
) -> tuple[bytes, ...]:
    """Return the starts of some bodies that an undo removes or puts back; raises what the editor and journal raise."""
    found: list[bytes] = []
    async with aclosing(prepare_undo(editor, journal, change, unsettled=unsettled, part=part)) as steps:
        async for step in steps:
            if step.batch is None or not step.batch.edits:
                continue
            shown = step.batch.edits[:BODIES_SHOWN]
            bodies = starts_of(message.body for edit in shown for message in edit if message is not None)
            found += bodies
            # Those of other batches are on the server only, or of other messages than those that are removed.
            if not bodies or len(found) >= BODIES_SHOWN:
                break
    return tuple(found[:BODIES_SHOWN])


def _is_rest(undos: Undos) -> bool:
    """Return whether only auxiliary batches are left, such as the creation of a queue that got no messages."""
    if undos.part is not None:
        return False
    found = undos.journal.change(undos.change)
    if found is not None and found.done and not undos.already:
        # Fast path: reading all batches takes time.
        return False
    left = _left(undos)
    return not left.counted + left.unsettled


def _left(undos: Undos) -> LeftToUndo:
    return _left_and_first(undos)[0]


def _left_and_first(undos: Undos) -> tuple[LeftToUndo, list[Entry]]:
    """Return what is left to undo, and the first batches of it, of about ``_EXAMINED_MAX`` messages."""
    counted = auxiliary = taken = put = 0
    created: list[str] = []
    recreated: list[str] = []
    auxiliary_recreated: list[str] = []
    first: list[Entry] = []
    for entry in undos.entries():
        undo = undos.of(entry)
        done = undo.still_done(entry).count(Outcome.DONE)
        if done and (queue := undo.created(entry)) is not None:
            created.append(queue)
        if done and (queue := undo.recreated(entry)) is not None:
            recreated.append(queue)
            if not entry.counted:
                auxiliary_recreated.append(queue)
        if undo.is_unsettled(entry):
            taken, put = (taken + done, put) if entry.batch.takes_away else (taken, put + done)
        elif entry.counted:
            if done and counted < _EXAMINED_MAX:
                first.append(entry)
            counted += done
        else:
            auxiliary += done
    queues = map(tuple, (created, recreated, auxiliary_recreated))
    return LeftToUndo(counted, auxiliary, taken, put, *queues), first


def _key(edit: Edit) -> _EditKey:
    return edit.before and edit.before.id, edit.after and edit.after.id


def _without(outcome: str, is_without: Callable[[int], bool]) -> str:
    """Return an outcome in which the edits at some of the indexes that were done count as taken back."""
    letters = list(letters_of(outcome))
    for index, letter in enumerate(letters):
        if letter == Outcome.DONE and is_without(index):
            letters[index] = TAKEN_BACK
    return "".join(letters) + outcome[len(letters) :]
