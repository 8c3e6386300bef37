"""Random interleavings of consumers that take, finish, give back and die, and of reapers: nothing lost or doubled."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import pytest
import redis
import redis.asyncio
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from hypothesis.stateful import run_state_machine_as_test as run_machine

from rsmq_tui.protocol import AsyncListQueue, Lease, ListNames, ListQueue, Reaped
from rsmq_tui.protocol.lists import operations
from rsmq_tui.protocol.lists.operations import Location
from tests.protocol.lists.conftest import each_once

pytestmark = pytest.mark.slow

QUEUE, PROCESSING, LEASES = b"queue:orders", b"queue:orders:processing", b"queue:orders:leases"
# A lease has ended as soon as it is given, or no test sees its end: nothing depends on how fast the test runs.
LATE_MS = 1_000_000_000
TIMES = st.sampled_from([0, LATE_MS])
ITEMS = st.sampled_from([b"a", b"b", b"*", b""])
WHICH = st.integers(min_value=0, max_value=5)

Call = Callable[..., Any]


@dataclass
class Held:
    """A lease that a consumer has, or had; ``lasts`` as long as nobody lets it end."""

    lease: Lease
    lasts: bool


class LeaseMachine(RuleBasedStateMachine):
    """Consumers and reapers on one queue; ``call`` calls a method of the client, ``adopt`` leases what was moved.

    A rule that finds nothing to do does nothing: which of two equal items is whose is random, so that no precondition
    would always say the same.
    """

    def __init__(self, client: redis.Redis, call: Call, adopt: Call) -> None:
        super().__init__()
        self.client = client
        self.call = call
        self.adopt = adopt
        self.pushed: Counter[bytes] = Counter()
        self.done: Counter[bytes] = Counter()
        self.held: list[Held] = []
        # Moved by consumers that wait and have not yet leased it.
        self.moved: list[bytes] = []
        # What lies in the keys; ``real`` are the items that consumers have leased.
        self.queue: Counter[bytes] = Counter()
        self.processing: Counter[bytes] = Counter()
        self.real: Counter[bytes] = Counter()
        self.leases: set[bytes] = set()

    @initialize(items=st.lists(ITEMS, min_size=3, max_size=8))
    def begin(self, items: list[bytes]) -> None:
        self.client.flushall()
        self.push(items)

    @rule(items=st.lists(ITEMS, min_size=1, max_size=4))
    def push(self, items: list[bytes]) -> None:
        self.call("push", *items)
        self.pushed.update(items)

    @rule(vt_ms=TIMES, waits=st.booleans())
    def take(self, vt_ms: int, waits: bool) -> None:
        if not self.queue:
            return
        expected = self.client.lindex(QUEUE, -1)
        lease = self.call("take_blocking", 2, vt_ms) if waits else self.call("take", vt_ms)
        assert lease.item == expected
        self.hold(lease, vt_ms)

    @rule()
    def move(self) -> None:
        if not self.queue:
            return
        item = ListQueue(self.client, QUEUE).move(PROCESSING)
        assert item is not None
        self.moved.append(item)

    @rule(which=WHICH, vt_ms=TIMES)
    def lease_what_was_moved(self, which: int, vt_ms: int) -> None:
        if not self.moved:
            return
        item = self.moved.pop(which % len(self.moved))
        lease = self.adopt(item, vt_ms)
        assert (lease is not None) == (self.processing[item] > self.real[item])
        # None is given where there is one to be taken over.
        before = sum(member[23:] == item for member in self.leases)
        self.look()
        assert sum(member[23:] == item for member in self.leases) <= max(before, self.processing[item])
        self.hold(lease, vt_ms)

    @rule(which=WHICH)
    def finish_without_a_lease(self, which: int) -> None:
        if not self.moved:
            return
        item = self.moved[which % len(self.moved)]
        # Whoever knows of no leases removes an item, which is its own only as long as it was not reaped.
        if self.processing[item] > self.real[item]:
            self.moved.remove(item)
            assert ListQueue(self.client, PROCESSING).remove(item) == 1
            self.done[item] += 1

    @rule(which=WHICH)
    def acknowledge(self, which: int) -> None:
        if not self.held:
            return
        held = self.held[which % len(self.held)]
        there = self.is_there(held)
        assert self.call("ack", held.lease) is there
        assert self.call("ack", held.lease) is False
        self.done[held.lease.item] += there
        held.lasts = False

    @rule(which=WHICH, to_back=st.booleans())
    def give_back(self, which: int, to_back: bool) -> None:
        if not self.held:
            return
        held = self.held[which % len(self.held)]
        there = self.is_there(held)
        assert self.call("nack", held.lease, to_back=to_back) is there
        if there:
            assert self.client.lindex(QUEUE, 0 if to_back else -1) == held.lease.item
        held.lasts = False

    @rule(which=WHICH, vt_ms=TIMES)
    def extend(self, which: int, vt_ms: int) -> None:
        if not self.held:
            return
        held = self.held[which % len(self.held)]
        there = self.is_there(held)
        longer = self.call("extend", held.lease, vt_ms)
        assert (longer is not None) is there
        if longer is not None:
            held.lease, held.lasts = longer, vt_ms == LATE_MS

    @rule(which=WHICH, leased=st.booleans())
    def die(self, which: int, leased: bool) -> None:
        owned: list[Any] = self.held if leased else self.moved
        if owned:
            owned.pop(which % len(owned))

    @rule(which=WHICH)
    def time_passes_for_a_lease(self, which: int) -> None:
        if not self.leases:
            return
        member = sorted(self.leases, key=lambda each: (each[23:], each[:1] == b"~"))[which % len(self.leases)]
        self.client.zadd(LEASES, {member: 1})
        for held in self.held:
            held.lasts = held.lasts and held.lease.member != member

    @rule(grace_ms=TIMES)
    def reap(self, grace_ms: int) -> None:
        if not self.processing:
            return
        before, ended = (self.queue, self.processing, self.leases), self.ended()
        reaped = self.call("reap", grace_ms=grace_ms)
        self.look()
        queue, processing, leases = self.queue, self.processing, self.leases
        # Whatever is being processed is leased to somebody, once, and nothing else is.
        assert Counter(member[23:] for member in leases) == processing
        assert reaped == Reaped(
            queue.total() - before[0].total(),
            sum(member not in before[2] for member in leases),
            len(before[2]) - reaped.returned - sum(member in before[2] for member in leases),
        )
        assert reaped.returned <= len(ended)
        assert not ended & leases

    @rule(limit=st.integers(min_value=1, max_value=3), examine=st.sampled_from([0, 1_000]))
    def reap_a_little(self, limit: int, examine: int) -> None:
        if not self.processing:
            return
        reaped = self.call("reap", limit=limit, examine=examine)
        assert reaped.returned + reaped.adopted <= limit or examine == 0

    @invariant()
    def nothing_is_lost_or_doubled(self) -> None:
        self.look()
        assert self.queue + self.processing + self.done == self.pushed

    @invariant()
    def what_is_leased_stays_leased(self) -> None:
        self.look()
        assert {held.lease.member for held in self.held if held.lasts} <= self.leases
        assert self.real <= self.processing

    def hold(self, lease: Lease | None, vt_ms: int) -> None:
        if lease is not None:
            self.held.append(Held(lease, vt_ms == LATE_MS))

    def is_there(self, held: Held) -> bool:
        return self.client.zscore(LEASES, held.lease.member) is not None

    def ended(self) -> set[bytes]:
        seconds, microseconds = self.client.time()
        return {*self.client.zrange(LEASES, "-inf", seconds * 1000 + microseconds // 1000, byscore=True)}

    def look(self) -> None:
        """See what is ready, what is being processed, and the leases."""
        pipeline = self.client.pipeline()
        pipeline.lrange(QUEUE, 0, -1)
        pipeline.lrange(PROCESSING, 0, -1)
        pipeline.zrange(LEASES, 0, -1)
        queue, processing, leases = pipeline.execute()
        self.queue, self.processing, self.leases = Counter(queue), Counter(processing), {*leases}
        self.real = Counter(member[23:] for member in self.leases if member[:1] != b"~")

    def walk(self, dice: random.Random, steps: int) -> None:
        """Take steps as the dice fall, with the invariants after each; what hypothesis would rather not repeat."""
        which = partial(dice.randrange, 6)
        vt_ms = partial(dice.choice, (0, LATE_MS))
        items = dice.choices((b"a", b"b", b"*", b""), k=6)
        self.begin(items)
        for _ in range(steps):
            may: list[Callable[[], None]] = [lambda: self.push(dice.choices(items, k=dice.randrange(1, 3)))]
            if self.queue:
                may += [lambda: self.take(vt_ms(), dice.random() < 0.5)] * 3 + [self.move] * 2
            if self.moved:
                may += [lambda: self.lease_what_was_moved(which(), vt_ms())] * 2
                may += [lambda: self.die(which(), leased=False), lambda: self.finish_without_a_lease(which())]
            if self.held:
                may += [
                    lambda: self.acknowledge(which()),
                    lambda: self.give_back(which(), dice.random() < 0.5),
                    lambda: self.extend(which(), vt_ms()),
                    lambda: self.die(which(), leased=True),
                ]
            if self.leases:
                may += [lambda: self.time_passes_for_a_lease(which())] * 2
            if self.processing:
                may += [lambda: self.reap(vt_ms()), lambda: self.reap_a_little(dice.randrange(1, 4), which() * 4)]
            dice.choice(may)()
            self.nothing_is_lost_or_doubled()
            self.what_is_leased_stays_leased()


RANDOM = settings(
    max_examples=15,
    stateful_step_count=40,
    # Shrinking what fails takes minutes of a server's time.
    phases=[Phase.generate],
    derandomize=True,
)


@pytest.fixture
def make_machine(any_server: int, kind: str) -> Iterator[Callable[[], LeaseMachine]]:
    """Makes machines on a queue of either client."""
    with redis.Redis(port=any_server) as client, asyncio.Runner() as runner:
        location = Location.of(QUEUE, ListNames())
        if kind == "sync":
            queue = ListQueue(client, QUEUE)
            yield lambda: LeaseMachine(
                client,
                lambda name, *given, **named: getattr(queue, name)(*given, **named),
                lambda item, vt_ms: queue._run(operations.adopt(location, item, vt_ms)),
            )
            return
        aclient = redis.asyncio.Redis(port=any_server)
        aqueue = AsyncListQueue(aclient, QUEUE)
        yield lambda: LeaseMachine(
            client,
            lambda name, *given, **named: runner.run(getattr(aqueue, name)(*given, **named)),
            lambda item, vt_ms: runner.run(aqueue._run(operations.adopt(location, item, vt_ms))),
        )
        runner.run(aclient.aclose())


@each_once
def test_any_interleaving_keeps_every_item_once(make_machine: Callable[[], LeaseMachine]) -> None:
    run_machine(cast(Any, make_machine), settings=RANDOM)


@each_once
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_long_interleavings_keep_every_item_once(make_machine: Callable[[], LeaseMachine], seed: int) -> None:
    for part in range(8):
        make_machine().walk(random.Random(seed * 100 + part), steps=50)
