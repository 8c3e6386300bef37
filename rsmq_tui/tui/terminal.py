"""Textual's driver for a terminal, for one that may go away."""

import asyncio
import os
import select
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Event, current_thread, main_thread
from typing import Any

from textual.app import App
from textual.drivers.linux_driver import LinuxDriver


class _LossyStream:
    """A stream that drops what cannot be written.

    If the terminal is gone, an error would end Textual's thread that writes, and the program would wait for ever for it
    to take the rest.
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


class _InputEnd(Event):
    """Is set also if ``is_over`` is true, which only the input thread asks for."""

    def __init__(self, is_over: Callable[[], bool]) -> None:
        super().__init__()
        self._is_over = is_over

    def is_set(self) -> bool:
        """Return whether the input thread ends."""
        return super().is_set() or (current_thread() is not main_thread() and self._is_over())


class TerminalDriver(LinuxDriver):
    """Drops what a terminal that is gone does not take, and resumes only what was suspended.

    Textual starts its input thread at every SIGCONT. That signal comes also after a SIGSTOP, and with the SIGHUP of a
    terminal that is closed: a second thread would take half of the keys, and one that is started while the program ends
    keeps it running for ever.

    The input thread ends with the main thread, and when the terminal is gone: reading that is an endless loop. Then the
    program gets a SIGHUP, as it does from a terminal that controls it.
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
        self._is_running = True

    def stop_application_mode(self) -> None:
        """Give the terminal back."""
        self._is_running = False
        super().stop_application_mode()

    def suspend_application_mode(self) -> None:
        """Give the terminal back for a while, unless the program begins or ends."""
        if self._is_running:
            super().suspend_application_mode()
            self._is_suspended = True

    def resume_application_mode(self) -> None:
        """Take the terminal again if it was given back; else paint it again, as a shell may have written to it."""
        if self._is_suspended and _is_hung_up(self.fileno):
            self._call_in_loop(self._hang_up)
        else:
            if self._is_suspended:
                self._is_suspended = False
                super().resume_application_mode()
            if self._is_running:
                # A signal's handler runs in the middle of anything.
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
        if not main_thread().is_alive():
            return True
        if not self.input_tty or not _is_hung_up(self.fileno):
            return False
        self._call_in_loop(self._hang_up)
        return True


def _is_hung_up(fileno: int) -> bool:
    """Return whether the other end of a terminal is closed."""
    terminal = select.poll()
    # A hang-up is reported whatever is asked for.
    terminal.register(fileno, 0)
    return any(event & select.POLLHUP for _, event in terminal.poll(0))
