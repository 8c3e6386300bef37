"""Applies guarded changes on one server, each exactly once, by a token per call."""

import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from redis.asyncio.connection import ConnectionPool
from redis.crc import key_slot
from redis.exceptions import MovedError, NoScriptError, ReadOnlyError, ResponseError

from rsmq_tui.protocol.address import Address
from rsmq_tui.protocol.connections.connect import TIMEOUT_S, Traffic
from rsmq_tui.protocol.connections.pool import ConnectionManager
from rsmq_tui.protocol.connections.script_runner import exchange, raise_first
from rsmq_tui.protocol.connections.topology import has_moved
from rsmq_tui.protocol.errors import RsmqError
from rsmq_tui.protocol.kinds import kind_of
from rsmq_tui.protocol.replies import decode_text
from rsmq_tui.protocol.rsmq.edits import Edit
from rsmq_tui.protocol.rsmq.operations import Operation, raise_refusal

_WITNESS_S = 7 * 86_400
# By the server's clock: the local one may have jumped, and a void call may still be under way.
_VOID_S = 86_400


class Batch(Protocol):
    """The guarded edits of one queue that one call applies, as a value; its outcome has a letter for each edit.

    ``kind`` names it in journals. For other queues than RSMQ it begins with the name of the queue's kind and a hyphen.
    """

    @property
    def kind(self) -> str:
        """What it does."""
        ...

    @property
    def queue(self) -> str:
        """The queue that it changes."""
        ...

    @property
    def target(self) -> str | None:
        """The queue to which its messages go, if that is another one."""
        ...

    @property
    def edits(self) -> Sequence[Edit]:
        """Its edits of messages; empty for a batch of fields."""
        ...

    @property
    def size(self) -> int:
        """How many edits it has, of messages or fields."""
        ...

    @property
    def in_order(self) -> bool:
        """True if the batches of a change must be applied one after the other."""
        ...

    @property
    def has_ids(self) -> bool:
        """True if it has ``edits`` of messages with ids."""
        ...

    @property
    def takes_away(self) -> bool:
        """True if it deletes its messages."""
        ...

    @property
    def read(self) -> Callable[[Any], str]:
        """Decodes the outcome of its call; raises ``InvalidResponse`` for the reply to another."""
        ...

    def as_done(self, outcome: str) -> Sequence[Edit]:
        """Return ``edits`` with what the server found if it differs; raises ValueError for a malformed outcome."""
        ...

    def inverse(self, outcome: str) -> "Batch | None":
        """Return the batch that undoes the edits which ``outcome`` says were done; None if there are none."""
        ...


class VoidedError(Exception):
    """A call was voided before it was executed, so it can never be executed."""


class EditExecutor(ABC):
    """Applies batches on a server. Close it with ``aclose``; raises ValueError for an invalid URL.

    Every method raises redis-py's errors if the server cannot be asked, and ``RsmqError`` for what it refuses.
    """

    def __init__(self, server: Address | str, ns: str, *, timeout_s: float = TIMEOUT_S) -> None:
        self.ns = ns
        address = Address.of(server)
        self.label = address.label
        self.traffic = Traffic()
        self._connections = ConnectionManager(address, timeout_s=timeout_s, traffic=self.traffic)
        self._pool = self._connections.of(ns).pool

    @classmethod
    @abstractmethod
    def sharing(cls, other: "EditExecutor", ns: str) -> "EditExecutor":
        """Return an editor of ``ns`` that shares the connections of another editor."""

    def at(self, queue: str) -> "EditExecutor":
        """Return an editor for a queue, which in a cluster may be on one of many servers."""
        return self

    def share(self, other: "EditExecutor", ns: str) -> None:
        """Use the connections of another editor, for a namespace or key."""
        self.ns, self.label, self.traffic = ns, other.label, other.traffic
        self._connections, self._pool = other._connections, other._connections.of(ns).pool

    def can_reach_at_once(self, *keys: bytes) -> bool:
        """Return whether one call can use all of these keys: in a cluster they must be in one slot."""
        return not self._connections.is_cluster or len({key_slot(key) for key in keys}) == 1

    def new_token(self, batch: Batch | None = None) -> str:
        """Return a new token, by which a call is applied and settled."""
        return secrets.token_hex(12)

    async def clock_us(self) -> int:
        """Read the server's clock, in microseconds since the epoch."""
        ((seconds, microseconds),) = await self._read(("TIME",))
        return int(seconds) * 1_000_000 + int(microseconds)

    async def clock_and_run_id(self) -> tuple[int, str | None]:
        """Read the clock in microseconds, and the server's run_id, None if INFO does not have it."""
        try:
            (seconds, microseconds), info = await self._read(("TIME",), ("INFO", "server"))
        except ResponseError:
            return await self.clock_us(), None
        run_id = re.search(rb"^run_id:(\w+)", info, re.MULTILINE)
        return int(seconds) * 1_000_000 + int(microseconds), None if run_id is None else decode_text(run_id[1])

    async def apply(self, batch: Batch, token: str) -> str:
        """Apply a batch and return its outcome; raises ``VoidedError`` if the token was voided.

        After a network error it is not known whether the batch was applied: ``settle`` finds out.
        """
        operation = self._operation(batch, token)
        pool, _ = self._place(token)
        try:
            try:
                reply = await _evaluate(pool, operation)
            except (MovedError, ReadOnlyError):
                # Nothing was done. The next connection may lead to another server.
                reply = await _evaluate(pool, operation)
        except ResponseError as error:
            if "RSMQ voided" in str(error):
                raise VoidedError(token) from None
            raise_refusal(error)
        return operation.decode(reply)

    async def announce(self, tokens: Sequence[str]) -> None:
        """Write a witness for each call before it is sent: a key that exists as long as the server loses no data.

        It expires after a week, and until then a call that left no marker can be settled. If the server refuses the
        write, as when it is out of memory, there is no witness.
        """
        for pool, markers in self._by_place(tokens).items():
            await self._send(*(("SET", _witness(marker), b"", "EX", _WITNESS_S) for marker in markers), pool=pool)

    async def settle(self, token: str) -> str | None:
        """Return the outcome of a call whose reply was lost; void the call if it was not executed.

        The value of the marker is returned unchecked: anyone may have written it. An empty outcome means that the call
        was certainly not executed: there is no marker, and the witness shows that the server has not lost it. None
        means that it is not known, because the witness is gone as well (the server was restarted or flushed, or is
        another one), or because the marker is a key of another type, which also prevents the call: ``infer_outcome``
        finds out what the call may have done.
        """
        pool, marker = self._place(token)
        try:
            left, has_witness = await self._read(("GET", marker), ("EXISTS", _witness(marker)), pool=pool)
        except RsmqError:
            return None
        if left is None:
            # Only now, because a server that is out of memory refuses SET.
            _, left = await self._read(("SET", marker, b"", "NX"), ("GET", marker), pool=pool)
        if left:
            return str(left, "ascii", "replace")
        return "" if has_witness and not await self._evicts(pool) else None

    @abstractmethod
    async def infer_outcome(self, batch: Batch) -> str:
        """Infer from the queue, as it is now, what a voided call may have done: an outcome, empty if nothing has
        changed."""

    async def forget(self, tokens: Sequence[str]) -> None:
        """Delete the markers and witnesses of calls whose outcomes are known."""
        for pool, markers in self._by_place(tokens).items():
            await self._read(("DEL", *markers, *map(_witness, markers)), pool=pool)

    async def expire(self, tokens: Sequence[str]) -> None:
        """Let the server remove the markers and witnesses of calls a day from now, by its clock.

        Until then a marker keeps its outcome, and refuses a call that arrives late. If the server runs out of memory
        and evicts keys with an expiry, it may evict them earlier.
        """
        for pool, markers in self._by_place(tokens).items():
            keys = (*markers, *map(_witness, markers))
            await self._read(*(("EXPIRE", key, _VOID_S) for key in keys), pool=pool)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._connections.aclose()

    @abstractmethod
    def _operation(self, batch: Batch, token: str) -> Operation[str]:
        """Return the call that applies a batch."""

    @abstractmethod
    def _place(self, token: str) -> tuple[ConnectionPool, bytes]:
        """Return the connections and the key of a call's marker."""

    def _by_place(self, tokens: Sequence[str]) -> dict[ConnectionPool, list[bytes]]:
        places: dict[ConnectionPool, list[bytes]] = {}
        for pool, marker in map(self._place, tokens):
            places.setdefault(pool, []).append(marker)
        return places

    async def _evicts(self, pool: ConnectionPool) -> bool:
        """Return whether a server may have evicted a marker and kept its witness."""
        try:
            (stats,) = await self._read(("INFO", "stats"), pool=pool)
        except ResponseError:
            # Nobody can tell; that a call was not carried out must be certain.
            return True
        evicted = re.search(rb"^evicted_keys:(\d+)", stats, re.MULTILINE)
        return evicted is not None and int(evicted[1]) > 0

    async def _read(self, *commands: Sequence[bytes | str | int], pool: ConnectionPool | None = None) -> list[Any]:
        replies = await self._send(*commands, pool=pool)
        if has_moved(replies):
            replies = await self._send(*commands, pool=pool)
        raise_first(replies)
        return replies

    async def _send(self, *commands: Sequence[bytes | str | int], pool: ConnectionPool | None = None) -> list[Any]:
        return await exchange(pool or self._pool, commands)


def editor_of(editor: EditExecutor, ns: str) -> EditExecutor:
    """Return an editor for the kind of queue of ``ns`` that shares the connections of another editor."""
    kind: type[EditExecutor] = kind_of(ns).part("editor")
    return kind.sharing(editor, ns)


async def _evaluate(pool: ConnectionPool, operation: Operation[str]) -> Any:
    """Send an operation, and return the reply as it came; an error reply is raised."""
    (reply,) = await exchange(pool, [operation.by_sha])
    if isinstance(reply, NoScriptError):
        (reply,) = await exchange(pool, [operation.by_text])
    if isinstance(reply, Exception):
        raise reply
    return reply


def _witness(marker: bytes) -> bytes:
    """Return the key of the witness of a marker, in the same cluster slot."""
    return marker + b"announced"
