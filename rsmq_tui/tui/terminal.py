"""Textual's driver for a terminal that may disappear."""

import asyncio
from contextlib import suppress
from functools import partial
from typing import Any

from textual.app import App
from textual.drivers.linux_driver import LinuxDriver


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


class TerminalDriver(LinuxDriver):
    """Drops output for a terminal that is gone, and resumes only after it was suspended.

    Textual starts its input thread at every SIGCONT. That signal comes also after a SIGSTOP, and with the SIGHUP of a
    terminal that is closed: a second thread would take half of the keys, and a thread that starts while the program
    ends keeps it running forever.
    """

    def __init__(self, app: App[Any], **options: Any) -> None:
        super().__init__(app, **options)
        self._is_running = False
        self._is_suspended = False
        self._repaint = partial(app.refresh, layout=True)
        self._file: Any = _LossyStream(self._file)

    def start_application_mode(self) -> None:
        """Take the terminal."""
        self._call_in_loop = asyncio.get_running_loop().call_soon_threadsafe
        super().start_application_mode()  # type: ignore[no-untyped-call]
        self._is_running = True

    def stop_application_mode(self) -> None:
        """Restore the terminal."""
        self._is_running = False
        super().stop_application_mode()

    def suspend_application_mode(self) -> None:
        """Restore the terminal for some time."""
        super().suspend_application_mode()
        self._is_suspended = True

    def resume_application_mode(self) -> None:
        """Take the terminal again if it was restored; otherwise paint it again, because a shell may have written to
        it."""
        if self._is_suspended:
            self._is_suspended = False
            super().resume_application_mode()
        elif self._is_running:
            # A signal handler may run at any point of the program.
            self._call_in_loop(self._repaint)
