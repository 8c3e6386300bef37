"""From a key to a change: ask for what is missing, show what would happen, make it, and tell what it came to."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.screen import ModalScreen
from textual.worker import Worker

from rsmq_tui.monitor import Snapshot
from rsmq_tui.monitor.wording import count, plural, printable
from rsmq_tui.tui.widgets.change_line import ChangeTold

if TYPE_CHECKING:
    from rsmq_tui.triage.actions import Action
    from rsmq_tui.triage.changes import Change
    from rsmq_tui.triage.desk import Triage
    from rsmq_tui.triage.exporting import Exported
    from rsmq_tui.triage.previewing import Seeing
    from rsmq_tui.triage.previews import Preview, Scope
    from rsmq_tui.triage.reports import Report
    from rsmq_tui.triage.run import Run
    from rsmq_tui.tui.app import RsmqApp
    from rsmq_tui.tui.screens.form import FormScreen

# How long the end of a change is told.
TOLD_S = 30.0
# How long quitting waits for what is under way; what is unknown then is found out at the next start.
_QUIT_S = 10.0
_GIVE_UP_S = 1.0
_DOING = {
    "delete": "deleting",
    "purge": "deleting",
    "hide": "hiding",
    "release": "releasing",
    "move": "moving",
    "copy": "copying",
    "redrive": "redriving",
    "send": "sending",
    "create": "creating",
    "set": "changing",
    "delete-queue": "deleting",
    "import": "importing",
    "undo": "putting back",
}


class Changes:
    """Makes the changes that an app's user asks for, one at a time.

    ``opening`` is the triage, or makes it when it is first needed: the first numbers are on the screen before it is
    loaded. None, and read-only, mean that nothing is changed.
    """

    def __init__(self, app: "RsmqApp", opening: "Triage | Callable[[], Triage] | None", *, read_only: bool) -> None:
        self.can_change = opening is not None and not read_only
        self._app = app
        self._opening = opening
        self._triage: Triage | None = None
        self._ns: str | None = None
        self._run: Run | None = None
        self._worker: Worker[None] | None = None
        self._is_stopping = False
        self._ended = asyncio.Event()
        self._has_recovered = not self.can_change

    @property
    def triage(self) -> "Triage":
        """The triage, made when it is first asked for."""
        if self._triage is None:
            if self._opening is None:
                raise RuntimeError("there is nothing to change queues with")
            self._triage = self._opening() if callable(self._opening) else self._opening
            if self._ns is not None:
                self._triage.watch(self._ns)
        return self._triage

    @property
    def is_running(self) -> bool:
        """True while a change is being made."""
        # One that was only just begun is not what Textual calls running.
        return self._worker is not None and not self._worker.is_finished

    def ask(self, name: str, queue: str, scope: "Scope | None", body: bytes | None) -> None:
        """Ask for what the action of that name needs, then show what it would do."""
        if not self._may_begin():
            return
        # Imported when first needed, as all that only a change needs.
        from rsmq_tui.tui.change_forms import form_of, plain_action  # noqa: PLC0415
        from rsmq_tui.tui.screens.form import FormScreen  # noqa: PLC0415

        form = form_of(name, queue, self._app.snapshot, body)
        if form is None:
            self._preview(plain_action(name, queue), scope)
            return
        screen: FormScreen[Action] = FormScreen(form, lambda action: self._preview(action, scope, screen))
        self._app.push_screen(screen)

    def undo(self, queue: str | None) -> None:
        """Show what taking back the last change would do."""
        if self._may_begin():
            self._confirm("Undo", lambda _: self.triage.preview_undo(queue=queue))

    def export(self, queue: str, scope: "Scope | None") -> None:
        """Ask for a file, then write messages to it; that changes nothing, and may be done where nothing else may."""
        if self._opening is None or self._is_busy() or self._has_dialog:
            return
        from rsmq_tui.tui.change_forms import export_form  # noqa: PLC0415
        from rsmq_tui.tui.screens.form import FormScreen  # noqa: PLC0415

        def begin(path: Path) -> None:
            if self._is_busy() or self._app.screen is not screen:
                return
            screen.dismiss()
            self._start(self._export(queue, scope, path), "exporting", None)

        screen = FormScreen(export_form(queue), begin, yes="Export", note="nothing changes on the server")
        self._app.push_screen(screen)

    def cancel(self) -> None:
        """Ask what is running to end soon."""
        now = self._app.change_told
        self._is_stopping = True
        if self._run is not None:
            self._run.cancel()
        if now is not None and now.is_running:
            self._tell(replace(now, is_stopping=True))

    async def stop(self) -> None:
        """Cancel what is running, and wait for the part of it that is under way; raises TimeoutError."""
        self.cancel()
        async with asyncio.timeout(_QUIT_S):
            await self._ended.wait()

    def follow(self, snapshot: Snapshot) -> None:
        """Once the server is there and shown, find out what became of changes that were interrupted."""
        if not self._has_recovered and snapshot.link.failure is None:
            self._has_recovered = True
            self._app.call_after_refresh(lambda: self._app.run_worker(self._recover(), group="recover"))

    def switch(self, ns: str) -> None:
        """Change the queues of another namespace from now on."""
        self._ns = ns
        if self._triage is not None:
            self._triage.watch(ns)

    async def aclose(self) -> None:
        """Let go of the server and the journal; what is still running is given up, and settled at the next start."""
        if self._worker is not None and self.is_running:
            self._worker.cancel()
            with suppress(TimeoutError):
                async with asyncio.timeout(_GIVE_UP_S):
                    await self._ended.wait()
        if self._triage is not None:
            await self._triage.aclose()
        elif self._opening is not None and not callable(self._opening):
            await self._opening.aclose()

    def _may_begin(self) -> bool:
        if not self.can_change:
            from rsmq_tui.triage.desk import READ_ONLY  # noqa: PLC0415

            self._app.notify(READ_ONLY, severity="warning", markup=False)
            return False
        return not self._is_busy() and not self._has_dialog

    def _is_busy(self) -> bool:
        if self.is_running:
            self._app.notify("one thing at a time: esc cancels what is running", severity="warning", markup=False)
        return self.is_running

    @property
    def _has_dialog(self) -> bool:
        return isinstance(self._app.screen, ModalScreen)

    def _preview(self, action: "Action", scope: "Scope | None", behind: "FormScreen[Any] | None" = None) -> None:
        if behind is None or self._app.screen is behind:
            self._confirm(action.verb, lambda seeing: self.triage.preview(action, scope, seeing), scope, behind)

    def _confirm(
        self,
        verb: str,
        look: "Callable[[Callable[[Seeing], None]], Awaitable[Preview]]",
        scope: "Scope | None" = None,
        behind: "FormScreen[Any] | None" = None,
    ) -> None:
        from rsmq_tui.tui.screens.confirm import ConfirmScreen  # noqa: PLC0415

        self._app.push_screen(ConfirmScreen(verb, look), partial(self._begin, scope, behind))

    def _begin(self, scope: "Scope | None", behind: "FormScreen[Any] | None", preview: "Preview | None") -> None:
        # Without a change, a form behind it is as it was: what was typed is not lost.
        if preview is None:
            return
        if self._is_busy():
            preview.close()
            return
        if behind is not None:
            behind.dismiss()
        self._run = run = self.triage.run(preview)
        self._start(self._make(run, scope), _DOING[preview.action.name], preview.count)

    def _start(self, work: Coroutine[Any, Any, ChangeTold], words: str, planned: int | None) -> None:
        self._is_stopping = False
        self._ended.clear()
        self._tell(ChangeTold(words, is_running=True, planned=planned))
        self._worker = self._app.run_worker(self._to_end(work), name=words, group="change")

    async def _to_end(self, work: Coroutine[Any, Any, ChangeTold]) -> None:
        from rsmq_tui.triage.words import TriageError  # noqa: PLC0415

        try:
            told = await work
        except TriageError as error:
            told = ChangeTold(f"it failed: {error}", is_alarm=True)
        finally:
            self._run = None
            self._ended.set()
            self._app.source.wake()
        self._tell(told)

    async def _make(self, run: "Run", scope: "Scope | None") -> ChangeTold:
        words = _DOING[run.preview.action.name]
        async for tally in run:
            counts = {"skipped": tally.skipped.total(), "failed": tally.failed.total()}
            self._tell_progress(words, tally.handled, tally.planned, **counts)
        if run.report is None:
            raise RuntimeError("a change without an end")
        return replace(_end_of(run.report), scope=scope)

    async def _export(self, queue: str, scope: "Scope | None", path: Path) -> ChangeTold:
        exported: Exported | None = None
        async with aclosing(self.triage.export(queue, scope, path)) as parts:
            async for exported in parts:
                seeing = exported.seeing
                left_out = exported.cut + exported.gone + exported.unsearched
                self._tell_progress("exporting", seeing.scanned, max(seeing.scanned, seeing.depth), skipped=left_out)
                if self._is_stopping:
                    return ChangeTold("export cancelled: no file was written")
        return _end_of_export(exported, path)

    async def _recover(self) -> None:
        from rsmq_tui.triage.changes import State  # noqa: PLC0415
        from rsmq_tui.triage.words import TriageError  # noqa: PLC0415

        try:
            found = await self.triage.recover()
        except TriageError as error:
            self._app.notify(printable(str(error)), title="What was interrupted is not known", markup=False)
            return
        for change in found:
            if change.state is State.INTERRUPTED:
                self._app.notify(_interrupted(change, self.triage.ns), severity="warning", markup=False, timeout=20)

    def _tell_progress(self, words: str, handled: int, planned: int, *, skipped: int = 0, failed: int = 0) -> None:
        told = ChangeTold(
            words,
            is_running=True,
            handled=handled,
            planned=planned,
            skipped=skipped,
            failed=failed,
            is_stopping=self._is_stopping,
        )
        self._tell(told)

    def _tell(self, told: ChangeTold) -> None:
        self._app.change_told = told
        if not told.is_running:
            self._app.set_timer(TOLD_S, partial(self._forget, told))

    def _forget(self, told: ChangeTold) -> None:
        if self._app.change_told is told:
            self._app.change_told = None


def _end_of(report: "Report") -> ChangeTold:
    undoes = " · u undoes" if report.undoable and report.name != "undo" else ""
    is_alarm = bool(report.tally.failed) or report.stopped not in (None, "cancelled")
    return ChangeTold(report.sentence + undoes, is_alarm=is_alarm)


def _end_of_export(exported: "Exported | None", path: Path) -> ChangeTold:
    if exported is None:
        return ChangeTold(f"exported {plural(0, 'message')} to {path}")
    # What could not be matched may not have been wanted: it is no part of the whole.
    whole = exported.written + exported.cut + exported.gone
    some = f"{count(exported.written)} of " if exported.written < whole else ""
    reasons = (
        (exported.cut, "too long to be read"),
        (exported.gone, "gone meanwhile"),
        (exported.unsearched, "too long to be matched"),
    )
    left_out = ", ".join(f"{count(number)} {reason}" for number, reason in reasons if number)
    but = f" (left out: {left_out})" if left_out else ""
    return ChangeTold(f"exported {some}{plural(whole, 'message')}{but} to {path}", is_alarm=bool(left_out))


def _interrupted(change: "Change", ns: str) -> str:
    what = f"{change.past} {count(change.done)} of {count(change.planned)} in {printable(change.queue, 60)}"
    if change.ns != ns:
        what += f" (namespace {printable(change.ns, 40)})"
    undoes = "; u undoes it" if change.can_be_undone and change.ns == ns else ""
    return f"A change was interrupted: {what}{undoes}"
