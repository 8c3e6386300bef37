"""Runs a change batch by batch, with progress, and recovers interrupted changes."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from typing import Any

from rsmq_tui.monitor.changes import ON_REQUEST
from rsmq_tui.protocol import REPLY_ERRORS, SERVER_ERRORS, RsmqError
from rsmq_tui.protocol.editing import Batch, EditExecutor, VoidedError, editor_of
from rsmq_tui.protocol.keys import another_id
from rsmq_tui.protocol.outcomes import Outcome, letters_of
from rsmq_tui.protocol.rsmq.edits import Edit, FieldBatch, MessageBatch
from rsmq_tui.triage.change import NOT_CARRIED_OUT, Change, ChangeReport, Entry, State, Step, Tally
from rsmq_tui.triage.errors import EXPECTED, TriageError, explain, explained, no_queue
from rsmq_tui.triage.journal.audit_log import AuditLog
from rsmq_tui.triage.journal.database import JournalError, JournalGoneError
from rsmq_tui.triage.journal.journal import DamagedError, Journal
from rsmq_tui.triage.scope import Preview

_MARKERS_PER_CALL = 500
_SETTLED = "settled"


async def recover(editor: EditExecutor, journal: Journal, audit: AuditLog) -> list[Change]:
    """Settle every unfinished change on the editor's server, and return them; raises what its arguments raise.

    For each batch with an unknown outcome, the server either returns the outcome or voids the call, so that it can
    never run. Nothing is lost and nothing is done twice, whenever the program ended. If the server has lost the marker
    of a call, every message that is not as it was before counts as done, with ``unsure`` set: consumers may have taken
    it.
    """
    recovered = []
    for change in await asyncio.to_thread(journal.unfinished, editor.label):
        try:
            await _settle_change(editor_of(editor, change.ns), journal, change)
            if change.state is State.RUNNING:
                tally = await asyncio.to_thread(_tally, journal, change)
                await asyncio.to_thread(journal.finish, change.change, State.INTERRUPTED, **tally.counts)
        except DamagedError:
            # A damaged change is shown as such, and must not prevent the undo of others.
            await asyncio.to_thread(journal.mark_damaged, change.change, State.RUNNING)
            continue
        now = await asyncio.to_thread(journal.change, change.change)
        if now is None:
            continue
        if not now.audited:
            await asyncio.to_thread(journal.audit, now.change, partial(_write_line, audit))
        recovered.append(now)
    await _expire_markers(editor, journal)
    return recovered


async def settle_batch(editor: EditExecutor, entry: Entry) -> Entry:
    """Return a batch whose reply was lost, with its outcome; raises what the editor raises.

    If the server has lost the marker, the outcome is inferred from the queue's current state, and ``unsure`` is set.
    """
    content = await editor.settle(entry.token)
    if content is not None and _is_outcome(entry, content):
        return replace(entry, outcome=content)
    inferred = await editor.infer_outcome(entry.batch)
    return replace(entry, outcome=inferred, unsure=inferred != NOT_CARRIED_OUT)


def _is_outcome(entry: Entry, content: str) -> bool:
    """Return whether a marker's content is a valid outcome; another program may have written to it."""
    # Earlier versions appended @ and a number.
    try:
        return content == NOT_CARRIED_OUT or bool(entry.batch.read(content.partition("@")[0].encode()))
    except SERVER_ERRORS:
        return False


def is_void(entry: Entry) -> bool:
    """Return whether a settled batch's call is void: the server refuses it from now on."""
    return entry.outcome == NOT_CARRIED_OUT or entry.unsure


def _write_line(audit: AuditLog, change: Change) -> None:
    # The program may have ended after it wrote the line, but before the journal recorded that.
    ended = _SETTLED if change.settled else None
    if not audit.has(change, ended):
        audit.write(change, ended or change.state)


async def _settle_change(editor: EditExecutor, journal: Journal, change: Change) -> None:
    entries = journal.entries(change.change)
    while group := await asyncio.to_thread(_next_entries, entries):
        executed: list[str] = []
        void: list[str] = []
        settled: list[Entry] = []
        for entry in group:
            known = entry
            if entry.outcome is None:
                known = await settle_batch(editor, entry)
                settled.append(known)
            # A void call may still be under way, so its marker stays.
            (void if is_void(known) else executed).append(entry.token)
        if settled or void:
            await asyncio.to_thread(journal.settle, change.change, settled, void)
        await editor.forget(executed)


async def _expire_markers(editor: EditExecutor, journal: Journal) -> None:
    old = await asyncio.to_thread(journal.old_markers, editor.label, _MARKERS_PER_CALL)
    for ns, markers in groupby(sorted(old), key=itemgetter(0)):
        tokens = [token for _, token in markers]
        try:
            await editor_of(editor, ns).expire(tokens)
        except SERVER_ERRORS:
            # As of a namespace that this user may not write to: others come first in the next run.
            await asyncio.to_thread(journal.postpone_markers, tokens)
            continue
        await asyncio.to_thread(journal.drop_markers, tokens)


def _tally(journal: Journal, change: Change) -> Tally:
    tally = Tally(planned=change.planned)
    for entry in journal.entries(change.change):
        tally.add_outcome(entry.letters, unsure=entry.unsure)
    return tally


def _next_entries(entries: Iterator[Entry]) -> list[Entry]:
    # Entries contain their messages: only a few at a time.
    return list(islice(entries, 4))


# The number of batches per disk write: waiting for the disk takes longer than the server does.
GROUP_BATCHES = 8
# The calls of a group are sent after a few turns of the event loop; new connections take longer.
_TURNS_TO_SEND, _TURNS_QUIET = 40, 4
# The delays between attempts to settle a call whose reply was lost.
_SETTLE_WAITS_S = (0.2, 0.5, 1.0, 2.0, 4.0)
# Errors that prove that nothing was done: scripts refuse a call before their first write.
_REFUSALS: tuple[type[Exception], ...] = (RsmqError, *REPLY_ERRORS)
# Errors that end a change, and are reported.
_REPORTED: tuple[type[Exception], ...] = (VoidedError, *EXPECTED)


@dataclass(slots=True)
class _Group:
    """Steps that are written to disk together, and the journal's entries of those with a batch."""

    steps: list[Step] = field(default_factory=list)
    entries: list[tuple[Step, Entry]] = field(default_factory=list)
    is_last: bool = False

    @property
    def alone(self) -> bool:
        """True if its last step is carried out before the next one is prepared."""
        return bool(self.steps) and self.steps[-1].alone


class ChangeRunner:
    """Carries out the batches of one change, each exactly once.

    ``tally`` has the counts so far, and ``begun_s`` is the monotonic time when it began. ``stop`` ends the change after
    the current group. ``stopped`` says why it ended early, or is None. ``is_kept`` is True if the change is in the
    journal, and so can be undone.
    """

    def __init__(self, editor: EditExecutor, journal: Journal, change: int, tally: Tally, begun_s: float) -> None:
        self.begun_s = begun_s
        self.tally = tally
        self.change = change
        self.stopped: str | None = None
        self.is_kept = True
        self.journal = journal
        self._editor = editor
        self._number = 0
        self._stopping = False
        self._is_refused = False
        self._held: Step | None = None
        self._outcomes: list[tuple[int, str]] = []
        # Tokens of calls that were executed, or never will be, and whose outcomes are not on disk yet.
        self._ended: list[str] = []
        # Tokens whose outcomes are on disk, so the server may forget them.
        self._forgettable: list[str] = []
        # Tokens that were announced to the server, and not used yet.
        self._announced: list[str] = []
        # Tokens that must still be announced.
        self._unannounced: list[str] = []

    def stop(self) -> None:
        """Request the end, after the current group."""
        self._stopping = True

    async def run(self, steps: AsyncGenerator[Step, None]) -> AsyncIterator[Tally]:
        """Carry out the steps, yielding the tally after each group; expected errors end it and set ``stopped``."""
        ahead: asyncio.Task[_Group] | None = None
        try:
            while True:
                group = await (ahead or self._next(steps))
                ahead = None
                if self._stopping:
                    self._record_not_carried_out(entry for _, entry in group.entries)
                    self.stopped = ON_REQUEST
                    break
                await self._refuse_if_gone(group)
                if not group.is_last:
                    await self._prepare_server(group.entries)
                # While the server works on one group, the next is prepared and written to disk.
                if not (group.alone or group.is_last):
                    ahead = asyncio.create_task(self._next_behind(steps))
                await self._carry_out(group)
                yield self.tally
                if group.is_last:
                    break
                if self._stopping:
                    self.stopped = ON_REQUEST
                    break
        except VoidedError:
            self.stopped = "another rsmq-tui treated this change as abandoned"
        except EXPECTED as error:
            self.fail(error)
        finally:
            if ahead is not None:
                await self._give_up(ahead)
            await steps.aclose()
        yield self.tally

    def fail(self, error: Exception) -> None:
        """Record an error; only the first one is reported."""
        self.stopped = self.stopped or explain(error)
        self.is_kept = self.is_kept and not isinstance(error, JournalGoneError)

    async def finish(self) -> None:
        """Record the end in the journal; raises ``JournalError``.

        A change that the server refused before anything was done is removed from the journal.
        """
        state = State.STOPPED if self.stopped else State.DONE
        await asyncio.to_thread(self.journal.record, self.change, self._outcomes)
        await self._forget([*self._forgettable, *self._ended, *self._announced])
        if self._is_refused and not any(self.tally.counts.values()):
            self.is_kept = not await asyncio.to_thread(self.journal.discard, self.change)
            if not self.is_kept:
                return
        await asyncio.to_thread(self.journal.finish, self.change, state, **self.tally.counts)

    def leave(self) -> None:
        """Release the change, however it ended."""
        self.journal.leave(self.change)

    async def _next(self, steps: AsyncIterator[Step]) -> _Group:
        """Prepare the next group, and write it to disk."""
        group = await self._gather(steps)
        await self._write(group.entries)
        return group

    async def _next_behind(self, steps: AsyncIterator[Step]) -> _Group:
        """As ``_next``, after the calls of the previous group were sent, so that the server does not wait for us."""
        sent, quiet = self._editor.traffic.bytes_sent, 0
        for _ in range(_TURNS_TO_SEND):
            await asyncio.sleep(0)
            before, sent = sent, self._editor.traffic.bytes_sent
            quiet = quiet + 1 if sent == before else 0
            if quiet == _TURNS_QUIET:
                break
        return await self._next(steps)

    async def _gather(self, steps: AsyncIterator[Step]) -> _Group:
        group = _Group()
        if self._held is not None:
            held, self._held = self._held, None
            self._take(group, held)
            return group
        async for step in steps:
            if step.alone and group.entries:
                self._held = step
                return group
            self._take(group, step)
            if step.alone or len(group.entries) == GROUP_BATCHES:
                return group
            # Preparing takes as long as the server's work: let replies and screens run in between.
            await asyncio.sleep(0)
        group.is_last = True
        return group

    def _take(self, group: _Group, step: Step) -> None:
        group.steps.append(step)
        if step.batch is not None:
            group.entries.append((step, self._entry(step, step.batch)))

    def _entry(self, step: Step, batch: Batch) -> Entry:
        self._number += 1
        if self._announced and not batch.in_order:
            token = self._announced.pop()
        else:
            token = self._editor.new_token(batch)
            self._unannounced.append(token)
        return Entry(self._number, token, batch, None, step.undoes, step.counted, step.renames)

    async def _write(self, entries: Sequence[tuple[Step, Entry]]) -> None:
        """Write batches to disk, and the outcomes of earlier ones."""
        if not entries:
            return
        # Announce first: every batch in the journal can then be settled, whenever the program ends.
        tokens, self._unannounced = self._unannounced, []
        await self._announce(tokens)
        outcomes, self._outcomes = self._outcomes, []
        ended, self._ended = self._ended, []
        try:
            await asyncio.to_thread(self.journal.write, self.change, [entry for _, entry in entries], outcomes)
        except BaseException:
            self._outcomes[:0], self._ended[:0] = outcomes, ended
            raise
        self._forgettable += ended

    async def _prepare_server(self, entries: Sequence[tuple[Step, Entry]]) -> None:
        """Announce as many future calls as ``entries``, and let the server forget the tokens in ``_forgettable``.

        This runs before a group's calls: after them, the next group could not be written to disk until they are done.
        """
        forgettable, self._forgettable = self._forgettable, []
        # The tokens of ordered calls contain their keys, which are not known yet.
        names_keys = any(entry.batch.in_order for _, entry in entries)
        wanted = 0 if names_keys else len(entries) - len(self._announced)
        tokens = [self._editor.new_token() for _ in range(wanted)]
        is_announced, _ = await asyncio.gather(self._announce(tokens), self._forget(forgettable))
        if is_announced:
            self._announced += tokens

    async def _refuse_if_gone(self, group: _Group) -> None:
        """Raise ``JournalError`` if the change is no longer in the journal, so that it could not be undone."""
        try:
            await asyncio.to_thread(self.journal.refuse_if_gone, self.change)
        except JournalError:
            self._record_not_carried_out(entry for _, entry in group.entries)
            raise

    async def _carry_out(self, group: _Group) -> None:
        for step in group.steps:
            self.tally.add_outcome(step.excluded, skip_reason=step.skip_reason)
            self.tally.failed.update(step.failed)
            if step.note:
                self.tally.notes.append(step.note)
            self._note_changed(step.changed)
        entries = group.entries
        while entries:
            outcomes = await self._apply_all([entry for _, entry in entries])
            again = []
            for (step, entry), outcome in zip(entries, outcomes, strict=True):
                if isinstance(outcome, BaseException):
                    continue
                self._outcomes.append((entry.number, outcome))
                self._ended.append(entry.token)
                if step.on_outcome is not None:
                    step.on_outcome(outcome)
                renamed = _renamed(step, entry.batch, outcome)
                if renamed is not None:
                    again.append((step, self._entry(step, renamed)))
                if step.counted:
                    letters = outcome if renamed is None else outcome.replace(Outcome.TAKEN, "")
                    self.tally.add_outcome(letters, skip_reason=step.skip_reason)
                    if isinstance(entry.batch, FieldBatch):
                        self.tally.queues += letters.count(Outcome.DONE)
                    self._note_changed(_changed(entry.batch, outcome))
            for outcome in outcomes:
                if isinstance(outcome, BaseException):
                    raise outcome
            await self._write(again)
            entries = again

    def _note_changed(self, ids: Iterable[bytes]) -> None:
        if self.tally.changed is not None:
            self.tally.changed += ids

    async def _apply_all(self, entries: Sequence[Entry]) -> list[str | BaseException]:
        """Carry out batches in parallel, or one after the other if any of them is ordered."""
        if not any(entry.batch.in_order for entry in entries):
            return await asyncio.gather(*(self._apply(entry) for entry in entries), return_exceptions=True)
        outcomes: list[str | BaseException] = []
        for number, entry in enumerate(entries):
            try:
                outcomes.append(await self._apply(entry))
            except _REPORTED as error:
                remaining = entries[number + 1 :]
                self._record_not_carried_out(remaining)
                return [*outcomes, error, *([error] * len(remaining))]
        return outcomes

    async def _give_up(self, ahead: asyncio.Task[_Group]) -> None:
        """Record that the group written ahead is not carried out."""
        (group,) = await asyncio.gather(ahead, return_exceptions=True)
        if isinstance(group, _Group):
            self._record_not_carried_out(entry for _, entry in group.entries)

    def _record_not_carried_out(self, entries: Iterable[Entry]) -> None:
        """Record that batches were not sent or were refused, and will not be carried out."""
        for entry in entries:
            self._outcomes.append((entry.number, NOT_CARRIED_OUT))
            self._ended.append(entry.token)

    async def _apply(self, entry: Entry) -> str:
        """Carry out a batch; if the reply is lost, settle it."""
        try:
            return await self._editor.apply(entry.batch, entry.token)
        except _REFUSALS as error:
            self._is_refused = True
            self._record_not_carried_out([entry])
            if isinstance(error, RsmqError) and error.code == "queueNotFound":
                raise TriageError(no_queue(entry.batch.target or entry.batch.queue)) from error
            raise
        except SERVER_ERRORS:
            unknown = entry.batch.size if entry.counted else 0
            self.tally.unknown += unknown
            settled = await self._settle_lost(entry)
            if settled is None:
                raise
            self.tally.unknown -= unknown
            if not is_void(settled) and settled.outcome is not None:
                return settled.outcome
            await asyncio.to_thread(self.journal.settle, self.change, [settled], [entry.token])
            self.tally.add_outcome(settled.letters, unsure=settled.unsure)
            raise

    async def _settle_lost(self, entry: Entry) -> Entry | None:
        """Settle a batch whose reply was lost; return None if the server does not answer in time."""
        for wait_s in _SETTLE_WAITS_S:
            try:
                return await settle_batch(self._editor, entry)
            except SERVER_ERRORS:
                await asyncio.sleep(wait_s)
        return None

    async def _announce(self, tokens: Sequence[str]) -> bool:
        try:
            await self._editor.announce(tokens)
        except SERVER_ERRORS:
            # The next call fails with the same error, and reports it.
            return False
        return True

    async def _forget(self, tokens: Sequence[str]) -> None:
        """Remove the markers of finished calls; their outcomes are on disk."""
        try:
            await self._editor.forget(tokens)
        except SERVER_ERRORS:
            # The change itself succeeded: a later run lets the markers expire.
            await asyncio.to_thread(self.journal.leave_markers, self.change, tokens)


def _changed(batch: Batch, outcome: str) -> Iterator[bytes]:
    """Yield the ids of those messages of a batch that have changed since they were seen."""
    if batch.has_ids and Outcome.CHANGED in outcome:
        places = zip(batch.edits, letters_of(outcome), strict=True)
        yield from (before.id for (before, _), letter in places if letter == Outcome.CHANGED and before is not None)


def _renamed(step: Step, batch: Batch, outcome: str) -> MessageBatch | None:
    """Return a batch for the messages whose ids are taken, under other ids of the same time, or None."""
    if not step.renames or Outcome.TAKEN not in outcome or not isinstance(batch, MessageBatch):
        return None
    edits = tuple(
        Edit(before, after._replace(id=another_id(after.id)))
        for (before, after), letter in zip(batch.edits, letters_of(outcome), strict=True)
        if letter == Outcome.TAKEN and after is not None
    )
    return replace(batch, edits=edits)


_Steps = Callable[[Preview], Coroutine[Any, Any, tuple[ChangeRunner, AsyncGenerator[Step, None]]]]
_Finished = Callable[[ChangeRunner], Coroutine[Any, Any, None]]


class RunningChange:
    """A running change: iterate for the tally after each group of batches; ``report`` is set at the end.

    After ``stop`` it ends soon; what was done by then is reported and can be undone.
    """

    def __init__(self, preview: Preview, steps: _Steps, finished: _Finished) -> None:
        self.preview = preview
        self.report: ChangeReport | None = None
        self._steps, self._finished = steps, finished
        self._runner: ChangeRunner | None = None
        self._is_stopping = False

    def stop(self) -> None:
        """Request the end, after the current group."""
        self._is_stopping = True
        if self._runner is not None:
            self._runner.stop()

    async def __aiter__(self) -> AsyncIterator[Tally]:
        preview = self.preview
        try:
            with explained():
                self._runner, steps = await self._steps(preview)
        except BaseException:
            preview.close()
            raise
        runner = self._runner
        if self._is_stopping:
            runner.stop()
        try:
            async for tally in runner.run(steps):
                yield tally
            await self._finished(runner)
        except EXPECTED as error:
            runner.fail(error)
        finally:
            preview.close()
            runner.leave()
        action = preview.action
        change = runner.change if runner.is_kept else None
        self.report = ChangeReport(action.name, action.past, action.queue, runner.tally, change, runner.stopped)

    async def to_end(self) -> ChangeReport:
        """Run to the end, and return the report."""
        async for _ in self:
            pass
        if self.report is None:
            raise RuntimeError("the run has no report")
        return self.report
