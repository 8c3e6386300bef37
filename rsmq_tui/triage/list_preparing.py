"""From what people asked of a list queue to the batches that the server is asked for."""

from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from itertools import chain
from typing import Literal

from rsmq_tui.protocol import RawMessage
from rsmq_tui.protocol.edits import Edit, Outcome
from rsmq_tui.protocol.ids import random_suffix
from rsmq_tui.protocol.lists.editor import ListEditor
from rsmq_tui.protocol.lists.edits import ListBatch, ListKind, Spot, list_item, sha_of, spot_of
from rsmq_tui.triage.actions import Copy, Delete, Hide, Import, Move, Purge, Release, Send
from rsmq_tui.triage.list_actions import Ack, Pop, Push, Requeue, Target, Trim, target_of_list
from rsmq_tui.triage.list_batches import pushes, removals
from rsmq_tui.triage.list_leases import Leases
from rsmq_tui.triage.list_places import marks_of, shift_of
from rsmq_tui.triage.list_selection import ListSelection
from rsmq_tui.triage.mixed import Outgoing
from rsmq_tui.triage.preparing import Prepared
from rsmq_tui.triage.previews import Preview
from rsmq_tui.triage.transfer import read_file

NO_BODY = "it has no body"
# What is in processing is looked for this far from where it was, so much at once.
_NEAR_ITEMS = 250
_READ_BYTES = 1_000_000


async def prepare_lists(editor: ListEditor, ns: str, preview: Preview) -> AsyncGenerator[Prepared, None]:
    """Prepare a change of a list queue; ``ns`` is what targets of RSMQ are in that say none. Raises what editors do."""
    action, selection = preview.action, preview.selection
    preparing = _Preparing(editor, action.queue)
    match action:
        case Send(bodies=bodies):
            is_first = isinstance(action, Push) and action.first
            for prepared in preparing.sent([list_item(0, body) for body in bodies], is_first=is_first):
                yield prepared
        case Import(path=path):
            for prepared in preparing.sent(read_file(path, preview.file)):
                yield prepared
    if not isinstance(selection, ListSelection):
        return
    match action:
        case Hide(seconds=seconds):
            parts = preparing.hidden(selection, seconds)
        case Requeue() | Release():
            parts = preparing.requeued(selection, to_back=isinstance(action, Requeue) and action.to_back)
        case Copy() | Move():
            parts = preparing.moved(selection, action, target_of_list(action.target, ns))
        case Delete() | Purge() | Pop() | Trim() | Ack():
            newest = action.keep if isinstance(action, Trim) and not action.keep_oldest else 0
            parts = preparing.removed(selection, keep=newest)
        case _:
            raise TypeError(f"not prepared here: {action}")
    async for prepared in parts:
        yield prepared


class _Preparing:
    """Prepares the changes of one queue, and remembers how far its items are known to have shifted."""

    def __init__(self, editor: ListEditor, queue: str) -> None:
        self._editor = editor
        self._queue = queue
        self._shift = 0
        # The same of processing, where items only go: how far down, and how many this change takes from its front.
        self._lag = self._went = 0

    def sent(self, items: Iterable[RawMessage], *, is_first: bool = False) -> Iterator[Prepared]:
        """Put items at an end."""
        whole = Prepared()

        def with_bodies() -> Iterator[RawMessage]:
            for item in items:
                if item.body is None:
                    whole.failed[NO_BODY] += 1
                else:
                    yield item

        parts: Iterable[list[RawMessage]] = pushes(with_bodies())
        # The first of all is to be the first: it is sent last.
        for part in reversed(list(parts)) if is_first else parts:
            yield Prepared(self._put(part, is_first=is_first))
        if whole.failed:
            yield whole

    async def removed(self, selection: ListSelection, *, keep: int = 0) -> AsyncGenerator[Prepared, None]:
        """Take items away; from the back on, so that those that are left stay where they are: the last ``keep`` do."""
        length = (await self._editor.facts(self._queue)).ready
        for part in removals(selection.items("q", from_back=True), length):
            prepared, items = await self._found(part)
            if keep:
                # Where consumers have taken some, others with the same bytes lie where those were.
                stop = (await self._editor.facts(self._queue)).ready - keep
                meant = [item for item in items if spot_of(item.id).position < stop]
                prepared.sorted_out += Outcome.GONE * (len(items) - len(meant))
                items = meant
            edits = tuple(Edit(item, None) for item in await self._with_witnesses(items))
            if edits:
                prepared.batch = self._batch(ListKind.REMOVE, edits)
            yield prepared
        async for prepared, items in self._in_processing(selection, from_back=True):
            if items:
                prepared.batch = self._batch(ListKind.REMOVE, tuple(Edit(item, None) for item in items))
            yield prepared

    async def requeued(self, selection: ListSelection, *, to_back: bool) -> AsyncGenerator[Prepared, None]:
        """Put what is in processing back; to the front the newest first, so that the oldest is taken next."""
        async for prepared, items in self._in_processing(selection, from_back=not to_back):
            if items:
                after = self._put(items, is_first=not to_back).afters
                edits = tuple(map(Edit, items, after))
                prepared.batch = self._batch(ListKind.MOVE, edits)
            yield prepared
            self._went += len(items)

    async def hidden(self, selection: ListSelection, seconds: int) -> AsyncGenerator[Prepared, None]:
        """Give what is in processing a lease until then."""
        async for prepared, items in self._in_processing(selection):
            until = b"%d" % (await self._editor.clock_us() // 1000 + seconds * 1000)
            edits = tuple(Edit(item, item._replace(score=until, rc=item.rc or random_suffix())) for item in items)
            if edits:
                prepared.batch = self._batch(ListKind.LEASE, edits)
            yield prepared

    async def moved(self, selection: ListSelection, action: Move, to: Target) -> AsyncGenerator[Prepared, None]:
        """Move or copy items to where they are taken last, in order: each part when the one before is there."""
        outgoing = Outgoing(self._editor, to)
        takes = not isinstance(action, Copy)
        length = (await self._editor.facts(self._queue)).ready
        async for prepared, items in self._all_in_order(selection, length):
            fitting = await outgoing.fitting(items, prepared)
            afters = await outgoing.afters(fitting)
            if fitting and takes:
                edits = tuple(map(Edit, await self._with_witnesses(fitting), afters))
                names, sent = self._editor.names, 0 if to.ns is None else 1
                prepared.batch = ListBatch(
                    ListKind.MOVE, self._queue, edits, names, to.queue, target_ns=to.ns, sent=sent
                )
            elif fitting:
                prepared.batch = outgoing.puts(afters)
            prepared.alone = takes
            yield prepared
            if takes:
                queued = sum(item.id.startswith(b"q") for item in fitting)
                self._shift -= queued
                self._went += len(fitting) - queued

    async def _all_in_order(
        self, selection: ListSelection, length: int
    ) -> AsyncGenerator[tuple[Prepared, list[RawMessage]], None]:
        for part in removals(selection.items("q"), length):
            yield await self._found(part)
        async for prepared, items in self._in_processing(selection):
            yield prepared, items

    async def _found(self, part: Sequence[RawMessage]) -> tuple[Prepared, list[RawMessage]]:
        """Find where items are now, and read those whose bytes are not known."""
        spots = [spot_of(item.id) for item in part]
        size = sum(item.size for item in part) // len(part)
        marks = marks_of(spots, [item.fr for item in part])
        self._shift = await shift_of(self._editor, self._queue, marks, guess=self._shift, size=size)
        prepared, found = Prepared(), []
        places = [spot.position + self._shift for spot in spots]
        unread = [place for place, item in zip(places, part, strict=True) if item.body is None and place >= 0]
        read = dict(zip(unread, await self._editor.items_at(self._queue, "q", unread), strict=True))
        for spot, item, place in zip(spots, part, places, strict=True):
            body = read.get(place) if item.body is None else item.body
            if place < 0 or body is None or (item.body is None and sha_of(body) != spot.sha):
                prepared.sorted_out += Outcome.GONE
                continue
            id = spot._replace(position=place).id
            found.append(RawMessage(id, item.score, None, item.fr, len(body), body))
        return prepared, found

    async def _with_witnesses(self, items: Sequence[RawMessage]) -> list[RawMessage]:
        """Add what lies before each run of them, by which their places are found again."""
        if not items or items[0].id.startswith(b"p"):
            return list(items)
        places = [spot_of(item.id).position for item in items]
        own = set(places)
        starts = [n for n, item in enumerate(items) if places[n] - 1 not in own and item.fr is None]
        shas = await self._editor.shas_before(self._queue, [places[number] for number in starts])
        known = dict(zip(starts, shas, strict=True))
        return [item._replace(fr=known.get(number) or item.fr) for number, item in enumerate(items)]

    async def _in_processing(
        self, selection: ListSelection, *, from_back: bool = False
    ) -> AsyncGenerator[tuple[Prepared, list[RawMessage]], None]:
        """Walk through what is in processing, with the leases that it has now."""
        if not selection.counts["p"]:
            return
        leases = Leases(await self._editor.leases(self._queue))
        for part in pushes(selection.items("p", from_back=from_back)):
            prepared, found = Prepared(), []
            read = await self._read_in_processing([item for item in part if item.body is None], from_back=from_back)
            for item in sorted(part, key=lambda item: spot_of(item.id).position):
                spot = spot_of(item.id)
                body = read.get(spot.position) if item.body is None else item.body
                if body is None or sha_of(body) != spot.sha:
                    prepared.sorted_out += Outcome.GONE
                    continue
                leased = leases.take(item._replace(body=body, size=len(body), fr=None))
                if leased is None:
                    prepared.sorted_out += Outcome.CHANGED
                else:
                    # By then, those before it that this change takes are gone.
                    place = spot.position if from_back else max(0, spot.position - self._went)
                    found.append(leased._replace(id=spot._replace(position=place).id))
            yield prepared, found

    async def _read_in_processing(self, unread: Sequence[RawMessage], *, from_back: bool) -> dict[int, bytes | None]:
        """Read items, by where they were seen: those that went before, by this change or others, shift them."""
        read: dict[int, bytes | None] = {}
        # Those further back have shifted as far, or further.
        lag = 0 if from_back else self._lag
        rest = sorted(spot_of(item.id) for item in unread)
        step = max(1, _READ_BYTES // max(chain([1], (item.size for item in unread))))
        while rest:
            there = [spot for spot in rest if spot.position >= lag]
            items = await self._editor.items_at(self._queue, "p", [spot.position - lag for spot in there])
            known = {spot: item for spot, item in zip(there, items, strict=True) if _is(item, spot)}
            read |= {spot.position: item for spot, item in known.items()}
            rest = [spot for spot in rest if spot not in known]
            if rest:
                further = await self._lag_of(rest[0], lag + 1, step)
                if further is None:
                    del rest[0]
                else:
                    lag = further
        self._lag = lag
        return read

    async def _lag_of(self, spot: Spot, lag: int, step: int) -> int | None:
        """Return how far an item in processing has shifted, if by that or more; None where it is not found."""
        most = min(spot.position, lag + self._went + _NEAR_ITEMS)
        while lag <= most:
            lags = range(lag, min(lag + step, most + 1))
            items = await self._editor.items_at(self._queue, "p", [spot.position - lag for lag in lags])
            for found, item in zip(lags, items, strict=True):
                if _is(item, spot):
                    return found
            lag += step
        return None

    def _put(self, items: Sequence[RawMessage], *, is_first: bool) -> ListBatch:
        start: Literal[0] | int = 0 if is_first else -len(items)
        afters = [list_item(start + number, item.body or b"") for number, item in enumerate(items)]
        return self._batch(ListKind.PUT, tuple(Edit(None, after) for after in afters))

    def _batch(self, kind: ListKind, edits: tuple[Edit, ...]) -> ListBatch:
        return ListBatch(kind, self._queue, edits, self._editor.names)


def _is(item: bytes | None, spot: Spot) -> bool:
    return item is not None and sha_of(item) == spot.sha
