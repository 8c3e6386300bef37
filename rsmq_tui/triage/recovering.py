"""Finding out what became of changes whose program ended, or lost its connection, before it knew."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import groupby, islice
from operator import itemgetter

from rsmq_tui.protocol.carrying import Carrier
from rsmq_tui.protocol.lists.editor import editor_of
from rsmq_tui.triage.audit_log import AuditLog
from rsmq_tui.triage.changes import NOT_CARRIED_OUT, Change, Entry, State
from rsmq_tui.triage.journal import Journal
from rsmq_tui.triage.reports import Tally

_MARKERS_PER_CALL = 500
SETTLED = "settled"


async def recover(editor: Carrier, journal: Journal, audit: AuditLog) -> list[Change]:
    """Settle every unfinished change on the editor's server, and return them; raises what these three raise.

    A batch whose call is not known to have been carried out is asked about: it was, with that outcome, or from then on
    never will be. Nothing is lost and nothing done twice, whenever the program ended. Where nothing tells whether it
    was, all that is not as it was before counts as done, and can be put back.
    """
    recovered = []
    for change in await asyncio.to_thread(journal.unfinished, editor.label):
        await _settle(editor_of(editor, change.ns), journal, change)
        if change.state is State.RUNNING:
            tally = await asyncio.to_thread(_tally, journal, change)
            await asyncio.to_thread(journal.finish, change.change, State.INTERRUPTED, **tally.counts)
        now = await asyncio.to_thread(journal.change, change.change)
        if now is None:
            continue
        if not now.audited:
            await asyncio.to_thread(journal.audit, now.change, partial(_write_line, audit))
        recovered.append(now)
    await _remove_markers(editor, journal)
    return recovered


async def found_out(editor: Carrier, entry: Entry) -> Entry:
    """Return a batch with its outcome, of which its call left nothing on the server; raises what the editor raises."""
    outcome = await editor.look(entry.batch)
    return replace(entry, outcome=outcome or NOT_CARRIED_OUT, unsure=outcome != NOT_CARRIED_OUT)


def _write_line(audit: AuditLog, change: Change) -> None:
    # The line may be there, when the program ended before the journal knew.
    ended = SETTLED if change.settled else None
    if not audit.has(change, ended):
        audit.write(change, ended or change.state)


async def _settle(editor: Carrier, journal: Journal, change: Change) -> None:
    entries = journal.entries(change.change)
    while group := await asyncio.to_thread(_some, entries):
        spent, found, void = [], [], []
        for entry in group:
            if entry.outcome is None:
                left = await editor.settle(entry.token)
                if left is None:
                    void.append(entry.token)
                found.append(await found_out(editor, entry) if left is None else replace(entry, outcome=left))
            # A call that was given up stays forbidden: it may be on its way still.
            if entry.token not in void and entry.outcome != NOT_CARRIED_OUT and not entry.unsure:
                spent.append(entry.token)
        if found:
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
