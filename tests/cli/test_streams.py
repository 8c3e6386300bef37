"""Standard streams that are closed before the program starts, as `>&-` does in a shell."""

import subprocess
from pathlib import Path

import pytest
from redis import Redis

from rsmq_tui.protocol import Rsmq
from tests.cli.running import PROGRAM, environment
from tests.waiting import SECONDS_MAX

pytestmark = pytest.mark.slow


def _with(closed: str, state: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["sh", "-c", f'"$@" {closed}', "sh", *PROGRAM, *arguments],
        env=environment(XDG_STATE_HOME=str(state)), capture_output=True, text=True, timeout=SECONDS_MAX, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    "arguments",
    [["queues", "list"], ["messages", "delete", "orders", "--all", "--yes"], ["doctor"], ["help"]],
    ids=" ".join,
)
def test_without_an_output_nothing_is_done(
    arguments: list[str], redis_url: str, orders: Rsmq, client: Redis, state: Path
) -> None:
    done = _with(">&-", state, "-r", redis_url, *arguments)
    assert (done.returncode, done.stderr) == (2, "rsmq-tui: standard output is closed: nothing was done\n")
    assert client.zcard("rsmq:orders") == 6


def test_without_an_input(redis_url: str, orders: Rsmq, client: Redis, state: Path) -> None:
    for arguments, status in ((["queues", "list"], 0), (["doctor"], 0), (["who", "orders"], 3)):
        done = _with("<&-", state, "-r", redis_url, *arguments)
        assert (done.returncode, "Traceback" in done.stderr) == (status, False)
    done = _with("<&-", state, "-r", redis_url, "messages", "send", "orders", "--file", "-", "--yes")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "rsmq-tui: standard input is closed: there is no body to send\n"
    assert client.zcard("rsmq:orders") == 6


def test_without_an_error_output(redis_url: str, orders: Rsmq, state: Path) -> None:
    assert _with("2>&-", state, "-r", redis_url, "queues", "list").returncode == 0
    done = _with("2>&-", state, "-r", "redis://127.0.0.1:1", "queues", "list")
    assert (done.returncode, done.stdout) == (2, "")


def test_the_help_of_a_group_without_its_command_quotes_urls(state: Path) -> None:
    done = _with("", state, "messages")
    assert done.returncode == 2
    assert "redis://, rediss:// or unix:// URL" in done.stderr
    assert "(a URL)" not in done.stderr
