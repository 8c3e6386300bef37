"""`rsmq-tui snapshot --lists`: list queues in the documented JSON, beside those of RSMQ."""

import json
from pathlib import Path
from typing import Any

import pytest
import redis

from rsmq_tui.monitor import Snapshot
from rsmq_tui.monitor.list_poller import ListPoller
from rsmq_tui.protocol import Rsmq
from tests.cli.conftest import Command
from tests.cli.running import call
from tests.cli.test_snapshot import KEYS, TOP


def _snapshot(*arguments: str, stderr: str = "") -> dict[str, Any]:
    done = call("snapshot", *arguments)
    assert (done.returncode, done.stderr) == (0, stderr)
    assert done.stdout.isascii()
    value: dict[str, Any] = json.loads(done.stdout)
    return value


def test_lists_stand_behind_the_queues_of_rsmq(redis_url: str, client: redis.Redis) -> None:
    Rsmq(client).create_queue("orders")
    client.lpush("queue:mail", "one", "two", "three")
    client.lpush("queue:mail:processing", "four")
    client.zadd("queue:mail:leases", {"t:four": 1})
    found = _snapshot("-r", redis_url, "--lists", "queue:*", "--lists", "gone")
    assert list(found) == TOP
    orders, gone, mail = found["queues"]
    assert list(orders) == KEYS
    assert list(gone) == list(mail) == [*KEYS, "expired", "net_s"]
    assert (gone["name"], gone["depth"], gone["verdict"]) == ("gone", 0, "ok")
    assert mail.pop("reason").startswith("1 lease expired and none returned for 20,")
    assert {key: value for key, value in mail.items() if value is not None} == {
        "name": "queue:mail",
        "kind": "list",
        "depth": 4,
        "ready": 3,
        "hidden": 1,
        "verdict": "leaking",
        "expected": False,
        "problems": [],
        "expired": 1,
    }


def test_it_says_which_queues_a_profile_ignores(redis_url: str, client: redis.Redis, tmp_path: Path) -> None:
    Rsmq(client).create_queue("orders")
    client.lpush("queue:dead", "one")
    config = tmp_path / "config.toml"
    config.write_text(f'[profiles.here]\nurl = "{redis_url}"\nlists = ["queue:*"]\nignore = ["*dead"]\n')
    found = _snapshot("--profile", "here", "--config", str(config))
    assert {queue["name"]: queue["expected"] for queue in found["queues"]} == {"orders": False, "queue:dead": True}


def test_a_server_without_rsmq_is_no_failure(redis_url: str, client: redis.Redis) -> None:
    client.lpush("jobs", "x")
    found = _snapshot("-r", redis_url, "--lists", "jobs")
    assert [(queue["kind"], queue["name"], queue["ready"]) for queue in found["queues"]] == [("list", "jobs", 1)]


def test_who_may_read_nothing_but_lists_reads_lists(redis_url: str, client: redis.Redis) -> None:
    client.lpush("queue:a", "x")
    client.acl_setuser("lists", enabled=True, passwords=["+x"], keys=["queue:*"], commands=["+@all"], reset_keys=True)
    url = redis_url.replace("redis://", "redis://lists:x@")
    done = call("snapshot", "-r", url, "--lists", "queue:*")
    assert done.returncode == 0
    assert [queue["name"] for queue in json.loads(done.stdout)["queues"]] == ["queue:a"]
    assert done.stderr.startswith("rsmq-tui: cannot read ")
    assert call("snapshot", "-r", url).returncode == 2


def test_who_may_not_look_for_lists_is_told(redis_url: str, client: redis.Redis) -> None:
    client.acl_setuser("blind", enabled=True, passwords=["+x"], keys=["*"], commands=["+@all", "-scan"])
    done = call("snapshot", "-r", redis_url.replace("redis://", "redis://blind:x@"), "--lists", "queue:*")
    assert done.returncode == 1
    assert done.stderr.startswith("rsmq-tui: the server refused the search for lists (")


def test_a_server_that_is_not_there_is_one_sentence() -> None:
    done = call("snapshot", "-r", "redis://127.0.0.1:1", "--lists", "queue:*")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def test_an_empty_pattern_is_refused(redis_url: str) -> None:
    done = call("snapshot", "-r", redis_url, "--lists", "")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "rsmq-tui: --lists takes a key, or a pattern of keys such as 'queue:*'\n"


def test_a_profile_names_lists_and_how_they_are_made(redis_url: str, client: redis.Redis, tmp_path: Path) -> None:
    client.rpush("jobs", json.dumps({"at": client.time()[0] - 60}), "{}")
    client.rpush("jobs.busy", "x", "y")
    config = tmp_path / "config.toml"
    config.write_text(
        f'[profiles.here]\nurl = "{redis_url}"\nlists = ["jobs"]\nlists_processing = "{{queue}}.busy"\n'
        'lists_take = "left"\nlists_age = "at"\n'
    )
    config.chmod(0o600)
    (jobs,) = _snapshot("--config", str(config), "--profile", "here")["queues"]
    assert (jobs["ready"], jobs["hidden"]) == (2, 2)
    assert 59_000 <= jobs["oldest_ready_age_ms"] < 120_000
    client.lpush("other", "x")
    (other,) = _snapshot("--config", str(config), "--profile", "here", "--lists", "other")["queues"]
    assert (other["name"], other["problems"]) == ("other", ["the next item is not JSON: its age is unknown"])


def test_nothing_on_the_server_changes(redis_url: str, client: redis.Redis) -> None:
    client.lpush("queue:a", "x", b"\xff")
    before = {key: client.dump(key) for key in client.scan_iter()}
    _snapshot("-r", redis_url, "--lists", "*")
    assert {key: client.dump(key) for key in client.scan_iter()} == before


def test_hostile_names_stay_json_and_themselves(redis_url: str, client: redis.Redis) -> None:
    name = b"queue:\xff\x1b[2J\n\0"
    client.lpush(name, "x")
    (queue,) = _snapshot("-r", redis_url, "--lists", "queue:*")["queues"]
    assert queue["name"].encode("utf-8", "surrogateescape") == name


@pytest.mark.parametrize(
    ("error", "polls"),
    [(redis.TimeoutError("Timeout reading"), 0), (redis.ResponseError("NOPERM no SCAN"), 1)],
    ids=str,
)
def test_a_server_that_does_not_answer_the_search_is_not_waited_for_again(
    command: Command, client: redis.Redis, monkeypatch: pytest.MonkeyPatch, error: Exception, polls: int
) -> None:
    client.lpush("queue:mail", "x")
    polled, read = list[ListPoller](), ListPoller._read

    async def failing(*_: Any, **__: Any) -> bool:
        raise error

    async def counting(poller: ListPoller) -> Snapshot:
        polled.append(poller)
        return await read(poller)

    monkeypatch.setattr(ListPoller, "discover", failing)
    monkeypatch.setattr(ListPoller, "_read", counting)
    for arguments in (["snapshot"], ["queues", "list"], ["messages", "list", "list:*"]):
        polled.clear()
        done = command(*arguments, "--lists", "queue:*")
        assert (done.status, len(polled)) == (0 if polls else 2, polls)
        assert ("the server does not answer" in done.err) == (not polls)
