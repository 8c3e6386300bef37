"""Sending under a fence: what was sent behind it is not sent again, however often whoever sends it has to begin anew.

The fence is a set on the server, beside the queue, of the marks of all messages that were sent behind it; it is written
in the same atomic step as the messages. So it holds also where a consumer has deleted some of them since.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rsmq_tui.protocol import validation
from rsmq_tui.protocol.client import Rsmq
from rsmq_tui.protocol.ids import random_suffix
from rsmq_tui.protocol.keys import Keys
from rsmq_tui.protocol.operations import Argument, Operation, chunked
from rsmq_tui.protocol.replies import clock_ms
from rsmq_tui.protocol.scripts import SEND_ONCE


class Marked(NamedTuple):
    """A message that is to be sent once; two that are the same message have the same mark, and others another."""

    mark: bytes
    body: str | bytes


class FencedRsmq(Rsmq):
    """A client that also sends behind fences."""

    def send_once(
        self, queue: str, messages: Iterable[Marked], *, fence: str, keep_s: int, delay: int | None = None
    ) -> list[bool]:
        """Send those messages that were not sent behind the fence before, and tell which these are.

        They go in chunks, each atomic. A fence takes some 60 bytes a message, and is forgotten ``keep_s`` seconds after
        its last use. Raises as ``send_messages``.
        """
        return self._run_all(_send_once(self._keys, queue, messages, fence, keep_s, delay))

    def forget_fence(self, fence: str, *, after_s: int) -> None:
        """Let a fence be forgotten so many seconds from now, even if ``keep_s`` was longer."""
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
