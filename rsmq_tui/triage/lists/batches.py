"""Batches of list queues: their rows in the journal, and their inverse, in parts that one call can do."""

import asyncio
import json
from collections import Counter, deque
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import asdict, replace
from typing import Any

from rsmq_tui.protocol.editing import EditExecutor
from rsmq_tui.protocol.lists.editor import ListEditor
from rsmq_tui.protocol.lists.edits import ListBatch, ListKind, Window
from rsmq_tui.protocol.lists.naming import Area, ListNames, area_of, digest_of, item_digest
from rsmq_tui.protocol.outcomes import Outcome
from rsmq_tui.protocol.rsmq.editor import RsmqEditor
from rsmq_tui.protocol.rsmq.edits import Edit
from rsmq_tui.triage.change import Entry, Step
from rsmq_tui.triage.journal.batches import DamageError, edits_of, name_for_row, name_from_row, packed_edits
from rsmq_tui.triage.lists.select import EVERYWHERE, PUT_BACK, AreaReader, IndexRange, ItemFinder
from rsmq_tui.triage.rsmq.batches import bodies_now, exists
from rsmq_tui.triage.undo.inverse import BatchUndo


def row_of(batch: ListBatch) -> dict[str, object]:
    """Return the columns of a batch, other than kind and queue."""
    fields = {"names": asdict(batch.names), "ns": batch.ns, "target_ns": batch.target_ns, "first": batch.first}
    # The journal keeps bodies only of items that are removed from the server.
    edits = packed_edits(batch.edits, bodies=batch.takes_away)
    return {"target": name_for_row(batch.target), "sent": batch.sent, "lists": json.dumps(fields), "edits": edits}


def batch_of(row: Mapping[str, Any], queue: str) -> ListBatch:
    """Return the batch of a row; an invalid row raises ``DamageError``, or any error of decoding."""
    fields = json.loads(row["lists"])
    names = ListNames(**fields["names"])
    ns, target_ns = fields["ns"], fields["target_ns"]
    if not all(isinstance(text, str) for text in (*asdict(names).values(), *filter(None, (ns, target_ns)))):
        raise DamageError("the names of its keys are invalid")
    is_first = fields.get("first", False)
    if not isinstance(is_first, bool):
        raise DamageError("the end to which its items go is invalid")
    return ListBatch(
        ListKind(row["kind"]),
        queue,
        tuple(edits_of(row["edits"])),
        names,
        target=None if row["target"] is None else name_from_row(row["target"]),
        ns=ns,
        target_ns=target_ns,
        sent=int(row["sent"]),
        first=is_first,
    )


# Where items are: the names of the keys, the queue, and whether they are in it or in processing.
_Where = tuple[ListNames, str, Area]
# How many bytes the items that are searched by their bodies may have in memory, what each takes besides its bytes, and
# how often a list is read that changes too fast to read all of it.
_SEARCHED_BYTES = 200_000_000
_ITEM_WEIGHT = 300
_SEARCHES = 3


def _where(inverse: ListBatch) -> _Where:
    return inverse.names, inverse.queue, area_of(inverse.befores[0].id)


class ListUndo(BatchUndo):
    """Undoes the batches of one change of list queues, from the last to the first."""

    note = PUT_BACK

    # Where the batch was that was undone before: the items of the next one are beside it.
    _beside: IndexRange | None = None
    # The items of the change that were found, by the list where it left them and their hashes; None if too large.
    _found: Mapping[_Where, Mapping[bytes, bytes]] | None = None
    _is_searched = False

    def is_unsettled(self, entry: Entry) -> bool:
        """Return True also for items that may have come to a list."""
        comes = isinstance(entry.batch, ListBatch) and entry.batch.puts_in_list
        return super().is_unsettled(entry) or (entry.unsure and comes)

    async def bodies(self, editor: EditExecutor, entry: Entry, outcome: str) -> list[bytes | None] | None:
        """Read the bodies of items, or of messages in an RSMQ queue, where the change has left them.

        An item is found by the hash of its bytes, which the journal has: for the first batch, each list with items of
        the change is read once.
        """
        inverse = entry.batch.inverse(outcome) if isinstance(entry.batch, ListBatch) else None
        if inverse is None:
            return None
        if inverse.ns is not None:
            return await bodies_now(editor, inverse.queue, inverse.befores, inverse.ns)
        if not self._is_searched:
            self._found = await self._search(editor)
            self._is_searched = True
        if self._found is None:
            return None
        found = self._found[_where(inverse)]
        return [found.get(digest_of(before.id)) for before in inverse.befores]

    async def _search(self, editor: EditExecutor) -> Mapping[_Where, Mapping[bytes, bytes]] | None:
        wanted = await asyncio.to_thread(self._wanted)
        if wanted is None:
            return None
        found: dict[_Where, dict[bytes, bytes]] = {}
        for (names, queue, area), digests in wanted.items():
            reader = AreaReader(ListEditor.beside(editor, names), queue, area)
            bodies = found[names, queue, area] = {}
            for _ in range(_SEARCHES):
                reader.has_gaps = False
                async with aclosing(reader.sightings(digests, [IndexRange(0, EVERYWHERE)])) as seen:
                    async for _, items in seen:
                        bodies |= {item_digest(item.body): item.body for item in items}
                if not reader.has_gaps:
                    break
        return found

    def _wanted(self) -> dict[_Where, Counter[bytes]] | None:
        """Return by list the hashes of the items that the change has left there, each once; None if too large."""
        wanted: dict[_Where, Counter[bytes]] = {}
        weight = 0
        for entry in self.journal.entries(self.change):
            batch = entry.batch
            inverse = batch.inverse(entry.outcome) if isinstance(batch, ListBatch) and entry.outcome else None
            if inverse is None or inverse.ns is not None or not inverse.takes_from_list:
                continue
            digests = wanted.setdefault(_where(inverse), Counter())
            for before in inverse.befores:
                digest = digest_of(before.id)
                if not digests[digest]:
                    digests[digest] = 1
                    weight += before.size + _ITEM_WEIGHT
            if weight > _SEARCHED_BYTES:
                return None
        return wanted

    async def missing(self, editor: EditExecutor, entry: Entry) -> str | None:
        """Return the RSMQ queue to which messages go, if it does not exist."""
        left = await self.left(entry)
        inverse = entry.batch.inverse(left) if isinstance(entry.batch, ListBatch) and left else None
        if inverse is None or inverse.kind not in (ListKind.PUT, ListKind.MOVE):
            return None
        queue, ns = inverse.destination
        return None if ns is None or await exists(editor, queue, ns) else queue

    async def steps(self, editor: EditExecutor, entry: Entry) -> AsyncGenerator[Step, None]:
        """Yield the inverse of what is left of a batch."""
        batch = entry.batch
        if not isinstance(batch, ListBatch) or not entry.outcome:
            return
        left = await self.left(entry)
        inverse = batch.inverse(left)
        if inverse is None:
            return
        lists = ListEditor.beside(editor, inverse.names)
        # Earlier batches must be done first, since the list is read once for all parts of this one.
        yield Step(alone=True)
        if inverse.takes_from_list:
            async for step in self._from_list(lists, inverse, was_first=batch.first):
                yield step
        elif inverse.kind is ListKind.REMOVE:
            yield await _from_rsmq(lists, inverse)
        else:
            yield Step(inverse)

    async def _from_list(self, lists: ListEditor, inverse: ListBatch, *, was_first: bool) -> AsyncGenerator[Step, None]:
        """Yield the removal of items from a list: any with the same values, as many as were put there."""
        area: Area = area_of(inverse.befores[0].id)
        meant: dict[bytes, deque[Edit]] = {}
        for edit in inverse.edits:
            if edit.before is not None:
                meant.setdefault(digest_of(edit.before.id), deque()).append(edit)

        async def make(bodies: list[bytes], window: Window) -> Step:
            self._beside = IndexRange(window.near, window.far)
            edits = []
            for body in bodies:
                before, after = meant[item_digest(body)].popleft()
                if before is not None:
                    edits.append(Edit(before._replace(body=body, size=len(body)), after))
            return Step(replace(inverse, edits=tuple(edits), window=window))

        def again(edit: Edit) -> None:
            if edit.before is not None:
                meant[digest_of(edit.before.id)].append(edit)

        wanted = Counter({digest: len(edits) for digest, edits in meant.items()})
        spans = [] if area == "p" else [await self._likely(lists, inverse, was_first=was_first)]
        finder = ItemFinder(lists, inverse.queue, area, wanted, spans, again=again, backwards=inverse.first)
        async for step in finder.passes(make):
            yield step

    async def _likely(self, lists: ListEditor, inverse: ListBatch, *, was_first: bool) -> IndexRange:
        """Return where the items probably are: beside those of the batch undone before, or at an end."""
        if self._beside is not None:
            near, far = self._beside
            return IndexRange(max(0, near - inverse.size), far + inverse.size)
        if not was_first:
            return IndexRange(0, inverse.size - 1)
        ready = (await lists.facts(inverse.queue)).ready
        return IndexRange(max(0, ready - inverse.size), max(0, ready - 1))


async def _from_rsmq(lists: ListEditor, inverse: ListBatch) -> Step:
    """Return the removal of messages from an RSMQ queue; their bodies are read, so that the undo can be undone."""
    queues = RsmqEditor.sharing(lists, inverse.ns or "")
    _, whole = await queues.messages(inverse.queue, [before.id for before in inverse.befores])
    step, edits = Step(), []
    for before, now in zip(inverse.befores, whole, strict=True):
        if now is None or now.body is None:
            step.excluded += Outcome.GONE
        else:
            edits.append(Edit(before._replace(body=now.body, size=now.size), None))
    if edits:
        step.batch = replace(inverse, edits=tuple(edits))
    return step
