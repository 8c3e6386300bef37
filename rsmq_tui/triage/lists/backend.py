"""The backend of list queues: preview, batches and export."""

from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from itertools import islice
from operator import attrgetter

from rsmq_tui.monitor.filters.json_paths import JsonPath
from rsmq_tui.monitor.filters.language import Filter
from rsmq_tui.monitor.filters.search import INCOMPLETE, SearchProgress
from rsmq_tui.monitor.list_poller import search_lists
from rsmq_tui.monitor.messages.peek import MessageState
from rsmq_tui.monitor.text import plural, printable
from rsmq_tui.protocol import Address, RawMessage, RsmqError
from rsmq_tui.protocol.editing import EditExecutor
from rsmq_tui.protocol.keys import random_suffix
from rsmq_tui.protocol.lists.editor import ListEditor, ListFacts
from rsmq_tui.protocol.lists.edits import ListBatch, ListKind, Window, list_item
from rsmq_tui.protocol.lists.naming import (
    READY_SCORE,
    UNKNOWN_LEASE_SCORE,
    UNLEASED_SCORE,
    Area,
    ListNames,
    digest_of,
    item_digest,
    position_of,
    value_id,
)
from rsmq_tui.protocol.lists.reader import ListReader
from rsmq_tui.protocol.outcomes import Outcome
from rsmq_tui.protocol.rsmq.editor import RsmqEditor
from rsmq_tui.protocol.rsmq.edits import Edit
from rsmq_tui.protocol.rsmq.operations import chunked
from rsmq_tui.triage import actions
from rsmq_tui.triage.change import Step
from rsmq_tui.triage.errors import NO_LIST, NoListError, TriageError
from rsmq_tui.triage.export import Exporting
from rsmq_tui.triage.journal.journal import Journal
from rsmq_tui.triage.jsonl import read_file
from rsmq_tui.triage.lists import select
from rsmq_tui.triage.lists.select import (
    EVERYWHERE,
    HOLD_MAX_MS,
    PUT_BACK,
    AreaReader,
    EligibleItems,
    IndexRange,
    ItemFinder,
    ListSelection,
    Search,
    select_items,
    spans_of,
    walk_ms,
)
from rsmq_tui.triage.lists.transfer import NO_BODY, TransferTarget, refuse_other_slots, refuse_unreadable
from rsmq_tui.triage.scope import (
    BODIES_SHOWN,
    Everything,
    Preview,
    ScanCallback,
    ScanProgress,
    Scope,
    check_room,
    preview_of_sending,
    starts_of,
    what_of,
)
from rsmq_tui.triage.service import Backend

_REFUSED: dict[type[actions.Action], str] = {
    actions.CreateQueue: "a list queue is created by its first item",
    actions.SetAttributes: "a list queue has no attributes",
    actions.DeleteQueue: "a list queue exists only while it has items: purge it",
    actions.Redrive: "items of a list do not record their source queue: move them to a named queue",
    actions.Fix: "list queues have no automatic fixes",
}
# The names of these actions for items of a list, which are not made visible or invisible.
_IN_LISTS: dict[type[actions.Action], type[actions.Action]] = {
    actions.Hide: actions.ExtendLease,
    actions.Release: actions.ReleaseItems,
}
STILL_THERE = (
    "Items are identified by their bytes; among equal items, any may be changed, as many as were counted. Items that "
    "consumers take meanwhile are skipped and counted."
)
_AREAS: tuple[Area, ...] = ("q", "p")
# How many items and bytes of bodies may be in memory at once.
_PART_ITEMS, _PART_BYTES = 2_000, 4_000_000
_SLACK_ITEMS = 1_000


class ListBackend(Backend):
    """The changes of list queues of a server; raises ValueError for an invalid URL."""

    def __init__(
        self,
        server: Address | str,
        names: ListNames,
        ns: str,
        patterns: Sequence[str] = (),
        age: JsonPath | None = None,
    ) -> None:
        self._age = age
        self._server, self._names, self._ns, self._patterns = server, names, ns, patterns
        self._editor = ListEditor(server, names)
        self._opened: ListReader | None = None

    @property
    def editor(self) -> EditExecutor:
        """The executor of its edits."""
        return self._editor

    async def preview(self, base: Preview, journal: Journal, scope: Scope | None, on_progress: ScanCallback) -> Preview:
        """Return ``base``, completed with what its action would do."""
        action = _in_list(base.action, self._ns)
        base = replace(base, action=action)
        editor = self._editor.at(action.queue)
        _check(editor, action)
        facts = await editor.facts(action.queue)
        eligible, what = _selectable(action, scope)
        base = replace(base, what=printable(what), at_ms=await editor.clock_us() // 1000)
        if not isinstance(action, actions.MessageAction):
            return await _of_sending(base, action, facts, on_progress)
        # A list that is watched by its key is a queue even while it is empty.
        if not facts.depth and action.queue not in self._patterns:
            raise NoListError(NO_LIST)
        notes = [*await _target_notes(editor, action, self._ns), STILL_THERE]
        scope = scope if action.is_scoped else None
        selection = ListSelection()
        try:
            found = await select_items(
                editor, self._search, action.queue, scope, selection, eligible=eligible, on_progress=on_progress
            )
            check_room(journal.limit_bytes, action, selection)
        except BaseException:
            selection.close()
            raise
        if found.is_incomplete:
            notes.append(f"{INCOMPLETE[0].upper()}{INCOMPLETE[1:]}.")
        if found.not_meant:
            notes.append(_not_meant(action, found.not_meant))
        leased, unleased = (selection.states[each] for each in (MessageState.IN_FLIGHT, MessageState.UNLEASED))
        if isinstance(action, actions.Requeue | actions.Release) and leased + unleased:
            who = "Running leases end: a consumer" if leased else "A consumer"
            notes.append(f"{who} may still finish such an item, which is then processed twice.")
        if not isinstance(action, actions.Copy) and selection.counts["q"]:
            if not isinstance(action, actions.Hide):
                notes.append(PUT_BACK)
            notes += _cost_notes(selection, facts)
        return replace(
            base,
            at_ms=selection.at_ms or base.at_ms,
            count=selection.count,
            selection=selection,
            elsewhere=found.elsewhere,
            unsearched=found.unsearched,
            notes=tuple(notes),
            bodies=starts_of(item.body for item in islice(selection, BODIES_SHOWN)),
        )

    def prepare(self, editor: EditExecutor, journal: Journal, preview: Preview) -> AsyncGenerator[Step, None]:
        """Yield the batches of a previewed change."""
        return prepare_lists(self._editor.at(preview.action.queue), self._ns, preview)

    def export(self, queue: str, scope: Scope | None, write: Callable[[str], object]) -> Exporting:
        """Return an export that passes the items of a scope to ``write``."""
        return ListExport(self._editor.at(queue), self._search, queue, scope, write)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._editor.aclose()
        if self._opened is not None:
            await self._opened.aclose()

    def _search(self, queue: str, wanted: Filter) -> AsyncGenerator[SearchProgress, None]:
        if self._opened is None:
            self._opened = ListReader(self._server, self._names, self._patterns)
        return search_lists(self._opened, queue, wanted, age=self._age)


def _in_list(action: actions.Action, ns: str) -> actions.Action:
    """Return the action as it is named for lists; ``ns`` is the default namespace of an RSMQ target."""
    if (kind := _IN_LISTS.get(type(action))) is not None:
        return kind(**vars(action))
    if isinstance(action, actions.Move) and (to := actions.target_of_list(action.target, ns)).ns is not None:
        # The journal has no other namespace for it than that of lists.
        return replace(action, target=to.text)
    return action


def _check(editor: ListEditor, action: actions.Action) -> None:
    refusal = _REFUSED.get(type(action))
    if refusal is not None:
        raise TriageError(refusal)
    if not action.queue:
        raise TriageError("name the list queue by its whole key")
    owner = editor.names.owner(action.queue)
    if owner is not None:
        raise TriageError(f"that key belongs to the list queue {printable(owner)}: name the queue")
    if isinstance(action, actions.Send) and action.delay_s:
        raise TriageError("an item of a list cannot be delayed")
    if isinstance(action, actions.Pop) and action.count < 1:
        raise TriageError("the number to pop must be 1 or more")
    if isinstance(action, actions.Trim) and action.keep < 0:
        raise TriageError("the number to keep must be 0 or more")
    refuse_other_slots(editor, editor.names, [action.queue], [])


def _selectable(action: actions.Action, scope: Scope | None) -> tuple[EligibleItems, str]:
    """Return the items that an action can apply to, and a description of those that the scope selects."""
    match action:
        case actions.Pop(count=count):
            return EligibleItems(processing=False, most=count), f"the {plural(count, 'item')} that would be taken next"
        case actions.Trim(keep=keep, keep_oldest=True):
            return EligibleItems(
                processing=False, first=keep
            ), f"all but the {plural(keep, 'item')} that would be taken next"
        case actions.Trim(keep=keep):
            return EligibleItems(processing=False, spared=keep), f"all but the {plural(keep, 'item')} sent last"
        case actions.PurgeList(processing=True):
            return EligibleItems(), "every item of the queue, and those in processing"
        case actions.Purge():
            return EligibleItems(processing=False), "every item of the queue; those in processing stay"
    if action.of_processing:
        is_all = scope in (None, Everything())
        return EligibleItems(queue=False), "every item in processing" if is_all else what_of(action, scope)
    return EligibleItems(), what_of(action, scope)


async def _of_sending(base: Preview, action: actions.Action, facts: ListFacts, on_progress: ScanCallback) -> Preview:
    notes = () if facts.ready else ("The list does not exist now: the first item creates it.",)
    found = await preview_of_sending(base, on_progress)
    match action:
        case actions.Send():
            where = "taken next" if isinstance(action, actions.Push) and action.first else "taken last"
            return replace(found, what=f"{found.what}, {where}", notes=notes)
        case actions.Import():
            note = "They are added at the end, in the order of the file, without their ids, receive counts and times."
            return replace(found, notes=(*notes, note))
    raise TriageError(f"{action.verb.lower()} does not apply to list queues")


async def _target_notes(editor: ListEditor, action: actions.Action, ns: str) -> list[str]:
    if not isinstance(action, actions.Move):
        return []
    to = actions.target_of_list(action.target, ns)
    if to.ns is None:
        if to.queue == action.queue and action.moves_away:
            raise TriageError("the target is the queue itself")
        owner = editor.names.owner(to.queue)
        if owner is not None:
            raise TriageError(f"the target key belongs to the list queue {printable(owner)}: name the queue")
        refuse_other_slots(editor, editor.names, [action.queue, to.queue], [])
        await refuse_unreadable(editor, to)
        return ["They are added at its end, in their order."]
    return await _rsmq_notes(editor, action, to)


async def _rsmq_notes(editor: ListEditor, action: actions.Action, to: actions.Target) -> list[str]:
    refuse_other_slots(editor, editor.names, [action.queue], [to])
    try:
        exists = (await RsmqEditor.sharing(editor, to.ns or "").fields(to.queue)).exists
    except RsmqError as error:
        raise TriageError(f"{to.text}: {error}") from error
    if not exists:
        name, ns = printable(to.queue), printable(to.ns or "")
        raise TriageError(
            f"queue {name} does not exist in namespace {ns}: create it first, with rsmq-tui queues create {name} "
            f"--ns {ns}; a list has no attributes that it could be created with here"
        )
    return ["Each becomes a new message, sent now and ready at once."]


def _not_meant(action: actions.Action, number: int) -> str:
    are = "is" if number == 1 else "are"
    if action.of_processing:
        items = f"{plural(number, 'item')} of these in the queue"
        return f"{items} {are} left out: this applies only to items in processing."
    return f"{plural(number, 'item')} of these {are} left out."


def _cost_notes(selection: ListSelection, facts: ListFacts) -> list[str]:
    """Return a note on how long one call blocks the server, if the list is so long that it takes a while."""
    call_ms = walk_ms(min(selection.deepest, facts.ready // 2))
    is_whole = selection.counts["q"] >= facts.ready
    if call_ms <= HOLD_MAX_MS or is_whole:
        return []
    return [f"Each call walks the list: about {call_ms:,.0f} ms, in which the server does nothing else."]


class ListExport(Exporting):
    """Exports the items of a scope of a list queue, in the order in which they are taken.

    Raises what the editor, the search and ``write`` raise.
    """

    def __init__(
        self,
        editor: ListEditor,
        search: Search,
        queue: str,
        scope: Scope | None,
        write: Callable[[str], object],
    ) -> None:
        super().__init__(write)
        self._editor, self._search, self._queue, self._scope = editor, search, queue, scope
        # How far pushes have shifted items since their indexes were read.
        self._drift = 0

    async def __aiter__(self) -> AsyncGenerator[ScanProgress, None]:
        selection = ListSelection()
        try:
            found = await select_items(self._editor, self._search, self._queue, self._scope, selection)
            self.gone, self.unsearched = found.elsewhere, found.unsearched
            self.is_incomplete = found.is_incomplete
            depth = selection.count + self.gone
            for area in _AREAS:
                for part in chunked(selection.items(area), _PART_ITEMS, attrgetter("size"), _PART_BYTES):
                    for item in await self._with_bodies(part, area, selection.ready):
                        self._take(item._replace(rc=None, fr=None), selection.at_ms)
                    yield ScanProgress(self.written, depth, self.written)
            yield ScanProgress(depth, depth, self.written)
        finally:
            selection.close()

    async def _with_bodies(self, part: list[RawMessage], area: Area, ready: int) -> list[RawMessage]:
        """Return the items with their bodies, which are read if necessary; missing items are counted as gone."""
        unread = [item for item in part if item.body is None]
        if not unread:
            return part
        wanted = Counter(digest_of(item.id) for item in unread)
        read: dict[bytes, bytes] = {}
        there: Counter[bytes] = Counter()
        known = spans_of((position_of(item.id) for item in unread), ready) if area == "q" else []
        near = [
            IndexRange(max(0, span.near + self._drift - _SLACK_ITEMS), span.far + self._drift + _SLACK_ITEMS)
            for span in known
        ]
        for spans in (near, [IndexRange(0, EVERYWHERE)]):
            async with aclosing(AreaReader(self._editor, self._queue, area).sightings(wanted, spans)) as seen:
                async for _, found in seen:
                    for index, body, _ in found:
                        digest = item_digest(body)
                        read[digest] = body
                        there[digest] += 1
                        self._drift = index - known[-1].near if known else 0
        self.gone += wanted.total()
        whole = []
        for item in part:
            digest = digest_of(item.id)
            if item.body is not None:
                whole.append(item)
            elif there[digest]:
                there[digest] -= 1
                whole.append(item._replace(body=read[digest]))
        return whole


_NONE = (READY_SCORE, UNLEASED_SCORE)


class Leases:
    """Assigns the leases of a queue to items in processing; ``known`` has (token, deadline) pairs by bytes of items."""

    def __init__(self, known: dict[bytes, list[tuple[bytes, bytes]]]) -> None:
        self._left = {item: list(leases) for item, leases in known.items()}

    def with_lease(self, item: RawMessage) -> RawMessage | None:
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


async def prepare_lists(editor: ListEditor, ns: str, preview: Preview) -> AsyncGenerator[Step, None]:
    """Yield the batches of a change; ``ns`` is the default namespace of RSMQ targets. Raises what editors raise."""
    action = preview.action
    preparing = _Preparing(editor, action, ns)
    match action:
        case actions.Send(bodies=bodies):
            for step in preparing.sent(bodies, first=isinstance(action, actions.Push) and action.first):
                yield step
        case actions.Import(path=path):
            for step in preparing.sent(message.body for message in read_file(path, preview.file)):
                yield step
    if isinstance(preview.selection, ListSelection):
        async with aclosing(preparing.steps(preview.selection)) as steps:
            async for step in steps:
                yield step


class _Preparing:
    """Prepares a change of one queue; ``ns`` is the default namespace of RSMQ targets."""

    def __init__(self, editor: ListEditor, action: actions.Action, ns: str) -> None:
        self._editor = editor
        self._action = action
        self._queue = action.queue
        # Whether items in processing are put back to be taken next: the newest first, so that the oldest is next.
        self._first = isinstance(action, actions.Release) or (
            isinstance(action, actions.Requeue) and not action.to_back
        )
        if isinstance(action, actions.Move):
            self._to = actions.target_of_list(action.target, ns)
            self._outgoing = TransferTarget(editor, self._to)

    def sent(self, bodies: Iterable[bytes | None], *, first: bool = False) -> Iterator[Step]:
        """Push items at one end."""
        whole = Step()

        def present() -> Iterator[bytes]:
            for body in bodies:
                if body is None:
                    whole.failed[NO_BODY] += 1
                else:
                    yield body

        found: Iterable[list[bytes]] = chunked(present(), select.ITEMS_MAX, len, select.BYTES_MAX)
        # The item to be taken first is pushed last.
        for part in reversed(list(found)) if first else found:
            edits = tuple(Edit(None, list_item(body)) for body in part)
            yield Step(ListBatch(ListKind.PUT, self._queue, edits, self._editor.names, first=first))
        if whole.failed:
            yield whole

    async def steps(self, selection: ListSelection) -> AsyncGenerator[Step, None]:
        """Yield the changes of the selected items: those in the queue, then those in processing."""
        async for step in self._queued(selection):
            yield step
        async for step in self._in_processing(selection):
            yield step

    async def _change(self, items: list[RawMessage], step: Step, window: Window) -> None:
        """Add the batch for items, in the order in which they are taken, to a step; the window says where they are."""
        action = self._action
        match action:
            case actions.Hide(seconds=seconds):
                until = b"%d" % (await self._editor.clock_us() // 1000 + seconds * 1000)
                edits = [Edit(item, item._replace(score=until, rc=item.rc or random_suffix())) for item in items]
                step.batch = self._batch(ListKind.LEASE, edits, window)
            case actions.Requeue() | actions.Release():
                edits = [Edit(item, list_item(item.body or b"")) for item in items]
                step.batch = replace(self._batch(ListKind.MOVE, edits, window), first=self._first)
            case actions.Move():
                await self._move(items, step, window)
            case actions.Delete() | actions.Pop() | actions.Trim() | actions.Ack():
                step.batch = self._batch(ListKind.REMOVE, [Edit(item, None) for item in items], window)
            case _:
                raise TypeError(f"not prepared here: {action}")

    async def _move(self, items: list[RawMessage], step: Step, window: Window) -> None:
        """Move or copy items, in order, to the end of the target that is taken last."""
        fitting = await self._outgoing.fitting(items, step)
        afters = await self._outgoing.afters(fitting)
        if not fitting:
            return
        if isinstance(self._action, actions.Copy):
            step.batch = self._outgoing.puts(afters)
            return
        batch, to = self._batch(ListKind.MOVE, list(map(Edit, fitting, afters)), window), self._to
        step.batch = replace(batch, target=to.queue, target_ns=to.ns, sent=0 if to.ns is None else 1)

    async def _queued(self, selection: ListSelection) -> AsyncGenerator[Step, None]:
        """Yield the changes of the selected items in the queue."""
        if not selection.counts["q"]:
            return
        wanted = Counter(digest_of(item.id) for item in selection.items("q"))
        _, newest = await self._editor.newest(self._queue)
        is_still = not newest or newest == selection.newest
        spans = spans_of((position_of(item.id) for item in selection.items("q")), selection.ready, is_still=is_still)

        async def make(bodies: list[bytes], window: Window) -> Step:
            step = Step()
            await self._change(list(map(list_item, bodies)), step, window)
            return step

        action = self._action
        # The items that were pushed last stay.
        spared = action.keep if isinstance(action, actions.Trim) and not action.keep_oldest else 0
        finder = ItemFinder(self._editor, self._queue, "q", wanted, spans, spared=spared)
        async for step in finder.passes(make):
            yield step

    async def _in_processing(self, selection: ListSelection) -> AsyncGenerator[Step, None]:
        """Yield the changes of the selected items in processing, with their current leases."""
        if not selection.counts["p"]:
            return
        leases = Leases(await self._editor.leases(self._queue))
        selected: dict[bytes, deque[RawMessage]] = {}
        for item in selection.items("p"):
            selected.setdefault(digest_of(item.id), deque()).append(item._replace(body=None))

        async def make(bodies: list[bytes], window: Window) -> Step:
            step, found = Step(), []
            for body in bodies:
                item = selected[item_digest(body)].popleft()._replace(id=value_id("p", body), body=body, fr=None)
                leased = leases.with_lease(item._replace(size=len(body)))
                if leased is None:
                    step.excluded += Outcome.CHANGED
                else:
                    found.append(leased)
            if found:
                await self._change(found, step, window)
            return step

        def again(edit: Edit) -> None:
            if edit.before is not None:
                leases.put_back(edit.before)
                selected[digest_of(edit.before.id)].append(edit.before._replace(body=None))

        wanted = Counter({digest: len(items) for digest, items in selected.items()})
        finder = ItemFinder(self._editor, self._queue, "p", wanted, again=again, backwards=self._first)
        async for step in finder.passes(make):
            yield step

    def _batch(self, kind: ListKind, edits: Sequence[Edit], window: Window) -> ListBatch:
        return ListBatch(kind, self._queue, tuple(edits), self._editor.names, window=window)
