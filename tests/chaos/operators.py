"""Operators in this process: each with an event loop of its own, without threads, sockets or time that passes.

All that an operator does outside its process is a point: a command on a connection, or work in a thread, which is the
journal's. At each point the round decides what others do first, and which fault comes. Timers end at once when nothing
else is left to do, so that timeouts cost no time; if there are none either, the operator would wait for ever, and
``StuckError`` is raised.
"""

import asyncio
import errno
import selectors
import sys
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import hiredis

from rsmq_tui.files import FileLock
from tests.chaos.model import Ask
from tests.clocked_server import ClockedServer, Line

_NOT_YET = object()
_DISPOSED_TURNS = 2_000
Request = list[bytes]


class StuckError(Exception):
    """An operator waits for something that can never happen."""


class KilledError(Exception):
    """What an operator meets that was killed, while its remains are put away."""


class _Selector(selectors.SelectSelector):
    """Waits for no file, and lets time pass at once."""

    def __init__(self, passed: Callable[[float], None]) -> None:
        super().__init__()
        self.now_s = 0.0
        self._passed = passed

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise StuckError
        if timeout > 0:
            self.now_s += timeout
            self._passed(timeout)
        return []


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self, selector: _Selector) -> None:
        super().__init__(selector)
        self._instant = selector

    def time(self) -> float:
        return self._instant.now_s

    def _write_to_self(self) -> None:
        # There are no other threads that would have to wake it up.
        pass


class _Inline(ThreadPoolExecutor):
    """Does work at once, in this thread, after its operator has reached a point."""

    def __init__(self, operator: "Operator") -> None:
        super().__init__(1)
        self._operator = operator

    def submit(self, work: Callable[..., Any], /, *given: Any, **named: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        operator = self._operator
        if operator.is_put_away:
            future.set_exception(KilledError())
            return future
        if operator.is_dead or not operator.reaches_disk():
            return future
        try:
            future.set_result(work(*given, **named))
        except BaseException as error:
            future.set_exception(error)
        return future


class Wire(asyncio.Transport):
    """One connection of an operator: requests are served one at a time, in turns of the loop of their own.

    ``is_hung`` means that it stays open, and nothing comes back.
    """

    def __init__(self, operator: "Operator", protocol: asyncio.StreamReaderProtocol, line: Line) -> None:
        super().__init__()
        self.operator, self.line = operator, line
        self.requests: deque[Request] = deque()
        self.is_hung, self.is_open, self._is_ending = False, True, False
        self._protocol = protocol
        self._reader = hiredis.Reader(notEnoughData=_NOT_YET)

    def write(self, data: Any) -> None:
        if not self.is_open:
            return
        self._reader.feed(bytes(data))
        while (request := self._reader.gets()) is not _NOT_YET:
            self.requests.append(request)
            self.operator.loop.call_soon(self._serve)

    def _serve(self) -> None:
        if self.requests:
            self.operator.serve(self, self.requests.popleft())

    def answer(self, data: bytes) -> None:
        """Give the operator these bytes."""
        if self.is_open and data:
            self.operator.loop.call_soon(self._answer, data)

    def _answer(self, data: bytes) -> None:
        if self.is_open:
            self._protocol.data_received(data)

    def cut(self, error: Exception | None = None) -> None:
        """End the connection after what was answered; with an error, reset it."""
        if self.is_open and not self._is_ending:
            self._is_ending = True
            self.operator.loop.call_soon(self._end, error)

    def _end(self, error: Exception | None) -> None:
        if self.is_open:
            self.is_open = False
            self._protocol.connection_lost(error)

    def forget(self) -> None:
        """End it, and tell nobody."""
        self.is_open, self._is_ending = False, True
        self.line.close()

    def close(self) -> None:
        self.cut()

    def abort(self) -> None:
        self.cut()

    def is_closing(self) -> bool:
        return self._is_ending

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def get_write_buffer_size(self) -> int:
        return 0

    def can_write_eof(self) -> bool:
        return False


class Operator:
    """Somebody who makes changes, by ``work``, in a loop that runs only within ``run``.

    ``on_command`` is called with each command and returns True if it takes care of the reply; ``on_disk`` before each
    work in a thread, and returns False if that is never done. ``refusals`` is how many of the next connections
    are refused. ``ask`` is what the operator is doing.
    """

    def __init__(
        self,
        name: str,
        server: ClockedServer,
        on_command: Callable[[Wire, Request], None],
        on_disk: Callable[["Operator"], bool],
        passed: Callable[[float], None],
    ) -> None:
        self.name, self._server = name, server
        self._on_command, self._on_disk = on_command, on_disk
        self.is_dead = self.is_put_away = False
        self.refusals = 0
        self.ask: Ask | None = None
        self.messages: list[str] = []
        self.wires: list[Wire] = []
        self.locks: list[FileLock] = []
        self.stop: Callable[[], None] = lambda: None
        self.loop = _Loop(_Selector(passed))
        self.loop.set_default_executor(_Inline(self))
        self.loop.set_exception_handler(self._failed)
        self.failures: list[str] = []
        self.task: asyncio.Task[None] | None = None

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Give it its work."""
        self.task = self.loop.create_task(work)
        self.task.add_done_callback(lambda _: self.loop.stop())

    @property
    def is_over(self) -> bool:
        """Whether its work has ended, or was ended."""
        return self.is_dead or self.task is None or self.task.done()

    def run(self) -> None:
        """Let it work until the round pauses it, it ends or is killed; raises ``StuckError``."""
        _running.append(self)
        try:
            self.loop.run_forever()
        finally:
            _running.pop()

    def pause(self) -> None:
        """Let another one work, after this turn of the loop."""
        self.loop.stop()

    def kill(self) -> None:
        """End it as ``kill -9`` does: it does nothing more, its connections end, and its locks are free."""
        self.is_dead = True
        self.pause()
        for lock in self.locks:
            lock.release()

    def serve(self, wire: Wire, request: Request) -> None:
        """Serve a command."""
        if not self.is_dead:
            self._on_command(wire, request)

    def reaches_disk(self) -> bool:
        """Reach a point on the disk; returns whether it gets past it."""
        return self._on_disk(self) and not self.is_dead

    def open(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection."""
        if self.is_dead:
            raise KilledError
        if port != self._server.port:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"Connect call failed {host, port}")
        if self.refusals:
            self.refusals -= 1
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"Connect call failed {host, port}")
        reader = asyncio.StreamReader(loop=self.loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=self.loop)
        wire = Wire(self, protocol, self._server.connect())
        protocol.connection_made(wire)
        self.wires.append(wire)
        return reader, asyncio.StreamWriter(wire, protocol, reader, self.loop)

    def put_away(self) -> None:
        """End what is left of it; nothing that it still tries has an effect."""
        self.is_dead = self.is_put_away = True
        hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
        try:
            tasks = asyncio.all_tasks(self.loop)
            for task in tasks:
                task.cancel()
            if tasks:
                self.loop.call_later(1.0, self.loop.stop)
                with suppress(BaseException):
                    self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            with suppress(BaseException):
                self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()
        finally:
            sys.unraisablehook = hook
            for wire in self.wires:
                wire.forget()

    def _failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not self.is_put_away:
            self.failures.append(f"{context.get('message')}: {context.get('exception')!r}")


_running: list[Operator] = []


@contextmanager
def in_this_process() -> Iterator[None]:
    """Connect operators to the server by wires, and note the locks that they take, within the block."""
    open_before, acquire_before = asyncio.open_connection, FileLock.acquire.__func__  # type: ignore[attr-defined]

    async def opened(host: str, port: int, **_: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        await asyncio.sleep(0)
        return _running[-1].open(host, port)

    def acquire(cls: type[FileLock], *given: Any, **named: Any) -> FileLock | None:
        lock: FileLock | None = acquire_before(cls, *given, **named)
        if lock is not None and _running:
            _running[-1].locks.append(lock)
        return lock

    asyncio.open_connection = opened  # type: ignore[assignment]
    FileLock.acquire = classmethod(acquire)  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        asyncio.open_connection = open_before
        FileLock.acquire = classmethod(acquire_before)  # type: ignore[assignment, method-assign]
