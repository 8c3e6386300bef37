"""Looking changes nothing: every key is the same, byte for byte, before and after any poll, page or read."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

import pytest
import redis

from rsmq_tui.monitor import PageRequest, PeekError, RsmqPoller
from rsmq_tui.protocol import Anchor, Rsmq, RsmqReader
from tests.protocol.keyspace import everything, now_ms, plant

ID = "x" * 32


@pytest.fixture
def full_server(client: redis.Redis) -> dict[bytes, bytes]:
    """Queues of all kinds, healthy and not; returns what lies in every key."""
    queues = Rsmq(client)
    for name in ("busy", "empty", "wreck"):
        queues.create_queue(name)
    queues.send_messages("busy", [f"message {number}" for number in range(30)])
    queues.receive_messages("busy", 5)
    queues.send_message("busy", "delayed", delay=500)
    plant(client, "busy", "\x1b[31m", due_ms=1, rc="many", fr="never")
    plant(client, "busy", "long" * 8, due_ms=now_ms(client), body=b"x" * 2_000_000, rc=9)
    client.delete("rsmq:wreck:Q")
    client.set("rsmq:wreck:Q", "x")
    client.zadd("rsmq:wreck", {ID: 5})
    client.sadd("rsmq:QUEUES", "ghost")
    client.set("unrelated", "x", px=10_000_000)
    return everything(client)


@pytest.fixture(params=["scripts", "plain commands"])
async def poller(
    request: pytest.FixtureRequest, client: redis.Redis, redis_url: str, full_server: dict[bytes, bytes]
) -> AsyncIterator[RsmqPoller]:
    url = redis_url
    if request.param == "plain commands":
        client.acl_setuser("plain", enabled=True, passwords=["+x"], keys=["*"], commands=["+@all", "-@scripting"])
        url = redis_url.replace("redis://", "redis://plain:x@")
    async with aclosing(RsmqReader(url)) as reader:
        yield RsmqPoller(reader)


async def peek_everywhere(poller: RsmqPoller) -> None:
    for queue in ("busy", "empty", "ghost", "nowhere"):
        for part in ("all", "ready", "hidden"):
            for where in ("first", "last", "after", "before", "at"):
                await poller.peek(PageRequest(queue, part, where, Anchor("5", "gone"), 10))


async def peek_at_a_wreck(poller: RsmqPoller) -> None:
    with pytest.raises(PeekError):
        await poller.peek(PageRequest("wreck"))


async def read_messages(poller: RsmqPoller) -> None:
    page = await poller.peek(PageRequest("busy", count=1000))
    assert len(page.rows) == 33
    for row in page.rows:
        assert (await poller.read("busy", row.id)).row is not None
    await poller.read("nowhere", ID)


async def count_due(poller: RsmqPoller) -> None:
    assert sum(count for _, count in await poller.due("busy", 1_750_000_000_000)) == 33
    await poller.due("nowhere", 0)


async def poll_often(poller: RsmqPoller) -> None:
    for _ in range(5):
        snapshot = await poller.poll()
        assert len(snapshot.queues) == 4
        assert snapshot.connection.failure is None


async def look_for_namespaces(poller: RsmqPoller) -> None:
    poller.switch("nowhere")
    assert (await poller.poll()).namespaces == ("rsmq",)
    await poller.namespaces()


LOOKS: list[Callable[[RsmqPoller], Awaitable[Any]]] = [
    peek_everywhere,
    peek_at_a_wreck,
    read_messages,
    count_due,
    poll_often,
    look_for_namespaces,
]


def commands_run(client: redis.Redis) -> set[str]:
    """The names of the commands that the server has run since it was reset, those of scripts included."""
    return {name.removeprefix("cmdstat_").split("|")[0] for name in client.info("commandstats")}


@pytest.mark.parametrize("look", LOOKS)
async def test_nothing_is_changed(
    client: redis.Redis,
    full_server: dict[bytes, bytes],
    poller: RsmqPoller,
    look: Callable[[RsmqPoller], Awaitable[Any]],
) -> None:
    changes_before = client.info("persistence")["rdb_changes_since_last_save"]
    client.config_resetstat()
    await look(poller)
    run = commands_run(client)
    write = {name.decode() if isinstance(name, bytes) else name for name in client.acl_cat("write")}

    assert {"zadd", "hset", "hincrby", "del", "sadd", "zrem", "hdel", "set", "publish", "expire"} - write == {"publish"}
    assert run & (write | {"publish"}) == set()
    assert client.info("persistence")["rdb_changes_since_last_save"] == changes_before
    assert everything(client) == full_server


async def test_no_costly_command_is_in_the_loop(client: redis.Redis, poller: RsmqPoller) -> None:
    client.config_resetstat()
    await poll_often(poller)
    await peek_everywhere(poller)

    assert commands_run(client) & {
        "keys",
        "scan",
        "hgetall",
        "hkeys",
        "hvals",
        "hscan",
        "zscan",
        "memory",
        "client",
    } <= {"client"}
    # CLIENT SETINFO, when the connection is made; CLIENT LIST never.
    assert "cmdstat_client|list" not in client.info("commandstats")


async def test_a_user_who_may_only_read_can_do_all_of_it(
    client: redis.Redis, redis_url: str, full_server: dict[bytes, bytes]
) -> None:
    client.acl_setuser(
        "reader", enabled=True, passwords=["+x"], keys=["%R~*"], commands=["+@read", "+@connection", "+time"]
    )
    async with aclosing(RsmqReader(redis_url.replace("redis://", "redis://reader:x@"))) as reader:
        poller = RsmqPoller(reader)
        for look in LOOKS[:-1]:
            await look(poller)
        await look_for_namespaces(poller)
