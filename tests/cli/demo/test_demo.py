"""The demo's own scenarios on a server, as a person sees them, and the life of the process that runs them."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

import rsmq_tui
from rsmq_tui.cli.commands.demo import DEMO_LIST_AGE, DEMO_LISTS
from rsmq_tui.cli.demo import EmbeddedError, EmbeddedServer, WorkloadProcess
from rsmq_tui.cli.demo.scenarios import DELAYED, LIST_SCENARIOS
from rsmq_tui.monitor.filters.json_paths import age_path, read_age
from rsmq_tui.protocol import Rsmq, sent_ms
from tests.cli.demo.processes import is_alive, parent, wait_until_gone
from tests.cli.running import call
from tests.waiting import SECONDS_MAX, wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name != "posix", reason="looks at processes the POSIX way"),
]


@pytest.fixture(scope="module")
def demo() -> Iterator[redis.Redis]:
    with EmbeddedServer() as server, WorkloadProcess(server.url, speed=3.0) as workload:
        assert workload.wait_ready(), workload.failure
        with redis.Redis.from_url(server.url) as client:
            yield client
        assert workload.is_running, workload.failure


@pytest.fixture
def filled(demo: redis.Redis) -> str:
    """The URL of a server with all backlogs, on which a workload is ready at once."""
    where = demo.get_connection_kwargs()
    return f"redis://{where['host']}:{where['port']}/0"


def total(client: redis.Redis, queue: str, name: str) -> int:
    return int(client.hget(f"rsmq:{queue}:Q", name) or 0)


def now_ms(client: redis.Redis) -> int:
    seconds, microseconds = client.time()
    return int(seconds * 1000 + microseconds // 1000)


def test_all_queues_exist(demo: redis.Redis) -> None:
    queues = ["emails", "invoices", "orders", "reminders", "thumbnails", "webhooks"]
    assert Rsmq(demo).list_queues() == queues


def test_the_ok_queue_drains_and_is_worked_on(demo: redis.Redis) -> None:
    wait_until(lambda: total(demo, "thumbnails", "totalsent") > 500)
    wait_until(lambda: demo.zcard("rsmq:thumbnails") < total(demo, "thumbnails", "totalsent") - 100)
    wait_until(lambda: demo.zcount("rsmq:thumbnails", now_ms(demo), "+inf") > 100)


def test_the_stalled_queue_fills_and_nobody_receives(demo: redis.Redis) -> None:
    wait_until(lambda: demo.zcard("rsmq:emails") > 3_010)
    assert total(demo, "emails", "totalrecv") == 0
    wait_until(lambda: demo.zcard("rsmq:emails") == total(demo, "emails", "totalsent"))
    oldest = sent_ms(demo.zrange("rsmq:emails", 0, 0)[0].decode(), now_ms=now_ms(demo))
    assert oldest is not None
    assert 2_459 < (now_ms(demo) - oldest) / 1000 < 2_460 + 120


def test_the_growing_queue_has_an_old_backlog_and_is_consumed(demo: redis.Redis) -> None:
    # It recovers down to 36,000, which it may have done where other tests had their time first.
    assert demo.zcard("rsmq:orders") > 35_000
    wait_until(lambda: total(demo, "orders", "totalsent") > total(demo, "orders", "totalrecv") + 50)
    wait_until(lambda: total(demo, "orders", "totalrecv") > 1_600)
    oldest = sent_ms(demo.zrange("rsmq:orders", 0, 0)[0].decode(), now_ms=now_ms(demo))
    assert oldest is not None
    assert (now_ms(demo) - oldest) / 1000 > 7_500


def test_poison_is_received_and_never_deleted(demo: redis.Redis) -> None:
    def receive_counts() -> list[int]:
        ids = demo.zrange("rsmq:invoices", 0, -1)
        bodies = demo.hmget("rsmq:invoices:Q", ids)
        counts = demo.hmget("rsmq:invoices:Q", [id_ + b":rc" for id_ in ids])
        return [int(rc or 0) for body, rc in zip(bodies, counts, strict=True) if body and not body.endswith(b"}")]

    before = receive_counts()
    assert len(before) == 9
    assert max(before) >= 9
    wait_until(lambda: sum(receive_counts()) > sum(before) + 3)
    assert len(receive_counts()) == 9
    assert sum(rc >= 5 for rc in receive_counts()) >= 5


def test_delayed_messages_become_due_later(demo: redis.Redis) -> None:
    assert DELAYED.backlog is not None
    wait_until(lambda: total(demo, "reminders", "totalsent") > DELAYED.backlog.count + 2)
    now = now_ms(demo)
    scores = [score for _, score in demo.zrange("rsmq:reminders", 0, -1, withscores=True)]
    assert sum(score > now for score in scores) > 80
    assert now + 300_000 < max(scores) <= now + 600_000


def test_webhooks_come_in_bursts_and_go(demo: redis.Redis) -> None:
    wait_until(lambda: total(demo, "webhooks", "totalsent") > 60)
    wait_until(lambda: demo.zcard("rsmq:webhooks") < 30)


def expired(client: redis.Redis, queue: str) -> int:
    return client.zcount(f"{queue}:leases", "-inf", now_ms(client))


def test_a_crashing_worker_leaves_items_and_a_reaper_brings_them_back(demo: redis.Redis) -> None:
    wait_until(lambda: expired(demo, "queue:thumbnails") > 0)
    wait_until(lambda: expired(demo, "queue:thumbnails") == 0)
    wait_until(lambda: demo.llen("queue:thumbnails:processing") > 1)


def test_a_plain_worker_works_off_an_old_backlog(demo: redis.Redis) -> None:
    wait_until(lambda: demo.llen("queue:webhooks-out") < 1_880)
    assert (
        json.loads(demo.lindex("queue:webhooks-out", -1))["created"]
        < json.loads(demo.lindex("queue:webhooks-out", 0))["created"]
    )
    assert not demo.exists("queue:webhooks-out:processing", "queue:webhooks-out:leases")


def test_what_a_dead_worker_left_without_a_reaper_stays(demo: redis.Redis) -> None:
    wait_until(lambda: demo.llen("queue:imports") > 240)
    assert (demo.llen("queue:imports:processing"), expired(demo, "queue:imports")) == (12, 9)


def test_the_dashboard_sees_the_list_queues_and_how_old_they_are(demo: redis.Redis, filled: str) -> None:
    lists = [argument for pattern in DEMO_LISTS for argument in ("--lists", pattern)]
    done = call("-r", filled, *lists, "snapshot")
    queues = {queue["name"]: queue for queue in json.loads(done.stdout)["queues"] if queue["kind"] == "list"}
    assert queues.keys() == {scenario.queue for scenario in LIST_SCENARIOS}
    assert queues["queue:imports"]["verdict"] == "leaking"
    path = age_path(DEMO_LIST_AGE)
    for name in ("queue:imports", "queue:webhooks-out"):
        item = demo.lindex(name, -1)
        made_ms, problem = read_age(item, len(item), path)
        assert problem is None
        assert made_ms is not None
        assert made_ms < now_ms(demo)


def test_bodies_are_those_of_the_seed(demo: redis.Redis) -> None:
    first = json.loads(demo.hget("rsmq:emails:Q", demo.zrange("rsmq:emails", 0, 0)[0]) or b"")
    assert first["type"] == "email"


def test_ends_when_its_standard_input_does(filled: str) -> None:
    root = str(Path(rsmq_tui.__file__).parent.parent)
    with subprocess.Popen(
        [sys.executable, "-m", "rsmq_tui.cli.demo.workload", filled],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": root},
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"ready\n"
        process.stdin.close()
        assert process.wait(SECONDS_MAX) == 0
        assert process.stderr.read() == b""


@pytest.mark.parametrize(
    ("sent", "is_ready"),
    [(signal.SIGKILL, True), (signal.SIGKILL, False), (signal.SIGTERM, False), (signal.SIGINT, False)],
)
def test_ends_with_its_parent(filled: str, sent: signal.Signals, is_ready: bool) -> None:
    script = """
import signal, sys
from rsmq_tui.cli.demo import WorkloadProcess
workload = WorkloadProcess(sys.argv[1])
workload.start()
if sys.argv[2] == "True":
    workload.wait_ready()
print(workload.pid, flush=True)
signal.pause()
"""
    with parent(script, filled, str(is_ready)) as (process, (pid,)):
        assert is_alive(int(pid))
        os.killpg(process.pid, sent)
        wait_until_gone(int(pid))


def test_ends_with_its_parent_although_a_forked_child_lives_on(redis_url: str) -> None:
    script = """
import os, signal, sys
from rsmq_tui.cli.demo import WorkloadProcess
workload = WorkloadProcess(sys.argv[1])
workload.start()
if os.fork():
    print(workload.pid, flush=True)
signal.pause()
"""
    with parent(script, redis_url) as (process, (pid,)):
        process.kill()
        wait_until_gone(int(pid))


def test_start_and_stop(redis_url: str) -> None:
    workload = WorkloadProcess(redis_url)
    workload.stop()
    assert not workload.is_running
    assert workload.failure is None
    with pytest.raises(EmbeddedError, match="not running"):
        _ = workload.pid
    workload.start()
    pid = workload.pid
    workload.start()
    assert workload.pid == pid
    workload.stop()
    assert not is_alive(pid)
    workload.stop()
    assert workload.failure is None


def test_a_failure_is_told() -> None:
    with WorkloadProcess("http://localhost") as workload:
        assert not workload.wait_ready()
        wait_until(lambda: not workload.is_running)
        assert "not a Redis URL" in (workload.failure or "")


def test_waits_for_a_server_that_is_not_there(tmp_path: Path) -> None:
    with WorkloadProcess(f"unix://{tmp_path}/none?db=0") as workload:
        assert not workload.wait_ready(timeout_s=1.0)
        assert workload.is_running
        assert workload.failure is None


def test_modules_in_the_users_folder_are_not_imported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, filled: str
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('imported from the wrong place')")
    monkeypatch.chdir(tmp_path)
    with WorkloadProcess(filled) as workload:
        assert workload.wait_ready(), workload.failure
