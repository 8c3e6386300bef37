"""The read side as a whole: namespaces, what it costs, what it is called, and letting go."""

from contextlib import aclosing

import pytest
import redis

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.protocol import Namespaces, PageRequest, Rsmq, RsmqReader
from tests.waiting import wait_until


class TestNamespaces:
    async def test_of_an_empty_server(self, reader: RsmqReader) -> None:
        assert await reader.namespaces() == Namespaces((), complete=True)

    async def test_are_the_sets_that_end_in_queues(self, client: redis.Redis, reader: RsmqReader) -> None:
        for ns in ("rsmq", "a:b", "{tag}", ""):
            Rsmq(client, ns).create_queue("q")
        client.set("string:QUEUES", "x")
        client.zadd("zset:QUEUES", {"x": 1})
        client.sadd("myQUEUES", "x")
        client.sadd(b"\xff:QUEUES", "x")

        assert await reader.namespaces() == Namespaces(("", "a:b", "rsmq", "{tag}", "\udcff"), complete=True)

    async def test_come_with_patterns_of_the_lists(self, client: redis.Redis, reader: RsmqReader) -> None:
        for name in ("queue:mail", "queue:low", "queue:high", "celery", "a:b:c", "a:b:d", "x y", "z*", "it's", b"\xff"):
            client.rpush(name, "x")
        client.set("string:a", "x")

        assert await reader.namespaces() == Namespaces((), True, ("queue:*", "a:b:*", "celery"))

    async def test_among_many_keys(self, client: redis.Redis, reader: RsmqReader) -> None:
        client.mset({f"key:{number}": "x" for number in range(5000)})
        client.sadd("far:QUEUES", "x")

        assert (await reader.namespaces()).names == ("far",)

    async def test_a_scan_that_takes_too_long_is_broken_off_and_says_so(
        self, client: redis.Redis, reader: RsmqReader, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client.mset({f"key:{number}": "x" for number in range(5000)})
        monkeypatch.setattr("rsmq_tui.protocol.rsmq.reader._SCAN_CALLS_MAX", 2)

        assert not (await reader.namespaces()).complete

    async def test_for_a_user_who_may_not_scan_there_are_none(
        self, client: redis.Redis, server: EmbeddedServer
    ) -> None:
        client.sadd("rsmq:QUEUES", "q")
        client.acl_setuser("blind", enabled=True, nopass=True, keys=["*"], commands=["+@all", "-scan"])
        async with aclosing(RsmqReader(server.url.replace("redis://", "redis://blind:x@"))) as blind:
            assert await blind.namespaces() == Namespaces((), complete=False)


async def test_another_namespace_can_be_watched(client: redis.Redis, reader: RsmqReader) -> None:
    Rsmq(client, "one").create_queue("q1")
    Rsmq(client, "two").create_queue("q2")
    reader.watch("one")
    assert (await reader.rows.index()).names == ("q1",)
    reader.watch("two")
    assert (reader.ns, (await reader.rows.index()).names) == ("two", ("q2",))


@pytest.mark.parametrize(
    ("suffix", "label"),
    [("", "redis://127.0.0.1:{port}/0"), ("?socket_timeout=3", "redis://127.0.0.1:{port}/0")],
)
async def test_its_label_holds_no_secret(server: EmbeddedServer, suffix: str, label: str) -> None:
    url = server.url.replace("redis://", "redis://me:secret@") + suffix
    async with aclosing(RsmqReader(url)) as reader:
        assert reader.label == label.format(port=server.port)


async def test_a_url_that_cannot_be_one_is_refused() -> None:
    with pytest.raises(ValueError, match="not a Redis URL"):
        RsmqReader("http://localhost")


async def test_traffic_is_what_the_server_counts(client: redis.Redis, reader: RsmqReader) -> None:
    queues = Rsmq(client)
    for name in ("a", "b"):
        queues.create_queue(name)
        queues.send_message(name, "x" * 5000)
    index = await reader.rows.index()
    assert tuple(await reader.rows.rows(index.at_ms)) == index.names
    await reader.pages.page(PageRequest("a", count=10))
    await reader.pages.message("a", "b" * 32)
    await reader.namespaces()
    queues.send_message("a", "what the server says of this is counted too")
    await reader.rows.index()
    ours = [found for found in client.client_list() if found.get("lib-name") == "rsmq-tui"]

    # One for the polls, one for all else.
    assert len(ours) == 2
    assert reader.traffic.bytes_sent == sum(int(found["tot-net-in"]) for found in ours)
    assert reader.traffic.bytes_received == sum(int(found["tot-net-out"]) for found in ours)


async def test_commands_are_counted_as_they_are_sent(client: redis.Redis, reader: RsmqReader) -> None:
    await reader.rows.index()
    assert reader.traffic.commands == 2
    await reader.pages.page(PageRequest("q", count=1))
    # The server did not know the script: it was named once and sent once.
    assert reader.traffic.commands == 4
    await reader.pages.page(PageRequest("q", count=1))
    assert reader.traffic.commands == 5


async def test_after_closing_no_connection_is_left(client: redis.Redis, redis_url: str) -> None:
    async with aclosing(RsmqReader(redis_url)) as reader:
        await reader.rows.index()
        assert "rsmq-tui" in {found.get("lib-name") for found in client.client_list()}

    # The server learns of it by the network.
    wait_until(lambda: "rsmq-tui" not in {found.get("lib-name") for found in client.client_list()})


async def test_it_can_be_closed_unused(redis_url: str) -> None:
    reader = RsmqReader(redis_url)
    await reader.aclose()
    await reader.aclose()
