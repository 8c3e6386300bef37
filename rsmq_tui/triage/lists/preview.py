"""The preview of a change of a list queue: which items it selects, and what one call costs."""

from dataclasses import replace

from rsmq_tui.monitor.filters.search import INCOMPLETE
from rsmq_tui.monitor.peek import MessageState
from rsmq_tui.monitor.text import plural, printable
from rsmq_tui.protocol import RsmqError
from rsmq_tui.protocol.lists.editor import ListEditor, ListFacts
from rsmq_tui.protocol.rsmq.editor import QueueEditor
from rsmq_tui.triage.actions import (
    Ack,
    Action,
    Copy,
    CreateQueue,
    DeleteQueue,
    Fix,
    Hide,
    Import,
    MessageAction,
    Move,
    Pop,
    Purge,
    PurgeList,
    Push,
    Redrive,
    Release,
    Requeue,
    Send,
    SetAttributes,
    Target,
    Trim,
    target_of_list,
)
from rsmq_tui.triage.errors import TriageError
from rsmq_tui.triage.journal import Journal
from rsmq_tui.triage.lists.select import HOLDS_AT_MOST_MS, Area, ListSelection, Search, select, walk_ms
from rsmq_tui.triage.lists.transfer import refuse_other_slots, refuse_unreadable
from rsmq_tui.triage.lists.undo import PUT_BACK
from rsmq_tui.triage.scope import Everything, Preview, Scope, SeeingCallback, check_room, preview_of_sending, what_of

_REFUSED: dict[type[Action], str] = {
    CreateQueue: "a list queue is created by its first item",
    SetAttributes: "a list queue has no attributes",
    DeleteQueue: "a list queue exists only while it has items: purge it",
    Redrive: "items of a list do not record their source queue: move them to a named queue",
    Fix: "list queues have no automatic fixes",
}
STILL_THERE = (
    "Items are identified by their bytes; among equal items, any may be changed, as many as were counted. Items that "
    "consumers take meanwhile are skipped and counted."
)
_ONLY_PROCESSING = (Requeue, Release, Hide, Ack)


async def preview_of_lists(
    editor: ListEditor,
    search: Search,
    ns: str,
    base: Preview,
    journal: Journal,
    scope: Scope | None,
    seeing: SeeingCallback,
) -> Preview:
    """Return ``base``, completed with what its action would do; ``ns`` is the default namespace of RSMQ targets.

    Raises ``TriageError``, and what the editor and the search raise.
    """
    action = base.action
    _check(editor, action)
    facts = await editor.facts(action.queue)
    area, what = _meant(action, scope)
    base = replace(base, what=printable(what), at_ms=await editor.clock_us() // 1000)
    if not isinstance(action, MessageAction):
        return await _of_sending(base, action, facts, seeing)
    if not facts.depth:
        raise TriageError("there is no list queue with that key")
    notes = [*await _target_notes(editor, action, ns), STILL_THERE]
    if not isinstance(action, Copy | Hide):
        notes.append(PUT_BACK)
    scope = None if isinstance(action, Pop | Trim | PurgeList) else scope
    selection = ListSelection()
    try:
        found = await select(editor, search, action.queue, scope, area, selection, seeing)
        check_room(journal.limit_bytes, selection, selection.bytes if action.takes_away else 0)
    except BaseException:
        selection.close()
        raise
    if found.is_incomplete:
        notes.append(f"{INCOMPLETE[0].upper()}{INCOMPLETE[1:]}.")
    if found.not_meant:
        notes.append(_not_meant(action, found.not_meant))
    if isinstance(action, Requeue) and selection.states[MessageState.IN_FLIGHT]:
        notes.append("Running leases end: a consumer may still finish such an item, which is then processed twice.")
    if not isinstance(action, Copy) and selection.counts["q"]:
        notes += _cost_notes(selection, facts)
    return replace(
        base,
        at_ms=selection.at_ms or base.at_ms,
        count=selection.count,
        selection=selection,
        elsewhere=found.elsewhere,
        unsearched=found.unsearched,
        notes=tuple(notes),
    )


def _check(editor: ListEditor, action: Action) -> None:
    refusal = _REFUSED.get(type(action))
    if refusal is not None:
        raise TriageError(refusal)
    if not action.queue:
        raise TriageError("name the list queue by its whole key")
    owner = editor.names.owner(action.queue)
    if owner is not None:
        raise TriageError(f"that key belongs to the list queue {printable(owner)}: name the queue")
    if isinstance(action, Send) and action.delay_s:
        raise TriageError("an item of a list cannot be delayed")
    if isinstance(action, Pop) and action.count < 1:
        raise TriageError("the number to pop must be 1 or more")
    if isinstance(action, Trim) and action.keep < 0:
        raise TriageError("the number to keep must be 0 or more")
    refuse_other_slots(editor, editor.names, [action.queue], [])


def _meant(action: Action, scope: Scope | None) -> tuple[Area, str]:
    """Return the items that an action can apply to, and a description of those that the scope selects."""
    match action:
        case Pop(count=count):
            return Area(processing=False, most=count), f"the {count:,} that would be taken next"
        case Trim(keep=keep, keep_oldest=True):
            return Area(processing=False, first=keep), f"all but the {keep:,} that would be taken next"
        case Trim(keep=keep):
            return Area(processing=False, spared=keep), f"all but the {keep:,} that were sent last"
        case PurgeList(processing=True):
            return Area(), "every item of the queue, and those in processing"
        case Purge():
            return Area(processing=False), "every item of the queue; those in processing stay"
    if isinstance(action, _ONLY_PROCESSING):
        is_all = scope in (None, Everything())
        return Area(queue=False), "every item in processing" if is_all else what_of(action, scope)
    return Area(), what_of(action, scope)


async def _of_sending(base: Preview, action: Action, facts: ListFacts, seeing: SeeingCallback) -> Preview:
    notes = () if facts.ready else ("The list does not exist now: the first item creates it.",)
    found = await preview_of_sending(base, seeing)
    match action:
        case Send():
            where = "taken next" if isinstance(action, Push) and action.first else "taken last"
            return replace(found, what=f"{found.what}, {where}", notes=notes)
        case Import():
            told = "They are added at the end, in the order of the file, without their ids, receive counts and times."
            return replace(found, notes=(*notes, told))
    raise TriageError(f"{action.verb.lower()} does not apply to list queues")


async def _target_notes(editor: ListEditor, action: Action, ns: str) -> list[str]:
    if not isinstance(action, Move):
        return []
    to = target_of_list(action.target, ns)
    if to.ns is None:
        if to.queue == action.queue and not isinstance(action, Copy):
            raise TriageError("the target is the queue itself")
        owner = editor.names.owner(to.queue)
        if owner is not None:
            raise TriageError(f"the target key belongs to the list queue {printable(owner)}: name the queue")
        refuse_other_slots(editor, editor.names, [action.queue, to.queue], [])
        await refuse_unreadable(editor, to)
        return ["They are added at its end, in their order."]
    return await _rsmq_notes(editor, action, to)


async def _rsmq_notes(editor: ListEditor, action: Action, to: Target) -> list[str]:
    refuse_other_slots(editor, editor.names, [action.queue], [to])
    try:
        exists = (await QueueEditor.sharing(editor, to.ns or "").fields(to.queue)).exists
    except RsmqError as error:
        raise TriageError(f"{to.text}: {error}") from error
    if not exists:
        where = f"in namespace {printable(to.ns or '')}"
        raise TriageError(f"queue {printable(to.queue)} does not exist {where}: create it first")
    return ["Each becomes a new message, sent now and ready at once."]


def _not_meant(action: Action, number: int) -> str:
    if isinstance(action, _ONLY_PROCESSING):
        return f"{plural(number, 'item')} of these in the queue are left out: this applies only to items in processing."
    return f"{plural(number, 'item')} of these are left out."


def _cost_notes(selection: ListSelection, facts: ListFacts) -> list[str]:
    """Return a note on how long one call blocks the server, if the list is so long that it takes a while."""
    call_ms = walk_ms(min(selection.deepest, facts.ready // 2))
    is_whole = selection.counts["q"] >= facts.ready
    if call_ms <= HOLDS_AT_MOST_MS or is_whole:
        return []
    return [f"Each call walks the list: about {call_ms:,.0f} ms, in which the server does nothing else."]
