"""One connection: its requests, what it is allowed to do, its transaction, and its replies."""

import asyncio
from time import perf_counter_ns
from typing import TYPE_CHECKING

from rsmq_tui.listserver.blocking import Blocked
from rsmq_tui.listserver.command import Command, find
from rsmq_tui.listserver.faults import Fault
from rsmq_tui.listserver.resp import CommandError, ProtocolError, Reply, Requests, encode
from rsmq_tui.listserver.store import Database

if TYPE_CHECKING:
    from rsmq_tui.listserver.server import ListServer

NO_REPLY = object()
"""What a command returns that is answered later, or not at all."""


class Client(asyncio.Protocol):
    """A connection and what the server knows of it."""

    def __init__(self, server: "ListServer") -> None:
        self.server = server
        self.id = 0
        self.name = b""
        self.library: dict[str, bytes] = {"lib-name": b"", "lib-ver": b""}
        self.address = self.local_address = ""
        self.index = 0
        self.version = 2
        self.is_trusted = not server.password
        self.created_ms = self.last_ms = server.clock.now_ms()
        self.last_command = ""
        self.calls = 0
        self.reply_mode = "ON"
        self.blocked: Blocked | None = None
        self.queue: list[tuple[Command, list[bytes]]] | None = None
        """The commands of a transaction, from MULTI to EXEC."""
        self.queue_failed = False
        self.watched: set[tuple[int, bytes]] = set()
        self.is_dirty = False
        """Whether a key that it watches was changed."""
        self.is_atomic = False
        """Whether it is in a transaction or a script that is carried out, where nothing waits."""
        self.is_closing = False
        self.fault: Fault | None = None
        """The fault that holds this connection up."""
        self._words: list[bytes] = []
        self._woken: Blocked | None = None
        self._postponed: list[bytes] | None = None
        self._is_late = False
        self._is_full = False
        self._is_answering = False
        self._out: list[bytes] = []
        self._requests = Requests()
        self._requests.bulk_limit = server.bulk_limit
        self._requests.is_trusted = self.is_trusted
        self._transport: asyncio.Transport | None = None

    @property
    def db(self) -> Database:
        """The database that it has selected."""
        return self.server.databases[self.index]

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.address = _address(transport.get_extra_info("peername")) or f"{self.server.path}:0"
        self.local_address = _address(transport.get_extra_info("sockname"))
        self.server.connected(self)

    def data_received(self, data: bytes) -> None:
        """Answer what has come."""
        self._requests.feed(data)
        if self._requests.size > self.server.query_limit:
            self.close()
        self.go_on()

    def connection_lost(self, error: Exception | None) -> None:
        """End: leave every queue."""
        self.is_closing = True
        if self.blocked:
            self.server.blocking.forget(self)
        self.server.disconnected(self)

    def pause_writing(self) -> None:
        """Answer no more requests until replies have been taken."""
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
            while not self.is_held and (words := self._requests.next()) is not None:
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
        if not self.is_trusted and "no_auth" not in command.flags:
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
            # Who pushed is answered before those who are served by it.
            self.flush()
            self.server.serve()

    def call(self, command: Command, words: list[bytes]) -> Reply:
        """Carry out a command; an error is a reply."""
        begun_ns = perf_counter_ns()
        reply = self._call(command, words)
        self.server.count(command, perf_counter_ns() - begun_ns, has_failed=isinstance(reply, CommandError))
        return reply

    def _call(self, command: Command, words: list[bytes]) -> Reply:
        try:
            return command.call(self, *words[2 if "|" in command.name else 1 :])
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
        """Carry out the request that was held up by CLIENT PAUSE or by a stall, and go on."""
        self.fault = None
        words, self._postponed = self._postponed, None
        if words is not None and not self.is_closing:
            self._answer(words)
        self.go_on()

    # Waiting for lists.

    def wait(self, blocked: Blocked) -> Reply:
        """Wait for a list; in a transaction or a script return the reply of one that found nothing."""
        if self.is_atomic:
            return blocked.at_once
        self.server.blocking.wait(self, blocked, self._woken)
        self.server.set_timer()
        return NO_REPLY

    def retry(self, blocked: Blocked) -> None:
        """Carry out the command again that waited."""
        self._woken = blocked
        reply = self._call(find(self._words), self._words)
        self._woken = None
        if reply is not NO_REPLY:
            self.unblock(reply)

    def unblock(self, reply: Reply) -> None:
        """Answer the command that waited, and then the requests that came after it."""
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

    def trust(self) -> None:
        """Note that the password was right."""
        self.is_trusted = self._requests.is_trusted = True

    def limit(self, bulk_limit: int) -> None:
        """Set how long a value in a request may be."""
        self._requests.bulk_limit = bulk_limit

    @property
    def unread(self) -> int:
        """How many bytes were received that belong to no request yet."""
        return self._requests.size

    @property
    def unsent(self) -> int:
        """How many bytes of replies wait to be sent."""
        return self._transport.get_write_buffer_size() if self._transport else 0


def _address(name: object) -> str:
    return f"{name[0]}:{name[1]}" if isinstance(name, tuple) else str(name or "")
