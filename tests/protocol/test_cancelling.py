"""A cancel ends what a connection does at every moment of it, and leaves nobody's reply to somebody else."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing
from typing import Any

import pytest
from redis import Redis, exceptions

from rsmq_tui.protocol import Address, Node, Rsmq, RsmqReader, Sentinels, Traffic, connect_async
from rsmq_tui.protocol.connections.connect import pool_async
from rsmq_tui.protocol.polling import TrackedConnection
from rsmq_tui.protocol.server.diagnosis import Diagnosis
from tests.cancelled import ROUNDS, TURNS, cancelled_at_each_turn


@pytest.fixture(params=["plain", "metered"])
async def aclient(request: pytest.FixtureRequest, redis_url: str) -> AsyncIterator[Any]:
    traffic = None if request.param == "plain" else Traffic()
    async with connect_async(redis_url, traffic=traffic) as connected:
        yield connected


async def test_a_command_is_cancelled_and_its_reply_is_given_to_nobody(aclient: Any) -> None:
    async def echo(number: int) -> None:
        # What one that was cancelled before has left would come first.
        assert await aclient.execute_command("ECHO", f"text {number}") == b"text %d" % number

    assert await cancelled_at_each_turn(echo) > ROUNDS
    await echo(-1)


async def test_a_pipeline_is_cancelled(aclient: Any) -> None:
    async def echo(number: int) -> None:
        async with aclient.pipeline(transaction=False) as pipeline:
            replies = await pipeline.execute_command("ECHO", f"a{number}").execute_command("ECHO", "b").execute()
        assert replies == [b"a%d" % number, b"b"]

    assert await cancelled_at_each_turn(echo) > ROUNDS
    await echo(-1)


async def test_connecting_is_cancelled(redis_url: str) -> None:
    async with AsyncExitStack() as stack:

        async def ping(number: int) -> None:
            aclient = await stack.enter_async_context(connect_async(redis_url))
            assert await aclient.execute_command("ECHO", str(number)) == str(number).encode()

        assert await cancelled_at_each_turn(ping) > ROUNDS * 5


async def test_connecting_with_a_password_is_cancelled(client: Redis, redis_url: str) -> None:
    client.acl_setuser("bob", enabled=True, passwords=["+hunter2"], commands=["+@all"])
    address = Address(redis_url, user="bob", password=lambda: "hunter2")
    async with AsyncExitStack() as stack:

        async def whoami(number: int) -> None:
            aclient = await stack.enter_async_context(connect_async(address))
            assert await aclient.execute_command("ACL", "WHOAMI") == b"bob"

        assert await cancelled_at_each_turn(whoami) > ROUNDS * 5


async def test_a_connection_that_is_closed_while_it_opens_says_so(redis_url: str) -> None:
    pool = pool_async(redis_url, timeout_s=0.5)
    said = set()
    for turns in range(TURNS):
        connection: Any = pool.connection_class(**pool.connection_kwargs)
        connecting = asyncio.ensure_future(connection.connect())
        for _ in range(turns):
            await asyncio.sleep(0)
        await connection.disconnect(nowait=True)
        try:
            await connecting
        except (exceptions.ConnectionError, exceptions.TimeoutError) as error:
            said.add(str(error))
        await connection.disconnect(nowait=True)
    assert "the connection was closed" in said
    assert not [sentence for sentence in said if "attribute" in sentence or "None" in sentence]


async def test_asking_a_sentinel_is_cancelled(redis_url: str) -> None:
    # What answers there is none, and is asked until that is known.
    port = int(redis_url.removesuffix("/0").rpartition(":")[2])
    address = Address("redis://localhost/0", sentinels=Sentinels("mymaster", (Node("127.0.0.1", port),) * 3))
    async with AsyncExitStack() as stack:

        async def ping(number: int) -> None:
            aclient = await stack.enter_async_context(connect_async(address))
            with pytest.raises(Exception, match="no sentinel answers"):
                await aclient.ping()

        assert await cancelled_at_each_turn(ping) > ROUNDS * 5


async def test_the_connection_of_polls_is_cancelled_and_begins_anew(aclient: Any) -> None:
    tracked = TrackedConnection(aclient.connection_pool, Traffic())

    async def echo(number: int) -> None:
        assert await tracked.begin(("ECHO", f"text {number}"), ("ECHO", "b")) == [b"text %d" % number, b"b"]

    assert await cancelled_at_each_turn(echo) > ROUNDS
    await echo(-1)
    assert tracked.tracks
    await tracked.aclose()


async def test_those_who_share_the_connection_of_polls_get_their_own_replies_or_an_error(aclient: Any) -> None:
    tracked = TrackedConnection(aclient.connection_pool, Traffic())
    answer: list[str] = []

    async def other() -> None:
        try:
            assert await tracked.commands(("ECHO", "mine")) == [b"mine"]
            answer.append("reply")
        except exceptions.ConnectionError:
            answer.append("closed")

    async def begin() -> None:
        await tracked.begin(("TIME",))

    async def echo(number: int) -> None:
        beside = asyncio.create_task(other())
        try:
            assert await tracked.commands(("ECHO", f"text {number}")) == [b"text %d" % number]
        finally:
            await asyncio.gather(beside)

    await cancelled_at_each_turn(echo, before=begin)
    await begin()
    await echo(-1)
    await tracked.aclose()
    assert set(answer) == {"reply", "closed"}


async def test_a_diagnosis_is_cancelled(redis_url: str) -> None:
    async def look(number: int) -> None:
        diagnosis = Diagnosis(redis_url)
        try:
            assert [step.name async for step in diagnosis.connect()][-1] == "redis"
            await diagnosis.round_trips_ms(2)
        finally:
            await diagnosis.aclose()

    assert await cancelled_at_each_turn(look) > ROUNDS * 5


async def test_a_scan_is_cancelled(client: Redis, redis_url: str) -> None:
    queues = Rsmq(client)
    queues.create_queue("orders")
    queues.send_messages("orders", [b"x"] * 300)
    async with aclosing(RsmqReader(redis_url)) as reader:

        async def scan(number: int) -> None:
            chunks = reader.scan.chunks("orders", counts=True, bodies=True, sizes=False)
            assert len([message async for chunk in chunks for message in chunk.messages]) == 300

        assert await cancelled_at_each_turn(scan) > ROUNDS
        await scan(-1)


async def test_a_cancel_of_long_ago_does_not_end_what_is_done_after_it(aclient: Any) -> None:
    async def clean_up() -> bytes:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            # Whoever was cancelled may still have something to say to the server.
            return bytes(await aclient.execute_command("ECHO", "bye"))
        raise AssertionError

    task = asyncio.create_task(clean_up())
    await asyncio.sleep(0)
    task.cancel()
    assert await task == b"bye"
