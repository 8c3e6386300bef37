"""The server: it listens, keeps databases, clients and time, and serves from one thread."""

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import quote

from rsmq_tui.listserver import (
    collection_commands,
    key_commands,
    list_commands,
    scripting_commands,
    server_commands,
    session_commands,
)
from rsmq_tui.listserver.blocking import Blocking, ListKey
from rsmq_tui.listserver.client import Client
from rsmq_tui.listserver.clock import Clock
from rsmq_tui.listserver.command import Command
from rsmq_tui.listserver.faults import Fault
from rsmq_tui.listserver.resp import BULK_LIMIT
from rsmq_tui.listserver.store import Cursors, Database

__all__ = [
    "ListServer",
    "collection_commands",
    "key_commands",
    "list_commands",
    "scripting_commands",
    "server_commands",
    "session_commands",
]

T = TypeVar("T")
DATABASES = 16
_QUERY_LIMIT = 1024 * 1024 * 1024


@dataclass(slots=True)
class Calls:
    """How often a command was called, and for how long."""

    number: int = 0
    duration_ns: int = 0
    failed: int = 0


class ListServer:
    """A server for list queues, in memory only.

    As a context manager it runs in a thread of its own::

        with ListServer() as server:
            client = redis.Redis(port=server.port)

    ``port`` 0 takes a free one; with ``path`` it listens on a Unix socket, with ``port`` None on that alone. On an
    address other than loopback it wants a password: ``ValueError`` is raised without.
    """

    def __init__(
        self, *, host: str = "127.0.0.1", port: int | None = 0, path: Path | str = "", password: str = ""
    ) -> None:
        if not password and port is not None and host not in ("127.0.0.1", "::1", "localhost"):
            raise ValueError(f"{host} can be reached from other machines: set a password")
        self.host, self.port, self.path, self.password = host, port or 0, str(path), password
        self.clock = Clock()
        self.clock.on_move = self._clock_moved
        self.blocking = Blocking(self.clock.now_ms)
        self.databases = [Database(self.clock.now_ms, self._changed) for _ in range(DATABASES)]
        for index, database in enumerate(self.databases):
            database.index = index
        self.watchers: dict[ListKey, set[Client]] = {}
        self.clients: dict[int, Client] = {}
        self.faults: list[Fault] = []
        self.cursors = Cursors()
        self.scripting: scripting_commands.Scripting | None = None
        self.config: dict[str, str] = server_commands.defaults()
        self.bulk_limit, self.query_limit = BULK_LIMIT, _QUERY_LIMIT
        self.pause_until_ms = 0
        self.pauses_all = False
        self.calls: dict[str, Calls] = {}
        self.connections = self.changes = 0
        self.started_ms = self.clock.now_ms()
        self._listens = port is not None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms: int | None = None
        self._end: asyncio.Event | None = None

    # Start and end.

    async def run(self, on_start: Callable[[], object] = lambda: None) -> None:
        """Listen and serve until ``stop`` is called; raises ``OSError`` if the address cannot be had."""
        self._loop = loop = asyncio.get_running_loop()
        self._end = asyncio.Event()
        listeners: list[asyncio.Server] = []
        try:
            if self._listens:
                listener = await loop.create_server(lambda: Client(self), self.host, self.port, backlog=4096)
                listeners.append(listener)
                self.port = listener.sockets[0].getsockname()[1]
            if self.path:
                listeners.append(await loop.create_unix_server(lambda: Client(self), self.path))
            on_start()
            await self._end.wait()
        finally:
            for listener in listeners:
                listener.close()
            for client in list(self.clients.values()):
                client.abort()
            if self.path and listeners:
                await loop.run_in_executor(None, partial(Path(self.path).unlink, missing_ok=True))
            self._loop = None

    def start(self) -> Self:
        """Serve from a thread of its own; raises ``OSError`` if the address cannot be had."""
        started = threading.Event()
        errors: list[BaseException] = []

        def serve() -> None:
            try:
                asyncio.run(self.run(started.set))
            except BaseException as error:
                errors.append(error)
            finally:
                started.set()

        self._thread = threading.Thread(target=serve, name="listserver", daemon=True)
        self._thread.start()
        started.wait()
        if errors:
            raise errors[0]
        return self

    def stop(self) -> None:
        """End all connections and stop; from any thread."""
        loop, end = self._loop, self._end
        if loop is not None and end is not None:
            loop.call_soon_threadsafe(end.set)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
            self._thread = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.stop()

    def do(self, work: Callable[[], T]) -> T:
        """Call a function between two commands, from any thread; return what it returns."""
        loop = self._loop
        if loop is None or (self._thread or threading.current_thread()) is threading.current_thread():
            return work()

        async def call() -> T:
            return work()

        return asyncio.run_coroutine_threadsafe(call(), loop).result()

    # What a tester orders.

    def stop_clock(self) -> None:
        """Let the server's time stand still."""
        self.do(self.clock.stop)

    def advance_clock(self, seconds: float) -> None:
        """Move the server's time on; waits and keys that end by then have ended when this returns."""
        self.do(lambda: self.clock.advance(seconds))

    def start_clock(self) -> None:
        """Let the server's time go on."""
        self.do(self.clock.start)

    @contextmanager
    def fault(self, kind: str, **limits: object) -> Iterator[Fault]:
        """Order a fault for the duration of a ``with`` block; the arguments are those of ``Fault``."""
        fault = Fault(kind, **limits)  # type: ignore[arg-type]
        self.do(lambda: self.faults.append(fault))
        try:
            yield fault
        finally:
            self.do(lambda: self.end_fault(fault))

    def end_fault(self, fault: Fault) -> None:
        """End a fault; requests that it held up are carried out."""
        if fault in self.faults:
            self.faults.remove(fault)
        for client in [client for client in self.clients.values() if client.fault is fault]:
            client.resume()

    def fault_of(self, client: Client, command: Command) -> Fault | None:
        """Return the first fault that a request meets."""
        if command.name.startswith("DEBUG"):
            return None
        writes = "write" in command.flags
        return next((fault for fault in self.faults if fault.concerns(client, command.name, writes=writes)), None)

    # What clients and commands call.

    def connected(self, client: Client) -> None:
        """Note a new connection."""
        self.connections += 1
        client.id = self.connections
        self.clients[client.id] = client

    def disconnected(self, client: Client) -> None:
        """Forget a connection."""
        self.clients.pop(client.id, None)
        self.unwatch(client)

    def later(self, work: Callable[[], object]) -> None:
        """Call a function after the command that is carried out now."""
        assert self._loop is not None
        self._loop.call_soon(work)

    def count(self, command: Command, duration_ns: int, *, has_failed: bool) -> None:
        """Count a call, for INFO."""
        calls = self.calls.get(command.name)
        if calls is None:
            calls = self.calls[command.name] = Calls()
        calls.number += 1
        calls.duration_ns += duration_ns
        calls.failed += has_failed

    def _changed(self, database: Database, key: bytes) -> None:
        self.changes += 1
        if self.watchers or self.blocking.queues:
            place = database.index, key
            for client in self.watchers.get(place, ()):
                client.is_dirty = True
            if place in self.blocking.queues and self._is_list(place):
                self.blocking.ready[place] = None

    def _is_list(self, place: ListKey) -> bool:
        index, key = place
        return type(self.databases[index].get(key)) is deque

    def serve(self) -> None:
        """Serve the clients that wait for lists that got elements."""
        self.blocking.serve(self._is_list)
        self.set_timer()

    def swap(self, first: int, second: int) -> None:
        """Exchange two databases; those who watch or wait in them see other keys."""
        self.databases[first], self.databases[second] = self.databases[second], self.databases[first]
        self.databases[first].index, self.databases[second].index = first, second
        keys = {*self.databases[first].names(), *self.databases[second].names()}
        for index in (first, second):
            for key in keys:
                self._changed(self.databases[index], key)

    def unwatch(self, client: Client) -> None:
        """Let a client watch no key any more."""
        for place in client.watched:
            watching = self.watchers[place]
            watching.discard(client)
            if not watching:
                del self.watchers[place]
        client.watched.clear()
        client.is_dirty = False

    def is_paused(self, client: Client, command: Command) -> bool:
        """Return whether CLIENT PAUSE holds a command up."""
        if command.name.startswith("CLIENT") or self.clock.now_ms() >= self.pause_until_ms:
            return False
        queued = [queued for queued, _ in client.queue or ()] if command.name == "EXEC" else [command]
        return self.pauses_all or any(
            "write" in each.flags or each.name in ("PUBLISH", "EVAL", "EVALSHA") for each in queued
        )

    def pause(self, until_ms: int, *, all_commands: bool) -> None:
        """Hold commands up until a time; 0 ends it."""
        self.pause_until_ms = until_ms and max(until_ms, self.pause_until_ms)
        self.pauses_all = bool(until_ms) and (all_commands or self.pauses_all)
        self.set_timer()
        if not until_ms:
            for client in [client for client in self.clients.values() if client.is_postponed and not client.fault]:
                client.resume()

    # Time.

    def set_timer(self) -> None:
        """Let the loop wake up when the next client's time, or a pause, is over."""
        deadlines_ms = [due_ms for due_ms in (self.blocking.next_deadline_ms(), self.pause_until_ms) if due_ms]
        due_ms = None if self.clock.is_stopped or not deadlines_ms else min(deadlines_ms)
        if due_ms == self._timer_ms and self._timer is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_ms = due_ms
        if due_ms is not None and self._loop is not None:
            delay_s = max(due_ms - self.clock.now_us() / 1000, 0) / 1000
            self._timer = self._loop.call_later(delay_s, self._timer_rang)

    def _timer_rang(self) -> None:
        self._timer = None
        self.blocking.expire()
        if self.pause_until_ms and self.clock.now_ms() >= self.pause_until_ms:
            self.pause(0, all_commands=False)
        self.set_timer()

    def _clock_moved(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_rang()

    # What it tells.

    def waiting(self) -> dict[str, str]:
        """Return who waits for which list: the section ``waiting`` of INFO."""
        now_ms = self.clock.now_ms()
        lists = {
            f"waiting{number}": f"key={quote(key)},db={index},clients={clients},first_ms={now_ms - since_ms}"
            for number, ((index, key), clients, since_ms) in enumerate(self.blocking.waiting())
        }
        return {"waiting_clients": str(self.blocking.clients), "waiting_lists": str(len(lists)), **lists}

    def about(self) -> dict[str, str]:
        """Return the section ``server`` of INFO."""
        return {
            "redis_version": server_commands.REDIS_VERSION,
            "server_name": "listserver",
            "redis_mode": "standalone",
            "process_id": str(os.getpid()),
            "run_id": f"{id(self) & 0xFFFFFFFF:08x}{self.started_ms:032x}",
            "tcp_port": str(self.port),
            "server_time_usec": str(self.clock.now_us()),
            "uptime_in_seconds": str((self.clock.now_ms() - self.started_ms) // 1000),
        }
