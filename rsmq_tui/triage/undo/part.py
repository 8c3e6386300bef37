"""The messages of a change, as the journal has them, and those of them that a scope selects for an undo."""

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncGenerator, Collection, Iterable, Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from rsmq_tui.monitor.filters.language import Filter
from rsmq_tui.protocol import RawMessage, leading_int, name_bytes, name_of, sent_ms
from rsmq_tui.protocol.editing import EditExecutor
from rsmq_tui.protocol.lists.naming import read_item_id
from rsmq_tui.protocol.outcomes import Outcome, letters_of
from rsmq_tui.protocol.rsmq.edits import Edit
from rsmq_tui.triage.actions import Part, target_reference
from rsmq_tui.triage.change import Change, Entry
from rsmq_tui.triage.errors import TriageError
from rsmq_tui.triage.journal.journal import Journal
from rsmq_tui.triage.scope import Matching, Named, ScanCallback, ScanProgress
from rsmq_tui.triage.undo.inverse import BatchUndo, Undos


class EntryLeft(NamedTuple):
    """A batch with messages, its edits as they were done, and ``left``, its outcome without what was undone since.

    ``made_again`` are the indexes of what was undone, and made again by a redo.
    """

    entry: Entry
    undo: BatchUndo
    edits: Sequence[Edit]
    left: str
    made_again: Set[int]

    @property
    def indexes_left(self) -> list[int]:
        """The indexes of the edits that were done and not undone."""
        return [index for index, letter in enumerate(letters_of(self.left)) if letter == Outcome.DONE]

    @property
    def is_undone(self) -> list[bool]:
        """Whether each edit was undone, also if it was made again since."""
        if not self.entry.outcome:
            return [False] * len(self.edits)
        letters = zip(letters_of(self.entry.outcome), letters_of(self.left), strict=True)
        return [before == Outcome.DONE and now != Outcome.DONE for before, now in letters]


def entries_left(journal: Journal, change: int, part: Part | None = None) -> Iterator[EntryLeft]:
    """Iterate over the batches of a change, or of a part of it, that have messages; one is in memory at a time."""
    undos, found = Undos(journal, change, part), journal.change(change)
    if found is not None:
        yield from (each for entry in undos.entries() if (each := entry_left(undos, found, entry)).edits)


def entry_left(undos: Undos, change: Change, entry: Entry) -> EntryLeft:
    """Return a batch of a change with what is left of it; without edits if it has no messages."""
    undo = undos.of(entry)
    edits, left = undos.journal.edits_done(change, entry), undo.not_undone(entry)
    # To find out which, the batches of all undos and redos of this one are read.
    made_again = undo.made_again(entry, left) if edits and change.redone else frozenset()
    return EntryLeft(entry, undo, edits, left, made_again)


class Chosen(NamedTuple):
    """Messages of a change, chosen by their indexes; ``ids`` are theirs, in any order."""

    part: Part
    ids: tuple[str, ...]


PartScope = Named | Matching | Chosen
"""Selects messages of a change: by ids, by a filter on what they were before the change, or by their indexes."""

# What is kept of the body of a message that a screen lists.
_START_BYTES = 400


class ChangedMessage(NamedTuple):
    """A message of a change as it was before, or is after it if it is new: the edit at ``edit_index`` in a batch.

    ``start`` is the start of its body, None if neither the journal has it nor a filter has read it. ``outcome`` is None
    if the batch was not carried out, and until ``is_known``. ``undone`` is True if it is undone now, ``made_again`` if
    it was undone and a redo has made the change again.
    """

    number: int
    edit_index: int
    id: str
    rc: int
    sent_ms: int | None
    size: int
    start: bytes | None
    outcome: Outcome | None
    is_known: bool
    undone: bool
    made_again: bool = False

    @property
    def is_left(self) -> bool:
        """True if it was changed, and not undone."""
        return self.outcome is Outcome.DONE and not (self.undone or self.made_again)


def chosen_of(messages: Iterable[ChangedMessage]) -> Chosen:
    """Return these messages as the scope of an undo."""
    indexes: dict[int, set[int]] = {}
    ids = []
    for message in messages:
        indexes.setdefault(message.number, set()).add(message.edit_index)
        ids.append(message.id)
    return Chosen(Part(indexes), tuple(ids))


async def changed_messages(
    editor: EditExecutor | None, journal: Journal, change: Change, wanted: Filter | None
) -> AsyncGenerator[list[ChangedMessage], None]:
    """Yield the messages of a change, batch by batch, or those left to undo that match a filter.

    Raises what the editor and journal raise, and ``TriageError`` as ``select_part`` does. Without an editor, bodies
    that the journal does not have cannot be searched.
    """
    matching = None if wanted is None else _MatchingMessages(editor, change, wanted)
    entries = entries_left(journal, change.change)
    while (found := await asyncio.to_thread(next, entries, None)) is not None:
        if matching is None:
            messages = {index: _as_searched(edit) for index, edit in enumerate(found.edits)}
        else:
            messages = await matching.found_in(found)
        yield await asyncio.to_thread(_rows_of, found, messages, change.at_ms)


def _rows_of(found: EntryLeft, messages: Mapping[int, RawMessage], at_ms: int) -> list[ChangedMessage]:
    letters = letters_of(found.entry.outcome or "")
    number, is_undone = found.entry.number, found.is_undone
    rows = []
    for index, message in messages.items():
        id, body = name_of(message.id), message.body
        rows.append(
            ChangedMessage(
                number=number,
                edit_index=index,
                id=id,
                rc=leading_int(message.rc) or 0,
                sent_ms=sent_ms(id, now_ms=at_ms),
                size=message.size,
                start=None if body is None else body[:_START_BYTES],
                outcome=Outcome(letters[index]) if letters else None,
                is_known=found.entry.outcome is not None,
                undone=is_undone[index] and index not in found.made_again,
                made_again=index in found.made_again,
            )
        )
    return rows


class Selected(NamedTuple):
    """The messages of a change that a scope selects: the ``part`` of them that is left to undo.

    ``undone`` counts others that were undone already, ``missing`` those of the ids that are not in the change, and
    ``unread`` messages that are gone, so that a filter could not be applied to their bodies.
    """

    part: Part
    undone: int = 0
    missing: int = 0
    unread: int = 0


async def select_part(
    editor: EditExecutor, journal: Journal, change: Change, scope: PartScope, on_progress: ScanCallback
) -> Selected:
    """Return the messages of a change that a scope selects; raises what the editor and journal raise.

    Raises ``TriageError`` if a filter needs bodies that are not stored.
    """
    chooser = _chooser_of(scope, editor, change)
    indexes: dict[int, Collection[int]] = {}
    scanned = selected = 0
    entries = entries_left(journal, change.change, scope.part if isinstance(scope, Chosen) else None)
    while (found := await asyncio.to_thread(next, entries, None)) is not None:
        chosen = await chooser.choose(found)
        if chosen:
            is_whole = len(chosen) == len(found.edits)
            indexes[found.entry.number] = range(len(chosen)) if is_whole else frozenset(chosen)
        scanned, selected = scanned + len(found.edits), selected + len(chosen)
        on_progress(ScanProgress(scanned, change.planned, selected))
    return chooser.selected(Part(indexes))


class _Chooser(ABC):
    """Chooses messages of a change, batch by batch."""

    @abstractmethod
    async def choose(self, found: EntryLeft) -> Sequence[int]:
        """Return the indexes of those messages of a batch, left to undo, that are chosen."""

    def selected(self, part: Part) -> Selected:
        """Return what was selected; ``part`` is what was chosen of all batches."""
        return Selected(part)


def _chooser_of(scope: PartScope, editor: EditExecutor, change: Change) -> _Chooser:
    match scope:
        case Chosen(part=part):
            return _MarkedMessages(part)
        case Named(ids=ids):
            return _NamedMessages(ids)
    return _MatchingMessages(editor, change, scope.filter)


class _MarkedMessages(_Chooser):
    """Chooses messages by their indexes; others may have been undone since those were listed."""

    def __init__(self, part: Part) -> None:
        self._indexes = part.edit_indexes
        self._undone = 0

    async def choose(self, found: EntryLeft) -> list[int]:
        """Return those of the indexes that are left."""
        meant = self._indexes[found.entry.number]
        self._undone += sum(is_undone for index, is_undone in enumerate(found.is_undone) if index in meant)
        return [index for index in found.indexes_left if index in meant]

    def selected(self, part: Part) -> Selected:
        """Return also how many were undone already."""
        return Selected(part, self._undone)


_Name = bytes | tuple[str]


def _name_of(id: bytes) -> _Name:
    """Return what identifies a message in a change: its id, or for an item of a list the hash of its bytes."""
    item = read_item_id(id)
    return id if item is None else (item.sha,)


class _NamedMessages(_Chooser):
    """Chooses messages with these ids, before or after the change.

    Among equal items of a list, which have no ids of their own, as many are chosen as were named.
    """

    def __init__(self, ids: Iterable[str]) -> None:
        names = Counter(_name_of(name_bytes(id)) for id in ids)
        self._wanted = {name: number if isinstance(name, tuple) else 1 for name, number in names.items()}
        self._chosen: Counter[_Name] = Counter()
        self._undone: Counter[_Name] = Counter()

    async def choose(self, found: EntryLeft) -> list[int]:
        """Return the indexes of messages with these ids, and count those that were undone."""
        chosen = [index for index in found.indexes_left if self._chooses(found.edits[index])]
        undone = (edit for edit, is_undone in zip(found.edits, found.is_undone, strict=True) if is_undone)
        self._undone.update(name for edit in undone if (name := self._named(edit)) is not None)
        return chosen

    def selected(self, part: Part) -> Selected:
        """Return also how many were undone already, and how many are not in the change."""
        undone = sum(min(self._not_chosen(name), self._undone[name]) for name in self._wanted)
        missing = sum(max(0, self._not_chosen(name) - self._undone[name]) for name in self._wanted)
        return Selected(part, undone, missing)

    def _not_chosen(self, name: _Name) -> int:
        return max(0, self._wanted[name] - self._chosen[name])

    def _chooses(self, edit: Edit) -> bool:
        name = self._named(edit)
        if name is None or (isinstance(name, tuple) and not self._not_chosen(name)):
            return False
        self._chosen[name] += 1
        return True

    def _named(self, edit: Edit) -> _Name | None:
        names = (_name_of(message.id) for message in edit if message is not None)
        return next((name for name in names if name in self._wanted), None)


class _MatchingMessages(_Chooser):
    """Chooses messages that matched a filter before the change, or do after it if they did not exist before.

    The journal has the bodies of messages that a change removed; others are read from where it left them.
    """

    def __init__(self, editor: EditExecutor | None, change: Change, wanted: Filter) -> None:
        self._unread = 0
        self._editor, self._change = editor, change
        self._matches = wanted.matches()
        self._needs_body = "body" in wanted.needs()
        self._can_tell = wanted.searched()

    async def choose(self, found: EntryLeft) -> list[int]:
        """Return the indexes of messages that match."""
        return list(await self.found_in(found))

    async def found_in(self, found: EntryLeft) -> dict[int, RawMessage]:
        """Return the messages that match, by their indexes, with the bodies that were read for it."""
        indexes = found.indexes_left
        messages = [_as_searched(found.edits[index]) for index in indexes]
        if self._needs_body and any(message.body is None for message in messages):
            messages = await self._with_bodies(found, messages)
        return {indexes[index]: messages[index] for index in self._matches(messages, self._change.at_ms)}

    def selected(self, part: Part) -> Selected:
        """Return also how many could not be searched."""
        return Selected(part, unread=self._unread)

    async def _with_bodies(self, found: EntryLeft, messages: Sequence[RawMessage]) -> list[RawMessage]:
        editor, at_ms = self._editor, self._change.at_ms
        bodies = None if editor is None else await found.undo.bodies(editor, found.entry, found.left)
        if bodies is None:
            if not all(self._can_tell(message, at_ms) for message in messages):
                raise TriageError(
                    f"the journal does not have the bodies of all messages of change {self._change.change}, and they "
                    f"{self._why_unread()}: a filter on bodies cannot select them. {self._way_out()}"
                )
            return list(messages)
        whole = [
            message if body is None else message._replace(body=body, size=len(body))
            for message, body in zip(messages, bodies, strict=True)
        ]
        self._unread += sum(not self._can_tell(message, at_ms) for message in whole)
        return whole

    def _why_unread(self) -> str:
        return f"are on {self._change.server}" if self._editor is None else "are too many to read"

    def _way_out(self) -> str:
        """Return how to select messages of which only the queue has the bodies."""
        change = self._change
        queue = target_reference(change.target or change.queue, change.ns)
        return f"Find their ids in {queue}, where they are now, and select them by these (undo {change.change} --id …)"


def _as_searched(edit: Edit) -> RawMessage:
    message = edit.before or edit.after
    if message is None:
        raise ValueError("an edit of nothing")
    # The receive count of an item is the token of its lease.
    return message if read_item_id(message.id) is None else message._replace(rc=None, fr=None)
