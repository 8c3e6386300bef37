"""The preview of an undo: which change is undone, and what that would do now."""

import asyncio
from collections.abc import Sequence
from functools import partial

from rsmq_tui.monitor.text import count, plural, printable
from rsmq_tui.protocol.editing import EditExecutor
from rsmq_tui.triage.actions import CreateQueue, Redo, SetAttributes, Undo, action_named
from rsmq_tui.triage.change import Change, State
from rsmq_tui.triage.errors import TriageError, no_queue
from rsmq_tui.triage.journal.database import JournalError
from rsmq_tui.triage.journal.journal import Journal, damage_words
from rsmq_tui.triage.scope import Matching, Named, Preview, ScanCallback
from rsmq_tui.triage.undo.inverse import (
    LeftToUndo,
    UndoOutlook,
    bodies_of_undo,
    effect_of,
    left_to_undo,
    notes_of_undo,
    queue_notes,
    undo_outlook,
    undo_summary,
)
from rsmq_tui.triage.undo.part import Chosen, PartScope, Selected, select_part

_LEFT_ALONE = "Messages changed since, or gone, are skipped and counted."
_QUEUE_LEFT_ALONE = "If the queue has changed since, nothing is undone."
ANOTHER_SERVER = (
    "The server at this address was restarted or replaced since the change: check that it is the right one."
)


def last_to_undo(journal: Journal, server: str, ns: str, queue: str | None, only_last: Sequence[str]) -> Change:
    """Return the last change (of that queue) that can be undone; raises ``TriageError`` if there is none.

    It also raises if a later change in the namespaces ``only_last`` did nothing.
    """
    found = journal.last_undoable(server, [ns], queue)
    if found is None:
        where = f"queue {queue}" if queue else f"namespace {ns}"
        damaged = [damage_words(number) for number in journal.damaged_since(0)]
        raise TriageError("; ".join([f"nothing to undo in {where} on {server}", *damaged[-1:]]))
    if only_last and (later := journal.last_without_effect(found, only_last, queue)) is not None:
        number = found.change
        raise TriageError(
            f"change {later.change}, the last one, changed nothing; `rsmq-tui undo {number}` previews the undo of the"
            f" one before, and `rsmq-tui undo {number} --yes` applies it"
        )
    return found


def change_to_undo(journal: Journal, server: str, number: int, *, unsettled: bool) -> Change:
    """Return the change of that number, or the redo that has made it again; raises what says why it cannot be undone.

    That is ``TriageError`` or ``JournalError``.
    """
    found = journal.change(number)
    if found is None:
        raise JournalError(f"no change {number} in the journal: rsmq-tui journal lists them")
    if found.state is State.DAMAGED:
        raise JournalError(damage_words(number))
    if found.server != server:
        raise TriageError(f"change {number} was made on {found.server}, not on {server}")
    if (redo := _redo_to_undo(journal, found, unsettled=unsettled)) is not None:
        return redo
    # The certain part may have been undone already, and the unsettled part is left.
    is_rest = unsettled and found.unsure and found.state is State.UNDONE
    if found.state is State.UNDONE and not is_rest:
        left = found.done - found.was_undone
        less = f", except for {count(left)} of {count(found.done)} that were skipped or failed" if left > 0 else ""
        raise JournalError(f"change {number} was already undone{less}")
    if not (found.can_be_undone or is_rest):
        raise JournalError(f"change {number} cannot be undone: it is {found.state}, with {found.done:,} done")
    return found


async def preview_of_undo(
    editor: EditExecutor,
    journal: Journal,
    change: Change,
    scope: PartScope | None,
    on_progress: ScanCallback,
    *,
    profile: str,
    asked: int | None,
    unsettled: bool,
) -> Preview:
    """Return what undoing a change, or the messages of it in a scope, would do.

    ``asked`` is the number that the user gave: that of the change, or of one that it has made again; None for the last
    change. Raises ``TriageError``, and what the editor and the journal raise.
    """
    number = change.change
    selected = None if scope is None else await select_part(editor, journal, change, scope, on_progress)
    part = None if selected is None else selected.part
    outlook = await undo_outlook(editor, journal, number, part)
    left = outlook.left
    planned = left.planned(unsettled=unsettled)
    if left.unsettled and not planned:
        raise TriageError(_unsettled_words(change, left, unsettled=False))
    if selected is not None and not planned:
        raise TriageError(_nothing_selected(change, selected, scope))
    _, run_id = await editor.clock_and_run_id()
    chain = await asyncio.to_thread(journal.undo_chain, change)
    original, is_redo = chain.original, chain.is_undo
    is_part = part is not None or (is_redo and any(each.part for each in chain.changes))
    effect = effect_of(original, planned, is_redo=is_redo, is_part=is_part)
    bodies: tuple[bytes, ...] = ()
    if planned and (effect.removes or is_part):
        bodies = await bodies_of_undo(editor, journal, number, unsettled=unsettled, part=part)
    summary = undo_summary(original if is_redo else change, original, planned, is_part=is_part)
    is_other_server = None not in (run_id, change.run_id) and run_id != change.run_id
    is_of_queue = issubclass(action_named(original.name), (CreateQueue, SetAttributes))
    of_journal = partial(_damage_notes, journal) if asked is None else partial(_redo_notes, journal, asked)
    notes = (
        _QUEUE_LEFT_ALONE if is_of_queue else _LEFT_ALONE,
        *_outlook_notes(outlook, unsettled=unsettled),
        *(() if is_redo else notes_of_undo(original)),
        *queue_notes(left),
        *_part_notes(change, selected),
        *await asyncio.to_thread(of_journal, number),
        *_doubt_notes(change, left, unsettled=unsettled),
        *([ANOTHER_SERVER] if is_other_server else []),
    )
    return Preview(
        action=(Redo if is_redo else Undo)(
            queue=change.queue,
            change=number,
            summary=summary,
            unsettled=unsettled,
            target=original.target if is_redo else change.target,
            effect=effect,
            part=part,
            whole=(original if is_redo else change).done if is_part else None,
            was_undone=change.was_undone,
        ),
        what=summary,
        server=change.server,
        ns=change.ns,
        profile=profile,
        at_ms=change.at_ms,
        count=planned,
        keep_days=journal.keep_days,
        notes=notes,
        bodies=bodies,
        elsewhere=0 if selected is None else selected.missing,
        scope=Named(scope.ids) if isinstance(scope, Chosen) else scope,
    )


def _outlook_notes(outlook: UndoOutlook, *, unsettled: bool) -> list[str]:
    if outlook.missing:
        no_such, is_one = no_queue(*outlook.missing), len(outlook.missing) == 1
        before = f"before {'it is' if is_one else 'they are'} created, nothing is undone there"
        return [f"{no_such[0].upper()}{no_such[1:]}: {before}."]
    return [f"Now it {outlook.words}."] if outlook.examined > outlook.unchanged and not unsettled else []


def _damage_notes(journal: Journal, change: int) -> list[str]:
    return [f"{damage_words(number).capitalize()}." for number in journal.damaged_since(change)]


def _part_notes(change: Change, selected: Selected | None) -> list[str]:
    if selected is not None:
        return _selection_notes(change, selected)
    if not 0 < change.was_undone < change.done:
        return []
    were, were_made = ("was" if number == 1 else "were" for number in (change.was_undone, change.redone))
    again = f"; of these, {count(change.redone)} {were_made} made again" if change.redone else ""
    return [f"{count(change.was_undone)} of {count(change.done)} {were} undone before{again}."]


def _redo_notes(journal: Journal, asked: int, undone: int) -> list[str]:
    """Return a note for each redo of a change of which something is left, other than the one that is undone."""
    redos = (redo.change for redo in journal.redos(asked) if redo.change != undone)
    return [
        f"What change {redo} has made again stays so: to take it back, undo change {redo}."
        for redo in redos
        if left_to_undo(journal, redo).planned(unsettled=True)
    ]


def _doubt_notes(change: Change, left: LeftToUndo, *, unsettled: bool) -> list[str]:
    if left.unsettled:
        return [f"{_unsettled_words(change, left, unsettled=unsettled)}."]
    doubt = change.doubt
    return [f"{doubt[0].upper()}{doubt[1:]}: another client may have done it."] if doubt else []


def _nothing_selected(change: Change, selected: Selected, scope: PartScope | None) -> str:
    """Return why none of the selected messages can be undone."""
    reasons = _selection_notes(change, selected)
    if selected.missing:
        reasons.append(f"{plural(selected.missing, 'id')} {'is' if selected.missing == 1 else 'are'} not in it")
    why = f": {'; '.join(reason.removesuffix('.') for reason in reasons)}" if reasons else ""
    text = scope.filter.text.strip() if isinstance(scope, Matching) else ""
    does = f"matches {printable(text)}" if text else "is selected"
    return f"change {change.change} of {printable(change.queue)}: no message that it has {change.past} {does}{why}"


def _selection_notes(change: Change, selected: Selected) -> list[str]:
    notes = []
    if selected.undone:
        were = "was" if selected.undone == 1 else "were"
        notes.append(f"{count(selected.undone)} of those selected {were} undone before.")
    if selected.unread:
        is_gone = "is gone, so that its body" if selected.unread == 1 else "are gone, so that their bodies"
        notes.append(f"{plural(selected.unread, 'message')} {is_gone} could not be searched.")
    return notes


def _unsettled_words(change: Change, left: LeftToUndo, *, unsettled: bool) -> str:
    doubts = (
        (left.taken, "consumed", "not put back", "puts {} back", "put back anyway"),
        (left.put, "sent by another client", "left alone", "undoes {}, too", "undone anyway"),
    )
    said = []
    for number, instead, so, does, anyway in doubts:
        they_are, them = ("it is", "it") if number == 1 else ("they are", "them")
        some = f"{plural(number, 'message')} of change {change.change} may have been {instead} instead of {change.past}"
        asked = f", so {they_are} {so}; rsmq-tui undo {change.change} --unsettled {does.format(them)}"
        said += [some + (f": {they_are} {anyway}" if unsettled else asked)] if number else []
    return "; ".join(said)


def _redo_to_undo(journal: Journal, change: Change, *, unsettled: bool) -> Change | None:
    """Return the redo to undo instead of a change of which nothing else is left to undo; None if there is none."""

    def has_left(number: int) -> bool:
        return left_to_undo(journal, number).planned(unsettled=unsettled) > 0

    redos = journal.redos(change.change)
    # To find out what is left, all batches are read: most changes have no redo.
    if not redos or (change.state is not State.UNDONE and has_left(change.change)):
        return None
    return next((redo for redo in redos if has_left(redo.change)), redos[0])
