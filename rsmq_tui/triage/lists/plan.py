"""From an action on a list queue to batches of guarded edits."""

from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace

from rsmq_tui.protocol import RawMessage
from rsmq_tui.protocol.keys import random_suffix
from rsmq_tui.protocol.lists.editor import ListEditor
from rsmq_tui.protocol.lists.edits import ListBatch, ListKind, Window, list_item
from rsmq_tui.protocol.lists.naming import (
    READY_SCORE,
    UNKNOWN_LEASE_SCORE,
    UNLEASED_SCORE,
    digest_of,
    item_digest,
    position_of,
    value_id,
)
from rsmq_tui.protocol.rsmq.edits import Edit, Outcome
from rsmq_tui.protocol.rsmq.operations import chunked
from rsmq_tui.triage import actions
from rsmq_tui.triage.change import Step
from rsmq_tui.triage.jsonl import read_file
from rsmq_tui.triage.lists import select
from rsmq_tui.triage.lists.select import Finding, ListSelection, spans_of
from rsmq_tui.triage.lists.transfer import NO_BODY, Outgoing
from rsmq_tui.triage.scope import Preview

_NONE = (READY_SCORE, UNLEASED_SCORE)


class Leases:
    """Assigns the leases of a queue to items in processing; ``known`` has (token, deadline) pairs by bytes of items."""

    def __init__(self, known: dict[bytes, list[tuple[bytes, bytes]]]) -> None:
        self._left = {item: list(leases) for item, leases in known.items()}

    def take(self, item: RawMessage) -> RawMessage | None:
        """Return an item with its lease, or None if the lease that was seen no longer exists."""
        left = self._left.get(item.body or b"", [])
        if item.score in _NONE:
            return item._replace(rc=None, score=READY_SCORE)
        for number, (token, deadline) in enumerate(left):
            if item.score == UNKNOWN_LEASE_SCORE or float(deadline) == float(item.score):
                del left[number]
                return item._replace(rc=token, score=deadline)
        return item._replace(rc=None, score=READY_SCORE) if item.score == UNKNOWN_LEASE_SCORE else None

    def put_back(self, item: RawMessage) -> None:
        """Make an item's lease available again."""
        if item.rc is not None:
            self._left.setdefault(item.body or b"", []).append((item.rc, item.score))


# Adds the batch for items, in the order in which they are taken, to a step; the window says where they are.
_Change = Callable[[list[RawMessage], Step, Window], Awaitable[None]]


async def prepare_lists(editor: ListEditor, ns: str, preview: Preview) -> AsyncGenerator[Step, None]:
    """Yield the batches of a change; ``ns`` is the default namespace of RSMQ targets. Raises what editors raise."""
    action, selection = preview.action, preview.selection
    preparing = _Preparing(editor, action.queue)
    match action:
        case actions.Send(bodies=bodies):
            for prepared in preparing.sent(bodies, first=isinstance(action, actions.Push) and action.first):
                yield prepared
        case actions.Import(path=path):
            for prepared in preparing.sent(message.body for message in read_file(path, preview.file)):
                yield prepared
    if not isinstance(selection, ListSelection):
        return
    match action:
        case actions.Hide(seconds=seconds):
            steps = preparing.hidden(selection, seconds)
        case actions.Requeue() | actions.Release():
            steps = preparing.requeued(selection, first=not (isinstance(action, actions.Requeue) and action.to_back))
        case actions.Copy() | actions.Move():
            steps = preparing.moved(selection, action, actions.target_of_list(action.target, ns))
        case actions.Delete() | actions.Purge() | actions.Pop() | actions.Trim() | actions.Ack():
            newest = action.keep if isinstance(action, actions.Trim) and not action.keep_oldest else 0
            steps = preparing.removed(selection, spared=newest)
        case _:
            raise TypeError(f"not prepared here: {action}")
    async with aclosing(steps) as prepared_steps:
        async for prepared in prepared_steps:
            yield prepared


class _Preparing:
    """Prepares the changes of one queue."""

    def __init__(self, editor: ListEditor, queue: str) -> None:
        self._editor = editor
        self._queue = queue

    def sent(self, bodies: Iterable[bytes | None], *, first: bool = False) -> Iterator[Step]:
        """Push items at one end."""
        whole = Step()

        def present() -> Iterator[bytes]:
            for body in bodies:
                if body is None:
                    whole.failed[NO_BODY] += 1
                else:
                    yield body

        found: Iterable[list[bytes]] = chunked(present(), select.MAX_ITEMS, len, select.MAX_BYTES)
        # The item to be taken first is pushed last.
        for part in reversed(list(found)) if first else found:
            edits = tuple(Edit(None, list_item(body)) for body in part)
            yield Step(ListBatch(ListKind.PUT, self._queue, edits, self._editor.names, first=first))
        if whole.failed:
            yield whole

    async def removed(self, selection: ListSelection, *, spared: int = 0) -> AsyncGenerator[Step, None]:
        """Remove items, but not the ``spared`` ones that were pushed last."""

        async def remove(items: list[RawMessage], prepared: Step, window: Window) -> None:
            prepared.batch = self._batch(ListKind.REMOVE, [Edit(item, None) for item in items], window)

        async for prepared in self._queued(selection, remove, spared=spared):
            yield prepared
        async for prepared in self._in_processing(selection, remove):
            yield prepared

    async def requeued(self, selection: ListSelection, *, first: bool) -> AsyncGenerator[Step, None]:
        """Put items in processing back; with ``first`` the newest first, so that the oldest is taken next."""

        async def requeue(items: list[RawMessage], prepared: Step, window: Window) -> None:
            edits = [Edit(item, list_item(item.body or b"")) for item in items]
            prepared.batch = replace(self._batch(ListKind.MOVE, edits, window), first=first)

        async for prepared in self._in_processing(selection, requeue, backwards=first):
            yield prepared

    async def hidden(self, selection: ListSelection, seconds: int) -> AsyncGenerator[Step, None]:
        """Give items in processing a lease that ends in that many seconds."""

        async def lease(items: list[RawMessage], prepared: Step, window: Window) -> None:
            until = b"%d" % (await self._editor.clock_us() // 1000 + seconds * 1000)
            edits = [Edit(item, item._replace(score=until, rc=item.rc or random_suffix())) for item in items]
            prepared.batch = self._batch(ListKind.LEASE, edits, window)

        async for prepared in self._in_processing(selection, lease):
            yield prepared

    async def moved(
        self, selection: ListSelection, action: actions.Move, to: actions.Target
    ) -> AsyncGenerator[Step, None]:
        """Move or copy items, in order, to the end of the target that is taken last."""
        outgoing = Outgoing(self._editor, to)

        async def move(items: list[RawMessage], prepared: Step, window: Window) -> None:
            fitting = await outgoing.fitting(items, prepared)
            afters = await outgoing.afters(fitting)
            if not fitting:
                return
            if isinstance(action, actions.Copy):
                prepared.batch = outgoing.puts(afters)
                return
            batch = self._batch(ListKind.MOVE, list(map(Edit, fitting, afters)), window)
            prepared.batch = replace(batch, target=to.queue, target_ns=to.ns, sent=0 if to.ns is None else 1)

        async for prepared in self._queued(selection, move):
            yield prepared
        async for prepared in self._in_processing(selection, move):
            yield prepared

    async def _queued(
        self, selection: ListSelection, change: _Change, *, spared: int = 0
    ) -> AsyncGenerator[Step, None]:
        """Yield the changes of the selected items in the queue."""
        if not selection.counts["q"]:
            return
        wanted = Counter(digest_of(item.id) for item in selection.items("q"))
        _, newest = await self._editor.newest(self._queue)
        is_still = not newest or newest == selection.newest
        spans = spans_of((position_of(item.id) for item in selection.items("q")), selection.ready, is_still=is_still)

        async def make(bodies: list[bytes], window: Window) -> Step:
            prepared = Step()
            await change(list(map(list_item, bodies)), prepared, window)
            return prepared

        finding = Finding(self._editor, self._queue, "q", wanted, spans, spared=spared)
        async for prepared in finding.passes(make):
            yield prepared

    async def _in_processing(
        self, selection: ListSelection, change: _Change, *, backwards: bool = False
    ) -> AsyncGenerator[Step, None]:
        """Yield the changes of the selected items in processing, with their current leases."""
        if not selection.counts["p"]:
            return
        leases = Leases(await self._editor.leases(self._queue))
        selected: dict[bytes, deque[RawMessage]] = {}
        for item in selection.items("p"):
            selected.setdefault(digest_of(item.id), deque()).append(item._replace(body=None))

        async def make(bodies: list[bytes], window: Window) -> Step:
            prepared, found = Step(), []
            for body in bodies:
                item = selected[item_digest(body)].popleft()._replace(id=value_id("p", body), body=body, fr=None)
                leased = leases.take(item._replace(size=len(body)))
                if leased is None:
                    prepared.sorted_out += Outcome.CHANGED
                else:
                    found.append(leased)
            if found:
                await change(found, prepared, window)
            return prepared

        def again(edit: Edit) -> None:
            if edit.before is not None:
                leases.put_back(edit.before)
                selected[digest_of(edit.before.id)].append(edit.before._replace(body=None))

        wanted = Counter({digest: len(items) for digest, items in selected.items()})
        finding = Finding(self._editor, self._queue, "p", wanted, again=again, backwards=backwards)
        async for prepared in finding.passes(make):
            yield prepared

    def _batch(self, kind: ListKind, edits: Sequence[Edit], window: Window) -> ListBatch:
        return ListBatch(kind, self._queue, tuple(edits), self._editor.names, window=window)
