"""The entry point of all changes: preview, run, undo and recovery. ``Backend`` has what differs between kinds."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from math import ceil
from pathlib import Path

from rsmq_tui.files import AUDIT_LOG, sqlite_version, whole_file
from rsmq_tui.monitor.filters.language import Filter
from rsmq_tui.monitor.text import printable
from rsmq_tui.protocol.editing import EditExecutor, editor_of
from rsmq_tui.triage.actions import Action, Undo
from rsmq_tui.triage.change import Change, State, Step, Tally
from rsmq_tui.triage.errors import TriageError, explained
from rsmq_tui.triage.execute import ChangeRunner, RunningChange, recover
from rsmq_tui.triage.export import Exported, Exporting
from rsmq_tui.triage.journal.audit_log import AuditLog
from rsmq_tui.triage.journal.database import JournalError
from rsmq_tui.triage.journal.journal import KEEP_DAYS, LIMIT_BYTES, Journal
from rsmq_tui.triage.scope import Named, Preview, ScanCallback, ScanProgress, Scope, what_of
from rsmq_tui.triage.undo.inverse import UndoOutlook, prepare_undo, undo_outlook
from rsmq_tui.triage.undo.part import ChangedMessage, Chosen, PartScope, changed_messages
from rsmq_tui.triage.undo.preview import change_to_undo, last_to_undo, preview_of_undo


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


class ChangeService:
    """Changes the queues of one namespace on one server, or refuses to if it is read-only.

    ``backend`` is that of the kind of queue, for a server and a namespace. ``folder`` holds the journal and the audit
    log; nothing is created there before the first preview. Every method raises ``TriageError``. Close it with
    ``aclose``.
    """

    def __init__(
        self,
        backend: Backend,
        folder: Path,
        *,
        read_only: bool = False,
        profile: str = "",
        keep_days: int | None = KEEP_DAYS,
        limit_bytes: int = LIMIT_BYTES,
    ) -> None:
        self.read_only = read_only
        self.profile = profile
        self.folder = folder
        self._journal_path = folder / "journal.sqlite"
        self.limit_bytes = limit_bytes
        self._keep_days = keep_days
        self._backend = backend
        self._journal: Journal | None = None
        self._opened: list[Journal] = []
        self._audit = AuditLog(folder / AUDIT_LOG)
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
        only_last: Sequence[str] = (),
        scope: PartScope | None = None,
        on_progress: ScanCallback = lambda _: None,
    ) -> Preview:
        """Return what undoing a change would do: that change, or the last one (of that queue).

        With ``scope`` only the messages that it selects are undone. Messages that another client, not the change, may
        have removed or put there are changed only with ``unsettled``. If nobody sees the preview, ``only_last``
        are the namespaces of which the last change may be meant: if one of them had a later change that did nothing,
        the undo is refused.
        """
        self._refuse_if_read_only()
        with explained():
            journal = await self._open()
            await self._recover(journal)
            server, ns = self.server, self.ns
            if change is None:
                found = await asyncio.to_thread(last_to_undo, journal, server, ns, queue, only_last)
            else:
                found = await asyncio.to_thread(change_to_undo, journal, server, change, unsettled=unsettled)
            if isinstance(scope, Chosen) and change not in (None, found.change):
                # In a redo, which has only what came back, they have other indexes.
                scope = Named(scope.ids)
            editor = self._editor_of(found.ns, found.queue)
            return await preview_of_undo(
                editor, journal, found, scope, on_progress, profile=self.profile, asked=change, unsettled=unsettled
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
            original = (await asyncio.to_thread(journal.undo_chain, found)).original
            return found if original.undoes is not None else replace(found, name=original.name)

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

    def run(self, preview: Preview) -> RunningChange:
        """Return the run of a previewed change: iterate over it for its progress, then read its ``report``."""
        self._refuse_if_read_only()
        return RunningChange(preview, self._steps, self._finished)

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

    async def settle_abandoned(self) -> bool:
        """Settle the changes on this server that no program is making any more; return whether there were any."""
        if self.read_only:
            return False
        with explained():
            journal = await self._open()
            return bool(await asyncio.to_thread(journal.unfinished, self.server) and await self._recover(journal))

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
        # A thread goes on after its caller was cancelled: what it opens is closed by ``aclose``, which waits for it.
        return await asyncio.shield(self._open_once())

    async def _open_once(self) -> Journal:
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
                editor,
                journal,
                action.change,
                unsettled=action.unsettled,
                part=action.part,
                planned=preview.count,
                was_undone=action.was_undone,
            )
        else:
            steps = self._backend.prepare(editor, journal, preview)
        begun_s = time.monotonic()
        at_us, run_id = await editor.clock_and_run_id()
        change = await _begun(journal, partial(journal.begin, preview, at_us // 1000, run_id))
        tally = Tally(planned=preview.count, changed=[] if preview.collects_changed else None)
        return ChangeRunner(editor, journal, change, tally, begun_s), steps

    async def _finished(self, runner: ChangeRunner) -> None:
        journal = runner.journal
        await runner.finish()
        lasted_ms = ceil((time.monotonic() - runner.begun_s) * 1000)
        write = partial(self._audit.write, ended=runner.stopped or State.DONE, lasted_ms=lasted_ms)
        await asyncio.to_thread(journal.audit, runner.change, write)
        await asyncio.to_thread(journal.prune)


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
