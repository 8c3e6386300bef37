"""The controls of a demo, each against its real server and workload."""

import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap

import pytest
import redis

from rsmq_tui.cli.demo import EmbeddedError, EmbeddedServer, WorkloadProcess
from rsmq_tui.cli.demo.control import CLIENT_CONTROLS, SERVER_CONTROLS, DemoControls
from rsmq_tui.cli.demo.scenarios import DEMO_SCENARIOS, ListScenario
from rsmq_tui.protocol import Rsmq, sent_ms
from tests.cli.demo.processes import is_alive, parent, wait_until_gone
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(os.name != "posix", reason="looks at processes the POSIX way")


class Demo:
    """A demo without a screen: its controls, and a client of its server."""

    def __init__(self, server: EmbeddedServer, controls: DemoControls) -> None:
        self.server = server
        self.controls = controls
        self.client = redis.Redis.from_url(server.url, socket_timeout=0.5, retry=None)

    def turn(self, name: str, queue: str = "orders", *, on: bool = True) -> str:
        """Turn a control on or off that is not so yet."""
        assert self.controls.is_on(name, queue) is not on
        said = self.controls.switch(name, queue)
        assert self.controls.is_on(name, queue) is on
        return said

    def total(self, name: str, queue: str = "orders") -> int:
        return int(self.client.hget(f"rsmq:{queue}:Q", name) or 0)

    def deleted(self, queue: str = "orders") -> int:
        """How many messages of a queue were deleted so far."""
        with self.client.pipeline(transaction=True) as pipeline:
            pipeline.hget(f"rsmq:{queue}:Q", "totalsent").zcard(f"rsmq:{queue}")
            sent, depth = pipeline.execute()
        return int(sent) - int(depth)

    def wait_until_grown(self, name: str, queue: str = "orders", by: int = 20) -> None:
        """Wait until a total has grown."""
        before = self.total(name, queue)
        wait_until(lambda: self.total(name, queue) >= before + by)


@pytest.fixture(scope="module")
def demo() -> Iterator[Demo]:
    with (
        EmbeddedServer() as server,
        WorkloadProcess(server.url, speed=5.0, scenario="healthy") as workload,
        DemoControls(server, workload, "healthy") as controls,
    ):
        assert workload.wait_ready(), workload.failure
        demo = Demo(server, controls)
        with demo.client:
            yield demo
        assert workload.is_running, workload.failure


def test_a_stopped_consumer_receives_nothing_until_it_goes_on(demo: Demo) -> None:
    demo.turn("consumer-stop")
    sent = demo.total("totalsent")
    # Whatever was being received when it was stopped has been counted by now.
    demo.wait_until_grown("totalsent")
    received = demo.total("totalrecv")
    demo.wait_until_grown("totalsent", by=40)
    assert demo.total("totalrecv") == received
    assert demo.total("totalsent") > sent
    demo.turn("consumer-stop", on=False)
    demo.wait_until_grown("totalrecv")


def test_a_stopped_producer_sends_nothing(demo: Demo) -> None:
    demo.turn("producer-stop")
    wait_until(lambda: demo.client.zcard("rsmq:orders") == 0)
    demo.wait_until_grown("totalsent", "emails")
    sent = demo.total("totalsent")
    demo.wait_until_grown("totalsent", "emails")
    assert demo.total("totalsent") == sent
    demo.turn("producer-stop", on=False)
    demo.wait_until_grown("totalsent")


def test_slow_consumers_lag_behind_and_fast_ones_make_up_for_it(demo: Demo) -> None:
    demo.turn("consumer-slow")
    demo.turn("producer-fast")
    wait_until(lambda: demo.client.zcard("rsmq:orders") > 300)
    demo.turn("consumer-slow", on=False)
    demo.turn("producer-fast", on=False)
    demo.turn("consumer-fast")
    demo.turn("producer-slow")
    wait_until(lambda: demo.client.zcard("rsmq:orders") < 60)
    demo.turn("consumer-fast", on=False)
    demo.turn("producer-slow", on=False)


def test_what_a_crashing_consumer_takes_stays(demo: Demo) -> None:
    demo.turn("consumer-crash")
    # What was in work before may be deleted still.
    demo.wait_until_grown("totalrecv", by=150)
    deleted = demo.deleted()
    demo.wait_until_grown("totalrecv", by=60)
    assert demo.deleted() == deleted
    demo.turn("consumer-crash", on=False)


def test_a_burst_is_sent_at_once_and_taken_back(demo: Demo) -> None:
    demo.turn("consumer-stop", "emails")
    before = demo.total("totalsent", "emails")
    assert "sent 1,000 messages" in demo.turn("burst", "emails")
    assert demo.total("totalsent", "emails") >= before + 1_000
    assert demo.client.zcard("rsmq:emails") >= 1_000
    assert "deleted 1,000 of 1,000 messages" in demo.turn("burst", "emails", on=False)
    assert demo.client.zcard("rsmq:emails") < 1_000
    demo.turn("consumer-stop", "emails", on=False)


def test_a_burst_of_a_list(demo: Demo) -> None:
    demo.turn("consumer-stop", "queue:webhooks-out")
    assert "sent 1,000 items" in demo.turn("burst", "queue:webhooks-out")
    assert demo.client.llen("queue:webhooks-out") > 900
    assert "of 1,000 items" in demo.turn("burst", "queue:webhooks-out", on=False)
    assert demo.client.llen("queue:webhooks-out") < 900
    demo.turn("consumer-stop", "queue:webhooks-out", on=False)


def test_poison_is_received_again_until_it_is_taken_back(demo: Demo) -> None:
    demo.turn("poison")

    def poison() -> list[bytes]:
        fields = demo.client.hgetall("rsmq:orders:Q")
        often = [name[:-3] for name, value in fields.items() if name.endswith(b":rc") and int(value) >= 2]
        # Others come back too, because consumers fail now and then; only this one is cut off.
        return [id for id in often if not fields.get(id, b"}").endswith(b"}")]

    wait_until(lambda: len(poison()) == 1)
    (id,) = poison()
    demo.turn("poison", on=False)
    assert demo.client.zscore("rsmq:orders", id) is None


def test_delayed_messages_are_hidden_at_first(demo: Demo) -> None:
    queues = Rsmq(demo.client)
    demo.turn("delays", "emails")
    wait_until(lambda: queues.get_queue_attributes("emails").hiddenmsgs > 20)
    seconds, _ = demo.client.time()
    (_, due_ms), *_ = demo.client.zrevrange("rsmq:emails", 0, 0, withscores=True)
    assert 15 < due_ms / 1000 - seconds <= 61
    demo.turn("delays", "emails", on=False)


def test_a_wrong_clock_makes_old_ids(demo: Demo) -> None:
    demo.turn("wrong-clock")

    def newest_age_s() -> float:
        seconds, _ = demo.client.time()
        ids = demo.client.zrange("rsmq:orders", 0, -1)
        return max((seconds - (sent_ms(id.decode(), now_ms=seconds * 1000) or 0) / 1000 for id in ids), default=0.0)

    wait_until(lambda: 3_590 < newest_age_s() < 3_700)
    demo.turn("wrong-clock", on=False)


def test_odd_dates_are_in_seconds_and_leave_with_their_control(demo: Demo) -> None:
    demo.turn("odd-dates")

    def odd() -> list[bytes]:
        return [id for id in demo.client.zrange("rsmq:orders", 0, -1) if len(id) == 28]

    wait_until(lambda: len(odd()) > 3)
    wait_until(lambda: any(int(demo.client.hget("rsmq:orders:Q", id + b":rc") or 0) > 0 for id in odd()))
    assert "deleted" in demo.turn("odd-dates", on=False)
    wait_until(lambda: odd() == [])


def test_a_slow_server_is_slow_and_works(demo: Demo) -> None:
    demo.turn("server-slow", "")
    wait_until(lambda: _state(demo.server.pid) == "T")
    wait_until(lambda: _state(demo.server.pid) != "T")
    demo.wait_until_grown("totalrecv")
    demo.turn("server-slow", "", on=False)
    assert _state(demo.server.pid) != "T"


def test_a_paused_server_does_not_answer_until_it_goes_on(demo: Demo) -> None:
    demo.turn("server-pause", "")
    with pytest.raises(redis.TimeoutError):
        demo.client.ping()
    demo.turn("server-pause", "", on=False)
    demo.wait_until_grown("totalrecv")


def test_a_server_that_is_cut_off_refuses_connections_and_keeps_its_data(demo: Demo) -> None:
    pid = demo.server.pid
    demo.client.set("kept", "1")
    demo.turn("server-cut", "")
    with pytest.raises(redis.ConnectionError):
        demo.client.ping()
    with pytest.raises(EmbeddedError, match="burst of 1,000 of orders"):
        demo.controls.switch("burst", "orders")
    assert not demo.controls.is_on("burst", "orders")
    demo.turn("server-cut", "", on=False)
    assert demo.client.get("kept") == b"1"
    assert demo.server.pid == pid
    demo.wait_until_grown("totalrecv")


def test_a_server_that_is_shut_down_starts_again_with_its_data(demo: Demo) -> None:
    pid, url = demo.server.pid, demo.server.url
    ended = threading.Thread(target=demo.server.wait, daemon=True)
    ended.start()
    demo.client.set("kept", "2")
    demo.turn("server-down", "")
    with pytest.raises(redis.ConnectionError):
        demo.client.ping()
    wait_until_gone(pid)
    assert demo.server.is_running
    with pytest.raises(EmbeddedError, match="start it again first"):
        demo.controls.switch("server-pause", "")
    demo.turn("server-down", "", on=False)
    assert (demo.server.url, demo.client.get("kept")) == (url, b"2")
    assert demo.server.pid != pid
    demo.wait_until_grown("totalrecv")
    # Who waits for the end of the server does not take this for it.
    assert ended.is_alive()


def test_a_server_whose_port_was_taken_can_be_started_again_later(demo: Demo) -> None:
    demo.turn("server-down", "")
    with socket.create_server(("127.0.0.1", demo.server.port)):
        with pytest.raises(EmbeddedError, match="in use"):
            demo.controls.switch("server-down", "")
        assert demo.controls.is_on("server-down", "")
    demo.turn("server-down", "", on=False)
    demo.wait_until_grown("totalrecv")


def test_a_full_memory_refuses_what_needs_more(demo: Demo) -> None:
    demo.turn("server-full", "")
    with pytest.raises(redis.exceptions.OutOfMemoryError):
        demo.client.set("small", b"x")
    # Nothing is sent or received any more, and what is in work is still deleted.
    sent, received = demo.total("totalsent"), demo.total("totalrecv")
    wait_until(lambda: _refusals(demo.client) > 5)
    assert (demo.total("totalsent"), demo.total("totalrecv")) == (sent, received)
    demo.turn("server-full", "", on=False)
    demo.client.set("small", b"x")
    demo.wait_until_grown("totalrecv")


def _refusals(client: redis.Redis) -> int:
    """How many commands were refused because the memory is full."""
    return int(client.info("errorstats").get("errorstat_OOM", {}).get("count", 0))


def test_a_paused_server_cannot_be_asked_and_says_so(demo: Demo) -> None:
    demo.turn("server-pause", "")
    with pytest.raises(EmbeddedError, match="resume it first"):
        demo.controls.switch("server-down", "")
    assert not demo.controls.is_on("server-down", "")
    demo.turn("server-pause", "", on=False)


def test_each_control_has_a_key_of_its_own_and_says_what_to_expect() -> None:
    controls = (*SERVER_CONTROLS, *CLIENT_CONTROLS)
    assert len({control.key for control in controls}) == len({control.name for control in controls}) == len(controls)
    # Three lines of the pane.
    assert [control.name for control in controls if len(wrap(control.expect, 46)) > 3] == []


def test_each_scenario_begins_with_controls_that_its_queues_have() -> None:
    names = {control.name for control in (*SERVER_CONTROLS, *CLIENT_CONTROLS)}
    for scenario in DEMO_SCENARIOS.values():
        queues = {each.queue: each for each in scenario.queues}
        assert len(queues) == len(scenario.queues)
        for name, queue in scenario.controls:
            assert name in names
            assert name.startswith("server-") if queue == "" else not isinstance(queues[queue], ListScenario)


@pytest.mark.parametrize("name", ["server-slow", "server-pause", "server-down"])
def test_a_demo_that_is_killed_leaves_no_server(name: str) -> None:
    script = """
import sys, signal
from rsmq_tui.cli.demo import EmbeddedServer, WorkloadProcess
from rsmq_tui.cli.demo.control import DemoControls
server = EmbeddedServer()
server.start()
workload = WorkloadProcess(server.url, scenario="healthy")
workload.start()
folder = server._running.folder
controls = DemoControls(server, workload, "healthy")
controls.switch(sys.argv[1], "")
print(server.pid, workload.pid, folder, flush=True)
signal.pause()
"""
    with parent(script, name) as (process, (server, workload, folder)):
        process.send_signal(signal.SIGKILL)
        wait_until_gone(int(server))
        wait_until_gone(int(workload))
        wait_until(lambda: not Path(folder).exists())


def _state(pid: int) -> str:
    """The state of a process, as ps shows it; T is stopped."""
    return subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=True
    ).stdout.strip()[0]


def test_the_end_of_a_demo_lets_a_stopped_server_go() -> None:
    with EmbeddedServer() as server, WorkloadProcess(server.url, scenario="healthy") as workload:
        pid = server.pid
        with DemoControls(server, workload, "healthy") as controls:
            controls.switch("server-slow", "")
            controls.switch("server-pause", "")
            wait_until(lambda: _state(pid) == "T")
        assert _state(pid) != "T"
    assert not is_alive(pid)
