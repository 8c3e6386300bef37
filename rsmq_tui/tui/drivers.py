"""Textual's drivers: for a terminal that may disappear, and for a page, whose process must not outlive its server."""

import asyncio
import json
import os
import select
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.drivers.web_driver import WebDriver

# The environment variable with the address of the page, which the server sets.
ADDRESS_VARIABLE = "RSMQ_TUI_ADDRESS"
# A running change is stopped after its batch; a process that hangs longer is killed.
_END_S = 15.0


class _LossyStream:
    """A stream that drops what cannot be written.

    If the terminal is gone, an error would end Textual's writer thread, and the program would wait forever for it.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write the text."""
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush the stream."""
        with suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _InputEnd(threading.Event):
    """Is set also if ``is_over`` is true, which only the input thread asks for."""

    def __init__(self, is_over: Callable[[], bool]) -> None:
        super().__init__()
        self._is_over = is_over

    def is_set(self) -> bool:
        """Return whether the input thread ends."""
        return super().is_set() or (threading.current_thread() is not threading.main_thread() and self._is_over())


class TerminalDriver(LinuxDriver):
    """Drops output for a terminal that is gone, and resumes only after it was suspended.

    Textual starts its input thread at every SIGCONT. That signal comes also after a SIGSTOP, and with the SIGHUP of a
    terminal that is closed: a second thread would take half of the keys, and a thread that starts while the program
    ends keeps it running forever.

    The input thread ends with the main thread, and when the terminal is gone: reading that is an endless loop. Then the
    program gets a SIGHUP, as it does from a terminal that controls it.

    Textual reads a new size in its handler of SIGWINCH. If the next SIGWINCH interrupts that, the older size is posted
    last, and stays. In the loop, one call follows the other.
    """

    def __init__(self, app: App[Any], **options: Any) -> None:
        super().__init__(app, **options)
        self._is_running = False
        self._is_suspended = False
        self._repaint = partial(app.refresh, layout=True)
        # After all messages: the handler of SIGHUP is installed by one of the first.
        self._hang_up = partial(app.call_later, signal.raise_signal, signal.SIGHUP)
        self.exit_event = _InputEnd(self._is_input_over)
        signal.signal(signal.SIGTSTP, self._stop)
        self._file: Any = _LossyStream(self._file)

    def write(self, data: str) -> None:
        """Write to the terminal, unless it was given back: no thread writes then."""
        if not self._is_suspended:
            super().write(data)

    def start_application_mode(self) -> None:
        """Take the terminal."""
        self._call_in_loop = asyncio.get_running_loop().call_soon_threadsafe
        super().start_application_mode()  # type: ignore[no-untyped-call]
        post_size: Any = signal.getsignal(signal.SIGWINCH)
        signal.signal(signal.SIGWINCH, partial(self._call_in_loop, post_size))
        self._is_running = True

    def stop_application_mode(self) -> None:
        """Restore the terminal."""
        self._is_running = False
        super().stop_application_mode()

    def suspend_application_mode(self) -> None:
        """Restore the terminal for some time, unless the program begins or ends."""
        if self._is_running:
            super().suspend_application_mode()
            self._is_suspended = True

    def resume_application_mode(self) -> None:
        """Take the terminal again if it was restored; otherwise paint, because a shell may have written to it."""
        if self._is_suspended and _is_hung_up(self.fileno):
            self._call_in_loop(self._hang_up)
        else:
            if self._is_suspended:
                self._is_suspended = False
                super().resume_application_mode()
            if self._is_running:
                # A signal handler may run at any point of the program.
                self._call_in_loop(self._repaint)

    def _stop(self, *_: Any) -> None:
        """Stop the program at a SIGTSTP."""
        if self._is_running:
            # A signal's handler runs in the middle of anything: within a write, another write waits for ever.
            self._call_in_loop(self._give_back_and_stop)
        else:
            self._give_back_and_stop()

    def _give_back_and_stop(self) -> None:
        """Give the terminal back and stop, unless the terminal was closed and nobody would continue the program."""
        self.suspend_application_mode()
        if not _is_hung_up(self.fileno):
            os.kill(os.getpid(), signal.SIGSTOP)
        elif self._is_suspended:
            self._call_in_loop(self._hang_up)

    def _is_input_over(self) -> bool:
        if not threading.main_thread().is_alive():
            return True
        if not self.input_tty or not _is_hung_up(self.fileno):
            return False
        self._call_in_loop(self._hang_up)
        return True


def _is_hung_up(fileno: int) -> bool:
    """Return whether the other end of a terminal is closed."""
    terminal = select.poll()
    # A hang-up is always reported.
    terminal.register(fileno, 0)
    return any(event & select.POLLHUP for _, event in terminal.poll(0))


class BrowserDriver(WebDriver):
    """Runs the app on pipes to `rsmq-tui serve`; ends the program when they are closed, however the server ended."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)

    def write(self, data: str) -> None:
        """Write to the terminal of the page."""
        self._send(b"D", data.encode("utf-8", "replace"))

    def write_meta(self, data: dict[str, object]) -> None:
        """Send a message to the server."""
        self._send(b"M", json.dumps(data).encode())

    @property
    def address(self) -> str:
        """The address of the page, without a fragment."""
        return os.environ.get(ADDRESS_VARIABLE, "")

    def run_input_thread(self) -> None:
        """Read the input until the app ends, or end the app when the input does."""
        super().run_input_thread()
        if self.exit_event.is_set():
            return
        guard = threading.Timer(_END_S, _kill_all)
        guard.daemon = True
        guard.start()
        # As for a terminal that is closed: the app waits for a running change.
        os.kill(os.getpid(), signal.SIGTERM)

    def _send(self, kind: bytes, content: bytes) -> None:
        data = kind + len(content).to_bytes(4, "big") + content
        # A page that is gone accepts no output; the server ends this process.
        with suppress(OSError):
            while data:
                data = data[os.write(self.fileno, data) :]


def _kill_all() -> None:
    """Kill this process and all that it has started, if it leads a process group."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
