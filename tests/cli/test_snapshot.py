"""`rsmq-tui snapshot`: the documented JSON, and one sentence where there is none."""

import json
from typing import Any

import pytest
import redis

from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.protocol import Rsmq
from tests.cli.running import call, check_closed_pipe

pytestmark = pytest.mark.slow

MEMORY = ["used_memory_bytes", "maxmemory_bytes", "memory_full_soonest_ms", "memory_full_latest_ms"]
TOP = ["schema", "at_ms", "ns", *MEMORY, "queues"]
KEYS = [
    *("name", "kind", "depth", "ready", "hidden", "oldest_ready_age_ms", "vt_s", "delay_s", "maxsize", "totalsent"),
    *("totalrecv", "created_ms", "modified_ms", "oldest_ready_waiting_ms"),
    *("wait_p50_ms", "wait_p95_ms", "work_p50_ms", "work_p95_ms"),
    *("limit", "limit_soonest_ms", "limit_latest_ms", "verdict", "reason", "expected", "problems"),
]


def _snapshot(*arguments: str, env: dict[str, str] | None = None) -> dict[str, Any]:
    done = call(*arguments, "snapshot", env=env)
    assert (done.returncode, done.stderr) == (0, "")
    # Nothing in it could be obeyed by a terminal.
    assert done.stdout.isascii()
    assert done.stdout.replace("\n", "").isprintable()
    value: dict[str, Any] = json.loads(done.stdout)
    return value


def test_schema_keys_and_values(redis_url: str, client: redis.Redis) -> None:
    rsmq = Rsmq(client)
    rsmq.create_queue("orders", vt=15, delay=0, maxsize=2048)
    rsmq.create_queue("empty", vt=30, delay=5, maxsize=-1)
    rsmq.send_messages("orders", ["one", "two", "three"])
    assert rsmq.receive_message("orders") is not None
    before_ms = _now_ms(client)
    found = _snapshot("-r", redis_url)
    assert list(found) == TOP
    assert found["schema"] == 1
    assert found["ns"] == "rsmq"
    assert before_ms <= found["at_ms"] <= _now_ms(client)
    assert found["used_memory_bytes"] > 100_000
    assert [found[name] for name in MEMORY[1:]] == [None] * 3
    empty, orders = found["queues"]
    assert list(empty) == list(orders) == KEYS
    attributes = rsmq.get_queue_attributes("orders")
    assert 0 <= orders.pop("oldest_ready_age_ms") < 30_000
    assert 0 <= orders.pop("oldest_ready_waiting_ms") < 30_000
    for name in ("wait_p50_ms", "wait_p95_ms", "work_p50_ms", "work_p95_ms"):
        assert 0 <= orders.pop(name) < 30_000
        assert empty[name] is None
    assert orders == {
        "name": "orders",
        "kind": "rsmq",
        "depth": 3,
        "ready": 2,
        "hidden": 1,
        "vt_s": 15,
        "delay_s": 0,
        "maxsize": 2048,
        "totalsent": 3,
        "totalrecv": 1,
        "created_ms": (attributes.created or 0) * 1000,
        "modified_ms": (attributes.modified or 0) * 1000,
        "limit": None,
        "limit_soonest_ms": None,
        "limit_latest_ms": None,
        "verdict": "ok",
        "reason": "nothing is wrong",
        "expected": False,
        "problems": [],
    }
    assert empty["oldest_ready_age_ms"] is None
    assert (empty["depth"], empty["maxsize"], empty["delay_s"]) == (0, -1, 5)


def _now_ms(client: redis.Redis) -> int:
    seconds, micros = client.time()
    return seconds * 1000 + micros // 1000


def test_nothing_on_the_server_changes(redis_url: str, client: redis.Redis) -> None:
    rsmq = Rsmq(client)
    rsmq.create_queue("orders")
    rsmq.send_messages("orders", ["one", "two"])
    before = {key: client.dump(key) for key in client.scan_iter()}
    _snapshot("-r", redis_url)
    assert {key: client.dump(key) for key in client.scan_iter()} == before


def test_an_empty_server_has_no_queues(redis_url: str) -> None:
    assert _snapshot("-r", redis_url)["queues"] == []


def test_what_is_unknown_is_null_and_what_is_wrong_is_said(redis_url: str, client: redis.Redis) -> None:
    client.sadd("rsmq:QUEUES", "wrong", "gone", "odd")
    client.hset("rsmq:wrong:Q", mapping={"vt": 30, "delay": 0, "maxsize": 65536, "created": 1, "modified": 1})
    client.set("rsmq:wrong", "no sorted set")
    client.hset("rsmq:odd:Q", mapping={"vt": 30_000, "delay": 0, "maxsize": 65536, "created": 1, "modified": 1})
    gone, odd, wrong = _snapshot("-r", redis_url)["queues"]
    assert [queue["name"] for queue in (gone, odd, wrong)] == ["gone", "odd", "wrong"]
    for queue in (gone, wrong):
        assert queue["verdict"] == "broken"
        assert queue["reason"] == queue["problems"][0]
    assert wrong["depth"] is None
    assert wrong["ready"] is None
    assert wrong["problems"][0] == "its messages key is not a sorted set"
    assert (odd["verdict"], odd["vt_s"]) == ("ok", 30)
    assert "probably in milliseconds" in odd["problems"][0]


def test_poison_is_known_at_once(redis_url: str, client: redis.Redis) -> None:
    rsmq = Rsmq(client)
    rsmq.create_queue("invoices", vt=0)
    rsmq.send_message("invoices", "bad")
    for _ in range(6):
        rsmq.receive_message("invoices")
    (queue,) = _snapshot("-r", redis_url)["queues"]
    assert queue["verdict"] == "poisoned"
    assert queue["reason"].startswith("1 message received 5 times or more (up to 6)")


@pytest.mark.parametrize(
    "name",
    [b"\xff\xfe", b'quote"back\\slash', b"\x1b[2J\x07\x9b", b"[/markup]", "日本\u202e".encode(), b"a\nb\0c",
     b"", b"n" * 10_000],
    ids=lambda name: repr(name[:12]),
)  # fmt: skip
def test_hostile_names_stay_json_and_themselves(redis_url: str, client: redis.Redis, name: bytes) -> None:
    client.sadd("rsmq:QUEUES", name)
    fields = {"vt": 30, "delay": 0, "maxsize": 65536, "created": 1, "modified": 1}
    client.hset(b"rsmq:" + name + b":Q", mapping=fields)
    (queue,) = _snapshot("-r", redis_url)["queues"]
    assert queue["name"].encode("utf-8", "surrogateescape") == name


def test_the_namespace_is_an_option_or_from_the_environment(redis_url: str, client: redis.Redis) -> None:
    Rsmq(client, ns="jobs").create_queue("of-jobs")
    Rsmq(client, ns="{mail}").create_queue("of-mail")
    for arguments, env, ns, names in (
        (("--ns", "jobs"), {}, "jobs", ["of-jobs"]),
        (("--ns={mail}",), {"RSMQ_NS": "jobs"}, "{mail}", ["of-mail"]),
        ((), {"RSMQ_NS": "jobs"}, "jobs", ["of-jobs"]),
        ((), {}, "rsmq", []),
    ):
        found = _snapshot(*arguments, env={"REDIS_URL": redis_url, **env})
        assert (found["ns"], [queue["name"] for queue in found["queues"]]) == (ns, names)


def test_options_may_stand_before_or_behind_the_command(redis_url: str, client: redis.Redis) -> None:
    Rsmq(client, ns="jobs").create_queue("of-jobs")
    for arguments in (
        ("-r", redis_url, "--ns", "jobs", "snapshot"),
        ("snapshot", "-r", redis_url, "--ns", "jobs"),
        ("--redis-url", redis_url, "snapshot", "--ns", "jobs"),
    ):
        done = call(*arguments, env={"REDIS_URL": "redis://127.0.0.1:1", "RSMQ_NS": "mail"})
        assert [queue["name"] for queue in json.loads(done.stdout)["queues"]] == ["of-jobs"]


def test_a_unix_socket_a_user_and_a_password() -> None:
    with EmbeddedServer(unix_socket=True) as server:
        with redis.Redis.from_url(server.url) as admin:
            admin.acl_setuser("bob", enabled=True, passwords=["+hunt:er2@/"], keys=["*"], commands=["+@all"])
            Rsmq(admin).create_queue("orders")
        path = server.url.removesuffix("?db=0").removeprefix("unix://")
        for url in (server.url, f"unix://{path}", f"unix://bob:hunt%3Aer2%40%2F@{path}?db=0"):
            assert [queue["name"] for queue in _snapshot("-r", url)["queues"]] == ["orders"]
        assert _snapshot("-r", f"unix://{path}?db=3")["queues"] == []


def test_an_index_that_cannot_be_read_is_told(redis_url: str, client: redis.Redis) -> None:
    client.set("rsmq:QUEUES", "text")
    for arguments in (("snapshot",), ("queues", "list")):
        done = call("-r", redis_url, *arguments)
        assert done.returncode == 1
        assert done.stderr.startswith("rsmq-tui: rsmq:QUEUES is not a set of names: ")
        assert "no queues" not in done.stderr


def test_a_closed_pipe_is_no_traceback(redis_url: str, client: redis.Redis) -> None:
    client.sadd("rsmq:QUEUES", *(f"queue-{number}" for number in range(2000)))
    check_closed_pipe("{\n", "-r", redis_url, "snapshot")
