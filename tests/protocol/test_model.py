"""Random sequences of operations on the real server, each compared with a small model of a queue."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import redis
import redis.asyncio
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from rsmq_tui.protocol import AsyncRsmq, Message, Rsmq
from tests.machines import run_machine
from tests.protocol.keyspace import now_ms

# At once, or so late that no test sees it: what is ready never depends on how fast the test runs.
LATE_S = 1_000_000
SECONDS = st.sampled_from([0, LATE_S])
GIVEN_SECONDS = st.sampled_from([None, 0, LATE_S])
BODIES = st.one_of(st.binary(max_size=20), st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
WHICH = st.integers(min_value=0, max_value=50)
QUEUE = "q"


@dataclass
class Stored:
    """What the model knows of one message."""

    body: bytes
    due_ms: float
    rc: int = 0
    fr_ms: int | None = None


@dataclass
class Model:
    """What the queue should be."""

    vt: int = 30
    delay: int = 0
    totalsent: int = 0
    totalrecv: int = 0
    messages: dict[str, Stored] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)

    def ready(self, at_ms: int) -> list[str]:
        due = [(stored.due_ms, value) for value, stored in self.messages.items() if stored.due_ms <= at_ms]
        return [value for _, value in sorted(due)]


class QueueMachine(RuleBasedStateMachine):
    """Runs each operation on the server and on the model."""

    def __init__(self, client: redis.Redis, call: Callable[..., Any]) -> None:
        super().__init__()
        self.client = client
        self.call = call
        self.model = Model()

    @initialize(vt=SECONDS, delay=SECONDS)
    def create(self, vt: int, delay: int) -> None:
        self.client.flushall()
        self.call("create_queue", QUEUE, vt=vt, delay=delay)
        self.model = Model(vt=vt, delay=delay)

    @rule(body=BODIES, delay=GIVEN_SECONDS)
    def send(self, body: str | bytes, delay: int | None) -> None:
        since_ms = now_ms(self.client)
        self.sent([self.call("send_message", QUEUE, body, delay=delay)], [body], delay, since_ms)

    @rule(bodies=st.lists(BODIES, max_size=6), delay=GIVEN_SECONDS)
    def send_many(self, bodies: list[str | bytes], delay: int | None) -> None:
        since_ms = now_ms(self.client)
        self.sent(self.call("send_messages", QUEUE, bodies, delay=delay), bodies, delay, since_ms)

    @rule(vt=GIVEN_SECONDS)
    def receive(self, vt: int | None) -> None:
        since_ms = now_ms(self.client)
        received = self.call("receive_message", QUEUE, vt=vt)
        self.received([received] if received else [], 1, vt, since_ms)

    @rule(count=st.integers(min_value=1, max_value=8), vt=GIVEN_SECONDS)
    def receive_many(self, count: int, vt: int | None) -> None:
        since_ms = now_ms(self.client)
        self.received(self.call("receive_messages", QUEUE, count, vt=vt), count, vt, since_ms)

    @rule()
    def pop(self) -> None:
        since_ms = now_ms(self.client)
        popped = self.call("pop_message", QUEUE)
        self.delivered([popped] if popped else [], 1, since_ms)
        if popped:
            del self.model.messages[popped.id]
            self.model.gone.append(popped.id)

    @rule(which=st.lists(WHICH, max_size=5))
    def delete(self, which: list[int]) -> None:
        ids = [self.known(number) for number in which]
        expected = [ids.index(value) == place and value in self.model.messages for place, value in enumerate(ids)]

        assert self.call("delete_messages", QUEUE, ids) == expected

        for value in {*ids} & self.model.messages.keys():
            del self.model.messages[value]
            self.model.gone.append(value)

    @rule(which=st.lists(WHICH, max_size=5), vt=SECONDS)
    def change_visibility(self, which: list[int], vt: int) -> None:
        ids = [self.known(number) for number in which]
        since_ms = now_ms(self.client)

        changed = self.call("change_visibility_of", QUEUE, ids, vt)

        assert changed == [value in self.model.messages for value in ids]
        self.moved({*ids} & self.model.messages.keys(), vt, since_ms)

    @rule(vt=GIVEN_SECONDS, delay=GIVEN_SECONDS)
    def set_attributes(self, vt: int | None, delay: int | None) -> None:
        self.call("set_queue_attributes", QUEUE, vt=vt, delay=delay, maxsize=65536)
        self.model.vt = self.model.vt if vt is None else vt
        self.model.delay = self.model.delay if delay is None else delay

    @invariant()
    def attributes_are_those_of_the_model(self) -> None:
        found = self.call("get_queue_attributes", QUEUE)
        depth = len(self.model.messages)
        hidden = depth - len(self.model.ready(now_ms(self.client)))
        assert (found.vt, found.delay) == (self.model.vt, self.model.delay)
        assert (found.msgs, found.hiddenmsgs) == (depth, hidden)
        assert (found.totalsent, found.totalrecv) == (self.model.totalsent, self.model.totalrecv)

    @invariant()
    def the_keys_hold_what_the_model_holds_and_nothing_else(self) -> None:
        fields = self.client.hgetall(f"rsmq:{QUEUE}:Q")
        attributes = {b"vt", b"delay", b"maxsize", b"created", b"modified", b"totalsent", b"totalrecv"}
        expected: dict[bytes, bytes] = {}
        for value, stored in self.model.messages.items():
            expected[value.encode()] = stored.body
            if stored.rc:
                expected[f"{value}:rc".encode()] = str(stored.rc).encode()
                expected[f"{value}:fr".encode()] = str(stored.fr_ms).encode()
        assert {name: value for name, value in fields.items() if name not in attributes} == expected
        places = {value.encode(): stored.due_ms for value, stored in self.model.messages.items()}
        assert dict(self.client.zrange(f"rsmq:{QUEUE}", 0, -1, withscores=True)) == places

    def known(self, number: int) -> str:
        ids = [*self.model.messages, *self.model.gone, "0" * 32]
        return ids[number % len(ids)]

    def sent(self, ids: list[str], bodies: list[str | bytes], delay: int | None, since_ms: int) -> None:
        assert len(ids) == len(bodies)
        assert not {*ids} & {*self.model.messages, *self.model.gone}
        for value, body in zip(ids, bodies, strict=True):
            self.model.messages[value] = Stored(body.encode() if isinstance(body, str) else body, 0)
        self.model.totalsent += len(ids)
        self.moved(ids, self.model.delay if delay is None else delay, since_ms)

    def delivered(self, received: list[Message], count: int, since_ms: int) -> None:
        until_ms = now_ms(self.client)
        assert [message.id for message in received] == self.model.ready(until_ms)[:count]
        for message in received:
            stored = self.model.messages[message.id]
            stored.rc += 1
            stored.fr_ms = message.fr_ms if stored.fr_ms is None else stored.fr_ms
            assert (message.body, message.rc, message.fr_ms) == (stored.body, stored.rc, stored.fr_ms)
            assert stored.rc > 1 or since_ms <= message.fr_ms <= until_ms
        self.model.totalrecv += len(received)

    def received(self, received: list[Message], count: int, vt: int | None, since_ms: int) -> None:
        self.delivered(received, count, since_ms)
        self.moved([message.id for message in received], self.model.vt if vt is None else vt, since_ms)

    def moved(self, ids: Any, by_s: int, since_ms: int) -> None:
        """The messages are due ``by_s`` seconds after a moment between ``since_ms`` and now, which the server chose."""
        until_ms = now_ms(self.client)
        for value in ids:
            due_ms = self.client.zscore(f"rsmq:{QUEUE}", value)
            assert since_ms <= due_ms - by_s * 1000 <= until_ms
            self.model.messages[value].due_ms = due_ms


RANDOM = settings(
    max_examples=20,
    stateful_step_count=25,
    derandomize=True,
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_any_sequence_of_operations_does_what_the_model_does(kind: str, client: redis.Redis, redis_url: str) -> None:
    if kind == "sync":
        queues = Rsmq(client)
        run_machine(
            lambda: QueueMachine(client, lambda name, *given, **named: getattr(queues, name)(*given, **named)),
            settings=RANDOM,
        )
        return
    with asyncio.Runner() as runner:
        aconnected = redis.asyncio.Redis.from_url(redis_url)
        aqueues = AsyncRsmq(aconnected)
        try:
            run_machine(
                lambda: QueueMachine(
                    client, lambda name, *given, **named: runner.run(getattr(aqueues, name)(*given, **named))
                ),
                settings=RANDOM,
            )
        finally:
            runner.run(aconnected.aclose())
