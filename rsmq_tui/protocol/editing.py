"""Applies guarded changes on one server, each exactly once, with a token per call."""

import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from redis.asyncio import Redis as AsyncRedis
from redis.crc import key_slot
from redis.exceptions import MovedError, NoScriptError, ReadOnlyError, ResponseError

from rsmq_tui.protocol.address import Address
from rsmq_tui.protocol.connections.connect import TIMEOUT_S, Traffic
from rsmq_tui.protocol.connections.pool import ConnectionManager
from rsmq_tui.protocol.connections.script_runner import RAW, exchange, raise_first
from rsmq_tui.protocol.connections.topology import has_moved
from rsmq_tui.protocol.errors import RsmqError
from rsmq_tui.protocol.kinds import kind_of
from rsmq_tui.protocol.replies import decode_text
from rsmq_tui.protocol.rsmq.operations import Operation, raise_refusal

_WITNESS_S = 7 * 86_400


class Batch(Protocol):
    """What one call carries out: guarded edits of one queue, as a value; its outcome has a letter for each edit.

    ``kind`` names it in journals: that of a kind of queue other than RSMQ begins with that kind's name and a hyphen.
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
    def size(self) -> int:
        """How many edits it has."""
        ...

    @property
    def in_order(self) -> bool:
        """True where batches of a change must be carried out one after the other."""
        ...

    @property
    def has_ids(self) -> bool:
        """True where it has ``edits`` of messages that are known by ids."""
        ...

    @property
    def takes_away(self) -> bool:
        """True where its messages are nowhere afterwards."""
        ...

    @property
    def read(self) -> Callable[[Any], str]:
        """What reads the outcome of its call, and refuses that of any other."""
        ...

    def inverse(self, outcome: str) -> "Batch | None":
        """Return the batch that undoes what that outcome says was done, or None where nothing was."""
        ...


class VoidedError(Exception):
    """A call that was given up before it was carried out, and now never will be."""


class EditExecutor(ABC):
    """Carries out batches on a server. Close it with ``aclose``; raises ValueError for a URL that is none.

    Every method raises redis-py's errors when the server cannot be asked, and ``RsmqError`` for what it refuses.
    """

    def __init__(self, server: Address | str, ns: str, *, timeout_s: float = TIMEOUT_S) -> None:
        self.ns = ns
        address = Address.of(server)
        self.label = address.label
        self.traffic = Traffic()
        self._links = ConnectionManager(address, timeout_s=timeout_s, traffic=self.traffic)
        self._client = self._links.of(ns).client

    @classmethod
    @abstractmethod
    def sharing(cls, other: "EditExecutor", ns: str) -> "EditExecutor":
        """Return an editor of that namespace, or what stands for one, over the connections of another editor."""

    def at(self, queue: str) -> "EditExecutor":
        """Return an editor for a queue, which in a cluster may be on one of many servers."""
        return self

    def share(self, other: "EditExecutor", ns: str) -> None:
        """Begin to use the connections of another one, for that namespace (or key)."""
        self.ns, self.label, self.traffic = ns, other.label, other.traffic
        self._links, self._client = other._links, other._links.of(ns).client

    def can_reach_at_once(self, *keys: bytes) -> bool:
        """Tell whether one call can have all of these keys: in a cluster, where they are in one slot."""
        return not self._links.is_cluster or len({key_slot(key) for key in keys}) == 1

    def new_token(self, batch: Batch | None = None) -> str:
        """Return a name for a call, to apply and to settle it by."""
        return secrets.token_hex(12)

    async def clock_us(self) -> int:
        """Read the server's clock, in microseconds since the epoch."""
        ((seconds, microseconds),) = await self._read(("TIME",))
        return int(seconds) * 1_000_000 + int(microseconds)

    async def clock_and_run_id(self) -> tuple[int, str | None]:
        """Read the clock, and what the server calls itself from its start to its end: None where it does not tell."""
        try:
            (seconds, microseconds), told = await self._read(("TIME",), ("INFO", "server"))
        except ResponseError:
            return await self.clock_us(), None
        run_id = re.search(rb"^run_id:(\w+)", told, re.MULTILINE)
        return int(seconds) * 1_000_000 + int(microseconds), None if run_id is None else decode_text(run_id[1])

    async def apply(self, batch: Batch, token: str) -> str:
        """Carry a batch out and return its outcome; raises ``VoidedError`` when that token was given up.

        When it raises an error of the network, nobody knows whether it was carried out: ``settle`` tells.
        """
        operation = self._operation(batch, token)
        client, _ = self._place(token)
        try:
            try:
                reply = await _run(client, operation)
            except (MovedError, ReadOnlyError):
                # Nothing was done. Where the address leads to another server by now, that one is asked.
                reply = await _run(client, operation)
        except ResponseError as error:
            if "RSMQ voided" in str(error):
                raise VoidedError(token) from None
            raise_refusal(error)
        return operation.decode(reply)

    async def announce(self, tokens: Sequence[str]) -> None:
        """Leave a witness of each call before it is sent: a key that is there as long as the server loses nothing.

        It lives for a week, which is how long a call can be settled that left no marker. A server that refuses it, as
        when it is out of memory, has none.
        """
        for client, markers in self._by_place(tokens).items():
            await self._send(*(("SET", _witness(marker), b"", "EX", _WITNESS_S) for marker in markers), client=client)

    async def settle(self, token: str) -> str | None:
        """Return the outcome of a call whose reply was not seen; it is void from now on if it was not carried out.

        What is at the marker is returned as it is: anybody may have written there. The outcome is empty when the call
        surely was not carried out: it left no marker, and its witness is there, so that the server has not lost the
        marker. None means that nothing tells, because the witness is gone as well
        (the server was restarted or flushed, or is another one), or because somebody has put a key of another type
        there, which forbids the call as the marker does: ``look`` tells what the call may have done.
        """
        client, marker = self._place(token)
        try:
            left, has_witness = await self._read(("GET", marker), ("EXISTS", _witness(marker)), client=client)
        except RsmqError:
            return None
        if left is None:
            # Only now: a server that is out of memory still tells what was done.
            _, left = await self._read(("SET", marker, b"", "NX"), ("GET", marker), client=client)
        if left:
            return str(left, "ascii", "replace")
        return "" if has_witness and not await self._evicts(client) else None

    @abstractmethod
    async def look(self, batch: Batch) -> str:
        """Return what a void call may have done before: an outcome, empty when all is as it was."""

    async def forget(self, tokens: Sequence[str]) -> None:
        """Remove what these calls left: their outcomes are known."""
        for client, markers in self._by_place(tokens).items():
            await self._read(("DEL", *markers, *map(_witness, markers)), client=client)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._links.aclose()

    @abstractmethod
    def _operation(self, batch: Batch, token: str) -> Operation[str]:
        """Return the call that carries a batch out."""

    @abstractmethod
    def _place(self, token: str) -> tuple[AsyncRedis, bytes]:
        """Return where a call leaves its outcome."""

    def _by_place(self, tokens: Sequence[str]) -> dict[AsyncRedis, list[bytes]]:
        places: dict[AsyncRedis, list[bytes]] = {}
        for client, marker in map(self._place, tokens):
            places.setdefault(client, []).append(marker)
        return places

    async def _evicts(self, client: AsyncRedis) -> bool:
        """Tell whether a server may have evicted a marker and kept its witness."""
        try:
            (stats,) = await self._read(("INFO", "stats"), client=client)
        except ResponseError:
            return False
        evicted = re.search(rb"^evicted_keys:(\d+)", stats, re.MULTILINE)
        return evicted is not None and int(evicted[1]) > 0

    async def _read(self, *commands: Sequence[bytes | str | int], client: AsyncRedis | None = None) -> list[Any]:
        replies = await self._send(*commands, client=client)
        if has_moved(replies):
            replies = await self._send(*commands, client=client)
        raise_first(replies)
        return replies

    async def _send(self, *commands: Sequence[bytes | str | int], client: AsyncRedis | None = None) -> list[Any]:
        return await exchange(client or self._client, commands)


def editor_of(editor: EditExecutor, ns: str) -> EditExecutor:
    """Return what changes the queues of a namespace, or of what stands for one, over the connections of an editor."""
    kind: type[EditExecutor] = kind_of(ns).part("editor")
    return kind.sharing(editor, ns)


def _witness(marker: bytes) -> bytes:
    """Return the key of the witness beside a marker: in the same slot of a cluster, and known by its name as ours."""
    return marker + b"announced"


async def _run(client: AsyncRedis, operation: Operation[str]) -> Any:
    command: Callable[..., Any] = client.execute_command
    try:
        return await command(*operation.by_sha, **RAW)
    except NoScriptError:
        return await command(*operation.by_text, **RAW)
