"""The entry point of all changes: preview, run, undo and recovery. ``Backend`` has what differs between kinds."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from pathlib import Path

from rsmq_tui.files import sqlite_version, whole_file
from rsmq_tui.monitor.filters.language import Filter
from rsmq_tui.monitor.text import count, plural, printable
from rsmq_tui.protocol import Address
from rsmq_tui.protocol.editing import EditExecutor, editor_of
from rsmq_tui.protocol.kinds import RSMQ
from rsmq_tui.protocol.lists.naming import ListNames
from rsmq_tui.triage.actions import Action, Redo, Undo
from rsmq_tui.triage.audit_log import AuditLog
from rsmq_tui.triage.change import Change, State, Step, Tally
from rsmq_tui.triage.errors import TriageError, explained
from rsmq_tui.triage.execute import ChangeRunner, Run, recover
from rsmq_tui.triage.export import Exported, Exporting
from rsmq_tui.triage.journal import KEEP_DAYS, LIMIT_BYTES, Journal, damage_words
from rsmq_tui.triage.journal_db import JournalError
from rsmq_tui.triage.part import ChangedMessage, Chosen, PartScope, Selected, changed_messages, select_part
from rsmq_tui.triage.scope import Matching, Named, Preview, ScanCallback, ScanProgress, Scope, what_of
from rsmq_tui.triage.undo import (
    LeftToUndo,
    UndoOutlook,
    bodies_of_undo,
    effect_of,
    left_to_undo,
    notes_of_undo,
    prepare_undo,
    removal_notes,
    undo_outlook,
    undo_summary,
)


class Backend(ABC):
    """The changes of one kind of queue; every method raises what its editor raises, and ``TriageError``."""

    @property
    @abstractmethod
    def editor(self) -> EditExecutor:
        """The executor of its edits."""

    def watch(self, ns: str) -> None:  # noqa: B027 # most kinds have no namespaces
        """Switch to another namespace, if the kind has namespaces."""

    @abstractmethod
    async def preview(self, base: Preview, journal: Journal, scope: Scope | None, on_progress: ScanCallback) -> Preview:
        """Return ``base``, completed with what its action would do."""

    @abstractmethod
    def prepare(self, editor: EditExecutor, journal: Journal, preview: Preview) -> AsyncGenerator[Step, None]:
        """Yield the batches of a previewed change."""

    @abstractmethod
    def export(self, queue: str, scope: Scope | None, write: Callable[[str], object]) -> Exporting:
        """Return an export that passes the messages of a scope to ``write``."""

    @abstractmethod
    async def aclose(self) -> None:
        """Close the connections."""


READ_ONLY = "read-only: nothing can be changed"
_LEFT_ALONE = "Messages changed since, or gone, are skipped and counted."
ANOTHER_SERVER = (
    "The server at this address was restarted or replaced since the change: check that it is the right one."
)


class ChangeService:
    """Changes the queues of one namespace on one server, or refuses to if it is read-only.

    ``folder`` holds the journal and the audit log; nothing is created there before the first preview. ``backend`` is
    that of the kind of queue, by default RSMQ. ``names`` are the keys of list queues that messages are moved to. Every
    method raises ``TriageError``. Close it with ``aclose``.
    """

    def __init__(
        self,
        server: Address | str,
        ns: str,
        folder: Path,
        *,
        read_only: bool = False,
        profile: str = "",
        keep_days: int | None = KEEP_DAYS,
        limit_bytes: int = LIMIT_BYTES,
        backend: Backend | None = None,
        names: ListNames | None = None,
    ) -> None:
        self.read_only = read_only
        self.profile = profile
        self.folder = folder
        self._journal_path = folder / "journal.sqlite"
        self.limit_bytes = limit_bytes
        self._keep_days = keep_days
        self._backend: Backend = backend or RSMQ.part("backend")(server, ns, names or ListNames())
        self._journal: Journal | None = None
        self._opened: list[Journal] = []
        self._audit = AuditLog(folder / "audit.jsonl")
        self._opening = asyncio.Lock()

    @property
    def server(self) -> str:
        """The server's label, without user and password."""
        return self._editor.label

    @property
    def ns(self) -> str:
        """The namespace."""
        return self._editor.ns

    @property
    def _editor(self) -> EditExecutor:
        return self._backend.editor

    def watch(self, ns: str) -> None:
        """Switch to another namespace."""
        self._backend.watch(ns)

    async def preview(
        self, action: Action, scope: Scope | None = None, on_progress: Callable[[ScanProgress], None] = lambda _: None
    ) -> Preview:
        """Return exactly what an action would do; ``on_progress`` is called with the progress of the scan.

        Unfinished changes on this server are recovered first.
        """
        self._refuse_if_read_only()
        with explained():
            journal = await self._open()
            await self._recover(journal)
            what = printable(what_of(action, scope))
            server, ns, keep_days = self.server, self.ns, journal.keep_days
            base = Preview(action, what, server, ns, self.profile, 0, 1, keep_days=keep_days, scope=scope)
            return await self._backend.preview(base, journal, scope, on_progress)

    async def preview_undo(
        self,
        change: int | None = None,
        *,
        queue: str | None = None,
        unsettled: bool = False,
        scope: PartScope | None = None,
        on_progress: ScanCallback = lambda _: None,
    ) -> Preview:
        """Return what undoing a change would do: that change, or the last one (of that queue).

        With ``scope`` only the messages that it selects are undone. Messages that another client, not the change, may
        have removed or put there are changed only with ``unsettled``.
        """
        self._refuse_if_read_only()
        with explained():
            journal = await self._open()
            await self._recover(journal)
            found = await self._undoable(journal, change, queue, unsettled=unsettled)
            editor = self._editor_of(found.ns, found.queue)
            if isinstance(scope, Chosen) and change not in (None, found.change):
                # In a redo, which has only what came back, they are at other places.
                scope = Named(scope.ids)
            selected = None if scope is None else await select_part(editor, journal, found, scope, on_progress)
            part = None if selected is None else selected.part
            outlook = await undo_outlook(editor, journal, found.change, part)
            left = outlook.left
            planned = left.planned(unsettled=unsettled)
            if left.unsettled and not planned:
                raise TriageError(_unsettled_words(found, left, unsettled=False))
            if selected is not None and not planned:
                raise TriageError(_nothing_selected(found, selected, scope))
            _, run_id = await editor.clock_and_run_id()
            chain = await asyncio.to_thread(journal.undo_chain, found)
            original, is_redo = chain.original, chain.undo_is_redo
            is_part = part is not None or (is_redo and any(each.part for each in chain.changes))
            effect = effect_of(original, planned, is_redo=is_redo, is_part=is_part)
            bodies: tuple[bytes, ...] = ()
            if planned and (effect.removes or is_part):
                bodies = await bodies_of_undo(editor, journal, found.change, unsettled=unsettled, part=part)
            of_original = () if is_redo else notes_of_undo(original)
            others = [] if change is None else await asyncio.to_thread(_other_redos, journal, change, found)
            if change is None:
                damaged = await asyncio.to_thread(journal.damaged_since, found.change)
                of_original = (*of_original, *(f"{damage_words(number).capitalize()}." for number in damaged))
        summary = undo_summary(original if is_redo else found, original, planned, is_part=is_part)
        now = [f"Now it {outlook.words}."] if outlook.examined > outlook.unchanged and not unsettled else []
        notes = [_LEFT_ALONE, *now, *of_original, *removal_notes(left)]
        if selected is not None:
            notes += _selection_notes(found, selected)
        elif found.is_part_undone:
            notes.append(f"{count(found.undone)} of {count(found.done)} were undone before.")
        notes += [
            f"What change {redo} has made again stays so: to take it back, undo change {redo}." for redo in others
        ]
        if left.unsettled:
            notes.append(f"{_unsettled_words(found, left, unsettled=unsettled)}.")
        elif found.doubt:
            notes.append(f"{found.doubt[0].upper()}{found.doubt[1:]}: another client may have done it.")
        if None not in (run_id, found.run_id) and run_id != found.run_id:
            notes.append(ANOTHER_SERVER)
        return Preview(
            action=(Redo if is_redo else Undo)(
                queue=found.queue,
                change=found.change,
                summary=summary,
                unsettled=unsettled,
                target=original.target if is_redo else found.target,
                effect=effect,
                part=part,
                whole=(original if is_redo else found).done if is_part else None,
                undone=found.undone,
            ),
            what=summary,
            server=self.server,
            ns=found.ns,
            profile=self.profile,
            at_ms=found.at_ms,
            count=planned,
            keep_days=journal.keep_days,
            notes=tuple(notes),
            bodies=bodies,
            elsewhere=0 if selected is None else selected.missing,
            scope=Named(scope.ids) if isinstance(scope, Chosen) else scope,
        )

    @property
    def journal_version(self) -> tuple[int, ...] | None:
        """What changes with every write to the journal; None if there is none."""
        return sqlite_version(self._journal_path)

    async def last_undoable(self, queue: str | None = None) -> Change | None:
        """Return the change that ``preview_undo`` would undo, the last one (of that queue); None if there is none.

        A redo has the name of the change that it has made again.
        """
        with explained():
            journal = await self._open()
            found = await asyncio.to_thread(journal.last_undoable, self.server, [self.ns], queue)
            if found is None or found.undoes is None:
                return found
            chain = await asyncio.to_thread(journal.undo_chain, found)
            return replace(found, name=chain.original.name)

    async def changes(self, limit: int) -> list[Change]:
        """Return the last changes in the journal, of all servers, newest first; creates no journal."""
        with explained():
            if self.journal_version is None:
                return []
            journal = await self._open()
            return await asyncio.to_thread(journal.changes, limit)

    async def current(self, change: Change) -> Change:
        """Return a change of any server as the journal has it now."""
        with explained():
            journal = await self._open()
            found = await asyncio.to_thread(journal.change, change.change)
            # A new journal reuses numbers.
            if found is None or found.at_ms != change.at_ms:
                raise JournalError(f"change {change.change} is no longer in the journal")
            return found

    async def messages_of(
        self, change: Change, wanted: Filter | None = None
    ) -> AsyncGenerator[list[ChangedMessage], None]:
        """Yield the messages of a change of any server, batch by batch, or those left to undo that match a filter."""
        with explained():
            journal = await self._open()
            # Bodies that the journal does not have are on the server of the change.
            editor = self._editor_of(change.ns, change.queue) if change.server == self.server else None
            async with aclosing(changed_messages(editor, journal, change, wanted)) as found:
                async for messages in found:
                    yield messages

    async def undo_outlook(self, change: Change) -> UndoOutlook:
        """Return what undoing a change of this server would do now."""
        with explained():
            return await undo_outlook(self._editor_of(change.ns, change.queue), await self._open(), change.change)

    def run(self, preview: Preview) -> Run:
        """Return the run of a previewed change: iterate over it for its progress, then read its ``report``."""
        self._refuse_if_read_only()
        return Run(preview, self._steps, self._finished)

    async def export(self, queue: str, scope: Scope | None, path: Path) -> AsyncGenerator[Exported, None]:
        """Write messages to a file as JSON lines, and yield the progress; the server is not changed."""
        with explained(), whole_file(path) as write:
            async with aclosing(self.export_to(queue, scope, write)) as exported:
                async for each in exported:
                    yield each

    async def export_to(
        self, queue: str, scope: Scope | None, write: Callable[[str], object]
    ) -> AsyncGenerator[Exported, None]:
        """Pass messages as JSON lines to ``write``, and yield the progress; raises what reading and ``write`` raise."""
        exporting = self._backend.export(queue, scope, write)
        async with aclosing(exporting.__aiter__()) as seen:
            async for progress in seen:
                yield exporting.exported(progress)

    async def recover(self) -> list[Change]:
        """Settle the changes that earlier runs left unfinished on this server, and return them."""
        if self.read_only:
            return []
        with explained():
            if not self._journal_path.exists():
                return []
            return await self._recover(await self._open())

    async def aclose(self) -> None:
        """Close the connections and the journal."""
        await self._backend.aclose()
        async with self._opening:
            for journal in self._opened:
                await asyncio.to_thread(journal.close)

    def _refuse_if_read_only(self) -> None:
        if self.read_only:
            raise TriageError(READ_ONLY)

    async def _open(self) -> Journal:
        async with self._opening:
            # A removed journal stays open until ``aclose``, so that a running change can detect the removal and stop.
            if self._journal is None or not self._journal.file.is_in_place:
                opening = partial(Journal, self._journal_path, keep_days=self._keep_days, limit_bytes=self.limit_bytes)
                self._journal = await asyncio.to_thread(opening)
                self._opened.append(self._journal)
            return self._journal

    async def _recover(self, journal: Journal) -> list[Change]:
        found = await recover(self._editor, journal, self._audit)
        await asyncio.to_thread(journal.prune)
        return found

    async def _undoable(self, journal: Journal, change: int | None, queue: str | None, *, unsettled: bool) -> Change:
        if change is None:
            found = await asyncio.to_thread(journal.last_undoable, self.server, [self.ns], queue)
            if found is None:
                where = f"queue {queue}" if queue else f"namespace {self.ns}"
                damaged = [damage_words(number) for number in await asyncio.to_thread(journal.damaged_since, 0)]
                raise TriageError("; ".join([f"nothing to undo in {where} on {self.server}", *damaged[-1:]]))
            return found
        found = await asyncio.to_thread(journal.change, change)
        if found is None:
            raise JournalError(f"no change {change} in the journal: rsmq-tui journal lists them")
        if found.state is State.DAMAGED:
            raise JournalError(damage_words(change))
        if found.server != self.server:
            raise TriageError(f"change {change} was made on {found.server}, not on {self.server}")
        if (redo := await asyncio.to_thread(_redo_to_undo, journal, found, unsettled=unsettled)) is not None:
            return redo
        # The certain part may have been undone already, and the unsettled part is left.
        is_rest = unsettled and found.unsure and found.state is State.UNDONE
        if found.state is State.UNDONE and not is_rest:
            raise JournalError(f"change {change} was already undone")
        if not (found.can_be_undone or is_rest):
            raise JournalError(f"change {change} cannot be undone: it is {found.state}, with {found.done:,} done")
        return found

    def _editor_of(self, ns: str, queue: str) -> EditExecutor:
        """Return the editor of a queue of any kind, over the existing connections."""
        found = self._editor if self._editor.ns == ns else editor_of(self._editor, ns)
        return found.at(queue)

    async def _steps(self, preview: Preview) -> tuple[ChangeRunner, AsyncGenerator[Step, None]]:
        journal, action = await self._open(), preview.action
        editor = self._editor_of(preview.ns, action.queue)
        if isinstance(action, Undo):
            if await asyncio.to_thread(journal.change, action.change) is None:
                raise TriageError(f"change {action.change} is no longer in the journal")
            steps = prepare_undo(
                editor, journal, action.change, unsettled=action.unsettled, part=action.part, undone=action.undone
            )
        else:
            steps = self._backend.prepare(editor, journal, preview)
        at_us, run_id = await editor.clock_and_run_id()
        change = await _begun(journal, partial(journal.begin, preview, at_us // 1000, run_id))
        tally = Tally(planned=preview.count, changed=[] if preview.left_is_asked else None)
        return ChangeRunner(editor, journal, change, tally), steps

    async def _finished(self, runner: ChangeRunner) -> None:
        journal = runner.journal
        await runner.finish()
        write = partial(self._audit.write, ended=runner.stopped or State.DONE)
        await asyncio.to_thread(journal.audit, runner.change, write)
        await asyncio.to_thread(journal.prune)


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


def _other_redos(journal: Journal, change: int, undone: Change) -> list[int]:
    """Return the redos of a change, other than the one that is undone, of which something is left to undo."""
    redos = (redo.change for redo in journal.redos(change) if redo.change != undone.change)
    return [redo for redo in redos if left_to_undo(journal, redo).planned(unsettled=True)]


async def _begun(journal: Journal, begin: Callable[[], int]) -> int:
    """Begin a change. If this is cancelled, the thread begins it nevertheless, and it is then left at once."""
    beginning = asyncio.ensure_future(asyncio.to_thread(begin))
    try:
        return await asyncio.shield(beginning)
    except asyncio.CancelledError:
        beginning.add_done_callback(partial(_leave, journal))
        raise


def _leave(journal: Journal, beginning: "asyncio.Future[int]") -> None:
    if not beginning.cancelled() and beginning.exception() is None:
        journal.leave(beginning.result())
