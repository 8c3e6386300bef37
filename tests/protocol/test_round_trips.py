"""One round trip for each operation, by EVALSHA, and what happens when the server has forgotten the scripts."""

from collections.abc import AsyncIterator, Callable, Iterator

import pytest
import redis
import redis.asyncio
from redis import Redis
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.protocol import AsyncRsmq, Rsmq
from rsmq_tui.protocol.rsmq import scripts
from tests.protocol.either import OPERATIONS, Either

OF_A_QUEUE = OPERATIONS | {"create_queue": lambda queues: queues.create_queue("other")}
SCRIPTS = [value for value in vars(scripts).values() if isinstance(value, scripts.Script)]


def commands_of(client: Redis) -> dict[str, int]:
    """The commands that came over the wire since the statistics were reset, besides those of connecting."""
    stats = client.info("commandstats")
    wire = {"evalsha", "eval", "smembers", "script|load", "multi", "exec", "time"}
    names = {name.removeprefix("cmdstat_"): values["calls"] for name, values in stats.items()}
    inner = {"smembers", "time"} if {"evalsha", "eval"} & names.keys() else set()
    return {name: calls for name, calls in names.items() if name in wire - inner}


async def commands_of_each(queues: Either, client: Redis, *, before: Callable[[], object]) -> dict[str, dict[str, int]]:
    """Run each operation on a fresh queue with one message, and tell which commands it took."""
    commands = {}
    for operation, run in OF_A_QUEUE.items():
        client.flushall()
        await queues.create_queue("orders")
        await queues.send_message("orders", "a")
        before()
        client.config_resetstat()
        await run(queues)
        commands[operation] = commands_of(client)
    return commands


async def test_every_operation_is_one_evalsha(queues: Either, client: Redis) -> None:
    for script in SCRIPTS:
        client.script_load(script.text)

    commands = await commands_of_each(queues, client, before=lambda: None)

    assert commands == {operation: {"evalsha": 1} for operation in OPERATIONS}


async def test_listing_is_one_smembers(queues: Either, client: Redis) -> None:
    client.config_resetstat()

    await queues.list_queues()

    assert commands_of(client) == {"smembers": 1}


async def test_every_operation_works_after_script_flush_by_teaching_the_server(queues: Either, client: Redis) -> None:
    commands = await commands_of_each(queues, client, before=client.script_flush)

    assert commands == {operation: {"evalsha": 1, "eval": 1} for operation in OPERATIONS}


async def test_what_was_taught_once_is_known_afterwards(queues: Either, client: Redis) -> None:
    await queues.create_queue("orders")
    await queues.send_message("orders", "a")
    client.config_resetstat()

    await queues.send_message("orders", "b")

    assert commands_of(client) == {"evalsha": 1}


async def test_after_a_flush_nothing_is_done_twice(queues: Either, client: Redis) -> None:
    await queues.create_queue("orders")
    client.script_flush()
    await queues.send_message("orders", "a")
    client.script_flush()
    received = await queues.receive_message("orders")

    found = await queues.get_queue_attributes("orders")
    assert (received.rc, found.msgs, found.totalsent, found.totalrecv) == (1, 1, 1, 1)


def test_the_sha_is_that_of_the_text(client: Redis) -> None:
    assert SCRIPTS
    assert [client.script_load(script.text) for script in SCRIPTS] == [script.sha for script in SCRIPTS]


@pytest.fixture
def restartable() -> Iterator[EmbeddedServer]:
    """A server that keeps its port when it is started again."""
    with EmbeddedServer() as first:
        port = first.port
    with EmbeddedServer(port=port) as running:
        yield running


@pytest.fixture(params=["sync", "async"])
async def restartable_queues(request: pytest.FixtureRequest, restartable: EmbeddedServer) -> AsyncIterator[Either]:
    if request.param == "sync":
        with redis.Redis.from_url(restartable.url, retry=Retry(NoBackoff(), 1)) as connected:
            yield Either(Rsmq(connected))
    else:
        async with redis.asyncio.Redis.from_url(restartable.url, retry=AsyncRetry(NoBackoff(), 1)) as aconnected:
            yield Either(AsyncRsmq(aconnected))


async def test_the_same_client_works_after_a_restart_of_the_server(
    restartable: EmbeddedServer, restartable_queues: Either
) -> None:
    await restartable_queues.create_queue("orders")
    await restartable_queues.send_message("orders", "lost")

    restartable.stop()
    restartable.start()

    assert await restartable_queues.list_queues() == []
    await restartable_queues.create_queue("orders")
    await restartable_queues.send_message("orders", "kept")
    assert (await restartable_queues.receive_message("orders")).body == b"kept"
