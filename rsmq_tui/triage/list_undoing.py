"""Taking changes of list queues back: in parts that one call can do, and what was not taken back before."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace

from rsmq_tui.protocol.carrying import Carrier
from rsmq_tui.protocol.editor import QueueEditor
from rsmq_tui.protocol.edits import Edit, Outcome
from rsmq_tui.protocol.lists.editor import ListEditor
from rsmq_tui.protocol.lists.edits import EDGE, TAKEN_BACK, ListBatch, ListKind, sha_of, spot_of, told_by
from rsmq_tui.triage.changes import Entry
from rsmq_tui.triage.journal import Journal
from rsmq_tui.triage.list_batches import insertions
from rsmq_tui.triage.list_places import Mark, Marks, marks_of, shift_of
from rsmq_tui.triage.preparing import Prepared


async def prepare_inverse(
    editor: Carrier, journal: Journal, change: int, entry: Entry
) -> AsyncGenerator[Prepared, None]:
    """Prepare the way back of one batch of list queues, as far as it was not gone before."""
    batch = entry.batch
    if not isinstance(batch, ListBatch) or not entry.outcome:
        return
    left = await asyncio.to_thread(still_done, journal, change, entry)
    inverse = batch.inverse(left)
    if inverse is None:
        return
    lists = ListEditor.beside(editor, inverse.names)
    # Everything before must be there: what is found then holds for all of its parts.
    yield Prepared(alone=True)
    if inverse.kind is ListKind.REMOVE:
        yield await _removal(lists, inverse)
        return
    if inverse.ns is None and inverse.kind is ListKind.MOVE and not _is_processing(inverse.befores[0].id):
        inverse = replace(inverse, hint=await _source_shift(lists, inverse))
    places_at = _places_at(inverse)
    if places_at is None:
        yield Prepared(inverse)
        return
    shift = await _target_shift(lists, inverse, places_at)
    length = (await lists.facts(places_at)).ready
    coming = inverse.size
    last: Edit | None = None
    for part in insertions(inverse.edits, length, inverse.names.take_from):
        coming -= len(part)
        # Counted from the back, those of the parts to come are not there yet.
        is_from_back = spot_of(inverse.afters[0].id).position < 0
        edits = part if last is None else (_behind(last, part[0]), *part[1:])
        yield Prepared(replace(inverse, edits=edits, target_hint=shift + (coming if is_from_back else 0)))
        last = part[-1]


def _behind(last: Edit, edit: Edit) -> Edit:
    """Return an edit whose place is known by the one that was put before it, where they are neighbours."""
    if last.after is None or edit.after is None:
        return edit
    before, spot = spot_of(last.after.id), spot_of(edit.after.id)
    if spot.position != before.position + 1:
        return edit
    return edit._replace(after=edit.after._replace(fr=before.sha.encode()))


def still_done(journal: Journal, change: int, entry: Entry) -> str:
    """Return the outcome of a batch without what earlier, unfinished undoing has taken back."""
    if not isinstance(entry.batch, ListBatch) or not entry.outcome:
        return entry.outcome or ""
    inverse = entry.batch.inverse(entry.outcome)
    if inverse is None:
        return entry.outcome
    back = [
        _key(edit) for other, undo in journal.undos_of(change, entry.number) for edit in _done(journal, other, undo)
    ]
    places = [number for number, letter in enumerate(told_by(entry.outcome).letters) if letter == Outcome.DONE]
    letters, *shifts = entry.outcome.split("@")
    marks = list(letters)
    for place, edit in zip(places, inverse.edits, strict=True):
        if _key(edit) in back:
            back.remove(_key(edit))
            marks[place] = TAKEN_BACK
    return "@".join(["".join(marks), *shifts])


def _done(journal: Journal, change: int, entry: Entry) -> list[Edit]:
    batch = entry.batch
    if not isinstance(batch, ListBatch) or not entry.outcome:
        return []
    letters = told_by(still_done(journal, change, entry)).letters
    return [edit for edit, letter in zip(batch.edits, letters, strict=True) if letter == Outcome.DONE]


def _key(edit: Edit) -> tuple[bytes | None, bytes | None]:
    return edit.before and edit.before.id, edit.after and edit.after.id


def _is_processing(id: bytes) -> bool:
    return id.startswith(b"p:")


def _places_at(batch: ListBatch) -> str | None:
    """Return the list that items come back to, each to its place; None where there is no such."""
    if batch.kind is ListKind.LEASE or not batch.afters:
        return None
    queue, ns = (batch.queue, batch.ns) if batch.target is None else (batch.target, batch.target_ns)
    if ns is not None or _is_processing(batch.afters[0].id):
        return None
    return queue


async def _source_shift(editor: ListEditor, batch: ListBatch) -> int:
    spots = [spot_of(before.id) for before in batch.befores]
    return await shift_of(editor, batch.queue, marks_of(spots, [None] * len(spots)))


async def _target_shift(editor: ListEditor, batch: ListBatch, queue: str) -> int:
    """Find how far the places have shifted, by what lay before them."""
    marks = []
    for number, after in enumerate(batch.afters):
        if after.fr and after.fr != EDGE:
            # Of this batch, those with lower positions are not there yet.
            marks.append(Mark(spot_of(after.id).position - number - 1, after.fr.decode()))
    usable = [mark for mark in marks if mark.position >= 0]
    return await shift_of(editor, queue, Marks(usable, []), least=1)


async def _removal(editor: ListEditor, batch: ListBatch) -> Prepared:
    """Prepare taking away what was put there; its bytes are read, so that this can be taken back as well."""
    befores = batch.befores
    prepared = Prepared()
    found = []
    if batch.ns is not None:
        _, whole = await QueueEditor.beside(editor, batch.ns).messages(batch.queue, [before.id for before in befores])
        for before, now in zip(befores, whole, strict=True):
            if now is None or now.body is None:
                prepared.sorted_out += Outcome.GONE
            else:
                found.append(before._replace(body=now.body, size=now.size))
    else:
        spots = [spot_of(before.id) for before in befores]
        area = spots[0].area
        facts = await editor.facts(batch.queue)
        shift = 0 if area == "p" else await shift_of(editor, batch.queue, marks_of(spots, [None] * len(spots)))
        at = [spot.position + shift + (facts.ready if spot.position < 0 else 0) for spot in spots]
        there = [place for place in at if place >= 0]
        read = dict(zip(there, await editor.items_at(batch.queue, area, there), strict=True))
        for before, spot, place in zip(befores, spots, at, strict=True):
            body = read.get(place)
            if body is None or sha_of(body) != spot.sha:
                prepared.sorted_out += Outcome.GONE
            else:
                found.append(before._replace(body=body, size=len(body)))
        batch = replace(batch, hint=shift)
    if found:
        prepared.batch = replace(batch, edits=tuple(Edit(before, None) for before in found))
    return prepared
