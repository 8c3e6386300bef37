"""List queues against the bare commands that they send."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import redis

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.protocol import Lease, ListNames, ListQueue
from rsmq_tui.protocol.lists import operations, scripts
from rsmq_tui.protocol.lists.operations import Location
from rsmq_tui.protocol.rsmq.operations import Operation
from tests.bench.measure import Call, interleave_calls
from tests.bench.queues import bodies
from tests.bench.row import Measured, Row, Run, Sense

_OURS, _OTHER = "ours", "other"
_VT_MS = 3_600_000


@contextmanager
def _busy_queues() -> Iterator[redis.Redis]:
    """A server with a queue for each side, of which a hundred items are being processed by others."""
    with EmbeddedServer() as server, redis.Redis(host="127.0.0.1", port=server.port) as client:
        for script in (scripts.TAKE, scripts.ACK):
            client.script_load(script.text)
        for name in (_OURS, _OTHER):
            queue = ListQueue(client, name)
            queue.push(*bodies(1_100))
            for _ in range(100):
                queue.take(_VT_MS)
        yield client


def _take_and_ack_against_bare(run: Run) -> Measured:
    with _busy_queues() as client:
        queue = ListQueue(client, _OURS)
        location = Location.of(_OTHER, ListNames())

        def ours(count: int) -> Sequence[Call]:
            return [partial(_take_and_ack, queue)] * count

        def theirs(count: int) -> Sequence[Call]:
            # Everything is known before: the next items, and the tokens that they will be leased with.
            items = reversed(ListQueue(client, _OTHER).peek(-count))
            calls: list[Call] = []
            for item in items:
                take = operations.take(location, _VT_MS)
                token = take.arguments[1]
                assert isinstance(token, str)
                ack = operations.ack(location, Lease(f"queue:{_OTHER}", item, token, 0))
                calls.append(partial(_in_turn, _bare(client, take), _bare(client, ack)))
            return calls

        def refilled(calls: Callable[[int], Sequence[Call]], name: str) -> Callable[[int], Sequence[Call]]:
            def prepare(count: int) -> Sequence[Call]:
                ListQueue(client, name).push(*bodies(count))
                return calls(count)

            return prepare

        return interleave_calls(run, refilled(ours, _OURS), refilled(theirs, _OTHER), rounds=120)


def _take_and_ack(queue: ListQueue) -> None:
    lease = queue.take(_VT_MS)
    assert lease is not None
    queue.ack(lease)


def _bare(client: redis.Redis, operation: Operation[Any]) -> Call:
    """Return the EVALSHA of an operation, its arguments made beforehand, its reply left as it comes."""
    assert operation.script is not None
    return partial(client.evalsha, operation.script.sha, len(operation.keys), *operation.keys, *operation.arguments)


def _in_turn(first: Call, second: Call) -> None:
    first()
    second()


ROWS = (
    Row(
        "take and ack, list queue",
        "bare EVALSHA calls of the same scripts through redis-py",
        "us",
        Sense.TIMES_LESS,
        0.9,
        _take_and_ack_against_bare,
    ),
)
