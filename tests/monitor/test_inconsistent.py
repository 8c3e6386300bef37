"""Every inconsistent state that clients leave behind is a row of its own, and disturbs no other."""

from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest
import redis

from rsmq_tui.monitor import (
    Drain,
    PageRequest,
    PeekError,
    QueueState,
    RsmqPoller,
    Snapshot,
    Thresholds,
    Verdict,
    reason,
)
from rsmq_tui.protocol import Index, Rsmq, RsmqReader
from tests.protocol.keyspace import now_ms, plant

ID = "x" * 32
HEALTHY = ("alpha", "mike", "zulu")
NOT_FOUND = "clients report queueNotFound"


def listed(client: redis.Redis, name: str, **attributes: str | int) -> None:
    client.sadd("rsmq:QUEUES", name)
    if attributes:
        client.hset(f"rsmq:{name}:Q", mapping=attributes)


def healthy(client: redis.Redis, name: str) -> None:
    queues = Rsmq(client)
    queues.create_queue(name)
    for body in ("one", "two"):
        queues.send_message(name, body)
    queues.receive_message(name)


def usable(client: redis.Redis, name: str) -> None:
    """A queue that works, without messages, dates of its own making."""
    listed(client, name, vt=30, delay=0, maxsize=65536, created=1_750_000_000, modified=1_750_000_000)


def no_hash(client: redis.Redis, name: str) -> None:
    listed(client, name)
    client.zadd(f"rsmq:{name}", {ID: now_ms(client), "y" * 32: 5})


def lost_to_a_send(client: redis.Redis, name: str) -> None:
    listed(client, name, totalsent=1, **{ID: "body"})
    client.zadd(f"rsmq:{name}", {ID: now_ms(client)})


def wrong_hash(client: redis.Redis, name: str) -> None:
    listed(client, name)
    client.rpush(f"rsmq:{name}:Q", "x")
    client.zadd(f"rsmq:{name}", {ID: 5})


def wrong_zset(client: redis.Redis, name: str) -> None:
    usable(client, name)
    client.hset(f"rsmq:{name}", "vt", "30")


def galadd(client: redis.Redis, name: str) -> None:
    listed(client, name)
    client.hset(f"rsmq:{name}", mapping={"vt": "30", "msgs": "4"})
    client.rpush(f"rsmq:{name}:Q", "x")


# name -> how it is made, why nobody can use it, its depth
BROKEN: dict[str, tuple[Callable[[redis.Redis, str], None], str, int | None]] = {
    "ghost": (listed, f"it is listed but has no keys: {NOT_FOUND}", 0),
    "zset-without-hash": (no_hash, f"it holds 2 message ids but its attributes hash is gone: {NOT_FOUND}", 2),
    "hash-without-vt": (lost_to_a_send, f"its attributes hold no vt: {NOT_FOUND}", 1),
    "PyRSMQ-set-on-missing": (lambda c, n: listed(c, n, modified=5), f"its attributes hold no vt: {NOT_FOUND}", 0),
    "vt-garbage": (lambda c, n: listed(c, n, vt="soon"), "its vt is not a number: soon", 0),
    "wrong-hash": (wrong_hash, "its attributes key is not a hash", 1),
    "wrong-zset": (wrong_zset, "its messages key is not a sorted set", None),
    "galadd": (galadd, "its attributes key is not a hash", None),
    "QUEUES": (usable, "its messages key is not a sorted set", None),
}


def planted(*messages: dict[str, Any], **attributes: str) -> Callable[[redis.Redis, str], None]:
    def make(client: redis.Redis, name: str) -> None:
        usable(client, name)
        if attributes:
            client.hset(f"rsmq:{name}:Q", mapping=attributes)
        for number, message in enumerate(messages):
            identity = str(message.get("id", chr(ord("a") + number) * 32))
            due_ms = message.get("due_ms", now_ms(client))
            fields = {key: value for key, value in message.items() if key not in {"id", "due_ms"}}
            plant(client, name, identity, due_ms=due_ms, **fields)

    return make


NO_TIME = "message ids carry no time: ages count from when a message became visible"
NOT_CANONICAL = "message ids are not canonical ({}): the canonical client can receive but never delete them"
# name -> how it is made, its problems, its depth
BODILESS = "1 message has no body: consumers receive only an id"
READABLE: dict[str, tuple[Callable[[redis.Redis, str], None], tuple[str, ...], int]] = {
    "dangling-id": (planted({}), (NO_TIME,), 1),
    "leaked-body": (planted(**{ID: "left behind"}), (), 0),
    "leaked-rc": (planted(**{f"{ID}:rc": "3", f"{ID}:fr": "5", f"{ID}:meta": "{}"}), (), 0),
    "rc-garbage": (planted({"body": "x", "rc": "many"}), (NO_TIME,), 1),
    "fr-missing": (planted({"body": "x", "rc": 3}), (NO_TIME,), 1),
    "old-rust-id": (planted({"id": "r" * 30, "body": "x"}), (NOT_CANONICAL.format("r" * 30),), 1),
    "ruby-id": (planted({"id": "R" * 22, "body": "x", "due_ms": 1_750_000_000}), (
        "scores are in seconds: clients that write milliseconds see every message as ready",
        NOT_CANONICAL.format("R" * 22),
    ), 1),
    "rust-vt": (planted(vt="30000"), (
        "vt 30000 is probably in milliseconds: clients that read seconds use 8h 20m",
    ), 0),
    "python-vt": (planted(vt="15.5"), ("vt 15.5 is not whole: the canonical client reads 15",), 0),
    "go-dates": (planted(created="2022-07-19T12:00:00.123456789Z", createdby="ersin"), (
        "created is a text date: the canonical client reads 2022",
    ), 0),
    "elixir": (lambda c, n: listed(c, n, vt=30, delay=0, maxsize=65536), ("no created date", "no modified date"), 0),
    "only-vt": (lambda c, n: listed(c, n, vt=30), (
        f"no delay: {NOT_FOUND}",
        f"no maxsize: {NOT_FOUND}",
        "no created date",
        "no modified date",
    ), 0),
    "overflowed": (planted({"body": "x", "due_ms": -2_147_483_648}), (NO_TIME,), 1),
    "never": (planted({"body": "x", "due_ms": "inf"}), (
        "a score is infinite: that message never becomes visible",
        NO_TIME,
    ), 1),
}  # fmt: skip


@pytest.fixture
def users(client: redis.Redis) -> None:
    client.acl_setuser("plain", enabled=True, passwords=["+x"], keys=["*"], commands=["+@all", "-@scripting"])


async def one_poll(url: str) -> Snapshot:
    async with aclosing(RsmqReader(url)) as reader:
        return await RsmqPoller(reader).poll()


def without_ages(queue: QueueState) -> QueueState:
    """A queue whose messages may have become visible between two polls."""
    return without_idle(queue)._replace(ready=None, hidden=None, oldest_ready_ms=None, drain=Drain.UNKNOWN)


def without_idle(queue: QueueState) -> QueueState:
    """A queue as if nobody knew for how long it has been idle: a poller knows of no receive before its first poll."""
    return queue._replace(idle_since_ms=None)


@pytest.mark.parametrize("user", ["", "plain:x@"])
async def test_all_of_them_at_once(client: redis.Redis, users: None, redis_url: str, user: str) -> None:
    url = redis_url.replace("redis://", f"redis://{user}")
    for name in HEALTHY:
        healthy(client, name)
    clean = await one_poll(url)
    for name, (make, _, _) in (*BROKEN.items(), *READABLE.items()):
        make(client, name)
    # Not listed: nobody sees it, and nobody is disturbed by it.
    client.hset("rsmq:unlisted:Q", mapping={"vt": 30, "delay": 0, "maxsize": 65536})
    snapshot = await one_poll(url)
    queues = {queue.name: queue for queue in snapshot.queues}

    assert snapshot.connection.failure is None
    assert list(queues) == sorted({*HEALTHY, *BROKEN, *READABLE})
    found = (queue for name, queue in queues.items() if name in HEALTHY)
    assert [*map(without_idle, found)] == [*map(without_idle, clean.queues)]
    for name, (_, why, depth) in BROKEN.items():
        queue = queues[name]
        assert (queue.verdict, queue.broken, queue.depth) == (Verdict.BROKEN, why, depth), name
        assert (queue.ready, queue.hidden, queue.oldest_ready_ms, queue.totalsent) == (None, None, None, None), name
        assert reason(queue, snapshot.at_ms, Thresholds()) == why, name
    for name, (_, problems, depth) in READABLE.items():
        queue = queues[name]
        assert (queue.broken, queue.depth) == (BODILESS if name == "dangling-id" else None, depth), name
        assert (queue.verdict is Verdict.BROKEN) == bool(queue.broken), name
        assert queue.problems == problems, name


@pytest.mark.parametrize("name", [*BROKEN, *READABLE])
async def test_each_can_be_looked_into_or_says_why_not(client: redis.Redis, poller: RsmqPoller, name: str) -> None:
    make = {**BROKEN, **READABLE}[name][0]
    make(client, name)
    if name in {"wrong-hash", "wrong-zset", "galadd", "QUEUES"}:
        for look in (lambda: poller.peek(PageRequest(name)), lambda: poller.read(name, ID)):
            with pytest.raises(PeekError, match="A key of this queue holds another type of value"):
                await look()
        return
    page = await poller.peek(PageRequest(name))

    assert len(page.rows) == page.depth == client.zcard(f"rsmq:{name}")
    assert sum(count for _, count in await poller.due(name, page.at_ms)) == page.depth
    assert (await poller.read(name, ID)).id == ID


async def test_a_queue_may_break_and_be_mended_while_it_is_watched(client: redis.Redis, poller: RsmqPoller) -> None:
    healthy(client, "q")
    before = (await poller.poll()).queues[0]
    saved = client.dump("rsmq:q:Q")
    client.delete("rsmq:q:Q")
    broken = (await poller.poll()).queues[0]
    client.restore("rsmq:q:Q", 0, saved)
    mended = (await poller.poll()).queues[0]

    assert before.verdict is mended.verdict is Verdict.OK
    assert broken.broken == f"it holds 2 message ids but its attributes hash is gone: {NOT_FOUND}"
    assert mended.arrivals_s is None
    assert without_ages(mended) == without_ages(before)


async def test_a_queue_that_is_deleted_during_a_poll_is_gone_and_not_broken(
    client: redis.Redis, poller: RsmqPoller, reader: RsmqReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in HEALTHY:
        healthy(client, name)
    queues, listed_now = Rsmq(client), reader.rows.index
    after_index: list[Callable[[], object]] = []

    async def index() -> Index:
        found = await listed_now()
        # Read all rows now, those that change after the clock was read too.
        reader.rows.forget()
        while after_index:
            after_index.pop()()
        return found

    monkeypatch.setattr(reader.rows, "index", index)
    seen: list[Snapshot] = []
    for happens in ((), (lambda: queues.delete_queue("mike"),), (lambda: healthy(client, "mike"),), ()):
        after_index += happens
        seen.append(await poller.poll())
    # A new one that has gone before its first row was read.
    healthy(client, "new")
    after_index.append(lambda: queues.delete_queue("new"))
    seen.append(await poller.poll())

    rest = [name for name in HEALTHY if name != "mike"]
    assert [[queue.name for queue in each.queues] for each in seen] == [
        list(HEALTHY),
        rest,
        rest,
        [*HEALTHY],
        [*HEALTHY],
    ]
    assert {queue.broken for each in seen for queue in each.queues} == {None}
    assert [each.totals.depth for each in seen] == [6, 4, 4, 6, 6]
    assert [sum(each.totals.verdicts.values()) for each in seen] == [3, 2, 2, 3, 3]
