"""Finding out what became of changes whose program ended, or lost its connection, before it knew."""

import asyncio
from collections.abc import Iterator
from functools import partial
from itertools import islice

from rsmq_tui.protocol.editor import QueueEditor
from rsmq_tui.triage.audit_log import AuditLog
from rsmq_tui.triage.changes import NOT_CARRIED_OUT, Change, Entry, State
from rsmq_tui.triage.journal import Journal
from rsmq_tui.triage.reports import Tally

_TOKENS_PER_CALL = 500


async def recover(editor: QueueEditor, journal: Journal, audit: AuditLog) -> list[Change]:
    """Settle every unfinished change on the editor's server, and return them; raises what these three raise.

    A batch whose call is not known to have been carried out is asked about: it was, with that outcome, or from then on
    never will be. Nothing is lost and nothing done twice, whenever the program ended.
    """
    recovered = []
    for change in await asyncio.to_thread(journal.unfinished, editor.label):
        await _settle(editor.within(change.ns), journal, change)
        if change.state is State.RUNNING:
            tally = await asyncio.to_thread(_tally, journal, change)
            counts = {"done": tally.done, "skipped": tally.skipped.total(), "failed": tally.failed.total()}
            await asyncio.to_thread(journal.finish, change.change, State.INTERRUPTED, **counts)
        now = await asyncio.to_thread(journal.change, change.change)
        if now is None:
            continue
        if not now.audited:
            await asyncio.to_thread(journal.audit, now.change, partial(_write_line, audit))
        recovered.append(now)
    return recovered


def _write_line(audit: AuditLog, change: Change) -> None:
    # The line may be there, when the program ended before the journal knew.
    if not audit.has(change):
        audit.write(change, change.state)


async def _settle(editor: QueueEditor, journal: Journal, change: Change) -> None:
    entries = journal.entries(change.change)
    while group := await asyncio.to_thread(_some, entries):
        known = {entry.number: entry.outcome for entry in group if entry.outcome is not None}
        found = {
            entry.number: await editor.settle(entry.token) or NOT_CARRIED_OUT
            for entry in group
            if entry.number not in known
        }
        if found:
            await asyncio.to_thread(journal.record, change.change, list(found.items()))
        known |= found
        # A call that was given up stays forbidden: it may be on its way still.
        await editor.forget([entry.token for entry in group if known[entry.number] != NOT_CARRIED_OUT])


def _tally(journal: Journal, change: Change) -> Tally:
    tally = Tally(planned=change.planned)
    for entry in journal.entries(change.change):
        tally.take(entry.letters)
    return tally


def _some(entries: Iterator[Entry]) -> list[Entry]:
    # Each holds its messages: only a few at a time.
    return list(islice(entries, 4))
