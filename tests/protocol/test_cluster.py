"""Redis Cluster: a namespace with a hash tag works for everything, one without fails in words that say why."""

import socket
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
import redis
import redis.asyncio
from redis.crc import key_slot

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.protocol import SERVER_ERRORS, AsyncRsmq, Rsmq, failure_of
from tests.protocol.either import OPERATIONS, Either
from tests.waiting import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedServer]:
    """A cluster of one node that owns every slot."""
    # The bus has a port of its own: by default it is 10,000 above the other, which need not exist.
    with socket.create_server(("127.0.0.1", 0)) as probe:
        bus_port = probe.getsockname()[1]
    with (
        EmbeddedServer(extra=("--cluster-enabled", "yes", "--cluster-port", str(bus_port))) as node,
        redis.Redis.from_url(node.url) as admin,
    ):
        admin.execute_command("CLUSTER ADDSLOTSRANGE", 0, 16383)
        # A node waits two seconds before it takes its slots into service.
        wait_until(lambda: admin.cluster("INFO")["cluster_state"] == "ok")
        yield node


@pytest.fixture
def node(cluster: EmbeddedServer) -> Iterator[redis.Redis]:
    """A plain client of the node, whose keys are removed first."""
    with redis.Redis.from_url(cluster.url) as connected:
        connected.flushall()
        connected.script_flush()
        yield connected


Make = Callable[[str], Either]


@pytest.fixture(params=["sync", "async"])
async def on_cluster(request: pytest.FixtureRequest, cluster: EmbeddedServer, node: redis.Redis) -> AsyncIterator[Make]:
    """Makes queues on redis-py's cluster clients."""
    if request.param == "sync":
        with redis.RedisCluster.from_url(cluster.url) as connected:
            yield lambda ns: Either(Rsmq(connected, ns, realtime=True))
            # Closing a client that was made from an address leaves the connections of its nodes to the collector.
            connected.disconnect_connection_pools()
    else:
        async with redis.asyncio.RedisCluster.from_url(cluster.url) as aconnected:
            yield lambda ns: Either(AsyncRsmq(aconnected, ns, realtime=True))


@pytest.fixture(params=["sync", "async"])
async def on_node(request: pytest.FixtureRequest, cluster: EmbeddedServer, node: redis.Redis) -> AsyncIterator[Make]:
    """Makes queues on plain clients of the node."""
    if request.param == "sync":
        yield lambda ns: Either(Rsmq(node, ns))
    else:
        async with redis.asyncio.Redis.from_url(cluster.url) as aconnected:
            yield lambda ns: Either(AsyncRsmq(aconnected, ns))


async def test_with_a_hash_tag_every_operation_works_also_after_script_flush(
    on_cluster: Make, node: redis.Redis
) -> None:
    queues = on_cluster("{rsmq}")

    for operation, run in OPERATIONS.items():
        node.flushall()
        if operation != "create_queue":
            await queues.create_queue("orders")
            await queues.send_message("orders", "a")
        node.script_flush()
        await run(queues)


@pytest.mark.parametrize("ns", ["{rsmq}", "jobs:{a}", "{jöbs}"])
async def test_with_a_hash_tag_a_message_lives_its_life(on_cluster: Make, node: redis.Redis, ns: str) -> None:
    queues = on_cluster(ns)

    await queues.create_queue("orders")
    ids = await queues.send_messages("orders", ["a", "b", "c"])
    assert await queues.list_queues() == ["orders"]
    assert (await queues.receive_message("orders", vt=60)).id == ids[0]
    assert await queues.change_message_visibility("orders", ids[0], 0)
    received = await queues.receive_messages("orders", 3, vt=0)
    assert {message.id: message.rc for message in received} == dict(zip(ids, (2, 1, 1), strict=True))
    assert (await queues.pop_message("orders")).id == ids[0]
    assert await queues.delete_messages("orders", ids) == [False, True, True]
    found = await queues.set_queue_attributes("orders", vt=7)
    assert (found.vt, found.msgs, found.totalsent, found.totalrecv) == (7, 0, 3, 5)
    assert await queues.get_queue_attributes("orders") == found
    await queues.delete_queue("orders")

    assert node.keys() == []


def test_the_keys_without_a_hash_tag_are_in_different_slots() -> None:
    slots = {key_slot(key) for key in (b"rsmq:orders", b"rsmq:orders:Q", b"rsmq:QUEUES")}

    assert len(slots) == 3


async def check_without_a_hash_tag(make: Make, node: redis.Redis) -> None:
    for run in OPERATIONS.values():
        with pytest.raises(SERVER_ERRORS) as refused:
            await run(make("rsmq"))
        failure = failure_of(refused.value)
        assert failure.kind == "crossslot"
        assert "{rsmq}" in failure.hint
    assert node.keys() == []


async def test_without_a_hash_tag_a_cluster_client_fails_in_words_that_say_what_to_do(
    on_cluster: Make, node: redis.Redis
) -> None:
    await check_without_a_hash_tag(on_cluster, node)


async def test_without_a_hash_tag_a_plain_client_fails_in_words_that_say_what_to_do(
    on_node: Make, node: redis.Redis
) -> None:
    await check_without_a_hash_tag(on_node, node)
