"""Clients that know nothing of this server: redis-py in all its forms, redis-cli, and a worker on lists."""

import asyncio
import shutil
import subprocess
import threading
from typing import Any

import pytest
import redis
import redis.asyncio

from rsmq_tui.listserver import ListServer


@pytest.mark.parametrize("protocol", [2, 3])
def test_redis_py_finds_what_it_knows(list_server: ListServer, protocol: int) -> None:
    with redis.Redis(port=list_server.port, protocol=protocol, decode_responses=True) as client:
        assert client.lpush("queue", "a", "b") == 2
        assert client.brpop(["other", "queue"], timeout=1) in (("queue", "a"), ["queue", "a"])
        assert client.blmove("queue", "work", 1, "RIGHT", "LEFT") == "b"
        with client.pipeline() as pipe:
            assert pipe.rpush("queue", *range(5)).llen("queue").lrange("queue", 0, 1).execute() == [5, 5, ["0", "1"]]
        assert client.lmpop(2, "none", "queue", direction="LEFT", count=2) == ["queue", ["0", "1"]]
        assert client.hset("hash", mapping={"a": "1"}) == 1
        assert client.hgetall("hash") == {"a": "1"}
        client.zadd("leases", {"job": 1.5})
        assert [[member, score] for member, score in client.zrange("leases", 0, -1, withscores=True)] == [["job", 1.5]]
        with pytest.raises(redis.ResponseError, match="wrong kind of value"):
            client.lpush("hash", "x")
        assert client.brpop("none", timeout=0.01) is None
        assert client.client_list()[0]["resp"] == str(protocol)


def test_watched_keys_stop_a_transaction(list_server: ListServer) -> None:
    with redis.Redis(port=list_server.port) as client, redis.Redis(port=list_server.port) as other:
        with client.pipeline() as pipe:
            pipe.watch("key")
            pipe.multi()
            pipe.set("key", "mine")
            other.set("key", "theirs")
            with pytest.raises(redis.WatchError):
                pipe.execute()
        assert client.get("key") == b"theirs"


async def test_asyncio_clients_wait_and_are_served_in_order(list_server: ListServer) -> None:
    async with redis.asyncio.Redis(port=list_server.port) as client:
        waits: list[asyncio.Future[Any]] = []
        for number in range(20):
            waits.append(asyncio.ensure_future(client.blpop("queue", timeout=60)))
            while list_server.do(lambda: list_server.engine.blocking.clients) <= number:  # noqa: ASYNC110 - another thread
                await asyncio.sleep(0)
        await client.rpush("queue", *range(20))
        assert [int(reply[1]) for reply in await asyncio.gather(*waits)] == list(range(20))


def test_a_worker_on_lists_does_each_job_once(list_server: ListServer) -> None:
    """The reliable pattern: move, work, acknowledge; three workers, one of which gives up in the middle."""
    done: list[bytes] = []

    def work(gives_up_after: int | None) -> None:
        with redis.Redis(port=list_server.port) as client:
            while (job := client.blmove("queue", "processing", 0.5, "RIGHT", "LEFT")) is not None:
                if gives_up_after is not None and len(done) >= gives_up_after:
                    return
                done.append(job)
                assert client.lrem("processing", 1, job) == 1

    with redis.Redis(port=list_server.port) as client:
        workers = [threading.Thread(target=work, args=(limit,)) for limit in (None, None, 30)]
        for worker in workers:
            worker.start()
        for number in range(200):
            client.lpush("queue", f"job-{number}")
        for worker in workers:
            worker.join()
        left = client.lrange("processing", 0, -1)
    assert sorted([*done, *left]) == sorted(b"job-%d" % number for number in range(200))
    assert len(left) <= 1


def test_redis_cli_speaks_to_it(list_server: ListServer) -> None:
    program = shutil.which("redis-cli") or shutil.which("valkey-cli")
    assert program, "redis-cli comes with redis-server"
    for options in ([], ["-3"]):
        done = subprocess.run(
            [program, *options, "-p", str(list_server.port)],
            input="RPUSH queue a b\nLRANGE queue 0 -1\nDEL queue\nHELLO\n",
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.splitlines()[:4] == ["2", "a", "b", "1"]
        assert "listserver" in done.stdout
