"""From a key to a change: form, preview, run, and report."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from textual.app import App
from textual.screen import ModalScreen
from textual.worker import Worker

from rsmq_tui.monitor import Snapshot
from rsmq_tui.monitor.changes import ON_REQUEST
from rsmq_tui.monitor.text import compact, count, plural, printable, printable_ns
from rsmq_tui.protocol.kinds import RSMQ
from rsmq_tui.tui.keys import Keymap, keymap_of
from rsmq_tui.tui.servers import WatchedServer
from rsmq_tui.tui.widgets.painted import Painted

if TYPE_CHECKING:
    from rsmq_tui.monitor.audit.findings import Finding
    from rsmq_tui.triage.actions import Action
    from rsmq_tui.triage.change import Change, ChangeReport
    from rsmq_tui.triage.execute import RunningChange
    from rsmq_tui.triage.export import Exported
    from rsmq_tui.triage.scope import Preview, ScanCallback, Scope
    from rsmq_tui.triage.several import SeveralRun
    from rsmq_tui.triage.undo.part import PartScope
    from rsmq_tui.tui.changes.confirm import Previewer, ScopePreviewer
    from rsmq_tui.tui.changes.forms import Answers, FormScreen


class Aim(NamedTuple):
    """What a change applies to: the messages of a scope in a queue, or the queue.

    ``is_found`` is set if they were found by a search over queues.
    """

    server: WatchedServer
    queue: str
    scope: "Scope | None" = None
    is_found: bool = False


Aims = tuple[Aim, ...]


class _Made(NamedTuple):
    """A change of an action on several queues: its number in the journal, and how many messages it changed."""

    server: WatchedServer
    change: int
    queue: str
    name: str
    done: int


@dataclass(frozen=True, slots=True)
class ChangeStatus:
    """The state of a change: ``words``, and while it runs, how many of the ``planned`` edits were ``handled``.

    ``planned`` is None if there is nothing to count; ``is_alarm`` is set if something failed or was left out. At the
    end, ``aims`` are what it applied to, and ``scope`` its scope if that is one queue; ``taken`` is how many messages
    left their queue, ``change`` its number in the journal, and ``undone`` the number of the change that it undid. With
    ``may_undo``, the line says that the key undoes it, as long as that is so.
    """

    words: str
    is_running: bool = False
    handled: int = 0
    planned: int | None = None
    skipped: int = 0
    failed: int = 0
    is_stopping: bool = False
    is_alarm: bool = False
    scope: "Scope | None" = None
    taken: int = 0
    change: int | None = None
    undone: int | None = None
    aims: Aims = ()
    may_undo: bool = False


def end_of(report: "ChangeReport", keymap: Keymap) -> ChangeStatus:
    """Return the outcome of a change."""
    from rsmq_tui.triage.actions import Undo, action_named  # noqa: PLC0415 - only a change needs it

    action = action_named(report.name)
    may_undo = report.undoable and action is not Undo
    is_alarm = bool(report.tally.failed) or report.stopped not in (None, ON_REQUEST)
    taken = report.tally.done if action.takes_away or action.moves_away else 0
    changed = count(len(report.changed))
    retries = f" · {keymap.first_key('retry')} retries the {changed} received or changed" if report.changed else ""
    words = report.sentence + retries
    return ChangeStatus(words, is_alarm=is_alarm, taken=taken, change=report.change, may_undo=may_undo)


def meant_by(scope: "Scope | None") -> str:
    """Describe the messages that a form applies to; empty if there is no scope."""
    from rsmq_tui.triage.scope import Everything, Marked, Matching  # noqa: PLC0415 - only a change needs it

    match scope:
        case Marked(messages=(message,)):
            return f"the message {message.id}"
        case Marked(messages=messages):
            return f"the {plural(len(messages), 'marked message')}"
        case Matching(filter=wanted) if wanted.text.strip():
            return f"all that match {wanted.text.strip()}, in the whole queue"
        case Matching() | Everything():
            return "every message of the queue"
    return ""


def end_of_export(exported: "Exported | None", path: Path) -> ChangeStatus:
    """Return the outcome of an export: what it wrote, and what it left out."""
    from rsmq_tui.monitor.filters.search import INCOMPLETE  # noqa: PLC0415 - not before the first paint

    if exported is None:
        return ChangeStatus(f"exported {plural(0, 'message')} to {path}")
    # Messages that could not be searched might not have matched: they are not part of the total.
    whole = exported.written + exported.cut + exported.gone
    some = f"{count(exported.written)} of " if exported.written < whole else ""
    reasons = (
        (exported.cut, "too long to read"),
        (exported.gone, "gone meanwhile"),
        (exported.unsearched, "too long to search"),
    )
    left_out = ", ".join(f"{count(number)} {reason}" for number, reason in reasons if number)
    but = f" (left out: {left_out})" if left_out else ""
    missing = f"; {INCOMPLETE}" if exported.is_incomplete else ""
    words = f"exported {some}{plural(whole, 'message')}{but} to {path}{missing}"
    return ChangeStatus(words, is_alarm=bool(left_out or missing))


def interrupted(change: "Change", ns: str, undo: str) -> str:
    """Describe a change that was interrupted earlier; ``undo`` is the key that undoes it."""
    what = f"{change.past} {count(change.done)} of {count(change.planned)} in {printable(change.queue, 60)}"
    if change.ns != ns:
        what += f" (namespace {printable(change.ns, 40)})"
    if change.doubt:
        what += f" ({change.doubt})"
    undoes = f"; {undo} undoes it" if change.can_be_undone and change.ns == ns else ""
    return f"A change was interrupted: {what}{undoes}"


def _undo(server: WatchedServer, change: int, _: "ScanCallback") -> "Awaitable[Preview]":
    return server.triage.preview_undo(change)


# How long the outcome of a change is shown.
STATUS_S = 30.0
# How long quitting waits for the current batch; after that, the next start finds out whether it was executed.
_QUIT_S = 10.0
_GIVE_UP_S = 1.0


class ChangeController:
    """Runs the changes of an app, one at a time, each on one of its servers.

    ``shown`` returns the snapshot that is shown of a place; ``show`` gets each new value of ``status``, and None at the
    end.
    """

    def __init__(
        self,
        app: App[Any],
        shown: Callable[[str], Snapshot | None],
        show: Callable[[ChangeStatus | None], None],
    ) -> None:
        self.status: ChangeStatus | None = None
        self._app = app
        self._shown = shown
        self._show_in_screens = show
        self._run: RunningChange | SeveralRun | None = None
        self._worker: Worker[None] | None = None
        self._is_stopping = False
        self._ended = asyncio.Event()
        self._recovered: set[str] = set()
        self._skipped: tuple[WatchedServer, Action, Scope] | None = None
        # The changes of the last action on the results of a search over queues, one for each queue, and its name.
        self._several: tuple[_Made, ...] = ()
        # The changes that an undo would revert, by place, namespace and queue, and the version of the journal then.
        self._undoable: dict[tuple[str, str, str | None], tuple[object, Change | None]] = {}
        self.is_undoable = True

    @property
    def is_running(self) -> bool:
        """Whether a change is running."""
        # For Textual, a worker is not running before its first step.
        return self._worker is not None and not self._worker.is_finished

    def ask(
        self,
        server: WatchedServer,
        name: str,
        queue: str,
        scope: "Scope | None" = None,
        *,
        body: bytes | None = None,
        about: str = "",
    ) -> bool:
        """Show the form of the action, if it has one, then its preview; False if it may not start now.

        ``scope`` is what it applies to, which ``about`` describes if given; ``body`` is the initial body of a message
        to send.
        """
        return self.ask_several((Aim(server, queue, scope),), name, body=body, about=about)

    def ask_several(self, aims: Aims, name: str, *, body: bytes | None = None, about: str = "") -> bool:
        """Show the form of the action, if it has one, then one preview of all aims; False if it may not start now.

        The queues are of one kind.
        """
        server, queue, scope = aims[0].server, aims[0].queue, aims[0].scope
        if not all(map(self.may_begin, {aim.server: None for aim in aims})):
            return False
        # Imported on first use, like everything that only a change needs.
        from rsmq_tui.triage.actions import action_named  # noqa: PLC0415
        from rsmq_tui.tui.changes.forms import FormScreen  # noqa: PLC0415

        form_of = (server.kind if "forms" in server.kind.parts else RSMQ).part("forms")
        form = form_of(name, queue, self._shown(server.place), body)
        if form is None:
            self._preview(aims, action_named(name)(queue=queue))
            return True
        where = f"on {printable(server.place, 40)}: " if server.place else ""
        if len(aims) > 1:
            about, form = (
                f"the marked messages in {len(aims):,} queues",
                replace(form, title=f"{len(aims):,} queues: {name}"),
            )
        screen: FormScreen[Action] = FormScreen(
            form,
            lambda action: self._preview(aims, action, screen),
            note=f"{where}preview first",
            about=about or meant_by(scope),
        )
        self._app.push_screen(screen)
        return True

    def fix(self, server: WatchedServer, queue: str, findings: "tuple[Finding, ...]", ns: str | None) -> None:
        """Preview the fix of these findings."""
        if self.may_begin(server):
            from rsmq_tui.triage.actions import Fix  # noqa: PLC0415

            self._preview((Aim(server, queue),), Fix(queue=queue, findings=findings, ns=ns))

    def undo(
        self,
        server: WatchedServer,
        queue: str | None,
        change: int | None = None,
        verb: str = "Undo",
        scope: "PartScope | None" = None,
    ) -> None:
        """Preview the undo of a change, by default of the last one (of that queue), or of its messages in a scope.

        If the last one is part of an action on several queues, that is undone in all of them.
        """
        if change is None and queue is None and self._several and self.may_begin(server):
            _: Worker[None] = self._app.run_worker(partial(self._undo_last, server, verb), group="undo", exclusive=True)
        else:
            self._undo_one(server, queue, change, verb, scope)

    async def _undo_last(self, server: WatchedServer, verb: str) -> None:
        from rsmq_tui.triage.errors import TriageError  # noqa: PLC0415

        last: Change | None = None
        # The preview shows problems of the journal.
        with suppress(TriageError):
            last = await server.triage.last_undoable()
        if self._is_of_several(server, last):
            self.undo_several()
        else:
            self._undo_one(server, None, None, verb)

    def _is_of_several(self, server: WatchedServer, change: "Change | None") -> bool:
        return change is not None and any(
            made.server is server and made.change == change.change for made in self._several
        )

    def _undo_one(
        self,
        server: WatchedServer,
        queue: str | None,
        change: int | None,
        verb: str,
        scope: "PartScope | None" = None,
    ) -> None:
        if self.may_begin(server):
            preview = partial(server.triage.preview_undo, change, queue=queue, scope=scope)
            self._confirm((Aim(server, queue or ""),), verb, lambda on_progress: preview(on_progress=on_progress))

    def undo_several(self) -> bool:
        """Preview the undo of the last action of a search over queues, in all of its queues.

        False if there was none, or it is undone.
        """
        changes = self._several
        if not changes or not all(self.may_begin(made.server) for made in changes):
            return bool(changes)
        from rsmq_tui.triage.several import PreviewRequest, preview_several  # noqa: PLC0415

        aims = tuple(Aim(made.server, made.queue) for made in changes)
        requests = [
            PreviewRequest(made.server.triage, made.queue, partial(_undo, made.server, made.change))
            for made in reversed(changes)
        ]
        self._confirm(aims, "Undo", partial(preview_several, requests))
        return True

    @property
    def undo_several_words(self) -> str:
        """What the undo of the last action reverts, in all of its queues; empty if there is nothing."""
        several = self._several
        if not several:
            return ""
        where = f" in {len(several):,} queues" if len(several) > 1 else ""
        return f"undo {several[0].name} {compact(sum(made.done for made in several))}{where}"

    @property
    def server_to_undo(self) -> WatchedServer | None:
        """The server of the last change, while the line of its outcome says that the key undoes it; otherwise None."""
        status = self.status
        if status is None or not status.aims or not self.is_undoable or not status.may_undo:
            return None
        return status.aims[0].server

    def undo_words(self, server: WatchedServer, queue: str | None) -> str:
        """Return what an undo reverts: undo delete 5; empty if there is nothing."""
        triage = server.triage_in_use
        version, change = self._undoable.get((server.place, triage.ns, queue), (None, None)) if triage else (None, None)
        if triage is None or change is None or version != triage.journal_version:
            # Another change may be the last one by now; the next poll looks it up.
            return ""
        if queue is None and self._is_of_several(server, change):
            return self.undo_several_words
        return f"undo {change.name} {compact(change.done)}"

    def follow_undo(self, server: WatchedServer, queue: str | None) -> None:
        """Look up what an undo reverts, if the journal has changed since."""
        if self.is_running:
            return
        triage = server.triage_in_use
        # A screen that is shown before the first change must not wait for imports that only changes need.
        if triage is None or not server.can_change:
            if self.status is not None:
                self._show_undo(None)
            return
        known, version = self._undoable.get((server.place, triage.ns, queue)), triage.journal_version
        if known is None or known[0] != version:
            work = partial(self._look_up_undo, server, queue, version)
            _: Worker[None] = self._app.run_worker(work, group="undo", exclusive=True)
        else:
            self._show_undo(known[1] if version is not None else None)

    async def _look_up_undo(self, server: WatchedServer, queue: str | None, version: object) -> None:
        from rsmq_tui.triage.errors import TriageError  # noqa: PLC0415

        ns, found = server.triage.ns, None
        if version is not None:
            # Problems of the journal are shown when it is used.
            with suppress(TriageError):
                found = await server.triage.last_undoable(queue)
        self._undoable[server.place, ns, queue] = version, found
        self._show_undo(found)

    def _show_undo(self, found: "Change | None") -> None:
        """Show in the hints what is undone; remove the hint from the last outcome, unless it is of the same change."""
        if not self._app.screen_stack:
            # The app is closing.
            return
        for hints in self._app.screen.query("KeyHints").results(Painted):
            hints.repaint()
        status = self.status
        is_undoable = status is None or status.change is None or (found is not None and found.change == status.change)
        if is_undoable != self.is_undoable:
            self.is_undoable = is_undoable
            for line in self._app.screen.query("ChangeLine").results(Painted):
                line.repaint()

    def retry_skipped(self) -> None:
        """Preview the last change for the messages that it skipped because they were received meanwhile."""
        if self._skipped is None:
            self._app.notify("no skipped message can be retried", severity="warning", markup=False)
            return
        server, action, scope = self._skipped
        if self.may_begin(server):
            self._preview((Aim(server, action.queue, scope),), action)

    def export(self, server: WatchedServer, queue: str, scope: "Scope | None") -> None:
        """Ask for a file, then write messages to it; this changes nothing, and is allowed on a read-only server."""
        self.export_several((Aim(server, queue, scope),))

    def export_several(self, aims: Aims) -> None:
        """As ``export``, for messages of several queues; each line then names its queue."""
        servers = list({aim.server: None for aim in aims})
        if self._is_busy() or self._has_dialog or not all(server.can_export for server in servers):
            return
        if any(map(self._is_between, servers)):
            return
        from rsmq_tui.tui.changes.command_line import NoCommandError, export_command  # noqa: PLC0415
        from rsmq_tui.tui.changes.forms import FormScreen, export_form  # noqa: PLC0415

        def begin(path: Path) -> None:
            if self._is_busy() or self._app.screen is not screen:
                return
            screen.dismiss()
            self._start(servers, partial(self._export, aims, path), "exporting", None)

        def command(path: Path, _: "Answers") -> str:
            if not is_one:
                raise NoCommandError("a command exports one queue, or those of a pattern of names")
            of = aim.server.triage
            return export_command(path, aim.queue, aim.scope, server=of.server, ns=of.ns, profile=of.profile)

        aim, is_one = aims[0], len(aims) == 1
        screen = FormScreen(
            export_form(aim.queue if is_one else "messages"),
            begin,
            yes="Export",
            note="the server is not changed",
            about=meant_by(aim.scope) if is_one else f"the marked or matching messages in {len(aims):,} queues",
            command=command,
        )
        self._app.push_screen(screen)

    def stop(self) -> None:
        """Stop the running change after its current batch."""
        self._is_stopping = True
        if self._run is not None:
            self._run.stop()
        if self.status is not None and self.status.is_running:
            self._show(replace(self.status, is_stopping=True))

    async def stop_and_wait(self) -> None:
        """Stop the running change, and wait for its current batch; raises TimeoutError."""
        self.stop()
        async with asyncio.timeout(_QUIT_S):
            await self._ended.wait()

    def recover(self, server: WatchedServer, address: str) -> None:
        """Settle interrupted changes of a server, once, after its first snapshot is shown."""
        # Namespaces of one server share a journal.
        if server.can_change and server.can_export and address not in self._recovered:
            self._recovered.add(address)
            self._app.call_after_refresh(self._app.run_worker, partial(self._recover, server), group="recover")

    async def aclose(self) -> None:
        """Abandon what is still running; the next start settles it."""
        if self._worker is not None and self.is_running:
            self._worker.cancel()
            with suppress(TimeoutError):
                async with asyncio.timeout(_GIVE_UP_S):
                    await self._ended.wait()

    def say_read_only(self) -> None:
        """Show that nothing can be changed."""
        from rsmq_tui.triage.service import READ_ONLY  # noqa: PLC0415 - not before the first paint

        self._app.notify(READ_ONLY, severity="warning", markup=False)

    def may_begin(self, server: WatchedServer) -> bool:
        """Return whether a change may begin now; if not, show why."""
        if not server.can_change:
            self.say_read_only()
            return False
        return not self._is_busy() and not self._has_dialog and not self._is_between(server)

    def _is_between(self, server: WatchedServer) -> bool:
        """Return whether the screen still shows another namespace than the one to change; if so, show a toast."""
        snapshot = self._shown(server.place)
        awaited = None if snapshot is None else server.awaited_ns(snapshot.ns)
        if snapshot is not None and awaited is not None:
            shown, coming = (printable_ns(ns, 40) for ns in (snapshot.ns, awaited))
            words = f"namespace {shown} is still shown: wait until {coming} is loaded"
            self._app.notify(words, severity="warning", markup=False)
        return awaited is not None

    def _is_busy(self) -> bool:
        if self.is_running:
            self._app.notify("a change is running: esc stops it", severity="warning", markup=False)
        return self.is_running

    @property
    def _has_dialog(self) -> bool:
        return isinstance(self._app.screen, ModalScreen)

    def _preview(self, aims: Aims, action: "Action", behind: "FormScreen[Any] | None" = None) -> None:
        if behind is not None and self._app.screen is not behind:
            return
        from rsmq_tui.triage.actions import Move  # noqa: PLC0415
        from rsmq_tui.triage.several import PreviewRequest, preview_several  # noqa: PLC0415

        def previewer(action: "Action") -> "Previewer":
            if len(aims) == 1:
                # Its queue may differ from that of the aim: the name of a queue to create comes from the form.
                return partial(aims[0].server.triage.preview, action, aims[0].scope)
            asked = [
                PreviewRequest(
                    aim.server.triage,
                    aim.queue,
                    partial(aim.server.triage.preview, replace(action, queue=aim.queue), aim.scope),
                )
                for aim in aims
            ]
            return partial(preview_several, asked)

        preview_wider = partial(aims[0].server.triage.preview, action) if len(aims) == 1 else None
        preview_creating: Previewer | None = None
        if isinstance(action, Move) and not action.create:
            preview_creating = previewer(replace(action, create=True))
        self._confirm(aims, action.verb, previewer(action), behind, preview_wider, preview_creating)

    def _confirm(
        self,
        aims: Aims,
        verb: str,
        previewer: "Previewer",
        behind: "FormScreen[Any] | None" = None,
        preview_wider: "ScopePreviewer | None" = None,
        preview_creating: "Previewer | None" = None,
    ) -> None:
        from rsmq_tui.tui.changes.confirm import ConfirmScreen  # noqa: PLC0415

        screen = ConfirmScreen(verb, previewer, aims[0].server.colour, preview_wider, preview_creating)
        self._app.push_screen(screen, partial(self._begin, aims, behind))

    def _begin(self, aims: Aims, behind: "FormScreen[Any] | None", preview: "Preview | None") -> None:
        # If the preview is cancelled, the form behind it stays, with its answers.
        if preview is None:
            return
        if self._is_busy():
            preview.close()
            return
        if behind is not None:
            behind.dismiss()
        from rsmq_tui.triage.several import run_of  # noqa: PLC0415

        self._run = run = run_of(aims[0].server.triage, preview)
        self._skipped = None
        servers = list({aim.server: None for aim in aims})
        self._start(servers, partial(self._make, aims, run), preview.action.doing, preview.count)

    def _start(
        self,
        servers: Sequence[WatchedServer],
        work: Callable[[], Awaitable[ChangeStatus]],
        words: str,
        planned: int | None,
    ) -> None:
        self._is_stopping = False
        self._ended.clear()
        self._show(ChangeStatus(words, is_running=True, planned=planned))
        self._worker = self._app.run_worker(partial(self._to_end, servers, work), name=words, group="change")

    async def _to_end(self, servers: Sequence[WatchedServer], work: Callable[[], Awaitable[ChangeStatus]]) -> None:
        from rsmq_tui.triage.errors import TriageError  # noqa: PLC0415

        try:
            status = await work()
        except TriageError as error:
            status = ChangeStatus(f"it failed: {error}", is_alarm=True)
        finally:
            self._run = None
            self._ended.set()
            for server in servers:
                server.source.wake()
        self._show(status)

    async def _make(self, aims: Aims, run: "RunningChange | SeveralRun") -> ChangeStatus:
        from rsmq_tui.triage.actions import Undo  # noqa: PLC0415

        words = run.preview.action.doing
        async for tally in run:
            counts = {"skipped": tally.skipped.total(), "failed": tally.failed.total()}
            self._show_progress(words, tally.handled, tally.planned, **counts)
        if run.report is None:
            raise RuntimeError("a change without an end")
        action, status = run.preview.action, end_of(run.report, keymap_of(self._app))
        if run.report.retry is not None:
            self._skipped = aims[0].server, action, run.report.retry
        undone = action.change if isinstance(action, Undo) and run.report.tally.done else None
        if len(aims) == 1:
            # For the last change of a server, and for a queue to create, the name comes from the preview.
            aims = (aims[0]._replace(queue=action.queue),)
        if isinstance(action, Undo):
            self._forget_undone(run.preview)
        elif aims[0].is_found:
            self._remember_several(aims, run.report)
        return replace(status, aims=aims, scope=aims[0].scope if len(aims) == 1 else None, undone=undone)

    def _remember_several(self, aims: Aims, report: "ChangeReport") -> None:
        """Remember the changes of an action on the results of a search, for ``undo_several``."""
        from rsmq_tui.triage.several import SeveralReport  # noqa: PLC0415

        reports = report.reports if isinstance(report, SeveralReport) else ((aims[0].server.triage, report),)
        by_service = {id(aim.server.triage): aim.server for aim in aims}
        self._several = tuple(
            _Made(by_service[id(service)], each.change, each.queue, each.name, each.tally.done)
            for service, each in reports
            if each.change is not None and each.undoable
        )

    def _forget_undone(self, preview: "Preview") -> None:
        """Forget those of the remembered changes that an undo has undone."""
        from rsmq_tui.triage.actions import Undo  # noqa: PLC0415
        from rsmq_tui.triage.several import previews_in  # noqa: PLC0415

        undone = {each.action.change for each in previews_in(preview) if isinstance(each.action, Undo)}
        self._several = tuple(each for each in self._several if each.change not in undone)

    async def _export(self, aims: Aims, path: Path) -> ChangeStatus:
        from rsmq_tui.triage.several import export_several  # noqa: PLC0415

        exported: Exported | None = None
        async with aclosing(export_several([(aim.server.triage, aim.queue, aim.scope) for aim in aims], path)) as parts:
            async for exported in parts:
                progress = exported.progress
                left_out = exported.cut + exported.gone + exported.unsearched
                self._show_progress(
                    "exporting", progress.scanned, max(progress.scanned, progress.depth), skipped=left_out
                )
                if self._is_stopping:
                    return ChangeStatus("export stopped: no file was written")
        return end_of_export(exported, path)

    async def _recover(self, server: WatchedServer) -> None:
        from rsmq_tui.triage.change import State  # noqa: PLC0415
        from rsmq_tui.triage.errors import TriageError  # noqa: PLC0415

        try:
            found = await server.triage.recover()
        except TriageError as error:
            self._app.notify(printable(str(error)), title="Interrupted changes could not be read", markup=False)
            return
        for change in found:
            if change.state is State.INTERRUPTED:
                words = interrupted(change, server.triage.ns, keymap_of(self._app).first_key("undo"))
                self._app.notify(words, severity="warning", markup=False, timeout=20)

    def _show_progress(self, words: str, handled: int, planned: int, *, skipped: int = 0, failed: int = 0) -> None:
        status = ChangeStatus(
            words,
            is_running=True,
            handled=handled,
            planned=planned,
            skipped=skipped,
            failed=failed,
            is_stopping=self._is_stopping,
        )
        self._show(status)

    def _show(self, status: ChangeStatus | None) -> None:
        self.status = status
        self.is_undoable = True
        self._show_in_screens(status)
        if status is not None and not status.is_running:
            self._app.set_timer(STATUS_S, partial(self._forget, status))

    def _forget(self, status: ChangeStatus) -> None:
        if self.status is status:
            self._show(None)
