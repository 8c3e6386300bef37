"""Connections, and the state that they share; commands are executed one after the other."""

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

from rsmq_tui.listserver.blocking import Blocked, Blocking, ListKey, Waiter
from rsmq_tui.listserver.command import Command, find
from rsmq_tui.listserver.faults import Clock, Fault
from rsmq_tui.listserver.resp import BULK_LIMIT, CommandError, ProtocolError, Reply, Requests, encode
from rsmq_tui.listserver.store import Cursors, Database

DATABASES = 16
REDIS_VERSION = "7.2.4"
"""The version of Redis whose commands and error texts these are, as reported to clients."""

DEFAULTS = {
    "client-query-buffer-limit": str(1024 * 1024 * 1024),
    "proto-max-bulk-len": str(BULK_LIMIT),
    # These are stored and have no effect: clients and tools of Redis set them.
    "appendonly": "no",
    "databases": "16",
    "hash-max-listpack-entries": "512",
    "latency-tracking": "yes",
    "list-compress-depth": "0",
    "list-max-listpack-size": "-2",
    "list-max-ziplist-size": "-2",
    "maxclients": "10000",
    "maxmemory": "0",
    "maxmemory-policy": "noeviction",
    "notify-keyspace-events": "",
    "save": "",
    "slowlog-log-slower-than": "10000",
    "slowlog-max-len": "128",
    "timeout": "0",
}

NO_REPLY = object()
"""Returned by a command that is answered later, or not at all."""


class Client(asyncio.BufferedProtocol, Waiter):
    """A connection and its state."""

    def __init__(self, server: "Engine") -> None:
        self.server = server
        self.id = 0
        self.name = b""
        self.library: dict[str, bytes] = {"lib-name": b"", "lib-ver": b""}
        self.address = self.local_address = ""
        self.version = 2
        self.created_ms = self.last_ms = server.clock.now_ms()
        self.last_command = ""
        self.calls = 0
        self.reply_mode = "ON"
        self.queue: list[tuple[Command, list[bytes]]] | None = None
        """The commands of a transaction, from MULTI to EXEC."""
        self.queue_failed = False
        self.watched: set[tuple[int, bytes]] = set()
        self.is_dirty = False
        """Whether a key that it watches was changed."""
        self.is_atomic = False
        """Whether it is executing a transaction or a script, in which commands do not block."""
        self.is_closing = False
        self.fault: Fault | None = None
        """The fault that delays this connection."""
        self._words: list[bytes] = []
        self._woken: Blocked | None = None
        self._postponed: list[bytes] | None = None
        self._is_late = False
        self._is_full = False
        self._is_answering = False
        self._out: list[bytes] = []
        self.requests = Requests(server.bulk_limit, is_trusted=not server.password)
        self._transport: asyncio.Transport | None = None

    @property
    def db(self) -> Database:
        """The database that it has selected."""
        return self.server.databases[self.index]

    # Called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.address = _address(transport.get_extra_info("peername")) or f"{self.server.path}:0"
        self.local_address = _address(transport.get_extra_info("sockname"))
        self.server.connected(self)

    def get_buffer(self, sizehint: int) -> bytearray:
        """Return where asyncio puts what it receives."""
        return self.server.received

    def buffer_updated(self, nbytes: int) -> None:
        """Answer the requests received."""
        self.requests.feed(bytes(memoryview(self.server.received)[:nbytes]))
        if self.requests.size > self.server.query_limit:
            self.close()
        self.go_on()

    def connection_lost(self, error: Exception | None) -> None:
        """Unregister the connection."""
        self.is_closing = True
        if self.blocked:
            self.server.blocking.forget(self)
        self.server.disconnected(self)

    def pause_writing(self) -> None:
        """Answer no more requests until the client has read replies."""
        self._is_full = True

    def resume_writing(self) -> None:
        """Go on after ``pause_writing``."""
        self._is_full = False
        self.go_on()

    # Requests.

    @property
    def is_held(self) -> bool:
        """Whether the next request has to wait."""
        return bool(self.blocked or self.is_closing or self._is_late or self._is_full or self.is_postponed)

    @property
    def is_postponed(self) -> bool:
        """Whether a request waits for the end of CLIENT PAUSE."""
        return self._postponed is not None

    def go_on(self) -> None:
        """Answer requests, until one waits or none is complete."""
        if self._is_answering:
            return
        self._is_answering = True
        try:
            while not self.is_held and (words := self.requests.next()) is not None:
                self._answer(words)
        except ProtocolError as error:
            self.reply(CommandError(f"ERR Protocol error: {error}"))
            self.close()
        finally:
            self._is_answering = False
        self.flush()

    def _answer(self, words: list[bytes]) -> None:
        server = self.server
        self.last_ms = server.clock.now_ms()
        self.calls += 1
        try:
            command = find(words)
            self.last_command = command.name.lower()
            self._check_allowed(command)
        except CommandError as error:
            self.queue_failed = self.queue is not None
            self.reply(error)
            return
        if server.pause_until_ms and server.is_paused(self, command):
            self._postponed = words
            return
        fault = server.fault_of(self, command) if server.faults else None
        if fault is None:
            self._carry_out(command, words)
        else:
            self._meet(fault, command, words)

    def _check_allowed(self, command: Command) -> None:
        if not self.requests.is_trusted and "no_auth" not in command.flags:
            raise CommandError("NOAUTH Authentication required.")
        if self.queue is not None and "no_multi" in command.flags:
            raise CommandError(f"ERR Command '{command.name.lower()}' not allowed inside a transaction")

    def _carry_out(self, command: Command, words: list[bytes]) -> None:
        if self.queue is not None and command.name not in ("EXEC", "DISCARD", "QUIT", "RESET"):
            self.queue.append((command, words))
            self.reply("QUEUED")
            return
        self._words = words
        self.reply(self.call(command, words))
        if self.server.blocking.ready:
            # The client that pushed gets its reply before the clients that it serves.
            self.flush()
            self.server.serve()

    def call(self, command: Command, words: list[bytes]) -> Reply:
        """Execute a command; an error is a reply."""
        begun_ns = perf_counter_ns()
        reply = self._call(command, words)
        calls = self.server.calls[command.name]
        calls.number += 1
        calls.duration_ns += perf_counter_ns() - begun_ns
        calls.failed += isinstance(reply, CommandError)
        return reply

    def _call(self, command: Command, words: list[bytes]) -> Reply:
        try:
            return command.call(self, *words[command.skipped :])
        except CommandError as error:
            return error

    def _meet(self, fault: Fault, command: Command, words: list[bytes]) -> None:
        fault.happened += 1
        if fault.kind == "stall":
            self.fault = fault
            self._postponed = words
        elif fault.error:
            self.reply(fault.error)
        elif fault.kind == "drop-before":
            self.abort()
        else:
            self.flush()
            self._carry_out(command, words)
            if fault.kind == "drop-after":
                self.abort()
            elif fault.kind == "cut":
                replies = b"".join(self._out)
                self._out = [replies[: len(replies) // 2]]
                self.flush()
                self.close()
            else:
                self._is_late = True
                asyncio.get_running_loop().call_later(fault.seconds, self._in_time)

    def _in_time(self) -> None:
        self._is_late = False
        self.flush()
        self.go_on()

    def resume(self) -> None:
        """Execute the request that was delayed by CLIENT PAUSE or by a stall, and go on."""
        self.fault = None
        words, self._postponed = self._postponed, None
        if words is not None and not self.is_closing:
            self._answer(words)
        self.go_on()

    # Waiting for lists.

    def wait(self, blocked: Blocked) -> Reply:
        """Wait for a list; in a transaction or a script, return the reply for an empty list instead."""
        if self.is_atomic:
            return blocked.at_once
        self.server.blocking.wait(self, blocked, self._woken)
        self.server.set_timer()
        return NO_REPLY

    def retry(self, blocked: Blocked) -> None:
        """Execute the waiting command again."""
        self._woken = blocked
        reply = self._call(find(self._words), self._words)
        self._woken = None
        if reply is not NO_REPLY:
            self.unblock(reply)

    def unblock(self, reply: Reply) -> None:
        """Reply to the waiting command, then answer the requests after it."""
        self.reply(reply)
        self.flush()
        asyncio.get_running_loop().call_soon(self.go_on)

    # Replies.

    def reply(self, reply: Reply) -> None:
        """Add a reply to those that ``flush`` sends."""
        if self.reply_mode == "ON":
            if reply is not NO_REPLY:
                encode(reply, self._out.append, self.version)
        elif self.reply_mode == "SKIP":
            self.reply_mode = "ON"
        elif self.reply_mode == "SKIP NEXT":
            self.reply_mode = "SKIP"

    def flush(self) -> None:
        """Send the replies."""
        if self._out and not self._is_late and self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(self._out))
            self._out.clear()

    def close(self) -> None:
        """End the connection after its replies have been sent."""
        self.is_closing = True
        self.flush()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """End the connection at once."""
        self.is_closing = True
        self._out.clear()
        if self._transport is not None:
            self._transport.abort()

    @property
    def unsent(self) -> int:
        """How many bytes of replies wait to be sent."""
        return self._transport.get_write_buffer_size() if self._transport else 0


def _address(name: object) -> str:
    return f"{name[0]}:{name[1]}" if isinstance(name, tuple) else str(name or "")


@dataclass(slots=True)
class Calls:
    """How often a command was called, and for how long."""

    number: int = 0
    duration_ns: int = 0
    failed: int = 0


class Engine:
    """The state that all connections share: databases, waiting clients, watched keys, clock, faults and settings."""

    def __init__(self, password: str) -> None:
        self.password = password
        self.host, self.path, self.port = "", "", 0
        """Where it listens."""
        self.on_shutdown: Callable[[], object] = lambda: None
        self.clock = Clock()
        self.clock.on_move = self._clock_moved
        self.blocking = Blocking(self.clock.now_ms)
        self.databases = [Database(self.clock.now_ms, self._changed) for _ in range(DATABASES)]
        for index, database in enumerate(self.databases):
            database.index = index
        self.watchers: dict[ListKey, set[Client]] = {}
        self.clients: dict[int, Client] = {}
        # All connections share it, because asyncio fills it only to call ``buffer_updated`` at once. With a buffer of
        # asyncio's own, which it allocates for each read (256 KiB), a command takes twice as long.
        self.received = bytearray(64 * 1024)
        self.faults: list[Fault] = []
        self.cursors = Cursors()
        self.scripting: Any = None
        """The Lua runtime of ``scripting_commands``, created for the first script."""
        self.config = DEFAULTS.copy()
        self.pause_until_ms = 0
        self.pauses_all = False
        self.calls: defaultdict[str, Calls] = defaultdict(Calls)
        self.connections = self.changes = 0
        self.started_ms = self.clock.now_ms()
        self.loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms: int | None = None

    @property
    def bulk_limit(self) -> int:
        """The size limit of a value in a request, in bytes."""
        return int(self.config["proto-max-bulk-len"])

    @property
    def query_limit(self) -> int:
        """The size limit of incomplete requests of a connection, in bytes."""
        return int(self.config["client-query-buffer-limit"])

    def end_fault(self, fault: Fault) -> None:
        """End a fault; requests that it delayed are executed."""
        if fault in self.faults:
            self.faults.remove(fault)
        for client in [client for client in self.clients.values() if client.fault is fault]:
            client.resume()

    def fault_of(self, client: Client, command: Command) -> Fault | None:
        """Return the first fault that applies to a request, or None."""
        if command.name.startswith("DEBUG"):
            return None
        writes = "write" in command.flags
        return next(
            (each for each in self.faults if each.concerns(command.name, client.name, client.id, writes=writes)), None
        )

    # Called by clients and commands.

    def connected(self, client: Client) -> None:
        """Register a connection and number it."""
        self.connections += 1
        client.id = self.connections
        self.clients[client.id] = client

    def disconnected(self, client: Client) -> None:
        """Remove a connection."""
        self.clients.pop(client.id, None)
        self.unwatch(client)

    def later(self, work: Callable[[], object]) -> None:
        """Call a function after the current command."""
        assert self.loop is not None
        self.loop.call_soon(work)

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
        """Exchange two databases; for watches and waits, all their keys count as changed."""
        self.databases[first], self.databases[second] = self.databases[second], self.databases[first]
        self.databases[first].index, self.databases[second].index = first, second
        keys = {*self.databases[first].names(), *self.databases[second].names()}
        for index in (first, second):
            for key in keys:
                self._changed(self.databases[index], key)

    def unwatch(self, client: Client) -> None:
        """Remove all watches of a client."""
        for place in client.watched:
            watching = self.watchers[place]
            watching.discard(client)
            if not watching:
                del self.watchers[place]
        client.watched.clear()
        client.is_dirty = False

    def is_paused(self, client: Client, command: Command) -> bool:
        """Return whether CLIENT PAUSE delays a command."""
        if command.name.startswith("CLIENT") or self.clock.now_ms() >= self.pause_until_ms:
            return False
        queued = [queued for queued, _ in client.queue or ()] if command.name == "EXEC" else [command]
        return self.pauses_all or any(
            "write" in each.flags or each.name in ("PUBLISH", "EVAL", "EVALSHA") for each in queued
        )

    def pause(self, until_ms: int, *, all_commands: bool) -> None:
        """Delay commands until a time; 0 ends the pause."""
        self.pause_until_ms = until_ms and max(until_ms, self.pause_until_ms)
        self.pauses_all = bool(until_ms) and (all_commands or self.pauses_all)
        self.set_timer()
        if not until_ms:
            for client in [client for client in self.clients.values() if client.is_postponed and not client.fault]:
                client.resume()

    # Time.

    def set_timer(self) -> None:
        """Set the timer for the next deadline of a client or a pause."""
        deadlines_ms = [due_ms for due_ms in (self.blocking.next_deadline_ms(), self.pause_until_ms) if due_ms]
        due_ms = None if self.clock.is_stopped or not deadlines_ms else min(deadlines_ms)
        if due_ms == self._timer_ms and self._timer is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_ms = due_ms
        if due_ms is not None and self.loop is not None:
            delay_s = max(due_ms - self.clock.now_us() / 1000, 0) / 1000
            self._timer = self.loop.call_later(delay_s, self._timer_rang)

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
