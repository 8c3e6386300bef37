"""A TCP proxy before a real server that can be told to misbehave: hang, hang up, be slow, lie, talk nonsense."""

import asyncio
import contextlib
import re
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Self

_COMMAND = re.compile(rb"\*\d+\r\n\$")
_READ_BYTES = 1 << 16
_APART_S = 1e-6

# What becomes of a reply's bytes: what is passed on, and whether the connection ends after that.
Change = Callable[[bytes], tuple[bytes, bool]]


# How much a slow link takes before it makes the sender wait.
_BUFFERED_S = 0.05


class _Wire:
    """One direction of a link that all connections share: its bandwidth, and how long a byte is on the way."""

    def __init__(self, bytes_s: float, way_s: float) -> None:
        self._bytes_s, self._way_s = bytes_s, way_s
        self._free_at_s = self._delivered_s = 0.0

    async def carry(self, data: bytes, to: asyncio.StreamWriter) -> None:
        """Deliver data when it would have arrived; return when the link takes more."""
        loop = asyncio.get_running_loop()
        self._free_at_s = max(loop.time(), self._free_at_s) + len(data) / self._bytes_s
        # Timers of the same time are called in any order.
        self._delivered_s = max(self._free_at_s + self._way_s, self._delivered_s + _APART_S)
        loop.call_at(self._delivered_s, _write, to, data)
        await asyncio.sleep(max(0.0, self._free_at_s - loop.time() - _BUFFERED_S))


def _write(to: asyncio.StreamWriter, data: bytes) -> None:
    # It may have gone meanwhile.
    if not to.is_closing():
        to.write(data)


class Proxy:
    """Listens on a port of its own and forwards to ``target`` until it is told otherwise.

    What ``forward``, ``answer``, ``swallow``, ``change``, ``crumble`` and ``slow`` say holds for the connections that
    are open and for those to come. ``asked`` is everything that clients have sent. It lives in a thread of its own.
    """

    def __init__(self, target: int) -> None:
        self.asked = bytearray()
        self.connections = 0
        self.port = 0
        self._target = target
        self._answer: bytes | None = None
        self._change: Change | None = None
        self._crumb_bytes = _READ_BYTES
        self._wires: tuple[_Wire, _Wire] | None = None
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._listener: asyncio.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        self.listen()
        return self

    def __exit__(self, *_: object) -> None:
        self.refuse()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def forward(self) -> None:
        """Do what a proxy does; connections that missed something are closed."""
        was_honest = self._answer is None and self._change is None
        self._answer = self._change = None
        self._crumb_bytes, self._wires = _READ_BYTES, None
        if not was_honest:
            self.drop()

    def answer(self, reply: bytes) -> None:
        """Give this reply to each command, and forward nothing."""
        self._answer = reply

    def swallow(self) -> None:
        """Take everything and say nothing, as a server that hangs."""
        self.answer(b"")

    def change(self, change: Change) -> None:
        """Pass commands on, and replies as this function wants them."""
        self._change = change

    def crumble(self) -> None:
        """Pass replies on a few bytes at a time."""
        self._crumb_bytes = 7

    def slow(self, bytes_s: float, round_trip_s: float) -> None:
        """Pass everything on as a link of that bandwidth, in each direction, and that round trip."""
        self._wires = _Wire(bytes_s, round_trip_s / 2), _Wire(bytes_s, round_trip_s / 2)

    def drop(self) -> None:
        """Close the connections that are open."""
        self._do(self._close_connections())

    def listen(self) -> None:
        """Take connections, on the same port as before."""
        self._do(self._open_port())

    def refuse(self) -> None:
        """Close the port and all connections."""
        self._do(self._close_port())

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _open_port(self) -> None:
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._listener.sockets[0].getsockname()[1]

    async def _close_port(self) -> None:
        if self._listener is not None:
            # asyncio leaves a connection open that it accepted just now if its listener is closed before the next turn.
            for listening in self._listener.sockets:
                asyncio.get_running_loop().remove_reader(listening)
            await asyncio.sleep(0)
            self._listener.close()
            self._listener = None
        # What was accepted just now becomes a connection by tasks that know nothing of this.
        own = asyncio.current_task()
        while tasks := asyncio.all_tasks() - {own}:
            for client in self._open.values():
                client.close()
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)

    async def _close_connections(self) -> None:
        # One that was accepted just now is closed too.
        await asyncio.sleep(0)
        served = dict(self._open)
        for client in served.values():
            client.close()
        if served:
            await asyncio.wait(served)

    async def _serve(self, client_reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = client
        self.connections += 1
        try:
            server_reader, server = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            client.close()
            del self._open[task]
            return
        pumps = [
            asyncio.create_task(self._take(client_reader, client, server)),
            asyncio.create_task(self._bring_back(server_reader, client)),
        ]
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        for end in (client, server):
            end.close()
            with contextlib.suppress(OSError):
                await end.wait_closed()
        del self._open[task]

    async def _take(
        self, client_reader: asyncio.StreamReader, client: asyncio.StreamWriter, server: asyncio.StreamWriter
    ) -> None:
        while data := await client_reader.read(_READ_BYTES):
            self.asked += data
            answer = self._answer
            if answer is None and self._wires is not None:
                await self._wires[0].carry(data, server)
            elif answer is None:
                server.write(data)
                await server.drain()
            else:
                client.write(answer * max(1, len(_COMMAND.findall(data))))
                await client.drain()

    async def _bring_back(self, server_reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        while data := await server_reader.read(self._crumb_bytes):
            if self._answer is not None:
                continue
            is_over = False
            if self._change is not None:
                data, is_over = self._change(data)
            if self._wires is not None:
                await self._wires[1].carry(data, client)
            else:
                client.write(data)
                await client.drain()
            if is_over:
                return
