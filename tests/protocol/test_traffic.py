"""What a connection costs is counted: bytes in both directions, and commands."""

from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.protocol import AsyncRsmq, RsmqReader, Traffic, connect_async


@pytest.fixture
def traffic() -> Traffic:
    return Traffic()


@pytest.fixture
async def metered(redis_url: str, traffic: Traffic) -> AsyncIterator[Redis]:
    async with connect_async(redis_url, traffic=traffic) as connected:
        yield connected


def test_nothing_has_been_counted_before_anything_was_done(traffic: Traffic) -> None:
    assert (traffic.bytes_sent, traffic.bytes_received, traffic.commands) == (0, 0, 0)


async def test_making_a_client_costs_nothing_and_connecting_does(metered: Redis, traffic: Traffic) -> None:
    assert traffic.bytes_sent == 0

    await metered.ping()

    assert traffic.bytes_sent > len(b"*1\r\n$4\r\nPING\r\n")
    assert traffic.bytes_received > len(b"+PONG\r\n")


async def test_every_byte_of_a_command_and_its_reply_is_counted(metered: Redis, traffic: Traffic) -> None:
    await metered.ping()
    sent, received = traffic.bytes_sent, traffic.bytes_received

    await metered.ping()

    assert traffic.bytes_sent - sent == len(b"*1\r\n$4\r\nPING\r\n")
    assert traffic.bytes_received - received == len(b"+PONG\r\n")


async def test_the_bytes_of_a_pipeline_are_counted(metered: Redis, traffic: Traffic) -> None:
    await metered.ping()
    sent, received = traffic.bytes_sent, traffic.bytes_received

    async with metered.pipeline(transaction=False) as pipeline:
        for _ in range(10):
            pipeline.ping()
        await pipeline.execute()

    assert traffic.bytes_sent - sent == 10 * len(b"*1\r\n$4\r\nPING\r\n")
    assert traffic.bytes_received - received == 10 * len(b"+PONG\r\n")


async def test_long_commands_and_replies_are_counted_whole(metered: Redis, traffic: Traffic) -> None:
    queues = AsyncRsmq(metered)
    await queues.create_queue("orders", maxsize=-1)
    sent, received = traffic.bytes_sent, traffic.bytes_received

    await queues.send_message("orders", b"x" * 3_000_000)
    await queues.receive_message("orders")

    # The body goes out a second time, with the text of a script that the server did not know.
    assert 6_000_000 < traffic.bytes_sent - sent < 6_020_000
    assert 3_000_000 < traffic.bytes_received - received < 3_001_000


async def test_all_connections_of_a_client_count_together(metered: Redis, traffic: Traffic) -> None:
    async with metered.pubsub() as listener:
        await listener.subscribe("channel")
        await metered.ping()
        sent = traffic.bytes_sent

        await listener.subscribe("other")
        await metered.ping()

    assert traffic.bytes_sent - sent == len(b"*2\r\n$9\r\nSUBSCRIBE\r\n$5\r\nother\r\n*1\r\n$4\r\nPING\r\n")


async def test_a_unix_socket_is_counted_too(traffic: Traffic) -> None:
    with EmbeddedServer(unix_socket=True) as server:
        async with connect_async(server.url, traffic=traffic) as connected:
            await connected.ping()
            sent, received = traffic.bytes_sent, traffic.bytes_received
            await connected.ping()

    assert (traffic.bytes_sent - sent, traffic.bytes_received - received) == (14, 7)


async def test_two_clients_are_counted_apart(redis_url: str, traffic: Traffic) -> None:
    other = Traffic()
    async with connect_async(redis_url, traffic=traffic) as one, connect_async(redis_url, traffic=other) as two:
        await one.ping()
        await two.ping()
        sent = other.bytes_sent
        await one.ping()

    assert traffic.bytes_sent == sent + 14
    assert other.bytes_sent == sent


async def test_a_reader_counts_its_commands(redis_url: str) -> None:
    reader = RsmqReader(redis_url)

    index = await reader.rows.index()
    await reader.aclose()

    assert index.names == ()
    assert reader.traffic.commands == 2
    assert reader.traffic.bytes_received > 0
