"""What a server's status says, on INFO as servers write it, and on real servers: replicas, evictions, slow commands."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace

import pytest
from redis import Redis

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.monitor import Connection, PeekError, RsmqPoller, Snapshot
from rsmq_tui.monitor.list_poller import ListPoller
from rsmq_tui.monitor.poller import INFO_EVERY_S
from rsmq_tui.monitor.server import CheckLevel, CheckResult, server_results, status_results
from rsmq_tui.protocol import Failure, ListNames, RsmqReader
from rsmq_tui.protocol.lists.reader import ListReader
from rsmq_tui.protocol.server.status import LatencyEvent, ServerInfo, ServerStatus, SlowCommand
from tests.monitor.timing import FakeClock
from tests.servers.real import real_server

NOW_MS = 1_750_000_000_000
INFO = {"redis_version": "7.2.4", "role": "master", "maxmemory": "0", "maxmemory_policy": "noeviction"}
REFUSED = Failure("noperm", "permission denied", "grant it")


def of_info(**fields: str) -> dict[str, CheckResult]:
    return {each.name: each for each in server_results({**INFO, **fields}, "3600 1", NOW_MS)}


def status_at(at_ms: int, **fields: str) -> ServerStatus:
    return ServerStatus("", at_ms, {**INFO, **fields}, None, (), ())


def of_status(status: ServerStatus, earlier: ServerStatus | None = None) -> dict[str, CheckResult]:
    found = list(status_results(status, earlier))
    assert len({each.name for each in found}) == len(found)
    assert all((each.text + each.hint).isprintable() for each in found)
    return {each.name: each for each in found}


@asynccontextmanager
async def polled(url: str) -> AsyncIterator[RsmqPoller]:
    async with aclosing(RsmqPoller(RsmqReader(url))) as poller:
        yield poller


async def found_on(url: str) -> dict[str, CheckResult]:
    async with polled(url) as poller:
        (status,) = await poller.server()
        return of_status(status)


async def until_found(url: str, true: Callable[[dict[str, CheckResult]], bool]) -> dict[str, CheckResult]:
    """Read the status again and again, until its results are as expected."""
    async with asyncio.timeout(100), polled(url) as poller:
        while True:
            (status,) = await poller.server()
            if true(found := of_status(status)):
                return found
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("fields", "name", "level", "words"),
    [
        ({"uptime_in_seconds": "7380"}, "server.kind", CheckLevel.OK, "Redis 7.2.4, up for 2h 3m"),
        ({}, "server.version", CheckLevel.WARN, "CVE-2025-49844"),
        ({"arch_bits": "32"}, "server.arch", CheckLevel.WARN, "32-bit"),
        ({"connected_slaves": "0"}, "server.replicas", CheckLevel.OK, "no replica"),
        ({"connected_slaves": "1", "master_repl_offset": "5000", "slave0": "ip=h,port=1,state=online,offset=904,lag=1"},
         "server.replica_0", CheckLevel.OK, "replica h:1 online, 4.0 KiB behind, last heard 1 s ago"),
        ({"connected_slaves": "1", "slave0": "ip=h,port=1,state=online,offset=1,lag=42"},
         "server.replica_0", CheckLevel.WARN, "last heard 42 s ago"),
        ({"connected_slaves": "1", "slave0": "ip=h,port=1,state=send_bulk,offset=0,lag=0"},
         "server.replica_0", CheckLevel.WARN, "send_bulk"),
        ({"connected_slaves": "12"}, "server.replicas", CheckLevel.OK, "2 more replicas"),
        ({"role": "slave", "master_last_io_seconds_ago": "3", "slave_repl_offset": "1", "slave_read_repl_offset": "21"},
         "server.replication", CheckLevel.OK, "3 s ago, 20 B received and not yet applied"),
        ({"role": "slave", "master_last_io_seconds_ago": "30"}, "server.replication", CheckLevel.WARN, "30 s ago"),
        ({"role": "slave", "master_sync_in_progress": "1", "master_sync_left_bytes": "2048"},
         "server.replication", CheckLevel.WARN, "2.0 KiB left"),
        ({"maxmemory": "1000000", "used_memory": "250000", "maxmemory_policy": "volatile-ttl"},
         "server.memory", CheckLevel.OK, "(25%), volatile-ttl evicts only keys that expire"),
        ({"maxmemory": "1000000", "used_memory": "250000", "maxmemory_policy": "allkeys-lfu"},
         "server.memory", CheckLevel.WARN, "including whole queues"),
        ({"connected_clients": "12", "maxclients": "100", "blocked_clients": "3"},
         "server.clients", CheckLevel.OK, "12 clients of at most 100, 3 blocked"),
        ({"connected_clients": "95", "maxclients": "100"}, "server.clients", CheckLevel.WARN, "more are refused"),
        ({"connected_clients": "1", "rejected_connections": "7"},
         "server.clients", CheckLevel.OK, "7 connections refused"),
        ({"instantaneous_ops_per_sec": "1204", "instantaneous_input_kbps": "2.00"},
         "server.commands", CheckLevel.OK, "1,204 commands a second: 2.0 KiB a second in"),
        ({"rdb_last_save_time": str(NOW_MS // 1000 - 180), "rdb_changes_since_last_save": "1"},
         "server.saved", CheckLevel.OK, "3m 0s ago, 1 change since then"),
        ({"aof_enabled": "1", "aof_last_bgrewrite_status": "err"},
         "server.aof_rewrite", CheckLevel.WARN, "failed (err)"),
    ],
)  # fmt: skip
def test_what_a_field_of_info_means(fields: dict[str, str], name: str, level: CheckLevel, words: str) -> None:
    found = of_info(**fields)[name]
    assert found.level is level
    assert words in found.text
    assert bool(found.hint) is (level is CheckLevel.WARN)


@pytest.mark.parametrize(
    "fields",
    [
        {"redis_version": "7.2.11"},
        {"redis_version": "7.2.4", "valkey_version": "9.1.0"},
        {"redis_version": "7.0.15"},
        {"redis_version": "7.2.4", "mvcc_depth": "0"},
        {"redis_version": "unstable"},
    ],
)
def test_only_versions_that_are_known_to_be_bad_are_found(fields: dict[str, str]) -> None:
    assert "server.version" not in of_info(**fields)


def test_evictions_are_told_with_their_rate_and_what_they_may_have_taken() -> None:
    earlier = status_at(NOW_MS, evicted_keys="10")
    kept = of_status(status_at(NOW_MS + 2_000, evicted_keys="30", maxmemory_policy="volatile-lru"), earlier)
    assert kept["server.evictions"].level is CheckLevel.OK
    assert kept["server.evictions"].text == "30 keys evicted since the server started, now 10.0 a second"
    lost = of_status(status_at(NOW_MS, evicted_keys="30", maxmemory_policy="allkeys-lru"))["server.evictions"]
    assert lost.level is CheckLevel.WARN
    assert lost.text.endswith("since the server started: whole queues may be among them")
    assert of_status(status_at(NOW_MS, evicted_keys="0"))["server.evictions"].level is CheckLevel.OK


def test_parts_that_may_not_be_read_are_sentences() -> None:
    found = of_status(ServerStatus("", NOW_MS, REFUSED, None, REFUSED, REFUSED))
    assert {name: each.level for name, each in found.items()} == {
        "server.kind": CheckLevel.WARN,
        "server.slow": CheckLevel.OK,
        "server.latency": CheckLevel.OK,
    }
    assert "(INFO)" in found["server.kind"].text
    assert "(SLOWLOG)" in found["server.slow"].text
    assert "(LATENCY)" in found["server.latency"].text


def test_slow_commands_and_latency_events_are_shown_harmless() -> None:
    slow = (SlowCommand(NOW_MS - 5_000, 12_345, ("EVALSHA", "\x1b[2J", "x" * 500, "secret")),)
    events = (LatencyEvent("command\x07", NOW_MS - 60_000, 120, 300),)
    found = of_status(ServerStatus("", NOW_MS, INFO, None, slow, events))
    assert found["server.slow_0"].text.startswith("12.3 ms, 5 s ago: EVALSHA ␛[2J xxx")
    assert "secret" not in found["server.slow_0"].text
    assert found["server.latency_0"].text == "latency of command␇: 120 ms 1m 0s ago, at most 300 ms"


def test_nonsense_is_no_error() -> None:
    for value in ("", "\x1b]0;x\x07", "9" * 4000, "-1", "nan", "inf", "1e999", "="):
        odd = dict.fromkeys(
            [
                *("uptime_in_seconds", "maxmemory", "used_memory", "used_memory_peak", "evicted_keys", "maxclients"),
                *("connected_clients", "blocked_clients", "rejected_connections", "instantaneous_ops_per_sec"),
                *("instantaneous_input_kbps", "rdb_last_save_time", "rdb_changes_since_last_save", "slave0"),
                *("connected_slaves", "master_repl_offset", "master_last_io_seconds_ago", "redis_version"),
                *("master_sync_left_bytes", "slave_read_repl_offset", "slave_repl_offset", "maxmemory_policy"),
            ],
            value,
        )
        for role in ("master", "slave", value):
            for syncing in ("0", "1"):
                of_status(status_at(NOW_MS, **odd, role=role, master_sync_in_progress=syncing), status_at(0, **odd))


async def test_a_server_that_evicts_says_so(client: Redis) -> None:
    with EmbeddedServer() as server, Redis.from_url(server.url) as admin:
        admin.config_set("maxmemory-policy", "allkeys-lru")
        admin.config_set("maxmemory", int(admin.info("memory")["used_memory"]) + 500_000)
        for number in range(3_000):
            admin.set(f"key:{number}", "x" * 1_000)
        found = await found_on(server.url)
    assert found["server.evictions"].level is found["server.memory"].level is CheckLevel.WARN
    assert "allkeys-lru evicts keys" in found["server.memory"].text


async def test_slow_commands_of_a_server_are_read() -> None:
    with EmbeddedServer() as server, Redis.from_url(server.url) as admin:
        assert "empty" in (await found_on(server.url))["server.slow"].text
        admin.config_set("slowlog-log-slower-than", 0)
        for number in range(10):
            admin.set(f"key:{number}", "value")
        admin.config_set("slowlog-log-slower-than", -1)
        found = await found_on(server.url)
    slow = [each.text for name, each in found.items() if name.startswith("server.slow")]
    assert len(slow) == 5
    assert slow[0].endswith("SET key:9 value")


async def test_a_primary_and_its_replica_tell_of_each_other() -> None:
    quick = ("--repl-diskless-sync-delay", "0")
    with real_server(*quick) as primary, real_server("--replicaof", f"127.0.0.1 {primary.port}") as replica:
        url = f"redis://127.0.0.1:{primary.port}"
        found = await until_found(url, lambda found: " online" in getattr(found.get("server.replica_0"), "text", ""))
        assert f"127.0.0.1:{replica.port} online" in found["server.replica_0"].text
        theirs = f"redis://127.0.0.1:{replica.port}"
        found = await until_found(theirs, lambda found: "connected to" in found["server.replication"].text)
        assert found["server.role"].level is CheckLevel.WARN
        primary.kill()
        lost = await until_found(theirs, lambda found: "connected to" not in found["server.replication"].text)
        assert "the replica has lost its primary" in lost["server.replication"].text


async def test_a_user_who_may_only_watch_gets_sentences(redis_url: str, client: Redis) -> None:
    client.acl_setuser("viewer", enabled=True, nopass=True, keys=["*"], commands=["+@read", "+time", "+client"])
    found = await found_on(redis_url.replace("://", "://viewer:x@"))
    assert found.keys() == {"server.kind", "server.slow", "server.latency"}


async def test_lists_have_a_server_too(redis_url: str) -> None:
    async with aclosing(ListPoller(ListReader(redis_url, ListNames(), ["queue:*"]))) as poller:
        (status,) = await poller.server()
    assert of_status(status)["server.role"].text == "the primary: changes are possible"


async def test_a_server_that_is_gone_is_an_error_in_words() -> None:
    with EmbeddedServer() as server:
        url = server.url
    async with polled(url) as poller:
        with pytest.raises(PeekError):
            await poller.server()


@pytest.mark.parametrize(
    ("policy", "said"), [("noeviction", ("memory is full, messages are refused",)), ("allkeys-lru", ())]
)
async def test_a_full_memory_is_said_by_each_poll_until_there_is_room(policy: str, said: tuple[str, ...]) -> None:
    clock = FakeClock()
    with EmbeddedServer() as server, Redis.from_url(server.url) as admin:
        async with aclosing(RsmqPoller(RsmqReader(server.url), clock=clock)) as poller:

            async def refusals_with(maxmemory: int) -> tuple[str, ...]:
                admin.config_set("maxmemory", maxmemory)
                clock.now_s += INFO_EVERY_S
                return (await poller.poll()).refusals

            admin.config_set("maxmemory-policy", policy)
            found = [await refusals_with(maxmemory) for maxmemory in (0, 1, 1_000_000_000)]
    assert found == [(), said, ()]


def test_of_several_servers_each_one_that_is_full_is_named_once() -> None:
    full, roomy = (ServerInfo("a", 1, "master", 0, used, 1_000, maxmemory_policy="noeviction") for used in (1_001, 999))
    rsmq, lists, other = (
        Snapshot(NOW_MS, server, ns, place=place, info=info)
        for server, ns, place, info in (
            ("redis://eu", "rsmq", "eu", full), ("redis://eu", "(lists)", "eu (lists)", full),
            ("redis://us", "rsmq", "us", roomy),
        )
    )  # fmt: skip
    assert replace(rsmq, parts=(rsmq, lists)).refusals == ("memory is full, messages are refused",)
    assert replace(rsmq, parts=(rsmq, lists, other)).refusals == ("memory is full, messages are refused: eu",)
    assert replace(rsmq, connection=Connection(REFUSED)).refusals == () != rsmq.refusals
