"""Textual's driver for the web, in a process that must not outlive its server."""

import json
import os
import signal
import threading
from contextlib import suppress
from typing import Any

from textual.drivers.web_driver import WebDriver

# The environment variable with the address of the page, which the server sets.
ADDRESS_VARIABLE = "RSMQ_TUI_ADDRESS"
# A running change is stopped after its batch; a process that hangs longer is killed.
_END_S = 15.0


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
