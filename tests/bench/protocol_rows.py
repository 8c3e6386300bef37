"""Operations one by one and in batches, against PyRSMQ and against a bare EVALSHA of our own scripts."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import redis

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.protocol import Rsmq
from rsmq_tui.protocol.keys import Keys
from rsmq_tui.protocol.rsmq import operations
from rsmq_tui.protocol.rsmq.operations import Operation
from tests.bench.measure import Call, Prepare, interleave, interleave_calls
from tests.bench.queues import NS, bodies
from tests.bench.row import Measured, Row, Run, Sense

_OURS, _OTHER = "ours", "other"


@dataclass(frozen=True, slots=True)
class _Scene:
    """A server with a queue for each side, and a client of ours and of the peer on it."""

    server: EmbeddedServer
    client: redis.Redis
    rsmq: Rsmq

    def received_ids(self, queue: str, count: int) -> list[str]:
        """Send and receive messages, so that each has a body, a count and a first time to delete."""
        self.rsmq.send_messages(queue, bodies(count))
        ids = [message.id for message in self.rsmq.receive_messages(queue, count)]
        assert len(ids) == count
        return ids

    def peer(self) -> Any:
        """Return a PyRSMQ on a client of its own making, as its users have it."""
        from rsmq import RedisSMQ

        return RedisSMQ(host="127.0.0.1", port=self.server.port, ns=NS)

    def bare(self, operation: Operation[Any]) -> Call:
        """Return the EVALSHA of an operation, its arguments made beforehand, its reply left as it comes."""
        assert operation.script is not None
        return partial(
            self.client.evalsha, operation.script.sha, len(operation.keys), *operation.keys, *operation.arguments
        )


@contextmanager
def _scene() -> Iterator[_Scene]:
    with EmbeddedServer() as server, redis.Redis(host="127.0.0.1", port=server.port) as client:
        rsmq = Rsmq(client, ns=NS)
        for queue in (_OURS, _OTHER):
            rsmq.create_queue(queue, vt=3600)
            # A backlog gives the keys the encoding that they have in use; it is never ready.
            rsmq.send_messages(queue, bodies(1_000), delay=86_400)
        yield _Scene(server, client, rsmq)


def _one_by_one(run: Run, ours: Prepare, other: Prepare) -> Measured:
    return interleave_calls(run, ours, other, rounds=160)


def _execute(command: Callable[..., Any], **given: Any) -> None:
    """Make a command of PyRSMQ, and execute it: its users do both for each message."""
    command(qname=_OTHER, **given).execute()


def _send_ours(scene: _Scene, count: int) -> Sequence[Call]:
    return [partial(scene.rsmq.send_message, _OURS, body) for body in bodies(count)]


def _receive_ours(scene: _Scene, count: int) -> Sequence[Call]:
    scene.rsmq.send_messages(_OURS, bodies(count))
    return [partial(scene.rsmq.receive_message, _OURS)] * count


def _delete_ours(scene: _Scene, count: int) -> Sequence[Call]:
    return [partial(scene.rsmq.delete_message, _OURS, id) for id in scene.received_ids(_OURS, count)]


def _send_against_pyrsmq(run: Run) -> Measured:
    with _scene() as scene:
        peer = scene.peer()

        def theirs(count: int) -> Sequence[Call]:
            texts = [body.decode() for body in bodies(count)]
            return [partial(_execute, peer.sendMessage, message=text) for text in texts]

        return _one_by_one(run, partial(_send_ours, scene), theirs)


def _receive_against_pyrsmq(run: Run) -> Measured:
    with _scene() as scene:
        peer = scene.peer()

        def theirs(count: int) -> Sequence[Call]:
            scene.rsmq.send_messages(_OTHER, bodies(count))
            return [partial(_execute, peer.receiveMessage)] * count

        return _one_by_one(run, partial(_receive_ours, scene), theirs)


def _delete_against_pyrsmq(run: Run) -> Measured:
    with _scene() as scene:
        peer = scene.peer()

        def theirs(count: int) -> Sequence[Call]:
            ids = scene.received_ids(_OTHER, count)
            return [partial(_execute, peer.deleteMessage, id=id) for id in ids]

        return _one_by_one(run, partial(_delete_ours, scene), theirs)


def _send_against_bare(run: Run) -> Measured:
    with _scene() as scene:

        def theirs(count: int) -> Sequence[Call]:
            return [scene.bare(operations.send_message(Keys(NS), _OTHER, body)) for body in bodies(count)]

        return _one_by_one(run, partial(_send_ours, scene), theirs)


def _receive_against_bare(run: Run) -> Measured:
    with _scene() as scene:

        def theirs(count: int) -> Sequence[Call]:
            scene.rsmq.send_messages(_OTHER, bodies(count))
            return [scene.bare(operations.receive_message(Keys(NS), _OTHER))] * count

        return _one_by_one(run, partial(_receive_ours, scene), theirs)


def _delete_against_bare(run: Run) -> Measured:
    with _scene() as scene:

        def theirs(count: int) -> Sequence[Call]:
            return [
                scene.bare(operations.delete_message(Keys(NS), _OTHER, id)) for id in scene.received_ids(_OTHER, count)
            ]

        return _one_by_one(run, partial(_delete_ours, scene), theirs)


def _batches_against_pyrsmq(run: Run) -> Measured:
    # PyRSMQ sends a tenth of the messages and its time is scaled: it is the same for each message.
    count, scaled = run.size(10_000, 50), 10
    with _scene() as scene:
        peer, ours_bodies = scene.peer(), bodies(count)
        theirs_bodies = [body.decode() for body in ours_bodies[: count // scaled]]

        def ours() -> float:
            started_s = time.perf_counter()
            scene.rsmq.send_messages(_OURS, ours_bodies)
            return (time.perf_counter() - started_s) * 1000

        def theirs() -> float:
            started_s = time.perf_counter()
            for text in theirs_bodies:
                peer.sendMessage(qname=_OTHER, message=text).execute()
            return (time.perf_counter() - started_s) * 1000 * scaled

        return interleave(run, lambda: ours, lambda: theirs, pairs=12, warm_up=1, limit_s=10)


def _against_pyrsmq(name: str, target: float, measure: Callable[[Run], Measured]) -> Row:
    return Row(f"{name} one by one, against PyRSMQ", "PyRSMQ", "us", Sense.TIMES_LESS, target, measure)


def _against_bare(name: str, measure: Callable[[Run], Measured]) -> Row:
    against = "a bare EVALSHA of the same script through redis-py"
    return Row(f"{name} one by one, against a bare EVALSHA", against, "us", Sense.AT_MOST, 1.15, measure)


ROWS = (
    _against_pyrsmq("send", 1.8, _send_against_pyrsmq),
    _against_pyrsmq("receive", 1.8, _receive_against_pyrsmq),
    _against_pyrsmq("delete", 1.2, _delete_against_pyrsmq),
    _against_bare("send", _send_against_bare),
    _against_bare("receive", _receive_against_bare),
    _against_bare("delete", _delete_against_bare),
    Row(
        "send 10,000 in batches",
        "PyRSMQ one by one, a tenth of them, scaled",
        "ms",
        Sense.TIMES_LESS,
        20,
        _batches_against_pyrsmq,
    ),
)
