"""Whatever other clients do, a snapshot says what a full reading at that moment says, and its sums are those of it."""

import random
from collections.abc import Callable, Iterable
from contextlib import aclosing, suppress
from math import fsum
from typing import Any

import pytest
import redis

from rsmq_tui.monitor import QueueState, RsmqPoller, Totals, Verdict
from rsmq_tui.protocol import Rsmq, RsmqError, RsmqReader
from rsmq_tui.protocol.polling import FULL_EVERY
from tests.monitor.rows import Flow, Scripted

pytestmark = pytest.mark.slow

# 2096 and 1985: hidden and ready whenever these tests run.
LATER_MS = 4_000_000_000_000
EARLIER_MS = 500_000_000_000
STEPS = 50


def summed(states: Iterable[QueueState]) -> Totals:
    """The sums, made from the states one by one."""
    states = tuple(states)
    measured = [state for state in states if state.arrivals_s is not None]
    ready = [state for state in states if state.oldest_ready_due_ms is not None]
    oldest = min(ready, key=lambda state: (state.oldest_ready_due_ms, state.name), default=None)
    return Totals(
        depth=sum(state.depth or 0 for state in states),
        ready=sum(state.ready or 0 for state in states),
        hidden=sum(state.hidden or 0 for state in states),
        arrivals_s=fsum(state.arrivals_s or 0.0 for state in measured) if measured else None,
        deletes_s=fsum(state.deletes_s or 0.0 for state in measured) if measured else None,
        receives_s=fsum(state.receives_s or 0.0 for state in measured) if measured else None,
        oldest=oldest.name if oldest else None,
        oldest_ready_due_ms=oldest.oldest_ready_due_ms if oldest else None,
        verdicts={verdict: sum(state.verdict is verdict for state in states) for verdict in Verdict},
    )


def read_in_full(state: QueueState) -> tuple[object, ...]:
    """What one reading tells of a queue: all but what comes from the polls before, or from looks at messages."""
    rates = ("arrivals_s", "deletes_s", "receives_s")
    unread = (*rates, "poison", "highest_rc", "verdict", "since_ms", "drain", "drain_s")
    pending = ("pending_since_ms", "pending_until_ms", "idle_since_ms", "is_idle_longer")
    looked = ("looked", "looked_all_ms", "missing", "times", *(("broken",) if state.missing else ()))
    is_broken = state.verdict is Verdict.BROKEN and not state.missing
    left_out: dict[str, Any] = dict.fromkeys((*unread, *pending, *looked))
    return (*state._replace(**left_out), is_broken)


EVENTS: dict[str, Callable[[redis.Redis, Rsmq, str, int], object]] = {
    "create": lambda client, queues, name, step: queues.create_queue(name, vt=step),
    "delete queue": lambda client, queues, name, step: queues.delete_queue(name),
    "send": lambda client, queues, name, step: queues.send_message(name, "x"),
    "send again": lambda client, queues, name, step: queues.send_messages(name, ["x"] * 3),
    "send delayed": lambda client, queues, name, step: queues.send_message(name, "x", delay=9_000_000),
    "receive": lambda client, queues, name, step: queues.receive_message(name, vt=9_000_000),
    "receive and show": lambda client, queues, name, step: queues.receive_message(name, vt=0),
    "pop": lambda client, queues, name, step: queues.pop_message(name),
    "delete": lambda client, queues, name, step: client.zpopmin(f"rsmq:{name}"),
    "make old": lambda client, queues, name, step: client.zadd(f"rsmq:{name}", {"old": EARLIER_MS + step}),
    "hide": lambda client, queues, name, step: client.zadd(f"rsmq:{name}", {"old": LATER_MS + step}),
    "set": lambda client, queues, name, step: queues.set_queue_attributes(name, vt=step, delay=step, maxsize=-1),
    "lose messages": lambda client, queues, name, step: client.delete(f"rsmq:{name}"),
    "lose attributes": lambda client, queues, name, step: client.delete(f"rsmq:{name}:Q"),
    "wrong messages": lambda client, queues, name, step: client.set(f"rsmq:{name}", "x"),
    "wrong attributes": lambda client, queues, name, step: client.set(f"rsmq:{name}:Q", "x"),
    "only list": lambda client, queues, name, step: client.sadd("rsmq:QUEUES", name),
    "kill": lambda client, queues, name, step: client.client_kill_filter(_type="normal", skipme=True),
    "flush": lambda client, queues, name, step: client.flushall() if step % 50 == 7 else None,
}


@pytest.fixture
def crowd(client: redis.Redis) -> list[str]:
    """So many queues that hardly any of them is read in a poll unless it changed."""
    names = [f"a{number:04d}" for number in range(FULL_EVERY * 10)]
    with client.pipeline(transaction=False) as to:
        for name in names:
            to.sadd("rsmq:QUEUES", name).hset(f"rsmq:{name}:Q", mapping={"vt": 30, "delay": 0, "maxsize": -1})
        to.execute()
    return names


@pytest.mark.parametrize("seed", range(2))
async def test_every_snapshot_is_that_of_a_full_reading(
    client: redis.Redis, redis_url: str, reader: RsmqReader, crowd: list[str], seed: int
) -> None:
    rng = random.Random(seed)
    queues, poller = Rsmq(client), RsmqPoller(reader)
    names = [*(f"q{number}" for number in range(6)), *rng.sample(crowd, 6)]
    await poller.poll()
    for step in range(STEPS):
        for _ in range(rng.randrange(5)):
            # What the types of the keys do not allow does not happen.
            with suppress(RsmqError, redis.ResponseError):
                EVENTS[rng.choice(sorted(EVENTS))](client, queues, rng.choice(names), step)
        ours = await poller.poll()
        async with aclosing(RsmqReader(redis_url)) as fresh:
            full = await RsmqPoller(fresh).poll()

        assert ours.connection.failure is None
        assert [read_in_full(state) for state in ours.queues] == [read_in_full(state) for state in full.queues], step
        assert ours.totals == summed(ours.queues)
        sums = ("depth", "ready", "hidden", "oldest", "oldest_ready_due_ms")
        assert [getattr(ours.totals, name) for name in sums] == [getattr(full.totals, name) for name in sums]


@pytest.mark.parametrize("seed", range(8))
def test_sums_are_those_of_the_states_whatever_moves(seed: int) -> None:
    rng = random.Random(seed)
    watched = Scripted()
    flows = {f"q{number}": Flow(sent=rng.randrange(3)) for number in range(6)}
    for _ in range(200):
        for flow in rng.sample(sorted(flows.items()), rng.randrange(3)):
            flow[1].move(sent=rng.randrange(9), received=rng.randrange(5), deleted=min(flow[1].depth, rng.randrange(5)))
            flow[1].head_ms += rng.choice((-5000, 0, 5000))
            flow[1].hidden = rng.randrange(flow[1].depth + 1)
        rows = {name: flow.row() for name, flow in flows.items() if rng.random() < 0.97}
        for name in rows:
            if rng.random() < 0.03:
                rows[name] = rng.choice([[b"WRONGTYPE", 3], [[None] * 7, 0], [b"WRONGTYPE", b"WRONGTYPE"]])
        if rng.random() < 0.02:
            watched.resume(after_s=5)
        states = watched.poll(rows, after_s=rng.choice((0.0, 1.0, 1.0, 60.0)))

        assert watched.totals == summed(states.values())
