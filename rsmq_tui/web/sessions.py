"""A session: the process of one page, which runs the dashboard with Textual's driver for the web.

Packets in both directions are a type (`D`: terminal data, `M`: JSON), a length in four bytes, and the content.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

_DRIVER = "rsmq_tui.tui.drivers:BrowserDriver"
# The line of Textual's driver before the first packet; output before it is not for the page.
_READY = b"__GANGLION__\n"
_LINES_BEFORE_MAX = 100
_PACKET_BYTES_MAX = 50_000_000
_ERRORS_BYTES_MAX = 20_000
# A running change is stopped after its batch, which may take a while.
_END_S = 10.0
_SIDE_MAX = 500


class Size(NamedTuple):
    """The columns and rows of a terminal."""

    columns: int
    rows: int


def size_of(columns: Any, rows: Any) -> Size | None:
    """Return the size that a page requests; None if it is invalid."""
    try:
        size = Size(int(columns), int(rows))
    except (TypeError, ValueError, OverflowError):
        return None
    return size if 1 <= size.columns <= _SIDE_MAX and 1 <= size.rows <= _SIDE_MAX else None


class Session:
    """A process of this program in a group of its own; start it with ``start``, and end it with ``aclose``.

    ``status`` is its exit status, once it has ended, and ``errors`` the end of its output on stderr.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.errors = b""
        self._is_closed = False
        self._reading = asyncio.create_task(self._read_errors())

    @classmethod
    async def start(cls, arguments: Sequence[str], size: Size, environment: Mapping[str, str]) -> "Session":
        """Start the program with these arguments; ``environment`` is added to that of this process."""
        drawn = {"TEXTUAL_DRIVER": _DRIVER, "TEXTUAL_COLOR_SYSTEM": "truecolor", "TERM": "xterm-256color"}
        sides = {"COLUMNS": str(size.columns), "ROWS": str(size.rows), "PYTHONIOENCODING": "utf-8"}
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "rsmq_tui",
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **drawn, **sides, **environment},
            # Its own group, so that it is killed with all processes that it started.
            start_new_session=True,
        )
        return cls(process)

    @property
    def pid(self) -> int:
        """The id of the process, and of its group."""
        return self._process.pid

    @property
    def status(self) -> int | None:
        """The exit status, None while it runs."""
        return self._process.returncode

    async def output(self) -> AsyncIterator[bytes]:
        """Yield the terminal output of the dashboard, until it ends."""
        stdout = self._process.stdout
        if stdout is None:
            raise RuntimeError("the process has no pipes")
        # Otherwise it has failed to start, and ``errors`` says why.
        with suppress(asyncio.IncompleteReadError, ConnectionError, ValueError):
            for _ in range(_LINES_BEFORE_MAX):
                line = await stdout.readline()
                if line == _READY or not line:
                    break
            while True:
                kind, size = await stdout.readexactly(1), int.from_bytes(await stdout.readexactly(4), "big")
                if size > _PACKET_BYTES_MAX:
                    return
                content = await stdout.readexactly(size)
                if kind == b"D":
                    yield content
                elif kind == b"M" and json.loads(content).get("type") == "exit":
                    return

    async def write(self, data: bytes) -> None:
        """Pass on keys, clicks and pasted text."""
        await self._send(b"D", data)

    async def resize(self, size: Size) -> None:
        """Send the new size of the page's terminal."""
        await self._send_meta(type="resize", width=size.columns, height=size.rows)

    async def focus(self, *, has_focus: bool) -> None:
        """Send whether the page has the focus."""
        await self._send_meta(type="focus" if has_focus else "blur")

    async def aclose(self) -> None:
        """End the process and all that it has started; none of them is left when this returns."""
        if self._is_closed:
            # Its id may belong to another process by now.
            return
        self._is_closed = True
        process = self._process
        try:
            self._signal(signal.SIGTERM)
            if process.stdin is not None:
                process.stdin.close()
            # Its remaining output must be read, because it would wait for that.
            draining = asyncio.create_task(self._drain())
            with suppress(TimeoutError):
                async with asyncio.timeout(_END_S):
                    await process.wait()
            draining.cancel()
        finally:
            # The group may contain more processes than its leader.
            self._signal(signal.SIGKILL)
            await process.wait()
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    async def _drain(self) -> None:
        while self._process.stdout is not None and await self._process.stdout.read(65_536):
            pass

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    async def _send_meta(self, **fields: Any) -> None:
        await self._send(b"M", json.dumps(fields).encode())

    async def _send(self, kind: bytes, content: bytes) -> None:
        stdin = self._process.stdin
        if stdin is not None and not stdin.is_closing():
            with suppress(ConnectionError):
                stdin.write(kind + len(content).to_bytes(4, "big") + content)
                await stdin.drain()

    async def _read_errors(self) -> None:
        stderr = self._process.stderr
        while stderr is not None and (part := await stderr.read(4096)):
            self.errors = (self.errors + part)[-_ERRORS_BYTES_MAX:]
