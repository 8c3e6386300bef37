"""The clients, synchronous and asyncio, and idempotent sends.

An idempotent send writes the marks of its messages into a set on the server, in the same atomic step as the messages. A
message whose mark is there is not sent again, even if a consumer has deleted it since.
"""

from collections.abc import Iterable
from typing import NamedTuple

from redis import Redis, RedisCluster
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio import RedisCluster as AsyncRedisCluster

from rsmq_tui.protocol import validation
from rsmq_tui.protocol.connections.script_runner import AsyncCommandRunner, CommandRunner, coroutine, method
from rsmq_tui.protocol.keys import Keys, random_suffix
from rsmq_tui.protocol.replies import clock_ms
from rsmq_tui.protocol.rsmq import operations
from rsmq_tui.protocol.rsmq.operations import Flow, Operation, chunked, optional_seconds
from rsmq_tui.protocol.rsmq.scripts import SEND_ONCE


class Rsmq(CommandRunner[Keys]):
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

    list_queues = method(operations.list_queues)
    create_queue = method(operations.create_queue)
    delete_queue = method(operations.delete_queue)
    get_queue_attributes = method(operations.get_queue_attributes)
    set_queue_attributes = method(operations.set_queue_attributes)
    send_message = method(operations.send_message)
    send_messages = method(operations.send_messages)
    receive_message = method(operations.receive_message)
    receive_messages = method(operations.receive_messages)
    pop_message = method(operations.pop_message)
    delete_message = method(operations.delete_message)
    delete_messages = method(operations.delete_messages)
    change_message_visibility = method(operations.change_message_visibility)
    change_visibility_of = method(operations.change_visibility_of)
    restore_messages = method(operations.restore_messages)


class Marked(NamedTuple):
    """A message to send once; ``mark`` identifies it."""

    mark: bytes
    body: str | bytes


def _send_once(
    keys: Keys, queue: str, messages: Iterable[Marked], *, fence: str, keep_s: int, delay: int | None = None
) -> Flow[list[bool]]:
    """Send the messages whose mark is not in the fence; return for each whether it was sent.

    They go in chunks, each atomic. A fence takes some 60 bytes a message, and expires ``keep_s`` seconds after its last
    use. Raises as ``send_messages``.
    """
    validation.queue_name(queue)
    given_delay = optional_seconds("delay", delay)
    encoded = [(message.mark, *validation.body_bytes(message.body)) for message in messages]
    longest = max((size for _, _, size in encoded), default=0)
    names = (keys.messages(queue), keys.attributes(queue), keys.marker(fence))
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

    send_once = method(_send_once)
    forget_fence = method(_forget_fence)
    now_ms = method(_now_ms)


class AsyncRsmq(AsyncCommandRunner[Keys]):
    """``Rsmq`` for asyncio: the same methods, arguments and errors, as coroutines."""

    def __init__(self, client: AsyncRedis | AsyncRedisCluster, ns: str = "rsmq", realtime: bool = False) -> None:
        super().__init__(client, Keys(ns, realtime))
        self.ns = ns
        self.realtime = realtime

    list_queues = coroutine(operations.list_queues)
    create_queue = coroutine(operations.create_queue)
    delete_queue = coroutine(operations.delete_queue)
    get_queue_attributes = coroutine(operations.get_queue_attributes)
    set_queue_attributes = coroutine(operations.set_queue_attributes)
    send_message = coroutine(operations.send_message)
    send_messages = coroutine(operations.send_messages)
    receive_message = coroutine(operations.receive_message)
    receive_messages = coroutine(operations.receive_messages)
    pop_message = coroutine(operations.pop_message)
    delete_message = coroutine(operations.delete_message)
    delete_messages = coroutine(operations.delete_messages)
    change_message_visibility = coroutine(operations.change_message_visibility)
    change_visibility_of = coroutine(operations.change_visibility_of)
    restore_messages = coroutine(operations.restore_messages)
