"""A change service that changes nothing: its previews are given by a test, and it runs as far as the test allows."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

from rsmq_tui.monitor import Filter, MessageState
from rsmq_tui.monitor.changes import ON_REQUEST
from rsmq_tui.triage.actions import Action, MessageAction, Undo
from rsmq_tui.triage.change import Change, ChangeReport, State, Tally
from rsmq_tui.triage.errors import TriageError
from rsmq_tui.triage.export import Exported
from rsmq_tui.triage.scope import SAME_MESSAGE, Preview, ScanProgress, Scope, Selection
from rsmq_tui.triage.undo.inverse import LeftToUndo, UndoOutlook
from rsmq_tui.triage.undo.part import ChangedMessage, PartScope
from tests.tui.scripted import START_MS


class Gate(asyncio.Semaphore):
    """Lets that many steps continue; at first none."""

    def __init__(self) -> None:
        super().__init__(0)

    def release(self, steps: int = 1) -> None:
        for _ in range(steps):
            super().release()


class ScriptedTriage:
    """Previews are for ``count`` messages, or fail with ``refusal``.

    ``look`` and ``gate`` are semaphores that let a preview and each step of a run go on; without, nothing waits.
    """

    def __init__(self, *, read_only: bool = False, count: int = 1204, server: str = "redis://cache-1:6379/0") -> None:
        self.read_only = read_only
        self.server, self.ns, self.profile = server, "rsmq", ""
        self.count = count
        self.notes: tuple[str, ...] = (SAME_MESSAGE.sentence,)
        self.what = "every message of the queue"
        self.states: dict[MessageState, int] = {}
        self.elsewhere = self.unsearched = 0
        self.seen: tuple[ScanProgress, ...] = ()
        self.bodies: tuple[bytes, ...] = ()
        self.known: list[Change] = []
        self.messages: list[ChangedMessage] = []
        self.refusal: str | None = None
        self.run_refusal: str | None = None
        self.look: Gate | None = None
        self.gate: Gate | None = None
        self.steps = 4
        self.skipped = self.failed = 0
        self.cut = self.gone = 0
        self.stopped: str | None = None
        self.interrupted: list[Change] = []
        self.asked: list[tuple[Action | None, Scope | str | None]] = []
        self.runs: list[ScriptedRun] = []
        self.exported: list[tuple[str, Scope | None, Path]] = []
        self.recoveries = 0
        self.closed = False

    def watch(self, ns: str) -> None:
        self.ns = ns

    async def preview(
        self, action: Action, scope: Scope | None = None, on_progress: Callable[[ScanProgress], None] = lambda _: None
    ) -> Preview:
        self.asked.append((action, scope))
        return replace(await self._preview(action, self.what, on_progress), scope=scope)

    async def preview_undo(
        self,
        change: int | None = None,
        *,
        queue: str | None = None,
        scope: PartScope | None = None,
        on_progress: Callable[[ScanProgress], None] = lambda _: None,
    ) -> Preview:
        self.asked.append((None, queue))
        summary = f"change 7: deleted {self.count:,} messages, every message of the queue"
        return await self._preview(Undo(queue=queue or "orders", change=7, summary=summary), summary, lambda _: None)

    def run(self, preview: Preview) -> "ScriptedRun":
        self.runs.append(ScriptedRun(self, preview))
        return self.runs[-1]

    @property
    def journal_version(self) -> tuple[int, ...] | None:
        """It has a journal with one change since the first run, which can be undone as long as it is not."""
        return (len(self.runs), self.runs[-1].report is not None) if self.runs else None

    async def last_undoable(self, queue: str | None = None) -> Change | None:
        last = self.runs[-1]
        if last.report is None or isinstance(last.preview.action, Undo):
            return None
        return change_of(change=last.report.change or 0, done=last.report.tally.done, state=State.DONE)

    async def changes(self, limit: int) -> list[Change]:
        return self.known[:limit]

    async def current(self, change: Change) -> Change:
        return change

    async def messages_of(
        self, change: Change, wanted: Filter | None = None
    ) -> AsyncGenerator[list[ChangedMessage], None]:
        yield self.messages

    async def undo_outlook(self, change: Change) -> UndoOutlook:
        return UndoOutlook(LeftToUndo(left := change.done - change.undone, 0, 0, 0, ()), left, left - 3)

    async def export(self, queue: str, scope: Scope | None, path: Path) -> AsyncGenerator[Exported, None]:
        self.exported.append((queue, scope, path))
        for step in range(1, self.steps + 1):
            if self.gate is not None:
                await self.gate.acquire()
            written = step * 100 - self.cut - self.gone
            yield Exported(ScanProgress(step * 100, 400, step * 100), written, self.cut, self.gone, self.unsearched)

    async def recover(self) -> list[Change]:
        self.recoveries += 1
        return self.interrupted

    async def aclose(self) -> None:
        self.closed = True

    async def _preview(self, action: Action, what: str, on_progress: Callable[[ScanProgress], None]) -> Preview:
        for seen in self.seen:
            on_progress(seen)
        if self.look is not None:
            await self.look.acquire()
        if self.refusal is not None:
            raise TriageError(self.refusal)
        return Preview(
            action=action,
            what=what,
            server=self.server,
            ns=self.ns,
            profile=self.profile,
            at_ms=START_MS,
            count=self.count,
            selection=self._selection() if isinstance(action, MessageAction) else None,
            elsewhere=self.elsewhere,
            unsearched=self.unsearched,
            notes=self.notes,
            bodies=self.bodies,
        )

    def _selection(self) -> Selection:
        selection = Selection()
        selection.states |= self.states or {MessageState.READY: self.count}
        return selection


class ScriptedRun:
    """Handles a part of the messages with each step."""

    def __init__(self, triage: ScriptedTriage, preview: Preview) -> None:
        self.preview = preview
        self.report: ChangeReport | None = None
        self.is_stopping = False
        self._triage = triage

    def stop(self) -> None:
        self.is_stopping = True

    async def __aiter__(self) -> AsyncIterator[Tally]:
        triage, preview = self._triage, self.preview
        preview.close()
        if triage.run_refusal is not None:
            raise TriageError(triage.run_refusal)
        tally = Tally(planned=preview.count)
        stopped = triage.stopped
        for step in range(1, triage.steps + 1):
            if triage.gate is not None:
                await triage.gate.acquire()
            tally.skipped["received or changed meanwhile"] = triage.skipped
            tally.failed["its id is already in use there"] = triage.failed
            tally.done = preview.count * step // triage.steps - triage.skipped - triage.failed
            yield tally
            if self.is_stopping:
                stopped = ON_REQUEST
                break
        tally.skipped, tally.failed = +tally.skipped, +tally.failed
        action = preview.action
        self.report = ChangeReport(action.name, action.past, action.queue, tally, 7, stopped)


def change_of(**values: object) -> Change:
    """A change as the journal knows it."""
    known: dict[str, object] = {
        "change": 7, "at_ms": START_MS, "name": "delete", "past": "deleted", "who": "eva", "host": "here", "pid": 1,
        "alive_ms": START_MS, "profile": "", "server": "redis://cache-1:6379/0", "ns": "rsmq", "queue": "orders",
        "target": None, "what": "every message of the queue", "planned": 1204, "done": 812, "skipped": 0, "failed": 0,
        "state": State.INTERRUPTED, "undoes": None, "audited": False, "touched": False,
    }  # fmt: skip
    return Change(**{**known, **values})  # type: ignore[arg-type]
