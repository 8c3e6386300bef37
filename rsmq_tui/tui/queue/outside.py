"""Bodies in other programs: saved to a file, opened in a pager or an editor, or edited there and sent."""

import asyncio
import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult, SuspendNotSupported
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Button, Static
from textual.worker import Worker

from rsmq_tui.files import reason_of
from rsmq_tui.monitor.messages.decoding import LAYERS, encode
from rsmq_tui.monitor.text import printable, size
from rsmq_tui.protocol.rsmq.pages import BODY_BYTES_MAX
from rsmq_tui.tui.changes.forms import FormScreen, lost_json, save_form
from rsmq_tui.tui.keys import bindings_of
from rsmq_tui.tui.screen import DashboardScreen
from rsmq_tui.tui.widgets.body_lines import View, first_view, shown_lines
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
        await asyncio.to_thread(_write_new, path, (body,))
    except OSError as error:
        screen.warn(f"nothing was saved: {printable(reason_of(error), 200)}")
    else:
        screen.notify(f"saved {size(len(body))} to {printable(str(path), 200)}", markup=False)


def _write_new(path: Path, parts: Iterable[bytes], mode: int = 0o600) -> None:
    """Write a file that does not exist, as a whole or not at all; raises ``OSError``."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
    try:
        with os.fdopen(descriptor, "wb") as out:
            out.writelines(parts)
    except OSError:
        path.unlink(missing_ok=True)
        raise


async def open_in_pager(screen: DashboardScreen, body: bytes, view: View) -> None:
    """Show a body in ``$PAGER``, with control characters made visible: the text goes to the terminal."""
    pager = os.environ.get("PAGER") or "less"
    if len(body) > BODY_BYTES_MAX:
        screen.notify(f"writing {size(len(body))} for {printable(pager, 60)}", markup=False)
    lines = (line.encode("utf-8", "replace") for line in shown_lines(body, view))
    await _run(screen, pager, lines, ".txt", mode=0o400)


async def open_copy(screen: DashboardScreen, body: bytes) -> None:
    """Show a body in the user's editor; edits are discarded."""
    await _run(screen, _editor(), (body,), _SUFFIXES[first_view(body)], mode=0o400)


async def edit(
    screen: DashboardScreen, queue: str, body: bytes, about: str, stored: tuple[bytes, tuple[str, ...]] | None
) -> None:
    """Edit a body in the user's editor, and ask to send the result; an unchanged one is not sent.

    If it was decoded, ``stored`` is what it was decoded from and the names of the layers, which it may be sent in.
    """
    edited: bytes | None = body
    while True:
        edited = await _run(screen, _editor(), (edited or b"",), _SUFFIXES[first_view(body)], mode=0o600)
        if edited is None:
            return
        if edited == body or edited == body + b"\n":
            screen.notify("nothing was changed: nothing is sent", markup=False)
            return
        if not body.endswith(b"\n"):
            # Editors end the last line of a file.
            edited = edited.removesuffix(b"\n")
        problem = lost_json(body, edited)
        answer: str | None = "send"
        if problem is not None:
            answer = await screen.app.push_screen_wait(_broken(problem))
        if answer == "send":
            await _ask_to_send(screen, queue, edited, about, stored)
        if answer != "again":
            return


async def _ask_to_send(
    screen: DashboardScreen, queue: str, body: bytes, about: str, stored: tuple[bytes, tuple[str, ...]] | None
) -> None:
    """Ask to send an edited body; a decoded one is sent as it is or, if possible, encoded again."""
    if stored is not None:
        encoded = await asyncio.to_thread(encode, body, *stored)
        how: str | None = "decoded"
        if encoded is not None:
            names = ", ".join(name for name in stored[1] if name in LAYERS)
            how = await screen.app.push_screen_wait(_how_to_send(names))
            if how is None:
                return
        if encoded is not None and how == "encoded":
            body, about = encoded, f"{about}, encoded again: {names}"
        else:
            about = f"{about} as it is shown: decoded"
    screen.dashboard.changes.ask(screen.server, "send", queue, body=body, about=about)


def _editor() -> str:
    return os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"


async def _run(
    screen: DashboardScreen, command: str, parts: Iterable[bytes], suffix: str, *, mode: int
) -> bytes | None:
    """Run a program on a temporary file, in place of the dashboard.

    Return the content of the file afterwards, empty if it may not be written; None if the program failed or was not
    run. Only the user can read the file; it is removed with everything that the program wrote beside it. Nothing is
    polled meanwhile.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="rsmq-tui-", ignore_cleanup_errors=True) as folder:
            path = Path(folder, f"body{suffix}")
            await asyncio.to_thread(_write_new, path, parts, mode)
            if not screen.is_active:
                # A long body takes a while, and the user may have opened something else.
                return None
            if screen.dashboard.changes.is_running:
                screen.warn("a change is running: wait until it has ended")
                return None
            with screen.app.suspend():
                status = _wait_for([*shlex.split(command), str(path)])
            if status == 0:
                return await asyncio.to_thread(path.read_bytes) if mode & 0o200 else b""
            problem = f"ended with status {status}"
    except SuspendNotSupported:
        problem = "cannot be opened from this terminal"
    except (OSError, ValueError) as error:
        problem = reason_of(error)
    screen.warn(f"{printable(command, 60)}: {printable(problem, 200)}")
    return None


def _wait_for(command: list[str]) -> int:
    # Ctrl+C is meant for the program. A handler, unlike an ignored signal, is not inherited by it.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        return subprocess.run(command, check=False).returncode
    finally:
        signal.signal(signal.SIGINT, before)


class QuestionScreen(Dialog[str]):
    """Asks what to do with an edited body; returns the key of an answer, the last of which has the focus."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_of("dialog")

    def __init__(self, question: str, answers: Mapping[str, str]) -> None:
        super().__init__()
        self._question, self._answers = question, answers

    def compose(self) -> ComposeResult:
        """The question, and the buttons."""
        with Vertical(classes="dialog"):
            yield Static(Content(self._question), id="problem")
            with Horizontal(classes="buttons"):
                yield DialogButton("Cancel", id="cancel")
                for key, words in self._answers.items():
                    yield DialogButton(words, id=key)

    def on_mount(self) -> None:
        """Focus the last button."""
        self.query(DialogButton).last().focus()

    @on(Button.Pressed)
    def _answer(self, event: Button.Pressed) -> None:
        self.dismiss(None if event.button.id == "cancel" else event.button.id)


def _broken(problem: str) -> QuestionScreen:
    return QuestionScreen(printable(problem, 200), {"send": "Send nevertheless", "again": "Edit again"})


def _how_to_send(layers: str) -> QuestionScreen:
    question = f"The body of the message is {layers}; you have edited it decoded"
    return QuestionScreen(question, {"decoded": "Send it decoded", "encoded": "Encode it again"})
