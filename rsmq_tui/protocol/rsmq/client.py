"""The clients, synchronous and asyncio, and idempotent sends.

An idempotent send writes the marks of its messages into a set on the server, in the same atomic step as the messages. A
message whose mark is there is not sent again, even if a consumer has deleted it since.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from redis import Redis, RedisCluster
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio import RedisCluster as AsyncRedisCluster

from rsmq_tui.protocol import validation
from rsmq_tui.protocol.connections.script_runner import AsyncCommandRunner, CommandRunner
from rsmq_tui.protocol.keys import Keys, random_suffix
from rsmq_tui.protocol.replies import clock_ms
from rsmq_tui.protocol.rsmq import operations
from rsmq_tui.protocol.rsmq.operations import Argument, Message, Operation, QueueAttributes, StoredMessage, chunked
from rsmq_tui.protocol.rsmq.scripts import SEND_ONCE


class Rsmq(CommandRunner):
    """RSMQ over a redis-py client, which the caller owns, configures and closes.

    ``ns`` is the key prefix without its colon. A hash tag (``{rsmq}``) makes it work on Redis Cluster. ``realtime``
    publishes the depth on ``{ns}:rt:{queue}`` after each send, as the canonical client's option does.

    Every operation is one round trip and atomic. Refusals raise ``RsmqError`` with the canonical code; what the server
    or the network refuses raises redis-py's exceptions. ``AsyncRsmq`` has the same methods as coroutines.
    """

    def __init__(self, client: Redis | RedisCluster, ns: str = "rsmq", realtime: bool = False) -> None:
        super().__init__(client)
        self.ns = ns
        self.realtime = realtime
        self._keys = Keys(ns)

    def list_queues(self) -> list[str]:
        """Return the names in the index, sorted; names that are listed need not have keys."""
        return self._run(operations.list_queues(self._keys))

    def create_queue(self, queue: str, *, vt: int = 30, delay: int = 0, maxsize: int = 65536) -> None:
        """Create a queue.

        ``vt`` and ``delay`` are seconds, 0 to 9,999,999; ``maxsize`` is 1,024 to 65,536, or -1 for unlimited.
        Raises ``queueExists``, ``missingParameter``, ``invalidFormat``, ``invalidValue``. If a partial hash has a
        ``vt``, the canonical client adds the missing fields and says ``queueExists``; this client changes nothing. A
        hash without ``vt`` is no queue to any client; its fields are kept.
        """
        self._run(operations.create_queue(self._keys, queue, vt, delay, maxsize))

    def delete_queue(self, queue: str) -> None:
        """Delete a queue and all its messages.

        Raises ``queueNotFound`` if it had no keys; its name is removed from the index all the same, as by the canonical
        client. Raises ``wrongType``, before anything is removed, if one of its keys has another type.
        """
        self._run(operations.delete_queue(self._keys, queue))

    def get_queue_attributes(self, queue: str) -> QueueAttributes:
        """Return the attributes, totals and counts of a queue; raises ``queueNotFound``.

        ``hiddenmsgs`` counts scores after the server's time, to the millisecond. The canonical client counts from the
        start of the current second, inclusive, so that a message shows as hidden there for up to a second after it was
        sent or became visible.
        """
        return self._run(operations.get_queue_attributes(self._keys, queue))

    def set_queue_attributes(
        self, queue: str, *, vt: int | None = None, delay: int | None = None, maxsize: int | None = None
    ) -> QueueAttributes:
        """Change attributes for later sends and receives, and return them all.

        Raises ``noAttributeSupplied`` before anything else, ``queueNotFound``, ``invalidValue``.
        """
        return self._run(operations.set_queue_attributes(self._keys, queue, vt, delay, maxsize))

    def send_message(self, queue: str, body: str | bytes, *, delay: int | None = None) -> str:
        """Send one message and return its id; ``delay`` in seconds, the queue's own by default.

        Raises ``queueNotFound``, ``messageNotString``, and ``messageTooLong`` when the body is longer than ``maxsize``:
        a ``str`` is measured in UTF-16 code units, because that is what the canonical client compares (JavaScript's
        ``length``), so that both refuse the same texts; ``bytes`` have no code units and are measured in bytes.
        """
        return self._run(operations.send_message(self._keys, queue, body, delay, self.realtime))

    def send_messages(self, queue: str, bodies: Iterable[str | bytes], *, delay: int | None = None) -> list[str]:
        """Send many messages in order and return their ids.

        They go in chunks, each atomic. One body longer than ``maxsize`` refuses them all (``messageTooLong``). With
        ``realtime`` the depth is published once a chunk.
        """
        return self._run_all(operations.send_messages(self._keys, queue, bodies, delay, self.realtime))

    def receive_message(self, queue: str, *, vt: int | None = None) -> Message | None:
        """Receive the first ready message, or None; it stays hidden for ``vt`` seconds, the queue's own by default.

        An id without a body is hidden like a received message and skipped, so that it never blocks the messages behind
        it. Raises ``queueNotFound``, ``invalidValue``.
        """
        return self._run(operations.receive_message(self._keys, queue, vt))

    def receive_messages(self, queue: str, count: int, *, vt: int | None = None) -> list[Message]:
        """Receive up to ``count`` ready messages at once; see ``receive_message``."""
        return self._run(operations.receive_messages(self._keys, queue, count, vt))

    def pop_message(self, queue: str) -> Message | None:
        """Receive the first ready message and delete it, or None; ids without a body are removed as well."""
        return self._run(operations.pop_message(self._keys, queue))

    def delete_message(self, queue: str, id: str) -> bool:
        """Delete a message, with an id of any client; False if it was not there.

        Raises ``missingParameter`` for an empty id, and ``invalidFormat`` for the name of a field of the queue, such as
        ``vt``, or more than 65,536 bytes. Only what belongs to this message is removed.
        """
        return self._run(operations.delete_message(self._keys, queue, id))

    def delete_messages(self, queue: str, ids: Iterable[str]) -> list[bool]:
        """Delete many messages, in chunks, each atomic; returns for each id whether it was there."""
        return self._run_all(operations.delete_messages(self._keys, queue, ids))

    def change_message_visibility(self, queue: str, id: str, vt: int) -> bool:
        """Make a message visible ``vt`` seconds from now, hidden or not; False if it is not there.

        Takes the ids that ``delete_message`` takes. Raises ``queueNotFound``, ``invalidFormat``, ``invalidValue``.
        ``rc`` and ``fr`` stay as they are.
        """
        return self._run(operations.change_message_visibility(self._keys, queue, id, vt))

    def change_visibility_of(self, queue: str, ids: Iterable[str], vt: int) -> list[bool]:
        """Change the visibility of many messages, in chunks, each atomic; see ``change_message_visibility``."""
        return self._run_all(operations.change_visibility_of(self._keys, queue, ids, vt))

    def restore_messages(self, queue: str, messages: Iterable[StoredMessage]) -> list[bool]:
        """Write messages exactly as given: id, body, score, rc and fr; False for an id that was already there.

        Raises ``invalidFormat`` for the ids that ``delete_message`` refuses; a message whose fields belong to another
        one is left out as well. Totals stay as they are: a restored message was counted when it was first sent.
        """
        return self._run_all(operations.restore_messages(self._keys, queue, messages))


class Marked(NamedTuple):
    """A message to send once; ``mark`` identifies it."""

    mark: bytes
    body: str | bytes


class FencedRsmq(Rsmq):
    """A client that also sends idempotently: a fence is the set of marks of what was sent."""

    def send_once(
        self, queue: str, messages: Iterable[Marked], *, fence: str, keep_s: int, delay: int | None = None
    ) -> list[bool]:
        """Send the messages whose mark is not in the fence; return for each whether it was sent.

        They go in chunks, each atomic. A fence takes some 60 bytes a message, and expires ``keep_s`` seconds after its
        last use. Raises as ``send_messages``.
        """
        return self._run_all(_send_once(self._keys, queue, messages, fence, keep_s, delay))

    def forget_fence(self, fence: str, *, after_s: int) -> None:
        """Let a fence expire ``after_s`` seconds from now, even if ``keep_s`` was longer."""
        self._run(Operation(None, (), ("EXPIRE", self._keys.marker(fence), after_s), lambda _reply: None))

    def now_ms(self) -> int:
        """Return the server's time."""
        return self._run(Operation(None, (), ("TIME",), clock_ms))


def _send_once(
    keys: Keys, queue: str, messages: Iterable[Marked], fence: str, keep_s: int, delay: int | None
) -> Iterator[Operation[list[bool]]]:
    validation.queue_name(queue)
    given_delay: Argument = "" if delay is None else validation.seconds("delay", delay)
    encoded = [(message.mark, *validation.body_bytes(message.body)) for message in messages]
    longest = max((size for _, _, size in encoded), default=0)
    names = (keys.messages(queue), keys.attributes(queue), keys.marker(fence))
    for chunk in chunked(encoded, weight=lambda item: len(item[1])):
        parts = (part for mark, body, _ in chunk for part in (mark, random_suffix(), body))
        arguments = (given_delay, longest, keep_s, *parts)
        yield Operation(SEND_ONCE, names, arguments, lambda reply: [sent == 1 for sent in reply])


class AsyncRsmq(AsyncCommandRunner):
    """``Rsmq`` for asyncio: the same methods, arguments and errors, as coroutines."""

    def __init__(self, client: AsyncRedis | AsyncRedisCluster, ns: str = "rsmq", realtime: bool = False) -> None:
        super().__init__(client)
        self.ns = ns
        self.realtime = realtime
        self._keys = Keys(ns)

    async def list_queues(self) -> list[str]:
        """As ``Rsmq.list_queues``."""
        return await self._run(operations.list_queues(self._keys))

    async def create_queue(self, queue: str, *, vt: int = 30, delay: int = 0, maxsize: int = 65536) -> None:
        """As ``Rsmq.create_queue``."""
        await self._run(operations.create_queue(self._keys, queue, vt, delay, maxsize))

    async def delete_queue(self, queue: str) -> None:
        """As ``Rsmq.delete_queue``."""
        await self._run(operations.delete_queue(self._keys, queue))

    async def get_queue_attributes(self, queue: str) -> QueueAttributes:
        """As ``Rsmq.get_queue_attributes``."""
        return await self._run(operations.get_queue_attributes(self._keys, queue))

    async def set_queue_attributes(
        self, queue: str, *, vt: int | None = None, delay: int | None = None, maxsize: int | None = None
    ) -> QueueAttributes:
        """As ``Rsmq.set_queue_attributes``."""
        return await self._run(operations.set_queue_attributes(self._keys, queue, vt, delay, maxsize))

    async def send_message(self, queue: str, body: str | bytes, *, delay: int | None = None) -> str:
        """As ``Rsmq.send_message``."""
        return await self._run(operations.send_message(self._keys, queue, body, delay, self.realtime))

    async def send_messages(self, queue: str, bodies: Iterable[str | bytes], *, delay: int | None = None) -> list[str]:
        """As ``Rsmq.send_messages``."""
        return await self._run_all(operations.send_messages(self._keys, queue, bodies, delay, self.realtime))

    async def receive_message(self, queue: str, *, vt: int | None = None) -> Message | None:
        """As ``Rsmq.receive_message``."""
        return await self._run(operations.receive_message(self._keys, queue, vt))

    async def receive_messages(self, queue: str, count: int, *, vt: int | None = None) -> list[Message]:
        """As ``Rsmq.receive_messages``."""
        return await self._run(operations.receive_messages(self._keys, queue, count, vt))

    async def pop_message(self, queue: str) -> Message | None:
        """As ``Rsmq.pop_message``."""
        return await self._run(operations.pop_message(self._keys, queue))

    async def delete_message(self, queue: str, id: str) -> bool:
        """As ``Rsmq.delete_message``."""
        return await self._run(operations.delete_message(self._keys, queue, id))

    async def delete_messages(self, queue: str, ids: Iterable[str]) -> list[bool]:
        """As ``Rsmq.delete_messages``."""
        return await self._run_all(operations.delete_messages(self._keys, queue, ids))

    async def change_message_visibility(self, queue: str, id: str, vt: int) -> bool:
        """As ``Rsmq.change_message_visibility``."""
        return await self._run(operations.change_message_visibility(self._keys, queue, id, vt))

    async def change_visibility_of(self, queue: str, ids: Iterable[str], vt: int) -> list[bool]:
        """As ``Rsmq.change_visibility_of``."""
        return await self._run_all(operations.change_visibility_of(self._keys, queue, ids, vt))

    async def restore_messages(self, queue: str, messages: Iterable[StoredMessage]) -> list[bool]:
        """As ``Rsmq.restore_messages``."""
        return await self._run_all(operations.restore_messages(self._keys, queue, messages))
