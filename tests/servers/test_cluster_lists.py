"""List queues on a real cluster: whatever node the keys are on, and waiting without an end."""

import asyncio

import pytest
import redis
import redis.asyncio

from rsmq_tui.protocol import AsyncListQueue, ListNames, ListQueue, Popped, Reaped, RsmqError
from tests.servers.real import HOST, Cluster

# One tag on each master, and names that put a whole key between braces.
TAGS = ["{a}", "{b}", "{c}", "{d}"]
BRACED = ListNames(processing="{{queue}}:processing", leases="{{queue}}:leases")


async def test_everything_works_where_the_keys_share_a_slot(cluster: Cluster) -> None:
    port = cluster.masters[0].port
    with redis.RedisCluster(host=HOST, port=port) as client:
        for queue in (*(ListQueue(client, tag) for tag in TAGS), ListQueue(client, "plain", names=BRACED)):
            assert queue.push("a", "b", "c", "d") == 4
            lease = queue.take(0)
            assert lease is not None
            assert queue.reap() == Reaped(returned=1)
            taken = queue.take_blocking(1)
            assert taken is not None
            assert taken.item == b"a"
            assert queue.ack(taken) is True
            assert queue.pop_blocking(1) == Popped(queue.key, b"b")
            assert queue.move_blocking(queue.names.processing_key(queue.key), 1) == b"c"
            assert queue.reap() == Reaped(adopted=1)
            assert queue.pop() == b"d"
            assert queue.take_blocking(0.01) is None
    async with redis.asyncio.RedisCluster(host=HOST, port=port) as aclient:
        for tag in TAGS:
            aqueue = AsyncListQueue(aclient, f"async{tag}")
            waiting = asyncio.create_task(aqueue.take_blocking(20))
            await aqueue.push("a")
            lease = await waiting
            assert lease is not None
            assert await aqueue.nack(lease) is True
            assert await aqueue.pop_blocking(1) == (aqueue.key, b"a")
            assert await aqueue.pop_blocking(0.01) is None


def test_keys_of_many_slots_are_refused(cluster: Cluster) -> None:
    with redis.RedisCluster(host=HOST, port=cluster.masters[0].port) as client:
        queue = ListQueue(client, "plain")
        queue.push("a")
        with pytest.raises((redis.exceptions.RedisClusterException, redis.ResponseError, RsmqError)):
            queue.take()
        assert queue.pop() == b"a"
