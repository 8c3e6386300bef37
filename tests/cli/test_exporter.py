"""`rsmq-tui exporter` as it is started and ended, and what it prints instead of serving."""

import re
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from redis import Redis

import rsmq_tui.web.exporter
from rsmq_tui.protocol import Rsmq
from tests.cli.conftest import Command
from tests.cli.running import PROGRAM, Running, line_of, printed, started
from tests.hostile.payloads import plant_queue
from tests.waiting import SECONDS_MAX, wait_until
from tests.web.exporter.scraping import ask

pytestmark = pytest.mark.slow

FOLDER = Path(rsmq_tui.web.exporter.__file__).parent


@contextmanager
def serving(*arguments: str) -> Iterator[tuple[Running, str, str]]:
    """A process that serves on a free port, its URL, and the line that it began with."""
    with started(*PROGRAM, *arguments, "--port", "0") as process:
        line = line_of(process.stderr)
        found = re.search(r"http://\S+/metrics$", line)
        assert found, line
        yield process, found[0].removesuffix("/metrics"), line


def test_it_serves_until_it_is_ended(redis_url: str, client: Redis) -> None:
    Rsmq(client, ns="jobs").create_queue("orders")
    Rsmq(client, ns="jobs").send_messages("orders", ["a", "b"])
    with serving("-r", redis_url, "exporter", "--ns", "jobs") as (process, url, line):
        answer = ask(url)
        health = ask(url, "/healthz")
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=SECONDS_MAX)

    assert "on this machine only (--host 0.0.0.0 accepts connections from others): http://127.0.0.1:" in line
    assert answer.value("rsmq_queue_ready_messages", ns="jobs", queue="orders") == 2
    assert answer.value("rsmq_up", ns="jobs") == 1
    # Where no profile was named, there is no such label: an empty one is none.
    assert {sample.labels.get("profile", "") for sample in answer.samples} == {""}
    assert (health.status, health.text) == (200, "ok\n")
    assert (process.returncode, out, err) == (0, "", "")


def test_ctrl_c_ends_it_even_without_a_server() -> None:
    with serving("-r", "redis://user:secret@127.0.0.1:1/0", "exporter", "--host", "0.0.0.0") as (process, url, line):
        port = url.rpartition(":")[2]
        answer = ask(f"http://127.0.0.1:{port}")
        health = ask(f"http://127.0.0.1:{port}", "/healthz")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=SECONDS_MAX)

    assert line == f"rsmq-tui: listening: http://0.0.0.0:{port}/metrics\n"
    assert answer.value("rsmq_up", server="redis://127.0.0.1:1/0") == 0
    assert (health.status, "connection refused" in health.text) == (503, True)
    assert "secret" not in f"{line}{answer.text}{health.text}{out}{err}"
    assert (process.returncode, out, err) == (130, "", "")


def test_several_profiles_are_served_at_once(live_and_dead: Path) -> None:
    with serving("--config", str(live_and_dead), "exporter", "--profile", "live,dead") as (process, url, _):
        answer = ask(url)
        health = ask(url, "/healthz")
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=SECONDS_MAX)

    assert answer.values("rsmq_up", profile="live") == [1, 1]
    assert answer.value("rsmq_up", profile="dead") == 0
    assert [answer.values("rsmq_queues", ns=ns) for ns in ("jobs", "mails", "rsmq")] == [[1], [1], []]
    assert health.status == 503
    assert health.text.startswith("dead redis://127.0.0.1:1/0 rsmq: connection refused;")
    assert health.text.count("\n") == 1
    assert (process.returncode, out, err) == (0, "", "")


def test_lists_are_served_beside_namespaces(redis_url: str, client: Redis, tmp_path: Path) -> None:
    client.lpush("queue:mail", "a", "b")
    config = tmp_path / "config.toml"
    config.write_text(f'[profiles.live]\nurl = "{redis_url}"\nlists = ["queue:*"]\n')
    with serving("--config", str(config), "--profile", "live", "exporter") as (process, url, _):
        answer = ask(url)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=SECONDS_MAX)

    assert answer.value("rsmq_queue_ready_messages", profile="live", ns="(lists)", kind="list", queue="queue:mail") == 2
    assert [answer.value("rsmq_queues", ns=ns) for ns in ("rsmq", "(lists)")] == [0, 1]
    assert (process.returncode, out, err) == (0, "", "")


def test_queues_whose_trouble_is_expected_are_marked(redis_url: str, client: Redis, tmp_path: Path) -> None:
    for queue in ("orders", "orders-dead"):
        Rsmq(client).create_queue(queue)
    config = tmp_path / "config.toml"
    config.write_text(f'[profiles.live]\nurl = "{redis_url}"\nignore = ["*-dead"]\n')
    with serving("--config", str(config), "--profile", "live", "exporter") as (process, url, _):
        answer = ask(url)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=SECONDS_MAX)

    assert answer.value("rsmq_queue_expected") == answer.value("rsmq_queue_expected", queue="orders-dead") == 1


def test_only_the_queues_that_are_named(redis_url: str, client: Redis) -> None:
    for queue in (b"orders", b"mail-a", b"mail-b", b"other", b"[x]"):
        plant_queue(client, queue)
    chosen = ("--queue", "orders", "--queue", "mail-*", "--queue", "[x]")
    with serving("-r", redis_url, "exporter", *chosen) as (process, url, _):
        answer = ask(url)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=SECONDS_MAX)

    assert answer.verdicts().keys() == {"orders", "mail-a", "mail-b", "[x]"}
    assert answer.value("rsmq_queues") == 5


def test_queues_are_named_as_other_commands_accept_them(redis_url: str, client: Redis) -> None:
    for queue in (b"orders", b"reports"):
        plant_queue(client, queue)
    client.lpush("queue:mail", "a")
    client.lpush("queue:push", "a")
    named = ("list:queue:mail", "rsmq:rsmq/o*", "l*", "rsmq:jobs/reports")
    chosen = ("--lists", "queue:*", *(part for name in named for part in ("--queue", name)))
    with serving("-r", redis_url, "exporter", *chosen) as (process, url, _):
        line = line_of(process.stderr)
        answer = ask(url)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=SECONDS_MAX)

    assert answer.verdicts().keys() == {"orders", "queue:mail"}
    assert line == "rsmq-tui: there is no queue l* or rsmq:jobs/reports yet; once there is, it is exported\n"


def test_it_says_which_queues_are_not_there(redis_url: str, client: Redis) -> None:
    Rsmq(client).create_queue("orders")
    named = ("--queue", "orders", "--queue", "order", "--queue", "mail-*")
    with serving("-r", redis_url, "exporter", *named) as (process, url, _):
        line = line_of(process.stderr)
        Rsmq(client).create_queue("mail-a")
        wait_until(lambda: ask(url).verdicts().keys() == {"orders", "mail-a"}, "it is exported")
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=SECONDS_MAX) == ("", "")

    assert line == "rsmq-tui: there is no queue order or mail-* yet; once there is, it is exported\n"


def test_a_port_that_is_taken_is_one_sentence(command: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = command("exporter", "--port", str(port))

    assert (done.status, done.out) == (2, b"")
    assert done.err == (
        f"rsmq-tui: cannot listen on 127.0.0.1 port {port}: Address already in use; "
        "choose another with --host and --port\n"
    )


@pytest.mark.parametrize("host", ["192.0.2.1", "no\x00host", "x" * 70, "[::1"])
def test_an_address_that_cannot_be_had_is_one_sentence(command: Command, host: str) -> None:
    done = command("exporter", "--host", host)

    assert (done.status, done.out) == (2, b"")
    assert done.err.count("\n") == 1
    assert done.err.startswith("rsmq-tui: cannot listen on ")
    assert done.err.rstrip("\n").isprintable()


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        ("--port 65536", "is not a port from 0 to 65,535"),
        ("--port -1", "is not a port"),
        ("--port 9e3", "is not a port"),
        ("--timeout 0", "'0' is not between 0.1s and 1,000,000s"),
        ("--interval nan", "'nan': a duration is a number of seconds, or has a unit"),
        ("--min-interval -1", "'-1' is not between 0s and 1,000,000s"),
        ("--print-rules --print-dashboard", "cannot be combined"),
    ],
)
def test_wrong_values_are_refused_with_what_is_allowed(anywhere: Command, arguments: str, printed: str) -> None:
    done = anywhere("exporter", *arguments.split())

    assert (done.status, printed in done.err) == (2, True)


@pytest.mark.parametrize(
    ("option", "name"), [("--print-rules", "alert_rules.yml"), ("--print-dashboard", "grafana_dashboard.json")]
)
def test_the_examples_are_printed_as_they_are(anywhere: Command, option: str, name: str) -> None:
    done = anywhere("exporter", option)

    assert (done.status, done.err) == (0, "")
    assert done.out == (FOLDER / name).read_bytes()


def test_its_help_has_examples_and_exit_statuses(anywhere: Command) -> None:
    done = anywhere("exporter", "--help")

    assert done.status == 0
    for word in ("--print-rules > ", "--host", "--min-interval", "Exit status:", "130"):
        assert word in done.text


@pytest.mark.parametrize("module", ["rsmq_tui.cli.commands", "rsmq_tui.cli.dashboard", "rsmq_tui.monitor"])
def test_nothing_else_loads_prometheus(module: str) -> None:
    code = f"import sys, rsmq_tui.cli.main, {module}; print(*sorted(sys.modules))"
    assert not {"prometheus_client", "http.server", "rsmq_tui.web.exporter"} & set(printed(code).split())
