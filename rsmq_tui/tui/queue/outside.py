"""A body outside of the dashboard: saved to a file, opened in a pager or an editor, or edited there and sent."""

import asyncio
import os
import shlex
import signal
import subprocess
import tempfile
from pathlib import Path

from textual import on
from textual.app import ComposeResult, SuspendNotSupported
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Button, Static
from textual.worker import Worker

from rsmq_tui.files import JsonError, parse_json
from rsmq_tui.monitor.text import printable, size
from rsmq_tui.tui.changes.forms import FormScreen, save_form
from rsmq_tui.tui.screen import DashboardScreen
from rsmq_tui.tui.widgets.body_lines import View, first_view, shown_text
from rsmq_tui.tui.widgets.controls import Dialog, DialogButton

_SUFFIXES = {View.PRETTY: ".json", View.RAW: ".txt", View.HEX: ".bin"}


def save(screen: DashboardScreen, id: str, body: bytes, about: str) -> None:
    """Ask for a new file, and write a body to it, which only the user can read."""

    def write(path: Path) -> None:
        async def work() -> None:
            await _write(screen, path, body)

        form.dismiss()
        # Not a partial of the body: Textual takes the repr of what it runs.
        _: Worker[None] = screen.run_worker(work, group="save")

    name = f"{id}{_SUFFIXES[first_view(body)]}"
    form = FormScreen(save_form(name), write, yes="Save", note="the server is not changed", about=about)
    screen.app.push_screen(form)


async def _write(screen: DashboardScreen, path: Path, body: bytes) -> None:
    try:
        await asyncio.to_thread(_write_new, path, body)
    except OSError as error:
        screen.notify(f"nothing was saved: {printable(str(error), 200)}", severity="warning", markup=False)
    else:
        screen.notify(f"saved {size(len(body))} to {printable(str(path), 200)}", markup=False)


def _write_new(path: Path, body: bytes, mode: int = 0o600) -> None:
    """Write a file that does not exist, as a whole or not at all; raises ``OSError``."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
    try:
        with os.fdopen(descriptor, "wb") as out:
            out.write(body)
    except OSError:
        path.unlink(missing_ok=True)
        raise


def open_in_pager(screen: DashboardScreen, body: bytes, view: View) -> None:
    """Show a body in ``$PAGER``, with control characters made visible: it is text that goes to a terminal."""
    text = shown_text(body, view).encode("utf-8", "replace")
    _run(screen, os.environ.get("PAGER") or "less", text, ".txt", mode=0o400)


def open_copy(screen: DashboardScreen, body: bytes) -> None:
    """Show a body in the user's editor; what is written there is lost."""
    _run(screen, _editor(), body, _SUFFIXES[first_view(body)], mode=0o400)


async def edit(screen: DashboardScreen, queue: str, body: bytes, about: str) -> None:
    """Edit a body in the user's editor, and ask to send what it became; an unchanged one is not sent."""
    edited: bytes | None = body
    while True:
        edited = _run(screen, _editor(), edited or b"", _SUFFIXES[first_view(body)], mode=0o600)
        if edited is None:
            return
        if edited == body or edited == body + b"\n":
            screen.notify("nothing was changed: nothing is sent", markup=False)
            return
        if not body.endswith(b"\n"):
            # Editors end the last line of a file.
            edited = edited.removesuffix(b"\n")
        problem = _json_problem(body, edited)
        answer = "send" if problem is None else await screen.app.push_screen_wait(BrokenScreen(problem))
        if answer == "send":
            screen.dashboard.changes.ask(screen.site, "send", queue, body=edited, about=about)
        if answer != "again":
            return


def _json_problem(before: bytes, after: bytes) -> str | None:
    """Return why a body is no longer JSON, with line and column; None if it is, or was none before."""
    try:
        parse_json(before)
    except JsonError:
        return None
    try:
        parse_json(after)
    except JsonError as error:
        return str(error)
    return None


def _editor() -> str:
    return os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"


def _run(screen: DashboardScreen, command: str, body: bytes, suffix: str, *, mode: int) -> bytes | None:
    """Run a program on a temporary file, in place of the dashboard; return what the file holds then, None if it failed.

    Only the user can read the file, and it is removed with all that the program put beside it. Nothing is polled
    meanwhile.
    """
    if screen.dashboard.changes.is_running:
        screen.notify("a change is running: wait until it has ended", severity="warning", markup=False)
        return None
    try:
        with tempfile.TemporaryDirectory(prefix="rsmq-tui-", ignore_cleanup_errors=True) as folder:
            path = Path(folder, f"body{suffix}")
            _write_new(path, body, mode)
            with screen.app.suspend():
                status = _wait_for([*shlex.split(command), str(path)])
            if status == 0:
                return path.read_bytes()
            problem = f"ended with status {status}"
    except SuspendNotSupported:
        problem = "cannot be opened from this terminal"
    except (OSError, ValueError) as error:
        problem = str(error)
    screen.notify(f"{printable(command, 60)}: {printable(problem, 200)}", severity="warning", markup=False)
    return None


def _wait_for(command: list[str]) -> int:
    # Ctrl+C is meant for the program. A handler, unlike an ignored signal, is not inherited by it.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        return subprocess.run(command, check=False).returncode
    finally:
        signal.signal(signal.SIGINT, before)


class BrokenScreen(Dialog[str]):
    """Tells why an edited body is no longer JSON; returns "again", or "send" to send it nevertheless."""

    def __init__(self, problem: str) -> None:
        super().__init__()
        self._problem = problem

    def compose(self) -> ComposeResult:
        """The problem, and the buttons."""
        with Vertical(classes="dialog"):
            yield Static(Content(f"The body was JSON; now it is {printable(self._problem, 200)}"), id="problem")
            with Horizontal(classes="buttons"):
                yield DialogButton("Cancel", id="cancel")
                yield DialogButton("Send nevertheless", id="send")
                yield DialogButton("Edit again", id="again")

    def on_mount(self) -> None:
        """Focus the button that goes back to the editor."""
        self.query_one("#again").focus()

    @on(Button.Pressed)
    def _answer(self, event: Button.Pressed) -> None:
        self.dismiss(None if event.button.id == "cancel" else event.button.id)
