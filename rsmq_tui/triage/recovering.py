"""Finding out what became of changes whose program ended, or lost its connection, before it knew."""

import asyncio
from collections.abc import Iterator
from itertools import islice

from rsmq_tui.protocol.editor import QueueEditor
from rsmq_tui.triage.audit_log import AuditLog
from rsmq_tui.triage.journal import NOT_CARRIED_OUT, Change, Entry, Journal, State
from rsmq_tui.triage.reports import Tally

_TOKENS_PER_CALL = 500


async def recover(editor: QueueEditor, journal: Journal, audit: AuditLog) -> list[Change]:
    """Settle every unfinished change on the editor's server, and return them; raises what these three raise.

    A batch whose call is not known to have been carried out is asked about: it was, with that outcome, or from then on
    never will be. Nothing is lost and nothing done twice, whenever the program ended.
    """
    recovered = []
    for change in await asyncio.to_thread(journal.unfinished, editor.label):
        tally = await _settle(editor.within(change.ns), journal, change)
        if change.state is State.RUNNING:
            counts = {"done": tally.done, "skipped": tally.skipped.total(), "failed": tally.failed.total()}
            await asyncio.to_thread(journal.finish, change.change, State.INTERRUPTED, **counts)
            told = await asyncio.to_thread(journal.change, change.change)
            if told is not None:
                await asyncio.to_thread(audit.write, told, State.INTERRUPTED)
        now = await asyncio.to_thread(journal.change, change.change)
        if now is not None:
            recovered.append(now)
    return recovered


async def _settle(editor: QueueEditor, journal: Journal, change: Change) -> Tally:
    tally = Tally(planned=change.planned)
    entries = journal.entries(change.change)
    while group := await asyncio.to_thread(_some, entries):
        found = []
        for entry in group:
            outcome = entry.outcome
            if outcome is None:
                outcome = await editor.settle(entry.token) or NOT_CARRIED_OUT
                found.append((entry.number, outcome))
            tally.take(outcome)
        if found:
            await asyncio.to_thread(journal.record, change.change, found)
        await editor.forget([entry.token for entry in group])
    return tally


def _some(entries: Iterator[Entry]) -> list[Entry]:
    # Each holds its messages: only a few at a time.
    return list(islice(entries, 4))
