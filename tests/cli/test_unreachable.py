"""A server that cannot be read, or a URL that cannot be one: one sentence on stderr, exit status 2, no secret."""

import os
import re
import signal
import sys
from pathlib import Path

import pytest

from rsmq_tui.cli import output
from rsmq_tui.cli.demo import EmbeddedServer
from rsmq_tui.cli.main import main
from rsmq_tui.protocol import Address
from tests.cli.conftest import Command
from tests.cli.running import call, call_waiting
from tests.hostile.terminal import Terminal

SECRET = "hunter2"


def _refusal(*arguments: str, env: dict[str, str] | None = None) -> str:
    done = call(*arguments, env=env)
    return _sentence(done.returncode, done.stdout, done.stderr)


def _sentence(status: int, out: str, err: str) -> str:
    assert (status, out) == (2, "")
    (line,) = err.splitlines()
    assert line.startswith("rsmq-tui: ")
    assert not any(part in line for part in (SECRET, SECRET[:6], "Traceback"))
    return line


@pytest.mark.parametrize(
    ("url", "words"),
    [
        (f"redis://bob:{SECRET}@127.0.0.1:1/3", "cannot read redis://127.0.0.1:1/3: connection refused"),
        (f"redis://:{SECRET}@no-such-host.invalid", "redis://no-such-host.invalid:6379/0: the host name is unknown"),
        (f"rediss://bob:{SECRET}@127.0.0.1:1", "cannot read rediss://127.0.0.1:1/0: connection refused"),
        (f"unix://bob:{SECRET}@/no/such/socket", "cannot read unix:///no/such/socket db 0: the unix socket does not"),
    ],
)
def test_unreachable(url: str, words: str) -> None:
    line = _refusal("-r", url, "snapshot")
    assert words in line
    # What to try comes last.
    assert line.count("; ") >= 1


@pytest.mark.parametrize(
    "url",
    [
        f"http://bob:{SECRET}@host",
        f"bob:{SECRET}@host",
        "localhost",
        f"redis://bob:{SECRET}@host/{SECRET}",
        f"redis://bob:{SECRET}@host:{SECRET}",
        f"redis://:{SECRET}/slash@host",
        f"redis://:{SECRET}#hash@host",
        f"redis://:{SECRET}?mark@host",
        f"redis://bob:{SECRET}@host:99999",
        f"redis://bob:{SECRET}@[::1",
        f"redis://bob:{SECRET}@host?no_such_option=1",
        f"redis://bob:{SECRET}@host?socket_timeout={SECRET}",
        "unix://",
    ],
)
def test_a_url_that_cannot_be_one(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["-r", url, "snapshot"])
    printed = capsys.readouterr()
    assert "not a Redis URL" in _sentence(status, printed.out, printed.err)


def test_the_dashboard_refuses_a_bad_url_before_it_opens() -> None:
    assert "not a Redis URL" in _refusal("-r", "nonsense")
    assert "not a Redis URL" in _refusal(env={"REDIS_URL": "nonsense"})


def test_a_password_that_is_wanted_wrong_or_right() -> None:
    with EmbeddedServer(extra=("--requirepass", SECRET)) as server:
        address = server.url.removeprefix("redis://")
        assert "the server requires a password" in _refusal("-r", server.url, "snapshot")
        assert "the server refused the user name or password" in _refusal("-r", f"redis://:wrong@{address}", "snapshot")
        done = call("-r", f"redis://:{SECRET}@{address}", "snapshot")
        assert (done.returncode, done.stderr) == (0, "")
        assert SECRET not in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        *(["snapshot"], ["snapshot", "--lists", "queue:*"], ["queues", "list"], ["check"]),
        *(["messages", verb, "orders"] for verb in ("list", "export")),
        *(["messages", "list", queue] for queue in ("*", "list:*", "list:queue:orders")),
        *(["messages", "get", "orders", "x"], ["messages", "get", "orders", "--filter", "x"]),
        *(
            ["messages", "delete", "orders", "--all"],
            ["messages", "delete", "*", "--all"],
            ["queues", "delete", "orders"],
        ),
        *(["audit"], ["audit", "--lists", "queue:*"], ["who", "orders", "--yes"]),
    ],
    ids=" ".join,
)
def test_a_terminal_is_told_which_server_is_waited_for(
    frozen: EmbeddedServer, state: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setattr(output, "_PROGRESS_AFTER_S", 0.05)
    words = f" s for {Address(frozen.url).label}; gives up after 5 s without an answer"
    done = call_waiting(frozen, words, *arguments)
    *_, waited, rest = done.stderr.rpartition(words)
    assert waited, done
    # What is said next takes its place.
    assert rest.lstrip(" ").startswith("\r")
    assert done.stdout.strip() or rest.strip()


def test_a_real_terminal_says_which_server_is_waited_for(frozen: EmbeddedServer, tmp_path: Path) -> None:
    with Terminal("-r", frozen.url, "queues", "list", settings=tmp_path) as terminal:
        terminal.wait_for("waiting ", f" s for {Address(frozen.url).label}; gives up after 5 s without an answer")
        os.kill(frozen.pid, signal.SIGCONT)
        terminal.wait_for_end()
        assert terminal.screen.text.strip()
        assert "waiting" not in terminal.screen.text


@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "pipe"])
def test_nothing_is_said_of_the_wait_if_a_program_reads_the_output(
    frozen: EmbeddedServer, anywhere: Command, monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    done = anywhere("-r", frozen.url, "check", "--timeout", "3", terminal=terminal)
    words = "not done within 3 s: nothing was read: check whether it is overloaded or allow more time"
    assert (done.status, words in done.text) == (3, True)
    # What is left of the three seconds when the poll begins.
    assert bool(re.search(r"gives up after [1-3] s without an answer", done.err)) == terminal
    # The last thing that is written is the end of the line.
    assert done.err.endswith("\r") == terminal
