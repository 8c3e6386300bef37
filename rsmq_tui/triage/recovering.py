"""Finding out what became of changes whose program ended, or lost its connection, before it knew."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import groupby, islice
from operator import itemgetter

from rsmq_tui.protocol import SERVER_ERRORS
from rsmq_tui.protocol.carrying import Carrier
from rsmq_tui.protocol.lists.editor import editor_of
from rsmq_tui.triage.audit_log import AuditLog
from rsmq_tui.triage.changes import NOT_CARRIED_OUT, Change, Entry, State
from rsmq_tui.triage.journal import Journal
from rsmq_tui.triage.journal_reading import DamagedError
from rsmq_tui.triage.reports import Tally

_MARKERS_PER_CALL = 500
SETTLED = "settled"


async def recover(editor: Carrier, journal: Journal, audit: AuditLog) -> list[Change]:
    """Settle every unfinished change on the editor's server, and return them; raises what these three raise.

    A batch whose call is not known to have been carried out is asked about: it was, with that outcome, or from then on
    never will be. Nothing is lost and nothing done twice, whenever the program ended. Where nothing tells whether it
    was, because the server has lost what such calls leave, all that is not as it was before counts as done but
    unsettled: consumers may have taken it.
    """
    recovered = []
    for change in await asyncio.to_thread(journal.unfinished, editor.label):
        try:
            await _settle(editor_of(editor, change.ns), journal, change)
            if change.state is State.RUNNING:
                tally = await asyncio.to_thread(_tally, journal, change)
                await asyncio.to_thread(journal.finish, change.change, State.INTERRUPTED, **tally.counts)
        except DamagedError:
            # Shown as such: what is damaged keeps nobody from undoing the others.
            await asyncio.to_thread(journal.set_aside, change.change, State.RUNNING)
            continue
        now = await asyncio.to_thread(journal.change, change.change)
        if now is None:
            continue
        if not now.audited:
            await asyncio.to_thread(journal.audit, now.change, partial(_write_line, audit))
        recovered.append(now)
    await _remove_markers(editor, journal)
    return recovered


async def settled(editor: Carrier, entry: Entry) -> Entry:
    """Find out what became of a batch whose reply was not seen; raises what the editor raises.

    Its outcome is then known or, where the server has lost what would tell, guessed from what is there: ``unsure``.
    """
    left = await editor.settle(entry.token)
    if left is not None and _is_outcome(entry, left):
        return replace(entry, outcome=left)
    seen = await editor.look(entry.batch)
    return replace(entry, outcome=seen or NOT_CARRIED_OUT, unsure=seen != NOT_CARRIED_OUT)


def _is_outcome(entry: Entry, left: str) -> bool:
    """Tell whether that is what a call leaves: somebody else may have written to its marker, and then nothing tells."""
    # Behind an @ earlier versions wrote numbers.
    try:
        return left == NOT_CARRIED_OUT or bool(entry.batch.read(left.partition("@")[0].encode()))
    except SERVER_ERRORS:
        return False


def is_void(entry: Entry) -> bool:
    """Tell whether the call of a settled batch is forbidden from now on, because it was not seen to be carried out."""
    return entry.outcome == NOT_CARRIED_OUT or entry.unsure


def _write_line(audit: AuditLog, change: Change) -> None:
    # The line may be there, when the program ended before the journal knew.
    ended = SETTLED if change.settled else None
    if not audit.has(change, ended):
        audit.write(change, ended or change.state)


async def _settle(editor: Carrier, journal: Journal, change: Change) -> None:
    entries = journal.entries(change.change)
    while group := await asyncio.to_thread(_some, entries):
        spent: list[str] = []
        void: list[str] = []
        found: list[Entry] = []
        for entry in group:
            known = entry
            if entry.outcome is None:
                known = await settled(editor, entry)
                found.append(known)
            # A call that was given up stays forbidden: it may be on its way still.
            (void if is_void(known) else spent).append(entry.token)
        if found or void:
            await asyncio.to_thread(journal.settle, change.change, found, void)
        await editor.forget(spent)


async def _remove_markers(editor: Carrier, journal: Journal) -> None:
    """Remove some of the markers that are no longer needed."""
    left = await asyncio.to_thread(journal.left_markers, editor.label, _MARKERS_PER_CALL)
    for ns, markers in groupby(sorted(left), key=itemgetter(0)):
        tokens = [token for _, token in markers]
        await editor_of(editor, ns).forget(tokens)
        await asyncio.to_thread(journal.drop_markers, tokens)


def _tally(journal: Journal, change: Change) -> Tally:
    tally = Tally(planned=change.planned)
    for entry in journal.entries(change.change):
        tally.take(entry.letters, unsure=entry.unsure)
    return tally


def _some(entries: Iterator[Entry]) -> list[Entry]:
    # Each holds its messages: only a few at a time.
    return list(islice(entries, 4))
