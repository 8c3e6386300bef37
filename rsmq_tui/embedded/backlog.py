"""The messages that lie in a demo queue before its producer sends the first one."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from random import Random
from typing import Any

from rsmq_tui.embedded.scenarios import Backlog, Scenario
from rsmq_tui.protocol import StoredMessage, make_id
from rsmq_tui.protocol.keys import Keys


def messages_of(scenario: Scenario, rng: Random, *, now_ms: int) -> Iterator[StoredMessage]:
    """Make the scenario's backlog as of ``now_ms``, the server's time in ms since the epoch, oldest first."""
    backlog = scenario.backlog
    if backlog is None:
        return
    body = backlog.body or scenario.body
    for index in range(backlog.count):
        if scenario.delay_s is None:
            sent_us = now_ms * 1000 - int(1e6 * age_s(backlog, index / backlog.count))
            due_ms = sent_us // 1000
        else:
            delay_ms = int(1000 * rng.uniform(*scenario.delay_s))
            due_ms = now_ms + int(delay_ms * rng.random())
            sent_us = (due_ms - delay_ms) * 1000
        rc = backlog.rcs[index % len(backlog.rcs)]
        # Whoever received it let it expire, each time.
        due_ms += rc * scenario.vt_s * 1000
        first_ms = sent_us // 1000 + 400 if rc else None
        yield StoredMessage(make_id(sent_us), body(rng), due_ms, rc, first_ms)


class Counters:
    """The totals of a namespace's queues, which restoring messages leaves as they are."""

    def __init__(self, command: Callable[..., Awaitable[Any]], ns: str) -> None:
        self._command = command
        self._keys = Keys(ns)

    async def count(self, queue: str, messages: Sequence[StoredMessage]) -> None:
        """Count messages as sent, and as received as often as they say: what is in a queue was sent to it once."""
        key = self._keys.attributes(queue)
        await self._command("HINCRBY", key, "totalsent", len(messages))
        await self._command("HINCRBY", key, "totalrecv", sum(message.rc for message in messages))


def age_s(backlog: Backlog, share: float) -> float:
    """Return how old the message is before which that share of the backlog was sent."""
    # The straight tenth keeps a skewed backlog from having thousands of messages in its oldest second.
    passed = 0.9 * float(share**backlog.skew) + 0.1 * share
    return backlog.oldest_s * (1.0 - passed)
