"""`rsmq-tui serve` as a process, its pages without a browser, and the processes that belong to it."""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests.cli.running import PROGRAM, environment
from tests.hostile.emulator import Screen
from tests.waiting import SECONDS_MAX, until


def descendants(pid: int) -> set[int]:
    """The processes that a process has started, and those that these have."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] != "Z":
                parents.setdefault(int(fields[1]), []).append(int(folder.name))
    found: set[int] = set()
    left = [pid]
    while left:
        children = parents.get(left.pop(), [])
        found.update(children)
        left += children
    return found


def alive(pids: set[int]) -> set[int]:
    """Those of the processes that still run."""
    running = set()
    for pid in pids:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            continue
        if stat.rpartition(")")[2].split()[0] != "Z":
            running.add(pid)
    return running


class Serving:
    """A running `rsmq-tui serve`; ``address`` is what it printed, ``base`` that without a secret."""

    def __init__(self, process: asyncio.subprocess.Process, line: str) -> None:
        self.process = process
        self.line = line
        self.address = line.rsplit(" ", 1)[-1].strip()
        self.base = self.address.partition("?")[0]
        self.origin = "/".join(self.base.split("/")[:3])

    @property
    def sessions(self) -> set[int]:
        """The processes of its pages, and what these have started."""
        return descendants(self.process.pid)


@asynccontextmanager
async def serving(*arguments: str, state: Path, env: Mapping[str, str] | None = None) -> AsyncIterator[Serving]:
    """Serve on a free port, with a folder for what is kept."""
    given = {"HOME": str(state), "XDG_STATE_HOME": str(state), "XDG_CONFIG_HOME": str(state), **(env or {})}
    process = await asyncio.create_subprocess_exec(
        *PROGRAM,
        *arguments,
        env=environment(**given),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stderr is not None
        async with asyncio.timeout(SECONDS_MAX):
            lines: list[str] = []
            while not (lines and "serving" in lines[-1]):
                line = (await process.stderr.readline()).decode()
                assert line, lines
                lines.append(line)
        assert re.search(r"http://\S+$", lines[-1]), lines
        yield Serving(process, lines[-1])
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


class Viewer:
    """A page without a browser: a WebSocket, and the screen that its session has drawn."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, size: tuple[int, int]) -> None:
        self.socket = socket
        self.screen = Screen(*size)
        self.output = b""
        self.messages: list[Any] = []
        self._reading = asyncio.create_task(self._read())

    @property
    def text(self) -> str:
        """The words on its screen."""
        return self.screen.text

    @property
    def is_closed(self) -> bool:
        """Whether the server has closed it."""
        return self._reading.done()

    async def says(self, *words: str) -> None:
        """Wait until words are on the screen."""
        try:
            await until(lambda: all(each in self.text for each in words) or self.is_closed, str(words))
        except AssertionError as error:
            raise AssertionError(f"{error}; on the screen is\n{self.text}") from None
        assert all(each in self.text for each in words), (self.socket.close_code, self.text)

    async def closed(self) -> tuple[int | None, str]:
        """Wait until the server closes it, and return the code and why."""
        async with asyncio.timeout(SECONDS_MAX):
            await self._reading
        return self.socket.close_code, self._why

    async def type(self, text: str) -> None:
        """Type a text."""
        await self.socket.send_json(["stdin", text])

    async def _read(self) -> None:
        self._why = ""
        while True:
            message = await self.socket.receive()
            if message.type is aiohttp.WSMsgType.BINARY:
                self.output += message.data
                self.screen.write(message.data.decode())
            elif message.type is aiohttp.WSMsgType.TEXT:
                self.messages.append(message.json())
            else:
                self._why = str(message.extra or "")
                return


@asynccontextmanager
async def viewing(
    at: Serving, link: str = "", size: tuple[int, int] = (120, 30), **options: Any
) -> AsyncIterator[Viewer]:
    """Open a page, as the script of a page does, and close it."""
    asked = {"width": str(size[0]), "height": str(size[1]), **({"link": link} if link else {})}
    async with aiohttp.ClientSession() as session:
        socket = await session.ws_connect(f"{at.base}ws", params=asked, origin=at.origin, **options)
        viewer = Viewer(socket, size)
        try:
            yield viewer
        finally:
            await socket.close()
            await asyncio.wait([viewer._reading])


def kill(pid: int, number: int) -> None:
    """Send a signal to a process."""
    os.kill(pid, number)
