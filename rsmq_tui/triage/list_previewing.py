"""Finding out what a change of a list queue would do: which items it is for, and what one call will cost."""

import asyncio
from dataclasses import replace

from rsmq_tui.monitor.states import MessageState
from rsmq_tui.monitor.wording import duration, plural, printable, size
from rsmq_tui.protocol import RsmqError
from rsmq_tui.protocol.editor import QueueEditor
from rsmq_tui.protocol.lists.editor import ListEditor, ListFacts
from rsmq_tui.triage.actions import (
    Action,
    Copy,
    CreateQueue,
    Delete,
    DeleteQueue,
    Fix,
    Hide,
    Import,
    MessageAction,
    Move,
    Redrive,
    Release,
    Send,
    SetAttributes,
)
from rsmq_tui.triage.journal import Journal
from rsmq_tui.triage.list_actions import Ack, Pop, PurgeList, Push, Requeue, Target, Trim, target_of_list
from rsmq_tui.triage.list_batches import HOLDS_AT_MOST_MS, walk_us
from rsmq_tui.triage.list_selecting import Area, Search, select
from rsmq_tui.triage.list_selection import ListSelection
from rsmq_tui.triage.mixed import refuse_other_slots, refuse_unreadable
from rsmq_tui.triage.previewing import SeeingCallback, check_room, counted, what_of
from rsmq_tui.triage.previews import Everything, Preview, Scope
from rsmq_tui.triage.transfer import file_seen
from rsmq_tui.triage.words import TriageError

_REFUSED: dict[type[Action], str] = {
    CreateQueue: "a list queue is made by the first item that is sent to it",
    SetAttributes: "a list queue has no attributes",
    DeleteQueue: "a list queue is there only while it holds items: purge it",
    Redrive: "the items of a list do not tell where they came from: move them to a queue by name",
    Fix: "there is nothing in a list queue that could be mended",
}
_ONLY_PROCESSING = (Requeue, Release, Hide, Ack)


async def preview_of_lists(
    editor: ListEditor,
    search: Search,
    ns: str,
    journal: Journal,
    profile: str,
    action: Action,
    scope: Scope | None,
    seeing: SeeingCallback,
) -> Preview:
    """Find out what an action would do; ``ns`` is what targets of RSMQ are in that say none.

    Raises ``TriageError``, and what the editor and the search raise.
    """
    _check(editor, action)
    facts = await editor.facts(action.queue)
    base = Preview(
        action=action,
        what=printable(_what(action, scope)),
        server=editor.label,
        ns=editor.ns,
        profile=profile,
        at_ms=await editor.clock_us() // 1000,
        count=1,
        keep_days=journal.keep_days,
    )
    if not isinstance(action, MessageAction):
        return await _of_sending(base, action, facts, seeing)
    if not facts.depth:
        raise TriageError("nothing lies there: no list queue has that key now")
    notes = [*await _target_notes(editor, action, ns), "Only what still lies there; what is gone by then is skipped."]
    area, scope = _area(action, facts), None if isinstance(action, Pop | Trim | PurgeList) else scope
    selection = ListSelection()
    try:
        found = await select(editor, search, action.queue, scope, area, selection, seeing)
        takes = isinstance(action, Delete | Pop | Trim | Ack)
        check_room(journal, selection, selection.bytes if takes else 0)
    except BaseException:
        selection.close()
        raise
    if found.not_meant:
        notes.append(_not_meant(action, found.not_meant))
    if isinstance(action, Requeue) and selection.states[MessageState.IN_FLIGHT]:
        notes.append("Leases that still run end with it: a consumer may finish the same item once more.")
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


def undo_notes(facts: ListFacts, items: int) -> tuple[str, ...]:
    """Say what putting so many items back into the midst of a long list costs."""
    walk_ms = facts.ready * 0.06 / 1000
    if walk_ms < HOLDS_AT_MOST_MS / 2:
        return ()
    return (
        f"The list holds {facts.ready:,} items: to put one back far from its ends holds the server for up to about "
        f"{walk_ms:,.0f} ms, and it is done one by one: some {duration(items * walk_ms / 2)} in all where they lie "
        "everywhere in it. It can be cancelled.",
    )


def _check(editor: ListEditor, action: Action) -> None:
    refusal = _REFUSED.get(type(action))
    if refusal is not None:
        raise TriageError(refusal)
    if not action.queue:
        raise TriageError("which list queue? its whole key")
    owner = editor.names.owner(action.queue)
    if owner is not None:
        raise TriageError(f"that belongs to the list queue {printable(owner)}: name that one")
    if isinstance(action, Send) and action.delay_s:
        raise TriageError("an item of a list cannot be delayed")
    if isinstance(action, Pop) and action.count < 1:
        raise TriageError("pop at least one")
    if isinstance(action, Trim) and action.keep < 0:
        raise TriageError("keep none or more")
    refuse_other_slots(editor, editor.names, [action.queue], [])


def _area(action: Action, facts: ListFacts) -> Area:
    match action:
        case Requeue() | Release() | Hide() | Ack():
            return Area(queue=False)
        case Pop(count=count):
            return Area(processing=False, last=count - 1)
        case Trim(keep=keep, keep_oldest=True):
            return Area(processing=False, first=keep)
        case Trim(keep=keep):
            return Area(processing=False, last=facts.ready - keep - 1)
        case PurgeList(processing=processing):
            return Area(processing=processing)
        case _ if action.name == "purge":
            return Area(processing=False)
    return Area()


def _what(action: Action, scope: Scope | None) -> str:
    match action:
        case Pop(count=count):
            return f"the {count:,} that would be taken next"
        case Trim(keep=keep, keep_oldest=keep_oldest):
            return f"all but the {keep:,} that " + ("would be taken next" if keep_oldest else "were sent last")
        case PurgeList(processing=True):
            return "every item of the queue, and those in processing"
        case _ if action.name == "purge":
            return "every item of the queue; those in processing stay"
        case _ if isinstance(action, _ONLY_PROCESSING) and scope in (None, Everything()):
            return "every item in processing"
    return what_of(action, scope)


async def _of_sending(base: Preview, action: Action, facts: ListFacts, seeing: SeeingCallback) -> Preview:
    notes = () if facts.ready else ("Nothing lies there now: the first item makes the list.",)
    match action:
        case Send(bodies=bodies):
            if not bodies:
                raise TriageError("nothing to send: give a body")
            where = "taken next" if isinstance(action, Push) and action.first else "taken last"
            told = f"{size(sum(map(len, bodies)))} in all, {where}"
            return replace(base, count=len(bodies), what=told, notes=notes)
        case Import(path=path):
            seen = file_seen(await asyncio.to_thread(path.stat))
            count = await counted(path, seen, seeing)
            if not count:
                raise TriageError(f"{path} holds no message")
            told = "They are taken last, in the order of the file; ids, receive counts and times stay behind."
            return replace(base, count=count, what=printable(f"from {path}"), notes=(*notes, told), file=seen)
    raise TriageError(f"{action.verb.lower()} is not for list queues")


async def _target_notes(editor: ListEditor, action: Action, ns: str) -> list[str]:
    if not isinstance(action, Move):
        return []
    to = target_of_list(action.target, ns)
    if to.ns is None:
        if to.queue == action.queue and not isinstance(action, Copy):
            raise TriageError("the target is the queue itself")
        owner = editor.names.owner(to.queue)
        if owner is not None:
            raise TriageError(f"the target belongs to the list queue {printable(owner)}: name that one")
        refuse_other_slots(editor, editor.names, [action.queue, to.queue], [])
        await refuse_unreadable(editor, to)
        return ["They are taken last there, in their order."]
    return await _rsmq_notes(editor, action, to)


async def _rsmq_notes(editor: ListEditor, action: Action, to: Target) -> list[str]:
    refuse_other_slots(editor, editor.names, [action.queue], [to])
    try:
        exists = (await QueueEditor.beside(editor, to.ns or "").fields(to.queue)).exists
    except RsmqError as error:
        raise TriageError(f"{to.text}: {error}") from error
    if not exists:
        where = f"in namespace {printable(to.ns or '')}"
        raise TriageError(f"queue {printable(to.queue)} does not exist {where}: create it first")
    return ["There each is a new message, sent now and ready at once."]


def _not_meant(action: Action, number: int) -> str:
    if isinstance(action, _ONLY_PROCESSING):
        return f"{plural(number, 'item')} of these in the queue are left out: this is for what is in processing."
    return f"{plural(number, 'item')} of these are left out."


def _cost_notes(selection: ListSelection, facts: ListFacts) -> list[str]:
    """Say what one call costs, where the list is so long that it cannot be kept short."""
    middle = min(selection.deepest, facts.ready // 2)
    walk_ms = walk_us(middle, middle, facts.ready) / 1000
    is_whole = selection.counts["q"] >= facts.ready
    if walk_ms <= HOLDS_AT_MOST_MS or is_whole:
        return []
    return [f"Each call walks the list: about {walk_ms:,.0f} ms, in which the server does nothing else."]
