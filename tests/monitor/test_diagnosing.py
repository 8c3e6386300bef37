"""From what a server says to what a person should do: levels, sentences and hints; then real servers, whole."""

from collections.abc import Iterable
from dataclasses import replace

import pytest
from redis import Redis

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.monitor import Connection, Cost, Snapshot
from rsmq_tui.monitor.doctor import (
    diagnose,
    namespaces_result,
    permission_results,
    poll_results,
    skew_result,
    speed_result,
    step_result,
)
from rsmq_tui.monitor.server import CheckLevel, CheckResult, server_kind, server_results
from rsmq_tui.protocol import Address, Failure, Namespaces, Rsmq
from rsmq_tui.protocol.server.diagnosis import ConnectStep, Diagnosis, Need, Permissions, Skew, commands_for
from rsmq_tui.protocol.server.status import ServerStatus
from tests.protocol.responder import Responder
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

SECRET = "hunter2"
INFO = {
    "redis_version": "7.2.4",
    "server_name": "valkey",
    "valkey_version": "9.1.2",
    "server_mode": "standalone",
    "role": "master",
    "maxmemory": "0",
    "maxmemory_policy": "noeviction",
    "used_memory": "1000000",
    "aof_enabled": "1",
    "aof_last_write_status": "ok",
    "rdb_last_bgsave_status": "ok",
    "loading": "0",
}
SNAPSHOT = Snapshot(
    1_750_000_000_000, "redis://h:6379/0", "rsmq", connection=Connection(None, 1.0), cost=Cost(poll_ms=3.0)
)


def levels(results: Iterable[CheckResult]) -> dict[str, CheckLevel]:
    return {result.name: result.level for result in results}


def of_info(**changes: str) -> dict[str, CheckResult]:
    return {result.name: result for result in server_results({**INFO, **changes}, "3600 1")}


@pytest.mark.parametrize(
    ("info", "words"),
    [
        (
            {"redis_version": "7.2.4", "valkey_version": "9.1.2", "server_mode": "standalone"},
            "Valkey 9.1.2, standalone",
        ),
        ({"redis_version": "8.2.0", "redis_mode": "cluster"}, "Redis 8.2.0, cluster"),
        ({"redis_version": "6.3.4", "mvcc_depth": "0", "redis_mode": "standalone"}, "KeyDB 6.3.4, standalone"),
        ({"redis_version": "7.4.0", "dragonfly_version": "df-v1.23.0"}, "Dragonfly df-v1.23.0"),
        ({}, "a server that does not report its version"),
    ],
)
def test_which_server_it_is(info: dict[str, str], words: str) -> None:
    assert server_kind(info) == words


def test_a_server_as_it_should_be() -> None:
    assert set(levels(of_info().values()).values()) == {CheckLevel.OK}


@pytest.mark.parametrize(
    ("changes", "name", "words"),
    [
        ({"role": "slave", "master_host": "db1", "master_port": "6379"}, "server.role", "replica of db1:6379"),
        ({"role": "slave", "master_link_status": "down", "master_link_down_since_seconds": "125"}, "server.replication",
         "lost its primary for 2m 5s"),
        ({"role": "slave", "master_link_status": "down", "master_link_down_since_seconds": "-1"}, "server.replication",
         "lost its primary: its data is stale"),
        ({"maxmemory": "1048576", "maxmemory_policy": "allkeys-lru"}, "server.memory", "evicts keys when 1.0 MiB are"),
        ({"maxmemory": "1048576"}, "server.memory", "976.6 KiB of 1.0 MiB memory in use"),
        ({"aof_enabled": "0"}, "server.persistence", "snapshots only (3600 1)"),
        ({"aof_last_write_status": "err"}, "server.aof", "cannot be written"),
        ({"rdb_last_bgsave_status": "err"}, "server.disk", "the last save to disk failed"),
        ({"loading": "1"}, "server.loading", "loading its data"),
    ],
)  # fmt: skip
def test_what_a_server_says_that_is_a_warning(changes: dict[str, str], name: str, words: str) -> None:
    found = of_info(**changes)[name]
    assert found.level is CheckLevel.WARN
    assert words in found.text
    assert found.hint


def test_an_eviction_policy_without_a_limit_drops_nothing() -> None:
    assert of_info(maxmemory_policy="allkeys-lru")["server.memory"].level is CheckLevel.OK
    assert of_info(maxmemory="10000000")["server.memory"].level is CheckLevel.OK


@pytest.mark.parametrize(("saves", "words"), [("", "nothing is saved to disk"), (None, "if there are any")])
def test_no_snapshots(saves: str | None, words: str) -> None:
    found = {each.name: each for each in server_results({**INFO, "aof_enabled": "0"}, saves)}
    assert words in found["server.persistence"].text


def test_a_server_that_says_nonsense_of_itself_is_no_error() -> None:
    odd = dict.fromkeys(INFO, "\x1b[2J?")
    for found in server_results({**odd, "role": "slave", "master_host": "\x1b]0;x\x07"}, "\x1b"):
        assert (found.text + found.hint).isprintable()
    assert list(server_results({}, None))


@pytest.mark.parametrize(
    ("step", "words", "hint"),
    [
        (
            ConnectStep("tcp", "h port 1", Failure("timeout", "the server does not answer", "?")),
            "no connection",
            "firewall",
        ),
        (
            ConnectStep("redis", "h", Failure("closed", "closed the connection", "restarted?")),
            "no Redis reply",
            "rediss://",
        ),
        (ConnectStep("redis", "h", Failure("timeout", "does not answer", "x")), "no Redis reply", "rediss://"),
        (ConnectStep("auth", "h", Failure("noauth", "requires a password", "give it")), "access refused", "give it"),
    ],
)
def test_a_step_that_failed_says_what_to_do(step: ConnectStep, words: str, hint: str) -> None:
    found = step_result(step)
    assert (found.name, found.level) == (f"connection.{step.name}", CheckLevel.FAIL)
    assert words in found.text
    assert hint in found.hint


def permissions(*refused: str, kind: str = "noperm", unreported: tuple[Need, ...] = ()) -> Permissions:
    commands = [command for command in commands_for("rsmq", None) if command.need not in unreported]
    failure = Failure(kind, "the server is a read-only replica", "send changes to the primary")
    return Permissions(
        "ann",
        tuple(command for command in commands if command.name not in refused),
        tuple((command, failure) for command in commands if command.name in refused),
    )


@pytest.mark.parametrize(
    ("refused", "name", "level"),
    [
        ("smembers", "permissions.poll", CheckLevel.FAIL),
        ("zscan", "permissions.look", CheckLevel.WARN),
        ("eval", "permissions.scripts", CheckLevel.WARN),
        ("scan", "permissions.namespaces", CheckLevel.WARN),
        ("hset", "permissions.change", CheckLevel.WARN),
    ],
)
def test_a_refused_command_is_named_with_the_grant_it_takes(refused: str, name: str, level: CheckLevel) -> None:
    found = {each.name: each for each in permission_results(permissions(refused), "rsmq", read_only=False)}
    assert [each.name for each in found.values() if each.level is not CheckLevel.OK] == [name]
    assert found[name].level is level
    assert refused.upper() in found[name].text
    assert f"ACL SETUSER ann ~rsmq:* +{refused}" in found[name].hint


def test_who_only_looks_needs_no_permission_to_change() -> None:
    for found in (permissions("hset"), permissions(unreported=(Need.CHANGE,))):
        assert levels(permission_results(found, "rsmq", read_only=True))["permissions.change"] is CheckLevel.OK
        assert levels(permission_results(found, "rsmq", read_only=False))["permissions.change"] is CheckLevel.WARN


def test_a_replica_is_told_as_one() -> None:
    results = permission_results(permissions("hset", "zadd", kind="readonly"), "rsmq", read_only=False)
    (found,) = (each for each in results if each.level is CheckLevel.WARN)
    assert found.text == "changes will fail: the server is a read-only replica"


def test_latency_in_three_numbers() -> None:
    took_ms = [2.0] * 10 + [1.0] + [3.0] * 8 + [40.0]
    found = speed_result(took_ms)
    assert found.level is CheckLevel.OK
    assert found.text == "a round trip takes 2.0 ms (min 1.0, p99 40.0, of 20)"
    assert speed_result([80.0] * 20).level is CheckLevel.WARN
    assert "p99 99.0" in speed_result([float(number) for number in range(1, 101)]).text


@pytest.mark.parametrize(
    ("skew", "level", "words"),
    [
        (Skew(0.2, 0.1), CheckLevel.OK, "is in step with this machine's"),
        (Skew(-900, 1), CheckLevel.OK, "900 ms behind"),
        (Skew(5_000, 1), CheckLevel.WARN, "5 s ahead of"),
        (Skew(-3_600_000, 1), CheckLevel.WARN, "1h 0m behind"),
        # A slow line tells nothing.
        (Skew(5_000, 4_500), CheckLevel.OK, "5 s ahead of"),
    ],
)
def test_clocks(skew: Skew, level: CheckLevel, words: str) -> None:
    found = skew_result(skew)
    assert found.level is level
    assert words in found.text


def test_a_poll_that_takes_longer_than_its_interval() -> None:
    slow = replace(SNAPSHOT, cost=Cost(poll_ms=1500.0))
    assert levels(poll_results(slow, 1.0, None)) == {"speed.poll": CheckLevel.WARN}
    assert levels(poll_results(slow, 2.0, None)) == {"speed.poll": CheckLevel.OK}


def test_notes_that_are_trouble_and_one_that_is_not() -> None:
    noted = replace(SNAPSHOT, notes=("rsmq:QUEUES is not a set", "scripts refused, reading by pipeline: no"))
    assert levels(poll_results(noted, 1.0, "no")) == {"speed.poll": CheckLevel.OK, "queues.index": CheckLevel.FAIL}
    refused = replace(SNAPSHOT, notes=noted.notes[1:])
    assert levels(poll_results(refused, 1.0, "no")) == {"speed.poll": CheckLevel.OK}


def test_an_empty_namespace_says_which_others_there_are() -> None:
    found = namespaces_result(SNAPSHOT, Namespaces(("jobs", "mail\x1b[2J"), complete=False))
    assert (found.level, found.hint) == (CheckLevel.WARN, "--ns jobs")
    assert found.text.isprintable()
    assert "not all keys were scanned" in found.text
    many = namespaces_result(SNAPSHOT, Namespaces(tuple(f"n{number}" for number in range(30)), complete=True))
    assert "and 20 more" in many.text
    assert namespaces_result(SNAPSHOT, Namespaces((), complete=True)).level is CheckLevel.WARN


def test_an_empty_namespace_says_how_lists_are_shown() -> None:
    found = namespaces_result(SNAPSHOT, Namespaces((), True, ("queue:*", "celery")))
    assert found.hint == "to see its Redis Lists as queues: rsmq-tui --lists 'queue:*' --lists 'celery'"


async def diagnosed(
    url: str, *, ns: str = "rsmq", read_only: bool = False, timeout_s: float = 5.0
) -> dict[str, CheckResult]:
    found = [each async for each in diagnose(Address(url), ns, read_only=read_only, timeout_s=timeout_s)]
    assert SECRET not in repr(found)
    assert len({each.name for each in found}) == len(found)
    return {each.name: each for each in found}


async def test_a_server_that_can_be_watched(redis_url: str, client: Redis) -> None:
    Rsmq(client).create_queue("orders")
    Rsmq(client).send_message("orders", "x")
    before = {key: client.dump(key) for key in client.scan_iter()}
    found = await diagnosed(redis_url)
    assert {name for name, each in found.items() if each.level is not CheckLevel.OK} == {"server.persistence"}
    assert "1 queue in namespace rsmq" in found["queues.found"].text
    assert found.keys() >= {
        *("connection.dns", "connection.tcp", "connection.auth", "connection.redis"),
        *(
            "server.kind",
            "server.role",
            "server.memory",
            "speed.round_trip",
            "speed.clock",
            "speed.tracking",
            "speed.poll",
        ),
        *("permissions.poll", "permissions.look", "permissions.scripts", "permissions.change"),
    }
    assert {key: client.dump(key) for key in client.scan_iter()} == before


async def test_a_connection_that_fails_is_all_there_is(redis_url: str) -> None:
    for url, name in (
        (f"redis://:{SECRET}@127.0.0.1:1", "connection.tcp"),
        (redis_url.replace("://", f"://bob:{SECRET}@"), "connection.auth"),
    ):
        found = await diagnosed(url)
        assert [each.name for each in found.values() if each.level is CheckLevel.FAIL] == [name]
        assert {each.name.partition(".")[0] for each in found.values()} == {"connection"}


async def test_a_viewer_can_watch(redis_url: str, client: Redis) -> None:
    Rsmq(client).create_queue("orders")
    commands = [
        *("+smembers", "+time", "+scan", "+select", "+hexists", "+hget", "+hmget", "+hstrlen", "+zcard", "+zcount"),
        *("+zrange", "+zrank", "+zscan", "+zscore", "+client|setinfo", "+client|tracking", "+eval", "+evalsha"),
        *("+sismember", "+scard", "+sscan", "+type", "+hlen", "+hscan"),
    ]
    client.acl_setuser("viewer", enabled=True, passwords=[f"+{SECRET}"], keys=["rsmq:*"], commands=commands)
    found = await diagnosed(redis_url.replace("://", f"://viewer:{SECRET}@"), read_only=True)
    assert {name for name, each in found.items() if each.level is not CheckLevel.OK} == {"server.kind"}


async def test_a_user_who_may_nothing_cannot_watch(redis_url: str, client: Redis) -> None:
    client.acl_setuser("ann", enabled=True, passwords=[f"+{SECRET}"], keys=["jobs:*"], commands=["+@all"])
    found = await diagnosed(redis_url.replace("://", f"://ann:{SECRET}@"))
    failed = {name for name, each in found.items() if each.level is CheckLevel.FAIL}
    assert failed == {"permissions.poll", "queues.poll"}
    assert "ACL SETUSER ann ~rsmq:* +smembers" in found["permissions.poll"].hint


async def test_a_replica_can_be_watched_with_warnings(server: EmbeddedServer, redis_url: str) -> None:
    with EmbeddedServer() as replica, Redis.from_url(replica.url) as admin:
        admin.replicaof("127.0.0.1", server.port)
        wait_until(lambda: admin.info("replication")["master_link_status"] == "up")
        found = await diagnosed(replica.url)
    assert found["server.role"].level is CheckLevel.WARN
    assert found["permissions.change"].text == "changes will fail: the server is a read-only replica"
    assert CheckLevel.FAIL not in levels(found.values()).values()


async def test_an_index_of_another_type_fails(redis_url: str, client: Redis) -> None:
    client.set("rsmq:QUEUES", "x")
    assert (await diagnosed(redis_url))["queues.index"].level is CheckLevel.FAIL


async def test_a_namespace_without_queues_is_a_warning(redis_url: str, client: Redis) -> None:
    Rsmq(client, ns="jobs").create_queue("x")
    found = await diagnosed(redis_url)
    assert (found["queues.found"].level, found["queues.found"].hint) == (CheckLevel.WARN, "--ns jobs")


async def test_a_server_that_goes_away_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedServer() as server:
        read = Diagnosis.status

        async def stopping(diagnosis: Diagnosis) -> ServerStatus:
            status = await read(diagnosis)
            server.stop()
            return status

        monkeypatch.setattr("rsmq_tui.protocol.server.diagnosis.Diagnosis.status", stopping)
        found = await diagnosed(server.url)
    assert found["connection.kept"].level is CheckLevel.FAIL


async def test_what_only_pretends_to_be_a_server(redis_url: str) -> None:
    with Responder(b"+OK") as responder:
        found = await diagnosed(responder.url, timeout_s=1)
    assert found["connection.redis"].level is CheckLevel.FAIL
