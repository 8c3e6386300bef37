"""`rsmq-tui demo --headless`: a server and a workload for scripts, gone when it ends."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from rsmq_tui.cli.changes import service_of
from rsmq_tui.cli.commands.demo import address_of
from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.cli.demo.scenarios import DEMO_SCENARIOS, LIST_SCENARIOS
from rsmq_tui.cli.places import place_of
from rsmq_tui.monitor import RsmqPoller
from rsmq_tui.profiles import Profile
from rsmq_tui.protocol import Address, Rsmq, RsmqReader
from rsmq_tui.triage.actions import Delete
from rsmq_tui.triage.scope import Everything
from rsmq_tui.tui.app import RsmqApp
from rsmq_tui.tui.servers import WatchedServer
from tests.cli.demo.processes import is_alive, wait_until_gone
from tests.cli.running import PROGRAM, Running, call, environment, line_of, started
from tests.hostile.terminal import Terminal
from tests.tui.driving import until
from tests.tui.reading import names_in, text_of
from tests.waiting import SECONDS_MAX, wait_until

pytestmark = pytest.mark.slow


@contextmanager
def _demo(*arguments: str) -> Iterator[tuple[Running, str, int]]:
    """Run a headless demo; gives it, its URL and its server's process id."""
    with started(*PROGRAM, "demo", "--headless", *arguments) as process:
        url = line_of(process.stdout).strip()
        with redis.Redis.from_url(url) as client:
            yield process, url, client.info("server")["process_id"]


def test_prints_its_url_first_and_works() -> None:
    with _demo() as (_, url, _pid):
        assert url.startswith("redis://127.0.0.1:")

        def is_at_work() -> bool:
            queues = json.loads(call("-r", url, "snapshot").stdout)["queues"]
            return len(queues) >= 5 and sum(queue["totalsent"] for queue in queues) > 0

        wait_until(is_at_work)


def test_ends_when_its_time_is_over_and_leaves_no_process() -> None:
    with _demo("--seconds", "0.5") as (process, _, server_pid):
        out, err = process.communicate(timeout=SECONDS_MAX)
        assert (process.returncode, out, err) == (0, "", "")
        wait_until_gone(server_pid)


def test_scenarios_are_listed_and_one_can_be_begun_with() -> None:
    listed = call("demo", "--list").stdout.splitlines()
    assert [line.split()[0] for line in listed[1:]] == list(DEMO_SCENARIOS)
    with _demo("--scenario", "dead-letters") as (_, url, _pid), redis.Redis.from_url(url) as client:
        wait_until(lambda: client.zcard("rsmq:orders-dlq") == 40)
        assert not client.exists("rsmq:invoices:Q")


def test_a_scenario_of_clients_begins_at_once_and_one_of_the_server_later() -> None:
    with _demo("--scenario", "burst") as (_, url, _pid), redis.Redis.from_url(url) as client:
        wait_until(lambda: int(client.hget("rsmq:orders:Q", "totalsent") or 0) >= 1_000)
    with _demo("--scenario", "lost-connection") as (_, url, pid), redis.Redis.from_url(url, retry=None) as client:
        wait_until(lambda: _is_refused(client))
        assert is_alive(pid)


@pytest.mark.parametrize("end", ["q", signal.SIGTERM])
def test_however_it_ends_nothing_is_left_of_a_server_that_is_paused(end: str | signal.Signals, tmp_path: Path) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    # The path of a socket must be short.
    short = Path(tempfile.mkdtemp(dir="/tmp"))
    try:
        with Terminal("demo", "--scenario", "healthy", settings=folder, environment={"TMPDIR": str(short)}) as terminal:
            terminal.wait_for("? help", "orders")
            assert list(short.iterdir())
            terminal.type("D")
            terminal.wait_for("the server, and", "paused")
            terminal.type("2")
            terminal.wait_for("● on")
            terminal.type("D")
            terminal.wait_until_gone("the server, and")
            terminal.type(end) if isinstance(end, str) else terminal.send(end)
            assert terminal.wait_for_end() == (143 if end is signal.SIGTERM else 0)
            assert "Traceback" not in terminal.screen.text
        wait_until(lambda: not list(short.iterdir()))
    finally:
        shutil.rmtree(short, ignore_errors=True)


@pytest.mark.parametrize(
    "arguments", [("--tour", "--headless"), ("--tour", "--scenario", "poison"), ("--tour", "--read-only")]
)
def test_a_tour_has_a_screen_and_a_scenario_of_its_own_and_changes_queues(arguments: tuple[str, ...]) -> None:
    done = call("demo", *arguments)
    assert done.returncode == 2
    assert "--tour has its own scenario" in done.stderr


def test_without_a_terminal_nothing_is_started() -> None:
    done = call("demo")
    words = "the dashboard needs a terminal; --plain prints it as lines, and --headless runs without it"
    assert (done.returncode, done.stderr) == (2, f"rsmq-tui: {words}\n")


def test_a_tour_begins_with_its_first_step(tmp_path: Path) -> None:
    with Terminal("demo", "--tour", settings=tmp_path, size=(80, 24)) as terminal:
        terminal.wait_for("Tour 1 of 10", "orders-dlq", "ctrl+n skips")
        terminal.type("\x0e")
        terminal.wait_for("Tour 2 of 10")
        terminal.type("q")
        assert terminal.wait_for_end() == 0


def _is_refused(client: redis.Redis) -> bool:
    try:
        client.ping()
    except redis.ConnectionError:
        return True
    return False


def test_its_namespace_can_be_chosen() -> None:
    with _demo("--ns", "jobs") as (_, url, _pid), redis.Redis.from_url(url) as client:
        rsmq = Rsmq(client, ns="jobs")

        def names() -> list[str]:
            found = json.loads(call("-r", url, "--ns", "jobs", "snapshot").stdout)["queues"]
            return [queue["name"] for queue in found]

        # The queues are created after the URL is printed.
        wait_until(lambda: bool(known := sorted(rsmq.list_queues())) and names() == known)


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda sent: sent.name)
def test_ended_from_outside_it_leaves_no_process(sent: signal.Signals) -> None:
    with _demo() as (process, _, server_pid):
        process.send_signal(sent)
        process.wait(timeout=SECONDS_MAX)
        wait_until_gone(server_pid)
        if sent is signal.SIGINT:
            assert process.stderr is not None
            assert "Traceback" not in process.stderr.read()


def test_it_ends_with_its_producers_and_consumers() -> None:
    with _demo() as (process, url, server_pid), redis.Redis.from_url(url) as client:
        # The demo creates the queues before their producers and consumers begin.
        wait_until(lambda: client.exists("rsmq:orders:Q") == 1 and bool(_workloads_of(process)))
        (workload,) = _workloads_of(process)
        os.kill(workload, signal.SIGKILL)
        _, err = process.communicate(timeout=SECONDS_MAX)
        assert process.returncode == 2
        wait_until_gone(server_pid)
        ended = "rsmq-tui: the demo's producers and consumers have ended: exit status -9; restart rsmq-tui demo"
        assert err.splitlines()[-1] == ended


def _workloads_of(demo: Running) -> list[int]:
    """Return the process ids of a demo's producers and consumers."""
    lines = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True
    ).stdout
    return [
        int(pid)
        for pid, parent, *words in map(str.split, lines.splitlines())
        if parent == str(demo.pid) and "rsmq_tui.cli.demo.workload" in words
    ]


def test_another_server_at_its_address_gets_nothing() -> None:
    with _demo() as (process, url, server_pid):
        os.kill(server_pid, signal.SIGKILL)
        with EmbeddedServer(port=int(url.rpartition(":")[2].partition("/")[0])), redis.Redis.from_url(url) as client:
            _, err = process.communicate(timeout=SECONDS_MAX)
            assert process.returncode == 2
            assert "the demo's server has ended; restart rsmq-tui demo" in err
            assert "Traceback" not in err
            assert client.dbsize() == 0


_NO_PROGRAM = """
import sys
from unittest import mock
from rsmq_tui.cli.main import main
from rsmq_tui.cli.demo import ServerNotFound
if {without_lua}:
    sys.modules["lupa"] = None
with mock.patch("rsmq_tui.cli.demo.server.find_server", side_effect=ServerNotFound("install one")):
    sys.exit(main(["demo", "--headless"]))
"""


@pytest.mark.parametrize("without_lua", [False, True])
def test_without_a_server_program_it_runs_on_the_list_server(without_lua: bool) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _NO_PROGRAM.format(without_lua=without_lua)],
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            printed = process.stderr.readline()
            url = process.stdout.readline().strip()
            missing = ", without RSMQ queues and leases: pip install 'rsmq-tui[listserver]' adds them"
            assert printed == (
                f"no Valkey or Redis was found: the demo runs on the list server{missing if without_lua else ''}\n"
            )
            lists = {"queue:webhooks-out", "queue:imports"} if without_lua else {item.queue for item in LIST_SCENARIOS}
            with redis.Redis.from_url(url) as client:
                assert client.info("server")["server_name"] == "listserver"

                def are_there() -> bool:
                    assert process.poll() is None
                    # A list whose items are all being processed does not exist.
                    there = {key.decode() for key in client.scan_iter("queue:*", _type="list")}
                    return lists <= {key.removesuffix(":processing") for key in there}

                wait_until(are_there)
            found = json.loads(call("-r", url, "--lists", "queue:*", "snapshot").stdout)["queues"]
            assert {queue["name"] for queue in found if queue["kind"] == "list"} == lists
            assert any(queue["kind"] == "rsmq" for queue in found) != without_lua
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=SECONDS_MAX) == 130
            assert "Traceback" not in process.stderr.read()
        finally:
            process.kill()


async def test_what_a_demo_keeps_for_undo_ends_with_it(redis_url: str, client: redis.Redis, tmp_path: Path) -> None:
    Rsmq(client).create_queue("a")
    Rsmq(client).send_message("a", "one")
    profile = Profile("", Address(redis_url), ("rsmq",))
    triage = service_of(place_of(profile), tmp_path)
    try:
        preview = await triage.preview(Delete(queue="a"), Everything())
        assert dict(preview.rows_with("u"))["undo"] == "kept until the demo ends (u)"
        await triage.run(preview).to_end()
        assert (await triage.preview_undo()).count == 1
    finally:
        await triage.aclose()


async def test_a_demo_whose_server_has_ended_says_so_and_what_to_do() -> None:
    with EmbeddedServer() as server:
        with redis.Redis.from_url(server.url) as client:
            Rsmq(client).create_queue("orders")
        app = RsmqApp([WatchedServer(RsmqPoller(RsmqReader(address_of(server)), interval_s=0.05))])
        app.animation_level = "none"
        async with app.run_test(size=(80, 24)) as pilot:
            await until(pilot, lambda: names_in(pilot) == ["orders"], "the queue is shown")
            os.kill(server.pid, signal.SIGKILL)
            ended = re.compile(r"✗ stale \d+ s · the demo's server has ended; restart rsmq-tui demo ")
            await until(pilot, lambda: ended.search(text_of(app).splitlines()[0]), "the header says so")
    # One that is there and cannot be reached is told as any other.
    address = Address("redis://127.0.0.1:1/0", ended=lambda: None)
    poller = RsmqPoller(RsmqReader(address))
    failure = (await poller.poll()).connection.failure
    await poller.aclose()
    assert failure is not None
    assert failure.kind == "refused"
