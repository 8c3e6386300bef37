"""The messages of a change, as the journal has them, and those of them that a scope selects for an undo."""

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from rsmq_tui.protocol import RawMessage, name_bytes
from rsmq_tui.protocol.editing import EditExecutor
from rsmq_tui.protocol.lists.naming import read_item_id
from rsmq_tui.protocol.outcomes import Outcome, letters_of
from rsmq_tui.protocol.rsmq.edits import Edit
from rsmq_tui.triage.actions import Part
from rsmq_tui.triage.change import Change, Entry
from rsmq_tui.triage.errors import TriageError
from rsmq_tui.triage.journal import Journal
from rsmq_tui.triage.scope import Matching, Named, ScanCallback, ScanProgress
from rsmq_tui.triage.undo import Undos

PartScope = Named | Matching | Part
"""Selects messages of a change: by ids, by a filter on what they were before the change, or by their places."""


class EntryLeft(NamedTuple):
    """A batch with messages, its edits as they were done, and ``left``, its outcome without what was undone since."""

    entry: Entry
    edits: Sequence[Edit]
    left: str

    @property
    def is_undone(self) -> list[bool]:
        """Whether each edit was undone."""
        if not self.entry.outcome:
            return [False] * len(self.edits)
        letters = zip(letters_of(self.entry.outcome), letters_of(self.left), strict=True)
        return [before == Outcome.DONE and now != Outcome.DONE for before, now in letters]


def entries_left(journal: Journal, change: int) -> Iterator[EntryLeft]:
    """Iterate over the batches of a change that have messages, with one of them in memory at a time."""
    undos = Undos(journal, change)
    for entry in undos.entries():
        edits = getattr(entry.batch, "edits", None)
        if edits is not None:
            as_done = getattr(entry.batch, "as_done", None)
            done = edits if as_done is None else as_done(entry.outcome or "")
            yield EntryLeft(entry, done, undos.of(entry).not_undone(entry))


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

    Raises ``TriageError`` if a filter needs bodies that nobody has.
    """
    if isinstance(scope, Part):
        return Selected(scope)
    named = _NamedMessages(scope.ids) if isinstance(scope, Named) else None
    matching = _MatchingMessages(editor, journal, change, scope) if isinstance(scope, Matching) else None
    places: dict[int, Collection[int]] = {}
    scanned = selected = 0
    entries = entries_left(journal, change.change)
    while (found := await asyncio.to_thread(next, entries, None)) is not None:
        left = [place for place, letter in enumerate(letters_of(found.left)) if letter == Outcome.DONE]
        if named is not None:
            chosen = named.choose(found.edits, left)
            named.note_undone(edit for edit, is_undone in zip(found.edits, found.is_undone, strict=True) if is_undone)
        elif matching is not None:
            chosen = await matching.choose(found, left)
        if chosen:
            is_whole = len(chosen) == len(found.edits)
            places[found.entry.number] = range(len(chosen)) if is_whole else frozenset(chosen)
        scanned, selected = scanned + len(found.edits), selected + len(chosen)
        on_progress(ScanProgress(scanned, change.planned, selected))
    if named is not None:
        return Selected(Part(places), named.undone, named.missing)
    return Selected(Part(places), unread=0 if matching is None else matching.unread)


_Name = bytes | tuple[str]


def _name_of(id: bytes) -> _Name:
    """Return what identifies a message in a change: its id, or for an item of a list the hash of its bytes."""
    item = read_item_id(id)
    return id if item is None else (item.sha,)


class _NamedMessages:
    """Chooses messages with these ids, before or after the change.

    Among equal items of a list, which have no ids of their own, as many are chosen as were named.
    """

    def __init__(self, ids: Iterable[str]) -> None:
        names = Counter(_name_of(name_bytes(id)) for id in ids)
        self._wanted = {name: number if isinstance(name, tuple) else 1 for name, number in names.items()}
        self._chosen: Counter[_Name] = Counter()
        self._undone: Counter[_Name] = Counter()

    def choose(self, edits: Sequence[Edit], places: Iterable[int]) -> list[int]:
        """Return those of the places whose messages are chosen."""
        return [place for place in places if self._chooses(edits[place])]

    def note_undone(self, edits: Iterable[Edit]) -> None:
        """Count those that would be chosen, and were undone."""
        self._undone.update(name for edit in edits if (name := self._named(edit)) is not None)

    @property
    def undone(self) -> int:
        """How many of the named messages were undone already."""
        return sum(min(self._not_chosen(name), self._undone[name]) for name in self._wanted)

    @property
    def missing(self) -> int:
        """How many of them are not in the change."""
        return sum(max(0, self._not_chosen(name) - self._undone[name]) for name in self._wanted)

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


class _MatchingMessages:
    """Chooses messages that matched a filter before the change, or do after it if they did not exist before.

    The journal has the bodies of messages that a change removed; others are read from where it left them.
    """

    def __init__(self, editor: EditExecutor, journal: Journal, change: Change, scope: Matching) -> None:
        self.unread = 0
        self._undos = Undos(journal, change.change)
        self._editor, self._change = editor, change
        self._matches = scope.filter.matches()
        self._needs_body = "body" in scope.filter.needs()
        self._can_tell = scope.filter.searched()

    async def choose(self, found: EntryLeft, places: Sequence[int]) -> list[int]:
        """Return those of the places whose messages match."""
        at_ms = self._change.at_ms
        messages = [_as_searched(found.edits[place]) for place in places]
        if self._needs_body and messages and any(message.body is None for message in messages):
            messages = await self._with_bodies(found, messages)
        return [places[index] for index in self._matches(messages, at_ms)]

    async def _with_bodies(self, found: EntryLeft, messages: Sequence[RawMessage]) -> list[RawMessage]:
        entry, at_ms = found.entry, self._change.at_ms
        bodies = await self._undos.of(entry).bodies(self._editor, entry, found.left)
        if bodies is None:
            if not all(self._can_tell(message, at_ms) for message in messages):
                raise TriageError(
                    f"change {self._change.change} has moved items of a list, whose bodies the journal does not have: "
                    "a filter on bodies cannot select them, their ids can"
                )
            return list(messages)
        whole = [
            message if body is None else message._replace(body=body, size=len(body))
            for message, body in zip(messages, bodies, strict=True)
        ]
        self.unread += sum(not self._can_tell(message, at_ms) for message in whole)
        return whole


def _as_searched(edit: Edit) -> RawMessage:
    message = edit.before or edit.after
    if message is None:
        raise ValueError("an edit of nothing")
    # The receive count of an item is the token of its lease.
    return message if read_item_id(message.id) is None else message._replace(rc=None, fr=None)
