"""The clients, synchronous and asyncio, and idempotent sends.

An idempotent send writes the marks of its messages into a set on the server, in the same atomic step as the messages. A
message whose mark is there is not sent again, even if a consumer has deleted it since.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from redis import Redis, RedisCluster
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio import RedisCluster as AsyncRedisCluster

from rsmq_tui.protocol import validation
from rsmq_tui.protocol.connections.command_runner import AsyncCommandRunner, CommandRunner, Method
from rsmq_tui.protocol.keys import Keys, random_suffix
from rsmq_tui.protocol.replies import clock_ms
from rsmq_tui.protocol.rsmq import operations
from rsmq_tui.protocol.rsmq.operations import Flow, Operation, chunked, optional_seconds
from rsmq_tui.protocol.rsmq.scripts import SEND_ONCE


class _Operations:
    """The operations, as methods of both clients."""

    list_queues = Method(operations.list_queues)
    create_queue = Method(operations.create_queue)
    delete_queue = Method(operations.delete_queue)
    get_queue_attributes = Method(operations.get_queue_attributes)
    set_queue_attributes = Method(operations.set_queue_attributes)
    send_message = Method(operations.send_message)
    send_messages = Method(operations.send_messages)
    receive_message = Method(operations.receive_message)
    receive_messages = Method(operations.receive_messages)
    pop_message = Method(operations.pop_message)
    delete_message = Method(operations.delete_message)
    delete_messages = Method(operations.delete_messages)
    change_message_visibility = Method(operations.change_message_visibility)
    change_visibility_of = Method(operations.change_visibility_of)
    restore_messages = Method(operations.restore_messages)


class Rsmq(_Operations, CommandRunner[Keys]):
    """RSMQ over a redis-py client, which the caller owns, configures and closes.

    ``ns`` is the key prefix without its colon. A hash tag (``{rsmq}``) makes it work on Redis Cluster. ``realtime``
    publishes the depth on ``{ns}:rt:{queue}`` after each send, as the canonical client's option does.

    Every operation is one round trip and atomic. Refusals raise ``RsmqError`` with the canonical code; what the server
    or the network refuses raises redis-py's exceptions. ``AsyncRsmq`` has the same methods as coroutines.
    """

    def __init__(self, client: Redis | RedisCluster, ns: str = "rsmq", realtime: bool = False) -> None:
        super().__init__(client, Keys(ns, realtime))
        self.ns = ns
        self.realtime = realtime


class MarkedMessage(NamedTuple):
    """A message to send once; ``mark`` identifies it, and its first 12 bytes stand for the content."""

    mark: bytes
    body: str | bytes


def _send_once(
    keys: Keys,
    queue: str,
    messages: Iterable[MarkedMessage],
    *,
    fence: str,
    keep_s: int,
    delay: int | None = None,
    counts: Sequence[str] = (),
) -> Flow[list[bool]]:
    """Send the messages whose mark is not in the fence; return for each whether it was sent.

    A fence is a set, on the server, of the marks of what was sent. Messages go in chunks, each atomic, which adds their
    marks. A fence takes some 60 bytes a message, and expires ``keep_s`` seconds after its last use. ``counts`` are the
    names of two hashes: how often each content was sent under any fence, and how often it was to be sent in this write.
    It is then sent only if the second is greater. Raises as ``send_messages``.
    """
    validation.queue_name(queue)
    given_delay = optional_seconds("delay", delay)
    encoded = [(message.mark, *validation.body_bytes(message.body)) for message in messages]
    longest = max((size for _, _, size in encoded), default=0)
    names = (keys.messages(queue), keys.attributes(queue), *map(keys.marker, (fence, *counts)))
    sent: list[bool] = []
    for chunk in chunked(encoded, weight=lambda item: len(item[1])):
        parts = (part for mark, body, _ in chunk for part in (mark, random_suffix(), body))
        arguments = (given_delay, longest, keep_s, *parts)
        sent += yield Operation(SEND_ONCE, names, arguments, lambda reply: [fresh == 1 for fresh in reply])
    return sent


def _forget_fence(keys: Keys, fence: str, *, after_s: int) -> Operation[None]:
    """Let a fence expire ``after_s`` seconds from now, even if ``keep_s`` was longer."""
    return Operation(None, (), ("EXPIRE", keys.marker(fence), after_s), lambda _reply: None)


def _now_ms(_keys: Keys) -> Operation[int]:
    """Return the server's time."""
    return Operation(None, (), ("TIME",), clock_ms)


class FencedRsmq(Rsmq):
    """A client that also sends idempotently: a fence is the set of marks of what was sent."""

    send_once = Method(_send_once)
    forget_fence = Method(_forget_fence)
    now_ms = Method(_now_ms)


class AsyncRsmq(_Operations, AsyncCommandRunner[Keys]):
    """``Rsmq`` for asyncio: the same methods, arguments and errors, as coroutines."""

    def __init__(self, client: AsyncRedis | AsyncRedisCluster, ns: str = "rsmq", realtime: bool = False) -> None:
        super().__init__(client, Keys(ns, realtime))
        self.ns = ns
        self.realtime = realtime
