"""`rsmq-tui listserver` as a process: it tells where it listens, serves, and ends as it is asked to."""

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from rsmq_tui.cli.errors import cannot_listen
from tests.cli.conftest import Command
from tests.cli.running import PROGRAM, Running, line_of, started
from tests.waiting import SECONDS_MAX


@contextmanager
def listening(*arguments: str) -> Iterator[tuple[Running, str]]:
    """A process that serves, and the line that it began with."""
    with started(*PROGRAM, "listserver", *arguments) as process:
        yield process, line_of(process.stderr)


@pytest.mark.parametrize(("end", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_it_serves_until_it_is_ended(end: signal.Signals, status: int) -> None:
    with listening("--port", "0") as (process, line):
        found = re.fullmatch(r"rsmq-tui: listening on this machine only, in memory only: (redis://127\S+)\n", line)
        assert found, line
        with redis.Redis.from_url(found[1]) as client:
            assert client.lpush("queue", "a") == 1
            process.send_signal(end)
            assert process.wait(SECONDS_MAX) == status
            with pytest.raises(redis.ConnectionError):
                client.ping()


def test_shutdown_ends_it() -> None:
    with listening("--port", "0") as (process, line), redis.Redis.from_url(line.split()[-1]) as client:
        client.shutdown()
        assert process.wait(SECONDS_MAX) == 0


def test_a_socket_is_all_that_it_listens_on(tmp_path: Path) -> None:
    path = tmp_path / "lists.sock"
    with listening("--unixsocket", str(path)) as (process, line):
        assert line == f"rsmq-tui: listening, in memory only: unix://{path}\n"
        with redis.Redis(unix_socket_path=str(path)) as client:
            assert client.ping()
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS_MAX) == 0
    assert not path.exists()


def test_a_password_comes_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret\nsecond line\n")
    with listening("--port", "0", "--password-file", str(tmp_path / "secret")) as (_, line):
        url = line.split()[-1]
        with redis.Redis.from_url(url) as client, pytest.raises(redis.AuthenticationError):
            client.ping()
        with redis.Redis.from_url(url, password="s3cret") as client:
            assert client.ping()


def test_what_cannot_be_served_is_refused(anywhere: Command, tmp_path: Path) -> None:
    for arguments, words in (
        (["--host", "0.0.0.0"], "0.0.0.0 can be reached from other machines: set a password"),
        (["--password-file", str(tmp_path / "none")], "the password cannot be read"),
        (["--unixsocket", str(tmp_path / "none" / "s")], "cannot listen on"),
        (["--password", "a", "--password-file", "b"], "--password"),
        (["--host", "192.0.2.1", "--password", "a"], "192.0.2.1 port 6390: Cannot assign requested address; choose "),
    ):
        done = anywhere("listserver", *arguments)
        assert done.status == 2
        assert words in done.err
    # So asyncio of Python 3.13 says it.
    error = OSError("could not bind on any address out of [('192.0.2.1', 6390)]")
    assert "192.0.2.1 port 6390: Cannot assign requested address; " in str(cannot_listen("192.0.2.1", 6390, error))
