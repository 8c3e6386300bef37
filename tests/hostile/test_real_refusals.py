"""Real servers that say no: users without permissions, replicas, full memory, endless scripts, clusters."""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
import redis
from redis import Redis

from rsmq_tui.cli.demo import EmbeddedServer
from tests.hostile.keyspace import untouched
from tests.hostile.payloads import fill
from tests.hostile.using import look_at_changes, use_groups, walk_tabs
from tests.hostile.watching import (
    Dashboard,
    dashboard,
    is_fresh,
    open_message,
    open_queue,
    polls,
    press,
    text_of,
    until,
)
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

PASSWORD = "correct-horse"


async def look(pilot: Dashboard) -> None:
    """Look at a message, as soon as the server answers again."""
    await until(pilot, "● live", " orders ", lambda: is_fresh(pilot))
    await open_queue(pilot, "orders")
    assert '"order": 1' in await open_message(pilot)
    await polls(pilot)
    assert "● live" in text_of(pilot)


async def tour(pilot: Dashboard) -> None:
    """Look at everything that there is, each part of which takes other commands."""
    await until(pilot, "● live", " orders ")
    await open_queue(pilot, "orders")
    await walk_tabs(pilot)
    await press(pilot, "t")
    await use_groups(pilot, "json.order")
    await look_at_changes(pilot, "xM=P")
    assert '"order": 1' in await open_message(pilot)
    await press(pilot, "l", "y", "escape", "escape")
    await polls(pilot)
    assert "● live" in text_of(pilot)


def as_user(url: str, user: str) -> str:
    return url.replace("://", f"://{user}:{PASSWORD}@")


def allow(admin: Redis, *commands: str) -> None:
    admin.acl_setuser("ann", enabled=True, passwords=[f"+{PASSWORD}"], keys="*", commands=commands)


async def test_a_user_without_any_permission_who_gets_them(orders: Redis, redis_url: str) -> None:
    allow(orders, "-@all")
    async with dashboard(as_user(redis_url, "ann")) as pilot:
        text = await until(pilot, "✗ no data yet", "this user may not read the queues", "Try: grant it ")
        await press(pilot, "n")
        await until(pilot, "Namespaces on this server")
        await press(pilot, "escape")
        # What the screen says to try is all that it takes.
        hint = next(line for line in text.splitlines() if "Try: grant it" in line)
        allow(orders, *(word.rstrip(",.") for word in hint.split() if word.startswith("+")))
        await tour(pilot)


@pytest.mark.parametrize(
    "commands", [["+@read"], ["+@all", "-@scripting"], ["+@all", "-@write"], ["+@read", "+@connection", "+time"]]
)
async def test_users_with_some_permissions(orders: Redis, redis_url: str, commands: list[str]) -> None:
    allow(orders, *commands)
    with untouched(orders):
        async with dashboard(as_user(redis_url, "ann")) as pilot:
            text = await until(pilot, lambda: "live" in text_of(pilot) or "no data yet" in text_of(pilot))
            if commands == ["+@read"]:
                # TIME is not among the commands that read.
                assert "✗ no data yet" in text
                assert "+time" in text
            else:
                await tour(pilot)


async def test_a_user_who_may_read_only_some_keys(orders: Redis, redis_url: str) -> None:
    orders.sadd("rsmq:QUEUES", "secrets")
    orders.acl_setuser(
        "ann", enabled=True, passwords=[f"+{PASSWORD}"], keys=["rsmq:QUEUES", "rsmq:orders*"], commands=["+@all"]
    )
    with untouched(orders):
        async with dashboard(as_user(redis_url, "ann")) as pilot:
            await until(pilot, "this user may not read the queues", "grant it")


async def test_permissions_that_are_withdrawn_and_given_back(orders: Redis, redis_url: str) -> None:
    allow(orders, "+@all")
    async with dashboard(as_user(redis_url, "ann")) as pilot:
        await until(pilot, "● live", " orders ")
        allow(orders, "-@all")
        await until(pilot, "✗ stale", "this user may not read the queues", "orders")
        allow(orders, "+@all")
        await look(pilot)


async def test_a_user_who_is_deleted(orders: Redis, redis_url: str) -> None:
    allow(orders, "+@all")
    async with dashboard(as_user(redis_url, "ann")) as pilot:
        await until(pilot, "● live")
        orders.acl_deluser("ann")
        await until(pilot, "✗ stale", "the server refused the user name or password")
        allow(orders, "+@all")
        await look(pilot)


async def test_a_server_that_asks_for_a_password(redis_url: str) -> None:
    with EmbeddedServer() as server, Redis.from_url(server.url) as admin:
        fill(admin)
        async with dashboard(server.url) as pilot:
            await until(pilot, "● live", " orders ")
            admin.config_set("requirepass", PASSWORD)
            # Connections from before stay welcome; new ones do not.
            admin.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            text = await until(pilot, "✗ stale", "the server requires a password")
            assert PASSWORD not in text
            admin.config_set("requirepass", "")
            await look(pilot)


async def test_a_replica_and_one_that_lost_its_primary() -> None:
    with (
        EmbeddedServer(extra=("--repl-diskless-sync-delay", "0")) as primary,
        Redis.from_url(primary.url) as client,
        EmbeddedServer(extra=("--replica-serve-stale-data", "no")) as replica,
        Redis.from_url(replica.url) as admin,
    ):
        fill(client)
        admin.replicaof("127.0.0.1", str(primary.port))
        wait_until(lambda: admin.info("replication")["master_link_status"] == "up")
        async with dashboard(replica.url) as pilot:
            await tour(pilot)
            with suppress(redis.ConnectionError):
                admin.replicaof("127.0.0.1", "1")
            await until(pilot, "✗ stale", "the replica has lost its primary")
            admin.replicaof("NO", "ONE")
            await until(pilot, "● live", lambda: is_fresh(pilot))


async def test_a_server_that_is_out_of_memory() -> None:
    with EmbeddedServer() as server, Redis.from_url(server.url) as admin:
        fill(admin)
        admin.config_set("maxmemory", "1")
        with pytest.raises(redis.exceptions.OutOfMemoryError):
            admin.set("a", "b")
        admin.script_flush()
        with untouched(admin):
            async with dashboard(server.url) as pilot:
                await tour(pilot)


@pytest.fixture
def soon_busy() -> Iterator[EmbeddedServer]:
    with EmbeddedServer(extra=("--busy-reply-threshold", "1")) as running, Redis.from_url(running.url) as admin:
        fill(admin)
        yield running


async def test_a_server_that_is_busy_with_a_script(soon_busy: EmbeddedServer) -> None:
    def run_for_ever() -> None:
        with Redis.from_url(soon_busy.url) as other, suppress(redis.ResponseError):
            other.eval("while true do end", 0)

    endless = threading.Thread(target=run_for_ever)
    async with dashboard(soon_busy.url) as pilot:
        await until(pilot, "● live")
        endless.start()
        try:
            await until(pilot, "✗ stale", "the server is busy running a script")
            await press(pilot, "n")
            await until(pilot, "the server is busy running a script; wait, or sto…")
            await press(pilot, "escape")
        finally:
            with Redis.from_url(soon_busy.url) as admin:
                admin.script_kill()
            endless.join()
        await look(pilot)


@pytest.fixture
def cluster_node() -> Iterator[tuple[EmbeddedServer, Redis]]:
    """A node of a cluster which owns no slots, and knows no node that does."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        bus_port = str(probe.getsockname()[1])
    with (
        EmbeddedServer(extra=("--cluster-enabled", "yes", "--cluster-port", bus_port)) as node,
        Redis.from_url(node.url) as admin,
    ):
        yield node, admin


async def test_a_cluster(cluster_node: tuple[EmbeddedServer, Redis]) -> None:
    node, admin = cluster_node
    async with dashboard(node.url) as pilot:
        await until(pilot, "✗ no data yet", "the cluster is down", "Try: check CLUSTER INFO")
        # A node waits two seconds before it takes its slots into service.
        admin.execute_command("CLUSTER ADDSLOTSRANGE", 0, 16383)
        text = await until(pilot, "● live")
        assert "No queues in namespace rsmq" in text
        # Written as a client does that does not know of slots: one queue's keys lie in different ones.
        admin.sadd("rsmq:QUEUES", "orders")
        admin.hset("rsmq:orders:Q", mapping={"vt": 30, "delay": 0, "maxsize": -1, "m": '{"order": 1}'})
        admin.zadd("rsmq:orders", {"m": 1})
        with untouched(admin):
            await tour(pilot)
            await until(pilot, "! scripts refused, reading by pipeline: ")
